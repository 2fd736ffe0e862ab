"""Paths on the device of the inputs: the folds of a cross-validation as one batch.

Bases are fitted on the host, by threads, since they take decisions that depend on the data at every step. Their design
matrices are computed on the device, from the inputs, and stay there; the terms of all folds are selected together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, at, from_host, has_missing, namespace
from termwise._memory import budget
from termwise._numerics import FLOAT64
from termwise.basis import AnovaBasis, Basis, SmoothBasis, UnionBasis
from termwise.execution.cuda_graphs import launcher_for
from termwise.selection.batch import batched_paths
from termwise.selection.nested import NestedModels

Floats = NDArray[np.float64]

COPIES = 4  # of a design matrix that are alive at once: it is made, centred, and stored beside those of other folds


class PathData(NamedTuple):
    """A problem of least squares: functions of a fitted basis, and targets."""

    functions: Basis
    X: NDArray[np.float64]  # (n, d)
    Y: Floats  # (n, q)
    sample_weight: Floats  # (n,)
    dtype: np.dtype = FLOAT64  # precision of the functions


def design_on(like: Array, functions: Basis, X: NDArray[np.float64]) -> Array:
    """Return the design matrix of fitted functions in the library and on the device of `like`."""
    if isinstance(functions, UnionBasis):
        parts = [design_on(like, part, X) for part in functions.bases_]
        return at(namespace(like).concat(parts, axis=1), functions.places_, axis=1)
    if isinstance(functions, AnovaBasis):
        return functions.design(X).stored_on(like)
    if isinstance(functions, SmoothBasis) and not has_missing(X):
        return functions.evaluate_on(like, X)
    return from_host(np.ascontiguousarray(functions.evaluate(X), dtype=np.float64), like)


def fits_in_device_memory(like: Array, problems: Sequence[PathData]) -> bool:
    """Whether the design matrices of some problems fit into the memory of the device of `like`."""
    entries = len(problems) * max(len(one.X) for one in problems) * max(one.functions.n_functions for one in problems)
    return COPIES * 8 * entries <= budget(like)


def select_on_device(like: Array, problems: Sequence[PathData], alpha: float, max_terms: int) -> list[NestedModels]:
    """Select up to `max_terms` terms of each problem, all together."""
    designs = [design_on(like, one.functions, one.X) for one in problems]
    targets, weights = [one.Y for one in problems], [one.sample_weight for one in problems]
    dtype, launcher = problems[0].dtype, launcher_for(like)
    return batched_paths(designs, targets, weights, alpha, max_terms, dtype, launcher)
