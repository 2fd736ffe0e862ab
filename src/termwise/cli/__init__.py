"""The command line. Commands import what they need when they run, so that help is there at once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from termwise.cli.screen import Screen, UsageError, guarded

ENDING = (
    "Exit codes: 0 all went well, 1 something is wrong with the data or the model, 2 with the command line, "
    "130 interrupted."
)
app = typer.Typer(
    epilog=ENDING,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

TaskKind = StrEnum("TaskKind", ["auto", "regression", "classification"])
Language = StrEnum("Language", ["onnx", "c", "python", "json"])
Method = StrEnum(
    "Method",
    {
        "auto": "auto",
        "forward": "forward",
        "ridge": "ridge",
        "local_ridge": "local-ridge",
        "threshold": "threshold",
        "evidence": "evidence",
        "prefilter": "prefilter",
    },
)
BasisName = StrEnum("BasisName", ["auto", "none", "rbf", "smooth", "relevant", "anova", "fourier", "lag"])

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `termwise fit` wrote.", show_default=False)]
Data = Annotated[Path, typer.Argument(metavar="DATA", help="CSV, Parquet, NPZ or NPY; gzipped or not; - is stdin.",
                                      show_default=False)]  # fmt: skip


def show_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"termwise {version('termwise')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Small models, chosen term by term: from a table to a model, a report, and code that runs anywhere.

    Three commands from a table of your own to a page about it:

        termwise fit houses.csv --target price -o model.json

        termwise predict model.json new.csv -o predicted.csv

        termwise report model.json -o report.html
    """


@app.command(epilog=ENDING)
@guarded
def fit(
    data: Data,
    target: Annotated[str, typer.Option("--target", "-t", help="Column to predict.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="MODEL", help="Where to save the model, as JSON.")
    ] = None,
    task: Annotated[TaskKind, typer.Option(help="auto: text and two whole numbers are classes.")] = TaskKind.auto,
    method: Annotated[Method, typer.Option(help="auto: dictionary and size by cross-validation.")] = Method.auto,
    basis: Annotated[BasisName, typer.Option(help="Candidate terms. none: columns; lag: the past.")] = BasisName.auto,
    size: Annotated[str | None, typer.Option(metavar="small|accurate|N", help="How many terms.")] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="A column that is no input, repeatable.")
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="A column of numbers that are names; repeatable.")
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="COL", help="Order the rows by it, hold out the last.")] = None,
    lags: Annotated[int, typer.Option(min=1, help="Steps to look back with --basis lag.")] = 10,
    impute: Annotated[bool, typer.Option("--impute", help="Fill gaps: median, most frequent category.")] = False,
    hold_out: Annotated[float, typer.Option(help="Share of the rows the model is judged on.")] = 0.2,
    no_hold_out: Annotated[bool, typer.Option("--no-hold-out", help="Do not judge it on rows held out.")] = False,
    report: Annotated[Path | None, typer.Option(metavar="HTML", help="Also write the page about the model.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws rows held out and folds.")] = 0,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace MODEL if it exists.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit a small model to a table, and say how good it is.

    Numbers, categories and missing values are found out, and what is done about them is said. The model is judged on
    rows held out (a fifth, unless said otherwise), beside simple models; the one that is saved is fitted to all rows.
    An existing MODEL is replaced only with --force; other commands replace their output, and none what it reads.

    Examples
    --------
        termwise fit houses.csv --target price -o model.json --report report.html

        termwise fit patients.csv -t outcome --drop name --impute --size 5 -o model.json

        termwise fit sensor.csv -t temperature --time when --basis lag --lags 24 -o model.json

        termwise fit iris.csv -t species --json | jq .scores.held_out
    """
    from termwise.cli.fitting import FitOptions, run_fit
    from termwise.cli.recipes import Wish, parse_size

    if not 0 < hold_out < 1:
        raise UsageError(f"--hold-out must be a share between 0 and 1, got {hold_out:g}: --no-hold-out holds none out.")
    wish = Wish(str(method), str(basis), parse_size(size), seed, lags)
    screen = Screen(quiet, aside=as_json)
    record = run_fit(
        FitOptions(data, target, str(task), wish, tuple(drop or ()), tuple(category or ()), time, impute,
                   None if no_hold_out else hold_out, report, out, force),
        screen,
    )  # fmt: skip
    if as_json:
        screen.answer(record)


@app.command(epilog=ENDING)
@guarded
def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="OUT", help="A .csv, .parquet or .npz file; stdout without."),
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict every row of a table.

    Columns are found by name, others are ignored. If the table has the target too, it is said how well they agree.
    A time series is predicted from the rows before; where its target ends, predictions are fed back.

    Examples
    --------
        termwise predict model.json new.csv -o predicted.csv

        termwise predict model.json new.parquet --proba | head
    """
    from termwise.cli.using import print_rows, run_predict

    screen = Screen(quiet, aside=as_json or out is None)
    record = run_predict(model, data, out, proba, screen)
    if as_json:
        screen.answer(record)
    elif out is None:
        print_rows(record)


