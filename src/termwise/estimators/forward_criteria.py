"""Criteria of forward estimators that repeat or change the whole selection: knockoffs and cross-validation.

The closed forms along a path hold its terms fixed. Where many candidates compete they are optimistic: the first term
that fits noise is the best of thousands, and its weight is too large by about `sigma sqrt(2 log p)`. Knockoffs compete
with the candidates, and estimate the share of false terms. In cross-validation the path is grown anew without each
fold, and models of every size, each with several penalties, predict the fold. A larger penalty shrinks weights that
selection has made too large, so that a longer path can be used than without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from termwise._arrays import as_columns, at, densify, is_foreign, to_host
from termwise._checks import check_indices, check_number, is_dask, is_one_of, to_array
from termwise.design import Design
from termwise.design.files import RowFile
from termwise.estimators.design import DesignData, take_rows
from termwise.estimators.folds import assign_folds
from termwise.execution import select_terms
from termwise.selection.engine import Settings
from termwise.selection.kfold import classes_of, fold_labels, folds_of_rows, keep_folds
from termwise.selection.knockoffs import (
    MAX_CANDIDATES,
    discoveries,
    entry_statistics,
    knockoff_columns,
    out_of_reach,
)
from termwise.selection.path import SelectionPath, fewest_terms

Floats = NDArray[np.float64]

PENALTIES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # in units of the mean squared norm of the terms
FIRST_TERMS = 50  # first length of a path without max_terms
NEAR_END = 0.8  # share of the path from which a best size calls for a longer one


# -- false discovery rate ----------------------------------------------------------------------------------------------


def check_knockoffs(estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Raise unless terms can be selected by knockoffs."""
    check_number("fdr", estimator.fdr, above=0, below=1, remedy="0.1 admits one false term in ten on average")
    if is_dask(X, y, sample_weight) or is_foreign(X) or sp.issparse(X) or isinstance(X, RowFile):
        raise TypeError(
            f"X must be a dense array in memory with criterion='fdr', got {type(X).__name__}: knockoffs need the whole "
            "covariance of the candidates; convert X, or use another criterion."
        )
    if estimator.refine is not None:
        raise ValueError(
            f"refine must be None with criterion='fdr', got {estimator.refine!r}: terms that are exchanged have no "
            "knockoff to compare them with."
        )
    if to_array(estimator.include).size:
        raise ValueError(
            f"include must be empty with criterion='fdr', got {estimator.include!r}: every term competes with its "
            "knockoff; use another criterion, or regress y on the included terms first."
        )


