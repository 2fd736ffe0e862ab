"""What the driver knows of a growing model: O(k p) numbers, whatever the number of rows.

With `v = P g` for a candidate g (P of the model so far, the penalty included) the statistics are

    c = g'P y    s = g'P g    vv = v'v = g'P^2 g    rv = r'v = y'P^2 g    den = alpha + s

and adding the candidate changes `r` by `-v c / den`, the leverage gap by `-v^2 / den`, dof by `vv / den` and the cost
by `-c^2 / den` (Orr (7.5) to (7.7)). A new `z = v / sqrt(alpha + s)` with `t = G'z` updates them in O(p k):

    c -= t z'y    s -= t^2    vv -= 2 t z'v - t^2 z'z    rv -= t z'r + (z'y) z'v - (z'y) t z'z

where `z'v = t - (Z'z)'T`. With `penalty="orthogonal"` (Orr 7.3) the columns of Z are orthonormal whatever alpha is, v
is orthogonal to all of them, `vv = s` and `rv = c`.

The augmented columns `[Z; B]`, `B = sqrt(alpha) R^-1`, are orthonormal: a new column is orthogonalised against them,
twice if the first time took most of it away, and `Z'z = -B'b` costs no pass over the data.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    as_float64,
    at,
    at_least,
    column_squares,
    copied,
    empty,
    fetch,
    from_host,
    namespace,
    put,
    put_at,
    recordable,
    repeat,
    send,
    to_host,
    zeros,
)
from termwise.execution.local import Executor
from termwise.selection.blocks import INTERCEPT, Moments, RowBlock
from termwise.selection.candidate_stats import FIXED, Known, Sums, step, update
from termwise.selection.path import ModelRows, Training

Floats = NDArray[np.float64]

GRAM_SAFE = 1e-4  # share of a column's square that must be left for G'G to keep twelve digits of t
ROOM = 64  # rows of T to begin with
CONSTANT = 1e-12  # a column that varies by less than this share of its mean is constant but for rounding
ENOUGH = 0.1  # a column that keeps this share of its square is orthogonal to ten ulp after one orthogonalisation


class State:
    """Statistics of all candidates and the factors of the model; the rows are wherever the executor has them.

    What is as long as the candidates lives where the rows live, the statistics as rows of one matrix, so that a term
    updates them by one product. What is as long as the model (R, B, zy) is small and stays with the driver.
    """

    def __init__(
        self,
        rows: Executor,
        alpha: float,
        orthogonal: bool,
        intercept: bool,
        tol: float,
        precompute: bool = False,
        min_norm: float = 0.0,
    ) -> None:
        self.rows, self.alpha, self.orthogonal, self.tol = rows, alpha, orthogonal, tol
        self.facts = rows.ask(RowBlock.start)
        self.n, self.yy, self.q, self.k = self.facts.n, self.facts.yy, rows.n_outputs, 0
        self.R, self.B, self.zy = np.empty((0, 0)), np.empty((0, 0)), np.empty((0, self.q))
        self.shrinkage = np.empty(0)
        self.chosen: list[int] = []
        self.rebuilt = 0  # how often the model's columns were replaced
        self._latest: Sums | None = None
        self.sums: Array = None  # over the rows, as `Moments` has them, where the rows are
        self.programs = {} if rows.sole is None else rows.sole.programs
        self.intercept, self.dof, self.cost = int(intercept), 0.0, float(self.yy.sum())
        if intercept:
            self._take_in_intercept()
        else:
            self._hold(rows.ask(RowBlock.moments))
        self._start(precompute, min_norm)

    def _start(self, precompute: bool, min_norm: float) -> None:
        """Statistics of the model without terms, from centred columns: differences of raw sums would cancel."""
        found = self.rows.ask(RowBlock.survey, precompute)
        raw, self.gram = found.squares, found.gram if precompute else None
        self._rows = zeros((2 * self.q + FIXED + ROOM, raw.shape[0]), raw)
        self.means, self.norms, self.c0 = 0 * raw, raw, found.along[:, self.k :]
        self.T[...] = found.along[:, : self.k].T
        if self.intercept:
            self.means = self.T[0, :] / float(np.sqrt(self.n))
            self.norms = raw - self.n * self.means**2
            if bool(namespace(raw).any(self.norms < GRAM_SAFE * raw)):
                self.norms = self.rows.ask(RowBlock.centred_norms, self.means)
        self._set_statistics(self.c0, self.c0, self.norms, self.norms)
        least = at_least(self.tol * self.norms, min_norm)
        self._rows[2 * self.q + 2 : 2 * self.q + FIXED, :] = namespace(raw).stack([self.norms, raw, least])
        self.usable, self._t = self._varying(), empty((1, raw.shape[0]), raw)
        self._drop_dependent()

    def _varying(self) -> Array:
        """Candidates that are not constant."""
        return self.norms > self.n * (CONSTANT * self.means) ** 2

    def _take_in_intercept(self) -> None:
        """Put the column of ones in first, unpenalised."""
        nothing = np.empty(0)
        rest = self.rows.ask(RowBlock.begin, INTERCEPT, nothing)
        xx, c = fetch(rest.xx, rest.xy)
        length = float(np.sqrt(xx[0]))
        answer = self.rows.ask(RowBlock.append, length, c / length**2, length**2, False)
        self._hold(answer.moments)
        self._extend_factors(nothing, nothing, length, c, length**2, length**2, 0.0)

    def _set_statistics(self, c: Array, rv: Array, s: Array, vv: Array) -> None:
        self.statistics[...] = namespace(s).concat([c.T, rv.T, s[None, :], vv[None, :]])
        self._known: Known | None = None

    def _hold(self, moments: Moments) -> None:
        """Keep sums over the rows, always in the same place, until they are wanted."""
        if self.sums is None:
            self.sums = moments.values
        else:
            self.sums[...] = moments.values
        self._moments: Sums | None = None

    @property
    def moments(self) -> Sums:
        """Sums over the rows."""
        if self._moments is None:
            self.learn(np.array(to_host(self.sums)))
        assert self._moments is not None
        return self._moments

    @property
    def latest(self) -> Sums:
        """Sums over the rows as they were when somebody last asked."""
        return self._latest or self.moments

    def learn(self, sums: Floats) -> None:
        """Be told the sums over the rows, which were read together with something else."""
        self._moments = self._latest = Sums.of(sums)

    def _make_room(self) -> int:
        """Make room for one more row of T, and return its place."""
        place, p = 2 * self.q + FIXED + self.k, self._rows.shape[1]
        if place == self._rows.shape[0]:
            more = zeros((max(ROOM, self.k), p), self._rows)
            self._rows = namespace(more).concat([self._rows, more])
            self.programs.clear()
        return place

    @property
    def known_rows(self) -> Array:
        """Statistics and T; where recorded calls look at them, with the room for more of T."""
        return self._rows if recordable(self._rows) else self._rows[: 2 * self.q + FIXED + self.k, :]

    @property
    def statistics(self) -> Array:
        """c, rv, s and vv of every candidate, (2 q + 2, p)."""
        return self._rows[: 2 * self.q + 2, :]

    @property
    def T(self) -> Array:
        """`Z' G`."""
        first = 2 * self.q + FIXED
        return self._rows[first : first + self.k, :]

    @property
    def c(self) -> Array:
        """`g'P y` of every candidate, (p, q)."""
        return self.statistics[: self.q, :].T

    @property
    def rv(self) -> Array:
        """`y'P^2 g`, (p, q)."""
        return self.statistics[self.q : 2 * self.q, :].T

    @property
    def s(self) -> Array:
        """`g'P g`, (p,)."""
        return self.statistics[2 * self.q, :]

    @property
    def vv(self) -> Array:
        """`g'P^2 g`, (p,)."""
        return self.statistics[2 * self.q + 1, :]

    @property
    def den(self) -> Array:
        """`alpha + s` of every candidate; one where it is of no use."""
        return put(self.alpha + self.s, self.useless, 1.0)

    @property
    def useless(self) -> Array:
        """Candidates that are not usable."""
        return ~self.usable

    @property
    def sse(self) -> float:
        """Sum of squared errors, over all outputs."""
        return float(self.moments.rr.sum())

    def meet(self, candidates: Array, *more: Array) -> tuple[Known, list[Floats]]:
        """Read what is known of a few candidates, which `append` will want, and more numbers, all in one transfer."""
        places = from_host(candidates, self.s)
        numbers, columns, *rest = fetch(as_float64(places), at(self.known_rows, places, axis=1), *more)
        return self.know(numbers, columns), rest

    def know(self, numbers: Floats, columns: Floats) -> Known:
        """Remember what was read of some candidates: their columns of `known_rows`."""
        q = self.q
        s, vv, norms, raw, least = columns[2 * q : 2 * q + FIXED]
        T = columns[2 * q + FIXED : 2 * q + FIXED + self.k]
        self._known = Known(numbers.astype(np.intp), columns[:q], columns[q : 2 * q], s, vv, norms, raw, least, T)
        return self._known

    def append(self, j: int) -> bool:
        """Put candidate j into the model; False, and nothing done, if it turns out to depend on the others."""
        known = self._known if self._known is not None and j in self._known.numbers else self.meet(np.array([j]))[0]
        one = known.of(np.flatnonzero(known.numbers == j)[0])
        column, below = one.T.copy(), -self.B @ one.T
        if one.vv > ENOUGH * one.norms:  # the statistics have all digits of G
            self._take_in(j, column, below, one, at_once=True)
        else:
            one = self._rest(one, RowBlock.begin, j, column)
            if one.vv < ENOUGH * one.norms:
                again = one.T + below @ self.B
                below -= self.B @ again
                column += again
                one = self._rest(one, RowBlock.again, again)
            if one.vv <= one.least:
                self.usable[j] = False
                return False
            self._take_in(j, column, below, one)
        self.chosen.append(j)
        return True

    def _rest(self, one: Known, question: Callable[..., Any], *args: Any) -> Known:
        """What is known of a candidate, from its very column; `Z'x` in place of T."""
        rest = self.rows.ask(question, *args)
        xx, xy, xr, zx = fetch(rest.xx, rest.xy, rest.xr, rest.zx)
        return one._replace(vv=xx[0], c=xy, rv=xr, T=zx)

    def weights(self) -> tuple[Floats, Floats]:
        """Weights of the chosen terms, of shape (k, q), and the intercept, (q,)."""
        return self.training().weights(len(self.chosen))

    def training(self, rows: ModelRows | None = None) -> Training:
        """The chosen columns `G_S = Z R`, less their part along the intercept."""
        first, n = self.intercept, np.sqrt(self.n)
        means = self.R[:first, first:].sum(axis=0) / n, self.zy[:first].sum(axis=0) / n
        shrunk = (self.shrinkage[:, None] * self.zy)[first:]
        return Training(self.R[first:, first:], *means, shrunk, rows, first)

    def set_alpha(self, alpha: float) -> None:
        """Change the penalty of all terms at once: P must be rebuilt, but `G'G_S = T'R` costs no pass over the data.

        Every block orthogonalises its own rows of the chosen columns; their small factors, and the penalties, are
        orthogonalised here.
        """
        before, self.alpha, first = self.R, alpha, self.intercept
        penalties = np.append(np.zeros(first), np.full(len(self.chosen), alpha))
        chosen = np.array(self.chosen, dtype=np.intp)
        Rs, QYs = zip(*self.rows.each(RowBlock.factor, chosen, first), strict=True)
        Q, R = np.linalg.qr(np.vstack([*Rs, np.diag(np.sqrt(penalties))]))
        signs = np.copysign(1.0, np.diagonal(R))  # the intercept's column stays positive
        Q, self.R = Q * signs, signs[:, None] * R
        *parts, B = np.split(Q, np.cumsum([len(R) for R in Rs]))
        self.B = B[first:]
        self.zy = sum(part.T @ QY for part, QY in zip(parts, QYs, strict=True))
        rows = self.rows.deal(RowBlock.replace, parts, self.zy, first)
        turn, zy = send(self.s, sla.solve_triangular(self.R, before.T, trans="T"), self.zy[first:])
        self.T[...] = turn @ self.T
        T = self.T[first:, :]
        squares = column_squares(T)
        c, s = self.c0 - T.T @ zy, self.norms - squares
        vv = s - squares + namespace(T).sum(T * (rows.zz @ T), axis=0)
        self._set_statistics(c, c - T.T @ rows.zr, s, vv)
        self.dof, self.cost = float(fetch(rows.leverage)[0][0]), float(self.yy.sum() - np.sum(self.zy**2))
        self._hold(rows.moments)
        self.rebuilt += 1
        self._drop_dependent()

    def move_to_end(self, position: int) -> None:
        """Make a term the newest one: the model stays (for `penalty="weights"`), its factors are those of that order.

        R with its column at the end is Q times a triangle, Q orthogonal: turning Z, B, T and zy by Q costs no digits.
        """
        place = self.intercept + position
        Q, R = np.linalg.qr(np.hstack([self.R[:, :place], self.R[:, place + 1 :], self.R[:, place : place + 1]]))
        signs = np.where(np.diagonal(R) < 0, -1.0, 1.0)
        Q, self.R = Q * signs, R * signs[:, None]
        self.rows.ask(RowBlock.turn, Q)
        B = self.B @ Q
        self.B = np.vstack([B[:position], B[position + 1 :], B[position : position + 1]])
        self.T[...] = from_host(np.ascontiguousarray(Q.T), self.s) @ self.T
        self.zy, self.rebuilt, self._known = Q.T @ self.zy, self.rebuilt + 1, None
        self.chosen.append(self.chosen.pop(position))

    def without_newest(self) -> State:
        """The model without its newest term, from the factors alone: `vv = s - |B T|^2`, `rv = c - T'B'B zy`."""
        other, first = copy.copy(self), self.intercept
        other.rows = self.rows.fork()
        other.sums = None
        other._hold(other.rows.ask(RowBlock.drop_newest, self.zy[-1]))
        other.k, other.chosen, other.R, other.B = self.k - 1, self.chosen[:-1], self.R[:-1, :-1], self.B[:-1, :-1]
        other._rows, other.zy, other.shrinkage = copied(self._rows), self.zy[:-1], self.shrinkage[:-1]
        other._t, other.programs = copied(self._t), {} if other.rows.sole is None else other.rows.sole.programs
        B, zy, bzy = send(self.s, other.B, other.zy[first:], other.B @ other.zy)
        T, BT = other.T[first:, :], B @ other.T
        c, s = self.c0 - T.T @ zy, self.norms - column_squares(T)
        other._set_statistics(c, c - BT.T @ bzy, s, s - column_squares(BT))
        other.dof, other.cost = other.k - float(np.sum(other.B**2)), float(self.yy.sum() - np.sum(other.zy**2))
        other.rebuilt, other.usable = self.rebuilt + 1, self._varying()
        other.usable = put_at(other.usable, np.array(other.chosen, dtype=np.intp), False)
        other._drop_dependent()
        return other

    def _take_in(self, j: int, column: Floats, below: Floats, one: Known, at_once: bool = False) -> None:
        """Append a column to the model and bring all statistics up to date.

        The column is the rest of candidate j, that is what is left of it beside `[Z; B] column`: `[x; below]` with the
        products `vv = x'x`, `c = x'Y` and `rv = x'r`. The blocks have begun with it already unless `at_once`.
        """
        vv, c = float(one.vv), one.c
        s = vv + float(below @ below)
        den = self.alpha + s
        length = float(np.sqrt(s if self.orthogonal else den))
        look = self.gram is None or length**2 < GRAM_SAFE * one.raw
        change = self._change(j, column, below / length, c / length, one.rv / length, vv, length)
        known = (self._t if look else self.gram, self.usable, self._rows)
        block = self.rows.sole
        if at_once and block is not None:
            things, numbers = block.taking(j, column, length, c / den, den)
            repeat(self.programs, step, (*things, self.sums, *known), [*numbers, *change])
            block.k, self._moments = block.k + 1, None
        else:
            question = (
                partial(self.rows.ask, RowBlock.take, j, column) if at_once else partial(self.rows.ask, RowBlock.append)
            )
            answer = question(length, c / den, den, look)
            if look:
                self._t[0, :] = answer.t
            self._hold(answer.moments)
            repeat(self.programs, update, known, change)
        self._known = None
        self._extend_factors(column, below, length, c, vv, den, self.alpha)

    def _change(
        self, j: int, column: Floats, b: Floats, zy: Floats, zr: Floats, vv: float, length: float
    ) -> list[Floats]:
        """What `update` adds to T and to the statistics: changes linear in t, in `z'v = t + b'B T`, in t^2 and `t z'v`.

        Without a pass over the data `t = G'z` comes from `G'G`: `z = (g_j - Z column) / length`.
        """
        k, q, zz, place = self.k, self.q, vv / length**2, self._make_room()
        width = self.known_rows.shape[0] - 2 * q - FIXED
        mix, change = np.zeros((3, max(width, k + 1))), np.zeros((2 * q + 2, 4))
        mix[:2, k], mix[1, :k], mix[2, :k] = 1, b @ self.B, column
        change[:q, 0], change[2 * q, 2] = zy, 1
        if self.orthogonal:
            change[q : 2 * q, 0], change[2 * q + 1, 2] = zy, 1
        else:
            change[q : 2 * q, 0], change[q : 2 * q, 1] = zr - zz * zy, zy
            change[2 * q + 1, 2], change[2 * q + 1, 3] = -zz, 2
        return [np.array([place, j]), np.array([length]), mix, change]

    def _extend_factors(
        self, column: Floats, below: Floats, length: float, c: Floats, vv: float, den: float, alpha: float
    ) -> None:
        """Add the newest column to R, B and all that is as long as the model."""
        penalised = 0 if self.orthogonal or not alpha else 1
        m, k = self.B.shape
        B, R = np.zeros((m + penalised, k + 1)), np.zeros((k + 1, k + 1))
        B[:m, :k], B[:m, k], B[m:, k] = self.B, below / length, np.sqrt(alpha) / length
        R[:k, :k], R[:k, k], R[k, k] = self.R, column, length
        self.B, self.R, self.k = B, R, self.k + 1
        self.zy = np.vstack([self.zy, c / length])
        self.shrinkage = np.append(self.shrinkage, length**2 / den)
        self.dof += vv / den
        self.cost -= float(np.sum(c * c) / den)

    def _drop_dependent(self) -> None:
        """Candidates with nothing new to say are out for good; a penalty keeps s, but not vv, of a copy from zero."""
        self.usable = self.usable & (self.vv > self._rows[2 * self.q + 4, :])
