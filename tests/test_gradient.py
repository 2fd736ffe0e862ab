"""Gradients: those of the predictor equal finite differences, and those in C equal those of the predictor."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from frozen_models import FRAME, X, Y, case_of, schema_of, y
from test_export import CompiledModel, coded, compiled, module_of, needs_gcc, run_onnx
from test_expressions import ELEMENTWISE, SUMS, Z, step_of
from test_formulas import CONDITIONAL, DATABASES, SERIES, SINGLE_ROWS

from termwise import AnovaBasis, BasisRidge, ForwardRegressor, RadialBasis
from termwise.basis.expressions import derivative, evaluate, sum_squares, variable, z
from termwise.deploy import c, onnx
from termwise.deploy.gradient import gradient
from termwise.deploy.predictor import Predictor
from termwise.deploy.program import RESPONSES, Linear, Program

pytestmark = pytest.mark.xdist_group("frozen")
FLAGS = ["-Wmissing-prototypes", "-Wshadow", "-Wconversion"]


def between(table):
    """Points between samples, or between levels, which are at no kink."""
    if not hasattr(table, "iloc"):
        levels = (table == np.round(table)).all(axis=0)
        return np.where(levels, table[1:] + 0.5, (table[1:] + table[:-1]) / 2)
    numbers = [name for name in table if table[name].dtype.kind == "f"]
    middle = table[1:].reset_index(drop=True)
    middle[numbers] = (table[numbers].to_numpy()[1:] + table[numbers].to_numpy()[:-1]) / 2
    return middle


def differences(function, table, inputs):
    """Central differences by each number; NaN for categories."""
    slopes = []
    for j, one in enumerate(inputs):
        if one.categories is not None:
            slopes.append(np.full_like(function(table), np.nan))
            continue
        shifted = []
        values = np.asarray(table.iloc[:, j] if hasattr(table, "iloc") else table[:, j], dtype=float)
        step = 1e-6 * max(1.0, np.std(values))
        for sign in (1, -1):
            moved = table.copy()
            if hasattr(table, "iloc"):
                moved[one.name] = values + sign * step
            else:
                moved[:, j] = values + sign * step
            shifted.append(function(moved))
        slopes.append((shifted[0] - shifted[1]) / (2 * step))
    return np.stack(slopes, axis=-1)


@pytest.mark.parametrize("name", SINGLE_ROWS)
def test_gradient(name):
    case = case_of(name)
    predictor, table = case.predictor, between(case.X)
    function = predictor.predict if predictor.classes is None else predictor.decision_function
    expected = differences(function, table, predictor.inputs)
    found = predictor.gradient(table)
    assert found.shape == expected.shape
    scale = 1 + np.abs(case.outputs()).max()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("name", [*ELEMENTWISE, *SUMS, "greater of z"])
def test_every_operation_has_a_derivative(name):
    step = CONDITIONAL[name] if name in CONDITIONAL else step_of(name)
    k = step.n_terms
    linear = Linear(tuple("abcd"[:k]), np.eye(k), np.zeros(k), False)
    program = Program(schema_of("uvw"), (step,), linear, None)
    points = np.vstack([Z + 0.01, np.zeros((1, 3))]) if name == "power_product" else Z + 0.01
    expected = differences(step.evaluate, points, program.schema.inputs)
    np.testing.assert_allclose(gradient(program, points), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("link", RESPONSES)
def test_links(link):
    fitted = ForwardRegressor(AnovaBasis(n_centers=3), max_terms=6).fit(X, Y if link == "sorted" else y).predictor_
    predictor, points = Predictor(replace(fitted._program, link=link)), between(X)
    expected = differences(predictor.predict, points, predictor.inputs)
    np.testing.assert_allclose(predictor.gradient(points), expected, rtol=1e-5, atol=1e-6)


def test_missing_values_have_no_slope():
    step = CONDITIONAL["isnan of exp"]
    slopes = evaluate(derivative(step.expression, z), {"z": np.array([[np.nan, 1.0]]), **step.parameters})
    np.testing.assert_allclose(slopes, [[0.0, np.e]])


def test_kinks_have_the_derivative_from_the_right():
    x = np.linspace(0, 1, 21)[:, None]
    predictor = BasisRidge(AnovaBasis(n_centers=3, order=1), alpha=1e-3).fit(x, np.sin(3 * x[:, 0])).predictor_
    at = np.array([[-0.5], [0.0], [1.0], [1.5]])
    right = (predictor.predict(at + 1e-7) - predictor.predict(at)) / 1e-7
    np.testing.assert_allclose(predictor.gradient(at)[:, 0], right, atol=1e-4)
    assert predictor.gradient(at)[1, 0] > 1
    u = np.array([-1.0, 0.0, 1.0])
    for function, expected in (
        (np.maximum(z, 0.0), [0, 1, 1]),
        (np.maximum(0.0, -z), [-1, 0, 0]),
        (np.minimum(z, 0.0), [1, 0, 0]),
        (np.minimum(np.maximum(z, 0.0), 1.0), [0, 1, 0]),
    ):
        assert np.broadcast_to(evaluate(derivative(function, z), {"z": u}), 3).tolist() == expected


@pytest.mark.parametrize("formula", ["distance", "kink"])
def test_roots_have_no_slope_at_zero(formula, tmp_path):
    """At its centre a kernel of the distance itself adds nothing to the gradient, and there is no warning."""
    step = step_of("distance")
    if formula == "kink":
        step = replace(step, formula=np.exp(-np.sqrt(sum_squares((z - variable("b")) / variable("w")))))
    linear = Linear(("f",), np.ones((1, 4)), np.zeros(1), False)
    program = Program(schema_of("uvw"), (step,), linear, None)
    found = gradient(program, step.b)
    away = gradient(program, step.b + 1e-9)
    expected = differences(lambda points: step.evaluate(points).sum(axis=1), step.b, program.schema.inputs)
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-6)  # central: a kink is symmetric
    assert (np.abs(found - away).max() < 1e-6) == (formula == "distance")
    root = derivative(np.sqrt(z), z)
    np.testing.assert_array_equal(evaluate(root, {"z": np.array([0.0, 4.0, np.nan])}), [0.0, 0.25, np.nan])
    if shutil.which("gcc") is not None:
        library = compiled([c.source(program, name="m", gradient=True)], tmp_path, "roots", FLAGS)
        slopes = [CompiledModel(library, "m", None, "float64").call("gradient", row, 3)[1] for row in step.b]
        np.testing.assert_allclose(slopes, found[:, 0], rtol=1e-12, atol=1e-14)


def test_roots_of_positive_numbers_need_no_condition():
    text = c.source(BasisRidge(RadialBasis("multiquadric", centers=3)).fit(X, y).predictor_._program, gradient=True)
    assert "(0.5 / sqrt(1.0 + total_2))" in text


def test_gradients_in_blocks_and_of_other_tables():
    predictor = ForwardRegressor(RadialBasis(width=3.0), max_terms=9).fit(X, Y).predictor_
    many = np.tile(between(X), (400, 1))
    np.testing.assert_array_equal(predictor.gradient(many)[:59], predictor.gradient(many[:59]))
    assert predictor.gradient(X[:0]).shape == (0, 2, 4)
    assert predictor.gradient(X[:3].tolist()).shape == (3, 2, 4)
    frame = case_of("TermwiseRegressor frame").predictor
    assert np.isnan(frame.gradient(FRAME)[:, 4:]).all()
    unused = [j for j, name in enumerate(frame.input_names[:4]) if name not in frame.used_inputs]
    assert not frame.gradient(FRAME)[:, unused].any()
    with pytest.raises(
        ValueError, match="gradient requires a model of one row at a time, got one of past values: give"
    ):
        case_of(SERIES[0]).predictor.gradient(X)


@pytest.mark.slow
@needs_gcc
def test_gradient_in_c(tmp_path):
    cases = [case_of(name) for name in SINGLE_ROWS[::5]]
    sources = [c.source(case.predictor._program, name=f"m{i}", gradient=True) for i, case in enumerate(cases)]
    library = compiled(sources, tmp_path, "gradients", FLAGS)
    for i, case in enumerate(cases):
        predictor = case.predictor
        model, d, q = (
            CompiledModel(library, f"m{i}", predictor, "float64"),
            len(predictor.inputs),
            len(predictor.intercept),
        )
        answers = [model.call("gradient", x, q * d) for x in coded(case)]
        assert all(status == 0 for status, _ in answers)
        expected = predictor.gradient(case.X)[: len(answers)]
        found = np.reshape([values for _, values in answers], expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * (1 + np.nanmax(np.abs(expected))))


@needs_gcc
def test_operations_and_links_in_c(tmp_path):
    steps = [step_of(name) for name in [*ELEMENTWISE, *SUMS]]
    schema, linear = schema_of("uvw"), Linear(tuple("abcd"), np.eye(4), np.zeros(4), False)
    programs = [Program(schema, (step,), linear, None) for step in steps]
    programs += [Program(schema, (steps[5],), linear, None, link=link) for link in RESPONSES]
    sources = [c.source(program, name=f"m{i}", gradient=True) for i, program in enumerate(programs)]
    library = compiled(sources, tmp_path, "operations", FLAGS)
    points = np.vstack([Z, np.zeros((1, 3))])
    for i, program in enumerate(programs):
        model = CompiledModel(library, f"m{i}", None, "float64")
        found = [model.call("gradient", row, 12)[1] for row in points]
        np.testing.assert_allclose(np.reshape(found, (-1, 4, 3)), gradient(program, points), rtol=1e-12, atol=1e-14)


@needs_gcc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_log_link_is_bounded_in_every_language(dtype, tmp_path):
    """Far from the data responses end at the largest magnitude of targets, and their gradients are zero."""
    table = pd.DataFrame({"a": np.linspace(-2, 2, 40)})
    predictor = ForwardRegressor(loss="gamma").fit(table, np.exp(table["a"])).predictor_
    far = pd.DataFrame({"a": [1.0, 400.0, 1e9]})
    expected, slopes = predictor.predict(far.astype(dtype)), predictor.gradient(far).ravel()
    assert np.all(np.isfinite(expected))
    assert expected[1] == expected[2] > 1e29
    assert slopes[1:].tolist() == [0.0, 0.0]
    library = compiled([c.source(predictor._program, dtype, "m", gradient=True)], tmp_path, "far", FLAGS)
    model = CompiledModel(library, "m", predictor, dtype)
    for function, values in (("predict", expected), ("gradient", slopes)):
        found = [model.call(function, [u], 1)[1][0] for u in far["a"]]
        np.testing.assert_allclose(found, values, rtol=1e-5)
    if dtype == "float64":
        module = module_of(predictor)
        np.testing.assert_allclose([module.predict([u]) for u in far["a"]], expected)
        for run in DATABASES:
            np.testing.assert_allclose(run(predictor.to_sql(keep=[]), "data", far)["prediction"], expected)
    found = run_onnx(onnx.source(predictor._program, dtype), far.to_numpy(), dtype)["prediction"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_options_of_gradients_in_c(tmp_path):
    predictor = case_of("TermwiseRegressor frame").predictor
    predictor.export(tmp_path / "model.c", gradient=True, dtype="float32")
    text = (tmp_path / "model.c").read_text(encoding="utf-8")
    assert "\nint model_gradient(const float *x, float *g);\n" in text
    assert " * g receives the derivatives of y by 6 inputs; they are NAN for categories." in text
    with pytest.raises(
        ValueError, match="gradient must be True or False, got 'yes': True writes a function for it too"
    ):
        c.source(predictor._program, gradient="yes")
    with pytest.raises(ValueError, match="gradient requires a model of one row at a time, got one of past values"):
        c.source(case_of(SERIES[0]).predictor._program, gradient=True)
