"""Leave-one-out selection on a device that runs ahead of the host: many terms without a decision in between.

A round bounds the errors of all candidates from below, verifies those with the smallest bounds, and appends the best
candidate if the next bound exceeds its error: that certifies the choice of brute force. Else it changes nothing, and
the next round verifies more. Every size is fixed and every decision is an array, so that a round can be captured once
and replayed: a column of infinite length leaves the model as it is. The host reads the records of several rounds at a
time, while the device computes the next ones. A round that needs another algorithm stops all later ones until the host
has taken this step.

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
from typing import NamedTuple

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
    namespace,
    put_at,
    put_into,
    smallest,
    take_off_matmul,
    take_off_product,
    to_host,
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
from termwise.selection.blocks import NewColumn, RowArrays, RowBlock, append_column
from termwise.selection.state import FIXED_ROWS, CandidateArrays, State, StatisticsChange, TakenTerm, update

Floats = NDArray[np.float64]

UNDEFINED = 1e300  # error of a candidate that gives a sample leverage 1: above any other, but not infinite
BATCH = (8, 128)  # candidates verified in a round, at least and at most
PASS_BYTES = 1 << 10  # of a row of G, for each of them
BATCH_ENTRIES = (1 << 21, 1 << 26)  # samples times candidates: below, fewer would not be faster; above, memory ends
EPS = float(np.finfo(np.float64).eps)


class Options(NamedTuple):
    """What a round does, fixed when it is captured."""

    size: int  # candidates to verify
    twice: int  # whether the column of a new term is orthogonalised twice
    correlate: int  # whether records have `State.correlations`
    orthogonal: int  # whether the orthogonalised terms are penalised


class Progress(NamedTuple):
    """What rounds read and write besides the rows and the statistics of the candidates."""

    Y: Array  # (rows, q)
    noise: Array | None  # (p,) rounding of `r'v`, None if it is that of float64
    alpha: Array  # (1,)
    constants: Array  # (2 q + 4,) zeros, then one and two
    true: Array  # (1,)
    W: Array  # (K, K) `B'B`, K being the columns that Z has memory for: a new z has `Z'z = -W T_j / length`
    a: Array  # (rows,) `u r^2`
    root: Array  # (p,) lower bounds of `sqrt(sum a v^2)`
    fourth: Array  # (p,) upper bounds of `|v|_4`
    verified: Array  # (p,) columns that the model had when a candidate was verified last
    incumbent: Array  # (1,) the best candidate ...
    priority: Array  # (1,) ... and its bound, minus infinity if it was not appended: it is verified again
    log: Array  # (slots, entries) records of the last rounds
    counts: Array  # (2,) columns of the model, rounds


class Column(NamedTuple):
    """The best candidate verified so far, and what the model leaves of its column, x."""

    candidate: Array  # (1,)
    error: Array  # (1,)
    x: Array  # (rows,)
    scales: Array  # (2,) length and den
    products: Array  # (2 q + 2,) c, rv, a number without meaning, vv
    least: Array  # (1,) vv below which this x is not accurate, or no more than rounding
    raw: Array  # (1,) squared length of the candidate
    amounts: Array  # (K,) its part along Z
    below: Array  # (K,) `W amounts`
    bottom: Array  # (1,) den less vv


# -- a round -----------------------------------------------------------------------------------------------------------


def advance(options: Options, rows: RowArrays, candidates: CandidateArrays, sums: Array, own: Progress) -> None:
    """Verify some candidates, and append the best one if that is certified to be the choice of brute force."""
    xp, q, size = namespace(sums), own.Y.shape[1], options.size
    places, halves = smallest(lower_bounds(candidates, sums, own), size + 1)
    values = 2 * halves + (1 - LOO_BOUND_ULPS * EPS) * (sums[q : q + 1] if q == 1 else xp.sum(sums[q : 2 * q]))
    few = places[:size]
    errors, V, columns = verify(rows, candidates.table, few, values[:size] == np.inf, own)
    column = best_column(options, rows, (few, errors, V, columns), own)
    certified, accurate = values[size:] > column.error, column.products[2 * q + 1 :] > column.least
    accepted = certified & accurate & (column.error < UNDEFINED)
    if candidates.products.shape[0] > 1:  # else t comes from a pass over the data, whatever cancels in it
        accepted &= column.scales[1:] >= GRAM_SHARE[FLOAT64] * column.raw
    # an infinite length leaves the model and all statistics as they are
    column = column._replace(scales=put_into(column.scales, ~accepted, np.inf))
    eligible = at(candidates.eligible, column.candidate) & ~accepted
    z, t, found = append(options.orthogonal, rows, candidates, column, own)
    put_at(candidates.eligible, column.candidate, eligible)
    sums[...] = found
    widen_bounds(rows, z, t, own)
    flags = as_float64(xp.concat([accepted, certified, accurate]))
    shares = mean_square(candidates, t, column.candidate, q) if options.correlate else own.constants[:2]
    numbers = [flags, as_float64(column.candidate), column.error, values[size // 4 : size // 4 + 1], shares]
    record = xp.concat([*numbers, column.scales, column.products, found, column.amounts])
    put_at(own.log, own.counts[1:] % own.log.shape[0], record[None, :])
    own.incumbent[...] = column.candidate
    with np.errstate(divide="ignore"):
        own.priority[...] = xp.log(flags[:1])
    counts = own.counts
    counts += xp.astype(xp.concat([accepted, own.true]), counts.dtype)


def lower_bounds(candidates: CandidateArrays, sums: Array, own: Progress) -> Array:
    """Half the lower bounds of the errors less `sum w r^2`; infinite for candidates that are excluded or verified."""
    table, q = candidates.table, own.Y.shape[1]
    xp, wrr, gap = namespace(table), sums[q : 2 * q], at_least(sums[3 * q + 1 :], LEVERAGE_GAP_MIN)
    w0 = wrr / at_least(sums[:q], SMALLEST_NORMAL)
    deviation = at_least(less_product((1 + LOO_DEVIATION_ROUNDING) * sums[2 * q : 3 * q], w0, wrr), 0.0) ** 0.5
    with np.errstate(divide="ignore", invalid="ignore"):  # of excluded candidates
        den = own.alpha + table[2 * q, :]
        beta = table[:q, :] / den
        steep, slope = xp.abs(beta), deviation[:, None]
        size = steep * table[2 * q + 1, :] ** 0.5
        losses = less_product(size * (0.5 * gap[:1] ** -2 * size - slope), w0[:, None] * beta, table[q : 2 * q, :])
        if own.noise is not None:
            losses = less_product(losses, w0[:, None] * steep, own.noise)
        amplitude = steep[0, :] if q == 1 else xp.sum(beta * beta, axis=0) ** 0.5
        root = at_least(less_product(own.root, amplitude * gap[1:] ** -1.5, own.fourth * own.fourth), 0.0)
        bound = (losses[0, :] if q == 1 else xp.sum(losses, axis=0)) + root * root / den
    put_at(bound, own.incumbent, own.priority)
    return put_into(bound, ~candidates.eligible | (own.verified == own.counts[:1]), np.inf)


def verify(rows: RowArrays, table: Array, few: Array, excluded: Array, own: Progress) -> tuple[Array, Array, Array]:
    """Exact errors of a few candidates, their directions and columns of the table; store what bounds their leverage."""
    xp, q, K = namespace(table), own.Y.shape[1], rows.Zt.shape[0]
    columns, V = at(table, few, axis=1), rows.G.columns(few)
    V = V if rows.root is None else V * rows.root[:, None]
    take_off_matmul(V, rows.Zt.T, columns[2 * q + FIXED_ROWS : 2 * q + FIXED_ROWS + K, :])
    den, squares = put_into(own.alpha + columns[2 * q, :], excluded, 1.0), V * V
    left = less_product(rows.gap[:, None], squares if rows.root is None else squares * rows.share[:, None], den**-1)
    beta, parts = columns[:q, :] / den, []
    for i in range(q):
        error = less_product(rows.r[:, i : i + 1], V, beta[i, :])
        with np.errstate(divide="ignore", invalid="ignore"):  # of an undefined error
            error /= left
        parts.append(xp.linalg.vector_norm(error, axis=0) ** 2)
    errors = put_into(sum(parts[1:], start=parts[0]), excluded | (xp.min(left, axis=0) < LEVERAGE_GAP_MIN), UNDEFINED)
    put_at(own.root, few, (own.a[None, :] @ squares)[0, :] ** 0.5)
    put_at(own.fourth, few, xp.linalg.vector_norm(squares, axis=0) ** 0.5)
    put_at(own.verified, few, xp.broadcast_to(own.counts[:1], few.shape))
    return errors, V, columns


def best_column(options: Options, rows: RowArrays, batch: tuple[Array, ...], own: Progress) -> Column:
    """Find the best candidate, of equal ones the first, and orthogonalise its column as `State.append` does.

    The batch has the numbers, errors, directions and columns of the table of the candidates just verified.
    """
    few, errors, V, columns = batch
    xp, q, p = namespace(V), own.Y.shape[1], own.root.shape[0]
    error = xp.min(errors)[None]
    place = xp.argmin(few + p * xp.astype(errors > (1 + TIE_TOLERANCE) * error, few.dtype))[None]
    index, x, column = at(few, place), at(V, place, axis=1)[:, 0], at(columns, place, axis=1)[:, 0]
    put_at(own.verified, index, -1)
    norms, raw, least = (column[2 * q + i : 2 * q + i + 1] for i in (2, 3, 4))
    amounts = column[2 * q + FIXED_ROWS : 2 * q + FIXED_ROWS + rows.Zt.shape[0]]
    if options.twice:
        again = rows.Zt @ x - own.W @ amounts
        amounts, x = amounts + again, x - again @ rows.Zt
        xx = (x @ x)[None]
        products = xp.concat([x @ own.Y, x @ rows.r, xx, xx])
    else:  # then its statistics have all digits of G
        products, least = column[: 2 * q + 2], REORTHOGONALISE_BELOW * norms
    below = own.W @ amounts
    bottom = own.alpha + below @ amounts
    den = products[2 * q + 1 :] + bottom
    length = (products[2 * q + 1 :] if options.orthogonal else den) ** 0.5
    return Column(index, error, x, xp.concat([length, den]), products, least, raw, amounts, below, bottom)


def append(
    orthogonal: int, rows: RowArrays, candidates: CandidateArrays, column: Column, own: Progress
) -> tuple[Array, Array, Array]:
    """Append a column and update all statistics; return `z`, `t = G'z` and the sums over the rows."""
    xp, q, place = namespace(column.x), own.Y.shape[1], own.counts[:1]
    length, den = column.scales[:1], column.scales[1:]
    new = NewColumn(place, column.scales, column.products[:q] / den, column.candidate, column.amounts)
    z, found = append_column(rows, column.x, new)
    if candidates.products.shape[0] == 1:
        candidates.products[0, :] = rows.G.products(z if rows.root is None else z * rows.root)
    scaled, zero, one, two = column.products / length, own.constants[:-2], own.constants[-2:-1], own.constants[-1:]
    zy, zr, zz, along = scaled[:q], scaled[q : 2 * q], scaled[2 * q + 1 :] / length, -column.below / length
    if orthogonal:
        change = [zy, zy, zero[:2], zero, zero[: 2 * q], one, one, zero]
    else:
        change = [zy, less_product(zr, zz, zy), zero[: q + 2], zy, zero[: 2 * q + 2], one, -zz, zero[1:], two]
    coefficients = xp.reshape(xp.concat(change), (4, 2 * q + 2)).T
    places = xp.concat([place + (2 * q + FIXED_ROWS), column.candidate, column.candidate])
    numbers = StatisticsChange(places, length, xp.stack([column.amounts, along]), coefficients)
    t = update(candidates, numbers)
    if not orthogonal:
        w = put_at(along, place, column.bottom / den)[None, :]
        put_at(own.W, place, w)
        put_at(own.W.T, place, w)
    return z, t, found.values


def widen_bounds(rows: RowArrays, z: Array, t: Array, own: Progress) -> None:
    """Update what bounds the leverage of candidates by a new z, with `t = G'z`."""
    xp, squares, a = namespace(z), z * z, leverage_weights(rows)
    lost = own.fourth * xp.linalg.vector_norm(at_least(own.a - a, 0.0)) ** 0.5
    root = at_least(less_product(own.root * own.root, lost, lost), 0.0) ** 0.5
    size = xp.abs(t)
    own.root[...] = at_least(less_product(root, size, (a @ squares) ** 0.5), 0.0)
    take_off_product(own.fourth, size, -(xp.linalg.vector_norm(squares) ** 0.5))
    own.a[...] = a


def leverage_weights(rows: RowArrays) -> Array:
    """`a = u r^2`, `u = share / leverage_gap^3`, with the outputs added up."""
    r = rows.r
    squares = r[:, 0] ** 2 if r.shape[1] == 1 else namespace(r).sum(r * r, axis=1)
    a = squares / at_least(rows.gap, LEVERAGE_GAP_MIN) ** 3
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

    def __init__(self, state: State, limit: int, correlate: bool) -> None:
        self.limit = limit  # of the number of terms
        sizes = np.array(BATCH_ENTRIES) // state.n_rows
        if state.gram.whole is None:  # beside a pass over the data more of them cost little
            sizes = np.maximum(sizes, state.nbytes // state.n_rows // PASS_BYTES)
        sizes = np.clip(sizes, *BATCH)
        self.least, self.most = (min(1 << int(np.log2(size)), state.rows.n_candidates - 1) for size in sizes)
        self.options = Options(self.least, 0, int(correlate), int(state.orthogonal))
        self.taken: deque[TakenTerm] = deque()
        self.running: deque[tuple[Callable[[], Floats], int, int, int]] = deque()  # log, size, first round, rounds
        self.rounds = self.verified = 0
        self.columns = -1  # of the model, when the device had it last
        self.stuck = False
        self.current: TakenTerm | None = None  # the choice that `State.append` is to take over
        self.own = allocate(state)

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
            for _ in range(count):
                launcher.launch(advance, arrays)
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
                term = TakenTerm(int(index), error, verified, share, scales, float(products[-1]), c, sums, amounts)
                self.taken.append(term)
                self.verified, self.columns = 0, self.columns + 1
            elif certified:  # its column needs more than a round does, and all rounds after this one were the same
                self.stuck = bool(accurate) or bool(self.options.twice)
                self.options = self.options._replace(twice=1)
                self.running.clear()
                return
        if 4 * (self.columns - before) < 3 * count:
            self.options = self.options._replace(size=min(2 * size, self.most))
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
        if own.noise is not None:
            centred = np.maximum(state.yy - (state.zy[:first] ** 2).sum(axis=0), 0.0)
            rounding = SUM_ROUNDING_ULPS * float(np.finfo(state.rows.dtype).eps)
            scale = rounding * (1 + np.sqrt(K)) * float(np.sqrt(centred).sum())  # the sum of all |z'y| is smaller
            own.noise[...] = scale * state.candidates.table[2 * state.q + 3, :] ** 0.5
        if self.columns == state.k:
            return True
        eligible = np.flatnonzero(to_host(state.eligible))
        if not len(eligible):
            return False
        own.verified[...], own.root[...], own.fourth[...] = -1, 0.0, 0.0
        own.incumbent[...], own.priority[...] = int(eligible[0]), -np.inf  # any may be verified first
        own.a[...] = leverage_weights(block.arrays)
        own.counts[...] = from_host(np.array([state.k, self.rounds]), block.Y)
        self.columns = state.k
        return True


def allocate(state: State) -> Progress:
    """Arrays for rounds; those as long as the model are empty."""
    assert state.rows.device_block is not None
    Y = state.rows.device_block.Y
    q, p = state.q, state.rows.n_candidates
    exact = state.gram.whole is not None or state.rows.dtype == np.float64
    constants = np.append(np.zeros(2 * q + 2), [1, 2])
    numbers = from_host(np.zeros(3 + p, dtype=np.int64), Y)
    return Progress(
        Y=Y,
        noise=None if exact else empty((p,), Y),
        alpha=zeros((1,), Y) + state.alpha,
        constants=from_host(constants, Y),
        true=from_host(np.array([True]), Y),
        W=zeros((0, 0), Y),
        a=empty((Y.shape[0],), Y),
        root=empty((p,), Y),
        fourth=empty((p,), Y),
        verified=numbers[3:],
        incumbent=numbers[:1],
        priority=zeros((1,), Y),
        log=zeros((0, 0), Y),
        counts=numbers[1:3],
    )
