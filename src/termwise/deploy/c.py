"""A model as one file of C99 that needs `<math.h>` alone: constant tables, no allocation, no state.

While the text is assembled `$real` stands for the type of numbers, `$zero` and `$one` for constants of that type,
`$exp` and so on for the functions of its precision, and `@x` for the table x of a step. A short body of a loop or of a
condition is written behind it on the same line; `function` puts it in braces.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from termwise._checks import check_bool, check_choice
from termwise._numerics import FLOAT32, FLOAT64, LOG_RESPONSE_MAX
from termwise.basis.encoder import LEVEL, MISSING, OTHER, UNSEEN, VALUE
from termwise.basis.expressions import Expression, SourceWriter
from termwise.deploy.c_interface import Interface, check_name, comment
from termwise.deploy.document import specs
from termwise.deploy.program import Program, as_float32
from termwise.deploy.simulation import c_comment, c_simulation
from termwise.deploy.steps import Concatenate, Lags, LevelEffects, PairProducts, ProgramStep

TITLE = "A model written by termwise, in C99. It needs <math.h> and no memory of its own."
LINE_LENGTH = 116
MAX_STRING = 4095  # characters of a string literal that every C99 compiler accepts
LINKS = {  # statements that change the @q outputs y; @largest is that of a log link
    "log": ["for (int k = 0; k < @q; ++k) y[k] = $exp((y[k] > @largest) ? @largest : y[k]);"],
    "sorted": [  # by insertion
        "for (int k = 1; k < @q; ++k) {",
        "    const $real value = y[k];",
        "    int i = k;",
        "    while ((i > 0) && (y[i - 1] > value)) {",
        "        y[i] = y[i - 1];",
        "        --i;",
        "    }",
        "    y[i] = value;",
        "}",
    ],
}


@dataclass(frozen=True)
class CNames:
    """The type of numbers, and the prefix of all names in the file."""

    real: str
    name: str

    @property
    def dtype(self) -> np.dtype:
        """NumPy's name of the type."""
        return FLOAT64 if self.real == "double" else FLOAT32

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


