"""Rules: which candidate to take next. Each is a small class; the loop knows none of them by name.

A rule looks at the driver's statistics (see `state`) and returns a choice, or None to end the path. Ties go to the
lower index: scores that differ by rounding only count as equal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from termwise._arrays import Array, at, at_least, namespace, put, row_squares
from termwise.selection.criteria import gcv
from termwise.selection.executor import Executor
from termwise.selection.state import State

TIE = 1e-10  # relative difference below which two scores are the same


@dataclass(frozen=True)
class Choice:
    """A candidate, its score, and how many candidates were verified exactly to find it."""

    index: int
    score: float
    verified: int = 0


class Rule(ABC):
    """Base of the rules; `end` says why the path ended when `choose` returned None."""

    name: ClassVar[str]
    end: ClassVar[str] = "no candidate is left that is not a combination of the chosen ones"

    @classmethod
    def build(cls, settings: Any, rows: Executor) -> Self:
        """Make the rule for a path with these settings on these rows."""
        return cls()

    @abstractmethod
    def choose(self, state: State) -> Choice | None:
        """Return the next candidate."""

    def prepare(self, state: State) -> None:  # noqa: B027 - most have nothing to prepare
        """Hear that the model has changed and `choose` is next: a device may be asked to go on without a pause."""


class ClosedForm(Rule):
    """A rule whose score is a closed form in the statistics; bigger is better."""

    @abstractmethod
    def scores(self, state: State) -> Array:
        """Score every candidate."""

    def accepts(self, score: float) -> bool:
        """Whether the best score is worth taking."""
        return True

    def choose(self, state: State) -> Choice | None:
        """Return the best candidate by its score; of equal ones the first."""
        xp = namespace(state.s)
        scores = put(self.scores(state), ~state.usable, -np.inf)
        best = xp.max(scores)
        first = xp.argmax(xp.astype(scores >= best - TIE * xp.abs(best), xp.int64))[None]
        known, (best, score) = state.meet(first, best, at(scores, first))
        return Choice(int(known.numbers[0]), float(score[0])) if best > -np.inf and self.accepts(float(best)) else None


class SseRule(ClosedForm):
    """Largest drop of the squared error: Orr (7.2), (7.4), (7.6), and (7.9) with the orthogonal penalty."""

    name = "sse"

    def scores(self, state: State) -> Array:
        """`2 rv c / den - vv c^2 / den^2`."""
        den, gain = state.den, namespace(state.s).sum(state.rv * state.c, axis=1)
        return (2 * gain - state.vv * row_squares(state.c) / den) / den


class CostRule(ClosedForm):
    """Largest drop of the regularised cost: Orr (7.7), and (7.10) with the orthogonal penalty."""

    name = "cost"

    def scores(self, state: State) -> Array:
        """`c^2 / den`."""
        return row_squares(state.c) / state.den


class GcvRule(ClosedForm):
    """Smallest generalised cross-validation after adding the candidate."""

    name = "gcv"
    end = "no candidate is left that is not a combination of the chosen ones and leaves a degree of freedom"

    def scores(self, state: State) -> Array:
        """Minus GCV, from the squared error and the trace after the candidate."""
        after = state.sse - SseRule().scores(state)
        return -gcv(at_least(after, 0.0), state.dof + state.vv / state.den, state.n)


class NormRule(ClosedForm):
    """Largest rest of the column beside the chosen ones, without a look at y: pivoted Gram-Schmidt."""

    name = "norm"

    def scores(self, state: State) -> Array:
        """`s`."""
        return state.s


class DOptimalRule(ClosedForm):
    """Error reduction and D-optimality, Hong et al. appendix A; ends when no candidate has a positive score."""

    name = "d_optimal"
    end = "no candidate has a positive score"

    def __init__(self, beta: float) -> None:
        self.beta = beta

    @classmethod
    def build(cls, settings: Any, rows: Executor) -> Self:
        """Take the weight of D-optimality from the settings."""
        return cls(settings.beta)

    def scores(self, state: State) -> Array:
        """`(c^2 / s + beta log s) / y'y`."""
        s = put(state.s, ~state.usable, 1.0)
        power = max(float(state.yy.sum()), float(np.finfo(np.float64).tiny))
        return (row_squares(state.c) / s + self.beta * namespace(s).log(s)) / power

    def accepts(self, score: float) -> bool:
        """Only what is worth its place."""
        return score > 0
