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
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from termwise.labels import ZERO
from termwise.selection.blocks import NO_GAP
from termwise.solution import Problem

Floats = NDArray[np.float64]

GRAM_SAFE = 1e-5  # relative singular values above this keep six digits and more when they are squared
NARROW = 1e-9  # pieces narrower than this share of |g_1| lie between roots that differ by rounding
INSIDE = 1e-3  # how far below the upper end of its piece t is put, as a share of the piece: safe from rounding
MOST = 1 / 3  # share of the samples for which (34) may fail
CHUNK = 1 << 20  # numbers held at a time in the sweep


def singular_vectors(G: Floats, tol: float) -> Floats:
    """Left singular vectors of G, of singular values above `tol` times the largest, and above rounding."""
    n, p = G.shape
    tol = max(tol, max(n, p) * np.finfo(np.float64).eps)
    if tol < GRAM_SAFE:
        U, s, _ = np.linalg.svd(G, full_matrices=False)
        return U[:, s > tol * s.max(initial=0.0)]
    mu, E = np.linalg.eigh(G.T @ G if p < n else G @ G.T)
    keep = mu > tol**2 * mu.max(initial=0.0)
    mu, E = mu[keep][::-1], E[:, keep][:, ::-1]
    return G @ (E / np.sqrt(mu)) if p < n else E


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
        return self.high - INSIDE * (self.high - self.low)


