"""Penalties of losses other than the squared error: which are cross-validated, and which models are kept.

The penalty of the recipe, one on standardised columns, suits most tables. Classes that are almost separated want a
smaller one. Where many weak columns act together, forward selection with a large penalty adds many terms with small
weights, as boosting and the lasso do, and is far more accurate than few terms with the weights of maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from termwise.linalg.losses import Loss
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.trials import Objective, Trial, lowest_error

if TYPE_CHECKING:
    from termwise.recipe.search import Search


def penalty_of(objective: Objective, loss: Loss | None, settings: RecipeSettings) -> float:
    """Return the penalty of models with a loss; None is the squared error, whose own only stabilises the selection."""
    if objective.alpha is not None:
        return objective.alpha
    return settings.alpha if loss is None else settings.loss_alpha


def most_accurate_of(trials: Sequence[Trial]) -> Trial:
    """Return the trial with the smallest error."""
    return min(trials, key=lambda trial: float(trial.errors.min()))


def is_wide(search: Search) -> bool:
    """Whether there are at least as many inputs as samples."""
    n, d = search.folds[0].X.shape
    return bool(d >= n)


def try_penalties(search: Search, trials: list[Trial], max_terms: int) -> list[Trial]:
    """Cross-validate other penalties, with paths of up to `max_terms` terms; return the trials that go on.

    With at least as many inputs as samples, those of linear models. With fewer, those of the linear and of the most
    accurate dictionary for a loss other than the squared error, and of linear models of many inputs for that one.
    """
    n, d = search.folds[0].X.shape
    of_data, found = [one for one in trials if one.target == "data"], list[Trial]()
    if search.loss is None or is_wide(search):
        many = d >= n / search.settings.rows_per_penalised_input
        return penalise_linear(search, trials, max_terms) if many else trials
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
                search.lost.extend(tried)
                break
            search.lost.extend([best] if best is not start else [])
            (best,) = tried
        if best is not start:
            return [best]
    return []


def is_better(trials: Sequence[Trial], other: Trial, min_gain: float) -> bool:
    """Whether the best of trials has an error that is smaller than that of another one by this share."""
    return lowest_error(trials) <= (1 - min_gain) * lowest_error([other])


def penalise_linear(search: Search, trials: list[Trial], max_terms: int) -> list[Trial]:
    """Cross-validate linear models of the data with large penalties, multiples of the weight of the samples.

    The best one goes on if it saves the share `min_gain` of the error. With at least as many inputs as samples, it is
    the largest penalty within one standard error of the best that goes on alone: errors of penalties then hardly differ
    by more than chance, and a penalty that is too small is worse than one that is too large.
    """
    settings, wide = search.settings, is_wide(search)
    before = [one for one in trials if (one.name, one.target) == ("linear", "data")]
    if not before:
        return trials
    alphas = float(search.folds[0].sample_weight.sum()) * settings.penalty_factor ** np.array([-1.0, 0.0, 1.0])
    rivals = [one for one in trials if one.name == "linear"] if wide else trials
    tried = search.race({"linear": [Objective("data", alpha) for alpha in alphas.tolist()]}, max_terms, rivals)
    if not wide:
        best = [most_accurate_of(tried)] if tried and is_better(tried, before[0], settings.min_gain) else []
        search.lost.extend(one for one in tried if one not in best)
        return trials + best
    of_data, best_linear = before + tried, most_accurate_of(rivals + tried)
    close = [one for one in of_data if not one.is_worse(best_linear, settings.linear_se)]
    kept = max(close, key=lambda one: one.alpha or 0.0) if close else most_accurate_of(of_data)
    search.lost.extend(one for one in of_data if one is not kept)
    return [one for one in trials if one not in before] + [kept]


def clearly_nonlinear(search: Search, trials: list[Trial]) -> list[Trial]:
    """Drop nonlinear models that are not clearly better than the best linear one.

    Of few samples, or of labels, which say little, the best of so many functions is the best by chance, and another one
    with other folds. They must be better by `linear_se` standard errors, and by the share `min_gain`: a linear term
    alone is in every dictionary.
    """
    linear, settings = [one for one in trials if one.name == "linear"], search.settings
    if not linear:
        return trials
    best, kept = most_accurate_of(linear), list[Trial]()
    for trial in trials:
        better = is_better([trial], best, settings.min_gain) and best.is_worse(trial, settings.linear_se)
        (kept if better or trial.name == "linear" else search.lost).append(trial)
    return kept
