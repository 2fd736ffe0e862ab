"""Knockoffs by definition, the order of entry, and the false discovery rate."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from termwise import ForwardClassifier, ForwardRegressor, RadialBasis, forward_path
from termwise.selection.knockoffs import discoveries, entry_statistics, knockoff_columns, out_of_reach


def correlated(rng, n, p):
    return 0.7 * rng.normal(size=(n, 1)) + rng.normal(size=(n, p)) @ np.diag(np.linspace(0.5, 3, p))


@pytest.mark.parametrize("intercept", [True, False])
def test_products_of_fixed_knockoffs(intercept, rng):
    """`K'K = G'G`, and `G'K` differs from it on the diagonal only: Barber and Candes 2015 (2.1)."""
    G = correlated(rng, 60, 12) + 4
    K = knockoff_columns(G, fixed=True, intercept=intercept, rng=rng)
    if intercept:
        G, K = G - G.mean(axis=0), K - K.mean(axis=0)
    gram, scale = G.T @ G, np.sum(G**2, axis=0)
    assert np.allclose(K.T @ K, gram, atol=1e-6 * scale.max())
    difference = gram - G.T @ K
    assert np.allclose(difference, np.diag(np.diagonal(difference)), atol=1e-6 * scale.max())
    assert np.all(np.diagonal(difference) > 0.01 * scale)
    assert np.linalg.eigvalsh(2 * gram - np.diag(np.diagonal(difference))).min() > -1e-6 * scale.max()


def test_dependent_and_constant_columns_do_not_spoil_the_others(rng):
    G = rng.normal(size=(80, 10))
    G[:, 7], G[:, 8] = G[:, 0] + G[:, 1], 3.0
    K = knockoff_columns(G, fixed=True, intercept=True, rng=rng)
    assert np.array_equal(K[:, 8], G[:, 8])
    similarity = np.array([abs(np.corrcoef(G[:, j], K[:, j])[0, 1]) for j in (0, 1, 7, 2, 3, 4, 5, 6, 9)])
    assert similarity[:3].min() > 0.99
    assert similarity[3:].max() < 0.8
    assert np.array_equal(knockoff_columns(np.ones((9, 2)), fixed=True, intercept=True, rng=rng), np.ones((9, 2)))


def test_covariances_of_model_x_knockoffs(rng):
    """Second moments of the drawn ones as by definition, within sampling error."""
    G = correlated(rng, 4000, 6) + 2
    K = knockoff_columns(G, fixed=False, intercept=True, rng=rng)
    joint, scale = np.cov(G.T, K.T), np.sqrt(np.outer(*[np.var(G, axis=0)] * 2))
    gram, cross = joint[:6, :6], joint[:6, 6:]
    assert np.all(np.abs(joint[6:, 6:] - gram) < 0.12 * scale)
    assert np.all(np.abs(cross - gram)[~np.eye(6, dtype=bool)] < 0.12 * scale[~np.eye(6, dtype=bool)])
    assert np.all(np.diagonal(gram - cross) > 0.1 * np.diagonal(gram))


def test_exchanging_a_pair_changes_its_sign_alone(rng):
    G = rng.normal(size=(90, 14))
    y = G[:, :5].sum(axis=1) + rng.normal(size=90)
    both = np.hstack([G, knockoff_columns(G, fixed=True, intercept=True, rng=rng)])
    before = entry_statistics(forward_path(both, y, rule="cost", max_terms=20).terms, 14)
    for j in (0, 3, 9, 13):
        swapped = both.copy()
        swapped[:, [j, 14 + j]] = both[:, [14 + j, j]]
        after = entry_statistics(forward_path(swapped, y, rule="cost", max_terms=20).terms, 14)
        expected = before.copy()
        expected[j] *= -1
        assert np.array_equal(after, expected)


def test_discoveries_by_hand():
    statistics = entry_statistics(np.array([2, 0, 7, 3, 6, 1]), 5)  # 7 is the knockoff of 2, 6 that of 1
    assert statistics.tolist() == [1 / 2, -1 / 5, 1, 1 / 4, 0]
    selected, estimate = discoveries(statistics, 0.4)
    assert selected.tolist() == [2, 0, 3]
    assert estimate == pytest.approx(1 / 3)
    selected, estimate = discoveries(statistics, 0.3)
    assert len(selected) == 0
    assert np.isnan(estimate)


def test_the_path_ends_once_nothing_more_can_be_selected(rng):
    """By brute force over all continuations: the bound is the best of them."""
    for _ in range(50):
        terms, fdr = rng.permutation(16)[:6], rng.choice([0.2, 0.4])
        statistics = entry_statistics(terms, 8)
        left = np.flatnonzero(statistics == 0)
        full = entry_statistics(np.append(terms, left), 8)
        negative, positive = np.count_nonzero(full < 0), np.count_nonzero(full > 0)
        assert out_of_reach(terms, 8, fdr) == ((1 + negative) / max(positive, 1) > fdr)


@pytest.mark.parametrize(("n", "p"), [(300, 60), (160, 200)])
def test_false_discovery_rate_and_power(n, p):
    """Fixed-X and model-X, few draws: the share of false terms is far below that of all candidates."""
    shares, power = [], []
    for seed in range(6):
        rng = np.random.default_rng([seed, n])
        G = rng.normal(size=(n, p))
        y = G[:, :15].sum(axis=1) + rng.normal(size=n)
        model = ForwardRegressor(criterion="fdr", fdr=0.2).fit(G, y)
        shares.append(np.mean(model.support_ >= 15) if model.n_terms_ else 0.0)
        power.append(np.count_nonzero(model.support_ < 15) / 15)
        if model.n_terms_:
            assert model.fdr_estimate_ <= 0.2
        noise = ForwardRegressor(criterion="fdr", fdr=0.1).fit(G, rng.normal(size=n))
        assert noise.n_terms_ < 20
    assert np.mean(shares) < 0.35
    assert np.mean(power) > 0.7


def test_the_model_has_the_selected_terms_and_nothing_else(rng):
    G = rng.normal(size=(200, 40))
    y = G[:, :12].sum(axis=1) + 0.5 * rng.normal(size=200)
    model = ForwardRegressor(criterion="fdr").fit(G, y)
    W = model.knockoff_statistics_
    assert set(range(12)) <= set(model.support_)
    assert W.shape == (40,)
    assert np.all(np.diff(W[model.support_]) < 0)  # in order of entry
    assert len(model.path_) == model.n_terms_
    weights = np.linalg.lstsq(np.column_stack([np.ones(200), G[:, model.support_]]), y, rcond=None)[0]
    assert np.allclose(model.weights_, weights[1:], atol=1e-5)
    assert model.at(3).support_.tolist() == model.support_[:3].tolist()
    assert "false discovery proportion" in model.summary()
    again = clone(model).fit(G, y)
    assert np.array_equal(again.support_, model.support_)
    assert np.array_equal(again.knockoff_statistics_, W)
    other = clone(model).set_params(random_state=1).fit(G, y)
    assert not np.array_equal(other.knockoff_statistics_, W)


def test_nothing_is_selected_from_noise(rng):
    model = ForwardRegressor(criterion="fdr", fdr=0.05).fit(rng.normal(size=(60, 15)), rng.normal(size=60))
    assert model.n_terms_ == 0  # fewer candidates than the 1 / fdr discoveries that are needed
    assert np.isnan(model.fdr_estimate_)
    assert model.predict(np.zeros((2, 15))).shape == (2,)
    assert "no terms selected by knockoffs, which need at least 20 clear ones" in model.summary()


def test_classifier_basis_and_several_outputs(rng):
    G = rng.normal(size=(300, 30))
    classes = np.where(G[:, :10].sum(axis=1) + 0.3 * rng.normal(size=300) > 0, "yes", "no")
    model = ForwardClassifier(criterion="fdr", fdr=0.2).fit(G, classes)
    assert set(range(10)) <= set(model.support_)
    ForwardRegressor(RadialBasis(), criterion="fdr").fit(G[:60, :2], G[:60, :2].sum(axis=1))
    Y = G[:, :10] @ rng.normal(size=(10, 2)) + rng.normal(size=(300, 2))
    assert ForwardRegressor(criterion="fdr", fdr=0.2).fit(G, Y).weights_.shape[0] == 2


X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30.0)


@pytest.mark.parametrize(("options", "inputs", "weights", "error", "message"), [
    ({"fdr": 1.5}, X, None, ValueError, r"fdr must be a finite number > 0 and < 1, got 1\.5: 0\.1 admits"),
    ({}, sp.csr_array(X), None, TypeError,
     r"X must be a dense array in memory with criterion='fdr', got csr_array: knockoffs need the whole covariance of"),
    ({"refine": "swap"}, X, None, ValueError,
     r"refine must be None with criterion='fdr', got 'swap': terms that are exchanged have"),
    ({"include": [1]}, X, None, ValueError,
     r"include must be empty with criterion='fdr', got \[1\]: every term competes with its knockoff"),
    ({}, X, 1 + np.arange(30.0) % 2, ValueError,
     r"sample_weight must be equal with criterion='fdr', got weights from 1 to 2: repeat the rows"),
    ({}, np.zeros((30, 5001)), None, ValueError,
     r"criterion='fdr' must have at most 5000 candidates in dense columns, "
     r"got 5001 candidates: knockoffs need the whole covariance; reduce"),
])  # fmt: skip
def test_errors(options, inputs, weights, error, message):
    with pytest.raises(error, match=message):
        ForwardRegressor(criterion="fdr", **options).fit(inputs, y, weights)
