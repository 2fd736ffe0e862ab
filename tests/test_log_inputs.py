"""Logarithms of skewed inputs: the basis that takes them, and when the automatic estimators do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from termwise import (
    AnovaBasis,
    BasisRidge,
    ForwardRegressor,
    RadialBasis,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    UnionBasis,
)
from termwise.basis import LevelMeans, LogInputs
from termwise.basis.base import design_matrix

RNG = np.random.default_rng(5)
N = 200
AREA = RNG.lognormal(4, 1.5, size=N)
COUNT = RNG.poisson(RNG.gamma(1.0, 8.0, size=N)).astype(float)
X = np.column_stack([AREA, RNG.normal(size=N), COUNT])
SMALLEST = COUNT[COUNT > 0].min()
LOGS = np.column_stack([np.log(AREA), X[:, 1], np.log(COUNT + SMALLEST)])
y = np.log(AREA) * X[:, 1] + np.log(COUNT + 1) + 0.1 * RNG.normal(size=N)
FUNCTIONS = [
    AnovaBasis(n_centers=3),
    AnovaBasis(functions=("linear", "hinge", "step"), n_knots=3, extrapolation="bounded"),
    SmoothBasis(centers=15),
    RadialBasis(width=2.0, centers=15),
    UnionBasis([AnovaBasis(n_centers=1), SmoothBasis(centers=5)]),
]


def names_of(basis):
    return f"{type(basis).__name__} {getattr(basis, 'functions', '')}"


@pytest.mark.parametrize("basis", FUNCTIONS, ids=names_of)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_functions_are_those_of_the_logarithms(basis, dtype):
    fitted, inner = LogInputs(basis, columns=[0, 2]).fit(X.astype(dtype), y), clone(basis).fit(LOGS.astype(dtype), y)
    assert fitted.n_functions == inner.n_functions
    np.testing.assert_array_equal(fitted.shifts_, [0.0, SMALLEST])
    rtol = 1e-10 if dtype == np.float64 else 1e-3
    found = fitted.transform(X.astype(dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, inner.transform(LOGS.astype(dtype)), rtol=rtol, atol=rtol)
    chosen = np.arange(fitted.n_functions)[::-2]
    few = fitted.take(chosen).transform(X.astype(dtype))
    np.testing.assert_allclose(few, found[:, chosen], rtol=rtol, atol=rtol)
    assert fitted.inputs_of(chosen) == inner.inputs_of(chosen)


@pytest.mark.parametrize("basis", FUNCTIONS, ids=names_of)
def test_only_samples_outside_the_training_range_are_clipped(basis):
    fitted = LogInputs(basis, columns=[0, 2]).fit(X, y)
    union = UnionBasis.of([fitted, clone(AnovaBasis(order=1)).fit(X)])
    assert not fitted.clipped(X).any()
    assert not union.clipped(X).any()
    far = X[:4].copy()
    far[0, 0], far[1, 1], far[2, 2], far[3, 0] = 2 * AREA.max(), 100.0, 1e6, AREA.min() / 2
    inner = clone(basis).fit(LOGS, y)
    logs = np.column_stack([np.log(far[:, 0]), far[:, 1], np.log(far[:, 2] + SMALLEST)])
    np.testing.assert_array_equal(fitted.clipped(far), inner.clipped(logs))
    np.testing.assert_allclose(fitted.transform(far), inner.transform(logs), rtol=1e-9, atol=1e-12)
    model = BasisRidge(LogInputs(basis, columns=[0, 2]), alpha=0.1).fit(X, y)
    _, clipped = model.predict(far, return_clipped=True)
    np.testing.assert_array_equal(clipped, model.predictor_.clipped(far).any(axis=1))
    np.testing.assert_array_equal(clipped, inner.clipped(logs))


def test_values_that_have_no_logarithm_have_that_of_a_small_one():
    fitted = LogInputs(AnovaBasis(n_centers=0, order=1), columns=[0, 2]).fit(X, y)
    lowest = np.log([1e-6 * AREA.min(), 1e-6 * SMALLEST])
    low = fitted.transform([[0.0, 0.0, -1e9], [-5.0, 0.0, -SMALLEST]])
    inner = clone(fitted.basis).fit(LOGS, y)
    np.testing.assert_allclose(low, inner.transform([[lowest[0], 0.0, lowest[1]]] * 2))


def test_names_and_units():
    fitted = LogInputs(AnovaBasis(n_centers=0, order=1), columns=[0, 2]).fit(pd.DataFrame(X, columns=list("abc")), y)
    assert list(fitted.get_feature_names_out()) == ["log(a)", "b", f"log(c + {SMALLEST:.3g})"]
    units = [1e3, -2.0, 1e-4]
    basis = LogInputs(AnovaBasis(), columns=[0, 2])
    first, second = (BasisRidge(basis, alpha=0.1).fit(Z, y).predict(Z) for Z in (X, X * units))
    np.testing.assert_allclose(first, second, rtol=1e-8)


def test_missing_values_stay_missing():
    holes = X.copy()
    holes[::3, 0] = np.nan
    fitted = LogInputs(AnovaBasis(n_centers=2), columns=[0, 2]).fit(holes, y)
    logs = LOGS.copy()
    logs[::3, 0] = np.nan
    np.testing.assert_allclose(fitted.transform(holes), clone(fitted.basis).fit(logs).transform(logs), rtol=1e-10)
    assert not LogInputs(RadialBasis(), [0]).allows_missing
    nothing = np.column_stack([np.full(N, np.nan), X[:, 1]])
    assert np.isfinite(LogInputs(AnovaBasis(), [0]).fit(nothing, y).transform(nothing)).all()


def test_columns_of_zeros_are_constant():
    zeros = np.column_stack([np.zeros(N), X[:, 1]])
    fitted = LogInputs(AnovaBasis(order=1), columns=[0]).fit(zeros, y)
    np.testing.assert_allclose(fitted.transform(zeros), AnovaBasis(order=1).fit(zeros).transform(zeros))


def test_products_need_not_be_stored():
    basis = LogInputs(AnovaBasis(n_centers=1), columns=[0])
    fitted = clone(basis).fit(X, y)
    np.testing.assert_array_equal(fitted.design(X).columns(slice(None)), fitted.transform(X))
    np.testing.assert_array_equal(design_matrix(fitted, X), fitted.transform(X))
    assert not hasattr(LogInputs(SmoothBasis(), columns=[0]), "design")


def test_monotone_functions_of_logarithms():
    model = ForwardRegressor(LogInputs(AnovaBasis(monotone={0: 1}), columns=[0]), criterion=None, max_terms=8)
    model.fit(X, y)
    grid = np.column_stack([np.geomspace(AREA.min(), AREA.max(), 300), np.zeros(300), np.ones(300)])
    assert (np.diff(model.predict(grid)) >= -1e-9).all()
    assert list(model.basis_.monotone_) == [1, 0, 0]


def test_logarithms_beside_effects_of_levels():
    codes = np.arange(N) % 12
    Z = np.column_stack([codes, X])
    Y = np.column_stack([y, -y]) + 3.0 * (codes[:, None] % 3)
    basis = LevelMeans(LogInputs(AnovaBasis(groups=[0, 1, 2, 3]), columns=[1, 3]), columns=[0])
    model = ForwardRegressor(basis, max_terms=6).fit(Z, Y)
    assert min(model.score(Z, Y), ForwardRegressor(basis, max_terms=6).fit(Z, Y[:, 0]).score(Z, Y[:, 0])) > 0.9
    assert any("log(x1)" in name for name in model.get_feature_names_out())
    assert clone(model).set_params(basis=model.basis_.with_fitted_params()).fit(Z, Y).score(Z, Y) == model.score(Z, Y)


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda: LogInputs(AnovaBasis(), [1]).fit(X), ValueError, r"columns must be inputs without negative .* got -.*x1"),
    (lambda: LogInputs(AnovaBasis(), [3]).fit(X), ValueError, r"columns must .* got 3"),
    (lambda: LogInputs(None, [0]).fit(X), TypeError, r"basis must be one of termwise.basis, got None"),
])  # fmt: skip
def test_errors_name_the_parameter(make, error, message):
    with pytest.raises(error, match=message):
        make()


# -- the automatic estimators ------------------------------------------------------------------------------------------


def powers(rng, n):
    """A power law of two amounts, with noise that is small beside it."""
    Z = np.column_stack([rng.lognormal(3, 1.5, n), rng.lognormal(1, 1.0, n), rng.normal(size=n)])
    return Z, np.log(Z[:, 0]) * np.log(Z[:, 1] + 1) + 0.1 * rng.normal(size=n)


def logarithms_in(model):
    return any("log(" in name for name in model.get_feature_names_out())


def test_logarithms_where_ratios_matter():
    rng = np.random.default_rng(0)
    (Z, target), (fresh, truth) = powers(rng, 250), powers(rng, 1000)
    model = TermwiseRegressor(dictionary="pairs", log_inputs=True).fit(Z, target)
    assert logarithms_in(model)
    assert "logarithms of skewed inputs: x0, x1" in model.summary()
    assert model.score(fresh, truth) > 0.99
    plain = TermwiseRegressor(dictionary="pairs").fit(Z, target)
    assert not logarithms_in(plain)
    assert model.score(fresh, truth) > plain.score(fresh, truth)
    labels = target > np.median(target)
    classifier = TermwiseClassifier(dictionary="pairs", log_inputs=True).fit(Z, labels)
    assert logarithms_in(classifier)
    assert classifier.score(fresh, truth > np.median(target)) > 0.95


def test_log_inputs_is_a_truth_value():
    with pytest.raises(ValueError, match=r"log_inputs must be True or False, got 'yes'"):
        TermwiseRegressor(log_inputs="yes").fit(X, y)


def test_no_logarithms_where_differences_matter():
    rng = np.random.default_rng(1)
    Z = np.column_stack([rng.gamma(1.0, 2.0, 250), rng.normal(size=250)])
    target = np.sin(Z[:, 0]) + Z[:, 0] * Z[:, 1] + 0.1 * rng.normal(size=250)
    model = TermwiseRegressor(dictionary="pairs", log_inputs=True).fit(Z, target)
    assert not logarithms_in(model)
    assert "logarithms" not in model.summary()


def test_only_skewed_positive_inputs_of_many_values_have_logarithms():
    rng = np.random.default_rng(2)
    amount, discrete = rng.lognormal(0, 1, 250), rng.geometric(0.5, 250)
    others = [rng.uniform(1, 2, 250), amount - 0.5, np.where(amount < 0.3, 0.0, amount), discrete]
    target = np.log(amount) + np.log(others[0]) + np.log(discrete)
    assert not logarithms_in(
        TermwiseRegressor(dictionary="additive", log_inputs=True).fit(np.column_stack(others), target)
    )
    model = TermwiseRegressor(dictionary="additive", log_inputs=True).fit(np.column_stack([*others, amount]), target)
    assert "log(x4)" in model.get_feature_names_out()
    assert "logarithms of skewed inputs: x4" in model.summary()


def test_units_and_order_do_not_matter():
    rng = np.random.default_rng(3)
    Z, target = powers(rng, 120)
    model = TermwiseRegressor(dictionary="pairs", log_inputs=True).fit(Z, target)
    order = rng.permutation(120)
    other = TermwiseRegressor(dictionary="pairs", log_inputs=True).fit(
        Z[order][:, ::-1] * [1.0, 1e3, 1e-3], target[order]
    )
    assert logarithms_in(model)
    np.testing.assert_allclose(other.predict(Z[:, ::-1] * [1.0, 1e3, 1e-3]), model.predict(Z), rtol=1e-5, atol=1e-6)


def test_weights_are_repetitions():
    rng = np.random.default_rng(4)
    Z, target = powers(rng, 90)
    counts = rng.integers(1, 4, size=90)
    weighted = TermwiseRegressor(dictionary="pairs", log_inputs=True).fit(Z, target, sample_weight=counts)
    repeated = TermwiseRegressor(dictionary="pairs", log_inputs=True).fit(
        np.repeat(Z, counts, axis=0), np.repeat(target, counts)
    )
    assert logarithms_in(weighted)
    np.testing.assert_allclose(weighted.predict(Z), repeated.predict(Z), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_a_negative_value_among_many_rows():
    """One row that is not among those that the dictionary is chosen on."""
    rng = np.random.default_rng(5)
    Z, target = powers(rng, 6000)
    taken = TermwiseRegressor(dictionary="additive", target="data", log_inputs=True).fit(Z, target)
    assert logarithms_in(taken)
    for row in (1, 3, 4):
        Z[row, 0] = -1.0
    model = TermwiseRegressor(dictionary="additive", target="data", log_inputs=True).fit(Z, target)
    assert not any("log(x0" in name for name in model.get_feature_names_out())
    assert np.isfinite(taken.predict(Z)).all()
