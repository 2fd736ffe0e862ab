"""Awkward tables, targets and weights: a result, or an error that names the column and the remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

import termwise.basis
from termwise import (
    AnovaBasis,
    BasisRidge,
    EvidenceForwardRegressor,
    ForwardClassifier,
    ForwardRegressor,
    LocalRidge,
    OnlineRidge,
    OrthogonalThresholdRegressor,
    PrefilterClassifier,
    RadialBasis,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    forward_path,
    reestimate_alpha,
)
from termwise._numerics import NumericalWarning
from termwise._threads import blas_threads, one_thread
from termwise.basis import Basis
from termwise.cli import app

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))
y = X[:, 0] + 0.3 * rng.normal(size=40)
some = np.where(np.arange(40) == 3, 0.0, 1.0)  # weights
labels = np.where(y > 0, "yes", "no").astype(object)
FRAME = pd.DataFrame(X, columns=list("abc"))
MASKED = np.ma.array(X, mask=np.arange(120).reshape(40, 3) == 7)

REGRESSORS = [
    ForwardRegressor(),
    ForwardRegressor(RadialBasis()),
    BasisRidge(),
    LocalRidge(),
    OrthogonalThresholdRegressor(RadialBasis()),
    EvidenceForwardRegressor(),
    OnlineRidge(),
    TermwiseRegressor(),
]
CLASSIFIERS = [ForwardClassifier(), PrefilterClassifier(), TermwiseClassifier()]
every_regressor = pytest.mark.parametrize("model", REGRESSORS, ids=lambda model: type(model).__name__)
every_classifier = pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
every_estimator = pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS, ids=lambda model: type(model).__name__)
RANGE = r"must have columns of zeros or with a largest magnitude between 1e-62 and 1e\+62, got {} in column {}: change"


def targets(model):
    return labels if model in CLASSIFIERS else y


@every_estimator
@pytest.mark.parametrize(
    ("table", "error", "pattern"),
    [
        ({"a": y}, TypeError, r"X must be an array or a frame, got a dict: make it one with pandas\.DataFrame\."),
        (MASKED, ValueError, r"X must not have masked entries, got 1: drop their rows, or fill in other values with"),
        (FRAME.set_axis(list("aba"), axis=1), ValueError, r"X must have columns of different names, .*, got a more"),
    ],
    ids=["dict", "masked", "repeated names"],
)
def test_tables_that_are_refused(model, table, error, pattern):
    with pytest.raises(error, match=pattern):
        model.fit(table, targets(model))


@pytest.mark.parametrize("model", [*REGRESSORS[:-1], *CLASSIFIERS[:-1]], ids=lambda model: type(model).__name__)
def test_strings_are_reported_with_their_column(model):
    table = FRAME.assign(b=FRAME["b"].astype(object))
    table.loc[3, "b"] = "hello"
    pattern = r"X must hold numbers, got object in column 'b' \(could not convert .*'hello'\): encode it, with TableEnc"
    with pytest.raises(ValueError, match=pattern):
        model.fit(table, targets(model))


def test_strings_of_digits_are_numbers():
    assert np.array_equal(BasisRidge().fit(FRAME.astype(str), y).coef_, BasisRidge().fit(FRAME, y).coef_)


@every_regressor
def test_masked_targets_and_weights(model):
    hidden = np.arange(40) == 5
    with pytest.raises(ValueError, match=r"y must not have masked entries, got 1: drop their rows"):
        model.fit(X, np.ma.array(y, mask=hidden))
    with pytest.raises(ValueError, match=r"sample_weight must not have masked entries, got 1"):
        model.fit(X, y, sample_weight=np.ma.array(some, mask=hidden))


def test_masked_arrays_without_masked_entries():
    model = BasisRidge().fit(np.ma.array(X), np.ma.array(y), sample_weight=np.ma.array(some))
    assert np.array_equal(model.coef_, BasisRidge().fit(X, y, sample_weight=some).coef_)
    with pytest.raises(ValueError, match="X must not have masked entries"):
        model.predict(MASKED)
    with pytest.raises(ValueError, match="G must not have masked entries"):
        forward_path(MASKED, y)
    with pytest.raises(ValueError, match="y must not have masked entries"):
        OnlineRidge().fit(X, y).partial_fit(X, np.ma.array(y, mask=y > 0))
    with pytest.raises(TypeError, match="y must be an array or a frame, got a dict"):
        BasisRidge().fit(X, {"y": y})


@every_classifier
@pytest.mark.parametrize(
    ("wrong", "types"),
    [
        (np.where(np.arange(40) % 2, labels, None), "NoneType, str"),
        (np.where(np.arange(40) % 2, labels, 1), "int, str"),
        ([*labels[:-1], 1], "int, str"),
        (pd.Series([*labels[:-1], pd.NA], dtype="string"), "NAType, str"),
    ],
    ids=["None", "mixed", "mixed list", "NA"],
)
def test_labels_of_several_types(model, wrong, types):
    pattern = rf"y must hold labels that are all strings or all numbers, got {types} as .*"
    with pytest.raises(ValueError, match=pattern + "objects: drop samples without a label, and convert"):
        model.fit(X, wrong)
    with pytest.raises(ValueError, match="y must not have masked entries"):
        model.fit(X, np.ma.array(y > 0, mask=y > 1))


@pytest.mark.parametrize("layout", ["coo", "bsr", "dia", "lil", "dok"])
def test_sparse_layouts_with_weights_of_zero(layout):
    S = sp.csr_array(X).asformat(layout)
    for model in (ForwardRegressor(MaxAbsScaler()), BasisRidge(MaxAbsScaler()), ForwardRegressor()):
        expected = model.fit(sp.csr_array(X), y, sample_weight=some).predict(sp.csr_array(X))
        assert np.array_equal(model.fit(S, y, sample_weight=some).predict(S), expected)


def test_arrow_tables():
    table = pyarrow.Table.from_pandas(FRAME)
    for model in (ForwardRegressor(RadialBasis()), OrthogonalThresholdRegressor(RadialBasis()), BasisRidge()):
        expected = model.fit(FRAME, y, sample_weight=some).predict(FRAME)
        assert np.array_equal(model.fit(table, y, sample_weight=some).predict(table), expected)


@every_estimator
@pytest.mark.parametrize("factor", [1e160, 1e-160])
def test_extreme_columns(model, factor):
    with pytest.raises(ValueError, match="X " + RANGE.format(r".*e[+-]160", "'b'")):
        model.fit(FRAME * [1, factor, 1], targets(model))


@every_regressor
@pytest.mark.parametrize("factor", [1e80, 1e155, 1e-300])
def test_extreme_targets(model, factor):
    with pytest.raises(ValueError, match="y " + RANGE.format(".*", "0")):
        model.fit(X, factor * y)


@every_estimator
def test_extreme_weights(model):
    with pytest.raises(ValueError, match=r"sample_weight must be at most 1e\+15, got 1e\+161: scale the weights so th"):
        model.fit(X, targets(model), sample_weight=1e161 * some)


def test_extremes_of_float32():
    single = X.astype(np.float32)
    with pytest.raises(
        ValueError, match=r"y must have .* between 1e-30 and 1e\+30, got .* in column 0: change its unit"
    ):
        ForwardRegressor().fit(single, 1e45 * y)
    with pytest.raises(
        ValueError, match=r"X must have .* between 1e-30 and 1e\+30, got .* in column 2: change its unit"
    ):
        BasisRidge().fit(single * np.float32([1, 1, 1e35]), y)


def test_extremes_of_other_containers():
    with pytest.raises(ValueError, match="X " + RANGE.format(r".*e\+160", "2")):
        BasisRidge().fit(sp.csr_array(X * [1, 1, 1e160]), y)
    with pytest.raises(ValueError, match="X " + RANGE.format(r".*e-160", "1")):
        ForwardRegressor().fit(sp.csc_array(X * [1, 1e-160, 1]), y)
    with pytest.raises(ValueError, match="G " + RANGE.format(r".*e\+160", "0")):
        forward_path(np.asfortranarray(X * [1e160, 1, 1])[::2], y[::2])
    with pytest.raises(ValueError, match="The design matrix of FunctionTransformer " + RANGE.format(r".*e\+160", "0")):
        BasisRidge(FunctionTransformer(lambda Z: 1e160 * Z)).fit(X, y)


@pytest.mark.parametrize("scale", [1e-61, 1e61])
@pytest.mark.parametrize("model", [*REGRESSORS[:-1]], ids=lambda model: type(model).__name__)
def test_magnitudes_at_the_ends_of_the_range(model, scale):
    model = model.set_params(alpha=0.0) if isinstance(model, ForwardRegressor) else model
    found = model.fit(X, scale * y).predict(X)
    assert np.allclose(found / scale, model.fit(X, y).predict(X), rtol=1e-6, atol=1e-6)


def test_extreme_targets_of_the_command_line(tmp_path):
    FRAME.assign(target=1e80 * y).to_csv(tmp_path / "table.csv", index=False)
    result = CliRunner().invoke(
        app, ["fit", str(tmp_path / "table.csv"), "-t", "target", "-o", str(tmp_path / "m.json")]
    )
    assert result.exit_code != 0
    assert "y must have columns of zeros or with a largest magnitude" in " ".join(result.stderr.split())


def test_overlapping_limits_of_threads_are_restored():
    with threadpool_limits(2, user_api="blas"):
        first, second = one_thread(), one_thread()
        for step in (first.__enter__, second.__enter__, lambda: first.__exit__(None, None, None)):
            step()
            assert blas_threads() == 1
        second.__exit__(None, None, None)
        assert blas_threads() == 2


@pytest.mark.parametrize("alpha", [0.0, 1e-12])
@pytest.mark.parametrize("model", [OnlineRidge(), ForwardRegressor(criterion=None, rule="sse")], ids=lambda m: str(m))
def test_leave_one_out_of_a_sample_with_leverage_one(model, alpha):
    table, others = np.column_stack([X, np.arange(40) == 4]), np.arange(40) != 4
    model = model.set_params(alpha=alpha)
    expected = y[4] - model.fit(table[others], y[others]).predict(table[4:5])[0]
    assert model.fit(table, y).loo_residuals_[4] == pytest.approx(expected, rel=1e-9)


def test_leave_one_out_of_an_exact_fit():
    table, few = rng.normal(size=(6, 9)), y[:6]
    model = OnlineRidge(alpha=0.0).fit(table, few)
    for i in range(6):
        others = np.arange(6) != i
        expected = few[i] - OnlineRidge(alpha=0.0).fit(table[others], few[others]).predict(table[i : i + 1])[0]
        assert model.loo_residuals_[i] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("model", [OnlineRidge(alpha=0.0), ForwardRegressor(alpha=0.0, criterion=None)], ids=str)
def test_columns_of_very_different_scales(model):
    scales = np.array([1e-8, 1.0, 1e8])
    expected = model.fit(X, y).loo_residuals_, model.predict(X, return_std=True)[1]
    found = model.fit(X * scales, y).loo_residuals_, model.predict(X * scales, return_std=True)[1]
    assert np.allclose(found[0], expected[0], rtol=1e-9)
    assert np.allclose(found[1], expected[1], rtol=1e-9)


def test_huber_loss_of_tiny_targets():
    tiny = 1e-8 * rng.normal(size=(4, 6))
    model = ForwardRegressor(loss="huber").fit(tiny, tiny[:, 0] + 1e-9 * rng.normal(size=4))
    assert np.isfinite(model.predict(tiny)).all()
    assert np.isfinite(model.path_.to_frame()["loo"]).all()


def test_local_ridge_stops_in_time():
    wide = rng.normal(size=(5, 400))
    model = LocalRidge(max_seconds=1e-4)
    with pytest.warns(ConvergenceWarning, match=r"LocalRidge stopped after max_seconds=0\.0001 with GCV still falling"):
        model.fit(wide, y[:5])
    assert np.isfinite(model.predict(wide)).all()
    with pytest.raises(ValueError, match="max_seconds must be a finite number > 0, got 0: None sets no limit"):
        model.set_params(max_seconds=0).fit(wide, y[:5])


def test_relative_weights_for_a_given_penalty():
    weights = rng.uniform(size=40) / 40
    model = BasisRidge(alpha=0.01).fit(X, y, sample_weight=weights)
    assert np.allclose(model.coef_, BasisRidge(alpha=1.0).fit(X, y, sample_weight=100 * weights).coef_)
    assert np.isfinite(model.predict(X, return_std=True)).all()
    with pytest.raises(ValueError, match="sample_weight must add up to at least 2 samples"):
        BasisRidge().fit(X, y, sample_weight=weights)


def test_a_single_sample_of_relative_weight():
    with pytest.raises(ValueError, match=r"sample_weight must be positive, and not negligible, for at least two samp"):
        BasisRidge(alpha=0.1).fit(X, y, sample_weight=0.5 * (np.arange(40) == 7))


def test_prefilter_of_many_classes_stores_common_directions(monkeypatch):
    classes = np.arange(40) % 4
    expected = PrefilterClassifier().fit(X, classes)
    monkeypatch.setattr("termwise.estimators.prefilter.MAX_STORED", 0)
    found = PrefilterClassifier().fit(X, classes)
    assert np.allclose(found.decision_function(X), expected.decision_function(X))
    assert found.sign_violations_ == expected.sign_violations_
    assert np.allclose(found.loo_residuals_, expected.loo_residuals_)
    assert all(one.U is found.first_stage_.filters[0].U for one in found.first_stage_.filters)
    assert np.allclose(found.at(2).decision_function(X), expected.at(2).decision_function(X))


def test_negligible_weights_are_zero():
    weights = np.where(np.arange(40) < 5, 1e-300, 1.0)
    for model in (ForwardRegressor(), BasisRidge(alpha=1.0), LocalRidge(), OnlineRidge()):
        found = model.fit(X, y, sample_weight=weights).loo_residuals_
        assert np.allclose(found, model.fit(X, y, sample_weight=weights > 0.5).loo_residuals_)
    with pytest.raises(ValueError, match="sample_weight must add up to at least 1e-06 samples, got"):
        BasisRidge(alpha=1.0).fit(X, y, sample_weight=1e-200 * some)


@every_estimator
def test_coefficients_have_the_precision_of_the_data(model):
    if isinstance(model, TermwiseRegressor | TermwiseClassifier):
        model = type(model)(dictionary="linear")
    model.fit(X.astype(np.float32), labels if is_classifier(model) else y)
    assert model.coef_.dtype == np.float32


# -- where warnings point ----------------------------------------------------------------------------------------------

ROUNDED = np.column_stack([X, X[:, 0] + 3e6]).astype(np.float32)  # its last column has lost most digits
WARNINGS = {
    "criterion": lambda: ForwardRegressor(criterion="tcr_effective").fit(X, y),
    "criterion of a path": lambda: forward_path(X, y, criterion="tcr_effective"),
    "choice of a path": lambda: forward_path(X, y).choose("tcr_effective"),
    "max_updates": lambda: EvidenceForwardRegressor(max_updates=3).fit(X, y),
    "digits of a path": lambda: forward_path(ROUNDED, y),
    **{
        f"digits, {type(model).__name__}": lambda model=model: clone(model).fit(ROUNDED, y)
        for model in [ForwardRegressor(), BasisRidge(), LocalRidge(), OnlineRidge(), EvidenceForwardRegressor()]
    },
    "width": lambda: AnovaBasis(width=2.0).fit(X),
    "width, functions": lambda: AnovaBasis(width=2.0).fit_transform(X),
    "width in a model": lambda: ForwardRegressor(AnovaBasis(width=2.0)).fit(X, y),
    "width in a pipeline": lambda: make_pipeline(MaxAbsScaler(), AnovaBasis(width=2.0), BasisRidge()).fit(X, y),
    "width in a search": lambda: GridSearchCV(BasisRidge(AnovaBasis(width=2.0)), {"alpha": [1]}, cv=2).fit(X, y),
    "widths": lambda: SmoothBasis(widths=1.0).fit(X),
    "sweeps": lambda: LocalRidge(RadialBasis(width=0.05), max_iter=1, tol=0).fit(X, y),
    "iterations": lambda: reestimate_alpha(X, y, 1e-3, max_iter=2, tol=0),
    "a former method": lambda: type("Powers", (Basis,), {"_learn": None}),
    "a former function": lambda: termwise.basis.can_stream,
    "a former import": lambda: exec("from termwise.selection import forward_path"),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings_point_to_the_line_of_the_caller(name):
    with pytest.warns((FutureWarning, DeprecationWarning, NumericalWarning, ConvergenceWarning)) as caught:
        WARNINGS[name]()
    code = WARNINGS[name].__code__
    place = ("<string>", 1) if name == "a former import" else (code.co_filename, code.co_firstlineno)
    assert {(one.filename, one.lineno) for one in caught} == {place}
