"""Forward selection: the one loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length

from termwise._arrays import as_columns
from termwise._checks import (
    check_bool,
    check_choice,
    check_counts,
    check_indices,
    check_number,
    check_targets,
    check_total,
)
from termwise.design import Design
from termwise.files import RowFile, beyond_memory
from termwise.selection.criteria import CRITERIA
from termwise.selection.executor import Executor, local_blocks
from termwise.selection.kfold import KFoldRule
from termwise.selection.leave_one_out import LooRule
from termwise.selection.loo_error import LooErrorRule
from termwise.selection.path import SIZES, SelectionPath, Step, choose_size
from termwise.selection.rules import Choice, CostRule, DOptimalRule, GcvRule, NormRule, Rule, SseRule
from termwise.selection.state import State

ALL_RULES: tuple[type[Rule], ...] = (
    LooRule,
    CostRule,
    SseRule,
    GcvRule,
    KFoldRule,
    LooErrorRule,
    DOptimalRule,
    NormRule,
)
RULES = {rule.name: rule for rule in ALL_RULES}
PENALTIES = ("weights", "orthogonal")
BEYOND_CACHES = 1 << 27  # bytes
PROMISING = 64
FEW = 16  # terms a path has, if it is not said how many


def forward_path(
    G: Any,
    y: ArrayLike,
    *,
    rule: str = "loo",
    alpha: float | str = 1e-6,
    penalty: str = "weights",
    max_terms: int | None = None,
    criterion: str | None = None,
    patience: int | None = None,
    max_seconds: float | None = None,
    include: ArrayLike = (),
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
    G : array-like, sparse matrix, memory map, rows of a file or design of shape (n, p)
        Candidates, one per column, in float32 or float64; rows of a file as `open_rows` returns them, a design as
        `RadialBasis.design` does.
    y : array-like of shape (n,) or (n, q)
        Targets; several outputs share their terms.
    rule : {"loo", "cost", "sse", "gcv", "kfold", "loo_error", "d_optimal", "norm"}, default="loo"
        What the next term is chosen by: the exact leave-one-out error, the drop of the regularised cost or of the
        squared error, GCV, the exact K-fold error, the number of leave-one-out misclassifications (of targets -1 and
        +1), error reduction with D-optimality, or the rest of the column alone.
    alpha : float or "reestimate", default=1e-6
        The penalty, or have it re-estimated by GCV after each term (Orr 7.2).
    penalty : {"weights", "orthogonal"}, default="weights"
        What is penalised: the weights, or those of the orthogonalised terms (ROLS).
    max_terms : int or None, default=None
        Most terms; None: as many as the data can determine.
    criterion : {"loo", "gcv", "uev", "fpe", "bic", "one_se", "tcr"} or None, default=None
        Only used with `patience`.
    patience : int or None, default=None
        End the path once the criterion's choice has not changed for that many terms.
    max_seconds : float or None, default=None
        End the path after that time, with what there is.
    include : array-like of int, default=()
        Candidates that are always in, taken first.
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
        Work on that many rows at a time; None: on all at once.
    callback : callable or None, default=None
        Called with the path after each term (its weights are there once it has ended); a true answer ends it.

    Returns
    -------
    path : SelectionPath
        The terms in order, the criteria of every size and the weights of every size.

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
    design, Y, counts, one_output = _read(G, y, sample_weight)
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
    )
    settings.check()
    return grow(design, Y, counts, settings, one_output, callback)


@dataclass(frozen=True)
class Settings:
    """How a path is to grow; `forward_path` says what each means."""

    rule: str
    alpha: Any
    penalty: str = "weights"
    max_terms: int | None = None
    criterion: str | None = None
    patience: int | None = None
    max_seconds: float | None = None
    include: Any = ()
    beta: float = 1e-6
    cv: Any = 5
    precompute: Any = "auto"
    fit_intercept: bool = True
    block_rows: int | None = None
    min_norm: float = 0.0  # a candidate whose rest beside the chosen ones has no larger square is out

    def check(self) -> None:
        """Raise on the first bad one."""
        check_choice("rule", self.rule, RULES)
        check_choice("penalty", self.penalty, PENALTIES)
        check_bool("fit_intercept", self.fit_intercept, remedy="True fits the mean too")
        if self.criterion is not None:
            check_choice("criterion", self.criterion, SIZES, remedy="None keeps every term")
        self._check_alpha()
        for name in ("max_terms", "patience", "block_rows"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=1, integer=True, remedy="None sets no limit")
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, above=0, remedy="None sets no limit")
        check_number("beta", self.beta, low=0, remedy="1e-6 is Hong's")
        check_number("min_norm", self.min_norm, low=0, remedy="0 lets in every column that says something new")
        if self.precompute != "auto":
            check_bool("precompute", self.precompute, remedy="'auto' decides by the sizes")

    def _check_alpha(self) -> None:
        if not isinstance(self.alpha, str):
            check_number("alpha", self.alpha, low=0, remedy="give a small penalty such as 1e-6, or 'reestimate'")
            return
        check_choice("alpha", self.alpha, ["reestimate"], remedy="give a number >= 0 or 'reestimate'")
        if self.penalty != "weights":
            raise ValueError(
                f"penalty must be 'weights' with alpha='reestimate', got {self.penalty!r}: the formula is for the "
                "weights themselves."
            )


def grow(
    G: Any,
    Y: NDArray,
    counts: NDArray,
    settings: Settings,
    one_output: bool,
    callback: Callable[[SelectionPath], bool | None] | None = None,
) -> SelectionPath:
    """Grow a path on checked data in this process."""
    reserve = min(64, (settings.max_terms or 64) + 1)
    precompute = _gram_pays(G, settings) if settings.precompute == "auto" else bool(settings.precompute)
    rows = local_blocks(G, Y, counts, settings.block_rows, reserve)
    return grow_on(rows, replace(settings, precompute=precompute), one_output, callback)


def grow_on(
    rows: Executor,
    settings: Settings,
    one_output: bool,
    callback: Callable[[SelectionPath], bool | None] | None = None,
) -> SelectionPath:
    """Grow a path on rows wherever they are: the loop. What `precompute` "auto" means must be settled."""
    started, p = time.perf_counter(), rows.n_candidates
    forced = check_indices("include", settings.include, p, what="term")
    rule = RULES[settings.rule].build(settings, rows)
    state = _begin(rows, settings)
    path = SelectionPath(state.n, p, settings.fit_intercept, one_output)
    most = p if settings.max_terms is None else max(settings.max_terms, len(forced))
    limit = min(most, p, int(state.n) - settings.fit_intercept)
    _record(path, state, Choice(-1, np.nan), 0.0, started)
    sizes: list[int] = []
    while not path.stop_reason:
        path.stop_reason = _reason_to_stop(path, limit, settings, started)
        if path.stop_reason:
            break
        choice = Choice(int(forced[len(path)]), np.nan) if len(path) < len(forced) else rule.choose(state)
        if choice is None:
            path.stop_reason = rule.end
            break
        cost = state.cost
        rows.expect(_promising(state))
        if not state.append(choice.index):
            forced = forced[forced != choice.index]
            continue
        reduction = cost - state.cost
        if settings.alpha == "reestimate":
            state.set_alpha(_reestimate(state))
            path._weights[len(path) + 1] = state.weights()  # the factor they come from will not last
        _record(path, state, choice, reduction, started)
        sizes.append(choose_size(path, settings.criterion))
        if callback is not None and callback(path):
            path.stop_reason = "stopped by a callback"
        elif _settled(sizes, len(forced), settings.patience):
            path.stop_reason = f"the choice of {settings.criterion!r} has not changed for {settings.patience} terms"
    path._training = state.training()
    return path


def _begin(rows: Executor, settings: Settings) -> State:
    """Start from the model without terms."""
    tol = 1e-10 if rows.dtype == np.float64 else 1e-5
    reestimated = settings.alpha == "reestimate"
    orthogonal = settings.penalty == "orthogonal"
    alpha = 0.0 if reestimated else float(settings.alpha)
    state = State(rows, alpha, orthogonal, settings.fit_intercept, tol, settings.precompute, settings.min_norm)
    if reestimated and state.usable.any():
        state.alpha = 1e-3 * float(np.median(state.s[state.usable]))
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
    if settings.max_terms is None or not isinstance(G, np.ndarray) or G.dtype != np.float64:
        return False
    return settings.max_terms > p / (24 if G.nbytes > BEYOND_CACHES else 8) and p <= min(n, 4000)


def _promising(state: State) -> NDArray[np.intp]:
    """Candidates that may be looked at closely at the next term, by any rule: those that reduce the cost most."""
    gain = np.where(state.usable, CostRule().scores(state), 0.0)
    best = np.argpartition(-gain, PROMISING)[:PROMISING] if len(gain) > PROMISING else np.arange(len(gain))
    return best[np.argsort(-gain[best], kind="stable")]


def _settled(sizes: list[int], forced: int, patience: int | None) -> bool:
    """Whether the choice has stayed the same for `patience` terms."""
    return patience is not None and len(sizes) >= forced + patience and len(set(sizes[-patience - 1 :])) == 1


def _read(G: Any, y: Any, sample_weight: Any) -> tuple[Any, NDArray, NDArray, bool]:
    """Validate; rows of weight zero are left out, sparse rows become sparse columns."""
    unseen = isinstance(G, Design | RowFile)  # its numbers are checked as they are computed or read
    if unseen and G.shape[0] > 1 and G.shape[1]:
        design = G
    else:
        G = np.zeros(G.shape) if unseen else G
        design = check_array(
            G, accept_sparse="csc", dtype=[np.float64, np.float32], ensure_min_samples=2, input_name="G", copy=False
        )
    y = check_targets(y)
    check_consistent_length(design, y)
    counts = check_counts(sample_weight, len(y))
    check_total(counts)
    Y, used, design = as_columns(y), counts > 0, beyond_memory(design)
    if not used.all():
        design, Y, counts = design[used], Y[used], counts[used]
    return sparse_columns(design), Y, counts, y.ndim == 1


def sparse_columns(G: Any) -> Any:
    """Return sparse G by columns, which the rules look at one by one; dense G as it is."""
    return sp.csc_array(G) if sp.issparse(G) else G


def _record(path: SelectionPath, state: State, choice: Choice, reduction: float, started: float) -> None:
    """Add a row to the path."""
    q, n, rows = state.c.shape[1], state.n, state.moments
    loo_sse, sse = np.inf if rows.undefined else float(rows.wrr.sum()) / q, state.sse / q
    spread = np.inf if rows.undefined else np.sqrt(max(rows.squared / q**2 / n - (loo_sse / n) ** 2, 0.0))
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


def _reason_to_stop(path: SelectionPath, limit: int, settings: Settings, started: float) -> str:
    """Say why no further term is to be taken, if that is so."""
    if len(path) >= limit:
        most = settings.max_terms
        return f"max_terms={most} reached" if limit == most else "as many terms as the data can determine"
    if settings.max_seconds is not None and time.perf_counter() - started > settings.max_seconds:
        return f"max_seconds={settings.max_seconds:g} are over"
    return ""


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
    scale = float(state.norms[state.chosen].mean())
    return float(np.clip(state.sse * trace / (curvature * freedom), 1e-15 * scale, 1e15 * scale))
