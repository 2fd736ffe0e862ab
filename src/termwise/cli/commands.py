"""`termwise predict`, `report` and `export` for a saved model, and `termwise demo`, which runs all commands."""

from __future__ import annotations

import io
import math
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.metrics import r2_score

import termwise as tw
from termwise._checks import import_optional
from termwise._files import write_file
from termwise.cli.console import Console, UsageError, check_output, counted, listed
from termwise.cli.fit import FitOptions, run_fit
from termwise.cli.series import after_breaks, fill_breaks
from termwise.cli.tables import Table, as_word, read_table
from termwise.cli.task import check_known, count_past, find_column, select_inputs, time_order
from termwise.deploy.exports import header_of
from termwise.deploy.formats import format_of

pd = import_optional("pandas", "cli", "The command line")

FORMATS = (".csv", ".parquet", ".npz")
RESULTS = ("prediction", "lower", "upper", "outside range", "unseen levels")  # columns of `termwise predict`
EXPLAINED = ("prediction", "base")  # columns of `termwise explain`, with those of the effects
COMPUTED = ("probability of ", "effect of ")  # beginnings of their names
RECORD = ("command", "model", "data", "output", "rows", "rows_clipped", "inputs_clipped", "rows_extrapolated",
          "inputs_extrapolated", "rows_unseen")  # what --json prints beside the columns  # fmt: skip
RANGE_ROUNDING = 1e-5  # relative: more than the ranges in the metadata are rounded by
BAR_LENGTH = 30  # characters
N_FIT, N_NEW = 400, 100  # rows of the demo
DEMO_TEXT = f"""Ten inputs, measured {N_FIT} times with noise; five of them matter:
y = 10 sin(pi x1 x2) + 20 (x3 - 0.5)^2 + 10 x4 + 5 x5. The formula is not used in the fit."""


@dataclass(frozen=True)
class PredictOptions:
    """Options of `termwise predict`; see its help."""

    proba: bool = False
    interval: float | None = None
    keep: tuple[str, ...] = ()
    details: bool = False


