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

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from termwise.selection.blocks import INTERCEPT, Moments, RowBlock
from termwise.selection.executor import Executor
from termwise.selection.path import Training

Floats = NDArray[np.float64]

GRAM_SAFE = 1e-4  # share of a column's square that must be left for G'G to keep twelve digits of t
CONSTANT = 1e-12  # a column that varies by less than this share of its mean is constant but for rounding
ENOUGH = 0.1  # a column that keeps this share of its square is orthogonal to ten ulp after one orthogonalisation


class State:
    """Statistics of all candidates and the factors of the model; the rows are wherever the executor has them."""

    def __init__(
        self,
        rows: Executor,
        alpha: float,
        orthogonal: bool,
        intercept: bool,
        tol: float,
        precompute: bool = False,
        min_norm: float = 0.0,
    ) -> None:
        self.rows, self.alpha, self.orthogonal = rows, alpha, orthogonal
        self.tol, self.min_norm = tol, min_norm
        self.facts = rows.ask(RowBlock.start)
        self.n, self.yy = self.facts.n, self.facts.yy
        self.gram: Floats | None = None
        p, q = rows.n_candidates, rows.n_outputs
        self.c, self.s, self.vv, self.rv = np.zeros((p, q)), np.zeros(p), np.zeros(p), np.zeros((p, q))
        self._T, self.k = np.empty((8, p)), 0
        self.R, self.B, self.zy = np.empty((0, 0)), np.empty((0, 0)), np.empty((0, q))
        self.shrinkage = np.empty(0)
        self.usable = np.ones(p, dtype=bool)
        self.chosen: list[int] = []
        self.rebuilt = 0  # how often the model's columns were replaced
        self.intercept, self.dof, self.cost = int(intercept), 0.0, float(self.yy.sum())
        self.moments: Moments = rows.ask(RowBlock.moments)
        if intercept:
            rest = rows.ask(RowBlock.begin, INTERCEPT, np.empty(0))
            self._take_in(INTERCEPT, np.empty(0), np.empty(0), rest.xx, rest.xy, rest.xr, 0.0)
        self._start(precompute)

    def _start(self, precompute: bool) -> None:
        """Statistics of the model without terms, from centred columns: differences of raw sums would cancel."""
        found = self.rows.ask(RowBlock.survey, precompute)
        self.gram, raw = found.gram if precompute else None, found.squares
        self._T[: self.k], self.c0 = found.along[:, : self.k].T, found.along[:, self.k :]
        self.means = self.T[0] / np.sqrt(self.n) if self.intercept else np.zeros(len(self.s))
        self.norms = raw - self.n * self.means**2
        if np.any(self.norms < GRAM_SAFE * raw):
            self.norms = self.rows.ask(RowBlock.centred_norms, self.means)
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
        return float(self.moments.rr.sum())

    def append(self, j: int) -> bool:
        """Put candidate j into the model; False, and nothing done, if it turns out to depend on the others."""
        column = self.T[:, j].copy()
        below = -self.B @ column
        self.usable[j] = False
        if self.vv[j] > ENOUGH * self.norms[j] and self.rows.dtype == np.float64:  # the statistics have all digits
            self._take_in(j, column, below, self.vv[j], self.c[j].copy(), self.rv[j].copy(), self.alpha, at_once=True)
        else:
            rest = self.rows.ask(RowBlock.begin, j, column)
            if rest.xx < ENOUGH * self.norms[j]:
                again = rest.zx + below @ self.B
                below -= self.B @ again
                column += again
                rest = self.rows.ask(RowBlock.again, again)
            if rest.xx <= self._least[j]:
                return False
            self._take_in(j, column, below, rest.xx, rest.xy, rest.xr, self.alpha)
        self.chosen.append(j)
        self._drop_dependent()
        return True

    def weights(self) -> tuple[Floats, Floats]:
        """Weights of the chosen terms, of shape (k, q), and the intercept, (q,)."""
        return self.training().weights(len(self.chosen))

    def training(self) -> Training:
        """The chosen columns `G_S = Z R`, less their part along the intercept."""
        first, n = self.intercept, np.sqrt(self.n)
        means = self.R[:first, first:].sum(axis=0) / n, self.zy[:first].sum(axis=0) / n
        shrunk = (self.shrinkage[:, None] * self.zy)[first:]
        return Training(self.R[first:, first:], *means, shrunk, self.rows.model_rows(), first)

    def set_alpha(self, alpha: float) -> None:
        """Change the penalty of all terms at once: P must be rebuilt, but `G'G_S = T'R` costs no pass over the data.

        Every block orthogonalises its own rows of the chosen columns; their small factors, and the penalties, are
        orthogonalised here.
        """
        products, self.alpha = self.R.T @ self.T, alpha
        penalties = np.append(np.zeros(self.intercept), np.full(len(self.chosen), alpha))
        chosen = np.array(self.chosen, dtype=np.intp)
        Rs, QYs = zip(*self.rows.each(RowBlock.factor, chosen, self.intercept), strict=True)
        Q, R = np.linalg.qr(np.vstack([*Rs, np.diag(np.sqrt(penalties))]))
        signs = np.copysign(1.0, np.diagonal(R))  # the intercept's column stays positive
        Q, self.R = Q * signs, signs[:, None] * R
        *parts, B = np.split(Q, np.cumsum([len(R) for R in Rs]))
        self.B, first = B[self.intercept :], self.intercept
        self._T[: self.k] = sla.solve_triangular(self.R, products, trans="T")
        self.zy = sum(part.T @ QY for part, QY in zip(parts, QYs, strict=True))
        rows = self.rows.deal(RowBlock.replace, parts, self.zy, first)
        T = self.T[first:]
        squares = np.einsum("ij,ij->j", T, T)
        self.c, self.s = self.c0 - T.T @ self.zy[first:], self.norms - squares
        self.vv = self.s - squares + np.einsum("ij,ij->j", T, rows.zz @ T)
        self.rv = self.c - T.T @ rows.zr
        self.dof, self.cost = rows.leverage, float(self.yy.sum() - np.sum(self.zy**2))
        self.moments, self.rebuilt = rows.moments, self.rebuilt + 1
        self._drop_dependent()

    def _take_in(
        self,
        j: int,
        column: Floats,
        below: Floats,
        vv: float,
        c: Floats,
        xr: Floats,
        alpha: float,
        at_once: bool = False,
    ) -> None:
        """Append a column to the model and bring all statistics up to date.

        The column is the rest of candidate j, that is what is left of it beside `[Z; B] column`: `[x; below]` with the
        products `vv = x'x`, `c = x'Y` and `xr = x'r`. The blocks have begun with it already unless `at_once`.
        """
        s = vv + below @ below
        den = alpha + s
        length = float(np.sqrt(s if self.orthogonal else den))
        look = j != INTERCEPT and (self.gram is None or length**2 < GRAM_SAFE * self.gram[j, j])
        if at_once:
            answer = self.rows.ask(RowBlock.take, j, column, length, c / den, den, look)
        else:
            answer = self.rows.ask(RowBlock.append, length, c / den, den, look)
        self.moments = answer.moments
        t = answer.t if look or j == INTERCEPT else self._products_from_gram(j, column, length)
        zy, zr, zz = c / length, xr / length, vv / length**2
        zv = t + (below / length) @ self.B @ self.T
        self.c -= np.outer(t, zy)
        self.s -= t * t
        if self.orthogonal:
            self.vv, self.rv = self.s.copy(), self.c.copy()
        else:
            self.vv -= 2 * t * zv - t * t * zz
            self.rv -= np.outer(t, zr) + np.outer(zv - t * zz, zy)
        self._grow(column, below, length, t, alpha)
        self.zy = np.vstack([self.zy, zy])
        self.shrinkage = np.append(self.shrinkage, length**2 / den)
        self.dof += float(vv / den)
        self.cost -= float(np.sum(c * c) / den)

    def _grow(self, column: Floats, below: Floats, length: float, t: Floats, alpha: float) -> None:
        """Add the newest column to R and B, and t to T."""
        penalised = 0 if self.orthogonal or not alpha else 1
        m, k = self.B.shape
        B, R = np.zeros((m + penalised, k + 1)), np.zeros((k + 1, k + 1))
        B[:m, :k], B[:m, k], B[m:, k] = self.B, below / length, np.sqrt(alpha) / length
        R[:k, :k], R[:k, k], R[k, k] = self.R, column, length
        if self.k == len(self._T):
            self._T = np.vstack([self._T, np.empty_like(self._T)])
        self._T[self.k] = t
        self.B, self.R, self.k = B, R, self.k + 1

    def _products_from_gram(self, j: int, column: Floats, length: float) -> Floats:
        """`t = G'z` from `G'G`: `z = (g_j - Z column) / length`.

        The difference loses the digits by which z is shorter than g_j: a nearly dependent column takes the pass.
        """
        assert self.gram is not None
        return (self.gram[j] - column @ self.T) / length

    def _drop_dependent(self) -> None:
        """Candidates with nothing new to say are out for good; a penalty keeps s, but not vv, of a copy from zero."""
        self.usable &= self.vv > self._least

    @property
    def _least(self) -> Floats:
        """The square a candidate must have left beside the chosen ones to be of use."""
        return np.maximum(self.tol * self.norms, self.min_norm)
