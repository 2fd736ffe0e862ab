"""Diagnostics are plain data, complete, and agree with the models they describe."""

from __future__ import annotations

import json
import re

import array_api_strict as strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import Ridge
from sklearn.metrics import confusion_matrix, log_loss, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import termwise
from termwise import (
    AnovaBasis,
    BasisRidge,
    CriterionSearch,
    ForwardClassifier,
    ForwardRegressor,
    LagBasis,
    OnlineRidge,
    PrefilterClassifier,
    RadialBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    UnionBasis,
    diagnostics,
    report,
)
from termwise.basis import TableEncoder
from termwise.linalg.criteria import CRITERIA

ESTIMATORS = [
    getattr(termwise, name)
    for name in termwise.__all__
    if name.endswith(("Regressor", "Classifier", "Ridge")) and hasattr(getattr(termwise, name), "fit")
    if name != "NarxRegressor"  # its terms are those of the one-step model `model_`
]


@pytest.fixture
def sample(rng):
    X = rng.uniform(-1, 1, size=(120, 4))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=120)


@pytest.fixture
def table(rng):
    n = 160
    X = pd.DataFrame({"speed": rng.uniform(0, 30, n), "fuel": pd.Categorical(rng.choice(["gas", "oil"], n))})
    y = pd.Series(np.where(X["fuel"] == "oil", 2.0, 0.0) + 0.1 * X["speed"] + 0.2 * rng.normal(size=n), name="heat")
    return X, y


def targets_for(cls, y):
    return np.where(y > np.median(y), "high", "low") if cls.__name__.endswith("Classifier") else y


def is_plain(value) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or type(value) in (str, bool, int) or (type(value) is float and np.isfinite(value))


# -- facts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_facts_of_every_estimator(cls, sample):
    X, y = sample
    labels = targets_for(cls, y)
    model = cls().fit(X, labels)
    for given in ((X, labels), ()):
        check_facts(diagnostics.facts(model, *given), model, with_samples=bool(given))


def check_facts(facts, model, with_samples):
    assert is_plain(facts)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["model"]["class"] == type(model).__name__
    assert facts["model"]["n_terms"] == model.n_terms_ == len(facts["terms"])
    assert facts["model"]["n"] == 120
    assert ("fit" in facts) == with_samples
    assert ("path" in facts) == hasattr(model, "path_")
    assert set(facts["criteria"]) <= {"cv", "loo_error", "loo_error_rate", *CRITERIA}
    assert bool(facts.get("sizes")) == hasattr(model, "at")


def test_several_outputs_and_names(sample):
    X, y = sample
    Y = pd.DataFrame({"up": y, "down": -2 * y})
    facts = diagnostics.facts(ForwardRegressor().fit(X, Y), X, Y)
    assert facts["model"]["outputs"] == ["up", "down"]
    assert len(facts["fit"]["observed"]) == len(facts["terms"][0]["weight"]) == len(facts["effects"][0]["effect"]) == 2
    np.testing.assert_allclose(facts["fit"]["observed"][1], -2 * y, rtol=1e-5)
    unnamed = diagnostics.facts(ForwardRegressor().fit(X, Y.to_numpy()), X, Y.to_numpy())
    assert unnamed["model"]["outputs"] == ["y0", "y1"]
    assert diagnostics.facts(BasisRidge().fit(X, y), X, y)["model"]["outputs"] == ["y"]


