"""Selection by the number of leave-one-out misclassifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, as_float64, contiguous, from_host, namespace, put, row_blocks, to_host
from termwise._numerics import CLASS_OUTPUT_ULPS, LEVERAGE_GAP_MIN, TIE_TOLERANCE
from termwise.selection.blocks import Executor, RowBlock
from termwise.selection.rules import Choice, Rule
from termwise.selection.state import State

MIN_BATCH = 64  # candidates whose misclassifications are counted at a time, at least


class LooErrorRule(Rule):
    """Fewest leave-one-out misclassifications after adding the candidate (Pahikkala et al. 2010), weighted.

    Targets are -1 and +1: in one output, or in one output per class. With `beta = c / den` the model with a candidate
    added predicts, for a sample that was left out,

        f = y - (r - beta v) / (leverage_gap - v^2 / den)

    in every output. Only signs and order matter, and those of f times the new leverage gap are the same, without a
    division; so are those of rows scaled by the square roots of their weights. Misclassifications cannot be bounded as
    squared errors can (see `leave_one_out`): every candidate is verified.
    """

    name = "loo_error"
    follows_cost = True

    @classmethod
    def build(cls, settings: Any, rows: Executor) -> Self:
        """Make the rule, for coded classes only."""
        other = np.concatenate(list(rows.map(invalid_targets)))
        if len(other):
            raise ValueError(
                f"rule must not be 'loo_error' for targets other than -1 and +1, got {other[0]:g}: "
                "use ForwardClassifier, which codes the classes, or rule='loo'."
            )
        return cls()

    def choose(self, state: State) -> Choice | None:
        """Return the candidate with the fewest misclassifications; of equal ones, and many are, the first."""
        candidates = np.flatnonzero(to_host(state.eligible))
        if not len(candidates):
            return None
        size, errors = max(MIN_BATCH, state.rows.min_work // int(state.n)), []
        for i in range(0, len(candidates), size):
            stats = state.fetch_candidates(candidates[i : i + size])[0]
            den = state.alpha + stats.s
            errors.append(
                to_host(state.rows.reduce(misclassifications, stats.numbers, stats.T, stats.c / den, -1 / den))
            )
        counts = np.concatenate(errors)
        best = counts.min()
        if not np.isfinite(best):
            return None
        first = int(np.flatnonzero(counts <= best * (1 + TIE_TOLERANCE))[0])
        return Choice(int(candidates[first]), float(counts[first]), len(candidates))


def invalid_targets(block: RowBlock) -> NDArray[np.float64]:
    """Return the first target, if any, that is neither -1 nor +1."""
    Y = block.targets()
    return Y[np.abs(np.abs(Y) - 1) > CLASS_OUTPUT_ULPS * np.finfo(np.float64).eps][:1]


def misclassifications(block: RowBlock, batch: NDArray[np.intp], T: Array, beta: Array, shrink: Array) -> Array:
    """Weighted misclassifications on the rows of a block, infinite where undefined; `shrink` is `-1 / den`.

    Candidates are the rows of a tile here.
    """
    xp, n = namespace(block.Y), block.Y.shape[0]
    T, beta, shrink = (from_host(x, block.Y) for x in (np.ascontiguousarray(T.T), beta[:, :, None], shrink[:, None]))
    root = xp.ones_like(block.gap) if block.root is None else block.root
    slack = CLASS_OUTPUT_ULPS * float(np.finfo(block.G.dtype).eps) * root
    total = []
    for rows in row_blocks(n, 8 * len(batch), block.Y):
        V = contiguous(block.columns(batch, rows).T)
        V -= T @ block.Z[rows, :].T
        gap = V * V
        gap *= block.share[rows] * shrink
        gap += block.gap[rows]
        Y, outputs = block.Y[rows, :].T, []
        for i in range(Y.shape[0]):  # gap f = gap y + beta v - r
            output = gap * Y[i, :]
            output += V * beta[i, :, :]
            output -= block.r[rows, i]
            outputs.append(output)
        wrong = _classes(outputs, slack[rows]) != _classes([Y[i, :] for i in range(Y.shape[0])], slack[rows])
        count = as_float64(wrong) @ root[rows] ** 2
        total.append(put(count, xp.min(gap, axis=1) < LEVERAGE_GAP_MIN, np.inf))
    return sum(total[1:], start=total[0])


def _classes(outputs: Sequence[Array], slack: Array) -> Array:
    """Index of the largest output, of equal ones the first; of a single output 0 for +1 and 1 for -1.

    Outputs that differ by less than `slack` are equal: binary columns make predictions of exactly zero common.
    """
    if len(outputs) == 1:
        return outputs[0] < -slack
    xp, largest = namespace(slack), outputs[0]
    index = xp.zeros_like(largest)
    for k, output in enumerate(outputs[1:], start=1):
        larger = output > largest + slack
        index = put(index, larger, float(k))
        largest = xp.where(larger, output, largest)
    return index
