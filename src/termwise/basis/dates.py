"""Dates as numbers: days since 1970, and the parts of a date that models use."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")  # microseconds
DATE_PARTS = ("time", "year", "season_sin", "season_cos", "weekday", "hour")  # `hour` is last: only of times
YEAR_DAYS = 365.2425  # of the Gregorian calendar, on average
DATE_TYPES = ("datetime64", "Datetime", "Date", "date32", "timestamp")  # beginnings of names of types


def is_date(column: Any, missing: NDArray[np.bool_]) -> bool:
    """Whether a column with missing values in some places holds dates or times: of pandas, polars or Python."""
    if str(column.dtype).startswith(DATE_TYPES):
        return True
    present = np.asarray(column, dtype=object)[~missing]
    return len(present) > 0 and all(isinstance(value, date) for value in present)


def as_days(column: Any) -> Floats:
    """Return dates as days since 1970-01-01, by the clock of their own time zone; NaN where one is missing.

    Strings are dates in the ISO 8601 format; numbers are days already.
    """
    if getattr(getattr(column, "dtype", None), "kind", "O") in "fiu":
        return np.asarray(column, dtype=np.float64)
    clock: Any = getattr(column, "dt", None)
    if hasattr(clock, "tz_localize"):
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
    if value is None or value != value:
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
