"""Statistics of a growing model and of all candidates: O(k p) numbers, independent of the number of rows.

With `v = P g` for a candidate g (P of the model so far, the penalty included) the statistics are

    c = g'P y    s = g'P g    vv = v'v = g'P^2 g    rv = r'v = y'P^2 g    den = alpha + s

and adding the candidate changes `r` by `-v c / den`, the leverage gap by `-v^2 / den`, dof by `vv / den` and the cost
by `-c^2 / den` (Orr (7.5) to (7.7)). A new `z = v / sqrt(alpha + s)` with `t = G'z` updates them in O(p k):

    c -= t z'y    s -= t^2    vv -= 2 t z'v - t^2 z'z    rv -= t z'r + (z'y) z'v - (z'y) t z'z

where `z'v = t - (Z'z)'T`. With `penalty="orthogonal"` (Orr, section 7.3) the columns of Z are orthonormal whatever
alpha is, v is orthogonal to all of them, `vv = s` and `rv = c`.

The augmented columns `[Z; B]`, `B = sqrt(alpha) R^-1`, are orthonormal: a new column is orthogonalised against them by
Gram-Schmidt, twice if the first pass removed most of it, and `Z'z = -B'b`, b being the new column of B, costs no pass
over the data.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    as_float64,
    as_type,
    at,
    at_least,
    column_squares,
    copied,
    empty,
    fetch,
    from_host,
    is_foreign,
    namespace,
    put,
    put_at,
    send,
    to_host,
    zeros,
)
from termwise._checks import warn
from termwise._numerics import (
    CANCELLATION_SHARE,
    DEPENDENT_CANDIDATE,
    DEPENDENT_COLUMN,
    DEPENDENT_COLUMN_FLOAT32,
    DEPENDENT_RESIDUAL,
    EQUAL_ENTRIES_ULPS,
    FEW_DIGITS,
    FLOAT64,
    GRAM_SHARE,
    LEVERAGE_GAP_MIN,
    NEGLIGIBLE_PENALTY,
    OFFSET_SHARE,
    REORTHOGONALISE_BELOW,
    RESIDUAL_SHARE,
    ROUNDING_SHARE,
    SMALLEST_NORMAL,
)
from termwise.selection.blocks import INTERCEPT, Executor, GramCost, Reduced, RowBlock
from termwise.selection.gram import GramColumns
from termwise.selection.path import ModelRows, Training
from termwise.selection.updates import (
    BY_T,
    BY_T2,
    BY_T_ZV,
    BY_ZV,
    CHANGES,
    CandidateArrays,
    NewColumn,
    StatisticsChange,
    step,
    sum_places,
    table_rows,
    update,
)

if TYPE_CHECKING:
    from termwise.selection.engine import Settings
    from termwise.selection.run_ahead import RunAhead, TakenTerm

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

T_RESERVE = 64  # rows of T that memory is extended by, at least
RESIDUAL_BATCH = 256  # candidates whose residual vectors are computed in the same passes over the data


class RowMoments(NamedTuple):
    """`updates.row_sums` of all rows, on the host."""

    rr: Floats  # (q,) sum r^2
    loo_sse: Floats  # (q,) sum omega r^2, omega = 1 / leverage_gap^2
    spread: float
    gap: float  # largest leverage gap
    omega0: float  # sum omega r^2 / sum r^2
    undefined: bool  # whether some sample has leverage 1


class CandidateStats(NamedTuple):
    """Statistics of a few candidates, on the host: one column each."""

    numbers: Indices
    c: Floats  # (q, m)
    rv: Floats  # (q, m)
    s: Floats
    vv: Floats
    norms: Floats
    raw: Floats  # squared length, not centred
    least: Floats  # vv below which it counts as a linear combination of the chosen ones
    T: Floats  # (k, m)

    def take(self, places: Any) -> CandidateStats:
        """Some of them, by their places here."""
        return CandidateStats(*(part[..., places] for part in self))  # type: ignore[arg-type]


class State:
    """Statistics of all candidates and the factors of the model; the rows are wherever the executor has them.

    Arrays as long as the candidates live where the rows live, the statistics as rows of one table, so that a term
    updates them by one product. Those as long as the model (R, B, zy) are small and stay on the host.
    """

    prefetches = False  # whether columns of likely candidates are cached during the pass of a new term
    follows_cost = False  # whether the rule mostly chooses as "cost" does
    run_ahead: RunAhead | None = None  # if a device takes terms ahead of the host
    _taken: TakenTerm | None = None  # the newest term, if a device took it

    def __init__(self, rows: Executor, settings: Settings) -> None:
        self.rows, self.orthogonal, self.constraints = rows, settings.penalty == "orthogonal", settings.constraints
        self.alpha = 0.0 if settings.alpha == "reestimate" else float(settings.alpha)
        self._dependent: list[int] = []  # candidates that turned out to depend on the chosen ones
        self.tol = DEPENDENT_CANDIDATE if rows.dtype == np.float64 else DEPENDENT_COLUMN_FLOAT32
        self.n, self.n_rows, self.nbytes, self.yy = rows.reduce(RowBlock.sizes)
        self.q, self.k, self.row_of = rows.n_outputs, 0, table_rows(rows.n_outputs)
        self.R, self.B, self.zy = np.empty((0, 0)), np.empty((0, 0)), np.empty((0, self.q))
        self.filter_factors = np.empty(0)
        self.chosen: list[int] = []
        self.rebuilt = 0  # how often the model's columns were replaced
        self.last_moments: RowMoments | None = None  # as they were last read
        self._moments_read = False  # since the last change of the model
        self._fetched: CandidateStats | None = None
        self.scores: Array | None = None  # by which the rule has ranked the candidates for the next term, if it has
        self.sums: Array = None  # over the rows, as `updates.row_sums` has them, where the rows are
        self.intercept, self.dof, self.cost = int(settings.fit_intercept), 0.0, float(self.yy.sum())
        if self.intercept:  # the column of ones, unpenalised
            nothing = np.empty(0)
            xx, c = fetch(*rows.reduce(RowBlock.orthogonalise, INTERCEPT, nothing)[:2])
            length = float(np.sqrt(xx[0]))
            scales = np.array([length, length**2])
            column = NewColumn(np.array([0]), scales, c / length**2, np.array([INTERCEPT]), nothing)
            self._store_sums(rows.reduce(RowBlock.append, column, False, None)[1])
            self._extend_factors(nothing, nothing, c, length**2, scales, alpha=0.0)
        else:
            self._store_sums(rows.reduce(RowBlock.sums))
        precompute = np.asarray(settings.precompute).item()  # a number, truth value or string of Python
        automatic = rows.gram_cost if precompute == "auto" else GramCost()
        cost = automatic if isinstance(precompute, bool | str) else GramCost(precompute, 0.0)
        self.gram = GramColumns(rows.n_candidates, cost, settings.max_terms)
        self._set_up_candidates(precompute is True or self.gram.whole_pays(0), settings.min_norm)

    def _set_up_candidates(self, precompute: bool, min_norm: float) -> None:
        """Statistics of the model without terms, from centred columns: differences of raw sums would cancel.

        Where the mean of a column is so large beside its standard deviation that products with it lose digits, it is
        replaced by its differences from the mean, and its statistics are computed again.
        """
        raw, along, gram = self._initial_products(precompute)
        xp, dtype = namespace(raw), self.rows.dtype
        offset = self.norms < OFFSET_SHARE[dtype] * raw
        if self.intercept and bool(xp.any(offset)):
            shift = as_float64(as_type(put(self.means, ~offset, 0.0), dtype))
            self.rows.reduce(RowBlock.subtract, shift)
            self.rows.shift = shift if self.rows.shift is None else self.rows.shift + shift
            raw, along, gram = self._initial_products(precompute)
        if precompute:
            self.gram.set_whole(gram)
        self._set_table(zeros((self.row_of.T + T_RESERVE, raw.shape[0]), raw))
        self.c0 = along[:, self.k :]
        self.T[...] = along[:, : self.k].T
        given = raw if self.rows.shift is None else self.norms + self.n * (self.means + self.rows.shift) ** 2
        rounding = ROUNDING_SHARE[dtype] ** 2 * given
        self._least, self._least_residual = (
            at_least(xp.where(share * self.norms > rounding, share * self.norms, rounding), min_norm)
            for share in (self.tol, DEPENDENT_RESIDUAL)
        )
        self._table[self.row_of.norms, :], self._table[self.row_of.raw, :] = self.norms, raw
        self._varying = self.norms > rounding
        equal = (EQUAL_ENTRIES_ULPS * float(np.finfo(dtype).eps)) ** 2 * raw
        few = (self.norms <= FEW_DIGITS**2 * rounding) & (self.norms > equal)
        self.unresolved = np.flatnonzero(to_host(few))
        self.eligible, self._t = self._varying, empty((1, raw.shape[0]), raw)
        self._set_statistics(self.c0, self.c0, self.norms, self.norms)

    def _initial_products(self, precompute: bool) -> tuple[Array, Array, Array]:
        """Squared norms, products with the model and the targets, and `G'G`; also store means and centred norms."""
        raw, along, gram = self.rows.reduce(RowBlock.initial_products, precompute)
        self.means, self.norms = 0 * raw, raw
        if self.intercept:
            self.means = along[:, 0] / float(np.sqrt(self.n))
            self.norms = raw - self.n * self.means**2
            if bool(namespace(raw).any(self.norms < CANCELLATION_SHARE[self.rows.dtype] * raw)):
                self.norms = self.rows.reduce(RowBlock.power_sums, 2, self.means)
        return raw, along, gram

    # -- statistics ----------------------------------------------------------------------------------------------------

    def _set_table(self, table: Array) -> None:
        """Store the table and views of its rows."""
        row, self._table = self.row_of, table
        self.c, self.rv = table[row.c, :].T, table[row.rv, :].T  # (p, q)
        self.s, self.vv, self._least_vv = table[row.s, :], table[row.vv, :], table[row.least, :]  # (p,)

    @property
    def table(self) -> Array:
        """Statistics and T, as many rows as launches read."""
        whole = self.rows.launcher.fixed_shapes
        return self._table if whole else self._table[: self.row_of.T + self.k, :]

    @property
    def T(self) -> Array:
        """`Z' G`."""
        return self._table[self.row_of.T : self.row_of.T + self.k, :]

    @property
    def den(self) -> Array:
        """`alpha + s` of every candidate; one where it is excluded."""
        return put(self.alpha + self.s, ~self.eligible, 1.0)

    @property
    def _shrinking_penalty(self) -> float:
        """`alpha` as it enters P: zero with `penalty="orthogonal"`, where Z is orthonormal."""
        return 0.0 if self.orthogonal else self.alpha

    @property
    def usable(self) -> Array:
        """Former name of `eligible`."""
        warn("state.usable is deprecated: use state.eligible.", FutureWarning)
        return self.eligible

    @property
    def sse(self) -> float:
        """Sum of squared errors, over all outputs."""
        return float(self.moments.rr.sum())

    @property
    def moments(self) -> RowMoments:
        """Sums over the rows; read from the device at the first access after a change of the model."""
        if self.last_moments is None or not self._moments_read:
            return self.set_moments(np.array(to_host(self.sums)))
        return self.last_moments

    def set_moments(self, sums: Floats) -> RowMoments:
        """Store the sums over the rows, which may have been read together with something else."""
        place = sum_places(self.q)
        rr, loo_sse, (spread, largest, least) = sums[place.sse], sums[place.loo_sse], sums[place.spread :].tolist()
        omega0 = float(loo_sse.sum()) / max(float(rr.sum()), SMALLEST_NORMAL)
        gap, undefined = max(largest, LEVERAGE_GAP_MIN), least < LEVERAGE_GAP_MIN
        self.last_moments, self._moments_read = RowMoments(rr, loo_sse, spread, gap, omega0, undefined), True
        return self.last_moments

    def fetch_candidates(self, candidates: Array, *values: Array) -> tuple[CandidateStats, list[Floats]]:
        """Read the statistics of a few candidates, which `append` will use, and more values, all in one transfer."""
        places = from_host(candidates, self.s)
        numbers, columns, *rest = fetch(as_float64(places), at(self.table, places, axis=1), *values)
        return self.set_candidates(numbers, columns), rest

    def set_candidates(self, numbers: Floats, columns: Floats) -> CandidateStats:
        """Store the statistics of a few candidates: their columns of `table`."""
        row = self.row_of
        s, vv, norms, raw, least = columns[row.s : row.T]
        self._fetched = CandidateStats(
            numbers.astype(np.intp), columns[row.c], columns[row.rv], s, vv, norms, raw, least,
            T=columns[row.T : row.T + self.k],
        )  # fmt: skip
        return self._fetched

    # -- one more term -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Update which candidates the constraints admit; `append` has updated all other statistics already."""
        if self.constraints is None:
            return
        first, excluded = self.intercept, np.array(self.chosen + self._dependent, dtype=np.intp)
        independent = put_at(copied(self._varying), excluded, False) & (self.vv > self._least_vv)
        den = put(self.alpha + self.s, ~independent, 1.0)
        c, den, T = fetch(self.c, den, self.T[first:, :])
        model = self.R[first:, first:], (self.filter_factors[:, None] * self.zy)[first:], T
        admitted = self.constraints.eligible(self.chosen, c, den, *model)
        self.eligible[...] = independent & from_host(admitted, independent)

    def append(self, j: int) -> bool:
        """Append candidate j to the model; False, and nothing done, if it turns out to depend on the others."""
        self._taken = None if self.run_ahead is None else self.run_ahead.hand_over(j)
        if self._taken is not None:
            self._append_taken(self._taken)
            return True
        stats = self._fetched
        if stats is None or j not in stats.numbers:
            stats = self.fetch_candidates(np.array([j]))[0]
        one = stats.take(np.flatnonzero(stats.numbers == j)[0])
        fetched = self.gram.plan_pass(self, j, one)
        column, below = one.T.copy(), -self.B @ one.T
        direct = bool(one.vv > REORTHOGONALISE_BELOW * one.norms)  # then the statistics have all digits of G
        if not direct:
            xx, xy, xr, zx = fetch(*self.rows.reduce(RowBlock.orthogonalise, j, column))
            if xx[0] < REORTHOGONALISE_BELOW * one.norms:
                again = zx + below @ self.B
                below -= self.B @ again
                column += again
                xx, xy, xr, zx = fetch(*self.rows.reduce(RowBlock.orthogonalise, None, again))
            one = one._replace(vv=xx[0], c=xy, rv=xr, T=zx)
            if one.vv <= one.least:
                self.eligible[j] = False
                self._recompute_below[j] = -np.inf
                self._dependent.append(j)
                return False
        self._append(one, column, below, direct, fetched)
        self.chosen.append(j)
        self._recompute_below[j] = -np.inf
        self._compute_residuals()
        return True

    def _compute_residuals(self) -> None:
        """Compute `v = P g` itself, and the statistics from it, of candidates nearly collinear with the selected terms.

        Statistics start from `g'g`, whose rounding is large beside 1e-10 of it. Those from v have the digits of g and
        keep them through the changes by later terms, until v is again much shorter. In float32 and on devices this is
        not done, and more candidates count as dependent.
        """
        least = self._least_vv
        if is_foreign(self.s) or self.rows.dtype != np.float64:
            return
        found = np.flatnonzero(self.vv <= self._recompute_below)
        for places in (found[i : i + RESIDUAL_BATCH] for i in range(0, len(found), RESIDUAL_BATCH)):
            T = self.T[:, places]
            again = self.rows.reduce(RowBlock.residual_products, places, T)[3] - self.B.T @ (self.B @ T)
            T = T + again
            vv, c, rv, _ = self.rows.reduce(RowBlock.residual_products, places, T)
            s = vv + column_squares(self.B @ T)
            self._table[self.row_of.changing, places] = np.vstack([c.T, c.T if self.orthogonal else rv.T, s, vv])
            # a copy of a chosen column keeps (alpha / g'g)^2, which must not admit it
            copies = self.tol * (self._shrinking_penalty / NEGLIGIBLE_PENALTY) ** 2 / self.norms[places]
            self.T[:, places], least[places] = T, np.maximum(self._least_residual[places], copies)
            self._recompute_below[places] = np.where(vv > least[places], RESIDUAL_SHARE * vv, -np.inf)
            self.eligible[places] = vv > least[places]

    def keeps_digits(self, one: CandidateStats, square: float) -> bool:
        """Whether products of a new column of this squared length can be computed from `G'G` without losing digits.

        On a device all of `G'G` is in float64, whatever the type of G.
        """
        double = self.gram.whole is not None and is_foreign(self.s)
        return bool(square >= GRAM_SHARE[FLOAT64 if double else self.rows.dtype] * one.raw)

    def _append(
        self, one: CandidateStats, column: Floats, below: Floats, direct: bool, fetched: Indices | None
    ) -> None:
        """Append the part `[x; below]` of a candidate orthogonal to `[Z; B]`, and update all statistics.

        The rest is `[Z; B] column`; `one` has `vv = x'x`, `c = x'Y` and `rv = x'r`. Unless `direct` the blocks hold x.
        The pass over the data, if any, also computes columns of `G'G`, those of the candidates `fetched`.
        """
        vv, c = float(one.vv), one.c
        s = vv + float(below @ below)
        den = self.alpha + s
        length = float(np.sqrt(s if self.orthogonal else den))
        if fetched is None and not self.keeps_digits(one, length**2):
            fetched = self.gram.owners[:0]
        self.rows.passes += fetched is not None
        change = self._change(one, column, below / length, length)
        arrays = CandidateArrays(self.gram.values if fetched is None else self._t, self.eligible, self._table)
        new = NewColumn(change.place, np.array([length, den]), c / den, change.candidate, column)
        block = self.rows.device_block
        if direct and block is not None and (fetched is None or not len(fetched)):
            block.reserve_column()
            new = new._replace(amounts=block.pad(column))
            self.rows.launcher.launch(step, (block.arrays, arrays, self.sums), new, change)
            block.k, self._moments_read = block.k + 1, False
        else:
            products, sums = self.rows.reduce(RowBlock.append, new, direct, fetched)
            if fetched is not None:
                self._t[0, :] = products[0, :]
                self.gram.store(fetched, products[1:, :])
            self._store_sums(sums)
            self.rows.launcher.launch(update, (arrays,), change)
        self._fetched = self.scores = None
        self._extend_factors(column, below, c, vv, new.scales, self.alpha)

    def _append_taken(self, term: TakenTerm) -> None:
        """Append a term to the factors; the rows and the statistics of all candidates have it already."""
        column, block = term.amounts[: self.k], self.rows.device_block
        self._extend_factors(column, -self.B @ column, term.c, term.vv, term.scales, self.alpha)
        self.set_moments(term.sums)
        assert block is not None
        block.k += 1
        self.rows.passes += self.gram.whole is None
        self._fetched = self.scores = None
        self.chosen.append(term.candidate)

    @property
    def candidates(self) -> CandidateArrays:
        """Arrays as long as the candidates; t comes from a pass over the data unless there is all of `G'G`."""
        whole = self.gram.whole
        return CandidateArrays(self._t if whole is None else whole, self.eligible, self._table)

    def reserve_terms(self, count: int) -> None:
        """Extend the memory of T, if it is for fewer than `count` columns of the model."""
        rows = self._table.shape[0] - self.row_of.T
        if rows < count:
            more = zeros((max(T_RESERVE, count - rows, rows), self._table.shape[1]), self._table)
            self._set_table(namespace(more).concat([self._table, more]))
            self.rows.launcher.captured.clear()

    def _change(self, one: CandidateStats, column: Floats, b: Floats, length: float) -> StatisticsChange:
        """Coefficients of `update`: changes linear in t, in `z'v = t - (Z'z)'T`, in t^2 and in `t z'v`.

        Without a pass over the data `t = G'z` comes from `G'G`: `z = (g_j - Z column) / length`.
        """
        k, row = self.k, self.row_of
        self.reserve_terms(k + 1)
        zy, zr, zz = one.c / length, one.rv / length, float(one.vv) / length**2
        width = self.table.shape[0] - row.T
        mix, change = np.zeros((2, width)), np.zeros((row.changing.stop, len(CHANGES)))
        mix[0, :k], mix[1, :k] = column / length, -b @ self.B
        change[row.c, BY_T], change[row.s, BY_T2] = zy, 1
        if self.orthogonal:
            change[row.rv, BY_T], change[row.vv, BY_T2] = zy, 1
        else:
            change[row.rv, BY_T], change[row.rv, BY_ZV] = zr - zz * zy, zy
            change[row.vv, BY_T2], change[row.vv, BY_T_ZV] = -zz, 2
        j = int(one.numbers)
        slot = np.array([self.gram.slot[j]])
        return StatisticsChange(np.array([k]), slot, np.array([j]), np.array([length]), mix, change)

    def _extend_factors(
        self, column: Floats, below: Floats, c: Floats, vv: float, scales: Floats, alpha: float
    ) -> None:
        """Append the newest column to R, B and all that is as long as the model."""
        length, den = scales.tolist()
        penalised = 0 if self.orthogonal or not alpha else 1
        m, k = self.B.shape
        B, R = np.zeros((m + penalised, k + 1)), np.zeros((k + 1, k + 1))
        B[:m, :k], B[:m, k], B[m:, k] = self.B, below / length, np.sqrt(alpha) / length
        R[:k, :k], R[:k, k], R[k, k] = self.R, column, length
        self.B, self.R, self.k = B, R, self.k + 1
        self.zy = np.vstack([self.zy, c / length])
        self.filter_factors = np.append(self.filter_factors, length**2 / den)
        self.dof += vv / den
        self.cost -= float(np.sum(c * c) / den)

    def correlations(self, n_newest: int) -> Floats:
        """Mean squared correlation of each of the newest terms with the other candidates, given the model before it.

        Before a term a candidate had the residual square `s + sum of t^2` over this term and those after it, of which
        the first `t^2` lies along the new z.
        """
        if self._taken is not None and self._taken.correlation is not None and n_newest == 1:
            return np.array([self._taken.correlation])
        ahead = 0 if self.run_ahead is None else self.run_ahead.finish(self)  # terms that a device has taken since
        first = self.row_of.T + self.k - n_newest
        xp, T = namespace(self.s), self._table[first : first + n_newest + ahead, :]
        t2, later = T * T, from_host(np.triu(np.ones((n_newest, n_newest + ahead))), self.s)
        before, t2 = self.s + as_type(later, t2.dtype) @ t2, t2[:n_newest, :]
        chosen = from_host(np.array(self.chosen[-n_newest:]), self.s)[:, None]
        numbers = from_host(np.arange(t2.shape[1]), self.s)[None, :]
        others = (before > self._least_vv) & (numbers != chosen)
        shares = put(t2 / put(before, ~others, 1.0), ~others, 0.0)
        total, count = fetch(xp.sum(shares, axis=1), xp.sum(as_float64(others), axis=1))
        return total / np.maximum(count, 1.0)

    # -- the model -----------------------------------------------------------------------------------------------------

    def training(self, rows: ModelRows | None = None) -> Training:
        """The chosen columns `G_S = Z R`, less their part along the intercept."""
        first, n = self.intercept, np.sqrt(self.n)
        G_mean, Y_mean = self.R[:first, first:].sum(axis=0) / n, self.zy[:first].sum(axis=0) / n
        if self.rows.shift is not None:
            G_mean += to_host(at(self.rows.shift, np.array(self.chosen, dtype=np.intp)))
        shrunk = (self.filter_factors[:, None] * self.zy)[first:]
        if rows is None:
            return Training(self.R[first:, first:], G_mean, Y_mean, shrunk)
        Y = rows.Y - rows.ones[:, None] * from_host(Y_mean, rows.Y) if first else rows.Y
        Z = rows.Z[:, first:]
        return Training(self.R[first:, first:], G_mean, Y_mean, shrunk, rows, Z, Y, rows.sample_weight)

    def set_alpha(self, alpha: float) -> None:
        """Change the penalty of all terms: P must be rebuilt, but `G'G_S = T'R` costs no pass over the data.

        Every block orthogonalises its own rows of the chosen columns; their small factors, and the penalties, are
        orthogonalised here.
        """
        before, self.alpha, first = self.R, alpha, self.intercept
        penalties = np.append(np.zeros(first), np.full(len(self.chosen), alpha))
        Rs, QYs = zip(*self.rows.map(RowBlock.factor, np.array(self.chosen, dtype=np.intp), first), strict=True)
        Q, R = np.linalg.qr(np.vstack([*Rs, np.diag(np.sqrt(penalties))]))
        signs = np.copysign(1.0, np.diagonal(R))  # the intercept's column stays positive
        Q, self.R = Q * signs, signs[:, None] * R
        *parts, B = np.split(Q, np.cumsum([len(R) for R in Rs]))
        self.B = B[first:]
        self.zy = sum(part.T @ QY for part, QY in zip(parts, QYs, strict=True))
        leverage, zr, zz, sums = self.rows.reduce(RowBlock.replace_columns, self.zy, first, parts=parts)
        turn, zy = send(self.s, sla.solve_triangular(self.R, before.T, trans="T"), self.zy[first:])
        self.T[...] = turn @ self.T
        T = self.T[first:, :]
        squares = column_squares(T)
        c, s = self.c0 - T.T @ zy, self.norms - squares
        vv = s - squares + namespace(T).sum(T * (zz @ T), axis=0)
        self._set_statistics(c, c - T.T @ zr, s, vv)
        self.dof, self.cost = float(fetch(leverage)[0][0]), float(self.yy.sum() - np.sum(self.zy**2))
        self._store_sums(sums)
        self.rebuilt += 1

    def move_to_end(self, position: int) -> None:
        """Make a term the newest one: the model stays (for `penalty="weights"`), its factors are those of that order.

        R with its column at the end is Q times a triangle, Q orthogonal: rotating Z, B, T and zy by Q costs no digits.
        """
        place = self.intercept + position
        Q, R = np.linalg.qr(np.hstack([self.R[:, :place], self.R[:, place + 1 :], self.R[:, place : place + 1]]))
        signs = np.where(np.diagonal(R) < 0, -1.0, 1.0)
        Q, self.R = Q * signs, R * signs[:, None]
        self.rows.reduce(RowBlock.rotate, Q)
        B = self.B @ Q
        self.B = np.vstack([B[:position], B[position + 1 :], B[position : position + 1]])
        self.T[...] = from_host(np.ascontiguousarray(Q.T), self.s) @ self.T
        self.zy, self.rebuilt = Q.T @ self.zy, self.rebuilt + 1
        self._fetched = self.scores = None
        self.chosen.append(self.chosen.pop(position))

    def without_newest(self) -> State:
        """The model without its newest term, from the factors alone: `vv = s - |B T|^2`, `rv = c - T'B'B zy`."""
        other, first = copy.copy(self), self.intercept
        other.rows = self.rows.copy()
        other.sums, other._dependent = None, []
        other._store_sums(other.rows.reduce(RowBlock.remove_newest, self.zy[-1]))
        other.k, other.chosen = self.k - 1, self.chosen[:-1]
        other.R, other.B = self.R[:-1, :-1], self.B[:-1, :-1]
        other._set_table(copied(self._table))
        other._t = copied(self._t)
        other.zy, other.filter_factors = self.zy[:-1], self.filter_factors[:-1]
        B, zy, bzy = send(self.s, other.B, other.zy[first:], other.B @ other.zy)
        T, BT = other.T[first:, :], B @ other.T
        c, s = self.c0 - T.T @ zy, self.norms - column_squares(T)
        other.eligible = put_at(copied(self._varying), np.array(other.chosen, dtype=np.intp), False)
        other._set_statistics(c, c - BT.T @ bzy, s, s - column_squares(BT))
        other.dof, other.cost = other.k - float(np.sum(other.B**2)), float(self.yy.sum() - np.sum(other.zy**2))
        other.rebuilt = self.rebuilt + 1
        return other

    def _set_statistics(self, c: Array, rv: Array, s: Array, vv: Array) -> None:
        """Store statistics, and exclude candidates that depend on the chosen ones.

        A penalty keeps s, but not vv, of a copy from zero.
        """
        self._fetched = self.scores = None
        self._table[self.row_of.changing, :] = namespace(s).concat([c.T, rv.T, s[None, :], vv[None, :]])
        self._least_vv[...] = self._least
        self.eligible = self.eligible & (self.vv > self._least)
        resolved = self._varying & (self._shrinking_penalty < NEGLIGIBLE_PENALTY * self.norms)
        self._recompute_below = put(DEPENDENT_COLUMN * self.norms, ~resolved, -np.inf)
        put_at(self._recompute_below, np.array(self.chosen + self._dependent, dtype=np.intp), -np.inf)
        self._compute_residuals()

    def _store_sums(self, sums: Reduced) -> None:
        """Store sums over the rows, always in the same place; they are read when they are needed."""
        if self.sums is None:
            self.sums = sums.values
        else:
            self.sums[...] = sums.values
        self._moments_read = False