def test_leave_one_out_scores_are_those_of_refits(sample):
    """Straight from the definition: every sample predicted by a model that has not seen it."""
    X, y = sample[0][:40], sample[1][:40]
    model = BasisRidge(alpha=0.3).fit(X, y)
    keep = ~np.eye(40, dtype=bool)
    without = np.array([clone(model).fit(X[k], y[k]).predict(X[~k])[0] for k in keep])
    facts = diagnostics.facts(model, X, y)
    np.testing.assert_allclose(facts["fit"]["loo"][0], without, rtol=1e-4, atol=1e-5)
    assert facts["scores"]["loo_r2"] == pytest.approx(r2_score(y, without), rel=1e-4)
    labels = np.where(y > 0, "yes", "no")
    classifier = ForwardClassifier(loss="squared", criterion=None).fit(X, labels)
    without = np.array([clone(classifier).fit(X[k], labels[k]).predict(X[~k])[0] for k in keep])
    facts = diagnostics.facts(classifier, X, labels)
    assert facts["fit"]["loo"] == without.tolist()
    assert facts["confusion"]["counts"] == confusion_matrix(labels, without).tolist()
    assert facts["scores"]["loo_accuracy"] == pytest.approx(np.mean(labels == without), rel=1e-5)


def test_weights_are_repetitions(sample):
    X, y = sample
    counts = np.arange(120) % 3 + 1
    once = diagnostics.facts(BasisRidge(alpha=1.0).fit(X, y, sample_weight=counts), X, y)
    assert once["model"]["n"] == counts.sum()
    X3, y3 = np.repeat(X, counts, axis=0), np.repeat(y, counts)
    again = diagnostics.facts(BasisRidge(alpha=1.0).fit(X3, y3), X3, y3)
    assert once["scores"]["loo_r2"] == pytest.approx(again["scores"]["loo_r2"], rel=1e-5)
    counts[:5] = 0
    assert diagnostics.facts(BasisRidge(alpha=1.0).fit(X, y, sample_weight=counts), X, y)["scores"]["loo_r2"] > 0.5
    weighted = BasisRidge(alpha=1.0).fit(X, y, sample_weight=counts)
    found = diagnostics.facts(weighted, X, y, sample_weight=counts)["scores"]["loo_r2"]
    mean = np.average(y, weights=counts)
    residual, total = counts @ weighted.loo_residuals_**2, counts @ (y - mean) ** 2
    assert found == pytest.approx(1 - residual / total, rel=1e-5)
    halves = BasisRidge(alpha=1.0).fit(X, y, sample_weight=np.full(120, 0.55))
    assert diagnostics.facts(halves)["model"]["n"] == pytest.approx(66)


def test_path_and_sizes_agree_with_the_model(sample):
    X, y = sample
    model = ForwardRegressor(AnovaBasis(), patience=None, max_terms=12).fit(X, y)
    facts = diagnostics.facts(model, X, y)
    assert [row["size"] for row in facts["path"]] == list(range(13))
    for name in CRITERIA:
        np.testing.assert_allclose([row[name] for row in facts["path"]], model.path_.column(name), rtol=1e-5)
        assert facts["choices"][name] == model.path_.choose(name)
    assert facts["choices"]["tcr"] == model.n_terms_
    assert facts["path_terms"][: model.n_terms_] == [term["name"] for term in facts["terms"]]
    for size in facts["sizes"]:
        other = model.at(size["size"])
        np.testing.assert_allclose(size["weights"][0], other.weights_, rtol=1e-5)
        np.testing.assert_allclose(size["std_errors"][0], np.sqrt(np.diag(other.weights_cov_)), rtol=1e-4)
    brought = [row["reduction"] >= row["threshold"] for row in facts["path"][1:]]
    assert max(np.flatnonzero(brought[: facts["choices"]["loo"]])) + 1 == model.n_terms_


@pytest.mark.slow
@pytest.mark.parametrize("refit", [True, False])
def test_weights_at_some_sizes_of_long_paths(refit, rng):
    X = rng.uniform(-1, 1, size=(5000, 4))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=5000)
    options = {"refit_alpha": "loo"} if refit else {}
    model = ForwardRegressor(AnovaBasis(), patience=None, max_terms=130, **options).fit(X, y)
    facts = diagnostics.facts(model, X, y)
    sizes = [size["size"] for size in facts["sizes"]]
    assert 12 <= len(sizes) <= 25
    assert model.n_terms_ in sizes
    if refit:  # criteria are those of the model at that size, with its own penalty
        assert [row["size"] for row in facts["path"]] == sizes
        assert "tcr" not in facts["choices"]
        row = next(row for row in facts["path"] if row["size"] == model.n_terms_)
        assert row["loo"] == pytest.approx(model.criteria_["loo"], rel=1e-5)
    else:
        assert len(facts["path"]) == 131


