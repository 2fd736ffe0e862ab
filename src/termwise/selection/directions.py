"""Cached directions `v = P g` of candidates, and lower bounds of their leave-one-out errors by inner products with them.

Runners-up tend to be candidates again at the next step. A new z changes v by `-z t` only: updating a cached direction
reads two vectors, computing it reads a column of G and k columns of Z. The driver has the index, blocks the directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    at,
    at_least,
    at_most,
    empty,
    from_host,
    namespace,
    put_at,
    row_squares,
    take_off_rows,
)
from termwise._memory import budget
from termwise._numerics import LEVERAGE_GAP_MIN, LOO_WEIGHT_MAX
from termwise.selection.blocks import PartialSums, RowBlock, mutates
from termwise.selection.state import State

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

CACHE_SHARE = 0.05  # of the size of G that cached directions may take
CACHE_ENTRIES = 1 << 21  # entries that may be cached whatever the size of G
CACHE_IDLE = 4  # steps after which a direction that was not needed is dropped
TILE_ENTRIES = 1 << 17  # of directions that are processed at a time: they stay in a core's cache


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
    """Index of the cached directions of the candidates needed last; the least recently used is replaced."""

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
        self.used[self.slot[batch[present]]] = self.clock + 1  # later than earlier batches of this step: none is replaced
        places = self._free_slots(len(missing))
        self.owners[places], self.slot[missing] = missing, places
        slots = self.slot[batch]
        self.used[slots] = self.clock
        return CachePlan(self.capacity, holes, movers, amounts, missing, T[:, ~present], places, slots)

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
        V = block.columns(plan.missing).T
        V -= from_host(plan.T, block.Y).T @ block.Zt[: block.k, :]
        put_at(directions, plan.places, V)


@mutates
def direction_products(block: RowBlock, plan: CachePlan) -> PartialSums:
    """Products of directions v with the rows, from which `LooBounds.screen` bounds leave-one-out errors.

    With `w = 1 / leverage_gap^2` and `u = w / leverage_gap` these are `sum w r v` (m, q), `sum u |r|^2 v^2` (m,) and
    `sum u r v^3` (m, q).
    """
    update_cache(block, plan)
    xp, gap = namespace(block.gap), at_least(block.gap, LEVERAGE_GAP_MIN)
    u = at_most(block.share / gap**3, LOO_WEIGHT_MAX)
    wr, ur, energy = block.r / (gap * gap)[:, None], block.r * u[:, None], u * row_squares(block.r)
    found, step = [], max(1, TILE_ENTRIES // gap.shape[0])
    for start in range(0, len(plan.slots), step):
        V = at(block.directions, plan.slots[start : start + step])
        squares = V * V
        along, second = V @ wr, squares @ energy
        V *= squares
        found.append((along, second, V @ ur))
    return PartialSums(xp.concat(parts) for parts in zip(*found, strict=True))
