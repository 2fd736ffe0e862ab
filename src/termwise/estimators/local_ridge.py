"""Local ridge regression: one penalty per term, each set to its exact GCV optimum.

Orr, sections 6.3 and 6.4 and appendix A.11 (not equation (A.11), which removes a sample).

Removing term j from the model and adding it again with another penalty are rank-one updates. With
`v = P_j h_j`, `s = h_j' v` and `den = alpha_j + s`, Orr (6.10),

    P = P_j - v v' / den,    r = r_j - v (v'y) / den,    n - dof = freedom_j - v'v / den,

so GCV is a ratio of two quadratics in den, minimised in closed form. A sweep requires `v` for every term, also if
alpha_j = 0, where it cannot be recovered from P. Two representations are used, both on the m <= min(n, p) rows of a
triangular factor of G, so that no matrix of size n x n is formed for many samples:

- `Primal` stores QR factors of the k terms in the model and deletes a column from them: O((m + p) k) per term.
- `Dual` stores P, where `P h_j = v alpha_j / den` unless a penalty is very small: O(m^2) per term. For k > m.

A sweep over p terms therefore costs at most O(n p^2), except for wide designs with very small initial penalties, which
stay primal until at most m terms are left.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.linalg as sla
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from termwise._checks import check_indices, check_number, warn
from termwise._numerics import EXACT_FIT_NOISE, PENALTY_RATIO_MIN, QUADRATIC_SLOPE_MIN, RESOLVED_RATIO
from termwise.estimators.base import TermModel
from termwise.estimators.data import read
from termwise.estimators.design import fit_design
from termwise.estimators.folds import check_repeatable, with_fold_models
from termwise.estimators.ridge import check_alpha, resolve_alpha
from termwise.linalg.criteria import gcv
from termwise.linalg.factor_updates import orthogonalise
from termwise.linalg.least_squares import measure, solve_penalised
from termwise.linalg.spectrum import Spectrum

DEPENDENT = RESOLVED_RATIO**2  # of a column's squared norm: with less orthogonal to the others, it depends on them


def optimal_penalty(a: float, b: float, c: float, freedom: float, vv: float, s: float) -> float:
    """Penalty of one term that minimises GCV, all others fixed (Orr, appendix A.11).

    As a function of `den = alpha_j + s`, GCV is `n (a den^2 - 2 b den + c) / (freedom den - vv)^2`. Its only
    stationary point is right of the pole and a minimum if `slope > 0`; else it is left of the pole, GCV decreases
    towards infinity and the term is removed. A minimum left of `den = s` means no penalty.

    Parameters
    ----------
    a, b, c : `y' P_j^2 y`, `y' P_j^2 h y' P_j h`, `h' P_j^2 h (y' P_j h)^2`.
    freedom, vv, s : `trace P_j`, `h' P_j^2 h`, `h' P_j h`.
    """
    slope = b * freedom - a * vv
    if slope <= QUADRATIC_SLOPE_MIN * a * vv:
        return np.inf
    return max(0.0, (c * freedom - b * vv) / slope - s)


class Primal:
    """The QR factors of the augmented columns `[h_i; sqrt(alpha_i) e_i]` of the terms in the model.

    The augmented Q is orthonormal, so that orthogonalising twice restores accuracy; its upper rows are Z with
    `P = I - Z Z'`. The upper rows of `[h_j; 0]`, orthogonalised against Q, are `v = P_j h_j`, and its squared norm is
    `s = h_j' P_j h_j`.
    """

    def __init__(self, G: NDArray[Any], alphas: NDArray[Any]) -> None:
        self.G, self.inside = G, np.flatnonzero(np.isfinite(alphas)).tolist()
        self.rows = len(G)
        penalties = np.diag(np.sqrt(np.where(np.isfinite(alphas), alphas, 0.0)))
        self.Q, self.R = np.linalg.qr(np.vstack([G, penalties])[:, self.inside])

    def residual(self, Y: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """`P Y` and the dof of the terms."""
        Z = self.Q[: self.rows]
        return Y - Z @ (Z.T @ Y), float(np.sum(Z * Z))

    def remove(self, j: int) -> NDArray[Any]:
        """Remove term j, if it is in the model, and return `v = P_j h_j`."""
        if j in self.inside:
            at = self.inside.index(j)
            del self.inside[at]
            self.Q, self.R = sla.qr_delete(self.Q, self.R, at, which="col", check_finite=False)
        x = np.zeros(len(self.Q))
        x[: self.rows] = self.G[:, j]
        self.column, self.left = orthogonalise(x, self.Q.T), x
        return x[: self.rows]

    def add(self, j: int, v: NDArray[Any], alpha: float) -> None:
        """Add term j with a finite penalty."""
        self.left[self.rows + j] += np.sqrt(alpha)
        den = np.sqrt(self.left @ self.left)
        self.Q = np.column_stack([self.Q, self.left / den])
        self.R = np.block([[self.R, self.column[:, None]], [np.zeros((1, len(self.R))), den]])
        self.inside.append(j)


class Dual:
    """The matrix `P = (I + G diag(1/alpha) G')^-1`."""

    def __init__(self, G: NDArray[Any], alphas: NDArray[Any]) -> None:
        self.G, self.alphas = G, alphas.copy()
        scaled = G / np.sqrt(alphas)
        self.P = sla.cho_solve(sla.cho_factor(np.eye(len(G)) + scaled @ scaled.T), np.eye(len(G)))

    def residual(self, Y: NDArray[Any]) -> tuple[NDArray[Any], float]:
        """`P Y` and the dof of the terms."""
        return self.P @ Y, float(len(self.P) - np.trace(self.P))

    def remove(self, j: int) -> NDArray[Any]:
        """Remove term j, if it is in the model, and return `v = P_j h_j`."""
        v, alpha = self.P @ self.G[:, j], self.alphas[j]
        if np.isinf(alpha):
            return v
        den = alpha * alpha / (alpha - self.G[:, j] @ v)
        v *= den / alpha
        self.P += np.outer(v, v / den)
        return v

    def add(self, j: int, v: NDArray[Any], alpha: float) -> None:
        """Add term j with a finite penalty."""
        self.P -= np.outer(v, v / (alpha + self.G[:, j] @ v))


def sweep(
    form: Primal | Dual,
    G: NDArray[Any],
    Y: NDArray[Any],
    outside: float,
    freedom: float,
    alphas: NDArray[Any],
    end: float = np.inf,
) -> tuple[float, float]:
    """Optimise every penalty once, in place; return the sse and the freedom reached.

    `outside` is the squared error outside the span of all terms and `freedom` the degrees of freedom without terms. At
    the time `end` the remaining penalties are left as they are.
    """
    r, dof = form.residual(Y)
    freedom -= dof
    norms = np.einsum("ij,ij->j", G, G)
    for j in range(G.shape[1]):
        if time.perf_counter() >= end:
            break
        v = form.remove(j)
        s, vv, vy = G[:, j] @ v, v @ v, v @ Y
        if np.isfinite(alphas[j]):
            r += np.outer(v, vy / (alphas[j] + s))
            freedom += vv / (alphas[j] + s)
        alphas[j] = np.inf
        if s > DEPENDENT * norms[j]:
            a = outside + np.sum(r * r)
            alphas[j] = optimal_penalty(a, (v @ r) @ vy, vv * (vy @ vy), freedom, vv, s)
        if np.isfinite(alphas[j]):
            r -= np.outer(v, vy / (alphas[j] + s))
            freedom -= vv / (alphas[j] + s)
            form.add(j, v, alphas[j])
    return float(outside + np.sum(r * r)), float(freedom)


def choose_form(G: NDArray[Any], alphas: NDArray[Any], largest: float) -> Primal | Dual:
    """Dual if there are more terms than rows and no penalty is very small relative to the largest eigenvalue."""
    many = np.isfinite(alphas).sum() > len(G)
    return Dual(G, alphas) if many and alphas.min() > PENALTY_RATIO_MIN * largest else Primal(G, alphas)


class LocalRidge(MultiOutputMixin, RegressorMixin, TermModel):
    """Ridge regression with one penalty per term, which prunes irrelevant terms.

    Minimises `|y - G w|^2 + sum_j alpha_j w_j^2`. Each penalty in turn is set to the exact minimiser of GCV, given the
    others, and the sweeps are repeated until GCV converges. Infinite penalties, which are common, remove their term.

    Parameters
    ----------
    basis : transformer or None, default=None
        Yields the design matrix: one of `termwise.basis` or any scikit-learn transformer. None: the columns of X.
    alpha : float or {"gcv", "loo", "uev", "fpe", "bic"}, default="gcv"
        Initial penalty of all terms: a number, or the global optimum of a criterion.
    tol : float, default=1e-4
        The sweeps stop when the relative decrease of GCV is less than this.
    max_iter : int, default=100
        Maximum number of sweeps.
    subset : array-like of int or None, default=None
        Start from these terms only, unpenalised, instead of from `alpha`.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    max_sweeps : int or None, default=None
        Another name of `max_iter`, which it overrides if it is not None.
    selection_cv : int, splitter, iterable or None, default=None
        Folds in which `fit` repeats the whole fit, penalties and pruning included: for `predict_interval` by CV+ and
        `selection_frequency_`, at the cost of one more fit per fold. 10 is a good number; samples are then shuffled
        with a fixed seed, those with equal inputs in the same fold. A splitter or an iterable of (train, test) indices
        as in scikit-learn's `cv` must leave out each sample once at most.
    max_seconds : float or None, default=None
        Stop the sweeps after this time, with a ConvergenceWarning; the penalties reached are kept. A sweep from many
        small penalties takes time proportional to the cube of the number of terms.

    Attributes
    ----------
    alphas_ : ndarray of shape (p,)
        Penalty of every term, infinite for those pruned.
    support_ : ndarray of shape (k,)
        The terms that remain.
    weights_, n_terms_ : ndarray, int
        Their weights and number.
    coef_ : ndarray of shape (p,) or (q, p)
        Weights of all terms, zero for those pruned.
    selection_frequency_ : ndarray of shape (d,)
        Share of the fold models that use each input; only with `selection_cv`.
    alpha_ : float
        Initial penalty of the sweeps.
    gcv_path_ : ndarray of shape (1 + sweeps,)
        GCV at the start and after each sweep; it never increases.
    n_iter_, n_sweeps_ : int
        Number of sweeps made.
    intercept_, basis_, effective_dof_, noise_variance_, criterion_value_, criteria_, loo_residuals_, weights_cov_
        As in `BasisRidge`; the criterion is GCV.

    See Also
    --------
    BasisRidge : One penalty for all terms.

    Notes
    -----
    The optimum is a local one; it depends on the start and on the order of the terms. Many penalties can overfit GCV:
    the criterion values after pruning are optimistic, and with more terms than samples GCV can decrease towards an
    exact fit. Use fewer terms, or centres, than samples.

    Examples
    --------
    >>> from termwise import LocalRidge, RadialBasis, datasets
    >>> X, y = datasets.make_sine(random_state=0)
    >>> model = LocalRidge(RadialBasis(width=0.05)).fit(X, y)
    >>> model.n_terms_ < 30
    True
    >>> bool(model.gcv_path_[-1] < model.gcv_path_[0])
    True
    """

    selects_terms = True

    def __init__(
        self,
        basis: Any = None,
        alpha: float | str = "gcv",
        tol: float = 1e-4,
        max_iter: int = 100,
        subset: ArrayLike | None = None,
        fit_intercept: bool = True,
        *,
        max_sweeps: int | None = None,
        selection_cv: Any = None,
        max_seconds: float | None = None,
    ) -> None:
        self.basis = basis
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.subset = subset
        self.fit_intercept = fit_intercept
        self.max_sweeps = max_sweeps
        self.selection_cv = selection_cv
        self.max_seconds = max_seconds

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs. With a `basis`, whatever that transformer takes.
        y : array-like of shape (n,) or (n, q)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights: a weight of 2 is the same as repeating the sample, and leave-one-out leaves out one
            repeat.
        """
        check_alpha(self.alpha)
        check_number("tol", self.tol, low=0, remedy="1e-4 stops when GCV has converged to four digits")
        max_iter = self.max_iter if self.max_sweeps is None else self.max_sweeps
        check_number("max_iter", max_iter, low=1, integer=True, remedy="allow at least one sweep")
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, above=0, remedy="None sets no limit")
        check_repeatable(self, X, y)
        data = read(self, X, y, sample_weight, basis=self.basis)
        design = fit_design(self, self.basis, data)
        problem = design.problem(self.fit_intercept)
        spectrum = Spectrum(problem)
        alpha, start = initial_penalties(spectrum, self.alpha, self.subset)
        alphas, path = sweep_to_convergence(spectrum, start, self.tol, max_iter, self.max_seconds)
        chosen = np.flatnonzero(np.isfinite(alphas))
        solution = solve_penalised(problem, chosen, alphas[chosen])
        problem = replace(problem, G_mean=problem.G_mean[chosen])
        terms = design.fitted_terms(problem, solution, measure(problem.rows, solution), "gcv", chosen)
        iterations = len(path) - 1
        return self._store(
            with_fold_models(self, terms, X, y, sample_weight),
            alpha_=alpha,
            alphas_=alphas,
            gcv_path_=np.array(path),
            n_iter_=iterations,
            n_sweeps_=iterations,
        )


