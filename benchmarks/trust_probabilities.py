"""Log loss on wide two-class tables: the automatic classifier, L1 logistic regression, and the class frequencies.

The tables are like gene expression data: 40 to 800 samples of 500 to 10,000 columns in correlated blocks, few of which
matter. A block has the covariance of a real table (scikit-learn's breast cancer, digits or wine data, constant columns
left out): its rows are drawn at random from the standardised rows of that table, independently of the other blocks, and
a quarter of the variance of each column is replaced by Gaussian noise. The logarithm of the odds is a sum of
`informative` columns of two blocks, as genes of two pathways act together: their weights are of equal size, with
the sign of their loading on the first principal component of the block, and their sum has the standard deviation
`strength`. Test sets have 2,000 samples. L1 logistic regression has standardised columns and a penalty of
thirteen, chosen by the log loss in five-fold cross-validation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn import datasets as ready
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from termwise import TermwiseClassifier

N_TEST = 2000
N_SEEDS = 4
NOISE_SHARE = 0.25
N_PATHWAYS = 2  # blocks with informative columns
SOURCES = {"breast_cancer": ready.load_breast_cancer, "digits": ready.load_digits, "wine": ready.load_wine}
PENALTIES = np.logspace(-2.5, 1.5, 13)


class Wide(NamedTuple):
    """A table: its size, where its covariance is from, and its signal."""

    n: int
    p: int
    source: str
    informative: int
    strength: float


TABLES = {
    "A": Wide(40, 2000, "breast_cancer", 12, 8.0),
    "B": Wide(60, 500, "wine", 24, 6.0),
    "C": Wide(80, 7000, "digits", 12, 8.0),
    "D": Wide(100, 2000, "breast_cancer", 24, 6.0),
    "E": Wide(150, 5000, "wine", 12, 6.0),
    "F": Wide(200, 1000, "digits", 36, 6.0),
    "G": Wide(120, 10_000, "breast_cancer", 24, 6.0),
    "H": Wide(800, 500, "digits", 24, 4.0),
    "I": Wide(400, 3000, "wine", 24, 3.0),
}


def draw(table: Wide, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs and labels to learn from and to test on."""
    rng = np.random.default_rng(seed)
    rows = SOURCES[table.source]().data
    rows = rows[:, rows.std(axis=0) > 0]
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    d, n = rows.shape[1], table.n + N_TEST
    n_blocks = -(-table.p // d)
    X = np.hstack([rows[rng.integers(len(rows), size=n)] for _ in range(n_blocks)])[:, : table.p]
    X = np.sqrt(1 - NOISE_SHARE) * X + np.sqrt(NOISE_SHARE) * rng.normal(size=X.shape)
    signs = np.sign(np.linalg.svd(rows, full_matrices=False)[2][0])  # of the loadings of a block
    odds = np.zeros(n)
    for block in rng.permutation(table.p // d)[:N_PATHWAYS]:
        columns = rng.choice(d, size=table.informative // N_PATHWAYS, replace=False)
        odds += rng.choice([-1.0, 1.0]) * X[:, block * d + columns] @ signs[columns]
    y = (rng.uniform(size=n) < expit(table.strength * odds / odds.std())).astype(int)
    return X[: table.n], y[: table.n], X[table.n :], y[table.n :]


def l1_logistic() -> Any:
    """Logistic regression with a tuned lasso penalty."""
    lasso = {"l1_ratio": 1.0} if LogisticRegression().penalty == "deprecated" else {"penalty": "l1"}
    model = LogisticRegression(solver="liblinear", intercept_scaling=10.0, max_iter=500, random_state=0, **lasso)
    grid = {"logisticregression__C": PENALTIES}
    return GridSearchCV(make_pipeline(StandardScaler(), model), grid, cv=5, scoring="neg_log_loss")


WHO: dict[str, Callable[[], Any]] = {
    "small": partial(TermwiseClassifier, "small"),
    "accurate": partial(TermwiseClassifier, "accurate"),
    "L1 logistic": l1_logistic,
    "class frequencies": DummyClassifier,
}


def evaluate(name: str, who: str, seed: int) -> dict[str, Any]:
    """Return log loss and error rate of one classifier on one table."""
    table = TABLES[name]
    X, y, X_test, y_test = draw(table, seed)
    start = time.perf_counter()
    model = WHO[who]().fit(X, y)
    seconds = time.perf_counter() - start
    coef = getattr(getattr(model, "best_estimator_", [None])[-1], "coef_", np.zeros(1))
    return {
        "study": "probabilities", "table": name, **table._asdict(), "who": who, "seed": seed,
        "log_loss": round(float(log_loss(y_test, model.predict_proba(X_test))), 4),
        "error_rate": round(float(np.mean(model.predict(X_test) != y_test)), 4),
        "terms": int(getattr(model, "n_terms_", np.count_nonzero(coef))), "seconds": round(seconds, 2),
    }  # fmt: skip


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each table and classifier, the mean over draws, and one for all tables."""
    found: list[dict[str, Any]] = []
    settings = ("study", "table", *Wide._fields, "who")
    for name, who in dict.fromkeys((one["table"], one["who"]) for one in records):
        some = [one for one in records if (one["table"], one["who"]) == (name, who)]
        means = {key: round(float(np.mean([one[key] for one in some])), 4) for key in ("log_loss", "error_rate")}
        found.append({**{key: some[0][key] for key in settings}, "draws": len(some), **means,
                      "terms": round(float(np.mean([one["terms"] for one in some])), 1),
                      "seconds": round(float(np.mean([one["seconds"] for one in some])), 1)})  # fmt: skip
    losses: dict[tuple[str, str], float] = {(one["table"], one["who"]): one["log_loss"] for one in found}
    tables = list(dict.fromkeys(table for table, _ in losses))
    for who in dict.fromkeys(who for _, who in losses):
        ratios = [losses[table, who] / losses[table, "L1 logistic"] for table in tables]
        worse = sum(losses[table, who] > losses[table, "class frequencies"] for table in tables)
        mean = round(float(np.mean([losses[table, who] for table in tables])), 4)
        found.append({"study": "probabilities", "table": "all", "who": who, "tables": len(tables), "log_loss": mean,
                      "relative_to_l1": round(float(np.mean(ratios)), 4), "nominal": 1.1,
                      "worse_than_frequencies": worse})  # fmt: skip
    return found


def cases(small: bool) -> list[Callable[[], dict[str, Any]]]:
    """Return the jobs: a classifier on a table each, the largest tables first."""
    tables = ["B"] if small else sorted(TABLES, key=lambda name: -TABLES[name].n * TABLES[name].p)
    return [
        partial(evaluate, name, who, seed) for name in tables for who in WHO for seed in range(1 if small else N_SEEDS)
    ]
