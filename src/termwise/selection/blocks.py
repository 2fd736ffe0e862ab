"""Row blocks, and the executor that maps functions over them.

A block holds its rows of G, Y, Z, r and the leverage gap. The main process calls a function on every block, with small
arguments (k-vectors, p-vectors, a few candidates), and receives the sum of the results: a map-reduce. Arrays as long as
the rows stay in the block. Where blocks live, and how their functions are launched on a device, is decided by
implementations of `Executor` and `Launcher` in `termwise.execution`.

Everything here is for rows scaled by the square roots of their weights, though G itself is never scaled or written to:
a product `G_b' (root * u)` does instead. Columns with a large mean are replaced by their differences from it before the
first term, by a `Design` that stores these. The column of the intercept, if any, is the first of Z.

Functions marked by `mutates` change the block. Their effect depends on the block and their arguments alone, so that a
lost block can be recomputed by calling them again. They replace arrays rather than write to those that an earlier
`copy` may share, except for columns of Z that no earlier state reads.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    RowIndex,
    as_float64,
    as_type,
    at,
    column_squares,
    copied,
    evenly,
    from_host,
    namespace,
    row_blocks,
    row_squares,
    send,
    to_host,
    zeros,
)
from termwise.design import EVERY, as_design
from termwise.design.file_blocks import BlockReader
from termwise.selection.path import ModelRows
from termwise.selection.updates import NewColumn, RowArrays, append_candidate, append_column, row_sums

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Function = TypeVar("Function", bound=Callable[..., Any])

INTERCEPT = -1  # index of the column of ones
EXTREMES = ("maximum", "minimum")  # at the end of `updates.row_sums`
MIN_RESERVE = 64  # columns of Z that memory is extended by, at least


def mutates(function: Function) -> Function:
    """Mark a function of a block that changes the block."""
    function.mutates = True  # type: ignore[attr-defined]
    return function


# -- executor and launcher ---------------------------------------------------------------------------------------------


class Launcher:
    """Launches functions on arrays that stay where they are: here by calling them.

    `execution.cuda_graphs` has a launcher that replays captured CUDA graphs. These need `fixed_shapes`: T is padded to
    the memory of Z, tables are read whole, and batches are padded to powers of two.
    """

    fixed_shapes = False

    def __init__(self) -> None:
        self.captured: dict[Any, Any] = {}  # by the addresses of arrays: to be cleared when one is reallocated

    def launch(
        self, function: Callable[..., Any], arrays: tuple[Any, ...], *numbers: Any, read: int = 0, times: int = 1
    ) -> Any:
        """`function(*arrays, *numbers)`, with the numbers on the device of the last array.

        Both are, or hold, NamedTuples; those of numbers hold host arrays. If `read`, the last array of the result, of
        that size, is copied to the host. A result must be read before the next launch with the same arrays; of several
        `times` the last one is returned.
        """
        like = arrays[-1][-1] if isinstance(arrays[-1], tuple) else arrays[-1]
        if not isinstance(like, np.ndarray):
            sent = iter(send(like, *(value for group in numbers for value in group)))
            numbers = tuple(type(group)(*(next(sent) for _ in group)) for group in numbers)
        for _ in range(times):
            result = function(*arrays, *numbers)
        return (*result[:-1], to_host(result[-1])) if read else result

    @staticmethod
    def together(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
        """Results of two functions of which neither needs the other: a device may compute both at a time."""
        return first(), second()

    def read(self, x: Array) -> Callable[[], NDArray[Any]]:
        """Start to copy an array to the host, as it is now; the function that is returned waits for the copy."""
        values = np.array(to_host(x))
        return lambda: values


class GramCost(NamedTuple):
    """How many columns of `G'G` a pass over the data should compute, and what they cost in units of a plain pass."""

    columns: int = 0  # beside the products of the new term; 0: none
    passes: float = 1.0  # the time of a pass with so many columns
    whole: float = np.inf  # the time in which all of `G'G` is computed


class Executor(ABC):
    """Row blocks, wherever they live; the shape of the problem is known without calling them."""

    n_candidates: int
    n_outputs: int
    dtype: np.dtype  # of G
    lengths: Sequence[int]  # rows of every block
    launcher: Launcher = Launcher()  # for functions of arrays of the main process
    device_block: RowBlock | None = None  # the only block, if it is on a device: then one launch may span both
    steps_ahead: int = 0  # rounds of `run_ahead` per synchronisation with the host; 0: none are queued
    caches_directions: bool = True  # whether columns are expensive enough to cache those of runners-up
    min_work: int  # samples times candidates below which verifying fewer at a time would not be faster
    reader: BlockReader | None = None  # of a file, which can cache columns that may be needed soon
    shift: Array | None = None  # (p,), reference values that were subtracted from the candidates
    gram_cost: GramCost = GramCost()  # what columns of `G'G` cost in a pass over the rows
    passes: int = 0  # over all entries of G for new terms, so far

    @abstractmethod
    def map(self, function: Callable[..., Any], *args: Any, parts: Iterable[Any] | None = None) -> Iterable[Any]:
        """Results of `function(block, *args)` in the order of the rows; with parts, `function(block, part, *args)`."""

    def reduce(self, function: Callable[..., Any], *args: Any, parts: Iterable[Any] | None = None) -> Any:
        """Sum of the results of `map`."""
        return reduce(add, self.map(function, *args, parts=parts))

    @abstractmethod
    def model_rows(self) -> ModelRows:
        """Return the columns of the model and the targets on all rows, at the end of a path."""

    def copy(self) -> Self:
        """Return the same rows in blocks that can change while these stay as they are."""
        return copy.copy(self)

    @abstractmethod
    def restrict(self, chosen: Indices) -> Executor:
        """Return the same rows with some of the candidates, and no model."""


# -- results of functions of a block -----------------------------------------------------------------------------------


class PartialSums(tuple[Any, ...]):
    """Several results of a function of a block; over several blocks each of them is added up."""

    def __add__(self, other: Any) -> PartialSums:
        return PartialSums(map(add, self, other))


@dataclass(frozen=True)
class Reduced:
    """An array whose entries are added up over several blocks, but for the last ones along the first axis.

    These are combined by the functions named in `last`, such as "maximum".
    """

    values: Array
    last: tuple[str, ...]

    def __add__(self, other: Reduced) -> Reduced:
        xp, mine, theirs, m = namespace(self.values), self.values, other.values, self.values.shape[0]
        first = m - len(self.last)
        parts = [mine[:first, ...] + theirs[:first, ...]]
        for i, name in enumerate(self.last, start=first):
            parts.append(getattr(xp, name)(mine[i : i + 1, ...], theirs[i : i + 1, ...]))
        return Reduced(xp.concat(parts), self.last)


# -- blocks ------------------------------------------------------------------------------------------------------------


class RowBlock:
    """Some rows of the problem and of the growing model, in the library and on the device of Y.

    Arguments of its methods may be sent by the main process.
    """

    def __init__(
        self, G: Any, Y: Array, sample_weight: Floats, reserve: int = MIN_RESERVE, launcher: Launcher | None = None
    ) -> None:
        self.G, self.weights, self.root = as_design(G), None, None
        if np.all(sample_weight == 1):
            self.sample_weight = self.share = zeros((Y.shape[0],), Y) + 1
        else:
            self.sample_weight = self.weights = from_host(sample_weight, Y)
            self.root = self.sample_weight**0.5
            self.share = from_host(np.minimum(1, sample_weight) / sample_weight, Y)
        self.n = float(sample_weight.sum())
        self.Y = self.scale(as_float64(Y))
        self.r, self.gap = copied(self.Y), namespace(Y).ones_like(self.share)
        self.launcher = Launcher() if launcher is None else launcher
        self.Zt, self.k = zeros((reserve, Y.shape[0]), self.Y), 0
        self.directions: Array | None = None  # see `loo_bounds.DirectionCache`
        none = self.gap[:0]
        self.x = self.Q = self.a = none  # column being orthogonalised, factor of `set_alpha`, weights of a bound
        self.folds: list[Indices] = []

    def copy(self) -> RowBlock:
        """A block that can change while this one stays as it is."""
        other = copy.copy(self)
        other.directions = None if self.directions is None else copied(self.directions)
        other.r, other.gap, other.launcher = copied(self.r), copied(self.gap), type(self.launcher)()
        return other

    @property
    def Z(self) -> Array:
        """Columns of the model on these rows."""
        return self.Zt[: self.k, :].T

    @property
    def arrays(self) -> RowArrays:
        """The arrays."""
        return RowArrays(self.G, self.root, self.share, self.Zt, self.r, self.gap)

    def scale(self, rows: Array) -> Array:
        """Multiply rows by the square roots of their weights."""
        if self.root is None:
            return rows
        return rows * (self.root if rows.ndim == 1 else self.root[:, None])

    def products(self, u: Array) -> Array:
        """`G_b' u` for scaled rows u of shape (n_b,) or (n_b, m)."""
        return self.G.products(self.scale(u))

    def columns(self, chosen: Any, rows: RowIndex = EVERY) -> Array:
        """Some rows of some scaled columns, as a new array."""
        G = self.G.columns(chosen, rows)
        return G if self.root is None else G * at(self.root, rows)[:, None]

    def sums(self) -> Reduced:
        """`updates.row_sums` of these rows."""
        return Reduced(row_sums(self.arrays), EXTREMES)

    # -- before the first term -----------------------------------------------------------------------------------------

    def sizes(self) -> PartialSums:
        """Sum of the sample weights, number of rows, size of G in bytes, and squares of the targets, (q,)."""
        return PartialSums((self.n, self.Y.shape[0], self.G.nbytes, to_host(column_squares(self.Y))))

    def initial_products(self, gram: bool) -> PartialSums:
        """`|g|^2` and `G' [Z, r]` of the model without terms, and `G'G` if it is to be computed: one pass."""
        xp = namespace(self.Y)
        u = self.scale(xp.concat([self.Z, self.r], axis=1))
        if gram:
            G, along = self.G.gram_and_products(self.weights, u)
            return PartialSums((xp.linalg.diagonal(G), along, G))
        return PartialSums((*self.G.squares_and_products(self.weights, u), zeros((0, 0), self.Y)))

    def sample(self, share: float) -> tuple[Array, Array]:
        """A share of the rows, evenly spaced, of the scaled candidates and of the scaled column of ones, in float32."""
        n = self.Y.shape[0]
        rows = evenly(n, int(np.ceil(share * n)))
        ones = self.scale(np.ones(n))[rows]
        return self.columns(EVERY, rows).astype(np.float32), ones.astype(np.float32)

    def gram(self) -> Array:
        """`G'G` of the scaled columns."""
        return self.G.gram(self.weights)

    def gram_columns(self, candidates: Indices) -> Array:
        """Some columns of `G'G`, as rows."""
        return self.products(self.columns(candidates)).T

    def power_sums(self, power: int, means: Array) -> Array:
        """`sum (g - mean)^power` of every scaled column; fourth powers may be an upper bound."""
        return self.G.power_sums(power, self.weights, means)

    @mutates
    def subtract(self, shift: Array) -> int:
        """Subtract reference values from the candidates, before there is a model with terms."""
        self.G = self.G.shifted(from_host(shift, self.Y))
        self.launcher.captured.clear()
        return 0

    # -- one more term -------------------------------------------------------------------------------------------------

    @mutates
    def orthogonalise(self, j: int | None, amounts: Floats) -> PartialSums:
        """Subtract `Z amounts` from column j, or, if that is None, once more from the column that was subtracted from.

        Return the products of what is left, x: `x'x` (1,), `x'Y` (q,), `x'r` (q,) and `Z'x` (k,).
        """
        if j == INTERCEPT:
            self.x = self.scale(namespace(self.gap).ones_like(self.gap))
        elif j is not None:
            self.x = self.columns(slice(j, j + 1))[:, 0]
        if self.k:
            self.x = self.x - self.Z @ from_host(amounts, self.Y)
        x = self.x[None, :]
        return PartialSums((x @ self.x, (x @ self.Y)[0, :], (x @ self.r)[0, :], (x @ self.Z)[0, :]))

    def residual_products(self, candidates: Indices, T: Floats) -> PartialSums:
        """`v'v` (m,), `v'Y` and `v'r` (m, q) and `Z'v` (k, m) of `v = g - Z T`, computed for each of m candidates."""
        found = []
        for rows in row_blocks(self.Y.shape[0], len(candidates), self.Y):
            Z, Y, r = self.Zt[: self.k, rows].T, self.Y[rows, :], self.r[rows, :]
            V = self.columns(candidates, rows) - Z @ from_host(T, self.Y)
            found.append(PartialSums((column_squares(V), V.T @ Y, V.T @ r, Z.T @ V)))
        return reduce(add, found)

    @mutates
    def append(self, column: NewColumn, direct: bool, fetched: Indices | None) -> PartialSums:
        """Append the orthogonalised column or, if `direct`, a candidate whose products are known with all digits.

        Return `t = G'z` and the columns of `G'G` of the candidates `fetched`, as rows of one array, by one pass over
        the data, and the sums over the rows. If `fetched` is None there is no pass.
        """
        self.reserve_column()
        if direct:
            column = column._replace(amounts=self.pad(column.amounts))
            z, sums = self.launcher.launch(append_candidate, (self.arrays,), column)
        else:
            place, scales, beta = send(self.Y, column.place, column.scales, column.beta)
            z = append_column(self.arrays, self.x, column._replace(place=place, scales=scales, beta=beta))
            sums = row_sums(self.arrays)
        self.k, self.x = self.k + 1, self.x[:0]
        products = z[:0] if fetched is None else self.G.joint_products(self.scale(z), fetched, self.weights)
        return PartialSums((products, Reduced(sums, EXTREMES)))

    def reserve_column(self, count: int = 1) -> None:
        """Extend the memory of Z if there is none for `count` more columns."""
        if self.k + count > self.Zt.shape[0]:
            more = zeros((max(MIN_RESERVE, count, self.k // 2), self.Zt.shape[1]), self.Y)
            self.Zt = namespace(more).concat([self.Zt, more])
            self.launcher.captured.clear()

    def pad(self, T: Floats) -> Floats:
        """Rows of T, one for each row of Zt that a launch reads: zeros for columns of Z that are not there yet."""
        missing = self.Zt.shape[0] - len(T) if self.launcher.fixed_shapes else 0
        return np.concatenate([T, np.zeros((missing, *T.shape[1:]))]) if missing else T

    # -- other columns in place of the model's -------------------------------------------------------------------------

    @mutates
    def factor(self, chosen: Indices, intercept: int) -> tuple[Floats, Floats]:
        """Orthogonalise the chosen columns on these rows alone; their triangular factor and `Q'Y`."""
        xp = namespace(self.Y)
        ones = self.scale(zeros((self.Y.shape[0], intercept), self.Y) + 1)
        self.Q, R = xp.linalg.qr(xp.concat([ones, self.columns(chosen)], axis=1))
        return to_host(R), to_host(self.Q.T @ self.Y)

    @mutates
    def replace_columns(self, within: Floats, zy: Floats, first: int) -> PartialSums:
        """Set `Z = Q within` after a change of the penalty.

        Return the sum of squares of all columns (1,), `Z'r` and `Z'Z` from column `first` on, and the sums over rows.
        """
        self.Zt, self.k = (self.Q @ from_host(within, self.Y)).T, within.shape[1]
        self.Q = self.Q[:0, :0]
        self.r = self.Y - self.Z @ from_host(zy, self.Y)
        leverage = row_squares(self.Z)
        self.gap = 1 - self.share * leverage
        Z = self.Z[:, first:]
        total = namespace(Z).sum(leverage)[None]
        return PartialSums((total, Z.T @ self.r, Z.T @ Z, self.sums()))

    @mutates
    def rotate(self, Q: Floats) -> int:
        """Set Z to `Z Q`, Q orthogonal, after a change of the order of the terms."""
        self.Zt = from_host(np.ascontiguousarray(Q.T), self.Y) @ self.Zt[: self.k, :]
        self.launcher.captured.clear()
        return 0

    @mutates
    def remove_newest(self, zy: Floats) -> Reduced:
        """Remove the newest column z from the model; `zy` is `z'Y` over all blocks."""
        z, self.k = self.Zt[self.k - 1, :], self.k - 1
        self.Zt = copied(self.Zt[: self.k, :])  # the next column must not overwrite z, which earlier states read
        leverage = z * z if self.root is None else self.share * z * z
        self.r, self.gap = self.r + z[:, None] * from_host(zy, self.Y), self.gap + leverage
        return self.sums()

    def restricted(self, chosen: Indices) -> RowBlock:
        """The same rows with some of the candidates, and no model."""
        columns = as_type(self.G.columns(chosen), self.G.dtype)
        Y = self.Y if self.root is None else self.Y / self.root[:, None]
        return RowBlock(columns, Y, to_host(self.sample_weight), len(chosen) + 1, type(self.launcher)())

    # -- at the end of a path ------------------------------------------------------------------------------------------

    def targets(self) -> Floats:
        """Return the targets as they were given, on the host."""
        return to_host(self.Y if self.root is None else self.Y / self.root[:, None])
