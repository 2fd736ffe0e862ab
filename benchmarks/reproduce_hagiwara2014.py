"""Hagiwara (2014), Tables 2 and 3 and Figure 1: test error and size of models by LOOCV, one standard error, FPE, TCR.

His protocol: all variables standardised, Gaussians `exp(-|x - c|^2 / tau)` on the training samples, selection by cost,
random splits, width by leave-one-out. The penalty is 1e-6 as in his TCR; he chose that of LOOCV, OSER and FPE from six
values by leave-one-out. Width and penalty of the lasso are chosen by 10-fold cross-validation. "TCR, termwise" is
`criterion="tcr"`, whose threshold uses the effective number of candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from _reproduce import Record, cell, group
from numpy.typing import NDArray
from sklearn.linear_model import lasso_path
from sklearn.model_selection import KFold

from termwise import RadialBasis, datasets, forward_path

TITLE = "Hagiwara (2014): regularised forward selection and thresholding of cost reductions"
# samples for training and for testing, path length, candidates for tau
SETS = {
    "ailerons": (1000, 2000, 200, (120, 140, 160, 180, 200)),
    "delta_ailerons": (1000, 2000, 200, (2, 5, 10, 15, 20)),
    "elevators": (1000, 2000, 200, (25, 50, 75, 100, 125)),
    "delta_elevators": (1000, 2000, 200, (2, 5, 10, 30, 50)),
    "boston_housing": (150, 356, 50, (20, 30, 40, 50, 60)),
    "auto_mpg": (150, 242, 50, (2, 5, 10, 15, 20)),
}
SMALL = ("boston_housing", "auto_mpg")
LASSO_SPLITS = 1  # of the large sets
PENALTY = 1e-6
LASSO_PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
FIGURE_1 = (1e-8, 1e-6, 1e-4, 1e-2, 1.0)
CRITERIA = {"LOOCV": "loo", "OSER": "one_se", "FPE": "fpe", "TCR": "tcr_paper", "TCR, termwise": "tcr"}
# mean and standard deviation of each column
ERRORS = {
    "ailerons": ((0.215, 0.021), (0.2, 0.019), (0.213, 0.033), (0.187, 0.012), (0.19, 0.01)),
    "delta_ailerons": ((0.396, 0.041), (0.381, 0.04), (0.376, 0.046), (0.359, 0.04), (0.331, 0.016)),
    "elevators": ((0.156, 0.025), (0.154, 0.025), (0.149, 0.018), (0.144, 0.018), (0.135, 0.011)),
    "delta_elevators": ((0.457, 0.033), (0.441, 0.031), (0.445, 0.032), (0.39, 0.024), (0.373, 0.016)),
    "boston_housing": ((0.213, 0.036), (0.205, 0.025), (0.214, 0.034), (0.214, 0.041), (0.213, 0.036)),
    "auto_mpg": ((0.175, 0.031), (0.164, 0.025), (0.175, 0.027), (0.163, 0.024), (0.143, 0.018)),
}
SIZES = {
    "ailerons": ((126.8, 32.3), (79.2, 34.8), (141.1, 49.5), (25.8, 8.5), (110.8, 135.8)),
    "delta_ailerons": ((106.1, 36.8), (61.9, 26.4), (96.2, 46.5), (21.9, 8.5), (122.2, 220.7)),
    "elevators": ((182.2, 14.2), (141.2, 24.8), (191.4, 16.5), (46.2, 12.7), (809.2, 297.3)),
    "delta_elevators": ((113.3, 34.3), (66, 33.3), (126.7, 44.1), (11.2, 6.9), (49.6, 100.5)),
    "boston_housing": ((39, 7.2), (29.9, 6.5), (43.4, 7.5), (18.4, 4.2), (59.4, 46.6)),
    "auto_mpg": ((41.3, 7.7), (27.6, 8.8), (43.6, 8.1), (15.1, 7.3), (33.8, 17.6)),
}
COLUMNS = ("LOOCV", "OSER", "FPE", "TCR", "LASSO")
NOT_RUN = "Not run: the repeats were stopped before it."
REASONS = {
    ("delta_ailerons", "LASSO", "terms"): (
        "Cross-validation chose the smallest penalty, 1e-6, which keeps nearly all terms; the next, 1e-4, keeps 140 "
        "with about the same error, and the paper too finds the size of the lasso unstable."
    )
}


def jobs(quick: bool, repeats: int | None) -> Iterator[Record]:
    """One job per data set and split, for the tables, for the lasso and for Figure 1."""
    splits = range(repeats or (3 if quick else 20))
    names = SMALL if quick else SETS
    for split in splits:
        yield from ({"part": "tables", "set": name, "split": split} for name in names)
    for split in splits:
        yield from ({"part": "lasso", "set": n, "split": split} for n in names if n in SMALL or split < LASSO_SPLITS)
    for split in splits[: 1 if quick else None]:
        yield {"part": "figure 1", "set": "ailerons", "split": split}


def run(job: Record) -> Record:
    """Return test error and number of terms by each criterion, or by penalty for Figure 1."""
    train, test = split_data(job["set"], job["split"])
    if job["part"] == "lasso":
        return {"LASSO": lasso(train, test, SETS[job["set"]][3])}
    if job["part"] == "figure 1":
        return {f"{alpha:g}": best(paths(job["set"], train, test, alpha)["TCR"]) for alpha in FIGURE_1}
    return {title: best(fits) for title, fits in paths(job["set"], train, test, PENALTY).items()}


@cache
def standardised(name: str) -> NDArray[np.float64]:
    """Return the table of a data set, target last, each column with zero mean and unit variance."""
    data = datasets.load(name)
    table = np.column_stack([data.data, data.target])
    return (table - table.mean(axis=0)) / table.std(axis=0)


def split_data(name: str, split: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return training and test rows."""
    table, (n_train, n_test) = standardised(name), SETS[name][:2]
    rows = np.random.default_rng(split).permutation(len(table))
    return table[rows[:n_train]], table[rows[n_train : n_train + n_test]]


