"""Hagiwara (2011), Tables 2 and 3: orthogonalise and threshold, against ridge and LROLS.

His protocol: all variables standardised, Gaussians `exp(-|x - c|^2 / T^2)` on the training samples, no intercept, T by
two-fold cross-validation, test error as a share of the variance of the test targets. One decomposition per width serves
both ways to keep components. A last line per set compares the defaults, intercept included, with ridge on at most
1,000 samples. Needs the data sets: set TERMWISE_DATA to their folder.
"""

from __future__ import annotations

import argparse
from functools import partial
from multiprocessing import Pool
from typing import Any

import numpy as np
from _timing import emit, machine
from numpy.typing import NDArray

import termwise
from termwise import BasisRidge, OrthogonalThresholdRegressor, RadialBasis, datasets

WIDTHS = (1, 2, 5, 8)
METHODS = ("RM", "OHTED", "OHTED2", "OHTGS", "OHTGS2", "LROLS")
# samples for training and for testing
SETS = {
    "ailerons": (4000, 2000),
    "delta_ailerons": (4000, 2000),
    "elevators": (4000, 2000),
    "delta_elevators": (4000, 2000),
    "kin8nm": (4000, 2000),
    "puma8NH": (3000, 1499),
    "puma32H": (3000, 1499),
    "auto_mpg": (300, 92),
    "boston_housing": (356, 150),  # not in the paper
}
# his errors, method by method: means, then two standard deviations
ERRORS = {
    "ailerons": ((0.422, 0.178, 0.178, 0.526, 0.525, 0.500), (0.031, 0.011, 0.012, 0.053, 0.054, 0.039)),
    "delta_ailerons": ((0.305, 0.315, 0.307, 0.312, 0.306, 0.306), (0.023, 0.030, 0.023, 0.022, 0.024, 0.023)),
    "elevators": ((0.116, 0.106, 0.100, 0.115, 0.109, 0.106), (0.016, 0.015, 0.014, 0.016, 0.015, 0.015)),
    "delta_elevators": ((0.376, 0.378, 0.379, 0.379, 0.381, 0.376), (0.019, 0.018, 0.018, 0.019, 0.022, 0.019)),
    "kin8nm": ((0.117, 0.158, 0.123, 0.171, 0.135, 0.124), (0.011, 0.025, 0.023, 0.020, 0.020, 0.017)),
    "puma8NH": ((0.342, 0.373, 0.350, 0.414, 0.360, 0.352), (0.026, 0.029, 0.056, 0.030, 0.027, 0.029)),
    "puma32H": ((0.798, 0.819, 0.801, 0.820, 0.801, 0.800), (0.037, 0.038, 0.039, 0.037, 0.039, 0.039)),
    "auto_mpg": ((0.129, 0.144, 0.141, 0.145, 0.136, 0.146), (0.046, 0.047, 0.059, 0.057, 0.049, 0.058)),
}
# his numbers of components for OHTGS and OHTGS2: means, then two standard deviations
SIZES = {
    "ailerons": ((6.70, 10.54), (2.92, 2.59)),
    "delta_ailerons": ((17.64, 53.20), (7.04, 11.76)),
    "elevators": ((40.88, 101.42), (7.22, 5.38)),
    "delta_elevators": ((7.36, 42.00), (3.79, 160.84)),
    "kin8nm": ((208.84, 612.28), (17.90, 17.23)),
    "puma8NH": ((64.26, 254.82), (7.93, 128.47)),
    "puma32H": ((16.92, 31.96), (4.06, 3.59)),
    "auto_mpg": ((10.30, 24.52), (4.38, 34.58)),
}
Model = tuple[NDArray[Any], NDArray[Any], float, int]  # columns, weights, intercept, components
Result = tuple[float, int, int]  # test error, components, width


