"""Row blocks: a block owns its rows of G, Y, Z, r and the leverage gap, and answers what the driver asks.

Questions and answers are small (k-vectors, p-vectors, numbers, a few candidates); whatever is as long as the rows stays
here. Answers of several blocks add up (see `Answer`), which is all an executor has to know.

Everything here is for rows scaled by the square roots of their weights, though G itself is never scaled, copied or
written to: a product `G_b' (root * u)` does instead. The column of the intercept, if any, is the first of Z.

Functions marked by `changes` change the block; what they do depends on the block and their arguments alone, so that a
lost block can be had again by repeating them. They put new arrays in place of old ones rather than write to what an
earlier `fork` may see, except for columns of Z that no earlier state looks at.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    Rows,
    as_float64,
    as_type,
    at,
    at_least,
    column_squares,
    copied,
    extremes,
    from_host,
    namespace,
    put_at,
    recordable,
    repeat,
    room,
    row_squares,
    send,
    take_off_product,
    to_host,
    zeros,
)
from termwise.design.stored import EVERY, Design, as_design

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Function = TypeVar("Function", bound=Callable[..., Any])

NO_GAP = 1e-10  # a leverage gap below this is rounding: the row decides its own fit
INTERCEPT = -1  # number of the column of ones


def changes(function: Function) -> Function:
    """Mark a function of a block that changes the block."""
    function.changes = True  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True)
class Answer:
    """What a block answers; over several blocks every field is added up, or is the largest."""

    largest: ClassVar[frozenset[str]] = frozenset()

    def __add__(self, other: Self) -> Self:
        together = {}
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            larger = field.name in self.largest
            together[field.name] = namespace(mine).maximum(mine, theirs) if larger else mine + theirs
        return type(self)(**together)


@dataclass(frozen=True)
class Start(Answer):
    """What the driver must know of the rows beforehand."""

    n: float  # samples, repetitions counted
    rows: int
    nbytes: int  # of G
    yy: Floats  # (q,)


@dataclass(frozen=True)
class Survey(Answer):
    """What the driver must know of the columns beforehand: one pass over the data."""

    squares: Array  # (p,) `|g|^2`
    along: Array  # (p, intercept + q) `G' [Z, r]`
    gram: Array  # (p, p) `G'G`, empty if it was not asked for


@dataclass(frozen=True)
class Rest(Answer):
    """Products of the rest x of a column beside the model's."""

    xx: Array  # (1,)
    xy: Array  # (q,)
    xr: Array  # (q,)
    zx: Array  # (k,)


@dataclass(frozen=True)
class Moments:
    """Sums over the rows of the model as it is, with `w = 1 / leverage_gap^2`, in one array: read by one transfer.

    (3 q + 3,): `sum r^2`, `sum w r^2` (the leave-one-out squared error) and `sum w^2 r^2` of each output,
    `sum (w r^2)^2 / counts`, the outputs added up before squaring, the largest leverage gap, and the smallest.
    """

    values: Array

    def __add__(self, other: Moments) -> Moments:
        xp, mine, theirs = namespace(self.values), self.values, other.values
        largest, smallest = xp.maximum(mine[-2:-1], theirs[-2:-1]), xp.minimum(mine[-1:], theirs[-1:])
        return Moments(xp.concat([mine[:-2] + theirs[:-2], largest, smallest]))


@dataclass(frozen=True)
class Appended(Answer):
    """What a new column z of the model brings."""

    t: Array  # (p,) `G'z`, nothing if it was not asked for
    moments: Moments


@dataclass(frozen=True)
class Replaced(Answer):
    """What other columns in place of the model's bring."""

    leverage: Array  # (1,) sum of squares of all columns
    zr: Array  # (k, q)
    zz: Array  # (k, k)
    moments: Moments


