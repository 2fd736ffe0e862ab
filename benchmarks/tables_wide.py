"""Wide tables with classes, for the benchmark `tables`: 40 to 800 samples of 500 to 10,000 columns.

Nine two-class tables are simulated from the covariances of real ones by the rule of `trust_probabilities`; a seed is
another draw. Three are real: gene expression of tumours (Khan, four classes, and NCI60, the classes with five samples
or more) from the package ISLP, and of blood cells (pbmc68k, ten classes) from scanpy, two thirds of each to learn from:
`pip install h5py; pip install --no-deps ISLP scanpy`. A table without its package is left out with a message.

The peers are logistic regression with a tuned lasso penalty ("linear") and with a tuned ridge penalty ("ridge"), on
standardised columns, penalties by the log loss in cross-validation; one model per class for more than two classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables_data import package_file
from trust_probabilities import TABLES as SIMULATED
from trust_probabilities import draw, l1_logistic

REAL = ("Khan", "NCI60", "pbmc68k")
WIDE = (*SIMULATED, *REAL)
WIDE_KIND = dict.fromkeys(SIMULATED, "twoclass") | dict.fromkeys(REAL, "multiclass")
FEWEST_PER_CLASS = 5


def read_real(name: str) -> tuple[Any, Any]:
    """Return inputs and classes of a real table."""
    import pandas as pd

    if name == "Khan":
        parts = [(pd.read_csv(package_file("ISLP", f"data/Khan_x{part}.csv")).to_numpy(float),
                  pd.read_csv(package_file("ISLP", f"data/Khan_y{part}.csv")).iloc[:, -1].astype(str).to_numpy(str))
                 for part in ("train", "test")]  # fmt: skip
        return np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    if name == "NCI60":
        X = np.load(package_file("ISLP", "data/NCI60data.npy"))
        return X, pd.read_csv(package_file("ISLP", "data/NCI60labs.csv")).iloc[:, -1].to_numpy(str)
    import h5py

    with h5py.File(package_file("scanpy", "datasets/10x_pbmc68k_reduced.h5ad")) as file:
        return np.asarray(file["X"], dtype=float), file["obs"]["bulk_labels"].astype(str)


def wide_rows(name: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return training inputs and classes, and those to test on."""
    if name in SIMULATED:
        X, y, X_test, y_test = draw(SIMULATED[name], seed)
        return X, y.astype(str), X_test, y_test.astype(str)
    X, y = read_real(name)
    names, counts = np.unique(y, return_counts=True)
    kept = np.isin(y, names[counts >= FEWEST_PER_CLASS])
    X, y = X[kept], y[kept]
    train, test = next(iter(StratifiedKFold(3, shuffle=True, random_state=seed).split(X, y)))
    return X[train], y[train], X[test], y[test]


class Counted:
    """A search over penalties that counts the columns with a nonzero weight."""

    def __init__(self, search: Any):
        self.search = search

    def fit(self, X: Any, y: Any) -> Counted:
        """Fit."""
        self.search.fit(X, y)
        self.classes_ = self.search.classes_
        last = self.search.best_estimator_[-1]
        weights = [one.coef_ for one in getattr(last, "estimators_", [last])]
        self.n_columns_ = int(np.any(np.vstack(weights) != 0, axis=0).sum())
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities."""
        return self.search.predict_proba(X)


def lasso(kind: str) -> Any:
    """Logistic regression with a tuned lasso penalty."""
    search = l1_logistic()
    if kind == "multiclass":
        each = OneVsRestClassifier(search.estimator[-1])
        grid = {"onevsrestclassifier__estimator__C": np.logspace(-2, 1, 5)}
        search = GridSearchCV(make_pipeline(StandardScaler(), each), grid, cv=3, scoring="neg_log_loss")
    return Counted(search)


def ridge(kind: str) -> Any:
    """Logistic (multinomial) regression with a tuned ridge penalty."""
    grid = {"logisticregression__C": np.logspace(-6, 1, 8)}
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    return Counted(GridSearchCV(model, grid, cv=3 if kind == "multiclass" else 5, scoring="neg_log_loss"))


WIDE_PEERS: dict[str, Callable[[str], Any]] = {"linear": lasso, "ridge": ridge}
