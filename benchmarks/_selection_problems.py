"""Simulated problems of Hastie, Tibshirani and Tibshirani (2020), and what is measured on them.

"Best subset, forward stepwise or lasso? Analysis and recommendations based on extensive comparisons", Statistical
Science 35(4): rows of X are Gaussian with mean zero and covariance `rho^|i-j|`, targets are `X beta + noise`, and the
variance of the noise is `beta' Sigma beta / SNR`. The five vectors of coefficients have

1. s ones, evenly spread over the columns;
2. ones in the first s columns;
3. values from 10 down to 0.5, evenly spaced, in the first s columns;
4. -10, -6, -2, 2, 6, 10 in the first six columns, whatever s;
5. ones in the first s columns and 0.5, 0.25, ... in those after them: weak sparsity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SETTINGS = {"low": (100, 10, 5), "medium": (500, 100, 5), "high-5": (50, 1000, 5), "high-10": (100, 1000, 10)}
CORRELATIONS = (0.0, 0.35, 0.7)
BETA_TYPES = (1, 2, 3, 4, 5)
SNRS = tuple(float(snr) for snr in np.geomspace(0.05, 6, 10).round(2))


@dataclass(frozen=True)
class Problem:
    """Training data and the truth behind them."""

    X: np.ndarray
    y: np.ndarray
    beta: np.ndarray
    rho: float
    noise: float  # variance
    support: frozenset[int]  # columns to be found: all with a coefficient, but not the decaying ones of beta-type 5


def variance_along(b: np.ndarray, rho: float) -> float:
    """Return `b' Sigma b`, the variance of `x'b`, in O(p).

    Columns are an autoregressive process, `x_j = rho x_{j-1} + e_j` with innovations of variance `1 - rho^2`, the
    first of variance 1. An innovation enters `x'b` with the factor `f_j = b_j + rho f_{j+1}`.
    """
    total, f = 0.0, 0.0
    for value in b[::-1].tolist():
        f = value + rho * f
        total += (1 - rho**2) * f * f
    return total + rho**2 * f * f


def coefficients(beta_type: int, p: int, s: int) -> np.ndarray:
    """Return the true coefficients."""
    beta = np.zeros(p)
    if beta_type == 1:
        beta[np.linspace(0, p - 1, s).round().astype(int)] = 1.0
    elif beta_type == 3:
        beta[:s] = np.linspace(10, 0.5, s)
    elif beta_type == 4:
        beta[:6] = (-10, -6, -2, 2, 6, 10)
    else:
        beta[:s] = 1.0
    if beta_type == 5:
        beta[s:] = 0.5 ** np.arange(1.0, p - s + 1)
    return beta


def draw(setting: str, rho: float, beta_type: int, snr: float, seed: int) -> Problem:
    """Return a problem; those of different cells of the study are independent."""
    n, p, s = SETTINGS[setting]
    rng = np.random.default_rng([seed, n, p, round(1000 * rho), beta_type, round(1000 * snr)])
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = rho * X[:, j - 1] + (1 - rho**2) ** 0.5 * X[:, j]
    beta = coefficients(beta_type, p, s)
    noise = variance_along(beta, rho) / snr
    y = X @ beta + noise**0.5 * rng.standard_normal(n)
    support = range(s) if beta_type == 5 else np.flatnonzero(beta).tolist()
    return Problem(X, y, beta, rho, noise, frozenset(support))


def measure(problem: Problem, coef: np.ndarray, intercept: float) -> dict[str, Any]:
    """Return the measures of the paper for estimated coefficients.

    The risk is the expected squared distance of the prediction for a new row from its true mean: relative risk is 0 for
    the true coefficients and 1 for none. Relative test error is that of the prediction in units of the variance of the
    noise; `explained` is the share of the variance of new targets. `f1` is for the true support.
    """
    signal = variance_along(problem.beta, problem.rho)
    risk = variance_along(coef - problem.beta, problem.rho) + intercept**2
    found = set(np.flatnonzero(coef).tolist())
    hits = len(found & problem.support)
    return {
        "risk": risk / signal,
        "test_error": 1 + risk / problem.noise,
        "explained": 1 - (risk + problem.noise) / (signal + problem.noise),
        "nonzeros": len(found),
        "f1": 2 * hits / (len(found) + len(problem.support)),
        "false_share": (len(found) - hits) / max(len(found), 1),
    }
