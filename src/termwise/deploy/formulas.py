"""A model as formulas of its inputs, one for each term and each output, for formats without loops.

Parameters are replaced by their values, and sums over inputs by their summands. Equal parts are one object, so that a
format can compute them once and give them a name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, ClassVar, NamedTuple

import numpy as np

from termwise._numerics import LOG_RESPONSE_MAX
from termwise.basis.encoder import LEVEL, VALUE
from termwise.basis.expressions import SUMS, Expression, entry_of, evaluate, variable
from termwise.deploy.inputs import Input
from termwise.deploy.program import Program
from termwise.deploy.steps import Concatenate, LevelEffects, PairProducts, ProgramStep

ETA = variable("eta")
# Predictions of each link, those of one output as an expression in the linear predictor eta, those of quantiles, which
# must not cross, as a sequence in ascending order.
LINKS: dict[str, Any] = {"identity": ETA, "log": np.exp(ETA), "sorted": ETA}
# The same in floating point, by its precision, where responses must stay in their range (`linalg.losses.LINKS`).
BOUNDED_LINKS: dict[np.dtype, dict[str, Any]] = {
    dtype: LINKS | {"log": np.exp(np.minimum(ETA, largest))} for dtype, largest in LOG_RESPONSE_MAX.items()
}
CHUNK = 50  # summands in a row: SQLite allows expressions of depth 1000, and each summand is a level


class Cell(NamedTuple):
    """A number of the encoded table, in a row that many rows before."""

    input: int
    code: int  # as in `InputSchema`: -1 for the input itself
    lag: int = 0


# -- building ----------------------------------------------------------------------------------------------------------


class FormulaBuilder:
    """Builds expressions in which equal parts are one object, constants are computed and `x + 0` and so on are x."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        self.inputs = inputs
        self._known: dict[Hashable, Expression] = {}

    def leaf(self, operation: str, value: Any) -> Expression:
        """Return a variable or a constant."""
        key = (operation, type(value), repr(value) if operation == "constant" else value)  # 0.0 is not -0.0
        return self._known.setdefault(key, Expression(operation, (value,)))

    def number(self, value: Any) -> Expression:
        """Return a constant."""
        return self.leaf("constant", float(value))

    def apply(self, operation: str, *arguments: Expression) -> Expression:
        """Return an operation on expressions of this builder."""
        numbers = [one.arguments[0] if one.operation == "constant" else None for one in arguments]
        if operation == "where" and (numbers[0] is not None or arguments[1] is arguments[2]):
            return arguments[2] if numbers[0] == 0.0 else arguments[1]
        cells = cells_of(arguments) if operation in ("isnan", "where") else []
        if operation == "isnan":
            inputs = [self.inputs[cell.arguments[0].input] for cell in cells if cell.arguments[0].code == VALUE]
            if not any(one.missing and one.fill is None for one in inputs):
                return self.number(0.0)
        # SymPy cannot handle conditions inside conditions: one on the effect of a level becomes a table of levels.
        if len(cells) == 1 and cells[0].arguments[0].code == LEVEL and arguments[0].arguments[0] is not cells[0]:
            level: Any = cells[0].arguments[0]
            levels = np.arange(-1.0, len(self.inputs[level.input].categories or ()) + 1)
            values = evaluate(Expression(operation, arguments), {level: levels})
            return self.table(cells[0], np.broadcast_to(values, levels.shape).tolist())
        if None not in numbers:
            return self.number(evaluate(Expression(operation, arguments), {}))
        match operation, numbers:
            case ("add" | "subtract", [_, 0.0]) | ("multiply" | "divide" | "power", [_, 1.0]):
                return arguments[0]
            case ("add", [0.0, _]) | ("multiply", [1.0, _]):
                return arguments[1]
            case ("multiply", [0.0, _] | [_, 0.0]):
                return self.number(0.0)
            case "multiply", [_, float()]:
                return self.apply("multiply", arguments[1], arguments[0])
            case "subtract", [0.0, _]:
                return self.apply("negative", arguments[1])
            case "add", [_, float(c)] if c < 0:
                return self.apply("subtract", arguments[0], self.number(-c))
            case "subtract", [_, float(c)] if c < 0:
                return self.apply("add", arguments[0], self.number(-c))
            case "power", [_, 2.0]:
                return self.apply("square", arguments[0])
        if operation == "negative" and arguments[0].operation == "negative":
            return arguments[0].arguments[0]
        key = (operation, *map(id, arguments))  # which are kept, so that no other object gets their ids
        return self._known.setdefault(key, Expression(operation, arguments))

    def specialise(
        self, expression: Expression, lookup: Callable[[str, int | None], Expression], n_inputs: int = 0
    ) -> Expression:
        """Return a formula with values for its variables, and with sums over that many inputs written out.

        `lookup(name, j)` returns the value of a variable, that of the input j inside a sum, where j is None elsewhere.
        """

        def visit(node: Expression, j: int | None) -> Expression:
            if node.operation == "variable":
                return lookup(node.arguments[0], j)
            if node.operation == "constant":
                return self.number(node.arguments[0])
            if node.operation not in SUMS:
                return self.apply(node.operation, *(visit(one, j) for one in node.arguments))
            rows = [[visit(one, i) for one in node.arguments] for i in range(n_inputs)]
            if node.operation == "sum_squares":
                return self.sum(self.apply("square", u) for (u,) in rows)
            if node.operation == "dot":
                return self.sum(self.apply("multiply", u, v) for u, v in rows)
            powers = [self.apply("power", u, v) for u, v in rows if v.arguments[0] > 0]
            return reduce(partial(self.apply, "multiply"), powers, self.number(1.0))

        return visit(expression, None)

    def sum(self, summands: Iterable[Expression]) -> Expression:
        """Return a sum, in groups if there are many summands."""
        listed = [one for one in summands if one.operation != "constant" or one.arguments[0] != 0]
        while len(listed) > CHUNK:
            listed = [self.sum(listed[i : i + CHUNK]) for i in range(0, len(listed), CHUNK)]
        total = zero = self.number(0.0)
        for one in listed:
            factor = one.arguments[0] if one.operation == "multiply" else zero
            if total is not zero and factor.operation == "constant" and factor.arguments[0] < 0:
                opposite = self.apply("multiply", self.apply("negative", factor), one.arguments[1])
                total = self.apply("subtract", total, opposite)
            else:
                total = self.apply("add", total, one)
        return total

    def table(self, level: Expression, numbers: Sequence[float]) -> Expression:
        """Return the number of a level, by bisection: the first and the last are those of levels below and above."""
        values = [self.number(value) for value in numbers]

        def search(low: int, high: int) -> Expression:  # among the levels low - 1 to high - 2
            if high - low == 1:
                return values[low]
            middle = (low + high) // 2
            above = self.apply("greater", level, self.number(middle - 1.5))
            return self.apply("where", above, search(middle, high), search(low, middle))

        return search(0, len(values))

    # -- steps

    def step(self, step: Any, cells: Sequence[Expression]) -> list[Expression]:
        """Return the terms of a step, given its inputs."""
        match step:
            case PairProducts():
                singles = [self._value(step, cells, k) for k in range(len(step.columns))]
                both = zip(step.first.tolist(), step.second.tolist(), strict=True)
                return [singles[i] if j < 0 else self.apply("multiply", singles[i], singles[j]) for i, j in both]
            case LevelEffects():
                parts = zip(step.columns.tolist(), step.sizes.tolist(), step.offsets.tolist(), strict=True)
                return [  # zero for a level without an effect, and where it is missing
                    self.table(cells[i], [0.0, *step.effects[start : start + size].tolist(), 0.0]) if size else cells[i]
                    for i, size, start in parts
                ]
            case Concatenate():
                terms = [one for part in step.parts for one in self.steps(part.steps, [cells[i] for i in part.columns])]
                return [terms[i] for i in step.order]
        return [self._value(step, cells, k) for k in range(step.n_terms)]

    def steps(self, steps: Iterable[ProgramStep], cells: Sequence[Expression]) -> list[Expression]:
        """Return the terms of a chain of steps."""
        terms = list(cells)
        for step in steps:
            terms = self.step(step, terms)
        return terms

    def _value(self, step: ProgramStep, cells: Sequence[Expression], k: int) -> Expression:
        """Return the value number k of the expression of a step."""
        tables = step.tables

        def lookup(name: str, j: int | None) -> Expression:
            if name == "z":
                return cells[j if j is not None else tables["columns"][k] if "columns" in tables else k]
            table = tables[name]
            return self.number(table[k, j] if table.ndim == 2 else table[k if step.is_per_term(name) else j])

        return self.specialise(step.expression, lookup, step.n_inputs)


