"""The dictionaries the flagship chooses from, simplest first."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from termwise._arrays import evenly
from termwise.basis import AnovaBasis, Basis, SmoothBasis
from termwise.ridge.spectrum import Spectrum, best_alpha
from termwise.solution import pose

Floats = NDArray[np.float64]

DICTIONARIES: dict[str, Basis] = {
    "linear": AnovaBasis(n_centers=0, order=1),
    "additive": AnovaBasis(order=1),
    "pairs": AnovaBasis(),
    "smooth": SmoothBasis(),
}
COARSE = (0.35, 0.7, 1.4, 2.8)  # widths tried first, in median distances between samples, then those beside the best
MOST_PAIRS = 50_000  # candidates; beyond, products of two inputs are left to the smooth dictionary
DIGITS = 9  # of an error as a share of the variance
RIDGE_ROWS, RIDGE_CENTERS = 600, 300  # samples and Gaussians the width is judged by


def dictionaries(X: Floats, Y: Floats, counts: Floats, centers: int, which: str) -> dict[str, Basis]:
    """Return the dictionaries worth trying on these data, by name, or the one asked for."""
    singles = X.shape[1] * (1 + AnovaBasis().n_centers)
    affordable = X.shape[1] > 1 and singles**2 / 2 <= MOST_PAIRS
    names = [name for name in DICTIONARIES if name != "pairs" or affordable] if which == "auto" else [which]
    return {
        name: SmoothBasis(best_width(X, Y, counts), centers) if name == "smooth" else clone(DICTIONARIES[name])
        for name in names
    }


def best_width(X: Floats, Y: Floats, counts: Floats) -> float:
    """Width at which ridge regression on Gaussians has the smallest leave-one-out error, at its best penalty."""
    rows = evenly(len(X), RIDGE_ROWS)
    X, Y, counts = X[rows], Y[rows], counts[rows]
    if np.all(X[0] == X):  # what varies, varies elsewhere: any width is as good
        return COARSE[0]
    variance = max(float(Y.var(axis=0).mean()), np.finfo(np.float64).tiny)

    @cache
    def error(width: float) -> float:
        G = SmoothBasis(widths=width, centers=X[evenly(len(X), RIDGE_CENTERS)]).fit_transform(X)
        spectrum = Spectrum(pose(G, Y, counts, intercept=True), rough=True)
        share = float(spectrum.score("loo", best_alpha(spectrum, "loo"))[0]) / variance
        return round(share, DIGITS)  # where nothing generalises all widths are equally bad: rounding must not decide

    best = min(COARSE, key=error)
    return min((best, best / np.sqrt(2), best * np.sqrt(2)), key=error)
