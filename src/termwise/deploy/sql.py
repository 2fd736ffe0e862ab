"""A model as a query in SQL, of the syntax that SQLite, DuckDB and PostgreSQL have in common.

The query is a chain of common table expressions: the first encodes the inputs, each further one adds the parts of the
terms that depend on those before it. The database needs the function EXP, and for some bases SQRT, SIN or POWER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from termwise._numerics import FLOAT64
from termwise.basis.encoder import MISSING
from termwise.deploy.formulas import (
    ATOM,
    BOUNDED_LINKS,
    CHUNK,
    PRODUCT,
    SUM,
    Cell,
    Formulas,
    FormulaWriter,
    cells_of,
    names_of,
    printable,
)
from termwise.deploy.inputs import Input
from termwise.deploy.program import Program

MAX_FLOAT = "1.7976931348623157e308"


def source(
    program: Program,
    table: str | Sequence[str] = "data",
    keep: Sequence[str] | None = None,
    order_by: str | Sequence[str] | None = None,
    view: str | None = None,
) -> str:
    """Return the query that `Predictor.to_sql` describes, with its parameters."""
    names, order = _listed_names(table), _listed_names(order_by)
    if program.lags is not None and not order:
        raise ValueError(
            "order_by must name the columns that order rows in time, got None: this is a model of past values."
        )
    schema = program.schema
    kept = [schema.names[j] for j in schema.used] if keep is None else _listed_names(keep)
    writer = Writer(program, free_names([*kept, *order, *names]))
    formulas = Formulas.from_program(program, BOUNDED_LINKS[FLOAT64])
    scores = formulas.outputs if program.labels is not None else []
    named = names_of(formulas.terms, "term_{}") | names_of(scores, "output_{}")
    named = {part: writer.free_name(name) for part, name in named.items()}
    texts = writer.write([*formulas.outputs, *formulas.probabilities], named)
    notes = {named[term]: name for term, name in zip(formulas.terms, program.linear.names, strict=True)}
    result_name, valid = free_names(kept), writer.free_name("valid")
    condition = _condition(writer, program, formulas)
    results = []
    for name, text in _results(program, texts):
        value = f"CASE WHEN {valid} = 1 THEN {text} END" if condition else text
        results.append(f"{value} AS {identifier(result_name(name))}")
    text, previous = "", f"{'.'.join(map(identifier, names))} AS t"
    tested = [(valid, f"CASE WHEN {condition} THEN 1 ELSE 0 END")] if condition else []
    for i, columns in enumerate(_levels(writer, kept, order, tested)):
        lines = [f"{value} AS {name}" if name else value for name, value in columns]
        listed = _listed(lines, [notes.get(name, "") for name, _ in columns])
        window = (
            f"WINDOW history AS (ORDER BY {', '.join(map(identifier, order))})\n" if "OVER history" in listed else ""
        )
        name = writer.free_name(f"step_{i}")
        text += f"{', ' if i else 'WITH '}{name} AS (\n{listed}FROM {previous}\n{window})"
        previous = name
    last = _listed([*map(identifier, kept), *results])
    what = "targets" if program.labels is None else "classes"
    head = f"-- A model written by termwise: {what} from {len(schema.used)} columns.\n"
    head += "" if view is None else f"CREATE VIEW {identifier(view)} AS\n"
    return f"{head}{text}\n{last}FROM {previous};\n"


def check_text(text: Any) -> None:
    """Raise for a name or a category that SQL cannot hold."""
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(f"names and categories must be strings without the character NUL, got {text!r}: rename it.")


def _listed_names(names: str | Sequence[str] | None) -> list[str]:
    """Return one or several names as a list, each once."""
    listed = [names] if isinstance(names, str) else list(dict.fromkeys(names or []))
    for name in listed:
        check_text(name)
    return listed


def identifier(name: str) -> str:
    """Quote the name of a column or table."""
    check_text(name)
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """Write a category or a label."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        check_text(value)
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def number(value: float) -> str:
    """Write a number in full precision, with an exponent: without one, it would be decimal in some databases."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def free_names(taken: Sequence[str]) -> Callable[[str], str]:
    """Return a function that adds underscores to names that are taken, whatever their case."""
    used = {name.casefold() for name in taken}

    def free_name(name: str) -> str:
        while name.casefold() in used:
            name += "_"
        used.add(name.casefold())
        return name

    return free_name


class Writer(FormulaWriter):
    """Writes formulas in columns of a query; comparisons with NULL are not true, and fall to ELSE.

    Rows with NULL in an input that must be known are therefore marked by a column of their own.
    """

    operations: ClassVar[Mapping[str, tuple[str, int, tuple[int, ...]]]] = {
        "add": ("{0} + {1}", SUM, (SUM, PRODUCT)),
        "subtract": ("{0} - {1}", SUM, (SUM, PRODUCT)),
        "multiply": ("{0} * {1}", PRODUCT, (PRODUCT, ATOM)),
        "divide": ("{0} / {1}", PRODUCT, (PRODUCT, ATOM)),
        "negative": ("-{0}", SUM, (PRODUCT,)),
        "square": ("POWER({0}, 2)", ATOM, (0,)),
        "power": ("POWER({0}, {1})", ATOM, (0, 0)),
        "exp": ("CASE WHEN {0} < -700 THEN 0e0 ELSE EXP({0}) END", ATOM, (0,)),  # underflow is an error in PostgreSQL
        "log": ("LN({0})", ATOM, (0,)),
        "sqrt": ("SQRT({0})", ATOM, (0,)),
        "sin": ("SIN({0})", ATOM, (0,)),
        "expit": ("CASE WHEN {0} < -700 THEN 0e0 ELSE 1e0 / (1e0 + EXP(-{0})) END", ATOM, (ATOM,)),
        "maximum": ("CASE WHEN {0} < {1} THEN {1} ELSE {0} END", ATOM, (SUM, SUM)),
        "minimum": ("CASE WHEN {0} > {1} THEN {1} ELSE {0} END", ATOM, (SUM, SUM)),
        "where": ("CASE WHEN {0} THEN {1} ELSE {2} END", ATOM, (0, 0, 0)),
        "greater": ("{0} > {1}", 0, (SUM, SUM)),
        "equal": ("{0} = {1}", 0, (SUM, SUM)),
        "isnan": ("{0} IS NULL", 0, (ATOM,)),
    }

    def __init__(self, program: Program, free_name: Callable[[str], str]) -> None:
        super().__init__()
        self.inputs, self.free_name = program.schema.inputs, free_name
        self.cells: dict[Cell, str] = {}  # names of columns

    def cell(self, cell: Cell) -> str:
        """Return the name of the column that encodes an input, here or some rows before."""
        if cell.lag:
            self.cell(cell._replace(lag=0))
        if cell not in self.cells:
            self.cells[cell] = self.free_name(f"input_{len(self.cells) + 1}")
        return self.cells[cell]

    def number(self, value: float) -> str:
        """Write a number."""
        return number(value)

    def part_name(self, count: int) -> str:
        """Return the name of the column of a part."""
        return self.free_name(f"part_{count}")


def encoded(one: Input, code: int) -> str:
    """Write an encoded column of an input; NULL where `predict` rejects the input, and for a missing number itself."""
    column = f"t.{identifier(one.name)}"
    if one.categories is None:
        double, allowed = f"CAST({column} AS DOUBLE PRECISION)", one.missing or one.fill is not None
        # Databases with NaN sort it above infinity, also after a change of sign.
        missing = f"{column} IS NULL OR ({column} > {MAX_FLOAT} AND -{double} > {MAX_FLOAT})"
        there, absent = ("0e0", number(one.fill is None)) if code == MISSING else (double, "NULL")
        absent = number(one.fill) if one.fill is not None and code != MISSING else absent
        otherwise = f" WHEN {missing} THEN {absent}" if allowed and absent != "NULL" else ""
        return f"CASE WHEN {column} BETWEEN -{MAX_FLOAT} AND {MAX_FLOAT} THEN {there}{otherwise} END"

    def value(position: float) -> str:
        found = float(one.encode(np.array([position]), code)[0])
        return "NULL" if np.isnan(found) else number(found)

    groups: dict[str, list[str]] = {}  # categories by their values
    for position, kind in enumerate(one.categories):
        groups.setdefault(value(position), []).append(literal(kind))
    text = "".join(f" WHEN {column} IN ({', '.join(kinds)}) THEN {found}" for found, kinds in groups.items())
    if one.fill is not None or one.missing:
        filled = np.nan if one.fill is None else float(one.categories.index(one.fill))
        text += f" WHEN {column} IS NULL THEN {value(filled)}"
    if one.unseen is not None:
        text += f" WHEN {column} IS NOT NULL THEN {value(one.unseen)}"
    return f"CASE{text} END"


def _condition(writer: Writer, program: Program, formulas: Formulas) -> str:
    """Write that `predict` rejects no input of a row, of which some encoded number would be NULL; "" if that holds."""
    schema = program.schema
    wanted = [(j, 0) for j in schema.used]
    if program.lags is not None:  # only the past values that are used must be known
        wanted = [(c.input, c.lag) for c in (node.arguments[0] for node in cells_of(formulas.outputs))]
    checks = []
    for j, lag in dict.fromkeys(wanted):
        one = schema.inputs[j]
        optional = bool(one.missing) and one.fill is None
        if one.unseen is None or not (one.missing or one.fill is not None):  # else any value is valid
            cell = Cell(j, MISSING if optional else int(schema.categories[schema.columns == j][0]), lag)
            checks.append(f"{writer.cell(cell)} IS NOT NULL")
    while len(checks) > CHUNK:  # in groups if there are many
        checks = [f"({' AND '.join(checks[i : i + CHUNK])})" for i in range(0, len(checks), CHUNK)]
    return " AND ".join(checks)


def _levels(
    writer: Writer, kept: list[str], order: list[str], tested: list[tuple[str, str]]
) -> Iterator[list[tuple[str, str]]]:
    """Yield names and values of the columns of each query in the chain, with an empty name for those passed on.

    Columns in `tested` depend on the encoded inputs.
    """
    cells = writer.cells
    passed = [("", f"t.{identifier(name)}") for name in dict.fromkeys([*kept, *order])]
    now = [(name, encoded(writer.inputs[c.input], c.code)) for c, name in cells.items() if not c.lag]
    yield [*passed, *now] or [("one", "1")]
    past = []
    for cell, name in cells.items():
        if cell.lag:  # the first row is repeated before it
            column = cells[cell._replace(lag=0)]
            before = f"LAG({column}, {cell.lag}) OVER history ELSE FIRST_VALUE({column}) OVER history"
            past.append((name, f"CASE WHEN ROW_NUMBER() OVER history > {cell.lag} THEN {before} END"))
    if past:
        yield [("", "*"), *past]
    for level in range(max([one.level for one in writer.definitions] + [0] * bool(tested), default=-1) + 1):
        own = [(one.name, one.text) for one in writer.definitions if one.level == level]
        yield [("", "*"), *(tested if level == 0 else []), *own]


def _listed(columns: Sequence[str], notes: Sequence[str] = ()) -> str:
    """Write the columns of a query, with comments."""
    lines = []
    for i, column in enumerate(columns):
        note = printable(notes[i]) if notes else ""
        lines.append(f"    {column}{',' * (i + 1 < len(columns))}{f'  -- {note}' * bool(note)}\n")
    return "SELECT\n" + "".join(lines)


def _results(program: Program, texts: list[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values of the results, given the outputs and the probabilities."""
    labels, q = program.labels, len(program.linear.intercept)
    if labels is None:
        yield from ((f"prediction_{i + 1}" if q > 1 else "prediction", text) for i, text in enumerate(texts))
        return
    yield "label", _label(labels.classes, texts[:q])
    yield from ((f"score_{labels.classes[i]}" if q > 1 else "score", text) for i, text in enumerate(texts[:q]))
    yield from ((f"probability_{labels.classes[i]}", text) for i, text in enumerate(texts[q:]))


def _label(classes: Sequence[Any], scores: Sequence[str]) -> str:
    """Write the choice of a class: the second one where a single score is not negative, else that of the largest."""
    if len(scores) == 1:
        no, yes = map(literal, classes)
        return f"CASE WHEN {scores[0]} >= 0 THEN {yes} WHEN {scores[0]} < 0 THEN {no} END"
    text = "CASE"
    for i, label in enumerate(classes):
        largest = " AND ".join(f"{scores[i]} >= {other}" for other in scores[i + 1 :])
        text += f" WHEN {largest or f'{scores[i]} IS NOT NULL'} THEN {literal(label)}"
    return f"{text} END"
