"""The parts of a file of C that do not depend on its steps: names, tables and functions, its interface and header.

While the text is assembled `$real` stands for the type of numbers, `$zero` and `$one` for constants of that type,
`$exp` and so on for the functions of its precision, and `@x` for the table x of a step. A short body of a loop or of a
condition is written behind it on the same line; `function` puts it in braces.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from termwise._numerics import FLOAT32, FLOAT64
from termwise.deploy.formulas import printable
from termwise.deploy.program import Program, as_float32

LINE_LENGTH = 116
# Reserved words of C, from C99 to C23, and those of C++, in which the header can be included.
KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
    const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast restrict return
    short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile
    wchar_t while xor xor_eq
"""
HEADER_TITLE = "The interface of a model written by termwise, in C99."


# -- parts of a file ---------------------------------------------------------------------------------------------------


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


def index_of(row: str, stride: int, column: str) -> str:
    """Write the place of an entry of a table stored row by row."""
    return f"({row} * {stride}) + {column}" if stride > 1 else f"{row} + {column}"


def function(head: str, lines: Iterable[str]) -> str:
    """Write a function, with braces around the body of every loop and condition."""
    return f"{head}\n{{\n" + "".join(f"    {each}\n" for line in lines for each in _with_braces(line)) + "}\n"


def block(head: str, lines: Iterable[str]) -> list[str]:
    """Write a loop or a condition with its body."""
    return [f"{head} {{", *(f"    {line}" for line in lines), "}"]


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
    return [f"{indent}{line}" for line in block(head, _with_braces(body))]


# -- the interface -----------------------------------------------------------------------------------------------------


def check_name(name: object) -> str:
    """Return the prefix of all names, or raise if it is no name of C."""
    if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z]\w*", name, flags=re.ASCII)):
        raise ValueError(f"name must be a name of C, got {name!r}: letters, digits and underscores, a letter first.")
    if name in KEYWORDS.split():
        raise ValueError(f"name must not be a keyword of C or C++, got {name!r}: add a word, as in '{name}_model'.")
    return name


def check_header(path: Path) -> None:
    """Raise if the header would replace a file that termwise did not write."""
    if path.is_file() and HEADER_TITLE.encode() not in path.read_bytes()[:200]:
        raise ValueError(
            f"{path} must be free for the header of the model, got a file that termwise did not write: move it, or "
            "export to another name."
        )


@dataclass(frozen=True)
class Interface:
    """The functions and objects that a file of C offers to others."""

    name: str
    real: str
    functions: tuple[str, ...]  # declarations without the semicolon: predictions, the gradient, a simulation
    n_predictions: int
    classes: int  # number of class labels; 0 for a regression
    state: str = ""  # type of the state of a simulation
    about: tuple[str, ...] = ()  # lines of the comment about a simulation

    @classmethod
    def from_program(cls, program: Program, name: str, real: str, gradient: bool) -> Interface:
        """Return the interface of a model."""
        labels = program.labels
        functions = [f"int {name}_predict(const {real} *x, {real} *y)"]
        if labels is not None:
            functions = [f"int {name}_predict(const {real} *x, int *label)"]
            functions += [f"int {name}_decision_function(const {real} *x, {real} *y)"]
            proba = f"int {name}_predict_proba(const {real} *x, {real} *p)"
            functions += [proba] if labels.sharpness is not None else []
        n_predictions = len(functions)
        functions += [f"int {name}_gradient(const {real} *x, {real} *g)"] * gradient
        return cls(name, real, tuple(functions), n_predictions, 0 if labels is None else len(labels.classes))

    @property
    def declarations(self) -> str:
        """The lines that declare everything."""
        lines = [f"extern const char *const {self.name}_classes[{self.classes}];"] if self.classes else []
        return self.state + "".join(f"{line}\n" for line in [*lines, *(f"{head};" for head in self.functions)])

    def header(self, program: Program) -> str:
        """Return the header file, which has the numbers of inputs and outputs as macros."""
        upper, lags = self.name.upper(), program.lags
        sizes = {"INPUTS": len(program.schema.inputs), "OUTPUTS": len(program.linear.intercept)}
        sizes |= {"ROWS": lags.longest + 1} if lags is not None else {}
        sizes |= {"CLASSES": self.classes} if self.classes else {}
        macros = "".join(f"#define {upper}_N_{key} {size}\n" for key, size in sizes.items())
        return (
            f"{comment(program, self, HEADER_TITLE)}\n#ifndef {upper}_H\n#define {upper}_H\n\n{macros}\n"
            f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n{self.declarations}\n#ifdef __cplusplus\n}}\n#endif\n\n'
            "#endif\n"
        )


def comment(program: Program, interface: Interface, title: str) -> str:
    """Write the comment at the top of a file, which describes the inputs and the results."""
    d, q, lags, labels = len(program.schema.inputs), len(program.linear.intercept), program.lags, program.labels
    lines = [title, "", *(f"    {head};" for head in interface.functions), ""]
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
    if any("_gradient(" in head for head in interface.functions):
        rows = f"of each of {q} outputs y by {d} inputs" if q > 1 else f"of y by {d} inputs"
        lines += ["", f"g receives the derivatives {rows}; they are NAN for categories."]
    lines += ["", *interface.about]
    lines += ["All functions return 0, or the number, counted from 1, of an input that is missing or no known"]
    lines += ["category (of a past value, where there are several rows). The terms:", ""]
    lines += [f"    {name}" for name in program.linear.names] or ["    none: the prediction is constant"]
    text = "/*\n"
    for line in lines:  # none of which may end the comment or begin one in it
        line = re.sub(r"\?(?=\?)", "? ", printable(line).replace("*/", "* /").replace("/*", "/ *"))  # nor a trigraph
        text += f" * {line}".rstrip() + "\n"
    return text + " */\n"
