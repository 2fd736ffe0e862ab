"""`NarxRegressor` against its definitions: lagged values, simulation and error-reduction ratios by plain loops."""

from __future__ import annotations

import ctypes
import importlib.util
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer
from test_export import compiled, needs_gcc

from termwise import ForwardRegressor, LagBasis, NarxRegressor, NumericalWarning, Predictor, load_predictor


def system(n, seed=0, noise=0.02):
    """Two inputs and an output of a nonlinear system."""
    rng = np.random.default_rng(seed)
    u, y = rng.uniform(-1, 1, size=(n, 2)), np.zeros(n)
    for t in range(2, n):
        y[t] = 0.5 * y[t - 1] - 0.3 * y[t - 2] * u[t - 1, 1] + 0.8 * u[t - 2, 0] + 0.3 + noise * rng.normal()
    return u, y


def lag_matrix(u, y, lags, input_lags, groups, ok):
    """Lagged values by loops, where no break is between; the rows they belong to."""
    rows, values = [], []
    longest = max([*lags, *input_lags])
    for t in range(longest, len(y)):
        window = range(t - longest, t + 1)
        if all(groups[s] == groups[t] and ok[s] for s in window):
            rows.append(t)
            inputs = [u[t - lag, j] for j in range(u.shape[1]) for lag in input_lags]
            values.append([*(y[t - lag] for lag in lags), *inputs])
    return np.array(values), np.array(rows)


@pytest.fixture(scope="module")
def model():
    return NarxRegressor(lags=2).fit(*system(300, seed=1))


def test_terms_of_the_system_are_found(model):
    weights = dict(zip(model.term_names_, model.weights_, strict=True))
    expected = {"1": 0.3, "y[t-1]": 0.5, "y[t-2] x1[t-1]": -0.3, "x0[t-2]": 0.8}
    assert weights.keys() == expected.keys()
    for name, weight in expected.items():
        assert weights[name] == pytest.approx(weight, abs=0.02)
    assert (model.n_features_in_, model.max_lag_, model.n_terms_) == (2, 2, 4)
    assert model.lags_.tolist() == [1, 2]
    assert model.input_lags_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("lags", [2, [1, 4]])
def test_lags_never_reach_across_a_break(lags):
    """The fit is that of forward selection on the lag matrix of the complete windows."""
    u, y = system(200)
    groups = np.repeat([0, 1, 0, 2], 50)
    broken_u, broken_y = u.copy(), y.copy()
    broken_u[20, 1] = broken_y[75] = broken_y[76] = np.nan
    ok = np.isfinite(broken_y) & np.isfinite(broken_u).all(axis=1)
    own = [1, 2] if lags == 2 else lags
    values, rows = lag_matrix(u, y, own, [0, 1], groups, ok)
    model = NarxRegressor(lags, input_lags=[0, 1]).fit(broken_u, broken_y, groups=groups)
    expected = ForwardRegressor(PolynomialFeatures(2), alpha=0.0, fit_intercept=False).fit(values, y[rows])
    np.testing.assert_array_equal(model.model_.support_, expected.support_)
    np.testing.assert_allclose(model.weights_, expected.weights_, rtol=1e-12)
    predicted = model.predict(broken_u, broken_y, groups)
    np.testing.assert_allclose(predicted[rows], expected.predict(values), rtol=1e-12)
    others = np.setdiff1d(np.arange(200), rows)
    known = others[np.isfinite(predicted[others])]
    assert known.tolist() == [75]  # its own output is missing, which the prediction does not need
    np.testing.assert_allclose(
        model.one_step_score(broken_u, broken_y, groups),
        1 - np.sum((y[rows] - expected.predict(values)) ** 2) / np.sum((y[rows] - y[rows].mean()) ** 2),
    )


