"""A model as one file of C99 that needs `<math.h>` alone: constant tables, no allocation, no state.

`c_interface` says which characters stand for what while the text is assembled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from termwise._checks import check_bool, check_choice
from termwise._numerics import LOG_RESPONSE_MAX
from termwise.basis.encoder import LEVEL, MISSING, OTHER, UNSEEN, VALUE
from termwise.deploy.c_interface import CNames, Interface, block, check_name, comment, function, index_of
from termwise.deploy.c_steps import gradient_functions, write
from termwise.deploy.program import Program

TITLE = "A model written by termwise, in C99. It needs <math.h> and no memory of its own."
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


def source(
    program: Program, dtype: str = "float64", name: str = "model", gradient: bool = False, simulation: Any = False
) -> str:
    """Return the file, with the options of `Predictor.export`."""
    interface = _interface(program, dtype, name, gradient, simulation)
    c, heads = CNames(interface.real, interface.name), interface.functions
    (q, k), limits = program.linear.weights.shape, program.linear.limits
    tables, clip = {"weights": program.linear.weights, "intercept": program.linear.intercept}, []
    if limits is not None:
        tables["limits"] = limits
        clip = [
            "    if (g[i] < @limits[i]) g[i] = @limits[i];",
            f"    if (g[i] > @limits[{q} + i]) g[i] = @limits[{q} + i];",
        ]
    linear = [
        f"for (int i = 0; i < {q}; ++i) {{",
        "    $real sum = $zero;",
        f"    for (int k = 0; k < {k}; ++k) sum += z[k] * @weights[{index_of('i', k, 'k')}];",
        "    g[i] = sum + @intercept[i];",
        *clip,
        "}",
    ]
    parts = [
        _read_function(program, c),
        *(write(step, c, f"step_{i + 1}") for i, step in enumerate(program.steps)),
        c.step("linear", linear, **tables),
        _outputs_function(program, c),
        _public_functions(program, c, heads[: interface.n_predictions]),
    ]
    if gradient:
        parts += gradient_functions(program, c, heads[interface.n_predictions])
    if simulation is not False:
        parts.append(_simulation(program, c, simulation)[3])
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
    state, heads, about, _ = _simulation(program, CNames(real, name), simulation)
    return replace(found, functions=(*found.functions, *heads), state=state, about=about)


def _read_function(program: Program, c: CNames) -> str:
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
    loop = block(f"for (int i = 0; i < {len(schema.columns)}; ++i)", lines)
    head = f"static int {c.name}_read(const $real *x, $real *z)"
    return f"{tables}\n{function(head, ['(void)x;', '(void)z;', *loop, 'return 0;'])}"


def _outputs_function(program: Program, c: CNames) -> str:
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


def _public_functions(program: Program, c: CNames, heads: Sequence[str]) -> str:
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


def _simulation(program: Program, c: CNames, simulation: Any) -> tuple[str, list[str], tuple[str, ...], str]:
    """Return the type of the state, the prototypes, lines of the comment and the functions of a simulation."""
    past, output, low, high = program.simulation_settings(simulation)
    d = len(program.schema.inputs)
    state = f"typedef struct {{ {c.real} rows[{(past + 1) * d}]; }} {c.name}_state;\n\n"
    heads = [
        f"void {c.name}_init({c.name}_state *state, const {c.real} *past)",
        f"int {c.name}_step({c.name}_state *state, const {c.real} *inputs, {c.real} *y)",
    ]
    copy = f"for (int i = 0; i < {past * d}; ++i) state->rows[i] = past[i];" if past else "(void)past;"
    rest = f"for (int i = {past * d}; i < {(past + 1) * d}; ++i) state->rows[i] = $zero;"
    limits = [f"if (!(*y >= {c.number(low)})) *y = {c.number(low)};"] * bool(np.isfinite(low))
    limits += [f"if (*y > {c.number(high)}) *y = {c.number(high)};"] * bool(np.isfinite(high))
    step = [
        f"{c.real} *const row = &state->rows[{past * d}];",
        *([] if d > 1 else ["(void)inputs;"]),
        *(f"row[{j}] = inputs[{j - (j > output)}];" for j in range(d) if j != output),
        f"row[{output}] = NAN;",
        f"const int status = {c.name}_predict(state->rows, y);",
        "if (status != 0) return status;",
        *limits,
        f"row[{output}] = *y;",
        *[f"for (int i = 0; i < {past * d}; ++i) state->rows[i] = state->rows[i + {d}];"] * bool(past),
        "return 0;",
    ]
    others = f"the {d - 1} other inputs in their order" if d > 1 else "nothing, there are no other inputs"
    about = (
        f"A simulation begins with init: past holds {past} rows of x, oldest first. Each step takes the next row",
        f"without x[{output}] ({others}), returns the output in y and keeps it as a past value.",
        "",
    )
    return state, heads, about, "\n".join([function(heads[0], [copy, rest]), function(heads[1], step)])