class SavedModel:
    """A model file, with what `termwise fit` stored beside the predictor, and the tables it is applied to."""

    def __init__(self, path: Path) -> None:
        if path.is_dir() or not path.exists():
            problem = "is a folder" if path.is_dir() else "does not exist"
            raise ValueError(f"{path} {problem}: give the model file that `termwise fit -o` wrote.")
        self.predictor = tw.load_predictor(path)
        facts = self.predictor.facts or {}
        command = facts.get("command") or {}
        program = self.predictor._program  # whether it is a series is a matter of the model, not of its metadata
        # number of rows before one that its prediction reads
        self.past: int = 0 if program.lags is None else program.lags.longest
        self.lags: int = 0 if program.lags is None else max(1, self.past)
        named = command.get("target") or facts.get("model", {}).get("target") or ""
        self.target: str = program.series or named if self.lags else named
        self.time: str | None = command.get("time")
        self.missing: list[str] = command.get("missing") or []
        self.decimal: str | None = command.get("decimal")
        classes = self.predictor.classes
        self.target_kind = "text" if classes and isinstance(classes[0], str) else "number"

    def read(self, path: Path, keep: Sequence[str] = ()) -> Table:
        """Read a table as that of the fit was read, with the columns to keep as they are."""
        inputs, target = self.predictor.inputs, self.target
        strings = [each.name for each in inputs if each.kind == "category"] + [target] * (self.target_kind == "text")
        numeric = [name for name in (*self.predictor.input_names, target) if name not in strings]
        return read_table(path, as_text=strings, expected=self.predictor.input_names, missing=self.missing,
                          numeric=numeric, decimal=self.decimal, verbatim=keep)  # fmt: skip

    def inputs(self, table: Table, every: bool = False) -> tuple[Any, Any]:
        """Return the inputs and the order of the rows, which is that of time in a series.

        They are those that the terms use, or all that the fit had.
        """
        used = self.predictor.input_names if every else self.predictor.used_inputs
        inputs = [each for each in self.predictor.inputs if each.name in used]
        order = time_order(table, self.time if self.lags else None)
        X = select_inputs(table, inputs, optional=self.predictor.input_names if self.lags else [])
        fills = {each.name: each.fill for each in inputs if each.fill is not None and each.name != self.target}
        X = X.fillna(fills) if self.lags else X
        return X.iloc[order].reset_index(drop=True), order

    def unseen(self, table: Table) -> dict[str, Any]:
        """Return which rows have a level that the fit did not have, by the categories that the terms use."""
        found: dict[str, Any] = {}
        for each in self.predictor.inputs:
            if each.categories is not None and each.name in self.predictor.used_inputs:
                column, known = table.columns[each.name], (*each.categories, *(each.others or ()))
                rows = ~column.missing & ~pd.Series(column.values).isin(list(map(str, known))).to_numpy()
                found |= {each.name: rows} if rows.any() else {}
        return found

    def predict(self, table: Table, proba: bool) -> dict[str, Any]:
        """Return a column of predictions, in the order of the table, and with `proba` one per class.

        A row of a series whose past is not complete has none: NaN.
        """
        X, order = self.inputs(table)
        n_past = self.count_known(X)
        if n_past == 0:
            raise ValueError(f"{table.path} must have past values of {self.target}, got none: add them.")
        predicted = self.predictor.predict(fill_breaks(X.iloc[:n_past]) if self.lags else X)
        if n_past < len(X):  # forecasts are fed back
            predicted = np.r_[predicted, self.predictor.free_run(fill_breaks(X), n_past)[n_past:]]
        if self.lags and (broken := after_breaks(X, self.target, n_past, self.past)).any():
            predicted = np.where(broken, np.nan, predicted)
        columns = {"prediction": predicted[np.argsort(order, kind="stable")]}
        if proba:
            probabilities = self.predictor.predict_proba(X)
            columns |= {f"probability of {label}": probabilities[:, j]
                        for j, label in enumerate(self.predictor.classes or [])}  # fmt: skip
        return columns

    def count_known(self, X: Any) -> int:
        """Return the number of rows up to the last with a value of a series that predictions read."""
        if not self.lags or self.target not in X:
            return len(X)
        return int(np.flatnonzero(X[self.target].notna())[-1] + 1) if X[self.target].notna().any() else 0

    def intervals(self, table: Table, coverage: float) -> dict[str, Any]:
        """Return the ends of prediction intervals; the models of the folds may use other inputs than the terms."""
        X, _ = self.inputs(table, every=True)
        lower, upper = self.predictor.predict_interval(X, coverage=coverage)
        return {"lower": lower, "upper": upper}

    def clipped(self, table: Table) -> dict[str, Any]:
        """Return which rows lie outside the range of the training data and are clipped, by the inputs that do.

        Rows of a series that are forecast are not counted.
        """
        X, order = self.inputs(table)
        n_past = self.count_known(X)
        found = np.zeros((len(X), len(self.predictor.inputs)), dtype=bool)
        found[order[:n_past]] = self.predictor.clipped(X.iloc[:n_past])
        return {name: rows for name, rows in zip(self.predictor.input_names, found.T, strict=True) if rows.any()}

    def extrapolated(self, table: Table) -> dict[str, Any]:
        """Return which rows lie outside the range of the training data, by the inputs that do, also of linear terms.

        The ranges are those of the effects in the metadata, which are rounded; others are not known.
        """
        found: dict[str, Any] = {}
        for effect in (self.predictor.facts or {}).get("effects", []):
            name, values = effect["inputs"][0], [one for one in effect["values"][0] if not isinstance(one, str)]
            used = name in self.predictor.used_inputs and name in table.columns and not self.lags
            if len(effect["inputs"]) == 1 and used and values and table.columns[name].kind == "number":
                margin = RANGE_ROUNDING * max(abs(values[0]), abs(values[-1]))
                column = table.columns[name].values
                rows = (column < values[0] - margin) | (column > values[-1] + margin)
                found |= {name: rows} if rows.any() else {}
        return found

    def scored(self, table: Table, predicted: Any) -> Any:
        """Return which rows have a target and a prediction to compare with it."""
        present = ~table.columns[self.target].missing
        return present & ~np.isnan(predicted) if self.lags else present

    def score(self, table: Table, predicted: Any) -> str:
        """Return how well predictions agree with the target, for a message; empty if the table does not have it."""
        column = table.columns.get(self.target)
        if column is None or column.kind != self.target_kind:
            return ""
        present = self.scored(table, predicted)
        y, predicted = column.values[present], predicted[present]
        if self.predictor.task == "classification":
            if len(y) and not set(map(as_word, y)) & set(map(as_word, self.predictor.classes or ())):
                return f"; not compared with the table, whose {self.target} has none of the classes of the fit"
            return f"; {np.mean(y == predicted):.1%} agree with the table" if len(y) else ""
        return f"; R2 {r2_score(y, predicted):.3f} against the table" if len(y) > 1 else ""

    def samples(self, table: Table) -> tuple[Any, Any]:
        """Return inputs and target of the rows that have a target; those of a series in the order of time."""
        target, classes = self.target, self.predictor.classes
        column = table.columns.get(target)
        if column is None or column.missing.all():
            raise ValueError(f"{table.path} must have the target {target or 'by its name'}, to compare predictions "
                             "with: add it, or leave the table out.")  # fmt: skip
        if self.target_kind == "number" != column.kind:
            raise ValueError(f"{table.path} must hold numbers in the target {target}, as in the fit: correct it.")
        if classes:
            check_known(table, f"the target {target}", column, classes, "classes")
        X, order = self.inputs(table)
        kept = np.arange(count_past(table, target, order)) if self.lags else np.flatnonzero(~column.missing)
        y = column.values[order[kept]]
        y = y.astype(np.asarray(classes).dtype) if classes else y
        return X.iloc[kept].reset_index(drop=True), pd.Series(y, name=target)


