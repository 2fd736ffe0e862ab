"""Paths on the device of the inputs: the folds of a cross-validation as one batch.

Bases are fitted on the host, by threads, since they take decisions that depend on the data at every step. Their design
matrices are computed on the device, from the inputs, and stay there. The terms of all folds are then selected together,
by the regularised cost: an operation is one kernel for all of them, and every decision is made on the device. The host
only reads now and then which paths have ended, so that neither its speed nor launch latency show. The equations are
those of `selection.nested`, which takes one problem at a time on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    as_float64,
    as_type,
    at,
    current_device,
    from_host,
    has_missing,
    namespace,
    put,
    to_host,
    zeros,
)
from termwise._memory import budget
from termwise._numerics import DEPENDENT_COLUMN, DEPENDENT_COLUMN_FLOAT32, FLOAT64, ROUNDING_SHARE, TIE_TOLERANCE
from termwise.basis import AnovaBasis, Basis, SmoothBasis, UnionBasis
from termwise.execution.cuda_graphs import launcher_for
from termwise.selection.nested import NestedModels
from termwise.selection.rules import CostRule

Floats = NDArray[np.float64]

COPIES = 4  # of a design matrix that are alive at once: it is made, centred, and stored beside those of other folds
STEPS_AHEAD = 16  # steps between two looks of the host at the paths that have ended


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
    return batched_paths(designs, targets, weights, alpha, max_terms, problems[0].dtype)


# -- many paths as one batch -------------------------------------------------------------------------------------------


class Problems(NamedTuple):
    """m problems of at most n samples, p candidates, q outputs and K terms; zeros are added to smaller ones."""

    G: Array  # (m, n, p), candidates, centred, rows scaled by the roots of their weights
    y: Array  # (m, n, q), targets, likewise
    least: Array  # (m, p), squares of what must be left of a candidate that does not depend on the chosen ones
    root_alpha: Array  # (1,)
    limit: Array  # (m,), maximum number of terms


class Models(NamedTuple):
    """The models of m problems, changed in place while they grow."""

    c: Array  # (m p, q), `g'P y` of every candidate
    s: Array  # (m, p), `g'P g`
    Z: Array  # (m, K, n + K): below the samples are the rows of the penalty
    R: Array  # (m, K, K)
    zy: Array  # (m, K, q)
    order: Array  # (m, K), the chosen candidates
    count: Array  # (m,), their number
    ended: Array  # (m,), whether the path has ended


def append_best(problems: Problems, models: Models) -> None:
    """Append the candidate with the largest drop of the cost to every path that has not ended, in place.

    A candidate that depends on the chosen ones is excluded instead.
    """
    (G, y, least, root_alpha, limit), (c, s, Z, R, zy, order, count, ended) = problems, models
    xp, (m, n, p), K = namespace(G), G.shape, Z.shape[1]
    candidates: Any = SimpleNamespace(c=c, den=xp.reshape(root_alpha**2 + s, (-1,)))  # what the rule reads of a `State`
    scores = put(xp.reshape(CostRule().scores(candidates), (m, p)), s <= least, -np.inf)
    best = xp.max(scores, axis=1)
    ended |= ~(best > 0)
    ties = scores >= (best - TIE_TOLERANCE * xp.abs(best))[:, None]
    j = xp.argmax(xp.astype(ties, xp.int8), axis=1)[:, None]
    column = xp.take_along_axis(G, xp.broadcast_to(j[:, :, None], (m, n, 1)), axis=2)[:, :, 0]
    places = xp.arange(K, dtype=count.dtype, device=count.device)
    unit = xp.astype(places[None, :] == count[:, None], xp.float64)  # the place of the new term
    x = xp.concat([column, root_alpha * unit], axis=1)[:, :, None]
    along = xp.matmul(Z, x)  # Gram-Schmidt, twice, as in `factor_updates.orthogonalise`
    x = x - xp.matmul(xp.matrix_transpose(Z), along)
    again = xp.matmul(Z, x)
    x = (x - xp.matmul(xp.matrix_transpose(Z), again))[:, :, 0]
    added = ~ended & (xp.sum(x[:, :n] ** 2, axis=1) > xp.take_along_axis(least, j, axis=1)[:, 0])
    length = xp.sqrt(xp.sum(x * x, axis=1))[:, None]
    z = put(x / length, xp.broadcast_to(~added[:, None], x.shape), 0.0)
    new = unit * xp.astype(added, xp.float64)[:, None]
    Z += new[:, :, None] * z[:, None, :]
    R += ((along + again)[:, :, 0] + length * unit)[:, :, None] * new[:, None, :]
    of_new = xp.sum(z[:, :n, None] * y, axis=1)
    zy += new[:, :, None] * of_new[:, None, :]
    t = xp.matmul(z[:, None, :n], G)[:, 0, :]
    c -= xp.reshape(t[:, :, None] * of_new[:, None, :], c.shape)
    s -= t * t
    chosen = xp.arange(p, dtype=j.dtype, device=j.device)[None, :] == j
    s *= xp.astype(~chosen, xp.float64)
    order += xp.astype(new, order.dtype) * j
    count += xp.astype(added, count.dtype)
    ended |= count >= limit


def batched_paths(
    designs: Sequence[Array],
    targets: Sequence[Floats],
    weights: Sequence[Floats],
    alpha: float,
    max_terms: int,
    dtype: np.dtype = FLOAT64,
) -> list[NestedModels]:
    """Choose up to `max_terms` terms for each of several problems of least squares.

    Parameters
    ----------
    designs : (n_i, p_i) candidates of each problem, arrays of one library on one device.
    targets : (n_i, q) targets, on the host.
    weights : (n_i,) weights of the samples, on the host.
    alpha : penalty of the weights.
    max_terms : maximum number of terms.
    dtype : precision of the candidates; sums are in float64.
    """
    launcher = launcher_for(designs[0])
    with current_device(designs[0]):
        problems, models, means, starts = start_paths(designs, targets, weights, alpha, max_terms, dtype)
        while not bool(namespace(models.ended).all(models.ended)):
            launcher.launch(append_best, (problems, models), times=STEPS_AHEAD)
        parts = models.count, models.order, models.R, models.zy, models.Z, means
        counts, order, R, zy, Z, means = map(to_host, parts)
    found = []
    for i, (k, design) in enumerate(zip(counts.tolist(), designs, strict=True)):
        terms = order[i, :k].astype(np.intp)
        factors = R[i, :k, :k].copy(), Z[i, :k, : design.shape[0]].copy(), zy[i, :k].copy()
        found.append(NestedModels(terms, means[i, terms], *factors, starts[i]))
    return found


def start_paths(
    designs: Sequence[Array],
    targets: Sequence[Floats],
    weights: Sequence[Floats],
    alpha: float,
    max_terms: int,
    dtype: np.dtype,
) -> tuple[Problems, Models, Array, list[Floats]]:
    """Return the problems, models without terms, the means of the candidates, (m, p), and those of the targets."""
    like, m, q = designs[0], len(designs), targets[0].shape[1]
    n, p = (max(design.shape[axis] for design in designs) for axis in (0, 1))
    K = min(max_terms, p)
    xp, starts = namespace(like), [w @ Y / w.sum() for w, Y in zip(weights, targets, strict=True)]
    G, y, means, s = (zeros(shape, like) for shape in ((m, n, p), (m, n, q), (m, p), (m, p)))
    for i, (design, Y, weight, start) in enumerate(zip(designs, targets, weights, starts, strict=True)):
        rows, columns = slice(design.shape[0]), slice(design.shape[1])
        given, w, total = as_float64(as_type(design, dtype)), from_host(weight, like), float(weight.sum())
        root, mean = xp.sqrt(w)[:, None], w @ given / total
        centred = (given - mean) * root
        squares = xp.sum(centred * centred, axis=0)
        rounding = total * (ROUNDING_SHARE[dtype] * mean) ** 2  # columns that vary by less count as constant
        G[i, rows, columns], means[i, columns] = centred, mean
        s[i, columns] = put(squares, squares <= rounding, 0.0)
        y[i, rows, :] = root * from_host(Y - start, like)
    least = (DEPENDENT_COLUMN if dtype == FLOAT64 else DEPENDENT_COLUMN_FLOAT32) * s
    c = xp.reshape(xp.matmul(xp.matrix_transpose(G), y), (m * p, q))
    limit = from_host(np.array([min(K, design.shape[1]) for design in designs]), like)
    order, count = (from_host(np.zeros(shape, dtype=np.int64), like) for shape in ((m, K), (m,)))
    Z, R, zy = (zeros(shape, like) for shape in ((m, K, n + K), (m, K, K), (m, K, q)))
    problems = Problems(G, y, least, from_host(np.array([np.sqrt(alpha)]), like), limit)
    return problems, Models(c, s, Z, R, zy, order, count, count >= limit), means, starts
