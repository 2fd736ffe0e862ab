"""The command line: `termwise demo`, `termwise bench`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from termwise.basis import RadialBasis
from termwise.forward import ForwardRegressor
from termwise.ridge import BasisRidge, LocalRidge


def benchmark_folder() -> Path:
    """Where the benchmarks are: inside an installed package, beside the sources in a checkout."""
    package = Path(__file__).parent
    inside = package / "benchmarks"
    return inside if inside.is_dir() else package.parents[1] / "benchmarks"


def benchmark_names(folder: Path) -> list[str]:
    """All benchmarks there are."""
    return sorted(path.stem for path in folder.glob("[!_]*.py"))


def demonstrate(echo: Callable[[str], None] = print) -> None:
    """Fit small models to data that ship with scikit-learn and say what came out."""
    data = load_diabetes(as_frame=True, scaled=False)
    X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=1 / 3, random_state=0)
    echo(f"Diabetes: {X.shape[1]} measurements, {len(X)} patients to learn from, {len(X_test)} to test on.")
    echo("")
    smooth = make_pipeline(StandardScaler(), RadialBasis(width="median"))
    models = {
        "plain columns, one penalty": BasisRidge(StandardScaler(), alpha="loo"),
        "plain columns, chosen one by one": ForwardRegressor(StandardScaler()),
        "plain columns, a penalty each": LocalRidge(StandardScaler()),
        "Gaussians on the samples, one penalty": BasisRidge(smooth, alpha="loo"),
        "Gaussians on the samples, one by one": ForwardRegressor(smooth, refit_alpha="loo"),
    }
    echo(f"{'model':<38} {'terms':>5} {'test R2':>8} {'coverage of 90 % intervals':>27}")
    for name, model in models.items():
        model.fit(X, y)
        lower, upper = model.predict_interval(X_test, coverage=0.9)
        inside = ((lower <= y_test) & (y_test <= upper)).mean()
        echo(f"{name:<38} {model.n_terms_:>5} {model.score(X_test, y_test):>8.3f} {inside:>27.0%}")
    echo("\nNothing was tuned by hand: terms, sizes and penalties are chosen by closed-form criteria.\n")
    echo(models["plain columns, chosen one by one"].summary())


app = typer.Typer(
    help="Small models, chosen term by term.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def demo() -> None:
    """Fit small models to data that ship with scikit-learn."""
    demonstrate(typer.echo)


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="Which benchmark, or 'all'.")] = "all",
    repeats: Annotated[int, typer.Option(min=1, help="How often to run each part; the best counts.")] = 5,
    small: Annotated[bool, typer.Option("--small", help="Sizes for a quick look.")] = False,
) -> None:
    """Run a benchmark: one JSON object per line."""
    folder = benchmark_folder()
    names = benchmark_names(folder)
    if name != "all" and name not in names:
        raise typer.BadParameter(f"must be 'all' or one of {', '.join(names)}, got {name!r}.", param_hint="NAME")
    options = ["--repeats", str(repeats)] + ["--small"] * small
    for each in names if name == "all" else [name]:
        status = subprocess.run([sys.executable, str(folder / f"{each}.py"), *options]).returncode
        if status:
            raise typer.Exit(status)
