"""Exchanging terms one for one, until no exchange makes a model of that size better.

Forward selection never takes a term back, though terms taken later can make it useless. Here each term in turn is taken
out, and the rule chooses the best one to go in, from the statistics of the model without it. Beside the same others,
scores order models of equal size: by leave-one-out, K-fold or GCV error or misclassifications for the rules that say
so; by the squared error or the regularised cost for "sse" and "cost", whose scores are drops from the same level; by
`det(G_S'G_S + alpha I)` for "norm", which a term multiplies by `alpha + s`; and by what "d_optimal" adds up over the
terms, the drop of the squared error and beta times the logarithm of that determinant, if alpha is zero. Each exchange
makes this objective better, so that they come to an end.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from termwise._arrays import namespace
from termwise.selection.rules import TIE, Choice, Rule
from termwise.selection.state import State

MOST_ROUNDS = 20  # through all terms; fewer than ten are usual


def swap(state: State, rule: Rule, fixed: int, over: Callable[[], bool]) -> tuple[list[int], int, str]:
    """Exchange terms, all but the first `fixed` ones: return the terms, the number of exchanges and why they ended.

    The term at the front goes to the end before it is taken out, so that a round leaves all of them in their places.
    """
    size = len(state.chosen) - fixed
    swaps = settled = 0
    for _ in range(MOST_ROUNDS * size):
        if settled >= size or over():
            break
        state.move_to_end(fixed)
        better = replaced(state.without_newest(), state.chosen[-1], rule)
        state, swaps, settled = (state, swaps, settled + 1) if better is None else (better, swaps + 1, 1)
    end = "no other is better" if settled >= size else "time is over" if over() else f"{MOST_ROUNDS} rounds are over"
    return state.chosen, swaps, end


def replaced(state: State, old: int, rule: Rule) -> State | None:
    """Append the best candidate to a model that has lost a term; None if that term is as good."""
    while (choice := copy.copy(rule).choose(state)) is not None:
        if choice.index == old or not beats(choice, alone(state, old, rule), max(TIE, state.tol)):
            return None
        if state.append(choice.index):
            return state
    return None


def alone(state: State, j: int, rule: Rule) -> Choice | None:
    """What the rule says of one candidate, None if nothing good."""
    single = copy.copy(state)
    single.usable = namespace(state.usable).zeros_like(state.usable)
    single.usable[j] = state.usable[j]
    return copy.copy(rule).choose(single)


def beats(best: Choice, other: Choice | None, rounding: float) -> bool:
    """Whether the best candidate is better than another by more than rounding: better or equal it is anyway."""
    if other is None:
        return True
    return abs(best.score - other.score) > rounding * max(abs(best.score), abs(other.score))
