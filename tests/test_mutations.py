"""Altered model files: refused in a sentence, or a model that works; no other exceptions, no silent change."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
from mutations import BYTES, replace_value
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

from termwise import BasisRidge, SmoothBasis, TermwiseRegressor, diagnostics, load_predictor, report
from termwise.basis import LevelMeans, TableEncoder
from termwise.cli import app
from termwise.deploy.document import checksum

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(40, 2)), columns=["a", "b"]).assign(kind=RNG.choice(["u", "v"], 40))
TARGET = pd.Series(TABLE.a + (TABLE.kind == "u"), name="y")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    model = TermwiseRegressor(dictionary="linear", random_state=0).fit(TABLE, TARGET)
    path = tmp_path_factory.mktemp("mutations") / "model.json"
    model.predictor_.with_facts(diagnostics.facts(model, TABLE, TARGET)).save(path)
    return path


@pytest.mark.parametrize("change", BYTES)
def test_bytes(file, tmp_path, change):
    content, rng, path = file.read_bytes(), np.random.default_rng(0), tmp_path / "m.json"
    original = load_predictor(file)
    for _ in range(40):
        path.write_bytes(change(content, rng))
        try:
            loaded = load_predictor(path)
        except ValueError as error:
            assert "m.json" in str(error)  # noqa: PT017
        else:  # a space, or the like
            assert loaded == original


@pytest.mark.slow
@pytest.mark.parametrize("inside", [("predictor",), ("facts",)], ids=["predictor", "facts"])
def test_values_with_a_checksum_of_their_own(file, tmp_path, inside):
    document, rng, path = json.loads(file.read_text(encoding="utf-8")), np.random.default_rng(0), tmp_path / "m.json"
    n_loaded = 0
    for _ in range(60):
        path.write_text(json.dumps(replace_value(document, rng, inside)), encoding="utf-8")
        try:
            loaded = load_predictor(path)
            n_loaded += 1
            if inside == ("facts",):
                report.render(loaded)
            with np.errstate(all="ignore"):
                loaded.predict(TABLE)
            diagnostics.contributions(loaded, TABLE)
        except ValueError as error:
            assert "must" in str(error) or "cannot" in str(error), error  # noqa: PT017
    assert 0 < n_loaded < 60


def test_a_step_that_is_only_its_name(file, tmp_path):
    document = json.loads(file.read_text(encoding="utf-8"))
    steps = next(part["steps"] for part in walk(document) if part.get("steps"))
    steps[0] = steps[0]["step"]
    document["checksum"] = checksum(document)
    (tmp_path / "m.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ValueError, match=r"m\.json is no valid model: .* must be a step that is one of .*, got '"):
        load_predictor(tmp_path / "m.json")


def walk(value):
    """Iterate over all objects inside a document."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(inner)


def test_numbers_beyond_those_of_float64(file, tmp_path):
    """JSON has them, and Python reads them as infinite."""
    text = file.read_text(encoding="utf-8")
    number = next(filter(None, re.findall(r"-?\d\.\d{6,}", text)))
    (tmp_path / "m.json").write_text(text.replace(number, "1e999"), encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"m\.json is no valid model: checksum must be that of the rest of the document"
    ):
        load_predictor(tmp_path / "m.json")


def refusal(predictor, path, change):
    """Return why a file is refused after a change of its content."""
    document = predictor.to_dict()
    for part in walk(document["predictor"]):
        change(part)
    document["checksum"] = checksum(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ValueError, match=r"m\.json is no valid model: ") as caught:
        load_predictor(path)
    return str(caught.value)


@pytest.mark.parametrize("n_effects", [0, 2, 9])
def test_levels_without_their_effects(tmp_path, n_effects):
    table = TABLE.assign(kind=[f"k{i % 8}" for i in range(40)])
    encoder = TableEncoder(max_levels=5, min_count=2).fit(table)
    basis = LevelMeans(SmoothBasis(centers=3), columns=encoder.level_columns())
    predictor = BasisRidge(make_pipeline(encoder, basis), alpha=0.1).fit(table, TARGET + np.arange(40) % 8).predictor_

    def cut(part):
        if part.get("step") == "levels":
            part["effects"] = (2 * part["effects"])[:n_effects]

    message = rf"effects must be a list of 8 levels, the sum of sizes, got {n_effects}\. The file was damaged"
    assert re.search(message, refusal(predictor, tmp_path / "m.json", cut))


def test_folds_without_residuals(file, tmp_path):
    def cut(part):
        if "sample_weight" in part:
            part.update(residuals=[[]], scaled=[[]], sample_weight=[])

    message = "predictor.folds must be models with at least one residual, got 0. The file"
    assert message in refusal(load_predictor(file), tmp_path / "m.json", cut)


@pytest.mark.slow
def test_facts_do_not_choose_how_to_predict(file, tmp_path):
    """Metadata that call a model of independent rows a series change no prediction."""
    predictor = load_predictor(file)
    TABLE.assign(y=TARGET).to_csv(tmp_path / "t.csv", index=False)
    outputs = []
    for lags in (0, 3):
        command = {"target": "y", "time": None, "lags": lags}
        predictor.with_facts({**predictor.facts, "command": command}).save(tmp_path / "m.json")
        result = CliRunner().invoke(app, ["predict", str(tmp_path / "m.json"), str(tmp_path / "t.csv"), "--json"])
        outputs.append(json.loads(result.stdout)["prediction"])
    assert outputs[0] == outputs[1] == predictor.predict(TABLE).tolist()


def test_a_report_of_facts_that_do_not_belong_together(file):
    facts = dict(load_predictor(file).facts)
    facts["scores"] = {"held_out": {"metric": "R2", "value": 0.5, "n": 9, "coverage": 0.9}, "cross_validation": None}
    with pytest.raises(ValueError, match=r"facts must be what termwise\.diagnostics\.facts collects, got others \("):
        report.render(load_predictor(file), facts=facts)
