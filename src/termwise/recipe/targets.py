"""What the terms are fitted to: the data, a ridge fit to them, or a stacked ensemble (distillation).

*Ridge fit.* Terms selected for noisy targets fit some of the noise, the more the larger the candidate set: among
thousands of products there is always one that fits the samples with the largest errors. Ridge regression on all
candidates shrinks instead of selecting, and averages the noise out; a few terms fitted to its predictions inherit the
low variance. Where few of very many candidates matter, ridge regression is poor and the data are the better target.

*Stacked ensemble.* Models with different dictionaries and targets make different errors, so that a convex combination
has a smaller error than the best of them (stacking: Wolpert 1992, Breiman 1996). Its weights minimise the squared error
of out-of-fold predictions. The ensemble has the terms of all its members, but it is free of noise, and a few of these
terms reproduce it.

Cross-validation of the whole procedure decides between the three. Both fits are linear in the targets, so that
leave-one-out goes through both stages in closed form (see `termwise.linalg.two_stage`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from termwise._numerics import EQUAL_RESIDUALS, STACKING_PENALTY_ROOT
from termwise.design import EVERY, Design
from termwise.linalg.least_squares import Problem, Solution, WeightedRows, leave_one_out, pose
from termwise.linalg.spectrum import Spectrum, best_alpha
from termwise.linalg.two_stage import Change, leave_one_out_scores
from termwise.selection.nested import NestedModels, nested_paths

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


# -- ridge regression on all candidates --------------------------------------------------------------------------------


@dataclass(frozen=True)
class RidgeTarget:
    """The ridge fit `signal = mean + V V' (y - mean)` as a first stage, linear in the targets."""

    targets: Floats  # (n, q)
    signal: Floats  # (n, q), fitted values
    residual: Floats  # (n, q), leave-one-out
    V: Floats  # (n, r), rows not scaled
    rows: WeightedRows
    alpha: float

    @classmethod
    def fit(cls, G: Floats | Design, Y: Floats, sample_weight: Floats) -> Self:
        """Fit ridge regression to all columns, standardised, at the penalty with the least leave-one-out error."""
        G = G.columns(EVERY) if isinstance(G, Design) else G
        share = sample_weight / sample_weight.sum()
        size = np.sqrt(share @ (G - share @ G) ** 2)
        problem = pose(G / np.where(size > 0, size, 1.0), Y, sample_weight, intercept=True)
        spectrum = Spectrum(problem, truncate=True)
        alpha = best_alpha(spectrum, "loo")
        ridge, root = spectrum.solution(alpha), np.sqrt(sample_weight)[:, None]
        signal = problem.Y_mean + ridge.B @ (ridge.B.T @ problem.Y) / root
        return cls(Y, signal, ridge.loo / root, ridge.B / root, problem.rows, alpha)

    def change(self, j: int) -> Change:
        """What leaving out each sample subtracts from output j of the signal."""
        removed = self.rows.single * self.residual[:, j]
        return Change(removed / self.rows.n, self.V, self.V * removed[:, None])

    def transposed(self, B: Floats) -> Floats:
        """`S' B` with `S = V V'`, in scaled rows."""
        V = self.V * np.sqrt(self.rows.sample_weight)[:, None]
        return V @ (V.T @ B)


# -- stacked ensembles -------------------------------------------------------------------------------------------------


class Member(NamedTuple):
    """A model of a stacked ensemble; one of size 0 is the mean of the targets."""

    name: str  # of its dictionary
    target: str
    size: int
    weight: float


def stacking_weights(residuals: Floats, min_weight: float) -> Floats:
    """Return nonnegative weights with sum one that minimise `|R w|^2`, R the residuals, one column per model.

    The minimiser v of `|R v|^2 + (1 - sum v)^2` over `v >= 0` has `R'R v` equal for all positive entries and not less
    for the others, so that v is a multiple of w: nonnegative least squares. Of models with equal residuals the first
    is used, whatever the rounding. Weights below `min_weight` are set to zero.
    """
    residuals = residuals / max(float(np.abs(residuals).max()), np.finfo(np.float64).tiny)
    distance = np.abs(residuals[:, :, None] - residuals[:, None, :]).max(axis=0)
    distinct = np.flatnonzero(~np.any(np.triu(distance <= EQUAL_RESIDUALS, 1), axis=0))
    m = len(distinct)
    R: Floats = np.linalg.qr(residuals[:, distinct]).R
    v, _ = nnls(np.vstack([R, STACKING_PENALTY_ROOT * np.eye(m), np.ones(m)]), np.append(np.zeros(len(R) + m), 1.0))
    weights = np.zeros(residuals.shape[1])
    weights[distinct] = np.where(v >= min_weight * v.sum(), v, 0.0)
    return weights / weights.sum()


@dataclass(frozen=True)
class MemberFit:
    """A member of an ensemble, fitted to the samples; its terms were selected for the targets or their ridge fit."""

    Z: Floats  # (n, k), orthogonal columns, rows scaled
    signal: Floats  # (n, q), fitted values
    changes: list[Change]  # one for each output
    ridge: RidgeTarget | None

    @classmethod
    def from_path(cls, model: NestedModels, targets: Floats, rows: WeightedRows, ridge: RidgeTarget | None) -> Self:
        """Use all terms of a path.

        Without sample i the ridge fit is less by `d`, and the member predicts `s_i` for it: its fit is the one it would
        be if entry i of the ridge fit less d were `s_i`.
        """
        root, Z = np.sqrt(rows.sample_weight)[:, None], model.Z.T
        U, signal = Z / root, model.fitted(len(model.terms), root)
        if ridge is None:
            gap = rows.gap(np.einsum("ij,ij->i", Z, Z))
            removed = rows.single * leave_one_out(targets - signal, gap, targets - model.start).T
            return cls(Z, signal, [Change(g / rows.n, U, U * g[:, None]) for g in removed], None)
        scores = leave_one_out_scores(ridge, rows, Z, root * (ridge.signal - model.start), model.start)[-1]
        changes = []
        for j in range(targets.shape[1]):
            first = ridge.change(j)
            g = rows.single * (ridge.signal[:, j] - first.own - scores[:, j])
            A = first.A @ ((first.U * root).T @ Z) + U * g[:, None]
            changes.append(Change(first.shift + g / rows.n, U, A))
        return cls(Z, signal, changes, ridge)


@dataclass(frozen=True)
class EnsembleTarget:
    """A stacked ensemble as a first stage."""

    targets: Floats  # (n, q)
    members: Sequence[tuple[float, MemberFit]]  # with their weights
    signal: Floats  # (n, q), fitted values

    @classmethod
    def fit(
        cls, members: Sequence[Member], candidates: Mapping[str, Any], Y: Floats, rows: WeightedRows, alpha: float
    ) -> tuple[Self, dict[str, Indices]]:
        """Fit every member to the candidates of its dictionary; return also the terms used of each dictionary."""
        ridges: dict[str, RidgeTarget] = {}
        terms = {name: np.empty(0, dtype=np.intp) for name in candidates}
        fits = []
        for name, target, size, weight in members:
            G = candidates[name] if size else np.empty((len(Y), 0))
            if target == "ridge" and name not in ridges:
                ridges[name] = RidgeTarget.fit(G, Y, rows.sample_weight)
            ridge = ridges[name] if target == "ridge" else None
            (models,) = nested_paths(G, [Y if ridge is None else ridge.signal], rows.sample_weight, alpha, size)
            fits.append((weight, MemberFit.from_path(models, Y, rows, ridge)))
            if size:
                terms[name] = np.union1d(terms[name], models.terms)
        return cls(Y, fits, np.asarray(sum(weight * fit.signal for weight, fit in fits))), terms

    def change(self, j: int) -> Change:
        """What leaving out each sample subtracts from output j of the signal: the weighted sum over the members."""
        parts = [(weight, fit.changes[j]) for weight, fit in self.members]
        return Change(
            np.asarray(sum(weight * part.shift for weight, part in parts)),
            np.hstack([part.U for _, part in parts]),
            np.hstack([weight * part.A for weight, part in parts]),
        )

    def transposed(self, B: Floats) -> Floats:
        """`S' B`, with S the weighted sum of `Z Z'` of the members, times the ridge fit's S where there is one."""
        total = np.zeros_like(B)
        for weight, fit in self.members:
            projected = fit.Z @ (fit.Z.T @ B)
            total += weight * (projected if fit.ridge is None else fit.ridge.transposed(projected))
        return total


FirstStage = RidgeTarget | EnsembleTarget

# -- the second stage --------------------------------------------------------------------------------------------------


def through_first_stage(stage: FirstStage, second: Solution, problem: Problem, scores: Floats) -> Solution:
    """Return a solution for the signal of a first stage as one for the targets; `scores` are leave-one-out predictions.

    With the signal `S y` the weights are `w = K B'S y`, linear in the targets: `S'B` takes the place of B.
    """
    rows, root = problem.rows, np.sqrt(problem.rows.sample_weight)[:, None]
    B = stage.transposed(second.B)
    fitted = problem.Y_mean + problem.G @ second.weights / root
    dof = 1 + float(np.sum(second.B * B))
    sse = rows.sample_weight @ (stage.targets - fitted) ** 2
    return replace(second, B=B, loo=(stage.targets - scores) * root, sse=sse, dof=dof, freedom=rows.n - dof)
