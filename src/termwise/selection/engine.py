"""Forward selection: the one greedy loop, the settings of a path, and the exchange of terms.

`grow` serves the estimators (`State`, every criterion along the path), the folds of the automatic estimators (`nested`,
the chosen terms alone) and the evidence method (one penalty per term).
"""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from termwise._arrays import at, is_foreign, namespace, to_host
from termwise._checks import check_bool, check_choice, check_indices, check_number, is_one_of
from termwise._numerics import (
    REESTIMATED_ALPHA_RANGE,
    REESTIMATED_ALPHA_START,
    SCORE_ULPS,
    SMALLEST_NORMAL,
    TIE_TOLERANCE,
)
from termwise.linalg.criteria import CRITERIA
from termwise.linalg.reestimate import reestimate
from termwise.selection.blocks import Executor
from termwise.selection.constraints import Constraints
from termwise.selection.kfold import KFoldRule
from termwise.selection.leave_one_out import LooRule
from termwise.selection.path import SIZE_CRITERIA, SelectionPath, Step, check_criterion
from termwise.selection.rules import (
    Choice,
    ClosedForm,
    CostRule,
    DOptimalRule,
    GcvRule,
    LooErrorRule,
    NormRule,
    Rule,
    SseRule,
)
from termwise.selection.run_ahead import RunAhead, runs_ahead
from termwise.selection.state import State

Callback = Callable[[SelectionPath], bool | None]

BUILT_IN: tuple[type[Rule], ...] = (
    LooRule, CostRule, SseRule, GcvRule, KFoldRule, LooErrorRule, DOptimalRule, NormRule
)  # fmt: skip
RULES = {rule.name: rule for rule in BUILT_IN}
PENALTIES = ("weights", "orthogonal")
STOPPED = "stopped by a callback"
SWAP_ROUNDS = 20  # through all terms; fewer than ten are usual


# -- the loop ----------------------------------------------------------------------------------------------------------


def grow(
    state: Any,
    rule: Rule,
    limit_reached: Callable[[], str],
    after_step: Callable[[Choice, int], str] | None = None,
    forced: Iterable[int] = (),
) -> str:
    """Append the candidates that a rule chooses, one by one, and return why that ended.

    Parameters
    ----------
    state : State, NestedState or another model with the same methods
        Changed by `append(j)`, which returns False and excludes the candidate if it depends on the chosen ones, and
        by `refresh()`, which updates the statistics that the rule reads.
    rule : Rule
        Chooses the next candidate.
    limit_reached : callable
        Returns the reason to stop before another term that is not forced, or "".
    after_step : callable, default=None
        Called after each term with the choice and the number of forced terms to come; returns a reason to stop, or "".
    forced : iterable of int, default=()
        Candidates that are appended first, whatever the limit.
    """
    pending, reason = deque(forced), ""
    while pending or not (reason := limit_reached()):
        if pending:
            choice: Choice | None = Choice(pending.popleft(), np.nan)
        else:
            state.refresh()
            choice = rule.choose(state)
        if choice is None:
            return rule.end
        if state.append(choice.index) and after_step is not None and (reason := after_step(choice, len(pending))):
            return reason
    return reason


# -- settings ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """Settings of a path; `forward_path` documents each of them."""

    rule: str | Rule
    alpha: Any
    penalty: str = "weights"
    max_terms: int | None = None
    criterion: str | None = None
    patience: int | None = None
    max_seconds: float | None = None
    include: Any = ()
    beta: float = 1e-6
    cv: Any = 5
    precompute: Any = "auto"
    fit_intercept: bool = True
    block_rows: int | None = None
    min_norm: float = 0.0  # candidates with a residual squared norm of at most this are excluded
    refine: str | None = None
    constraints: Constraints | None = None
    timeout: float | None = None  # of a Dask cluster

    def check(self) -> None:
        """Raise on the first invalid one."""
        if not isinstance(self.rule, Rule):
            check_choice("rule", self.rule, RULES, remedy="pick one, or give an instance of termwise.selection.Rule")
        check_choice("penalty", self.penalty, PENALTIES)
        check_bool("fit_intercept", self.fit_intercept, remedy="True fits the mean too")
        check_criterion(self.criterion)
        self._check_alpha()
        self._check_refine()
        for name in ("max_terms", "patience", "block_rows"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=1, integer=True, remedy="None sets no limit")
        for name in ("max_seconds", "timeout"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0, remedy="None sets no limit")
        check_number("beta", self.beta, low=0, remedy="1e-6 is Hong's")
        check_number("min_norm", self.min_norm, low=0, remedy="0 admits every linearly independent column")
        if isinstance(self.precompute, int | np.integer) and not isinstance(self.precompute, bool):
            check_number("precompute", self.precompute, low=1, integer=True, remedy="'auto' decides by the sizes")
        elif not is_one_of(self.precompute, "auto"):
            check_bool("precompute", self.precompute, remedy="'auto' decides by the sizes")

    def _check_alpha(self) -> None:
        if not isinstance(self.alpha, str):
            check_number("alpha", self.alpha, low=0, remedy="give a small penalty such as 1e-6, or 'reestimate'")
            return
        check_choice("alpha", self.alpha, ["reestimate"], remedy="give a number >= 0 or 'reestimate'")
        if self.penalty != "weights":
            raise ValueError(
                f"penalty must be 'weights' with alpha='reestimate', got {self.penalty!r}: the formula is for the "
                "weights themselves."
            )

    def _check_refine(self) -> None:
        if self.refine is None:
            return
        check_choice("refine", self.refine, ["swap"], remedy="None keeps the terms as they were chosen")
        if self.alpha == "reestimate":
            raise ValueError(
                "alpha must be a number with refine='swap', got 'reestimate': models under different penalties cannot "
                "be compared; give the alpha that comes out without refine, or use refit_alpha."
            )
        if self.penalty != "weights":
            raise ValueError(
                f"penalty must be 'weights' with refine='swap', got {self.penalty!r}: only then is a model the same "
                "whatever the order of its terms."
            )
        rule = self.rule if isinstance(self.rule, Rule) else RULES[self.rule]
        if rule.swap_needs_zero_alpha and self.alpha != 0:
            raise ValueError(
                f"alpha must be 0 with rule={self.rule!r} and refine='swap', got {self.alpha!r}: only then do the "
                "scores of the terms add up to something that does not depend on their order."
            )


