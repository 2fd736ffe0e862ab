"""Models in other languages: each is really compiled or run, and says what the estimator says."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from frozen_models import FRAME, NAMES, TWO, N, X, Y, all_cases, case_of, y
from sklearn.decomposition import PCA
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, PolynomialFeatures, StandardScaler

from termwise import (
    AnovaBasis,
    BasisRidge,
    CriterionSearch,
    ForwardClassifier,
    ForwardRegressor,
    FourierBasis,
    LagBasis,
    LogisticBasis,
    RadialBasis,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    UnionBasis,
)
from termwise.basis import TableEncoder
from termwise.deploy import c, python
from termwise.deploy import onnx as graph

pytestmark = pytest.mark.xdist_group("frozen")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wmissing-prototypes", "-O1", "-shared", "-fPIC"]
EXACT, SHORT = 1e-12, 1e-4  # shares of what is added up: of float64, and of float32 for these data
SOME = 12  # rows, for languages that take one at a time


def agree(case, found, expected, share, rows=slice(None)):
    assert np.all(np.abs(np.reshape(found, np.shape(expected)) - expected) <= share * case.scale()[rows]), case.name


# -- Python ------------------------------------------------------------------------------------------------------------


def module_of(predictor):
    names: dict = {}
    exec(python.source(predictor._program), names)
    return SimpleNamespace(**{name: value for name, value in names.items() if not name.startswith("__")})


def windows(case):
    """What the functions in Python take: a sample, or all rows up to the one in question."""
    rows = case.rows
    lags = case.predictor._program.lags
    return [rows[: t + 1] if lags else row for t, row in enumerate(rows[:SOME])]


@pytest.mark.parametrize("name", NAMES)
def test_python(name):
    case = case_of(name)
    module, samples, classes = module_of(case.predictor), windows(case), hasattr(case.model, "classes_")
    outputs = module.decision_function if classes else module.predict
    agree(case, [outputs(x) for x in samples], case.outputs()[:SOME], EXACT, slice(SOME))
    if classes:
        assert [module.predict(x) for x in samples] == case.model.predict(case.X)[:SOME].tolist()
    assert hasattr(module, "predict_proba") == hasattr(case.model, "predict_proba")
    if hasattr(module, "predict_proba"):
        found = [module.predict_proba(x) for x in samples]
        np.testing.assert_allclose(found, case.model.predict_proba(case.X)[:SOME], atol=1e-12)


def test_python_stands_alone(tmp_path):
    case = case_of("TermwiseClassifier frame")
    case.predictor.export(tmp_path / "model.py")
    text = (tmp_path / "model.py").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if "import" in line] == ["import math"]
    compile(text, "model.py", "exec", dont_inherit=True)
    row = json.dumps(dict(zip(FRAME.columns, case.rows[0], strict=True)))
    code = f"import json, model; print(model.predict(json.loads({row!r})), model.CLASSES)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == f"{case.model.predict(FRAME)[0]} ('no', 'yes')"


def test_python_checks_and_fills():
    case = case_of("TermwiseRegressor frame")
    module = module_of(case.predictor)
    row = dict(zip(FRAME.columns, case.rows[0], strict=True))
    used = {name: row[name] for name in case.predictor.used_inputs}
    assert module.predict(used) == module.predict(row) == module.predict(case.rows[0])
    with pytest.raises(ValueError, match="speed must be a finite number, got None"):
        module.predict(row | {"speed": np.nan})
    unknown = pd.DataFrame([row | {"kind": "q"}])
    np.testing.assert_allclose(module.predict(row | {"kind": "q"}), case.predictor.predict(unknown)[0], rtol=1e-12)
    assert case.predictor.count_unseen(unknown) == {"kind": 1}
    with pytest.raises(ValueError, match="kind must be one of"):
        module.predict(row | {"kind": None})
    with pytest.raises(ValueError, match="a sample must have 6 values, got 2"):
        module.predict([1.0, 2.0])
    filled = module_of(case.predictor.with_fill({"speed": row["speed"], "kind": row["kind"]}))
    assert filled.predict(row | {"speed": None, "kind": None}) == module.predict(row)
    series = module_of(cases_of(LagBasis)[0].predictor)
    with pytest.raises(ValueError, match="the past values used by the prediction must be finite numbers"):
        series.predict([[None] * 4] * 4)


def test_python_tells_missing_from_absent():
    table = pd.DataFrame({"a": X[:, 0], "kind": ["u", "v", None] * (N // 3)})
    table.loc[::5, "a"] = np.nan
    predictor = BasisRidge(make_pipeline(TableEncoder(), SmoothBasis(centers=4)), alpha=0.1).fit(table, y).predictor_
    module, sample = module_of(predictor), {"a": 0.5, "kind": "u"}
    for name in sample:
        expected = module.predict(sample | {name: None})
        np.testing.assert_allclose(expected, predictor.predict_one(sample | {name: None}), rtol=1e-12)
        for missing in (np.nan, np.float32("nan"), pd.NA, pd.NaT):
            assert module.predict(sample | {name: missing}) == expected
        with pytest.raises(ValueError, match=f"a sample must have the inputs the model uses, got none called {name}$"):
            module.predict({key: value for key, value in sample.items() if key != name})
    with pytest.raises(ValueError, match=r"uses, got none called a, kind$"):
        module.predict({})
    for wrong in ("1", b"1", [1.0], 10**400, np.inf):
        with pytest.raises(ValueError, match="a must be a finite number, got "):
            module.predict(sample | {"a": wrong})


def test_python_overflows_as_predict_does():
    powers = BasisRidge(PolynomialFeatures(3, include_bias=False), alpha=0.1).fit(X[:, :1], y).predictor_
    waves = BasisRidge(FourierBasis(2), alpha=0.1).fit(X[:, :1], y).predictor_
    for value in (1e200, -1e200, 1e120, 1e308):
        with np.errstate(all="ignore"):
            for predictor in (powers, waves):
                expected = predictor.predict(np.array([[value]]))[0]
                np.testing.assert_allclose(module_of(predictor).predict([value]), expected, rtol=1e-9)


def cases_of(basis):
    return [case for case in all_cases() if isinstance(getattr(case.model, "basis_", None), basis)]


# -- C -----------------------------------------------------------------------------------------------------------------


def compiled(sources, folder, name, flags=()):
    """Compile sources, all at once, and load them."""
    path = folder / f"{name}.c"
    path.write_text("\n".join(sources), encoding="utf-8")
    library = folder / f"{name}.so"
    done = subprocess.run(["gcc", *FLAGS, *flags, "-o", str(library), str(path), "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    return ctypes.CDLL(str(library))


class CompiledModel:
    """The functions of one model in a library."""

    def __init__(self, library, name, predictor, dtype):
        self.library, self.name, self.predictor = library, name, predictor
        self.real = {"float64": ctypes.c_double, "float32": ctypes.c_float}[dtype]

    def call(self, function, x, size):
        """Call a function that fills so many numbers; return the status and those."""
        y, x = (self.real * size)(), (self.real * len(x))(*x)
        return getattr(self.library, f"{self.name}_{function}")(x, y), list(y)

    def label(self, x):
        number = ctypes.c_int(-1)
        status = getattr(self.library, f"{self.name}_predict")((self.real * len(x))(*x), ctypes.byref(number))
        assert status == 0
        return self.predictor.classes[number.value]


def coded(case):
    """Samples as C takes them: numbers, categories by their numbers, with lags a window of rows."""
    predictor = case.predictor
    rows = [
        [v if one.categories is None else one.categories.index(v) for v, one in zip(row, predictor.inputs, strict=True)]
        for row in case.rows
    ]
    lags = predictor._program.lags
    if lags is None:
        return rows[:SOME]
    back = range(lags.longest, -1, -1)
    return [[v for lag in back for v in rows[max(0, t - lag)]] for t in range(SOME)]


@needs_gcc
@pytest.mark.parametrize(
    ("dtype", "share"), [("float64", EXACT), pytest.param("float32", SHORT, marks=pytest.mark.exhaustive)]
)
def test_c(dtype, share, tmp_path):
    chosen = list(all_cases())[:: 1 if dtype == "float64" else 3]
    sources = [c.source(case.predictor._program, dtype, f"m{i}") for i, case in enumerate(chosen)]
    library = compiled(sources, tmp_path, "models")
    for i, case in enumerate(chosen):
        predictor, samples = case.predictor, coded(case)
        model, classes = CompiledModel(library, f"m{i}", predictor, dtype), predictor.classes
        function = "predict" if classes is None else "decision_function"
        answers = [model.call(function, x, len(predictor.intercept)) for x in samples]
        assert all(status == 0 for status, _ in answers)
        agree(case, [values for _, values in answers], case.outputs()[:SOME], share, slice(SOME))
        if classes is not None and dtype == "float64":
            assert [model.label(x) for x in samples] == case.model.predict(case.X)[:SOME].tolist()
        if hasattr(predictor, "predict_proba"):
            found = [model.call("predict_proba", x, len(classes))[1] for x in samples]
            np.testing.assert_allclose(found, predictor.predict_proba(case.X)[:SOME], atol=share * 10)


@needs_gcc
def test_c_checks_and_fills(tmp_path):
    case = case_of("TermwiseRegressor frame")
    filled = case.predictor.with_fill({"speed": case.rows[0][0], "kind": case.rows[0][4]})
    sources = [c.source(p._program, name=n) for p, n in ((case.predictor, "plain"), (filled, "filled"))]
    lagged = cases_of(LagBasis)[0].predictor
    library = compiled([*sources, c.source(lagged._program, name="series")], tmp_path, "checked")
    plain, full = (CompiledModel(library, n, case.predictor, "float64") for n in ("plain", "filled"))
    row = coded(case)[0]
    assert plain.call("predict", row, 1)[0] == 0
    for place, value, status in ((0, np.nan, 1), (0, np.inf, 1), (4, np.nan, 5)):
        assert plain.call("predict", [*row[:place], value, *row[place + 1 :]], 1)[0] == status
    unknown = case.predictor.predict(FRAME[:1].assign(kind="q"))[0]
    for value in (3.0, 0.5, -1.0):  # any other number is an unknown category
        found = plain.call("predict", [*row[:4], value, row[5]], 1)
        assert found[0] == 0
        np.testing.assert_allclose(found[1], unknown, rtol=1e-12)
    assert full.call("predict", [np.nan, *row[1:4], np.nan, row[5]], 1) == plain.call("predict", row, 1)
    rows = (lagged._program.lags.longest + 1) * 4
    series = CompiledModel(library, "series", lagged, "float64")
    assert series.call("predict", [np.nan] * rows, 2)[0] == 1


AWKWARD = ["*/ int $real", '"quoted\\"', "??/ trigraph $exp(", "naïve 日本", "/* a /* b"]


@pytest.mark.slow
@needs_gcc
def test_awkward_names_do_no_harm(tmp_path):
    table = pd.DataFrame(X, columns=AWKWARD[:4])
    table[AWKWARD[4]] = pd.Categorical([AWKWARD[i % 5] for i in range(N)])
    labels = np.array([AWKWARD[i % 5] for i in range(N)])
    predictor = TermwiseClassifier(8, dictionary="linear", target="data").fit(table, labels).predictor_
    library = compiled([c.source(predictor._program, name="awkward")], tmp_path, "awkward")
    names = (ctypes.c_char_p * 5).in_dll(library, "awkward_classes")
    assert [name.decode() for name in names] == predictor.classes
    rows = table.to_numpy(dtype=object).tolist()
    module = module_of(predictor)
    assert [module.predict(row) for row in rows] == predictor.predict(table).tolist()
    answers = run_onnx(graph.source(predictor._program), table, np.float64)
    assert answers["label"].tolist() == predictor.predict(table).tolist()
    predictor.save(tmp_path / "m.json")


def test_c_says_what_goes_in_and_what_comes_out(tmp_path):
    case = case_of("TermwiseClassifier frame")
    case.predictor.with_fill({"speed": 0.25}).export(tmp_path / "model.c", name="plant", dtype="float32")
    text = (tmp_path / "model.c").read_text(encoding="utf-8")
    assert "int plant_predict(const float *x, int *label);" in text
    assert " * x holds 6 inputs:\n" in text
    assert " *     x[0]  speed; 0.25 where it is NaN" in text
    assert " is the number of a category: 0 u, 1 v, 2 w" in text
    assert "label receives the number of a class: 0 no, 1 yes;" in text
    assert "malloc" not in text
    assert [line for line in text.splitlines() if line.startswith("#include")] == ["#include <math.h>"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float16"}, "dtype must be one of 'float64', 'float32', got 'float16': double or float"),
        ({"name": "2fast"}, "name must be a name of C, got '2fast': letters, digits and underscores, a letter first"),
        ({"name": None}, "name must be a name of C, got None"),
        ({"name": "int"}, "name must not be a keyword of C or C\\+\\+, got 'int': add a word, as in 'int_model'"),
        ({"name": "class"}, "name must not be a keyword of C or C\\+\\+, got 'class'"),
    ],
)
def test_c_refuses_bad_options(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        case_of("empty").predictor.export(tmp_path / "model.c", **options)
    assert not list(tmp_path.iterdir())


MAIN = """
#include <stdio.h>
#include "plant.h"
#include "plant.h"

