"""Products of two columns that are never stored: the same sums and choices as with the stored matrix."""

from __future__ import annotations

import numpy as np
import pytest

from termwise import AnovaBasis, ForwardRegressor, TermwiseRegressor, forward_path
from termwise.basis import anova
from termwise.design import EVERY, Dense
from termwise.design.computed import ProductDesign


def problem(rng, n=70, d=4, dtype=np.float64):
    X = rng.uniform(-1, 1, size=(n, d)).astype(dtype)
    y = X[:, 0] * X[:, 2] + np.exp(-4 * X[:, 1] ** 2) + 0.1 * rng.normal(size=n)
    return X, y


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("order", [1, 2])
def test_a_product_design_equals_the_matrix(rng, dtype, weighted, order):
    X, _ = problem(rng, dtype=dtype)
    basis = AnovaBasis(order=order).fit(X)
    found, G = basis.design(X), basis.transform(X)
    stored = Dense(G.astype(np.float64))
    assert found.shape == G.shape
    assert found.dtype == G.dtype == dtype
    assert found.nbytes == G.nbytes
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-3}
    w = rng.uniform(0.5, 3, size=70) if weighted else None
    u, U = rng.normal(size=70), rng.normal(size=(70, 3))
    means = G.mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(found.products(u), stored.products(u), **tolerance)
    np.testing.assert_allclose(found.products(U), stored.products(U), **tolerance)
    np.testing.assert_allclose(found.power_sums(2, w), stored.power_sums(2, w), **tolerance)
    np.testing.assert_allclose(found.power_sums(2, w, means), stored.power_sums(2, w, means), **tolerance)
    np.testing.assert_allclose(found.gram(w), stored.gram(w), **tolerance)
    np.testing.assert_allclose(found.power_sums(4, w), stored.power_sums(4, w), **tolerance)
    assert np.all(found.power_sums(4, w, means) >= stored.power_sums(4, w, means) * (1 - 1e-4))
    np.testing.assert_allclose(found.columns(EVERY), G, rtol=1e-6, atol=1e-7)
    chosen, rows = np.array([3, 0, 17]), np.array([5, 2])
    np.testing.assert_allclose(found.columns(chosen, rows), G[rows][:, chosen], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found[10:20, :].products(u[10:20]), G[10:20].T @ u[10:20], **tolerance)


@pytest.mark.parametrize("kind", ["hinge", "step"])
@pytest.mark.parametrize("extrapolation", ["bounded", "continue"])
@pytest.mark.parametrize("missing", [False, True])
def test_functions_above_knots_span_those_below(rng, kind, extrapolation, missing):
    X, _ = problem(rng)
    if missing:
        X[::7, 1] = np.nan
    basis = AnovaBasis(functions=["linear", kind], extrapolation=extrapolation, min_count=3).fit(X[:50])
    for samples in (X[:50], 1.5 * X):  # within the training range, and beyond it
        found, stored = basis.design(samples), Dense(basis.transform(samples))
        assert len(found.span.kept) < found.S.shape[1]
        np.testing.assert_allclose(found.S[:, found.span.kept] @ found.span.weights.T, found.S, atol=1e-13)
        U = rng.normal(size=(len(samples), 2))
        np.testing.assert_allclose(found.products(U), stored.products(U), rtol=1e-9, atol=1e-11)


def test_columns_that_hardly_vary_are_centred_without_cancelling(rng):
    S = np.column_stack([1 + 1e-7 * rng.normal(size=(50, 2)), np.ones(50)])
    design = ProductDesign(S, np.array([0, 0, 1]), np.array([1, 2, 2]))
    G = S[:, [0, 0, 1]] * S[:, [1, 2, 2]]
    means = G.mean(axis=0)
    np.testing.assert_allclose(design.power_sums(2, None, means), ((G - means) ** 2).sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("rule", ["loo", "cost", "gcv", "kfold", "norm"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_same_terms_are_chosen(rng, rule, outputs):
    X, y = problem(rng)
    Y = np.column_stack([y, X[:, 3] - y**2])[:, :outputs]
    basis, weights = AnovaBasis().fit(X), rng.integers(1, 4, size=70)
    stored = forward_path(basis.transform(X), Y, rule=rule, max_terms=8, sample_weight=weights)
    found = forward_path(basis.design(X), Y, rule=rule, max_terms=8, sample_weight=weights)
    assert found.terms.tolist() == stored.terms.tolist()
    np.testing.assert_allclose(found.column("loo"), stored.column("loo"), rtol=1e-9)
    np.testing.assert_allclose(found.coef(8)[0], stored.coef(8)[0], rtol=1e-7)


def test_estimators_store_no_products_where_there_are_many(rng, monkeypatch):
    X, y = problem(rng)
    stored = [ForwardRegressor(AnovaBasis()).fit(X, y), TermwiseRegressor(dictionary="pairs").fit(X, y)]
    monkeypatch.setattr(anova, "SMALL_MATRIX", 0)
    assert not AnovaBasis().fit(X)._stores(X)
    assert AnovaBasis(order=1).fit(X)._stores(X)  # there are none
    streamed = [ForwardRegressor(AnovaBasis()).fit(X, y), TermwiseRegressor(dictionary="pairs").fit(X, y)]
    # The second reproduces an ensemble with ridge regression, whose penalty is optimised to a few digits.
    for one, other, atol in zip(stored, streamed, (0.0, 1e-6), strict=True):
        assert one.support_.tolist() == other.support_.tolist()
        np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-7, atol=atol)


def test_the_targets_themselves_are_fitted_without_products(rng, monkeypatch):
    X, y = problem(rng)
    stored = TermwiseRegressor(dictionary="pairs", target="data").fit(X, y)
    monkeypatch.setattr(anova, "SMALL_MATRIX", 0)
    monkeypatch.setattr(AnovaBasis, "evaluate", lambda self, X: self.design(X).columns(EVERY).astype(X.dtype))
    streamed = TermwiseRegressor(dictionary="pairs", target="data").fit(X, y)
    assert stored.support_.tolist() == streamed.support_.tolist()
