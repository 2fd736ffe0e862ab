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

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import row_blocks
from termwise.selection.blocks import NO_GAP, RowBlock
from termwise.selection.curvature import Curvature
from termwise.selection.rules import TIE, Choice, Rule
from termwise.selection.state import State

Floats = NDArray[np.float64]

FIRST = 4  # candidates verified for the incumbent
WORTH_A_CALL = 1 << 15  # numbers so few that verifying less at a time would save nothing
WORTH_TIGHTENING = 32  # survivors for which the second bound pays
CROWD = 24  # verified candidates in a step that make a look at the squares of G worth it
FRESH = 12  # steps such a look serves at least


class LooRule(Rule):
    """Smallest leave-one-out squared error after adding the candidate (Pahikkala et al., Algorithm 2)."""

    name = "loo"
    end = "no candidate is left that has a leave-one-out error and is not a combination of the chosen ones"

    def __init__(self) -> None:
        self.curvature: Curvature | None = None
        self.crowd, self.age = 0, FRESH

    def choose(self, state: State) -> Choice | None:
        """Return exactly the candidate brute force would, verifying as few as the bounds allow."""
        candidates = np.flatnonzero(state.usable)
        if not len(candidates):
            return None
        den = state.den[candidates]
        beta, vv = state.c[candidates] / den[:, None], np.maximum(state.vv[candidates], 0)
        terms = BoundTerms(state.blocks)
        floor = terms.total - terms.slack
        curve = np.sum(beta**2, axis=1) * terms.w_min * vv
        loose = np.abs(beta) @ terms.deviation * np.sqrt(vv)
        extra = self._extra(state, candidates, beta, den)
        bound = floor - 2 * terms.w0 * np.sum(beta * state.rv[candidates], axis=1) - 2 * loose + curve + extra
        errors = np.full(len(candidates), np.inf)

        def verify(batch: NDArray[np.intp]) -> None:
            errors[batch] = leave_one_out_errors(state, candidates[batch], beta[batch], den[batch])
            bound[batch] = np.inf

        size = max(FIRST, min(state.directions.capacity, WORTH_A_CALL // int(state.n)))
        verify(smallest(bound, size))
        alive = np.flatnonzero(np.isfinite(bound) & (bound <= errors.min()))
        if len(alive) > WORTH_TIGHTENING:
            bound[alive] = (
                floor - 2 * np.sum(beta[alive] * terms.along(state, candidates[alive]), axis=1) + curve[alive]
            )
        while np.any(np.isfinite(bound) & (bound <= errors.min())):
            batch = smallest(bound, size)
            verify(batch[bound[batch] <= errors.min()])
            size = min(2 * size, state.directions.capacity)
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
    """What both bounds need of the rows: sums over all blocks."""

    def __init__(self, blocks: Sequence[RowBlock]) -> None:
        self.blocks = blocks
        self.w = [1 / np.maximum(block.gap, NO_GAP) ** 2 for block in blocks]
        pairs = list(zip(blocks, self.w, strict=True))
        self.total = float(sum(w @ np.sum(block.r**2, axis=1) for block, w in pairs))
        self.w_min = float(min(w.min() for w in self.w))
        self.w0 = self.total / max(float(sum(np.sum(block.r**2) for block in blocks)), np.finfo(np.float64).tiny)
        squares = sum(np.sum(((w - self.w0)[:, None] * block.r) ** 2, axis=0) for block, w in pairs)
        self.deviation = np.sqrt(squares)
        precision = max(np.finfo(block.G.dtype).eps for block in blocks)
        self.slack = 64 * precision * self.total

    def along(self, state: State, candidates: NDArray[np.intp]) -> Floats:
        """`(w r)'v` for some candidates: from their columns, or from one more pass where they are many."""
        wr = [block.r * w[:, None] for block, w in zip(self.blocks, self.w, strict=True)]
        through = sum(block.Z.T @ u for block, u in zip(self.blocks, wr, strict=True))
        if 4 * len(candidates) > len(state.s):
            direct = sum(block.products(u)[candidates] for block, u in zip(self.blocks, wr, strict=True))
        else:
            direct = sum(block.columns(candidates).T @ u for block, u in zip(self.blocks, wr, strict=True))
        return direct - state.T[:, candidates].T @ through


def leave_one_out_errors(state: State, batch: NDArray[np.intp], beta: Floats, den: Floats) -> Floats:
    """Exact leave-one-out squared error of the model with each candidate of a batch added; infinite if undefined."""
    slots = state.directions.fetch(batch, state.T)
    total = np.zeros(len(batch))
    for block, table in zip(state.blocks, state.directions.tables, strict=True):
        r = np.ascontiguousarray(block.r.T)
        for rows in row_blocks(len(block.Y), 4 * len(batch)):
            V = table[slots, rows]
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
