"""Exact leave-one-out selection in one pass over the data: bound, tighten, verify.

With `beta = c / den`, `omega = 1 / leverage_gap^2` and `u = omega / leverage_gap` a candidate's leave-one-out error is

    e = sum ((r - beta v) / (leverage_gap - v^2 / den))^2
      >= sum omega (r - beta v)^2 + 2 / den sum u (r - beta v)^2 v^2                              (bound 2)
      >= sum omega r^2 - 2 beta (omega r)'v + beta^2 min(omega) v'v                               (bound 1)
      >= sum omega r^2 - 2 beta omega0 r'v - 2 |beta| |(omega - omega0) r| |v|
         + beta^2 min(omega) v'v,  any omega0                                                     (bound 0)

because a term only shrinks the leverage gap, since `1 / (1 - x)^2 >= 1 + 2 x`, and by Cauchy-Schwarz. `v'v` and `r'v`
are among the statistics of the candidates, so that bound 0 needs no pass over the data. It cannot separate candidates
within a few noise variances, many once the signal is fitted. Bound 2 differs from the error by the square of the
leverage, and leaves one or two.

A few candidates are verified exactly for an incumbent; the survivors' bounds are tightened, by bound 2 where directions
are cached (see `loo_bounds`), else by bound 1; the rest is verified in ascending order of its bound until the next
bound exceeds the incumbent. All bounds are differences from the error of the model so far. Several outputs add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    as_float64,
    at,
    at_least,
    less_product,
    namespace,
    put,
    put_at,
    row_blocks,
    row_squares,
    smallest,
    to_host,
)
from termwise._numerics import (
    FLOAT32,
    FLOAT64,
    LEVERAGE_GAP_MIN,
    LOO_BOUND_ULPS,
    LOO_DEVIATION_ROUNDING,
    TIE_TOLERANCE,
)
from termwise.design.file_blocks import BlockReader
from termwise.selection.blocks import PartialSums, Reduced, RowBlock
from termwise.selection.loo_bounds import DirectionCache, LeverageBound, direction_products, directions_of
from termwise.selection.rules import Choice, Rule
from termwise.selection.state import CandidateStats, State
from termwise.selection.updates import RowArrays, sum_places, table_rows

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

EPS = float(np.finfo(FLOAT64).eps)
ROWS_PER_TERM = 400  # with more of them the bound of the leverage is nearly the leverage itself
MANY_COLUMNS = 16  # this share of G takes as long to read, column by column, as all of G row by row
MANY_VERIFIED = 24  # candidates verified at a step that make a pass over the squares of G worthwhile


@dataclass(frozen=True)
class CascadeOptions:
    """When the stages of the cascade start; the choices do not depend on them, only the time."""

    min_verified: int = 4  # candidates verified for the incumbent, where directions are not cached
    tighten_above: int = 32  # survivors for which bound 1 pays, where directions are not cached
    screen_above: int = 4  # survivors for which bound 2 pays, where they are
    many_survivors: float = 1.0  # per cached direction, which make a pass over the squares of G worthwhile
    squares_interval: int = 12  # steps that such a pass serves at least
    cache_slots: tuple[int, int] = (16, 256)  # cached directions, at least and at most


class LooRule(Rule):
    """Smallest leave-one-out squared error after adding the candidate (Pahikkala et al. 2010, Algorithm 2).

    Pahikkala et al. 2010 (5) for the model with a candidate added is `e` of the module's docstring, which `errors_from`
    evaluates.
    """

    name = "loo"
    follows_cost = True
    end = "no candidate is left that has a leave-one-out error and is not a combination of the chosen ones"

    def __init__(self, options: CascadeOptions | None = None) -> None:
        self.options = CascadeOptions() if options is None else options
        self.leverage_bound: LeverageBound | None = None
        self.cache: DirectionCache | None = None
        self.n_survivors, self.age = 0, self.options.squares_interval
        self.ahead: LooBounds | None = None

    def prepare(self, state: State) -> None:
        """Launch the bounds and the first verifications right after the pass, before the host reads anything."""
        if state.rows.device_block is not None and self.leverage_bound is None and not self._many_survive(state):
            self.ahead = LooBounds(state, None, self._batch_size(state) + 1)

    def choose(self, state: State) -> Choice | None:
        """Return exactly the candidate brute force would, verifying as few as the bounds allow."""
        size, extra = self._batch_size(state), self._leverage_bounds(state)
        bounds, self.ahead = self.ahead, None
        if bounds is None or bounds.state is not state:
            bounds = LooBounds(state, extra, size + 1)  # one more, to see whether its bound exceeds the incumbent
        if state.rows.reader is not None:
            bounds.read_columns(state.rows.reader, size)
        assert self.cache is not None
        numbers, errors, lower, best = np.empty(0, dtype=np.intp), np.empty(0), np.empty(0), np.inf
        while True:
            stats, values = bounds.shortlist(size + 1)
            batch = np.flatnonzero((values <= best) & (values < np.inf))[:size]
            exact, bounds.exact = bounds.exact, None
            if exact is not None:
                batch = batch[: len(exact)]
            if not len(batch):
                break
            found = verified_errors(state, stats.take(batch)) if exact is None else exact[batch]
            numbers, errors = np.concatenate([numbers, stats.numbers[batch]]), np.concatenate([errors, found])
            lower, best = np.concatenate([lower, values[batch]]), errors.min()
            if len(batch) == len(values) or values[len(batch)] > best:
                break
            bounds.values = put_at(bounds.values, stats.numbers[batch], np.inf)  # they are verified
            size = min(2 * size, self.cache.capacity)
            if len(numbers) > len(batch):
                continue
            if self.cache.enabled:
                bounds.screen(best, self.cache, self.options.screen_above)
            else:
                bounds.tighten(best, self.options.tighten_above)
        # candidates that fill a batch do not count
        self.n_survivors = max(int(np.count_nonzero(lower <= best)), bounds.n_screened)
        if not best < np.inf:
            return None
        first = numbers[errors <= best * (1 + TIE_TOLERANCE)].min()
        return Choice(int(first), float(errors[numbers == first][0]), len(numbers))

    def _batch_size(self, state: State) -> int:
        """How many candidates to verify at a time."""
        if self.cache is None:
            self.cache = DirectionCache(state, self.options.cache_slots)
        count = state.rows.min_work // int(state.n)
        if self.cache.enabled:  # bound 2 costs less than exact errors
            return max(1, min(self.cache.capacity, count // 4))
        return max(self.options.min_verified, min(self.cache.capacity, count))

    def _leverage_bounds(self, state: State) -> Array | None:
        """Lower bounds of what a candidate's own leverage adds, once many candidates had to be verified."""
        self.age += 1
        if self._many_survive(state) and self.age > self.options.squares_interval:
            self.leverage_bound = self.leverage_bound or LeverageBound(state)
            self.age = 0
        return None if self.leverage_bound is None else self.leverage_bound.lower_bounds(state, self.age == 0)

    def _many_survive(self, state: State) -> bool:
        """Whether a pass over the squares of G pays; its bound weakens as terms per sample grow."""
        if self.cache is None or not self.cache.enabled:  # survivors are verified, which costs more than bound 2
            return self.n_survivors > min(self.options.many_survivors, 1.0) * MANY_VERIFIED
        many = self.options.many_survivors * self.cache.capacity
        return self.n_survivors > many * (1 + (ROWS_PER_TERM * state.k / state.n_rows) ** 2)


