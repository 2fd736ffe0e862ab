"""Frozen models: they predict what the estimator predicts, survive their file to the bit, and distrust every file."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from frozen_models import FRAME, MISSING, NAMES, TWO, X, Y, all_cases, case_of, schema_of, y
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, PowerTransformer, StandardScaler

import termwise
from termwise import (
    AnovaBasis,
    BasisRidge,
    CriterionSearch,
    ForwardRegressor,
    FourierBasis,
    LagBasis,
    NarxRegressor,
    Predictor,
    RadialBasis,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    load_predictor,
    report,
)
from termwise.basis import KERNELS, TableEncoder, r2
from termwise.deploy import document
from termwise.deploy.document import to_json
from termwise.deploy.program import ClassLabels, Linear, Program
from termwise.deploy.steps import STEPS, Branch, Concatenate
from termwise.deploy.transformers import Radial, Standardise

pytestmark = pytest.mark.xdist_group("frozen")
CLASSES = [c for c in vars(termwise._public).values() if isinstance(c, type) and issubclass(c, BaseEstimator)]


@pytest.fixture(params=NAMES, scope="module")
def case(request):
    return case_of(request.param)


# -- the same predictions ----------------------------------------------------------------------------------------------


def test_predictions_are_those_of_the_estimator(case):
    predictor, expected = case.predictor, case.outputs()
    found = case.outputs(predictor)
    assert found.shape == expected.shape
    assert found.dtype == np.float64
    assert np.all(np.abs(found - expected) <= 1e-12 * case.scale())
    if hasattr(case.model, "classes_"):
        assert predictor.predict(case.X).tolist() == case.model.predict(case.X).tolist()
        assert predictor.classes == case.model.classes_.tolist()
    assert hasattr(predictor, "predict_proba") == hasattr(case.model, "predict_proba")
    if hasattr(case.model, "predict_proba"):
        np.testing.assert_allclose(predictor.predict_proba(case.X), case.model.predict_proba(case.X), atol=1e-12)


def test_files_are_exact_to_the_bit(case, tmp_path):
    predictor = case.predictor
    predictor.save(tmp_path / "model.json")
    loaded = load_predictor(tmp_path / "model.json")
    assert to_json(loaded.to_dict()) == to_json(predictor.to_dict())
    assert loaded == predictor
    np.testing.assert_array_equal(case.outputs(loaded), case.outputs(predictor))
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]


def test_every_estimator_has_a_predictor():
    estimators = [c for c in CLASSES if hasattr(c, "predict") and c is not NarxRegressor]  # see test_narx
    frozen = {type(case.model) for case in all_cases()}
    assert set(estimators) <= frozen
    for case in all_cases():
        if type(case.model) in estimators:
            assert case.model.predictor_ == case.predictor
    for cls in estimators:
        model = cls(BasisRidge(), {"alpha": [1.0]}) if cls is CriterionSearch else cls()
        assert not hasattr(model, "predictor_")
        with pytest.raises(NotFittedError):
            model.predictor_  # noqa: B018


def test_every_step_is_used_by_some_model():
    used = {type(step) for case in all_cases() for step in case.predictor._program.steps}
    inner = {type(s) for c in all_cases() for b in c.predictor._program.steps for s in steps_inside(b)}
    assert used | inner == set(STEPS.values())


def steps_inside(step):
    return [inner for part in step.parts for inner in part.steps] if isinstance(step, Concatenate) else []


# -- what it says of itself --------------------------------------------------------------------------------------------


def test_attributes():
    model = ForwardRegressor(AnovaBasis(), max_terms=3, criterion=None).fit(FRAME[["speed", "load", "noise"]], Y)
    predictor = model.predictor_
    assert predictor.task == "regression"
    assert predictor.input_names == ["speed", "load", "noise"]
    assert predictor.term_names == model.get_feature_names_out().tolist()
    assert predictor.n_terms == 3
    np.testing.assert_array_equal(predictor.weights, model.weights_)
    np.testing.assert_array_equal(predictor.intercept, model.intercept_)
    assert predictor.classes is None
    assert predictor.facts is None
    assert (predictor.one_output, predictor.series, predictor.n_past) == (False, None, None)
    assert predictor.predict_folds(FRAME).shape == (0, len(FRAME), 2)
    assert [(i.kind, i.categories, i.fill) for i in predictor.inputs] == [("number", None, None)] * 3
    assert repr(predictor).startswith("<Predictor: regression by 3 terms of ")
    assert not hasattr(predictor, "decision_function")
    assert predictor != "something else"
    with pytest.raises(TypeError):
        hash(predictor)


def test_attributes_of_models_of_several_outputs_and_of_past_values():
    X, Y_two = np.arange(12.0).reshape(6, 2) ** 2, np.arange(12.0).reshape(6, 2)
    assert BasisRidge(alpha=0.1).fit(X, Y_two[:, 0]).predictor_.one_output
    assert not BasisRidge(alpha=0.1).fit(X, Y_two[:, :1]).predictor_.one_output
    series = np.sin(np.arange(30.0))
    model = make_pipeline(LagBasis([1, 4]), BasisRidge(alpha=0.1)).fit(series[:, None], series)
    predictor = Predictor.from_estimator(model)
    assert (predictor.series, predictor.n_past) == ("x0", 4)


def test_predictions_of_the_fold_models():
    X = np.random.default_rng(3).normal(size=(40, 3))
    model = ForwardRegressor(selection_cv=4).fit(X, X[:, :2])
    found, folds = model.predictor_.predict_folds(X), model.fitted_terms_.fold_models
    np.testing.assert_allclose(found, folds.outputs(X))
    assert found.shape == (4, 40, 2)


def test_only_what_is_needed_is_kept():
    wide = np.random.default_rng(0).normal(size=(80, 50))
    target = wide[:, 7] * wide[:, 20]
    columns = ForwardRegressor(max_terms=2, criterion=None).fit(wide, wide[:, 7] + wide[:, 3]).predictor_
    assert columns.used_inputs == ["x3", "x7"]
    anova = make_pipeline(StandardScaler(), AnovaBasis(n_centers=2))
    predictor = ForwardRegressor(anova, max_terms=1, criterion=None).fit(wide, target).predictor_
    assert predictor.used_inputs == ["x7", "x20"]
    scaler, ends, terms = predictor._program.steps
    assert len(scaler.center) == len(ends.low) == 2
    assert len(terms.columns) == 2
    radial = ForwardRegressor(RadialBasis(width=20.0), max_terms=4, criterion=None).fit(wide, target).predictor_
    assert radial._program.steps[0].centers.shape == (4, 50)
    smooth = ForwardRegressor(SmoothBasis(), max_terms=1, criterion=None).fit(wide, wide[:, 9]).predictor_
    assert smooth.used_inputs == ["x9"]


def test_frozen_means_frozen():
    model = BasisRidge(RadialBasis(width=3.0, centers=10)).fit(X, y)
    predictor = model.predictor_
    before = predictor.predict(X)
    model.fitted_terms_.weights[:] *= 2
    model.basis_.centers_ += 1
    predictor.weights[:] = 0
    np.testing.assert_array_equal(predictor.predict(X), before)
    with pytest.raises(ValueError, match="read-only"):
        predictor._program.linear.weights[:] = 0
    with pytest.raises(AttributeError):
        predictor.facts = {}
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(predictor)).predict(X), before)


def test_names_of_terms_go_through_pipelines():
    numbers = FRAME[["speed", "load"]]
    model = make_pipeline(StandardScaler(), ForwardRegressor(max_terms=1, criterion=None)).fit(numbers, numbers["load"])
    assert Predictor.from_estimator(model).term_names == ["load"]
    model = make_pipeline(StandardScaler(), BasisRidge(FourierBasis(1))).fit(numbers, y)
    assert Predictor.from_estimator(model).term_names[:2] == ["sin1(speed)", "cos1(speed)"]
    model = make_pipeline(FunctionTransformer(), BasisRidge()).fit(X, y)
    assert Predictor.from_estimator(model).term_names == ["x0", "x1", "x2", "x3"]


# -- tables ------------------------------------------------------------------------------------------------------------


def table_model():
    return case_of("TermwiseRegressor frame")


def test_frames_are_read_by_name():
    case = table_model()
    predictor, expected = case.predictor, case.predictor.predict(FRAME)
    assert set(predictor.used_inputs) > {"kind"}
    shuffled = FRAME[FRAME.columns[::-1]].assign(another="words")
    np.testing.assert_array_equal(predictor.predict(shuffled), expected)
    np.testing.assert_array_equal(predictor.predict(shuffled[predictor.used_inputs]), expected)
    texts = FRAME.assign(kind=FRAME["kind"].astype(str), level=FRAME["level"].astype(int))
    np.testing.assert_array_equal(predictor.predict(texts), expected)
    polar = pl.DataFrame({name: texts[name].tolist() for name in texts})
    np.testing.assert_array_equal(predictor.predict(polar), expected)
    np.testing.assert_array_equal(predictor.predict(case.rows), expected)
    np.testing.assert_array_equal(predictor.predict(FRAME.to_numpy(dtype=object)), expected)


def test_lists_may_hold_categories_that_no_term_uses():
    table = FRAME[["speed", "kind"]]
    predictor = TermwiseRegressor(dictionary="linear").fit(table, 2 * FRAME["speed"]).predictor_
    assert predictor.used_inputs == ["speed"]
    rows = table.astype(object).to_numpy().tolist()
    np.testing.assert_array_equal(predictor.predict(rows), predictor.predict(table))


def test_arrays_of_all_kinds():
    predictor = BasisRidge(AnovaBasis(order=1)).fit(X, y).predictor_
    expected = predictor.predict(X)
    np.testing.assert_array_equal(predictor.predict(X.tolist()), expected)
    np.testing.assert_array_equal(predictor.predict(sp.csr_array(X)), expected)
    np.testing.assert_array_equal(predictor.predict(pd.DataFrame(X)), expected)
    np.testing.assert_array_equal(predictor.predict(pd.DataFrame(X, columns=list("abcd"))), expected)
    np.testing.assert_array_equal(predictor.predict(np.round(X).astype(int)), predictor.predict(np.round(X)))
    short = predictor.predict(X.astype(np.float32))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, expected, rtol=1e-4, atol=1e-5)
    frame = pd.DataFrame(X.astype(np.float32), columns=["x0", "x1", "x2", "x3"])
    np.testing.assert_array_equal(predictor.predict(frame), short)
    strict = pytest.importorskip("array_api_strict")
    np.testing.assert_array_equal(predictor.predict(strict.asarray(X)), expected)


def test_narrow_takes_only_the_inputs_in_use():
    predictor = ForwardRegressor(max_terms=2, criterion=None).fit(X, X[:, 1] - X[:, 3]).predictor_
    narrow = predictor.narrow()
    assert narrow.input_names == ["x1", "x3"]
    np.testing.assert_array_equal(narrow.predict(X[:, [1, 3]]), predictor.predict(X))
    case = table_model()
    np.testing.assert_array_equal(case.predictor.narrow().predict(FRAME), case.predictor.predict(FRAME))


MODEL_FILES = Path(__file__).parent / "data" / "models_v1"  # written by termwise 0.1
HEAD = ('  "termwise":', '  "version":', '  "checksum":')
EXPECTED = json.loads((MODEL_FILES / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", EXPECTED)
def test_files_of_the_first_version_predict_the_same(name, tmp_path):
    predictor, expected = load_predictor(MODEL_FILES / f"{name}.json"), EXPECTED[name]
    table = pd.DataFrame(expected["X"]) if isinstance(expected["X"][0], dict) else np.array(expected["X"])
    for method in [key for key in expected if key != "X"]:
        found = getattr(predictor, method)(table)
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, expected[method], rtol=1e-12, atol=1e-12)
        else:
            assert found.tolist() == expected[method]
    predictor.save(tmp_path / "m.json")
    old, new = ((folder / file).read_text(encoding="utf-8").splitlines()
                for folder, file in ((MODEL_FILES, f"{name}.json"), (tmp_path, "m.json")))  # fmt: skip
    new, old = ([line for line in lines if not line.startswith(HEAD)] for lines in (new, old))
    assert new == old


ALL_FILES = [file for file in sorted(MODEL_FILES.parent.glob("models_v*/*.json")) if file.stem != "expected"]
LATER_FILES = [file for file in ALL_FILES if file.parent != MODEL_FILES]  # with fold models and facts


def test_every_version_of_the_format_has_files(tmp_path):
    case_of("empty").predictor.save(tmp_path / "m.json")
    files = [tmp_path / "m.json", *ALL_FILES]
    current, *kept = (json.loads(file.read_text(encoding="utf-8"))["version"] for file in files)
    assert set(kept) == set(range(1, current + 1))


@pytest.mark.parametrize("file", LATER_FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_files_of_later_versions_predict_the_same(file):
    predictor = load_predictor(file)
    expected = json.loads((file.parent / "expected.json").read_text(encoding="utf-8"))[file.stem]
    table = pd.DataFrame(expected["X"])
    for method in {"predict", "linear_predictor", "predict_proba", "decision_function"} & set(expected):
        found = getattr(predictor, method)(table)
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, expected[method], rtol=1e-12, atol=1e-12)
        else:
            assert found.tolist() == expected[method]
    if "interval" in expected:
        np.testing.assert_allclose(predictor.predict_interval(table), expected["interval"], rtol=1e-9)
    assert "Terms and weights" in report.render(predictor)


def test_a_kernel_of_ones_own_cannot_be_kept(monkeypatch):
    monkeypatch.setitem(KERNELS, "exponential", np.exp(-np.sqrt(r2)))
    model = BasisRidge(RadialBasis("exponential", centers=5)).fit(X, y)
    with pytest.raises(ValueError, match=r"kernel must be one of '.*', got 'exponential': a kernel of one's own"):
        _ = model.predictor_


def test_a_narrow_model_without_terms_can_be_kept(tmp_path):
    narrow = case_of("empty").predictor.narrow()
    narrow.save(tmp_path / "m.json")
    assert load_predictor(tmp_path / "m.json") == narrow
    np.testing.assert_allclose(narrow.predict(X[:3, :1]), y.mean())


def test_fill_stands_in_for_missing_values(tmp_path):
    predictor = table_model().predictor
    mean = float(FRAME["speed"].mean())
    filled = predictor.with_fill({"speed": mean, "kind": "w", "noise": np.float32(0.5)})
    assert [i.fill for i in filled.inputs if i.name in ("speed", "kind", "noise")] == [mean, 0.5, "w"]
    holes = FRAME.copy()
    holes.loc[3, "speed"] = np.nan
    holes.loc[4, "kind"] = None
    expected = FRAME.copy()
    expected.loc[3, "speed"] = mean
    expected.loc[4, "kind"] = "w"
    np.testing.assert_array_equal(filled.predict(holes), predictor.predict(expected))
    np.testing.assert_array_equal(filled.predict(FRAME), predictor.predict(FRAME))
    filled.save(tmp_path / "m.json")
    np.testing.assert_array_equal(load_predictor(tmp_path / "m.json").predict(holes), predictor.predict(expected))
    assert filled.with_fill({"speed": None}).inputs[0].fill is None
    polar = pl.DataFrame({name: [None if v is None or v != v else v for v in holes[name]] for name in holes})
    np.testing.assert_array_equal(filled.predict(polar), predictor.predict(expected))


def test_an_imputer_in_front_becomes_the_fill():
    case = case_of("pipeline imputed")
    holes = case.X.copy()
    holes.iloc[2, 1] = np.nan
    np.testing.assert_allclose(case.predictor.predict(holes), case.model.predict(holes), rtol=1e-12, atol=1e-12)
    empty = X.copy()
    empty[:, 1] = np.nan
    with pytest.warns(UserWarning, match="Skipping features"):
        model = make_pipeline(SimpleImputer(), BasisRidge()).fit(empty, y)
    with pytest.warns(UserWarning, match="Skipping features"):
        expected = model.predict(empty)
    np.testing.assert_allclose(Predictor.from_estimator(model).predict(empty), expected, rtol=1e-12, atol=1e-12)


def test_other_transformers_in_front():
    selected = make_pipeline(SelectKBest(f_regression, k=2), FunctionTransformer(), BasisRidge(AnovaBasis())).fit(X, y)
    predictor = Predictor.from_estimator(selected)
    assert len(predictor.used_inputs) == 2
    np.testing.assert_allclose(predictor.predict(X), selected.predict(X), rtol=1e-12, atol=1e-12)
    scaler = MaxAbsScaler().fit(X / 2)
    if hasattr(scaler, "clip"):
        scaler.set_params(clip=True)
    clipped = make_pipeline(scaler, BasisRidge()).fit(X / 2, y)
    np.testing.assert_allclose(Predictor.from_estimator(clipped).predict(X), clipped.predict(X), rtol=1e-12, atol=1e-12)
    plain = make_pipeline(StandardScaler(with_mean=False, with_std=False), BasisRidge()).fit(X, y)
    np.testing.assert_allclose(Predictor.from_estimator(plain).predict(X), plain.predict(X), rtol=1e-12, atol=1e-12)
    grid = GridSearchCV(BasisRidge(), {"alpha": [0.1, 1.0]}, cv=2).fit(X, y)
    np.testing.assert_array_equal(Predictor.from_estimator(grid).predict(X), grid.best_estimator_.predictor_.predict(X))
    encoded = make_pipeline(StandardScaler(), TableEncoder(), BasisRidge()).fit(X, y)  # arrays: nothing to encode
    np.testing.assert_allclose(Predictor.from_estimator(encoded).predict(X), encoded.predict(X), rtol=1e-12, atol=1e-12)


# -- series ------------------------------------------------------------------------------------------------------------


def series():
    rng = np.random.default_rng(1)
    u = rng.normal(size=80)
    out = np.zeros(80)
    for t in range(2, 80):
        out[t] = 0.6 * out[t - 1] - 0.2 * out[t - 2] + 0.5 * u[t - 1] + 0.01 * rng.normal()
    return pd.DataFrame({"drive": u, "height": out, "comment": 0.0})


@pytest.mark.parametrize("head", [(), (StandardScaler(),)], ids=["plain", "scaled"])
def test_lags_predict_one_step_and_run_freely(head, tmp_path):
    table = series()
    basis = LagBasis(2, output="height" if not head else 1)
    model = BasisRidge(basis if not head else make_pipeline(*head, basis), alpha=1e-6).fit(table, table["height"])
    predictor = model.predictor_
    predictor.save(tmp_path / "m.json")
    predictor = load_predictor(tmp_path / "m.json")
    np.testing.assert_allclose(predictor.predict(table), model.predict(table), rtol=1e-11, atol=1e-13)
    unknown = table.astype(float).copy()
    unknown.loc[70:, "height"] = np.nan
    last = predictor.predict(unknown.iloc[:71])[-1]  # the value to be predicted need not be there
    np.testing.assert_allclose(last, model.predict(table)[70], rtol=1e-11)
    lags = model.basis_ if not head else model.basis_[-1]
    if not head:
        expected = lags.free_run(model, table, start=40)
        np.testing.assert_allclose(predictor.free_run(table, start=40), expected, rtol=1e-11, atol=1e-13)
    forecast = predictor.free_run(unknown, start=70)
    np.testing.assert_array_equal(forecast[:70], table["height"][:70])
    np.testing.assert_array_equal(predictor.free_run(unknown[["height", "drive", "comment"]], start=70), forecast)
    np.testing.assert_array_equal(predictor.free_run(unknown.to_numpy(), start=70), forecast)
    assert len(predictor.free_run(table)) == 80
    with pytest.raises(ValueError, match=r"X must hold the past values used by predictions, got NaN or infinity 1 ro"):
        predictor.predict(unknown)
    with pytest.raises(
        ValueError, match=r"start must be a whole number >= 1 and < 81, got 0: simulation begins inside"
    ):
        predictor.free_run(table, start=0)


# -- facts -------------------------------------------------------------------------------------------------------------


def test_facts_travel_untouched(tmp_path):
    facts = {"a": [1, 2.5, None, True, "ö"], "b": {"c": []}, "d": {}}
    predictor = BasisRidge().fit(X, y).predictor_.with_facts(facts)
    predictor.save(tmp_path / "m.json")
    assert load_predictor(tmp_path / "m.json").facts == facts
    facts["a"].append(3)
    assert predictor.facts["a"][-1] == "ö"
    assert predictor.with_facts(None).facts is None


# -- files -------------------------------------------------------------------------------------------------------------


def test_the_file_is_readable_plain_json(tmp_path):
    path = tmp_path / "model.json"
    case = table_model()
    case.predictor.save(path)
    text = path.read_text(encoding="utf-8")
    data = json.loads(text)
    assert list(data) == ["format", "version", "termwise", "checksum", "predictor", "facts"]
    assert (data["format"], data["version"], data["termwise"]) == ("termwise-model", 4, termwise.__version__)
    assert '"categories": ["u", "v", "w"]' in text
    assert not any("[" in line and "]" not in line and any(c.isdigit() for c in line) for line in text.splitlines())


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    predictor = BasisRidge().fit(X, y).predictor_
    predictor.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(document.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        predictor.with_facts({"more": 1}).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]
    with pytest.raises(FileNotFoundError):
        predictor.save(tmp_path / "no" / "where.json")


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json"):
        load_predictor(tmp_path / "nowhere.json")


@pytest.mark.slow
def test_loading_needs_no_fit_and_runs_no_code(tmp_path):
    path = tmp_path / "model.json"
    BasisRidge(RadialBasis(centers=5)).fit(X, y).predictor_.save(path)
    code = (
        "import sys; from termwise.deploy.predictor import load_predictor\n"
        f"load_predictor({str(path)!r})\n"
        "events = set()\n"
        "sys.addaudithook(lambda event, arguments: events.add(event))\n"
        f"load_predictor({str(path)!r}); print(*sorted(events), 'termwise.selection' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["open", "False"]


finite = st.floats(allow_nan=False, allow_infinity=False)
sizes = st.integers(0, 4)


@st.composite
def programs(draw):
    d, k, q = draw(st.integers(1, 4)), draw(sizes), draw(st.integers(1, 3))
    positive = st.floats(min_value=5e-324, allow_infinity=False, allow_nan=False)
    texts = st.text(max_size=5)
    numbers = lambda *shape, of=finite: draw(arrays(np.float64, shape, elements=of))  # noqa: E731
    radial = Radial(draw(st.sampled_from(["gaussian", "cauchy"])), numbers(d, of=positive), numbers(k, d))
    scale = Standardise(numbers(d), numbers(d, of=positive))
    straight = Standardise(numbers(d), numbers(d, of=positive))
    beside = Concatenate((Branch(np.arange(d), (radial,)), Branch(np.arange(d), (straight,))), np.arange(k + d)[::-1])
    linear = Linear(tuple(draw(texts) for _ in range(k + d)), numbers(q, k + d), numbers(q), q == 1)
    classes = draw(st.lists(st.one_of(texts, st.integers()), min_size=q, max_size=q, unique=True)) if q > 2 else None
    labels = None if classes is None else ClassLabels(classes, draw(st.one_of(st.none(), positive)))
    names = draw(st.lists(texts, min_size=d, max_size=d, unique=True))
    schema = schema_of(names, fills={0: draw(st.one_of(st.none(), finite))})
    return Program(schema, (scale, beside), linear, labels)


@given(programs(), st.dictionaries(st.text(max_size=3), st.one_of(finite, st.none(), st.text(max_size=3)), max_size=3))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_any_model_survives_its_file(tmp_path, program, facts):
    predictor = Predictor(program).with_facts(facts)
    predictor.save(tmp_path / "m.json")
    loaded = load_predictor(tmp_path / "m.json")
    assert to_json(loaded.to_dict()) == to_json(predictor.to_dict())
    assert loaded.facts == facts


# -- files that are none of ours ---------------------------------------------------------------------------------------


def saved(model, tmp_path, change=None):
    """Save a model, change its document, and return the path."""
    path = tmp_path / "model.json"
    model.predictor_.save(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    if change is not None:
        change(data)
    path.write_text(json.dumps(data | {"checksum": document.checksum(data)}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "could not be read"),
        (b"PK\x03\x04\xff\xfe", "could not be read"),
        (b'{"format": "termwise-model", "version": 1,', "could not be read"),
        (b'{"format": "termwise-model", "x": NaN}', r"NaN is no number of JSON\): it is another kind of file"),
        (b'{"format": "termwise-model", "x": -Infinity}', r"-Infinity is no number of JSON"),
        (b'{"format": 1, "format": 2}', "an entry occurs twice among format, format"),
        (b"[" * 100_000, "could not be read"),
        (b"[1, 2]", 'must be a model file, with "format": "termwise-model", got another JSON document: give the path'),
        (b'{"format": "onnx"}', "must be a model file"),
        (b'{"format": "termwise-model"}', "version must be a whole number >= 1, got None"),
        (b'{"format": "termwise-model", "version": true}', "version must be a whole number >= 1, got True"),
        (
            b'{"format": "termwise-model", "version": 5, "termwise": "9.1"}',
            r"was written by a newer termwise \(9\.1\), in version 5 of the format; this one reads version 4: upgrade "
            r"with pip install --upgrade termwise\.",
        ),
        (
            b'{"format": "termwise-model", "version": 1}',
            "the document must have an entry 'termwise', got only format, v",
        ),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        load_predictor(path)
    assert "other.json" in str(caught.value)


def test_truncated_files_are_refused(tmp_path):
    path = saved(BasisRidge(RadialBasis(centers=3)).fit(X, y), tmp_path)
    content = path.read_bytes().rstrip()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(
            ValueError, match=r"model\.json must be a JSON document written by Predictor\.save, but could"
        ):
            load_predictor(path)


def test_files_of_absurd_size_are_refused(tmp_path, monkeypatch):
    path = saved(BasisRidge().fit(X, y), tmp_path)
    monkeypatch.setattr(document, "MAX_BYTES", 100)
    with pytest.raises(
        ValueError, match=r"must be a model file of at most 0 MiB and 5,000,000 values, got more: this is some other"
    ):
        load_predictor(path)


def test_models_too_large_to_be_read_are_not_saved(tmp_path, monkeypatch):
    predictor = BasisRidge().fit(X, y).predictor_
    monkeypatch.setattr(document, "MAX_VALUES", 10)
    with pytest.raises(
        ValueError, match=r"must have at most 10 values and 128 MiB to be saved, got \d+ and 0: fit one of fewer"
    ):
        predictor.save(tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


def test_strings_that_are_no_text_survive_their_file(tmp_path):
    predictor = BasisRidge().fit(X, y).predictor_.with_facts({"a\ud800": ["\n", "\udfff\\", ""]})
    predictor.save(tmp_path / "model.json")
    assert load_predictor(tmp_path / "model.json") == predictor


def test_an_altered_file_is_refused_whatever_its_layout(tmp_path):
    path = tmp_path / "model.json"
    predictor = BasisRidge().fit(X, y).predictor_
    predictor.save(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(data, sort_keys=True), encoding="utf-8")
    assert load_predictor(path) == predictor
    data["predictor"]["linear"]["intercept"][0] += 1e-9
    message = r"model\.json is no valid model: checksum must be that of the rest of the document, got 'sha256:[0-9a-f]+"
    for version in (4, 3, 1):
        path.write_text(json.dumps(data | {"version": version}), encoding="utf-8")
        with pytest.raises(ValueError, match=message if version == 4 else "must have no entry but .*, got 'checksum'"):
            load_predictor(path)
    del data["checksum"]
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ValueError, match="the document must have an entry 'checksum', got only format, version"):
        load_predictor(path)


def put(*keys):
    """Return a change that puts the last argument at the place the others lead to."""
    *path, last, value = keys

    def change(data):
        for key in path:
            data = data[key]
        data[last] = value

    return change


def drop(*keys):
    *path, last = keys

    def change(data):
        for key in path:
            data = data[key]
        del data[last]

    return change


STEP = ("predictor", "steps", 0)
DAMAGES = [
    (put("termwise", 1), r"termwise must be a string, got 1"),
    (put("predictor", "link", "tan"), r"predictor\.link must be one of identity, log, sorted, got 'tan'"),
    (put("more", 1), r"the document must have no entry but format, version, .*, predictor, facts, got 'more'"),
    (put("facts", 5), r"facts must be an object, or null, got 5"),
    (put("facts", {"effects": 5}), r"facts\.effects must be a list, got 5"),
    (put("facts", {"effects": [{"inputs": []}]}), r"facts\.effects\[0\] must have an entry 'values', got only inputs"),
    (put("facts", {"trials": [{"name": "a", "error": []}]}), r"error must be a list of 1 or more, got \[\]"),
    (
        put("facts", {"command": {"target": None, "lags": 0.5}}),
        r"facts\.command\.lags must be a whole number, got 0\.5",
    ),
    (put("facts", {"versions": "1"}), r"facts\.versions must be an object, got '1'"),
    (
        put("facts", {"confusion": {"classes": ["a", "b"], "counts": [[1, 2]]}}),
        r"facts\.confusion\.counts must be 2 rows of 2 numbers, got \[\[1, 2\]\]",
    ),
    (put("predictor", []), r"predictor must be an object with inputs, columns, categories"),
    (put("predictor", "inputs", {}), r"predictor\.inputs must be a list, got \{\}"),
    (put("predictor", "inputs", []), r"predictor\.inputs must be one or more inputs of different names, got \[\]"),
    (put("predictor", "inputs", 0, "name", "x1"), r"must be one or more inputs of different names"),
    (put("predictor", "inputs", 0, "name", 3), r"predictor\.inputs\[0\]\.name must be a string, got 3"),
    (put("predictor", "inputs", 0, "kind", "word"), r"inputs\[0\]\.kind must be one of number, category, date, got 'w"),
    (put("predictor", "inputs", 0, "fill", "a"), r"inputs\[0\]\.fill must be a finite number, got 'a'"),
    (put("predictor", "inputs", 0, "fill", 10**400), r"fill must be a finite number, got 1000"),
    (put("predictor", "inputs", 0, "kind", "category"), r"inputs\[0\] must have an entry 'categories'"),
    (put("predictor", "columns", [0, 9, 1, 2]), r"columns must be whole numbers from 0 to 3, got 9"),
    (put("predictor", "columns", 3), r"predictor\.columns must be a list of indices, got 3"),
    (put("predictor", "columns", [0, 1, 2, 0.5]), r"columns\[3\] must be a whole number up to 2147483647, got 0\.5"),
    (put("predictor", "columns", [0, 1, 2, 10**30]), r"columns\[3\] must be a whole number up to"),
    (put("predictor", "categories", [-1]), r"categories must be a list of 4 numbers, got 1"),
    (
        put("predictor", "categories", [-1, 0, -1, -1]),
        r"categories\[1\] must be a category of x1, -1 for a number, got 0",
    ),
    (put("predictor", "categories", [-1, -1.0, -1, -1]), r"categories\[1\] must be a category of x1"),
    (put("predictor", "steps", {}), r"predictor\.steps must be a list"),
    (put(*STEP, "step", "exec"), r"steps\[0\] must be a step that is one of .*standardise, .*, got 'exec'"),
    (put("predictor", "steps", [7]), r"steps\[0\] must be a step that is one of"),
    (drop(*STEP, "widths"), r"steps\[0\] must have an entry 'widths', got only kernel, centers"),
    (put(*STEP, "code", "1"), r"steps\[0\] must have no entry but kernel, widths, centers, got 'code'"),
    (put(*STEP, "kernel", "sinc"), r"kernel must be one of .*gaussian.*, got 'sinc'"),
    (put(*STEP, "widths", [1, 1, 1]), r"steps\[0\]\.widths must be a list of 4 inputs, got 3"),
    (put(*STEP, "widths", [1, 1, 0, 1]), r"widths must be greater than zero, got 0\.0"),
    (put(*STEP, "widths", [1, 1, "1", 1]), r"widths\[2\] must be a finite number, got '1'"),
    (put(*STEP, "widths", [1, 1, True, 1]), r"widths\[2\] must be a finite number, got True"),
    (put(*STEP, "widths", [1, 1, [1], 1]), r"widths\[2\] must be a finite number, got \[1\]"),
    (put(*STEP, "centers", 1, [1, 2]), r"centers\[1\] must be a list of 4 inputs, got 2"),
    (put(*STEP, "centers", 1, "1234"), r"centers\[1\] must be a list of 4 inputs, got '1234'"),
    (put(*STEP, "centers", []), r"predictor\.linear\.names must be a list of 0 terms, got 3"),
    (put("predictor", "linear", "names", 0, None), r"linear\.names\[0\] must be a string, got None"),
    (put("predictor", "linear", "weights", [[1, 2]]), r"linear\.weights\[0\] must be a list of 3 terms, got 2"),
    (put("predictor", "linear", "weights", [[1, 2, 3], [1, 2, 3]]), r"intercept must be a list of 2 outputs, got 1"),
    (put("predictor", "linear", "one_output", 1), r"one_output must be true or false, got 1"),
    (put("predictor", "series", "x9"), r"series must be one of x0, x1, x2, x3, got 'x9'"),
    (put("facts", {"a": {"b": [1, 10**400]}}), None),
    (
        put("predictor", "labels", {"classes": ["a"], "sharpness": None}),
        r"predictor\.labels\.classes must be classes for 1 output",
    ),
    (put("predictor", "labels", {"classes": ["a", "a"], "sharpness": None}), r"must be a list of distinct values"),
    (put("predictor", "labels", {"classes": ["a", None], "sharpness": None}), r"classes\[1\] must be a finite number"),
    (
        put("predictor", "labels", {"classes": ["a", "b"], "sharpness": 0}),
        r"sharpness must be greater than zero, got 0",
    ),
    (
        put("predictor", "labels", {"classes": ["a", "b"], "sharpness": "b"}),
        r"sharpness must be a finite number, got 'b'",
    ),
    (
        lambda data: data["predictor"].update(labels={"classes": ["a", "b"], "sharpness": 1.0}, link="log"),
        r"predictor\.link must be identity for classes, got 'log'",
    ),
]


@pytest.mark.parametrize(("change", "message"), DAMAGES)
def test_damaged_files_are_refused(tmp_path, change, message):
    path = saved(BasisRidge(RadialBasis(width=3.0, centers=3)).fit(X, y), tmp_path, change)
    if message is None:  # whole numbers of any size are facts
        load_predictor(path)
        return
    with pytest.raises(ValueError, match=message) as caught:
        load_predictor(path)
    text = str(caught.value)
    assert "model.json is no valid model: " in text
    assert text.endswith(" The file was damaged or changed by hand: save the model again.")


ANOVA = AnovaBasis(n_centers=2, extrapolation="continue")
MORE_DAMAGES = [
    ("anova", ANOVA, put(*STEP, "bumps", 0, 7), r"bumps must be whole numbers from 0 to 6, got 7"),
    ("anova", ANOVA, put(*STEP, "second", 0, -2), r"second must be whole numbers from -1 to"),
    ("range", AnovaBasis(order=1, extrapolation="constant"), put(*STEP, "low", [0.0]), r"low must be a list of 4"),
    ("columns", AnovaBasis(0, order=1), put(*STEP, "columns", [0, 1, 1, 1]), r"must use all 4 columns it is given,"),
    ("scale", make_pipeline(StandardScaler()), put(*STEP, "scale", 0, 0), r"scale must be other than zero, got 0"),
    ("harmonic", FourierBasis(1), put(*STEP, "harmonics", 0, 0), r"harmonics must be whole numbers from 1 to"),
    ("parts", SmoothBasis(centers=5), put(*STEP, "parts", 0, "columns", [0, 1, 2, 7]), r"parts\[0\]\.columns must be"),
    ("order", SmoothBasis(centers=5), put(*STEP, "order", 0, 99), r"order must be whole numbers from 0 to 8"),
    (
        "lags",
        LagBasis(2),
        lambda data: data["predictor"]["steps"].append({"step": "lags", "columns": [*range(8)], "lags": [1] * 8}),
        r"predictor\.steps must have one step of lags at most, and none beside others, got more",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("basis", "change", "message"), [d[1:] for d in MORE_DAMAGES], ids=[d[0] for d in MORE_DAMAGES]
)
def test_damaged_steps_are_refused(tmp_path, basis, change, message):
    path = saved(BasisRidge(basis).fit(X, y), tmp_path, change)
    with pytest.raises(ValueError, match=message):
        load_predictor(path)


def test_damaged_outputs_and_categories_are_refused(tmp_path):
    path = saved(BasisRidge().fit(X, Y), tmp_path, put("predictor", "linear", "one_output", True))
    with pytest.raises(ValueError, match=r"linear\.intercept must have one output per target, got 2"):
        load_predictor(path)
    limited = case_of("limited").model
    path = saved(limited, tmp_path, put("predictor", "linear", "limits", [[1.0], [-1.0]]))
    with pytest.raises(ValueError, match=r"linear\.limits must be the lowest outputs, then the highest, got "):
        load_predictor(path)
    model = table_model().model
    place = next(j for j, one in enumerate(model.predictor_.inputs) if one.name == "kind")
    path = saved(model, tmp_path, put("predictor", "inputs", place, "fill", "z"))
    with pytest.raises(ValueError, match=r"fill must be one of the categories, got 'z'"):
        load_predictor(path)


def places(value, path=()):
    """All places in a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(2**31, 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
    st.lists(st.integers(-1, 5), max_size=4),
    st.lists(st.lists(st.floats(-2, 2), max_size=3), max_size=3),
    st.dictionaries(st.sampled_from(["step", "columns", "name"]), st.integers(0, 3), max_size=2),
)


