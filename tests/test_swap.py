"""Exchanging terms one for one, against trying every exchange with real refits."""

from __future__ import annotations

import time
from unittest import SkipTest

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GroupKFold
from sklearn.utils.estimator_checks import estimator_checks_generator

from termwise import BasisRidge, ForwardClassifier, ForwardRegressor, forward_path
from termwise.execution.local import LocalBlocks
from termwise.selection import RULES, engine
from termwise.selection.blocks import RowBlock
from termwise.selection.state import State

KINDS = ("mixed", "wide", "gaussian")
BETA = 1e-3


def settings(alpha, **others):
    """Those of a path whose columns of G'G are not computed."""
    return engine.Settings("cost", alpha, precompute=False, **others)


def make(kind, seed, outputs=1):
    """Candidates that share a few sources, so that the first ones taken tend to be wrong."""
    rng = np.random.default_rng(seed)
    if kind == "gaussian":
        x = rng.uniform(-1.5, 1.5, size=26)
        G, y = np.exp(-((x[:, None] - x[:14]) ** 2) / 0.6**2), np.sin(4 * x) + 0.1 * rng.normal(size=26)
    else:
        n, p = (24, 12) if kind == "mixed" else (14, 18)
        sources = rng.normal(size=(n, 5))
        G = sources @ rng.normal(size=(5, p)) + 0.4 * rng.normal(size=(n, p)) + rng.normal(size=p)
        y = sources @ rng.normal(size=5) + 0.3 * rng.normal(size=n)
    return G, np.column_stack([y, rng.normal(size=(len(G), outputs - 1))])


def labels(Y):
    return np.where(np.median(Y, axis=0) < Y, 1.0, -1.0)


def greedy(G, y, rule, alpha, size, **options):
    return forward_path(G, y, rule=rule, alpha=alpha, max_terms=size, beta=BETA, **options)


def penalty_of(rule, alpha):
    return 0.0 if RULES[rule].swap_needs_zero_alpha else alpha


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_exchanges_are_those_of_brute_force(kind, rule, monkeypatch):
    """Also their order; the objective gets better with each."""
    made, original = [], engine.exchange_terms

    def spy(*args):
        terms, exchanges, end = original(*args)
        made.extend(exchanges)
        return terms, exchanges, end

    monkeypatch.setattr(engine, "exchange_terms", spy)
    total = 0
    for seed, alpha in enumerate([1e-6, 0.0, 0.3, 1e-6]):
        G, Y = make(kind, 6 + seed, outputs=1 + seed % 2)
        Y = labels(Y) if rule == "loo_error" else Y
        alpha, intercept = penalty_of(rule, alpha), seed != 2
        before = greedy(G, Y, rule, alpha, 4, fit_intercept=intercept).terms
        made.clear()
        path = greedy(G, Y, rule, alpha, 4, fit_intercept=intercept, refine="swap")
        terms, expected = oracles.swapped(G, Y, rule, alpha, before, intercept=intercept, beta=BETA)
        assert made == expected
        assert path.n_swaps == len(expected)
        assert sorted(path.terms) == sorted(terms)
        values = [oracles.objective(G, Y, S, rule, alpha, intercept, BETA) for S in (before, path.terms)]
        assert values[1] < values[0] or not expected
        assert path.stop_reason.endswith(f"; terms exchanged: {len(expected)}, no other is better")
        total += len(expected)
    assert total or rule in ("norm", "loo_error")


@pytest.mark.parametrize("rule", RULES)
def test_never_worse_than_greedy(rule):
    swaps = 0
    for seed in range(15):
        G, Y = make(KINDS[seed % 3], 100 + seed)
        Y, alpha = labels(Y) if rule == "loo_error" else Y, penalty_of(rule, 1e-4)
        before, path = (greedy(G, Y, rule, alpha, 5, refine=refine) for refine in (None, "swap"))
        one, other = (oracles.objective(G, Y, p.terms, rule, alpha, beta=BETA) for p in (before, path))
        assert other < one if path.n_swaps else other == one
        swaps += path.n_swaps
    assert swaps


