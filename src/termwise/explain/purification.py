"""Functional ANOVA: main effects take from the interactions all that single inputs explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from termwise._numerics import GRAM_EIGENVALUE_MIN
from termwise.explain.inputs import Input
from termwise.explain.resolve import Floats

BAND_COVERAGE = 0.9  # of the bands around main effects, pointwise

Key = tuple[int, ...]  # one or two inputs, by their positions


class Part(NamedTuple):
    """Contribution of one input, or of two, to q outputs."""

    grid: Floats  # (m, q) or (m1, m2, q)
    rows: Floats  # (n, q)


@dataclass(frozen=True)
class Purification:
    """Splits a sum of functions of one and two inputs into pure effects, over the joint distribution of the rows.

    A surface `f_ij` is projected by least squares over the rows onto sums `a(x_i) + b(x_j)` of splines of its two
    inputs, and these are moved into the main effects. What is left has mean zero given either input, as far as splines
    can tell: the interaction explains nothing that a single input could. This is the hierarchical orthogonality of the
    generalised functional ANOVA (Hooker 2007; for fitted models Lengerich et al. 2020, with bins in place of splines)
    for the empirical distribution. Inputs that are correlated are treated as such: `x0 * x1` of two equal inputs is all
    main effect. Averages over the product of the marginal distributions, which have closed forms, would call it all
    interaction (if the means are zero), and count combinations of values that no sample has. Splines are functions of
    any value, so the sum of all effects remains the prediction everywhere.
    """

    inputs: list[Input]
    grid_size: int  # values of an input alone
    pair_size: int  # and in a pair

    def __call__(self, parts: dict[Key, Part]) -> tuple[dict[Key, Part], Floats]:
        """Pure effects, each with mean zero over the rows, and the constant that they are added to, (q,)."""
        pure = dict(parts)
        for key in parts:
            if len(key) == 2:
                grid, rows = parts[key]
                for axis, (k, coef) in enumerate(zip(key, self._additive_part(key, rows), strict=True)):
                    one, main = self.inputs[k], pure.get((k,), Part(np.zeros(1), np.zeros(1)))
                    on_grid, on_pair_grid = (
                        one.functions(one.grid(size)[1]) @ coef for size in (self.grid_size, self.pair_size)
                    )
                    pure[k,] = Part(main.grid + on_grid, main.rows + one.row_functions @ coef)
                    grid, rows = grid - np.expand_dims(on_pair_grid, 1 - axis), rows - one.row_functions @ coef
                pure[key] = Part(grid, rows)
        centers = {key: part.rows.mean(axis=0) for key, part in pure.items()}
        centred = {key: Part(part.grid - centers[key], part.rows - centers[key]) for key, part in pure.items()}
        return centred, np.sum(list(centers.values()), axis=0)

    def _additive_part(self, key: Key, rows: Floats) -> list[Floats]:
        """Coefficients of the functions of each of two inputs whose sum is nearest to a surface at the rows."""
        first, second = (self.inputs[k].row_functions for k in key)
        B = np.hstack([first, second])
        coef = np.linalg.pinv(B.T @ B, rcond=GRAM_EIGENVALUE_MIN, hermitian=True) @ (B.T @ rows)
        return np.split(coef, [first.shape[1]])


def jackknife_band(curves: Sequence[Floats]) -> Floats:
    """Half-width of the band around a curve, from the curves of the K models that each leave out one fold.

    The delete-a-group jackknife: the standard error is `sqrt((K - 1) / K sum_k (f_k - mean f)^2)`, whose factor
    accounts for the overlap of the training folds (Shao and Wu 1989), times the quantile of Student's distribution with
    K - 1 degrees of freedom. Selection is repeated in every fold, so its variation is included; the bias is not.
    """
    K = len(curves)
    squares = ((np.array(curves) - np.mean(curves, axis=0)) ** 2).sum(axis=0)
    return stats.t.ppf((1 + BAND_COVERAGE) / 2, K - 1) * np.sqrt((K - 1) / K * squares)
