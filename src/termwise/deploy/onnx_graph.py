"""A model as an ONNX graph.

Graphs use operators of ONNX opset 17 and of `ai.onnx.ml` opset 3, which every onnxruntime from 1.12 on has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from termwise._checks import check_choice, import_optional
from termwise.deploy.chain import Beside
from termwise.deploy.inputs import Input, Reading
from termwise.deploy.outputs import Labels, Linear
from termwise.deploy.precision import shortened
from termwise.deploy.program import Program
from termwise.deploy.steps import (
    Anova,
    Clip,
    Lags,
    Logistic,
    Powers,
    Radial,
    Rotate,
    Standardise,
    Step,
    Stretch,
    Waves,
)

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
ML = "ai.onnx.ml"


class Graph:
    """Nodes and constants as they come, numbers in one precision; names of values are what nodes are joined by."""

    def __init__(self, dtype: Any, taken: Iterable[str] = ()) -> None:
        self.dtype = np.dtype(dtype)
        self.taken = set(taken)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def free(self, name: str) -> str:
        """Return a name, changed if an input has it."""
        while name in self.taken:
            name += "_"
        return name

    def node(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its result."""
        helper = import_optional("onnx.helper", "onnx", "Writing ONNX")
        name = self.free(f"{op.lower()}_{len(self.nodes)}")
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, domain=domain, **attributes))
        return name

    def constant(self, values: Any) -> str:
        """Add a constant and return its name: numbers, in the precision of the graph, truth values or texts."""
        array = self.cast(values)
        name = self.free(f"constant_{len(self.constants)}")
        numpy_helper = import_optional("onnx.numpy_helper", "onnx", "Writing ONNX")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def cast(self, values: Any) -> Any:
        """Return an array of a type that ONNX has."""
        array = np.asarray(values)
        if array.dtype.kind == "f" and self.dtype == np.float32:
            return shortened(array)
        kinds: dict[str, Any] = {"f": self.dtype, "i": np.int64, "U": object}
        return array.astype(kinds.get(array.dtype.kind, array.dtype))

    def columns(self, z: str, columns: Any) -> str:
        """Take some columns."""
        return self.node("Gather", z, self.constant(np.asarray(columns, dtype=np.int64)), axis=1)

    def product(self, z: str, matrix: Any) -> str:
        """Multiply rows by a matrix.

        A single column is multiplied element by element: onnxruntime takes a scale in front of MatMul that is one
        number into the MatMul, as an attribute in float32.
        """
        return self.node("Mul" if len(matrix) == 1 else "MatMul", z, self.constant(matrix))


# -- steps -------------------------------------------------------------------------------------------------------------


@singledispatch
def traced(step: Step, graph: Graph, z: str) -> str:
    """Add a step that is given the value z, of shape (n, inputs), and return the name of its result, (n, terms)."""
    raise NotImplementedError(type(step).__name__)


@traced.register
def _(step: Standardise, graph: Graph, z: str) -> str:
    return graph.node("Div", graph.node("Sub", z, graph.constant(step.center)), graph.constant(step.scale))


@traced.register
def _(step: Stretch, graph: Graph, z: str) -> str:
    return graph.node("Add", graph.node("Mul", z, graph.constant(step.factor)), graph.constant(step.offset))


@traced.register
def _(step: Clip, graph: Graph, z: str) -> str:
    return graph.node("Min", graph.node("Max", z, graph.constant(step.low)), graph.constant(step.high))


@traced.register
def _(step: Rotate, graph: Graph, z: str) -> str:
    return graph.product(graph.node("Sub", z, graph.constant(step.center)), step.matrix)


@traced.register
def _(step: Radial, graph: Graph, z: str) -> str:
    """Differences to all centres at once: exact where products of inputs and centres would cancel."""
    rows = graph.node("Unsqueeze", z, graph.constant(np.array([1])))
    u = graph.node("Div", graph.node("Sub", rows, graph.constant(step.centers)), graph.constant(step.widths))
    r = graph.node("ReduceSum", graph.node("Mul", u, u), graph.constant(np.array([2])), keepdims=0)
    return KERNELS[step.kernel](graph, r)


