"""Losses of generalised linear models: what a linear predictor costs, its derivatives and its deviance.

The linear predictors `eta`, (n, q), are `offset + intercept + G w`. A loss is a convex function of one row of targets
and of eta; with frequency weights f the models minimise

    sum_i f_i value(y_i, eta_i) + alpha / 2 sum_j sd_j^2 |w_j|^2,

sd_j the standard deviation of column j: the penalty acts on the weights of standardised columns. Selection needs a
bound h on the curvature, `value(eta + d) <= value(eta) + gradient'd + h |d|^2 / 2`, by which every step of a path is a
least-squares step with constant weights (`selection.glm`): 1/4 for the logistic loss, 1/2 for the multinomial one
(Boehning 1992), 1 for Huber's. The curvature of the Poisson and the gamma loss has no bound; their `metric` is the
expected curvature (Fisher information), which is one for gamma and the mean for Poisson.

| loss | value | link |
|---|---|---|
| squared | `(y - eta)^2 / 2` | identity |
| logistic | `log(1 + exp(-y eta))`, y in {-1, +1}, or the probability `(1 + y) / 2` between | logit |
| multinomial | `log sum exp(eta) - eta_class` | softmax |
| poisson | `exp(eta) - y eta` | log |
| gamma | `y exp(-eta) + eta` | log |
| huber | `u^2 / 2` for `u = |y - eta| <= d`, else `d (u - d / 2)` | identity |
| quantile | the pinball loss, smoothed by a logistic kernel | identity |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

from termwise._arrays import namespace, precision
from termwise._numerics import FLOAT64, LOG_RESPONSE_MAX, RESIDUAL_SCALE_MIN

Floats = NDArray[np.float64]

HUBER_THRESHOLD = 1.345  # in standard deviations of the noise: 95 % efficient for Gaussian noise (Huber 1964)
QUANTILE_BANDWIDTH = 0.1  # of the same: moves a 0.9 quantile of Gaussian noise by a fiftieth of it
NORMAL_MAD = 0.6744897501960817  # median absolute deviation of the standard normal distribution
SCALE_STEP = 4.0  # factor by which the scale falls at a time, so that residuals stay within the reach of the kernel
EMPTY_COUNT = 0.5  # samples (or counts) that the start for a class without samples assumes


def softmax(eta: Floats) -> Floats:
    """Probabilities of the classes in the columns of eta; faster for few columns than SciPy's function."""
    p = np.exp(eta - reduce(np.maximum, eta.T)[:, None])
    return p / (p @ np.ones((eta.shape[1], 1)))


def bounded_exp(eta: Any, dtype: Any = FLOAT64) -> Any:
    """Exponential function up to the largest response that a dtype is used for: far from the data it stays finite."""
    xp = namespace(eta)
    return xp.exp(xp.clip(eta, None, LOG_RESPONSE_MAX[precision(dtype)]))


# Responses for linear predictors, in the range of a dtype.
LINKS: dict[str, Callable[..., Any]] = {
    "identity": lambda eta, dtype=FLOAT64: eta,
    "log": bounded_exp,
    "logit": lambda eta, dtype=FLOAT64: expit(eta),
    "softmax": lambda eta, dtype=FLOAT64: softmax(eta),
    "sorted": lambda eta, dtype=FLOAT64: namespace(eta).sort(eta, axis=-1),
}


