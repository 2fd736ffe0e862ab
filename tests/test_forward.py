"""ForwardRegressor and ForwardClassifier: models on a path, and selectors."""

from __future__ import annotations

import pickle

import numpy as np
import oracles
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from termwise import (
    BasisRidge,
    ForwardClassifier,
    ForwardRegressor,
    PrefilterClassifier,
    RadialBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    datasets,
    forward_path,
)


def linear(rng, n=80, p=30, outputs=1):
    G = rng.normal(size=(n, p)) + 1.0
    y = 2 * G[:, 4] - G[:, 11] + 0.5 * rng.normal(size=n)
    return G, y if outputs == 1 else np.column_stack([y, y + rng.normal(size=n)])


@pytest.mark.parametrize("penalty", ["weights", "orthogonal"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 0.5])
def test_the_model_is_the_path_at_the_chosen_size(penalty, intercept, alpha, rng):
    G, y = linear(rng)
    model = ForwardRegressor(penalty=penalty, fit_intercept=intercept, alpha=alpha).fit(G, y)
    path = forward_path(G, y, penalty=penalty, fit_intercept=intercept, alpha=alpha, criterion="tcr", patience=10)
    assert model.path_.terms.tolist() == path.terms.tolist()
    k = path.choose("tcr")
    assert model.support_.tolist() == path.terms[:k].tolist()
    for size in (k, 1, len(path)):
        cut = model.at(size)
        w, b = path.coef(size)
        np.testing.assert_allclose(cut.weights_, w, rtol=1e-8)
        np.testing.assert_allclose(cut.intercept_, b, rtol=1e-7, atol=1e-9)
        S = path.terms[:size]
        P = oracles.smoother(G[:, S], alpha, intercept, penalty)
        np.testing.assert_allclose(cut.predict(G), y - P @ y, atol=1e-8)
        np.testing.assert_allclose(cut.loo_residuals_, P @ y / np.diag(P), rtol=1e-7)
        assert cut.effective_dof_ == pytest.approx(len(G) - np.trace(P), rel=1e-8)
        assert cut.criteria_["loo"] == pytest.approx(path.steps[size].loo, rel=1e-8)
        assert cut.criteria_["gcv"] == pytest.approx(path.steps[size].gcv, rel=1e-8)
    assert model.at(0).n_terms_ == 0
    assert model.n_terms_ == k


def test_error_bars_equal_ridge_on_the_chosen_terms(rng):
    G, y = linear(rng)
    model = ForwardRegressor(alpha=0.3).fit(G, y)
    ridge = BasisRidge(alpha=0.3).fit(G[:, model.support_], y)
    np.testing.assert_allclose(model.weights_cov_, ridge.weights_cov_, rtol=1e-7)
    np.testing.assert_allclose(
        model.predict(G, return_std=True)[1], ridge.predict(G[:, model.support_], return_std=True)[1], rtol=1e-7
    )
    np.testing.assert_allclose(
        model.predict_interval(G, method="jackknife+"),
        ridge.predict_interval(G[:, model.support_]),
        rtol=1e-7,
        atol=1e-9,
    )
    assert model.summary().startswith(f"ForwardRegressor: {model.n_terms_} of 30 terms, 80 samples")


@pytest.mark.parametrize("criterion", ["tcr", "loo", "one_se", "gcv", "uev", "fpe", "bic", None])
def test_criteria_choose_the_size(criterion, rng):
    G, y = linear(rng)
    model = ForwardRegressor(criterion=criterion, max_terms=12, patience=None).fit(G, y)
    assert model.n_terms_ == model.path_.choose(criterion)
    name = criterion if criterion in ("gcv", "uev", "fpe", "bic") else "loo"
    assert model.criterion_value_ == model.criteria_[name]


def test_refit_alpha_is_the_global_optimum_on_the_chosen_terms(rng):
    G, y = linear(rng)
    for criterion in ("loo", "gcv"):
        model = ForwardRegressor(refit_alpha=criterion).fit(G, y)
        ridge = BasisRidge(alpha=criterion).fit(G[:, model.support_], y)
        assert model.alpha_ == pytest.approx(ridge.alpha_, rel=1e-6)
        np.testing.assert_allclose(model.weights_, ridge.weights_, rtol=1e-6)
    noise = ForwardRegressor(refit_alpha="loo", include=[0], max_terms=1).fit(G, rng.normal(size=80))
    assert noise.n_terms_ == 1


