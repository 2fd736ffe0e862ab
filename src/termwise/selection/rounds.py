"""A round of selection on a device: it chooses and appends a term without the host.

Every size is fixed and every decision is an array, so that a round can be captured as a CUDA graph once and replayed: a
column of infinite length leaves the model as it is. A round that needs another algorithm is recorded as such; the host
then takes this step, and discards all later rounds.

A rule in `SCORES` chooses by the statistics of the candidates. For leave-one-out a round bounds the errors of all
candidates from below, verifies those with the smallest bounds, and appends the best candidate if the next bound exceeds
its error: that certifies the choice of brute force. Else it changes nothing, and the next round verifies more.

Bound 0 of `leave_one_out` is that of all candidates. A verified one also has the root of `sum a v^2`, `a = u r^2`, and
`|v|_4`, which bound what its leverage adds as in `loo_bounds.LeverageBound`. These remain bounds after more terms:
with a new z, `t = z'g`, and a' in place of a,

    sqrt(sum a' v'^2) >= sqrt(sum a v^2 - |(a - a')_+| |v|_4^2) - |t| sqrt(sum a' z^2),    |v'|_4 <= |v|_4 + |t| |z|_4.

Products with G in its own precision make `r'v` uncertain by a few units in the last place of `|g|` times the sum of all
`|z'y|`, which is what bounds in float32 are widened by.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    as_float64,
    at,
    at_least,
    empty,
    namespace,
    put,
    put_at,
    put_into,
    row_lengths,
    smallest,
    take_off_matmul,
    zero_below,
)
from termwise._fusion import columns_at, fused
from termwise._numerics import (
    FLOAT64,
    GRAM_SHARE,
    LEVERAGE_GAP_MIN,
    LOO_BOUND_ULPS,
    LOO_DEVIATION_ROUNDING,
    REORTHOGONALISE_BELOW,
    SMALLEST_NORMAL,
    TIE_TOLERANCE,
)
from termwise.selection.rules import ClosedForm, CostRule, NormRule, SseRule, rank
from termwise.selection.updates import (
    CHANGES,
    CandidateArrays,
    NewColumn,
    RowArrays,
    StatisticsChange,
    append_column,
    left_out,
    sum_places,
    summed_rows,
    table_rows,
    update_statistics,
    with_extremes,
)

Floats = NDArray[np.float64]

SCORES: tuple[type[ClosedForm], ...] = (CostRule, SseRule, NormRule)  # of the statistics of the candidates alone
UNDEFINED = 1e300  # error of a candidate that gives a sample leverage 1: above any other, but not infinite
EPS = float(np.finfo(np.float64).eps)


class Options(NamedTuple):
    """What a round does, fixed when it is captured."""

    rule: int  # its place in `SCORES`, -1 for leave-one-out
    size: int  # candidates to verify, 0 for another rule
    twice: int  # whether the column of a new term is orthogonalised twice
    correlate: int  # whether records have `State.correlations`
    orthogonal: int  # whether the orthogonalised terms are penalised


class RoundBuffers(NamedTuple):
    """Buffers of a round other than the rows and candidate statistics."""

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
    weighted: Array  # (p,) lower bounds of `sqrt(sum a v^2)`
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
    products: Array  # (2 q + 2,) c, rv, a number without meaning, vv
    least: Array  # (1,) vv below which this x is not accurate, or no more than rounding
    amounts: Array  # (K,) its part along Z
    below: Array  # (K,) `W amounts`
    penalised: Array  # (1,) `amounts' W amounts`


class Acceptance(NamedTuple):
    """Whether a candidate is appended; if not, length and den are infinite. Each is of one entry."""

    accepted: Array
    certified: Array  # whether no other candidate can have a smaller error
    accurate: Array  # whether its column is
    eligible: Array  # whether it stays eligible: an undefined error excludes it for good
    length: Array
    den: Array
    bottom: Array  # den less vv


# -- a round -----------------------------------------------------------------------------------------------------------


def advance(options: Options, rows: RowArrays, candidates: CandidateArrays, sums: Array, buffers: RoundBuffers) -> None:
    """Append the best candidate, if it is certified to be the choice of the host and can be appended accurately.

    Most kernels of a round take a microsecond: what can be computed by one is not computed by two, and what does not
    depend on each other is computed at a time.
    """
    xp, q, one = namespace(sums), buffers.Y.shape[1], buffers.constants[-4:-3]
    row = table_rows(q)
    if buffers.bounds is None:
        chosen, quarter = best_by_score(options, rows, candidates, buffers), one
        column = orthogonalised(options, rows, chosen, buffers)
    else:
        chosen, column, quarter = best_by_error(options, rows, candidates, sums, buffers)
    # without all of `G'G` t comes from a pass over the data, whatever cancels in it
    raw = chosen.column[row.raw : row.raw + 1] if candidates.products.shape[0] > 1 else None
    accept = accept_orthogonal if options.orthogonal else accept_penalised
    vv, penalty = column.products[row.vv :], (column.penalised, buffers.alpha)
    scales, place = empty((2,), vv), buffers.counts[:1]
    length, den = scales[:1], scales[1:]
    kept = (None, None, None, None, length, den)
    verdict = Acceptance(*accept(chosen.rival, chosen.error, vv, column.least, raw, *penalty, out=kept))
    zy, shrunk, minus_zz, beta = column_changes(column.products[row.c], column.products[row.rv], vv, length, den)
    z = append_column(rows, column.x, NewColumn(place, scales, beta, chosen.candidate, column.amounts))
    if candidates.products.shape[0] == 1:
        candidates.products[0, :] = rows.G.products(z if rows.root is None else z * rows.root)

    coefficients = coefficients_of(options.orthogonal, zy, shrunk, minus_zz[:1], buffers)
    mix = xp.stack([column.amounts, column.below]) / length
    change = StatisticsChange(place, chosen.candidate, chosen.candidate, length, mix, coefficients)
    t, (found, lengths) = buffers.together(
        lambda: update_statistics(candidates, change), lambda: sums_of_rows(rows, z, buffers.bounds)
    )

    def finish() -> None:
        put_at(candidates.eligible, chosen.candidate, verdict.eligible > 0)
        sums[...] = found
        if not options.orthogonal:
            w = put_at(-mix[1, :], place, verdict.bottom / verdict.den)[None, :]
            put_at(buffers.W, place, w)
            put_at(buffers.W.T, place, w)
        shares = mean_square(candidates, t, chosen.candidate, q) if options.correlate else buffers.constants[:2]
        numbers = [*verdict[:3], as_float64(chosen.candidate), chosen.error, quarter, shares, scales]
        record = xp.concat([*numbers, column.products, found, column.amounts])
        put_at(buffers.log, buffers.counts[1:] % buffers.log.shape[0], record[None, :])
        counts = buffers.counts
        counts += xp.astype(xp.concat([verdict.accepted, one]), counts.dtype)

    buffers.together(lambda: widen(buffers.bounds, t, lengths), finish)


# -- the choice --------------------------------------------------------------------------------------------------------


def best_by_score(options: Options, rows: RowArrays, candidates: CandidateArrays, buffers: RoundBuffers) -> Chosen:
    """The best candidate by a rule whose score is a function of the statistics."""
    table, q, eligible = candidates.table, buffers.Y.shape[1], candidates.eligible
    row = table_rows(q)
    s, vv = table[row.s, :], table[row.vv, :]
    den = put(buffers.alpha + s, ~eligible, 1.0)
    statistics = Statistics(table[row.c, :].T, table[row.rv, :].T, s, vv, den, eligible)
    _, first, best = rank(SCORES[options.rule](), statistics)
    columns = columns_at(table, first)
    Vt = directions(rows, first, columns, q)
    return Chosen(first, -best[None], buffers.constants[-1:], Vt[0, :], columns[:, 0])


def directions(rows: RowArrays, few: Array, columns: Array, q: int) -> Array:
    """What `Z T_j` leaves of the columns of a few candidates, as rows; their columns of the table are given."""
    Vt = rows.G.columns(few).T
    Vt = Vt if rows.root is None else Vt * rows.root
    first = table_rows(q).T
    take_off_matmul(Vt, columns[first : first + rows.Zt.shape[0], :].T, rows.Zt)
    return Vt


def best_by_error(
    options: Options, rows: RowArrays, candidates: CandidateArrays, sums: Array, buffers: RoundBuffers
) -> tuple[Chosen, Column, Array]:
    """Verify the candidates with the smallest bounds; return the best, and the bound at a quarter of them."""
    xp, q, size, bounds = namespace(sums), buffers.Y.shape[1], options.size, buffers.bounds
    assert bounds is not None
    places, halves = smallest(lower_bounds(candidates, sums, buffers, bounds), size + 1)
    loo_sse = sums[sum_places(q).loo_sse]
    values, few = bound_values(halves, loo_sse if q == 1 else xp.sum(loo_sse)[None]), places[:size]
    columns = columns_at(candidates.table, few)
    Vt = directions(rows, few, columns, q)
    lengths, squares = left_out_lengths(rows, Vt, columns, buffers.alpha)

    def choose() -> tuple[Chosen, Column]:
        errors = defined_errors(lengths, values[:size])
        error = xp.min(errors)[None]
        place = xp.argmin(best_ones(few, errors, error))[None]
        index = at(few, place)  # of equal ones the first
        put_at(bounds.verified, few, xp.broadcast_to(buffers.counts[:1], few.shape))
        put_at(bounds.verified, index, -1)
        bounds.incumbent[...] = index
        chosen = Chosen(index, error, values[size:], at(Vt, place)[0, :], columns_at(columns, place)[:, 0])
        return chosen, orthogonalised(options, rows, chosen, buffers)

    def bound_leverage() -> None:
        put_at(bounds.weighted, few, (squares @ bounds.a) ** 0.5)
        put_at(bounds.fourth, few, xp.linalg.vector_norm(squares, axis=1) ** 0.5)

    (chosen, column), _ = buffers.together(choose, bound_leverage)
    return chosen, column, values[size // 4 : size // 4 + 1]


def lower_bounds(candidates: CandidateArrays, sums: Array, buffers: RoundBuffers, bounds: Bounds) -> Array:
    """Half the lower bounds of the errors less `sum omega r^2`; infinite for those excluded or verified.

    Bound 0 as in `leave_one_out.bound_candidates`, in a form for a device, and what the leverage adds.
    """
    table, q = candidates.table, buffers.Y.shape[1]
    place, row = sum_places(q), table_rows(q)
    xp, largest, least = namespace(table), sums[place.largest_gap : place.smallest_gap], sums[place.smallest_gap :]
    with np.errstate(divide="ignore", invalid="ignore"):  # of excluded candidates
        omega0, deviation = mean_weights(sums[place.sse], sums[place.loo_sse], sums[place.second])
        state = (bounds.noise, candidates.eligible, bounds.verified, buffers.counts[:1])
        beta, product, den = first_step(table[row.c, :], table[row.rv, :], table[row.s, :], buffers.alpha, *state)
        gains = half_gains(product, beta, table[row.vv, :], omega0[:, None], deviation[:, None], largest)
        gains = gains[0, :] if q == 1 else xp.sum(gains, axis=0)
        put_at(gains, bounds.incumbent, np.inf)
        slope = beta[0, :] if q == 1 else xp.sum(beta * beta, axis=0) ** 0.5
        return half_bounds(gains, slope, den[0, :], bounds.weighted, bounds.fourth, least)


@fused
def mean_weights(sse: Array, loo_sse: Array, second: Array) -> tuple[Array, Array]:
    """`omega0 = sum omega r^2 / sum r^2`, and `|(omega - omega0) r|`, no less than that by rounding."""
    omega0 = loo_sse / at_least(sse, SMALLEST_NORMAL)
    return omega0, at_least((1 + LOO_DEVIATION_ROUNDING) * second - omega0 * loo_sse, 0.0) ** 0.5


@fused
def first_step(
    c: Array, rv: Array, s: Array, alpha: Array, noise: Array | None, eligible: Array, verified: Array, columns: Array
) -> tuple[Array, Array, Array]:
    """`beta = c / den`, `beta rv` rounded up, and den, negative for candidates that are excluded or verified."""
    den = alpha + s
    beta = c / den
    product = beta * rv if noise is None else beta * rv + abs(beta) * noise
    return beta, product, put(den + 0 * c, ~(eligible & (verified != columns)), -1.0)


@fused
def half_gains(product: Array, beta: Array, vv: Array, omega0: Array, deviation: Array, gap: Array) -> Array:
    """Half of what a candidate lowers `sum omega r^2` by at most, its own leverage left out, given the largest gap.

    Minus half of bound 0 in `leave_one_out.bound_candidates`, in a form for a device.
    """
    size = abs(beta) * vv**0.5
    return omega0 * product + size * (deviation - 0.5 * at_least(gap, LEVERAGE_GAP_MIN) ** -2 * size)


@fused
def half_bounds(gains: Array, slope: Array, den: Array, weighted: Array, fourth: Array, gap: Array) -> Array:
    """Half of what a candidate's own leverage adds at least, less the gains; the smallest gap is given."""
    added = at_least(weighted - abs(slope) * at_least(gap, LEVERAGE_GAP_MIN) ** -1.5 * (fourth * fourth), 0.0)
    return put(added * added / den - gains, den < 0, np.inf)