def simulation_by_a_loop(model, u, first, n):
    """A free run from the terms as polynomials of the lagged values."""
    names = dict(zip(model.term_names_, model.weights_, strict=True))
    y = [*first]
    for t in range(len(first), n):
        value = 0.0
        for name, weight in names.items():
            factor = weight
            for part in name.split():
                if part == "1":
                    continue
                part, _, power = part.partition("^")
                variable, _, lag = part.rstrip("]").partition("[t")
                past = t + int(lag or 0)
                factor *= (y[past] if variable == "y" else u[past, int(variable[1:])]) ** int(power or 1)
            value += factor
        y.append(value)
    return np.array(y)


def test_simulation_equals_a_loop(model):
    u, y = system(80, seed=4)
    expected = simulation_by_a_loop(model, u, y[:5], 80)
    np.testing.assert_allclose(model.simulate(u, y[:5]), expected, rtol=1e-12)
    free = simulation_by_a_loop(model, u, y[:2], 80)
    residuals = (y - free)[2:]
    np.testing.assert_allclose(model.score(u, y), 1 - np.sum(residuals**2) / np.sum((y[2:] - y[2:].mean()) ** 2))
    assert model.score(u, y) == model.free_run_score(u, y) < model.one_step_score(u, y)
    table = np.column_stack([y, u])
    np.testing.assert_allclose(model.predictor_.free_run(table, start=5), expected, rtol=1e-12)
    padded = np.vstack([u[:1], u[:1], u])
    expected = simulation_by_a_loop(model, padded, [model.output_mean_] * 2, 82)[2:]
    np.testing.assert_allclose(model.predict(u), expected, rtol=1e-12)


def test_scores_join_the_sequences(model):
    u, y = system(90, seed=2)
    groups = np.repeat([1, 2, 3], [40, 1, 49])
    parts = [simulation_by_a_loop(model, u[rows], y[rows][:2], 40)[2:] for rows in (slice(40), slice(41, 81))]
    last = simulation_by_a_loop(model, u[41:], y[41:43], 49)[2:]
    np.testing.assert_allclose(last[:38], parts[1])
    measured, simulated = np.concatenate([y[2:40], y[43:]]), np.concatenate([parts[0], last])
    expected = 1 - np.sum((measured - simulated) ** 2) / np.sum((measured - measured.mean()) ** 2)
    assert model.free_run_score(u, y, groups) == pytest.approx(expected)


@pytest.mark.parametrize("intercept", ["auto", True])
def test_error_reduction_ratios_equal_the_definition(intercept):
    """The share of the sum of squares that an orthogonalised column explains: Gram-Schmidt."""
    u, y = system(150)
    model = NarxRegressor(2, fit_intercept=intercept).fit(u, y)
    values, rows = lag_matrix(u, y, [1, 2], [0, 1, 2], np.zeros(150), np.ones(150, dtype=bool))
    columns = PolynomialFeatures(2, include_bias=intercept == "auto").fit_transform(values)[:, model.model_.support_]
    target = y[rows] - (y[rows].mean() if intercept is True else 0)
    basis = [] if intercept == "auto" else [np.ones(len(rows))]
    ratios = []
    for column in columns.T:
        for one in basis:
            column = column - one * (one @ column) / (one @ one)
        basis.append(column)
        ratios.append((column @ target) ** 2 / (column @ column) / (target @ target))
    np.testing.assert_allclose(model.error_reduction_ratios_, ratios, rtol=1e-8, atol=1e-12)
    assert 0.99 < sum(ratios) < 1


def test_summary_has_errors_persistence_and_ratios(model):
    u, y = system(300, seed=1)
    errors = model.training_errors_
    assert errors["persistence"] == pytest.approx(np.sqrt(np.mean((y[2:] - y[1:-1]) ** 2)))
    free = simulation_by_a_loop(model, u, y[:2], 300)
    assert errors["free_run"] == pytest.approx(np.sqrt(np.mean((y - free)[2:] ** 2)))
    assert errors["one_step"] == pytest.approx(np.sqrt(model.criterion_value_))
    lines = model.summary(max_terms=3).splitlines()
    assert lines[0] == "NarxRegressor: 4 of 45 terms, 298 samples"
    assert lines[1] == "lags of the output 1, 2, of the inputs 0 to 2"
    assert lines[2].endswith(f"persistence {errors['persistence']:.4g}")
    assert lines[3].split() == ["term", "weight", "std.", "error", "ERR"]
    assert lines[4].endswith(f"{model.error_reduction_ratios_[0]:.4%}")
    assert lines[-1] == "... and 1 more"


