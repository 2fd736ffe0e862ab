"""Constraints: signs, bounds, monotone inputs and hierarchy, against refits of every candidate and dense evaluation."""

from __future__ import annotations

import array_api_strict as strict
import numpy as np
import pandas as pd
import pytest
from oracles import constrained_path
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from termwise import AnovaBasis, ForwardClassifier, ForwardRegressor, Predictor, SmoothBasis, UnionBasis, load_predictor
from termwise.basis import TableEncoder
from termwise.linalg.losses import Logistic
from termwise.selection.constraints import Constraints
from termwise.selection.glm import glm_path, null_model
from termwise.selection.nested import nested_path

INF = np.inf


@pytest.mark.parametrize("seed", range(4))
def test_nested_path_equal_refits_of_every_candidate(seed):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(40, 14)) @ (np.eye(14) + 0.5 * rng.normal(size=(14, 14)))  # correlated, so that signs bind
    y, signs = G @ rng.normal(size=14) + rng.normal(size=40), rng.choice([-1, 0, 1, 1], size=14)
    low, high = np.where(signs > 0, 0, -INF), np.where(signs < 0, 0, INF)
    models = nested_path(G, y[:, None], np.ones(40), 0.5, 12, Constraints.from_inputs(None, signs))
    terms, weights = constrained_path(G, y, 0.5, 12, low, high)
    assert models.terms.tolist() == terms
    free = constrained_path(G, y, 0.5, 12, np.full(14, -INF), np.full(14, INF))[0]
    assert free != terms
    for k, expected in enumerate(weights):
        found, intercept = models.weights(k)
        np.testing.assert_allclose(found[:, 0], expected, rtol=1e-7, atol=1e-9)
        fitted = y.mean() + (G[:, terms[:k]] - G[:, terms[:k]].mean(axis=0)) @ expected
        np.testing.assert_allclose(models.along(G[:, terms])[k, :, 0], fitted, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(G[:, terms[:k]] @ found[:, 0] + intercept, fitted, rtol=1e-7, atol=1e-9)


def test_all_outputs_have_the_signs(rng):
    G = rng.normal(size=(50, 8)) + rng.normal(size=(50, 1))
    Y = np.column_stack([G[:, 0] - G[:, 1], G[:, 0] + 0.5 * G[:, 2]]) + 0.5 * rng.normal(size=(50, 2))
    models = nested_path(G, Y, np.ones(50), 0.1, 8, Constraints.from_inputs(None, np.ones(8)))
    assert len(models.terms)
    assert all((models.weights(k)[0] >= 0).all() for k in range(len(models.terms) + 1))


@pytest.mark.parametrize("penalty", ["weights", "orthogonal"])
@pytest.mark.parametrize("rule", ["cost", "loo"])
def test_weights_of_forward_estimators_keep_to_their_bounds(rule, penalty, rng):
    X = rng.normal(size=(60, 10)) @ (np.eye(10) + 0.5 * rng.normal(size=(10, 10)))
    y = X @ rng.normal(size=10) + rng.normal(size=60)
    bounds = {0: (0, None), 1: (None, 0.0), 4: (-0.2, 0.2), 7: (0, 0.5)}
    low, high = np.full(10, -INF), np.full(10, INF)
    low[[0, 4, 7]], high[[1, 4, 7]] = [0, -0.2, 0], [0, 0.2, 0.5]
    model = ForwardRegressor(rule=rule, penalty=penalty, criterion=None, alpha=0.3, bounds=bounds).fit(X, y)
    for k in range(1, len(model.path_) + 1):
        weights = model.path_.coef(k)[0]
        terms = model.path_.terms[:k]
        assert np.all((low[terms] <= weights) & (weights <= high[terms]))
        np.testing.assert_allclose(model.at(k).weights_, weights)
    if (rule, penalty) == ("cost", "weights"):
        terms, weights = constrained_path(X, y, 0.3, 10, low, high)
        assert model.path_.terms.tolist() == terms
        np.testing.assert_allclose(model.weights_, weights[-1])
    named = ForwardRegressor(rule=rule, penalty=penalty, criterion=None, alpha=0.3,
                             bounds={f"x{j}": pair for j, pair in bounds.items()}).fit(X, y)  # fmt: skip
    np.testing.assert_array_equal(named.support_, model.support_)


def test_leave_one_out_is_that_of_the_terms(rng):
    X = rng.normal(size=(40, 6)) + rng.normal(size=(40, 1))
    y = X[:, 0] - X[:, 1] + rng.normal(size=40)
    model = ForwardRegressor(bounds=(0, None), criterion=None, alpha=0.1, max_terms=3).fit(X, y)
    assert (model.weights_ >= 0).all()
    for i in (0, 7):
        rest = np.delete(np.arange(40), i)
        again = ForwardRegressor(rule="cost", criterion=None, alpha=0.1).fit(X[rest][:, model.support_], y[rest])
        np.testing.assert_allclose(model.loo_residuals_[i], y[i] - again.predict(X[[i]][:, model.support_])[0])


@pytest.mark.parametrize("basis", [AnovaBasis(n_centers=1, min_count=3), PolynomialFeatures(3, include_bias=False)])
def test_products_come_after_their_main_effects(basis, rng):
    X = rng.normal(size=(50, 4))
    y = X[:, 0] * X[:, 1] + 0.3 * X[:, 2] + 0.1 * rng.normal(size=50)
    model = ForwardRegressor(basis, hierarchy=True, rule="cost", criterion=None, alpha=0.1, max_terms=8).fit(X, y)
    fitted = basis.fit(X)
    inputs = [tuple(np.flatnonzero(row)) for row in fitted.powers_] if hasattr(fitted, "powers_") else fitted.inputs_of(
        np.arange(fitted.n_functions))  # fmt: skip
    free = np.full(len(inputs), INF)
    terms, _ = constrained_path(fitted.transform(X), y, 0.1, 8, -free, free, inputs)
    assert model.path_.terms.tolist() == terms
    models = nested_path(fitted.transform(X), y[:, None], np.ones(50), 0.1, 8, Constraints.from_inputs(inputs))
    assert models.terms.tolist() == terms


def test_signs_of_the_functions(rng):
    X = pd.DataFrame({"dose": rng.uniform(size=200), "age": rng.uniform(size=200), "on": rng.integers(0, 2, 200)})
    basis = AnovaBasis(functions=("linear", "bump", "hinge", "step"), n_knots=2, monotone={"dose": 1, 2: -1}).fit(X)
    signs = dict(zip(basis.get_feature_names_out(), basis.weight_signs_, strict=True))
    assert basis.monotone_.tolist() == [1, 0, -1]
    t, s = (f"{t:.2g}" for t in (basis.knots_[0, 0], basis.knots_[1, 0]))
    assert signs["dose"] == signs[f"hinge(dose > {t})"] == signs[f"dose > {t}"] == 1
    assert signs[f"hinge(dose < {t})"] == -1
    assert signs["on"] == -1
    assert signs["age"] == 0
    assert signs[f"dose * (age <= {s})"] == 1
    assert signs[f"hinge(dose < {t}) * hinge(age > {s})"] == -1
    assert signs[f"hinge(dose < {t}) * on"] == -1  # both fall
    assert f"(dose > {t}) * on" not in signs  # one rises, the other falls
    assert "dose * age" not in signs  # linear functions change their sign
    assert "dose * on" not in signs
    assert any(name.startswith("ramp(dose") for name in signs)  # in place of bumps
    assert not any(name.startswith("bump(dose") for name in signs)


def is_monotone(predict, directions, low, high, rng, n_lines, n_points=40):
    """Whether predictions rise or fall, as they must, along random lines parallel to each of some axes."""
    for j, direction in directions.items():
        lines = np.repeat(rng.uniform(low, high, size=(n_lines, len(low))), n_points, axis=0)
        lines[:, j] = np.tile(np.linspace(low[j], high[j], n_points), n_lines)
        steps = np.diff(predict(lines).reshape(n_lines, n_points), axis=1) * direction
        if steps.min() < -1e-9:
            return False
    return True


@pytest.mark.parametrize("extrapolation", ["clip", "bounded", "constant", "linear", "continue"])
def test_models_are_monotone_on_random_lines(extrapolation, tmp_path):
    kinds = [("linear", "bump"), ("linear", "hinge", "step"), ("step",), ("linear", "bump", "ramp"), ("hinge",)]
    unconstrained = 0
    for seed, functions in enumerate(kinds * 2):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.normal(size=(150, 3)), rng.integers(0, 2, size=150), rng.integers(0, 4, size=150)])
        X[:, 1] = np.exp(X[:, 1])
        y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] - X[:, 3] + 0.5 * X[:, 4] * X[:, 3] + rng.normal(size=150)
        directions = {int(j): int(rng.choice([-1, 1])) for j in rng.permutation(5)[: rng.integers(1, 4)]}
        basis = AnovaBasis(3, functions=functions, n_knots=4, extrapolation=extrapolation, monotone=directions)
        model = ForwardRegressor(basis, criterion=None, max_terms=15, alpha=0.1, rule="cost").fit(X, y)
        low, high = X.min(axis=0) - X.std(axis=0), X.max(axis=0) + X.std(axis=0)
        low[3:], high[3:] = X[:, 3:].min(axis=0), X[:, 3:].max(axis=0)
        assert is_monotone(model.predict, directions, low, high, rng, 20)
        Predictor.from_estimator(model).save(tmp_path / "model.json")
        assert is_monotone(load_predictor(tmp_path / "model.json").predict, directions, low, high, rng, 20)
        free = basis.set_params(monotone=None)
        free = ForwardRegressor(free, criterion=None, max_terms=15, alpha=0.1, rule="cost").fit(X, y)
        unconstrained += is_monotone(free.predict, directions, low, high, rng, 20)
    assert unconstrained < 5  # of ten


