"""The error of the whole procedure: the choice of a model, repeated on bootstrap samples of out-of-fold losses."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from termwise._numerics import ERROR_DIGITS, EXACT_FIT_ERROR
from termwise.linalg.calibration import calibrate, left_out_losses
from termwise.linalg.criteria import excess, misclassified
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.size import SMALL_SIZES, RecipeOptions, choose_among, choose_trial
from termwise.recipe.trials import Trial, only_drawable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ProcedureError:
    """Error of the whole procedure, the choice of a trial and its size included."""

    error: float  # mean loss, as a share of that of the mean or of the class frequencies
    standard_error: float
    null_loss: float  # of labels: negative log-likelihood of the class frequencies
    error_rate: float | None  # of labels: share of misclassified samples
    sizes: NDArray[np.intp]  # number of terms chosen in each bootstrap sample

    @classmethod
    def from_losses(cls, trial: Trial, losses: Floats, wrong: Floats | None, sizes: NDArray[np.intp]) -> Self:
        """Return the means over the samples of a trial of their losses and, of labels, of their misclassifications."""
        share, n = trial.share, float(trial.sample_weight.sum())
        error = float(share @ losses)
        standard_error = float(np.sqrt(share @ (losses - error) ** 2 / n))
        rate = None if wrong is None else float(share @ wrong)
        return cls(error, standard_error, trial.null_loss, rate, sizes)


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
        cls,
        trials: list[Trial],
        order: NDArray[np.intp],
        options: RecipeOptions,
        settings: RecipeSettings,
        resolution: float = 0.0,
    ) -> Self:
        """Repeat the choice; rows are drawn in the given order, which does not depend on that of the data.

        Errors that differ by less than the `resolution`, a share of the smallest one, count as equal: then the first
        trial is chosen, whatever the rounding.
        """
        share, n = trials[0].share, len(trials[0].share)
        draws = np.empty((settings.n_bootstrap, n), dtype=np.intp)
        draws[:, order] = np.random.RandomState(0).multinomial(n, np.full(n, 1 / n), size=settings.n_bootstrap)
        weights = draws * share
        weights /= weights.sum(axis=1, keepdims=True)
        curves, chosen = [trial.losses @ weights.T for trial in trials], []
        if step := resolution * min(float(trial.errors.min()) for trial in trials):
            curves = [np.round(curve / step) * step for curve in curves]
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

    def most_chosen(self, share: float) -> list[int]:
        """Positions of the trials chosen most often, as few as are the choice of this share of the samples."""
        counts = Counter(place for place, _ in self.chosen).most_common()
        before = np.cumsum([0, *(count for _, count in counts)])[:-1]
        return [place for (place, _), others in zip(counts, before, strict=True) if others < share * len(self.chosen)]

    def weights(self) -> dict[tuple[int, int], Floats]:
        """For every model that was chosen, how often, with each row left out: shares of the row, (n,)."""
        total, found = self.left_out.sum(axis=0), dict[tuple[int, int], Floats]()
        for model, left_out in zip(self.chosen, self.left_out, strict=True):
            found[model] = found.get(model, 0.0) + left_out / total
        return found

    def log_odds(self, model: tuple[int, int]) -> list[Floats]:
        """Out-of-fold scores of a model in each repeat, calibrated on all rows: the scale of scores differs."""
        place, k = model
        slope, shift = self.trials[place].calibration_at(k)
        return [slope * (one + shift) for one in self.trials[place].scores(k)]

    @cached_property
    def parts(self) -> list[tuple[Floats, Floats]]:
        """Calibrated scores of every chosen model in each repeat, (n, q), and shares of the rows its choice left out.

        The shares of a row add up to one.
        """
        found = []
        for model, weight in self.weights().items():
            repeats = self.log_odds(model)
            found += [(one, weight / len(repeats)) for one in repeats]
        return found

    @cached_property
    def overconfidence(self) -> tuple[float, Floats]:
        """Slope and shift for calibrated scores of the chosen models, from the rows left out of the choice."""
        labels, sample_weight = self.trials[0].Y, self.trials[0].sample_weight
        used = [(scores, weight, weight > 0) for scores, weight in self.parts]
        return calibrate(
            np.concatenate([scores[rows] for scores, _, rows in used]),
            np.concatenate([labels[rows] for _, _, rows in used]),
            np.concatenate([(sample_weight * weight)[rows] for _, weight, rows in used]),
        )

    def calibration(self, trial: Trial, k: int) -> tuple[float, Floats]:
        """Slope and shift of the probabilities of a model, corrected for the choice."""
        (slope, shift), (factor, change) = trial.calibration_at(k), self.overconfidence
        return factor * slope, shift + change / slope

    def error(self) -> ProcedureError:
        """Return the mean loss of the chosen models over the rows left out, of labels also out of the calibration."""
        first, wrong = self.trials[0], None
        if first.labels:
            slope, shift = self.overconfidence
            losses = left_out_losses(self.parts, first.Y, first.sample_weight, slope, shift) / first.null_loss
            wrong = np.sum([weight * misclassified(scores + shift, first.Y) for scores, weight in self.parts], axis=0)
        else:
            losses = np.sum([weight * self.trials[i].losses[k] for (i, k), weight in self.weights().items()], axis=0)
        return ProcedureError.from_losses(first, losses, wrong, self.sizes)


def null_error(trial: Trial, sizes: NDArray[np.intp]) -> ProcedureError:
    """Return the cross-validated error without terms; of labels that of class frequencies, each sample left out.

    The class predicted is the most frequent one of all samples.
    """
    if not trial.labels:
        return ProcedureError.from_losses(trial, trial.losses[0], None, sizes)
    nothing, weight = np.zeros_like(trial.Y), trial.sample_weight
    parts = [(nothing, np.ones(len(nothing)))]
    slope, shift = calibrate(nothing, trial.Y, weight)
    losses = left_out_losses(parts, trial.Y, weight, slope, shift) / trial.null_loss
    return ProcedureError.from_losses(trial, losses, misclassified(nothing + shift, trial.Y), sizes)


def explains(trial: Trial, n_terms: int, settings: RecipeSettings) -> bool:
    """Whether terms are clearly better than none, sample by sample: the error of all choices may be that of one row.

    The limit is the number of standard errors at which trials are dropped, far beyond what the best of many trials
    reaches on noise.
    """
    losses, n = trial.losses, float(trial.sample_weight.sum())
    gain, error = excess(losses[0], losses[min(n_terms, len(losses) - 1)], trial.share, n)
    return bool(gain > settings.elimination_se * error + EXACT_FIT_ERROR)


def median_choice(
    trials: list[Trial], best: Trial, n_terms: int, sizes: NDArray[np.intp], settings: RecipeSettings
) -> tuple[Trial, int]:
    """Return the trial with the smallest error at the median of the bootstrap sizes, which varies less with the folds.

    The choice itself is kept if the other error is larger by more than the share `median_loss`.
    """
    drawable, k = only_drawable(trials), int(np.median(sizes))
    allowed = [trial for trial in (drawable if best in drawable else trials) if k < len(trial.errors)]
    if not allowed:
        return best, n_terms
    other = min(allowed, key=lambda trial: float(trial.errors[k].round(ERROR_DIGITS)))
    close = other.errors[k] <= (1 + settings.median_loss) * best.errors[n_terms] + EXACT_FIT_ERROR
    return (other, k) if close else (best, n_terms)


def choose_corrected(
    trials: list[Trial], order: NDArray[np.intp], options: RecipeOptions, settings: RecipeSettings
) -> tuple[Trial, int, BootstrapChoices, ProcedureError]:
    """Return the best trial, its number of terms, and the choices in bootstrap samples with their error."""
    place, n_terms = choose_among(trials, options, settings)
    best, bootstrap = trials[place], BootstrapChoices.draw(trials, order, options, settings)
    procedure = bootstrap.error()
    if options.size in SMALL_SIZES:
        best, n_terms = median_choice(trials, best, n_terms, procedure.sizes, settings)
    null = null_error(best, procedure.sizes)
    if isinstance(options.size, str) and procedure.error >= null.error and not explains(best, n_terms, settings):
        n_terms, procedure = 0, null
    return best, n_terms, bootstrap, procedure


def is_close(sizes: NDArray[np.intp], settings: RecipeSettings) -> bool:
    """Whether the sizes chosen in bootstrap samples differ by more than a factor, but for a tenth at either end."""
    low, high = np.quantile(sizes, [0.1, 0.9])
    return bool(high > settings.close_ratio * max(low, 1))
