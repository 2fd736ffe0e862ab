"""A model as expressions of SymPy, to simplify, to differentiate, to integrate or to generate code from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from termwise._checks import import_optional
from termwise.basis.encoder import MISSING, name_encoded
from termwise.basis.expressions import Expression
from termwise.deploy.formulas import (
    ATOM,
    PRODUCT,
    SUM,
    UNARY,
    Cell,
    Formulas,
    FormulaWriter,
    cells_of,
    names_of,
    printable,
)
from termwise.deploy.program import Program


def source(program: Program) -> str:
    """Return a module of Python that builds the expressions.

    It has `prediction` or, of a classifier, `score` and, where it has them, `probabilities`, a list in the order of the
    classes; several outputs are a list too. Symbols have the names of the inputs. The symbol `kind=a` of a category is
    1 where the input is this category, else 0; `x(t-2)` is the value two rows before, and `missing(x)` is 1 where x is
    missing, else 0. An underscore is added where an input has that name.
    """
    writer, formulas = Writer(program), Formulas.from_program(program)
    names = names_of(formulas.terms, "term_{}")
    outputs = writer.write([*formulas.outputs, *formulas.probabilities], names)
    probabilities = [outputs.pop() for _ in formulas.probabilities][::-1]
    lines = ['"""A model written by termwise, as expressions of SymPy."""', "", "import sympy", ""]
    lines += [f"{name} = sympy.Symbol({symbol!r})" for symbol, name in writer.symbols.items()]
    lines += assignments(writer, names, formulas, program)
    outputs = [f"sympy.sympify({text})" for text in outputs]  # of a model without terms, it is a number
    result = outputs[0] if program.linear.one_output else f"[{', '.join(outputs)}]"
    lines.append(f"{'prediction' if program.labels is None else 'score'} = {result}")
    if probabilities:
        lines.append(f"probabilities = [{', '.join(probabilities)}]")
    return "\n".join(lines) + "\n"


def assignments(
    writer: FormulaWriter, names: Mapping[Expression, str], formulas: Formulas, program: Program
) -> list[str]:
    """Return a line of Python for each definition of a writer, those of terms with their names as comments."""
    comments = {names[term]: name for term, name in zip(formulas.terms, program.linear.names, strict=True)}
    return [
        f"{one.name} = {one.text}{f'  # {printable(comments[one.name])}' if comments.get(one.name) else ''}"
        for one in writer.definitions
    ]


def expressions(program: Program) -> dict[str, Any]:
    """Return the expressions that `source` builds, by their names."""
    import_optional("sympy", "sympy", "Writing SymPy expressions")
    names: dict[str, Any] = {}
    exec(source(program), names)  # what is from outside is in string literals and comments
    return names


class Writer(FormulaWriter):
    """Writes formulas in Python, with functions of SymPy."""

    operations: ClassVar[Mapping[str, tuple[str, int, tuple[int, ...]]]] = {
        "add": ("{0} + {1}", SUM, (SUM, PRODUCT)),
        "subtract": ("{0} - {1}", SUM, (SUM, PRODUCT)),
        "multiply": ("{0} * {1}", PRODUCT, (PRODUCT, UNARY)),
        "divide": ("{0} / {1}", PRODUCT, (PRODUCT, UNARY)),
        "negative": ("-{0}", SUM, (PRODUCT,)),
        "square": ("{0}**2", UNARY, (ATOM,)),
        "power": ("{0}**{1}", UNARY, (ATOM, ATOM)),
        "exp": ("sympy.exp({0})", ATOM, (0,)),
        "log": ("sympy.log({0})", ATOM, (0,)),
        "sqrt": ("sympy.sqrt({0})", ATOM, (0,)),
        "sin": ("sympy.sin({0})", ATOM, (0,)),
        "expit": ("1 / (1 + sympy.exp(-{0}))", PRODUCT, (PRODUCT,)),
        "maximum": ("sympy.Max({0}, {1})", ATOM, (0, 0)),
        "minimum": ("sympy.Min({0}, {1})", ATOM, (0, 0)),
        "where": ("sympy.Piecewise(({1}, {0}), ({2}, True))", ATOM, (0, 0, 0)),
        "greater": ("{0} > {1}", 0, (SUM, SUM)),
        "equal": ("sympy.Eq({0}, {1})", ATOM, (0, 0)),
        "isnan": ("", ATOM, (0,)),  # by symbols of its own
    }

    missing: ClassVar[str] = "sympy.Eq({}, 1)"

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.inputs = program.schema.inputs
        self.symbols: dict[str, str] = {}  # names in the module, by the names of symbols

    def cell(self, cell: Cell) -> str:
        """Return the name of a symbol."""
        one = self.inputs[cell.input]
        name = name_encoded(one.name, cell.code, one.kind, one.categories or ()) + f"(t-{cell.lag})" * bool(cell.lag)
        return self._symbol(name, own=name != one.name)

    def _symbol(self, name: str, own: bool) -> str:
        """Return the name of a symbol in the module; one of our own must not be that of an input."""
        while own and any(name == one.name for one in self.inputs):
            name += "_"
        return self.symbols.setdefault(name, f"input_{len(self.symbols) + 1}")

    def number(self, value: float) -> str:
        """Write a number with all its digits; a square has a template of its own, since SymPy then simplifies it."""
        return repr(value)

    def part_name(self, number: int) -> str:
        """Return the name of a part."""
        return f"part_{number}"

    def _text(self, node: Expression) -> tuple[str, int, int]:
        if node.operation != "isnan":
            return super()._text(node)
        inputs = [self.inputs[one.arguments[0].input] for one in cells_of([node])]
        names = [name_encoded(one.name, MISSING, one.kind, one.categories or ()) for one in inputs]
        symbols = [self._symbol(name, own=True) for name in names]
        return " | ".join(self.missing.format(one) for one in symbols), 0, 0
