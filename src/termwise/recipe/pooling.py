"""The mean of several models, which a few of their terms may then reproduce.

Models from different dictionaries, or aimed at different targets, err in different places, and their mean errs less
than the best of them (stacking: Wolpert 1992, Breiman 1996). Its weights are those under which predictions for samples
the models have not seen come closest to the targets. The mean has the terms of all, but it is a smooth signal without
noise, and much fewer of these terms reproduce it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from termwise.linalg.least_squares import Rows, leave_one_out
from termwise.linalg.two_stage import Change, leave_one_out_scores
from termwise.recipe.nested import Nested, nested
from termwise.recipe.smoothing import RidgeStage

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

EQUAL = 1e-6  # share of the largest residual by which equal ones may differ
CALM = 1e-3  # root of a penalty that matters only for models so alike that rounding would decide
LEAST = 0.05  # weight below which a model is not worth its terms


class Member(NamedTuple):
    """A model in a pool; one without terms is the mean."""

    name: str  # its dictionary
    target: str
    size: int
    weight: float


def pool_weights(residuals: Floats) -> Floats:
    """Weights, not negative and adding up to one, under which the mean of columns of residuals is smallest.

    Where `|R v|^2 + (1 - sum v)^2` is smallest over all `v >= 0`, `R'R v` is the same number for all that are positive
    and not less for the others: v differs from the weights by a factor only.
    """
    residuals = residuals / max(float(np.abs(residuals).max()), np.finfo(np.float64).tiny)
    distance = np.abs(residuals[:, :, None] - residuals[:, None, :]).max(axis=0)
    different = np.flatnonzero(~np.any(np.triu(distance <= EQUAL, 1), axis=0))  # rounding must not choose among equals
    m = len(different)
    R: Floats = np.linalg.qr(residuals[:, different]).R
    v, _ = nnls(np.vstack([R, CALM * np.eye(m), np.ones(m)]), np.append(np.zeros(len(R) + m), 1.0))
    weights = np.zeros(residuals.shape[1])
    weights[different] = np.where(v >= LEAST * v.sum(), v, 0.0)
    return weights / weights.sum()


@dataclass(frozen=True)
class MemberStage:
    """A model of a pool on the samples of the fit: its terms, chosen for the targets or for their ridge fit."""

    Z: Floats  # (n, k), orthogonal columns, rows scaled
    signal: Floats  # (n, q), what it fits
    changes: list[Change]  # for each output
    first: RidgeStage | None

    @classmethod
    def of(cls, model: Nested, targets: Floats, rows: Rows, first: RidgeStage | None) -> Self:
        """Take the whole of a path.

        Without sample i its first stage is less by `d` and its prediction for i is `s_i`; so it is what it would be if
        `signal_i - d_i` of the first stage were `s_i`.
        """
        root, single = np.sqrt(rows.counts)[:, None], rows.single
        Z = model.Z.T
        U, signal = Z / root, model.fitted(len(model.terms), root)
        if first is None:
            gap = rows.gap(np.einsum("ij,ij->i", Z, Z))
            surprise = leave_one_out(targets - signal, gap, targets - model.start)
            return cls(Z, signal, [Change(g / rows.n, U, U * g[:, None]) for g in (single * surprise.T)], None)
        aim = root * (first.signal - model.start)
        scores = leave_one_out_scores(first, rows, Z, aim, model.start)[-1]
        changes = []
        for j in range(targets.shape[1]):
            before = first.change(j)
            g = single * (first.signal[:, j] - before.own - scores[:, j])
            A = before.A @ ((before.U * root).T @ Z) + U * g[:, None]
            changes.append(Change(before.shift + g / rows.n, U, A))
        return cls(Z, signal, changes, first)

    def transposed(self, B: Floats) -> Floats:
        """`S' B` with `S = Z Z'` of the targets or of their ridge fit."""
        projected = self.Z @ (self.Z.T @ B)
        return projected if self.first is None else self.first.transposed(projected)


@dataclass(frozen=True)
class PooledStage:
    """The mean of several models as a first stage."""

    targets: Floats  # (n, q)
    members: Sequence[tuple[float, MemberStage]]  # with their weights

    @property
    def signal(self) -> Floats:
        """What the mean fits, (n, q)."""
        return np.asarray(sum(weight * one.signal for weight, one in self.members))

    def change(self, j: int) -> Change:
        """What leaving a sample out does to an output."""
        parts = [(weight, one.changes[j]) for weight, one in self.members]
        return Change(
            np.asarray(sum(weight * part.shift for weight, part in parts)),
            np.hstack([part.U for _, part in parts]),
            np.hstack([weight * part.A for weight, part in parts]),
        )

    def transposed(self, B: Floats) -> Floats:
        """`S' B`, S the mean of theirs."""
        return np.asarray(sum(weight * one.transposed(B) for weight, one in self.members))


def fit_pool(
    pool: Sequence[Member], candidates: dict[str, Any], Y: Floats, rows: Rows, alpha: float
) -> tuple[PooledStage, dict[str, Indices]]:
    """Fit the models of a pool to the candidates of their dictionaries; return also which of these they have."""
    ridges: dict[str, RidgeStage] = {}
    terms = {name: np.empty(0, dtype=np.intp) for name in candidates}
    members = []
    for name, target, size, weight in pool:
        G = candidates[name] if size else np.empty((len(Y), 0))
        if target == "ridge" and name not in ridges:
            ridges[name] = RidgeStage.of(G, Y, rows.counts)
        first = ridges[name] if target == "ridge" else None
        (models,) = nested(G, [Y if first is None else first.signal], rows.counts, alpha, size)
        members.append((weight, MemberStage.of(models, Y, rows, first)))
        if size:
            terms[name] = np.union1d(terms[name], models.terms)
    return PooledStage(Y, members), terms