int main(void)
{
    double x[PLANT_N_INPUTS] = {0};
    double y[PLANT_N_OUTPUTS];
    int label = -1;
    const int status = plant_predict(x, &label);
    printf("%d %d %d %s\\n", status, label, plant_decision_function(x, y), plant_classes[PLANT_N_CLASSES - 1]);
    return 0;
}
"""


@needs_gcc
def test_header_beside_the_c_file(tmp_path):
    predictor = ForwardClassifier(max_terms=2, criterion=None).fit(X, TWO).predictor_
    predictor.export(tmp_path / "plant.c", name="plant", gradient=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plant.c", "plant.h"]
    (tmp_path / "main.c").write_text(MAIN)
    flags = [flag for flag in FLAGS if flag not in ("-shared", "-fPIC")]
    sources = [str(tmp_path / name) for name in ("main.c", "plant.c")]
    subprocess.run(["gcc", *flags, "-o", str(tmp_path / "main"), *sources, "-lm"], check=True)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True)
    number = predictor.classes.index(predictor.predict(np.zeros((1, 4)))[0])
    assert done.stdout.split() == ["0", str(number), "0", "yes"]
    text = (tmp_path / "plant.h").read_text(encoding="utf-8")
    assert "int plant_gradient(const double *x, double *g);" in text
    predictor.export(tmp_path / "plant.c", name="plant")  # its own header is replaced
    assert "gradient" not in (tmp_path / "plant.h").read_text(encoding="utf-8")
    if shutil.which("g++"):
        (tmp_path / "main.cpp").write_text(MAIN.replace("<stdio.h>", "<cstdio>"))
        subprocess.run(
            ["g++", "-Wall", "-Werror", "-c", "-o", str(tmp_path / "o"), str(tmp_path / "main.cpp")], check=True
        )
    series = cases_of(LagBasis)[0].predictor
    assert f"#define MODEL_N_ROWS {series._program.lags.longest + 1}\n" in c.header(series._program)


def test_header_of_others_is_kept(tmp_path):
    (tmp_path / "model.h").write_text("int mine;\n")
    predictor = BasisRidge(alpha=0).fit(X, y).predictor_
    with pytest.raises(ValueError, match="must be free for the header of the model, got a file that termwise did not"):
        predictor.export(tmp_path / "model.c")
    assert [path.name for path in tmp_path.iterdir()] == ["model.h"]
    predictor.export(tmp_path / "other.h", to="c")
    assert "#include <math.h>" in (tmp_path / "other.h").read_text()


@pytest.mark.skipif(shutil.which("cppcheck") is None, reason="cppcheck is not installed")
@pytest.mark.exhaustive
def test_misra_findings_are_those_listed(tmp_path):
    names = ["TermwiseRegressor frame", "TermwiseClassifier frame", "counts", "quantiles", "levels", NAMES[0]]
    for i, name in enumerate(name for name in names if name in NAMES):
        case_of(name).predictor.export(tmp_path / f"m{i}.c", name=f"m{i}", gradient=i % 2 == 0)
    sources = sorted(map(str, tmp_path.glob("*.c")))
    template = ["--template={id}", "--suppress=missingIncludeSystem"]
    done = subprocess.run(
        ["cppcheck", "-q", "--std=c99", "--addon=misra", *template, *sources], capture_output=True, text=True
    )
    found = {line for line in done.stderr.split() if line.startswith("misra")}
    page = (Path(__file__).parents[1] / "docs" / "howto" / "microcontroller.md").read_text(encoding="utf-8")
    assert found <= {f"misra-c2012-{rule}" for rule in re.findall(r"^\| (\d+\.\d+) \|", page, flags=re.MULTILINE)}


def test_numbers_beyond_float32_are_refused():
    predictor = BasisRidge(alpha=0).fit(X, y * 1e60).predictor_
    with pytest.raises(ValueError, match="dtype must be 'float64' for this model, got 'float32', which cannot hold"):
        c.source(predictor._program, "float32")
    with pytest.raises(ValueError, match="dtype must be 'float64' for this model, got 'float32', which cannot hold"):
        graph.source(predictor._program, "float32")


@needs_gcc
def test_trigraphs_and_long_labels_in_c(tmp_path):
    table = pd.DataFrame(X[:, :2], columns=["why???/", "??/*/"])
    labels = np.where(y > y.mean(), "a" * 5000 + "\"'\\é", "b??/")
    predictor = ForwardClassifier(max_terms=2, criterion=None).fit(table, labels).predictor_
    library = compiled([c.source(predictor._program)], tmp_path, "long", ["-Wtrigraphs", "-Woverlength-strings"])
    names = (ctypes.c_char_p * 2).in_dll(library, "model_classes")
    assert [name.decode() for name in names] == predictor.classes


def test_a_column_without_a_name_beside_categories_in_onnx():
    pytest.importorskip("onnx")
    table = FRAME.rename(columns={"kind": "x0", "speed": ""})[["", "x0"]]
    predictor = BasisRidge(TableEncoder()).fit(table, y).predictor_
    answers = run_onnx(graph.source(predictor._program), table.rename(columns={"": "x1"}), np.float64)
    np.testing.assert_allclose(np.ravel(answers["prediction"]), predictor.predict(table), rtol=1e-12)


def test_categories_that_are_not_finite_cannot_be_exported():
    table = pd.DataFrame({"size": pd.Categorical([1.0, np.inf] * 30), "a": X[:, 0]})
    with pytest.raises(TypeError, match=r"categories of size must be strings, finite numbers or booleans .* got inf"):
        _ = BasisRidge(TableEncoder()).fit(table, y).predictor_


def test_columns_may_be_called_like_outputs_of_onnx():
    pytest.importorskip("onnx")
    table = FRAME.rename(columns={"kind": "label", "speed": "scores", "load": "constant_0", "heat": "sub_3"})
    predictor = TermwiseClassifier(6, dictionary="additive").fit(table, TWO).predictor_
    answers = run_onnx(graph.source(predictor._program), table, np.float64)
    assert list(answers) == ["label_", "probabilities", "scores_"]
    assert answers["label_"].tolist() == predictor.predict(table).tolist()


# -- ONNX --------------------------------------------------------------------------------------------------------------


def run_onnx(model, table, dtype):
    """Run a graph on a table, one input per column where it asks for those; return its outputs by name."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    asked = session.get_inputs()
    kinds = {"tensor(string)": object, "tensor(int64)": np.int64, "tensor(bool)": bool}
    if len(asked) == 1:
        feed = {asked[0].name: np.asarray(table, dtype=dtype)}
    else:
        feed = {one.name: np.asarray(table[[one.name]]).astype(kinds.get(one.type, dtype)) for one in asked}
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, feed), strict=True))