@pytest.mark.parametrize("rule", ["loo", "cost", "gcv"])
def test_nearly_dependent_candidates(rule):
    """Neighbouring Gaussians, nearly the same: exchanges come to an end, and no other makes more than rounding."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(-1, 1, size=50))
    G = np.exp(-((x[:, None] - x) ** 2) / 0.8**2)
    assert np.linalg.cond(G) > 1e15
    y = (np.sin(6 * x) + 0.05 * rng.normal(size=50))[:, None]
    before, path = (greedy(G, y, rule, 1e-6, 6, refine=refine) for refine in (None, "swap"))
    assert path.n_swaps > 0
    assert path.stop_reason.endswith("no other is better")
    value, first = (oracles.objective(G, y, p.terms, rule, 1e-6) for p in (path, before))
    assert value < first
    for i in range(6):
        others = np.delete(path.terms, i)
        for j in np.setdiff1d(np.arange(50), path.terms):
            assert oracles.objective(G, y, [*others, j], rule, 1e-6) > value * (1 - 1e-7)


def test_the_sum_that_hides_its_parts(rng):
    """y is a sum of two columns, and a third is that sum with an error: greedy takes it and never lets it go."""
    G = rng.normal(size=(100, 10))
    y = G[:, 2] + G[:, 5]
    G[:, 8] = y + 0.6 * rng.normal(size=100)
    assert forward_path(G, y, max_terms=2).terms[0] == 8
    assert greedy(G, y, "loo", 1e-6, 2).steps[-1].loo > 0.1
    for rule in ("loo", "cost", "sse", "gcv", "kfold"):
        path = greedy(G, y, rule, 1e-6, 2, refine="swap")
        assert sorted(path.terms) == [2, 5]
        assert path.n_swaps == 1
        assert path.steps[-1].loo < 1e-12


def test_a_path_that_needs_no_exchange_is_left_alone(rng):
    """At all of its sizes, also those beyond the one the criterion chose."""
    G = rng.normal(size=(60, 20))
    y = G[:, 3] - 2 * G[:, 7] + 0.1 * rng.normal(size=60)
    options = {"criterion": "tcr", "max_terms": 8}
    plain, path = forward_path(G, y, **options), forward_path(G, y, **options, refine="swap")
    assert path.n_swaps == 0
    assert path.terms.tolist() == plain.terms.tolist()
    assert path.choose("tcr") == 2
    for k in range(9):
        np.testing.assert_array_equal(path.coef(k)[0], plain.coef(k)[0])
        np.testing.assert_array_equal(path.training.columns(k), plain.training.columns(k))
    unrelated = oracles.projection(G[:, :2], 0.0) @ y
    nothing = forward_path(G[:, :2], unrelated, criterion="bic", refine="swap")
    assert nothing.choose("bic") == 0
    assert nothing.n_swaps == 0
    assert len(nothing) == 2


def test_the_refined_path_is_a_path(rng):
    """Its sizes are the rule's own choices among the refined terms; weights and criteria are those of refits."""
    G, y = make("mixed", 0)
    path = greedy(G, y[:, 0], "loo", 1e-3, 5, refine="swap")
    assert path.n_swaps > 0
    assert len(path) == 5
    assert path.n_candidates == 12
    among = sorted(path.terms)
    assert np.array(among)[oracles.forward(G[:, among], y, "loo", 1e-3, 5)].tolist() == path.terms.tolist()
    assert np.all(np.diff(path.column("seconds")[1:]) >= 0)
    for k in range(1, 6):
        ridge = BasisRidge(alpha=1e-3).fit(G[:, path.terms[:k]], y[:, 0])
        np.testing.assert_allclose(path.coef(k)[0], ridge.coef_, rtol=1e-7)
        assert path.coef(k)[1] == pytest.approx(ridge.intercept_, rel=1e-7)
        assert path.steps[k].loo == pytest.approx(ridge.criteria_["loo"], rel=1e-8)


def test_a_rule_that_ends_by_itself_keeps_the_size_when_refined():
    """Left with the refined terms alone it would end earlier."""
    shorter = 0
    for seed in range(40):
        G, y = make("mixed", seed)
        options = {"rule": "d_optimal", "alpha": 0.0, "beta": 0.02 * np.sum(y**2)}
        plain, path = (forward_path(0.3 * G, y, **options, refine=refine) for refine in (None, "swap"))
        assert "no candidate has a positive score" in path.stop_reason
        assert len(path) == len(plain)
        assert np.isfinite(path.coef(len(path))[0]).all()
        if path.n_swaps:
            shorter += len(forward_path(0.3 * G[:, path.terms], y, **options)) < len(path)
    assert shorter


