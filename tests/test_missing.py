"""Missing values: neutral in every basis that allows them, the same in every file and export."""

from __future__ import annotations

import ctypes
import runpy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_export import compiled, needs_gcc, run_onnx

from termwise import BasisRidge, ForwardRegressor, RadialBasis, SmoothBasis, UnionBasis, load_predictor
from termwise.basis import LevelMeans, TableEncoder
from termwise.basis.base import Basis
from termwise.basis.inputs import InputStatistics

NAN = np.nan


class Standardised(Basis):
    """Linear functions, the simplest basis that allows missing values."""

    _per_term = ("columns_",)
    allows_missing = True

    def _fit(self, X, y):
        self.columns_ = np.arange(X.shape[1])
        self.statistics_ = InputStatistics.from_samples(X)

    def evaluate(self, X):
        statistics, units = self.statistics_, np.where(self.statistics_.deviations > 0, self.statistics_.deviations, 1)
        return np.nan_to_num((X - statistics.means) / units)[:, self.columns_]

    def _names(self, inputs):
        return [inputs[j] for j in self.columns_]


def test_statistics_are_those_of_the_present_values():
    X = np.array([[1.0, NAN, 5.0, 1.0], [3.0, NAN, NAN, 2.0], [1.0, NAN, 5.0, 1.0], [NAN, NAN, 5.0, 2.0]])
    statistics = Standardised().fit(X).statistics_
    assert statistics.rows.tolist() == [0, 1, 3]  # the third sample repeats the first, missing values included
    np.testing.assert_allclose(statistics.means, [2.0, 0.0, 5.0, 5 / 3])
    np.testing.assert_allclose(statistics.deviations, [1.0, 0.0, 0.0, np.std([1, 2, 2])])
    np.testing.assert_array_equal(statistics.ranges, [[1, 0, 5, 1], [3, 0, 5, 2]])


def test_inputs_may_be_missing_where_they_were_in_the_fit():
    X = np.array([[1.0, 4.0], [NAN, 5.0], [2.0, 6.0]])
    basis = Standardised().fit(X)
    assert basis.missing_.tolist() == [True, False]
    assert basis.transform([[NAN, 5.0]]).tolist() == [[0.0, 0.0]]
    new = r"X must be complete in inputs that had no missing values in fit, got NaN in x1: fill them in, or fit with "
    with pytest.raises(ValueError, match=new):
        basis.transform([[1.0, NAN]])
    with pytest.raises(ValueError, match="infinity"):
        basis.transform([[np.inf, 5.0]])
    assert basis.expect_missing(np.array([False, True])).missing_.all()
    assert basis.transform([[NAN, NAN]]).tolist() == [[0.0, 0.0]]
    with pytest.raises(ValueError, match="contains NaN"):
        RadialBasis().fit(X)


def gaussian(row, center, widths):
    """A Gaussian by its definition: missing inputs are ignored, and it is zero where all are missing."""
    there = ~np.isnan(row)
    return float(there.any()) * np.exp(-np.sum(((row - center) / widths)[there] ** 2))


