"""The functions of several bases concatenated."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from termwise._checks import check_indices
from termwise.basis.base import Basis
from termwise.basis.lag import LagBasis


class UnionBasis(Basis):
    """The functions of several bases, one after the other.

    Parameters
    ----------
    bases : sequence of bases of `termwise.basis`
        Bases whose functions are concatenated; each is fitted to the same inputs. Unions may be among them, and bases
        of your own, but no `LagBasis`: lags go in front of the union, `make_pipeline(LagBasis(), UnionBasis(...))`.

    Attributes
    ----------
    bases_ : tuple of fitted bases
        The bases, restricted by `take`; those without any function are dropped.
    places_ : ndarray of shape (p,)
        Number of each function among those of all `bases_`, one basis after the other.
    sizes : list of int
        Number of functions of each of `bases_`.

    See Also
    --------
    sklearn.pipeline.FeatureUnion : For any transformers; evaluates all functions even if few are needed.

    Notes
    -----
    Use it where functions of one kind explain most of the target and another kind the rest, with an estimator that
    selects among them, such as `ForwardRegressor`. A model evaluates the selected functions only, and can be drawn by
    `ShapeDisplay` if these are all of one input or two.

    Functions that two bases have in common are included twice, under the same name. `AnovaBasis` has the inputs
    themselves, so that `SmoothBasis` with it needs `linear=False`. All functions are evaluated into one array: unlike
    `AnovaBasis` and `RadialBasis` alone, a union has to fit into memory. Missing values are allowed if all of its bases
    allow them.

    Examples
    --------
    Single inputs and their products, and Gaussians of all inputs for what these cannot express.

    >>> import numpy as np
    >>> from termwise import AnovaBasis, ForwardRegressor, SmoothBasis, UnionBasis
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 3))
    >>> y = X[:, 0] * X[:, 1] + np.exp(-4 * (X**2).sum(axis=1))
    >>> basis = UnionBasis([AnovaBasis(n_centers=0), SmoothBasis(width=("median", 0.5), linear=False)])
    >>> model = ForwardRegressor(basis, max_terms=2).fit(X, y)
    >>> list(model.get_feature_names_out())
    ['x0 * x1', 'gauss(w=0.5) near row 164']
    >>> [round(ForwardRegressor(one, max_terms=2).fit(X, y).score(X, y), 2) for one in [*basis.bases, basis]]
    [0.83, 0.4, 0.93]
    """

    _per_term = ("places_",)
    _dropped: Mapping[int, Basis] = MappingProxyType({})  # what `take` left out, unfitted, by its number in `bases`

    def __init__(self, bases: Sequence[Basis]) -> None:
        self.bases: Any = bases  # validated in fit

    @property
    def allows_missing(self) -> bool:  # type: ignore[override]
        """Whether all of its bases allow missing values."""
        return isinstance(self.bases, Sequence) and all(getattr(basis, "allows_missing", False) for basis in self.bases)

    @property
    def cross_fits(self) -> bool:  # type: ignore[override]
        """Whether one of its bases has another design matrix for the training samples."""
        return isinstance(self.bases, Sequence) and any(getattr(basis, "cross_fits", False) for basis in self.bases)

    @classmethod
    def of(cls, fitted: Sequence[Basis]) -> Self:
        """Return the union of bases that are fitted to the same inputs already, without fitting them again.

        Parameters
        ----------
        fitted : sequence of fitted bases
            The bases, which need not have all their functions.
        """
        union = cls(bases=list(fitted))
        union._check_bases()
        for basis in fitted:
            check_is_fitted(basis)
        widths = [basis.n_features_in_ for basis in fitted]
        if len(set(widths)) > 1:
            raise ValueError(f"fitted must be bases of the same inputs, got {widths} inputs: fit them to one table.")
        union.n_features_in_ = widths[0]
        if hasattr(fitted[0], "feature_names_in_"):
            union.feature_names_in_ = fitted[0].feature_names_in_
        if union.allows_missing:
            union.missing_ = np.any([basis.missing_ for basis in fitted], axis=0)
        union.bases_ = tuple(fitted)
        union.places_ = np.arange(sum(union.sizes))
        return union

    def _fit(self, X: NDArray[Any], y: Any) -> None:
        self._check_bases()
        self.bases_, self._dropped = tuple(clone(basis).fit(X, y) for basis in self.bases), {}
        self.places_ = np.arange(sum(self.sizes))

    def fit_transform(self, X: ArrayLike, y: Any = None, **fit_params: Any) -> NDArray[Any]:
        """Fix the functions from the training inputs and evaluate them on these.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training inputs.
        y : array-like, default=None
            Targets, for bases that depend on them.
        **fit_params : dict
            None: present for scikit-learn's conventions.
        """
        if not self.cross_fits:
            return self.fit(X, y).transform(X)
        X = self._check(X, reset=True)
        self._check_bases()
        self.bases_, self._dropped = tuple(clone(basis) for basis in self.bases), {}
        parts = [basis.fit_transform(X, y) for basis in self.bases_]
        self.places_ = np.arange(sum(self.sizes))
        return np.hstack(parts)

    fit_design = fit_transform

    def with_fitted_params(self) -> Self:
        """Return an unfitted copy, with parameters of its bases that were estimated at their fitted values.

        It has all the bases, also those of which `take` has left no function.
        """
        parts = {number: basis.with_fitted_params() for number, basis in zip(self._numbers, self.bases_, strict=True)}
        parts |= self._dropped
        return clone(self).set_params(bases=[parts[number] for number in sorted(parts)])

    @property
    def _numbers(self) -> list[int]:
        """Number of each of `bases_` among `bases`."""
        return [number for number in range(len(self.bases_) + len(self._dropped)) if number not in self._dropped]

    def expect_missing(self, missing: NDArray[np.bool_]) -> Self:
        """Accept missing values in more inputs than had some in `fit`, in place.

        Parameters
        ----------
        missing : ndarray of bool of shape (d,)
            Inputs that may have missing values.
        """
        for basis in self.bases_:
            basis.expect_missing(missing)
        return super().expect_missing(missing)

    def _check_bases(self) -> None:
        """Raise unless there are bases, each row of whose design matrix depends on one row of X."""
        bases = self.bases if isinstance(self.bases, Sequence) else []
        if not bases or not all(isinstance(basis, Basis) for basis in bases):
            raise TypeError(
                f"bases must be a list of bases of termwise.basis, got {self.bases!r}: scikit-learn's FeatureUnion "
                "takes other transformers."
            )
        if any(isinstance(basis, LagBasis) for basis in bases):
            raise TypeError(
                f"bases must not have a LagBasis, which refers to earlier rows, among them, got {self.bases!r}: put it "
                "in front, as in make_pipeline(LagBasis(), UnionBasis(...))."
            )

    @property
    def sizes(self) -> list[int]:
        """Number of functions of each basis."""
        return [basis.n_functions for basis in self.bases_]

    @property
    def weight_signs_(self) -> NDArray[np.intp]:
        """Signs that the weights must have for the model to be monotone, as in `AnovaBasis`."""
        free = np.zeros(self.n_features_in_, dtype=np.intp)
        directions = [getattr(basis, "monotone_", free) for basis in self.bases_]
        if any(not np.array_equal(directions[0], other) for other in directions):
            raise ValueError(
                f"bases must have the same monotone inputs, got {[each.tolist() for each in directions]}: functions of "
                "the other bases need not be monotone."
            )
        signs = [getattr(basis, "weight_signs_", np.zeros(basis.n_functions, dtype=np.intp)) for basis in self.bases_]
        return np.concatenate(signs)[self.places_]

    def take(self, indices: ArrayLike) -> Self:
        """Return the same fitted basis restricted to some of its functions, in that order.

        Parameters
        ----------
        indices : array-like of int, or boolean mask of length p
            Which functions to keep.
        """
        check_is_fitted(self)
        chosen = check_indices("indices", indices, len(self.places_), what="function")
        wanted, places = np.unique(self.places_[chosen], return_inverse=True)
        ends = np.cumsum([0, *self.sizes])
        shares = [wanted[(wanted >= low) & (wanted < high)] - low for low, high in pairwise(ends)]
        restricted = copy.copy(self)
        kept, dropped = [], dict(self._dropped)
        for number, basis, share in zip(self._numbers, self.bases_, shares, strict=True):
            if len(share):
                kept.append(basis.take(share))
            else:
                dropped[number] = basis.with_fitted_params()
        restricted.bases_, restricted._dropped = tuple(kept), dropped
        restricted.places_ = places
        return restricted

    def evaluate(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the design matrix of valid inputs.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        parts = [np.empty((len(X), 0), dtype=X.dtype), *(basis.evaluate(X) for basis in self.bases_)]
        G = np.hstack(parts)
        return G if np.array_equal(self.places_, np.arange(G.shape[1])) else G[:, self.places_]

    def inputs_of(self, indices: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the inputs that each of some functions depends on, in ascending order.

        Parameters
        ----------
        indices : ndarray of int
            Which functions.
        """
        inputs = [own for basis in self.bases_ for own in basis.inputs_of(np.arange(basis.n_functions))]
        return [inputs[place] for place in self.places_[indices]]

    def clip_ranges(self) -> NDArray[np.float64]:
        """Return the range of every input outside which a function is evaluated at the boundary, (2, d)."""
        ends = [basis.clip_ranges() for basis in self.bases_]
        lows, highs = zip(*[super().clip_ranges(), *ends], strict=True)
        return np.array([np.max(lows, axis=0), np.min(highs, axis=0)])

    @property
    def is_bounded(self) -> bool:
        """Whether some functions of one of the parts do not go on outside the training range."""
        return any(basis.is_bounded for basis in self.bases_)

    def _names(self, inputs: list[str]) -> list[str]:
        names = [name for basis in self.bases_ for name in basis.get_feature_names_out(inputs)]
        return [names[place] for place in self.places_]
