"""Posed least-squares problems and their solutions, with all that follows from them in closed form.

A posed problem is centred (an unpenalised intercept is `z_0 = 1/sqrt(n)` put in first) and its rows are scaled by the
square roots of their weights, which mean repetitions. A solution is known by a root `K` of the variance matrix,
`A^-1 = K K'` with `A = G'G + diag(alpha)`, and the rows `B = G K`:

    weights  w = K B'y                     residual  r = y - B B'y
    leverage of row i = |b_i|^2            dof = |B|^2 (+ 1 for the intercept)
    covariance of w = sigma^2 K B'B K'     leaving out i: w_i = w - K b_i r_i / (1 - |b_i|^2)

(Orr (4.4) to (4.10), A.5, A.9.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import row_blocks
from termwise.selection.blocks import NO_GAP
from termwise.selection.criteria import CRITERIA, uev

NO_FREEDOM = 1e-8  # share of the degrees of freedom below which the residual says nothing about the noise


@dataclass(frozen=True)
class Rows:
    """How often each sample counts, and whether an intercept is fitted to them."""

    counts: NDArray[np.float64]
    intercept: bool

    @property
    def n(self) -> float:
        """Number of samples, repetitions counted."""
        return float(self.counts.sum())

    @property
    def single(self) -> NDArray[np.float64]:
        """What leaving one sample out removes: one repeat, or all of a row that counts for less than one."""
        return np.minimum(1, self.counts)

    def gap(self, leverage: NDArray[np.float64]) -> NDArray[np.float64]:
        """Leverage gap of a single repeat, from the leverage of the whole (scaled) row without the intercept's."""
        return 1 - self.single * (self.intercept / self.n + leverage / self.counts)


@dataclass(frozen=True)
class Problem:
    """Centred, row-scaled data in float64. Never written to: unless `owned`, G is the caller's array."""

    G: NDArray[np.float64]
    Y: NDArray[np.float64]
    rows: Rows
    G_mean: NDArray[np.float64]
    Y_mean: NDArray[np.float64]
    owned: bool


def pose(G: NDArray, Y: NDArray, counts: NDArray[np.float64], intercept: bool) -> Problem:
    """Centre the columns and scale the rows."""
    given = G
    G, Y = G.astype(np.float64, copy=False), Y.astype(np.float64, copy=False)
    G_mean, Y_mean = np.zeros(G.shape[1]), np.zeros(Y.shape[1])
    if intercept:
        G_mean, Y_mean = (counts @ G) / counts.sum(), (counts @ Y) / counts.sum()
        G, Y = G - G_mean, Y - Y_mean
    if np.any(counts != 1):
        root = np.sqrt(counts)[:, None]
        G, Y = G * root, Y * root
    return Problem(G, Y, Rows(counts, intercept), G_mean, Y_mean, owned=G is not given)


@dataclass(frozen=True)
class Solution:
    """Weights of a posed problem, with what error bars and leave-one-out need."""

    weights: NDArray[np.float64]  # (k, q)
    root: tuple[NDArray[np.float64], ...]  # factors whose product is K, (k, r)
    B: NDArray[np.float64]  # (n, r), rows scaled
    sse: NDArray[np.float64]  # (q,)
    loo: NDArray[np.float64]  # (n, q), leave-one-out residuals, rows scaled
    dof: float
    freedom: float  # n - dof, kept apart because the difference cancels when the fit is nearly exact

    def project(self, g: NDArray) -> NDArray[np.float64]:
        """Rows of `g K` for centred rows g of the chosen columns."""
        return reduce(np.matmul, self.root, g)

    def unit_cov(self) -> NDArray[np.float64]:
        """Covariance of the weights for noise of variance one, `K B'B K'` (Orr A.5)."""
        K = reduce(np.matmul, self.root)
        return K @ (self.B.T @ self.B) @ K.T

    def unit_variances(self) -> NDArray[np.float64]:
        """Its diagonal, without forming the rest."""
        K = reduce(np.matmul, self.root)
        return np.einsum("ij,ij->i", K @ (self.B.T @ self.B), K)


def solve_penalised(problem: Problem, support: NDArray[np.intp], alphas: NDArray[np.float64]) -> Solution:
    """Least squares on some columns with one penalty each, from the triangular factor of `[G; diag(sqrt(alphas))]`.

    Directions the data and the penalties leave undetermined get weight zero.
    """
    whole = len(support) == problem.G.shape[1] and np.array_equal(support, np.arange(len(support)))
    G = problem.G if whole else problem.G[:, support]
    R: Any = np.diag(np.sqrt(alphas))
    for rows in row_blocks(*G.shape):  # a copy of G may not fit
        R = np.linalg.qr(np.vstack([R, G[rows]]), mode="r")
    _, s, Vt = np.linalg.svd(R)
    keep = s > s.max(initial=0) * max(G.shape) * np.finfo(np.float64).eps
    return solution_from_root(problem, G, Vt[keep].T / s[keep])


