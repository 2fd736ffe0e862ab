"""What the design matrix G can be: dense, sparse, kernel tiles, products of columns, rows of a file; one protocol.

The engine accesses its rows of G through the methods of `Design` and no others, so that a dense array of any library, a
sparse matrix, a memory map and functions evaluated on the fly are interchangeable. G is never scaled or written to, and
only columns with a large mean are copied (`shifted`); results are in float64. Weights of rows are arguments, None where
all are one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    RowIndex,
    as_float64,
    as_type,
    at,
    column_squares,
    from_host,
    namespace,
    precision,
    put_at,
    row_blocks,
    tiles,
    to_host,
    zeros,
)
from termwise._fusion import columns_at, compiles
from termwise._numerics import FLOAT32_SUM_ROWS, FLOAT64, SUM_ROUNDING_ULPS
from termwise._threads import BLOCK_ENTRIES, block_rows, for_blocks

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

EVERY = slice(None)
FEW_VECTORS = 2  # by which a matrix is multiplied faster one by one: BLAS has no kernel for so few
MIN_BLOCKED = 1 << 23  # entries from which a pass is faster in blocks, ...
CHUNKS = 16  # ... whose sums are added up in so many places, by as many threads at most
GATHERED_SHARE = 1 / 8  # of the columns, below which columns are gathered: eight entries of a row share a cache line
GRAM_STRIPS = 4  # of columns of `G'G` on a device, which saves three eighths of the product ...
MIN_STRIPED = 512  # ... from this many columns on


class Design(ABC):
    """Some rows of G."""

    shape: tuple[int, int]
    dtype: np.dtype  # float32 or float64
    nbytes: int  # of its entries, stored or not

    @abstractmethod
    def products(self, u: Array) -> Array:
        """`G' u` for u of shape (n,) or (n, m), in G's own precision."""

    @abstractmethod
    def columns(self, chosen: Array, rows: RowIndex = EVERY) -> Array:
        """Some rows of the columns given by their indices or a slice, as a new array."""

    @abstractmethod
    def power_sums(self, power: int, weights: Array | None = None, means: Array | None = None) -> Array:
        """`sum w^(power / 2) (g - mean)^power` of every column, for the power 2 or 4; without means not centred.

        Squares are centred without cancellation where that is possible; centred fourth powers may be an upper bound.
        """

    def squares_and_products(self, weights: Array | None, u: Array) -> tuple[Array, Array]:
        """`sum w g^2` of every column and `G' u` for u of shape (n, m)."""
        return self.power_sums(2, weights), self.products(u)

    def joint_products(self, u: Array, chosen: Any, weights: Array | None) -> Array:
        """`G' u` and the columns `G' diag(w) G_j` of the candidates j given, as the rows of one array: one pass."""
        if not len(chosen):
            return self.products(u)[None, :]
        G = self.columns(chosen)
        G = G if weights is None else G * weights[:, None]
        return self.products(namespace(u).concat([u[:, None], G], axis=1)).T

    def shifted(self, shift: Array) -> Design:
        """The design with a reference value subtracted from every column; zero leaves a column as it is."""
        return Shifted(self, shift)

    def gram(self, weights: Array | None) -> Array:
        """`G' diag(w) G`, from strips of rows."""
        like = self.columns(slice(0, 1), slice(0, 1))
        total = zeros((self.shape[1], self.shape[1]), like)
        for rows in row_blocks(*self.shape, like):
            G = self.columns(EVERY, rows)
            if weights is not None:
                G *= (weights[rows] ** 0.5)[:, None]
            total += G.T @ G
        return total

    def gram_and_products(self, weights: Array | None, u: Array) -> tuple[Array, Array]:
        """`G' diag(w) G` and `G' u`."""
        return self.gram(weights), self.products(u)

    def _centred_sums(self, power: int, sums: Array, weights: Array, means: Array) -> Array:
        """Centre power sums: squares as a difference, fourth powers from above by the triangle inequality."""
        xp = namespace(means)
        if power == 4:
            return (sums**0.25 + xp.abs(means) * xp.sum(weights**2) ** 0.25) ** 4
        return sums - 2 * means * self.products(weights) + means**2 * xp.sum(weights)


# -- stored matrices ---------------------------------------------------------------------------------------------------


