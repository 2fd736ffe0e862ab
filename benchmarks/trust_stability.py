"""The automatic estimators with another seed, or a few rows less: number of terms and test error on twelve tables.

Study "seeds": ten seeds of cross-validation on one training set of each table, and ten splits into training and test
set with one seed. `terms_ratio`: the largest over the smallest number of terms of the ten seeds, counting an empty
model as one term. `range_over_sd`: the range of the test error over the seeds, over the standard deviation of the test
error over splits, which is the standard error of the error of one split.

Study "fewer rows": the same for one seed and ten fits to the training set without a hundredth of its rows.

Four tables ship with scikit-learn. Five are the papers' (the folder in TERMWISE_DATA), at most 1,000 training and 2,000
test samples; they are left out where the folder is missing. Three are drawn by a rule, after well-known tables:
"passengers", survival by sex, class, age and fare, with few samples and many ties; "default", a rare class (one in
twenty) that depends on one of three inputs; "flights", a target that is almost a line of one of ten inputs, with small
smooth effects and interactions of the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets as ready

from termwise import TermwiseClassifier, TermwiseRegressor, datasets

N_SEEDS = N_SPLITS = 10
MAX_TRAIN, MAX_TEST = 1000, 2000
BUNDLED = {"diabetes": ready.load_diabetes, "breast_cancer": ready.load_breast_cancer, "wine": ready.load_wine,
           "iris": ready.load_iris}  # fmt: skip
PAPERS = ("auto_mpg", "kin8nm", "delta_elevators", "german", "heart")


def passengers(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Survival of 1,300 passengers: sex, class as two indicators, age, fare, relatives."""
    n = 1300
    female, rank, relatives = (
        rng.uniform(size=n) < 0.36,
        rng.choice(3, size=n, p=[0.25, 0.2, 0.55]),
        rng.poisson(0.9, n),
    )
    age, fare = rng.normal(38 - 6 * rank, 13).clip(1, 80).round(), rng.lognormal(4.1 - 0.8 * rank, 0.5).round(1)
    odds = -1.2 + 2.6 * female + 0.9 * (rank == 0) - 0.9 * (rank == 2) * female - 0.03 * (age - 30) - 0.2 * relatives
    X = np.column_stack([female, rank == 0, rank == 1, age, fare, relatives]).astype(np.float64)
    return X, (odds + rng.logistic(size=n) > 0).astype(int)


def default(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Default of 3,000 borrowers: being a student, balance, income."""
    n = 3000
    student = rng.uniform(size=n) < 0.3
    balance = rng.normal(770 + 215 * student, 480).clip(0)
    income = rng.normal(40_000 - 22_000 * student, 10_000)
    odds = -10.6 + 0.0058 * balance - 0.65 * student
    return np.column_stack([student, balance, income]).astype(np.float64), (odds + rng.logistic(size=n) > 0).astype(int)


def flights(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Minutes of arrival delay of 3,000 flights: departure delay, distance, hour, day, three carriers, weather."""
    n = 3000
    late, distance = rng.exponential(30, n) - 12, rng.gamma(2.5, 400, n)
    hour, day, wind, rain = rng.uniform(5, 23, n), rng.integers(1, 8, n), rng.gamma(3, 4, n), rng.exponential(1, n)
    carrier = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    delay = (
        1.0 * late - 0.004 * distance + 4 * np.sin(hour * np.pi / 12) + 0.15 * wind * (rain > 1) + 3 * (carrier == 2)
    )
    X = np.column_stack([late, distance, hour, day, wind, rain, *(carrier == k for k in range(3)), rng.normal(size=n)])
    return X.astype(np.float64), delay + 6 * rng.normal(size=n)


DRAWN = {"passengers": passengers, "default": default, "flights": flights}


@cache
def load(table: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return inputs, targets, and whether these are labels."""
    if table in DRAWN:
        X, y = DRAWN[table](np.random.default_rng(0))
        return X, y, y.dtype.kind == "i"
    data = BUNDLED[table]() if table in BUNDLED else datasets.load(table)
    labels = table in datasets.TWO_CLASS or (table in BUNDLED and table != "diabetes")
    return np.asarray(data.data, dtype=np.float64), data.target, labels


def fit_split(table: str, split: int, seed: int, draw: int | None = None) -> dict[str, Any]:
    """Return size and test error for a split of a table and a seed of the estimator.

    With `draw`, the number of a random draw, a hundredth of the training rows is left out.
    """
    X, y, labels = load(table)
    rows = np.random.default_rng(split).permutation(len(y))
    n = min(2 * len(y) // 3, MAX_TRAIN)
    train, test = rows[:n], rows[n : n + MAX_TEST]
    if draw is not None:
        train = np.delete(train, np.random.default_rng(draw).permutation(n)[: left_out(n)])
    model = (TermwiseClassifier if labels else TermwiseRegressor)(random_state=seed).fit(X[train], y[train])
    predicted = model.predict(X[test])
    error = np.mean(predicted != y[test]) if labels else np.mean((predicted - y[test]) ** 2) / y[test].var()
    return {"study": "seeds" if draw is None else "fewer rows", "table": table, "n": n, "p": X.shape[1], "split": split,
            "seed": seed, "terms": int(model.n_terms_), "error": round(float(error), 6)}  # fmt: skip


def left_out(n: int) -> int:
    """Return how many of n rows are a hundredth, at least one."""
    return max(1, round(n / 100))


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each table."""
    found = []
    for study in dict.fromkeys(one["study"] for one in records):
        for table in dict.fromkeys(one["table"] for one in records):
            some = [one for one in records if one["table"] == table]
            fits = [one for one in some if one["study"] == study and one["split"] == 0]
            over_splits = [one["error"] for one in some if one["study"] == "seeds" and one["seed"] == 0]
            found.append(spread(study, fits, float(np.std(over_splits, ddof=1))))
    return found


def spread(study: str, fits: list[dict[str, Any]], over_splits: float) -> dict[str, Any]:
    """Return the range of sizes and errors of some fits to a table, beside the deviation of the error over splits."""
    terms, errors, n = [max(1, one["terms"]) for one in fits], [one["error"] for one in fits], fits[0]["n"]
    error_range = max(errors) - min(errors)
    counted = {"seeds": len(fits)} if study == "seeds" else {"draws": len(fits), "rows_left_out": left_out(n)}
    return {
        "study": study, "table": fits[0]["table"], "n": n, "p": fits[0]["p"], **counted,
        "fewest_terms": min(terms), "median_terms": float(np.median(terms)), "most_terms": max(terms),
        "terms_ratio": round(max(terms) / min(terms), 2), "nominal": 2.0, "error": round(float(np.mean(errors)), 4),
        "error_range": round(error_range, 4), "error_sd_over_splits": round(over_splits, 4),
        "range_over_sd": round(error_range / over_splits, 3) if over_splits else None,
    }  # fmt: skip


def cases(small: bool) -> list[Callable[[], dict[str, Any]]]:
    """Return the jobs: a fit each."""
    home = os.environ.get("TERMWISE_DATA")
    here = [name for name in PAPERS if home and Path(home).is_dir()]
    tables, n_seeds, n_splits = ([*BUNDLED, *here, *DRAWN], N_SEEDS, N_SPLITS) if not small else (["wine"], 2, 2)
    seeds = [partial(fit_split, table, 0, seed) for table in tables for seed in range(n_seeds)]
    splits = [partial(fit_split, table, split, 0) for table in tables for split in range(1, n_splits)]
    return seeds + splits + [partial(fit_split, table, 0, 0, draw) for table in tables for draw in range(n_seeds)]
