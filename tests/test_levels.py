"""Levels of categories as cross-fitted means of the targets, and columns that number the rows."""

from __future__ import annotations

import contextlib

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from termwise import (
    AnovaBasis,
    BasisRidge,
    ForwardClassifier,
    ForwardRegressor,
    RadialBasis,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    UnionBasis,
)
from termwise.basis import LevelMeans, TableEncoder, id_columns
from termwise.basis.base import design_matrix, fit_design_matrix

RNG = np.random.default_rng(3)
N = 300
CODES = RNG.integers(30, size=N)
X = np.column_stack([RNG.normal(size=N), CODES, RNG.normal(size=N), RNG.integers(5, size=N)])
EFFECTS = RNG.normal(size=30)
y = EFFECTS[CODES] + X[:, 0] + 0.3 * RNG.normal(size=N)


def components(codes, y):
    """Variances of noise and effects by the analysis of variance, level by level."""
    codes, n, r = codes.astype(int), len(codes), y - y.mean()
    levels = [r[codes == k] for k in np.unique(codes)]
    between = sum(own.sum() ** 2 / len(own) for own in levels)
    noise = (r @ r - between) / (n - len(levels))
    return noise, max(0.0, (between - (len(levels) - 1) * noise) / (n - sum(len(own) ** 2 for own in levels) / n))


def blup(codes, y, n_levels, variances=None):
    """Best linear predictors in a model with random effects, from the marginal covariance of the targets."""
    noise, variance = components(codes, y) if variances is None else variances
    Z = np.eye(n_levels)[codes.astype(int)]
    return variance * Z.T @ np.linalg.solve(variance * Z @ Z.T + noise * np.eye(len(y)), y - y.mean())


def test_effects_are_best_linear_predictors():
    basis = LevelMeans(SmoothBasis(centers=5), columns=[1, 3]).fit(X, y)
    np.testing.assert_allclose(basis.effects_[0][:, 0], blup(CODES, y, 30), rtol=1e-9)
    np.testing.assert_allclose(basis.effects_[1][:, 0], blup(X[:, 3], y, 5), atol=1e-12)
    assert np.corrcoef(basis.effects_[0][:, 0], EFFECTS)[0, 1] > 0.95


def test_effects_of_a_logarithmic_link_are_logarithms_of_ratios():
    counts = np.random.default_rng(0).poisson(np.exp(EFFECTS[CODES])).astype(float)
    basis = LevelMeans(SmoothBasis(centers=5), columns=[1], link="log").fit(X, counts)
    mean = counts.mean()
    np.testing.assert_allclose(basis.effects_[0][:, 0], np.log((mean + blup(CODES, counts, 30)) / mean), rtol=1e-9)
    zeros = LevelMeans(SmoothBasis(centers=5), columns=[1], link="log").fit(X, (CODES > 14).astype(float))
    np.testing.assert_allclose(zeros.effects_[0][:15], np.log(1e-3))  # no noise: not shrunken, but bounded
    with pytest.raises(ValueError, match=r"y must not be negative, .* link='log', got -"):
        LevelMeans(SmoothBasis(centers=5), columns=[1], link="log").fit(X, y)
    with pytest.raises(ValueError, match=r"link must be .*'log' suits"):
        LevelMeans(SmoothBasis(centers=5), columns=[1], link="probit").fit(X, y)


@pytest.mark.slow
def test_many_levels_of_counts_are_modelled_on_the_scale_of_the_link():
    rng = np.random.default_rng(1)
    city, x, effects = rng.integers(60, size=1500), rng.uniform(size=1500), rng.normal(size=60)
    rate = np.exp(effects[city] + x)
    frame = pd.DataFrame({"city": [f"c{k}" for k in city], "x": x})
    model = TermwiseRegressor(loss="poisson").fit(frame[:1000], rng.poisson(rate)[:1000])
    predicted = model.predict(frame[1000:])
    assert np.corrcoef(np.log(predicted), np.log(rate[1000:]))[0, 1] > 0.95
    assert "mean(city)" in model.get_feature_names_out()


