"""Functions of one input, such as linear functions, Gaussian bumps and steps, and the products of any two of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import has_missing, row_blocks
from termwise._checks import check_choice, check_directions, check_number, is_one_of, place_of, warn
from termwise._numerics import CONSTANT_TOLERANCE, DUPLICATE_DIGITS
from termwise.basis.base import Basis
from termwise.basis.expressions import evaluate
from termwise.basis.inputs import EXTRAPOLATIONS, InputStatistics, clip, linear_ranges, required_targets
from termwise.basis.shapes import (
    BUMP,
    DIRECTIONS,
    FUNCTIONS,
    HINGE_BELOW,
    LINEAR,
    RAMP,
    SHAPES,
    STEP_ABOVE,
    STEP_BELOW,
    UNIT,
    bump_centers,
    codes_of,
    find_knots,
    label_functions,
    ramp_ends,
    width_units,
)
from termwise.basis.trees import tree_knots
from termwise.design.computed import ProductDesign, Span

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FEW_PRODUCTS = 4  # terms for each single function, up to which their products may as well be stored
SMALL_MATRIX = 1 << 21  # entries that caches hold
RARE_SHARE = 0.2  # share of the samples below which one of two values is rare
MANY_TERMS = 64  # from which to look for inputs outside the training range costs less than to clip all


class AnovaBasis(Basis):
    """Inputs, Gaussian bumps, hinges, steps and ramps of single inputs, and the products of any two.

    Every input that is not constant has `1 + n_centers` single functions: the input itself, standardised, and
    Gaussian bumps `exp(-((x - c) / w)^2)` around some of its quantiles; with `functions` others instead or as well.
    With `order=2` the products of all single functions of any two inputs are included: `d (1 + n_centers)` singles and
    at most `d (d - 1) / 2 * (1 + n_centers)^2` products, 12,560 functions for 32 inputs and 4 centres. It is a
    dictionary for an estimator that selects a few, such as `ForwardRegressor`; the name of each term says which inputs
    act, and where.

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
    functions : sequence of {"linear", "bump", "hinge", "step", "ramp"}, default=("linear", "bump")
        Kinds of single functions. With knots t between neighbouring values of an input: "hinge" `max(0, x - t)` and
        `max(0, t - x)` in standard deviations (Friedman 1991); "step" 1 where `x > t` and 0 elsewhere, in products also
        1 where `x <= t`, so that the product of two is a rule; "ramp" 0 up to a knot, 1 from a later one on and linear
        in between, on two fifths of the samples, where the ends of the range are knots as well. An input with two
        values is linear in any case.
    n_knots : int, default=10
        Knots per input for hinges, steps and ramps; between all values of an input that has few. `min_count` samples or
        more lie on either side of each.
    groups : array-like of int of shape (d,), default=None
        Inputs with the same number, such as the levels of one category, have no products with one another; -1 is for
        inputs in no group.
    monotone : dict, default=None
        Inputs whose effect must not decrease, +1, or not increase, -1, by their index or name. They have ramps in place
        of bumps, and products only with functions that are not negative; the model is monotone if the weights have the
        signs `weight_signs_`, which the forward estimators see to. Inputs that are not named are free.
    knots : {"quantile", "tree"} or array-like of shape (d, m), default="quantile"
        Where the knots are. "quantile": they divide the samples into equal shares, in which a value of many samples
        counts for one share. "tree": half of them do; the others are, of all inputs together, the thresholds at which
        boosted regression trees reduce the squared error of the targets most, so that they are close to thresholds of
        the targets, and more of them on inputs that matter. An array gives the knots of each input; NaN where there are
        fewer.

    Attributes
    ----------
    inputs_ : ndarray of shape (p, 2)
        The input or the two inputs of each function; the second is -1 where there is only one.
    bumps_ : ndarray of shape (p, 2)
        Which function of that input: 0 the input itself, `k` the bump around `centers_[input, k - 1]`, -1 none. The
        next numbers are those of hinges above, hinges below, steps above and steps below each of the knots,
        and of the ramps from the lowest value and from each knot.
    weight_signs_ : ndarray of shape (p,)
        Sign that the weight of each function must have for the model to be `monotone`; 0 where it is free.
    centers_ : ndarray of shape (d, n_centers)
        Centres of the bumps of each input, ascending; NaN where there are fewer.
    widths_ : ndarray of shape (d,)
        Their widths; NaN where there are no bumps.
    knots_ : ndarray of shape (d, m)
        Knots of each input, ascending; NaN where there are fewer; without columns if no function has knots.
    monotone_ : ndarray of shape (d,)
        1 or -1 for inputs that are `monotone`, 0 for the others.
    means_, deviations_ : ndarrays of shape (d,)
        Origin and unit of the linear functions: mean and standard deviation; but for an input with two values, one of
        them on fewer than a fifth of the samples, the other value and their difference. A deviation of 0 marks a
        constant input. With hinges, steps, ramps or monotone inputs, every input with two values is zero at the lower
        one and 1 at the higher.
    ranges_ : ndarray of shape (2, d)
        Lowest and highest value of each input, to which inputs are clipped.
    missing_ : ndarray of bool of shape (d,)
        Inputs with missing values in `fit`, which may have some in `transform`, too.

    Notes
    -----
    Where an input is missing (NaN), its functions and their products are zero, which is neutral in a linear model: the
    effect of a missing value is that of its indicator, see `TableEncoder`. Statistics and knots are those of the values
    that are present.

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
    >>> X = rng.integers(0, 9, size=(200, 3))
    >>> y = (X[:, 0] > 3) & (X[:, 2] <= 5)
    >>> list(ForwardRegressor(AnovaBasis(functions=["linear", "step"])).fit(X, y).get_feature_names_out())
    ['x0 > 3.5 and x2 <= 5.5']
    """

    _per_term = ("inputs_", "bumps_", "weight_signs_")
    allows_missing = True

    def __init__(
        self,
        n_centers: int = 4,
        width: tuple[str, float] | float = ("spacing", 2.0),
        order: int = 2,
        min_count: float = 10,
        extrapolation: str = "clip",
        functions: Sequence[str] = ("linear", "bump"),
        n_knots: int = 10,
        groups: ArrayLike | None = None,
        monotone: Mapping[Any, int] | None = None,
        knots: str | ArrayLike = "quantile",
    ) -> None:
        self.n_centers = n_centers
        self.width = width
        self.order = order
        self.min_count = min_count
        self.extrapolation = extrapolation
        self.functions = functions
        self.n_knots = n_knots
        self.groups = groups
        self.monotone = monotone
        self.knots = knots

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle, also one of 0.1, which had linear functions and bumps alone."""
        missing: dict[str, Any] = {"functions": ("linear", "bump"), "n_knots": 10, "groups": None, "monotone": None}
        missing["knots"] = "quantile"
        if "centers_" in state:
            d, p = len(state["centers_"]), len(state["inputs_"])
            missing |= {"knots_": np.empty((d, 0)), "monotone_": np.zeros(d, int), "weight_signs_": np.zeros(p, int)}
            missing |= {"missing_": np.zeros(d, bool)}
        super().__setstate__({**missing, **state})

    def _fit(self, X: NDArray[Any], y: Any) -> None:
        check_number("n_centers", self.n_centers, low=0, integer=True, remedy="0 has no bumps, 4 suits most data")
        check_number("order", self.order, low=1, below=3, integer=True, remedy="2 has products of two inputs as well")
        check_number("min_count", self.min_count, low=0, remedy="0 excludes nothing, 10 suits most data")
        check_choice("extrapolation", self.extrapolation, EXTRAPOLATIONS, remedy="'clip' suits most data")
        codes, groups = self._check_shapes(X.shape[1])
        shaped = bool(set(codes) - {LINEAR, BUMP}) or bool(self.monotone_.any())
        statistics = InputStatistics.from_samples(X).check_varying()
        distinct = X[statistics.rows].astype(np.float64, copy=False)
        self.ranges_ = low, high = statistics.ranges
        # An input with two values of which one is rare is zero at the other one, and 1 or -1 at the rare one. Beside
        # steps and the like, which are never negative, every input with two values is 0 or 1.
        missing = np.isnan(distinct) if self.missing_.any() else np.zeros((1, 1), dtype=bool)
        binary = np.all((low == distinct) | (high == distinct) | missing, axis=0)
        share = np.sum(high == distinct, axis=0) / np.maximum(len(distinct) - missing.sum(axis=0), 1)
        coded = binary & (statistics.deviations > 0) & (shaped | (np.minimum(share, 1 - share) < RARE_SHARE))
        self.means_ = np.where(coded, np.where(shaped | (share < 0.5), low, high), statistics.means)
        self.deviations_ = np.where(coded, high - low, statistics.deviations)
        unit, factor = self._resolve_width()
        self.centers_ = bump_centers(distinct, self.n_centers if BUMP in codes else 0, ~binary, self.missing_)
        self.widths_ = factor * width_units(self.centers_, statistics.deviations, unit)
        self._place_knots(X, y, distinct, np.flatnonzero(~binary & shaped))
        self.inputs_, self.bumps_, self.weight_signs_ = self._eligible_terms(distinct, groups)

    def _place_knots(self, X: NDArray[Any], y: Any, distinct: Floats, curved: Indices) -> None:
        """Set the knots of inputs with more than two values, from the different samples."""
        d = X.shape[1]
        if not isinstance(self.knots, str):
            self.knots_ = np.where(np.isin(np.arange(d), curved)[:, None], self._given_knots(d), np.nan)
            return
        check_choice("knots", self.knots, ["quantile", "tree"], remedy="'quantile' needs no targets")
        columns = {j: distinct[~np.isnan(distinct[:, j]), j] for j in curved.tolist()}
        knots = {j: find_knots(x, self.n_knots, self.min_count) for j, x in columns.items()}
        if self.knots == "tree":
            Y, n_tree = required_targets("knots='tree'", y, X, remedy="use 'quantile'"), self.n_knots // 2
            # An input with few values has a knot between any two of them already.
            many = [j for j, x in columns.items() if len(find_knots(x, self.n_knots + 1, 1)) > self.n_knots]
            found = tree_knots(X[:, many].astype(np.float64), Y, n_tree * len(many), self.min_count) if many else []
            for j, own in zip(many, found, strict=True):
                knots[j] = np.union1d(find_knots(columns[j], self.n_knots - n_tree, self.min_count), own)
        self.knots_ = np.full((d, max(map(len, knots.values()), default=0)), np.nan)
        for j, own in knots.items():
            self.knots_[j, : len(own)] = own

    def _given_knots(self, d: int) -> Floats:
        """Return knots that were given, ascending, (d, n_knots)."""
        try:
            knots = np.array(self.knots, dtype=np.float64)
        except (TypeError, ValueError):
            knots = np.zeros(0)
        if knots.ndim != 2 or len(knots) != d or np.isinf(knots).any():
            raise ValueError(
                f"knots must be 'quantile', 'tree' or an array with a row of finite numbers for each of {d} inputs, "
                f"got {self.knots!r}: fill rows that have fewer with NaN."
            )
        return np.sort(knots, axis=1)

    def with_fitted_params(self) -> Self:
        """Return an unfitted copy, with the fitted knots if these depend on the targets."""
        params = {"knots": self.knots_} if is_one_of(self.knots, "tree") else {}
        return super().with_fitted_params().set_params(**params)

    def _check_shapes(self, d: int) -> tuple[list[int], Indices]:
        """Return the codes of the functions and the group of each of d inputs, and set their directions."""
        check_number("n_knots", self.n_knots, low=1, integer=True, remedy="10 suits most data")
        if isinstance(self.functions, str) or not isinstance(self.functions, Iterable):
            raise TypeError(
                f"functions must be a sequence of names, got {self.functions!r}: ('linear', 'bump') is the default."
            )
        for name in list(self.functions) or [""]:
            check_choice("functions", name, FUNCTIONS, remedy="('linear', 'bump') is the default")
        self.monotone_ = np.zeros(d, dtype=np.intp)
        names = self.input_names()
        for key, direction in check_directions(self.monotone).items():
            place = place_of(key, names, d)
            if place is None or direction not in (-1, 1):
                raise ValueError(
                    f"monotone must map inputs, by name or number, to 1 or -1, got {key!r}: {direction!r} for {d} "
                    "inputs: 1 is for effects that must not decrease."
                )
            self.monotone_[place] = direction
        groups = np.full(d, -1) if self.groups is None else np.asarray(self.groups)
        if groups.shape != (d,) or groups.dtype.kind not in "iu":
            raise ValueError(
                f"groups must be {d} whole numbers, one per input, got {self.groups!r}: inputs with the same number "
                "have no products, and -1 is for inputs in no group."
            )
        return codes_of(self.functions), groups

    def _resolve_width(self) -> tuple[str, float]:
        """Return the unit of the width and its multiple."""
        remedy = "give ('spacing', 2.0), twice the distance between centres, or ('std', 1.0), the standard deviation"
        width: Any = self.width
        pair = isinstance(width, tuple) and len(width) == 2 and width[0] in ("spacing", "std")
        unit, factor = width if pair else ("spacing", width)
        check_number("width", factor, above=0, remedy=remedy)
        if not pair:
            warn(
                f"width={factor!r} will be in standard deviations of an input: use width=('spacing', {factor!r}) for "
                f"multiples of the distance between centres, as now, or ('std', {factor!r}).",
                FutureWarning,
            )
        return unit, factor

    def _eligible_terms(self, X: Floats, groups: Indices) -> tuple[Indices, Indices, Indices]:
        """Return the inputs, the numbers and the signs of the functions to include, the single ones first."""
        inputs, bumps = np.nonzero(self.single_functions())
        m, codes = len(inputs), self.codes()[bumps]
        first = np.flatnonzero(codes != STEP_BELOW)  # alone these are steps above, but for a constant
        second = np.full(len(first), m)  # a single function is its product with the ones, which are last
        signs = self.monotone_[inputs] * DIRECTIONS[codes]
        if self.order == 2:
            a, b = np.triu_indices(m, 1)
            i, j = inputs[a], inputs[b]
            pairs = (i != j) & ((groups[i] != groups[j]) | (groups[i] < 0))
            if signs.any():
                # The product of a monotone function with one that is not negative is monotone in the same direction.
                zero_based = (self.means_ <= self.ranges_[0]) & (self.extrapolation not in ("linear", "continue"))
                positive = (codes != LINEAR) | zero_based[inputs]
                pairs &= (positive[b] | (signs[a] == 0)) & (positive[a] | (signs[b] == 0)) & (signs[a] * signs[b] >= 0)
            first, second = np.append(first, a[pairs]), np.append(second, b[pairs])
        signs = np.append(signs, 0)
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
        distinct = kept[first_of_equal(signless)]
        terms = np.column_stack([first[distinct], second[distinct]])
        required = np.sign(signs[terms].sum(axis=1))
        return np.append(inputs, -1)[terms], np.append(bumps, -1)[terms], required

    def codes(self) -> Indices:
        """Return the kind of each function of an input, by its number in `bumps_`: the codes of `basis.shapes`."""
        knots = self.knots_.shape[1]
        return np.repeat(np.arange(len(SHAPES)), [1, self.centers_.shape[1], *[knots] * 4, knots + (knots > 0)])

    def single_functions(self) -> NDArray[np.bool_]:
        """Return which of the functions, by their numbers in `bumps_`, every input has, as an array with d rows."""
        codes, wanted, included = self.codes(), set(codes_of(self.functions)), ~np.isnan(self._places_and_units()[0])
        smooth = (wanted - {BUMP}) | ({RAMP} if BUMP in wanted else set())  # a bump is not monotone, ramps are
        directed = self.monotone_[:, None] != 0
        included &= np.where(directed, np.isin(codes, list(smooth)), np.isin(codes, list(wanted)))
        included[:, 0] = (self.deviations_ > 0) & ((LINEAR in wanted) | ~included[:, 1:].any(axis=1))
        return included

    def evaluate_singles(self, X: NDArray[Any], inputs: Indices, bumps: Indices, clipped: Any = None) -> NDArray[Any]:
        """Evaluate some single functions, and ones as the last column, in float64 but stored in the dtype of X.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs.
        inputs, bumps : ndarrays of int
            The input of each function, and its number as in `bumps_`: 0 for the input itself.
        clipped : ndarray of bool, default=None
            Which functions to evaluate at the input clipped to the training range; the other ones are clipped as linear
            functions alone are. None: the formula holds for all.
        """
        parameters, codes = self._single_parameters(inputs, bumps), self.codes()[bumps]
        shaped = [(code, np.flatnonzero(codes == code)) for code in np.unique(codes[codes != LINEAR])]
        ends = None if clipped is None else np.where(clipped, self.ranges_[:, inputs], self.linear_ranges()[:, inputs])
        ends = None if ends is None or np.isinf(ends).all() else ends
        S = np.ones((len(X), len(inputs) + 1), dtype=X.dtype)
        for rows in row_blocks(*S.shape):
            Z = X[rows][:, inputs]
            U = evaluate(UNIT, {"z": clip(Z, ends, overwrite=True) if ends is not None else Z, **parameters})
            for code, columns in shaped:  # `single_function`, of the functions of one kind
                U[:, columns] = evaluate(SHAPES[code], {"u": U[:, columns]}, overwrite=("u",))
            S[rows, :-1] = U
            if has_missing(X[rows] if X.shape[1] < len(inputs) else Z):  # whichever is smaller
                S[rows, :-1][np.isnan(Z)] = 0.0
        return S

    def _single_parameters(self, inputs: Indices, bumps: Indices) -> dict[str, Floats]:
        """Return the parameters of `UNIT` for some single functions."""
        places, units = self._places_and_units()
        return {"places": places[inputs, bumps], "units": units[inputs, bumps]}

    def _places_and_units(self) -> tuple[Floats, Floats]:
        """Place and unit of every function of every input, by the numbers in `bumps_`; NaN where there is none."""
        deviations, widths = self.deviations_[:, None], self.widths_[:, None]
        n_centers, n_knots = self.centers_.shape[1], self.knots_.shape[1]
        places, units = [self.means_[:, None], self.centers_], [deviations, np.repeat(widths, n_centers, axis=1)]
        if n_knots:
            starts, ends = ramp_ends(self.knots_, self.ranges_)
            places += [np.tile(self.knots_, 4), starts]
            units += [np.repeat(deviations, 4 * n_knots, axis=1), ends - starts]
        return np.column_stack(places), np.column_stack(units)

    def evaluate(self, X: NDArray[Any]) -> NDArray[Any]:
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

    def design(self, X: NDArray[Any]) -> ProductDesign:
        """Return the design matrix with only the single functions stored, not their products.

        `forward_path` takes it in place of an array; estimators use it where there are many products.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        check_is_fitted(self)
        used, first, second = self._factors(within=self._is_within(X))
        span = self._span(X, *used) if X.dtype == np.float64 else None  # float32 would lose digits of rare functions
        return ProductDesign(self.evaluate_singles(X, *used), first, second, span)

    def _span(self, X: NDArray[Any], inputs: Indices, bumps: Indices, clipped: Any) -> Span | None:
        """Return which of the single functions span the others on samples X, as `evaluate_singles` returns them.

        With `u = z + (mean - t) / deviation` the distance of an input from a knot t, in standard deviations,
        `max(-u, 0) = max(u, 0) - u`, and a step below the knot is 1 less that above. Missing values are zero everywhere
        and follow neither rule.
        """
        kinds, codes = len(self.codes()), self.codes()[bumps]
        numbers = inputs * kinds + bumps + (0 if clipped is None else clipped * len(self.means_) * kinds)
        steps, ones = codes == STEP_BELOW, len(inputs)
        above, linear = numbers - self.knots_.shape[1], numbers - bumps  # with the same knot, and of the same input
        derived = ((codes == HINGE_BELOW) & np.isin(linear, numbers)) | steps
        derived &= np.isin(above, numbers) & ~np.isnan(X.sum(axis=0))[inputs]
        if not derived.any():
            return None
        kept = np.append(np.flatnonzero(~derived), ones)
        weights = np.zeros((ones + 1, ones + 1))
        weights[kept, kept] = 1.0
        steps, hinges = np.flatnonzero(derived & steps), np.flatnonzero(derived & ~steps)
        weights[steps, np.searchsorted(numbers, above[steps])] = -1.0
        weights[steps, ones] = 1.0
        places = self._single_parameters(inputs, bumps)["places"]
        weights[hinges, np.searchsorted(numbers, above[hinges])] = 1.0
        weights[hinges, np.searchsorted(numbers, linear[hinges])] = -1.0
        weights[hinges, ones] = ((places - self.means_[inputs]) / self.deviations_[inputs])[hinges]
        return Span(kept, csr_array(weights[:, kept]))

    def _clipped_factors(self) -> NDArray[np.bool_]:
        """Which factors of the terms are evaluated at clipped inputs, (p, 2)."""
        if self.extrapolation == "continue":
            return np.zeros(self.inputs_.shape, dtype=bool)
        present, bumps = self.inputs_ >= 0, self.bumps_ > 0
        if self.extrapolation == "linear":
            return bumps
        return present if self.extrapolation == "constant" else bumps | (present & present[:, 1:])

    def linear_ranges(self) -> Floats:
        """Return the range of every input that linear functions alone are clipped to, (2, d); perhaps infinite."""
        return linear_ranges(self.extrapolation, self.ranges_, self.deviations_)

    def clip_ranges(self) -> Floats:
        """Return the range of every input outside which a function is evaluated at the boundary, (2, d)."""
        ends, clipped = super().clip_ranges(), self._clipped_factors()
        d = len(self.means_)
        linear = np.bincount(self.inputs_[~clipped & (self.inputs_ >= 0)], minlength=d) > 0
        within = np.bincount(self.inputs_[clipped], minlength=d) > 0
        return np.where(within, self.ranges_, np.where(linear, self.linear_ranges(), ends))

    def _is_within(self, X: NDArray[Any]) -> bool:
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
        kinds = len(self.codes())
        half = len(self.means_) * kinds  # the clipped functions have the numbers above
        numbers = self.inputs_ * kinds + self.bumps_ + (0 if within else half * self._clipped_factors())
        numbers = np.where(self.inputs_ < 0, 2 * half, numbers)
        used_numbers = np.bincount(numbers.ravel(), minlength=2 * half + 1)[:-1] > 0
        used, (first, second) = np.flatnonzero(used_numbers), np.append(0, np.cumsum(used_numbers))[numbers].T
        return (used % half // kinds, used % kinds, None if within else used >= half), first, second

    def used_functions(self) -> tuple[Indices, Indices]:
        """Return the inputs of all single functions in the terms, ascending, and their numbers as in `bumps_`."""
        (inputs, bumps, _), _, _ = self._factors(within=True)
        return inputs, bumps

    def inputs_of(self, indices: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the inputs that each of some functions depends on, in ascending order.

        Parameters
        ----------
        indices : ndarray of int
            Which functions.
        """
        return [tuple(sorted(j for j in pair if j >= 0)) for pair in self.inputs_[indices].tolist()]

    def frozen(self) -> dict[str, NDArray[Any]]:
        """Return the parameters of the single functions in use, and the two of each term, -1 for none.

        They are those of `single_function`, with the input of each function in `columns`, and whether it is `clipped`.
        """
        (columns, bumps, clipped), first, second = self._factors()
        second = np.where(second == len(columns), -1, second)
        singles = {"columns": columns, **self._single_parameters(columns, bumps), "bumps": self.codes()[bumps]}
        return {**singles, "first": first, "second": second, "clipped": clipped}

    def _stores(self, X: NDArray[Any]) -> bool:
        """Whether estimators store the design matrix: where it is small, or has few products."""
        few = len(self.inputs_) <= FEW_PRODUCTS * (1 + len(self.means_) * len(self.codes()))
        return few or len(X) * len(self.inputs_) <= SMALL_MATRIX

    def _names(self, inputs: list[str]) -> list[str]:
        codes = self.codes()
        alone = np.full((len(inputs) + 1, len(codes)), "", dtype=object)  # [-1, -1] for no function
        for j in np.unique(self.inputs_[self.inputs_ >= 0]):
            alone[j] = label_functions(inputs[j], codes, self.centers_[j], self.knots_[j], self.ranges_[:, j])
        is_step = (codes == STEP_ABOVE) | (codes == STEP_BELOW)
        factor = np.where(is_step, "(" + alone + ")", alone)
        (i, j), (a, b) = self.inputs_.T, self.bumps_.T
        rules, products = alone[i, a] + " and " + alone[j, b], factor[i, a] + " * " + factor[j, b]
        return list(np.where(j < 0, alone[i, a], np.where(is_step[a] & is_step[b], rules, products)))


def first_of_equal(values: NDArray[Any]) -> Indices:
    """Return the place of the first of equal complex numbers, ascending.

    Few have equal real parts, by which to sort takes a fraction of the time of sorting complex numbers.
    """
    real = np.ascontiguousarray(values.real)
    order = np.argsort(real)
    repeats = np.diff(real[order]) == 0
    among = np.append(repeats, False) | np.append(False, repeats)  # of a sequence of equal real parts
    some = np.sort(order[among])
    return np.sort(np.append(order[~among], some[np.unique(values[some], return_index=True)[1]]))