def test_order_is_chosen_by_the_criterion_on_the_same_rows():
    u, y = system(120)
    model = NarxRegressor("auto", max_lag=4).fit(u, y)
    for order in range(1, 5):
        values, rows = lag_matrix(u, y, range(1, order + 1), range(order + 1), np.zeros(120), np.ones(120, dtype=bool))
        values, rows = values[rows >= 4], rows[rows >= 4]
        fitted = ForwardRegressor(PolynomialFeatures(2), alpha=0.0, fit_intercept=False).fit(values, y[rows])
        assert model.order_criteria_[order] == pytest.approx(fitted.criterion_value_)
    best = min(model.order_criteria_, key=model.order_criteria_.get)
    assert model.lags_.tolist() == list(range(1, best + 1))
    assert best >= 2


def test_size_by_free_run_is_the_smallest_that_is_nearly_best():
    u, y = system(150, noise=0.3)
    largest = NarxRegressor(2).fit(u, y)
    chosen = NarxRegressor(2, criterion="free_run").fit(u, y)
    errors = []
    for k in range(1, largest.n_terms_ + 1):
        cut = clone(largest).set_params(criterion=None, max_terms=k).fit(u, y)
        errors.append((y - simulation_by_a_loop(cut, u, y[:2], 150))[2:] ** 2)
    means = [one.mean() for one in errors]
    best = int(np.argmin(means))
    limit = means[best] + errors[best].std() / np.sqrt(148)
    assert chosen.n_terms_ == 1 + next(i for i, mean in enumerate(means) if mean <= limit)


def test_a_model_at_another_size_is_that_of_its_path(model):
    u, y = system(300, seed=2)
    other = model.at(2)
    assert other.term_names_ == model.term_names_[:2]
    np.testing.assert_allclose(other.weights_, model.model_.at(2).weights_)
    np.testing.assert_allclose(other.error_reduction_ratios_, model.error_reduction_ratios_[:2])
    assert other.training_errors_.keys() == {"one_step", "persistence"}
    assert other.training_errors_["one_step"] > model.training_errors_["one_step"]
    assert other.free_run_score(u, y) < model.free_run_score(u, y)
    np.testing.assert_allclose(model.at(model.n_terms_).predict(u, y), model.predict(u, y))
    with pytest.raises(ValueError, match=r"n_terms must be .*the path has"):
        model.at(len(model.path_) + 1)


def test_diverging_simulation_stays_in_its_range():
    y = np.empty(40)
    y[0] = 0.01
    for t in range(1, 40):
        y[t] = 1.1 * y[t - 1] + 0.05 * y[t - 1] ** 2
    y = y[y < 3]
    model = NarxRegressor(1).fit(None, y)
    low, high = model.simulation_range_
    assert (low, high) == (y.min() - np.ptp(y), y.max() + np.ptp(y))
    with pytest.warns(NumericalWarning, match=r"the simulation left the range \[.*\] in row \d+ and is held in it"):
        values = model.simulate(None, y[-1:], n_steps=60)
    assert values.max() == values[-1] == high
    with pytest.warns(NumericalWarning, match="the simulation left the range"):
        model.score(None, np.concatenate([y, np.full(60, y[-1])]))


