"""The choice of dictionary, target and size by cross-validation, and the candidates of the chosen model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from termwise._arrays import as_columns, different_rows, evenly, rows_of
from termwise._checks import check_choice, check_number
from termwise._numerics import ERROR_DIGITS, EXACT_FIT_ERROR
from termwise.basis import Basis, TableEncoder, UnionBasis
from termwise.basis.base import design_matrix, restrict
from termwise.basis.encoder import is_frame
from termwise.execution import select_terms
from termwise.linalg.criteria import excess, misclassified
from termwise.linalg.least_squares import Rows
from termwise.recipe.cross_validation import (
    CrossValidatedPath,
    Folds,
    assign_folds,
    cross_validate,
    ensemble_paths,
    extend,
    merge_duplicates,
    n_parallel_folds,
)
from termwise.recipe.dictionaries import DICTIONARIES, Samples, build_dictionaries, distinct_candidates
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.targets import EnsembleTarget, FirstStage, Member, RidgeTarget, stacking_weights
from termwise.selection.engine import Settings

Floats = NDArray[np.float64]


class RecipeOptions(NamedTuple):
    """The parameters of the estimators that the choice depends on."""

    size: str | int = "small"
    dictionary: str = "auto"
    target: str = "auto"
    max_terms: int = 150
    random_state: int | np.random.RandomState | None = 0
    labels: bool = False  # whether the targets are classes coded -1 and +1

    def check(self) -> None:
        """Raise on the first invalid parameter."""
        check_number("max_terms", self.max_terms, low=1, integer=True, remedy="150 is plenty for a small model")
        if isinstance(self.size, str):
            check_choice("size", self.size, ["small", "accurate"], remedy="or give the number of terms")
        else:
            remedy = "'small', 'accurate', or a number up to max_terms"
            check_number("size", self.size, low=1, below=self.max_terms + 1, integer=True, remedy=remedy)
        check_choice("dictionary", self.dictionary, ["auto", *DICTIONARIES], remedy="'auto' tries them all")
        check_choice("target", self.target, ["auto", "data", "ridge", "pooled"], remedy="'auto' tries them all")


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


def only_drawable(trials: list[Trial]) -> list[Trial]:
    """Return the trials whose terms are all functions of one or two inputs."""
    undrawable = {name for name, dictionary in DICTIONARIES.items() if not dictionary.drawable}
    return [trial for trial in trials if undrawable.isdisjoint(trial.dictionaries)]


def most_accurate(trials: list[Trial]) -> tuple[Trial, int]:
    """Return the trial with the smallest error, the first one of equals, and its number of terms."""
    curves = [trial.errors.round(ERROR_DIGITS) for trial in trials]  # rounding must not break ties
    best = int(np.argmin([curve.min() for curve in curves]))
    return trials[best], int(curves[best].argmin())


def eliminate(trials: list[Trial], max_se: float) -> list[Trial]:
    """Return the trials that are, at their best size, at most so many standard errors worse than the best one."""
    best = min(trials, key=lambda trial: float(trial.errors.min()))
    least = best.squares[int(best.errors.argmin())]
    kept = []
    for trial in trials:
        k = int(trial.errors.argmin())
        more, error = trial.compared_with(least)
        if more[k] <= max_se * error[k] + EXACT_FIT_ERROR:
            kept.append(trial)
    return kept


def choose_size(trials: list[Trial], size: str | int, settings: RecipeSettings) -> tuple[Trial, int]:
    """Return the best trial and its number of terms.

    "accurate" is the model with the smallest error. "small" is the model with the fewest terms whose error is within
    `small_se` standard errors of that minimum and loses at most the share `small_loss` of the explained variance, or
    one with `small_extra_terms` more if its error is smaller; drawable models are preferred unless the best model is
    better by more than `drawable_se` standard errors. With a number the error at that size decides.
    """
    if not isinstance(size, str):
        at_size = [trial.errors.round(ERROR_DIGITS)[min(size, len(trial.errors) - 1)] for trial in trials]
        return trials[int(np.argmin(at_size))], size
    best, k = most_accurate(trials)
    if size == "accurate":
        return best, k
    if drawable := only_drawable(trials):
        other, other_k = most_accurate(drawable)
        more, error = other.compared_with(best.squares[k])
        if more[other_k] <= settings.drawable_se * error[other_k] + EXACT_FIT_ERROR:
            trials, best, k = drawable, other, other_k
    curves, errors = [trial.errors.round(ERROR_DIGITS) for trial in trials], best.errors.round(ERROR_DIGITS)
    standard_error = best.compared_with(np.zeros_like(best.sample_weight))[1][k]
    tolerance = min(settings.small_se * standard_error, settings.small_loss * (errors[0] - errors[k]))
    limit = errors[k] + tolerance + 10.0**-ERROR_DIGITS
    fewest = min(int(np.flatnonzero(curve <= limit)[0]) for curve in curves if curve.min() <= limit)
    sizes = [fewest, fewest + settings.small_extra_terms] if fewest else [0]
    models = [(float(curve[k]), k, i) for i, curve in enumerate(curves) for k in sizes if k < len(curve)]
    _, k, i = min(models)
    return trials[i], k


def choose_size_for_labels(trials: list[Trial], size: str, settings: RecipeSettings) -> tuple[Trial, int]:
    """Return the best trial and its number of terms by the misclassification rate.

    The rate is discrete, and by chance small for some of many models: only models whose squared error is within
    `label_error_se` standard errors of the smallest are considered. "accurate" has the smallest rate of these, "small"
    the fewest terms of those within `label_rate_se` standard errors of that rate.
    """
    best, least = most_accurate(trials)
    models: list[tuple[float, int, Trial]] = []
    for trial in trials:
        more, error = trial.compared_with(best.squares[least])
        rates = trial.error_rates.round(ERROR_DIGITS)
        sizes = np.flatnonzero(more <= settings.label_error_se * error + 10.0**-ERROR_DIGITS)
        models += [(float(rates[k]), int(k), trial) for k in sizes]
    lowest = min(rate for rate, _, _ in models)
    n = float(best.sample_weight.sum())
    tolerance = 0.0 if size == "accurate" else settings.label_rate_se * np.sqrt(lowest * (1 - lowest) / n)
    _, k, trial = min((m for m in models if m[0] <= lowest + tolerance), key=lambda m: (m[1], m[0]))
    return trial, k


def choose_trial(trials: list[Trial], options: RecipeOptions, settings: RecipeSettings) -> tuple[Trial, int]:
    """Return the best trial for the task and the size asked for, and its number of terms."""
    if not options.labels or not isinstance(options.size, str):
        return choose_size(trials, options.size, settings)
    if options.size == "small":  # a single model is smaller than an ensemble of many
        trials = [trial for trial in trials if not trial.members] or trials
    return choose_size_for_labels(trials, options.size, settings)


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
    options: RecipeOptions
    settings: RecipeSettings
    max_terms: int  # maximum length of the paths
    after_step: Callable[[], object]  # called after each cross-validation
    report: Callable[[str], object] | None  # called with a line for each trial

    def n_threads(self, names: list[str], stored: bool) -> int:
        """Return how many folds to fit in parallel."""
        n, d = self.folds[0].X.shape
        p = max(DICTIONARIES[name].max_candidates(self.bases[name], d, stored) for name in names)
        return n_parallel_folds(n, p, self.settings)

    def try_dictionaries(
        self, names: list[str], targets: list[str], max_terms: int, folds: list[Folds]
    ) -> Iterator[list[Trial]]:
        """Cross-validate dictionaries at every size; yield the trials of each, one per target."""
        _, Y, sample_weight, _ = folds[0]
        tries = [(self.bases[name], one) for name in names for one in folds]
        n_threads = self.n_threads(names, stored="ridge" in targets)
        found = cross_validate(tries, min(max_terms, self.max_terms), targets, self.settings.alpha, n_threads)
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

    def lengthen(self, trials: list[Trial]) -> list[Trial]:
        """Double the paths of the best dictionary until the chosen size is well below their length."""
        share, options, alpha = self.settings.growth_share, self.options, self.settings.alpha
        if options.size == "small" and not options.labels:
            options = options._replace(size="accurate")
        while True:
            best, size = choose_trial(trials, options, self.settings)
            length = len(best.squares) - 1
            if size < share * length or length >= self.max_terms:
                return trials
            max_terms, n_threads = min(2 * length, self.max_terms), self.n_threads([best.name], stored=False)
            kept, longer = [], []
            for trial in trials:
                improving = trial.errors.argmin() >= share * (len(trial.squares) - 1)
                if trial is not best and not (trial.name == best.name and improving):
                    kept.append(trial)
                    continue
                pairs = zip(trial.repeats, self.folds, strict=True)
                repeats = [extend(one, folds, max_terms, alpha, n_threads) for one, folds in pairs]
                longer.append(replace(trial, repeats=repeats))
                self.after_step()
            trials = kept + self.reported(longer)


@dataclass(frozen=True)
class RecipeChoice:
    """What cross-validation has chosen."""

    dictionary: str
    target: str  # "data", "ridge" or "pooled"
    members: tuple[Member, ...]  # of the stacked ensemble; empty for other targets
    n_terms: int
    trials: dict[str, Floats]  # cross-validated error at every size, by the title of the trial
    bases: dict[str, Basis]  # of the chosen dictionaries, not fitted
    n_candidates: int  # distinct candidates of all dictionaries tried, in the largest training set

    def path_settings(self, settings: RecipeSettings) -> Settings:
        """Return the settings of the final path, which continues beyond the chosen size."""
        rule = "loo" if self.target == "data" else "cost"
        return Settings(rule, settings.alpha, max_terms=max(1, self.n_terms + settings.extra_terms))


def choose_model(
    table: Floats,
    Y: Floats,
    sample_weight: Floats,
    options: RecipeOptions,
    settings: RecipeSettings,
    after_step: Callable[[], object],
    report: Callable[[str], object] | None = None,
) -> RecipeChoice:
    """Choose a dictionary, a target and a size by cross-validation.

    Parameters
    ----------
    table, Y, sample_weight : (n, d), (n, q), (n,) samples of positive weight.
    options : parameters of the estimator.
    settings : constants of the recipe.
    after_step : called after each cross-validation.
    report : called with a line for each trial.
    """
    n, tries_ensembles = max(len(table), sample_weight.sum()), options.target in ("auto", "pooled")
    targets = [options.target] if not tries_ensembles else ["ridge"] if options.labels else ["data", "ridge"]
    targets = targets if n <= settings.ridge_rows else ["data"]
    X, Y, sample_weight = merge_duplicates(table, Y, sample_weight)
    growth = max(1.0, len(X) / settings.max_centers) ** settings.center_growth
    n_centers = int(min(len(X), settings.max_centers) * growth)
    rows = evenly(len(X), settings.choice_rows)
    X, Y, sample_weight = X[rows], Y[rows], sample_weight[rows]
    # leave-one-out of one repeat would leave the others in: duplicates have weight one where the width is chosen
    bases = build_dictionaries(Samples(X, Y, np.minimum(1, sample_weight), n_centers), options.dictionary, settings)
    rng = check_random_state(options.random_state)
    n_repeats = int(np.clip(settings.repeat_rows // len(X), 1, settings.n_repeats))
    folds = [assign_folds(X, Y, sample_weight, settings, rng) for _ in range(n_repeats)]
    max_terms = max(1, min(options.max_terms, int(folds[0].sample_weight.sum()) // settings.rows_per_term))
    search = Search(bases, folds, options, settings, max_terms, after_step, report)
    length = int(np.clip(len(X) // settings.rows_per_first_term, settings.min_first_terms, settings.first_terms))
    with threadpool_limits(1):  # one thread for each fold
        tried = search.try_dictionaries(list(bases), targets, length, folds[:1])
        first = [trial for trials in tried for trial in search.reported(trials)]
        trials = search.lengthen(search.repeat(eliminate(first, settings.elimination_se)))
        ensembles = stack(trials, max_terms, settings) if tries_ensembles and n <= settings.choice_rows else []
        if options.size == "small" and ensembles != only_drawable(ensembles):
            ensembles += stack(only_drawable(trials), max_terms, settings)
    search.reported(ensembles)
    final = ensembles if ensembles and options.target == "pooled" else trials + ensembles
    best, n_terms = choose_trial(final, options, settings)
    counts = {trial.name: max(path.n_candidates for path in trial.repeats[0].paths) for trial in first}
    n_candidates = distinct_candidates(counts, bases, X.shape[1])
    errors = {trial.title: trial.errors for trial in first + trials + ensembles}
    chosen = {name: bases[name] for name in best.dictionaries}
    return RecipeChoice(best.name, best.target, best.members, n_terms, errors, chosen, n_candidates)


# -- the chosen model --------------------------------------------------------------------------------------------------


def fit_candidates(
    choice: RecipeChoice, X: Any, y: NDArray, sample_weight: Floats, settings: RecipeSettings
) -> tuple[Any, Any, FirstStage | None]:
    """Return the fitted basis, its design matrix, and the first stage if the target is not the data.

    The design matrix has all rows of X, the first stage those of positive weight. With more than `path_rows` rows,
    a path on some of them decides which candidates are evaluated on all.
    """
    used = np.flatnonzero(sample_weight)
    every = len(used) == len(sample_weight)
    part, Y, sample_weight = X if every else rows_of(X, used), as_columns(y)[used], sample_weight[used]
    if choice.target == "pooled":
        basis, stage = fit_ensemble(choice, part, Y.astype(np.float64), sample_weight, settings.alpha)
        return basis, basis.transform(X), stage
    (basis,) = choice.bases.values()
    basis = Pipeline([("table", TableEncoder()), ("terms", basis)]) if is_frame(X) else basis
    if len(used) <= settings.path_rows:
        fitted = clone(basis).fit(part, y[used])
        G = design_matrix(fitted, X)
    else:
        some = evenly(len(used), settings.path_rows)
        rows = rows_of(part, some)
        fitted = clone(basis).fit(rows, y[used[some]])
        design = design_matrix(fitted, rows)
        path = select_terms(design, Y[some], sample_weight[some], choice.path_settings(settings), one_output=False)
        fitted = restrict(fitted, np.sort(path.terms))
        G = fitted.transform(X)
    if choice.target == "data":
        return fitted, G, None
    return fitted, G, RidgeTarget.fit(G if every else G[used], Y, sample_weight)


def fit_ensemble(
    choice: RecipeChoice, X: Any, Y: Floats, sample_weight: Floats, alpha: float
) -> tuple[Any, EnsembleTarget]:
    """Fit the members of the stacked ensemble; return a basis of their distinct terms, and the ensemble."""
    encoder = TableEncoder().fit(X)
    table = encoder.transform(X) if is_frame(X) else X
    fitted = {name: clone(basis).fit(table, Y) for name, basis in choice.bases.items()}
    candidates = {name: design_matrix(basis, table) for name, basis in fitted.items()}
    stage, terms = EnsembleTarget.fit(choice.members, candidates, Y, Rows(sample_weight, True), alpha)
    taken = [basis.take(terms[name]) for name, basis in fitted.items()]
    basis = taken[0] if len(taken) == 1 else UnionBasis.of(taken)
    basis = basis.take(different_rows(basis.transform(table).T))  # dictionaries have functions in common
    return Pipeline([("table", encoder), ("terms", basis)]) if is_frame(X) else basis, stage
