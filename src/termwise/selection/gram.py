"""Columns of `G'G`, computed in the passes that are made anyway: a term whose column is stored needs no pass.

With `z = (g_j - Z T_j) / length` the products of a new term are `t = G'z = (G'g_j - T'T_j) / length`, in O(p k) from
the column `G'g_j`. Where it is not stored a pass over the data computes t itself and, for little more, the columns of
the candidates that the rule prefers now: the next terms are often among them. All of `G'G` is the case of a single
pass that computes every column.

Whether the columns pay depends on the data: of independent columns ten terms may follow from one pass, in a Gaussian
dictionary a term changes all preferences. The number of terms per pass can be observed whether or not columns
are computed, since it is known which ones would have been.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, put_at, smallest, to_host, zeros
from termwise._memory import budget

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

EXPECTED_RUN = 8.0  # terms that one pass serves, before any is observed
CAPACITY = 8  # passes whose columns are stored; then the oldest are overwritten
BUDGET_SHARE = 1 / 16  # of the memory budget that stored columns may take


class GramCost(NamedTuple):
    """How many columns of `G'G` a pass over the data should compute, and what they cost in units of a plain pass."""

    columns: int = 0  # beside the products of the new term; 0: none
    passes: float = 1.0  # the time of a pass with so many columns
    whole: float = np.inf  # the time in which all of `G'G` is computed


class GramColumns:
    """Stored columns of `G'G`, as rows of one array, and the decision which ones to compute in a pass.

    Parameters
    ----------
    p : int
        Number of candidates.
    cost : GramCost
        What columns cost where the rows are; `passes=0` computes them whether they pay or not.
    max_terms : int or None
        Terms of the path, if they are limited.
    """

    def __init__(self, p: int, cost: GramCost, max_terms: int | None) -> None:
        most = int(BUDGET_SHARE * budget() / (8 * p)) if cost.columns else 0
        self.cost = cost._replace(columns=min(cost.columns, p - 1, most // 2))
        self.max_terms = np.inf if max_terms is None else max_terms
        self.values: Array = None  # (capacity, p)
        self.whole: Array = None  # all columns, in the order of the candidates, if they were computed at once
        self.slot = np.full(p, -1)  # row of every candidate's column, -1 if it is not stored
        self.owners = np.full(min(p, CAPACITY * self.cost.columns, most), -1)  # the candidate of every row
        self.next_row = 0
        self.likely = np.zeros(p, dtype=bool)  # candidates whose columns would be stored if they always were
        self.run, self.expected_run = 0, EXPECTED_RUN  # terms since one was not likely, and their expected number

    @property
    def complete(self) -> bool:
        """Whether all columns are stored."""
        return len(self.owners) == len(self.slot) and bool(np.all(self.slot >= 0))

    def whole_pays(self, n_terms: int) -> bool:
        """Whether computing all columns takes less time than the passes expected for the terms after `n_terms`."""
        left = self.max_terms - n_terms
        share = min(1.0, self.cost.passes / self.expected_run) if self.cost.columns else 1.0
        return not self.complete and np.isfinite(left) and self.cost.whole < share * left

    def set_whole(self, values: Array) -> None:
        """Store all columns."""
        self.values = self.whole = values
        self.slot = np.arange(len(self.slot))
        self.owners = self.slot

    def count(self, j: int, scores: Array | None) -> None:
        """Count the terms that one pass would serve; `scores`, bigger is better, are needed where j is not stored."""
        if self.cost.columns and not self.likely[j] and scores is not None:
            if self.run:
                self.expected_run = (self.expected_run + self.run) / 2
            self.run = 0
            self.likely[self._preferred(scores, ~self.likely)] = True
            self.likely[j] = True
        self.run += 1

    def request(self, j: int, scores: Array, n_terms: int) -> Indices:
        """Candidates whose columns the pass for j, the term after `n_terms`, should compute: none if too few serve."""
        left = self.max_terms - n_terms
        if not self.cost.columns or min(self.expected_run, left) <= self.cost.passes or left < 2:
            return self.slot[:0]
        wanted = self.slot < 0
        wanted[j] = False
        return self._preferred(scores, wanted)

    def store(self, candidates: Indices, columns: Array) -> None:
        """Store columns, `(candidates, p)`, over the oldest ones."""
        if not len(candidates):
            return
        if self.values is None:
            self.values = zeros((len(self.owners), len(self.slot)), columns)
        rows = (self.next_row + np.arange(len(candidates))) % len(self.owners)
        self.next_row = int(rows[-1] + 1)
        old = self.owners[rows]
        self.slot[old[old >= 0]] = -1
        self.owners[rows], self.slot[candidates] = candidates, rows
        put_at(self.values, rows, columns)
        self.likely[candidates] = True

    def _preferred(self, scores: Array, wanted: NDArray[np.bool_]) -> Indices:
        """The candidates with the best finite scores among those that are wanted."""
        values = np.where(wanted, -to_host(scores), np.inf)
        best, losses = smallest(values, self.cost.columns)
        return best[losses < np.inf]
