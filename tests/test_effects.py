"""Effects are pure over the samples, drawn where these are, with bands from the models of the folds."""

from __future__ import annotations

from dataclasses import replace

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import oracles
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.inspection import permutation_importance
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from termwise import (
    AnovaBasis,
    BasisRidge,
    ForwardRegressor,
    RadialBasis,
    ShapeDisplay,
    SmoothBasis,
    TermwiseRegressor,
    diagnostics,
)
from termwise.basis import TableEncoder
from termwise.fitted import FoldModels

STUDENT = 2.1318467863266495  # 95 % quantile of Student's distribution with four degrees of freedom


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def by_inputs(display):
    return {effect.inputs: effect for effect in display.effects}


def with_folds(estimator, X, y, splits=5, fold_estimators=()):
    """A fitted model that has kept the models of its folds."""
    fold, residuals, models = np.arange(len(y)) % splits, np.empty((len(y), 1)), []
    for k in range(splits):
        one = clone((dict(enumerate(fold_estimators))).get(k, estimator)).fit(X[fold != k], y[fold != k])
        residuals[fold == k, 0] = y[fold == k] - one.predict(X[fold == k])
        models.append(one)
    whole = clone(estimator).fit(X, y)
    terms = tuple(replace(one.fitted_terms_, statistics_or_solve=None) for one in models)
    record = FoldModels(terms, fold, residuals, np.ones(len(y)))
    whole.fitted_terms_ = replace(whole.fitted_terms_, fold_models=record)
    return whole, models


# -- pure effects ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pure_effects_by_moving_conditional_means(rng):
    """Of correlated inputs with three values and of categories, where the pure effects are unique."""
    n = 300
    first = rng.integers(0, 3, n)
    second = np.clip(first + rng.integers(-1, 2, n), 0, 2)
    X = pd.DataFrame({"a": 1.0 * first, "b": 1.0 * second, "c": pd.Categorical(rng.choice(list("uvw"), n))})
    y = first * second + (X["c"] == "v") * first + (first == 1) + 0.3 * rng.normal(size=n)
    model = BasisRidge(make_pipeline(TableEncoder(), AnovaBasis(n_centers=2, min_count=0))).fit(X, y)
    display = ShapeDisplay.from_estimator(model, X, grid=3, max_effects=6)
    _, basis = model.basis_.named_steps.values()
    owner = np.array([0, 1, 2, 2, 2, -1])  # input of each encoded column; the last for none
    keys = np.sort(owner[basis.inputs_], axis=1)
    G, codes = model.basis_.transform(X), [first, second, X["c"].cat.codes.to_numpy()]
    expected = {name: np.zeros(n) for name in X}
    for i, j in ((0, 1), (0, 2), (1, 2)):
        members = (keys == [i, j]).all(axis=1)
        pure, *mains = oracles.purified(G[:, members] @ model.coef_[members], codes[i], codes[j])
        effect = by_inputs(display)[X.columns[i], X.columns[j]]
        np.testing.assert_allclose(effect.effect[codes[i], codes[j]], pure, atol=1e-8)
        assert effect.strength == pytest.approx(pure.std())
        for k, main in zip((i, j), mains, strict=True):
            expected[X.columns[k]] += main
    for k, name in enumerate(X):
        members = np.isin(keys, [-1, k]).all(axis=1)  # also products of two categories of one input
        own = G[:, members] @ model.coef_[members]
        effect = by_inputs(display)[name,]
        np.testing.assert_allclose(effect.effect[codes[k]], expected[name] + own - own.mean(), atol=1e-8)
        assert effect.strength == pytest.approx((expected[name] + own).std())
    total = sum(effect.effect[tuple(codes[X.columns.get_loc(a)] for a in effect.inputs)] for effect in display.effects)
    np.testing.assert_allclose(display.offset + total, model.predict(X), rtol=1e-9)


def test_interactions_explain_nothing_that_single_inputs_could(rng):
    """Conditional means given either of two correlated inputs, in bins of equally many samples."""
    n = 2000
    X = rng.normal(size=(n, 2)) @ np.array([[1.0, 0.7], [0.0, 0.7]])
    basis = AnovaBasis(min_count=0)
    model = BasisRidge(basis).fit(X, X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n))
    display = ShapeDisplay.from_estimator(model, X, grid=60)
    effect = by_inputs(display)["x0", "x1"]
    places = [np.abs(X[:, [j]] - effect.values[j]).argmin(axis=1) for j in range(2)]
    pure = effect.effect[places[0], places[1]]
    for j in range(2):
        bins = np.digitize(X[:, j], np.quantile(X[:, j], np.arange(0.1, 0.95, 0.1)))
        means = np.array([pure[bins == k].mean() for k in range(10)])
        assert np.abs(means).max() < 0.15 * effect.strength
    assert by_inputs(display)["x0",].strength > effect.strength