@pytest.mark.parametrize("alpha", [0.0, 1e-6, 0.5])
@pytest.mark.parametrize("intercept", [True, False])
def test_states_after_moving_and_removing_are_those_of_a_fresh_start(alpha, intercept, rng):
    G, Y, counts = rng.normal(size=(30, 9)) + 1, rng.normal(size=(30, 2)), rng.integers(1, 4, size=30) * 1.0

    def grown(terms):
        blocks = [RowBlock(G[a:b], Y[a:b], counts[a:b]) for a, b in ((0, 11), (11, 30))]
        state = State(LocalBlocks(blocks), settings(alpha, fit_intercept=intercept))
        for j in terms:
            assert state.append(j)
        return state

    def assert_same(state, fresh):
        assert state.chosen == fresh.chosen
        for name in ("c", "s", "vv", "rv", "dof", "cost", "R", "T", "B", "zy", "eligible", "sse"):
            np.testing.assert_allclose(getattr(state, name), getattr(fresh, name), rtol=1e-9, atol=1e-10, err_msg=name)
        for block, other in zip(state.rows.blocks, fresh.rows.blocks, strict=True):
            for name in ("Z", "r", "gap"):
                np.testing.assert_allclose(getattr(block, name), getattr(other, name), rtol=1e-9, atol=1e-10)

    state = grown([3, 1, 7, 4])
    state.move_to_end(1)
    assert_same(state, grown([3, 7, 4, 1]))
    smaller = state.without_newest()
    assert_same(smaller, grown([3, 7, 4]))
    assert_same(state, grown([3, 7, 4, 1]))
    smaller.append(0)
    smaller.move_to_end(0)
    assert_same(smaller, grown([7, 4, 0, 3]))
    while smaller.chosen:
        smaller = smaller.without_newest()
    assert_same(smaller, grown([]))


def test_many_rounds_lose_no_digits():
    x = np.linspace(-1, 1, 80)
    G, y = np.exp(-((x[:, None] - x) ** 2) / 0.3**2), np.sin(5 * x)
    blocks = [RowBlock(G, y[:, None], np.ones(80))]
    state = State(LocalBlocks(blocks), settings(1e-6))
    for j in range(0, 80, 8):
        state.append(j)
    before = {name: getattr(state, name).copy() for name in ("R", "T", "B", "zy")}
    for _ in range(300):  # thirty rounds
        state.move_to_end(0)
    for name, value in before.items():
        np.testing.assert_allclose(getattr(state, name), value, atol=1e-11 * np.abs(value).max(), err_msg=name)


@pytest.mark.parametrize("container", ["float32", "csr", "blocks", "gram", "F"])
@pytest.mark.parametrize("rule", ["loo", "cost", "kfold"])
def test_containers_give_the_same_terms(container, rule):
    for seed in range(4):
        G, y = make("mixed", 20 + seed)
        options = {"block_rows": 7} if container == "blocks" else {"precompute": True} if container == "gram" else {}
        kinds = {"float32": lambda G: G.astype(np.float32), "csr": sp.csr_array, "F": np.asfortranarray}
        other = kinds.get(container, np.asarray)(G)
        one, two = (greedy(A, y, rule, 0.01, 5, refine="swap", **o) for A, o in ((G, {}), (other, options)))
        assert one.terms.tolist() == two.terms.tolist()
        assert one.n_swaps == two.n_swaps


@pytest.mark.parametrize("rule", ["loo", "cost", "gcv", "loo_error"])
def test_weights_are_repetitions(rule, rng):
    swaps = 0
    for seed in range(6):
        G, Y = make("mixed", 40 + seed, outputs=2)
        Y = labels(Y[:, :1]) if rule == "loo_error" else Y
        counts = rng.integers(0, 4, size=len(G))
        weighted = greedy(G, Y, rule, 0.1, 4, refine="swap", sample_weight=counts)
        repeated = greedy(*oracles.repeat(counts, G, Y), rule, 0.1, 4, refine="swap")
        assert weighted.terms.tolist() == repeated.terms.tolist()
        swaps += weighted.n_swaps
        if seed == 0:
            before = greedy(*oracles.repeat(counts, G, Y), rule, 0.1, 4).terms
            terms, _ = oracles.swapped(*oracles.repeat(counts, G, Y), rule, 0.1, before)
            assert sorted(weighted.terms) == sorted(terms)
    assert swaps


