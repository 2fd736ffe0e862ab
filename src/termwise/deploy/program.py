"""A fitted model as plain data: encode a table, apply a chain of steps, combine the terms linearly, assign labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import limited
from termwise._checks import check_number, is_frame
from termwise._threads import block_rows, for_blocks
from termwise.deploy.document import (
    Reals,
    Record,
    Sizes,
    Strings,
    invalid,
    read,
    read_dict,
    read_scalars,
    specs,
    to_plain,
)
from termwise.deploy.inputs import InputSchema
from termwise.deploy.steps import Floats, Lags, ProgramStep, apply, check_lags, clipped_values, read_steps
from termwise.design import combine_columns
from termwise.linalg.conformal import ResidualScale, cv_plus
from termwise.linalg.losses import LINKS

RESPONSES = ("identity", "log", "sorted")  # links of regressions; probabilities of classes have a slope of their own


@dataclass(frozen=True, eq=False)
class Linear(Record):
    """`W g + intercept`: the linear combination of the terms, perhaps clipped to limits."""

    names: Annotated[tuple[str, ...], Strings(("terms",))]
    weights: Annotated[Floats, Reals(("outputs", "terms"))]
    intercept: Annotated[Floats, Reals(("outputs",))]
    one_output: bool  # whether the targets were a vector
    limits: Annotated[Floats | None, Reals(("ends", "outputs"))] = None  # the lowest and the highest outputs
    optional: ClassVar[tuple[str, ...]] = ("limits",)
    known_sizes: ClassVar[Sizes] = {"ends": 2}

    def combine(self, terms: Floats) -> Floats:
        """Return the outputs for rows of the terms, one column each."""
        return limited(terms @ self.weights.T + self.intercept, self.limits)

    @classmethod
    def from_plain(cls, data: Any, place: str, sizes: Sizes) -> Self:
        """Return the combination that plain data describe."""
        found = super().from_plain(data, place, sizes)
        if found.limits is not None and np.any(found.limits[0] > found.limits[1]):
            raise invalid(f"{place}.limits", "the lowest outputs, then the highest", found.limits.tolist())
        return found


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

    def check_single_rows(self, what: str) -> None:
        """Raise for a model of past values, whose predictions depend on several rows, in the name of a method."""
        if self.lags is not None:
            raise ValueError(
                f"{what} requires a model of one row at a time, got one of past values: give its lags as columns of "
                "the table."
            )

    @cached_property
    def width(self) -> int:
        """Number of columns of all intermediate results together."""
        return len(self.schema.columns) + sum(step.n_terms for step in self.steps)

    def terms(self, X: Any) -> Floats:
        """Return the terms for a table, one column each."""
        Z = self.schema.encode(X, complete=self.lags is None)  # the last row of a series may be unknown
        return apply(self.steps, Z)

    def outputs(self, X: Any) -> Floats:
        """Return the outputs for a table, one column each.

        Many rows are evaluated in blocks. Rows of numbers are encoded block by block, other tables as a whole. A block
        is stored by columns: then the loops inside NumPy's functions run along its rows.
        """
        schema, linear = self.schema, self.linear
        if self.lags is not None:  # which refer to other rows
            return linear.combine(self.terms(X))
        if not self.steps and schema.takes_numbers(X) and X.ndim == 2 and X.shape[1] == len(schema.inputs):
            combined = combine_columns(X, schema.columns, linear.weights.T, linear.intercept)
            if combined is not None:
                return limited(combined, linear.limits)
        X = schema.as_table(X)
        n, size = X.shape[0], block_rows(self.width)
        if n <= size:
            return linear.combine(apply(self.steps, schema.encode(X)))
        Z = None if schema.takes_numbers(X) else schema.encode(X)
        outputs = np.empty((n, len(linear.intercept)))

        def evaluate(start: int) -> None:
            rows = slice(start, start + size)
            block = schema.encode(X[rows]) if Z is None else np.asfortranarray(Z[rows])
            outputs[rows] = linear.combine(apply(self.steps, block))

        try:
            for_blocks(evaluate, range(0, n, size))
        except ValueError:
            schema.encode(X)  # raises for invalid rows, with their numbers in the table
            raise
        return outputs

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

    def free_run(self, X: Any, start: int | None) -> Floats:
        """Return the series of a table of past values, simulated from a row on."""
        lags, series = self.lags, self.series
        if lags is None or series is None or self.labels is not None or not self.linear.one_output:
            raise ValueError(
                "free_run needs a model of one series on its past values, got another: fit with basis=LagBasis(...)."
            )
        names = self.schema.names
        output, used = names.index(series), {*(names[j] for j in self.schema.used), series}
        table = np.full((X.shape[0], len(names)), np.nan) if is_frame(X) else np.array(X, dtype=np.float64)
        for j, name in enumerate(names):
            if is_frame(X) and name in X.columns and name in used:  # unused ones may be missing
                table[:, j] = np.array(X[name], dtype=np.float64)
        start = max(1, lags.longest) if start is None else start
        remedy = f"simulation begins inside the table of {len(table)} rows, after at least one row"
        check_number("start", start, low=1, below=len(table) + 1, integer=True, remedy=remedy)
        table[start:, output] = np.nan  # lags of the series are at least one: a value is used only after its prediction
        for t in range(start, len(table)):
            with np.errstate(over="ignore", invalid="ignore"):
                table[t, output] = self.respond(self.outputs(table[max(0, t - lags.longest) : t + 1]))[-1, 0]
            if not np.isfinite(table[t, output]):
                raise ValueError(
                    f"free_run must have finite predictions to feed back, got {table[t, output]} in row {t}: the "
                    "simulation diverged; fit fewer terms, other lags or a NarxRegressor, whose simulate keeps to the "
                    "range of the training data."
                )
        return table[:, output]

    def simulation_settings(self, simulation: Any) -> tuple[int, int, float, float]:
        """Return the number of past rows, the position of the series among the inputs, and the limits of its outputs.

        The limits are infinite for `simulation=True`. Raise if the model is not one of a series.
        """
        if self.series is None or self.labels is not None or not self.linear.one_output:
            raise ValueError(
                "simulation must be False for a model without past values of its own output, got "
                f"{simulation!r}: fit a NarxRegressor, or an estimator on a LagBasis."
            )
        limits = np.asarray([-np.inf, np.inf] if simulation is True else simulation, dtype=np.float64)
        if limits.shape != (2,) or not limits[0] < limits[1]:
            raise ValueError(
                f"simulation must be a bool or the lowest and the highest output, got {simulation!r}: True sets no "
                "limits."
            )
        past = 0 if self.lags is None else self.lags.longest
        return past, self.schema.names.index(self.series), float(limits[0]), float(limits[1])

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
            read(tuple(schema.names), series, f"{place}.series", {})
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


def as_float32(values: Any) -> NDArray[np.float32]:
    """Return numbers in float32 for an export of that precision, or raise if some are too large for it."""
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
    if np.isinf(short).any():
        worst = float(np.ravel(values)[np.flatnonzero(np.isinf(short))[0]])
        raise ValueError(f"dtype must be 'float64' for this model, got 'float32', which cannot hold {worst!r}.")
    return short
