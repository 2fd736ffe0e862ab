"""Find columns of a table that number or name its rows and say nothing about new ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from termwise._checks import is_frame
from termwise.basis.encoder import CATEGORICAL, as_numbers, column_kind, is_missing

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
