"""Cross-validation of the whole procedure: every choice is repeated without the samples it is evaluated on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
from joblib import Parallel, cpu_count, delayed
from numpy.typing import NDArray
from sklearn.base import clone

from termwise._memory import budget
from termwise._numerics import ERROR_DIGITS
from termwise.basis import Basis
from termwise.basis.base import design_matrix
from termwise.linalg.criteria import excess, misclassified
from termwise.recipe.dictionaries import DICTIONARIES, Samples
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.targets import Member, RidgeTarget, stacking_weights
from termwise.selection.nested import NestedModels, nested_paths

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# -- folds -------------------------------------------------------------------------------------------------------------


class Folds(NamedTuple):
    """Distinct samples, each with the number of its fold."""

    X: Floats  # (n, d)
    Y: Floats  # (n, q)
    sample_weight: Floats  # (n,)
    fold: NDArray[np.intp]  # (n,)


def merge_duplicates(samples: Samples) -> Samples:
    """Return every distinct sample once, with the total weight of its duplicates, in the order of the data."""
    X, Y, sample_weight = samples
    _, first, group = np.unique(np.column_stack([X, Y]), axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    total = np.bincount(group.ravel(), weights=sample_weight).astype(np.float64)
    return Samples(X[first[order]], Y[first[order]], total[order])


def group_folds(X: Floats, n_folds: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Assign folds to distinct rows: equal rows share a fold, and duplicates do not change the assignment."""
    _, group = np.unique(X, axis=0, return_inverse=True)
    folds = rng.permutation(group.max() + 1) % n_folds
    return folds[group.ravel()]


def assign_folds(samples: Samples, settings: RecipeSettings, rng: np.random.RandomState) -> Folds:
    """Return the samples in folds grouped by their inputs, so that no test sample has its inputs in the training set.

    Where there are only a few distinct inputs, a treatment and a control for example, leaving one of them out leaves
    nothing to learn from: there samples are grouped by inputs and targets, and those with at least one repetition for
    each fold, as classes have, are divided between all folds.
    """
    X, Y, sample_weight = samples
    both, n_folds, few = np.column_stack([X, Y]), settings.n_folds, settings.min_fold_rows
    n_inputs = len(np.unique(X, axis=0))
    repeated = n_inputs < len(both) or sample_weight.sum() >= few * n_inputs
    if n_inputs >= few * n_folds or not repeated:
        return Folds(X, Y, sample_weight, group_folds(X, n_folds, rng))
    often = sample_weight >= n_folds
    rows = np.concatenate([np.flatnonzero(~often), np.repeat(np.flatnonzero(often), n_folds)])
    fold = np.concatenate([group_folds(both, n_folds, rng)[~often], np.tile(np.arange(n_folds), int(often.sum()))])
    return Folds(X[rows], Y[rows], np.where(often, sample_weight / n_folds, sample_weight)[rows], fold)