def test_training_samples_have_effects_from_other_folds():
    basis = LevelMeans(SmoothBasis(centers=5), columns=[1])
    G = clone(basis).fit_transform(X, y)
    fold = np.random.RandomState(0).permutation(N) % 5
    crossed = X.copy()
    for k in range(5):
        crossed[fold == k, 1] = blup(CODES[fold != k], y[fold != k], 30, components(CODES, y))[CODES[fold == k]]
    inner = SmoothBasis(centers=5).fit(crossed)
    np.testing.assert_allclose(G, inner.transform(crossed), rtol=1e-9)
    plain = X.copy()
    plain[:, 1] = blup(CODES, y, 30)[CODES]
    fitted = clone(basis).fit(X, y)
    np.testing.assert_allclose(fitted.transform(X), inner.transform(plain), rtol=1e-9)
    np.testing.assert_array_equal(fit_design_matrix(clone(basis), X, y), G)
    pipeline = make_pipeline("passthrough", clone(basis))
    np.testing.assert_array_equal(fit_design_matrix(pipeline, X, y), G)
    np.testing.assert_array_equal(UnionBasis([basis, basis]).fit_transform(X, y), np.hstack([G, G]))
    unknown = np.where(CODES == 3, -1, CODES)  # a level that is not known has no effect
    rest = LevelMeans(SmoothBasis(centers=5), [1]).fit(np.column_stack([X[:, 0], unknown]), y)
    np.testing.assert_allclose(rest.effects_[0][:, 0], blup(CODES[CODES != 3], y[CODES != 3], 30), rtol=1e-9)
    assert rest.effects_[0][3] == 0
    np.testing.assert_array_equal(*(rest.transform([[0.5, code]]) for code in (-1, 77)))


def test_products_need_not_be_stored():
    basis = LevelMeans(AnovaBasis(n_centers=1), columns=[1, 3])
    assert hasattr(basis, "design")
    assert not hasattr(LevelMeans(SmoothBasis(), columns=[1]), "design")
    fitted = clone(basis)
    G = fitted.fit_transform(X, y)
    np.testing.assert_allclose(fitted.design(X).columns(slice(None)), fitted.transform(X))
    np.testing.assert_array_equal(design_matrix(fitted, X), fitted.transform(X))
    np.testing.assert_array_equal(fit_design_matrix(clone(basis), X, y), G)
    few = fitted.take([0, 3])
    assert few.n_functions == 2
    np.testing.assert_array_equal(few.transform(X), fitted.transform(X)[:, [0, 3]])
    names = fitted.get_feature_names_out(["a", "city", "c", "k"])
    assert names[0] == "a"
    assert any(name.startswith("mean(city)") for name in names)
    assert fitted.inputs_of(np.arange(len(names)))[0] == (0,)
    assert np.isinf(fitted.clip_ranges()[:, [1, 3]]).all()
    again = fitted.with_fitted_params().fit(X, y)
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))


def test_several_targets_have_effects_each():
    Y = np.column_stack([y, X[:, 2] + EFFECTS[::-1][CODES]])
    basis = LevelMeans(SmoothBasis(centers=3), columns=[1]).fit(X, Y)
    for k in range(2):
        np.testing.assert_allclose(basis.effects_[0][:, k], blup(CODES, Y[:, k], 30), rtol=1e-9)
    assert basis.basis_.n_features_in_ == 5
    assert basis.get_feature_names_out()[:5].tolist() == ["x0", "mean(x1)", "x2", "x3", "mean(x1)[1]"]
    assert basis.inputs_of(np.array([4, 5])) == [(1,), (0, 1, 2, 3)]
    labels = np.digitize(y, [-1, 1])
    assert ForwardClassifier(LevelMeans(SmoothBasis(centers=3), columns=[1])).fit(X, labels).score(X, labels) > 0.7


def test_weights_of_zero_do_not_uncross():
    model = BasisRidge(LevelMeans(SmoothBasis(centers=5), columns=[1]), alpha=1.0)
    part = model.fit(X[:200], y[:200]).predict(X)
    whole = clone(model).fit(X, y, sample_weight=(np.arange(N) < 200).astype(float)).predict(X)
    np.testing.assert_allclose(whole, part)