class RowBlock:
    """Some rows of the problem and of the growing model, in the library and on the device of Y.

    What it is asked with may come from the process of the driver.
    """

    def __init__(self, G: Any, Y: Array, counts: Floats, reserve: int = 64) -> None:
        self.G, self.counts = as_design(G), from_host(counts, Y)
        self.weights = None if np.all(counts == 1) else self.counts
        self.root = None if self.weights is None else self.weights**0.5
        self.share = from_host(np.minimum(1, counts) / counts, Y)
        self.n = float(counts.sum())
        self.Y = self.scale(as_float64(Y))
        self.r, self.gap = copied(self.Y), namespace(Y).ones_like(self.share)
        self._Zt, self.k = room((reserve, Y.shape[0]), self.Y), 0
        self.programs: dict[Any, Any] = {}
        self.table: Array | None = None  # see `directions`
        self.x = self.Q = self.a = self.gap[:0]  # a column on its way in, chosen columns, see `curvature`
        self.folds: list[Indices] = []

    def fork(self) -> RowBlock:
        """A block that can change while this one stays as it is."""
        other = copy.copy(self)
        other.table = None if self.table is None else copied(self.table)
        other.r, other.gap, other.programs = copied(self.r), copied(self.gap), {}
        return other

    @property
    def Z(self) -> Array:
        """Columns of the model on these rows."""
        return self._Zt[: self.k, :].T

    def here(self, values: Any) -> Array:
        """Numbers of the driver, in the library and on the device of the rows."""
        return from_host(values, self.Y)

    def scale(self, rows: Array) -> Array:
        """Multiply rows by the square roots of their weights."""
        if self.root is None:
            return rows
        return rows * (self.root if rows.ndim == 1 else self.root[:, None])

    def products(self, u: Array) -> Array:
        """`G_b' u` for scaled rows u of shape (n_b,) or (n_b, m)."""
        return self.G.products(self.scale(u))

    def columns(self, chosen: Any, rows: Rows = EVERY) -> Array:
        """Some rows of some scaled columns, as a new array."""
        G = self.G.columns(chosen, rows)
        return G if self.root is None else G * at(self.root, rows)[:, None]

    # -- before the first term -----------------------------------------------------------------------------------------

    def start(self) -> Start:
        """Sizes and squares."""
        return Start(self.n, self.Y.shape[0], self.G.nbytes, to_host(column_squares(self.Y)))

    def survey(self, gram: bool) -> Survey:
        """Look at all columns beside the model without terms, once and for all."""
        xp = namespace(self.Y)
        G = self.gram() if gram else zeros((0, 0), self.Y)
        squares = xp.linalg.diagonal(G) if gram else self.G.squares(self.weights)
        return Survey(squares, self.products(xp.concat([self.Z, self.r], axis=1)), G)

    def centred_norms(self, means: Array) -> Array:
        """`|g - mean|^2` of every column."""
        return self.G.centred_squares(self.weights, means)

    def gram(self) -> Array:
        """`G' G`."""
        return self.G.gram(self.weights)

    # -- one more term -------------------------------------------------------------------------------------------------

    @changes
    def begin(self, j: int, amounts: Floats) -> Rest:
        """Take `Z amounts` off column j, the ones of the intercept if there is no such column."""
        x = self.scale(namespace(self.gap).ones_like(self.gap)) if j == INTERCEPT else self._column(j)
        self.x = x - self.Z @ self.here(amounts) if self.k else x
        return self._rest()

    @changes
    def again(self, amounts: Floats) -> Rest:
        """Take off once more what rounding has left along Z."""
        self.x = self.x - self.Z @ self.here(amounts)
        return self._rest()

    def _column(self, j: int) -> Array:
        return self.columns(slice(j, j + 1))[:, 0]

    def _rest(self) -> Rest:
        x = self.x[None, :]
        return Rest((x @ self.x), (x @ self.Y)[0, :], (x @ self.r)[0, :], (x @ self.Z)[0, :])

    @changes
    def append(self, length: float, beta: Floats, den: float, look: bool) -> Appended:
        """Take in the column: Z grows by `x / length`, the residual shrinks by `x beta`, the gap by `x^2 / den`.

        `look` asks for `t = G'z`, the one pass over the data.
        """
        self._make_room()
        numbers = send(self.Y, np.array([self.k]), np.array([length, den]), beta)
        z, sums = append_column(self.x, self.root, self.share, self.counts, self._Zt, self.r, self.gap, *numbers)
        self.k, self.x = self.k + 1, self.x[:0]
        return Appended(self.products(z) if look else z[:0], sums)

    @changes
    def take(self, j: int, amounts: Floats, length: float, beta: Floats, den: float, look: bool) -> Appended:
        """`begin` and `append` in one, for a column whose products the driver knows with all digits."""
        z, sums = repeat(self.programs, take_column, *self.taking(j, amounts, length, beta, den))
        self.k += 1
        return Appended(self.products(z) if look else z[:0], sums)

    def taking(
        self, j: int, amounts: Floats, length: float, beta: Floats, den: float
    ) -> tuple[tuple[Any, ...], list[Floats]]:
        """Make room, and return what `take_column` is to be given: arrays of this block, and numbers."""
        self._make_room()
        things = (self.G, self.root, self.share, self.counts, self._Zt, self.r, self.gap)
        return things, [
            np.array([self.k]), np.array([length, den]), beta, np.array([j]), self.padded(amounts)
        ]  # fmt: skip

    def _make_room(self) -> None:
        if self.k == self._Zt.shape[0]:
            more = room((max(64, self.k // 2), self._Zt.shape[1]), self.Y)
            self._Zt = namespace(more).concat([self._Zt, more])
            self.programs.clear()

    def padded(self, T: Floats) -> Floats:
        """Rows of T, and zeros for columns of Z that are not there yet where recorded calls look at those as well."""
        if not recordable(self.Y):
            return T
        return np.concatenate([T, np.zeros((self._Zt.shape[0] - len(T), *T.shape[1:]))])

    def moments(self) -> Moments:
        """Sums over the rows."""
        return moments(self.root, self.counts, self.r, self.gap)

    # -- other columns in place of the model's -------------------------------------------------------------------------

    @changes
    def factor(self, chosen: Indices, intercept: int) -> tuple[Floats, Floats]:
        """Orthogonalise the chosen columns on these rows alone; their triangular factor and `Q'Y`."""
        xp = namespace(self.Y)
        ones = self.scale(zeros((self.Y.shape[0], intercept), self.Y) + 1)
        self.Q, R = xp.linalg.qr(xp.concat([ones, self.columns(chosen)], axis=1))
        return to_host(R), to_host(self.Q.T @ self.Y)

    @changes
    def replace(self, within: Floats, zy: Floats, first: int) -> Replaced:
        """Put `Z = Q within` in place of the model's columns: the penalty has changed. Products from `first` on."""
        self._Zt, self.k = (self.Q @ self.here(within)).T, within.shape[1]
        self.Q = self.Q[:0, :0]
        self.r = self.Y - self.Z @ self.here(zy)
        leverage = row_squares(self.Z)
        self.gap = 1 - self.share * leverage
        Z = self.Z[:, first:]
        total = namespace(Z).sum(leverage)[None]
        return Replaced(total, Z.T @ self.r, Z.T @ Z, self.moments())

    @changes
    def turn(self, Q: Floats) -> int:
        """Put `Z Q` in place of Z, Q orthogonal: the order of the terms has changed."""
        self._Zt = self.here(np.ascontiguousarray(Q.T)) @ self._Zt[: self.k, :]
        self.programs.clear()
        return 0

    @changes
    def drop_newest(self, zy: Floats) -> Moments:
        """Take the newest column z out of the model again; `zy` is `z'Y` over all blocks."""
        z, self.k = self._Zt[self.k - 1, :], self.k - 1
        self._Zt = copied(self._Zt[: self.k, :])  # what comes next must not overwrite z, which others may look at
        moved = z * z if self.root is None else self.share * z * z
        self.r, self.gap = self.r + z[:, None] * self.here(zy), self.gap + moved
        return self.moments()

    def restricted(self, chosen: Indices) -> RowBlock:
        """The same rows with some of the candidates, and no model."""
        columns = as_type(self.G.columns(chosen), self.G.dtype)
        Y = self.Y if self.root is None else self.Y / self.root[:, None]
        return RowBlock(columns, Y, to_host(self.counts), len(chosen) + 1)

    # -- what only the end of a path needs -----------------------------------------------------------------------------

    def targets(self) -> Floats:
        """Return the targets as they were given, in the process of the driver."""
        return to_host(self.Y if self.root is None else self.Y / self.root[:, None])

    def model(self) -> tuple[Array, Array, Array]:
        """Return Z, Y and the counts, as long as the rows are."""
        return self.Z, self.Y, self.counts


# -- on arrays that keep their place, so that the calls can be recorded ------------------------------------------------


def take_column(
    G: Design,
    root: Array | None,
    share: Array,
    counts: Array,
    Zt: Array,
    r: Array,
    gap: Array,
    place: Array,
    scales: Array,
    beta: Array,
    j: Array,
    amounts: Array,
) -> tuple[Array, Moments]:
    """Take `Z amounts` off column j and take in what is left."""
    x = G.columns(j)[:, 0]
    x = (x if root is None else x * root) - Zt[: amounts.shape[0], :].T @ amounts
    return append_column(x, root, share, counts, Zt, r, gap, place, scales, beta)


def append_column(
    x: Array,
    root: Array | None,
    share: Array,
    counts: Array,
    Zt: Array,
    r: Array,
    gap: Array,
    place: Array,
    scales: Array,
    beta: Array,
) -> tuple[Array, Moments]:
    """Put `x / length` into Z at a place and take `x beta` off the residual and `x^2 / den` off the leverage gap."""
    z, part = x / scales[0], x / scales[1]
    put_at(Zt, place, z[None, :])
    take_off_product(r, x[:, None], beta)
    take_off_product(gap, x, part if root is None else share * part)
    return z, moments(root, counts, r, gap)


def moments(root: Array | None, counts: Array, r: Array, gap: Array) -> Moments:
    """Sums over the rows."""
    xp, safe, r = namespace(gap), at_least(gap, NO_GAP), r.T
    wr = r / (safe * safe)
    squares = r * wr
    by_row = squares if r.shape[0] == 1 else xp.sum(squares, axis=0)[None, :]
    spread = by_row * by_row if root is None else by_row * by_row / counts
    sums = xp.sum(xp.concat([r * r, squares, wr * wr, spread]), axis=1)
    smallest, largest = extremes(gap)
    return Moments(xp.concat([sums, largest, smallest]))
