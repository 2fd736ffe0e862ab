"""Stage one: the labels filtered through the singular vectors of the design matrix (Hong, Chen and Harris 2013).

With `G = U diag(s) V'` and `g = U'y`, the naive elastic net on the singular vectors, Hong (8), is solved by Hong (11),

    c_i = (|g_i| - t)_+ sign(g_i) / (1 + lambda_2),    t = lambda_1 / 2,

and the prefiltered signal is `y_pre = U c`. The leave-one-out score of sample k, with the signs unchanged, Hong (34),
has the sign of Hong (37),

    margin_k = y_k s_k - h_k,    s_k = sum over |g_i| > t of (g_i - t sign g_i) u_ki,    h_k = sum of u_ki^2:

lambda_2 scales both terms by the same factor and cancels, so the rate J of leave-one-out errors depends on t only. With
the directions sorted by |g|, the first m are active while t lies in the interval `[|g_m+1|, |g_m|)`. There every margin
is linear in t; J is piecewise constant, with breakpoints at the roots, and one sweep over all of them finds its
minimum.

Two ends of the range are not models: above |g_1| no direction is active, and where Hong (34) fails for many samples the
formula is far too optimistic. Hong (34) requires that leaving out k takes no coefficient across the threshold,

    active:  sign(g_i) (g_i - u_ki e_k) > t,      inactive:  |g_i - u_ki e_k| <= t,

with `e_k` the leave-one-out residual, Hong (33). An interval is eligible if Hong (34) holds for two samples of three at
its midpoint.

An intercept is one more direction, `z_0 = 1/sqrt(n)`, exempt from lambda_1. Weights are frequency weights.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    as_float64,
    at,
    at_least,
    copied,
    from_host,
    is_foreign,
    namespace,
    put,
    row_squares,
    running_sums,
    send,
    to_host,
    total,
    zeros,
)
from termwise._numerics import GRAM_SINGULAR_MIN, LEVERAGE_GAP_MIN, RATE_TIE, ROOT_GAP_MIN, SCORE_ZERO
from termwise.linalg.criteria import misclassified
from termwise.linalg.least_squares import Problem
from termwise.linalg.two_stage import Change

Floats = NDArray[np.float64]

INTERIOR_SHARE = 1e-3  # distance of t from the upper end of its segment, as a share of it: safe from rounding
MAX_VIOLATIONS = 1 / 3  # share of the samples for which Hong (34) may fail
MAX_STORED = 1 << 28  # bytes of the ordered directions of all outputs that are stored beyond the search for t
CHUNK, DEVICE_CHUNK = 1 << 17, 1 << 24  # entries of an array in the sweep, which holds ten at a time


def singular_vectors(G: Array, tol: float) -> Array:
    """Left singular vectors of G, of singular values above `tol` times the largest, and above rounding."""
    xp, (n, p) = namespace(G), G.shape
    tol = max(tol, max(n, p) * np.finfo(np.float64).eps)
    if tol < GRAM_SINGULAR_MIN:
        U, s, _ = xp.linalg.svd(G, full_matrices=False)
        s = to_host(s)
        return U[:, : int(np.sum(s > tol * s.max(initial=0.0)))]
    e, E = xp.linalg.eigh(G.T @ G if p < n else G @ G.T)
    mu = to_host(e)
    keep = np.flatnonzero(mu > tol**2 * mu.max(initial=0.0))[::-1].copy()
    E = at(E, keep, axis=1)
    return G @ (E / from_host(np.sqrt(mu[keep]), E)) if p < n else E


class Segment(NamedTuple):
    """A range of t in which J is constant."""

    rate: float
    low: float
    high: float
    m: int  # number of active directions
    t: float  # the largest of the segment, but for rounding


class Prefilter:
    """Labels of one class against the rest, in the directions of singular vectors sorted by their `|g|`."""

    def __init__(self, U: Array, problem: Problem, output: int) -> None:
        rows, root = problem.rows, problem.rows.sample_weight**0.5
        g = to_host(U.T @ problem.Y[:, output])
        order = np.argsort(-np.abs(g), kind="stable")
        self.sample_weight, self.n, self.single = rows.sample_weight, rows.n, rows.single
        self.g, self.size, self.sign = g[order], np.abs(g[order]), np.sign(g[order])  # on the host, which chooses t
        self.lower = np.append(self.size[1:], 0.0)  # lower ends of the intervals, |g_m+1|
        self.U, self.root, self.order = U, root, order
        self.V: Array | None = None
        self.V = self.directions(len(g))
        self.mean = float(problem.Y_mean[output])
        self.y = namespace(U).sign(problem.Y[:, output] / root + self.mean)
        self.h0 = rows.intercept / self.n
        self._valid: dict[int, bool] = {}  # results of `sign_condition_holds`

    def directions(self, m: int) -> Array:
        """Return the first m singular vectors in the order of `|g|`, (n, m), with the rows of single samples."""
        return at(self.U, self.order[:m], axis=1) / self.root[:, None] if self.V is None else self.V[:, :m]

    def release(self) -> None:
        """Store the directions no longer, which are computed from those of all outputs when they are needed."""
        self.V = None

    # -- at one t ------------------------------------------------------------------------------------------------------

    def active(self, t: float) -> int:
        """Return the number of active directions."""
        return int(np.searchsorted(-self.size, -t))

    def signal(self, t: float) -> Array:
        """`y_pre` with `lambda_2 = 0`, Hong (11)."""
        m = self.active(t)
        return self.mean + self.directions(m) @ from_host(self.g[:m] - t * self.sign[:m], self.U)

    def leverage(self, t: float) -> Array:
        """h, of a single repeat."""
        return self.single * (self.h0 + row_squares(self.directions(self.active(t))))

    def rate(self, t: float) -> float:
        """J: share of leave-one-out errors, Hong (24) with Hong (37); a sample with leverage 1 is an error."""
        h = self.leverage(t)
        errors = (self.y * (self.signal(t) + SCORE_ZERO) < h) | (h > 1 - LEVERAGE_GAP_MIN)
        return float(as_float64(errors) @ self.sample_weight) / self.n

    def residual(self, t: float, lambda_2: float = 0.0) -> Array:
        """Leave-one-out residuals, Hong (33): `r / leverage_gap`, Orr (5.1), fit and leverage shrunk by lambda_2."""
        shrink = 1 / (1 + lambda_2)
        gap = at_least(1 - shrink * self.leverage(t), LEVERAGE_GAP_MIN)
        return (self.y - shrink * self.signal(t)) / gap

    def violations(self, t: float, lambda_2: float = 0.0) -> float:
        """Share of the samples for which Hong (34) fails."""
        xp, m, removed = namespace(self.U), self.active(t), self.single * self.residual(t, lambda_2)
        g, sign = send(self.U, self.g, self.sign[:m])
        without = g - self.directions(len(self.g)) * removed[:, None]
        fails = xp.any(without[:, :m] * sign <= t, axis=1) | xp.any(xp.abs(without[:, m:]) > t, axis=1)
        return float(as_float64(fails) @ self.sample_weight) / self.n

    def cost(self, t: float) -> float:
        """J in eligible intervals, else infinite: the objective of a search."""
        m = self.active(t)
        return self.rate(t) if m and t > ROOT_GAP_MIN * self.size[0] and self.is_eligible(m) else np.inf

    # -- over all t ----------------------------------------------------------------------------------------------------

    def sign_condition_holds(self, m: int) -> bool:
        """Whether Hong (34) holds for enough samples at the midpoint of the interval with m active directions."""
        if m not in self._valid:
            high, low = float(self.size[m - 1]), float(self.lower[m - 1])
            wide = bool(high - low > ROOT_GAP_MIN * self.size[0])
            self._valid[m] = wide and self.violations((high + low) / 2) <= MAX_VIOLATIONS
        return self._valid[m]

    def is_eligible(self, m: int) -> bool:
        """Whether a search may use the interval with m active directions: all, where Hong (34) holds in none."""
        holds = self.sign_condition_holds
        return holds(m) or not any(holds(other) for other in range(1, len(self.g) + 1))

    def best(self) -> Segment:
        """Return the segment with the smallest J in an eligible interval; of equals that of the largest t."""
        rate, low, high, m = self.sweep()
        xp = namespace(rate)
        remaining = xp.round(rate / RATE_TIE)
        i = smallest = int(xp.argmin(remaining))
        while float(remaining[i]) < np.inf and not self.sign_condition_holds(int(m[i])):
            remaining = put(remaining, m == m[i], np.inf)
            i = int(xp.argmin(remaining))
        i = i if float(remaining[i]) < np.inf else smallest
        lower, upper = float(low[i]), float(high[i])
        return Segment(float(rate[i]), lower, upper, int(m[i]), t=upper - INTERIOR_SHARE * (upper - lower))

    def sweep(self) -> tuple[Array, Array, Array, Array]:
        """Return J, the ends and m of every segment, in descending order of t, by chunks of intervals.

        J is that of `rate`, Hong (24) with Hong (37): the margins of all intervals follow from running sums over the
        directions, as functions of t.
        """
        directions, n = self.directions(len(self.g)), self.U.shape[0]
        xp, step = namespace(self.U), max(1, (DEVICE_CHUNK if is_foreign(self.U) else CHUNK) // n)
        fit, slope = self.y * (self.mean + SCORE_ZERO), zeros((n,), self.U)
        h = slope + self.h0
        parts = []
        for first in range(0, len(self.g), step):  # an interval is a row, a sample a column
            part = slice(first, min(first + step, len(self.g)))
            g, sign, low, high = send(self.U, self.g[part], self.sign[part], self.lower[part], self.size[part])
            V = directions[:, part].T
            yV = V * self.y
            fits = running_sums(yV * g[:, None], axis=0) + fit
            slopes = running_sums(yV * sign[:, None], axis=0) + slope
            leverages = running_sums(V * V, axis=0) + h
            fit, slope, h = fits[-1, :], slopes[-1, :], leverages[-1, :]
            leverages = self.single * leverages
            saturated = leverages > 1 - LEVERAGE_GAP_MIN  # leverage 1: an error at every t
            margins, slopes = put(fits - leverages, saturated, -1.0), put(slopes, saturated, 0.0)
            parts.append(self._segments(margins, slopes, low, high, first + 1))
        rate, low, high, m = (xp.concat(arrays) for arrays in zip(*parts, strict=True))
        wide = xp.nonzero(high - low > ROOT_GAP_MIN * float(self.size[0]))[0]
        return at(rate, wide), at(low, wide), at(high, wide), at(m, wide)

    def _segments(
        self, margins: Array, slopes: Array, low: Array, high: Array, first: int
    ) -> tuple[Array, Array, Array, Array]:
        """Split intervals at the roots of `margins - t slopes`, where the error indicator of a sample changes.

        Each interval begins where the one above it ends, so that all upper ends and roots in one descending sequence
        are the upper ends of the segments, and each lower end is the upper end of the next.
        """
        xp, low, high = namespace(margins), low[:, None], high[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):  # constant margins have no root
            roots = margins / slopes
        inside = (roots > low) & (roots < high)
        wrong = xp.where(inside, slopes > 0, margins < (low + high) / 2 * slopes)  # in the first segment
        interval, sample = xp.nonzero(inside)
        changes = -xp.sign(slopes[inside]) * at(self.sample_weight, sample)
        every = from_host(np.arange(inside.shape[0]), margins)
        upper = xp.concat([high[:, 0], roots[inside]])
        order = xp.argsort(-upper, stable=True)
        upper, interval = at(upper, order), at(xp.concat([every, interval]), order)
        changed = running_sums(at(xp.concat([zeros(every.shape, margins), changes]), order), axis=0)
        before = at(changed, xp.searchsorted(interval, every))  # up to the upper end of each interval
        errors = changed + at(as_float64(wrong) @ self.sample_weight - before, interval)
        return errors / self.n, xp.concat([upper[1:], low[-1, :]]), upper, interval + first


class FilteredSignal:
    """The prefiltered signals of all outputs, with their leave-one-out residuals and errors.

    Arrays with an entry per sample are on the device of the labels, those with an entry per output on the host.

    Parameters
    ----------
    filters : list of Prefilter, one for each output.
    t : (q,) thresholds, lambda_1 / 2.
    lambda_2 : (q,) shrinkage.
    labels : (n, q), -1 and +1.
    sample_weight : (n,) frequency weights.

    Attributes
    ----------
    signal, residual : (n, q) `y_pre` and its leave-one-out residuals.
    level : (q,) mean of `y_pre` where there is an intercept, else zero.
    power : sum of the squares of `y_pre - level`, averaged over the outputs.
    error_rate : share of leave-one-out errors, J, or with several classes that of the largest output.
    mean_squared_error : of leave-one-out.
    """

    def __init__(
        self, filters: list[Prefilter], t: Floats, lambda_2: Floats, labels: Array, sample_weight: Array
    ) -> None:
        self.filters, self.t, self.lambda_2 = filters, t, lambda_2
        self.labels, self.sample_weight = labels, sample_weight
        xp, penalised = namespace(labels), list(zip(filters, t.tolist(), lambda_2.tolist(), strict=True))
        self.signal = xp.stack([f.signal(threshold) / (1 + shrink) for f, threshold, shrink in penalised], axis=1)
        self.residual = xp.stack([f.residual(threshold, shrink) for f, threshold, shrink in penalised], axis=1)
        self.level = np.array([f.mean for f in filters]) / (1 + lambda_2)
        squares = xp.mean((self.signal - from_host(self.level, labels)) ** 2, axis=1)
        self.power = float(sample_weight @ squares)
        self.mean_squared_error = float(sample_weight @ xp.mean(self.residual**2, axis=1)) / total(sample_weight)
        one_output = len(filters) == 1
        self.error_rate = filters[0].rate(float(t[0])) if one_output else float(self.rates(labels - self.residual))

    def change(self, j: int) -> Change:
        """Decrease of output j of the signal when a sample is left out, along its active singular vectors."""
        prefilter, t, lambda_2 = self.filters[j], float(self.t[j]), float(self.lambda_2[j])
        V = prefilter.directions(prefilter.active(t))
        removed = prefilter.single * prefilter.residual(t, lambda_2) / (1 + lambda_2)
        return Change(removed * prefilter.h0, V, V * removed[:, None])

    def violations(self) -> float:
        """Share of the samples for which Hong (34) fails, averaged over the outputs."""
        penalised = zip(self.filters, self.t.tolist(), self.lambda_2.tolist(), strict=True)
        return float(np.mean([prefilter.violations(t, lambda_2) for prefilter, t, lambda_2 in penalised]))

    def rates(self, scores: Array) -> Array:
        """Share of samples that scores (..., n, q) put into the wrong class."""
        return as_float64(misclassified(scores, self.labels)) @ self.sample_weight / total(self.sample_weight)

    def active_only(self) -> FilteredSignal:
        """Return a copy without inactive directions, which only a search needs."""
        reduced = copy.copy(self)
        reduced.filters = []
        for prefilter, t in zip(self.filters, self.t.tolist(), strict=True):
            kept, m = copy.copy(prefilter), prefilter.active(t)
            kept.g, kept.size = kept.g[:m], kept.size[:m]
            kept.sign, kept.order = kept.sign[:m], kept.order[:m]
            if kept.V is not None:  # else the directions of all outputs are kept, once
                kept.U = kept.V = copied(kept.V[:, :m])
            reduced.filters.append(kept)
        return reduced
