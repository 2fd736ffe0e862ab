"""The dictionaries of candidate functions that the recipe chooses from, simplest first: one record for each.

A new dictionary is one more record of `DICTIONARIES`: validation, cross-validation and the choice of a model read the
registry, and its strings are for reports and the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from termwise._arrays import as_columns, different_rows, evenly, row_blocks
from termwise._numerics import CONSTANT_TOLERANCE, WIDTH_ALPHA_MIN, WIDTH_ERROR_DIGITS
from termwise.basis import AnovaBasis, Basis, LevelMeans, LogInputs, RuleBasis, SmoothBasis, UnionBasis
from termwise.basis.anova import FEW_PRODUCTS, SMALL_MATRIX
from termwise.basis.derived import DerivedInputs
from termwise.linalg.least_squares import least_squares_problem
from termwise.linalg.spectrum import Spectrum, best_alpha
from termwise.recipe.settings import RecipeSettings

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class Samples(NamedTuple):
    """Samples as arrays."""

    X: Floats  # (n, d)
    Y: Floats  # (n, q)
    sample_weight: Floats  # (n,)
    blocks: Indices | None = None  # (n,), samples with the same number stay in one fold

    def rows(self, which: Any) -> Self:
        """Return some of the samples."""
        blocks = None if self.blocks is None else self.blocks[which]
        return type(self)(self.X[which], self.Y[which], self.sample_weight[which], blocks)


class Inputs(NamedTuple):
    """What the candidates of a dictionary depend on before it is fitted."""

    d: int  # number of inputs
    n_curved: int  # inputs with more than two values, of which functions other than linear ones are made
    n_centers: int  # number of Gaussians
    groups: Indices  # (d,), the column of the table that each input comes from
    monotone: dict[int, int] | None = None  # inputs, and the directions of their effects
    skewed: tuple[int, ...] = ()  # inputs that nonlinear dictionaries take the logarithms of

    @classmethod
    def from_samples(
        cls,
        X: Floats,
        groups: Indices,
        n_centers: int,
        monotone: dict[int, int] | None = None,
        skewed: tuple[int, ...] = (),
    ) -> Self:
        """Describe the inputs of some samples."""
        low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)  # of the values that are not missing
        curved = np.any((low < X) & (high > X), axis=0)
        return cls(X.shape[1], int(curved.sum()), n_centers, groups, monotone, skewed)


def functions_of(basis: Any) -> Any:
    """Return the functions of an unfitted dictionary, without what its inputs are derived by."""
    while isinstance(basis, DerivedInputs):
        basis = basis.basis
    return basis


def logarithms_of(basis: Any) -> list[int]:
    """Return the inputs that a dictionary, or terms of it, take the logarithms of."""
    while isinstance(basis, DerivedInputs) and not isinstance(basis, LogInputs):
        basis = basis.basis
    return np.ravel(basis.columns).tolist() if isinstance(basis, LogInputs) else []


def without_logarithms(basis: Any) -> Any:
    """Return the same functions of the inputs as they are."""
    if isinstance(basis, LevelMeans):
        return clone(basis).set_params(basis=without_logarithms(basis.basis))
    return basis.basis if isinstance(basis, LogInputs) else basis


def anova_candidates(basis: Any, d: int, products: bool) -> int:
    """Bound the number of functions an `AnovaBasis` makes of d inputs."""
    basis = functions_of(basis)
    kinds = {"bump": basis.n_centers, "hinge": 2 * basis.n_knots, "step": 2 * basis.n_knots}
    functions = min(d, getattr(basis, "n_inputs", d)) * (1 + sum(kinds.get(name, 0) for name in basis.functions))
    return functions**2 // 2 if basis.order == 2 and products else functions


def gaussian_candidates(basis: Any, d: int, products: bool) -> int:
    """Bound the number of functions a `SmoothBasis` makes of d inputs."""
    return d + functions_of(basis).centers


def rule_candidates(basis: Any, d: int, products: bool) -> int:
    """Bound the number of linear terms and rules of d inputs."""
    rules = functions_of(basis).bases[1]
    return d + rules.n_trees * 2 ** (rules.max_conditions + 1)


@dataclass(frozen=True)
class Dictionary:
    """Everything about one dictionary."""

    description: str  # of its candidates, for reports
    build: Callable[[Inputs, RecipeSettings], Basis]  # an unfitted basis for these inputs
    is_tried: Callable[[Inputs, RecipeSettings], bool] = lambda inputs, settings: True  # by "auto"
    max_candidates: Callable[[Any, int, bool], int] = anova_candidates  # of a basis and d inputs; False: products aside
    contained_in: tuple[str, ...] = ()  # dictionaries that have all of its functions
    drawable: bool = True  # whether every term is a function of one or two inputs
    constrainable: bool = False  # whether its terms can be monotone, and products wait for their main effects
    takes_logarithms: bool = False  # whether skewed inputs are replaced by their logarithms
    rough: bool = False  # whether "auto" tries it only where gradient boosting is accurate
    reproduces: bool = False  # whether its terms are also selected for the reference model
    fits: bool = True  # whether they are selected for the data and their ridge fit
    with_more_trees: Callable[[Any, int], Basis] | None = None  # of functions that trees find: with so many times them
    replaced_by: str | None = None  # the dictionary selected for the reference model instead, if it is tried
    option: str | None = None  # value of `--basis` on the command line

    def stored_columns(self, basis: Any, d: int, n: int) -> int:
        """Bound the number of columns that are stored for n samples: of many products only their factors are."""
        every, singles = (self.max_candidates(basis, d, products) for products in (True, False))
        return min(every, max(FEW_PRODUCTS * (1 + singles), SMALL_MATRIX // n))


def build_dictionaries(inputs: Inputs, which: str, settings: RecipeSettings) -> dict[str, Basis]:
    """Return the dictionary of that name, or with "auto" all that are tried for these inputs, by name."""
    found = {
        name: dictionary.build(inputs, settings)
        for name, dictionary in DICTIONARIES.items()
        if which == name or (which == "auto" and dictionary.is_tried(inputs, settings))
    }
    if not inputs.skewed:
        return found
    return {
        name: LogInputs(basis, inputs.skewed) if DICTIONARIES[name].takes_logarithms else basis
        for name, basis in found.items()
    }


def distinct_candidates(counts: dict[str, int], bases: dict[str, Basis], d: int) -> int:
    """Return how many different functions dictionaries with these numbers of candidates have together."""
    total = 0
    for name, count in counts.items():
        within = [other for other in counts if name in DICTIONARIES[other].contained_in]
        own = set(logarithms_of(bases[name]))  # which dictionaries without them have not
        shared = max((counts[one] - len(own.difference(logarithms_of(bases[one]))) for one in within), default=0)
        limit = DICTIONARIES[name].max_candidates(bases[name], d, False)  # screened inputs share fewer
        total += count - min(shared, limit)
    return total


# -- products of pairs of inputs ---------------------------------------------------------------------------------------


class ScreenedPairs(AnovaBasis):
    """Columns, bumps and their products, of the `n_inputs` inputs that explain the targets given to `fit` best.

    Half of the inputs are chosen by the variance that one of their own functions explains, the others by that of their
    product with an input of the first half: an input that acts only through an interaction is found if its partner
    has a main effect.
    """

    _screening_data: tuple[Floats, Floats]

    def __init__(
        self,
        min_count: float = 10,
        n_inputs: int = 40,
        extrapolation: str = "clip",
        functions: Sequence[str] = ("linear", "bump"),
        n_knots: int = 10,
        groups: Indices | None = None,
        monotone: dict[int, int] | None = None,
        knots: Any = "quantile",
    ) -> None:
        super().__init__(
            min_count=min_count,
            extrapolation=extrapolation,
            functions=functions,
            n_knots=n_knots,
            groups=groups,
            monotone=monotone,
            knots=knots,
        )
        self.n_inputs = n_inputs

    def _fit(self, table: NDArray[Any], y: Any) -> None:
        """Choose the inputs, then make the functions of these."""
        Y = as_columns(np.asarray(y, dtype=np.float64))
        rows = different_rows(np.column_stack([table, Y]))  # weights are unknown here: duplicates must not matter
        R = Y[rows] - Y[rows].mean(axis=0)
        R /= np.maximum(R.std(axis=0), np.finfo(np.float64).tiny)
        self._screening_data = table[rows].astype(np.float64, copy=False), R
        super()._fit(table, y)
        del self._screening_data

    def single_functions(self) -> NDArray[np.bool_]:
        """Keep the functions of the inputs with the largest main effects and interactions with these."""
        there, (X, R) = super().single_functions(), self._screening_data
        kinds = [np.flatnonzero(has) for has in there.T]
        main, interaction = np.zeros(there.shape), np.zeros(len(there))
        for k, inputs in enumerate(kinds):
            main[inputs, k] = explained_variance(self.evaluate_singles(X, inputs, np.full(len(inputs), k)), R)[:-1]
        leaders = np.argsort(-main.max(axis=1), kind="stable")[: self.n_inputs // 2]
        varying = kinds[0]
        Z = self.evaluate_singles(X, varying, np.zeros_like(varying))[:, :-1]
        for j in np.flatnonzero(np.isin(varying, leaders)):
            interaction[varying] = np.maximum(interaction[varying], explained_variance(Z * Z[:, [j]], R))
        interaction[leaders] = 0.0
        partners = np.argsort(-interaction, kind="stable")[: self.n_inputs - len(leaders)]
        self.screened_ = np.union1d(leaders, partners)
        return there & np.isin(np.arange(len(there)), self.screened_)[:, None]


def explained_variance(G: Floats, R: Floats) -> Floats:
    """Share of standardised targets R that each column of G explains by itself, summed over the targets."""
    squares = np.einsum("ij,ij->j", G, G)
    spread = squares - len(G) * np.mean(G, axis=0) ** 2
    varies = spread > CONSTANT_TOLERANCE * squares
    return np.sum((G.T @ R) ** 2, axis=1) / np.where(varies, len(G) * spread, np.inf)


def build_pairs(inputs: Inputs, settings: RecipeSettings) -> AnovaBasis:
    """Return the products of all inputs, or of many inputs those of the screened ones."""
    outside, groups, monotone = settings.extrapolation, inputs.groups, inputs.monotone
    if inputs.d <= settings.max_paired_inputs:
        return AnovaBasis(extrapolation=outside, groups=groups, monotone=monotone)
    n_inputs = settings.n_screened_inputs
    return ScreenedPairs(n_inputs=n_inputs, extrapolation=outside, groups=groups, monotone=monotone)


def build_knots(inputs: Inputs, settings: RecipeSettings, kind: str, n_knots: int) -> AnovaBasis:
    """Return hinges or steps with products; the more inputs there are, the fewer knots, to bound the time."""
    many = inputs.d > settings.max_paired_inputs or inputs.n_curved > settings.max_knotted_inputs
    n_curved = min(inputs.n_curved, settings.n_knotted_inputs) if many else inputs.n_curved
    affordable = settings.max_single_functions // (2 * max(n_curved, 1))
    options: dict[str, Any] = {
        "extrapolation": settings.extrapolation,
        "functions": ("linear", kind),
        "n_knots": int(np.clip(affordable, settings.min_knots, n_knots)),
        "groups": inputs.groups,
        "monotone": inputs.monotone,
        "knots": "tree" if kind == "step" and inputs.d <= settings.max_paired_inputs else "quantile",
    }
    return ScreenedPairs(n_inputs=settings.n_knotted_inputs, **options) if many else AnovaBasis(**options)


def build_rules(inputs: Inputs, settings: RecipeSettings) -> UnionBasis:
    """Return linear terms and the rules of boosted trees."""
    return UnionBasis([AnovaBasis(n_centers=0, order=1, extrapolation=settings.extrapolation), RuleBasis()])


def with_more_rules(basis: Any, factor: int) -> Basis:
    """Return the dictionary "rules", not fitted, with the rules of this multiple of its trees."""
    if isinstance(basis, LevelMeans):
        return clone(basis).set_params(basis=with_more_rules(basis.basis, factor))
    linear, rules = basis.bases
    return UnionBasis([clone(linear), clone(rules).set_params(n_trees=factor * rules.n_trees)])


def product_kernel(basis: AnovaBasis, X: Floats, sample_weight: Floats) -> Floats:
    """Return the inner products of samples over all single functions and their products, (n, n).

    With `K_j` the kernel of the functions of input j, in their standard deviations, the kernel of products of two
    inputs is `((sum K_j)^2 - sum K_j^2) / 2`, entry by entry: its cost does not depend on the number of products.
    Inputs of one group count as one.
    """
    inputs, bumps = basis.used_functions()
    S = basis.evaluate_singles(X, inputs, bumps)[:, :-1]
    share = sample_weight / sample_weight.sum()
    size = np.sqrt(share @ (S - share @ S) ** 2)
    S /= np.where(size > 0, size, 1.0)
    owners = inputs if basis.groups is None else np.asarray(basis.groups)[inputs]
    parts = [np.ascontiguousarray(S[:, owners == owner]) for owner in np.unique(owners)]
    K = S @ S.T
    for rows in row_blocks(*K.shape):  # strips that stay in the cache
        single, squares = K[rows], np.zeros_like(K[rows])
        for own in parts:
            part = own[rows] @ own.T
            part *= part
            squares += part
        K[rows] = single + (single**2 - squares) / 2
    return K


# -- Gaussians ---------------------------------------------------------------------------------------------------------


class TunedSmoothBasis(SmoothBasis):
    """Gaussians of the width at which ridge regression on them has the smallest leave-one-out error, and the inputs.

    Each width, a multiple of the median distance between samples, has its best penalty; the coarse grid `factors` is
    refined once, by a factor of sqrt(2). The width is chosen on at most `n_rows` samples, with half as many Gaussians.
    """

    _width_data: tuple[Floats, Floats]

    def __init__(
        self,
        centers: Any = "samples",
        factors: Sequence[float] = (1.0,),
        n_rows: int = 300,
        extrapolation: str = "clip",
        min_count: float = 0,
    ) -> None:
        super().__init__(centers=centers, extrapolation=extrapolation, min_count=min_count)
        self.factors = factors
        self.n_rows = n_rows

    def _fit(self, X: NDArray[Any], y: Any) -> None:
        Y = as_columns(np.asarray(y, dtype=np.float64))
        rows = different_rows(np.column_stack([X, Y]))  # leave-one-out of one repeat would leave the others in
        rows = rows[evenly(len(rows), self.n_rows)]
        self._width_data = X[rows].astype(np.float64), Y[rows]
        super()._fit(X, y)
        del self._width_data

    def _resolve_widths(self) -> tuple[Floats, bool]:
        X, Y = self._width_data
        self.factor_ = float(self.factors[0])
        if np.any(X[0] != X):  # else the inputs vary in other rows only: no width is better than another
            self.factor_ = self._best_factor(X, Y)
        return np.array([self.factor_]), True

    def _best_factor(self, X: Floats, Y: Floats) -> float:
        variance = max(float(Y.var(axis=0).mean()), np.finfo(np.float64).tiny)
        some = evenly(len(X), self.n_rows // 2)
        centers = len(some) if np.isnan(X).any() else X[some]  # given centres have no missing values
        basis = SmoothBasis(width="median", centers=centers).fit(X)
        units = basis.factors_

        @cache
        def error(factor: float) -> float:
            basis.factors_ = factor * units
            spectrum = Spectrum(
                least_squares_problem(basis.evaluate(X), Y, np.ones(len(Y)), intercept=True), truncate=True
            )
            alpha = max(best_alpha(spectrum, "loo", zooms=1, newton_steps=0), WIDTH_ALPHA_MIN)
            share = float(spectrum.score("loo", alpha)[0]) / variance
            return round(share, WIDTH_ERROR_DIGITS)  # with an infinite penalty all widths are equal but for rounding

        best = min(self.factors, key=error)
        return min((best, best / 2**0.5, best * 2**0.5), key=error)

    def with_fitted_params(self) -> SmoothBasis:
        """Return unfitted Gaussians of the chosen width."""
        width = "median", self.factor_
        return SmoothBasis(
            centers=self.centers, width=width, extrapolation=self.extrapolation, min_count=self.min_count
        )


# -- the registry ------------------------------------------------------------------------------------------------------

DICTIONARIES = {
    "linear": Dictionary(
        "linear terms",
        build=lambda inputs, settings: AnovaBasis(
            n_centers=0,
            order=1,
            extrapolation="constant" if settings.extrapolation == "constant" else "clip",  # else linear everywhere
            monotone=inputs.monotone,
        ),
        contained_in=("additive", "pairs", "hinges", "steps", "rules", "smooth", "relevant"),
        option="none",
        constrainable=True,
    ),
    "additive": Dictionary(
        "linear terms and bumps of single inputs",
        build=lambda inputs, settings: AnovaBasis(
            order=1, extrapolation=settings.extrapolation, monotone=inputs.monotone
        ),
        contained_in=("pairs",),
        constrainable=True,
        takes_logarithms=True,
    ),
    "pairs": Dictionary(
        "linear terms and bumps of single inputs, and their pairwise products",
        build=build_pairs,
        is_tried=lambda inputs, settings: (
            inputs.d > 1
            and anova_candidates(build_pairs(inputs, settings), inputs.d, True) <= settings.max_pair_candidates
        ),
        reproduces=True,
        option="anova",
        constrainable=True,
        takes_logarithms=True,
    ),
    "hinges": Dictionary(
        "linear terms and hinges of single inputs, and their pairwise products",
        build=lambda inputs, settings: build_knots(inputs, settings, "hinge", settings.n_hinge_knots),
        is_tried=lambda inputs, settings: inputs.n_curved > 0,
        rough=True,
        option="hinges",
        constrainable=True,
        takes_logarithms=True,
    ),
    "steps": Dictionary(
        "linear terms and steps of single inputs, and their pairwise products",
        build=lambda inputs, settings: build_knots(inputs, settings, "step", settings.n_step_knots),
        is_tried=lambda inputs, settings: inputs.n_curved > 0,
        reproduces=True,
        rough=True,
        # On 24 tables of 250 to 1,000 training rows the error was 0.1 % smaller, in the same time; without steps at all
        # it was the same in 15 % less time, but larger where two thresholds are all there is.
        replaced_by="rules",
        option="steps",
        constrainable=True,
    ),
    "rules": Dictionary(
        "linear terms, and conjunctions of up to three conditions that boosted trees find",
        build=build_rules,
        is_tried=lambda inputs, settings: inputs.n_curved > 0 and 1 < inputs.d <= settings.max_rule_inputs,
        max_candidates=rule_candidates,
        with_more_trees=with_more_rules,
        drawable=False,
        reproduces=True,
        fits=False,
        rough=True,
        option="rules",
    ),
    "smooth": Dictionary(
        "Gaussians of all inputs, and linear terms",
        build=lambda inputs, settings: TunedSmoothBasis(
            inputs.n_centers, settings.widths, settings.width_rows, settings.extrapolation, settings.min_support
        ),
        is_tried=lambda inputs, settings: inputs.d <= settings.max_gaussian_inputs,
        max_candidates=gaussian_candidates,
        drawable=False,
        option="smooth",
        takes_logarithms=True,
    ),
    "relevant": Dictionary(
        "Gaussians with ARD relevances (inverse length-scales), and linear terms",
        build=lambda inputs, settings: SmoothBasis(
            centers=inputs.n_centers,
            relevance="auto",
            extrapolation=settings.extrapolation,
            min_count=settings.min_support,
        ),
        is_tried=lambda inputs, settings: 1 < inputs.d <= settings.max_ard_inputs,
        max_candidates=gaussian_candidates,
        drawable=False,
        option="relevant",
        takes_logarithms=True,
    ),
}
