"""Bases against one function value at a time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import radial
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

import termwise._arrays
from termwise import (
    AnovaBasis,
    BasisRidge,
    ForwardClassifier,
    ForwardRegressor,
    FourierBasis,
    LagBasis,
    LocalRidge,
    LogisticBasis,
    OnlineRidge,
    RadialBasis,
    RuleBasis,
    SmoothBasis,
    UnionBasis,
)
from termwise.basis import KERNELS, TableEncoder
from termwise.basis.base import restrict
from termwise.basis.radial import median_distance
from termwise.fitted import inputs_of

GIVEN = {  # parameters that are required, or save time
    LogisticBasis: LogisticBasis(n_units=20),
    RuleBasis: RuleBasis(n_trees=5),
    UnionBasis: UnionBasis([AnovaBasis(), SmoothBasis(linear=False)]),
}
CLASSES = [getattr(termwise, name) for name in termwise.__all__ if name.endswith("Basis")]
ALL_BASES = [GIVEN[cls] if cls in GIVEN else cls() for cls in CLASSES]
IDS = [type(basis).__name__ for basis in ALL_BASES]

PHI = {
    "gaussian": lambda z: np.exp(-z),
    "multiquadric": lambda z: (1 + z) ** 0.5,
    "inverse_multiquadric": lambda z: (1 + z) ** -0.5,
    "cauchy": lambda z: (1 + z) ** -1.0,
}


def test_every_kernel_has_an_oracle():
    assert set(PHI) == set(KERNELS)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["scalar", "vector", "matrix"])
def test_radial_basis_equals_the_definition(kernel, kind, rng):
    X, C = rng.normal(size=(13, 3)), rng.normal(size=(5, 3))
    root = rng.normal(size=(3, 3))
    width = {"scalar": 1.7, "vector": np.array([0.5, 1.0, 3.0]), "matrix": root @ root.T + 0.1 * np.eye(3)}[kind]
    metric = {"scalar": 1.7**2 * np.eye(3), "vector": np.diag([0.25, 1.0, 9.0]), "matrix": width}[kind]
    G = RadialBasis(kernel, width=width, centers=C).fit(X).transform(X)
    np.testing.assert_allclose(G, radial(X, C, PHI[kernel], metric), rtol=1e-12, atol=1e-14)


@settings(max_examples=30, deadline=None)
@given(shift=st.floats(-1e6, 1e6), width=st.floats(0.01, 100), seed=st.integers(0, 99))
def test_radial_basis_does_not_mind_where_the_data_are(shift, width, seed):
    X = np.random.default_rng(seed).normal(size=(8, 2))
    here = RadialBasis(width=width).fit_transform(X)
    there = RadialBasis(width=width).fit_transform(X + shift)
    error = 1e-15 * (abs(shift) + 10) / width  # of the shifted differences themselves
    np.testing.assert_allclose(there, here, atol=1e-10 + 20 * error)


def test_radial_basis_is_computed_in_blocks(monkeypatch, rng):
    X = rng.normal(size=(101, 2))
    whole = RadialBasis().fit_transform(X)
    monkeypatch.setattr(termwise._arrays, "BLOCK_ENTRIES", 700)
    np.testing.assert_allclose(RadialBasis().fit_transform(X), whole, rtol=1e-14)


def test_radial_basis_makes_no_large_temporary(rng):
    import tracemalloc

    X = rng.normal(size=(2000, 30))
    basis = RadialBasis(width=3.0).fit(X)
    tracemalloc.start()
    G = basis.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * G.nbytes  # an n x p x d temporary would be thirty times as much


def test_centers_a_number_are_different_samples_spread_out(rng):
    X = np.vstack([rng.normal(size=(50, 2)), rng.normal(size=(50, 2)) + 20])
    basis = RadialBasis(centers=10).fit(X)
    assert basis.centers_.shape == (10, 2)
    np.testing.assert_array_equal(basis.centers_, X[basis.center_rows_])
    assert len(np.unique(basis.center_rows_)) == 10
    assert 0 < (basis.center_rows_ < 50).sum() < 10


def test_median_width(rng):
    X = rng.normal(size=(60, 2))
    distances = [np.linalg.norm(a - b) for i, a in enumerate(X) for b in X[:i]]
    assert RadialBasis(width="median").fit(X).width_ == pytest.approx(np.median(distances))
    assert median_distance(np.ones((5, 2))) == 1.0
    large = rng.normal(size=(5000, 2))
    assert median_distance(large) == pytest.approx(median_distance(large[::2]), rel=0.05)


def test_fourier_basis_equals_the_definition(rng):
    X = rng.uniform(2, 5, size=(20, 2))
    basis = FourierBasis(n_harmonics=3, period=[1.5, 4.0]).fit(X)
    G = basis.transform(X)
    columns = []
    for j, period in enumerate([1.5, 4.0]):
        for k in (1, 2, 3):
            angle = 2 * np.pi * k * (X[:, j] - X[:, j].min()) / period
            columns += [np.sin(angle), np.cos(angle)]
    np.testing.assert_allclose(G, np.column_stack(columns), atol=1e-12)
    assert list(basis.get_feature_names_out(["a", "b"])[[0, 1, 6]]) == ["sin1(a)", "cos1(a)", "sin1(b)"]


def test_fourier_basis_default_period_is_twice_the_range():
    basis = FourierBasis().fit([[0.0, 7.0], [2.0, 7.0]])
    assert basis.periods_.tolist() == [4.0, 1.0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sines_that_are_zero_at_all_samples_are_left_out(dtype, rng):
    hours = rng.permutation(np.arange(48) % 24)
    table = np.column_stack([hours, 0.1 + 0.2 * (hours > 11), rng.uniform(size=48)]).astype(dtype)
    basis = FourierBasis(12, period=[24.0, 0.4, 1.0]).fit(table)
    names, values = list(basis.get_feature_names_out()), basis.transform(table)
    assert [f"sin{k}(x0)" in names for k in (1, 11, 12)] == [True, True, False]
    assert [name for name in names if "x1" in name] == [f"cos{k}(x1)" for k in range(1, 13)]
    assert len([name for name in names if "x2" in name]) == 24
    assert np.abs(values).max(axis=0).min() > 0.5
    # a classifier, whose penalty is on standardised columns, would have weights of 1e16, and any score between samples
    labels = table[:, 1] + table[:, 2] > 0.7
    model = ForwardClassifier(FourierBasis()).fit(table[:, 1:], labels)
    assert np.abs(model.decision_function([[0.2, 0.5], [0.1 + 1e-9, 0.5]])).max() < 20


def test_logistic_basis_equals_the_definition(rng):
    X = rng.normal(size=(30, 3)) * [1, 10, 0.1]
    basis = LogisticBasis(n_units=7, random_state=3).fit(X)
    G = basis.transform(X)
    for j in range(7):
        np.testing.assert_allclose(G[:, j], 1 / (1 + np.exp(X @ basis.directions_[j] - basis.offsets_[j])))
    at_sample = np.abs(G - 0.5).min(axis=0)
    np.testing.assert_allclose(at_sample, 0, atol=1e-12)  # every step passes through a sample
    extreme = basis.transform(X * 1e6)
    assert np.all(np.isfinite(extreme))


def test_lag_basis_equals_the_definition(rng):
    X = rng.normal(size=(10, 3))
    basis = LagBasis(lags=2, input_lags=[0, 3], output=1).fit(X)
    G = basis.transform(X)
    assert list(basis.get_feature_names_out()) == ["x1[t-1]", "x1[t-2]", "x0[t]", "x0[t-3]", "x2[t]", "x2[t-3]"]
    for t in range(10):
        row = [X[max(t - lag, 0), j] for j, lag in [(1, 1), (1, 2), (0, 0), (0, 3), (2, 0), (2, 3)]]
        np.testing.assert_array_equal(G[t], row)
    windows, target = basis.windows(X)
    np.testing.assert_array_equal(windows, G[3:])
    np.testing.assert_array_equal(target, X[3:, 1])


@pytest.mark.parametrize("frame", [None, pd.DataFrame, pl.DataFrame], ids=["array", "pandas", "polars"])
def test_free_run_feeds_predictions_back(frame, rng):
    """y_t = 0.6 y_{t-1} - 0.2 y_{t-2} + u_t simulated from its inputs alone."""
    n, u = 80, rng.normal(size=80)
    y = np.zeros(n)
    for t in range(2, n):
        y[t] = 0.6 * y[t - 1] - 0.2 * y[t - 2] + u[t]
    table = np.column_stack([y, u])
    unknown = table.copy()
    unknown[5:, 0] = np.nan
    output = 0
    if frame is not None:
        table, unknown = (frame(dict(zip("yu", t.T, strict=True))) for t in (table, unknown))
        output = "y"
    model = BasisRidge(LagBasis(lags=2, input_lags=[0], output=output), alpha=0)
    model.fit(table, y, sample_weight=np.arange(n) >= 2)
    np.testing.assert_allclose(model.weights_, [0.6, -0.2, 1.0], atol=1e-10)
    np.testing.assert_allclose(model.basis_.free_run(model, unknown, start=5), y, atol=1e-8)


def test_free_run_works_through_a_pipeline(rng):
    y = np.sin(0.2 * np.arange(100))
    model = make_pipeline(LagBasis(lags=2), StandardScaler(), BasisRidge(alpha=0)).fit(y[:, None], y)
    path = model[0].free_run(model, y[:, None], start=50)
    np.testing.assert_allclose(path[:50], y[:50])
    assert np.abs(path - y).max() < 0.2


@pytest.mark.parametrize("basis", ALL_BASES, ids=IDS)
def test_take_is_the_same_functions(basis, rng):
    X = rng.normal(size=(30, 2))
    fitted = clone(basis).fit(X, X[:, 0])
    G, names = fitted.transform(X), fitted.get_feature_names_out()
    chosen = [3, 0, 4]
    restricted = fitted.take(chosen)
    np.testing.assert_allclose(restricted.transform(X), G[:, chosen], rtol=1e-12, atol=1e-14)
    assert list(restricted.get_feature_names_out()) == list(names[chosen])
    assert list(restricted.take([2]).get_feature_names_out()) == [names[4]]
    mask = np.zeros(G.shape[1], dtype=bool)
    mask[1] = True
    assert list(fitted.take(mask).get_feature_names_out()) == [names[1]]
    assert fitted.take([]).transform(X).shape == (30, 0)
    np.testing.assert_array_equal(fitted.transform(X), G)


@pytest.mark.parametrize("basis", ALL_BASES, ids=IDS)
def test_bases_keep_float32_and_names(basis, rng):
    X = rng.normal(size=(30, 2)).astype(np.float32)
    frame = pd.DataFrame(X, columns=["speed", "load"])
    fitted = clone(basis).fit(frame, X[:, 0])
    G = fitted.transform(frame)
    assert G.dtype == np.float32
    exact = clone(basis).fit(X.astype(float), X[:, 0]).transform(X.astype(float))
    np.testing.assert_allclose(G, exact, atol=2e-6)
    named = clone(basis).set_output(transform="pandas").fit_transform(frame, X[:, 0])
    assert list(named.columns) == list(fitted.get_feature_names_out())
    assert len(set(named.columns)) == named.shape[1]


@pytest.mark.parametrize("basis", ALL_BASES, ids=IDS)
@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
def test_bases_refuse_sparse_input_with_a_remedy(basis, container, rng):
    with pytest.raises(TypeError, match=r"dense data is required.*toarray"):
        clone(basis).fit(container(rng.normal(size=(10, 2))), np.arange(10.0))


@pytest.mark.parametrize("model", [BasisRidge(), LocalRidge(), OnlineRidge()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    "basis",
    [SplineTransformer(n_knots=5), PolynomialFeatures(3), make_pipeline(StandardScaler(), RadialBasis(centers=12))],
    ids=["splines", "polynomials", "pipeline"],
)
def test_any_transformer_can_stand_in_for_a_basis(model, basis, rng):
    X = rng.uniform(-2, 2, size=(80, 1))
    y = np.sin(2 * X[:, 0])
    fitted = clone(model).set_params(basis=basis).fit(X, y)
    assert fitted.score(X, y) > 0.9
    G = clone(basis).fit_transform(X, y)
    expected = G @ fitted.coef_ + fitted.intercept_
    np.testing.assert_allclose(fitted.predict(X), expected, atol=1e-8)
    assert fitted.summary()


def test_take_without_a_method_of_its_own(rng):
    X = rng.normal(size=(10, 2))
    fitted = PolynomialFeatures(2).fit(X)
    restricted = restrict(fitted, np.array([4, 1]))
    np.testing.assert_array_equal(restricted.transform(X), fitted.transform(X)[:, [4, 1]])
    assert list(restricted.get_feature_names_out()) == ["x0 x1", "x0"]
    assert restricted.fit(X) is restricted


def test_the_width_of_a_basis_is_a_parameter_of_the_model(rng):
    X = rng.uniform(-3, 3, size=(60, 1))
    y = np.sin(3 * X[:, 0])
    search = GridSearchCV(BasisRidge(RadialBasis(centers=30)), {"basis__width": [0.01, 0.7]}, cv=3).fit(X, y)
    assert search.best_params_ == {"basis__width": 0.7}


def test_distances_between_far_clusters_do_not_cancel(rng):
    for gap in (1e2, 1e5, 1e8):
        X = np.vstack([rng.normal(size=(6, 2)), rng.normal(size=(6, 2)) + gap])
        exact = radial(X, X, PHI["gaussian"], np.eye(2))
        np.testing.assert_allclose(RadialBasis().fit_transform(X), exact, atol=1e-9)


def test_taking_functions_of_a_pipeline_evaluates_no_others(rng):
    X = rng.normal(size=(20, 3))
    smooth = make_pipeline(StandardScaler(), RadialBasis()).fit(X)
    some = restrict(smooth, np.array([4, 1]))
    np.testing.assert_allclose(some.transform(X), smooth.transform(X)[:, [4, 1]], rtol=1e-12)
    assert len(some[-1].centers_) == 2
    assert list(some.get_feature_names_out()) == ["gaussian_4", "gaussian_1"]


def test_width_as_a_multiple_of_the_median_distance(rng):
    X = rng.normal(size=(40, 3))
    half = RadialBasis(width=("median", 0.5)).fit(X)
    assert half.width_ == 0.5 * RadialBasis(width="median").fit(X).width_ == 0.5 * median_distance(X)
    for width, error in ((("median", 0), ValueError), (("mean", 1.0), ValueError), (("median", "x"), TypeError)):
        with pytest.raises(error, match=r"width must be .*: give a number, an array, 'median' or \('median', factor\)"):
            RadialBasis(width=width).fit(X)


# -- the inputs of each function ---------------------------------------------------------------------------------------

RESOLVED_BASES = [
    None,
    AnovaBasis(n_centers=2, min_count=1),
    SmoothBasis(centers=5),
    SmoothBasis(centers=5, relevance=[1.0, 0.0, 2.0, 0.0]),
    FourierBasis(n_harmonics=1),
    RadialBasis(centers=5, width=3.0),
    LogisticBasis(n_units=5),
    RuleBasis(n_trees=3),
    UnionBasis([FourierBasis(n_harmonics=1), SmoothBasis(centers=5, relevance=[0.0, 0.0, 2.0, 1.0])]),
    make_pipeline(StandardScaler(), PolynomialFeatures(2), AnovaBasis(n_centers=1, min_count=1)),
    make_pipeline(SelectKBest(f_regression, k=3), PolynomialFeatures(2, include_bias=False)),
    make_pipeline(ForwardRegressor(AnovaBasis(n_centers=1), max_terms=3, criterion=None), StandardScaler()),
    PCA(2),
]


@pytest.mark.parametrize("basis", RESOLVED_BASES, ids=lambda basis: type(basis).__name__)
def test_inputs_of_terms_are_those_that_change_them(basis, rng):
    """The definition: permute one input at a time and see which columns change."""
    X = rng.normal(size=(60, 4))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.normal(size=60)
    terms = BasisRidge(basis).fit(X, y).fitted_terms_
    G, expected = terms.design(X), [[] for _ in terms.chosen]
    for j in range(4):
        moved = X.copy()
        moved[:, j] = np.roll(X[:, j], 1)
        for term in np.flatnonzero(np.abs(terms.design(moved) - G).max(axis=0) > 1e-9):
            expected[term].append(j)
    assert inputs_of(terms) == [tuple(inputs) for inputs in expected]


def test_inputs_of_lags_categories_and_selected_columns(rng):
    table = pd.DataFrame({"a": rng.normal(size=50), "kind": pd.Categorical(list("uvwuv") * 10), "b": np.arange(50.0)})
    y = (table.kind == "v") + 0.5 * table.b + 0.1 * table.a
    terms = BasisRidge(TableEncoder()).fit(table, y).fitted_terms_
    assert inputs_of(terms) == [(0,), (1,), (1,), (1,), (2,)]
    pairs = ForwardRegressor(make_pipeline(TableEncoder(), AnovaBasis(n_centers=0, min_count=1))).fit(table, y)
    assert set(inputs_of(pairs.fitted_terms_)) >= {(1,), (2,)}
    assert inputs_of(BasisRidge(LagBasis(2)).fit(table[["a", "b"]], y).fitted_terms_) == [(0,), (0,), (1,), (1,)]
    selected = ForwardRegressor(PCA(2), max_terms=1, criterion=None).fit(table[["a", "b"]], y)
    assert inputs_of(selected.fitted_terms_) == [(0, 1)]


def test_repeated_samples_do_not_change_logistic_units(rng):
    X = rng.normal(size=(20, 2))
    once, often = LogisticBasis(5).fit(X), LogisticBasis(5).fit(np.repeat(X, rng.integers(1, 4, size=20), axis=0))
    assert np.array_equal(once.transform(X), often.transform(X))


@pytest.mark.parametrize("count", [100, 600])  # the best of several draws each, and one at a time
def test_no_row_is_drawn_twice_beside_outliers(rng, count):
    """Distances are products, whose rounding beside outliers exceeds the distances of the other rows."""
    X = rng.normal(size=(700, 3))
    X[:20] *= 1e8
    basis = RadialBasis(centers=count).fit(X)
    assert len(np.unique(basis.center_rows_)) == count