# -- bounds 0 and 1 ----------------------------------------------------------------------------------------------------


class BoundNumbers(NamedTuple):
    """Numbers of bound 0."""

    alpha: Array  # (1,)
    two_omega0: Array  # (1,)
    deviation: Array  # (3,) coefficients that make `4 |(omega - omega0) r|^2` of the sums over the rows
    lengths: Array  # (q, 1) of the targets
    rounding: Array  # (1,) share of the lengths of both vectors by which products with G are off


class LooBounds:
    """Lower bounds of the errors of all candidates, infinite for those that are excluded or have been verified.

    They depend on the rows only through sums over all of them. A device verifies the first few in the same launch.
    """

    exact: Floats | None = None  # errors of the first of the shortlist, if they were verified already
    n_screened = 0  # candidates whose bound 2 was computed

    def __init__(self, state: State, extra: Array | None = None, count: int = 1) -> None:
        self.state, block, launcher = state, state.rows.device_block, state.rows.launcher
        moments = state.last_moments if block is not None and state.last_moments else state.moments
        omega0 = moments.omega0  # any is valid, and that of the moments last read needs no wait for the device
        deviation = np.array([4 * omega0 * omega0, -8 * omega0, 4 * (1 + LOO_DEVIATION_ROUNDING)])
        centred = np.maximum(state.yy - np.sum(state.zy[: state.intercept] ** 2, axis=0), 0.0)
        rounding = LOO_BOUND_ULPS * float(np.finfo(state.rows.dtype).eps)
        alpha, two_omega0, share = (np.array([number]) for number in (state.alpha, 2 * omega0, rounding))
        numbers = BoundNumbers(alpha, two_omega0, deviation, centred[:, None] ** 0.5, share)
        count = min(count, state.rows.n_candidates)
        arrays = (count, state.eligible, state.sums, state.table)
        if block is None or extra is not None:
            self.values, self.beta, self.size, *_, self.found = launcher.launch(bound_candidates, arrays, numbers)
        else:
            sizes = (2 + state.table.shape[0]) * count, 2 * max(1, count - 1), state.sums.shape[0]
            launched = launcher.launch(bound_and_verify, (block.arrays, *arrays), numbers, read=sum(sizes))
            self.values, self.beta, self.size, host = launched
            found, verified, sums = np.split(host, np.cumsum(sizes[:2]))
            errors, gaps = verified.reshape(2, -1)
            self.exact, self.found = np.where(gaps < LEVERAGE_GAP_MIN, np.inf, errors), found.reshape(-1, count)
            state.set_moments(sums)
        if extra is not None:
            self.values, self.found = self.values + extra, None
        self.floor = float(state.moments.loo_sse.sum()) * (1 - LOO_BOUND_ULPS * EPS)

    def shortlist(self, count: int) -> tuple[CandidateStats, Floats]:
        """Return the statistics of the candidates with the smallest bounds, and these bounds."""
        if self.found is None:
            places, values = smallest(self.values, count)
            stats, (values,) = self.state.fetch_candidates(places, values)
            return stats, self.floor + values
        found, self.found = to_host(self.found), None
        return self.state.set_candidates(found[0], found[2:]), self.floor + found[1]

    def read_columns(self, reader: BlockReader, count: int) -> None:
        """Cache the columns of the candidates with the smallest bounds, `count` of which are verified next.

        If a file must be read for these, the same pass serves the other stages of the cascade, and the term itself.
        """
        places, values = smallest(self.values, min(len(reader.owners), len(self.values)))
        places = places[values < np.inf]
        reader.suggest(places, keep=True)
        if not all(reader.holds(j) for j in places[:count].tolist()):
            self.state.gram.read_ahead(self.state, int(places[0]))

    def tighten(self, best: float, threshold: int) -> None:
        """Replace bound 0 by bound 1 for candidates that may be better than the best, if they are many."""
        alive = self._alive(best)
        if len(alive) > threshold:
            many = MANY_COLUMNS * len(alive) > self.values.shape[0]  # then a pass is faster than reading their columns
            along, through = self.state.rows.reduce(weighted_residual_products, None if many else alive)
            along = (at(along, alive) if many else along) - at(self.state.T, alive, axis=1).T @ through
            beta, size = at(self.beta, alive, axis=1), at(self.size, alive, axis=1)
            tight = sum_outputs(self.state.moments.gap**-2 * size * size - 2 * beta * along.T)
            self.values = put_at(self.values, alive, tight)

    def screen(self, best: float, cache: DirectionCache, threshold: int) -> None:
        """Replace bound 0 by bound 2 for candidates that may be better than the best, unless they are few.

        Sums are of directions in float32, as shares of `|g|`: their products are off by a share of the lengths of both
        vectors. `beta^2 sum u v^4`, which only adds to the error, is left out.
        """
        alive = self._alive(best)
        if len(alive) > cache.capacity + len(self.values) // MANY_COLUMNS:
            self.tighten(best, cache.capacity)
            alive = self._alive(best)
        if len(alive) <= threshold:
            return
        state, values, q = self.state, self.values, self.beta.shape[0]
        rounding = LOO_BOUND_ULPS * float(np.finfo(FLOAT32).eps)
        lengths = state.sums[sum_places(q).second, None] ** 0.5
        order, self.n_screened = alive[np.argsort(values[alive], kind="stable")], len(alive)
        for start in range(0, len(order), cache.capacity):
            batch = order[start : start + cache.capacity]
            plan = cache.plan(batch, state.T[:, batch], state)
            along, energy, skew = state.rows.reduce(direction_products, plan)
            beta, size = self.beta[:, batch] / cache.scale[batch], self.size[:, batch]
            den, v = state.den[batch] * cache.scale[batch] ** 2, state.vv[batch] ** 0.5 * cache.scale[batch]
            skew = 2 * beta * skew
            own = energy - skew.sum(axis=0) - rounding / v * (energy + np.abs(skew).sum(axis=0))
            first = state.moments.gap**-2 * (size * size - rounding * beta * beta)
            first -= 2 * (beta * along + rounding * np.abs(beta) * lengths)
            values[batch] = np.maximum(values[batch], first.sum(axis=0) + 2 / den * np.maximum(own, 0.0))

    def _alive(self, best: float) -> Indices:
        """Candidates that may be better than the best."""
        values = to_host(self.values)
        return np.flatnonzero(np.isfinite(values) & (self.floor + values <= best))


