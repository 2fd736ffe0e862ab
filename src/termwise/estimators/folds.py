"""Fold models: the fit of an estimator repeated without each fold, selection of terms included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from numbers import Integral
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import check_cv

from termwise._arrays import as_columns, densify, is_foreign, row_blocks, rows_of, to_host
from termwise._checks import check_number, check_pair, is_dask, is_frame
from termwise.basis.columns import is_missing, is_numeric
from termwise.design.files import RowFile
from termwise.estimators.data import Data, read
from termwise.fitted import FittedTerms, FoldModels

Indices = NDArray[np.intp]

MIN_FOLD_GROUPS = 5  # distinct inputs for each fold; with fewer, leaving some out leaves little to learn from


def with_fold_models(
    estimator: Any,
    terms: FittedTerms,
    X: Any,
    y: Any,
    sample_weight: Any,
    arguments: Mapping[str, Any] = MappingProxyType({}),
) -> FittedTerms:
    """Return the fitted terms of an estimator with its fold models, if it has `selection_cv`.

    Further arguments are those of `fit`; weights of classes are in the sample weights already.

    The samples of a fold have weight zero in the fit without them: everything that `fit` learns from the targets, basis
    and penalty included, is learned again from the others, while bases that refer to other rows, as lags do, still see
    the whole table. For samples of weight zero the residuals of a fit are out-of-sample residuals.
    """
    if estimator.selection_cv is None:
        return terms
    basis = estimator.default_basis if isinstance(estimator.basis, str) else estimator.basis
    data = read(estimator, X, y, sample_weight, basis=basis, classify=terms.candidates.labels is not None)
    fold, residuals = np.full(len(data.weights), -1), np.empty((len(data.weights), terms.weights.shape[1]))
    models, silent = [], clone(estimator).set_params(selection_cv=None)
    others = {"verbose": 0, "class_weight": None}
    silent.set_params(**{name: others[name] for name in others if name in silent.get_params(deep=False)})
    for k, (train, test) in enumerate(split(estimator.selection_cv, data)):
        if np.any(fold[test] >= 0):
            raise ValueError(
                f"selection_cv must leave out each sample once at most, got {estimator.selection_cv!r}, which repeats "
                "some: use KFold, or a number of folds."
            )
        weights = np.zeros_like(data.weights)
        weights[train] = data.weights[train]
        repeated = clone(silent).fit(X, y, weights, **arguments).fitted_terms_
        models.append(repeated.for_prediction())
        fold[test], residuals[test] = k, to_host(repeated.loo_residuals())[test]
    used = np.flatnonzero((fold >= 0) & (data.weights > 0))
    if not len(used):
        raise ValueError(
            f"selection_cv must leave out some samples with positive weight, got {estimator.selection_cv!r}, which "
            "leaves out none: use KFold, or a number of folds."
        )
    folds = FoldModels(tuple(models), fold[used], residuals[used], data.weights[used])
    inputs = data.X if len(used) == len(fold) else rows_of(data.X, used)
    return terms.with_fold_models(folds, inputs, as_columns(data.y)[used])


def check_repeatable(estimator: Any, X: Any, y: Any) -> None:
    """Raise before a fit if its selection cannot be repeated in folds."""
    cv = estimator.selection_cv
    if cv is None:
        return
    if is_dask(X, y) or isinstance(X, RowFile):
        raise TypeError(
            f"selection_cv must be None for Dask data and for rows of a file, got {cv!r}: it is for data in memory; "
            "leave it out, or fit to a sample of the rows."
        )
    if isinstance(cv, str) or not (isinstance(cv, Integral | Iterable) or hasattr(cv, "split")):
        raise TypeError(
            f"selection_cv must be None, a number of folds, a splitter or an iterable of splits, got {cv!r}: 10 is a "
            "good number."
        )


def split(cv: Any, data: Data) -> Iterator[tuple[Indices, Indices]]:
    """Yield the training and the left-out samples of every fold."""
    if not isinstance(cv, Integral):
        classes = None if data.labels is None else (as_columns(data.y) > 0).argmax(axis=1)
        pairs = cv
        if hasattr(cv, "split"):
            pairs = check_cv(cv, classes, classifier=True).split(data.X, data.y if classes is None else classes)
        for pair in pairs:
            yield check_pair("selection_cv", cv, pair, len(data.weights))
        return
    n = len(data.used)
    check_number("selection_cv", cv, low=2, below=n + 1, integer=True, remedy=f"10 is a good number for {n} samples")
    fold = assign_folds(int(cv), data)
    for k in range(int(cv)):
        yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


def assign_folds(n_folds: int, data: Data) -> Indices:
    """Return the fold of every sample: shuffled with a fixed seed, stratified by class, equal inputs together.

    A repeated sample is then left out with its copies, and repeating it and giving it the weight two are the same; the
    order of the samples does not matter. Where there are few distinct inputs only samples with equal inputs and targets
    are kept together, or none.
    """
    group = equal_rows(data.X)
    if len(np.unique(group[data.used])) < MIN_FOLD_GROUPS * n_folds:
        group = equal_rows(np.column_stack([group, as_columns(data.y)]))
    if len(np.unique(group[data.used])) < n_folds:
        group = np.arange(len(group))
    distinct, first = np.unique(group[data.used], return_index=True)
    order = np.random.RandomState(0).permutation(len(distinct))
    if data.labels is not None:
        label = as_columns(data.y)[data.used[first]].argmax(axis=1) if data.y.ndim > 1 else data.y[data.used[first]]
        order = order[np.argsort(label[order], kind="stable")]
    of_group = np.full(group.max() + 1, -1)
    of_group[distinct[order]] = np.arange(len(distinct)) % n_folds
    return of_group[group]


def equal_rows(X: Any) -> Indices:
    """Return a number for every row, the same for equal rows and independent of their order."""
    if is_frame(X) and not all(is_numeric(X[name]) and not is_missing(X[name]).any() for name in X.columns):
        rows = (repr(row).encode() for row in zip(*(list(X[name]) for name in X.columns), strict=True))
    else:
        table = sp.csr_array(X) if sp.issparse(X) else np.asarray(to_host(X) if is_foreign(X) else X)
        blocks = (densify(table[block]).astype(np.float64) for block in row_blocks(*table.shape))
        rows = (row.tobytes() for block in blocks for row in np.ascontiguousarray(block))
    keys = [blake2b(row, digest_size=8).digest() for row in rows]  # a collision would only put two rows into one fold
    number = {key: i for i, key in enumerate(sorted(set(keys)))}
    return np.array([number[key] for key in keys], dtype=np.intp)