def test_pipelines_unions_and_classes_are_monotone(rng):
    frame = pd.DataFrame(
        {"dose": rng.normal(size=200), "age": rng.normal(size=200), "site": pd.Categorical(rng.choice(["a", "b"], 200))}
    )
    y = np.sin(2 * frame["dose"]) + frame["age"] + (frame["site"] == "a") + rng.normal(size=200) > 0.5
    anova = AnovaBasis(functions=("linear", "step"), n_knots=4, monotone={"dose": 1})
    tables = make_pipeline(TableEncoder().set_output(transform="pandas"), anova)
    union = UnionBasis([clone(anova).set_params(monotone={0: 1}), AnovaBasis(2, order=1, monotone={0: 1})])
    for basis in (tables, make_pipeline(TableEncoder().set_output(transform="pandas"), union)):
        model = ForwardClassifier(basis, criterion=None, max_terms=12).fit(frame, y)
        for age, site in [(0.0, "a"), (-1.0, "b"), (1.5, "a")]:
            line = pd.DataFrame({"dose": np.linspace(-3, 3, 50), "age": age, "site": pd.Categorical([site] * 50)})
            assert np.diff(model.decision_function(line)).min() >= -1e-12
    numbers = make_pipeline(StandardScaler(), AnovaBasis(monotone={0: -1}))
    X = frame[["dose", "age"]].to_numpy()
    model = ForwardRegressor(numbers, criterion=None, max_terms=8).fit(X, y)
    assert is_monotone(model.predict, {0: -1}, X.min(axis=0), X.max(axis=0), rng, 10)
    mixed = UnionBasis([AnovaBasis(monotone={0: 1}), SmoothBasis(centers=3)])
    with pytest.raises(
        ValueError, match=r"bases must have the same monotone inputs, got .*: functions of the other bases"
    ):
        ForwardRegressor(mixed).fit(X, y)


