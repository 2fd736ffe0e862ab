"""The data of `termwise bench forward` and `gpu`, and a small run of each speed benchmark."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmarks are beside the sources only")


@pytest.fixture
def bench(monkeypatch, capsys):
    """Run a benchmark with some options and return its records."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    def run(name, *options):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", "--small", "--repeats", "1", *options])
        importlib.import_module(name).main()
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


@pytest.mark.parametrize(
    ("regime", "near", "far"),
    [("half-true", 0.0, 0.0), ("blocks-0.5", 0.5, 0.0), ("blocks-0.9", 0.9, 0.0), ("ar-0.9", 0.9, 0.9**50)],
)
def test_columns_of_a_regime_have_its_correlations(monkeypatch, regime, near, far):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    G, y = importlib.import_module("_regimes").draw(regime, 5000, 60, 10)
    assert G.dtype == y.dtype == np.float32
    assert np.allclose(G.std(axis=0), 1, atol=0.1)
    assert np.corrcoef(G[:, 0], G[:, 1])[0, 1] == pytest.approx(near, abs=0.05)
    assert np.corrcoef(G[:, 0], G[:, 50])[0, 1] == pytest.approx(far, abs=0.05)
    correlations = np.abs(np.corrcoef(G.T, y)[-1, :-1])
    assert correlations.max() > 0.2


@pytest.mark.slow
def test_regimes_of_forward(bench, monkeypatch):
    monkeypatch.delenv("TERMWISE_DATA", raising=False)
    names = ("none-true", "gaussians", "products")
    _, *records = bench("forward", "--cases", "regimes", "--sizes", "medium", "--regimes", *names)
    assert records[-1]["skipped"]
    ours = [one for one in records if one.get("method") == "termwise loo"]
    assert [(one["regime"], one["dtype"]) for one in ours] == [
        (name, dtype) for name in names[:2] for dtype in ("float32", "float64")
    ]
    assert all(one["passes"] > 0 and one["verified"] > 0 for one in ours)
    peers = [one for one in records if one.get("method") == "scikit-learn OMP"]
    assert all(one["times_cost"] > 0 and one["taken"] == one["terms"] for one in peers)


def test_predictions_of_one_row_and_many(bench, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("predict")
    monkeypatch.setattr(module, "MODELS", {"columns": None})
    monkeypatch.setattr(module, "CALLS", 2)
    _, *records = bench("predict")
    one = {r["method"] for r in records if r["case"] == "one row" and r["microseconds"] > 0}
    many = {(r["method"], r["dtype"]) for r in records if r["case"] == "many rows" and r["share"] > 0}
    assert {"Predictor.predict_one, dict", "Predictor.predict", "scikit-learn Ridge.predict"} <= one
    assert {("Predictor.predict", "float32"), ("estimator.predict", "float64")} <= many


def test_matching_pursuit_by_hand_orders_as_scikit_learn(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from sklearn.linear_model import orthogonal_mp

    G, y = importlib.import_module("_regimes").draw("blocks-0.5", 300, 60, 10)
    G = (G - G.mean(axis=0)) / np.linalg.norm(G - G.mean(axis=0), axis=0)
    found = importlib.import_module("gpu").matching_pursuit(torch.from_numpy(G), torch.from_numpy(y), 8)
    path = orthogonal_mp(G, y - y.mean(), n_nonzero_coefs=8, return_path=True)
    assert [np.flatnonzero(path[:, k]).tolist() for k in range(8)] == [
        sorted(found[: k + 1].tolist()) for k in range(8)
    ]


@pytest.mark.exhaustive
def test_surrogates(bench):
    _, *records = bench("surrogate", "--small")
    methods = {"termwise, random", "termwise, suggest", "kriging, random"}
    assert {record["method"] for record in records} == methods
    assert {record["evaluations"] for record in records} == {20, 30}
    assert all(0 < record["rmse"] < 2 for record in records)
