"""OnlineRidge: whatever comes and goes, it equals a refit."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import OneHotEncoder

from termwise import AnovaBasis, BasisRidge, OnlineRidge, RadialBasis, UnionBasis
from termwise.estimators.online import SampleStore
from termwise.linalg.factor_updates import Factor


def assert_equals_refit(model, G, y, rtol=1e-8, counts=None):
    """Weights against a real fit on the samples and terms now in the model."""
    w = oracles.weights(G[:, model.support_], y, model.alpha, model.fit_intercept, counts)
    scale = np.abs(w).max()
    weights = np.atleast_2d(model.weights_).T
    np.testing.assert_allclose(weights, w[int(model.fit_intercept) :], rtol=0, atol=rtol * scale)
    if model.fit_intercept:
        np.testing.assert_allclose(np.atleast_1d(model.intercept_), w[0], rtol=0, atol=rtol * scale)


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("outputs", [1, 3])
def test_ten_thousand_operations_leave_no_trace(intercept, outputs):
    """10,000 random additions and removals of samples and terms, then compare with refitting from scratch."""
    rng = np.random.default_rng(1)
    p = 8

    def draw():
        return rng.normal(size=p), rng.normal(size=outputs) if outputs > 1 else rng.normal()

    pool = [draw() for _ in range(20)]
    model = OnlineRidge(alpha=1e-3, fit_intercept=intercept)
    model.fit(np.array([x for x, _ in pool]), np.array([t for _, t in pool]))
    for step in range(10_000):
        kind = rng.random()
        if kind < 0.49 or len(pool) < 3:
            x, target = draw()
            model.partial_fit(x[None], np.array([target]))
            pool.append((x, target))
        elif kind < 0.98:
            x, target = pool.pop(rng.integers(len(pool)))
            model.remove_samples(x[None], np.array([target]))
        elif kind < 0.99 and model.n_terms_ > 1:
            model.remove_terms([rng.choice(model.support_)])
        elif model.n_terms_ < p:
            model.add_terms([rng.choice(np.setdiff1d(np.arange(p), model.support_))])
        if step % 1000 == 999:
            X, Y = np.array([x for x, _ in pool]), np.array([t for _, t in pool])
            assert model.n_samples_ == len(pool)
            assert_equals_refit(model, X, Y)


def test_batches_equal_one_fit(problem):
    G, y = problem
    whole = OnlineRidge(alpha=0.1).fit(G, y)
    parts = OnlineRidge(alpha=0.1)
    for start in range(0, len(y), 5):
        parts.partial_fit(G[start : start + 5], y[start : start + 5])
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-9, atol=1e-12)
    one_by_one = OnlineRidge(alpha=0.1, keep_samples=False)
    for x, target in zip(G, y, strict=True):
        one_by_one.partial_fit(x[None], [target])
    np.testing.assert_allclose(one_by_one.coef_, whole.coef_, rtol=1e-9, atol=1e-12)
    assert one_by_one.n_samples_ == whole.n_samples_ == len(y)


def test_everything_else_equals_basis_ridge(problem, rng):
    G, y = problem
    counts = rng.integers(1, 4, size=len(y))
    online = OnlineRidge(alpha=0.3).fit(G, y, sample_weight=counts)
    ridge = BasisRidge(alpha=0.3).fit(G, y, sample_weight=counts)
    np.testing.assert_allclose(online.coef_, ridge.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(online.loo_residuals_, ridge.loo_residuals_, rtol=1e-7)
    np.testing.assert_allclose(online.predict(G, return_std=True), ridge.predict(G, return_std=True), rtol=1e-7)
    np.testing.assert_allclose(online.predict_interval(G), ridge.predict_interval(G), rtol=1e-7)
    np.testing.assert_allclose(online.weights_cov_, ridge.weights_cov_, rtol=1e-6, atol=1e-12)
    assert online.effective_dof_ == pytest.approx(ridge.effective_dof_)
    assert online.noise_variance_ == pytest.approx(ridge.noise_variance_)
    for name, value in ridge.criteria_.items():
        assert online.criteria_[name] == pytest.approx(value, rel=1e-7)
    assert online.criterion_value_ == online.criteria_["gcv"]
    assert online.summary().splitlines()[1:] == ridge.summary().splitlines()[1:]


def test_adding_and_removing_terms_equals_refitting(rng):
    G, y = rng.normal(size=(30, 6)), rng.normal(size=30)
    for alpha in (0.0, 0.5):
        model = OnlineRidge(alpha=alpha, terms=[1]).fit(G, y)
        for terms in ([4], [0, 5], [2]):
            model.add_terms(terms)
            assert_equals_refit(model, G, y)
        assert list(model.support_) == [1, 4, 0, 5, 2]
        np.testing.assert_allclose(model.predict(G), G @ model.coef_ + model.intercept_)
        model.remove_terms([0, 1])
        assert_equals_refit(model, G, y)
        model.add_terms([3, 0, 1])
        assert model.n_terms_ == 6
        assert_equals_refit(model, G, y)
        np.testing.assert_allclose(model.predict(G), BasisRidge(alpha=alpha).fit(G, y).predict(G), rtol=1e-8)
        model.remove_terms(np.ones(6, dtype=bool))
        np.testing.assert_allclose(model.predict(G), y.mean())


def test_a_nearly_dependent_term_is_added_accurately(rng):
    """The second orthogonalisation is what keeps the digits here."""
    G, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    G[:, 2] = G[:, 0] + 1e-7 * G[:, 2]
    model = OnlineRidge(alpha=0, terms=[0, 1]).fit(G, y).add_terms([2])
    np.testing.assert_allclose(model.predict(G), oracles.predict(G, oracles.weights(G, y, 0.0))[:, 0], atol=1e-7)


def test_removing_a_sample_of_high_leverage_loses_no_digits(rng):
    G, y = rng.normal(size=(12, 3)), rng.normal(size=12)
    G[0] = [1e6, 0, 0]
    model = OnlineRidge(alpha=1e-3).fit(G, y)
    model.remove_samples(G[:1], y[:1])
    assert_equals_refit(model, G[1:], y[1:])
    model.remove_samples(G[5:6], y[5:6])
    assert_equals_refit(model, np.delete(G[1:], 4, axis=0), np.delete(y[1:], 4))


def test_more_terms_than_samples_and_no_penalty(rng):
    G, y = rng.normal(size=(20, 8)), rng.normal(size=20)
    model = OnlineRidge(alpha=0, fit_intercept=False)
    for i in range(20):
        model.partial_fit(G[i : i + 1], y[i : i + 1])
        assert_equals_refit(model, G[: i + 1], y[: i + 1])
    for i in range(19):
        model.remove_samples(G[i : i + 1], y[i : i + 1])
        assert_equals_refit(model, G[i + 1 :], y[i + 1 :])
    singular = OnlineRidge(alpha=0, terms=[0, 1], fit_intercept=False).fit(G[:1], y[:1]).add_terms([2])
    assert_equals_refit(singular, G[:1], y[:1])


def test_equal_samples_are_counted(rng):
    G, y = rng.normal(size=(6, 2)), rng.normal(size=6)
    model = OnlineRidge(alpha=0.1).fit(np.vstack([G, G[:1], G[:1]]), np.append(y, [y[0], y[0]]))
    model.remove_samples(G[[0, 0]], y[[0, 0]])
    assert_equals_refit(model, G, y)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="row 1 was never added, or removed already"):
        model.remove_samples(G[[0, 0]], y[[0, 0]])
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_samples_ == 6


def test_negative_zero_is_zero(rng):
    model = OnlineRidge().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    model.remove_samples([[-0.0]], [-0.0])
    assert model.n_samples_ == 2


def test_weights_go_with_their_sample(rng):
    G, y, counts = rng.normal(size=(15, 3)), rng.normal(size=15), rng.uniform(0.2, 4, size=15)
    model = OnlineRidge(alpha=0.2).fit(G, y, sample_weight=counts)
    assert_equals_refit(model, G, y, counts=counts)
    model.remove_samples(G[3:6], y[3:6])
    left = np.delete(np.arange(15), [3, 4, 5])
    assert_equals_refit(model, G[left], y[left], counts=counts[left])
    assert model.loo_residuals_.shape == (12,)
    ignored = OnlineRidge(alpha=0.2).fit(G, y, sample_weight=np.arange(15) < 10)
    assert_equals_refit(ignored, G[:10], y[:10])


def test_samples_of_weight_zero_change_nothing(rng):
    X, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    weights = np.arange(20) >= 4.0
    model, expected = OnlineRidge().fit(X, y, weights), OnlineRidge().fit(X[4:], y[4:])
    model.partial_fit(X[:2] + 1, y[:2], np.zeros(2))
    model.remove_samples(X[:2], y[:2]).remove_samples(X[:1] + 1, y[:1])
    assert model.n_samples_ == 16
    np.testing.assert_array_equal(model.weights_, expected.weights_)
    np.testing.assert_array_equal(model.loo_residuals_, expected.loo_residuals_)
    model.remove_samples(X[2:5], y[2:5])
    assert_equals_refit(model, X[5:], y[5:])
    with pytest.raises(ValueError, match=r"row 0 was never added, or removed already"):
        model.remove_samples(X[:1], y[:1])
    with pytest.raises(ValueError, match=r"remove_samples must leave at least one sample, got all 15: no data"):
        model.remove_samples(np.vstack([X[1:2] + 1, X[5:]]), np.append(y[1], y[5:]))
    with pytest.raises(ValueError, match=r"sample_weight must be finite and >= 0, got -1\.0"):
        model.partial_fit(X[:1], y[:1], [-1.0])


def test_failed_operations_leave_the_model_as_it_was(rng):
    G, y = rng.normal(size=(10, 3)), rng.normal(size=10)
    model = OnlineRidge(alpha=0.1, terms=[0, 1]).fit(G, y)
    before = pickle.dumps(model)
    failures = [
        lambda: model.remove_samples(G + 1, y),
        lambda: model.remove_samples(np.vstack([G[:2], G[:1] + 1]), y[[0, 1, 0]]),
        lambda: model.remove_samples(G, y),
        lambda: model.remove_samples(G[:1], y[:1] + 1),
        lambda: model.remove_samples(G[:1], np.array([[1.0, 2.0]])),
        lambda: model.partial_fit(G[:1] * np.nan, y[:1]),
        lambda: model.partial_fit(G[:1], [np.inf]),
        lambda: model.partial_fit(G[:, :2], y),
        lambda: model.partial_fit(G[:2], y[:1]),
        lambda: model.partial_fit(G[:1], np.array([[1.0, 2.0]])),
        lambda: model.partial_fit(G[:1], y[:1], sample_weight=[-1.0]),
        lambda: model.add_terms([0]),
        lambda: model.add_terms([3]),
        lambda: model.remove_terms([2]),
        lambda: model.remove_terms([7]),
    ]
    for failure in failures:
        with pytest.raises(ValueError):  # noqa: PT011 - which one is tested in test_errors.py
            failure()
        assert pickle.dumps(model) == before


def test_order_of_the_samples_is_kept(rng):
    G, y = rng.normal(size=(12, 2)), rng.normal(size=12)
    model = OnlineRidge(alpha=0.1).fit(G, y).remove_samples(G[2:4], y[2:4])
    model.partial_fit(G[2:3], y[2:3])
    order = [0, 1, 4, 5, 6, 7, 8, 9, 10, 11, 2]
    expected = BasisRidge(alpha=0.1).fit(G[order], y[order]).loo_residuals_
    np.testing.assert_allclose(model.loo_residuals_, expected, rtol=1e-9)


def test_with_a_basis_samples_are_found_again(rng):
    X = rng.normal(size=(50, 3))
    y = np.sin(X[:, 0])
    model = OnlineRidge(RadialBasis(width=2.0, centers=20), alpha=1e-4).fit(X, y)
    for i in range(40):
        model.remove_samples(X[i : i + 1], y[i : i + 1])
    assert_equals_refit(model, model.basis_.transform(X)[40:], y[40:])
    model.remove_terms([0, 3]).add_terms([3])
    assert list(model.support_) == [*range(1, 3), *range(4, 20), 3]
    assert_equals_refit(model, model.basis_.transform(X)[40:], y[40:])
    np.testing.assert_allclose(model.predict(X), model.basis_.transform(X) @ model.coef_ + model.intercept_)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_tables_with_words_in_them(frame):
    X = frame({"town": ["Ulm", "Bonn", "Ulm", "Kiel", "Bonn"]})
    y = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    model = OnlineRidge(OneHotEncoder(), alpha=0.01).fit(X, y)
    model.remove_samples(X[3:4], y[3:4])
    expected = {"Ulm": 2.0, "Bonn": 3.5}
    for town, value in expected.items():
        assert model.predict(frame({"town": [town]}))[0] == pytest.approx(value, abs=0.02)


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
def test_sparse_input(container, rng):
    G, y = rng.normal(size=(20, 4)) * (rng.random(size=(20, 4)) < 0.5), rng.normal(size=20)
    model = OnlineRidge(alpha=0.1).fit(container(G), y).remove_samples(container(G[:3]), y[:3])
    assert_equals_refit(model, G[3:], y[3:])


def test_fit_forgets(rng):
    G, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    model = OnlineRidge(alpha=0.1).fit(G, y).fit(G[:10], y[:10])
    assert model.n_samples_ == 10
    assert_equals_refit(model, G[:10], y[:10])
    other = copy.deepcopy(model).partial_fit(G[10:], y[10:])
    assert (model.n_samples_, other.n_samples_) == (10, 20)


def test_a_single_sample_is_a_model():
    model = OnlineRidge(alpha=1.0).partial_fit([[2.0]], [3.0])
    assert model.predict([[2.0]])[0] == pytest.approx(3.0)


def test_removing_a_row_is_the_inverse_of_adding_it(rng):
    H, Y = rng.normal(size=(20, 6)), rng.normal(size=(20, 2))
    state = Factor(np.full(6, 0.1), 2)
    state.add_rows(H, Y)
    before = state.rows.copy()
    h, y = rng.normal(size=6), rng.normal(size=2)
    state.add_rows(h[None], y[None])
    assert state.remove_row(h, y)
    np.testing.assert_allclose(np.abs(state.rows), np.abs(before), atol=1e-12)  # up to the signs of the rows
    np.testing.assert_allclose(np.tril(state.R, -1), 0, atol=1e-15)
    np.testing.assert_allclose(state.R.T @ state.R, H.T @ H + 0.1 * np.eye(6), atol=1e-11)


def test_a_removal_that_would_lose_digits_is_refused(rng):
    H, Y = rng.normal(size=(10, 3)), rng.normal(size=(10, 1))
    H[0] *= 1e4
    state = Factor(np.zeros(3), 1)
    state.add_rows(H, Y)
    before = state.rows.copy()
    assert not state.remove_row(H[0], Y[0])
    np.testing.assert_array_equal(state.rows, before)


def test_storage_is_reused():
    samples = SampleStore(1, 1)
    for i in range(1000):
        samples.add([i], np.array([[i]]), np.array([[i]]), np.ones(1))
        if i >= 10:
            samples.discard(samples.find([i - 10]))
    assert len(samples._table) < 100
    np.testing.assert_array_equal(samples.rows()[0].ravel(), np.arange(990, 1000))


@pytest.mark.slow
def test_dependent_columns_without_a_penalty(rng):
    """However long the stream, rounding is not taken for information."""
    for seed in range(10):
        G = np.random.default_rng(seed).normal(size=(300, 4))
        G[:, 3] = G[:, 0]
        y = G[:, 0] + np.random.default_rng(seed + 99).normal(size=300)
        model = OnlineRidge(alpha=0)
        for i in range(300):
            model.partial_fit(G[i : i + 1], y[i : i + 1])
        expected = BasisRidge(alpha=0).fit(G, y)
        np.testing.assert_allclose(model.weights_, expected.weights_, rtol=1e-6)
        np.testing.assert_allclose(model.predict(G), expected.predict(G), rtol=1e-6)


def test_undetermined_weights_have_least_norm_and_the_intercept_is_free(rng):
    G, y = rng.normal(size=(6, 8)) + 1.0, rng.normal(size=6)
    one = OnlineRidge(alpha=0).fit(G[:1], y[:1])
    assert one.intercept_ == pytest.approx(y[0])
    np.testing.assert_allclose(one.weights_, 0, atol=1e-12)
    several = OnlineRidge(alpha=0).fit(G, y)
    np.testing.assert_allclose(several.weights_, BasisRidge(alpha=0).fit(G, y).weights_, rtol=1e-8)
    G[:, 2] = 7.0
    constant = OnlineRidge(alpha=0, terms=[0, 2]).fit(G, y)
    np.testing.assert_allclose(constant.weights_, BasisRidge(alpha=0).fit(G[:, [0, 2]], y).weights_, atol=1e-9)


def test_weights_of_nearly_dependent_functions_do_not_cancel(rng):
    """More functions than samples, one of which is far away: the predictor computes the functions in another way."""
    X, y = rng.normal(size=(20, 1)), rng.normal(size=20)
    X[3] = 1e6
    model = OnlineRidge(UnionBasis([AnovaBasis(), RadialBasis()]), alpha=0.0).fit(X, y)
    assert np.abs(model.weights_).max() < 1e9
    np.testing.assert_allclose(model.predictor_.predict(X), model.predict(X), atol=1e-3)


def test_a_model_keeps_the_parameters_it_began_with(rng):
    G, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    model = OnlineRidge(alpha=0.5).fit(G[:15], y[:15])
    value = model.criterion_value_
    model.set_params(alpha=100.0, fit_intercept=False)
    assert model.criterion_value_ == value
    model.partial_fit(G[15:], y[15:])
    np.testing.assert_allclose(model.weights_, OnlineRidge(alpha=0.5).fit(G, y).weights_, rtol=1e-9)


def test_criteria_of_a_single_sample_are_not_nan():
    criteria = OnlineRidge().fit([[1.0]], [2.0]).criteria_
    assert not any(np.isnan(value) for value in criteria.values())
