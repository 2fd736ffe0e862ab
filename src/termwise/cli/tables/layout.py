"""How a table of text is laid out: what separates its fields, whether names come first, which decimal mark it has."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from termwise.cli.tables.notation import is_decimal_comma, is_decimal_point, is_missing, is_number

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
    padded: list[str]  # columns of numbers such as 00501
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


def sniff(sample: str, whole: bool, expected: Collection[str] = ()) -> Layout:
    """Tell the layout from the beginning of a table; unless that is all of it, its last record is not complete.

    A first line with one of the names expected has names, even if they are numbers, such as years.
    """
    delimiter = find_delimiter(sample, whole)
    rows = first_records(sample, delimiter, whole)
    header = bool({" ".join(field.split()) for field in rows[0]} & set(expected)) or has_header(rows)
    data = rows[1:] if header else rows
    width = max([len(rows[0]), *(len(row) for row in data)] if not header else [len(rows[0])])
    names, notes = clean_names(rows[0]) if header else ([f"x{j}" for j in range(width)], [])
    if not header:
        notes.append(f"no names in the first line: the columns are called {names[0]} to {names[-1]}")
    extra = {len(row) for row in data} - {len(names)}
    if header and extra == {len(names) + 1} and all(len(row) == len(names) + 1 and not row[-1].strip() for row in data):
        names.append(unused(f"column {len(names) + 1}", names))  # a delimiter at the end of each row
    comma = has_decimal_commas([field for row in data for field in row], delimiter)
    if delimiter != ",":
        notes.append(f"fields are separated by {DELIMITERS[delimiter]}")
    if comma:
        notes.append("numbers are written with decimal commas")
    return Layout(
        delimiter,
        header,
        names,
        comma,
        columns_with(re.compile("true|false", re.IGNORECASE), names, data),
        columns_with(re.compile(r"0\d+"), names, data),
        notes,
    )


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


def has_decimal_commas(fields: list[str], delimiter: str) -> bool:
    """Whether commas are decimal marks, as most numbers say that do not fit both notations, as 1,234 does.

    If none says so semicolons do: who has decimal commas needs them.
    """
    commas, points = sum(map(is_decimal_comma, fields)), sum(map(is_decimal_point, fields))
    if commas == points and delimiter == ";":
        return any("," in field and is_number(field) for field in fields)
    return commas > points


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


def columns_with(word: re.Pattern[str], names: list[str], data: list[list[str]]) -> list[str]:
    """Return the columns in which some field is such a word."""
    return [
        name for j, name in enumerate(names) if any(j < len(row) and word.fullmatch(row[j].strip()) for row in data)
    ]
