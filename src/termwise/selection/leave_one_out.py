"""Exact leave-one-out selection in one pass over the data: bound, tighten, verify.

With `beta = c / den` and `w = 1 / leverage_gap^2` a candidate's leave-one-out error is

    e = sum ((r - beta v) / (leverage_gap - v^2 / den))^2
      >= sum w r^2 - 2 beta (w r)'v + beta^2 min(w) v'v                                           (bound 1)
      >= sum w r^2 - 2 beta w0 r'v - 2 |beta| |(w - w0) r| |v| + beta^2 min(w) v'v,  any w0       (bound 0)

because a term only shrinks the leverage gap, and by Cauchy-Schwarz. `v'v` and `r'v` are driver statistics, so bound 0
is free. A few candidates are verified exactly for an incumbent; the survivors' bounds are tightened; the rest is
verified in ascending order of its bound until the next bound exceeds the incumbent. Several outputs add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    as_float64,
    at,
    at_least,
    at_most,
    column_squares,
    empty,
    fetch,
    from_host,
    less_product,
    namespace,
    put,
    put_at,
    row_blocks,
    row_squares,
    send,
    smallest,
    take_off_rows,
    to_host,
)
from termwise._memory import budget
from termwise._numerics import (
    LEVERAGE_GAP_MIN,
    LOO_BOUND_ULPS,
    LOO_DEVIATION_ROUNDING,
    LOO_WEIGHT_MAX,
    SUM_ROUNDING_ULPS,
    TIE_TOLERANCE,
)
from termwise.selection.blocks import PartialSums, Reduced, RowArrays, RowBlock, mutates
from termwise.selection.rules import Choice, Rule
from termwise.selection.state import FIXED_ROWS, CandidateStats, State

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

CACHE_SHARE = 0.035  # of the size of G that cached directions may take
CACHE_ENTRIES = 1 << 16  # entries that may be cached whatever the size of G
CACHE_IDLE = 3  # steps after which a direction that was not verified is dropped


@dataclass(frozen=True)
class CascadeOptions:
    """When the stages of the cascade start; the choices do not depend on them, only the time."""

    min_verified: int = 4  # candidates verified for the incumbent
    tighten_above: int = 32  # survivors for which bound 1 pays
    many_survivors: int = 24  # verified candidates of a step that make a pass over the squares of G worthwhile
    squares_interval: int = 12  # steps that such a pass serves at least
    cache_slots: tuple[int, int] = (16, 256)  # cached directions, at least and at most


class LooRule(Rule):
    """Smallest leave-one-out squared error after adding the candidate (Pahikkala et al., Algorithm 2)."""

    name = "loo"
    end = "no candidate is left that has a leave-one-out error and is not a combination of the chosen ones"

    def __init__(self, options: CascadeOptions | None = None) -> None:
        self.options = CascadeOptions() if options is None else options
        self.leverage_bound: LeverageBound | None = None
        self.cache: DirectionCache | None = None
        self.n_survivors, self.age = 0, self.options.squares_interval
        self.ahead: LooBounds | None = None

    def prepare(self, state: State) -> None:
        """Launch the bounds and the first verifications right after the pass, before the host reads anything."""
        ahead = state.rows.device_block is not None and state.run_ahead is None and self.leverage_bound is None
        if ahead and self.n_survivors <= self.options.many_survivors:
            self.ahead = LooBounds(state, None, self._batch_size(state) + 1)

    def choose(self, state: State) -> Choice | None:
        """Return exactly the candidate brute force would, verifying as few as the bounds allow."""
        if state.run_ahead is not None and (taken := state.run_ahead.next(state)) is not None:
            return Choice(taken.candidate, taken.score, taken.verified)
        size, extra = self._batch_size(state), self._leverage_bounds(state)
        bounds, self.ahead = self.ahead, None
        if bounds is None or bounds.state is not state:
            bounds = LooBounds(state, extra, size + 1)  # one more, to see whether its bound exceeds the incumbent
        assert self.cache is not None
        numbers, errors, lower, best = np.empty(0, dtype=np.intp), np.empty(0), np.empty(0), np.inf
        while True:
            stats, values = bounds.shortlist(size + 1)
            batch = np.flatnonzero((values <= best) & (values < np.inf))[:size]
            exact, bounds.exact = bounds.exact, None
            if exact is not None:
                batch = batch[: len(exact)]
            if not len(batch):
                break
            found = verified_errors(state, self.cache, stats.take(batch)) if exact is None else exact[batch]
            numbers, errors = np.concatenate([numbers, stats.numbers[batch]]), np.concatenate([errors, found])
            lower, best = np.concatenate([lower, values[batch]]), errors.min()
            if len(batch) == len(values) or values[len(batch)] > best:
                break
            bounds.values = put_at(bounds.values, stats.numbers[batch], np.inf)  # they are verified
            if len(numbers) == len(batch):
                bounds.tighten(best, self.options.tighten_above)
            else:
                size = min(2 * size, self.cache.capacity)
        self.n_survivors = int(np.count_nonzero(lower <= best))  # the others were verified because that cost nothing
        if not best < np.inf:
            return None
        first = numbers[errors <= best * (1 + TIE_TOLERANCE)].min()
        return Choice(int(first), float(errors[numbers == first][0]), len(numbers))

    def _batch_size(self, state: State) -> int:
        """How many candidates to verify at a time."""
        if self.cache is None:
            self.cache = DirectionCache(state, self.options.cache_slots)
        return max(self.options.min_verified, min(self.cache.capacity, state.rows.min_work // int(state.n)))

    def _leverage_bounds(self, state: State) -> Array | None:
        """Lower bounds of what a candidate's own leverage adds, once many candidates had to be verified."""
        self.age += 1
        if self.n_survivors > self.options.many_survivors and self.age > self.options.squares_interval:
            self.leverage_bound = self.leverage_bound or LeverageBound(state)
            self.age = 0
        return None if self.leverage_bound is None else self.leverage_bound.lower_bounds(state, self.age == 0)


