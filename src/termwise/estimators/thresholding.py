"""Orthogonalise the columns independently of y, then drop insignificant components (Hagiwara 2011).

The centred, row-scaled columns are turned into orthogonal components `a_j = sqrt(gamma_j) u_j`, `u_j` orthonormal, with
`G K = U`. With `t = U'y` the coefficient of a component is `v_j = t_j / sqrt(gamma_j)`, Hagiwara 2011 (6), so that for
the l components of the *stable set*, by Hagiwara 2011 (21), (15) and (7),

    sigma^2 = |y - U_l t_l|^2 / (n - l),
    v_j^2 > theta_j = 2 sigma^2 log(n) / gamma_j,   that is   t_j^2 > 2 sigma^2 log n

tests which components are significant. With pure noise, the probability that all of them are below the threshold tends
to one as n grows. An intercept is a component that is always in the model: it takes one of the `n - l` degrees of
freedom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.linalg as sla
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from termwise._arrays import precision
from termwise._checks import check_choice, check_number, warn
from termwise._numerics import FLOAT32, GAMMA_RATIO_MIN
from termwise.estimators.base import TermModel
from termwise.estimators.data import read
from termwise.estimators.design import DesignData, fit_design
from termwise.estimators.folds import check_repeatable, with_fold_models
from termwise.execution import select_terms
from termwise.linalg.criteria import gcv
from termwise.linalg.least_squares import Problem, measure, solution_from_factors
from termwise.linalg.spectrum import decompose
from termwise.selection.engine import Settings

Floats = NDArray[np.float64]

UNCHECKED_SHARE = 0.25  # share of the degrees of freedom a stable set may take without checking GCV
MAX_STABLE_SHARE = 0.5  # maximum share: the noise variance is estimated from the other half
MIN_RESIDUAL_SHARE = 0.1  # share that must be left for the estimate Hagiwara 2011 (21)


@dataclass(frozen=True)
class Components:
    """Orthonormal components, the largest gamma first, and the map from them back to weights."""

    problem: Problem
    U: Floats  # (n, L)
    gammas: Floats  # (L,)
    K: Floats  # (k, L), `G_S K = U`
    support: NDArray[np.intp]  # (k,), the columns S
    nested: bool  # whether component j is made of the first j + 1 columns of S alone

    @cached_property
    def t(self) -> Floats:
        """`U'y`, of shape (L, q)."""
        return self.U.T @ self.problem.Y

    @cached_property
    def sse(self) -> Floats:
        """Squared error of the first 0, 1, ..., L components, (L + 1, q), as sums of positive numbers."""
        rest = self.problem.Y - self.U @ self.t
        parts = np.vstack([self.t**2, np.einsum("ij,ij->j", rest, rest)])
        return np.cumsum(parts[::-1], axis=0)[::-1]


def eigen(problem: Problem, design: DesignData, min_gamma: float, ratio: float, max_size: int | None) -> Components:
    """Principal components: gamma are the eigenvalues of `G'G`, computed as squared singular values of G."""
    rows = problem.rows
    z0 = np.sqrt(rows.sample_weight / rows.n) if rows.intercept else None
    U, s, V = decompose(problem.G, z0, rounding=problem.rounding)
    above = np.flatnonzero(s**2 > max(min_gamma, ratio * np.max(s**2, initial=0.0)))[:max_size]
    U, s = U[:, above], s[above]
    V = problem.G.T @ (U / s) if V is None else V[:, above]
    return Components(problem, U, s**2, V / s, np.arange(len(V)), nested=False)


def gram_schmidt(
    problem: Problem, design: DesignData, min_gamma: float, ratio: float, max_size: int | None
) -> Components:
    """Pivoted Gram-Schmidt: orthogonalise the column with the largest residual norm next (Hagiwara 2011, section 4.2).

    With `G_S = Z R` the components are the columns of Z, and gamma are the squares of the diagonal of R.
    """
    largest = float(np.max(np.einsum("ij,ij->j", problem.G, problem.G)))
    settings = Settings(
        rule="norm",
        alpha=0.0,
        max_terms=max_size,
        precompute=False,  # products with G'G would lose the digits that distinguish small residual norms
        fit_intercept=problem.rows.intercept,
        min_norm=max(min_gamma, ratio * largest),
    )
    G = design.G.astype(np.float64, copy=False)
    path = select_terms(G, design.Y, problem.rows.sample_weight, settings, one_output=False)
    Z, R = path.training.Z, path.training.R
    K = sla.solve_triangular(R, np.eye(len(R))) if len(R) else R
    return Components(problem, Z, np.diagonal(R) ** 2, K, path.terms, nested=True)


METHODS: dict[str, Callable[..., Components]] = {"eigen": eigen, "gram_schmidt": gram_schmidt}


def stable_size(components: Components, freedom: float, model: OrthogonalThresholdRegressor) -> int:
    """Return the size l of the stable set, given the degrees of freedom without components.

    All components, if they leave enough degrees of freedom to estimate the noise variance. Otherwise Hagiwara 2011
    (21) is a ratio of two small numbers, and the residual is not representative of the noise; the set then ends at the
    minimum of GCV and takes at most half of the degrees of freedom.
    """
    gammas, rows = components.gammas, components.problem.rows
    if model.stable == "all" and len(gammas) <= (1 - MIN_RESIDUAL_SHARE) * freedom:
        return len(gammas)
    size = int(np.sum(gammas > GAMMA_RATIO_MIN * np.max(gammas, initial=0.0)))
    if size > UNCHECKED_SHARE * freedom:
        sizes = np.arange(min(size, int(MAX_STABLE_SHARE * freedom)) + 1)
        size = int(np.argmin(gcv(components.sse.mean(axis=1)[sizes], sizes + rows.intercept, rows.n)))
    if model.stable == "all" and size < len(gammas):
        warn(
            f"tol={model.tol:g} leaves {freedom - len(gammas):g} of {freedom:g} degrees of freedom to estimate the "
            f"noise from, which is too few: only the {size} leading components were tested. Raise tol, or use "
            "stable='auto' to have this done silently.",
            UserWarning,
        )
    return size


class OrthogonalThresholdRegressor(MultiOutputMixin, RegressorMixin, TermModel):
    """Least squares on orthogonal components, hard-thresholded.

    Orthogonalises the columns of the design matrix independently of the targets, and compares the coefficient of each
    component with the universal threshold of pure noise. There is nothing to tune. With
    `stable="all"` the defaults of `method` and `keep` are Hagiwara's OHTED2, their other settings OHTED, OHTGS2 and
    OHTGS; the default `stable="auto"` tests fewer components where these take many degrees of freedom.

    Parameters
    ----------
    basis : transformer or None, default=None
        Yields the design matrix: one of `termwise.basis` or any scikit-learn transformer. None: the columns of X.
    method : {"eigen", "gram_schmidt"}, default="eigen"
        Principal components, linear combinations of all columns, or pivoted Gram-Schmidt, which orthogonalises the
        column with the largest residual norm next: the model then depends on the selected columns only.
    keep : {"leading", "significant"}, default="leading"
        Keep all components up to the last significant one, or only the significant ones. The leading components are
        smooth and add little variance; omitting some adds bias.
    tol : float, default=1e-10
        Components with `gamma <= tol` are never used; gamma is an eigenvalue of `G'G`, or the squared norm of an
        orthogonalised column. In the units of G squared, without the means if there is an intercept.
    threshold : float, default=1.0
        Scales the threshold levels; 0 keeps the whole stable set.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    stable : {"auto", "all"}, default="auto"
        Which of the components above `tol` are tested. "auto": those with at least 1e-10 of the largest gamma; if they
        take more than a quarter of the degrees of freedom, the leading ones that minimise GCV, at most half of the
        degrees of freedom. "all": all of them, as in the paper, if they leave a tenth of the degrees of freedom; else
        the set is truncated as by "auto", with a warning. In float32, smaller components than 1e-10 of the largest
        gamma are rounding, and never used.
    selection_cv : int, splitter, iterable or None, default=None
        Folds in which `fit` repeats the whole fit, selection of terms included: for `predict_interval` by CV+ and
        `selection_frequency_`, at the cost of one more fit per fold. 10 is a good number; samples are then shuffled
        with a fixed seed, those with equal inputs in the same fold. A splitter or an iterable of (train, test) indices
        as in scikit-learn's `cv` must leave out each sample once at most.

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
        Thresholds of the squared coefficients.
    stable_noise_variance_ : float or ndarray of shape (q,)
        Noise variance of the thresholds, from the residuals of the stable set; `noise_variance_` is from the residuals
        of the model.
    support_ : ndarray of shape (k,)
        The columns in the model: all p of them for principal components, the first m selected by Gram-Schmidt, in
        order of selection; none if no component is significant.
    weights_, n_terms_ : ndarray, int
        Their weights and number.
    coef_ : ndarray of shape (p,) or (q, p)
        Weights of all columns.
    selection_frequency_ : ndarray of shape (d,)
        Share of the fold models that use each input; only with `selection_cv`.
    intercept_, basis_, effective_dof_, noise_variance_, criterion_value_, criteria_, loo_residuals_, weights_cov_
        As in `BasisRidge`; the criterion is BIC. Leave-one-out holds the components fixed.

    See Also
    --------
    BasisRidge : Shrinks components instead of dropping them; usually slightly more accurate.
    ForwardRegressor : Selects columns by the targets; far fewer of them.

    Notes
    -----
    Use "gram_schmidt" if few columns are to be evaluated for predictions, "eigen" for accuracy. Gram-Schmidt takes one
    pass over the design matrix for each component of the stable set. It does not depend on y: its models are larger
    than those of `ForwardRegressor`. Columns with a residual squared norm of less than 1e-10 of their own are linearly
    dependent and excluded, independently of `tol`.

    Choose widths by `CriterionSearch`, which minimises BIC here: its penalty for a component grows like log n, as the
    thresholds do. Leave-one-out is misleading, since without a penalty a component may depend on a single isolated
    sample of high leverage, whose leave-one-out error is not representative of new samples.

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

    selects_terms = True

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
        selection_cv: Any = None,
    ) -> None:
        self.basis = basis
        self.method = method
        self.keep = keep
        self.tol = tol
        self.threshold = threshold
        self.fit_intercept = fit_intercept
        self.stable = stable
        self.selection_cv = selection_cv

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
        check_repeatable(self, X, y)
        data = read(self, X, y, sample_weight, basis=self.basis)
        design = fit_design(self, self.basis, data)
        problem = design.problem(self.fit_intercept)
        freedom = problem.rows.n - problem.rows.intercept
        max_size = int(MAX_STABLE_SHARE * freedom) if self.stable == "auto" else None
        # In float32 the rounding of the columns is almost as large as smaller components.
        ratio = GAMMA_RATIO_MIN if self.stable == "auto" or precision(design.G.dtype) == FLOAT32 else 0.0
        components = METHODS[self.method](problem, design, self.tol, ratio, max_size)
        size = stable_size(components, freedom, self)
        noise = components.sse[size] / (freedom - size)  # Hagiwara 2011 (21), (q,)
        # The universal threshold of `t_j^2`, Hagiwara 2011 (15).
        limit = self.threshold * 2 * noise * np.log(problem.rows.n)
        kept = np.flatnonzero(np.any(components.t[:size] ** 2 > limit, axis=1))  # significant for any output
        if self.keep == "leading":
            kept = np.arange(kept.max(initial=-1) + 1)
        gammas = components.gammas[:size].copy()
        chosen = components.support if len(kept) else components.support[:0]
        if components.nested:
            chosen = chosen[: kept.max(initial=-1) + 1]
        solution = solution_from_factors(problem, components.K[: len(chosen), kept], components.U[:, kept])
        problem = replace(problem, G_mean=problem.G_mean[chosen])
        terms = design.fitted_terms(problem, solution, measure(problem.rows, solution), "bic", chosen)
        return self._store(
            with_fold_models(self, terms, X, y, sample_weight),
            n_stable_=size,
            n_components_=len(kept),
            gammas_=gammas,
            orthogonal_coef_=terms.squeeze((components.t[:size] / np.sqrt(gammas)[:, None]).T, axis=0),
            thresholds_=terms.squeeze((limit / gammas[:, None]).T, axis=0),
            stable_noise_variance_=terms.squeeze(noise, axis=0),
        )
