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
    first_true,
    from_host,
    less_product,
    namespace,
    put,
    put_at,
    smallest,
    take_off_matmul,
    to_host,
    zeros,
)
from termwise._numerics import (
    CANCELLATION_SHARE,
    FLOAT64,
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
BATCH = (8, 256)  # candidates verified in a round, at least and at most
BATCH_ENTRIES = (1 << 20, 1 << 26)  # samples times candidates: below, fewer would not be faster; above, memory ends
EPS = float(np.finfo(np.float64).eps)


class Progress(NamedTuple):
    """What rounds read and write besides the rows and the statistics of the candidates."""

    Y: Array  # (rows, q)
    order: Array  # (K,) 0, 1, ..., K being the columns that Z has memory for
    noise: Array  # (p,) rounding of `2 r'v` for a unit of `scale`
    alpha: Array  # (1,)
    scale: Array  # (1,) sum of all `|z'y|`
    W: Array  # (K, K) `B'B`: a new z has `Z'z = -W T_j / length`
    a: Array  # (rows,) `u r^2`
    errors: Array  # (p,) of the candidates verified for this step, infinite for the others
    root: Array  # (p,) lower bounds of `sqrt(sum a v^2)`
    fourth: Array  # (p,) upper bounds of `|v|_4`, where `root` is not zero
    incumbent: Array  # (1,) a candidate, with the bound ...
    priority: Array  # (1,) ... minus infinity: to be verified again; or infinity: just appended
    change: Array  # (2 q + 2, 4) as in `StatisticsChange`
    log: Array  # (slots, entries) records of the last rounds
    counts: Array  # (2,) columns of the model, rounds


class Column(NamedTuple):
    """The best candidate verified so far, and what the model leaves of its column, x."""

    index: Array  # (1,)
    error: Array  # (1,)
    x: Array  # (rows,)
    scales: Array  # (2,) length and den
    c: Array  # (q,)
    rv: Array  # (q,)
    vv: Array  # (1,)
    least: Array  # (1,) vv below which this x is not accurate, or no more than rounding
    raw: Array  # (1,) squared length of the candidate
    amounts: Array  # (K,) its part along Z
    below: Array  # (K,) `W amounts`
    bottom: Array  # (1,) den less vv


# -- a round -----------------------------------------------------------------------------------------------------------


def advance(
    size: int, twice: int, orthogonal: int, rows: RowArrays, candidates: CandidateArrays, sums: Array, own: Progress
) -> None:
    """Verify `size` candidates, and append the best one if that is certified to be the choice of brute force.

    With `twice` its column is orthogonalised twice.
    """
    xp, q = namespace(sums), own.Y.shape[1]
    bound, beta, den = lower_bounds(candidates, sums, own)
    places, values = smallest(bound, size + 1)
    few = places[:size]
    V, columns = verify(rows, candidates.table, few, at(beta, few, axis=1), at(den, few), own)
    put_at(own.errors, few, put(at(own.errors, few), values[:size] == np.inf, UNDEFINED))
    column = best_column(twice, orthogonal, rows, few, V, columns, own)
    floor = (1 - LOO_BOUND_ULPS * EPS) * xp.sum(sums[q : 2 * q])
    certified = (values[size:] + floor > column.error) & xp.any(few == column.index)
    accurate = column.vv > column.least
    share = CANCELLATION_SHARE[FLOAT64] if candidates.products.shape[0] > 1 else 0.0  # of products from `G'G`
    usable = accurate & (column.scales[:1] ** 2 >= share * column.raw) & (column.error < UNDEFINED)
    accepted = certified & usable
    # an infinite length leaves the model and all statistics as they are
    column = column._replace(scales=put(column.scales, ~accepted, np.inf))
    survivors = xp.sum(as_float64(bound + floor <= column.error))[None]
    found, correlation = append(orthogonal, rows, candidates, column, accepted, own)
    sums[...] = found
    flags = as_float64(xp.concat([accepted, certified, accurate]))
    parts = [flags, as_float64(column.index), column.error, survivors, correlation, column.scales, column.vv]
    put_at(own.log, own.counts[1:] % own.log.shape[0], xp.concat([*parts, column.c, found, column.amounts])[None, :])
    own.errors[...] = put(own.errors, accepted, np.inf)
    own.incumbent[...] = column.index
    own.priority[...] = (flags[:1] - 0.5) * np.inf
    own.counts[...] = own.counts + xp.astype(xp.concat([accepted, own.order[:1] == 0]), own.counts.dtype)


def lower_bounds(candidates: CandidateArrays, sums: Array, own: Progress) -> tuple[Array, Array, Array]:
    """Lower bounds of the errors less `sum w r^2`, infinite for candidates to be left out; also beta and den."""
    table, q, excluded = candidates.table, own.Y.shape[1], ~candidates.eligible
    xp = namespace(table)
    den = put(own.alpha + table[2 * q, :], excluded, 1.0)
    beta, vv = table[:q, :] / den, at_least(table[2 * q + 1, :], 0.0)
    steep, wrr, gap = xp.abs(beta), sums[q : 2 * q], at_least(sums[3 * q + 1 :], LEVERAGE_GAP_MIN)
    w0 = wrr / at_least(sums[:q], SMALLEST_NORMAL)
    deviation = 2 * at_least((1 + LOO_DEVIATION_ROUNDING) * sums[2 * q : 3 * q] - w0 * wrr, 0.0) ** 0.5
    linear = deviation[:, None] * vv**0.5 + (w0 * own.scale)[:, None] * own.noise
    losses = steep * (gap[:1] ** -2 * vv * steep - linear)
    losses = less_product(losses, 2 * w0[:, None] * beta, table[q : 2 * q, :])
    amplitude = steep[0, :] if q == 1 else xp.sum(beta * beta, axis=0) ** 0.5
    root = at_least(less_product(own.root, amplitude * gap[1:] ** -1.5, own.fourth * own.fourth), 0.0)
    bound = (losses[0, :] if q == 1 else xp.sum(losses, axis=0)) + 2 * root * root / den
    bound = put(bound, excluded | (own.errors < np.inf), np.inf)
    return put_at(bound, own.incumbent, own.priority), beta, den


def verify(rows: RowArrays, table: Array, few: Array, beta: Array, den: Array, own: Progress) -> tuple[Array, Array]:
    """Store the errors of a few candidates and what bounds their leverage; return their directions and statistics."""
    xp, first = namespace(table), 2 * own.Y.shape[1] + FIXED_ROWS
    columns, V = at(table, few, axis=1), rows.G.columns(few)
    V = V if rows.root is None else V * rows.root[:, None]
    take_off_matmul(V, rows.Zt.T, columns[first : first + rows.Zt.shape[0], :])
    squares = V * V
    left = less_product(rows.gap[:, None], squares if rows.root is None else squares * rows.share[:, None], 1 / den)
    errors = 0.0
    for i in range(own.Y.shape[1]):
        error = less_product(rows.r[:, i : i + 1], V, beta[i, :])
        with np.errstate(divide="ignore", invalid="ignore"):  # of an undefined error
            error /= left
        errors = errors + xp.linalg.vector_norm(error, axis=0) ** 2
    put_at(own.errors, few, put(errors, xp.min(left, axis=0) < LEVERAGE_GAP_MIN, UNDEFINED))
    put_at(own.root, few, (own.a[None, :] @ squares)[0, :] ** 0.5)
    put_at(own.fourth, few, xp.linalg.vector_norm(squares, axis=0) ** 0.5)
    return V, columns


def best_column(
    twice: int, orthogonal: int, rows: RowArrays, few: Array, V: Array, columns: Array, own: Progress
) -> Column:
    """Find the best candidate, of equal ones the first, and orthogonalise its column as `State.append` does."""
    xp, q = namespace(V), own.Y.shape[1]
    error = xp.min(own.errors)[None]
    index = first_true(own.errors <= (1 + TIE_TOLERANCE) * error)
    place = first_true(few == index)
    x, column = at(V, place, axis=1)[:, 0], at(columns, place, axis=1)[:, 0]
    c, rv, vv = column[:q], column[q : 2 * q], column[2 * q + 1 : 2 * q + 2]
    norms, raw, least = (column[2 * q + i : 2 * q + i + 1] for i in (2, 3, 4))
    amounts = column[2 * q + FIXED_ROWS : 2 * q + FIXED_ROWS + rows.Zt.shape[0]]
    if twice:
        again = rows.Zt @ x - own.W @ amounts
        amounts, x = amounts + again, x - again @ rows.Zt
        c, rv, vv = x @ own.Y, x @ rows.r, (x @ x)[None]
    else:  # then its statistics have all digits of G
        least = REORTHOGONALISE_BELOW * norms
    below = own.W @ amounts
    bottom = own.alpha + below @ amounts
    den = vv + bottom
    length = (vv if orthogonal else den) ** 0.5
    return Column(index, error, x, xp.concat([length, den]), c, rv, vv, least, raw, amounts, below, bottom)


def append(
    orthogonal: int, rows: RowArrays, candidates: CandidateArrays, column: Column, accepted: Array, own: Progress
) -> tuple[Array, Array]:
    """Append a column and update all statistics; return the sums over the rows and `State.correlations` as a ratio."""
    xp, q, place = namespace(column.x), own.Y.shape[1], own.counts[:1]
    length, den = column.scales[:1], column.scales[1:]
    new = NewColumn(place, column.scales, column.c / den, column.index, column.amounts)
    z, found = append_column(rows, column.x, new)
    if candidates.products.shape[0] == 1:
        candidates.products[0, :] = rows.G.products(z if rows.root is None else z * rows.root)
    unit, along = as_float64(own.order == place), -column.below / length
    zy, zz = column.c / length, column.vv / length**2
    own.change[:q, 0] = zy
    if orthogonal:
        own.change[q : 2 * q, 0] = zy
    else:
        own.change[q : 2 * q, 0], own.change[q : 2 * q, 1] = column.rv / length - zz * zy, zy
        own.change[2 * q + 1, 2] = -zz[0]
        w = (along + unit * (column.bottom / length**2))[None, :]
        put_at(own.W, place, w)
        put_at(own.W.T, place, w)
    places = xp.concat([place + (2 * q + FIXED_ROWS), column.index])
    mix = xp.stack([unit, unit + along, column.amounts])
    eligible = at(candidates.eligible, column.index)
    update(candidates, StatisticsChange(places, length, mix, own.change))
    put_at(candidates.eligible, column.index, eligible & ~accepted)
    t = at(candidates.table, places[:1])[0, :]
    widen_bounds(rows, z, t, own)
    own.scale[...] = own.scale + xp.sum(xp.abs(zy))
    before = candidates.table[2 * q, :] + t * t
    others = put_at(before > candidates.table[2 * q + 4, :], column.index, False)
    shares = t * t / put(before, ~others, np.inf)
    return found.values, xp.stack([xp.sum(shares), xp.sum(as_float64(others))])


def widen_bounds(rows: RowArrays, z: Array, t: Array, own: Progress) -> None:
    """Update what bounds the leverage of candidates by a new z, with `t = G'z`."""
    xp, squares, a = namespace(z), z * z, leverage_weights(rows)
    lost = own.fourth * xp.linalg.vector_norm(at_least(own.a - a, 0.0)) ** 0.5
    root = at_least(less_product(own.root**2, lost, lost), 0.0) ** 0.5
    size = xp.abs(t)
    own.root[...] = at_least(less_product(root, size, (a @ squares) ** 0.5), 0.0)
    own.fourth[...] = own.fourth + size * xp.linalg.vector_norm(squares) ** 0.5
    own.a[...] = a


def leverage_weights(rows: RowArrays) -> Array:
    """`a = u r^2`, `u = share / leverage_gap^3`, with the outputs added up."""
    r = rows.r
    squares = r[:, 0] ** 2 if r.shape[1] == 1 else namespace(r).sum(r * r, axis=1)
    a = squares / at_least(rows.gap, LEVERAGE_GAP_MIN) ** 3
    return a if rows.root is None else a * rows.share


# -- the host ----------------------------------------------------------------------------------------------------------


class RunAhead:
    """Rounds that a device was given, and the terms that the host has read but not yet used.

    While the host uses the terms of some rounds, the device computes as many more. How many candidates a round verifies
    follows from what the last ones needed.
    """

    def __init__(self, state: State, limit: int) -> None:
        self.limit = limit  # of the number of terms
        least, most = (int(np.clip(entries // state.n_rows, *BATCH)) for entries in BATCH_ENTRIES)
        self.least, self.most = (min(size, state.rows.n_candidates - 1) for size in (least, most))
        self.size, self.twice, self.chunk = self.least, 0, state.rows.steps_ahead
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
        self.current = self.taken.popleft()
        return self.current

    def hand_over(self, j: int) -> TakenTerm | None:
        """Return the term that `next` returned last if it is candidate j; None if the host appends j itself."""
        term, self.current = self.current, None
        return term if term is not None and term.index == j else None

    def _launch(self, state: State) -> bool:
        """Keep two chunks of rounds running; False if there is none."""
        block, launcher = state.rows.device_block, state.rows.launcher
        assert block is not None
        while len(self.running) < 2:
            ahead = len(self.taken) + sum(count for *_, count in self.running)
            count = min(self.chunk, self.limit - len(state.chosen) - ahead)
            if count <= 0:
                break
            if state.k + ahead + count > self.own.W.shape[0] or (not ahead and self.columns != state.k):
                if ahead:
                    break  # first the host takes over what there is
                block.reserve_column(count)
                state.reserve_terms(block.Zt.shape[0])
                if not self._synchronise(state, block):
                    break
            options = (self.size, self.twice, int(state.orthogonal))
            for _ in range(count):
                launcher.launch(advance, (*options, block.arrays, state.candidates, state.sums, self.own))
            self.running.append((launcher.read(self.own.log), self.size, self.rounds, count))
            self.rounds += count
        return bool(self.running)

    def _read(self, state: State) -> None:
        """Wait for the oldest chunk and read the terms that it took."""
        log, size, first, count = self.running.popleft()
        records, q, left = log(), state.q, state.rows.n_candidates - len(state.chosen)
        before, survivors = self.columns, 0.0
        for record in records[np.arange(first, first + count) % len(records)]:
            (accepted, certified, accurate, index), rest = record[:4].tolist(), record[4:]
            error, needed, total, others, length, den, vv = rest[:7].tolist()
            c, sums, amounts = np.split(rest[7:], [q, 4 * q + 3])
            self.verified, survivors = self.verified + size, max(survivors, needed)
            if accepted:
                verified, correlation = min(self.verified, left), total / max(others, 1.0)
                scales = np.array([length, den])
                self.taken.append(TakenTerm(int(index), error, verified, correlation, scales, vv, c, sums, amounts))
                self.verified, self.columns = 0, self.columns + 1
            elif certified:  # and so are all rounds after this one
                self.stuck = bool(accurate) or bool(self.twice)
                self.twice = 1
                self.running.clear()
                return
        if 2 * (self.columns - before) < count:
            self.size = min(4 * size, self.most)
        elif self.columns - before == count and 4 * survivors < size:
            self.size = max(size // 4, self.least)

    def _synchronise(self, state: State, block: RowBlock) -> bool:
        """Give the device the model of the host, and memory for its columns; False if no candidate is left."""
        first, K = state.intercept, block.Zt.shape[0]
        if self.own.W.shape[0] < K:
            order, W = from_host(np.arange(K), block.Y), zeros((K, K), block.Y)
            log = zeros((state.rows.steps_ahead, 11 + state.q + state.sums.shape[0] + K), block.Y)
            self.own = self.own._replace(order=order, W=W, log=log)
        own = self.own
        own.W[: state.k, : state.k] = from_host(state.B.T @ state.B, block.Y)
        if self.columns == state.k:
            return True
        candidate, priority = (state.chosen[-1], np.inf) if state.chosen else (-1, -np.inf)
        if candidate < 0:  # one that a round verifies anyway
            eligible = np.flatnonzero(to_host(state.eligible))
            if not len(eligible):
                return False
            candidate = int(eligible[0])
        centred = np.maximum(state.yy - (state.zy[:first] ** 2).sum(axis=0), 0.0)
        own.scale[...] = float(np.sqrt(centred).sum() + np.abs(state.zy[first:]).sum())
        own.errors[...], own.root[...], own.fourth[...] = np.inf, 0.0, 0.0
        own.incumbent[...], own.priority[...] = candidate, priority
        own.a[...] = leverage_weights(block.arrays)
        own.counts[...] = from_host(np.array([state.k, self.rounds]), block.Y)
        self.columns = state.k
        return True


def allocate(state: State) -> Progress:
    """Arrays for rounds; those as long as the model are empty."""
    assert state.rows.device_block is not None
    Y = state.rows.device_block.Y
    q, p, fixed = state.q, state.rows.n_candidates, state.candidates.table
    eps = EPS if state.gram is not None else float(np.finfo(state.rows.dtype).eps)
    noise = 2 * SUM_ROUNDING_ULPS * eps * fixed[2 * q + 3, :] ** 0.5
    change = np.zeros((2 * q + 2, 4))
    change[2 * q, 2] = 1
    change[2 * q + 1, 2], change[2 * q + 1, 3] = (1, 0) if state.orthogonal else (0, 2)
    numbers = from_host(np.zeros(3, dtype=np.int64), Y)
    return Progress(
        Y=Y,
        order=numbers[:0],
        noise=noise,
        alpha=zeros((1,), Y) + state.alpha,
        scale=zeros((1,), Y),
        W=zeros((0, 0), Y),
        a=empty((Y.shape[0],), Y),
        errors=empty((p,), Y),
        root=empty((p,), Y),
        fourth=empty((p,), Y),
        incumbent=numbers[:1],
        priority=zeros((1,), Y),
        change=from_host(change, Y),
        log=zeros((0, 0), Y),
        counts=numbers[1:],
    )
