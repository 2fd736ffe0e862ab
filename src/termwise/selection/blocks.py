"""Row blocks: a block owns its rows of G, Y, Z, r and the leverage gap, and answers the driver's two questions.

Everything here is for rows scaled by the square roots of their weights, though G itself is never scaled, copied or
written to: a product `G_b' (root * u)` does instead. The column of the intercept, if any, is the first of Z.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from termwise._arrays import row_blocks

Floats = NDArray[np.float64]


class RowBlock:
    """Some rows of the problem and of the growing model."""

    def __init__(self, G: Any, Y: Floats, counts: Floats) -> None:
        self.G, self.counts, self.Y = G, counts, Y * np.sqrt(counts)[:, None]
        self.root = None if np.all(counts == 1) else np.sqrt(counts)
        self.share = np.minimum(1, counts) / counts
        self.r = self.Y.copy()
        self.gap = np.ones(len(Y))
        self._Z = np.empty((len(Y), 0), order="F")
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
        G = self.G[rows][:, chosen]
        G = np.array(G.toarray() if sp.issparse(G) else G, dtype=np.float64)
        return G if self.root is None else G * self.root[rows, None]

    def model_columns(self, chosen: list[int], intercept: int) -> Floats:
        """Columns of the model as they are in G, the intercept's ones first."""
        ones = self.scale(np.ones((len(self.Y), intercept)))
        return np.hstack([ones, self.columns(np.array(chosen, dtype=np.intp))])

    def norms(self) -> Floats:
        """`|g|^2` of every column, accumulated in float64."""
        if sp.issparse(self.G):
            squares = self.G.multiply(self.G)
            weights = np.ones(len(self.r)) if self.root is None else self.root**2
            return np.asarray(squares.T @ weights, dtype=np.float64).ravel()
        G = self.G if self.root is None else self.G * self.root[:, None].astype(self.G.dtype)
        return np.einsum("ij,ij->j", G, G, dtype=np.float64)

    def squares(self, a: Floats, means: Floats) -> tuple[Floats, Floats]:
        """`sum a g^2` and `sum g^4` (at least) of every scaled column less its mean, by row tiles."""
        p = self.G.shape[1]
        weights = np.ones(len(a)) if self.root is None else self.root**2
        if sp.issparse(self.G):
            return self._sparse_squares(a * weights, means, weights)
        second, fourth = np.zeros(p), np.zeros(p)
        for rows in row_blocks(len(a), p):
            X = np.subtract(self.G[rows], means, dtype=np.float64)
            X *= X
            if self.root is not None:
                X *= weights[rows, None]
            second += a[rows] @ X
            fourth += np.einsum("ij,ij->j", X, X)
        return second, fourth

    def _sparse_squares(self, a: Floats, means: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """The same without filling in the zeros; the fourth powers by the triangle inequality."""
        squared = self.G.multiply(self.G)
        second = squared.T @ a - 2 * means * (self.G.T @ a) + means**2 * a.sum()
        fourth = (squared.multiply(squared).T @ weights**2) ** 0.25 + np.abs(means) * np.sum(weights**2) ** 0.25
        return np.maximum(np.asarray(second, dtype=np.float64), 0), np.asarray(fourth, dtype=np.float64) ** 4

    def orthogonalise(self, x: Floats, against: Floats) -> Floats:
        """Take `Z against` off a column in place; return `Z' x`, what is left to take off."""
        x -= self.Z @ against
        return x @ self.Z

    def append(self, x: Floats, length: float, c: Floats, den: float) -> None:
        """Take in a column: Z grows by `x / length`, the residual and the leverage gap shrink by `x c / den`."""
        if self.k == self._Z.shape[1]:
            grown = np.empty((len(x), max(8, 2 * self.k)), order="F")
            grown[:, : self.k] = self.Z
            self._Z = grown
        np.divide(x, length, out=self._Z[:, self.k])
        self.k += 1
        self.r -= np.outer(x, c / den)
        self.gap -= self.share * (x * x) / den

    def replace(self, Z: Floats, zy: Floats) -> None:
        """Put other columns in place of the model's: the penalty has changed."""
        self._Z, self.k = np.asfortranarray(Z), Z.shape[1]
        self.r = self.Y - Z @ zy
        self.gap = 1 - self.share * np.einsum("ij,ij->i", Z, Z)
