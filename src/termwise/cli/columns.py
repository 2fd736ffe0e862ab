"""Columns of a table: what is a number, a date, a missing value or a category, as detected from strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._checks import import_optional

pd = import_optional("pandas", "cli", "The command line")

SAMPLE_WORDS = 2_000  # distinct strings from which the type of a column is detected, before all are converted

# Spellings of a missing value; an empty field is one, too.
NA_VALUES = ["NA", "NaN", "nan", "Nan", "-NaN", "-nan", "<NA>", "na", "N/A", "n/a", "N.A.", "n.a.", "#N/A", "#N/A N/A",
             "#NA", "NULL", "Null", "null", "(null)", "?", "missing", "Missing", "MISSING", "1.#IND", "1.#QNAN",
             "-1.#IND", "-1.#QNAN", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!"]  # fmt: skip
# Words that may be a value, the absence of a thing, as well: missing where all other entries of a column are numbers,
# or dates, and where the user says so.
AMBIGUOUS = {"none", "-", "--", "---", ".", "..", "...", "\u2013", "\u2014"}
MISSING = {"", *(word.lower() for word in NA_VALUES)}

GROUPING = " \u00a0\u202f'\u2019"  # thousands separators with either decimal mark
PATTERN = r"[-+]?(?:(?:[1-9]\d{,2}(?:[%s]\d{3})+|\d+)(?:[%s]\d*)?|[%s]\d+)(?:[eE][-+]?\d+)?|[-+]?(?i:inf(?:inity)?)"
NUMBER = {mark: re.compile(PATTERN % (other + GROUPING, mark, mark)) for mark, other in (".,", ",.")}
PLAIN = {".": str.maketrans("", "", "," + GROUPING), ",": str.maketrans(",", ".", "." + GROUPING)}
SIGN = re.compile(r"^([-+]?)[%$€£¥]\s?|\s?[%$€£¥]$")  # of per cent or a currency, before or after a number
MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
YEAR = r"\d\d(?:\d\d)?"
DAY = rf"\d{{4}}([-/.])\d\d?\1\d\d?|\d\d?([-/.])\d\d?\2{YEAR}|(\d\d?[. -]*{MONTH}|{MONTH} *\d\d?)[., -]+{YEAR}"
CLOCK = r"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)? ?(?:[ap]m|z|utc|[-+]\d\d:?\d\d)?"
DATE = re.compile(rf"(?:{DAY})(?:[T ] ?{CLOCK})?|{CLOCK}", re.IGNORECASE)


def row_number(row: int) -> str:
    """Return the place of a row in a file that has no lines, for a message."""
    return f"row {row + 1}"


@dataclass(frozen=True)
class Column:
    """One column: float64 with NaN, or, if it is not numeric, str with None."""

    kind: str  # "number", "date", "text", "empty" or "other"
    values: NDArray[Any]
    problem: str = ""  # why it is neither numeric nor categorical
    hint: str = ""  # for the user, if the column is used
    found: frozenset[str] = frozenset()  # words given for a missing value that occur in it

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Mask of the missing values."""
        nothing: Any = None
        return np.isnan(self.values) if self.kind == "number" else self.values == nothing


def is_missing(word: str) -> bool:
    """Whether a string may denote a missing value, for detecting the dialect."""
    return word.strip().lower() in MISSING | AMBIGUOUS


def strip_sign(word: str) -> str:
    """Return a string without a sign of per cent or a currency, with an ASCII minus."""
    return SIGN.sub(r"\1", word.strip().replace("\u2212", "-"), count=1)


def is_number(word: str) -> bool:
    """Whether a string is a number, with a decimal point or a decimal comma."""
    word = strip_sign(word)
    return bool(NUMBER["."].fullmatch(word) or NUMBER[","].fullmatch(word))


def as_number(word: str, decimal: str) -> float:
    """Return a string as a number, with this decimal mark where both fit; NaN if it is none."""
    word = strip_sign(word)
    marks = [mark for mark in (decimal, "," if decimal == "." else ".") if NUMBER[mark].fullmatch(word)]
    return float(word.translate(PLAIN[marks[0]])) if marks else np.nan


def values_of(series: Any) -> NDArray[Any]:
    """Return a column of a data frame as it is: numbers, or strings with None where a value is missing."""
    if pd.api.types.is_datetime64_any_dtype(series.dtype):
        return column_of(series, as_text=False).values
    numeric = pd.api.types.is_numeric_dtype(series.dtype)
    if numeric and (series.dtype.kind == "f" or not series.isna().any()):
        return np.asarray(series.to_numpy())
    present = zip(series.tolist(), series.notna(), strict=True)
    return np.array([(value if numeric else str(value)) if known else None for value, known in present], dtype=object)


