"""A model file on the command line: the tables it is applied to, predictions, and rows unlike those of the fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

import termwise as tw
from termwise._checks import import_optional
from termwise.cli.columns import Column, as_word
from termwise.cli.console import listed
from termwise.cli.tables import Table, read_table
from termwise.cli.task import check_magnitude, count_past, fill_breaks, find_column, iso_dates, time_order

pd = import_optional("pandas", "cli", "The command line")

RANGE_ROUNDING = 1e-5  # relative: more than the ranges in the metadata are rounded by


class SavedModel:
    """A model file, with what `termwise fit` stored beside the predictor, and the tables it is applied to."""

    def __init__(self, path: Path) -> None:
        if path.is_dir() or not path.exists():
            problem = "is a folder" if path.is_dir() else "does not exist"
            raise ValueError(f"{path} {problem}: give the model file that `termwise fit -o` wrote.")
        self.predictor = tw.load_predictor(path)
        facts = self.predictor.facts or {}
        command = facts.get("command") or {}
        n_past = self.predictor.n_past  # whether it is a series is a matter of the model, not of its metadata
        self.past: int = n_past or 0  # number of rows before one that its prediction reads
        self.lags: int = 0 if n_past is None else max(1, n_past)
        named = command.get("target") or facts.get("model", {}).get("target") or ""
        self.target: str = self.predictor.series or named if self.lags else named
        self.time: str | None = command.get("time")
        self.missing: list[str] = command.get("missing") or []
        self.decimal: str | None = command.get("decimal")
        classes = self.predictor.classes
        self.target_kind = "text" if classes and isinstance(classes[0], str) else "number"

    def read(self, path: Path, keep: Sequence[str] = ()) -> Table:
        """Read a table as that of the fit was read, with the columns to keep as they are."""
        inputs, target = self.predictor.inputs, self.target
        strings = [each.name for each in inputs if each.kind == "category"] + [target] * (self.target_kind == "text")
        numeric = [name for name in (*self.predictor.input_names, target) if name not in strings]
        return read_table(path, as_text=strings, expected=self.predictor.input_names, missing=self.missing,
                          numeric=numeric, decimal=self.decimal, verbatim=keep)  # fmt: skip

    def inputs(self, table: Table, every: bool = False) -> tuple[Any, Any]:
        """Return the inputs and the order of the rows, which is that of time in a series.

        They are those that the terms use, or all that the fit had.
        """
        used = self.predictor.input_names if every else self.predictor.used_inputs
        inputs = [each for each in self.predictor.inputs if each.name in used]
        order = time_order(table, self.time if self.lags else None)
        X = select_inputs(table, inputs, optional=self.predictor.input_names if self.lags else [])
        fills = {each.name: each.fill for each in inputs if each.fill is not None and each.name != self.target}
        X = X.fillna(fills) if self.lags else X
        return X.iloc[order].reset_index(drop=True), order

    def unseen(self, table: Table) -> dict[str, Any]:
        """Return which rows have a level that the fit did not have, by the categories that the terms use."""
        found: dict[str, Any] = {}
        for each in self.predictor.inputs:
            if each.categories is not None and each.name in self.predictor.used_inputs:
                column, known = table.columns[each.name], (*each.categories, *(each.others or ()))
                rows = ~column.missing & ~pd.Series(column.values).isin(list(map(str, known))).to_numpy()
                found |= {each.name: rows} if rows.any() else {}
        return found

    def predict(self, table: Table, proba: bool) -> dict[str, Any]:
        """Return predictions in the order of the table, a column for each output, and with `proba` one per class.

        A row of a series whose past is not complete has none: NaN.
        """
        X, order = self.inputs(table)
        n_past = self.count_known(X)
        if n_past == 0:
            raise ValueError(f"{table.path} must have past values of {self.target}, got none: add them.")
        predicted = self.predictor.predict(fill_breaks(X.iloc[:n_past]) if self.lags else X)
        if n_past < len(X):  # forecasts are fed back
            predicted = np.r_[predicted, self.predictor.free_run(fill_breaks(X), n_past)[n_past:]]
        if self.lags and (broken := after_breaks(X, self.target, n_past, self.past)).any():
            predicted = np.where(broken, np.nan, predicted)
        columns = columns_by_output("prediction", predicted[np.argsort(order, kind="stable")])
        if proba:
            probabilities = self.predictor.predict_proba(X)
            columns |= {f"probability of {label}": probabilities[:, j]
                        for j, label in enumerate(self.predictor.classes or [])}  # fmt: skip
        return columns

    def count_known(self, X: Any) -> int:
        """Return the number of rows up to the last with a value of a series that predictions read."""
        if not self.lags or self.target not in X:
            return len(X)
        return int(np.flatnonzero(X[self.target].notna())[-1] + 1) if X[self.target].notna().any() else 0

    def intervals(self, table: Table, coverage: float) -> dict[str, Any]:
        """Return the ends of prediction intervals; the models of the folds may use other inputs than the terms."""
        X, _ = self.inputs(table, every=True)
        lower, upper = self.predictor.predict_interval(X, coverage=coverage)
        return columns_by_output("lower", lower) | columns_by_output("upper", upper)

    def clipped(self, table: Table) -> dict[str, Any]:
        """Return which rows lie outside the range of the training data and are clipped, by the inputs that do.

        Rows of a series that are forecast are not counted.
        """
        X, order = self.inputs(table)
        n_past = self.count_known(X)
        found = np.zeros((len(X), len(self.predictor.inputs)), dtype=bool)
        found[order[:n_past]] = self.predictor.clipped(X.iloc[:n_past])
        return {name: rows for name, rows in zip(self.predictor.input_names, found.T, strict=True) if rows.any()}

    def limited(self, table: Table) -> NDArray[np.bool_]:
        """Return which rows have a prediction at a limit, beyond which the terms add up to."""
        limits = self.predictor.limits
        if limits is None:
            return np.zeros(table.n_rows, dtype=bool)
        outputs = self.predictor.linear_predictor(self.inputs(table)[0]).reshape(table.n_rows, -1)
        return np.any((outputs <= limits[0]) | (outputs >= limits[1]), axis=1)

    def extrapolated(self, table: Table) -> dict[str, Any]:
        """Return which rows lie outside the range of the training data, by the inputs that do, also of linear terms.

        The ranges are those of the effects in the metadata, which are rounded; others are not known.
        """
        found: dict[str, Any] = {}
        for effect in (self.predictor.facts or {}).get("effects", []):
            name, values = effect["inputs"][0], [one for one in effect["values"][0] if not isinstance(one, str)]
            used = name in self.predictor.used_inputs and name in table.columns and not self.lags
            if len(effect["inputs"]) == 1 and used and values and table.columns[name].kind == "number":
                margin = RANGE_ROUNDING * max(abs(values[0]), abs(values[-1]))
                column = table.columns[name].values
                rows = (column < values[0] - margin) | (column > values[-1] + margin)
                found |= {name: rows} if rows.any() else {}
        return found

    def scored(self, table: Table, predicted: Any) -> Any:
        """Return which rows have a target and a prediction to compare with it."""
        present = ~table.columns[self.target].missing
        return present & ~np.isnan(predicted) if self.lags else present

    def score(self, table: Table, predicted: Any) -> str:
        """Return how well predictions agree with the target, for a message; empty if the table does not have it."""
        column = table.columns.get(self.target)
        if column is None or column.kind != self.target_kind:
            return ""
        present = self.scored(table, predicted)
        y, predicted = column.values[present], predicted[present]
        if self.predictor.task == "classification":
            if len(y) and not set(map(as_word, y)) & set(map(as_word, self.predictor.classes or ())):
                return f"; not compared with the table, whose {self.target} has none of the classes of the fit"
            return f"; {np.mean(y == predicted):.1%} agree with the table" if len(y) else ""
        return f"; R2 {r2_score(y, predicted):.3f} against the table" if len(y) > 1 else ""

    def samples(self, table: Table) -> tuple[Any, Any]:
        """Return inputs and target of the rows that have a target; those of a series in the order of time."""
        target, classes = self.target, self.predictor.classes
        column = table.columns.get(target)
        if column is None or column.missing.all():
            raise ValueError(f"{table.path} must have the target {target or 'by its name'}, to compare predictions "
                             "with: add it, or leave the table out.")  # fmt: skip
        if self.target_kind == "number" != column.kind:
            raise ValueError(f"{table.path} must hold numbers in the target {target}, as in the fit: correct it.")
        if classes:
            check_known(table, f"the target {target}", column, classes, "classes")
        X, order = self.inputs(table)
        kept = np.arange(count_past(table, target, order)) if self.lags else np.flatnonzero(~column.missing)
        y = column.values[order[kept]]
        y = y.astype(np.asarray(classes).dtype) if classes else y
        return X.iloc[kept].reset_index(drop=True), pd.Series(y, name=target)


def columns_by_output(name: str, values: NDArray[Any]) -> dict[str, Any]:
    """Return a column, or of several outputs one for each, numbered from 1."""
    return {name: values} if values.ndim == 1 else {f"{name}_{i}": one for i, one in enumerate(values.T, start=1)}


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


def select_inputs(table: Table, inputs: Iterable[Any], optional: Collection[str] = ()) -> Any:
    """Return the inputs of a saved model as a data frame.

    Parameters
    ----------
    table : Table
        New rows, with categorical columns read as strings.
    inputs : iterable
        Inputs of the model: objects with `name`, `kind` ("number", "category" or "date"), `categories`, `fill`, the
        value imputed where one is missing, or None, `missing`, whether it may be, and `unseen`, None if unknown
        categories are an error.
    optional : collection of str, default=()
        Inputs that may be missing even though nothing is imputed.

    Returns
    -------
    X : DataFrame
        One column per input: float64, str or datetime.
    """
    inputs = list(inputs)
    absent = [each.name for each in inputs if each.name not in table.columns]
    if len(absent) > 1:
        raise ValueError(f"{table.path} must have the columns the model was fitted with, but {listed(absent)} are not "
                         f"there: it has {listed(list(table.columns), 12)}.")  # fmt: skip
    columns = {}
    for each in inputs:
        name, column = each.name, find_column(table, each.name)
        if column.missing.any() and each.fill is None and not each.missing and name not in optional:
            where = table.location(int(np.argmax(column.missing)))
            raise ValueError(f"{table.path} must have no missing values in {name}, as in the fit, got one in {where}: "
                             "fill it in, or fit to rows that have some.")  # fmt: skip
        columns[name] = column.values
        if column.kind == "empty":
            columns[name] = column.values if each.kind == "category" else np.full(table.n_rows, np.nan)
        elif each.kind == "category":
            if each.unseen is None:
                check_known(table, name, column, map(str, each.categories), "categories")
        elif each.kind == "date":
            dates = iso_dates(column if column.kind == "date" else replace(column, values=column.values.astype(str)))
            if (wrong := dates.isna().to_numpy() & ~column.missing).any():
                row = int(np.argmax(wrong))
                raise ValueError(f"{table.path} must hold dates in {name}, as in the fit, got {column.values[row]!r} "
                                 f"in {table.location(row)}: write them as 2021-12-31.")  # fmt: skip
            columns[name] = dates.to_numpy()
        elif column.kind == "number":
            check_magnitude(table, {name: column}, "or use other units", smallest=0)
        else:
            why = column.problem or f"{column.values[~column.missing][0]!r} is not a number"
            raise ValueError(f"{table.path} must hold numbers in {name}, as in the fit, but {why}: correct it.")
    return pd.DataFrame(columns, index=range(table.n_rows))


def check_known(table: Table, name: str, column: Column, known: Iterable[Any], noun: str) -> None:
    """Raise on a category or class that the model was not fitted with."""
    known = list(known)
    unknown = ~column.missing & ~pd.Series(column.values).isin(known).to_numpy()
    if unknown.any():
        row = int(np.argmax(unknown))
        got = f"{as_word(column.values[row])!r} in {table.location(row)}"
        raise ValueError(f"{table.path} must hold known {noun} in {name}, got {got}: the fit had "
                         f"{listed(sorted(map(as_word, known)), 12)}.")  # fmt: skip