@dataclass(frozen=True)
class Formulas:
    """The formulas of a model."""

    terms: list[Expression]
    outputs: list[Expression]  # of `predict`, or of `decision_function`
    probabilities: list[Expression]  # of the classes; none without

    @classmethod
    def from_program(cls, program: Program, links: Mapping[str, Any] = LINKS) -> Formulas:
        """Write out a model, with `LINKS` or those of `BOUNDED_LINKS`."""
        schema, linear = program.schema, program.linear
        builder = FormulaBuilder(schema.inputs)

        def cells(lag: int = 0) -> list[Expression]:
            pairs = zip(schema.columns.tolist(), schema.categories.tolist(), strict=True)
            return [builder.leaf("variable", Cell(j, code, lag)) for j, code in pairs]

        split, lags = 0, program.lags
        terms = cells()
        if lags is not None:
            split = program.steps.index(lags) + 1
            rows = {lag: builder.steps(program.steps[: split - 1], cells(lag)) for lag in set(lags.lags.tolist())}
            terms = [rows[lag][i] for i, lag in zip(lags.columns.tolist(), lags.lags.tolist(), strict=True)]
        terms = builder.steps(program.steps[split:], terms)
        outputs = []
        for i, (weights, intercept) in enumerate(zip(linear.weights, linear.intercept, strict=True)):
            products = (builder.apply("multiply", builder.number(w), g) for w, g in zip(weights, terms, strict=True))
            outputs.append(builder.sum([builder.number(intercept), *products]))
            if linear.limits is not None and linear.names:
                low, high = map(builder.number, linear.limits[:, i])
                outputs[i] = builder.apply("minimum", builder.apply("maximum", outputs[i], low), high)
        link = links[program.link]
        outputs = [builder.specialise(link, lambda name, j, eta=eta: eta) for eta in outputs]  # type: ignore[misc]
        for last in range(len(outputs) - 1 if program.link == "sorted" else 0, 0, -1):
            for i in range(last):  # the largest of the first ones moves to the end
                pair = outputs[i], outputs[i + 1]
                outputs[i : i + 2] = [builder.apply("minimum", *pair), builder.apply("maximum", *pair)]
        return cls(terms, outputs, _probabilities(builder, program, outputs))


