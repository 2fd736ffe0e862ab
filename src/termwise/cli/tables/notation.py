"""How people write numbers, dates and nothing at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

# besides those of pandas: "NA", "N/A", "NaN", "null", "None", "#N/A", ... and an empty field
MISSING = ["?", "-", "--", "---", ".", "..", "...", "na", "n/a", "N.A.", "n.a.", "Nan", "nan.", "none", "NULL", "Null",
           "missing", "Missing", "MISSING", "(null)", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!",
           "\u2013", "\u2014"]  # fmt: skip
WORDS_FOR_MISSING = {"", "nan", "<na>", "#n/a", "#na", "-nan", "1.#ind", "1.#qnan", "-1.#ind", "-1.#qnan", "#n/a n/a",
                     *(word.lower() for word in MISSING)}  # fmt: skip

GAP = " \u00a0\u202f'\u2019"  # between thousands, whatever the decimal mark
EXPONENT = r"(?:[eE][-+]?\d+)?"
INFINITE = r"[-+]?(?:inf(?:inity)?|Inf(?:inity)?|INF(?:INITY)?|\u221e)"


def pattern(mark: str, group: str) -> re.Pattern[str]:
    """Numbers with this decimal mark and this sign between thousands."""
    plain = rf"(?:\d+{mark}?\d*|{mark}\d+)"
    grouped = rf"[1-9]\d{{,2}}(?:[{group}{GAP}]\d{{3}})+(?:{mark}\d*)?"  # 0,125 has no thousands
    return re.compile(rf"[-+]?(?:{grouped}|{plain}){EXPONENT}|{INFINITE}")


WITH_POINT, WITH_COMMA = pattern(r"\.", ","), pattern(",", r"\.")
UNIT = r"[^\W\d_%\u00b0$\u20ac\u00a3\u00a5]{1,6}|[%\u00b0$\u20ac\u00a3\u00a5][^\W\d_]?"
WITH_UNIT = re.compile(rf"[$\u20ac\u00a3\u00a5]\s?[-+]?\d[\d.,]*|[-+]?\d[\d.,]*\s?(?:{UNIT})[23\u00b2\u00b3]?")
CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[AaPp][Mm])?"
ZONE = r"\s?(?:Z|UTC|[-+]\d{2}:?\d{2})?"
MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
YEAR_FIRST = rf"\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}(?:[T ]\s?{CLOCK}{ZONE})?"
YEAR_LAST = rf"(\d{{1,2}})[-/.](\d{{1,2}})[-/.](?:\d{{4}}|\d{{2}})(?:[T ]\s?{CLOCK})?"
IN_WORDS = rf"(?:\d{{1,2}}[. -]?\s?{MONTH}|{MONTH}\s?\d{{1,2}},?)[ -]\s?(?:\d{{4}}|\d{{2}})(?:[T ]\s?{CLOCK})?"
DATE = re.compile(rf"{YEAR_FIRST}|(?:{YEAR_LAST})|{IN_WORDS}|{CLOCK}", re.IGNORECASE)
DAY_OR_MONTH = re.compile(YEAR_LAST, re.IGNORECASE)
MOST_GRADES = 12  # different numbers with a "unit" that may still be names, such as 1st, 2nd, 3rd
ENOUGH = 2_000  # different words that tell what a column holds
MINUS = str.maketrans({"\u2212": "-"})
SIGNS = "%$\u20ac\u00a3\u00a5"  # of per cent and currencies, before or after a number
SIGN = re.compile(rf"^([-+]?)[{SIGNS}]\s?|\s?[{SIGNS}]$")


def is_missing(word: str) -> bool:
    """Whether a field says that there is no value."""
    return word.strip().lower() in WORDS_FOR_MISSING


def bare(word: str) -> str:
    """Return a word as a number is written, without its sign of per cent or a currency."""
    return SIGN.sub(r"\1", word.strip().translate(MINUS), count=1)


def common_sign(words: Sequence[str]) -> str:
    """Return the sign of per cent or a currency that all words have; nothing if there is none."""

    def has(word: str, sign: str) -> bool:
        return word.endswith(sign) or word.lstrip("+-\u2212").startswith(sign)

    return next((sign for sign in SIGNS if all(has(word, sign) for word in words)), "")


def is_number(word: str) -> bool:
    """Whether a field is a number in some notation."""
    word = bare(word)
    return bool(WITH_POINT.fullmatch(word) or WITH_COMMA.fullmatch(word))


def is_decimal_comma(word: str) -> bool:
    """Whether a field is a number if, and only if, its comma is a decimal mark."""
    word = bare(word)
    return bool(WITH_COMMA.fullmatch(word)) and not WITH_POINT.fullmatch(word)


def is_decimal_point(word: str) -> bool:
    """Whether a field is a number if, and only if, its point is a decimal mark."""
    word = bare(word)
    return bool(WITH_POINT.fullmatch(word)) and not WITH_COMMA.fullmatch(word)


def to_float(word: str, comma: bool) -> float:
    """Return the number a word stands for, NaN if it is none in this notation."""
    word = word.translate(MINUS)
    if not (WITH_COMMA if comma else WITH_POINT).fullmatch(word):
        return float("nan")
    for sign in GAP + ("." if comma else ","):
        word = word.replace(sign, "")
    return float(word.replace(",", ".").replace("\u221e", "inf"))


@dataclass(frozen=True)
class Reading:
    """What the different words of a column turn out to be."""

    kind: str  # "number", "date" or "text"
    numbers: NDArray[np.float64]  # one for each word, NaN where it is none
    strange: NDArray[np.bool_]  # words that spoil what would be a column of numbers
    why: str = ""  # what is wrong with them
    sign: str = ""  # of per cent or a currency, which all words have


def read_words(words: Sequence[str], counts: NDArray[np.int64], comma: bool) -> Reading:
    """Tell what a column holds from its different words, none of them missing, and how often each occurs.

    Numbers if all are in one notation; where both fit, as in 1,234, `comma` decides, the notation of the other columns.
    If half of the rows are numbers the rest is a mistake, if fewer, numbers are names as good as others.
    """
    sign = common_sign(words)
    if sign:
        reading = read_words([bare(word) for word in words], counts, comma)
        if reading.kind == "number":
            return replace(reading, sign=sign)
    if len(words) > ENOUGH:  # names and dates are told by some of them
        some = np.linspace(0, len(words) - 1, ENOUGH).astype(int)
        guess = read_words([words[i] for i in some], counts[some], comma)
        if guess.kind == "date" or (guess.kind == "text" and not guess.strange.any()):
            return Reading(guess.kind, np.full(len(words), np.nan), np.zeros(len(words), dtype=bool))
    readings = {mark: np.array([to_float(word, mark) for word in words]) for mark in (comma, not comma)}
    total = counts.sum()
    numeric = {mark: counts[~np.isnan(values)].sum() for mark, values in readings.items()}
    mark = comma if numeric[comma] >= numeric[not comma] else not comma
    numbers, none = readings[mark], np.zeros(len(words), dtype=bool)
    if numeric[mark] == total:
        return Reading("number", numbers, none)
    dates = np.array([bool(DATE.fullmatch(word)) for word in words])
    if counts[dates].sum() >= 0.9 * total:
        return Reading("date", numbers, none)
    if numeric[mark] >= total / 2:
        return Reading("text", numbers, np.isnan(numbers), "is no number, as most of the column are")
    units = np.array([bool(WITH_UNIT.fullmatch(word)) for word in words])
    if counts[units].sum() >= 0.9 * total and len(words) > MOST_GRADES:
        return Reading("text", numbers, units, "is a number with a unit")
    return Reading("text", numbers, none)


def day_first(words: Sequence[str]) -> bool | None:
    """Whether dates such as 3/4/2021 begin with the day; None if they do not tell."""
    found = [match for word in words if (match := DAY_OR_MONTH.fullmatch(word))]
    firsts, seconds = {int(match[1]) for match in found}, {int(match[2]) for match in found}
    if not found or max(firsts) > 12 or any("." in word for word in words):
        return True
    return False if max(seconds) > 12 else None