@pytest.mark.slow
@given(st.sampled_from(["gaussian", "smooth", "anova", "fourier", "lag", "standard"]), st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_change_of_a_file_does_harm(tmp_path, name, data):
    """Whatever is put wherever: the file is refused with a ValueError, or is a model that works."""
    document_ = copy.deepcopy(predictor_of(f"BasisRidge0 {name}").to_dict())
    path = data.draw(st.sampled_from([p for p in places(document_) if p and p[0] == "predictor"]))
    put(*path, data.draw(junk))(document_)
    file = tmp_path / "m.json"
    file.write_text(json.dumps(document_ | {"checksum": document.checksum(document_)}), encoding="utf-8")
    try:
        predictor = load_predictor(file)
    except ValueError:
        return
    try:
        with np.errstate(all="ignore"):
            predictor.predict(X[:3])
    except ValueError as error:
        assert "must" in str(error)  # noqa: PT017


# -- what can go wrong -------------------------------------------------------------------------------------------------


class Twice(RadialBasis):
    def evaluate(self, X):
        return 2 * super().evaluate(X)


class Named(RadialBasis):
    pass


def test_children_of_a_basis_that_do_the_same():
    model = BasisRidge(Named(width=3.0, centers=5)).fit(X, y)
    np.testing.assert_allclose(model.predictor_.predict(X), model.predict(X), rtol=1e-12, atol=1e-12)


def late_encoder():
    model = make_pipeline(StandardScaler(), TableEncoder(), BasisRidge(SmoothBasis())).fit(MISSING, y)
    return Predictor.from_estimator(model)


def first_version():
    """The model of a file of the first versions, to which unknown categories were errors."""
    data = table_model().predictor.to_dict()
    for one in data["predictor"]["inputs"]:
        one.pop("unseen", None)
    return Predictor(Program.from_plain(data["predictor"], "predictor"))


def nested():
    model = BasisRidge(make_pipeline(LagBasis(1), LagBasis(1))).fit(X, y)
    return model.predictor_


def odd_categories():
    table = pd.DataFrame(
        {"when": pd.Categorical(pd.to_datetime(["2020-01-01", "2021-01-01"] * 5)), "x": np.arange(10.0)}
    )
    return BasisRidge(TableEncoder()).fit(table, np.arange(10.0)).predictor_


def same_names():
    model = BasisRidge().fit(X, y)
    model.feature_names_in_ = np.array(["a", "a", "b", "c"], dtype=object)
    return model.predictor_


def predictor_of(name="BasisRidge0 columns"):
    return case_of(next(title for title in NAMES if title.startswith(name))).predictor


def fill_table(**values):
    return table_model().predictor.with_fill(values)


def with_value(column, value, row=3):
    frame = FRAME.copy().astype({"kind": object, "level": object, "speed": object})
    frame.loc[row, column] = value
    return frame


ERRORS = [
    ("not ours", lambda: Predictor.from_estimator(Ridge().fit(X, y)), TypeError,
     r"estimator must be one of termwise's, or a pipeline that ends in one, got Ridge: others are not linear in their"),
    ("not even an estimator", lambda: Predictor.from_estimator(make_pipeline(StandardScaler()).fit(X)), TypeError,
     r"estimator must be one of termwise's, .* got StandardScaler"),
    ("unknown transformer", lambda: BasisRidge(PowerTransformer()).fit(X, y).predictor_, TypeError,
     r"a Predictor cannot be made of PowerTransformer: it supports AnovaBasis, .*UnionBasis, selectors of columns, and "
     r"pipelines of these\. Other transformers can be converted together with the model by termwise\.deploy\.onnx\."),
    ("a basis changed", lambda: BasisRidge(Twice(centers=3)).fit(X, y).predictor_, TypeError,
     r"a Predictor cannot be made of Twice"),
    ("function", lambda: BasisRidge(FunctionTransformer(np.sin)).fit(X, y).predictor_, TypeError,
     r"a Predictor cannot be made of FunctionTransformer"),
    ("column transformer", lambda: BasisRidge(ColumnTransformer([("a", StandardScaler(), [0])])).fit(X, y).predictor_,
     TypeError, r"a Predictor cannot be made of ColumnTransformer"),
    ("indicator", lambda: BasisRidge(SimpleImputer(add_indicator=True)).fit(X, y).predictor_, TypeError,
     r"SimpleImputer must fill NaN in columns of numbers and add no indicator, got other settings"),
    ("encoder behind", late_encoder, TypeError,
     r"TableEncoder must be the first step of a pipeline if it has categories, dates or missing values, got it later"),
    ("lags of lags", nested, ValueError, r"estimator must have one step of lags at most, and none beside others"),
    ("categories of dates", odd_categories, TypeError,
     r"categories of when must be strings, finite numbers or booleans to be stored in a file, got Timestamp\(.*\) of "
     r"type Timestamp: convert them with astype\(str\) before the fit\."),
    ("two inputs of a name", same_names, ValueError, r"inputs must have different names to be stored, got a more than"),
    ("too few columns", lambda: predictor_of().predict(X[:, :2]), ValueError,
     r"X must have 4 columns, got shape \(60, 2\): give x0, x1, x2, x3, in this order\."),
    ("a vector", lambda: predictor_of().predict(X[0]), ValueError, r"X must be a table of shape \(n, d\), got a"),
    ("NaN in an array", lambda: predictor_of().predict(X * [1, 1, 1, np.nan]), ValueError,
     r"x3 must be complete, got NaN, null or infinity in 60 rows, first in row 0: fill or drop those rows, or"),
    ("infinity", lambda: predictor_of().predict(X * [1, np.inf, 1, 1]), ValueError, r"x1 must be complete, got NaN,"),
    ("missing column", lambda: table_model().predictor.predict(FRAME.drop(columns=["kind", "speed"])), ValueError,
     r"X must have the columns the model uses, got none called speed, kind: its columns are load, heat.* Rename or"),
    ("repeated column", lambda: table_model().predictor.predict(pd.concat([FRAME, FRAME[["heat"]]], axis=1)),
     ValueError, r"X must have columns of different names, got heat more than once\."),
    ("unknown category", lambda: first_version().predict(with_value("kind", "q")), ValueError,
     r"kind must hold categories the model was fitted with, got 'q': those are 'u', 'v', 'w'\. Drop those rows,"),
    ("unknown categories", lambda: first_version().predict(FRAME.assign(kind=[f"k{i}" for i in range(60)])),
     ValueError, r"got 'k0', 'k1', 'k2', 'k3', 'k4' and 55 more: those are"),
    ("missing category", lambda: table_model().predictor.predict(with_value("kind", None)), ValueError,
     r"kind must be complete, got missing values in 1 row, first in row 3: .* with_fill\(\{'kind': value\}\)\."),
    ("words for numbers", lambda: table_model().predictor.predict(with_value("speed", "fast")), ValueError,
     r"speed must hold numbers, got 'fast': convert the column, or fit with it as a category\."),
    ("fill of nothing", lambda: fill_table(colour=1), ValueError, r"fill must name inputs of the model, got 'colour':"),
    ("fill of a category", lambda: fill_table(kind="q"), ValueError,
     r"fill of kind must be one of its categories, got 'q': they are u, v, w\."),
    ("fill of a number", lambda: fill_table(speed=np.nan), ValueError,
     r"fill of speed must be a finite number, got nan: the column holds numbers; its mean or median will do\."),
    ("facts that are none", lambda: predictor_of().with_facts({"a": [1, {"b": np.zeros(2)}]}), ValueError,
     r"facts\.a\[1\]\.b must be a string, a finite number, true, false, null, or a list or dict of these, got array"),
    ("facts not finite", lambda: predictor_of().with_facts({"a": np.inf}), ValueError, r"facts\.a must be a string, a"),
    ("facts by number", lambda: predictor_of().with_facts({1: 2}), ValueError, r"facts must be a dict with strings as"),
    ("no series", lambda: predictor_of().free_run(X), ValueError,
     r"free_run needs a model of one series on its past values, got another: fit with basis=LagBasis\(\.\.\.\)\."),
    ("unknown language", lambda: predictor_of().export("model.f90"), ValueError,
     r"to must be one of '.*', got '\.f90': or end the path in one of \..*"),
    ("option", lambda: predictor_of().export("model.py", dtype="float32"), TypeError,
     r"dtype is no option of an export to python, which has simulation: leave it out\."),
    ("option of C", lambda: predictor_of().export("model.c", opset=3), TypeError,
     r"dtype, name, gradient, simulation: leave"),
    ("language", lambda: predictor_of().export("model", to="fortran"), ValueError, r"to must be one of .* got"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "error", "message"), [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS])
def test_errors(action, error, message):
    with pytest.raises(error, match=message):
        action()


def test_probabilities_need_a_classifier_that_has_them():
    with pytest.raises(AttributeError, match="predict_proba"):
        predictor_of().predict_proba(X)
    assert hasattr(TermwiseClassifier(3, dictionary="linear").fit(X, TWO).predictor_, "predict_proba")


def test_json_is_an_export_too(tmp_path):
    predictor = predictor_of()
    predictor.export(tmp_path / "a.json")
    predictor.save(tmp_path / "b.json")
    assert Path(tmp_path / "a.json").read_bytes() == Path(tmp_path / "b.json").read_bytes()
