"""Products of two columns that are never stored: every sum over all of them is a matrix product.

For the products `g = a b` of any two of m columns S, and a weight u for every row,

    sum u g = sum u a b = (S' diag(u) S)_ab

so that one pass over all p = m^2 / 2 candidates reads n m numbers instead of n p, and works in the caches. Where only a
few columns are second factors, such as a column of ones for candidates that are columns themselves, only their part of
that matrix is formed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import row_blocks
from termwise._numerics import CANCELLATION_SHARE
from termwise.design import EVERY, Design

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

SECOND_FACTORS_SHARE = 0.5  # of the columns, up to which gathering the second factors saves more than it costs


class ProductDesign(Design):
    """Column j is the product of two columns of S, `first[j]` and `second[j]`."""

    def __init__(self, S: NDArray, first: Indices, second: Indices) -> None:
        self.S, self.first, self.second = S, first, second
        self.shape, self.dtype = (len(S), len(first)), S.dtype
        self.nbytes = len(S) * len(first) * S.dtype.itemsize

    def __getitem__(self, rows: Any) -> Self:
        """Some rows, by a slice, a mask or their indices."""
        return type(self)(self.S[rows[0] if isinstance(rows, tuple) else rows], self.first, self.second)

    def products(self, u: Floats) -> Floats:
        """`G' u`."""
        u = u.astype(self.dtype, copy=False)
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
        for j in np.flatnonzero(centred < CANCELLATION_SHARE * sums) if power == 2 else ():
            centred[j] = w @ (self.columns(slice(j, j + 1))[:, 0] - means[j]) ** 2
        return centred

    def _sums(self, u: Floats | None, squarings: int = 0) -> Floats:
        """`sum u a b` of all products, the factors squared repeatedly, over strips of rows that stay in the caches."""
        (left, first), (right, second) = self._factors
        columns = np.arange(self.S.shape[1])
        total = np.zeros((columns[left].size, columns[right].size))
        for rows in row_blocks(*self.S.shape):
            part = self.S[rows]
            for _ in range(squarings):
                part = part * part
            b = part[:, right]
            total += part[:, left].T @ (b if u is None else b * u[rows, None].astype(self.dtype, copy=False))
        return total[first, second]

    @cached_property
    def _factors(self) -> tuple[tuple[Any, Indices], tuple[Any, Indices]]:
        """The columns that are first and second factors, and the places of each product's factors among them."""
        right, second = np.unique(self.second, return_inverse=True)
        if len(right) > SECOND_FACTORS_SHARE * self.S.shape[1]:
            return (EVERY, self.first), (EVERY, self.second)  # gathering columns would cost more than it saves
        left, first = np.unique(self.first, return_inverse=True)
        return (left, first), (right, second)