SHORTER = [(name, "float32") for i, name in enumerate(NAMES) if i % 3 == 0 or i >= 126]


@pytest.mark.parametrize(("name", "dtype"), [(name, "float64") for name in NAMES] + SHORTER)
def test_onnx(name, dtype):
    pytest.importorskip("onnx")
    case = case_of(name)
    classes, share = hasattr(case.model, "classes_"), EXACT if dtype == "float64" else SHORT
    model = graph.source(case.predictor._program, dtype)
    batch = run_onnx(model, case.X, dtype)
    outputs, expected = batch["scores" if classes else "prediction"], case.outputs()
    assert outputs.shape == expected.shape
    assert outputs.dtype == dtype
    agree(case, outputs, expected, share)
    single = run_onnx(model, case.X[:1], dtype)
    for key, values in single.items():
        assert values.shape == (1, *batch[key].shape[1:])
    agree(case, single["scores" if classes else "prediction"], expected[:1], share, slice(1))
    if classes and dtype == "float64":
        assert batch["label"].tolist() == case.model.predict(case.X).tolist()
    assert ("probabilities" in batch) == hasattr(case.model, "predict_proba")
    if "probabilities" in batch:
        np.testing.assert_allclose(batch["probabilities"], case.model.predict_proba(case.X), atol=share * 10)