@dataclass(frozen=True)
class Loss(ABC):
    """A loss of targets Y, (n, q), and linear predictors eta, (n, q)."""

    name: ClassVar[str]
    link: ClassVar[str]  # how linear predictors become responses, see `LINKS`
    curvature_bound: ClassVar[float | None]  # h; None where there is none
    constant_metric: ClassVar[bool] = True  # whether `metric` is the same for all models
    coupled: ClassVar[bool] = False  # whether the outputs of a sample are one distribution
    scale = 1.0  # size of the noise in the unit of the targets, for losses that depend on it
    fixed_dispersion: ClassVar[bool] = False  # whether the likelihood has no scale to estimate

    @abstractmethod
    def value(self, Y: Floats, eta: Floats) -> Floats:
        """Loss of every sample, summed over the outputs, (n,)."""

    @abstractmethod
    def gradient(self, Y: Floats, eta: Floats) -> Floats:
        """Derivative of the loss by eta, (n, q)."""

    @abstractmethod
    def curvature(self, Y: Floats, eta: Floats) -> Floats:
        """Second derivatives of the loss by each output, (n, q)."""

    @abstractmethod
    def null_eta(self, Y: Floats, sample_weight: Floats, offset: Floats) -> Floats:
        """Intercept of the model without terms, (q,): exact without an offset, else a start for its optimisation."""

    def deviance(self, Y: Floats, eta: Floats) -> Floats:
        """Twice the loss less that of an exact fit, which is zero unless overridden, for every sample, (n,)."""
        return 2 * self.value(Y, eta)

    @property
    def deviance_unit(self) -> float:
        """Twice the loss, but for that of an exact fit, over the deviance."""
        return 1.0

    def metric(self, Y: Floats, eta: Floats) -> Floats:
        """Weight of every sample, (n,), in the least-squares problem that chooses the next term."""
        return np.full(len(Y), self.curvature_bound or 1.0)

    def error(self, Y: Floats, eta: Floats) -> Floats:
        """Error of every sample, (n,), by which models of different sizes are compared."""
        return self.deviance(Y, eta)

    def rescaled(self, Y: Floats, eta: Floats, sample_weight: Floats) -> Self:
        """The loss for noise of the size of these residuals; most losses do not depend on it."""
        return self

    def within_range(self, eta: Floats) -> Floats:
        """Linear predictors, those of a log link bounded so that means and their reciprocals have squares."""
        largest = LOG_RESPONSE_MAX[FLOAT64] if self.link == "log" else np.inf
        return np.clip(eta, -largest, largest)

    def check(self, Y: Floats) -> None:  # noqa: B027 - most accept all finite targets
        """Raise unless the loss is defined for the targets."""


class Squared(Loss):
    """Half the squared error."""

    name, link, curvature_bound = "squared", "identity", 1.0

    def value(self, Y: Floats, eta: Floats) -> Floats:
        """`(y - eta)^2 / 2`."""
        return np.sum((Y - eta) ** 2, axis=1) / 2

    def gradient(self, Y: Floats, eta: Floats) -> Floats:
        """`eta - y`."""
        return eta - Y

    def curvature(self, Y: Floats, eta: Floats) -> Floats:
        """One."""
        return np.ones_like(eta)

    def null_eta(self, Y: Floats, sample_weight: Floats, offset: Floats) -> Floats:
        """The mean."""
        return sample_weight @ (Y - offset) / sample_weight.sum()


class Logistic(Loss):
    """Negative log-likelihood of two classes, coded -1 and +1; eta is the logarithm of the odds of +1.

    A target y between them means the probability `t = (1 + y) / 2` of +1, such as that of another model.
    """

    name, link, curvature_bound, fixed_dispersion = "logistic", "logit", 0.25, True

    def value(self, Y: Floats, eta: Floats) -> Floats:
        """`log(1 + exp(eta)) - t eta`, which is `log(1 + exp(-y eta))` for the classes themselves."""
        return np.sum(np.logaddexp(0.0, -eta) + (1 - Y) / 2 * eta, axis=1)

    def gradient(self, Y: Floats, eta: Floats) -> Floats:
        """Probability less t."""
        return expit(eta) - (1 + Y) / 2

    def curvature(self, Y: Floats, eta: Floats) -> Floats:
        """The variance of the class."""
        p = expit(eta)
        return p * (1 - p)

    def deviance(self, Y: Floats, eta: Floats) -> Floats:
        """Twice the negative log-likelihood, less the entropy of t."""
        t = (1 + Y) / 2
        return 2 * (self.value(Y, eta) + np.sum(xlogy(t, t) + xlogy(1 - t, 1 - t), axis=1))

    def null_eta(self, Y: Floats, sample_weight: Floats, offset: Floats) -> Floats:
        """Logarithm of the odds."""
        counts = sample_weight @ (1 + Y) / 2
        odds = np.maximum(counts, EMPTY_COUNT) / np.maximum(sample_weight.sum() - counts, EMPTY_COUNT)
        return np.log(odds) - sample_weight @ offset / sample_weight.sum()


