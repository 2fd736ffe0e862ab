"""Forward selection by the drop of the cost with a minimal state, for the many small paths of a cross-validation.

`State` computes every criterion at every step and accepts rows of any kind. Here only the terms and their predictions
are needed, and for a few hundred samples overhead must stay below the products. With P of the model so far a candidate
g has `c = g'P y` and `s = g'P g`; the next term has the largest `c^2 / (alpha + s)`, Orr (7.7), see `rules.CostRule`,
and its `z = P g / sqrt(alpha + s)` with `t = G'z` leaves `c - t z'y` and `s - t^2`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from termwise._numerics import DEPENDENT_COLUMN, DEPENDENT_COLUMN_FLOAT32, OFFSET_SHARE, ROUNDING_SHARE
from termwise.design import Design, as_design
from termwise.linalg.factor_updates import orthogonalise
from termwise.selection.constraints import Constraints
from termwise.selection.engine import grow
from termwise.selection.rules import CostRule

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class NestedModels:
    """Models with the first 0 to k terms of a path: `G_S - mean = Z R` in rows scaled by the roots of their weights."""

    terms: Indices  # (k,)
    means: Floats  # (k,), of their columns
    R: Floats  # (k, k)
    Z: Floats  # (k, n), one row for each term
    zy: Floats  # (k, q)
    start: Floats  # (q,), the mean of the target
    statistics: tuple[Floats, Floats, int] | None = None  # c, s and the terms they are up to date with, to grow further

    @classmethod
    def from_columns(cls, G: Floats, Y: Floats, sample_weight: Floats, alpha: float) -> Self:
        """Return the models of given columns in their order, by a QR factorisation, the root of the penalty below."""
        (n, k), root, total = G.shape, np.sqrt(sample_weight)[:, None], sample_weight.sum()
        means, start = sample_weight @ G / total, sample_weight @ Y / total
        Q, R = np.linalg.qr(np.vstack([root * (G - means), np.sqrt(alpha) * np.eye(k)]))
        return cls(np.arange(k), means, R, Q[:n].T, Q[:n].T @ (root * (Y - start)), start)

    def weights(self, k: int) -> tuple[Floats, Floats]:
        """Weights of the first k terms, (k, q), and the intercept, (q,)."""
        weights = sla.solve_triangular(self.R[:k, :k], self.zy[:k], check_finite=False) if k else self.zy[:0]
        return weights, self.start - self.means[:k] @ weights

    def first_rows(self, n: int) -> Self:
        """Return the models with only the first n of their rows, for predictions: columns of Z are not orthogonal."""
        return replace(self, Z=self.Z[:, :n], statistics=None)

    def columns(self, k: int, root: Floats) -> Floats:
        """Columns of the first k terms, (n, k), on the samples of the path."""
        return self.Z[:k].T / root @ self.R[:k, :k] + self.means[:k]

    def fitted(self, k: int, root: Floats) -> Floats:
        """Fitted values of the first k terms on these samples, (n, q)."""
        return self.start + self.Z[:k].T / root @ self.zy[:k]

    def along(self, G: Floats) -> Floats:
        """Predictions with the first 0 to k terms, (k + 1, m, q), for rows of the columns of all terms.

        A model with k terms predicts `y_mean + sum over j <= k of z_j (z_j'y)`, where `z = (g - g_mean) R^-1` are the
        coordinates of a new row.
        """
        path = np.tile(self.start, (len(self.terms) + 1, len(G), 1))
        if len(self.terms):
            z = sla.solve_triangular(self.R, (G - self.means).T, trans="T", check_finite=False)
            path[1:] += np.cumsum(z[:, :, None] * self.zy[:, None, :], axis=0)
        return path


def nested_path(
    G: Any,
    Y: Floats,
    sample_weight: Floats,
    alpha: float,
    max_terms: int,
    constraints: Constraints | None = None,
    before: NestedModels | None = None,
) -> NestedModels:
    """Choose up to `max_terms` terms for targets, (n, q), from candidates in an array or a `Design`.

    Models `before`, of the same rows and targets, are continued unless there are constraints.
    """
    columns, shift = centred_columns(as_design(G), sample_weight)
    start = sample_weight @ Y / sample_weight.sum()
    state = NestedState(columns, np.sqrt(sample_weight)[:, None] * (Y - start), alpha, max_terms, constraints)
    if before is not None and constraints is None:
        state.resume(before)
    grow(state, CostRule(minimum=0.0), state.limit_reached)
    k, terms = len(state.chosen), np.array(state.chosen, dtype=np.intp)
    Z, statistics = state.Z[:k, : len(Y)], (state.c, state.s, state.refreshed)
    return NestedModels(terms, (columns.means + shift)[terms], state.R[:k, :k], Z, state.zy[:k], start, statistics)


class CentredColumns(NamedTuple):
    """Candidates, centred and with rows scaled by the roots of their weights."""

    design: Design
    root: Floats | None  # (n,), None if all weights are one
    means: Floats  # (p,)
    norms: Floats  # (p,), squares; zero for constant columns


def centred_columns(design: Design, sample_weight: Floats, intercept: bool = True) -> tuple[CentredColumns, Floats]:
    """Centre the candidates; those with a large mean are replaced by their difference from the `shift` returned, (p,).

    Columns that vary by less than their rounding count as constant. Without an intercept nothing is centred.
    `State._set_up_candidates` does the same for columns in blocks of rows.
    """
    n, weighted = sample_weight.sum(), bool(np.any(sample_weight != 1))
    means = design.products(sample_weight) / n if intercept else np.zeros(design.shape[1])
    norms = design.power_sums(2, sample_weight if weighted else None, means)
    rounding, shift = n * (ROUNDING_SHARE[design.dtype] * means) ** 2, np.zeros_like(means)
    offset = norms < OFFSET_SHARE[design.dtype] * n * means**2
    if offset.any():  # products with such a column would lose digits
        shift[offset] = means[offset].astype(design.dtype)  # what is subtracted
        design = design.shifted(shift)
        means = design.products(sample_weight) / n
        norms = design.power_sums(2, sample_weight if weighted else None, means)
    norms[norms <= rounding] = 0.0
    return CentredColumns(design, np.sqrt(sample_weight) if weighted else None, means, norms), shift


class Fetched(NamedTuple):
    """Candidates that were fetched."""

    numbers: Indices


def fetch_in_memory(candidates: Indices, *values: Floats) -> tuple[Fetched, Any]:
    """The candidates and values of a state in memory, which need no transfer."""
    return Fetched(candidates), values


class NestedState:
    """Z, R, `Z'Y`, c and s of a growing model in memory; Y is centred, its rows scaled.

    The penalty alpha is the same for all candidates, or there is one for each, (p,).
    """

    fetch_candidates = staticmethod(fetch_in_memory)

    def __init__(
        self,
        columns: CentredColumns,
        Y: Floats,
        alpha: float | Floats,
        max_terms: int,
        constraints: Constraints | None = None,
    ) -> None:
        self.columns, self.Y, self.alpha = columns, Y, np.broadcast_to(alpha, columns.norms.shape)
        self.constraints = constraints
        self.T = np.zeros((0 if constraints is None else max_terms, len(columns.norms)))  # `Z'G`, for these alone
        products = columns.design.products(Y if columns.root is None else columns.root[:, None] * Y)
        self.c = np.array(products, order="F")  # (p, q), `g'P y` of every candidate
        tol = DEPENDENT_COLUMN if columns.design.dtype == np.float64 else DEPENDENT_COLUMN_FLOAT32
        self.s, self.least = columns.norms.copy(), tol * columns.norms
        self.Z, self.R = np.zeros((max_terms, len(Y) + max_terms)), np.zeros((max_terms, max_terms))
        self.zy = np.zeros((max_terms, Y.shape[1]))
        self.chosen: list[int] = []
        self.refreshed = 0  # terms that c and s are up to date with

    def resume(self, models: NestedModels) -> None:
        """Continue from models of the same rows: their terms, and the statistics of the candidates.

        Below the samples are the rows of the penalty, where `Z R` is diagonal with the roots of alpha.
        """
        k, n = len(models.terms), len(self.Y)
        if not k or models.statistics is None:
            return
        self.R[:k, :k], self.zy[:k], self.Z[:k, :n] = models.R, models.zy, models.Z
        inverse = sla.solve_triangular(models.R, np.eye(k), check_finite=False)
        self.Z[:k, n : n + k] = (np.sqrt(self.alpha[models.terms])[:, None] * inverse).T
        c, s, self.refreshed = models.statistics
        self.c[...], self.s, self.chosen = c, s.copy(), models.terms.tolist()

    def limit_reached(self) -> str:
        """Whether the model has as many terms as it may."""
        return "max_terms reached" if len(self.chosen) >= min(len(self.R), len(self.s)) else ""

    def refresh(self) -> None:
        """Update c and s with the newest term by a pass over G; not after the last term of a path."""
        if self.refreshed < len(self.chosen):
            k, root = self.refreshed, self.columns.root
            z = self.Z[k, : len(self.Y)]
            t = self.columns.design.products(z if root is None else root * z)
            self.T[k : k + 1] = t
            self.c -= (self.zy[k][:, None] * t).T
            self.s -= t * t
            self.s[self.chosen[k]] = 0.0
            self.refreshed += 1
        self.eligible = self.s > self.least
        self.den = np.where(self.eligible, self.alpha + self.s, 1.0)
        if self.constraints is not None:
            k = self.refreshed
            model = self.R[:k, :k], self.zy[:k], self.T[:k]
            self.eligible &= self.constraints.eligible(self.chosen, self.c, self.den, *model)

    def append(self, j: int) -> bool:
        """Append candidate j, with the root of the penalty below it; exclude it if it depends on the others."""
        k, n, (design, root, means, _) = len(self.chosen), len(self.Y), self.columns
        Z, x = self.Z[:k, : n + k + 1], np.zeros(n + k + 1)
        np.subtract(design.columns(slice(j, j + 1))[:, 0], means[j], out=x[:n])
        if root is not None:
            x[:n] *= root
        x[n + k] = np.sqrt(self.alpha[j])
        along = orthogonalise(x, Z)
        if x[:n] @ x[:n] <= self.least[j]:
            self.s[j] = 0.0
            return False
        length = np.sqrt(x @ x)
        self.R[:k, k], self.R[k, k], self.Z[k, : n + k + 1] = along, length, x / length
        self.zy[k] = self.Z[k, :n] @ self.Y
        self.chosen.append(j)
        return True
