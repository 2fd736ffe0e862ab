"""Products with rows of a table, in one pass over it: in blocks that stay in the caches, by several threads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._threads import BLOCK_ENTRIES, block_rows, for_blocks

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

GATHERED_SHARE = 1 / 8  # of the columns, below which columns are gathered: eight entries of a row share a cache line


def combine_columns(X: Any, columns: Indices, weights: Floats, intercept: Floats) -> Floats | None:
    """Return `X[:, columns] weights + intercept` without gathering the columns, or None.

    Other columns have zero weights, so that one product reads X once. None for small arrays, those of another library
    or type, and those of which only few columns are used: there gathering costs less. None also if a result is not
    finite, as it is where X has missing or infinite values: these may be in columns that are not used.

    Parameters
    ----------
    X : array of shape (n, d)
        A table of numbers.
    columns : ndarray of int of shape (k,)
        Columns of X.
    weights : ndarray of shape (k, q)
        Their weights for each output.
    intercept : ndarray of shape (q,)
        The intercepts.
    """
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiub" or not isinstance(weights, np.ndarray):
        return None
    if X.size <= BLOCK_ENTRIES or len(columns) < GATHERED_SHARE * X.shape[1]:
        return None
    W = np.zeros((len(intercept), X.shape[1]))
    np.add.at(W.T, columns, weights)
    with np.errstate(invalid="ignore", over="ignore"):
        if X.dtype == np.float64 and (X.flags.c_contiguous or X.flags.f_contiguous):
            outputs = _product(X, W)
        else:
            outputs, step = np.empty((len(X), len(W))), block_rows(X.shape[1])

            def evaluate(start: int) -> None:
                rows = slice(start, start + step)
                outputs[rows] = _product(X[rows].astype(np.float64), W)

            for_blocks(evaluate, range(0, len(X), step))
        outputs += intercept
    return outputs if np.isfinite(outputs).all() else None


def _product(X: Floats, W: Floats) -> Floats:
    """Return `X W'`; of one output by a matrix-vector product, which reads X once at the bandwidth of memory."""
    return (X @ W[0])[:, None] if len(W) == 1 else X @ W.T
