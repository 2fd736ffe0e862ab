"""The command line. Commands import what they need when they run, so that `--help` loads no NumPy."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from termwise.cli.console import Console, UsageError, handle_errors
from termwise.deploy import EXPORTS

EPILOG = "Exit codes: 0 success, 1 error in the data or the model, 2 error on the command line, 130 interrupted."
app = typer.Typer(epilog=EPILOG, no_args_is_help=True, pretty_exceptions_enable=False,
                  rich_markup_mode="markdown", context_settings={"help_option_names": ["-h", "--help"]})  # fmt: skip

TaskKind = StrEnum("TaskKind", ["auto", "regression", "classification"])
Language = StrEnum("Language", list(EXPORTS))  # type: ignore[misc]  # members that mypy does not know
Precision = StrEnum("Precision", ["float64", "float32"])
Method = StrEnum("Method", {"auto": "auto", "forward": "forward", "ridge": "ridge", "local_ridge": "local-ridge",
                            "threshold": "threshold", "evidence": "evidence", "prefilter": "prefilter"})  # fmt: skip
BasisName = StrEnum(
    "BasisName", ["auto", "none", "rbf", "smooth", "relevant", "anova", "hinges", "steps", "rules", "fourier", "lag"]
)
LossName = StrEnum("LossName", ["auto", "squared", "poisson", "gamma", "huber"])
MAX_SEED = 2**32 - 1  # of NumPy
FORMER_STUDIES = {"hagiwara": "hagiwara2014", "recipe": "modern"}  # earlier names of studies of `termwise reproduce`

Columns = list[str] | None
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, messages on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file of `termwise fit`.", show_default=False)]
Data = Annotated[Path, typer.Argument(metavar="DATA", help="CSV, Parquet, NPZ or NPY; gzipped or not; - is stdin.",
                                      show_default=False)]  # fmt: skip
Output = Annotated[Path | None, typer.Option("--out", "-o", metavar="OUT",
                                             help="CSV, Parquet or NPZ file; default: stdout.")]  # fmt: skip
Identifier = Annotated[Columns, typer.Option("--id", metavar="COL", help="Column to keep, first.")]


# -- commands ----------------------------------------------------------------------------------------------------------


def command(function: Callable[..., dict[str, Any] | None]) -> Callable[..., None]:
    """Decorate a function: register it as a command whose errors become sentences."""
    return app.command(epilog=EPILOG)(handle_errors(function))


def show_version(requested: bool) -> None:
    """Print the version and exit."""
    if requested:
        from importlib.metadata import version

        typer.echo(f"termwise {version('termwise')}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")]


@app.callback()
def main(version: Version = False) -> None:
    """Small models, chosen term by term: from a table to a model, a report, and code that runs anywhere.

    Three commands from a table of your own to a report:

        termwise fit houses.csv --target price -o model.json

        termwise predict model.json new.csv -o predicted.csv

        termwise report model.json -o report.html
    """


@command
def fit(
    data: Data,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Column to predict; without it, columns are listed.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="MODEL", help="Model file to write, JSON.")] = None,
    task: Annotated[TaskKind, typer.Option(help="auto: strings and two whole numbers are classes.")] = TaskKind.auto,
    method: Annotated[Method, typer.Option(help="auto: dictionary and size by cross-validation.")] = Method.auto,
    basis: Annotated[BasisName, typer.Option(help="Candidates. none: columns; lag: past values.")] = BasisName.auto,
    size: Annotated[str | None, typer.Option(metavar="readable|small|accurate|N", help="Number of terms.")] = None,
    loss: Annotated[
        LossName, typer.Option(help="What is minimised. poisson: counts; gamma: positive.")
    ] = LossName.auto,
    drop: Annotated[Columns, typer.Option(metavar="COL", help="Column to exclude from the inputs; repeatable.")] = None,
    category: Annotated[Columns, typer.Option(metavar="COL", help="Numeric column to encode as categories.")] = None,
    missing: Annotated[
        Columns, typer.Option(metavar="WORD", help="Word for a missing value, such as none; repeatable.")
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="COL", help="Sort the rows by it, score the last.")] = None,
    lags: Annotated[
        int | None, typer.Option(min=1, help="Past values with --basis lag; default: 10.", show_default=False)
    ] = None,
    impute: Annotated[
        bool, typer.Option("--impute", help="Impute missing values, by the median or the most frequent category.")
    ] = False,
    hold_out: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Hold out this share of the rows: fit to the others, score on these."),
    ] = None,
    no_hold_out: Annotated[bool, typer.Option("--no-hold-out", help="Fit only: no refits, no baselines.")] = False,
    report: Annotated[Path | None, typer.Option(metavar="HTML", help="Report to write, too.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Random seed of folds and held-out rows.")] = 0,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace MODEL if it exists.")] = False,
    no_samples: Annotated[bool, typer.Option("--no-samples", help="Store no observed targets in MODEL.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> dict[str, Any]:
    """Fit a small model to a table and estimate its error.

    Numeric and categorical columns, dates and missing values are detected and reported. Missing values of inputs are
    kept: the model has an effect of a value being missing. The model is fitted to all rows, and
    the score is that of the procedure: cross-validation in which the selection of the terms is repeated in every fold,
    beside baselines on the same folds. With --hold-out 0.2 the model is fitted to the other rows, and the score is that
    of this very model on the rows held out. Rows in the order of time (--time, --basis lag) are always predicted from
    rows before them.
    An existing MODEL is replaced only with --force; other commands replace their output, and none its input.

    Examples
    --------
        termwise fit houses.csv --target price -o model.json --report report.html

        termwise fit patients.csv -t outcome --drop name --impute --size 5 -o model.json

        termwise fit sensor.csv -t temperature --time when --basis lag --lags 24 -o model.json

        termwise fit iris.csv -t species --json | jq .score
    """
    from termwise.cli.fit import FitOptions, ask_for_target, run_fit

    if target is None:
        raise ask_for_target(data, tuple(missing or ()))
    if hold_out is not None and not 0 < hold_out < 1:
        raise UsageError(f"--hold-out must be between 0 and 1, got {hold_out:g}: leave it out to hold out none.")
    if size not in (None, "readable", "small", "accurate") and not (size.isdecimal() and int(size) > 0):
        raise UsageError(f"--size must be readable, small, accurate or a number of terms, got {size}.")
    terms = int(size) if size is not None and size.isdecimal() else size
    options = FitOptions(
        data=data, target=target, task=str(task), method=str(method), basis=str(basis), size=terms, seed=seed,
        lags=lags, drop=tuple(drop or ()), category=tuple(category or ()), missing=tuple(missing or ()), time=time,
        impute=impute, hold_out=hold_out, score=not no_hold_out, report=report, out=out, force=force, loss=str(loss),
        samples=not no_samples,
    )  # fmt: skip
    return run_fit(options, Console(quiet, as_json))


@command
def predict(
    model: Model,
    data: Data,
    out: Output = None,
    proba: Annotated[
        bool, typer.Option("--probabilities", "--proba", help="Add the probability of each class.")
    ] = False,
    interval: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Add lower and upper ends that cover this share.")
    ] = None,
    identifier: Identifier = None,
    keep: Annotated[Columns, typer.Option(metavar="COL", help="Further column to keep; repeatable.")] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Add which inputs of a row are out of range or unseen.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> dict[str, Any]:
    """Predict every row of a table.

    Columns are selected by name; others are ignored unless they are kept with --id or --keep. If the table has the
    target too, the predictions are scored. Rows outside the range of the training data are counted, with the inputs
    concerned, and so are categories that the fit did not have: such a row is predicted without an effect of it, and
    predictions at a limit. A time series is predicted one step ahead; where its target ends, predictions are fed back.
    Several outputs are columns prediction_1, prediction_2 and so on.

    Examples
    --------
        termwise predict model.json new.csv -o predicted.csv

        termwise predict model.json new.csv --id customer --interval 0.9 --details -o predicted.csv

        termwise predict model.json new.parquet --probabilities | head
    """
    from termwise.cli.commands import run_predict

    columns = tuple(dict.fromkeys([*(identifier or ()), *(keep or ())]))
    console = Console(quiet, as_json, stderr=out is None)
    return run_predict(model, data, out, console, keep=columns, proba=proba, interval=interval, details=details)


@command
def explain(
    model: Model,
    data: Data,
    out: Output = None,
    identifier: Identifier = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> dict[str, Any]:
    """Explain the prediction of every row: the contribution of each effect.

    An effect is the sum of the terms of the same inputs, less its mean over the training data; the shares of the
    variance that fit and report show are those of purified effects, in which main effects are separated from
    interactions. The base, the mean prediction, and all effects of a row add up to its prediction; for classes, to the
    score of the class that is predicted, or of the second of two.

    Examples
    --------
        termwise explain model.json new.csv --id customer -o why.csv
    """
    from termwise.cli.commands import run_explain

    return run_explain(model, data, out, Console(quiet, as_json, stderr=out is None), tuple(identifier or ()))


@command
def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="Model file of `termwise fit`.", show_default=False)],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another model file.", show_default=False)],
    data: Annotated[
        Path | None, typer.Argument(metavar="[DATA]", help="Table to predict by both.", show_default=False)
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> dict[str, Any]:
    """Compare two models: inputs, terms, estimated errors and, of the rows of a table, predictions.

    Terms are the same if they have the same name. If the table has the target too, both predictions are scored.

    Examples
    --------
        termwise compare january.json february.json

        termwise compare january.json february.json new.csv --json | jq .predictions
    """
    from termwise.cli.commands import run_compare

    return run_compare(first, second, data, Console(quiet, as_json))


@command
def report(
    model: Model,
    data: Annotated[Path | None, typer.Argument(metavar="[DATA]", help="Table to score.", show_default=False)] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="HTML", help="Report to write.")] = Path("report.html"),
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> dict[str, Any]:
    """Write an HTML report: terms, effects of the inputs, choice of the size. One file that loads nothing else.

    Examples
    --------
        termwise report model.json -o report.html --open

        termwise report model.json this_year.csv -o report.html
    """
    from termwise.cli.commands import run_report

    record = run_report(model, data, out, Console(quiet, as_json))
    if show:
        typer.launch(str(out.absolute()))
    return record


@command
def export(
    model: Model,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PATH", help="File to write.", show_default=False)],
    to: Annotated[Language | None, typer.Option("--to", "--format", help="Format; default: by the suffix.")] = None,
    narrow: Annotated[bool, typer.Option("--narrow", help="Take only the inputs that the terms use.")] = False,
    name: Annotated[
        str | None, typer.Option(help="C: prefix of the names of functions; default: model.", show_default=False)
    ] = None,
    dtype: Annotated[
        Precision | None, typer.Option(help="C, ONNX: precision; default: float64.", show_default=False)
    ] = None,
    gradient: Annotated[bool, typer.Option("--gradient", help="C: write a function for the gradient too.")] = False,
    simulation: Annotated[
        bool, typer.Option("--simulation", help="C, Python: of a time series, write a free run with its state too.")
    ] = False,
    table: Annotated[
        str | None, typer.Option(help="SQL: name of the table; default: data.", show_default=False)
    ] = None,
    keep: Annotated[
        Columns, typer.Option(metavar="COL", help="SQL: column to keep; repeatable; default: inputs.")
    ] = None,
    order_by: Annotated[Columns, typer.Option(metavar="COL", help="SQL: column that orders rows in time.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> dict[str, Any]:
    """Write a model in another format, such as ONNX, C, Python or SQL.

    Beside a file of C it writes a header with the same name, which declares the functions.

    Examples
    --------
        termwise export model.json -o pump.c --name pump --dtype float32 --narrow

        termwise export model.json -o model.onnx

        termwise export model.json -o model.sql --table patients --keep id
    """
    from termwise.cli.commands import run_export

    given = {"gradient": gradient or None, "simulation": simulation or None, "table": table, "keep": keep or None,
             "order_by": order_by or None, "name": name, "dtype": None if dtype is None else str(dtype)}  # fmt: skip
    options = {key: value for key, value in given.items() if value is not None}
    return run_export(model, None if to is None else str(to), out, Console(quiet, as_json), narrow, **options)


@command
def demo(
    folder: Annotated[Path | None, typer.Option(help="Output folder; default: a temporary one.")] = None,
    as_json: Json = False,
) -> dict[str, Any]:
    """Run fit, predict, export and report on generated data."""
    from termwise.cli.commands import run_demo

    return run_demo(folder, Console(as_json=as_json))


# -- benchmarks --------------------------------------------------------------------------------------------------------


def benchmark_folder() -> Path:
    """Return the folder of the benchmarks: inside an installed package, beside the sources in a checkout."""
    package = Path(__file__).parents[1]
    folder = package / "benchmarks"
    return folder if folder.is_dir() else package.parents[1] / "benchmarks"


def run_benchmark(script: Path, repeats: int | None, options: Sequence[str]) -> None:
    """Run a benchmark, by default with its own number of repeats; exit with its status if it fails."""
    repeated = [] if repeats is None else ["--repeats", str(repeats)]
    status = subprocess.run([sys.executable, str(script), *repeated, *options]).returncode
    if status:
        raise typer.Exit(status)


@app.command(epilog=EPILOG, context_settings={"ignore_unknown_options": True})
@handle_errors
def bench(
    name: Annotated[str, typer.Argument(help="Which benchmark, or 'all'.")] = "all",
    options: Annotated[list[str] | None, typer.Argument(help="Its own options, such as --cases for forward.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Repetitions; default: the benchmark's own.")] = None,
    small: Annotated[bool, typer.Option("--small", help="Reduced sizes, for a quick look.")] = False,
) -> None:
    """Run a benchmark: one JSON object per line."""
    # parts of the benchmarks `trust` and `tables`, and those that `termwise reproduce` runs, are none of their own
    others = ("_", "trust_", "tables_", "reproduce")
    scripts = {path.stem: path for path in sorted(benchmark_folder().glob("*.py")) if not path.stem.startswith(others)}
    if name != "all" and name not in scripts:
        raise typer.BadParameter(f"must be 'all' or one of {', '.join(scripts)}, got {name!r}.", param_hint="NAME")
    for each in scripts if name == "all" else [name]:
        run_benchmark(scripts[each], repeats, [*["--small"] * small, *(options or ())])


def studies() -> dict[str, dict[str, Any]]:
    """Return the constants of each study of `termwise reproduce`, such as its TITLE, read without importing it."""
    found = {}
    for path in sorted(benchmark_folder().glob("reproduce_*.py")):
        constants: dict[str, Any] = {"needs_data": True}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                constants |= {target.id: node.value.value for target in targets if isinstance(target, ast.Name)}
        found[path.stem.removeprefix("reproduce_")] = constants
    return found


@command
def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which study, or 'all'; without a name they are listed.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the results.")] = Path(
        "reproduced"
    ),
    quick: Annotated[bool, typer.Option("--quick", "--small", help="Fewer repeats of the smaller problems.")] = False,
    repeats: Annotated[int | None, typer.Option(min=1, help="Random repeats; default: the study's own.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1: one per core.")] = -1,
) -> None:
    """Reproduce the tables and figures of the papers and the comparisons with other methods.

    Writes a CSV file with our numbers beside the published ones and a verdict for each, figures as SVG files, and one
    HTML page. A run that was stopped continues where it was.
    Most studies need the papers' data sets: set the environment variable TERMWISE_DATA to their folder.

    Examples
    --------
        termwise reproduce

        termwise reproduce hagiwara2014 --repeats 5 -o reproduced

        termwise reproduce all --quick
    """
    from termwise._checks import import_optional

    known = studies()
    if name is None:
        typer.echo("\n".join(f"{each:<14} {study['TITLE']}" for each, study in known.items()))
        return
    name = FORMER_STUDIES.get(name, name)
    if name not in ("all", *known):
        raise typer.BadParameter(f"must be 'all' or one of {', '.join(known)}, got {name!r}.", param_hint="NAME")
    home = os.environ.get("TERMWISE_DATA")
    needed = any(known[each]["needs_data"] for each in (known if name == "all" else [name]))
    if needed and (not home or not Path(home).is_dir()):
        got = f"got {home}, which is not a folder" if home else "but it is not set"
        raise ValueError("the environment variable TERMWISE_DATA must name the folder with the papers' data sets, "
                         f"{got}: export TERMWISE_DATA=/path/to/data.")  # fmt: skip
    for module, extra in (("matplotlib", "plots"), ("jinja2", "cli"), ("tqdm", "cli")):
        import_optional(module, extra, "termwise reproduce")
    options = [name, "--out", str(out), "--jobs", str(jobs), *["--quick"] * quick]
    run_benchmark(benchmark_folder() / "reproduce.py", repeats, options)
