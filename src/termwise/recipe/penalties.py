"""Penalties of models of the data, and the preference for linear models: which trials are added, and which are dropped.

The penalties of the recipe hardly shrink the weights, which suits most tables. Classes that are almost separated want a
smaller one than that of their likelihood. Where many weak columns act together, forward selection with a large penalty
adds many terms with small weights, as boosting and the lasso do, and is far more accurate than few terms with the
weights of least squares or maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from termwise.linalg.losses import Loss
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.trials import Objective, Trial, lowest_error, most_accurate_of

if TYPE_CHECKING:
    from termwise.recipe.search import Search


def penalty_of(objective: Objective, loss: Loss | None, settings: RecipeSettings) -> float:
    """Return the penalty of models with a loss; None is the squared error, whose own only stabilises the selection."""
    if objective.alpha is not None:
        return objective.alpha
    return settings.alpha if loss is None else settings.loss_alpha


def has_many_inputs(search: Search) -> bool:
    """Whether there are so many inputs for the samples that linear models want a large penalty."""
    n, d = search.folds[0].X.shape
    return bool(d >= n / search.settings.rows_per_penalised_input)


def tries_penalties(search: Search) -> bool:
    """Whether other penalties than those of the recipe are tried."""
    n, d = search.folds[0].X.shape
    return has_many_inputs(search) or (search.loss is not None and d < n)


def try_penalties(search: Search, trials: list[Trial], max_terms: int) -> list[Trial]:
    """Cross-validate other penalties, with paths of up to `max_terms` terms; return the trials that go on.

    Large ones for linear models of many inputs; for a loss other than the squared error, with fewer inputs than
    samples, larger or smaller ones for the linear and for the most accurate dictionary.
    """
    (n, d), found = search.folds[0].X.shape, list[Trial]()
    if search.loss is None or d >= n:
        return penalise_linear(search, trials, max_terms)
    of_data = [one for one in trials if one.target == "data"]
    for start in of_data:
        if start.name == "linear" or start is most_accurate_of(of_data):
            found += better_penalty(search, start, trials + found, max_terms)
    return trials + found


def better_penalty(search: Search, start: Trial, rivals: list[Trial], max_terms: int) -> list[Trial]:
    """Multiply the penalty by a factor, or else divide it, while this lowers the error by the share `min_gain`.

    Returns the last one that did; what was tried before is dropped.
    """
    settings = search.settings
    for factor in (settings.penalty_factor, 1 / settings.penalty_factor):
        best = start
        for _ in range(settings.max_penalty_steps):
            alpha = factor * penalty_of(best.objective, best.loss, settings)
            tried = search.race({best.name: [Objective("data", alpha)]}, max_terms, rivals)
            if not is_better(tried, best, settings.min_gain):
                search.eliminated.extend(tried)
                break
            search.eliminated.extend([best] if best is not start else [])
            (best,) = tried
        if best is not start:
            return [best]
    return []


def is_better(trials: Sequence[Trial], other: Trial, min_gain: float) -> bool:
    """Whether the best of trials has an error that is smaller than that of another one by this share."""
    return lowest_error(trials) <= (1 - min_gain) * lowest_error([other])


def penalise_linear(search: Search, trials: list[Trial], max_terms: int) -> list[Trial]:
    """Cross-validate linear models of the data with large penalties, multiples of the weight of the samples.

    They are kept if the best lowers the error by the share `min_gain`. For labels only the largest penalty within
    `label_se` standard errors of the best is kept: their errors hardly differ by more than chance, and with a penalty
    that is too small probabilities are too extreme.
    """
    settings, linear = search.settings, [one for one in trials if one.name == "linear"]
    before = [one for one in linear if one.target == "data"]
    if not before:
        return trials
    alphas = float(search.folds[0].sample_weight.sum()) * settings.penalty_factor ** np.array([-1.0, 0.0, 1.0])
    rivals = linear if search.labels else trials
    tried = search.race({"linear": [Objective("data", alpha) for alpha in alphas.tolist()]}, max_terms, rivals)
    if search.labels:
        best, of_data = most_accurate_of(linear + tried), before + tried
        close = [one for one in of_data if not one.is_worse(best, settings.label_se)]
        kept = [max(close, key=lambda one: one.alpha or 0.0) if close else most_accurate_of(of_data)]
        search.eliminated.extend(one for one in of_data if one not in kept)
        return [one for one in trials if one not in before] + kept
    pays = is_better(tried, before[0], settings.min_gain)
    search.eliminated.extend([] if pays else tried)
    return trials + (tried if pays else [])  # all of them, so that the choice between them is corrected for


def best_linear(search: Search, trials: Sequence[Trial]) -> Trial | None:
    """Return the best linear model that nonlinear ones must be clearly better than, None if there is no need to.

    Numbers with many inputs are left to cross-validation, since linear models of these are poor for other reasons.
    """
    linear = [one for one in trials if one.name == "linear"]
    return None if not linear or (has_many_inputs(search) and not search.labels) else most_accurate_of(linear)


def promising(search: Search, started: list[Trial]) -> list[Trial]:
    """Return the trials of the first folds without nonlinear models that will hardly be clearly better than linear.

    The error of such a model exceeds that of the best linear one, less the share `min_gain`, by more than `simpler_se`
    standard errors of the difference.
    """
    linear, settings = best_linear(search, started), search.settings
    if linear is None:
        return started
    limits = settings.simpler_se, settings.min_gain
    return [trial for trial in started if trial.name == "linear" or not trial.is_worse(linear, *limits)]


def clearly_nonlinear(search: Search, trials: list[Trial]) -> list[Trial]:
    """Drop nonlinear models that are not clearly better than the best linear one.

    Among models of similar error, the best depends on the folds. A nonlinear model must be better by `linear_se`
    standard errors, or `label_se` for labels, which carry less information, and by the share `min_gain`: a linear term
    alone is in every dictionary.
    """
    best, settings, kept = best_linear(search, trials), search.settings, list[Trial]()
    if best is None:
        return trials
    max_se = settings.label_se if search.labels else settings.linear_se
    for trial in trials:
        better = is_better([trial], best, settings.min_gain) and best.is_worse(trial, max_se)
        (kept if better or trial.name == "linear" else search.eliminated).append(trial)
    return kept
