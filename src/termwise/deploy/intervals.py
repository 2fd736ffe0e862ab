"""Interval arithmetic: bounds of a weighted sum of formulas, and of its derivatives, over many boxes at once.

Every operation maps intervals of its arguments to one that contains all its values; ends are moved outwards by more
than the rounding of the operation. Derivatives are accumulated backwards, from the sum to its variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from termwise.basis.expressions import Expression, entry_of
from termwise.deploy.formulas import parts_of

Floats = NDArray[np.float64]

ROUNDING = 8 * np.finfo(np.float64).eps  # relative: more than the errors of elementary functions


class Interval(NamedTuple):
    """Lower and upper ends, one each or for every box."""

    low: Any
    high: Any


def outward(low: Floats, high: Floats) -> Interval:
    """Return an interval that also contains the exact ends, which were rounded; a lower end is never +infinity."""
    return Interval(np.nextafter(low, -np.inf), np.nextafter(high, np.inf))


# -- operations --------------------------------------------------------------------------------------------------------


def widened(low: Floats, high: Floats) -> Interval:
    """Return an interval around the exact values of an elementary function, given those that were computed."""
    low = np.minimum(low, np.finfo(np.float64).max)  # infinity less infinity is no number
    return outward(low - ROUNDING * np.abs(low), high + ROUNDING * np.abs(high))


def add(u: Interval, v: Interval) -> Interval:
    """Add intervals."""
    return outward(u.low + v.low, u.high + v.high)


def negative(u: Interval) -> Interval:
    """Change the sign."""
    return Interval(-u.high, -u.low)


def multiply(u: Interval, v: Interval) -> Interval:
    """Multiply intervals; zero times infinity is zero."""
    if u.low is u.high or v.low is v.high:  # a constant
        factor, ends = (u.low, v) if u.low is u.high else (v.low, u)
        ends = ends if factor >= 0 else Interval(ends.high, ends.low)
        low, high = factor * ends.low, factor * ends.high
    else:
        a, b, c, d = u.low * v.low, u.low * v.high, u.high * v.low, u.high * v.high
        low, high = np.fmin(np.fmin(a, b), np.fmin(c, d)), np.fmax(np.fmax(a, b), np.fmax(c, d))
    return outward(np.where(np.isnan(low), 0.0, low), np.where(np.isnan(high), 0.0, high))


def divide(u: Interval, v: Interval) -> Interval:
    """Divide intervals; all numbers where the divisor may be zero."""
    if v.low is v.high and v.low != 0:
        low, high = (u.low, u.high) if v.low > 0 else (u.high, u.low)
        return outward(low / v.low, high / v.low)
    safe = (v.low > 0) | (v.high < 0)
    low, high = (
        np.where(safe, 1 / np.where(safe, end, 1.0), sign * np.inf) for end, sign in ((v.high, -1), (v.low, 1))
    )
    return multiply(u, outward(low, high))


def power(u: Interval, v: Interval) -> Interval:
    """Raise to a whole power >= 0."""
    exponent = float(v.high)
    first, second = u.low**exponent, u.high**exponent
    if exponent % 2:
        return widened(first, second)
    ends = widened(np.minimum(first, second), np.maximum(first, second))
    return Interval(np.where((u.low < 0) & (u.high > 0), 0.0, np.maximum(ends.low, 0.0)), ends.high)


def sine(u: Interval) -> Interval:
    """Return the sines of all numbers of an interval."""
    turn, values = 2 * np.pi, (np.sin(u.low), np.sin(u.high))
    ends = widened(np.minimum(*values), np.maximum(*values))
    # A margin around the extrema accounts for the rounding of large arguments.
    margin = ROUNDING * (1 + np.maximum(np.abs(u.low), np.abs(u.high)))

    def reaches(place: float) -> NDArray[np.bool_]:
        return np.floor((u.high - place + margin) / turn) >= np.ceil((u.low - place - margin) / turn)

    top, bottom = reaches(np.pi / 2), reaches(-np.pi / 2)
    return Interval(np.where(bottom, -1.0, np.maximum(ends.low, -1.0)), np.where(top, 1.0, np.minimum(ends.high, 1.0)))


def constant(value: float) -> Interval:
    """Return a number as an interval; both ends are one object, by which operations know it."""
    number = np.float64(value)
    return Interval(number, number)


ONE, TWO = constant(1.0), constant(2.0)


def increasing(function: Callable[[Floats], Floats]) -> Callable[[Interval], Interval]:
    """Return an increasing function of intervals."""
    return lambda u: widened(function(u.low), function(u.high))


def logarithm(u: Floats) -> Floats:
    """Return the logarithms of numbers, -inf where they are not positive."""
    return np.log(u, out=np.full_like(u, -np.inf), where=u > 0)


def where(condition: Interval, u: Interval, v: Interval) -> Interval:
    """Return the first interval where a condition holds, the second where it does not, both where that is open."""
    low = np.where(condition.low > 0, u.low, np.where(condition.high > 0, np.minimum(u.low, v.low), v.low))
    high = np.where(condition.low > 0, u.high, np.where(condition.high > 0, np.maximum(u.high, v.high), v.high))
    return Interval(low, high)


def condition(certain: NDArray[np.bool_], possible: NDArray[np.bool_]) -> Interval:
    """Return a condition: [1, 1] where it holds, [0, 0] where it does not, else [0, 1]."""
    return Interval(certain.astype(np.float64), possible.astype(np.float64))


OPERATIONS: dict[str, Callable[..., Interval]] = {
    "add": add,
    "subtract": lambda u, v: add(u, negative(v)),
    "multiply": multiply,
    "divide": divide,
    "negative": negative,
    "square": lambda u: power(u, TWO),
    "power": power,
    "exp": increasing(np.exp),
    "log": increasing(logarithm),
    "sqrt": increasing(lambda u: np.sqrt(np.maximum(u, 0.0))),
    "sin": sine,
    "expit": increasing(expit),
    "maximum": lambda u, v: Interval(np.maximum(u.low, v.low), np.maximum(u.high, v.high)),
    "minimum": lambda u, v: Interval(np.minimum(u.low, v.low), np.minimum(u.high, v.high)),
    "greater": lambda u, v: condition(u.low > v.high, u.high > v.low),
    "equal": lambda u, v: condition((u.low == v.high) & (u.high == v.low), (u.low <= v.high) & (u.high >= v.low)),
    "isnan": lambda u: condition(np.zeros_like(u.low, dtype=bool), np.zeros_like(u.low, dtype=bool)),
    "where": where,
}


def alternatives(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> tuple[Interval, Interval]:
    """Return derivatives by two alternatives, given where only the first and where only the second is possible."""
    return (
        Interval(np.where(first, 1.0, 0.0), np.where(second, 0.0, 1.0)),
        Interval(np.where(second, 1.0, 0.0), np.where(first, 0.0, 1.0)),
    )


def partials(node: Expression, f: Interval, args: Sequence[Interval]) -> Sequence[Interval | None]:
    """Return intervals of the derivatives of an operation by its arguments, given its value; None for no dependence."""
    match node.operation:
        case "add":
            return ONE, ONE
        case "subtract":
            return ONE, negative(ONE)
        case "multiply":
            return args[1], args[0]
        case "divide":
            return divide(ONE, args[1]), negative(divide(f, args[1]))
        case "negative":
            return (negative(ONE),)
        case "square":
            return (Interval(2 * args[0].low, 2 * args[0].high),)
        case "power":
            exponent = args[1].high
            return multiply(args[1], power(args[0], constant(exponent - 1))), None
        case "exp":
            return (f,)
        case "log":
            return (divide(ONE, args[0]),)
        case "sqrt":
            return (divide(constant(0.5), f),)
        case "sin":
            return (sine(add(args[0], constant(np.pi / 2))),)  # whose rounding is within the margin of the sine
        case "expit":
            return (multiply(f, add(ONE, negative(f))),)
        case "maximum":
            return alternatives(args[0].low > args[1].high, args[1].low > args[0].high)
        case "minimum":
            return alternatives(args[0].high < args[1].low, args[1].high < args[0].low)
        case "where":
            given = args[0]
            jump = np.where(given.low == given.high, 0.0, np.inf)  # the function may jump where the condition changes
            return Interval(-jump, jump), *alternatives(given.low > 0, given.high == 0)
        case "greater" | "equal":
            unknown = np.where(f.low == f.high, 0.0, 1.0)
            return Interval(-unknown, unknown), Interval(-unknown, unknown)
    return [None] * len(args)


# -- formulas ----------------------------------------------------------------------------------------------------------


class WeightedSum:
    """A weighted sum of formulas of some variables; others have given values."""

    def __init__(
        self, terms: Sequence[Expression], weights: Floats, variables: Sequence[Expression],
        fixed: Mapping[Expression, float],
    ) -> None:  # fmt: skip
        self.terms, self.weights, self.variables = terms, weights, variables
        self.parts = parts_of(terms)
        self.fixed = {node: constant(value) for node, value in fixed.items()}

    def values(self, low: Floats, high: Floats) -> tuple[Interval, dict[Expression, Interval]]:
        """Return bounds of the sum over m boxes, (m,), and of all parts of its terms."""
        values = {node: Interval(low[:, j], high[:, j]) for j, node in enumerate(self.variables)}
        values |= self.fixed
        total = Interval(np.zeros(len(low)), np.zeros(len(low)))
        with np.errstate(all="ignore"):  # overflow is infinity, an end like any other
            for node in self.parts:
                if node.operation == "constant":
                    values[node] = constant(node.arguments[0])
                elif node.operation != "variable":
                    values[node] = entry_of(OPERATIONS, node)(*(values[argument] for argument in node.arguments))
            for term, weight in zip(self.terms, self.weights, strict=True):
                total = add(total, multiply(constant(weight), values[term]))
        return total, values

    def gradient(self, values: Mapping[Expression, Interval], n_boxes: int) -> Interval:
        """Return bounds of the derivatives by the variables, (m, d), given those of all parts."""
        slopes: dict[Expression, Interval] = {}
        with np.errstate(all="ignore"):
            for term, weight in zip(self.terms, self.weights, strict=True):
                slopes[term] = add(slopes[term], constant(weight)) if term in slopes else constant(weight)
            for node in reversed(self.parts):
                if node.is_leaf or node not in slopes:
                    continue
                found = partials(node, values[node], [values[argument] for argument in node.arguments])
                for argument, slope in zip(node.arguments, found, strict=True):
                    if slope is not None and argument.operation != "constant":
                        product = multiply(slopes[node], slope)
                        slopes[argument] = add(slopes[argument], product) if argument in slopes else product
        gradient = [slopes.get(node, constant(0.0)) for node in self.variables]
        lows, highs = (np.column_stack([np.broadcast_to(one[i], n_boxes) for one in gradient]) for i in (0, 1))
        return Interval(lows, highs)
