"""Errors that the selection cannot fool: every choice is made again without the samples it is judged on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray
from sklearn.base import clone

from termwise.basis import take
from termwise.selection.engine import Settings, grow

Floats = NDArray[np.float64]


def content_folds(X: Floats, folds: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Number the folds by what is in a row, so that equal samples share one and repeating a sample changes nothing."""
    _, kind = np.unique(X, axis=0, return_inverse=True)
    kind = kind.ravel()
    places = rng.permutation(kind.max() + 1) % folds
    return places[kind]


def out_of_fold(basis: Any, X: Floats, Y: Floats, counts: Floats, fold: NDArray, settings: Settings) -> Floats:
    """Predictions for every sample by models chosen without its fold, (k + 1, n, q), with the first 0 to k terms.

    A model with k terms predicts `y_mean + sum over j <= k of z_j (z_j'y)`, where `z = (g - g_mean) R^-1` are the
    coordinates of a new row. What goes beyond the targets seen is cut off: a single wild extrapolation would decide.
    """
    assert settings.max_terms is not None
    scores = np.empty((settings.max_terms + 1, *Y.shape))
    for number in np.unique(fold):
        inside, out = fold != number, fold == number
        fitted = clone(basis).fit(X[inside])
        path = grow(fitted.transform(X[inside]), Y[inside], counts[inside], settings, one_output=False)
        data, k = path.training(), len(path)
        rows = take(fitted, path.terms).transform(X[out]) - data.G_mean if k else np.empty((out.sum(), 0))
        z = sla.solve_triangular(data.R, rows.T, trans="T").T if k else rows
        steps = np.concatenate([np.zeros((1, out.sum(), Y.shape[1])), z.T[:, :, None] * data.zy[:, None, :]])
        limits = Y[inside].min(axis=0), Y[inside].max(axis=0)
        predicted = np.clip(data.Y_mean + np.cumsum(steps, axis=0), *limits)
        scores[: k + 1, out], scores[k + 1 :, out] = predicted, predicted[-1]
    return scores


@dataclass(frozen=True)
class Trial:
    """What a dictionary has shown."""

    name: str
    squares: Floats  # (k + 1, n), squared error of every sample at every size, averaged over the outputs
    share: Floats  # (n,), weights of the samples, adding up to one
    n: float

    @property
    def errors(self) -> Floats:
        """Mean squared error at every size."""
        return self.squares @ self.share

    def excess(self, best: Floats) -> tuple[Floats, Floats]:
        """By how much every size is worse than the best model's `squares`, and the standard error of that."""
        more = self.squares - best
        mean = more @ self.share
        return mean, np.sqrt(np.maximum(more**2 @ self.share - mean**2, 0.0) / self.n)


def choose(trials: list[Trial], size: str | int, tolerance: float) -> tuple[str, int]:
    """Return the name of a dictionary and a number of terms.

    The dictionary is the one that reaches the smallest error (at the size, if that is a number). "accurate" has the
    terms that reach it; "small" the fewest whose error is at most `tolerance` standard errors of the difference above.
    """
    if not isinstance(size, str):
        best = min(trials, key=lambda trial: float(trial.errors[min(size, len(trial.errors) - 1)]))
        return best.name, size
    best = min(trials, key=lambda trial: float(trial.errors.min()))
    least = int(best.errors.argmin())
    if size == "accurate":
        return best.name, least
    mean, spread = best.excess(best.squares[least])
    return best.name, int(np.argmax(mean <= tolerance * spread + 1e-12))
