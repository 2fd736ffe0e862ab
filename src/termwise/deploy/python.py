"""A model as a module of Python that imports nothing but `math`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from termwise._numerics import FLOAT64, LOG_RESPONSE_MAX
from termwise.basis.expressions import SourceWriter
from termwise.deploy.program import Program
from termwise.deploy.steps import Concatenate, Lags, LevelEffects, PairProducts, ProgramStep

LINKS = {  # expressions of the list of outputs
    "log": f"[math.exp(min(v, {LOG_RESPONSE_MAX[FLOAT64]!r})) for v in z]",
    "sorted": "sorted(z)",
}


def source(program: Program, simulation: Any = False) -> str:
    """Return a module with `predict` and, of a classifier, `decision_function` and `predict_proba`.

    It has a class `Simulation` too with `simulation=True`, or with the lowest and the highest output.
    """
    schema, linear = program.schema, program.linear
    what = "classes" if program.labels else "targets"
    terms = [name.encode("unicode_escape").decode().replace('"', "'") for name in linear.names]
    listed = "".join(f"    {name}\n" for name in terms) or "    none: the prediction is constant\n"
    title = f"A model written by termwise: {what} from {len(schema.inputs)} inputs."
    listed_inputs = [(one.name, one.categories, one.fill, bool(one.missing), one.unseen) for one in schema.inputs]
    inputs = "".join(f"    {one!r},\n" for one in listed_inputs)
    columns = _table("_columns", np.column_stack([schema.columns, schema.categories]))
    lags = [isinstance(step, Lags) for step in program.steps]
    names = [f"_step_{i + 1}" for i in range(len(program.steps))]
    steps = [write(step, name) for step, name in zip(program.steps, names, strict=True)]
    tables = {"weights": linear.weights, "intercept": linear.intercept}
    combine = ["y = [sum(v * w for v, w in zip(z, row)) + b for row, b in zip(_linear_weights, _linear_intercept)]"]
    if linear.limits is not None:
        tables["limits"] = linear.limits.T
        combine.append("y = [min(max(v, low), high) for v, (low, high) in zip(y, _linear_limits)]")
    start, split = "z = _read(x)", 0
    if any(lags):  # steps before the lags are applied to every row
        row, split = "_read(row)", lags.index(True)
        for name in names[:split]:
            row = f"{name}({row})"
        start = f"z = [{row} for row in x]"
    chain = [start, *(f"z = {name}(z)" for name in names[split:]), "return _linear(z)"]
    parts = [
        f'"""{title}\n\nIts terms:\n\n{listed}"""\n\nimport math',
        f"INPUTS = (  # name, categories, replacement if missing, may it be missing, place if unknown\n{inputs})\n"
        f"{columns}  # number of an input, and of a category; negative: see _encode",
        FLOAT,
        NUMBER_OR_NAN if any(lags) else NUMBER,
        READ.replace("$check", "" if any(lags) else CHECK),
        *steps,
        _step("_linear", [*combine, "return y"], **tables),
        _function("_outputs", chain, argument="x"),
        *_predictions(program),
        *([] if simulation is False else [_simulation(program, simulation)]),
    ]
    return "\n\n\n".join(parts) + "\n"


def _table(name: str, values: Any) -> str:
    """Write an array, row by row, as a constant."""
    array = np.asarray(values)
    if array.ndim < 2:
        return f"{name} = {tuple(array.tolist())!r}"
    rows = "".join(f"    {tuple(row)!r},\n" for row in array.tolist())
    return f"{name} = (\n{rows})" if rows else f"{name} = ()"


def _function(name: str, lines: Iterable[str], doc: str = "", argument: str = "z") -> str:
    """Write a function."""
    text = [f'"""{doc}"""'] if doc else []
    return "\n".join([f"def {name}({argument}):", *(f"    {line}" for line in [*text, *lines])])


def _step(name: str, lines: Iterable[str], **tables: Any) -> str:
    """Write the tables and the function of a step, whose names all begin with that of the step."""
    constants = "\n".join(_table(f"{name}_{key}", values) for key, values in tables.items())
    return "\n\n\n".join([constants, _function(name, lines)])


# -- steps -------------------------------------------------------------------------------------------------------------


class ExpressionWriter(SourceWriter):
    """Writes the expression of a step, as a loop over the rows of its tables."""

    operations: ClassVar[Mapping[str, str]] = {
        **SourceWriter.operations,
        "exp": "math.exp({0})",
        "log": "math.log({0})",
        "sqrt": "math.sqrt({0})",
        "sin": "(math.sin({0}) if math.isfinite({0}) else math.nan)",
        "expit": "(1 / (1 + math.exp(-{0})) if {0} > -709 else 0.0)",  # math.exp raises where it overflows
        "maximum": "max({0}, {1})",
        "minimum": "min({0}, {1})",
        "where": "({1} if {0} else {2})",
        "isnan": "math.isnan({0})",
        "equal": "({0} == {1})",
        "greater": "({0} > {1})",
    }
    reductions: ClassVar[Mapping[str, tuple[str, str]]] = {
        "sum_squares": ("0.0", "{total} += {0} * {0}"),
        "dot": ("0.0", "{total} += {0} * {1}"),
        "power_product": ("1.0", "{total} *= math.prod([{0}] * {1})"),  # `**` raises where it overflows
    }
    constant = changing = "{name} = {value}"

    def __init__(self, step: ProgramStep, name: str) -> None:
        super().__init__()
        self.step, self.name, self.tables = step, name, step.tables
        rows = [n for n, table in self.tables.items() if table.ndim == 2 or not step.is_per_term(n)]
        self.per_input = {"z", *rows}  # variables with a value for every input

    def variable(self, name: str) -> str:
        """Write the name of the current entry of a table or of z."""
        if name == "z" and not self.inside:
            return "z[columns]" if "columns" in self.tables else "z_k"
        return f"{name}_j" if self.inside and name in self.per_input else name

    def number(self, value: float) -> str:
        """Write a constant."""
        return repr(value)

    def loop(self, names: list[str], body: list[str]) -> list[str]:
        """Write a loop over the inputs and their parameters; rows of matrices are named by the loop over terms."""
        names = [n for n in names if n in self.per_input]
        rows = [n if n == "z" or self.tables[n].ndim == 2 else f"{self.name}_{n}" for n in names]
        return self._zip([f"{n}_j" for n in names], rows, body)

    def all_values(self, target: str) -> list[str]:
        """Write the loop that appends all values to a list."""
        before, value = self.write(self.step.expression)
        names = [n for n in self.tables if self.step.is_per_term(n)]
        rows = [f"{self.name}_{n}" for n in names]
        if not self.step.sums and "columns" not in self.tables:
            names, rows = ["z_k", *names], ["z", *rows]
        return [f"{target} = []", *self._zip(names, rows, [*before, f"{target}.append({value})"])]

    def _zip(self, names: list[str], rows: list[str], body: list[str]) -> list[str]:
        several = f"zip({', '.join(rows)})" if len(rows) > 1 else rows[0]
        return [f"for {', '.join(names)} in {several}:", *(f"    {line}" for line in body)]


def write(step: Any, name: str) -> str:
    """Return a step as a function from a list of numbers to a list of numbers."""
    match step:
        case PairProducts():
            lines = [
                *ExpressionWriter(step, name).all_values("singles"),
                "singles.append(1.0)  # for terms that have no second factor",
                f"return [singles[i] * singles[j] for i, j in zip({name}_first, {name}_second)]",
            ]
            return _step(name, lines, **step.tables, first=step.first, second=step.second)
        case Lags():
            lines = [
                f"past = [z[max(len(z) - 1 - lag, 0)][i] for i, lag in zip({name}_columns, {name}_lags)]",
                "if not all(map(math.isfinite, past)):",
                '    raise ValueError("the past values used by the prediction must be finite numbers")',
                "return past",
            ]
            return _step(name, lines, **vars(step))
        case LevelEffects():
            each = f"zip({name}_columns, {name}_sizes, {name}_offsets)"
            lines = [
                "terms = []",
                f"for i, size, start in {each}:",
                f"    effect = {name}_effects[start + int(z[i])] if 0 <= z[i] < size else 0.0",
                "    terms.append(effect if size else z[i])",
                "return terms",
            ]
            return _step(name, lines, **vars(step) | {"offsets": step.offsets})
        case Concatenate():
            inner, lines = [], ["terms = []"]
            for p, part in enumerate(step.parts):
                lines.append(f"part = [z[i] for i in {name}_columns_{p}]")
                for i, one in enumerate(part.steps):
                    inner.append(write(one, f"{name}_{p}_{i}"))
                    lines.append(f"part = {name}_{p}_{i}(part)")
                lines.append("terms += part")
            lines.append(f"return [terms[i] for i in {name}_order]")
            columns = {f"columns_{p}": part.columns for p, part in enumerate(step.parts)}
            return "\n\n\n".join([*inner, _step(name, lines, **columns, order=step.order)])
    return _step(name, [*ExpressionWriter(step, name).all_values("terms"), "return terms"], **step.tables)


# -- the module --------------------------------------------------------------------------------------------------------


READ = '''def _read(x):
    """Return one sample as numbers: it is a sequence in the order of INPUTS, or a dict by their names."""
    if hasattr(x, "keys"):
$check        x = [x[one[0]] if one[0] in x else None for one in INPUTS]
    if len(x) != len(INPUTS):
        raise ValueError(f"a sample must have {len(INPUTS)} values, got {len(x)}")
    return [_encode(_value(x[number], *INPUTS[number]), code, INPUTS[number][1]) for number, code in _columns]


def _is_missing(value):
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # neither NA of pandas nor a comparison of arrays has a truth value
        return not hasattr(value, "__len__")


def _value(value, name, categories, fill, missing, unseen):
    if _is_missing(value):
        value = fill
    if value is None and missing:
        return math.nan
    if categories is None:
        return _number(name, value)
    if value is None or (value not in categories and unseen is None):
        raise ValueError(f"{name} must be one of {categories}, got {value!r}")
    return float(categories.index(value) if value in categories else unseen)


def _encode(value, code, categories):
    if code == -1:
        return value
    if code == -3:  # the number of a category, with missing values as the last one
        return float(len(categories)) if value != value else value
    return float(value != value if code == -2 else value == (-1 if code == -4 else code))'''

# rows of a series are not checked: their newest value may be unknown
CHECK = """        absent = [INPUTS[j][0] for j in sorted({j for j, _ in _columns}) if INPUTS[j][0] not in x]
        if absent:
            raise ValueError(f"a sample must have the inputs the model uses, got none called {', '.join(absent)}")