# -- bounds 0 and 1 ----------------------------------------------------------------------------------------------------


class BoundNumbers(NamedTuple):
    """Numbers of bound 0."""

    alpha: Array  # (1,)
    two_w0: Array  # (1,)
    deviation: Array  # (3,) coefficients that make `4 |(w - w0) r|^2` of the sums over the rows


class LooBounds:
    """Lower bounds of the errors of all candidates, infinite for those that are excluded or have been verified.

    They depend on the rows only through sums the driver has. A device verifies the first few in the same launch.
    """

    exact: Floats | None = None  # errors of the first of the shortlist, if they were verified already

    def __init__(self, state: State, extra: Array | None = None, count: int = 1) -> None:
        self.state, block, launcher = state, state.rows.device_block, state.rows.launcher
        moments = state.last_moments if block is not None and state.last_moments else state.moments
        w0 = moments.w0  # any is valid, and that of the moments last read needs no wait for the device
        deviation = np.array([4 * w0 * w0, -8 * w0, 4 * (1 + LOO_DEVIATION_ROUNDING)])
        numbers = BoundNumbers(np.array([state.alpha]), np.array([2 * w0]), deviation)
        count = min(count, state.rows.n_candidates)
        arrays = (count, state.eligible, state.sums, state.table)
        if block is None or extra is not None:
            self.values, self.beta, self.size, *_, self.found = launcher.launch(bound_candidates, arrays, numbers)
        else:
            sizes = (2 + state.table.shape[0]) * count, 2 * max(1, count - 1), state.sums.shape[0]
            launched = launcher.launch(bound_and_verify, (block.arrays, *arrays), numbers, read=sum(sizes))
            self.values, self.beta, self.size, host = launched
            found, verified, sums = np.split(host, np.cumsum(sizes[:2]))
            errors, gaps = verified.reshape(2, -1)
            self.exact, self.found = np.where(gaps < LEVERAGE_GAP_MIN, np.inf, errors), found.reshape(-1, count)
            state.set_moments(sums)
        if extra is not None:
            self.values, self.found = self.values + extra, None
        rounding = LOO_BOUND_ULPS * float(np.finfo(state.rows.dtype).eps)
        self.floor = float(state.moments.wrr.sum()) * (1 - rounding)

    def shortlist(self, count: int) -> tuple[CandidateStats, Floats]:
        """Return the statistics of the candidates with the smallest bounds, and these bounds."""
        if self.found is None:
            places, values = smallest(self.values, count)
            stats, (values,) = self.state.fetch_candidates(places, values)
            return stats, self.floor + values
        found, self.found = to_host(self.found), None
        return self.state.set_candidates(found[0], found[2:]), self.floor + found[1]

    def tighten(self, best: float, threshold: int) -> None:
        """Replace bound 0 by bound 1 for candidates that may be better than the best, if they are many."""
        values = to_host(self.values)
        alive = np.flatnonzero(np.isfinite(values) & (self.floor + values <= best))
        if len(alive) > threshold:
            many = 4 * len(alive) > len(values)  # then one more pass is faster than reading their columns
            along, through = self.state.rows.reduce(weighted_residual_products, None if many else alive)
            along = (at(along, alive) if many else along) - at(self.state.T, alive, axis=1).T @ through
            beta, size = at(self.beta, alive, axis=1), at(self.size, alive, axis=1)
            tight = sum_outputs(self.state.moments.gap**-2 * size * size - 2 * beta * along.T)
            self.values = put_at(self.values, alive, tight)


