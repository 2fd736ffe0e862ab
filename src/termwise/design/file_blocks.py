"""Blocks of rows of a file as the engine asks for them: read ahead by a thread, with columns that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, Rows
from termwise.design.files import RowFile
from termwise.design.stored import EVERY, Dense, Design

Indices = NDArray[np.intp]


class Reader:
    """The blocks of a file in order, the next one read ahead, and columns that are kept of all of them.

    A column of a row-major file costs a whole pass, so that it pays to keep those that will be wanted soon when the
    rows come by anyway.
    """

    def __init__(self, source: RowFile, kept: int) -> None:
        self.source, step = source, source.block_rows
        used = np.ones(len(source), dtype=bool) if source._used is None else source._used
        starts = range(0, len(used), step)
        self.lengths = [int(used[i : i + step].sum()) for i in starts]
        self.offsets = np.cumsum([0, *self.lengths])
        self.checked = False
        self.owners = np.full(kept, -1)
        self.have = np.zeros((kept, len(self.lengths)), dtype=bool)
        self.store = np.empty((kept, len(source)), dtype=source.dtype)  # touched as it fills
        self._at, self._block = -1, np.empty((0, 0))
        self._pool = ThreadPoolExecutor(1)
        self._blocks: Iterator[NDArray] = iter(())
        self._next = len(self.lengths)
        self._ahead: Future | None = None

    def want(self, candidates: Indices) -> None:
        """Keep these columns, as many as there is room for, from the next pass on."""
        candidates = candidates[: len(self.owners)]
        new = candidates[~np.isin(candidates, self.owners)]
        free = np.flatnonzero(~np.isin(self.owners, candidates))[: len(new)]
        self.owners[free], self.have[free] = new, False

    def columns(self, i: int, chosen: Any) -> NDArray[np.float64] | None:
        """Return columns of a block if all of them are kept."""
        if isinstance(chosen, slice):
            chosen = range(self.source.shape[1])[chosen]
        if not 0 < len(chosen) <= len(self.owners):
            return None
        at = [np.flatnonzero((self.owners == j) & self.have[:, i]) for j in chosen]
        if not all(len(place) for place in at):
            return None
        return self.store[np.concatenate(at), self.offsets[i] : self.offsets[i + 1]].T.astype(np.float64)

    def block(self, i: int) -> NDArray:
        """Return a block, and let the next one be read."""
        if self._at != i:
            while self._next <= i and self._ahead is not None:
                self._take()
            if self._at != i:
                self._restart()
                while self._at != i:
                    self._take()
        return self._block

    def _restart(self) -> None:
        """Begin a pass."""
        if self._ahead is not None:
            self._ahead.result()
        self._blocks, self._next, self._at = self.source.blocks(), 0, -1
        self._ahead = self._pool.submit(self._load, 0)

    def _take(self) -> None:
        """Take the block that was read ahead."""
        assert self._ahead is not None
        self._block, self._at = self._ahead.result(), self._next
        self._next += 1
        more = self._next < len(self.lengths)
        self._ahead = self._pool.submit(self._load, self._next) if more else None

    def _load(self, i: int) -> NDArray:
        block = next(self._blocks)
        if not self.checked:
            self._check(block, i)
            self.checked = i + 1 == len(self.lengths)
        wanted = np.flatnonzero((self.owners >= 0) & ~self.have[:, i])
        if len(wanted):
            self.store[wanted, self.offsets[i] : self.offsets[i + 1]] = block[:, self.owners[wanted]].T
            self.have[wanted, i] = True
        return block

    def _check(self, block: NDArray, i: int) -> None:
        """Raise on a number that is missing or infinite; a sum shows whether there may be one."""
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(block.sum()):
                return
        bad = np.argwhere(~np.isfinite(block))
        if len(bad):
            row, j = bad[0]
            names = self.source.names
            column = repr(names[j]) if names else str(self.source._chosen()[j])
            used = self.source._used
            place = self.offsets[i] + row if used is None else np.flatnonzero(used)[self.offsets[i] + row]
            raise ValueError(
                f"{self.source.name} must hold finite numbers, got {block[row, j]} in row {place}, column {column}: "
                "leave out or fill in such rows first."
            )


class FileBlock(Design):
    """One block of rows of a file."""

    def __init__(self, reader: Reader, number: int) -> None:
        self.reader, self.number = reader, number
        self.shape, self.dtype = (reader.lengths[number], reader.source.shape[1]), reader.source.dtype
        self.nbytes = self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def _rows(self) -> Dense:
        return Dense(self.reader.block(self.number))

    def products(self, u: Array) -> Array:
        """`G' u`."""
        return self._rows.products(u)

    def columns(self, chosen: Array, rows: Rows = EVERY) -> Array:
        """Some rows of some columns, kept ones without reading."""
        kept = self.reader.columns(self.number, chosen)
        return self._rows.columns(chosen, rows) if kept is None else kept[rows]

    def squares(self, weights: Array | None) -> Array:
        """`sum w g^2`."""
        return self._rows.squares(weights)

    def centred_squares(self, weights: Array | None, means: Array) -> Array:
        """`sum w (g - mean)^2`."""
        return self._rows.centred_squares(weights, means)

    def fourth_powers(self, weights: Array | None, means: Array) -> Array:
        """`sum w^2 (g - mean)^4`."""
        return self._rows.fourth_powers(weights, means)

    def gram(self, weights: Array | None) -> Array:
        """`G' diag(w) G`."""
        return self._rows.gram(weights)
