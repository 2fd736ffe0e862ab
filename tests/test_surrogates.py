"""Surrogates: guaranteed bounds over boxes, points to measure next, expressions of Pyomo."""

from __future__ import annotations

import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from frozen_models import FRAME, X, Y, case_of, y
from scipy.spatial.distance import pdist
from test_formulas import LAGGED, MISSING, SINGLE_ROWS

import termwise
from termwise import (
    AnovaBasis,
    BasisRidge,
    ForwardRegressor,
    FourierBasis,
    Predictor,
    RadialBasis,
    TermwiseRegressor,
    suggest,
)

pytestmark = pytest.mark.xdist_group("frozen")
RNG = np.random.default_rng(0)
LOW, HIGH = np.quantile(X, [0.25, 0.75], axis=0)
INSIDE = LOW + (HIGH - LOW) * RNG.uniform(size=(500, 4))
BOX = list(zip(LOW, HIGH, strict=True))


# -- bounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in SINGLE_ROWS if isinstance(case_of(name).X, np.ndarray)][::7])
def test_no_prediction_is_outside_the_bounds(name):
    predictor = case_of(name).predictor
    if len(predictor.inputs) != 4:
        pytest.skip("has other inputs")
    lower, upper = predictor.bounds(BOX, max_boxes=50)
    found = predictor.predict(INSIDE) if predictor.classes is None else predictor.decision_function(INSIDE)
    scale = 1e-9 * (1 + np.abs(found).max())
    assert np.all(found >= lower - scale)
    assert np.all(found <= upper + scale)


@pytest.mark.parametrize(
    "basis",
    [AnovaBasis(order=1), AnovaBasis(functions=("linear", "hinge", "step"), order=1), FourierBasis(1), None],
    ids=["bumps", "steps", "waves", "columns"],
)
def test_bounds_are_attained(basis):
    predictor = ForwardRegressor(basis, max_terms=6, criterion=None).fit(X, y).predictor_
    lower, upper, lowest, highest = predictor.bounds(BOX, tol=0.01, max_boxes=4000, return_points=True)
    attained = predictor.predict([lowest, highest])
    spread = attained[1] - attained[0]
    assert np.all((lowest >= LOW - 1e-12) & (lowest <= HIGH + 1e-12))
    assert 0 <= attained[0] - lower <= 0.05 * spread
    assert 0 <= upper - attained[1] <= 0.05 * spread
    assert predictor.bounds(BOX, tol=0.01, max_boxes=1)[0] <= lower


def test_points_of_bounds_are_in_the_box_also_in_inputs_that_no_term_uses():
    table = FRAME[["speed", "kind", "load"]]
    predictor = TermwiseRegressor(dictionary="linear").fit(table, 2 * FRAME["load"]).predictor_
    assert predictor.used_inputs == ["load"]
    box = [(100.0, 300.0), "w", (-1.0, 2.0)]
    lower, upper, lowest, highest = predictor.bounds(box, return_points=True)
    np.testing.assert_allclose([lowest, highest], [[200.0, 2.0, -1.0], [200.0, 2.0, 2.0]], rtol=1e-9)
    for less in ({"load": (-1.0, 2.0)}, [None, None, (-1.0, 2.0)]):
        found = predictor.bounds(less, return_points=True)
        assert found[:2] == (lower, upper)
        assert found[2].tolist() == [0.0, 0.0, lowest[2]]
    with pytest.raises(ValueError, match="box must have two finite numbers low <= high for speed, got"):
        predictor.bounds([(3.0, 1.0), "w", (-1.0, 2.0)])


def test_bounds_of_several_outputs_links_and_categories():
    predictor = BasisRidge(RadialBasis(width=8.0, centers=5), alpha=1e-2).fit(X, Y).predictor_
    lower, upper, lowest, highest = predictor.bounds(BOX, max_boxes=100, return_points=True)
    assert lower.shape == upper.shape == (2,)
    assert lowest.shape == highest.shape == (2, 4)
    counts = case_of("counts").predictor
    table = case_of("counts").X
    box = list(zip(table.min(axis=0), table.max(axis=0), strict=True))
    lower, upper = counts.bounds(box, max_boxes=50)
    assert 0 <= lower <= counts.predict(table).min()
    assert upper >= counts.predict(table).max()
    mixed = case_of("TermwiseRegressor frame").predictor
    row = dict(FRAME.iloc[0])
    fixed = {one.name: row[one.name] for one in mixed.inputs}
    lower, upper = mixed.bounds(fixed)
    np.testing.assert_allclose([lower, upper], mixed.predict(FRAME[:1])[0], rtol=1e-9)


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ([(0, 1)], r"box must have a pair \(low, high\) for each of 4 inputs, got 1: or give a dict by their names"),
        (3, r"box must have a pair .*, got int"),
        ({"x0": (0, 1)}, r"box must have an entry for the inputs in use, got none for x1, .*: the model uses x0, x1"),
        (dict.fromkeys(["x0", "x1", "x2", "x3", "z"], (0, 1)), r"got one for z: the model uses"),
        ([(0, 1), (0, 1), (0, 1), (1, 0)], r"box must have two finite numbers low <= high for x3, got \(1, 0\): one"),
        ([(0, 1), (0, np.inf), 0, 0], r"box must have two finite numbers low <= high for x1, got"),
        ([(0, 1), (0, 10**400), 0, 0], r"box must have two finite numbers low <= high for x1, got"),
        (
            [(-1e308, 1e308), 0, 0, 0],
            r"box must have a finite width high - low for x0, got \(-1e\+308, 1e\+308\): give",
        ),
    ],
)
def test_invalid_boxes(box, message):
    predictor = BasisRidge(alpha=0).fit(X, y).predictor_
    with pytest.raises(ValueError, match=message):
        predictor.bounds(box)