def solve_orthogonal(problem: Problem, alpha: float | NDArray[np.float64]) -> Solution:
    """Least squares with the weights of the orthogonalised columns penalised, `|y - G w|^2 + alpha |U w|^2` (Orr 7.3).

    The penalty is the same for all columns, or there is one for each.

    With `G = Q R` the orthogonalised columns are those of Q times the diagonal of R, and `A^-1 = K K'` with
    `K = R^-1 diag(r_kk / sqrt(alpha + r_kk^2))`.
    """
    R = np.linalg.qr(problem.G, mode="r")
    diagonal = np.diagonal(R)
    K = np.linalg.solve(R, np.diag(diagonal / np.sqrt(alpha + diagonal**2)))
    return solution_from_root(problem, problem.G, K)


def solution_from_root(problem: Problem, G: NDArray[np.float64], K: NDArray[np.float64]) -> Solution:
    """Return the solution on columns G with `A^-1 = K K'`."""
    return solution_from_factors(problem, K, G @ K)


def solution_from_factors(problem: Problem, K: NDArray[np.float64], B: NDArray[np.float64]) -> Solution:
    """Return the solution with `A^-1 = K K'` and known rows `B = G K`, which may have more digits than the product."""
    Y, rows = problem.Y, problem.rows
    projected = B.T @ Y
    residual = Y - B @ projected
    loo = leave_one_out(residual, rows.gap(np.einsum("ij,ij->i", B, B)), Y)
    dof = float(np.sum(B * B)) + rows.intercept
    sse = np.einsum("ij,ij->j", residual, residual)
    return Solution(K @ projected, (K,), B, sse, loo, dof, rows.n - dof)


def leave_one_out(residual: NDArray, gap: NDArray, Y: NDArray) -> NDArray[np.float64]:
    """`r / leverage_gap`, Orr (5.1).

    Where the gap has rounded to zero, nothing but the row itself determines some weight and the quotient is noise; the
    prediction without it is then taken to be the mean.
    """
    safe = gap > NO_GAP
    return np.where(safe[:, None], residual / np.where(safe, gap, 1.0)[:, None], Y)


def measure(rows: Rows, solution: Solution) -> dict[str, float]:
    """All criteria of a solution, averaged over the outputs."""
    sse = solution.sse.mean()
    loo_sse = np.sum(solution.loo**2) / len(solution.sse)
    return {name: float(f(sse, rows.n - solution.freedom, rows.n, loo_sse)) for name, f in CRITERIA.items()}


def noise_variance(rows: Rows, solution: Solution) -> NDArray[np.float64]:
    """Unbiased estimate of the noise of each output, Orr (4.9).

    A fit that leaves no degrees of freedom says nothing about the noise; its leave-one-out error stands in.
    """
    if solution.freedom > NO_FREEDOM * rows.n:
        return uev(solution.sse, rows.n - solution.freedom, rows.n)
    return np.einsum("ij,ij->j", solution.loo, solution.loo) / rows.n


def jackknife_plus(
    center: NDArray, spread: NDArray, loo: NDArray, counts: NDArray, coverage: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of the jackknife+ interval (Barber, Candes, Ramdas and Tibshirani, 2021) for one output.

    Parameters
    ----------
    center : (m,) predictions of the full fit.
    spread : (m, n) how far leaving sample i out moves prediction m, per unit of leave-one-out residual.
    loo : (n,) leave-one-out residuals.
    counts : (n,) repetitions of each sample.
    coverage : nominal coverage.
    """
    without = center[:, None] - spread * loo
    reach = np.abs(loo)
    miss = (1 - coverage) * (counts.sum() + 1)
    upper = _order_statistic(without + reach, counts, counts.sum() + 1 - miss)
    lower = -_order_statistic(reach - without, counts, counts.sum() + 1 - miss)
    return lower, upper


def _order_statistic(values: NDArray, counts: NDArray, rank: float) -> NDArray[np.float64]:
    """The ceil(rank)-th smallest of each row's values, value i counted `counts[i]` times; infinite beyond the last."""
    rank = float(np.ceil(rank - 1e-9))
    if rank > counts.sum() + 1e-9:
        return np.full(len(values), np.inf)
    if np.all(counts == 1):
        return np.partition(values, int(rank) - 1, axis=1)[:, int(rank) - 1]
    order = np.argsort(values, axis=1)
    reached = np.cumsum(counts[order], axis=1) >= rank - 1e-9
    return values[np.arange(len(values)), order[np.arange(len(values)), np.argmax(reached, axis=1)]]
