"""A table as a known model asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from termwise._checks import import_optional
from termwise.cli.tables.reading import Column, Table
from termwise.cli.tables.task import check_sizes, known_column, listed


def inputs_for(table: Table, inputs: Iterable[Any], exempt: Iterable[str] = ()) -> Any:
    """Return the inputs of a model as a data frame.

    Parameters
    ----------
    table : Table
        New rows, its columns of categories read as text.
    inputs : iterable
        What the model asks for: objects with `name`, `kind` ("number" or "category"), `categories` and `fill`, the
        value put where one is missing, None if there is none.
    exempt : iterable of str, default=()
        Inputs that may be missing whatever they are.

    Returns
    -------
    X : DataFrame
        One column per input, float64 or text, with values missing only where there is one to be filled in.
    """
    pd = import_optional("pandas", "cli", "Reading tables")
    inputs = list(inputs)
    gone = [each.name for each in inputs if each.name not in table.columns]
    if len(gone) > 1:
        raise ValueError(f"{table.path} must have the columns the model was fitted with, but {listed(gone)} are not "
                         f"there: it has {listed(list(table.columns), 12)}.")  # fmt: skip
    columns = {}
    for each in inputs:
        column = known_column(table, each.name)
        check_kind(table, each, column)
        if each.fill is None and each.name not in exempt:
            check_there(table, each.name, column)
        columns[each.name] = column.values if each.kind == "category" else numbers(column)
    return pd.DataFrame(columns, index=range(table.n_rows))


def numbers(column: Column) -> Any:
    """Return a column of numbers, which may all be missing."""
    return np.full(len(column.values), np.nan) if column.kind == "empty" else column.values


def check_kind(table: Table, wanted: Any, column: Column) -> None:
    """Raise unless a column holds what the model asks for."""
    if column.kind == "empty":
        return
    if wanted.kind == "number":
        if column.kind != "number":
            why = column.trouble or f"{column.values[~column.missing][0]!r} is none"
            raise ValueError(f"{table.path} must hold numbers in {wanted.name}, as in the fit, but {why}: correct it.")
        check_sizes(table, {wanted.name: column})
        return
    known = set(map(str, wanted.categories))
    strange = [row for row in np.flatnonzero(~column.missing) if column.values[row] not in known]
    if strange:
        row = int(strange[0])
        raise ValueError(f"{table.path} must hold known categories in {wanted.name}, got {column.values[row]!r} in "
                         f"{table.where(row)}: the fit had {listed(sorted(known), 12)}.")  # fmt: skip


def check_there(table: Table, name: str, column: Column) -> None:
    """Raise if values are missing."""
    if column.missing.any():
        row = int(np.flatnonzero(column.missing)[0])
        raise ValueError(f"{table.path} must have {name} in every row, got nothing in {table.where(row)}: fill it in, "
                         "or fit the model with --impute.")  # fmt: skip
