"""Rows of the design matrix, however they are stored: everything that is ever asked of G.

A block of rows asks its part of G these questions and no others, so that a dense array, a sparse matrix, a memory map
and functions evaluated on the fly are all the same to the engine. G is never scaled, copied or written to; answers are
in float64. Weights of rows are passed in, None where all are one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from termwise._arrays import row_blocks

Floats = NDArray[np.float64]
Rows = slice | NDArray[np.intp]

EVERY = slice(None)


class Design(ABC):
    """Some rows of G."""

    shape: tuple[int, int]
    dtype: np.dtype
    nbytes: int  # of its numbers

    @abstractmethod
    def products(self, u: Floats) -> Floats:
        """`G' u` for u of shape (n,) or (n, m), in G's own precision."""

    @abstractmethod
    def columns(self, chosen: NDArray[np.intp] | slice, rows: Rows = EVERY) -> Floats:
        """Some rows of some columns, as a new array."""

    @abstractmethod
    def squares(self, weights: Floats | None) -> Floats:
        """`sum w g^2` of every column."""

    @abstractmethod
    def centred_squares(self, weights: Floats | None, means: Floats) -> Floats:
        """`sum w (g - mean)^2` of every column, without cancelling where that is possible."""

    @abstractmethod
    def fourth_powers(self, weights: Floats | None, means: Floats) -> Floats:
        """`sum w^2 (g - mean)^4` of every column, or more."""

    @abstractmethod
    def gram(self, weights: Floats | None) -> Floats:
        """`G' diag(w) G`."""


class Dense(Design):
    """Rows of an array or of a memory map."""

    def __init__(self, G: NDArray) -> None:
        self.G, self.shape, self.dtype, self.nbytes = G, G.shape, G.dtype, G.nbytes

    def products(self, u: Floats) -> Floats:
        """`G' u`: the pass over the data."""
        return np.asarray(self.G.T @ u.astype(self.dtype, copy=False), dtype=np.float64)

    def columns(self, chosen: NDArray[np.intp] | slice, rows: Rows = EVERY) -> Floats:
        """Some rows of some columns."""
        G = self.G[rows][:, chosen] if isinstance(rows, slice) else self.G[:, chosen][rows]
        return np.array(G, dtype=np.float64)

    def squares(self, weights: Floats | None) -> Floats:
        """`sum w g^2`."""
        if weights is None:
            return np.einsum("ij,ij->j", self.G, self.G, dtype=np.float64)
        total, root = np.zeros(self.shape[1]), np.sqrt(weights)[:, None]
        for X, rows in self._tiles():
            np.multiply(self.G[rows], root[rows], out=X)
            total += np.einsum("ij,ij->j", X, X)
        return total

    def centred_squares(self, weights: Floats | None, means: Floats) -> Floats:
        """`sum w (g - mean)^2`, each number centred before it is squared."""
        total, root = np.zeros(self.shape[1]), None if weights is None else np.sqrt(weights)[:, None]
        for X, rows in self._tiles():
            np.subtract(self.G[rows], means, out=X)
            if root is not None:
                X *= root[rows]
            total += np.einsum("ij,ij->j", X, X)
        return total

    def fourth_powers(self, weights: Floats | None, means: Floats) -> Floats:
        """`sum w^2 (g - mean)^4`."""
        total = np.zeros(self.shape[1])
        for X, rows in self._tiles():
            np.subtract(self.G[rows], means, out=X)
            X *= X
            if weights is not None:
                X *= weights[rows, None]
            total += np.einsum("ij,ij->j", X, X)
        return total

    def gram(self, weights: Floats | None) -> Floats:
        """`G' diag(w) G` by one product."""
        G = self.G if weights is None else self.G * np.sqrt(weights).astype(self.dtype)[:, None]
        return np.asarray(G.T @ G, dtype=np.float64)

    def _tiles(self) -> Iterator[tuple[Floats, slice]]:
        """Row tiles, each with room for as many numbers that is used again and again."""
        n, p = self.shape
        room = None
        for rows in row_blocks(n, p):
            room = np.empty((rows.stop - rows.start, p)) if room is None else room
            yield room[: rows.stop - rows.start], rows


class Sparse(Design):
    """Rows of a sparse matrix, by columns."""

    def __init__(self, G: Any) -> None:
        self.G, self.shape, self.dtype, self.nbytes = G, G.shape, G.dtype, G.data.nbytes

    def products(self, u: Floats) -> Floats:
        """`G' u`."""
        return np.asarray(self.G.T @ u.astype(self.dtype, copy=False), dtype=np.float64)

    def columns(self, chosen: NDArray[np.intp] | slice, rows: Rows = EVERY) -> Floats:
        """Some rows of some columns, made dense."""
        G = self.G[:, chosen]
        G = G if isinstance(rows, slice) and rows == EVERY else G[rows]
        return G.toarray().astype(np.float64, copy=False)

    def squares(self, weights: Floats | None) -> Floats:
        """`sum w g^2`."""
        return np.asarray(self._powers(2).T @ self._or_ones(weights), dtype=np.float64)

    def centred_squares(self, weights: Floats | None, means: Floats) -> Floats:
        """`sum w (g - mean)^2`, as differences: centred columns would not be sparse."""
        weights = self._or_ones(weights)
        squares, along = self.squares(weights), self.products(weights)
        rounding = 8 * np.finfo(self.dtype).eps * squares  # the differences may be off by this
        return np.maximum(squares - 2 * means * along + means**2 * weights.sum() - rounding, 0)

    def fourth_powers(self, weights: Floats | None, means: Floats) -> Floats:
        """At least `sum w^2 (g - mean)^4`, by the triangle inequality."""
        weights = self._or_ones(weights)
        fourth = np.asarray(self._powers(4).T @ weights**2, dtype=np.float64) ** 0.25
        return (fourth + np.abs(means) * np.sum(weights**2) ** 0.25) ** 4

    def gram(self, weights: Floats | None) -> Floats:
        """`G' diag(w) G`, made dense."""
        G = self.G
        if weights is not None:
            G = sp.csc_array(G.multiply(np.sqrt(weights).astype(self.dtype)[:, None]))
        return np.asarray((G.T @ G).toarray(), dtype=np.float64)

    def _or_ones(self, weights: Floats | None) -> Floats:
        return np.ones(self.shape[0]) if weights is None else weights

    def _powers(self, exponent: int) -> Any:
        """G with its entries raised to a power, its pattern shared."""
        data = self.G.data.astype(np.float64) ** exponent
        return sp.csc_array((data, self.G.indices, self.G.indptr), shape=self.shape)


def as_design(G: Any) -> Design:
    """Return rows of G as a design, whatever they are stored in."""
    if isinstance(G, Design):
        return G
    return Sparse(G) if sp.issparse(G) else Dense(G)
