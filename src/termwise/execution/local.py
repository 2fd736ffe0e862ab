"""Where the row blocks live: the map and the reduction, and nothing else.

The driver asks all blocks the same question, a function of a block with small arguments (see `blocks`), and gets the
sum of their answers. Another executor may keep blocks elsewhere: a block that a function marked by `changes` has gone
over takes the place of the old one, in whatever way blocks are held.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, is_foreign, namespace, worth_a_call
from termwise._memory import budget
from termwise.design.file_blocks import FileBlock, Reader
from termwise.design.files import RowFile
from termwise.selection.blocks import RowBlock
from termwise.selection.path import ModelRows

KEPT = (8, 64)  # columns of a file that are kept, at least and at most
OWN_NUMBERS = 16  # for every row, besides the model's columns: targets, residuals, what is computed from them


class Executor(ABC):
    """Row blocks somewhere; the shape of the problem is known without asking them."""

    n_candidates: int
    n_outputs: int
    dtype: np.dtype  # of G
    lengths: Sequence[int]  # rows of every block
    keeps_directions: bool = True  # whether columns are dear enough for those of runners-up to be kept
    worth_a_call: int  # row numbers times candidates so few that verifying less at a time would save nothing
    sole: RowBlock | None = None  # the one block there is, if it is on a device, which is best told much at a time

    @abstractmethod
    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Answers of all blocks to `function(block, *args)`, in the order of the rows."""

    @abstractmethod
    def deal(self, function: Callable[..., Any], parts: Iterable[Any], *args: Any) -> Any:
        """Sum of the answers to `function(block, part, *args)`, every block with a part of its own."""

    @abstractmethod
    def model_rows(self) -> ModelRows:
        """Return what is as long as the rows, at the end of a path, or something that fetches it when it is wanted."""

    @abstractmethod
    def fork(self) -> Self:
        """Return the same rows in blocks that can change while these stay as they are."""

    @abstractmethod
    def restrict(self, chosen: NDArray[np.intp]) -> Self:
        """Return the same rows with some of the candidates, and no model."""

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Sum of the answers to `function(block, *args)`."""
        return reduce(add, self.each(function, *args))

    def expect(self, likely: Callable[[], NDArray[np.intp]]) -> None:  # noqa: B027 - most have no use for it
        """Hear of candidates whose columns may be asked for soon, the likeliest first, to keep them if that pays."""

    def cut(self, rows: NDArray) -> list[NDArray]:
        """Cut something as long as the rows into parts to deal to the blocks."""
        return np.split(rows, np.cumsum(self.lengths)[:-1])


class LocalBlocks(Executor):
    """Blocks in this process, changed in place."""

    def __init__(self, blocks: Sequence[RowBlock]) -> None:
        self.blocks = blocks
        self.worth_a_call = worth_a_call(blocks[0].Y)
        self.keeps_directions = not is_foreign(blocks[0].Y)
        self.n_candidates, self.n_outputs = blocks[0].G.shape[1], blocks[0].Y.shape[1]
        self.dtype = blocks[0].G.dtype
        self.lengths = [block.Y.shape[0] for block in blocks]
        self.sole = blocks[0] if len(blocks) == 1 and is_foreign(blocks[0].Y) else None

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Ask one block after the other."""
        return [function(block, *args) for block in self.blocks]

    def deal(self, function: Callable[..., Any], parts: Iterable[Any], *args: Any) -> Any:
        """Ask one block after the other, each with its own part."""
        return reduce(add, (function(block, part, *args) for block, part in zip(self.blocks, parts, strict=True)))

    def fork(self) -> Self:
        """Fork all blocks."""
        return type(self)([block.fork() for block in self.blocks])

    def restrict(self, chosen: NDArray[np.intp]) -> Self:
        """Restrict all blocks."""
        return type(self)([block.restricted(chosen) for block in self.blocks])

    def model_rows(self) -> ModelRows:
        """Return Z, Y and the counts as they are: views where there is one block."""
        Zs, Ys, counts = zip(*self.each(RowBlock.model), strict=True)
        if len(Zs) == 1:
            return ModelRows(Zs[0], Ys[0], counts[0])
        xp = namespace(Ys[0])
        return ModelRows(xp.concat(Zs), xp.concat(Ys), xp.concat(counts))


class FileBlocks(LocalBlocks):
    """Blocks whose rows of G are in a file: any question that looks at G is one pass over it, in order."""

    def __init__(self, source: RowFile, Y: NDArray, counts: NDArray, reserve: int) -> None:
        n = len(Y)
        left = budget() - 8 * n * (reserve + OWN_NUMBERS)
        kept = int(np.clip(left // 4 // (n * source.dtype.itemsize), *KEPT))
        self.reader = reader = Reader(source, min(kept, source.shape[1]))
        self._room = np.empty((reserve, n))  # of all blocks, so that the end of a path need not copy
        blocks = []
        for i, length in enumerate(reader.lengths):
            if length:
                rows = slice(reader.offsets[i], reader.offsets[i + 1])
                blocks.append(RowBlock(FileBlock(reader, i), Y[rows], counts[rows], 0))
                blocks[-1]._Zt = self._room[:, rows]
        super().__init__(blocks)

    def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Add up on the way: there are many blocks."""
        return reduce(add, (function(block, *args) for block in self.blocks))

    def expect(self, likely: Callable[[], NDArray[np.intp]]) -> None:
        """Keep the columns when the rows come by next: they would cost a pass of their own."""
        self.reader.want(likely())

    def fork(self) -> Self:
        """Fork all blocks; they go on reading the same file."""
        other = copy.copy(self)
        other.blocks = [block.fork() for block in self.blocks]
        return other

    def restrict(self, chosen: NDArray[np.intp]) -> Any:
        """Keep the few columns in memory."""
        return LocalBlocks([block.restricted(chosen) for block in self.blocks])

    def model_rows(self) -> ModelRows:
        """Return what the blocks have shared all along."""
        if any(block._Zt.base is not self._room for block in self.blocks):
            return super().model_rows()
        _, Ys, counts = zip(*self.each(RowBlock.model), strict=True)
        return ModelRows(self._room[: self.blocks[0].k].T, np.concatenate(Ys), np.concatenate(counts))


def local_blocks(G: Any, Y: Array, counts: NDArray, block_rows: int | None, reserve: int) -> LocalBlocks:
    """Cut the rows into blocks of this process."""
    if isinstance(G, RowFile):
        return FileBlocks(G, Y, counts, reserve)
    n = Y.shape[0]
    step = block_rows or n
    cuts = [slice(i, min(i + step, n)) for i in range(0, n, step)]
    return LocalBlocks([RowBlock(G[rows, :], Y[rows, :], counts[rows], reserve) for rows in cuts])
