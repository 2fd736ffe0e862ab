"""Evaluation of a model for one sample, in microseconds: prepared once, without tables and their general validation.

A sample is a sequence in the order of the inputs, or a mapping by their names. `SingleRow.read` returns its numbers as
`InputSchema.encode` does for a table, and raises the same errors. Steps are then evaluated on vectors: operations on
parameters alone are carried out beforehand, and what remains of an expression is a list of calls of NumPy's functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from termwise._arrays import limited
from termwise._checks import is_frame
from termwise.basis.encoder import VALUE, listing
from termwise.basis.expressions import OTHERS, Expression
from termwise.deploy.inputs import MAX_NAMES, NUMBERS, Input, as_float, is_missing_value
from termwise.deploy.program import Program
from termwise.deploy.steps import Concatenate, LevelEffects, PairProducts, ProgramStep

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]

# As in `expressions`, for one row: `u` has shape (inputs,) or (functions, inputs).
ROW_OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: OTHERS[name] for name in ("where", "isnan", "equal", "greater", "sum_squares")},
    "expit": expit,
    "dot": lambda u, v: v.dot(u),
    "power_product": lambda u, powers: np.prod(u**powers, axis=1),
}


# -- steps -------------------------------------------------------------------------------------------------------------


def row_function(steps: Sequence[ProgramStep]) -> Function:
    """Return a chain of steps as a function of a vector."""
    functions = [_step_function(step) for step in steps]
    if len(functions) == 1:
        return functions[0]

    def chain(z: Floats) -> Floats:
        for function in functions:
            z = function(z)
        return z

    return chain


def _step_function(step: ProgramStep) -> Function:
    """Return a step as a function of a vector."""
    if isinstance(step, Concatenate):
        return _branches(step)
    if isinstance(step, LevelEffects):
        return lambda z: step.evaluate(z[None])[0]
    tables = step.tables
    columns = tables.get("columns")
    function = _expression_function(step.expression, {k: v for k, v in tables.items() if k != "columns"}, columns)
    return _products(step, function) if isinstance(step, PairProducts) else function


def _expression_function(expression: Expression, parameters: Mapping[str, NDArray[Any]], columns: Any) -> Function:
    """Return an expression of the vector z, or of its entries in `columns`, with parameters of given values."""
    values: list[Any] = [None]  # of all parts: z first, results of the calls filled in when they are made
    places: dict[Expression, int] = {}
    calls: list[tuple[Callable[..., Any], tuple[int, ...], int]] = []
    varying = {0}
    for node in dict.fromkeys(expression.nodes()):
        if node.operation == "variable" and node.arguments[0] == "z":
            places[node] = 0
            continue
        places[node] = len(values)
        if node.is_leaf:
            name_or_number = node.arguments[0]
            values.append(parameters[name_or_number] if node.operation == "variable" else name_or_number)
            continue
        operation = ROW_OPERATIONS.get(node.operation) or getattr(np, node.operation)
        arguments = tuple(places[argument] for argument in node.arguments)
        if varying.isdisjoint(arguments):
            values.append(operation(*(values[i] for i in arguments)))
        else:
            varying.add(places[node])
            calls.append((operation, arguments, places[node]))
            values.append(None)

    def run(z: Floats) -> Floats:
        results = values.copy()
        results[0] = z if columns is None else z.take(columns)
        for operation, arguments, place in calls:
            results[place] = operation(*[results[i] for i in arguments])
        return results[places[expression]]

    return run


def _products(step: PairProducts, singles: Function) -> Function:
    """Return the products of functions of single inputs."""
    terms, factors = step.products
    first, ones = step.first, len(step.first) - len(terms)

    def run(z: Floats) -> Floats:
        values = singles(z)
        result = values.take(first)
        if ones == 0:
            return result * values.take(factors)
        if len(terms):
            result[terms] *= values.take(factors)
        return result

    return run


def _branches(step: Concatenate) -> Function:
    """Return the terms of several branches in order."""
    parts = [(part.columns, row_function(part.steps)) for part in step.parts]
    order = None if step.in_order else step.order

    def run(z: Floats) -> Floats:
        values = np.concatenate([function(z.take(columns)) for columns, function in parts]) if parts else z[:0]
        return values if order is None else values.take(order)

    return run


# -- inputs ------------------------------------------------------------------------------------------------------------


class SingleRow:
    """The outputs of a model for one sample."""

    def __init__(self, program: Program) -> None:
        if program.lags is not None:
            raise ValueError(
                "predict_one requires a model whose terms depend on one sample, got one of past values: use predict "
                "with the last rows of the series."
            )
        schema, linear = program.schema, program.linear
        self._program, self._schema = program, schema
        self._names = [schema.names[j] for j in schema.used]
        self._all_used = len(schema.used) == len(schema.inputs)
        self._plain = np.searchsorted(schema.used, schema.columns) if schema.is_plain else None
        self._readers = [_reader(schema.inputs[j], schema.categories[schema.columns == j]) for j in schema.used]
        self._places = [np.flatnonzero(schema.columns == j) for j in schema.used]
        self._terms = row_function(program.steps)
        self._weights, self._intercept = np.ascontiguousarray(linear.weights), linear.intercept
        self._one = len(linear.intercept) == 1
        self._vector, self._constant = self._weights[0], float(linear.intercept[0])
        self._limits = None if linear.limits is None else linear.limits[:, 0].tolist()

    def __reduce__(self) -> tuple[type[SingleRow], tuple[Program]]:
        """Prepare it again where a predictor is unpickled or copied: functions defined inside others are not stored."""
        return SingleRow, (self._program,)

    def outputs(self, x: Any) -> float | Floats:
        """Return the output for a sample, or the vector of several outputs."""
        terms = self._terms(self.read(x))
        if self._one:
            output = float(self._vector.dot(terms)) + self._constant
            return output if self._limits is None else min(max(output, self._limits[0]), self._limits[1])
        return limited(self._weights.dot(terms) + self._intercept, self._program.linear.limits)

    def read(self, x: Any) -> Floats:
        """Return the numbers of a sample."""
        values = self._values(x)
        if self._plain is not None:
            row = np.asarray(values)
            if row.dtype.kind in "fiub" and row.ndim == 1:
                z = row.take(self._plain).astype(np.float64, copy=False)
                if np.logical_and.reduce(np.isfinite(z)):  # faster than the method `all`
                    return z
        values = values.tolist() if isinstance(values, np.ndarray) else values
        z = np.empty(len(self._schema.columns))
        for value, reader, places in zip(values, self._readers, self._places, strict=True):
            numbers = reader(value)
            if numbers is None:  # a date, or invalid: a table of one row also raises the errors of invalid ones
                table = np.empty((1, len(self._schema.inputs)), dtype=object)
                for j, one in zip(self._schema.used, values, strict=True):
                    table[0, j] = one
                return self._schema.encode(table)[0]
            z[places] = numbers
        return z

    def _values(self, x: Any) -> Any:
        """Return the values of the inputs in use: by name of a mapping, by position of a sequence."""
        if isinstance(x, Mapping) or (hasattr(x, "items") and not is_frame(x)):  # a pandas series is no mapping
            try:
                return [x[name] for name in self._names]
            except KeyError:
                absent = listing(name for name in self._names if name not in x)
                there = listing([str(name) for name in x.keys()][:MAX_NAMES])  # noqa: SIM118
                raise ValueError(
                    f"x must have the inputs the model uses, got none called {absent}: it has {there}."
                ) from None
        shape = x.shape if isinstance(x, np.ndarray) else None
        sized = hasattr(x, "__len__") and not is_frame(x) and not isinstance(x, str | bytes)
        if not sized or (shape is not None and len(shape) != 1) or len(x) != len(self._schema.inputs):
            names = self._schema.names
            got = f"shape {shape}" if shape is not None else f"{len(x)} values" if sized else type(x).__name__
            more = " ..." * (len(names) > MAX_NAMES)
            raise ValueError(
                f"x must be one sample of {len(names)} values, got {got}: give {listing(names[:MAX_NAMES])}{more}, in "
                "this order, or a mapping from names to values."
            )
        if isinstance(x, np.ndarray):
            return x if self._all_used else x.take(self._schema.used)
        return x if self._all_used else [x[j] for j in self._schema.used]


def _reader(one: Input, codes: NDArray[np.intp]) -> Callable[[Any], Any]:
    """Return a function from a value of an input to its encoded numbers, or None if it needs full validation.

    The encoding of a category, and that of a missing value, are computed beforehand.
    """

    def encoded(number: float) -> Floats:
        return np.array([float(one.encode(np.array([number]), int(code))[0]) for code in codes])

    if one.kind == "date":
        return lambda value: None
    if one.categories is not None:
        table = {category: encoded(i) for i, category in enumerate(one.categories)}
        missing = None if not one.missing else encoded(math.nan)
        missing = missing if one.fill is None else table[one.fill]
        unseen = None if one.unseen is None else encoded(one.unseen)

        def category(value: Any) -> Floats | None:
            if type(value) is not str and is_missing_value(value):
                return missing
            try:
                return table.get(value, unseen)
            except TypeError:  # a list or an array
                return None

        return category

    direct = bool((codes == VALUE).all())
    present = encoded(0.0)
    absent = encoded(one.fill) if one.fill is not None else encoded(math.nan) if one.missing else None
    own = codes == VALUE

    def number(value: Any) -> Any:
        if type(value) is not float and not isinstance(value, NUMBERS):
            return absent if is_missing_value(value) else None
        value = as_float(value)
        if math.isfinite(value):
            return value if direct else np.where(own, value, present)
        return absent if value != value else None

    return number
