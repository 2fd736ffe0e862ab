"""Outside the training range: nonlinear terms and products are clipped, the same in every export, and rows are told."""

from __future__ import annotations

import copy
import ctypes
import pickle
from typing import Any

import array_api_strict as strict
import numpy as np
import pandas as pd
import pytest
from frozen_models import CORNERS, EQUAL, FRAME, PRODUCT, Y_FRAME
from oracles import anova_basis, smooth_basis
from sklearn.base import clone
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from test_export import compiled, module_of, needs_gcc, run_onnx

from termwise import (
    AnovaBasis,
    BasisRidge,
    ForwardClassifier,
    ForwardRegressor,
    FourierBasis,
    LagBasis,
    LogisticBasis,
    RadialBasis,
    ShapeDisplay,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    UnionBasis,
    diagnostics,
    load_predictor,
)
from termwise.basis import LevelMeans, TableEncoder
from termwise.deploy import c
from termwise.deploy import onnx as graph
from termwise.deploy.steps import apply

RNG = np.random.default_rng(11)
X = RNG.normal(size=(80, 3)) * [1.0, 5.0, 0.2] + [0.0, 30.0, 0.0]
y = X[:, 0] * X[:, 1] / 5 + np.sin(5 * X[:, 2]) + 0.1 * RNG.normal(size=80)
LOW, HIGH = X.min(axis=0), X.max(axis=0)
FAR = np.vstack([
    X[:4],  # within
    [LOW, HIGH],  # on the boundary
    X[4:7] + np.diag([9.0, -60.0, 3.0]),  # one input outside
    X[7:11] * 10,  # two or three
    X[11:13] * 1e4,
])  # fmt: skip
MODES = ["clip", "bounded", "constant", "linear", "continue"]
BASES: dict[str, Any] = {
    **{f"anova {mode}": AnovaBasis(2, min_count=5, extrapolation=mode) for mode in MODES},
    **{f"additive {mode}": AnovaBasis(2, order=1, min_count=5, extrapolation=mode) for mode in MODES},
    **{f"smooth {mode}": SmoothBasis(centers=9, width=[1.0, 3.0], extrapolation=mode) for mode in MODES},
    "relevant": SmoothBasis(centers=9, relevance=[1.0, 0.0, 0.5]),
    "multiquadric": RadialBasis("multiquadric", centers=9, extrapolation="clip"),
    "metric": RadialBasis(width=np.diag([1.0, 30.0, 0.1]) + 0.05, centers=9, extrapolation="clip"),
    "fourier": FourierBasis(2, extrapolation="clip"),
    "logistic": LogisticBasis(7, extrapolation="clip"),
    "union": UnionBasis([AnovaBasis(2, min_count=5), SmoothBasis(centers=5, linear=False), FourierBasis(1)]),
    "scaled": make_pipeline(StandardScaler(), AnovaBasis(2, min_count=5)),
    "min-max": make_pipeline(MinMaxScaler(clip=True), AnovaBasis(2, min_count=5)),
    "feature union": FeatureUnion([("own", AnovaBasis(1, min_count=5)), ("waves", FourierBasis(1)), ("not", "drop")]),
    "two": make_pipeline(FourierBasis(1), AnovaBasis(0)),
}
MODELS = {name: BasisRidge(basis, alpha=0.1).fit(X, y) for name, basis in BASES.items()}
MODELS |= {
    "few": ForwardRegressor(AnovaBasis(2, min_count=5), max_terms=3, criterion=None).fit(X, y),
    "smooth few": ForwardRegressor(SmoothBasis(centers=9), max_terms=3, criterion=None).fit(X, y),
    "classes": ForwardClassifier(AnovaBasis(2, min_count=5), max_terms=6).fit(X, np.digitize(y, [-2.0, 2.0])),
    "pairs": TermwiseRegressor(5, dictionary="pairs").fit(X, y),
    "two classes": TermwiseClassifier(5, dictionary="smooth").fit(X, y > 0),
}


def outputs(model, table):
    return model.decision_function(table) if hasattr(model, "decision_function") else model.predict(table)


def agree(predictor, found, expected, share=1e-12):
    """Compare up to rounding of the terms that are added up."""
    program = predictor._program
    G = apply(program.steps, program.schema.encode(FAR))
    sizes = np.abs(G) @ np.abs(program.linear.weights.T) + np.abs(program.linear.intercept)
    found, expected = (np.reshape(values, sizes.shape) for values in (found, expected))
    assert np.all(np.abs(found - expected) <= share * sizes)


