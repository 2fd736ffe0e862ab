"""A radial dictionary that is never stored: tiles of it are computed where they are needed, and forgotten.

With whitened inputs a and centres c, `m = -|a - c|^2` is one product of short vectors,

    m = [2 a, -|a|^2, 1]' [c, 1, -|c|^2]

and the tile is `phi(m)`. Nearly all of the time goes into phi: a pass costs about n p evaluations of it, half as many
where the centres are the samples themselves and the matrix is symmetric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, reduce
from operator import add
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from termwise._arrays import (
    Array,
    Rows,
    as_float64,
    as_type,
    at,
    empty,
    namespace,
    row_blocks,
    row_squares,
    zeros,
)
from termwise.design.stored import EVERY, Design

Floats = NDArray[np.float64]

FAR = 1000.0  # widths from the origin: beyond, distances by products lose ten digits to cancellation
SIDE = 512  # of a tile: 2 MiB, which a core's caches hold, and long enough to hide the calls
DEVICE_SIDE = 8192  # of a tile where memory is as fast as caches are, and calls are dear
ALONE = Lock()


class KernelDesign(Design):
    """`phi(-|a - c|^2)` for rows a of A and c of C, in the precision `dtype`, distances in float64 whatever that is.

    `phi(xp, m, **out)` is written with the functions of a library; `symmetric` says that A and C are the same points.
    """

    def __init__(self, A: Array, C: Array, phi: Callable[..., Array], dtype: Any, symmetric: bool = False) -> None:
        self.phi, self.dtype, self.symmetric = phi, np.dtype(dtype), symmetric
        self.shape = (A.shape[0], C.shape[0])
        self.nbytes = A.shape[0] * C.shape[0] * self.dtype.itemsize
        self._xp, self._host = namespace(A), isinstance(A, np.ndarray)
        self._type = getattr(self._xp, self.dtype.name)
        self._far = bool(max(_largest(A), _largest(C)) > FAR)
        self.like = A  # for what library and device the rest of a problem must be
        self._left, self._right = (A, C) if self._far else _sides(A, C)

    def __getitem__(self, rows: Any) -> Self:
        """Fewer rows, by a slice, a mask or their numbers."""
        rows = rows[0] if isinstance(rows, tuple) else rows
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__
        other._left = at(self._left, rows)
        whole = len(other._left) == self.shape[0]
        other.shape, other.symmetric = (len(other._left), self.shape[1]), self.symmetric and whole
        other.nbytes = len(other._left) * self.shape[1] * self.dtype.itemsize
        return other

    def products(self, u: Array) -> Array:
        """`G' u`, tile by tile."""
        return self._sweep(u)

    def columns(self, chosen: Array, rows: Rows = EVERY) -> Array:
        """Some rows of some functions."""
        left, right = at(self._left, rows), at(self._right, chosen)
        G = empty((left.shape[0], right.shape[0]), left)
        for part in row_blocks(left.shape[0], right.shape[0], left):
            G[part, :] = self._tile(left[part, :], right)
        return G

    def squares(self, weights: Array | None) -> Array:
        """`sum w g^2`."""
        return self._sweep(self._or_ones(weights), lambda K, columns: K * K)

    def centred_squares(self, weights: Array | None, means: Array) -> Array:
        """`sum w (g - mean)^2`."""
        return self._sweep(
            self._or_ones(weights), lambda K, columns: (as_float64(K) - means[columns]) ** 2, alike=False
        )

    def fourth_powers(self, weights: Array | None, means: Array) -> Array:
        """`sum w^2 (g - mean)^4`."""
        w = self._or_ones(weights)
        return self._sweep(w * w, lambda K, columns: (as_float64(K) - means[columns]) ** 4, alike=False)

    def gram(self, weights: Array | None) -> Array:
        """`G' diag(w) G`, from strips of rows."""
        total, w = zeros((self.shape[1], self.shape[1]), self._left), self._or_ones(weights) ** 0.5
        for rows in row_blocks(*self.shape, self._left):
            G = self.columns(EVERY, rows) * w[rows, None]
            total += G.T @ G
        return total

    def _or_ones(self, weights: Array | None) -> Array:
        return zeros((self.shape[0],), self._left) + 1 if weights is None else weights

    def _tile(self, left: Array, right: Array, room: Floats | None = None) -> Array:
        """`phi(m)` for some rows and functions, in the room for a tile if there is one."""
        if not self._host:
            m = -_direct(left, right) if self._far else self._xp.clip(left @ right.T, max=0.0)
            return self.phi(self._xp, as_type(m, self._type))
        room = np.empty((2, len(left) * len(right))) if room is None else room
        m = room[0, : len(left) * len(right)].reshape(len(left), len(right))
        if self._far:
            np.negative(_direct(left, right), out=m)
        else:
            np.minimum(np.matmul(left, right.T, out=m), 0, out=m)
        if self.dtype != np.float64:
            short = room[1].view(self.dtype)[: m.size].reshape(m.shape)
            short[...] = m
            m = short
        return self.phi(np, m, out=m)

    def _sweep(self, u: Array, change: Callable[[Array, slice], Array] | None = None, alike: bool = True) -> Array:
        """`sum change(K)' u` over all tiles K, by as many threads as BLAS would use.

        A tile of a symmetric matrix serves twice, if `change` does not ask which functions it is of.
        """
        twice = self.symmetric and alike
        if not self._host:
            return self._strips(u, change, twice, 0, 1)
        threads = _threads()
        if threads == 1 or self.shape[0] <= SIDE:
            return self._strips(u, change, twice, 0, 1)
        with _libraries().limit(limits=1), ThreadPoolExecutor(threads) as pool:
            parts = pool.map(lambda first: self._strips(u, change, twice, first, threads), range(threads))
            return reduce(add, parts)

    def _strips(
        self, u: Array, change: Callable[[Array, slice], Array] | None, twice: bool, first: int, every: int
    ) -> Array:
        """Part of a sweep: every so many strips of rows."""
        total = zeros((self.shape[1], *u.shape[1:]), self._left)
        room = np.empty((2, SIDE * SIDE)) if self._host else None  # memory that is asked for anew comes slowly
        for rows in list(self._cuts(self.shape[0]))[first::every]:
            for columns in self._cuts(self.shape[1], rows.start if twice else 0):
                K = self._tile(self._left[rows, :], self._right[columns, :], room)
                K = K if change is None else change(K, columns)
                total[columns, ...] += as_float64(K.T @ as_type(u[rows, ...], K.dtype))
                if twice and rows != columns:
                    total[rows, ...] += as_float64(K @ as_type(u[columns, ...], K.dtype))
        return total

    def _cuts(self, n: int, start: int = 0) -> Iterator[slice]:
        side = SIDE if self._host else DEVICE_SIDE
        return (slice(i, min(i + side, n)) for i in range(start, n, side))


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS libraries of this process."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread; callers in other threads wait, as limits that overlap would not be lifted rightly."""
    if _threads() == 1:
        yield
        return
    with ALONE, _libraries().limit(limits=1):
        yield


def _threads() -> int:
    """As many as BLAS may use now: whoever limits those means these too."""
    return max((library["num_threads"] for library in _libraries().info()), default=1)


def _largest(A: Array) -> float:
    return float(namespace(A).max(namespace(A).abs(A))) if A.shape[0] * A.shape[1] else 0.0


def _sides(A: Array, C: Array) -> tuple[Array, Array]:
    """Both sides of the product that makes m."""
    xp, aa, cc = namespace(A), row_squares(A)[:, None], row_squares(C)[:, None]
    return xp.concat([2 * A, -aa, xp.ones_like(aa)], axis=1), xp.concat([C, xp.ones_like(cc), -cc], axis=1)


def _direct(A: Array, C: Array) -> Array:
    """Squared distances one input at a time, where the terms of the product form would cancel."""
    z = zeros((A.shape[0], C.shape[0]), A)
    for j in range(A.shape[1]):
        z += (A[:, j][:, None] - C[:, j][None, :]) ** 2
    return z
