"""Classes as targets: what the classifiers share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from termwise._arrays import Array, at, from_host, is_foreign, namespace, to_host
from termwise._checks import is_dask
from termwise.estimators.model import BatchModel

ZERO = 1e-12  # scores down to minus this are zero but for rounding, which predicts +1


def misclassified(scores: Array, Y: Array) -> Array:
    """Whether scores (..., n, q) put samples coded Y (n, q) into the wrong class, as `predict` would.

    On the wrong side of zero, or with the largest score elsewhere.
    """
    if Y.shape[1] == 1:
        return ((scores >= -ZERO) != (Y > 0))[..., 0]
    xp = namespace(scores)
    return xp.argmax(scores, axis=-1) != xp.argmax(Y, axis=-1)


class LabelModel(ClassifierMixin, BatchModel):
    """A model of labels coded -1 and +1, one column per class for more than two; the largest output wins."""

    classes_: NDArray

    def _validate(self, X: Any, y: Any, reset: bool) -> tuple[Any, NDArray[np.float64]]:
        return super()._validate(X, y if y is None else self._code(y), reset)

    def _code(self, y: Any) -> NDArray[np.float64]:
        """Learn the classes and code the labels."""
        y = column_or_1d(to_host(y) if is_foreign(y) else y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        binarizer = LabelBinarizer(neg_label=-1, pos_label=1)
        coded = binarizer.fit_transform(y).astype(np.float64)
        self.classes_ = binarizer.classes_
        self._check_classes()
        return coded[:, 0] if len(self.classes_) == 2 else coded

    def _check_classes(self) -> None:
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least two classes, got one class {self.classes_[0]!r}: give samples of another."
            )

    def decision_function(self, X: ArrayLike) -> NDArray:
        """Return the output of the model: positive for the second class, or one column per class.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask array or Dask data frame of shape (m, d)
            Inputs; the answer is a Dask array for those of Dask.
        """
        return super().predict(X)

    def predict(self, X: ArrayLike) -> NDArray:  # type: ignore[override]
        """Predict the class.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask array or Dask data frame of shape (m, d)
            Inputs; the answer is a Dask array for those of Dask.
        """
        scores: Any = self.decision_function(X)
        if is_dask(scores):
            dropped = list(range(1, scores.ndim))
            return scores.map_blocks(decide, self.classes_, dtype=self.classes_.dtype, drop_axis=dropped)
        return decide(scores, self.classes_)


def decide(scores: NDArray, classes: NDArray) -> NDArray:
    """Return the class of each row of outputs."""
    xp = namespace(scores)
    number = xp.astype(scores >= 0, xp.int64) if scores.ndim == 1 else xp.argmax(scores, axis=1)
    if is_foreign(scores) and classes.dtype.kind in "biuf":
        return at(from_host(classes, scores), number)
    return classes[to_host(number)]


# -- labels that are far away ------------------------------------------------------------------------------------------


def labels_of(y: Any) -> NDArray:
    """Return the different labels of some rows."""
    y = column_or_1d(y)
    assert_all_finite(y, input_name="y")
    if len(y):
        check_classification_targets(y)
    return np.unique(y)


def coded(classes: NDArray, y: Any) -> NDArray[np.float64]:
    """Return labels of some rows, of which the classes are known, coded -1 and +1."""
    columns = np.where(column_or_1d(y)[:, None] == classes, 1.0, -1.0)
    return columns[:, 1] if len(classes) == 2 else columns
