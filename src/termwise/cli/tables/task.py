"""What is to be learned from a table: which columns are inputs, what the target is, and what is to be said of it."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._checks import import_optional
from termwise.cli.tables.notation import day_first
from termwise.cli.tables.reading import Column, Table, plainly

MOST_CATEGORIES = 50  # names of a column beyond which they are texts or identifiers
ALL_DIFFERENT = 20  # rows from which on names that hardly ever repeat are identifiers
LARGEST = 1e100  # numbers whose squares and products still can be added up
FEWEST_ROWS = 5
FEW_VALUES = 10  # whole numbers that may be classes
IDENTIFIER = re.compile(r"(column \d+|unnamed.*|(row[ _]?)?(id|index|idx|nr|no|number)|.*[ _]id)", re.IGNORECASE)
SAID = 5  # columns that are named in one message


@dataclass(frozen=True)
class Task:
    """Inputs and target, ready to be learned from.

    Attributes
    ----------
    X : DataFrame
        Inputs: float64 and categorical columns, values missing only if they are to be filled.
    y : ndarray
        The target: float64, or classes as whole numbers or text.
    kind : {"regression", "classification"}
        What it is to be taken for.
    target : str
        Its name.
    notes : list of str
        What was noticed and done.
    ordered : bool
        Whether the rows are in the order of time.
    """

    X: Any
    y: NDArray
    kind: str
    target: str
    notes: list[str]
    ordered: bool = False


def pose(
    table: Table,
    target: str,
    *,
    kind: str = "auto",
    drop: Iterable[str] = (),
    time: str | None = None,
    impute: bool = False,
    alone: bool = False,
) -> Task:
    r"""Say what is to be learned from a table.

    Parameters
    ----------
    table : Table
        As `read_table` returns it.
    target : str
        Name of the column to predict.
    kind : {"auto", "regression", "classification"}, default="auto"
        What the target is to be taken for; "auto": text and two whole numbers are classes.
    drop : iterable of str, default=()
        Columns that are no inputs.
    time : str or None, default=None
        A column of dates or numbers the rows are put in the order of; no input either.
    impute : bool, default=False
        Whether missing values of inputs may stay, to be filled by `filled`; otherwise they are an error.
    alone : bool, default=False
        Whether the target may be all there is, as a series that is predicted from its past.

    Returns
    -------
    task : Task
        Inputs, target and notes.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from termwise.cli.tables import pose, read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "prices.csv"
    >>> _ = path.write_text("size,kind,price\n1,new,3\n2,old,4\n3,new,5\n4,old,7\n2,new,8\n")
    >>> task = pose(read_table(path), "price")
    >>> task.kind, list(task.X.columns)
    ('regression', ['size', 'kind'])
    """
    left_out = {target, *drop, *([] if time is None else [time])}
    for name in left_out:
        known_column(table, name)
    if target in drop or target == time:
        raise ValueError(f"the target {target} must be a column of its own, got it as --drop or --time as well.")
    y, kind, notes = read_target(table, target, kind)
    rows = in_order(table, time)
    rows = rows[~table.columns[target].missing[rows]]
    if time is not None:
        notes.append(f"rows are in the order of {time}, which is no input itself")
    inputs = {name: column for name, column in table.columns.items() if name not in left_out}
    X, remarks = read_inputs(table, inputs, rows, impute, alone)
    return Task(X, y[rows], kind, target, table.notes + notes + remarks, time is not None)


def known_column(table: Table, name: str) -> Column:
    """Return a column by its name, or say what the names are."""
    if name not in table.columns:
        lower = {each.lower(): each for each in table.columns}
        close = get_close_matches(name.strip().lower(), lower, n=1, cutoff=0.6)
        hint = f"did you mean {lower[close[0]]}?" if close else f"there are {listed(list(table.columns), 12)}."
        raise ValueError(f"{table.path} has no column {name}: {hint}")
    return table.columns[name]


def listed(names: Sequence[str], most: int = SAID) -> str:
    """Write names one after the other, not too many."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def counted(number: int, thing: str) -> str:
    """Write a number of things."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


# -- the target --------------------------------------------------------------------------------------------------------


def read_target(table: Table, target: str, kind: str) -> tuple[NDArray, str, list[str]]:
    """Return the target for all rows, what it is taken for, and notes."""
    column = known_column(table, target)
    if f"{target} (2)" in table.columns:
        raise ValueError(f"{table.path} has several columns {target}: rename all but the one that is the target.")
    if column.trouble:
        raise ValueError(f"the target {target} must be numbers or classes, but {column.trouble}: correct it, or take "
                         f"all for classes: --category {shlex.quote(target)}.")  # fmt: skip
    if column.kind not in ("number", "text"):
        what = {"date": "dates", "empty": "nothing at all"}.get(column.kind, "something else")
        raise ValueError(f"the target {target} must be numbers or classes, got {what}: name another column.")
    there = column.values[~column.missing]
    if len(there) < FEWEST_ROWS:
        raise ValueError(
            f"{table.path} must have at least {FEWEST_ROWS} rows with a target, got {len(there)}: add some."
        )
    gone = len(column.values) - len(there)
    notes = [f"left out, no value of {target}: {counted(gone, 'row')}"] * bool(gone)
    notes += [f"{target} {column.remark}"] * bool(column.remark)
    different = np.unique(there) if column.kind == "number" else np.unique(there.astype(str))
    if len(different) < 2:
        raise ValueError(f"the target {target} must take different values, got {plainly(different[0])} in all rows: "
                         "there is nothing to learn.")  # fmt: skip
    if column.kind == "number":
        check_sizes(table, {target: column})
        check_units({target: column})
        return number_target(column, target, kind, different, notes)
    if kind == "regression":
        raise ValueError(f"the target {target} must be numbers for --task regression, got text such as "
                         f"{str(different[0])!r}: use --task classification.")  # fmt: skip
    if len(different) > len(there) / 2 and len(different) > 2:
        raise ValueError(f"the target {target} must be numbers or classes that repeat, got {len(different)} different "
                         f"texts in {len(there)} rows: name another column, or group them.")  # fmt: skip
    return np.where(column.missing, "", column.values).astype(str), "classification", notes


def number_target(
    column: Column, target: str, kind: str, different: NDArray, notes: list[str]
) -> tuple[NDArray, str, list[str]]:
    """Decide whether numbers are numbers or classes."""
    whole = bool(np.all(different == np.round(different)))
    if kind == "auto":
        kind = "classification" if whole and len(different) == 2 else "regression"
        if kind == "classification":
            notes.append(f"{target} has two values and is taken for classes; --task regression takes it for numbers")
        elif whole and len(different) <= FEW_VALUES:
            notes.append(f"{target} has {len(different)} values; --task classification takes them for classes")
    if kind == "regression":
        return column.values, kind, notes
    if len(different) > np.sum(~column.missing) / 2 and len(different) > 2:
        raise ValueError(f"the target {target} must have classes that repeat for --task classification, got "
                         f"{len(different)} different numbers: use --task regression.")  # fmt: skip
    if not whole:
        raise ValueError(f"the target {target} must be text or whole numbers for --task classification, got "
                         f"{plainly(different[0])}: --category {shlex.quote(target)} takes it for text.")  # fmt: skip
    return np.nan_to_num(column.values).astype(int), kind, notes


def moments(table: Table, name: str) -> NDArray[np.float64]:
    """Return the times of the rows as numbers to order by."""
    column = known_column(table, name)
    if column.kind not in ("date", "number"):
        raise ValueError(f"--time {name} must be a column of dates or numbers, got {column.trouble or 'text'}: name "
                         "another one.")  # fmt: skip
    if column.missing.any():
        first = int(np.flatnonzero(column.missing)[0])
        raise ValueError(f"--time {name} must be there in every row, got nothing in {table.where(first)}: fill it in.")
    return column.values if column.kind == "number" else dates(table, name, column)


def in_order(table: Table, time: str | None) -> NDArray[np.intp]:
    """Return the rows in the order of time; without one, as they are."""
    return np.arange(table.n_rows) if time is None else np.argsort(moments(table, time), kind="stable")


def known_past(table: Table, target: str, order: NDArray[np.intp]) -> int:
    """Return how many rows of a series have a target, those up to some time; rows cannot be left out of a past."""
    missing = known_column(table, target).missing[order]
    past = int(np.argmax(missing)) if missing.any() else len(missing)
    if not missing[past:].all():
        after = past + int(np.argmin(missing[past:]))
        raise ValueError(f"{table.path} must have {target} up to some time and not after, got one in "
                         f"{table.where(int(order[after]))} after a gap: fill the gap in.")  # fmt: skip
    return past


def dates(table: Table, name: str, column: Column) -> NDArray[np.float64]:
    """Read dates as they are written."""
    pd = import_optional("pandas", "cli", "Reading tables")
    day = day_first(list(dict.fromkeys(column.values)))
    if day is None:
        raise ValueError(f"--time {name} must say which number is the day, got dates such as {column.values[0]!r}: "
                         "write them as 2021-12-31.")  # fmt: skip
    words = pd.Series(column.values)
    read = pd.to_datetime(words, format="ISO8601", utc=True, errors="coerce")
    others = read.isna()
    if others.any():  # each in a format of its own, which is slow
        read[others] = pd.to_datetime(words[others], format="mixed", dayfirst=day, utc=True, errors="coerce")
    if read.isna().any():
        first = int(np.flatnonzero(read.isna())[0])
        raise ValueError(f"--time {name} must be dates, got {column.values[first]!r} in {table.where(first)}: correct "
                         "it, or write dates as 2021-12-31.")  # fmt: skip
    return np.asarray((read - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1), dtype=np.float64)


# -- the inputs --------------------------------------------------------------------------------------------------------


def read_inputs(
    table: Table, columns: dict[str, Column], rows: NDArray[np.intp], impute: bool, alone: bool
) -> tuple[Any, list[str]]:
    """Return the columns that can be inputs, in these rows, and notes on the others."""
    pd = import_optional("pandas", "cli", "Reading tables")
    troubled = {name: column.trouble for name, column in columns.items() if column.trouble}
    if troubled:
        said = "; ".join(f"{name}: {trouble}" for name, trouble in list(troubled.items())[:SAID])
        options = " ".join(f"--drop {shlex.quote(name)}" for name in troubled)
        raise ValueError(f"{table.path} must hold numbers or categories, but {said}. Correct this, or leave out: "
                         f"{options}.")  # fmt: skip
    numbers = {name: column for name, column in columns.items() if column.kind == "number"}
    check_sizes(table, numbers, optional=True)
    check_units(numbers)
    taken, notes = useful(columns, rows)
    if not taken and not alone:
        why = "; ".join(notes) or "the target is the only one"
        raise ValueError(f"{table.path} must have a column to predict from ({why}): add columns.")
    check_complete(table, {name: columns[name] for name in taken}, rows, impute)
    return pd.DataFrame({name: series(column) for name, column in taken.items()}, index=range(len(rows))), notes


def check_sizes(table: Table, columns: dict[str, Column], optional: bool = False) -> None:
    """Raise on numbers that cannot be computed with; optional columns may be left out."""
    for name, column in columns.items():
        large = np.flatnonzero(np.abs(column.values) > LARGEST)
        if len(large):
            drop = f"use other units, or leave it out: --drop {shlex.quote(name)}"
            raise ValueError(
                f"{name} must be finite and below {LARGEST:g}, got {column.values[large[0]]:g} in "
                f"{table.where(int(large[0]))}: correct it, {drop if optional else 'or use other units'}."
            )


def check_units(columns: dict[str, Column]) -> None:
    """Raise on columns to learn from whose squares would all be zero."""
    for name, column in columns.items():
        largest = np.nanmax(np.abs(column.values))
        if 0 < largest < 1 / LARGEST:
            raise ValueError(f"{name} must have values beyond {1 / LARGEST:g}, got at most {largest:g}: use other "
                             "units.")  # fmt: skip


def check_complete(table: Table, columns: dict[str, Column], rows: NDArray[np.intp], impute: bool) -> None:
    """Raise on missing values, unless they will be filled."""
    holes = {name: rows[column.missing[rows]] for name, column in columns.items()}
    holes = {name: found for name, found in holes.items() if len(found)}
    if holes and not impute:
        said = "; ".join(
            f"{name} in {counted(len(found), 'row')}, first in {table.where(int(found.min()))}"
            for name, found in list(holes.items())[:SAID]
        )
        more = f"; and {len(holes) - SAID} more columns" * (len(holes) > SAID)
        raise ValueError(f"{table.path} has missing values: {said}{more}. Fill them in, leave the columns out with "
                         "--drop, or use --impute, which takes the median or the most frequent category.")  # fmt: skip


def useful(columns: dict[str, Column], rows: NDArray[np.intp]) -> tuple[dict[str, Column], list[str]]:
    """Return the columns that can tell something, in these rows, and say why the others cannot."""
    reasons: dict[str, list[str]] = {}
    taken: dict[str, Column] = {}
    seen: dict[bytes, str] = {}
    for name, column in columns.items():
        column = replace(column, values=column.values[rows])
        reason = why_useless(name, column)
        if not reason:
            twin = seen.setdefault(fingerprint(column), name)
            reason = "" if twin == name else f"the same as {twin}"
        if reason:
            reasons.setdefault(reason, []).append(name)
        else:
            taken[name] = column
    notes = [f"left out, {reason}: {listed(names)}" for reason, names in reasons.items()]
    counters = [name for name, column in taken.items() if is_counter(column)]
    notes += [f"{name} counts the rows: --drop {shlex.quote(name)} unless that means something" for name in counters]
    notes += [f"{name} {column.remark}" for name, column in taken.items() if column.remark]
    return taken, notes


def why_useless(name: str, column: Column) -> str:
    """Say why a column can tell nothing of new rows; nothing if it can."""
    if column.kind == "empty" or column.missing.all():
        return "empty"
    if column.kind == "date":
        return "dates (--time orders by them)"
    there = column.values[~column.missing]
    same = "the same wherever there is a value" if column.missing.any() else "the same in all rows"
    if column.kind == "number":
        if np.all(there == there[0]):
            return same
        return "identifiers" if IDENTIFIER.fullmatch(name) and is_counter(column) else ""
    different = len(set(there))
    if different == 1:
        return same
    if different > ALL_DIFFERENT and different > len(there) / 2:
        return "identifiers or free text, hardly ever repeated"
    return f"more than {MOST_CATEGORIES} categories" if different > MOST_CATEGORIES else ""


def is_counter(column: Column) -> bool:
    """Whether a column counts 1, 2, 3, ... from some number on, in the order of the rows."""
    return column.kind == "number" and len(column.values) > 2 and bool(np.all(np.diff(column.values) == 1))


def fingerprint(column: Column) -> bytes:
    """Equal for equal columns."""
    if column.kind == "number":
        return hashlib.blake2b(np.ascontiguousarray(column.values + 0.0).tobytes()).digest()
    pd = import_optional("pandas", "cli", "Reading tables")
    return hashlib.blake2b(pd.util.hash_array(column.values, categorize=True).tobytes(), salt=b"text").digest()


def series(column: Column) -> Any:
    """Return a column as an estimator takes it."""
    pd = import_optional("pandas", "cli", "Reading tables")
    return column.values if column.kind == "number" else pd.Categorical(column.values)


# -- missing values ----------------------------------------------------------------------------------------------------


def fill_values(X: Any) -> dict[str, Any]:
    """Return what to put where a value is missing: the median of a number, the most frequent category.

    Of a column that is all missing, as some rows of a table may have it, nothing is known: any value does.
    """
    empty = X.isna().all()
    return {name: (anything if empty[name] else typical)(X[name]) for name in X.columns}


def typical(series: Any) -> Any:
    """Return the median of numbers, the most frequent category."""
    return float(series.median()) if series.dtype.kind == "f" else str(series.mode().iloc[0])


def anything(series: Any) -> Any:
    """Return some value a column could have."""
    return 0.0 if series.dtype.kind == "f" else str(series.cat.categories[0])


def filled(X: Any, values: dict[str, Any]) -> Any:
    """Return a table with these values where some are missing."""
    return X.fillna({name: value for name, value in values.items() if X[name].isna().any()})
