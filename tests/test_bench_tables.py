"""The comparison of `termwise bench tables`, on a table made for the purpose."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmarks are beside the sources only")


@pytest.fixture
def tables(monkeypatch):
    """The benchmark, with one small table in place of those that packages carry."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("tables")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=90), "b": pd.Categorical(rng.choice(["u", "v"], size=90))})
    y = X["a"].to_numpy() + (X["b"] == "u").to_numpy() + 0.1 * rng.normal(size=90)
    X.loc[::7, "a"] = np.nan
    for name in ("tables", "tables_data"):
        monkeypatch.setattr(sys.modules[name], "load", lambda name: (X, y))
    return module


def test_results_are_kept_and_compared(tables, tmp_path, monkeypatch, capsys):
    def bench(*arguments):
        monkeypatch.setattr(sys, "argv", ["tables.py", "--tables", "diabetes", "--repeats", "1", *arguments])
        tables.main()
        return capsys.readouterr()

    peers, mine = str(tmp_path / "peers.jsonl"), str(tmp_path / "mine.jsonl")
    bench("--who", "linear", "--raw", peers)
    first = bench("--who", "small", "--set", "dictionary=linear", "--peers", peers, "--raw", mine)
    assert "1 of 1" in first.err
    records = map(json.loads, first.out.splitlines()[1:])
    row, mean = (one for one in records if one["who"] == "small dictionary=linear")
    assert row["ratio"]["linear"] == mean["geometric_mean"]["linear"] > 0
    again = bench("--who", "small", "--set", "dictionary=linear", "--peers", peers, "--raw", mine)
    assert again.out == first.out
    assert again.err == ""
    assert "geometric mean" in bench("--who", "linear", "--raw", peers, "--text").out


def test_cells_are_missing_at_the_stated_rates(tables):
    missing = importlib.import_module("tables_missing")
    X = pd.DataFrame({"a": np.arange(10_000.0)})
    for setting, above in (("at random", 0.3), ("not at random", 0.45)):
        lost = missing.remove_cells(X, setting, 0)["a"].isna()
        assert lost.mean() == pytest.approx(0.3, abs=0.02)
        assert lost[5000:].mean() == pytest.approx(above, abs=0.02)