def bound_candidates(
    count: int, eligible: Array, sums: Array, table: Array, numbers: BoundNumbers
) -> tuple[Array, ...]:
    """Bound 0 of all candidates, less `sum w r^2`; then `beta`, `|beta| |v|` and den.

    Last are the places of the smallest bounds, and these bounds with the statistics of the candidates there.
    """
    xp, q, excluded = namespace(table), sums.shape[0] // 3 - 1, ~eligible
    slope = at_least(numbers.deviation @ xp.reshape(sums[: 3 * q], (3, q)), 0.0) ** 0.5
    w_min = at_least(sums[3 * q + 1 : 3 * q + 2], LEVERAGE_GAP_MIN) ** -2
    den = put(numbers.alpha + table[2 * q, :], excluded, 1.0)
    beta = table[:q, :] / den
    size = xp.abs(beta) * at_least(table[2 * q + 1, :], 0.0) ** 0.5
    losses = less_product(size * (w_min * size - slope[:, None]), numbers.two_w0 * beta, table[q : 2 * q, :])
    bound = put(sum_outputs(losses), excluded, np.inf)
    places, least = smallest(bound, count)
    found = xp.concat([as_float64(places)[None, :], least[None, :], at(table, places, axis=1)])
    return bound, beta, size, den, places, found


def sum_outputs(values: Array) -> Array:
    """Sum over the outputs, which are rows."""
    return values[0, :] if values.shape[0] == 1 else namespace(values).sum(values, axis=0)


def bound_and_verify(
    rows: RowArrays, count: int, eligible: Array, sums: Array, table: Array, numbers: BoundNumbers
) -> tuple[Array, Array, Array, Array]:
    """`bound_candidates`, the errors of the candidates with the smallest bounds but the last, and the sums."""
    bound, beta, size, den, places, found = bound_candidates(count, eligible, sums, table, numbers)
    xp, few, first = namespace(found), places[: max(1, count - 1)], 2 + 2 * rows.r.shape[1] + FIXED_ROWS
    T = found[first : min(first + rows.Zt.shape[0], found.shape[0]), : few.shape[0]]
    verified = direct_errors(rows, Batch(at(beta, few, axis=1)[:, :, None], at(den, few)[:, None], few, T))
    parts = [xp.reshape(part, (-1,)) for part in (found, verified.values, sums)]
    return bound, beta, size, xp.concat(parts)


def weighted_residual_products(block: RowBlock, candidates: Indices | None) -> PartialSums:
    """`G'(w r)`, (candidates, q), and `Z'(w r)`, (k, q), on the rows of a block; None means all candidates."""
    wr = block.r * (at_least(block.gap, LEVERAGE_GAP_MIN) ** -2)[:, None]
    direct = block.products(wr) if candidates is None else block.columns(candidates).T @ wr
    return PartialSums((direct, block.Z.T @ wr))


