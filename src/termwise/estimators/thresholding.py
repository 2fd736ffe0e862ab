"""Orthogonalise the columns without a look at y, then drop the components that noise explains (Hagiwara 2011).

The centred, row-scaled columns are turned into orthogonal components `a_j = sqrt(gamma_j) u_j`, `u_j` orthonormal, with
`G K = U`. With `t = U'y` the coefficient of a component is `v_j = t_j / sqrt(gamma_j)` (6), so that for the l
components of the *stable set*

    sigma^2 = |y - U_l t_l|^2 / (n - l)                                                                   (21)
    v_j^2 > theta_j = 2 sigma^2 log(n) / gamma_j,   that is   t_j^2 > 2 sigma^2 log n                     (15), (7)

says which components are significant. Noise alone stays below the threshold in all of them together, ever more surely
as n grows. An intercept is a component that is always in: it takes one from the `n - l` degrees of freedom.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.linalg as sla
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from termwise._checks import check_choice, check_number
from termwise._numerics import GAMMA_RATIO_MIN
from termwise.estimators.base import TermModel
from termwise.estimators.data import DesignData, fit_design, read
from termwise.execution import select_terms
from termwise.linalg.criteria import gcv
from termwise.linalg.least_squares import Problem, Solution, measure, pose, solution_from_factors
from termwise.linalg.spectrum import decompose
from termwise.selection.engine import Settings

Floats = NDArray[np.float64]

UNCHECKED_SHARE = 0.25  # share of the degrees of freedom a stable set may take without a look at GCV
MAX_STABLE_SHARE = 0.5  # share it may take at all: the noise is estimated from the other half
MIN_RESIDUAL_SHARE = 0.1  # share that must be left for Hagiwara 2011 (21) to be an estimate


@dataclass(frozen=True)
class Components:
    """Orthonormal components, the largest gamma first, and the way from them back to weights."""

    problem: Problem
    U: Floats  # (n, L)
    gammas: Floats  # (L,)
    root: Floats  # (k, L), `G_S root = U`
    support: NDArray[np.intp]  # (k,), the columns S
    nested: bool  # whether component j is made of the first j + 1 columns of S alone

    @cached_property
    def t(self) -> Floats:
        """`U'y`, of shape (L, q)."""
        return self.U.T @ self.problem.Y

    @property
    def freedom(self) -> float:
        """Degrees of freedom there are to begin with."""
        return self.problem.rows.n - self.problem.rows.intercept

    def squared_errors(self) -> Floats:
        """Squared error of the first 0, 1, ..., L components, (L + 1, q), as sums in which nothing cancels."""
        rest = self.problem.Y - self.U @ self.t
        parts = np.vstack([self.t**2, np.einsum("ij,ij->j", rest, rest)])
        return np.cumsum(parts[::-1], axis=0)[::-1]


def eigen(problem: Problem, design: DesignData, tol: float, ratio: float, most: int | None) -> Components:
    """Principal components: gamma are the eigenvalues of `G'G`, taken as squares of the singular values of G."""
    rows = problem.rows
    U, s, V = decompose(problem.G, np.sqrt(rows.counts / rows.n) if rows.intercept else None)
    above = np.flatnonzero(s**2 > max(tol, ratio * np.max(s**2, initial=0.0)))[:most]
    U, s = U[:, above], s[above]
    V = problem.G.T @ (U / s) if V is None else V[:, above]
    return Components(problem, U, s**2, V / s, np.arange(len(V)), nested=False)


def gram_schmidt(problem: Problem, design: DesignData, tol: float, ratio: float, most: int | None) -> Components:
    """Orthogonalise the column that has most left beside the chosen ones, again and again (section 4.2).

    With `G_S = Z R` the components are the columns of Z, and gamma are the squares of the diagonal of R.
    """
    largest = float(np.max(np.einsum("ij,ij->j", problem.G, problem.G)))
    settings = Settings(
        rule="norm",
        alpha=0.0,
        max_terms=most,
        precompute=False,  # products with G'G would cost the digits that tell small rests apart
        fit_intercept=problem.rows.intercept,
        min_norm=max(tol, ratio * largest),
    )
    G = design.G.astype(np.float64, copy=False)
    path = select_terms(G, design.Y, problem.rows.counts, settings, one_output=False)
    Z, R = path.training().Z, path.training().R
    root = sla.solve_triangular(R, np.eye(len(R))) if len(R) else R
    return Components(problem, Z, np.diagonal(R) ** 2, root, path.terms, nested=True)


METHODS: dict[str, Callable[..., Components]] = {"eigen": eigen, "gram_schmidt": gram_schmidt}


def orthogonalise(design: DesignData, model: OrthogonalThresholdRegressor) -> Components:
    """Find the components a stable set may hold, and no others."""
    problem = pose(design.G, design.Y, design.weights, model.fit_intercept)
    ratio, most = 0.0, None
    if model.stable == "auto":
        ratio, most = GAMMA_RATIO_MIN, int(MAX_STABLE_SHARE * (problem.rows.n - problem.rows.intercept))
    return METHODS[model.method](problem, design, model.tol, ratio, most)


def stable_size(components: Components, stable: str) -> int:
    """Return the size l of the stable set.

    All components there are, if they leave enough degrees of freedom for the noise. Else (21) is a quotient of two
    numbers near zero, and what little is left of y is no fair sample of its noise; the set then ends where GCV is
    least, which is where further components stop telling more than noise does, and takes half of the freedom at most.
    """
    freedom, total = components.freedom, len(components.gammas)
    if stable == "all" and total <= (1 - MIN_RESIDUAL_SHARE) * freedom:
        return total
    flat = int(np.sum(components.gammas > GAMMA_RATIO_MIN * np.max(components.gammas, initial=0.0)))
    if flat <= UNCHECKED_SHARE * freedom:
        return flat
    sizes = np.arange(min(flat, int(MAX_STABLE_SHARE * freedom)) + 1)
    rows, sse = components.problem.rows, components.squared_errors().mean(axis=1)
    return int(np.argmin(gcv(sse[sizes], sizes + rows.intercept, rows.n)))


def significant_components(
    components: Components, size: int, threshold: float, keep: str
) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Compare the first components with their thresholds; one that is significant for any output is kept.

    Returns sigma^2 of each output, Hagiwara 2011 (21), the thresholds theta (15) and the indices of those kept.
    """
    noise = components.squared_errors()[size] / (components.freedom - size)
    limit = threshold * 2 * noise * np.log(components.problem.rows.n)
    significant = np.flatnonzero(np.any(components.t[:size] ** 2 > limit, axis=1))
    if keep == "leading":
        significant = np.arange(significant.max(initial=-1) + 1)
    return noise, limit / components.gammas[:size, None], significant


