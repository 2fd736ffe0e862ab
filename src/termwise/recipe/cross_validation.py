"""Errors that the selection cannot fool: every choice is made again without the samples it is judged on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np
from joblib import Parallel, cpu_count, delayed
from numpy.typing import NDArray
from sklearn.base import clone

from termwise._memory import budget
from termwise.basis import Basis
from termwise.basis.base import design_matrix
from termwise.estimators.labels import misclassified
from termwise.linalg.criteria import excess
from termwise.recipe.nested import Nested, nested
from termwise.recipe.pooling import Member, pool_weights
from termwise.recipe.smoothing import RidgeStage

Floats = NDArray[np.float64]
Folded = tuple[Floats, Floats, Floats, NDArray[np.intp]]  # inputs, targets, counts and folds

FEW = 10  # samples in a fold, or repeats of a sample, below which they are few
MANY = 500  # samples
COPIES = 5  # of the design matrix a fold has at its worst, in the ridge fit
WORTH = 0.01  # share of the error that the mean of several models must save
LOST = 0.1  # share of what the best model explains that a smaller one may miss
MORE = 1  # terms that a small model may have beyond the fewest, if that is better
BETTER = 1.0  # standard errors of the difference beyond which a model that cannot be drawn is the better one
MIXING = {"smooth", "relevant"}  # dictionaries whose terms are of several inputs together
ALPHA = 1e-6  # penalty of the weights while terms are chosen
NOTHING = 1e-9  # difference of errors, as shares of the variance, that says nothing of models that are all but exact
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


@dataclass(frozen=True)
class FoldPath:
    """Models of every size that know nothing of a fold."""

    models: Nested
    inside: NDArray[np.bool_]  # (n,), the samples they have seen
    columns: Floats  # (m, k), their terms for the other samples
    start: Start | None = None


@dataclass(frozen=True)
class Start:
    """What a path sets out from."""

    basis: Basis  # not fitted, but with what was learned from targets
    aim: Floats  # (n, q), of the samples inside


@dataclass(frozen=True)
class Folding:
    """For every fold models that know nothing of it; their predictions are computed when they are wanted."""

    paths: list[FoldPath]
    most: int  # terms

    def scores(self, Y: Floats) -> Floats:
        """Predictions for every sample by models chosen without its fold, (k + 1, n, q), with the first 0 to k terms.

        What goes beyond the targets seen is cut off: a single wild extrapolation would decide.
        """
        scores = np.empty((self.most + 1, *Y.shape))
        for path in self.paths:
            limits = Y[path.inside].min(axis=0), Y[path.inside].max(axis=0)
            found = np.clip(path.models.along(path.columns), *limits)
            scores[: len(found), ~path.inside], scores[len(found) :, ~path.inside] = found, found[-1]
        return scores


def out_of_fold(
    tries: Sequence[tuple[Basis, Folded]], most: int, targets: Sequence[str], at_once: int = 1
) -> Iterator[list[Folding]]:
    """Cross-validate each dictionary on its data for each target its terms may be chosen for, so many folds at once."""
    folds = [(basis, data, number) for basis, data in tries for number in np.unique(data[-1])]
    found = Parallel(at_once, require="sharedmem", return_as="generator")(
        delayed(_paths)(*one, most, targets) for one in folds
    )
    for _, data in tries:
        paths = islice(found, len(np.unique(data[-1])))
        yield [Folding(list(some), most) for some in zip(*paths, strict=True)]


def further(before: Folding, data: Folded, most: int, at_once: int = 1) -> Folding:
    """Give the models of a folding more terms."""
    X, Y, counts, _ = data

    def go_on(path: FoldPath) -> FoldPath:
        if path.start is None:
            return path
        inside, start = path.inside, path.start
        fitted = clone(start.basis).fit(X[inside], Y[inside])
        (models,) = nested(design_matrix(fitted, X[inside]), [start.aim], counts[inside], ALPHA, most)
        return FoldPath(models, inside, fitted.take(models.terms).evaluate(X[~inside]), start)

    return Folding(Parallel(at_once, require="sharedmem")(map(delayed(go_on), before.paths)), most)


def _paths(basis: Basis, data: Folded, number: int, most: int, targets: Sequence[str]) -> list[FoldPath]:
    """Choose terms for each target without the samples of a fold."""
    X, Y, counts, fold = data
    inside = fold != number
    table, new, Y, counts = X[inside], X[~inside], Y[inside], counts[inside]
    if np.all(table[0] == table):  # no function can tell these samples apart
        nothing = nested(np.empty((len(table), 0)), [Y for _ in targets], counts, ALPHA, 0)
        return [FoldPath(models, inside, np.empty((len(new), 0))) for models in nothing]
    fitted = clone(basis).fit(table, Y)  # some learn from the targets, those of these samples
    G = design_matrix(fitted, table)
    aims = [Y if target == "data" else RidgeStage.of(G, Y, counts).signal for target in targets]
    paths = zip(
        nested(G, aims, counts, ALPHA, most), (Start(fitted.with_fitted_params(), aim) for aim in aims), strict=True
    )
    return [FoldPath(models, inside, fitted.take(models.terms).evaluate(new), start) for models, start in paths]


def pooled_folds(members: Sequence[tuple[Trial, int, float]], most: int) -> list[Folding]:
    """Cross-validate the mean of several models, each of a size and with a weight, reproduced by few of their terms."""
    trials, sizes, weights = zip(*members, strict=True)
    counts = trials[0].counts

    def pool(fold: Sequence[FoldPath]) -> FoldPath:
        inside = fold[0].inside
        parts = list(zip(fold, sizes, strict=True))
        root = np.sqrt(counts[inside])[:, None]
        G = np.hstack([path.models.columns(k, root) for path, k in parts])
        new = np.hstack([path.columns[:, :k] for path, k in parts])
        signal = sum(w * path.models.fitted(k, root) for w, (path, k) in zip(weights, parts, strict=True))
        (models,) = nested(G, [signal], counts[inside], ALPHA, most)
        return FoldPath(models, inside, new[:, models.terms])

    foldings = zip(*(trial.foldings for trial in trials), strict=True)
    return [Folding([*map(pool, zip(*(one.paths for one in some), strict=True))], most) for some in foldings]


@dataclass(frozen=True, eq=False)
class Trial:
    """What a dictionary has shown, aimed at a target."""

    name: str
    target: str  # what the terms were chosen for: the "data", their "ridge" fit, or the mean of models, "pooled"
    foldings: list[Folding]
    Y: Floats  # (n, q)
    counts: Floats  # (n,)
    members: tuple[Member, ...] = ()  # of a pool

    @property
    def names(self) -> list[str]:
        """The dictionaries the terms are of."""
        return list(dict.fromkeys(member.name for member in self.members if member.size)) or [self.name]

    @property
    def mixing(self) -> bool:
        """Whether its terms may be of more than two inputs, so that the model cannot be drawn."""
        return not MIXING.isdisjoint(self.names)

    @property
    def n(self) -> float:
        """Number of samples, repetitions counted."""
        return float(self.counts.sum())

    @property
    def share(self) -> Floats:
        """Weights of the samples, (n,), adding up to one."""
        return self.counts / self.counts.sum()

    @cached_property
    def squares(self) -> Floats:
        """Squared error of every sample at every size, (k + 1, n), as a share of the variance, averaged."""
        variance = np.maximum(self.share @ (self.Y - self.share @ self.Y) ** 2, np.finfo(np.float64).tiny)
        return np.mean(
            [np.mean((self.Y - one.scores(self.Y)) ** 2 / variance, axis=2) for one in self.foldings], axis=0
        )

    @cached_property
    def wrong(self) -> Floats:
        """Of labels: how often every sample was put into the wrong class, (k + 1, n)."""
        return np.mean([misclassified(one.scores(self.Y), self.Y) for one in self.foldings], axis=0)

    @property
    def title(self) -> str:
        """What it is called among the trials."""
        return self.name if self.target == "data" else f"{self.name}, {self.target}"

    def __str__(self) -> str:
        best = int(self.errors.argmin())
        return f"{self.title}: cross-validated error {self.errors[best]:.4g} of the variance with {best} terms"

    @property
    def errors(self) -> Floats:
        """Mean squared error at every size."""
        return self.squares @ self.share

    @property
    def rounded(self) -> Floats:
        """The errors, but for their last digits: rounding must not tell equally good models apart."""
        return self.errors.round(DIGITS)

    @property
    def rates(self) -> Floats:
        """Share of labels that are wrong at every size."""
        return self.wrong @ self.share

    def grows(self, share: float) -> bool:
        """Whether it is still improving with its last terms, those beyond a share of all."""
        return int(self.errors.argmin()) >= share * (len(self.squares) - 1)

    def more(self, other: Trial) -> Trial:
        """Return this trial together with one on other foldings."""
        return replace(self, foldings=self.foldings + other.foldings)

    def cut(self, k: int) -> Floats:
        """Residuals with k terms, of all foldings one after the other, rows scaled by the roots of their counts."""
        root = np.sqrt(self.counts)[:, None]
        return np.concatenate([(root * (self.Y - one.scores(self.Y)[k])).ravel() for one in self.foldings])

    def spread(self, k: int) -> float:
        """Standard error of the error with k terms."""
        return float(excess(self.squares[k : k + 1], np.zeros(len(self.share)), self.share, self.n)[1][0])

    def excess(self, best: Floats) -> tuple[Floats, Floats]:
        """By how much every size is worse than the best model's `squares`, and the standard error of that."""
        return excess(self.squares, best, self.share, self.n)