# -- a path ------------------------------------------------------------------------------------------------------------


def grow_path(rows: Executor, settings: Settings, one_output: bool, callback: Callback | None = None) -> SelectionPath:
    """Grow a path on rows wherever they are."""
    rule = settings.rule if isinstance(settings.rule, Rule) else RULES[settings.rule].build(settings, rows)
    builder = PathBuilder(rows, settings, one_output, rule, callback)
    builder.record(Choice(-1, np.nan))
    state, path = builder.state, builder.path
    path.stop_reason = grow(state, builder.rule, builder.limit_reached, builder.after_step, builder.forced)
    path.training = replace(state.training(rows.model_rows()), by_size=builder.weights)
    if builder.defers_correlations and len(path):
        steps = zip(path.steps[1:], state.correlations(len(path)).tolist(), strict=True)
        path.steps[1:] = [replace(step, correlation=correlation) for step, correlation in steps]
    return path if settings.refine is None or path.stop_reason == STOPPED else builder.refine()


class PathLimits:
    """When a path must end, whatever the loss."""

    path: Any  # with as many entries as terms
    most: int  # terms that the data can determine
    limit: int  # the most terms of the path

    def __init__(self, settings: Settings, callback: Callback | None, p: int) -> None:
        self.started = time.perf_counter()
        self.settings, self.callback = settings, callback
        self.forced = check_indices("include", settings.include, p, what="term").tolist()
        self.n_forced = 0  # terms of `include` in the model
        self.stopped = False  # by the callback
        self.sizes: list[int] = []  # the criterion's choices so far

    def limit_terms(self, n: float, p: int) -> None:
        """Limit the terms to those that n samples and p candidates can determine, those of `include` as well."""
        max_terms = self.settings.max_terms
        self.most = max(min(p, int(n) - self.settings.fit_intercept), 0)
        self.forced = self.forced[: self.most]
        self.limit = self.most if max_terms is None else min(max(max_terms, len(self.forced)), self.most)

    def limit_reached(self) -> str:
        """The limit that is reached, "" if none is."""
        if self.stopped:
            return STOPPED
        max_terms, max_seconds = self.settings.max_terms, self.settings.max_seconds
        if max_terms is not None and max_terms <= self.most and len(self.path) >= max(max_terms, self.n_forced):
            return f"max_terms={max_terms} reached"
        if len(self.path) >= self.most:
            return "as many terms as the data can determine"
        return f"max_seconds={max_seconds:g} are over" if self.time_over() else ""

    def reason_to_stop(self, choice: Choice, forced_left: int) -> str:
        """Count the term just recorded, call the callback and return why to stop, "" to go on."""
        self.n_forced += choice.index in self.forced
        self.stopped |= self.callback is not None and bool(self.callback(self.path))
        return STOPPED if self.stopped and not forced_left else self.patience_reason()

    def patience_reason(self) -> str:
        """Record the criterion's choice, one per term; return why more terms would not change it, "" if they may."""
        criterion, patience, sizes = self.settings.criterion, self.settings.patience, self.sizes
        if patience is None:
            return ""
        sizes.append(len(self.path) if criterion is None else SIZE_CRITERIA[criterion](self.path))
        if len(sizes) >= self.n_forced + patience and len(set(sizes[-patience - 1 :])) == 1:
            return f"the choice of {criterion!r} has not changed for {patience} terms"
        return ""

    def time_over(self) -> bool:
        """Whether the path has taken more than `max_seconds`."""
        limit = self.settings.max_seconds
        return limit is not None and time.perf_counter() - self.started > limit


