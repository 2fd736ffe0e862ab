"""What the studies of `termwise reproduce` share: the cells of a table, their verdicts, and means over repeats."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

FIELDS = ("table", "row", "column", "quantity", "ours", "ours_sd", "paper", "paper_sd", "repeats", "verdict", "reason")
TEXTS = ("table", "row", "column", "quantity", "verdict", "reason")
AGREEING = ("inside 1 sd", "inside 2 sd", "better")
OUTSIDE, NO_DATA = "outside", "no data"

Record = dict[str, Any]


def verdict(
    ours: float | None, paper: float | None, sd: float | None = None, lower_is_better: bool | None = True
) -> str:
    """Compare a number with the paper's: "inside 1 sd", "inside 2 sd", "better", "outside" or "no data".

    Parameters
    ----------
    ours, paper : float or None
        A number without one of the paper beside it has no verdict, an empty string.
    sd : float, default=None
        Standard deviation between repeats, the paper's where it gives one.
    lower_is_better : bool or None, default=True
        None: neither direction is better.
    """
    if paper is None:
        return ""
    if ours is None:
        return NO_DATA
    distance, rounding = abs(ours - paper), 1e-9 * max(1.0, abs(paper))
    for count in (1, 2):
        if distance <= count * (sd or 0.0) + rounding:
            return f"inside {count} sd"
    better = lower_is_better is not None and (ours < paper) == lower_is_better
    return "better" if better else OUTSIDE


def cell(
    place: tuple[str, str, str, str],
    values: Sequence[float],
    paper: tuple[float, float | None] | None = None,
    lower_is_better: bool | None = True,
    reason: str = "",
) -> Record:
    """Return a row of the CSV file from the values of all repeats.

    Parameters
    ----------
    place : tuple of four str
        Table, row, column and quantity.
    values : sequence of float
        One value per repeat; none gives the verdict "no data".
    paper : tuple of float and float or None, default=None
        The paper's mean and standard deviation; ours is used where it gives none.
    lower_is_better : bool or None, default=True
        As in `verdict`.
    reason : str, default=""
        One sentence, kept if the verdict is "outside" or "no data".
    """
    ours, ours_sd = mean_and_sd(values)
    mean, sd = paper or (None, None)
    found = verdict(ours, mean, ours_sd if sd is None else sd, lower_is_better)
    kept = reason if found in (OUTSIDE, NO_DATA) else ""
    numbers = (ours, ours_sd, mean, sd, len(values))
    return dict(zip(FIELDS, (*place, *numbers, found, kept), strict=True))


def mean_and_sd(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return mean and population standard deviation; the latter is None for one value, both for none."""
    if not values:
        return None, None
    return statistics.fmean(values), statistics.pstdev(values) if len(values) > 1 else None


def with_sd(mean: float | None, sd: float | None) -> str:
    """Return mean and standard deviation with three significant digits, an empty string without a mean."""
    numbers = [number for number in (mean, sd) if number is not None]
    return " ± ".join(f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}" for number in numbers)


def read_cells(path: Path) -> list[Record]:
    """Return the rows of a CSV file of a study; numbers as floats, None where there is none."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{key: x if key in TEXTS else float(x) if x else None for key, x in row.items()} for row in rows]


def group(records: Iterable[Record], key: Callable[[Record], Any]) -> dict[Any, list[Record]]:
    """Group records by a key, in the order of appearance."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def count_verdicts(cells: Iterable[Record]) -> Record:
    """Count the cells that agree, are outside, and were not attempted, of those that have a number of the paper."""
    verdicts = [one["verdict"] for one in cells if one["verdict"]]
    return {
        "cells": len(verdicts),
        "agreeing": sum(one in AGREEING for one in verdicts),
        "outside": verdicts.count(OUTSIDE),
        "not_attempted": verdicts.count(NO_DATA),
    }