def paths(
    name: str, train: NDArray[Any], test: NDArray[Any], penalty: float
) -> dict[str, list[tuple[float, float, int]]]:
    """Return by criterion, for each width: the leave-one-out error it is judged by, test error and number of terms."""
    _, _, length, taus = SETS[name]
    found: dict[str, list[tuple[float, float, int]]] = {title: [] for title in CRITERIA}
    for tau in taus:
        basis = RadialBasis(width=np.sqrt(tau)).fit(train[:, :-1])
        path = forward_path(basis.transform(train[:, :-1]), train[:, -1], rule="cost", alpha=penalty,
                            max_terms=length, fit_intercept=False)  # fmt: skip
        new = basis.take(path.terms).transform(test[:, :-1])
        for title, criterion in CRITERIA.items():
            k = path.choose(criterion)
            judged = path.steps[path.choose("loo") if criterion == "one_se" else k].loo
            error = float(np.mean((test[:, -1] - new[:, :k] @ path.coef(k)[0]) ** 2))
            found[title].append((float(judged), error, int(k)))
    return found


def best(fits: list[tuple[float, float, int]]) -> list[float]:
    """Return test error and number of terms of the fit with the smallest leave-one-out error."""
    _, error, terms = min(fits)
    return [error, terms]


def lasso(train: NDArray[Any], test: NDArray[Any], taus: tuple[int, ...]) -> list[float]:
    """Return test error and number of terms of the lasso; width and penalty by 10-fold cross-validation."""
    judged = []
    for tau in taus:
        G = RadialBasis(width=np.sqrt(tau)).fit(train[:, :-1]).transform(train[:, :-1])
        folds = KFold(10, shuffle=True, random_state=0).split(G)
        scores = [lasso_errors(G[inner], train[inner, -1], G[outer], train[outer, -1])[0] for inner, outer in folds]
        mean = np.mean(scores, axis=0)
        judged.append((float(mean.min()), tau, int(mean.argmin())))
    _, tau, position = min(judged)
    basis = RadialBasis(width=np.sqrt(tau)).fit(train[:, :-1])
    G, new = basis.transform(train[:, :-1]), basis.transform(test[:, :-1])
    errors, terms = lasso_errors(G, train[:, -1], new, test[:, -1])
    return [float(errors[position]), int(terms[position])]


def lasso_errors(
    G: NDArray[Any], y: NDArray[Any], G_new: NDArray[Any], y_new: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the mean squared errors and numbers of terms for all penalties, with an intercept as in glmnet."""
    center, level = G.mean(axis=0), y.mean()
    _, coefs, _ = lasso_path(G - center, y - level, alphas=LASSO_PENALTIES, max_iter=1000)
    residuals = (y_new - level)[:, None] - (G_new - center) @ coefs
    return np.mean(residuals**2, axis=0), np.count_nonzero(coefs, axis=0)


def cells(records: list[Record]) -> list[Record]:
    """Return Tables 2 and 3 and the claim about Figure 1."""
    by_set = group(records, lambda one: (one["part"] == "figure 1", one["set"]))
    found = []
    for number, (table, papers) in enumerate((("Table 2", ERRORS), ("Table 3", SIZES))):
        quantity = ("test error", "terms")[number]
        for name in SETS:
            for title in (*COLUMNS, "TCR, termwise"):
                values = [one[title][number] for one in by_set.get((False, name), []) if title in one]
                paper = papers[name][COLUMNS.index(title)] if title in COLUMNS else None
                reason = REASONS.get((name, title, quantity), "") if values else NOT_RUN
                found.append(cell((table, name, title, quantity), values, paper, reason=reason))
    for penalty in FIGURE_1:
        values = [one[f"{penalty:g}"][0] for one in by_set.get((True, "ailerons"), [])]
        found.append(cell(("Figure 1", "ailerons", f"penalty {penalty:g}", "test error"), values))
    return found


def figures(records: list[Record]) -> Iterator[tuple[str, Any]]:
    """Draw Figure 1: test error of TCR by penalty."""
    import matplotlib.pyplot as plt

    runs = [one for one in records if one["part"] == "figure 1"]
    if not runs:
        return
    errors = np.array([[one[f"{penalty:g}"][0] for penalty in FIGURE_1] for one in runs])
    figure, axes = plt.subplots(figsize=(5, 3.2))
    axes.errorbar(FIGURE_1, errors.mean(axis=0), errors.std(axis=0), marker="o", capsize=3)
    axes.set(xscale="log", xlabel="penalty", ylabel="test error of TCR", title="Figure 1: ailerons")
    yield "figure_1", figure
