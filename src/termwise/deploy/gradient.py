"""Gradients of a model: its chain of steps is differentiated backwards, from the outputs to the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import row_blocks
from termwise._numerics import FLOAT64
from termwise.basis.encoder import VALUE
from termwise.basis.expressions import BY, derivative, derivatives_of_sums, evaluate, z
from termwise.deploy.formulas import BOUNDED_LINKS, ETA
from termwise.deploy.program import Program
from termwise.deploy.steps import Concatenate, LevelEffects, PairProducts, ProgramStep

Floats = NDArray[np.float64]


def gradient(program: Program, X: Any) -> Floats:
    """Return gradients of the predictions for a table, (m, q, d): zero for unused inputs, NaN for others than numbers.

    Of a classifier, they are those of the scores.
    """
    program.check_single_rows("gradient")
    schema, linear, Z = program.schema, program.linear, program.schema.encode(X)
    slope = derivative(BOUNDED_LINKS[FLOAT64][program.link], ETA)
    values_only = np.flatnonzero(schema.categories == VALUE)
    found = np.zeros((len(Z), len(linear.intercept), len(schema.inputs)))
    for rows in row_blocks(len(Z), program.width + _largest(program.steps)):
        values = forward(program.steps, Z[rows])
        for i, weights in enumerate(linear.weights):
            G = backward(program.steps, values, np.broadcast_to(weights, values[-1].shape))
            np.add.at(found[rows, i].T, schema.columns[values_only], G.T[values_only])
        eta = linear.combine(values[-1])
        if linear.limits is not None:  # at which predictions are constant
            found[rows] *= ((linear.limits[0] < eta) & (eta < linear.limits[1]))[:, :, None]
        found[rows] *= np.broadcast_to(evaluate(slope, {"eta": eta}), eta.shape)[:, :, None]
        if program.link == "sorted":
            found[rows] = np.take_along_axis(found[rows], eta.argsort(axis=1)[:, :, None], axis=1)
    found[:, :, [one.kind != "number" for one in schema.inputs]] = np.nan
    return found


def forward(steps: Sequence[ProgramStep], Z: Floats) -> list[Floats]:
    """Return the inputs of a chain of steps and the terms of each."""
    values = [Z]
    for step in steps:
        values.append(step.evaluate(values[-1]))
    return values


def backward(steps: Sequence[ProgramStep], values: Sequence[Floats], G: Floats) -> Floats:
    """Return derivatives by the inputs of a chain, (n, inputs), given its values and those by its terms, (n, terms)."""
    for step, before in zip(reversed(steps), reversed(values[:-1]), strict=True):
        G = _backward_step(step, before, G)
    return G


def _largest(steps: Sequence[Any]) -> int:
    """Return the largest number of entries per row in the sums of a step."""
    sizes = [0]
    for step in steps:
        if isinstance(step, Concatenate):
            sizes += [_largest(part.steps) for part in step.parts]
        elif not isinstance(step, LevelEffects) and step.sums:
            sizes.append(step.n_terms * step.n_inputs)
    return max(sizes)


def _backward_step(step: ProgramStep, Z: Floats, G: Floats) -> Floats:
    """Return derivatives by the inputs of a step, given its inputs and those by its terms."""
    match step:
        case Concatenate():
            return _backward_branches(step, Z, G)
        case LevelEffects():
            found = np.zeros(Z.shape)
            np.add.at(found.T, step.columns, np.where(step.sizes == 0, G, 0.0).T)
            return found
        case PairProducts():
            singles, (products, second) = ProgramStep.evaluate(step, Z), step.products
            first, by_first = step.first[products], np.array(G)
            by_first[:, products] *= singles[:, second]
            by_singles = np.zeros_like(singles)
            np.add.at(by_singles.T, step.first, by_first.T)
            np.add.at(by_singles.T, second, (G[:, products] * singles[:, first]).T)
            G = by_singles
    found = np.zeros(Z.shape)
    if not step.sums:
        columns = step.tables.get("columns", np.arange(Z.shape[1]))
        slopes = evaluate(derivative(step.expression, z), {"z": Z[:, columns], **step.parameters})
        np.add.at(found.T, columns, (G * slopes).T)
        return found
    variables = {"z": Z[:, None], **step.parameters}
    for outer, inner in derivatives_of_sums(step.expression):
        weighted = G * evaluate(outer, variables)
        for i in range(Z.shape[1]):
            found[:, i] += (weighted * evaluate(inner, {**variables, **_variables_of_input(step, Z, i)})).sum(axis=1)
    return found


def _variables_of_input(step: ProgramStep, Z: Floats, i: int) -> dict[str, Any]:
    """Return the variables of the input i, to which `derivatives_of_sums` refers."""
    values: dict[str, Any] = {"z" + BY: Z[:, [i]], "same": (np.arange(Z.shape[1]) == i).astype(np.intp)}
    for name, table in step.tables.items():
        values[name + BY] = table[:, i] if table.ndim == 2 else table if step.is_per_term(name) else table[i]
    return values


def _backward_branches(step: Concatenate, Z: Floats, G: Floats) -> Floats:
    """Add up the derivatives of all branches by the inputs that they share."""
    found, start = np.zeros(Z.shape), 0
    by_terms = np.zeros((len(Z), sum(part.n_terms for part in step.parts)))
    np.add.at(by_terms.T, step.order, G.T)
    for part in step.parts:
        values = forward(part.steps, Z[:, part.columns])
        by_inputs = backward(part.steps, values, by_terms[:, start : start + part.n_terms])
        np.add.at(found.T, part.columns, by_inputs.T)
        start += part.n_terms
    return found
