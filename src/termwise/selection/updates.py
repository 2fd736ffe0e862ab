"""What a new term changes: the rows, and the statistics of all candidates.

These functions are of arrays that keep their address, so that a launcher can capture them as CUDA graphs.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from termwise._arrays import (
    Array,
    at,
    at_least,
    extremes,
    namespace,
    put_at,
    squared_row_lengths,
    take_off_matmul,
    take_off_product,
)
from termwise._fusion import fused
from termwise._numerics import LEVERAGE_GAP_MIN
from termwise.design import Design

BY_T, BY_ZV, BY_T2, BY_T_ZV = CHANGES = range(4)  # what statistics change by: t, `z'v`, t^2 and `t z'v`


def step(rows: RowArrays, arrays: CandidateArrays, sums: Array, column: NewColumn, change: StatisticsChange) -> None:
    """Everything a new term changes, in one launch: append the candidate, pass over the data, update."""
    z, found = append_candidate(rows, column)
    if arrays.products.shape[0] == 1:
        arrays.products[0, :] = rows.G.products(z if rows.root is None else z * rows.root)
    update(arrays, change)
    sums[...] = found


# -- rows --------------------------------------------------------------------------------------------------------------


class RowArrays(NamedTuple):
    """Arrays of a block."""

    G: Design
    root: Array | None  # square roots of the weights, None if all are one
    share: Array  # of a row's leverage that belongs to a single repeat
    Zt: Array  # (capacity, rows)
    r: Array  # (rows, q)
    gap: Array  # (rows,)


class NewColumn(NamedTuple):
    """A column x on its way into the model, and the candidate it comes from."""

    place: Array  # (1,), in Z
    scales: Array  # (2,) the length by which x becomes z, and den
    beta: Array  # (q,) its weights c / den
    candidate: Array  # (1,) its index
    amounts: Array  # (k,) its column of T: the part along the model


def append_candidate(rows: RowArrays, column: NewColumn) -> tuple[Array, Array]:
    """Subtract `Z amounts` from a candidate's column and append the rest."""
    x = rows.G.columns(column.candidate)[:, 0]
    x = (x if rows.root is None else x * rows.root) - rows.Zt[: column.amounts.shape[0], :].T @ column.amounts
    return append_column(rows, x, column), row_sums(rows)


def append_column(rows: RowArrays, x: Array, column: NewColumn) -> Array:
    """Store and return `z = x / length`, subtract `x beta` from the residual and `x^2 / den` from the leverage gap."""
    scales, share = column.scales, None if rows.root is None else rows.share
    z, _ = scaled_column(x, rows.gap, share, scales[:1], scales[1:], out=[None, rows.gap])
    put_at(rows.Zt, column.place, z[None, :])
    take_off_product(rows.r, x[:, None], column.beta)
    return z


@fused
def scaled_column(x: Array, gap: Array, share: Array | None, length: Array, den: Array) -> tuple[Array, Array]:
    """`z = x / length`, and the leverage gap with z in the model."""
    part = x * (x / den)
    return x / length, gap - (part if share is None else share * part)


class SumPlaces(NamedTuple):
    """Places of the sums over the rows in the array of `row_sums`, for q outputs."""

    sse: slice  # `sum r^2` of each output
    loo_sse: slice  # `sum omega r^2` of each output
    second: slice  # `sum omega^2 r^2` of each output
    moments: slice  # all three
    spread: int  # `sum (omega r^2)^2 / sample_weight`
    largest_gap: int
    smallest_gap: int
    size: int


@cache
def sum_places(q: int) -> SumPlaces:
    """Places of the sums for q outputs."""
    first = slice(q), slice(q, 2 * q), slice(2 * q, 3 * q), slice(3 * q)
    return SumPlaces(*first, 3 * q, 3 * q + 1, 3 * q + 2, 3 * q + 3)


class LeftOut(NamedTuple):
    """The leave-one-out residuals of the model."""

    residuals: Array  # (q, rows) `e = r / gap`, as `linalg.least_squares.leave_one_out` has them
    scaled: Array  # (q, rows) `e / gap`
    squares: Array  # (1, rows) `e^2`, the outputs added up


def left_out(rows: RowArrays) -> LeftOut:
    """Leave every row out."""
    e, scaled, squares = left_out_residuals(rows.r.T, rows.gap)
    return LeftOut(e, scaled, squares if e.shape[0] == 1 else namespace(e).sum(squares, axis=0)[None, :])


@fused
def left_out_residuals(r: Array, gap: Array) -> tuple[Array, Array, Array]:
    """`e = r / gap`, `e / gap` and `e^2`; leverage gaps are no smaller than rounding."""
    gap = at_least(gap, LEVERAGE_GAP_MIN)
    e = r / gap
    return e, e / gap, e * e


