"""Leave-one-out for least squares on a few terms whose target is the fit of a first stage.

The first stage is linear in the targets once its penalties and active directions are fixed: the filtered signal of
`PrefilterClassifier`, the ridge fit to all candidates or the stacked ensemble of `TermwiseRegressor`. Leave-one-out
repeats both stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from termwise._arrays import Array, namespace, put, row_blocks, row_products, running_sums, zeros
from termwise._numerics import LEVERAGE_GAP_MIN
from termwise.linalg.least_squares import WeightedRows


class Change(NamedTuple):
    """Decrease of the signal of every sample l when sample i is left out: `shift_i + U_l' A_i`, rows unscaled.

    The columns of U have mean zero where there is an intercept.
    """

    shift: Array  # (n,)
    U: Array  # (n, r)
    A: Array  # (n, r)

    @property
    def own(self) -> Array:
        """Decrease of the signal of the sample left out itself, (n,)."""
        return self.shift + row_products(self.U, self.A)


class Stage(Protocol):
    """A first stage and its leave-one-out."""

    @property
    def signal(self) -> Array:
        """Its fit to the targets, (n, q), rows unscaled."""

    def change(self, j: int) -> Change:
        """Change of output j of the signal when a sample is left out."""


def scores_by_output(stage: Stage, rows: WeightedRows, Z: Array, Y: Array, Y_mean: Array) -> Iterator[Array]:
    """Leave-one-out predictions by both stages with the first 0 to k terms of a path, (k + 1, n) for each output.

    Terms and penalties of the first stage are held fixed. Stage two projects the signal on its orthogonal columns Z;
    Y is the centred signal, rows of both scaled. Without sample i the signal is `d = shift_i + U A_i` less, and with p
    the leverage of stage two, of a single repeat and including the intercept, its prediction for sample i is

        (f_i - shift_i - z_i' Z'U A_i - p_i (signal_i - d_i)) / (1 - p_i),    f = Z Z' signal.

    A sample with leverage 1 is predicted by the mean.
    """
    xp, root, single = namespace(Z), (rows.sample_weight**0.5)[:, None], rows.single[:, None]
    Z = xp.concat([zeros((Z.shape[0], 1), Z), Z], axis=1)  # cumulative sums then begin with no terms
    signal, blocks = stage.signal, list(row_blocks(Z.shape[0], Z.shape[1], Z))  # arrays of all rows would be large
    squares = (running_sums((Z[block, :] / root[block, :]) ** 2, axis=1) for block in blocks)
    leverages = [single[block, :] * (rows.intercept / rows.n + h) for block, h in zip(blocks, squares, strict=True)]
    for j, mean in enumerate(Y_mean.tolist()):
        change, fit = stage.change(j), Z.T @ Y[:, j]
        along, own, parts = (change.U * root).T @ Z, change.own, []
        for block, p in zip(blocks, leverages, strict=True):
            unscaled, exact = Z[block, :] / root[block, :], 1 - p <= LEVERAGE_GAP_MIN
            moved = change.shift[block, None] + running_sums(unscaled * (change.A[block, :] @ along), axis=1)
            f = mean + running_sums(unscaled * fit, axis=1)
            without = (f - moved - p * (signal[block, j] - own[block])[:, None]) / put(1 - p, exact, 1.0)
            parts.append(put(without, exact, mean).T)
        yield parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)


def leave_one_out_scores(stage: Stage, rows: WeightedRows, Z: Array, Y: Array, Y_mean: Array) -> Array:
    """Leave-one-out predictions by both stages with all terms of a path, (n, q)."""
    found = [scores[-1, :] for scores in scores_by_output(stage, rows, Z, Y, Y_mean)]
    return namespace(Z).stack(found, axis=1)