def as_word(value: Any) -> str:
    """Return a value as a string, whole numbers without a decimal point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def column_of(
    series: Any,
    as_text: bool,
    missing_words: Collection[str] = (),
    decimal: str = ".",
    location: Callable[[int], str] = row_number,
) -> Column:
    """Return a column of a data frame with its type: strings may be numbers or dates."""
    dtype, types = series.dtype, pd.api.types
    empty = Column("empty", np.full(len(series), None))
    given = {word: number for word in missing_words if (number := as_number(word, decimal)) == number}
    if types.is_datetime64_any_dtype(dtype):
        words = series.dt.strftime("%Y-%m-%dT%H:%M:%S.%f").astype(object)
        return replace(empty, kind="date", values=words.where(series.notna(), None).to_numpy())
    if types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype) and not as_text:
        numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
        found = frozenset(word for word, number in given.items() if np.any(numbers == number))
        numbers = np.where(np.isin(numbers, list(given.values())), np.nan, numbers) if found else numbers
        return replace(empty if np.isnan(numbers).all() else Column("number", numbers), found=found)
    try:
        codes, distinct = pd.factorize(np.asarray(series, dtype=object))
    except TypeError:  # lists, dictionaries
        return replace(empty, kind="other", problem="holds neither numbers nor strings")
    words = np.array([*map(as_word, distinct), ""], dtype=object)  # the last one for missing values, code -1
    lower = [word.strip().lower() for word in words]
    same = [as_number(word, decimal) if given and not as_text else np.nan for word in words]
    missing = np.array([word in MISSING or word in missing_words or number in given.values()
                        for word, number in zip(lower, same, strict=True)])  # fmt: skip
    found = frozenset(word for word in missing_words if word in lower or given.get(word) in same)
    if missing.all():
        return replace(empty, found=found)
    if as_text:
        words[missing] = None
        return Column("text", words[codes], found=found)
    unsure = np.array([word in AMBIGUOUS for word in lower]) & ~missing
    column = parse_column(words, codes, missing=missing, unsure=unsure, decimal=decimal, location=location)
    return replace(column, found=found)


def parse_column(
    words: NDArray[Any],
    codes: NDArray[np.intp],
    *,
    missing: NDArray[np.bool_],
    unsure: NDArray[np.bool_],
    decimal: str,
    location: Callable[[int], str],
) -> Column:
    """Return the column of the strings `words[codes]`, some of which are missing, and others perhaps."""
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    kind, numbers, sign = classify(words[~missing], counts[~missing], decimal)
    if kind in ("mixed", "text") and unsure.any() and not (missing | unsure).all():
        others = classify(words[~missing & ~unsure], counts[~missing & ~unsure], decimal)
        if others[0] in ("number", "date"):
            (kind, numbers, sign), missing = others, missing | unsure
    words[missing] = None
    if kind == "number":
        values = np.full(len(words), np.nan)
        values[~missing] = numbers
        hint = f"is written with {sign}, which is left out" if sign else ""
        return Column(kind, values[codes], hint=hint)
    if kind != "mixed":
        return Column(kind, words[codes])
    row = int(np.argmax(np.isin(codes, np.flatnonzero(~missing)[np.isnan(numbers)])))
    problem = f"{words[codes[row]]!r} in {location(row)} is not a number, unlike most of the column"
    return Column("text", words[codes], problem)


def classify(words: NDArray[Any], counts: NDArray[np.intp], decimal: str) -> tuple[str, NDArray[np.float64], str]:
    """Return the type of a column, its numbers and the sign of per cent or a currency that all of them have.

    The column is given by its distinct strings and the number of rows of each. It is numeric ("number") if all strings
    are numbers with one decimal mark, `decimal` where both fit; "mixed" if those of half of the rows are, so that the
    others are mistakes; otherwise "date" or "text".
    """
    if len(words) > SAMPLE_WORDS:
        step = len(words) // SAMPLE_WORDS
        kind, numbers, sign = classify(words[::step], counts[::step], decimal)
        if kind in ("date", "text"):
            return kind, numbers, sign
    signs = {match[0].strip("+- ") if (match := SIGN.search(word)) else "" for word in words}
    sign = signs.pop() if len(signs) == 1 else ""
    bare = [word.replace("\u2212", "-").replace(sign, "").strip() for word in words]
    readings = [
        np.array([float(word.translate(PLAIN[mark])) if NUMBER[mark].fullmatch(word) else np.nan for word in bare])
        for mark in (decimal, "," if decimal == "." else ".")
    ]
    numbers = max(readings, key=lambda values: counts[~np.isnan(values)].sum())
    n_rows, n_numeric = counts.sum(), counts[~np.isnan(numbers)].sum()
    if n_numeric == n_rows:
        return "number", numbers, sign
    if counts[[bool(DATE.fullmatch(word)) for word in words]].sum() >= 0.9 * n_rows:
        return "date", numbers, sign
    return "mixed" if n_numeric >= n_rows / 2 else "text", numbers, sign


def decimal_mark(words: Iterable[str], delimiter: str, usual: str | None = None) -> str | None:
    """Return the decimal mark: that of most numbers which have one meaning only, unlike 1,234; None if none tells.

    If these do not decide, the usual mark does, if it is known, or a semicolon as the delimiter: it is used where
    commas are decimal marks. Fields that are separated by commas have decimal points unless there are numbers with
    commas.
    """
    bare = [strip_sign(word) for word in words]
    point = [bool(NUMBER["."].fullmatch(word)) for word in bare]
    comma = [bool(NUMBER[","].fullmatch(word)) for word in bare]
    if sum(point) != sum(comma):
        return "," if sum(comma) > sum(point) else "."
    marks = {mark for word, number in zip(bare, comma, strict=True) if number for mark in word if mark in ",."}
    if not marks or (delimiter == "," and "," not in marks):
        return None
    return usual or ("," if delimiter == ";" and "," in marks else None)
