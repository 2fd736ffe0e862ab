"""Examples in docstrings, Python blocks and fast commands of the pages run; the numbers of the README are measured.

The gallery is run by `make docs`, which fails if an example does.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import shlex
import sys
import tomllib
import types
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import termwise
from termwise.cli import app

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
result_tables = importlib.import_module("result_tables")  # does not need Sphinx

MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(termwise.__path__, "termwise.")
    if not info.name.startswith("termwise.benchmarks") and info.name != "termwise.__main__"
)
GENERATED = ("_build", "gallery", "reference")
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if not set(GENERATED) & set(Path(page).parts)]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "termwise.recipe" else ()) for name in MODULES]
)
def test_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_most_modules_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [e for name in MODULES for t in finder.find(importlib.import_module(name)) for e in t.examples]
    assert len(examples) > 40


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, *languages: str) -> list[tuple[str, str]]:
    """Return language and content of the code blocks of a page, in order."""
    return re.findall(rf"```({'|'.join(languages)})\n(.*?)```", read(page), flags=re.DOTALL)


EXHAUSTIVE_PAGES = (  # the block of docs/index.md is in the README, too
    "docs/export.md",
    "docs/howto/classification.md",
    "docs/index.md",
    "docs/methods/flagship.md",
    "docs/scaling.md",
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.exhaustive if page in EXHAUSTIVE_PAGES else ())
        for page in PAGES
        if blocks(page, "python")
    ],
)
def test_blocks_of_pages_run(page, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # some blocks write files
    monkeypatch.setattr("typer.launch", lambda *_: 0)
    write_houses(tmp_path / "houses.csv")
    module = types.ModuleType("page_of_the_documentation")  # a registered module, so that its classes can be pickled
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for language, block in blocks(page, "python", "console"):
        if language == "python":
            exec(compile(block, page, "exec"), vars(module))
        else:
            run_commands(block)
    if page == "README.md":
        check_terms_shown(capsys.readouterr().out)


def write_houses(path):
    """Write the sample table of the console blocks."""
    rng = np.random.default_rng(0)
    rooms, age = rng.integers(1, 8, size=90), rng.uniform(0, 100, size=90)
    rows = np.column_stack([rooms, age, 50 * rooms - age + rng.normal(size=90)])
    np.savetxt(path, rows, delimiter=",", header="rooms,age,price", comments="", fmt="%.4g")


def run_commands(block):
    """Run the fast commands of a console block, which read houses.csv or files written by earlier blocks."""
    for line in re.findall(r"^\$ termwise ((?:fit|predict|explain|report|export) .*)$", block, flags=re.MULTILINE):
        result = CliRunner().invoke(app, shlex.split(line, comments=True))
        assert result.exit_code == 0, f"{line}\n{result.output}"


def check_terms_shown(output):
    """Check that the README shows the terms that its example prints, where last digits may differ."""
    ((_, shown),) = blocks("README.md", "text")
    terms = [line.split("  ")[0] for line in shown.split("std. error given the terms\n")[1].splitlines()]
    assert set(terms) <= {line.split("  ")[0] for line in output.splitlines()}


def test_readme_is_short_and_names_the_commands():
    text = read("README.md")
    assert "make demo" in text
    assert "make test" in text
    assert len(text.splitlines()) <= 150


def lower_than_both_others():
    """On how many of the unseen tables `size="accurate"` has a lower error than kernel ridge and boosting."""
    errors = {(r["set"], r["who"]): r["error"] for r in result_tables.select("fresh", "part=regression")}
    tables = {name for name, _ in errors}
    others = ("kernel ridge", "gradient boosting")
    wins = sum(errors[name, "accurate"] < min(errors[name, other] for other in others) for name in tables)
    return f"**{wins} of {len(tables)}**"


README_NUMBERS = {  # beginning of a row of the table: what it must contain, taken from the committed results
    "| Error on 15 tables": (
        [lower_than_both_others],
        "fresh; part=regression; who=accurate; set=Carseats; {machine}",
    ),
    "| A loss": (
        [
            "fresh; set=concrete; who=accurate; {error:.3f} with {terms:.0f} terms",
            "fresh; set=concrete; who=gradient boosting; gradient boosting **{error:.3f}**",
        ],
        "fresh; set=concrete; who=accurate; {machine}",
    ),
    "| Error on puma32H": (
        [
            "recipe; set=puma32H; who=small; **{error:.3f}** with {terms:.0f} terms",
            "recipe; set=puma32H; who=gradient boosting; gradient boosting {error:.3f}",
            "recipe; set=puma32H; who=kernel ridge; kernel ridge {error:.3f}",
        ],
        "recipe; set=puma32H; who=small; {machine}",
    ),
    "| Selection by exact leave-one-out": (
        [
            "forward; case=tall; method=termwise loo; data=signal; {n:,} x {p:,}, {terms} terms",
            "forward; case=tall; method=termwise loo; data=signal; **{seconds:.2f} s**",
            "forward; case=tall; method=termwise loo; data=noise; {seconds:.2f} s on pure noise",
            "forward; case=tall; method=scikit-learn OMP, Gram; {seconds:.2f} s",
        ],
        "forward; case=tall; method=termwise loo; data=signal; {machine}",
    ),
    "| The same on a GPU": (
        [
            "gpu; case=large; library=torch; dtype=float64; precompute=auto; {n:,} x {p:,}, {terms} terms",
            "gpu; case=large; library=torch; dtype=float64; precompute=auto; **{seconds:.2f} s**",
        ],
        "gpu; case=large; library=torch; dtype=float64; precompute=auto; {machine}",
    ),
}


def test_readme_has_five_numbers():
    table = read("README.md").split("## Five numbers")[1].split("## ")[0]
    assert len(re.findall(r"^\| (?!What)", table, flags=re.MULTILINE)) == len(README_NUMBERS) == 5


@pytest.mark.parametrize("start", README_NUMBERS)
def test_numbers_of_the_readme_are_committed_results(start):
    (row,) = [line for line in read("README.md").splitlines() if line.startswith(start)]
    expected, machine = README_NUMBERS[start]
    for one in expected:
        assert (one() if callable(one) else result_tables.value(one)) in row
    shown = row.rstrip("| ").rsplit(", ", 1)[1]  # "2 cores of AMD EPYC", or the device
    assert shown in result_tables.value(machine)


PAPER_NUMBERS = [
    lower_than_both_others,
    "recipe; set=puma32H; who=small; {error:.3f} of the variance with {terms:.0f} terms",
    "recipe; set=puma32H; who=gradient boosting; {error:.3f} with gradient boosting",
    "forward; case=tall; method=termwise loo; data=signal; {terms} of {p:,} columns with {n:,} samples",
    "forward; case=tall; method=termwise loo; data=signal; {seconds:.2f} s on two cores",
    "forward; case=tall; method=scikit-learn OMP, Gram; takes {seconds:.2f} s",
]


@pytest.mark.parametrize("number", PAPER_NUMBERS)
def test_numbers_of_the_paper_are_committed_results(number):
    expected = number().strip("*") if callable(number) else result_tables.value(number)
    assert expected in " ".join(read("paper/paper.md").split())


RESULT_PAGES = [page for page in PAGES if "{result" in read(page)]


@pytest.mark.parametrize("page", RESULT_PAGES)
def test_results_of_pages_exist(page):
    for name, block in re.findall(r"```\{results\} ([\w/]+)\n(.*?)```", read(page), flags=re.DOTALL):
        options = {key: value.strip('"') for key, value in re.findall(r"^:(\w+): (.*)$", block, flags=re.MULTILINE)}
        table = result_tables.table(name, options, re.sub(r"^:.*$", "", block, flags=re.MULTILINE).splitlines())
        rows = [line.strip("| ") for line in table.splitlines() if line.startswith("|")]
        assert len(rows) > 2
        assert all(set(row) - set("| ") for row in rows)
    for text in re.findall(r"\{result\}`([^`]*)`", read(page)):
        assert re.search(r"\d", result_tables.value(text)), text


def reference():
    """Return every object of the reference, by its full name."""
    found, module = {}, ""
    for name, member in re.findall(r"^\.\. currentmodule:: (\S+)|^   (\w+)$", read("docs/api.md"), flags=re.MULTILINE):
        module = name or module
        if member:
            found[f"{module}.{member}"] = getattr(importlib.import_module(module), member)
    return found


REFERENCE = reference()


def test_everything_public_is_in_the_reference():
    listed = {name.rsplit(".", 1)[1] for name in REFERENCE}
    public = {name for name in termwise.__all__ if not isinstance(getattr(termwise, name), types.ModuleType)}
    assert public <= listed


def documented(docstring):
    """Return the names in the sections Parameters and Attributes of a docstring."""
    sections = re.split(r"^(.+)\n-{3,}$", inspect.cleandoc(docstring or ""), flags=re.MULTILINE)
    entries = [
        line.split(" : ")[0]
        for title, text in zip(sections[1::2], sections[2::2], strict=True)
        if title in ("Parameters", "Attributes")
        for line in text.splitlines()
        if re.match(r"\*{0,2}\w+", line)
    ]
    return {name.strip("* ") for entry in entries for name in entry.split(",")}


def functions_of(name, item):
    """Yield the functions of an object of the reference that termwise itself defines."""
    yield name, item
    if inspect.isclass(item):
        for member, function in inspect.getmembers(item, callable):
            if not member.startswith("_") and str(getattr(function, "__module__", "")).startswith("termwise"):
                yield f"{name}.{member}", function


@pytest.mark.parametrize("name", [name for name in REFERENCE if not name.endswith("Warning")])
def test_every_parameter_is_documented(name):
    for title, function in functions_of(name, REFERENCE[name]):
        parameters = inspect.signature(function).parameters.values()
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        required = {p.name for p in parameters if p.kind not in variable and not p.name.startswith("_")} - {"self"}
        assert required <= documented(function.__doc__), title


LINKED_PAGES = [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md"]


def anchors(page):
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page, flags=re.DOTALL), flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading)).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", LINKED_PAGES)
def test_links_lead_somewhere(page):
    """Links of the sources; `make docs` checks those of the pages that are built from these."""
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", re.sub(r"```.*?```", "", read(page), flags=re.DOTALL)):
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if example := re.search(r"gallery/(?:images/sphx_glr_)?(plot_\d+_[a-z_]+?)(?:_\d+\.png)?$", path):
            file = ROOT / "examples" / f"{example[1]}.py"
        elif path.endswith("gallery/index"):
            file = ROOT / "examples" / "README.txt"
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file.read_text(encoding="utf-8")), target


PROJECT = tomllib.loads(read("pyproject.toml"))["project"]


@pytest.mark.parametrize("file", ["CITATION.cff", "conda/recipe.yaml"])
def test_versions_agree(file):
    assert PROJECT["version"] == termwise.__version__
    assert re.search(rf"^ *version: {re.escape(termwise.__version__)}$", read(file), flags=re.MULTILINE)


@pytest.mark.parametrize("requirement", PROJECT["dependencies"])
def test_requirements_are_those_of_the_recipe_and_have_a_reason(requirement):
    name, least = requirement.split(">=")
    assert f"    - {name} >={least}\n" in read("conda/recipe.yaml")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in read("docs/compatibility.md").splitlines()]
    (row,) = [row for row in rows if row and name in row[0].lower().split(", ")]
    assert least in row[1].split(", ")
    assert len(row[2]) > 5