def select_by_knockoffs(
    estimator: Any, design: DesignData, settings: Settings, callback: Callable[[SelectionPath], bool]
) -> tuple[SelectionPath, dict[str, Any]]:
    """Grow a path of candidates and knockoffs, select by the order of entry, and return the path of the selected terms.

    Terms enter by the reduction of the cost: fixed-X knockoffs require statistics that depend on the data only through
    the products of the columns with each other and with the targets (Barber and Candes 2015, definition 1).
    """
    G, weights = design.G, design.weights
    n, p = G.shape
    if p > MAX_CANDIDATES or sp.issparse(G):
        got = "a sparse design matrix" if sp.issparse(G) else f"{p} candidates"
        raise ValueError(
            f"criterion='fdr' must have at most {MAX_CANDIDATES} candidates in dense columns, got {got}: knockoffs "
            "need the whole covariance; reduce the candidates beforehand without looking at y."
        )
    if np.ptp(weights) > 0:
        raise ValueError(
            f"sample_weight must be equal with criterion='fdr', got weights from {weights.min():g} to "
            f"{weights.max():g}: repeat the rows instead, or use another criterion."
        )
    columns = np.asarray(G.columns(np.arange(p)) if isinstance(G, Design) else G, dtype=np.float64)
    intercept, fdr = bool(estimator.fit_intercept), float(estimator.fdr)
    fixed = n >= 2 * p + intercept and design.candidates.labels is None
    rng = np.random.default_rng(check_random_state(estimator.random_state).randint(2**31))
    both = np.hstack([columns, knockoff_columns(columns, fixed=fixed, intercept=intercept, rng=rng)])
    one_output, limit = design.candidates.one_output, min(settings.max_terms or n, max(n // 2, 1))
    entry = select_terms(
        both,
        design.Y,
        weights,
        replace(settings, rule="cost", max_terms=limit),
        one_output,
        lambda path: callback(path) or out_of_reach(path.terms, p, fdr),
    )
    statistics = entry_statistics(entry.terms, p)
    selected, estimate = discoveries(statistics, fdr)
    path = select_terms(G, design.Y, weights, replace(settings, include=selected, max_terms=len(selected)), one_output)
    path.stop_reason = f"{len(selected)} terms selected by {len(entry)} entries of candidates and knockoffs"
    return path, {"fdr_estimate_": estimate, "knockoff_statistics_": statistics}


# -- cross-validation --------------------------------------------------------------------------------------------------


def check_cross_validation(estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Raise unless size and penalty can be chosen by cross-validation."""
    if estimator.criterion != "cv":
        if is_one_of(estimator.refit_alpha, "cv"):
            raise ValueError(
                f"refit_alpha='cv' must be used with criterion='cv', got {estimator.criterion!r}: size and penalty are "
                "chosen together; set criterion='cv', or refit_alpha='loo'."
            )
        return
    if is_dask(X, y, sample_weight) or isinstance(X, RowFile):
        raise TypeError(
            f"X must be in memory with criterion='cv', got {type(X).__name__}: every fold selects anew; use another "
            "criterion, or load a sample of the rows."
        )
    if estimator.refine is not None:
        raise ValueError(
            f"refine must be None with criterion='cv', got {estimator.refine!r}: exchanged terms have no order by "
            "size; use another criterion."
        )


def select_by_folds(
    estimator: Any, design: DesignData, settings: Settings, callback: Any
) -> tuple[SelectionPath, int, dict[str, Any]]:
    """Return the path of all samples, the number of terms with the least cross-validated error, and the errors.

    Without `max_terms`, paths are doubled while the best size is near their end, up to half of the training samples.
    """
    data, cv, shares = design.data, estimator.cv, PENALTIES if estimator.refit_alpha == "cv" else PENALTIES[:1]
    labels = fold_labels(cv, len(data.weights), lambda: classes_of(as_columns(data.y)))
    labels = assign_folds(int(cv), data) if isinstance(cv, Integral) else labels  # shuffled with a fixed seed
    fold = np.unique(folds_of_rows(labels, data.used), return_inverse=True)[1]
    limit = max(int(design.weights.sum() - np.bincount(fold, design.weights).max()) // 2, 1)
    p = design.candidates.n_candidates
    included = check_indices("include", settings.include, p, what="term")
    longest = settings.max_terms or min(FIRST_TERMS, limit)
    while True:
        settings, most = replace(settings, max_terms=longest), min(max(longest, len(included)), p)
        errors = sum(fold_errors(design, settings, fold == one, shares, most) for one in range(int(fold.max()) + 1))
        path = select_terms(design.G, design.Y, design.weights, settings, design.candidates.one_output, callback)
        errors = np.asarray(errors)[: len(path) + 1] / (design.weights.sum() * design.Y.shape[1])
        first = fewest_terms(path)
        best = first + int(np.argmin(errors.min(axis=1)[first:]))
        if estimator.max_terms or longest >= limit or best <= NEAR_END * longest:
            break
        longest = min(2 * longest, limit)
    if estimator.refit_alpha == "cv":
        chosen = errors.argmin(axis=1)
        path.refit_alphas = np.array([penalty(path, k, shares[int(i)]) for k, i in enumerate(chosen)])
    return path, best, {"cv_errors_": errors.min(axis=1)}


def fold_errors(
    design: DesignData, settings: Settings, left_out: NDArray[np.bool_], shares: tuple[float, ...], most: int
) -> Floats:
    """Return the squared errors on a fold, summed, for 0 to `most` terms and all penalties.

    A path that ends before repeats its last model.
    """
    train, test = np.flatnonzero(~left_out), np.flatnonzero(left_out)
    settings = keep_folds(settings, design.Y, train)
    path = select_terms(
        take_rows(design.G, train), at(design.Y, train), design.weights[train], settings, design.candidates.one_output
    )
    columns, Y = columns_at(design.G, test, path.terms), to_host(at(design.Y, test))
    errors = np.empty((most + 1, len(shares)))
    for k in range(len(errors)):
        if k > len(path):
            errors[k] = errors[k - 1]
            continue
        for i, (W, intercept) in enumerate(penalised_weights(path, k, shares)):
            errors[k, i] = design.weights[test] @ np.sum((columns[:, :k] @ W + intercept - Y) ** 2, axis=1)
    return errors


def columns_at(G: Any, rows: NDArray[np.intp], terms: NDArray[np.intp]) -> Floats:
    """Return some columns of some rows of a design matrix, dense and on the host."""
    part = take_rows(G, rows)
    part = to_host(part) if is_foreign(part) else part
    columns = to_host(part.columns(terms)) if isinstance(part, Design) else part[:, terms]
    return densify(columns).astype(np.float64)


def penalty(path: SelectionPath, k: int, share: float) -> float:
    """Return a penalty of the first k terms: that of the path and a share of the mean squared norm of the terms."""
    alpha, R = path.steps[k].alpha, path.training.R[:k, :k]
    return float(alpha + share * max(np.mean(np.sum(R**2, axis=0)) - alpha, 0.0)) if k else float(alpha)


def penalised_weights(path: SelectionPath, k: int, shares: tuple[float, ...]) -> Iterator[tuple[Floats, Floats]]:
    """Yield the weights of the first k terms, (k, q), and the intercept, for every penalty.

    Without a further penalty they are those of the path. Else, with `R'R = G'G + alpha I` and `R'zy = G'Y`, one
    spectral decomposition serves all penalties.
    """
    training, alpha = path.training, path.steps[k].alpha
    if k and len(shares) > 1:
        R, zy = training.R[:k, :k], training.zy[:k]
        values, vectors = np.linalg.eigh(R.T @ R)
        products = vectors.T @ (R.T @ zy)
    for share in shares:
        if k == 0 or share == 0:
            weights = np.asarray(to_host(path.coef(k)[0]), dtype=np.float64)
            W = weights[:, None] if path.one_output else weights.T
        else:
            W = vectors @ (products / (values + penalty(path, k, share) - alpha)[:, None])
        yield W, training.Y_mean - training.G_mean[:k] @ W