def test_included_terms_stay_in(rng):
    G = rng.normal(size=(100, 10))
    y = G[:, 2] + G[:, 5]
    G[:, 8] = y + 0.1 * rng.normal(size=100)
    path = forward_path(G, y, include=[8, 1], max_terms=4, refine="swap")
    assert path.terms[:2].tolist() == [8, 1]
    assert sorted(path.terms[2:]) == [2, 5]
    G, y = make("mixed", 7)
    for fixed in ([11], [3, 0]):
        before = greedy(G, y, "loo", 0.01, 5, include=fixed).terms
        path = greedy(G, y, "loo", 0.01, 5, include=fixed, refine="swap")
        terms, _ = oracles.swapped(G, y, "loo", 0.01, before, fixed=len(fixed))
        assert sorted(path.terms) == sorted(terms)
        assert path.terms[: len(fixed)].tolist() == fixed
    named, masked = (
        ForwardRegressor(include=which, refine="swap").fit(G, y[:, 0]) for which in ([11], np.arange(12) == 11)
    )
    assert named.support_.tolist() == masked.support_.tolist()
    only = forward_path(G, y, include=[4, 5], max_terms=2, refine="swap")
    assert only.terms.tolist() == [4, 5]


def test_copies_are_not_exchanged_for_each_other(rng):
    """The copy with the lower index is not better."""
    G = rng.normal(size=(50, 6))
    y = G[:, 4] + G[:, 1] + 0.1 * rng.normal(size=50)
    path = forward_path(np.hstack([G[:, 1:2], G]), y, include=[2], max_terms=2, refine="swap")
    assert path.n_swaps == 0
    state = State(LocalBlocks([RowBlock(np.hstack([G, G]), y[:, None], np.ones(50))]), settings(1e-6))
    state.append(10)
    state.append(7)
    terms, exchanges, _ = engine.exchange_terms(state, RULES["loo"](), 0, lambda: False)
    assert not exchanges
    assert terms == [10, 7]


def test_budgets():
    G, y = make("mixed", 0)
    full = greedy(G, y, "loo", 1e-3, 5, refine="swap")
    assert full.n_swaps > 1
    state = State(LocalBlocks([RowBlock(G, y, np.ones(len(G)))]), settings(1e-3))
    for j in greedy(G, y, "loo", 1e-3, 5).terms:
        state.append(j)
    _, exchanges, end = engine.exchange_terms(state, RULES["loo"](), 0, lambda: False, max_rounds=1)
    assert 1 <= len(exchanges) <= 5
    assert end == "1 rounds are over"
    stopped = forward_path(G, y, refine="swap", callback=lambda path: len(path) == 3)
    assert stopped.stop_reason == "stopped by a callback"
    assert stopped.n_swaps == 0

    def slow(path):
        time.sleep(0.02)

    late = forward_path(G, y, refine="swap", max_seconds=0.05, callback=slow)
    assert late.stop_reason == "max_seconds=0.05 are over; terms exchanged: 0, time is over"


def test_folds_that_can_be_read_only_once(rng):
    G, y = make("mixed", 3)
    groups = rng.integers(0, 4, size=len(G))
    splits = [GroupKFold(4).split(G, y, groups) for _ in range(2)]
    once = greedy(G, y, "kfold", 0.01, 5, refine="swap", cv=splits[0])
    again = greedy(G, y, "kfold", 0.01, 5, refine="swap", cv=list(splits[1]))
    assert once.terms.tolist() == again.terms.tolist()


def test_estimators(rng):
    G, y = make("mixed", 0)
    y = y[:, 0]
    plain, model = (
        ForwardRegressor(criterion=None, max_terms=5, alpha=1e-3, refine=refine).fit(G, y) for refine in (None, "swap")
    )
    assert model.n_swaps_ == model.path_.n_swaps > 0
    assert model.criteria_["loo"] < plain.criteria_["loo"]
    assert f"terms exchanged for better ones: {model.n_swaps_}" in model.summary()
    assert "exchanged" not in plain.summary()
    assert plain.n_swaps_ == 0
    assert model.n_terms_ == 5
    assert model.at(2).support_.tolist() == model.path_.terms[:2].tolist()
    assert "terms exchanged" in model.stop_reason_
    for criterion in ("tcr", "loo", "tcr_sequential"):
        plain, model = (
            ForwardRegressor(criterion=criterion, refine=refine, include=[3]).fit(G, y) for refine in (None, "swap")
        )
        assert model.n_terms_ == plain.n_terms_
        assert model.support_[0] == 3
    classes = ForwardClassifier(rule="loo_error", refine="swap", max_terms=3, criterion=None).fit(G, y > 0)
    assert classes.n_terms_ == 3


CHECKED = [
    ForwardRegressor(refine="swap", criterion="tcr", max_terms=5),
    ForwardClassifier(refine="swap", criterion=None, max_terms=4),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("default::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix")
@pytest.mark.parametrize("estimator", CHECKED, ids=lambda model: type(model).__name__)
def test_scikit_learns_checks(estimator):
    for instance, check in estimator_checks_generator(estimator):
        try:
            check(instance)
        except SkipTest:  # not for this estimator
            continue
