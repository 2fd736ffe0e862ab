"""Selection on a device that runs ahead of the host: many terms without a decision in between.

A round chooses and appends a term. Every size is fixed and every decision is an array, so that a round can be captured
once and replayed: a column of infinite length leaves the model as it is. The host reads the records of several rounds
at a time, while the device computes the next ones. A round that needs another algorithm stops all later ones until the
host has taken this step.

A rule in `SCORES` chooses by the statistics of the candidates. For leave-one-out a round bounds the errors of all
candidates from below, verifies those with the smallest bounds, and appends the best candidate if the next bound exceeds
its error: that certifies the choice of brute force. Else it changes nothing, and the next round verifies more.

Bound 0 of `leave_one_out` is that of all candidates. A verified one also has the root of `sum a v^2`, `a = u r^2`, and
`|v|_4`, which bound what its leverage adds as in `leave_one_out.LeverageBound`. These remain bounds after more terms:
with a new z, `t = z'g`, and a' in place of a,

    sqrt(sum a' v'^2) >= sqrt(sum a v^2 - |(a - a')_+| |v|_4^2) - |t| sqrt(sum a' z^2),    |v'|_4 <= |v|_4 + |t| |z|_4.

Products with G in its own precision make `r'v` uncertain by a few units in the last place of `|g|` times the sum of all
`|z'y|`, which is what bounds in float32 are widened by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    as_float64,
    at,
    at_least,
    empty,
    from_host,
    less_product,
    less_quotient,
    namespace,
    plus_product,
    put,
    put_at,
    put_into,
    row_lengths,
    smallest,
    take_off_matmul,
    to_host,
    zero_below,
    zeros,
)
from termwise._numerics import (
    FLOAT64,
    GRAM_SHARE,
    LEVERAGE_GAP_MIN,
    LOO_BOUND_ULPS,
    LOO_DEVIATION_ROUNDING,
    REORTHOGONALISE_BELOW,
    SMALLEST_NORMAL,
    SUM_ROUNDING_ULPS,
    TIE_TOLERANCE,
)
from termwise.selection.blocks import (
    LeftOut,
    NewColumn,
    RowArrays,
    RowBlock,
    append_column,
    left_out,
    summed_rows,
    with_extremes,
)
from termwise.selection.leave_one_out import LooRule
from termwise.selection.rules import Choice, ClosedForm, CostRule, NormRule, Rule, SseRule, rank
from termwise.selection.state import (
    FIXED_ROWS,
    CandidateArrays,
    State,
    StatisticsChange,
    TakenTerm,
    update_statistics,
)

Floats = NDArray[np.float64]

SCORES: tuple[type[ClosedForm], ...] = (CostRule, SseRule, NormRule)  # of the statistics of the candidates alone
UNDEFINED = 1e300  # error of a candidate that gives a sample leverage 1: above any other, but not infinite
BATCH = (8, 128)  # candidates verified in a round, at least and, before more turn out to be needed, at most
MAX_BATCH = 1024
CAPTURE_ROUNDS = 8  # that take about as long as capturing one that verifies more candidates
PASS_BYTES = 1 << 10  # of a row of G, for each of them
BATCH_ENTRIES = (5 << 18, 1 << 26)  # samples times candidates: below, fewer would not be faster; above, memory ends
TWICE_ENTRIES = 1 << 22  # of Z, which a device has in its cache: below, orthogonalising twice takes little time
EPS = float(np.finfo(np.float64).eps)


class Options(NamedTuple):
    """What a round does, fixed when it is captured."""

    rule: int  # its place in `SCORES`, -1 for leave-one-out
    size: int  # candidates to verify, 0 for another rule
    twice: int  # whether the column of a new term is orthogonalised twice
    correlate: int  # whether records have `State.correlations`
    orthogonal: int  # whether the orthogonalised terms are penalised


class Progress(NamedTuple):
    """What rounds read and write besides the rows and the statistics of the candidates."""

    together: Callable[..., tuple[Any, Any]]  # of the launcher, which itself refers to all of this once it is captured
    Y: Array  # (rows, q)
    alpha: Array  # (1,)
    constants: Array  # (2 q + 6,) zeros, then 1, 2, `UNDEFINED` and infinity
    W: Array  # (K, K) `B'B`, K being the columns that Z has memory for: a new z has `Z'z = W T_j / length`
    bounds: Bounds | None  # of the leave-one-out errors
    log: Array  # (slots, entries) records of the last rounds
    counts: Array  # (2,) columns of the model, rounds


class Bounds(NamedTuple):
    """What bounds the leave-one-out errors of the candidates besides their statistics."""

    noise: Array | None  # (p,) rounding of `r'v`, None if it is that of float64
    a: Array  # (rows,) `u r^2`
    root: Array  # (p,) lower bounds of `sqrt(sum a v^2)`
    fourth: Array  # (p,) upper bounds of `|v|_4`
    verified: Array  # (p,) columns that the model had when a candidate was verified last
    incumbent: Array  # (1,) the best candidate: unless it was appended it is verified again


class Statistics(NamedTuple):
    """The statistics that the scores of `SCORES` are made of, by the names that `State` has for them."""

    c: Array  # (p, q)
    rv: Array  # (p, q)
    s: Array
    vv: Array
    den: Array
    eligible: Array


class Chosen(NamedTuple):
    """The best candidate found so far."""

    candidate: Array  # (1,)
    error: Array  # (1,) leave-one-out, or minus the score of another rule
    rival: Array  # (1,) lower bound of the errors of all others
    x: Array  # (rows,) what `Z T_j` leaves of its column
    column: Array  # its column of the table


class Column(NamedTuple):
    """What the model leaves of a candidate's column, x."""

    x: Array  # (rows,)
    scales: Array  # (2,) length and den
    products: Array  # (2 q + 2,) c, rv, a number without meaning, vv
    least: Array  # (1,) vv below which this x is not accurate, or no more than rounding
    amounts: Array  # (K,) its part along Z
    below: Array  # (K,) `W amounts`
    bottom: Array  # (1,) den less vv


