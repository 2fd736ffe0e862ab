"""Forward selection: the one loop."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length

from termwise._arrays import Array, as_columns, at, from_host, is_foreign, precision, put, smallest, to_host
from termwise._checks import (
    check_counts,
    check_foreign,
    check_indices,
    check_targets,
    check_total,
)
from termwise.design.files import RowFile, beyond_memory
from termwise.design.stored import Design
from termwise.execution.collections import Chunks, cut, is_dask
from termwise.execution.dask import Reading, dask_blocks
from termwise.execution.local import Executor, local_blocks
from termwise.linalg.criteria import CRITERIA
from termwise.selection.effective_candidates import number_of_different
from termwise.selection.path import SelectionPath, Step, choose_size
from termwise.selection.rules import Choice, ClosedForm, CostRule, Rule
from termwise.selection.settings import Settings
from termwise.selection.state import State
from termwise.selection.stopping import at_a_limit, out_of_patience
from termwise.selection.swap import swap

STOPPED = "stopped by a callback"
BEYOND_CACHES = 1 << 27  # bytes
PROMISING = 64
FEW = 16  # terms a path has, if it is not said how many


def forward_path(
    G: Any,
    y: ArrayLike,
    *,
    rule: str | Rule = "loo",
    alpha: float | str = 1e-6,
    penalty: str = "weights",
    max_terms: int | None = None,
    criterion: str | None = None,
    patience: int | None = None,
    max_seconds: float | None = None,
    include: ArrayLike = (),
    refine: str | None = None,
    beta: float = 1e-6,
    cv: Any = 5,
    precompute: bool | str = "auto",
    fit_intercept: bool = True,
    sample_weight: ArrayLike | None = None,
    block_rows: int | None = None,
    callback: Callable[[SelectionPath], bool | None] | None = None,
) -> SelectionPath:
    """Choose terms one by one.

    Each step adds the candidate the rule likes best to a model with penalised weights, and records every criterion.
    One pass over G per term; G is never copied nor written to (sparse rows are turned into sparse columns once).

    Parameters
    ----------
    G : array-like, sparse matrix, memory map, rows of a file, design, Dask array or data frame of shape (n, p)
        Candidates, one per column, in float32 or float64; rows of a file as `open_rows` returns them, a design as
        `RadialBasis.design` does. Those of Dask stay on the cluster in use. An array of PyTorch,
        CuPy or another library of the array API stays on its device, and so does the work.
    y : array-like of shape (n,) or (n, q)
        Targets; several outputs share their terms.
    rule : {"loo", "cost", "sse", "gcv", "kfold", "loo_error", "d_optimal", "norm"} or Rule, default="loo"
        What the next term is chosen by: the exact leave-one-out error, the drop of the regularised cost or of the
        squared error, GCV, the exact K-fold error, the number of leave-one-out misclassifications (of targets -1 and
        +1), error reduction with D-optimality, or the rest of the column alone. Or a rule of one's own, an instance of
        a subclass of `termwise.selection.Rule`.
    alpha : float or "reestimate", default=1e-6
        The penalty, or have it re-estimated by GCV after each term (Orr 7.2).
    penalty : {"weights", "orthogonal"}, default="weights"
        What is penalised: the weights, or those of the orthogonalised terms (ROLS).
    max_terms : int or None, default=None
        Most terms; None: as many as the data can determine.
    criterion : {"loo", "gcv", "uev", "fpe", "bic", "one_se", "tcr", "tcr_effective", "tcr_sequential"}, default=None
        How many terms are wanted, for `patience` and `refine`; the path itself goes on. None: all of them.
    patience : int or None, default=None
        End the path once the criterion's choice has not changed for that many terms. With "tcr" and at least two
        candidates for each sample, also once that many terms in a row are of no significance to "tcr_sequential".
    max_seconds : float or None, default=None
        End the path after that time, with what there is.
    include : array-like of int, default=()
        Candidates that are always in, taken first.
    refine : {"swap"} or None, default=None
        "swap" exchanges the terms the criterion keeps, one for one, until no exchange makes the model better by the
        rule. Needs a penalty on the weights that is a number (zero with the rule "d_optimal").
    beta : float, default=1e-6
        Weight of D-optimality in the rule "d_optimal".
    cv : int, splitter or iterable, default=5
        Folds of the rule "kfold": a number, any scikit-learn splitter whose folds partition the rows, or pairs
        (train, test).
    precompute : bool or "auto", default="auto"
        Compute `G'G` once and save the pass over G at every term. "auto" does so for dense float64 candidates when many
        of them are to be taken, which is when it is faster.
    fit_intercept : bool, default=True
        Whether the models have an unpenalised intercept.
    sample_weight : array-like of shape (n,), default=None
        How often each sample counts.
    block_rows : int or None, default=None
        Work on that many rows at a time; None: on all at once. Of Dask data the chunks are the blocks.
    callback : callable or None, default=None
        Called with the path after each term (its weights are there once it has ended); a true answer ends it.

    Returns
    -------
    path : SelectionPath
        The terms in order, the criteria of every size and the weights of every size.

    Notes
    -----
    Refining takes one look at all candidates per term and round, but no pass over G unless a term is exchanged: a round
    costs about one to two times the path, and there are two of them or, where many terms are exchanged, several.
    If no exchange is better the path is the same as without. Else it ends at the size the criterion chose and has the
    refined terms, in the order the rule takes them when there are no others; `n_swaps` counts the exchanges. What is
    better by the rule need not predict better: no rule counts that it was asked about ever more models.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import forward_path
    >>> rng = np.random.default_rng(0)
    >>> G = rng.normal(size=(200, 50))
    >>> y = 3 * G[:, 10] + G[:, 20] + rng.normal(size=200)
    >>> path = forward_path(G, y, max_terms=5)
    >>> path.terms[:2].tolist(), path.stop_reason
    ([10, 20], 'max_terms=5 reached')
    """
    settings = Settings(
        rule,
        alpha,
        penalty,
        max_terms,
        criterion,
        patience,
        max_seconds,
        include,
        beta,
        cv,
        precompute,
        fit_intercept,
        block_rows,
        refine=refine,
    )
    settings.check()
    if is_dask(G, y, sample_weight):
        return grow_far(cut(G, y, sample_weight), Reading(), settings, callback)
    design, Y, counts, one_output = _read(G, y, sample_weight)
    return grow(design, Y, counts, settings, one_output, callback)


def grow(
    G: Any,
    Y: NDArray,
    counts: NDArray,
    settings: Settings,
    one_output: bool,
    callback: Callable[[SelectionPath], bool | None] | None = None,
) -> SelectionPath:
    """Grow a path on checked data in this process."""
    precompute = _gram_pays(G, settings) if settings.precompute == "auto" else bool(settings.precompute)
    rows = local_blocks(G, Y, counts, settings.block_rows, _reserve(settings))
    return grow_on(rows, replace(settings, precompute=precompute), one_output, callback)


def grow_far(
    chunks: Chunks,
    reading: Reading,
    settings: Settings,
    callback: Callable[[SelectionPath], bool | None] | None = None,
) -> SelectionPath:
    """Grow a path on the workers of a Dask cluster; "auto" is not to compute `G'G` there."""
    rows = dask_blocks(chunks, replace(reading, reserve=_reserve(settings)))
    return grow_on(rows, replace(settings, precompute=settings.precompute is True), rows.one_output, callback)


def grow_on(
    rows: Executor,
    settings: Settings,
    one_output: bool,
    callback: Callable[[SelectionPath], bool | None] | None = None,
    rule: Rule | None = None,
) -> SelectionPath:
    """Grow a path on rows wherever they are: the loop. What `precompute` "auto" means must be settled.

    A rule that is given is used instead of the one the settings name.
    """
    started, p = time.perf_counter(), rows.n_candidates
    forced = check_indices("include", settings.include, p, what="term")
    fresh = settings.make_rule(rows) if rule is None else rule
    rule = copy.copy(fresh)  # it will remember what it has seen of this path
    state = _begin(rows, settings)
    path = SelectionPath(state.n, p, settings.fit_intercept, one_output)
    if settings.criterion == "tcr_effective":
        path.n_different = number_of_different(rows, settings.fit_intercept)
    most = p if settings.max_terms is None else max(settings.max_terms, len(forced))
    limit = min(most, p, int(state.n) - settings.fit_intercept)
    _record(path, state, Choice(-1, np.nan), 0.0, started)
    sizes: list[int] = []
    while not path.stop_reason:
        path.stop_reason = at_a_limit(path, limit, settings, started)
        if path.stop_reason:
            break
        choice = Choice(int(forced[len(path)]), np.nan) if len(path) < len(forced) else rule.choose(state)
        if choice is None:
            path.stop_reason = rule.end
            break
        cost = state.cost
        if settings.precompute or not isinstance(rule, ClosedForm):  # else all that is asked for is in the one pass
            rows.expect(partial(_promising, state))
        if not state.append(choice.index):
            forced = forced[forced != choice.index]
            continue
        reduction = cost - state.cost
        if settings.alpha == "reestimate":
            state.set_alpha(_reestimate(state))
            path._weights[len(path) + 1] = state.weights()  # the factor they come from will not last
        if len(forced) <= len(path) + 1 < limit:
            rule.prepare(state)
        _record(path, state, choice, reduction, started)
        sizes.append(choose_size(path, settings.criterion))
        stopped = callback is not None and callback(path)
        path.stop_reason = STOPPED if stopped else out_of_patience(path, sizes, len(forced), settings)
    path._training = state.training(rows.model_rows())
    if settings.refine is None or path.stop_reason == STOPPED:
        return path
    return _refined(path, state, fresh, forced[: len(path)], settings, started)


def _refined(
    path: SelectionPath,
    state: State,
    rule: Rule,
    forced: NDArray[np.intp],
    settings: Settings,
    started: float,
) -> SelectionPath:
    """Exchange terms of the model the criterion chooses; if any is, return the path of the refined model."""

    def over() -> bool:
        return settings.max_seconds is not None and time.perf_counter() - started > settings.max_seconds

    size = max(choose_size(path, settings.criterion), len(forced))
    for _ in range(len(path) - size):
        state = state.without_newest()
    terms, swaps, end = swap(state, rule, len(forced), over)
    reason = f"{path.stop_reason}; terms exchanged: {swaps}, {end}"
    if swaps:
        path = _path_of(path, state.rows, np.array(terms), rule, len(forced), settings, started)
    path.stop_reason, path.n_swaps = reason, swaps
    return path


def _reserve(settings: Settings) -> int:
    """Columns of Z to make room for."""
    return min(64, (settings.max_terms or 64) + 1)


def _path_of(
    path: SelectionPath,
    rows: Executor,
    terms: NDArray[np.intp],
    rule: Rule,
    fixed: int,
    settings: Settings,
    started: float,
) -> SelectionPath:
    """The path that takes just these terms, the fixed ones first, then in the order of the rule."""
    elapsed = time.perf_counter() - started
    few = replace(settings, max_terms=None, criterion=None, patience=None, max_seconds=None, refine=None)
    first = grow_on(rows.restrict(terms), replace(few, include=np.arange(fixed)), path.one_output, rule=rule)
    if len(first) < len(terms):  # the rule would have ended earlier, but the size was chosen already
        order = [*first.terms, *np.setdiff1d(np.arange(len(terms)), first.terms)]
        first = grow_on(rows.restrict(terms), replace(few, include=order), path.one_output, rule=rule)
    first.steps[1:] = [replace(s, term=int(terms[s.term]), seconds=s.seconds + elapsed) for s in first.steps[1:]]
    return replace(first, n_candidates=path.n_candidates, n_different=path.n_different)


def _begin(rows: Executor, settings: Settings) -> State:
    """Start from the model without terms."""
    tol = 1e-10 if rows.dtype == np.float64 else 1e-5
    reestimated = settings.alpha == "reestimate"
    orthogonal = settings.penalty == "orthogonal"
    alpha = 0.0 if reestimated else float(settings.alpha)
    state = State(rows, alpha, orthogonal, settings.fit_intercept, tol, settings.precompute, settings.min_norm)
    if reestimated:
        squares = to_host(state.s)[to_host(state.usable)]
        state.alpha = 1e-3 * float(np.median(squares)) if len(squares) else 0.0
    return state


def _gram_pays(G: Any, settings: Settings) -> bool:
    """Whether forming `G'G` costs less than the passes it saves.

    A pass is bound by memory, the product by arithmetic: measured, p/24 passes' time for a matrix beyond the caches,
    p/8 for one within. A pass over a file is bound by the disk, and p/128 passes' time is all that the product takes
    beside it; there the number of terms may be guessed.
    """
    n, p = G.shape
    if isinstance(G, RowFile):
        return (settings.max_terms or FEW) > p / 128 and p <= min(n, 4000)
    if settings.max_terms is None or sp.issparse(G) or precision(G.dtype) != np.float64:
        return False
    cached = 8 * n * p <= BEYOND_CACHES and not is_foreign(G)
    return settings.max_terms > p / (8 if cached else 24) and p <= min(n, 4000)


def _promising(state: State) -> NDArray[np.intp]:
    """Candidates that may be looked at closely at the next term, by any rule: those that reduce the cost most."""
    return smallest(to_host(put(-CostRule().scores(state), ~state.usable, 0.0)), PROMISING)[0]


def _read(G: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, NDArray, bool]:
    """Validate; rows of weight zero are left out, sparse rows become sparse columns."""
    unseen = isinstance(G, Design | RowFile)  # its numbers are checked as they are computed or read
    if unseen and G.shape[0] > 1 and G.shape[1]:
        design = G
    elif is_foreign(G):
        design = check_foreign("G", G, min_samples=2)
    else:
        G = np.zeros(G.shape) if unseen else G
        design = check_array(
            G, accept_sparse="csc", dtype=[np.float64, np.float32], ensure_min_samples=2, input_name="G", copy=False
        )
    y = check_targets(y)
    if len(y) != design.shape[0]:
        check_consistent_length(np.empty(design.shape[0]), y)
    counts = check_counts(sample_weight, len(y))
    check_total(counts)
    Y, used, design = as_columns(y), np.flatnonzero(counts), beyond_memory(design)
    if len(used) < len(y):
        rows = design[used] if sp.issparse(design) or isinstance(design, Design | RowFile) else at(design, used)
        design, Y, counts = rows, Y[used], counts[used]
    like = getattr(design, "like", design)
    Y = from_host(Y, like) if is_foreign(like) else Y
    return sparse_columns(design), Y, counts, y.ndim == 1


def sparse_columns(G: Any) -> Any:
    """Return sparse G by columns, which the rules look at one by one; dense G as it is."""
    return sp.csc_array(G) if sp.issparse(G) else G


def _record(path: SelectionPath, state: State, choice: Choice, reduction: float, started: float) -> None:
    """Add a row to the path."""
    q, n, rows = state.q, state.n, state.moments
    loo_sse, sse = np.inf if rows.undefined else float(rows.wrr.sum()) / q, state.sse / q
    spread = np.inf if rows.undefined else np.sqrt(max(rows.spread / q**2 / n - (loo_sse / n) ** 2, 0.0))
    values = {name: float(f(sse, state.dof, n, loo_sse)) for name, f in CRITERIA.items()}
    path.steps.append(
        Step(
            term=choice.index,
            score=choice.score,
            sse=sse,
            cost=state.cost / q,
            dof=state.dof,
            alpha=state.alpha,
            loo_se=spread / np.sqrt(n),
            reduction=reduction / q,
            verified=choice.verified,
            seconds=time.perf_counter() - started,
            **values,
        )
    )


def _reestimate(state: State) -> float:
    """One application of Orr (6.5) to the terms chosen so far."""
    first = state.intercept
    R_inv = np.linalg.inv(state.R[first:, first:])
    A_inv = R_inv @ R_inv.T
    w = state.weights()[0]
    trace = np.trace(A_inv) - state.alpha * np.sum(A_inv * A_inv)
    curvature = np.sum(w * (A_inv @ w))
    freedom = state.n - state.dof
    if curvature <= 0 or freedom <= 0 or trace <= 0:
        return state.alpha
    scale = float(to_host(at(state.norms, np.array(state.chosen))).mean())
    return float(np.clip(state.sse * trace / (curvature * freedom), 1e-15 * scale, 1e15 * scale))
