"""A model as an ONNX graph, and the converters of all estimators and bases for skl2onnx.

Graphs use operators of ONNX opset 17 and of `ai.onnx.ml` opset 3, which every onnxruntime from 1.12 on supports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

import termwise
from termwise._checks import check_choice, import_optional
from termwise._numerics import LOG_RESPONSE_MAX
from termwise.basis import Basis, TableEncoder
from termwise.basis.base import ColumnSubset
from termwise.basis.encoder import LEVEL, MISSING, OTHER, UNSEEN, VALUE
from termwise.basis.expressions import Expression, entry_of, evaluate
from termwise.deploy.freeze import freeze, outputs_of
from termwise.deploy.inputs import Input, InputSchema
from termwise.deploy.program import ClassLabels, Linear, Program, as_float32
from termwise.deploy.steps import Concatenate, Lags, LevelEffects, PairProducts, ProgramStep
from termwise.deploy.transformers import UnsupportedTransformer, flatten, steps_by_class, steps_of

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
ML = "ai.onnx.ml"
CATEGORY_TYPES: dict[type, Any] = {str: object, int: np.int64, bool: np.bool_}  # of inputs, by the type of categories


def source(program: Program, dtype: str = "float64") -> bytes:
    """Return a model of ONNX, serialised.

    Its input is `X`, a table of numbers of shape (n, d), or, where there are categories, one input of shape (n, 1) per
    column, by its name: numbers, strings, whole numbers or booleans; one without a name is called `x0`, `x1` or so. Its
    outputs are `prediction`; of a classifier `label`, `probabilities` where the estimator has them, and `scores`, in
    the shapes that `predict`, `predict_proba` and `decision_function` return; an underscore is added where a column has
    that name. A missing string is empty, an unknown category is none of the known ones. Radial terms need memory for
    rows x centres x inputs numbers: split large tables.

    Parameters
    ----------
    program : Program
        The model.
    dtype : {"float64", "float32"}, default="float64"
        Precision of inputs, outputs and intermediate numbers.
    """
    check_choice("dtype", dtype, ["float64", "float32"], remedy="the first is as exact as termwise itself")
    onnx = import_optional("onnx", "onnx", "Writing ONNX")
    helper, schema, linear = onnx.helper, program.schema, program.linear
    given = [one.name for one in schema.inputs]
    columns = [name or next(new for i in count(j) if (new := f"x{i}") not in given) for j, name in enumerate(given)]

    def free_name(name: str) -> str:
        while name in columns:
            name += "_"
        return name

    graph = Graph(dtype, free_name)
    inputs = [("X", graph.dtype, len(columns))]
    if any(one.categories is not None for one in schema.inputs):
        types = [graph.dtype if one.categories is None else CATEGORY_TYPES[category_type(one)] for one in schema.inputs]
        inputs = [(name, np.dtype(kind), 1) for name, kind in zip(columns, types, strict=True)]
    names = [name for name, _, _ in inputs]
    scores = add_scores(program, linear, graph, names) if linear.names else add_outputs(linear, graph, names[0])
    outputs = _add_predictions(program, graph, scores)
    body = helper.make_graph(
        [
            helper.make_node(op, operands, [name], name=name, domain=domain, **attributes)
            for op, operands, name, domain, attributes in graph.nodes
        ],
        "termwise",
        [helper.make_tensor_value_info(name, element_type(kind), [None, width]) for name, kind, width in inputs],
        [helper.make_tensor_value_info(name, element_type(kind), shape) for name, kind, shape in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
        doc_string=f"terms: {', '.join(linear.names) or 'none'}",
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
    model = helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION, producer_name="termwise")
    helper.set_model_props(model, {"inputs": ", ".join(columns)})
    onnx.checker.check_model(model)
    return model.SerializeToString()


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
        z = graph.columns(_joined(graph, names), schema.columns)
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


def _joined(graph: Graph, names: Sequence[str]) -> str:
    """Add the matrix of all columns of numbers, given as one matrix or several."""
    return names[0] if len(names) == 1 else graph.node("Concat", *names, axis=1)


def reject_numbers(schema: InputSchema, graph: Graph, names: Sequence[str], scores: str) -> str:
    """Replace scores by NaN in rows with a number that `predict` rejects: infinite, or missing where it must not be."""
    used = [j for j in schema.used if schema.inputs[j].categories is None]
    if not used:
        return scores
    if all(one.categories is None for one in schema.inputs):
        z = graph.columns(_joined(graph, names), used)
    else:
        z = graph.node("Concat", *(names[j] for j in used), axis=1)
    optional = [bool(schema.inputs[j].missing) or schema.inputs[j].fill is not None for j in used]
    return _reject(graph, z, np.array(optional), scores)


def _reject(graph: Graph, z: str, optional: NDArray[np.bool_], scores: str) -> str:
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
        return graph.node("Add", graph.product(z, linear.weights.T), intercept)
    rows = graph.node("Concat", graph.node("Shape", z, start=0, end=1), graph.constant(np.array([1])), axis=0)
    return graph.node("Expand", intercept, rows)


def add_scores(program: Program, linear: Linear, graph: Graph, names: Sequence[str]) -> str:
    """Add the outputs of a model with terms, (n, q); NaN in rows with numbers that `predict` rejects."""
    lags = program.lags
    split = 0 if lags is None else program.steps.index(lags) + 1
    z = add_steps(program.steps[:split], graph, encode(program.schema, graph, names))
    scores = add_outputs(linear, graph, add_steps(program.steps[split:], graph, z))
    if lags is None:
        return reject_numbers(program.schema, graph, names, scores)
    return _reject(graph, z, np.zeros(len(lags.lags), dtype=bool), scores)  # only past values in use must be known


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


def _add_predictions(program: Program, graph: Graph, scores: str) -> list[tuple[str, Any, list[Any]]]:
    """Add the results; return their names, types and shapes."""
    q, labels = len(program.linear.intercept), program.labels
    one_output = program.linear.one_output
    scores = add_link(program.link, graph, scores, q)
    value = graph.node("Squeeze", scores, graph.constant(np.array([1]))) if one_output else scores
    shape = [None] if one_output else [None, q]
    if labels is None:
        return [(graph.node("Identity", value, name="prediction"), graph.dtype, shape)]
    kind = graph.cast(np.array(labels.classes)).dtype
    outputs: list[Any] = [(graph.node("Identity", add_label(labels, graph, scores), name="label"), kind, [None])]
    if labels.sharpness is not None:
        name = graph.node("Identity", add_class_columns(labels, graph, scores), name="probabilities")
        outputs.append((name, graph.dtype, [None, len(labels.classes)]))
    return [*outputs, (graph.node("Identity", value, name="scores"), graph.dtype, shape)]


# -- skl2onnx ----------------------------------------------------------------------------------------------------------


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
    `X` in float64 or `DoubleTensorType`. For a table with categories every column is an input, numbers and strings.

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


@cache
def register() -> None:
    """Register the converters of all estimators and bases with skl2onnx, as `to_onnx` does; once is enough."""
    skl2onnx = import_optional("skl2onnx", "onnx", "Converting pipelines")
    public = [getattr(termwise, name) for name in termwise.__all__]
    for cls in [kind for kind in public if hasattr(kind, "predictor_")]:
        skl2onnx.update_registered_converter(
            cls, f"Termwise{cls.__name__}", _set_shapes, _convert, parser=_parse, options={"zipmap": [False]}
        )
    for cls in [*(kind for kind in steps_by_class.registry if issubclass(kind, Basis)), TableEncoder, ColumnSubset]:
        skl2onnx.update_registered_converter(cls, f"Termwise{cls.__name__}", _set_shapes, _convert)


def _tensor(operator: Any, *width: int, kind: str = "") -> Any:
    """Return the type of a table of numbers with some columns or, without a width, of a vector of some kind.

    Numbers are in float64 if those of an input are, else in float32.
    """
    types = import_optional("skl2onnx.common.data_types", "onnx", "Converting pipelines")
    double = any(isinstance(one.type, types.DoubleTensorType) for one in operator.inputs)
    shape = operator.inputs[0].type.shape
    kind = kind or ("DoubleTensorType" if double else "FloatTensorType")
    return getattr(types, kind)([shape[0] if shape else None, *width])


def _parse(scope: Any, model: Any, inputs: Sequence[Any], custom_parsers: Any = None) -> Any:
    """Declare the outputs: one of a regressor, two of a classifier."""
    operator = scope.declare_local_operator(f"Termwise{type(model).__name__}", model)
    operator.inputs = inputs
    classes = ["label", "probabilities" if hasattr(model, "predict_proba") else "scores"]
    for name in classes if is_classifier(model) else ["variable"]:
        kind = _tensor(operator, kind="Int64TensorType") if name == "label" else _tensor(operator, 1)
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _outputs_of(model: Any) -> tuple[Linear, ClassLabels | None]:
    """Return the weights of a model, and its classes as skl2onnx has them: all whole numbers, or all strings."""
    linear, labels = outputs_of(model.fitted_terms_, model.fitted_terms_.names)
    if labels is None:
        return linear, None
    whole = all(isinstance(one, int) for one in labels.classes)  # or booleans
    return linear, replace(labels, classes=[int(one) if whole else str(one) for one in labels.classes])


def _set_shapes(operator: Any) -> None:
    """Set the types of the outputs of an operator, that is of a basis or an estimator."""
    model, outputs = operator.raw_operator, operator.outputs
    if not hasattr(type(model), "predictor_"):
        outputs[0].type = _tensor(operator, len(model.get_feature_names_out()))
        return
    linear, labels = _outputs_of(list(flatten(model))[-1])
    if labels is None:
        outputs[0].type = _tensor(operator, len(linear.intercept))
        return
    kind = "StringTensorType" if isinstance(labels.classes[0], str) else "Int64TensorType"
    outputs[0].type, outputs[1].type = _tensor(operator, kind=kind), _tensor(operator, len(labels.classes))


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Convert an operator: add its graph to the one that skl2onnx is writing."""
    types = import_optional("skl2onnx.common.data_types", "onnx", "Converting pipelines")
    if container.target_opset < OPSET:
        raise ValueError(
            f"target_opset must be at least {OPSET} for the estimators of termwise, got {container.target_opset}: "
            "leave it out to have the newest."
        )
    double = isinstance(_tensor(operator, 1), types.DoubleTensorType)
    graph = Graph(np.float64 if double else np.float32, scope.get_unique_variable_name)
    kept = (types.StringTensorType, types.Int64TensorType) if len(operator.inputs) > 1 else ()
    names = []
    for one in operator.inputs:
        is_kept = isinstance(one.type, kept)
        names.append(one.full_name if is_kept else graph.node("Cast", one.full_name, to=element_type(graph.dtype)))

    def converted(transformer: Any) -> str:
        """Add the nodes that skl2onnx converts a transformer to."""
        algebra = import_optional("skl2onnx.algebra.onnx_operator", "onnx", "Converting pipelines")
        name, opset = scope.get_unique_variable_name("termwise_terms"), container.target_opset
        part = algebra.OnnxSubEstimator(transformer, *operator.inputs, op_version=opset, output_names=[name])
        part.add_to(scope, container)
        return graph.node("Cast", name, to=element_type(graph.dtype))

    add = _add_model if hasattr(type(operator.raw_operator), "predictor_") else _add_basis
    results = add(operator.raw_operator, graph, names, converted)
    for result, output in zip(results, operator.outputs, strict=True):
        graph.nodes.append(("Identity", [result], output.full_name, "", {}))
    for op, operands, name, domain, attributes in graph.nodes:
        versions = {"op_domain": domain, "op_version": ML_OPSET if domain else OPSET}
        label = scope.get_unique_operator_name(f"termwise_{op}")
        container.add_node(op, operands, [name], name=label, **versions, **attributes)
    for name, array in graph.constants.items():
        container.add_initializer(name, element_type(array.dtype), list(array.shape), array.ravel().tolist())