def test_a_product_of_equal_inputs_is_a_main_effect(rng):
    x = rng.integers(-1, 2, size=200).astype(float)
    X = np.column_stack([x, x])
    model = ForwardRegressor(make_pipeline(StandardScaler(), AnovaBasis(min_count=0)), include=[]).fit(X, x**2)
    effects = ShapeDisplay.from_estimator(model, X, grid=3).effects
    assert all(effect.strength < 1e-9 for effect in effects if len(effect.inputs) == 2)


def test_the_mean_of_the_other_input_is_a_slope(rng):
    X = rng.normal([0.0, 3.0], 1.0, size=(500, 2))
    model = ForwardRegressor(AnovaBasis(n_centers=0)).fit(X, X[:, 0] * X[:, 1])
    effects = by_inputs(ShapeDisplay.from_estimator(model, X))
    main = effects["x0",]
    assert np.polyfit(X[:, 0], np.interp(X[:, 0], main.values[0], main.effect), 1)[0] == pytest.approx(3, rel=0.1)
    assert effects["x0", "x1"].strength == pytest.approx(1, rel=0.15)


def test_a_rare_input_is_weak(rng):
    n = 1000
    X = np.column_stack([rng.normal(size=n), np.arange(n) == 7])
    model = BasisRidge(alpha=1e-6).fit(X, X[:, 0] + 5 * X[:, 1] + 0.1 * rng.normal(size=n))
    display = ShapeDisplay.from_estimator(model, X)
    assert [effect.inputs for effect in display.effects] == [("x0",), ("x1",)]
    assert display.effects[1].strength < 0.2
    assert not display.effects[1].support[1:].any()


# -- total effects -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("basis", [AnovaBasis(), RadialBasis()], ids=repr)
def test_total_effects_by_brute_force(basis, rng):
    X = rng.normal(size=(25, 3))
    X[:, 1] += X[:, 0]
    model = BasisRidge(basis, alpha=0.1).fit(X, X[:, 0] * X[:, 1] + X[:, 2])
    importance = {row["input"]: row["total"][0] for row in diagnostics.facts(model, X)["importance"]}
    for j in range(3):
        assert importance[f"x{j}"] == pytest.approx(oracles.total_effect(model.predict, X, j), rel=1e-3)
    assert list(importance.values()) == sorted(importance.values(), reverse=True)


def test_total_effects_are_halves_of_permutation_importance():
    X, y = make_friedman1(1000, noise=1.0, random_state=0)
    model = ForwardRegressor(AnovaBasis()).fit(X, y)
    display = ShapeDisplay.from_estimator(model, X)
    found = permutation_importance(model, X, y, scoring="neg_mean_squared_error", n_repeats=10, random_state=0)
    totals = np.array([display.importance.get(f"x{j}", 0.0) for j in range(10)])
    np.testing.assert_allclose(2 * totals**2, found.importances_mean, rtol=0.1, atol=0.1)
    assert spearmanr(totals, found.importances_mean).statistic > 0.9


@pytest.mark.slow
def test_the_order_of_averages_is_that_of_permutation_importance():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = TermwiseRegressor(dictionary="smooth").fit(X, y)
    effects = {row["inputs"][0]: row["strength"][0] for row in diagnostics.facts(model, X, y)["effects"]}
    found = permutation_importance(model, X, y, n_repeats=10, random_state=0)
    assert list(effects) == sorted(effects, key=effects.get, reverse=True)
    assert spearmanr([effects[name] for name in X], found.importances_mean).statistic > 0.9


# -- where the samples are ---------------------------------------------------------------------------------------------


def test_density_and_support(rng):
    n = 500
    X = rng.uniform(0, 1, size=(n, 2))
    X[:, 1] = np.where(rng.uniform(size=n) < 0.5, X[:, 0], 0.1 * X[:, 1])
    model = BasisRidge(AnovaBasis()).fit(X, X[:, 0] * X[:, 1])
    effects = by_inputs(ShapeDisplay.from_estimator(model, X, grid=21))
    curve, surface = effects["x1",], effects["x0", "x1"]
    nearest = np.abs(X[:, [1]] - curve.values[0]).argmin(axis=1)
    np.testing.assert_allclose(curve.density, np.bincount(nearest, minlength=21) / n, atol=1e-12)
    assert surface.density.sum() == pytest.approx(1)
    np.testing.assert_allclose(surface.density.sum(axis=0), curve.density)
    for a, first in enumerate(surface.values[0]):
        for b, second in enumerate(surface.values[1]):
            away = np.abs(X - [first, second]).max(axis=1).min()
            assert surface.support[a, b] or away > 0.09
            assert not surface.support[a, b] or away < 0.16
    assert not surface.support[0, -1]
    spread = ShapeDisplay.from_estimator(model, grid=21).effects[0]
    assert spread.density is None
    assert spread.support.all()