def test_noise_does_not_leak():
    """A category of many levels that has nothing to do with the targets explains nothing of them."""
    rng = np.random.default_rng(5)
    noise, table = rng.normal(size=400), pd.DataFrame({"k": rng.integers(150, size=400).astype(str)})
    table["a"] = rng.normal(size=400)
    encoder = TableEncoder(max_levels=20)
    columns = encoder.fit(table).level_columns()
    for basis in (SmoothBasis(centers=10), AnovaBasis(min_count=5)):
        model = BasisRidge(make_pipeline(encoder, LevelMeans(basis, columns)), alpha="loo")
        assert model.fit(table, noise).score(table, noise) < 0.05
        assert cross_val_score(model, table, noise).mean() > -0.05
        assert model.criterion_value_ > 0.95 * noise.var()  # leave-one-out is not deceived, either
    hot = BasisRidge(make_pipeline(TableEncoder(), AnovaBasis(min_count=5)), alpha=1e-3).fit(table, noise)
    assert hot.score(table, noise) > 0.3  # as indicators would


def test_refused():
    for columns, message in (
        ([4], "columns must lie between 0 and 3"),
        ([0], "columns must hold numbers of levels, whole"),
    ):
        with pytest.raises(ValueError, match=message):
            LevelMeans(SmoothBasis(), columns).fit(X, y)
    with pytest.raises(
        ValueError, match=r"LevelMeans requires y to be passed, but the target y is None: call fit\(X, y\)"
    ):
        LevelMeans(SmoothBasis(), [1]).fit(X)
    with pytest.raises(TypeError, match=r"basis must be one of termwise\.basis, got None: AnovaBasis\(\) suits most"):
        LevelMeans(None, [1]).fit(X, y)
    with pytest.raises(ValueError, match="cv must be a whole number >= 2, got 1: 5 folds suit most data"):
        LevelMeans(SmoothBasis(), [1], cv=1).fit(X, y)
    assert not LevelMeans(RadialBasis(), [1]).allows_missing


def test_missing_values_beside_levels():
    table = X.copy()
    table[:40, 2] = np.nan
    model = ForwardRegressor(LevelMeans(SmoothBasis(centers=10), [1])).fit(table, y)
    assert model.score(table, y) > 0.85
    basis = LevelMeans(SmoothBasis(centers=10), [1]).fit(X, y).expect_missing(np.array([True, False, False, False]))
    assert np.isfinite(basis.transform([[np.nan, 2, 0.1, 1]])).all()


# -- identifiers -------------------------------------------------------------------------------------------------------

COUNT = np.arange(60)
MIXED = RNG.permutation(60) * 7