# -- exact errors ------------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Candidates to verify."""

    beta: Array  # (q, m, 1)
    den: Array  # (m, 1)
    candidates: Array  # (m,)
    T: Array  # (k, m)


def verified_errors(state: State, cache: DirectionCache, few: CandidateStats) -> Floats:
    """Exact leave-one-out squared error of the model with each of a few candidates added; infinite if undefined."""
    den = state.alpha + few.s
    found = state.rows.reduce(verify, cache.plan(few.numbers, few.T, state), few.c / den, den)
    errors, gaps = to_host(found.values)[:, : len(den)]
    return np.where(gaps < LEVERAGE_GAP_MIN, np.inf, errors)


@mutates
def verify(block: RowBlock, plan: CachePlan, beta: Floats, den: Floats) -> Reduced:
    """Leave-one-out squared errors on the rows of a block."""
    if plan.capacity:
        update_cache(block, plan)
        beta, den = send(block.Y, beta[:, :, None], den[:, None])
        cached: Array = block.directions
        return errors_from(lambda rows: at(cached[:, rows], plan.slots), block.arrays, beta, den)
    size = 1 << max(2, len(den) - 1).bit_length() if block.launcher.fixed_shapes else len(den)  # few shapes to capture
    padded = np.minimum(np.arange(size), len(den) - 1)
    batch = Batch(beta[:, padded, None], den[padded, None], plan.missing[padded], block.pad(plan.T)[:, padded])
    return block.launcher.launch(direct_errors, (block.arrays,), batch)


def direct_errors(arrays: RowArrays, batch: Batch) -> Reduced:
    """Errors of candidates whose directions `V = G_B - Z T_B` are computed tile by tile."""
    Zt = arrays.Zt[: batch.T.shape[0], :]

    def directions(rows: slice) -> Array:
        V = arrays.G.columns(batch.candidates, rows)
        V = V if arrays.root is None else V * arrays.root[rows, None]
        V -= Zt[:, rows].T @ batch.T
        return V.T

    return errors_from(directions, arrays, batch.beta, batch.den)


def errors_from(directions: Callable[[slice], Array], arrays: RowArrays, beta: Array, den: Array) -> Reduced:
    """Squares of `(r - beta v) / (leverage_gap - v^2 / den)` added up, tile by tile, and the smallest leverage gaps."""
    r, xp, errors, gaps, part = arrays.r, namespace(arrays.r), [], [], 1 / den
    for rows in row_blocks(r.shape[0], 4 * den.shape[0], r):
        V = directions(rows)
        left = less_product(arrays.gap[rows], V, V * part if arrays.root is None else V * part * arrays.share[rows])
        gaps.append(xp.min(left, axis=1))
        for i in range(r.shape[1]):
            error = less_product(r[rows, i], V, beta[i, :, :])
            with np.errstate(divide="ignore", invalid="ignore"):  # of an undefined error
                error /= left
            errors.append(row_squares(error))
    least = gaps[0] if len(gaps) == 1 else xp.min(xp.stack(gaps), axis=0)
    return Reduced(xp.stack([sum(errors[1:], start=errors[0]), least]), ("minimum",))


# -- cached directions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CachePlan:
    """Where the directions of a batch are, and how to update the cache for that, in this order."""

    capacity: int  # slots; 0: nothing is cached, all directions are computed
    holes: Indices  # slots to be overwritten ...
    movers: Indices  # ... by these
    amounts: Array  # (new columns of Z, slots in use) how much of them to subtract from each slot
    missing: Indices  # candidates to be computed ...
    T: Floats  # (k, missing) ... by subtracting `Z T` from their columns ...
    places: Indices  # ... and stored in these slots
    slots: Indices  # of the whole batch