def _one_more(graph: Graph, r: str) -> str:
    return graph.node("Add", r, graph.constant(1.0))


KERNELS: dict[str, Callable[[Graph, str], str]] = {
    "gaussian": lambda graph, r: graph.node("Exp", graph.node("Neg", r)),
    "multiquadric": lambda graph, r: graph.node("Sqrt", _one_more(graph, r)),
    "inverse_multiquadric": lambda graph, r: graph.node("Reciprocal", graph.node("Sqrt", _one_more(graph, r))),
    "cauchy": lambda graph, r: graph.node("Reciprocal", _one_more(graph, r)),
}


@traced.register
def _(step: Anova, graph: Graph, z: str) -> str:
    u = graph.node("Sub", graph.columns(z, step.columns), graph.constant(step.places))
    u = graph.node("Div", u, graph.constant(step.units))
    bumps = graph.node("Exp", graph.node("Neg", graph.node("Mul", u, u)))
    singles = graph.node("Where", graph.constant(step.bumps == 1), bumps, u)
    second = graph.columns(singles, np.maximum(step.second, 0))
    second = graph.node("Where", graph.constant(step.second < 0), graph.constant(1.0), second)
    return graph.node("Mul", graph.columns(singles, step.first), second)


@traced.register
def _(step: Waves, graph: Graph, z: str) -> str:
    turns = graph.node("Sub", graph.columns(z, step.columns), graph.constant(step.origins))
    turns = graph.node("Div", turns, graph.constant(step.periods))
    angles = graph.node("Mul", turns, graph.constant(step.frequencies))
    return graph.node("Sin", graph.node("Add", angles, graph.constant(step.phases)))


@traced.register
def _(step: Logistic, graph: Graph, z: str) -> str:
    along = graph.product(z, step.directions.T)
    return graph.node("Sigmoid", graph.node("Sub", graph.constant(step.offsets), along))


@traced.register
def _(step: Powers, graph: Graph, z: str) -> str:
    """One factor after the other: most products have few."""
    shape = graph.node(
        "Concat", graph.node("Shape", z, start=0, end=1), graph.constant(np.array([step.n_terms])), axis=0
    )
    terms = graph.node("Expand", graph.constant(np.ones((1, 1))), shape)
    most = int((step.powers > 0).sum(axis=1).max(initial=0))
    order = np.argsort(step.powers == 0, axis=1, kind="stable")  # the columns in each product come first
    for place in range(most):
        columns = order[:, place]
        powers = np.take_along_axis(step.powers, columns[:, None], axis=1)[:, 0]
        factor = graph.node("Pow", graph.columns(z, columns), graph.constant(powers.astype(np.float64)))
        terms = graph.node("Mul", terms, factor)
    return terms


@traced.register
def _(step: Lags, graph: Graph, z: str) -> str:
    """Rows of the batch are in the order of time."""
    n = graph.node("Squeeze", graph.node("Shape", z, start=0, end=1))
    times = graph.node("Range", graph.constant(np.array(0)), n, graph.constant(np.array(1)))
    times = graph.node("Unsqueeze", times, graph.constant(np.array([1])))
    rows = graph.node("Max", graph.node("Sub", times, graph.constant(step.lags[None])), graph.constant(np.array([0])))
    return graph.node("GatherElements", graph.columns(z, step.columns), rows, axis=0)


@traced.register
def _(step: Beside, graph: Graph, z: str) -> str:
    parts = [run(part.steps, graph, graph.columns(z, part.columns)) for part in step.parts]
    return graph.columns(graph.node("Concat", *parts, axis=1), step.order)


def run(steps: Sequence[Step], graph: Graph, z: str) -> str:
    """Add a chain of steps."""
    for step in steps:
        z = traced(step, graph, z)
    return z