def test_bounds_of_wide_boxes():
    predictor = BasisRidge(alpha=0).fit(X[:, :2], y).predictor_
    for ends in ((-8e307, 8e307), (1e308, 1.7e308)):
        lower, upper = predictor.bounds([ends, 0.0])
        assert lower <= predictor.predict([[ends[0] + (ends[1] - ends[0]) / 2, 0.0]])[0] <= upper


def test_bounds_refuse():
    predictor = case_of("TermwiseRegressor frame").predictor
    box = dict(FRAME.iloc[0]) | {"kind": "q"}
    with pytest.raises(ValueError, match=r"box must have one category for kind, got 'q': it is one of 'u', 'v', 'w'"):
        predictor.bounds({one.name: box[one.name] for one in predictor.inputs})
    for several in (np.array(["u", "v"]), ["u"], pd.NA):
        with pytest.raises(
            ValueError, match=r"box must have one category for kind, got .*: it is one of 'u', 'v', 'w'"
        ):
            predictor.bounds({one.name: (box | {"kind": several})[one.name] for one in predictor.inputs})
    with pytest.raises(ValueError, match="bounds requires a model of one row at a time, got one of past values"):
        case_of(LAGGED).predictor.bounds(BOX)
    with pytest.raises(ValueError, match="tol must be a finite number > 0 and < 1, got 2: 1e-3 is a thousandth"):
        predictor.bounds(box, tol=2)


# -- points to measure next --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uncertain():
    """A function of two inputs, measured in three quarters of the box only."""
    points = np.random.default_rng(3).uniform(size=(120, 2))
    points = points[(points < 0.6).any(axis=1)][:80]
    values = np.sin(5 * points[:, 0]) * np.cos(4 * points[:, 1])
    basis = AnovaBasis(n_centers=4)
    return ForwardRegressor(basis, selection_cv=5, max_terms=12).fit(points, values), points


def test_suggestions_are_in_the_box_and_apart(uncertain):
    model, points = uncertain
    found = suggest(model, [(0, 1), (0, 1)], 6, X=points, random_state=0)
    assert found.shape == (6, 2)
    assert ((found >= 0) & (found <= 1)).all()
    assert pdist(found).min() > 0.05
    np.testing.assert_array_equal(found, suggest(model, {"x1": (0, 1), "x0": (0, 1)}, 6, X=points, random_state=0))
    assert not np.array_equal(found, suggest(model, [(0, 1), (0, 1)], 6, X=points, random_state=1))
    predictor = Predictor.from_estimator(model)
    np.testing.assert_array_equal(found, suggest(predictor, [(0, 1), (0, 1)], 6, X=points, random_state=0))


def test_suggestions_are_where_the_fold_models_disagree(uncertain):
    model, points = uncertain
    found = suggest(model, [(0, 1), (0, 1)], 1, random_state=0)
    models = model.fitted_terms_.fold_models
    spread = models.outputs(RNG.uniform(size=(500, 2))).std(axis=0)[:, 0]
    assert models.outputs(found).std(axis=0)[0, 0] >= np.quantile(spread, 0.99)
    nearest = np.sqrt(((suggest(model, [(0, 1), (0, 1)], 3, X=points, random_state=0)[:, None] - points) ** 2).sum(2))
    assert nearest.min() > 0.03


