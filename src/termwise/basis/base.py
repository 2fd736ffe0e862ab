"""The base class of all bases, and how any scikit-learn transformer serves as a basis."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from termwise._arrays import Array, all_finite, at, densify, from_host, has_missing, is_foreign, namespace, to_host
from termwise._checks import (
    check_foreign,
    check_indices,
    check_magnitudes,
    check_numeric,
    check_table,
    is_plain_table,
    warn,
)
from termwise.basis.columns import missing_columns
from termwise.basis.encoder import TableEncoder

Floats = NDArray[np.float64]

OLD_HOOKS = {"_learn": "_fit(X, y)", "_evaluate": "evaluate(X)"}  # methods of bases in 0.1, and what they are now


class Basis(TransformerMixin, BaseEstimator, ABC):
    """A fixed set of functions `h_j`, evaluated on every sample: X (n, d) -> G (n, p).

    A subclass lists in `_per_term` its fitted arrays with an entry for every function, which `take` restricts, and
    implements `_fit` (set the fitted attributes), `evaluate` (rows of G) and `_names`. One that evaluates functions at
    clipped inputs returns the ranges of these by `clip_ranges`.

    One with `allows_missing` accepts missing values (NaN) in the inputs that have some in `fit`, `missing_`. Functions
    of a missing input are zero, which is neutral in a linear model: the effect of a missing value is that of its
    indicator, see `TableEncoder`. `evaluate` treats every NaN like this, whether `missing_` has its input or not.
    """

    _per_term: ClassVar[tuple[str, ...]]
    any_library: ClassVar[bool] = False  # whether it computes by the array API, on the device of the inputs
    allows_missing: ClassVar[bool] = False  # whether inputs may have missing values; if so, NumPy computes
    cross_fits: ClassVar[bool] = False  # whether `fit_transform` differs from `transform` on the training samples
    missing_: NDArray[np.bool_]  # (d,), inputs with missing values in fit; of bases that allow them

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for old, new in OLD_HOOKS.items():
            if old in vars(cls):
                warn(f"{cls.__name__}.{old} must be called {new}: rename it.", FutureWarning)
        if "_learn" in vars(cls):
            cls._fit = lambda self, X, y: self._learn(X)  # type: ignore[method-assign]
        if "_evaluate" in vars(cls):
            cls.evaluate = vars(cls)["_evaluate"]  # type: ignore[method-assign]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = self.any_library
        tags.input_tags.allow_nan = self.allows_missing
        return tags

    @abstractmethod
    def _fit(self, X: NDArray[Any], y: Any) -> None:
        """Set the fitted attributes from valid inputs and, for the few bases that use them, from the targets."""

    @abstractmethod
    def evaluate(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the design matrix of valid inputs, as `transform` does but without validation.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """

    @abstractmethod
    def _names(self, inputs: list[str]) -> list[str]:
        """Return one readable name per function, from the names of the inputs."""

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Fix the functions from the training inputs.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training inputs.
        y : array-like, default=None
            Targets, for the few bases that depend on them; ignored by the others.
        """
        self._fit(self._check(X, reset=True), y)
        return self

    def fit_design(self, X: ArrayLike, y: Any = None) -> Any:
        """Fix the functions and return the design matrix of the training samples, which need not be stored.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training inputs.
        y : array-like, default=None
            Targets, for the few bases that depend on them; ignored by the others.
        """
        return design_matrix(self.fit(X, y), X)

    def with_fitted_params(self) -> Self:
        """Return an unfitted copy, with parameters that were estimated from the targets at their fitted values."""
        return clone(self)

    def _check(self, X: Any, reset: bool) -> Any:
        """Return valid inputs, on their device."""
        if self.any_library and is_foreign(X):
            X = check_foreign("X", X)
            validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        X = to_host(X) if is_foreign(X) else X
        if not reset and is_plain_table(self, X) and all_finite(X):
            return X
        X = check_table(X)
        check_numeric(X)
        finite = "allow-nan" if self.allows_missing else True
        X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=finite)
        if reset:
            check_magnitudes("X", X, getattr(self, "feature_names_in_", None))
        if self.allows_missing:
            missing = np.isnan(X).any(axis=0) if has_missing(X) else np.zeros(X.shape[1], dtype=bool)
            if reset:
                self.missing_ = missing
            if np.any(missing & ~self.missing_):
                names = np.array(self.input_names(), dtype=object)[missing & ~self.missing_]
                raise ValueError(
                    f"X must be complete in inputs that had no missing values in fit, got NaN in {', '.join(names)}: "
                    "fill them in, or fit with samples in which they are missing."
                )
        return X

    def expect_missing(self, missing: NDArray[np.bool_]) -> Self:
        """Accept missing values in more inputs than had some in `fit`, in place: those of the table a fold is from.

        Parameters
        ----------
        missing : ndarray of bool of shape (d,)
            Inputs that may have missing values.
        """
        self.missing_ = self.missing_ | missing
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
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
        return self.evaluate(self._check(X, reset=False))

    def design_matrix(self, X: ArrayLike) -> Any:
        """Return the design matrix of new samples: an array, or a `Design` if the basis has one and it is too large.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        """
        inputs = self._check(X, reset=False)
        return self.evaluate(inputs) if self._stores(inputs) else self.design(inputs)

    def _stores(self, X: NDArray[Any]) -> bool:
        """Whether estimators store the design matrix of valid inputs."""
        return True

    def clip_ranges(self) -> Floats:
        """Return the range of every input outside which a function is evaluated at the boundary, (2, d).

        It is infinite for inputs that are not clipped; here, for all.
        """
        return np.outer([-np.inf, np.inf], np.ones(self.n_features_in_))

    @property
    def is_bounded(self) -> bool:
        """Whether some functions of the fitted basis, the nonlinear ones, do not go on outside the training range."""
        return bool(np.isfinite(self.clip_ranges()).any())

    def clipped(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Return which samples have an input outside the training range that is clipped for a function.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.

        Returns
        -------
        clipped : ndarray of bool of shape (n,)
            True where a function is evaluated at the boundary of the training range instead.
        """
        check_is_fitted(self)
        return to_host(self._clipped(self._check(X, reset=False)))

    def _clipped(self, X: Array) -> Array:
        """Which rows of valid inputs are clipped."""
        ends = self.clip_ranges()
        inputs = np.flatnonzero(np.isfinite(ends[0]))
        if not len(inputs):
            return np.zeros(X.shape[0], dtype=bool)
        Z = at(X, inputs, axis=1)
        low, high = (from_host(end, Z) for end in ends[:, inputs])
        return namespace(X).any((low > Z) | (high < Z), axis=1)

    def take(self, indices: ArrayLike) -> Self:
        """Return the same fitted basis restricted to some of its functions, in that order.

        Parameters
        ----------
        indices : array-like of int, or boolean mask of length p
            Which functions to keep.
        """
        check_is_fitted(self)
        chosen = check_indices("indices", indices, self.n_functions, what="function")
        restricted = copy.copy(self)
        restricted._restrict(chosen)
        return restricted

    def _restrict(self, chosen: NDArray[np.intp]) -> None:
        """Keep some of the functions, in place."""
        for name in self._per_term:
            setattr(self, name, at(getattr(self, name), chosen))

    def inputs_of(self, indices: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the inputs that each of some functions depends on, in ascending order; all inputs unless overridden.

        Parameters
        ----------
        indices : ndarray of int
            Which functions.
        """
        return [tuple(range(self.n_features_in_))] * len(indices)

    @property
    def n_functions(self) -> int:
        """Number of functions of a fitted basis."""
        return int(getattr(self, self._per_term[0]).shape[0])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return one readable name per function.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the inputs; by default those seen in `fit`, or `x0`, `x1`, ...
        """
        check_is_fitted(self)
        return np.asarray(self._names(self.input_names(input_features)), dtype=object)

    def input_names(self, input_features: ArrayLike | None = None) -> list[str]:
        """Return the names of the inputs.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Other names than those seen in `fit`; only valid if `fit` saw none.
        """
        seen = getattr(self, "feature_names_in_", None)
        if input_features is None:
            return list(seen) if seen is not None else [f"x{j}" for j in range(self.n_features_in_)]
        names = [str(name) for name in np.asarray(input_features, dtype=object)]
        if len(names) != self.n_features_in_:
            raise ValueError(
                "input_features should have length equal to number of features "
                f"({self.n_features_in_}), got {len(names)}: give one name per input."
            )
        if seen is not None and names != list(seen):
            raise ValueError("input_features is not equal to feature_names_in_: leave it out to use those seen in fit.")
        return names

    _input_names = input_names  # its name in 0.1, for bases of users


class ColumnSubset(TransformerMixin, BaseEstimator):
    """Some columns of the output of a fitted transformer: `take` for transformers that have none of their own."""

    def __init__(self, transformer: Any, indices: NDArray[np.intp]) -> None:
        self.transformer = transformer
        self.indices = indices

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Do nothing: the transformer is fitted already."""
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Evaluate the transformer and select the columns."""
        return at(densify(self.transformer.transform(X)), self.indices, axis=1)

    def inputs_of(self, indices: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the inputs that each of some columns depends on."""
        return inputs_of_columns(self.transformer, self.indices[indices])

    @available_if(lambda self: hasattr(self.transformer, "get_feature_names_out"))
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the transformer's own names of these columns."""
        return self.transformer.get_feature_names_out(input_features)[self.indices]


def clipped_rows(basis: Any, X: Any) -> NDArray[np.bool_]:
    """Return which rows a fitted basis, or the bases in a fitted transformer, clip to the range of their inputs."""
    if isinstance(basis, Basis):
        return basis.clipped(X)
    if isinstance(basis, ColumnSubset):  # of any transformer: which of its columns are clipped is not known
        return clipped_rows(basis.transformer, X)
    found = np.zeros(X.shape[0], dtype=bool)
    if isinstance(basis, FeatureUnion):
        for _, part in basis.transformer_list:
            found |= clipped_rows(part, X)
    elif isinstance(basis, Pipeline):
        for i, (_, step) in enumerate(basis.steps):
            found |= clipped_rows(step, X)
            X = step.transform(X) if i + 1 < len(basis) and hasattr(step, "transform") else X
    return found


def last_step(transformer: Any) -> Any:
    """Return the last transformer of a pipeline; one that is no pipeline is its own."""
    return transformer[-1] if isinstance(transformer, Pipeline) else transformer


def is_streamable(basis: Any) -> bool:
    """Whether a transformer, or the last one of a pipeline, has a design matrix that need not be stored."""
    last = last_step(basis)
    return isinstance(last, Basis) and hasattr(last, "design")


def design_matrix(basis: Any, X: Any) -> Any:
    """Return the design matrix of a fitted transformer: an array, or a `Design` if it is streamable and too large."""
    if not is_streamable(basis):
        return basis.transform(X)
    if isinstance(basis, Pipeline):
        basis, X = basis[-1], basis[:-1].transform(X) if len(basis) > 1 else X
    return basis.design_matrix(X)


def fit_design_matrix(basis: Any, X: Any, y: Any) -> Any:
    """Fit a transformer, in place, and return the design matrix of the training samples, as `design_matrix` does.

    It is cross-fitted where the transformer, or the last one of a pipeline, learns inputs from the targets.
    """
    if isinstance(basis, Basis):
        return basis.fit_design(X, y)
    if isinstance(basis, Pipeline) and isinstance(basis[-1], Basis):
        return basis[-1].fit_design(basis[:-1].fit_transform(X, y) if len(basis) > 1 else X, y)
    return design_matrix(basis.fit(X, y), X)


def expect_missing(basis: Any, X: Any) -> None:
    """Accept missing values in all columns that have some; the fit saw only some rows."""
    steps = [step for _, step in basis.steps] if isinstance(basis, Pipeline) else [basis]
    X = to_host(X) if is_foreign(X) else X
    for i, step in enumerate(steps):
        if isinstance(step, TableEncoder) or (isinstance(step, Basis) and step.allows_missing):
            step.expect_missing(missing_columns(X))
        X = step.transform(X) if i + 1 < len(steps) and hasattr(step, "transform") else X


def cross_fits(basis: Any) -> bool:
    """Whether a transformer, or the last one of a pipeline, has another design matrix for the training samples."""
    last = last_step(basis)
    return isinstance(last, Basis) and last.cross_fits


def restrict(basis: Any, indices: NDArray[np.intp]) -> Any:
    """Return a fitted basis, or any fitted transformer, restricted to some of its functions."""
    if hasattr(basis, "take"):
        return basis.take(indices)
    if isinstance(basis, Pipeline) and hasattr(basis[-1], "take"):
        return Pipeline([*basis.steps[:-1], (basis.steps[-1][0], basis[-1].take(indices))])
    return ColumnSubset(basis, indices)


def inputs_of_columns(transformer: Any, columns: NDArray[np.intp]) -> list[tuple[int, ...]]:
    """Return the inputs that each of some output columns of a fitted transformer depends on, in ascending order.

    None stands for no transformation. Bases and encoders of termwise, selectors, scalers, polynomials and pipelines of
    these are resolved column by column; every column of any other transformer is taken to depend on all its inputs.
    """
    if transformer is None or transformer == "passthrough":
        return [(int(j),) for j in columns]
    if hasattr(transformer, "inputs_of"):
        return transformer.inputs_of(columns)
    if isinstance(transformer, Pipeline):
        sets = inputs_of_columns(None, columns)
        for _, step in reversed(transformer.steps):
            needed = np.array(sorted(set().union(*sets)), dtype=np.intp)
            earlier = dict(zip(needed.tolist(), inputs_of_columns(step, needed), strict=True))
            sets = [tuple(sorted(set().union(*(earlier[j] for j in inputs)))) for inputs in sets]
        return sets
    if hasattr(transformer, "get_support"):  # a selector, of termwise with a basis
        return inputs_of_columns(getattr(transformer, "basis_", None), transformer.get_support(indices=True)[columns])
    if isinstance(transformer, OneToOneFeatureMixin):
        return inputs_of_columns(None, columns)
    if hasattr(transformer, "powers_"):  # PolynomialFeatures
        return [tuple(np.flatnonzero(powers).tolist()) for powers in transformer.powers_[columns]]
    return [tuple(range(transformer.n_features_in_))] * len(columns)
