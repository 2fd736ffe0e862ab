"""A model as one file of C99 that needs `<math.h>` alone: constant tables, no allocation, no state.

While the text is assembled `$real` stands for the type of numbers, `$exp` and so on for the functions of its precision,
and `@x` for the table x of a step.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from termwise._checks import check_bool, check_choice
from termwise.basis.encoder import LEVEL, MISSING, OTHER, UNSEEN, VALUE
from termwise.basis.expressions import SourceWriter
from termwise.deploy.program import (
    Concatenate,
    Lags,
    LevelEffects,
    PairProducts,
    Program,
    ProgramStep,
    as_float32,
)

LINE_LENGTH = 116
MAX_STRING = 4095  # characters of a string literal that every C99 compiler accepts
LINKS = {  # statements that change the @q outputs y
    "log": ["for (int k = 0; k < @q; ++k) y[k] = $exp(y[k]);"],
    "sorted": [  # by insertion
        "for (int k = 1; k < @q; ++k) {",
        "    const $real value = y[k];",
        "    int i = k;",
        "    for (; i > 0 && y[i - 1] > value; --i) y[i] = y[i - 1];",
        "    y[i] = value;",
        "}",
    ],
}


@dataclass(frozen=True)
class CNames:
    """The type of numbers, and the prefix of all names in the file."""

    real: str
    name: str

    def number(self, value: float) -> str:
        """Write a number so that it is read back exactly, rounded once if the type is float."""
        if self.real == "double":
            return repr(float(value))
        return f"{float(str(as_float32(value)))!r}f"

    def array(self, name: str, values: Any) -> str:
        """Write a table of numbers in row-major order; C has no empty ones."""
        flat = np.ravel(values)
        kind = self.real if flat.dtype.kind == "f" else "int"
        shown = [self.number(v) if kind == self.real else str(v) for v in flat.tolist()] or ["0"]
        head, body = f"static const {kind} {self.name}_{name}[{len(shown)}] = ", ", ".join(shown)
        if len(head + body) < LINE_LENGTH:
            return f"{head}{{{body}}};\n"
        return f"{head}{{\n{textwrap.fill(body, LINE_LENGTH, initial_indent='    ', subsequent_indent='    ')}\n}};\n"

    def step(self, name: str, lines: list[str], **tables: Any) -> str:
        """Write the tables and the function of a step."""
        arrays = "".join(self.array(f"{name}_{key}", values) for key, values in tables.items())
        head = f"static void {self.name}_{name}(const {self.real} *z, {self.real} *g)"
        return f"{arrays}\n{function(head, ['(void)z;', *self.with_tables(name, lines)])}"

    def with_tables(self, name: str, lines: Iterable[str]) -> list[str]:
        """Return lines of code with the names of the tables of a step."""
        return [re.sub(r"@(\w+)", rf"{self.name}_{name}_\1", line) for line in lines]


def is_name(name: Any) -> bool:
    """Whether functions and tables of C may have this prefix."""
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z]\w*", name, flags=re.ASCII) is not None


def source(program: Program, dtype: str = "float64", name: str = "model", gradient: bool = False) -> str:
    """Return the file.

    Parameters
    ----------
    program : Program
        The model.
    dtype : {"float64", "float32"}, default="float64"
        Precision of all numbers: double or float.
    name : str, default="model"
        Prefix of the names of all functions and tables.
    gradient : bool, default=False
        Whether to write a function `NAME_gradient` too.
    """
    check_bool("gradient", gradient, remedy="True writes a function for it too")
    check_choice("dtype", dtype, ["float64", "float32"], remedy="double or float")
    if not is_name(name):
        raise ValueError(f"name must be a name of C, got {name!r}: letters, digits and underscores, a letter first.")
    c = CNames("double" if dtype == "float64" else "float", name)
    q, k = program.linear.weights.shape
    linear = [
        f"for (int i = 0; i < {q}; ++i) {{",
        "    $real sum = 0;",
        f"    for (int k = 0; k < {k}; ++k) sum += z[k] * @weights[i * {k} + k];",
        "    g[i] = sum + @intercept[i];",
        "}",
    ]
    prototypes = [f"int {name}_predict(const {c.real} *x, {c.real} *y)"]
    if program.labels is not None:
        prototypes = [f"int {name}_predict(const {c.real} *x, int *label)"]
        prototypes += [f"int {name}_decision_function(const {c.real} *x, {c.real} *y)"]
        proba = [f"int {name}_predict_proba(const {c.real} *x, {c.real} *p)"]
        prototypes += proba if program.labels.sharpness is not None else []
    if gradient:
        prototypes += [f"int {name}_gradient(const {c.real} *x, {c.real} *g)"]
    parts = [
        _input(program, c),
        *(write(step, c, f"step_{i + 1}") for i, step in enumerate(program.steps)),
        c.step("linear", linear, weights=program.linear.weights, intercept=program.linear.intercept),
        _outputs(program, c),
        _predictions(program, c, prototypes[: len(prototypes) - gradient]),
    ]
    if gradient:
        from termwise.deploy.c_gradient import gradient_functions  # which imports from here

        parts += gradient_functions(program, c, prototypes[-1])
    text = "\n".join(parts).replace("$real", c.real)
    text = re.sub(r"\$(\w+)\(", rf"\1{'f' * (c.real == 'float')}(", text)
    declared = "".join(f"{head};\n" for head in prototypes)
    return f"{_comment(program, prototypes)}\n#include <math.h>\n\n{declared}\n{text}"


# -- steps -------------------------------------------------------------------------------------------------------------


class ExpressionWriter(SourceWriter):
    """Writes the expression of a step, for its value number k."""

    operations: ClassVar[Mapping[str, str]] = {
        **SourceWriter.operations,
        "exp": "$exp({0})",
        "sqrt": "$sqrt({0})",
        "sin": "$sin({0})",
        "expit": "(1 / (1 + $exp(-{0})))",
        "maximum": "({0} < {1} ? {1} : {0})",  # NaN stays NaN
        "minimum": "({0} > {1} ? {1} : {0})",
        "where": "({0} ? {1} : {2})",
        "isnan": "isnan({0})",
        "equal": "({0} == {1})",
        "greater": "({0} > {1})",
    }
    reductions: ClassVar[Mapping[str, tuple[str, str]]] = {
        "sum_squares": ("0", "{total} += {0} * {0};"),
        "dot": ("0", "{total} += {0} * {1};"),
        "power_product": ("1", "if ({1} > 0) {total} *= $pow({0}, ($real){1});"),
    }
    constant = "const $real {name} = {value};"
    changing = "$real {name} = {value};"

    def __init__(self, step: ProgramStep, c: CNames) -> None:
        super().__init__()
        self.step, self.c, self.tables = step, c, step.tables

    def variable(self, name: str) -> str:
        """Write an entry of a table or of z."""
        if name == "z":
            return "z[j]" if self.inside else "z[@columns[k]]" if "columns" in self.tables else "z[k]"
        if self.tables[name].ndim == 2:
            return f"@{name}[k * {self.step.n_inputs} + j]"
        return f"@{name}[{'k' if self.step.is_per_term(name) else 'j'}]"

    def number(self, value: float) -> str:
        """Write a constant."""
        return str(value) if isinstance(value, int) else self.c.number(value)

    def loop(self, names: list[str], body: list[str]) -> list[str]:
        """Write a loop over the inputs."""
        head = f"for (int j = 0; j < {self.step.n_inputs}; ++j) {{"
        return [head, *(f"    {line}" for line in body), "}"]

    def all_values(self, target: str, count: int) -> list[str]:
        """Write the loop that computes all values."""
        before, value = self.write(self.step.expression)
        body = [*before, f"{target}[k] = {value};"]
        return [f"for (int k = 0; k < {count}; ++k) {{", *(f"    {line}" for line in body), "}"]


def write(step: Any, c: CNames, name: str) -> str:
    """Return a step as a function from numbers z to numbers g."""
    match step:
        case PairProducts():
            singles = len(step.columns)
            lines = [
                f"$real singles[{max(1, singles)}];",
                *ExpressionWriter(step, c).all_values("singles", singles),
                f"for (int k = 0; k < {step.n_terms}; ++k) {{",
                "    g[k] = singles[@first[k]];",
                "    if (@second[k] >= 0) g[k] *= singles[@second[k]];",
                "}",
            ]
            return c.step(name, lines, **step.tables, first=step.first, second=step.second)
        case Lags():  # here z is a window of rows, the newest last
            place = f"({step.longest} - @lags[k]) * {step.n_inputs} + @columns[k]"
            return c.step(name, [f"for (int k = 0; k < {step.n_terms}; ++k) g[k] = z[{place}];"], **vars(step))
        case LevelEffects():
            lines = [
                f"for (int k = 0; k < {step.n_terms}; ++k) {{",
                "    const $real level = z[@columns[k]];",
                "    g[k] = @sizes[k] == 0 ? level : 0;",
                "    if (level >= 0 && level < @sizes[k]) g[k] = @effects[@offsets[k] + (int)level];",
                "}",
            ]
            return c.step(name, lines, **vars(step) | {"offsets": step.offsets})
        case Concatenate():
            return _concatenate(step, c, name)
    return c.step(name, ExpressionWriter(step, c).all_values("g", step.n_terms), **step.tables)


def _concatenate(step: Concatenate, c: CNames, name: str) -> str:
    """Write the steps of all branches, and the function that calls them."""
    inner, lines = [], [f"$real all[{sum(part.n_terms for part in step.parts) or 1}];"]
    start = 0
    for p, part in enumerate(step.parts):
        sizes = [len(part.columns), *(one.n_terms for one in part.steps)]
        inner += [write(one, c, f"{name}_{p}_{i}") for i, one in enumerate(part.steps)]
        lines += ["{", f"    $real a0[{sizes[0] or 1}];"]  # a constant needs no columns
        lines += [f"    for (int i = 0; i < {sizes[0]}; ++i) a0[i] = z[@columns_{p}[i]];"]
        for i, size in enumerate(sizes[1:]):
            lines += [f"    $real a{i + 1}[{size}];", f"    {c.name}_{name}_{p}_{i}(a{i}, a{i + 1});"]
        lines += [f"    for (int i = 0; i < {sizes[-1]}; ++i) all[{start} + i] = a{len(sizes) - 1}[i];", "}"]
        start += sizes[-1]
    lines += [f"for (int k = 0; k < {step.n_terms}; ++k) g[k] = all[@order[k]];"]
    columns = {f"columns_{p}": part.columns for p, part in enumerate(step.parts)}
    return "\n".join([*inner, c.step(name, lines, **columns, order=step.order)])


# -- the file ----------------------------------------------------------------------------------------------------------


def _input(program: Program, c: CNames) -> str:
    """Write the encoding of inputs x as numbers z: returns 0, or the number, from 1, of a missing input."""
    schema, fills = program.schema, []
    for one in schema.inputs:
        code = one.fill if one.categories is None or one.fill is None else float(one.categories.index(one.fill))
        fills.append("NAN" if code is None else c.number(code))
    tables = c.array("inputs", schema.columns) + f"static const {c.real} {c.name}_fills[] = {{{', '.join(fills)}}};\n"
    lines = [f"const int j = {c.name}_inputs[i];", f"$real value = isnan(x[j]) ? {c.name}_fills[j] : x[j];"]
    if any(one.categories is not None for one in schema.inputs):
        counts = [0 if one.categories is None else len(one.categories) for one in schema.inputs]
        unseen = ["NAN" if one.unseen is None else c.number(one.unseen) for one in schema.inputs]
        tables += c.array("counts", np.array(counts))
        tables += f"static const {c.real} {c.name}_unseen[] = {{{', '.join(unseen)}}};\n"
        known = f"value >= 0 && value < {c.name}_counts[j] && value == $floor(value)"
        lines += [
            f"if ({c.name}_counts[j] > 0 && !isnan(value) && !({known})) {{",
            f"    if (isnan({c.name}_unseen[j])) return j + 1;",
            f"    value = {c.name}_unseen[j];",
            "}",
        ]
    may_be_missing = any(one.missing for one in schema.inputs)
    if may_be_missing:
        tables += c.array("missing", np.array([int(bool(one.missing)) for one in schema.inputs]))
    allowed = f"!({c.name}_missing[j] && isnan(value)) && " if may_be_missing else ""
    lines += [f"if ({allowed}!isfinite(value)) return j + 1;"] * (program.lags is None)
    if (schema.categories != VALUE).any():
        tables += c.array("codes", schema.categories)
        lines += [f"const int code = {c.name}_codes[i];", "if (code >= 0) value = value == code;"]
        lines += [f"if (code == {MISSING}) value = isnan(value) ? 1 : 0;"] * bool((schema.categories == MISSING).any())
        levels = bool((schema.categories == LEVEL).any())  # missing values are the last one
        lines += [f"if (code == {LEVEL} && isnan(value)) value = {c.name}_counts[j];"] * levels
        lines += [f"if (code == {OTHER}) value = value == {int(UNSEEN)};"] * bool((schema.categories == OTHER).any())
    lines += ["z[i] = value;"]
    loop = [f"for (int i = 0; i < {len(schema.columns)}; ++i) {{", *(f"    {line}" for line in lines), "}"]
    head = f"static int {c.name}_read(const $real *x, $real *z)"
    return f"{tables}\n{function(head, ['(void)x;', '(void)z;', *loop, 'return 0;'])}"


def _outputs(program: Program, c: CNames) -> str:
    """Write the function that applies the chain of steps to inputs; steps before lags to every row of a window."""
    sizes = [len(program.schema.columns), *(step.n_terms for step in program.steps)]
    arrays = [f"$real z{i}[{size}];" if size else f"$real z{i}[1] = {{0}};" for i, size in enumerate(sizes)]
    lags = program.lags
    split = 0 if lags is None else program.steps.index(lags)
    if lags is None:
        lines = [arrays[0], f"int status = {c.name}_read(x, z0);", "if (status) return status;"]
    else:
        lines = [f"$real window[{max(1, (lags.longest + 1) * sizes[split])}] = {{0}};"]
        lines += [f"for (int row = 0; row <= {lags.longest}; ++row) {{", f"    {arrays[0]}"]
        lines += [f"    int status = {c.name}_read(x + row * {len(program.schema.inputs)}, z0);"]
        lines += ["    if (status) return status;"]
        for i in range(split):
            lines += [f"    {arrays[i + 1]}", f"    {c.name}_step_{i + 1}(z{i}, z{i + 1});"]
        lines += [f"    for (int j = 0; j < {sizes[split]}; ++j) window[row * {sizes[split]} + j] = z{split}[j];", "}"]
    for i in range(split, len(program.steps)):
        before = "window" if lags is not None and i == split else f"z{i}"
        lines += [arrays[i + 1], f"{c.name}_step_{i + 1}({before}, z{i + 1});"]
        if lags is not None and i == split:
            lines += [f"for (int k = 0; k < {sizes[i + 1]}; ++k) if (!isfinite(z{i + 1}[k])) return k + 1;"]
    lines += [f"{c.name}_linear(z{len(sizes) - 1}, y);", "return 0;"]
    return function(f"static int {c.name}_outputs(const $real *x, $real *y)", lines)


def function(head: str, lines: Iterable[str]) -> str:
    """Write a function."""
    return f"{head}\n{{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


def _predictions(program: Program, c: CNames, heads: list[str]) -> str:
    """Write the public functions with these prototypes."""
    labels, q = program.labels, len(program.linear.intercept)
    outputs = [f"return {c.name}_outputs(x, y);"]
    if labels is None and program.link == "identity":
        return function(heads[0], outputs)
    if labels is None:
        start = [f"const int status = {c.name}_outputs(x, y);", "if (status) return status;"]
        return function(heads[0], [*start, *(line.replace("@q", str(q)) for line in LINKS[program.link]), "return 0;"])
    m, names = len(labels.classes), []
    for label in labels.classes:
        text = label if isinstance(label, str) else json.dumps(label)
        encoded = text.encode(errors="replace")
        plain = [chr(b) if 32 <= b < 127 and chr(b) not in "\"'\\?$" else f"\\{b:03o}" for b in encoded]
        array = "".join(f"'{one}', " for one in plain)  # longer strings are not portable
        names.append(f'"{"".join(plain)}"' if len(plain) <= MAX_STRING else f"(const char[]){{{array}0}}")
    start = [f"$real y[{q}];", f"const int status = {c.name}_outputs(x, y);", "if (status) return status;"]
    choice = ["*label = y[0] >= 0;"]
    if q > 1:
        choice = ["*label = 0;", f"for (int k = 1; k < {q}; ++k) if (y[k] > y[*label]) *label = k;"]
    softmax = [
        *(["p[0] = -y[0];", "p[1] = y[0];"] if q == 1 else [f"for (int k = 0; k < {m}; ++k) p[k] = y[k];"]),
        "$real top = p[0], sum = 0;",
        f"for (int k = 1; k < {m}; ++k) if (p[k] > top) top = p[k];",  # against overflow
        f"for (int k = 0; k < {m}; ++k) sum += p[k] = $exp({c.number(labels.sharpness or 1.0)} * (p[k] - top));",
        f"for (int k = 0; k < {m}; ++k) p[k] /= sum;",
    ]
    functions = [
        f"const char *const {c.name}_classes[{m}] = {{{', '.join(names)}}};\n",
        function(heads[0], [*start, *choice, "return 0;"]),
        function(heads[1], outputs),
        *(function(head, [*start, *softmax, "return 0;"]) for head in heads[2:]),
    ]
    return "\n".join(functions)


def _comment(program: Program, heads: list[str]) -> str:
    """Write the comment at the top, which describes the inputs and the results."""
    d, q, lags, labels = len(program.schema.inputs), len(program.linear.intercept), program.lags, program.labels
    lines = ["A model written by termwise, in C99. It needs <math.h> and no memory of its own.", ""]
    lines += [*(f"    {head};" for head in heads), ""]
    rows = "" if lags is None else f"{lags.longest + 1} rows of "
    order = "" if lags is None else " each, oldest first; the newest row is predicted"
    lines += [f"x holds {rows}{d} inputs{order}:", ""]
    for j, one in enumerate(program.schema.inputs):
        codes = ", ".join(f"{i} {kind}" for i, kind in enumerate(one.categories or ()))
        kinds = f" is the number of a category: {codes}" if codes else ""
        kinds += "; any other number is an unknown one" if codes and one.unseen is not None else ""
        fill = "" if one.fill is None else f"; {one.fill} where it is NaN"
        fill = "; NaN where it is missing" if one.missing and one.fill is None else fill
        lines.append(f"    x[{j}]  {one.name}{kinds}{fill}{'' if j in program.schema.used else '; not used'}")
    if labels is None:
        sizes = {"log": ", positive", "sorted": ", in ascending order"}
        lines += ["", f"y receives {q} output{'s' * (q > 1)}{sizes.get(program.link, '')}."]
    else:
        classes = ", ".join(f"{i} {label}" for i, label in enumerate(labels.classes))
        outputs = "one output, positive for the second class" if q == 1 else f"{q} outputs, one for each class"
        proba = f"; p their {len(labels.classes)} probabilities" * (labels.sharpness is not None)
        lines += ["", f"label receives the number of a class: {classes};", f"y receives {outputs}{proba}."]
    if any("_gradient(" in head for head in heads):
        rows = f"of each of {q} outputs y by {d} inputs" if q > 1 else f"of y by {d} inputs"
        lines += ["", f"g receives the derivatives {rows}; they are NAN for categories."]
    lines += ["", "All functions return 0, or the number, counted from 1, of an input that is missing or no known"]
    lines += ["category (of a past value, where there are several rows). The terms:", ""]
    lines += [f"    {name}" for name in program.linear.names] or ["    none: the prediction is constant"]
    text = "/*\n"
    for line in lines:  # none of which may end the comment or begin one in it
        line = "".join(char if char.isprintable() else " " for char in line)
        line = re.sub(r"\?(?=\?)", "? ", line.replace("*/", "* /").replace("/*", "/ *"))  # nor a trigraph
        text += f" * {line}".rstrip() + "\n"
    return text + " */\n"