@pytest.mark.parametrize("relevance", [None, [1.0, 0.5, 0.0], "auto"])
def test_gaussians_ignore_missing_inputs(relevance):
    rng = np.random.default_rng(0)
    X = rng.normal([5.0, 0.0, 1.0], size=(40, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    X[rng.uniform(size=X.shape) < [0.3, 0.2, 0.0]] = NAN
    X[3, :2] = NAN
    basis = SmoothBasis(width=("median", [0.5, 1]), relevance=relevance, centers=9).fit(X, y)
    np.testing.assert_allclose(basis.means_, np.nanmean(X, axis=0))
    np.testing.assert_allclose(basis.deviations_, np.nanstd(X, axis=0))
    assert basis.missing_.tolist() == [True, True, False]
    G, inputs = basis.transform(X), np.flatnonzero(basis.relevance_)
    np.testing.assert_allclose(G[:, 1], np.nan_to_num((X[:, 1] - basis.means_[1]) / basis.deviations_[1]))
    for j in np.flatnonzero(basis.columns_ < 0):
        widths = basis.factors_[j] * basis.distance_ * basis.deviations_[inputs] / basis.relevance_[inputs]
        expected = [gaussian(row[inputs], basis.centers_[j, inputs], widths) for row in X]
        np.testing.assert_allclose(G[:, j], expected, atol=1e-12)
        filled = np.where(np.isnan(X), basis.means_, X)[basis.center_rows_[j]]
        np.testing.assert_array_equal(basis.centers_[j], filled)
    assert not G[3, :2].any()
    few = UnionBasis([basis, SmoothBasis(centers=4)]).fit(X, y).take([0, 4, 20, -2 % 27])
    np.testing.assert_allclose(few.transform(X)[:, :2], G[:, [0, 4]])
    assert few.missing_.tolist() == [True, True, False]
    assert not UnionBasis([basis, RadialBasis()]).allows_missing


def test_missing_values_do_not_matter_where_there_are_none():
    """Functions of samples that are complete are those of a basis without missing values."""
    X = np.random.default_rng(1).normal(size=(30, 2))
    plain, more = SmoothBasis(centers=X[:7]).fit(X), np.vstack([X, [[NAN, 0.1]]])
    basis = SmoothBasis(centers=X[:7], width=plain.distance_).fit(X)
    np.testing.assert_allclose(basis.transform(X), plain.transform(X))
    np.testing.assert_allclose(basis.evaluate(more)[:-1], plain.transform(X), rtol=1e-10)


def test_estimators_take_missing_values():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + 0.01 * rng.normal(size=120)
    X[:20, 1] = NAN
    model = ForwardRegressor(UnionBasis([SmoothBasis(centers=5)])).fit(X, y)
    assert model.score(X, y) > 0.99
    model = BasisRidge(make_pipeline(SmoothBasis(centers=5), StandardScaler())).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("kind", ["array", "pandas", "nullable"])
def test_folds_without_missing_values_accept_them(kind, tmp_path):
    """A single missing value is in one fold: the models of the others have never seen one, or it alone."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=60)
    X[5, 1] = NAN
    table, basis = X, SmoothBasis(centers=4)
    if kind != "array":
        table, basis = pd.DataFrame(X, columns=["a", "b"]), make_pipeline(TableEncoder(), basis)
        table = table.astype("Float64") if kind == "nullable" else table
    model = ForwardRegressor(basis, selection_cv=3).fit(table, y)
    for ends in (model.predict_interval(table), model.predictor_.predict_interval(table)):
        assert np.isfinite(ends).all()
    model.predictor_.save(tmp_path / "model.json")
    loaded = load_predictor(tmp_path / "model.json")
    np.testing.assert_allclose(loaded.predict_interval(table), model.predict_interval(table), rtol=1e-9)


# -- files and exports -------------------------------------------------------------------------------------------------

M = 200
DRAW = np.random.default_rng(11)
TABLE = pd.DataFrame({
    "size": DRAW.normal(size=M),
    "weight": DRAW.normal(size=M),
    "kind": DRAW.choice(["a", "b", "c"], M),
    "rare": DRAW.choice(["u", "v", "w", "x"], M, p=[0.5, 0.47, 0.02, 0.01]),
    "grade": pd.Categorical(DRAW.choice(["low", "mid", "high"], M), ["low", "mid", "high"], ordered=True),
    "city": [f"city {k}" for k in DRAW.integers(25, size=M)],
    "sold": pd.Timestamp("2019-03-01") + pd.to_timedelta(DRAW.integers(1500, size=M), unit="D"),
})  # fmt: skip
TARGET = (
    TABLE["size"]
    + (TABLE["kind"] == "b")
    - (TABLE["rare"] == "x")
    + TABLE["grade"].cat.codes
    + TABLE["city"].str[5:].astype(int) % 4
    + TABLE["sold"].dt.year
    + np.cos(TABLE["weight"])
).to_numpy()
for name, share in {"size": 0.2, "kind": 0.1, "grade": 0.1, "city": 0.1, "sold": 0.1}.items():
    absent = DRAW.uniform(size=M) < share
    TABLE.loc[absent, name] = None
    TARGET = TARGET + 2.0 * absent


@pytest.fixture(scope="module")
def model():
    encoder = TableEncoder(max_levels=20, min_count=10)
    encoder.fit(TABLE)
    basis = LevelMeans(SmoothBasis(width=("median", 2.0), centers=15), encoder.level_columns())
    fitted = BasisRidge(make_pipeline(encoder, basis), alpha=0.1).fit(TABLE, TARGET)
    names = encoder.get_feature_names_out().tolist()
    assert {"missing(size)", "kind=missing", "rare=other", "grade", "city", "year(sold)", "missing(sold)"} < {*names}
    assert fitted.score(TABLE, TARGET) > 0.8
    return fitted


def new_rows():
    """Rows with whatever may be missing or unknown, one by one."""
    row = TABLE.dropna().iloc[:1].astype({"grade": object})
    rows = [row, *(row.assign(**{name: None}) for name in ("size", "kind", "grade", "city", "sold"))]
    rows += [row.assign(**{name: "new"}) for name in ("kind", "rare", "grade", "city")]
    table = pd.concat([one.astype(object) for one in rows], ignore_index=True)
    return table.astype({"size": float, "weight": float, "sold": "datetime64[ns]"})


def test_predictors_read_what_the_estimator_reads(model, tmp_path):
    expected, predictor = model.predict(new_rows()), model.predictor_
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(predictor.predict(TABLE), model.predict(TABLE), rtol=1e-12)
    np.testing.assert_allclose(predictor.predict(new_rows()), expected, rtol=1e-12)
    predictor.save(tmp_path / "model.json")
    loaded = load_predictor(tmp_path / "model.json")
    assert loaded == predictor
    assert predictor.to_dict()["version"] == 4
    np.testing.assert_array_equal(loaded.predict(new_rows()), predictor.predict(new_rows()))
    np.testing.assert_array_equal(loaded.predict(pl.from_pandas(new_rows())), predictor.predict(new_rows()))
    lists = new_rows().astype({"sold": str}).astype(object).replace("NaT", None).to_numpy().tolist()
    np.testing.assert_array_equal(loaded.predict(lists), predictor.predict(new_rows()))
    assert predictor.count_unseen(new_rows()) == {"kind": 1, "rare": 1, "grade": 1, "city": 1}
    assert loaded.count_unseen(TABLE) == {}  # rare categories are known
    with pytest.raises(ValueError, match="weight must be complete, got NaN, null or infinity in 1 row"):
        predictor.predict(new_rows()[:1].assign(weight=NAN))
    with pytest.raises(ValueError, match="size must be complete, got NaN, null or infinity in 1 row"):
        predictor.predict(new_rows()[:1].assign(size=np.inf))
    with pytest.raises(
        ValueError, match="X must be complete in columns that had no missing values in fit, got some in w"
    ):
        model.predict(new_rows()[:1].assign(weight=NAN))
    with pytest.raises(
        ValueError, match="fill must name inputs of numbers or categories, got 'sold', which holds dates"
    ):
        predictor.with_fill({"sold": 0.0})
    filled = predictor.with_fill({"size": 0.5, "kind": "b"})
    np.testing.assert_allclose(filled.predict(new_rows()[1:2]), predictor.predict(new_rows()[1:2].assign(size=0.5)))
    np.testing.assert_allclose(filled.predict(new_rows()[2:3]), predictor.predict(new_rows()[2:3].assign(kind="b")))


def numeric(predictor, table):
    """A table with the parts of dates as numbers, as exports take them."""
    parts = TableEncoder().fit(TABLE[["sold"]]).set_output(transform="pandas").transform(table[["sold"]])
    names = [one.name for one in predictor._program.schema.numeric_dates().inputs]
    assert [name for name in names if "sold" in name] == list(parts.columns[:-1])
    return pd.concat([table, parts], axis=1)[names]


def test_python_takes_missing_values(model, tmp_path):
    model.predictor_.export(tmp_path / "model.py")
    module = runpy.run_path(str(tmp_path / "model.py"))
    rows = numeric(model.predictor_, new_rows()).astype(object).to_dict("records")
    np.testing.assert_allclose([module["predict"](row) for row in rows], model.predict(new_rows()), rtol=1e-12)
    with pytest.raises(ValueError, match="weight must be a finite number"):
        module["predict"](rows[0] | {"weight": None})


@needs_gcc
def test_c_takes_missing_values(model, tmp_path):
    model.predictor_.export(tmp_path / "model.c")
    library = compiled([(tmp_path / "model.c").read_text()], tmp_path, "missing")
    table, inputs = numeric(model.predictor_, new_rows()), model.predictor_._program.schema.numeric_dates().inputs
    for row, expected in zip(table.astype(object).to_numpy(), model.predict(new_rows()), strict=True):
        x = []
        for value, one in zip(row, inputs, strict=True):
            if one.categories is not None and isinstance(value, str):
                value = one.categories.index(value) if value in one.categories else -1
            x.append(NAN if value is None else float(value))
        found = ctypes.c_double()
        assert library.model_predict((ctypes.c_double * len(x))(*x), ctypes.byref(found)) == 0
        np.testing.assert_allclose(found.value, expected, rtol=1e-12)
    x[[one.name for one in inputs].index("weight")] = NAN
    assert library.model_predict((ctypes.c_double * len(x))(*x), ctypes.byref(found)) == 2


def test_onnx_takes_missing_values(model, tmp_path):
    pytest.importorskip("onnx")
    model.predictor_.export(tmp_path / "model.onnx")
    table = numeric(model.predictor_, new_rows())
    words = [one.name for one in model.predictor_.inputs if one.categories is not None]
    table[words] = table[words].fillna("")
    found = run_onnx((tmp_path / "model.onnx").read_bytes(), table, np.float64)["prediction"]
    np.testing.assert_allclose(found, model.predict(new_rows()), rtol=1e-12)
    numbers = BasisRidge(TableEncoder()).fit(
        pd.DataFrame({"k": pd.Categorical(pd.array([1, 2, None] * 5, "Int64"))}), np.arange(15.0)
    )
    with pytest.raises(
        ValueError, match=r"categories of k must be strings in ONNX if they may be missing, got \[1, 2\]"
    ):
        numbers.predictor_.export(tmp_path / "other.onnx")


def test_onnx_cannot_tell_missing_values_from_the_empty_string(tmp_path):
    pytest.importorskip("onnx")
    table = pd.DataFrame({"k": ["", "a", None, "b"] * 10, "u": np.arange(40.0)})
    predictor = BasisRidge(TableEncoder(), alpha=1e-9).fit(table, np.tile([0.0, 1.0, 5.0, 2.0], 10)).predictor_
    message = r"categories of k must not have the empty string in ONNX if they may be missing, got \['', 'a', 'b'\]"
    for refused in (predictor, predictor.with_fill({"k": "a"})):
        with pytest.raises(ValueError, match=message):
            refused.export(tmp_path / "m.onnx")
    filled = predictor.with_fill({"k": ""})
    filled.export(tmp_path / "m.onnx")
    found = run_onnx((tmp_path / "m.onnx").read_bytes(), table.fillna(""), np.float64)["prediction"]
    np.testing.assert_allclose(np.ravel(found), filled.predict(table), atol=1e-9)


def test_clipped_inputs_are_told_beside_missing_ones(model):
    rows = new_rows()[:2].assign(weight=99.0)
    clipped = pd.DataFrame(model.predictor_.clipped(rows), columns=model.predictor_.input_names)
    assert clipped["weight"].all()
    assert not clipped[["size", "kind", "city"]].any(axis=None)
