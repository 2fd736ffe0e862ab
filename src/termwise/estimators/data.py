"""Validation of the arguments of `fit`: arrays of any library, frames, sparse matrices and rows of files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length, validate_data

from termwise._arrays import all_finite, evenly, is_foreign, rows_of, to_host
from termwise._checks import (
    check_bool,
    check_counts,
    check_foreign,
    check_labels,
    check_magnitudes,
    check_numeric,
    check_splits,
    check_table,
    check_targets,
    is_dask,
    is_plain_table,
)
from termwise.design.files import RowFile
from termwise.fitted import Labels

FLOATS = [np.float64, np.float32]
SAMPLE_ROWS, SAMPLE_ENTRIES = 2000, 1_000_000  # limits of the inputs that a model keeps for its description,
MIN_SAMPLE_ROWS = 100  # of which fewer than so many say little


@dataclass(frozen=True)
class Data:
    """Validated inputs, targets and sample weights."""

    X: Any
    y: NDArray[np.float64]  # (n,) or (n, q); classes are coded -1 and +1
    weights: NDArray[np.float64]  # (n,), frequency weights
    n_features: int
    input_names: NDArray[Any] | None
    labels: Labels | None = None

    @property
    def used(self) -> NDArray[np.intp]:
        """Samples with positive weight."""
        return np.flatnonzero(self.weights)

    def sample(self) -> Any:
        """Inputs of some samples with positive weight, to describe a model; None for files and wide tables."""
        used, limit = self.used, min(SAMPLE_ROWS, SAMPLE_ENTRIES // max(1, self.n_features))
        if isinstance(self.X, RowFile) or limit < min(len(used), MIN_SAMPLE_ROWS):
            return None
        return rows_of(self.X, used[evenly(len(used), limit)])


def read(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    basis: Any = None,
    classify: bool = False,
    reset: bool = True,
) -> Data:
    """Validate the arguments of `fit`, or of a method of a fitted model with `reset=False`.

    Parameters
    ----------
    estimator : an estimator, which is not changed: attributes that validation sets are set on a clone.
    X, y, sample_weight : as given by the caller.
    basis : the transformer that makes the design matrix; None for the columns of X.
    classify : whether y holds classes, which are coded -1 and +1.
    reset : whether names and number of the columns are those of X, or must agree with those of the model.
    """
    check_request(estimator, basis, y)
    if is_dask(X, y):
        raise TypeError(
            f"{type(estimator).__name__} must be given data in memory, got a Dask collection: use X.compute(), or "
            "ForwardRegressor and ForwardClassifier, which work on a cluster."
        )
    labels = None
    if classify:
        y = check_labels(y)
        labels = Labels(np.unique(y))
        check_classes(labels.classes)
        y = code_known_labels(labels.classes, y)
    fresh = clone(estimator) if reset else estimator
    X = check_inputs(fresh, X, basis, reset=reset)
    y = check_targets(y)
    names = getattr(fresh, "feature_names_in_", None)
    if basis is None and not isinstance(X, RowFile):
        check_magnitudes("X", X, names, tiny=reset)
    if reset:
        check_magnitudes("y", y)
    if not is_foreign(X) or X.shape[0] != len(y):
        check_consistent_length(np.empty(X.shape[0]) if is_foreign(X) else X, y)
    weights = check_counts(sample_weight, len(y))
    return Data(X, y, weights, n_features=fresh.n_features_in_, input_names=names, labels=labels)


def check_request(estimator: Any, basis: Any, y: Any) -> None:
    """Validate basis, intercept and folds, and that there are targets."""
    if basis is not None and not (hasattr(basis, "fit") and hasattr(basis, "transform")):
        raise TypeError(
            f"basis must be a transformer or None, got {basis!r}: use one of termwise.basis, such as RadialBasis(), or "
            "any of scikit-learn's."
        )
    check_bool("fit_intercept", estimator.fit_intercept, remedy="True fits the mean too")
    for name in ("cv", "selection_cv"):
        check_splits(name, getattr(estimator, name, None))
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None: give one target per sample."
        )


def code_known_labels(classes: NDArray[Any], y: Any) -> NDArray[np.float64]:
    """Return labels of the given classes coded -1 and +1, one column per class for more than two."""
    columns = np.where(column_or_1d(y)[:, None] == classes, 1.0, -1.0)
    return columns[:, 1] if len(classes) == 2 else columns


def check_classes(classes: NDArray[Any]) -> None:
    """Raise unless there are at least two classes."""
    if len(classes) < 2:
        got = f"one class {classes.tolist()[0]!r}" if len(classes) else "no samples"
        raise ValueError(f"y must have at least two classes, got {got}: give samples of another.")


def check_inputs(estimator: Any, X: Any, basis: Any, reset: bool) -> Any:
    """Return validated inputs, those of another array library on their device if estimator and basis can use them.

    With a basis its transformer validates the values; here names and number of the columns are checked. With `reset`
    they are stored on the estimator.
    """
    if is_foreign(X):
        capable = basis is None or getattr(basis, "any_library", False) or get_config()["array_api_dispatch"]
        X = X if estimator.any_library and capable else to_host(X)
    if basis is not None:
        if not reset and is_plain_table(estimator, X):
            return X
        X = X if isinstance(X, RowFile) else check_table(X)
        if reset and isinstance(X, RowFile):
            check_streams(estimator, X)
            raise TypeError(
                f"X must be an array if there is a basis, got rows of {X.name}: use basis=None, or X.load() where the "
                "inputs fit in memory."
            )
    elif isinstance(X, RowFile):
        return _check_file(estimator, X, reset)
    elif is_foreign(X):
        X = check_foreign("X", X)
    else:
        if not reset and is_plain_table(estimator, X) and all_finite(X):
            return X
        X = check_table(X)
        check_numeric(X)
        return validate_data(estimator, X, accept_sparse=["csr", "csc"], dtype=FLOATS, reset=reset)
    validate_data(estimator, X, skip_check_array=True, reset=reset)
    return X


def check_streams(estimator: Any, X: RowFile) -> None:
    """Raise if an estimator requires in memory what it is given as rows of a file."""
    if not estimator.streams:
        raise TypeError(
            f"X must be an array for {type(estimator).__name__}, got rows of {X.name}: ForwardRegressor and "
            "ForwardClassifier work from files; others take X.load()."
        )


def _check_file(estimator: Any, X: RowFile, reset: bool) -> RowFile:
    """Validate names and number of the columns of a file; its values are checked as they are read."""
    check_streams(estimator, X)
    names = None if reset else getattr(estimator, "feature_names_in_", None)
    if X.names is None or names is None:
        validate_data(estimator, X, skip_check_array=True, reset=reset)
    elif X.names != list(names):
        raise ValueError(
            f"X must have the columns of the fit in their order, got rows of {X.name} with {len(X.names)} others: open "
            "them with columns=model.feature_names_in_."
        )
    if reset and X.names is not None:
        estimator.feature_names_in_ = np.array(X.names, dtype=object)
    return X
