"""What the design matrix G can be: dense, sparse, kernel tiles, products of columns, rows of a file; one protocol.

The engine accesses its rows of G through the methods of `Design` and no others, so that a dense array of any library, a
sparse matrix, a memory map and functions evaluated on the fly are interchangeable. G is never scaled, copied or written
to; results are in float64. Weights of rows are arguments, None where all are one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from termwise._arrays import Array, Rows, namespace, row_blocks, zeros

EVERY = slice(None)


class Design(ABC):
    """Some rows of G."""

    shape: tuple[int, int]
    dtype: np.dtype  # float32 or float64
    nbytes: int  # of its entries, stored or not

    @abstractmethod
    def products(self, u: Array) -> Array:
        """`G' u` for u of shape (n,) or (n, m), in G's own precision."""

    @abstractmethod
    def columns(self, chosen: Array, rows: Rows = EVERY) -> Array:
        """Some rows of the columns given by their indices or a slice, as a new array."""

    @abstractmethod
    def power_sums(self, power: int, weights: Array | None = None, means: Array | None = None) -> Array:
        """`sum w^(power / 2) (g - mean)^power` of every column, for the power 2 or 4; without means not centred.

        Squares are centred without cancellation where that is possible; centred fourth powers may be an upper bound.
        """

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

    def _centred_sums(self, power: int, sums: Array, weights: Array, means: Array) -> Array:
        """Centre power sums: squares as a difference, fourth powers from above by the triangle inequality."""
        xp = namespace(means)
        if power == 4:
            return (sums**0.25 + xp.abs(means) * xp.sum(weights**2) ** 0.25) ** 4
        return sums - 2 * means * self.products(weights) + means**2 * xp.sum(weights)
