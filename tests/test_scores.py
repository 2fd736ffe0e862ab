"""Scores: what is printed, saved and shown belongs together, and is what retraining gives."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from oracles import cross_validated_score
from sklearn import datasets as ready
from sklearn.metrics import accuracy_score, log_loss, r2_score
from sklearn.model_selection import KFold, StratifiedKFold, TimeSeriesSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_report import Page, page_data
from typer.testing import CliRunner

from termwise import (
    BasisRidge,
    EvidenceForwardRegressor,
    ForwardClassifier,
    ForwardRegressor,
    LagBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    diagnostics,
    load_predictor,
)
from termwise.basis import TableEncoder
from termwise.cli import app
from termwise.fitted import FoldModels

# -- tables ------------------------------------------------------------------------------------------------------------


def bundled(load, names=None):
    """A table of scikit-learn, with its target as numbers or names."""
    data = load(as_frame=True)
    y = data.target if names is None else np.array([f"class {name}" for name in data.target])
    return data.data.round(4).assign(y=y)


def passengers(n=160):
    """Categories, classes and missing values."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"age": rng.normal(40, 12, n).round(1), "fare": rng.lognormal(3, 1, n).round(2),
                          "cabin": rng.choice(["first", "second", "third"], n)})  # fmt: skip
    odds = (table.cabin == "first") + 0.04 * (40 - table.age) + rng.logistic(size=n)
    table["y"] = np.where(odds > 0, "yes", "no")
    table.loc[::9, "age"] = np.nan
    return table


def houses(n=150):
    """Categories and missing values."""
    rng = np.random.default_rng(6)
    table = pd.DataFrame({"size": rng.uniform(40, 200, n).round(1), "year": rng.integers(1900, 2020, n).astype(float),
                          "kind": rng.choice(["flat", "house"], n)})  # fmt: skip
    table["y"] = (2 * table["size"] + 60 * (table.kind == "house") + 20 * rng.normal(size=n)).round(3)
    table.loc[::11, "year"] = np.nan
    return table


def series(n=150):
    """A noisy oscillation with an input that drives it."""
    rng = np.random.default_rng(7)
    push, y = rng.normal(size=n), np.zeros(n)
    for t in range(2, n):
        y[t] = 1.5 * y[t - 1] - 0.8 * y[t - 2] + 0.5 * push[t - 1] + 0.3 * rng.normal()
    return pd.DataFrame({"time": np.arange(n) * 0.5, "push": push.round(4), "y": y.round(4)})


def friedman(n=120):
    """Five inputs that matter and five that do not."""
    X, y = ready.make_friedman1(n, noise=1.0, random_state=8)
    return pd.DataFrame(X.round(4), columns=[f"x{j}" for j in range(10)]).assign(y=y.round(4))


def plain(table):
    """Inputs and target as the command line reads them, imputed."""
    X = table.drop(columns=["y", "time"], errors="ignore")
    X = X.fillna({name: X[name].median() for name in X if X[name].dtype.kind == "f"})
    return X.astype({name: "category" for name in X if X[name].dtype.kind not in "fi"}).astype(
        {name: float for name in X if X[name].dtype.kind == "i"}
    ), table["y"].to_numpy() if table["y"].dtype.kind in "fi" else table["y"].to_numpy(str)


LINEAR = {"dictionary": "linear", "random_state": 0}
TABLES = {  # a table, options, and the procedure in Python
    "diabetes": (bundled(ready.load_diabetes), "--basis none", lambda: TermwiseRegressor(**LINEAR)),
    "friedman": (friedman(), "--basis anova --size 6", lambda: TermwiseRegressor(6, dictionary="pairs")),
    "breast cancer": (bundled(ready.load_breast_cancer, "names")[::3], "--basis none --seed 3",
                      lambda: TermwiseClassifier(dictionary="linear", random_state=3)),
    "iris": (bundled(ready.load_iris, "names"), "--basis none --size accurate",
             lambda: TermwiseClassifier("accurate", **LINEAR)),
    "wine": (bundled(ready.load_wine, "names"), "--method forward --seed 2",
             lambda: ForwardClassifier(refit_alpha="loo")),
    "passengers": (passengers(), "--impute --basis none", lambda: TermwiseClassifier(**LINEAR)),
    "houses": (houses(), "--impute --method ridge",
               lambda: BasisRidge(make_pipeline(TableEncoder(), StandardScaler()))),
    "evidence": (friedman(), "--method evidence --size 4", lambda: EvidenceForwardRegressor(
        make_pipeline(TableEncoder(), StandardScaler()), max_terms=4)),
    "series": (series(), "--time time --basis lag --lags 4", lambda: ForwardRegressor(refit_alpha="loo")),
    "in order": (series(), "--time time --method forward", lambda: ForwardRegressor(refit_alpha="loo")),
    "in order, automatic": (series(), "--time time --basis none", lambda: TermwiseRegressor(**LINEAR)),
    "held out": (houses(), "--impute --basis none --hold-out 0.25 --seed 4", None),
    "classes held out": (passengers(), "--impute --method forward --hold-out 0.2", None),
    "series held out": (series(), "--time time --basis lag --lags 4 --hold-out 0.2", None),
}  # fmt: skip


