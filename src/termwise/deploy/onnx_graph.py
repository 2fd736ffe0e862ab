"""The parts of a model as nodes of an ONNX graph: its steps, the encoding of its inputs, and its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._checks import import_optional
from termwise._numerics import LOG_RESPONSE_MAX
from termwise.basis.encoder import LEVEL, MISSING, OTHER, UNSEEN, VALUE
from termwise.basis.expressions import Expression, entry_of, evaluate
from termwise.deploy.inputs import Input, InputSchema
from termwise.deploy.program import ClassLabels, Linear, Program, as_float32
from termwise.deploy.steps import Concatenate, Lags, LevelEffects, PairProducts, ProgramStep

ML = "ai.onnx.ml"
CATEGORY_TYPES: dict[type, Any] = {str: object, int: np.int64, bool: np.bool_}  # of inputs, by the type of categories


def element_type(dtype: Any) -> int:
    """Return ONNX's number of a type."""
    helper = import_optional("onnx.helper", "onnx", "Writing ONNX")
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


class Graph:
    """Nodes and constants of a graph, numbers in one precision; nodes refer to values by their names."""

    def __init__(self, dtype: Any, free_name: Callable[[str], str]) -> None:
        self.dtype = np.dtype(dtype)
        self.free_name = free_name  # returns a name that is not in use
        self.nodes: list[tuple[str, list[str], str, str, dict[str, Any]]] = []  # operator, inputs, result, domain, ...
        self.constants: dict[str, NDArray[Any]] = {}

    def node(self, op: str, *inputs: str, domain: str = "", name: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its result."""
        name = self.free_name(name or f"{op.lower()}_{len(self.nodes)}")
        self.nodes.append((op, list(inputs), name, domain, attributes))
        return name

    def constant(self, values: Any) -> str:
        """Add a constant and return its name: numbers, in the precision of the graph, booleans or strings."""
        name = self.free_name(f"constant_{len(self.constants)}")
        self.constants[name] = self.cast(values)
        return name

    def cast(self, values: Any) -> NDArray[Any]:
        """Return an array of a type that ONNX has."""
        array = np.asarray(values)
        if array.dtype.kind == "f" and self.dtype == np.float32:
            return as_float32(array)
        kinds: dict[str, Any] = {"f": self.dtype, "i": np.int64, "U": object}
        return array.astype(kinds.get(array.dtype.kind, array.dtype))

    def columns(self, z: str, columns: Any) -> str:
        """Select some columns."""
        return self.node("Gather", z, self.constant(np.asarray(columns, dtype=np.int64)), axis=1)

    def matrix(self, names: Sequence[str]) -> str:
        """Return a table of numbers as one matrix, given as one or several."""
        return names[0] if len(names) == 1 else self.node("Concat", *names, axis=1)

    def product(self, z: str, matrix: Any) -> str:
        """Multiply rows by a matrix.

        A single column is multiplied element by element: onnxruntime fuses a scalar factor in front of MatMul into the
        MatMul, as an attribute in float32.
        """
        return self.node("Mul" if len(matrix) == 1 else "MatMul", z, self.constant(matrix))


# -- steps -------------------------------------------------------------------------------------------------------------

OPERATIONS = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "negative": "Neg",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "expit": "Sigmoid",
    "maximum": "Max",
    "minimum": "Min",
    "where": "Where",
    "isnan": "IsNaN",
    "equal": "Equal",
    "greater": "Greater",
}


def add_steps(steps: Sequence[Any], graph: Graph, z: str) -> str:
    """Add a chain of steps applied to the value z, of shape (n, inputs); return the name of the result, (n, terms)."""
    for step in steps:
        match step:
            case PairProducts():
                singles = add_expression(step.expression, step, graph, graph.columns(z, step.columns))
                second = graph.columns(singles, np.maximum(step.second, 0))
                second = graph.node("Where", graph.constant(step.second < 0), graph.constant(1.0), second)
                z = graph.node("Mul", graph.columns(singles, step.first), second)
            case Lags():  # rows are in the order of time
                n = graph.node("Squeeze", graph.node("Shape", z, start=0, end=1))
                times = graph.node("Range", graph.constant(np.array(0)), n, graph.constant(np.array(1)))
                times = graph.node("Unsqueeze", times, graph.constant(np.array([1])))
                rows = graph.node("Sub", times, graph.constant(step.lags[None]))
                rows = graph.node("Max", rows, graph.constant(np.array([0])))
                z = graph.node("GatherElements", graph.columns(z, step.columns), rows, axis=0)
            case LevelEffects():
                level = graph.columns(z, step.columns)
                known = graph.node("GreaterOrEqual", level, graph.constant(0.0))
                known = graph.node("And", known, graph.node("Less", level, graph.constant(step.sizes.astype(float))))
                place = graph.node("Add", level, graph.constant(step.offsets.astype(float)))
                place = graph.node("Where", known, place, graph.constant(float(len(step.effects))))
                place = graph.node("Cast", place, to=element_type(np.int64))
                effects = graph.node("Gather", graph.constant(np.append(step.effects, 0.0)), place)
                z = graph.node("Where", graph.constant(step.sizes > 0), effects, level)
            case Concatenate():
                parts = [add_steps(part.steps, graph, graph.columns(z, part.columns)) for part in step.parts]
                z = graph.columns(graph.node("Concat", *parts, axis=1), step.order)
            case _:
                columns = step.tables.get("columns")
                z = add_expression(step.expression, step, graph, z if columns is None else graph.columns(z, columns))
    return z


def add_expression(expression: Expression, step: ProgramStep, graph: Graph, z: str) -> str:
    """Add the nodes of an expression, of which `z` is the input, and return the name of its value.

    Parts without the input are constants. A sum of squares has an axis of its own for the inputs: differences are exact
    where products of inputs and centres would cancel.
    """
    names: dict[Expression, str] = {}
    if any(node.operation == "sum_squares" for node in expression.nodes()):
        z = graph.node("Unsqueeze", z, graph.constant(np.array([1])))
    for node in dict.fromkeys(expression.nodes()):
        if "z" not in node.variables():
            continue
        if node.operation == "variable":
            names[node] = z
            continue
        if node.operation in ("dot", "power_product"):  # of the input and parameters
            first, parameters = names[node.arguments[0]], evaluate(node.arguments[1], step.parameters)
            dot = node.operation == "dot"
            names[node] = graph.product(first, parameters.T) if dot else _power_product(graph, first, parameters)
            continue
        arguments = []
        for i, argument in enumerate(node.arguments):
            kind = bool if node.operation == "where" and i == 0 else np.float64
            constant = argument not in names
            values = np.asarray(evaluate(argument, step.parameters)).astype(kind) if constant else None
            arguments.append(graph.constant(values) if constant else names[argument])
        if node.operation in ("square", "sum_squares"):
            names[node] = graph.node("Mul", arguments[0], arguments[0])
        else:
            names[node] = graph.node(entry_of(OPERATIONS, node), *arguments)
        if node.operation == "sum_squares":
            names[node] = graph.node("ReduceSum", names[node], graph.constant(np.array([2])), keepdims=0)
    return names[expression]


def _power_product(graph: Graph, z: str, exponents: Any) -> str:
    """Add products of powers, one factor after the other: most products have few."""
    rows = graph.node("Shape", z, start=0, end=1)
    shape = graph.node("Concat", rows, graph.constant(np.array([len(exponents)])), axis=0)
    terms = graph.node("Expand", graph.constant(np.ones((1, 1))), shape)
    n_factors = int((exponents > 0).sum(axis=1).max(initial=0))
    order = np.argsort(exponents == 0, axis=1, kind="stable")  # the columns in each product come first
    for place in range(n_factors):
        columns = order[:, place]
        powers = np.take_along_axis(exponents, columns[:, None], axis=1)[:, 0]
        factor = graph.node("Pow", graph.columns(z, columns), graph.constant(powers.astype(np.float64)))
        terms = graph.node("Mul", terms, factor)
    return terms


# -- inputs and outputs ------------------------------------------------------------------------------------------------


def encode(schema: InputSchema, graph: Graph, names: Sequence[str]) -> str:
    """Add the encoding of a table: of numbers as one matrix or several, otherwise of columns of shape (n, 1).

    NaN stays NaN where an input has no fill, and an unknown category is none of the known ones.
    """
    fills = [np.nan if one.fill is None or one.categories is not None else one.fill for one in schema.inputs]
    if all(one.categories is None for one in schema.inputs):
        z = graph.columns(graph.matrix(names), schema.columns)
        values = np.array(fills)[schema.columns]
        if not np.isnan(values).all():
            z = graph.node("Where", graph.node("IsNaN", z), graph.constant(values), z)
        indicators = schema.categories == MISSING
        if not indicators.any():
            return z
        missing = graph.node("Cast", graph.node("IsNaN", z), to=element_type(graph.dtype))
        return graph.node("Where", graph.constant(indicators), missing, z)
    if len(names) != len(schema.inputs):
        raise ValueError(
            f"initial_types must have an input for each of {len(schema.inputs)} columns of a table with categories, "
            f"got {len(names)}: give the columns one by one."
        )
    columns: dict[int, str] = {}
    parts = []
    for j, category in zip(schema.columns.tolist(), schema.categories.tolist(), strict=True):
        one = schema.inputs[j]
        if j not in columns:
            columns[j] = names[j] if one.categories is None else _category_number(one, graph, names[j])
            if not np.isnan(fills[j]):
                missing = graph.node("IsNaN", columns[j])
                columns[j] = graph.node("Where", missing, graph.constant(np.array([fills[j]])), columns[j])
        part = columns[j]
        if one.categories is not None:
            part = _add_code(one, graph, part, category)
        elif category == MISSING:
            part = graph.node("Cast", graph.node("IsNaN", part), to=element_type(graph.dtype))
        parts.append(part)
    return graph.node("Concat", *parts, axis=1)


def mask_invalid(schema: InputSchema, graph: Graph, names: Sequence[str], scores: str) -> str:
    """Replace scores by NaN in rows with a number that `predict` rejects: infinite, or missing where it must not be."""
    used = [j for j in schema.used if schema.inputs[j].categories is None]
    if not used:
        return scores
    if all(one.categories is None for one in schema.inputs):
        z = graph.columns(graph.matrix(names), used)
    else:
        z = graph.node("Concat", *(names[j] for j in used), axis=1)
    optional = [bool(schema.inputs[j].missing) or schema.inputs[j].fill is not None for j in used]
    return _mask_rows(graph, z, np.array(optional), scores)


def _mask_rows(graph: Graph, z: str, optional: NDArray[np.bool_], scores: str) -> str:
    """Replace scores by NaN in rows of z with infinity, or with NaN in a column that is not optional."""
    missing = graph.node("And", graph.node("IsNaN", z), graph.constant(~optional))
    rejected = graph.node("Cast", graph.node("Or", graph.node("IsInf", z), missing), to=element_type(graph.dtype))
    count = graph.node("ReduceSum", rejected, graph.constant(np.array([1])))
    return graph.node("Where", graph.node("Greater", count, graph.constant(0.0)), graph.constant(np.nan), scores)


def _add_code(one: Input, graph: Graph, number: str, code: int) -> str:
    """Add an encoded column of a category, given its number, -1 for an unknown category, -2 for a missing value."""
    if code in (VALUE, LEVEL):
        unseen, kind = one.unseen if code == VALUE else UNSEEN, element_type(graph.dtype)
        replaced = {-1: unseen, -2: np.nan if code == VALUE else float(len(one.categories or ()))}
        part = graph.node("Cast", number, to=kind)
        for place, value in replaced.items():
            equal = graph.node("Equal", number, graph.constant(np.array([place])))
            part = graph.node("Where", equal, graph.constant(np.array([value])), part)
        return part
    place = {MISSING: -2, OTHER: -1}.get(code, code)
    equal = graph.node("Equal", number, graph.constant(np.array([place])))
    return graph.node("Cast", equal, to=element_type(graph.dtype))


def _category_number(one: Input, graph: Graph, name: str) -> str:
    """Add the number of the category of an input, -1 for an unknown one, -2 for a missing value."""
    keys = list(one.categories or ())
    numbers, kind = list(range(len(keys))), category_type(one)
    if kind is not str and one.missing and one.fill is None:
        raise ValueError(
            f"categories of {one.name} must be strings in ONNX if they may be missing, got {keys!r}: convert the "
            "column with astype(str) before the fit, or use with_fill."
        )
    if kind is str:  # a missing string is empty
        if "" in keys and (one.missing or one.fill is not None) and one.fill != "":
            raise ValueError(
                f"categories of {one.name} must not have the empty string in ONNX if they may be missing, got {keys!r}"
                f": rename it before the fit, or use with_fill({{{one.name!r}: ''}})."
            )
        if "" not in keys:
            numbers.append((-2 if one.missing else -1) if one.fill is None else keys.index(one.fill))
            keys.append("")
        lists: dict[str, Any] = {"keys_strings": keys, "values_int64s": numbers}
    else:
        name = graph.node("Cast", name, to=element_type(np.int64)) if kind is bool else name
        lists = {"keys_int64s": [int(key) for key in keys], "values_int64s": numbers}
    return graph.node("LabelEncoder", name, domain=ML, default_int64=-1, **lists)


def category_type(one: Input) -> type:
    """Return the type of the categories of an input, one that ONNX has."""
    types = {type(category) for category in one.categories or ()} or {str}
    if len(types) == 1 and types <= set(CATEGORY_TYPES):
        return types.pop()
    raise ValueError(
        f"categories of {one.name} must be all strings, all whole numbers or all booleans in ONNX, got "
        f"{list(one.categories or ())!r}: convert the column with astype(str) before the fit."
    )


def add_outputs(linear: Linear, graph: Graph, z: str) -> str:
    """Add the outputs, (n, q); without terms they are the same for all rows of z."""
    intercept = graph.constant(linear.intercept[None])
    if linear.names:
        outputs = graph.node("Add", graph.product(z, linear.weights.T), intercept)
        if linear.limits is None:
            return outputs
        low, high = (graph.constant(end[None]) for end in linear.limits)
        return graph.node("Min", graph.node("Max", outputs, low), high)
    rows = graph.node("Concat", graph.node("Shape", z, start=0, end=1), graph.constant(np.array([1])), axis=0)
    return graph.node("Expand", intercept, rows)


def add_scores(program: Program, graph: Graph, names: Sequence[str]) -> str:
    """Add the outputs of a model with terms, (n, q); NaN in rows with numbers that `predict` rejects."""
    lags = program.lags
    split = 0 if lags is None else program.steps.index(lags) + 1
    z = add_steps(program.steps[:split], graph, encode(program.schema, graph, names))
    scores = add_outputs(program.linear, graph, add_steps(program.steps[split:], graph, z))
    if lags is None:
        return mask_invalid(program.schema, graph, names, scores)
    return _mask_rows(graph, z, np.zeros(len(lags.lags), dtype=bool), scores)  # only past values in use must be known


def add_link(link: str, graph: Graph, outputs: str, q: int) -> str:
    """Add the predictions of a regression, (n, q); quantiles are sorted by exchanges of neighbours."""
    if link == "log":
        return graph.node("Exp", graph.node("Min", outputs, graph.constant(LOG_RESPONSE_MAX[graph.dtype])))
    if link == "identity":
        return outputs
    columns = [graph.columns(outputs, np.array([j])) for j in range(q)]
    for last in range(q - 1, 0, -1):
        for j in range(last):
            pair = columns[j], columns[j + 1]
            columns[j], columns[j + 1] = graph.node("Min", *pair), graph.node("Max", *pair)
    return graph.node("Concat", *columns, axis=1)


def add_label(labels: ClassLabels, graph: Graph, scores: str) -> str:
    """Add the class of each row, (n,)."""
    if len(labels.classes) == 2:
        second = graph.node("GreaterOrEqual", scores, graph.constant(0.0))
        second = graph.node("Squeeze", second, graph.constant(np.array([1])))
        number = graph.node("Cast", second, to=element_type(np.int64))
    else:
        number = graph.node("ArgMax", scores, axis=1, keepdims=0)
    return graph.node("Gather", graph.constant(np.array(labels.classes)), number)


def add_class_columns(labels: ClassLabels, graph: Graph, scores: str) -> str:
    """Add a column per class: its probability or, where there are none, its score."""
    if len(labels.classes) == 2:
        scores = graph.node("Concat", graph.node("Neg", scores), scores, axis=1)
    if labels.sharpness is None:
        return scores
    return graph.node("Softmax", graph.node("Mul", scores, graph.constant(labels.sharpness)), axis=1)