def source(
    program: Program, dtype: str = "float64", name: str = "model", gradient: bool = False, simulation: Any = False
) -> str:
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
    simulation : bool or pair of float, default=False
        Whether to write the functions `NAME_init` and `NAME_step` of a simulation too, perhaps with the lowest and the
        highest output.
    """
    interface = _interface(program, dtype, name, gradient, simulation)
    c, heads = CNames(interface.real, interface.name), interface.functions
    q, k = program.linear.weights.shape
    linear = [
        f"for (int i = 0; i < {q}; ++i) {{",
        "    $real sum = $zero;",
        f"    for (int k = 0; k < {k}; ++k) sum += z[k] * @weights[{index_of('i', k, 'k')}];",
        "    g[i] = sum + @intercept[i];",
        "}",
    ]
    parts = [
        _input(program, c),
        *(write(step, c, f"step_{i + 1}") for i, step in enumerate(program.steps)),
        c.step("linear", linear, weights=program.linear.weights, intercept=program.linear.intercept),
        _outputs(program, c),
        _predictions(program, c, heads[: interface.n_predictions]),
    ]
    if gradient:
        from termwise.deploy.c_gradient import gradient_functions  # which imports from here

        parts += gradient_functions(program, c, heads[interface.n_predictions])
    if simulation is not False:
        parts.append(c_simulation(program, c, simulation)[2])
    text = "\n".join(parts).replace("$real", c.real).replace("$zero", c.number(0.0)).replace("$one", c.number(1.0))
    text = re.sub(r"\$(\w+)\(", rf"\1{'f' * (c.real == 'float')}(", text)
    return f"{comment(program, interface, TITLE)}\n#include <math.h>\n\n{interface.declarations}\n{text}"


def header(
    program: Program, dtype: str = "float64", name: str = "model", gradient: bool = False, simulation: Any = False
) -> str:
    """Return the header that declares what the file with the same parameters defines."""
    return _interface(program, dtype, name, gradient, simulation).header(program)


def _interface(program: Program, dtype: str, name: str, gradient: bool, simulation: Any) -> Interface:
    """Validate the parameters of the file and return its interface."""
    check_bool("gradient", gradient, remedy="True writes a function for it too")
    check_choice("dtype", dtype, ["float64", "float32"], remedy="double or float")
    real = "double" if dtype == "float64" else "float"
    found = Interface.from_program(program, check_name(name), real, gradient)
    if simulation is False:
        return found
    state, heads, _ = c_simulation(program, CNames(real, name), simulation)
    return replace(found, functions=(*found.functions, *heads), state=state, about=tuple(c_comment(program)))


# -- steps -------------------------------------------------------------------------------------------------------------


class ExpressionWriter(SourceWriter):
    """Writes the expression of a step, for its value number k."""

    operations: ClassVar[Mapping[str, str]] = {
        **SourceWriter.operations,
        "exp": "$exp({0})",
        "sqrt": "$sqrt({0})",
        "sin": "$sin({0})",
        "expit": "($one / ($one + $exp(-{0})))",
        "maximum": "(({0} < {1}) ? {1} : {0})",  # NaN stays NaN
        "minimum": "(({0} > {1}) ? {1} : {0})",
        "where": "({0} ? {1} : {2})",
        "isnan": "isnan({0})",
        "equal": "({0} == {1})",
        "greater": "({0} > {1})",
    }
    reductions: ClassVar[Mapping[str, tuple[str, str]]] = {
        "sum_squares": ("$zero", "{total} += {0} * {0};"),
        "dot": ("$zero", "{total} += {0} * {1};"),
        "power_product": ("$one", "if ({1} > $zero) {total} *= $pow({0}, {1});"),
    }
    constant = "const $real {name} = {value};"
    changing = "$real {name} = {value};"

    def __init__(self, step: ProgramStep, c: CNames) -> None:
        super().__init__()
        self.step, self.c, self.tables = step, c, step.tables
        self._codes = False  # whether a number is compared with a code

    def variable(self, name: str) -> str:
        """Write an entry of a table or of z."""
        if name == "z":
            return "z[j]" if self.inside else "z[@columns[k]]" if "columns" in self.tables else "z[k]"
        return self.entry(name, "j")

    def entry(self, name: str, j: str) -> str:
        """Write an entry of a table, that of the input j inside a sum; whole numbers, except codes, are factors."""
        if self.tables[name].ndim == 2:
            index = index_of("k", self.step.n_inputs, j)
        else:
            index = "k" if self.step.is_per_term(name) else j
        spec = specs(type(self.step))[name]
        return f"{'($real)' if spec.kind is int and not spec.of else ''}@{name}[{index}]"

    def number(self, value: float) -> str:
        """Write a constant; codes are whole numbers."""
        return str(value) if self._codes else self.c.number(value)

    def _arguments(self, node: Expression, template: str) -> list[str]:
        self._codes = node.operation == "equal" and isinstance(node.arguments[1].arguments[0], int)
        texts = super()._arguments(node, template)
        self._codes = False
        return texts

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
            place = f"{index_of(f'({step.longest} - @lags[k])', step.n_inputs, '@columns[k]')}"
            return c.step(name, [f"for (int k = 0; k < {step.n_terms}; ++k) g[k] = z[{place}];"], **vars(step))
        case LevelEffects():
            lines = [
                f"for (int k = 0; k < {step.n_terms}; ++k) {{",
                "    const $real level = z[@columns[k]];",
                "    g[k] = (@sizes[k] == 0) ? level : $zero;",
                "    if ((level >= $zero) && (level < ($real)@sizes[k])) g[k] = @effects[@offsets[k] + (int)level];",
                "}",
            ]
            return c.step(name, lines, **vars(step) | {"offsets": step.offsets})
        case Concatenate():
            return _concatenate(step, c, name)
    return c.step(name, ExpressionWriter(step, c).all_values("g", step.n_terms), **step.tables)


def _concatenate(step: Concatenate, c: CNames, name: str) -> str:
    """Write the steps of all branches, and the function that calls them."""
    inner, lines = [], [f"$real all[{sum(part.n_terms for part in step.parts) or 1}]{'' if step.parts else ' = {0}'};"]
    start = 0
    for p, part in enumerate(step.parts):
        sizes = [len(part.columns), *(one.n_terms for one in part.steps)]
        inner += [write(one, c, f"{name}_{p}_{i}") for i, one in enumerate(part.steps)]
        lines += ["{", f"    $real a0[{sizes[0] or 1}];"]  # a constant needs no columns
        lines += [f"    for (int i = 0; i < {sizes[0]}; ++i) a0[i] = z[@columns_{p}[i]];"]
        for i, size in enumerate(sizes[1:]):
            lines += [f"    $real a{i + 1}[{size}];", f"    {c.name}_{name}_{p}_{i}(a{i}, a{i + 1});"]
        place = f"{start} + i" if start else "i"
        lines += [f"    for (int i = 0; i < {sizes[-1]}; ++i) all[{place}] = a{len(sizes) - 1}[i];", "}"]
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
        known = f"(value >= $zero) && (value < ($real){c.name}_counts[j]) && (value == $floor(value))"
        lines += [
            f"if (({c.name}_counts[j] > 0) && !isnan(value) && !({known})) {{",
            f"    if (isnan({c.name}_unseen[j]) != 0) return j + 1;",
            f"    value = {c.name}_unseen[j];",
            "}",
        ]
    may_be_missing = any(one.missing for one in schema.inputs)
    if may_be_missing:
        tables += c.array("missing", np.array([int(bool(one.missing)) for one in schema.inputs]))
    allowed = f"!(({c.name}_missing[j] != 0) && isnan(value)) && " if may_be_missing else ""
    lines += [f"if ({allowed}!isfinite(value)) return j + 1;"] * (program.lags is None)
    if (schema.categories != VALUE).any():
        tables += c.array("codes", schema.categories)
        missing, levels, others = (bool((schema.categories == code).any()) for code in (MISSING, LEVEL, OTHER))
        lines += [f"const int code = {c.name}_codes[i];"]
        lines += ["if (code >= 0) value = (value == ($real)code) ? $one : $zero;"]
        lines += [f"if (code == {MISSING}) value = isnan(value) ? $one : $zero;"] * missing
        # Missing values are the last level.
        lines += [f"if ((code == {LEVEL}) && isnan(value)) value = ($real){c.name}_counts[j];"] * levels
        lines += [f"if (code == {OTHER}) value = (value == {c.number(UNSEEN)}) ? $one : $zero;"] * others
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
        lines = [arrays[0], f"int status = {c.name}_read(x, z0);", "if (status != 0) return status;"]
    else:
        lines = [f"$real window[{max(1, (lags.longest + 1) * sizes[split])}] = {{0}};"]
        lines += [f"for (int row = 0; row <= {lags.longest}; ++row) {{", f"    {arrays[0]}"]
        lines += [f"    int status = {c.name}_read(&x[row * {len(program.schema.inputs)}], z0);"]
        lines += ["    if (status != 0) return status;"]
        for i in range(split):
            lines += [f"    {arrays[i + 1]}", f"    {c.name}_step_{i + 1}(z{i}, z{i + 1});"]
        place = index_of("row", sizes[split], "j")
        lines += [f"    for (int j = 0; j < {sizes[split]}; ++j) window[{place}] = z{split}[j];", "}"]
    for i in range(split, len(program.steps)):
        before = "window" if lags is not None and i == split else f"z{i}"
        lines += [arrays[i + 1], f"{c.name}_step_{i + 1}({before}, z{i + 1});"]
        if lags is not None and i == split:
            lines += [f"for (int k = 0; k < {sizes[i + 1]}; ++k) if (!isfinite(z{i + 1}[k])) return k + 1;"]
    lines += [f"{c.name}_linear(z{len(sizes) - 1}, y);", "return 0;"]
    return function(f"static int {c.name}_outputs(const $real *x, $real *y)", lines)


def index_of(row: str, stride: int, column: str) -> str:
    """Write the place of an entry of a table stored row by row."""
    return f"({row} * {stride}) + {column}" if stride > 1 else f"{row} + {column}"


def function(head: str, lines: Iterable[str]) -> str:
    """Write a function, with braces around the body of every loop and condition."""
    return f"{head}\n{{\n" + "".join(f"    {each}\n" for line in lines for each in _with_braces(line)) + "}\n"


def _with_braces(line: str) -> list[str]:
    """Return a loop or a condition with its body on the same line as a block; other lines as they are."""
    indent, text = line[: len(line) - len(line.lstrip())], line.lstrip()
    if not text.startswith(("for (", "if (")):
        return [line]
    depths = np.cumsum([(char == "(") - (char == ")") for char in text])
    end = next(i for i, char in enumerate(text) if char == ")" and depths[i] == 0) + 1
    head, body = text[:end], text[end:].strip()
    if body == "{":
        return [line]
    return [f"{indent}{head} {{", *(f"{indent}    {each}" for each in _with_braces(body)), f"{indent}}}"]


def _predictions(program: Program, c: CNames, heads: Sequence[str]) -> str:
    """Write the public functions with these prototypes."""
    labels, q = program.labels, len(program.linear.intercept)
    outputs = [f"return {c.name}_outputs(x, y);"]
    if labels is None and program.link == "identity":
        return function(heads[0], outputs)
    if labels is None:
        start = [f"const int status = {c.name}_outputs(x, y);", "if (status != 0) return status;"]
        largest = c.number(LOG_RESPONSE_MAX[c.dtype])
        link = [line.replace("@q", str(q)).replace("@largest", largest) for line in LINKS[program.link]]
        return function(heads[0], [*start, *link, "return 0;"])
    m, names = len(labels.classes), []
    for label in labels.classes:
        text = label if isinstance(label, str) else json.dumps(label)
        encoded = text.encode(errors="replace")
        plain = [chr(b) if 32 <= b < 127 and chr(b) not in "\"'\\?$" else f"\\{b:03o}" for b in encoded]
        array = "".join(f"'{one}', " for one in plain)  # longer strings are not portable
        names.append(f'"{"".join(plain)}"' if len(plain) <= MAX_STRING else f"(const char[]){{{array}0}}")
    start = [f"$real y[{q}];", f"const int status = {c.name}_outputs(x, y);", "if (status != 0) return status;"]
    choice = ["*label = 0;", "if (y[0] >= $zero) *label = 1;"]
    if q > 1:
        choice = ["*label = 0;", f"for (int k = 1; k < {q}; ++k) if (y[k] > y[*label]) *label = k;"]
    softmax = [
        *(["p[0] = -y[0];", "p[1] = y[0];"] if q == 1 else [f"for (int k = 0; k < {m}; ++k) p[k] = y[k];"]),
        "$real top = p[0];",
        "$real sum = $zero;",
        f"for (int k = 1; k < {m}; ++k) if (p[k] > top) top = p[k];",  # against overflow
        f"for (int k = 0; k < {m}; ++k) {{",
        f"    p[k] = $exp({c.number(labels.sharpness or 1.0)} * (p[k] - top));",
        "    sum += p[k];",
        "}",
        f"for (int k = 0; k < {m}; ++k) p[k] /= sum;",
    ]
    functions = [
        f"const char *const {c.name}_classes[{m}] = {{{', '.join(names)}}};\n",
        function(heads[0], [*start, *choice, "return 0;"]),
        function(heads[1], outputs),
        *(function(head, [*start, *softmax, "return 0;"]) for head in heads[2:]),
    ]
    return "\n".join(functions)
