"""A model as an ONNX graph.

Graphs use operators of ONNX opset 17 and of `ai.onnx.ml` opset 3, which every onnxruntime from 1.12 on supports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from termwise._checks import check_choice, import_optional
from termwise.basis.expressions import Expression, evaluate
from termwise.deploy.inputs import Input, InputSchema
from termwise.deploy.program import (
    Concatenate,
    FormulaStep,
    Labels,
    Lags,
    Linear,
    PairProducts,
    Program,
    Step,
    as_float32,
)

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
ML = "ai.onnx.ml"
CATEGORY_TYPES: dict[type, Any] = {str: object, int: np.int64, bool: np.bool_}  # of inputs, by the type of categories


def to_onnx(model: Any, X: Any = None, **options: Any) -> Any:
    """Convert a fitted estimator or pipeline by skl2onnx, with the converters of termwise registered.

    `Predictor.export` needs no skl2onnx; this is for pipelines with transformers that only skl2onnx supports.

    Parameters
    ----------
    model : fitted estimator or Pipeline
        One of termwise's, or a pipeline with some in it.
    X : array-like, default=None
        Some samples, from which the types of the inputs are guessed; or give `initial_types`.
    **options : dict
        Arguments of `skl2onnx.to_onnx`.

    Returns
    -------
    onnx_model : onnx.ModelProto
        The graph. Regressors have one output of shape (n, q); classifiers the label, and then a column per class: the
        probabilities, or the scores where there are none (for two classes minus and plus `decision_function`).

    Notes
    -----
    Transformers that skl2onnx cannot convert are named in its error. Precision is that of the inputs: for float64, give
    `X` in float64 or `DoubleTensorType`. Of a table with categories every column is an input, numbers and strings.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.pipeline import make_pipeline
    >>> from termwise import ForwardRegressor
    >>> from termwise.deploy.onnx import to_onnx
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(PCA(6), ForwardRegressor()).fit(X, y)
    >>> [output.name for output in to_onnx(model, X[:1]).graph.output]
    ['variable']
    """
    register()
    return import_optional("skl2onnx", "onnx", "Converting pipelines").to_onnx(model, X, **options)


def register() -> None:
    """Register the converters of all estimators and bases with skl2onnx, as `to_onnx` does."""
    from termwise.deploy import skl2onnx  # which imports all estimators

    skl2onnx.register()


def source(program: Program, dtype: str = "float64") -> bytes:
    """Return a model of ONNX, serialised.

    Its input is `X`, a table of numbers of shape (n, d), or, where there are categories, one input of shape (n, 1) per
    column, by its name: numbers, strings, whole numbers or booleans. Its outputs are `prediction`; of a classifier
    `label`, `probabilities` where the estimator has them, and `scores`, in the shapes that `predict`, `predict_proba`
    and `decision_function` return; an underscore is added where a column has that name. A missing string is empty, an
    unknown category is none of the known ones. Radial terms need memory for rows x centres x inputs numbers: split
    large tables.

    Parameters
    ----------
    program : Program
        The model.
    dtype : {"float64", "float32"}, default="float64"
        Precision of inputs, outputs and intermediate numbers.
    """
    check_choice("dtype", dtype, ["float64", "float32"], remedy="the first is as exact as termwise itself")
    onnx = import_optional("onnx", "onnx", "Writing ONNX")
    helper, schema = onnx.helper, program.schema
    graph = Graph(dtype, reserved=[one.name for one in schema.inputs])
    inputs, is_table = [("X", graph.dtype, len(schema.inputs))], all(one.categories is None for one in schema.inputs)
    if not is_table:
        types = [graph.dtype if one.categories is None else CATEGORY_TYPES[category_type(one)] for one in schema.inputs]
        inputs = [(one.name, np.dtype(kind), 1) for one, kind in zip(schema.inputs, types, strict=True)]
    names = [name for name, _, _ in inputs]
    z = names[0]
    if program.linear.names:
        z = encode_table(schema, graph, z) if is_table else encode_columns(schema, graph, names)
        z = add_steps(program.steps, graph, z)
    outputs = _add_predictions(program, graph, add_outputs(program.linear, graph, z))
    body = helper.make_graph(
        graph.nodes,
        "termwise",
        [helper.make_tensor_value_info(name, element_type(kind), [None, width]) for name, kind, width in inputs],
        [helper.make_tensor_value_info(name, element_type(kind), shape) for name, kind, shape in outputs],
        graph.constants,
        doc_string=f"terms: {', '.join(program.linear.names) or 'none'}",
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
    model = helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION, producer_name="termwise")
    helper.set_model_props(model, {"inputs": ", ".join(one.name for one in schema.inputs)})
    onnx.checker.check_model(model)
    return model.SerializeToString()


def element_type(dtype: Any) -> int:
    """Return ONNX's number of a type."""
    helper = import_optional("onnx.helper", "onnx", "Writing ONNX")
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


