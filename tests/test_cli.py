"""The command line, run in a subprocess or through typer."""

from __future__ import annotations

import builtins
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from frozen_models import CORNERS, EQUAL, PRODUCT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.metrics import r2_score
from typer.testing import CliRunner

import termwise
import termwise.__main__
from termwise import AnovaBasis, ForwardRegressor, NarxRegressor, TermwiseRegressor, load_predictor
from termwise.cli import BasisName, app
from termwise.cli.console import Console, StepCounter, UsageError, handle_errors
from termwise.cli.fit import OPTIONS, FitOptions, make_basis


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "termwise", *map(str, arguments)], capture_output=True, text=True, **options
    )


def invoke(*arguments):
    """Run a command in this process; it must not raise anything but SystemExit."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def words(result):
    """Return the output without frames and line breaks."""
    return " ".join(result.output.replace("│", " ").split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write the tables of most tests: numeric, categorical, two targets, missing values, and a time series."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "kind": rng.choice(["red", "blue"], n)})
    frame["y"] = 2 * frame.a - frame.b * (frame.kind == "red") + 0.1 * rng.normal(size=n)
    frame["label"] = np.where(frame.y > 0, "high", "low")
    frame.round(4).to_csv(folder / "table.csv", index=False)
    gaps = frame.round(4).drop(columns="label")
    gaps.loc[::9, "a"] = np.nan
    gaps.loc[::11, "kind"] = None
    gaps.to_csv(folder / "gaps.csv", index=False)
    t = np.arange(120)
    series = pd.DataFrame({"day": pd.Timestamp("2021-01-01") + pd.to_timedelta(t, unit="D"), "level": np.sin(0.3 * t)})
    series["level"] += 0.01 * rng.normal(size=len(t))
    series.sample(frac=1, random_state=0).to_csv(folder / "series.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    path = folder / "model.json"
    assert (
        invoke("fit", folder / "table.csv", "-t", "y", "--drop", "label", "--method", "forward", "-o", path).exit_code
        == 0
    )
    return path


@pytest.fixture(scope="module")
def classifier(folder):
    path = folder / "classes.json"
    options = "--drop", "y", "--basis", "none", "-o", path
    assert invoke("fit", folder / "table.csv", "-t", "label", *options).exit_code == 0
    return path


# -- help --------------------------------------------------------------------------------------------------------------


def test_help_lists_commands_and_exit_codes():
    done = run("--help")
    assert done.returncode == 0
    for command in ("fit", "predict", "explain", "compare", "report", "export", "demo", "reproduce", "bench"):
        assert command in done.stdout
        own = invoke(command, "--help").output
        assert "Exit codes: 0 success" in own
    assert "130 interrupted" in done.stdout
    assert "termwise fit houses.csv --target price" in done.stdout


def test_help_imports_no_numpy():
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom termwise.cli import app\n"
        "assert 'fit' in CliRunner().invoke(app, ['--help']).output\n"
        "print([m for m in ('sklearn', 'numpy', 'pandas', 'scipy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.slow
def test_public_names_are_loaded_lazily():
    code = (
        "import sys, termwise\nassert 'sklearn' not in sys.modules\nassert 'BasisRidge' in dir(termwise)\n"
        "from termwise import *\nprint(BasisRidge.__name__, termwise.forward_path.__name__, hasattr(termwise, '_no'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["BasisRidge", "forward_path", "False"], done.stderr
    with pytest.raises(AttributeError, match="module 'termwise' has no attribute 'nothing'"):
        _ = termwise.nothing


def test_version():
    assert invoke("--version").output.strip() == f"termwise {termwise.__version__}"


# -- fit ---------------------------------------------------------------------------------------------------------------


def test_fit_output(folder, tmp_path):
    result = invoke("fit", folder / "table.csv", "--target", "y", "--drop", "label", "-o", tmp_path / "m.json",
                    "--report", tmp_path / "r.html", "--basis", "anova")  # fmt: skip
    assert result.exit_code == 0
    said = words(result)
    assert "120 rows, 3 inputs, regression of y" in said
    assert "kind is categorical, one-hot encoded: blue, red" in said
    assert "inputs are standardised inside the model" in said
    assert re.search(r"TermwiseRegressor: \d+ of \d+ terms \(pairs\), fitted to 120 rows", said)
    assert re.search(r"R2 0\.9\d\d \+- 0\.\d{3} \(5-fold cross-validation, selection repeated\)", said)
    assert "given the terms" in said
    assert "ridge" in said
    predictor = load_predictor(tmp_path / "m.json")
    assert predictor.facts["model"]["target"] == "y"
    assert "--basis anova --drop label -o" in predictor.facts["reproduce"]
    assert "<html" in (tmp_path / "r.html").read_text()


def test_fit_json(folder, tmp_path):
    done = run("fit", folder / "table.csv", "-t", "label", "--drop", "y", "--basis", "none", "--json", "-o", "m.json",
               cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["task"] == "classification"
    assert record["score"]["metric"] == "accuracy"
    assert record["score"] == record["scores"]["cross_validation"]
    assert record["model"] == "m.json"
    assert record["n_terms"] == len(record["terms"])
    assert [one["name"] for one in record["baselines"]] == ["mean", "ridge", "lasso"]
    assert "TermwiseClassifier" in done.stderr


def test_fit_quiet_and_without_output(folder):
    assert (
        invoke("fit", folder / "table.csv", "-t", "y", "--method", "forward", "--drop", "label", "--quiet").output == ""
    )
    result = invoke("fit", folder / "table.csv", "-t", "y", "--method", "forward", "--drop", "label", "--no-hold-out")
    assert "Nothing is saved: -o MODEL.json keeps the model." in result.output
    assert "held out" not in result.output
    assert "ridge" not in result.output


@pytest.mark.slow
def test_missing_values(folder, tmp_path):
    for basis in ("none", "smooth"):
        options = "--method", "forward", "--basis", basis, "-o", tmp_path / "m.json", "--force"
        result = invoke("fit", folder / "gaps.csv", "-t", "y", *options)
        assert result.exit_code == 0, result.output
        assert "a is missing in 14 rows, kept as missing" in words(result)
        result = invoke("predict", tmp_path / "m.json", folder / "gaps.csv")
        assert result.exit_code == 0, result.output
        assert len(result.stdout.split()) == 121
    (tmp_path / "m.json").unlink()
    result = invoke("fit", folder / "gaps.csv", "-t", "y", "--method", "forward", "--impute", "-o", tmp_path / "m.json")
    assert result.exit_code == 0, result.output
    assert "a is missing in 14 rows, imputed with " in words(result)
    result = invoke("predict", tmp_path / "m.json", folder / "gaps.csv")
    assert result.exit_code == 0
    assert len(result.stdout.split()) == 121


@pytest.mark.slow
def test_a_model_file_has_few_data(folder, tmp_path):
    path = tmp_path / "m.json"
    options = "fit", folder / "table.csv", "-t", "y", "--drop", "label", "--method", "ridge", "-f", "-o", path
    assert invoke(*options).exit_code == 0
    facts = load_predictor(path).facts
    assert facts["reproduce"] == "termwise fit table.csv --target y --method ridge --drop label -o m.json"
    assert list(facts["fit"]) == ["observed", "fitted", "loo"]
    assert facts["fit"]["fitted"][0] == sorted(facts["fit"]["fitted"][0])
    assert sorted(facts["fit"]["observed"][0]) == sorted(pd.read_csv(folder / "table.csv")["y"])
    assert str(folder) not in path.read_text()
    assert invoke("report", path, "-o", tmp_path / "r.html").exit_code == 0
    assert 'id="fit-plots"' in (tmp_path / "r.html").read_text()
    assert invoke(*options, "--no-samples").exit_code == 0
    assert "fit" not in load_predictor(path).facts
    assert invoke("report", path, "-o", tmp_path / "r.html").exit_code == 0
    assert 'id="fit-plots"' not in (tmp_path / "r.html").read_text()


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a\x1b[2J", "b\x9b31m"])
    table.assign(y=table.sum(axis=1)).to_csv(tmp_path / "t.csv", index=False)
    fit = invoke("fit", tmp_path / "t.csv", "-t", "y", "--method", "forward", "-o", tmp_path / "m.json")
    table.iloc[:, :1].to_csv(tmp_path / "new.csv", index=False)
    missing = invoke("predict", tmp_path / "m.json", tmp_path / "new.csv")
    assert (fit.exit_code, missing.exit_code) == (0, 1)
    assert r"a\x1b[2J" in fit.output
    assert r"b\x9b31m" in missing.output
    assert not any(text in fit.output + missing.output for text in ("\x1b[2J", "\x9b"))


def test_existing_model_is_replaced_only_with_force(folder, tmp_path):
    path = tmp_path / "m.json"
    path.write_text("precious")
    options = "fit", folder / "table.csv", "-t", "y", "--drop", "label", "--method", "ridge", "-o", path
    result = invoke(*options)
    assert result.exit_code == 1
    assert "m.json exists already: use --force to replace it, or give another name with -o." in words(result)
    assert path.read_text() == "precious"
    assert invoke(*options, "--force").exit_code == 0
    assert load_predictor(path).task == "regression"


def test_numeric_column_as_category(tmp_path):
    rng = np.random.default_rng(0)
    code = rng.integers(1, 4, 60)
    frame = pd.DataFrame({"code": code, "a": rng.normal(size=60), "y": np.where(code == 2, 5, 0) + rng.normal(size=60)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = "--category", "code", "--method", "forward", "--json", "-o", tmp_path / "m.json"
    record = json.loads(invoke("fit", tmp_path / "t.csv", "-t", "y", *options).stdout)
    assert [term["name"] for term in record["terms"]] == ["code=2"]
    frame.head(3).to_csv(tmp_path / "new.csv", index=False)
    assert invoke("predict", tmp_path / "m.json", tmp_path / "new.csv").exit_code == 0
    (tmp_path / "new.csv").write_text("code,a\n2,1\n7,1\n1,1\n")
    result = invoke("predict", tmp_path / "m.json", tmp_path / "new.csv")
    assert "1 of 3 rows with a category of code that the fit did not have: predicted without" in words(result)
    predicted = pd.read_csv(io.StringIO(result.stdout))["prediction"]
    assert predicted[1] == predicted[2] != predicted[0]  # the only term is that of code 2
    result = invoke("predict", tmp_path / "m.json", tmp_path / "new.csv", "--json")
    assert json.loads(result.stdout)["rows_unseen"] == {"code": 1}


@pytest.mark.slow
def test_a_table_as_people_have_them(tmp_path):
    """Identifiers, dates, many levels, a level called none, a word for missing values, one missing cell."""
    rng = np.random.default_rng(0)
    city, a, pool = rng.integers(30, size=150), rng.normal(size=150), rng.choice(["none", "good", "unknown"], 150)
    day = pd.date_range("2020-01-01", periods=150, freq="5D")
    y = a + rng.normal(size=30)[city] + 2 * (pool == "none") + (day.year == 2021) + 0.1 * rng.normal(size=150)
    frame = pd.DataFrame(
        {"rownames": np.arange(1, 151), "a": a, "city": [f"c{k}" for k in city], "pool": pool, "day": day}
    )
    frame.loc[7, "a"] = np.nan
    frame.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    options = "--method", "forward", "--basis", "anova", "--missing", "unknown", "-o", tmp_path / "m.json"
    result = invoke("fit", tmp_path / "t.csv", "-t", "y", *options)
    assert result.exit_code == 0, result.output
    for said in ("left out, identifiers: rownames", "city is categorical, with 30 levels", "a is missing in 1 row, k",
                 "pool is categorical, one-hot encoded: good, none", "day is a date, expanded"):  # fmt: skip
        assert said in words(result)
    names = load_predictor(tmp_path / "m.json").term_names
    assert "mean(city)" in " ".join(names)
    assert "pool=none" in " ".join(names)
    assert "(day)" in " ".join(names)
    new = frame.head(3).assign(city=["c1", "c999", None], pool=["none", None, "unknown"])
    new.to_csv(tmp_path / "new.csv", index=False)
    result = invoke("predict", tmp_path / "m.json", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert result.exit_code == 1
    assert "must have no missing values in city, as in the fit, got one in line 4: fill it in, or fit to" in words(
        result
    )
    new.fillna({"city": "c2"}).to_csv(tmp_path / "new.csv", index=False)
    result = invoke("predict", tmp_path / "m.json", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    assert "1 of 3 rows with a category of city that the fit did not have" in words(result)
    assert pd.read_csv(tmp_path / "out.csv")["prediction"].notna().all()
    assert invoke("report", tmp_path / "m.json", tmp_path / "t.csv", "-o", tmp_path / "r.html").exit_code == 0


METHODS = ["forward", "ridge", "local-ridge", "threshold", "evidence", "prefilter"]
BASES = ["auto", "none", "rbf", "smooth", "relevant", "anova", "fourier"]
COMBINATIONS = [
    pytest.param(method, basis, marks=[] if method == "forward" or basis == "auto" else [pytest.mark.exhaustive])
    for method in METHODS
    for basis in BASES
]


@pytest.mark.parametrize(("method", "basis"), COMBINATIONS)
def test_every_method_with_every_basis(folder, tmp_path, method, basis):
    target = ["-t", "label", "--drop", "y"] if method == "prefilter" else ["-t", "y", "--drop", "label"]
    result = invoke("fit", folder / "table.csv", *target, "--method", method, "--basis", basis, "--no-hold-out",
                    "-o", tmp_path / "m.json")  # fmt: skip
    if method == "prefilter" and basis in ("smooth", "relevant", "anova", "fourier"):
        assert result.exit_code == 2
        assert f"--method prefilter has no --basis {basis}: use auto or none." in words(result)
    else:
        assert result.exit_code == 0, result.output
        assert invoke("predict", tmp_path / "m.json", folder / "table.csv").exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [("-t y --method prefilter",
      "--method prefilter is a classifier, but the target is numbers: use --method auto"),
     ("-t label --method ridge",
      "--method ridge is a regressor, but the target is classes: use --method auto, forward"),
     ("-t label --basis lag",
      "--basis lag must have inputs of numbers, got text in kind: leave it out with --drop kind."),
     ("-t label --basis lag --drop kind", "--basis lag requires a target of numbers, got classes: leave it out."),
     ("-t y --basis rbf", "--method auto has no --basis rbf: use --method forward --basis rbf, or one of auto, none"),
     ("-t y --method ridge --size 3", "--method ridge cannot do --size 3: leave it out, or use --method auto."),
     ("-t y --method evidence --size small", "--method evidence cannot do --size small: give a number of terms"),
     ("-t y --size many", "--size must be readable, small, accurate or a number of terms, got many."),
     ("-t y --hold-out 1.5", "--hold-out must be between 0 and 1, got 1.5: leave it out to hold out none."),
     ("-t y --hold-out 0.2 --no-hold-out", "--hold-out 0.2 and --no-hold-out exclude each other: leave one out."),
     ("-t y --lags 3", "--lags requires --basis lag, got --basis auto: add --basis lag, or leave --lags out."),
     ("-t y --method forward --size readable",
      "--method forward and --basis lag have no --size readable: use accurate or a number of terms, or leave it out."),
     ("-t y --seed 99999999999", "4294967295"),
     ("-t y --method magic", "'magic' is not one of")],
)  # fmt: skip
def test_invalid_combinations_of_options(folder, options, message):
    result = invoke("fit", folder / "table.csv", *options.split(), *([] if "label" in options else ["--drop", "label"]))
    assert result.exit_code == (1 if "got text" in message else 2)
    assert message in words(result)


@pytest.mark.parametrize(
    "options",
    ["--method auto --basis none --size 2", "--method forward --size accurate", "--method forward --size 2",
     "--method evidence --size 2", "--method auto --basis none --size 200"],
)  # fmt: skip
def test_sizes(folder, options):
    result = invoke(
        "fit", folder / "table.csv", "-t", "y", "--drop", "label", "--json", "--no-hold-out", *options.split()
    )
    record = json.loads(result.stdout)
    assert record["n_terms"] == 2 or not options.endswith(" 2")


@pytest.mark.slow
def test_size_of_prefilter(folder):
    result = invoke("fit", folder / "table.csv", "-t", "label", "--drop", "y", "--method", "prefilter", "--size", "3",
                    "--json")  # fmt: skip
    assert json.loads(result.stdout)["n_terms"] <= 3


def test_few_rows_and_rare_classes(tmp_path):
    (tmp_path / "few.csv").write_text("a,b,y\n" + "\n".join(f"{i},{i * i % 7},{2 * i + 1}" for i in range(12)))
    result = invoke("fit", tmp_path / "few.csv", "-t", "y", "--method", "forward")
    assert result.exit_code == 0
    assert "not compared with baselines: fewer than 20 rows" in words(result)
    result = invoke("fit", tmp_path / "few.csv", "-t", "y", "--method", "forward", "--hold-out", "0.3")
    assert "no rows are held out: fewer than 20" in words(result)
    (tmp_path / "rare.csv").write_text(
        "a,y\n" + "\n".join(f"{i * 7 % 11},{'odd' if i == 29 else 'common'}" for i in range(30))
    )
    result = invoke("fit", tmp_path / "rare.csv", "-t", "y", "--method", "forward", "--seed", "1")
    assert result.exit_code == 0, result.output


def test_held_out_rows_leave_one_class(tmp_path):
    rows = "\n".join(f"{i},{i * 7 % 11},{'late' if i == 29 else 'early'}" for i in range(30))
    (tmp_path / "t.csv").write_text("t,a,y\n" + rows)
    options = "fit", tmp_path / "t.csv", "-t", "y", "--method", "forward", "--time", "t"
    assert "time series cross-validation, 5 folds of the last 15 samples" in words(invoke(*options))
    result = invoke(*options, "--hold-out", "0.2")
    assert "no rows are held out: the others would have one class" in words(result)


@pytest.mark.slow
def test_time_series(folder, tmp_path):
    path = tmp_path / "m.json"
    fitted = invoke(
        "fit", folder / "series.csv", "-t", "level", "--time", "day", "--basis", "lag", "--lags", "3", "-o", path
    )
    assert fitted.exit_code == 0, fitted.output
    assert "a time series: predicted from its last 3 values" in words(fitted)
    assert "level[t-1]" in fitted.output
    assert "rows are taken to be in the order of time" in words(
        invoke("fit", folder / "series.csv", "-t", "level", "--basis", "lag", "--lags", "3")
    )
    series = pd.read_csv(folder / "series.csv")
    one_step = pd.read_csv(io.StringIO(invoke("predict", path, folder / "series.csv").stdout))["prediction"]
    known = series["day"].rank() > 3
    assert np.abs(one_step - series["level"])[known].max() < 0.2
    assert invoke("export", path, "--simulation", "-o", tmp_path / "m.c").exit_code == 0
    assert "int model_step(model_state *state" in (tmp_path / "m.c").read_text()
    ends = series.assign(level=series["level"].where(series["day"].rank() <= 100))
    ends.to_csv(tmp_path / "ends.csv", index=False)
    forecast = pd.read_csv(io.StringIO(invoke("predict", path, tmp_path / "ends.csv").stdout))["prediction"]
    assert np.abs(forecast - series["level"])[series["day"].rank() > 100].max() < 0.5
    gap = series.assign(level=series["level"].where(series["day"].rank() != 50))
    gap.to_csv(tmp_path / "gap.csv", index=False)
    found = pd.read_csv(io.StringIO(invoke("predict", path, tmp_path / "gap.csv").stdout), skip_blank_lines=False)
    broken = found["prediction"].isna()
    assert sorted(series["day"].rank()[broken]) == [1, 2, 3, 51, 52, 53]  # the first have no past
    np.testing.assert_allclose(found["prediction"][~broken], one_step[~broken])
    refused = invoke("report", path, tmp_path / "gap.csv", "-o", tmp_path / "r.html")
    assert "must have level up to some time and not after, got one in line" in words(refused)
    series.assign(level=np.nan).to_csv(tmp_path / "none.csv", index=False)
    assert "must have past values of level, got none: add them." in words(
        invoke("predict", path, tmp_path / "none.csv")
    )
    options = "-t", "level", "--time", "day", "--basis", "lag", "--lags", "3"
    accepted = words(invoke("fit", tmp_path / "gap.csv", *options))
    assert "1 row with a missing value: lags do not reach across, 113 rows have a complete past" in accepted
    assert "fitted to 113 rows" in accepted
    most = invoke("fit", folder / "series.csv", "-t", "level", "--basis", "lag", "--lags", "40", "--hold-out", "0.5")
    assert "no rows are held out: the others would be fewer than twice the 40 lags" in words(most)
    short = invoke("fit", folder / "series.csv", "-t", "level", "--basis", "lag", "--lags", "50")
    assert "--lags must be at most a third of the 120 rows, got 50: use --lags 40." in words(short)


def test_time_series_is_scored_in_order(folder, tmp_path):
    path = tmp_path / "m.json"
    invoke("fit", folder / "series.csv", "-t", "level", "--time", "day", "--basis", "lag", "--lags", 4, "-o", path)
    series = pd.read_csv(folder / "series.csv")
    series.assign(level=series["level"].where(series["day"].rank() <= 100)).to_csv(tmp_path / "part.csv", index=False)
    page = invoke("report", path, tmp_path / "part.csv", "-o", tmp_path / "r.html", "--json")
    assert json.loads(page.stdout)["rows"] == 100
    said = re.search(
        r"R2 (\S+) against", words(invoke("predict", path, folder / "series.csv", "-o", tmp_path / "p.csv"))
    )
    assert float(said[1]) > 0.99  # without the rows that have no past


def test_time_series_is_compared_with_persistence_and_simulated(tmp_path):
    """The scores on held-out rows are those of `NarxRegressor` with the same candidates."""
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=200), np.zeros(200)
    for t in range(1, 200):
        y[t] = 0.8 * y[t - 1] + u[t - 1] + 0.1 * rng.normal()
    y[60] = u[120] = np.nan
    pd.DataFrame({"u": u, "y": y}).to_csv(tmp_path / "gaps.csv", index=False)
    options = "-t", "y", "--basis", "lag", "--lags", "2", "--hold-out", "0.25", "--json"
    record = json.loads(invoke("fit", tmp_path / "gaps.csv", *options).stdout)
    model = NarxRegressor(2, basis=None, alpha=1e-6, refit_alpha="loo").fit(u[:150, None], y[:150])
    assert record["n_terms"] == model.n_terms_
    assert record["score"]["value"] == pytest.approx(model.one_step_score(u[148:, None], y[148:]), rel=1e-6)
    assert record["score"]["free_run_r2"] == pytest.approx(model.free_run_score(u[148:, None], y[148:]), rel=1e-6)
    free = model.simulate(u[148:, None], y[148:150])[2:]
    assert record["score"]["free_run_rmse"] == pytest.approx(np.sqrt(np.mean((y[150:] - free) ** 2)), rel=1e-6)
    last = record["baselines"][0]
    assert last["name"] == "persistence"
    assert last["value"] == pytest.approx(r2_score(y[150:], y[149:-1]))
    said = words(invoke("fit", tmp_path / "gaps.csv", *options[:-1]))
    assert re.search(r"free run: R2 0\.\d+, root mean squared error of the free run 0\.\d+", said)
    assert "persistence, the last value" in said


@pytest.mark.slow
def test_time_series_with_missing_inputs(folder, tmp_path):
    series = pd.read_csv(folder / "series.csv").assign(wind=np.arange(120.0) % 7)
    series.loc[::11, "wind"] = np.nan
    series.to_csv(tmp_path / "t.csv", index=False)
    options = "--time", "day", "--basis", "lag", "--lags", 4, "--impute", "-o", tmp_path / "m.json"
    result = invoke("fit", tmp_path / "t.csv", "-t", "level", *options)
    assert "wind is missing in 11 rows, imputed with 3" in words(result)
    assert "(time series cross-validation, 5 folds of the last 55 samples, selection repeated)" in words(result)
    result = invoke("fit", tmp_path / "t.csv", "-t", "level", *options, "--force", "--hold-out", "0.2")
    assert "(on the last 24 rows, held out)" in words(result)
    assert invoke("predict", tmp_path / "m.json", tmp_path / "t.csv").exit_code == 0


# -- awkward files -----------------------------------------------------------------------------------------------------


AWKWARD = [
    ("empty", "", 1, "is empty"),
    ("names only", "a,y\n", 1, "has column names but no rows"),
    ("one row", "a,y\n1,2\n", 1, "must have at least 5 rows with a target, got 1"),
    ("one column", "y\n" + "1\n2\n3\n" * 4, 1, "must have a column to predict from (the target is the only one)"),
    ("a class called NA", "a,y\n" + "1,NA\n2,yes\n" * 9, 1, "got yes in 9 rows and missing values in 9: if a class is"),
    ("no such target", "a,Y1\n1,2\n", 1, "has no column y: did you mean Y1?"),
    ("stray text", "a,y\n" + "1,2\n" * 9 + "2 kg,3\n", 1, "'2 kg' in line 11 is not a number"),
    ("constant", "a,y\n" + "1,2\n1,3\n" * 9, 1, "left out, the same in all rows: a"),
    ("infinite", "a,y\ninf,1\n" + "1,2\n2,3\n" * 9, 1, "got inf in line 2: correct it, use other units"),
    ("huge", "a,y\n1e300,1\n" + "1,2\n2,3\n" * 9, 1, "got 1e+300 in line 2"),
    ("ragged", "a,y\n1,2,3\n1,2\n", 1, "must have 2 fields in each row"),
    ("semicolons", "a;y\n" + "1,5;2\n2,25;4\n3,5;5,5\n" * 9, 0, "numbers are written with decimal commas"),
    ("byte order mark", "\ufeffa,y\n" + "1,2\n2,3\n4,4\n" * 9, 0, "regression of y"),
    ("missing targets", "a,y\n" + "1,2\n2,\n4,4\n5,7\n" * 9, 0, "left out, no value of y: 9 rows"),
    ("per cent", "a,y\n" + "1%,$2\n2%,$3\n4%,$4\n" * 9, 0, "a is written with %, which is left out"),
    ("large numbers", "a,y\n" + "1e60,2e60\n2e60,3e60\n4e60,5e60\n" * 9, 0, "regression of y"),
    ("exact", "a,y\n" + "".join(f"{i},{3 * i}\n" for i in range(30)), 0, "a counts the rows: --drop a unless"),
    ("three classes", "a,y\n" + "".join(f"{i * 5 % 17},{'uvw'[i % 3]}\n" for i in range(30)), 0, "classification of y"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "code", "message"), [a[1:] for a in AWKWARD], ids=[a[0] for a in AWKWARD])
def test_awkward_files(tmp_path, content, code, message):
    path = tmp_path / "t.csv"
    path.write_text(content, encoding="utf-8")
    result = invoke("fit", path, "-t", "y", "--method", "forward", "-o", tmp_path / "m.json")
    assert result.exit_code == code, result.output
    assert message in words(result)
    assert (tmp_path / "m.json").exists() == (code == 0)
    assert {each.name for each in tmp_path.iterdir()} <= {"t.csv", "m.json"}


def test_invalid_paths(folder, tmp_path, model, monkeypatch):
    assert "got a folder" in words(invoke("fit", folder, "-t", "y"))
    assert "does not exist" in words(invoke("fit", folder / "nowhere.csv", "-t", "y"))
    assert "has no column nowhere" in words(invoke("fit", folder / "table.csv", "-t", "y", "--category", "nowhere"))
    for path, problem in ((folder / "nowhere.json", "does not exist"), (folder, "is a folder")):
        printed = words(invoke("predict", path, folder / "table.csv"))
        assert f"{problem}: give the model file that `termwise fit -o` wrote." in printed
    assert "could not be read" in words(invoke("predict", folder / "table.csv", folder / "table.csv"))
    result = invoke("fit", folder / "table.csv", "-t", "y", "-o", tmp_path / "no" / "m.json")
    assert "must be in a folder that exists" in words(result)
    assert "must be a file to write, got a folder: add a name." in words(invoke("report", model, "-o", tmp_path))
    assert "is an input: give another name with -o." in words(invoke("export", model, "--to", "json", "-o", model))
    result = invoke("predict", model, folder / "table.csv", "-o", folder / "table.csv")
    assert "is an input" in words(result)

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    result = invoke("fit", folder / "table.csv", "-t", "y", "-o", tmp_path / "m.json")
    assert "m.json cannot be written there (Permission denied): choose another folder." in words(result)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.lists(st.sampled_from(["1", "2", "3.5", "-1", "x", "y", "", "NA", "1,5", '"q"']), min_size=2, max_size=3),
        min_size=5,
        max_size=25,
    ),
    st.sampled_from([",", ";"]),
)
def test_no_traceback_on_arbitrary_tables(tmp_path_factory, rows, delimiter):
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_text(delimiter.join("aby") + "\n" + "\n".join(delimiter.join(row) for row in rows))
    for target in "ab":
        result = invoke("fit", path, "-t", target, "--method", "forward", "--impute")
        assert result.exit_code in (0, 1)


# -- predict, report, export -------------------------------------------------------------------------------------------


def test_predict(folder, model, tmp_path):
    expected = load_predictor(model).predict(pd.read_csv(folder / "table.csv"))
    printed = invoke("predict", model, folder / "table.csv")
    assert np.allclose(pd.read_csv(io.StringIO(printed.stdout))["prediction"], expected)
    assert re.search(r"120 predictions; R2 0\.\d+ against the table", printed.stderr)
    record = json.loads(invoke("predict", model, folder / "table.csv", "--json").stdout)
    assert np.allclose(record["prediction"], expected)
    for name in ("p.csv", "p.parquet", "p.npz"):
        result = invoke("predict", model, folder / "table.csv", "-o", tmp_path / name)
        assert f"120 predictions in {tmp_path / name}" in result.output
    assert np.allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], expected)
    assert np.allclose(pd.read_parquet(tmp_path / "p.parquet")["prediction"], expected)
    assert np.allclose(np.load(tmp_path / "p.npz")["prediction"], expected)
    result = invoke("predict", model, folder / "table.csv", "-o", tmp_path / "p.xls")
    assert result.exit_code == 2
    assert "-o must end in one of .csv, .parquet, .npz, got p.xls." in words(result)


def test_predict_tells_what_was_clipped(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-1, 1, size=(150, 3)), columns=["a", "b", "c"])
    model = ForwardRegressor(AnovaBasis(), max_terms=1, criterion=None).fit(table, table["a"] * table["b"])
    model.predictor_.save(tmp_path / "model.json")
    table.loc[3:5, "b"], table.loc[5, "a"], table.loc[9, "c"] = 7.0, -7.0, 7.0
    table.to_csv(tmp_path / "new.csv", index=False)
    printed = invoke("predict", tmp_path / "model.json", tmp_path / "new.csv")
    assert "3 of 150 rows outside the range of the training data in a, b: terms were evaluated at the" in words(printed)
    record = json.loads(invoke("predict", tmp_path / "model.json", tmp_path / "new.csv", "--json").stdout)
    assert record["rows_clipped"] == 3
    assert record["inputs_clipped"] == ["a", "b"]


@pytest.mark.slow
def test_predict_classes(folder, classifier):
    printed = invoke("predict", classifier, folder / "table.csv", "--proba")
    table = pd.read_csv(io.StringIO(printed.stdout))
    assert list(table.columns) == ["prediction", "probability of high", "probability of low"]
    assert np.allclose(table.iloc[:, 1:].sum(axis=1), 1)
    assert "agree with the table" in printed.stderr


def test_other_labels_are_not_compared_with_the_classes(folder, classifier, tmp_path):
    pd.read_csv(folder / "table.csv").assign(label="unknown").to_csv(tmp_path / "new.csv", index=False)
    printed = words(invoke("predict", classifier, tmp_path / "new.csv"))
    assert "not compared with the table, whose label has none of the classes of the fit" in printed


@pytest.fixture(scope="module")
def automatic(folder):
    path = folder / "automatic.json"
    options = "--drop", "label", "--basis", "anova", "--size", "4", "--no-hold-out", "-o", path
    assert invoke("fit", folder / "table.csv", "-t", "y", *options).exit_code == 0
    return path


@pytest.fixture
def new_rows(folder, tmp_path):
    """Five rows with identifiers, one out of range, one of an unknown level."""
    new = pd.read_csv(folder / "table.csv").drop(columns=["y", "label"]).head(5)
    new.insert(0, "id", ["007", "008", "009", "010", "011"])
    new["note"] = ["x", None, "y", "z", "x"]
    new["rank"] = [1, 2, 3, 4, 5]
    new.loc[1, "a"], new.loc[3, "kind"] = 1e3, "green"
    new.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


def test_predict_keeps_columns_and_adds_intervals_and_details(automatic, new_rows, tmp_path):
    options = "--id", "id", "--keep", "note", "--keep", "rank", "--interval", "0.8", "--details"
    printed = invoke("predict", automatic, new_rows, *options)
    assert printed.exit_code == 0, printed.output
    told = (
        "with a category of kind that the fit did not have: predicted without an effect of it (green); first in line 5"
    )
    assert f"1 of 5 rows {told}" in words(printed)
    assert re.search(r"1 of 5 rows outside the range of the training data in a: .*; first in line 3", words(printed))
    found = pd.read_csv(io.StringIO(printed.stdout), dtype={"id": str})
    assert list(found.columns) == ["id", "note", "rank", "prediction", "lower", "upper", "outside range",
                                   "unseen levels"]  # fmt: skip
    assert found["id"].tolist() == ["007", "008", "009", "010", "011"]
    assert found["rank"].tolist() == [1, 2, 3, 4, 5]
    assert found["note"].isna().tolist() == [False, True, False, False, False]
    assert found["outside range"].fillna("").tolist() == ["", "a", "", "", ""]
    assert found["unseen levels"].fillna("").tolist() == ["", "", "", "kind", ""]
    known = pd.read_csv(new_rows).drop(index=3)
    lower, upper = load_predictor(automatic).predict_interval(known, coverage=0.8)
    assert np.allclose(found[["lower", "upper"]].drop(index=3), np.column_stack([lower, upper]))
    record = json.loads(invoke("predict", automatic, new_rows, *options, "--json").stdout)
    assert record["rows_unseen"] == {"kind": 1}
    assert record["note"][1] is None
    assert record["rows_clipped"] + record["rows_extrapolated"] == 1
    for name in ("p.npz", "p.parquet"):
        assert invoke("predict", automatic, new_rows, *options, "-o", tmp_path / name).exit_code == 0
    assert np.load(tmp_path / "p.npz")["note"].tolist() == ["x", "", "y", "z", "x"]
    assert pd.read_parquet(tmp_path / "p.parquet")["id"].tolist() == found["id"].tolist()


def test_columns_of_any_name_are_kept(model, folder, tmp_path):
    """Also those that are parameters of np.savez."""
    names = ["file", "allow_pickle", "a/b", "größe"]
    new = pd.read_csv(folder / "table.csv").head(3).assign(**{name: [name, "", "z"] for name in names})
    new.to_csv(tmp_path / "new.csv", index=False)
    keep = [part for name in names for part in ("--keep", name)]
    assert invoke("predict", model, tmp_path / "new.csv", *keep, "-o", tmp_path / "p.npz").exit_code == 0
    with np.load(tmp_path / "p.npz") as found:
        assert found.files == [*names, "prediction"]
        assert all(found[name].tolist() == [name, "", "z"] for name in names)


@pytest.mark.slow
def test_linear_terms_are_extrapolated_and_this_is_told(folder, model, tmp_path):
    new = pd.read_csv(folder / "table.csv").head(4)
    new.loc[2, "b"] = -1e3
    new.to_csv(tmp_path / "new.csv", index=False)
    record = json.loads(invoke("predict", model, tmp_path / "new.csv", "--json", "--details").stdout)
    assert (record["rows_extrapolated"], record["inputs_extrapolated"]) == (1, ["b"])
    assert record["outside range"] == ["", "", "b", ""]
    printed = invoke("predict", model, tmp_path / "new.csv")
    assert "1 of 4 rows outside the range of the training data in b: linear terms were extrapolated" in words(printed)


def test_predict_options_that_do_not_fit(folder, automatic, model, classifier, new_rows):
    result = invoke("predict", classifier, folder / "table.csv", "--interval", "0.9")
    assert result.exit_code == 2
    assert "--interval requires a regression of --method auto, which has the models of its folds" in words(result)
    result = invoke("predict", automatic, new_rows, "--interval", "90")
    assert result.exit_code == 2
    assert "--interval must be between 0 and 1, got 90: 0.9 gives 90 % intervals." in words(result)
    assert "has no column nothing" in words(invoke("predict", automatic, new_rows, "--id", "nothing"))
    table = pd.read_csv(new_rows).rename(columns={"id": "upper"})
    table.to_csv(new_rows, index=False)
    result = invoke("predict", automatic, new_rows, "--id", "upper")
    assert "upper cannot be kept, since it is the name of a result: rename the column." in words(result)


def test_explain(folder, automatic, classifier, new_rows, tmp_path):
    printed = invoke("explain", automatic, new_rows, "--id", "id")
    assert printed.exit_code == 0, printed.output
    assert "prediction = base + the sum of the effects, for 5 rows" in words(printed)
    assert "predicted without an effect of it (green)" in words(printed)
    found = pd.read_csv(io.StringIO(printed.stdout), dtype={"id": str})
    assert list(found.columns[:3]) == ["id", "prediction", "base"]
    effects = [name for name in found if name.startswith("effect of ")]
    assert "effect of a" in effects
    assert np.allclose(found["base"] + found[effects].sum(axis=1), found["prediction"], rtol=1e-6)
    record = json.loads(invoke("explain", classifier, folder / "table.csv", "--json").stdout)
    scores = load_predictor(classifier).decision_function(pd.read_csv(folder / "table.csv"))
    total = sum(np.array(values) for name, values in record.items() if name.startswith("effect of "))
    assert np.allclose(np.array(record["base"]) + total, scores, rtol=1e-6)
    assert invoke("explain", automatic, new_rows, "-o", tmp_path / "why.csv").exit_code == 0
    assert len(pd.read_csv(tmp_path / "why.csv")) == 5
    result = invoke("explain", automatic, new_rows, "-o", tmp_path / "why.xls")
    assert "-o must end in one of .csv, .parquet, .npz, got why.xls." in words(result)


@pytest.mark.slow
def test_terms_that_add_up_to_logarithms(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"rooms": rng.integers(1, 9, 300), "area": rng.uniform(30, 200, 300)})
    table["visits"] = rng.poisson(np.exp(0.01 * table["area"] + 0.2 * table["rooms"]))
    table.to_csv(tmp_path / "houses.csv", index=False)
    options = "-t", "visits", "--loss", "poisson", "--no-hold-out", "-o", tmp_path / "m.json", "--report"
    said = words(invoke("fit", tmp_path / "houses.csv", *options, tmp_path / "m.html"))
    assert "the terms add up to the logarithm of the prediction" in said
    assert "The terms add up to the logarithm of the prediction." in (tmp_path / "m.html").read_text(encoding="utf-8")
    printed = invoke("explain", tmp_path / "m.json", tmp_path / "houses.csv")
    assert "logarithm of the prediction = base + the sum of the effects, for 300 rows" in words(printed)
    found = pd.read_csv(io.StringIO(printed.stdout))
    total = found["base"] + found.filter(like="effect of ").sum(axis=1)
    assert np.allclose(np.exp(total), found["prediction"])


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_rows_at_the_limits_of_predictions_and_several_outputs(n_outputs, tmp_path):
    fitted, new = (pd.DataFrame(table, columns=["a", "b"]) for table in (EQUAL, CORNERS))
    targets = PRODUCT if n_outputs == 1 else np.column_stack([PRODUCT, -2 * PRODUCT])
    estimator = TermwiseRegressor(2, dictionary="pairs", target="data").fit(fitted, targets)
    model, rows = tmp_path / "model.json", tmp_path / "new.csv"
    estimator.predictor_.save(model)
    new.to_csv(rows, index=False)
    expected = estimator.predict(new).reshape(len(new), -1)
    limited = np.isin(expected, estimator.predictor_.limits).any(axis=1)
    assert 0 < limited.sum() < len(new)
    printed = invoke("predict", model, rows, "--keep", "a")
    assert f"{limited.sum()} of 24 rows predicted at a limit, which the sum of the terms is beyond" in words(printed)
    found, names = pd.read_csv(io.StringIO(printed.stdout)), ["prediction", "lower", "upper"]
    if n_outputs == 2:
        names = ["prediction_1", "prediction_2", "lower_1", "lower_2", "upper_1", "upper_2"]
    assert list(found) == ["a", *names[:n_outputs]]
    np.testing.assert_allclose(found[names[:n_outputs]], expected)
    record = json.loads(invoke("predict", model, rows, "--interval", "0.8", "--json").stdout)
    assert record["rows_limited"] == limited.sum()
    ends = np.hstack([end.reshape(len(new), -1) for end in estimator.predict_interval(new, coverage=0.8)])
    np.testing.assert_allclose(np.transpose([record[name] for name in names]), np.hstack([expected, ends]))
    result = invoke("explain", model, rows, "--json")
    if n_outputs == 1:
        assert json.loads(result.stdout)["rows_limited"] == limited.sum()
        assert f"clipped to limits in {limited.sum()} rows" in words(invoke("explain", model, rows))
    else:
        assert result.exit_code == 1
        assert "must have one output to be explained, got 2: " in words(result)
        assert "use termwise.diagnostics.contributions in Python." in words(result)
        new.rename(columns={"a": "lower_2"}).assign(a=new["a"]).to_csv(rows, index=False)
        result = invoke("predict", model, rows, "--keep", "lower_2", "--interval", "0.8")
        assert "lower_2 cannot be kept, since it is the name of a result" in words(result)


def test_explain_needs_independent_rows(folder, tmp_path):
    options = "--time", "day", "--basis", "lag", "--lags", "3", "--no-hold-out", "-o", tmp_path / "s.json"
    assert invoke("fit", folder / "series.csv", "-t", "level", *options).exit_code == 0
    result = invoke("explain", tmp_path / "s.json", folder / "series.csv")
    assert result.exit_code == 2
    assert "termwise explain requires a model of independent rows, got one of a time series" in words(result)


@pytest.mark.slow
def test_fit_prints_effects_and_scores_of_probabilities(folder, tmp_path):
    result = invoke("fit", folder / "table.csv", "-t", "label", "--drop", "y", "--basis", "anova", "--size", "6")
    said = words(result)
    assert "effects: terms grouped by their inputs" in said
    assert re.search(r"inputs terms share of the variance .* a \d+ \d+\.\d%", said)
    assert re.search(r"log loss 0\.\d+, AUC 0\.\d+, calibration slope \S+, expected calibration error 0\.\d+", said)
    assert "confusion matrix of out-of-fold predictions" in said
    assert "predicted high predicted low" in said


def test_fit_and_report_of_counts(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 60))
    pd.DataFrame({"a": a, "b": b, "y": rng.poisson(np.exp(0.7 * a))}).to_csv(tmp_path / "t.csv", index=False)
    options = "--loss", "poisson", "--size", "readable", "--basis", "none", "--task", "regression"
    result = invoke("fit", tmp_path / "t.csv", "-t", "y", *options, "-o", tmp_path / "m.json")
    assert "TermwiseRegressor" in words(result)
    assert invoke("report", tmp_path / "m.json", tmp_path / "t.csv", "-o", tmp_path / "r.html").exit_code == 0
    assert '"error_name":"deviance"' in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_probabilities_require_a_classifier(folder, model):
    result = invoke("predict", model, folder / "table.csv", "--proba")
    assert result.exit_code == 2
    assert "--proba requires a classifier with probabilities, as of --method auto" in words(result)


def test_predict_with_a_missing_column(tmp_path, model):
    (tmp_path / "t.csv").write_text("a,kind\n1,red\n")
    result = invoke("predict", model, tmp_path / "t.csv")
    assert result.exit_code == 1
    assert "has no column b" in words(result)


def test_report(folder, model, classifier, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("typer.launch", opened.append)
    assert invoke("report", model, "-o", tmp_path / "r.html", "--open").exit_code == 0
    assert opened == [str(tmp_path / "r.html")]
    record = json.loads(invoke("report", model, folder / "table.csv", "-o", tmp_path / "r.html", "--json").stdout)
    assert record["rows"] == 120
    assert invoke("report", classifier, folder / "table.csv", "-o", tmp_path / "c.html").exit_code == 0
    (tmp_path / "t.csv").write_text("a,b,kind\n1,2,red\n")
    result = invoke("report", model, tmp_path / "t.csv", "-o", tmp_path / "r.html")
    assert "must have the target y, to compare predictions with: add it, or leave the table out." in words(result)
    (tmp_path / "t.csv").write_text("a,b,kind,y\n1,2,red,u\n")
    result = invoke("report", model, tmp_path / "t.csv", "-o", tmp_path / "r.html")
    assert "must hold numbers in the target y, as in the fit: correct it." in words(result)
    (tmp_path / "t.csv").write_text("a,b,kind,label\n1,2,red,high\n1,2,red,highest\n")
    result = invoke("report", classifier, tmp_path / "t.csv", "-o", tmp_path / "r.html")
    assert "must hold known classes in the target label, got 'highest' in line 3: the fit had high, low." in words(
        result
    )
    assert "50.0% agree" in words(invoke("predict", classifier, tmp_path / "t.csv", "-o", tmp_path / "p.csv"))


def test_dictionaries_with_an_option_are_choices_of_the_basis():
    assert set(OPTIONS) <= set(BasisName)
    options = FitOptions(Path("table.csv"), "y", method="forward", basis="deep")
    with pytest.raises(UsageError, match="--method forward has no --basis deep: use --method auto, or another basis"):
        make_basis(options, pd.DataFrame({"a": [1.0, 2.0]}))


def test_export(model, tmp_path):
    for language, name in (("c", "m.c"), ("python", "m.py"), ("json", "m.json")):
        result = invoke("export", model, "--to", language, "-o", tmp_path / name)
        assert result.exit_code == 0, result.output
        assert (tmp_path / name).stat().st_size > 100
    record = json.loads(invoke("export", model, "-o", tmp_path / "n.py", "--json").stdout)
    assert record["bytes"] == (tmp_path / "n.py").stat().st_size
    assert record["header"] is None
    for options in ([], ["--to", "c"]):
        result = invoke("export", model, *options, "-o", tmp_path / "n.c")
        assert f"the header {tmp_path / 'n.h'} declares its functions" in words(result)
    assert "header" not in words(invoke("export", model, "--to", "c", "-o", tmp_path / "n.txt"))
    for options in (
        ["-o", "m.tex"],
        ["-o", "m.sympy.py"],
        ["--format", "latex", "-o", "m.txt"],
        ["--gradient", "-o", "g.c"],
        ["-o", "m.sql", "--table", "my table", "--keep", "id"],
    ):
        assert invoke("export", model, *(tmp_path / one if "." in one else one for one in options)).exit_code == 0
    assert (tmp_path / "m.txt").read_text() == (tmp_path / "m.tex").read_text()
    assert "import sympy" in (tmp_path / "m.sympy.py").read_text()
    assert "int model_gradient(" in (tmp_path / "g.c").read_text()
    query = (tmp_path / "m.sql").read_text()
    assert 'FROM "my table" AS t' in query
    assert '    "id",\n' in query
    result = invoke("export", model, "--gradient", "-o", tmp_path / "m.sql")
    assert "gradient is no option of an export to sql, which has table, keep, order_by, view" in words(result)
    result = invoke("export", model, "-o", tmp_path / "m.zip")
    assert result.exit_code == 1
    assert "to must be one of" in words(result)


@pytest.mark.exhaustive
def test_demo(tmp_path):
    result = invoke("demo", "--folder", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    files = {path.name for path in (tmp_path / "demo").iterdir()}
    assert files == {"measured.csv", "new.csv", "predictions.csv", "model.json", "model.c", "model.h", "report.html"}
    assert "$ termwise fit" in result.output
    found = re.findall(r"^ +(x\d+) ", result.output.split("Effects of the inputs in the model")[1], flags=re.MULTILINE)
    assert set(found[:5]) == {"x1", "x2", "x3", "x4", "x5"}
    assert f"Open {tmp_path / 'demo' / 'report.html'}" in words(result)
    assert len(pd.read_csv(tmp_path / "demo" / "predictions.csv")) == 100


@pytest.mark.exhaustive
def test_terminal_that_cannot_encode_names(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"größe": rng.normal(size=60), "b": rng.normal(size=60)})
    table.assign(y=table["größe"] * 2).to_csv(tmp_path / "t.csv", index=False)
    command = [
        sys.executable,
        "-m",
        "termwise",
        "fit",
        "t.csv",
        "--target",
        "y",
        "--method",
        "forward",
        "--no-hold-out",
    ]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True).stdout
    assert b"gr??e" in shown or b"gr?e" in shown
    asked = subprocess.run([*command, "--json"], cwd=tmp_path, env=environment, capture_output=True, check=True).stdout
    assert json.loads(asked)["terms"][0]["name"] == "größe"


# -- exit codes and progress -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_interrupted_fit_leaves_no_files(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(3000, 12)), columns=[f"c{j}" for j in range(12)])
    frame["y"] = np.sin(frame.c0 * frame.c1) + frame.c2
    frame.round(4).to_csv(tmp_path / "t.csv", index=False)
    # What a shell starts in the background ignores the signal, and its children inherit that.
    heed = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    run = f"{heed}; runpy.run_module('termwise', run_name='__main__', alter_sys=True)"
    command = [sys.executable, "-c", run, "fit", "t.csv", "-t", "y", "-o", "m.json", "--report", "r.html"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()  # the table is read: the fit begins
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted; no partly written file is left" in errors
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


LOST_INTERRUPT = """
import signal, time
from termwise.cli.console import handle_errors

