"""Prediction intervals from residuals of models that were fitted without the sample: jackknife+ and CV+.

Let `f_{-i}` be the model fitted without sample i and `e_i = y_i - f_{-i}(x_i)`. For n samples and
`delta = 1 - coverage` the jackknife+ interval of Barber, Candes, Ramdas and Tibshirani (2021) is

    [ q-{ f_{-i}(x) - |e_i| },  q+{ f_{-i}(x) + |e_i| } ],
    q+ the value of rank ceil((1 - delta)(n + 1)),    q- that of rank floor(delta (n + 1)).

A one-sided bound takes the signed residuals, `q+{ f_{-i}(x) + e_i }`. Normalised intervals have `e_i s_{-i}(x) /
s_{-i}(x_i)` in place of `e_i`, where the scale `s_{-i}` was estimated without the sample.

CV+ has K models `f_{-k}`, fitted without a fold of `n / K` samples, in place of the n models. Under selection of terms
these differ much more from each other than models that lack a single sample, and intervals that treat one as the other
are far too wide where the models of the folds have few terms in common. To first order the effects of the samples of a
fold add up, so that here every sample has the mean effect of its fold,

    f_{-i}(x) = f(x) + K/n (f_{-k}(x) - f(x)),    i in fold k, f the model of all samples.

For K = n this is jackknife+ with the selection repeated, and has its guarantee; for fewer folds coverage was measured
(benchmarks/trust_intervals.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import row_blocks
from termwise._checks import check_bool, check_choice, check_number
from termwise._numerics import RANK_TOLERANCE
from termwise.linalg.least_squares import least_squares_problem
from termwise.linalg.losses import weighted_quantile
from termwise.linalg.spectrum import Spectrum, best_alpha

Floats = NDArray[np.float64]

SIDES = ("two-sided", "lower", "upper")
MAX_FOLD_RESIDUALS = 500  # of a fold with more, as many quantiles: the level of an end is off by 0.001 at most
SCALE_RANGE = 10.0  # factor around the typical size of a residual that the scale stays within


def check_interval(coverage: Any, side: Any, normalised: Any) -> None:
    """Validate the parameters of intervals."""
    check_number("coverage", coverage, above=0, below=1, remedy="0.9 gives 90 % intervals")
    check_choice("side", side, SIDES, remedy="'lower' and 'upper' are one-sided bounds")
    check_bool("normalised", normalised, remedy="True is for noise whose size varies")


def order_statistic(values: Floats, sample_weight: Floats, coverage: float) -> Floats:
    """Return `q+` of every row of values, (m, n), infinite where its rank exceeds the number of samples.

    The number of samples and the rank count frequency weights.
    """
    n = sample_weight.sum()
    rank = np.ceil(n + 1 - (1 - coverage) * (n + 1) - RANK_TOLERANCE)
    if rank > n + RANK_TOLERANCE:
        return np.full(len(values), np.inf)
    if np.all(sample_weight == 1):
        return np.partition(values, int(rank) - 1, axis=1)[:, int(rank) - 1]
    order = np.argsort(values, axis=1)
    reached = np.cumsum(sample_weight[order], axis=1) >= rank - RANK_TOLERANCE
    position = np.take_along_axis(order, np.argmax(reached, axis=1)[:, None], axis=1)
    return np.take_along_axis(values, position, axis=1)[:, 0]


def interval_ends(
    without: Floats, residuals: Floats, sample_weight: Floats, coverage: float, side: str
) -> tuple[Floats, Floats]:
    """Ends of the intervals of one output.

    Parameters
    ----------
    without : (m, n) predictions for m rows by the model without sample i.
    residuals : (n,) residuals `e_i`, or (m, n) for each row.
    sample_weight : (n,) frequency weights.
    coverage : nominal coverage.
    side : one of `SIDES`; the other end of a one-sided interval is infinite.
    """
    infinite = np.full(len(without), np.inf)
    if side == "lower":
        return -order_statistic(-without - residuals, sample_weight, coverage), infinite
    if side == "upper":
        return -infinite, order_statistic(without + residuals, sample_weight, coverage)
    size = np.abs(residuals)
    lower = -order_statistic(size - without, sample_weight, coverage)
    return lower, order_statistic(without + size, sample_weight, coverage)


def cv_plus(
    center: Floats,
    outputs: Floats,
    fold: NDArray[np.intp],
    residuals: Floats,
    sample_weight: Floats,
    coverage: float,
    side: str,
    scales: Floats | None = None,
) -> Floats:
    """Ends of CV+ intervals, (2, m, q).

    Parameters
    ----------
    center : (m, q) outputs of the model of all samples for m rows.
    outputs : (K, m, q) outputs of the model of each fold.
    fold : (n,) fold of each sample.
    residuals : (n, q) out-of-fold residuals; with `scales`, divided by the scale.
    sample_weight : (n,) frequency weights.
    coverage, side : as in `interval_ends`.
    scales : (K, m, q) scale of the residuals for the m rows, of a normalised interval.
    """
    without = center + min(1.0, len(outputs) / sample_weight.sum()) * (outputs - center)
    ends = np.empty((2, *center.shape))
    for block in row_blocks(len(center), len(fold)):
        for j in range(center.shape[1]):
            e = residuals[:, j] if scales is None else residuals[:, j] * scales[fold, block, j].T
            ends[:, block, j] = interval_ends(without[fold, block, j].T, e, sample_weight, coverage, side)
    return ends


def thin(values: Floats, sample_weight: Floats, size: int) -> Floats:
    """Return `size` quantiles of every column of values, of equal weight, (size, q)."""
    columns = []
    for column in values.T:
        order = np.argsort(column)
        levels = (np.arange(size) + 0.5) / size * sample_weight.sum()
        columns.append(column[order][np.searchsorted(np.cumsum(sample_weight[order]), levels)])
    return np.column_stack(columns)


@dataclass(frozen=True)
class ResidualScale:
    """The size of residuals as a function of the terms of a model: `log s = g V + c`, within limits."""

    weights: Floats  # (k, q), V
    intercept: Floats  # (q,), c
    limits: Floats  # (2, q), the lowest and the highest `log s`

    @classmethod
    def fit(cls, G: Floats, residuals: Floats, sample_weight: Floats) -> ResidualScale:
        """Ridge regression of `log |e|` on the terms, at the penalty with the least leave-one-out error.

        The logarithm keeps outliers from dominating the fit; a residual near zero says little about the scale, and
        counts as `1 / SCALE_RANGE` of the median. Where no penalty generalises, the scale is constant. It stays within
        its range over the samples, and within the factor `SCALE_RANGE` of the median.
        """
        size, k = np.abs(residuals), G.shape[1]
        typical = np.maximum(weighted_quantile(size, sample_weight, 0.5), np.finfo(np.float64).tiny)
        y = np.log(np.maximum(size, typical / SCALE_RANGE))
        weights, intercept = np.zeros((k, y.shape[1])), (sample_weight @ y) / sample_weight.sum()
        share = sample_weight / sample_weight.sum()
        deviations = np.sqrt(share @ (G - share @ G) ** 2)
        unit = np.where(deviations > 0, deviations, 1.0)
        for j in range(y.shape[1] if k else 0):
            problem = least_squares_problem(G / unit, y[:, j : j + 1], sample_weight, intercept=True)
            spectrum = Spectrum(problem)
            alpha = best_alpha(spectrum, "loo")
            if np.isfinite(alpha):
                slopes = spectrum.solution(alpha).weights[:, 0]
                weights[:, j], intercept[j] = slopes / unit, problem.Y_mean[0] - problem.G_mean @ slopes
        fitted, middle = G @ weights + intercept, np.log(typical)
        low = np.maximum(fitted.min(axis=0), middle - np.log(SCALE_RANGE))
        high = np.minimum(fitted.max(axis=0), middle + np.log(SCALE_RANGE))
        return cls(weights, intercept, np.array([np.minimum(low, high), high]))

    def evaluate(self, G: Floats) -> Floats:
        """Return the scale for rows of the terms, (m, q)."""
        return np.exp(np.clip(G @ self.weights + self.intercept, *self.limits))
