"""Stage one: the labels seen through the singular vectors of the design matrix (Hong, Chen and Harris 2013).

With `G = U diag(s) V'` and `g = U'y`, the naive elastic net on the singular vectors (8) has the solution (11)

    c_i = (|g_i| - t)_+ sign(g_i) / (1 + lambda_2),    t = lambda_1 / 2,

and the prefiltered signal is `y_pre = U c`. Leaving out sample k, with the signs (34) unchanged, has the sign of (37),

    margin_k = y_k s_k - h_k,    s_k = sum over |g_i| > t of (g_i - t sign g_i) u_ki,    h_k = sum of u_ki^2:

lambda_2 scales both terms alike and drops out, so the rate J of leave-one-out errors depends on t only. The directions
sorted by |g| make the active ones the first m while t lies in the interval `[|g_m+1|, |g_m|)`. There every margin is a
straight line in t; between the roots of these lines J is constant, and one sweep over all of them finds its minimum.

Two ends of the range are not models: above |g_1| nothing is active, and where (34) fails for many samples the formula
is far too optimistic. (34) says that leaving out k takes no coefficient across the threshold,

    active:  sign(g_i) (g_i - u_ki e_k) > t,      inactive:  |g_i - u_ki e_k| <= t,

with `e_k` the leave-one-out residual. An interval is trusted if, in the middle of it, that holds for two samples of
three.

An intercept is one more direction, `z_0 = 1/sqrt(n)`, exempt from lambda_1. Weights mean repetitions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

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

INTERIOR_SHARE = 1e-3  # how far below the upper end of its piece t is put, as a share of the piece: safe from rounding
MAX_VIOLATIONS = 1 / 3  # share of the samples for which (34) may fail
CHUNK, DEVICE_CHUNK = 1 << 17, 1 << 24  # numbers of an array in the sweep, of which there are ten at a time


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


@dataclass(frozen=True)
class Piece:
    """A range of t in which J is constant."""

    rate: float
    low: float
    high: float
    m: int  # number of active directions

    @property
    def t(self) -> float:
        """Largest t of the piece, but for rounding."""
        return self.high - INTERIOR_SHARE * (self.high - self.low)


class Prefilter:
    """Labels of one class against the rest, in the directions of singular vectors sorted by their `|g|`."""

    def __init__(self, U: Array, problem: Problem, output: int) -> None:
        rows, xp = problem.rows, namespace(U)
        root = rows.sample_weight**0.5
        g = to_host(U.T @ problem.Y[:, output])
        order = np.argsort(-np.abs(g), kind="stable")
        self.sample_weight, self.n = rows.sample_weight, rows.n
        self.single = rows.single
        self.g, self.size, self.sign = g[order], np.abs(g[order]), np.sign(g[order])  # these decide: in this process
        self.V = at(U, order, axis=1) / root[:, None]  # rows of single samples
        self.mean = float(problem.Y_mean[output])
        self.y = xp.sign(problem.Y[:, output] / root + self.mean)
        self.h0 = rows.intercept / self.n
        self._trust: dict[int, bool] = {}

    def first(self, m: int) -> Prefilter:
        """The same with the first m directions only."""
        other = copy.copy(self)
        other.V, other.g, other.size, other.sign = copied(self.V[:, :m]), self.g[:m], self.size[:m], self.sign[:m]
        return other

    # -- at one t ------------------------------------------------------------------------------------------------------

    def active(self, t: float) -> int:
        """Return the number of active directions."""
        return int(np.searchsorted(-self.size, -t))

    def signal(self, t: float) -> Array:
        """`y_pre` with `lambda_2 = 0`."""
        m = self.active(t)
        return self.mean + self.V[:, :m] @ from_host(self.g[:m] - t * self.sign[:m], self.V)

    def leverage(self, t: float) -> Array:
        """h, of a single repeat."""
        return self.single * (self.h0 + row_squares(self.V[:, : self.active(t)]))

    def rate(self, t: float) -> float:
        """J: share of leave-one-out errors, (24) with (37); a sample that only itself determines counts as one."""
        h = self.leverage(t)
        return self._share((self.y * (self.signal(t) + SCORE_ZERO) < h) | (h > 1 - LEVERAGE_GAP_MIN))

    def residual(self, t: float, lambda_2: float = 0.0) -> Array:
        """Leave-one-out residuals (33)."""
        shrink = 1 / (1 + lambda_2)
        gap = at_least(1 - shrink * self.leverage(t), LEVERAGE_GAP_MIN)
        return (self.y - shrink * self.signal(t)) / gap

    def violations(self, t: float, lambda_2: float = 0.0) -> float:
        """Share of the samples for which (34) fails."""
        xp, m, moved = namespace(self.V), self.active(t), self.single * self.residual(t, lambda_2)
        g, sign = send(self.V, self.g, self.sign[:m])
        without = g - self.V * moved[:, None]
        fails = xp.any(without[:, :m] * sign <= t, axis=1) | xp.any(xp.abs(without[:, m:]) > t, axis=1)
        return self._share(fails)

    def _share(self, where: Array) -> float:
        """Share of the samples, repetitions counted, that a mask selects."""
        return total(put(self.sample_weight, ~where, 0.0)) / self.n

    def cost(self, t: float) -> float:
        """J where it can be trusted, else infinite: what a search has to minimise."""
        m = self.active(t)
        return self.rate(t) if m and t > ROOT_GAP_MIN * self.size[0] and self.trusts(m) else np.inf

    # -- over all t ----------------------------------------------------------------------------------------------------

    @cached_property
    def floor(self) -> Floats:
        """Lower ends of the intervals, |g_m+1|."""
        return np.append(self.size[1:], 0.0)

    def trusts(self, m: int) -> bool:
        """Whether the interval with m active directions is trusted; where none is, all are."""
        return self._holds(m) or self._none_holds

    def _holds(self, m: int) -> bool:
        if m not in self._trust:
            high, low = float(self.size[m - 1]), float(self.floor[m - 1])
            wide = bool(high - low > ROOT_GAP_MIN * self.size[0])
            self._trust[m] = wide and self.violations((high + low) / 2) <= MAX_VIOLATIONS
        return self._trust[m]

    @cached_property
    def _none_holds(self) -> bool:
        return not any(self._holds(m) for m in range(1, len(self.g) + 1))

    def best(self) -> Piece:
        """Return the piece with the smallest J in a trusted interval; of equals that of the largest t."""
        rate, low, high, m = self.sweep()
        xp = namespace(rate)
        left = xp.round(rate / RATE_TIE)
        i = least = int(xp.argmin(left))
        while float(left[i]) < np.inf and not self._holds(int(m[i])):
            left = put(left, m == m[i], np.inf)
            i = int(xp.argmin(left))
        i = i if float(left[i]) < np.inf else least
        return Piece(float(rate[i]), float(low[i]), float(high[i]), int(m[i]))

    def sweep(self) -> tuple[Array, Array, Array, Array]:
        """Return J, the ends and m of every piece, going down in t, in chunks of intervals."""
        xp, n = namespace(self.V), self.V.shape[0]
        step = max(1, (DEVICE_CHUNK if is_foreign(self.V) else CHUNK) // n)
        reach, slope = self.y * (self.mean + SCORE_ZERO), zeros((n,), self.V)
        h = slope + self.h0
        parts = []
        for first in range(0, len(self.g), step):  # an interval is a row, a sample a column
            part = slice(first, min(first + step, len(self.g)))
            g, sign, low, high = send(self.V, self.g[part], self.sign[part], self.floor[part], self.size[part])
            V = self.V[:, part].T
            yV = V * self.y
            reaches = running_sums(yV * g[:, None], axis=0) + reach
            slopes = running_sums(yV * sign[:, None], axis=0) + slope
            leverages = running_sums(V * V, axis=0) + h
            reach, slope, h = reaches[-1, :], slopes[-1, :], leverages[-1, :]
            leverages = self.single * leverages
            alone = leverages > 1 - LEVERAGE_GAP_MIN  # wrong whatever t is
            margins, slopes = put(reaches - leverages, alone, -1.0), put(slopes, alone, 0.0)
            parts.append(self._pieces(margins, slopes, low, high, first + 1))
        rate, low, high, m = (xp.concat(arrays) for arrays in zip(*parts, strict=True))
        wide = xp.nonzero(high - low > ROOT_GAP_MIN * float(self.size[0]))[0]
        return at(rate, wide), at(low, wide), at(high, wide), at(m, wide)

    def _pieces(
        self, margins: Array, slopes: Array, low: Array, high: Array, first: int
    ) -> tuple[Array, Array, Array, Array]:
        """Cut intervals at the roots of `margins - t slopes`; going down in t, a sample turns right or wrong there.

        Where an interval ends the next one begins, so that all beginnings and roots in one falling sequence are the
        upper ends of the pieces, and each lower end is the upper end of the next.
        """
        xp, low, high = namespace(margins), low[:, None], high[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):  # level lines have no root
            roots = margins / slopes
        inside = (roots > low) & (roots < high)
        wrong = xp.where(inside, slopes > 0, margins < (low + high) / 2 * slopes)  # in the first piece
        interval, sample = xp.nonzero(inside)
        turns = -xp.sign(slopes[inside]) * at(self.sample_weight, sample)
        every = from_host(np.arange(inside.shape[0]), margins)
        upper = xp.concat([high[:, 0], roots[inside]])
        order = xp.argsort(-upper, stable=True)
        upper, interval = at(upper, order), at(xp.concat([every, interval]), order)
        turned = running_sums(at(xp.concat([zeros(every.shape, margins), turns]), order), axis=0)
        before = at(turned, xp.searchsorted(interval, every))  # up to the beginning of each interval
        errors = turned + at(as_float64(wrong) @ self.sample_weight - before, interval)
        return errors / self.n, xp.concat([upper[1:], low[-1, :]]), upper, interval + first


@dataclass(frozen=True)
class FilteredSignal:
    """The prefiltered signals of all outputs with what leaving a sample out does to them.

    What is as long as the samples is where these are, what is as long as the outputs in this process.
    """

    filters: list[Prefilter]
    t: Floats  # (q,) thresholds, lambda_1 / 2
    lambda_2: Floats  # (q,)
    labels: Array  # (n, q), -1 and +1
    sample_weight: Array

    @property
    def signal(self) -> Array:
        """`y_pre`, (n, q)."""
        return self._columns(lambda f, t, lambda_2: f.signal(t) / (1 + lambda_2))

    @property
    def power(self) -> float:
        """Sum of the squares of `y_pre`, less its mean where there is an intercept, averaged over the outputs."""
        less = self.signal - from_host(self.level, self.labels)
        return float(self.sample_weight @ namespace(less).mean(less**2, axis=1))

    @property
    def level(self) -> Floats:
        """Mean of `y_pre`, (q,), where there is an intercept, else zero."""
        return np.array([f.mean for f in self.filters]) / (1 + self.lambda_2)

    @property
    def residual(self) -> Array:
        """Leave-one-out residuals, (n, q)."""
        return self._columns(lambda f, t, lambda_2: f.residual(t, lambda_2))

    def change(self, j: int) -> Change:
        """What leaving a sample out does to a signal, along its active singular vectors."""
        one, t, lambda_2 = self.filters[j], float(self.t[j]), float(self.lambda_2[j])
        V = one.V[:, : one.active(t)]
        less = one.single * one.residual(t, lambda_2) / (1 + lambda_2)
        return Change(less * one.h0, V, V * less[:, None])

    @property
    def violations(self) -> float:
        """Share of the samples for which (34) fails, averaged over the outputs."""
        return float(np.mean(self._each(lambda f, t, lambda_2: f.violations(t, lambda_2))))

    @property
    def error_rate(self) -> float:
        """Share of leave-one-out errors: J, or with several classes that of the largest output."""
        if len(self.filters) == 1:
            return self.filters[0].rate(float(self.t[0]))
        return float(self.rates(self.labels - self.residual))

    def rates(self, scores: Array) -> Array:
        """Share of samples that scores (..., n, q) put into the wrong class."""
        return as_float64(misclassified(scores, self.labels)) @ self.sample_weight / total(self.sample_weight)

    def square(self, scores: Array) -> float:
        """Mean squared error of scores."""
        squares = namespace(scores).mean((self.labels - scores) ** 2, axis=1)
        return float(self.sample_weight @ squares) / total(self.sample_weight)

    def active_only(self) -> FilteredSignal:
        """The same without the directions that are not active, which only a search needs."""
        return replace(self, filters=self._each(lambda f, t, lambda_2: f.first(f.active(t))))

    def _columns(self, function: Callable[[Prefilter, float, float], Array]) -> Array:
        return namespace(self.labels).stack(self._each(function), axis=1)

    def _each(self, function: Callable[[Prefilter, float, float], Any]) -> list[Any]:
        """Answers for every output, its penalties given."""
        return list(map(function, self.filters, self.t.tolist(), self.lambda_2.tolist()))
