"""Bounds of the predictions of a model over a box, by branch and bound with interval arithmetic.

A box is bounded in three ways, of which the best counts: by the values of all operations on intervals; by the mean
value theorem, f(x) in f(c) + f'(box) (x - c) around its centre c; and where a derivative has one sign, by the values on
that side of the box. The boxes with the least bounds are halved until no box can have a prediction that is lower, by
more than the tolerance, than the lowest one found. Groups of terms without common inputs are bounded separately.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import qmc

from termwise._arrays import limited
from termwise.basis.encoder import VALUE, listing
from termwise.basis.expressions import Expression
from termwise.deploy.formulas import Cell, Formulas, cells_of
from termwise.deploy.inputs import Input, as_float, is_missing_value
from termwise.deploy.intervals import WeightedSum
from termwise.deploy.program import Program

Floats = NDArray[np.float64]

BATCH = 64  # boxes that are halved at a time
N_STARTS = 128  # points at which a search for the lowest prediction begins


def read_box(inputs: Sequence[Input], used: Iterable[int], box: Any) -> list[tuple[float, float]]:
    """Return the ends of every input, positions of categories among them, or raise.

    A box is a mapping from names to pairs (low, high), or to one value, or a sequence of these in the order of inputs.
    Inputs not in use may have no entry, or None, and are zero then; with one, the points that are found lie inside it.
    """
    names = [one.name for one in inputs]
    if not isinstance(box, Mapping):
        if not hasattr(box, "__len__") or isinstance(box, str) or len(box) != len(names):
            got = len(box) if hasattr(box, "__len__") else type(box).__name__
            raise ValueError(
                f"box must have a pair (low, high) for each of {len(names)} inputs, got {got}: or give a dict by their "
                "names."
            )
        box = dict(zip(names, box, strict=True))
    unknown, absent = [name for name in box if name not in names], [names[j] for j in used if names[j] not in box]
    if unknown or absent:
        what = f"none for {listing(absent)}" if absent else f"one for {listing(map(str, unknown))}"
        raise ValueError(
            f"box must have an entry for the inputs in use, got {what}: the model uses "
            f"{listing(names[j] for j in used)}."
        )
    wanted = set(used)
    return [
        read_ends(one, box[one.name]) if j in wanted or box.get(one.name) is not None else (0.0, 0.0)
        for j, one in enumerate(inputs)
    ]


def read_ends(one: Input, given: Any) -> tuple[float, float]:
    """Return the ends of an input: numbers, or twice the position of a category."""
    if one.categories is not None:
        if not isinstance(given, Hashable) or is_missing_value(given) or given not in one.categories:
            raise ValueError(
                f"box must have one category for {one.name}, got {given!r}: it is one of "
                f"{listing(map(repr, one.categories))}."
            )
        return (float(one.categories.index(given)),) * 2
    ends = [given, given] if isinstance(given, Real) else list(given) if hasattr(given, "__iter__") else []
    numbers = len(ends) == 2 and all(isinstance(end, Real) and np.isfinite(as_float(end)) for end in ends)
    if not numbers or ends[0] > ends[1]:
        raise ValueError(
            f"box must have two finite numbers low <= high for {one.name}, got {given!r}: one number is a fixed value."
        )
    low, high = float(ends[0]), float(ends[1])
    if np.isinf(high - low):
        raise ValueError(
            f"box must have a finite width high - low for {one.name}, got {given!r}: give the range that the input has."
        )
    return low, high


class BoxBounds:
    """Bounds of the q outputs of a model over a box."""

    def __init__(self, program: Program, box: Any, tol: float, max_boxes: int) -> None:
        program.check_single_rows("bounds")
        self.program, self.tol, self.max_boxes = program, tol, max_boxes
        self.inputs = program.schema.inputs
        self.ends = read_box(self.inputs, program.schema.used, box)
        self.terms = Formulas.from_program(program).terms
        self.fixed: dict[Expression, float] = {}
        self.varying: dict[Expression, int] = {}  # the input of each cell that varies
        for node in cells_of(self.terms):
            cell: Cell = node.arguments[0]
            one, (low, high) = self.inputs[cell.input], self.ends[cell.input]
            if cell.code == VALUE and high > low:
                self.varying[node] = cell.input
            else:
                self.fixed[node] = float(one.encode(np.array([low]), cell.code)[0])

    def find(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return lower and upper bounds, (q,) each, and where the extreme predictions were found, (q, d) each."""
        linear, groups = self.program.linear, self.groups()
        q, middle = len(linear.intercept), np.array([low + (high - low) / 2 for low, high in self.ends])
        bounds, points = np.tile(linear.intercept, (2, 1)), np.tile(middle, (2, q, 1))
        for i in range(q):
            for members in groups:
                weights = linear.weights[i, members]
                for side, sign in enumerate((1.0, -1.0)):
                    bound, point, places = self.minimum(members, sign * weights)
                    bounds[side, i] += sign * bound
                    points[side, i, places] = point
        rounding = np.finfo(np.float64).eps * (len(groups) + 1) * np.abs(linear.intercept)
        outside = bounds - rounding * np.array([[1.0], [-1.0]])
        lower, upper = self.program.respond(limited(outside, linear.limits))
        if self.program.link == "sorted":
            order = np.argsort(bounds, axis=1, kind="stable")
            points = np.take_along_axis(points, order[:, :, None], axis=1)
        return lower, upper, points[0], points[1]

    def groups(self) -> list[list[int]]:
        """Return groups of terms that have no inputs in common."""
        found: list[tuple[set[int], list[int]]] = []
        for k, term in enumerate(self.terms):
            inputs, members = {self.varying[node] for node in cells_of([term]) if node in self.varying}, [k]
            for group in [group for group in found if group[0] & inputs]:
                inputs, members = inputs | group[0], group[1] + members
                found.remove(group)
            found.append((inputs, members))
        return [sorted(members) for _, members in found]

    def minimum(self, members: Sequence[int], weights: Floats) -> tuple[float, Floats, list[int]]:
        """Return a lower bound of a weighted sum of some terms, the lowest point that was found, and its inputs."""
        terms = [self.terms[k] for k in members]
        variables = [node for node in cells_of(terms) if node in self.varying]
        places = [self.varying[node] for node in variables]
        function = WeightedSum(terms, weights, variables, self.fixed)
        ends = np.array([self.ends[j] for j in places]).reshape(-1, 2)
        return *branch_and_bound(function, ends[:, 0], ends[:, 1], self.tol, self.max_boxes), places


