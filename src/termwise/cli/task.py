"""The learning task that a table and the options define: target, inputs, order of the rows, missing values."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._checks import import_optional
from termwise.basis.columns import is_identifier
from termwise.cli.columns import Column, as_word
from termwise.cli.console import MAX_NAMED, counted, listed
from termwise.cli.tables import Table
from termwise.estimators.series import Series

pd = import_optional("pandas", "cli", "The command line")

MAX_CATEGORIES = 1000  # of which an indicator each, or a mean of the targets, can be afforded
MIN_IDENTIFIERS = 20  # distinct values above which a column of strings that hardly repeat holds identifiers
MAX_MAGNITUDE = 1e100  # squares and products of larger numbers overflow; of numbers below its inverse they vanish
MIN_ROWS = 5
MAX_INTEGER_CLASSES = 10  # up to so many whole numbers, --task classification is suggested
DAY_OR_MONTH_FIRST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.](?:\d{4}|\d{2})(?:[T ].*)?")


@dataclass(frozen=True)
class Task:
    """Inputs and target of a fit.

    Attributes
    ----------
    X : DataFrame
        Inputs: float64, categorical and datetime columns, with missing values.
    y : ndarray
        Target: float64, or class labels as int or str.
    kind : {"regression", "classification"}
        Type of the task.
    target : str
        Name of the target.
    notes : list of str
        What was detected, for the user.
    ordered : bool
        Whether the rows are in the order of time.
    decimal : {".", ","} or None
        Decimal mark of the table; None if its numbers do not tell.
    """

    X: Any
    y: NDArray[Any]
    kind: str
    target: str
    notes: list[str]
    ordered: bool = False
    decimal: str | None = None


def make_task(
    table: Table,
    target: str,
    *,
    kind: str = "auto",
    drop: Iterable[str] = (),
    time: str | None = None,
    impute: bool = False,
    series: bool = False,
) -> Task:
    r"""Select and validate target and inputs of a fit.

    Parameters
    ----------
    table : Table
        As returned by `read_table`.
    target : str
        Column to predict.
    kind : {"auto", "regression", "classification"}, default="auto"
        Type of the task; "auto": strings and two whole numbers are class labels.
    drop : iterable of str, default=()
        Columns that are not inputs.
    time : str or None, default=None
        Column of dates or numbers by which the rows are sorted; not an input.
    impute : bool, default=False
        Whether missing values are imputed later: a series may have some then.
    series : bool, default=False
        Whether the target may be the only column, as in a time series that is predicted from its past. Rows with a
        missing target are kept then, but for those at the end.

    Returns
    -------
    task : Task
        Inputs, target and notes.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from termwise.cli.tables import read_table
    >>> from termwise.cli.task import make_task
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "prices.csv"
    >>> _ = path.write_text("size,kind,price\n1,new,3\n2,old,4\n3,new,5\n4,old,7\n2,new,8\n")
    >>> task = make_task(read_table(path), "price")
    >>> task.kind, list(task.X.columns)
    ('regression', ['size', 'kind'])
    """
    not_inputs = {target, *drop, *([] if time is None else [time])}
    for name in not_inputs:
        find_column(table, name)
    if target in drop or target == time:
        raise ValueError(f"the target {target} must be a column of its own, got it as --drop or --time as well.")
    y, kind, notes = read_target(table, target, kind)
    rows = time_order(table, time)
    present = np.flatnonzero(~table.columns[target].missing[rows])
    rows = rows[: present[-1] + 1] if series else rows[present]  # in a series, missing values are breaks
    n_missing = table.n_rows - len(rows)
    notes = [f"left out, no value of {target}: {counted(n_missing, 'row')}"] * bool(n_missing) + notes
    if time is not None:
        notes.append(f"rows are in the order of {time}, which is not an input")
    inputs = {name: column for name, column in table.columns.items() if name not in not_inputs}
    check_inputs(table, inputs)
    inputs, exclusions = informative_columns(inputs, rows, dates=not series, indicators=not (series or impute))
    if not inputs and not series:
        alone = len(table.columns) == 1
        why = "; ".join(exclusions) or ("the target is the only one" if alone else "none is left by --drop and --time")
        remedy = "add columns" if alone or exclusions else "drop fewer columns"
        raise ValueError(f"{table.path} must have a column to predict from ({why}): {remedy}.")
    X = pd.DataFrame({name: to_pandas(column) for name, column in inputs.items()}, index=range(len(rows)))
    return Task(X, y[rows], kind, target, table.notes + notes + exclusions, time is not None, table.decimal)


def to_pandas(column: Column) -> Any:
    """Return the values of a column as numbers, dates or categories."""
    if column.kind == "number":
        return column.values
    return iso_dates(column).to_numpy() if column.kind == "date" else pd.Categorical(column.values)


def iso_dates(column: Column) -> Any:
    """Return dates in the ISO 8601 format as a series, without time zones; missing where they are in another format."""
    words = pd.Series(column.values, dtype=object)
    return pd.to_datetime(words, format="ISO8601", utc=True, errors="coerce").dt.tz_localize(None)


def find_column(table: Table, name: str) -> Column:
    """Return a column by name, or raise with the names there are."""
    if name not in table.columns:
        lower = {each.lower(): each for each in table.columns}
        close = get_close_matches(name.strip().lower(), lower, n=1, cutoff=0.6)
        hint = f"did you mean {lower[close[0]]}?" if close else f"there are {listed(list(table.columns), 12)}."
        raise ValueError(f"{table.path} has no column {name}: {hint}")
    return table.columns[name]


# -- target ------------------------------------------------------------------------------------------------------------


def read_target(table: Table, target: str, kind: str) -> tuple[NDArray[Any], str, list[str]]:
    """Return the target of all rows, the type of the task, and notes."""
    column, name = find_column(table, target), f"the target {target}"
    if f"{target} (2)" in table.columns:
        raise ValueError(f"{table.path} has several columns {target}: rename all but the one that is the target.")
    if column.problem:
        raise ValueError(f"{name} must be numbers or classes, but {column.problem}: correct it, or read all values as "
                         f"classes: --category {shlex.quote(target)}.")  # fmt: skip
    if column.kind not in ("number", "text"):
        got = {"date": "dates", "empty": "missing values only"}.get(column.kind, "something else")
        raise ValueError(f"{name} must be numbers or classes, got {got}: name another column.")
    present = column.values[~column.missing]
    n = len(present)
    if n < MIN_ROWS:
        raise ValueError(f"{table.path} must have at least {MIN_ROWS} rows with a target, got {n}: add rows.")
    notes = [f"{target} {column.hint}"] * bool(column.hint)
    numeric = column.kind == "number"
    distinct = np.unique(present if numeric else present.astype(str))
    example = as_word(distinct[0])
    if len(distinct) < 2 and n < len(column.values):
        raise ValueError(f"{name} must take different values, got {example} in {counted(n, 'row')} and missing values "
                         f"in {len(column.values) - n}: if a class is called NA, null or another word that is read as "
                         "a missing value, write it differently.")  # fmt: skip
    if len(distinct) < 2:
        raise ValueError(f"{name} must take different values, got {example} in all rows: there is nothing to learn.")
    if numeric:
        check_magnitude(table, {target: column}, "or use other units")
    whole = numeric and bool(np.all(distinct == np.round(distinct)))
    if kind == "auto":
        kind = "classification" if not numeric or (whole and len(distinct) == 2) else "regression"
        if numeric and kind == "classification":
            notes.append(f"{target} has two values, which are read as classes; --task regression reads them as numbers")
        elif whole and len(distinct) <= MAX_INTEGER_CLASSES:
            notes.append(f"{target} has {len(distinct)} values; --task classification reads them as classes")
    if kind == "classification":
        return class_labels(target, column, distinct), kind, notes
    if not numeric:
        raise ValueError(f"{name} must be numbers for --task regression, got text such as {example!r}: use --task "
                         "classification.")  # fmt: skip
    return column.values, kind, notes


def class_labels(target: str, column: Column, distinct: NDArray[Any]) -> NDArray[Any]:
    """Return a target with these distinct values as class labels: whole numbers or strings that repeat."""
    name, n, numeric = f"the target {target}", np.count_nonzero(~column.missing), column.kind == "number"
    if len(distinct) > max(2, n / 2):
        raise ValueError(f"{name} must have classes that repeat, got {len(distinct)} different values in {n} "
                         "rows: group them, use --task regression or name another column.")  # fmt: skip
    if not numeric:
        return np.where(column.missing, "", column.values).astype(str)
    if np.any(distinct != np.round(distinct)):
        raise ValueError(f"{name} must be text or whole numbers for --task classification, got {as_word(distinct[0])}: "
                         f"--category {shlex.quote(target)} reads it as text.")  # fmt: skip
    return np.nan_to_num(column.values).astype(int)


# -- order of time -----------------------------------------------------------------------------------------------------


def time_order(table: Table, time: str | None) -> NDArray[np.intp]:
    """Return the indices that sort the rows by a column of dates or numbers; without one, as they are."""
    if time is None:
        return np.arange(table.n_rows)
    column = find_column(table, time)
    if column.kind not in ("date", "number"):
        raise ValueError(f"--time {time} must be a column of dates or numbers, got {column.problem or 'text'}: name "
                         "another one.")  # fmt: skip
    if column.missing.any():
        where = table.location(int(np.argmax(column.missing)))
        raise ValueError(f"--time {time} must have no missing values, got one in {where}: fill it in.")
    return np.argsort(column.values if column.kind == "number" else parse_dates(table, time, column), kind="stable")


def parse_dates(table: Table, name: str, column: Column) -> NDArray[Any]:
    """Return dates as values that can be sorted; raise if 3/4/2021 may be in March or in April."""
    words = pd.Series(column.values)
    found = [match for word in words.unique() if (match := DAY_OR_MONTH_FIRST.fullmatch(word))]
    day_first = not found or max(int(match[1]) for match in found) > 12 or any("." in match[0] for match in found)
    if not day_first and max(int(match[2]) for match in found) <= 12:
        raise ValueError(f"--time {name} must say which number is the day, got dates such as {column.values[0]!r}: "
                         "write them as 2021-12-31.")  # fmt: skip
    dates = pd.to_datetime(words, format="ISO8601", utc=True, errors="coerce")
    others = dates.isna()
    if others.any():  # each in a format of its own, which is slow
        dates[others] = pd.to_datetime(words[others], format="mixed", dayfirst=day_first, utc=True, errors="coerce")
    if dates.isna().any():
        row = int(np.argmax(dates.isna()))
        raise ValueError(f"--time {name} must be dates, got {column.values[row]!r} in {table.location(row)}: correct "
                         "it, or write dates as 2021-12-31.")  # fmt: skip
    return dates.dt.tz_localize(None).to_numpy()


def count_past(table: Table, target: str, order: NDArray[np.intp]) -> int:
    """Return how many rows of a time series have a target; raise if there is a gap, which a report cannot show."""
    missing = find_column(table, target).missing[order]
    past = int(np.argmax(missing)) if missing.any() else len(missing)
    if not missing[past:].all():
        after = past + int(np.argmin(missing[past:]))
        raise ValueError(f"{table.path} must have {target} up to some time and not after, got one in "
                         f"{table.location(int(order[after]))} after a gap: fill the gap in.")  # fmt: skip
    return past


def as_series(task: Task, X: Any, past: int) -> tuple[Series, list[str]]:
    """Return the table of a time series, the target first, and a note if there are breaks: rows with missing values."""
    inputs = X.drop(columns=task.target).to_numpy(dtype=np.float64)
    starts = np.zeros(len(X), dtype=bool)
    starts[:1] = True
    series = Series(np.column_stack([task.y, inputs]), starts)
    missing, left = int((~series.complete).sum()), int(scored_rows(series, past).sum())
    note = (f"{counted(missing, 'row')} with a missing value: lags do not reach across, {counted(left, 'row')} have a "
            "complete past")  # fmt: skip
    return series, [note] * bool(missing)


def scored_rows(series: Series, past: int) -> NDArray[np.bool_]:
    """Return which rows have a value and a complete history."""
    return series.complete & (series.history() >= past)


def fill_breaks(X: Any) -> Any:
    """Return inputs without missing values, for columns of lags; rows that read a filled value have no weight."""
    return X.ffill().bfill()


# -- inputs ------------------------------------------------------------------------------------------------------------


def check_inputs(table: Table, columns: dict[str, Column]) -> None:
    """Raise unless every column is numeric, categorical or excluded later."""
    problems = {name: column.problem for name, column in columns.items() if column.problem}
    if problems:
        details = "; ".join(f"{name}: {problem}" for name, problem in list(problems.items())[:MAX_NAMED])
        options = " ".join(f"--drop {shlex.quote(name)}" for name in problems)
        raise ValueError(f"{table.path} must hold numbers or categories, but {details}. Correct this, have a word read "
                         f"as a missing value with --missing WORD, or leave out: {options}.")  # fmt: skip
    numeric = {name: column for name, column in columns.items() if column.kind == "number"}
    check_magnitude(table, numeric, "use other units, or leave it out: --drop {}")


def check_magnitude(table: Table, columns: dict[str, Column], remedy: str, smallest: float = 1 / MAX_MAGNITUDE) -> None:
    """Raise on numbers so large, or columns so small, that squares overflow or vanish."""
    for name, column in columns.items():
        size = np.abs(column.values)
        if (size > MAX_MAGNITUDE).any():
            row = int(np.argmax(size > MAX_MAGNITUDE))
            raise ValueError(f"{name} must be finite and below {MAX_MAGNITUDE:g}, got {column.values[row]:g} in "
                             f"{table.location(row)}: correct it, {remedy.format(shlex.quote(name))}.")  # fmt: skip
        largest = np.nanmax(size)
        if 0 < largest < smallest:
            raise ValueError(f"{name} must have values beyond {smallest:g}, got at most {largest:g}: use other units.")


def informative_columns(
    columns: dict[str, Column], rows: NDArray[np.intp], *, dates: bool, indicators: bool
) -> tuple[dict[str, Column], list[str]]:
    """Return the columns that may carry information, restricted to some rows, and notes on the others.

    Dates may if they are expanded, and columns of one value that is often missing if missing values have indicators.
    """
    excluded: dict[str, list[str]] = {}
    inputs: dict[str, Column] = {}
    hints = []
    first_with: dict[bytes, str] = {}
    for name, column in columns.items():
        column = replace(column, values=column.values[rows])
        counts_rows = column.kind == "number" and len(rows) > 2 and bool(np.all(np.diff(column.values) == 1))
        reason = reason_to_exclude(name, column, dates, indicators)
        if not reason:
            values = column.values + 0.0 if column.kind == "number" else column.values  # -0.0 equals 0.0
            hashes = pd.util.hash_array(values, categorize=True).tobytes()
            same = first_with.setdefault(hashlib.blake2b(hashes, salt=column.kind.encode()).digest(), name)
            reason = "" if same == name else f"the same as {same}"
        if reason:
            excluded.setdefault(reason, []).append(name)
            continue
        inputs[name] = column
        hints += [f"{name} counts the rows: --drop {shlex.quote(name)} unless that means something"] * counts_rows
        hints += [f"{name} {column.hint}"] * bool(column.hint)
    return inputs, [f"left out, {reason}: {listed(names)}" for reason, names in excluded.items()] + hints


def reason_to_exclude(name: str, column: Column, dates: bool, indicators: bool) -> str:
    """Return why a column carries no information on new rows; empty if it may."""
    if column.kind == "empty" or column.missing.all():
        return "empty"
    if column.kind == "date" and not dates:
        return "dates (--time orders by them)"
    if column.kind == "date" and (iso_dates(column).isna() & ~column.missing).any():
        return "dates in another format than 2021-12-31 (--time orders by them)"
    present = column.values[~column.missing]
    if np.all(present == present[0]) and not (indicators and column.missing.any()):
        return "the same wherever there is a value" if column.missing.any() else "the same in all rows"
    if column.kind == "number":
        return "identifiers" if is_identifier(name, column.values) else ""
    n_distinct = len(set(present))
    if column.kind == "text" and n_distinct > max(MIN_IDENTIFIERS, len(present) / 2):
        return "identifiers or free text, hardly ever repeated"
    return f"more than {MAX_CATEGORIES} categories" if column.kind == "text" and n_distinct > MAX_CATEGORIES else ""


def fill_values(X: Any) -> dict[str, Any]:
    """Return the value to impute in each column of numbers, the median, or of categories, the most frequent one.

    In a column without any value, as a subset of the rows may have it, any value will do.
    """
    fill: dict[str, Any] = {}
    for name, column in X.items():
        empty = column.isna().all()
        if column.dtype.kind == "f":
            fill[name] = 0.0 if empty else float(column.median())
        elif column.dtype.kind != "M":
            fill[name] = str(column.cat.categories[0] if empty else column.mode().iloc[0])
    return fill
