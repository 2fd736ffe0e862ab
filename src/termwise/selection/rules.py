"""Rules: which candidate to add next. Each is a small class; the loop depends on none of them.

A rule reads the statistics of a `State` and returns a choice, or None to end the path. Scores that differ by rounding
only are equal, and of equal ones the candidate with the lowest index is chosen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import (
    Array,
    as_float64,
    at,
    at_least,
    contiguous,
    first_true,
    from_host,
    largest,
    namespace,
    put,
    row_blocks,
    row_squares,
    to_host,
)
from termwise._numerics import CLASS_OUTPUT_ULPS, LEVERAGE_GAP_MIN, SMALLEST_NORMAL, TIE_TOLERANCE
from termwise.linalg.criteria import gcv
from termwise.selection.blocks import Executor, RowBlock

if TYPE_CHECKING:
    from termwise.selection.state import State

MIN_BATCH = 64  # candidates whose misclassifications are counted at a time, at least


@dataclass(frozen=True)
class Choice:
    """The choice of a rule.

    Parameters
    ----------
    index : int
        The candidate.
    score : float
        Its score by the rule; recorded in the path.
    verified : int, default=0
        How many candidates were verified exactly to find it.
    """

    index: int
    score: float
    verified: int = 0


class Rule(ABC):
    """What the next term is chosen by: derive from it and write `choose`, or from `ClosedForm` and write `scores`.

    An instance is accepted wherever the name of a rule is, as in `ForwardRegressor(rule=MyRule())`. It may store
    attributes while a path grows: every path works on its own copy.

    Attributes
    ----------
    end : str
        Why the path ended, if `choose` returned None.
    swap_needs_zero_alpha : bool
        Whether `refine="swap"` requires `alpha=0`, since scores with a penalty depend on the order of the terms.
    follows_cost : bool
        Whether its choices mostly agree with rule "cost", by which the next terms are predicted to save passes over the
        data; a performance hint that changes no choice.

    See Also
    --------
    ClosedForm : A rule that is a score, which most are.
    """

    name: ClassVar[str]
    end: ClassVar[str] = "no candidate is left that is not a combination of the chosen ones"
    swap_needs_zero_alpha: ClassVar[bool] = False
    follows_cost: ClassVar[bool] = False

    @classmethod
    def build(cls, settings: Any, rows: Executor) -> Self:
        """Make the rule for a path with these settings on these rows: for rules that have a name.

        Parameters
        ----------
        settings : Settings
            Settings of the path.
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
            Statistics of the model and of all candidates; see `ClosedForm`.
        """

    def prepare(self, state: State) -> None:  # noqa: B027 - most have nothing to prepare
        """Hook before `choose`, so that device work can be launched asynchronously.

        Parameters
        ----------
        state : State
            Statistics of the model and of all candidates.
        """


class ClosedForm(Rule):
    """A rule that is a score of all candidates, computed from the statistics; bigger is better.

    Derive from it and write `scores`.

    Notes
    -----
    `state` has for every candidate g `c = g'P y` (p, q), `s = g'P g` (p,), `vv = g'P^2 g` (p,), `rv = y'P^2 g` (p, q),
    `den = alpha + s` (p,), its squared length `norms` (p,) and whether it is `eligible` (p,); of the model so far
    `chosen`, `sse`, `cost`, `dof`, `alpha` and `n`. P maps targets to residuals. Candidates that are not eligible are
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

    minimum: float = -np.inf  # score that the best candidate must exceed

    @abstractmethod
    def scores(self, state: State) -> Array:
        """Score every candidate.

        Parameters
        ----------
        state : State
            Statistics of the model and of all candidates.

        Returns
        -------
        scores : array of shape (p,)
            Bigger is better; minus infinity for candidates that must not be chosen.
        """

    def accepts(self, score: float) -> bool:
        """Whether the best score is good enough; if not, the path ends.

        Parameters
        ----------
        score : float
            The best of all scores.
        """
        return score > self.minimum

    def choose(self, state: State) -> Choice | None:
        """Return the candidate with the best score; of equal ones the first.

        Parameters
        ----------
        state : State
            Statistics of the model and of all candidates.
        """
        state.scores, first, best = rank(self, state)
        stats, (best, score) = state.fetch_candidates(first, best, at(state.scores, first))
        if not best > -np.inf or not self.accepts(float(best)):
            return None
        return Choice(int(stats.numbers[0]), float(score[0]))


