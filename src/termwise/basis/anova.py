"""Functions of one input and of two: rich enough to find which inputs act together, readable in the end."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import row_blocks
from termwise._checks import check_number
from termwise.basis.base import Basis
from termwise.basis.scale import Scale
from termwise.design.products import ProductDesign

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FEW_PRODUCTS = 4  # terms for each single function, up to which their products may as well be stored
SMALL_MATRIX = 1 << 21  # numbers that caches hold
FLAT = 1e-12  # a share of a sum of squares below this is rounding
WHOLE, PLAIN = 4, 1e6  # digits before the point that labels show, and the numbers below which they do
RARE = 0.2  # share of the samples below which one of two values is rare
DIGITS = 9  # functions whose directions agree to this many are the same


class AnovaBasis(Basis):
    """Columns, bumps along them, and the products of any two.

    Every input that is not constant makes `1 + n_centers` single functions: the input itself, standardised, and
    Gaussian bumps `exp(-((x - c) / w)^2)` around some of its quantiles. With `order=2` the products of all single
    functions of any two inputs are there as well: `d (1 + n_centers)` singles and at most
    `d (d - 1) / 2 * (1 + n_centers)^2` products, 12,560 functions for 32 inputs and 4 centres. It is a dictionary for
    an estimator that chooses a few, such as `ForwardRegressor`, and each one chosen says which inputs act, and where.

    Parameters
    ----------
    n_centers : int, default=4
        Bumps per input, at the middles of as many equal shares of its samples. Those that coincide make one bump; an
        input with two values has none, since all functions of it are linear.
    width : float, default=2.0
        Width `w` of the bumps in units of the mean distance between the centres of an input (of its standard deviation
        if there is only one).
    order : {1, 2}, default=2
        1: functions of single inputs; 2: products of two as well.
    min_count : float, default=10
        Leave out bumps and products that rest on fewer samples than this, counted as `(sum g^2)^2 / sum g^4`, which is
        `m` for a function that is the same on `m` samples and zero on the others. A weight fitted to a handful of
        samples says nothing about the next one. The inputs themselves always stay.

    Attributes
    ----------
    inputs_ : ndarray of shape (p, 2)
        The input or the two inputs each function is of; the second is -1 where there is one only.
    bumps_ : ndarray of shape (p, 2)
        Which function of that input: 0 the input itself, `k` the bump around `centers_[input, k - 1]`, -1 none.
    centers_ : ndarray of shape (d, n_centers)
        Centres of the bumps of each input, ascending; NaN where there are fewer.
    widths_ : ndarray of shape (d,)
        Their widths; NaN where there are no bumps.
    means_, deviations_ : ndarrays of shape (d,)
        What the inputs are standardised by: mean and standard deviation; but of an input with two values one of which
        is on fewer than a fifth of the samples, the other value and their difference. A deviation of 0 marks a
        constant input.
    ranges_ : ndarray of shape (2, d)
        Lowest and highest value of each input.

    Notes
    -----
    An input that has two values, one of them rare, as most categories do, is zero at the other one. The product of two
    such inputs is then zero but where both have their rare value, and is there if enough samples do: that of
    standardised ones would be largest for combinations that no sample has.

    Means, deviations, quantiles and counts are those of the different samples: a sample written twice changes nothing.
    Changing the unit of an input changes nothing but the numbers in the names. Functions that are constant, or equal
    to an earlier one but for a factor, on all training samples are left out.

    The defaults come from nine of the papers' data sets, with 200 to 1,000 training samples and the terms chosen by
    `ForwardRegressor`: errors hardly depend on 3, 4 or 6 centres, while bumps narrower than 1.5 distances did worse and
    wider than 3 no better.

    Use it where inputs act alone or in pairs, the more so the more inputs there are: distances, on which
    `RadialBasis` and `SmoothBasis` rest, mean little among many inputs of which few matter. Where three or more inputs
    act together it can only approximate.

    With `order=1` fitting takes memory as the single functions do, n numbers each, and tens of thousands of inputs are
    no trouble; with `order=2` there are so many products from about a hundred inputs on that it is better to choose
    inputs first. `TermwiseRegressor` does so.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import AnovaBasis, ForwardRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 6))
    >>> y = X[:, 1] * X[:, 4] + 0.2 * rng.normal(size=200)
    >>> model = ForwardRegressor(AnovaBasis()).fit(X, y)
    >>> list(model.get_feature_names_out())
    ['x1 * x4']
    >>> AnovaBasis(n_centers=2).fit(X[:, :2]).get_feature_names_out()[[0, 1, 2, -1]].tolist()
    ['x0', 'bump(x0 near -0.45)', 'bump(x0 near 0.59)', 'bump(x0 near 0.59) * bump(x1 near 0.55)']
    """

    _per_term = ("inputs_", "bumps_")

    def __init__(self, n_centers: int = 4, width: float = 2.0, order: int = 2, min_count: float = 10) -> None:
        self.n_centers = n_centers
        self.width = width
        self.order = order
        self.min_count = min_count

    def _learn(self, X: NDArray) -> None:
        self._check_params()
        scale = Scale.of(X).check()
        different = X[scale.rows].astype(np.float64, copy=False)
        self.ranges_, switches = scale.ranges, two_valued(different, scale.ranges)
        self.means_, self.deviations_ = origins(different, scale, switches)
        self.centers_ = bump_centers(different, switches, self.n_centers)
        self.widths_ = self.width * spacings(self.centers_, scale.deviations)
        self.inputs_, self.bumps_ = self._choose(different)

    def _check_params(self) -> None:
        check_number("n_centers", self.n_centers, low=0, integer=True, remedy="0 makes no bumps, 4 suits most data")
        check_number("width", self.width, above=0, remedy="twice the distance between centres suits most data")
        check_number("order", self.order, low=1, below=3, integer=True, remedy="2 makes products of two inputs as well")
        check_number("min_count", self.min_count, low=0, remedy="0 leaves out nothing, 10 suits most data")

    def _choose(self, X: Floats) -> tuple[Indices, Indices]:
        """Return the inputs and the bumps of the functions worth having, the single ones first."""
        inputs, bumps = np.nonzero(self._there())
        m = len(inputs)
        first, second = np.arange(m), np.full(m, m)  # a single function is its product with the ones, which are last
        if self.order == 2:
            a, b = np.triu_indices(m, 1)
            pairs = inputs[a] != inputs[b]
            first, second = np.append(first, a[pairs]), np.append(second, b[pairs])
        looks = Looks.of(ProductDesign(self._singles(X, inputs, bumps), first, second))
        plain = (second == m) & (bumps[first] == 0)
        kept = np.flatnonzero(plain | ((looks.counts >= self.min_count) & ~looks.flat))
        fresh = kept[first_of_a_kind(looks.marks[kept])]
        terms = np.column_stack([first[fresh], second[fresh]])
        return np.append(inputs, -1)[terms], np.append(bumps, -1)[terms]

    def _there(self) -> NDArray[np.bool_]:
        """Which functions every input has: itself, and each of its bumps."""
        return np.column_stack([self.deviations_ > 0, ~np.isnan(self.centers_)])

    def _singles(self, X: NDArray, inputs: Indices, bumps: Indices) -> NDArray:
        """Evaluate some single functions, and ones as the last column, in float64 but stored as X is."""
        places = np.column_stack([self.means_, self.centers_])[inputs, bumps]
        units = np.where(bumps == 0, self.deviations_[inputs], self.widths_[inputs])
        around = bumps > 0
        S = np.ones((len(X), len(inputs) + 1), dtype=X.dtype)
        for rows in row_blocks(*S.shape):
            Z = (X[rows][:, inputs] - places) / units
            Z[:, around] = np.exp(-(Z[:, around] ** 2))
            S[rows, :-1] = Z
        return S

    def _evaluate(self, X: NDArray) -> NDArray:
        """Fill G block by block with products of the single functions its terms are made of, and of no others."""
        used, first, second = self._factors()
        runs = np.flatnonzero(np.diff(first, prepend=-1))  # terms in a row often share their first factor
        lengths = np.diff(runs, append=len(first))
        G = np.empty((len(X), len(first)), dtype=X.dtype)
        for rows in row_blocks(*G.shape):
            S = self._singles(X[rows], *used)
            np.take(S, second, axis=1, out=G[rows], mode="clip")
            G[rows] *= np.repeat(S[:, first[runs]], lengths, axis=1)
        return G

    def design(self, X: NDArray) -> ProductDesign:
        """Return the design matrix without storing it: only the single functions are, not their products.

        `forward_path` takes it in place of an array. Estimators do so by themselves where there are many products.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        check_is_fitted(self)
        used, first, second = self._factors()
        return ProductDesign(self._singles(X, *used), first, second)

    def _factors(self) -> tuple[tuple[Indices, Indices], Indices, Indices]:
        """Inputs and bumps of the single functions in use, and the two of each term: the ones are the last."""
        kinds = 1 + self.centers_.shape[1]
        ones = len(self.means_) * kinds  # a number above those of all single functions
        numbers = np.where(self.inputs_ < 0, ones, self.inputs_ * kinds + self.bumps_)
        used = np.unique(numbers[numbers < ones])
        first, second = np.searchsorted(used, numbers).T
        return (used // kinds, used % kinds), first, second

    def _stores(self, X: NDArray) -> bool:
        """Whether the design matrix is to be stored: where it is small, or has hardly more columns than functions."""
        few = len(self.inputs_) <= FEW_PRODUCTS * (1 + len(self.means_) * (1 + self.n_centers))
        return few or len(X) * len(self.inputs_) <= SMALL_MATRIX

    def _names(self, inputs: list[str] | None = None) -> list[str]:
        inputs = inputs or self._input_names()
        single = np.full((len(inputs) + 1, self.centers_.shape[1] + 1), "", dtype=object)  # [-1, -1] for no function
        for j in np.unique(self.inputs_[self.inputs_ >= 0]):
            places = distinct_labels(self.centers_[j])
            single[j, : len(places) + 1] = [inputs[j], *(f"bump({inputs[j]} near {place})" for place in places)]
        times = " * " + single
        times[-1, -1] = ""
        (i, j), (a, b) = self.inputs_.T, self.bumps_.T
        return list(single[i, a] + times[j, b])


def quantiles(count: int) -> Floats:
    """Middles of as many equal shares of the samples."""
    return (np.arange(count) + 0.5) / max(1, count)


def two_valued(X: Floats, ranges: Floats) -> NDArray[np.bool_]:
    """Which inputs have no more than two values."""
    return np.all((ranges[0] == X) | (ranges[1] == X), axis=0)


def origins(X: Floats, scale: Scale, switches: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return where every input is zero, and its unit: mean and deviation, but for values that are rare.

    An input with two values of which one is rare is zero at the other one, and one of their differences away from it
    at the rare one. Products of two such are zero but where both are rare, while those of standardised ones would be
    largest for combinations that no sample has.
    """
    low, high = scale.ranges
    share = np.mean(high == X, axis=0)
    rare = switches & (scale.deviations > 0) & (np.minimum(share, 1 - share) < RARE)
    common = np.where(share < 0.5, low, high)
    return np.where(rare, common, scale.means), np.where(rare, high - low, scale.deviations)


def bump_centers(X: Floats, switches: NDArray[np.bool_], count: int) -> Floats:
    """Return the values of every input at its quantiles, each once, ascending, (d, count); NaN where there are fewer.

    An input with two values has none.
    """
    centers = np.quantile(X, quantiles(count), axis=0, method="nearest").T
    centers[:, 1:][np.diff(centers, axis=1) == 0] = np.nan
    centers[switches] = np.nan
    return np.sort(centers, axis=1)  # NaN comes last


def spacings(centers: Floats, deviations: Floats) -> Floats:
    """Mean distance between the centres of every input: its deviation if there is one only, NaN if there is none."""
    counts = np.sum(~np.isnan(centers), axis=1)
    distances = np.where(counts == 1, deviations, np.nan)
    for count in np.unique(counts[counts > 1]):
        distances[counts == count] = np.diff(centers[counts == count, :count], axis=1).mean(axis=1)
    return distances


def distinct_labels(numbers: Floats) -> list[str]:
    """Write different numbers with as few digits, but at least two, as tell them apart; NaN is left out."""
    numbers = numbers[~np.isnan(numbers)]
    labels: list[str] = []
    for digits in range(2, 18):
        labels = [written(number + 0.0, digits) for number in numbers.tolist()]
        if len(set(labels)) == len(labels):
            break
    return labels


def written(number: float, digits: int) -> str:
    """Write a number as people do: 1974 with all its digits, 12345 as 12350, and no exponent from 1e-4 to 1e6."""
    whole = len(str(int(abs(number)))) if abs(number) < PLAIN else WHOLE
    shown = max(digits, min(WHOLE, whole))
    return f"{float(f'{number:.{shown}g}'):.{max(shown, 6)}g}"


class Looks(NamedTuple):
    """What the values of every function on the samples tell about it."""

    counts: Floats  # (sum g^2)^2 / sum g^4
    flat: NDArray[np.bool_]  # whether it is constant
    marks: NDArray[np.complex128]  # g / |g| along two random directions: different for different functions

    @classmethod
    def of(cls, G: ProductDesign) -> Self:
        """Look at all functions at once."""
        n = G.shape[0]
        total, squares, fourth = G.products(np.ones(n)), G.power_sums(2), G.power_sums(4)
        tiny = np.finfo(np.float64).tiny  # for products that underflow everywhere
        u, v = np.random.default_rng(0).normal(size=(2, n))
        along: NDArray[np.complex128] = G.products(u) + 1j * G.products(v)
        return cls(
            counts=squares / np.maximum(fourth, tiny) * squares,
            flat=squares - total**2 / n <= FLAT * squares,
            marks=along / np.sqrt(np.maximum(squares, tiny)),
        )


def first_of_a_kind(marks: NDArray[np.complex128]) -> Indices:
    """Positions of the functions that are no multiple of an earlier one."""
    signless = np.where(marks.real < 0, -marks, marks)
    return np.sort(np.unique(signless.round(DIGITS), return_index=True)[1])
