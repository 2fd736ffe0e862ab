"""Size and penalty of a forward model by cross-validation of the whole selection.

The closed forms along a path hold its terms fixed. Where many candidates compete they are optimistic: the first term
that fits noise is the best of thousands, and its weight is too large by about `sigma sqrt(2 log p)`. Here the path is
grown anew without each fold, and models of every size, each with several penalties, predict the fold. A larger penalty
shrinks weights that selection has made too large, so that a longer path can be used than without one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import as_columns, at, densify, is_foreign, to_host
from termwise._checks import check_indices, is_dask, is_one_of
from termwise.design import Design
from termwise.design.files import RowFile
from termwise.estimators.data import DesignData
from termwise.estimators.folds import assign_folds
from termwise.execution import select_terms
from termwise.selection.engine import Settings
from termwise.selection.kfold import classes_of, fold_labels, folds_of_rows, keep_folds
from termwise.selection.path import SelectionPath, fewest_terms

Floats = NDArray[np.float64]

PENALTIES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # in units of the mean squared norm of the terms
FIRST_TERMS = 50  # first length of a path without max_terms
NEAR_END = 0.8  # share of the path from which a best size calls for a longer one


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
    fold, shares = assigned_folds(estimator.cv, design), PENALTIES if estimator.refit_alpha == "cv" else PENALTIES[:1]
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


def assigned_folds(cv: Any, design: DesignData) -> NDArray[np.intp]:
    """Return the fold of every sample with positive weight; a number of folds is shuffled with a fixed seed."""
    data = design.data
    labels = fold_labels(cv, len(data.weights), lambda: classes_of(as_columns(data.y)))
    if isinstance(cv, Integral):
        labels = assign_folds(int(cv), data)
    return np.unique(folds_of_rows(labels, data.used), return_inverse=True)[1]


def fold_errors(
    design: DesignData, settings: Settings, left_out: NDArray[np.bool_], shares: tuple[float, ...], most: int
) -> Floats:
    """Return the squared errors on a fold, summed, for 0 to `most` terms and all penalties.

    A path that ends before repeats its last model.
    """
    train, test = np.flatnonzero(~left_out), np.flatnonzero(left_out)
    G = at(design.G, train) if is_foreign(design.G) else design.G[train]
    settings = keep_folds(settings, design.Y, train)
    path = select_terms(G, at(design.Y, train), design.weights[train], settings, design.candidates.one_output)
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
    part = to_host(at(G, rows)) if is_foreign(G) else G[rows]
    columns = to_host(part.columns(terms)) if isinstance(part, Design) else part[:, terms]
    return densify(columns).astype(np.float64)


def penalty(path: SelectionPath, k: int, share: float) -> float:
    """Return a penalty of the first k terms: that of the path and a share of the mean squared norm of the terms."""
    alpha, R = path.steps[k].alpha, path.training().R[:k, :k]
    return float(alpha + share * max(np.mean(np.sum(R**2, axis=0)) - alpha, 0.0)) if k else float(alpha)


def penalised_weights(path: SelectionPath, k: int, shares: tuple[float, ...]) -> Iterator[tuple[Floats, Floats]]:
    """Yield the weights of the first k terms, (k, q), and the intercept, for every penalty.

    Without a further penalty they are those of the path. Else, with `R'R = G'G + alpha I` and `R'zy = G'Y`, one
    spectral decomposition serves all penalties.
    """
    training, alpha = path.training(), path.steps[k].alpha
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