@pytest.mark.slow
def test_cross_validation_of_an_automatic_estimator(sample):
    X, y = sample
    model = TermwiseRegressor(dictionary="additive").fit(X, y)
    facts = diagnostics.facts(model, X, y)
    title = model.dictionary_ if model.target_ == "data" else "additive, ridge"
    assert facts["path"][2]["cv"] == pytest.approx(model.trials_[title][2] * y.var(), rel=1e-4)
    assert [trial["name"] for trial in facts["trials"]] == list(model.trials_)
    labels = np.where(y > 0, 1, 0)
    staged = diagnostics.facts(TermwiseClassifier(dictionary="linear", target="ridge").fit(X, labels), X, labels)
    assert "reduction" not in staged["path"][1]
    assert {"cv", "loo_error"} <= set(staged["criteria"])
    logistic = TermwiseClassifier(dictionary="linear", target="data").fit(X, labels)
    facts = diagnostics.facts(logistic, X, labels)
    deviance = 2 * log_loss(labels, np.full(len(y), labels.mean()))
    assert facts["path"][1]["cv"] == pytest.approx(logistic.trials_["linear"][1] * deviance, rel=1e-4)
    assert facts["criteria"] == ["cv", "loo", "bic", "loo_error"]


def test_criteria_along_the_penalty(sample):
    X, y = sample
    model = BasisRidge(RadialBasis(centers=30), alpha="gcv").fit(X, y)
    penalty = diagnostics.facts(model, X, y)["penalty"]
    k = int(np.argmin(penalty["gcv"]))
    assert abs(np.log10(penalty["alpha"][k] / model.alpha_)) < 0.2
    other = BasisRidge(RadialBasis(centers=30), alpha=penalty["alpha"][k]).fit(X, y)
    for name in CRITERIA:
        assert penalty[name][k] == pytest.approx(other.criteria_[name], rel=1e-4)
    assert penalty["dof"][k] == pytest.approx(other.effective_dof_, rel=1e-4)
    flat = BasisRidge().fit(X, np.ones(120))
    assert diagnostics.facts(flat, X, np.ones(120))["model"]["alpha"] is None
    assert "penalty" in diagnostics.facts(flat, X, np.ones(120))


def test_candidates_of_a_search(sample):
    X, y = sample
    grid = {"basis__width": [0.5, 1.0, -1.0]}
    with pytest.warns(FitFailedWarning, match="could not be fitted"):
        search = CriterionSearch(BasisRidge(RadialBasis()), grid).fit(X, y)
    facts = diagnostics.facts(search, X, y)
    assert facts["search"]["rows"][facts["search"]["best"]]["params"] == search.best_params_
    assert facts["search"]["rows"][2] == {"params": {"basis__width": -1.0}, "value": None, "terms": None}
    assert "CriterionSearch(" in facts["reproduce"]


