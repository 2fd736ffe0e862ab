"""Errors that the selection cannot fool: every choice is made again without the samples it is judged on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray
from sklearn.base import clone

from termwise.basis import take
from termwise.selection.criteria import excess
from termwise.selection.engine import Settings, grow

Floats = NDArray[np.float64]

FEW = 10  # samples in a fold, or repeats of a sample, below which they are few
DIGITS = 12  # of an error as a share of the variance


def merged(X: Floats, Y: Floats, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """Write every sample once, with the counts of all its repeats, in the order of the data."""
    _, first, kind = np.unique(np.column_stack([X, Y]), axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rows = first[order]
    total = np.asarray(np.bincount(kind.ravel(), weights=counts), dtype=np.float64)
    return X[rows], Y[rows], total[order]


def content_folds(X: Floats, folds: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Number the folds by what is in a row, so that equal samples share one and repeating a sample changes nothing."""
    _, kind = np.unique(X, axis=0, return_inverse=True)
    kind = kind.ravel()
    places = rng.permutation(kind.max() + 1) % folds
    return places[kind]


def folded(
    X: Floats, Y: Floats, counts: Floats, folds: int, rng: np.random.RandomState
) -> tuple[Floats, Floats, Floats, NDArray[np.intp]]:
    """Return different samples with their folds: by their inputs, so that nothing is judged by inputs it has seen.

    Where there are a few different inputs only, a treatment and a control for example, nothing can be learned without
    one of them: there, samples with other targets are other samples; and if these are few as well but come again and
    again, as classes do, every fold gets its part of each.
    """
    both = np.column_stack([X, Y])
    enough = FEW * folds
    if len(np.unique(X, axis=0)) < enough <= len(both):
        return X, Y, counts, content_folds(both, folds, rng)
    if len(both) < enough and counts.sum() >= FEW * len(both):
        every = np.repeat(np.arange(len(both)), folds)
        return X[every], Y[every], counts[every] / folds, np.tile(np.arange(folds), len(both))
    return X, Y, counts, content_folds(X, folds, rng)


def out_of_fold(basis: Any, X: Floats, Y: Floats, counts: Floats, fold: NDArray, settings: Settings) -> Floats:
    """Predictions for every sample by models chosen without its fold, (k + 1, n, q), with the first 0 to k terms.

    A model with k terms predicts `y_mean + sum over j <= k of z_j (z_j'y)`, where `z = (g - g_mean) R^-1` are the
    coordinates of a new row. What goes beyond the targets seen is cut off: a single wild extrapolation would decide.
    """
    assert settings.max_terms is not None
    scores = np.empty((settings.max_terms + 1, *Y.shape))
    for number in np.unique(fold):
        inside, out = fold != number, fold == number
        limits = Y[inside].min(axis=0), Y[inside].max(axis=0)
        predicted = np.clip(_predictions(basis, X[inside], Y[inside], counts[inside], X[out], settings), *limits)
        scores[: len(predicted), out], scores[len(predicted) :, out] = predicted, predicted[-1]
    return scores


def _predictions(basis: Any, X: Floats, Y: Floats, counts: Floats, new: Floats, settings: Settings) -> Floats:
    """Predictions for new inputs by the models of every size on a path, (k + 1, m, q)."""
    start = np.tile(counts @ Y / counts.sum(), (1, len(new), 1))
    if np.all(X[0] == X):  # no function can tell these samples apart
        return start
    fitted = clone(basis).fit(X)
    path = grow(fitted.transform(X), Y, counts, settings, one_output=False)
    if not len(path):
        return start
    data = path.training()
    z = sla.solve_triangular(data.R, (take(fitted, path.terms).transform(new) - data.G_mean).T, trans="T")
    return np.cumsum(np.concatenate([start, z[:, :, None] * data.zy[:, None, :]]), axis=0)


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
        return excess(self.squares, best, self.share, self.n)


def choose(trials: list[Trial], size: str | int, tolerance: float) -> tuple[str, int]:
    """Return the name of a dictionary and a number of terms.

    The dictionary is the one that reaches the smallest error (at the size, if that is a number). "accurate" has the
    terms that reach it; "small" the fewest whose error is at most `tolerance` standard errors of the difference above.
    """
    errors = [trial.errors.round(DIGITS) for trial in trials]  # rounding must not tell equally good ones apart
    if not isinstance(size, str):
        return trials[int(np.argmin([curve[min(size, len(curve) - 1)] for curve in errors]))].name, size
    first = int(np.argmin([curve.min() for curve in errors]))
    best, least = trials[first], int(errors[first].argmin())
    if size == "accurate":
        return best.name, least
    mean, spread = best.excess(best.squares[least])
    return best.name, int(np.argmax(mean <= tolerance * spread + 10.0**-DIGITS))
