"""Every example in a docstring, every Python block and every cheap command of the pages runs.

The scripts of the gallery are run by `make docs`, which draws their pictures and fails with them.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import termwise
from termwise.cli import app

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(termwise.__path__, "termwise.")
    if not info.name.startswith("termwise.benchmarks") and info.name != "termwise.__main__"
)
GENERATED = ("_build", "gallery", "reference")
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if not set(GENERATED) & set(Path(page).parts)]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_most_modules_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [e for name in MODULES for t in finder.find(importlib.import_module(name)) for e in t.examples]
    assert len(examples) > 40


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, *languages: str) -> list[tuple[str, str]]:
    """Languages and texts of the blocks of a page, in order."""
    return re.findall(rf"```({'|'.join(languages)})\n(.*?)```", read(page), flags=re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_blocks_of_pages_run(page, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # some write files
    monkeypatch.setattr("typer.launch", lambda *_: 0)
    write_houses(tmp_path / "houses.csv")
    module = types.ModuleType("page_of_the_documentation")  # a real one, so that its classes can be pickled
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for language, block in blocks(page, "python", "console"):
        if language == "python":
            exec(compile(block, page, "exec"), vars(module))
        else:
            run_commands(block)
    if page == "README.md":
        shows_what_is_printed(capsys.readouterr().out)


def write_houses(path):
    """Write the table that commands for a table of one's own are shown with."""
    rng = np.random.default_rng(0)
    rooms, age = rng.integers(1, 8, size=90), rng.uniform(0, 100, size=90)
    rows = np.column_stack([rooms, age, 50 * rooms - age + rng.normal(size=90)])
    np.savetxt(path, rows, delimiter=",", header="rooms,age,price", comments="", fmt="%.4g")


def run_commands(block):
    """Run those of termwise's commands that take a moment only; what they read is houses.csv or made before them."""
    for line in re.findall(r"^\$ termwise ((?:fit|predict|report|export) .*)$", block, flags=re.MULTILINE):
        result = CliRunner().invoke(app, shlex.split(line, comments=True))
        assert result.exit_code == 0, f"{line}\n{result.output}"


def shows_what_is_printed(output):
    """The README's example output has the terms and the first line that are printed: last digits may differ."""
    printed = {line.split("  ")[0] for line in output.splitlines()}
    ((_, shown),) = blocks("README.md", "text")
    terms = shown.split("std. error\n")[1].splitlines()
    assert {line.split("  ")[0] for line in terms} <= printed
    assert shown.splitlines()[0] in printed


def test_readme_names_the_two_commands():
    text = read("README.md")
    assert "make demo" in text
    assert "make test" in text


def test_everything_public_is_in_the_reference():
    listed = set(re.findall(r"^   (\w+)$", read("docs/api.md"), flags=re.MULTILINE))
    public = {name for name in termwise.__all__ if not isinstance(getattr(termwise, name), types.ModuleType)}
    assert public <= listed