# -- a round -----------------------------------------------------------------------------------------------------------


def advance(options: Options, rows: RowArrays, candidates: CandidateArrays, sums: Array, own: Progress) -> None:
    """Append the best candidate, if it is certified to be the choice of the host and can be appended accurately.

    Most kernels of a round take a microsecond: what can be computed by one is not computed by two, and what does not
    depend on each other is computed at a time.
    """
    xp, q, (one, undefined) = namespace(sums), own.Y.shape[1], (own.constants[i : i + 1] for i in (-4, -2))
    if own.bounds is None:
        chosen, quarter = best_by_score(options, rows, candidates, own), one
        column = orthogonalised(options, rows, chosen, own)
    else:
        chosen, column, quarter = best_by_error(options, rows, candidates, sums, own)
    # without all of `G'G` t comes from a pass over the data, whatever cancels in it
    share = GRAM_SHARE[FLOAT64] if candidates.products.shape[0] > 1 else 0.0
    raw = chosen.column[2 * q + 3 : 2 * q + 4]
    above = xp.concat([chosen.rival, column.products[2 * q + 1 :], column.scales[1:], undefined])
    passed = as_float64(above > xp.concat([chosen.error, column.least, share * raw, chosen.error]))
    accepted = xp.min(passed)[None]
    # an infinite length leaves the model and all statistics as they are
    column = column._replace(scales=put_into(column.scales, accepted < 1, np.inf))
    place, beta = own.counts[:1], column.products[:q] / column.scales[1:]
    z = append_column(rows, column.x, NewColumn(place, column.scales, beta, chosen.candidate, column.amounts))
    if candidates.products.shape[0] == 1:
        candidates.products[0, :] = rows.G.products(z if rows.root is None else z * rows.root)

    change = change_of(options.orthogonal, chosen.candidate, column, own)
    t, (found, lengths) = own.together(
        lambda: update_statistics(candidates, change), lambda: sums_of_rows(rows, z, own.bounds)
    )

    def finish() -> None:
        # without an error now a candidate will have none later
        put_at(candidates.eligible, chosen.candidate, passed[3:] > accepted)
        sums[...] = found
        if not options.orthogonal:
            w = put_at(-change.mix[1, :], place, column.bottom / column.scales[1:])[None, :]
            put_at(own.W, place, w)
            put_at(own.W.T, place, w)
        shares = mean_square(candidates, t, chosen.candidate, q) if options.correlate else own.constants[:2]
        numbers = [accepted, passed[:2], as_float64(chosen.candidate), chosen.error, quarter, shares]
        record = xp.concat([*numbers, column.scales, column.products, found, column.amounts])
        put_at(own.log, own.counts[1:] % own.log.shape[0], record[None, :])
        counts = own.counts
        counts += xp.astype(xp.concat([accepted, one]), counts.dtype)

    own.together(lambda: widen(own.bounds, t, lengths), finish)


