"""Paths for cross-validation, and stacked ensembles with their leave-one-out."""

from __future__ import annotations

import pickle

import numpy as np
import oracles
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from test_flagship import FixedPredictions, cross_validate, with_settings

from termwise import AnovaBasis, SmoothBasis, TermwiseClassifier, TermwiseRegressor, UnionBasis, forward_path
from termwise.linalg.least_squares import Problem, WeightedRows, solve_penalised
from termwise.linalg.two_stage import scores_by_output
from termwise.recipe.cross_validation import TrainingDesign, ensemble_paths
from termwise.recipe.folds import Folds, group_folds
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.targets import EnsembleTarget, Member, stacking_weights, through_first_stage
from termwise.recipe.trials import Trial, stack
from termwise.selection.nested import nested_path

SETTINGS = RecipeSettings()
LEAST = SETTINGS.min_member_weight
ALPHA = 1e-6


# -- nested paths ------------------------------------------------------------------------------------------------------


def columns(kind, rng, n=40):
    if kind == "far":
        return rng.normal(size=(n, 30)) + 1e5
    if kind == "similar":
        return SmoothBasis(width=("median", 3.0)).fit_transform(rng.normal(size=(n, 2)))
    G = rng.normal(size=(n, 30))
    G[:, 3], G[:, 7], G[:, 9] = G[:, 2], 5.0, G[:, 0] - 2 * G[:, 1]  # a copy, a constant and a combination
    return G


@pytest.mark.parametrize("kind", ["plain", "far", "similar"])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True], ids=["once", "repeated"])
def test_nested_path_equal_those_of_the_engine(kind, outputs, weighted, rng):
    G = columns(kind, rng)
    targets = [G[:, :outputs] + 0.5 * rng.normal(size=(40, outputs)) for _ in range(2)]
    counts = rng.integers(1, 4, size=40).astype(float) if weighted else np.ones(40)
    most = 8
    for Y in targets:
        models = nested_path(G, Y, counts, ALPHA, most)
        path = forward_path(G, Y, rule="cost", alpha=ALPHA, max_terms=most, sample_weight=counts)
        np.testing.assert_array_equal(models.terms, path.terms)
        along = models.along(G[:, models.terms])
        for k in range(most + 1):
            w = oracles.weights(G[:, models.terms[:k]], Y, ALPHA, counts=counts)
            fitted = oracles.predict(G[:, models.terms[:k]], w)
            np.testing.assert_allclose(along[k], fitted, atol=1e-4 if kind == "far" else 1e-6)


def test_nested_path_end_when_no_candidate_is_eligible(rng):
    G = columns("plain", rng)
    Y = rng.normal(size=(40, 1))
    models = nested_path(G, Y, np.ones(40), ALPHA, 60)
    assert len(models.terms) == 27  # neither copies nor constants nor combinations
    assert not {3, 7} & set(models.terms) or 2 not in models.terms
    models = nested_path(G, np.ones((40, 1)), np.ones(40), ALPHA, 5)
    assert models.along(G[:, models.terms]).shape == (1, 40, 1)
    models = nested_path(G[:, :0], Y, np.ones(40), ALPHA, 5)
    np.testing.assert_allclose(models.along(G[:, :0])[0], Y.mean())


def test_nested_path_on_products_that_are_not_stored(rng):
    X, Y = rng.normal(size=(30, 4)), rng.normal(size=(30, 2))
    basis = AnovaBasis().fit(X)
    stored = nested_path(basis.transform(X), Y, np.ones(30), ALPHA, 6)
    computed = nested_path(basis.design(X), Y, np.ones(30), ALPHA, 6)
    np.testing.assert_array_equal(stored.terms, computed.terms)
    np.testing.assert_allclose(stored.R, computed.R, atol=1e-9)


# -- stacking weights --------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([1e-6, 1.0, 1e6]))
def test_stacking_weights_minimise_the_residuals(seed, models, scale):
    rng = np.random.default_rng(seed)
    R = (rng.normal(size=(30, models)) * rng.uniform(0.5, 2, size=models) + rng.normal(size=(30, 1))) * scale
    found = stacking_weights(R, LEAST)
    assert found.sum() == pytest.approx(1)
    assert np.all((found == 0) | (found >= LEAST * 0.99))
    best = minimize(
        lambda w: np.sum((R / scale @ w) ** 2),
        np.full(models, 1 / models),
        bounds=[(0, 1)] * models,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-12},
    ).x
    best = np.where(best >= LEAST, best, 0.0)
    if not np.any(np.abs(best - LEAST) < 1e-3):
        np.testing.assert_allclose(found, best / best.sum(), atol=1e-3)


