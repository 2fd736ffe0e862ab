"""Least squares on a few terms, not of the targets but of what a first stage has made of them, left out one by one.

The first stage is linear in the targets once its penalties and active directions are fixed: a filtered signal for
`PrefilterClassifier`, a ridge fit to all candidates for `TermwiseRegressor`. Leave-one-out repeats both stages.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, namespace, put, running_sums, zeros
from termwise.selection.blocks import NO_GAP
from termwise.selection.path import Training
from termwise.solution import Rows


class Stage(Protocol):
    """A first stage `signal = shrinkage (z_0 z_0' + V V') y`, in the rows as they are, and its leave-one-out."""

    @property
    def signal(self) -> Array:
        """What it makes of the targets, (n, q)."""

    @property
    def residual(self) -> Array:
        """Its leave-one-out residuals, (n, q)."""

    @property
    def leverage(self) -> Array:
        """Its leverage of a single repeat, (n, q)."""

    @property
    def shrinkage(self) -> NDArray[np.float64]:
        """What the signal is scaled by, (q,), in this process."""

    def directions(self, j: int) -> Array:
        """V of output j, of shape (n, r), its rows not scaled."""


def leave_one_out_scores(stage: Stage, training: Training, rows: Rows) -> Array:
    """Predictions for every sample without it by both stages, (k + 1, n, q), for the first 0 to k terms of a path.

    Terms and the first stage's penalties stay as they are. Without sample k, its signal is
    `signal - c (z_0 z_0' + V V')_k e_k` with `e_k` its leave-one-out residual and c its shrinkage; stage two projects
    that on its orthogonal columns Z without row k. With p the leverage of stage two and h that of stage one this is

        (f_k - e_k c q_k - p_k (signal_k - h_k e_k)) / (1 - p_k),    f = Z Z' signal,   q_k = z_k' Z'V v_k,

    all of a single repeat, the intercept's direction counted in. A sample that some term sits on alone is predicted by
    the mean.
    """
    root, single = (rows.counts**0.5)[:, None], rows.single[:, None]
    h0, Z = rows.intercept / rows.n, training.Z
    p = single * (h0 + from_none((Z / root) ** 2))
    stuck = 1 - p <= NO_GAP
    gap = put(1 - p, stuck, 1.0)
    signal, residual, leverage = stage.signal, stage.residual, stage.leverage
    scores = []
    for j, (shrinkage, mean) in enumerate(zip(stage.shrinkage.tolist(), training.Y_mean.tolist(), strict=True)):
        V, one = stage.directions(j), slice(j, j + 1)
        overlap = V @ ((V * root).T @ Z)
        q = (h0 + from_none(Z / root * overlap)) * single * shrinkage
        f = mean + from_none(Z / root * (Z.T @ training.Y[:, j]))
        e, kept = residual[:, one], signal[:, one] - leverage[:, one] * residual[:, one]
        without = (f - e * q - p * kept) / gap
        scores.append(put(without, stuck, mean).T)
    return namespace(Z).stack(scores, axis=2)


def from_none(columns: Array) -> Array:
    """Sums of the first 0 to k columns."""
    none = zeros((columns.shape[0], 1), columns)
    return running_sums(namespace(columns).concat([none, columns], axis=1), axis=1)