class Multinomial(Loss):
    """Negative log-likelihood of more classes: one column each, +1 for the class of the sample and -1 for the others.

    Columns between these mean the probabilities `t = (1 + y) / 2` of the classes, which add up to one.
    """

    name, link, curvature_bound, coupled, fixed_dispersion = "multinomial", "softmax", 0.5, True, True

    def value(self, Y: Floats, eta: Floats) -> Floats:
        """`log sum exp(eta) - t'eta`."""
        rest = eta - reduce(np.maximum, eta.T)[:, None]
        ones = np.ones(eta.shape[1])
        return np.log(np.exp(rest) @ ones) - ((1 + Y) / 2 * rest) @ ones

    def gradient(self, Y: Floats, eta: Floats) -> Floats:
        """Probabilities less t."""
        return softmax(eta) - (1 + Y) / 2

    def curvature(self, Y: Floats, eta: Floats) -> Floats:
        """Variances of the indicators; the covariance of two classes is minus the product of their probabilities."""
        p = softmax(eta)
        return p * (1 - p)

    def deviance(self, Y: Floats, eta: Floats) -> Floats:
        """Twice the negative log-likelihood, less the entropy of t."""
        t = (1 + Y) / 2
        return 2 * (self.value(Y, eta) + xlogy(t, t).sum(axis=1))

    def null_eta(self, Y: Floats, sample_weight: Floats, offset: Floats) -> Floats:
        """Logarithms of the class frequencies, less their mean."""
        counts = sample_weight @ (1 + Y) / 2
        logs = np.log(np.maximum(counts, EMPTY_COUNT)) - sample_weight @ offset / sample_weight.sum()
        return logs - logs.mean()


class Poisson(Loss):
    """Negative log-likelihood of counts with the mean `exp(eta)`."""

    name, link, curvature_bound, constant_metric = "poisson", "log", None, False

    def value(self, Y: Floats, eta: Floats) -> Floats:
        """`exp(eta) - y eta`."""
        return np.sum(np.exp(eta) - Y * eta, axis=1)

    def gradient(self, Y: Floats, eta: Floats) -> Floats:
        """Mean less count."""
        return np.exp(eta) - Y

    def curvature(self, Y: Floats, eta: Floats) -> Floats:
        """The mean."""
        return np.exp(eta)

    def deviance(self, Y: Floats, eta: Floats) -> Floats:
        """`2 (y log(y / mean) - y + mean)`."""
        return 2 * np.sum(xlogy(Y, Y) - Y * eta - Y + np.exp(eta), axis=1)

    def null_eta(self, Y: Floats, sample_weight: Floats, offset: Floats) -> Floats:
        """Logarithm of the mean count, with an offset of counts by exposure; rates may add up to any small number."""
        total = sample_weight @ Y
        return np.log(np.where(total > 0, total, EMPTY_COUNT)) - np.log(sample_weight @ np.exp(offset))

    def metric(self, Y: Floats, eta: Floats) -> Floats:
        """The mean, averaged over the outputs."""
        return np.exp(eta).mean(axis=1)

    def check(self, Y: Floats) -> None:
        """Counts are not negative."""
        if Y.min(initial=0.0) < 0:
            raise ValueError(
                f"y must be >= 0 with loss='poisson', got {Y.min():g}: give counts, or use loss='squared' or 'huber'."
            )


