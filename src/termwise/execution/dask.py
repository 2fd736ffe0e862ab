"""Row blocks on the workers of a Dask cluster.

Blocks are the result of a task, and so are their later states: `new, result = step(old, args)` changes copies and
leaves the old blocks alone. When a worker is lost, the scheduler recomputes its blocks elsewhere, from the chunks and
the steps they came from. An old block is released as soon as the new one exists; a copy shares the columns of Z with
it, so that the memory of the workers grows by what Z needs and no more.

Results are added up in a tree on the workers: one reduction brings the main process one small result, and takes a few
tasks for each thread of the workers, however many the chunks. Arguments travel inside of the tasks and never as
scattered data, which could not be recomputed. Dask is imported when it is first needed.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add, attrgetter
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length

from termwise._arrays import as_columns, row_blocks
from termwise._checks import check_magnitudes, check_some, check_targets, check_total, read_counts
from termwise.execution.cluster import Chunks, n_rows
from termwise.selection.blocks import Executor, GramCost, RowBlock
from termwise.selection.path import CondensedRows

FAN_IN = 16  # results added up by one task
LARGE_ARGUMENTS = 1 << 16  # bytes from which arguments get a task of their own, rather than a copy in every block's
RESULT = attrgetter("result")  # of blocks: it may travel, without the blocks, which should not


# -- from chunks to blocks ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WorkerBlocks:
    """Blocks of one thread of a worker and their last result, as one result of a task."""

    blocks: list[RowBlock]
    result: Any

    def __sizeof__(self) -> int:
        """Bytes, by which the scheduler tracks the memory of the workers."""
        shapes = [(block.G.nbytes, *block.Y.shape, block.k) for block in self.blocks]
        return object.__sizeof__(self) + int(sum(nbytes + 8 * n * (k + 2 * q + 3) for nbytes, n, q, k in shapes))


@dataclass(frozen=True)
class ChunkReader:
    """How the rows of a chunk become a block."""

    input_name: str = "G"
    estimator: str | None = None  # named by messages
    basis: Any = None  # fitted, evaluated on every chunk
    targets: Callable[[Any], NDArray[np.float64]] = check_targets
    reserve: int = 64


@dataclass(frozen=True)
class ChunkSummary:
    """Sizes of a chunk after reading."""

    given: int  # rows
    rows: int = 0  # with positive weight
    weight: float = 0.0
    p: int = 0
    q: int = 0
    one_output: bool = True
    dtype: Any = None


def read_block(X: Any, y: Any, weights: Any, reader: ChunkReader) -> WorkerBlocks:
    """Check the rows of a chunk and make a block of those with positive weight."""
    check_consistent_length(X, y)
    sample_weight = read_counts(weights, n_rows(X))
    if not len(sample_weight):
        return WorkerBlocks([], ChunkSummary(0))
    basis = reader.basis
    G = check_array(
        X if basis is None else basis.transform(X),
        accept_sparse="csc",
        dtype=[np.float64, np.float32],
        input_name=reader.input_name if basis is None else f"The design matrix of {type(basis).__name__}",
        estimator=reader.estimator,
    )
    check_magnitudes(reader.input_name, G, tiny=False)
    G, y, used = sp.csc_array(G) if sp.issparse(G) else G, reader.targets(y), sample_weight > 0
    if not used.any():
        return WorkerBlocks([], ChunkSummary(len(used)))
    Y = as_columns(y)
    if not used.all():
        G, Y, sample_weight = G[used], Y[used], sample_weight[used]
    total = float(sample_weight.sum())
    summary = ChunkSummary(len(used), len(Y), total, G.shape[1], Y.shape[1], y.ndim == 1, G.dtype)
    return WorkerBlocks([RowBlock(G, Y, sample_weight, reader.reserve)], summary)


# -- tasks, run by the workers -----------------------------------------------------------------------------------------


def call_blocks(
    held: WorkerBlocks,
    parts: list[tuple[Any, ...]],
    args: tuple[Any, ...],
    function: Callable[..., Any],
    combine: Callable[[list[Any]], Any],
) -> Any:
    """Call a function on the blocks and combine its results; a function that changes blocks gets copies of them."""
    mutates = getattr(function, "mutates", False)
    blocks = [block.copy() for block in held.blocks] if mutates else held.blocks
    result = combine([function(block, *part, *args) for block, part in zip(blocks, parts, strict=True)])
    return WorkerBlocks(blocks, result) if mutates else result


def bundle(several: list[WorkerBlocks], chosen: NDArray[np.intp] | None = None) -> WorkerBlocks:
    """Put blocks of one place together; with `chosen`, those candidates only, and no model."""
    blocks = [block for held in several for block in held.blocks]
    return WorkerBlocks(blocks if chosen is None else [block.restricted(chosen) for block in blocks], None)


def add_up(results: list[Any]) -> Any:
    """Sum of results."""
    return reduce(add, results)


@dataclass(frozen=True)
class Triangle:
    """Triangular factor of some rows; those of two sets of rows make that of both."""

    R: NDArray[np.float64]

    def __add__(self, other: Triangle) -> Triangle:
        return Triangle(np.asarray(np.linalg.qr(np.vstack([self.R, other.R]), mode="r")))


def condense(block: RowBlock) -> Triangle:
    """Triangular factor of `[Z, Y]` on the rows of a block, from one tile after the other."""
    tiles = row_blocks(len(block.Y), 8 * (block.k + block.Y.shape[1]))
    factors = (np.linalg.qr(np.hstack([block.Z[rows], block.Y[rows]]), mode="r") for rows in tiles)
    return reduce(add, (Triangle(np.asarray(R)) for R in factors))


# -- the executor ------------------------------------------------------------------------------------------------------


class DaskBlocks(Executor):
    """Blocks held as futures, one for every thread of the workers, each of which stays on its worker."""

    min_work = 1 << 20  # a reduction takes tens of milliseconds, in which this many entries are processed
    gram_cost = GramCost(31, 2.0)  # which also saves reductions

    def __init__(self, chunks: Chunks, reader: ChunkReader) -> None:
        self.cluster, blocks = chunks.cluster, chunks.map(read_block, reader)
        self.client = self.cluster.client
        summaries: list[ChunkSummary] = self.cluster.gather(self.client.map(RESULT, blocks, pure=False))
        check_array(np.broadcast_to(0.0, (sum(chunk.given for chunk in summaries), 1)), ensure_min_samples=2)
        weights = np.array([chunk.weight for chunk in summaries])
        check_some(weights)
        check_total(weights)
        filled = [i for i, chunk in enumerate(summaries) if chunk.rows]
        self.lengths, self.total = [summaries[i].rows for i in filled], sum(chunk.weight for chunk in summaries)
        first = summaries[filled[0]]
        self.n_candidates, self.n_outputs, self.one_output = first.p, first.q, first.one_output
        self.dtype = min((summaries[i].dtype for i in filled), key=lambda dtype: dtype.itemsize)
        blocks = [blocks[i] for i in filled]
        places = self.cluster.ask(lambda client: client.who_has(blocks))
        threads = self.cluster.ask(lambda client: client.nthreads())
        there: dict[str | None, list[int]] = {}  # blocks by the worker they are on
        for i, block in enumerate(blocks):
            there.setdefault(next(iter(places.get(block.key, ())), None), []).append(i)
        shares = [
            (worker, found[i :: threads.get(worker, 1)])
            for worker, found in there.items()
            for i in range(min(threads.get(worker, 1), len(found)))
        ]
        self.workers, self.members = zip(*shares, strict=True)
        self.states = self._submit(bundle, [[blocks[i] for i in share] for share in self.members])

    def map(self, function: Callable[..., Any], *args: Any, parts: Iterable[Any] | None = None) -> list[Any]:
        """Call the function on all blocks and fetch all results."""
        found = self.cluster.gather(self._results(function, list, parts, args))
        results = [result for part in found for result in part]
        return [results[i] for i in np.argsort([i for share in self.members for i in share])]

    def reduce(self, function: Callable[..., Any], *args: Any, parts: Iterable[Any] | None = None) -> Any:
        """Call the function on all blocks and fetch the sum of the results, by a tree of tasks."""
        results = tasks = self._results(function, add_up, parts, args)
        while len(results) > 1:
            groups = [results[i : i + FAN_IN] for i in range(0, len(results), FAN_IN)]
            results = [self.client.submit(add_up, group, pure=False) for group in groups]
        return self.cluster.gather(results, tasks)[0]

    def model_rows(self) -> CondensedRows:
        """Return as few rows as the model and the targets have columns, with the same products."""
        R = self.reduce(condense).R
        R = R * np.copysign(1.0, R[:, :1].sum())  # the column of the intercept is positive
        k = R.shape[1] - self.n_outputs
        ones = np.sqrt(self.total) * R[:, 0]  # where there is an intercept: the first column of Z, rescaled
        return CondensedRows(R[:, :k], R[:, k:], np.full(len(R), self.total / len(R)), ones)

    def restrict(self, chosen: NDArray[np.intp]) -> Self:
        """Restrict all blocks."""
        other = copy.copy(self)
        other.n_candidates = len(chosen)
        other.shift = None if self.shift is None else self.shift[chosen]
        other.states = self._submit(bundle, [[held] for held in self.states], chosen=chosen)
        return other

    def _results(
        self,
        function: Callable[..., Any],
        combine: Callable[[list[Any]], Any],
        parts: Iterable[Any] | None,
        args: tuple[Any, ...],
    ) -> list[Any]:
        """Futures of the results; the old blocks are released where the function changes them."""
        given = self.client.submit(tuple, args, pure=False) if _nbytes(args) > LARGE_ARGUMENTS else args
        each: list[tuple[Any, ...]] = [()] * len(self.lengths) if parts is None else [(part,) for part in parts]
        shares = [[each[i] for i in share] for share in self.members]
        found = self._submit(call_blocks, self.states, shares, args=given, function=function, combine=combine)
        if not getattr(function, "mutates", False):
            return found
        self.states = found
        return self._submit(RESULT, found)

    def _submit(self, task: Callable[..., Any], *columns: list[Any], **options: Any) -> list[Any]:
        """Futures of a task on every bundle of blocks, run on its worker; on any, if that worker is lost.

        Otherwise the scheduler would move blocks rather than wait for a worker.
        """
        how = {"allow_other_workers": True, "pure": False, **options}
        rows = zip(self.workers, *columns, strict=True)
        return [self.client.submit(task, *row, workers=worker, **how) for worker, *row in rows]


def _nbytes(args: Any) -> int:
    """Bytes of arguments, those of arrays within records and tuples included."""
    if isinstance(args, tuple):
        return sum(_nbytes(part) for part in args)
    if hasattr(args, "__dict__"):
        return sum(_nbytes(part) for part in vars(args).values())
    return int(getattr(args, "nbytes", sys.getsizeof(args)))
