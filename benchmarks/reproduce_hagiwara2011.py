"""Hagiwara (2011), Tables 2 and 3: orthogonalise and threshold, against ridge (RM) and LROLS.

His protocol: all variables standardised, Gaussians `exp(-|x - c|^2 / T^2)` on the training samples, no intercept, T by
two-fold cross-validation, test error as a share of the variance of the test targets. His intervals are two standard
deviations. LROLS paths are cut at a quarter of the samples. Where our numbers of components differ, a last part shows
what a larger tolerance for the stable set, and Gaussians `exp(-|x - c|^2 / (2 T^2))`, give; it has no verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from _reproduce import Record, cell, group
from numpy.typing import NDArray

from termwise import BasisRidge, EvidenceForwardRegressor, OrthogonalThresholdRegressor, RadialBasis, datasets

TITLE = "Hagiwara (2011): orthogonalisation and thresholding"
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
}
SMALL = ("auto_mpg",)
# T and the tolerance for gamma that give about the paper's numbers of components with exp(-|x - c|^2 / (2 T^2))
TOLERANCES = {"ailerons": (8, 8.0), "elevators": (8, 2e-3), "kin8nm": (2, 1e-2)}
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
STABLE_SET = (
    "The stable set of the paper is smaller than its tolerance of 1e-10 implies: with Gaussians twice as wide in the "
    "squared distance and a larger tolerance OHTGS2 keeps about as many components as in the paper."
)
REASONS = {
    ("ailerons", "OHTED", "test error"): (
        "T = 8 is the widest candidate and chosen in every split: with Gaussians twice as wide in the squared distance "
        "the error falls from 0.240 to 0.198 for 1,500 training samples."
    ),
    ("delta_elevators", "OHTGS", "components or terms"): (
        "It is 7 with a quarter of the training samples, and the error of RM on kin8nm is the paper's with half of "
        "them: the paper's models seem to have been fitted to fewer samples than stated."
    ),
    ("delta_ailerons", "OHTGS2", "components or terms"): (
        "Everything up to the last significant component is kept, so that a single late one decides: of two splits "
        "one has 51 and the other 96."
    ),
    **{(name, method, "components or terms"): STABLE_SET for name in TOLERANCES for method in ("OHTGS", "OHTGS2")},
}
Prediction = tuple[NDArray[np.float64], int]  # at new samples; number of components or terms


def jobs(quick: bool, repeats: int | None) -> Iterator[Record]:
    """One job per data set and split, first for the tables, then for larger tolerances."""
    for name in SMALL if quick else SETS:
        for split in range(repeats or (3 if quick else 20 if name in SMALL else 1)):
            yield {"part": "tables", "set": name, "split": split}
    for name, (width, tol) in () if quick else TOLERANCES.items():
        yield {"part": "tolerance", "set": name, "width": width, "tol": tol, "split": 0}


def run(job: Record) -> Record:
    """Return test error, number of components and width of each method."""
    X, y, X_test, y_test = split_data(job["set"], job["split"])
    if job["part"] == "tolerance":
        return larger_tolerance(job, X, y, X_test, y_test)
    first = np.arange(len(y)) < len(y) // 2
    best: dict[str, tuple[float, list[float]]] = {}
    for width in WIDTHS:
        halves = [(predictions(X[half], y[half], X[~half], width), y[~half]) for half in (first, ~first)]
        for method, (predicted, size) in predictions(X, y, X_test, width).items():
            judged = sum(float(np.sum((held_out - half[method][0]) ** 2)) for half, held_out in halves)
            if method not in best or judged < best[method][0]:
                best[method] = judged, [relative_error(y_test, predicted), int(size), width]
    return {method: result for method, (_, result) in best.items()}


def larger_tolerance(
    job: Record, X: NDArray[Any], y: NDArray[Any], X_test: NDArray[Any], y_test: NDArray[Any]
) -> Record:
    """Return test error, number of components and width of both Gram-Schmidt methods with another stable set."""
    basis = RadialBasis(width=np.sqrt(2) * job["width"])
    found = {}
    for method, keep in (("OHTGS", "significant"), ("OHTGS2", "leading")):
        model = OrthogonalThresholdRegressor(
            basis, method="gram_schmidt", keep=keep, tol=job["tol"], stable="all", fit_intercept=False
        ).fit(X, y)
        found[method] = [relative_error(y_test, model.predict(X_test)), int(model.n_components_), job["width"]]
    return found


def relative_error(y: NDArray[Any], predicted: NDArray[Any]) -> float:
    """Return the mean squared error as a share of the variance."""
    return float(np.mean((y - predicted) ** 2) / y.var())


@cache
def standardised(name: str) -> NDArray[np.float64]:
    """Return the table of a data set, target last, each column with zero mean and unit variance."""
    data = datasets.load(name)
    table = np.column_stack([data.data, data.target])
    return (table - table.mean(axis=0)) / table.std(axis=0)


def split_data(name: str, split: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return inputs and targets for training, then for testing."""
    table, (n_train, n_test) = standardised(name), SETS[name]
    rows = np.random.default_rng(split).permutation(len(table))
    train, test = table[rows[:n_train]], table[rows[n_train : n_train + n_test]]
    return train[:, :-1], train[:, -1], test[:, :-1], test[:, -1]


