r"""A model as equations in LaTeX, with rounded numbers: to read and to print.

The first equations are the linear combinations of the terms; the following ones define the terms :math:`h_k` and the
parts :math:`u_i` that several of them share. They need the package amsmath.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from termwise._checks import check_number
from termwise.basis.encoder import MISSING, OTHER
from termwise.deploy.formulas import (
    ATOM,
    LINKS,
    PRODUCT,
    SUM,
    UNARY,
    Cell,
    Formulas,
    FormulaWriter,
    names_of,
    printable,
)
from termwise.deploy.program import Program

LINE_TERMS = 5  # in a line of a sum
SPECIAL = {char: f"\\{char}" for char in "{}$&#%_"} | {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
}


def source(program: Program, digits: int | None = 4) -> str:
    r"""Return the equations that `Predictor.to_latex` describes.

    A category is an indicator, as in :math:`\mathbf{1}[\text{kind} = \text{a}]`, and past values have a time as index.
    """
    if digits is not None:
        check_number("digits", digits, low=1, integer=True, remedy="4 is readable, None rounds nothing")
    writer, formulas = Writer(program, digits), Formulas.from_program(program)
    names = names_of(formulas.terms, "h_{{{}}}")
    texts = writer.write(formulas.terms, names)
    values = {one.name: one.text for one in writer.definitions}
    terms = [name for name in names.values() if name in values]  # without inputs, which are their own names
    rows = [*_outputs(program, writer, texts), *((name, values[name]) for name in dict.fromkeys([*terms, *values]))]
    equations = " \\\\\n".join(f"{name} &= {text}" for name, text in rows)
    return f"\\begin{{align*}}\n{equations}\n\\end{{align*}}\n"


def escape(name: Any) -> str:
    """Write a name as text: one letter, or a letter and a number, as a symbol."""
    text = printable(str(name))
    symbol = re.fullmatch(r"([A-Za-z])(\d*)", text, flags=re.ASCII)
    if symbol:
        return symbol[1] + (f"_{{{symbol[2]}}}" if symbol[2] else "")
    return rf"\text{{{''.join(SPECIAL.get(char, char) for char in text)}}}"


class Writer(FormulaWriter):
    """Writes formulas with fractions and cases."""

    parentheses = r"\left({0}\right)"
    nameless = ("add", "subtract", "multiply", "divide", "negative", "square", "power")
    operations: ClassVar[Mapping[str, tuple[str, int, tuple[int, ...]]]] = {
        "add": ("{0} + {1}", SUM, (SUM, PRODUCT)),
        "subtract": ("{0} - {1}", SUM, (SUM, PRODUCT)),
        "multiply": (r"{0}\,{1}", PRODUCT, (PRODUCT, PRODUCT)),
        "divide": (r"\frac{{{0}}}{{{1}}}", PRODUCT, (0, 0)),
        "negative": ("-{0}", SUM, (PRODUCT,)),
        "square": ("{0}^{{2}}", UNARY, (ATOM,)),
        "power": ("{0}^{{{1}}}", UNARY, (ATOM, 0)),
        "exp": (r"\exp\left({0}\right)", UNARY, (0,)),
        "log": (r"\log\left({0}\right)", UNARY, (0,)),
        "sqrt": (r"\sqrt{{{0}}}", UNARY, (0,)),
        "sin": (r"\sin\left({0}\right)", UNARY, (0,)),
        "expit": (r"\frac{{1}}{{1 + \exp\left(-{0}\right)}}", PRODUCT, (PRODUCT,)),
        "maximum": (r"\max\left({0}, {1}\right)", UNARY, (0, 0)),
        "minimum": (r"\min\left({0}, {1}\right)", UNARY, (0, 0)),
        "where": (
            r"\begin{{cases}} {1} & \text{{if }} {0} \\ {2} & \text{{otherwise}} \end{{cases}}",
            SUM,
            (0, 0, 0),
        ),
        "greater": ("{0} > {1}", 0, (SUM, SUM)),
        "equal": ("{0} = {1}", 0, (SUM, SUM)),
        "isnan": (r"{0} \text{{ is missing}}", 0, (SUM,)),
    }

    def __init__(self, program: Program, digits: int | None) -> None:
        super().__init__()
        self.inputs, self.digits = program.schema.inputs, digits

    def cell(self, cell: Any) -> str:
        """Write an input, an indicator of a category, or the linear predictor of a link."""
        if not isinstance(cell, Cell):
            return rf"\{cell}"
        one = self.inputs[cell.input]
        name = escape(one.name)
        if cell.lag:
            name = f"{{{name}}}_{{t - {cell.lag}}}"
        if cell.code >= 0 and one.categories is not None:
            return rf"\mathbf{{1}}[{name} = {escape(one.categories[cell.code])}]"
        condition = {MISSING: "is missing", OTHER: "is another category"}.get(cell.code)
        return name if condition is None else rf"\mathbf{{1}}[{name} \text{{ {condition}}}]"

    def number(self, value: float) -> str:
        """Write a number, a large or small one as a multiple of a power of ten."""
        text = repr(float(value)) if self.digits is None else f"{value:.{self.digits}g}"
        mantissa, _, exponent = text.removesuffix(".0").partition("e")
        return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa

    def part_name(self, number: int) -> str:
        """Return the symbol of a part."""
        return f"u_{{{number}}}"


def _outputs(program: Program, writer: Writer, terms: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the symbols and values of the linear predictors, and of what follows from them."""
    linear, labels, link = program.linear, program.labels, program.link
    symbol = "f" if labels is not None else r"\hat{y}" if link == "identity" else r"\eta"
    several, total = len(linear.intercept) > 1, symbol if linear.limits is None else r"\zeta"
    number = "_{{{}}}".format if several else lambda i: ""
    for i, (weights, intercept) in enumerate(zip(linear.weights, linear.intercept, strict=True)):
        text = f"-{writer.number(-intercept)}" if intercept < 0 else writer.number(intercept)
        for k, (weight, term) in enumerate(zip(weights, terms, strict=True)):
            text += r" \\" + "\n&\\quad {}" if k and k % LINE_TERMS == 0 else ""
            text += f" {'-' if weight < 0 else '+'} {writer.number(abs(weight))}\\,{term}"
        yield total + number(i + 1), text
    for i, (low, high) in enumerate(() if linear.limits is None else linear.limits.T.tolist(), start=1):
        above = rf"\max\left({total}{number(i)}, {writer.number(low)}\right)"
        yield symbol + number(i), rf"\min\left({above}, {writer.number(high)}\right)"
    if link == "sorted":
        etas = ", ".join(rf"\eta_{{{i + 1}}}" for i in range(len(linear.intercept)))
        yield r"\hat{y}_{1} \leq \hat{y}_{2} \leq \dots", rf"{etas} \text{{ in ascending order}}"
    elif link != "identity":
        (response,) = writer.write([LINKS[link]], {})
        yield r"\hat{y}", response
    if labels is not None and labels.sharpness is not None:
        slope = writer.number(labels.sharpness * (1 if several else 2))
        names = [escape(label) for label in labels.classes]
        if several:
            top, bottom = (rf"\exp\left({slope}\,f_{{{i}}}\right)" for i in ("k", "j"))
            order = ", ".join(names)
            yield "P_{k}", rf"\frac{{{top}}}{{\sum_{{j}} {bottom}}} \quad \text{{for the classes }} {order}"
        else:
            yield rf"P[{names[1]}]", rf"\frac{{1}}{{1 + \exp\left(-{slope}\,f\right)}}"
