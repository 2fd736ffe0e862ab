"""The directions `v = P g` of the candidates that were verified last, kept up to date.

Runners-up tend to come up again at the next step. A new z changes v by `-z t` only, so a kept direction costs two reads
of a vector a step, where a fresh one costs a look at a column of G and k columns of Z. The driver keeps the books, the
blocks hold the directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, at, empty, put_at, take_off_rows
from termwise._memory import budget
from termwise.selection.blocks import RowBlock, Start
from termwise.selection.state import State

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

SHARE = 0.035  # of the size of G
FEWEST, MOST = 16, 256
SMALL = 1 << 16  # numbers that may be kept whatever the size of G
IDLE = 3  # steps after which a direction that was not looked at is given up


@dataclass(frozen=True)
class Kept:
    """Where the directions of a batch are, and what must be done to the table for that, in this order."""

    capacity: int  # rows of the table; 0: nothing is kept, all are computed
    holes: Indices  # rows to be overwritten ...
    movers: Indices  # ... by these
    amounts: Array  # (new columns of Z, rows in use) how much of them to take off each row
    missing: Indices  # candidates to be computed ...
    T: Floats  # (k, missing) ... by taking `Z T` off their columns ...
    places: Indices  # ... and put into these rows
    slots: Indices  # rows of the whole batch


class Directions:
    """The books of a table of directions, one row per candidate; the least recently used row makes room."""

    def __init__(self, start: Start, candidates: int, keep: bool = True) -> None:
        room = min(max(SHARE * start.nbytes / 8, SMALL), budget() / 32)  # numbers: a quarter of the budget at most
        self.keep, self.capacity = keep, int(np.clip(room / start.rows, FEWEST, MOST)) if keep else MOST
        self.slot = np.full(candidates, -1)  # of every candidate, -1 for those not here
        self.owners = np.empty(0, dtype=np.intp)
        self.used = np.empty(0, dtype=np.intp)
        self.clock = self.rebuilt = 0

    def fetch(self, batch: Indices, T: Floats, state: State) -> Kept:
        """Say where the directions of a batch, at most `capacity` of them, are once the table is brought up to date."""
        if not self.keep:
            none = batch[:0]
            return Kept(0, none, none, np.empty((0, 0)), batch, T, none, none)
        if state.rebuilt > self.rebuilt:
            self._forget()
        holes, movers = self._give_up(state.k - self.clock)
        amounts = at(state.T[self.clock :, :], self.owners, axis=1)
        self.clock, self.rebuilt = state.k, state.rebuilt
        present = self.slot[batch] >= 0
        missing = batch[~present]
        self.used[self.slot[batch[present]]] = self.clock
        places = self._make_room(len(missing))
        self.owners[places], self.used[places], self.slot[missing] = missing, self.clock, places
        return Kept(self.capacity, holes, movers, amounts, missing, T[:, ~present], places, self.slot[batch])

    def _forget(self) -> None:
        """Empty the table: the model has other columns now."""
        self.slot[self.owners] = -1
        self.owners, self.used = self.owners[:0], self.used[:0]

    def _give_up(self, steps: int) -> tuple[Indices, Indices]:
        """Close the gaps of directions that will have been idle for too long; nothing moves within a step."""
        lively = np.flatnonzero(self.used >= self.clock + steps - IDLE)
        count = len(lively)
        if not steps or count == len(self.owners):
            return lively[:0], lively[:0]
        movers = lively[lively >= count]
        holes = np.flatnonzero(self.used[:count] < self.clock + steps - IDLE)
        self.slot[self.owners] = -1
        self.owners[holes], self.used[holes] = self.owners[movers], self.used[movers]
        self.owners, self.used = self.owners[:count], self.used[:count]
        self.slot[self.owners] = np.arange(count)
        return holes, movers

    def _make_room(self, count: int) -> Indices:
        """Rows for new directions: empty ones while the table may grow, else the least recently used."""
        free = min(count, max(0, self.capacity - len(self.owners)))
        old = np.argsort(self.used, kind="stable")[: count - free]
        self.slot[self.owners[old]] = -1
        new = np.arange(len(self.owners), len(self.owners) + free)
        self.owners = np.append(self.owners, np.full(free, -1))
        self.used = np.append(self.used, np.zeros(free, dtype=np.intp))
        return np.concatenate([old, new])


def bring_up_to_date(block: RowBlock, kept: Kept) -> None:
    """Do to a block's table what is to be done to it."""
    if block.table is None:
        block.table = empty((kept.capacity, block.Y.shape[0]), block.Y)  # touched as it fills
    table = block.table
    if len(kept.holes):
        put_at(table, kept.holes, at(table, kept.movers))
    new, used = kept.amounts.shape
    for i in range(new):
        take_off_rows(table[:used, :], block.here(kept.amounts)[i, :], block.Z[:, block.k - new + i])
    if len(kept.missing):
        V = block.columns(kept.missing)
        V -= block.Z @ block.here(kept.T)
        put_at(table, kept.places, V.T)
