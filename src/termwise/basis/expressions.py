"""Small expressions: the formula of a basis function, written once and read by every evaluator and every export.

A formula is a tree of operations on named variables: `+ - * /`, NumPy's `exp`, `log`, `sqrt`, `sin`, `square`,
`maximum`, `minimum`, `isnan`, `equal` and `greater`, and the few functions below (`logistic`, `where`, sums and
products over inputs):

    np.exp(-np.square((z - centers) / widths))

The variable `z` is the input of a function, or each input in turn inside a sum over inputs (`sum_squares`, `dot`,
`power_product`); the other variables are parameters. `evaluate` computes an expression by NumPy or another array
library, `derivative` differentiates it, `SourceWriter` writes it as statements of C or Python, and
`termwise.deploy.onnx` as nodes of a graph.

Other NumPy functions, powers among them (`np.square(u)`, not `u**2`), can be evaluated, but an export raises an error
that names them: to add one, give it an entry in the tables of operations of the writers in `termwise.deploy` (C,
Python, ONNX, SQL, SymPy, LaTeX) and in `PARTIALS`.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from scipy.special import expit

from termwise._arrays import Array

Entry = TypeVar("Entry")


@dataclass(frozen=True, eq=False)
class Expression(NDArrayOperatorsMixin):
    """An operation on other expressions; a variable or a constant, whose one argument is its name or its value.

    Operations are those of NumPy (and SciPy's `expit`), by their names, and those of `SUMS`, and `where`.
    """

    operation: str
    arguments: tuple[Any, ...]

    __eq__ = object.__eq__  # the mixin compares entries
    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: Any, method: str, *arguments: Any) -> Any:
        """Build an expression where NumPy would compute."""
        return apply(ufunc.__name__, *arguments) if method == "__call__" else NotImplemented

    @property
    def is_leaf(self) -> bool:
        """Whether it is a variable or a constant."""
        return self.operation in ("variable", "constant")

    def nodes(self) -> Iterator[Expression]:
        """Yield all its parts, each as often as it occurs, and itself last."""
        for argument in () if self.is_leaf else self.arguments:
            yield from argument.nodes()
        yield self

    def variables(self) -> list[str]:
        """Names of its variables, in the order of their first occurrence."""
        return list(dict.fromkeys(node.arguments[0] for node in self.nodes() if node.operation == "variable"))

    def substitute(self, **replacements: Expression) -> Expression:
        """Return the expression with other expressions in place of some variables; shared parts stay shared."""
        found: dict[Expression, Expression] = {}
        for node in dict.fromkeys(self.nodes()):  # arguments come first
            if node.is_leaf:
                found[node] = replacements.get(node.arguments[0], node) if node.operation == "variable" else node
            else:
                found[node] = apply(node.operation, *(found[argument] for argument in node.arguments))
        return found[self]


def apply(operation: str, *arguments: Any) -> Any:
    """Return an operation on expressions and numbers; of two minus signs nothing is left."""
    nodes = tuple(a if isinstance(a, Expression) else Expression("constant", (a,)) for a in arguments)
    if operation == "negative" and nodes[0].operation == "negative":
        return nodes[0].arguments[0]
    return Expression(operation, nodes)


@cache
def variable(name: str) -> Any:
    """Return the variable of a name, one object for all its occurrences."""
    return Expression("variable", (name,))


z = variable("z")
where = partial(apply, "where")  # condition, value, otherwise; a condition is a comparison, isnan(u) or a parameter
sum_squares = partial(apply, "sum_squares")  # sum_j u_j^2
logistic = partial(apply, "expit")  # 1 / (1 + exp(-u))
dot = partial(apply, "dot")  # sum_j u_j v_j, where u has no parameter of the function and v no input
power_product = partial(apply, "power_product")  # prod_j u_j^v_j, for whole v_j >= 0
SUMS = ("sum_squares", "dot", "power_product")


def entry_of(operations: Mapping[str, Entry], node: Expression) -> Entry:
    """Return the entry of an operation in a table; raise if it is a function of NumPy that the table has not."""
    if node.operation not in operations:
        raise ValueError(
            f"formulas of a basis must be made of {', '.join(operations)} for exports, gradients and bounds, got "
            f"{node.operation}: write it by these, or use the predictions of the model alone."
        )
    return operations[node.operation]


# -- evaluation --------------------------------------------------------------------------------------------------------

IN_PLACE_SIZE = 1 << 12  # entries, below which a new array costs less than finding one to reuse

OPERATORS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "negative": "neg"}


def _power_product(u: Array, powers: Array) -> Array:
    """One function at a time, from the inputs in it alone."""
    terms = [np.prod(u[:, 0, row > 0] ** row[row > 0], axis=1) for row in powers]
    return np.column_stack([*terms, np.empty((len(u), 0))])


OTHERS: dict[str, Callable[..., Array]] = {
    "where": np.where,
    "isnan": np.isnan,
    "equal": np.equal,
    "greater": np.greater,
    "sum_squares": lambda u: np.einsum("...j,...j->...", u, u),
    "dot": lambda u, v: u[:, 0] @ v.T,  # by BLAS
    "power_product": _power_product,
}


@cache
def _ordered_parts(expression: Expression) -> tuple[list[Expression], frozenset[Expression]]:
    """Return all parts, each once and after its arguments, and those used more than once as arguments."""
    parts = list(dict.fromkeys(expression.nodes()))
    uses = Counter(argument for node in parts if not node.is_leaf for argument in node.arguments)
    return parts, frozenset(node for node, count in uses.items() if count > 1)


def evaluate(
    expression: Expression, variables: Mapping[str, Array], xp: Any = np, overwrite: Collection[str] = ()
) -> Array:
    """Compute an expression.

    Inside sums over inputs `z` has shape (n, 1, inputs) and parameters (inputs,) or (functions, inputs); elsewhere `z`
    has shape (n, functions) and parameters (functions,). NumPy's intermediate results are computed in place.

    Parameters
    ----------
    expression : Expression
        The formula.
    variables : dict
        Values by name: arrays of one library.
    xp : module, default=numpy
        The functions of that library; sums over inputs are computed by NumPy only.
    overwrite : collection of str
        Variables whose arrays may be used as working memory.
    """
    parts, shared = _ordered_parts(expression)
    in_place = xp is np and any(np.size(value) >= IN_PLACE_SIZE for value in variables.values())
    values: dict[Expression, Array] = {}
    for node in parts:
        if node.is_leaf:
            name_or_number = node.arguments[0]
            values[node] = variables[name_or_number] if node.operation == "variable" else name_or_number
            continue
        arguments = [values[argument] for argument in node.arguments]
        if xp is not np:
            name = OPERATORS.get(node.operation)  # which take Python's numbers in every library
            values[node] = (getattr(operator, name) if name else getattr(xp, node.operation))(*arguments)
        elif node.operation in OTHERS:
            values[node] = OTHERS[node.operation](*arguments)
        else:
            ufunc = expit if node.operation == "expit" else getattr(np, node.operation)
            free = []  # arrays of the right kind that nothing else needs
            if in_place:
                unshared = [a for a in node.arguments if a not in shared]
                own = [values[a] for a in unshared if a.operation != "variable" or a.arguments[0] in overwrite]
                kind = np.broadcast_shapes(*map(np.shape, arguments)), np.result_type(*arguments)
                free = [array for array in own if isinstance(array, np.ndarray) and (array.shape, array.dtype) == kind]
            values[node] = ufunc(*arguments, out=free[0]) if free else ufunc(*arguments)
    return values[expression]


# -- derivatives -------------------------------------------------------------------------------------------------------

# They are expressions, too: exact, and evaluated or written by whatever reads the formula itself. At a kink, where the
# two arguments of `maximum` or `minimum` are equal, it is the derivative from the right. That of a square root is 0
# where the root is 0: in a kernel of the distance itself the other factor of the chain rule, the derivative of the
# squared distance, is 0 at the centre.

ZERO, ONE = Expression("constant", (0.0,)), Expression("constant", (1.0,))

# The variable x of the input that a sum is differentiated by is x:i; those of the summands keep their names.
BY = ":i"
CONDITIONS = ("greater", "equal", "isnan")  # of `where`; constant except for single points
NOT_NEGATIVE = ("square", "sum_squares", "exp", "expit", "sqrt")
same = variable("same")  # 1 for the summand of that input, else 0


def _slope_of_root(f: Expression, u: Expression) -> Any:
    """Return the derivative of `f = sqrt(u)`, 0 where f is 0.

    The condition is left out where u is a positive number plus one that is not negative. There is one condition for
    each `where`: a shared part would be a variable of type double in C.
    """
    parts = u.arguments if u.operation == "add" else ()
    numbers = [part for part in parts if part.operation == "constant" and part.arguments[0] > 0]
    if numbers and all(part in numbers or part.operation in NOT_NEGATIVE for part in parts):
        return 0.5 / f
    return where(apply("equal", f, 0.0), 0.0, 0.5) / where(apply("equal", f, 0.0), 1.0, f)


# Derivative of an operation by each of its arguments, given its value and the arguments.
PARTIALS: Mapping[str, tuple[Callable[..., Any], ...]] = {
    "add": (lambda f, u, v: ONE, lambda f, u, v: ONE),
    "subtract": (lambda f, u, v: ONE, lambda f, u, v: -ONE),
    "multiply": (lambda f, u, v: v, lambda f, u, v: u),
    "divide": (lambda f, u, v: 1.0 / v, lambda f, u, v: -f / v),
    "negative": (lambda f, u: -ONE,),
    "square": (lambda f, u: 2.0 * u,),
    "exp": (lambda f, u: f,),
    "log": (lambda f, u: 1.0 / u,),
    "sqrt": (_slope_of_root,),
    "sin": (lambda f, u: np.sin(u + np.pi / 2),),
    "expit": (lambda f, u: f * (1.0 - f),),
}


def _multiply(a: Expression, b: Expression) -> Expression:
    return ZERO if ZERO in (a, b) else b if a is ONE else a if b is ONE else apply("multiply", a, b)


def derivative(expression: Expression, by: Expression) -> Any:
    """Return the derivative of an expression by one of its variables or by one of its sums over inputs.

    Parameters
    ----------
    expression : Expression
        A formula.
    by : Expression
        A variable, or a sum over inputs that is part of the formula.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise.basis.expressions import derivative, evaluate, z
    >>> float(evaluate(derivative(np.exp(-np.square(z)), z), {"z": 1.0}))  # -2 z exp(-z^2)
    -0.7357588823428847
    """
    known: dict[Expression, Expression] = {by: ONE}
    for node in dict.fromkeys(expression.nodes()):  # arguments come first
        if node not in known:
            known[node] = ZERO if node.is_leaf or node.operation in SUMS else _by_arguments(node, known)
    return known[expression]


def _by_arguments(node: Expression, known: Mapping[Expression, Expression]) -> Expression:
    """Apply the chain rule, given the derivatives of the arguments."""
    inner = [known[argument] for argument in node.arguments]
    if node.operation == "where":
        return inner[1] if inner[1] is inner[2] else where(node.arguments[0], inner[1], inner[2])
    if node.operation in CONDITIONS or all(du is ZERO for du in inner):
        return ZERO
    if node.operation in ("maximum", "minimum"):
        (u, v), (du, dv) = node.arguments, inner
        first, second = np.greater(u, v), np.greater(v, u)  # which of them is the maximum
        if node.operation == "minimum":
            first, second = second, first
        return where(first, du, where(second, dv, apply(node.operation, du, dv)))
    total = ZERO
    for partial_derivative, du in zip(entry_of(PARTIALS, node), inner, strict=True):
        if du is not ZERO:
            product = _multiply(partial_derivative(node, *node.arguments), du)
            total = product if total is ZERO else total if product is ZERO else apply("add", total, product)
    return total


def derivatives_of_sums(expression: Expression) -> list[tuple[Expression, Expression]]:
    """Return the derivative of an expression with sums by one input, as a sum of products.

    The first factor is the derivative by a sum. The second one is that of the sum by the input number i: in it, `x:i`
    is the variable x of that input, and `same` is 1 for i and 0 for the other inputs inside of sums.
    """
    products = []
    for total in dict.fromkeys(node for node in expression.nodes() if node.operation in SUMS):
        u = total.arguments[0]
        factor = 2.0 * u if total.operation == "sum_squares" else total.arguments[1]  # of u_i^2; of u_i v_i or u_i^v_i
        inner = _multiply(factor, derivative(u, z))
        inner = inner.substitute(**{name: variable(name + BY) for name in inner.variables()})
        if total.operation == "power_product":
            inner = _multiply(inner, power_product(u, total.arguments[1] - same))
        if inner is not ZERO:
            products.append((derivative(expression, total), inner))
    return products


# -- source code -------------------------------------------------------------------------------------------------------


class SourceWriter(ABC):
    """Writes an expression as statements, and sums over inputs as loops, of a language.

    A subclass has templates, in the form of `str.format`: of more `operations` with their arguments {0}, {1}, ...; of
    `reductions`, the operations in `SUMS`, an initial value and a statement that updates {total}; and of the statements
    that define a variable, `constant` and `changing`, with {name} and {value}.
    """

    operations: ClassVar[Mapping[str, str]] = {
        "add": "({0} + {1})",
        "subtract": "({0} - {1})",
        "multiply": "({0} * {1})",
        "divide": "({0} / {1})",
        "negative": "(-{0})",
        "square": "({0} * {0})",
    }
    reductions: ClassVar[Mapping[str, tuple[str, str]]]
    constant: ClassVar[str]
    changing: ClassVar[str]

    def __init__(self) -> None:
        self._texts: dict[Expression, str] = {}
        self._shared: frozenset[Expression] = frozenset()
        self.lines: list[str] = []  # statements of the block that is being written
        self.inside = False  # whether that is the body of a sum over inputs
        self._count = 0

    @abstractmethod
    def variable(self, name: str) -> str:
        """Write the value of a variable, that of the current input inside a sum."""

    @abstractmethod
    def number(self, value: float) -> str:
        """Write a number."""

    @abstractmethod
    def loop(self, names: list[str], body: list[str]) -> list[str]:
        """Write a loop over the inputs, whose body uses these variables."""

    def value(self, node: Expression) -> str:
        """Return the text of an expression; `lines` then holds the statements before it."""
        if node.is_leaf:
            return (self.variable if node.operation == "variable" else self.number)(node.arguments[0])
        if node in self._texts:
            return self._texts[node]
        if node.operation in self.reductions:
            initial, update = self.reductions[node.operation]
            before, self.lines, self.inside = self.lines, [], True
            arguments = self._arguments(node, update)
            body, self.lines, self.inside = self.lines, before, False
            text = self._define("total", initial, self.changing)
            self.lines += self.loop(node.variables(), [*body, update.format(*arguments, total=text)])
        else:
            template = entry_of(self.operations, node)
            text = template.format(*self._arguments(node, template))
        self._texts[node] = self._define("u", text) if node in self._shared else text
        return self._texts[node]

    def write(self, expression: Expression) -> tuple[list[str], str]:
        """Return the statements before the value of an expression, and the text of the value."""
        self.lines, self._texts, (_, self._shared) = [], {}, _ordered_parts(expression)
        text = _without_parentheses(self.value(expression))
        return self.lines, text

    def _arguments(self, node: Expression, template: str) -> list[str]:
        """Write the arguments of an operation; those that the template repeats get a name."""
        texts = []
        for i, argument in enumerate(node.arguments):
            text = self.value(argument)
            repeated = template.count(f"{{{i}}}") > 1 and not argument.is_leaf and argument not in self._shared
            text = self._define("u", text) if repeated else text
            texts.append(_without_parentheses(text) if f"({{{i}}})" in template else text)
        return texts

    def _define(self, kind: str, value: str, template: str | None = None) -> str:
        """Write the definition of a new variable and return its name."""
        self._count += 1
        name = f"{kind}_{self._count}"
        self.lines.append((template or self.constant).format(name=name, value=_without_parentheses(value)))
        return name


def _without_parentheses(text: str) -> str:
    """Return a text without the parentheses around all of it."""
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and i + 1 < len(text):
            return text
    return text[1:-1] if text.startswith("(") else text
