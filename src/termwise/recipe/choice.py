"""The choice of dictionary, target and size by cross-validation, and the candidates of the chosen model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from termwise._arrays import as_columns, different_rows, evenly
from termwise._checks import check_choice, check_number
from termwise._numerics import ERROR_DIGITS, EXACT_FIT_ERROR
from termwise.basis import Basis, UnionBasis
from termwise.basis.base import design_matrix
from termwise.execution import select_terms
from termwise.fitted import Candidates, FittedTerms, FoldModels
from termwise.linalg.calibration import calibrate, log_losses
from termwise.linalg.criteria import excess, misclassified
from termwise.linalg.least_squares import WeightedRows
from termwise.recipe.cross_validation import Search, Trial, assign_folds, comparable, merge_duplicates, stack
from termwise.recipe.dictionaries import DICTIONARIES, Inputs, Samples, build_dictionaries, distinct_candidates
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.targets import (
    REFERENCES,
    EnsembleTarget,
    FirstStage,
    Member,
    Reference,
    ReferenceTarget,
    RidgeTarget,
    default_reference,
)
from termwise.selection.engine import Settings
from termwise.selection.nested import NestedModels

Floats = NDArray[np.float64]


class RecipeOptions(NamedTuple):
    """The parameters of the estimators that the choice depends on."""

    size: str | int = "small"
    dictionary: str = "auto"
    target: Any = "auto"  # or another model, not fitted
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
        if not (hasattr(self.target, "fit") and hasattr(self.target, "predict_proba" if self.labels else "predict")):
            what = "a classifier with predict_proba" if self.labels else "a regressor"
            remedy = f"'auto' tries them all, or give {what} of scikit-learn, not fitted"
            check_choice("target", self.target, ["auto", "data", "ridge", "boosting", "pooled"], remedy=remedy)

    @property
    def tries_all(self) -> bool:
        """Whether all targets are tried, and stacked ensembles of them."""
        return not isinstance(self.target, str) or self.target in ("auto", "pooled")

    def targets(self, n: float, settings: RecipeSettings) -> list[str]:
        """Return the targets to try for n samples, ensembles aside."""
        if not self.tries_all:
            found = [self.target]
        else:
            found = ["ridge"] if self.labels else ["data", "ridge"]
            found.append("boosting" if isinstance(self.target, str) else "estimator")
        if n > settings.ridge_rows:
            found = list(dict.fromkeys("data" if target == "ridge" else target for target in found))
        return found


# -- trials ------------------------------------------------------------------------------------------------------------


def only_drawable(trials: list[Trial]) -> list[Trial]:
    """Return the trials whose terms are all functions of one or two inputs."""
    undrawable = {name for name, dictionary in DICTIONARIES.items() if not dictionary.drawable}
    return [trial for trial in trials if undrawable.isdisjoint(trial.dictionaries)]


def most_accurate(curves: Sequence[Floats], allowed: Sequence[int]) -> tuple[int, int]:
    """Return the curve with the smallest error, the first one of equals, and its number of terms."""
    best = allowed[int(np.argmin([curves[i].min() for i in allowed]))]
    return best, int(curves[best].argmin())


def eliminate(trials: list[Trial], max_se: float) -> list[Trial]:
    """Return the trials that are, at their best size, at most so many standard errors worse than the best one."""
    best = min(trials, key=lambda trial: float(trial.errors.min()))
    least = best.losses[int(best.errors.argmin())]
    kept = []
    for trial in trials:
        k = int(trial.errors.argmin())
        more, error = trial.compared_with(least)
        if more[k] <= max_se * error[k] + EXACT_FIT_ERROR:
            kept.append(trial)
    return kept


def choose_trial(
    trials: list[Trial], curves: list[Floats], share: Floats, options: RecipeOptions, settings: RecipeSettings
) -> tuple[int, int]:
    """Return the position of the best trial and its number of terms.

    "accurate" is the model with the smallest error. "small" is the model with the fewest terms whose error is within
    `small_se` standard errors of that minimum and loses at most the share `small_loss` of the explained variance, or
    one with `small_extra_terms` more if its error is smaller; drawable models are preferred unless the best model is
    better by more than `drawable_se` standard errors. With a number the error at that size decides.

    Parameters
    ----------
    trials : what is chosen from.
    curves : for each trial the mean loss at every size, of the samples weighted by `share`.
    share : (n,) weights of the samples, adding up to one.
    options, settings : parameters of the estimator and constants of the recipe.
    """
    size, n = options.size, float(trials[0].sample_weight.sum())
    curves, positions = [curve.round(ERROR_DIGITS) for curve in curves], list(range(len(trials)))
    if not isinstance(size, str):
        at_size = [curve[min(size, len(curve) - 1)] for curve in curves]
        return int(np.argmin(at_size)), size
    best, k = most_accurate(curves, positions)
    if size == "accurate":
        return best, k
    if drawable := [i for i in positions if trials[i] in only_drawable(trials)]:
        other, other_k = most_accurate(curves, drawable)
        more, error = excess(trials[other].losses[other_k], trials[best].losses[k], share, n)
        if more <= settings.drawable_se * error + EXACT_FIT_ERROR:
            positions, best, k = drawable, other, other_k
    standard_error = excess(trials[best].losses[k], np.zeros_like(share), share, n)[1]
    errors = curves[best]
    tolerance = min(settings.small_se * standard_error, settings.small_loss * (errors[0] - errors[k]))
    limit = errors[k] + tolerance + 10.0**-ERROR_DIGITS
    fewest = min(int(np.flatnonzero(curves[i] <= limit)[0]) for i in positions if curves[i].min() <= limit)
    sizes = [fewest, fewest + settings.small_extra_terms] if fewest else [0]
    _, k, i = min((float(curves[i][k]), k, i) for i in positions for k in sizes if k < len(curves[i]))
    return i, k


def choose_among(trials: list[Trial], options: RecipeOptions, settings: RecipeSettings) -> tuple[int, int]:
    """Return the position of the best trial by the errors of all samples, and its number of terms."""
    return choose_trial(trials, [trial.errors for trial in trials], trials[0].share, options, settings)


# -- the error of the procedure ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProcedureError:
    """Error of the whole procedure, the choice of a trial and its size included."""

    error: float  # mean loss, as a share of that of the mean or of the class frequencies
    standard_error: float
    null_loss: float  # of labels: negative log-likelihood of the class frequencies
    error_rate: float | None  # of labels: share of misclassified samples
    sizes: NDArray[np.intp]  # number of terms chosen in each bootstrap sample


@dataclass(frozen=True)
class BootstrapChoices:
    """The choice of a trial and its size, repeated on bootstrap samples of the table of out-of-fold losses.

    The smallest of many cross-validated errors is optimistic. A choice is evaluated on the rows that were not drawn
    (bootstrap bias-corrected cross-validation: Tsamardinos, Greasidou and Borboudakis 2018); nothing is fitted again.
    """

    trials: list[Trial]
    chosen: list[tuple[int, int]]  # position of the trial and number of terms, in each bootstrap sample
    left_out: Floats  # (samples, n), one for rows that were not drawn

    @classmethod
    def draw(
        cls, trials: list[Trial], order: NDArray[np.intp], options: RecipeOptions, settings: RecipeSettings
    ) -> Self:
        """Repeat the choice; rows are drawn in the given order, which does not depend on that of the data."""
        share, n = trials[0].share, len(trials[0].share)
        draws = np.empty((settings.n_bootstrap, n), dtype=np.intp)
        draws[:, order] = np.random.RandomState(0).multinomial(n, np.full(n, 1 / n), size=settings.n_bootstrap)
        weights = draws * share
        weights /= weights.sum(axis=1, keepdims=True)
        curves, chosen = [trial.losses @ weights.T for trial in trials], []
        for b, weight in enumerate(weights):
            i, k = choose_trial(trials, [curve[:, b] for curve in curves], weight, options, settings)
            chosen.append((i, min(k, len(curves[i]) - 1)))
        left_out = np.where(draws == 0, 1.0, 0.0)
        left_out[:, ~left_out.any(axis=0)] = 1.0  # rows that every sample has drawn
        return cls(trials, chosen, left_out)

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Number of terms chosen in each bootstrap sample."""
        return np.array([k for _, k in self.chosen])

    def weights(self) -> dict[tuple[int, int], Floats]:
        """For every model that was chosen, how often, with each row left out: shares of the row, (n,)."""
        total, found = self.left_out.sum(axis=0), dict[tuple[int, int], Floats]()
        for model, left_out in zip(self.chosen, self.left_out, strict=True):
            found[model] = found.get(model, 0.0) + left_out / total
        return found

    def calibration(self) -> tuple[float, Floats]:
        """Slope and shift of the probabilities, from the scores of chosen models for the rows left out."""
        Y, sample_weight = self.trials[0].Y, self.trials[0].sample_weight
        scores, labels, weights = [], [], []
        for (i, k), weight in self.weights().items():
            repeats = self.trials[i].scores(k)
            scores += [one[weight > 0] for one in repeats]
            labels += [Y[weight > 0]] * len(repeats)
            weights += [(sample_weight * weight)[weight > 0] / len(repeats)] * len(repeats)
        squeeze = (slice(None), 0) if Y.shape[1] == 1 else slice(None)
        return calibrate(np.concatenate(scores)[squeeze], np.concatenate(labels)[squeeze], np.concatenate(weights))

    def error(self) -> ProcedureError:
        """Return the mean loss of the chosen models over the rows left out."""
        first, rate = self.trials[0], None
        share, Y, n = first.share, first.Y, float(first.sample_weight.sum())
        if first.labels:
            slope, shift = self.calibration()
            losses, wrong = np.zeros(len(Y)), np.zeros(len(Y))
            for (i, k), weight in self.weights().items():
                scores = np.array(self.trials[i].scores(k)) + shift
                losses += weight * np.mean([log_losses(one, Y, slope) for one in scores], axis=0) / first.null_loss
                wrong += weight * np.mean(misclassified(scores, Y), axis=0)
            rate = float(share @ wrong)
        else:
            losses = np.sum([weight * self.trials[i].losses[k] for (i, k), weight in self.weights().items()], axis=0)
        error = float(share @ losses)
        standard_error = float(np.sqrt(share @ (losses - error) ** 2 / n))
        return ProcedureError(error, standard_error, first.null_loss, rate, self.sizes)