def test_it_is_a_selector(rng):
    G, y = linear(rng)
    frame = pd.DataFrame(G, columns=[f"c{j}" for j in range(30)])
    model = ForwardRegressor().fit(frame, y)
    chosen = np.sort(model.support_)
    np.testing.assert_array_equal(model.get_support(indices=True), chosen)
    assert model.get_support().sum() == model.n_terms_
    np.testing.assert_array_equal(model.transform(frame), G[:, chosen])
    assert list(model.get_feature_names_out()) == [f"c{j}" for j in chosen]
    named = clone(model).set_output(transform="pandas").fit_transform(frame, y)
    assert list(named.columns) == [f"c{j}" for j in chosen]
    pipeline = make_pipeline(ForwardRegressor(), LinearRegression()).fit(G, y)
    assert pipeline.score(G, y) > 0.9
    assert SelectFromModel(ForwardRegressor()).fit(G, y).get_support().any()


def test_with_a_basis_only_the_chosen_functions_remain():
    X, y = datasets.make_hermite(200, random_state=0)
    model = ForwardRegressor(RadialBasis(width=0.7)).fit(X, y)
    assert model.n_terms_ < 20
    assert model.score(X, y) > 0.7
    assert model.fitted_terms_.basis.centers_.shape == (model.n_terms_, 1)
    assert all(name.startswith("gaussian_") for name in model.get_feature_names_out())
    assert model.transform(X).shape == (200, model.n_terms_)


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csc_array])
def test_sparse_designs_stay_sparse(container, rng, monkeypatch):
    G, y = rng.normal(size=(100, 400)) * (rng.random(size=(100, 400)) < 0.2), rng.normal(size=100)
    y += 3 * G[:, 5]
    sparse = container(G)
    dense = ForwardRegressor().fit(G, y)
    original = sp.csc_array.toarray

    def only_parts(self, *options, **more):
        assert self.shape[1] < 400, "all columns were made dense"
        return original(self, *options, **more)

    monkeypatch.setattr(sp.csc_array, "toarray", only_parts)
    model = ForwardRegressor().fit(sparse, y)
    assert model.support_.tolist() == dense.support_.tolist()
    np.testing.assert_allclose(model.predict(sparse), dense.predict(G), rtol=1e-8)


def test_weights_outputs_and_float32(rng):
    G, Y = linear(rng, outputs=2)
    counts = rng.integers(0, 3, size=80)
    weighted = ForwardRegressor().fit(G, Y, sample_weight=counts)
    repeated = ForwardRegressor().fit(*oracles.repeat(counts, G, Y))
    assert weighted.support_.tolist() == repeated.support_.tolist()
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7, atol=1e-10)
    single = ForwardRegressor().fit(G.astype(np.float32), Y)
    assert single.predict(G.astype(np.float32)).dtype == np.float32
    assert single.support_.tolist() == ForwardRegressor().fit(G, Y).support_.tolist()


def test_included_terms_are_always_kept(rng):
    G, y = linear(rng)
    model = ForwardRegressor(include=[20, 3]).fit(G, y)
    assert model.support_[:2].tolist() == [20, 3]
    assert {4, 11} <= set(model.support_)
    useless = ForwardRegressor(include=[20]).fit(G, rng.normal(size=80))
    assert 20 in useless.support_


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_included_terms_may_be_more_than_max_terms(loss, rng):
    G, y = linear(rng)
    model = ForwardRegressor(loss=loss, max_terms=1, include=[20, 3]).fit(G, y)
    assert model.support_.tolist() == [20, 3]
    assert model.stop_reason_ == "max_terms=1 reached"
    folds = ForwardRegressor(loss=loss, max_terms=1, include=[20, 3], selection_cv=3).fit(G, y)
    assert folds.selection_frequency_.nonzero()[0].tolist() == [3, 20]
    classes = ForwardClassifier(loss="auto" if loss == "huber" else loss, max_terms=1, include=[20, 3]).fit(G, y > 1)
    assert classes.support_.tolist() == [20, 3]


@pytest.mark.parametrize("criterion", ["tcr", "cv", None])
def test_max_terms_beyond_all_candidates(criterion, rng):
    G, y = linear(rng)
    model = ForwardRegressor(criterion=criterion, max_terms=10**30, patience=None).fit(G, y)
    assert len(model.path_) == 30


def test_more_included_terms_than_folds_are_to_have(rng):
    G, y = linear(rng)
    model = ForwardRegressor(criterion="cv", refit_alpha="cv", max_terms=1, include=[20, 3]).fit(G, y)
    assert model.support_.tolist() == [20, 3]
    assert model.cv_errors_.shape == (3,)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_included_constant_brings_no_other_term(loss, rng):
    G = np.hstack([rng.normal(size=(40, 4)), np.ones((40, 1))])
    y = np.random.default_rng(0).normal(size=40)
    model = ForwardRegressor(loss=loss, include=[4]).fit(G, y)
    assert model.path_.choose("tcr") == 0
    assert model.support_.tolist() == []
    limited = ForwardRegressor(loss=loss, include=[4, 1], max_terms=1, criterion=None).fit(G, y)
    assert limited.support_.tolist() == [1]


