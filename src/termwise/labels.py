"""Classes as targets: what the classifiers share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from termwise._arrays import at, from_host, is_foreign, namespace, to_host
from termwise.model import BatchModel


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
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least two classes, got one class {self.classes_[0]!r}: give samples of another."
            )
        return coded[:, 0] if len(self.classes_) == 2 else coded

    def decision_function(self, X: ArrayLike) -> NDArray:
        """Return the output of the model: positive for the second class, or one column per class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            Inputs.
        """
        return super().predict(X)

    def predict(self, X: ArrayLike) -> NDArray:  # type: ignore[override]
        """Predict the class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            Inputs.
        """
        scores = self.decision_function(X)
        xp = namespace(scores)
        number = xp.astype(scores >= 0, xp.int64) if scores.ndim == 1 else xp.argmax(scores, axis=1)
        if is_foreign(scores) and self.classes_.dtype.kind in "biuf":
            return at(from_host(self.classes_, scores), number)
        return self.classes_[to_host(number)]
