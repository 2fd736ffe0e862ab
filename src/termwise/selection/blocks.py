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

from termwise.design import EVERY, as_design

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
            together[field.name] = max(mine, theirs) if field.name in self.largest else mine + theirs
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

    squares: Floats  # (p,) `|g|^2`
    along: Floats  # (p, intercept + q) `G' [Z, r]`
    gram: Floats  # (p, p) `G'G`, empty if it was not asked for


@dataclass(frozen=True)
class Rest(Answer):
    """Products of the rest x of a column beside the model's."""

    xx: float
    xy: Floats  # (q,)
    xr: Floats  # (q,)
    zx: Floats  # (k,)


@dataclass(frozen=True)
class Moments(Answer):
    """Sums over the rows of the model as it is, with `w = 1 / leverage_gap^2`."""

    largest = frozenset({"gap", "steep", "undefined"})

    rr: Floats  # (q,) sum r^2
    wrr: Floats  # (q,) sum w r^2: the leave-one-out squared error
    wwrr: Floats  # (q,) sum w^2 r^2
    squared: float  # sum (w r^2)^2 / counts, its spread
    gap: float  # largest leverage gap
    steep: float  # largest share / leverage_gap^3, see `curvature`
    undefined: bool  # whether some row decides its own fit


@dataclass(frozen=True)
class Appended(Answer):
    """What a new column z of the model brings."""

    t: Floats  # (p,) `G'z`, zeros if it was not asked for
    moments: Moments


@dataclass(frozen=True)
class Replaced(Answer):
    """What other columns in place of the model's bring."""

    leverage: float  # sum of squares of all columns
    zr: Floats  # (k, q)
    zz: Floats  # (k, k)
    moments: Moments


