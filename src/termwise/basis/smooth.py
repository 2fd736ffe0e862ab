"""Straight lines and Gaussians of several widths, for inputs as they are."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length

from termwise._arrays import as_columns, different_rows, is_foreign, row_blocks, to_host
from termwise._checks import check_bool, check_choice, check_number
from termwise.basis.base import Basis
from termwise.basis.radial import RadialBasis, median_distance
from termwise.basis.relevance import relevances
from termwise.basis.scale import Scale

NAMED = 3  # inputs that the name of a Gaussian lists


class SmoothBasis(Basis):
    """The inputs themselves, and Gaussians on the samples at one or several widths.

    Inputs are standardised, and widths are given in units of the median distance between samples, so that the same
    settings suit data of any size and unit. The functions are `(x_j - mean_j) / deviation_j` for every input that is
    not constant, then for each width `w` and centre `c` the Gaussian `exp(-|x - c|^2 / (w D)^2)`, with distances
    between standardised inputs and `D` their median over the samples.

    Parameters
    ----------
    widths : float or array-like of float, default=1.0
        Widths of the Gaussians, in median distances between samples; what their widths are multiplied by if there is a
        `relevance`. With several, every centre has one of each, and
        it is left to the estimator to choose.
    centers : "samples", int or array-like of shape (m, d), default="samples"
        Where the Gaussians sit: on every different training sample, on that many of them spread over the data (on all
        where there are fewer), or given.
    linear : bool, default=True
        Whether the inputs themselves are there.
    random_state : int, RandomState instance or None, default=0
        Draws the spread-out samples when `centers` is a number.
    relevance : "auto", array-like of shape (d,) or None, default=None
        How much each input matters: Gaussians are `exp(-sum_j (r_j (x_j - c_j) / deviation_j)^2 / w^2)`, so that zero
        leaves an input out. "auto" learns these numbers from the targets given to `fit`; None takes all inputs alike,
        one over the median distance.

    Attributes
    ----------
    columns_ : ndarray of shape (p,)
        The input a linear function is of; -1 for a Gaussian.
    factors_ : ndarray of shape (p,)
        Width of each Gaussian, as in `widths`; NaN for a linear function.
    centers_ : ndarray of shape (p, d)
        Centre of each Gaussian; NaN for a linear function.
    center_rows_ : ndarray of shape (p,)
        First training sample at that centre, or number of the given centre; -1 for a linear function.
    distance_ : float
        The median distance between standardised samples, 1 if there is a `relevance`.
    relevance_ : ndarray of shape (d,)
        What standardised inputs are multiplied by before distances are taken; 0 for those that do not matter.
    means_, deviations_ : ndarrays of shape (d,)
        What the inputs are standardised by; a deviation of 0 marks a constant input, which is not looked at.
    ranges_ : ndarray of shape (2, d)
        Lowest and highest value of each input.

    See Also
    --------
    RadialBasis : One width, other kernels and metrics, inputs taken as they are.
    AnovaBasis : Functions of one and two inputs, the better choice for many inputs.

    Notes
    -----
    Means, deviations, the median and the centres are those of the different samples: a sample written twice changes
    nothing. Linear functions carry on outside the data, where Gaussians fade; together they make a safe default for a
    smooth function of up to about ten inputs.

    Among many inputs of which some do not matter distances say little, and no width is right. `relevance="auto"` finds
    out which matter, and how much: targets are taken for a straight line, a Gaussian process with a width for each
    input and noise, and the widths are those under which the targets given to `fit` are most probable (of at most 350
    samples drawn from the data, so that it takes a fraction of a second). Inputs that no Gaussian of width 1 depends on
    by more than a hundredth are left out, and a name lists those that are left if they are few. Criteria and error bars
    of a model take what was learned as given, as they do with all that a basis learns: for few samples and many inputs
    they are optimistic, and cross-validation is the better judge.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import BasisRidge, SmoothBasis
    >>> X = np.array([[0.0, 7.0], [1.0, 7.0], [3.0, 7.0]])
    >>> basis = SmoothBasis(widths=[0.5, 2]).fit(X)
    >>> list(basis.get_feature_names_out(["speed", "load"])[:3])
    ['speed', 'gauss(w=0.5) near row 0', 'gauss(w=0.5) near row 1']
    >>> basis.take([0, 5]).transform(X).round(2).tolist()
    [[-1.07, 0.94], [-0.27, 1.0], [1.34, 0.78]]

    Of six inputs two matter, and the first one most.

    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(150, 6))
    >>> y = np.sin(4 * X[:, 0]) * (1 + X[:, 1])
    >>> basis = SmoothBasis(relevance="auto").fit(X, y)
    >>> basis.relevance_.round(1).tolist()
    [0.8, 0.1, 0.0, 0.0, 0.0, 0.0]
    >>> print(basis.get_feature_names_out()[-1])
    gauss(x0, x1) near row 149
    """

    _per_term = ("columns_", "factors_", "centers_", "center_rows_")

    def __init__(
        self,
        widths: float | ArrayLike = 1.0,
        centers: str | int | ArrayLike = "samples",
        linear: bool = True,
        random_state: int | np.random.RandomState | None = 0,
        relevance: str | ArrayLike | None = None,
    ) -> None:
        self.widths = widths
        self.centers = centers
        self.linear = linear
        self.random_state = random_state
        self.relevance = relevance

    def _learn(self, X: NDArray) -> None:
        self._learn_from(X, None)

    def _learn_from(self, X: NDArray, y: Any) -> None:
        check_bool("linear", self.linear, remedy="True has the inputs themselves as functions too")
        factors = self._check_widths()
        scale = Scale.of(X).check()
        self.means_, self.deviations_, self.ranges_ = scale.means, scale.deviations, scale.ranges
        self.relevance_, self._alike = self._resolve_relevance(X, y), self.relevance is None
        different, Z = scale.rows, scale.standardise(X[scale.rows], self._mattering) * self.relevance_[self._mattering]
        if len(self._mattering) < len(scale.varying):  # samples may differ in inputs that do not matter
            first = different_rows(Z)
            different, Z = different[first], Z[first]
        self.distance_ = median_distance(Z) if self._alike else 1.0
        centers, rows = self._resolve_centers(X, different, Z)
        columns = scale.varying if self.linear else scale.varying[:0]
        lines, bumps = len(columns), len(factors) * len(rows)
        self.columns_ = np.append(columns, np.full(bumps, -1))
        self.factors_ = np.append(np.full(lines, np.nan), np.repeat(factors, len(rows)))
        self.centers_ = np.vstack([np.full((lines, X.shape[1]), np.nan), np.tile(centers, (len(factors), 1))])
        self.center_rows_ = np.append(np.full(lines, -1), np.tile(rows, len(factors)))

    def _settled(self) -> Self:
        return super()._settled().set_params(relevance=None if self._alike else self.relevance_)

    def _check_widths(self) -> NDArray[np.float64]:
        """Return the widths, each once."""
        remedy = "give one or several widths in median distances between samples, such as [0.5, 1, 2]"
        if np.ndim(self.widths) == 0:
            return np.array([check_number("widths", self.widths, above=0, remedy=remedy)], dtype=np.float64)
        widths = [check_number("widths", w, above=0, remedy=remedy) for w in np.asarray(self.widths).tolist()]
        if not widths:
            raise ValueError(f"widths must not be empty, got {self.widths!r}: {remedy}.")
        return np.array(list(dict.fromkeys(widths)), dtype=np.float64)

    @property
    def _mattering(self) -> NDArray[np.intp]:
        """Inputs that Gaussians are of."""
        return np.flatnonzero(self.relevance_)

    def _resolve_relevance(self, X: NDArray, y: Any) -> NDArray[np.float64]:
        """Return what each standardised input is multiplied by; nothing is said of constant ones."""
        varies = self.deviations_ > 0
        if self.relevance is None:
            return varies.astype(np.float64)
        relevance = np.zeros(len(varies))
        if isinstance(self.relevance, str):
            check_choice("relevance", self.relevance, ["auto"], remedy="give 'auto', None or a number for each input")
            if y is None:
                raise ValueError("relevance='auto' must learn from targets, got none: call fit(X, y), or give numbers.")
            Y = check_array(to_host(y) if is_foreign(y) else y, ensure_2d=False, dtype=np.float64, input_name="y")
            check_consistent_length(X, Y)
            Y = as_columns(Y)
            relevance[varies] = relevances(X[:, varies].astype(np.float64), Y) * self.deviations_[varies]
        else:
            given = check_array(
                np.atleast_1d(self.relevance), ensure_2d=False, dtype=np.float64, input_name="relevance"
            )
            relevance = np.where(varies, given, 0.0) if given.shape == varies.shape else relevance
            if (given < 0).any() or not relevance.any():
                raise ValueError(
                    f"relevance must be {len(varies)} numbers, one per input, none negative and not all of them zero, "
                    f"got {self.relevance!r}: None takes all inputs alike."
                )
        return relevance

    def _resolve_centers(
        self, X: NDArray, different: NDArray[np.intp], Z: NDArray[np.float64]
    ) -> tuple[NDArray, NDArray[np.intp]]:
        """Return different centres and the rows they come from; Z holds the different samples, standardised."""
        self._place = "row"
        if isinstance(self.centers, str):
            check_choice("centers", self.centers, ["samples"], remedy="give 'samples', a number or an array")
            return X[different], different
        if np.ndim(self.centers) == 0:
            remedy = "'samples' or an array of points will do as well"
            count = check_number("centers", self.centers, low=1, integer=True, remedy=remedy)
            if count >= len(Z):
                return X[different], different
            spread = RadialBasis(centers=int(count), random_state=self.random_state).fit(Z)
            return X[different[spread.center_rows_]], different[spread.center_rows_]
        shape = np.shape(self.centers)
        if len(shape) != 2 or shape[1] != X.shape[1]:
            raise ValueError(f"centers must have shape (m, {X.shape[1]}), got shape {shape}: one coordinate per input.")
        self._place = "centre"
        given = check_array(self.centers, dtype=X.dtype, input_name="centers")
        rows = different_rows(given[:, self._mattering])
        return given[rows], rows

    def _evaluate(self, X: NDArray) -> NDArray:
        """Fill G block by block, the Gaussians of one width at a time."""
        G = np.empty((len(X), len(self.columns_)), dtype=X.dtype)
        lines = np.flatnonzero(self.columns_ >= 0)
        columns = self.columns_[lines]
        parts = [(np.flatnonzero(self.factors_ == w), w) for w in np.unique(self.factors_[self.columns_ < 0])]
        inputs = self._mattering
        radial = [(terms, self._gaussians(self.centers_[terms][:, inputs], w)) for terms, w in parts]
        for rows in row_blocks(*G.shape):
            G[rows, lines] = (X[rows][:, columns] - self.means_[columns]) / self.deviations_[columns]
            for terms, part in radial:
                G[rows, terms] = part._evaluate(X[rows][:, inputs])
        return G

    def _gaussians(self, centers: NDArray, factor: float) -> RadialBasis:
        """Gaussians of one width around centres given in the inputs that matter."""
        return RadialBasis(width=self._widths_of(factor), centers=centers).fit(centers)

    def _widths_of(self, factor: float) -> NDArray[np.float64]:
        """Width of a Gaussian along each of the inputs that matter, in their units."""
        inputs = self._mattering
        return factor * self.distance_ * self.deviations_[inputs] / self.relevance_[inputs]

    def _names(self, inputs: list[str] | None = None) -> list[str]:
        inputs = inputs or self._input_names()
        return [
            inputs[j] if j >= 0 else f"gauss({self._kind(factor, inputs)}) near {self._place} {row}"
            for j, factor, row in zip(self.columns_, self.factors_, self.center_rows_, strict=True)
        ]

    def _kind(self, factor: float, inputs: list[str]) -> str:
        """What Gaussians of one width have in common: the width, the inputs they are of, or both."""
        width = f"w={factor:g}"
        if self._alike:
            return width
        mattering = [inputs[j] for j in self._mattering]
        of = ", ".join(mattering) if len(mattering) <= NAMED else f"{len(mattering)} inputs"
        return of if factor == 1 else f"{of}; {width}"
