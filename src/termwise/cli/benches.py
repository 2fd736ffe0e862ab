"""`termwise bench` and `termwise reproduce`: the benchmarks, and those among them that repeat a paper's tables."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import typer


def benchmark_folder() -> Path:
    """Where the benchmarks are: inside an installed package, beside the sources in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "benchmarks"
    return inside if inside.is_dir() else package.parents[1] / "benchmarks"


def benchmark_names(folder: Path) -> list[str]:
    """All benchmarks there are."""
    return sorted(path.stem for path in folder.glob("[!_]*.py"))


def run_benchmark(folder: Path, name: str, repeats: int | None, small: bool) -> None:
    """Run one benchmark, with its own number of repeats unless one is given; end with its status if it fails."""
    options = ([] if repeats is None else ["--repeats", str(repeats)]) + ["--small"] * small
    status = subprocess.run([sys.executable, str(folder / f"{name}.py"), *options]).returncode
    if status:
        raise typer.Exit(status)


def studies(folder: Path) -> dict[str, str]:
    """Return the benchmarks that need the papers' data, and what they say of themselves."""
    texts = {name: ast.get_docstring(ast.parse((folder / f"{name}.py").read_text())) or "" for name in
             benchmark_names(folder)}  # fmt: skip
    return {name: text.partition("\n")[0] for name, text in texts.items() if "TERMWISE_DATA" in text}


def check_data() -> None:
    """Raise unless the papers' data are at hand."""
    home = os.environ.get("TERMWISE_DATA")
    if not home or not Path(home).is_dir():
        got = f"got {home}, which is no folder" if home else "but it is not set"
        raise ValueError(
            f"the environment variable TERMWISE_DATA must name the folder with the papers' data sets, {got}: "
            "export TERMWISE_DATA=/path/to/data."
        )
