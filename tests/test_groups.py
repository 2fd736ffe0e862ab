"""Terms grouped into effects: their shares of the variance, in tables, summaries, plots and reports."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import oracles
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mean_absolute_error, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_report import Page

from termwise import (
    AnovaBasis,
    BasisRidge,
    ForwardClassifier,
    ForwardRegressor,
    LagBasis,
    RadialBasis,
    ShapeDisplay,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    diagnostics,
    report,
)
from termwise.basis import TableEncoder
from termwise.recipe.settings import RecipeSettings


@pytest.fixture
def bumps(rng):
    """A smooth curve, a product and a category, by bumps and products."""
    n = 300
    X = pd.DataFrame(rng.uniform(-1, 1, size=(n, 4)), columns=list("abcd"))
    X["kind"] = pd.Categorical(rng.choice(["u", "v", "w"], n))
    y = np.sin(4 * X["a"]) + X["b"] * X["c"] + 0.5 * (X["kind"] == "u") + 0.05 * rng.normal(size=n)
    basis = make_pipeline(TableEncoder(), AnovaBasis())
    return ForwardRegressor(basis, criterion=None, max_terms=22).fit(X, y), X, y


# -- effects -----------------------------------------------------------------------------------------------------------


def test_shares_are_those_of_the_variances_of_the_effects(bumps):
    model, X, _ = bumps
    table = diagnostics.effects_table(model, X)
    display = ShapeDisplay.from_estimator(model, X, max_effects=20)
    plt.close("all")
    strength = {effect.inputs: effect.strength for effect in display.effects}
    total = sum(value**2 for value in strength.values())
    assert [tuple(row["inputs"]) for row in table] == sorted(strength, key=strength.get, reverse=True)
    for row in table:
        assert row["share"] == pytest.approx(strength[tuple(row["inputs"])] ** 2 / total)
    for effect in display.effects:
        assert effect.share == pytest.approx(effect.strength**2 / total)
    assert display.axes_[0].get_title(loc="right") == f"{display.effects[0].share:.1%} of the variance"
    assert sum(len(row["terms"]) for row in table) == 22
    main = next(row for row in table if row["inputs"] == ["a"])
    names = list(model.get_feature_names_out())
    assert main["n_terms"] == sum("(a near" in name or re.search(r"\ba\b", name) is not None for name in names)
    assert diagnostics.effects_table(model) == table  # over the samples that the model has kept


def test_levels_of_a_category_are_one_input(bumps):
    model, X, y = bumps
    sets = [row["inputs"] for row in diagnostics.effects_table(model, X)]
    assert ["kind"] in sets
    assert all(len(set(inputs)) == len(inputs) for inputs in sets)
    facts = diagnostics.facts(model, X, y)
    assert all(set(term["inputs"]) <= set(X) for term in facts["terms"])
    assert len(facts["path_inputs"]) == len(facts["path_terms"])


def test_missing_values_belong_to_their_column(rng):
    n = 200
    X = pd.DataFrame({"a": rng.normal(size=n), "kind": pd.Categorical(rng.choice(["u", "v"], n))})
    y = X["a"] + 2.0 * (np.arange(n) % 5 == 0) + 0.3 * (X["kind"] == "u") + 0.1 * rng.normal(size=n)
    X.loc[::5, "a"] = np.nan
    basis = make_pipeline(TableEncoder(), SmoothBasis(centers=5, random_state=0))
    model = BasisRidge(basis).fit(X, y)
    effects = diagnostics.facts(model, X, y)["effects"]
    assert ["missing(a)"] in [effect["inputs"] for effect in effects]  # drawn by itself
    table = diagnostics.effects_table(model, X)
    assert {tuple(row["inputs"]) for row in table} == {("a",), ("kind",), ("a", "kind")}
    assert {"a", "missing(a)"} <= set(next(row for row in table if row["inputs"] == ["a"])["terms"])
    assert sum(row["share"] for row in table) == pytest.approx(1)


def test_effects_of_three_inputs_on_a_balanced_design():
    """Classical analysis of variance: on a full factorial design, effects are differences of means."""
    codes = np.array([(i, j, k) for i in range(3) for j in range(3) for k in range(3)])
    X = np.tile(codes, (4, 1)).astype(float)
    y = X[:, 0] * X[:, 1] * X[:, 2] + (X[:, 0] - 1) ** 2 + X[:, 1]
    model = BasisRidge(make_pipeline(StandardScaler(), SmoothBasis(width=2.0, linear=False)), alpha=1e-4).fit(X, y)
    f, effects = model.predict(X), oracles.factorial_effects(model.predict(X), X)
    display = ShapeDisplay.from_estimator(model, X, grid=3)
    plt.close("all")
    assert {effect.inputs for effect in display.effects} == {("x0",), ("x1",), ("x2",), ("x0", "x1"), ("x0", "x2"),
                                                             ("x1", "x2")}  # fmt: skip
    places = X.astype(int)
    for effect in display.effects:
        key = tuple(int(name[1]) for name in effect.inputs)
        np.testing.assert_allclose(effect.effect[tuple(places[:, j] for j in key)], effects[key], atol=1e-6)
    table = {tuple(int(name[1]) for name in row["inputs"]): row for row in diagnostics.effects_table(model, X)}
    for key, values in effects.items():
        assert table[key]["share"] == pytest.approx(values.var() / f.var(), abs=1e-6)
    assert table[0, 1, 2]["n_terms"] == len(table[0, 1, 2]["terms"]) == model.n_terms_
    html = report.render(model, X=X, y=y)
    assert "What three inputs explain only together is not drawn." in html


def test_many_levels_in_a_product_of_three(rng):
    """Pairs with too many products of indicators: only main effects are taken out."""
    n = 400
    X = pd.DataFrame({"x": rng.normal(size=n), "p": pd.Categorical(rng.integers(0, 25, n).astype(str)),
                      "q": pd.Categorical(rng.integers(0, 25, n).astype(str))})  # fmt: skip
    basis = make_pipeline(TableEncoder(), SmoothBasis(centers=20, linear=False, random_state=0))
    model = BasisRidge(basis).fit(X, X["x"] + X["p"].cat.codes)
    table = diagnostics.effects_table(model, X)
    assert {tuple(row["inputs"]) for row in table} == {("x",), ("p",), ("q",), ("x", "p", "q")}
    assert sum(row["share"] for row in table) == pytest.approx(1)


def test_terms_of_many_inputs_are_a_group_of_their_own(rng):
    X = rng.normal(size=(100, 5))
    model = BasisRidge(SmoothBasis(centers=8, random_state=0)).fit(X, X[:, 0] + np.sin(X.sum(axis=1)))
    table = diagnostics.effects_table(model, X)
    assert sorted(len(row["inputs"]) for row in table) == [1, 1, 1, 1, 1, 5]
    joint = next(row for row in table if len(row["inputs"]) == 5)
    G, chosen = model.basis_.transform(X), [name.startswith("gauss") for name in model.basis_.get_feature_names_out()]
    linear = [(G[:, j] * model.weights_[j]).var() for j in range(len(chosen)) if not chosen[j]]
    variance = (G[:, chosen] @ model.weights_[chosen]).var()
    assert joint["share"] == pytest.approx(variance / (variance + sum(linear)))
    assert "x0, x1, x2, x3 and 1 more" in model.summary()


# -- summaries ---------------------------------------------------------------------------------------------------------


def test_summary_lists_effects_before_terms(bumps):
    model, X, _ = bumps
    lines = model.summary(max_terms=50).splitlines()
    start = next(
        i for i, line in enumerate(lines) if line.split() == ["effect", "terms", "share", "of", "the", "variance"]
    )
    end = next(i for i, line in enumerate(lines) if line.startswith("term "))
    table = diagnostics.effects_table(model, X)
    large = [row for row in table if row["share"] >= 0.01]
    for line, row in zip(lines[start + 1 :], large, strict=False):
        assert line.split() == [
            *" and ".join(row["inputs"]).split(),
            str(row["n_terms"]),
            f"{100 * row['share']:.1f}",
            "%",
        ]
    rest = [row["share"] for row in table if row["share"] < 0.01]
    assert lines[end - 1] == f"... and {len(rest)} more, {100 * sum(rest):.1f} % together"
    assert end - start == len(large) + 2
    listed = [re.sub(r"\s+\S+\s+\S+$", "", line) for line in lines[end + 1 :]]
    sets = [frozenset(row["inputs"]) for name in listed for row in table if name in row["terms"]]
    assert len(listed) == 22
    assert sum(a != b for a, b in pairwise(sets)) == len(set(sets)) - 1  # group by group


def test_long_models_are_abbreviated(bumps):
    model, _, _ = bumps
    text = model.summary(max_terms=2)
    assert re.search(r"\n\.\.\. and \d+ more, \d+\.\d % together\nterm ", text)
    assert text.endswith("... and 20 more")


def test_summary_without_samples_counts_terms(bumps):
    model, _, _ = bumps
    model.fitted_terms_ = replace(model.fitted_terms_, sample=None)
    text = model.summary()
    assert re.search(r"\neffect +terms\n", text)
    assert "share of the variance" not in text
    assert all(row["share"] is None for row in diagnostics.effects_table(model))


def test_no_effects_where_terms_are_effects(rng):
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 2.0, 0.0] + 0.1 * rng.normal(size=60)
    assert "effect " not in ForwardRegressor().fit(X, y).summary()
    assert "effect " not in BasisRidge(RadialBasis(centers=5)).fit(X, y).summary()  # all of the same inputs
    series = np.column_stack([y, X[:, 0]])
    lagged = ForwardRegressor(LagBasis(2, input_lags=(0, 1))).fit(series, y)
    assert "share of the variance" not in lagged.summary()


def test_other_sizes_and_large_tables_keep_samples(rng):
    X = rng.uniform(size=(3000, 4))
    y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2]
    model = ForwardRegressor(AnovaBasis(), criterion=None, max_terms=6).fit(X, y)
    assert "share of the variance" in model.at(4).summary()
    assert model.fitted_terms_.sample.shape == (2000, 4)
    wide = ForwardRegressor(StandardScaler(), max_terms=2).fit(rng.normal(size=(150, 11_000)), y[:150])
    assert wide.fitted_terms_.sample is None
    assert ForwardRegressor(max_terms=2).fit(X, y).fitted_terms_.sample is None  # columns


def test_summary_says_what_larger_sizes_gain(rng):
    X = rng.normal(size=(80, 4))
    model = TermwiseRegressor(2, dictionary="linear", target="data").fit(X, X @ [2.0, 1.0, 0.5, 0.0])
    own = model.choice_.trials[model.choice_.title][2]
    sizes = {"small": (3, own / 2), "accurate": (9, own / 4), "readable": (1, 2 * own)}
    model.choice_ = replace(model.choice_, alternatives=sizes)
    lines = [line for line in model.summary().splitlines() if line.startswith("size ")]
    assert lines == [
        f"size small: 3 terms, cross-validated error {own / 2:.3g} instead of {own:.3g}",
        f"size accurate: 9 terms, cross-validated error {own / 4:.3g} instead of {own:.3g}",
    ]
    html = report.render(model, X=X, y=X[:, 0])
    assert f"Larger sizes: small: 3 terms, cross-validated error {own / 2:.3g}" in html
    assert not [line for line in model.at(1).summary().splitlines() if line.startswith("size ")]
    model.size = "small"
    assert "size small" not in model.summary()


def test_the_readable_alternative_has_few_terms(rng):
    class Brief(TermwiseRegressor):
        recipe_settings = RecipeSettings(readable_terms=3)

    X = rng.normal(size=(80, 6))
    model = Brief(dictionary="linear", target="data").fit(X, X @ [3.0, 2.5, 2.0, 1.5, 1.0, 0.5])
    assert model.n_terms_ == 6
    assert model.choice_.alternatives["readable"][0] == 3
    assert "size readable" not in model.summary()


# -- reports -----------------------------------------------------------------------------------------------------------


def test_the_report_lists_effects_with_their_shares(bumps):
    model, X, y = bumps
    facts = diagnostics.facts(model, X, y)
    html = report.render(model, facts=facts)
    table = html.split('id="shares"')[1].split("</table>")[0]
    large = [group for group in facts["groups"] if group["share"] >= 0.01]
    assert re.findall(r'<th scope="row">(.*?)</th>', table)[: len(large)] == [
        " and ".join(group["inputs"]) for group in large
    ]
    assert f"{len(facts['groups']) - len(large)} smaller effects" in table
    text = " ".join(Page(html).text.split())
    assert f"effects{len(large)}of at least 1 % of the variance" in text
    assert '<option value="effect">by effect</option>' in html
    plain = BasisRidge().fit(X[["a", "b"]], y)
    assert '<option value="effect">' not in report.render(plain, X=X[["a", "b"]], y=y)


# -- contributions -----------------------------------------------------------------------------------------------------


def test_contributions_add_up_to_predictions(bumps):
    model, X, y = bumps
    predictor = model.predictor_.with_facts(diagnostics.facts(model, X, y))
    found = diagnostics.contributions(predictor, X)
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), model.predict(X)[:, None], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.values.mean(axis=0), 0, atol=1e-6)
    assert found.base[0] == pytest.approx(model.predict(X).mean())
    G = model.basis_.transform(X)[:, model.support_]
    own = [term["inputs"] == ["b", "c"] for term in predictor.facts["terms"]]
    joint = G[:, own] @ model.weights_[own]
    np.testing.assert_allclose(found.values[:, found.effects.index("b and c"), 0], joint - joint.mean(), atol=1e-6)
    bare = diagnostics.contributions(model.predictor_, X[:3])
    assert sorted(bare.effects) == sorted(model.predictor_.term_names)
    np.testing.assert_allclose(bare.base + bare.values.sum(axis=1), model.predict(X[:3])[:, None])
    with pytest.raises(TypeError, match=r"(?s)got ForwardRegressor.*: load a model file with load_predictor, or use "):
        diagnostics.contributions(model, X)


# -- scores of probabilities -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_of_probabilities_on_held_out_samples(n_classes, rng):
    X = rng.normal(size=(400, 3))
    y = np.array(["p", "q", "r"])[np.digitize(X[:, 0] + rng.normal(size=400), [0.0, 0.8][: n_classes - 1])]
    model = ForwardClassifier(selection_cv=3).fit(X[:200], y[:200])
    score, _ = diagnostics.held_out_comparison(model, X[:200], y[:200], X[200:], y[200:])
    P, test = model.predict_proba(X[200:]), y[200:]
    assert score["log_loss"] == pytest.approx(log_loss(test, P))
    single = [roc_auc_score(test == label, P[:, k]) for k, label in enumerate(model.classes_)]
    assert score["auc"] == pytest.approx(np.mean(single))
    assert score["calibration_error"] == pytest.approx(oracles.calibration_error(test, P, model.classes_, 10))
    if n_classes == 2:
        logit = np.log(P[:, 1] / P[:, 0])[:, None]
        slope = LogisticRegression(C=1e6).fit(logit, test).coef_[0, 0]
        assert score["calibration_slope"] == pytest.approx(slope, rel=0.1)
    counts = np.array(score["confusion"]["counts"])
    predicted = model.predict(X[200:])
    for i, one in enumerate(model.classes_):
        for j, other in enumerate(model.classes_):
            assert counts[i, j] == np.sum((test == one) & (predicted == other))


def test_overconfident_probabilities_have_a_slope_below_one(rng):
    X = rng.normal(size=(3000, 1))
    y = np.where(X[:, 0] + rng.logistic(size=3000) > 0, "b", "a")
    model = ForwardClassifier(criterion=None, max_terms=1, selection_cv=3).fit(X[:1500], y[:1500])
    labels = model.fitted_terms_.candidates.labels
    sharp = replace(model.fitted_terms_.candidates, labels=replace(labels, slope=2 * labels.slope))
    model.fitted_terms_ = replace(model.fitted_terms_, candidates=sharp)
    score, _ = diagnostics.held_out_comparison(model, X[:1500], y[:1500], X[1500:], y[1500:])
    assert score["calibration_slope"] == pytest.approx(0.5, abs=0.1)


def test_scores_of_the_folds_of_an_automatic_estimator(rng):
    X = rng.normal(size=(150, 3))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=150) > 0, "b", "a")
    model = TermwiseClassifier(2, dictionary="linear").fit(X, y)
    score = diagnostics.facts(model, X, y)["scores"]["cross_validation"]
    outputs = np.where(y == "b", 1.0, -1.0) - model.fitted_terms_.fold_models.residuals[:, 0]
    assert score["auc"] == pytest.approx(roc_auc_score(y == "b", outputs), abs=0.02)  # folds have scales of their own
    assert score["log_loss"] == model.cv_log_loss_
    counts = np.array(score["confusion"]["counts"])
    assert counts.sum() == 150
    assert np.trace(counts) / 150 == pytest.approx(1 - model.cv_error_rate_, abs=0.03)
    facts = diagnostics.facts(model, X, y)
    assert facts["confusion"]["how"] == "out-of-fold"
    assert "Out-of-fold predictions, of models that were selected" in report.render(model, facts=facts)
    twice = np.r_[X, X[:30]]
    repeated = TermwiseClassifier(2, dictionary="linear").fit(twice, np.r_[y, y[:30]])
    assert len(repeated.fitted_terms_.fold_models.fold) == 150  # each sample once, with its weight
    facts = diagnostics.facts(repeated, twice, np.r_[y, y[:30]])
    counts = np.array(facts["scores"]["cross_validation"]["confusion"]["counts"])
    assert counts.sum(axis=1).tolist() == [np.sum(np.r_[y, y[:30]] == label) for label in "ab"]
    assert np.trace(counts) / 180 == pytest.approx(1 - repeated.cv_error_rate_, abs=0.03)
    assert "reliability" in facts
    assert "auc" not in diagnostics.facts(repeated)["scores"]["cross_validation"]
    z = X[:, 0] + rng.normal(size=150)
    regressor = TermwiseRegressor(2, dictionary="linear", target="data").fit(X, z)
    residuals = regressor.fitted_terms_.fold_models.residuals[:, 0]
    mae = diagnostics.facts(regressor, X, z)["scores"]["cross_validation"]["mae"]
    assert mae == pytest.approx(mean_absolute_error(residuals, np.zeros(150)))