def test_other_array_libraries(rng):
    X = rng.normal(size=(40, 6)) + rng.normal(size=(40, 1))
    y = X[:, 0] - X[:, 1] + rng.normal(size=40)
    model = ForwardRegressor(bounds=(0, None), criterion=None).fit(X, y)
    other = ForwardRegressor(bounds=(0, None), criterion=None).fit(strict.asarray(X), strict.asarray(y))
    assert np.asarray(other.path_.terms).tolist() == model.path_.terms.tolist()


@pytest.mark.parametrize("loss", ["logistic", "poisson", "huber"])
def test_models_of_other_losses_are_monotone(loss):
    unconstrained = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 4))
        eta = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
        y = {"logistic": eta + rng.logistic(size=200) > 0, "poisson": rng.poisson(np.exp(eta / 2)), "huber": eta}[loss]
        directions = {0: 1, 2: int(rng.choice([-1, 1]))}
        found = []
        for monotone in (directions, None):
            basis = AnovaBasis(3, functions=("linear", "bump", "hinge", "step"), n_knots=4, monotone=monotone)
            kind = ForwardClassifier if loss == "logistic" else ForwardRegressor
            model = kind(basis, loss=loss, criterion=None, max_terms=14, alpha=0.1).fit(X, y)
            predict = model.decision_function if loss == "logistic" else model.predict
            found.append(is_monotone(predict, directions, X.min(axis=0), X.max(axis=0), rng, 30))
            assert model.n_terms_ > 8
        assert found[0]
        unconstrained += found[1]
    assert unconstrained < 3


def test_paths_of_a_loss_keep_to_signs_and_hierarchy(rng):
    G = rng.normal(size=(120, 10)) + rng.normal(size=(120, 1))
    Y = (G[:, :1] - G[:, 1:2] + rng.logistic(size=(120, 1)) > 0) * 1.0
    inputs = [(0,), (1,), (2,), (3,), (0, 1), (0, 2), (1, 3), (2, 3), (4, 5), (0, 4)]
    null = null_model(Y, np.ones(120), Logistic())
    models = glm_path(G, null, 0.1, 9, Constraints.from_inputs(inputs, np.ones(10)))
    for k in range(len(models.terms) + 1):
        assert (models.weights(k)[0] >= 0).all()
    for place, j in enumerate(models.terms):
        needed = {i for i in inputs[j] if i < 4} if len(inputs[j]) > 1 else set()  # 4 and 5 have no main effects
        assert needed <= {inputs[i][0] for i in models.terms[:place] if len(inputs[i]) == 1}
    free = glm_path(G, null, 0.1, 9)
    same = glm_path(G, null, 0.1, 9, Constraints.from_inputs(None, np.zeros(10)))
    assert same.terms.tolist() == free.terms.tolist()
    np.testing.assert_array_equal(same.coefs, free.coefs)