class Prefilter:
    """Labels of one class against the rest, in the directions of singular vectors sorted by their `|g|`."""

    def __init__(self, U: Floats, problem: Problem, output: int) -> None:
        rows = problem.rows
        root = np.sqrt(rows.counts)
        g = U.T @ problem.Y[:, output]
        order = np.argsort(-np.abs(g), kind="stable")
        self.counts, self.n = rows.counts, rows.n
        self.single = rows.single
        self.g, self.size, self.sign = g[order], np.abs(g[order]), np.sign(g[order])
        self.V = U[:, order] / root[:, None]  # rows of single samples
        self.mean = float(problem.Y_mean[output])
        self.y = np.sign(problem.Y[:, output] / root + self.mean)
        self.h0 = rows.intercept / self.n
        self._trust: dict[int, bool] = {}

    def first(self, m: int) -> Prefilter:
        """The same with the first m directions only."""
        other = copy.copy(self)
        other.V, other.g, other.size, other.sign = self.V[:, :m].copy(), self.g[:m], self.size[:m], self.sign[:m]
        return other

    # -- at one t ------------------------------------------------------------------------------------------------------

    def active(self, t: float) -> int:
        """Return the number of active directions."""
        return int(np.searchsorted(-self.size, -t))

    def signal(self, t: float) -> Floats:
        """`y_pre` with `lambda_2 = 0`."""
        m = self.active(t)
        return self.mean + self.V[:, :m] @ (self.g[:m] - t * self.sign[:m])

    def leverage(self, t: float) -> Floats:
        """h, of a single repeat."""
        V = self.V[:, : self.active(t)]
        return self.single * (self.h0 + np.einsum("ij,ij->i", V, V))

    def rate(self, t: float) -> float:
        """J: share of leave-one-out errors, (24) with (37); a sample that only itself determines counts as one."""
        h = self.leverage(t)
        wrong = (self.y * (self.signal(t) + ZERO) < h) | (h > 1 - NO_GAP)
        return float(self.counts[wrong].sum() / self.n)

    def residual(self, t: float, lambda_2: float = 0.0) -> Floats:
        """Leave-one-out residuals (33)."""
        shrink = 1 / (1 + lambda_2)
        gap = np.maximum(1 - shrink * self.leverage(t), NO_GAP)
        return (self.y - shrink * self.signal(t)) / gap

    def violations(self, t: float, lambda_2: float = 0.0) -> float:
        """Share of the samples for which (34) fails."""
        m, moved = self.active(t), self.single * self.residual(t, lambda_2)
        without = self.g - self.V * moved[:, None]
        fails = np.any(without[:, :m] * self.sign[:m] <= t, axis=1) | np.any(np.abs(without[:, m:]) > t, axis=1)
        return float(self.counts[fails].sum() / self.n)

    def cost(self, t: float) -> float:
        """J where it can be trusted, else infinite: what a search has to minimise."""
        m = self.active(t)
        return self.rate(t) if m and t > NARROW * self.size[0] and self.trusts(m) else np.inf

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
            high, low = self.size[m - 1], self.floor[m - 1]
            self._trust[m] = bool(high - low > NARROW * self.size[0]) and self.violations((high + low) / 2) <= MOST
        return self._trust[m]

    @cached_property
    def _none_holds(self) -> bool:
        return not any(self._holds(m) for m in range(1, len(self.g) + 1))

    def best(self) -> Piece:
        """Return the piece with the smallest J in a trusted interval; of equals that of the largest t."""
        rate, low, high, m = self.sweep()
        order = np.lexsort((-high, np.round(rate, 12)))
        i = next((i for i in order if self._holds(int(m[i]))), order[0])
        return Piece(float(rate[i]), float(low[i]), float(high[i]), int(m[i]))

    def sweep(self) -> tuple[Floats, Floats, Floats, NDArray[np.intp]]:
        """Return J, the ends and m of every piece, in chunks of intervals."""
        step = max(1, CHUNK // len(self.V))
        reach, slope = self.y * (self.mean + ZERO), np.zeros(len(self.y))
        h = np.full(len(self.y), self.h0)
        parts = []
        for first in range(0, len(self.g), step):
            part = slice(first, first + step)
            V = self.V[:, part]
            yV = V * self.y[:, None]
            reaches = np.cumsum(yV * self.g[part], axis=1) + reach[:, None]
            slopes = np.cumsum(yV * self.sign[part], axis=1) + slope[:, None]
            leverages = np.cumsum(V * V, axis=1) + h[:, None]
            reach, slope, h = reaches[:, -1], slopes[:, -1].copy(), leverages[:, -1]
            margins = reaches - self.single[:, None] * leverages
            alone = self.single[:, None] * leverages > 1 - NO_GAP  # wrong whatever t is
            margins[alone], slopes[alone] = -1.0, 0.0
            parts.append(self._pieces(margins, slopes, self.floor[part], self.size[part], first + 1))
        rate, low, high, m = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        wide = high - low > NARROW * self.size[0]
        return rate[wide], low[wide], high[wide], m[wide]

    def _pieces(
        self, margins: Floats, slopes: Floats, low: Floats, high: Floats, first: int
    ) -> tuple[Floats, Floats, Floats, NDArray[np.intp]]:
        """Cut intervals at the roots of `margins - t slopes`; going down in t, a sample turns right or wrong there."""
        with np.errstate(divide="ignore", invalid="ignore"):  # level lines have no root
            roots = margins / slopes
        inside = (roots > low) & (roots < high)
        at, sample = np.nonzero(inside.T)
        order = np.lexsort((-roots[sample, at], at))
        at, sample = at[order], sample[order]
        cuts = roots[sample, at]
        turns = -np.sign(slopes[sample, at]) * self.counts[sample]
        starts = np.searchsorted(at, np.arange(len(low)))
        ends = np.append(starts[1:], len(at))
        piece_high, piece_low = np.insert(cuts, starts, high), np.insert(cuts, ends, low)
        heads = starts + np.arange(len(low))  # place of each interval's first piece
        wrong = np.where(inside, slopes > 0, margins < (low + high) / 2 * slopes)  # in the first piece
        turns = np.insert(turns, starts, self.counts @ wrong)
        errors = np.cumsum(turns)
        interval = np.repeat(np.arange(len(low)), np.diff(np.append(heads, len(errors))))
        errors -= (errors[heads] - turns[heads])[interval]
        return errors / self.n, piece_low, piece_high, interval + first
