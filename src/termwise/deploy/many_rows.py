"""Evaluation of a model for tables of many rows: one pass over the table, in the caches, by several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise.deploy.inputs import InputSchema
from termwise.design.computed import blas_threads, one_thread

Floats = NDArray[np.float64]

# Entries of all intermediate results of a block: 2 MiB, which stay in the caches of a core. Calls for shorter blocks
# take so little time that threads would wait for each other.
BLOCK_ENTRIES = 1 << 18
THREADED_BLOCKS = 8  # as many make up for starting threads
GATHERED_SHARE = 1 / 8  # of the columns, below which rows are gathered: eight entries share a cache line


def evaluate_rows(
    schema: InputSchema, X: Any, function: Callable[[Floats], Floats], n_outputs: int, width: int
) -> Floats:
    """Return a function of encoded rows, which returns `n_outputs` columns, for all rows of a table.

    Rows of numbers are encoded block by block, other tables as a whole. `width` is the number of columns of all
    intermediate results. A block is stored by columns: then the loops inside NumPy's functions run along its rows.
    """
    X = schema.as_table(X)
    n, step = X.shape[0], max(1, BLOCK_ENTRIES // max(1, width))
    by_block = schema.takes_numbers(X)
    Z = None if by_block and n > step else schema.encode(X)
    if n <= step:
        assert Z is not None
        return function(Z)
    outputs = np.empty((n, n_outputs))

    def evaluate(start: int) -> None:
        rows = slice(start, start + step)
        outputs[rows] = function(schema.encode(X[rows]) if Z is None else np.asfortranarray(Z[rows]))

    try:
        _run(evaluate, range(0, n, step))
    except ValueError:
        schema.encode(X)  # raises for invalid rows, with their numbers in the table
        raise
    return outputs


def _run(evaluate: Callable[[int], None], starts: Sequence[int]) -> None:
    """Evaluate all blocks, by as many threads as BLAS may use."""
    threads = blas_threads() if len(starts) >= THREADED_BLOCKS else 1
    if threads == 1:
        for start in starts:
            evaluate(start)
        return
    settings: Any = np.geterr()  # of the calling thread, which others do not inherit

    def in_thread(start: int) -> None:
        with np.errstate(**settings):
            evaluate(start)

    with one_thread(), ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(in_thread, starts):
            pass


def combine_columns(schema: InputSchema, X: Any, weights: Floats, intercept: Floats) -> Floats | None:
    """Return `X W + intercept` for terms that are columns of numbers, without gathering these, or None.

    Columns that no term uses have zero weights. A missing or infinite entry makes an output NaN or infinite: only
    then a closer look is needed, for which the caller evaluates the table in the general way. The same holds for small
    tables, those of other kinds, and where nearly all columns are unused.

    Parameters
    ----------
    schema : InputSchema
        The encoding of the table, in which every term is a number.
    X : array-like, sparse matrix or data frame of shape (m, d)
        Inputs.
    weights : ndarray of shape (q, k)
        Weights of the terms.
    intercept : ndarray of shape (q,)
        The intercepts.
    """
    d = len(schema.inputs)
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.shape[1] != d or not schema.takes_numbers(X):
        return None
    if X.size <= BLOCK_ENTRIES or len(schema.columns) < GATHERED_SHARE * d:
        return None
    W = np.zeros((len(intercept), d))
    np.add.at(W.T, schema.columns, weights.T)
    with np.errstate(invalid="ignore", over="ignore"):
        if X.dtype == np.float64 and (X.flags.c_contiguous or X.flags.f_contiguous):
            outputs = _product(X, W)
        else:
            outputs = np.empty((len(X), len(W)))
            step = max(1, BLOCK_ENTRIES // max(1, d))

            def evaluate(start: int) -> None:
                rows = slice(start, start + step)
                outputs[rows] = _product(X[rows].astype(np.float64), W)

            _run(evaluate, range(0, len(X), step))
        outputs += intercept
    return outputs if np.isfinite(outputs).all() else None


def _product(X: Floats, W: Floats) -> Floats:
    """Return `X W'`; of one output by a matrix-vector product, which reads X once at the bandwidth of memory."""
    return (X @ W[0])[:, None] if len(W) == 1 else X @ W.T