class Finalised:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def ignored():
    Finalised()
    for _ in range(3000):
        time.sleep(0.01)

def turned_into_another_error():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("no valid buffer") from None

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    handle_errors(COMMAND)()
except Exception as caught:
    raise SystemExit(caught.exit_code)
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["ignored", "turned_into_another_error"])
def test_interrupts_are_not_lost(command):
    code = LOST_INTERRUPT.replace("COMMAND", command)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert done.returncode == 130
    assert done.stderr == "termwise: interrupted; no partly written file is left\n"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no `head` to close the pipe early")
def test_broken_pipe_is_silent(tmp_path, model, folder):
    table = pd.concat([pd.read_csv(folder / "table.csv")] * 200)
    table.to_csv(tmp_path / "t.csv", index=False)
    command = f"{sys.executable} -m termwise predict {model} {tmp_path / 't.csv'} --quiet | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout == "prediction\n"
    assert done.stderr == ""


def test_errors_become_exit_codes(capsys):
    def ending(error):
        def command():
            raise error

        try:
            handle_errors(command)()
        except BaseException as caught:
            return getattr(caught, "exit_code", caught), capsys.readouterr().err

    assert ending(ValueError("no good")) == (1, "termwise: no good\n")
    assert ending(MemoryError()) == (1, "termwise: MemoryError\n")
    assert ending(UsageError("no sense")) == (2, "termwise: no sense\n")
    assert ending(KeyboardInterrupt())[0] == 130
    broken = BrokenPipeError()
    assert ending(broken) == (broken, "")
    bug = KeyError("a mistake of ours")
    assert ending(bug) == (bug, "")


