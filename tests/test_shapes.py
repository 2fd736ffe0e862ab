"""Hinges, steps and ramps of AnovaBasis, against loops over the definition."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from oracles import boosted_thresholds, shape_basis, shape_knots
from test_export import CompiledModel, compiled, module_of, needs_gcc, run_onnx

from termwise import AnovaBasis, ForwardRegressor, Predictor, load_predictor
from termwise.deploy import c, onnx

KINDS = ["linear", "bump", "hinge >", "hinge <", ">", "<=", "ramp"]
ALL = ("linear", "hinge", "step", "ramp")


def factors_of(basis):
    """Input, kind and place of the factors of each function, from the fitted attributes."""
    codes, knots = basis.codes(), basis.knots_.shape[1]
    starts = np.column_stack([basis.ranges_[0], basis.knots_])
    found = []
    for pair, numbers in zip(basis.inputs_.tolist(), basis.bumps_.tolist(), strict=True):
        factors = []
        for j, number in zip(pair, numbers, strict=True):
            if j >= 0:
                code = codes[number]
                position = (number - 1 - basis.centers_.shape[1]) % knots
                place = 0.0 if code == 0 else starts[j, number - np.argmax(codes == 6)] if code == 6 else None
                factors.append((j, KINDS[code], basis.knots_[j, position] if place is None else place))
        found.append(factors)
    return found


@pytest.fixture
def X(rng):
    """Inputs that are smooth, heavy-tailed, of few values with one common, of two values, constant."""
    n = 80
    few = np.where(rng.uniform(size=n) < 0.6, 28.0, rng.choice([1.0, 3.0, 7.0, 56.0, 90.0], size=n))
    X = np.column_stack([rng.normal(size=n), np.exp(2 * rng.normal(size=n)), few, rng.integers(0, 2, n), np.ones(n)])
    X[[50, 55]] = X[[3, 3]]
    return X


@pytest.mark.parametrize("functions", [("hinge",), ("step",), ("ramp",), ("linear", "step"), ALL])
@pytest.mark.parametrize(("n_knots", "min_count", "order"), [(2, 5, 2), (9, 0, 1), (1, 12, 2)])
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_equals_the_definition(X, functions, n_knots, min_count, order, holes, rng):
    X[rng.uniform(size=X.shape) < holes] = np.nan
    new = np.vstack([X[:15], X[20:40] + np.array([1.0, 50.0, 40.0, 0.0, 0.0])])
    groups = [0, -1, 0, -1, -1]
    basis = AnovaBasis(functions=functions, n_knots=n_knots, min_count=min_count, order=order, groups=groups).fit(X)
    factors, G = shape_basis(X, new, functions, n_knots, min_count, order, groups)
    found = factors_of(basis)
    assert [[one[:2] for one in each] for each in found] == [[one[:2] for one in each] for each in factors]
    for one, other in zip(found, factors, strict=True):
        np.testing.assert_allclose([place for *_, place in one], [place for *_, place in other])
    np.testing.assert_allclose(basis.transform(new), G, atol=1e-12)
    np.testing.assert_allclose(basis.design(new).columns(slice(None)), G, atol=1e-12)


def test_knots_of_common_values_and_of_neighbours(rng):
    x = np.repeat([1.0, 2.0, 5.0, 6.0, 9.0], [2, 60, 10, 10, 18])
    X = np.column_stack([x, rng.normal(size=100)])  # all samples differ
    knots = AnovaBasis(functions=["step"], n_knots=3).fit(X).knots_[0]
    np.testing.assert_allclose(knots, [3.5, 5.5, 7.5])  # 2 counts as much as a quarter of the samples; 1 is rare
    close = np.array([1.0, np.nextafter(1.0, 2.0)]).repeat(20)
    X = np.column_stack([np.append(close, 3.0 + np.zeros(20)), rng.normal(size=60)])
    basis = AnovaBasis(functions=["step"]).fit(X)
    assert basis.transform(X)[:, 0].tolist() == [0.0] * 20 + [1.0] * 40
    np.testing.assert_allclose(shape_knots(x, 3, 10), [3.5, 5.5, 7.5])


def test_names_read_as_rules(rng):
    X = pd.DataFrame({"age": rng.integers(0, 6, 300), "dose": rng.integers(0, 6, 300), "on": rng.integers(0, 2, 300)})
    basis = AnovaBasis(functions=("linear", "bump", "hinge", "step", "ramp"), min_count=1).fit(X)
    names = list(basis.get_feature_names_out())
    expected = ["age > 2.5", "age > 2.5 and dose <= 1.5", "hinge(age > 2.5)", "hinge(age < 1.5) * (dose > 3.5)", "on",
                "(age <= 1.5) * on", "ramp(age from 0.5 to 2.5)", "age * dose",
                "ramp(dose from 2.5 to 4.5) * on"]  # fmt: skip
    assert set(expected) <= set(names)
    assert any(name.startswith("bump(age near ") and name.endswith(" * (dose > 2.5)") for name in names)
    assert len(set(names)) == len(names)
    assert not {"age <= 2.5", "on > 0.5"} & set(names)  # multiples of others beside the intercept


def test_rules_are_found(rng):
    X = rng.uniform(-1, 1, size=(300, 4))
    X[:30, 2] = np.nan
    y = 2.0 * ((X[:, 0] > 0.2) & (X[:, 1] <= 0.5)) + np.maximum(np.nan_to_num(X[:, 2]), 0)
    model = ForwardRegressor(AnovaBasis(functions=("linear", "hinge", "step")), max_terms=12).fit(X, y)
    assert model.score(X, y) > 0.9
    names = model.get_feature_names_out()
    assert any(" and " in name for name in names)
    assert any("hinge(x2" in name for name in names)
    assert np.isfinite(model.predict(X)).all()


def test_pickles_of_earlier_versions_are_readable(X):
    """These have none of the attributes that came with other functions than bumps."""
    basis = AnovaBasis(n_centers=2, min_count=5).fit(X)
    state = basis.__getstate__()
    new = ("functions", "n_knots", "groups", "monotone", "knots", "knots_", "monotone_", "weight_signs_", "missing_")
    old = AnovaBasis.__new__(AnovaBasis)
    old.__setstate__({name: value for name, value in state.items() if name not in new})
    np.testing.assert_array_equal(old.transform(X), basis.transform(X))
    np.testing.assert_array_equal(old.take([3]).transform(X), basis.take([3]).transform(X))
    assert old.get_params() == basis.get_params()
    again = pickle.loads(pickle.dumps(AnovaBasis(functions=ALL, n_knots=2).fit(X)))
    np.testing.assert_array_equal(again.transform(X), AnovaBasis(functions=ALL, n_knots=2).fit_transform(X))


def test_products_of_one_group_are_left_out(X):
    basis = AnovaBasis(functions=("linear", "bump", "step"), groups=[0, 1, 0, 1, 5]).fit(X)
    pairs = {tuple(pair) for pair in basis.inputs_.tolist()}
    assert pairs == {(0, -1), (1, -1), (2, -1), (3, -1), (0, 1), (0, 3), (1, 2), (2, 3)}


@needs_gcc
def test_missing_values_are_exported(rng, tmp_path):
    """Functions of missing inputs are zero in files, Python, C and ONNX alike."""
    X = rng.normal(size=(200, 3))
    X[rng.uniform(size=X.shape) < [0.3, 0.2, 0.0]] = np.nan
    y = np.nan_to_num(X[:, 0] * X[:, 2]) + (X[:, 1] > 0.5) + np.isnan(X[:, 1])
    basis = AnovaBasis(2, functions=("linear", "bump", "hinge", "step", "ramp"), n_knots=3)
    model = ForwardRegressor(basis, criterion=None, max_terms=25).fit(X, y)
    new = X * 2  # also beyond the training range
    expected, predictor = model.predict(new), Predictor.from_estimator(model)
    assert len(set(model.basis_.codes()[model.basis_.bumps_[model.support_]].ravel())) > 4
    predictor.save(tmp_path / "model.json")
    np.testing.assert_allclose(load_predictor(tmp_path / "model.json").predict(new), expected, atol=1e-12)
    found = [module_of(predictor).predict(row) for row in new.tolist()]
    np.testing.assert_allclose(np.ravel(found), expected, atol=1e-12)
    library = compiled([c.source(predictor._program)], tmp_path, "model")
    found = [CompiledModel(library, "model", predictor, "float64").call("predict", row, 1) for row in new]
    np.testing.assert_allclose([value for _, (value,) in found], expected, atol=1e-12)
    np.testing.assert_allclose(run_onnx(onnx.source(predictor._program), new, np.float64)["prediction"], expected)


# -- knots at the thresholds of trees ----------------------------------------------------------------------------------

TREES = {"functions": ("linear", "step"), "knots": "tree", "order": 1}


@pytest.mark.parametrize("holes", [0.0, 0.1])
@pytest.mark.parametrize("q", [1, 2])
def test_half_of_the_knots_are_thresholds_of_boosted_trees(holes, q, rng):
    X = np.column_stack([rng.normal(size=(60, 2)), rng.integers(0, 4, 60)])
    Y = np.column_stack([(X[:, 0] > 0.3) * (X[:, 2] > 1) + 0.1 * rng.normal(size=60), X[:, 1]])[:, :q]
    X[:, :2][rng.uniform(size=(60, 2)) < holes] = np.nan
    basis = AnovaBasis(n_knots=4, min_count=6, **TREES).fit(X, Y)
    thresholds = boosted_thresholds(X[:, :2], Y, 4, 6)  # two knots for each input that has more values than knots
    for j, (x, own) in enumerate(zip(X.T, [*thresholds, None], strict=True)):
        present = x[~np.isnan(x)]
        expected = shape_knots(present, 4, 6) if own is None else [*shape_knots(present, 2, 6), *own]
        knots = basis.knots_[j][~np.isnan(basis.knots_[j])]
        np.testing.assert_allclose(knots, np.unique(expected))


def test_knots_of_trees_find_thresholds_among_many_inputs(rng):
    X = rng.uniform(size=(400, 15))
    y = 3.0 * (X[:, 4] > 0.37) + 2.0 * (X[:, 9] > 0.81) + 0.3 * rng.normal(size=400)
    basis = AnovaBasis(n_knots=4, **TREES).fit(X, y)
    counts = np.sum(~np.isnan(basis.knots_), axis=1)
    for j, threshold in ((4, 0.37), (9, 0.81)):
        assert np.nanmin(np.abs(basis.knots_[j] - threshold)) < 0.01
        assert counts[j] > np.median(counts)


def test_knots_of_trees_do_not_depend_on_units_and_duplicates(rng):
    X = rng.uniform(size=(90, 3))
    y = (X[:, 0] > 0.4) + 0.1 * rng.normal(size=90)
    knots = AnovaBasis(n_knots=6, **TREES).fit(X, y).knots_
    scaled = AnovaBasis(n_knots=6, **TREES).fit(X * [2.0, -0.5, 8.0] + [1.0, 3.0, 1e3], 5 * y - 7).knots_
    np.testing.assert_allclose((scaled[[0, 2]] - [[1.0], [1e3]]) / [[2.0], [8.0]], knots[[0, 2]])
    repeated = AnovaBasis(n_knots=6, **TREES).fit(np.repeat(X, 3, axis=0), np.repeat(y, 3)).knots_
    np.testing.assert_array_equal(repeated, knots)


def test_many_outputs_share_the_knots_of_their_principal_components(rng):
    X = rng.uniform(size=(200, 2))
    Y = np.outer(X[:, 0] > 0.4, rng.normal(size=30)) + 0.01 * rng.normal(size=(200, 30))
    knots = AnovaBasis(n_knots=6, **TREES).fit(X, Y).knots_
    assert np.nanmin(np.abs(knots[0] - 0.4)) < 0.02


def test_given_knots(rng):
    X = rng.uniform(size=(50, 3))
    X[:, 2] = X[:, 2] > 0.5
    given = [[0.6, 0.2], [0.5, np.nan], [0.5, np.nan]]
    basis = AnovaBasis(functions=("step",), order=1, knots=given).fit(X)
    np.testing.assert_array_equal(basis.knots_, [[0.2, 0.6], [0.5, np.nan], [np.nan, np.nan]])  # two values are linear
    assert basis.get_feature_names_out().tolist() == ["x0 > 0.2", "x0 > 0.6", "x1 > 0.5", "x2"]
    tree = AnovaBasis(n_knots=6, **TREES).fit(X, X[:, 0] > 0.4)
    again = tree.with_fitted_params().fit(X)
    np.testing.assert_array_equal(again.transform(X), tree.transform(X))


def test_knots_are_checked(rng):
    X = rng.uniform(size=(30, 2))
    with pytest.raises(ValueError, match="knots must be one of 'quantile', 'tree', got 'forest'"):
        AnovaBasis(functions=["step"], knots="forest").fit(X)
    with pytest.raises(
        ValueError,
        match=r"knots='tree' requires y to be passed, but the target y is None: call fit\(X, y\), or use 'quantile'",
    ):
        AnovaBasis(functions=["step"], knots="tree").fit(X)
    for given in ([[0.5]], [0.5, 0.5], [["a"], ["b"]], [[0.5], [np.inf]]):
        with pytest.raises(ValueError, match="an array with a row of finite numbers for each of 2 inputs, got"):
            AnovaBasis(functions=["step"], knots=given).fit(X)