def branch_and_bound(
    function: WeightedSum, low: Floats, high: Floats, tol: float, max_boxes: int
) -> tuple[float, Floats]:
    """Return a lower bound of a function over a box, at most `tol` of its range below its minimum, and a low point.

    After `max_boxes` boxes the search ends with the bound that holds so far.
    """
    if not len(low):
        total, _ = function.values(np.empty((1, 0)), np.empty((1, 0)))
        return float(total.low[0]), low
    point, best, spread = local_minimum(function, low, high)
    gap, floor, count = tol * spread, np.inf, 1
    lows, highs = low[None], high[None]
    bounds, slopes = lower_bounds(function, lows, highs)[:2]
    while len(bounds) and count < max_boxes:
        order = np.argsort(bounds, kind="stable")
        first, rest = order[:BATCH], order[BATCH:]
        halves = halve(lows[first], highs[first], slopes[first], spread / (high - low))
        new, new_slopes, values = lower_bounds(function, *halves)
        if values.min() < best:
            best, point = float(values.min()), centres(*halves)[values.argmin()]
        new = np.maximum(new, np.tile(bounds[first], 2))
        lows, highs = np.vstack([lows[rest], halves[0]]), np.vstack([highs[rest], halves[1]])
        bounds, slopes = np.concatenate([bounds[rest], new]), np.concatenate([slopes[rest], new_slopes])
        done = bounds >= best - gap
        floor, count = min(floor, bounds[done].min(initial=np.inf)), count + len(new)
        lows, highs, bounds, slopes = lows[~done], highs[~done], bounds[~done], slopes[~done]
    return min(floor, bounds.min(initial=np.inf)), point


def local_minimum(function: WeightedSum, low: Floats, high: Floats) -> tuple[Floats, float, float]:
    """Return a local minimum, its value, and the range of values at points all over the box."""
    points = qmc.scale(qmc.Sobol(len(low), rng=0).random(N_STARTS), low, high) if len(low) <= 21201 else low[None]
    values = function.values(points, points)[0].high

    def descend(x: Floats) -> tuple[float, Floats]:
        inside = np.clip(x, low, high)[None]
        total, parts = function.values(inside, inside)
        slopes = function.gradient(parts, 1)
        return float(total.high[0]), np.nan_to_num((slopes.low + slopes.high)[0] / 2)

    start = points[values.argmin()]
    found = minimize(descend, start, jac=True, method="L-BFGS-B", bounds=list(zip(low, high, strict=True)))
    end = np.clip(found.x, low, high)
    value, _ = descend(end)
    if value > values.min():
        end, value = start, float(values.min())
    return end, value, float(np.ptp(np.append(values, value)))


def centres(low: Floats, high: Floats) -> Floats:
    """Return the centres of boxes."""
    return low + (high - low) / 2


def lower_bounds(function: WeightedSum, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """Return lower bounds of a function over boxes, its largest absolute derivatives, and its values at the centres."""
    total, parts = function.values(low, high)
    slopes, centre = function.gradient(parts, len(low)), centres(low, high)
    at_centre, _ = function.values(centre, centre)
    steepest = np.maximum(np.abs(slopes.low), np.abs(slopes.high))
    widths = np.maximum(high - centre, centre - low)
    with np.errstate(invalid="ignore"):
        falls = np.where(widths > 0, steepest * widths, 0.0).sum(axis=1)
    central = at_centre.low - falls * (1 + 1e-12)
    # the minimum is on one side of a box in the inputs along which the function is monotone
    rising, falling = slopes.low >= 0, slopes.high <= 0
    sides, _ = function.values(np.where(falling & ~rising, high, low), np.where(rising, low, high))
    return np.maximum.reduce([total.low, central, sides.low]), steepest, at_centre.high


def halve(low: Floats, high: Floats, steepest: Floats, mean_slope: Floats) -> tuple[Floats, Floats]:
    """Halve boxes along the input that may change the function most; at jumps a mean slope counts."""
    change = np.where(np.isfinite(steepest), steepest, mean_slope) * (high - low)
    rows, axis = np.arange(len(low)), np.where(high > low, change, -1.0).argmax(axis=1)
    middle = centres(low, high)[rows, axis]
    left, right = high.copy(), low.copy()
    left[rows, axis] = middle
    right[rows, axis] = middle
    return np.vstack([low, right]), np.vstack([left, high])
