"""Rows of the design matrix, however they are stored: everything that is ever asked of G.

A block of rows asks its part of G these questions and no others, so that a dense array of any library, a sparse matrix,
a memory map and functions evaluated on the fly are all the same to the engine. G is never scaled, copied or written to;
answers are in float64. Weights of rows are passed in, None where all are one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from termwise._arrays import (
    Array,
    Rows,
    as_float64,
    as_type,
    at,
    column_squares,
    namespace,
    own_float64,
    precision,
    tiles,
    zeros,
)

EVERY = slice(None)


class Design(ABC):
    """Some rows of G."""

    shape: tuple[int, int]
    dtype: np.dtype  # float32 or float64
    nbytes: int  # of its numbers

    @abstractmethod
    def products(self, u: Array) -> Array:
        """`G' u` for u of shape (n,) or (n, m), in G's own precision."""

    @abstractmethod
    def columns(self, chosen: Array, rows: Rows = EVERY) -> Array:
        """Some rows of some columns, whose numbers or slice are given, as a new array."""

    @abstractmethod
    def squares(self, weights: Array | None) -> Array:
        """`sum w g^2` of every column."""

    @abstractmethod
    def centred_squares(self, weights: Array | None, means: Array) -> Array:
        """`sum w (g - mean)^2` of every column, without cancelling where that is possible."""

    @abstractmethod
    def fourth_powers(self, weights: Array | None, means: Array) -> Array:
        """`sum w^2 (g - mean)^4` of every column, or more."""

    @abstractmethod
    def gram(self, weights: Array | None) -> Array:
        """`G' diag(w) G`."""


class Dense(Design):
    """Rows of an array, of whatever library, or of a memory map."""

    def __init__(self, G: Array) -> None:
        self.G, self.shape, self.dtype = G, G.shape, precision(G.dtype)
        self.nbytes = G.shape[0] * G.shape[1] * self.dtype.itemsize

    def products(self, u: Array) -> Array:
        """`G' u`: the pass over the data."""
        return as_float64(self.G.T @ as_type(u, self.G.dtype))

    def columns(self, chosen: Array, rows: Rows = EVERY) -> Array:
        """Some rows of some columns."""
        sliced = isinstance(rows, slice)
        found = at(self.G[rows, :], chosen, axis=1) if sliced else at(at(self.G, chosen, axis=1), rows)
        return own_float64(found) if isinstance(chosen, slice) else as_float64(found)

    def squares(self, weights: Array | None) -> Array:
        """`sum w g^2`."""
        if weights is None:
            return column_squares(self.G)
        xp, total, root = namespace(self.G), zeros((self.shape[1],), self.G), weights**0.5
        for X, rows, out in tiles(self.G):
            total += column_squares(xp.multiply(X, root[rows, None], **out))
        return total

    def centred_squares(self, weights: Array | None, means: Array) -> Array:
        """`sum w (g - mean)^2`, each number centred before it is squared."""
        total, root = zeros((self.shape[1],), self.G), None if weights is None else weights**0.5
        for X, rows, out in tiles(self.G):
            X = namespace(X).subtract(X, means, **out)
            if root is not None:
                X *= root[rows, None]
            total += column_squares(X)
        return total

    def fourth_powers(self, weights: Array | None, means: Array) -> Array:
        """`sum w^2 (g - mean)^4`."""
        total = zeros((self.shape[1],), self.G)
        for X, rows, out in tiles(self.G):
            X = namespace(X).subtract(X, means, **out)
            X *= X
            if weights is not None:
                X *= weights[rows, None]
            total += column_squares(X)
        return total

    def gram(self, weights: Array | None) -> Array:
        """`G' diag(w) G` by one product."""
        G = self.G if weights is None else self.G * as_type(weights**0.5, self.G.dtype)[:, None]
        return as_float64(G.T @ G)


class Sparse(Design):
    """Rows of a SciPy sparse matrix, by columns."""

    def __init__(self, G: Any) -> None:
        self.G, self.shape, self.dtype, self.nbytes = G, G.shape, G.dtype, G.data.nbytes

    def products(self, u: Array) -> Array:
        """`G' u`."""
        return np.asarray(self.G.T @ u.astype(self.dtype, copy=False), dtype=np.float64)

    def columns(self, chosen: Array, rows: Rows = EVERY) -> Array:
        """Some rows of some columns, made dense."""
        G = self.G[:, chosen]
        G = G if isinstance(rows, slice) and rows == EVERY else G[rows]
        return G.toarray().astype(np.float64, copy=False)

    def squares(self, weights: Array | None) -> Array:
        """`sum w g^2`."""
        return np.asarray(self._powers(2).T @ self._or_ones(weights), dtype=np.float64)

    def centred_squares(self, weights: Array | None, means: Array) -> Array:
        """`sum w (g - mean)^2`, as differences: centred columns would not be sparse."""
        weights = self._or_ones(weights)
        squares, along = self.squares(weights), self.products(weights)
        rounding = 8 * np.finfo(self.dtype).eps * squares  # the differences may be off by this
        return np.maximum(squares - 2 * means * along + means**2 * weights.sum() - rounding, 0)

    def fourth_powers(self, weights: Array | None, means: Array) -> Array:
        """At least `sum w^2 (g - mean)^4`, by the triangle inequality."""
        weights = self._or_ones(weights)
        fourth = np.asarray(self._powers(4).T @ weights**2, dtype=np.float64) ** 0.25
        return (fourth + np.abs(means) * np.sum(weights**2) ** 0.25) ** 4

    def gram(self, weights: Array | None) -> Array:
        """`G' diag(w) G`, made dense."""
        G = self.G
        if weights is not None:
            G = sp.csc_array(G.multiply(np.sqrt(weights).astype(self.dtype)[:, None]))
        return np.asarray((G.T @ G).toarray(), dtype=np.float64)

    def _or_ones(self, weights: Array | None) -> Array:
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
