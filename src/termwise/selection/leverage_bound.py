"""The bound of a candidate's own leverage, from passes over the squares of G that serve for many steps."""

from __future__ import annotations

import numpy as np

from termwise._arrays import Array, at_least, at_most, fetch, namespace, row_squares
from termwise._numerics import LEVERAGE_GAP_MIN, LOO_WEIGHT_MAX, SUM_ROUNDING_ULPS
from termwise.selection.blocks import PartialSums, Reduced, RowBlock, mutates
from termwise.selection.state import State


class LeverageBound:
    """Lower bounds of what a candidate's own leverage adds to its leave-one-out error.

    Since `1 / (1 - x)^2 >= 1 + 2 x`, a candidate's leave-one-out error is at least

        sum omega (r - beta v)^2 + 2 / den sum u (r - beta v)^2 v^2,    u = omega / leverage_gap,

    with `omega = 1 / leverage_gap^2`. Bounds 0 and 1 are of the first sum. The second is about two noise variances for
    every candidate: without it, each candidate whose gain is that close to the best must be verified, which under pure
    noise are many. By the triangle inequality its root is at least `sqrt(sum a v^2) - |beta| sqrt(max u) |v|_4^2` with
    `a = u r^2`. One pass over the squares of G gives `sum a g^2` and `|g|_4` for every candidate, and these serve for
    many steps: with `v = g - Z T`

        sqrt(sum a v^2) >= sqrt(sum a g^2) - sqrt(m) |T|    m = largest eigenvalue of Z' diag(a) Z
                  |v|_4 <= |g|_4 + (max leverage)^(1/4) |T|    since |Z T|_4^4 <= max |Z T|^2 |Z T|_2^2

    and, the residual having changed since from a to a', `sum a' v^2 >= sum a v^2 - |(a - a')_+| |v|_4^2`. As
    `|T|^2 = |g|^2 - s`, a step costs O(p). (Columns are centred, if there is an intercept.)
    """

    def __init__(self, state: State) -> None:
        self.first, self.means = state.intercept, state.means
        self.fourth = state.rows.reduce(RowBlock.power_sums, 4, self.means) ** 0.25
        self.rebuilt = -1

    def lower_bounds(self, state: State, refresh: bool) -> Array:
        """Return a lower bound of the second sum for all candidates; `refresh` passes over the squares of G first."""
        if refresh:
            self.weighted = state.rows.reduce(weighted_squares, self.means) ** 0.5
        if refresh or self.rebuilt < state.rebuilt:  # the columns may have been replaced
            self.M, self.rebuilt = np.empty((0, 0)), state.rebuilt
        done = len(self.M)
        side, lost, largest = state.rows.reduce(residual_change, self.first, done)
        side, lost, largest = fetch(side, lost, largest.values)
        M = np.empty((len(side), len(side)))
        M[:done, :done], M[:, done:], M[done:] = self.M, side, side.T
        self.M, (steep, leverage) = M, largest.tolist()
        spread = float(np.linalg.eigvalsh(M)[-1]) if len(M) else 0.0
        along = at_least(state.norms - state.s, 0.0) ** 0.5
        v4 = (self.fourth + leverage**0.25 * along) ** 2
        root = at_least(self.weighted - max(spread, 0.0) ** 0.5 * along, 0.0)
        slope = row_squares(state.c) ** 0.5 * float(np.sqrt(steep)) / state.den
        root = at_least(root**2 - float(np.sqrt(lost[0])) * v4, 0.0) ** 0.5 - slope * v4
        return 2 / state.den * at_least(root, 0.0) ** 2


@mutates
def weighted_squares(block: RowBlock, means: Array) -> Array:
    """Store the present a, and return at most `sum a (g - mean)^2` of every column."""
    gap = at_least(block.gap, LEVERAGE_GAP_MIN)
    u = block.share / (gap * gap * gap)
    block.a = at_most(u * row_squares(block.r), LOO_WEIGHT_MAX)
    weights = block.a if block.weights is None else block.a * block.weights
    squares, along = block.G.power_sums(2, weights), block.G.products(weights)
    rounding = SUM_ROUNDING_ULPS * float(np.finfo(block.G.dtype).eps) * squares
    return at_least(squares - 2 * means * along + means**2 * namespace(weights).sum(weights) - rounding, 0.0)


def residual_change(block: RowBlock, first: int, done: int) -> PartialSums:
    """How far a has changed to a' since it was stored, and products of new columns of Z, which start at `first`.

    That is `Z' diag(a) z` (k, new) of new columns, `sum (a - a')_+^2`, and the largest u and leverage, of all repeats.
    """
    xp, Z, new = namespace(block.a), block.Z[:, first:], block.Z[:, first + done :]
    gap = at_least(block.gap, LEVERAGE_GAP_MIN)
    u = block.share / (gap * gap * gap)
    lost = at_least(block.a - u * row_squares(block.r), 0.0)
    side = Z.T @ (block.a[:, None] * new)
    largest = xp.stack([xp.max(u), xp.max((1 - block.gap) / block.share)])
    return PartialSums((side, lost[None, :] @ lost, Reduced(largest, ("maximum", "maximum"))))
