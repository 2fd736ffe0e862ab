"""Chains of steps, one after the other and side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from termwise.deploy.plain import Record, Sizes, read_dict, read_list, wrong
from termwise.deploy.steps import (
    Anova,
    Clip,
    Columns,
    Floats,
    Indices,
    Lags,
    Logistic,
    Powers,
    Radial,
    Rotate,
    Standardise,
    Step,
    Stretch,
    Waves,
)


@dataclass(frozen=True, eq=False)
class Part(Record):
    """A chain of steps of its own, and the columns it begins with."""

    columns: Indices
    steps: tuple[Step, ...]

    @property
    def n_terms(self) -> int:
        """Columns it yields."""
        return self.steps[-1].n_terms if self.steps else len(self.columns)

    def evaluate(self, Z: Floats) -> Floats:
        """Return the terms of the chain."""
        return run(self.steps, Z[:, self.columns])

    def keep(self, terms: Indices) -> Part:
        """Restrict it to some terms; its columns are still counted as before."""
        steps, needed = prune(self.steps, terms)
        return Part(self.columns[needed], steps)

    @classmethod
    def read(cls, data: Any, place: str, sizes: Sizes) -> Self:
        """Return the part that plain data describe."""
        data = read_dict(data, place, ["columns", "steps"])
        columns = Columns.read({"columns": data["columns"]}, place, sizes).columns
        return cls(columns, read_steps(data["steps"], f"{place}.steps", len(columns)))


@dataclass(frozen=True, eq=False)
class Beside(Step):
    """The terms of several chains, in some order.

    `UnionBasis` has bases side by side, `SmoothBasis` straight lines and Gaussians of each width.
    """

    kind: ClassVar[str] = "beside"
    parts: tuple[Part, ...]
    order: Indices  # which column of the parts, one after the other, each term is

    @property
    def n_inputs(self) -> int:
        """Columns it takes, at least."""
        return max((int(part.columns.max(initial=-1)) + 1 for part in self.parts), default=0)

    @property
    def n_terms(self) -> int:
        """Columns it yields."""
        return len(self.order)

    def evaluate(self, Z: Floats) -> Floats:
        """Evaluate all chains."""
        return np.column_stack([np.empty((len(Z), 0)), *(part.evaluate(Z) for part in self.parts)])[:, self.order]

    def keep(self, terms: Indices) -> tuple[Beside, Indices]:
        """Restrict every chain to those of its terms that are wanted, and leave out those of which none is."""
        wanted, order = np.unique(self.order[terms], return_inverse=True)
        ends = np.cumsum([0, *(part.n_terms for part in self.parts)])
        shares = [wanted[(wanted >= low) & (wanted < high)] - low for low, high in pairwise(ends)]
        parts = [part.keep(share) for part, share in zip(self.parts, shares, strict=True) if len(share)]
        needed = np.unique(np.concatenate([np.empty(0, dtype=np.intp), *(part.columns for part in parts)]))
        parts = [replace(part, columns=np.searchsorted(needed, part.columns)) for part in parts]
        return Beside(tuple(parts), order), needed

    @classmethod
    def read(cls, data: Any, place: str, sizes: Sizes) -> Self:
        """Return the step that plain data describe."""
        data = read_dict(data, place, ["parts", "order"])
        listed = enumerate(read_list(data["parts"], f"{place}.parts"))
        parts = tuple(Part.read(part, f"{place}.parts[{i}]", dict(sizes)) for i, part in listed)
        total = sum(part.n_terms for part in parts)
        order = Columns.read({"columns": data["order"]}, f"{place}.order", {"inputs": total}).columns
        return cls(parts, order)


STEPS: dict[str, type[Step]] = {
    step.kind: step
    for step in (Standardise, Stretch, Clip, Rotate, Radial, Anova, Waves, Logistic, Powers, Lags, Beside)
}


def run(steps: tuple[Step, ...], Z: Floats) -> Floats:
    """Take rows through a chain."""
    for step in steps:
        Z = step.evaluate(Z)
    return Z


def prune(steps: tuple[Step, ...], terms: Indices) -> tuple[tuple[Step, ...], Indices]:
    """Restrict a chain to what some of its terms need; return also the columns it is to begin with."""
    kept: list[Step] = []
    for step in reversed(steps):
        smaller, terms = step.keep(terms)
        kept += [] if smaller is None else [smaller]
    return tuple(reversed(kept)), terms


def read_steps(data: Any, place: str, n_inputs: int) -> tuple[Step, ...]:
    """Return the chain that plain data describe, for so many columns."""
    steps: list[Step] = []
    for i, one in enumerate(read_list(data, place)):
        at = f"{place}[{i}]"
        kind = one.get("step") if isinstance(one, dict) else one
        if not isinstance(kind, str) or kind not in STEPS:
            raise wrong(at, f"a step that is one of {', '.join(STEPS)}", kind)
        rest = {name: value for name, value in one.items() if name != "step"}
        steps.append(STEPS[kind].read(rest, at, {"inputs": n_inputs}))
        if steps[-1].n_inputs != n_inputs:
            raise ValueError(f"{at} must use all {n_inputs} columns it is given, got only {steps[-1].n_inputs} in use")
        n_inputs = steps[-1].n_terms
    return tuple(steps)
