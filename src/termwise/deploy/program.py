"""A fitted model as plain data: encode a table, apply a chain of steps, combine the terms linearly, assign labels.

A step maps a matrix Z of shape (n, inputs) to one of shape (n, terms). Nearly all are a record of parameters and the
expression of a basis function; the other ones select, lag, multiply or concatenate columns. An export format implements
these few kinds of steps, and thereby every basis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from termwise.basis.expressions import SUMS, Expression, evaluate, variable, where, z
from termwise.basis.inputs import CLIPPED
from termwise.basis.lag import lagged
from termwise.basis.shapes import SHAPES, present_function, single_function
from termwise.deploy.document import (
    Integers,
    Reals,
    Record,
    Sizes,
    Strings,
    Values,
    invalid,
    read,
    read_dict,
    read_scalars,
    specs,
    to_plain,
)
from termwise.deploy.inputs import InputSchema
from termwise.deploy.many_rows import evaluate_rows
from termwise.design import combine_columns
from termwise.linalg.conformal import ResidualScale, cv_plus
from termwise.linalg.losses import LINKS

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

RESPONSES = ("identity", "log", "sorted")  # links of regressions; probabilities of classes have a slope of their own
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


def as_float32(values: Any) -> NDArray[np.float32]:
    """Return numbers in float32 for an export of that precision, or raise if some are too large for it."""
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
    if np.isinf(short).any():
        worst = float(np.ravel(values)[np.flatnonzero(np.isinf(short))[0]])
        raise ValueError(f"dtype must be 'float64' for this model, got 'float32', which cannot hold {worst!r}.")
    return short


# -- outputs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Linear(Record):
    """`W g + intercept`: the linear combination of the terms."""

    names: Annotated[tuple[str, ...], Strings(("terms",))]
    weights: Annotated[Floats, Reals(("outputs", "terms"))]
    intercept: Annotated[Floats, Reals(("outputs",))]
    one_output: bool  # whether the targets were a vector

    def combine(self, terms: Floats) -> Floats:
        """Return the outputs for rows of the terms, one column each."""
        return terms @ self.weights.T + self.intercept


@dataclass(frozen=True, eq=False)
class ClassLabels(Record):
    """Classes: the second one where a single output is not negative, otherwise that of the largest output."""

    classes: Annotated[list[Any], read_scalars]
    sharpness: float | None  # inverse temperature of the softmax; None: no probabilities


@dataclass(frozen=True, eq=False)
class FoldResiduals(Record):
    """Residuals of the samples of a fold, without the model of that fold; of many, their quantiles."""

    residuals: Annotated[Floats, Reals(("outputs", "samples"))]
    scaled: Annotated[Floats, Reals(("outputs", "samples"))]  # divided by their scale
    sample_weight: Annotated[Floats, Reals(("samples",), positive=True)]
    scale_weights: Annotated[Floats, Reals(("outputs", "terms"))]  # of the logarithm of the scale
    scale_intercept: Annotated[Floats, Reals(("outputs",))]
    scale_limits: Annotated[Floats, Reals(("ends", "outputs"))]
    known_sizes: ClassVar[Sizes] = {"ends": 2}


@dataclass(frozen=True, eq=False)
class FoldProgram:
    """A model that was fitted without a fold, and the residuals of that fold."""

    program: Program
    residuals: FoldResiduals

    def evaluate(self, X: Any) -> tuple[Floats, Floats]:
        """Return the outputs for a table and the scale of the residuals, (m, q) each."""
        terms, numbers = self.program.terms(X), self.residuals
        scale = ResidualScale(numbers.scale_weights.T, numbers.scale_intercept, numbers.scale_limits)
        return self.program.respond(self.program.linear.combine(terms)), scale.evaluate(terms)

    def to_plain(self) -> dict[str, Any]:
        """Return plain data, without the inputs, which are those of the model of all samples."""
        encoding = {name: to_plain(getattr(self.program.schema, name)) for name in ("columns", "categories")}
        parts = {name: to_plain(getattr(self.program, name)) for name in ("steps", "linear")}
        return {**encoding, **parts, **to_plain(self.residuals)}

    @classmethod
    def from_plain(cls, data: Any, place: str, inputs: Any, link: str) -> FoldProgram:
        """Return the model that plain data describe, given the plain data of the inputs and the link."""
        own, names = ["columns", "categories", "steps", "linear"], list(specs(FoldResiduals))
        data = read_dict(data, place, [*own, *names])
        fixed = {"inputs": inputs, "labels": None, "series": None}
        program = Program.from_plain({**{name: data[name] for name in own}, **fixed}, place)
        sizes = {"outputs": len(program.linear.intercept), "terms": len(program.linear.names)}
        return cls(
            replace(program, link=link), FoldResiduals.from_plain({name: data[name] for name in names}, place, sizes)
        )


@dataclass(frozen=True, eq=False)
class Program:
    """A fitted model, and nothing that its predictions do not need."""

    schema: InputSchema
    steps: tuple[ProgramStep, ...]
    linear: Linear
    labels: ClassLabels | None
    series: str | None = None  # the predicted input of a model of past values
    folds: tuple[FoldProgram, ...] = ()  # of a cross-validation that repeats the selection of terms
    link: str = "identity"  # one of `RESPONSES`: how outputs become predictions of a regression

    @property
    def lags(self) -> Lags | None:
        """The step that refers to earlier rows, if there is one."""
        return next((step for step in self.steps if isinstance(step, Lags)), None)

    @cached_property
    def width(self) -> int:
        """Number of columns of all intermediate results together."""
        return len(self.schema.columns) + sum(step.n_terms for step in self.steps)

    def terms(self, X: Any) -> Floats:
        """Return the terms for a table, one column each."""
        Z = self.schema.encode(X, complete=self.lags is None)  # the last row of a series may be unknown
        return apply(self.steps, Z)

    def outputs(self, X: Any) -> Floats:
        """Return the outputs for a table, one column each."""
        linear = self.linear
        if self.lags is not None:  # which refer to other rows
            return linear.combine(self.terms(X))
        if not self.steps and self.schema.takes_numbers(X) and X.ndim == 2 and X.shape[1] == len(self.schema.inputs):
            outputs = combine_columns(X, self.schema.columns, linear.weights.T, linear.intercept)
            if outputs is not None:
                return outputs
        return evaluate_rows(
            self.schema, X, lambda Z: linear.combine(apply(self.steps, Z)), len(linear.intercept), self.width
        )

    def respond(self, outputs: Floats, dtype: Any = np.float64) -> Floats:
        """Return predictions for outputs, in the range of a dtype; those of a classifier stay scores."""
        return LINKS[self.link](outputs, dtype)

    def clipped(self, X: Any) -> NDArray[np.bool_]:
        """Return which inputs of every row of a table are clipped to the range of the training data."""
        values = clipped_values(self.steps, self.schema.encode(X, complete=self.lags is None))
        found = np.zeros((len(values), len(self.schema.inputs)), dtype=bool)
        np.logical_or.at(found.T, self.schema.columns, values.T)
        return found

    def interval(self, X: Any, coverage: float, side: str, normalised: bool) -> Floats:
        """Return the ends of CV+ intervals for a table, (2, m, q)."""
        numbers = [one.residuals for one in self.folds]
        found = [one.evaluate(X) for one in self.folds]
        fold = np.repeat(np.arange(len(numbers)), [len(one.sample_weight) for one in numbers])
        residuals = np.vstack([one.scaled.T if normalised else one.residuals.T for one in numbers])
        weights, outputs = np.concatenate([one.sample_weight for one in numbers]), np.stack([one for one, _ in found])
        scales = np.stack([scale for _, scale in found]) if normalised else None
        center = self.respond(self.outputs(X))
        ends = cv_plus(center, outputs, fold, residuals, weights, coverage, side, scales)
        return np.maximum(ends, 0.0) if self.link == "log" else ends

    def with_fill(self, fill: Mapping[str, Any]) -> Program:
        """Return the same model with replacements of missing values of some inputs."""
        folds = tuple(replace(one, program=one.program.with_fill(fill)) for one in self.folds)
        return replace(self, schema=self.schema.with_fill(fill), folds=folds)

    @classmethod
    def from_plain(cls, data: Any, place: str) -> Program:
        """Return the model that plain data describe; errors name the place of an invalid value."""
        required = ["inputs", "columns", "categories", "steps", "linear", "labels", "series"]
        data = read_dict(data, place, required, optional=["folds", "link"])
        link = read(RESPONSES, data.get("link", "identity"), f"{place}.link", {})
        schema = InputSchema.from_plain({name: data[name] for name in ("inputs", "columns", "categories")}, place, {})
        n_terms = len(schema.columns)
        steps = read_steps(data["steps"], f"{place}.steps", {"indices": n_terms})
        check_lags(steps, f"{place}.steps")
        n_terms = steps[-1].n_terms if steps else n_terms
        linear = Linear.from_plain(data["linear"], f"{place}.linear", {"terms": n_terms})
        n_outputs = len(linear.intercept)
        if n_outputs < 1 or (linear.one_output and n_outputs > 1):
            raise ValueError(f"{place}.linear.intercept must have one output per target, got {n_outputs}")
        labels, series = data["labels"], data["series"]
        if labels is not None:
            labels = ClassLabels.from_plain(labels, f"{place}.labels", {})
            if len(labels.classes) < 2 or n_outputs != (1 if len(labels.classes) == 2 else len(labels.classes)):
                needed = f"classes for {n_outputs} output{'s' * (n_outputs > 1)}"
                raise invalid(f"{place}.labels.classes", needed, labels.classes)
            if labels.sharpness is not None and labels.sharpness <= 0:
                raise invalid(f"{place}.labels.sharpness", "greater than zero", labels.sharpness)
        if series is not None:
            read(tuple(one.name for one in schema.inputs), series, f"{place}.series", {})
        listed = enumerate(read(list, data.get("folds", []), f"{place}.folds", {}))
        folds = tuple(FoldProgram.from_plain(one, f"{place}.folds[{i}]", data["inputs"], link) for i, one in listed)
        for i, one in enumerate(folds):
            if len(one.program.linear.intercept) != n_outputs:
                needed, got = f"a list of {n_outputs} outputs", len(one.program.linear.intercept)
                raise invalid(f"{place}.folds[{i}].linear.intercept", needed, got)
        if folds and not any(len(one.residuals.sample_weight) for one in folds):
            raise invalid(f"{place}.folds", "models with at least one residual", 0)
        if labels is not None and link != "identity":
            raise invalid(f"{place}.link", "identity for classes", link)
        return cls(schema, steps, linear, labels, series, folds, link)
