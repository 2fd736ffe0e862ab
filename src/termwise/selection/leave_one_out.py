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

from termwise._arrays import row_blocks
from termwise.selection.blocks import NO_GAP, Answer, Moments, RowBlock, changes
from termwise.selection.curvature import Curvature
from termwise.selection.directions import Directions, Kept, bring_up_to_date
from termwise.selection.rules import TIE, Choice, Rule
from termwise.selection.state import State

Floats = NDArray[np.float64]

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
        candidates = np.flatnonzero(state.usable)
        if not len(candidates):
            return None
        den = state.den[candidates]
        beta, vv = state.c[candidates] / den[:, None], np.maximum(state.vv[candidates], 0)
        terms = BoundTerms(state)
        floor = terms.total - terms.slack
        curve = np.sum(beta**2, axis=1) * terms.w_min * vv
        loose = np.abs(beta) @ terms.deviation * np.sqrt(vv)
        extra = self._extra(state, candidates, beta, den)
        bound = floor - 2 * terms.w0 * np.sum(beta * state.rv[candidates], axis=1) - 2 * loose + curve + extra
        errors = np.full(len(candidates), np.inf)
        directions = self.directions = self.directions or Directions(state.facts, len(state.s))

        def verify(batch: NDArray[np.intp]) -> None:
            errors[batch] = leave_one_out_errors(state, directions, candidates[batch], beta[batch], den[batch])
            bound[batch] = np.inf

        size = max(FIRST, min(directions.capacity, state.rows.worth_a_call // int(state.n)))
        verify(smallest(bound, size))
        alive = np.flatnonzero(np.isfinite(bound) & (bound <= errors.min()))
        if len(alive) > WORTH_TIGHTENING:
            along = weighted_products(state, candidates[alive])
            bound[alive] = floor - 2 * np.sum(beta[alive] * along, axis=1) + curve[alive]
        while np.any(np.isfinite(bound) & (bound <= errors.min())):
            batch = smallest(bound, size)
            verify(batch[bound[batch] <= errors.min()])
            size = min(2 * size, directions.capacity)
        best = errors.min()
        if not np.isfinite(best):
            return None
        first = int(np.flatnonzero(errors <= best * (1 + TIE))[0])
        self.crowd = int(np.isinf(bound).sum())
        return Choice(int(candidates[first]), float(errors[first]), self.crowd)

    def _extra(self, state: State, candidates: NDArray[np.intp], beta: Floats, den: Floats) -> Floats:
        """The candidates' own leverage, once many had to be verified and it pays to look at the squares of G."""
        self.age += 1
        if self.crowd > CROWD and self.age > FRESH:
            if self.curvature is None:
                self.curvature = Curvature(state)
            else:
                self.curvature.look(state)
            self.age = 0
        if self.curvature is None:
            return np.zeros(len(candidates))
        return self.curvature.least(state, candidates, beta, den)


class BoundTerms:
    """What both bounds need of the rows, from sums the driver has already."""

    def __init__(self, state: State) -> None:
        moments = state.moments
        self.total, self.w_min = float(moments.wrr.sum()), moments.gap**-2
        self.w0 = self.total / max(float(moments.rr.sum()), np.finfo(np.float64).tiny)
        self.deviation = np.sqrt(self._squared_deviation(moments))
        self.slack = 64 * np.finfo(state.rows.dtype).eps * self.total

    def _squared_deviation(self, moments: Moments) -> Floats:
        """`sum (w - w0)^2 r^2` of each output, from its expansion, and no less whatever rounding has done to that."""
        squares = moments.wwrr - 2 * self.w0 * moments.wrr + self.w0**2 * moments.rr
        return np.maximum(squares, 0) + ROUNDING * moments.wwrr


@dataclass(frozen=True)
class Along(Answer):
    """Products with `w r`."""

    direct: Floats  # (candidates, q)
    through: Floats  # (k, q), of Z


def weighted_products(state: State, candidates: NDArray[np.intp]) -> Floats:
    """`(w r)'v` for some candidates: from their columns, or from one more pass where they are many."""
    if 4 * len(candidates) > len(state.s):
        answer = state.rows.ask(along_weighted_residual, None)
        direct = answer.direct[candidates]
    else:
        answer = state.rows.ask(along_weighted_residual, candidates)
        direct = answer.direct
    return direct - state.T[:, candidates].T @ answer.through


def along_weighted_residual(block: RowBlock, candidates: NDArray[np.intp] | None) -> Along:
    """`G'(w r)` and `Z'(w r)` on the rows of a block; None means all candidates."""
    wr = block.r * (np.maximum(block.gap, NO_GAP) ** -2)[:, None]
    direct = block.products(wr) if candidates is None else block.columns(candidates).T @ wr
    return Along(direct, block.Z.T @ wr)


def leave_one_out_errors(
    state: State, directions: Directions, batch: NDArray[np.intp], beta: Floats, den: Floats
) -> Floats:
    """Exact leave-one-out squared error of the model with each candidate of a batch added; infinite if undefined."""
    return state.rows.ask(verify, directions.fetch(batch, state), beta, den)


@changes
def verify(block: RowBlock, kept: Kept, beta: Floats, den: Floats) -> Floats:
    """Leave-one-out squared errors on the rows of a block."""
    bring_up_to_date(block, kept)
    assert block.table is not None
    r, total = np.ascontiguousarray(block.r.T), np.zeros(len(den))
    for rows in row_blocks(len(block.Y), 4 * len(den)):
        V = block.table[kept.slots, rows]
        gap = V * V
        gap *= -1 / den[:, None]
        if block.root is not None:
            gap *= block.share[rows]
        gap += block.gap[rows]
        undefined = gap.min(axis=1) < NO_GAP
        if undefined.any():
            np.maximum(gap, NO_GAP, out=gap)
            total[undefined] = np.inf
        for part, b in zip(r[:, rows], beta.T, strict=True):
            error = V * -b[:, None]
            error += part
            error /= gap
            total += np.einsum("ij,ij->i", error, error)
    return total


def smallest(values: Floats, count: int) -> NDArray[np.intp]:
    """Positions of the smallest finite values, in ascending order."""
    count = min(count, int(np.isfinite(values).sum()))
    chosen = np.argpartition(values, count - 1)[:count] if count else np.empty(0, dtype=np.intp)
    return chosen[np.argsort(values[chosen], kind="stable")]
