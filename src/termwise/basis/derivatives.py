"""Derivatives of expressions, as expressions: exact, and evaluated or written by whatever reads the formula itself.

At a kink, where the two arguments of `maximum` or `minimum` are equal, it is the derivative from the right. That of a
square root is 0 where the root is 0: in a kernel of the distance itself the other factor of the chain rule, the
derivative of the squared distance, is 0 at the centre.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from termwise.basis.expressions import SUMS, Expression, apply, entry_of, power_product, variable, where, z

ZERO, ONE = Expression("constant", (0.0,)), Expression("constant", (1.0,))

# The variable x of the input that a sum is differentiated by is x:i; those of the summands keep their names.
BY = ":i"
CONDITIONS = ("greater", "equal", "isnan")  # of `where`; constant except for single points
NOT_NEGATIVE = ("square", "sum_squares", "exp", "expit", "sqrt")
same = variable("same")  # 1 for the summand of that input, else 0


def _slope_of_root(f: Expression, u: Expression) -> Any:
    """Return the derivative of `f = sqrt(u)`, 0 where f is 0; the condition is left out where u cannot be 0.

    There is one condition for each `where`: a shared part would be a variable of type double in C.
    """
    if _is_positive(u):
        return 0.5 / f
    return where(apply("equal", f, 0.0), 0.0, 0.5) / where(apply("equal", f, 0.0), 1.0, f)


def _is_positive(u: Expression) -> bool:
    """Whether an expression is a positive number plus one that is not negative."""
    if u.operation != "add":
        return False
    numbers = [part for part in u.arguments if part.operation == "constant" and part.arguments[0] > 0]
    return bool(numbers) and all(part in numbers or part.operation in NOT_NEGATIVE for part in u.arguments)


# Derivative of an operation by each of its arguments, given its value and the arguments.
PARTIALS: Mapping[str, tuple[Callable[..., Any], ...]] = {
    "add": (lambda f, u, v: ONE, lambda f, u, v: ONE),
    "subtract": (lambda f, u, v: ONE, lambda f, u, v: -ONE),
    "multiply": (lambda f, u, v: v, lambda f, u, v: u),
    "divide": (lambda f, u, v: 1.0 / v, lambda f, u, v: -f / v),
    "negative": (lambda f, u: -ONE,),
    "square": (lambda f, u: 2.0 * u,),
    "exp": (lambda f, u: f,),
    "sqrt": (_slope_of_root,),
    "sin": (lambda f, u: np.sin(u + np.pi / 2),),
    "expit": (lambda f, u: f * (1.0 - f),),
}


def _add(a: Expression, b: Expression) -> Expression:
    return b if a is ZERO else a if b is ZERO else apply("add", a, b)


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
    >>> from termwise.basis.derivatives import derivative
    >>> from termwise.basis.expressions import evaluate, z
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
    if node.operation in CONDITIONS or all(one is ZERO for one in inner):
        return ZERO
    if node.operation in ("maximum", "minimum"):
        (u, v), (du, dv) = node.arguments, inner
        first, second = np.greater(u, v), np.greater(v, u)  # which of them is the maximum
        if node.operation == "minimum":
            first, second = second, first
        return where(first, du, where(second, dv, apply(node.operation, du, dv)))
    total = ZERO
    for partial, du in zip(entry_of(PARTIALS, node), inner, strict=True):
        if du is not ZERO:
            total = _add(total, _multiply(partial(node, *node.arguments), du))
    return total


def derivatives_of_sums(expression: Expression) -> list[tuple[Expression, Expression]]:
    """Return the derivative of an expression with sums by one input, as a sum of products.

    The first factor is the derivative by a sum. The second one is that of the sum by the input number i: in it, `x:i`
    is the variable x of that input, and `same` is 1 for i and 0 for the other inputs inside of sums.
    """
    products = []
    for total in dict.fromkeys(node for node in expression.nodes() if node.operation in SUMS):
        u = total.arguments[0]
        if total.operation == "sum_squares":  # of u_i^2
            inner = _multiply(2.0 * u, derivative(u, z))
        else:  # of u_i v_i, or of u_i^v_i times the other factors
            inner = _multiply(total.arguments[1], derivative(u, z))
        inner = inner.substitute(**{name: variable(name + BY) for name in inner.variables()})
        if total.operation == "power_product":
            inner = _multiply(inner, power_product(u, total.arguments[1] - same))
        if inner is not ZERO:
            products.append((derivative(expression, total), inner))
    return products