class Dense(Design):
    """Rows of an array of any library, or of a memory map."""

    G: Array

    def __init__(self, G: Array) -> None:
        self.G, self.shape, self.dtype = G, G.shape, precision(G.dtype)
        self.nbytes = G.shape[0] * G.shape[1] * self.dtype.itemsize

    def products(self, u: Array) -> Array:
        """`G' u`: the pass over the data; sums of float32 over many rows are added up in float64."""
        if isinstance(u, np.ndarray) and u.ndim == 2 and 1 < u.shape[1] <= FEW_VECTORS:
            return np.stack([self.products(column) for column in u.T], axis=1)
        u, n = as_type(u, self.G.dtype), self.shape[0]
        if self.dtype == FLOAT64 or n <= FLOAT32_SUM_ROWS or not isinstance(self.G, np.ndarray):
            return as_float64(self.G.T @ u)
        total = zeros((self.shape[1], *u.shape[1:]), self.G)
        for start in range(0, n, FLOAT32_SUM_ROWS):
            rows = slice(start, start + FLOAT32_SUM_ROWS)
            total += self.G[rows].T @ u[rows]
        return total

    def columns(self, chosen: Array, rows: RowIndex = EVERY) -> Array:
        """Some rows of some columns."""
        if isinstance(chosen, np.ndarray) and len(chosen) == 1:
            chosen = slice(int(chosen[0]), int(chosen[0]) + 1)  # copied faster than by an array of indices
        sliced = isinstance(rows, slice)
        if sliced and compiles(self.G) and not isinstance(chosen, slice):
            return columns_at(self.G[rows, :], chosen)
        found = at(self.G[rows, :], chosen, axis=1) if sliced else at(at(self.G, chosen, axis=1), rows)
        return as_float64(found, copy=isinstance(chosen, slice))

    def power_sums(self, power: int, weights: Array | None = None, means: Array | None = None) -> Array:
        """`sum w^(power / 2) (g - mean)^power`, each entry centred before it is squared."""
        if power == 2 and weights is None and means is None:
            return column_squares(self.G)
        xp, total = namespace(self.G), zeros((self.shape[1],), self.G)
        factors = None if weights is None else weights if power == 4 else weights**0.5
        for X, rows, out in tiles(self.G):
            if power == 2 and weights is not None and means is None:
                X = as_float64(X)
                total += weights[rows] @ xp.multiply(X, X, **out)
                continue
            if means is not None:
                X = xp.subtract(X, means, **out)
            if power == 4:
                X = xp.multiply(X, X, **out)
            if factors is not None:
                X = xp.multiply(X, factors[rows, None], **out)
            total += column_squares(X)
        return total

    def squares_and_products(self, weights: Array | None, u: Array) -> tuple[Array, Array]:
        """`sum w g^2` and `G' u` by one pass over a large array, in blocks of rows that stay in the caches."""
        G, (n, p) = self.G, self.shape
        if not isinstance(G, np.ndarray) or weights is not None or G.size < MIN_BLOCKED:
            return super().squares_and_products(weights, u)
        chunk, step, u = -(-n // CHUNKS), min(block_rows(p), FLOAT32_SUM_ROWS), as_type(u, G.dtype)
        sums = np.zeros((CHUNKS, 1 + u.shape[1], p))

        def add_up(start: int) -> None:
            part, stop = sums[start // chunk], min(start + chunk, n)
            for first in range(start, stop, step):
                rows = slice(first, min(first + step, stop))
                part[0] += column_squares(G[rows])
                for j, v in enumerate(u[rows].T, start=1):
                    part[j] += v @ G[rows]

        for_blocks(add_up, range(0, n, chunk))
        squares, *products = sums.sum(axis=0)
        return squares, np.stack(products, axis=1)

    def joint_products(self, u: Array, chosen: Any, weights: Array | None) -> Array:
        """`G' u` and columns of `G' diag(w) G`; sums of float32 over many rows are added up in float64."""
        G = self.G
        if not len(chosen) or not isinstance(G, np.ndarray):
            return super().joint_products(u, chosen, weights)
        rows = np.empty((1 + len(chosen), len(G)), dtype=G.dtype)
        rows[0] = u
        for row, j in zip(rows[1:], chosen.tolist(), strict=True):  # faster than gathering all of them at once
            row[:] = G[:, j]
        if weights is not None:
            rows[1:] *= weights
        step = len(G) if self.dtype == FLOAT64 else FLOAT32_SUM_ROWS
        total = rows[:, :step] @ G[:step]
        for start in range(step, len(G), step):
            part = slice(start, start + step)
            total = as_float64(total) + rows[:, part] @ G[part]
        return as_float64(total)

    def shifted(self, shift: Array) -> Design:
        """Store the differences of some columns; of all where they are more than half."""
        if 2 * np.count_nonzero(to_host(shift)) > self.shape[1]:
            return Dense(self.G - as_type(shift, self.G.dtype))
        return super().shifted(shift)

    def gram(self, weights: Array | None) -> Array:
        """`G' diag(w) G` by one product."""
        if not isinstance(self.G, np.ndarray):
            return self.gram_and_products(weights, zeros((self.shape[0], 0), self.G))[0]
        G = self.G if weights is None else self.G * as_type(weights**0.5, self.G.dtype)[:, None]
        return as_float64(G.T @ G)

    def gram_and_products(self, weights: Array | None, u: Array) -> tuple[Array, Array]:
        """`G' diag(w) G` and `G' u`; of other libraries in float64, of which the upper triangle is computed."""
        if isinstance(self.G, np.ndarray):
            return super().gram_and_products(weights, u)
        xp, p = namespace(self.G), self.shape[1]
        total, along = zeros((p, p), self.G), zeros((p, u.shape[1]), self.G)
        edges = np.linspace(0, p, GRAM_STRIPS + 1).astype(int).tolist() if p >= MIN_STRIPED else [0, p]
        strips = [slice(i, j) for i, j in pairwise(edges)]
        for rows in row_blocks(*self.shape, self.G):
            G = as_float64(self.G[rows, :])
            along += G.T @ u[rows, :]
            G = G if weights is None else G * (weights[rows] ** 0.5)[:, None]
            for strip in strips:
                total[strip, strip.start :] += G[:, strip].T @ G[:, strip.start :]
        return xp.triu(total) + xp.triu(total, k=1).T, along


class Sparse(Design):
    """Rows of a SciPy sparse matrix, stored by columns."""

    def __init__(self, G: Any) -> None:
        self.G, self.shape, self.dtype, self.nbytes = G, G.shape, G.dtype, G.data.nbytes

    def products(self, u: Array) -> Array:
        """`G' u`."""
        return np.asarray(self.G.T @ u.astype(self.dtype, copy=False), dtype=np.float64)

    def columns(self, chosen: Array, rows: RowIndex = EVERY) -> Array:
        """Some rows of some columns, as a dense array."""
        G = self.G[:, chosen]
        G = G if isinstance(rows, slice) and rows == EVERY else G[rows]
        return G.toarray().astype(np.float64, copy=False)

    def power_sums(self, power: int, weights: Array | None = None, means: Array | None = None) -> Array:
        """`sum w^(power / 2) (g - mean)^power`, from sums that are not centred: centred columns are not sparse."""
        weights = np.ones(self.shape[0]) if weights is None else weights
        data = self.G.data.astype(np.float64) ** power
        powers = sp.csc_array((data, self.G.indices, self.G.indptr), shape=self.shape)  # the pattern is shared
        sums = np.asarray(powers.T @ (weights if power == 2 else weights**2), dtype=np.float64)
        if means is None:
            return sums
        rounding = SUM_ROUNDING_ULPS * np.finfo(self.dtype).eps * sums if power == 2 else 0.0
        return np.maximum(self._centred_sums(power, sums, weights, means) - rounding, 0)

    def gram(self, weights: Array | None) -> Array:
        """`G' diag(w) G`, as a dense array."""
        G = self.G
        if weights is not None:
            G = sp.csc_array(G.multiply(np.sqrt(weights).astype(self.dtype)[:, None]))
        return np.asarray((G.T @ G).toarray(), dtype=np.float64)


class Shifted(Design):
    """A design less a reference value of some columns; their differences are stored, the others are not copied.

    Entries near the reference differ from it by a number that the same precision represents exactly. A column of a
    sparse matrix whose mean exceeds its standard deviation by far has hardly any zeros, so that its differences take
    no more memory than its entries.
    """

    def __init__(self, base: Design, shift: Array) -> None:
        self.base, self.shift, self.shape, self.dtype = base, shift, base.shape, base.dtype
        self.places = from_host(np.flatnonzero(to_host(shift)), shift)  # where they are used, as CUDA graphs require
        self.stored = Dense(as_type(self.columns(self.places), self.dtype))
        self.nbytes = base.nbytes + self.stored.nbytes

    def products(self, u: Array) -> Array:
        """`G' u`."""
        return put_at(self.base.products(u), self.places, self.stored.products(u))

    def columns(self, chosen: Array, rows: RowIndex = EVERY) -> Array:
        """Some rows of some columns."""
        return self.base.columns(chosen, rows) - at(self.shift, chosen)

    def power_sums(self, power: int, weights: Array | None = None, means: Array | None = None) -> Array:
        """`sum w^(power / 2) (g - mean)^power`."""
        stored = self.stored.power_sums(power, weights, None if means is None else at(means, self.places))
        return put_at(self.base.power_sums(power, weights, means), self.places, stored)


def as_design(G: Any) -> Design:
    """Return G as a design: a design itself, a sparse matrix or an array."""
    if isinstance(G, Design):
        return G
    return Sparse(G) if sp.issparse(G) else Dense(G)


# -- products with some columns of a table -----------------------------------------------------------------------------


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

    def product(X: Floats) -> Floats:  # of one output by a matrix-vector product, at the bandwidth of memory
        return (X @ W[0])[:, None] if len(W) == 1 else X @ W.T

    with np.errstate(invalid="ignore", over="ignore"):
        if X.dtype == np.float64 and (X.flags.c_contiguous or X.flags.f_contiguous):
            outputs = product(X)
        else:
            outputs, step = np.empty((len(X), len(W))), block_rows(X.shape[1])

            def evaluate(start: int) -> None:
                rows = slice(start, start + step)
                outputs[rows] = product(X[rows].astype(np.float64))

            for_blocks(evaluate, range(0, len(X), step))
        outputs += intercept
    return outputs if np.isfinite(outputs).all() else None
