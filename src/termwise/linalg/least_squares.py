"""Least squares on a centred, row-scaled design matrix, with all that follows from a solution in closed form.

Columns are centred (an unpenalised intercept is `z_0 = 1/sqrt(n)` put in first) and rows are scaled by the square roots
of their frequency weights. A solution is given by a root `K` of the variance matrix, `A^-1 = K K'` with
`A = G'G + diag(alpha)`, and the rows `B = G K`:

    weights  w = K B'y                     residual  r = y - B B'y
    leverage of row i = |b_i|^2            dof = |B|^2 (+ 1 for the intercept)
    covariance of w = sigma^2 K B'B K'     weights without sample i: w - K b_i r_i / (1 - |b_i|^2)

(Orr (4.4) to (4.10), appendices A.5 and A.9.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
    moved,
    namespace,
    precision,
    put,
    put_at,
    row_blocks,
    row_products,
    row_squares,
    to_host,
    total,
    triangle,
    zeros,
)
from termwise._numerics import (
    COLUMN_SPREAD_MAX,
    EQUAL_ENTRIES_ULPS,
    FEW_DIGITS,
    FREEDOM_MIN,
    LEVERAGE_GAP_MIN,
    ROUNDING_SHARE,
)
from termwise.linalg.criteria import CRITERIA, uev


@dataclass(frozen=True)
class WeightedRows:
    """Frequency weights of the samples, and whether the model has an intercept."""

    sample_weight: Array
    intercept: bool

    @property
    def n(self) -> float:
        """Number of samples: the sum of their weights."""
        return total(self.sample_weight)

    @property
    def single(self) -> Array:
        """The part of each weight that leave-one-out removes: one repeat, or all of a weight below one."""
        return at_most(self.sample_weight, 1.0)

    def gap(self, leverage: Array) -> Array:
        """Leverage gap of a single repeat, from the leverage of the whole (scaled) row without the intercept's."""
        return 1 - self.single * (self.intercept / self.n + leverage / self.sample_weight)


@dataclass(frozen=True)
class Problem:
    """Centred, row-scaled data in float64. Never written to: unless `owned`, G is the caller's array."""

    G: Array
    Y: Array
    rows: WeightedRows
    G_mean: Array
    Y_mean: Array
    owned: bool
    rounding: Array | None = None  # (p,), length of each column that rounding of its entries may account for
    unresolved: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))  # columns of few digits


def least_squares_problem(G: Array, Y: Array, sample_weight: Array, intercept: bool) -> Problem:
    """Return a problem with centred columns and scaled rows; columns that are constant but for rounding become zero.

    What centring leaves of a column is compared with the column as it was given, whose precision limits its digits.
    """
    given, weighted, dtype = G, bool(np.any(to_host(sample_weight) != 1)), precision(G.dtype)
    G, Y = as_float64(G), as_float64(Y)
    rows = WeightedRows(from_host(sample_weight, G), intercept)
    G_mean, Y_mean = zeros((G.shape[1],), G), zeros((Y.shape[1],), G)
    rest = G_mean
    if intercept:
        G_mean, Y_mean = ((rows.sample_weight @ M) / rows.n for M in (G, Y))
        G, Y = G - G_mean, Y - Y_mean
        rest = (rows.sample_weight @ G) / rows.n  # rounding of a mean that is large beside the standard deviation
        G -= rest
        G_mean = G_mean + rest
    if weighted:
        root = (rows.sample_weight**0.5)[:, None]
        G, Y = G * root, Y * root
    squares, unresolved = column_squares(G), np.empty(0, dtype=np.intp)
    rounding = ROUNDING_SHARE[dtype] * (squares + rows.n * G_mean**2) ** 0.5
    few = np.flatnonzero(to_host(squares <= (FEW_DIGITS * rounding) ** 2)) if intercept else unresolved
    if len(few):
        equal = (EQUAL_ENTRIES_ULPS * float(np.finfo(np.float64).eps)) ** 2 * rows.n * rest**2
        unresolved = np.intersect1d(few, np.flatnonzero(to_host(squares > equal)))
        G = put(G, (squares <= rounding**2)[None, :], 0.0)
    return Problem(G, Y, rows, G_mean, Y_mean, G is not given, rounding, unresolved)


@dataclass(frozen=True)
class Solution:
    """Weights of a least-squares problem, with the factors for error bars and leave-one-out."""

    weights: Array  # (k, q)
    factors: tuple[Array, ...]  # whose product is K, (k, r)
    B: Array  # (n, r), rows scaled
    sse: NDArray[np.float64]  # (q,)
    loo: Array  # (n, q), leave-one-out residuals, rows scaled
    dof: float
    freedom: float  # n - dof, stored because the difference cancels when the fit is nearly exact

    def project(self, g: Array) -> Array:
        """Rows of `g K` for centred rows g of the chosen columns."""
        return reduce(matmul, self.factors, g)

    def unit_cov(self) -> Array:
        """Covariance of the weights for noise of variance one, `K B'B K'` (Orr, appendix A.5)."""
        K = reduce(matmul, self.factors)
        return K @ (self.B.T @ self.B) @ K.T

    def row_variances(self, centred: Array, rows: WeightedRows) -> Array:
        """Variance of the fit for noise of variance one, (m,), for centred rows g of the chosen columns.

        `1/n + g K B'B K' g'`, the first term of an intercept.
        """
        projected = reduce(matmul, [moved(factor, centred) for factor in self.factors], centred)
        return row_products(projected @ moved(self.B.T @ self.B, centred), projected) + rows.intercept / rows.n

    def unit_variances(self) -> Array:
        """Diagonal of `unit_cov`, in less memory than the matrix."""
        K = reduce(matmul, self.factors)
        return row_products(K @ (self.B.T @ self.B), K)