def test_warnings_become_notes():
    notes = []
    with Console(quiet=True).step("working", notes=notes):
        warnings.warn("mind the gap", stacklevel=1)
        warnings.warn("soon gone", FutureWarning, stacklevel=1)
    assert notes == ["mind the gap"]


def test_progress_counts_steps():
    counts = []
    counter = StepCounter(counts.append)
    counter.setup(None, None)
    counter.on_fit_task_begin(None, None)
    assert counter.on_fit_task_end(None, None) is False
    counter.on_fit_task_end(None, None)
    counter.teardown(None, None)
    assert counts == [1, 2]

    class Stepped:
        def set_callbacks(self, callback):
            callback.on_fit_task_end(None, None)

    with Console(quiet=True).step("working", Stepped()):
        pass


@pytest.mark.slow
def test_model_without_terms(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i * 7 % 11},{i * i % 13}\n" for i in range(40)))
    path = tmp_path / "m.json"
    result = invoke("fit", tmp_path / "t.csv", "-t", "y", "--method", "forward", "-o", path)
    assert "none: the model is the mean" in result.output
    assert len(invoke("predict", path, tmp_path / "t.csv").stdout.split()) == 41
    assert invoke("report", path, tmp_path / "t.csv", "-o", tmp_path / "r.html").exit_code == 0


