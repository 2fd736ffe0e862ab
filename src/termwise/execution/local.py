"""Row blocks in this process: in memory, on a device, or in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, at, has_fast_float64, is_foreign, namespace
from termwise._memory import budget
from termwise.design import Dense, Design
from termwise.design.computed import KernelDesign
from termwise.design.file_blocks import BlockReader, FileBlock
from termwise.design.files import RowFile
from termwise.execution.cuda_graphs import launcher_for, steps_ahead_of
from termwise.selection.blocks import Executor, GramCost, RowBlock
from termwise.selection.path import ModelRows

CACHED_COLUMNS = (8, 256)  # of a file, at least and at most
HOST_WORK, DEVICE_WORK = 1 << 15, 400_000  # entries below which less work at a time would not be faster
MAX_GRAM_COLUMNS = 4000  # beyond, `G'G` takes too much memory
CACHE_BYTES = 1 << 26  # beyond the caches of a processor
MIN_GRAM_ROWS, MIN_GRAM_ENTRIES = 1024, 1 << 19  # of G, below which stored columns would not save time
ENTRIES_PER_ROW = 16  # besides the model's columns: targets, residuals, temporaries


class LocalBlocks(Executor):
    """Blocks in this process, changed in place.

    One launch may span rows and statistics if there is one block, on a device or of another library. A device computes
    the directions of runners-up faster than it updates a cache of them. For a file, a function that reads G is one pass
    over it, in order; Z of all blocks is then in one array.
    """

    def __init__(self, blocks: Sequence[RowBlock], reader: BlockReader | None = None, Zt: Array = None) -> None:
        self.blocks, self.reader, self.Zt, first = blocks, reader, Zt, blocks[0]
        self.n_candidates, self.n_outputs, self.dtype = first.G.shape[1], first.Y.shape[1], first.G.dtype
        self.lengths = [block.Y.shape[0] for block in blocks]
        self.caches_directions = not is_foreign(first.Y)
        self.min_work = HOST_WORK if self.caches_directions else DEVICE_WORK
        self.device_block = first if len(blocks) == 1 and not self.caches_directions else None
        self.steps_ahead = 0 if self.device_block is None else steps_ahead_of(first.Y)
        self.launcher = first.launcher if self.device_block is not None else type(first.launcher)()
        self.gram_cost = gram_cost(first.G, sum(self.lengths), first.Y, reader)

    def map(self, function: Callable[..., Any], *args: Any, parts: Iterable[Any] | None = None) -> Iterator[Any]:
        """Call the function on one block after the other, as the results are consumed: there may be many."""
        if parts is None:
            return (function(block, *args) for block in self.blocks)
        return (function(block, part, *args) for block, part in zip(self.blocks, parts, strict=True))

    def copy(self) -> Self:
        """Copy all blocks; those of a file go on reading it."""
        other = type(self)([block.copy() for block in self.blocks], self.reader, self.Zt)
        other.shift = self.shift
        return other

    def restrict(self, chosen: NDArray[np.intp]) -> LocalBlocks:
        """Restrict all blocks; the few columns of a file are kept in memory."""
        other = LocalBlocks([block.restricted(chosen) for block in self.blocks])
        other.shift = None if self.shift is None else at(self.shift, chosen)
        return other

    def model_rows(self) -> ModelRows:
        """Return Z, Y and the sample weights: views where there is one block, of Z also where blocks share memory."""
        parts = [(block.Z, block.Y, block.sample_weight) for block in self.blocks]
        if len(parts) == 1:
            Z, Y, weights = parts[0]
        else:
            xp = namespace(parts[0][1])
            Y, weights = (xp.concat([part[i] for part in parts]) for i in (1, 2))
            shared = self.Zt is not None and all(block.Zt.base is self.Zt for block in self.blocks)
            Z = self.Zt[: self.blocks[0].k].T if shared else xp.concat([part[0] for part in parts])
        return ModelRows(Z, Y, weights, weights**0.5)


def gram_cost(G: Design, n: int, Y: Array, reader: BlockReader | None) -> GramCost:
    """What columns of `G'G` cost, as measured on two cores and on GPUs.

    A pass over a matrix beyond the caches is bound by memory: a product with sixteen vectors takes the time of three to
    five with one, in the caches of four to eight. The whole product takes that of p / 18 to p / 26, in the caches of
    p / 12 to p / 18, or p / 6 where G is small. It depends on the machine: since columns that are not needed cost more
    than passes that might have been saved, the longest times are assumed. Evaluating radial functions or reading a file
    takes longer than the products: there 31 and 64 columns cost half a pass. On a device a pass is launched as one
    graph, and the whole product, in float64, takes the time of p / 24 passes, where float64 is fast that of p / 64, and
    of p / 40 in float32.
    """
    p = G.shape[1]
    fits, double = p <= min(n, MAX_GRAM_COLUMNS), G.dtype == np.float64
    if reader is not None:
        slots = min(64, len(reader.owners))
        return GramCost(slots, 1 + slots / 128, p / 128 if fits else np.inf)
    if is_foreign(Y):
        if fits and isinstance(G, Dense) and has_fast_float64(Y):
            return GramCost(whole=p / 64 if double else p / 40)
        return GramCost(whole=p / 24 if fits and double else np.inf)
    if n < MIN_GRAM_ROWS or n * p < MIN_GRAM_ENTRIES:
        return GramCost(whole=p / 6 if fits and double and isinstance(G, Dense) else np.inf)
    if isinstance(G, KernelDesign):
        return GramCost(31, 1.5, p / 64 if fits and double else np.inf)
    if isinstance(G, Dense):
        passes, share = (7.0, 12) if n * p * G.dtype.itemsize <= CACHE_BYTES else (5.0, 18)
        return GramCost(15, passes, p / share if fits and double else np.inf)
    return GramCost()


def local_blocks(G: Any, Y: Array, sample_weight: NDArray[Any], block_rows: int | None, reserve: int) -> LocalBlocks:
    """Split the rows into blocks of this process."""
    n = Y.shape[0]
    if isinstance(G, RowFile):
        left = budget() - 8 * n * (reserve + ENTRIES_PER_ROW)
        cached = int(np.clip(left // 4 // (n * G.dtype.itemsize), *CACHED_COLUMNS))
        reader, Zt, blocks = BlockReader(G, min(cached, G.shape[1])), np.empty((reserve, n)), []
        for i in np.flatnonzero(reader.lengths).tolist():
            rows = slice(reader.offsets[i], reader.offsets[i + 1])
            blocks.append(RowBlock(FileBlock(reader, i), Y[rows], sample_weight[rows], 0))
            blocks[-1].Zt = Zt[:, rows]  # in memory of all blocks, so that the end of a path need not copy
        return LocalBlocks(blocks, reader, Zt)
    step = block_rows or n
    slices = [slice(i, min(i + step, n)) for i in range(0, n, step)]
    return LocalBlocks(
        [RowBlock(G[rows, :], Y[rows, :], sample_weight[rows], reserve, launcher_for(Y)) for rows in slices]
    )