def bound_candidates(
    count: int, eligible: Array, sums: Array, table: Array, numbers: BoundNumbers
) -> tuple[Array, ...]:
    """Bound 0 of all candidates, less `sum omega r^2`; then `beta`, `|beta| |v|` and den.

    Products with G are off by a share of the lengths of both vectors, `|g|` and at most `|y|`, whatever is left of them
    beside the model, and `beta^2 v'v` by a share of `beta^2 |g|^2`. Bound 0 allows for that. It is a difference from
    `sum omega r^2`, whose own rounding is that of float64: what a term changes is 1/n of that sum, less than its
    rounding in float32.

    Last are the places of the smallest bounds, and these bounds with the statistics of the candidates there.
    """
    xp, q, excluded = namespace(table), sums.shape[0] // 3 - 1, ~eligible
    place, row = sum_places(q), table_rows(q)
    slope = at_least(numbers.deviation @ xp.reshape(sums[place.moments], (3, q)), 0.0) ** 0.5
    omega_min = at_least(sums[place.largest_gap : place.smallest_gap], LEVERAGE_GAP_MIN) ** -2
    den = put(numbers.alpha + table[row.s, :], excluded, 1.0)
    beta = table[row.c, :] / den
    size = xp.abs(beta) * at_least(table[row.vv, :], 0.0) ** 0.5
    drop = numbers.two_omega0 * beta
    losses = less_product(size * (omega_min * size - slope[:, None]), drop, table[row.rv, :])
    g = table[row.raw, :] ** 0.5
    losses = less_product(losses, xp.abs(drop) * (numbers.rounding * g), numbers.lengths + xp.abs(beta) * g)
    bound = put(sum_outputs(losses), excluded, np.inf)
    places, least = smallest(bound, count)
    found = xp.concat([as_float64(places)[None, :], least[None, :], at(table, places, axis=1)])
    return bound, beta, size, den, places, found


