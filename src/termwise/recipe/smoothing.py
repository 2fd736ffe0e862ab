"""The ridge fit to all candidates, which a few terms may then reproduce instead of the targets themselves.

Terms chosen for noisy targets one after the other fit some of the noise, the more the richer the dictionary: of
thousands of products of bumps there is always one that lives on the samples with the largest errors. Ridge regression
on the whole dictionary, at its best penalty, spreads its weights and averages the noise out; what is left is a smooth
signal, and few terms that reproduce that one inherit its calm. Where few candidates matter among very many, ridge
regression is poor and the targets themselves are the better guide: cross-validation decides (see `honest`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from termwise.design import EVERY, Design
from termwise.linalg.least_squares import Problem, Solution, pose
from termwise.linalg.spectrum import Spectrum, best_alpha
from termwise.linalg.two_stage import Change, Stage

Floats = NDArray[np.float64]


class LinearStage(Stage, Protocol):
    """A first stage `signal = mean + S (y - mean)` with what error bars need."""

    @property
    def targets(self) -> Floats:
        """The targets, (n, q)."""

    def transposed(self, B: Floats) -> Floats:
        """`S' B`, rows scaled by the roots of their counts."""


@dataclass(frozen=True)
class RidgeStage:
    """A first stage (see `two_stages`): `signal = mean + V V' (y - mean)`."""

    targets: Floats  # (n, q)
    signal: Floats
    residual: Floats
    V: Floats  # (n, r), rows not scaled
    root: Floats  # (n, 1), what rows are scaled by
    single: Floats  # (n,), what leaving one sample out removes
    n: float
    alpha: float

    @classmethod
    def of(cls, G: Floats | Design, Y: Floats, counts: Floats) -> Self:
        """Fit ridge regression to all columns, brought to one size, at the penalty leave-one-out likes best."""
        G = G.columns(EVERY) if isinstance(G, Design) else G
        share = counts / counts.sum()
        size = np.sqrt(share @ (G - share @ G) ** 2)
        problem = pose(G / np.where(size > 0, size, 1.0), Y, counts, intercept=True)
        spectrum = Spectrum(problem, rough=True)
        alpha = best_alpha(spectrum, "loo")
        ridge, root = spectrum.solution(alpha), np.sqrt(counts)[:, None]
        signal = problem.Y_mean + ridge.B @ (ridge.B.T @ problem.Y) / root
        rows = problem.rows
        return cls(Y, signal, ridge.loo / root, ridge.B / root, root, rows.single, rows.n, alpha)

    def change(self, j: int) -> Change:
        """What leaving a sample out does to an output."""
        less = self.single * self.residual[:, j]
        return Change(less / self.n, self.V, self.V * less[:, None])

    def transposed(self, B: Floats) -> Floats:
        """`S' B` with `S = V V'`, in scaled rows."""
        V = self.V * self.root
        return V @ (V.T @ B)


def followed_by(stage: LinearStage, second: Solution, problem: Problem, scores: Floats) -> Solution:
    """Return the solution for a signal as one for the targets; `scores` are predictions without each sample.

    With the signal `S y` the weights are `w = K B'S y`, linear in the targets: `S'B` takes the place of B.
    """
    rows, root = problem.rows, np.sqrt(problem.rows.counts)[:, None]
    B = stage.transposed(second.B)
    fitted = problem.Y_mean + problem.G @ second.weights / root
    dof = 1 + float(np.sum(second.B * B))
    return replace(
        second,
        B=B,
        loo=(stage.targets - scores) * root,
        sse=rows.counts @ (stage.targets - fitted) ** 2,
        dof=dof,
        freedom=rows.n - dof,
    )