def test_a_pipeline(sample):
    X, y = sample
    pipeline = make_pipeline(StandardScaler(), ForwardRegressor()).fit(X, y)
    facts = diagnostics.facts(pipeline, X, y)
    np.testing.assert_allclose(facts["fit"]["fitted"][0], pipeline.predict(X), rtol=1e-5, atol=1e-5)
    assert "from sklearn.pipeline import Pipeline" in facts["reproduce"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "estimator",
    [
        ForwardRegressor(AnovaBasis(), include=np.array([0])),
        BasisRidge(make_pipeline(StandardScaler(), RadialBasis(width=2.0))),
        make_pipeline(StandardScaler(), ForwardRegressor(UnionBasis([RadialBasis(), AnovaBasis()]))),
        CriterionSearch(BasisRidge(RadialBasis()), {"basis__width": [1.0, 2.0]}),
        TermwiseRegressor(max_terms=3),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_lines_of_python_fit_the_model_again(estimator, weighted, sample):
    X, y = sample
    estimator = clone(estimator)
    step = f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""
    weights = 1.0 + np.arange(len(y)) % 3
    estimator.fit(X, y, **({f"{step}sample_weight": weights} if weighted else {}))
    lines = diagnostics.facts(estimator, X, y)["reproduce"]
    assert ("sample_weight" in lines) == weighted
    variables = {"X": X, "y": y, "sample_weight": weights}
    exec(lines, variables)
    np.testing.assert_allclose(variables["model"].predict(X), estimator.predict(X))


@pytest.mark.parametrize("model", [ForwardRegressor(), BasisRidge(RadialBasis()), ForwardClassifier(AnovaBasis())])
def test_arrays_of_other_libraries(model, sample):
    X, y = sample
    y = (y > 0).astype(int) if isinstance(model, ForwardClassifier) else y
    expected = diagnostics.facts(model.fit(X, y), X, y)
    given = strict.asarray(X), strict.asarray(y)
    assert diagnostics.facts(model.fit(*given), *given) == expected
    held_out, _ = diagnostics.held_out_comparison(model, *given, *given)
    assert held_out["n"] == 120


def test_a_model_without_samples(sample):
    X, y = sample
    facts = diagnostics.facts(OnlineRidge(keep_samples=False).fit(X, y), X, y)
    assert facts["terms"][0]["std_error"] is None
    assert facts["fit"]["loo"] is None
    assert facts["model"]["n"] == 120
    assert facts["scores"] == {"held_out": None, "cross_validation": None}


def test_a_model_without_terms(sample):
    X, y = sample
    facts = diagnostics.facts(ForwardRegressor().fit(X, 0 * y), X, 0 * y)
    assert facts["terms"] == facts["effects"] == []
    assert "loo_r2" not in facts["scores"]


def test_some_of_many_terms_and_samples(rng):
    X = rng.normal(size=(1100, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=1100)
    model = BasisRidge(RadialBasis(centers=510), alpha=0.1).fit(X, y)
    facts = diagnostics.facts(model, X, y)
    ratios = np.abs(model.weights_) / np.sqrt(np.diag(model.weights_cov_))
    names = model.basis_.get_feature_names_out()[np.sort(np.argsort(-ratios)[:500])]
    assert [term["name"] for term in facts["terms"]] == list(names)
    assert len(facts["fit"]["observed"][0]) == len(facts["fit"]["rows"]) == 1000


def test_effects(table):
    X, y = table
    facts = diagnostics.facts(BasisRidge(TableEncoder()).fit(X, y), X, y)
    names = {tuple(effect["inputs"]): effect for effect in facts["effects"]}
    assert names["fuel",]["categories"] == [True]
    assert names["fuel",]["values"] == [["gas", "oil"]]
    assert np.diff(names["fuel",]["effect"][0])[0] == pytest.approx(2, abs=0.2)
    assert all(effect["kind"] == "exact" for effect in facts["effects"])
    assert facts["model"]["target"] == "heat"


@pytest.mark.slow
def test_average_effects_are_averages(table, rng):
    """Where terms take four inputs, by brute force: set one input everywhere, predict, average."""
    X, y = table
    X = X.assign(load=rng.normal(size=160), wind=rng.normal(size=160))
    model = TermwiseRegressor(dictionary="smooth").fit(X, y)
    facts = diagnostics.facts(model, X, y)
    assert "of more inputs or of inputs that are not known term by term" in facts["no_effects"]
    by_name = {effect["inputs"][0]: effect for effect in facts["effects"]}
    some = X.iloc[np.unique(np.linspace(0, 159, 150).astype(int))]  # averages are over 150 samples
    for name, effect in by_name.items():
        means = []
        for value in effect["values"][0]:
            column = pd.Categorical([value] * len(some), categories=["gas", "oil"]) if name == "fuel" else value
            means.append(model.predict(some.assign(**{name: column})).mean())
        means = np.array(means) - np.average(means, weights=effect["density"])  # mean zero over the samples
        np.testing.assert_allclose(effect["effect"][0], means, atol=5e-3)
        assert effect["kind"] == "average"
    frame = pl.DataFrame({"speed": X["speed"].to_numpy(), "load": y.to_numpy()})
    facts = diagnostics.facts(BasisRidge(RadialBasis()).fit(frame, y), frame, y)
    assert {effect["inputs"][0] for effect in facts["effects"]} == {"speed", "load"}


def test_notes(sample):
    X, y = sample
    frame = pd.DataFrame(X, columns=list("abcd")).assign(e=1.0, f=X[:, 0], g=1.0)
    facts = diagnostics.facts(ForwardRegressor().fit(frame, y), frame, y, notes=["two rows dropped"])
    assert facts["notes"] == [
        "two rows dropped",
        "Constant columns, which carry no information: e, g.",
        "Duplicate columns, of which any can replace the others: f = a.",
    ]
    many = np.hstack([X, np.zeros((120, 20))])
    (note,) = diagnostics.facts(ForwardRegressor().fit(many, y), many, y)["notes"]
    assert note.endswith("x14, x15 and 8 more.")
    sparse = sp.csr_array(many)
    assert diagnostics.facts(ForwardRegressor().fit(sparse, y), sparse, y)["notes"] == []


def test_plain_data(sample):
    X, y = sample
    given = {"a": np.float64(1), 2: (np.int64(3), np.inf, None), "b": {1}, "c": np.array([True]), "d": np.bool_(1),
             "e": AnovaBasis()}  # fmt: skip
    model = ForwardRegressor().fit(X, y)
    facts = diagnostics.facts(model, held_out=given)
    expected = {"a": 1.0, "2": [3, None, None], "b": [1], "c": [True], "d": True, "e": "AnovaBasis()"}
    assert facts["scores"]["held_out"] == expected
    assert facts["terms"][0]["weight"] == [float(f"{model.weights_[0]:.6g}")]
    assert facts["sizes"][0]["weights"] == [[]]


# -- baselines ---------------------------------------------------------------------------------------------------------


def test_comparison_for_regression(table):
    X, y = table
    model = TermwiseRegressor(dictionary="additive").fit(X[:110], y[:110])
    held_out, baselines = diagnostics.held_out_comparison(model, X[:110], y[:110], X[110:], y[110:])
    assert held_out["metric"] == "R2"
    assert held_out["n"] == 50
    assert held_out["value"] == pytest.approx(r2_score(y[110:], model.predict(X[110:])))
    assert held_out["unexplained"] == pytest.approx(1 - held_out["value"])
    assert 0.7 < held_out["coverage"] <= 1
    assert [one["name"] for one in baselines] == ["mean", "ridge", "lasso"]
    assert [one["terms"] for one in baselines[:2]] == [0, 3]
    assert baselines[0]["value"] <= 0 < 0.8 < baselines[1]["value"]
    facts = diagnostics.facts(model, X[:110], y[:110], held_out=held_out, baselines=baselines)
    assert facts["scores"]["held_out"]["value"] == held_out["value"]
    assert [one["score"] for one in facts["baselines"]] == [one["value"] for one in baselines]
    assert is_plain(facts)


def test_comparison_for_classes(sample):
    X, y = sample
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    model = ForwardClassifier().fit(X[:80], labels[:80])
    held_out, baselines = diagnostics.held_out_comparison(model, X[:80], labels[:80], X[80:], labels[80:])
    accuracy = model.score(X[80:], labels[80:])
    assert held_out["metric"] == "accuracy"
    assert held_out["value"] == accuracy
    assert held_out["n"] == 40
    assert held_out["std_error"] == pytest.approx(np.sqrt(accuracy * (1 - accuracy) / 40))
    dummy = DummyClassifier().fit(X[:80], labels[:80])
    assert baselines[0]["value"] == dummy.score(X[80:], labels[80:])
    assert baselines[1]["terms"] == 4
    assert baselines[2]["value"] > baselines[0]["value"]


def test_comparison_of_several_outputs_sparse_and_some_rows(rng):
    X = rng.normal(size=(5100, 3))
    y = X[:, 0] + 0.5 * rng.normal(size=5100)
    G, Y = sp.csr_array(X), np.column_stack([y, -y])
    model = ForwardRegressor().fit(G, Y)
    _, baselines = diagnostics.held_out_comparison(model, G, Y, G[:80], Y[:80])
    assert {one["rows"] for one in baselines} == {5000}
    assert baselines[2]["value"] > 0.5
    wide = sp.hstack([G, sp.csr_array((5100, 4000))], format="csr")  # too large a table for baselines
    model = ForwardRegressor(max_terms=1).fit(wide, Y)
    assert diagnostics.held_out_comparison(model, wide, Y, wide[:80], Y[:80])[1] == []


def test_comparison_of_a_series_sees_past_values_only(rng):
    z = rng.normal(size=200).cumsum()
    table = z[:, None]
    model = ForwardRegressor(LagBasis(lags=2)).fit(table[:150], z[:150])
    _, baselines = diagnostics.held_out_comparison(model, table[:150], z[:150], table[150:], z[150:])
    assert baselines[1]["terms"] == 2
    assert baselines[1]["value"] < 0.999


def test_effects_of_a_series_have_the_lags_of_all_rows(rng, monkeypatch):
    """However few of the rows effects are taken over: neighbours in the series, not in the rows taken."""
    n, u = 1500, np.zeros(1500)
    for t in range(1, n):
        u[t] = 0.95 * u[t - 1] + rng.normal()
    table = pd.DataFrame({"y": np.r_[0, 0, u[1:-1] * u[:-2]] + 0.1 * rng.normal(size=n), "u": u})
    lags = LagBasis(1, input_lags=[1, 2])
    product = ForwardRegressor(make_pipeline(lags, AnovaBasis())).fit(table, table["y"])  # of nearly equal inputs
    change = np.r_[0, 0, u[1:-1] - u[:-2]] + 0.5 * table["y"].shift(fill_value=0)
    for model in (product, ForwardRegressor(lags).fit(table, change)):
        shares = []
        for max_rows in (n, 150):
            monkeypatch.setattr("termwise.explain.effects.EFFECT_ROWS", max_rows)
            groups = diagnostics.facts(model, table)["groups"]
            shares.append({tuple(group["inputs"]): group["share"] for group in groups})
        assert shares[1] == pytest.approx(shares[0], abs=0.06)
    assert diagnostics.facts(product, table)["effects"][0]["kind"] == "exact"
    assert "share of the variance" not in product._repr_html_()  # of samples that are kept without those before


def test_comparison_of_pipelines_and_models_without_samples(sample):
    X, y = sample
    pipeline = make_pipeline(StandardScaler(), OnlineRidge(keep_samples=False)).fit(X[:80], y[:80])
    held_out, baselines = diagnostics.held_out_comparison(pipeline, X[:80], y[:80], X[80:], y[80:])
    assert "coverage" not in held_out
    assert len(baselines) == 3


def test_facts_of_a_table_that_ends_with_an_identifier(table):
    X, y = table
    named = X.assign(name=[f"machine {i}" for i in range(len(X))])
    model = TermwiseRegressor(4, dictionary="additive", target="data").fit(named, y)
    for found in (diagnostics.facts(model, named, y), diagnostics.facts(model)):
        assert {one for group in found["groups"] for one in group["inputs"]} == {"speed", "fuel"}
        assert {one["input"] for one in found["importance"]} == {"speed", "fuel"}
    for samples in (named, None):
        assert {one for row in diagnostics.effects_table(model, samples) for one in row["inputs"]} == {"speed", "fuel"}
    assert "share of the variance" in model.summary()


# -- without the samples of the fit ------------------------------------------------------------------------------------


def page_data(html):
    """Metadata in a page, and the scores on the data given to it."""
    (block,) = re.findall(r'<script type="application/json" id="facts">(.*?)</script>', html, flags=re.DOTALL)
    content = json.loads(block)
    return content["facts"], content["data"]


def test_other_data(sample):
    X, y = sample
    model = ForwardRegressor().fit(X, y)
    _, data = page_data(report.render(model.predictor_, X=X[:30], y=y[:30]))
    assert data["value"] == pytest.approx(r2_score(y[:30], model.predict(X[:30])))
    assert data["n"] == len(data["fit"]["rows"]) == 30
    labels = np.where(y > 0, "yes", "no")
    classifier = ForwardClassifier().fit(X, labels)
    facts = diagnostics.facts(classifier, X, labels)
    _, data = page_data(report.render(classifier, facts=facts, X=X, y=np.where(y > 1, "more", labels)))
    assert data["confusion"]["classes"] == ["no", "yes", "more"]
    assert np.sum(data["confusion"]["counts"]) == 120


def test_predictors_without_metadata(sample):
    X, y = sample
    facts, data = page_data(report.render(ForwardRegressor().fit(X, y).predictor_))
    assert data is None
    assert is_plain(facts)
    assert facts["terms"][0]["name"] == "x0"
    three = ForwardClassifier().fit(X, np.digitize(y, [-0.5, 0.5])).predictor_
    assert page_data(report.render(three))[0]["model"]["outputs"] == ["0", "1", "2"]
    two = ForwardClassifier().fit(X, y > 0).predictor_
    assert page_data(report.render(two))[0]["model"]["outputs"] == ["True"]


def test_facts_are_stored_in_the_predictor(sample, tmp_path):
    X, y = sample
    model = PrefilterClassifier().fit(X, y > 0)
    facts = diagnostics.facts(model, X, y > 0)
    model.predictor_.with_facts(facts).save(tmp_path / "model.json")
    assert termwise.load_predictor(tmp_path / "model.json").facts == facts


# -- errors -----------------------------------------------------------------------------------------------------------


def test_messages(sample):
    X, y = sample
    with pytest.raises(TypeError, match=r"estimator must be a fitted estimator of termwise, or a pipeline that ends in "
                       r"one, got Ridge\(\): facts reads its terms and weights\."):  # fmt: skip
        diagnostics.facts(Ridge().fit(X, y))
    with pytest.raises(ValueError, match="not fitted yet"):
        diagnostics.facts(ForwardRegressor())
    with pytest.raises(ValueError, match=r"X, y must be the 120 samples of the fit, got 30: leave-one-out residuals "
                       r"belong to those\. Give scores on other samples as held_out\."):  # fmt: skip
        diagnostics.facts(ForwardRegressor().fit(X, y), X[:30], y[:30])


def test_a_column_may_have_the_name_of_an_interaction():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(150, 3)), columns=["A", "B", "A and B"])
    model = ForwardRegressor(AnovaBasis(), max_terms=4, criterion=None).fit(X, 3 * X["A"] * X["B"] + X["A and B"])
    predictor = model.predictor_.with_facts(diagnostics.facts(model, X))
    found = diagnostics.contributions(predictor, X)
    assert {"A and B", "A and B (2)"} <= set(found.effects)
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), model.predict(X)[:, None], rtol=1e-4, atol=1e-3)


def test_the_path_of_an_automatic_model_has_all_sizes(rng):
    """Terms selected for the data keep their weights on the path: no penalty is chosen anew."""
    X = rng.normal(size=(80, 5))
    model = TermwiseRegressor(3, dictionary="linear", target="data").fit(X, X[:, 0] + rng.normal(size=80))
    found = termwise.diagnostics.facts(model, X, X[:, 0])
    assert [row["size"] for row in found["path"]] == list(range(len(model.path_) + 1))
    assert {"loo", "tcr"} <= set(found["choices"])
