"""The choice of dictionary, target and size by cross-validation, and the candidates of the chosen model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from termwise.linalg.least_squares import WeightedRows
from termwise.recipe.cross_validation import Search, Trial, assign_folds, merge_duplicates, stack
from termwise.recipe.dictionaries import DICTIONARIES, Samples, build_dictionaries, distinct_candidates
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.targets import EnsembleTarget, FirstStage, Member, RidgeTarget
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


@dataclass(frozen=True)
class RecipeChoice:
    """What cross-validation has chosen."""

    title: str  # of the chosen one of the trials
    dictionary: str
    target: str  # "data", "ridge" or "pooled"
    members: tuple[Member, ...]  # of the stacked ensemble; empty for other targets
    n_terms: int
    trials: dict[str, Floats]  # cross-validated error at every size, by the title of the trial
    bases: dict[str, Basis]  # of the chosen dictionaries, not fitted
    n_candidates: int  # distinct candidates of all dictionaries tried, in the largest training set
    path_settings: Settings  # of the final path, which continues beyond the chosen size


def choose_model(
    samples: Samples,
    options: RecipeOptions,
    settings: RecipeSettings,
    after_step: Callable[[], object],
    report: Callable[[str], object] | None = None,
) -> RecipeChoice:
    """Choose a dictionary, a target and a size by cross-validation.

    Parameters
    ----------
    samples : those of positive weight.
    options : parameters of the estimator.
    settings : constants of the recipe.
    after_step : called after each cross-validation.
    report : called with a line for each trial.
    """
    n, tries_ensembles = max(len(samples.X), samples.sample_weight.sum()), options.target in ("auto", "pooled")
    targets = [options.target] if not tries_ensembles else ["ridge"] if options.labels else ["data", "ridge"]
    targets = targets if n <= settings.ridge_rows else ["data"]
    X, Y, sample_weight = merge_duplicates(samples)
    growth = max(1.0, len(X) / settings.max_centers) ** settings.center_growth
    n_centers = int(min(len(X), settings.max_centers) * growth)
    rows = evenly(len(X), settings.choice_rows)
    X, Y, sample_weight = X[rows], Y[rows], sample_weight[rows]
    # leave-one-out of one repeat would leave the others in: duplicates have weight one where the width is chosen
    bases = build_dictionaries(Samples(X, Y, np.minimum(1, sample_weight)), n_centers, options.dictionary, settings)
    rng = check_random_state(options.random_state)
    n_repeats = int(np.clip(settings.repeat_rows // len(X), 1, settings.n_repeats))
    folds = [assign_folds(Samples(X, Y, sample_weight), settings, rng) for _ in range(n_repeats)]
    max_terms = max(1, min(options.max_terms, int(folds[0].sample_weight.sum()) // settings.rows_per_term))
    search = Search(bases, folds, settings, max_terms, after_step, report)
    growing = options._replace(size="accurate") if options.size == "small" and not options.labels else options
    length = int(np.clip(len(X) // settings.rows_per_first_term, settings.min_first_terms, settings.first_terms))
    with threadpool_limits(1):  # one thread for each fold
        tried = search.try_dictionaries(list(bases), targets, length, folds[:1])
        first = [trial for trials in tried for trial in search.reported(trials)]
        trials = search.repeat(eliminate(first, settings.elimination_se))
        trials = search.lengthen(trials, lambda some: choose_trial(some, growing, settings))
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
    rule, length = "loo" if best.target == "data" else "cost", max(1, n_terms + settings.extra_terms)
    return RecipeChoice(best.title, best.name, best.target, best.members, n_terms=n_terms, trials=errors, bases=chosen,
                        n_candidates=n_candidates,
                        path_settings=Settings(rule, settings.alpha, max_terms=length))  # fmt: skip


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
    some = evenly(len(used), settings.path_rows)
    rows = part if len(some) == len(used) else rows_of(part, some)
    fitted = clone(basis).fit(rows, y[used[some]])
    if len(some) == len(used):
        G = design_matrix(fitted, X)
    else:
        design = design_matrix(fitted, rows)
        path = select_terms(design, Y[some], sample_weight[some], choice.path_settings, one_output=False)
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
    stage, terms = EnsembleTarget.fit(choice.members, candidates, Y, WeightedRows(sample_weight, True), alpha)
    taken = [basis.take(terms[name]) for name, basis in fitted.items()]
    basis = taken[0] if len(taken) == 1 else UnionBasis.of(taken)
    basis = basis.take(different_rows(basis.transform(table).T))  # dictionaries have functions in common
    return Pipeline([("table", encoder), ("terms", basis)]) if is_frame(X) else basis, stage
