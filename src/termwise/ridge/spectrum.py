"""Ridge regression for all penalties at once, from one singular value decomposition.

With `G = U diag(s) V'` (centred, rows scaled), `mu = s^2` and `t = U'y`, everything depends on alpha only through

    psi_j = alpha / (mu_j + alpha),

the part of direction j that the penalty holds back (Orr A.8, A.10):

    residual      r       = r0 + U (psi t)             r0, gap0, freedom0: what no weights can reach
    leverage gap  gap     = gap0 + U^2 psi
    sse                   = |r0|^2 + sum psi_j^2 t_j^2
    freedom     n - dof   = freedom0 + sum psi_j

Written as sums of positive parts, none of these cancels when alpha is tiny and the fit nearly exact. A row, or a whole
model, that is fitted exactly as alpha -> 0 leaves 0/0 in leave-one-out and GCV; the limit is had by putting
`psi_j / alpha -> 1/mu_j` for psi_j, since both are ratios that do not see a common factor.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from termwise._arrays import row_blocks
from termwise.selection.blocks import NO_GAP
from termwise.selection.criteria import CRITERIA
from termwise.solution import Problem, Solution

GRAM_RANGE = 1e-6  # smallest ratio of eigenvalues for which forming G'G keeps ten digits
ROUGH = 1e-10  # ratio of eigenvalues below which a rough look leaves a direction out
STEP = 0.5  # every psi is a logistic curve of unit width in log alpha: half of that shows every minimum
ZOOMS = 3  # each narrows a bracket four times
POLISH = 3  # Newton steps after that, by central differences of NUDGE
NUDGE = 1e-4
ROUNDING = 1e-13  # a row whose gap and residual are both below this is fitted exactly
RESOLVED = 1e-10  # below this share of the largest, the rounding of G shows in its singular values


class Spectrum:
    """Singular values and vectors of a posed problem; `rough` leaves out directions that are tiny beside the largest.

    No penalty that averages noise out lets those through, and without them nothing slower than eigenvectors is needed.
    """

    def __init__(self, problem: Problem, rough: bool = False) -> None:
        self.problem, rows = problem, problem.rows
        z0 = np.sqrt(rows.counts / rows.n) if rows.intercept else None
        self.U, self.s, self.V = decompose(problem.G, z0, rough)
        self.mu = self.s**2
        self.t = self.U.T @ problem.Y
        self.rest = problem.Y - self.U @ self.t
        self.gap0 = np.maximum(0, rows.gap(np.einsum("ij,ij->i", self.U, self.U)))
        exact = (self.gap0 < ROUNDING) & np.all(np.abs(self.rest) <= ROUNDING * np.abs(problem.Y).max(axis=0), axis=1)
        self.gap0[exact], self.rest[exact] = 0.0, 0.0
        self.single = rows.single / rows.counts
        self.freedom0 = max(0.0, rows.n - len(self.s) - rows.intercept)
        self.interpolates = self.freedom0 < NO_GAP * rows.n

    @property
    def floor(self) -> float:
        """Smallest penalty worth trying: 0, or where the design is numerically singular what its rounding allows.

        Columns of very different size are no such case: what counts is whether they are nearly dependent.
        """
        resolved = RESOLVED * self.s.max(initial=0.0)
        if self.s.min(initial=np.inf) > resolved or _independent(self.problem.G, len(self.s)):
            return 0.0
        return float(resolved**2)

    def score(self, criterion: str, alphas: ArrayLike) -> NDArray[np.float64]:
        """Value of a criterion (averaged over the outputs) at each alpha, where 0 and infinity mean the limits."""
        alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
        n, psi = self.problem.rows.n, self._psi(alphas)
        sse, freedom = self.moments(alphas)
        loo_sse = self._loo_sse(psi) if criterion == "loo" else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):  # at alpha = 0, which is put right next
            values = CRITERIA[criterion](sse, n - freedom, n, loo_sse)
        if np.any(alphas == 0):
            values[alphas == 0] = self._score_at_zero(criterion)
        return values

    def moments(self, alphas: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return `sse` (averaged over the outputs) and `n - dof` at each alpha."""
        psi = self._psi(alphas)
        sse = np.sum(self.rest**2) + np.sum(self.t**2, axis=1) @ psi**2
        return sse / self.t.shape[1], self.freedom0 + psi.sum(axis=0)

    def solution(self, alpha: float) -> Solution:
        """Weights at one alpha, which may be 0 (the limit: least norm) or infinite (all weights zero)."""
        psi = self._psi(alpha)[:, 0]
        held = 1 / (self.mu + alpha)  # psi / alpha
        phi = self.mu * held  # 1 - psi, without cancelling
        return Solution(
            weights=self._from_left(held[:, None] * self.t),
            root=self._root(np.sqrt(held)),
            B=self.U * np.sqrt(phi),
            sse=np.sum(self.rest**2, axis=0) + psi**2 @ self.t**2,
            loo=self._loo_residuals(psi, held),
            dof=float(phi.sum()) + self.problem.rows.intercept,
            freedom=float(self.freedom0 + psi.sum()),
        )

    def _psi(self, alphas: ArrayLike) -> NDArray[np.float64]:
        """Part held back, one row per direction and one column per alpha."""
        alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
        finite = np.where(np.isinf(alphas), 1.0, alphas)
        return np.where(np.isinf(alphas), 1.0, finite / (self.mu[:, None] + finite))

    def _loo_sse(self, psi: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of squared leave-one-out errors (averaged over the outputs) for each column of psi, by row blocks."""
        total = np.zeros(psi.shape[1])
        for rows in row_blocks(len(self.U), max(self.U.shape[1], psi.shape[1])):
            U = self.U[rows]
            gap = (U * U) @ psi
            gap *= self.single[rows, None]
            gap += self.gap0[rows, None]
            for t, rest in zip(self.t.T, self.rest.T, strict=True):
                errors = U @ (psi * t[:, None])
                errors += rest[rows, None]
                with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 at alpha = 0 only, where a limit replaces it
                    errors /= gap
                total += np.einsum("ij,ij->j", errors, errors)
        return total / self.t.shape[1]

    def _loo_residuals(self, psi: NDArray[np.float64], held: NDArray[np.float64]) -> NDArray[np.float64]:
        """Leave-one-out residuals at one alpha; `held` stands in for psi where that leaves 0/0."""
        gap = self.gap0 + self.single * ((self.U * self.U) @ psi)
        errors = self.rest + self.U @ (psi[:, None] * self.t)
        stuck = gap < (NO_GAP if not psi.any() else np.finfo(np.float64).tiny)
        U = self.U[stuck]
        gap[stuck] = self.single[stuck] * ((U * U) @ held)
        errors[stuck] = U @ (held[:, None] * self.t)
        return errors / gap[:, None]

    def _score_at_zero(self, criterion: str) -> float:
        """Limit of a criterion as alpha -> 0; when all rows are fitted exactly, UEV, FPE and BIC vanish."""
        n, q = self.problem.rows.n, self.t.shape[1]
        if criterion == "loo":
            return float(np.sum(self._loo_residuals(np.zeros_like(self.mu), 1 / self.mu) ** 2) / q / n)
        if not self.interpolates:
            return float(CRITERIA[criterion](np.sum(self.rest**2) / q, n - self.freedom0, n, 0.0))
        if criterion == "gcv":
            return float(n * np.sum((self.t / self.mu[:, None]) ** 2) / q / np.sum(1 / self.mu) ** 2)
        return 0.0

    def _from_left(self, left: NDArray[np.float64]) -> NDArray[np.float64]:
        """`V diag(s) left = G' U left`."""
        if self.V is None:
            return self.problem.G.T @ (self.U @ left)
        return self.V @ (self.s[:, None] * left)

    def _root(self, scale: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Factors of `K = V diag(scale)`; where V was never formed it is `G' U diag(1/s)`."""
        if self.V is None:
            G = self.problem.G
            return (G if self.problem.owned else G.copy()).T, self.U * (scale / self.s)
        return (self.V * scale,)


def decompose(
    G: NDArray[np.float64], z0: NDArray[np.float64] | None, rough: bool = False
) -> tuple[NDArray, NDArray, NDArray | None]:
    """Return `U, s, V`, with V None where `G' U / s` is cheaper to leave unformed.

    The columns of G, and so those of U, are orthogonal to the intercept's direction `z0` if there is one.

    The eigenvectors of the smaller of `G'G` and `G G'` are several times faster than an SVD, but squaring halves the
    digits of small singular values: only a well-conditioned design keeps them. A symmetric one has eigenvectors itself.
    """
    n, p = G.shape
    if z0 is None and n == p and _symmetric(G):
        return _decompose_symmetric(G)
    rank = min(p, n - (z0 is not None))
    mu, E = np.linalg.eigh(G.T @ G if p <= n else G @ G.T)
    mu, E = mu[::-1][:rank], E[:, ::-1][:, :rank]
    if rough:
        rank = int(np.sum(mu > ROUGH * mu.max(initial=0.0)))
        mu, E = mu[:rank], E[:, :rank]
    if rank and (rough or mu[-1] > GRAM_RANGE * mu[0]):
        s = np.sqrt(mu)
        return (G @ E / s, s, np.ascontiguousarray(E)) if p <= n else (np.ascontiguousarray(E), s, None)
    U, s, Vt = np.linalg.svd(G, full_matrices=False)
    keep = s > s.max(initial=0) * max(n, p) * np.finfo(np.float64).eps
    keep[rank:] = False
    U = U[:, keep]
    if z0 is not None:  # directions of tiny singular values are orthogonal to z0 only up to eps s_1 / s
        Q, R = np.linalg.qr(np.column_stack([z0, U]))
        U = Q[:, 1:] * np.copysign(1.0, np.diagonal(R)[1:])
    return U, s[keep], Vt[keep].T


def _symmetric(G: NDArray[np.float64]) -> bool:
    """Whether G equals its transpose but for rounding, as functions of the distances between the samples do."""
    rounding = 4 * np.finfo(np.float64).eps * np.abs(G).max(initial=0.0)
    return bool(np.abs(G[0] - G[:, 0]).max(initial=0.0) <= rounding and np.abs(G - G.T).max(initial=0.0) <= rounding)


def _decompose_symmetric(G: NDArray[np.float64]) -> tuple[NDArray, NDArray, NDArray]:
    """`G = E diag(e) E'`: the singular values are the sizes of the eigenvalues, and no digit is lost by squaring."""
    e, E = np.linalg.eigh(G)
    order = np.argsort(-np.abs(e), kind="stable")
    e, E = e[order], E[:, order]
    keep = np.abs(e) > np.abs(e).max(initial=0.0) * len(G) * np.finfo(np.float64).eps
    return E[:, keep], np.abs(e[keep]), E[:, keep] * np.sign(e[keep])


def _independent(G: NDArray[np.float64], rank: int) -> bool:
    """Whether the columns, brought to one size, are far from dependent (rows take their place in a wide design)."""
    norms = np.sqrt(np.einsum("ij,ij->j", G, G))
    unit = G / np.where(norms > 0, norms, 1.0)
    mu = np.linalg.eigvalsh(unit.T @ unit if G.shape[1] <= len(G) else unit @ unit.T)[::-1][:rank]
    return bool(mu[-1] > GRAM_RANGE**2 * mu[0])


def best_alpha(spectrum: Spectrum, criterion: str) -> float:
    """Global minimiser of a criterion over alpha in [0, inf]; of equally good penalties the largest.

    A grid in log alpha brackets every minimum, all brackets are narrowed together, and the limits compete. On a
    numerically singular design the lower limit is the smallest penalty that float64 can tell from others.
    """
    if not len(spectrum.mu):
        return np.inf
    floor = spectrum.floor
    low, high = np.log(max(spectrum.mu.min() * 1e-5, floor)), np.log(spectrum.mu.max() * 1e5)
    grid = np.linspace(high, low, int((high - low) / STEP) + 2)
    values = spectrum.score(criterion, np.exp(grid))
    dips = np.flatnonzero((values[1:-1] <= values[:-2]) & (values[1:-1] <= values[2:])) + 1
    minima = _minima(lambda x: spectrum.score(criterion, np.exp(x)), grid[dips + 1], grid[dips - 1])
    limits = [] if floor else [0.0]
    candidates = np.concatenate([[np.inf], np.exp(grid[:1]), np.exp(minima), np.exp(grid[-1:]), limits])
    return float(candidates[np.argmin(spectrum.score(criterion, candidates))])


def _minima(f: Callable[[NDArray], NDArray], left: NDArray, right: NDArray) -> NDArray[np.float64]:
    """Minimum of a smooth function in each bracket: narrow all at once, then polish by Newton's method."""
    every = np.arange(len(left))
    for _ in range(ZOOMS if len(left) else 0):
        points = np.linspace(left, right, 9, axis=1)
        best = f(points[:, 1:-1].ravel()).reshape(len(left), 7).argmin(axis=1) + 1
        left, right = points[every, best - 1], points[every, best + 1]
    x = (left + right) / 2
    for _ in range(POLISH if len(left) else 0):
        below, here, above = f(np.concatenate([x - NUDGE, x, x + NUDGE])).reshape(3, -1)
        bend = below - 2 * here + above
        step = NUDGE * (above - below) / (2 * np.where(bend > 0, bend, np.inf))
        x = np.clip(x - step, left, right)
    return x
