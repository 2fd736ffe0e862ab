"""Converters of our estimators and bases for skl2onnx, so that it can convert whole pipelines of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import is_classifier

import termwise
from termwise._checks import import_optional
from termwise.basis import Basis, TableEncoder
from termwise.basis.base import ColumnSubset
from termwise.deploy import onnx
from termwise.deploy.freeze import (
    UnsupportedTransformer,
    flatten,
    freeze,
    labels_of,
    linear_of,
    steps_of,
    supported,
)
from termwise.deploy.inputs import InputSchema, describe_inputs
from termwise.deploy.onnx import Graph
from termwise.deploy.program import Labels


@cache
def register() -> None:
    """Register the converters of all estimators and bases; once is enough."""
    skl2onnx = import_optional("skl2onnx", "onnx", "Converting pipelines")
    public = [getattr(termwise, name) for name in termwise.__all__]
    for cls in [kind for kind in public if hasattr(kind, "predictor_")]:
        skl2onnx.update_registered_converter(
            cls, f"Termwise{cls.__name__}", _shape_of_model, _convert_model, parser=_parse, options={"zipmap": [False]}
        )
    for cls in [*(kind for kind in supported() if issubclass(kind, Basis)), TableEncoder, ColumnSubset]:
        skl2onnx.update_registered_converter(cls, f"Termwise{cls.__name__}", _shape_of_terms, _convert_terms)


class NestedGraph(Graph):
    """Nodes and constants inside a graph that skl2onnx is writing."""

    def __init__(self, scope: Any, operator: Any, container: Any) -> None:
        super().__init__(_precision(operator))
        if container.target_opset < onnx.OPSET:
            raise ValueError(
                f"target_opset must be at least {onnx.OPSET} for the estimators of termwise, got "
                f"{container.target_opset}: leave it out to have the newest."
            )
        self.scope, self.operator, self.container = scope, operator, container

    def node(self, op: str, *inputs: str, domain: str = "", name: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its result."""
        name = self.scope.get_unique_variable_name(f"termwise_{op.lower()}")
        label = self.scope.get_unique_operator_name(f"termwise_{op}")
        version = onnx.ML_OPSET if domain else onnx.OPSET
        self.container.add_node(
            op, list(inputs), [name], op_domain=domain, op_version=version, name=label, **attributes
        )
        return name

    def constant(self, values: Any) -> str:
        """Add a constant and return its name."""
        array = self.cast(values)
        name = self.scope.get_unique_variable_name("termwise_constant")
        self.container.add_initializer(name, onnx.element_type(array.dtype), list(array.shape), array.ravel().tolist())
        return name

    def inputs(self) -> list[str]:
        """Names of the inputs, numbers in the precision of the graph."""
        types = import_optional("skl2onnx.common.data_types", "onnx", "Converting pipelines")
        strings = (types.StringTensorType, types.Int64TensorType) if len(self.operator.inputs) > 1 else ()
        return [
            one.full_name
            if isinstance(one.type, strings)
            else self.node("Cast", one.full_name, to=onnx.element_type(self.dtype))
            for one in self.operator.inputs
        ]

    def encode(self, schema: InputSchema) -> str:
        """Add the encoding of one table, or of one that is given column by column."""
        names = self.inputs()
        if len(names) == 1:
            return onnx.encode_table(schema, self, names[0])
        if len(names) == len(schema.inputs):
            return onnx.encode_columns(schema, self, names)
        return onnx.encode_table(schema, self, self.node("Concat", *names, axis=1))

    def add_results(self, *values: str) -> None:
        """Connect values to the outputs."""
        for value, output in zip(values, self.operator.outputs, strict=True):
            label = self.scope.get_unique_operator_name("termwise_result")
            self.container.add_node("Identity", [value], [output.full_name], name=label)


def _precision(operator: Any) -> Any:
    """Return float64 if an input has it, else float32."""
    types = import_optional("skl2onnx.common.data_types", "onnx", "Converting pipelines")
    return np.float64 if any(isinstance(one.type, types.DoubleTensorType) for one in operator.inputs) else np.float32


def _tensor(operator: Any, *width: int, kind: str = "") -> Any:
    """Return the type of a table of numbers with some columns or, without a width, of a vector of some kind."""
    types = import_optional("skl2onnx.common.data_types", "onnx", "Converting pipelines")
    kind = kind or ("DoubleTensorType" if _precision(operator) == np.float64 else "FloatTensorType")
    shape = operator.inputs[0].type.shape
    return getattr(types, kind)([shape[0] if shape else None, *width])


