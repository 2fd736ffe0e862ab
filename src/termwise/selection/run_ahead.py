"""Asynchronous selection on a GPU: many terms between synchronisations with the host.

The host gives the device several `rounds` at a time, and reads the records of the last ones while the device computes
the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import empty, from_host, to_host, zeros
from termwise._numerics import SUM_ROUNDING_ULPS
from termwise.selection.blocks import RowBlock
from termwise.selection.leave_one_out import LooRule
from termwise.selection.rounds import SCORES, UNDEFINED, Bounds, Options, RoundBuffers, advance, leverage_weights
from termwise.selection.rules import Choice, ClosedForm, Rule
from termwise.selection.state import State
from termwise.selection.updates import left_out, sum_places

Floats = NDArray[np.float64]

BATCH = (8, 128)  # candidates verified in a round, at least and, before more turn out to be needed, at most
MAX_BATCH = 1024
CAPTURE_ROUNDS = 8  # that take about as long as capturing one that verifies more candidates
PASS_BYTES = 1 << 10  # of a row of G, for each of them
BATCH_ENTRIES = (5 << 18, 1 << 26)  # samples times candidates: below, fewer would not be faster; above, memory ends
TWICE_ENTRIES = 1 << 22  # of Z, which a device has in its cache: below, orthogonalising twice takes little time


class TakenTerm(NamedTuple):
    """A term that a device has appended ahead of the host."""

    candidate: int
    score: float
    verified: int
    correlation: float | None  # see `State.correlations`
    scales: Floats  # (2,) length and den
    vv: float
    c: Floats  # (q,)
    sums: Floats  # over the rows, of the model with the term
    amounts: Floats  # (k, ..) its part along Z


class RunAhead(Rule):
    """Rounds that a device was given, and the terms that the host has read but not yet used: its choices.

    While the host uses the terms of some rounds, the device computes as many more. How many candidates a round verifies
    follows from what the last ones needed.
    """

    def __init__(self, state: State, rule: Rule, limit: int, correlate: bool) -> None:
        self.rule, self.end = rule, rule.end  # type: ignore[misc]
        self.limit = limit  # of the number of terms
        (least, most), self.growth = (entries // state.n_rows for entries in BATCH_ENTRIES), 2
        if state.gram.whole is None:  # beside a pass over the data more of them cost little
            least, self.growth = max(least, state.nbytes // state.n_rows // PASS_BYTES), 4
        self.least = min(max(min(least, BATCH[1]), BATCH[0]), state.rows.n_candidates - 1)
        self.most = min(max(min(most, MAX_BATCH), self.least), state.rows.n_candidates - 1)
        assert state.rows.device_block is not None
        twice = state.rows.device_block.Zt.shape[0] * state.n_rows <= TWICE_ENTRIES
        self.options = Options(-1, self.least, int(twice), int(correlate), int(state.orthogonal))
        if isinstance(rule, ClosedForm):
            self.options = self.options._replace(rule=SCORES.index(type(rule)), size=0)
            self.least = self.most = 0
        self.taken: deque[TakenTerm] = deque()
        self.running: deque[tuple[Callable[[], Floats], int, int, int]] = deque()  # log, size, first round, rounds
        self.rounds = self.verified = self.failed = 0  # failed: rounds that verified too few candidates
        self.columns = -1  # of the model, when the device had it last
        self.stuck = False
        self.current: TakenTerm | None = None  # the choice that `State.append` is to take over
        self.buffers = allocate(state, self.options)

    def choose(self, state: State) -> Choice | None:
        """Return the next term that the device took; where it took none, the choice of the rule itself."""
        while not self.taken:
            if self.stuck or not self._launch(state):
                self.stuck, self.columns = False, -1
                return self.rule.choose(state)
            self._read(state)
        if not self.stuck:
            self._launch(state)  # before the host uses what it has read
        self.current = self.taken.popleft()
        return Choice(self.current.candidate, self.current.score, self.current.verified)

    def hand_over(self, j: int) -> TakenTerm | None:
        """Return the term that was chosen last if it is candidate j; None if the host appends j itself."""
        term, self.current = self.current, None
        return term if term is not None and term.candidate == j else None

    def finish(self, state: State) -> int:
        """Wait for the device; return how many terms it has taken that the host has not."""
        while self.running:
            self._read(state)
        return max(self.columns - state.k, 0)

    def _launch(self, state: State) -> bool:
        """Keep two chunks of rounds running; False if there is none."""
        block, launcher = state.rows.device_block, state.rows.launcher
        assert block is not None
        while len(self.running) < 2:
            ahead = len(self.taken) + sum(count for *_, count in self.running)
            count = min(state.rows.steps_ahead, self.limit - len(state.chosen) - ahead)
            if count <= 0:
                break
            if state.k + ahead + count > self.buffers.W.shape[0] or (not ahead and self.columns != state.k):
                if ahead:
                    break  # first the host takes over what there is
                block.reserve_column(count)
                state.reserve_terms(block.Zt.shape[0])
                if not self._synchronise(state, block):
                    break
            arrays = (self.options, block.arrays, state.candidates, state.sums, self.buffers)
            launcher.launch(advance, arrays, times=count)
            self.running.append((launcher.read(self.buffers.log), self.options.size, self.rounds, count))
            self.rounds += count
        return bool(self.running)

    def _read(self, state: State) -> None:
        """Wait for the oldest chunk and read the terms that it took."""
        log, size, first, count = self.running.popleft()
        records, q, before, few = log(), state.q, self.columns, True
        for record in records[np.arange(first, first + count) % len(records)]:
            accepted, certified, accurate, index, error, quarter, total, others, length, den = record[:10].tolist()
            c, products, sums, amounts = np.split(record[10:], np.cumsum([q, q + 2, sum_places(q).size]))
            self.verified, few = self.verified + size, few and quarter > error
            if accepted:
                term = TakenTerm(
                    candidate=int(index),
                    score=error if size else -error,
                    verified=min(self.verified, state.rows.n_candidates - len(state.chosen)),
                    correlation=total / max(others, 1) if self.options.correlate else None,
                    scales=np.array([length, den]),
                    vv=float(products[-1]),
                    c=c,
                    sums=sums,
                    amounts=amounts,
                )
                self.taken.append(term)
                self.verified, self.columns = 0, self.columns + 1
            elif certified or not size:  # needs reorthogonalisation or the host; later rounds are discarded
                self.stuck = bool(accurate) or bool(self.options.twice)
                self.options = self.options._replace(twice=1)
                self.running.clear()
                return
        self.failed += count - (self.columns - before)
        if self.failed >= CAPTURE_ROUNDS:
            self.options, self.failed = self.options._replace(size=min(self.growth * size, self.most)), 0
        elif few:
            self.options = self.options._replace(size=max(size // 2, self.least))

    def _synchronise(self, state: State, block: RowBlock) -> bool:
        """Give the device the model of the host, and memory for its columns; False if no candidate is left."""
        first, K = state.intercept, block.Zt.shape[0]
        if self.buffers.W.shape[0] < K:
            log = zeros((state.rows.steps_ahead, 12 + 2 * state.q + state.sums.shape[0] + K), block.Y)
            self.buffers = self.buffers._replace(W=zeros((K, K), block.Y), log=log)
        buffers = self.buffers
        buffers.W[: state.k, : state.k] = from_host(state.B.T @ state.B, block.Y)
        bounds, table = buffers.bounds, state.candidates.table
        if bounds is not None and bounds.noise is not None:
            centred = np.maximum(state.yy - (state.zy[:first] ** 2).sum(axis=0), 0.0)
            rounding = SUM_ROUNDING_ULPS * float(np.finfo(state.rows.dtype).eps)
            scale = rounding * (1 + np.sqrt(K)) * float(np.sqrt(centred).sum())  # the sum of all |z'y| is smaller
            bounds.noise[...] = scale * table[state.row_of.raw, :] ** 0.5
        if self.columns == state.k:
            return True
        eligible = np.flatnonzero(to_host(state.eligible))
        if not len(eligible):
            return False
        if bounds is not None:
            bounds.verified[...], bounds.weighted[...], bounds.fourth[...] = -1, 0.0, 0.0
            bounds.incumbent[...] = int(eligible[0])  # any may be verified first
            share = None if block.root is None else block.share
            bounds.a[...] = leverage_weights(left_out(block.arrays).squares[0, :], block.gap, share)
        buffers.counts[...] = from_host(np.array([state.k, self.rounds]), block.Y)
        self.columns = state.k
        return True


def runs_ahead(rule: Rule) -> bool:
    """Whether a device can choose by a rule without the host."""
    if isinstance(rule, ClosedForm):
        return type(rule) in SCORES and rule.minimum == -np.inf
    return isinstance(rule, LooRule)


def allocate(state: State, options: Options) -> RoundBuffers:
    """Arrays for rounds; those as long as the model are empty."""
    assert state.rows.device_block is not None
    Y = state.rows.device_block.Y
    q, p = state.q, state.rows.n_candidates
    numbers = from_host(np.zeros(3 + p, dtype=np.int64), Y)
    bounds = None
    if options.rule < 0:
        exact = state.gram.whole is not None or state.rows.dtype == np.float64
        noise, weighted, fourth = (None if exact else empty((p,), Y)), empty((p,), Y), empty((p,), Y)
        bounds = Bounds(noise, empty((Y.shape[0],), Y), weighted, fourth, numbers[3:], numbers[2:3])
    return RoundBuffers(
        together=state.rows.launcher.together,
        Y=Y,
        alpha=zeros((1,), Y) + state.alpha,
        constants=from_host(np.append(np.zeros(2 * q + 2), [1, 2, UNDEFINED, np.inf]), Y),
        W=zeros((0, 0), Y),
        bounds=bounds,
        log=zeros((0, 0), Y),
        counts=numbers[:2],
    )
