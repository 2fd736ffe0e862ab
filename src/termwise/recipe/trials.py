"""Trials: a dictionary and a target, cross-validated at every size, and the stacked ensemble of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import entropy

from termwise._numerics import ERROR_DIGITS, EXACT_FIT_ERROR, FLOAT64, ROUNDING_SHARE
from termwise.linalg.calibration import calibrate, calibrated_losses
from termwise.linalg.criteria import excess
from termwise.linalg.losses import LINKS, Loss
from termwise.recipe.cross_validation import CrossValidatedPath, ensemble_paths, readable_size
from termwise.recipe.dictionaries import DICTIONARIES
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.targets import REFERENCES, Member, stacking_weights

Floats = NDArray[np.float64]


class Objective(NamedTuple):
    """What terms are selected for."""

    target: str  # "data", "ridge", "boosting" or "estimator"
    alpha: float | None = None  # penalty of the weights of standardised columns; None: that of the recipe


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
    alpha: float | None = None  # penalty of the weights of standardised columns; None: that of the recipe
    link: str = "identity"  # "log": Y are logarithms of the targets, on whose scale the losses are
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
            bounded = map(self.loss.within_range, predictions)  # as responses are: exponentials would overflow
            return np.stack([self.loss.error(Y, eta) for eta in bounded]) / self.null_loss
        if not self.labels:
            if self.link == "log":
                Y, predictions = LINKS["log"](Y), self.factors(predictions) * LINKS["log"](predictions)
            rounding = (ROUNDING_SHARE[FLOAT64] * np.abs(Y).max(axis=0)) ** 2  # of constant targets and their mean
            variance = np.maximum(share @ (Y - share @ Y) ** 2, np.maximum(rounding, np.finfo(np.float64).tiny))
            return np.mean((Y - predictions) ** 2 / variance, axis=2)
        return calibrated_losses(predictions, Y, self.sample_weight) / self.null_loss

    def factors(self, predictions: Floats) -> Floats:
        """Return the factors for which exponentials of predictions, (k, n, q), have the mean of the targets, (k, 1, q).

        The exponential of the mean of logarithms is less than the mean.
        """
        total = np.einsum("i,ij->j", self.share, LINKS["log"](self.Y))
        return (total / np.einsum("i,kij->kj", self.share, LINKS["log"](predictions)))[:, None]

    def shift(self, k: int) -> Floats:
        """Return what is added to logarithms predicted with k terms so that their exponentials have the right mean."""
        return np.log(np.mean([self.factors(one[None])[0, 0] for one in self.scores(k)], axis=0))

    @cached_property
    def errors(self) -> Floats:
        """Mean loss at every size, (k + 1,)."""
        return self.losses @ self.share

    def scores(self, k: int) -> list[Floats]:
        """Out-of-fold predictions with k terms, (n, q), in each repeat."""
        return [one.prediction(k, self.Y) for one in self.repeats]

    def calibration(self, max_terms: int) -> list[tuple[float, Floats]]:
        """Slope and shift of the probabilities at every size."""
        return [self.calibration_at(k) for k in range(min(max_terms, len(self.losses) - 1) + 1)]

    def calibration_at(self, k: int) -> tuple[float, Floats]:
        """Slope and shift of the probabilities with k terms, from the out-of-fold scores of all repeats."""
        if k not in self.calibrations:
            Y, weight = np.tile(self.Y, (len(self.repeats), 1)), np.tile(self.sample_weight, len(self.repeats))
            self.calibrations[k] = calibrate(np.concatenate(self.scores(k)), Y, weight)
        return self.calibrations[k]

    @cached_property
    def inputs(self) -> list[list[tuple[int, ...]]]:
        """The inputs of every term, in order, in each fold of the first cross-validation."""
        bases = [path.terms for path in self.repeats[0].paths]
        return [[] if one is None else one.inputs_of(np.arange(one.n_functions)) for one in bases]

    def readable_size(self, max_effects: int) -> int:
        """Largest number of terms in at most `max_effects` effects; median over folds."""
        return int(np.median([readable_size(terms, max_effects) for terms in self.inputs]))

    def compared_with(self, losses: Floats) -> tuple[Floats, Floats]:
        """Return the excess loss of every size over a model with these losses, and its standard error."""
        return excess(self.losses, losses, self.share, float(self.sample_weight.sum()))

    def on_rows(self, rows: NDArray[np.bool_]) -> Self:
        """Return the trial with the losses of these samples alone."""
        return replace(self, sample_weight=np.where(rows, self.sample_weight, 0.0))

    def improves(self, share: float) -> bool:
        """Whether the error is smallest near the end of the path, beyond this share of its length."""
        return bool(self.errors.argmin() >= share * (len(self.losses) - 1))

    def is_worse(self, other: Trial, max_se: float, gain: float = 0.0) -> bool:
        """Whether it is, both at their best sizes, worse than another trial by more than so many standard errors.

        The losses of the other trial are first reduced by the share `gain`.
        """
        if np.isinf(max_se):
            return False
        k = int(self.errors.argmin())
        more, error = self.compared_with((1 - gain) * other.losses[int(other.errors.argmin())])
        return bool(more[k] > max_se * error[k] + EXACT_FIT_ERROR)

    @property
    def objective(self) -> Objective:
        """What its terms are selected for."""
        return Objective(self.target, self.alpha)

    @property
    def title(self) -> str:
        """Its key in `trials_`."""
        parts = [self.name, *([] if self.target == "data" else [self.target]), *(["log"] * (self.link == "log"))]
        parts += [] if self.alpha is None else [f"penalty {self.alpha:g}"]
        return ", ".join(parts)

    @property
    def dictionaries(self) -> list[str]:
        """Names of the dictionaries that its terms are from."""
        return list(dict.fromkeys(member.name for member in self.members if member.size)) or [self.name]


def stackable(trials: list[Trial]) -> list[Trial]:
    """Return the trials whose predictions are on one scale, that of the targets."""
    own_scale = [one for one in trials if one.loss is None and one.alpha is None]
    return [one for one in own_scale if not (one.labels and one.target in REFERENCES)]


def residuals_of(trials: list[Trial]) -> tuple[list[int], Floats]:
    """Return the best size of each trial, and its weighted out-of-fold residuals there, (repeats, n, q, trials)."""
    Y, root = trials[0].Y, np.sqrt(trials[0].sample_weight)[:, None]
    sizes = [int(trial.errors.round(ERROR_DIGITS).argmin()) for trial in trials]
    parts = [[(Y - one.prediction(k, Y)) * root for one in t.repeats] for t, k in zip(trials, sizes, strict=True)]
    return sizes, np.stack(parts, axis=-1)


def ensemble_members(trials: list[Trial], settings: RecipeSettings) -> list[Trial]:
    """Return the trials that have a weight in the stacked ensemble of all."""
    if not (trials := stackable(trials)):
        return []
    weights = stacking_weights(residuals_of(trials)[1].reshape(-1, len(trials)), settings.min_member_weight)
    return [trial for trial, weight in zip(trials, weights, strict=True) if weight > 0]


def stack(trials: list[Trial], max_terms: int, settings: RecipeSettings) -> list[Trial]:
    """Cross-validate the stacked ensemble of trials of one link, each at its best size; nothing if it gains too little.

    The weights of a fold are fitted to the out-of-fold residuals of the other folds' samples.
    """
    if not (trials := stackable(trials)):
        return []
    Y, sample_weight, labels = trials[0].Y, trials[0].sample_weight, trials[0].labels
    sizes, residuals = residuals_of(trials)
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
    used = {member.name for member in members if member.size}
    names = [name for name in DICTIONARIES if name in used]
    name = " and ".join(one for one in names if not set(DICTIONARIES[one].contained_in) & set(names))
    paths = [replace(one, max_terms=min(max_terms, one.max_terms)) for one in paths]
    ensemble = Trial(name, "pooled", paths, Y, sample_weight, labels, members, link=trials[0].link)
    least = min(float(trial.errors.min()) for trial in trials)
    return [ensemble] if ensemble.errors.min() <= (1 - settings.min_gain) * least else []


def only_drawable(trials: list[Trial]) -> list[Trial]:
    """Return the trials whose terms are all functions of one or two inputs."""
    undrawable = {name for name, dictionary in DICTIONARIES.items() if not dictionary.drawable}
    return [trial for trial in trials if undrawable.isdisjoint(trial.dictionaries)]


def eliminate(trials: list[Trial], max_se: float, simpler_se: float = np.inf) -> list[Trial]:
    """Return the trials that are, at their best size, at most `max_se` standard errors worse than the best one.

    Beside a trial of a dictionary that it contains, a dictionary may be worse by at most `simpler_se` standard errors.
    """
    best = most_accurate_of(trials)
    kept = []
    for trial in trials:
        contained = {name for name, dictionary in DICTIONARIES.items() if trial.name in dictionary.contained_in}
        rivals = [(best, max_se), *((one, simpler_se) for one in trials if one.name in contained)]
        if not any(trial.is_worse(rival, limit) for rival, limit in rivals):
            kept.append(trial)
    return kept


def most_accurate_of(trials: Sequence[Trial]) -> Trial:
    """Return the trial with the smallest cross-validated error."""
    return min(trials, key=lambda trial: float(trial.errors.min()))


def lowest_error(trials: Sequence[Trial]) -> float:
    """Return the smallest cross-validated error of trials, infinite for none."""
    return min((float(trial.errors.min()) for trial in trials), default=np.inf)
