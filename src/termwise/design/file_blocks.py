"""Blocks of rows of a file as the engine reads them: one block ahead, with a cache of columns."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, RowIndex
from termwise.design import EVERY, Dense
from termwise.design.files import RowFile

Indices = NDArray[np.intp]


class BlockReader:
    """The blocks of a file in order, the next one read ahead, and a cache of columns.

    A column of a row-major file costs a whole pass: columns that will be needed soon are cached during the next pass.
    """

    def __init__(self, source: RowFile, cached: int) -> None:
        self.source, self.lengths = source, source.block_lengths()
        self.offsets = np.cumsum([0, *self.lengths])
        self.checked = False
        self.shift: NDArray[Any] | None = None  # reference value subtracted from every column as it is read
        self.owners = np.full(cached, -1)  # the column in each slot of the cache
        self._suggested: Indices | None = None  # columns to be cached if there is another pass
        self.filled = np.zeros((cached, len(self.lengths)), dtype=bool)
        self.cache = np.empty((cached, len(source)), dtype=source.dtype)  # its pages are touched as it fills
        self._current, self._block = -1, np.empty((0, 0))
        self._pool = ThreadPoolExecutor(1)
        self._blocks: Iterator[NDArray[Any]] = iter(())
        self._next = len(self.lengths)
        self._ahead: Future[Any] | None = None

    def set_shift(self, shift: NDArray[Any]) -> None:
        """Subtract reference values from the columns from now on; what was read before is dropped."""
        if self._ahead is not None:
            self._ahead.result()
        self.shift, self.filled[:] = shift, False
        self._current, self._next, self._ahead = -1, len(self.lengths), None

    def prefetch(self, candidates: Indices) -> None:
        """Cache these columns, as many as there are slots, during the next pass."""
        candidates = candidates[: len(self.owners)]
        new = candidates[~np.isin(candidates, self.owners)]
        free = np.flatnonzero(~np.isin(self.owners, candidates))[: len(new)]
        self.owners[free], self.filled[free] = new, False

    def suggest(self, candidates: Indices, keep: bool = False) -> None:
        """Cache these columns once another pass begins; until then those cached now are kept.

        With `keep`, what was suggested before comes after them, else it is dropped.
        """
        if keep and self._suggested is not None:
            rest = self._suggested[~np.isin(self._suggested, candidates)]
            candidates = np.concatenate([candidates, rest])
        self._suggested = candidates

    def holds(self, j: int) -> bool:
        """Whether column j is cached."""
        return bool(self.filled[self.owners == j].all(axis=1).any())

    def columns(self, i: int, chosen: Any) -> NDArray[np.float64] | None:
        """Return columns of block i if all of them are cached."""
        if isinstance(chosen, slice):
            chosen = range(self.source.shape[1])[chosen]
        if not 0 < len(chosen) <= len(self.owners):
            return None
        slots = [np.flatnonzero((self.owners == j) & self.filled[:, i]) for j in chosen]
        if not all(len(slot) for slot in slots):
            return None
        return self.cache[np.concatenate(slots), self.offsets[i] : self.offsets[i + 1]].T.astype(np.float64)

    def block(self, i: int) -> NDArray[Any]:
        """Return block i, and read the next one ahead."""
        while self._current != i:
            if self._next > i or self._ahead is None:  # block i is behind: begin another pass
                if self._ahead is not None:
                    self._ahead.result()
                if self._suggested is not None:
                    self.prefetch(self._suggested)
                    self._suggested = None
                self._blocks, self._next = self.source.blocks(), 0
                self._ahead = self._pool.submit(self._load, 0)
            self._block, self._current = self._ahead.result(), self._next
            self._next += 1
            more = self._next < len(self.lengths)
            self._ahead = self._pool.submit(self._load, self._next) if more else None
        return self._block

    def _load(self, i: int) -> NDArray[Any]:
        """Read block i, check it in the first pass and cache columns."""
        block = next(self._blocks)
        if not self.checked:
            self.source.check_finite(block, self.offsets[i])
            self.checked = i + 1 == len(self.lengths)
        block = block if self.shift is None else block - self.shift
        wanted = np.flatnonzero((self.owners >= 0) & ~self.filled[:, i])
        if len(wanted):
            self.cache[wanted, self.offsets[i] : self.offsets[i + 1]] = block[:, self.owners[wanted]].T
            self.filled[wanted, i] = True
        return block


class FileBlock(Dense):
    """One block of rows of a file, read when it is needed."""

    def __init__(self, reader: BlockReader, number: int) -> None:
        self.reader, self.number = reader, number
        self.shape, self.dtype = (reader.lengths[number], reader.source.shape[1]), reader.source.dtype
        self.nbytes = self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def G(self) -> NDArray[Any]:
        """The rows."""
        return self.reader.block(self.number)

    def shifted(self, shift: Array) -> FileBlock:
        """Subtract reference values as the file is read; the blocks share one reader."""
        shift = shift.astype(self.dtype)
        if self.reader.shift is None:
            self.reader.set_shift(shift)
        return self

    def columns(self, chosen: Array, rows: RowIndex = EVERY) -> Array:
        """Some rows of some columns, without reading where all of them are cached."""
        cached = self.reader.columns(self.number, chosen)
        return super().columns(chosen, rows) if cached is None else cached[rows]
