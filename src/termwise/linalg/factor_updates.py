"""Updates and downdates of the triangular factor of a ridge problem: Orr, section 4.3 and appendix A.7.

`R'R = H'H + diag(penalties)` for the design matrix H, and `z = R'^-1 H'Y`, so that `R w = z`. No matrix is inverted.

- Adding rows triangularises them together with `[R z]` by Householder reflections: Orr (A.8).
- Removing a row h, with `q = R'^-1 h`, leaves `R'(I - q q')R`, and `I - q q'` has an explicit triangular factor. With
  `t_i = 1 - q_1^2 - ... - q_i^2`,

      new row i = sqrt(t_i / t_{i-1}) row i - q_i / sqrt(t_i t_{i-1}) sum_{j > i} q_j row j

  in O(k^2): Orr (A.11). The last `t_k` is the leverage gap of the row.
- Adding and removing terms adds and deletes columns: Orr (A.4), (A.6).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray
from scipy.linalg.lapack import dtpqrt, dtrtrs

from termwise._numerics import DOWNDATE_GAP_MIN, FACTOR_COLUMN_MIN, UNDETERMINED_RATIO

HOUSEHOLDER_BLOCK = 16  # columns of a Householder block: the fastest for one row and for thousands


def orthogonalise(x: NDArray[Any], Zt: NDArray[Any]) -> NDArray[np.float64]:
    """Subtract the part of x along the orthonormal rows of Zt, in place, and return its coordinates.

    By Gram-Schmidt, twice: where little of x is left, the first pass leaves it orthogonal but for rounding of x.
    `State.append` does the same with columns in blocks of rows, the second time only where it is needed.
    """
    along = Zt @ x
    x -= along @ Zt
    again = Zt @ x
    x -= again @ Zt
    return along + again


class Factor:
    """`[R z]` of shape (k, k + q) for the columns and penalties of a model."""

    def __init__(self, penalties: NDArray[np.float64], n_outputs: int) -> None:
        self.penalties = penalties
        self.rows = np.hstack([np.diag(np.sqrt(penalties)), np.zeros((len(penalties), n_outputs))])

    @property
    def R(self) -> NDArray[np.float64]:
        """The triangular factor."""
        return self.rows[:, : len(self.rows)]

    @property
    def singular(self) -> bool:
        """Whether the data and the penalties leave some weight undetermined."""
        R = self.R
        return bool(np.any(np.diagonal(R) ** 2 <= FACTOR_COLUMN_MIN**2 * np.einsum("ij,ij->j", R, R)))

    def weights(self, free: int = 0) -> NDArray[np.float64]:
        """Solve `R w = z`.

        Where weights are undetermined, those after the first `free` ones (the intercept) get the least norm.
        """
        R, z = np.split(self.rows, [len(self.rows)], axis=1)
        if not self.singular:
            return dtrtrs(R, z)[0]
        last = np.linalg.lstsq(R[free:, free:], z[free:], rcond=UNDETERMINED_RATIO)[0]
        first = np.linalg.lstsq(R[:free, :free], z[:free] - R[:free, free:] @ last)[0]
        return np.vstack([first, last])

    def add_rows(self, H: NDArray[Any], Y: NDArray[Any]) -> None:
        """Add samples, O(k^2) each: Orr (A.8)."""
        k, size = self.rows.shape
        square = np.zeros((size, size), order="F")
        square[:k] = self.rows
        square = dtpqrt(0, min(HOUSEHOLDER_BLOCK, size), square, np.hstack([H, Y]), overwrite_a=1)[0]
        self.rows = square[:k]

    def remove_row(self, h: NDArray[Any], y: NDArray[Any]) -> bool:
        """Remove a sample, Orr (A.11); return False, without a change, where the result would be nearly singular."""
        if self.singular:
            return False
        q = dtrtrs(self.R, h, trans=1)[0]
        gap = 1 - q @ q
        if gap < DOWNDATE_GAP_MIN:
            return False
        t = gap + np.append(np.cumsum(q[::-1] ** 2)[::-1], 0.0)  # t_0 = 1, ..., t_k = gap
        later = np.zeros_like(self.rows)
        later[:-1] = np.cumsum((q[:, None] * self.rows)[:0:-1], axis=0)[::-1]
        later[:, len(q) :] += y - q @ self.rows[:, len(q) :]  # residual of the row's target, which continues z
        self.rows = np.sqrt(t[1:] / t[:-1])[:, None] * self.rows - (q / np.sqrt(t[1:] * t[:-1]))[:, None] * later
        return True

    def remove_columns(self, at: NDArray[np.intp]) -> None:
        """Remove terms: the model of Orr (A.6), by deleting columns of R, which is made triangular again.

        Orr (A.7), which updates the projection P, is not needed.
        """
        self.penalties = np.delete(self.penalties, at)
        self.rows = sla.qr(np.delete(self.rows, at, axis=1), mode="r", check_finite=False)[0][: len(self.penalties)]

    def add_columns(self, H: NDArray[Any], Y: NDArray[Any], C: NDArray[Any], penalties: NDArray[Any]) -> None:
        """Add terms with columns C to a model with columns H, orthogonalising them twice against it: Orr (A.4)."""
        k, m, q = len(self.rows), C.shape[1], Y.shape[1]
        R, z = np.split(self.rows, [k], axis=1)
        model = np.vstack([H, np.diag(np.sqrt(self.penalties))])
        rest = np.vstack([C, np.zeros((k, m))])
        across = np.zeros((k, m))
        for _ in range(2):
            step: NDArray[Any] = sla.solve_triangular(R, model.T @ rest, trans="T")
            rest -= model @ sla.solve_triangular(R, step)
            across += step
        targets = np.vstack([Y, np.zeros((k, q))])
        corner = np.block([[rest, targets], [np.diag(np.sqrt(penalties)), np.zeros((m, q))]])
        triangle = sla.qr(corner, mode="r", check_finite=False)[0][:m]
        self.rows = np.block([[R, across, z], [np.zeros((m, k)), triangle]])
        self.penalties = np.append(self.penalties, penalties)
