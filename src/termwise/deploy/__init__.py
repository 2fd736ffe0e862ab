"""A fitted model as plain data: evaluated, stored in a file, and exported to other languages.

This module has the table of formats, without NumPy, as the help of the command line lists them.
"""

from __future__ import annotations

from typing import NamedTuple


class Format(NamedTuple):
    """A format of `Predictor.export`."""

    suffix: str  # of its files
    module: str  # of this package, whose function `source(program, **options)` returns the content of the file
    content: str  # what that is


EXPORTS = {
    "onnx": Format(".onnx", "onnx", "a graph for any ONNX runtime"),
    "c": Format(".c", "c", "one C99 source file that needs no library and allocates no memory, and beside it a header"),
    "python": Format(".py", "python", "a module that imports `math` alone"),
    "sql": Format(".sql", "sql", "a query, as that of `to_sql`"),
    "sympy": Format(".sympy.py", "symbolic", "a module with the expressions of `to_sympy`"),
    "pyomo": Format(".pyomo.py", "pyomo", "a module with the expressions of `to_pyomo`"),
    "latex": Format(".tex", "latex", "equations, as those of `to_latex`"),
    "json": Format(".json", "", "the file of `save`"),  # by the predictor itself
}


def format_of(name: str) -> str | None:
    """Return the format of a file by the end of its name, the longest that fits; None if there is none."""
    found = [key for key, one in EXPORTS.items() if name.endswith(one.suffix)]
    return max(found, key=lambda key: len(EXPORTS[key].suffix), default=None)
