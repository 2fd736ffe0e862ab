"""The dictionaries the flagship chooses from, simplest first."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from termwise._arrays import as_columns, different_rows, evenly
from termwise._numerics import CONSTANT_TOLERANCE
from termwise.basis import AnovaBasis, Basis, SmoothBasis
from termwise.linalg.least_squares import pose
from termwise.linalg.spectrum import Spectrum, best_alpha

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


DICTIONARIES: dict[str, Basis] = {
    "linear": AnovaBasis(n_centers=0, order=1),
    "additive": AnovaBasis(order=1),
    "pairs": AnovaBasis(),
    "smooth": SmoothBasis(),
    "relevant": SmoothBasis(relevance="auto"),
}
COARSE = (0.35, 0.7, 1.4, 2.8)  # widths tried first, in median distances between samples, then those beside the best
MOST_PAIRS = 50_000  # candidates; more products than that are not tried unless they are asked for
MOST_PAIRED = 100  # inputs all of which make products; beyond, the promising ones do
PROMISING = 40
MOST_NEAR = 3000  # inputs; beyond, no sample is near another one, and every Gaussian would store so many numbers
DIGITS = 9  # of an error as a share of the variance
RIDGE_ROWS, RIDGE_CENTERS = 600, 300  # samples and Gaussians the width is judged by


class ScreenedPairs(AnovaBasis):
    """Columns, bumps and their products of the inputs, of many, that go best with the targets given to `fit`.

    Half of them for a function of their own, the others for their product with one of the first: an input that acts
    only together with another one is found if that other one also acts alone.
    """

    _seen: tuple[Floats, Floats]

    def _fit(self, table: NDArray, y: Any) -> None:
        """Choose the inputs, then make the functions of these."""
        Y = as_columns(np.asarray(y, dtype=np.float64))
        rows = different_rows(np.column_stack([table, Y]))  # repeats do not count, as weights are not known
        self._seen = table[rows].astype(np.float64, copy=False), Y[rows]
        super()._fit(table, y)
        del self._seen

    def single_functions(self) -> NDArray[np.bool_]:
        """Leave the functions of the promising inputs."""
        there = super().single_functions()
        self.promising_ = self._promising(there)
        return there & np.isin(np.arange(len(there)), self.promising_)[:, None]

    def _promising(self, there: NDArray[np.bool_]) -> Indices:
        """Inputs that go best with the targets: alone, or times one of those that do so alone."""
        X, R = self._seen[0], standardised(self._seen[1])
        kinds = [np.flatnonzero(has) for has in there.T]
        alone, together = np.zeros(there.shape), np.zeros(len(there))
        for k, inputs in enumerate(kinds):
            alone[inputs, k] = explained(self.evaluate_singles(X, inputs, np.full(len(inputs), k)), R)[:-1]
        leaders = first_few(alone.max(axis=1), PROMISING // 2)
        varying = kinds[0]
        Z = self.evaluate_singles(X, varying, np.zeros_like(varying))[:, :-1]
        for j in np.flatnonzero(np.isin(varying, leaders)):
            together[varying] = np.maximum(together[varying], explained(Z * Z[:, [j]], R))
        together[leaders] = 0.0
        return np.union1d(leaders, first_few(together, PROMISING - len(leaders)))


def standardised(Y: Floats) -> Floats:
    """Targets of mean zero and variance one; constant ones are zero."""
    R = Y - Y.mean(axis=0)
    return R / np.maximum(R.std(axis=0), np.finfo(np.float64).tiny)


def explained(G: Floats, R: Floats) -> Floats:
    """Share of centred targets of variance one that each column alone explains, summed over the targets."""
    squares = np.einsum("ij,ij->j", G, G)
    spread = squares - len(G) * np.mean(G, axis=0) ** 2
    varies = spread > CONSTANT_TOLERANCE * squares
    return np.sum((G.T @ R) ** 2, axis=1) / np.where(varies, len(G) * spread, np.inf)


def first_few(values: Floats, count: int) -> Indices:
    """Numbers of the largest values, the first of equal ones."""
    return np.argsort(-values, kind="stable")[:count]


def dictionaries(X: Floats, Y: Floats, counts: Floats, centers: int, which: str) -> dict[str, Basis]:
    """Return the dictionaries worth trying on these data, by name, or the one asked for."""
    d = X.shape[1]
    made = {name: clone(basis) for name, basis in DICTIONARIES.items() if which in ("auto", name)}
    if "pairs" in made and d > MOST_PAIRED:
        made["pairs"] = ScreenedPairs()
    if which == "auto" and (d == 1 or most_candidates(made["pairs"], d) > MOST_PAIRS):
        del made["pairs"]
    if which == "auto" and d > MOST_NEAR:
        del made["smooth"]
    if which == "auto" and (d == 1 or d > MOST_PAIRED):
        del made["relevant"]
    if "relevant" in made:
        made["relevant"] = SmoothBasis(centers=centers, relevance="auto")
    if "smooth" in made:
        made["smooth"] = SmoothBasis(centers=centers, width=("median", best_width(X, Y, counts)))
    return made


def most_candidates(basis: Basis, d: int, stored: bool = True) -> int:
    """At most how many candidates a dictionary makes of d inputs; without products where they need not be stored."""
    if isinstance(basis, SmoothBasis):
        assert isinstance(basis.centers, int)
        return d + basis.centers
    assert isinstance(basis, AnovaBasis)
    singles = (min(d, PROMISING) if isinstance(basis, ScreenedPairs) else d) * (1 + basis.n_centers)
    return singles if basis.order == 1 or not stored else singles**2 // 2


def best_width(X: Floats, Y: Floats, counts: Floats) -> float:
    """Width at which ridge regression on Gaussians has the smallest leave-one-out error, at its best penalty."""
    rows = evenly(len(X), RIDGE_ROWS)
    X, Y, counts = X[rows], Y[rows], counts[rows]
    if np.all(X[0] == X):  # what varies, varies elsewhere: any width is as good
        return COARSE[0]
    variance = max(float(Y.var(axis=0).mean()), np.finfo(np.float64).tiny)

    @cache
    def error(width: float) -> float:
        G = SmoothBasis(width=("median", width), centers=X[evenly(len(X), RIDGE_CENTERS)]).fit_transform(X)
        spectrum = Spectrum(pose(G, Y, counts, intercept=True), rough=True)
        share = float(spectrum.score("loo", best_alpha(spectrum, "loo"))[0]) / variance
        return round(share, DIGITS)  # where nothing generalises all widths are equally bad: rounding must not decide

    best = min(COARSE, key=error)
    return min((best, best / 2**0.5, best * 2**0.5), key=error)
