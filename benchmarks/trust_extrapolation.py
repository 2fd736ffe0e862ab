"""Splits of heavy-tailed tables: how much worse the worst test error is than the median one.

Each table is drawn once. A resampling draws 300 training rows, fits `TermwiseRegressor` and measures the mean squared
error on all other rows as a share of their variance. Beside the model as it is ("default"), one fit is evaluated by
every way of extrapolation: they agree on the training rows, so that the weights are the same.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from termwise import AnovaBasis, SmoothBasis, TermwiseRegressor, UnionBasis
from termwise.basis import LogInputs

N_ROWS, N_TRAIN = 2000, 300
N_RESAMPLINGS, PER_JOB = 50, 5
MODES = ("default", "clip", "bounded", "constant", "linear", "continue")


def household(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Spending of households: log-normal incomes, debts and prices, which act by their logarithms and together."""
    income, wealth, debt, price = np.exp(rng.normal(size=(4, N_ROWS)) * [[0.8], [1.5], [1.2], [0.6]])
    age, noise = rng.uniform(20, 80, size=N_ROWS), rng.normal(size=N_ROWS)
    spending = np.log1p(income) * (1 + 0.3 * np.log1p(wealth)) - 0.4 * np.log1p(debt) * (age < 45) - 0.3 * np.log(price)
    return np.column_stack([income, wealth, debt, price, age]), spending + 0.15 * noise


def returns(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Response to shocks: Student t inputs of two degrees of freedom, with effects and an interaction that saturate."""
    X = rng.standard_t(2, size=(N_ROWS, 6))
    y = np.tanh(X[:, 0]) + 0.8 * np.tanh(X[:, 1]) * np.tanh(X[:, 2]) + 0.5 * np.arctan(X[:, 3])
    return X, y + 0.2 * rng.normal(size=N_ROWS)


def traffic(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Delay in a network: Pareto volumes and sizes, a delay that grows with load and depends on a product."""
    volume, size = rng.pareto(2.0, size=(2, N_ROWS)) + 1
    distance, hops, hour = rng.lognormal(3.0, 1.0, N_ROWS), rng.poisson(4, N_ROWS), rng.uniform(0, 24, N_ROWS)
    load = volume * size / (10 + volume * size)
    delay = 3 * load + 0.6 * np.log(distance) + 0.2 * hops * load + 0.3 * np.sin(hour * np.pi / 12)
    return np.column_stack([volume, size, distance, hops, hour]), delay + 0.15 * rng.normal(size=N_ROWS)


def product(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A product of log-normal factors as it is: the target has heavy tails, too, and to clip is wrong."""
    X = rng.lognormal(0.0, [0.5, 0.7, 0.5, 1.0], size=(N_ROWS, 4))
    y = X[:, 0] * X[:, 1] + 0.3 * X[:, 2]
    return X, y + 0.1 * y.std() * rng.normal(size=N_ROWS)


HOUSES = Path(os.environ.get("TERMWISE_DATA", "")) / "srbench" / "218_house_8L.csv.gz"


def houses(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Real data, where they are available: median house prices by counts and shares of the census of 1990."""
    table = np.loadtxt(HOUSES, delimiter=",", skiprows=1)
    rows = rng.permutation(len(table))[:N_ROWS]
    return table[rows, :-1], table[rows, -1]


TABLES = {table.__name__: table for table in (household, returns, traffic, product)}
if HOUSES.is_file():
    TABLES["houses"] = houses


def set_extrapolation(basis: Any, mode: str) -> None:
    """Set the extrapolation of a fitted basis, in place."""
    if mode == "default":
        return
    if isinstance(basis, Pipeline):
        set_extrapolation(basis[-1], mode)
    elif isinstance(basis, UnionBasis):
        for part in basis.bases_:
            set_extrapolation(part, mode)
    elif isinstance(basis, LogInputs):
        set_extrapolation(basis.basis_, mode)
    elif isinstance(basis, AnovaBasis | SmoothBasis):
        basis.extrapolation = mode


def resample(table: str, seeds: range, size: str) -> list[dict[str, Any]]:
    """Test errors of some splits of a table, by way of extrapolation."""
    X, y = TABLES[table](np.random.default_rng(0))
    found = []
    for seed in seeds:
        rows = np.random.default_rng(seed).permutation(N_ROWS)
        train, test = rows[:N_TRAIN], rows[N_TRAIN:]
        model = TermwiseRegressor(size, random_state=0).fit(X[train], y[train])
        clipped = float(model.predict(X[test], return_clipped=True)[1].mean())
        record = {"study": "extrapolation", "table": table, "n": N_TRAIN, "size": size, "seed": seed}
        record |= {"dictionary": model.dictionary_, "terms": model.n_terms_, "rows_clipped": round(clipped, 4)}
        for mode in MODES:
            other = copy.deepcopy(model)
            set_extrapolation(other.fitted_terms_.basis, mode)
            residuals = y[test] - other.predict(X[test])
            record[f"error_{mode}"] = round(float(np.mean(residuals**2) / y[test].var()), 5)
        found.append(record)
    return found


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for every table and size the median error of each way, and the worst one as a multiple of it."""
    found = []
    for table, size in dict.fromkeys((one["table"], one["size"]) for one in records):
        splits = [one for one in records if (one["table"], one["size"]) == (table, size)]
        row = {"study": "extrapolation", "table": table, "size": size, "resamplings": len(splits), "nominal": 1.5}
        for mode in MODES:
            errors = np.array([one[f"error_{mode}"] for one in splits])
            row[f"median_{mode}"] = float(np.median(errors))
            row[f"worst_over_median_{mode}"] = round(float(errors.max() / np.median(errors)), 3)
        found.append(row)
    return found


def cases(small: bool) -> list[Callable[[], list[dict[str, Any]]]]:
    """Return the jobs: a few splits of one table each."""
    n, step = (4, 2) if small else (N_RESAMPLINGS, PER_JOB)
    return [
        partial(resample, table, range(start, min(start + step, n)), size)
        for table in TABLES
        for size in (("accurate", "small") if small else ("small",))
        for start in range(0, n, step)
    ]