def test_of_equal_models_the_first_is_used(rng):
    one, other = rng.normal(size=(2, 50))
    R = np.column_stack([one, other, one * (1 + 1e-14), other])
    weights = stacking_weights(R, LEAST)
    np.testing.assert_array_equal(weights[2:], 0)
    assert weights[:2].min() > LEAST
    np.testing.assert_array_equal(stacking_weights(np.zeros((5, 3)), LEAST), [1, 0, 0])


@pytest.mark.parametrize("apart", 10.0 ** -np.arange(3, 13))
def test_stacking_is_stable_for_nearly_equal_models(apart, rng):
    one, other = rng.normal(size=(2, 50))
    R = np.column_stack([one, one + apart * other, one - 2 * apart * other, other])
    weights = stacking_weights(R, LEAST)
    assert weights.sum() == pytest.approx(1)
    two = R[:, [0, 3]]
    assert np.sum((R @ weights) ** 2) <= 1.01 * np.sum((two @ stacking_weights(two, LEAST)) ** 2)


# -- cross-validation of an ensemble -----------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("weighted", [False, True], ids=["once", "repeated"])
def test_cross_validation_of_an_ensemble_equals_its_definition(outputs, weighted, rng):
    X = rng.normal(size=(50, 3))
    Y = np.sin(X @ rng.normal(size=(3, outputs))) + 0.2 * rng.normal(size=(50, outputs))
    counts = rng.integers(1, 4, size=50).astype(float) if weighted else np.ones(50)
    bases = {"additive": AnovaBasis(order=1), "smooth": SmoothBasis(width=("median", 0.7))}
    folds = [group_folds(X, 4, np.random.RandomState(seed)) for seed in (2, 3)]
    tried = {}
    for name, basis in bases.items():
        tries = [(basis, Folds(X, Y, counts, fold)) for fold in folds]
        tried[name] = list(cross_validate(tries, 6, ["data", "ridge"], ALPHA))
    plan = [("additive", 0, "data", 5), ("smooth", 1, "ridge", 4), ("smooth", 0, "data", 2)]
    members = [([both[i] for both in tried[name]], k) for name, i, _, k in plan]
    weights = rng.dirichlet(np.ones(3), size=(2, 4))  # other weights in every fold
    found = ensemble_paths(members, weights, counts, ALPHA)
    for path, fold, of_fold in zip(found, folds, weights, strict=True):
        described = [(of_fold[:, i], bases[name], target, k) for i, (name, _, target, k) in enumerate(plan)]
        expected = oracles.pooled_out_of_fold(described, X, Y, counts, fold, ALPHA, 11)
        np.testing.assert_allclose(path.predictions(Y), expected, atol=1e-6)


def tried(name, Y, residuals, sizes=1):
    """A trial whose residuals are these with all numbers of terms but none."""
    scores = np.stack([np.zeros_like(Y), *[Y - residuals] * sizes])
    return Trial(name, "data", [FixedPredictions(scores)], Y, np.ones(len(Y)))


def test_an_ensemble_has_at_least_two_members(rng):
    Y = rng.normal(size=(40, 1))
    good, poor = 0.1 * rng.normal(size=(40, 1)), 3 * Y
    assert stack([tried("good", Y, good), tried("poor", Y, good + poor)], 5, SETTINGS) == []
    assert stack([tried("good", Y, good)], 5, SETTINGS) == []
    poor_models = [tried(name, Y, 2 * Y, sizes=2) for name in ("one", "other")]
    assert stack(poor_models, 5, SETTINGS) == []  # the mean is best of each


@pytest.mark.slow
def test_an_ensemble_that_gains_too_little_is_not_used():
    X, y, _ = weak()
    repeated = {"max_repeats": 2}  # all trials in every repeat of cross-validation: errors of the same folds
    saved = with_settings(TermwiseRegressor, **repeated)("accurate").fit(X, y).trials_
    (pool,) = (title for title in saved if title.endswith("pooled"))
    least = min(curve.min() for title, curve in saved.items() if title != pool)
    assert saved[pool].min() <= 0.99 * least
    Regressor = with_settings(TermwiseRegressor, **repeated, min_gain=1.001 - saved[pool].min() / least)
    model = Regressor(target="pooled").fit(X, y)
    assert pool not in model.trials_
    assert model.target_ in ("data", "ridge")
    assert model.pool_ == []


@pytest.mark.slow
def test_lists_of_numbers_are_accepted():
    X, y, _ = weak()
    model, other = (TermwiseRegressor("accurate").fit(*data) for data in ((X, y), (X.tolist(), y.tolist())))
    assert model.target_ == "pooled"
    np.testing.assert_array_equal(other.predict(X.tolist()), model.predict(X))


