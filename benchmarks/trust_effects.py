"""Total effects of inputs next to permutation importance, and the coverage of the bands around main effects.

The flagship is fitted to each table with its defaults; the total effects shown by the report are compared with
scikit-learn's permutation importance of the same model on the same samples: the rise of the mean squared error, or of
the log loss of classifiers. `spearman` is the rank correlation over all inputs, where those that the model does not use
have a total effect of zero. The same for the root of the summed squared strengths of all effects that an input is part
of, which is its total effect if inputs are independent: `strengths`; and for the rise of the misclassification rate,
which is zero for inputs that change probabilities but no decision: `error_rate`. `seeds` is the rank correlation of two
runs of permutation importance with different seeds, the most that can be asked for.

Two tables are simulated by rules that were fixed beforehand, after tables on which effects over an even grid misled:
"default" (a strong input, two weak ones that are correlated with it and with each other) and "email" (counts, most of
them rare, one non-zero in a single row). Tables of the papers need the data: set TERMWISE_DATA to their folder.

`coverage` is the share of values of an input, between its outer deciles, at which the band covers the main effect of a
known function, averaged over draws of the data and the inputs that are in the model, with its standard error;
`half_width` and `error` are the mean half-width and the mean absolute error of the effect.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit
from scipy.stats import spearmanr
from sklearn import datasets as bundled
from sklearn.inspection import permutation_importance

from termwise import AnovaBasis, ForwardRegressor, TermwiseClassifier, TermwiseRegressor, datasets, diagnostics

MAX_ROWS = 2000
REPEATS = 20
BUNDLED = ("diabetes", "breast_cancer", "iris", "wine")
FRIEDMAN = ("friedman1", "friedman2", "friedman3")
PAPERS = ("auto_mpg", "boston_housing", "delta_ailerons", "kin8nm", "puma8NH")


def default(rng: np.random.Generator, n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Students have a lower income and a higher balance; the balance decides on default, a student's a little less."""
    student = rng.uniform(size=n) < 0.3
    income = np.where(student, rng.normal(18, 5, n), rng.normal(40, 10, n)).clip(1)
    balance = (rng.normal(770, 470, n) + 220 * student).clip(0)
    chance = expit(-10.9 + 0.0057 * balance - 0.65 * student + 0.003 * income)
    return pd.DataFrame({"student": 1.0 * student, "balance": balance, "income": income}), rng.uniform(size=n) < chance