def solve_penalised(problem: Problem, support: NDArray[np.intp], alphas: NDArray[np.float64]) -> Solution:
    """Least squares on some columns with one penalty each, from the triangular factor of `[G; diag(sqrt(alphas))]`.

    The weights are those of Orr (4.4), with `A = G'G + diag(alphas)` of Orr (4.5).

    Directions the data and the penalties leave undetermined get weight zero. Columns of very different lengths are
    scaled to length one: singular values of columns as they are would not resolve the short ones.
    """
    whole = len(support) == problem.G.shape[1] and np.array_equal(support, np.arange(len(support)))
    G, R = problem.G if whole else at(problem.G, support, axis=1), np.diag(np.sqrt(alphas))
    for rows in row_blocks(G.shape[0], G.shape[1], G):  # a copy of G may not fit
        R = triangle(namespace(G).concat([from_host(R, G), G[rows, :]]))
    R, lengths = to_host(R), np.ones(len(support))
    norms = np.sqrt(np.einsum("ij,ij->j", R, R))
    if norms.max(initial=0.0) > COLUMN_SPREAD_MAX * norms.min(where=norms > 0, initial=np.inf):
        lengths = np.where(norms > 0, norms, 1.0)
        R = R / lengths
    _, s, Vt = np.linalg.svd(R)
    keep = s > s.max(initial=0) * max(G.shape) * np.finfo(np.float64).eps
    if problem.rounding is not None:
        keep &= s > np.linalg.norm(Vt * (to_host(at(problem.rounding, support)) / lengths), axis=1)
    K = from_host(Vt[keep].T / s[keep] / lengths[:, None], G)
    return solution_from_factors(problem, K, G @ K)


def solve_orthogonal(problem: Problem, alpha: float | NDArray[np.float64]) -> Solution:
    """Least squares with the weights of the orthogonalised columns penalised, `|y - G w|^2 + alpha |U w|^2`.

    See Orr, section 7.3. The penalty is the same for all columns, or there is one for each.

    With `G = Q R` the orthogonalised columns are those of Q times the diagonal of R, and `A^-1 = K K'` with
    `K = R^-1 diag(r_kk / sqrt(alpha + r_kk^2))`.
    """
    R = triangle(problem.G)
    diagonal = np.diagonal(R)
    K = from_host(np.linalg.solve(R, np.diag(diagonal / np.sqrt(alpha + diagonal**2))), problem.G)
    return solution_from_factors(problem, K, problem.G @ K)


def solution_from_factors(problem: Problem, K: Array, B: Array) -> Solution:
    """Return the solution with `A^-1 = K K'` and `B = G K`, which may be known more accurately than by that product.

    Weights: Orr (4.4); squared error: Orr (4.8).
    """
    Y, rows = problem.Y, problem.rows
    projected = B.T @ Y
    residual = Y - B @ projected
    leverage = row_squares(B)
    weights, gap = K @ projected, rows.gap(leverage)
    loo = leave_one_out(residual, gap, Y)
    if K.shape[1] and bool(namespace(gap).any(gap <= LEVERAGE_GAP_MIN)):
        loo = put_at(loo, *saturated_residuals(weights, K, B, Y, gap))
    dof = total(leverage) + rows.intercept
    sse = to_host(column_squares(residual))
    return Solution(weights, (K,), B, sse, loo, dof, rows.n - dof)


def leave_one_out(residual: Array, gap: Array, Y: Array) -> Array:
    """`r / leverage_gap`, Orr (5.1), and Pahikkala et al. 2010 (5), whose dual variables are `r / alpha`.

    For a sample with leverage 1 the quotient is rounding noise; its leave-one-out prediction is then the mean.
    """
    saturated = gap <= LEVERAGE_GAP_MIN
    return namespace(gap).where(saturated[:, None], Y, residual / put(gap, saturated, 1.0)[:, None])


def saturated_residuals(
    weights: Array, K: Array, B: Array, Y: Array, gap: Array
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Positions and leave-one-out residuals, rows scaled, of the samples with leverage 1, all of which are fitted.

    Without sample i the direction `v = K b_i` is undetermined, and its weight is zero, as in `solve_penalised`: the
    weights are `w - v (v'w) / (v'v)`, and since `g_i'v = 1` the residual is `v'w / v'v`. A sample that determines the
    intercept alone (v = 0) is predicted by the mean.
    """
    places = np.flatnonzero(to_host(gap <= LEVERAGE_GAP_MIN))
    V = at(B, places) @ K.T
    squares, products, targets = (to_host(x) for x in (row_squares(V), V @ weights, at(Y, places)))
    found = squares > 0
    return places, np.where(found[:, None], products / np.where(found, squares, 1.0)[:, None], targets)


def measure(rows: WeightedRows, solution: Solution) -> dict[str, float]:
    """All criteria of a solution, averaged over the outputs."""
    sse = solution.sse.mean()
    loo_sse = total(solution.loo**2) / len(solution.sse)
    return {name: float(f(sse, rows.n - solution.freedom, rows.n, loo_sse)) for name, f in CRITERIA.items()}


def noise_variance(rows: WeightedRows, solution: Solution) -> NDArray[np.float64]:
    """Unbiased estimate of the noise variance of each output, Orr (5.3): `criteria.uev`.

    Where no degrees of freedom are left, the leave-one-out error is used instead.
    """
    if solution.freedom > FREEDOM_MIN * rows.n:
        return uev(solution.sse, rows.n - solution.freedom, rows.n)
    return to_host(column_squares(solution.loo)) / rows.n
