"""Methods of the study `selection`: linear models on the columns of X, each tuned on the training rows alone.

Every method is a function from X and y to coefficients and an intercept. The peers are tuned by ten-fold
cross-validation, at the minimum of the error. Of ours, "forward, cv" is tuned by ten folds as well, and the others by
closed forms; fastcan and abess are optional.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LassoCV, LinearRegression, lasso_path
from sklearn.model_selection import KFold

from termwise import ForwardRegressor, TermwiseRegressor, forward_path

Fit = tuple[np.ndarray, float]
Method = Callable[[np.ndarray, np.ndarray], Fit]
FOLDS = 10
N_PENALTIES, SMALLEST_PENALTY = 50, 1e-3
MIXTURES = np.linspace(0, 1, 10)
MOST_TERMS = 50


def folds(n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return training and validation rows."""
    return KFold(FOLDS, shuffle=True, random_state=0).split(np.empty((n, 1)))


def forward(**parameters: Any) -> Method:
    """Return `ForwardRegressor` with these parameters."""

    def fit(X: np.ndarray, y: np.ndarray) -> Fit:
        model = ForwardRegressor(**parameters).fit(X, y)
        return model.coef_, float(model.intercept_)

    return fit


def termwise(**parameters: Any) -> Method:
    """Return `TermwiseRegressor` on the columns alone; the inputs are standardised by it."""

    def fit(X: np.ndarray, y: np.ndarray) -> Fit:
        model = TermwiseRegressor(dictionary="linear", **parameters).fit(X, y)
        used = np.asarray(model.support_, dtype=int)
        rows = np.zeros((len(used) + 1, X.shape[1]))
        rows[np.arange(1, len(used) + 1), used] = 1.0
        intercept, *effects = model.predict(rows)
        coef = np.zeros(X.shape[1])
        coef[used] = np.asarray(effects) - intercept
        return coef, float(intercept)

    return fit