def test_model_saved_from_python(tmp_path, folder):
    """It has no metadata of the command line, and predicts all the same."""
    frame = pd.read_csv(folder / "table.csv")
    path = tmp_path / "m.json"
    termwise.BasisRidge().fit(frame[["a", "b"]], frame["y"]).predictor_.save(path)
    result = invoke("predict", path, folder / "table.csv")
    assert result.exit_code == 0
    assert "against the table" not in result.output


def test_whole_numbers_as_classes_are_compared_with_the_table(tmp_path):
    rows = "".join(f"{i * 7 % 11},{int(i * 7 % 11 > 5)}\n" for i in range(40))
    (tmp_path / "t.csv").write_text("a,y\n" + rows)
    options = "--method", "forward", "--no-hold-out", "-o", tmp_path / "m.json"
    assert invoke("fit", tmp_path / "t.csv", "-t", "y", *options).exit_code == 0
    assert re.search(r"40 predictions; \S+% agree with the table", words(invoke("predict", tmp_path / "m.json",
                                                                                tmp_path / "t.csv")))  # fmt: skip


@pytest.mark.slow
def test_rows_in_the_order_of_time_have_no_score_of_random_folds(tmp_path):
    walk = np.cumsum(np.random.default_rng(0).normal(size=40))
    table = pd.DataFrame({"t": np.arange(40), "a": walk.round(3), "y": (walk + 0.1).round(2)})
    for n, options in ((40, ["--no-hold-out"]), (18, [])):
        table.head(n).to_csv(tmp_path / "walk.csv", index=False)
        common = "-t", "y", "--basis", "none", "--size", "1", "-f", "-o", tmp_path / "m.json", "--json"
        record = json.loads(invoke("fit", tmp_path / "walk.csv", *common, "--time", "t", *options).stdout)
        assert record["score"] is record["scores"]["cross_validation"] is None
        assert load_predictor(tmp_path / "m.json").facts["scores"]["cross_validation"] is None
    assert json.loads(invoke("fit", tmp_path / "walk.csv", *common, "--drop", "t").stdout)["score"] is not None


