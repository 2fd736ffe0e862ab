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

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    as_float64,
    at,
    at_least,
    less_product,
    namespace,
    put,
    put_at,
    recordable,
    repeat,
    row_blocks,
    row_squares,
    send,
    smallest,
    to_host,
)
from termwise.design.stored import Design
from termwise.selection.blocks import NO_GAP, Answer, RowBlock, changes
from termwise.selection.candidate_stats import FIXED, Known
from termwise.selection.curvature import Curvature
from termwise.selection.directions import Directions, Kept, bring_up_to_date
from termwise.selection.rules import TIE, Choice, Rule
from termwise.selection.state import State

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
        self.ahead: Bounds | None = None

    def prepare(self, state: State) -> None:
        """Bound and verify right after the pass, before anything is read."""
        if state.rows.sole is not None and self.curvature is None and self.crowd <= CROWD:
            self.ahead = Bounds(state, None, self._size(state) + 1)

    def choose(self, state: State) -> Choice | None:
        """Return exactly the candidate brute force would, verifying as few as the bounds allow."""
        size, extra = self._size(state), self._extra(state)
        bounds, self.ahead = self.ahead, None
        if bounds is None or bounds.state is not state:
            bounds = Bounds(state, extra, size + 1)  # one more, to see whether that is worth a look
        table = self.directions
        assert table is not None
        numbers, errors, least, best = np.empty(0, dtype=np.intp), np.empty(0), np.empty(0), np.inf
        while True:
            known, values = bounds.shortlist(size + 1)
            batch = np.flatnonzero((values <= best) & (values < np.inf))[:size]
            exact, bounds.exact = bounds.exact, None
            if exact is not None:
                batch = batch[: len(exact)]
            if not len(batch):
                break
            found = leave_one_out_errors(state, table, known.of(batch)) if exact is None else exact[batch]
            numbers, errors = np.concatenate([numbers, known.numbers[batch]]), np.concatenate([errors, found])
            least, best = np.concatenate([least, values[batch]]), errors.min()
            if len(batch) == len(values) or values[len(batch)] > best:
                break
            bounds.exclude(known.numbers[batch])
            if len(numbers) == len(batch):
                bounds.tighten(best)
            else:
                size = min(2 * size, table.capacity)
        self.crowd = int(np.count_nonzero(least <= best))  # the others were verified because that cost nothing
        if not best < np.inf:
            return None
        first = numbers[errors <= best * (1 + TIE)].min()
        return Choice(int(first), float(errors[numbers == first][0]), len(numbers))

    def _size(self, state: State) -> int:
        """How many candidates to verify at a time."""
        if self.directions is None:
            self.directions = Directions(state.facts, state.rows.n_candidates, state.rows.keeps_directions)
        return max(FIRST, min(self.directions.capacity, state.rows.worth_a_call // int(state.n)))

    def _extra(self, state: State) -> Array | None:
        """The candidates' own leverage, once many had to be verified and it pays to look at the squares of G."""
        self.age += 1
        if self.crowd > CROWD and self.age > FRESH:
            if self.curvature is None:
                self.curvature = Curvature(state)
            else:
                self.curvature.look(state)
            self.age = 0
        return None if self.curvature is None else self.curvature.least(state)


class Bounds:
    """Lower bounds of the errors of all candidates, infinite for those that are of no use or have been verified.

    All they need of the rows are sums the driver has already. A device verifies the first few on the way.
    """

    exact: Floats | None = None  # errors of the first of the shortlist, if they are known

    def __init__(self, state: State, extra: Array | None = None, count: int = 1) -> None:
        self.state, block = state, state.rows.sole
        w0 = state.moments.w0 if block is None else state.latest.w0  # any will do, and this one is no wait
        numbers = [np.array([state.alpha, 2 * w0, 4 * w0 * w0, -8 * w0, 4 * (1 + ROUNDING)])]
        count = min(count, state.rows.n_candidates)
        things: tuple[Any, ...] = (count, state.usable, state.sums, state.known_rows)
        if block is None or extra is not None:
            self.values, self.beta, self.size, *_, self.found = repeat(state.programs, bound_all, things, numbers)
        else:
            self._look(block, things, numbers, count)
        if extra is not None:
            self.values, self.found = self.values + extra, None
        self.floor = float(state.moments.wrr.sum()) * (1 - 64 * float(np.finfo(state.rows.dtype).eps))

    def _look(self, block: RowBlock, things: tuple[Any, ...], numbers: list[Floats], count: int) -> None:
        """Bound all and verify the first, and learn the sums over the rows, in one go and one transfer."""
        state = self.state
        things = (block.G, block._Zt, block.root, block.share, block.r, block.gap, *things)
        sizes = (2 + state.known_rows.shape[0]) * count, 2 * max(1, count - 1), state.sums.shape[0]
        *looked, seen = repeat(state.programs, first_look, things, numbers, read=sum(sizes))
        self.values, self.beta, self.size = looked
        found, verified, sums = np.split(seen, np.cumsum(sizes[:2]))
        errors, gaps = verified.reshape(2, -1)
        self.exact, self.found = np.where(gaps < NO_GAP, np.inf, errors), found.reshape(-1, count)
        state.learn(sums)

    def shortlist(self, count: int) -> tuple[Known, Floats]:
        """Return what is known of the candidates with the smallest bounds, and these."""
        if self.found is None:
            places, values = smallest(self.values, count)
            known, (values,) = self.state.meet(places, values)
            return known, self.floor + values
        found, self.found = to_host(self.found), None
        return self.state.know(found[0], found[2:]), self.floor + found[1]

    def exclude(self, candidates: Indices) -> None:
        """Bound some candidates no more."""
        self.values = put_at(self.values, candidates, np.inf)

    def tighten(self, best: float) -> None:
        """Put bound 1 in place of bound 0 for candidates that may be better than the best, if they are many."""
        values = to_host(self.values)
        alive = np.flatnonzero(np.isfinite(values) & (self.floor + values <= best))
        if len(alive) > WORTH_TIGHTENING:
            along = weighted_products(self.state, alive)
            beta, size = at(self.beta, alive, axis=1), at(self.size, alive, axis=1)
            tight = add_up(self.state.moments.gap**-2 * size * size - 2 * beta * along.T)
            self.values = put_at(self.values, alive, tight)


def bound_all(count: int, usable: Array, sums: Array, rows: Array, numbers: Array) -> tuple[Array, ...]:
    """Bound 0 of all candidates, less `sum w r^2`; then `beta`, `|beta| |v|` and den.

    Last come the places of the smallest bounds, and these with what is known of the candidates there. The numbers are
    alpha, 2 w0, and the three that make `4 |(w - w0) r|^2` of the sums, or a little more in view of rounding.
    """
    xp, q, useless = namespace(rows), sums.shape[0] // 3 - 1, ~usable
    slope = at_least(numbers[2:] @ xp.reshape(sums[: 3 * q], (3, q)), 0.0) ** 0.5
    w_min = at_least(sums[3 * q + 1 : 3 * q + 2], NO_GAP) ** -2
    den = put(numbers[:1] + rows[2 * q, :], useless, 1.0)
    beta = rows[:q, :] / den
    size = xp.abs(beta) * at_least(rows[2 * q + 1, :], 0.0) ** 0.5
    losses = less_product(size * (w_min * size - slope[:, None]), numbers[1:2] * beta, rows[q : 2 * q, :])
    bound = put(add_up(losses), useless, np.inf)
    places, least = smallest(bound, count)
    found = xp.concat([as_float64(places)[None, :], least[None, :], at(rows, places, axis=1)])
    return bound, beta, size, den, places, found


def add_up(outputs: Array) -> Array:
    """Sum over the outputs, which are rows."""
    return outputs[0, :] if outputs.shape[0] == 1 else namespace(outputs).sum(outputs, axis=0)


def first_look(
    G: Design,
    Zt: Array,
    root: Array | None,
    share: Array,
    r: Array,
    gap: Array,
    count: int,
    usable: Array,
    sums: Array,
    rows: Array,
    numbers: Array,
) -> tuple[Array, Array, Array, Array]:
    """`bound_all`, the errors of the candidates with the smallest bounds but for the last, and the sums, in one go."""
    bound, beta, size, den, places, found = bound_all(count, usable, sums, rows, numbers)
    xp, few, first = namespace(found), places[: max(1, count - 1)], 2 + 2 * r.shape[1] + FIXED
    T = found[first : min(first + Zt.shape[0], found.shape[0]), : few.shape[0]]
    chosen = at(beta, few, axis=1)[:, :, None], at(den, few)[:, None], few, T
    verified = errors_of_fresh(G, Zt, root, share, r, gap, *chosen)
    parts = [xp.reshape(part, (-1,)) for part in (found, verified.values, sums)]
    return bound, beta, size, xp.concat(parts)


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
    errors, gaps = to_host(answer.values)[:, : len(den)]
    return np.where(gaps < NO_GAP, np.inf, errors)


@dataclass(frozen=True)
class Verified:
    """Errors of a batch, and the smallest leverage gap with each candidate, (2, batch)."""

    values: Array

    def __add__(self, other: Verified) -> Verified:
        xp, mine, theirs = namespace(self.values), self.values, other.values
        return Verified(xp.stack([mine[0, :] + theirs[0, :], xp.minimum(mine[1, :], theirs[1, :])]))


@changes
def verify(block: RowBlock, kept: Kept, beta: Floats, den: Floats) -> Verified:
    """Leave-one-out squared errors on the rows of a block."""
    numbers = [beta[:, :, None], den[:, None]]
    things = (block.root, block.share, block.r, block.gap)
    if kept.capacity:
        bring_up_to_date(block, kept)
        return errors_of(partial(kept_rows, block, kept), *things, *send(block.Y, *numbers))
    more = 1 << max(2, len(den) - 1).bit_length() if recordable(block.Y) else len(den)  # few shapes to record
    fill = np.minimum(np.arange(more), len(den) - 1)
    numbers = [part[..., fill, :] for part in numbers]
    candidates, T = kept.missing[fill], block.padded(kept.T)[:, fill]
    where = (block.G, block._Zt, *things)
    return repeat(block.programs, errors_of_fresh, where, [*numbers, candidates, T])


def kept_rows(block: RowBlock, kept: Kept, rows: slice) -> Array:
    """Some rows of directions from the table, (batch, rows)."""
    assert block.table is not None
    return at(block.table[:, rows], kept.slots)


def errors_of_fresh(
    G: Design,
    Zt: Array,
    root: Array | None,
    share: Array,
    r: Array,
    gap: Array,
    beta: Array,
    den: Array,
    candidates: Array,
    T: Array,
) -> Verified:
    """Errors of candidates whose directions are computed on the way."""
    Zt = Zt[: T.shape[0], :]

    def rows_of(rows: slice) -> Array:
        V = G.columns(candidates, rows)
        V = V if root is None else V * root[rows, None]
        V -= Zt[:, rows].T @ T
        return V.T

    return errors_of(rows_of, root, share, r, gap, beta, den)


def errors_of(
    directions: Callable[[slice], Array],
    root: Array | None,
    share: Array,
    r: Array,
    gap: Array,
    beta: Array,
    den: Array,
) -> Verified:
    """Squares of `(r - beta v) / (gap - v^2 / den)` added up, tile by tile."""
    xp, errors, gaps, part = namespace(r), [], [], 1 / den
    for rows in row_blocks(r.shape[0], 4 * den.shape[0], r):
        V = directions(rows)
        left = less_product(gap[rows], V, V * part if root is None else V * part * share[rows])
        gaps.append(xp.min(left, axis=1))
        for i in range(r.shape[1]):
            error = less_product(r[rows, i], V, beta[i, :, :])
            with np.errstate(divide="ignore", invalid="ignore"):  # of an undefined error
                error /= left
            errors.append(row_squares(error))
    least = gaps[0] if len(gaps) == 1 else xp.min(xp.stack(gaps), axis=0)
    return Verified(xp.stack([sum(errors[1:], start=errors[0]), least]))
