"""Columns of data frames: their kinds, numbers and dates, which of them are identifiers; frames as plain arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._checks import is_frame

Floats = NDArray[np.float64]

CATEGORICAL = ("category", "Categorical", "Enum")  # names of the categorical types of pandas and polars
NUMERIC = re.compile(r"u?int\d|float\d|bool|decimal", re.IGNORECASE)  # and of numeric types

DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")  # microseconds
DATE_PARTS = ("time", "year", "season_sin", "season_cos", "weekday", "hour")  # `hour` is last: only of times
YEAR_DAYS = 365.2425  # of the Gregorian calendar, on average
DATE_TYPES = ("datetime64", "Datetime", "Date", "date32", "timestamp")  # beginnings of names of types
ARROW_DATES = ("date32", "date64")  # those without a time, and without the methods of times

# Names of identifiers; those that measurements may have, too, mean one only if the values are consecutive.
IDENTIFIER = re.compile(r"(row[ _.]?)?(id|ids|names?|uuid|guid)|.*[ _.]id", re.IGNORECASE)
CAMEL_CASE = re.compile(r".*[a-z]I[dD]")
COUNTER = re.compile(
    r"()|column \d+|unnamed.*|(row[ _.]?)?(index|idx|nr|no|number|num|key|count)|rows?|obs.*", re.IGNORECASE
)
TIME = re.compile(
    r"(.*[ _.])?(t|x|time|date|day|week|month|quarter|year|hour|minute|second|period|step|age)s?", re.IGNORECASE
)
MIN_ROWS = 20  # from which values that never repeat are no accident
MIN_COUNTED = 50  # from which a column that counts the rows is not a designed factor of an experiment


def is_missing(column: Any) -> NDArray[np.bool_]:
    """Which values of a column are missing: None, NaN, NA or null."""
    return np.asarray(column.isna() if hasattr(column, "isna") else column.is_null(), dtype=bool)


def missing_columns(X: Any) -> NDArray[np.bool_]:
    """Which columns of a data frame or an array have missing values."""
    if not is_frame(X):
        values = np.asarray(X)
        return np.isnan(values).any(axis=0) if values.dtype.kind == "f" else np.zeros(values.shape[1], dtype=bool)
    columns = [X[name] for name in X.columns]
    return np.array(
        [
            bool(np.isnan(as_numbers(column)).any() if is_numeric(column) else is_missing(column).any())
            for column in columns
        ]
    )


def is_numeric(column: Any) -> bool:
    """Whether a column holds numbers; strings that look like numbers are none."""
    if NUMERIC.match(str(column.dtype)):
        return True
    present = np.asarray(column, dtype=object)[~is_missing(column)]
    return all(isinstance(value, Real | Decimal) for value in present)


def column_kind(column: Any) -> str | None:
    """Return "number", "date", "category" or "ordered"; None for a column of anything else."""
    if str(column.dtype).startswith(CATEGORICAL):
        return "ordered" if getattr(getattr(column, "cat", None), "ordered", False) else "category"
    if is_numeric(column):
        return "number"
    if str(column.dtype).startswith(DATE_TYPES):
        return "date"
    present = np.asarray(column, dtype=object)[~is_missing(column)]
    if len(present) and all(isinstance(value, date) for value in present):
        return "date"
    return "category" if all(isinstance(value, str) for value in present) else None


def as_numbers(column: Any) -> NDArray[Any]:
    """Return a column of numbers with NaN in place of missing values."""
    missing = is_missing(column)
    if not missing.any() or getattr(column.dtype, "kind", "") == "f":
        return np.asarray(column, dtype=np.float64)
    values = np.full(len(missing), np.nan)
    values[~missing] = np.asarray(column, dtype=object)[~missing].astype(np.float64)
    return values


# -- dates -------------------------------------------------------------------------------------------------------------


def as_days(column: Any) -> Floats:
    """Return dates as days since 1970-01-01, by the clock of their own time zone; NaN where one is missing.

    Strings are dates in the ISO 8601 format; numbers are days already.
    """
    if getattr(getattr(column, "dtype", None), "kind", "O") in "fiu":
        return np.asarray(column, dtype=np.float64)
    clock: Any = getattr(column, "dt", None)
    if hasattr(clock, "tz_localize") and not str(column.dtype).startswith(ARROW_DATES):
        column = clock.tz_localize(None)
    elif getattr(getattr(column, "dtype", None), "time_zone", None) is not None:
        column = clock.replace_time_zone(None)
    values = np.asarray(column)
    if values.dtype.kind != "M":
        values = np.array([_without_zone(value) for value in values.tolist()], dtype="datetime64[us]")
    values = values.astype("datetime64[us]")
    return np.where(np.isnat(values), np.nan, values.astype(np.int64) / DAY)


def _without_zone(value: Any) -> Any:
    """Return a date, or a string of one, as NumPy takes it; None for a missing one."""
    if value is None or (value == value) is not True:  # NaN, NaT and NA
        return None
    value = datetime.fromisoformat(value) if isinstance(value, str) else value
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def date_part(days: Floats, part: int) -> Floats:
    """Return a part of dates that are given as days since 1970-01-01; NaN where one is missing.

    `time` is the elapsed time, in years; `year` the calendar year; `season_sin` and `season_cos` sine and cosine of the
    day of the year; `weekday` 0 on Mondays to 6 on Sundays; `hour` the time of the day, with a fraction.
    """
    name = DATE_PARTS[part]
    if name == "time":
        return 1970 + days / YEAR_DAYS
    whole = np.floor(days)
    if name == "weekday":
        return (whole + 3) % 7  # 1970-01-01 was a Thursday
    if name == "hour":
        return (days - whole) * 24
    calendar = np.nan_to_num(whole).astype(np.int64).astype("datetime64[D]")
    years = calendar.astype("datetime64[Y]")
    day = (calendar - years.astype("datetime64[D]")).astype(np.float64)
    angle = 2 * np.pi * day / YEAR_DAYS
    values = {"year": 1970 + years.astype(np.float64), "season_sin": np.sin(angle), "season_cos": np.cos(angle)}
    return np.where(np.isnan(days), np.nan, values[name])


# -- identifiers -------------------------------------------------------------------------------------------------------


def id_columns(X: Any, names: Iterable[str] | None = None) -> list[str]:
    """Return the names of columns that number or name the rows: they carry no information about new rows.

    Parameters
    ----------
    X : data frame or array-like of shape (n, d)
        The table.
    names : iterable of str, default=None
        Names of the columns of an array; without these none of its columns is an identifier.

    Returns
    -------
    names : list of str
        Columns of

        - strings that hardly ever repeat: more different ones than 20 and than half of the rows;
        - whole numbers without repetition, with the name of an identifier, such as `id`, `customer_id`, `PassengerId`
          or `rownames`, or consecutive ones with the name of a counter, such as `index`, `nr` or none at all;
        - the numbers of the rows in their order, 0, 1, ... or 1, 2, ..., in a table of at least 50 rows, unless the
          name is that of a time, such as `t`, `day` or `year`.

        All other numbers are taken for measurements. The list is empty if no column would be left.

    Examples
    --------
    >>> import pandas as pd
    >>> from termwise.basis import id_columns
    >>> table = pd.DataFrame({"PassengerId": range(100, 130), "age": range(30), "fare": [1.5, 2.5, 3.5] * 10})
    >>> id_columns(table)
    ['PassengerId']
    """
    if is_frame(X):
        columns = {str(name): X[name] for name in X.columns}
    else:
        table = np.asarray(X) if names is not None else np.empty((0, 0))
        columns = dict(zip(names or (), table.T, strict=False))
    found = [name for name, column in columns.items() if is_identifier(name, column)]
    return found if len(found) < len(columns) else []


def is_identifier(name: str, column: Any) -> bool:
    """Whether a column of that name, a series or an array, numbers or names the rows."""
    if isinstance(column, np.ndarray):
        kind, missing = "number", np.isnan(column) if column.dtype.kind == "f" else np.zeros(len(column), dtype=bool)
    else:
        kind, missing = column_kind(column) or "", is_missing(column)
    n = len(missing)
    if n < MIN_ROWS or kind not in ("number", "category"):
        return False
    if kind == "category":
        declared = str(column.dtype).startswith(CATEGORICAL)
        present = np.asarray(column, dtype=object)[~missing]
        return not declared and len(set(present)) > max(MIN_ROWS, len(present) / 2)
    values = column if isinstance(column, np.ndarray) else as_numbers(column)
    if missing.any() or np.any(values != np.floor(values)) or len(np.unique(values)) < n:
        return False
    consecutive = values.max() - values.min() == n - 1
    if IDENTIFIER.fullmatch(name) or CAMEL_CASE.fullmatch(name) or (COUNTER.fullmatch(name) and consecutive):
        return True
    counts_rows = consecutive and values[0] in (0, 1) and bool(np.all(np.diff(values) == 1))
    return counts_rows and n >= MIN_COUNTED and not TIME.fullmatch(name)


# -- storage -----------------------------------------------------------------------------------------------------------

# Frames of pandas as plain arrays, for formats that store NumPy arrays but no frames, such as that of skops.


@dataclass(frozen=True)
class StoredColumn:
    """A column of a pandas frame.

    Attributes
    ----------
    dtype : str
        Name of the type in pandas.
    values : ndarray or list
        Values, of a categorical column the positions of its categories.
    categories : list or None
        The categories.
    ordered : bool
        Whether their order is declared.
    """

    dtype: str
    values: NDArray[Any] | list[Any]
    categories: list[Any] | None = None
    ordered: bool = False

    @classmethod
    def from_series(cls, series: Any) -> StoredColumn:
        """Read a column; missing values of strings and of nullable types become None."""
        dtype = str(series.dtype)
        if dtype == "category":
            categorical = series.cat
            return cls(dtype, categorical.codes.to_numpy(), categorical.categories.tolist(), categorical.ordered)
        if isinstance(series.dtype, np.dtype) and dtype != "object":
            return cls(dtype, series.to_numpy())
        if getattr(series.dtype, "tz", None) is not None:
            return cls(dtype, series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
        return cls(dtype, series.astype(object).where(series.notna(), None).tolist())

    def to_series(self, pandas: Any) -> Any:
        """Return the column."""
        if self.categories is not None:
            codes = pandas.Categorical.from_codes(self.values, self.categories, ordered=self.ordered)
            return pandas.Series(codes)
        if isinstance(self.values, np.ndarray) and str(self.values.dtype) != self.dtype:  # a time zone
            return pandas.Series(self.values).dt.tz_localize("UTC").astype(self.dtype)
        return pandas.Series(self.values, dtype=self.dtype)


@dataclass(frozen=True)
class StoredFrame:
    """The columns of a pandas frame and their names; the index is dropped."""

    names: list[Any]
    columns: list[StoredColumn]

    @classmethod
    def from_frame(cls, frame: Any) -> StoredFrame:
        """Read a frame."""
        columns = [StoredColumn.from_series(frame.iloc[:, j]) for j in range(frame.shape[1])]
        return cls(list(frame.columns), columns)

    def to_frame(self) -> Any:
        """Return the frame, or None where pandas is not installed."""
        try:
            import pandas
        except ImportError:
            return None
        frame = pandas.concat([column.to_series(pandas) for column in self.columns], axis=1)
        return frame.set_axis(self.names, axis=1)