def test_suggestions_of_whole_numbers_and_categories():
    table = pd.DataFrame({"n": RNG.integers(1, 9, 60).astype(float), "x": RNG.normal(size=60)})
    table["kind"] = RNG.choice(["a", "b", "c"], 60)
    target = table["n"] * (table["kind"] == "a") + table["x"] ** 2
    model = termwise.TermwiseRegressor(dictionary="additive", random_state=0).fit(table, target)
    bounds = {"n": (0.5, 8), "x": (-1, 1), "kind": ["a", "b"]}
    found = suggest(model, bounds, 5, X=table, integer=["n"], random_state=0)
    assert set(found[:, 0]) <= set(range(1, 9))
    assert set(found[:, 2]) <= {"a", "b"}
    assert all(-1 <= value <= 1 for value in found[:, 1])
    with pytest.raises(ValueError, match=r"integer must name inputs that are numbers, got kind: they are n, x"):
        suggest(model, bounds, integer=["kind"])
    with pytest.raises(ValueError, match=r"bounds of kind must be categories of the fit, got \['z'\]: there must be"):
        suggest(model, bounds | {"kind": ["z"]})
    with pytest.raises(ValueError, match=r"bounds of n must be two finite numbers low <= high, got \(1.2, 1.8\)"):
        suggest(model, bounds | {"n": (1.2, 1.8)}, integer=[0])


def test_suggest_refuses(uncertain):
    model, _ = uncertain
    with pytest.raises(ValueError, match="model must be a regression with fold models, got one without: fit a Term"):
        suggest(BasisRidge().fit(X, y), BOX)
    with pytest.raises(ValueError, match=r"bounds must have an entry for each of 2 inputs, got 0: give pairs"):
        suggest(model, [(0, 1)])
    with pytest.raises(ValueError, match="n must be a whole number >= 1, got 0: it is the number of points to measure"):
        suggest(model, [(0, 1), (0, 1)], 0)
    for value, got in ((np.nan, "nan"), (np.inf, "inf")):
        known = np.array([[0.1, 0.2], [0.3, value]])
        with pytest.raises(ValueError, match=f"X must hold finite numbers in x1, got {got} in row 1: drop the rows wi"):
            suggest(model, [(0, 1), (0, 1)], 2, X=known)


# -- Pyomo -------------------------------------------------------------------------------------------------------------

COMPLETE = [name for name in SINGLE_ROWS if isinstance(case_of(name).X, np.ndarray) and name not in MISSING]
NUMBERS = [*COMPLETE[::9], "TermwiseRegressor frame"]


@pytest.mark.parametrize("name", NUMBERS)
def test_pyomo(name):
    pyo = pytest.importorskip("pyomo.environ", reason="Pyomo is not installed")
    case = case_of(name)
    names: dict = {}
    exec(termwise.deploy.pyomo.source(case.predictor._exported), names)
    model = pyo.ConcreteModel()
    model.x = pyo.Var(names["INPUTS"])
    found = case.predictor.to_pyomo(model.x)
    found = found if isinstance(found, list) else [found]
    for row, expected in zip(case.rows[:3], case.outputs()[:3], strict=True):
        for one, value in zip(case.predictor.inputs, row, strict=True):
            for symbol in names["INPUTS"]:
                if symbol == one.name:
                    model.x[symbol].value = float(value)
                elif symbol.startswith(f"{one.name}="):
                    model.x[symbol].value = float(symbol == f"{one.name}={value}")
        np.testing.assert_allclose([pyo.value(each) for each in found], np.ravel(expected), rtol=1e-9, atol=1e-9)


def test_pyomo_module(tmp_path):
    pytest.importorskip("pyomo", reason="Pyomo is not installed")
    BasisRidge(alpha=0).fit(X, X @ [1.0, 2.0, 3.0, 4.0]).predictor_.export(tmp_path / "model.pyomo.py")
    spec = importlib.util.spec_from_file_location("exported_pyomo", tmp_path / "model.pyomo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.INPUTS == ["x0", "x1", "x2", "x3"]
    assert abs(module.prediction(dict.fromkeys(module.INPUTS, 1.0)) - 10) < 1e-9


def test_pyomo_refuses(monkeypatch):
    predictor = BasisRidge(alpha=0).fit(X, y).predictor_
    with pytest.raises(TypeError, match="variables must be a mapping from names of inputs to variables of Pyomo"):
        predictor.to_pyomo(3)
    monkeypatch.setitem(sys.modules, "pyomo", None)
    with pytest.raises(ImportError, match=r"Writing Pyomo expressions needs pyomo, .* 'termwise\[pyomo\]'"):
        predictor.to_pyomo({})
    monkeypatch.setitem(sys.modules, "pyomo", SimpleNamespace(environ=None))
    monkeypatch.setitem(sys.modules, "pyomo.environ", SimpleNamespace())
    with pytest.raises(ValueError, match="variables must have an entry for every input in use, got none for x0"):
        predictor.to_pyomo({})
