"""Cross-validated error that the automatic estimators report, against their error on fresh samples.

Every data set is drawn, `cv_error_` (`cv_log_loss_` for labels) is taken from the fit, and the model is evaluated on
3,000 fresh samples, relative to the variance of the same training targets. `ratio` is the mean over data sets of the
reported over the fresh error: below 1 the report is optimistic. `within_2_se`: share of the data sets whose fresh error
is within two of the standard errors reported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.metrics import log_loss

from termwise import TermwiseClassifier, TermwiseRegressor

N_FRESH = 3000
N_SETS = {"small": 60, "accurate": 20}  # of each kind
PER_JOB = 2

Sample = tuple[np.ndarray, np.ndarray]


def friedman(n: int, rng: np.random.Generator) -> Sample:
    """Friedman's first function with a noise of 3, which leaves a good third of the variance unexplained."""
    return make_friedman1(n, 10, noise=3.0, random_state=int(rng.integers(2**31)))


def sparse_linear(n: int, rng: np.random.Generator) -> Sample:
    """Fifty inputs, five of which matter, as much signal as noise."""
    X = rng.normal(size=(n, 50))
    return X, X[:, :5] @ np.full(5, 1 / np.sqrt(5)) + rng.normal(size=n)


def interaction(n: int, rng: np.random.Generator) -> Sample:
    """Ten inputs: a curve, a line, and a product of two."""
    X = rng.uniform(-1, 1, size=(n, 10))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] + 2 * X[:, 2] * X[:, 3] + 0.7 * rng.normal(size=n)


def heavy_tails(n: int, rng: np.random.Generator) -> Sample:
    """The same with a noise of Student's t with five degrees of freedom."""
    X = rng.uniform(-1, 1, size=(n, 10))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] + 2 * X[:, 2] * X[:, 3] + 0.7 * rng.standard_t(5, size=n)


def labels(n: int, rng: np.random.Generator) -> Sample:
    """Two classes, with odds that depend on a line, a curve and a product."""
    X = rng.normal(size=(n, 8))
    odds = 1.5 * X[:, 0] + X[:, 1] ** 2 - 1 + X[:, 2] * X[:, 3]
    return X, (odds + rng.logistic(size=n) > 0).astype(int)


def wide_labels(n: int, rng: np.random.Generator) -> Sample:
    """Two classes, 500 inputs, and odds that depend on five of them."""
    X = rng.normal(size=(n, 500))
    return X, (X[:, :5].sum(axis=1) + rng.logistic(size=n) > 0).astype(int)


KINDS = {"friedman": (friedman, 60), "sparse linear": (sparse_linear, 100), "interaction": (interaction, 300),
         "heavy tails": (heavy_tails, 200), "labels": (labels, 200),
         "wide labels": (wide_labels, 100)}  # fmt: skip


def evaluate(kind: str, size: str, seeds: range) -> list[dict[str, Any]]:
    """Return reported and fresh errors of some data sets."""
    draw, n = KINDS[kind]
    found = []
    for seed in seeds:
        rng = np.random.default_rng([seed, list(KINDS).index(kind)])
        X, y = draw(n, rng)
        fresh, truth = draw(N_FRESH, rng)
        record: dict[str, Any] = {"study": "error", "kind": kind, "n": n, "p": X.shape[1], "size": size, "seed": seed}
        if "labels" in kind:
            classifier = TermwiseClassifier(size, random_state=seed).fit(X, y)
            record |= {"measure": "log loss", "reported": classifier.cv_log_loss_, "terms": classifier.n_terms_,
                       "fresh": log_loss(truth, classifier.predict_proba(fresh)),
                       "reported_rate": classifier.cv_error_rate_,
                       "fresh_rate": float(np.mean(classifier.predict(fresh) != truth))}  # fmt: skip
        else:
            model = TermwiseRegressor(size, random_state=seed).fit(X, y)
            error = float(np.mean((truth - model.predict(fresh)) ** 2) / y.var())
            record |= {"measure": "squared error", "reported": model.cv_error_, "reported_std": model.cv_error_std_,
                       "fresh": error, "terms": model.n_terms_}  # fmt: skip
        found.append(
            {key: round(float(value), 6) if isinstance(value, float) else value for key, value in record.items()}
        )
    return found


def mean_and_error(values: Any) -> list[float]:
    """Return a mean and its standard error."""
    return [round(float(np.mean(values)), 4), round(float(np.std(values, ddof=1) / np.sqrt(len(values))), 4)]


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each kind and size, and one for all data sets of a size."""
    found = []
    for size in dict.fromkeys(one["size"] for one in records):
        of_size = [one for one in records if one["size"] == size]
        for kind in [*dict.fromkeys(one["kind"] for one in of_size), "all"]:
            some = [one for one in of_size if kind in (one["kind"], "all")]
            ratio = mean_and_error([one["reported"] / one["fresh"] for one in some])
            row: dict[str, Any] = {"study": "error", "kind": kind, "size": size}
            if kind != "all":
                row |= {key: some[0][key] for key in ("n", "p", "measure")}
            row |= {"data_sets": len(some), "nominal": 1.0, "ratio": ratio[0], "ratio_se": ratio[1]}
            row |= {
                f"mean_{key}": round(float(np.mean([one[key] for one in some])), 4) for key in ("reported", "fresh")
            }
            if with_std := [one for one in some if "reported_std" in one]:
                near = [abs(one["fresh"] - one["reported"]) <= 2 * one["reported_std"] for one in with_std]
                row["within_2_se"] = round(float(np.mean(near)), 3)
            found.append({**row, "terms": round(float(np.mean([one["terms"] for one in some])), 1)})
    return found


def cases(small: bool) -> list[Callable[[], list[dict[str, Any]]]]:
    """Return the jobs: a few data sets each."""
    sets, step = ({"small": 2}, 2) if small else (N_SETS, PER_JOB)
    return [
        partial(evaluate, kind, size, range(start, min(start + step, n)))
        for size, n in sets.items()
        for kind in KINDS
        for start in range(0, n, step)
    ]