# -- the same everywhere -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_exports_agree_far_outside(name, tmp_path):
    model = MODELS[name]
    predictor, expected = model.predictor_, outputs(model, FAR)
    agree(predictor, outputs(predictor, FAR), expected)
    predictor.save(tmp_path / "model.json")
    loaded = load_predictor(tmp_path / "model.json")
    assert loaded == predictor
    np.testing.assert_array_equal(outputs(loaded, FAR), outputs(predictor, FAR))
    module = module_of(predictor)
    function = getattr(module, "decision_function", module.predict)
    agree(predictor, [function(row) for row in FAR.tolist()], expected)
    result = run_onnx(graph.source(predictor._program), FAR, np.float64)
    agree(predictor, result["scores" if predictor.classes else "prediction"], expected)


@pytest.mark.slow
@needs_gcc
def test_c_agrees_far_outside(tmp_path):
    predictors = [model.predictor_ for model in MODELS.values()]
    sources = [c.source(one._program, name=f"m{i}") for i, one in enumerate(predictors)]
    library = compiled(sources, tmp_path, "models")
    for i, (predictor, model) in enumerate(zip(predictors, MODELS.values(), strict=True)):
        function = getattr(library, f"m{i}_{'decision_function' if predictor.classes else 'predict'}")
        found = []
        for row in FAR:
            out = (ctypes.c_double * len(predictor.intercept))()
            assert function((ctypes.c_double * 3)(*row), out) == 0
            found.append(list(out))
        agree(predictor, found, outputs(model, FAR))


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_told(name):
    model = MODELS[name]
    predicted, clipped = model.predict(FAR, return_clipped=True)
    np.testing.assert_array_equal(predicted, model.predict(FAR))
    assert clipped.dtype == bool
    assert clipped.shape == (len(FAR),)
    assert not clipped[:6].any()  # training samples, and the boundary itself
    assert not model.predict(X, return_clipped=True)[1].any()
    found, told = model.predictor_.predict(FAR, return_clipped=True)
    np.testing.assert_array_equal(found, model.predictor_.predict(FAR))
    np.testing.assert_array_equal(told, clipped)
    if name not in ("two", "min-max"):  # of bounded waves, and of a scaler that clips before
        assert clipped[-1] == ("continue" not in name)
    if name in ("anova clip", "union", "multiquadric", "scaled", "fourier"):
        assert clipped[6:].all()


# -- definitions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_far_outside_equals_the_definition(mode):
    quantiles = (np.arange(2) + 0.5) / 2
    fitted = AnovaBasis(2, min_count=5, extrapolation=mode).fit(X)
    _, _, G = anova_basis(X, FAR, quantiles, 2.0, 2, 5, mode)
    np.testing.assert_allclose(fitted.transform(FAR), G, rtol=1e-9, atol=1e-12)
    design = fitted.design(FAR)
    np.testing.assert_allclose(design.columns(slice(None)), G, rtol=1e-9, atol=1e-12)
    smooth = SmoothBasis(width=("median", 0.8), extrapolation=mode).fit(X)
    np.testing.assert_allclose(smooth.transform(FAR), smooth_basis(X, FAR, [0.8], range(80), mode), rtol=1e-9)


@pytest.mark.parametrize("basis", [RadialBasis("cauchy", centers=7), FourierBasis(2), LogisticBasis(7)])
def test_bounded_functions_are_clipped_on_request(basis):
    free, fixed = (clone(basis).set_params(extrapolation=mode).fit(X) for mode in ("continue", "clip"))
    np.testing.assert_array_equal(fixed.transform(FAR), free.transform(np.clip(FAR, LOW, HIGH)))
    np.testing.assert_array_equal(clone(basis).fit(X).transform(FAR), free.transform(FAR))
    assert not free.clipped(FAR).any()
    assert fixed.clipped(FAR).tolist() == [False] * 6 + [True] * 9
    assert not fixed.take([]).clipped(FAR).any()
    with pytest.raises(ValueError, match=r"extrapolation must be one of 'continue', 'clip', got 'linear': pick one"):
        clone(basis).set_params(extrapolation="linear").fit(X)


