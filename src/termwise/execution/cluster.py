"""The Dask cluster in use: chunks of the rows of Dask collections, prediction chunk by chunk, limits of waiting.

A worker that is stopped, or lost together with all others, leaves tasks that never end: the scheduler waits for it, and
so would a fit. Every result and every answer of the scheduler is therefore fetched by a `Cluster`, which raises when
nothing has happened for too long. Dask is imported when it is first needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length

from termwise._arrays import evenly
from termwise._checks import import_optional, is_dask, read_counts

TIMEOUT = 600.0  # seconds; by default a scheduler gives up a silent worker after 300, and has its tasks done elsewhere
LOOKS = 10  # at the tasks during a timeout, to see whether any of them has ended
START_CLUSTER = "from dask.distributed import Client; client = Client()"


@dataclass(frozen=True)
class Cluster:
    """The client of a cluster, and the seconds that may pass without progress; None for any number."""

    client: Any
    timeout: float | None = TIMEOUT

    def gather(self, futures: Sequence[Any], tasks: Sequence[Any] = ()) -> list[Any]:
        """Fetch results, while from time to time one of them is there, or one of the tasks they depend on has ended."""
        return self._guarded(lambda: self._gather(list(futures), [*tasks, *futures]))

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """Return the scheduler's answer to a question, a method of the client."""
        return self._guarded(lambda: self.client.sync(lambda: question(self.client), callback_timeout=self.timeout))

    def _gather(self, futures: list[Any], pending: list[Any]) -> list[Any]:
        wait = import_optional("distributed", "dask", "Dask data").wait
        looks = 0  # at which nothing had ended
        while self.timeout is not None:
            try:
                wait(pending, timeout=self.timeout / LOOKS)
                break
            except TimeoutError:
                left = [future for future in pending if not future.done()]
                looks = looks + 1 if len(left) == len(pending) else 0
                pending = left
                if looks >= LOOKS:
                    raise
        fetch = self.client.gather
        return self.client.sync(lambda: fetch(futures, asynchronous=True), callback_timeout=self.timeout)

    def _guarded(self, action: Callable[[], Any]) -> Any:
        """Call a function; raise a sentence if the cluster is lost or does not answer in time."""
        comm = import_optional("distributed.comm", "dask", "Dask data")
        try:
            return action()
        except TimeoutError:
            raise TimeoutError(
                f"The Dask cluster must end a task every timeout={self.timeout:g} seconds, got none: restart workers "
                "that hang, see the dashboard, or allow more time."
            ) from None
        except (CancelledError, comm.CommClosedError) as error:
            raise ConnectionError(
                f"The Dask cluster must be there until the fit ends, got a lost connection ({error}): start it again "
                "and repeat the fit."
            ) from None


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
        distributed = import_optional("distributed", "dask", "Dask data")
        try:
            return Cluster(distributed.get_client(), self.timeout)
        except ValueError:
            raise ValueError(
                "X must not be a Dask collection without a cluster to work on, got no client: start one by "
                f"`{START_CLUSTER}`, or give X.compute() if it fits into memory."
            ) from None

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
