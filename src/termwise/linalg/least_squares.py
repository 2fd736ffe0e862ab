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
from operator import matmul

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    as_float64,
    at,
    at_most,
    column_squares,
    from_host,
    namespace,
    put,
    row_blocks,
    row_products,
    row_squares,
    to_host,
    total,
    triangle,
    zeros,
)
from termwise._numerics import FREEDOM_MIN, LEVERAGE_GAP_MIN
from termwise.linalg.criteria import CRITERIA, uev


@dataclass(frozen=True)
class Rows:
    """How often each sample sample_weight, and whether an intercept is fitted to them."""

    sample_weight: Array
    intercept: bool

    @property
    def n(self) -> float:
        """Number of samples, repetitions counted."""
        return total(self.sample_weight)

    @property
    def single(self) -> Array:
        """What leaving one sample out removes: one repeat, or all of a row that sample_weight for less than one."""
        return at_most(self.sample_weight, 1.0)

    def gap(self, leverage: Array) -> Array:
        """Leverage gap of a single repeat, from the leverage of the whole (scaled) row without the intercept's."""
        return 1 - self.single * (self.intercept / self.n + leverage / self.sample_weight)


@dataclass(frozen=True)
class Problem:
    """Centred, row-scaled data in float64. Never written to: unless `owned`, G is the caller's array."""

    G: Array
    Y: Array
    rows: Rows
    G_mean: Array
    Y_mean: Array
    owned: bool


def pose(G: Array, Y: Array, sample_weight: Array, intercept: bool) -> Problem:
    """Centre the columns and scale the rows."""
    given, n, weighted = G, total(sample_weight), bool(np.any(to_host(sample_weight) != 1))
    G, Y = as_float64(G), as_float64(Y)
    G_mean, Y_mean, sample_weight = zeros((G.shape[1],), G), zeros((Y.shape[1],), G), from_host(sample_weight, G)
    if intercept:
        G_mean, Y_mean = (sample_weight @ G) / n, (sample_weight @ Y) / n
        G, Y = G - G_mean, Y - Y_mean
    if weighted:
        root = (sample_weight**0.5)[:, None]
        G, Y = G * root, Y * root
    return Problem(G, Y, Rows(sample_weight, intercept), G_mean, Y_mean, owned=G is not given)


@dataclass(frozen=True)
class Solution:
    """Weights of a posed problem, with what error bars and leave-one-out need."""

    weights: Array  # (k, q)
    root: tuple[Array, ...]  # factors whose product is K, (k, r)
    B: Array  # (n, r), rows scaled
    sse: NDArray[np.float64]  # (q,)
    loo: Array  # (n, q), leave-one-out residuals, rows scaled
    dof: float
    freedom: float  # n - dof, kept apart because the difference cancels when the fit is nearly exact

    def project(self, g: Array) -> Array:
        """Rows of `g K` for centred rows g of the chosen columns."""
        return reduce(matmul, self.root, g)

    def unit_cov(self) -> Array:
        """Covariance of the weights for noise of variance one, `K B'B K'` (Orr A.5)."""
        K = reduce(matmul, self.root)
        return K @ (self.B.T @ self.B) @ K.T

    def unit_variances(self) -> Array:
        """Its diagonal, without forming the rest."""
        K = reduce(matmul, self.root)
        return row_products(K @ (self.B.T @ self.B), K)


def solve_penalised(problem: Problem, support: NDArray[np.intp], alphas: NDArray[np.float64]) -> Solution:
    """Least squares on some columns with one penalty each, from the triangular factor of `[G; diag(sqrt(alphas))]`.

    Directions the data and the penalties leave undetermined get weight zero.
    """
    whole = len(support) == problem.G.shape[1] and np.array_equal(support, np.arange(len(support)))
    G, R = problem.G if whole else at(problem.G, support, axis=1), np.diag(np.sqrt(alphas))
    for rows in row_blocks(G.shape[0], G.shape[1], G):  # a copy of G may not fit
        R = triangle(namespace(G).concat([from_host(R, G), G[rows, :]]))
    _, s, Vt = np.linalg.svd(R)
    keep = s > s.max(initial=0) * max(G.shape) * np.finfo(np.float64).eps
    return solution_from_root(problem, G, from_host(Vt[keep].T / s[keep], G))


