"""The command line, as a user runs it."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import termwise.__main__
import termwise.cli


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "termwise", *arguments], capture_output=True, text=True)


def test_help_names_every_command():
    done = run("--help")
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert "bench" in done.stdout


def test_demo_shows_a_small_model():
    result = CliRunner().invoke(termwise.cli.app, ["demo"])
    assert result.exit_code == 0
    assert "ForwardRegressor: " in result.output
    assert " of 10 terms, 294 samples" in result.output
    assert "bmi" in result.output


def test_bench_prints_json_lines():
    done = run("bench", "ridge", "--small", "--repeats", "1")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(record["benchmark"] == "ridge" for record in records)
    assert {"BasisRidge(alpha='loo')", "RidgeCV, default", "OnlineRidge, add a sample"} <= {
        record.get("method") for record in records
    }


def test_bench_refuses_an_unknown_name():
    result = CliRunner().invoke(termwise.cli.app, ["bench", "nope"])
    assert result.exit_code == 2
    words = " ".join(result.output.replace("│", " ").split())
    assert "must be 'all' or one of dask_scaling, forward, gpu, hagiwara," in words
    assert "hagiwara2011, hong, out_of_core, recipe, ridge, streamed" in words


def test_bench_passes_failure_on(monkeypatch, tmp_path):
    (tmp_path / "broken.py").write_text("raise SystemExit(3)")
    monkeypatch.setattr(termwise.cli, "benchmark_folder", lambda: tmp_path)
    assert CliRunner().invoke(termwise.cli.app, ["bench"]).exit_code == 3


def test_without_the_framework_the_pip_line_is_printed(monkeypatch):
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
