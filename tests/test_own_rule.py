"""A rule that does not come with the library, given as an object, goes wherever a rule's name does."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from sklearn.base import clone

from termwise import ForwardClassifier, ForwardRegressor, forward_path
from termwise.selection import Choice, ClosedForm, Rule


class PricedRule(ClosedForm):
    """Drop of the regularised cost for the price of a candidate."""

    def __init__(self, prices):
        self.prices = np.asarray(prices, dtype=float)

    def scores(self, state):
        return (state.c**2).sum(axis=1) / state.den / self.prices


class InTurn(Rule):
    """Candidates as they come, however useless, and remembers where it is."""

    end = "all candidates had their turn"

    def __init__(self):
        self.next = 0

    def choose(self, state):
        self.next += 1
        return Choice(self.next - 1, 0.0) if self.next <= 3 else None


def make(seed, p=12):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(60, p)) + rng.normal(size=p)
    return G, G[:, 1] - G[:, 3] + G[:, 7] + 0.5 * rng.normal(size=60), rng.uniform(1, 9, size=p)


def priced(G, y, alpha, prices, steps):
    """Choose by the definition: refit with every candidate, divide what the cost drops by the price."""

    def cost(terms):
        columns = G[:, terms]
        w = oracles.weights(columns, y, np.full(len(terms), alpha))
        return np.sum((y - oracles.predict(columns, w)[:, 0]) ** 2) + alpha * np.sum(w[1:] ** 2)

    chosen = []
    for _ in range(steps):
        rest = [j for j in range(G.shape[1]) if j not in chosen]
        chosen.append(max(rest, key=lambda j: (cost(chosen) - cost([*chosen, j])) / prices[j]))
    return chosen


@pytest.mark.parametrize("seed", range(3))
def test_own_rule_is_what_it_says(seed):
    G, y, prices = make(seed)
    path = forward_path(G, y, rule=PricedRule(prices), alpha=0.1, max_terms=5)
    assert path.terms.tolist() == priced(G, y, 0.1, prices, 5)


def test_equal_prices_are_the_cost_rule_wherever_rows_are():
    G, y, _ = make(4)
    expected = forward_path(G, y, rule="cost", max_terms=6, refine="swap")
    path = forward_path(G, y, rule=PricedRule(np.ones(12)), max_terms=6, refine="swap", block_rows=17)
    assert path.terms.tolist() == expected.terms.tolist()


def test_estimators_clone_it():
    G, y, prices = make(5)
    model = clone(ForwardRegressor(rule=PricedRule(prices), criterion=None, max_terms=4)).fit(G, y)
    assert model.support_.tolist() == priced(G, y, 1e-6, prices, 4)
    assert ForwardClassifier(rule=PricedRule(prices)).fit(G, y > 0).n_terms_ >= 1


def test_what_a_rule_remembers_is_of_one_path():
    G, y, _ = make(6)
    rule = InTurn()
    for _ in range(2):
        path = forward_path(G, y, rule=rule)
        assert path.terms.tolist() == [0, 1, 2]
        assert path.stop_reason == "all candidates had their turn"
    assert rule.next == 0


def test_a_class_is_no_rule():
    G, y, _ = make(7)
    with pytest.raises(ValueError, match=r"rule must be one of .*, or give an instance of termwise\.selection\.Rule"):
        forward_path(G, y, rule=InTurn)
