"""Ridge regression for all penalties at once, from one singular value decomposition.

With `G = U diag(s) V'` (centred, rows scaled), `mu = s^2` and `t = U'y`, all depends on alpha only through

    shrinkage_j = alpha / (mu_j + alpha),

one minus the filter factor of direction j (Orr, appendices A.8 and A.10):

    residual      r       = r0 + U (shrinkage t)             r0, gap0, freedom0: those at alpha = 0
    leverage gap  gap     = gap0 + U^2 shrinkage
    sse                   = |r0|^2 + sum shrinkage_j^2 t_j^2
    freedom     n - dof   = freedom0 + sum shrinkage_j

Written as sums of positive parts, none of these cancels when alpha is tiny and the fit nearly exact. A row, or a whole
model, that is fitted exactly as alpha -> 0 leaves 0/0 in leave-one-out and GCV; the limit follows by replacing
shrinkage_j by `shrinkage_j / alpha -> 1/mu_j`, since a common factor cancels in both ratios.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from termwise._arrays import (
    Array,
    at,
    at_least,
    column_squares,
    contiguous,
    copied,
    from_host,
    namespace,
    put,
    put_at,
    row_blocks,
    row_squares,
    to_host,
    total,
)
from termwise._numerics import (
    COLUMN_SPREAD_MAX,
    EXACT_ROW,
    GRAM_EIGENVALUE_MIN,
    LEVERAGE_GAP_MIN,
    RESOLVED_RATIO,
    TRUNCATED_EIGENVALUE_MIN,
)
from termwise.linalg.criteria import CRITERIA
from termwise.linalg.least_squares import Problem, Solution

GRID_STEP = 0.5  # in log alpha: shrinkage is a logistic curve of unit width, so half of that resolves every minimum
ZOOMS = 3  # each narrows a bracket four times
NEWTON_STEPS = 3  # after that, by central differences
DIFFERENCE_STEP = 1e-4  # in log alpha: the error of a second difference is about eps / step^2 = 1e-8


class Spectrum:
    """Singular values and vectors of a least-squares problem.

    `truncate` drops directions that are tiny beside the largest: any penalty large enough to average out noise
    suppresses them, and eigenvectors, which are faster, are accurate enough for the others. With the `kernel`, (n, n),
    of centred and row-scaled columns these are not needed: the problem may have none, and the solution no weights.
    """

    def __init__(self, problem: Problem, truncate: bool = False, kernel: Array | None = None) -> None:
        self.problem, rows = problem, problem.rows
        z0 = (rows.sample_weight / rows.n) ** 0.5 if rows.intercept else None
        if kernel is None:
            self.U, self.s, self.V = decompose(problem.G, z0, truncate, problem.rounding)
        else:
            e, E = namespace(kernel).linalg.eigh(kernel)
            kept = np.flatnonzero(to_host(e) > TRUNCATED_EIGENVALUE_MIN * to_host(e)[-1])[::-1]
            self.U, self.s, self.V = contiguous(at(E, kept, axis=1)), np.sqrt(to_host(e)[kept]), None
        xp, Y = namespace(problem.Y), problem.Y
        t, self.mu = self.U.T @ Y, self.s**2
        residual, gap = Y - self.U @ t, at_least(rows.gap(row_squares(self.U)), 0.0)
        fitted = xp.all(xp.abs(residual) <= EXACT_ROW * xp.max(xp.abs(Y), axis=0), axis=1)
        exact = (gap < EXACT_ROW) & fitted
        self.gap0, self.residual0 = put(gap, exact, 0.0), put(residual, exact[:, None], 0.0)
        self.t, self.sse0 = to_host(t), to_host(column_squares(self.residual0))
        self.single = rows.single / rows.sample_weight
        self.freedom0 = max(0.0, rows.n - len(self.s) - rows.intercept)
        self.interpolates = self.freedom0 < LEVERAGE_GAP_MIN * rows.n

    @property
    def floor(self) -> float:
        """Smallest penalty to search: 0, or that which float64 resolves where the design is numerically singular.

        Columns are scaled to norm one for that decision, since columns of very different size need not be dependent.
        """
        resolved, G = RESOLVED_RATIO * self.s.max(initial=0.0), self.problem.G
        if self.s.min(initial=np.inf) > resolved:
            return 0.0
        norms = column_squares(G) ** 0.5
        unit, (n, p) = G / put(norms, norms <= 0, 1.0), G.shape
        gram = unit.T @ unit if p <= n else unit @ unit.T
        mu = to_host(namespace(G).linalg.eigvalsh(gram))[::-1][: len(self.s)]
        return 0.0 if mu[-1] > GRAM_EIGENVALUE_MIN**2 * mu[0] else float(resolved**2)

    def score(self, criterion: str, alphas: ArrayLike) -> NDArray[np.float64]:
        """Value of a criterion (averaged over the outputs) at each alpha, where 0 and infinity mean the limits."""
        alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
        n, (sse, freedom) = self.problem.rows.n, self.moments(alphas)
        loo_sse = self._loo_sse(alphas) if criterion == "loo" else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):  # at alpha = 0, replaced by the limit below
            values = CRITERIA[criterion](sse, n - freedom, n, loo_sse)
        if not np.any(alphas == 0):
            return values
        q, limit = self.t.shape[1], 0.0  # where all rows are fitted exactly UEV, FPE and BIC vanish as alpha -> 0
        if criterion == "loo":
            limit = total(self._loo_residuals(np.zeros_like(self.mu), 1 / self.mu) ** 2) / q / n
        elif not self.interpolates or not len(self.mu):  # without a direction there is nothing that alpha changes
            limit = float(CRITERIA[criterion](self.sse0.sum() / q, n - self.freedom0, n, 0.0))
        elif criterion == "gcv":
            limit = float(n * np.sum((self.t / self.mu[:, None]) ** 2) / q / np.sum(1 / self.mu) ** 2)
        values[alphas == 0] = limit
        return values

    def moments(self, alphas: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return `sse` (averaged over the outputs) and `n - dof` at each alpha."""
        shrinkage = self._shrinkage(alphas)
        sse = self.sse0.sum() + np.sum(self.t**2, axis=1) @ shrinkage**2
        return sse / self.t.shape[1], self.freedom0 + shrinkage.sum(axis=0)

    def solution(self, alpha: float) -> Solution:
        """Weights at one alpha, which may be 0 (the limit: least norm) or infinite (all weights zero)."""
        shrinkage, G = self._shrinkage(alpha)[:, 0], self.problem.G
        inverse = 1 / (self.mu + alpha)  # shrinkage / alpha
        filter_factors = self.mu * inverse  # 1 - shrinkage, without cancelling
        factors: tuple[Array, ...]
        if self.V is None:  # it is G' U diag(1/s), which is cheaper to leave unformed
            weights = G.T @ (self.U @ from_host(inverse[:, None] * self.t, G))
            factors = (G if self.problem.owned else copied(G)).T, self.U * from_host(np.sqrt(inverse) / self.s, G)
        else:
            weights = self.V @ from_host((self.s * inverse)[:, None] * self.t, G)
            factors = (self.V * from_host(np.sqrt(inverse), G),)
        return Solution(
            weights=weights,
            factors=factors,
            B=self.U * from_host(np.sqrt(filter_factors), G),
            sse=self.sse0 + shrinkage**2 @ self.t**2,
            loo=self._loo_residuals(shrinkage, inverse),
            dof=float(filter_factors.sum()) + self.problem.rows.intercept,
            freedom=float(self.freedom0 + shrinkage.sum()),
        )

    def _shrinkage(self, alphas: ArrayLike) -> NDArray[np.float64]:
        """Shrinkage, one row per direction and one column per alpha."""
        alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
        finite = np.where(np.isinf(alphas), 1.0, alphas)
        return np.where(np.isinf(alphas), 1.0, finite / (self.mu[:, None] + finite))

    def _loo_sse(self, alphas: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of squared leave-one-out errors, Orr (5.1), averaged over the outputs, at each alpha, by row blocks.

        They are the quotients of `least_squares.leave_one_out`, for all penalties at once.
        """
        shrinkage = self._shrinkage(alphas)
        parts, shrunk = [], [from_host(shrinkage * t[:, None], self.U) for t in self.t.T]
        gap_factor = from_host(shrinkage, self.U)
        for rows in row_blocks(self.U.shape[0], max(self.U.shape[1], shrinkage.shape[1]), self.U):
            U = self.U[rows, :]
            gap = (U * U) @ gap_factor
            gap *= self.single[rows, None]
            gap += self.gap0[rows, None]
            for j, part in enumerate(shrunk):
                errors = U @ part
                errors += self.residual0[rows, j : j + 1]
                with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 at alpha = 0 only, where a limit replaces it
                    errors /= gap
                parts.append(column_squares(errors))
        return to_host(sum(parts[1:], start=parts[0])) / self.t.shape[1]

    def _loo_residuals(self, shrinkage: NDArray[np.float64], inverse: NDArray[np.float64]) -> Array:
        """Leave-one-out residuals, Orr (5.1), at one alpha: those of `least_squares.leave_one_out` and their limits.

        `inverse`, shrinkage / alpha, is used where shrinkage leaves 0/0. A sample that determines the intercept alone
        is predicted by the mean.
        """
        gap = self.gap0 + self.single * ((self.U * self.U) @ from_host(shrinkage, self.U))
        errors = self.residual0 + self.U @ from_host(shrinkage[:, None] * self.t, self.U)
        gap_min = LEVERAGE_GAP_MIN if not shrinkage.any() else np.finfo(np.float64).tiny
        saturated = np.flatnonzero(to_host(gap) < gap_min)  # leverage 1
        if len(saturated):
            U = at(self.U, saturated)
            own = at(self.single, saturated) * ((U * U) @ from_host(inverse, U))
            limits = U @ from_host(inverse[:, None] * self.t, U)
            alone = own <= 0
            gap = put_at(gap, saturated, put(own, alone, 1.0))
            limits = namespace(U).where(alone[:, None], at(self.problem.Y, saturated), limits)
            errors = put_at(errors, saturated, limits)
        return errors / gap[:, None]


def unpenalised_solution(problem: Problem) -> Solution | None:
    """Return the weights without a penalty of columns in very different units; None for others, or if they depend.

    Singular values lose the digits of columns that are tiny beside others. Where the weights are unique they do not
    depend on the units, so that columns are scaled to norms about one, by powers of two, which are exact.
    """
    G, norms = problem.G, to_host(column_squares(problem.G)) ** 0.5
    if not len(norms) or norms.max() <= COLUMN_SPREAD_MAX * norms.min() or not norms.min():
        return None
    scale = from_host(2.0 ** np.round(np.log2(norms)), G)
    rounding = None if problem.rounding is None else problem.rounding / scale
    spectrum = Spectrum(replace(problem, G=G / scale, owned=True, rounding=rounding))
    if len(spectrum.s) < len(norms):
        return None
    scaled = spectrum.solution(0.0)
    first, *others = scaled.factors
    return replace(scaled, weights=scaled.weights / scale[:, None], factors=(first / scale[:, None], *others))


def decompose(
    G: Array, z0: Array | None, truncate: bool = False, rounding: Array | None = None
) -> tuple[Array, NDArray[Any], Array | None]:
    """Return `U, s, V`, with V None where `G' U / s` is cheaper to leave unformed.

    The columns of G, and so those of U, are orthogonal to the intercept's direction `z0` if there is one. If
    `rounding` has the length of each column that rounding may account for, a direction v must have a singular value
    above `|rounding * v|`: the digits of a column that centring has left small are those of the column before.

    The eigenvectors of the smaller of `G'G` and `G G'` are several times faster than an SVD, but squaring halves the
    digits of small singular values: only a well-conditioned design keeps them. A symmetric one has eigenvectors itself.
    """
    xp, (n, p) = namespace(G), G.shape
    if z0 is None and n == p:
        tolerance = 4 * float(np.finfo(np.float64).eps) * float(xp.max(xp.abs(G)))
        quick = float(xp.max(xp.abs(G[0, :] - G[:, 0])))
        if quick <= tolerance and float(xp.max(xp.abs(G - G.T))) <= tolerance:  # as kernels between the samples are
            e, E = xp.linalg.eigh(G)
            e = to_host(e)
            order = np.argsort(-np.abs(e), kind="stable")
            order = order[np.abs(e[order]) > np.abs(e).max(initial=0.0) * len(e) * np.finfo(np.float64).eps]
            e, E = e[order], at(E, order, axis=1)
            return E, np.abs(e), E * from_host(np.sign(e), G)
    rank = min(p, n - (z0 is not None))
    e, E = xp.linalg.eigh(G.T @ G if p <= n else G @ G.T)
    mu, E = to_host(e)[::-1][:rank], xp.flip(E, axis=1)[:, :rank]
    lost = np.zeros(p) if rounding is None else to_host(rounding)
    if truncate:
        least = max(TRUNCATED_EIGENVALUE_MIN * mu.max(initial=0.0), lost.max(initial=0.0) ** 2)
        rank = int(np.sum(mu > least))
        mu, E = mu[:rank], E[:, :rank]
    if rank and (truncate or mu[-1] > max(GRAM_EIGENVALUE_MIN * mu[0], lost.max() ** 2)):
        s = np.sqrt(mu)
        return (G @ E / from_host(s, G), s, contiguous(E)) if p <= n else (contiguous(E), s, None)
    U, s, Vt = xp.linalg.svd(G, full_matrices=False)
    s = to_host(s)
    least = s.max(initial=0) * max(n, p) * np.finfo(np.float64).eps
    if rounding is not None:
        least = np.maximum(least, to_host(row_squares(Vt * rounding)) ** 0.5)[:rank]
    keep = np.flatnonzero(s[:rank] > least)
    U = at(U, keep, axis=1)
    if z0 is not None:  # directions of tiny singular values are orthogonal to z0 only up to eps s_1 / s
        Q, R = xp.linalg.qr(xp.concat([z0[:, None], U], axis=1))
        signs = np.copysign(1.0, np.diagonal(to_host(R))[1:])
        U = Q[:, 1:] * from_host(signs, G)
    return U, s[keep], at(Vt, keep).T


def best_alpha(spectrum: Spectrum, criterion: str, zooms: int = ZOOMS, newton_steps: int = NEWTON_STEPS) -> float:
    """Global minimiser of a criterion over alpha in [0, inf]; of equally good penalties the largest.

    A grid in log alpha brackets every local minimum; all brackets are narrowed together and polished by Newton's
    method, and the limits are candidates too. On a numerically singular design the lower limit is the smallest penalty
    that float64 resolves.
    """
    if not len(spectrum.mu):
        return np.inf
    floor = spectrum.floor
    low, high = np.log(max(spectrum.mu.min() * 1e-5, floor)), np.log(spectrum.mu.max() * 1e5)
    grid = np.linspace(high, low, int((high - low) / GRID_STEP) + 2)
    values = spectrum.score(criterion, np.exp(grid))
    dips = np.flatnonzero((values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:])) + 1
    left, right, every = grid[dips + 1], grid[dips - 1], np.arange(len(dips))
    for _ in range(zooms if len(dips) else 0):
        points = np.linspace(left, right, 9, axis=1)
        inner = spectrum.score(criterion, np.exp(points[:, 1:-1].ravel())).reshape(len(dips), 7)
        best = inner.argmin(axis=1) + 1
        left, right = points[every, best - 1], points[every, best + 1]
    minima = (left + right) / 2
    for _ in range(newton_steps if len(dips) else 0):
        around = np.concatenate([minima - DIFFERENCE_STEP, minima, minima + DIFFERENCE_STEP])
        below, here, above = spectrum.score(criterion, np.exp(around)).reshape(3, -1)
        curvature = below - 2 * here + above
        step = DIFFERENCE_STEP * (above - below) / (2 * np.where(curvature > 0, curvature, np.inf))
        minima = np.clip(minima - step, left, right)
    limits = [] if floor else [0.0]
    candidates = np.concatenate([[np.inf], np.exp(grid[:1]), np.exp(minima), np.exp(grid[-1:]), limits])
    return float(candidates[np.argmin(spectrum.score(criterion, candidates))])
