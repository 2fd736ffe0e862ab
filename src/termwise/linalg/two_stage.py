"""Least squares on a few terms, not of the targets but of what a first stage has made of them, left out one by one.

The first stage is linear in the targets once its penalties and active directions are fixed: a filtered signal for
`PrefilterClassifier`, a ridge fit to all candidates or the mean of several models for `TermwiseRegressor`.
Leave-one-out repeats both stages.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from termwise._arrays import Array, namespace, put, row_products, running_sums, zeros
from termwise._numerics import LEVERAGE_GAP_MIN
from termwise.linalg.least_squares import Rows


class Change(NamedTuple):
    """What leaving sample i out takes off the signal of every sample l: `shift_i + U_l' A_i`, rows as they are.

    The columns of U have mean zero where there is an intercept.
    """

    shift: Array  # (n,)
    U: Array  # (n, r)
    A: Array  # (n, r)

    @property
    def own(self) -> Array:
        """What it takes off its own signal, (n,)."""
        return self.shift + row_products(self.U, self.A)


class Stage(Protocol):
    """A first stage and its leave-one-out."""

    @property
    def signal(self) -> Array:
        """What it makes of the targets, (n, q), in the rows as they are."""

    def change(self, j: int) -> Change:
        """What leaving a sample out does to output j of the signal."""


def leave_one_out_scores(stage: Stage, rows: Rows, Z: Array, Y: Array, Y_mean: Array) -> Array:
    """Predictions for every sample without it by both stages, (k + 1, n, q), for the first 0 to k terms of a path.

    Terms and the first stage's penalties stay as they are. Stage two projects the signal on its orthogonal columns Z;
    Y is the signal centred, rows of both scaled. Without sample i the signal is less by `d = shift_i + U A_i`, and with
    p the leverage of stage two, of a single repeat and with the intercept's,

        (f_i - shift_i - z_i' Z'U A_i - p_i (signal_i - d_i)) / (1 - p_i),    f = Z Z' signal,

    is what stage two predicts for it. A sample that some term sits on alone is predicted by the mean.
    """
    root, single = (rows.counts**0.5)[:, None], rows.single[:, None]
    p = single * (rows.intercept / rows.n + from_none((Z / root) ** 2))
    stuck = 1 - p <= LEVERAGE_GAP_MIN
    gap = put(1 - p, stuck, 1.0)
    signal, scores = stage.signal, []
    for j, mean in enumerate(Y_mean.tolist()):
        change = stage.change(j)
        moved = change.shift[:, None] + from_none(Z / root * (change.A @ ((change.U * root).T @ Z)))
        f = mean + from_none(Z / root * (Z.T @ Y[:, j]))
        without = (f - moved - p * (signal[:, j] - change.own)[:, None]) / gap
        scores.append(put(without, stuck, mean).T)
    return namespace(Z).stack(scores, axis=2)


def from_none(columns: Array) -> Array:
    """Sums of the first 0 to k columns."""
    none = zeros((columns.shape[0], 1), columns)
    return running_sums(namespace(columns).concat([none, columns], axis=1), axis=1)
