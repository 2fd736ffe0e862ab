"""A model as expressions of Pyomo, to optimise over its inputs or to use it as a constraint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from termwise._checks import import_optional
from termwise.basis.encoder import listing
from termwise.deploy.formulas import ATOM, PRODUCT, Formulas, names_of
from termwise.deploy.program import Program
from termwise.deploy.symbolic import Writer as SympyWriter
from termwise.deploy.symbolic import assignments


def source(program: Program) -> str:
    """Return a module of Python with a function `prediction(x)`, or of a classifier `score(x)`.

    x is a mapping from the names in `INPUTS` to variables or expressions of Pyomo. The name `kind=a` of a category is
    for a number that is 1 where the input is this category, else 0. The result is an expression, or a list of several.
    """
    writer, formulas = Writer(program), Formulas.from_program(program)
    names = names_of(formulas.terms, "term_{}")
    outputs = writer.write(formulas.outputs, names)
    lines = ['"""A model written by termwise, as expressions of Pyomo."""', "", "import pyomo.environ as pyo", ""]
    lines += [f"INPUTS = [{', '.join(map(repr, writer.symbols))}]", "", ""]
    lines += [f"def {'prediction' if program.labels is None else 'score'}(x):"]
    lines += ['    """Return the model, given a variable or an expression for each of INPUTS."""']
    lines += [f"    {name} = x[{symbol!r}]" for symbol, name in writer.symbols.items()]
    lines += [f"    {line}" for line in assignments(writer, names, formulas, program)]
    result = outputs[0] if program.linear.one_output else f"[{', '.join(outputs)}]"
    return "\n".join([*lines, f"    return {result}"]) + "\n"


def expressions(program: Program, variables: Any) -> Any:
    """Return the expression that the function of `source` builds, or the list of several."""
    import_optional("pyomo", "pyomo", "Writing Pyomo expressions")
    names: dict[str, Any] = {}
    exec(source(program), names)  # what is from outside is in string literals and comments
    absent = [name for name in names["INPUTS"] if name not in variables]
    if absent:
        raise ValueError(
            f"variables must have an entry for every input in use, got none for {listing(absent)}: the model uses "
            f"{listing(names['INPUTS'])}."
        )
    return names["prediction" if program.labels is None else "score"](variables)


class Writer(SympyWriter):
    """Writes formulas in Python, with functions of Pyomo."""

    operations: ClassVar[Mapping[str, tuple[str, int, tuple[int, ...]]]] = {
        **SympyWriter.operations,
        "exp": ("pyo.exp({0})", ATOM, (0,)),
        "log": ("pyo.log({0})", ATOM, (0,)),
        "sqrt": ("pyo.sqrt({0})", ATOM, (0,)),
        "sin": ("pyo.sin({0})", ATOM, (0,)),
        "expit": ("1 / (1 + pyo.exp(-{0}))", PRODUCT, (PRODUCT,)),
        "maximum": ("pyo.Expr_if({0} > {1}, {0}, {1})", ATOM, (1, 1)),
        "minimum": ("pyo.Expr_if({0} > {1}, {1}, {0})", ATOM, (1, 1)),
        "where": ("pyo.Expr_if({0}, {1}, {2})", ATOM, (0, 0, 0)),
        "equal": ("{0} == {1}", 0, (1, 1)),
    }
    missing = "{} == 1"