@app.command(epilog=ENDING)
@guarded
def report(
    model: Model,
    data: Annotated[
        Path | None, typer.Argument(metavar="[DATA]", help="A table to judge the model on, too.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="HTML", help="Where to write the page.")] = Path(
        "report.html"
    ),
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a page about a model: its terms, what each input does, how the size was chosen. One file, no network.

    Examples
    --------
        termwise report model.json -o report.html --open

        termwise report model.json this_year.csv -o report.html
    """
    from termwise.cli.using import run_report

    screen = Screen(quiet, aside=as_json)
    record = run_report(model, data, out, screen)
    if as_json:
        screen.answer(record)
    if show:
        typer.launch(str(out.absolute()))


@app.command(epilog=ENDING)
@guarded
def export(
    model: Model,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PATH", help="Where to write it.", show_default=False)],
    to: Annotated[Language | None, typer.Option(help="By default what the ending of PATH says.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a model as ONNX, as C or Python source that needs no library, or as plain JSON.

    Examples
    --------
        termwise export model.json --to c -o model.c

        termwise export model.json -o model.onnx
    """
    from termwise.cli.using import run_export

    screen = Screen(quiet, aside=as_json)
    record = run_export(model, None if to is None else str(to), out, screen)
    if as_json:
        screen.answer(record)


@app.command(epilog=ENDING)
@guarded
def demo(
    folder: Annotated[Path | None, typer.Option(help="For its files; a temporary folder by default.")] = None,
    as_json: Json = False,
) -> None:
    """Fit, predict, export and report on data that ship with scikit-learn, the way the other commands do."""
    from termwise.cli.demo import run_demo

    screen = Screen(aside=as_json)
    record = run_demo(folder, screen)
    if as_json:
        screen.answer(record)


@app.command(epilog=ENDING)
@guarded
def bench(
    name: Annotated[str, typer.Argument(help="Which benchmark, or 'all'.")] = "all",
    repeats: Annotated[int | None, typer.Option(min=1, help="How often to run each part; by default its own.")] = None,
    small: Annotated[bool, typer.Option("--small", help="Sizes for a quick look.")] = False,
) -> None:
    """Run a benchmark: one JSON object per line."""
    import termwise.cli.benches as benches

    folder = benches.benchmark_folder()
    names = benches.benchmark_names(folder)
    if name != "all" and name not in names:
        raise typer.BadParameter(f"must be 'all' or one of {', '.join(names)}, got {name!r}.", param_hint="NAME")
    for each in names if name == "all" else [name]:
        benches.run_benchmark(folder, each, repeats, small)


@app.command(epilog=ENDING)
@guarded
def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which study; without a name they are listed.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Number of random splits; by default the study's.")] = None,
    small: Annotated[bool, typer.Option("--small", help="A few splits of small sets, for a quick look.")] = False,
) -> None:
    """Repeat the tables of the papers behind the methods: one JSON object per line, the paper's figures beside ours.

    Needs the papers' data sets: set the environment variable TERMWISE_DATA to their folder.
    """
    import termwise.cli.benches as benches

    folder = benches.benchmark_folder()
    known = benches.studies(folder)
    if name is None:
        for each, title in known.items():
            typer.echo(f"{each:<14} {title}")
        return
    if name not in known:
        raise typer.BadParameter(f"must be one of {', '.join(known)}, got {name!r}.", param_hint="NAME")
    benches.check_data()
    benches.run_benchmark(folder, name, repeats, small)