def email(rng: np.random.Generator, n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Ten counts, of which each is rarer than the one before, three lengths, and a word that a single row has."""
    counts = {f"count{j}": rng.poisson(rng.gamma(0.3, 2.0 / (j + 1), n)).astype(float) for j in range(10)}
    lengths = {f"length{j}": rng.lognormal(1.0, 1.0, n) for j in range(3)}
    X = pd.DataFrame(counts | lengths).assign(word=1.0 * (np.arange(n) == n // 2))
    score = 0.8 * X["count0"] - 0.5 * X["count1"] + 0.7 * X["count2"] - 0.9 * np.log(X["length0"]) + 6 * X["word"]
    return X, rng.uniform(size=n) < expit(score - 1.5)


DRAWN: dict[str, Callable[..., Any]] = {"default": default, "email": email}


def read(name: str, n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the inputs and the target of a table, at most n rows."""
    rng = np.random.default_rng(0)
    if name in DRAWN:
        return DRAWN[name](rng, n)
    if name in FRIEDMAN:
        X, y = getattr(bundled, f"make_{name}")(n_samples=n, noise=0.1, random_state=0)
    elif name in BUNDLED:
        X, y = getattr(bundled, f"load_{name}")(return_X_y=True)
    else:
        table = datasets.load(name)
        X, y = table.data, table.target
    rows = rng.permutation(len(y))[:n]
    return pd.DataFrame(X[rows], columns=[f"x{j}" for j in range(X.shape[1])]), y[rows]


def rank_correlation(first: ArrayLike, second: ArrayLike) -> float | None:
    """Spearman's rank correlation; None where one of the two is constant."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return round(float(spearmanr(first, second).statistic), 4)


def compare(name: str, n: int) -> dict[str, Any]:
    """Rank correlation of total effects with permutation importance on one table."""
    X, y = read(name, n)
    classifies = name in DRAWN or name in BUNDLED[1:]
    model = (TermwiseClassifier() if classifies else TermwiseRegressor()).fit(X, y)
    facts = diagnostics.facts(model, X, y)
    totals = {row["input"]: math.hypot(*row["total"]) for row in facts["importance"]}
    total = np.array([totals.get(column, 0.0) for column in X])
    strengths = [[math.hypot(*one["strength"]) for one in facts["effects"] if column in one["inputs"]] for column in X]

    def permuted(scoring: str, seed: int) -> np.ndarray:
        options = {"scoring": scoring, "n_repeats": REPEATS, "random_state": seed}
        return permutation_importance(model, X, y, **options).importances_mean

    scoring = "neg_log_loss" if classifies else "neg_mean_squared_error"
    found = permuted(scoring, 0)
    record = {
        "study": "effects",
        "quantity": "total effects",
        "table": name,
        "n": len(y),
        "d": X.shape[1],
        "inputs_used": len(totals),
        "dictionary": model.dictionary_,
        "nominal": 0.9,
        "spearman": rank_correlation(total, found),
        "strengths": rank_correlation([math.hypot(*own) for own in strengths], found),
        "seeds": rank_correlation(permuted(scoring, 1), found),
        "first": str(X.columns[np.argmax(total)]),
        "first_permuted": str(X.columns[np.argmax(found)]),
    }
    if classifies:
        record["error_rate"] = rank_correlation(total, permuted("accuracy", 0))
    return record


# Of the first three inputs.
EFFECTS: list[Callable[[Any], Any]] = [lambda x: np.sin(3 * x), lambda x: 1.5 * x**2, lambda x: 0.5 * x]


def bands(n: int, noise: float, folds: int, seed: int, draws: int) -> dict[str, Any]:
    """Coverage of the bands of `ForwardRegressor` with its defaults: five inputs matter, two of them as a product."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(draws):
        X = rng.uniform(-1, 1, size=(n, 8))
        y = sum(f(X[:, j]) for j, f in enumerate(EFFECTS)) + X[:, 3] * X[:, 4] + noise * rng.normal(size=n)
        model = ForwardRegressor(AnovaBasis(), selection_cv=folds).fit(X, y)
        effects = {tuple(one["inputs"]): one for one in diagnostics.facts(model, X, y)["effects"]}
        for j, f in enumerate(EFFECTS):
            if (f"x{j}",) in effects:
                one = effects[f"x{j}",]
                values = np.array(one["values"][0])
                inner = (values >= one["deciles"][0][0]) & (values <= one["deciles"][0][-1])
                error = (np.array(one["effect"][0]) - f(values) + f(X[:, j]).mean())[inner]
                half = np.array(one["band"][0])[inner]
                found.append([np.mean(np.abs(error) <= half), half.mean(), np.abs(error).mean()])
    means, deviations = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    names = ("coverage", "half_width", "error")
    return {
        "study": "effects",
        "quantity": "bands",
        "n": n,
        "noise": noise,
        "folds": folds,
        "nominal": 0.9,
        "draws": draws,
        "seed": seed,
        **{name: [round(float(means[k]), 4), round(float(deviations[k]), 4)] for k, name in enumerate(names)},
    }


def cases(small: bool) -> list[Callable[[], dict[str, Any]]]:
    """Return the jobs: a table each."""
    home = os.environ.get("TERMWISE_DATA")
    papers = [name for name in PAPERS if home and Path(home).is_dir()]
    tables = ["iris", "friedman1"] if small else [*BUNDLED, *FRIEDMAN, *DRAWN, *papers]
    seeds, draws = (1, 3) if small else (1, 20)
    cells = [(n, noise, folds) for n in (100, 400) for noise in (0.3, 1.0) for folds in (5, 10)]
    found: list[Callable[[], dict[str, Any]]] = [partial(compare, name, 300 if small else MAX_ROWS) for name in tables]
    return found + [partial(bands, *cell, seed, draws) for cell in cells for seed in range(seeds)]