class Gamma(Loss):
    """Deviance of positive targets with the mean `exp(eta)` and a constant coefficient of variation, over two."""

    name, link, curvature_bound = "gamma", "log", None

    def value(self, Y: Floats, eta: Floats) -> Floats:
        """`y exp(-eta) + eta`."""
        return np.sum(Y * np.exp(-eta) + eta, axis=1)

    def gradient(self, Y: Floats, eta: Floats) -> Floats:
        """`1 - y / mean`."""
        return 1 - Y * np.exp(-eta)

    def curvature(self, Y: Floats, eta: Floats) -> Floats:
        """`y / mean`, one on average."""
        return Y * np.exp(-eta)

    def deviance(self, Y: Floats, eta: Floats) -> Floats:
        """`2 (y / mean - 1 - log(y / mean))`."""
        return 2 * np.sum(Y * np.exp(-eta) - 1 - np.log(Y) + eta, axis=1)

    def null_eta(self, Y: Floats, sample_weight: Floats, offset: Floats) -> Floats:
        """Logarithm of the mean."""
        return np.log(sample_weight @ (Y * np.exp(-offset)) / sample_weight.sum())

    def check(self, Y: Floats) -> None:
        """Targets are positive."""
        if Y.min(initial=1.0) <= 0:
            raise ValueError(
                f"y must be > 0 with loss='gamma', got {Y.min():g}: use loss='poisson', which accepts zeros, or "
                "'squared'."
            )


@dataclass(frozen=True)
class Huber(Loss):
    """Squared error of small and absolute error of large residuals (Huber 1964).

    The threshold is `HUBER_THRESHOLD` times the scale of the noise, estimated by the median absolute residual of the
    model before; sizes of a path are compared by their absolute errors, which do not depend on it.
    """

    scale: float = 1.0
    least_scale: float = 0.0  # a share of the scale of the targets: residuals of an exact fit have none

    name, link, curvature_bound = "huber", "identity", 1.0

    @property
    def threshold(self) -> float:
        """Residual from which the loss is linear."""
        return HUBER_THRESHOLD * self.scale

    def value(self, Y: Floats, eta: Floats) -> Floats:
        """`u^2 / 2` up to the threshold d, `d (u - d / 2)` above."""
        u = np.abs(Y - eta)
        inner = np.minimum(u, self.threshold)
        return np.sum(inner * (u - inner / 2), axis=1)

    def gradient(self, Y: Floats, eta: Floats) -> Floats:
        """Minus the residual, clipped at the threshold."""
        return np.clip(eta - Y, -self.threshold, self.threshold)

    def curvature(self, Y: Floats, eta: Floats) -> Floats:
        """One up to the threshold, zero above."""
        return (np.abs(Y - eta) <= self.threshold).astype(np.float64)

    def error(self, Y: Floats, eta: Floats) -> Floats:
        """The absolute error."""
        return np.abs(Y - eta).sum(axis=1)

    def null_eta(self, Y: Floats, sample_weight: Floats, offset: Floats) -> Floats:
        """The median, where the optimisation starts."""
        return weighted_quantile(Y - offset, sample_weight, 0.5)

    def rescaled(self, Y: Floats, eta: Floats, sample_weight: Floats) -> Self:
        """Estimate the scale from the median absolute residual."""
        return with_residual_scale(self, Y - eta, sample_weight)