def least_squares(X: np.ndarray, y: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return coefficients of all columns, those of the given ones by least squares on centred data."""
    coef = np.zeros(X.shape[1])
    if len(columns):
        coef[columns] = np.linalg.lstsq(X[:, columns], y, rcond=None)[0]
    return coef


# -- families of models, of which cross-validation takes one -----------------------------------------------------------


def relaxed_lasso_path(X: np.ndarray, y: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """Return the coefficients of the relaxed lasso on centred data, one row for each mixture of each penalty.

    A mixture is `g` times the lasso and `1 - g` times least squares on its active set (Hastie, Tibshirani and
    Tibshirani 2020, section 2.4).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        lasso = lasso_path(X, y, alphas=penalties)[1].T
    rows, known = [], dict[bytes, np.ndarray]()
    for coef in lasso:
        active = np.flatnonzero(coef)
        key = active.tobytes()
        if key not in known:
            known[key] = least_squares(X, y, active)
        rows.append(MIXTURES[:, None] * coef + (1 - MIXTURES)[:, None] * known[key])
    return np.concatenate(rows)


def forward_models(X: np.ndarray, y: np.ndarray, n_terms: int) -> np.ndarray:
    """Return the least-squares coefficients along forward stepwise selection, one row per size from zero on."""
    path = forward_path(X, y, rule="sse", alpha=0.0, fit_intercept=False, max_terms=n_terms, criterion=None)
    return nested_models(path.terms, [path.coef(k)[0] for k in range(len(path) + 1)], X.shape[1], n_terms)


def nested_models(order: np.ndarray, weights: list[Any], p: int, n_terms: int) -> np.ndarray:
    """Return coefficients of all columns for the first 0, 1, ... columns of an order; the last one repeated."""
    coef = np.zeros((n_terms + 1, p))
    for k in range(n_terms + 1):
        size = min(k, len(weights) - 1)
        coef[k, order[:size]] = weights[size]
    return coef


def fastcan_models(X: np.ndarray, y: np.ndarray, n_terms: int) -> np.ndarray:
    """Return the least-squares coefficients along the order of fastcan."""
    from fastcan import FastCan

    order = FastCan(n_terms, verbose=0).fit(X, y).indices_
    weights = [least_squares(X, y, order[:k])[order[:k]] for k in range(len(order) + 1)]
    return nested_models(order, weights, X.shape[1], n_terms)


def cross_validated(models: Callable[[np.ndarray, np.ndarray], np.ndarray], X: np.ndarray, y: np.ndarray) -> Fit:
    """Return the member of a family with the least cross-validated error; `models` takes centred data."""
    errors: Any = 0.0
    for train, test in folds(len(y)):
        X_mean, y_mean = X[train].mean(axis=0), y[train].mean()
        coef = models(X[train] - X_mean, y[train] - y_mean)
        errors = errors + np.sum(((X[test] - X_mean) @ coef.T + y_mean - y[test][:, None]) ** 2, axis=0)
    X_mean, y_mean = X.mean(axis=0), y.mean()
    coef = models(X - X_mean, y - y_mean)[int(np.argmin(errors))]
    return coef, float(y_mean - X_mean @ coef)


# -- the peers ---------------------------------------------------------------------------------------------------------


def relaxed_lasso(X: np.ndarray, y: np.ndarray) -> Fit:
    """Relaxed lasso, penalty and mixture by cross-validation."""
    largest = np.abs((X - X.mean(axis=0)).T @ (y - y.mean())).max() / len(y)
    penalties = largest * np.geomspace(1, SMALLEST_PENALTY, N_PENALTIES)
    return cross_validated(lambda X, y: relaxed_lasso_path(X, y, penalties), X, y)


def lasso(X: np.ndarray, y: np.ndarray) -> Fit:
    """scikit-learn's `LassoCV`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LassoCV(cv=list(folds(len(y))), alphas=N_PENALTIES).fit(X, y)
    return model.coef_, float(model.intercept_)


def most_terms(X: np.ndarray) -> int:
    """Return the largest size of a path in the folds: at most 50, as in the paper, and half the training rows."""
    return min(MOST_TERMS, X.shape[1], len(X) // 2)


def forward_stepwise(X: np.ndarray, y: np.ndarray) -> Fit:
    """Forward stepwise selection by the sum of squared errors, the size by cross-validation."""
    return cross_validated(lambda A, b: forward_models(A, b, most_terms(X)), X, y)


def fastcan(X: np.ndarray, y: np.ndarray) -> Fit:
    """The order of fastcan, the size by cross-validation."""
    return cross_validated(lambda A, b: fastcan_models(A, b, most_terms(X)), X, y)


def sequential_selector(X: np.ndarray, y: np.ndarray) -> Fit:
    """scikit-learn's `SequentialFeatureSelector`, as long as the cross-validated R2 grows, and least squares."""
    selector = SequentialFeatureSelector(LinearRegression(), tol=1e-6, cv=list(folds(len(y)))).fit(X, y)
    chosen = np.flatnonzero(selector.get_support())
    coef = least_squares(X - X.mean(axis=0), y - y.mean(), chosen)
    return coef, float(y.mean() - X.mean(axis=0) @ coef)


def best_subset(X: np.ndarray, y: np.ndarray) -> Fit:
    """Best subset selection by abess, the size by cross-validation."""
    from abess import LinearRegression as BestSubset

    model = BestSubset(cv=FOLDS, support_size=range(most_terms(X) + 1), thread=1).fit(X, y)
    return np.asarray(model.coef_, dtype=float), float(model.intercept_)


CROSS_VALIDATED = {"criterion": "cv", "refit_alpha": "cv", "cv": FOLDS}
OURS: dict[str, Method] = {
    "forward, tcr": forward(),
    "forward, tcr, shrunk": forward(refit_alpha="loo"),
    "forward, tcr, swap": forward(refine="swap"),
    "forward, loo, shrunk": forward(criterion="loo", refit_alpha="loo"),
    "forward, cv": forward(**CROSS_VALIDATED),
    "forward, fdr 0.2": forward(criterion="fdr", fdr=0.2),
    "TermwiseRegressor, linear": termwise(),
}
PEERS: dict[str, Method] = {
    "lasso": lasso,
    "relaxed lasso": relaxed_lasso,
    "forward stepwise": forward_stepwise,
    "sequential selector": sequential_selector,
    "fastcan": fastcan,
    "best subset, abess": best_subset,
}
METHODS = OURS | PEERS
PACKAGES = {"fastcan": "fastcan", "best subset, abess": "abess"}  # that a method needs
ONLY = {"forward, fdr 0.2": ("low", "medium"), "sequential selector": ("low",)}  # settings that a method is run in


def methods_of(setting: str) -> list[str]:
    """Return the names of the methods that are run in a setting: knockoffs need n >= 2p, the selector is slow."""
    return [name for name in METHODS if setting in ONLY.get(name, (setting,))]