def initial_penalties(spectrum: Spectrum, alpha: Any, subset: ArrayLike | None) -> tuple[float, NDArray[np.float64]]:
    """Return the common initial penalty and that of every term, infinite outside a given subset."""
    problem, p = spectrum.problem, spectrum.problem.G.shape[1]
    if subset is None:
        found, _ = resolve_alpha(alpha, spectrum)
        least = spectrum.floor
        if len(spectrum.s) < p:  # dependent columns need a penalty to share their weight
            least = RESOLVED_RATIO**2 * float(spectrum.mu.max(initial=0.0))
        if spectrum.interpolates:  # `n - dof`, about `alpha sum(1/mu)`, must exceed rounding; GCV is at its limit there
            least = max(least, 1e-6 / float(np.sum(1 / spectrum.mu)))
        freedom = problem.rows.n - problem.rows.intercept
        if len(spectrum.s) > freedom:  # of weights below one: GCV has no meaning unless `n - dof` is positive
            least = max(least, penalty_for_dof(spectrum.mu, freedom / 2))
        return found, np.where(problem.G.any(axis=0), max(found, least), np.inf)  # constant columns have no weight
    chosen = check_indices("subset", subset, p, what="term")
    if len(chosen) >= problem.rows.n - problem.rows.intercept:
        raise ValueError(
            f"subset must leave degrees of freedom, got {len(chosen)} terms for {problem.rows.n:g} samples: name fewer."
        )
    norms = np.sqrt(np.einsum("ij,ij->j", problem.G, problem.G))
    chosen = chosen[norms[chosen] > RESOLVED_RATIO * norms.max(initial=0.0)]
    if len(chosen):  # without a penalty, linearly dependent columns are not identified: leave them out
        _, R, order = sla.qr(problem.G[:, chosen] / norms[chosen], mode="economic", pivoting=True)
        chosen = chosen[order[: np.count_nonzero(np.abs(np.diagonal(R)) > RESOLVED_RATIO)]]
    alphas = np.full(p, np.inf)
    alphas[chosen] = 0.0
    return 0.0, alphas


