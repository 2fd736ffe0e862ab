"""Arrays at the edge: what comes in becomes plain dense rows, large work is cut into row blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

BLOCK_ENTRIES = 1 << 19  # 4 MiB of float64: a block and its temporaries stay in a core's cache


def densify(X: Any) -> NDArray:
    """Return `X` as a dense array, whether it is a sparse matrix, a sparse array or dense already."""
    return X.toarray() if sp.issparse(X) else np.asarray(X)


def row_blocks(n: int, width: int) -> Iterator[slice]:
    """Cut `n` rows of `width` entries into slices of about `BLOCK_ENTRIES` entries each."""
    step = max(1, BLOCK_ENTRIES // max(1, width))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def evenly(n: int, most: int) -> NDArray[np.intp]:
    """At most that many of n row numbers, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp))


def different_rows(X: NDArray) -> NDArray[np.intp]:
    """First row of each different sample, in the order of the data."""
    return np.sort(np.unique(X, axis=0, return_index=True)[1])


def as_columns(y: NDArray) -> NDArray:
    """Return targets of shape (n,) or (n, q) as (n, q)."""
    return y.reshape(len(y), -1)