class DirectionCache:
    """Index of the cached directions `v = P g` of the candidates verified last; the blocks hold the directions.

    Runners-up tend to be verified again at the next step. A new z changes v by `-z t` only: updating a cached direction
    reads two vectors, computing it reads a column of G and k columns of Z. The least recently used is replaced.
    """

    def __init__(self, state: State, slots: tuple[int, int]) -> None:
        self.enabled = state.rows.caches_directions
        entries = min(max(CACHE_SHARE * state.nbytes / 8, CACHE_ENTRIES), budget() / 32)  # a quarter of the budget
        self.capacity = int(np.clip(entries / state.n_rows, *slots)) if self.enabled else slots[1]
        self.slot = np.full(state.rows.n_candidates, -1)  # of every candidate, -1 if it is not cached
        self.owners = np.empty(0, dtype=np.intp)
        self.used = np.empty(0, dtype=np.intp)
        self.clock = self.rebuilt = 0

    def plan(self, batch: Indices, T: Floats, state: State) -> CachePlan:
        """Plan the update of the cache for a batch of at most `capacity` candidates."""
        if not self.enabled:
            none = batch[:0]
            return CachePlan(0, none, none, np.empty((0, 0)), batch, T, none, none)
        if state.rebuilt > self.rebuilt:  # the model has other columns now
            self.slot[self.owners] = -1
            self.owners, self.used = self.owners[:0], self.used[:0]
        holes, movers = self._drop_idle(state.k - self.clock)
        amounts = at(state.T[self.clock :, :], self.owners, axis=1)
        self.clock, self.rebuilt = state.k, state.rebuilt
        present = self.slot[batch] >= 0
        missing = batch[~present]
        self.used[self.slot[batch[present]]] = self.clock
        places = self._free_slots(len(missing))
        self.owners[places], self.used[places], self.slot[missing] = missing, self.clock, places
        return CachePlan(self.capacity, holes, movers, amounts, missing, T[:, ~present], places, self.slot[batch])

    def _drop_idle(self, steps: int) -> tuple[Indices, Indices]:
        """Close the gaps of directions that have been idle for too long; nothing moves within a step."""
        lively = np.flatnonzero(self.used >= self.clock + steps - CACHE_IDLE)
        count = len(lively)
        if not steps or count == len(self.owners):
            return lively[:0], lively[:0]
        movers = lively[lively >= count]
        holes = np.flatnonzero(self.used[:count] < self.clock + steps - CACHE_IDLE)
        self.slot[self.owners] = -1
        self.owners[holes], self.used[holes] = self.owners[movers], self.used[movers]
        self.owners, self.used = self.owners[:count], self.used[:count]
        self.slot[self.owners] = np.arange(count)
        return holes, movers

    def _free_slots(self, count: int) -> Indices:
        """Slots for new directions: empty ones while the cache may grow, else the least recently used."""
        free = min(count, max(0, self.capacity - len(self.owners)))
        old = np.argsort(self.used, kind="stable")[: count - free]
        self.slot[self.owners[old]] = -1
        new = np.arange(len(self.owners), len(self.owners) + free)
        self.owners = np.append(self.owners, np.full(free, -1))
        self.used = np.append(self.used, np.zeros(free, dtype=np.intp))
        return np.concatenate([old, new])


def update_cache(block: RowBlock, plan: CachePlan) -> None:
    """Update the cached directions of a block."""
    if block.directions is None:
        block.directions = empty((plan.capacity, block.Y.shape[0]), block.Y)  # its pages are touched as it fills
    directions = block.directions
    if len(plan.holes):
        put_at(directions, plan.holes, at(directions, plan.movers))
    new, used = plan.amounts.shape
    for i in range(new):
        take_off_rows(directions[:used, :], from_host(plan.amounts, block.Y)[i, :], block.Z[:, block.k - new + i])
    if len(plan.missing):
        V = block.columns(plan.missing)
        V -= block.Z @ from_host(plan.T, block.Y)
        put_at(directions, plan.places, V.T)


# -- the bound of a candidate's own leverage ---------------------------------------------------------------------------


