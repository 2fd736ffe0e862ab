"""Which columns matter: support recovery and risk on the problems of Hastie, Tibshirani and Tibshirani (2020).

Four settings (samples, columns, true columns), three correlations, five vectors of coefficients and ten
signal-to-noise ratios: `_selection_problems`. The paper tunes every method on as many further samples as there are for
training. Here no method has more than the training samples: the peers are tuned by ten-fold cross-validation,
`ForwardRegressor` by its criteria: `_selection_methods`. "forward, cv",
`ForwardRegressor(criterion="cv", refit_alpha="cv", cv=10)`, is the setting for prediction that is to be compared with
the relaxed lasso: of several ways to choose size and shrinkage it had the least mean risk on other draws of these
problems (seed 1,001), before the draws of this study.

A cell is the mean over all problems of its row, `ours_sd` the standard deviation between them. Relative to a peer, the
cells are the ratio of the mean risks with its standard error, and the geometric mean of the ratios. Seconds are
processor time of one thread.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from _reproduce import FIELDS, NO_DATA, Record, cell, group
from _selection_methods import METHODS, ONLY, PACKAGES, methods_of
from _selection_problems import BETA_TYPES, CORRELATIONS, SETTINGS, SNRS, draw, measure

TITLE = "Hastie, Tibshirani and Tibshirani (2020): selection of columns beside the lasso and best subsets"
needs_data = False
QUANTITIES = {
    "risk": "relative risk",
    "test_error": "relative test error",
    "explained": "variance explained",
    "nonzeros": "nonzeros",
    "f1": "F1",
    "false_share": "false share",
    "seconds": "seconds",
}
CONDITIONS = {"setting": "setting", "rho": "correlation", "beta": "coefficients", "snr": "SNR"}
BY_SNR = ("risk", "f1")  # quantities that are also reported by setting and SNR
REFERENCES = ("relaxed lasso", "forward stepwise")
DRAWN = ("forward, tcr", "forward, cv", "lasso", "relaxed lasso", "forward stepwise", "best subset, abess")
QUICK_SNRS = (0.25, 1.22, 6.0)
REPEATS = 1
SMALLEST_RISK = 1e-4  # added in geometric means, where a risk may be zero
DIGITS = 6


def jobs(quick: bool, repeats: int | None) -> Iterator[Record]:
    """One job per problem and repeat, in random order: those of an interrupted run are a sample of all."""
    problems = list(product(SETTINGS, CORRELATIONS, BETA_TYPES, QUICK_SNRS if quick else SNRS))
    for seed in range(repeats or (1 if quick else REPEATS)):
        for i in np.random.default_rng(seed).permutation(len(problems)).tolist():
            yield dict(zip(("setting", "rho", "beta", "snr"), problems[i], strict=True)) | {"seed": seed}


def run(job: Record) -> Record:
    """Return what is measured of every method."""
    problem = draw(job["setting"], job["rho"], job["beta"], job["snr"], job["seed"])
    fits: dict[str, Record] = {}
    for name in methods_of(job["setting"]):
        if importlib.util.find_spec(PACKAGES.get(name, "numpy")) is None:
            continue
        start = time.process_time()
        coef, intercept = METHODS[name](problem.X, problem.y)
        seconds = time.process_time() - start
        found = measure(problem, coef, intercept) | {"seconds": seconds}
        fits[name] = {key: round(float(value), DIGITS) for key, value in found.items()}
    return {"fits": fits}


# -- tables ------------------------------------------------------------------------------------------------------------


def cells(records: list[Record]) -> list[Record]:
    """Return means over all problems and by each condition, and risks relative to two peers."""
    found = list(mean_cells("all problems", records, lambda one: "all", QUANTITIES))
    for key, title in CONDITIONS.items():
        ordered = sorted(records, key=lambda one: list(SETTINGS).index(one[key]) if key == "setting" else one[key])
        found += mean_cells(f"by {title}", ordered, lambda one, key=key: str(one[key]), QUANTITIES)
    for setting in SETTINGS:
        some = sorted((one for one in records if one["setting"] == setting), key=lambda one: one["snr"])
        found += mean_cells(f"{setting} by SNR", some, lambda one: str(one["snr"]), BY_SNR)
    for reference in REFERENCES:
        found += relative_cells(records, reference)
    return [*found, *skipped_cells(records)]


def mean_cells(table: str, records: list[Record], row_of: Any, quantities: Any) -> Iterator[Record]:
    """Return a cell for each row, method and quantity; over several settings, of methods that are run in all."""
    for row, some in group(records, row_of).items():
        for name in METHODS:
            if name in ONLY and not {one["setting"] for one in some} <= set(ONLY[name]):
                continue
            fits = [one["fits"][name] for one in some if name in one["fits"]]
            for key in quantities if fits else ():
                yield cell((table, row, name, QUANTITIES[key]), [fit[key] for fit in fits])


def relative_cells(records: list[Record], reference: str) -> Iterator[Record]:
    """Return ratios of mean risks and geometric means of ratios to a method, on the problems that both have."""
    rows = {"all": records} | group(records, lambda one: one["setting"])
    for row, some in rows.items():
        for name in METHODS:
            both = [(one["fits"][name]["risk"], one["fits"][reference]["risk"]) for one in some
                    if name in one["fits"] and reference in one["fits"]]  # fmt: skip
            if len(both) < 2 or name == reference or (row == "all" and name in ONLY):
                continue
            ratio, error, geometric = relative_risk(np.array(both))
            for quantity, value in (("risk ratio", ratio), ("standard error", error), ("geometric mean", geometric)):
                place = (f"relative to {reference}", row, name, quantity)
                yield cell(place, [value]) | {"repeats": len(both)}


def relative_risk(risks: np.ndarray) -> tuple[float, float, float]:
    """Return the ratio of the means of two columns, its standard error, and the geometric mean of the ratios."""
    first, second = risks.T
    ratio = first.mean() / second.mean()
    error = np.std(first - ratio * second) / (second.mean() * len(risks) ** 0.5)
    logs = np.log(first + SMALLEST_RISK) - np.log(second + SMALLEST_RISK)
    return float(ratio), float(error), float(np.exp(logs.mean()))


def skipped_cells(records: list[Record]) -> Iterator[Record]:
    """Return a cell without a number for each method whose package is not installed."""
    for name, package in PACKAGES.items():
        if records and not any(name in one["fits"] for one in records):
            place = dict(zip(FIELDS, ("all problems", "all", name, "relative risk"), strict=False))
            reason = f"pip install {package}"
            yield dict.fromkeys(FIELDS) | place | {"repeats": 0, "verdict": NO_DATA, "reason": reason}


# -- figures -----------------------------------------------------------------------------------------------------------


def figures(records: list[Record]) -> Iterator[tuple[str, Any]]:
    """Draw risk and F1 against the signal-to-noise ratio, one panel per setting."""
    for key in BY_SNR:
        yield key, panels(records, key)


def panels(records: list[Record], key: str) -> Any:
    """Return a figure with a panel per setting: means over correlations and coefficients, with standard errors."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(SETTINGS), figsize=(13, 3.4), sharey=key != "risk", layout="constrained")
    for ax, (setting, (n, p, _)) in zip(axes, SETTINGS.items(), strict=True):
        by_snr = group((one for one in records if one["setting"] == setting), lambda one: one["snr"])
        for number, name in enumerate(DRAWN):
            rows = [
                (snr, np.mean(values), np.std(values) / len(values) ** 0.5)
                for snr, some in sorted(by_snr.items())
                if (values := [one["fits"][name][key] for one in some if name in one["fits"]])
            ]
            if rows:
                style = {"color": f"C{number}", "marker": "osv^Dx"[number], "markersize": 4, "capsize": 2}
                ax.errorbar(*np.array(rows).T, label=name, linewidth=1, **style)
        ax.set(xscale="log", xlabel="signal-to-noise ratio", title=f"{setting}: n = {n}, p = {p}")
    axes[0].set_ylabel(QUANTITIES[key])
    if labels := axes[0].get_legend_handles_labels()[0]:
        figure.legend(labels, [name.get_label() for name in labels], loc="outside lower center", ncols=len(DRAWN))
    return figure