@dataclass(frozen=True)
class Quantile(Loss):
    """Pinball loss of one quantile for each output, smoothed, times the scale of the noise.

    Convolution with a logistic kernel of bandwidth `b = QUANTILE_BANDWIDTH scale` makes it convex and smooth (He, Pan,
    Tan and Zhou 2023): for a residual u and the level t the value is `scale (t u + b log(1 + exp(-u / b)))`, with
    curvature at most `scale / 4b`. The scale makes the meaning of the penalty independent of the unit of the targets.
    """

    levels: tuple[float, ...] = (0.5,)
    scale: float = 1.0
    least_scale: float = 0.0

    name, curvature_bound = "quantile", 0.25 / QUANTILE_BANDWIDTH

    @property
    def link(self) -> str:  # type: ignore[override]
        """Several quantiles of one target are sorted in predictions, so that they do not cross."""
        return "identity" if len(set(self.levels)) == 1 else "sorted"

    @property
    def bandwidth(self) -> float:
        """Bandwidth of the kernel, in the unit of the targets."""
        return QUANTILE_BANDWIDTH * self.scale

    @property
    def deviance_unit(self) -> float:
        """The scale."""
        return self.scale

    def value(self, Y: Floats, eta: Floats) -> Floats:
        """`scale (t u + b log(1 + exp(-u / b)))`."""
        u = (Y - eta) / self.bandwidth
        return self.scale * self.bandwidth * np.sum(np.array(self.levels) * u + np.logaddexp(0.0, -u), axis=1)

    def gradient(self, Y: Floats, eta: Floats) -> Floats:
        """`scale (probability that the smoothed residual is negative - t)`."""
        return self.scale * (expit((eta - Y) / self.bandwidth) - np.array(self.levels))

    def curvature(self, Y: Floats, eta: Floats) -> Floats:
        """`scale / b` times the density of the kernel."""
        p = expit((eta - Y) / self.bandwidth)
        return p * (1 - p) / QUANTILE_BANDWIDTH

    def deviance(self, Y: Floats, eta: Floats) -> Floats:
        """Twice the pinball loss, not smoothed."""
        u = Y - eta
        return 2 * np.sum(np.maximum(np.array(self.levels) * u, (np.array(self.levels) - 1) * u), axis=1)

    def null_eta(self, Y: Floats, sample_weight: Floats, offset: Floats) -> Floats:
        """The quantiles, where the optimisation starts."""
        columns = (Y - offset).T[:, :, None]
        pairs = zip(columns, self.levels, strict=True)
        return np.concatenate([weighted_quantile(column, sample_weight, level) for column, level in pairs])

    def rescaled(self, Y: Floats, eta: Floats, sample_weight: Floats) -> Self:
        """Estimate the scale from the median absolute residual, about the median residual."""
        u = Y - eta
        return with_residual_scale(self, u - weighted_quantile(u, sample_weight, 0.5), sample_weight)


def weighted_quantile(values: Floats, sample_weight: Floats, level: float) -> Floats:
    """Smallest entry of every column, (q,), at which the weights reach their share `level`."""
    order = np.argsort(values, axis=0)
    reached = np.cumsum(sample_weight[order], axis=0) >= level * sample_weight.sum()
    return np.take_along_axis(values, np.take_along_axis(order, reached.argmax(axis=0)[None], axis=0), axis=0)[0]


def with_residual_scale(loss: Any, residuals: Floats, sample_weight: Floats) -> Any:
    """Return the loss with the median absolute residual as a standard deviation, averaged over the outputs.

    It falls by the factor `SCALE_STEP` at most. Where half of the targets are equal, that of the model without terms is
    the mean absolute residual instead, and a small number where all are.
    """
    size = np.abs(residuals)
    scale = float(weighted_quantile(size, sample_weight, 0.5).mean()) / NORMAL_MAD
    if loss.least_scale:
        return replace(loss, scale=max(scale, loss.least_scale, loss.scale / SCALE_STEP))
    scale = scale or float((sample_weight @ size / sample_weight.sum()).mean()) or RESIDUAL_SCALE_MIN
    return replace(loss, scale=scale, least_scale=RESIDUAL_SCALE_MIN * scale)


LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (Squared, Logistic, Multinomial, Poisson, Gamma, Huber, Quantile)
}
