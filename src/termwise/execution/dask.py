"""Rows on the workers of a Dask cluster: chunks of Dask collections, row blocks, and prediction chunk by chunk.

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
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, attrgetter
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length

from termwise._arrays import as_columns, evenly, row_blocks
from termwise._checks import (
    check_magnitudes,
    check_some,
    check_targets,
    check_total,
    import_optional,
    is_dask,
    read_counts,
)
from termwise.execution.cluster import TIMEOUT, Cluster, current_cluster
from termwise.selection.blocks import Executor, GramCost, RowBlock
from termwise.selection.path import CondensedRows

FAN_IN = 16  # results added up by one task
LARGE_ARGUMENTS = 1 << 16  # bytes from which arguments get a task of their own, rather than a copy in every block's
RESULT = attrgetter("result")  # of blocks: it may travel, without the blocks, which should not


# -- chunks of rows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chunks:
    """Rows of inputs, targets and weights, a delayed object or an array for each; None where there are no weights."""

    X: Sequence[Any]
    y: Sequence[Any]
    weights: Sequence[Any]
    timeout: float | None = TIMEOUT

    @property
    def cluster(self) -> Cluster:
        """The cluster in use."""
        return current_cluster(self.timeout)

    def map(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Compute `function(X, y, weights, *args)` of every chunk on the cluster; returns futures."""
        dask = import_optional("dask", "dask", "Dask data")
        task, shared = dask.delayed(function, pure=False), [dask.delayed(arg, traverse=False) for arg in args]
        rows = zip(self.X, self.y, self.weights, strict=True)
        return self.cluster.client.compute([task(*row, *shared) for row in rows])

    def gather(self, name: str, function: Callable[[Any], Any]) -> list[Any]:
        """Compute a function of the inputs, targets or weights of every chunk on the cluster, and fetch the values."""
        task = import_optional("dask", "dask", "Dask data").delayed(function, pure=False)
        return self.cluster.gather(self.cluster.client.compute([task(part) for part in getattr(self, name)]))


def split_chunks(X: Any, y: Any, sample_weight: Any, timeout: float | None = TIMEOUT) -> Chunks:
    """Split the data into the chunks of rows that X has; X must be a Dask array or data frame."""
    if not is_dask(X) or getattr(X, "ndim", 0) != 2:
        raise TypeError(
            f"X must be a Dask array or data frame of shape (n, d), got {type(X).__name__} of shape "
            f"{getattr(X, 'shape', None)}: where y or sample_weight is a Dask collection, X must be one too, see "
            "da.from_array."
        )
    chunks, sizes = row_chunks(X)
    if sizes is None and not all(part is None or is_dask(part) for part in (y, sample_weight)):
        sizes = tuple(Chunks(chunks, [], [], timeout).gather("X", n_rows))
    total, parts = sum(sizes or ()), list[Any]()
    if sample_weight is not None and not is_dask(sample_weight):
        sample_weight = read_counts(sample_weight, total)
    for name, part in (("y", y), ("sample_weight", sample_weight)):
        if part is None:
            parts.append([None] * len(chunks))
        elif not is_dask(part):
            part = np.asarray(part)
            check_consistent_length(range(total), part)
            parts.append(np.split(part, np.cumsum(sizes or ())[:-1]))
        else:
            found, lengths = row_chunks(part)
            if lengths is not None and sizes is not None:
                check_consistent_length(range(total), range(sum(lengths)))
                found, _ = row_chunks(part.rechunk({0: sizes}))
            if len(found) != len(chunks):
                raise ValueError(
                    f"{name} must have as many chunks of rows as X where their lengths are not known, got {len(found)} "
                    f"for {len(chunks)}: take both from one data frame, or use to_dask_array(lengths=True)."
                )
            parts.append(found)
    return Chunks(chunks, parts[0], parts[1], timeout)


def n_rows(X: Any) -> int:
    """Return the number of rows of an array, a sparse matrix or a data frame."""
    return int(X.shape[0])


def row_chunks(X: Any) -> tuple[list[Any], tuple[int, ...] | None]:
    """Chunks of whole rows as delayed objects, and their lengths; columns in several chunks are put into one.

    The lengths are None where they are not known, as those of data frames are not.
    """
    whole = X.rechunk({1: -1}) if X.ndim == 2 and hasattr(X, "numblocks") and X.numblocks[1] > 1 else X
    sizes: Any = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
    return list(np.ravel(whole.to_delayed())), None if np.isnan(sizes).any() else sizes


def sample_rows(chunks: Chunks, max_rows: int) -> tuple[Any, Any]:
    """Fetch about `max_rows` rows of X and y with positive weight, evenly spaced within every chunk."""
    each = -(-max_rows // len(chunks.X))
    found = chunks.cluster.gather(chunks.map(_spaced_rows, each))
    Xs, ys = zip(*([pair for pair in found if n_rows(pair[0])] or found[:1]), strict=True)
    if hasattr(Xs[0], "iloc"):
        return import_optional("pandas", "dask", "a data frame").concat(Xs), np.concatenate(ys)
    return np.concatenate([X.toarray() if hasattr(X, "toarray") else X for X in Xs]), np.concatenate(ys)


def _spaced_rows(X: Any, y: Any, weights: Any, max_rows: int) -> tuple[Any, Any]:
    """Return some rows of a chunk with positive weight."""
    used = np.flatnonzero(read_counts(weights, n_rows(X)))
    rows = used[evenly(len(used), max_rows)] if len(used) else used
    return (X.iloc[rows] if hasattr(X, "iloc") else X[rows]), np.asarray(y)[rows]


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


# -- prediction --------------------------------------------------------------------------------------------------------


def map_rows(function: Callable[[Any], Any], X: Any, width: int | None, dtype: Any = None) -> Any:
    """Return a Dask array of a function of every chunk of rows, with that many columns; None for a vector.

    By default its dtype is the precision of X.
    """
    dask, array = (import_optional(name, "dask", "Dask data") for name in ("dask", "dask.array"))
    shape = () if width is None else (width,)
    precision = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
    dtype = precision if dtype is None else dtype
    shared = dask.delayed(function, traverse=False)
    chunks, sizes = row_chunks(X)
    parts = [
        array.from_delayed(dask.delayed(_evaluate_chunk)(shared, chunk, shape, dtype), (size, *shape), dtype)
        for chunk, size in zip(chunks, sizes or itertools.repeat(np.nan), strict=False)
    ]
    return array.concatenate(parts, allow_unknown_chunksizes=True)


def _evaluate_chunk(function: Callable[[Any], Any], X: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Evaluate a function of the rows of a chunk, which may be empty."""
    return np.asarray(function(X), dtype=dtype) if n_rows(X) else np.empty((0, *shape), dtype=dtype)


def without_rows(X: Any) -> Any:
    """Return a table with the columns of X and without rows, for validation."""
    if hasattr(X, "columns"):
        return import_optional("pandas", "dask", "a data frame").DataFrame(columns=X.columns)
    return np.empty((0, *X.shape[1:]))