def best_by_score(options: Options, rows: RowArrays, candidates: CandidateArrays, own: Progress) -> Chosen:
    """The best candidate by a rule whose score is a function of the statistics."""
    table, q, eligible = candidates.table, own.Y.shape[1], candidates.eligible
    s, vv = table[2 * q, :], table[2 * q + 1, :]
    den = put(own.alpha + s, ~eligible, 1.0)
    statistics = Statistics(table[:q, :].T, table[q : 2 * q, :].T, s, vv, den, eligible)
    _, first, best = rank(SCORES[options.rule](), statistics)
    columns = at(table, first, axis=1)
    V = directions(rows, first, columns, q)
    return Chosen(first, -best[None], own.constants[-1:], V[:, 0], columns[:, 0])


def directions(rows: RowArrays, few: Array, columns: Array, q: int) -> Array:
    """What `Z T_j` leaves of the columns of a few candidates, whose columns of the table are given."""
    V = rows.G.columns(few)
    V = V if rows.root is None else V * rows.root[:, None]
    take_off_matmul(V, rows.Zt.T, columns[2 * q + FIXED_ROWS : 2 * q + FIXED_ROWS + rows.Zt.shape[0], :])
    return V


def best_by_error(
    options: Options, rows: RowArrays, candidates: CandidateArrays, sums: Array, own: Progress
) -> tuple[Chosen, Column, Array]:
    """Verify the candidates with the smallest bounds; return the best, and the bound at a quarter of them."""
    xp, q, size, known = namespace(sums), own.Y.shape[1], options.size, own.bounds
    assert known is not None
    places, halves = smallest(lower_bounds(candidates, sums, own, known), size + 1)
    floor = (1 - LOO_BOUND_ULPS * EPS) * (sums[q : q + 1] if q == 1 else xp.sum(sums[q : 2 * q]))
    values, few = plus_product(floor, halves, own.constants[-3:-2]), places[:size]
    columns = at(candidates.table, few, axis=1)
    V = directions(rows, few, columns, q)
    squares = V * V

    def choose() -> tuple[Chosen, Column]:
        errors = exact_errors(rows, (V, squares), columns, own.alpha)
        errors = put_into(errors, (values[:size] == np.inf) | ~(errors < UNDEFINED), UNDEFINED)
        error = xp.min(errors)[None]
        place = xp.argmin(put(few, errors > (1 + TIE_TOLERANCE) * error, candidates.table.shape[1]))[None]
        index = at(few, place)  # of equal ones the first
        put_at(known.verified, few, xp.broadcast_to(own.counts[:1], few.shape))
        put_at(known.verified, index, -1)
        known.incumbent[...] = index
        chosen = Chosen(index, error, values[size:], at(V, place, axis=1)[:, 0], at(columns, place, axis=1)[:, 0])
        return chosen, orthogonalised(options, rows, chosen, own)

    def bound_leverage() -> None:
        put_at(known.root, few, (known.a[None, :] @ squares)[0, :] ** 0.5)
        put_at(known.fourth, few, xp.linalg.vector_norm(squares, axis=0) ** 0.5)

    (chosen, column), _ = own.together(choose, bound_leverage)
    return chosen, column, values[size // 4 : size // 4 + 1]


def lower_bounds(candidates: CandidateArrays, sums: Array, own: Progress, known: Bounds) -> Array:
    """Half the lower bounds of the errors less `sum w r^2`; infinite for candidates that are excluded or verified."""
    table, q = candidates.table, own.Y.shape[1]
    xp, wrr, gap = namespace(table), sums[q : 2 * q], at_least(sums[3 * q + 1 :], LEVERAGE_GAP_MIN)
    w0 = wrr / at_least(sums[:q], SMALLEST_NORMAL)
    deviation = at_least(less_product((1 + LOO_DEVIATION_ROUNDING) * sums[2 * q : 3 * q], w0, wrr), 0.0) ** 0.5
    with np.errstate(divide="ignore", invalid="ignore"):  # of excluded candidates
        den = own.alpha + table[2 * q, :]
        beta = table[:q, :] / den
        steep = xp.abs(beta)
        size = steep * table[2 * q + 1, :] ** 0.5
        gains = w0[:, None] * beta * table[q : 2 * q, :]
        gains = plus_product(gains, size, less_product(deviation[:, None], 0.5 * gap[:1] ** -2, size))
        if known.noise is not None:
            gains = plus_product(gains, w0[:, None] * steep, known.noise)
        amplitude = steep[0, :] if q == 1 else xp.sum(beta * beta, axis=0) ** 0.5
        root = at_least(less_product(known.root, amplitude * gap[1:] ** -1.5, known.fourth * known.fourth), 0.0)
        bound = root * root / den - (gains[0, :] if q == 1 else xp.sum(gains, axis=0))
    put_at(bound, known.incumbent, -np.inf)
    return xp.where(candidates.eligible & (known.verified != own.counts[:1]), bound, own.constants[-1:])


def exact_errors(rows: RowArrays, directions: tuple[Array, Array], columns: Array, alpha: Array) -> Array:
    """Leave-one-out errors of a few candidates from their directions and squares; infinite or NaN if undefined."""
    (V, squares), xp, q, parts = directions, namespace(columns), rows.r.shape[1], []
    with np.errstate(divide="ignore", invalid="ignore"):
        den = alpha + columns[2 * q, :]
        left = less_quotient(rows.gap[:, None], squares if rows.root is None else squares * rows.share[:, None], den)
        left, beta = zero_below(left, LEVERAGE_GAP_MIN), columns[:q, :] / den
        for i in range(q):
            error = less_product(rows.r[:, i : i + 1], V, beta[i, :])
            error /= left
            parts.append(xp.linalg.vector_norm(error, axis=0) ** 2)
    return sum(parts[1:], start=parts[0])


def orthogonalised(options: Options, rows: RowArrays, chosen: Chosen, own: Progress) -> Column:
    """Orthogonalise the column of a candidate as `State.append` does."""
    xp, q, x, column = namespace(chosen.x), own.Y.shape[1], chosen.x, chosen.column
    norms, least = (column[2 * q + i : 2 * q + i + 1] for i in (2, 4))
    amounts = column[2 * q + FIXED_ROWS : 2 * q + FIXED_ROWS + rows.Zt.shape[0]]
    if options.twice:
        again = rows.Zt @ x - own.W @ amounts
        amounts, x = amounts + again, x - again @ rows.Zt
        products = xp.concat([own.Y.T, rows.r.T, x[None, :], x[None, :]]) @ x
    else:  # then its statistics have all digits of G
        products, least = column[: 2 * q + 2], REORTHOGONALISE_BELOW * norms
    below = own.W @ amounts
    bottom = own.alpha + below @ amounts
    den = products[2 * q + 1 :] + bottom
    length = (products[2 * q + 1 :] if options.orthogonal else den) ** 0.5
    return Column(x, xp.concat([length, den]), products, least, amounts, below, bottom)


def change_of(orthogonal: int, j: Array, column: Column, own: Progress) -> StatisticsChange:
    """How the column of candidate j changes the statistics, see `State._change`."""
    xp, q, length = namespace(j), own.Y.shape[1], column.scales[:1]
    scaled, zero, one, two = column.products / length, own.constants[:-4], own.constants[-4:-3], own.constants[-3:-2]
    zy, zr, zz = scaled[:q], scaled[q : 2 * q], scaled[2 * q + 1 :] / length
    if orthogonal:
        change = [zy, zy, zero[:2], zero, zero[: 2 * q], one, one, zero]
    else:
        change = [zy, less_product(zr, zz, zy), zero[: q + 2], zy, zero[: 2 * q + 2], one, -zz, zero[1:], two]
    coefficients = xp.reshape(xp.concat(change), (4, 2 * q + 2)).T
    mix = xp.stack([column.amounts, column.below]) / length
    return StatisticsChange(own.counts[:1], j, j, length, mix, coefficients)


def sums_of_rows(rows: RowArrays, z: Array, known: Bounds | None) -> tuple[Array, Array]:
    """`blocks.row_sums`, and the lengths that `widen` needs for a new z: all by one reduction."""
    left = left_out(rows)
    vectors = summed_rows(rows, left)
    if known is not None:
        a = leverage_weights(rows, left)
        vectors += at_least(known.a - a, 0.0)[None, :], (z * a**0.5)[None, :], (z * z)[None, :]
        known.a[...] = a
    lengths, count = row_lengths(*vectors), 3 * rows.r.shape[1] + 1
    return with_extremes(lengths[:count] ** 2, rows.gap), lengths[count:]


def widen(known: Bounds | None, t: Array, lengths: Array) -> None:
    """Update what bounds the leverage of candidates by a new z, with `t = G'z`.

    The lengths are `|(a - a')_+|`, `sqrt(sum a' z^2)` and `|z|_4^2`.
    """
    if known is None:
        return
    lost, along, square = (lengths[i : i + 1] for i in range(3))
    size = namespace(t).abs(t)
    root = at_least(less_product(known.root * known.root, known.fourth * known.fourth, lost), 0.0) ** 0.5
    known.root[...] = at_least(less_product(root, size, along), 0.0)
    known.fourth[...] = plus_product(known.fourth, size, square**0.5)


def leverage_weights(rows: RowArrays, left: LeftOut) -> Array:
    """`a = u r^2`, `u = share / leverage_gap^3`, with the outputs added up."""
    a = left.squares[0, :] / left.gap
    return a if rows.root is None else a * rows.share


def mean_square(candidates: CandidateArrays, t: Array, index: Array, q: int) -> Array:
    """`State.correlations` of the newest term, as a sum and the number of candidates it is over."""
    xp, before = namespace(t), candidates.table[2 * q, :] + t * t
    others = put_at(before > candidates.table[2 * q + 4, :], index, False)
    return xp.stack([xp.sum(t * t / put_into(before, ~others, np.inf)), xp.sum(as_float64(others))])


# -- the host ----------------------------------------------------------------------------------------------------------


class RunAhead:
    """Rounds that a device was given, and the terms that the host has read but not yet used.

    While the host uses the terms of some rounds, the device computes as many more. How many candidates a round verifies
    follows from what the last ones needed.
    """

    def __init__(self, state: State, rule: Rule, limit: int, correlate: bool) -> None:
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
        self.own = allocate(state, self.options)

    def next(self, state: State) -> TakenTerm | None:
        """Return the next term that the device took; None if the host must choose it."""
        while not self.taken:
            if self.stuck or not self._launch(state):
                self.stuck, self.columns = False, -1
                return None
            self._read(state)
        if not self.stuck:
            self._launch(state)  # before the host uses what it has read
        self.current = self.taken.popleft()
        return self.current

    def hand_over(self, j: int) -> TakenTerm | None:
        """Return the term that `next` returned last if it is candidate j; None if the host appends j itself."""
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
            if state.k + ahead + count > self.own.W.shape[0] or (not ahead and self.columns != state.k):
                if ahead:
                    break  # first the host takes over what there is
                block.reserve_column(count)
                state.reserve_terms(block.Zt.shape[0])
                if not self._synchronise(state, block):
                    break
            arrays = (self.options, block.arrays, state.candidates, state.sums, self.own)
            launcher.launch(advance, arrays, times=count)
            self.running.append((launcher.read(self.own.log), self.options.size, self.rounds, count))
            self.rounds += count
        return bool(self.running)

    def _read(self, state: State) -> None:
        """Wait for the oldest chunk and read the terms that it took."""
        log, size, first, count = self.running.popleft()
        records, q, before, few = log(), state.q, self.columns, True
        for record in records[np.arange(first, first + count) % len(records)]:
            accepted, certified, accurate, index, error, quarter, total, others, length, den = record[:10].tolist()
            c, products, sums, amounts = np.split(record[10:], np.cumsum([q, q + 2, 3 * q + 3]))
            self.verified, few = self.verified + size, few and quarter > error
            if accepted:
                verified, share = (
                    min(self.verified, state.rows.n_candidates - len(state.chosen)),
                    None if not self.options.correlate else total / max(others, 1),
                )
                scales = np.array([length, den])
                score = error if size else -error
                term = TakenTerm(int(index), score, verified, share, scales, float(products[-1]), c, sums, amounts)
                self.taken.append(term)
                self.verified, self.columns = 0, self.columns + 1
            elif certified or not size:  # its column needs more than a round does, and so do all rounds after this one
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
        if self.own.W.shape[0] < K:
            log = zeros((state.rows.steps_ahead, 12 + 2 * state.q + state.sums.shape[0] + K), block.Y)
            self.own = self.own._replace(W=zeros((K, K), block.Y), log=log)
        own = self.own
        own.W[: state.k, : state.k] = from_host(state.B.T @ state.B, block.Y)
        known, table = own.bounds, state.candidates.table
        if known is not None and known.noise is not None:
            centred = np.maximum(state.yy - (state.zy[:first] ** 2).sum(axis=0), 0.0)
            rounding = SUM_ROUNDING_ULPS * float(np.finfo(state.rows.dtype).eps)
            scale = rounding * (1 + np.sqrt(K)) * float(np.sqrt(centred).sum())  # the sum of all |z'y| is smaller
            known.noise[...] = scale * table[2 * state.q + 3, :] ** 0.5
        if self.columns == state.k:
            return True
        eligible = np.flatnonzero(to_host(state.eligible))
        if not len(eligible):
            return False
        if known is not None:
            known.verified[...], known.root[...], known.fourth[...] = -1, 0.0, 0.0
            known.incumbent[...] = int(eligible[0])  # any may be verified first
            known.a[...] = leverage_weights(block.arrays, left_out(block.arrays))
        own.counts[...] = from_host(np.array([state.k, self.rounds]), block.Y)
        self.columns = state.k
        return True


class AheadRule(Rule):
    """Takes over the choices of a device, and asks another rule for those that the device cannot make."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.end = rule, rule.end  # type: ignore[misc]

    def choose(self, state: State) -> Choice | None:
        """Return the next candidate, or None to end the path."""
        taken = state.run_ahead.next(state)
        return self.rule.choose(state) if taken is None else Choice(taken.candidate, taken.score, taken.verified)


def runs_ahead(rule: Rule) -> bool:
    """Whether a device can choose by a rule without the host."""
    if isinstance(rule, ClosedForm):
        return type(rule) in SCORES and rule.minimum == -np.inf
    return isinstance(rule, LooRule)


def allocate(state: State, options: Options) -> Progress:
    """Arrays for rounds; those as long as the model are empty."""
    assert state.rows.device_block is not None
    Y = state.rows.device_block.Y
    q, p = state.q, state.rows.n_candidates
    numbers = from_host(np.zeros(3 + p, dtype=np.int64), Y)
    bounds = None
    if options.rule < 0:
        exact = state.gram.whole is not None or state.rows.dtype == np.float64
        noise, root, fourth = (None if exact else empty((p,), Y)), empty((p,), Y), empty((p,), Y)
        bounds = Bounds(noise, empty((Y.shape[0],), Y), root, fourth, numbers[3:], numbers[2:3])
    return Progress(
        together=state.rows.launcher.together,
        Y=Y,
        alpha=zeros((1,), Y) + state.alpha,
        constants=from_host(np.append(np.zeros(2 * q + 2), [1, 2, UNDEFINED, np.inf]), Y),
        W=zeros((0, 0), Y),
        bounds=bounds,
        log=zeros((0, 0), Y),
        counts=numbers[:2],
    )
