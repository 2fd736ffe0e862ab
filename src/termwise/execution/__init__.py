"""Where the rows of the design matrix live: in this process, on a Dask cluster, on a device.

`forward_path`, the functional core, validates its arguments and selects terms where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length

from termwise._arrays import (
    Array,
    as_columns,
    as_float64,
    at,
    current_device,
    detached,
    from_host,
    is_foreign,
    moved,
)
from termwise._checks import (
    check_container,
    check_counts,
    check_foreign,
    check_magnitudes,
    check_targets,
    check_total,
    is_bounded,
    is_dask,
    usual_targets,
    warn_unresolved,
)
from termwise._threads import one_thread
from termwise.design import Design
from termwise.design.files import RowFile, beyond_memory
from termwise.execution.cluster import TIMEOUT, Chunks, n_rows, split_chunks
from termwise.execution.dask import ChunkReader, DaskBlocks
from termwise.execution.local import local_blocks
from termwise.selection.engine import Callback, Settings, grow_path
from termwise.selection.kfold import keep_folds, uses_folds
from termwise.selection.path import SelectionPath, check_criterion
from termwise.selection.rules import Rule

# Entries of G up to which BLAS has one thread: more are no faster, and wait for each other for milliseconds where other
# processes use the processors.
ONE_THREAD_ENTRIES = 1 << 18
MAX_RESERVE = 128  # columns of Z that memory is allocated for at first


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
    precompute: bool | int | str = "auto",
    fit_intercept: bool = True,
    sample_weight: ArrayLike | None = None,
    block_rows: int | None = None,
    callback: Callback | None = None,
    timeout: float | None = TIMEOUT,
) -> SelectionPath:
    """Choose terms one by one.

    Each step adds the best candidate by the rule to a model with penalised weights, and records every criterion.
    At most one pass over G per term, and two more where candidates nearly depend on the chosen ones; G is never written
    to, and not copied, but for columns with large means (see Notes) and sparse rows, which are converted to sparse
    columns once.

    Parameters
    ----------
    G : array-like, sparse matrix, memory map, rows of a file, design, Dask array or data frame of shape (n, p)
        Candidates, one per column, in float32 or float64; rows of a file as `open_rows` returns them, a design as
        `RadialBasis.design` does. Those of Dask stay on the cluster in use. An array of PyTorch,
        CuPy or another library of the array API stays on its device, and so does the work.
    y : array-like of shape (n,) or (n, q)
        Targets; several outputs share their terms.
    rule : str or Rule, default="loo"
        What the next term is chosen by: the name of a rule in `termwise.selection.RULES`, such as "loo", the exact
        leave-one-out error, or "cost", the drop of the regularised cost. Or a custom rule, an instance of a subclass of
        `termwise.selection.Rule`. The page Forward selection of the documentation compares the rules.
    alpha : float or "reestimate", default=1e-6
        The penalty; "reestimate" re-estimates it by GCV after each term (Orr, section 7.2).
    penalty : {"weights", "orthogonal"}, default="weights"
        What is penalised: the weights, or those of the orthogonalised terms (ROLS).
    max_terms : int or None, default=None
        Maximum number of terms; None: as many as the data can determine.
    criterion : {"loo", "gcv", "uev", "fpe", "bic", "one_se", "tcr", "tcr_paper", "tcr_sequential"}, default=None
        How many terms to keep, for `patience` and `refine`; the path itself goes on. None: all of them.
    patience : int or None, default=None
        End the path once the criterion's choice has not changed for that many terms. That of "tcr_paper" may go on
        changing to the end of the path with many more candidates than samples.
    max_seconds : float or None, default=None
        End the path after that time, with the terms chosen so far.
    include : array-like of int, default=()
        Candidates that are always in the model, added first.
    refine : {"swap"} or None, default=None
        "swap" exchanges the terms the criterion keeps, one for one, until no exchange makes the model better by the
        rule. Needs a penalty on the weights that is a number (zero with the rule "d_optimal").
    beta : float, default=1e-6
        Weight of D-optimality in the rule "d_optimal".
    cv : int, splitter or iterable, default=5
        Folds of the rule "kfold": a number, any scikit-learn splitter whose folds partition the rows, or pairs
        (train, test).
    precompute : bool, int or "auto", default="auto"
        Save passes over G by columns of `G'G`: a term whose column is known needs no pass. True computes all of them
        once, False none, and a number those of as many candidates, the best by the rule, in each pass. "auto" does
        what is expected to be fastest, from the sizes and from how many terms each pass has served so far.
    fit_intercept : bool, default=True
        Whether the models have an unpenalised intercept.
    sample_weight : array-like of shape (n,), default=None
        Weights of the samples, which mean repetitions.
    block_rows : int or None, default=None
        Work on that many rows at a time; None: on all at once. For Dask data the chunks are the blocks.
    callback : callable or None, default=None
        Called with the path after each term (its weights are there once it has ended); return True to stop.
    timeout : float or None, default=600
        For Dask data: raise `TimeoutError` when no task of the cluster has ended for this many seconds; None: wait.

    Returns
    -------
    path : SelectionPath
        The terms in order, the criteria of every size and the weights of every size.

    Notes
    -----
    Products with a column whose mean is large beside its standard deviation lose digits. With an intercept, columns
    with a ratio above 1,000 in float64, or 10 in float32, are therefore replaced by their differences from the mean, in
    their own precision: three passes more, and as much memory as these columns take, or all of G where they are more
    than half; rows of a file and radial functions that are not stored are centred block by block instead. The terms
    are those of centred data up to a ratio of about 1e6 in float64 and 1e4 in float32. A `NumericalWarning` names
    columns that vary by hardly more than rounding.

    Refining evaluates all candidates once per term and round, but makes no pass over G unless a term is exchanged: a
    round costs about one to two times the path, and there are two of them or, where many terms are exchanged, several.
    If no exchange is better the path is the same as without. Else it ends at the size the criterion chose and has the
    refined terms, in the order in which the rule chooses them when there are no others; `n_swaps` counts the exchanges.
    A model that is better by the rule need not predict better: no rule accounts for the number of models compared.

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
        rule=rule,
        alpha=alpha,
        penalty=penalty,
        max_terms=max_terms,
        criterion=check_criterion(criterion),
        patience=patience,
        max_seconds=max_seconds,
        timeout=timeout,
        include=include,
        beta=beta,
        cv=cv,
        precompute=precompute,
        fit_intercept=fit_intercept,
        block_rows=block_rows,
        refine=refine,
    )
    settings.check()
    if callback is not None and not callable(callback):
        raise TypeError(
            f"callback must be callable or None, got {callback!r}: give a function of the path that returns True to "
            "stop."
        )
    if is_dask(G, y, sample_weight):
        path = select_terms_on_cluster(split_chunks(G, y, sample_weight, timeout), ChunkReader(), settings, callback)
    else:
        design, Y, weights, one_output, used = _validated(G, y, sample_weight)
        if used is not None:
            settings = keep_folds(settings, Y, used)
            Y = at(Y, used)
        path = select_terms(design, Y, weights, settings, one_output, callback)
    names = [f"column {j} of G" for j in path.unresolved[:5]]
    warn_unresolved(names, len(path.unresolved), "subtract the mean before they are rounded, or give them in float64")
    return path


