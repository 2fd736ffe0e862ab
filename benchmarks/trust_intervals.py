"""Coverage of prediction intervals on fresh samples, where the terms were selected on the training samples.

Targets of the forward models are a linear function of five of p normal inputs with equal weights, those of the
automatic models an additive function of five of p uniform inputs; the signal-to-noise ratio of the variances is SNR.
The noise is normal, Student t with three degrees of freedom, or normal with a standard deviation proportional to
exp(x_1 / 2), each with the same variance. A record has the mean coverage and width over the repetitions, with standard
errors.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _timing import emit, machine

from termwise import ForwardRegressor, TermwiseRegressor, datasets

SAMPLES, INPUTS, NOISES = (60, 100, 300, 1000), (10, 100, 500, 2000), ("normal", "heavy-tailed", "heteroscedastic")
COVERAGE = 0.9
FOLDS = 10
SNR = 4.0
N_TRUE = 5
N_FRESH = 500
REPETITIONS = {  # of a cell by the number of samples: with many, the coverage of a model varies little
    "forward": {60: 100, 100: 40, 300: 8, 1000: 4},
    "automatic": {60: 16, 100: 12, 300: 4, 1000: 2},
}
TABLE_SPLITS, TABLE_ROWS = 6, 500  # of real tables, for training
JOB_SECONDS = 45.0  # of one core
REPETITION_SECONDS = {"forward": (0.3, 5e-7), "automatic": (1.5, 1.2e-5)}  # about; the second for each entry of X

Floats = np.ndarray[Any, np.dtype[np.float64]]


def draw(kind: str, n: int, p: int, noise: str, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Samples of a sparse function of p inputs, with a signal of variance one."""
    if kind == "forward":
        X = rng.normal(size=(n, p))
        signal = X[:, :N_TRUE] @ np.array([1.0, -1.0, 1.0, -1.0, 1.0]) / np.sqrt(N_TRUE)
        position = X[:, 0]
    else:
        X = rng.uniform(-1, 1, size=(n, p))
        curves = [np.sin(3 * X[:, 0]), 2 * X[:, 1] ** 2, 1.2 * X[:, 2], np.exp(X[:, 3]), -X[:, 4]]
        signal = np.sum(curves, axis=0) / 1.47  # standard deviation of the sum
        position = np.sqrt(3.0) * X[:, 0]
    errors = rng.standard_t(3, size=n) / np.sqrt(3.0) if noise == "heavy-tailed" else rng.normal(size=n)
    if noise == "heteroscedastic":
        size = np.exp(position / 2)
        errors *= size / np.sqrt(np.mean(size**2))
    return X, signal + errors / np.sqrt(SNR)


def coverage(kind: str, n: int, p: int, noise: str, seeds: range, normalised: bool = False) -> dict[str, Any]:
    """Coverage and width of the intervals of one cell, over some seeds."""
    inside, widths, terms = [], [], []
    for seed in seeds:
        rng = np.random.default_rng([seed, n, p, NOISES.index(noise)])
        X, y = draw(kind, n + N_FRESH, p, noise, rng)
        model = ForwardRegressor(selection_cv=FOLDS) if kind == "forward" else TermwiseRegressor()
        model.fit(X[:n], y[:n])
        lower, upper = model.predict_interval(X[n:], coverage=COVERAGE, normalised=normalised)
        inside.append(np.mean((lower <= y[n:]) & (y[n:] <= upper)))
        widths.append(np.mean(upper - lower))
        terms.append(model.n_terms_)
    error = np.std([inside, widths], axis=1) / np.sqrt(max(1, len(inside) - 1))
    return {
        "study": "intervals",
        "model": kind,
        "n": n,
        "p": p,
        "noise": noise,
        "snr": SNR,
        "normalised": normalised,
        "first_seed": seeds.start,
        "repetitions": len(inside),
        "nominal": COVERAGE,
        "coverage": round(float(np.mean(inside)), 4),
        "coverage_se": round(float(error[0]), 4),
        "width": round(float(np.mean(widths)), 4),
        "width_se": round(float(error[1]), 4),
        "terms": round(float(np.mean(terms)), 2),
    }


