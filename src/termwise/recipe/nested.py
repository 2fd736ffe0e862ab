"""Forward selection by the drop of the cost at its barest, for the many small paths of a cross-validation.

The engine (`selection`) knows all criteria at every step and takes data of any kind; here nothing is wanted but the
terms and what predicts, and a step on a few hundred samples must not take longer than its products. With P of the model
so far, a candidate g is known by `c = g'P y` and `s = g'P g`; the next term has the largest
`c^2 / (alpha + s)` (Orr (7.7)), and its `z = P g / sqrt(alpha + s)` with `t = G'z` leaves `c - t z'y` and `s - t^2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from termwise.design.stored import Design, as_design
from termwise.selection.rules import TIE
from termwise.selection.state import CONSTANT

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

DEPENDENT = 1e-10  # share of its square that a column must keep beside the others


@dataclass(frozen=True)
class Nested:
    """Models with the first 0 to k terms of a path: `G_S - mean = Z R` in rows scaled by the roots of their counts."""

    terms: Indices  # (k,)
    means: Floats  # (k,), of their columns
    R: Floats  # (k, k)
    Z: Floats  # (k, n), one row for each term
    zy: Floats  # (k, q)
    start: Floats  # (q,), the mean of the target

    def columns(self, k: int, root: Floats) -> Floats:
        """Columns of the first k terms, (n, k), on the samples of the path."""
        return self.Z[:k].T / root @ self.R[:k, :k] + self.means[:k]

    def fitted(self, k: int, root: Floats) -> Floats:
        """What the first k terms fit to these samples, (n, q)."""
        return self.start + self.Z[:k].T / root @ self.zy[:k]

    def along(self, G: Floats) -> Floats:
        """Predictions with the first 0 to k terms, (k + 1, m, q), for rows of the columns of all terms.

        A model with k terms predicts `y_mean + sum over j <= k of z_j (z_j'y)`, where `z = (g - g_mean) R^-1` are the
        coordinates of a new row.
        """
        path = np.tile(self.start, (len(self.terms) + 1, len(G), 1))
        if len(self.terms):
            z = sla.solve_triangular(self.R, (G - self.means).T, trans="T", check_finite=False)
            path[1:] += np.cumsum(z[:, :, None] * self.zy[:, None, :], axis=0)
        return path


def nested(G: Any, targets: Sequence[Floats], counts: Floats, alpha: float, most: int) -> list[Nested]:
    """Choose up to so many terms for each of the targets, (n, q), of candidates that are an array or a `Design`."""
    design, root, n = as_design(G), np.sqrt(counts)[:, None], counts.sum()
    means = design.products(counts) / n
    norms = design.centred_squares(None if np.all(counts == 1) else counts, means)
    norms[norms <= n * (CONSTANT * means) ** 2] = 0.0
    paths = []
    for Y in targets:
        start = counts @ Y / n
        model = Growing(design, root, means, norms, root * (Y - start), alpha, most)
        while len(model.terms) < most and model.grow():
            pass
        paths.append(model.finish(start))
    return paths


class Growing:
    """A model that grows by one term after the other; Y is centred, its rows scaled."""

    def __init__(
        self, design: Design, root: Floats, means: Floats, norms: Floats, Y: Floats, alpha: float, most: int
    ) -> None:
        self.design, self.root, self.means, self.Y, self.alpha = design, root, means, Y, alpha
        self.c, self.s, self.least = design.products(root * Y).T.copy(), norms.copy(), DEPENDENT * norms
        self.Z, self.R, self.zy = np.zeros((most, len(Y) + most)), np.zeros((most, most)), np.zeros((most, Y.shape[1]))
        self.terms: list[int] = []

    def grow(self) -> bool:
        """Take in the candidate that lowers the cost most; False if none is left."""
        if self.terms:
            self._update()
        usable = self.s > self.least
        scores = np.einsum("ij,ij->j", self.c, self.c) / np.where(usable, self.alpha + self.s, np.inf)
        while (best := scores.max(initial=0.0)) > 0:
            j = int(np.argmax(scores >= best * (1 - TIE)))
            if self._take_in(j):
                return True
            scores[j] = self.s[j] = 0.0
        return False

    def _update(self) -> None:
        """Bring the candidates up to date with the newest term: the pass over G."""
        k = len(self.terms) - 1
        t = self.design.products(self.root[:, 0] * self.Z[k, : len(self.Y)])
        self.c -= self.zy[k][:, None] * t
        self.s -= t * t
        self.s[self.terms[k]] = 0.0

    def _take_in(self, j: int) -> bool:
        """Put candidate j into the model, with the root of the penalty below it; False if nothing is left of it.

        It is orthogonalised twice: what the first time leaves is orthogonal to the others but for rounding.
        """
        k, n = len(self.terms), len(self.Y)
        Z, x = self.Z[:k, : n + k + 1], np.zeros(n + k + 1)
        x[:n] = self.root[:, 0] * (self.design.columns(np.array([j]))[:, 0] - self.means[j])
        x[n + k] = np.sqrt(self.alpha)
        first = Z @ x
        x -= first @ Z
        again = Z @ x
        x -= again @ Z
        if x[:n] @ x[:n] <= self.least[j]:
            return False
        length = np.sqrt(x @ x)
        self.R[:k, k], self.R[k, k], self.Z[k, : n + k + 1] = first + again, length, x / length
        self.zy[k] = self.Z[k, :n] @ self.Y
        self.terms.append(j)
        return True

    def finish(self, start: Floats) -> Nested:
        """What predicts."""
        k, terms = len(self.terms), np.array(self.terms, dtype=np.intp)
        return Nested(terms, self.means[terms], self.R[:k, :k], self.Z[:k, : len(self.Y)], self.zy[:k], start)
