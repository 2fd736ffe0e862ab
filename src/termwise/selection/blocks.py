"""Row blocks: a block owns its rows of G, Y, Z, r and the leverage gap, and answers the driver's two questions.

Everything here is for rows scaled by the square roots of their weights, though G itself is never scaled, copied or
written to: a product `G_b' (root * u)` does instead. The column of the intercept, if any, is the first of Z.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from termwise._arrays import row_blocks

Floats = NDArray[np.float64]

NO_GAP = 1e-10  # a leverage gap below this is rounding: the row decides its own fit


class RowBlock:
    """Some rows of the problem and of the growing model."""

    def __init__(self, G: Any, Y: Floats, counts: Floats, reserve: int = 64) -> None:
        self.G, self.counts, self.Y = G, counts, Y * np.sqrt(counts)[:, None]
        self.root = None if np.all(counts == 1) else np.sqrt(counts)
        self.share = np.minimum(1, counts) / counts
        self.r = self.Y.copy()
        self.gap = np.ones(len(Y))
        self._Z = np.empty((len(Y), reserve), order="F")  # touched as it fills
        self.k = 0

    @property
    def n(self) -> float:
        """Number of samples, repetitions counted."""
        return float(len(self.Y)) if self.root is None else float(self.root @ self.root)

    @property
    def Z(self) -> Floats:
        """Columns of the model on these rows."""
        return self._Z[:, : self.k]

    def scale(self, rows: Floats) -> Floats:
        """Multiply rows by the square roots of their weights."""
        return rows if self.root is None else (rows.T * self.root).T

    def products(self, u: Floats) -> Floats:
        """`G_b' u` for scaled rows u of shape (n_b,) or (n_b, m), in G's own precision, returned in float64."""
        u = self.scale(u).astype(self.G.dtype, copy=False)
        return np.asarray(self.G.T @ u, dtype=np.float64)

    def columns(self, chosen: NDArray[np.intp]) -> Floats:
        """Scaled columns of G, in float64."""
        return self.columns_of_rows(slice(None), chosen)

    def columns_of_rows(self, rows: slice, chosen: NDArray[np.intp]) -> Floats:
        """Some rows of some scaled columns, in float64, as a new array."""
        if sp.issparse(self.G):
            G = self.G[:, chosen]
            G = (G if rows == slice(None) else G[rows]).toarray().astype(np.float64, copy=False)
        else:
            G = np.array(self.G[rows][:, chosen], dtype=np.float64)
        return G if self.root is None else G * self.root[rows, None]

    def model_columns(self, chosen: list[int], intercept: int) -> Floats:
        """Columns of the model as they are in G, the intercept's ones first."""
        ones = self.scale(np.ones((len(self.Y), intercept)))
        return np.hstack([ones, self.columns(np.array(chosen, dtype=np.intp))])

    def norms(self) -> Floats:
        """`|g|^2` of every scaled column, in float64."""
        if sp.issparse(self.G):
            return np.asarray(self._powers(2).T @ self.counts, dtype=np.float64)
        G = self.G if self.root is None else self.G * self.root[:, None].astype(self.G.dtype)
        return np.einsum("ij,ij->j", G, G, dtype=np.float64)

    def centred_norms(self, means: Floats) -> Floats:
        """`|g - mean|^2` of every scaled column, in float64."""
        if sp.issparse(self.G):
            return self.weighted_squares(np.ones(len(self.Y)), means)
        squares = np.zeros(self.G.shape[1])
        for X, rows in self._tiles():
            np.subtract(self.G[rows], means, out=X)
            if self.root is not None:
                X *= self.root[rows, None]
            squares += np.einsum("ij,ij->j", X, X)
        return squares

    def gram(self) -> Floats:
        """`G_b' G_b` of the scaled columns."""
        G = self.G
        if self.root is not None:
            root = self.root.astype(G.dtype)[:, None]
            G = sp.csc_array(G.multiply(root)) if sp.issparse(G) else G * root
        product = G.T @ G
        return np.asarray(product.toarray() if sp.issparse(product) else product, dtype=np.float64)

    def weighted_squares(self, a: Floats, means: Floats) -> Floats:
        """`sum a (g - mean)^2` of every scaled column, by row tiles."""
        weights = a if self.root is None else a * self.root**2
        if sp.issparse(self.G):
            squares = np.asarray(self._powers(2).T @ weights, dtype=np.float64)
        else:
            squares, root = np.zeros(self.G.shape[1]), np.sqrt(weights)[:, None]
            for X, rows in self._tiles():
                np.multiply(self.G[rows], root[rows], out=X)
                squares += np.einsum("ij,ij->j", X, X)
        along = np.asarray(self.G.T @ weights.astype(self.G.dtype), dtype=np.float64)
        rounding = 8 * np.finfo(self.G.dtype).eps * squares  # the differences may be off by this
        return np.maximum(squares - 2 * means * along + means**2 * weights.sum() - rounding, 0)

    def fourth_powers(self, means: Floats) -> Floats:
        """`sum (g - mean)^4` of every scaled column, or more (by the triangle inequality) where G is sparse."""
        weights = self.counts
        if sp.issparse(self.G):
            fourth = np.asarray(self._powers(4).T @ weights**2, dtype=np.float64) ** 0.25
            return (fourth + np.abs(means) * np.sum(weights**2) ** 0.25) ** 4
        fourth = np.zeros(self.G.shape[1])
        for X, rows in self._tiles():
            np.subtract(self.G[rows], means, out=X)
            X *= X
            if self.root is not None:
                X *= weights[rows, None]
            fourth += np.einsum("ij,ij->j", X, X)
        return fourth

    def _powers(self, exponent: int) -> Any:
        """Sparse G with its entries raised to a power, its pattern shared."""
        data = self.G.data.astype(np.float64) ** exponent
        return sp.csc_array((data, self.G.indices, self.G.indptr), shape=self.G.shape)

    def _tiles(self) -> Iterator[tuple[Floats, slice]]:
        """Row tiles of dense G, each with room for as many numbers that is used again and again."""
        n, p = self.G.shape
        room = None
        for rows in row_blocks(n, p):
            room = np.empty((rows.stop - rows.start, p)) if room is None else room
            yield room[: rows.stop - rows.start], rows

    def append(self, x: Floats, length: float, c: Floats, den: float) -> None:
        """Take in a column: Z grows by `x / length`, the residual and the leverage gap shrink by `x c / den`."""
        if self.k == self._Z.shape[1]:
            grown = np.empty((len(x), self.k + max(64, self.k // 2)), order="F")
            grown[:, : self.k] = self.Z
            self._Z = grown
        np.divide(x, length, out=self._Z[:, self.k])
        self.k += 1
        self.r -= np.outer(x, c / den)
        self.gap -= self.share * (x * x) / den

    def without_newest(self, zy: Floats) -> RowBlock:
        """The same rows without the newest column z of the model; `zy` is `z'Y` over all blocks."""
        other, z = copy.copy(self), self.Z[:, -1]
        other.k = self.k - 1
        other.r, other.gap = self.r + np.outer(z, zy), self.gap + self.share * (z * z)
        return other

    def replace(self, Z: Floats, zy: Floats) -> None:
        """Put other columns in place of the model's: the penalty has changed."""
        self._Z, self.k = np.asfortranarray(Z), Z.shape[1]
        self.r = self.Y - Z @ zy
        self.gap = 1 - self.share * np.einsum("ij,ij->i", Z, Z)