def test_numbers_of_two_meanings_are_read_as_in_the_fit(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.uniform(1, 9, 40).round(3)}).assign(y=lambda frame: 2 * frame["a"])
    table.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    options = "--method", "forward", "--no-hold-out", "-o", tmp_path / "m.json"
    assert invoke("fit", tmp_path / "t.csv", "-t", "y", *options).exit_code == 0
    (tmp_path / "new.csv").write_text("a\tb\n5,118\tu\n6,125\tv\n")
    result = invoke("predict", tmp_path / "m.json", tmp_path / "new.csv")
    assert "numbers are read with decimal commas, as in the fit: those of this table have two meanings" in words(result)
    found = pd.read_csv(io.StringIO(result.stdout))["prediction"]
    np.testing.assert_allclose(found, [10.236, 12.25], rtol=1e-2)


def test_words_for_a_missing_number_may_be_the_only_entry(folder, tmp_path):
    options = "--method", "forward", "--drop", "kind", "--impute", "--no-hold-out", "-o", tmp_path / "m.json"
    assert invoke("fit", folder / "gaps.csv", "-t", "y", *options).exit_code == 0
    expected = None
    for word in ("", "-", ".", "none"):
        (tmp_path / "new.csv").write_text(f"a,b\n{word},1\n")
        result = invoke("predict", tmp_path / "m.json", tmp_path / "new.csv")
        assert result.exit_code == 0, result.output
        expected = expected or result.stdout
        assert result.stdout == expected