def split_seeds(kind: str, n: int, p: int, repetitions: int) -> list[range]:
    """Seeds in jobs of about a minute of one core."""
    fixed, each = REPETITION_SECONDS[kind]
    size = int(np.clip(JOB_SECONDS / (fixed + each * n * p), 1, repetitions))
    return [range(first, min(first + size, repetitions)) for first in range(0, repetitions, size)]


def table_coverage(table: str, split: int) -> dict[str, Any]:
    """Coverage of the automatic model on the other rows of a real table."""
    data = datasets.load(table)
    rows = np.random.default_rng(split).permutation(len(data.target))
    n = min(TABLE_ROWS, 2 * len(rows) // 3)
    train, test = rows[:n], rows[n : n + 2000]
    model = TermwiseRegressor().fit(data.data[train], data.target[train])
    lower, upper = model.predict_interval(data.data[test], coverage=COVERAGE)
    inside = np.mean((lower <= data.target[test]) & (data.target[test] <= upper))
    return {"study": "intervals", "model": "automatic", "n": n, "p": data.data.shape[1], "table": table,
            "first_seed": split, "repetitions": 1, "nominal": COVERAGE, "coverage": round(float(inside), 4),
            "terms": model.n_terms_}  # fmt: skip


def cases(small: bool) -> list[Callable[[], dict[str, Any]]]:
    """Independent jobs: all cells, or with `small` a few repetitions of the smallest ones."""
    home = os.environ.get("TERMWISE_DATA")
    tables = datasets.REGRESSION if home and Path(home).is_dir() and not small else ()
    jobs: list[Callable[[], dict[str, Any]]] = [
        partial(table_coverage, table, split) for table in tables for split in range(TABLE_SPLITS)
    ]
    for kind in ("forward", "automatic"):
        for n in SAMPLES[:2] if small else SAMPLES:
            for p in INPUTS[:3] if small else INPUTS:
                for noise in NOISES:
                    counts = 4 if small else REPETITIONS[kind][n]
                    jobs += [partial(coverage, kind, n, p, noise, one) for one in split_seeds(kind, n, p, counts)]
    return jobs


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the jobs of each cell: means over all repetitions, with their standard errors."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in records:
        cells.setdefault(tuple(one.get(name) for name in ("model", "n", "p", "noise", "table")), []).append(one)
    joined = []
    for parts in cells.values():
        count = np.array([one["repetitions"] for one in parts], dtype=np.float64)
        cell: dict[str, Any] = {**parts[0], "repetitions": int(count.sum())}
        del cell["first_seed"]
        cell["cell"] = f"{cell['model']}, {cell['n']:,} x {cell['p']:,}"
        for name in [name for name in ("coverage", "width", "terms") if name in cell]:
            values = np.array([one[name] for one in parts])
            mean = float(count @ values / count.sum())
            if name != "terms":  # squares within the jobs, and between them
                within = [max(1, c - 1) * one.get(f"{name}_se", 0) ** 2 for c, one in zip(count, parts, strict=True)]
                spread = count @ (np.array(within) + (values - mean) ** 2)
                cell[f"{name}_se"] = round(float(np.sqrt(spread / count.sum() / max(1, count.sum() - 1))), 4)
            cell[name] = round(mean, 4)
        joined.append(cell)
    return joined


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["forward", "automatic"], default="forward")
    parser.add_argument("--n", type=int, nargs="+", default=list(SAMPLES[:2]))
    parser.add_argument("--p", type=int, nargs="+", default=list(INPUTS))
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--normalised", action="store_true")
    options = parser.parse_args()
    emit(study="intervals", machine=machine())
    for n in options.n:
        for p in options.p:
            for noise in NOISES:
                emit(**coverage(options.model, n, p, noise, range(options.repetitions), options.normalised))


if __name__ == "__main__":
    main()