def pooled(trials: list[Trial], most: int) -> list[Trial]:
    """Cross-validate the mean of what was tried, each at its best size; nothing if that is not worth it."""
    if not trials:
        return []
    sizes = [int(trial.rounded.argmin()) for trial in trials]
    weights = pool_weights(np.column_stack([trial.cut(k) for trial, k in zip(trials, sizes, strict=True)]))
    chosen = [(trial, k, float(w)) for trial, k, w in zip(trials, sizes, weights, strict=True) if w > 0]
    most = min(most, sum(k for _, k, _ in chosen))
    if len(chosen) < 2 or not most:
        return []
    members = tuple(Member(trial.name, trial.target if k else "data", k, w) for trial, k, w in chosen)
    pool = Trial(union_name(members), "pooled", pooled_folds(chosen, most), trials[0].Y, trials[0].counts, members)
    least = min(float(trial.errors.min()) for trial in trials)
    return [pool] if pool.errors.min() <= (1 - WORTH) * least else []


def union_name(members: Sequence[Member]) -> str:
    """Name the dictionaries of a pool, without those whose functions others have too."""
    names = {member.name: None for member in members if member.size}
    richer = {"linear": {"additive", "pairs", "smooth", "relevant"}, "additive": {"pairs"}}
    return " and ".join(name for name in names if not richer.get(name, set()) & names.keys())


