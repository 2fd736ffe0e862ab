"""Dask collections at the edge: known without importing Dask, cut into chunks of rows, mapped row by row."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from termwise._arrays import evenly
from termwise._checks import import_optional, read_counts

HOW = "from dask.distributed import Client; client = Client()"


def is_dask(*things: Any) -> bool:
    """Whether one of them is a Dask collection."""
    return any(hasattr(thing, "__dask_graph__") for thing in things)


def cluster() -> Any:
    """Return the client of the cluster in use."""
    distributed = import_optional("distributed", "dask", "Dask data")
    try:
        return distributed.get_client()
    except ValueError:
        raise ValueError(
            f"X must not be a Dask collection without a cluster to work on, got no client: start one by `{HOW}`, or "
            "give X.compute() if it fits into memory."
        ) from None


@dataclass(frozen=True)
class Chunks:
    """Rows of inputs, targets and weights, a delayed object or an array for each; None where there are no weights."""

    X: Sequence[Any]
    y: Sequence[Any]
    weights: Sequence[Any]

    def map(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Let the cluster compute `function(X, y, weights, *args)` of every chunk; returns futures."""
        dask = import_optional("dask", "dask", "Dask data")
        task, shared = dask.delayed(function, pure=False), [dask.delayed(arg, traverse=False) for arg in args]
        rows = zip(self.X, self.y, self.weights, strict=True)
        return cluster().compute([task(*row, *shared) for row in rows])

    def gather(self, name: str, function: Callable[[Any], Any]) -> list[Any]:
        """Let the cluster compute a function of the inputs, targets or weights of every chunk, and fetch the values."""
        task = import_optional("dask", "dask", "Dask data").delayed(function, pure=False)
        return cluster().gather(cluster().compute([task(part) for part in getattr(self, name)]))


def cut(X: Any, y: Any, sample_weight: Any) -> Chunks:
    """Cut the data into the chunks of rows that X has; X must be a Dask array or data frame."""
    if not is_dask(X) or getattr(X, "ndim", 0) != 2:
        raise TypeError(
            f"X must be a Dask array or data frame of shape (n, d), got {type(X).__name__} of shape "
            f"{getattr(X, 'shape', None)}: where y or sample_weight is a Dask collection, X must be one too, see "
            "da.from_array."
        )
    chunks, sizes = row_chunks(X), row_numbers(X)
    if sizes is None and not all(part is None or is_dask(part) for part in (y, sample_weight)):
        sizes = tuple(Chunks(chunks, [], []).gather("X", n_rows))
    if sample_weight is not None and not is_dask(sample_weight):
        assert sizes is not None
        sample_weight = read_counts(sample_weight, sum(sizes))
    parts = [_like(name, part, len(chunks), sizes) for name, part in (("y", y), ("sample_weight", sample_weight))]
    return Chunks(chunks, *parts)


def n_rows(X: Any) -> int:
    """Return the number of rows of an array, a sparse matrix or a data frame."""
    return int(X.shape[0])


def row_numbers(X: Any) -> tuple[int, ...] | None:
    """Numbers of rows of the chunks; None where they are not known, as those of data frames are not."""
    sizes: Any = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
    return None if np.isnan(sizes).any() else sizes


def row_chunks(X: Any) -> list[Any]:
    """Chunks of whole rows as delayed objects."""
    return list(np.ravel(whole_rows(X).to_delayed()))


def whole_rows(X: Any) -> Any:
    """Put columns that are in several chunks into one."""
    return X.rechunk({1: -1}) if X.ndim == 2 and hasattr(X, "numblocks") and X.numblocks[1] > 1 else X


def _like(name: str, part: Any, count: int, sizes: tuple[int, ...] | None) -> Sequence[Any]:
    """Cut targets or weights as X is cut."""
    if part is None:
        return [None] * count
    if not is_dask(part):
        part = np.asarray(part)
        assert sizes is not None
        check_consistent_length(range(sum(sizes)), part)
        return np.split(part, np.cumsum(sizes)[:-1])
    own = row_numbers(part)
    if own is not None and sizes is not None:
        check_consistent_length(range(sum(sizes)), range(sum(own)))
        part = part.rechunk({0: sizes})
    chunks = row_chunks(part)
    if len(chunks) != count:
        raise ValueError(
            f"{name} must have as many chunks of rows as X where their lengths are not known, got {len(chunks)} for "
            f"{count}: take both from one data frame, or use to_dask_array(lengths=True)."
        )
    return chunks


# -- some rows, for what must be seen here -----------------------------------------------------------------------------


def some_rows(chunks: Chunks, most: int) -> tuple[Any, Any]:
    """Fetch about that many rows of X and y that count, evenly spaced within every chunk."""
    each = -(-most // len(chunks.X))
    found = cluster().gather(chunks.map(_spaced, each))
    Xs, ys = zip(*([pair for pair in found if n_rows(pair[0])] or found[:1]), strict=True)
    if hasattr(Xs[0], "iloc"):
        return import_optional("pandas", "dask", "a data frame").concat(Xs), np.concatenate(ys)
    return np.concatenate([X.toarray() if hasattr(X, "toarray") else X for X in Xs]), np.concatenate(ys)


def _spaced(X: Any, y: Any, weights: Any, most: int) -> tuple[Any, Any]:
    """Return some rows of a chunk that count."""
    used = np.flatnonzero(read_counts(weights, n_rows(X)))
    rows = used[evenly(len(used), most)] if len(used) else used
    return (X.iloc[rows] if hasattr(X, "iloc") else X[rows]), np.asarray(y)[rows]


# -- row by row, when it is asked for ----------------------------------------------------------------------------------


def lazily(method: Callable[..., Any], model: Any, X: Any, which: int | None = None, **options: Any) -> Any:
    """Return a Dask array of what a method of a fitted model yields for every row, or of one of several things."""
    check_is_fitted(model)
    validate_data(model, without_rows(X), skip_check_array=True, reset=False)
    width = model.n_terms_ if method.__name__ == "transform" else np.size(model.intercept_)
    shape = () if model.fitted_terms_.one_output and method.__name__ != "transform" else (width,)
    dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
    dask, array = (import_optional(name, "dask", "Dask data") for name in ("dask", "dask.array"))
    call = partial(_evaluate, method, which, options, shape, dtype)
    light = dask.delayed(model if options else _light(model), traverse=False)
    chunks, sizes = row_chunks(X), row_numbers(X) or itertools.repeat(np.nan)
    parts = [
        array.from_delayed(dask.delayed(call)(light, chunk), (size, *shape), dtype)
        for chunk, size in zip(chunks, sizes, strict=False)
    ]
    return array.concatenate(parts, allow_unknown_chunksizes=True)


def _light(model: Any) -> Any:
    """Return a copy that predicts, without what is as long as the rows of the fit."""
    light = copy.copy(model)
    light.fitted_terms_ = model.fitted_terms_.without_rows()
    if hasattr(light, "path_"):
        del light.path_
    return light


def _evaluate(
    method: Callable[..., Any], which: int | None, options: dict, shape: tuple[int, ...], dtype: Any, model: Any, X: Any
) -> Any:
    """Call the method on the rows of a chunk, which may be empty."""
    if not n_rows(X):
        return np.empty((0, *shape), dtype=dtype)
    found = method(model, X, **options)
    return np.asarray(found if which is None else found[which], dtype=dtype)


def without_rows(X: Any) -> Any:
    """Return a table with the columns of X and without rows, to check those."""
    if hasattr(X, "columns"):
        return import_optional("pandas", "dask", "a data frame").DataFrame(columns=X.columns)
    return np.empty((0, *X.shape[1:]))
