"""The studies of `termwise reproduce`: verdicts, resuming, the files written, and one small job of each study."""

from __future__ import annotations

import csv
import importlib
import json
import sys
from pathlib import Path

import pytest
from conftest import needs_data

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
pytest.importorskip("tqdm")
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the benchmarks are beside the sources only")
TOY = """
TITLE = "A toy."
needs_data = False


def jobs(quick, repeats):
    for split in range(repeats or (2 if quick else 4)):
        yield {"set": "one", "split": split}


def run(job):
    import os
    from pathlib import Path

    with (Path(__file__).parent / "runs.txt").open("a") as log:
        log.write(f"{job['split']} ")
    if job["split"] == 2 and not (Path(__file__).parent / "repaired").exists():
        raise ValueError("split 2 is broken")
    return {"error": 1.0 + job["split"]}


def cells(records):
    from _reproduce import cell

    values = [one["error"] for one in records]
    return [cell(("Table 1", "one", "method", "error"), values, (0.5, 0.1), reason="The toy is not the paper's.")]


def figures(records):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    axes.plot([one["error"] for one in records])
    yield "curve", figure
"""


@pytest.fixture
def shared(monkeypatch):
    """The functions that studies share."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("_reproduce")


@pytest.fixture
def driver(shared, monkeypatch, tmp_path):
    """A function that runs a toy study with some options and returns the splits that were run."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "reproduce_toy.py").write_text(TOY)
    module = importlib.import_module("reproduce")
    monkeypatch.setattr(module, "study_names", lambda: ["toy"])
    monkeypatch.setattr(module, "ProcessPoolExecutor", InThisProcess)
    log = tmp_path / "runs.txt"

    def run(*options, status=0):
        log.write_text("")
        monkeypatch.setattr(sys, "argv", ["reproduce.py", "toy", "--out", str(tmp_path / "out"), *options])
        with pytest.raises(SystemExit) as stop:
            module.main()
        assert stop.value.code == status
        return log.read_text().split()

    yield run
    sys.modules.pop("reproduce_toy", None)


class InThisProcess(importlib.import_module("concurrent.futures").ThreadPoolExecutor):
    """A pool without processes, which would take seconds to start."""

    def __init__(self, workers, mp_context):
        super().__init__(1)


@pytest.mark.parametrize(
    ("ours", "paper", "sd", "lower_is_better", "expected"),
    [
        (1.0, 1.1, 0.1, True, "inside 1 sd"),
        (1.0, 1.19, 0.1, True, "inside 2 sd"),
        (0.5, 1.0, 0.1, True, "better"),
        (0.5, 1.0, 0.1, False, "outside"),
        (0.5, 1.0, 0.1, None, "outside"),
        (1.5, 1.0, 0.1, True, "outside"),
        (1.5, 1.0, 0.1, False, "better"),
        (1e-16, 0.0, None, None, "inside 1 sd"),
        (None, 1.0, 0.1, True, "no data"),
        (1.0, None, None, True, ""),
    ],
)
def test_verdicts(shared, ours, paper, sd, lower_is_better, expected):
    assert shared.verdict(ours, paper, sd, lower_is_better) == expected


def test_cells_use_our_sd_where_the_paper_has_none(shared):
    place = ("Table 1", "row", "column", "error")
    assert shared.cell(place, [1.0, 3.0], (3.5, None))["verdict"] == "inside 2 sd"
    outside = shared.cell(place, [1.0, 3.0], (0.5, 0.1), reason="Why.")
    assert (outside["ours"], outside["ours_sd"], outside["repeats"]) == (2.0, 1.0, 2)
    assert (outside["verdict"], outside["reason"]) == ("outside", "Why.")
    assert shared.cell(place, [1.0], (1.0, 0.1), reason="Why.")["reason"] == ""
    missing = shared.cell(place, [], (1.0, 0.1))
    assert shared.count_verdicts([outside, missing, shared.cell(place, [1.0])]) == {
        "cells": 2, "agreeing": 0, "outside": 1, "not_attempted": 1,
    }  # fmt: skip
    assert shared.with_sd(0.12345, None) == "0.123"
    assert shared.with_sd(1234.5, 2.0) == "1,234 ± 2"