"""

FLOAT = """def _float(value):
    if value is None or isinstance(value, (str, bytes)):
        return math.nan
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return math.nan"""

NUMBER = """def _number(name, value):
    if not math.isfinite(_float(value)):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)"""

# the newest value of a series may be unknown: the other ones are checked where they are used
NUMBER_OR_NAN = """def _number(name, value):
    return _float(value)"""


def _predictions(program: Program) -> list[str]:
    """Write the public functions."""
    lags, labels = program.lags, program.labels
    sample = "one sample: its inputs in order, or a dict by their names."
    if lags is not None:
        sample = f"the last rows of a table, oldest first: the newest is predicted, from {lags.longest} before it."
    value = "return _outputs(x)[0]" if program.linear.one_output else "return _outputs(x)"
    if labels is None and program.link == "identity":
        return [_function("predict", [value], f"Return the prediction for {sample}", "x")]
    if labels is None:
        lines = [f"z = {LINKS[program.link]}", "return z[0]" if program.linear.one_output else "return z"]
        return [_function("predict", ["z = _outputs(x)", *lines], f"Return the prediction for {sample}", "x")]
    two = len(labels.classes) == 2
    choice = "return CLASSES[z[0] >= 0]" if two else "return CLASSES[z.index(max(z))]"
    functions = [
        f"CLASSES = {tuple(labels.classes)!r}",
        _function("decision_function", [value], f"Return the output for {sample}", "x"),
        _function("predict", ["z = _outputs(x)", choice], f"Return the class of {sample}", "x"),
    ]
    if labels.sharpness is not None:
        lines = [
            "z = _outputs(x)",
            *["z = [-z[0], z[0]]"] * two,
            f"odds = [math.exp({labels.sharpness!r} * (v - max(z))) for v in z]",
            "return [v / sum(odds) for v in odds]",
        ]
        functions.append(_function("predict_proba", lines, f"Return the probability of each class for {sample}", "x"))
    return functions


def _simulation(program: Program, simulation: Any) -> str:
    """Write the class of a simulation."""
    past, output, low, high = program.simulation_settings(simulation)
    d = len(program.schema.inputs)
    value = "predict([*self.rows, row])"
    value = f"max({low!r}, {value})" if np.isfinite(low) else value
    value = f"min({value}, {high!r})" if np.isfinite(high) else value
    return f'''class Simulation:
    """A free run: every step feeds its prediction back as a past value.

    It begins with at least {past} past rows, oldest first, each a sequence in the order of INPUTS.
    """

    def __init__(self, past):
        if len(past) < {past}:
            raise ValueError(f"past must have at least {past} rows, got {{len(past)}}")
        self.rows = [list(row) for row in past][len(past) - {past} :]

    def step(self, inputs=()):
        """Return the next output, given the {d - 1} inputs other than the output, in their order."""
        row = list(inputs)
        if len(row) != {d - 1}:
            raise ValueError(f"inputs must have {d - 1} values, got {{len(row)}}")
        row.insert({output}, None)
        row[{output}] = {value}
        self.rows = [*self.rows, row][1:]
        return row[{output}]'''