@pytest.mark.parametrize("n", [40, 50, 60, 61, 100])
@pytest.mark.parametrize("constant", [1.0, 0.1, 2e5])
def test_included_constants_do_not_enter_by_rounding(n, constant, rng):
    """What centring leaves of a constant is not always zero; without a penalty its weight would be about 1e14."""
    X, weights = rng.normal(size=(n, 4)), rng.choice([0.0, 1.0, 2.5], size=n)
    y = X[:, 0] + 0.1 * rng.normal(size=n)
    X[:, 2] = np.where(weights > 0, constant, 0.0)  # of the samples that count
    for options in ({}, {"alpha": 0}, {"rule": "cost"}, {"criterion": "cv"}, {"refine": "swap"}):
        model = ForwardRegressor(include=[2, 0], **options).fit(X, y, weights)
        assert model.support_[0] == 0
        assert 2 not in model.path_.terms
        assert model.coef_[2] == 0
    without = ForwardRegressor(include=[0], alpha=0, criterion=None, max_terms=2).fit(X[:, [0, 1, 3]], y, weights)
    model = ForwardRegressor(include=[2, 0], alpha=0, criterion=None, max_terms=2).fit(X, y, weights)
    assert model.effective_dof_ == pytest.approx(without.effective_dof_)
    np.testing.assert_allclose(model.predict(X[::-1]), without.predict(X[::-1][:, [0, 1, 3]]))


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_included_terms_enter_whatever_ends_the_path(loss, rng):
    G, y = linear(rng)
    late = ForwardRegressor(loss=loss, include=[20, 3], max_seconds=1e-9).fit(G, y)
    assert late.support_.tolist() == [20, 3]
    assert late.stop_reason_ == "max_seconds=1e-09 are over"
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    stopped = ForwardRegressor(loss=loss, include=[20, 3]).set_callbacks(StopAfter(1)).fit(G, y)
    assert stopped.support_.tolist() == [20, 3]
    assert stopped.stop_reason_ == "stopped by a callback"


