"""How good a model is on samples it has not seen, beside simple ones."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LassoCV, LogisticRegression, MultiTaskLassoCV, RidgeCV
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from termwise._arrays import densify, evenly, is_foreign, rows_of, to_host
from termwise.basis import LagBasis, TableEncoder
from termwise.basis.encoder import is_frame
from termwise.explain.resolve import Unwrapped, first_step, record_of, unwrap

BASELINE_ROWS = 5000  # samples a simple model is fitted to
MOST_NUMBERS = 20_000_000  # of a table that simple models are fitted to
INTERVAL_PAIRS = 20_000_000  # of samples of the fit and others, whose intervals are looked at
COVERAGE = 0.9
RIDGE_PENALTIES = np.logspace(-3, 5, 33)
STRENGTHS = [0.003, 0.03, 0.3, 3.0, 30.0]  # of logistic regression: 1 / penalty


def held_out_comparison(
    model: Any, X: Any, y: Any, X_test: Any, y_test: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Score a fitted model on samples it has not seen, and simple models fitted to the same samples beside it.

    The simple ones are the mean (the most frequent class), and linear models of all columns: ridge regression and the
    lasso with their penalties cross-validated (for classes, logistic regression with squared and with absolute
    penalties). They see standardised columns, and categories coded as the model codes them.

    Parameters
    ----------
    model : fitted estimator of termwise, or a pipeline that ends in one
        Fitted to X and y.
    X, y : data frame or array-like of shape (n, d), array-like of shape (n,) or (n, q)
        Samples of the fit.
    X_test, y_test : data frame or array-like of shape (m, d), array-like of shape (m,) or (m, q)
        Other samples.

    Returns
    -------
    held_out : dict
        "metric" ("R2", or "accuracy" for classes), "value", "n" (number of samples), and for regression "rmse",
        "unexplained" (share of the variance), "coverage" (share of the samples in their 90 % interval).
    baselines : list of dict
        For each simple model "name", "value" of the same metric on the same samples, "terms" (number of weights that
        are not zero), "title" (its name in words), and "rows" where it was fitted to some of the samples only.

    Notes
    -----
    Of more than 5,000 samples, simple models are fitted to 5,000, spread over the table.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import train_test_split
    >>> from termwise import ForwardRegressor, diagnostics
    >>> X, X_test, y, y_test = train_test_split(*load_diabetes(return_X_y=True), random_state=0)
    >>> model = ForwardRegressor().fit(X, y)
    >>> held_out, baselines = diagnostics.held_out_comparison(model, X, y, X_test, y_test)
    >>> held_out["metric"], [one["name"] for one in baselines]
    ('R2', ['mean', 'ridge', 'lasso'])
    """
    parts = unwrap(model, "held_out_comparison")
    y, y_test = in_this_process(y), in_this_process(y_test)
    held_out = score(parts, X_test, y_test)
    metric = accuracy_score if parts.task == "classification" else r2_score
    coding = own_coding(parts, X)
    rows = evenly(len(y), BASELINE_ROWS)
    G, G_test = (X, X_test) if coding is None else (coding.transform(X), coding.transform(X_test))
    G, G_test = rows_of(plain_table(G), rows), plain_table(G_test)
    if G.shape[0] * G.shape[1] > MOST_NUMBERS:
        return held_out, []
    if y.ndim > 1:  # older lassos of several outputs take no sparse matrices
        G, G_test = densify(G), densify(G_test)
    part = {"rows": len(rows)} if len(rows) < len(y) else {}
    baselines = []
    for name, (title, simple) in simple_models(parts.task, y, hasattr(G, "toarray")).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a penalty that is too small for the solver is merely not chosen
            simple.fit(G, y[rows])
            value = float(metric(y_test, simple.predict(G_test)))
        baselines.append({"name": name, "title": title, "value": value, "terms": used(simple, G.shape[1]), **part})
    return held_out, baselines


