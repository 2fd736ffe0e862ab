"""Tables and single numbers from the committed results in `benchmarks/results`, as Markdown.

A file of results has one JSON object per line. A line with a `processor` describes the machine and the versions of the
lines after it; a line with a `version` the device library of the lines that name this `library`. The results of
`termwise reproduce` are CSV files in `reproduce`, with a JSON file on machine and versions beside each:
`reproduce/NAME` gives the cells of a study, `reproduce/summary` the counts of verdicts of all studies, and
`reproduce/reasons` the cells that are outside or were not attempted, grouped by their reason. Sphinx reads this module
through `results`, the tests directly.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from string import Formatter
from typing import Any

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
sys.path.append(str(RESULTS.parent))
from _reproduce import NO_DATA, OUTSIDE, count_verdicts, group, read_cells, with_sd  # noqa: E402

VERSIONS = {"python": "Python", "numpy": "NumPy", "scipy": "SciPy", "scikit_learn": "scikit-learn", "dask": "Dask",
            "termwise": "termwise"}  # fmt: skip
MAX_PLACES = 12  # cells that are listed one by one
AGGREGATES = {"min": min, "max": max, "sum": sum, "mean": lambda values: sum(values) / len(values), "count": len}

Record = dict[str, Any]


def source_file(name: str) -> Path:
    """Return the file of some results; a folder for those of all studies."""
    study = RESULTS / f"{name}.csv"
    return study if study.exists() else study.parent if name.startswith("reproduce/") else RESULTS / f"{name}.jsonl"


def describe_machine(record: Record) -> str:
    """Return a line on the machine and the versions."""
    versions = ", ".join(f"{title} {record[key]}" for key, title in VERSIONS.items() if key in record)
    date = f", {record['date']}" if "date" in record else ""
    return f"{record['cores']} cores of {record['processor']}; {versions}{date}"


def read_study(name: str) -> list[Record]:
    """Return the cells of a study; mean and standard deviation also as strings, `ours_text` and `paper_text`.

    Cells listed under `earlier` in the JSON file are from an earlier run with more repeats, whose machine they show.
    """
    path = RESULTS / "reproduce" / f"{name}.csv"
    about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    machines = {tuple(place): describe_machine(run) for run in about.get("earlier", []) for place in run["places"]}
    records = []
    for cell in read_cells(path):
        place = tuple(cell[key] for key in ("table", "row", "column", "quantity"))
        texts = {f"{key}_text": with_sd(cell[key], cell[f"{key}_sd"]) for key in ("ours", "paper")}
        machine = machines.get(place, describe_machine(about))
        records.append({**cell, **texts, "study": name, "title": about["title"], "machine": machine})
    return records


def read_studies(name: str) -> list[Record]:
    """Return the counts of verdicts of every study, or the groups of cells with the same reason."""
    studies = {path.stem: read_study(path.stem) for path in sorted((RESULTS / "reproduce").glob("*.csv"))}
    if name == "summary":
        return [{**cells[0], **count_verdicts(cells)} for cells in studies.values()]
    explained = [cell for cells in studies.values() for cell in cells if cell["verdict"] in (OUTSIDE, NO_DATA)]
    groups = group(explained, lambda one: (one["study"], one["table"], one["verdict"], one["reason"]))
    return [{**ones[0], "places": list_places(ones)} for ones in groups.values()]


def list_places(cells: list[Record]) -> str:
    """Return rows and columns of some cells, of many their number."""
    if len(cells) > MAX_PLACES:
        return f"{len(cells)} numbers"
    return "; ".join(f"{one['row']}, {one['column']}" for one in cells)


def read(name: str) -> list[Record]:
    """Return the records of a file, each with a description of its machine under `machine`."""
    folder, _, study = name.rpartition("/")
    if folder == "reproduce":
        return read_studies(study) if study in ("summary", "reasons") else read_study(study)
    records, machine, libraries = [], "", {}
    for line in (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "processor" in record:
            machine, libraries = describe_machine(record), {}
        elif "version" in record:
            libraries[record["library"]] = f"; {record['library']} {record['version']} on {record['device']}"
        else:
            words = {key: "yes" if flag else "no" for key, flag in record.items() if isinstance(flag, bool)}
            records.append({**record, **words, "machine": machine + libraries.get(record.get("library"), "")})
    return records


def select(name: str, conditions: str) -> list[Record]:
    """Return the records that fulfil all conditions, such as `case=tall; method=fastcan|abess; data!=noise`."""
    records = read(name)
    for condition in filter(None, (part.strip() for part in conditions.split(";"))):
        key, negated, values = re.fullmatch(r"(\w+)(!?)=(.*)", condition).groups()
        allowed = [value.strip().lower() for value in values.split("|")]
        records = [r for r in records if (str(r.get(key, "")).lower() in allowed) != bool(negated)]
    if not records:
        raise ValueError(f"no record of {source_file(name).name} fulfils {conditions!r}")
    return records


def fill(template: str, record: Record) -> str:
    """Fill a format string with a record; a field that the record lacks gives an empty string."""
    try:
        return template.format_map(record).replace("|", "\\|")
    except (KeyError, TypeError):
        return ""


def value(text: str) -> str:
    """Return one number, `file; conditions; [min|max|sum|mean|count] {field:format}`."""
    name, *conditions, template = (part.strip() for part in text.split(";"))
    records = select(name, "; ".join(conditions))
    aggregate, _, rest = template.partition(" ")
    if aggregate not in AGGREGATES:
        if len(records) != 1:
            raise ValueError(f"{text!r} selects {len(records)} records; add conditions until it selects one")
        return fill(template, records[0])
    field = next(Formatter().parse(rest))[1]
    return fill(rest, {field: AGGREGATES[aggregate]([record[field] for record in records])})


def table(name: str, options: dict[str, str], body: list[str]) -> str:
    """Return a Markdown table and its source.

    Without options, every record is a row and a line of the body a column: `header = format string`. With `rows` and
    `columns`, the values of two fields span the table, and lines are `header = value [| format string]`, where `cell`
    gives the default; `columns` may be several fields, and values then likewise, separated by commas. `best` marks the
    smallest value of a field in each row and counts such rows in the last line.
    With `relative = FIELD over ROWS to REFERENCE`, each line is a row, `label = value [| text]` of `columns`: the
    geometric mean of the field relative to the reference, and the mean of the field `mean`, or the text instead.
    """
    records = select(name, options.get("where", ""))
    lines = [[part.strip() for part in line.split(" = ", 1)] for line in body if line.strip()]
    if "relative" in options:
        rows = relative_rows(records, options, lines)
    elif "rows" in options:
        rows = crossed_rows(records, options, lines)
    else:
        rows = [[header for header, _ in lines], *([fill(t, record) for _, t in lines] for record in records)]
    written = ["| " + " | ".join(row) + " |" for row in rows]
    written.insert(1, "|---" * len(rows[0]) + "|")
    machines = "; ".join(dict.fromkeys(part for record in records for part in record["machine"].split("; ")))
    source = f"Source: `benchmarks/results/{source_file(name).relative_to(RESULTS)}`; {machines}."
    return "\n".join([*written, "", source, ""])


def crossed_rows(records: list[Record], options: dict[str, str], lines: list[list[str]]) -> list[list[str]]:
    """Return the rows of a table that two fields span."""
    columns = [
        [header, *([part.strip() for part in value.split("|")] + [options["cell"]])[:2]] for header, value in lines
    ]
    fields = options["columns"].split(", ")
    cells = {(str(r[options["rows"]]), ", ".join(str(r[field]) for field in fields)): r for r in records}
    rows = [["", *(header for header, *_ in columns)]]
    wins = [0] * len(columns)
    for row in dict.fromkeys(first for first, _ in cells):
        found = [cells.get((row, value), {}) for _, value, _ in columns]
        cell_texts = [fill(template, record) for record, (_, _, template) in zip(found, columns, strict=True)]
        if field := options.get("best"):
            least = min(record[field] for record in found if record)
            best = [bool(record) and record[field] == least for record in found]
            cell_texts = [f"**{text}**" if one else text for text, one in zip(cell_texts, best, strict=True)]
            wins = [count + one for count, one in zip(wins, best, strict=True)]
        rows.append([row, *cell_texts])
    if "best" in options:
        rows.append([f"*lowest {options['best']}, of {len(rows) - 1}*", *(f"*{count}*" for count in wins)])
    return rows


def relative_rows(records: list[Record], options: dict[str, str], lines: list[list[str]]) -> list[list[str]]:
    """Return the rows of a table of geometric means relative to a reference."""
    field, over, reference = re.fullmatch(r"(\w+) over (\w+) to (.+)", options["relative"]).groups()
    groups: dict[str, dict[str, Record]] = {}
    for record in records:
        groups.setdefault(record[options["columns"]], {})[record[over]] = record
    rows = [["", f"relative {field}", f"mean {options['mean']}"]]
    for label, line in lines:
        value, _, text = (part.strip() for part in line.partition("|"))
        one, base = groups[value], groups[reference]
        logs = [math.log(one[key][field] / base[key][field]) for key in base]
        means = [record[options["mean"]] for record in one.values()]
        rows.append([label, f"{math.exp(sum(logs) / len(logs)):.2f}", text or f"{sum(means) / len(means):.0f}"])
    return rows
