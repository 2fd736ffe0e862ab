"""Tighter lower bounds of leave-one-out errors than those that `leave_one_out` has for every candidate.

`direction_products` are of a few candidates: what bound 2 needs of their directions `v = P g`, which are cached.
`LeverageBound` is of all candidates: what their own leverage adds, by passes over the squares of G.

Runners-up tend to be candidates again at the next step. A new z changes v by `-z t` only: updating a cached direction
reads two vectors, computing it reads a column of G and k columns of Z. The main process stores the index, the blocks
the directions.

For bounds float32 is enough: half the memory, and twice the speed. Directions are stored as shares of `|g|`, so that
their powers stay within its range. As rounding is relative to `|g|` whatever is left of g beside the model,
`LooBounds.screen` allows for it by `LOO_BOUND_ULPS` of `|g|`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    at_least,
    at_most,
    column_squares,
    fetch,
    is_foreign,
    namespace,
    row_squares,
    to_host,
)
from termwise._memory import budget
from termwise._numerics import FLOAT32, LEVERAGE_GAP_MIN, LOO_WEIGHT_MAX, SMALLEST_NORMAL, SUM_ROUNDING_ULPS
from termwise.selection.blocks import PartialSums, Reduced, RowBlock, mutates
from termwise.selection.state import State

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

CACHE_SHARE = 0.06  # of the size of G that cached directions may take
CACHE_BYTES = 1 << 25  # that they may take whatever the size of G
CACHE_IDLE = 4  # steps after which a direction that was not needed is dropped
TILE_ENTRIES = 1 << 17  # of directions that are processed at a time: they stay in a core's cache


# -- cached directions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CachePlan:
    """Where the directions of a batch are, and how to update the cache for that, in this order."""

    capacity: int  # slots
    evicted: Indices  # slots to be overwritten ...
    moved: Indices  # ... by these
    missing: Indices  # candidates to be computed ...
    T: Floats  # (k, missing) ... by subtracting `Z T` from their columns,
    scales: Floats  # (missing,) multiplied by these ...
    places: Indices  # ... and stored in these slots
    amounts: Floats  # (new columns of Z, slots in use) how much of them to subtract from each slot then
    slots: Indices  # of the whole batch


class DirectionCache:
    """Index of the cached directions of the candidates needed last; the least recently used is replaced."""

    def __init__(self, state: State, slots: tuple[int, int]) -> None:
        self.enabled = state.rows.caches_directions and not is_foreign(state.s)
        size = min(max(CACHE_SHARE * state.nbytes, CACHE_BYTES), budget() / 4)
        self.capacity = int(np.clip(size / 4 / state.n_rows, *slots)) if self.enabled else slots[1]
        self.scale = to_host(at_least(state.norms, SMALLEST_NORMAL)) ** -0.5 if self.enabled else np.empty(0)
        self.slot = np.full(state.rows.n_candidates, -1)  # of every candidate, -1 if it is not cached
        self.owners = np.empty(0, dtype=np.intp)
        self.used = np.empty(0, dtype=np.intp)
        self.clock = self.rebuilt = 0

    def plan(self, batch: Indices, T: Floats, state: State) -> CachePlan:
        """Plan the update of the cache for a batch of at most `capacity` candidates."""
        if state.rebuilt > self.rebuilt:  # the model has other columns now
            self.slot[self.owners] = -1
            self.owners, self.used = self.owners[:0], self.used[:0]
        evicted, moved = self._drop_idle(state.k - self.clock)
        before, self.clock, self.rebuilt = self.clock, state.k, state.rebuilt
        present = self.slot[batch] >= 0
        missing = batch[~present]
        self.used[self.slot[batch[present]]] = self.clock + 1  # later than other batches of this step: not replaced
        places = self._free_slots(len(missing))
        self.owners[places], self.slot[missing] = missing, places
        slots = self.slot[batch]
        self.used[slots] = self.clock
        amounts = state.T[before:, self.owners] * self.scale[self.owners]
        amounts[:, places] = 0.0
        scales = self.scale[missing]
        return CachePlan(self.capacity, evicted, moved, missing, T[:, ~present], scales, places, amounts, slots)

    def _drop_idle(self, steps: int) -> tuple[Indices, Indices]:
        """Evict directions unused for `CACHE_IDLE` steps and compact the cache; no-op within a step."""
        kept = np.flatnonzero(self.used >= self.clock + steps - CACHE_IDLE)
        count = len(kept)
        if not steps or count == len(self.owners):
            return kept[:0], kept[:0]
        moved = kept[kept >= count]
        evicted = np.flatnonzero(self.used[:count] < self.clock + steps - CACHE_IDLE)
        self.slot[self.owners] = -1
        self.owners[evicted], self.used[evicted] = self.owners[moved], self.used[moved]
        self.owners, self.used = self.owners[:count], self.used[:count]
        self.slot[self.owners] = np.arange(count)
        return evicted, moved

    def _free_slots(self, count: int) -> Indices:
        """Slots for new directions: empty ones while the cache may grow, else the least recently used."""
        free = min(count, max(0, self.capacity - len(self.owners)))
        old = np.argsort(self.used, kind="stable")[: count - free]
        self.slot[self.owners[old]] = -1
        new = np.arange(len(self.owners), len(self.owners) + free)
        self.owners = np.append(self.owners, np.full(free, -1))
        self.used = np.append(self.used, np.zeros(free, dtype=np.intp))
        return np.concatenate([old, new])


def directions_of(block: RowBlock, candidates: Indices, T: Floats) -> Floats:
    """Directions of a few candidates in float64, one per row."""
    V = np.ascontiguousarray(block.columns(candidates).T)
    V -= T.T @ block.Zt[: block.k]
    return V


@mutates
def direction_products(block: RowBlock, plan: CachePlan) -> PartialSums:
    """Update the cached directions v, shares of `|g|`, and multiply them by the rows: `LooBounds.screen` needs that.

    With `omega = 1 / leverage_gap^2` and `u = omega / leverage_gap` the products are `sum omega r v` (m, q),
    `sum u |r|^2 v^2` (m,) and `sum u r v^3` (m, q).
    """
    if block.directions is None:
        block.directions = np.empty((plan.capacity, block.Y.shape[0]), FLOAT32)  # its pages are touched as it fills
    directions = block.directions
    if len(plan.evicted):
        directions[plan.evicted] = directions[plan.moved]
    if len(plan.missing):
        directions[plan.places] = directions_of(block, plan.missing, plan.T) * plan.scales[:, None]
    new, used = plan.amounts.shape
    amounts, Zt = plan.amounts.astype(FLOAT32), block.Zt[block.k - new : block.k].astype(FLOAT32)
    unit, gap = max(float(np.abs(block.r).max()), SMALLEST_NORMAL), np.maximum(block.gap, LEVERAGE_GAP_MIN)
    r, u = (block.r / unit).T, np.minimum(block.share / (gap * gap * gap), LOO_WEIGHT_MAX)
    wr, ur = (r / (gap * gap)).astype(FLOAT32), (r * u).astype(FLOAT32)
    energy = (u * column_squares(r)).astype(FLOAT32)
    sums, needed = np.zeros((2 * len(r) + 1, used)), np.zeros(used, dtype=bool)
    needed[plan.slots] = True
    step = max(1, TILE_ENTRIES // len(gap))
    for start in range(0, used, step):  # a tile is updated and multiplied while it is in the cache of a core
        tile = slice(start, start + step)
        V, buffer = directions[tile][: used - start], None
        for i in range(new):
            buffer = np.multiply(amounts[i, tile, None], Zt[i], out=buffer)
            V -= buffer
        if needed[tile].any():
            found = sums[:, tile]
            found[: len(r)] = [V @ x for x in wr]
            powers = np.multiply(V, V, out=buffer)
            found[len(r)] = powers @ energy
            powers *= V
            found[len(r) + 1 :] = [powers @ x for x in ur]
    along, second, third = np.split(sums[:, plan.slots], [len(r), len(r) + 1])
    return PartialSums((unit * along, unit**2 * second[0], unit * third))


# -- leverage ----------------------------------------------------------------------------------------------------------


class LeverageBound:
    """Lower bounds of what a candidate's own leverage adds to its leave-one-out error.

    Since `1 / (1 - x)^2 >= 1 + 2 x`, a candidate's leave-one-out error is at least

        sum omega (r - beta v)^2 + 2 / den sum u (r - beta v)^2 v^2,    u = omega / leverage_gap,

    with `omega = 1 / leverage_gap^2`. Bounds 0 and 1 are of the first sum. The second is about two noise variances for
    every candidate: without it, each candidate whose gain is that close to the best must be verified, which under pure
    noise are many. By the triangle inequality its root is at least `sqrt(sum a v^2) - |beta| sqrt(max u) |v|_4^2` with
    `a = u r^2`. One pass over the squares of G gives `sum a g^2` and `|g|_4` for every candidate, and these serve for
    many steps: with `v = g - Z T`

        sqrt(sum a v^2) >= sqrt(sum a g^2) - sqrt(m) |T|    m = largest eigenvalue of Z' diag(a) Z
                  |v|_4 <= |g|_4 + (max leverage)^(1/4) |T|    since |Z T|_4^4 <= max |Z T|^2 |Z T|_2^2

    and, the residual having changed since from a to a', `sum a' v^2 >= sum a v^2 - |(a - a')_+| |v|_4^2`. As
    `|T|^2 = |g|^2 - s`, a step costs O(p). (Columns are centred, if there is an intercept.)
    """

    def __init__(self, state: State) -> None:
        self.first, self.means = state.intercept, state.means
        self.fourth = state.rows.reduce(RowBlock.power_sums, 4, self.means) ** 0.25
        self.rebuilt = -1

    def lower_bounds(self, state: State, refresh: bool) -> Array:
        """Return a lower bound of the second sum for all candidates; `refresh` passes over the squares of G first."""
        if refresh:
            self.weighted = state.rows.reduce(weighted_squares, self.means) ** 0.5
        if refresh or self.rebuilt < state.rebuilt:  # the columns may have been replaced
            self.M, self.rebuilt = np.empty((0, 0)), state.rebuilt
        done = len(self.M)
        side, lost, largest = state.rows.reduce(residual_change, self.first, done)
        side, lost, largest = fetch(side, lost, largest.values)
        M = np.empty((len(side), len(side)))
        M[:done, :done], M[:, done:], M[done:] = self.M, side, side.T
        self.M, (steep, leverage) = M, largest.tolist()
        spread = float(np.linalg.eigvalsh(M)[-1]) if len(M) else 0.0
        along = at_least(state.norms - state.s, 0.0) ** 0.5
        v4 = (self.fourth + leverage**0.25 * along) ** 2
        root = at_least(self.weighted - max(spread, 0.0) ** 0.5 * along, 0.0)
        slope = row_squares(state.c) ** 0.5 * float(np.sqrt(steep)) / state.den
        root = at_least(root**2 - float(np.sqrt(lost[0])) * v4, 0.0) ** 0.5 - slope * v4
        return 2 / state.den * at_least(root, 0.0) ** 2


@mutates
def weighted_squares(block: RowBlock, means: Array) -> Array:
    """Store the present a, and return at most `sum a (g - mean)^2` of every column."""
    gap = at_least(block.gap, LEVERAGE_GAP_MIN)
    u = block.share / (gap * gap * gap)
    block.a = at_most(u * row_squares(block.r), LOO_WEIGHT_MAX)
    weights = block.a if block.weights is None else block.a * block.weights
    squares, along = block.G.power_sums(2, weights), block.G.products(weights)
    rounding = SUM_ROUNDING_ULPS * float(np.finfo(block.G.dtype).eps) * squares
    return at_least(squares - 2 * means * along + means**2 * namespace(weights).sum(weights) - rounding, 0.0)


def residual_change(block: RowBlock, first: int, done: int) -> PartialSums:
    """How far a has changed to a' since it was stored, and products of new columns of Z, which start at `first`.

    That is `Z' diag(a) z` (k, new) of new columns, `sum (a - a')_+^2`, and the largest u and leverage, of all repeats.
    """
    xp, Z, new = namespace(block.a), block.Z[:, first:], block.Z[:, first + done :]
    gap = at_least(block.gap, LEVERAGE_GAP_MIN)
    u = block.share / (gap * gap * gap)
    lost = at_least(block.a - u * row_squares(block.r), 0.0)
    side = Z.T @ (block.a[:, None] * new)
    largest = xp.stack([xp.max(u), xp.max((1 - block.gap) / block.share)])
    return PartialSums((side, lost[None, :] @ lost, Reduced(largest, ("maximum", "maximum"))))