def solve_components(components: Components, kept: NDArray[np.intp]) -> tuple[NDArray[np.intp], Solution]:
    """Return the columns a model of some components needs, and their weights."""
    size = 0 if not len(kept) else int(kept[-1]) + 1 if components.nested else len(components.support)
    solution = solution_from_factors(components.problem, components.root[:size, kept], components.U[:, kept])
    return components.support[:size], solution


class OrthogonalThresholdRegressor(MultiOutputMixin, RegressorMixin, TermModel):
    """Least squares on orthogonal components, without those that noise explains.

    Orthogonalises the columns of the design, never looking at the targets, and compares the coefficient of each
    component with what pure noise would bring about. Nothing is tuned: this is Hagiwara's OHTED2 with the defaults, and
    OHTED, OHTGS2 and OHTGS with the other settings of `method` and `keep`.

    Parameters
    ----------
    basis : transformer or None, default=None
        Yields the design matrix: one of `termwise.basis` or any scikit-learn transformer. None: the columns of X.
    method : {"eigen", "gram_schmidt"}, default="eigen"
        Components are the principal components, made of all columns, or come from a Gram-Schmidt procedure that takes
        the column with the largest rest each time: the model then needs only the columns taken.
    keep : {"leading", "significant"}, default="leading"
        Keep all components up to the last significant one, or the significant ones alone. The leading components are
        smooth and cheap to keep; leaving some out costs bias.
    tol : float, default=1e-10
        Components with `gamma <= tol` are never used; gamma is an eigenvalue of `G'G`, or the squared norm of an
        orthogonalised column. In the units of G squared, without the means if there is an intercept.
    threshold : float, default=1.0
        Scales the threshold levels; 0 keeps the whole stable set.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    stable : {"auto", "all"}, default="auto"
        Which of the components above `tol` are put to the test. "auto": those with at least 1e-10 of the largest gamma;
        if they take more than a quarter of the degrees of freedom, as many of them as have the least GCV, half of the
        degrees of freedom at most. "all": all of them, as in the paper, as long as they leave a tenth of the degrees
        of freedom; else the set is cut as by "auto", with a warning.

    Attributes
    ----------
    n_components_ : int
        Number m of components kept; 0 leaves the mean (or zero, without an intercept).
    n_stable_ : int
        Number l of components in the stable set.
    gammas_ : ndarray of shape (l,)
        Squared norm of each of them, descending.
    orthogonal_coef_ : ndarray of shape (l,) or (q, l)
        Their coefficients before thresholding.
    thresholds_ : ndarray of shape (l,) or (q, l)
        What the square of each coefficient must exceed.
    stable_noise_variance_ : float or ndarray of shape (q,)
        Noise variance the thresholds rest on, from what the stable set leaves; `noise_variance_` is from what the model
        leaves.
    support_ : ndarray of shape (k,)
        The columns in the model: all p of them for principal components, the first m taken for Gram-Schmidt, in the
        order they were taken; none if nothing is significant.
    weights_, n_terms_ : ndarray, int
        Their weights and number.
    coef_ : ndarray of shape (p,) or (q, p)
        Weights of all columns.
    intercept_, basis_, effective_dof_, noise_variance_, criterion_value_, criteria_, loo_residuals_, weights_cov_
        As in `BasisRidge`; the criterion is BIC. Leave-one-out holds the components fixed.

    See Also
    --------
    BasisRidge : Shrinks components instead of dropping them; usually a little more accurate.
    ForwardRegressor : Chooses columns by the targets; far fewer of them.

    Notes
    -----
    Use "gram_schmidt" when few columns shall be evaluated at prediction, "eigen" for accuracy. Gram-Schmidt takes one
    pass over the design for each component the stable set may hold, no more. It does not look at y: its models are
    larger than those of `ForwardRegressor`. Columns that keep less than 1e-10 of their own squared norm beside those
    taken count as dependent, whatever `tol` says.

    Widths are best chosen by `CriterionSearch`, which goes by BIC here: its price of a component grows like log n, as
    the thresholds do. Leave-one-out misleads, since without a penalty a component may hang on a single sample far from
    all others, whose error when left out says little about samples to come.

    Examples
    --------
    >>> from termwise import OrthogonalThresholdRegressor, RadialBasis, datasets
    >>> X, y = datasets.make_hermite(random_state=1)
    >>> model = OrthogonalThresholdRegressor(RadialBasis(width=0.5)).fit(X, y)
    >>> model.n_components_ <= model.n_stable_ < len(X)
    True
    >>> sparse = OrthogonalThresholdRegressor(RadialBasis(width=0.5), method="gram_schmidt").fit(X, y)
    >>> sparse.n_terms_ == sparse.n_components_ < 30
    True
    """

    def __init__(
        self,
        basis: Any = None,
        method: str = "eigen",
        keep: str = "leading",
        tol: float = 1e-10,
        threshold: float = 1.0,
        fit_intercept: bool = True,
        *,
        stable: str = "auto",
    ) -> None:
        self.basis = basis
        self.method = method
        self.keep = keep
        self.tol = tol
        self.threshold = threshold
        self.fit_intercept = fit_intercept
        self.stable = stable

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
        check_choice("method", self.method, METHODS, remedy="'eigen' is the more accurate, 'gram_schmidt' is sparse")
        check_choice("keep", self.keep, ["leading", "significant"], remedy="'leading' has the smaller bias")
        check_number("tol", self.tol, low=0, remedy="1e-10 leaves out what float64 cannot resolve")
        check_number("threshold", self.threshold, low=0, remedy="1 is the level noise stays below")
        check_choice("stable", self.stable, ["auto", "all"], remedy="'auto' leaves enough to estimate the noise from")
        data = read(self, X, y, sample_weight, basis=self.basis)
        design = fit_design(self, self.basis, data)
        components = orthogonalise(design, self)
        size = stable_size(components, self.stable)
        if self.stable == "all" and size < len(components.gammas):
            left = components.freedom - len(components.gammas)
            warnings.warn(
                f"tol={self.tol:g} leaves {left:g} of {components.freedom:g} degrees of freedom to estimate the noise "
                f"from, which is too few: only the {size} leading components were tested. Raise tol, or use "
                "stable='auto' to have this done silently.",
                UserWarning,
                stacklevel=2,
            )
        noise, thresholds, kept = significant_components(components, size, self.threshold, self.keep)
        chosen, solution = solve_components(components, kept)
        gammas = components.gammas[:size].copy()
        problem = replace(components.problem, G_mean=components.problem.G_mean[chosen])
        terms = design.fitted_terms(problem, solution, measure(problem.rows, solution), "bic", chosen)
        return self._store(
            terms,
            n_stable_=size,
            n_components_=len(kept),
            gammas_=gammas,
            orthogonal_coef_=terms.squeeze((components.t[:size] / np.sqrt(gammas)[:, None]).T, axis=0),
            thresholds_=terms.squeeze(thresholds.T, axis=0),
            stable_noise_variance_=terms.squeeze(noise, axis=0),
        )