def test_budgets_and_reports(rng, capsys):
    G, y = linear(rng)
    model = ForwardRegressor(max_seconds=1e-9).fit(G, y)
    assert model.stop_reason_ == "max_seconds=1e-09 are over"
    assert np.isfinite(model.predict(G)).all()
    ForwardRegressor(verbose=1, max_terms=2, criterion=None).fit(G, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "candidate      4" in lines[0]


def test_pickle_does_not_carry_the_data(rng):
    G, y = rng.normal(size=(300, 400)), rng.normal(size=300)
    model = ForwardRegressor(max_terms=3, criterion=None).fit(G, y)
    stored = pickle.dumps(model)
    assert len(stored) < G.nbytes / 10
    np.testing.assert_array_equal(pickle.loads(stored).predict(G), model.predict(G))


@pytest.mark.parametrize("labels", [["no", "yes"], [3, 7], ["a", "b", "c"]], ids=["words", "numbers", "three"])
def test_classifier(labels, rng):
    X = rng.normal(size=(150, 6))
    score = X[:, 1] - X[:, 4]
    edges = np.quantile(score, np.linspace(0, 1, len(labels) + 1)[1:-1])
    y = np.array(labels)[np.digitize(score, edges)]
    model = ForwardClassifier(loss="squared").fit(X, y)
    assert list(model.classes_) == sorted(labels)
    assert model.score(X, y) > (0.9 if len(labels) == 2 else 0.6)
    assert {1, 4} <= set(model.support_)
    scores = model.decision_function(X)
    if len(labels) == 2:
        np.testing.assert_array_equal(model.predict(X) == labels[1], scores >= 0)
        coded = np.where(y == sorted(labels)[1], 1.0, -1.0)
        np.testing.assert_allclose(scores, ForwardRegressor().fit(X, coded).predict(X))
    else:
        assert scores.shape == (150, 3)
        np.testing.assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    assert model.at(1).n_terms_ == 1


@pytest.mark.parametrize("loss", ["squared", "poisson", "logistic", "three classes"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "basis"])
def test_another_size_has_the_residuals_of_samples_of_weight_zero(loss, kind, rng):
    X = rng.normal(size=(40, 4))
    y = X[:, 0] + rng.normal(size=40)
    y = {"squared": y, "poisson": np.exp(y), "logistic": y > 0}.get(loss, np.digitize(y, [-0.5, 0.5]))
    table, weights = sp.csr_array(X) if kind == "sparse" else X, np.repeat([0.0, 1.0, 2.0], [5, 30, 5])
    estimator = ForwardClassifier if loss in ("logistic", "three classes") else ForwardRegressor
    options = {"loss": "squared" if loss == "three classes" else loss, "criterion": None}
    options["basis"] = RadialBasis(centers=6, store=False) if kind == "basis" else None
    model = estimator(**options, max_terms=3).fit(table, y, weights)
    fewer = estimator(**options, max_terms=2).fit(table, y, weights)
    assert len(fewer.loo_residuals_) == 40
    np.testing.assert_allclose(model.at(2).loo_residuals_, fewer.loo_residuals_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "model",
    [TermwiseRegressor(3, dictionary="linear"), TermwiseRegressor(3, dictionary="linear", loss="poisson"),
     TermwiseClassifier(3, dictionary="linear"), PrefilterClassifier(max_terms=3)],
)  # fmt: skip
def test_another_size_has_a_residual_for_every_sample(model, rng):
    X = rng.normal(size=(60, 4))
    y, weights = np.abs(X[:, 0]) + rng.uniform(size=60), np.repeat([0.0, 1.0, 2.0], [5, 50, 5])
    model = model.fit(X, y > 1 if is_classifier(model) else y, weights)
    assert len(model.at(1).loo_residuals_) == len(model.loo_residuals_) == 60
    np.testing.assert_allclose(model.at(model.n_terms_).loo_residuals_, model.loo_residuals_)


class StopAfter:
    """A callback of scikit-learn's kind that ends the fit after some terms."""

    def __init__(self, terms):
        self.terms, self.seen, self.ended = terms, 0, 0

    def setup(self, estimator, context):
        self.seen = 0

    def teardown(self, estimator, context):
        self.ended += 1

    def on_fit_task_begin(self, estimator, context, **_):
        pass

    def on_fit_task_end(self, estimator, context, **_):
        self.seen += context.task_name == "term"
        return self.seen >= self.terms


def test_scikit_learns_callbacks(rng):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    from sklearn.callback import ProgressBar

    G, y = linear(rng)
    callback = StopAfter(3)
    model = ForwardRegressor(criterion=None).set_callbacks(callback).fit(G, y)
    assert model.n_terms_ == 3
    assert model.stop_reason_ == "stopped by a callback"
    assert callback.ended == 1
    assert np.isfinite(model.predict(G)).all()
    pytest.importorskip("rich", reason="scikit-learn's progress bar draws with rich")
    shown = ForwardRegressor(max_terms=4).set_callbacks(ProgressBar()).fit(G, y)
    assert len(shown.path_) == 4
    assert pickle.loads(pickle.dumps(shown)).n_terms_ == shown.n_terms_


def test_all_candidates_kept(rng):
    """The means go with their columns, in whatever order these were taken."""
    G = rng.normal(size=(30, 6)) + np.arange(6.0)
    y = G @ rng.normal(size=6) + rng.normal(size=30)
    model = ForwardRegressor(criterion=None, alpha=0.0).fit(G, y)
    reference = LinearRegression().fit(G, y)
    assert model.n_terms_ == 6
    assert model.intercept_ == pytest.approx(reference.intercept_)
    np.testing.assert_allclose(model.predict(G), reference.predict(G))
    expected = BasisRidge(alpha=0.0).fit(G, y).predict_interval(G)
    np.testing.assert_allclose(model.predict_interval(G, method="jackknife+"), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_far_from_zero_are_no_constants(dtype, rng):
    year = rng.integers(2000, 2011, size=200).astype(dtype)
    for precompute in (False, True):
        model = ForwardRegressor(precompute=precompute).fit(year[:, None], year - 2005 + 0.1 * rng.normal(size=200))
        assert model.n_terms_ == 1
        assert model.score(year[:, None], year - 2005) > 0.99
    stamps = 1.7e9 + 36000 * rng.random(size=(200, 3))
    model = ForwardRegressor(max_terms=3, precompute=True).fit(stamps, (stamps[:, 1] - 1.7e9) / 3600)
    assert model.support_[0] == 1
    assert model.score(stamps, (stamps[:, 1] - 1.7e9) / 3600) > 0.999
    assert ForwardRegressor().fit(np.full((20, 2), 1.7e9), rng.normal(size=20)).n_terms_ == 0


@pytest.mark.parametrize("rule", ["loo", "cost", "sse"])
@pytest.mark.parametrize("seed", range(6))
def test_very_smooth_functions_of_one_input_are_told_apart(rule, seed):
    """Beside each other, wide Gaussians keep 1e-12 of their squared norms; without a penalty, five fit a sine."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-1, 1, 40))[:, None]
    y = np.sin(5 * x[:, 0]) * np.exp(x[:, 0]) + 0.05 * rng.normal(size=40)
    model = ForwardRegressor(RadialBasis(width=2.0), alpha=0.0, rule=rule, criterion="loo").fit(x, y)
    assert np.mean(model.loo_residuals_**2) < 0.01  # the noise is 0.0025; that of four terms is 0.1 to 0.2