def n_parallel_folds(n: int, p: int, settings: RecipeSettings) -> int:
    """Return how many folds with n samples and p candidates to fit in parallel threads, as memory permits.

    With few samples the time is spent in Python, which threads cannot share.
    """
    if n <= settings.parallel_rows:
        return 1
    return int(np.clip(budget() // (settings.ridge_copies * 8 * n * p), 1, cpu_count()))


# -- paths without a fold ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoldPath:
    """Models of every size, trained without one fold."""

    models: NestedModels
    train: Mask  # (n,), the training samples
    columns: Floats  # (m, k), the terms on the samples of the fold
    basis: Basis | None = None  # not fitted, but with all parameters learned from the targets; None: an ensemble
    target: Floats | None = None  # (n_train, q), what the terms were selected for
    n_candidates: int = 0


@dataclass(frozen=True)
class CrossValidatedPath:
    """One path for every fold; predictions are computed on demand, since many classes would fill the memory."""

    paths: list[FoldPath]
    max_terms: int

    def predictions(self, Y: Floats) -> Floats:
        """Return out-of-fold predictions with the first 0 to k terms, (k + 1, n, q).

        They are clipped to the range of the training targets: a single extrapolation could dominate the error. A path
        that has ended repeats its last prediction.
        """
        found = np.empty((self.max_terms + 1, *Y.shape))
        for path in self.paths:
            limits = Y[path.train].min(axis=0), Y[path.train].max(axis=0)
            along = np.clip(path.models.along(path.columns), *limits)
            found[: len(along), ~path.train], found[len(along) :, ~path.train] = along, along[-1]
        return found


def cross_validate(
    tries: Sequence[tuple[Basis, Folds]], max_terms: int, targets: Sequence[str], alpha: float, n_threads: int = 1
) -> Iterator[list[CrossValidatedPath]]:
    """Yield for each dictionary and its folds one cross-validated path per target, "data" or "ridge"."""
    jobs = [(basis, folds, folds.fold != k) for basis, folds in tries for k in np.unique(folds.fold)]
    found = Parallel(n_threads, require="sharedmem", return_as="generator")(
        delayed(fit_fold)(*job, max_terms, targets, alpha) for job in jobs
    )
    for _, folds in tries:
        paths = islice(found, len(np.unique(folds.fold)))
        yield [CrossValidatedPath(list(one), max_terms) for one in zip(*paths, strict=True)]


def extend(
    before: CrossValidatedPath, folds: Folds, max_terms: int, alpha: float, n_threads: int = 1
) -> CrossValidatedPath:
    """Continue paths to more terms, with the basis parameters and target values that were learned before."""
    found = Parallel(n_threads, require="sharedmem")(
        delayed(fit_fold)(path.basis, folds, path.train, max_terms, [path.target], alpha) for path in before.paths
    )
    return CrossValidatedPath([path for (path,) in found], max_terms)


def fit_fold(
    basis: Basis, folds: Folds, train: Mask, max_terms: int, targets: Sequence[str | Floats], alpha: float
) -> list[FoldPath]:
    """Select terms on the training samples for each target: "data", "ridge", or values computed before."""
    X, Y, sample_weight = folds.X[train], folds.Y[train], folds.sample_weight[train]
    test = folds.X[~train]
    if np.all(X[0] == X):  # constant inputs: only the mean can be fitted
        means = nested_paths(np.empty((len(X), 0)), [Y for _ in targets], sample_weight, alpha, 0)
        return [FoldPath(models, train, np.empty((len(test), 0)), basis, Y) for models in means]
    fitted = clone(basis).fit(X, Y)  # parameters learned from targets are learned from those of the training set
    G = design_matrix(fitted, X)
    values = []
    for target in targets:
        if isinstance(target, str):
            target = Y if target == "data" else RidgeTarget.fit(G, Y, sample_weight).signal
        values.append(target)
    learned = fitted.with_fitted_params()
    return [
        FoldPath(models, train, fitted.take(models.terms).evaluate(test), learned, value, G.shape[1])
        for models, value in zip(nested_paths(G, values, sample_weight, alpha, max_terms), values, strict=True)
    ]


def ensemble_paths(
    members: Sequence[tuple[list[CrossValidatedPath], int, float]], sample_weight: Floats, max_terms: int, alpha: float
) -> list[CrossValidatedPath]:
    """Cross-validate a stacked ensemble that a few of its terms reproduce, for each repeat of its members' paths.

    A member is given by its paths, the number of terms it has of these, and its weight.
    """
    repeats, sizes, weights = zip(*members, strict=True)

    def distil(fold: Sequence[FoldPath]) -> FoldPath:
        train = fold[0].train
        root = np.sqrt(sample_weight[train])[:, None]
        parts = list(zip(fold, sizes, strict=True))
        G = np.hstack([path.models.columns(k, root) for path, k in parts])
        test = np.hstack([path.columns[:, :k] for path, k in parts])
        signal = sum(w * path.models.fitted(k, root) for w, (path, k) in zip(weights, parts, strict=True))
        (models,) = nested_paths(G, [signal], sample_weight[train], alpha, max_terms)
        return FoldPath(models, train, test[:, models.terms])

    found = []
    for one in zip(*repeats, strict=True):
        folds = zip(*(member.paths for member in one), strict=True)
        found.append(CrossValidatedPath([distil(fold) for fold in folds], max_terms))
    return found


# -- trials ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trial:
    """A dictionary and a target, cross-validated at every size."""

    name: str  # of the dictionary; of an ensemble all that are not contained in another
    target: str  # "data", "ridge" or "pooled"
    repeats: list[CrossValidatedPath]  # one for each repeat of cross-validation
    Y: Floats  # (n, q)
    sample_weight: Floats  # (n,)
    members: tuple[Member, ...] = ()  # of an ensemble

    @cached_property
    def squares(self) -> Floats:
        """Squared error of every sample at every size, (k + 1, n), as a share of the variance, averaged."""
        share = self.sample_weight / self.sample_weight.sum()
        variance = np.maximum(share @ (self.Y - share @ self.Y) ** 2, np.finfo(np.float64).tiny)
        errors = [np.mean((self.Y - one.predictions(self.Y)) ** 2 / variance, axis=2) for one in self.repeats]
        return np.mean(errors, axis=0)

    @cached_property
    def errors(self) -> Floats:
        """Mean squared error at every size, (k + 1,), as a share of the variance."""
        return self.squares @ (self.sample_weight / self.sample_weight.sum())

    @cached_property
    def error_rates(self) -> Floats:
        """Share of misclassified samples at every size, (k + 1,), for labels."""
        wrong = np.mean([misclassified(one.predictions(self.Y), self.Y) for one in self.repeats], axis=0)
        return wrong @ (self.sample_weight / self.sample_weight.sum())

    def compared_with(self, squares: Floats) -> tuple[Floats, Floats]:
        """Return the excess error of every size over a model with these squared errors, and its standard error."""
        n = float(self.sample_weight.sum())
        return excess(self.squares, squares, self.sample_weight / n, n)

    @property
    def title(self) -> str:
        """Its key in `trials_`."""
        return self.name if self.target == "data" else f"{self.name}, {self.target}"

    @property
    def dictionaries(self) -> list[str]:
        """Names of the dictionaries that its terms are from."""
        return list(dict.fromkeys(member.name for member in self.members if member.size)) or [self.name]


def stack(trials: list[Trial], max_terms: int, settings: RecipeSettings) -> list[Trial]:
    """Cross-validate the stacked ensemble of trials, each at its best size; return nothing if it gains too little."""
    if not trials:
        return []
    Y, sample_weight, residuals = trials[0].Y, trials[0].sample_weight, []
    sizes = [int(trial.errors.round(ERROR_DIGITS).argmin()) for trial in trials]
    for trial, k in zip(trials, sizes, strict=True):
        out_of_fold = [(Y - one.predictions(Y)[k]) * np.sqrt(sample_weight)[:, None] for one in trial.repeats]
        residuals.append(np.ravel(out_of_fold))
    weights = stacking_weights(np.column_stack(residuals), settings.min_member_weight)
    chosen = [(trial, k, float(w)) for trial, k, w in zip(trials, sizes, weights, strict=True) if w > 0]
    max_terms = min(max_terms, sum(k for _, k, _ in chosen))
    if len(chosen) < 2 or not max_terms:
        return []
    paths = ensemble_paths([(trial.repeats, k, w) for trial, k, w in chosen], sample_weight, max_terms, settings.alpha)
    members = tuple(Member(trial.name, trial.target if k else "data", k, w) for trial, k, w in chosen)
    names = list(dict.fromkeys(member.name for member in members if member.size))
    name = " and ".join(one for one in names if not set(DICTIONARIES[one].contained_in) & set(names))
    ensemble = Trial(name, "pooled", paths, Y, sample_weight, members)
    least = min(float(trial.errors.min()) for trial in trials)
    return [ensemble] if ensemble.errors.min() <= (1 - settings.min_gain) * least else []


# -- the search --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """Cross-validation of dictionaries and targets, with paths that grow while more terms improve the best model."""

    bases: dict[str, Basis]  # not fitted
    folds: list[Folds]  # one for each repeat
    settings: RecipeSettings
    max_terms: int  # maximum length of the paths
    after_step: Callable[[], object]  # called after each cross-validation
    report: Callable[[str], object] | None  # called with a line for each trial

    @cached_property
    def n_threads(self) -> int:
        """Number of folds fitted in parallel; products of inputs are stored where ridge regression may need them."""
        n, d = self.folds[0].X.shape
        stored = n <= self.settings.ridge_rows
        p = max(DICTIONARIES[name].max_candidates(basis, d, stored) for name, basis in self.bases.items())
        return n_parallel_folds(n, p, self.settings)

    def try_dictionaries(
        self, names: list[str], targets: list[str], max_terms: int, folds: list[Folds]
    ) -> Iterator[list[Trial]]:
        """Cross-validate dictionaries at every size; yield the trials of each, one per target."""
        _, Y, sample_weight, _ = folds[0]
        tries = [(self.bases[name], one) for name in names for one in folds]
        found = cross_validate(tries, min(max_terms, self.max_terms), targets, self.settings.alpha, self.n_threads)
        for name in names:
            paths = zip(*islice(found, len(folds)), strict=True)
            self.after_step()
            yield [Trial(name, target, list(one), Y, sample_weight) for target, one in zip(targets, paths, strict=True)]

    def reported(self, trials: list[Trial]) -> list[Trial]:
        """Report the smallest error of each trial, and return the trials."""
        if self.report is not None:
            for trial in trials:
                k = int(trial.errors.argmin())
                error = f"cross-validated error {trial.errors[k]:.4g} of the variance with {k} terms"
                self.report(f"{trial.title}: {error}")
        return trials

    def repeat(self, trials: list[Trial]) -> list[Trial]:
        """Average trials over all repeats of cross-validation."""
        if len(self.folds) == 1:
            return trials
        averaged = []
        for name in dict.fromkeys(trial.name for trial in trials):
            before = [trial for trial in trials if trial.name == name]
            targets, length = [trial.target for trial in before], len(before[0].squares) - 1
            (others,) = self.try_dictionaries([name], targets, length, self.folds[1:])
            pairs = zip(before, others, strict=True)
            averaged += self.reported([replace(one, repeats=one.repeats + other.repeats) for one, other in pairs])
        return averaged

    def lengthen(self, trials: list[Trial], choose: Callable[[list[Trial]], tuple[Trial, int]]) -> list[Trial]:
        """Double the paths of the best dictionary until the chosen size is well below their length."""
        share, alpha = self.settings.growth_share, self.settings.alpha
        while True:
            best, size = choose(trials)
            length = len(best.squares) - 1
            if size < share * length or length >= self.max_terms:
                return trials
            max_terms, kept, longer = min(2 * length, self.max_terms), [], []
            for trial in trials:
                improving = trial.errors.argmin() >= share * (len(trial.squares) - 1)
                if trial is not best and not (trial.name == best.name and improving):
                    kept.append(trial)
                    continue
                pairs = zip(trial.repeats, self.folds, strict=True)
                repeats = [extend(one, folds, max_terms, alpha, self.n_threads) for one, folds in pairs]
                longer.append(replace(trial, repeats=repeats))
                self.after_step()
            trials = kept + self.reported(longer)
