"""The studies `selection` and `modern` of `termwise reproduce`: problems, methods, tables and figures."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Lasso, LinearRegression

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import reproduce_modern
import reproduce_selection
from _selection_methods import (
    MIXTURES,
    cross_validated,
    forward_models,
    methods_of,
    relaxed_lasso,
    relaxed_lasso_path,
    termwise,
)
from _selection_problems import BETA_TYPES, SETTINGS, Problem, coefficients, draw, measure, variance_along


def covariance(p: int, rho: float) -> np.ndarray:
    return rho ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))


@pytest.mark.parametrize("rho", [0.0, 0.35, 0.7])
def test_problems_have_the_covariance_and_the_signal_to_noise_ratio(rho):
    columns = np.concatenate([draw("low", rho, 2, 2.0, seed).X for seed in range(100)])
    np.testing.assert_allclose(np.cov(columns.T), covariance(10, rho), atol=0.05)
    problem = draw("low", rho, 3, 2.0, 0)
    signal = problem.beta @ covariance(10, rho) @ problem.beta
    assert variance_along(problem.beta, rho) == pytest.approx(signal)
    assert signal / problem.noise == pytest.approx(2.0)
    noise = np.concatenate([one.y - one.X @ one.beta for one in (draw("low", rho, 3, 2.0, k) for k in range(50))])
    assert np.var(noise) == pytest.approx(problem.noise, rel=0.1)


def test_coefficients_are_those_of_the_paper():
    assert np.flatnonzero(coefficients(1, 1000, 5)).tolist() == [0, 250, 500, 749, 999]
    assert coefficients(2, 10, 5).tolist() == [1.0] * 5 + [0.0] * 5
    assert coefficients(3, 10, 5)[:5].tolist() == [10, 7.625, 5.25, 2.875, 0.5]
    assert coefficients(4, 10, 5).tolist() == [-10, -6, -2, 2, 6, 10, 0, 0, 0, 0]
    assert coefficients(5, 8, 5)[4:].tolist() == [1, 0.5, 0.25, 0.125]


def test_measures():
    problem = Problem(np.empty((0, 4)), np.empty(0), np.array([1.0, 1, 0, 0]), 0.0, 4.0, frozenset({0, 1}))
    perfect, null = measure(problem, problem.beta, 0.0), measure(problem, np.zeros(4), 0.0)
    assert (perfect["risk"], perfect["test_error"], perfect["f1"]) == (0, 1, 1)
    assert (null["risk"], null["test_error"], null["explained"], null["f1"]) == (1, 1.5, 0, 0)
    other = measure(problem, np.array([1.0, 0, 2, 0]), 1.0)
    assert other["risk"] == 3.0  # (0 + 1 + 4 + 1) / 2
    assert other["f1"] == 0.5
    assert other["false_share"] == 0.5


def test_relaxed_lasso_is_a_mixture_with_least_squares_on_the_active_set():
    problem = draw("low", 0.35, 2, 1.0, 0)
    X, y = problem.X - problem.X.mean(axis=0), problem.y - problem.y.mean()
    penalties = np.array([0.5, 0.1])
    rows = relaxed_lasso_path(X, y, penalties).reshape(2, len(MIXTURES), -1)
    for penalty, mixtures in zip(penalties, rows, strict=True):
        lasso = Lasso(penalty, fit_intercept=False, tol=1e-10).fit(X, y).coef_
        active = np.flatnonzero(lasso)
        relaxed = np.zeros(10)
        relaxed[active] = LinearRegression(fit_intercept=False).fit(X[:, active], y).coef_
        for g, coef in zip(MIXTURES, mixtures, strict=True):
            np.testing.assert_allclose(coef, g * lasso + (1 - g) * relaxed, atol=1e-3)
    coef, intercept = relaxed_lasso(problem.X, problem.y)
    assert intercept == pytest.approx(problem.y.mean() - problem.X.mean(axis=0) @ coef)
    assert measure(problem, coef, intercept)["risk"] < 1


def test_cross_validation_takes_the_best_size():
    problem = draw("low", 0.0, 3, 6.0, 0)
    order = np.argsort(-np.abs(problem.X.T @ (problem.y - problem.y.mean())))
    models = forward_models(problem.X - problem.X.mean(axis=0), problem.y - problem.y.mean(), 10)
    assert models.shape == (11, 10)
    assert [np.count_nonzero(row) for row in models] == list(range(11))
    coef, _ = cross_validated(lambda X, y: forward_models(X, y, 10), problem.X, problem.y)
    assert any(np.allclose(coef, row) for row in models)
    assert order[0] in np.flatnonzero(coef)
    coef, _ = cross_validated(lambda X, y: np.stack([np.zeros(10), problem.beta]), problem.X, problem.y)
    assert np.all(coef == problem.beta)


def test_coefficients_of_the_automatic_estimator_predict_as_it_does():
    problem = draw("low", 0.0, 2, 6.0, 0)
    coef, intercept = termwise(size=3)(problem.X, problem.y)
    assert np.count_nonzero(coef) == 3
    assert np.mean((problem.y - problem.X @ coef - intercept) ** 2) < np.var(problem.y)


@pytest.mark.slow
def test_selection_from_jobs_to_figures():
    jobs = list(reproduce_selection.jobs(quick=True, repeats=None))
    assert len(jobs) == len(SETTINGS) * 3 * len(BETA_TYPES) * 3
    low = [job for job in jobs if job["setting"] == "low"][:2]
    records = [job | reproduce_selection.run(job) for job in low]
    assert set(methods_of("low")) - {"fastcan", "best subset, abess"} <= set(records[0]["fits"])
    cells = reproduce_selection.cells(records)
    risk = next(one for one in cells if (one["table"], one["column"]) == ("all problems", "relaxed lasso"))
    assert risk["ours"] == pytest.approx(np.mean([one["fits"]["relaxed lasso"]["risk"] for one in records]))
    ratios = [one for one in cells if one["table"] == "relative to relaxed lasso" and one["row"] == "all"]
    assert {"forward, cv", "forward stepwise"} <= {one["column"] for one in ratios}
    assert [name for name, _ in reproduce_selection.figures(records)] == ["risk", "f1"]


def test_relative_risk():
    ratio, error, geometric = reproduce_selection.relative_risk(np.array([[1.0, 2.0], [1.0, 0.5]]))
    assert ratio == pytest.approx(0.8)
    assert error > 0
    assert geometric == pytest.approx(1.0, abs=1e-3)


def records_of_modern():
    fits = {"small": (0.4, 5, 2.0), "accurate": (0.3, 9, 4.0), "histgb": (0.5, None, 1.0)}
    for who, (error, terms, seconds) in fits.items():
        more = {} if terms is None else {"terms": terms, "nodes": 10 * terms, "c_bytes": 100 * terms}
        times = {"seconds": seconds, "cpu_seconds": seconds}
        job = reproduce_modern.job_of("papers", "auto_mpg", "regression", who, 0)
        yield job | {"error": error} | more | times
        if who != "histgb":
            for name in ("560_bodyfat", "594_fri_c2_100_5"):
                job = reproduce_modern.job_of("srbench", name, "regression", who, 860)
                yield job | {"error": error} | more | times


def test_modern_from_records_to_figures(monkeypatch):
    import pandas as pd

    r2 = pd.DataFrame({"one": [0.9, 0.5], "two": [0.65, 0.5]}, index=["560_bodyfat", "594_fri_c2_100_5"])
    monkeypatch.setattr(reproduce_modern, "published", lambda quantity="r2_test": r2)
    records = list(records_of_modern())
    cells = {(one["table"], one["row"], one["column"], one["quantity"]): one for one in reproduce_modern.cells(records)}
    relative = cells["summary, regression", "all tables", "small", "error relative to histgb"]
    assert relative["ours"] == pytest.approx(0.8)
    assert cells["SRBench, accurate among the published", "all sets", "accurate", "mean rank"]["ours"] == 1.5
    assert cells["SRBench, small among the published", "without fri_", "small", "mean rank"]["ours"] == 3.0
    assert cells["data sets of the papers", "auto_mpg", "accurate", "bytes of C"]["ours"] == 900
    assert [name for name, _ in reproduce_modern.figures(records)] == ["pareto_regression", "srbench"]


def test_modern_runs_a_job(monkeypatch, tmp_path):
    (tmp_path / "srbench").mkdir()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    rows = np.column_stack([X, X[:, 0] + 0.1 * rng.normal(size=80)])
    lines = ["a,b,target", *(",".join(map(str, row)) for row in rows.tolist())]
    with gzip.open(tmp_path / "srbench" / "560_bodyfat.csv.gz", "wt") as file:
        file.write("\n".join(lines))
    monkeypatch.setenv("TERMWISE_DATA", str(tmp_path))
    job = next(iter(reproduce_modern.jobs(quick=True, repeats=1)))
    assert (job["part"], job["table"], job["who"], job["seed"]) == ("srbench", "560_bodyfat", "small", 860)
    found = reproduce_modern.run(job)
    assert found["error"] < 0.1
    assert found["terms"] >= 1
    assert found["nodes"] > 1
    assert found["c_bytes"] > 100
