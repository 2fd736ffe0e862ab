"""Inference on selected terms by randomisation: noise added to the targets makes selection and inference independent.

For y ~ N(mu, sigma^2 I) and an independent w ~ N(0, sigma^2 I),

    u = y + gamma w    and    v = y - w / gamma

have covariance `sigma^2 - sigma^2 = 0` and are therefore independent. Terms S are selected with u by any procedure, and
least squares of v on the columns G_S is inference with terms that are fixed in advance (Tian and Taylor 2018; Rasines
and Young 2023; data fission of Leiner, Duan, Wasserman and Ramdas 2025):

    b = G_S^+ v ~ N(G_S^+ mu, tau^2 (G_S' G_S)^-1),    tau^2 = sigma^2 (1 + 1 / gamma^2).

With `gamma^2 = (1 - f) / f` the variances of u and v are `sigma^2 / f` and `sigma^2 / (1 - f)`: the selection has the
share f of the information, as if it were done on that share of the samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn.base import is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state

from termwise._arrays import densify, is_foreign, rows_of, to_host
from termwise._checks import check_number, check_targets, import_optional
from termwise._numerics import NOISE_SHARE_MIN
from termwise.estimators.base import TermModel
from termwise.estimators.glm import REGRESSOR_LOSSES
from termwise.estimators.refits import check_rows, find_model, refit
from termwise.linalg.least_squares import Solution, least_squares_problem, solve_penalised

Floats = NDArray[np.float64]

SELECTION_SHARE = 0.5  # as much information for selection as for inference, as in sample splitting
RESIDUAL_SHARE = 1 / 3  # of n: with as many residual degrees of freedom, all candidates are used for the noise
MIN_FREEDOM = 0.5  # residual degrees of freedom: at least one, but for rounding
MIN_FOLD_SAMPLES = 4  # leave a degree of freedom beside two terms and the intercept
NOISE_FOLDS = 5  # of refitted cross-validation: with two, selection on half of the samples misses too many terms


@dataclass(frozen=True, repr=False)
class InferenceResult:
    """Estimates, confidence intervals and p-values of selected terms, returned by `inference`.

    The parameters are the coefficients of the least-squares projection of the mean of y on the selected terms: they
    are defined whether or not the terms are the true ones, and those of a term depend on which others were selected.

    Attributes
    ----------
    terms : ndarray of shape (k,)
        Names of the terms.
    support : ndarray of shape (k,)
        Their positions among the candidates, in order of selection where that is known.
    estimate, std_error : ndarrays of shape (k,)
        Estimates and their standard errors.
    lower, upper : ndarrays of shape (k,)
        Ends of the confidence intervals.
    p_value : ndarray of shape (k,)
        Two-sided p-values of the hypothesis that the parameter is zero.
    level : float
        Confidence level of each interval.
    noise_variance : float
        Variance of the noise, given or estimated.
    noise_freedom : float
        Degrees of freedom of that estimate, and of the t distribution that is used; infinite for a given variance.
    noise_method : {"given", "least squares on all candidates", "refitted cross-validation"}
        How the noise variance was obtained.
    residual_ratio : float
        Residual variance of the targets used for inference, as a multiple of what noise of `noise_variance` alone has.
        Well above 1, the terms miss a part of the mean of y; well below 1, the noise variance is too large.
    n_samples : float
        Number of samples, the sum of their weights.
    selection_share : float
        Share of the information that the selection used.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import ForwardRegressor, inference
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> y = X[:, 3] + rng.normal(size=200)
    >>> result = inference(ForwardRegressor(), X, y, random_state=0)
    >>> list(result.terms)
    ['x3']
    >>> bool(result.lower[0] < 1 < result.upper[0])
    True
    """

    terms: NDArray[np.object_]
    support: NDArray[np.intp]
    estimate: Floats
    std_error: Floats
    lower: Floats
    upper: Floats
    p_value: Floats
    level: float
    noise_variance: float
    noise_freedom: float
    noise_method: str
    residual_ratio: float
    n_samples: float
    selection_share: float

    def to_frame(self) -> Any:
        """Return the table of the terms as a pandas data frame."""
        names = ("support", "estimate", "std_error", "lower", "upper", "p_value")
        table = {"term": self.terms, **{name: getattr(self, name) for name in names}}
        return import_optional("pandas", "cli", "to_frame").DataFrame(table)

    def summary(self, max_terms: int = 20) -> str:
        """Describe the result; the terms are in order of selection.

        Parameters
        ----------
        max_terms : int, default=20
            How many terms to list.
        """
        check_number("max_terms", max_terms, low=1, integer=True, remedy="list at least one term")
        k = len(self.terms)
        freedom = "" if np.isinf(self.noise_freedom) else f", {self.noise_freedom:.4g} degrees of freedom"
        lines = [
            f"inference after selection: {k} term{'s' * (k != 1)}, {self.n_samples:g} samples, "
            f"{self.selection_share:.0%} of the information for selection",
            f"noise {self.noise_variance**0.5:.4g} (standard deviation; {self.noise_method}{freedom}), "
            f"residual variance {self.residual_ratio:.3g} times that of the noise",
        ]
        if not k:
            return "\n".join([*lines, "no terms were selected"])
        lines.append("estimates: projection of the mean of y on these terms, by least squares without penalty")
        shown = range(min(max_terms, k))
        width = max(4, *(len(self.terms[j]) for j in shown))
        interval = f"{100 * self.level:g}% interval"
        lines.append(f"{'term':<{width}}  {'estimate':>11}  {'std. error':>11}  {interval:>24}  {'p-value':>8}")
        for j in shown:
            ends = f"{self.lower[j]:.4g} to {self.upper[j]:.4g}"
            numbers = f"{self.estimate[j]:>11.4g}  {self.std_error[j]:>11.4g}  {ends:>24}  {self.p_value[j]:>8.2g}"
            lines.append(f"{self.terms[j]:<{width}}  {numbers}")
        if len(shown) < k:
            lines.append(f"... and {k - len(shown)} more")
        return "\n".join(lines)

    __str__ = __repr__ = summary


def inference(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    level: float = 0.95,
    *,
    sample_weight: ArrayLike | None = None,
    noise_variance: float | None = None,
    selection_share: float = SELECTION_SHARE,
    random_state: int | np.random.RandomState | None = None,
) -> InferenceResult:
    """Select terms and infer their coefficients, with intervals and p-values that are valid after the selection.

    Independent Gaussian noise `w` is drawn; a clone of the estimator selects terms with the targets `y + gamma w`, and
    the coefficients are estimated by least squares on the selected terms with the targets `y - w / gamma`, which are
    independent of the selection if the noise of y is Gaussian and `w` has its variance.

    Parameters
    ----------
    estimator : regressor of termwise, selector of scikit-learn, or a pipeline or search that ends in one
        Selects the terms. Its weights, which may be penalised, are not used.
    X : array-like, sparse matrix or data frame of shape (n, d)
        Inputs; they are considered fixed.
    y : array-like of shape (n,)
        Targets.
    level : float, default=0.95
        Confidence level of each interval.
    sample_weight : array-like of shape (n,), default=None
        Numbers of observations that each sample is the mean of: the variance of its noise is `noise_variance` divided
        by its weight. A common factor of all weights changes `noise_variance` alone.
    noise_variance : float, default=None
        Variance of the noise of y, where it is known, from repeated measurements for example. By default it is
        estimated, see Notes.
    selection_share : float, default=0.5
        Share of the information that is used for selection. The variances of the two sets of targets are
        `noise_variance / selection_share` and `noise_variance / (1 - selection_share)`. A larger share finds more of
        the relevant terms, a smaller one gives shorter intervals.
    random_state : int, RandomState instance or None, default=None
        Draws `w`, and the splits for the noise variance.

    Returns
    -------
    result : InferenceResult
        Arrays `terms`, `support`, `estimate`, `std_error`, `lower`, `upper` and `p_value`; `summary()`, which `print`
        shows, and `to_frame()`.

    See Also
    --------
    stability : How often terms are selected on subsamples.

    Notes
    -----
    *Parameters.* The projection of the mean of y on the selected terms, by least squares without penalty. Intervals
    cover each of its coefficients with probability `level`, averaged over the noise, whatever rule and criterion
    selected the terms. They are not simultaneous: of many intervals, about the share `1 - level` misses.

    *Selected terms.* The selection sees noisier targets than `fit(X, y)` and tends to have fewer terms. Other values
    of `random_state` select other terms; report the result of one that was fixed beforehand.

    *Noise variance.* If the candidates are the columns of X and leave at least a third of n as residual degrees of
    freedom, it is estimated from the residuals of least squares on all of them, which no selection affects. Otherwise
    it is estimated by refitted cross-validation (Fan, Guo and Hao 2012) with five folds: terms are selected on four of
    them, and the residual variance is that of least squares on the fifth, on at most half as many of the terms as it
    has samples. Relevant terms that are missed make this estimate too large and the intervals wider, but hardly change
    their coverage. It takes five more fits.

    *Assumptions.* Independent noise of constant variance. Noise that is not Gaussian leaves the two sets of targets
    uncorrelated but not independent; the estimates are then approximately valid, by the central limit theorem. Time
    series whose past values are among the inputs are not covered.

    References
    ----------
    Tian and Taylor, Selective inference with a randomized response, Annals of Statistics 46, 2018. Rasines and Young,
    Splitting strategies for post-selection inference, Biometrika 110, 2023. Fan, Guo and Hao, Variance estimation using
    refitted cross-validation in ultrahigh dimensional regression, JRSS B 74, 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import ForwardRegressor, inference
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> result = inference(ForwardRegressor(), X, y, random_state=0)
    >>> bool(result.lower[0] <= result.estimate[0] <= result.upper[0])
    True
    """
    check_settings(estimator, level, selection_share, noise_variance)
    X, y, weights = check_data(X, y, sample_weight)
    rng = check_random_state(random_state)
    variance, freedom, method = noise_variance, np.inf, "given"
    if variance is None:
        variance, freedom, method = estimate_noise(estimator, X, y, weights, rng)
    gamma = ((1 - selection_share) / selection_share) ** 0.5
    w = rng.normal(size=len(y)) * np.sqrt(variance / (1.0 if weights is None else weights))
    terms = refit(estimator, X, y + gamma * w, weights)
    solution = solve_terms(terms.columns(X), y - w / gamma, weights, terms.intercept)
    check_rank(solution, len(terms.support), len(y))
    spread = variance / (1 - selection_share)
    estimate, std_error = solution.weights[:, 0], np.sqrt(spread * solution.unit_variances())
    half = stats.t.ppf((1 + level) / 2, freedom) * std_error
    return InferenceResult(
        terms=np.array(terms.names, dtype=object),
        support=np.asarray(terms.support),
        estimate=estimate,
        std_error=std_error,
        lower=estimate - half,
        upper=estimate + half,
        p_value=2 * stats.t.sf(np.abs(estimate) / std_error, freedom),
        level=float(level),
        noise_variance=float(variance),
        noise_freedom=float(freedom),
        noise_method=method,
        residual_ratio=float(solution.sse[0] / residual_freedom(solution) / spread),
        n_samples=float(len(y) if weights is None else weights.sum()),
        selection_share=float(selection_share),
    )


def check_settings(estimator: Any, level: Any, selection_share: Any, noise_variance: Any) -> None:
    """Validate the arguments other than data."""
    if is_classifier(estimator):
        raise ValueError(
            f"estimator must be a regressor, got {type(estimator).__name__}: inference adds Gaussian noise to the "
            "targets, which classes do not allow; use stability for classifiers."
        )
    model = find_model(estimator)[1]
    loss = getattr(model, "loss", "squared")
    if "log" in (getattr(model, "link", "identity"), getattr(model, "link_", "identity")):
        raise ValueError(
            "link must be 'identity' or 'auto' for inference, got 'log' or a model of 'auto' that has chosen it: "
            "Gaussian noise is added to the targets; give their logarithms."
        )
    if loss in REGRESSOR_LOSSES and loss != "squared":
        raise ValueError(
            f"loss must be 'squared' for inference, got {loss!r}: it adds Gaussian noise to the targets of a "
            "least-squares fit; use stability for other losses."
        )
    check_number("level", level, above=0, below=1, remedy="0.95 gives 95 % intervals")
    check_number("selection_share", selection_share, above=0, below=1, remedy="0.5 is as much for inference")
    if noise_variance is not None:
        check_number("noise_variance", noise_variance, above=0, remedy="None estimates it")


def check_data(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Floats, Floats | None]:
    """Return valid inputs, targets and weights of the samples with positive weight."""
    X, weights = check_rows(X, y, sample_weight, "inference")
    y = check_targets(y)
    if y.ndim > 1 and y.shape[1] > 1:
        raise ValueError(
            f"y must have one output, got {y.shape[1]}: call inference for each output, with terms of its own."
        )
    y = y.ravel()
    if weights is None or weights.all():
        return X, y, weights
    used = np.flatnonzero(weights)
    return rows_of(X, used), y[used], weights[used]


def solve_terms(G: Floats, y: Floats, weights: Floats | None, intercept: bool) -> Solution:
    """Least squares without penalty on all columns of G."""
    problem = least_squares_problem(G, y[:, None], np.ones(len(y)) if weights is None else weights, intercept)
    return solve_penalised(problem, np.arange(G.shape[1]), np.zeros(G.shape[1]))


def residual_freedom(solution: Solution) -> float:
    """Degrees of freedom of the residuals: one for each row, which is one observation with variance sigma^2 / weight.

    `Solution.freedom` counts repeats instead, which have residuals of their own only where they are rows.
    """
    return len(solution.B) - solution.dof


def check_rank(solution: Solution, n_terms: int, n_rows: int) -> None:
    """Raise if the selected terms interpolate, or if some are linear combinations of others."""
    rank = solution.factors[0].shape[1]
    if min(solution.freedom, n_rows - rank - 1) < MIN_FREEDOM:
        raise ValueError(
            f"estimator must leave residual degrees of freedom, got {n_terms} terms selected for {n_rows} samples, a "
            "model that interpolates: limit max_terms, or use a criterion that selects fewer terms."
        )
    if rank < n_terms:
        raise ValueError(
            f"estimator must select linearly independent terms, got {n_terms} of rank {rank}: remove candidates that "
            "are combinations of others."
        )


def estimate_noise(
    estimator: Any, X: Any, y: Floats, weights: Floats | None, rng: np.random.RandomState
) -> tuple[float, float, str]:
    """Return the variance of the noise, the degrees of freedom of the estimate, and the method."""
    n, d = X.shape
    columns = estimator.basis is None if isinstance(estimator, TermModel) else isinstance(estimator, SelectorMixin)
    if columns and n - d - 1 >= RESIDUAL_SHARE * n:
        method = "least squares on all candidates"
        G = to_host(X) if is_foreign(X) else densify(X)
        solution = solve_terms(np.asarray(G, dtype=np.float64), y, weights, getattr(estimator, "fit_intercept", True))
        sse, freedom = float(solution.sse[0]), residual_freedom(solution)
    else:
        method = "refitted cross-validation"
        enough = n >= NOISE_FOLDS * MIN_FOLD_SAMPLES
        sse, freedom = refitted_residuals(estimator, X, y, weights, rng) if enough else (0.0, 0.0)
    if freedom <= 0 or sse / freedom <= NOISE_SHARE_MIN * y.var():
        raise ValueError(
            f"noise_variance must be given where it cannot be estimated, got a residual sum of squares of {sse:.3g} "
            f"on {max(freedom, 0):.3g} degrees of freedom from {n} samples: give a number, or more data."
        )
    return sse / freedom, freedom, method


def refitted_residuals(
    estimator: Any, X: Any, y: Floats, weights: Floats | None, rng: np.random.RandomState
) -> tuple[float, float]:
    """Return the residual sum of squares and degrees of freedom of refitted cross-validation (Fan, Guo and Hao 2012).

    Terms selected on the other folds are refitted on one fold, which the selection did not use: its residuals are not
    reduced by the selection. Weights from the other folds are not used, as their errors would add to the variance.
    """
    sse = freedom = 0.0
    fold = rng.permutation(len(y)) % NOISE_FOLDS
    for k in range(NOISE_FOLDS):
        others, held_out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        weights_of = [None if weights is None else weights[rows] for rows in (others, held_out)]
        terms = refit(estimator, rows_of(X, others), y[others], weights_of[0])
        G = terms.columns(rows_of(X, held_out))[:, : len(held_out) // 2]  # leaves degrees of freedom in any case
        solution = solve_terms(G, y[held_out], weights_of[1], terms.intercept)
        sse, freedom = sse + float(solution.sse[0]), freedom + residual_freedom(solution)
    return sse, freedom
