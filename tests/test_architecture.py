"""Public names, their documentation, and an import that stays light."""

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


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1]) if parts[-1] == "__init__" and len(parts) > 1 else ".".join(parts)


FILES = {module_name(path): path for path in SOURCE.rglob("*.py")}


def test_no_private_module_of_scikit_learn_is_imported():
    for path in FILES.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
                assert not any(part.startswith("_") for part in names), f"{path}: {node.module}"


OF_LIBRARIES = {"_exit", "_getframe", "_fields", "_replace", "_utils", "_get_gpu_runtime_library", "_compile_kernel",
                "_init_callback_context", "_repr_html_", "_repr_mimebundle_"}  # fmt: skip


def test_private_attributes_are_read_where_they_are_defined():
    """A class may read those of its own other objects; nothing outside its module does."""
    for path in FILES.values():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        of_self = [node for node in attributes if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")]
        own |= {node.attr for node in of_self if isinstance(node.ctx, ast.Store)}
        own |= {node.target.id for node in ast.walk(tree)
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}  # fmt: skip
        for node in attributes:
            if node.attr.startswith("_") and not node.attr.startswith("__") and node not in of_self:
                through_super = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super"
                assert through_super or node.attr in own | OF_LIBRARIES, f"{path}:{node.lineno}"


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
