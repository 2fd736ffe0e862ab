"""The steps of a model: each maps a matrix Z of shape (n, inputs) to one of shape (n, terms).

Nearly all are a record of parameters and the expression of a basis function; the other ones select, lag, multiply or
concatenate columns. An export format implements these few kinds of steps, and thereby every basis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from termwise.basis.derived import LOGARITHM
from termwise.basis.expressions import SUMS, Expression, evaluate, variable, where, z
from termwise.basis.inputs import CLIPPED
from termwise.basis.lag import lagged
from termwise.basis.shapes import SHAPES, present_function, single_function
from termwise.deploy.document import Integers, Reals, Record, Sizes, Values, invalid, read, specs

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

STEPS: dict[str, type[ProgramStep]] = {}  # by their kinds, which model files name


@dataclass_transform(frozen_default=True, eq_default=False)
class ProgramStep(Record):
    """A function from rows of numbers to rows of numbers; subclasses are frozen dataclasses of its parameters.

    Its terms are all values of one expression, with parameters along the axis of the terms or of the inputs, unless it
    overrides `evaluate`. The variable `z` is the input in `columns`, if there is such a field, each input in turn
    inside a sum over inputs, and otherwise the input with the number of the term.

    Parameters
    ----------
    kind : str, default=""
        Its name in files; without one a step cannot be stored.
    axis : {"terms", "inputs", "singles"}, default="terms"
        Axis of its arrays that is restricted with the terms, and along which an expression is evaluated.
    expression : Expression, default=None
        Its formula.
    """

    axis: ClassVar[str] = "terms"
    expression: ClassVar[Any]

    def __init_subclass__(cls, kind: str = "", axis: str = "", expression: Expression | None = None) -> None:
        if kind:
            STEPS[kind] = cls
            cls.header = {"step": kind}
        cls.axis = axis or cls.axis
        if expression is not None:
            cls.expression = expression
        dataclass(frozen=True, eq=False)(cls)

    @property
    def n_inputs(self) -> int:
        """Number of columns it is applied to: the length of its arrays, or the largest of its indices."""
        indices = [name for name, spec in specs(type(self)).items() if getattr(spec, "of", "") == "inputs"]
        largest = [getattr(self, name).max(initial=-1) + 1 for name in indices]
        return self.axis_lengths().get("inputs") or int(max(largest, default=0))

    @property
    def n_terms(self) -> int:
        """Number of columns of its result."""
        lengths = self.axis_lengths()
        return lengths["terms" if "terms" in lengths else "inputs"]

    def is_per_term(self, name: str) -> bool:
        """Whether a parameter has an entry, or a row, for every term."""
        return self.axis in specs(type(self))[name].axes

    @cached_property
    def tables(self) -> dict[str, NDArray[Any]]:
        """Parameters in the expression, matrices with a row for every term, and the columns if there are such."""
        names = {"columns", *self.expression.variables()}
        axes = {name: spec.axes for name, spec in specs(type(self)).items() if name in names}
        return {
            name: getattr(self, name).T if each[-1] == self.axis else getattr(self, name) for name, each in axes.items()
        }

    @cached_property
    def sums(self) -> bool:
        """Whether the expression has a sum over inputs."""
        return any(node.operation in SUMS for node in self.expression.nodes())

    @cached_property
    def parameters(self) -> dict[str, NDArray[Any]]:
        """Parameters in the expression, in shapes that agree with z of shape (n, 1, inputs) inside sums."""
        sums = [node for node in self.expression.nodes() if node.operation in SUMS]
        inside = {name for node in sums for name in node.variables()}
        tables = {name: value for name, value in self.tables.items() if name != "columns"}
        column = {name for name in tables if name in inside and tables[name].ndim == 1 and self.is_per_term(name)}
        return {name: value[:, None] if name in column else value for name, value in tables.items()}

    def evaluate(self, Z: Floats) -> Floats:
        """Return its terms on rows of its inputs: here, the values of the expression."""
        columns = self.tables.get("columns")
        values = Z[:, None] if self.sums else Z if columns is None else Z.T[columns].T
        return evaluate(self.expression, {"z": values, **self.parameters})

    def restrict(self, terms: Indices) -> tuple[ProgramStep | None, Indices]:
        """Return a step with only these terms, in this order, and the columns it must be applied to.

        None for the identity. Here, the entries of its arrays along its axis are selected.
        """
        axes = {name: spec.axes for name, spec in specs(type(self)).items() if isinstance(spec, Values)}
        changed = {
            name: np.take(getattr(self, name), terms, axis=each.index(self.axis))
            for name, each in axes.items()
            if self.axis in each
        }
        needed = terms if self.axis == "inputs" else np.arange(self.n_inputs)
        if "columns" in changed:
            needed, changed["columns"] = np.unique(changed["columns"], return_inverse=True)
        return replace(self, **changed), needed  # type: ignore[type-var]


class PairProducts(ProgramStep, kind="anova", axis="singles"):
    """Products of one or two functions of single inputs, of `AnovaBasis`."""

    columns: Annotated[Indices, Integers(("singles",), of="inputs")]
    places: Annotated[Floats, Reals(("singles",))]
    units: Annotated[Floats, Reals(("singles",), positive=True)]
    # the shape of each function, a place in `basis.shapes.SHAPES`; in the first files there were lines, 0, and bumps, 1
    bumps: Annotated[Indices, Integers(("singles",), of="shapes")]
    first: Annotated[Indices, Integers(("terms",), of="singles")]
    second: Annotated[Indices, Integers(("terms",), of="singles", low=-1)]  # -1 for no second factor
    known_sizes: ClassVar[Sizes] = {"shapes": len(SHAPES)}

    @cached_property
    def expression(self) -> Expression:
        """The functions of single inputs, of the kinds in use."""
        return single_function(frozenset(self.bumps.tolist()))

    @cached_property
    def products(self) -> tuple[Indices, Indices]:
        """Terms that are products, and their second factors."""
        terms = np.flatnonzero(self.second >= 0)
        return terms, self.second[terms]

    def evaluate(self, Z: Floats) -> Floats:
        """Multiply single functions."""
        singles, (products, factors) = super().evaluate(Z), self.products
        terms = singles.T[self.first]
        terms[products] *= singles.T[factors]
        return terms.T

    def restrict(self, terms: Indices) -> tuple[ProgramStep | None, Indices]:
        """Restrict it to some products and the single functions in them."""
        both = np.append(self.first[terms], self.second[terms])
        used = np.unique(both[both >= 0])
        singles, needed = super().restrict(used)
        first, second = np.split(np.where(both < 0, -1, np.searchsorted(used, both)), 2)
        return replace(singles, first=first, second=second), needed  # type: ignore[type-var]


class PresentPairProducts(PairProducts, kind="anova_missing"):
    """Products of one or two functions of single inputs, which are zero where their input is missing."""

    @cached_property
    def expression(self) -> Expression:
        """The functions of single inputs, of the kinds in use."""
        return present_function(frozenset(self.bumps.tolist()))


class FillMissing(ProgramStep, kind="fill", axis="inputs", expression=where(np.isnan(z), variable("values"), z)):
    """Replace missing values, by the values of inputs at which their functions are zero."""

    values: Annotated[Floats, Reals(("inputs",))]


class Logarithms(ProgramStep, kind="log", axis="inputs", expression=LOGARITHM):
    """Inputs of which some are replaced by their logarithms, of `LogInputs`."""

    logarithm: Annotated[Floats, Reals(("inputs",))]  # 1 for an input that is replaced, else 0
    shift: Annotated[Floats, Reals(("inputs",))]
    floor: Annotated[Floats, Reals(("inputs",), positive=True)]

    def restrict(self, terms: Indices) -> tuple[ProgramStep | None, Indices]:
        """Restrict it to some inputs; without a logarithm it is the identity."""
        return super().restrict(terms) if self.logarithm[terms].any() else (None, terms)


class ClipToRange(ProgramStep, kind="range", axis="inputs", expression=CLIPPED):
    """Clip inputs to the range of the training data."""

    low: Annotated[Floats, Reals(("inputs",))]
    high: Annotated[Floats, Reals(("inputs",))]


class LevelEffects(ProgramStep, kind="levels"):
    """Numbers of levels replaced by the effects of these, of `LevelMeans`; zero for levels without one."""

    columns: Annotated[Indices, Integers(("terms",), of="inputs")]
    sizes: Annotated[Indices, Integers(("terms",))]  # number of levels; 0 for an input that stays as it is
    effects: Annotated[Floats, Reals(("levels",))]  # those of all terms, one after the other

    @classmethod
    def from_plain(cls, data: Any, place: str, sizes: Sizes) -> Self:
        """Return the step that plain data describe, with an effect for every level."""
        step = super().from_plain(data, place, sizes)
        n_levels = sum(step.sizes.tolist())
        if n_levels != len(step.effects):
            raise invalid(f"{place}.effects", f"a list of {n_levels} levels, the sum of sizes", len(step.effects))
        return step

    @cached_property
    def offsets(self) -> Indices:
        """Place of the first effect of each term."""
        return np.cumsum(self.sizes) - self.sizes

    def evaluate(self, Z: Floats) -> Floats:
        """Look up the effects."""
        terms = Z[:, self.columns]
        known = (terms >= 0) & (terms < self.sizes)
        places = np.where(known, terms + self.offsets, len(self.effects)).astype(np.intp)
        return np.where(self.sizes > 0, np.append(self.effects, 0.0)[places], terms)

    def restrict(self, terms: Indices) -> tuple[ProgramStep | None, Indices]:
        """Restrict it to some inputs and their effects."""
        if not self.sizes[terms].any():
            return None, self.columns[terms]
        needed, columns = np.unique(self.columns[terms], return_inverse=True)
        own = [self.effects[self.offsets[k] :][: self.sizes[k]] for k in terms]
        return LevelEffects(columns, self.sizes[terms], np.concatenate(own)), needed


class SelectColumns(ProgramStep, expression=z):
    """Some columns unchanged; pruning removes it, so that it has no kind in files."""

    columns: Annotated[Indices, Integers(("terms",), of="inputs")]

    def restrict(self, terms: Indices) -> tuple[None, Indices]:
        """Return the identity on the right columns."""
        return None, self.columns[terms]


class Lags(ProgramStep, kind="lags"):
    """Columns of earlier rows: row t holds `z[t - lag]`, with the first row repeated before it."""

    columns: Annotated[Indices, Integers(("terms",), of="inputs")]
    lags: Annotated[Indices, Integers(("terms",))]

    @property
    def longest(self) -> int:
        """Number of earlier rows in use."""
        return int(self.lags.max(initial=0))

    def evaluate(self, Z: Floats) -> Floats:
        """Select past values; only those in use must be finite."""
        past = lagged(Z, self.columns, self.lags)
        missing = np.argwhere(~np.isfinite(past))
        if len(missing):
            raise ValueError(
                f"X must hold the past values used by predictions, got NaN or infinity {self.lags[missing[0][1]]} "
                f"rows before row {missing[0][0]}: fill it, or begin later."
            )
        return past


@dataclass(frozen=True, eq=False)
class Branch(Record):
    """A chain of steps applied to some columns."""

    columns: Annotated[Indices, Integers(("indices",), of="inputs")]
    steps: Annotated[tuple[ProgramStep, ...], read_steps]

    @property
    def n_terms(self) -> int:
        """Number of columns of its result."""
        return self.steps[-1].n_terms if self.steps else len(self.columns)


class Concatenate(ProgramStep, kind="beside"):
    """The terms of several branches side by side, of `UnionBasis` and of the widths of `SmoothBasis`."""

    parts: Annotated[tuple[Branch, ...], read_branches]
    order: Annotated[Indices, Integers(("terms",), of="branches")]  # of the terms among those of all branches

    @property
    def n_inputs(self) -> int:
        """Number of columns it is applied to, at least."""
        return max((int(part.columns.max(initial=-1)) + 1 for part in self.parts), default=0)

    @cached_property
    def in_order(self) -> bool:
        """Whether its terms are those of all branches, one after the other."""
        return np.array_equal(self.order, np.arange(sum(part.n_terms for part in self.parts)))

    def evaluate(self, Z: Floats) -> Floats:
        """Evaluate all branches."""
        terms = [apply(part.steps, Z.T[part.columns].T) for part in self.parts]
        columns = np.concatenate([np.empty((0, len(Z))), *(part.T for part in terms)])  # columns are contiguous
        return (columns if self.in_order else columns[self.order]).T

    def restrict(self, terms: Indices) -> tuple[Concatenate, Indices]:
        """Restrict every branch to its terms among these, and drop branches without any."""
        wanted, order = np.unique(self.order[terms], return_inverse=True)
        ends = np.cumsum([0, *(part.n_terms for part in self.parts)])
        parts = []
        for part, (low, high) in zip(self.parts, pairwise(ends), strict=True):
            share = wanted[(wanted >= low) & (wanted < high)] - low
            if len(share):
                steps, columns = prune(part.steps, share)
                parts.append(Branch(part.columns[columns], steps))
        needed = np.unique(np.concatenate([np.empty(0, dtype=np.intp), *(part.columns for part in parts)]))
        parts = [replace(part, columns=np.searchsorted(needed, part.columns)) for part in parts]
        return Concatenate(tuple(parts), order), needed


# -- chains of steps ---------------------------------------------------------------------------------------------------


def apply(steps: tuple[ProgramStep, ...], Z: Floats) -> Floats:
    """Apply a chain of steps to rows."""
    for step in steps:
        Z = step.evaluate(Z)
    return Z


def clips(steps: tuple[ProgramStep, ...]) -> bool:
    """Whether some step of a chain, also inside branches, clips inputs to the range of the training data."""
    parts = [part for step in steps if isinstance(step, Concatenate) for part in step.parts]
    return any(isinstance(step, ClipToRange) for step in steps) or any(clips(part.steps) for part in parts)


def clipped_values(steps: tuple[ProgramStep, ...], Z: Floats) -> NDArray[np.bool_]:
    """Return which entries of Z a chain of steps clips to the range of the training data.

    Where a clipped value is computed from several entries of a row, it is all of that row.
    """
    found = np.zeros(Z.shape, dtype=bool)
    if not clips(steps):
        return found
    step, rest = steps[0], steps[1:]
    if isinstance(step, ClipToRange):
        found |= (step.low > Z) | (step.high < Z)
    for part in step.parts if isinstance(step, Concatenate) else ():
        np.logical_or.at(found.T, part.columns, clipped_values(part.steps, Z[:, part.columns]).T)
    later = clipped_values(rest, step.evaluate(Z)) if clips(rest) else np.zeros((len(Z), step.n_terms), dtype=bool)
    if step.axis == "inputs":
        return found | later
    if isinstance(step, Lags | LevelEffects):
        np.logical_or.at(found.T, step.columns, later.T)
        return found
    return found | later.any(axis=1, keepdims=True)


def prune(steps: tuple[ProgramStep, ...], terms: Indices) -> tuple[tuple[ProgramStep, ...], Indices]:
    """Restrict a chain to what some of its terms need; return also the columns it must be applied to."""
    kept: list[ProgramStep] = []
    for step in reversed(steps):
        smaller, terms = step.restrict(terms)
        kept += [] if smaller is None else [smaller]
    return tuple(reversed(kept)), terms


def read_steps(data: Any, place: str, sizes: Sizes) -> tuple[ProgramStep, ...]:
    """Return the chain that plain data describe, applied to as many columns as there are indices of columns."""
    steps: list[ProgramStep] = []
    n_inputs = sizes["indices"]
    for i, one in enumerate(read(list, data, place, sizes)):
        at = f"{place}[{i}]"
        kind = one.get("step") if isinstance(one, dict) else one
        if not isinstance(one, dict) or not isinstance(kind, str) or kind not in STEPS:
            raise invalid(at, f"a step that is one of {', '.join(STEPS)}", kind)
        rest = {name: value for name, value in one.items() if name != "step"}
        steps.append(STEPS[kind].from_plain(rest, at, {"inputs": n_inputs}))
        if steps[-1].n_inputs != n_inputs:
            raise ValueError(f"{at} must use all {n_inputs} columns it is given, got only {steps[-1].n_inputs} in use")
        n_inputs = steps[-1].n_terms
    return tuple(steps)


def read_branches(data: Any, place: str, sizes: Sizes) -> tuple[Branch, ...]:
    """Return the branches that plain data describe, and set the number of their terms."""
    known = {"inputs": sizes["inputs"]}
    listed = enumerate(read(list, data, place, sizes))
    branches = tuple(Branch.from_plain(one, f"{place}[{i}]", known) for i, one in listed)
    sizes["branches"] = sum(branch.n_terms for branch in branches)
    return branches


def check_lags(steps: tuple[ProgramStep, ...], place: str, allowed: int = 1) -> None:
    """Raise unless at most one step of a chain refers to earlier rows, and none inside branches."""
    if sum(isinstance(step, Lags) for step in steps) > allowed:
        raise ValueError(f"{place} must have one step of lags at most, and none beside others, got more")
    for step in steps:
        for part in step.parts if isinstance(step, Concatenate) else ():
            check_lags(part.steps, place, allowed=0)
