"""Rows and geometric means of the benchmark `tables`: each contestant as a share of the errors of the peers."""

from __future__ import annotations

from typing import Any

import numpy as np
from tables_data import KINDS

Record = dict[str, Any]
SETTINGS = ("part", "table", "kind", "half", "setting", "rows")
SIZES = ("readable", "small", "accurate")  # of the flagship; everybody else is a peer


def label(record: Record) -> str:
    """Return who a record is of, with what was set."""
    parameters = record.get("parameters") or {}
    return " ".join([record["who"], *(f"{key}={value}" for key, value in parameters.items())])


def compare(found: list[Record], cached: list[Record]) -> tuple[list[Record], list[Record]]:
    """Return a row for each table and contestant, with ratios to the peers on the same splits, and geometric means."""
    cells: dict[tuple[Any, str], dict[int, Record]] = {}
    for record in cached + found:
        if "error" in record:
            where = (record["table"], record.get("setting"), record.get("rows"))
            cells.setdefault((where, label(record)), {})[record["seed"]] = record
    rows: list[Record] = []
    for (where, who), mine in cells.items():
        first = next(iter(mine.values()))
        row = {key: first[key] for key in SETTINGS if key in first} | {"who": who, "splits": len(mine)}
        for key in ("error", "error_rate", "terms", "nodes", "seconds", "cpu_seconds"):
            values = [one[key] for one in mine.values() if key in one]
            row |= {key: round(float(np.mean(values)), 4)} if values else {}
        row["median_error"] = round(float(np.median([one["error"] for one in mine.values()])), 4)
        row["ratio"] = {}
        for (place, peer), theirs in cells.items():
            shared = mine.keys() & theirs.keys()
            if place == where and peer != who and shared and peer.split()[0] not in SIZES:
                errors = [np.mean([group[seed]["error"] for seed in shared]) for group in (mine, theirs)]
                row["ratio"][peer] = round(float(errors[0] / errors[1]), 4)
        rows.append(row)
    return rows, summarise(rows)


def summarise(rows: list[Record]) -> list[Record]:
    """Return geometric means of the ratios, by half, kind and contestant."""
    found = []
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in ("half", "kind", "setting", "who")), []).append(row)
    for (half_name, kind, setting, who), some in groups.items():
        means, medians, wins = {}, {}, {}
        for peer in dict.fromkeys(peer for row in some for peer in row["ratio"]):
            ratios = [row["ratio"][peer] for row in some if peer in row["ratio"]]
            means[peer] = round(float(np.exp(np.mean(np.log(ratios)))), 4)
            medians[peer] = round(float(np.median(ratios)), 4)
            wins[peer] = f"{sum(one < 1 for one in ratios)} of {len(ratios)}"
        summary: Record = {"part": "summary", "half": half_name, "kind": kind, "who": who, "tables": len(some),
                           "geometric_mean": means, "median": medians, "wins": wins}  # fmt: skip
        summary |= {"setting": setting} if setting else {}
        for key in ("terms", "seconds", "cpu_seconds"):
            values = [row[key] for row in some if key in row]
            summary |= {f"median_{key}": round(float(np.median(values)), 2)} if values else {}
        found.append(summary)
    return found


def as_text(rows: list[Record], summaries: list[Record]) -> str:
    """Return the rows and means as an aligned table, by half and kind; of the flagship alone if it is compared."""
    peers = list(dict.fromkeys(peer for row in rows for peer in row["ratio"]))
    if any(row["who"].split()[0] in SIZES for row in rows):
        rows, summaries = ([row for row in some if row["who"] not in peers] for some in (rows, summaries))

    def heading(row: Record) -> str:
        group = row.get("setting") or row["kind"]
        return f"{row['half'][:4]:5}{group[:10]:11}{row.get('table', 'geometric mean'):20}{row['who'][:21]:22}"

    lines = [f"{'half':5}{'kind':11}{'table':20}{'who':22}{'error':>8}{'terms':>7}{'cpu s':>7} "
             + "".join(f"{f'/{peer}':>10}" for peer in peers)]  # fmt: skip

    def line(start: str, row: Record, ratios: Record) -> str:
        numbers = (
            f"{row.get('error', np.nan):8.4f}{row.get('terms', np.nan):7.1f}{row.get('cpu_seconds', np.nan):7.2f} "
        )
        return start + numbers.replace("nan", "  -") + "".join(
            f"{ratios[peer]:10.3f}" if peer in ratios else f"{'-':>10}" for peer in peers)  # fmt: skip

    order = {kind: i for i, kind in enumerate(KINDS)}
    for row in sorted(rows, key=lambda row: (row["half"], order.get(row["kind"], 9), row["table"], row["who"])):
        lines.append(line(heading(row), row, row["ratio"]))
    for row in summaries:
        middle = {"terms": row.get("median_terms", np.nan), "cpu_seconds": row.get("median_cpu_seconds", np.nan)}
        lines.append(line(heading(row), middle, row["geometric_mean"]))
        lines.append(line(f"{'':16}{'median':42}", {}, row["median"]))
        lines.append(f"{'':16}{'wins':65}" + "".join(f"{row['wins'].get(peer, '-'):>10}" for peer in peers))
    return "\n".join(lines)