@fused
def bound_values(halves: Array, loo_sse: Array) -> Array:
    """Lower bounds of the errors."""
    return (1 - LOO_BOUND_ULPS * EPS) * loo_sse + 2 * halves


def left_out_lengths(rows: RowArrays, Vt: Array, columns: Array, alpha: Array) -> tuple[Array, Array]:
    """Roots of the leave-one-out errors of a few candidates, infinite or NaN if undefined, and the squares of V'."""
    xp, q, found, squares = namespace(Vt), rows.r.shape[1], [], None
    share = None if rows.root is None else rows.share
    with np.errstate(divide="ignore", invalid="ignore"):
        for i in range(q):
            c, s = columns[i, :][:, None], columns[table_rows(q).s, :][:, None]
            errors, squares = left_out_errors(Vt, rows.r[:, i], rows.gap, c, s, alpha, share)
            found.append(xp.linalg.vector_norm(errors, axis=1))
    return found[0] if q == 1 else xp.linalg.vector_norm(xp.stack(found), axis=0), squares


@fused
def left_out_errors(
    v: Array, r: Array, gap: Array, c: Array, s: Array, alpha: Array, share: Array | None
) -> tuple[Array, Array]:
    """The errors of `leave_one_out.errors_from`, of every candidate and row, in a form for a device, and `v^2`."""
    den, squares = alpha + s, v * v
    left = gap - (squares if share is None else squares * share) / den
    return (r - v * (c / den)) / zero_below(left, LEVERAGE_GAP_MIN), squares


