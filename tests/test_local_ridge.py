"""LocalRidge against explicit projection matrices."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import oracles
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning

from termwise import BasisRidge, LocalRidge, RadialBasis, datasets
from termwise.estimators.local_ridge import Dual, Primal, choose_form, optimal_penalty, sweep


def best_by_search(G, Y, alphas, j, intercept=False):
    """GCV over the penalty of one term by brute force: the best value over a fine grid, the limits and a refinement."""

    def value(alpha):
        trial = alphas.copy()
        trial[j] = alpha
        return oracles.gcv(G, Y, trial, intercept)

    grid = np.logspace(-10, 8, 100)
    values = [value(a) for a in grid]
    at = int(np.argmin(values))
    low, high = np.log(grid[max(at - 1, 0)]), np.log(grid[min(at + 1, 99)])
    polished = minimize_scalar(lambda x: value(np.exp(x)), bounds=(low, high), method="bounded").fun
    return min(*values, polished, value(0.0), value(np.inf))


@pytest.mark.parametrize("shape", [(30, 5), (6, 12)], ids=["primal", "dual"])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_every_coordinate_step_is_the_exact_minimiser(shape, outputs, seed):
    rng = np.random.default_rng(seed)
    G, Y = rng.normal(size=shape), rng.normal(size=(shape[0], outputs))
    Y += G[:, :1]
    alphas = np.full(shape[1], 0.8)
    largest = np.linalg.norm(G, 2) ** 2
    assert isinstance(choose_form(G, alphas, largest), Primal if shape[0] > shape[1] else Dual)
    for j in range(shape[1]):  # a sweep, seen after each of its steps
        before = alphas.copy()
        expected = best_by_search(G, Y, before, j)
        form = choose_form(G, before, largest)
        v = form.remove(j)
        P_j = oracles.projection(np.delete(G, j, axis=1)[:, np.isfinite(np.delete(before, j))],
                                 np.delete(before, j)[np.isfinite(np.delete(before, j))], False)  # fmt: skip
        np.testing.assert_allclose(v, P_j @ G[:, j], atol=1e-10)
        sub = P_j @ Y
        vy = v @ Y
        alphas[j] = optimal_penalty(
            np.sum(sub**2), (v @ sub) @ vy, v @ v * (vy @ vy), np.trace(P_j), v @ v, G[:, j] @ v
        )
        assert oracles.gcv(G, Y, alphas, False) == pytest.approx(expected, rel=1e-8)
    together = np.full(shape[1], 0.8)
    sse, freedom = sweep(choose_form(G, together, largest), G, Y, 0.0, float(shape[0]), together)
    np.testing.assert_allclose(together, alphas, rtol=1e-6, atol=1e-9)
    assert shape[0] * sse / freedom**2 == pytest.approx(oracles.gcv(G, Y, alphas, False), rel=1e-8)


def test_optimal_penalty_has_all_cases():
    # GCV = (a den^2 - 2 b den + c) / (freedom den - vv)^2
    assert optimal_penalty(1.0, 0.0, 0.0, 5.0, 1.0, 2.0) == np.inf  # falls all the way
    assert optimal_penalty(0.0, 0.0, 0.0, 5.0, 1.0, 2.0) == np.inf  # nothing left to explain
    assert optimal_penalty(1.0, 1.0, 1.1, 5.0, 1.0, 2.0) == 0.0  # the minimum lies left of den = s
    inner = optimal_penalty(1.0, 1.0, 5.0, 5.0, 1.0, 2.0)
    assert inner == pytest.approx((5.0 * 5 - 1) / 4 - 2)
    # a beta = alpha b exactly: no stationary point
    assert optimal_penalty(1.0, 0.2, 3.0, 5.0, 1.0, 2.0) == np.inf


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(n=st.integers(4, 20), p=st.integers(1, 25), seed=st.integers(0, 10_000), intercept=st.booleans())
def test_gcv_never_rises_and_is_what_it_says(n, p, seed, intercept):
    rng = np.random.default_rng(seed)
    G, y = rng.normal(size=(n, p)), rng.normal(size=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LocalRidge(fit_intercept=intercept, max_sweeps=20).fit(G, y)
    assert np.all(np.diff(model.gcv_path_) <= 0)
    assume(n - model.effective_dof_ > 1e-6)  # a model that interpolates has the ratio of two roundings for its GCV
    value = oracles.gcv(G, y, model.alphas_, intercept)
    assert model.criterion_value_ == pytest.approx(value, rel=1e-4, abs=1e-6)
    assert model.gcv_path_[-1] == pytest.approx(value, rel=1e-4, abs=1e-6)
    assert list(model.support_) == list(np.flatnonzero(np.isfinite(model.alphas_)))
    assert not model.coef_[np.isinf(model.alphas_)].any()


@pytest.mark.parametrize("intercept", [True, False])
def test_fit_equals_brute_force_at_its_penalties(problem, intercept):
    G, y = problem
    model = LocalRidge(fit_intercept=intercept, tol=0.05).fit(G, y)
    S, alphas = model.support_, model.alphas_[model.support_]
    # With as many columns as rows GCV ends close to an exact fit, where retraining itself loses digits.
    rtol = 1e-8 if len(G) > G.shape[1] else 1e-4
    w = oracles.weights(G[:, S], y, alphas, intercept)[:, 0]
    np.testing.assert_allclose(model.weights_, w[int(intercept) :], rtol=rtol, atol=1e-9)
    for name, value in oracles.criteria(G[:, S], y, alphas, intercept).items():
        assert model.criteria_[name] == pytest.approx(value, rel=rtol), name
    retrained = oracles.leave_one_out(G[:, S], y, alphas, intercept)[:, 0]
    np.testing.assert_allclose(model.loo_residuals_, retrained, rtol=rtol, atol=1e-9)
    cov = oracles.covariance(G[:, S], y, alphas, intercept)[int(intercept) :, int(intercept) :]
    np.testing.assert_allclose(model.weights_cov_, cov, rtol=rtol, atol=1e-12)


def test_irrelevant_columns_are_pruned(rng):
    G = rng.normal(size=(200, 30))
    y = G[:, 4] - 2 * G[:, 9] + 0.5 * rng.normal(size=200)
    model = LocalRidge().fit(G, y)
    assert {4, 9} <= set(model.support_)
    assert model.n_terms_ < 20
    assert model.criterion_value_ < BasisRidge(alpha="gcv").fit(G, y).criterion_value_


def test_exact_data_shed_the_terms_they_do_not_need(rng):
    G = rng.normal(size=(40, 8))
    model = LocalRidge().fit(G, 3 * G[:, 2] - G[:, 5])
    assert list(model.support_) == [2, 5]
    np.testing.assert_allclose(model.weights_, [3, -1], rtol=1e-6)


def test_start_from_a_subset(rng):
    G = rng.normal(size=(60, 10))
    y = G[:, 1] + G[:, 7] + 0.3 * rng.normal(size=60)
    model = LocalRidge(subset=[1, 7]).fit(G, y)
    assert model.alpha_ == 0
    start = np.full(10, np.inf)
    start[[1, 7]] = 0
    assert model.gcv_path_[0] == pytest.approx(oracles.gcv(G, y, start, True), rel=1e-10)
    assert model.gcv_path_[-1] <= model.gcv_path_[0]
    nothing = LocalRidge(subset=[]).fit(G, y)
    assert nothing.gcv_path_[0] == pytest.approx(oracles.gcv(G, y, np.full(10, np.inf), True))
    assert {1, 7} <= set(nothing.support_)


def test_pure_noise_can_leave_the_mean(rng):
    G, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    y -= G @ np.linalg.lstsq(G - G.mean(axis=0), y - y.mean(), rcond=None)[0]
    model = LocalRidge().fit(G, y)
    assert model.n_terms_ == 0
    np.testing.assert_allclose(model.predict(G), y.mean())
    assert model.predict(G, return_std=True)[1] == pytest.approx(np.sqrt(model.noise_variance_ / 50))
    assert "no terms" in model.summary()
    lower, upper = model.predict_interval(G, method="jackknife+")
    assert np.all(lower < upper)


def test_duplicate_and_constant_columns(rng):
    G = rng.normal(size=(40, 6))
    G[:, 3], G[:, 5] = G[:, 0], 2.0
    y = G[:, 0] + 0.1 * rng.normal(size=40)
    model = LocalRidge().fit(G, y)
    assert 5 not in model.support_
    assert np.isfinite(model.coef_).all()
    assert model.score(G, y) > 0.95


def test_sample_weights_and_outputs(rng):
    G, Y = rng.normal(size=(30, 6)), rng.normal(size=(30, 2))
    Y += G[:, :1]
    counts = rng.integers(0, 4, size=30)
    weighted = LocalRidge().fit(G, Y, sample_weight=counts)
    repeated = LocalRidge().fit(*oracles.repeat(counts, G, Y))
    np.testing.assert_array_equal(weighted.support_, repeated.support_)
    np.testing.assert_allclose(weighted.alphas_, repeated.alphas_, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(weighted.gcv_path_, repeated.gcv_path_, rtol=1e-7)


def test_ill_conditioned_start_is_survived():
    for seed in range(10):
        X, y = datasets.make_sine(random_state=seed)
        basis = RadialBasis(width=0.3)  # condition number beyond 1e16
        for alpha in (0.0, 1e-15, "gcv"):
            model = LocalRidge(basis, alpha=alpha).fit(X, y)
            assert np.isfinite(model.coef_).all()
            assert np.all(np.diff(model.gcv_path_) <= 0)
            assert model.criterion_value_ == pytest.approx(model.gcv_path_[-1], rel=1e-3)


def test_only_chosen_functions_are_evaluated(monkeypatch):
    X, y = datasets.make_sine(random_state=1)
    model = LocalRidge(RadialBasis(width=0.05)).fit(X, y)
    widths = []
    original = RadialBasis.transform
    monkeypatch.setattr(
        RadialBasis, "transform", lambda self, X: widths.append(len(self.centers_)) or original(self, X)
    )
    model.predict(X)
    assert widths == [model.n_terms_]


def test_nothing_of_size_n_by_n_is_formed(rng):
    G, y = rng.normal(size=(6000, 5)), rng.normal(size=6000)
    tracemalloc.start()
    LocalRidge(max_iter=2, tol=1.0).fit(G, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * G.nbytes  # 6000 x 6000 would be 1200 times as much


def test_says_when_sweeps_run_out(rng):
    X, y = datasets.make_sine(random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 sweeps with GCV still falling.*: allow more sweeps"):
        LocalRidge(RadialBasis(width=0.05), max_iter=2, tol=0).fit(X, y)


def test_subsets_with_dependent_columns(rng):
    G = rng.normal(size=(30, 4))
    G[:, 2], G[:, 3] = 7.0, G[:, 0]
    y = G[:, 0] + 0.1 * rng.normal(size=30)
    constant = LocalRidge(subset=[0, 2]).fit(G, y)
    assert 2 not in constant.support_
    twice = LocalRidge(subset=[0, 3]).fit(G, y)
    single = np.array([0.0, np.inf, np.inf, np.inf])
    assert twice.gcv_path_[0] == pytest.approx(oracles.gcv(G, y, single, True), rel=1e-8)
    assert LocalRidge(subset=[2]).fit(G, y).score(G, y) > 0.9


def test_wide_sweeps_keep_their_digits():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(20, 1))
    G = np.exp(-((x - np.linspace(0, 1, 120)) ** 2) / 0.3**2)
    Y = np.sin(6 * x) + 0.1 * rng.normal(size=(20, 1))
    for alpha in (1e-4, 1e-2, 1.0, 10.0):
        alphas = np.full(120, alpha)
        sse, freedom = sweep(choose_form(G, alphas, np.linalg.norm(G, 2) ** 2), G, Y, 0.0, 20.0, alphas)
        assert 20 * sse / freedom**2 == pytest.approx(oracles.gcv(G, Y, alphas, False), rel=1e-6)


@pytest.mark.parametrize("alpha", ["gcv", 0.01])
@pytest.mark.parametrize("shape", [(14, 13), (20, 18), (16, 30)])
def test_weights_below_one_leave_degrees_of_freedom(shape, alpha, rng):
    """With all directions the model would have more parameters than the weights have samples."""
    X, weights = rng.normal(size=shape), rng.choice([0.5, 0.7, 0.9], size=shape[0])
    y = 3 * X[:, 0] + 0.1 * rng.normal(size=shape[0])
    if alpha == "gcv" and shape == (20, 18):
        alpha = 1e-8  # which no criterion chooses: they refuse as many parameters as samples
    model = LocalRidge(alpha=alpha).fit(X, y, sample_weight=weights)
    assert 0 in model.support_
    assert model.score(X, y) > 0.98
    assert model.effective_dof_ < weights.sum()
    assert model.gcv_path_[-1] == pytest.approx(model.criterion_value_, rel=1e-6)
    assert np.all(np.diff(model.gcv_path_) <= 1e-9 * model.gcv_path_[0])