class LeverageBound:
    """Lower bounds of what a candidate's own leverage adds to its leave-one-out error.

    Since `1 / (1 - x)^2 >= 1 + 2 x`, a candidate's leave-one-out error is at least

        sum w (r - beta v)^2 + 2 / den sum u (r - beta v)^2 v^2,    u = w / leverage_gap.

    Bounds 0 and 1 are of the first sum. The second is about two noise variances for every candidate: without it, each
    candidate whose gain is that close to the best must be verified, which under pure noise are many. By the triangle
    inequality its root is at least `sqrt(sum a v^2) - |beta| sqrt(max u) |v|_4^2` with `a = u r^2`. One pass over the
    squares of G gives `sum a g^2` and `|g|_4` for every candidate, and these serve for many steps:

        sqrt(sum a v^2) >= sqrt(sum a g^2) - sqrt(T' M T),  M = Z' diag(a) Z,    |v|_4 <= |g|_4 + |T|' |z|_4

    and, the residual having changed since from a to a', `sum a' v^2 >= sum a v^2 - |(a - a')_+| |v|_4^2`.
    (Columns are centred, if there is an intercept.)
    """

    def __init__(self, state: State) -> None:
        self.first, self.means = state.intercept, state.means
        self.fourth = state.rows.reduce(RowBlock.power_sums, 4, self.means) ** 0.25
        self.rebuilt = -1

    def lower_bounds(self, state: State, refresh: bool) -> Array:
        """Return a lower bound of the second sum for all candidates; `refresh` passes over the squares of G first."""
        if refresh:
            self.root = state.rows.reduce(weighted_squares, self.means) ** 0.5
        if refresh or self.rebuilt < state.rebuilt:  # the columns may have been replaced
            self.M, self.z_fourth, self.rebuilt = np.empty((0, 0)), np.empty(0), state.rebuilt
        done = len(self.z_fourth)
        side, fourth, lost, steep = state.rows.reduce(residual_change, self.first, done)
        side, fourth, lost, steep = fetch(side, fourth, lost, steep.values)
        M = np.empty((len(side), len(side)))
        M[:done, :done], M[:, done:], M[done:] = self.M, side, side.T
        self.M, self.z_fourth = M, np.append(self.z_fourth, fourth**0.25)
        xp, den, T = namespace(state.s), state.den, state.T[self.first :, :]
        M, z_fourth = send(state.s, self.M, self.z_fourth)
        v4 = (self.fourth + z_fourth @ xp.abs(T)) ** 2
        root = at_least(self.root - at_least(xp.sum(T * (M @ T), axis=0), 0.0) ** 0.5, 0.0)
        slope = row_squares(state.c) ** 0.5 * float(np.sqrt(steep[0])) / den
        root = at_least(root**2 - float(np.sqrt(lost[0])) * v4, 0.0) ** 0.5 - slope * v4
        return 2 / den * at_least(root, 0.0) ** 2


@mutates
def weighted_squares(block: RowBlock, means: Array) -> Array:
    """Store the present a, and return at most `sum a (g - mean)^2` of every column."""
    u = block.share / at_least(block.gap, LEVERAGE_GAP_MIN) ** 3
    block.a = at_most(u * row_squares(block.r), LOO_WEIGHT_MAX)
    weights = block.a if block.weights is None else block.a * block.weights
    squares, along = block.G.power_sums(2, weights), block.G.products(weights)
    rounding = SUM_ROUNDING_ULPS * float(np.finfo(block.G.dtype).eps) * squares
    return at_least(squares - 2 * means * along + means**2 * namespace(weights).sum(weights) - rounding, 0.0)


def residual_change(block: RowBlock, first: int, done: int) -> PartialSums:
    """How far a has changed to a' since it was stored, and products of new columns of Z, which start at `first`.

    That is `Z' diag(a) z` (k, new) and `sum z^4` (new,) of new columns, `sum (a - a')_+^2` and the largest u.
    """
    xp, Z, new = namespace(block.a), block.Z[:, first:], block.Z[:, first + done :]
    u = block.share / at_least(block.gap, LEVERAGE_GAP_MIN) ** 3
    lost = at_least(block.a - u * row_squares(block.r), 0.0)
    side = Z.T @ (block.a[:, None] * new)
    steep = Reduced(xp.max(u)[None], ("maximum",))
    return PartialSums((side, column_squares(new * new), lost[None, :] @ lost, steep))
