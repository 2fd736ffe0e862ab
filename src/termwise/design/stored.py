"""Design matrices that are stored: dense arrays of any library, memory maps, SciPy sparse matrices."""

from __future__ import annotations

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
from termwise._numerics import SUM_ROUNDING_ULPS
from termwise.design import EVERY, Design, fourth_power_bound


class Dense(Design):
    """Rows of an array of any library, or of a memory map."""

    G: Array

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
        """`sum w (g - mean)^2`, each entry centred before it is squared."""
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
    """Rows of a SciPy sparse matrix, stored by columns."""

    def __init__(self, G: Any) -> None:
        self.G, self.shape, self.dtype, self.nbytes = G, G.shape, G.dtype, G.data.nbytes

    def products(self, u: Array) -> Array:
        """`G' u`."""
        return np.asarray(self.G.T @ u.astype(self.dtype, copy=False), dtype=np.float64)

    def columns(self, chosen: Array, rows: Rows = EVERY) -> Array:
        """Some rows of some columns, as a dense array."""
        G = self.G[:, chosen]
        G = G if isinstance(rows, slice) and rows == EVERY else G[rows]
        return G.toarray().astype(np.float64, copy=False)

    def squares(self, weights: Array | None) -> Array:
        """`sum w g^2`."""
        return self._power_sums(2, np.ones(self.shape[0]) if weights is None else weights)

    def centred_squares(self, weights: Array | None, means: Array) -> Array:
        """`sum w (g - mean)^2`, as differences of sums: centred columns would not be sparse."""
        weights = np.ones(self.shape[0]) if weights is None else weights
        squares, sums = self._power_sums(2, weights), self.products(weights)
        rounding = SUM_ROUNDING_ULPS * np.finfo(self.dtype).eps * squares
        return np.maximum(squares - 2 * means * sums + means**2 * weights.sum() - rounding, 0)

    def fourth_powers(self, weights: Array | None, means: Array) -> Array:
        """At least `sum w^2 (g - mean)^4`."""
        weights = np.ones(self.shape[0]) if weights is None else weights
        return fourth_power_bound(self._power_sums(4, weights**2), weights, means)

    def gram(self, weights: Array | None) -> Array:
        """`G' diag(w) G`, as a dense array."""
        G = self.G
        if weights is not None:
            G = sp.csc_array(G.multiply(np.sqrt(weights).astype(self.dtype)[:, None]))
        return np.asarray((G.T @ G).toarray(), dtype=np.float64)

    def _power_sums(self, exponent: int, weights: Array) -> Array:
        """`sum w g^exponent` of every column; the pattern of G is shared."""
        powers = self.G.data.astype(np.float64) ** exponent
        shared = sp.csc_array((powers, self.G.indices, self.G.indptr), shape=self.shape)
        return np.asarray(shared.T @ weights, dtype=np.float64)


def as_design(G: Any) -> Design:
    """Return G as a design: a design itself, a sparse matrix or an array."""
    if isinstance(G, Design):
        return G
    return Sparse(G) if sp.issparse(G) else Dense(G)
