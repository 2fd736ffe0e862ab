"""Predictions of one sample: those of a table of one row, for every kind of model and of sample."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from frozen_models import FRAME, MISSING, NAMES, TWO, Y_FRAME, X, case_of, y
from sklearn.pipeline import make_pipeline

from termwise import BasisRidge, ForwardRegressor, RadialBasis, SmoothBasis, TermwiseClassifier
from termwise.basis import TableEncoder

pytestmark = pytest.mark.xdist_group("frozen")
LAGS = [name for name in NAMES if "lag" in name]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LAGS])
def test_predictions_are_those_of_a_table(name):
    case = case_of(name)
    predictor, scale = case.predictor, case.scale()
    expected = predictor.predict(case.X)
    rows = [*range(8), *range(len(case.rows) - 4, len(case.rows))]
    for i in rows:
        found = predictor.predict_one(case.rows[i])
        if predictor.classes is None:
            assert np.shape(found) == np.shape(expected[i])
            assert np.all(np.abs(found - expected[i]) <= 1e-12 * scale[i])
        else:
            assert found == expected[i]
    assert isinstance(predictor.predict_one(case.rows[0]), float | np.ndarray | str | int)
    assert hasattr(predictor, "predict_proba_one") == hasattr(predictor, "predict_proba")
    if hasattr(predictor, "predict_proba"):
        expected = predictor.predict_proba(case.X)
        for i in rows:
            np.testing.assert_allclose(predictor.predict_proba_one(case.rows[i]), expected[i], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LAGS)
def test_models_of_past_values_need_rows(name):
    with pytest.raises(ValueError, match=r"depend on one sample, got one of past values: use predict"):
        case_of(name).predictor.predict_one(case_of(name).rows[0])


@pytest.fixture(scope="module")
def table():
    """A frame with categories, dates, missing and rare values, and a model of it."""
    rng = np.random.default_rng(0)
    frame = FRAME.copy()
    frame["sold"] = pd.date_range("2020-01-01", periods=len(frame), freq="9D")
    frame["flag"] = rng.uniform(size=len(frame)) < 0.5
    frame.loc[::5, "speed"] = np.nan
    frame.loc[::7, "kind"] = None
    basis = make_pipeline(TableEncoder(min_count=3), SmoothBasis(width=3.0, centers=5))
    model = BasisRidge(basis, alpha=0.1).fit(frame, Y_FRAME + frame["flag"] + 0.01 * np.arange(len(frame)))
    return frame, model.predictor_


def test_samples_of_all_kinds(table):
    frame, predictor = table
    expected = predictor.predict(frame)
    for i in (0, 1, 7, 35):
        row = frame.iloc[i]
        values = row.tolist()
        for sample in (row, row.to_dict(), {**row.to_dict(), "other": "z"}, values, tuple(values), row.to_numpy()):
            assert predictor.predict_one(sample) == pytest.approx(expected[i], rel=1e-12)
    unseen = {**frame.iloc[1].to_dict(), "kind": "never", "sold": "2020-03-01"}
    assert predictor.predict_one(unseen) == pytest.approx(predictor.predict(pd.DataFrame([unseen]))[0], rel=1e-12)


def test_replacements_of_missing_values(table):
    frame, predictor = table
    filled = predictor.with_fill({"load": 1.5, "kind": "u"})
    sample = {**frame.iloc[1].to_dict(), "load": None, "kind": None}
    expected = filled.predict(pd.DataFrame([sample]).astype({"load": float, "kind": object}))[0]
    assert filled.predict_one(sample) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("missing", [np.nan, np.float32("nan"), pd.NA, pd.NaT], ids=["NaN", "float32", "NA", "NaT"])
def test_missing_values_of_all_types(table, missing):
    frame, predictor = table
    sample = frame.iloc[1].to_dict()
    for name in ("speed", "kind"):
        expected = predictor.predict_one({**sample, name: None})
        assert expected != predictor.predict_one(sample)
        assert predictor.predict_one({**sample, name: missing}) == expected
        row = np.array([list({**sample, name: missing}.values())], dtype=object)
        assert predictor.predict(row)[0] == pytest.approx(expected, rel=1e-12)
        assert predictor.count_unseen(row) == {}
    with pytest.raises(ValueError, match=r"load must be complete, got NaN, null or infinity"):
        predictor.predict_one({**sample, "load": missing})


def test_types_of_numbers():
    predictor = ForwardRegressor(RadialBasis(width=4.0, centers=20), max_terms=5).fit(X, y).predictor_
    for sample in (X[3].astype(np.float32), np.array([1, 2, 50, 0]), [1, 2.0, np.float64(50), np.int8(0)]):
        found = predictor.predict_one(sample)
        assert type(found) is float
        assert found == pytest.approx(predictor.predict(np.array([sample], dtype=np.float64))[0], rel=1e-12)


def test_invalid_samples():
    predictor = BasisRidge().fit(FRAME[["speed", "load", "heat"]], y).predictor_
    order = r"give speed, load, heat, in this order, or a mapping"
    with pytest.raises(ValueError, match=rf"x must be one sample of 3 values, got 2 values: {order}"):
        predictor.predict_one([1.0, 2.0])
    with pytest.raises(ValueError, match=rf"one sample of 3 values, got shape \(1, 3\): {order}"):
        predictor.predict_one(X[:1, :3])
    for sample, got in ((1.0, "float"), ("abc", "str"), (FRAME[:3], "DataFrame")):
        with pytest.raises(ValueError, match=rf"one sample of 3 values, got {got}: {order}"):
            predictor.predict_one(sample)
    with pytest.raises(ValueError, match=r"speed must hold numbers, got \[1\.0\]"):
        predictor.predict_one([[1.0], [2.0], [3.0]])
    with pytest.raises(ValueError, match=r"x must have the inputs the model uses, got none called heat: it has speed"):
        predictor.predict_one({"speed": 1.0, "load": 2.0})
    for invalid in (np.nan, np.inf, None):
        with pytest.raises(ValueError, match=r"load must be complete, got NaN, null or infinity in 1 row"):
            predictor.predict_one([1.0, invalid, 2.0])
    with pytest.raises(ValueError, match=r"load must hold numbers, got '2'"):
        predictor.predict_one([1.0, "2", 2.0])


def test_invalid_values_of_a_table(table):
    frame, predictor = table
    sample = frame.iloc[1].to_dict()
    with pytest.raises(ValueError, match=r"speed must be complete, got NaN, null or infinity"):
        predictor.predict_one({**sample, "speed": np.inf})
    with pytest.raises(ValueError, match=r"load must be complete, got NaN, null or infinity"):
        predictor.predict_one({**sample, "load": None})
    for beyond in (10**400, -(10**400)):
        with pytest.raises(ValueError, match=r"load must be complete, got NaN, null or infinity"):
            predictor.predict_one({**sample, "load": beyond})
    for several in (["u"], np.array(["u", "v"])):
        with pytest.raises(ValueError, match=r"kind must hold categories, got .*: give a single string, number or bo"):
            predictor.predict_one({**sample, "kind": several})


def test_missing_values_that_a_basis_allows():
    case = case_of("missing values")
    expected = case.predictor.predict(MISSING)
    for i in range(10):
        assert case.predictor.predict_one(MISSING[i]) == pytest.approx(expected[i], rel=1e-9)


def test_copies_predict_the_same():
    predictor = TermwiseClassifier(4, dictionary="additive").fit(X, TWO).predictor_
    labels = [predictor.predict_one(row) for row in X[:5]]
    for one in (pickle.loads(pickle.dumps(predictor)), copy.deepcopy(predictor), copy.copy(predictor)):
        assert [one.predict_one(row) for row in X[:5]] == labels