def contenders(trials: list[Trial], beaten: float) -> list[Trial]:
    """Return the dictionaries that are, at their best, less than `beaten` standard errors worse than the best one."""
    best = min(trials, key=lambda trial: float(trial.errors.min()))
    least = best.squares[int(best.errors.argmin())]

    def is_open(trial: Trial) -> bool:
        more, spread = trial.excess(least)
        k = int(trial.errors.argmin())
        return bool(more[k] <= beaten * spread[k] + NOTHING)

    return [trial for trial in trials if is_open(trial)]


def choose(trials: list[Trial], size: str | int, tolerance: float) -> tuple[Trial, int]:
    """Return the best trial and a number of terms.

    "accurate" is the model with the smallest error; "small" has the fewest terms of all whose error is above that by at
    most `tolerance` standard errors of that error, and that keep nearly all of what it explains, or one more if that is
    better. It is looked for among the models that can be drawn, unless the best one is better than these by more than
    what chance makes of it. With a number the smallest error at that size decides.
    """
    if not isinstance(size, str):
        errors = [trial.rounded[min(size, len(trial.rounded) - 1)] for trial in trials]
        return trials[int(np.argmin(errors))], size
    best, least = most_accurate(trials)
    if size == "accurate":
        return best, least
    drawn = [trial for trial in trials if not trial.mixing]
    if drawn:
        other, k = most_accurate(drawn)
        more, spread = other.excess(best.squares[least])
        if more[k] <= BETTER * spread[k] + NOTHING:
            trials, best, least = drawn, other, k
    lowest, explained = best.rounded[least], best.rounded[0] - best.rounded[least]
    limit = lowest + min(tolerance * best.spread(least), LOST * explained) + 10.0**-DIGITS
    fewest = min(int(np.flatnonzero(trial.rounded <= limit)[0]) for trial in trials if trial.rounded.min() <= limit)
    sizes = [fewest, fewest + MORE] if fewest else [0]
    models = [
        (float(curve[k]), k, i) for i, curve in enumerate(t.rounded for t in trials) for k in sizes if k < len(curve)
    ]
    _, terms, number = min(models)
    return trials[number], terms


def most_accurate(trials: list[Trial]) -> tuple[Trial, int]:
    """Return the trial with the smallest error, and with how many terms."""
    best = trials[int(np.argmin([trial.rounded.min() for trial in trials]))]
    return best, int(best.rounded.argmin())


def choose_for_labels(trials: list[Trial], size: str | int, plausible: float, tolerance: float) -> tuple[Trial, int]:
    """Return the best trial and a number of terms, of labels.

    What counts is the rate of errors; but that is a coarse number, and by chance small somewhere among many models.
    Only those compete whose squared error is at most `plausible` standard errors of the difference above the least.
    "accurate" has the smallest rate of these; "small" the fewest terms of those whose rate is at most `tolerance`
    standard errors above. A `size` that is a number leaves the squared error to decide.
    """
    best, least = most_accurate(trials)
    if not isinstance(size, str):
        return choose(trials, size, 0.0)
    models: list[tuple[float, int, Trial]] = []
    for trial in trials:
        more, spread = trial.excess(best.squares[least])
        sizes = np.flatnonzero(more <= plausible * spread + 10.0**-DIGITS)
        models += [(float(trial.rates[k].round(DIGITS)), int(k), trial) for k in sizes]
    lowest = min(rate for rate, _, _ in models)
    allowed = 0.0 if size == "accurate" else tolerance * np.sqrt(lowest * (1 - lowest) / best.n)
    _, k, trial = min((m for m in models if m[0] <= lowest + allowed), key=lambda m: (m[1], m[0]))
    return trial, k