def test_linear_terms_stay_linear_unless_asked():
    fitted = {mode: AnovaBasis(2, order=1, extrapolation=mode).fit(X).take([0]) for mode in MODES}
    means, deviations = X.mean(axis=0), X.std(axis=0)
    wide = FAR.clip(LOW - deviations, HIGH + deviations)[:, 0]
    np.testing.assert_allclose(fitted["bounded"].transform(FAR)[:, 0], (wide - means[0]) / deviations[0])
    np.testing.assert_array_equal(fitted["bounded"].clipped(FAR), wide != FAR[:, 0])
    line = (FAR[:, [0]] - fitted["clip"].means_[0]) / fitted["clip"].deviations_[0]
    for mode in ("clip", "linear", "continue"):
        np.testing.assert_allclose(fitted[mode].transform(FAR), line)
        assert not fitted[mode].clipped(FAR).any()
    np.testing.assert_allclose(fitted["constant"].transform(FAR), fitted["constant"].transform(FAR.clip(LOW, HIGH)))
    np.testing.assert_array_equal(fitted["constant"].clipped(FAR), (FAR.clip(LOW, HIGH) != FAR)[:, 0])


def test_linear_means_linear_in_each_input():
    basis = AnovaBasis(2, min_count=5, extrapolation="linear").fit(X)
    steps = np.repeat(X[:1], 3, axis=0)
    for j in range(3):
        line = steps.copy()
        line[:, j] = HIGH[j] + np.array([0.0, 1.0, 2.0])
        a, b, d = basis.transform(line)
        np.testing.assert_allclose(d - b, b - a, atol=1e-9)


def test_products_do_not_explode():
    far = np.outer([1e2, 1e4, 1e6], [1.0, 1.0, 1.0])
    models = {
        mode: ForwardRegressor(AnovaBasis(extrapolation=mode), max_terms=4, criterion=None).fit(X, X[:, 0] * X[:, 1])
        for mode in MODES
    }
    size = {mode: np.abs(model.predict(far)) for mode, model in models.items()}
    assert np.all(size["clip"] < 1e3 * far[:, 0])  # no faster than linear terms
    assert size["continue"][-1] > 1e3 * size["clip"][-1]
    np.testing.assert_array_equal(models["constant"].predict(far), models["constant"].predict(far.clip(LOW, HIGH)))


@pytest.mark.parametrize("dictionary", ["linear", "additive", "pairs", "smooth", "relevant"])
def test_automatic_estimators_are_bounded_unless_they_are_linear(dictionary):
    model = TermwiseRegressor(6, dictionary=dictionary).fit(X, y)
    far = np.outer([1e3, 2e3, 3e3], [1.0, -1.0, 1.0])
    a, b, d = model.predict(far)
    np.testing.assert_allclose(d - b, b - a, rtol=1e-9, atol=1e-9)
    if dictionary == "linear":
        assert abs(b - a) > 1
        assert not model.predict(far, return_clipped=True)[1].any()
    else:
        assert a == b
        assert model.predict(far, return_clipped=True)[1].all()


# -- what must not matter ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["anova", "additive", "smooth"])
def test_training_samples_are_as_before(name):
    designs = [BASES[f"{name} {mode}"].fit(X).transform(X) for mode in MODES]
    for G in designs[:-1]:
        np.testing.assert_array_equal(G, designs[-1])
    paths = [ForwardRegressor(BASES[f"{name} {mode}"], max_terms=8, criterion=None).fit(X, y) for mode in MODES]
    for model in paths[:-1]:
        assert model.support_.tolist() == paths[-1].support_.tolist()
        np.testing.assert_array_equal(model.weights_, paths[-1].weights_)


def test_blocks_of_rows_do_not_matter(monkeypatch):
    basis = AnovaBasis(2, min_count=5).fit(X)
    whole = basis.transform(FAR)
    np.testing.assert_array_equal(np.vstack([basis.transform(row[None]) for row in FAR]), whole)
    monkeypatch.setattr("termwise._arrays.BLOCK_ENTRIES", 40)
    np.testing.assert_array_equal(basis.transform(FAR), whole)


