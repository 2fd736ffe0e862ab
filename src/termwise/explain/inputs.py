"""Inputs of a model: their encoded columns, the grids effects are drawn on, and where the samples are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline

from termwise.basis import TableEncoder
from termwise.explain.resolve import Floats

DECILES = np.arange(0.1, 0.95, 0.1)
SPREAD_ROWS = 1000  # combinations of values that stand for the samples where there are none
MIN_FUNCTIONS, MAX_FUNCTIONS = 4, 10  # splines of an input: the fourth root of the number of rows, within these
TOTAL_ROWS = 5000  # rows at which the total effect of an input is evaluated
MAX_LEVELS = 100  # levels of a category that have an indicator of their own and are drawn, the most frequent ones


class Block(NamedTuple):
    """The encoded columns of an input: numbers, an indicator for each category, or numbers of the categories."""

    name: str
    categories: list[Any] | None = None
    numbered: bool = False  # whether one column holds the number of the category, for `LevelMeans`

    @property
    def n_columns(self) -> int:
        """Number of encoded columns."""
        return 1 if self.categories is None or self.numbered else len(self.categories)


def encoded_blocks(encoder: TableEncoder, names: Any = None) -> list[Block]:
    """The inputs that the columns of an encoder belong to."""
    found, start, numbered = list[Block](), 0, set(encoder.level_columns().tolist())
    for name, categories in encoder.blocks(names):
        found.append(Block(name, categories, start in numbered))
        start += found[-1].n_columns
    return found


@dataclass(frozen=True)
class Input:
    """An input of a model: the encoded columns it consists of, and their values in the rows effects are taken over."""

    name: str
    categories: list[Any] | None
    columns: NDArray[np.intp]
    rows: Floats  # (n, number of columns), the values as encoded columns
    numbered: bool = False  # whether the column holds numbers of categories

    def grid(self, size: int) -> tuple[NDArray[Any], Floats]:
        """Values of the input, (m,), and the encoded columns of these: evenly over the rows, or all categories.

        Of numbered categories the most frequent ones.
        """
        if self.categories is not None:
            values = np.fromiter(self.categories, dtype=object, count=len(self.categories))
            if self.numbered:
                return values[self._levels], self._levels[:, None].astype(np.float64)
            return values, np.eye(len(values))
        low, high = self.ends
        values = np.linspace(low, high, size)
        return values, values[:, None]

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Ends of the axis of numbers: the lowest and the highest, around a constant one unit."""
        low, high = float(self._present.min(initial=np.inf)), float(self._present.max(initial=-np.inf))
        if not self._present.size:
            return -0.5, 0.5
        return (low, high) if low < high else (low - 0.5, high + 0.5)

    @property
    def _present(self) -> Floats:
        """Values of the rows in which the input is not missing."""
        return self.rows[~np.isnan(self.rows)]

    @cached_property
    def _levels(self) -> NDArray[np.intp]:
        """Numbers of the most frequent categories, ascending."""
        assert self.categories is not None
        known = self._present[(self._present >= 0) & (self._present < len(self.categories))].astype(np.intp)
        counts = np.bincount(known, minlength=len(self.categories))
        return np.sort(np.argsort(-counts, kind="stable")[:MAX_LEVELS])

    def _place(self, codes: Floats) -> NDArray[np.intp]:
        """Place of numbers of categories among the most frequent ones; -1 for others."""
        places = np.minimum(np.searchsorted(self._levels, codes), len(self._levels) - 1)
        return np.where(self._levels[places] == codes, places, -1)

    @property
    def deciles(self) -> Floats:
        """Deciles of numbers; empty for categories."""
        return np.empty(0) if self.categories is not None else np.quantile(self._present, DECILES)

    def nearest(self, size: int) -> NDArray[np.intp]:
        """Place on the grid that is nearest to each row; -1 for an unknown category and a missing number."""
        if self.numbered:
            return self._place(self.rows[:, 0])
        if self.categories is not None:
            return np.where(self.rows.any(axis=1), self.rows.argmax(axis=1), -1)
        low, high = self.ends
        places = np.rint((self.rows[:, 0] - low) / (high - low) * (size - 1))
        return np.where(np.isnan(places), -1, places).astype(np.intp)

    @cached_property
    def _knots(self) -> tuple[Floats, int]:
        """Knots and degree of the splines: all values of an input that has few, else quantiles."""
        distinct = np.unique(self._present)
        n_functions = int(np.clip(round(len(self.rows) ** 0.25), MIN_FUNCTIONS, MAX_FUNCTIONS))
        if len(distinct) <= n_functions:
            return distinct, 1
        return np.unique(np.quantile(self._present, np.linspace(0, 1, n_functions - 2))), 3

    def functions(self, codes: Floats) -> Floats:
        """Functions of this input alone, (m, number of functions), at some values given as encoded columns.

        Indicators of categories; of numbers B-splines, cubic with knots at quantiles, or piecewise linear between all
        values if these are few, which is an indicator of each on the rows. They add up to one, and are zero where the
        input is missing. Numbered categories that are not among the most frequent ones share an indicator.
        """
        if self.numbered:
            return (self._place(codes[:, 0])[:, None] == np.arange(-1, len(self._levels))).astype(np.float64)
        if self.categories is not None:
            return codes
        knots, degree = self._knots
        present = ~np.isnan(codes[:, 0])
        if len(knots) < 2:
            return present[:, None].astype(np.float64)
        padded = np.concatenate([np.repeat(knots[0], degree), knots, np.repeat(knots[-1], degree)])
        places = np.clip(np.where(present, codes[:, 0], knots[0]), knots[0], knots[-1])
        return BSpline.design_matrix(places, padded, degree).toarray() * present[:, None]

    @cached_property
    def row_functions(self) -> Floats:
        """These functions at the rows."""
        return self.functions(self.rows)


