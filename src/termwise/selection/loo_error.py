"""Selection by the exact number of leave-one-out misclassifications.

With `beta = c / den` the model with a candidate added predicts, for a sample it was not trained on,

    f = y - (r - beta v) / (leverage_gap - v^2 / den)

in every output. Signs and order are all that counts, and those of f times the new leverage gap are the same, without
a division; so are those of rows scaled by the square roots of their weights. Counts cannot be bounded as squared errors
can (see `leave_one_out`): every candidate is verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, as_float64, namespace, put, row_blocks, to_host, transposed
from termwise.execution.local import Executor
from termwise.selection.blocks import NO_GAP, RowBlock
from termwise.selection.rules import TIE, Choice, Rule
from termwise.selection.state import State

Floats = NDArray[np.float64]

BATCH = 64  # candidates verified at a time, at least
ROUNDING = 64  # units in the last place by which outputs of size one may be off


class LooErrorRule(Rule):
    """Fewest leave-one-out misclassifications after adding the candidate (Pahikkala et al.), weights counted.

    Targets are -1 and +1: in one output, or in one output per class.
    """

    name = "loo_error"

    @classmethod
    def build(cls, settings: Any, rows: Executor) -> Self:
        """Make the rule, for coded classes only."""
        other = np.concatenate(rows.each(other_targets))
        if len(other):
            raise ValueError(
                f"rule must not be 'loo_error' for targets other than -1 and +1, got {other[0]:g}: "
                "use ForwardClassifier, which codes the classes, or rule='loo'."
            )
        return cls()

    def choose(self, state: State) -> Choice | None:
        """Return the candidate with the fewest misclassifications; of equal ones, and many are, the first."""
        candidates = np.flatnonzero(to_host(state.usable))
        if not len(candidates):
            return None
        size = max(BATCH, state.rows.worth_a_call // int(state.n))
        errors = np.concatenate([_errors(state, candidates[i : i + size]) for i in range(0, len(candidates), size)])
        best = errors.min()
        if not np.isfinite(best):
            return None
        first = int(np.flatnonzero(errors <= best * (1 + TIE))[0])
        return Choice(int(candidates[first]), float(errors[first]), len(candidates))


def _errors(state: State, batch: NDArray[np.intp]) -> Floats:
    """Weighted leave-one-out misclassifications of the model with each candidate added; infinite if undefined."""
    known = state.meet(batch)[0]
    den = state.alpha + known.s
    return to_host(state.rows.ask(misclassifications, batch, known.T, known.c / den, den))


def other_targets(block: RowBlock) -> Floats:
    """Return the first target, if any, that is neither -1 nor +1."""
    Y = block.targets()
    return Y[np.abs(np.abs(Y) - 1) > ROUNDING * np.finfo(np.float64).eps][:1]


def misclassifications(block: RowBlock, batch: NDArray[np.intp], T: Floats, beta: Floats, den: Floats) -> Array:
    """Misclassifications on the rows of a block. Candidates are the rows of a tile here."""
    xp, n = namespace(block.Y), block.Y.shape[0]
    T, beta, shrink = block.here(np.ascontiguousarray(T.T)), block.here(beta[:, :, None]), block.here(-1 / den[:, None])
    root = xp.ones_like(block.gap) if block.root is None else block.root
    slack = ROUNDING * float(np.finfo(block.G.dtype).eps) * root
    total = []
    for rows in row_blocks(n, 8 * len(batch), block.Y):
        V = transposed(block.columns(batch, rows))
        V -= T @ block.Z[rows, :].T
        gap = V * V
        gap *= block.share[rows] * shrink
        gap += block.gap[rows]
        Y, r = block.Y[rows, :].T, block.r[rows, :].T
        outputs = [_output(V, gap, Y[i, :], r[i, :], beta[i, :, :]) for i in range(Y.shape[0])]
        predicted = _classes(outputs, slack[rows])
        wrong = predicted != _classes([Y[i, :] for i in range(Y.shape[0])], slack[rows])
        count = as_float64(wrong) @ root[rows] ** 2
        total.append(put(count, xp.min(gap, axis=1) < NO_GAP, np.inf))
    return sum(total[1:], start=total[0])


def _output(V: Array, gap: Array, y: Array, r: Array, beta: Array) -> Array:
    """`gap f = gap y + beta v - r` of a tile."""
    f = gap * y
    f += V * beta
    f -= r
    return f


def _classes(outputs: Sequence[Array], slack: Array) -> Array:
    """Number of the largest output, of equal ones the first; of a single output 0 for +1 and 1 for -1.

    What differs by rounding only, less than `slack`, is equal: binary columns make predictions of exactly zero common.
    """
    if len(outputs) == 1:
        return outputs[0] < -slack
    xp, largest = namespace(slack), outputs[0]
    number = xp.zeros_like(largest)
    for k, output in enumerate(outputs[1:], start=1):
        larger = output > largest + slack
        number = put(number, larger, float(k))
        largest = xp.where(larger, output, largest)
    return number