class RowBlock:
    """Some rows of the problem and of the growing model."""

    def __init__(self, G: Any, Y: Floats, counts: Floats, reserve: int = 64) -> None:
        self.G, self.counts = as_design(G), counts
        self.weights = None if np.all(counts == 1) else counts
        self.root = None if self.weights is None else np.sqrt(counts)
        self.share = np.minimum(1, counts) / counts
        self.Y = Y * np.sqrt(counts)[:, None]
        self.r, self.gap = self.Y.copy(), np.ones(len(Y))
        self._Z = np.empty((len(Y), reserve), order="F")  # touched as it fills
        self.k = 0
        self.table: Floats | None = None  # see `directions`
        self.x = self.Q = self.a = np.empty(0)  # a column on its way in, chosen columns, see `curvature`
        self.folds: list[Indices] = []

    def fork(self) -> RowBlock:
        """A block that can change while this one stays as it is."""
        other = copy.copy(self)
        other.table = None if self.table is None else self.table.copy()
        return other

    @property
    def Z(self) -> Floats:
        """Columns of the model on these rows."""
        return self._Z[:, : self.k]

    def scale(self, rows: Floats) -> Floats:
        """Multiply rows by the square roots of their weights."""
        return rows if self.root is None else (rows.T * self.root).T

    def products(self, u: Floats) -> Floats:
        """`G_b' u` for scaled rows u of shape (n_b,) or (n_b, m)."""
        return self.G.products(self.scale(u))

    def columns(self, chosen: Indices | slice, rows: slice | Indices = EVERY) -> Floats:
        """Some rows of some scaled columns, as a new array."""
        G = self.G.columns(chosen, rows)
        return G if self.root is None else G * self.root[rows, None]

    # -- before the first term -----------------------------------------------------------------------------------------

    def start(self) -> Start:
        """Sizes and squares."""
        n = float(len(self.Y) if self.root is None else self.counts.sum())
        return Start(n, len(self.Y), self.G.nbytes, np.einsum("ij,ij->j", self.Y, self.Y))

    def survey(self, gram: bool) -> Survey:
        """Look at all columns beside the model without terms, once and for all."""
        G = self.gram() if gram else np.empty((0, 0))
        squares = np.diagonal(G) if gram else self.G.squares(self.weights)
        return Survey(squares, self.products(np.hstack([self.Z, self.r])), G)

    def centred_norms(self, means: Floats) -> Floats:
        """`|g - mean|^2` of every column."""
        return self.G.centred_squares(self.weights, means)

    def gram(self) -> Floats:
        """`G' G`."""
        return self.G.gram(self.weights)

    # -- one more term -------------------------------------------------------------------------------------------------

    @changes
    def begin(self, j: int, amounts: Floats) -> Rest:
        """Take `Z amounts` off column j, the ones of the intercept if there is no such column."""
        x = self.scale(np.ones(len(self.Y))) if j == INTERCEPT else self.columns(np.array([j]))[:, 0]
        self.x = x - self.Z @ amounts if self.k else x
        return self._rest()

    @changes
    def again(self, amounts: Floats) -> Rest:
        """Take off once more what rounding has left along Z."""
        self.x = self.x - self.Z @ amounts
        return self._rest()

    def _rest(self) -> Rest:
        x = self.x
        return Rest(float(x @ x), x @ self.Y, x @ self.r, x @ self.Z)

    @changes
    def append(self, length: float, beta: Floats, den: float, look: bool) -> Appended:
        """Take in the column: Z grows by `x / length`, the residual shrinks by `x beta`, the gap by `x^2 / den`.

        `look` asks for `t = G'z`, the one pass over the data.
        """
        if self.k == self._Z.shape[1]:
            grown = np.empty((len(self.x), self.k + max(64, self.k // 2)), order="F")
            grown[:, : self.k] = self.Z
            self._Z = grown
        z = self._Z[:, self.k]
        np.divide(self.x, length, out=z)
        self.k += 1
        self.r = self.r - np.outer(self.x, beta)
        self.gap = self.gap - self.share * (self.x * self.x) / den
        return Appended(self.products(z) if look else np.zeros(self.G.shape[1]), self.moments())

    @changes
    def take(self, j: int, amounts: Floats, length: float, beta: Floats, den: float, look: bool) -> Appended:
        """`begin` and `append` in one, for a column whose products the driver knows with all digits."""
        self.x = self.columns(np.array([j]))[:, 0]
        self.x -= self.Z @ amounts
        return self.append(length, beta, den, look)

    def moments(self) -> Moments:
        """Sums over the rows."""
        safe = np.maximum(self.gap, NO_GAP)
        w, rr = safe**-2, self.r * self.r
        by_row = w * rr.sum(axis=1)
        return Moments(
            rr=rr.sum(axis=0),
            wrr=w @ rr,
            wwrr=(w * w) @ rr,
            squared=float(np.sum(by_row * by_row / self.counts)),
            gap=float(safe.max()),
            steep=float((self.share * w / safe).max()),
            undefined=bool(self.gap.min() < NO_GAP),
        )

    # -- other columns in place of the model's -------------------------------------------------------------------------

    @changes
    def factor(self, chosen: Indices, intercept: int) -> tuple[Floats, Floats]:
        """Orthogonalise the chosen columns on these rows alone; their triangular factor and `Q'Y`."""
        ones = self.scale(np.ones((len(self.Y), intercept)))
        self.Q, R = np.linalg.qr(np.hstack([ones, self.columns(chosen)]))
        return R, self.Q.T @ self.Y

    @changes
    def replace(self, within: Floats, zy: Floats, first: int) -> Replaced:
        """Put `Z = Q within` in place of the model's columns: the penalty has changed. Products from `first` on."""
        Z = np.asfortranarray(self.Q @ within)
        self._Z, self.k = Z, Z.shape[1]
        self.r = self.Y - Z @ zy
        leverage = np.einsum("ij,ij->i", Z, Z)
        self.gap = 1 - self.share * leverage
        Z = Z[:, first:]
        return Replaced(float(leverage.sum()), Z.T @ self.r, Z.T @ Z, self.moments())

    # -- what only the end of a path needs -----------------------------------------------------------------------------

    def targets(self) -> Floats:
        """Return the targets as they were given."""
        return self.Y if self.root is None else self.Y / self.root[:, None]

    def model(self) -> tuple[Floats, Floats, Floats]:
        """Return Z, Y and the counts, as long as the rows are."""
        return self.Z, self.Y, self.counts