def predictions(X: NDArray[Any], y: NDArray[Any], X_new: NDArray[Any], width: float) -> dict[str, Prediction]:
    """Return the predictions and the number of components of every method."""
    basis = RadialBasis(width=width).fit(X)
    G, G_new = basis.transform(X), basis.transform(X_new)
    models: dict[str, Any] = {"RM": BasisRidge(alpha="loo", fit_intercept=False)}
    for name, method in (("OHTED", "eigen"), ("OHTGS", "gram_schmidt")):
        for ending, keep in (("", "significant"), ("2", "leading")):
            models[name + ending] = OrthogonalThresholdRegressor(method=method, keep=keep, fit_intercept=False)
    models["LROLS"] = EvidenceForwardRegressor(fit_intercept=False, max_terms=max(len(y) // 4, 1))
    found = {}
    for name, model in models.items():
        model.fit(G, y)
        size = {"RM": "effective_dof_", "LROLS": "n_terms_"}.get(name, "n_components_")
        found[name] = model.predict(G_new), round(getattr(model, size))
    return found


def cells(records: list[Record]) -> list[Record]:
    """Return Tables 2 and 3, then those with larger tolerances."""
    runs = group(records, lambda one: (one["part"], one["set"]))
    quantities: tuple[tuple[str, str, dict[str, Any], tuple[str, ...]], ...] = (
        ("Table 2", "test error", ERRORS, METHODS),
        ("Table 3", "components or terms", SIZES, METHODS[3:5]),
    )
    found = []
    for number, (table, quantity, papers, columns) in enumerate(quantities):
        for name in SETS:
            for method in METHODS:
                values = [one[method][number] for one in runs.get(("tables", name), [])]
                paper = half_interval(papers[name], columns.index(method)) if method in columns else None
                reason = REASONS.get((name, method, quantity), "")
                found.append(cell((table, name, method, quantity), values, paper, reason=reason))
    for number, (table, quantity, _, _) in enumerate(quantities):
        for name, (width, tol) in TOLERANCES.items():
            for method in ("OHTGS", "OHTGS2"):
                values = [one[method][number] for one in runs.get(("tolerance", name), [])]
                row = f"{name}, T = {width}, tolerance {tol:g}"
                found.append(cell((f"{table}, larger tolerance", row, method, quantity), values))
    return found


def half_interval(numbers: tuple[tuple[float, ...], tuple[float, ...]], position: int) -> tuple[float, float]:
    """Return a mean and its standard deviation, half of the interval in the paper."""
    return numbers[0][position], numbers[1][position] / 2


def figures(records: list[Record]) -> Iterator[tuple[str, Any]]:
    """The paper has no figure of its experiments."""
    yield from ()