def test_onnx_says_what_it_is(tmp_path):
    onnx = pytest.importorskip("onnx")
    case_of("TermwiseClassifier frame").predictor.export(tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    assert {(one.domain, one.version) for one in model.opset_import} == {("", 17), ("ai.onnx.ml", 3)}
    assert [one.name for one in model.graph.input] == list(FRAME.columns)
    assert [one.name for one in model.graph.output] == ["label", "probabilities", "scores"]
    assert model.metadata_props[0].value == ", ".join(FRAME.columns)
    with pytest.raises(
        ValueError, match="dtype must be one of 'float64', 'float32', got 'half': the first is as exact"
    ):
        case_of("empty").predictor.export(tmp_path / "model.onnx", dtype="half")


def test_onnx_fills_and_takes_all_kinds_of_categories():
    pytest.importorskip("onnx")
    table = pd.DataFrame({
        "text": pd.Categorical(["a", "b", "c"] * 20),
        "whole": pd.Categorical([1, 5] * 30),
        "truth": pd.Categorical([True, False, False] * 20),
        "number": np.linspace(0, 1, 60),
    })  # fmt: skip
    target = table["number"] + (table["text"] == "b") + 2 * (table["whole"] == 5) - 3 * (table["truth"] == True)  # noqa: E712
    predictor = BasisRidge(TableEncoder(), alpha=1e-3).fit(table, target).predictor_
    plain = table.astype({"text": object, "whole": int, "truth": bool})
    found = run_onnx(graph.source(predictor._program), plain, np.float64)["prediction"]
    np.testing.assert_allclose(found, predictor.predict(table), rtol=1e-12)
    filled = predictor.with_fill({"number": 0.5, "text": "c"})
    holes = plain.assign(number=np.nan, text="")
    expected = filled.predict(plain.assign(number=np.nan, text=None))
    found = run_onnx(graph.source(filled._program), holes, np.float64)["prediction"]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    numbers = BasisRidge().fit(X, y).predictor_.with_fill({"x1": 0.5})
    some = X.copy()
    some[::3, 1] = np.nan
    found = run_onnx(graph.source(numbers._program), some, np.float64)["prediction"]
    np.testing.assert_allclose(found, numbers.predict(some), rtol=1e-12)
    odd = pd.DataFrame({"k": pd.Categorical([0.5, 1.5] * 5)})
    predictor = BasisRidge(TableEncoder()).fit(odd, np.arange(10.0)).predictor_
    with pytest.raises(
        ValueError, match=r"categories of k must be all strings, all whole numbers or all booleans in O"
    ):
        graph.source(predictor._program)


def test_onnx_of_numbers_that_predict_rejects():
    pytest.importorskip("onnx")
    table = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(a=lambda t: t.a.where(np.arange(N) % 4 > 0))
    target = table.a.fillna(2.0) + 3 * table.b
    rows = pd.DataFrame({"a": [0.5, 0.5, 0.5, np.nan, np.inf], "b": [0.1, np.nan, -np.inf, 0.1, 0.1]})
    linear = TermwiseRegressor(2, dictionary="linear", target="data", cv=3)
    steps = ForwardRegressor(AnovaBasis(functions=("step",)), max_terms=2, criterion=None)
    for model, data in ((linear, table), (steps, table.fillna(0.0))):
        predictor = model.fit(data, target).predictor_
        assert predictor.used_inputs == ["a", "b"]
        found = run_onnx(graph.source(predictor._program), rows, np.float64)["prediction"]
        valid = [0, 3] if model is linear else [0]
        assert np.flatnonzero(~np.isnan(found)).tolist() == valid
        np.testing.assert_allclose(found[valid], predictor.predict(rows.iloc[valid]), rtol=1e-12)
    series = ForwardRegressor(make_pipeline(LagBasis(1), AnovaBasis(functions=("step",))), max_terms=3, criterion=None)
    past = pd.DataFrame(X[:, :1], columns=["x"])
    predictor = series.fit(past, np.roll(X[:, 0], 1) > 0).predictor_
    past.loc[[3, N - 1], "x"] = np.nan  # the newest value is not used
    found = run_onnx(graph.source(predictor._program), past, np.float64)["prediction"]
    assert np.flatnonzero(np.isnan(found)).tolist() == [4]
    mixed = table.assign(kind=FRAME["kind"].astype(str))
    classifier = TermwiseClassifier(4, dictionary="linear", cv=3).fit(mixed, TWO).predictor_
    found = run_onnx(graph.source(classifier._program, "float32"), rows.assign(kind="u"), np.float32)
    rejected = [j for j in range(5) if not np.isfinite(found["scores"][j])]
    assert rejected == [j for j in (1, 2, 4) if ("a" if j == 4 else "b") in classifier.used_inputs] != []
    assert np.isnan(found["probabilities"]).any(axis=1).nonzero()[0].tolist() == rejected


# -- whole pipelines by skl2onnx ---------------------------------------------------------------------------------------


def pipelines():
    yield "columns", BasisRidge(), Y
    yield "gaussians", make_pipeline(StandardScaler(), ForwardRegressor(RadialBasis(width=2.0))), y
    yield "smooth", make_pipeline(SmoothBasis(centers=9), ForwardRegressor()), y
    union = UnionBasis([AnovaBasis(2), SmoothBasis(centers=9)])
    yield "union", make_pipeline(union, ForwardRegressor()), y
    sides = FeatureUnion([("components", PCA(2)), ("union", union)], transformer_weights={"union": 2.0})
    yield "union of features", make_pipeline(sides, BasisRidge()), y
    yield "components", make_pipeline(PCA(3), BasisRidge(AnovaBasis(n_centers=2))), Y
    yield "two classes", make_pipeline(StandardScaler(), AnovaBasis(n_centers=2), ForwardClassifier()), TWO
    yield "truth values", make_pipeline(LogisticBasis(9), TermwiseClassifier(3, dictionary="linear")), y > 0
    yield (
        "three classes",
        make_pipeline(FourierBasis(1), TermwiseClassifier(3, dictionary="linear")),
        y.round().clip(-1, 1),
    )
    yield "several classes", ForwardClassifier(RadialBasis(centers=9)), np.digitize(y, [-0.7, 0.7])
    yield "search", CriterionSearch(ForwardClassifier(RadialBasis(centers=9)), {"basis__width": [1.0, 3.0]}), TWO
    yield "series", make_pipeline(LagBasis(2), BasisRidge()), y
    yield "a basis only skl2onnx knows", ForwardRegressor(PCA(3), max_terms=2), y
    yield "nothing of it", ForwardRegressor(PCA(3)), None
    bins = KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf")
    yield "bins and Gaussians", BasisRidge(make_pipeline(bins, RadialBasis(centers=5))), y
    yield "polynomials", ForwardClassifier(PolynomialFeatures(2), max_terms=4), TWO


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("model", "target"), [p[1:] for p in pipelines()], ids=[p[0] for p in pipelines()])
@pytest.mark.filterwarnings("ignore:Feature .* is constant")
def test_pipelines_by_skl2onnx(model, target, dtype):
    pytest.importorskip("skl2onnx")
    from termwise.deploy.onnx import to_onnx

    model = model.fit(X, y).at(0) if target is None else model.fit(X, target)
    table = X.astype(dtype)
    answers = list(run_onnx(to_onnx(model, table[:1]).SerializeToString(), table, dtype).values())
    tolerance = 1e-11 if dtype == "float64" else 1e-3
    if not hasattr(model, "classes_"):
        expected = model.predict(X)
        np.testing.assert_allclose(answers[0].reshape(expected.shape), expected, rtol=tolerance, atol=tolerance)
        assert answers[0].dtype == dtype
        return
    label, columns = answers
    assert columns.shape == (N, len(model.classes_))
    if dtype == "float64":
        found = [one if isinstance(one, str) and target.dtype.kind == "U" else float(one) for one in label.tolist()]
        assert found == model.predict(X).tolist()
    proba = hasattr(model, "predict_proba")
    expected = model.predict_proba(X) if proba else model.decision_function(X)
    found = columns if expected.ndim == 2 else columns[:, 1]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["pipeline encoded", "TermwiseRegressor frame", "TermwiseClassifier frame"])