def test_words_of_missing_values_that_occur_nowhere_are_noted(folder):
    options = "-t", "y", "--drop", "label", "--method", "forward", "--no-hold-out"
    said = words(invoke("fit", folder / "table.csv", *options, "--missing", "-999", "--missing", "NA"))
    assert "--missing -999 occurs nowhere in the table" in said
    assert "--missing NA" not in said


@pytest.fixture(scope="module")
def series(folder):
    """Fit a series with few lags; return the file of the model."""
    path = folder / "lags.json"
    options = "--time", "day", "--basis", "lag", "--lags", "3", "--no-hold-out", "-o", path
    assert invoke("fit", folder / "series.csv", "-t", "level", *options).exit_code == 0
    return path


def test_first_rows_of_a_series_are_not_scored(folder, series, tmp_path):
    """Predict, compare and report score the same rows, and leave-one-out scores have those of the fit."""
    table = pd.read_csv(folder / "series.csv")
    past, ranks = load_predictor(series)._program.lags.longest, table["day"].rank()
    result = invoke("predict", series, folder / "series.csv", "-o", tmp_path / "p.csv")
    assert f"{past} of 120 rows without a prediction" in words(result)
    predicted = pd.read_csv(tmp_path / "p.csv", skip_blank_lines=False)["prediction"]
    assert (predicted.isna() == (ranks <= past)).all()
    score = r2_score(table["level"][ranks > past], predicted[ranks > past])
    assert f"R2 {score:.3f} against the table" in words(result)
    compared = json.loads(invoke("compare", series, series, folder / "series.csv", "--json").stdout)["predictions"]
    assert [one["value"] for one in compared["scores"]] == pytest.approx([score, score])
    assert compared["rows_compared"] == compared["scores"][0]["n"] == 120 - past
    page = tmp_path / "r.html"
    assert invoke("report", series, folder / "series.csv", "-o", page).exit_code == 0
    assert f'"n":{120 - past},' in page.read_text(encoding="utf-8")
    level = table.sort_values("day")["level"].to_numpy()
    lagged = np.column_stack([level[3 - k : -k] for k in (1, 2, 3)])
    model = ForwardRegressor(refit_alpha="loo", criterion="tcr").fit(lagged, level[3:])
    expected = 1 - np.sum(model.loo_residuals_**2) / np.sum((level[3:] - level[3:].mean()) ** 2)
    assert load_predictor(series).facts["scores"]["loo_r2"] == pytest.approx(expected, rel=1e-4)


