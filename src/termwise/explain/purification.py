"""Functional ANOVA: main effects take from the interactions all that single inputs explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import stats

from termwise._numerics import GRAM_EIGENVALUE_MIN, PAIR_EIGENVALUE_MIN
from termwise.explain.inputs import Input
from termwise.explain.resolve import Floats

BAND_COVERAGE = 0.9  # of the bands around main effects, pointwise

MAX_PAIR_FUNCTIONS = 600  # products of splines that a function of three inputs is projected on

Key = tuple[int, ...]  # one to three inputs, by their positions


class Part(NamedTuple):
    """Contribution of one to three inputs to q outputs."""

    grid: Floats  # (m, q) or (m1, m2, q); (0, q) for three inputs, which are not drawn
    rows: Floats  # (n, q)


@dataclass(frozen=True)
class Purification:
    """Splits a sum of functions of one to three inputs into pure effects, over the joint distribution of the rows.

    A surface `f_ij` is projected by least squares over the rows onto sums `a(x_i) + b(x_j)` of splines of its two
    inputs, and these are moved into the main effects. What is left has mean zero given either input, as far as splines
    can tell: the interaction explains nothing that a single input could. This is the hierarchical orthogonality of the
    generalised functional ANOVA (Hooker 2007; for fitted models Lengerich et al. 2020, with bins in place of splines)
    for the empirical distribution. Inputs that are correlated are treated as such: `x0 * x1` of two equal inputs is all
    main effect. Averages over the product of the marginal distributions, which have closed forms, would call it all
    interaction (if the means are zero), and count combinations of values that no sample has. Splines are functions of
    any value, so the sum of all effects remains the prediction everywhere.

    A function of three inputs is first projected onto sums of functions of its pairs, products of their splines, which
    are moved into the pairs.
    """

    inputs: list[Input]
    grid_size: int  # values of an input alone
    pair_size: int  # and in a pair

    def __call__(self, parts: dict[Key, Part]) -> tuple[dict[Key, Part], Floats]:
        """Pure effects, each with mean zero over the rows, and the constant that they are added to, (q,)."""
        pure = dict(parts)
        for n_inputs in (3, 2):
            for key in [key for key in pure if len(key) == n_inputs]:
                self._move(key, pure)
        centers = {key: part.rows.mean(axis=0) for key, part in pure.items()}
        centred = {key: Part(part.grid - centers[key], part.rows - centers[key]) for key, part in pure.items()}
        return centred, np.sum(list(centers.values()), axis=0)

    def _move(self, key: Key, parts: dict[Key, Part]) -> None:
        """Move what functions of fewer inputs explain of an effect of two or three inputs into theirs."""
        grid, rows = parts[key]
        lower = list(combinations(key, len(key) - 1))
        if sum(self._count(some) for some in lower) > MAX_PAIR_FUNCTIONS:
            lower = [(k,) for k in key]
        bases = [self._row_functions(some) for some in lower]
        B = np.hstack(bases)
        least = GRAM_EIGENVALUE_MIN if len(lower[0]) == 1 else PAIR_EIGENVALUE_MIN
        coef = np.linalg.pinv(B.T @ B, rcond=least, hermitian=True) @ (B.T @ rows)
        ends = np.cumsum([basis.shape[1] for basis in bases])[:-1]
        for some, basis, weights in zip(lower, bases, np.split(coef, ends), strict=True):
            own, own_rows = parts.get(some, Part(np.zeros(1), np.zeros(1)))
            size = self.grid_size if len(some) == 1 else self.pair_size
            parts[some] = Part(own + self._on_grid(some, weights, size), own_rows + basis @ weights)
            rows = rows - basis @ weights
            if len(grid):
                grid = grid - np.expand_dims(self._on_grid(some, weights, self.pair_size), 1 - key.index(some[0]))
        parts[key] = Part(grid, rows)

    def _count(self, key: Key) -> int:
        """Number of functions of some inputs: products of splines of each."""
        return int(np.prod([self.inputs[k].row_functions.shape[1] for k in key]))

    def _row_functions(self, key: Key) -> Floats:
        """Functions of one or two inputs at the rows."""
        first, *second = (self.inputs[k].row_functions for k in key)
        return first if not second else (first[:, :, None] * second[0][:, None, :]).reshape(len(first), -1)

    def _on_grid(self, key: Key, weights: Floats, size: int) -> Floats:
        """Weighted sum of the functions of one or two inputs on their grid, (m, q) or (m1, m2, q)."""
        first, *second = (self.inputs[k].functions(self.inputs[k].grid(size)[1]) for k in key)
        if not second:
            return first @ weights
        tensor = weights.reshape(first.shape[1], second[0].shape[1], -1)
        return np.einsum("ai,bj,ijq->abq", first, second[0], tensor)


def jackknife_band(curves: Sequence[Floats]) -> Floats:
    """Half-width of the band around a curve, from the curves of the K models that each leave out one fold.

    The delete-a-group jackknife: the standard error is `sqrt((K - 1) / K sum_k (f_k - mean f)^2)`, whose factor
    accounts for the overlap of the training folds (Shao and Wu 1989), times the quantile of Student's distribution with
    K - 1 degrees of freedom. Selection is repeated in every fold, so its variation is included; the bias is not.
    """
    K = len(curves)
    squares = ((np.array(curves) - np.mean(curves, axis=0)) ** 2).sum(axis=0)
    return stats.t.ppf((1 + BAND_COVERAGE) / 2, K - 1) * np.sqrt((K - 1) / K * squares)
