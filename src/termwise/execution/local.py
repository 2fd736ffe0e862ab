"""Row blocks in this process: in memory, on a device, or in a file."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, namespace
from termwise._memory import budget
from termwise.design.files import BlockReader, FileBlock, RowFile
from termwise.execution.cuda_graphs import device_policy, launcher_for
from termwise.selection.blocks import Executor, RowBlock
from termwise.selection.path import ModelRows

CACHED_COLUMNS = (8, 64)  # of a file, at least and at most
ENTRIES_PER_ROW = 16  # besides the model's columns: targets, residuals, temporaries


class LocalBlocks(Executor):
    """Blocks in this process, changed in place."""

    def __init__(self, blocks: Sequence[RowBlock]) -> None:
        self.blocks, first = blocks, blocks[0]
        self.n_candidates, self.n_outputs, self.dtype = first.G.shape[1], first.Y.shape[1], first.G.dtype
        self.lengths = [block.Y.shape[0] for block in blocks]
        self.device_block, self.caches_directions, self.min_work = device_policy(blocks)
        self.launcher = first.launcher if self.device_block is not None else type(first.launcher)()

    def map(self, function: Callable[..., Any], *args: Any, parts: Iterable[Any] | None = None) -> Iterator[Any]:
        """Call the function on one block after the other, as the results are consumed: there may be many."""
        if parts is None:
            return (function(block, *args) for block in self.blocks)
        return (function(block, part, *args) for block, part in zip(self.blocks, parts, strict=True))

    def copy(self) -> Self:
        """Copy all blocks; those of a file go on reading it."""
        other = copy.copy(self)
        LocalBlocks.__init__(other, [block.copy() for block in self.blocks])
        return other

    def restrict(self, chosen: NDArray[np.intp]) -> LocalBlocks:
        """Restrict all blocks; the few columns of a file are kept in memory."""
        return LocalBlocks([block.restricted(chosen) for block in self.blocks])

    def model_rows(self) -> ModelRows:
        """Return Z, Y and the sample weights: views where there is one block."""
        parts = [(block.Z, block.Y, block.sample_weight) for block in self.blocks]
        if len(parts) == 1:
            Z, Y, weights = parts[0]
        else:
            xp = namespace(parts[0][1])
            Z, Y, weights = (xp.concat(part) for part in zip(*parts, strict=True))
        return ModelRows(Z, Y, weights, weights**0.5)


class FileBlocks(LocalBlocks):
    """Blocks whose rows of G are in a file: a function that reads G is one pass over it, in order."""

    def __init__(self, source: RowFile, Y: NDArray, sample_weight: NDArray, reserve: int) -> None:
        n = len(Y)
        left = budget() - 8 * n * (reserve + ENTRIES_PER_ROW)
        cached = int(np.clip(left // 4 // (n * source.dtype.itemsize), *CACHED_COLUMNS))
        self.reader = reader = BlockReader(source, min(cached, source.shape[1]))
        self._Zt = np.empty((reserve, n))  # of all blocks, so that the end of a path need not copy
        blocks = []
        for i, length in enumerate(reader.lengths):
            if length:
                rows = slice(reader.offsets[i], reader.offsets[i + 1])
                blocks.append(RowBlock(FileBlock(reader, i), Y[rows], sample_weight[rows], 0))
                blocks[-1].Zt = self._Zt[:, rows]
        super().__init__(blocks)

    def model_rows(self) -> ModelRows:
        """Return the memory that the blocks share, without copying Z."""
        if any(block.Zt.base is not self._Zt for block in self.blocks):
            return super().model_rows()
        Y = np.concatenate([block.Y for block in self.blocks])
        weights = np.concatenate([block.sample_weight for block in self.blocks])
        return ModelRows(self._Zt[: self.blocks[0].k].T, Y, weights, weights**0.5)


def local_blocks(G: Any, Y: Array, sample_weight: NDArray, block_rows: int | None, reserve: int) -> LocalBlocks:
    """Split the rows into blocks of this process."""
    if isinstance(G, RowFile):
        return FileBlocks(G, Y, sample_weight, reserve)
    n = Y.shape[0]
    step = block_rows or n
    slices = [slice(i, min(i + step, n)) for i in range(0, n, step)]
    return LocalBlocks(
        [RowBlock(G[rows, :], Y[rows, :], sample_weight[rows], reserve, launcher_for(Y)) for rows in slices]
    )