class PathBuilder(PathLimits):
    """Grows a path: the state of the model, its record, and when to stop."""

    def __init__(
        self, rows: Executor, settings: Settings, one_output: bool, rule: Rule, callback: Callback | None
    ) -> None:
        p = rows.n_candidates
        super().__init__(settings, callback, p)
        self.rows = rows
        self.fresh_rule, self.rule = rule, copy.copy(rule)  # which may store attributes while the path grows
        self.state, reestimated = State(rows, settings), settings.alpha == "reestimate"
        state = self.state
        if reestimated:
            squares = to_host(state.s)[to_host(state.eligible)]
            state.alpha = REESTIMATED_ALPHA_START * float(np.median(squares)) if len(squares) else 0.0
        # a score in closed form reads statistics only, which the one pass over the data has computed already
        state.prefetches, state.follows_cost = not isinstance(rule, ClosedForm), rule.follows_cost
        self.path = SelectionPath(state.n, p, settings.fit_intercept, one_output, unresolved=state.unresolved)
        if self.forced:  # of a constant, centring leaves rounding, by which nothing may be divided
            eligible = to_host(state.eligible)
            self.forced = [j for j in self.forced if eligible[j]]
        self.limit_terms(state.n, p)
        self.cost = state.cost  # of the model before the newest term
        self.weights: dict[int, tuple[Any, Any]] = {}  # and intercepts, under former penalties
        stops_by_tcr = settings.criterion == "tcr" and settings.patience is not None
        # Computed together at the end correlations cost less and need no synchronisation. But "tcr" reads them after
        # every term, a callback may, and a new penalty rotates the columns that they follow from.
        read_by_callback = callback is not None and not is_foreign(state.s)
        self.defers_correlations = not (stops_by_tcr or read_by_callback or reestimated)
        plain = settings.refine is None and settings.constraints is None and not reestimated
        if rows.steps_ahead and plain and runs_ahead(rule) and p > 1:
            self.rule = state.run_ahead = RunAhead(state, self.rule, self.limit, correlate=stops_by_tcr)

    def after_step(self, choice: Choice, forced_left: int) -> str:
        """Re-estimate the penalty, record the step and return why to stop, if so."""
        state, path = self.state, self.path
        reduction = self.cost - state.cost
        correlation = np.nan if self.defers_correlations else float(state.correlations(1)[0])
        if self.settings.alpha == "reestimate":
            state.set_alpha(reestimated_alpha(state))
            k = len(state.chosen)
            self.weights[k] = state.training().weights(k)  # the factor they come from will be replaced
        if not forced_left and len(path) + 1 < self.limit and state.constraints is None:
            self.rule.prepare(state)
        self.record(choice, reduction, correlation)
        self.cost = state.cost
        return self.reason_to_stop(choice, forced_left)

    def record(self, choice: Choice, reduction: float = 0.0, correlation: float = 0.0) -> None:
        """Append a row to the path; squared errors are averaged over the outputs.

        Where some sample has leverage 1 there is no leave-one-out error.
        """
        state, sums = self.state, self.state.moments
        q, n, sse = state.q, state.n, state.sse / state.q
        loo_sse = np.inf if sums.undefined else float(sums.loo_sse.sum()) / q
        spread = np.inf if sums.undefined else np.sqrt(max(sums.spread / q**2 / n - (loo_sse / n) ** 2, 0.0))
        self.path.steps.append(
            Step(
                term=choice.index,
                score=choice.score,
                sse=sse,
                cost=state.cost / q,
                dof=state.dof,
                alpha=state.alpha,
                loo_se=spread / np.sqrt(n),
                reduction=reduction / q,
                correlation=correlation,
                verified=choice.verified,
                seconds=time.perf_counter() - self.started,
                **{name: float(f(sse, state.dof, n, loo_sse)) for name, f in CRITERIA.items()},
            )
        )

    def refine(self) -> SelectionPath:
        """Exchange terms of the model the criterion chooses; if any is, return the path of the refined model."""
        state, path = self.state, self.path
        state.prefetches = False
        size = max(path.choose(self.settings.criterion), self.n_forced)
        for _ in range(len(path) - size):
            state = state.without_newest()
        found, exchanges, end = exchange_terms(state, self.fresh_rule, self.n_forced, self.time_over)
        reason = f"{path.stop_reason}; terms exchanged: {len(exchanges)}, {end}"
        if exchanges:  # grow the path of just these terms, the forced ones first, then in the order of the rule
            elapsed = time.perf_counter() - self.started
            terms, n_candidates = np.array(found), path.n_candidates
            plain = replace(
                self.settings,
                rule=self.fresh_rule,
                max_terms=None,
                criterion=None,
                patience=None,
                max_seconds=None,
                refine=None,
            )
            order = np.arange(self.n_forced)
            for _ in range(2):
                path = grow_path(self.rows.restrict(terms), replace(plain, include=order), path.one_output)
                if len(path) == len(terms):
                    break  # else the rule ended earlier, but the size was chosen already
                order = np.append(path.terms, np.setdiff1d(np.arange(len(terms)), path.terms))
            path.steps[1:] = [replace(s, term=int(terms[s.term]), seconds=s.seconds + elapsed) for s in path.steps[1:]]
            path.n_candidates, path.unresolved = n_candidates, self.path.unresolved
        path.stop_reason, path.n_swaps = reason, len(exchanges)
        return path