def sum_outputs(values: Array) -> Array:
    """Sum over the outputs, which are rows."""
    return values[0, :] if values.shape[0] == 1 else namespace(values).sum(values, axis=0)


def bound_and_verify(
    rows: RowArrays, count: int, eligible: Array, sums: Array, table: Array, numbers: BoundNumbers
) -> tuple[Array, Array, Array, Array]:
    """`bound_candidates`, the errors of the candidates with the smallest bounds but the last, and the sums."""
    bound, beta, size, den, places, found = bound_candidates(count, eligible, sums, table, numbers)
    xp, few, first = namespace(found), places[: max(1, count - 1)], 2 + table_rows(rows.r.shape[1]).T
    T = found[first : min(first + rows.Zt.shape[0], found.shape[0]), : few.shape[0]]
    verified = direct_errors(rows, Batch(at(beta, few, axis=1)[:, :, None], at(den, few)[:, None], few, T))
    parts = [xp.reshape(part, (-1,)) for part in (found, verified.values, sums)]
    return bound, beta, size, xp.concat(parts)


def weighted_residual_products(block: RowBlock, candidates: Indices | None) -> PartialSums:
    """`G'(omega r)`, (candidates, q), and `Z'(omega r)`, (k, q), on the rows of a block; None means all candidates."""
    wr = block.r * (at_least(block.gap, LEVERAGE_GAP_MIN) ** -2)[:, None]
    direct = block.products(wr) if candidates is None else block.columns(candidates).T @ wr
    return PartialSums((direct, block.Z.T @ wr))


