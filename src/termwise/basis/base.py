"""What all bases share, and how any scikit-learn transformer can stand in for one."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from termwise._arrays import at, densify, is_foreign, to_host
from termwise._checks import check_foreign, check_indices


class Basis(TransformerMixin, BaseEstimator, ABC):
    """A fixed set of functions `h_j`, evaluated on every sample: X (n, d) -> G (n, p).

    A subclass says in `_per_term` which of its fitted arrays run over the functions, so that `take` can restrict them,
    and implements `_learn` (look at the training inputs), `_evaluate` (rows of G) and `_names`.
    """

    _per_term: ClassVar[tuple[str, ...]]
    any_library: ClassVar[bool] = False  # whether it computes where the arrays live, not in NumPy's memory

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = self.any_library
        return tags

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Fix the functions from the training inputs.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training inputs.
        y : array-like, default=None
            Targets, for the few bases that look at them; the others do not.
        """
        self._learn_from(self._check(X, reset=True), y)
        return self

    def _learn_from(self, X: Any, y: Any) -> None:
        """Look at the training inputs, and at the targets if these matter."""
        self._learn(X)

    def _settled(self) -> Self:
        """Return this basis as it was before `fit`, but with what it has learned from the targets given."""
        return clone(self)

    def _check(self, X: Any, reset: bool) -> Any:
        """Return checked inputs, where they are."""
        if self.any_library and is_foreign(X):
            X = check_foreign("X", X)
            validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        X = to_host(X) if is_foreign(X) else X
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])

    def transform(self, X: ArrayLike) -> NDArray:
        """Evaluate every function on every sample.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.

        Returns
        -------
        G : ndarray of shape (n, p)
            Design matrix, one column per function, of the dtype of `X` (float32 or float64).
        """
        check_is_fitted(self)
        return self._evaluate(self._check(X, reset=False))

    def take(self, indices: ArrayLike) -> Self:
        """Return the same fitted basis restricted to some of its functions, in that order.

        Parameters
        ----------
        indices : array-like of int, or boolean mask of length p
            Which functions to keep.
        """
        check_is_fitted(self)
        chosen = check_indices("indices", indices, getattr(self, self._per_term[0]).shape[0], what="function")
        restricted = copy.copy(self)
        for name in self._per_term:
            setattr(restricted, name, at(getattr(self, name), chosen))
        return restricted

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return one readable name per function.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the inputs; by default those seen in `fit`, or `x0`, `x1`, ...
        """
        check_is_fitted(self)
        return np.asarray(self._names(self._input_names(input_features)), dtype=object)

    def _input_names(self, given: ArrayLike | None = None) -> list[str]:
        seen = getattr(self, "feature_names_in_", None)
        if given is None:
            return list(seen) if seen is not None else [f"x{j}" for j in range(self.n_features_in_)]
        names = [str(name) for name in np.asarray(given, dtype=object)]
        if len(names) != self.n_features_in_:
            raise ValueError(
                "input_features should have length equal to number of features "
                f"({self.n_features_in_}), got {len(names)}: give one name per input."
            )
        if seen is not None and names != list(seen):
            raise ValueError("input_features is not equal to feature_names_in_: leave it out to use those seen in fit.")
        return names

    @abstractmethod
    def _learn(self, X: NDArray) -> None: ...

    @abstractmethod
    def _evaluate(self, X: NDArray) -> NDArray: ...

    @abstractmethod
    def _names(self, inputs: list[str] | None = None) -> list[str]: ...


class TakenColumns(TransformerMixin, BaseEstimator):
    """Some columns of what a fitted transformer yields: `take` for transformers that have none of their own."""

    def __init__(self, transformer: Any, indices: NDArray[np.intp]) -> None:
        self.transformer = transformer
        self.indices = indices

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Do nothing: the transformer is fitted already."""
        return self

    def transform(self, X: ArrayLike) -> NDArray:
        """Evaluate the transformer and keep the columns in question."""
        return at(densify(self.transformer.transform(X)), self.indices, axis=1)

    @available_if(lambda self: hasattr(self.transformer, "get_feature_names_out"))
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the transformer's own names of these columns."""
        return self.transformer.get_feature_names_out(input_features)[self.indices]


def can_stream(basis: Any) -> bool:
    """Whether a transformer, or the last one of a pipeline, can do without storing its design matrix."""
    return hasattr(basis[-1] if isinstance(basis, Pipeline) else basis, "design")


def evaluate(basis: Any, X: Any) -> Any:
    """Return the design matrix of a fitted transformer: an array, or a `Design` if it can stream and is too large."""
    if not can_stream(basis):
        return basis.transform(X)
    last = basis
    if isinstance(basis, Pipeline):
        last, X = basis[-1], basis[:-1].transform(X) if len(basis) > 1 else X
    X = last._check(X, reset=False)
    return last._evaluate(X) if last._stores(X) else last.design(X)


def take(basis: Any, indices: NDArray[np.intp]) -> Any:
    """Return a fitted basis, or any fitted transformer, restricted to some of its functions."""
    if hasattr(basis, "take"):
        return basis.take(indices)
    if isinstance(basis, Pipeline) and hasattr(basis[-1], "take"):
        return Pipeline([*basis.steps[:-1], (basis.steps[-1][0], basis[-1].take(indices))])
    return TakenColumns(basis, indices)
