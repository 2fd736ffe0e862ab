"""The layout as data: a module imports only from modules above it, and importing termwise stays light."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import termwise

SOURCE = Path(termwise.__file__).parent

# The way the data goes, top to bottom. A package's __init__ counts with its last module.
ORDER = [
    "_arrays",
    "_checks",
    "_dask",
    "_callbacks",
    "_memory",
    "datasets",
    "design",
    "streamed",
    "products",
    "files",
    "reader",
    "basis._terms",
    "basis._scale",
    "basis._relevance",
    "basis.radial",
    "basis.smooth",
    "basis.anova",
    "basis.waves",
    "basis.lag",
    "basis.union",
    "basis.table",
    "basis",
    "program.plain",
    "program.steps",
    "program.chain",
    "program.outputs",
    "program.inputs",
    "program.program",
    "program.freeze",
    "program.document",
    "program",
    "export.precision",
    "export.c",
    "export.graph",
    "export.python",
    "export",
    "predictor",
    "selection.criteria",
    "selection.path",
    "selection.blocks",
    "selection.executor",
    "selection.known",
    "selection.dask",
    "selection.different",
    "selection.state",
    "selection.directions",
    "selection.rules",
    "selection.curvature",
    "selection.leave_one_out",
    "selection.kfold",
    "selection.loo_error",
    "selection.settings",
    "selection.ending",
    "selection.swap",
    "selection.engine",
    "selection",
    "solution",
    "two_stages",
    "reading",
    "model",
    "stepped",
    "labels",
    "clustered",
    "ridge.spectrum",
    "ridge.reestimate",
    "ridge.global_ridge",
    "ridge.local_ridge",
    "ridge",
    "forward",
    "flagship.dictionaries",
    "flagship.nested",
    "flagship.smoothing",
    "flagship.pooling",
    "flagship.honest",
    "flagship.model",
    "flagship.estimators",
    "flagship",
    "thresholding",
    "evidence",
    "prefilter.swarm",
    "prefilter.signal",
    "prefilter.stages",
    "prefilter.width",
    "prefilter.classifier",
    "prefilter",
    "online.factor",
    "online.samples",
    "online.estimator",
    "online",
    "search",
    "export.onnx",
    "effects",
    "diagnostics.plain",
    "diagnostics.unwrap",
    "diagnostics.along",
    "diagnostics.comparison",
    "diagnostics.averages",
    "diagnostics.shown",
    "diagnostics.collect",
    "diagnostics.frozen",
    "diagnostics",
    "plots.style",
    "plots.shape",
    "plots.path",
    "plots.criterion",
    "plots.fit",
    "plots",
    "report.view",
    "report.page",
    "report",
    "tables.source",
    "tables.notation",
    "tables.layout",
    "tables.reading",
    "tables.task",
    "tables.inputs",
    "tables",
    "cli.screen",
    "cli.recipes",
    "cli.fitting",
    "cli.using",
    "cli.demo",
    "cli.benches",
    "cli",
    "_public",
    "__init__",
    "__main__",
]


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1]) if parts[-1] == "__init__" and len(parts) > 1 else ".".join(parts)


def imported_modules(path: Path) -> set[str]:
    """Names of termwise's own modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "termwise":
            base = node.module.removeprefix("termwise").lstrip(".")
            found |= {base} if base else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("termwise.") for a in node.names if a.name.startswith("termwise")}
    return found


FILES = {module_name(path): path for path in SOURCE.rglob("*.py")}


def test_every_module_has_its_place():
    assert set(FILES) == set(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_modules_import_only_from_above(name):
    above = set(ORDER[: ORDER.index(name)])
    assert imported_modules(FILES[name]) <= above


def test_no_private_module_of_scikit_learn_is_imported():
    for path in FILES.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
                assert not any(part.startswith("_") for part in names), f"{path}: {node.module}"


def test_import_is_light():
    code = (
        "import sys, termwise; "
        "print([m for m in ('matplotlib', 'torch', 'dask', 'onnx', 'typer', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_exist_and_are_documented():
    for name in termwise.__all__:
        thing = getattr(termwise, name)
        assert inspect.getdoc(thing), name
        if not inspect.ismodule(thing):
            assert "Examples" in thing.__doc__, name


ESTIMATORS = [name for name in termwise.__all__ if isinstance(getattr(termwise, name), type)]
ESTIMATORS = [name for name in ESTIMATORS if issubclass(getattr(termwise, name), BaseEstimator)]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_docstrings_name_every_parameter(name):
    cls = getattr(termwise, name)
    for parameter in inspect.signature(cls).parameters:
        assert f"    {parameter} : " in cls.__doc__, f"{name}.{parameter}"
    for method_name, method in inspect.getmembers(cls, inspect.isfunction):
        if method_name.startswith("_") or not method.__module__.startswith("termwise"):
            continue
        doc = inspect.getdoc(method) or ""
        assert doc, f"{name}.{method_name}"
        for parameter in list(inspect.signature(method).parameters)[1:]:
            assert parameter in doc, f"{name}.{method_name}({parameter})"


def test_version_agrees_with_the_metadata():
    from importlib.metadata import version

    assert termwise.__version__ == version("termwise")
