"""Exact leave-one-out selection in one pass over the data: bound, tighten, verify.

With `beta = c / den` and `w = 1 / leverage_gap^2` a candidate's leave-one-out error is

    e = sum ((r - beta v) / (leverage_gap - v^2 / den))^2
      >= sum w r^2 - 2 beta (w r)'v + beta^2 min(w) v'v                                           (bound 1)
      >= sum w r^2 - 2 beta w0 r'v - 2 |beta| |(w - w0) r| |v| + beta^2 min(w) v'v,  any w0       (bound 0)

because a term only shrinks the leverage gap, and by Cauchy-Schwarz. `v'v` and `r'v` are driver statistics, so bound 0
is free. A few candidates are verified exactly for an incumbent; the survivors' bounds are tightened; what is left is
verified in ascending order of its bound until the next bound exceeds the incumbent. Several outputs add up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    at,
    at_least,
    fetch,
    from_host,
    namespace,
    put,
    put_at,
    row_blocks,
    row_squares,
    send,
    smallest,
    to_host,
)
from termwise.selection.blocks import NO_GAP, Answer, RowBlock, changes
from termwise.selection.curvature import Curvature
from termwise.selection.directions import Directions, Kept, bring_up_to_date, directions
from termwise.selection.rules import TIE, Choice, Rule
from termwise.selection.state import Known, State, Sums

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FIRST = 4  # candidates verified for the incumbent
WORTH_TIGHTENING = 32  # survivors for which the second bound pays
CROWD = 24  # verified candidates in a step that make a look at the squares of G worth it
FRESH = 12  # steps such a look serves at least
ROUNDING = 1e-13  # share by which the sums that make up the deviation may be off


class LooRule(Rule):
    """Smallest leave-one-out squared error after adding the candidate (Pahikkala et al., Algorithm 2)."""

    name = "loo"
    end = "no candidate is left that has a leave-one-out error and is not a combination of the chosen ones"

    def __init__(self) -> None:
        self.curvature: Curvature | None = None
        self.directions: Directions | None = None
        self.crowd, self.age = 0, FRESH

    def choose(self, state: State) -> Choice | None:
        """Return exactly the candidate brute force would, verifying as few as the bounds allow."""
        table = self.directions = self.directions or Directions(
            state.facts, state.s.shape[0], state.rows.keeps_directions
        )
        bounds = Bounds(state, self._extra(state))
        size = max(FIRST, min(table.capacity, state.rows.worth_a_call // int(state.n)))
        numbers, errors, least = np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
        while True:
            places, values = smallest(bounds.values, size + 1)  # one more, to see whether that is worth a look
            known, (values,) = state.meet(places, values)
            batch = np.flatnonzero(np.isfinite(values) & (values <= errors.min(initial=np.inf)))[:size]
            if not len(batch):
                break
            few = known.of(batch)
            numbers, least = np.append(numbers, few.numbers), np.append(least, values[batch])
            errors = np.append(errors, leave_one_out_errors(state, table, few))
            if len(batch) == len(values) or values[len(batch)] > errors.min():
                break
            bounds.exclude(few.numbers)
            if len(numbers) == len(batch):
                bounds.tighten(errors.min())
            else:
                size = min(2 * size, table.capacity)
        best = errors.min(initial=np.inf)
        self.crowd = int(np.sum(least <= best))  # the others were verified because that cost nothing
        if not np.isfinite(best):
            return None
        first = min(numbers[errors <= best * (1 + TIE)])
        return Choice(int(first), float(errors[numbers == first][0]), len(numbers))

    def _extra(self, state: State) -> Array | float:
        """The candidates' own leverage, once many had to be verified and it pays to look at the squares of G."""
        self.age += 1
        if self.crowd > CROWD and self.age > FRESH:
            if self.curvature is None:
                self.curvature = Curvature(state)
            else:
                self.curvature.look(state)
            self.age = 0
        return 0.0 if self.curvature is None else self.curvature.least(state)