def _probabilities(builder: FormulaBuilder, program: Program, scores: list[Expression]) -> list[Expression]:
    """Return the softmax of the scores of classes, or of minus and plus the score of the second of two."""
    labels = program.labels
    if labels is None or labels.sharpness is None:
        return []
    if len(scores) == 1:
        odds = [builder.apply("multiply", builder.number(sign * labels.sharpness), scores[0]) for sign in (-2, 2)]
        return [builder.apply("expit", one) for one in odds]
    top = scores
    while len(top) > 1:  # against overflow; in pairs, so that no chain is long
        pairs = [top[i : i + 2] for i in range(0, len(top), 2)]
        top = [builder.apply("maximum", *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    sharpness = builder.number(labels.sharpness)
    above = [builder.apply("subtract", one, top[0]) for one in scores]
    odds = [builder.apply("exp", builder.apply("multiply", sharpness, one)) for one in above]
    total = builder.sum(odds)
    return [builder.apply("divide", one, total) for one in odds]


# -- writing -----------------------------------------------------------------------------------------------------------

SUM, PRODUCT, UNARY, ATOM = range(1, 5)  # how tightly a text binds; 0 needs no parentheses around anything


def printable(text: str) -> str:
    """Return a name as a single line, for comments and strings: characters that cannot be printed are spaces."""
    return "".join(char if char.isprintable() else " " for char in text)


def names_of(parts: Iterable[Expression], template: str) -> dict[Expression, str]:
    """Number parts of formulas from 1 on; one that occurs again keeps its first name."""
    names: dict[Expression, str] = {}
    for number, part in enumerate(parts, 1):
        names.setdefault(part, template.format(number))
    return names


class Definition(NamedTuple):
    """A part of a formula with a name."""

    name: str
    text: str
    level: int  # 1 more than those of the parts in it


class FormulaWriter(ABC):
    """Writes formulas as source code, and gives names to the parts that are used more than once.

    A subclass has, for each operation, a template in the form of `str.format`, how tightly its text binds, and how
    tightly its arguments must bind not to need parentheses. An argument that a template repeats gets a name.
    """

    operations: ClassVar[Mapping[str, tuple[str, int, tuple[int, ...]]]]
    nameless: ClassVar[Collection[str]] = ()  # operations that are rather written again
    parentheses: ClassVar[str] = "({0})"

    def __init__(self) -> None:
        self.definitions: list[Definition] = []
        self._texts: dict[Expression, tuple[str, int, int]] = {}  # text, how tightly it binds, level
        self._count = 0

    @abstractmethod
    def cell(self, cell: Cell) -> str:
        """Write a number of the table."""

    @abstractmethod
    def number(self, value: float) -> str:
        """Write a number that is not negative."""

    def part_name(self, number: int) -> str:
        """Return the name of a part that is used more than once."""
        return f"u{number}"

    def write(self, roots: Iterable[Expression], names: Mapping[Expression, str]) -> list[str]:
        """Return the source of formulas, after adding definitions of their parts; some parts have given names."""
        roots = list(roots)
        parts = parts_of(roots)
        uses = Counter(argument for node in parts if not node.is_leaf for argument in node.arguments)
        repeated = {
            argument
            for node in parts
            if not node.is_leaf
            for i, argument in enumerate(node.arguments)
            if entry_of(self.operations, node)[0].count(f"{{{i}}}") > 1
        }
        for node in parts:
            if node in self._texts:
                continue
            self._texts[node] = text, _, level = self._text(node)
            shared = uses[node] > 1 and node.operation not in self.nameless
            if not node.is_leaf and (node in names or shared or node in repeated):
                self._count += node not in names
                name = names.get(node) or self.part_name(self._count)
                self.definitions.append(Definition(name, text, level))
                self._texts[node] = name, ATOM, level + 1
        return [self._texts[root][0] for root in roots]

    def _text(self, node: Expression) -> tuple[str, int, int]:
        if node.operation == "variable":
            return self.cell(node.arguments[0]), ATOM, 0
        if node.operation == "constant":
            value = node.arguments[0]
            return (f"-{self.number(-value)}", SUM, 0) if value < 0 else (self.number(value), ATOM, 0)
        template, binding, needed = entry_of(self.operations, node)
        arguments = [self._texts[one] for one in node.arguments]
        texts = [
            self.parentheses.format(text) if own < need else text
            for (text, own, _), need in zip(arguments, needed, strict=True)
        ]
        return template.format(*texts), binding, max(level for _, _, level in arguments)


def cells_of(formulas: Sequence[Expression]) -> list[Expression]:
    """Return the numbers of the table in formulas."""
    return [node for node in parts_of(formulas) if node.operation == "variable"]


def parts_of(roots: Sequence[Expression]) -> list[Expression]:
    """Return all parts of formulas, each once and after its arguments; formulas may be deep."""
    order: dict[Expression, None] = {}
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, visited = stack.pop()
        if node in order:
            continue
        if visited or node.is_leaf:
            order[node] = None
        else:
            stack.append((node, True))
            stack += [(argument, False) for argument in reversed(node.arguments)]
    return list(order)