def run_predict(model: Path, data: Path, out: Path | None, options: PredictOptions, console: Console) -> dict[str, Any]:
    """Run `termwise predict` and return what `--json` prints."""
    if out is not None:
        check_output(out, [model, data])
        if out.suffix not in FORMATS:
            raise UsageError(f"-o must end in one of {', '.join(FORMATS)}, got {out.name}.")
    saved = SavedModel(model)
    check_predict(saved, options)
    with console.step(f"predicting {data.name}"):
        table = saved.read(data, options.keep)
        kept = kept_columns(table, options.keep, (*RESULTS, *(RECORD if console.as_json else ())))
        columns = kept | saved.predict(table, options.proba)
        if options.interval is not None:
            columns |= saved.intervals(table, options.interval)
        clipped, unseen = saved.clipped(table), saved.unseen(table)
        outside = saved.extrapolated(table) | clipped
        if options.details:
            columns |= {"outside range": names_by_row(outside, table.n_rows),
                        "unseen levels": names_by_row(unseen, table.n_rows)}  # fmt: skip
    if out is not None:
        write_file(out, serialise(columns, out.suffix))
    console.print_notes(table.notes)
    where = "" if out is None else f" in {out}"
    console.print(f"{counted(table.n_rows, 'prediction')}{where}{saved.score(table, columns['prediction'])}")
    if saved.lags and (empty := np.isnan(columns["prediction"])).any():
        console.print(f"{empty.sum()} of {counted(table.n_rows, 'row')} without a prediction: values of the "
                      f"{counted(saved.past, 'row')} before, which it reads, are missing")  # fmt: skip
    if options.interval is not None and not np.all(np.isfinite([columns["lower"], columns["upper"]])):
        console.print(f"the fit had too few samples for intervals that cover {options.interval:.0%}: some of their "
                      "ends are infinite")  # fmt: skip
    linear = {name: rows for name, rows in outside.items() if name not in clipped}
    rows_clipped = print_outside(table, clipped, "terms were evaluated at the boundary", console)
    rows_extrapolated = print_outside(table, linear, "linear terms were extrapolated", console)
    print_unseen(table, unseen, console)
    if out is None and not console.as_json:
        sys.stdout.write(serialise(columns, ".csv").decode())
    predictions = {name: plain_list(values) for name, values in columns.items()}
    return {"command": "predict", "model": str(model), "data": str(data), "output": None if out is None else str(out),
            "rows": table.n_rows, "rows_clipped": rows_clipped, "inputs_clipped": list(clipped),
            "rows_extrapolated": rows_extrapolated, "inputs_extrapolated": list(linear),
            "rows_unseen": {name: int(rows.sum()) for name, rows in unseen.items()}, **predictions}  # fmt: skip


