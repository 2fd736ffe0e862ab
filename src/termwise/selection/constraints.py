"""Constraints on a growing model: bounds of its weights, and products of inputs only beside their main effects.

A candidate is eligible if the least-squares weights of the model with it lie within their bounds. Every model of a path
is then the solution of its bounded least-squares problem with no bound active, and all that follows from least squares
holds for it: criteria, leave-one-out, covariances, weights of every size from one triangular factor. Bounded least
squares with active bounds would give such terms weight zero; on simulated monotone functions its errors are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from termwise._numerics import BOUND_MARGIN, FITTED_BOUND_MARGIN

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Constraints:
    """Bounds of the weights of all candidates, and the main effects that they require."""

    low: Floats  # (p,), at most 0, -inf where there is no bound
    high: Floats  # (p,), at least 0
    requires: NDArray[np.bool_] | None = None  # (p, d), inputs whose main effects must be in the model before
    main_effects: Indices | None = None  # (p,), the input whose main effect a candidate is, -1 for others

    @classmethod
    def from_inputs(
        cls, inputs: Sequence[tuple[int, ...]] | None, signs: NDArray[Any] | None = None, p: int = 0
    ) -> Self:
        """Return the constraints by required signs, (p,), and, given the inputs of p candidates, strong hierarchy.

        A candidate of several inputs then requires a main effect of each input that has such candidates.
        """
        signs = np.zeros(p if inputs is None else len(inputs)) if signs is None else np.asarray(signs)
        low, high = np.where(signs > 0, 0.0, -np.inf), np.where(signs < 0, 0.0, np.inf)
        if inputs is None:
            return cls(low, high)
        main_effects = np.array([one[0] if len(one) == 1 else -1 for one in inputs], dtype=np.intp)
        requires = np.zeros((len(inputs), 1 + max((max(one, default=0) for one in inputs), default=0)), dtype=bool)
        for j, one in enumerate(inputs):
            requires[j, list(one)] = len(one) > 1
        requires[:, np.setdiff1d(np.arange(requires.shape[1]), main_effects)] = False
        return cls(low, high, requires, main_effects)

    def eligible(self, chosen: Sequence[int], c: Floats, den: Floats, R: Floats, zy: Floats, T: Floats) -> NDArray[Any]:
        """Return which candidates may be the next term, (p,).

        The new weight is `c / den` and changes those of the chosen terms, `R^-1 zy`, by `-R^-1 t c / den` with
        `t = Z'g`: what the others take over.

        Parameters
        ----------
        chosen : the k terms so far
        c : (p, q), `g'P y` of all candidates
        den : (p,), `alpha + s`
        R : (k, k), triangular factor of the chosen terms
        zy : (k, q), right-hand side of `R w = zy`
        T : (k, p), products `Z'G`
        """
        new, terms = c / den[:, None], np.array(chosen, dtype=np.intp)
        found = np.all(_within(np.zeros(1), new, self.low[:, None], self.high[:, None]), axis=1)
        if self.requires is not None and self.main_effects is not None:
            absent = np.ones(self.requires.shape[1], dtype=bool)
            present = self.main_effects[terms]
            absent[present[present >= 0]] = False
            found &= ~self.requires[:, absent].any(axis=1)
        bounded = np.flatnonzero(np.isfinite(self.low[terms]) | np.isfinite(self.high[terms]))
        if len(bounded):
            ends = self.low[terms[bounded], None], self.high[terms[bounded], None]
            candidates = np.flatnonzero(found)
            weights = sla.solve_triangular(R, zy, check_finite=False)[bounded]
            rates = sla.solve_triangular(R, np.eye(len(R)), check_finite=False)[bounded] @ -T[:, candidates]
            for before, amount in zip(weights.T, new[candidates].T, strict=True):
                found[candidates] &= np.all(_within(before[:, None], rates * amount, *ends), axis=0)
        return found

    def admit(self, chosen: Sequence[int], before: Floats, after: Floats) -> bool:
        """Return whether fitted weights, (k, q), lie within their bounds, given those of the model before, (k - 1, q).

        For losses other than the squared one, whose weights with a candidate are known only after a fit: `eligible` is
        then exact for the least-squares problem that bounds the loss.
        """
        terms, before = np.array(chosen), np.vstack([before, np.zeros((1, after.shape[1]))])
        ends = self.low[terms, None], self.high[terms, None]
        return bool(np.all(_within(before, after - before, *ends, share=FITTED_BOUND_MARGIN)))


def _within(
    before: Floats, change: Floats, low: Floats, high: Floats, share: float = BOUND_MARGIN
) -> NDArray[np.bool_]:
    """Whether changed weights lie within their bounds, by a margin: a share of either part."""
    margin = share * (np.abs(before) + np.abs(change))
    after = before + change
    return (after >= low + margin) & (after <= high - margin)
