"""The simulations of `termwise bench trust`: jobs that can be sent to processes, and the joining of their records."""

from __future__ import annotations

import importlib
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmarks are beside the sources only")
STUDIES = sorted(path.stem for path in BENCHMARKS.glob("trust_*.py"))


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("study", STUDIES)
def test_jobs_are_independent_of_the_process(study):
    module = importlib.import_module(study)
    for small in (True, False):
        jobs = module.cases(small)
        assert len(jobs) >= 1
        assert all(callable(pickle.loads(pickle.dumps(job))) for job in jobs)
    assert len(module.cases(True)) < len(module.cases(False))


def test_records_of_the_same_settings_are_joined():
    join = importlib.import_module("trust").join
    first = {"study": "s", "n": 60, "draws": 10, "seed": 0, "hits": 9, "power": [0.5, 0.1], "length": None}
    second = {"study": "s", "n": 60, "draws": 30, "seed": 1, "hits": 28, "power": [0.9, 0.1], "length": [2, 0.5]}
    other = {"study": "s", "n": 100, "draws": 5, "seed": 0, "hits": 5, "power": [0.7, 0.2], "length": None}
    joined, alone = join([first, other, second])
    assert list(joined) == ["study", "n", "draws", "hits", "power", "length"]
    assert (joined["n"], joined["draws"], joined["hits"], joined["length"]) == (60, 40, 37, [2.0, 0.5])
    assert joined["power"] == pytest.approx([0.8, np.hypot(1, 3) / 40], abs=1e-5)
    assert alone == {key: value for key, value in other.items() if key != "seed"}


def test_summaries():
    error, seeds = importlib.import_module("trust_error"), importlib.import_module("trust_stability")
    common = {"study": "error", "kind": "friedman", "n": 60, "p": 10, "size": "small", "measure": "squared error"}
    records = [{**common, "seed": k, "reported": reported, "reported_std": 0.1, "fresh": 0.5, "terms": 4}
               for k, reported in enumerate((0.4, 0.5, 0.9))]  # fmt: skip
    row, every = error.summarise(records)
    assert row["ratio"] == pytest.approx(1.2)
    assert row["within_2_se"] == pytest.approx(2 / 3, abs=1e-3)
    assert every["data_sets"] == 3
    base = {"study": "seeds", "table": "t", "n": 50, "p": 3}
    fits = [{**base, "split": 0, "seed": seed, "terms": terms, "error": 0.2 + 0.01 * seed}
            for seed, terms in enumerate((4, 0, 8))]  # fmt: skip
    fits += [{**base, "split": split, "seed": 0, "terms": 4, "error": 0.2 + 0.1 * split} for split in (1, 2)]
    (row,) = seeds.summarise(fits)
    assert row["terms_ratio"] == 8
    assert row["range_over_sd"] == pytest.approx(0.2, abs=1e-3)
    fewer = [
        {**base, "study": "fewer rows", "split": 0, "seed": 0, "terms": 4, "error": error} for error in (0.2, 0.25)
    ]
    assert seeds.summarise(fits + fewer)[1]["range_over_sd"] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.exhaustive
def test_a_study_runs_in_processes_and_continues(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "trust.py"), "--small", "--only", "stability", "--jobs", "2"]
    command += ["--raw", str(tmp_path / "raw.jsonl")]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    machine, *records = map(json.loads, first.stdout.splitlines())
    assert machine["cores"] >= 1
    assert {record["study"] for record in records} == {"seeds", "fewer rows"}
    assert "5 of 5 jobs" in first.stderr
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stdout == first.stdout
    assert again.stderr == ""