@fused
def defined_errors(length: Array, bound: Array) -> Array:
    """Squares of lengths; `UNDEFINED` for candidates that are excluded, or have no error."""
    error = length * length
    return put(error, (bound == np.inf) | ~(error < UNDEFINED), UNDEFINED)


@fused
def best_ones(few: Array, errors: Array, error: Array) -> Array:
    """The candidates with the smallest error, infinite in place of all others."""
    return put(as_float64(few), errors > (1 + TIE_TOLERANCE) * error, np.inf)


# -- the new column ----------------------------------------------------------------------------------------------------


def orthogonalised(options: Options, rows: RowArrays, chosen: Chosen, buffers: RoundBuffers) -> Column:
    """Orthogonalise the column of a candidate as `State.append` does."""
    xp, x, column, row = namespace(chosen.x), chosen.x, chosen.column, table_rows(buffers.Y.shape[1])
    norms, least = (column[i : i + 1] for i in (row.norms, row.least))
    amounts = column[row.T : row.T + rows.Zt.shape[0]]
    if options.twice:
        again, amounts = second_amounts(rows.Zt @ x, buffers.W @ amounts, amounts)
        x = x - again @ rows.Zt
        products = xp.concat([buffers.Y.T, rows.r.T, x[None, :], x[None, :]]) @ x
    else:  # then its statistics have all digits of G
        products, least = column[row.changing], REORTHOGONALISE_BELOW * norms
    below = buffers.W @ amounts
    return Column(x, products, least, amounts, below, (below @ amounts)[None])