def test_a_model_without_inputs():
    t = np.arange(80)
    y = np.sin(0.3 * t)
    model = NarxRegressor(2).fit(None, y)
    np.testing.assert_allclose(model.simulate(None, y[:2], n_steps=78), y, atol=1e-8)
    np.testing.assert_allclose(model.predict(None, y)[2:], y[2:], atol=1e-8)
    assert len(model.simulate(None, n_steps=7)) == 7
    assert "lags of the output 1, 2\n" in model.summary()


def test_names_of_frames():
    u, y = system(100)
    frame = pd.DataFrame(u, columns=["valve", "level"])
    model = NarxRegressor(2).fit(frame, pd.Series(y, name="level"))
    assert {"level_[t-1]", "level_[t-2] level[t-1]", "valve[t-2]"} <= set(model.term_names_)
    assert model.predictor_.input_names == ["level_", "valve", "level"]
    assert model.feature_names_in_.tolist() == ["valve", "level"]


@pytest.mark.parametrize("basis", ["radial", None, SplineTransformer(4)], ids=["radial", "none", "splines"])
def test_other_bases(basis):
    u, y = system(250)
    model = NarxRegressor(2, basis=basis).fit(u[:200], y[:200])
    assert model.model_.fit_intercept
    assert model.free_run_score(u[200:], y[200:]) > (0.7 if basis is None else 0.85)
    assert model.intercept_ != 0
    assert "intercept" in model.summary()
    assert len(model.term_names_) == model.n_terms_


def test_constant_output_has_no_terms():
    model = NarxRegressor(1, basis=None).fit(None, np.full(20, 3.0))
    assert model.n_terms_ == 0
    np.testing.assert_allclose(model.simulate(None, n_steps=3), 3.0)
    assert model.summary().endswith("no terms: the model is constant")


def test_a_failed_fit_leaves_the_former_model(model):
    copy = clone(model).fit(*system(100))
    weights = copy.weights_
    with pytest.raises(ValueError, match="y must have at least two rows"):
        copy.fit(np.zeros((3, 2)), np.zeros(3))
    assert copy.weights_ is weights


# -- exports -----------------------------------------------------------------------------------------------------------


def test_predictor_predicts_one_step_ahead(model, tmp_path):
    u, y = system(50, seed=3)
    model.export(tmp_path / "model.json")
    predictor = load_predictor(tmp_path / "model.json")
    assert predictor == model.predictor_ == Predictor.from_estimator(model)
    np.testing.assert_allclose(predictor.predict(np.column_stack([y, u]))[2:], model.predict(u, y)[2:], rtol=1e-12)
    assert predictor.term_names == model.term_names_


@cache
def exported_models():
    u, y = system(120)
    return {
        "polynomial": (NarxRegressor(2).fit(u, y), u),
        "radial": (NarxRegressor(2, basis="radial", max_terms=8).fit(u, y), u),
        "past alone": (NarxRegressor(3).fit(None, np.cos(0.3 * np.arange(60))), None),
        "present alone": (NarxRegressor(1, input_lags=[0]).fit(u, u[:, 0] - 2 * u[:, 1] ** 2), u),
    }


@pytest.mark.parametrize("name", ["polynomial", "radial", "past alone", "present alone"])
def test_simulation_in_python(name, tmp_path):
    model, u = exported_models()[name]
    model.export(tmp_path / "model.py")
    spec = importlib.util.spec_from_file_location("exported", tmp_path / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    first, steps = np.linspace(-0.5, 0.5, model.max_lag_), 40
    inputs = np.empty((len(first) + steps, 0)) if u is None else u[: len(first) + steps]
    run = module.Simulation([[value, *row] for value, row in zip(first, inputs, strict=False)])
    found = [run.step(row) for row in inputs[len(first) :].tolist()]
    expected = simulated(model, u, first, steps)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="inputs must have"):
        run.step([0.0] * 5)
    if model.predictor_._program.lags.longest:
        with pytest.raises(ValueError, match="past must have at least"):
            module.Simulation([])