def median_choice(
    trials: list[Trial], best: Trial, n_terms: int, sizes: NDArray[np.intp], settings: RecipeSettings
) -> tuple[Trial, int]:
    """Return the trial with the smallest error at the median of the bootstrap sizes, which varies less with the folds.

    If it is worse than the choice itself by more than `small_se` standard errors of the difference, that one is kept.
    """
    drawable, k = only_drawable(trials), int(np.median(sizes))
    allowed = [trial for trial in (drawable if best in drawable else trials) if k < len(trial.errors)]
    if not allowed:
        return best, n_terms
    other = min(allowed, key=lambda trial: float(trial.errors[k].round(ERROR_DIGITS)))
    n = float(best.sample_weight.sum())
    more, error = excess(other.losses[k], best.losses[n_terms], best.share, n)
    return (other, k) if more <= settings.small_se * error + EXACT_FIT_ERROR else (best, n_terms)


def choose_corrected(
    trials: list[Trial], order: NDArray[np.intp], options: RecipeOptions, settings: RecipeSettings
) -> tuple[Trial, int, BootstrapChoices, ProcedureError]:
    """Return the best trial, its number of terms, and the choices in bootstrap samples with their error."""
    place, n_terms = choose_among(trials, options, settings)
    best, bootstrap = trials[place], BootstrapChoices.draw(trials, order, options, settings)
    procedure = bootstrap.error()
    if options.size == "small":
        best, n_terms = median_choice(trials, best, n_terms, procedure.sizes, settings)
    if isinstance(options.size, str) and procedure.error >= best.errors[0]:  # chosen terms do not beat the mean
        n_terms, procedure = 0, replace(procedure, error=float(best.errors[0]))
    return best, n_terms, bootstrap, procedure


