"""Cross-validation of dictionaries and targets: whatever is learned from targets is learned anew in every fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, cpu_count, delayed
from numpy.typing import NDArray
from scipy.stats import entropy
from sklearn.base import clone

from termwise._arrays import comparable
from termwise._memory import budget
from termwise._numerics import ERROR_DIGITS
from termwise.basis import Basis, LevelMeans, UnionBasis
from termwise.basis.base import design_matrix
from termwise.linalg.calibration import calibrate, calibrated_losses
from termwise.linalg.criteria import excess
from termwise.linalg.losses import Loss
from termwise.recipe.dictionaries import DICTIONARIES, Samples
from termwise.recipe.folds import Folds
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.targets import REFERENCES, Member, Reference, RidgeTarget, stacking_weights
from termwise.selection.glm import GlmModels, glm_path
from termwise.selection.nested import NestedModels, nested_paths

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# -- paths without a fold ----------------------------------------------------------------------------------------------


def n_parallel_folds(n: int, p: int, settings: RecipeSettings) -> int:
    """Return how many folds with n samples and p candidates to fit in parallel threads, as memory permits.

    With few samples the time is spent in Python, which threads cannot share.
    """
    if n <= settings.parallel_rows:
        return 1
    return int(np.clip(budget() // (settings.ridge_copies * 8 * n * p), 1, cpu_count()))


Target = str | Floats | Reference  # "data", "ridge", or what was computed before


@dataclass(frozen=True)
class FoldPath:
    """Models of every size, trained without one fold."""

    models: Any  # NestedModels, or GlmModels of a loss
    train: Mask  # (n,), the training samples
    columns: Floats  # (m, k), the terms on the samples of the fold
    terms: Basis | None  # the terms, fitted; None if all inputs are constant in the fold
    basis: Basis | None = None  # not fitted, but with all parameters learned from the targets; None: an ensemble
    target: Target | None = None  # what the terms were selected for: "data" with a loss, (n_train, q), or another model
    n_candidates: int = 0
    longer: NestedModels | None = None  # the models to continue from, which may have more rows


@dataclass(frozen=True)
class CrossValidatedPath:
    """One path for every fold; predictions are computed on demand, since many classes would fill the memory."""

    paths: list[FoldPath]
    max_terms: int

    def predictions(self, Y: Floats) -> Floats:
        """Return out-of-fold predictions with the first 0 to k terms, (k + 1, n, q).

        A path that has ended repeats its last prediction.
        """
        found = np.empty((self.max_terms + 1, *Y.shape))
        for path in self.paths:
            along = path.models.along(path.columns)[: self.max_terms + 1]
            found[: len(along), ~path.train], found[len(along) :, ~path.train] = along, along[-1]
        return found


class Fitting(NamedTuple):
    """How the models of a path are fitted."""

    alpha: float  # penalty of least squares
    loss: Loss | None = None  # of models for the data themselves; None: the squared error
    loss_alpha: float = 1.0  # penalty of that loss
    hierarchy: bool = False  # whether products require terms of each of their inputs


def cross_validate(
    tries: Sequence[tuple[Basis, Folds, Sequence[Sequence[Target]]]],
    max_terms: int,
    fitting: Fitting,
    n_threads: int = 1,
) -> Iterator[list[CrossValidatedPath]]:
    """Yield for each dictionary and its folds, with the targets in each fold, one cross-validated path per target."""
    jobs = [
        (basis, folds, folds.fold != k, max_terms, of_fold, fitting)
        for basis, folds, targets in tries
        for k, of_fold in zip(np.unique(folds.fold), targets, strict=True)
    ]
    found = Parallel(n_threads, require="sharedmem", return_as="generator")(delayed(fit_fold)(*job) for job in jobs)
    for _, folds, _ in tries:
        paths = islice(found, len(np.unique(folds.fold)))
        yield [CrossValidatedPath(list(one), max_terms) for one in zip(*paths, strict=True)]


def extend(
    before: CrossValidatedPath, folds: Folds, max_terms: int, fitting: Fitting, n_threads: int = 1
) -> CrossValidatedPath:
    """Continue paths to more terms, of the candidates and for the target values that were learned before."""
    found = Parallel(n_threads, require="sharedmem")(
        delayed(fit_fold)(path.basis, folds, path.train, max_terms, [path.target], fitting, path.longer)
        for path in before.paths
    )
    return CrossValidatedPath([path for (path,) in found], max_terms)


def fit_fold(
    basis: Basis,
    folds: Folds,
    train: Mask,
    max_terms: int,
    targets: Sequence[Target],
    fitting: Fitting,
    before: NestedModels | None = None,
) -> list[FoldPath]:
    """Select terms on the training samples for each target; models `before`, of one target, are continued."""
    alpha, loss = fitting.alpha, fitting.loss
    X, Y, sample_weight = folds.X[train], folds.Y[train], folds.sample_weight[train]
    test = folds.X[~train]
    if np.all(comparable(X[0]) == comparable(X)):  # constant inputs: only the mean can be fitted
        none, columns, found = np.empty((len(X), 0)), np.empty((len(test), 0)), []
        (mean,) = nested_paths(none, [Y], sample_weight, alpha, 0)
        for target in targets:
            if isinstance(target, str) and target == "data" and loss is not None:
                null = glm_path(none, Y, sample_weight, loss, fitting.loss_alpha, 0)
                found.append(FoldPath(null, train, columns, None, basis, target))
            else:
                found.append(FoldPath(mean, train, columns, None, basis, Y))
        return found
    training = TrainingDesign.fit(basis, X, Y)  # what is learned from targets is learned from the training set
    fitted, G = training.basis, training.G
    if fitted.allows_missing:  # rare missing values may all be in one fold
        fitted.expect_missing(np.isnan(folds.X).any(axis=0))
    learned, found = fitted.with_fitted_params(), []
    constraints = constraints_of(fitted, fitting.hierarchy)
    for target in targets:
        longer: NestedModels | None = None
        models: NestedModels | GlmModels
        if isinstance(target, str) and target == "data" and loss is not None:
            models = glm_path(G, Y, sample_weight, loss, fitting.loss_alpha, max_terms, **constraints)
        else:
            if isinstance(target, str):
                target = Y if target == "data" else training.ridge(Y, sample_weight).signal
            if isinstance(target, Reference):
                longer = target.models(fitted, X, sample_weight, alpha, max_terms, before, constraints)
            else:
                (longer,) = nested_paths(G, [target], sample_weight, alpha, max_terms, before, **constraints)
            models = longer.first_rows(len(X))
        terms = fitted.take(models.terms)
        found.append(FoldPath(models, train, terms.evaluate(test), terms, learned, target, G.shape[1], longer))
    return found


class TrainingDesign(NamedTuple):
    """A basis, fitted, and its design matrix at the training samples, cross-fitted if it contains targets."""

    basis: Any
    G: Any
    functions: Any  # the basis of functions of `table`, which is the basis itself unless it replaces inputs
    table: NDArray

    @classmethod
    def fit(cls, basis: Basis, X: NDArray, Y: Floats) -> Self:
        """Fit a basis to training samples."""
        fitted: Any = clone(basis)
        if isinstance(fitted, LevelMeans):
            table = fitted.fit_table(X, Y)
            return cls(fitted, design_matrix(fitted.basis_, table), fitted.basis_, table)
        fitted.fit(X, Y)
        return cls(fitted, design_matrix(fitted, X), fitted, X)

    def ridge(self, Y: Floats, sample_weight: Floats) -> RidgeTarget:
        """Fit ridge regression to all candidates."""
        return RidgeTarget.of_basis(self.functions, self.table, self.G, Y, sample_weight)


def readable_size(inputs: Sequence[tuple[int, ...]], max_effects: int) -> int:
    """Return how many of the first terms, with these inputs, have at most so many effects: distinct sets of inputs."""
    counts = [len(set(inputs[:k])) for k in range(len(inputs) + 1)]
    return int(np.searchsorted(counts, max_effects, side="right")) - 1


def constraints_of(basis: Basis, hierarchy: bool) -> dict[str, Any]:
    """Return the arguments of `nested_paths` that constrain the terms of a fitted basis."""
    found: dict[str, Any] = {}
    signs = getattr(basis, "weight_signs_", None)
    if signs is not None and np.any(signs):
        found["signs"] = signs
    if hierarchy:
        found["inputs"] = basis.inputs_of(np.arange(basis.n_functions))
    return found


def ensemble_paths(
    members: Sequence[tuple[list[CrossValidatedPath], int]], weights: Floats, sample_weight: Floats, alpha: float
) -> list[CrossValidatedPath]:
    """Cross-validate a stacked ensemble that a few of its terms reproduce, for each repeat of its members' paths.

    Parameters
    ----------
    members : for each member its paths, one per repeat, and the number of terms it has of these.
    weights : (repeats, folds, members), fitted without the samples of the fold.
    sample_weight : (n,) weights.
    alpha : penalty of the selection.
    """
    repeats, sizes = zip(*members, strict=True)
    max_terms = sum(sizes)

    def distil(fold: Sequence[FoldPath], fold_weights: Floats) -> FoldPath:
        train = fold[0].train
        root = np.sqrt(sample_weight[train])[:, None]
        parts = list(zip(fold, sizes, strict=True))
        G = np.hstack([path.models.columns(k, root) for path, k in parts])
        test = np.hstack([path.columns[:, :k] for path, k in parts])
        signal = sum(w * path.models.fitted(k, root) for w, (path, k) in zip(fold_weights, parts, strict=True))
        (models,) = nested_paths(G, [signal], sample_weight[train], alpha, max_terms)
        bases = [path.terms.take(np.arange(min(k, len(path.models.terms)))) for path, k in parts if path.terms and k]
        terms = UnionBasis.of(bases).take(models.terms) if bases else None
        return FoldPath(models, train, test[:, models.terms], terms)

    found = []
    for one, repeat_weights in zip(zip(*repeats, strict=True), weights, strict=True):
        folds = zip(*(member.paths for member in one), strict=True)
        paths = [distil(fold, w) for fold, w in zip(folds, repeat_weights, strict=True)]
        found.append(CrossValidatedPath(paths, max_terms))
    return found


# -- trials ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trial:
    """A dictionary and a target, cross-validated at every size.

    The loss is the squared error as a share of the variance, or for labels the negative log-likelihood as a share of
    that of the class frequencies, after calibration.
    """

    name: str  # of the dictionary; of an ensemble all that are not contained in another
    target: str  # "data", "ridge", "boosting", "estimator" or "pooled"
    repeats: list[CrossValidatedPath]  # one for each repeat of cross-validation
    Y: Floats  # (n, q)
    sample_weight: Floats  # (n,)
    labels: bool = False
    members: tuple[Member, ...] = ()  # of an ensemble
    loss: Loss | None = None  # of the models; None: the squared error
    calibrations: dict[int, tuple[float, Floats]] = field(default_factory=dict, init=False)  # computed so far

    @cached_property
    def share(self) -> Floats:
        """Weights of the samples, adding up to one, (n,)."""
        return self.sample_weight / self.sample_weight.sum()

    @cached_property
    def null_loss(self) -> float:
        """Loss of the mean or of the class frequencies: the unit of the losses; the variance is one per output."""
        if not self.labels and self.loss is not None:
            null = self.loss.null_eta(self.Y, self.sample_weight, np.zeros((len(self.Y), 1)))
            return float(self.share @ self.loss.error(self.Y, np.zeros_like(self.Y) + null)) or 1.0
        if not self.labels:
            return 1.0
        frequencies = self.share @ (self.Y > 0)
        frequencies = np.append(frequencies, 1 - frequencies) if self.Y.shape[1] == 1 else frequencies
        return float(entropy(frequencies)) or 1.0  # all samples of positive weight may be of one class

    @cached_property
    def losses(self) -> Floats:
        """Loss of every sample at every size, (k + 1, n), averaged over the repeats."""
        return np.mean([self.loss_table(one) for one in self.repeats], axis=0)

    def loss_table(self, path: CrossValidatedPath) -> Floats:
        """Loss of every sample at every size in one repeat, (k + 1, n)."""
        return self.loss_of(path.predictions(self.Y))

    def loss_of(self, predictions: Floats) -> Floats:
        """Loss of every sample for each of some predictions, (k, n, q)."""
        Y, share = self.Y, self.share
        if not self.labels and self.loss is not None:
            return np.stack([self.loss.error(Y, eta) for eta in predictions]) / self.null_loss
        if not self.labels:
            variance = np.maximum(share @ (Y - share @ Y) ** 2, np.finfo(np.float64).tiny)
            return np.mean((Y - predictions) ** 2 / variance, axis=2)
        return calibrated_losses(predictions, Y, self.sample_weight) / self.null_loss

    @cached_property
    def errors(self) -> Floats:
        """Mean loss at every size, (k + 1,)."""
        return self.losses @ self.share

    def scores(self, k: int) -> list[Floats]:
        """Out-of-fold predictions with k terms, (n, q), in each repeat."""
        return [one.predictions(self.Y)[k] for one in self.repeats]

    def calibration(self, max_terms: int) -> list[tuple[float, Floats]]:
        """Slope and shift of the probabilities at every size."""
        return [self.calibration_at(k) for k in range(min(max_terms, len(self.losses) - 1) + 1)]

    def calibration_at(self, k: int) -> tuple[float, Floats]:
        """Slope and shift of the probabilities with k terms, from the out-of-fold scores of all repeats."""
        if k not in self.calibrations:
            Y, weight = np.tile(self.Y, (len(self.repeats), 1)), np.tile(self.sample_weight, len(self.repeats))
            squeeze = (slice(None), 0) if Y.shape[1] == 1 else slice(None)
            self.calibrations[k] = calibrate(np.concatenate(self.scores(k))[squeeze], Y[squeeze], weight)
        return self.calibrations[k]

    @cached_property
    def inputs(self) -> list[list[tuple[int, ...]]]:
        """The inputs of every term, in order, in each fold of the first cross-validation."""
        bases = [path.terms for path in self.repeats[0].paths]
        return [[] if one is None else one.inputs_of(np.arange(one.n_functions)) for one in bases]

    def readable_size(self, max_effects: int) -> int:
        """Largest number of terms with at most so many effects, the median over the folds."""
        return int(np.median([readable_size(terms, max_effects) for terms in self.inputs]))

    def compared_with(self, losses: Floats) -> tuple[Floats, Floats]:
        """Return the excess loss of every size over a model with these losses, and its standard error."""
        return excess(self.losses, losses, self.share, float(self.sample_weight.sum()))

    @property
    def title(self) -> str:
        """Its key in `trials_`."""
        return self.name if self.target == "data" else f"{self.name}, {self.target}"

    @property
    def dictionaries(self) -> list[str]:
        """Names of the dictionaries that its terms are from."""
        return list(dict.fromkeys(member.name for member in self.members if member.size)) or [self.name]


def stack(trials: list[Trial], max_terms: int, settings: RecipeSettings) -> list[Trial]:
    """Cross-validate the stacked ensemble of trials, each at its best size; return nothing if it gains too little.

    The weights of a fold are fitted to the out-of-fold residuals of the other folds' samples.
    """
    trials = [trial for trial in trials if trial.loss is None]  # others are on another scale
    if not trials:
        return []
    Y, sample_weight, labels = trials[0].Y, trials[0].sample_weight, trials[0].labels
    sizes = [int(trial.errors.round(ERROR_DIGITS).argmin()) for trial in trials]
    root = np.sqrt(sample_weight)[:, None]
    residuals = np.stack(  # (repeats, n, q, trials)
        [[(Y - one.predictions(Y)[k]) * root for one in t.repeats] for t, k in zip(trials, sizes, strict=True)], axis=-1
    )
    weights = stacking_weights(residuals.reshape(-1, len(trials)), settings.min_member_weight)
    chosen = [(trial, k, float(w)) for trial, k, w in zip(trials, sizes, weights, strict=True) if w > 0]
    if len(chosen) < 2 or not sum(k for _, k, _ in chosen):
        return []
    residuals, trains = residuals[..., weights > 0], [[p.train for p in one.paths] for one in trials[0].repeats]
    fold_weights = [  # a sample has residuals in all repeats: its fold leaves all of them out
        [stacking_weights(residuals[:, train].reshape(-1, len(chosen)), 0.0) for train in folds] for folds in trains
    ]
    parts = [(trial.repeats, k) for trial, k, _ in chosen]
    paths = ensemble_paths(parts, np.array(fold_weights), sample_weight, settings.alpha)
    members = tuple(Member(trial.name, trial.target if k else "data", k, w) for trial, k, w in chosen)
    names = list(dict.fromkeys(member.name for member in members if member.size))
    name = " and ".join(one for one in names if not set(DICTIONARIES[one].contained_in) & set(names))
    paths = [replace(one, max_terms=min(max_terms, one.max_terms)) for one in paths]
    ensemble = Trial(name, "pooled", paths, Y, sample_weight, labels, members)
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
    labels: bool
    fitting: Fitting
    groups: NDArray[np.intp] | None = None  # (d,), the column of the table that each input comes from
    reference: Any = None  # another model, not fitted
    fitted_references: dict[int, list[Reference]] = field(default_factory=dict)  # by the identity of the folds

    def references(self, folds: Folds) -> list[Reference]:
        """Return the predictions of the other model, trained without each fold in turn."""
        if id(folds) not in self.fitted_references:
            X, Y, weight, fold = folds
            groups = np.arange(X.shape[1]) if self.groups is None else self.groups
            self.fitted_references[id(folds)] = Parallel(self.n_threads, require="sharedmem")(
                delayed(Reference.fit)(
                    self.reference,
                    Samples(X[train], Y[train], weight[train]),
                    groups,
                    self.labels,
                    self.settings,
                    X[~train],
                )
                for train in (fold != k for k in np.unique(fold))
            )
        return self.fitted_references[id(folds)]

    def favours_boosting(self, trials: Sequence[Trial]) -> bool:
        """Whether the other model is about as accurate as the best of trials: then there may be kinks or thresholds."""
        if self.reference is None:
            return False
        folds = self.folds[0]
        predictions = np.empty_like(folds.Y)
        for k, reference in zip(np.unique(folds.fold), self.references(folds), strict=True):
            predictions[folds.fold == k] = reference.held_out
        trial = trials[0]
        if trial.loss is not None and trial.loss.link == "log" and not self.labels:
            predictions = np.log(np.maximum(predictions, np.finfo(np.float64).tiny))
        error = float((trial.loss_of(predictions[None]) @ trial.share)[0])
        return error <= self.settings.rough_error * min(float(one.errors.min()) for one in trials)

    def targets_of(self, name: str, targets: Sequence[str]) -> list[str]:
        """Return the targets that are tried with a dictionary; another model with some of many only, to save time."""
        reproduces = DICTIONARIES[name].reproduces or len(self.bases) == 1
        return [target for target in targets if target not in REFERENCES or reproduces]

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
        tries = []
        for name in names:
            for one in folds:
                rows: list[list[Target]] = [[] for _ in np.unique(one.fold)]
                for target in self.targets_of(name, targets):
                    values: Sequence[Target] = self.references(one) if target in REFERENCES else [target] * len(rows)
                    for row, value in zip(rows, values, strict=True):
                        row.append(value)
                tries.append((self.bases[name], one, rows))
        found = cross_validate(tries, min(max_terms, self.max_terms), self.fitting, self.n_threads)
        for name in names:
            paths = zip(*islice(found, len(folds)), strict=True)
            self.after_step()
            pairs = zip(self.targets_of(name, targets), paths, strict=True)
            loss = self.fitting.loss
            yield [
                Trial(name, target, list(one), Y, sample_weight, self.labels, loss=loss if target == "data" else None)
                for target, one in pairs
            ]

    def reported(self, trials: list[Trial]) -> list[Trial]:
        """Report the smallest error of each trial, and return the trials."""
        if self.report is not None:
            for trial in trials:
                k = int(trial.errors.argmin())
                unit = "negative log-likelihood" if self.labels else "variance"
                error = f"cross-validated error {trial.errors[k]:.4g} of the {unit} with {k} terms"
                self.report(f"{trial.title}: {error}")
        return trials

    def repeat(self, trials: list[Trial], folds: list[Folds]) -> list[Trial]:
        """Average trials with more repeats of cross-validation, on these folds."""
        if not folds:
            return trials
        averaged = []
        for name in dict.fromkeys(trial.name for trial in trials):
            before = [trial for trial in trials if trial.name == name]
            targets, lengths = [trial.target for trial in before], [len(trial.losses) - 1 for trial in before]
            (others,) = self.try_dictionaries([name], targets, max(lengths), folds)
            for trial, other, length in zip(before, others, lengths, strict=True):
                more = [replace(path, max_terms=length) for path in other.repeats]
                averaged.append(replace(trial, repeats=trial.repeats + more))
        return self.reported(averaged)

    def lengthen(self, trials: list[Trial], choose: Callable[[list[Trial]], tuple[int, int]]) -> list[Trial]:
        """Double paths until the chosen size is well below their length.

        Those of other dictionaries grow with the best one if their errors are close, for ensembles.
        """
        share = self.settings.growth_share
        while True:
            place, size = choose(trials)
            best = trials[place]
            length = len(best.losses) - 1
            if size < share * length or length >= self.max_terms:
                return trials
            max_terms, kept, longer = min(2 * length, self.max_terms), [], []
            for trial in trials:
                improving = trial.errors.argmin() >= share * (len(trial.losses) - 1)
                close = trial.errors.min() <= self.settings.close_error * best.errors.min()
                if trial is not best and not (improving and (close or trial.name == best.name)):
                    kept.append(trial)
                    continue
                pairs = zip(trial.repeats, self.folds, strict=True)
                repeats = [extend(one, folds, max_terms, self.fitting, self.n_threads) for one, folds in pairs]
                longer.append(replace(trial, repeats=repeats))
                self.after_step()
            trials = kept + self.reported(longer)