def summed_rows(rows: RowArrays, left: LeftOut) -> tuple[Array, ...]:
    """Arrays as long as the rows, the sums of whose squares `row_sums` has."""
    spread = left.squares if rows.root is None else left.squares / rows.root
    return rows.r.T, left.residuals, left.scaled, spread


def row_sums(rows: RowArrays) -> Array:
    """Sums over the rows, with `omega = 1 / leverage_gap^2`, in one array so that one transfer reads them.

    (3 q + 3,): `sum r^2`, `sum omega r^2` (the leave-one-out squared error, Orr (5.1)) and `sum omega^2 r^2` of each
    output, `sum (omega r^2)^2 / sample_weight` with the outputs added up before squaring, the largest leverage gap, the
    smallest. See `SumPlaces`.
    """
    squares = squared_row_lengths(*summed_rows(rows, left_out(rows)))
    return with_extremes(squares, rows.gap)


def with_extremes(sums: Array, gap: Array) -> Array:
    """The sums of `row_sums` with the extremes of the leverage gap behind them."""
    smallest, largest = extremes(gap)
    return namespace(sums).concat([sums, largest, smallest])


# -- candidates --------------------------------------------------------------------------------------------------------


class TableRows(NamedTuple):
    """Rows of the table of statistics, which has a column for every candidate, for q outputs."""

    c: slice  # `g'P y`, one row for each output
    rv: slice  # `y'P^2 g`, one row for each output
    s: int  # `g'P g`
    vv: int  # `g'P^2 g`
    changing: slice  # all of these, which a term changes
    norms: int  # `|g|^2` of the centred column
    raw: int  # `|g|^2`
    least: int  # vv below which a candidate counts as a linear combination of the chosen ones
    T: int  # the first row of T


@cache
def table_rows(q: int) -> TableRows:
    """Rows of the table for q outputs."""
    s = 2 * q
    return TableRows(slice(q), slice(q, s), s, s + 1, slice(s + 2), s + 2, s + 3, s + 4, s + 5)


class CandidateArrays(NamedTuple):
    """Arrays as long as the candidates."""

    products: Array  # (1, p) memory for `t = G'z`, or columns of `G'G` as more rows than one
    eligible: Array  # (p,)
    table: Array  # statistics in the rows of `TableRows`, and T: (2 q + 5 + capacity, p)


class StatisticsChange(NamedTuple):
    """Coefficients of an update of the statistics, see `State._change`."""

    place: Array  # (1,) of t in T
    row: Array  # (1,) of the candidate's column of `G'G`
    candidate: Array  # (1,)
    length: Array  # (1,)
    mix: Array  # (2, k) coefficients of T: the candidate's part along Z over the length, and `Z'z`
    change: Array  # (2 q + 2, 4) of c, rv, s and vv by each of `CHANGES`


def update(arrays: CandidateArrays, numbers: StatisticsChange) -> None:
    """Update the statistics by a new term, which is no longer eligible."""
    update_statistics(arrays, numbers)
    put_at(arrays.eligible, numbers.candidate, False)


def update_statistics(arrays: CandidateArrays, numbers: StatisticsChange) -> Array:
    """Append a row t to T, update the statistics and return t.

    Unless a pass has computed it, `length t + T'column` is the candidate's column of `G'G`.
    """
    source, eligible, table = arrays
    xp, width, row = namespace(table), numbers.mix.shape[1], table_rows(numbers.change.shape[0] // 2 - 1)
    T = table[row.T :, :]
    linear = numbers.mix @ T[:width, :]
    if source.shape[0] == 1:
        parts = newest_row(source[0, :], None, None, linear[1, :])
    else:
        parts = newest_row(at(source, numbers.row)[0, :], numbers.length, linear[0, :], linear[1, :])
    put_at(T, numbers.place, parts[0][None, :])
    take_off_matmul(table[row.changing, :], numbers.change, xp.stack(parts))
    still_eligible(eligible, table[row.vv, :], table[row.least, :], out=[eligible])
    return parts[0]


@fused
def still_eligible(eligible: Array, vv: Array, least: Array) -> Array:
    """Which candidates do not depend on the chosen ones."""
    return eligible & (vv > least)


@fused
def newest_row(g: Array, length: Array | None, along: Array | None, below: Array) -> tuple[Array, Array, Array, Array]:
    """`t = G'z`, `z'v`, `t^2` and `t z'v`, from t itself or from `G'g`."""
    t = g if length is None else g / length - along
    zv = t - below
    return t, zv, t * t, t * zv
