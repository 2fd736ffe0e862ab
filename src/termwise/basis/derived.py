"""The functions of another basis, of inputs that are derived from those given."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from termwise._checks import check_indices
from termwise.basis.base import Basis
from termwise.basis.expressions import evaluate, variable, where, z

Floats = NDArray[np.float64]

FLOOR_SHARE = 1e-6  # share of the lowest training value below which a logarithm is that of this share
# The logarithm of an input plus a shift, or the input itself; so is a missing one, whose derivative would be missing.
LOGARITHM = where(
    np.greater(variable("logarithm"), 0.5),
    where(np.isnan(z), z, np.log(np.maximum(z + variable("shift"), variable("floor")))),
    z,
)


class DerivedInputs(Basis):
    """A basis with the functions of another one, `basis`, whose inputs are `derived` from its own, the same first.

    A subclass implements `_fit`, which sets `columns_`, the inputs that are replaced, and `basis_`, and `derived`.
    """

    basis: Any
    basis_: Any
    columns_: NDArray[np.intp]
    _per_term = ()

    @abstractmethod
    def derived(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the inputs of the basis for valid inputs.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """

    @property
    def allows_missing(self) -> bool:  # type: ignore[override]
        """Whether the basis allows missing values."""
        return bool(getattr(self.basis, "allows_missing", False))

    @property
    def groups(self) -> Any:
        """Groups of the inputs of the basis, if it has some."""
        return getattr(self.basis, "groups", None)

    def check_basis(self) -> None:
        """Raise unless the basis is one of termwise."""
        if not isinstance(self.basis, Basis):
            raise TypeError(f"basis must be one of termwise.basis, got {self.basis!r}: AnovaBasis() suits most tables.")

    def evaluate(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the design matrix of valid inputs.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        return self.basis_.evaluate(self.derived(X))

    @available_if(lambda self: hasattr(getattr(self, "basis_", self.basis), "design"))
    def design(self, X: NDArray[Any]) -> Any:
        """Return the design matrix of valid inputs without storing it, if the basis can.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        return self.basis_.design(self.derived(X))

    def design_matrix(self, X: ArrayLike) -> Any:
        """Return the design matrix of new samples: an array, or a `Design` if the basis has one and it is too large.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        """
        return self.basis_.design_matrix(self.derived(self._check(X, reset=False)))

    def _restrict(self, chosen: NDArray[np.intp]) -> None:
        self.basis_ = self.basis_.take(chosen)

    @property
    def n_functions(self) -> int:
        """Number of functions of a fitted basis."""
        return self.basis_.n_functions

    @property
    def weight_signs_(self) -> NDArray[np.intp]:
        """Signs that the weights must have for the model to be monotone, as in `AnovaBasis`; 0 where they are free."""
        return getattr(self.basis_, "weight_signs_", np.zeros(self.n_functions, dtype=np.intp))

    @property
    def monotone_(self) -> NDArray[np.intp]:
        """Direction of the effect of every input: 1, -1, or 0 where it is free."""
        d = self.n_features_in_
        return getattr(self.basis_, "monotone_", np.zeros(d, dtype=np.intp))[:d]

    def with_fitted_params(self) -> Self:
        """Return an unfitted copy, with parameters of the basis that were estimated at their fitted values."""
        return clone(self).set_params(basis=with_groups(self.basis_.with_fitted_params(), self.groups))

    def expect_missing(self, missing: NDArray[np.bool_]) -> Self:
        """Accept missing values in more inputs than had some in `fit`, in place.

        Parameters
        ----------
        missing : ndarray of bool of shape (d,)
            Inputs that may have missing values.
        """
        further = np.zeros(self.basis_.n_features_in_ - len(missing), dtype=bool)
        self.basis_.expect_missing(np.append(missing, further))
        return super().expect_missing(missing)

    def inputs_of(self, indices: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the inputs that each of some functions depends on, in ascending order.

        Parameters
        ----------
        indices : ndarray of int
            Which functions.
        """
        sources = self.sources()
        return [tuple(sorted({int(sources[j]) for j in own})) for own in self.basis_.inputs_of(indices)]

    def sources(self) -> NDArray[np.intp]:
        """Return the input that each input of the basis comes from."""
        return np.arange(self.n_features_in_)

    @property
    def is_bounded(self) -> bool:
        """Whether some functions of the basis do not go on outside the training range."""
        return self.basis_.is_bounded


def with_groups(basis: Any, groups: Any) -> Any:
    """Return an unfitted basis of inputs in these groups, in place, where it has groups."""
    own = basis
    while isinstance(own, DerivedInputs):
        own = own.basis
    if hasattr(own, "groups"):
        own.set_params(groups=groups)
    return basis


class LogInputs(DerivedInputs):
    """A basis of inputs some of which are replaced by their logarithms.

    Amounts, sizes and counts act by their ratios, and range over several orders of magnitude: functions of the input
    itself, whose knots, centres and widths are of one scale, describe either the small or the large values well.

    Parameters
    ----------
    basis : basis of `termwise.basis`
        The functions of the inputs, among which the logarithms are ordinary numbers.
    columns : array-like of int
        Inputs without negative values that are replaced.

    Attributes
    ----------
    basis_ : fitted basis
        The functions, restricted by `take`.
    columns_ : ndarray of int
        The columns.
    shifts_ : ndarray of shape (columns,)
        What is added to the inputs: nothing, or the smallest positive training value where some are zero.
    ranges_ : ndarray of shape (2, d)
        The lowest and the highest training value of every input.
    missing_ : ndarray of bool of shape (d,)
        Inputs with missing values in `fit`.

    See Also
    --------
    TermwiseRegressor : Takes logarithms of skewed positive inputs with `log_inputs=True`.

    Notes
    -----
    New values below a millionth of the lowest training value, zero and negative ones included, have the logarithm of
    this millionth. In which range functions see new values is decided by the basis, for the logarithms.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import AnovaBasis, ForwardRegressor
    >>> from termwise.basis import LogInputs
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.lognormal(3, 2, size=300), rng.uniform(size=300)])
    >>> y = np.log(X[:, 0]) + X[:, 1]
    >>> model = ForwardRegressor(LogInputs(AnovaBasis(), columns=[0]), max_terms=2).fit(X, y)
    >>> list(model.get_feature_names_out())
    ['log(x0)', 'x1']
    """

    ranges_: Floats

    def __init__(self, basis: Any, columns: ArrayLike) -> None:
        self.basis = basis
        self.columns = columns

    def _fit(self, X: NDArray[Any], y: Any) -> None:
        """Fix the shifts, and the functions of the logarithms."""
        self.check_basis()
        self.columns_ = check_indices("columns", self.columns, X.shape[1], what="input")
        ends = np.array([np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)], dtype=np.float64)
        self.ranges_ = np.where(np.isnan(ends), 0.0, ends)  # an input that is missing everywhere is constant
        low = self.ranges_[0, self.columns_]
        if np.any(low < 0):
            names = np.asarray(self.input_names(), dtype=object)[self.columns_[low < 0]]
            raise ValueError(
                f"columns must be inputs without negative values, got {low.min():g} in {', '.join(map(str, names))}: "
                "leave them out of columns."
            )
        values = X[:, self.columns_].astype(np.float64)
        smallest = np.min(values, axis=0, where=values > 0, initial=np.inf)
        self.shifts_ = np.where(low > 0, 0.0, np.where(np.isfinite(smallest), smallest, 1.0))
        self.basis_ = clone(self.basis).fit(self.derived(X), y)

    def parameters(self) -> dict[str, Floats]:
        """Return the parameters of `LOGARITHM` for every input."""
        zeros = np.zeros(self.n_features_in_)
        logarithm, shift, floor = zeros.copy(), zeros.copy(), zeros + 1
        logarithm[self.columns_], shift[self.columns_] = 1.0, self.shifts_
        floor[self.columns_] = FLOOR_SHARE * (self.ranges_[0, self.columns_] + self.shifts_)
        return {"logarithm": logarithm, "shift": shift, "floor": floor}

    def derived(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the inputs, in part replaced by their logarithms.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        parameters = {name: values[self.columns_] for name, values in self.parameters().items()}
        table = X.copy()
        table[:, self.columns_] = evaluate(LOGARITHM, {"z": X[:, self.columns_].astype(np.float64), **parameters})
        return table

    def clip_ranges(self) -> Floats:
        """Return the range of every input outside which a function is evaluated at the boundary, (2, d)."""
        ends = self.basis_.clip_ranges()
        for j, shift in zip(self.columns_, self.shifts_, strict=True):
            own = np.where(np.isfinite(ends[:, j]), np.exp(ends[:, j]) - shift, ends[:, j])
            near = np.isclose(own, self.ranges_[:, j])  # but for the rounding of the logarithm and its inverse
            ends[:, j] = np.where(near, self.ranges_[:, j], own)
        return ends

    def _names(self, inputs: list[str]) -> list[str]:
        names = list(inputs)
        for j, shift in zip(self.columns_, self.shifts_, strict=True):
            names[j] = f"log({inputs[j]} + {shift:.3g})" if shift else f"log({inputs[j]})"
        return list(self.basis_.get_feature_names_out(names))
