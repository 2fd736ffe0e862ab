"""Every example in a docstring and every Python block of the README and of the pages in docs runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import termwise

ROOT = Path(__file__).parents[1]
MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(termwise.__path__, "termwise.")
    if not info.name.startswith("termwise.benchmarks") and info.name != "termwise.__main__"
)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_most_modules_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [e for name in MODULES for t in finder.find(importlib.import_module(name)) for e in t.examples]
    assert len(examples) > 40


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_pages_run(page, capsys):
    found = blocks(page)
    assert found
    names: dict = {}
    for block in found:
        exec(compile(block, page, "exec"), names)
    if page == "README.md":
        shows_what_is_printed(capsys.readouterr().out)


def shows_what_is_printed(output):
    """The README's example output has the terms and the first line that are printed: last digits may differ."""
    printed = {line.split("  ")[0] for line in output.splitlines()}
    (shown,) = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    terms = shown.split("std. error\n")[1].splitlines()
    assert {line.split("  ")[0] for line in terms} <= printed
    assert shown.splitlines()[0] in printed


def test_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