@pytest.mark.parametrize("name", ["anova clip", "smooth clip", "multiquadric", "union"])
def test_ranges_survive_copies(name):
    basis = clone(BASES[name]).fit(X)
    G, clipped = basis.transform(FAR), basis.clipped(FAR)
    for other in (pickle.loads(pickle.dumps(basis)), copy.deepcopy(basis), basis.with_fitted_params().fit(X, y)):
        np.testing.assert_array_equal(other.transform(FAR), G)
        np.testing.assert_array_equal(other.clipped(FAR), clipped)
    some = RNG.permutation(basis.n_functions)[:5]
    np.testing.assert_allclose(basis.take(some).transform(FAR), G[:, some], rtol=1e-12)
    short = basis.transform(FAR[:11].astype(np.float32))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, G[:11], rtol=1e-3, atol=1e-3)


def test_samples_of_weight_zero_have_no_range():
    weights = np.append(np.ones(80), 0.0)
    table, targets = np.vstack([X, 100 * HIGH]), np.append(y, 0.0)
    model = BasisRidge(AnovaBasis(2, min_count=5), alpha=0.1).fit(table, targets, sample_weight=weights)
    np.testing.assert_allclose(model.basis_.ranges_, [LOW, HIGH])
    np.testing.assert_allclose(model.predict(FAR), MODELS["anova clip"].predict(FAR), rtol=1e-9)
    assert model.predict(table, return_clipped=True)[1].tolist() == [False] * 80 + [True]


def test_arrays_of_other_libraries():
    basis = RadialBasis("multiquadric", centers=X[:9], extrapolation="clip")
    expected = clone(basis).fit(X)
    found = basis.fit(strict.asarray(X))
    np.testing.assert_allclose(np.asarray(found.transform(strict.asarray(FAR))), expected.transform(FAR), rtol=1e-12)
    np.testing.assert_array_equal(found.clipped(strict.asarray(FAR)), expected.clipped(FAR))


# -- which rows --------------------------------------------------------------------------------------------------------


def test_only_inputs_of_clipped_terms_count():
    names = MODELS["anova clip"].basis_.get_feature_names_out().tolist()
    basis = MODELS["anova clip"].basis_
    product, line = names.index("x0 * x1"), names.index("x2")
    outside = FAR.clip(LOW, HIGH) != FAR
    np.testing.assert_array_equal(basis.take([line]).clipped(FAR), False)
    np.testing.assert_array_equal(basis.take([line, product]).clipped(FAR), outside[:, :2].any(axis=1))
    bump = next(i for i, name in enumerate(names) if name.startswith("bump(x2") and "*" not in name)
    np.testing.assert_array_equal(basis.take([bump]).clipped(FAR), outside[:, 2])


def test_results_have_a_documented_order():
    model = MODELS["few"]
    y_found, std, clipped = model.predict(FAR, return_std=True, return_clipped=True)
    np.testing.assert_array_equal(y_found, model.predict(FAR))
    np.testing.assert_array_equal(std, model.predict(FAR, return_std=True)[1])
    assert clipped.dtype == bool
    columns = ForwardRegressor().fit(X, y)  # linear terms
    assert not columns.predict(FAR, return_clipped=True)[1].any()
    assert not MODELS["few"].at(0).predict(FAR, return_clipped=True)[1].any()
    pipeline = make_pipeline(StandardScaler(), ForwardRegressor(AnovaBasis(2))).fit(X, y)
    assert pipeline.predict(FAR, return_clipped=True)[1].any()


def test_inputs_are_named():
    outside = FAR.clip(LOW, HIGH) != FAR
    np.testing.assert_array_equal(MODELS["anova clip"].predictor_.clipped(FAR), outside)
    np.testing.assert_array_equal(MODELS["scaled"].predictor_.clipped(FAR), outside)
    np.testing.assert_array_equal(MODELS["union"].predictor_.clipped(FAR), outside)
    both = MODELS["metric"].predictor_.clipped(FAR)
    np.testing.assert_array_equal(both, outside)


def test_tables_with_categories():
    model = TermwiseRegressor(12, dictionary="pairs").fit(FRAME, Y_FRAME)
    far = FRAME.copy()
    far.loc[3:5, ["speed", "load", "heat", "noise"]] *= 1e3
    predicted, clipped = model.predict(far, return_clipped=True)
    np.testing.assert_allclose(model.predictor_.predict(far), predicted, rtol=1e-9)
    assert np.flatnonzero(clipped).tolist() == [3, 4, 5]
    told = model.predictor_.clipped(far)
    np.testing.assert_array_equal(told.any(axis=1), clipped)
    assert not told[:, 4:].any()  # categories
    encoded = BasisRidge(make_pipeline(TableEncoder(), AnovaBasis(2)), alpha=1.0).fit(FRAME, Y_FRAME)
    np.testing.assert_array_equal(encoded.predict(far, return_clipped=True)[1], clipped)