@pytest.mark.parametrize(("name", "values", "found"), [
    ("rownames", COUNT + 1, True), ("id", MIXED, True), ("customer_id", MIXED, True), ("PassengerId", MIXED, True),
    ("acid", MIXED, False), ("index", RNG.permutation(60), True), ("index", MIXED, False), ("Unnamed: 0", COUNT, True),
    ("whatever", COUNT, True), ("whatever", COUNT + 1900, False), ("year", COUNT + 1, False), ("t", COUNT, False),
    ("whatever", COUNT[::-1], False), ("size", RNG.normal(size=60), False), ("id", COUNT // 2, False),
    ("name", [f"person {i}" for i in range(60)], True), ("city", [f"city {i % 25}" for i in range(60)], False),
    ("when", pd.date_range("2020", periods=60), False), ("id", COUNT + 0.5, False),
])  # fmt: skip
def test_identifiers(name, values, found):
    table = pd.DataFrame({name: values, "b": RNG.normal(size=60)})
    assert id_columns(table) == [name] * found
    assert id_columns(table[[name]]) == []  # something must be left
    if not isinstance(values[0], str | pd.Timestamp):
        assert id_columns(table.to_numpy(), [name, "b"]) == [name] * found
        assert id_columns(table.to_numpy()) == []
    assert id_columns(table[:15]) == []


# -- means of levels in the automatic estimators -----------------------------------------------------------------------


def named_levels(codes):
    return [f"L{k:02d}" for k in codes]


def test_weights_of_means_are_repetitions(rng):
    weight = rng.integers(0, 4, size=N)
    some = np.repeat(np.arange(N), weight)
    weighted = LevelMeans(AnovaBasis(), [1])
    weighted.fit_table(X, y, weight.astype(float))
    repeated = LevelMeans(AnovaBasis(), [1]).fit(X[some], y[some])
    np.testing.assert_allclose(weighted.effects_[0], repeated.effects_[0], rtol=1e-9, atol=1e-12)


def test_samples_of_little_weight_hardly_count_in_means(rng):
    bad = rng.uniform(size=N) < 0.5
    table, noisy = pd.DataFrame({"c": named_levels(CODES), "z": X[:, 0]}), np.where(bad, 20 * rng.normal(size=N), y)
    model, errors = TermwiseRegressor(2, dictionary="linear", target="data"), []
    for weight in (0.0, 1e-6):
        predicted = model.fit(table, noisy, sample_weight=np.where(bad, weight, 1.0)).predict(table)
        errors.append(np.mean((predicted - EFFECTS[CODES] - X[:, 0]) ** 2))
    assert errors[1] < 1.3 * errors[0]


@pytest.mark.parametrize("target", ["data", "pooled"])
def test_neither_copies_of_samples_nor_their_order_matter(target, rng):
    """Copies in other folds of the cross-fitting would reveal the target."""
    table, noise = pd.DataFrame({"c": named_levels(rng.integers(60, size=120)), "z": X[:120, 0]}), rng.normal(size=120)
    model, copies, order = TermwiseRegressor(2, target=target), np.repeat(np.arange(120), 3), rng.permutation(120)
    weighted = model.fit(table, noise, sample_weight=np.full(120, 3)).predict(table)
    repeated = model.fit(table.iloc[copies], noise[copies]).predict(table)
    np.testing.assert_allclose(repeated, weighted, atol=1e-9)
    plain = model.fit(table, noise).predict(table)
    np.testing.assert_allclose(model.fit(table.iloc[order], noise[order]).predict(table), plain, atol=1e-9)


def test_several_quantiles_with_many_levels():
    table = pd.DataFrame({"c": named_levels(CODES), "z": X[:, 0]})
    model = TermwiseRegressor(2, dictionary="linear", loss="quantile", quantile=(0.1, 0.9)).fit(table, y)
    lower, upper = model.predict(table).T
    assert np.mean((lower <= y) & (y <= upper)) == pytest.approx(0.8, abs=0.1)


def test_categories_alone_explain_classes(rng):
    """Most samples are equal: repetitions of one in other folds of the cross-fitting are other samples."""
    codes, flag = rng.integers(40, size=800), rng.integers(2, size=800)
    chance = 1 / (1 + np.exp(-1.5 * rng.normal(size=40)[codes]))
    table, labels = pd.DataFrame({"c": named_levels(codes), "flag": flag}), rng.uniform(size=800) < chance
    model = TermwiseClassifier(1, dictionary="linear").fit(table, labels)
    assert np.corrcoef(model.predict_proba(table)[:, 1], chance)[0, 1] > 0.9
    weight = pd.DataFrame({**table, "y": labels}).value_counts()
    distinct = weight.index.to_frame(index=False)
    merged = TermwiseClassifier(1, dictionary="linear").fit(distinct[["c", "flag"]], distinct["y"], weight.to_numpy())
    np.testing.assert_allclose(merged.predict_proba(table), model.predict_proba(table), atol=1e-6)


def test_levels_that_do_not_differ(rng):
    """Nothing varies where their means are equal: in a fold the mean is fitted, at the end there is an error."""
    table = pd.DataFrame({"c": named_levels(np.arange(200) % 25)})
    equal = np.repeat([0.0, 1.0, 2.0, 3.0], 50) + 1e-3 * rng.normal(size=200)
    with pytest.raises(ValueError, match="levels that differ by no more than noise in columns"):
        TermwiseRegressor(1, dictionary="linear", target="data").fit(table, equal)
    codes, model = rng.integers(30, size=N), TermwiseRegressor(dictionary="linear")
    for _ in range(4):  # in some folds levels do not differ
        noise = rng.normal(size=N)
        with contextlib.suppress(ValueError):
            assert model.fit(pd.DataFrame({"c": named_levels(codes)}), noise).n_terms_ <= 1
