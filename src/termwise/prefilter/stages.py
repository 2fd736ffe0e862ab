"""What both stages together say of every sample: the filtered signal, and leave-one-out through to the final terms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise.prefilter.signal import ZERO, Prefilter
from termwise.selection.blocks import NO_GAP
from termwise.selection.path import Training
from termwise.solution import Rows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StageOne:
    """The prefiltered signals of all outputs with what leaving a sample out does to them."""

    filters: list[Prefilter]
    t: Floats  # (q,) thresholds, lambda_1 / 2
    lambda_2: Floats  # (q,)
    labels: Floats  # (n, q), -1 and +1
    counts: Floats

    @property
    def signal(self) -> Floats:
        """`y_pre`, (n, q)."""
        return self._columns(lambda f, t: f.signal(t)) / (1 + self.lambda_2)

    @property
    def level(self) -> Floats:
        """Mean of `y_pre`, (q,), where there is an intercept, else zero."""
        return np.array([f.mean for f in self.filters]) / (1 + self.lambda_2)

    @property
    def residual(self) -> Floats:
        """Leave-one-out residuals, (n, q)."""
        return np.column_stack(
            [f.residual(t, l2) for f, t, l2 in zip(self.filters, self.t, self.lambda_2, strict=True)]
        )

    @property
    def leverage(self) -> Floats:
        """Leverage of a single repeat, (n, q)."""
        return self._columns(lambda f, t: f.leverage(t)) / (1 + self.lambda_2)

    @property
    def violations(self) -> float:
        """Share of the samples for which (34) fails, averaged over the outputs."""
        shares = [f.violations(t, l2) for f, t, l2 in zip(self.filters, self.t, self.lambda_2, strict=True)]
        return float(np.mean(shares))

    @property
    def error_rate(self) -> float:
        """Share of leave-one-out errors: J, or with several classes that of the largest output."""
        if len(self.filters) == 1:
            return self.filters[0].rate(self.t[0])
        return self.rate(self.labels - self.residual)

    def rate(self, scores: Floats) -> float:
        """Share of samples that scores put into the wrong class."""
        return float(self.counts[misclassified(scores, self.labels)].sum() / self.counts.sum())

    def square(self, scores: Floats) -> float:
        """Mean squared error of scores."""
        return float(self.counts @ np.mean((self.labels - scores) ** 2, axis=1) / self.counts.sum())

    def active_only(self) -> StageOne:
        """The same without the directions that are not active, which only a search needs."""
        return replace(self, filters=[f.first(f.active(t)) for f, t in zip(self.filters, self.t, strict=True)])

    def _columns(self, f: Any) -> Floats:
        return np.column_stack([f(one, t) for one, t in zip(self.filters, self.t, strict=True)])


def misclassified(scores: Floats, labels: Floats) -> NDArray[np.bool_]:
    """Samples in the wrong class: on the wrong side of zero, or with the largest score elsewhere; as in `predict`."""
    if labels.shape[1] == 1:
        return ((scores >= -ZERO) != (labels > 0))[:, 0]
    return scores.argmax(axis=1) != labels.argmax(axis=1)


def leave_one_out_scores(stage: StageOne, training: Training, rows: Rows) -> Floats:
    """Predictions for every sample without it by both stages, (k + 1, n, q), for the first 0 to k terms of a path.

    Terms, active directions and their signs stay as they are. Without sample k, stage one's signal is
    `y_pre - c (z_0 z_0' + U U')_k e_k` with `e_k` its leave-one-out residual and `c = 1 / (1 + lambda_2)`; stage two
    projects that on its orthogonal columns Z without row k. With p the leverage of stage two this comes to

        (f_k - e_k c q_k - p_k (y_pre,k - h_k e_k)) / (1 - p_k),    f = Z Z' y_pre,   q_k = z_k' Z'U u_k,

    all of a single repeat, the intercept's direction counted in. A sample that some term sits on alone is predicted by
    the mean.
    """
    root, single = np.sqrt(rows.counts)[:, None], rows.single[:, None]
    h0, Z = rows.intercept / rows.n, training.Z
    p = single * (h0 + running_sums((Z / root) ** 2))
    safe = 1 - p > NO_GAP
    signal, residual, leverage = stage.signal, stage.residual, stage.leverage
    scores = np.empty((Z.shape[1] + 1, *signal.shape))
    for j, (one, t) in enumerate(zip(stage.filters, stage.t, strict=True)):
        V = one.V[:, : one.active(t)]
        overlap = V @ ((V * root).T @ Z)
        q = (h0 + running_sums(Z / root * overlap)) * single / (1 + stage.lambda_2[j])
        f = training.Y_mean[j] + running_sums(Z / root * (Z.T @ training.Y[:, j]))
        e, kept = residual[:, [j]], signal[:, [j]] - leverage[:, [j]] * residual[:, [j]]
        without = (f - e * q - p * kept) / np.where(safe, 1 - p, 1.0)
        scores[:, :, j] = np.where(safe, without, training.Y_mean[j]).T
    return scores


def running_sums(columns: Floats) -> Floats:
    """Sums of the first 0 to k columns."""
    return np.cumsum(np.hstack([np.zeros((len(columns), 1)), columns]), axis=1)
