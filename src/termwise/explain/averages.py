"""Average effects: what is left to show where terms take several inputs together."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from termwise._arrays import as_columns, densify, evenly, rows_of, to_host
from termwise.basis import LagBasis, TableEncoder
from termwise.basis.encoder import is_frame
from termwise.explain.effects import DECILES, Effect
from termwise.explain.resolve import Unwrapped, first_step

Floats = NDArray[np.float64]

MOST_INPUTS = 60  # beyond which it takes too long
AVERAGED = 150  # samples averaged over
GRID = 24


def average_effects(parts: Unwrapped, X: Any) -> list[list[Effect]]:
    """For each input its effect on every output, averaged over samples; less the mean over them."""
    if X is None or isinstance(first_step(parts.model), LagBasis) or X.shape[1] > MOST_INPUTS:
        return []
    encoder = first_step(parts.model)
    if not isinstance(encoder, TableEncoder):
        encoder = TableEncoder().fit(X if is_frame(X) else densify(X))
    U = encoder.transform(X if is_frame(X) else densify(X))
    some, effects, start = rows_of(U, evenly(len(U), AVERAGED)), [], 0
    for name, kinds in encoder.blocks():
        columns = list(range(start, start + (1 if kinds is None else len(kinds))))
        start += len(columns)
        values, codes = grid_of(U[:, columns], kinds)
        heights = np.array([outputs(parts, placed(some, columns, code)).mean(axis=0) for code in codes])
        deciles = np.quantile(U[:, columns[0]], DECILES) if kinds is None else np.empty(0)
        effects.append([Effect((name,), (values,), h - h.mean(), float(h.std()), (deciles,)) for h in heights.T])
    return effects


def grid_of(columns: Floats, kinds: list[Any] | None) -> tuple[NDArray, Floats]:
    """Values of an input, and its columns there."""
    if kinds is None:
        values = np.linspace(columns.min(), columns.max(), GRID)
        return values, values[:, None]
    return np.fromiter(kinds, dtype=object, count=len(kinds)), np.eye(len(kinds))


def placed(U: Floats, columns: list[int], code: Floats) -> Floats:
    """Samples with one input at a value."""
    U = U.copy()
    U[:, columns] = code
    return U


def outputs(parts: Unwrapped, U: Floats) -> Floats:
    """Outputs of the model, (m, q), for tables that are numbers already."""
    model, basis = parts.model, parts.model._chosen_basis
    if isinstance(first_step(model), TableEncoder):
        steps = basis.steps[1:] if isinstance(basis, Pipeline) else []
        basis = Pipeline(steps) if steps else None
    with warnings.catch_warnings():  # the columns are in order, even if the steps know them by name
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        G = U[:, model._chosen] if basis is None else densify(basis.transform(U))
    return np.asarray(to_host(as_columns(model._outputs(G))))