def penalty_for_dof(mu: NDArray[np.float64], dof: float) -> float:
    """Return the penalty with `sum mu / (mu + alpha) = dof`, which is at most half of the number of eigenvalues mu."""
    low, high = np.log(mu.min()), np.log(mu.sum() / dof)  # where the sum is at least half of that number, and below dof
    return float(np.exp(brentq(lambda log_alpha: np.sum(mu / (mu + np.exp(log_alpha))) - dof, low, high)))


def sweep_to_convergence(
    spectrum: Spectrum, alphas: NDArray[np.float64], tol: float, max_iter: int, max_seconds: float | None
) -> tuple[NDArray[np.float64], list[float]]:
    """Sweep until the relative decrease of GCV is less than `tol`; return the penalties and GCV after each sweep."""
    problem = spectrum.problem
    G, Y, outside = problem.G, problem.Y, 0.0
    if len(G) > G.shape[1]:  # rotate the rows so that only p are left
        Q, G = np.linalg.qr(G)
        Y = Q.T @ problem.Y
        outside = float(np.sum((problem.Y - Q @ Y) ** 2))
    if not spectrum.interpolates:
        outside += EXACT_FIT_NOISE * float(np.sum(problem.Y**2))
    n, freedom = problem.rows.n, problem.rows.n - problem.rows.intercept
    largest, q = spectrum.mu.max(initial=0.0), Y.shape[1]
    r, dof = Primal(G, alphas).residual(Y)
    path = [float(gcv(outside + np.sum(r * r), n - freedom + dof, n))]
    converged, end = False, np.inf if max_seconds is None else time.perf_counter() + max_seconds
    while not converged and len(path) <= max_iter and time.perf_counter() < end:
        before = alphas.copy()
        sse, left = sweep(choose_form(G, alphas, largest), G, Y, outside, freedom, alphas, end)
        value = float(gcv(sse, n - left, n))
        if value > path[-1]:  # only by rounding: return the penalties of the sweep before
            alphas, converged = before, True
        else:
            converged = path[-1] - value <= tol * path[-1] and time.perf_counter() < end
            path.append(value)
    if not converged and time.perf_counter() >= end:
        warn(
            f"LocalRidge stopped after max_seconds={max_seconds:g} with GCV still falling: allow more time, or give "
            "fewer terms.",
            ConvergenceWarning,
        )
    elif not converged:
        warn(
            f"LocalRidge stopped after max_iter={max_iter} sweeps with GCV still falling by "
            f"{1 - path[-1] / path[-2]:.1e} a sweep: allow more sweeps or a larger tol.",
            ConvergenceWarning,
        )
    return alphas, [value / q for value in path]