# -- both ends ---------------------------------------------------------------------------------------------------------


def read_table(reading: Reading, graph: Graph, X: str) -> str:
    """Add the reading of one table of numbers."""
    z = graph.columns(X, reading.sources)
    fills = [reading.inputs[j].fill for j in reading.sources]
    return z if all(fill is None for fill in fills) else fill_holes(graph, z, fills)


def fill_holes(graph: Graph, z: str, fills: Sequence[float | None]) -> str:
    """Add values for what is missing; NaN stays NaN where there is none."""
    values = np.array([np.nan if fill is None else fill for fill in fills], dtype=np.float64)
    return graph.node("Where", graph.node("IsNaN", z), graph.constant(values), z)


def read_columns(reading: Reading, graph: Graph, names: Sequence[str]) -> str:
    """Add the reading of a table that comes column by column, each of shape (n, 1)."""
    codes: dict[int, str] = {}
    parts = []
    for j, category in zip(reading.sources.tolist(), reading.categories.tolist(), strict=True):
        one = reading.inputs[j]
        if one.categories is None:
            parts.append(names[j] if one.fill is None else fill_holes(graph, names[j], [one.fill]))
        else:
            codes[j] = codes.get(j) or category_number(one, graph, names[j])
            same = graph.node("Equal", codes[j], graph.constant(np.array([category])))
            parts.append(graph.node("Cast", same, to=element_type(graph.dtype)))
    return graph.node("Concat", *parts, axis=1)


def category_number(one: Input, graph: Graph, name: str) -> str:
    """Add the number of the category that an input is, -1 for an unknown one."""
    missing = -1 if one.fill is None else (one.categories or ()).index(one.fill)
    numbers = list(range(len(one.categories or ())))
    kind, keys = category_kind(one), list(one.categories or ())
    if kind == "text":  # a missing text is empty
        keys, numbers = [*keys, *[""] * ("" not in keys)], [*numbers, *[missing] * ("" not in keys)]
        lists: dict[str, Any] = {"keys_strings": keys, "values_int64s": numbers}
    else:
        name = graph.node("Cast", name, to=element_type(np.int64)) if kind == "truth value" else name
        lists = {"keys_int64s": [int(key) for key in keys], "values_int64s": numbers}
    return graph.node("LabelEncoder", name, domain=ML, default_int64=-1, **lists)


def category_kind(one: Input) -> str:
    """Return what the categories of an input are: ONNX has texts, whole numbers and truth values."""
    kinds = {type(category) for category in one.categories or ()}
    if kinds <= {str}:
        return "text"
    if kinds <= {int}:
        return "whole number"
    if kinds <= {bool}:
        return "truth value"
    raise ValueError(
        f"categories of {one.name} must be all texts, all whole numbers or all truth values in ONNX, got "
        f"{list(one.categories or ())!r}: convert the column with astype(str) before the fit."
    )


def combine(linear: Linear, graph: Graph, z: str) -> str:
    """Add the outputs, (n, q); without terms they are the same for all rows of z."""
    intercept = graph.constant(linear.intercept[None])
    if linear.names:
        return graph.node("Add", graph.product(z, linear.weights.T), intercept)
    rows = graph.node("Concat", graph.node("Shape", z, start=0, end=1), graph.constant(np.array([1])), axis=0)
    return graph.node("Expand", intercept, rows)


def decide(labels: Labels, graph: Graph, scores: str) -> str:
    """Add the class of each row, (n,)."""
    if len(labels.classes) == 2:
        second = graph.node("GreaterOrEqual", scores, graph.constant(0.0))
        second = graph.node("Squeeze", second, graph.constant(np.array([1])))
        number = graph.node("Cast", second, to=element_type(np.int64))
    else:
        number = graph.node("ArgMax", scores, axis=1, keepdims=0)
    return graph.node("Gather", graph.constant(np.array(labels.classes)), number)