# -- leave-one-out through an ensemble ---------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("weighted", [False, True], ids=["once", "repeated"])
@pytest.mark.parametrize("targets", [("data", "data"), ("ridge", "data"), ("ridge", "ridge")], ids="-".join)
def test_leave_one_out_through_an_ensemble_and_few_terms_equals_refits(outputs, weighted, targets, rng):
    X = rng.normal(size=(32, 3))
    Y = X[:, [0]] * X[:, [1]] + X[:, 1 : 1 + outputs] + 0.5 * rng.normal(size=(32, outputs))
    counts = rng.integers(1, 4, size=32) if weighted else np.ones(32, dtype=int)
    rows = WeightedRows(counts.astype(float), True)
    bases = [AnovaBasis(n_centers=1), SmoothBasis(width=("median", 0.7))]
    parts = [basis.fit_transform(X) for basis in bases]
    G = np.hstack(parts)
    pool = [Member("pairs", targets[0], 4, 0.5), Member("smooth", targets[1], 3, 0.3), Member("pairs", "data", 0, 0.2)]
    by_name = dict(zip(("pairs", "smooth"), parts, strict=True))
    fitted = dict(zip(("pairs", "smooth"), bases, strict=True))
    designs = {name: TrainingDesign(basis, by_name[name], basis, X) for name, basis in fitted.items()}
    stage, terms = EnsembleTarget.fit(pool, designs, X, Y, rows, None, ALPHA)
    members = []
    for one, basis, member in zip(parts, bases, pool[:2], strict=True):
        ridge = None
        aim = Y
        if member.target == "ridge":
            ridge = oracles.ridge_columns(basis, X, counts), stage.members[len(members)][1].ridge.alpha
            aim = stage.members[len(members)][1].ridge.signal
        models = nested_path(one, aim, rows.sample_weight, ALPHA, member.size)
        members.append((member.weight, one[:, models.terms], ALPHA, ridge))
    members.append((0.2, G[:, :0], ALPHA, None))
    columns = np.hstack([part[:, terms[name]] for name, part in zip(("pairs", "smooth"), parts, strict=True)])
    assert columns.shape[1] == 7
    path = forward_path(columns, stage.signal, rule="cost", alpha=ALPHA, max_terms=5, sample_weight=counts)
    data = path.training
    scores = np.stack(list(scores_by_output(stage, rows, data.Z, data.Y, data.Y_mean)), axis=2)
    first = np.cumsum(counts) - counts  # the first repeat of each sample
    for k in (0, 2, 5):
        few, targets_, *wide = oracles.repeat(
            counts, columns[:, path.terms[:k]], Y, *(m[1] for m in members), *(m[3][0] for m in members if m[3])
        )
        ridges = iter(wide[len(members) :])
        written = [
            (w, wide[i], alpha, None if ridge is None else (next(ridges), ridge[1]))
            for i, (w, _, alpha, ridge) in enumerate(members)
        ]
        expected = oracles.pool_then_few(few, written, targets_, ALPHA)[first]
        np.testing.assert_allclose(scores[k], expected, atol=1e-6)
    assert_hat_matrix(stage, rows, data, members, columns[:, path.terms], counts)


def assert_hat_matrix(stage, rows, data, members, few, counts):
    """The mean of linear fits, then a linear fit: one matrix, whose trace is the degrees of freedom."""
    written = np.repeat(np.arange(len(counts)), counts)
    eye = np.eye(len(written))
    mean = 0.0
    for weight, columns, alpha, ridge in members:
        hat = eye - oracles.projection(columns[written], alpha)
        if ridge is not None:
            hat = hat @ (eye - oracles.projection(ridge[0][written], ridge[1]))
        mean = mean + weight * hat
    hat = (eye - oracles.projection(few[written], ALPHA)) @ mean
    np.testing.assert_allclose((mean @ stage.targets[written])[np.cumsum(counts) - 1], stage.signal, atol=1e-7)
    problem = Problem(data.columns(5), data.Y, rows, data.G_mean, data.Y_mean, owned=True)
    second = solve_penalised(problem, np.arange(5), np.full(5, ALPHA))
    solution = through_first_stage(stage, second, problem, stage.targets)
    assert solution.dof == pytest.approx(np.trace(hat), rel=1e-6)
    assert solution.freedom == pytest.approx(len(written) - np.trace(hat))
    residual = stage.targets[written] - hat @ stage.targets[written]
    np.testing.assert_allclose(solution.sse, np.sum(residual**2, axis=0), rtol=1e-6)
    to_weights = np.linalg.lstsq(few[written] - few[written].mean(axis=0), hat - hat.mean(axis=0), rcond=None)[0]
    np.testing.assert_allclose(solution.unit_cov(), to_weights @ to_weights.T, rtol=1e-4, atol=1e-9)


