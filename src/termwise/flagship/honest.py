"""Errors that the selection cannot fool: every choice is made again without the samples it is judged on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg as sla
from joblib import Parallel, cpu_count, delayed
from numpy.typing import NDArray
from sklearn.base import clone

from termwise._memory import budget
from termwise.basis import evaluate, take
from termwise.flagship.smoothing import RidgeStage
from termwise.selection.criteria import excess
from termwise.selection.engine import Settings, grow
from termwise.selection.path import SelectionPath

Floats = NDArray[np.float64]
Folded = tuple[Floats, Floats, Floats, NDArray[np.intp]]  # inputs, targets, counts and folds

FEW = 10  # samples in a fold, or repeats of a sample, below which they are few
MANY = 500  # samples
COPIES = 5  # of the design matrix a fold has at its worst, in the ridge fit
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


def folded(X: Floats, Y: Floats, counts: Floats, folds: int, rng: np.random.RandomState) -> Folded:
    """Return different samples with their folds: by their inputs, so that nothing is judged by inputs it has seen.

    Where there are a few different inputs only, a treatment and a control for example, nothing can be learned without
    one of them: there, samples with other targets are other samples; and those that come often, as classes do, have
    their part in every fold.
    """
    both = np.column_stack([X, Y])
    inputs = len(np.unique(X, axis=0))
    again = inputs < len(both) or counts.sum() >= FEW * inputs
    if inputs >= FEW * folds or not again:
        return X, Y, counts, content_folds(X, folds, rng)
    often = counts >= folds
    rows = np.concatenate([np.flatnonzero(~often), np.repeat(np.flatnonzero(often), folds)])
    fold = np.concatenate([content_folds(both, folds, rng)[~often], np.tile(np.arange(folds), int(often.sum()))])
    return X[rows], Y[rows], np.where(often, counts / folds, counts)[rows], fold


def threads(n: int, p: int) -> int:
    """How many folds of n samples and p candidates may be worked on side by side.

    Of many samples the time goes into products, which threads do side by side; each has its design matrix.
    """
    return 1 if n <= MANY else int(np.clip(budget() // (COPIES * 8 * n * p), 1, cpu_count()))


def out_of_fold(basis: Any, data: Folded, settings: Settings, targets: Sequence[str], at_once: int = 1) -> list[Floats]:
    """Predictions for every sample by models chosen without its fold, (k + 1, n, q), with the first 0 to k terms.

    One for each target the terms may be chosen for; so many folds are worked on at once. What goes beyond the targets
    seen is cut off: a single wild extrapolation would decide.
    """
    assert settings.max_terms is not None
    X, Y, counts, fold = data
    scores = [np.empty((settings.max_terms + 1, *Y.shape)) for _ in targets]

    def predict(number: int) -> list[Floats]:
        inside = fold != number
        limits = Y[inside].min(axis=0), Y[inside].max(axis=0)
        paths = _predictions(basis, (X[inside], Y[inside], counts[inside]), X[~inside], settings, targets)
        return [np.clip(path, *limits) for path in paths]

    numbers = np.unique(fold)
    jobs = Parallel(at_once, require="sharedmem")
    for number, answers in zip(numbers, jobs(map(delayed(predict), numbers)), strict=True):
        out = fold == number
        for place, predicted in zip(scores, answers, strict=True):
            place[: len(predicted), out], place[len(predicted) :, out] = predicted, predicted[-1]
    return scores


def _predictions(
    basis: Any, data: tuple[Floats, Floats, Floats], new: Floats, settings: Settings, targets: Sequence[str]
) -> list[Floats]:
    """Predictions for new inputs by the models of every size on the path for each target, (k + 1, m, q)."""
    X, Y, counts = data
    start = np.tile(counts @ Y / counts.sum(), (1, len(new), 1))
    if np.all(X[0] == X):  # no function can tell these samples apart
        return [start for _ in targets]
    fitted = clone(basis).fit(X, Y)  # some choose their inputs by the targets, those of these samples
    G = fitted.transform(X) if "ridge" in targets else evaluate(fitted, X)
    aims = {"data": lambda: Y, "ridge": lambda: RidgeStage.of(G, Y, counts).signal}
    paths = [grow(G, aims[target](), counts, settings, one_output=False) for target in targets]
    return [np.concatenate([start, _along(path, fitted, new, start)]) for path in paths]


def _along(path: SelectionPath, fitted: Any, new: Floats, start: Floats) -> Floats:
    """Predictions for new inputs with the first 1 to k terms of a path, (k, m, q).

    A model with k terms predicts `y_mean + sum over j <= k of z_j (z_j'y)`, where `z = (g - g_mean) R^-1` are the
    coordinates of a new row.
    """
    if not len(path):
        return np.empty((0, *start.shape[1:]))
    train = path.training()
    z = sla.solve_triangular(train.R, (take(fitted, path.terms).transform(new) - train.G_mean).T, trans="T")
    return start + np.cumsum(z[:, :, None] * train.zy[:, None, :], axis=0)


@dataclass(frozen=True)
class Trial:
    """What a dictionary has shown, aimed at a target."""

    name: str
    target: str  # what the terms were chosen for: the "data", or their "ridge" fit to all candidates
    squares: Floats  # (k + 1, n), squared error of every sample at every size, averaged over the outputs
    share: Floats  # (n,), weights of the samples, adding up to one
    n: float
    wrong: Floats | None = None  # (k + 1, n), of labels: how often every sample was put into the wrong class

    @property
    def title(self) -> str:
        """What it is called among the trials."""
        return self.name if self.target == "data" else f"{self.name}, {self.target}"

    def __str__(self) -> str:
        best = int(self.errors.argmin())
        return f"{self.title:<15} cross-validated error {self.errors[best]:.4g} of the variance with {best} terms"

    @property
    def errors(self) -> Floats:
        """Mean squared error at every size."""
        return self.squares @ self.share

    @property
    def rates(self) -> Floats:
        """Share of labels that are wrong at every size."""
        assert self.wrong is not None
        return self.wrong @ self.share

    def averaged(self, other: Trial, repeats: int) -> Trial:
        """The mean of this trial and of one that was repeated so often."""

        def mean(mine: Floats, theirs: Floats) -> Floats:
            return (mine + repeats * theirs) / (1 + repeats)

        wrong = None if self.wrong is None or other.wrong is None else mean(self.wrong, other.wrong)
        return replace(self, squares=mean(self.squares, other.squares), wrong=wrong)

    def excess(self, best: Floats) -> tuple[Floats, Floats]:
        """By how much every size is worse than the best model's `squares`, and the standard error of that."""
        return excess(self.squares, best, self.share, self.n)