def test_past_values_are_clipped():
    series = np.cumsum(RNG.normal(size=(120, 2)), axis=0)
    basis = make_pipeline(LagBasis([1, 3]), AnovaBasis(2, min_count=5))
    model = BasisRidge(basis, alpha=0.1).fit(series, series[:, 0])
    far = series.copy()
    far[60, 0] = 1e3
    predicted, clipped = model.predict(far, return_clipped=True)
    assert np.flatnonzero(clipped).tolist() == [61, 63]
    np.testing.assert_allclose(model.predictor_.predict(far), predicted, rtol=1e-9)
    assert np.argwhere(model.predictor_.clipped(far)).tolist() == [[61, 0], [63, 0]]


def test_dask_predicts_the_same():
    array = pytest.importorskip("dask.array")
    rows = array.from_array(FAR, chunks=(4, 3))
    for name in ("few", "classes"):
        predicted, clipped = MODELS[name].predict(rows, return_clipped=True)
        expected = MODELS[name].predict(FAR, return_clipped=True)
        assert clipped.dtype == bool
        np.testing.assert_allclose(predicted.compute(), expected[0])
        np.testing.assert_array_equal(clipped.compute(), expected[1])
    _, _, clipped = MODELS["few"].predict(rows, return_std=True, return_clipped=True)
    np.testing.assert_array_equal(clipped.compute(), MODELS["few"].predict(FAR, return_clipped=True)[1])


def test_effects_are_flat_outside():
    model = BasisRidge(AnovaBasis(3, order=1, extrapolation="constant"), alpha=0.1).fit(X, y)
    wide = pd.DataFrame(np.vstack([X, LOW - 10, HIGH + 10])).to_numpy()
    for effect in ShapeDisplay.from_estimator(model, wide, grid=50, max_effects=99).effects:
        j = int(effect.inputs[0][1:])
        beyond = effect.values[0] >= HIGH[j]
        assert np.ptp(effect.effect[beyond]) < 1e-9


# -- limits of predictions ---------------------------------------------------------------------------------------------


def extended(targets, margin=0.5):
    """The range of targets, and half of its length on either side."""
    low, high = targets.min(axis=0), targets.max(axis=0)
    return np.array([low - margin * (high - low), high + margin * (high - low)])


@pytest.mark.parametrize("columns", [1, 2])
def test_predictions_between_the_training_samples_have_limits(columns, tmp_path):
    targets = PRODUCT if columns == 1 else np.column_stack([PRODUCT, 100 - 3 * PRODUCT])
    weight = np.ones(80)
    weight[PRODUCT.argmax()] = 0  # no training sample: its target is no limit
    model = TermwiseRegressor(2, dictionary="pairs", target="data").fit(EQUAL, targets, sample_weight=weight)
    limits, predictor = extended(targets[weight > 0]).reshape(2, -1), model.predictor_
    np.testing.assert_allclose(predictor.limits, limits, rtol=1e-12)
    predicted = model.predict(CORNERS).reshape(len(CORNERS), -1)
    unlimited = predictor.terms(CORNERS) @ predictor.weights.T + predictor.intercept
    assert ((unlimited < limits[0]) | (unlimited > limits[1])).any()
    np.testing.assert_allclose(predicted, unlimited.clip(*limits), rtol=1e-9)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(CORNERS), model.predict(CORNERS))
    predictor.save(tmp_path / "model.json")
    np.testing.assert_allclose(load_predictor(tmp_path / "model.json").predict(CORNERS), model.predict(CORNERS))
    np.testing.assert_allclose(model.at(1).predictor_.limits, limits, rtol=1e-12)
    lower, upper = model.predict_interval(CORNERS)
    assert (lower <= upper).all()
    assert np.isfinite([lower, upper]).all()


