"""What a candidate's own leverage adds to its leave-one-out error, bounded from below for all candidates at once.

Since `1 / (1 - x)^2 >= 1 + 2 x`, a candidate's leave-one-out error (see `leave_one_out`) is at least

    sum w (r - beta v)^2 + 2 / den sum u (r - beta v)^2 v^2,    u = w / leverage_gap.

The bounds 0 and 1 are of the first sum. The second is about two noise variances for every candidate: without it, each
candidate whose gain comes within that of the best must be verified, which on pure noise are many. By the triangle
inequality its root is at least `sqrt(sum a v^2) - |beta| sqrt(max u) |v|_4^2` with `a = u r^2`. One look at the squares
of G gives `sum a g^2` and `|g|_4` for every candidate, and these serve for many steps:

    sqrt(sum a v^2) >= sqrt(sum a g^2) - sqrt(T' M T),  M = Z' diag(a) Z,    |v|_4 <= |g|_4 + |T|' |z|_4

and, the residual having changed in the meantime from a to a', `sum a' v^2 >= sum a v^2 - |(a - a')_+| |v|_4^2`.
(Columns are meant less their means, if there is an intercept.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, at_least, at_most, column_squares, fetch, namespace, row_squares, send
from termwise.selection.blocks import NO_GAP, Answer, RowBlock, changes
from termwise.selection.state import State

Floats = NDArray[np.float64]


HUGE = 1e25  # float32 goes little further, and a smaller a is a weaker bound, but a bound


class Curvature:
    """Lower bounds of the second sum, from one look at the squares of all columns."""

    def __init__(self, state: State) -> None:
        self.first = state.intercept
        self.means = state.means
        self.fourth = state.rows.ask(fourth_powers, self.means) ** 0.25
        self.look(state)

    def look(self, state: State) -> None:
        """Weigh the squares of all columns with the present residual."""
        self.root = state.rows.ask(look, self.means) ** 0.5
        self._forget(state)

    def _forget(self, state: State) -> None:
        """Know nothing of the model's columns, which may have been replaced."""
        self.M, self.z_fourth, self.rebuilt = np.empty((0, 0)), np.empty(0), state.rebuilt

    def least(self, state: State) -> Array:
        """Return a lower bound of the second sum for all candidates."""
        lost, steep = self._follow(state)
        xp, den, T = namespace(state.s), state.den, state.T[self.first :, :]
        M, z_fourth = send(state.s, self.M, self.z_fourth)
        v4 = (self.fourth + z_fourth @ xp.abs(T)) ** 2
        root = at_least(self.root - at_least(xp.sum(T * (M @ T), axis=0), 0.0) ** 0.5, 0.0)
        slope = row_squares(state.c) ** 0.5 * steep / den
        root = at_least(root**2 - lost * v4, 0.0) ** 0.5 - slope * v4
        return 2 / den * at_least(root, 0.0) ** 2

    def _follow(self, state: State) -> tuple[float, float]:
        """Bring M and the fourth norms up to the columns that Z has by now; return `|(a - a')_+|` and `sqrt(max u)`."""
        if self.rebuilt < state.rebuilt:
            self._forget(state)
        known = len(self.z_fourth)
        changed = state.rows.ask(follow, self.first, known)
        side, fourth, lost, steep = fetch(changed.side, changed.fourth, changed.lost, changed.steep)
        M = np.empty((len(side), len(side)))
        M[:known, :known], M[:, known:], M[known:] = self.M, side, side.T
        self.M, self.z_fourth = M, np.append(self.z_fourth, fourth**0.25)
        return float(np.sqrt(lost[0])), float(np.sqrt(steep[0]))


@dataclass(frozen=True)
class Change(Answer):
    """What is new since the last look."""

    largest = frozenset({"steep"})

    side: Array  # (k, new) `Z' diag(a) z` of new columns
    fourth: Array  # (new,) sum z^4
    lost: Array  # (1,) sum (a - a')_+^2
    steep: Array  # (1,) largest u


def fourth_powers(block: RowBlock, means: Array) -> Array:
    """`sum (g - mean)^4` of every column, or more."""
    return block.G.fourth_powers(block.weights, means)


@changes
def look(block: RowBlock, means: Array) -> Array:
    """Remember the present a, and return at most `sum a (g - mean)^2` of every column."""
    block.a = at_most(_u(block) * row_squares(block.r), HUGE)
    weights = block.a if block.weights is None else block.a * block.weights
    squares, along = block.G.squares(weights), block.G.products(weights)
    rounding = 8 * float(np.finfo(block.G.dtype).eps) * squares  # the differences may be off by this
    return at_least(squares - 2 * means * along + means**2 * namespace(weights).sum(weights) - rounding, 0.0)


def follow(block: RowBlock, first: int, known: int) -> Change:
    """How far a has gone from what is remembered, and products of what is new in Z; its columns count from `first`."""
    xp, Z, new, u = namespace(block.a), block.Z[:, first:], block.Z[:, first + known :], _u(block)
    lost = at_least(block.a - u * row_squares(block.r), 0.0)
    return Change(Z.T @ (block.a[:, None] * new), column_squares(new * new), lost[None, :] @ lost, xp.max(u)[None])


def _u(block: RowBlock) -> Array:
    """`u = w / leverage_gap` on the rows of a block, of a single repeat."""
    return block.share / at_least(block.gap, NO_GAP) ** 3