@fused
def second_amounts(along: Array, below: Array, amounts: Array) -> tuple[Array, Array]:
    """What is left along Z after a column was orthogonalised once, and the amounts of both times."""
    again = along - below
    return again, amounts + again


def acceptance(
    orthogonal: bool,
    rival: Array,
    error: Array,
    vv: Array,
    least: Array,
    raw: Array | None,
    penalised: Array,
    alpha: Array,
) -> tuple[Array, ...]:
    """The fields of `Acceptance`."""
    bottom = alpha + penalised
    den = vv + bottom
    certified, accurate, defined = rival > error, vv > least, error < UNDEFINED
    accepted = certified & accurate & defined & (den > (0.0 if raw is None else GRAM_SHARE[FLOAT64] * raw))
    length = put((vv if orthogonal else den) ** 0.5, ~accepted, np.inf)  # which leaves the model as it is
    verdicts = [as_float64(one) for one in (accepted, certified, accurate, defined & ~accepted)]
    return *verdicts, length, put(den, ~accepted, np.inf), bottom


accept_penalised, accept_orthogonal = (fused(partial(acceptance, orthogonal)) for orthogonal in (False, True))


@fused
def column_changes(c: Array, rv: Array, vv: Array, length: Array, den: Array) -> tuple[Array, Array, Array, Array]:
    """`z'y`, `z'r - z'z z'y`, `-z'z` and beta of a column that is appended."""
    zy, zz = c / length, vv / length / length
    return zy, rv / length - zz * zy, 0 * c - zz, c / den