class Graph:
    """Nodes and constants of a graph, numbers in one precision; nodes refer to values by their names."""

    def __init__(self, dtype: Any, reserved: Iterable[str] = ()) -> None:
        self.dtype = np.dtype(dtype)
        self.reserved = set(reserved)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def free_name(self, name: str) -> str:
        """Return a name, changed if an input has it."""
        while name in self.reserved:
            name += "_"
        return name

    def node(self, op: str, *inputs: str, domain: str = "", name: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its result."""
        helper = import_optional("onnx.helper", "onnx", "Writing ONNX")
        name = self.free_name(name or f"{op.lower()}_{len(self.nodes)}")
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, domain=domain, **attributes))
        return name

    def constant(self, values: Any) -> str:
        """Add a constant and return its name: numbers, in the precision of the graph, booleans or strings."""
        array = self.cast(values)
        name = self.free_name(f"constant_{len(self.constants)}")
        numpy_helper = import_optional("onnx.numpy_helper", "onnx", "Writing ONNX")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def cast(self, values: Any) -> Any:
        """Return an array of a type that ONNX has."""
        array = np.asarray(values)
        if array.dtype.kind == "f" and self.dtype == np.float32:
            return as_float32(array)
        kinds: dict[str, Any] = {"f": self.dtype, "i": np.int64, "U": object}
        return array.astype(kinds.get(array.dtype.kind, array.dtype))

    def columns(self, z: str, columns: Any) -> str:
        """Select some columns."""
        return self.node("Gather", z, self.constant(np.asarray(columns, dtype=np.int64)), axis=1)

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
    "sqrt": "Sqrt",
    "sin": "Sin",
    "expit": "Sigmoid",
    "maximum": "Max",
    "minimum": "Min",
    "where": "Where",
}


def add_expression(expression: Expression, step: FormulaStep, graph: Graph, z: str) -> str:
    """Add the nodes of an expression, of which `z` is the input, and return the name of its value.

    Parts without the input are constants. A sum of squares has an axis of its own for the inputs: differences are exact
    where products of inputs and centres would cancel.
    """
    names: dict[Expression, str] = {}
    rows = z
    if any(node.operation == "sum_squares" for node in expression.nodes()):
        rows = graph.node("Unsqueeze", z, graph.constant(np.array([1])))

    def constant(node: Expression, as_bool: bool = False) -> str:
        value = evaluate(node, step.parameters)
        return graph.constant(np.asarray(value).astype(bool if as_bool else np.float64))

    def name(node: Expression) -> str:
        if "z" not in node.variables():
            return constant(node)
        if node not in names:
            names[node] = add(node)
        return names[node]

    def add(node: Expression) -> str:
        if node.operation == "variable":
            return rows
        if node.operation == "where":
            condition, *values = node.arguments
            return graph.node("Where", constant(condition, as_bool=True), *map(name, values))
        first = name(node.arguments[0])
        if node.operation == "square":
            return graph.node("Mul", first, first)
        if node.operation == "sum_squares":
            square = graph.node("Mul", first, first)
            return graph.node("ReduceSum", square, graph.constant(np.array([2])), keepdims=0)
        if node.operation == "dot":
            return graph.product(first, evaluate(node.arguments[1], step.parameters).T)
        if node.operation == "power_product":
            return _power_product(graph, first, evaluate(node.arguments[1], step.parameters))
        return graph.node(OPERATIONS[node.operation], first, *map(name, node.arguments[1:]))

    return name(expression)


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


@singledispatch
def add_step(step: Any, graph: Graph, z: str) -> str:
    """Add a step applied to the value z, of shape (n, inputs), and return the name of its result, (n, terms).

    Here, one with an expression.
    """
    columns = step.tables.get("columns")
    return add_expression(step.expression, step, graph, z if columns is None else graph.columns(z, columns))


@add_step.register
def _(step: PairProducts, graph: Graph, z: str) -> str:
    singles = add_expression(step.expression, step, graph, graph.columns(z, step.columns))
    second = graph.columns(singles, np.maximum(step.second, 0))
    second = graph.node("Where", graph.constant(step.second < 0), graph.constant(1.0), second)
    return graph.node("Mul", graph.columns(singles, step.first), second)


@add_step.register
def _(step: Lags, graph: Graph, z: str) -> str:
    """Rows of the batch are in the order of time."""
    n = graph.node("Squeeze", graph.node("Shape", z, start=0, end=1))
    times = graph.node("Range", graph.constant(np.array(0)), n, graph.constant(np.array(1)))
    times = graph.node("Unsqueeze", times, graph.constant(np.array([1])))
    rows = graph.node("Max", graph.node("Sub", times, graph.constant(step.lags[None])), graph.constant(np.array([0])))
    return graph.node("GatherElements", graph.columns(z, step.columns), rows, axis=0)


@add_step.register
def _(step: Concatenate, graph: Graph, z: str) -> str:
    parts = [add_steps(part.steps, graph, graph.columns(z, part.columns)) for part in step.parts]
    return graph.columns(graph.node("Concat", *parts, axis=1), step.order)


def add_steps(steps: Sequence[Step], graph: Graph, z: str) -> str:
    """Add a chain of steps."""
    for step in steps:
        z = add_step(step, graph, z)
    return z


# -- inputs and outputs ------------------------------------------------------------------------------------------------


def encode_table(schema: InputSchema, graph: Graph, X: str) -> str:
    """Add the encoding of one table of numbers."""
    z = graph.columns(X, schema.sources)
    fills = [schema.inputs[j].fill for j in schema.sources]
    return z if all(fill is None for fill in fills) else _fill_missing(graph, z, fills)


def _fill_missing(graph: Graph, z: str, fills: Sequence[float | None]) -> str:
    """Add the replacement of missing values; NaN stays NaN where there is none."""
    values = np.array([np.nan if fill is None else fill for fill in fills], dtype=np.float64)
    return graph.node("Where", graph.node("IsNaN", z), graph.constant(values), z)


def encode_columns(schema: InputSchema, graph: Graph, names: Sequence[str]) -> str:
    """Add the encoding of a table that is given column by column, each of shape (n, 1)."""
    codes: dict[int, str] = {}
    parts = []
    for j, category in zip(schema.sources.tolist(), schema.categories.tolist(), strict=True):
        one = schema.inputs[j]
        if one.categories is None:
            parts.append(names[j] if one.fill is None else _fill_missing(graph, names[j], [one.fill]))
        else:
            codes[j] = codes.get(j) or _category_number(one, graph, names[j])
            same = graph.node("Equal", codes[j], graph.constant(np.array([category])))
            parts.append(graph.node("Cast", same, to=element_type(graph.dtype)))
    return graph.node("Concat", *parts, axis=1)


def _category_number(one: Input, graph: Graph, name: str) -> str:
    """Add the number of the category of an input, -1 for an unknown one."""
    keys = list(one.categories or ())
    numbers, kind = list(range(len(keys))), category_type(one)
    if kind is str:  # a missing string is empty
        if "" not in keys:
            numbers.append(-1 if one.fill is None else keys.index(one.fill))
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
        return graph.node("Add", graph.product(z, linear.weights.T), intercept)
    rows = graph.node("Concat", graph.node("Shape", z, start=0, end=1), graph.constant(np.array([1])), axis=0)
    return graph.node("Expand", intercept, rows)


def add_label(labels: Labels, graph: Graph, scores: str) -> str:
    """Add the class of each row, (n,)."""
    if len(labels.classes) == 2:
        second = graph.node("GreaterOrEqual", scores, graph.constant(0.0))
        second = graph.node("Squeeze", second, graph.constant(np.array([1])))
        number = graph.node("Cast", second, to=element_type(np.int64))
    else:
        number = graph.node("ArgMax", scores, axis=1, keepdims=0)
    return graph.node("Gather", graph.constant(np.array(labels.classes)), number)


def add_probabilities(labels: Labels, graph: Graph, scores: str) -> str:
    """Add the probability of each class."""
    if len(labels.classes) == 2:
        scores = graph.node("Concat", graph.node("Neg", scores), scores, axis=1)
    return graph.node("Softmax", graph.node("Mul", scores, graph.constant(labels.sharpness)), axis=1)


def _add_predictions(program: Program, graph: Graph, scores: str) -> list[tuple[str, Any, list[Any]]]:
    """Add the results; return their names, types and shapes."""
    q, labels = len(program.linear.intercept), program.labels
    one_output = program.linear.one_output
    value = graph.node("Squeeze", scores, graph.constant(np.array([1]))) if one_output else scores
    shape = [None] if one_output else [None, q]
    if labels is None:
        return [(graph.node("Identity", value, name="prediction"), graph.dtype, shape)]
    kind = graph.cast(np.array(labels.classes)).dtype
    outputs: list[Any] = [(graph.node("Identity", add_label(labels, graph, scores), name="label"), kind, [None])]
    if labels.sharpness is not None:
        name = graph.node("Identity", add_probabilities(labels, graph, scores), name="probabilities")
        outputs.append((name, graph.dtype, [None, len(labels.classes)]))
    return [*outputs, (graph.node("Identity", value, name="scores"), graph.dtype, shape)]
