"""Evaluation of a model for tables of many rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._threads import block_rows, for_blocks
from termwise.deploy.inputs import InputSchema

Floats = NDArray[np.float64]


def evaluate_rows(
    schema: InputSchema, X: Any, function: Callable[[Floats], Floats], n_outputs: int, width: int
) -> Floats:
    """Return a function of encoded rows, which returns `n_outputs` columns, for all rows of a table.

    Rows of numbers are encoded block by block, other tables as a whole. `width` is the number of columns of all
    intermediate results. A block is stored by columns: then the loops inside NumPy's functions run along its rows.
    """
    X = schema.as_table(X)
    n, step = X.shape[0], block_rows(width)
    if n <= step:
        return function(schema.encode(X))
    Z = None if schema.takes_numbers(X) else schema.encode(X)
    outputs = np.empty((n, n_outputs))

    def evaluate(start: int) -> None:
        rows = slice(start, start + step)
        outputs[rows] = function(schema.encode(X[rows]) if Z is None else np.asfortranarray(Z[rows]))

    try:
        for_blocks(evaluate, range(0, n, step))
    except ValueError:
        schema.encode(X)  # raises for invalid rows, with their numbers in the table
        raise
    return outputs