# -- estimators --------------------------------------------------------------------------------------------------------


def weak(n=150, d=6, seed=0):
    """Many inputs that each do a little, some of them together, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = np.tanh(X).sum(axis=1) + np.sin(2 * X[:, 0]) * X[:, 1]
    return X, f + 1.5 * rng.normal(size=n), f


@pytest.mark.slow
def test_a_model_fitted_to_an_ensemble_reproduces_it():
    X, y, _ = weak()
    model = TermwiseRegressor("accurate", target="pooled").fit(X, y)
    assert model.target_ == "pooled"
    assert sum(member.weight for member in model.pool_) == pytest.approx(1)
    assert len(model.pool_) > 1
    whole = model.at(len(model.path_))
    if len(whole.path_) == len(whole.coef_):
        np.testing.assert_allclose(whole.predict(X), model.first_stage_.signal[:, 0], atol=1e-4)
    assert model.n_terms_ <= sum(member.size for member in model.pool_)
    titles = [title for title in model.trials_ if title.endswith("pooled")]
    assert titles == [f"{model.dictionary_}, pooled"]
    assert "fitted to a stacked ensemble: 0." in model.summary()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.at(3).predict(X), model.at(3).predict(X))


@pytest.mark.exhaustive
def test_ensembles_are_more_accurate_where_many_inputs_matter_a_little():
    better = 0
    for seed in range(4):
        X, y, _ = weak(seed=seed)
        X_new, _, f = weak(n=1000, seed=seed + 100)
        errors = [
            np.mean((TermwiseRegressor("accurate", target=target).fit(X, y).predict(X_new) - f) ** 2)
            for target in ("pooled", "data")
        ]
        better += errors[0] < errors[1]
    assert better >= 3


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [1, 2])
def test_weights_are_repetitions_in_an_ensemble(outputs):
    X, y, _ = weak(n=60)
    Y = np.column_stack([y, y - 2 * np.sin(3 * X[:, 1])])[:, :outputs]
    counts = np.random.default_rng(0).integers(0, 3, size=60)
    rows = np.repeat(np.arange(60), counts)
    Regressor = with_settings(TermwiseRegressor, min_gain=-1.0)
    weighted = Regressor("accurate", target="pooled").fit(X, Y, sample_weight=counts)
    written = Regressor("accurate", target="pooled").fit(X[rows], Y[rows])
    assert weighted.target_ == "pooled"
    assert [m[:3] for m in weighted.pool_] == [m[:3] for m in written.pool_]
    np.testing.assert_allclose(weighted.predict(X), written.predict(X), atol=1e-5)
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    np.testing.assert_allclose(weighted.loo_residuals_[counts > 0], written.loo_residuals_[first], atol=1e-5)
    inside = [model.predict_interval(X[:5], coverage=0.8) for model in (weighted, written)]
    np.testing.assert_allclose(*inside, atol=1e-4)


@pytest.mark.slow
def test_an_ensemble_on_a_frame_with_categories():
    X, y, _ = weak()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["kind"] = pd.Categorical(np.where(X[:, 2] > 0, "up", "down"))
    model = with_settings(TermwiseRegressor, min_gain=-1.0)("accurate", target="pooled").fit(frame, y)
    assert model.target_ == "pooled"
    assert model.predict(frame).shape == (150,)
    terms = model.basis_[-1]
    names = [name for name in model.get_feature_names_out() if "x" in name.replace("exp", "")]
    assert not names  # inputs have their own names
    if len({member.name for member in model.pool_ if member.size}) > 1:
        assert isinstance(terms, UnionBasis)


@pytest.mark.slow
def test_float32_stays_float32_in_an_ensemble():
    X, y, _ = weak(n=80)
    model = with_settings(TermwiseRegressor, min_gain=-1.0)("accurate", target="pooled").fit(X.astype(np.float32), y)
    assert model.target_ == "pooled"
    assert model.predict(X.astype(np.float32)).dtype == np.float32


@pytest.mark.slow
def test_small_classifiers_are_not_ensembles_unless_requested():
    X, _, f = weak(n=200)
    labels = np.where(f + np.random.default_rng(1).normal(size=200) > 0, "yes", "no")
    small, asked = TermwiseClassifier().fit(X, labels), TermwiseClassifier(target="pooled").fit(X, labels)
    assert small.target_ != "pooled"
    assert asked.target_ == "pooled"
    assert asked.predict_proba(X).shape == (200, 2)
    assert asked.score(X, labels) > 0.8
