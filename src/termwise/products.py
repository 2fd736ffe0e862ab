"""Products of two columns that are never stored: everything the engine asks of all of them is a matrix product.

For the products `g = a b` of any two of m columns S, and a weight u for every row,

    sum u g = sum u a b = (S' diag(u) S)_ab

so that one pass over all p = m^2 / 2 candidates reads n m numbers instead of n p, and works in the caches.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import row_blocks
from termwise.design import EVERY, Design

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

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
            return self._sums(self.S, u)
        return np.column_stack([self._sums(self.S, column) for column in u.T])

    def columns(self, chosen: Any, rows: Any = EVERY) -> Floats:
        """Some rows of some products."""
        S = self.S[rows]
        G = S[:, self.first[chosen]].astype(np.float64)
        G *= S[:, self.second[chosen]]
        return G

    def squares(self, weights: Floats | None) -> Floats:
        """`sum w a^2 b^2`."""
        return self._sums(self.S * self.S, weights)

    def centred_squares(self, weights: Floats | None, means: Floats) -> Floats:
        """`sum w (g - mean)^2` as a difference of sums, from the very column where that would cancel."""
        w = np.ones(len(self.S)) if weights is None else weights
        raw = self.squares(weights)
        centred = raw - 2 * means * self._sums(self.S, w) + means**2 * w.sum()
        for j in np.flatnonzero(centred < SAFE * raw):
            centred[j] = w @ (self.columns(slice(j, j + 1))[:, 0] - means[j]) ** 2
        return centred

    def fourth_powers(self, weights: Floats | None, means: Floats) -> Floats:
        """At least `sum w^2 (g - mean)^4`, by the triangle inequality."""
        w = np.ones(len(self.S)) if weights is None else weights
        fourth = np.maximum(self._sums(self.S**4, w * w), 0) ** 0.25
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

    def _sums(self, S: NDArray, u: Floats | None) -> Floats:
        """`sum u a b` of all products, over strips of rows that stay in the caches."""
        total = np.zeros((S.shape[1], S.shape[1]))
        for rows in row_blocks(*S.shape):
            part = S[rows]
            total += part.T @ (part if u is None else part * u[rows, None].astype(S.dtype, copy=False))
        return total[self.first, self.second]