def score(parts: Unwrapped, X_test: Any, y_test: NDArray) -> dict[str, Any]:
    """Score the model itself."""
    predicted = in_this_process(parts.given.predict(X_test))
    n = len(y_test)
    if parts.task == "classification":
        return {"metric": "accuracy", "value": float(accuracy_score(y_test, predicted)), "n": n}
    value = float(r2_score(y_test, predicted))
    rmse = float(np.sqrt(np.mean((y_test - predicted) ** 2)))
    result = {"metric": "R2", "value": value, "n": n, "unexplained": 1 - value, "rmse": rmse}
    inside = coverage(parts, X_test, y_test)
    return result if inside is None else {**result, "coverage": inside, "nominal": COVERAGE}


def coverage(parts: Unwrapped, X_test: Any, y_test: NDArray) -> float | None:
    """Share of samples inside their interval; None where a model has not kept what intervals need."""
    record = record_of(parts.model)
    if record is None or record.residuals is None:
        return None
    rows = evenly(len(y_test), max(100, INTERVAL_PAIRS // len(record.residuals)))
    ends = parts.model.predict_interval(parts.inputs(rows_of(X_test, rows)), coverage=COVERAGE)
    lower, upper = (in_this_process(end) for end in ends)
    return float(np.mean((lower <= y_test[rows]) & (y_test[rows] <= upper)))


def in_this_process(y: Any) -> NDArray:
    """Targets or predictions as a NumPy array."""
    return np.asarray(to_host(y) if is_foreign(y) else y)


def plain_table(X: Any) -> Any:
    """Numbers as a NumPy array, sparse ones as they are."""
    return X if hasattr(X, "toarray") else in_this_process(X)


def own_coding(parts: Unwrapped, X: Any) -> Any:
    """Return the fitted transformer that makes columns of a table before the model's terms do; None for numbers."""
    if parts.front is not None:
        return parts.front
    step = first_step(parts.model)
    if isinstance(step, TableEncoder | LagBasis):
        return step
    return TableEncoder().fit(X) if is_frame(X) else None


def simple_models(task: str, y: NDArray, sparse: bool) -> dict[str, tuple[str, Any]]:
    """Name, title and pipeline of each simple model."""
    scaler = StandardScaler(with_mean=not sparse)
    if task == "classification":
        squared, absolute = logistic_regressions()
        chosen = {
            "mean": ("most frequent class", DummyClassifier()),
            "ridge": ("logistic regression, ridge penalty", squared),
            "lasso": ("logistic regression, lasso penalty", absolute),
        }
    else:
        lasso = LassoCV(max_iter=2000) if y.ndim == 1 else MultiTaskLassoCV(max_iter=2000)
        ridge = RidgeCV(RIDGE_PENALTIES)
        chosen = {"mean": ("mean", DummyRegressor()), "ridge": ("ridge", ridge), "lasso": ("lasso", lasso)}
    return {name: (title, make_pipeline(clone(scaler), model)) for name, (title, model) in chosen.items()}


def logistic_regressions() -> tuple[Any, Any]:
    """Logistic regression with a squared and with an absolute penalty, their strengths cross-validated."""
    newer = LogisticRegression().penalty == "deprecated"  # since scikit-learn 1.8 the ratio alone says which penalty
    absolute = {"l1_ratio": 1.0, "solver": "saga", "tol": 1e-2, "max_iter": 200, "random_state": 0}
    absolute |= {} if newer else {"penalty": "elasticnet"}
    models = LogisticRegression(max_iter=200), LogisticRegression(**absolute)
    squared_search, absolute_search = (GridSearchCV(model, {"C": STRENGTHS}, cv=3) for model in models)
    return squared_search, absolute_search


def used(pipeline: Any, columns: int) -> int:
    """Number of weights of a simple model that are not zero."""
    model = getattr(pipeline[-1], "best_estimator_", pipeline[-1])
    weights = getattr(model, "coef_", np.zeros((1, columns)))
    return int(np.any(np.atleast_2d(weights) != 0, axis=0).sum())