def simulated(model, u, first, steps):
    """The simulation after its initial values."""
    n_steps = steps if u is None else None
    return model.simulate(None if u is None else u[: len(first) + steps], first, n_steps)[len(first) :]


@needs_gcc
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_simulation_in_c(dtype, tmp_path):
    sources, models = [], list(exported_models().values())
    for i, (model, _) in enumerate(models):
        model.export(tmp_path / "model.c", dtype=dtype, name=f"m{i}")
        sources.append((tmp_path / "model.c").read_text())
    library = compiled(sources, tmp_path, "simulations", ["-Wshadow", "-Wconversion"])
    real = ctypes.c_double if dtype == "float64" else ctypes.c_float
    for i, (model, u) in enumerate(models):
        first, past = np.linspace(-0.5, 0.5, model.max_lag_), model.predictor_._program.lags.longest
        inputs = np.empty((len(first) + 40, 0)) if u is None else u[: len(first) + 40]
        rows = np.column_stack([first, inputs[: len(first)]])[len(first) - past :].ravel()
        state, output = ctypes.create_string_buffer(4096), real()
        getattr(library, f"m{i}_init")(state, (real * len(rows))(*rows))
        found = []
        for row in inputs[len(first) :]:
            assert getattr(library, f"m{i}_step")(state, (real * len(row))(*row), ctypes.byref(output)) == 0
            found.append(output.value)
        tolerance = 1e-10 if dtype == "float64" else 1e-4
        np.testing.assert_allclose(found, simulated(model, u, first, 40), rtol=tolerance, atol=tolerance)
    step = library.m0_step  # a missing input is an error, as in a prediction
    assert [step(state, (real * 2)(np.nan, 0.0), ctypes.byref(output)) for _ in range(3)][-1] > 0


@needs_gcc
def test_exported_simulations_stay_in_their_range(tmp_path):
    y = 0.01 * 1.2 ** np.arange(30)
    model = NarxRegressor(1, degree=1).fit(None, y)
    model.export(tmp_path / "model.c")
    library = compiled([(tmp_path / "model.c").read_text()], tmp_path, "diverging")
    state, output = ctypes.create_string_buffer(4096), ctypes.c_double()
    library.model_init(state, (ctypes.c_double * 1)(y[-1]))
    for _ in range(60):
        library.model_step(state, None, ctypes.byref(output))
    assert output.value == model.simulation_range_[1]


def test_lag_basis_models_export_simulations_without_limits(tmp_path):
    u, y = system(100)
    table = np.column_stack([y, u])
    model = ForwardRegressor(LagBasis(2)).fit(table, y)
    model.predictor_.export(tmp_path / "model.py", simulation=True)
    assert "class Simulation" in (tmp_path / "model.py").read_text()
    assert "max(" not in (tmp_path / "model.py").read_text().split("class Simulation")[1]


def test_diverging_free_runs_without_limits(tmp_path):
    y = 0.01 * 1.2 ** np.arange(30)
    model = NarxRegressor(1).fit(None, y + 0.1 * y**2)
    predictor = model.predictor_
    table = np.full((40, 1), 1e9)
    with pytest.raises(
        ValueError, match=r"free_run must have finite predictions .*, got -?inf in row (\d+): the simul"
    ):
        predictor.free_run(table, start=1)
    predictor.export(tmp_path / "model.py", simulation=True)
    names = {}
    exec((tmp_path / "model.py").read_text(), names)
    run = names["Simulation"]([[1e9]])
    with pytest.raises(ValueError, match="the past values used by the prediction must be finite numbers"):
        _ = [run.step() for _ in range(40)]
    run = names["Simulation"]([[1e9]])
    with np.errstate(over="ignore"):
        expected = predictor.predict(np.array([[1e9], [np.nan]]))[1]
    assert run.step() == pytest.approx(expected, rel=1e-12)


def test_everything_stays_silent():
    u, y = system(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NarxRegressor(1).fit(u.astype(np.float32), y.tolist(), groups=["a"] * 60)