def make_inputs(blocks: list[Block], U: Floats) -> list[Input]:
    """The inputs that encoded columns belong to."""
    found, start = [], 0
    for block in blocks:
        columns = start + np.arange(block.n_columns)
        found.append(Input(block.name, block.categories, columns, U[:, columns], block.numbered))
        start += len(columns)
    return found


def density(inputs: list[Input], shape: tuple[int, ...]) -> Floats:
    """Share of the rows that are nearest to each point of the grid of one input, or of two."""
    places = np.array([one.nearest(size) for one, size in zip(inputs, shape, strict=True)])
    places = places[:, (places >= 0).all(axis=0)]
    counts = np.bincount(np.ravel_multi_index(tuple(places), shape), minlength=int(np.prod(shape)))
    return counts.reshape(shape) / len(inputs[0].rows)


def spread_rows(blocks: list[Block], ends: Floats) -> Floats:
    """Rows of encoded columns that cover the ranges of all inputs evenly and independently (Latin hypercube).

    They stand for the samples of a model that is drawn without any. The rows of `ends` are the lowest and the highest
    value of each column.
    """
    rng, even = np.random.default_rng(0), (np.arange(SPREAD_ROWS) + 0.5) / SPREAD_ROWS
    U, start = np.zeros((SPREAD_ROWS, ends.shape[1])), 0
    for block in blocks:
        places = rng.permutation(even)
        if block.categories is None:
            low, high = ends[:, start]
            U[:, start] = low + (high - low) * (places - even[0]) / (even[-1] - even[0])
        else:
            numbers = (places * len(block.categories)).astype(np.intp)
            if block.numbered:
                U[:, start] = numbers
            else:
                U[np.arange(SPREAD_ROWS), start + numbers] = 1.0
        start += block.n_columns
    return U


def total_effects(inputs: list[Input], outputs: list[Callable[[Floats], Floats]], U: Floats) -> dict[str, Floats]:
    """Total effect of some inputs on each output, (q,), by their names.

    It is the root of half the mean squared change of the output f when the value of the input is taken from any row,
    `sqrt(mean (f(x) - f(x with x_j of any row))^2 / 2)`: Jansen's (1999) estimator of the total variance due to an
    input, over the rows as they are. Permuting the input raises the mean squared error by twice its square, as far as
    the residuals are not correlated with the change, so its order is that of permutation importance. The square is the
    sum of the squared strengths of all effects that the input is part of if inputs are independent; for an input that
    acts alone it is the strength of its effect, whatever the distribution.

    `outputs` are the parts of the outputs, (m, q), that depend on each input, as functions of rows of encoded columns.
    All pairs of rows are used if these are few, else some random permutations with a fixed seed.
    """
    n, totals = len(U), {}
    order, shifts = np.random.default_rng(0).permutation(n), range(1, min(n, 1 + -(-TOTAL_ROWS // n)))
    for one, output in zip(inputs, outputs, strict=True):
        own = output(U)
        squares = np.zeros(own.shape[1])
        for shift in shifts:
            moved = U.copy()
            moved[np.ix_(order, one.columns)] = U[np.ix_(np.roll(order, shift), one.columns)]
            squares += ((output(moved) - own) ** 2).mean(axis=0)
        totals[one.name] = np.sqrt((n - 1) / n * squares / max(2 * len(shifts), 1))  # a row is drawn itself as well
    return totals