# -- exact errors ------------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Candidates to verify."""

    beta: Array  # (q, m, 1)
    den: Array  # (m, 1)
    candidates: Array  # (m,)
    T: Array  # (k, m)


def verified_errors(state: State, few: CandidateStats) -> Floats:
    """Exact leave-one-out squared error of the model with each of a few candidates added; infinite if undefined."""
    den = state.alpha + few.s
    found = state.rows.reduce(verify, few.numbers, few.T, few.c / den, den)
    errors, gaps = to_host(found.values)[:, : len(den)]
    return np.where(gaps < LEVERAGE_GAP_MIN, np.inf, errors)


def verify(block: RowBlock, candidates: Indices, T: Floats, beta: Floats, den: Floats) -> Reduced:
    """Leave-one-out squared errors of a few candidates on the rows of a block."""
    if isinstance(block.Y, np.ndarray):
        V = directions_of(block, candidates, T)
        return errors_from(lambda rows: V[:, rows], block.arrays, beta[:, :, None], den[:, None])
    size = 1 << max(2, len(den) - 1).bit_length() if block.launcher.fixed_shapes else len(den)  # few shapes to capture
    padded = np.minimum(np.arange(size), len(den) - 1)
    batch = Batch(beta[:, padded, None], den[padded, None], candidates[padded], block.pad(T)[:, padded])
    return block.launcher.launch(direct_errors, (block.arrays,), batch)


def direct_errors(arrays: RowArrays, batch: Batch) -> Reduced:
    """Errors of candidates whose directions `V = G_B - Z T_B` are computed tile by tile."""
    Zt = arrays.Zt[: batch.T.shape[0], :]

    def directions(rows: slice) -> Array:
        V = arrays.G.columns(batch.candidates, rows)
        V = V if arrays.root is None else V * arrays.root[rows, None]
        V -= Zt[:, rows].T @ batch.T
        return V.T

    return errors_from(directions, arrays, batch.beta, batch.den)


def errors_from(directions: Callable[[slice], Array], arrays: RowArrays, beta: Array, den: Array) -> Reduced:
    """Squares of `(r - beta v) / (leverage_gap - v^2 / den)` added up, tile by tile, and the smallest leverage gaps.

    Pahikkala et al. 2010 (5), with a candidate added.
    """
    r, xp, errors, gaps, part = arrays.r, namespace(arrays.r), [], [], 1 / den
    for rows in row_blocks(r.shape[0], 4 * den.shape[0], r):
        V = directions(rows)
        left = less_product(arrays.gap[rows], V, V * part if arrays.root is None else V * part * arrays.share[rows])
        gaps.append(xp.min(left, axis=1))
        for i in range(r.shape[1]):
            error = less_product(r[rows, i], V, beta[i, :, :])
            with np.errstate(divide="ignore", invalid="ignore"):  # of an undefined error
                error /= left
            errors.append(row_squares(error))
    least = gaps[0] if len(gaps) == 1 else xp.min(xp.stack(gaps), axis=0)
    return Reduced(xp.stack([sum(errors[1:], start=errors[0]), least]), ("minimum",))
