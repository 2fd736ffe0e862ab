"""Tree rules, conjunctions at the nodes of boosted trees: their conditions, what they find, and models of them."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import boosted_splits

from termwise import (
    AnovaBasis,
    BasisRidge,
    ForwardRegressor,
    RuleBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    UnionBasis,
)
from termwise.basis.trees import BinnedInputs, TreeSettings


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def thresholds_of_three(rng, n=400, d=5):
    X = rng.uniform(-1, 1, size=(n, d))
    return X, 3.0 * ((X[:, 0] > 0.2) & (X[:, 1] <= 0.5) & (X[:, 2] > -0.3)) + X[:, 3] + 0.1 * rng.normal(size=n)


def written_out(basis, x):
    """Evaluate the rules of one sample, condition by condition."""
    found = []
    for inputs, above, thresholds in zip(basis.inputs_, basis.above_, basis.thresholds_, strict=True):
        conditions = [j for j in range(len(inputs)) if inputs[j] >= 0]
        found.append(
            all(x[inputs[j]] > thresholds[j] if above[j] else x[inputs[j]] <= thresholds[j] for j in conditions)
        )
    return found


@pytest.mark.parametrize("max_conditions", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_rule_is_one_where_all_its_conditions_hold(max_conditions, dtype, rng):
    X, y = thresholds_of_three(rng, n=150)
    X[rng.uniform(size=X.shape) < 0.05] = np.nan
    X = X.astype(dtype)
    basis = RuleBasis(n_trees=8, max_conditions=max_conditions).fit(X, y)
    G = basis.transform(X)
    assert G.dtype == dtype
    np.testing.assert_array_equal(G, [written_out(basis, x) for x in X])
    assert np.sum(basis.inputs_ >= 0, axis=1).max() == max_conditions
    for name, row in zip(basis.get_feature_names_out(), basis.inputs_, strict=True):
        assert len(name.split(" and ")) == np.sum(row >= 0)


def test_rules_are_distinct_up_to_complements_and_have_support(rng):
    X, y = thresholds_of_three(rng)
    X = np.round(X, 1)
    basis = RuleBasis(min_count=7).fit(X, y)
    G = basis.transform(X)
    assert G.sum(axis=0).min() >= 7
    assert np.all(G.std(axis=0) > 0)
    flipped = np.abs(G - G[0])
    assert len(np.unique(flipped, axis=1).T) == basis.n_functions


def test_every_tree_reduces_the_squared_error_as_it_claims(rng):
    """The gains of the splits of a tree are the squared error that the means of its leaves remove."""
    X, y = thresholds_of_three(rng, n=200)
    settings = TreeSettings(n_trees=1, learning_rate=1.0, depth=3, max_thresholds=31, min_count=5)
    binned = BinnedInputs.from_samples(X, y[:, None], settings)
    (levels,) = binned.boost()
    leaf = np.zeros(200, dtype=int)
    for split in levels:
        below = [
            (X[:, binned.columns[j]] <= binned.thresholds[j][k]) | (gain == 0)
            for j, k, gain in zip(*split, strict=True)
        ]
        leaf = 2 * leaf + ~np.choose(leaf, below)
    t = (y - y.mean()) / y.std()
    residual = t - np.array([t[leaf == one].mean() for one in leaf])
    assert sum(split.gains.sum() for split in levels) == pytest.approx(np.sum(t**2) - np.sum(residual**2))


def test_the_first_split_is_the_best_of_all(rng):
    X, y = thresholds_of_three(rng, n=80, d=4)
    basis = RuleBasis(n_trees=1, max_conditions=1, min_count=1).fit(X, y)
    assert basis.n_functions == 1  # the other side is its complement
    errors = []
    for j in range(4):
        for t in np.sort(X[:, j])[:-1]:
            sides = y[X[:, j] <= t], y[X[:, j] > t]
            errors.append(sum(np.sum((side - side.mean()) ** 2) for side in sides))
    found = X[:, basis.inputs_[0, 0]] <= basis.thresholds_[0, 0]
    error = sum(np.sum((y[side] - y[side].mean()) ** 2) for side in (found, ~found))
    assert error <= 1.05 * min(errors)  # thresholds are between at most 64 bins


def test_rules_are_those_of_trees_grown_by_trying_every_split(rng):
    """Numbers with few values, and indicators, of which a histogram counts the rarer value alone."""
    shares = np.array([0.1, 0.4, 0.6, 0.95])
    X = np.column_stack([rng.integers(0, 6, (150, 3)), rng.uniform(size=(150, 4)) < shares, np.ones(150)]).astype(float)
    y = X[:, 0] + 3.0 * X[:, 4] * (X[:, 1] > 2) - 2.0 * X[:, 3] + 0.3 * rng.normal(size=150)
    basis = RuleBasis(n_trees=6, max_conditions=3, min_count=5).fit(X, y)
    expected = np.zeros((150, 0))
    for *_, low, high in boosted_splits(X, y[:, None], 5, n_trees=6, rate=0.1):
        expected = np.column_stack([expected, np.isin(np.arange(150), low), np.isin(np.arange(150), high)])
    found = basis.transform(X)
    each, every = (np.unique(np.abs(G - G[0]), axis=1) for G in (found, expected))  # up to complements
    np.testing.assert_array_equal(each, every)


def test_the_conjunction_behind_the_targets_is_found(rng):
    X, y = thresholds_of_three(rng)
    model = ForwardRegressor(UnionBasis([AnovaBasis(n_centers=0, order=1), RuleBasis()]), max_terms=2).fit(X, y)
    linear, rule = sorted(model.get_feature_names_out(), key=len)
    assert linear == "x3"
    assert [condition.split()[:2] for condition in rule.split(" and ")] == [["x0", ">"], ["x1", "<="], ["x2", ">"]]
    assert model.score(X, y) > 0.95


def test_repetitions_and_the_order_of_columns_do_not_change_rules(rng):
    X, y = thresholds_of_three(rng, n=120)
    once = RuleBasis(10).fit(X, y)
    rows, order = np.repeat(np.arange(120), rng.integers(1, 4, size=120)), np.array([3, 1, 4, 0, 2])
    np.testing.assert_array_equal(once.transform(X), RuleBasis(10).fit(X[rows], y[rows]).transform(X))
    other = RuleBasis(10).fit(X[:, order], y)
    np.testing.assert_array_equal(once.transform(X), other.transform(X[:, order]))


def test_several_outputs_share_the_rules(rng):
    X, y = thresholds_of_three(rng)
    Y = np.column_stack([y, -2.0 * y, *rng.normal(size=(12, len(y)))])
    assert BasisRidge(RuleBasis(10)).fit(X, Y[:, :2]).score(X, Y[:, :2]) > 0.9
    assert RuleBasis(3).fit(X, Y).n_functions > 5  # of the principal components
    assert RuleBasis(3).fit(X, np.zeros(len(X))).n_functions == 0  # nothing to find


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_the_automatic_estimators_take_rules(kind, rng):
    X, y = thresholds_of_three(rng, n=300)
    estimator = TermwiseRegressor("accurate", dictionary="rules", target="boosting")
    if kind == "classes":
        estimator, y = TermwiseClassifier("accurate", dictionary="rules", target="boosting"), y > 1.5
    model = estimator.fit(X[:200], y[:200])
    assert model.dictionary_ == "rules"
    assert model.score(X[200:], y[200:]) > 0.85
    np.testing.assert_allclose(model.predictor_.predict(X[200:]), model.predict(X[200:]))
    assert any(" and " in name for name in model.get_feature_names_out())


@pytest.mark.slow
def test_rules_are_tried_where_boosting_is_accurate(rng):
    X, y = thresholds_of_three(rng, n=400)
    assert "rules, boosting" in TermwiseRegressor("accurate").fit(X, y).trials_
    assert not any("rules" in title for title in TermwiseRegressor("accurate").fit(X, X[:, 0]).trials_)
