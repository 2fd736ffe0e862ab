"""Lower bounds of leave-one-out errors by products with directions `v = P g`, which are cached.

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

from termwise._arrays import at_least, column_squares, is_foreign, to_host
from termwise._memory import budget
from termwise._numerics import FLOAT32, LEVERAGE_GAP_MIN, LOO_WEIGHT_MAX, SMALLEST_NORMAL
from termwise.selection.blocks import PartialSums, RowBlock, mutates
from termwise.selection.state import State

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

CACHE_SHARE = 0.06  # of the size of G that cached directions may take
CACHE_BYTES = 1 << 25  # that they may take whatever the size of G
CACHE_IDLE = 4  # steps after which a direction that was not needed is dropped
TILE_ENTRIES = 1 << 17  # of directions that are processed at a time: they stay in a core's cache


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