def reestimated_alpha(state: State) -> float:
    """One application of Orr (6.5) to the chosen terms; the penalty so far where it is not defined."""
    first = state.intercept
    R_inv = np.linalg.inv(state.R[first:, first:])
    A_inv = R_inv @ R_inv.T
    w = state.training().weights(len(state.chosen))[0]
    trace = float(np.trace(A_inv) - state.alpha * np.sum(A_inv * A_inv))
    weight_form, freedom = float(np.sum(w * (A_inv @ w))), state.n - state.dof
    if weight_form <= 0 or freedom <= 0 or trace <= 0:
        return state.alpha
    scale = float(to_host(at(state.norms, np.array(state.chosen))).mean())
    alpha = reestimate(state.sse, trace, weight_form, state.n, freedom)
    return float(np.clip(alpha, scale / REESTIMATED_ALPHA_RANGE, scale * REESTIMATED_ALPHA_RANGE))


# -- exchange of terms -------------------------------------------------------------------------------------------------


def exchange_terms(
    state: State, rule: Rule, fixed: int, time_over: Callable[[], bool], max_rounds: int = SWAP_ROUNDS
) -> tuple[list[int], list[tuple[int, int]], str]:
    """Exchange terms one for one, all but the first `fixed` ones, until no exchange makes the model better.

    Return the terms, the exchanges (old, new) and why they ended.

    Forward selection never removes a term, though later terms can make it redundant. Here each term in turn is removed,
    and the rule chooses the best one to add, from the statistics of the model without it. With the other terms fixed,
    scores rank models of equal size: by leave-one-out, K-fold or GCV error or misclassifications for these rules; by
    the squared error or the regularised cost for "sse" and "cost", whose scores are drops from the same level; by
    `det(G_S'G_S + alpha I)` for "norm", which a term multiplies by `alpha + s`; and for "d_optimal", if alpha is zero,
    by the drop of the squared error plus beta times the logarithm of that determinant. Each exchange improves this
    objective, so that they come to an end; for a custom rule whose scores order no such objective, after `max_rounds`.
    The first term is moved to the end before it is removed, so that a round leaves all of them in their places.
    """
    exchanges: list[tuple[int, int]] = []
    size, unchanged = len(state.chosen) - fixed, 0
    for _ in range(max_rounds * size):
        if unchanged >= size or time_over():
            break
        state.move_to_end(fixed)
        old = state.chosen[-1]
        better = with_better_term(state.without_newest(), old, rule)
        unchanged = unchanged + 1 if better is None else 1
        if better is not None:
            state = better
            exchanges.append((old, state.chosen[-1]))
    if unchanged >= size:
        return state.chosen, exchanges, "no other is better"
    return state.chosen, exchanges, "time is over" if time_over() else f"{max_rounds} rounds are over"


def with_better_term(state: State, old: int, rule: Rule) -> State | None:
    """Append the best candidate to the model without `old`; None if `old` is as good up to rounding."""
    while (choice := copy.copy(rule).choose(state)) is not None:
        if choice.index == old:
            return None
        alone = copy.copy(state)
        alone.eligible = namespace(state.eligible).zeros_like(state.eligible)
        alone.eligible[old] = state.eligible[old]
        other = copy.copy(rule).choose(alone)
        if other is not None:  # the choice is better or equal
            # equal but for rounding: of nearly collinear candidates fewer digits are correct
            stats, _ = state.fetch_candidates(np.array([choice.index, old]))
            least = float(np.min(stats.vv / stats.norms))
            digits = SCORE_ULPS * np.finfo(np.float64).eps / np.sqrt(max(least, SMALLEST_NORMAL))
            tolerance = max(TIE_TOLERANCE, state.tol, float(digits))
            if abs(choice.score - other.score) <= tolerance * max(abs(choice.score), abs(other.score)):
                return None
        if state.append(choice.index):
            return state
    return None
