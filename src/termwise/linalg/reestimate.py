"""Orr's re-estimation of the ridge penalty: a fixed point of Orr (6.5)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_consistent_length

from termwise._arrays import as_columns, densify
from termwise._checks import check_bool, check_choice, check_counts, check_number, check_targets, check_total, warn
from termwise.linalg.least_squares import least_squares_problem
from termwise.linalg.spectrum import Spectrum

# The last factor of the four formulas in Orr, appendix A.10: half the derivative with respect to dof of the logarithm
# of what the criterion multiplies sse by, such as `n / (n - dof)^2` for GCV.
FACTORS: dict[str, Callable[[float, float, float], float]] = {
    "gcv": lambda n, dof, freedom: 1 / freedom,
    "uev": lambda n, dof, freedom: 1 / (2 * freedom),
    "fpe": lambda n, dof, freedom: n / (freedom * (n + dof)),
    "bic": lambda n, dof, freedom: n * np.log(n) / (2 * freedom * (n + (np.log(n) - 1) * dof)),
}


def reestimate_alpha(
    G: ArrayLike,
    y: ArrayLike,
    alpha: float = 1.0,
    *,
    criterion: str = "gcv",
    fit_intercept: bool = True,
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 10_000,
) -> float:
    """Iterate Orr's re-estimation formula to a fixed point.

    At a stationary point of the criterion the penalty equals, Orr (6.5),

        alpha = sse trace(A^-1 - alpha A^-2) / (w' A^-1 w) * factor,    A = G'G + alpha I,

    with factor `1 / (n - dof)` for GCV; those for other criteria are in Orr, appendix A.10. Iterating it ends in a
    *local* minimum that depends on the start: `BasisRidge(alpha="gcv")` searches for the global one and is the better
    choice where it is affordable.

    Parameters
    ----------
    G : array-like or sparse matrix of shape (n, p)
        Design matrix.
    y : array-like of shape (n,) or (n, q)
        Targets.
    alpha : float, default=1.0
        Start of the iteration, > 0.
    criterion : {"gcv", "uev", "fpe", "bic"}, default="gcv"
        Criterion whose stationary point is sought. There is no such formula for leave-one-out.
    fit_intercept : bool, default=True
        Whether the model has an unpenalised intercept.
    sample_weight : array-like of shape (n,), default=None
        Frequency weights: a weight of 2 is the same as repeating the sample.
    tol : float, default=1e-8
        Relative change of alpha at which to stop.
    max_iter : int, default=10000
        Maximum number of iterations; 1 makes a single re-estimation, without a warning about convergence.

    Returns
    -------
    alpha : float
        The fixed point; 0 or infinity where the iteration diverges.

    Examples
    --------
    >>> from termwise import RadialBasis, datasets, reestimate_alpha
    >>> X, y = datasets.make_sine(random_state=0)
    >>> G = RadialBasis(width=0.05).fit_transform(X)
    >>> round(reestimate_alpha(G, y, 0.01, fit_intercept=False), 3)
    0.027
    """
    check_choice("criterion", criterion, FACTORS, remedy="leave-one-out has none, use BasisRidge(alpha='loo')")
    check_bool("fit_intercept", fit_intercept, remedy="True fits the mean too")
    check_number("alpha", alpha, above=0, remedy="start from a positive penalty")
    check_number("tol", tol, low=0, remedy="1e-8 is tight")
    check_number("max_iter", max_iter, low=1, integer=True, remedy="allow at least one iteration")
    design = check_array(densify(G), dtype=np.float64, ensure_min_samples=2, input_name="G")
    Y = as_columns(check_targets(y))
    check_consistent_length(design, Y)
    weights = check_counts(sample_weight, len(Y))
    check_total(weights)
    used = weights > 0
    spectrum = Spectrum(least_squares_problem(design[used], Y[used], weights[used], fit_intercept))
    n, mu, t2 = spectrum.problem.rows.n, spectrum.mu, np.mean(spectrum.t**2, axis=1)
    for _ in range(max_iter):
        sse, freedom = (float(moment[0]) for moment in spectrum.moments(alpha))
        trace = float(np.sum(mu / (mu + alpha) ** 2))
        weight_form = float(np.sum(t2 * mu / (mu + alpha) ** 3))
        previous, alpha = alpha, reestimate(sse, trace, weight_form, n, freedom, criterion)
        if not 0 < alpha < np.inf or abs(alpha - previous) <= tol * previous:
            return alpha
    if max_iter > 1:
        warn(
            f"reestimate_alpha stopped after max_iter={max_iter} iterations at alpha={alpha:g}, still changing by "
            f"{abs(alpha / previous - 1):.1e}: allow more iterations or a larger tol.",
            ConvergenceWarning,
        )
    return alpha


def reestimate(sse: float, trace: float, weight_form: float, n: float, freedom: float, criterion: str = "gcv") -> float:
    """One application of Orr (6.5), or of its variants in appendix A.10; infinite if `weight_form` is zero.

    Parameters
    ----------
    sse : sum of squared errors.
    trace : `trace(A^-1 - alpha A^-2)`.
    weight_form : `w' A^-1 w`.
    n : number of samples.
    freedom : `n - dof`.
    criterion : the criterion whose stationary point is sought.
    """
    if weight_form == 0:
        return np.inf
    return float(sse * trace / weight_form * FACTORS[criterion](n, n - freedom, freedom))
