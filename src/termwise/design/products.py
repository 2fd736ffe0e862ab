"""Products of two columns that are never stored: everything the engine asks of all of them is a matrix product.

For the products `g = a b` of any two of m columns S, and a weight u for every row,

    sum u g = sum u a b = (S' diag(u) S)_ab

so that one pass over all p = m^2 / 2 candidates reads n m numbers instead of n p, and works in the caches. Where the
second factors are a few columns only, such as ones for candidates that are columns themselves, only the part of that
matrix which belongs to them is formed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import row_blocks
from termwise.design.stored import EVERY, Design

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FEW = 0.5  # share of the columns that are second factors, up to which the others are left alone
SAFE = 1e-4  # share of a column's square that must be left for a difference of sums to keep twelve digits


class ProductDesign(Design):
    """Column j is the product of two columns of S, number `first[j]` and number `second[j]`."""

    def __init__(self, S: NDArray, first: Indices, second: Indices) -> None:
        self.S, self.first, self.second = S, first, second
        self.shape, self.dtype = (len(S), len(first)), S.dtype
        self.nbytes = len(S) * len(first) * S.dtype.itemsize

    def __getitem__(self, rows: Any) -> Self:
        """Fewer rows, by a slice, a mask or their numbers."""
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

    def squares(self, weights: Floats | None) -> Floats:
        """`sum w a^2 b^2`."""
        return self._sums(weights, squared=1)

    def fourths(self, weights: Floats | None) -> Floats:
        """`sum w a^4 b^4`."""
        return self._sums(weights, squared=2)

    def centred_squares(self, weights: Floats | None, means: Floats) -> Floats:
        """`sum w (g - mean)^2` as a difference of sums, from the very column where that would cancel."""
        w = np.ones(len(self.S)) if weights is None else weights
        raw = self.squares(weights)
        centred = raw - 2 * means * self._sums(w) + means**2 * w.sum()
        for j in np.flatnonzero(centred < SAFE * raw):
            centred[j] = w @ (self.columns(slice(j, j + 1))[:, 0] - means[j]) ** 2
        return centred

    def fourth_powers(self, weights: Floats | None, means: Floats) -> Floats:
        """At least `sum w^2 (g - mean)^4`, by the triangle inequality."""
        w = np.ones(len(self.S)) if weights is None else weights
        fourth = np.maximum(self.fourths(w * w), 0) ** 0.25
        return (fourth + np.abs(means) * np.sum(w * w) ** 0.25) ** 4

    def gram(self, weights: Floats | None) -> Floats:
        """`G' diag(w) G`, from strips of rows."""
        total, root = np.zeros((self.shape[1], self.shape[1])), None if weights is None else np.sqrt(weights)
        for rows in row_blocks(*self.shape):
            G = self.columns(EVERY, rows)
            if root is not None:
                G *= root[rows, None]
            total += G.T @ G
        return total

    def _sums(self, u: Floats | None, squared: int = 0) -> Floats:
        """`sum u a b` of all products, their factors squared so often, over strips of rows that stay in the caches."""
        (left, first), (right, second) = self._factors
        columns = np.arange(self.S.shape[1])
        total = np.zeros((columns[left].size, columns[right].size))
        for rows in row_blocks(*self.S.shape):
            part = self.S[rows]
            for _ in range(squared):
                part = part * part
            b = part[:, right]
            total += part[:, left].T @ (b if u is None else b * u[rows, None].astype(self.dtype, copy=False))
        return total[first, second]

    @cached_property
    def _factors(self) -> tuple[tuple[Any, Indices], tuple[Any, Indices]]:
        """The columns that are first and second factors, and which of them each product has."""
        right, second = np.unique(self.second, return_inverse=True)
        if len(right) > FEW * self.S.shape[1]:
            return (EVERY, self.first), (EVERY, self.second)  # taking columns out would cost more than it saves
        left, first = np.unique(self.first, return_inverse=True)
        return (left, first), (right, second)