def _add_basis(basis: Any, graph: Graph, names: Sequence[str], converted: Callable[[Any], str]) -> list[str]:
    """Add the terms of a basis, or the numbers of an encoder; return the name of the result."""
    if isinstance(basis, TableEncoder):
        return [encode(InputSchema.from_encodings(basis.encodings_, {}).numeric_dates(), graph, names)]
    if isinstance(basis, ColumnSubset):
        return [graph.columns(converted(basis.transformer), basis.indices)]
    return [add_steps(steps_of(basis), graph, names[0] if len(names) == 1 else graph.node("Concat", *names, axis=1))]


def _add_model(model: Any, graph: Graph, names: Sequence[str], converted: Callable[[Any], str]) -> list[str]:
    """Add a model: its terms by our own steps, or by skl2onnx where only it supports a transformer."""
    last = list(flatten(model))[-1]
    linear, labels = _outputs_of(last)
    if linear.names:
        try:
            scores = add_scores(freeze(model), linear, graph, names)
        except UnsupportedTransformer:
            scores = add_outputs(linear, graph, converted(last.fitted_terms_.basis))
    else:
        scores = add_outputs(linear, graph, names[0])
    if labels is None:
        return [add_link(last.fitted_terms_.link, graph, scores, len(linear.intercept))]
    return [add_label(labels, graph, scores), add_class_columns(labels, graph, scores)]