# -- bases -------------------------------------------------------------------------------------------------------------


def _shape_of_terms(operator: Any) -> None:
    operator.outputs[0].type = _tensor(operator, len(operator.raw_operator.get_feature_names_out()))


def _convert_terms(scope: Any, operator: Any, container: Any) -> None:
    graph, basis = NestedGraph(scope, operator, container), operator.raw_operator
    if isinstance(basis, TableEncoder):
        blocks = dict(basis.blocks())
        categories = {name: kinds for name, kinds in blocks.items() if kinds is not None}
        graph.add_results(graph.encode(InputSchema.from_inputs(describe_inputs(blocks, categories, {}))))
    elif isinstance(basis, ColumnSubset):
        graph.add_results(graph.columns(_converted(basis.transformer, graph), basis.indices))
    else:
        names = graph.inputs()
        z = names[0] if len(names) == 1 else graph.node("Concat", *names, axis=1)
        graph.add_results(onnx.add_steps(steps_of(basis), graph, z))


def _converted(transformer: Any, graph: NestedGraph) -> str:
    """Add the nodes that skl2onnx converts a transformer to."""
    algebra = import_optional("skl2onnx.algebra.onnx_operator", "onnx", "Converting pipelines")
    name = graph.scope.get_unique_variable_name("termwise_terms")
    opset = graph.container.target_opset
    part = algebra.OnnxSubEstimator(transformer, *graph.operator.inputs, op_version=opset, output_names=[name])
    part.add_to(graph.scope, graph.container)
    return graph.node("Cast", name, to=onnx.element_type(graph.dtype))


# -- estimators --------------------------------------------------------------------------------------------------------


def _parse(scope: Any, model: Any, inputs: Sequence[Any], custom_parsers: Any = None) -> Any:
    """Declare the outputs: one of a regressor, two of a classifier."""
    operator = scope.declare_local_operator(f"Termwise{type(model).__name__}", model)
    operator.inputs = inputs
    classes = ["label", "probabilities" if hasattr(model, "predict_proba") else "scores"]
    for name in classes if is_classifier(model) else ["variable"]:
        kind = _tensor(operator, kind="Int64TensorType") if name == "label" else _tensor(operator, 1)
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _shape_of_model(operator: Any) -> None:
    model = list(flatten(operator.raw_operator))[-1]
    labels = _labels(model)
    if labels is None:
        operator.outputs[0].type = _tensor(operator, np.size(model.intercept_))
        return
    kind = "StringTensorType" if isinstance(labels.classes[0], str) else "Int64TensorType"
    operator.outputs[0].type = _tensor(operator, kind=kind)
    operator.outputs[1].type = _tensor(operator, len(labels.classes))


def _labels(model: Any) -> Labels | None:
    """Return the classes of a classifier, as skl2onnx has them: all whole numbers, or all strings."""
    labels = labels_of(model)
    if labels is None:
        return None
    whole = all(isinstance(one, int) for one in labels.classes)  # or booleans
    return Labels([int(one) if whole else str(one) for one in labels.classes], labels.sharpness)


def _convert_model(scope: Any, operator: Any, container: Any) -> None:
    """Add a model: its terms by our own steps, or by skl2onnx where only it supports a transformer."""
    graph, model = NestedGraph(scope, operator, container), operator.raw_operator
    last = list(flatten(model))[-1]
    terms, labels = operator.inputs[0].full_name, _labels(last)
    if last.n_terms_:
        try:
            program = freeze(model)
            terms = onnx.add_steps(program.steps, graph, graph.encode(program.schema))
        except UnsupportedTransformer:
            terms = _converted(last.fitted_terms_.basis, graph)
    scores = onnx.add_outputs(linear_of(last), graph, terms)
    if labels is None:
        graph.add_results(scores)
    elif labels.sharpness is not None:
        graph.add_results(onnx.add_label(labels, graph, scores), onnx.add_probabilities(labels, graph, scores))
    else:
        both = scores if len(labels.classes) > 2 else graph.node("Concat", graph.node("Neg", scores), scores, axis=1)
        graph.add_results(onnx.add_label(labels, graph, scores), both)
