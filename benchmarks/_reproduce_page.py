"""The HTML page of `termwise reproduce`, from the files of all studies in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
from _reproduce import AGREEING, NO_DATA, OUTSIDE, Record, count_verdicts, group, read_cells, with_sd
from markupsafe import Markup

COLOURS = {**dict.fromkeys(AGREEING, "agrees"), OUTSIDE: "outside", NO_DATA: "none"}


def read_study(about: Path) -> dict[str, Any]:
    """Return what the page shows of a study, given its `NAME.json`."""
    cells = read_cells(about.with_suffix(".csv"))
    figures = {
        path.stem.removeprefix(f"{about.stem}_"): Markup(svg_element(path.read_text(encoding="utf-8")))
        for path in sorted(about.parent.glob(f"{about.stem}_*.svg"))
    }
    tables = group(cells, lambda one: (one["table"], one["quantity"]))
    return {
        "name": about.stem,
        **json.loads(about.read_text(encoding="utf-8")),
        "counts": count_verdicts(cells),
        "tables": [cross(title, quantity, members) for (title, quantity), members in tables.items()],
        "figures": figures,
    }


def svg_element(text: str) -> str:
    """Return the `<svg>` element without the XML declaration before it."""
    return text[text.index("<svg") :]


def cross(table: str, quantity: str, cells: list[Record]) -> dict[str, Any]:
    """Return a table with one row and one column for each of those of its cells."""
    rows, columns = (list(dict.fromkeys(one[key] for one in cells)) for key in ("row", "column"))
    by_place = {(one["row"], one["column"]): one for one in cells}
    body = {row: [describe(by_place.get((row, column))) for column in columns] for row in rows}
    reasons = group([one for one in cells if one["reason"]], lambda one: one["reason"])
    notes = {text: ", ".join(f"{one['row']} {one['column']}" for one in ones) for text, ones in reasons.items()}
    return {"title": table, "quantity": quantity, "columns": columns, "body": body, "notes": notes}


def describe(cell: Record | None) -> dict[str, str]:
    """Return the strings of a cell: ours, the paper's, the verdict and its colour."""
    if cell is None:
        return {"ours": "", "paper": "", "verdict": "", "colour": "", "repeats": ""}
    return {
        "ours": with_sd(cell["ours"], cell["ours_sd"]),
        "paper": with_sd(cell["paper"], cell["paper_sd"]),
        "verdict": cell["verdict"],
        "colour": COLOURS.get(cell["verdict"], ""),
        "repeats": f"{cell['repeats']:.0f}",
    }


def write_page(out: Path) -> None:
    """Write `index.html` for all studies in the folder."""
    studies = [read_study(path) for path in sorted(out.glob("*.json")) if path.with_suffix(".csv").exists()]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.get_template("_reproduce_page.html").render(studies=studies)
    (out / "index.html").write_text(page, encoding="utf-8")