def split_data(
    name: str, split: int, most: int | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Inputs and targets for training, `most` samples at most, then for testing."""
    n_train, n_test = SETS[name]
    data = datasets.load(name)
    table = np.column_stack([data.data, data.target])
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    rows = np.random.default_rng(split).permutation(len(table))
    train, test = table[rows[:n_train][:most]], table[rows[n_train : n_train + n_test]]
    return train[:, :-1], train[:, -1], test[:, :-1], test[:, -1]


def papers_models(G: NDArray[Any], y: NDArray[Any]) -> dict[str, Model]:
    """Every method of the paper on one design matrix."""
    ridge = BasisRidge(alpha="loo", fit_intercept=False).fit(G, y)
    models = {"RM": (ridge.support_, ridge.weights_, 0.0, round(ridge.effective_dof_))}
    for name, method in (("OHTED", "eigen"), ("OHTGS", "gram_schmidt")):
        for ending, keep in (("", "significant"), ("2", "leading")):
            model = OrthogonalThresholdRegressor(method=method, keep=keep, fit_intercept=False).fit(G, y)
            models[name + ending] = model.support_, model.weights_, 0.0, model.n_components_
    if hasattr(termwise, "EvidenceForwardRegressor"):  # long paths are cut to save time
        lrols = termwise.EvidenceForwardRegressor(fit_intercept=False, max_terms=len(y) // 4).fit(G, y)
        models["LROLS"] = lrols.support_, lrols.weights_, 0.0, lrols.n_terms_
    return models


def default_models(G: NDArray[Any], y: NDArray[Any]) -> dict[str, Model]:
    """The defaults beside ridge, both with an intercept."""
    ridge, ours = BasisRidge(alpha="loo").fit(G, y), OrthogonalThresholdRegressor().fit(G, y)
    return {
        "ridge": (ridge.support_, ridge.weights_, ridge.intercept_, round(ridge.effective_dof_)),
        "defaults": (ours.support_, ours.weights_, ours.intercept_, ours.n_components_),
    }


def predictions(
    X: NDArray[Any], y: NDArray[Any], X_new: NDArray[Any], width: float, models: Any
) -> dict[str, tuple[NDArray[Any], int]]:
    """Predictions and number of components of each model."""
    basis = RadialBasis(width=width).fit(X)
    fitted, G = models(basis.transform(X), y), basis.transform(X_new)
    return {name: (G[:, columns] @ w + intercept, size) for name, (columns, w, intercept, size) in fitted.items()}


def one_split(name: str, split: int, models: Any, most: int | None) -> dict[str, Result]:
    """Test error, number of components and width of each method."""
    X, y, X_test, y_test = split_data(name, split, most)
    first = np.arange(len(y)) < len(y) // 2
    best: dict[str, tuple[float, Result]] = {}
    for width in WIDTHS:
        halves = [(predictions(X[half], y[half], X[~half], width, models), y[~half]) for half in (first, ~first)]
        for method, (predicted, size) in predictions(X, y, X_test, width, models).items():
            judged = sum(np.sum((held_out - half[method][0]) ** 2) for half, held_out in halves)
            if method not in best or judged < best[method][0]:
                error = np.mean((y_test - predicted) ** 2) / y_test.var()
                best[method] = judged, (float(error), size, width)
    return {method: result for method, (_, result) in best.items()}


def summary(results: list[dict[str, Result]], method: str) -> dict[str, Any]:
    """Mean and two standard deviations of the errors and sizes, as the paper gives them, and the widths."""
    errors, sizes, widths = np.array([result[method] for result in results]).T
    values = {"error": errors.mean(), "error_2sd": 2 * errors.std(), "size": sizes.mean(), "size_2sd": 2 * sizes.std()}
    return {key: round(float(value), 4) for key, value in values.items()} | {"widths": [int(w) for w in widths]}


def compare(record: dict[str, Any], key: str, mean: float, spread: float) -> None:
    """Put the paper's number beside ours."""
    record |= {f"paper_{key}": mean, f"paper_{key}_2sd": spread}
    record[f"{key}_within"] = abs(record[key] - mean) <= spread
    record[f"{key}_no_worse"] = record[key] <= mean + spread


def report(name: str, results: list[dict[str, Result]]) -> None:
    """Emit a line per method."""
    for method in results[0]:
        record = summary(results, method)
        if name in ERRORS:
            compare(record, "error", *(numbers[METHODS.index(method)] for numbers in ERRORS[name]))
        if name in SIZES and "GS" in method:
            compare(record, "size", *(numbers[method == "OHTGS2"] for numbers in SIZES[name]))
        emit(benchmark="hagiwara2011", set=name, method=method, repeats=len(results), **record)


def report_defaults(name: str, results: list[dict[str, Result]]) -> None:
    """Emit a line on the defaults."""
    record, ridge = summary(results, "defaults"), summary(results, "ridge")
    record |= {"ridge_error": ridge["error"], "ratio": round(record["error"] / ridge["error"], 3)}
    emit(benchmark="hagiwara2011", set=name, method="defaults vs ridge", repeats=len(results), **record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="number of random splits")
    parser.add_argument("--small", action="store_true", help="two splits of the small sets")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="which data sets")
    parser.add_argument("--jobs", type=int, default=1, help="splits to work on at a time")
    options = parser.parse_args()
    emit(benchmark="hagiwara2011", **machine())
    names, splits = (list(SETS)[7:], range(2)) if options.small else (options.sets, range(options.repeats))
    for name in names:
        try:
            datasets.load(name)
        except OSError as error:
            emit(benchmark="hagiwara2011", set=name, skipped=str(error))
            continue
        with Pool(options.jobs) as pool:
            report(name, pool.map(partial(one_split, name, models=papers_models, most=None), splits, chunksize=1))
            plain = partial(one_split, name, models=default_models, most=1000)
            report_defaults(name, pool.map(plain, splits, chunksize=1))


if __name__ == "__main__":
    main()