def run_explain(model: Path, data: Path, out: Path | None, keep: tuple[str, ...], console: Console) -> dict[str, Any]:
    """Run `termwise explain` and return what `--json` prints."""
    if out is not None:
        check_output(out, [model, data])
        if out.suffix not in FORMATS:
            raise UsageError(f"-o must end in one of {', '.join(FORMATS)}, got {out.name}.")
    saved = SavedModel(model)
    if saved.lags:
        raise UsageError("termwise explain requires a model of independent rows, got one of a time series: its report "
                         "shows the terms.")  # fmt: skip
    table = saved.read(data, keep)
    kept = kept_columns(table, keep, (*EXPLAINED, *(RECORD if console.as_json else ())))
    columns = kept | saved.predict(table, proba=False)
    X, _ = saved.inputs(table)
    found, classes = tw.diagnostics.contributions(saved.predictor, X), saved.predictor.classes
    rows, output = np.arange(table.n_rows), np.zeros(table.n_rows, dtype=np.intp)
    if classes and len(classes) > 2:  # of the class that is predicted
        output = np.array([classes.index(label) for label in columns["prediction"].tolist()])
    columns["base"] = found.base[output]
    columns |= {f"effect of {name}": found.values[rows, j, output] for j, name in enumerate(found.effects)}
    if out is not None:
        write_file(out, serialise(columns, out.suffix))
    what = "score of the class" if classes else "prediction"
    what = "logarithm of the prediction" if saved.predictor.link == "log" and not classes else what
    console.print(f"{what} = base + the sum of the effects, for {counted(table.n_rows, 'row')}"
                  + ("" if out is None else f", in {out}"))  # fmt: skip
    print_unseen(table, saved.unseen(table), console)
    if out is None and not console.as_json:
        sys.stdout.write(serialise(columns, ".csv").decode())
    return {"command": "explain", "model": str(model), "data": str(data), "output": None if out is None else str(out),
            "rows": table.n_rows, **{name: plain_list(values) for name, values in columns.items()}}  # fmt: skip


def plain_list(values: Any) -> list[Any]:
    """Return a column for JSON, with None for missing values and for numbers that are not finite."""
    return [None if isinstance(value, float) and not math.isfinite(value) else value for value in values.tolist()]


def check_predict(saved: SavedModel, options: PredictOptions) -> None:
    """Raise on options that the model does not allow."""
    if options.proba and not hasattr(saved.predictor, "predict_proba"):
        raise UsageError("--proba requires a classifier with probabilities, as of --method auto: leave it out.")
    if options.interval is None:
        return
    if not 0 < options.interval < 1:
        raise UsageError(f"--interval must be between 0 and 1, got {options.interval:g}: 0.9 gives 90 % intervals.")
    if saved.lags or not hasattr(saved.predictor, "predict_interval"):
        raise UsageError("--interval requires a regression of --method auto, which has the models of its folds, got "
                         "another model: leave it out.")  # fmt: skip


def kept_columns(table: Table, names: Sequence[str], taken: Collection[str]) -> dict[str, Any]:
    """Return columns of the table as they are in the file, to be written beside results with the names `taken`."""
    kept = {}
    for name in names:
        find_column(table, name)
        if name in taken or name.startswith(COMPUTED):
            raise ValueError(f"{name} cannot be kept, since it is the name of a result: rename the column.")
        kept[name] = table.verbatim[name]
    return kept


def names_by_row(rows: dict[str, Any], n: int) -> Any:
    """Return for each row the names whose mask has it, separated by semicolons."""
    return np.array(["; ".join(name for name, mask in rows.items() if mask[i]) for i in range(n)], dtype=object)


def print_outside(table: Table, inputs: dict[str, Any], action: str, console: Console) -> int:
    """Print and return how many rows lie outside the range of the training data in some inputs, and what was done."""
    rows = np.any([np.zeros(table.n_rows, dtype=bool), *inputs.values()], axis=0)
    if inputs:
        console.print(f"{rows.sum()} of {counted(table.n_rows, 'row')} outside the range of the training data in "
                      f"{listed(list(inputs))}: {action}; first in {table.location(int(np.argmax(rows)))}")  # fmt: skip
    return int(rows.sum())


def print_unseen(table: Table, unseen: dict[str, Any], console: Console) -> None:
    """Print how many rows have a category that the fit did not have, and what was done."""
    for name, rows in unseen.items():
        levels, first = listed(sorted(set(table.columns[name].values[rows]))), table.location(int(np.argmax(rows)))
        console.print(f"{rows.sum()} of {counted(table.n_rows, 'row')} with a category of {name} that the fit did not "
                      f"have: predicted without an effect of it ({levels}); first in {first}")  # fmt: skip


