"""Least squares on a few terms, not of the targets but of what a first stage has made of them, left out one by one.

The first stage is linear in the targets once its penalties and active directions are fixed: a filtered signal for
`PrefilterClassifier`, a ridge fit to all candidates for `TermwiseRegressor`. Leave-one-out repeats both stages.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from termwise.selection.blocks import NO_GAP
from termwise.selection.path import Training
from termwise.solution import Rows

Floats = NDArray[np.float64]


class Stage(Protocol):
    """A first stage `signal = shrinkage (z_0 z_0' + V V') y`, in the rows as they are, and its leave-one-out."""

    @property
    def signal(self) -> Floats:
        """What it makes of the targets, (n, q)."""

    @property
    def residual(self) -> Floats:
        """Its leave-one-out residuals, (n, q)."""

    @property
    def leverage(self) -> Floats:
        """Its leverage of a single repeat, (n, q)."""

    @property
    def shrinkage(self) -> Floats:
        """What the signal is scaled by, (q,)."""

    def directions(self, j: int) -> Floats:
        """V of output j, of shape (n, r), its rows not scaled."""


def leave_one_out_scores(stage: Stage, training: Training, rows: Rows) -> Floats:
    """Predictions for every sample without it by both stages, (k + 1, n, q), for the first 0 to k terms of a path.

    Terms and the first stage's penalties stay as they are. Without sample k, its signal is
    `signal - c (z_0 z_0' + V V')_k e_k` with `e_k` its leave-one-out residual and c its shrinkage; stage two projects
    that on its orthogonal columns Z without row k. With p the leverage of stage two and h that of stage one this is

        (f_k - e_k c q_k - p_k (signal_k - h_k e_k)) / (1 - p_k),    f = Z Z' signal,   q_k = z_k' Z'V v_k,

    all of a single repeat, the intercept's direction counted in. A sample that some term sits on alone is predicted by
    the mean.
    """
    root, single = np.sqrt(rows.counts)[:, None], rows.single[:, None]
    h0, Z = rows.intercept / rows.n, training.Z
    p = single * (h0 + running_sums((Z / root) ** 2))
    safe = 1 - p > NO_GAP
    signal, residual, leverage = stage.signal, stage.residual, stage.leverage
    scores = np.empty((Z.shape[1] + 1, *signal.shape))
    for j, shrinkage in enumerate(stage.shrinkage):
        V = stage.directions(j)
        overlap = V @ ((V * root).T @ Z)
        q = (h0 + running_sums(Z / root * overlap)) * single * shrinkage
        f = training.Y_mean[j] + running_sums(Z / root * (Z.T @ training.Y[:, j]))
        e, kept = residual[:, [j]], signal[:, [j]] - leverage[:, [j]] * residual[:, [j]]
        without = (f - e * q - p * kept) / np.where(safe, 1 - p, 1.0)
        scores[:, :, j] = np.where(safe, without, training.Y_mean[j]).T
    return scores


def running_sums(columns: Floats) -> Floats:
    """Sums of the first 0 to k columns."""
    return np.cumsum(np.hstack([np.zeros((len(columns), 1)), columns]), axis=1)
