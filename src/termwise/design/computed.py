"""Design matrices that are computed where they are needed and never stored: radial functions and products of columns.

Radial functions. With whitened inputs a and centres c, `m = -|a - c|^2` is one product of short vectors,

    m = [2 a, -|a|^2, 1]' [c, 1, -|c|^2]

and a tile of the matrix is `phi(m)`. Nearly all the time is spent in phi: a pass costs about n p evaluations of it,
half as many where the centres are the samples themselves and the matrix is symmetric.

Products. For the products `g = a b` of any two of m columns S, and a weight u for every row,

    sum u g = sum u a b = (S' diag(u) S)_ab

so that one pass over all p = m^2 / 2 candidates reads n m numbers instead of n p, and works in the caches. Where only a
few columns are second factors, such as a column of ones for candidates that are columns themselves, only their part of
that matrix is formed. Where r columns B span all m, S = B W', as hinges and steps above their knots span those below,

    S' diag(u) S = W (B' diag(u) B) W'

with few numbers in W that are not zero: r^2 / m^2 of the operations are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, reduce
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, RowIndex, as_float64, as_type, at, empty, namespace, row_blocks, row_squares, zeros
from termwise._numerics import CANCELLATION_SHARE, FLOAT64, KERNEL_PRODUCT_RANGE
from termwise._threads import blas_libraries, blas_threads
from termwise.design import EVERY, Design

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

TILE_SIDE = 512  # 2 MiB, which a core's caches hold, and enough work to hide the overhead of a call
DEVICE_TILE_SIDE = 8192  # on a device, whose memory is fast and where launches are expensive
GRAM_PANEL = 64  # rows of a symmetric matrix: fewer skip more of one half of it, more are faster for BLAS
SECOND_FACTORS_SHARE = 0.5  # of the columns, up to which gathering the second factors saves more than it costs


class KernelDesign(Design):
    """`phi(-|a - c|^2)` for rows a of A and c of C, in the precision `dtype`; distances are in float64 always.

    `phi(xp, m, **out)` is written with the functions of a library; `symmetric` says that A and C are the same points.
    """

    def __init__(self, A: Array, C: Array, phi: Callable[..., Array], dtype: Any, symmetric: bool = False) -> None:
        self.phi, self.dtype, self.symmetric = phi, np.dtype(dtype), symmetric
        self.shape = (A.shape[0], C.shape[0])
        self.nbytes = A.shape[0] * C.shape[0] * self.dtype.itemsize
        self.like = A  # an array of the library and device that the rest of a problem must be on
        self._xp, self._host = namespace(A), isinstance(A, np.ndarray)
        largest = [float(self._xp.max(self._xp.abs(B))) for B in (A, C) if B.shape[0] * B.shape[1]]
        self._direct = max(largest, default=0.0) > KERNEL_PRODUCT_RANGE
        self._shift: Array | None = None  # reference value of every function
        self._left, self._right = A, C
        if not self._direct:
            xp, aa, cc = self._xp, row_squares(A)[:, None], row_squares(C)[:, None]
            self._left = xp.concat([2 * A, -aa, xp.ones_like(aa)], axis=1)
            self._right = xp.concat([C, xp.ones_like(cc), -cc], axis=1)

    def __getitem__(self, rows: Any) -> Self:
        """Some rows, by a slice, a mask or their indices."""
        rows = rows[0] if isinstance(rows, tuple) else rows
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__
        other._left = at(self._left, rows)
        whole = len(other._left) == self.shape[0]
        other.shape, other.symmetric = (len(other._left), self.shape[1]), self.symmetric and whole
        other.nbytes = len(other._left) * self.shape[1] * self.dtype.itemsize
        return other

    def shifted(self, shift: Array) -> Self:
        """Subtract reference values from every tile, which is evaluated in float64: values near one differ little."""
        other = self[EVERY]
        other._shift, other.dtype = shift, FLOAT64
        return other

    def products(self, u: Array) -> Array:
        """`G' u`, tile by tile."""
        shift = self._shift
        if shift is None:
            return self._sweep(u)
        return self._sweep(u, lambda K, columns: K - shift[columns], by_column=True)

    def columns(self, chosen: Array, rows: RowIndex = EVERY) -> Array:
        """Some rows of some functions."""
        left, right = at(self._left, rows), at(self._right, chosen)
        G = empty((left.shape[0], right.shape[0]), left)
        for part in row_blocks(left.shape[0], right.shape[0], left):
            self._write(left[part, :], right, G[part, :])
        return G if self._shift is None else G - at(self._shift, chosen)

    def write(self, out: NDArray[Any]) -> None:
        """Write the whole matrix, of functions that have no shift, to an array of NumPy."""
        for part in row_blocks(*self.shape):
            self._write(self._left[part], self._right, out[part])

    def _write(self, left: Array, right: Array, out: Array) -> None:
        """Write a tile to an array, in whose memory it is computed if it has the same dtype."""
        in_place = self._host and self.dtype == out.dtype == np.float64
        tile = self._fill(left, right, out) if in_place else self._tile(left, right)
        if tile is not out:
            out[...] = tile

    def power_sums(self, power: int, weights: Array | None = None, means: Array | None = None) -> Array:
        """`sum w^(power / 2) (g - mean)^power`."""
        weights = zeros((self.shape[0],), self._left) + 1 if weights is None else weights
        weights = weights if power == 2 else weights**2
        if self._shift is not None:
            means = self._shift if means is None else self._shift + means
        if means is None:
            return self._sweep(weights, lambda K, columns: K * K if power == 2 else K**4)
        return self._sweep(weights, lambda K, columns: (as_float64(K) - means[columns]) ** power, by_column=True)

    def _tile(self, left: Array, right: Array, buffer: Floats | None = None) -> Array:
        """`phi(m)` for some rows and functions, in a buffer if there is one."""
        if not self._host:
            m = -_direct_distances(left, right) if self._direct else self._xp.clip(left @ right.T, max=0.0)
            return self.phi(self._xp, as_type(m, self.dtype))
        shape, size = (len(left), len(right)), len(left) * len(right)
        buffer = np.empty((2, size)) if buffer is None else buffer
        short = None if self.dtype == np.float64 else buffer[1].view(self.dtype)[:size].reshape(shape)
        return self._fill(left, right, buffer[0, :size].reshape(shape), short)

    def _fill(self, left: Floats, right: Floats, m: Floats, short: NDArray[Any] | None = None) -> NDArray[Any]:
        """`phi(m)` in the memory of m, or for another dtype than float64 in that of `short`."""
        if self._direct:
            np.negative(_direct_distances(left, right), out=m)
        else:
            np.minimum(np.matmul(left, right.T, out=m), 0, out=m)
        if short is not None:
            short[...] = m
        values = m if short is None else short
        return self.phi(np, values, out=values)

    def _sweep(
        self, u: Array, change: Callable[[Array, slice], Array] | None = None, *, by_column: bool = False
    ) -> Array:
        """`sum change(K)' u` over all tiles K, by as many threads as BLAS would use.

        A tile of a symmetric matrix serves twice, unless `change` depends on the columns of the tile.
        """
        twice = self.symmetric and not by_column
        strips = list(self._slices(self.shape[0]))
        threads = blas_threads() if self._host and self.shape[0] > TILE_SIDE else 1
        if threads == 1:
            return self._sum_tiles(u, change, twice, strips)
        with blas_libraries().limit(limits=1), ThreadPoolExecutor(threads) as pool:
            shares = [strips[first::threads] for first in range(threads)]
            return reduce(add, pool.map(lambda share: self._sum_tiles(u, change, twice, share), shares))

    def _sum_tiles(
        self, u: Array, change: Callable[[Array, slice], Array] | None, twice: bool, strips: list[slice]
    ) -> Array:
        """Part of a sweep: some strips of rows."""
        total = zeros((self.shape[1], *u.shape[1:]), self._left)
        buffer = np.empty((2, TILE_SIDE * TILE_SIDE)) if self._host else None  # allocating it anew would be slow
        for rows in strips:
            for columns in self._slices(self.shape[1], rows.start if twice else 0):
                K = self._tile(self._left[rows, :], self._right[columns, :], buffer)
                K = K if change is None else change(K, columns)
                total[columns, ...] += as_float64(K.T @ as_type(u[rows, ...], K.dtype))
                if twice and rows != columns:
                    total[rows, ...] += as_float64(K @ as_type(u[columns, ...], K.dtype))
        return total

    def _slices(self, n: int, start: int = 0) -> Iterator[slice]:
        side = TILE_SIDE if self._host else DEVICE_TILE_SIDE
        return (slice(i, min(i + side, n)) for i in range(start, n, side))


def _direct_distances(A: Array, C: Array) -> Array:
    """Squared distances one input at a time, where the terms of the product form would cancel."""
    z = zeros((A.shape[0], C.shape[0]), A)
    for j in range(A.shape[1]):
        z += (A[:, j][:, None] - C[:, j][None, :]) ** 2
    return z


class Span(NamedTuple):
    """Columns of a matrix S that span all of them: `S = S[:, kept] @ weights.T`."""

    kept: Indices  # (r,)
    weights: Any  # (m, r), a sparse array


class ProductDesign(Design):
    """Column j is the product of two columns of S, `first[j]` and `second[j]`.

    Where fewer columns `span` those of S, sums are computed from the products of these alone; columns and powers are
    not.
    """

    def __init__(self, S: NDArray[Any], first: Indices, second: Indices, span: Span | None = None) -> None:
        self.S, self.first, self.second, self.span = S, first, second, span
        self.shape, self.dtype = (len(S), len(first)), S.dtype
        self.nbytes = len(S) * len(first) * S.dtype.itemsize

    def __getitem__(self, rows: Any) -> Self:
        """Some rows, by a slice, a mask or their indices."""
        rows = rows[0] if isinstance(rows, tuple) else rows
        return type(self)(self.S[rows], self.first, self.second, self.span)

    def astype(self, dtype: Any) -> Self:
        """The same products of factors stored in another precision."""
        return type(self)(self.S.astype(dtype, copy=False), self.first, self.second)

    def products(self, u: Floats) -> Floats:
        """`G' u`."""
        if u.ndim == 1:
            return self._sums(u)
        return np.column_stack([self._sums(column) for column in u.T])

    def columns(self, chosen: Any, rows: Any = EVERY) -> Floats:
        """Some rows of some products."""
        S = self.S[rows]
        G = S[:, self.first[chosen]].astype(np.float64)
        G *= S[:, self.second[chosen]]
        return G

    def power_sums(self, power: int, weights: Floats | None = None, means: Floats | None = None) -> Floats:
        """`sum w^(power / 2) (a b - mean)^power`; squares that would cancel are summed from the column itself."""
        u = weights if weights is None or power == 2 else weights**2
        sums = self._sums(u, squarings=power // 2)
        if means is None:
            return sums
        w = np.ones(len(self.S)) if weights is None else weights
        centred = self._centred_sums(power, np.maximum(sums, 0), w, means)
        for j in np.flatnonzero(centred < CANCELLATION_SHARE[self.dtype] * sums) if power == 2 else ():
            centred[j] = w @ (self.columns(slice(j, j + 1))[:, 0] - means[j]) ** 2
        return centred

    def _sums(self, u: Floats | None, squarings: int = 0) -> Floats:
        """`sum u a b` of all products, the factors squared repeatedly."""
        u = None if u is None else u.astype(self.dtype, copy=False)
        if self.span is None or squarings:
            left, right, places = self._factors
            return np.take(weighted_gram(self.S, u, left, right, squarings), places)
        T = weighted_gram(self._spanning, u)
        sums = self.span.weights @ (self.span.weights @ T).T  # symmetric
        return np.take(sums, self._places)

    @cached_property
    def _factors(self) -> tuple[Any, Any, Indices]:
        """The columns that are first and second factors, and where each product is in the matrix of these."""
        m = self.S.shape[1]
        left, right = (np.bincount(factors, minlength=m) > 0 for factors in (self.first, self.second))
        if right.sum() > SECOND_FACTORS_SHARE * m:  # gathering columns would cost more than it saves
            return EVERY, EVERY, self._places
        first, second = np.cumsum(left)[self.first] - 1, np.cumsum(right)[self.second] - 1
        return np.flatnonzero(left), np.flatnonzero(right), first * int(right.sum()) + second

    @cached_property
    def _places(self) -> Indices:
        """Where each product is in the matrix of all columns."""
        return self.first * self.S.shape[1] + self.second

    @cached_property
    def _spanning(self) -> NDArray[Any]:
        """The columns that span the others."""
        return np.ascontiguousarray(self.S[:, self.span.kept]) if self.span else self.S


def weighted_gram(
    S: NDArray[Any], u: NDArray[Any] | None, left: Any = EVERY, right: Any = EVERY, squarings: int = 0
) -> Floats:
    """`L' diag(u) R` for columns L and R of S, squared repeatedly, over strips of rows that stay in the caches.

    Where L and R are all columns, it is symmetric: panels of rows are computed from the diagonal on.
    """
    symmetric, columns = left is EVERY and right is EVERY, np.arange(S.shape[1])
    total = np.zeros((columns[left].size, columns[right].size))
    n_panels = -(-len(total) // GRAM_PANEL) if symmetric else 1
    panels = [slice(*ends) for ends in pairwise(np.linspace(0, len(total), n_panels + 1).astype(np.intp).tolist())]
    for rows in row_blocks(*S.shape):
        part = S[rows]
        for _ in range(squarings):
            part = part * part
        a, b = part[:, left], part[:, right]
        b = b if u is None else b * u[rows, None]
        for panel in panels:
            total[panel, panel.start :] += a[:, panel].T @ b[:, panel.start :]
    for panel in panels if symmetric else ():
        total[panel.stop :, panel] = total[panel, panel.stop :].T
    return total