def odds(labels: Labels, graph: Graph, scores: str) -> str:
    """Add the probability of each class."""
    if len(labels.classes) == 2:
        scores = graph.node("Concat", graph.node("Neg", scores), scores, axis=1)
    return graph.node("Softmax", graph.node("Mul", scores, graph.constant(labels.sharpness)), axis=1)


# -- a whole graph -----------------------------------------------------------------------------------------------------


def source(program: Program, dtype: str = "float64") -> bytes:
    """Return a model of ONNX, serialised; see `model_of`."""
    return model_of(program, dtype).SerializeToString()


def model_of(program: Program, dtype: str = "float64") -> Any:
    """Return a model of ONNX.

    Its input is `X`, a table of numbers of shape (n, d), or, where there are categories, one input of shape (n, 1) per
    column, by its name: numbers, texts, whole numbers or truth values. Its outputs are `prediction`; of a classifier
    `label`, `probabilities` where the estimator has them, and `scores`, in the shapes that `predict`, `predict_proba`
    and `decision_function` return; an underscore is added where a column has that name. A missing text is empty, an
    unknown category is none of the known ones. Radial terms take memory for rows x centres x inputs numbers: give large
    tables in parts.

    Parameters
    ----------
    program : Program
        The model.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the numbers that go in, come out, and between.
    """
    check_choice("dtype", dtype, ["float64", "float32"], remedy="the first is as exact as termwise itself")
    onnx = import_optional("onnx", "onnx", "Writing ONNX")
    helper, reading = onnx.helper, program.reading
    graph = Graph(dtype, taken=[one.name for one in reading.inputs])
    table = all(one.categories is None for one in reading.inputs)
    inputs = (
        [("X", graph.dtype, len(reading.inputs))] if table else [_column_input(one, graph) for one in reading.inputs]
    )
    if len(program.linear.names):
        names = [name for name, _, _ in inputs]
        z = read_table(reading, graph, "X") if table else read_columns(reading, graph, names)
        z = run(program.steps, graph, z)
    else:
        z = inputs[0][0]
    outputs = _answers(program, graph, combine(program.linear, graph, z))
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
    helper.set_model_props(model, {"inputs": ", ".join(one.name for one in reading.inputs)})
    onnx.checker.check_model(model)
    return model


def _column_input(one: Input, graph: Graph) -> tuple[str, Any, int]:
    """Name, type and width of the input for one column."""
    if one.categories is None:
        return one.name, graph.dtype, 1
    kinds: dict[str, Any] = {"text": object, "whole number": np.int64, "truth value": np.bool_}
    return one.name, np.dtype(kinds[category_kind(one)]), 1


def _answers(program: Program, graph: Graph, scores: str) -> list[tuple[str, Any, list[Any]]]:
    """Add what is asked of the outputs; return names, types and shapes."""
    q, labels = len(program.linear.intercept), program.labels
    flat = program.linear.one_output
    answer = graph.node("Squeeze", scores, graph.constant(np.array([1]))) if flat else scores
    shape = [None] if flat else [None, q]
    if labels is None:
        return [(_named(graph, answer, "prediction"), graph.dtype, shape)]
    kind = graph.cast(np.array(labels.classes)).dtype
    outputs: list[tuple[str, Any, list[Any]]] = [(_named(graph, decide(labels, graph, scores), "label"), kind, [None])]
    if labels.sharpness is not None:
        both = [None, len(labels.classes)]
        outputs.append((_named(graph, odds(labels, graph, scores), "probabilities"), graph.dtype, both))
    return [*outputs, (_named(graph, answer, "scores"), graph.dtype, shape)]


def _named(graph: Graph, value: str, name: str) -> str:
    helper = import_optional("onnx.helper", "onnx", "Writing ONNX")
    name = graph.free(name)
    graph.nodes.append(helper.make_node("Identity", [value], [name], name=name))
    return name


def element_type(dtype: Any) -> int:
    """Return ONNX's number of a type."""
    helper = import_optional("onnx.helper", "onnx", "Writing ONNX")
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
