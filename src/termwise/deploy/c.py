"""A model as one file of C99 that needs `<math.h>` alone: constant tables, no allocation, no state."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from termwise._checks import check_choice
from termwise.deploy.chain import Beside
from termwise.deploy.inputs import Input, Reading
from termwise.deploy.outputs import Labels, Linear
from termwise.deploy.precision import shortened
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
    "gaussian": "$exp(-r)",
    "multiquadric": "$sqrt(1 + r)",
    "inverse_multiquadric": "1 / $sqrt(1 + r)",
    "cauchy": "1 / (1 + r)",
}
WIDE = 116  # columns of the file


@dataclass(frozen=True)
class Dialect:
    """The type of all numbers, and what the names in the file begin with."""

    real: str
    name: str

    def number(self, value: float) -> str:
        """Write a number so that it is read back exactly, in float rounded once."""
        if self.real == "double":
            return repr(float(value))
        return f"{float(str(shortened(value)))!r}f"

    def array(self, name: str, values: Any) -> str:
        """Write a table of numbers, rows one after the other; C has no empty ones."""
        flat = np.ravel(values)
        kind = self.real if flat.dtype.kind == "f" else "int"
        shown = [self.number(v) if kind == self.real else str(v) for v in flat.tolist()] or ["0"]
        head, body = f"static const {kind} {self.name}_{name}[{len(shown)}] = ", ", ".join(shown)
        if len(head + body) < WIDE:
            return f"{head}{{{body}}};\n"
        return f"{head}{{\n{textwrap.fill(body, WIDE, initial_indent='    ', subsequent_indent='    ')}\n}};\n"

    def function(self, name: str, lines: str, **values: Any) -> str:
        """Write the tables and the function of a step; `@x` stands for the table x in its lines."""
        text = re.sub(r"@(\w+)", rf"{self.name}_{name}_\1", textwrap.dedent(lines).strip("\n"))
        tables = "".join(self.array(f"{name}_{key}", value) for key, value in values.items())
        head = f"static void {self.name}_{name}(const {self.real} *z, {self.real} *g)"
        return f"{tables}\n{head}\n{{\n    (void)z;\n{textwrap.indent(text, '    ')}\n}}\n"

    def finished(self, text: str) -> str:
        """Put in the type for `$real` and, for `$exp` and so on, the functions of its precision."""
        text = text.replace("$real", self.real)
        return re.sub(r"\$(\w+)\(", rf"\1{'f' * (self.real == 'float')}(", text)


def source(program: Program, dtype: str = "float64", name: str = "model") -> str:
    """Return the file.

    Parameters
    ----------
    program : Program
        The model.
    dtype : {"float64", "float32"}, default="float64"
        Precision of all numbers: double or float.
    name : str, default="model"
        What the names of all functions and tables begin with.
    """
    check_choice("dtype", dtype, ["float64", "float32"], remedy="double or float")
    if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z]\w*", name, flags=re.ASCII)):
        raise ValueError(f"name must be a name of C, got {name!r}: letters, digits and underscores, a letter first.")
    c = Dialect("double" if dtype == "float64" else "float", name)
    steps = [written(step, c, f"step_{i + 1}") for i, step in enumerate(program.steps)]
    parts = [_reading(program, c), *steps, _linear(program.linear, c), _outputs(program, c), _answers(program, c)]
    return _opening(program, c) + "\n#include <math.h>\n\n" + c.finished("\n".join(parts))


# -- steps -------------------------------------------------------------------------------------------------------------


@singledispatch
def written(step: Step, c: Dialect, name: str) -> str:
    """Return a step as a function from numbers z to numbers g."""
    raise NotImplementedError(type(step).__name__)


@written.register
def _(step: Standardise, c: Dialect, name: str) -> str:
    lines = f"for (int i = 0; i < {step.n_terms}; ++i) g[i] = (z[i] - @center[i]) / @scale[i];"
    return c.function(name, lines, center=step.center, scale=step.scale)


@written.register
def _(step: Stretch, c: Dialect, name: str) -> str:
    lines = f"for (int i = 0; i < {step.n_terms}; ++i) g[i] = z[i] * @factor[i] + @offset[i];"
    return c.function(name, lines, factor=step.factor, offset=step.offset)


@written.register
def _(step: Clip, c: Dialect, name: str) -> str:
    lines = f"""
        for (int i = 0; i < {step.n_terms}; ++i)
            g[i] = z[i] < @low[i] ? @low[i] : z[i] > @high[i] ? @high[i] : z[i];
    """
    return c.function(name, lines, low=step.low, high=step.high)


@written.register
def _(step: Rotate, c: Dialect, name: str) -> str:
    lines = f"""
        for (int k = 0; k < {step.n_terms}; ++k) {{
            $real sum = 0;
            for (int j = 0; j < {step.n_inputs}; ++j) sum += (z[j] - @center[j]) * @columns[k * {step.n_inputs} + j];
            g[k] = sum;
        }}
    """
    return c.function(name, lines, center=step.center, columns=step.matrix.T)


@written.register
def _(step: Radial, c: Dialect, name: str) -> str:
    lines = f"""
        for (int k = 0; k < {step.n_terms}; ++k) {{
            $real r = 0;
            for (int j = 0; j < {step.n_inputs}; ++j) {{
                const $real u = (z[j] - @centers[k * {step.n_inputs} + j]) / @widths[j];
                r += u * u;
            }}
            g[k] = {KERNELS[step.kernel]};
        }}
    """
    return c.function(name, lines, widths=step.widths, centers=step.centers)


@written.register
def _(step: Anova, c: Dialect, name: str) -> str:
    lines = f"""
        $real singles[{max(1, len(step.columns))}];
        for (int i = 0; i < {len(step.columns)}; ++i) {{
            const $real u = (z[@columns[i]] - @places[i]) / @units[i];
            singles[i] = @bumps[i] ? $exp(-u * u) : u;
        }}
        for (int k = 0; k < {step.n_terms}; ++k) {{
            g[k] = singles[@first[k]];
            if (@second[k] >= 0) g[k] *= singles[@second[k]];
        }}
    """
    return c.function(name, lines, **vars(step))


@written.register
def _(step: Waves, c: Dialect, name: str) -> str:
    lines = f"""
        for (int k = 0; k < {step.n_terms}; ++k)
            g[k] = $sin((z[@columns[k]] - @origins[k]) / @periods[k] * @frequencies[k] + @phases[k]);
    """
    arrays = {key: value for key, value in vars(step).items() if key != "harmonics"}
    return c.function(name, lines, frequencies=step.frequencies, **arrays)


@written.register
def _(step: Logistic, c: Dialect, name: str) -> str:
    lines = f"""
        for (int k = 0; k < {step.n_terms}; ++k) {{
            $real sum = 0;
            for (int j = 0; j < {step.n_inputs}; ++j) sum += z[j] * @directions[k * {step.n_inputs} + j];
            g[k] = 1 / (1 + $exp(sum - @offsets[k]));
        }}
    """
    return c.function(name, lines, **vars(step))


@written.register
def _(step: Powers, c: Dialect, name: str) -> str:
    lines = f"""
        for (int k = 0; k < {step.n_terms}; ++k) {{
            g[k] = 1;
            for (int j = 0; j < {step.n_inputs}; ++j) {{
                const int power = @powers[k * {step.n_inputs} + j];
                if (power) g[k] *= $pow(z[j], ($real)power);
            }}
        }}
    """
    return c.function(name, lines, powers=step.powers)


@written.register
def _(step: Lags, c: Dialect, name: str) -> str:
    """Here z is a window of rows, the newest last."""
    lines = f"""
        for (int k = 0; k < {step.n_terms}; ++k)
            g[k] = z[({step.longest} - @lags[k]) * {step.n_inputs} + @columns[k]];
    """
    return c.function(name, lines, **vars(step))


@written.register
def _(step: Beside, c: Dialect, name: str) -> str:
    inner, lines = [], [f"$real all[{sum(part.n_terms for part in step.parts) or 1}];"]
    start = 0
    for p, part in enumerate(step.parts):
        sizes = [len(part.columns), *(one.n_terms for one in part.steps)]
        inner += [written(one, c, f"{name}_{p}_{i}") for i, one in enumerate(part.steps)]
        lines += ["{", f"    $real a0[{sizes[0] or 1}];"]  # a constant needs no columns
        lines += [f"    for (int i = 0; i < {sizes[0]}; ++i) a0[i] = z[@columns_{p}[i]];"]
        for i, size in enumerate(sizes[1:]):
            lines += [f"    $real a{i + 1}[{size}];", f"    {c.name}_{name}_{p}_{i}(a{i}, a{i + 1});"]
        lines += [f"    for (int i = 0; i < {sizes[-1]}; ++i) all[{start} + i] = a{len(sizes) - 1}[i];", "}"]
        start += sizes[-1]
    lines += [f"for (int k = 0; k < {step.n_terms}; ++k) g[k] = all[@order[k]];"]
    columns = {f"columns_{p}": part.columns for p, part in enumerate(step.parts)}
    return "\n".join([*inner, c.function(name, "\n".join(lines), **columns, order=step.order)])


def _linear(linear: Linear, c: Dialect) -> str:
    q, k = linear.weights.shape
    lines = f"""
        for (int i = 0; i < {q}; ++i) {{
            $real sum = 0;
            for (int k = 0; k < {k}; ++k) sum += z[k] * @weights[i * {k} + k];
            g[i] = sum + @intercept[i];
        }}
    """
    return c.function("linear", lines, weights=linear.weights, intercept=linear.intercept)


# -- the file ----------------------------------------------------------------------------------------------------------


def _reading(program: Program, c: Dialect) -> str:
    """Write how inputs x become numbers z: returns 0, or the number, from 1, of an input that is not there."""
    reading = program.reading
    fills = ", ".join("NAN" if fill is None else c.number(fill) for fill in map(_code_of_fill, reading.inputs))
    check = "        if (!isfinite(value)) return j + 1;\n" if program.lags is None else ""
    category = ""
    tables = c.array("inputs", reading.sources) + f"static const {c.real} {c.name}_fills[] = {{{fills}}};\n"
    if (reading.categories >= 0).any():
        counts = [0 if one.categories is None else len(one.categories) for one in reading.inputs]
        tables += c.array("categories", reading.categories) + c.array("counts", np.array(counts))
        category = (
            f"        if ({c.name}_counts[j] > 0) {{\n"
            f"            if (!(value >= 0 && value < {c.name}_counts[j] && value == $floor(value))) return j + 1;\n"
            f"            value = value == {c.name}_categories[i];\n"
            "        }\n"
        )
    return (
        f"{tables}\nstatic int {c.name}_read(const $real *x, $real *z)\n{{\n    (void)x;\n    (void)z;\n"
        f"    for (int i = 0; i < {len(reading.sources)}; ++i) {{\n"
        f"        const int j = {c.name}_inputs[i];\n"
        f"        $real value = isnan(x[j]) ? {c.name}_fills[j] : x[j];\n{category}{check}"
        "        z[i] = value;\n    }\n    return 0;\n}\n"
    )


def _code_of_fill(one: Input) -> float | None:
    """What stands in for a missing value, categories by their numbers."""
    return one.fill if one.categories is None or one.fill is None else float(one.categories.index(one.fill))


def _outputs(program: Program, c: Dialect) -> str:
    """Write the function that takes inputs through the chain."""
    sizes = [len(program.reading.sources), *(step.n_terms for step in program.steps)]
    lines: list[str] = []
    lags = program.lags
    cut = 0 if lags is None else program.steps.index(lags)
    if lags is None:
        lines += [_room(0, sizes[0]), f"int status = {c.name}_read(x, z0);", "if (status) return status;"]
    else:
        lines += [f"$real window[{max(1, (lags.longest + 1) * sizes[cut])}] = {{0}};"]
        lines += [f"for (int row = 0; row <= {lags.longest}; ++row) {{", f"    {_room(0, sizes[0])}"]
        lines += [f"    int status = {c.name}_read(x + row * {len(program.reading.inputs)}, z0);"]
        lines += ["    if (status) return status;"]
        for i in range(cut):
            lines += [f"    {_room(i + 1, sizes[i + 1])}", f"    {c.name}_step_{i + 1}(z{i}, z{i + 1});"]
        lines += [f"    for (int j = 0; j < {sizes[cut]}; ++j) window[row * {sizes[cut]} + j] = z{cut}[j];", "}"]
    for i in range(cut, len(program.steps)):
        before = "window" if lags is not None and i == cut else f"z{i}"
        lines += [_room(i + 1, sizes[i + 1]), f"{c.name}_step_{i + 1}({before}, z{i + 1});"]
        if lags is not None and i == cut:
            lines += [f"for (int k = 0; k < {sizes[i + 1]}; ++k) if (!isfinite(z{i + 1}[k])) return k + 1;"]
    lines += [f"{c.name}_linear(z{len(sizes) - 1}, y);", "return 0;"]
    return _function(f"static int {c.name}_outputs(const $real *x, $real *y)", lines)


def _room(number: int, size: int) -> str:
    return f"$real z{number}[{size}];" if size else f"$real z{number}[1] = {{0}};"


def _function(head: str, lines: Iterable[str]) -> str:
    return f"{head}\n{{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


def _answers(program: Program, c: Dialect) -> str:
    """Write the public functions."""
    if program.labels is None:
        return _function(_heads(program, c)[0], [f"return {c.name}_outputs(x, y);"])
    q, labels = len(program.linear.intercept), program.labels
    texts = ", ".join(_text(label) for label in labels.classes)
    choice = ["*label = y[0] >= 0;"]
    if q > 1:
        choice = ["*label = 0;", f"for (int k = 1; k < {q}; ++k) if (y[k] > y[*label]) *label = k;"]
    start = [f"$real y[{q}];", f"const int status = {c.name}_outputs(x, y);", "if (status) return status;"]
    heads = _heads(program, c)
    functions = [
        f"const char *const {c.name}_classes[{len(labels.classes)}] = {{{texts}}};\n",
        _function(heads[0], [*start, *choice, "return 0;"]),
        _function(heads[1], [f"return {c.name}_outputs(x, y);"]),
    ]
    return "\n".join(functions + [_function(head, [*start, *_softmax(labels, q, c)]) for head in heads[2:]])


def _softmax(labels: Labels, q: int, c: Dialect) -> list[str]:
    """Write probabilities of the classes, without overflow."""
    sharpness, m = c.number(labels.sharpness or 1.0), len(labels.classes)
    scores = ["p[0] = -y[0];", "p[1] = y[0];"] if q == 1 else [f"for (int k = 0; k < {m}; ++k) p[k] = y[k];"]
    return [
        *scores,
        "$real top = p[0], sum = 0;",
        f"for (int k = 1; k < {m}; ++k) if (p[k] > top) top = p[k];",
        f"for (int k = 0; k < {m}; ++k) sum += p[k] = $exp({sharpness} * (p[k] - top));",
        f"for (int k = 0; k < {m}; ++k) p[k] /= sum;",
        "return 0;",
    ]


def _heads(program: Program, c: Dialect) -> list[str]:
    """Return the first lines of the public functions."""
    if program.labels is None:
        return [f"int {c.name}_predict(const {c.real} *x, {c.real} *y)"]
    heads = [
        f"int {c.name}_predict(const {c.real} *x, int *label)",
        f"int {c.name}_decision_function(const {c.real} *x, {c.real} *y)",
    ]
    proba = f"int {c.name}_predict_proba(const {c.real} *x, {c.real} *p)"
    return heads + [proba] * (program.labels.sharpness is not None)


def _text(label: Any) -> str:
    """Write a label as a text of C, whatever characters it has."""
    text = label if isinstance(label, str) else json.dumps(label)
    plain = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?$' else f"\\{b:03o}" for b in text.encode())
    return f'"{plain}"'


def _opening(program: Program, c: Dialect) -> str:
    """Write a comment that says what goes in and what comes out."""
    q = len(program.linear.intercept)
    heads = [f"    {head};" for head in _heads(program, c)]
    lines = ["A model written by termwise, in C99. It needs <math.h> and no memory of its own.", "", *heads, ""]
    d, lags = len(program.reading.inputs), program.lags
    if lags is None:
        lines += [f"x holds {d} inputs:", ""]
    else:
        lines += [f"x holds {lags.longest + 1} rows of {d} inputs each, oldest first; the newest row is predicted:", ""]
    lines += [f"    x[{j}]  {line}" for j, line in enumerate(_described(program.reading))]
    lines += ["", *_results(program, q), ""]
    lines += ["All functions return 0, or the number, counted from 1, of an input that is missing or no known category"]
    lines += ["(of a past value, where there are several rows). The terms:", ""]
    lines += [f"    {name}" for name in program.linear.names] or ["    none: the answer is the same everywhere"]
    return "/*\n" + "".join(f" * {_harmless(line)}".rstrip() + "\n" for line in lines) + " */\n"


def _described(reading: Reading) -> Iterable[str]:
    used = set(reading.used)
    for j, one in enumerate(reading.inputs):
        kinds = one.categories or ()
        codes = f" is the number of a category: {', '.join(f'{i} {kind}' for i, kind in enumerate(kinds))}" * bool(
            kinds
        )
        fill = "" if one.fill is None else f"; {one.fill} where it is NaN"
        yield f"{one.name}{codes}{fill}" + ("" if j in used else "; not used")


def _results(program: Program, q: int) -> list[str]:
    if program.labels is None:
        return [f"y receives {q} output{'s' * (q > 1)}."]
    classes = ", ".join(f"{i} {label}" for i, label in enumerate(program.labels.classes))
    outputs = "one output, positive for the second class" if q == 1 else f"{q} outputs, one for each class"
    odds = f"; p their {len(program.labels.classes)} probabilities" * (program.labels.sharpness is not None)
    return [f"label receives the number of a class: {classes};", f"y receives {outputs}{odds}."]


def _harmless(line: str) -> str:
    """Write a line that can neither end a comment nor begin one in it."""
    text = "".join(char if char.isprintable() else " " for char in line)
    return text.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