def test_compare_a_series_with_a_gap(folder, series, tmp_path):
    table = pd.read_csv(folder / "series.csv")
    table.loc[table["day"].rank() == 50, "level"] = np.nan
    table.to_csv(tmp_path / "gap.csv", index=False)
    past = load_predictor(series)._program.lags.longest
    record = json.loads(invoke("compare", series, series, tmp_path / "gap.csv", "--json").stdout)["predictions"]
    assert (record["rows"], record["rows_compared"], record["largest_difference"]) == (120, 120 - 2 * past, 0)
    assert f"predictions of {120 - 2 * past} rows differ" in words(invoke("compare", series, series,
                                                                         tmp_path / "gap.csv"))  # fmt: skip
    table.head(1).to_csv(tmp_path / "one.csv", index=False)
    refused = invoke("compare", series, series, tmp_path / "one.csv")
    assert "must have rows that both models predict, got none, since all miss values of the rows before" in words(
        refused
    )


def test_infinite_intervals(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,2\n2,3.5\n4,8.2\n5,10\n7,14.1\n8,16\n")
    options = "--basis", "none", "--size", "1", "-o", tmp_path / "m.json"
    assert invoke("fit", tmp_path / "t.csv", "-t", "y", *options).exit_code == 0
    result = invoke("predict", tmp_path / "m.json", tmp_path / "t.csv", "--interval", "0.9", "--json")
    record = json.loads(result.stdout)
    assert record["lower"] == record["upper"] == [None] * 6
    assert "the fit had too few samples for intervals that cover 90%: some of their ends are infinite" in words(result)


@pytest.mark.parametrize(
    ("command", "name", "json_only"),
    [("predict", "model", True), ("explain", "rows", True), ("explain", "base", False)],
)
def test_kept_columns_do_not_replace_results(automatic, new_rows, command, name, json_only):
    pd.read_csv(new_rows, dtype=str).rename(columns={"id": name}).to_csv(new_rows, index=False)
    result = invoke(command, automatic, new_rows, "--id", name, "--json")
    assert result.exit_code == 1
    assert f"{name} cannot be kept, since it is the name of a result: rename the column." in words(result)
    assert (invoke(command, automatic, new_rows, "--id", name).exit_code == 0) == json_only


def test_kept_columns_are_written_as_they_are(automatic, tmp_path):
    (tmp_path / "new.csv").write_text("id,a,b,kind,state\n00699,7.020,1,red,NA\n00700,-1.50,2,blue,\n")
    options = "--id", "id", "--keep", "a", "--keep", "state"
    result = invoke("predict", automatic, tmp_path / "new.csv", *options)
    assert [row.rpartition(",")[0] for row in result.stdout.split()[1:]] == ["00699,7.020,NA", "00700,-1.50,"]
    frame = pd.DataFrame({"id": pd.array([7, None], dtype="Int64"), "a": [7.5, 1], "b": [1, 2], "kind": ["red", "blue"],
                          "state": ["NA", None], "day": pd.to_datetime(["2021-01-02", None])})  # fmt: skip
    frame.to_parquet(tmp_path / "new.parquet")
    options = *options, "--keep", "day", "--json"
    record = json.loads(invoke("predict", automatic, tmp_path / "new.parquet", *options).stdout)
    assert (record["id"], record["a"], record["state"]) == ([7, None], [7.5, 1], ["NA", None])
    assert record["day"] == ["2021-01-02T00:00:00.000000", None]


def test_export_names_the_format(model, tmp_path):
    assert json.loads(invoke("export", model, "-o", tmp_path / "m.sympy.py", "--json").stdout)["to"] == "sympy"


# -- comparison, completion, embedded code -----------------------------------------------------------------------------


def test_fit_without_a_target_lists_the_columns(folder):
    result = invoke("fit", folder / "table.csv")
    assert result.exit_code == 2
    assert "--target must name the column to predict, got none" in words(result)
    assert "a (numbers, " in words(result)
    assert "kind (strings, 2 different)" in words(result)
    assert "For example: --target label" in words(result)


@pytest.mark.slow
def test_compare(folder, model, classifier, tmp_path):
    other = tmp_path / "other.json"
    options = "-t", "y", "--drop", "label", "--method", "forward", "--basis", "anova", "--no-hold-out", "-o", other
    assert invoke("fit", folder / "table.csv", *options).exit_code == 0
    shown = words(invoke("compare", model, other, folder / "table.csv"))
    for text in ("inputs in both: a, b", "only in the second", "correlation 0.", "first: R2", "not known"):
        assert text in shown
    record = json.loads(run("compare", model, other, folder / "table.csv", "--json").stdout)
    first, second = load_predictor(model), load_predictor(other)
    table = pd.read_csv(folder / "table.csv")
    np.testing.assert_allclose(record["predictions"]["first"], first.predict(table))
    difference = second.predict(table) - first.predict(table)
    assert abs(record["predictions"]["largest_difference"] - abs(difference).max()) < 1e-9
    both = {one["name"]: (one["first"], one["second"]) for one in record["terms"]["both"]}
    assert set(both) == set(first.term_names) & set(second.term_names)
    assert both["a"] == (
        [first.weights[0, first.term_names.index("a")]],
        [second.weights[0, second.term_names.index("a")]],
    )
    assert {one["name"] for one in record["terms"]["only_second"]} == set(second.term_names) - set(first.term_names)
    assert record["inputs"]["both"] == ["a", "b"]
    same = json.loads(invoke("compare", classifier, classifier, folder / "table.csv", "--json").stdout)["predictions"]
    assert same["agreement"] == 1
    assert same["different_rows"] == []
    assert "100.0% of 120 rows have the same prediction" in words(
        invoke("compare", classifier, classifier, folder / "table.csv")
    )


def test_compare_refuses(folder, model, classifier):
    result = invoke("compare", model, classifier, folder / "table.csv")
    assert result.exit_code == 1
    assert "models must be of the same kind to compare predictions, got regression and classification" in words(result)
    result = invoke("compare", model, model, "-")
    assert result.exit_code == 2
    assert "DATA must be a file, got the standard input, which can be read once only" in words(result)
    assert invoke("compare", model, classifier).exit_code == 0


def test_compare_refuses_several_outputs(folder, model, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
    ForwardRegressor().fit(X, X.to_numpy() @ rng.normal(size=(2, 2))).predictor_.save(tmp_path / "two.json")
    result = invoke("compare", model, tmp_path / "two.json", folder / "table.csv")
    assert "models must have one output to compare predictions, got several" in words(result)


def test_shell_completion():
    shell = {**os.environ, "_TERMWISE_COMPLETE": "complete_bash", "COMP_WORDS": "termwise comp", "COMP_CWORD": "1"}
    code = "from termwise.cli import app; app(prog_name='termwise')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=shell)
    assert done.stdout.split() == ["compare"], done.stderr


def test_export_of_embedded_code(model, tmp_path):
    options = "--name", "pump", "--dtype", "float32", "--narrow"
    result = invoke("export", model, "-o", tmp_path / "pump.c", *options, "--json")
    assert json.loads(result.stdout)["inputs"] == load_predictor(model).used_inputs
    header = (tmp_path / "pump.h").read_text()
    assert f"#define PUMP_N_INPUTS {len(load_predictor(model).used_inputs)}\n" in header
    assert "int pump_predict(const float *x, float *y);" in header
    assert "float *y)" in (tmp_path / "pump.c").read_text()
    result = invoke("export", model, "-o", tmp_path / "pump.c", "--name", "while")
    assert result.exit_code == 1
    assert "name must not be a keyword of C" in words(result)
    result = invoke("export", model, "-o", tmp_path / "pump.py", "--dtype", "float32")
    assert "dtype is no option of an export to python" in words(result)


# -- benchmarks --------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_bench_prints_json_lines():
    done = run("bench", "ridge", "--small", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(record["benchmark"] == "ridge" for record in records)
    assert {"BasisRidge(alpha='loo')", "RidgeCV, default", "OnlineRidge, add a sample"} <= {
        record.get("method") for record in records
    }


def test_bench_refuses_an_unknown_name():
    result = invoke("bench", "nope")
    assert result.exit_code == 2
    assert "must be 'all' or one of dask_scaling, everyday, forward, fresh, gpu, narx," in words(result)
    assert "out_of_core, predict, recipe, ridge, streamed, surrogate, tables, trust, got" in words(result)


STORE_ARGUMENTS = "import sys; open(__file__ + '.txt', 'w').write(' '.join(sys.argv[1:]))"


@pytest.fixture
def benchmarks(monkeypatch, tmp_path):
    """Two benchmarks, one of which stores its arguments and one of which fails, and two studies."""
    (tmp_path / "arguments.py").write_text(STORE_ARGUMENTS)
    (tmp_path / "fails.py").write_text("raise SystemExit(4)")
    (tmp_path / "reproduce.py").write_text(STORE_ARGUMENTS)
    (tmp_path / "reproduce_hagiwara2014.py").write_text('TITLE = "A paper, Table 1."')
    (tmp_path / "reproduce_draws.py").write_text('TITLE: str = "Simulated."\nneeds_data = False')
    monkeypatch.setattr("termwise.cli.benchmark_folder", lambda: tmp_path)
    return tmp_path


def test_bench_passes_options_on(benchmarks):
    assert invoke("bench", "arguments").exit_code == 0
    assert (benchmarks / "arguments.py.txt").read_text() == ""
    invoke("bench", "arguments", "--repeats", "2", "--small")
    assert (benchmarks / "arguments.py.txt").read_text() == "--repeats 2 --small"
    invoke("bench", "arguments", "--cases", "tall", "square", "--small")
    assert (benchmarks / "arguments.py.txt").read_text() == "--small --cases tall square"


def test_bench_exits_with_the_status_of_the_benchmark(benchmarks):
    assert invoke("bench").exit_code == 4


def test_reproduce_lists_the_studies(benchmarks):
    assert invoke("reproduce").output == "draws          Simulated.\nhagiwara2014   A paper, Table 1.\n"
    result = invoke("reproduce", "arguments")
    assert result.exit_code == 2
    assert "must be 'all' or one of draws, hagiwara2014, got 'arguments'." in words(result)


def test_reproduce_needs_the_data_of_most_studies(benchmarks, monkeypatch, tmp_path):
    monkeypatch.delenv("TERMWISE_DATA", raising=False)
    for name in ("hagiwara2014", "all"):
        result = invoke("reproduce", name)
        assert result.exit_code == 1
        assert "TERMWISE_DATA must name the folder with the papers' data sets, but it is not set" in words(result)
    assert invoke("reproduce", "draws").exit_code == 0
    monkeypatch.setenv("TERMWISE_DATA", str(tmp_path / "nowhere"))
    assert "which is not a folder: export" in words(invoke("reproduce", "hagiwara2014"))


def test_reproduce_passes_options_on(benchmarks, monkeypatch, tmp_path):
    monkeypatch.setenv("TERMWISE_DATA", str(tmp_path))
    stored = benchmarks / "reproduce.py.txt"
    assert invoke("reproduce", "all").exit_code == 0
    assert stored.read_text() == "all --out reproduced --jobs -1"
    invoke("reproduce", "hagiwara", "--small", "--repeats", "3", "-o", "there", "--jobs", "2")  # a former name
    assert stored.read_text() == "--repeats 3 hagiwara2014 --out there --jobs 2 --quick"
    (benchmarks / "reproduce.py").write_text("raise SystemExit(4)")
    assert invoke("reproduce", "draws", "--quick").exit_code == 4


def test_reproduce_names_the_extra_of_a_missing_package(benchmarks, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "needs matplotlib, which is not installed: pip install 'termwise[plots]'" in words(
        invoke("reproduce", "draws")
    )


def test_studies_of_the_papers_are_listed():
    listed = [line.split()[0] for line in invoke("reproduce").output.splitlines()]
    assert {"orr", "hagiwara2011", "hagiwara2014", "hong", "pahikkala"} <= set(listed)


def test_missing_typer_names_the_extra(monkeypatch):
    original = builtins.__import__

    def no_typer(name, *rest):
        if name == "typer":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_typer)
    monkeypatch.delitem(sys.modules, "typer")
    monkeypatch.setattr("importlib.import_module", no_typer)
    with pytest.raises(SystemExit, match=r"pip install 'termwise\[cli\]'"):
        termwise.__main__.main()