def solve_orthogonal(problem: Problem, alpha: float | NDArray[np.float64]) -> Solution:
    """Least squares with the weights of the orthogonalised columns penalised, `|y - G w|^2 + alpha |U w|^2` (Orr 7.3).

    The penalty is the same for all columns, or there is one for each.

    With `G = Q R` the orthogonalised columns are those of Q times the diagonal of R, and `A^-1 = K K'` with
    `K = R^-1 diag(r_kk / sqrt(alpha + r_kk^2))`.
    """
    R = triangle(problem.G)
    diagonal = np.diagonal(R)
    K = np.linalg.solve(R, np.diag(diagonal / np.sqrt(alpha + diagonal**2)))
    return solution_from_root(problem, problem.G, from_host(K, problem.G))


def solution_from_root(problem: Problem, G: Array, K: Array) -> Solution:
    """Return the solution on columns G with `A^-1 = K K'`."""
    return solution_from_factors(problem, K, G @ K)


def solution_from_factors(problem: Problem, K: Array, B: Array) -> Solution:
    """Return the solution with `A^-1 = K K'` and known rows `B = G K`, which may have more digits than the product."""
    Y, rows = problem.Y, problem.rows
    projected = B.T @ Y
    residual = Y - B @ projected
    leverage = row_squares(B)
    loo = leave_one_out(residual, rows.gap(leverage), Y)
    dof = total(leverage) + rows.intercept
    sse = to_host(column_squares(residual))
    return Solution(K @ projected, (K,), B, sse, loo, dof, rows.n - dof)


def leave_one_out(residual: Array, gap: Array, Y: Array) -> Array:
    """`r / leverage_gap`, Orr (5.1).

    Where the gap has rounded to zero, nothing but the row itself determines some weight and the quotient is noise; the
    prediction without it is then taken to be the mean.
    """
    stuck = gap <= LEVERAGE_GAP_MIN
    return namespace(gap).where(stuck[:, None], Y, residual / put(gap, stuck, 1.0)[:, None])


def measure(rows: Rows, solution: Solution) -> dict[str, float]:
    """All criteria of a solution, averaged over the outputs."""
    sse = solution.sse.mean()
    loo_sse = total(solution.loo**2) / len(solution.sse)
    return {name: float(f(sse, rows.n - solution.freedom, rows.n, loo_sse)) for name, f in CRITERIA.items()}


def noise_variance(rows: Rows, solution: Solution) -> NDArray[np.float64]:
    """Unbiased estimate of the noise of each output, Orr (4.9).

    A fit that leaves no degrees of freedom says nothing about the noise; its leave-one-out error stands in.
    """
    if solution.freedom > FREEDOM_MIN * rows.n:
        return uev(solution.sse, rows.n - solution.freedom, rows.n)
    return to_host(column_squares(solution.loo)) / rows.n


def jackknife_plus(
    center: NDArray, spread: NDArray, loo: NDArray, sample_weight: NDArray, coverage: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of the jackknife+ interval (Barber, Candes, Ramdas and Tibshirani, 2021) for one output.

    Parameters
    ----------
    center : (m,) predictions of the full fit.
    spread : (m, n) how far leaving sample i out moves prediction m, per unit of leave-one-out residual.
    loo : (n,) leave-one-out residuals.
    sample_weight : (n,) repetitions of each sample.
    coverage : nominal coverage.
    """
    without = center[:, None] - spread * loo
    reach = np.abs(loo)
    miss = (1 - coverage) * (sample_weight.sum() + 1)
    upper = _order_statistic(without + reach, sample_weight, sample_weight.sum() + 1 - miss)
    lower = -_order_statistic(reach - without, sample_weight, sample_weight.sum() + 1 - miss)
    return lower, upper


def _order_statistic(values: NDArray, sample_weight: NDArray, rank: float) -> NDArray[np.float64]:
    """The ceil(rank)-th smallest value of each row, with frequency weights; infinite beyond the last."""
    rank = float(np.ceil(rank - 1e-9))
    if rank > sample_weight.sum() + 1e-9:
        return np.full(len(values), np.inf)
    if np.all(sample_weight == 1):
        return np.partition(values, int(rank) - 1, axis=1)[:, int(rank) - 1]
    order = np.argsort(values, axis=1)
    reached = np.cumsum(sample_weight[order], axis=1) >= rank - 1e-9
    return values[np.arange(len(values)), order[np.arange(len(values)), np.argmax(reached, axis=1)]]
