"""The methods of `Predictor` that write a model: its own file, and other languages."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from termwise._checks import check_bool, check_choice
from termwise._files import is_special, write_file
from termwise.deploy import EXPORTS, document, format_of, latex, pyomo, sql, symbolic
from termwise.deploy.c_interface import check_header
from termwise.deploy.program import Program


def header_of(path: str | os.PathLike[str]) -> Path | None:
    """Return where the header of a file of C is written: beside it, unless it is a device or has another suffix."""
    return Path(path).with_suffix(".h") if Path(path).suffix == ".c" and not is_special(path) else None


class Exports:
    """A model as plain data, as a file, and as source code."""

    _program: Program
    facts: dict[str, Any] | None
    task: str
    classes: list[Any] | None
    link: str

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain data, the content of its file."""
        names = ("steps", "linear", "labels", "series")
        parts = {name: document.to_plain(getattr(self._program, name)) for name in names}
        if self._program.folds:
            parts["folds"] = [one.to_plain() for one in self._program.folds]
        if self.link != "identity":
            parts["link"] = self.link
        head = {"format": document.FORMAT, "version": document.VERSION, "termwise": version("termwise")}
        rest = {"predictor": {**document.to_plain(self._program.schema), **parts}, "facts": self.facts}
        return {**head, "checksum": document.checksum(head | rest), **rest}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a JSON file.

        The file holds plain data in readable form, with exact numbers. It is written under a temporary name and then
        renamed, so that an interrupted save leaves the former file unchanged.

        Parameters
        ----------
        path : str or path
            Where to; `.json` is a good ending.
        """
        write_file(path, document.to_bytes(self.to_dict()))

    def export(self, path: str | os.PathLike[str], to: str | None = None, **options: Any) -> None:
        """Write the model in another language.

        Parameters
        ----------
        path : str or path
            Where to.
        to : str, default=None
            A format of `termwise.deploy.EXPORTS`, which says what each writes, such as "c", "onnx" or "sql".
            None: by the suffix of the path, such as `.c`, `.onnx` or `.sql`. Beside a file of C the header that
            declares its functions is written, `model.h` for `model.c`.
        **options : dict
            For "c" and "onnx" `dtype`, "float64" (the default) or "float32"; for "c" `name`, the prefix of the names of
            functions, and `gradient=True`, which writes a function for the gradient too; for "c" and "python" of a
            model of past values `simulation=True`, or the lowest and the highest output, which writes a free run with
            its state too; for "sql" and "latex" the parameters of `to_sql` and `to_latex`.

        Notes
        -----
        In float64 all formats agree with `predict` to 1e-12 of the sum of the absolute values of the terms, in float32
        to about 1e-4 for inputs of ordinary size; LaTeX is rounded.

        Python and C reject the inputs that `predict` rejects; in C categories are numbers, which a comment lists. ONNX
        cannot reject inputs: where a number is infinite, or missing although it must not be, predictions, scores and
        probabilities are NaN and the label has no meaning; an unknown category is none of the known ones. A missing
        value is None, NaN or NA in Python, NaN in C and ONNX, and for strings in ONNX the empty one. In SQL the result
        is NULL for inputs that `predict` rejects. For dates, all formats but "json" take the parts as numbers, such as
        `year(sold)`, see `TableEncoder`.
        """
        to = (format_of(Path(path).name) or Path(path).suffix) if to is None else to
        suffixes = ", ".join(one.suffix for one in EXPORTS.values())
        check_choice("to", to, EXPORTS, remedy=f"or end the path in one of {suffixes}")
        module = None if to == "json" else import_module(f"termwise.deploy.{EXPORTS[to].module}")
        allowed = [] if module is None else list(inspect.signature(module.source).parameters)[1:]
        for name in options:
            if name not in allowed:
                raise TypeError(
                    f"{name} is no option of an export to {to}, which has {', '.join(allowed) or 'none'}: leave it out."
                )
        if module is None:
            self.save(path)
            return
        content = module.source(self._exported, **options)
        header = header_of(path) if to == "c" else None
        if header is not None:
            check_header(header)
        write_file(path, content)
        if header is not None:
            write_file(header, module.header(self._exported, **options))

    @cached_property
    def _exported(self) -> Program:
        """The model of a table with the parts of dates as numbers."""
        return replace(self._program, schema=self._program.schema.numeric_dates())

    def to_sql(
        self,
        table: str | Sequence[str] = "data",
        keep: Sequence[str] | None = None,
        order_by: str | Sequence[str] | None = None,
        view: str | None = None,
    ) -> str:
        """Return a query in SQL that predicts every row of a table.

        It has the syntax that SQLite (from 3.35 on, with its mathematical functions), DuckDB and PostgreSQL share. Its
        columns are those to keep and `prediction` (`prediction_1` and so on of several outputs); of a classifier
        `label`, `score` or one per class (`score_yes`), and, where it has them, the probabilities of the classes
        (`probability_yes`). An underscore is added to a name that a kept column has. They are NULL for rows that
        `predict` rejects, such as those with a missing number that was never missing in the fit.

        Parameters
        ----------
        table : str or sequence of str, default="data"
            Name of the table; a sequence is a qualified name, such as `("schema", "table")`.
        keep : sequence of str, default=None
            Columns of the table to return beside the predictions, for example its key; None: the inputs in use.
        order_by : str or sequence of str, default=None
            Columns that order the rows in time, required for a model of past values.
        view : str, default=None
            Name of a view to create; None: the query alone.

        Examples
        --------
        >>> import numpy as np
        >>> from termwise import BasisRidge
        >>> X = np.arange(6.0).reshape(-1, 1)
        >>> query = BasisRidge(alpha=0).fit(X, 2 * X[:, 0] + 1).predictor_.to_sql("samples")
        >>> [line for line in query.splitlines() if line.startswith("FROM")]
        ['FROM "samples" AS t', 'FROM step_0', 'FROM step_1;']
        """
        return sql.source(self._exported, table, keep, order_by, view)

    def to_latex(self, digits: int | None = 4) -> str:
        r"""Return the model as equations in LaTeX, in an `align*` environment of amsmath.

        The first equations are linear combinations of the terms, the others define the terms :math:`h_k` and the parts
        :math:`u_i` that several of them share. A category is an indicator, and replacements of missing values are left
        out.

        Parameters
        ----------
        digits : int, default=4
            Significant digits of numbers; None: all.

        Examples
        --------
        >>> import numpy as np
        >>> from termwise import BasisRidge
        >>> X = np.arange(6.0).reshape(-1, 1)
        >>> print(BasisRidge(alpha=0).fit(X, 2 * X[:, 0] + 1).predictor_.to_latex())
        \begin{align*}
        \hat{y} &= 1 + 2\,x_{0}
        \end{align*}
        <BLANKLINE>
        """
        return latex.source(self._exported, digits)

    def to_sympy(self, proba: bool = False) -> Any:
        """Return the model as an expression of SymPy.

        Symbols have the names of the inputs. The symbol `kind=a` of a category is 1 where the input is this category,
        else 0, and that of a past value is called `x(t-2)`.

        Parameters
        ----------
        proba : bool, default=False
            Whether to return the probabilities of the classes instead.

        Returns
        -------
        expression : sympy.Expr or list of sympy.Expr
            What `predict`, or of a classifier `decision_function`, returns: a list of several outputs; with `proba`
            what `predict_proba` returns.

        Examples
        --------
        >>> import numpy as np
        >>> from termwise import BasisRidge
        >>> X = np.arange(6.0).reshape(-1, 1)
        >>> BasisRidge(alpha=0).fit(X, 2 * X[:, 0] + 1).predictor_.to_sympy()  # doctest: +SKIP
        2.0*x0 + 1.0
        """
        check_bool("proba", proba, remedy="True is for classifiers with predict_proba")
        found = symbolic.expressions(self._exported)
        name = "probabilities" if proba else "prediction" if self.classes is None else "score"
        if name not in found:
            raise ValueError(
                f"proba=True requires a classifier with probabilities, got a {self.task} without: leave it out."
            )
        return found[name]

    def to_pyomo(self, variables: Any) -> Any:
        """Return the model as an expression of Pyomo, for an objective or a constraint.

        Parameters
        ----------
        variables : mapping or indexed variable
            A variable, or an expression, of Pyomo for every input in use, by its name. The name `kind=a` of a category
            is for a number, such as a binary variable, that is 1 where the input is this category, else 0.

        Returns
        -------
        expression : Pyomo expression or list
            What `predict`, or of a classifier `decision_function`, returns: a list of several outputs.

        Notes
        -----
        Inputs are clipped to the range of the training data by `Expr_if`, which not every solver takes: Ipopt does.

        Examples
        --------
        >>> import numpy as np
        >>> import pyomo.environ as pyo  # doctest: +SKIP
        >>> from termwise import BasisRidge
        >>> X = np.arange(6.0).reshape(-1, 1)
        >>> predictor = BasisRidge(alpha=0).fit(X, 2 * X[:, 0] + 1).predictor_
        >>> model = pyo.ConcreteModel()  # doctest: +SKIP
        >>> model.x = pyo.Var(bounds=(0, 5), initialize=3.0)  # doctest: +SKIP
        >>> pyo.value(predictor.to_pyomo({"x0": model.x}))  # doctest: +SKIP
        7.0
        """
        if not hasattr(variables, "keys"):  # an indexed variable of Pyomo is no Mapping
            raise TypeError(
                f"variables must be a mapping from names of inputs to variables of Pyomo, got {variables!r}: give "
                "{'x0': model.x0}."
            )
        return pyomo.expressions(self._exported, variables)