def test_files_of_a_study(driver, tmp_path, capsys):
    assert driver("--quick") == ["0", "1"]
    assert "0 jobs failed" in capsys.readouterr().out
    with (tmp_path / "out" / "toy.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["ours"], row["ours_sd"], row["repeats"], row["verdict"]) == ("1.5", "0.5", "2", "outside")
    about = json.loads((tmp_path / "out" / "toy.json").read_text())
    assert (about["title"], about["jobs"], about["finished"], about["quick"]) == ("A toy.", 2, 2, True)
    page = (tmp_path / "out" / "index.html").read_text()
    for text in ("A toy.", about["date"], "1.5 ± 0.5", "paper 0.5 ± 0.1", "The toy is not the paper&#39;s.", "<svg"):
        assert text in page
    assert (tmp_path / "out" / "toy_curve.svg").read_text().startswith("<?xml")


def test_a_stopped_run_continues(driver, tmp_path):
    driver("--quick")
    records = tmp_path / "out" / "toy.jsonl"
    first, second = records.read_text().splitlines()
    records.write_text(first + "\n" + second[:20])  # stopped in the middle of a line
    assert driver("--quick") == ["1"]
    assert driver("--quick") == []
    other = '{"job": {"set": "of another version", "split": 0}, "result": {"error": 99.0}}\n'
    records.write_text(other + records.read_text())
    assert driver("--repeats", "2") == []
    assert "1.5,0.5" in (tmp_path / "out" / "toy.csv").read_text()


def test_failures_are_kept_and_run_again_last(driver, tmp_path, capsys):
    assert driver("--repeats", "3", status=1) == ["0", "1", "2"]
    assert "ValueError: split 2 is broken (reproduce_toy.py" in capsys.readouterr().out
    assert driver(status=1) == ["3", "2"]
    (tmp_path / "repaired").touch()
    assert driver() == ["2"]
    assert json.loads((tmp_path / "out" / "toy.json").read_text())["finished"] == 4


def test_an_interrupted_run_writes_what_is_finished(driver, tmp_path, monkeypatch, capsys):
    module = sys.modules["reproduce"]
    perform = module.perform

    def interrupt(name, job):
        if job["split"] == 1:
            raise KeyboardInterrupt
        return perform(name, job)

    monkeypatch.setattr(module, "perform", interrupt)
    assert driver("--quick", status=130) == ["0"]
    assert "interrupted; the same command continues where it was" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "toy.json").read_text())["finished"] == 1


STUDIES = ["orr", "hagiwara2014", "hagiwara2011", "pahikkala", "hong"]
TINY = {  # one fast job of each study
    "orr": {"example": "7.4", "draw": 0},
    "hagiwara2014": {"part": "tables", "set": "auto_mpg", "split": 0},
    "hagiwara2011": {"part": "tables", "set": "auto_mpg", "split": 0},
    "pahikkala": {"part": "accuracy", "set": "heart", "split": 0},
    "hong": {"set": "heart", "split": 0},
}


@pytest.mark.parametrize("name", STUDIES)
def test_studies_list_their_jobs(shared, name):
    study = importlib.import_module(f"reproduce_{name}")
    jobs, quick = list(study.jobs(False, None)), list(study.jobs(True, None))
    keys = {json.dumps(job, sort_keys=True) for job in jobs}
    assert len(keys) == len(jobs) > 2 * len(quick) > 0
    few = [json.dumps(job, sort_keys=True) for job in study.jobs(False, 1)]
    assert set(few) <= keys
    assert not any(1 in (job.get("split"), job.get("draw"), job.get("repeat")) for job in map(json.loads, few))
    empty = study.cells([])
    assert {cell["verdict"] for cell in empty} <= {"no data", ""}
    assert all(tuple(cell) == shared.FIELDS for cell in empty)


@needs_data
@pytest.mark.parametrize("name", STUDIES)
def test_a_job_of_each_study(shared, name, monkeypatch):
    import matplotlib

    matplotlib.use("agg")
    study = importlib.import_module(f"reproduce_{name}")
    assert TINY[name] in list(study.jobs(False, None))
    if name == "hagiwara2011":
        monkeypatch.setattr(study, "WIDTHS", (5, 8))
    result = study.run(TINY[name])
    json.dumps(result, allow_nan=False)
    cells = study.cells([TINY[name] | result])
    assert any(cell["ours"] is not None for cell in cells)
    assert not any(cell["repeats"] > 1 for cell in cells)
    for _, figure in study.figures([TINY[name] | result]):
        matplotlib.pyplot.close(figure)
