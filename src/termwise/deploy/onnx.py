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
from sklearn.base import is_classifier

import termwise
from termwise._checks import check_choice, import_optional
from termwise.basis import Basis, TableEncoder
from termwise.basis.base import ColumnSubset
from termwise.deploy.freeze import freeze, outputs_of
from termwise.deploy.inputs import InputSchema
from termwise.deploy.onnx_graph import (
    CATEGORY_TYPES,
    ML,
    Graph,
    add_class_columns,
    add_label,
    add_link,
    add_outputs,
    add_scores,
    add_steps,
    category_type,
    element_type,
    encode,
)
from termwise.deploy.program import ClassLabels, Linear, Program
from termwise.deploy.transformers import UnsupportedTransformer, flatten, steps_by_class, steps_of

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8


def source(program: Program, dtype: str = "float64") -> bytes:
    """Return a model of ONNX, serialised.

    Its input is `X`, a table of numbers of shape (n, d), or, where there are categories, one input of shape (n, 1) per
    column, by its name: numbers, strings, whole numbers or booleans; one without a name is called `x0`, `x1` or so. Its
    outputs are `prediction`; of a classifier `label`, `probabilities` where the estimator has them, and `scores`, in
    the shapes that `predict`, `predict_proba` and `decision_function` return; an underscore is added where a column has
    that name. A missing string is empty, an unknown category is none of the known ones. Radial terms need memory for
    rows x centres x inputs numbers: split large tables.
    """
    check_choice("dtype", dtype, ["float64", "float32"], remedy="the first is as exact as termwise itself")
    onnx = import_optional("onnx", "onnx", "Writing ONNX")
    helper, schema, linear = onnx.helper, program.schema, program.linear
    columns = [
        name or next(new for i in count(j) if (new := f"x{i}") not in schema.names)
        for j, name in enumerate(schema.names)
    ]

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
    scores = add_scores(program, graph, names) if linear.names else add_outputs(linear, graph, names[0])
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

    results = _add_operator(operator.raw_operator, graph, names, converted)
    for result, output in zip(results, operator.outputs, strict=True):
        graph.nodes.append(("Identity", [result], output.full_name, "", {}))
    for op, operands, name, domain, attributes in graph.nodes:
        versions = {"op_domain": domain, "op_version": ML_OPSET if domain else OPSET}
        label = scope.get_unique_operator_name(f"termwise_{op}")
        container.add_node(op, operands, [name], name=label, **versions, **attributes)
    for name, array in graph.constants.items():
        container.add_initializer(name, element_type(array.dtype), list(array.shape), array.ravel().tolist())


def _add_operator(model: Any, graph: Graph, names: Sequence[str], converted: Callable[[Any], str]) -> list[str]:
    """Add the numbers of an encoder, the terms of a basis or the outputs of an estimator; return their names.

    The terms of an estimator are those of our own steps, or of skl2onnx where only it supports a transformer.
    """
    if isinstance(model, TableEncoder):
        return [encode(InputSchema.from_encodings(model.encodings_, {}).numeric_dates(), graph, names)]
    if isinstance(model, ColumnSubset):
        return [graph.columns(converted(model.transformer), model.indices)]
    if not hasattr(type(model), "predictor_"):
        return [add_steps(steps_of(model), graph, graph.matrix(names))]
    last = list(flatten(model))[-1]
    linear, labels = _outputs_of(last)
    if linear.names:
        try:
            scores = add_scores(freeze(model), graph, names)
        except UnsupportedTransformer:
            scores = add_outputs(linear, graph, converted(last.fitted_terms_.basis))
    else:
        scores = add_outputs(linear, graph, names[0])
    if labels is None:
        return [add_link(last.fitted_terms_.link, graph, scores, len(linear.intercept))]
    return [add_label(labels, graph, scores), add_class_columns(labels, graph, scores)]