def select_terms(
    G: Any,
    Y: NDArray[Any],
    sample_weight: NDArray[Any],
    settings: Settings,
    one_output: bool,
    callback: Callback | None = None,
) -> SelectionPath:
    """Grow a path on validated data in this process."""
    G = sp.csc_array(G) if sp.issparse(G) else G  # rules read single columns
    small = G.shape[0] * G.shape[1] <= ONE_THREAD_ENTRIES and not is_foreign(Y)
    with current_device(Y), one_thread() if small else nullcontext():
        rows = local_blocks(G, Y, sample_weight, settings.block_rows, _reserve(settings))
        return grow_path(rows, settings, one_output, callback)


def select_terms_on_cluster(
    chunks: Chunks, reader: ChunkReader, settings: Settings, callback: Callback | None = None
) -> SelectionPath:
    """Grow a path on the workers of a Dask cluster."""
    rows = DaskBlocks(chunks, replace(reader, reserve=_reserve(settings)))
    if uses_folds(settings) and chunks.weights[0] is not None:  # rows of weight zero are left out of the blocks
        used = np.flatnonzero(np.concatenate(chunks.gather("weights", np.asarray)))
        targets = chunks.gather("y", partial(_target_columns, reader.targets))
        settings = keep_folds(settings, np.concatenate([part for part in targets if part is not None]), used)
    return grow_path(rows, settings, rows.one_output, callback)


def _target_columns(read: Callable[[Any], NDArray[np.float64]], y: Any) -> NDArray[np.float64] | None:
    """Return the targets of a chunk as columns; None if it has no rows."""
    return as_columns(read(y)) if n_rows(y) else None


def _reserve(settings: Settings) -> int:
    """Columns of Z to allocate memory for."""
    return min(MAX_RESERVE, (settings.max_terms or MAX_RESERVE // 2) + 1)


def _validated(G: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, NDArray[Any], bool, NDArray[np.intp] | None]:
    """Validate; return candidates, targets and weights, whether there is one output, and the rows in use.

    Rows of weight zero are left out, but for their targets; None: there are none.
    """
    deferred = isinstance(G, Design | RowFile)  # whose entries are checked as they are computed or read
    if deferred and G.shape[0] > 1 and G.shape[1]:
        design = G
    elif is_foreign(G):
        design = check_foreign("G", G, min_samples=2)
    else:
        G = np.zeros(G.shape) if deferred else G
        G = check_container("G", G)
        bounded = is_bounded(G)  # and finite: then scikit-learn need not pass over the entries again
        design = check_array(
            G, accept_sparse="csc", dtype=[np.float64, np.float32], ensure_min_samples=2, input_name="G", copy=False,
            ensure_all_finite=not bounded,
        )  # fmt: skip
        check_magnitudes("G", design, bounded=bounded)
    given = y
    if not (is_foreign(getattr(design, "like", design)) and usual_targets(y, design.dtype)):
        y = check_targets(y)
        check_magnitudes("y", y, dtype=design.dtype)
    n = y.shape[0]
    if n != design.shape[0]:
        check_consistent_length(np.empty(design.shape[0]), np.empty(n))
    weights = np.ones(n)
    if sample_weight is not None:
        weights = check_counts(sample_weight, n)
        check_total(weights)
    Y, design = as_columns(y), beyond_memory(design)
    like = getattr(design, "like", design)
    if is_foreign(like):
        Y = as_columns(as_float64(moved(detached(given), like))) if is_foreign(given) else from_host(Y, like)
    if sample_weight is not None and len(used := np.flatnonzero(weights)) < n:
        rows = design[used] if sp.issparse(design) or isinstance(design, Design | RowFile) else at(design, used)
        return rows, Y, weights[used], y.ndim == 1, used
    return design, Y, weights, y.ndim == 1, None