def rank(rule: ClosedForm, state: Any) -> tuple[Array, Array, Array]:
    """Scores of the eligible candidates, minus infinity for others, the first of the best ones, and the best score."""
    scores = put(rule.scores(state), ~state.eligible, -np.inf)
    best = largest(scores)
    return scores, first_true(scores >= best - TIE_TOLERANCE * abs(best)), best


class SseRule(ClosedForm):
    """Largest drop of the squared error: Orr (7.6), and Orr (7.9) with the orthogonal penalty.

    Without a penalty P is a projection, so that `rv = c` and `vv = s`, and the drop is `c^2 / s`, Orr (7.2); the same
    for an orthogonalised column is Orr (7.4). With the orthogonal penalty `rv = c` and `vv = s` for any alpha, and the
    drop is `(2 alpha + s) c^2 / den^2`.
    """

    name = "sse"
    follows_cost = True

    def scores(self, state: State) -> Array:
        """`2 rv c / den - vv c^2 / den^2`."""
        den, gain = state.den, namespace(state.s).sum(state.rv * state.c, axis=1)
        return (2 * gain - state.vv * row_squares(state.c) / den) / den


class CostRule(ClosedForm):
    """Largest drop of the regularised cost, which must exceed a minimum: Orr (7.7), and Orr (7.10) with the orthogonal
    penalty, which changes the statistics c and s but not the formula.

    All selections by that score use this class; `gram.simulate` repeats it to predict terms from a sample of the rows.
    """

    name = "cost"
    follows_cost = True

    def __init__(self, minimum: float = -np.inf) -> None:
        self.minimum = minimum

    def scores(self, state: State) -> Array:
        """`c^2 / den`."""
        return row_squares(state.c) / state.den


class GcvRule(ClosedForm):
    """Smallest generalised cross-validation, Orr (5.6), after adding the candidate."""

    name = "gcv"
    follows_cost = True
    end = "no candidate is left that is not a combination of the chosen ones and leaves a degree of freedom"

    def scores(self, state: State) -> Array:
        """Minus GCV, from the squared error and the trace after the candidate."""
        after = state.sse - SseRule().scores(state)
        return -gcv(at_least(after, 0.0), state.dof + state.vv / state.den, state.n)


class NormRule(ClosedForm):
    """Largest squared norm of the column orthogonalised against the chosen ones: pivoted Gram-Schmidt.

    Hagiwara 2011, section 4.2.
    """

    name = "norm"

    def scores(self, state: State) -> Array:
        """`s`."""
        return state.s


class DOptimalRule(ClosedForm):
    """Error reduction and D-optimality, Hong (21) and appendix A; ends when no candidate has a positive score.

    `c^2 / s` is the drop of the squared error without a penalty, Orr (7.2) and (7.4), as derived at `SseRule`.
    """

    name = "d_optimal"
    end = "no candidate has a positive score"
    swap_needs_zero_alpha = True
    minimum = 0.0

    def __init__(self, beta: float) -> None:
        self.beta = beta

    @classmethod
    def build(cls, settings: Any, rows: Executor) -> Self:
        """Take the weight of D-optimality from the settings."""
        return cls(settings.beta)

    def scores(self, state: State) -> Array:
        """`(c^2 / s + beta log s) / y'y`."""
        s = put(state.s, ~state.eligible, 1.0)
        power = max(float(state.yy.sum()), SMALLEST_NORMAL)
        return (row_squares(state.c) / s + self.beta * namespace(s).log(s)) / power


# -- misclassifications ------------------------------------------------------------------------------------------------


