"""The logarithmic link of the automatic regressor."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from termwise import TermwiseRegressor, inference

SMALL = {"dictionary": "pairs", "max_terms": 20}


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def products_of_effects(rng, n=600, noise=0.3):
    X = rng.uniform(size=(n, 4))
    mean = np.exp(1.5 * X[:, 0] + np.sin(4 * X[:, 1]) + X[:, 2])
    return X, mean * np.exp(noise * rng.normal(size=n)), mean * np.exp(noise**2 / 2)


@pytest.mark.slow
def test_the_logarithm_is_chosen_where_effects_are_factors(rng):
    X, y, mean = products_of_effects(rng)
    model = TermwiseRegressor("accurate", link="auto", **SMALL).fit(X[:300], y[:300])
    plain = TermwiseRegressor("accurate", **SMALL).fit(X[:300], y[:300])
    assert (model.link_, plain.link_) == ("log", "identity")
    errors = [np.mean((one.predict(X[300:]) - mean[300:]) ** 2) for one in (model, plain)]
    assert errors[0] < 0.8 * errors[1]
    assert "the terms add up to the logarithm of the target" in model.summary()
    assert any(title.endswith(", log") for title in model.trials_)
    np.testing.assert_allclose(np.exp(model.linear_predictor(X)), model.predict(X))


@pytest.mark.slow
def test_sums_of_effects_are_not_exponentials(rng):
    X, _, _ = products_of_effects(rng)
    y = 1.0 + 4 * X[:, 0] + 3 * X[:, 1] ** 2 + rng.gamma(0.3, 2.0, size=600)
    model = TermwiseRegressor(link="auto", **SMALL).fit(X, y)
    assert model.link_ == "identity"
    assert any(title.endswith(", log") for title in model.trials_)  # it was tried


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["symmetric", "negative", "few", "two outputs"])
def test_the_logarithm_is_tried_for_skewed_positive_targets_only(kind, rng):
    X, y, _ = products_of_effects(rng, n=150 if kind == "few" else 240)
    y = {"symmetric": 9 + np.log(y), "negative": y - 1.0, "two outputs": np.column_stack([y, y])}.get(kind, y)
    model = TermwiseRegressor(dictionary="linear", link="auto").fit(X, y)
    assert model.link_ == "identity"
    assert not any("log" in title for title in model.trials_)


@pytest.mark.slow
def test_predictions_have_the_mean_of_the_targets(rng):
    """The exponential of the mean of logarithms is too small, by a factor of `exp(-sigma^2 / 2)` for normal noise."""
    X, y, mean = products_of_effects(rng, n=2000, noise=0.8)
    model = TermwiseRegressor(link="log", **SMALL).fit(X[:1000], y[:1000])
    assert model.predict(X[1000:]).mean() == pytest.approx(mean[1000:].mean(), rel=0.06)
    logarithms = TermwiseRegressor(**SMALL).fit(X[:1000], np.log(y[:1000]))
    uncorrected = np.exp(logarithms.predict(X[1000:])).mean()
    assert uncorrected == pytest.approx(mean[1000:].mean() * np.exp(-0.32), rel=0.06)


@pytest.mark.slow
def test_errors_and_intervals_are_those_of_the_targets(rng):
    X, y, _ = products_of_effects(rng, n=1600)
    model = TermwiseRegressor(link="log", **SMALL).fit(X[:600], y[:600])
    assert model.cv_error_ == pytest.approx(1 - model.score(X[600:], y[600:]), rel=0.25)
    low, high = model.predict_interval(X[600:], 0.9)
    assert 0.86 < np.mean((low <= y[600:]) & (y[600:] <= high)) < 0.94
    assert low.min() >= 0
    np.testing.assert_allclose(model.loo_residuals_, y[:600] - model.predict(X[:600]), rtol=0.4, atol=0.4)
    with pytest.raises(ValueError, match=r"method must be 'cv\+' with link='log', got 'jackknife\+'"):
        model.predict_interval(X, method="jackknife+")


@pytest.mark.slow
def test_other_sizes_files_and_rows_of_weight_zero(rng):
    X, y, _ = products_of_effects(rng, n=300)
    weights, targets = np.r_[np.ones(250), np.zeros(50)], np.r_[y[:250], np.full(50, -1.0)]
    model = TermwiseRegressor(link="log", **SMALL).fit(X, targets, sample_weight=weights)
    np.testing.assert_allclose(
        model.predict(X), TermwiseRegressor(link="log", **SMALL).fit(X[:250], y[:250]).predict(X)
    )
    np.testing.assert_allclose(model.loo_residuals_[250:], -1.0 - model.predict(X[250:]))
    np.testing.assert_allclose(model.predictor_.predict(X), model.predict(X))
    np.testing.assert_allclose(model.at(model.n_terms_).predict(X), model.predict(X))
    assert model.at(1).predict(X).min() > 0


@pytest.mark.slow
def test_scaled_targets_have_scaled_predictions(rng):
    X, y, _ = products_of_effects(rng, n=300)
    model, other = (TermwiseRegressor(link="auto", **SMALL).fit(X, c * y) for c in (1.0, 1e6))
    np.testing.assert_allclose(other.predict(X), 1e6 * model.predict(X), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dictionary", ["linear", "pairs", "rules", "smooth"])
def test_functions_are_constant_outside_the_training_range(dictionary, rng):
    X, y, _ = products_of_effects(rng, n=250)
    model = TermwiseRegressor(10, link="log", dictionary=dictionary).fit(X, y)
    ends = X.min(axis=0), X.max(axis=0)
    far = rng.normal(0.5, 3.0, size=(50, 4))
    np.testing.assert_allclose(model.predict(far), model.predict(np.clip(far, *ends)))


@pytest.mark.slow
@pytest.mark.parametrize("dictionary", ["linear", "rules"])
def test_functions_of_many_levels_are_constant_outside_the_training_range(dictionary, rng):
    X, y, _ = products_of_effects(rng, n=250)
    table = pd.DataFrame(X, columns=list("abcd")).assign(town=rng.choice([f"t{k}" for k in range(30)], 250))
    model = TermwiseRegressor(5, link="log", dictionary=dictionary).fit(table, y)
    far = table.assign(a=50.0, b=-50.0)
    near = table.assign(a=X[:, 0].max(), b=X[:, 1].min())
    np.testing.assert_allclose(model.predict(far), model.predict(near))


def test_refused(rng):
    X, y, _ = products_of_effects(rng, n=60)
    with pytest.raises(ValueError, match=r"y must be positive for link='log', got -1: use link='identity', or loss="):
        TermwiseRegressor(link="log").fit(X, np.r_[-1.0, y[1:]])
    with pytest.raises(ValueError, match=r"link must be 'identity', the default, with loss='gamma', got 'log'"):
        TermwiseRegressor(link="log", loss="gamma").fit(X, y)
    with pytest.raises(ValueError, match=r"link must be one of 'identity', 'log', 'auto', got 'exp': 'auto' tries"):
        TermwiseRegressor(link="exp").fit(X, y)


def test_inference_is_of_least_squares(rng):
    X, y, _ = products_of_effects(rng, n=60)
    with pytest.raises(ValueError, match=r"link must be 'identity' or 'auto' for inference, got 'log'"):
        inference(TermwiseRegressor(link="log"), X, y)
    X = rng.normal(size=(200, 3))
    y = np.exp(X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=200))
    model = TermwiseRegressor(link="auto", dictionary="linear").fit(X, y)
    assert model.link_ == "log"
    with pytest.raises(ValueError, match=r"got 'log' or a model of 'auto' that has chosen it"):
        inference(model, X, y)


@pytest.mark.slow
def test_paths_of_a_repeat_may_be_longer_than_those_of_the_trial():
    """Two targets of a dictionary may have paths of different lengths; repeats have the longer of both."""
    rng = np.random.default_rng(7)
    X = rng.uniform(size=(300, 6))
    y = 1.5 * X[:, 0] + np.sin(4 * X[:, 1]) + X[:, 2] * (X[:, 3] > 0.5) + 0.3 * rng.normal(size=300)
    assert TermwiseRegressor().fit(X, y).score(X, y) > 0.7


def test_weights_are_repetitions_for_the_choice_of_the_link(rng):
    X = rng.normal(size=(150, 2))
    y, weight = np.exp(2 * X[:, 0] + 0.1 * rng.normal(size=150)), rng.integers(1, 4, size=150)
    copies = np.repeat(np.arange(150), weight)
    weighted = TermwiseRegressor(link="auto", dictionary="linear").fit(X, y, weight)
    repeated = TermwiseRegressor(link="auto", dictionary="linear").fit(X[copies], y[copies])
    assert weighted.link_ == repeated.link_ == "log"
    assert repeated.cv_error_ == pytest.approx(weighted.cv_error_)


def test_the_link_is_also_chosen_for_a_given_estimator(rng):
    X = rng.normal(size=(300, 2))
    y = np.exp(2 * X[:, 0] + 0.1 * rng.normal(size=300))
    assert TermwiseRegressor(link="auto", dictionary="linear", target=Ridge()).fit(X, y).link_ == "log"