@pytest.fixture(scope="module", params=list(TABLES))
def fitted(request, tmp_path_factory):
    """The table, its options, and all that the command line made of it."""
    folder = tmp_path_factory.mktemp("fit")
    table, options, make = TABLES[request.param]
    table.to_csv(folder / "t.csv", index=False)
    command = ["fit", str(folder / "t.csv"), "-t", "y", *options.split(), "--json", "-o", str(folder / "m.json")]
    result = CliRunner().invoke(app, [*command, "--report", str(folder / "r.html")])
    assert result.exit_code == 0, result.output
    return table, options, make, folder, json.loads(result.stdout), " ".join(result.stderr.split())


@pytest.mark.slow
def test_printed_saved_and_shown_are_one_model_and_one_score(fitted):
    _, options, _, folder, record, printed = fitted
    predictor, html = load_predictor(folder / "m.json"), (folder / "r.html").read_text(encoding="utf-8")
    facts, score, n_terms = predictor.facts, record["score"], record["n_terms"]
    assert page_data(html)["facts"] == facts
    assert record["scores"] == facts["scores"]
    assert score == facts["scores"]["held_out" if "--hold-out" in options else "cross_validation"]
    assert record["baselines"] == facts["baselines"]
    assert record["terms"] == facts["terms"]
    assert n_terms == facts["model"]["n_terms"] == predictor.n_terms == len(predictor.term_names)
    assert [term["name"] for term in facts["terms"]] == predictor.term_names
    assert np.allclose([term["weight"] for term in facts["terms"]], predictor.weights.T, rtol=1e-5)
    told = f"{score['value']:.3f} +- {score['std_error']:.3f}"
    assert f"{n_terms} of {record['n_candidates']} terms" in printed
    assert f"fitted to {facts['model']['n']} rows" in printed
    assert f"{score['metric']} {told} ({score['protocol']})" in printed
    assert f"this model {told} {n_terms}" in printed
    shown = " ".join(Page(html).text.split())
    value, error = (f"{100 * number:.1f}\u00a0%" if score["metric"] == "accuracy" else f"{number:.3f}"
                    for number in (score["value"], score["std_error"]))  # fmt: skip
    name = {"R2": "R²"}.get(score["metric"], score["metric"])
    value, error = value.replace("\u00a0", " "), error.replace("\u00a0", " ")
    assert f"{name} {value} ± {error} ({score['protocol']})".replace("R² -", "R² \u2212") in shown
    assert f"terms{n_terms}of" in re.sub(r"\s", "", shown)


@pytest.mark.slow
def test_saved_model_makes_the_predictions_that_are_shown(fitted):
    table, options, _, folder, record, _ = fitted
    done = CliRunner().invoke(app, ["predict", str(folder / "m.json"), str(folder / "t.csv"), "--json"])
    predicted, y = pd.Series(json.loads(done.stdout)["prediction"]).to_numpy(), table["y"].to_numpy()
    facts = load_predictor(folder / "m.json").facts
    if "--hold-out" not in options:
        assert ("fit" in facts) == (record["task"] == "regression")
        for seen in facts.get("fit", {"fitted": [[]]})["fitted"][0]:  # without row numbers
            assert np.isclose(predicted, seen, rtol=1e-5).any()
        return
    n_test = round(float(options.split("--hold-out ")[1].split()[0]) * len(y))
    rows = np.arange(len(y))
    labels = y if record["task"] == "classification" else None
    seed = 4 if "--seed 4" in options else 0
    test = rows[-n_test:] if "--time" in options else train_test_split(
        rows, test_size=n_test, random_state=seed, stratify=labels)[1]  # fmt: skip
    metric = r2_score if labels is None else accuracy_score
    assert record["score"]["n"] == n_test
    assert facts["model"]["n"] == len(y) - n_test - (4 if "lag" in options else 0)
    assert record["score"]["value"] == pytest.approx(metric(y[test], predicted[test]))


