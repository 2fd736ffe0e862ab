"""A fitted model as plain data: read a table, take its rows through a chain of steps, combine, and decide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise.deploy.chain import Beside, prune, read_steps, run
from termwise.deploy.inputs import Reading
from termwise.deploy.outputs import Labels, Linear
from termwise.deploy.plain import read_choice, read_dict, to_plain
from termwise.deploy.steps import Lags, Step

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Program:
    """A fitted model, and nothing that its predictions do not need."""

    reading: Reading
    steps: tuple[Step, ...]
    linear: Linear
    labels: Labels | None
    series: str | None = None  # the input a model of past values predicts, if it is one

    def pruned(self) -> Program:
        """Keep what the terms of the model need."""
        steps, columns = prune(self.steps, np.arange(len(self.linear.names)))
        return replace(self, reading=self.reading.keep(columns), steps=steps)

    def scores(self, X: Any) -> Floats:
        """Return the outputs for a table, one column each."""
        Z = self.reading.rows(X, complete=self.lags is None)  # the series is not known yet in the last row of a table
        return self.linear.evaluate(run(self.steps, Z))

    @property
    def lags(self) -> Lags | None:
        """The step that looks at earlier rows, if there is one."""
        return next((step for step in self.steps if isinstance(step, Lags)), None)

    def narrowed(self) -> Program:
        """Return the same model without inputs that its terms do not look at."""
        reading = self.reading.narrowed()
        series = self.series if self.series in [one.name for one in reading.inputs] else None
        return replace(self, reading=reading, series=series)

    def plain(self) -> dict[str, Any]:
        """Return plain data: texts, numbers, lists and dicts."""
        return {
            **self.reading.plain(),
            "steps": to_plain(self.steps),
            "linear": self.linear.plain(),
            "labels": None if self.labels is None else self.labels.plain(),
            "series": self.series,
        }

    @classmethod
    def read(cls, data: Any, place: str) -> Program:
        """Return the model that plain data describe; whatever is wrong with them is said with its place."""
        data = read_dict(data, place, ["inputs", "columns", "categories", "steps", "linear", "labels", "series"])
        reading = Reading.read(data, place)
        steps = read_steps(data["steps"], f"{place}.steps", len(reading.sources))
        check_lags(steps, f"{place}.steps")
        terms = steps[-1].n_terms if steps else len(reading.sources)
        linear = Linear.read(data["linear"], f"{place}.linear", {"terms": terms})
        outputs = len(linear.intercept)
        if outputs < 1 or (linear.one_output and outputs > 1):
            raise ValueError(f"{place}.linear.intercept must have one output per target, got {outputs}")
        labels = data["labels"]
        labels = None if labels is None else Labels.read(labels, f"{place}.labels", {"outputs": outputs})
        series = data["series"]
        if series is not None:
            series = read_choice(series, f"{place}.series", [one.name for one in reading.inputs])
        return cls(reading, steps, linear, labels, series)


def check_lags(steps: tuple[Step, ...], place: str) -> None:
    """Raise unless at most one step looks at earlier rows, and none inside another step."""
    inside = [lags_in(part.steps) for step in steps if isinstance(step, Beside) for part in step.parts]
    if lags_in(steps) > 1 or any(inside):
        raise ValueError(f"{place} must have one step of lags at most, and none beside others, got more")


def lags_in(steps: tuple[Step, ...]) -> int:
    """Number of steps that look at earlier rows, those inside other steps too."""
    inner = [lags_in(part.steps) for step in steps if isinstance(step, Beside) for part in step.parts]
    return sum(isinstance(step, Lags) for step in steps) + sum(inner)