def is_close(sizes: NDArray[np.intp], settings: RecipeSettings) -> bool:
    """Whether the sizes chosen in bootstrap samples differ by more than a factor, but for a tenth at either end."""
    low, high = np.quantile(sizes, [0.1, 0.9])
    return bool(high > settings.close_ratio * max(low, 1))


# -- the choice --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecipeChoice:
    """What cross-validation has chosen."""

    title: str  # of the chosen one of the trials
    dictionary: str
    target: str  # "data", "ridge", "boosting", "estimator" or "pooled"
    members: tuple[Member, ...]  # of the stacked ensemble; empty for other targets
    n_terms: int
    trials: dict[str, Floats]  # cross-validated error at every size, by the title of the trial
    bases: dict[str, Basis]  # of the chosen dictionaries, not fitted
    groups: NDArray[np.intp]  # (d,), the column of the table that each encoded input comes from
    reference: Any  # the other model that terms may be selected for, not fitted
    labels: bool
    n_candidates: int  # distinct candidates of all dictionaries tried, in the largest training set
    path_settings: Settings  # of the final path, which continues beyond the chosen size
    procedure: ProcedureError
    calibration: list[tuple[float, Floats]]  # of labels: slope and shift of the probabilities at every size
    folds: FoldModels | None  # of the first cross-validation, on the encoded inputs; None after the fit