def test_tables_by_skl2onnx(name):
    pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    from termwise.deploy.onnx import to_onnx

    case = case_of(name)
    kinds = {"kind": StringTensorType, "level": Int64TensorType}
    types = [(column, kinds.get(column, DoubleTensorType)([None, 1])) for column in FRAME.columns]
    model = to_onnx(case.model, initial_types=types, options=None)
    answers = list(run_onnx(model.SerializeToString(), FRAME, np.float64).values())
    if hasattr(case.model, "classes_"):
        np.testing.assert_allclose(answers[1], case.model.predict_proba(FRAME), atol=1e-12)
        assert answers[0].tolist() == case.model.predict(FRAME).tolist()
    else:
        np.testing.assert_allclose(answers[0][:, 0], case.model.predict(FRAME), rtol=1e-11, atol=1e-11)


def test_numbers_column_by_column_by_skl2onnx():
    pytest.importorskip("skl2onnx")
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    from termwise.deploy.onnx import to_onnx

    numbers = FRAME[["speed", "load", "heat", "noise"]]
    model = BasisRidge(AnovaBasis(n_centers=2)).fit(numbers, y)
    columns = [(name, DoubleTensorType([None, 1])) for name in numbers]
    found = run_onnx(to_onnx(model, initial_types=columns).SerializeToString(), numbers, np.float64)["variable"]
    np.testing.assert_allclose(found[:, 0], model.predict(numbers), rtol=1e-11, atol=1e-11)
    blocks = [("a", FloatTensorType([None, 1])), ("b", FloatTensorType([None, 3]))]
    for one in (model, make_pipeline(AnovaBasis(n_centers=2), BasisRidge()).fit(X, y)):
        graph_ = to_onnx(one, initial_types=blocks).SerializeToString()
        session = pytest.importorskip("onnxruntime").InferenceSession(graph_, providers=["CPUExecutionProvider"])
        short = X.astype(np.float32)
        (found,) = session.run(None, {"a": short[:, :1], "b": short[:, 1:]})
        table = numbers if one is model else X
        np.testing.assert_allclose(found[:, 0], one.predict(table), rtol=1e-3, atol=1e-3)


def test_old_opsets_are_refused():
    pytest.importorskip("skl2onnx")
    from termwise.deploy.onnx import register, to_onnx

    register()
    register()
    with pytest.raises(
        ValueError, match="target_opset must be at least 17 for the estimators of termwise, got 12: leave"
    ):
        to_onnx(BasisRidge().fit(X, y), X[:1], target_opset=12)


def test_without_onnx_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        ImportError, match=r"Writing ONNX needs onnx, which is not installed: pip install 'termwise\[onnx\]'"
    ):
        case_of("empty").predictor.export(tmp_path / "model.onnx")