def as_strings(values: Any) -> Any:
    """Return an array of objects as strings, empty where a value is missing; other arrays as they are."""
    return np.array(["" if value is None else str(value) for value in values]) if values.dtype == object else values


def serialise(columns: dict[str, Any], suffix: str) -> bytes:
    """Return columns as the content of a CSV, Parquet or NPZ file."""
    buffer = io.BytesIO()
    if suffix == ".npz":  # strings as such: arrays of objects would be pickled
        arrays: dict[str, Any] = {name: as_strings(values) for name, values in columns.items()}
        np.savez(buffer, **arrays)
    elif suffix == ".parquet":
        import_optional("pyarrow", "parquet", "Writing Parquet files")
        pd.DataFrame(columns).to_parquet(buffer)
    else:
        pd.DataFrame(columns).to_csv(buffer, index=False)
    return buffer.getvalue()


def run_report(model: Path, data: Path | None, out: Path, console: Console) -> dict[str, Any]:
    """Run `termwise report` and return what `--json` prints."""
    check_output(out, [model] if data is None else [model, data])
    saved = SavedModel(model)
    X, y = (None, None) if data is None else saved.samples(saved.read(data))
    with console.step("writing the report"):
        page = tw.report.render(saved.predictor, X=X, y=y)
    write_file(out, page)
    console.print(f"report: {out}", style="bold")
    return {"command": "report", "model": str(model), "report": str(out), "rows": None if y is None else len(y)}


def run_export(
    model: Path, language: str | None, out: Path, console: Console, narrow: bool = False, **options: Any
) -> dict[str, Any]:
    """Run `termwise export` with options of the format, and return what `--json` prints."""
    check_output(out, [model])
    predictor = SavedModel(model).predictor
    predictor = predictor.narrow() if narrow else predictor
    predictor.export(out, to=language, **options)
    size, header = out.stat().st_size, header_of(out) if language in (None, "c") else None
    beside = "" if header is None else f"; the header {header} declares its functions"
    console.print(f"{out}: {size:,} bytes{beside}", style="bold")
    return {"command": "export", "model": str(model), "output": str(out),
            "to": language or format_of(out.name), "bytes": size,
            "header": None if header is None else str(header), "inputs": predictor.input_names}  # fmt: skip


def run_demo(folder: Path | None, console: Console) -> dict[str, Any]:
    """Run `termwise demo`: fit, predict, export and report on Friedman's first test function."""
    folder = Path(tempfile.mkdtemp(prefix="termwise-demo-")) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    measured, new, predicted = folder / "measured.csv", folder / "new.csv", folder / "predictions.csv"
    model, report, source = folder / "model.json", folder / "report.html", folder / "model.c"
    X, y = make_friedman1(N_FIT + N_NEW, 10, noise=1.0, random_state=0)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(1, 11)]).round(4).assign(y=y.round(3))
    write_file(measured, table.iloc[:N_FIT].to_csv(index=False))
    write_file(new, table.iloc[N_FIT:].to_csv(index=False))
    console.print(DEMO_TEXT)

    def announce(command: str) -> None:
        console.print(f"\n$ termwise {command}", style="bold cyan")

    announce(f"fit {measured} --target y -o {model}")
    fit = run_fit(FitOptions(measured, "y", out=model, force=True), console)
    announce(f"predict {model} {new} -o {predicted}")
    run_predict(model, new, predicted, PredictOptions(), console)
    announce(f"export {model} --to c -o {source}")
    exported = run_export(model, "c", source, console)
    announce(f"report {model} -o {report}")
    run_report(model, None, report, console)
    effects = (tw.load_predictor(model).facts or {})["effects"]
    strengths = {" and ".join(effect["inputs"]): effect["strength"][0] for effect in effects}
    bars = {name: round(BAR_LENGTH * strength / max(strengths.values())) for name, strength in strengths.items()}
    full, empty = "█░" if console.output.encoding.startswith("utf") else "#."
    rows = [
        (name, f"{strengths[name]:.2f}", (full * bar).ljust(BAR_LENGTH, empty)) for name, bar in bars.items() if bar
    ]
    console.print("")
    console.print_table("Effects of the inputs in the model", ["inputs", "std. deviation", ""], rows)
    console.print(f"{fit['n_terms']} terms, {exported['bytes']:,} bytes of C, nothing tuned by hand. Open {report}")
    return {"command": "demo", "folder": str(folder), "report": str(report), "fit": fit}
