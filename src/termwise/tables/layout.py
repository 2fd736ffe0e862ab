"""How a table of text is laid out: what separates its fields, whether names come first, which decimal mark it has."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from termwise.tables.notation import is_decimal_comma, is_decimal_point, is_missing, is_number

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
ENOUGH = 500  # records that are looked at


@dataclass(frozen=True)
class Layout:
    """How a table is written."""

    delimiter: str
    header: bool
    names: list[str]
    comma: bool  # numbers have decimal commas
    switches: list[str]  # columns of true and false, as words
    notes: list[str]


def records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Go through the records of a table, with the line each begins in; blank lines are none.

    They end early where a field is too long for the csv module.
    """
    if delimiter == " ":
        for number, line in enumerate(io.StringIO(text), start=1):
            if line.strip():
                yield number, line.split()
        return
    reader, begins = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True), 1
    with suppress(csv.Error):
        for fields in reader:
            if fields and not (len(fields) == 1 and not fields[0].strip()):
                yield begins, fields
            begins = reader.line_num + 1


def sniff(sample: str, whole: bool) -> Layout:
    """Tell the layout from the beginning of a table; unless that is all of it, its last record is not complete."""
    delimiter = find_delimiter(sample, whole)
    rows = first_records(sample, delimiter, whole)
    header = has_header(rows)
    data = rows[1:] if header else rows
    width = max([len(rows[0]), *(len(row) for row in data)] if not header else [len(rows[0])])
    names, notes = clean_names(rows[0]) if header else ([f"x{j}" for j in range(width)], [])
    if not header:
        notes.append(f"no names in the first line: the columns are called {names[0]} to {names[-1]}")
    extra = {len(row) for row in data} - {len(names)}
    if header and extra == {len(names) + 1} and all(len(row) == len(names) + 1 and not row[-1].strip() for row in data):
        names.append(unused(f"column {len(names) + 1}", names))  # a delimiter at the end of each row
    fields = [field for row in data for field in row]
    comma = sum(map(is_decimal_comma, fields)) > sum(map(is_decimal_point, fields))
    if delimiter != ",":
        notes.append(f"fields are separated by {DELIMITERS[delimiter]}")
    if comma:
        notes.append("numbers are written with decimal commas")
    return Layout(delimiter, header, names, comma, switches(names, data), notes)


def first_records(sample: str, delimiter: str, whole: bool) -> list[list[str]]:
    """Return complete records from the beginning of a table."""
    rows = []
    for _, row in records(sample, delimiter):
        rows.append(row)
        if len(rows) > ENOUGH:
            break
    rows = rows or [[""]]  # nothing but a quotation mark
    return rows if whole or len(rows) == 1 or len(rows) > ENOUGH else rows[:-1]


def find_delimiter(sample: str, whole: bool) -> str:
    """Return the delimiter that gives most records the same number of fields, in which no other one is left over."""

    def fitness(delimiter: str) -> tuple[float, float, int]:
        rows = first_records(sample, delimiter, whole)
        width, agreeing = Counter(len(row) for row in rows).most_common(1)[0]
        if width == 1:
            return 0.0, 0.0, 1
        fields = [field for row in rows for field in row]
        if delimiter == " ":  # names and sentences have spaces as well: only numbers are told apart by them
            data = [field for row in rows[1:] for field in row]
            if agreeing < len(rows) or not all(is_number(field) or is_missing(field) for field in data):
                return 0.0, 0.0, 1
        others = set(DELIMITERS) - {delimiter, " "}
        clean = sum(is_number(field) or not others & set(field) for field in fields)
        return agreeing / len(rows), clean / len(fields), width

    return max(DELIMITERS, key=fitness)  # the first of equals: a comma


def has_header(rows: list[list[str]]) -> bool:
    """Whether the first record has names: it does unless it has numbers wherever the others have."""
    first, others = rows[0], rows[1:]
    if not others:
        return not all(is_number(field) or is_missing(field) for field in first)
    numeric = []
    for j in range(len(first)):
        values = [row[j] for row in others if j < len(row) and not is_missing(row[j])]
        if values and sum(map(is_number, values)) > len(values) / 2:
            numeric.append(j)
    return not numeric or any(not is_number(first[j]) and not is_missing(first[j]) for j in numeric)


def clean_names(fields: list[str]) -> tuple[list[str], list[str]]:
    """Return names that are there and different, and notes on what was done to get them."""
    names: list[str] = []
    notes = []
    for j, field in enumerate(fields, start=1):
        name = " ".join(field.split())
        if not name:
            name = unused(f"column {j}", names)
        elif name in names:
            number = 2
            while f"{name} ({number})" in names:
                number += 1
            notes.append(f"a second column {name} is called {name} ({number})")
            name = f"{name} ({number})"
        names.append(name)
    return names, notes


def unused(name: str, names: list[str]) -> str:
    """Return a name none of the others has."""
    while name in names:
        name += "'"
    return name


def switches(names: list[str], data: list[list[str]]) -> list[str]:
    """Return the columns that say true or false, which are words like any others."""
    found = []
    for j, name in enumerate(names):
        values = {row[j].strip().lower() for row in data if j < len(row)}
        if values & {"true", "false"}:
            found.append(name)
    return found
