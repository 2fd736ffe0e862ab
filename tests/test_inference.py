"""Error bars and intervals: closed forms against retraining, and against what they promise."""

from __future__ import annotations

import numpy as np
import oracles
import pytest

from termwise import BasisRidge, ForwardRegressor, LocalRidge, OnlineRidge, RadialBasis, datasets


@pytest.mark.parametrize("alpha", [0.0, 0.4, 30.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_covariance_and_standard_errors_equal_the_definition(alpha, intercept, rng):
    G, y = rng.normal(size=(30, 4)) + 1.0, rng.normal(size=30)
    new = rng.normal(size=(6, 4))
    model = BasisRidge(alpha=alpha, fit_intercept=intercept).fit(G, y)
    full = oracles.covariance(G, y, alpha, intercept)
    np.testing.assert_allclose(model.weights_cov_, full[int(intercept) :, int(intercept) :], rtol=1e-8, atol=1e-12)
    H = oracles.augmented(new, 0.0, intercept)[0]
    expected = np.sqrt(np.einsum("ij,jk,ik->i", H, full, H))
    np.testing.assert_allclose(model.predict(new, return_std=True)[1], expected, rtol=1e-8)


def test_wide_covariance_equals_the_definition(rng):
    G, y = rng.normal(size=(12, 30)), rng.normal(size=12)
    model = BasisRidge(alpha=2.0, fit_intercept=False).fit(G, y)
    np.testing.assert_allclose(model.weights_cov_, oracles.covariance(G, y, 2.0, False), rtol=1e-7, atol=1e-10)


@pytest.mark.slow
def test_standard_errors_are_the_scatter_of_the_fit(rng):
    """Many draws of the noise: the predictions scatter as the formula says."""
    G, new = rng.normal(size=(40, 5)), rng.normal(size=(3, 5))
    truth = G @ [1.0, 2.0, 0.0, 0.0, -1.0]
    fits, errors = [], []
    for _ in range(2000):
        model = BasisRidge(alpha=3.0).fit(G, truth + 0.5 * rng.normal(size=40))
        mean, std = model.predict(new, return_std=True)
        fits.append(mean)
        errors.append(std**2)
    np.testing.assert_allclose(np.var(fits, axis=0), np.mean(errors, axis=0), rtol=0.15)


@pytest.mark.parametrize("estimator", ["ridge", "local", "online"])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.99])
def test_intervals_equal_jackknife_plus_by_retraining(estimator, coverage, rng):
    G, y = rng.normal(size=(24, 5)), rng.normal(size=24)
    y += G[:, 0]
    new = rng.normal(size=(7, 5))
    model = {"ridge": BasisRidge(alpha=0.6), "local": LocalRidge(), "online": OnlineRidge(alpha=0.6)}[estimator]
    model.fit(G, y)
    S = model.support_
    alphas = model.alphas_[S] if estimator == "local" else 0.6
    expected = oracles.jackknife_plus(G[:, S], y, alphas, new[:, S], coverage)
    for ours, theirs in zip(model.predict_interval(new, coverage, method="jackknife+"), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def test_intervals_of_wide_problems_and_without_intercept(rng):
    G, y, new = rng.normal(size=(15, 40)), rng.normal(size=15), rng.normal(size=(4, 40))
    for intercept in (True, False):
        model = BasisRidge(alpha=5.0, fit_intercept=intercept).fit(G, y)
        expected = oracles.jackknife_plus(G, y, 5.0, new, 0.8, intercept)
        for ours, theirs in zip(model.predict_interval(new, 0.8), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-7)


def test_too_few_samples_make_infinite_intervals(rng):
    G, y = rng.normal(size=(8, 2)), rng.normal(size=8)
    lower, upper = BasisRidge(alpha=1.0).fit(G, y).predict_interval(G, coverage=0.95)
    assert np.all(np.isneginf(lower))
    assert np.all(np.isposinf(upper))


def test_intervals_cover_as_promised():
    """Noise whose size depends on x and is not normal: coverage holds on average all the same."""
    rng = np.random.default_rng(5)
    inside = []
    for _ in range(40):
        x = rng.uniform(-3, 3, size=(160, 1))
        y = np.sin(2 * x[:, 0]) + (0.1 + 0.2 * np.abs(x[:, 0])) * rng.standard_t(4, size=160)
        model = BasisRidge(RadialBasis(width=0.7, centers=np.linspace(-3, 3, 15)[:, None]), alpha=0.1)
        lower, upper = model.fit(x[:60], y[:60]).predict_interval(x[60:], coverage=0.9)
        inside.append(np.mean((lower <= y[60:]) & (y[60:] <= upper)))
    assert 0.87 < np.mean(inside) < 0.94


def test_intervals_of_many_rows_are_those_of_each(rng):
    G, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    model = BasisRidge().fit(G, y)
    many = rng.normal(size=(4000, 3))  # more than one block of rows
    np.testing.assert_allclose(np.array(model.predict_interval(many))[:, -50:], model.predict_interval(many[-50:]))


def test_summary_says_what_matters(rng):
    X, y = datasets.make_sine(random_state=3)
    model = LocalRidge(RadialBasis(width=0.05)).fit(X, y)
    text = model.summary(max_terms=3)
    assert text.startswith(f"LocalRidge: {model.n_terms_} of 50 terms, 50 samples")
    assert "gaussian_" in text
    assert text.endswith(f"... and {model.n_terms_ - 3} more")
    size = np.abs(model.weights_) / np.sqrt(np.diag(model.weights_cov_))
    assert f"gaussian_{model.support_[np.argmax(size)]} " in text.splitlines()[4]
    assert f"{model.criteria_['loo']:.4g}" in text
    several = BasisRidge().fit(rng.normal(size=(20, 2)), rng.normal(size=(20, 3))).summary()
    assert several.count("x0") == 3


@pytest.mark.parametrize("model", [ForwardRegressor(alpha=0), BasisRidge(alpha=0)])
def test_summary_of_an_exact_fit(model):
    """Standard errors of zero, of which a ratio overflows."""
    x = np.tile([-1.0, 1.0], 10)
    model.fit(x[:, None], 8 * x)
    assert model.weights_cov_.ravel().tolist() == [0.0]
    assert model.summary().splitlines()[-1].split() == ["x0", "8", "0"]
