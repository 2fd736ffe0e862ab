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
from termwise.execution.local import Executor
from termwise.linalg.criteria import gcv
from termwise.selection.state import State

TIE = 1e-10  # relative difference below which two scores are the same


@dataclass(frozen=True)
class Choice:
    """What a rule has chosen.

    Parameters
    ----------
    index : int
        The candidate.
    score : float
        What the rule gives it; recorded in the path.
    verified : int, default=0
        How many candidates were verified exactly to find it.
    """

    index: int
    score: float
    verified: int = 0


class Rule(ABC):
    """What the next term is chosen by: derive from it and write `choose`, or from `ClosedForm` and write `scores`.

    An instance goes wherever a rule's name does, `ForwardRegressor(rule=MyRule())` for example. It may remember what it
    has seen of a path: every path works on a copy of its own.

    Attributes
    ----------
    end : str
        Why the path ended, if `choose` returned None.

    See Also
    --------
    ClosedForm : A rule that is a score, which most are.
    """

    name: ClassVar[str]
    end: ClassVar[str] = "no candidate is left that is not a combination of the chosen ones"

    @classmethod
    def build(cls, settings: Any, rows: Executor) -> Self:
        """Make the rule for a path with these settings on these rows: for rules that go by a name.

        Parameters
        ----------
        settings : Settings
            How the path is to grow.
        rows : Executor
            The rows.
        """
        return cls()

    @abstractmethod
    def choose(self, state: State) -> Choice | None:
        """Return the next candidate, or None to end the path.

        Parameters
        ----------
        state : State
            What is known of the model and of all candidates; see `ClosedForm`.
        """

    def prepare(self, state: State) -> None:  # noqa: B027 - most have nothing to prepare
        """Hear that the model has changed and `choose` is next: a device may be asked to go on without a pause.

        Parameters
        ----------
        state : State
            What is known of the model and of all candidates.
        """


class ClosedForm(Rule):
    """A rule that is a score of all candidates, computed from the statistics; bigger is better.

    Derive from it and write `scores`.

    Notes
    -----
    `state` knows of every candidate g `c = g'P y` (p, q), `s = g'P g` (p,), `vv = g'P^2 g` (p,), `rv = y'P^2 g` (p, q),
    `den = alpha + s` (p,), its squared length `norms` (p,) and whether it is `usable` (p,); of the model so far
    `chosen`, `sse`, `cost`, `dof`, `alpha` and `n`. P turns targets into residuals. Candidates that are not usable are
    never chosen, whatever their score. With arrays of PyTorch or CuPy the statistics are arrays of that library.

    Examples
    --------
    Columns have prices, as sensors do: how much a candidate lowers the cost, for its price.

    >>> import numpy as np
    >>> from termwise import forward_path
    >>> from termwise.selection import ClosedForm
    >>> class PricedRule(ClosedForm):
    ...     def __init__(self, prices):
    ...         self.prices = prices
    ...     def scores(self, state):
    ...         return (state.c**2).sum(axis=1) / state.den / self.prices
    >>> rng = np.random.default_rng(0)
    >>> G = rng.normal(size=(200, 5))
    >>> y = 2 * G[:, 0] + G[:, 3] + rng.normal(size=200)
    >>> forward_path(G, y, rule="cost", max_terms=2).terms.tolist()
    [0, 3]
    >>> forward_path(G, y, rule=PricedRule(np.array([9, 1, 1, 1, 1])), max_terms=2).terms.tolist()
    [3, 0]
    """

    @abstractmethod
    def scores(self, state: State) -> Array:
        """Score every candidate.

        Parameters
        ----------
        state : State
            What is known of the model and of all candidates.

        Returns
        -------
        scores : array of shape (p,)
            Bigger is better; minus infinity for what must not be taken.
        """

    def accepts(self, score: float) -> bool:
        """Whether the best score is worth taking; if not, the path ends.

        Parameters
        ----------
        score : float
            The best of all scores.
        """
        return True

    def choose(self, state: State) -> Choice | None:
        """Return the best candidate by its score; of equal ones the first.

        Parameters
        ----------
        state : State
            What is known of the model and of all candidates.
        """
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
