"""Columns of `G'G`, computed in the passes that are made anyway: a term whose column is stored needs no pass.

With `z = (g_j - Z T_j) / length` the products of a new term are `t = G'z = (G'g_j - T'T_j) / length`, in O(p k) from
the column `G'g_j`. Where it is not stored a pass over the data computes t itself and, for little more, the columns of
the candidates that the rule prefers now: the next terms are often among them. All of `G'G` is the case of a single
pass that computes every column.

The next terms are predicted by forward selection on a sample of the rows (`simulate`): of correlated candidates with
good scores only one is taken. Whether the columns pay depends on the data: of independent columns ten terms may follow
from one pass, in a Gaussian dictionary a term changes all preferences. The number of terms per pass can be observed
whether or not columns are computed, since it is known which ones would have been.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, put, put_at, smallest, to_host, zeros
from termwise._memory import budget
from termwise.selection.blocks import GramCost, RowBlock
from termwise.selection.rules import CostRule

if TYPE_CHECKING:
    from termwise.selection.state import CandidateStats, State

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

EXPECTED_RUN = 8.0  # prior for the number of terms served by a pass
CAPACITY = 8  # passes whose columns are stored; then the oldest are overwritten
BUDGET_SHARE = 1 / 16  # of the memory budget that stored columns, or the sample of the rows, may take
MAX_PAUSE = 15  # terms after which it is observed again whether columns pay
MIN_PREDICTED = 1 << 26  # bytes of G: passes over less take no longer than to predict the next terms
SAMPLE_ROWS = 160  # by which they are predicted: more of them take more time than they save
PREFETCHED = 256  # candidates whose columns may be needed for the next term
SIMULATED = 256  # candidates that may be among the next terms
SAMPLED_RESIDUAL = 1e-3  # of its square: a candidate with less left counts as dependent, as far as a sample can tell
NOISE = 4.0  # correlations in the sample below so many standard deviations of independent columns count as zero


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
        self.max_terms = np.inf if max_terms is None else min(max_terms, p)
        self.values: Array = None  # (capacity, p)
        self.whole: Array = None  # all columns, in the order of the candidates, if they were computed at once
        self.slot = np.full(p, -1)  # row of every candidate's column, -1 if it is not stored
        self.owners = np.full(min(p, CAPACITY * self.cost.columns, most), -1)  # the candidate of every row
        self.next_row = 0
        self.likely = np.zeros(p, dtype=bool)  # candidates whose columns would be stored if they always were
        self.run, self.expected_run = 0, EXPECTED_RUN  # terms since one was not likely, and their expected number
        self.pause = self.wait = 0  # terms that are not observed since columns do not pay: the last time, and still
        self.predicted: Indices | None = None  # the next terms, if they were predicted for the newest one
        # some rows of the candidates (m, p), and of the intercept (m, 1) or (m, 0), scaled by the roots of the weights
        self.sample: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None

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

    def plan_pass(self, state: State, j: int, one: CandidateStats) -> Indices | None:
        """Candidates whose columns the pass for j, the next term, also computes; None if no pass is needed.

        A file caches columns in its next pass: those of the next terms as predicted, and of the candidates with the
        best scores, by the rule or, where it has none, by the reduction of the cost, which suits any rule.
        """
        reader, n_terms, scores = state.rows.reader, len(state.chosen), None
        missing = self.slot[j] < 0 or (reader is not None and not reader.holds(j))
        reads_columns = reader is not None and (state.prefetches or self.complete)
        if reads_columns or (missing and self.cost.columns):
            scores = current_scores(state)
        self._count(state, j, scores)
        if scores is not None and reader is not None:  # half for the next terms, the others for rivals of these
            every = np.ones(self.slot.shape, dtype=bool)
            reader.suggest(best_of(scores, every, PREFETCHED))
            reader.suggest(self._predict(state, j, scores, every, len(reader.owners) // 2), keep=True)
        if missing and self.whole_pays(n_terms):
            self.set_whole(state.rows.reduce(RowBlock.gram))
        if (self.complete or not missing) and state.keeps_digits(one, state.alpha + float(one.s)):
            return None
        left = self.max_terms - n_terms
        if scores is None or not self.cost.columns or min(self.expected_run, left) <= self.cost.passes or left < 2:
            return self.slot[:0]
        if self.predicted is not None:
            return self.predicted
        return self._predict(state, j, scores, self._missing(j), self.cost.columns)

    def read_ahead(self, state: State, j: int) -> None:
        """Compute the columns of candidate j and of likely terms after it, in a pass that a file needs anyway.

        The pass caches the columns that were suggested. Where that of `G'G` is stored, or none are, it is yet to come.
        """
        reader = state.rows.reader
        assert reader is not None
        if not self.cost.columns or self.complete or self.slot[j] >= 0:
            return
        likely = self._predict(state, j, current_scores(state), self._missing(j), self.cost.columns - 1)
        fetched = np.append(j, likely)
        reader.suggest(fetched, keep=True)
        self.store(fetched, state.rows.reduce(RowBlock.gram_columns, fetched))
        state.rows.passes += 1

    def _count(self, state: State, j: int, scores: Floats | None) -> None:
        """Count the terms that one pass would serve; without scores the column of j is known."""
        self.predicted = None
        if not self.cost.columns or self.likely[j] or scores is None:
            self.run += 1
            return
        if self.wait:
            self.wait -= 1
            return
        if self.run:
            self.expected_run, self.run = (self.expected_run + self.run) / 2, 0
            pays = self.expected_run > self.cost.passes
            self.pause = self.wait = 0 if pays else min(2 * self.pause + 1, MAX_PAUSE)
            if not pays:
                return
        self.predicted = self._predict(state, j, scores, self._missing(j), self.cost.columns)
        self.likely[self.predicted] = True
        self.likely[j] = True
        self.run = 1

    def _predict(self, state: State, j: int, scores: Floats, wanted: NDArray[np.bool_], count: int) -> Indices:
        """Return the candidates that are likely to be chosen after j, of those that are wanted.

        By `simulate`, with `P g` on a sample of the rows for the model with `[1, G_S] = Z R`, where `T = Z'G`.
        """
        predicts = state.follows_cost and state.nbytes >= MIN_PREDICTED
        if predicts and self.sample is None and 4 * SAMPLE_ROWS * len(self.slot) <= BUDGET_SHARE * budget():
            parts, columns = zip(*state.rows.map(RowBlock.sample, SAMPLE_ROWS / state.n_rows), strict=True)
            self.sample = np.concatenate(parts), np.concatenate(columns)[:, None][:, : state.intercept]
        if not predicts or self.sample is None:
            return best_of(scores, wanted, count)
        places = np.union1d(best_of(scores, scores > -np.inf, SIMULATED), [j])
        G, ones = self.sample
        model = np.hstack([ones, G[:, state.chosen]])
        # by NumPy, not SciPy, which has threads of its own: those of both would wait for each other
        Z = np.linalg.solve(state.R.T, model.T).T.astype(np.float32)
        V = G[:, places] - Z @ state.T[:, places].astype(np.float32)
        n_steps = min(len(places), 1 + count + int(np.count_nonzero(~wanted[places])))
        first = int(np.searchsorted(places, j))
        found = places[simulate(V, state.c[places].T, state.s[places], state.alpha, first, n_steps)]
        return found[wanted[found]][:count]

    def _missing(self, j: int) -> NDArray[np.bool_]:
        """Candidates other than j whose columns are not stored."""
        missing = self.slot < 0
        missing[j] = False
        return missing

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


def current_scores(state: State) -> Floats:
    """Scores by the rule or, where it has none, by the reduction of the cost; minus infinity for excluded ones."""
    scores = CostRule().scores(state) if state.scores is None else state.scores
    return to_host(put(scores, ~state.eligible, -np.inf))


def best_of(scores: NDArray[Any], wanted: NDArray[np.bool_], count: int) -> Indices:
    """The candidates with the best finite scores among those that are wanted."""
    best, losses = smallest(np.where(wanted, -scores, np.inf), count)
    return best[losses < np.inf]


def simulate(V: NDArray[Any], c: Floats, s: Floats, alpha: float, first: int, n_steps: int) -> list[int]:
    """Forward selection by the score of `rules.CostRule`, Orr (7.7), with inner products from a sample of the rows.

    Parameters
    ----------
    V : (m, r) `P g` of candidates on the sample; overwritten.
    c, s : (q, r) and (r,) statistics of these candidates, of all rows.
    alpha : the penalty.
    first : the candidate that is taken first.
    n_steps : how many to take; fewer if the others depend on these.
    """
    threshold, taken, j = NOISE / np.sqrt(len(V)), [first], first
    c, s, least = c.copy(), s.copy(), SAMPLED_RESIDUAL * s
    while len(taken) < n_steps:
        lengths = np.sqrt(np.maximum(np.einsum("ij,ij->j", V, V), np.finfo(np.float32).tiny))
        z = V[:, j] / lengths[j]
        along = z @ V
        correlation = along / lengths
        correlation[np.abs(correlation) < threshold] = 0.0
        den = alpha + s[j]
        t = correlation * np.sqrt(s * (s[j] / den))
        c -= (c[:, j] / np.sqrt(den))[:, None] * t
        s = np.maximum(s - t * t, 0.0)
        V -= z[:, None] * along
        s[taken] = 0.0
        left = s > least
        if not left.any():
            break
        j = int(np.where(left, np.einsum("ij,ij->j", c, c) / np.where(left, alpha + s, 1.0), -1.0).argmax())
        taken.append(j)
    return taken
