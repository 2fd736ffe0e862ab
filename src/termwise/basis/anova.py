"""Functions of one input and of two inputs: linear functions, Gaussian bumps, and their pairwise products."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import row_blocks
from termwise._checks import check_choice, check_number
from termwise._numerics import CONSTANT_TOLERANCE, DUPLICATE_DIGITS
from termwise.basis.base import EXTRAPOLATIONS, Basis, InputStatistics, clip, linear_ranges
from termwise.basis.expressions import evaluate, variable, where, z
from termwise.design.computed import ProductDesign

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

LINEAR = (z - variable("places")) / variable("units")
BUMP = np.exp(-np.square(variable("u")))  # of u = (x - c) / w
SINGLE = where(variable("bumps"), BUMP.substitute(u=LINEAR), LINEAR)  # a function of one input

FEW_PRODUCTS = 4  # terms for each single function, up to which their products may as well be stored
SMALL_MATRIX = 1 << 21  # entries that caches hold
WHOLE_DIGITS, MAX_PLAIN = 4, 1e6  # digits before the point that labels show, and the numbers below which they do
RARE_SHARE = 0.2  # share of the samples below which one of two values is rare
MANY_TERMS = 64  # from which to look for inputs outside the training range costs less than to clip all
WIDTH_UNITS = ("spacing", "std")


class AnovaBasis(Basis):
    """Inputs, Gaussian bumps of single inputs, and the products of any two.

    Every input that is not constant has `1 + n_centers` single functions: the input itself, standardised, and
    Gaussian bumps `exp(-((x - c) / w)^2)` around some of its quantiles. With `order=2` the products of all single
    functions of any two inputs are included: `d (1 + n_centers)` singles and at most
    `d (d - 1) / 2 * (1 + n_centers)^2` products, 12,560 functions for 32 inputs and 4 centres. It is a dictionary for
    an estimator that selects a few, such as `ForwardRegressor`; the name of each term says which inputs act, and where.

    Parameters
    ----------
    n_centers : int, default=4
        Bumps per input, at the midpoints of as many equal shares of its samples. Coinciding ones are one bump; an
        input with two values has none, since all functions of it are linear.
    width : ("spacing", factor) or ("std", factor), default=("spacing", 2.0)
        Width `w` of the bumps: a multiple of the mean distance between the centres of an input (of its standard
        deviation if there is only one centre), or of the standard deviation of the input, which is the unit of
        standardised inputs.

        .. deprecated:: 0.2
           A plain number is taken as a multiple of the spacing; it will mean standard deviations, as in `SmoothBasis`.
    order : {1, 2}, default=2
        1: functions of single inputs; 2: products of two as well.
    min_count : float, default=10
        Exclude bumps and products that are supported by fewer samples than this, counted as
        `(sum g^2)^2 / sum g^4`, which is `m` for a function that is constant on `m` samples and zero on the others: a
        weight fitted to a handful of samples does not generalise. The inputs themselves are always included.
    extrapolation : {"clip", "bounded", "constant", "linear", "continue"}, default="clip"
        Value of the functions outside the range of the training inputs, `ranges_`. "clip": bumps and products are
        evaluated at inputs clipped to that range, while the inputs themselves stay linear. "bounded": these are linear
        for one standard deviation beyond the range, and constant from there. "constant": all functions are clipped to
        the range. "linear": bumps are clipped and the inputs themselves stay linear, also as factors of products, so
        that every function is linear in each input. "continue": the formula holds everywhere; products of unbounded
        inputs then grow without limit in a few samples of heavy-tailed inputs.

    Attributes
    ----------
    inputs_ : ndarray of shape (p, 2)
        The input or the two inputs of each function; the second is -1 where there is only one.
    bumps_ : ndarray of shape (p, 2)
        Which function of that input: 0 the input itself, `k` the bump around `centers_[input, k - 1]`, -1 none.
    centers_ : ndarray of shape (d, n_centers)
        Centres of the bumps of each input, ascending; NaN where there are fewer.
    widths_ : ndarray of shape (d,)
        Their widths; NaN where there are no bumps.
    means_, deviations_ : ndarrays of shape (d,)
        Origin and unit of the linear functions: mean and standard deviation; but for an input with two values, one of
        them on fewer than a fifth of the samples, the other value and their difference. A deviation of 0 marks a
        constant input.
    ranges_ : ndarray of shape (2, d)
        Lowest and highest value of each input, to which inputs are clipped.

    Notes
    -----
    An input with two values, one of them rare, as most categories are, is zero at the other value. The product of two
    such inputs is then zero except where both have their rare value, and is included if enough samples do: that of
    standardised ones would be largest for combinations that no sample has.

    Means, deviations, quantiles and counts are those of the distinct samples: repeating a sample changes nothing.
    Changing the unit of an input changes only the numbers in the names. Functions that are constant, or multiples of an
    earlier one, on all training samples are excluded.

    The defaults come from nine of the papers' data sets, with 200 to 1,000 training samples and the terms selected by
    `ForwardRegressor`: errors hardly depend on 3, 4 or 6 centres, while bumps narrower than 1.5 distances did worse and
    wider than 3 no better.

    Use it where inputs act alone or in pairs, the more so the more inputs there are: distances, on which `RadialBasis`
    and `SmoothBasis` are based, carry little information among many irrelevant inputs. Interactions of three or more
    inputs can only be approximated.

    With `order=1` the memory needed to fit is that of the single functions, n numbers each, and tens of thousands of
    inputs are no problem; with `order=2` there are so many products from about a hundred inputs on that it is better to
    select inputs first, as `TermwiseRegressor` does.

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

    def __init__(
        self,
        n_centers: int = 4,
        width: tuple[str, float] | float = ("spacing", 2.0),
        order: int = 2,
        min_count: float = 10,
        extrapolation: str = "clip",
    ) -> None:
        self.n_centers = n_centers
        self.width = width
        self.order = order
        self.min_count = min_count
        self.extrapolation = extrapolation

    def _fit(self, X: NDArray, y: Any) -> None:
        check_number("n_centers", self.n_centers, low=0, integer=True, remedy="0 has no bumps, 4 suits most data")
        unit, factor = self._resolve_width()
        check_number("order", self.order, low=1, below=3, integer=True, remedy="2 has products of two inputs as well")
        check_number("min_count", self.min_count, low=0, remedy="0 excludes nothing, 10 suits most data")
        check_choice("extrapolation", self.extrapolation, EXTRAPOLATIONS, remedy="'clip' suits most data")
        statistics = InputStatistics.from_samples(X).check_varying()
        distinct = X[statistics.rows].astype(np.float64, copy=False)
        self.ranges_ = low, high = statistics.ranges
        # An input with two values of which one is rare is zero at the other one, and 1 or -1 at the rare one.
        binary = np.all((low == distinct) | (high == distinct), axis=0)
        share = np.mean(high == distinct, axis=0)
        rare = binary & (statistics.deviations > 0) & (np.minimum(share, 1 - share) < RARE_SHARE)
        self.means_ = np.where(rare, np.where(share < 0.5, low, high), statistics.means)
        self.deviations_ = np.where(rare, high - low, statistics.deviations)
        midpoints = (np.arange(self.n_centers) + 0.5) / max(1, self.n_centers)
        centers = np.quantile(distinct, midpoints, axis=0, method="nearest").T
        centers[:, 1:][np.diff(centers, axis=1) == 0] = np.nan
        centers[binary] = np.nan
        self.centers_ = np.sort(centers, axis=1)  # NaN comes last
        counts = np.sum(~np.isnan(self.centers_), axis=1)
        scale = np.where(counts > 0 if unit == "std" else counts == 1, statistics.deviations, np.nan)
        for count in np.unique(counts[counts > 1]) if unit == "spacing" else ():
            scale[counts == count] = np.diff(self.centers_[counts == count, :count], axis=1).mean(axis=1)
        self.widths_ = factor * scale
        self.inputs_, self.bumps_ = self._eligible_terms(distinct)

    def _resolve_width(self) -> tuple[str, float]:
        """Return the unit of the width and its multiple."""
        remedy = "give ('spacing', 2.0), twice the distance between centres, or ('std', 1.0), the standard deviation"
        pair = isinstance(self.width, tuple) and len(self.width) == 2 and self.width[0] in WIDTH_UNITS
        width: Any = self.width
        unit, factor = width if pair else ("spacing", width)
        check_number("width", factor, above=0, remedy=remedy)
        if not pair:
            warnings.warn(
                f"width={factor!r} will be in standard deviations of an input: use width=('spacing', {factor!r}) for "
                f"multiples of the distance between centres, as now, or ('std', {factor!r}).",
                FutureWarning,
                stacklevel=3,
            )
        return unit, factor

    def _eligible_terms(self, X: Floats) -> tuple[Indices, Indices]:
        """Return the inputs and the bumps of the functions to include, the single ones first."""
        inputs, bumps = np.nonzero(self.single_functions())
        m = len(inputs)
        first, second = np.arange(m), np.full(m, m)  # a single function is its product with the ones, which are last
        if self.order == 2:
            a, b = np.triu_indices(m, 1)
            pairs = inputs[a] != inputs[b]
            first, second = np.append(first, a[pairs]), np.append(second, b[pairs])
        G = ProductDesign(self.evaluate_singles(X, inputs, bumps), first, second)
        total, squares, fourth = G.products(np.ones(len(X))), G.power_sums(2), G.power_sums(4)
        tiny = np.finfo(np.float64).tiny  # for products that underflow everywhere
        counts = squares / np.maximum(fourth, tiny) * squares
        constant = squares - total**2 / len(X) <= CONSTANT_TOLERANCE * squares
        linear = (second == m) & (bumps[first] == 0)
        kept = np.flatnonzero(linear | ((counts >= self.min_count) & ~constant))
        # g / |g| along two random directions, equal but for the sign only where functions are multiples
        u, v = np.random.default_rng(0).normal(size=(2, len(X)))
        projections = (G.products(u) + 1j * G.products(v))[kept] / np.sqrt(np.maximum(squares[kept], tiny))
        signless = np.where(projections.real < 0, -projections, projections).round(DUPLICATE_DIGITS)
        distinct = kept[np.sort(np.unique(signless, return_index=True)[1])]
        terms = np.column_stack([first[distinct], second[distinct]])
        return np.append(inputs, -1)[terms], np.append(bumps, -1)[terms]

    def single_functions(self) -> NDArray[np.bool_]:
        """Return which single functions every input has, (d, 1 + n_centers): itself, and each of its bumps."""
        return np.column_stack([self.deviations_ > 0, ~np.isnan(self.centers_)])

    def evaluate_singles(self, X: NDArray, inputs: Indices, bumps: Indices, clipped: Any = None) -> NDArray:
        """Evaluate some single functions, and ones as the last column, in float64 but stored in the dtype of X.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs.
        inputs, bumps : ndarrays of int
            The input of each function, and 0 for the input itself or the number of the bump, from 1 on.
        clipped : ndarray of bool, default=None
            Which functions to evaluate at the input clipped to the training range; the other ones are clipped as linear
            functions alone are. None: the formula holds for all.
        """
        parameters, is_bump = self._single_parameters(inputs, bumps), bumps > 0
        ends = None if clipped is None else np.where(clipped, self.ranges_[:, inputs], self.linear_ranges()[:, inputs])
        ends = None if ends is None or np.isinf(ends).all() else ends
        S = np.ones((len(X), len(inputs) + 1), dtype=X.dtype)
        for rows in row_blocks(*S.shape):
            Z = X[rows][:, inputs]
            U = evaluate(LINEAR, {"z": clip(Z, ends, overwrite=True) if ends is not None else Z, **parameters})
            U[:, is_bump] = evaluate(BUMP, {"u": U[:, is_bump]}, overwrite=("u",))  # SINGLE, of bumps alone
            S[rows, :-1] = U
        return S

    def _single_parameters(self, inputs: Indices, bumps: Indices) -> dict[str, Floats]:
        """Return the parameters of `LINEAR` for some single functions."""
        places = np.column_stack([self.means_, self.centers_])[inputs, bumps]
        return {"places": places, "units": np.where(bumps == 0, self.deviations_[inputs], self.widths_[inputs])}

    def evaluate(self, X: NDArray) -> NDArray:
        """Fill the design matrix block by block with products of the single functions in its terms.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        used, first, second = self._factors(within=self._is_within(X))
        runs = np.flatnonzero(np.diff(first, prepend=-1))  # consecutive terms often share their first factor
        lengths = np.diff(runs, append=len(first))
        G = np.empty((len(X), len(first)), dtype=X.dtype)
        for rows in row_blocks(*G.shape):
            S = self.evaluate_singles(X[rows], *used)
            np.take(S, second, axis=1, out=G[rows], mode="clip")
            G[rows] *= np.repeat(S[:, first[runs]], lengths, axis=1)
        return G

    def design(self, X: NDArray) -> ProductDesign:
        """Return the design matrix with only the single functions stored, not their products.

        `forward_path` takes it in place of an array; estimators use it where there are many products.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        check_is_fitted(self)
        used, first, second = self._factors(within=self._is_within(X))
        return ProductDesign(self.evaluate_singles(X, *used), first, second)

    def _clipped_factors(self) -> NDArray[np.bool_]:
        """Which factors of the terms are evaluated at clipped inputs, (p, 2)."""
        if self.extrapolation == "continue":
            return np.zeros(self.inputs_.shape, dtype=bool)
        there, bumps = self.inputs_ >= 0, self.bumps_ > 0
        if self.extrapolation == "linear":
            return bumps
        return there if self.extrapolation == "constant" else bumps | (there & there[:, 1:])

    def linear_ranges(self) -> Floats:
        """Return the range of every input that linear functions alone are clipped to, (2, d); perhaps infinite."""
        return linear_ranges(self.extrapolation, self.ranges_, self.deviations_)

    def clip_ranges(self) -> Floats:
        """Return the range of every input outside which a function is evaluated at the boundary, (2, d)."""
        ends, clipped = super().clip_ranges(), self._clipped_factors()
        linear, within = self.inputs_[~clipped & (self.inputs_ >= 0)], self.inputs_[clipped]
        ends[:, linear] = self.linear_ranges()[:, linear]
        ends[:, within] = self.ranges_[:, within]
        return ends

    def _is_within(self, X: NDArray) -> bool:
        """Whether it is known that there is nothing to clip, as in the training samples.

        The products of many terms then need fewer single functions.
        """
        if len(self.inputs_) < MANY_TERMS:
            return False
        return not any(self._clipped(X[rows]).any() for rows in row_blocks(*X.shape))

    def _factors(self, within: bool = False) -> tuple[tuple[Indices, Indices, Any], Indices, Indices]:
        """Inputs and bumps of the single functions in use, which are clipped, and the two of each term.

        The ones are the last single function. `within` the training range none need be clipped. Otherwise an input
        itself may be two of the functions, one alone and one in products.
        """
        kinds = 1 + self.centers_.shape[1]
        half = len(self.means_) * kinds  # the clipped functions have the numbers above
        numbers = self.inputs_ * kinds + self.bumps_ + (0 if within else half * self._clipped_factors())
        numbers = np.where(self.inputs_ < 0, 2 * half, numbers)
        used = np.unique(numbers[numbers < 2 * half])
        first, second = np.searchsorted(used, numbers).T
        return (used % half // kinds, used % kinds, None if within else used >= half), first, second

    def inputs_of(self, indices: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the inputs that each of some functions depends on, in ascending order.

        Parameters
        ----------
        indices : ndarray of int
            Which functions.
        """
        return [tuple(sorted(j for j in pair if j >= 0)) for pair in self.inputs_[indices].tolist()]

    def frozen(self) -> dict[str, NDArray]:
        """Return the parameters of the single functions in use, and the two of each term, -1 for none.

        They are those of `SINGLE`, with the input of each function in `columns`, and whether it is `clipped`.
        """
        (columns, bumps, clipped), first, second = self._factors()
        second = np.where(second == len(columns), -1, second)
        singles = {"columns": columns, **self._single_parameters(columns, bumps), "bumps": np.minimum(bumps, 1)}
        return {**singles, "first": first, "second": second, "clipped": clipped}

    def _stores(self, X: NDArray) -> bool:
        """Whether estimators store the design matrix: where it is small, or has few products."""
        few = len(self.inputs_) <= FEW_PRODUCTS * (1 + len(self.means_) * (1 + self.n_centers))
        return few or len(X) * len(self.inputs_) <= SMALL_MATRIX

    def _names(self, inputs: list[str]) -> list[str]:
        single = np.full((len(inputs) + 1, self.centers_.shape[1] + 1), "", dtype=object)  # [-1, -1] for no function
        for j in np.unique(self.inputs_[self.inputs_ >= 0]):
            places = distinct_labels(self.centers_[j])
            single[j, : len(places) + 1] = [inputs[j], *(f"bump({inputs[j]} near {place})" for place in places)]
        times = " * " + single
        times[-1, -1] = ""
        (i, j), (a, b) = self.inputs_.T, self.bumps_.T
        return list(single[i, a] + times[j, b])


def distinct_labels(numbers: Floats) -> list[str]:
    """Format numbers with as few digits, but at least two, as distinguish them; NaN is skipped.

    Numbers from 1e-4 to 1e6 have no exponent: 1974 has all its digits, 12345 is 12350.
    """
    labels: list[str] = []
    for digits in range(2, 18):
        labels = []
        for number in (numbers[~np.isnan(numbers)] + 0.0).tolist():
            whole = len(str(int(abs(number)))) if abs(number) < MAX_PLAIN else WHOLE_DIGITS
            shown = max(digits, min(WHOLE_DIGITS, whole))
            labels.append(f"{float(f'{number:.{shown}g}'):.{max(shown, 6)}g}")
        if len(set(labels)) == len(labels):
            break
    return labels
