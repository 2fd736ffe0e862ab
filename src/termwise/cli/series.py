"""Time series on the command line: breaks in the data, scores one step ahead and of free runs, persistence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import TimeSeriesSplit

import termwise as tw
from termwise._checks import import_optional
from termwise.cli.console import counted
from termwise.cli.task import Task
from termwise.estimators.series import Floats, Series, free_runs, one_step, simulation_range
from termwise.explain.scores import score_metadata

pd = import_optional("pandas", "cli", "The command line")

N_TIME_FOLDS = 5  # of rows in the order of time: blocks of the last half, each predicted from the rows before it


def as_series(task: Task, X: Any) -> Series:
    """Return the table of a time series, the target first; a row with a missing value is a break."""
    inputs = X.drop(columns=task.target).to_numpy(dtype=np.float64)
    starts = np.zeros(len(X), dtype=bool)
    starts[:1] = True
    return Series(np.column_stack([task.y, inputs]), starts)


def scored_rows(series: Series, past: int) -> NDArray[np.bool_]:
    """Return which rows have a value and a complete history."""
    return series.complete & (series.history() >= past)


def fill_breaks(X: Any) -> Any:
    """Return inputs without missing values, for columns of lags; rows that read a filled value have no weight."""
    return X.ffill().bfill()


def after_breaks(X: Any, target: str, n_past: int, past: int) -> NDArray[np.bool_]:
    """Return which rows of a table miss a value that their prediction reads, among the `past` rows before them.

    The first rows miss those before the table. From `n_past` on the target is forecast, and what one forecast misses
    all later ones do.
    """
    missing = np.array(X.isna().any(axis=1))
    inputs = np.array(X.drop(columns=target, errors="ignore").isna().any(axis=1))
    missing[n_past:] = inputs[n_past:]
    broken = inputs | np.array([missing[max(0, t - past) : t].any() for t in range(len(X))])
    broken[:past] = True
    broken[n_past:] = np.logical_or.accumulate(broken[n_past:])
    return broken


def break_notes(series: Series, past: int) -> list[str]:
    """Return a note on the breaks in a series."""
    missing = int((~series.complete).sum())
    if not missing:
        return []
    left = int(scored_rows(series, past).sum())
    return [f"{counted(missing, 'row')} with a missing value: lags do not reach across, {counted(left, 'row')} have "
            "a complete past"]  # fmt: skip


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
    judged = np.concatenate([part for _, part in splits])
    score |= free_run_scores(estimator, lags, series, rows, splits, G, y)
    last = score_metadata(y[judged], series.output[rows[judged] - 1], None)
    persistence = {"name": "persistence", "title": "persistence, the last value", "value": last["value"],
                   "std_error": last["std_error"], "terms": 1}  # fmt: skip
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
