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

from termwise.selection.blocks import NO_GAP, Answer, RowBlock, changes
from termwise.selection.state import State

Floats = NDArray[np.float64]


class Curvature:
    """Lower bounds of the second sum, from one look at the squares of all columns."""

    def __init__(self, state: State) -> None:
        self.first = state.intercept
        self.means = state.means
        self.fourth = state.rows.ask(fourth_powers, self.means) ** 0.25
        self.look(state)

    def look(self, state: State) -> None:
        """Weigh the squares of all columns with the present residual."""
        self.root = np.sqrt(state.rows.ask(look, self.means))
        self._forget(state)

    def _forget(self, state: State) -> None:
        """Know nothing of the model's columns, which may have been replaced."""
        self.M, self.z_fourth, self.rebuilt = np.empty((0, 0)), np.empty(0), state.rebuilt

    def least(self, state: State, candidates: NDArray[np.intp], beta: Floats, den: Floats) -> Floats:
        """Return a lower bound of the second sum for some candidates."""
        lost, steep = np.sqrt(self._follow(state)), np.sqrt(state.moments.steep)
        T = state.T[self.first :, candidates]
        v4 = (self.fourth[candidates] + self.z_fourth @ np.abs(T)) ** 2
        root = np.maximum(self.root[candidates] - np.sqrt(np.einsum("ij,ij->j", T, self.M @ T)), 0)
        root = np.sqrt(np.maximum(root**2 - lost * v4, 0)) - np.sqrt(np.sum(beta**2, axis=1)) * steep * v4
        return 2 / den * np.maximum(root, 0) ** 2

    def _follow(self, state: State) -> float:
        """Bring M and the fourth norms up to the columns that Z has by now; return `|(a - a')_+|^2`."""
        if self.rebuilt < state.rebuilt:
            self._forget(state)
        known = len(self.z_fourth)
        changed = state.rows.ask(follow, self.first, known)
        M = np.empty((len(changed.side), len(changed.side)))
        M[:known, :known], M[:, known:], M[known:] = self.M, changed.side, changed.side.T
        self.M, self.z_fourth = M, np.append(self.z_fourth, changed.fourth**0.25)
        return changed.lost


@dataclass(frozen=True)
class Change(Answer):
    """What is new since the last look."""

    side: Floats  # (k, new) `Z' diag(a) z` of new columns
    fourth: Floats  # (new,) sum z^4
    lost: float  # sum (a - a')_+^2


def fourth_powers(block: RowBlock, means: Floats) -> Floats:
    """`sum (g - mean)^4` of every column, or more."""
    return block.G.fourth_powers(block.weights, means)


@changes
def look(block: RowBlock, means: Floats) -> Floats:
    """Remember the present a, and return at most `sum a (g - mean)^2` of every column."""
    block.a = _a(block)
    weights = block.a if block.weights is None else block.a * block.weights
    squares, along = block.G.squares(weights), block.G.products(weights)
    rounding = 8 * np.finfo(block.G.dtype).eps * squares  # the differences may be off by this
    return np.maximum(squares - 2 * means * along + means**2 * weights.sum() - rounding, 0)


def follow(block: RowBlock, first: int, known: int) -> Change:
    """How far a has gone from what is remembered, and products of what is new in Z; its columns count from `first`."""
    Z, new = block.Z[:, first:], block.Z[:, first + known :]
    squares = new * new
    lost = float(np.sum(np.maximum(block.a - _a(block), 0) ** 2))
    return Change(Z.T @ (block.a[:, None] * new), np.einsum("ij,ij->j", squares, squares), lost)


def _a(block: RowBlock) -> Floats:
    """`a = u r^2` on the rows of a block."""
    return block.share / np.maximum(block.gap, NO_GAP) ** 3 * np.sum(block.r**2, axis=1)