def choose_model(
    samples: Samples,
    groups: NDArray[np.intp],
    options: RecipeOptions,
    settings: RecipeSettings,
    after_step: Callable[[], object],
    report: Callable[[str], object] | None = None,
) -> RecipeChoice:
    """Choose a dictionary, a target and a size by cross-validation.

    Parameters
    ----------
    samples : those of positive weight.
    groups : (d,), the column of the table that each input comes from.
    options : parameters of the estimator.
    settings : constants of the recipe.
    after_step : called after each cross-validation.
    report : called with a line for each trial.
    """
    n, tries_ensembles = max(len(samples.X), samples.sample_weight.sum()), options.tries_all
    targets = options.targets(n, settings)
    if options.labels and options.size == "small":  # a single model has fewer terms than an ensemble of many
        tries_ensembles = options.target == "pooled"
    X, Y, sample_weight = merge_duplicates(samples)
    growth = max(1.0, len(X) / settings.max_centers) ** settings.center_growth
    n_centers = int(min(len(X), settings.max_centers) * growth)
    rows = evenly(len(X), settings.choice_rows)
    X, Y, sample_weight = X[rows], Y[rows], sample_weight[rows]
    inputs = Inputs.from_samples(X, groups, n_centers)
    bases = build_dictionaries(inputs, options.dictionary, settings)
    rng = check_random_state(options.random_state)
    n_repeats, max_repeats = (
        int(np.clip(n_rows // len(X), 1, most))
        for n_rows, most in ((settings.repeat_rows, settings.n_repeats), (settings.close_rows, settings.max_repeats))
    )
    folds = [assign_folds(Samples(X, Y, sample_weight), options.labels, settings, rng) for _ in range(n_repeats)]
    max_terms = max(1, min(options.max_terms, int(folds[0].sample_weight.sum()) // settings.rows_per_term))
    reference = default_reference(options.labels, settings) if isinstance(options.target, str) else options.target
    search = Search(
        bases, folds, settings, max_terms, after_step, report, options.labels, groups=groups, reference=reference
    )
    growing = options._replace(size="accurate") if options.size == "small" else options
    length = int(np.clip(len(X) // settings.rows_per_first_term, settings.min_first_terms, settings.first_terms))
    with threadpool_limits(1):  # one thread for each fold
        tried = search.try_dictionaries(list(bases), targets, length, folds[:1])
        first = [trial for trials in tried for trial in search.reported(trials)]
        trials = search.repeat(eliminate(first, settings.elimination_se), folds[1:])
        trials = search.lengthen(trials, lambda some: choose_among(some, growing, settings))
        order = np.lexsort(np.column_stack([comparable(folds[0].X), folds[0].Y]).T)  # by targets, then by inputs
        while len(folds) < max_repeats:
            if not is_close(BootstrapChoices.draw(trials, order, options, settings).sizes, settings):
                break
            folds.append(assign_folds(Samples(X, Y, sample_weight), options.labels, settings, rng))
            trials = search.repeat(eliminate(trials, settings.elimination_se), folds[-1:])
        ensembles = stack(trials, max_terms, settings) if tries_ensembles and n <= settings.choice_rows else []
        if options.size == "small" and ensembles != only_drawable(ensembles):
            ensembles += stack(only_drawable(trials), max_terms, settings)
    search.reported(ensembles)
    final = ensembles if ensembles and options.target == "pooled" else trials + ensembles
    best, n_terms, bootstrap, procedure = choose_corrected(final, order, options, settings)
    counts = {trial.name: max(path.n_candidates for path in trial.repeats[0].paths) for trial in first}
    n_candidates = distinct_candidates(counts, bases, X.shape[1])
    errors = {trial.title: trial.errors for trial in first + trials + ensembles}
    chosen = {name: bases[name] for name in best.dictionaries}
    length = max(1, n_terms + settings.extra_terms)
    chosen_error = float(best.errors[min(n_terms, len(best.errors) - 1)])
    inflation = np.sqrt(max(1.0, procedure.error / chosen_error)) if chosen_error and not options.labels else 1.0
    calibration = best.calibration(length) if options.labels else []
    if 0 < n_terms < len(calibration):
        calibration[n_terms] = bootstrap.calibration()  # that of the best of many models is too steep
    return RecipeChoice(best.title, best.name, best.target, best.members, n_terms=n_terms, trials=errors, bases=chosen,
                        groups=groups, reference=reference, labels=options.labels,
                        n_candidates=n_candidates, path_settings=Settings("cost", settings.alpha, max_terms=length),
                        procedure=procedure, calibration=calibration,
                        folds=fold_models(best, n_terms, inflation).with_scales(folds[0].X))  # fmt: skip


def fold_models(trial: Trial, n_terms: int, inflation: float) -> FoldModels:
    """Return the models of the first cross-validation at a size, with their residuals; inputs are encoded.

    Residuals of the best of many models are too small: they are multiplied by the root of the corrected error over that
    of the model.
    """
    Y, (first, *_) = trial.Y, trial.repeats
    models, fold = [], np.empty(len(Y), dtype=np.intp)
    for place, path in enumerate(first.paths):
        k = min(n_terms, len(path.models.terms))
        basis = None if path.terms is None else path.terms.take(np.arange(k))
        candidates = Candidates(basis, k, one_output=Y.shape[1] == 1, n_features=0)
        models.append(FittedTerms(candidates, np.arange(k), *path.models.weights(k)))
        fold[~path.train] = place
    size = min(n_terms, len(trial.losses) - 1)
    return FoldModels(tuple(models), fold, inflation * (Y - first.predictions(Y)[size]), trial.sample_weight)


# -- the chosen model --------------------------------------------------------------------------------------------------


def fit_candidates(
    choice: RecipeChoice, X: NDArray, y: NDArray, sample_weight: Floats, settings: RecipeSettings
) -> tuple[Basis, Any, FirstStage | None]:
    """Return the fitted basis, its design matrix, and the first stage if the target is not the data.

    Inputs are encoded. The design matrix has all rows of X, the first stage those of positive weight. With more than
    `path_rows` rows, a path on some of them decides which candidates are evaluated on all.
    """
    used = np.flatnonzero(sample_weight)
    every = len(used) == len(sample_weight)
    part, Y, sample_weight = X if every else X[used], as_columns(y)[used], sample_weight[used]
    if choice.target == "pooled":
        samples = Samples(part, Y.astype(np.float64), sample_weight)
        basis, stage = fit_ensemble(choice, samples, settings)
        return basis, basis.transform(X), stage
    (basis,) = choice.bases.values()
    some = evenly(len(used), settings.path_rows)
    rows = part if len(some) == len(used) else part[some]
    fitted = clone(basis).fit(rows, y[used[some]])
    if choice.target in REFERENCES:
        return fit_to_reference(choice, fitted, X, Samples(part, Y.astype(np.float64), sample_weight), some, settings)
    if len(some) == len(used):
        G = design_matrix(fitted, X)
    else:
        design = design_matrix(fitted, rows)
        path = select_terms(design, Y[some], sample_weight[some], choice.path_settings, one_output=False)
        fitted = fitted.take(np.sort(path.terms))
        G = fitted.transform(X)
    if choice.target == "data":
        return fitted, G, None
    return fitted, G, RidgeTarget.of_basis(fitted, part, G if every else G[used], Y, sample_weight)


def fit_to_reference(
    choice: RecipeChoice, basis: Basis, X: NDArray, samples: Samples, some: NDArray[np.intp], settings: RecipeSettings
) -> tuple[Basis, Floats, ReferenceTarget]:
    """Select terms that reproduce another model; return the basis of these, its design matrix, and the model's fit.

    Parameters
    ----------
    choice : the chosen dictionary and target.
    basis : the fitted dictionary.
    X : all inputs, encoded.
    samples : those of positive weight.
    some : rows of the samples to select the terms on.
    settings : constants of the recipe.
    """
    alpha, rows = settings.alpha, Samples(*(values[some] for values in samples))
    reference = Reference.fit(choice.reference, rows, choice.groups, choice.labels, settings)
    max_terms = choice.path_settings.max_terms or len(rows.X)
    models = reference.models(basis, rows.X, rows.sample_weight, alpha, max_terms)
    fitted = basis.take(models.terms)
    columns = np.vstack([fitted.transform(rows.X), fitted.transform(reference.X)]).astype(np.float64)
    values, weights = reference.rows(rows.sample_weight)
    signal = reference.signal
    if len(some) < len(samples.X):
        fit, intercept = NestedModels.from_columns(columns, values, weights, alpha).weights(len(models.terms))
        signal = fitted.transform(samples.X) @ fit + intercept
    return fitted, fitted.transform(X), ReferenceTarget(samples.Y, signal, columns, values, weights)


def fit_ensemble(choice: RecipeChoice, samples: Samples, settings: RecipeSettings) -> tuple[Basis, EnsembleTarget]:
    """Fit the members of the stacked ensemble; return a basis of their distinct terms, and the ensemble."""
    X, Y, sample_weight = samples
    fitted = {name: clone(basis).fit(X, Y) for name, basis in choice.bases.items()}
    reference = None
    if any(member.target in REFERENCES for member in choice.members):
        reference = Reference.fit(choice.reference, samples, choice.groups, choice.labels, settings)
    rows = WeightedRows(sample_weight, True)
    stage, terms = EnsembleTarget.fit(choice.members, fitted, X, Y, rows, reference, settings.alpha)
    taken = [basis.take(terms[name]) for name, basis in fitted.items()]
    basis = taken[0] if len(taken) == 1 else UnionBasis.of(taken)
    return basis.take(different_rows(basis.transform(X).T)), stage  # dictionaries have functions in common