class LooErrorRule(Rule):
    """Fewest leave-one-out misclassifications after adding the candidate (Pahikkala et al. 2010), weighted.

    Targets are -1 and +1: in one output, or in one output per class. With `beta = c / den` the model with a candidate
    added predicts, for a sample that was left out,

        f = y - (r - beta v) / (leverage_gap - v^2 / den)

    in every output. Only signs and order matter, and those of f times the new leverage gap are the same, without a
    division; so are those of rows scaled by the square roots of their weights. Misclassifications cannot be bounded as
    squared errors can (see `leave_one_out`): every candidate is verified.
    """

    name = "loo_error"
    follows_cost = True

    @classmethod
    def build(cls, settings: Any, rows: Executor) -> Self:
        """Make the rule, for coded classes only."""
        other = np.concatenate(list(rows.map(invalid_targets)))
        if len(other):
            raise ValueError(
                f"rule must not be 'loo_error' for targets other than -1 and +1, got {other[0]:g}: "
                "use ForwardClassifier, which codes the classes, or rule='loo'."
            )
        return cls()

    def choose(self, state: State) -> Choice | None:
        """Return the candidate with the fewest misclassifications; of equal ones, and many are, the first."""
        candidates = np.flatnonzero(to_host(state.eligible))
        if not len(candidates):
            return None
        size, errors = max(MIN_BATCH, state.rows.min_work // int(state.n)), []
        for i in range(0, len(candidates), size):
            few = state.fetch_candidates(candidates[i : i + size])[0]
            den = state.alpha + few.s
            found = state.rows.reduce(misclassifications, few.numbers, few.T, few.c / den, -1 / den)
            errors.append(to_host(found))
        counts = np.concatenate(errors)
        best = counts.min()
        if not np.isfinite(best):
            return None
        first = int(np.flatnonzero(counts <= best * (1 + TIE_TOLERANCE))[0])
        return Choice(int(candidates[first]), float(counts[first]), len(candidates))


def invalid_targets(block: RowBlock) -> NDArray[np.float64]:
    """Return the first target, if any, that is neither -1 nor +1."""
    Y = block.targets()
    return Y[np.abs(np.abs(Y) - 1) > CLASS_OUTPUT_ULPS * np.finfo(np.float64).eps][:1]


def misclassifications(block: RowBlock, batch: NDArray[np.intp], T: Array, beta: Array, shrink: Array) -> Array:
    """Weighted misclassifications on the rows of a block, infinite where undefined; `shrink` is `-1 / den`.

    Candidates are the rows of a tile here.
    """
    xp, n = namespace(block.Y), block.Y.shape[0]
    T, beta, shrink = (from_host(x, block.Y) for x in (np.ascontiguousarray(T.T), beta[:, :, None], shrink[:, None]))
    root = xp.ones_like(block.gap) if block.root is None else block.root
    slack = CLASS_OUTPUT_ULPS * float(np.finfo(block.G.dtype).eps) * root
    total = []
    for rows in row_blocks(n, 8 * len(batch), block.Y):
        V = contiguous(block.columns(batch, rows).T)
        V -= T @ block.Z[rows, :].T
        gap = V * V
        gap *= block.share[rows] * shrink
        gap += block.gap[rows]
        Y, outputs = block.Y[rows, :].T, []
        for i in range(Y.shape[0]):  # gap f = gap y + beta v - r
            output = gap * Y[i, :]
            output += V * beta[i, :, :]
            output -= block.r[rows, i]
            outputs.append(output)
        wrong = _classes(outputs, slack[rows]) != _classes([Y[i, :] for i in range(Y.shape[0])], slack[rows])
        count = as_float64(wrong) @ root[rows] ** 2
        total.append(put(count, xp.min(gap, axis=1) < LEVERAGE_GAP_MIN, np.inf))
    return sum(total[1:], start=total[0])


def _classes(outputs: Sequence[Array], slack: Array) -> Array:
    """Index of the largest output, of equal ones the first; of a single output 0 for +1 and 1 for -1.

    Outputs that differ by less than `slack` are equal: binary columns make predictions of exactly zero common.
    """
    if len(outputs) == 1:
        return outputs[0] < -slack
    xp, largest = namespace(slack), outputs[0]
    index = xp.zeros_like(largest)
    for k, output in enumerate(outputs[1:], start=1):
        larger = output > largest + slack
        index = put(index, larger, float(k))
        largest = xp.where(larger, output, largest)
    return index
