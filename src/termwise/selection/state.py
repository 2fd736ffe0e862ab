"""What the driver knows of a growing model: O(k p) numbers, whatever the number of rows.

With `v = P g` for a candidate g (P of the model so far, the penalty included) the statistics are

    c = g'P y    s = g'P g    vv = v'v = g'P^2 g    rv = r'v = y'P^2 g    den = alpha + s

and adding the candidate changes `r` by `-v c / den`, the leverage gap by `-v^2 / den`, dof by `vv / den` and the cost
by `-c^2 / den` (Orr (7.5) to (7.7)). A new `z = v / sqrt(alpha + s)` with `t = G'z` updates them in O(p k):

    c -= t z'y    s -= t^2    vv -= 2 t z'v - t^2 z'z    rv -= t z'r + (z'y) z'v - (z'y) t z'z

where `z'v = t - (Z'z)'T`. With `penalty="orthogonal"` (Orr 7.3) the columns of Z are orthonormal whatever alpha is, v
is orthogonal to all of them, `vv = s` and `rv = c`.

The augmented columns `[Z; B]`, `B = sqrt(alpha) R^-1`, are orthonormal: a new column is orthogonalised against them,
twice if the first time took most of it away, and `Z'z = -B'b` costs no pass over the data.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from termwise.selection.blocks import RowBlock
from termwise.selection.directions import Directions
from termwise.selection.path import Training

Floats = NDArray[np.float64]

GRAM_SAFE = 1e-4  # share of a column's square that must be left for G'G to keep twelve digits of t
CONSTANT = 1e-12  # a column that varies by less than this share of its mean is constant but for rounding
ENOUGH = 0.1  # a column that keeps this share of its square is orthogonal to ten ulp after one orthogonalisation


class State:
    """Statistics of all candidates and the factors of the model, over any number of row blocks."""

    def __init__(
        self,
        blocks: Sequence[RowBlock],
        alpha: float,
        orthogonal: bool,
        intercept: bool,
        tol: float,
        precompute: bool = False,
        min_norm: float = 0.0,
    ) -> None:
        self.blocks, self.alpha, self.orthogonal = blocks, alpha, orthogonal
        self.tol, self.min_norm = tol, min_norm
        self.n = float(sum(block.n for block in blocks))
        self.yy = self._sum(lambda block: np.einsum("ij,ij->j", block.Y, block.Y))
        self.gram = self._sum(RowBlock.gram) if precompute else None
        p, q = blocks[0].G.shape[1], blocks[0].Y.shape[1]
        self.c, self.s, self.vv, self.rv = np.zeros((p, q)), np.zeros(p), np.zeros(p), np.zeros((p, q))
        self._T, self.k = np.empty((8, p)), 0
        self.R, self.B, self.zy = np.empty((0, 0)), np.empty((0, 0)), np.empty((0, q))
        self.shrinkage = np.empty(0)
        self.usable = np.ones(p, dtype=bool)
        self.directions = Directions(blocks)
        self.chosen: list[int] = []
        self.intercept, self.dof, self.cost = int(intercept), 0.0, float(self.yy.sum())
        if intercept:
            self._take_in([block.scale(np.ones(len(block.Y))) for block in blocks], np.empty(0), np.empty(0), 0.0)
        self._start()

    def _start(self) -> None:
        """Statistics of the model without terms, from centred columns: differences of raw sums would cancel."""
        self.means = self.T[0] / np.sqrt(self.n) if self.intercept else np.zeros(len(self.s))
        raw = self._sum(RowBlock.norms) if self.gram is None else np.diagonal(self.gram)
        self.norms = raw - self.n * self.means**2
        if np.any(self.norms < GRAM_SAFE * raw):
            self.norms = self._sum(lambda block: block.centred_norms(self.means))
        self.c0 = self._sum(lambda block: block.products(block.r))
        self.c, self.s = self.c0.copy(), self.norms.copy()
        self.vv, self.rv = self.norms.copy(), self.c0.copy()
        self.usable &= self.norms > self.n * (CONSTANT * self.means) ** 2
        self._drop_dependent()

    @property
    def T(self) -> Floats:
        """`Z' G`."""
        return self._T[: self.k]

    @property
    def den(self) -> Floats:
        """`alpha + s` of every candidate; one where it is of no use."""
        return np.where(self.usable, self.alpha + self.s, 1.0)

    @property
    def sse(self) -> float:
        """Sum of squared errors, over all outputs."""
        return float(sum(np.sum(block.r**2) for block in self.blocks))

    def append(self, j: int) -> bool:
        """Put candidate j into the model; False, and nothing done, if it turns out to depend on the others."""
        xs = [block.columns(np.array([j]))[:, 0] for block in self.blocks]
        column, below = self.T[:, j].copy(), np.zeros(len(self.B))
        self._take_off(xs, below, column)
        if sum(x @ x for x in xs) < ENOUGH * self.norms[j]:
            again = self._left_over(xs, below)
            self._take_off(xs, below, again)
            column += again
        self.usable[j] = False
        if sum(x @ x for x in xs) <= self._least[j]:
            return False
        self._take_in(xs, below, column, self.alpha, j)
        self.chosen.append(j)
        self._drop_dependent()
        return True

    def weights(self) -> tuple[Floats, Floats]:
        """Weights of the chosen terms, of shape (k, q), and the intercept, (q,)."""
        return self.training().weights(len(self.chosen))

    def training(self) -> Training:
        """The chosen columns `G_S = Z R`, less their part along the intercept."""
        first, n = self.intercept, np.sqrt(self.n)
        Z = self.blocks[0].Z if len(self.blocks) == 1 else np.vstack([b.Z for b in self.blocks])
        counts = np.concatenate([b.counts for b in self.blocks])
        Y = np.vstack([b.Y for b in self.blocks]) - Z[:, :first] @ self.zy[:first]
        means = self.R[:first, first:].sum(axis=0) / n, self.zy[:first].sum(axis=0) / n
        shrunk = (self.shrinkage[:, None] * self.zy)[first:]
        return Training(Z[:, first:], self.R[first:, first:], Y, counts, *means, shrunk)

    def set_alpha(self, alpha: float) -> None:
        """Change the penalty of all terms at once: P must be rebuilt, but `G'G_S = T'R` costs no pass over the data."""
        products, self.alpha = self.R.T @ self.T, alpha
        penalties = np.append(np.zeros(self.intercept), np.full(len(self.chosen), alpha))
        H = np.vstack([block.model_columns(self.chosen, self.intercept) for block in self.blocks])
        Q, self.R = np.linalg.qr(np.vstack([H, np.diag(np.sqrt(penalties))]))
        Z, self.B = Q[: len(H)], Q[len(H) + self.intercept :]
        self._T[: self.k] = sla.solve_triangular(self.R, products, trans="T")
        self.zy = Z.T @ np.vstack([block.Y for block in self.blocks])
        start = 0
        for block in self.blocks:
            block.replace(Z[start : start + len(block.Y)], self.zy)
            start += len(block.Y)
        first = self.intercept
        T, zr = self.T[first:], self._sum(lambda block: block.Z[:, first:].T @ block.r)
        squares = np.einsum("ij,ij->j", T, T)
        self.c, self.s = self.c0 - T.T @ self.zy[first:], self.norms - squares
        self.vv = self.s - squares + np.einsum("ij,ij->j", T, (Z[:, first:].T @ Z[:, first:]) @ T)
        self.rv = self.c - T.T @ zr
        self.dof, self.cost = float(np.sum(Z * Z)), float(self.yy.sum() - np.sum(self.zy**2))
        self.directions.forget()
        self._drop_dependent()

    def move_to_end(self, position: int) -> None:
        """Make a term the newest one: the model stays (for `penalty="weights"`), its factors are those of that order.

        R with its column at the end is Q times a triangle, Q orthogonal: turning Z, B, T and zy by Q costs no digits.
        """
        place = self.intercept + position
        Q, R = np.linalg.qr(np.hstack([self.R[:, :place], self.R[:, place + 1 :], self.R[:, place : place + 1]]))
        signs = np.where(np.diagonal(R) < 0, -1.0, 1.0)
        Q, self.R = Q * signs, R * signs[:, None]
        for block in self.blocks:
            block.Z[:] = block.Z @ Q
        B = self.B @ Q
        self.B = np.vstack([B[:position], B[position + 1 :], B[position : position + 1]])
        self._T[: self.k], self.zy = Q.T @ self.T, Q.T @ self.zy
        self.chosen.append(self.chosen.pop(position))

    def without_newest(self) -> State:
        """The model without its newest term, from the factors alone: `vv = s - |B T|^2`, `rv = c - T'B'B zy`.

        Both share their columns: appending to one spoils the other, which otherwise stays as it is.
        """
        other, first = copy.copy(self), self.intercept
        other.blocks = [block.without_newest(self.zy[-1]) for block in self.blocks]
        other.k, other.chosen, other.R, other.B = self.k - 1, self.chosen[:-1], self.R[:-1, :-1], self.B[:-1, :-1]
        other.zy, other.shrinkage = self.zy[:-1], self.shrinkage[:-1]
        T, BT = other.T[first:], other.B @ other.T
        other.c, other.s = self.c0 - T.T @ other.zy[first:], self.norms - np.einsum("ij,ij->j", T, T)
        other.vv = other.s - np.einsum("ij,ij->j", BT, BT)
        other.rv = other.c - BT.T @ (other.B @ other.zy)
        other.dof, other.cost = other.k - float(np.sum(other.B**2)), float(self.yy.sum() - np.sum(other.zy**2))
        other.usable = self.norms > self.n * (CONSTANT * self.means) ** 2
        other.usable[other.chosen] = False
        other.directions = Directions(other.blocks)
        other._drop_dependent()
        return other

    def _sum(self, part: Callable[..., Any], *columns: Sequence[Floats]) -> Any:
        """Add up what the blocks answer: the map and the reduction."""
        total = None
        for answers in zip(self.blocks, *columns, strict=True):
            answer = part(*answers)
            total = answer if total is None else total + answer
        return total

    def _take_off(self, xs: list[Floats], below: Floats, amounts: Floats) -> None:
        """Take `[Z; B] amounts` off an augmented column, in place."""
        below -= self.B @ amounts
        for block, x in zip(self.blocks, xs, strict=True):
            x -= block.Z @ amounts

    def _left_over(self, xs: list[Floats], below: Floats) -> Floats:
        """What rounding has left of an augmented column along `[Z; B]`."""
        return self._sum(lambda block, x: x @ block.Z, xs) + below @ self.B

    def _take_in(self, xs: list[Floats], below: Floats, column: Floats, alpha: float, j: int | None = None) -> None:
        """Append an orthogonalised column to the model and bring all statistics up to date."""
        vv, c = self._sum(lambda block, x: x @ x, xs), self._sum(lambda block, x: x @ block.Y, xs)
        zr = self._sum(lambda block, x: x @ block.r, xs)
        s = vv + below @ below
        den = alpha + s
        length = np.sqrt(s if self.orthogonal else den)
        for block, x in zip(self.blocks, xs, strict=True):
            block.append(x, length, c, den)
        t = self._products_with_newest(column, length, j)
        zy, zr, zz = c / length, zr / length, vv / length**2
        overlap = (below / length) @ self.B @ self.T
        zv = t + overlap
        self.directions.update(overlap)
        self.c -= np.outer(t, zy)
        self.s -= t * t
        if self.orthogonal:
            self.vv, self.rv = self.s.copy(), self.c.copy()
        else:
            self.vv -= 2 * t * zv - t * t * zz
            self.rv -= np.outer(t, zr) + np.outer(zv - t * zz, zy)
        penalised = 0 if self.orthogonal or not alpha else 1
        m, k = self.B.shape
        B, R = np.zeros((m + penalised, k + 1)), np.zeros((k + 1, k + 1))
        B[:m, :k], B[:m, k], B[m:, k] = self.B, below / length, np.sqrt(alpha) / length
        R[:k, :k], R[:k, k], R[k, k] = self.R, column, length
        if self.k == len(self._T):
            self._T = np.vstack([self._T, np.empty_like(self._T)])
        self._T[self.k] = t
        self.B, self.R, self.k = B, R, self.k + 1
        self.zy = np.vstack([self.zy, zy])
        self.shrinkage = np.append(self.shrinkage, length**2 / den)
        self.dof += float(vv / den)
        self.cost -= float(np.sum(c * c) / den)

    def _products_with_newest(self, column: Floats, length: float, j: int | None) -> Floats:
        """`t = G'z` by one pass over G, or from `G'G`: `z = (g_j - Z column) / length`.

        The difference loses the digits by which z is shorter than g_j: a nearly dependent column takes the pass.
        """
        if self.gram is None or j is None or length**2 < GRAM_SAFE * self.gram[j, j]:
            return self._sum(lambda block: block.products(block.Z[:, -1]))
        return (self.gram[j] - column @ self.T) / length

    def _drop_dependent(self) -> None:
        """Candidates with nothing new to say are out for good; a penalty keeps s, but not vv, of a copy from zero."""
        self.usable &= self.vv > self._least

    @property
    def _least(self) -> Floats:
        """The square a candidate must have left beside the chosen ones to be of use."""
        return np.maximum(self.tol * self.norms, self.min_norm)
