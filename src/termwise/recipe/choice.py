"""The choice of dictionary, target and size by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice, repeat
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from termwise._arrays import Array, column_order, comparable, evenly
from termwise._threads import one_thread
from termwise.basis import Basis, LevelMeans
from termwise.fitted import Candidates, FittedTerms, FoldModels
from termwise.linalg.losses import LINKS, Loss
from termwise.recipe.bootstrap import BootstrapChoices, ProcedureError, choose_corrected, is_close
from termwise.recipe.cross_validation import Fitting
from termwise.recipe.dictionaries import DICTIONARIES, Inputs, Samples, build_dictionaries, distinct_candidates
from termwise.recipe.folds import Folds, assign_folds, merge_duplicates
from termwise.recipe.penalties import penalty_of
from termwise.recipe.search import Search, choose_scale, try_first
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.size import SIZES, RecipeOptions, choose_among
from termwise.recipe.skewness import skewed_inputs
from termwise.recipe.targets import REFERENCES, Member, default_reference
from termwise.recipe.trials import Trial, eliminate, ensemble_members, lowest_error, only_drawable, stack
from termwise.selection.engine import Settings

Floats = NDArray[np.float64]


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
    reference: Any  # the reference model that terms may be selected for, not fitted
    labels: bool
    loss: Loss | None  # of the chosen model; None: the squared error
    link: str  # "log": terms add up to logarithms of the targets
    shifts: list[Floats]  # of that link: what is added to the intercept at every size
    exposure: float  # mean exposure, per which the targets are given
    hierarchy: bool
    alternatives: dict[str, tuple[int, float]]  # number of terms and cross-validated error of every named size
    n_candidates: int  # distinct candidates of all dictionaries tried, in the largest training set
    path_settings: Settings  # of the final path, which continues beyond the chosen size
    procedure: ProcedureError
    calibration: list[tuple[float, Floats]]  # of labels: slope and shift of the probabilities at every size
    folds: FoldModels | None  # of the first cross-validation, on the encoded inputs; None after the fit
    limits: Floats | None = None  # of the predictions, on the scale that terms add up to, see `prediction_limits`

    @property
    def alpha(self) -> float:
        """Penalty of the weights."""
        return float(self.path_settings.alpha)


@one_thread()  # for each fold; with so few samples, threads of BLAS would wait for each other
def choose_model(
    samples: Samples,
    groups: NDArray[np.intp],
    levels: NDArray[np.intp],
    options: RecipeOptions,
    settings: RecipeSettings,
    after_step: Callable[[], object],
    report: Callable[[str], object] | None = None,
    device_array: Array | None = None,
) -> RecipeChoice:
    """Choose a dictionary, a target and a size by cross-validation.

    Parameters
    ----------
    samples : those of positive weight.
    groups : (d,), the column of the table that each input comes from.
    levels : the inputs that are numbers of levels of a category.
    options : parameters of the estimator.
    settings : constants of the recipe.
    after_step : called after each cross-validation.
    report : called with a line for each trial.
    device_array : an array on the device that computes paths; None for the host.
    """
    n = max(len(samples.X), samples.sample_weight.sum())
    targets, tries_ensembles = options.targets(n, settings), options.tries_ensembles() and n <= settings.choice_rows
    if options.cv is not None and not options.splits_given:
        settings = replace(settings, n_folds=int(options.cv))
    samples = merge_duplicates(samples)
    links = options.links(samples.Y, samples.sample_weight, settings)
    n_centers = number_of_centers(len(samples.X), settings)
    skewed = skewed_inputs(samples.X, levels, settings) if options.log_inputs else ()
    samples = samples.rows(evenly(len(samples.X), settings.choice_rows))
    inputs = Inputs.from_samples(samples.X, groups, n_centers, options.monotone, skewed)
    repeats = Repeats.plan(samples, options, settings)
    folds = list(islice(repeats.folds, repeats.first))
    limit = settings.readable_terms if options.size == "readable" else options.max_terms
    max_terms = max(1, min(options.max_terms, limit, int(folds[0].sample_weight.sum()) // settings.rows_per_term))
    reference = options.target
    if isinstance(reference, str):
        reference = default_reference(options.labels, options.loss, settings)
    # Ridge fits of small tables are made on the host, where everything else is faster, too.
    on_device = n > settings.ridge_rows and options.loss is None and not options.constrained
    device, margin = device_array if on_device else None, settings.margin(options.labels)
    fitting = Fitting(settings.alpha, options.hierarchy, device, margin)
    searches = {
        link: Search(allowed_bases(inputs, levels, targets, options, link, settings),
                     [on_scale(one, link) for one in folds], settings, max_terms, after_step, report, options.labels,
                     fitting._replace(logarithms=link == "log"), groups, reference, link, options.loss)
        for link in links
    }  # fmt: skip
    first, length = list[Trial](), first_length(samples, options, settings)
    for search in searches.values():
        choose_scale(search, length)
        first += try_first(search, options, targets, length, first)
    trials = of_one_link(first, settings.min_gain)
    search, order = searches[trials[0].link], order_by_entries(folds[0])
    trials = refine(search, trials, repeats, order, options)
    ensembles = stack(trials, max_terms, settings) if tries_ensembles else []
    if options.size == "small" and ensembles != only_drawable(ensembles):
        ensembles += stack(only_drawable(trials), max_terms, settings)
    search.reported(ensembles)
    final = ensembles if ensembles and options.target == "pooled" else trials + ensembles
    tried = [trial for one in searches.values() for trial in one.eliminated] + first
    errors = {trial.title: trial.errors for trial in tried + trials + ensembles}
    return final_choice(final, search, order, options, errors, count_candidates(tried, search))


def number_of_centers(n: int, settings: RecipeSettings) -> int:
    """Return the number of Gaussians for n distinct samples."""
    growth = max(1.0, n / settings.max_centers) ** settings.center_growth
    return int(min(n, settings.max_centers) * growth)


def first_length(samples: Samples, options: RecipeOptions, settings: RecipeSettings) -> int:
    """Return the length of the first paths; with many classes, rows of each class count."""
    n, n_classes = len(samples.X), samples.Y.shape[1] if options.labels else 1
    n_rows = n // n_classes if n_classes > settings.many_classes else n
    return int(np.clip(n_rows // settings.rows_per_first_term, settings.min_first_terms, settings.first_terms))


def order_by_entries(folds: Folds) -> NDArray[np.intp]:
    """Return an order of the samples that depends on their entries alone: by targets, then by inputs."""
    entries = comparable(folds.X)[:, column_order(folds.X)]
    return np.lexsort(np.column_stack([entries, folds.Y]).T)


@dataclass(frozen=True)
class Repeats:
    """How often cross-validation is repeated, and the folds of each time."""

    folds: Iterator[Folds]
    first: int  # in any case
    most: int  # where the choice is close

    @classmethod
    def plan(cls, samples: Samples, options: RecipeOptions, settings: RecipeSettings) -> Self:
        """Repeat it for few samples, whose folds are a matter of chance, unless the folds are given."""
        if options.splits_given:
            assert samples.blocks is not None
            return cls(repeat(Folds(samples.X, samples.Y, samples.sample_weight, samples.blocks)), 1, 1)
        limits = (settings.repeat_rows, settings.n_repeats), (settings.close_rows, settings.max_repeats)
        first, most = (int(np.clip(n_rows // len(samples.X), 1, count)) for n_rows, count in limits)
        return cls(divisions(samples, options, settings), first, most)


def divisions(samples: Samples, options: RecipeOptions, settings: RecipeSettings) -> Iterator[Folds]:
    """Divide the samples into folds again and again.

    The first divisions depend on the samples alone, so that another seed changes only what they leave open. Those of
    the seed are drawn beside them: its later ones then differ from the first ones, whatever the seed.
    """
    seeds = np.random.RandomState(0), check_random_state(options.random_state)
    for k in count():
        shared, own = (assign_folds(samples, options.labels, settings, rng) for rng in seeds)
        yield shared if k < settings.shared_divisions else own


def refine(
    search: Search, trials: list[Trial], repeats: Repeats, order: NDArray[np.intp], options: RecipeOptions
) -> list[Trial]:
    """Repeat the cross-validation of trials that are not clearly worse, and continue their paths.

    Where bootstrap samples, of the samples in this order, have very different sizes it is repeated more often.
    """
    settings = search.settings
    growing = options._replace(size="accurate") if options.size == "small" else options
    trials = search.repeat(eliminate(trials, settings.elimination_se), search.folds[1:])
    trials = search.lengthen(trials, lambda some: choose_among(some, growing, settings))
    while len(search.folds) < repeats.most:
        trials = eliminate(trials, settings.elimination_se)
        if not is_close(BootstrapChoices.draw(trials, order, options, settings).sizes, settings):
            break
        search.folds.append(on_scale(next(repeats.folds), search.link))
        trials = search.repeat(contenders(trials, order, options, settings), search.folds[-1:])
    return trials


def contenders(
    trials: list[Trial], order: NDArray[np.intp], options: RecipeOptions, settings: RecipeSettings
) -> list[Trial]:
    """Return the trials that most bootstrap samples choose, and those that have a weight in the stacked ensemble.

    The most accurate ones are among them, from whose error that of smaller models may differ.
    """
    kept, resolution = [], settings.contender_resolution
    for size in dict.fromkeys((options.size, "accurate")):
        bootstrap = BootstrapChoices.draw(trials, order, options._replace(size=size), settings, resolution)
        kept += [trials[place] for place in bootstrap.most_chosen(settings.contender_share)]
    if options.tries_ensembles():
        kept += ensemble_members(trials, settings)
        kept += ensemble_members(only_drawable(trials), settings) if options.size == "small" else []
    return [trial for trial in trials if any(trial is one for one in kept)]


def count_candidates(trials: list[Trial], search: Search) -> int:
    """Return the number of distinct candidates of all trials, in the training set that has most."""
    folds, d = range(len(search.first_folds)), search.folds[0].X.shape[1]
    counts = [{trial.name: trial.repeats[0].paths[k].n_candidates for trial in trials} for k in folds]
    return max(distinct_candidates(one, search.bases, d) for one in counts)


def final_choice(
    trials: list[Trial],
    search: Search,
    order: NDArray[np.intp],
    options: RecipeOptions,
    errors: dict[str, Floats],
    n_candidates: int,
) -> RecipeChoice:
    """Choose one of the trials and its size, and describe the choice with the errors of all that was tried."""
    settings = search.settings
    best, n_terms, bootstrap, procedure = choose_corrected(trials, order, options, settings)
    alternatives = {}
    for size in SIZES:
        place, k = choose_among(trials, options._replace(size=size), settings)
        alternatives[size] = k, float(trials[place].errors[k])
    length = max(1, n_terms + settings.extra_terms)
    chosen_error = float(best.errors[min(n_terms, len(best.errors) - 1)])
    inflation = np.sqrt(max(1.0, procedure.error / chosen_error)) if chosen_error and not options.labels else 1.0
    calibration = best.calibration(length) if options.labels else []
    if 0 < n_terms < len(calibration):
        calibration[n_terms] = bootstrap.calibration(best, n_terms)  # that of the best of many models is too steep
    alpha = penalty_of(best.objective, best.loss, settings)
    return RecipeChoice(best.title, best.name, best.target, best.members, n_terms=n_terms, trials=errors,
                        bases={name: search.bases[name] for name in best.dictionaries}, groups=search.groups,
                        reference=search.reference, labels=options.labels, loss=best.loss,
                        link=best.link,
                        shifts=[best.shift(k) for k in range(length + 1)] if best.link == "log" else [],
                        exposure=options.exposure,
                        hierarchy=options.hierarchy, alternatives=alternatives, n_candidates=n_candidates,
                        path_settings=Settings("cost", alpha, max_terms=length),
                        procedure=procedure, calibration=calibration,
                        folds=fold_models(best, n_terms, inflation, options.exposure, search.folds[0].X),
                        )  # fmt: skip


def allowed_bases(
    inputs: Inputs,
    levels: NDArray[np.intp],
    targets: list[str],
    options: RecipeOptions,
    link: str,
    settings: RecipeSettings,
) -> dict[str, Basis]:
    """Return the dictionaries to try for a link, of inputs among which `levels` are numbers of levels."""
    if link == "log":  # exponentials of functions that go on outside the training range would explode
        settings = replace(settings, extrapolation="constant")
    bases = build_dictionaries(inputs, options.dictionary, settings)
    bases = {name: basis for name, basis in bases.items() if options.allows(name)}
    if len(bases) > 1 and set(REFERENCES).isdisjoint(targets):
        bases = {name: basis for name, basis in bases.items() if DICTIONARIES[name].fits}
    if not bases:
        raise ValueError(
            f"dictionary must have functions of one or two inputs with monotone, hierarchy or size='readable', got "
            f"{options.dictionary!r}: 'auto' tries all that have."
        )
    if not len(levels):
        return bases
    scale = "log" if link_of(options) == "log" else "identity"  # quantiles are sorted after the terms are added up
    return {name: LevelMeans(basis, levels, link=scale) for name, basis in bases.items()}


def on_scale(folds: Folds, link: str) -> Folds:
    """Return folds with the targets on the scale that the terms add up to."""
    return folds._replace(Y=np.log(folds.Y)) if link == "log" else folds


def of_one_link(trials: list[Trial], min_gain: float) -> list[Trial]:
    """Return the trials of the logarithm if the best of them saves this share of the error, else the others."""
    logarithms = [trial for trial in trials if trial.link == "log"]
    others = [trial for trial in trials if trial.link != "log"]
    if not (logarithms and others):
        return trials
    return logarithms if lowest_error(logarithms) <= (1 - min_gain) * lowest_error(others) else others


def link_of(model: RecipeOptions | Trial) -> str:
    """Return the link of the responses; classifiers have scores, which are calibrated."""
    if isinstance(model, Trial) and model.link == "log":
        return "log"
    return "identity" if model.loss is None or model.labels else model.loss.link


def fold_models(trial: Trial, n_terms: int, inflation: float, exposure: float, X: Floats) -> FoldModels:
    """Return the models of the first cross-validation at a size, with their residuals; inputs X are encoded.

    Targets per mean exposure become those per unit of exposure. Without a basis, where all inputs are constant, the
    candidates are the inputs, of which none is chosen.

    Residuals of the best of many models are too small: they are multiplied by the root of the corrected error over that
    of the model.
    """
    Y, (first, *_) = trial.Y, trial.repeats
    link, size = link_of(trial), min(n_terms, len(trial.losses) - 1)
    shift: Any = trial.shift(size) if trial.link == "log" else -np.log(exposure)
    models, fold = [], np.empty(len(Y), dtype=np.intp)
    for place, path in enumerate(first.paths):
        weights, intercept = path.weights(n_terms)
        k = len(weights)
        basis = None if path.terms is None else path.terms.take(np.arange(k))
        n_candidates = X.shape[1] if basis is None else k
        candidates = Candidates(basis, n_candidates, one_output=Y.shape[1] == 1, n_features=0)
        limits = None if path.limits is None else path.limits + shift
        models.append(FittedTerms(candidates, np.arange(k), weights, intercept + shift, link=link, limits=limits))
        fold[~path.train] = place
    responses = LINKS[link](first.prediction(size, Y) + shift)
    Y = np.exp(Y) if trial.link == "log" else Y / exposure
    return FoldModels(tuple(models), fold, inflation * (Y - responses), trial.sample_weight).with_scales(X)
