"""SmoothBasis: one function value at a time, and what must not matter."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import different_samples, smooth_basis
from sklearn.base import clone

import termwise._arrays
from termwise import BasisRidge, CriterionSearch, ForwardRegressor, RadialBasis, SmoothBasis, basis


@pytest.fixture
def X(rng):
    """Inputs in different units, one of them constant, with samples written twice."""
    X = rng.normal(size=(25, 4)) * [1.0, 1e3, 1e-4, 1.0] + [0.0, 5e3, 1.0, 0.0]
    X[:, 3] = 0.1
    X[[7, 20]] = X[[2, 2]]
    return X


@pytest.mark.parametrize("widths", [1.0, 0.7, [0.5, 1.4, 3.0], np.array([2])], ids=["one", "other", "three", "array"])
@pytest.mark.parametrize("extrapolation", ["clip", "bounded", "constant", "linear", "continue"])
def test_equals_the_definition(X, widths, extrapolation, rng):
    fitted = SmoothBasis(width=("median", widths), extrapolation=extrapolation).fit(X)
    new = X[rng.permutation(25)[:10]] + 0.3 * X.std(axis=0)
    expected = smooth_basis(X, new, np.atleast_1d(widths), different_samples(X), extrapolation)
    np.testing.assert_allclose(fitted.transform(new), expected, rtol=1e-9, atol=1e-12)
    assert expected.shape[1] == 3 + 23 * np.size(widths)


def test_names_say_what_and_where(X):
    names = SmoothBasis(width=("median", [0.5, 1.4])).fit(X).get_feature_names_out()
    assert list(names[:5]) == ["x0", "x1", "x2", "gauss(w=0.5) near row 0", "gauss(w=0.5) near row 1"]
    assert names[-1] == "gauss(w=1.4) near row 24"
    assert len(set(names)) == len(names)
    assert not any("row 7" in name or "row 20" in name for name in names)  # written before
    named = SmoothBasis().fit(pd.DataFrame(X, columns=["speed", "load", "heat", "site"]))
    assert list(named.get_feature_names_out()[:4]) == ["speed", "load", "heat", "gauss(w=1) near row 0"]


def test_attributes_describe_every_function(X):
    fitted = SmoothBasis(width=("median", [0.5, 1.4])).fit(X)
    gaussian = fitted.columns_ < 0
    assert fitted.columns_[:3].tolist() == [0, 1, 2]
    assert gaussian.sum() == 46
    np.testing.assert_array_equal(fitted.centers_[gaussian], X[fitted.center_rows_[gaussian]])
    assert np.isnan(fitted.centers_[~gaussian]).all()
    assert fitted.deviations_[3] == 0
    assert set(fitted.factors_[gaussian]) == {0.5, 1.4}


def test_gaussians_alone(X):
    both, alone = (SmoothBasis(linear=linear).fit(X) for linear in (True, False))
    np.testing.assert_array_equal(alone.transform(X), both.transform(X)[:, 3:])
    assert alone.get_feature_names_out()[0] == "gauss(w=1) near row 0"


def test_a_number_of_centers_is_spread_over_the_different_samples(X):
    fitted = SmoothBasis(centers=6, linear=False, width=("median", [1, 2])).fit(X)
    rows = fitted.center_rows_[:6]
    assert len(fitted.columns_) == 12
    assert len(set(rows)) == 6
    assert set(rows) <= set(different_samples(X))
    np.testing.assert_allclose(fitted.transform(X), smooth_basis(X, X, [1, 2], rows)[:, 3:], rtol=1e-9, atol=1e-12)
    other = SmoothBasis(centers=6, linear=False, width=("median", [1, 2]), random_state=5).fit(X)
    assert not np.array_equal(other.center_rows_, fitted.center_rows_)


def test_more_centers_than_samples_means_all_of_them(X):
    everywhere = SmoothBasis().fit(X)
    np.testing.assert_array_equal(SmoothBasis(centers=1000).fit(X).center_rows_, everywhere.center_rows_)


def test_given_centers(X):
    points = np.vstack([X[3], X[5], X[3]])
    points[2, 3] = 9.0  # a constant input tells no centres apart
    fitted = SmoothBasis(centers=points).fit(X)
    np.testing.assert_allclose(fitted.transform(X), smooth_basis(X, X, [1], [3, 5]), rtol=1e-9, atol=1e-12)
    assert list(fitted.get_feature_names_out()[3:]) == ["gauss(w=1) near centre 0", "gauss(w=1) near centre 1"]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99))
def test_take_is_the_same_functions(data, seed):
    X = np.random.default_rng(seed).normal(size=(9, 2))
    fitted = SmoothBasis(width=("median", [0.4, 1.0])).fit(X)
    G, names = fitted.transform(X), fitted.get_feature_names_out()
    chosen = data.draw(st.lists(st.integers(0, 19), unique=True))
    some = fitted.take(chosen)
    np.testing.assert_allclose(some.transform(X), G[:, chosen], rtol=1e-12, atol=1e-14)
    assert list(some.get_feature_names_out()) == list(names[chosen])
    assert len(some.centers_) == len(chosen)


@settings(max_examples=40, deadline=None)
@given(
    repeats=st.lists(st.integers(0, 11), max_size=20), seed=st.integers(0, 99), centers=st.sampled_from([4, "samples"])
)
def test_writing_a_sample_again_changes_nothing(repeats, seed, centers):
    X = np.random.default_rng(seed).normal(size=(12, 3))
    once = SmoothBasis(width=("median", [0.5, 1]), centers=centers).fit(X)
    again = SmoothBasis(width=("median", [0.5, 1]), centers=centers).fit(
        np.vstack([X, X[np.array(repeats, dtype=int)]])
    )
    np.testing.assert_array_equal(again.transform(X), once.transform(X))
    assert list(again.get_feature_names_out()) == list(once.get_feature_names_out())


@settings(max_examples=40, deadline=None)
@given(
    units=st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=3),
    shifts=st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3),
    seed=st.integers(0, 99),
)
def test_units_of_the_inputs_do_not_matter(units, shifts, seed):
    X = np.random.default_rng(seed).normal(size=(12, 3))
    other = (X + shifts) * units
    plain, changed = (SmoothBasis(width=("median", [0.5, 1])).fit_transform(data) for data in (X, other))
    np.testing.assert_allclose(changed, plain, atol=1e-9)


def test_constant_inputs_are_not_looked_at(X):
    fitted = SmoothBasis().fit(X)
    elsewhere = X.copy()
    elsewhere[:, 3] = -1e6
    np.testing.assert_array_equal(fitted.transform(elsewhere), fitted.transform(X))
    np.testing.assert_allclose(SmoothBasis().fit_transform(X[:, :3]), fitted.transform(X), rtol=1e-12)


def test_float32_stays(X):
    low = X.astype(np.float32)
    for container in (np.asarray, pd.DataFrame):
        G = SmoothBasis(width=("median", [0.5, 2])).fit_transform(container(low))
        assert G.dtype == np.float32
        np.testing.assert_allclose(
            G, SmoothBasis(width=("median", [0.5, 2])).fit_transform(low.astype(float)), atol=1e-6
        )


def test_polars(X):
    frame = pl.DataFrame(X, schema=["speed", "load", "heat", "site"])
    fitted = SmoothBasis().fit(frame)
    np.testing.assert_array_equal(fitted.transform(frame), SmoothBasis().fit_transform(X))
    assert list(fitted.get_feature_names_out()[:3]) == ["speed", "load", "heat"]


def test_blocks_do_not_matter(X, monkeypatch):
    whole = SmoothBasis(width=("median", [0.5, 1])).fit_transform(X)
    monkeypatch.setattr(termwise._arrays, "BLOCK_ENTRIES", 100)
    np.testing.assert_allclose(SmoothBasis(width=("median", [0.5, 1])).fit_transform(X), whole, rtol=1e-12, atol=1e-14)


def test_the_same_widths_are_there_once(X):
    np.testing.assert_array_equal(
        SmoothBasis(width=("median", [2, 1, 2.0])).fit_transform(X),
        SmoothBasis(width=("median", [2, 1])).fit_transform(X),
    )


def test_of_standardised_samples_it_is_radial(rng):
    X = rng.normal(size=(30, 3))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    G = SmoothBasis(width=("median", 1.0), linear=False).fit_transform(X)
    np.testing.assert_allclose(G, RadialBasis(width="median").fit_transform(X), rtol=1e-10)


@pytest.mark.parametrize("data", [np.full((8, 2), 0.1), np.ones((2, 1))])
@pytest.mark.parametrize("model", [SmoothBasis(), BasisRidge(SmoothBasis()), ForwardRegressor(SmoothBasis())])
def test_constant_inputs_only(data, model):
    with pytest.raises(
        ValueError, match=rf"X must have an input that is not constant, got {len(data)} samples all identical"
    ):
        clone(model).fit(data, np.arange(len(data)))


@pytest.mark.parametrize(
    ("parameters", "error", "pattern"),
    [
        (
            {"width": 0},
            ValueError,
            r"width must be a finite number > 0, got 0: give a number, several, 'median' or \('m",
        ),
        ({"width": [1, -2]}, ValueError, r"width must be a finite number > 0, got -2"),
        ({"width": ("median", [1, np.inf])}, ValueError, r"width must be a finite number > 0, got inf"),
        ({"width": "mean"}, ValueError, r"width must be one of 'median', got 'mean'"),
        ({"width": [[1, 2]]}, TypeError, r"width must be a finite number > 0, got \[1, 2\]"),
        ({"width": ("median", [])}, ValueError, r"width must not be empty, got \('median', \[\]\): give a number"),
        ({"centers": 0}, ValueError, r"centers must be a whole number >= 1, got 0: 'samples' or an array of points"),
        ({"centers": 1.5}, ValueError, r"centers must be a whole number >= 1, got 1\.5"),
        ({"centers": "all"}, ValueError, r"centers must be one of 'samples', got 'all': give 'samples', a number or"),
        (
            {"centers": [[1.0]]},
            ValueError,
            r"centers must have shape \(p, 4\), got shape \(1, 1\): the data have 4 inputs",
        ),
        ({"centers": [[1.0, 2, 3, np.nan]]}, ValueError, r"Input centers contains NaN"),
        ({"linear": "yes"}, ValueError, r"linear must be True or False, got 'yes': True has the inputs themselves"),
        ({"extrapolation": "no"}, ValueError, r"extrapolation must be one of 'clip', .*, got 'no': 'clip' suits most"),
    ],
)
def test_errors(X, parameters, error, pattern):
    with pytest.raises(error, match=pattern):
        SmoothBasis(**parameters).fit(X)


def test_a_few_functions_of_several_widths_make_a_model(rng):
    X = rng.uniform(-2, 2, size=(150, 2)) * [1, 100]
    y = X[:, 0] + 3 * np.exp(-8 * X[:, 0] ** 2) + 0.05 * rng.normal(size=150)
    model = ForwardRegressor(SmoothBasis(width=("median", [0.25, 1.0])), refit_alpha="loo").fit(X, y)
    assert model.score(X, y) > 0.95
    assert "x0" in model.get_feature_names_out()
    assert len(model.fitted_terms_.basis.columns_) == model.n_terms_ < 60
    G = SmoothBasis(width=("median", [0.25, 1.0])).fit_transform(X)
    np.testing.assert_allclose(model.predict(X), G @ model.coef_ + model.intercept_, atol=1e-8)
    weighted = ForwardRegressor(SmoothBasis()).fit(X, y, sample_weight=np.repeat([1, 2], 75))
    written = ForwardRegressor(SmoothBasis()).fit(np.vstack([X, X[75:]]), np.append(y, y[75:]))
    np.testing.assert_allclose(weighted.predict(X), written.predict(X), atol=1e-8)


WIDTHS = [("median", 0.01), ("median", [0.3, 1.0]), ("median", 30.0)]


def test_its_widths_are_searched(rng):
    X = rng.uniform(-3, 3, size=(80, 1))
    y = np.sin(3 * X[:, 0]) + 0.05 * rng.normal(size=80)
    search = CriterionSearch(BasisRidge(SmoothBasis()), {"basis__width": WIDTHS}).fit(X, y)
    assert search.best_params_ == {"basis__width": ("median", [0.3, 1.0])}


def test_width_is_in_the_units_of_standardised_inputs(X):
    distinct = np.unique(X[:, :3], axis=0)
    Z = (distinct - distinct.mean(axis=0)) / distinct.std(axis=0)
    G = SmoothBasis(width=1.5, linear=False).fit_transform(distinct)
    np.testing.assert_allclose(G, RadialBasis(width=1.5).fit_transform(Z), rtol=1e-9)
    median = SmoothBasis().fit(X)
    np.testing.assert_array_equal(SmoothBasis(width="median").fit_transform(X), median.transform(X))
    same = SmoothBasis(width=0.7 * median.distance_).fit_transform(X)
    np.testing.assert_allclose(SmoothBasis(width=("median", 0.7)).fit_transform(X), same, rtol=1e-12)


def test_widths_in_median_distances_are_deprecated(X):
    with pytest.warns(FutureWarning, match=r"widths is deprecated, .* use width=\('median', \[0\.5, 2\]\)\."):
        G = SmoothBasis([0.5, 2]).fit_transform(X)
    np.testing.assert_array_equal(G, SmoothBasis(width=("median", [0.5, 2])).fit_transform(X))
    with pytest.warns(FutureWarning, match=r"widths is deprecated, .* use width=2\."):
        G = SmoothBasis(widths=2, relevance=np.ones(X.shape[1])).fit_transform(X)
    np.testing.assert_array_equal(G, SmoothBasis(width=2, relevance=np.ones(X.shape[1])).fit_transform(X))


def test_it_is_exported():
    assert basis.SmoothBasis is SmoothBasis
