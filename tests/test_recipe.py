"""The automatic estimators on real tables: other models as the target, kinks, losses, folds, constraints, sizes."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from oracles import predict, product_columns, weights
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    StackingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from test_flagship import FixedPredictions, with_settings

from termwise import (
    AnovaBasis,
    ForwardRegressor,
    RuleBasis,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    UnionBasis,
)
from termwise._arrays import evenly
from termwise.recipe import RecipeSettings
from termwise.recipe.bootstrap import BootstrapChoices
from termwise.recipe.choice import contenders
from termwise.recipe.cross_validation import Fitting
from termwise.recipe.dictionaries import Samples, product_kernel
from termwise.recipe.folds import assign_folds
from termwise.recipe.search import Search
from termwise.recipe.size import RecipeOptions
from termwise.recipe.targets import Reference, RidgeTarget, default_reference, synthetic_inputs, with_more_trees
from termwise.recipe.trials import Objective, Trial
from termwise.selection.nested import nested_path

NAN = np.nan


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def threshold(rng):
    """A step, a line and noise."""
    X = rng.uniform(size=(240, 3))
    return X, 2.0 * (X[:, 0] > 0.5) + X[:, 1] + 0.1 * rng.normal(size=240)


# -- paths that grow, kernels, synthetic inputs ------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [True, False])
def test_a_path_that_is_continued_equals_one_from_the_start(rng, stored):
    X, Y, weight = rng.normal(size=(60, 6)), rng.normal(size=(60, 2)), rng.uniform(0.5, 2, 60)
    basis = AnovaBasis().fit(X)
    G = basis.transform(X) if stored else basis.design(X)
    short = nested_path(G, Y, weight, 1e-2, 6)
    longer = nested_path(G, Y, weight, 1e-2, 15, before=short)
    whole = nested_path(G, Y, weight, 1e-2, 15)
    np.testing.assert_array_equal(longer.terms, whole.terms)
    for name in ("R", "Z", "zy"):
        np.testing.assert_allclose(getattr(longer, name), getattr(whole, name), atol=1e-10)


@pytest.mark.parametrize("groups", [None, [0, 0, 1]])
def test_kernel_of_products(rng, groups):
    X = rng.normal(size=(40, 3))
    basis = AnovaBasis(functions=("linear", "hinge"), n_knots=3, min_count=0, groups=groups).fit(X)
    counts = rng.integers(1, 4, size=len(X)).astype(float)
    columns = product_columns(basis, X, counts, groups)
    np.testing.assert_allclose(product_kernel(basis, X, counts), columns @ columns.T, rtol=1e-9)


def test_ridge_by_its_kernel_equals_that_on_its_columns(rng):
    G, Y, weight = rng.normal(size=(40, 90)), rng.normal(size=(40, 2)), rng.integers(1, 4, size=40).astype(float)
    by_columns, by_kernel = RidgeTarget.from_columns(G, Y, weight), RidgeTarget.from_kernel(G @ G.T, Y, weight)
    assert by_kernel.alpha == pytest.approx(by_columns.alpha, rel=1e-5)
    np.testing.assert_allclose(by_kernel.signal, by_columns.signal, atol=1e-6)
    np.testing.assert_allclose(by_kernel.residual, by_columns.residual, atol=1e-6)
    np.testing.assert_allclose(by_kernel.targets, Y, atol=1e-12)


@pytest.mark.slow
def test_clearly_worse_dictionaries_are_tried_in_two_folds_only(rng):
    X = rng.normal(size=(320, 4))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=320)
    # with the same trials in every repeat of cross-validation, so that they differ by the first folds alone
    model, whole = (with_settings(TermwiseRegressor, max_repeats=2, race_rows=rows)().fit(X, y) for rows in (300, 321))
    assert set(model.trials_) <= set(whole.trials_)
    assert model.choice_.title == whole.choice_.title
    assert model.cv_error_ == pytest.approx(whole.cv_error_, rel=0.05)
    lost = [len(one.trials_["linear"]) for one in (model, whole)]
    assert lost == [21, 41]  # paths that do not improve are not continued


@pytest.mark.slow
def test_ridge_regression_is_no_target_of_dictionaries_that_are_clearly_worse(rng):
    X = rng.uniform(size=(400, 3))
    y = np.sin(6 * X[:, 0]) + 0.05 * rng.normal(size=400)
    tried = TermwiseRegressor().fit(X, y).trials_
    assert "linear" in tried
    assert "linear, ridge" not in tried
    assert "additive, ridge" in tried


def test_the_ridge_fit_has_the_dictionary_that_was_fitted_for_the_data(rng):
    X = rng.uniform(size=(320, 3))
    y = np.sin(6 * X[:, [0]]) + 0.3 * rng.normal(size=(320, 1))
    folds = assign_folds(Samples(X, y, np.ones(320)), False, RecipeSettings(), np.random.RandomState(0))
    bases, settings = {"relevant": SmoothBasis(relevance="auto", centers=100)}, RecipeSettings()
    search = Search(bases, [folds], settings, 20, lambda: None, None, False, Fitting(1e-6), np.arange(3))
    data = search.start({"relevant": [Objective("data")]}, 20)
    (again,) = search.start({"relevant": [Objective("ridge")]}, 20, before=data)
    (alone,) = search.start({"relevant": [Objective("ridge")]}, 20)
    paths = (trial.repeats[0].paths for trial in (again, alone, data[0]))
    for path, other, first in zip(*paths, strict=True):
        assert path.dictionary.basis is first.dictionary.basis
        np.testing.assert_array_equal(path.models.terms, other.models.terms)
    np.testing.assert_allclose(again.errors, alone.errors)
    whole = search.finish([*data, again])
    assert [one.title for one in whole] == ["relevant", "relevant, ridge"]
    assert all(len(one.repeats[0].paths) == 5 for one in whole)


@pytest.mark.slow
def test_nonlinear_models_that_are_no_better_are_tried_in_two_folds_only(rng):
    X = rng.normal(size=(600, 4))
    y = X @ [3.0, 2.0, 1.0, 0.0] + rng.normal(size=600)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        model = TermwiseRegressor(verbose=1, dictionary="auto", target="data").fit(X, y)
    assert model.dictionary_ == "linear"
    titles = [line.split(":")[0] for line in printed.getvalue().splitlines() if "cross-validated error" in line]
    assert titles.index("additive") < titles.index("linear")  # what is dropped is reported first


def test_trials_chosen_most_often_are_repeated(rng):
    Y, weight = rng.normal(size=(50, 1)), np.ones(50)
    options, settings = RecipeOptions("accurate", "auto", "data", 5, 0), RecipeSettings()

    def trial(name, noise):
        scores = np.stack([np.zeros_like(Y), Y + noise * rng.normal(size=Y.shape)])
        return Trial(name, "data", [FixedPredictions(scores)], Y, weight)

    trials = [trial("linear", 1.0), trial("additive", 0.5), trial("pairs", 0.5), trial("smooth", 0.9)]
    bootstrap = BootstrapChoices.draw(trials, np.arange(50), options, settings)
    assert {place for place, _ in bootstrap.chosen} <= {1, 2}
    assert sorted(bootstrap.most_chosen(1.0)) == sorted({place for place, _ in bootstrap.chosen})
    (most,) = bootstrap.most_chosen(1e-3)
    counts = np.bincount([place for place, _ in bootstrap.chosen])
    assert counts[most] == counts.max()
    kept = contenders(trials, np.arange(50), options, settings)
    assert all(any(trials[place] is one for one in kept) for place in bootstrap.most_chosen(0.9))
    assert all(one is not trials[0] for one in kept)


@pytest.mark.slow
def test_trials_that_are_rarely_chosen_are_not_repeated():
    rng = np.random.default_rng(2)  # sizes in bootstrap samples differ, so that cross-validation is repeated
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + 0.7 * X[:, 1] * X[:, 2] + rng.normal(size=120)
    lines = []
    for share in (1.0, 0.5):
        Regressor = with_settings(TermwiseRegressor, contender_share=share)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            Regressor("accurate", verbose=1).fit(X, y)
        lines.append(printed.getvalue().count("cross-validated error"))
    assert lines[1] < lines[0]


def test_synthetic_inputs_mix_rows_and_keep_groups_together(rng):
    X = np.column_stack([np.arange(30.0), np.eye(3)[np.arange(30) % 3], rng.normal(size=30)])
    groups = np.array([0, 1, 1, 1, 2])
    found = synthetic_inputs(X, groups, RecipeSettings())
    assert len(found) == 60
    assert np.all(found[:, 1:4].sum(axis=1) == 1)  # one level each
    for j in (0, 4):
        assert np.isin(found[:, j], X[:, j]).all()
    np.testing.assert_array_equal(found, synthetic_inputs(X[::-1], groups, RecipeSettings()))  # whatever the order


def test_terms_for_another_model_are_fitted_to_its_predictions(rng):
    X = rng.normal(size=(80, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=80)
    samples = Samples(X, y[:, None], np.ones(80))
    reference = Reference.fit(LinearRegression(), samples, np.arange(2), False, RecipeSettings(), X[:3] + 9)
    expected = LinearRegression().fit(X, y)
    np.testing.assert_allclose(reference.signal[:, 0], expected.predict(X))
    np.testing.assert_allclose(reference.values[:, 0], expected.predict(reference.X))
    np.testing.assert_allclose(reference.held_out[:, 0], expected.predict(X[:3] + 9))
    models = reference.models(AnovaBasis(order=1).fit(X), X, np.ones(80), 1e-9, 2)
    assert sorted(models.terms.tolist()) == [0, 5]  # the two linear functions reproduce a linear model
    np.testing.assert_allclose(models.first_rows(80).fitted(2, 1.0)[:, 0], expected.predict(X), atol=1e-5)


@pytest.mark.parametrize("labels", [False, True], ids=["targets", "labels"])
def test_half_of_the_boosted_trees_are_those_of_a_shorter_run(labels, rng):
    X, settings = rng.normal(size=(120, 3)), RecipeSettings(boosting_iterations=20)
    Y = np.sign(X[:, :1] * X[:, 1:2]) if labels else X[:, :1] * X[:, 1:2]
    long, short = (default_reference(labels, None, replace(settings, boosting_iterations=n)) for n in (20, 10))
    arguments = Samples(X[:100], Y[:100], np.ones(100)), np.arange(3), labels, settings, X[100:]
    np.testing.assert_allclose(Reference.fit(long, *arguments).halfway, Reference.fit(short, *arguments).held_out)
    assert with_more_trees(short, 2)[-1].max_iter == 20
    assert Reference.fit(DummyRegressor(), arguments[0], np.arange(3), False, settings, X[100:]).halfway is None


@pytest.mark.slow
@pytest.mark.parametrize("early", [False, True])
def test_boosting_that_is_given_may_be_a_pipeline_of_any_kind(early, threshold):
    """Its stages are of no concern, and it may stop early or consist of one step."""
    trees = HistGradientBoostingRegressor(max_iter=60, early_stopping=early, n_iter_no_change=2, random_state=0)
    for target in (Pipeline([("trees", trees)]), make_pipeline(StandardScaler(), trees)):
        model = TermwiseRegressor(4, dictionary="steps", target=target).fit(*threshold)
        assert model.score(*threshold) > 0.8


def test_boosting_of_counts_that_are_all_zero_in_a_fold(rng):
    X, y = rng.normal(size=(100, 2)), np.zeros(100)
    y[0] = 1.0
    target = HistGradientBoostingRegressor(loss="poisson", max_iter=5)
    assert TermwiseRegressor(1, dictionary="linear", target=target).fit(X, y).n_terms_ == 1


@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_trees_are_doubled_while_they_lower_the_error(rough, given, rng):
    """For a function of many thresholds, not for noise; a model that is given stays as it is."""
    settings = RecipeSettings()
    X = rng.uniform(size=(900, 2))
    cells = rng.normal(size=(15, 15))[tuple((15 * X).astype(int).T)]
    Y = (cells if rough else rng.normal(size=900))[:, None]
    folds = assign_folds(Samples(X, Y, np.ones(900)), False, settings, np.random.RandomState(0))
    own, bases = default_reference(False, None, settings), {"rules": UnionBasis([AnovaBasis(), RuleBasis()])}
    reference = Pipeline([("trees", own[-1])]) if given else own
    fitting = Fitting(settings.alpha)
    search = Search(bases, [folds], settings, 50, lambda: None, None, False, fitting, np.arange(2), reference)
    search.choose_trees()
    factor = search.reference[-1].max_iter / settings.boosting_iterations
    assert factor in ([2, 4] if rough and not given else [1])
    assert search.bases["rules"].bases[1].n_trees == factor * RuleBasis().n_trees


@pytest.mark.parametrize("doublings", [1, 2])
def test_trees_are_not_doubled_where_they_could_not_catch_up(doublings):
    """Boosting of a smooth function: of two doublings the second might make up for what the first leaves."""
    settings, rng = RecipeSettings(boosting_doublings=doublings), np.random.default_rng(0)
    X = rng.uniform(size=(900, 2))
    Y = (np.sin(6 * X[:, 0]) + np.cos(5 * X[:, 1]) + 0.1 * rng.normal(size=900))[:, None]
    folds = assign_folds(Samples(X, Y, np.ones(900)), False, settings, np.random.RandomState(0))
    reference, fitting = default_reference(False, None, settings), Fitting(settings.alpha)
    search = Search({"additive": AnovaBasis(order=1)}, [folds], settings, 50, lambda: None, None, False, fitting,
                    np.arange(2), reference)  # fmt: skip
    trials = search.race({"additive": [Objective("data")]}, 20)
    assert not search.favours_boosting(trials)
    assert search.reference[-1].max_iter == doublings * settings.boosting_iterations


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("target", ["boosting", "pooled"])
def test_weights_are_repetitions_for_a_reference_model(target, labels, rng):
    """It is trained on distinct samples, in the folds and in the final fit."""
    X, weight = rng.normal(size=(120, 3)), rng.integers(0, 3, size=120)
    y, copies = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=120), np.repeat(np.arange(120), weight)
    y = y > 0 if labels else y
    model = (TermwiseClassifier if labels else TermwiseRegressor)("small", dictionary="additive", target=target)
    weighted, repeated = clone(model).fit(X, y, weight), clone(model).fit(X[copies], y[copies])
    name = "predict_proba" if labels else "predict"
    np.testing.assert_allclose(getattr(repeated, name)(X), getattr(weighted, name)(X), atol=1e-8)


def test_weights_are_repetitions_for_every_step_of_a_reference_model(rng):
    X, weight = rng.exponential(size=(80, 2)), rng.integers(1, 4, size=80)
    y, copies = X[:, 0] + 0.3 * X[:, 1] + 0.1 * rng.normal(size=80), np.repeat(np.arange(80), weight)
    ridge, settings = make_pipeline(StandardScaler(), Ridge(alpha=30.0)), RecipeSettings()
    reference = Reference.fit(ridge, Samples(X, y[:, None], weight.astype(float), None), np.arange(2), False, settings)
    repeated = ridge.fit(X[copies], y[copies])
    np.testing.assert_allclose(reference.signal[:, 0], repeated.predict(X))


@pytest.mark.parametrize("missing", [0, 30])
def test_weighted_inputs_of_boosting_are_binned_by_the_quantiles_of_repeated_values(missing, rng):
    X, weight = rng.normal(size=(700, 2)), rng.integers(1, 4, size=700)
    X[:, 1] = X[:, 1].round(1)  # fewer values than bins
    X[:missing, 0] = np.nan
    order = default_reference(False, None, RecipeSettings())[0].fit(X, sample_weight=weight.astype(float))
    places = order.order_.argsort()
    binned, repeated = order.transform(X)[:, places], np.sort(np.repeat(X[missing:, 0], weight[missing:]))
    numerators = np.arange(1, 255) * len(repeated)  # quantiles of i / 255; the middle of two values where both qualify
    ends = (repeated[(numerators - 1) // 255] + repeated[numerators // 255]) / 2
    np.testing.assert_array_equal(binned[missing:, 0], np.searchsorted(np.unique(ends), X[missing:, 0]))
    assert np.isnan(binned[:missing, 0]).all()
    np.testing.assert_array_equal(binned[:, 1], X[:, 1])


# -- targets -----------------------------------------------------------------------------------------------------------


def test_any_kind_of_regressor_is_a_target(rng):
    """An ensemble has its methods only after the fit; classes of estimators and classifiers are refused."""
    X = rng.normal(size=(40, 2))
    stacked = StackingRegressor([("ridge", Ridge())])
    assert TermwiseRegressor(1, dictionary="linear", target=stacked).fit(X, X[:, 0]).support_.tolist() == [0]
    for target in (Ridge, LogisticRegression()):
        with pytest.raises(
            ValueError, match=r"target must be one of .* or give a regressor of scikit-learn, not fitted"
        ):
            TermwiseRegressor(target=target).fit(X, X[:, 0])


def test_a_linear_model_as_the_target_gives_that_model(rng):
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, -2.0] + rng.normal(size=60)
    model = TermwiseRegressor(2, dictionary="linear", target=LinearRegression()).fit(X, y)
    errors = [model.trials_[title][2] for title in ("linear, estimator", "linear")]  # cross-validated, of both terms
    assert errors[0] == pytest.approx(errors[1], rel=1e-5)


@pytest.mark.slow
def test_boosting_is_reproduced(threshold):
    X, y = threshold
    model = TermwiseRegressor("accurate", dictionary="steps", target="boosting").fit(X, y)
    assert model.target_ == "boosting"
    assert model.cv_error_ < 0.1
    assert model.score(X, y) > 0.95
    assert np.std(model.loo_residuals_) < 0.3
    assert model.at(2).n_terms_ == 2
    lower, upper = model.predict_interval(X)
    assert 0.85 < np.mean((lower <= y) & (y <= upper)) <= 1


@pytest.mark.slow
def test_an_estimator_may_be_the_target(threshold, rng):
    X, y = threshold
    X[rng.uniform(size=X.shape) < 0.1] = NAN  # which the trees accept, and linear regression does not
    for reference in (ExtraTreesRegressor(20, random_state=0), LinearRegression()):
        model = TermwiseRegressor(target=reference, dictionary="pairs").fit(X, y)
        assert "pairs, estimator" in model.trials_
    forest = RandomForestClassifier(20, random_state=0)
    assert "additive, estimator" in TermwiseClassifier(target=forest, dictionary="additive").fit(X, y > 1.5).trials_


@pytest.mark.slow
def test_kinks_are_tried_where_boosting_is_accurate(threshold, rng):
    X, y = threshold
    trials = TermwiseRegressor().fit(X, y).trials_
    assert {"hinges, ridge", "steps, ridge", "rules, boosting"} <= set(trials)
    assert "steps, boosting" not in trials
    assert "steps, boosting" in TermwiseRegressor("readable").fit(X, y).trials_  # terms of one or two inputs
    smooth = TermwiseRegressor().fit(X, X @ [1.0, 2.0, 3.0] + 0.01 * rng.normal(size=240))
    few = TermwiseRegressor().fit(X[:100], y[:100])
    for model in (smooth, few):
        assert not any(title.startswith(("rules", "steps", "hinges")) for title in model.trials_)


def test_a_threshold_needs_few_terms(threshold):
    X, y = threshold
    model = TermwiseRegressor(dictionary="steps").fit(X, y)
    assert model.n_terms_ <= 12
    assert any(name.startswith("x0 > 0.") for name in model.get_feature_names_out())


# -- losses, weights of classes ----------------------------------------------------------------------------------------


def test_counts(rng):
    X = rng.normal(size=(200, 3))
    exposure = rng.uniform(0.5, 2, 200)
    y = rng.poisson(exposure * np.exp(0.8 * X[:, 0]))
    model = TermwiseRegressor(loss="poisson", dictionary="linear").fit(X, y, exposure=exposure)
    assert list(model.get_feature_names_out()) == ["x0"]
    assert model.weights_[0] == pytest.approx(0.8 * X[:, 0].std(), abs=0.15)
    assert model.loss_ == "poisson"
    assert np.all(model.predict(X) > 0)
    assert 0 < model.score(X, y) < 1
    assert "of the poisson loss of a constant" in model.summary()
    np.testing.assert_allclose(model.predictor_.predict(X), model.predict(X))


@pytest.mark.parametrize("loss", ["gamma", "huber", "quantile"])
def test_other_losses(rng, loss):
    X = rng.normal(size=(120, 2))
    y = np.exp(X[:, 0]) * rng.gamma(3, 1 / 3, 120)
    model = TermwiseRegressor(loss=loss, dictionary="additive").fit(X, y)
    assert model.score(X, y) > 0.1
    assert model.at(1).n_terms_ == 1


def test_quantiles_do_not_cross(rng):
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + rng.normal(size=120)
    model = TermwiseRegressor(loss="quantile", quantile=[0.1, 0.5, 0.9], dictionary="additive").fit(X, y)
    assert np.all(np.diff(model.predict(X), axis=1) >= 0)
    with pytest.raises(ValueError, match="y must be one target with several quantiles, got 2 columns"):
        TermwiseRegressor(loss="quantile", quantile=[0.1, 0.9]).fit(X, np.column_stack([y, y]))


def test_weights_of_classes(rng):
    X = rng.normal(size=(150, 2))
    y = X[:, 0] + rng.normal(size=150) > 1
    plain, balanced = (
        TermwiseClassifier(dictionary="linear", class_weight=weight).fit(X, y) for weight in (None, "balanced")
    )
    assert balanced.predict(X).sum() > plain.predict(X).sum()


# -- penalties ---------------------------------------------------------------------------------------------------------


def many_weak_columns(seed, n, d):
    """Correlated columns, of which twenty act with equal weights, and the logarithm of the odds of a class."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n, d // 10))
    X = np.repeat(factors, 10, axis=1) + rng.normal(size=(n, 10 * (d // 10)))
    odds = X[:, :20].sum(axis=1) / X[:, :20].sum(axis=1).std()
    return X, odds, rng


@pytest.mark.slow
@pytest.mark.parametrize("labels", [True, False], ids=["classes", "targets"])
def test_wide_tables_have_a_large_penalty(labels):
    """Few terms with the weights of maximum likelihood, or of least squares, are worse than shrunken ones."""
    errors = []
    for seed in range(3):
        X, odds, rng = many_weak_columns(seed, 560, 300)
        y = rng.uniform(size=560) < 1 / (1 + np.exp(-5 * odds)) if labels else odds + rng.normal(size=560)
        train, test = slice(60), slice(60, None)
        model = (TermwiseClassifier if labels else TermwiseRegressor)("accurate").fit(X[train], y[train])
        assert any(title.startswith("linear, penalty") for title in model.trials_)
        assert model.choice_.alpha == model.alpha_
        if labels:
            grid = {"C": np.logspace(-4, 0, 5)}
            tuned = GridSearchCV(LogisticRegression(max_iter=1000), grid, scoring="neg_log_loss")
            both = model, tuned.fit(X[train], y[train])
            errors.append([log_loss(y[test], one.predict_proba(X[test])) for one in both])
        else:
            both = model, ForwardRegressor().fit(X[train], y[train])
            errors.append([np.mean((one.predict(X[test]) - odds[test]) ** 2) for one in both])
    ours, theirs = np.mean(errors, axis=0)
    assert ours < (1.15 if labels else 0.9) * theirs


def test_weights_of_a_penalised_choice_are_those_of_the_definition():
    X, odds, rng = many_weak_columns(0, 60, 300)
    y = odds + 0.5 * rng.normal(size=60)
    model = TermwiseRegressor("accurate", dictionary="linear", target="data").fit(X, y)
    assert model.alpha_ >= 60 / 8
    assert f"dictionary: linear, penalty {model.alpha_:g}" in model.summary()
    G = StandardScaler().fit_transform(X)[:, model.support_]
    expected = predict(G, weights(G, y, model.alpha_))[:, 0]
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-8)


def test_curves_are_found_in_wide_tables(rng):
    X = rng.normal(size=(60, 80))
    bend = TermwiseRegressor().fit(X, np.abs(X[:, 0]) + 0.1 * rng.normal(size=60))
    assert "bump" in " ".join(bend.get_feature_names_out())


@pytest.mark.slow
def test_nonlinear_models_of_classes_must_be_clearly_better(rng):
    X = rng.normal(size=(250, 5))
    odds = 2 * X[:, 0] - X[:, 1]
    for seed in range(3):  # whatever the folds
        line = TermwiseClassifier(random_state=seed).fit(X, odds + rng.logistic(size=250) > 0)
        assert set(line.get_feature_names_out()) <= {f"x{j}" for j in range(5)}
    bend = TermwiseClassifier().fit(X, np.abs(X[:, 0]) + 0.3 * rng.normal(size=250) > 0.7)
    assert bend.dictionary_ != "linear"


def test_few_inputs_keep_the_penalty_of_least_squares(rng):
    X = rng.normal(size=(60, 5))
    model = TermwiseRegressor().fit(X, X @ np.arange(5.0) + rng.normal(size=60))
    assert not any("penalty" in title for title in model.trials_)


def test_classes_that_are_almost_separated_have_a_small_penalty(rng):
    X = rng.normal(size=(150, 3))
    y = X[:, 0] + X[:, 1] > 0
    model = TermwiseClassifier("accurate", dictionary="linear", target="data").fit(X, y)
    assert model.alpha_ < 1
    assert model.trials_[f"linear, penalty {model.alpha_:g}"].min() < model.trials_["linear"].min()
    assert model.cv_log_loss_ < 0.1


# -- folds -------------------------------------------------------------------------------------------------------------


def test_groups_stay_in_one_fold(rng):
    """A group has its own level, which its own samples would give away."""
    X = rng.normal(size=(100, 1))
    groups = np.repeat(np.arange(20), 5)
    X = np.column_stack([X, groups])
    y = rng.normal(size=20)[groups] + 0.1 * rng.normal(size=100)
    with_groups = TermwiseRegressor("accurate", dictionary="additive", target="data").fit(X, y, groups=groups)
    without = TermwiseRegressor("accurate", dictionary="additive", target="data").fit(X, y)
    assert without.cv_error_ < with_groups.cv_error_
    split = TermwiseRegressor(cv=GroupKFold(4), dictionary="linear").fit(X, y, groups=groups)
    assert len(split.fitted_terms_.fold_models.models) == 4
    assert len(TermwiseRegressor(cv=3, dictionary="linear").fit(X, y).fitted_terms_.fold_models.models) == 3
    with pytest.raises(ValueError, match="cv must have every sample in one test set, got ShuffleSplit"):
        TermwiseRegressor(cv=ShuffleSplit(2, random_state=0)).fit(X, y)
    with pytest.raises(
        ValueError, match="split 0: give related samples one value of groups, so that they share a fold"
    ):
        TermwiseRegressor(cv=[(train[::4], test) for train, test in KFold(4).split(X)]).fit(X, y)
    mixed = np.array([1, "a", None, 2] * 25, dtype=object)
    with pytest.raises(ValueError, match="groups must be values of one kind, which can be compared, got"):
        TermwiseRegressor().fit(X, y, groups=mixed)
    with pytest.raises(ValueError, match="groups must have one value per sample, 100, got 3"):
        TermwiseRegressor().fit(X, y, groups=[1, 2, 3])
    with pytest.raises(ValueError, match="groups must have at least two different values, got one"):
        TermwiseRegressor().fit(X, y, groups=np.zeros(100))
    TermwiseRegressor(cv=KFold(3), dictionary="linear").fit(X, y)


# -- sizes and constraints ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_small_is_the_median_of_bootstrap_sizes_unless_it_costs_accuracy(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(120, 4))
    y = np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.4 * rng.normal(size=120)
    model = TermwiseRegressor("small", dictionary="pairs", target="data", random_state=seed).fit(X, y)
    (errors,) = model.trials_.values()
    k = int(np.median(model.choice_.procedure.sizes))
    assert model.n_terms_ == k or errors[k] > 1.03 * errors[model.n_terms_]


def test_readable_models_fit_on_a_page(rng):
    X = rng.normal(size=(150, 12))
    y = np.sum(np.sin(2 * X), axis=1) + 0.1 * rng.normal(size=150)
    model = TermwiseRegressor("readable").fit(X, y)
    inputs = model.fitted_terms_.basis.inputs_of(np.arange(model.n_terms_))
    assert model.n_terms_ <= 20
    assert all(len(one) <= 2 for one in inputs)
    assert len(set(inputs)) <= 10
    sizes = model.choice_.alternatives
    assert sizes["accurate"][1] <= sizes["readable"][1]
    with pytest.raises(ValueError, match="dictionary must have functions of one or two inputs with monotone"):
        TermwiseRegressor("readable", dictionary="smooth").fit(X, y)


@pytest.mark.parametrize("dictionary", ["additive", "steps"])
def test_monotone_effects(rng, dictionary):
    frame = pd.DataFrame(rng.uniform(size=(150, 2)), columns=["a", "b"])
    y = np.sin(6 * frame["a"]) + frame["b"] + 0.2 * rng.normal(size=150)
    model = TermwiseRegressor(dictionary=dictionary, monotone={"a": 1, 1: 1}).fit(frame, y)
    for _ in range(20):
        start, step = rng.uniform(size=2), rng.uniform(size=2)
        line = pd.DataFrame(start + np.linspace(-1, 1, 50)[:, None] * step, columns=["a", "b"])
        assert np.all(np.diff(model.predict(line)) >= -1e-9)
    with pytest.raises(ValueError, match="y must have two classes with monotone, got 3: the scores of more classes"):
        TermwiseClassifier(monotone={0: 1}).fit(rng.normal(size=(30, 2)), np.arange(30) % 3)
    with pytest.raises(ValueError, match="monotone must map numeric inputs, by name or number, to 1 or -1, got 2"):
        TermwiseRegressor(monotone={"a": 2}).fit(frame, y)


@pytest.mark.slow
def test_monotone_effects_beside_a_category_of_many_levels(rng):
    """Means of the targets replace its levels, which must not loosen the constraints on the other inputs."""
    a, b, level = rng.uniform(size=300), rng.uniform(size=300), rng.integers(40, size=300)
    y = np.sin(6 * a) + rng.normal(size=40)[level] + b + 0.1 * rng.normal(size=300)
    frame = pd.DataFrame({"a": a, "b": b, "level": [f"level {k}" for k in level]})
    for monotone in ({"a": 1}, None):
        model = TermwiseRegressor("accurate", dictionary="additive", monotone=monotone).fit(frame, y)
        line = pd.DataFrame({"a": np.linspace(0, 1, 100), "b": 0.5, "level": "level 1"})
        increasing = np.all(np.diff(model.predict(line)) >= -1e-9)
        assert increasing == (monotone is not None)


def test_hierarchy(rng):
    X = rng.normal(size=(120, 3))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=120)
    model = TermwiseRegressor(dictionary="pairs", hierarchy=True, target="data").fit(X, y)
    inputs = model.fitted_terms_.basis.inputs_of(np.arange(model.n_terms_))
    alone = {one[0] for one in inputs if len(one) == 1}
    assert all(set(one) <= alone for one in inputs)
    assert any(len(one) == 2 for one in inputs)


def test_target_with_another_loss(rng):
    X, y = rng.normal(size=(40, 2)), rng.poisson(1.0, 40)
    pattern = (
        "target must be 'auto' or 'data' with loss='poisson', got 'ridge': other targets are fitted by least squares"
    )
    with pytest.raises(ValueError, match=pattern):
        TermwiseRegressor(loss="poisson", target="ridge").fit(X, y)


# -- tables as people have them ----------------------------------------------------------------------------------------


def test_missing_values_strings_and_many_levels(rng):
    n = 240
    city, a = rng.integers(30, size=n), rng.normal(size=n)
    frame = pd.DataFrame({"a": a, "kind": rng.choice(["u", "v"], n), "city": [f"c{k}" for k in city]})
    y = a + 2 * (frame["kind"] == "u") + rng.normal(size=30)[city] + 0.3 * rng.normal(size=n)
    frame.loc[::6, "a"] = NAN
    model = TermwiseRegressor(dictionary="additive", target="data").fit(frame, y)
    names = " ".join(model.get_feature_names_out())
    assert "mean(city)" in names
    assert "kind=" in names
    assert model.cv_error_ < 0.5
    assert np.isfinite(model.predict(frame.assign(city="elsewhere"))).all()
    np.testing.assert_allclose(model.predictor_.predict(frame), model.predict(frame), atol=1e-9)
    with pytest.raises(ValueError, match="missing"):
        TermwiseRegressor(missing="error").fit(frame, y)


def test_identifiers_are_left_out(rng):
    frame = pd.DataFrame({"rownames": np.arange(1, 81), "a": rng.normal(size=80), "who": [f"p{i}" for i in range(80)]})
    y = frame["a"] + 0.1 * frame["rownames"] + 0.1 * rng.normal(size=80)
    model = TermwiseRegressor(dictionary="additive").fit(frame, y)
    assert not any("rownames" in name or "who" in name for name in model.get_feature_names_out())
    assert "left out, since they number or name the rows: rownames, who" in model.summary()
    new = frame.assign(who="somebody else", rownames=1000)
    np.testing.assert_array_equal(model.predict(new), model.predict(frame))
    np.testing.assert_allclose(model.predictor_.predict(new), model.predict(frame))


def test_values_missing_in_prediction_alone(rng):
    table = pd.DataFrame({"size": rng.normal(3.0, 1.0, size=90), "kind": rng.choice(list("abc"), size=90)})
    y = table["size"] + (table["kind"] == "a") + 0.1 * rng.normal(size=90)
    model = TermwiseRegressor(dictionary="linear").fit(table, y)
    new = pd.DataFrame({"size": [np.nan, 4.0], "kind": ["b", None]})
    with pytest.warns(UserWarning, match="X has missing values in size, kind, which had none in fit") as caught:
        found = model.predict(new)
    assert len(caught) == 1
    known = pd.DataFrame({"size": [table["size"].mean(), 4.0], "kind": ["b", "none of these"]})
    np.testing.assert_allclose(found, model.predict(known))
    with pytest.warns(UserWarning, match="X has missing values") as caught:
        lower, _ = model.predict_interval(new)
    assert len(caught) == 1
    np.testing.assert_allclose(lower, model.predict_interval(known)[0])
    with pytest.raises(ValueError, match="must not have missing values"):
        TermwiseRegressor(dictionary="linear", missing="error").fit(table, y).predict(new)
    with pytest.raises(ValueError, match="size must be complete"):
        model.predictor_.predict(new)


@pytest.mark.parametrize(("n_rows", "fewest"), [(40, 2), (300, 3), (700, 7), (5000, 10)])
def test_levels_of_few_rows_share_an_indicator(n_rows, fewest):
    assert RecipeSettings().min_level_rows(n_rows) == fewest


def test_a_designed_experiment_with_few_rows_of_each_level(rng):
    treatment = np.tile(list("ABCDEFGH"), 5)
    y = np.tile(np.arange(8.0) ** 2, 5) + rng.normal(size=40)
    model = TermwiseRegressor(random_state=0).fit(pd.DataFrame({"treatment": treatment}), y)
    assert model.cv_error_ < 0.1


@pytest.mark.parametrize("size", ["small", "accurate"])
def test_one_row_that_choices_fail_on_does_not_hide_terms_that_explain_the_others(size):
    """The error of all choices is that of a row whose inputs are far away; the chosen terms explain the others."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 6))
    X[0, 1:] *= 300
    y = 3 * X[:, 0] + X[:, 1] ** 2 * (np.arange(80) > 0) + 0.3 * rng.normal(size=80)
    model = TermwiseRegressor(size, random_state=0).fit(X, y)
    assert model.n_terms_ >= 1


def test_a_rare_missing_value_may_be_in_one_fold(rng):
    X = rng.normal(size=(60, 2))
    X[3, 1] = NAN
    assert np.isfinite(TermwiseRegressor().fit(X, X[:, 0]).predict(X)).all()


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame])
@pytest.mark.parametrize(("dictionary", "target"), [("linear", "data"), ("smooth", "data"), ("auto", "pooled")])
def test_a_rare_missing_value_may_be_in_a_row_that_nothing_is_chosen_on(dictionary, target, make, rng):
    X = rng.normal(size=(120, 2))
    y = X[:, 0] ** 2 + X[:, 1] + 0.1 * rng.normal(size=120)
    row = np.setdiff1d(np.arange(120), [*evenly(120, 60), *evenly(120, 80)])[5]
    X[row, 1] = NAN
    few_rows = with_settings(TermwiseRegressor, choice_rows=60, path_rows=80)
    model = few_rows("accurate", dictionary=dictionary, target=target).fit(make(X), y)
    predicted, (lower, upper) = model.predict(make(X)), model.predict_interval(make(X))
    assert lower[row] < predicted[row] < upper[row]
    frozen = model.predictor_
    np.testing.assert_allclose(frozen.predict(make(X)), predicted, rtol=1e-9)
    np.testing.assert_allclose(frozen.predict_interval(make(X)), [lower, upper], rtol=1e-9)


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame])
@pytest.mark.parametrize("estimator", [TermwiseRegressor, TermwiseClassifier])
def test_missing_values_in_rows_of_weight_zero(estimator, make, rng):
    X = rng.normal(size=(70, 2))
    y = X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=70)
    y = y > 0.5 if estimator is TermwiseClassifier else y
    X[65, 0] = NAN
    model = estimator(dictionary="additive").fit(make(X), y, sample_weight=np.arange(70) < 60)
    expected = estimator(dictionary="additive").fit(make(X[:60]), y[:60])
    np.testing.assert_allclose(model.predict(make(X[:60])), expected.predict(make(X[:60])), rtol=1e-9)


@pytest.mark.slow
def test_boosting_is_compared_in_the_units_of_the_loss(rng):
    X = rng.uniform(size=(320, 3))
    y = np.exp(2.0 * (X[:, 0] > 0.53) * (X[:, 1] > 0.38)) * rng.gamma(8, 1 / 8, 320)
    model = TermwiseRegressor(loss="gamma", random_state=0).fit(X, y)
    assert any(title.startswith("steps") for title in model.choice_.trials)  # tried where boosting is accurate
