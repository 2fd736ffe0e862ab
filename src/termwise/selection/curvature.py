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

import numpy as np
from numpy.typing import NDArray

from termwise.selection.blocks import NO_GAP, RowBlock
from termwise.selection.state import State

Floats = NDArray[np.float64]


class Curvature:
    """Lower bounds of the second sum, from one look at the squares of all columns."""

    def __init__(self, state: State) -> None:
        self.first = state.intercept
        self.means = state.means
        self.fourth = sum(block.fourth_powers(self.means) for block in state.blocks) ** 0.25
        self.look(state)

    def look(self, state: State) -> None:
        """Weigh the squares of all columns with the present residual."""
        self.a = [_weights(block)[1] for block in state.blocks]
        pairs = zip(state.blocks, self.a, strict=True)
        self.root = np.sqrt(sum(block.weighted_squares(a, self.means) for block, a in pairs))
        self.M = np.empty((0, 0))
        self.z_fourth = np.empty(0)

    def least(self, state: State, candidates: NDArray[np.intp], beta: Floats, den: Floats) -> Floats:
        """Return a lower bound of the second sum for some candidates."""
        self._follow(state)
        T = state.T[self.first :, candidates]
        now = [_weights(block) for block in state.blocks]
        lost = np.sqrt(sum(np.sum(np.maximum(a - b, 0) ** 2) for a, (_, b) in zip(self.a, now, strict=True)))
        steep = np.sqrt(max(u.max() for u, _ in now))
        v4 = (self.fourth[candidates] + self.z_fourth @ np.abs(T)) ** 2
        root = np.maximum(self.root[candidates] - np.sqrt(np.einsum("ij,ij->j", T, self.M @ T)), 0)
        root = np.sqrt(np.maximum(root**2 - lost * v4, 0)) - np.sqrt(np.sum(beta**2, axis=1)) * steep * v4
        return 2 / den * np.maximum(root, 0) ** 2

    def _follow(self, state: State) -> None:
        """Bring M and the fourth norms up to the columns that Z has by now."""
        known = len(self.z_fourth)
        Zs = [block.Z[:, self.first :] for block in state.blocks]
        new = [Z[:, known:] for Z in Zs]
        if not new[0].shape[1]:
            return
        triples = zip(Zs, self.a, new, strict=True)
        side = np.sum([Z.T @ (a[:, None] * fresh) for Z, a, fresh in triples], axis=0)
        M = np.empty((len(side), len(side)))
        M[:known, :known], M[:, known:], M[known:] = self.M, side, side.T
        self.M = M
        squares = [fresh * fresh for fresh in new]
        self.z_fourth = np.append(self.z_fourth, sum(np.einsum("ij,ij->j", s, s) for s in squares) ** 0.25)


def _weights(block: RowBlock) -> tuple[Floats, Floats]:
    """`u` and `a` on the rows of a block."""
    u = block.share / np.maximum(block.gap, NO_GAP) ** 3
    return u, u * np.sum(block.r**2, axis=1)