def contenders(trials: list[Trial], beaten: float) -> list[Trial]:
    """Return the dictionaries that are, at their best, less than `beaten` standard errors worse than the best one."""
    best = min(trials, key=lambda trial: float(trial.errors.min()))
    least = best.squares[int(best.errors.argmin())]

    def is_open(trial: Trial) -> bool:
        more, spread = trial.excess(least)
        k = int(trial.errors.argmin())
        return bool(more[k] <= beaten * spread[k])

    return [trial for trial in trials if is_open(trial)]


def choose(trials: list[Trial], size: str | int, tolerance: tuple[float, float]) -> tuple[Trial, int]:
    """Return the best trial and a number of terms.

    The best is the one that reaches the smallest error (at the size, if that is a number). "accurate" has the terms
    that reach it; "small" the fewest whose error is above that by at most `tolerance`: so many standard errors of the
    difference, or that share of the error if it is more.
    """
    errors = [trial.errors.round(DIGITS) for trial in trials]  # rounding must not tell equally good ones apart
    if not isinstance(size, str):
        return trials[int(np.argmin([curve[min(size, len(curve) - 1)] for curve in errors]))], size
    first = int(np.argmin([curve.min() for curve in errors]))
    best, least = trials[first], int(errors[first].argmin())
    if size == "accurate":
        return best, least
    more, spread = best.excess(best.squares[least])
    allowed = np.maximum(tolerance[0] * spread, tolerance[1] * errors[first][least])
    return best, int(np.argmax(more <= allowed + 10.0**-DIGITS))


def choose_for_labels(trials: list[Trial], size: str | int, plausible: float, tolerance: float) -> tuple[Trial, int]:
    """Return the best trial and a number of terms, of labels.

    What counts is the rate of errors; but that is a coarse number, and by chance small somewhere among many models.
    Only those compete whose squared error is at most `plausible` standard errors of the difference above the least.
    "accurate" has the smallest rate of these; "small" the fewest terms of those whose rate is at most `tolerance`
    standard errors above. A `size` that is a number leaves the squared error to decide.
    """
    best, least = choose(trials, "accurate", (0.0, 0.0))
    if not isinstance(size, str):
        return choose(trials, size, (0.0, 0.0))
    models: list[tuple[float, int, Trial]] = []
    for trial in trials:
        more, spread = trial.excess(best.squares[least])
        sizes = np.flatnonzero(more <= plausible * spread + 10.0**-DIGITS)
        models += [(float(trial.rates[k].round(DIGITS)), int(k), trial) for k in sizes]
    lowest = min(rate for rate, _, _ in models)
    allowed = 0.0 if size == "accurate" else tolerance * np.sqrt(lowest * (1 - lowest) / best.n)
    _, k, trial = min((m for m in models if m[0] <= lowest + allowed), key=lambda m: (m[1], m[0]))
    return trial, k