@pytest.mark.parametrize("link", ["identity", "log"])
def test_residuals_of_samples_of_weight_zero_are_those_of_the_clipped_predictions(link):
    inputs, targets = np.vstack([EQUAL, CORNERS]), np.append(PRODUCT, np.ones(len(CORNERS)))
    targets = np.exp(targets) if link == "log" else targets
    weight = np.repeat([1.0, 0.0], [len(EQUAL), len(CORNERS)])
    model = TermwiseRegressor(2, dictionary="pairs", target="data", link=link).fit(inputs, targets, weight)
    for one in (model, model.at(1)):
        expected = (targets - one.predict(inputs))[weight == 0]
        np.testing.assert_allclose(one.loo_residuals_[weight == 0], expected, rtol=1e-9)
        assert np.isin(one.predictor_.linear_predictor(CORNERS), one.predictor_.limits).any()


def test_limits_are_those_of_the_training_part_in_each_fold():
    model = TermwiseRegressor(2, dictionary="pairs", target="data").fit(EQUAL, PRODUCT)
    folds = model.fitted_terms_.fold_models
    for number, one in enumerate(folds.models):
        np.testing.assert_allclose(one.limits[:, 0], extended(PRODUCT[folds.fold != number]), rtol=1e-12)


def test_linear_models_and_classifiers_have_no_limits():
    assert TermwiseRegressor(dictionary="linear").fit(EQUAL, PRODUCT).predictor_.limits is None
    assert TermwiseClassifier(dictionary="pairs").fit(EQUAL, PRODUCT > 0).predictor_.limits is None
    assert ForwardRegressor(AnovaBasis()).fit(EQUAL, PRODUCT).predictor_.limits is None


def test_a_sum_of_a_linear_and_a_nonlinear_model_has_limits(rng):
    inputs = rng.normal(size=(150, 3))
    targets = inputs @ [3.0, 1.0, 0.0] + np.maximum(inputs[:, 2], 0) + 0.3 * rng.normal(size=150)
    model = TermwiseRegressor("accurate", dictionary="additive", target="data").fit(inputs, targets)
    linear, additive = AnovaBasis(0, order=1).fit(inputs), model.fitted_terms_.basis
    union = UnionBasis.of([linear, additive])
    np.testing.assert_array_equal(union.clip_ranges(), additive.clip_ranges())
    np.testing.assert_array_equal(UnionBasis.of([linear]).clip_ranges(), linear.clip_ranges())
    assert np.isinf(linear.clip_ranges()).all()
    far = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 50.0]])
    assert union.clipped(far).tolist() == [False, True]


@pytest.mark.slow
def test_functions_of_means_of_levels_have_limits(rng):
    levels = rng.integers(0, 25, size=(200, 2))
    table = pd.DataFrame(levels, columns=["city", "street"]).astype(str)
    targets = rng.normal(size=(25, 2))[levels, [0, 1]].sum(axis=1) + 0.1 * rng.normal(size=200)
    model = TermwiseRegressor(dictionary="additive", target="data").fit(table, targets)
    np.testing.assert_allclose(model.predictor_.limits[:, 0], extended(targets), rtol=1e-12)
    for one in model.fitted_terms_.fold_models.models:
        assert one.limits is not None
    assert TermwiseRegressor(dictionary="linear").fit(table, targets).predictor_.limits is None
    bounded, linear = (LevelMeans(AnovaBasis(k, order=1), [0, 1]).fit(levels, targets) for k in (3, 0))
    assert UnionBasis.of([linear, bounded]).is_bounded
    assert not UnionBasis.of([linear]).is_bounded


def test_effects_add_up_to_the_prediction_before_it_is_clipped():
    model = TermwiseRegressor(2, dictionary="pairs", target="data").fit(EQUAL, PRODUCT)
    found = diagnostics.contributions(model.predictor_.with_facts(diagnostics.facts(model, EQUAL, PRODUCT)), CORNERS)
    sums = (found.base + found.values.sum(axis=1))[:, 0]
    np.testing.assert_allclose(sums.clip(*model.predictor_.limits[:, 0]), model.predict(CORNERS), rtol=1e-6)
    assert not np.allclose(sums, model.predict(CORNERS))


def test_limits_of_logarithms_are_those_of_the_targets():
    targets = np.exp(PRODUCT)
    model = TermwiseRegressor(2, dictionary="pairs", target="data", link="log").fit(EQUAL, targets)
    shift = model.choice_.shifts[model.n_terms_]
    low, high = model.predictor_.limits[:, 0] - shift
    assert np.exp(high) == pytest.approx(extended(targets)[1])
    assert low == pytest.approx(extended(PRODUCT)[0])
    assert model.predict(CORNERS).max() <= np.exp(high + shift) * (1 + 1e-12)