def test_curves_are_lighter_where_samples_are_few(rng):
    x = np.append(rng.uniform(size=999), 50.0)[:, None]
    display = ShapeDisplay.from_estimator(BasisRidge(alpha=1e-3).fit(x, x[:, 0]), x)
    (effect,) = display.effects
    assert effect.support[0]
    assert not effect.support[2:].any()
    solid = display.axes_[0].lines[1].get_ydata()
    np.testing.assert_array_equal(np.isnan(solid), ~effect.support)


# -- bands -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_bands_by_refitting(rng):
    """The delete-a-group jackknife over models that select anew, with zero where an input was not selected."""
    X = rng.uniform(-1, 1, size=(100, 4))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + rng.normal(size=100)
    model, folds = with_folds(ForwardRegressor(AnovaBasis(), criterion="bic"), X, y)
    display = ShapeDisplay.from_estimator(model, X, grid=15, max_effects=20)
    curves = [by_inputs(ShapeDisplay.from_estimator(one, X, grid=15)) for one in folds]
    missing = 0
    for effect in display.effects:
        if len(effect.inputs) == 2:
            assert effect.band is None
            continue
        heights = [found[effect.inputs].effect if effect.inputs in found else np.zeros(15) for found in curves]
        missing += sum(effect.inputs not in found for found in curves)
        expected = STUDENT * np.sqrt(4 / 5 * ((heights - np.mean(heights, axis=0)) ** 2).sum(axis=0))
        np.testing.assert_allclose(effect.band, expected, atol=1e-9)
    assert missing
    facts = diagnostics.facts(model, X, y)
    assert all(("band" in effect) == (len(effect["inputs"]) == 1) for effect in facts["effects"])


def test_bands_cover_a_line(rng):
    """The standard error of a slope by the jackknife, on average over data sets, next to the true one."""
    bands = []
    for _ in range(40):
        X = rng.normal(size=(60, 1))
        model, _ = with_folds(BasisRidge(alpha=0.0), X, X[:, 0] + rng.normal(size=60))
        (effect,) = ShapeDisplay.from_estimator(model, X, grid=2).effects
        plt.close("all")
        bands.append(effect.band[1] / STUDENT / abs(effect.values[0][1]))
    assert np.sqrt(np.mean(np.square(bands))) == pytest.approx(1 / np.sqrt(60), rel=0.35)


def test_folds_that_differ(rng):
    """Folds without a category, without terms, with terms of all inputs; other encoders have no bands."""
    n = 60
    kinds = np.where(np.arange(n) == 10, "w", np.where(np.arange(n) % 2, "u", "v"))  # the first in a single fold
    X = pd.DataFrame({"a": rng.normal(size=n), "k": pd.Categorical(kinds)})
    y = (X["a"] + (X["k"] == "u") + 0.1 * rng.normal(size=n)).to_numpy()
    smooth = ForwardRegressor(make_pipeline(TableEncoder(), SmoothBasis(linear=False)), max_terms=3, criterion=None)
    model, _ = with_folds(BasisRidge(TableEncoder()), X, y, fold_estimators=[smooth])
    record = model.fitted_terms_.fold_models
    empty = replace(record.models[1], chosen=np.arange(0), weights=np.zeros((0, 1)))
    record = replace(record, models=(record.models[0], empty, *record.models[2:]))
    model.fitted_terms_ = replace(model.fitted_terms_, fold_models=record)
    effects = by_inputs(ShapeDisplay.from_estimator(model, X))
    assert effects["a",].band.shape == (60,)
    assert effects["k",].band.shape == (3,)
    assert (effects["a",].band[[0, -1]] > 0.5).all()
    table = X[["a"]].to_numpy()
    model, _ = with_folds(BasisRidge(make_pipeline(FunctionTransformer(np.cbrt), AnovaBasis())), table, y)
    assert ShapeDisplay.from_estimator(model, table).effects[0].band is None


def test_bands_of_averages(rng):
    X = rng.normal(size=(80, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=80)
    model, _ = with_folds(BasisRidge(RadialBasis(width=2.0)), X, y)
    for effect in diagnostics.facts(model, X, y)["effects"]:
        assert effect["kind"] == "average"
        assert min(effect["band"][0]) > 0