@pytest.mark.slow
def test_cross_validated_score_is_that_of_the_procedure(fitted):
    table, options, make, _, record, _ = fitted
    if make is None:
        assert record["score"]["protocol"].startswith("on ")
        return
    seed = int(options.split("--seed ")[1]) if "--seed" in options else 0
    X, y = plain(table)
    if "lag" in options:
        lagged = LagBasis(4, input_lags=range(5), output="y").fit(X.assign(y=y)[["y", *X.columns]])
        X, y = lagged.windows(X.assign(y=y)[["y", *X.columns]])
        X = pd.DataFrame(X, columns=lagged.get_feature_names_out())
    if "--time" in options:
        folds = TimeSeriesSplit(5, test_size=len(y) // 10)
    elif hasattr(model := make().fit(X, y), "cv_error_"):
        error = model.cv_error_ if record["task"] == "regression" else model.cv_error_rate_
        assert record["score"]["value"] == pytest.approx(1 - error, rel=1e-6)
        return
    else:
        folds = (KFold if record["task"] == "regression" else StratifiedKFold)(5, shuffle=True, random_state=seed)
    expected = cross_validated_score(make, X, y, folds.split(X, y))
    assert record["score"]["value"] == pytest.approx(expected, rel=1e-6)
    assert record["score"]["n"] == (len(y) // 10 * 5 if "--time" in options else len(y))


# -- the functions -----------------------------------------------------------------------------------------------------


def test_baselines_have_the_same_folds(rng):
    X = rng.normal(size=(90, 4))
    y = X[:, 0] + rng.normal(size=90)
    score, baselines = diagnostics.cross_validated_comparison(ForwardRegressor(), X, y, random_state=1)
    folds = list(KFold(5, shuffle=True, random_state=1).split(X))
    means = np.empty(90)
    for train, test in folds:
        means[test] = y[train].mean()
    assert baselines[0]["value"] == pytest.approx(r2_score(y, means))
    squares = (y - cross_validated_predictions(X, y, folds)) ** 2 / y.var()
    assert score["value"] == pytest.approx(1 - squares.mean())
    assert score["std_error"] == pytest.approx(squares.std(ddof=1) / np.sqrt(90))
    assert score["rmse"] == pytest.approx(np.sqrt(squares.mean() * y.var()))


def cross_validated_predictions(X, y, folds):
    found = np.empty(len(y))
    for train, test in folds:
        found[test] = ForwardRegressor().fit(X[train], y[train]).predict(X[test])
    return found


def test_automatic_estimators_are_not_fitted_again(rng, monkeypatch):
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=60)
    model = TermwiseRegressor(dictionary="linear", target="data").fit(X, y)
    model.cv_error_, model.cv_error_std_ = 0.2, 0.04
    fold = np.arange(60) % 5
    model.fitted_terms_ = replace(model.fitted_terms_, fold_models=FoldModels((), fold, np.zeros((60, 1)), np.ones(60)))
    monkeypatch.setattr(TermwiseRegressor, "fit", None)
    score, baselines = diagnostics.cross_validated_comparison(model, X, y)
    assert score["value"] == 0.8
    assert score["std_error"] == 0.04
    assert score["rmse"] == pytest.approx(np.sqrt(0.2 * y.var()))
    means = np.array([y[fold != k].mean() for k in fold])
    assert baselines[0]["value"] == pytest.approx(r2_score(y, means))
    model.fitted_terms_ = replace(
        model.fitted_terms_, fold_models=FoldModels((), fold[:40], np.zeros((40, 1)), np.ones(40))
    )
    score, baselines = diagnostics.cross_validated_comparison(model, X, y)
    assert score["n"] == 40
    assert score["protocol"] == "5-fold cross-validation, selection repeated, on 40 of 60 samples"
    assert len(baselines) == 3


@pytest.mark.slow
def test_scores_of_classes(rng):
    X = rng.normal(size=(80, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=80) > 0, "up", "down")
    model = TermwiseClassifier(dictionary="linear").fit(X, y)
    model.cv_error_, model.cv_error_std_, model.cv_error_rate_, model.cv_log_loss_ = 0.4, 0.03, 0.2, 0.45
    cross_validation = diagnostics.facts(model)["scores"]["cross_validation"]
    assert cross_validation["value"] == pytest.approx(0.8)
    assert cross_validation["std_error"] == pytest.approx(np.sqrt(0.16 / 80))
    assert cross_validation["log_loss"] == 0.45
    held_out, _ = diagnostics.held_out_comparison(model, X, y, X[:30], y[:30])
    assert held_out["log_loss"] == pytest.approx(log_loss(y[:30], model.predict_proba(X[:30])))
    score, baselines = diagnostics.cross_validated_comparison(
        TermwiseClassifier(1, dictionary="linear"), X, y, cv=KFold(4)
    )
    assert score["n_folds"] == 4
    assert 0 < score["log_loss"] < np.log(2)
    assert baselines[0]["title"] == "most frequent class"


@pytest.mark.slow
def test_training_sets_of_one_class(rng):
    X, y = rng.normal(size=(40, 2)), np.r_[np.zeros(39, int), 1]
    score, _ = diagnostics.cross_validated_comparison(ForwardClassifier(), X, y)
    assert score["value"] == pytest.approx(39 / 40)
    few = np.arange(40) % 10  # no class has as many samples as there are folds
    assert diagnostics.cross_validated_comparison(ForwardClassifier(), X, few)[0]["n"] == 40
    _, baselines = diagnostics.cross_validated_comparison(ForwardClassifier(), X, few, cv=KFold(2))
    assert [one["name"] for one in baselines] == ["mean"]


def test_several_outputs_pipelines_and_large_tables(rng, monkeypatch):
    X = rng.normal(size=(60, 3))
    Y = X[:, :2] + 0.1 * rng.normal(size=(60, 2))
    score, baselines = diagnostics.cross_validated_comparison(make_pipeline(StandardScaler(), ForwardRegressor()), X, Y)
    assert score["value"] > 0.9
    assert len(baselines) == 3
    monkeypatch.setattr("termwise.explain.scores.TABLE_ENTRIES", 100)
    assert diagnostics.cross_validated_comparison(ForwardRegressor(), X, Y[:, 0])[1] == []
