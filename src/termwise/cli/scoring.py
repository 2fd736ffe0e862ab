"""Scores of a fit on held-out rows or by cross-validation, of independent rows and of time series."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import TimeSeriesSplit, train_test_split

import termwise as tw
from termwise._checks import import_optional
from termwise.cli.console import counted
from termwise.cli.task import Task, scored_rows
from termwise.estimators.series import Floats, Series, free_runs, one_step, simulation_range
from termwise.explain.scores import baseline_metadata, score_metadata

pd = import_optional("pandas", "cli", "The command line")

MIN_ROWS_TO_SCORE = 20
N_TIME_FOLDS = 5  # of rows in the order of time: blocks of the last half, each predicted from the rows before it


def split_rows(
    task: Task, hold_out: float | None, past: int, seed: int, notes: list[str]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return training rows and held-out rows: the last ones in the order of time, else stratified random ones."""
    rows = np.arange(len(task.y))
    none = rows, rows[:0]
    if hold_out is None:
        return none
    if len(rows) < MIN_ROWS_TO_SCORE:
        notes.append(f"no rows are held out: fewer than {MIN_ROWS_TO_SCORE}")
        return none
    n_test = min(max(2, round(hold_out * len(rows))), len(rows) - 5)
    if task.ordered:
        train, test = rows[:-n_test], rows[-n_test:]
    else:
        labels, counts = np.unique(task.y, return_counts=True)
        enough = counts.min() >= 2 and min(n_test, len(rows) - n_test) >= len(labels)
        stratify = task.y if task.kind == "classification" and enough else None
        train, test = map(np.sort, train_test_split(rows, test_size=n_test, random_state=seed,
                                                    stratify=stratify))  # fmt: skip
    if task.kind == "classification" and len(np.unique(task.y[train])) < 2:
        notes.append("no rows are held out: the others would have one class")
        return none
    if len(train) < 2 * past:
        notes.append(f"no rows are held out: the others would be fewer than twice the {past} lags")
        return none
    return train, test


def score_fit(
    model: Any, X: Any, task: Task, series: Series | None, test: NDArray[np.intp], seed: int
) -> dict[str, Any]:
    """Return the scores of a fitted model and of baselines, as keywords of `diagnostics.facts`.

    With held-out rows, which the model has not seen, its score on these. Otherwise that of the procedure, by
    cross-validation of the whole fit: the model itself has seen all rows. Rows in the order of time are predicted from
    rows before them.
    """
    if series is not None:
        return score_series(model, X, series, test, seed)
    if len(test):
        train = np.setdiff1d(np.arange(len(task.y)), test)
        held_out, baselines = tw.diagnostics.held_out_comparison(
            model, X.iloc[train].reset_index(drop=True), task.y[train], X.iloc[test].reset_index(drop=True),
            task.y[test],
        )  # fmt: skip
        rows = counted(len(test), "row")
        protocol = f"on the last {rows}, held out" if task.ordered else f"on {rows} held out at random"
        return {"held_out": {**held_out, "protocol": protocol}, "baselines": baselines}
    cv = TimeSeriesSplit(N_TIME_FOLDS, test_size=len(task.y) // (2 * N_TIME_FOLDS)) if task.ordered else None
    score, baselines = tw.diagnostics.cross_validated_comparison(model, X, task.y, cv=cv, random_state=seed)
    return {"cross_validation": score, "baselines": baselines}


def score_series(model: Any, X: Any, series: Series, test: NDArray[np.intp], seed: int) -> dict[str, Any]:
    """Return the scores of a model of past values and of baselines, as keywords of `diagnostics.facts`.

    Lagged values are columns here, so that rows can be left out. Each fold, or the held-out rows, is predicted from the
    rows before it: one step ahead, and in a free run from its first values.
    """
    lags = model.basis_
    rows = np.flatnonzero(scored_rows(series, lags.max_lag_))
    G = pd.DataFrame(lags.evaluate(X.to_numpy(dtype=np.float64))[rows], columns=lags.get_feature_names_out())
    y, estimator = series.output[rows], clone(model).set_params(basis=None)
    if len(test):
        later = rows >= test[0]
        splits = [(np.flatnonzero(~later), np.flatnonzero(later))]
        fitted = clone(estimator).fit(G[~later], y[~later])
        score, baselines = tw.diagnostics.held_out_comparison(fitted, G[~later], y[~later], G[later], y[later])
        score["protocol"] = f"on the last {counted(len(test), 'row')}, held out"
    else:
        cv = TimeSeriesSplit(N_TIME_FOLDS, test_size=len(y) // (2 * N_TIME_FOLDS))
        splits = list(cv.split(y))
        score, baselines = tw.diagnostics.cross_validated_comparison(estimator, G, y, cv=cv, random_state=seed)
    scored = np.concatenate([part for _, part in splits])
    score |= free_run_scores(estimator, lags, series, rows, splits, G, y)
    last = score_metadata(y[scored], series.output[rows[scored] - 1], None)
    persistence = baseline_metadata("persistence", "persistence, the last value", last, 1)
    return {"held_out" if len(test) else "cross_validation": score, "baselines": [persistence, *baselines]}


def free_run_scores(
    estimator: Any, lags: Any, series: Series, rows: NDArray[np.intp], splits: Iterable[Any], G: Any, y: Floats
) -> dict[str, float]:
    """Return R2 and the root mean squared error of free runs of every fold, by models fitted to the rows before it."""
    measured, simulated = [], []
    for train, test in splits:
        step = one_step(clone(estimator).fit(G.iloc[train].to_numpy(), y[train]))
        span = slice(rows[test[0]] - lags.max_lag_, rows[test[-1]] + 1)
        part = Series(series.table[span], series.starts[span])
        found = free_runs(part, lags, step, simulation_range(series))
        measured.append(found[0])
        simulated.append(found[1])
    score = score_metadata(np.concatenate(measured), np.concatenate(simulated), None)
    return {"free_run_r2": score["value"], "free_run_rmse": score["rmse"]}
