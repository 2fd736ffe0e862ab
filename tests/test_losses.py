"""Losses: derivatives, paths of generalised linear models, leave-one-out, and the forward estimators with a loss."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, log_loss
from sklearn.model_selection import cross_validate
from sklearn.preprocessing import StandardScaler

from termwise import ForwardClassifier, ForwardRegressor, RadialBasis, TermwiseRegressor, load_predictor
from termwise.linalg.losses import LOSSES, Gamma, Huber, Logistic, Multinomial, Poisson, Quantile, Squared
from termwise.selection.glm import glm_path, null_model

CASES = {
    "squared": Squared(),
    "logistic": Logistic(),
    "multinomial": Multinomial(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "huber": Huber(),
    "quantile": Quantile((0.3,)),
    "quantiles": Quantile((0.1, 0.5, 0.9)),
}
SEVERAL = {"squared", "poisson", "gamma", "huber"}  # also tested with two outputs


def one_hot(labels, q):
    return np.where(labels[:, None] == np.arange(q), 1.0, -1.0)


def targets(name, G, seed=0):
    """Targets of a linear predictor in the first three columns, (n, q)."""
    rng, n = np.random.default_rng(seed), len(G)
    eta = 0.8 * G[:, 0] - 0.6 * G[:, 1] + 0.3 * G[:, 2]
    if name == "logistic":
        return np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), 1.0, -1.0)[:, None]
    if name == "multinomial":
        return one_hot(np.argmax(np.column_stack([eta, G[:, 3], -eta]) + rng.gumbel(size=(n, 3)), axis=1), 3)
    if name in ("poisson", "gamma"):
        means = np.exp(np.column_stack([eta, 0.5 * G[:, 3]]))
        return rng.poisson(means).astype(float) if name == "poisson" else means * rng.gamma(2.0, 0.5, size=(n, 2))
    heavy = eta + 0.5 * rng.standard_t(2, size=n)
    if name.startswith("quantile"):
        return np.tile(heavy[:, None], 1 if name == "quantile" else 3)
    return np.column_stack([heavy, G[:, 3] + 0.5 * rng.standard_t(2, size=n)])


def problem(name, n=70, p=12, seed=0):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, p)) * rng.uniform(0.5, 2.0, size=p) + rng.normal(size=p)
    Y = targets(name, (G - G.mean(axis=0)) / G.std(axis=0), seed)
    return G, Y if name in ("multinomial", "quantiles") or name in SEVERAL else Y[:, :1]


# -- the losses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    _, Y = problem(name)
    rng, loss = np.random.default_rng(1), CASES[name]
    eta, step = rng.normal(size=Y.shape), 1e-5
    if hasattr(loss, "least_scale"):
        loss = replace(loss, scale=2.0)
    if name == "multinomial":
        expected = -np.log(np.exp(eta[Y > 0]) / np.exp(eta).sum(axis=1))
    else:
        levels = getattr(loss, "levels", (0.5,) * Y.shape[1])
        columns = [oracles.loss_value(loss.name, Y[:, j], eta[:, j], loss.scale, levels[j]) for j in range(Y.shape[1])]
        expected = np.sum(columns, axis=0)
    np.testing.assert_allclose(loss.value(Y, eta), expected)
    for j in range(Y.shape[1]):
        shift = step * (np.arange(Y.shape[1]) == j)
        slope = (loss.value(Y, eta + shift) - loss.value(Y, eta - shift)) / (2 * step)
        np.testing.assert_allclose(loss.gradient(Y, eta)[:, j], slope, rtol=1e-5, atol=1e-7)
        bend = (loss.gradient(Y, eta + shift) - loss.gradient(Y, eta - shift))[:, j] / (2 * step)
        np.testing.assert_allclose(loss.curvature(Y, eta)[:, j], bend, rtol=1e-5, atol=1e-6)
    if loss.curvature_bound is not None:
        assert loss.curvature(Y, eta).max() <= loss.curvature_bound


@pytest.mark.parametrize("name", ["logistic", "multinomial"])
def test_probabilities_as_targets(name, rng):
    """A sample with the probabilities t of the classes is one sample of each class, of these weights."""
    G, Y = problem(name)
    t = rng.dirichlet(np.ones(max(Y.shape[1], 2)), size=len(G))
    soft = 2 * t[:, -1:] - 1 if name == "logistic" else 2 * t - 1
    known = glm_path(G, null_model(soft, np.ones(len(G)), CASES[name]), 0.5, 4)
    hard = [np.full((len(G), 1), 2.0 * j - 1) if name == "logistic" else one_hot(np.full(len(G), j), 3) for j in
            range(t.shape[1])]  # fmt: skip
    repeated = np.tile(G, (t.shape[1], 1))
    split = glm_path(repeated, null_model(np.vstack(hard), t.T.ravel(), CASES[name]), 0.5, 4)
    np.testing.assert_array_equal(known.terms, split.terms)
    np.testing.assert_allclose(known.coefs, split.coefs, atol=1e-7)
    np.testing.assert_allclose(CASES[name].deviance(soft, np.log(t) if name == "multinomial" else
                               np.log(t[:, 1:] / t[:, :1])), 0, atol=1e-12)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_null_model_is_the_best_constant(name):
    G, Y = problem(name)
    models = glm_path(G, null_model(Y, np.ones(len(G)), CASES[name]), 1.0, 0)
    expected = oracles.loss_weights(G[:, :0], Y, models.losses[0], 1.0)[0]
    expected = expected - expected.mean() if name == "multinomial" else expected
    np.testing.assert_allclose(models.weights(0)[1], expected, atol=1e-6)
    if name != "huber":  # whose start is the median
        start = CASES[name].null_eta(Y, np.ones(len(G)), np.zeros((len(G), 1)))
        np.testing.assert_allclose(start, expected, atol=0.2 if name.startswith("quantile") else 1e-6)


# -- paths -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_weights_of_every_size(name, intercept):
    G, Y = problem(name)
    rng = np.random.default_rng(2)
    counts, offset = rng.integers(1, 4, size=len(G)).astype(float), 0.3 * rng.normal(size=len(G))
    models = glm_path(G, null_model(Y, counts, CASES[name], offset, intercept), 0.7, 5)
    along = models.along(G[:, models.terms])
    for k in range(6):
        columns = G[:, models.terms[:k]]
        found = oracles.loss_weights(columns, Y, models.losses[k], 0.7, counts, offset, intercept)
        if name == "multinomial":  # a constant added to the intercepts of all classes changes nothing
            found[0] -= found[0].mean()
        w, b = models.weights(k)
        np.testing.assert_allclose(np.vstack([b, w]), found, atol=1e-5)
        np.testing.assert_allclose(along[k], b + columns @ w, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_choices_are_those_of_explicit_matrices(name):
    G, Y = problem(name, seed=3)
    models = glm_path(G, null_model(Y, np.ones(len(G)), CASES[name]), 0.7, 6)
    if name in ("huber", "quantile", "quantiles"):  # their scale changes along the path
        for k in range(4):
            chosen = oracles.loss_forward(G, Y, models.losses[k], 0.7, k + 1)
            assert chosen[k] == models.terms[k] or chosen[:k] != models.terms[:k].tolist()
        assert oracles.loss_forward(G, Y, models.losses[0], 0.7, 1) == models.terms[:1].tolist()
    else:
        assert models.terms.tolist() == oracles.loss_forward(G, Y, CASES[name], 0.7, 6)


@pytest.mark.parametrize("name", CASES)
def test_the_same_path_from_other_forms_of_the_data(name):
    G, Y = problem(name)
    counts = np.random.default_rng(4).integers(1, 4, size=len(G))
    known = glm_path(G, null_model(Y, counts.astype(float), CASES[name]), 0.5, 6)
    rows = np.repeat(np.arange(len(G)), counts)
    others = [
        glm_path(G[rows], null_model(Y[rows], np.ones(len(rows)), CASES[name]), 0.5, 6),
        glm_path(sp.csc_array(G), null_model(Y, counts.astype(float), CASES[name]), 0.5, 6),
        glm_path(G + 1e5, null_model(Y, counts.astype(float), CASES[name]), 0.5, 6),
        glm_path(G * 7.0, null_model(Y, counts.astype(float), CASES[name]), 0.5, 6),
    ]
    for other, scale in zip(others, (1.0, 1.0, 1.0, 7.0), strict=True):
        np.testing.assert_array_equal(other.terms, known.terms)
        np.testing.assert_allclose(scale * other.coefs, known.coefs, atol=1e-7)
    design = RadialBasis(centers=20, width=3.0).fit(G).design(G)
    stored = glm_path(design.columns(slice(None)), null_model(Y, np.ones(len(G)), CASES[name]), 0.5, 4)
    computed = glm_path(design, null_model(Y, np.ones(len(G)), CASES[name]), 0.5, 4)
    np.testing.assert_array_equal(stored.terms, computed.terms)
    np.testing.assert_allclose(stored.coefs, computed.coefs, atol=1e-7)


def test_separable_classes_constant_columns_and_empty_classes(rng):
    G = rng.normal(size=(40, 300))
    G[:, 7] = 3.0
    two, three = np.where(G[:, :1] > 0, 1.0, -1.0), one_hot(np.digitize(G[:, 0], [-0.5, 0.5]), 3)
    for alpha in (0.0, 1e-6, 1.0):
        for loss, Y in ((Logistic(), two), (Multinomial(), three)):
            models = glm_path(G, null_model(Y, np.ones(40), loss), alpha, 20)
            assert models.terms[0] == 0
            assert 7 not in models.terms
            assert np.all(np.isfinite(models.coefs))
            assert alpha < 1 or np.abs(models.coefs).max() < 10
    empty = glm_path(G, null_model(one_hot(np.digitize(G[:, 0], [-0.5, 0.5]), 4), np.ones(40), Multinomial()), 1.0, 3)
    assert np.all(np.isfinite(empty.coefs))
    np.testing.assert_array_equal(empty.coefs.shape, (4, 3, 4))
    for loss, Y in ((Logistic(), np.ones((40, 1))), (Poisson(), np.zeros((40, 1))), (Huber(), np.full((40, 1), 2.0)),
                    (Gamma(), np.full((40, 1), 2.0)), (Quantile((0.3,)), np.full((40, 1), 2.0))):  # fmt: skip
        models = glm_path(G, null_model(Y, np.ones(40), loss), 1.0, 5)
        assert len(models.terms) == 0
        assert np.all(np.isfinite(models.starts))


def test_an_exact_fit_ends_the_path(rng):
    G = rng.normal(size=(60, 5))
    for loss in (Huber(), Quantile((0.3,))):
        models = glm_path(G, null_model(3 + G[:, 2:3], np.ones(60), loss), 0.0, 5)
        weights, intercept = models.weights(1)
        assert models.terms[0] == 2
        np.testing.assert_allclose([weights[0, 0], intercept[0]], [1.0, 3.0], atol=1e-3)


# -- leave-one-out -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("squared", 1e-6), ("logistic", 0.03), ("multinomial", 0.03), ("poisson", 0.02), ("gamma", 0.02),
     ("huber", 0.01), ("quantile", 0.1)],
)  # fmt: skip
def test_leave_one_out_agrees_with_retraining(name, tolerance):
    G, Y = problem(name, n=60, p=4)
    loss = CASES[name]
    if name in ("logistic", "multinomial"):
        labels = (Y[:, 0] > 0).astype(int) if name == "logistic" else Y.argmax(axis=1)
        model = ForwardClassifier(loss="logistic", criterion=None).fit(G, labels)
    elif name == "squared":
        model = ForwardRegressor(loss="huber", criterion=None).fit(G, Y)  # the same path up to the outliers
        loss = Huber(scale=1e9)
    else:
        options = {"quantile": 0.3} if name == "quantile" else {}
        model = ForwardRegressor(loss=loss.name, criterion=None, **options).fit(G, Y[:, 0] if name == "quantile" else Y)
    training, columns = model.path_.training, G[:, model.support_]
    if name == "squared":
        training = replace(training, models=replace(training.models, losses=(loss,) * 5))
    fit = training.solve(4, None)
    left_out = oracles.loss_left_out(columns, Y, fit.loss, 1.0)
    approximate, exact = (np.mean(fit.loss.error(Y, eta)) for eta in (fit.left_out, left_out))
    assert approximate == pytest.approx(exact, rel=tolerance)
    fitted = np.mean(fit.loss.error(Y, model.linear_predictor(G).reshape(Y.shape)))
    assert abs(approximate - exact) < 0.3 * (exact - fitted)
    if name not in ("squared", "quantile"):
        assert model.criteria_["loo"] == pytest.approx(approximate)
        assert model.path_.steps[4].loo == pytest.approx(approximate, rel=1e-6)


def test_the_penalty_with_the_least_leave_one_out_error(rng):
    X = rng.normal(size=(40, 6))
    y = rng.random(40) < 1 / (1 + np.exp(-X[:, 0]))
    model = ForwardClassifier(criterion=None, refit_alpha="loo").fit(X, y)
    errors = {}
    for alpha in (0.1 * model.alpha_, model.alpha_, 10 * model.alpha_):
        eta = oracles.loss_left_out(X[:, model.support_], np.where(y, 1.0, -1.0)[:, None], Logistic(), alpha)
        errors[alpha] = np.mean(Logistic().error(np.where(y, 1.0, -1.0)[:, None], eta))
    assert min(errors, key=errors.get) == model.alpha_
    assert model.criterion_value_ == pytest.approx(errors[model.alpha_], rel=0.05)


# -- estimators --------------------------------------------------------------------------------------------------------


def test_all_columns_are_the_models_of_scikit_learn(rng):
    X = rng.normal(size=(120, 4)) * [1.0, 5.0, 0.2, 1.0] + 3.0
    Z = StandardScaler().fit_transform(X)
    counts = rng.poisson(np.exp(0.5 * Z[:, 0])).astype(float)
    positive = np.exp(0.5 * Z[:, 0]) * rng.gamma(2.0, 0.5, size=120)
    for labels in (counts > 1, np.digitize(Z[:, 0] + rng.normal(size=120), [-0.5, 0.5])):
        model = ForwardClassifier(criterion=None).fit(X, labels)
        known = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(Z, labels)
        np.testing.assert_allclose(model.predict_proba(X), known.predict_proba(Z), atol=1e-5)
        np.testing.assert_array_equal(model.predict(X), known.predict(Z))
    for name, known, y in (("poisson", PoissonRegressor, counts), ("gamma", GammaRegressor, positive)):
        model = ForwardRegressor(loss=name, criterion=None, alpha=2.0).fit(X, y)
        other = known(alpha=2.0 / 120, tol=1e-9, max_iter=1000).fit(Z, y)
        np.testing.assert_allclose(model.predict(X), other.predict(Z), rtol=1e-4)
        assert model.score(X, y) == pytest.approx(other.score(Z, y), rel=1e-5)


@pytest.mark.parametrize("estimator", [TermwiseRegressor, ForwardRegressor])
def test_quantiles_of_several_outputs_are_not_sorted(estimator, rng):
    X = rng.normal(size=(100, 2))
    Y = np.column_stack([10 + X[:, 0], -X[:, 0]]) + 0.1 * rng.normal(size=(100, 2))
    model = estimator(loss="quantile", max_terms=2).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), Y, atol=1.0)
    np.testing.assert_allclose(model.predictor_.predict(X), model.predict(X))


@pytest.mark.parametrize("estimator", [ForwardRegressor(), TermwiseRegressor(dictionary="linear")])
@pytest.mark.parametrize(("loss", "power"), [("poisson", 1), ("gamma", 2)])
def test_scores_are_those_of_predictions_also_far_outside(loss, power, estimator, rng):
    X = rng.normal(size=(60, 2))
    y = 1.0 + rng.poisson(np.exp(X[:, 0]))
    model = clone(estimator).set_params(loss=loss).fit(X, y)
    X[0, 0] = 2000.0
    assert model.score(X, y) == pytest.approx(d2_tweedie_score(y, model.predict(X), power=power), rel=1e-6)
    X[0, 0] = -2000.0  # where the prediction is zero, of which the deviance is infinite
    assert np.isfinite(model.score(X, y))


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-8, 1e-4, 1e4])
@pytest.mark.parametrize(
    ("loss", "level"), [("gamma", 0.5), ("huber", 0.5), ("quantile", 0.5), ("quantile", (0.1, 0.9))]
)
def test_the_unit_of_targets_does_not_matter(loss, level, unit, rng):
    """Paths end where no term lowers the loss by a small share of it; both have the same unit."""
    X = rng.normal(size=(80, 8))
    y = np.exp(0.5 * X[:, 0] + 0.2 * X[:, 1] + 0.3 * rng.normal(size=80))
    model = ForwardRegressor(loss=loss, quantile=level, criterion=None)
    one, other = (clone(model).fit(X, scale * y) for scale in (1.0, unit))
    assert one.n_terms_ == 8
    np.testing.assert_array_equal(other.support_, one.support_)
    np.testing.assert_allclose(other.predict(X), unit * one.predict(X), rtol=1e-9)
    auto = TermwiseRegressor(loss=loss, quantile=level, dictionary="linear")
    one, other = (clone(auto).fit(X, scale * y) for scale in (1.0, unit))
    np.testing.assert_allclose(other.predict(X), unit * one.predict(X), rtol=1e-9)
    for title, errors in one.trials_.items():
        np.testing.assert_allclose(other.trials_[title], errors, rtol=1e-9)


def test_the_unit_of_exposures_does_not_matter(rng):
    X, exposure = rng.normal(size=(120, 2)), rng.uniform(0.2, 20.0, size=120)
    y, weight = rng.poisson(exposure * np.exp(0.5 * X[:, 0])), rng.integers(1, 4, size=120)
    model = TermwiseRegressor(loss="poisson", dictionary="linear")
    one, other = (clone(model).fit(X, y, weight, exposure=unit * exposure) for unit in (1.0, 1e5))
    assert one.n_terms_ == other.n_terms_
    assert other.cv_error_ == pytest.approx(one.cv_error_)
    assert other.noise_variance_ == pytest.approx(one.noise_variance_)
    for name in ("predict", "predict_interval"):
        np.testing.assert_allclose(1e5 * np.array(getattr(other, name)(X)), getattr(one, name)(X))
    np.testing.assert_allclose(1e5 * other.at(1).predict(X), one.at(1).predict(X))
    np.testing.assert_allclose(1e5 * other.loo_residuals_, one.loo_residuals_, atol=1e-9)
    scores = [m.score(X, y / (unit * exposure), unit * exposure) for m, unit in ((one, 1.0), (other, 1e5))]
    assert scores[1] == pytest.approx(scores[0])
    copies = np.repeat(np.arange(120), weight)
    repeated = model.fit(X[copies], y[copies], exposure=exposure[copies])
    np.testing.assert_allclose(repeated.predict(X), one.predict(X))
    constant = [clone(model).fit(X, y, exposure=given).predict(X) for given in (np.full(120, 1000.0), None)]
    np.testing.assert_allclose(1000 * constant[0], constant[1])


def test_exposure_is_that_of_rates_with_weights(rng):
    X, exposure = rng.normal(size=(150, 3)), rng.uniform(0.5, 3.0, size=150)
    Z = StandardScaler().fit_transform(X)
    y = rng.poisson(exposure * np.exp(0.5 * X[:, 0])).astype(float)
    model = ForwardRegressor(loss="poisson", criterion=None).fit(X, y, exposure=exposure)
    known = PoissonRegressor(alpha=1 / exposure.sum(), tol=1e-9).fit(Z, y / exposure, sample_weight=exposure)
    np.testing.assert_allclose(model.predict(X), known.predict(Z), rtol=1e-4)
    folds = ForwardRegressor(loss="poisson", selection_cv=4).fit(X, y, exposure=exposure)
    out_of_fold = folds.fitted_terms_.fold_models.residuals[:, 0]
    assert np.corrcoef(out_of_fold, y / exposure - model.predict(X))[0, 1] > 0.9
    with sklearn.config_context(enable_metadata_routing=True):
        routed = ForwardRegressor(loss="poisson").set_fit_request(exposure=True)
        assert len(cross_validate(routed, X, y, params={"exposure": exposure}, cv=3)["test_score"]) == 3


def test_scores_are_shares_of_the_deviance(rng):
    X = rng.normal(size=(150, 5))
    eta, weight = 0.7 * X[:, 0], rng.uniform(0.5, 2.0, size=150)
    counts, positive = rng.poisson(np.exp(eta)).astype(float), np.exp(eta) * rng.gamma(2.0, 0.5, size=150)
    for name, y, power in (("poisson", counts, 1), ("gamma", positive, 2)):
        model = ForwardRegressor(loss=name).fit(X, y)
        expected = d2_tweedie_score(y, model.predict(X), power=power, sample_weight=weight)
        assert model.score(X, y, weight) == pytest.approx(expected)
        assert model.deviance_explained_ == pytest.approx(model.score(X, y), abs=1e-6)
        assert f"loss {name}: {model.deviance_explained_:.1%} of the deviance explained" in model.summary()
        np.testing.assert_allclose(np.log(model.predict(X)), model.linear_predictor(X))
        mean, std = model.predict(X, return_std=True)
        assert np.all((std > 0) & (std < mean))
    noisy = eta + rng.standard_t(2, size=150)
    model = ForwardRegressor(loss="quantile", quantile=0.8).fit(X, noisy)
    assert model.score(X, noisy) == pytest.approx(d2_pinball_score(noisy, model.predict(X), alpha=0.8), rel=0.01)


def test_huber_is_not_moved_by_outliers(rng):
    X = rng.normal(size=(200, 30))
    y = X[:, 3] - 2 * X[:, 8] + 0.1 * rng.normal(size=200)
    clean = ForwardRegressor(loss="huber").fit(X, y)
    y[:20] += 50.0
    model = ForwardRegressor(loss="huber").fit(X, y)
    assert set(clean.support_) == {3, 8}
    assert {3, 8} <= set(model.support_)
    np.testing.assert_allclose(model.coef_, clean.coef_, atol=0.05)
    squared = ForwardRegressor().fit(X, y)
    assert np.abs(squared.coef_ - clean.coef_).max() > 0.3
    assert abs(model.intercept_) < 0.1 < squared.intercept_


def test_quantiles_do_not_cross_and_have_their_levels(rng):
    X = rng.uniform(-2, 2, size=(600, 3))
    y = X[:, 0] + np.exp(0.7 * X[:, 1]) * rng.normal(size=600)
    model = ForwardRegressor(loss="quantile", quantile=(0.9, 0.1, 0.5), criterion="loo").fit(X[:400], y[:400])
    predicted = model.predict(5 * X)
    assert predicted.shape == (600, 3)
    assert np.all(np.diff(predicted, axis=1) >= 0)
    assert np.any(np.diff(model.linear_predictor(5 * X), axis=1) < 0)  # without sorting they would
    shares = np.mean(y[400:, None] <= model.predict(X[400:]), axis=0)
    np.testing.assert_allclose(shares, [0.1, 0.5, 0.9], atol=0.07)
    assert 0 < model.score(X[400:], y[400:]) < 1
    assert model.weights_.shape == (3, model.n_terms_)
    one = ForwardRegressor(loss="quantile", quantile=0.5).fit(X, np.column_stack([y, -y]))
    assert one.predict(X).shape == (600, 2)


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_probabilities_are_those_of_the_likelihood(load):
    X, y = load(return_X_y=True)
    model = ForwardClassifier().fit(X[::2], y[::2])
    assert model.loss_ == ("logistic" if len(model.classes_) == 2 else "multinomial")
    assert log_loss(y[1::2], model.predict_proba(X[1::2])) < 0.25
    np.testing.assert_array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))
    frozen = model.predictor_
    np.testing.assert_allclose(frozen.predict_proba(X), model.predict_proba(X), atol=1e-9)
    assert frozen.link == "identity"  # of scores
    assert model.at(1).n_terms_ == 1
    np.testing.assert_allclose(model.at(1).predict_proba(X).sum(axis=1), 1)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.at(1).predict(X), model.at(1).predict(X))


def test_auto_is_least_squares_where_nothing_else_applies(rng):
    X, y = rng.normal(size=(60, 6)), rng.random(60) < 0.5
    for options in ({"rule": "loo"}, {"rule": "loo_error"}, {"criterion": "gcv"}, {"refine": "swap"},
                    {"penalty": "orthogonal"}, {"alpha": "reestimate"}, {"refit_alpha": "gcv"}):  # fmt: skip
        model, known = ForwardClassifier(max_terms=3, **options), ForwardClassifier(loss="squared", max_terms=3)
        assert model.fit(X, y).loss_ == "squared"
        np.testing.assert_array_equal(model.coef_, known.set_params(**options).fit(X, y).coef_)
        with pytest.raises(ValueError, match=r"must be .* with loss='logistic', got .*: change it, or use loss='squ"):
            model.set_params(loss="logistic").fit(X, y)
    assert ForwardClassifier(rule="cost", criterion="bic").fit(X, y).loss_ == "logistic"


def test_class_weights_are_sample_weights(rng):
    X = rng.normal(size=(200, 4))
    y = np.where(X[:, 0] + rng.normal(size=200) > 1.2, "rare", "usual")
    share = np.mean(y == "rare")
    weights = np.where(y == "rare", 0.5 / share, 0.5 / (1 - share))
    for loss in ("logistic", "squared"):
        balanced = ForwardClassifier(loss=loss, class_weight="balanced").fit(X, y)
        known = ForwardClassifier(loss=loss).fit(X, y, weights)
        np.testing.assert_allclose(balanced.coef_, known.coef_)
        named = ForwardClassifier(loss=loss, class_weight={"rare": 0.5 / share, "usual": 0.5 / (1 - share)})
        np.testing.assert_allclose(named.fit(X, y).coef_, known.coef_)
        plain = ForwardClassifier(loss=loss).fit(X, y)
        assert np.mean(balanced.predict(X) == "rare") > np.mean(plain.predict(X) == "rare")
    calibrated = ForwardClassifier(class_weight="balanced", selection_cv=4).fit(X, y)
    assert np.mean(calibrated.predict(X) == "rare") > 1.5 * share


def test_folds_of_a_single_class(rng):
    X, y = rng.normal(size=(40, 3)), np.arange(40) >= 37
    model = ForwardClassifier(selection_cv=[(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))])
    assert np.all(np.isfinite(model.fit(X, y).predict_proba(X)))


@pytest.mark.parametrize("criterion", ["tcr", "loo", "one_se", "bic", None])
def test_sizes(criterion, rng):
    X = rng.normal(size=(300, 40))
    y = rng.poisson(np.exp(0.5 * X[:, 4] - 0.5 * X[:, 9]))
    model = ForwardRegressor(loss="poisson", criterion=criterion, max_terms=12).fit(X, y)
    assert set(model.support_[:2]) == {4, 9}
    assert model.n_terms_ == model.path_.choose(criterion)
    expected = {"tcr": (2, 3), "one_se": (2, 2), "bic": (2, 4), "loo": (2, 12), None: (12, 12)}[criterion]
    assert expected[0] <= model.n_terms_ <= expected[1]
    assert np.all(np.diff(model.path_.column("sse")) <= 1e-9)
    noise = ForwardRegressor(loss="poisson").fit(X, rng.poisson(np.ones(300)))
    assert noise.n_terms_ <= 1
    included = ForwardRegressor(loss="poisson", include=[0, 1]).fit(X, y)
    assert included.support_[:2].tolist() == [0, 1]


@pytest.mark.parametrize("loss", ["squared", "poisson", "huber"])
def test_patience_counts_terms_since_the_choice_last_changed(loss, rng):
    X = rng.normal(size=(200, 30))
    mean = 0.4 * X[:, :6].sum(axis=1)
    y = rng.poisson(np.exp(mean)) if loss == "poisson" else mean + 0.1 * rng.normal(size=200)
    X = np.column_stack([X, X[:, 0]])  # an included term that depends on another is left out
    options = {"loss": loss, "criterion": "bic", "alpha": 0.0, "include": [0, 30, 1, 2, 3, 4, 5]}
    path = ForwardRegressor(**options, patience=4).fit(X, y).path_
    choices = [int(np.argmin(path.column("bic")[: k + 1])) for k in range(len(path) + 1)]
    last_change = max(k for k in range(1, len(path) + 1) if choices[k] != choices[k - 1])
    assert path.terms[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert len(path) == max(last_change, 6) + 4 < 16
    assert path.stop_reason == "the choice of 'bic' has not changed for 4 terms"


def test_intervals_of_counts(rng, tmp_path):
    X = rng.normal(size=(400, 5))
    y = rng.poisson(np.exp(1 + 0.5 * X[:, 0])).astype(float)
    model = ForwardRegressor(loss="poisson", selection_cv=5).fit(X[:200], y[:200])
    lower, upper = model.predict_interval(X[200:], coverage=0.9, normalised=True)
    assert np.all(lower >= 0)
    assert 0.84 < np.mean((lower <= y[200:]) & (y[200:] <= upper)) < 0.97
    model.predictor_.save(tmp_path / "counts.json")
    frozen = load_predictor(tmp_path / "counts.json")
    assert frozen.link == "log"
    assert frozen.to_dict()["version"] == 4
    np.testing.assert_allclose(frozen.predict(X), model.predict(X), rtol=1e-12)
    np.testing.assert_allclose(frozen.predict_interval(X[200:], normalised=True), (lower, upper), rtol=1e-9)


@pytest.mark.parametrize(("dtype", "largest"), [(np.float64, 1e62), (np.float32, 1e30)])
def test_responses_of_a_log_link_stay_finite(dtype, largest, rng, tmp_path):
    """Far from the data the exponential function would overflow, also in a row that has no weight in the fit."""
    X = rng.normal(size=(60, 2)).astype(dtype)
    y = np.exp(X[:, 0] + 0.1 * rng.normal(size=60))
    X[0], weights = [1e6, -1e6], np.arange(60) > 0
    for loss in ("gamma", "poisson"):
        model = ForwardRegressor(loss=loss).fit(X, y, sample_weight=weights)
        predictions, errors = model.predict(X, return_std=True)
        assert predictions.dtype == dtype
        np.testing.assert_allclose(predictions[0], largest, rtol=1e-5)
        assert np.all(np.isfinite(errors))
        assert np.all(np.isfinite(model.loo_residuals_))
        model.predictor_.save(tmp_path / "model.json")
        frozen = load_predictor(tmp_path / "model.json")
        np.testing.assert_allclose(frozen.predict(X), predictions, rtol=1e-5)
        np.testing.assert_allclose(frozen.predict_one(X[0]), 1e62)


def test_leave_one_out_of_a_log_link_stays_finite():
    """One Newton step from two samples of very different size ends where the exponential function overflows."""
    X, y = np.ones((2, 1)), np.array([466.0, 1e-3])
    for loss in ("gamma", "poisson"):
        model = ForwardRegressor(loss=loss).fit(X, y)
        assert np.isfinite(model.noise_variance_)
        assert np.all(np.isfinite(model.loo_residuals_))
        assert np.all(np.isfinite(model.path_.column("loo")))


def test_every_loss_is_an_estimators(rng):
    X, y = rng.normal(size=(40, 3)), rng.integers(1, 4, size=40)
    names = {"multinomial"}
    for loss in ("squared", "poisson", "gamma", "huber", "quantile"):
        names.add(ForwardRegressor(loss=loss).fit(sp.csr_array(X), y, np.arange(40) % 3).loss_)
    names.add(ForwardClassifier().fit(X, y > 1).loss_)
    assert names == set(LOSSES)


def test_classes_whose_frequencies_are_exact():
    """The gradient of the model without terms is rounding, which a step of conjugate gradients reduces to zero."""
    y = [1, 1, 0, 2, 0, 0, 2, 1, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 2]
    model = ForwardClassifier().fit(np.ones((31, 1)), y)
    np.testing.assert_allclose(model.predict_proba([[1.0]]), [np.bincount(y) / 31])


def test_leave_one_out_of_many_classes_neglects_their_coupling(monkeypatch, rng):
    """Beyond a number of classes, products of two probabilities are left out, in time and memory linear in them."""
    X = rng.normal(size=(300, 4))
    y = np.argmax(X @ rng.normal(size=(4, 8)) + rng.normal(size=(300, 8)), axis=1)
    exact = ForwardClassifier(max_terms=4, criterion=None).fit(X, y)
    monkeypatch.setattr("termwise.linalg.newton.MAX_COUPLED", 7)
    found = ForwardClassifier(max_terms=4, criterion=None).fit(X, y)
    assert found.support_.tolist() == exact.support_.tolist()
    np.testing.assert_allclose(found.coef_, exact.coef_)
    np.testing.assert_allclose(found.path_.column("loo"), exact.path_.column("loo"), rtol=0.03)
    np.testing.assert_allclose(found.effective_dof_, exact.effective_dof_, rtol=0.2)  # eight classes are not many


@pytest.mark.parametrize("p", [20, 200])
def test_noise_seldom_has_terms_with_the_loss_of_huber(p):
    """As with the squared loss; a threshold that falls with the residuals makes more and more terms significant."""
    rng = np.random.default_rng(1)
    sizes = [ForwardRegressor(loss="huber").fit(rng.normal(size=(100, p)), rng.normal(size=100)).n_terms_
             for _ in range(40)]  # fmt: skip
    assert np.mean(np.array(sizes) > 0) < 0.5
    assert max(sizes) <= 6
    found = []
    for _ in range(10):
        X = rng.normal(size=(150, p))
        y = X[:, :3] @ [2.0, 1.0, 0.6] + rng.standard_t(3, size=150)
        found.append(np.isin([0, 1, 2], ForwardRegressor(loss="huber").fit(X, y).support_).mean())
    assert np.mean(found) > 0.9


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_standard_errors_of_several_outputs_are_those_of_each(loss, rng):
    """Outputs may have noise of different sizes: with the same terms each has the dispersion of a fit to it alone."""
    X, weights = rng.normal(size=(150, 2)), rng.integers(0, 3, size=150)
    means = np.exp(X @ [[0.5, 0.3], [-0.3, 0.5]])
    shape = np.array([10.0, 0.7])  # the smaller the more dispersed
    Y = rng.gamma(shape, means / shape)
    Y = rng.poisson(Y) if loss == "poisson" else Y
    options = {"loss": loss, "include": [0, 1], "criterion": None}
    joint = ForwardRegressor(**options).fit(X, Y, weights)
    assert max(joint.noise_variance_) > 1.5 * min(joint.noise_variance_)
    errors = joint.predict(X, return_std=True)[1]
    for j in (0, 1):
        alone = ForwardRegressor(**options).fit(X, Y[:, j], weights)
        np.testing.assert_allclose(joint.noise_variance_[j], alone.noise_variance_, rtol=1e-6)
        np.testing.assert_allclose(joint.weights_cov_[j], alone.weights_cov_, rtol=1e-6)
        np.testing.assert_allclose(errors[:, j], alone.predict(X, return_std=True)[1], rtol=1e-6)


def test_standard_errors_of_several_quantiles_are_those_of_each():
    """Skewed noise: the higher quantile is estimated much less accurately."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    weights, errors = [], []
    for _ in range(60):
        y = X @ [0.5, -0.3] + rng.exponential(size=200)
        model = ForwardRegressor(loss="quantile", quantile=(0.1, 0.9), include=[0, 1], criterion=None).fit(X, y)
        weights.append(model.weights_)
        errors.append(np.sqrt(np.diagonal(model.weights_cov_, axis1=1, axis2=2)))
    ratio = np.mean(errors, axis=0) / np.std(weights, axis=0)
    assert np.all((ratio > 0.7) & (ratio < 1.4))


def test_noise_variance_where_the_loss_of_huber_clips_all_errors_of_an_output():
    model = ForwardRegressor(loss="huber").fit(np.zeros((2, 1)), np.array([[-1.0, 0.1], [1.0, -0.1]]))
    large, small = model.noise_variance_
    assert small < large < 2.0
