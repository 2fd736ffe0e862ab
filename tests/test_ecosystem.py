"""Packages around scikit-learn: the examples of docs/ecosystem.md run where these packages are installed."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import pytest
from frozen_models import FRAME, Y_FRAME, case_of

from termwise import ForwardRegressor, OnlineRidge, RadialBasis, TermwiseRegressor

PAGE = (Path(__file__).parents[1] / "docs" / "ecosystem.md").read_text(encoding="utf-8")
REASON = "an optional package: pip install {}"
third_party_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning",
                                                  "ignore::FutureWarning", "ignore::UserWarning")  # fmt: skip


def run_section(title):
    """Run the first block of the page and the blocks of a section; return the names they define."""
    first = re.search(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"```\{code-block\} python\n(.*?)```", section[1], flags=re.DOTALL)
    assert blocks
    names = {}
    for block in [first[1], *blocks]:
        exec(compile(block, f"ecosystem.md, {title}", "exec"), names)
    return names


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_skops(folder):
    pytest.importorskip("skops", reason=REASON.format("skops"))
    names = run_section("Pickles and skops")
    model, restored, X = (names[name] for name in ("model", "restored", "X"))
    np.testing.assert_array_equal(restored.predict(X), model.predict(X))
    assert restored.summary() == model.summary()


SKOPS_MODELS = ["pipeline encoded", "TermwiseRegressor frame", "TermwiseClassifier frame"]


@pytest.mark.parametrize("name", SKOPS_MODELS)
def test_skops_stores_models_of_tables(name):
    sio = pytest.importorskip("skops.io", reason=REASON.format("skops"))
    model = case_of(name).model
    data = sio.dumps(model)
    trusted = sio.get_untrusted_types(data=data)
    assert all(one.startswith("termwise.") for one in trusted)
    restored = sio.loads(data, trusted=trusted)
    np.testing.assert_array_equal(restored.predict(FRAME), model.predict(FRAME))


def test_skops_stores_online_models():
    sio = pytest.importorskip("skops.io", reason=REASON.format("skops"))
    X = FRAME[["speed", "load"]].to_numpy()
    model = OnlineRidge().fit(X, Y_FRAME)
    data = sio.dumps(model)
    restored = sio.loads(data, trusted=[one for one in sio.get_untrusted_types(data=data) if "termwise." in one])
    for one in (model, restored):
        one.remove_samples(X[:5], Y_FRAME[:5])
    np.testing.assert_array_equal(restored.predict(X), model.predict(X))
    np.testing.assert_array_equal(restored.loo_residuals_, model.loo_residuals_)


@pytest.mark.exhaustive
@third_party_warnings
def test_mlflow(folder):
    pytest.importorskip("mlflow", reason=REASON.format("mlflow"))
    names = run_section("MLflow")
    model, restored, X = (names[name] for name in ("model", "restored", "X"))
    np.testing.assert_array_equal(restored.predict(X), model.predict(X))
    generic = pytest.importorskip("mlflow.pyfunc").load_model("model")
    np.testing.assert_array_equal(generic.predict(X), model.predict(X))


@pytest.mark.exhaustive
@third_party_warnings
def test_mlflow_in_the_format_of_skops(folder):
    mlflow = pytest.importorskip("mlflow.sklearn", reason=REASON.format("mlflow"))
    sio = pytest.importorskip("skops.io", reason=REASON.format("skops"))
    model = case_of("pipeline encoded").model
    trusted = sio.get_untrusted_types(data=sio.dumps(model))
    mlflow.save_model(model, "model", serialization_format="skops", skops_trusted_types=trusted)
    np.testing.assert_array_equal(mlflow.load_model("model").predict(FRAME), model.predict(FRAME))


@pytest.mark.exhaustive  # compiles by numba
@third_party_warnings
def test_shap():
    pytest.importorskip("shap", reason=REASON.format("shap"))
    names = run_section("SHAP")
    X = names["X"]
    for model, found in ((names["columns"], names["linear"]), (names["model"], names["sampled"])):
        rows = X[: len(found.values)]
        np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict(rows))
    linear, differences = names["linear"].values, (X[1:5] - X.iloc[0]).to_numpy()
    np.testing.assert_allclose(linear[1:] - linear[0], differences * names["columns"].coef_, atol=1e-8)


@third_party_warnings
def test_optuna():
    optuna = pytest.importorskip("optuna", reason=REASON.format("optuna"))
    optuna.logging.set_verbosity(logging.WARNING)
    study = run_section("Optuna")["study"]
    assert len(study.trials) == 5
    assert study.best_value > 0.3


@third_party_warnings
def test_mapie():
    pytest.importorskip("mapie", reason=REASON.format("mapie"))
    names = run_section("MAPIE")
    ends, y = names["ends"][:, :, 0], names["y"].to_numpy()
    assert 0.85 < np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])) < 0.97
    members, y2 = names["members"][:, :, 0], names["y2"][450:]
    assert 0.8 < np.mean(members[np.arange(len(y2)), y2]) < 0.99


@third_party_warnings
def test_mapie_on_conformalised_quantiles():
    regression = pytest.importorskip("mapie.regression", reason=REASON.format("mapie"))
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 2))
    y = X[:, 0] + (1.5 + X[:, 1]) * rng.normal(size=300)
    models = [ForwardRegressor(loss="quantile", quantile=q).fit(X[:150], y[:150]) for q in (0.05, 0.95, 0.5)]
    intervals = regression.ConformalizedQuantileRegressor(models, confidence_level=0.9, prefit=True)
    _, ends = intervals.conformalize(X[150:225], y[150:225]).predict_interval(X[225:])
    assert np.mean((ends[:, 0, 0] <= y[225:]) & (y[225:] <= ends[:, 1, 0])) > 0.8


@third_party_warnings
def test_skore(capsys):
    skore = pytest.importorskip("skore", reason=REASON.format("skore"))
    names = run_section("skore")
    assert "r2" in str(names["report"].metrics.summarize().frame()).lower()
    X, y = FRAME[["speed", "load", "heat", "noise"]], Y_FRAME
    model = ForwardRegressor(RadialBasis(width=4.0, centers=9))
    single = skore.EstimatorReport(model, X_train=X[:40], y_train=y[:40], X_test=X[40:], y_test=y[40:])
    assert len(single.inspection.permutation_importance(n_repeats=2, seed=0).frame()) > 0
    columns = skore.EstimatorReport(ForwardRegressor(), X_train=X[:40], y_train=y[:40], X_test=X[40:], y_test=y[40:])
    found = columns.inspection.coefficients().frame()
    np.testing.assert_allclose(found["coefficient"].to_numpy()[1:], columns.estimator_.coef_)


@third_party_warnings
def test_skore_with_a_table():
    skore = pytest.importorskip("skore", reason=REASON.format("skore"))
    model = TermwiseRegressor(3, dictionary="additive", target="data")
    report = skore.CrossValidationReport(model, X=FRAME, y=Y_FRAME, splitter=2)
    assert len(report.metrics.summarize().frame()) > 0