def coefficients_of(orthogonal: int, zy: Array, shrunk: Array, minus_zz: Array, buffers: RoundBuffers) -> Array:
    """Coefficients of `StatisticsChange`, as `State._change` has them: those by each of `CHANGES` in turn."""
    xp, q = namespace(zy), buffers.Y.shape[1]
    zero, one, two = buffers.constants[:-4], buffers.constants[-4:-3], buffers.constants[-3:-2]
    if orthogonal:
        change = [zy, zy, zero[:2], zero, zero[: 2 * q], one, one, zero]
    else:
        change = [zy, shrunk, zero[: q + 2], zy, zero[: 2 * q + 2], one, minus_zz, zero[1:], two]
    return xp.reshape(xp.concat(change), (len(CHANGES), table_rows(q).changing.stop)).T


# -- sums and bounds with the new term ---------------------------------------------------------------------------------


def sums_of_rows(rows: RowArrays, z: Array, bounds: Bounds | None) -> tuple[Array, Array]:
    """`updates.row_sums`, and the lengths that `widen` needs for a new z: all by one reduction."""
    left = left_out(rows)
    vectors = summed_rows(rows, left)
    if bounds is not None:
        share = None if rows.root is None else rows.share
        _, *changes = weight_changes(left.squares[0, :], rows.gap, share, bounds.a, z, out=[bounds.a])
        vectors += tuple(change[None, :] for change in changes)
    lengths, count = row_lengths(*vectors), sum_places(rows.r.shape[1]).largest_gap
    return with_extremes(lengths[:count] ** 2, rows.gap), lengths[count:]


def leverage_weights(squares: Array, gap: Array, share: Array | None) -> Array:
    """`a = u r^2`, `u = share / leverage_gap^3`, from `e^2` with the outputs added up."""
    a = squares / at_least(gap, LEVERAGE_GAP_MIN)
    return a if share is None else a * share


@fused
def weight_changes(
    squares: Array, gap: Array, share: Array | None, before: Array, z: Array
) -> tuple[Array, Array, Array, Array]:
    """The present `a'`, `(a - a')_+`, `sqrt(a') z` and `z^2`."""
    a = leverage_weights(squares, gap, share)
    return a, at_least(before - a, 0.0), z * a**0.5, z * z


def widen(bounds: Bounds | None, t: Array, lengths: Array) -> None:
    """Update what bounds the leverage of candidates by a new z, with `t = G'z`.

    The lengths are `|(a - a')_+|`, `sqrt(sum a' z^2)` and `|z|_4^2`.
    """
    if bounds is not None:
        parts = (lengths[i : i + 1] for i in range(3))
        widened(bounds.weighted, bounds.fourth, t, *parts, out=[bounds.weighted, bounds.fourth])


@fused
def widened(weighted: Array, fourth: Array, t: Array, lost: Array, along: Array, square: Array) -> tuple[Array, Array]:
    """The bounds of `sqrt(sum a v^2)` and `|v|_4` after one more term."""
    left = at_least(weighted * weighted - fourth * fourth * lost, 0.0) ** 0.5
    return at_least(left - abs(t) * along, 0.0), fourth + abs(t) * square**0.5


def mean_square(candidates: CandidateArrays, t: Array, index: Array, q: int) -> Array:
    """`State.correlations` of the newest term, as a sum and the number of candidates it is over."""
    xp, table, row = namespace(t), candidates.table, table_rows(q)
    before = table[row.s, :] + t * t
    others = put_at(before > table[row.least, :], index, False)
    return xp.stack([xp.sum(t * t / put_into(before, ~others, np.inf)), xp.sum(as_float64(others))])
