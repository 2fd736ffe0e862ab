"""Predictions of many rows, in blocks and by several threads: those of single rows, for every kind of table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from frozen_models import FRAME, NAMES, TWO, Y_FRAME, Y, case_of, y
from frozen_models import X as SMALL
from threadpoolctl import threadpool_limits

import termwise.design
from termwise import AnovaBasis, BasisRidge, ForwardClassifier, ForwardRegressor, RadialBasis, TermwiseRegressor

pytestmark = pytest.mark.xdist_group("frozen")


@pytest.fixture(autouse=True, params=[1, 2], ids=["one thread", "two threads"])
def small_blocks(monkeypatch, request):
    """Blocks of few rows, so that small tables have many."""
    monkeypatch.setattr(termwise.design, "BLOCK_ENTRIES", 100)
    with threadpool_limits(request.param):
        yield


@pytest.mark.parametrize("name", [name for name in NAMES if "lag" not in name][::6])
def test_blocks_predict_what_rows_do(name):
    case = case_of(name)
    predictor, scale, found = case.predictor, case.scale(), case.outputs(case.predictor)
    for i in range(0, len(scale), 7):
        row = case.X.iloc[i : i + 1] if hasattr(case.X, "iloc") else case.X[i : i + 1]
        one = predictor.linear_predictor(row) if predictor.classes else predictor.predict(row)
        assert np.all(np.abs(found[i] - one[0]) <= 1e-12 * scale[i])


@pytest.mark.parametrize("targets", [y, Y], ids=["one output", "two outputs"])
def test_columns_are_combined_in_every_layout(targets):
    predictor = ForwardRegressor(max_terms=3, criterion=None).fit(SMALL, targets).predictor_
    X = np.tile(SMALL, (30, 1))
    expected = np.concatenate([predictor.predict(X[i : i + 5]) for i in range(0, len(X), 5)])
    for table in (X, np.asfortranarray(X), np.hstack([X, X])[:, :4], np.repeat(X, 2, axis=0)[::2], sp.csr_array(X)):
        np.testing.assert_allclose(predictor.predict(table), expected, rtol=1e-12, atol=1e-12)
    short = predictor.predict(X.astype(np.float32))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, predictor.predict(X.astype(np.float32).astype(np.float64)), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(predictor.predict(np.round(X).astype(int)), predictor.predict(np.round(X)), rtol=1e-12)
    frame = pd.DataFrame(X, columns=predictor.input_names)
    np.testing.assert_allclose(predictor.predict(frame), expected, rtol=1e-12, atol=1e-12)


def test_estimators_combine_columns():
    X = np.tile(SMALL, (30, 1))
    counts = np.floor(np.exp(np.abs(y)))
    models = [
        ForwardRegressor(max_terms=3, criterion=None).fit(SMALL, Y),
        ForwardRegressor(max_terms=3, criterion=None, loss="poisson").fit(SMALL, counts),
        ForwardClassifier(max_terms=3, criterion=None).fit(SMALL, TWO),
    ]
    for model in models:
        expected = np.tile(model.linear_predictor(SMALL[:20]).T, 30).T
        found = model.linear_predictor(np.tile(SMALL[:20], (30, 1)))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        assert np.array_equal(model.predict(X)[:60], model.predictor_.predict(X)[:60])
        assert model.linear_predictor(X.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="contains NaN"):
        models[0].predict(np.where(X > 52, np.nan, X))


def test_few_columns_of_many():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 40))
    model = ForwardRegressor(max_terms=2, criterion=None).fit(X, X[:, 3] - X[:, 30])
    np.testing.assert_allclose(model.predictor_.predict(X), model.predict(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("basis", [None, RadialBasis(width=4.0, centers=20)], ids=["columns", "radial"])
def test_invalid_rows_are_named(basis):
    predictor = ForwardRegressor(basis, max_terms=3, criterion=None).fit(SMALL, y).predictor_
    X = np.tile(SMALL, (5, 1))
    X[[150, 260], 1] = np.nan
    used = predictor.input_names.index(predictor.used_inputs[0])
    X[[150, 260], used] = np.nan
    with pytest.raises(ValueError, match=r"must be complete, got NaN, null or infinity in 2 rows, first in row 150"):
        predictor.predict(X)


def test_inputs_that_no_term_uses_may_be_missing():
    predictor = ForwardRegressor(max_terms=2, criterion=None).fit(SMALL, y).predictor_
    X = np.tile(SMALL, (5, 1))
    unused = [j for j, name in enumerate(predictor.input_names) if name not in predictor.used_inputs]
    expected = predictor.predict(X)
    X[::3, unused] = np.nan
    np.testing.assert_allclose(predictor.predict(X), expected, rtol=1e-12)


def test_results_that_overflow_are_infinite():
    predictor = BasisRidge(alpha=0.0).fit(SMALL, 1e3 * y).predictor_
    X = np.tile(SMALL, (5, 1))
    X[7] = np.copysign(1.7e308, predictor.weights[0])
    with np.errstate(over="ignore"):
        assert np.isposinf(predictor.predict(X)[7])


def test_tables_with_categories():
    model = TermwiseRegressor(6, dictionary="pairs").fit(FRAME, Y_FRAME)
    many = pd.concat([FRAME] * 3, ignore_index=True)
    np.testing.assert_allclose(model.predictor_.predict(many), np.tile(model.predict(FRAME), 3), rtol=1e-9, atol=1e-9)


def test_empty_tables():
    for basis in (None, AnovaBasis(n_centers=2)):
        predictor = ForwardRegressor(basis, max_terms=3).fit(SMALL, Y).predictor_
        assert predictor.predict(np.empty((0, 4))).shape == (0, 2)
