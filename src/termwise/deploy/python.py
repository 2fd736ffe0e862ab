"""A model as a module of Python that imports nothing but `math`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from typing import Any

import numpy as np

from termwise.deploy.chain import Beside
from termwise.deploy.outputs import Linear
from termwise.deploy.program import Program
from termwise.deploy.steps import (
    Anova,
    Clip,
    Lags,
    Logistic,
    Powers,
    Radial,
    Rotate,
    Standardise,
    Step,
    Stretch,
    Waves,
)

KERNELS = {
    "gaussian": "math.exp(-r)",
    "multiquadric": "math.sqrt(1 + r)",
    "inverse_multiquadric": "1 / math.sqrt(1 + r)",
    "cauchy": "1 / (1 + r)",
}


def source(program: Program) -> str:
    """Return the source of a module with `predict` and, of a classifier, `decision_function` and `predict_proba`."""
    names = [f"_step_{i + 1}" for i in range(len(program.steps))]
    steps = [written(step, name) for step, name in zip(program.steps, names, strict=True)]
    parts = [_opening(program), _reading(program), *steps, _linear(program.linear), _chain(program, names)]
    return "\n\n\n".join([*parts, _answers(program)]) + "\n"


def table(name: str, values: Any) -> str:
    """Write an array, row by row, as a constant."""
    array = np.asarray(values)
    if array.ndim < 2:
        return f"{name} = {_tuple(array.tolist())}"
    rows = "".join(f"    {_tuple(row)},\n" for row in array.tolist())
    return f"{name} = (\n{rows})" if rows else f"{name} = ()"


def tables(prefix: str, **values: Any) -> str:
    """Write several arrays."""
    return "\n".join(table(f"{prefix}_{name}", value) for name, value in values.items())


def _tuple(values: Iterable[Any]) -> str:
    return repr(tuple(values))


def function(name: str, lines: Iterable[str], doc: str = "", argument: str = "z") -> str:
    """Write a function."""
    text = [f'"""{doc}"""'] if doc else []
    return "\n".join([f"def {name}({argument}):", *(f"    {line}" for line in [*text, *lines])])


def defined(name: str, lines: Iterable[str], **arrays: Any) -> str:
    """Write the constants and the function of a step, whose names all begin with that of the step."""
    return "\n\n\n".join([tables(name, **arrays), function(name, lines)])


# -- steps -------------------------------------------------------------------------------------------------------------


@singledispatch
def written(step: Step, name: str) -> str:
    """Return a step as a function from a list of numbers to a list of numbers."""
    raise NotImplementedError(type(step).__name__)


@written.register
def _(step: Standardise, name: str) -> str:
    line = f"return [(v - c) / s for v, c, s in zip(z, {name}_center, {name}_scale)]"
    return defined(name, [line], center=step.center, scale=step.scale)


@written.register
def _(step: Stretch, name: str) -> str:
    line = f"return [v * f + o for v, f, o in zip(z, {name}_factor, {name}_offset)]"
    return defined(name, [line], factor=step.factor, offset=step.offset)


@written.register
def _(step: Clip, name: str) -> str:
    line = f"return [min(max(v, a), b) for v, a, b in zip(z, {name}_low, {name}_high)]"
    return defined(name, [line], low=step.low, high=step.high)


@written.register
def _(step: Rotate, name: str) -> str:
    lines = [
        f"z = [v - c for v, c in zip(z, {name}_center)]",
        f"return [sum(v * m for v, m in zip(z, column)) for column in {name}_columns]",
    ]
    return defined(name, lines, center=step.center, columns=step.matrix.T)


@written.register
def _(step: Radial, name: str) -> str:
    lines = [
        "terms = []",
        f"for center in {name}_centers:",
        "    r = 0.0",
        f"    for v, c, w in zip(z, center, {name}_widths):",
        "        u = (v - c) / w",
        "        r += u * u",
        f"    terms.append({KERNELS[step.kernel]})",
        "return terms",
    ]
    return defined(name, lines, widths=step.widths, centers=step.centers)


@written.register
def _(step: Anova, name: str) -> str:
    lines = [
        "singles = []",
        f"for i, place, unit, bump in zip({name}_columns, {name}_places, {name}_units, {name}_bumps):",
        "    u = (z[i] - place) / unit",
        "    singles.append(math.exp(-u * u) if bump else u)",
        "singles.append(1.0)  # for terms that have no second factor",
        f"return [singles[i] * singles[j] for i, j in zip({name}_first, {name}_second)]",
    ]
    return defined(name, lines, **vars(step))


@written.register
def _(step: Waves, name: str) -> str:
    each = ", ".join(f"{name}_{field}" for field in ("columns", "origins", "periods", "frequencies", "phases"))
    lines = [f"waves = zip({each})", "return [math.sin((z[i] - o) / p * f + phase) for i, o, p, f, phase in waves]"]
    arrays = {key: value for key, value in vars(step).items() if key != "harmonics"}
    return defined(name, lines, frequencies=step.frequencies, **arrays)


@written.register
def _(step: Logistic, name: str) -> str:
    lines = [
        "terms = []",
        f"for direction, offset in zip({name}_directions, {name}_offsets):",
        "    t = sum(v * b for v, b in zip(z, direction)) - offset",
        "    terms.append(1 / (1 + math.exp(t)) if t < 709 else 0.0)",
        "return terms",
    ]
    return defined(name, lines, **vars(step))


@written.register
def _(step: Powers, name: str) -> str:
    line = f"return [math.prod(v**p for v, p in zip(z, powers) if p) for powers in {name}_powers]"
    return defined(name, [line], powers=step.powers)


@written.register
def _(step: Lags, name: str) -> str:
    lines = [
        f"past = [z[max(len(z) - 1 - lag, 0)][i] for i, lag in zip({name}_columns, {name}_lags)]",
        "if not all(map(math.isfinite, past)):",
        '    raise ValueError("the past values that the prediction rests on must be there")',
        "return past",
    ]
    return defined(name, lines, **vars(step))


@written.register
def _(step: Beside, name: str) -> str:
    inner, lines = [], ["terms = []"]
    for p, part in enumerate(step.parts):
        lines.append(f"part = [z[i] for i in {name}_columns_{p}]")
        for i, one in enumerate(part.steps):
            inner.append(written(one, f"{name}_{p}_{i}"))
            lines.append(f"part = {name}_{p}_{i}(part)")
        lines.append("terms += part")
    lines.append(f"return [terms[i] for i in {name}_order]")
    columns = {f"columns_{p}": part.columns for p, part in enumerate(step.parts)}
    return "\n\n\n".join([*inner, defined(name, lines, **columns, order=step.order)])


def _linear(linear: Linear) -> str:
    line = "return [sum(v * w for v, w in zip(z, row)) + b for row, b in zip(_linear_weights, _linear_intercept)]"
    return defined("_linear", [line], weights=linear.weights, intercept=linear.intercept)


# -- the module --------------------------------------------------------------------------------------------------------


def _opening(program: Program) -> str:
    what = "classes" if program.labels else "targets"
    names = [name.encode("unicode_escape").decode().replace('"', "'") for name in program.linear.names]
    terms = "".join(f"    {name}\n" for name in names) or "    none: it is the same everywhere\n"
    first = f"A model written by termwise: {what} from {len(program.reading.inputs)} inputs."
    return f'"""{first}\n\nIts terms:\n\n{terms}"""\n\nimport math'


READ = '''def _read(x):
    """Return one sample as numbers: it is a sequence in the order of INPUTS, or a dict by their names."""
    if hasattr(x, "keys"):
        x = [x[name] if name in x else None for name, _, _ in INPUTS]
    if len(x) != len(INPUTS):
        raise ValueError(f"a sample must have {len(INPUTS)} values, got {len(x)}")
    z = []
    for number, category in _columns:
        name, categories, fill = INPUTS[number]
        value = x[number]
        if value is None or value != value:
            value = fill
        if categories is None:
            z.append(_number(name, value))
        elif value in categories:
            z.append(float(value == categories[category]))
        else:
            raise ValueError(f"{name} must be one of {categories}, got {value!r}")
    return z'''

NUMBER = """def _number(name, value):
    if value is None or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)"""

# of a series the newest value is not known yet: whether the others are there is looked at where they are used
NUMBER_OR_HOLE = """def _number(name, value):
    return math.nan if value is None else float(value)"""


def _reading(program: Program) -> str:
    inputs = "".join(f"    {(one.name, one.categories, one.fill)!r},\n" for one in program.reading.inputs)
    columns = table("_columns", np.column_stack([program.reading.sources, program.reading.categories]))
    constants = f"INPUTS = (  # name, categories, what stands in for a missing value\n{inputs})\n"
    constants += f"{columns}  # number of an input, and of a category or -1"
    return "\n\n\n".join([constants, NUMBER if program.lags is None else NUMBER_OR_HOLE, READ])


def _chain(program: Program, names: list[str]) -> str:
    """Write the function that gives all outputs of a sample, or of the newest of some rows."""
    lags = [isinstance(step, Lags) for step in program.steps]
    cut = lags.index(True) if any(lags) else 0
    read = "_read(row)"
    for name in names[:cut]:
        read = f"{name}({read})"
    lines = [f"z = [{read} for row in x]"] if any(lags) else ["z = _read(x)"]
    return function(
        "_outputs", [*lines, *(f"z = {name}(z)" for name in names[cut:]), "return _linear(z)"], argument="x"
    )


def _answers(program: Program) -> str:
    """Write the public functions."""
    lags, labels = program.lags, program.labels
    sample = "one sample: its inputs in order, or a dict by their names."
    if lags is not None:
        sample = f"the last rows of a table, oldest first: the newest is predicted, from {lags.longest} before it."
    value = "return _outputs(x)[0]" if program.linear.one_output else "return _outputs(x)"
    if labels is None:
        return function("predict", [value], f"Return the prediction for {sample}", "x")
    two = len(labels.classes) == 2
    choice = "return CLASSES[z[0] >= 0]" if two else "return CLASSES[z.index(max(z))]"
    functions = [
        f"CLASSES = {_tuple(labels.classes)}",
        function("decision_function", [value], f"Return the output for {sample}", "x"),
        function("predict", ["z = _outputs(x)", choice], f"Return the class of {sample}", "x"),
    ]
    if labels.sharpness is not None:
        lines = [
            "z = _outputs(x)",
            *["z = [-z[0], z[0]]"] * two,
            f"odds = [math.exp({labels.sharpness!r} * (v - max(z))) for v in z]",
            "return [v / sum(odds) for v in odds]",
        ]
        functions.append(function("predict_proba", lines, f"Return the probability of each class for {sample}", "x"))
    return "\n\n\n".join(functions)
