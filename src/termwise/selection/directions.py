"""The directions `v = P g` of the candidates that were verified last, kept up to date.

Runners-up tend to come up again at the next step. A new z changes v by `-z t` only, so a kept direction costs two reads
of a vector a step, where a fresh one costs a look at a column of G and k columns of Z.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from termwise.selection.blocks import RowBlock

Floats = NDArray[np.float64]

SHARE = 0.035  # of the size of G
FEWEST, MOST = 16, 256
SMALL = 1 << 16  # numbers that may be kept whatever the size of G
IDLE = 3  # steps after which a direction that was not looked at is given up


class Directions:
    """A table of directions, one contiguous row per candidate and block; the least recently used row makes room."""

    def __init__(self, blocks: Sequence[RowBlock]) -> None:
        self.blocks = blocks
        entries = sum(block.G.data.nbytes if hasattr(block.G, "indptr") else block.G.nbytes for block in blocks) / 8
        rows = sum(len(block.Y) for block in blocks)
        self.capacity = int(np.clip(max(SHARE * entries, SMALL) / rows, FEWEST, MOST))
        self.tables = [np.empty((self.capacity, len(block.Y))) for block in blocks]  # touched as it fills
        self.slot = np.full(blocks[0].G.shape[1], -1)  # of every candidate, -1 for those not here
        self.owners = np.empty(0, dtype=np.intp)
        self.used = np.empty(0, dtype=np.intp)
        self.clock = 0

    def fetch(self, batch: NDArray[np.intp], T: Floats) -> NDArray[np.intp]:
        """Return the rows of the tables that hold a batch, filling in what is missing; at most `capacity` at a time."""
        missing = batch[self.slot[batch] < 0]
        self.used[self.slot[batch[self.slot[batch] >= 0]]] = self.clock
        if len(missing):
            slots = self._make_room(len(missing))
            for block, table in zip(self.blocks, self.tables, strict=True):
                V = block.columns(missing)
                V -= block.Z @ T[:, missing]
                table[slots] = V.T
            self.owners[slots], self.used[slots], self.slot[missing] = missing, self.clock, slots
        return self.slot[batch]

    def update(self, overlap: Floats) -> None:
        """Follow the model by its newest column z; `overlap` holds `z'v - z'g` of every candidate."""
        self.clock += 1
        self._give_up()
        if not len(self.owners):
            return
        filled = [
            (table[: len(self.owners)], block.Z[:, -1]) for table, block in zip(self.tables, self.blocks, strict=True)
        ]
        t = sum(table @ z for table, z in filled) - overlap[self.owners]
        for table, z in filled:
            for row, amount in zip(table, t, strict=True):
                row -= amount * z

    def forget(self) -> None:
        """Empty the table: the penalty has changed."""
        self.slot[self.owners] = -1
        self.owners, self.used = self.owners[:0], self.used[:0]

    def _give_up(self) -> None:
        """Close the gaps of directions that were idle for too long."""
        lively = np.flatnonzero(self.used >= self.clock - IDLE)
        if len(lively) == len(self.owners):
            return
        movers = lively[lively >= len(lively)]
        holes = np.flatnonzero(self.used[: len(lively)] < self.clock - IDLE)
        for table in self.tables:
            table[holes] = table[movers]
        self.slot[self.owners] = -1
        self.owners[holes], self.used[holes] = self.owners[movers], self.used[movers]
        self.owners, self.used = self.owners[: len(lively)], self.used[: len(lively)]
        self.slot[self.owners] = np.arange(len(lively))

    def _make_room(self, count: int) -> NDArray[np.intp]:
        """Rows for new directions: empty ones while the table may grow, else the least recently used."""
        free = min(count, max(0, self.capacity - len(self.owners)))
        old = np.argsort(self.used, kind="stable")[: count - free]
        self.slot[self.owners[old]] = -1
        new = np.arange(len(self.owners), len(self.owners) + free)
        self.owners = np.append(self.owners, np.full(free, -1))
        self.used = np.append(self.used, np.zeros(free, dtype=np.intp))
        return np.concatenate([old, new])
