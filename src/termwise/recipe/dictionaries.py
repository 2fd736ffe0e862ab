"""The dictionaries of candidate functions that the recipe chooses from, simplest first: one record for each.

A new dictionary is one more record of `DICTIONARIES`: validation, cross-validation and the choice of a model read the
registry, and its texts are for reports and the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import as_columns, different_rows, evenly
from termwise._numerics import CONSTANT_TOLERANCE, WIDTH_ALPHA_MIN, WIDTH_ERROR_DIGITS
from termwise.basis import AnovaBasis, Basis, SmoothBasis
from termwise.linalg.least_squares import pose
from termwise.linalg.spectrum import Spectrum, best_alpha
from termwise.recipe.settings import RecipeSettings

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class Samples(NamedTuple):
    """Samples as arrays."""

    X: Floats  # (n, d)
    Y: Floats  # (n, q)
    sample_weight: Floats  # (n,)


def anova_candidates(basis: Any, d: int, stored: bool) -> int:
    """Bound the number of functions an `AnovaBasis` makes of d inputs."""
    functions = min(d, getattr(basis, "n_inputs", d)) * (1 + basis.n_centers)
    return functions**2 // 2 if basis.order == 2 and stored else functions


@dataclass(frozen=True)
class Dictionary:
    """Everything about one dictionary."""

    description: str  # of its candidates, for reports
    build: Callable[[int, int, RecipeSettings], Basis]  # an unfitted basis for d inputs, with so many Gaussians
    is_tried: Callable[[int, RecipeSettings], bool] = lambda d, settings: True  # by "auto", for d inputs
    max_candidates: Callable[[Any, int, bool], int] = anova_candidates  # of a basis and d inputs; False: products aside
    contained_in: tuple[str, ...] = ()  # dictionaries that have all of its functions
    drawable: bool = True  # whether every term is a function of one or two inputs
    reproduces: bool = False  # whether its terms are also selected for another model
    option: str | None = None  # value of `--basis` on the command line


def build_dictionaries(d: int, n_centers: int, which: str, settings: RecipeSettings) -> dict[str, Basis]:
    """Return the dictionary of that name, or with "auto" all that are tried for d inputs, by name."""
    return {
        name: dictionary.build(d, n_centers, settings)
        for name, dictionary in DICTIONARIES.items()
        if which == name or (which == "auto" and dictionary.is_tried(d, settings))
    }


def distinct_candidates(counts: dict[str, int], bases: dict[str, Basis], d: int) -> int:
    """Return how many different functions dictionaries with these numbers of candidates have together."""
    total = 0
    for name, count in counts.items():
        shared = max((counts[other] for other in counts if name in DICTIONARIES[other].contained_in), default=0)
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

    def __init__(self, min_count: float = 10, n_inputs: int = 40, extrapolation: str = "clip") -> None:
        super().__init__(min_count=min_count, extrapolation=extrapolation)
        self.n_inputs = n_inputs

    def _fit(self, table: NDArray, y: Any) -> None:
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


def build_pairs(d: int, settings: RecipeSettings) -> AnovaBasis:
    """Return the products of all inputs, or of many inputs those of the screened ones."""
    if d <= settings.max_paired_inputs:
        return AnovaBasis(extrapolation=settings.extrapolation)
    return ScreenedPairs(n_inputs=settings.n_screened_inputs, extrapolation=settings.extrapolation)


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
    ) -> None:
        super().__init__(centers=centers, extrapolation=extrapolation)
        self.factors = factors
        self.n_rows = n_rows

    def _fit(self, X: NDArray, y: Any) -> None:
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

        @cache
        def error(factor: float) -> float:
            centers = X[evenly(len(X), self.n_rows // 2)]
            G = SmoothBasis(width=("median", factor), centers=centers).fit_transform(X)
            spectrum = Spectrum(pose(G, Y, np.ones(len(Y)), intercept=True), truncate=True)
            alpha = max(best_alpha(spectrum, "loo"), WIDTH_ALPHA_MIN)
            share = float(spectrum.score("loo", alpha)[0]) / variance
            return round(share, WIDTH_ERROR_DIGITS)  # with an infinite penalty all widths are equal but for rounding

        best = min(self.factors, key=error)
        return min((best, best / 2**0.5, best * 2**0.5), key=error)

    def with_fitted_params(self) -> SmoothBasis:
        """Return unfitted Gaussians of the chosen width."""
        return SmoothBasis(centers=self.centers, width=("median", self.factor_), extrapolation=self.extrapolation)


# -- the registry ------------------------------------------------------------------------------------------------------

DICTIONARIES = {
    "linear": Dictionary(
        "linear terms",
        build=lambda d, n_centers, settings: AnovaBasis(n_centers=0, order=1),
        contained_in=("additive", "pairs", "smooth", "relevant"),
        option="none",
    ),
    "additive": Dictionary(
        "linear terms and bumps of single inputs",
        build=lambda d, n_centers, settings: AnovaBasis(order=1, extrapolation=settings.extrapolation),
        contained_in=("pairs",),
    ),
    "pairs": Dictionary(
        "linear terms and bumps of single inputs, and their pairwise products",
        build=lambda d, n_centers, settings: build_pairs(d, settings),
        is_tried=lambda d, s: d > 1 and anova_candidates(build_pairs(d, s), d, True) <= s.max_pair_candidates,
        option="anova",
    ),
    "smooth": Dictionary(
        "Gaussians of all inputs, and linear terms",
        build=lambda d, n_centers, settings: TunedSmoothBasis(
            n_centers, settings.widths, settings.width_rows, extrapolation=settings.extrapolation
        ),
        is_tried=lambda d, settings: d <= settings.max_gaussian_inputs,
        max_candidates=lambda basis, d, stored: d + basis.centers,
        drawable=False,
        option="smooth",
    ),
    "relevant": Dictionary(
        "Gaussians with ARD relevances (inverse length-scales), and linear terms",
        build=lambda d, n_centers, settings: SmoothBasis(
            centers=n_centers, relevance="auto", extrapolation=settings.extrapolation
        ),
        is_tried=lambda d, settings: 1 < d <= settings.max_ard_inputs,
        max_candidates=lambda basis, d, stored: d + basis.centers,
        drawable=False,
        option="relevant",
    ),
}