class Bounds:
    """Lower bounds of the errors of all candidates, infinite for those that are of no use or have been verified.

    All they need of the rows are sums the driver has already.
    """

    def __init__(self, state: State, extra: Array | float) -> None:
        xp, self.state, sums = namespace(state.s), state, state.moments
        total, tiny = float(sums.wrr.sum()), float(np.finfo(np.float64).tiny)
        w0, self.w_min = total / max(float(sums.rr.sum()), tiny), sums.gap**-2
        self.beta = state.statistics[: state.q, :] / state.den
        self.size = xp.abs(self.beta) * at_least(state.vv, 0.0) ** 0.5  # |beta| |v|
        loose = 2 * deviation(sums, w0)
        slope = float(loose[0]) if state.q == 1 else from_host(loose[:, None], self.beta)
        self.floor = total * (1 - 64 * float(np.finfo(state.rows.dtype).eps))
        bound = self.floor + add_up(
            self.size * (self.w_min * self.size - slope)
            - 2 * w0 * self.beta * state.statistics[state.q : 2 * state.q, :]
        )
        self.values = put(bound if isinstance(extra, float) else bound + extra, state.useless, np.inf)

    def exclude(self, candidates: Indices) -> None:
        """Bound some candidates no more."""
        self.values = put_at(self.values, candidates, np.inf)

    def tighten(self, best: float) -> None:
        """Put bound 1 in place of bound 0 for candidates that may be better than the best, if they are many."""
        values = to_host(self.values)
        alive = np.flatnonzero(np.isfinite(values) & (values <= best))
        if len(alive) > WORTH_TIGHTENING:
            along = weighted_products(self.state, alive)
            beta, size = at(self.beta, alive, axis=1), at(self.size, alive, axis=1)
            tight = self.floor + add_up(self.w_min * size * size - 2 * beta * along.T)
            self.values = put_at(self.values, alive, tight)


def add_up(outputs: Array) -> Array:
    """Sum over the outputs, which are rows."""
    return outputs[0, :] if outputs.shape[0] == 1 else namespace(outputs).sum(outputs, axis=0)


def deviation(sums: Sums, w0: float) -> Floats:
    """`|(w - w0) r|` of each output, from the expansion of its square, or a little more in view of rounding."""
    squares = sums.wwrr - 2 * w0 * sums.wrr + w0**2 * sums.rr
    return np.sqrt(np.maximum(squares, 0) + ROUNDING * sums.wwrr)


@dataclass(frozen=True)
class Along(Answer):
    """Products with `w r`."""

    direct: Array  # (candidates, q)
    through: Array  # (k, q), of Z


def weighted_products(state: State, candidates: Indices) -> Array:
    """`(w r)'v` for some candidates: from their columns, or from one more pass where they are many."""
    many = 4 * len(candidates) > state.s.shape[0]
    answer = state.rows.ask(along_weighted_residual, None if many else candidates)
    direct = at(answer.direct, candidates) if many else answer.direct
    return direct - at(state.T, candidates, axis=1).T @ answer.through


def along_weighted_residual(block: RowBlock, candidates: Indices | None) -> Along:
    """`G'(w r)` and `Z'(w r)` on the rows of a block; None means all candidates."""
    wr = block.r * (at_least(block.gap, NO_GAP) ** -2)[:, None]
    direct = block.products(wr) if candidates is None else block.columns(candidates).T @ wr
    return Along(direct, block.Z.T @ wr)


def leave_one_out_errors(state: State, table: Directions, few: Known) -> Floats:
    """Exact leave-one-out squared error of the model with each of a few candidates added; infinite if undefined."""
    den = state.alpha + few.s
    answer = state.rows.ask(verify, table.fetch(few.numbers, few.T, state), few.c / den, den)
    errors, gaps = fetch(answer.errors, answer.gaps)
    return np.where(-gaps < NO_GAP, np.inf, errors)


@dataclass(frozen=True)
class Verified(Answer):
    """Errors of a batch."""

    largest = frozenset({"gaps"})

    errors: Array  # (batch,)
    gaps: Array  # (batch,) minus the smallest leverage gap


@changes
def verify(block: RowBlock, kept: Kept, beta: Floats, den: Floats) -> Verified:
    """Leave-one-out squared errors on the rows of a block."""
    bring_up_to_date(block, kept)
    xp, r = namespace(block.r), block.r.T
    beta, shrink = send(block.Y, -beta[:, :, None], -1 / den[:, None])
    errors, gaps = [], []
    for rows in row_blocks(block.Y.shape[0], 4 * len(den), block.Y):
        V = directions(block, kept, rows)
        gap = V * V
        gap *= shrink
        if block.root is not None:
            gap *= block.share[rows]
        gap += block.gap[rows]
        gaps.append(-xp.min(gap, axis=1))
        for i in range(r.shape[0]):
            error = V * beta[i, :, :]
            error += r[i, rows]
            with np.errstate(divide="ignore", invalid="ignore"):  # of an undefined error
                error /= gap
            errors.append(row_squares(error))
    least = gaps[0] if len(gaps) == 1 else xp.max(xp.stack(gaps), axis=0)
    return Verified(sum(errors[1:], start=errors[0]), least)
