"""`termwise predict`, `report` and `export` for a saved model, and `termwise demo`, which runs all commands."""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.metrics import r2_score

import termwise as tw
from termwise._checks import import_optional
from termwise.cli import Console, UsageError
from termwise.cli.fit import FitOptions, check_output, run_fit
from termwise.cli.tables import Table, read_table
from termwise.cli.task import check_known, count_past, counted, select_inputs, time_order
from termwise.deploy.document import write_atomically

pd = import_optional("pandas", "cli", "The command line")

FORMATS = (".csv", ".parquet", ".npz")
BAR_LENGTH = 30  # characters
N_FIT, N_NEW = 400, 100  # rows of the demo
DEMO_TEXT = f"""Ten inputs, measured {N_FIT} times with noise; five of them matter:
y = 10 sin(pi x1 x2) + 20 (x3 - 0.5)^2 + 10 x4 + 5 x5. The formula is not used in the fit."""


class SavedModel:
    """A model file, with what `termwise fit` stored beside the predictor, and the tables it is applied to."""

    def __init__(self, path: Path) -> None:
        if path.is_dir() or not path.exists():
            raise ValueError(f"{path} is not a model file: give the file that `termwise fit -o` wrote.")
        self.predictor = tw.load_predictor(path)
        facts = self.predictor.facts or {}
        command = facts.get("command") or {}
        self.target: str = command.get("target") or facts.get("model", {}).get("target") or ""
        self.time: str | None = command.get("time")
        self.lags: int = command.get("lags") or 0
        self.missing: list[str] = command.get("missing") or []
        classes = self.predictor.classes
        self.target_kind = "text" if classes and isinstance(classes[0], str) else "number"

    def read(self, path: Path) -> Table:
        """Read a table, with categorical inputs and class labels as strings."""
        strings = [each.name for each in self.predictor.inputs if each.kind == "category"]
        strings += [self.target] * (self.target_kind == "text")
        return read_table(path, as_text=strings, expected=self.predictor.input_names, missing=self.missing)

    def inputs(self, table: Table) -> tuple[Any, Any]:
        """Return the inputs that the terms use and the order of the rows, which is that of time in a series."""
        inputs = [each for each in self.predictor.inputs if each.name in self.predictor.used_inputs]
        order = time_order(table, self.time if self.lags else None)
        X = select_inputs(table, inputs, optional=[self.target] if self.lags else [])
        return X.iloc[order].reset_index(drop=True), order

    def predict(self, table: Table, proba: bool) -> dict[str, Any]:
        """Return a column of predictions, in the order of the table, and with `proba` one per class."""
        X, order = self.inputs(table)
        n_past = count_past(table, self.target, order) if self.lags and self.target in X else len(X)
        if n_past == 0:
            raise ValueError(f"{table.path} must have past values of {self.target}, got none: add them.")
        predicted = self.predictor.predict(X.iloc[:n_past])
        if n_past < len(X):  # forecasts are fed back
            predicted = np.r_[predicted, self.predictor.free_run(X, n_past)[n_past:]]
        columns = {"prediction": predicted[np.argsort(order, kind="stable")]}
        if proba:
            probabilities = self.predictor.predict_proba(X)
            columns |= {f"probability of {label}": probabilities[:, j]
                        for j, label in enumerate(self.predictor.classes or [])}  # fmt: skip
        return columns

    def clipped(self, table: Table) -> tuple[int, list[str]]:
        """Return how many rows have inputs outside the range of the training data that are clipped, and which inputs.

        Rows of a series that are forecast are not counted.
        """
        X, order = self.inputs(table)
        n_past = count_past(table, self.target, order) if self.lags and self.target in X else len(X)
        found = self.predictor.clipped(X.iloc[:n_past])
        names = [name for name, column in zip(self.predictor.input_names, found.T, strict=True) if column.any()]
        return int(found.any(axis=1).sum()), names

    def unseen(self, table: Table) -> dict[str, int]:
        """Return how many rows have a category that the fit did not have, by the names of inputs that have some."""
        return {} if self.lags else self.predictor.count_unseen(self.inputs(table)[0])

    def score(self, table: Table, predicted: Any) -> str:
        """Return how well predictions agree with the target, for a message; empty if the table does not have it."""
        column = table.columns.get(self.target)
        if column is None or column.kind != self.target_kind:
            return ""
        present = ~column.missing
        if self.lags:  # the first rows have no past
            present[time_order(table, self.time)[: self.lags]] = False
        y, predicted = column.values[present], predicted[present]
        if self.predictor.task == "classification":
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


def run_predict(model: Path, data: Path, out: Path | None, proba: bool, console: Console) -> dict[str, Any]:
    """Run `termwise predict` and return what `--json` prints."""
    if out is not None:
        check_output(out, [model, data])
        if out.suffix not in FORMATS:
            raise UsageError(f"-o must end in one of {', '.join(FORMATS)}, got {out.name}.")
    saved = SavedModel(model)
    if proba and not hasattr(saved.predictor, "predict_proba"):
        raise UsageError("--proba requires a classifier with probabilities, as of --method auto: leave it out.")
    table = saved.read(data)
    columns = saved.predict(table, proba)
    if out is not None:
        write_atomically(out, serialise(columns, out.suffix))
    console.print_notes(table.notes)
    where = "" if out is None else f" in {out}"
    console.print(f"{counted(table.n_rows, 'prediction')}{where}{saved.score(table, columns['prediction'])}")
    n_clipped, clipped = saved.clipped(table)
    if n_clipped:
        console.print(f"{n_clipped} of {counted(table.n_rows, 'row')} outside the range of the training data in "
                      f"{', '.join(clipped)}: terms were evaluated at the boundary")  # fmt: skip
    unseen = saved.unseen(table)
    for name, count in unseen.items():
        console.print(f"{count} of {counted(table.n_rows, 'row')} with a category of {name} that the fit did not have: "
                      "predicted without an effect of it")  # fmt: skip
    if out is None and not console.as_json:
        sys.stdout.write(serialise(columns, ".csv").decode())
    predictions = {name: values.tolist() for name, values in columns.items()}
    return {"command": "predict", "model": str(model), "data": str(data), "output": None if out is None else str(out),
            "rows": table.n_rows, "rows_clipped": n_clipped, "inputs_clipped": clipped, "rows_unseen": unseen,
            **predictions}  # fmt: skip


def serialise(columns: dict[str, Any], suffix: str) -> bytes:
    """Return columns as the content of a CSV, Parquet or NPZ file."""
    buffer = io.BytesIO()
    if suffix == ".npz":
        np.savez(buffer, **columns)
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
    write_atomically(out, page)
    console.print(f"report: {out}", style="bold")
    return {"command": "report", "model": str(model), "report": str(out), "rows": None if y is None else len(y)}


def run_export(model: Path, language: str | None, out: Path, console: Console) -> dict[str, Any]:
    """Run `termwise export` and return what `--json` prints."""
    check_output(out, [model])
    SavedModel(model).predictor.export(out, to=language)
    size = out.stat().st_size
    console.print(f"{out}: {size:,} bytes", style="bold")
    return {"command": "export", "model": str(model), "output": str(out), "to": language, "bytes": size}


def run_demo(folder: Path | None, console: Console) -> dict[str, Any]:
    """Run `termwise demo`: fit, predict, export and report on Friedman's first test function."""
    folder = Path(tempfile.mkdtemp(prefix="termwise-demo-")) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    measured, new, predicted = folder / "measured.csv", folder / "new.csv", folder / "predictions.csv"
    model, report, source = folder / "model.json", folder / "report.html", folder / "model.c"
    X, y = make_friedman1(N_FIT + N_NEW, 10, noise=1.0, random_state=0)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(1, 11)]).round(4).assign(y=y.round(3))
    table.iloc[:N_FIT].to_csv(measured, index=False)
    table.iloc[N_FIT:].to_csv(new, index=False)
    console.print(DEMO_TEXT)

    def announce(command: str) -> None:
        console.print(f"\n$ termwise {command}", style="bold cyan")

    announce(f"fit {measured} --target y -o {model}")
    fit = run_fit(FitOptions(measured, "y", out=model, force=True), console)
    announce(f"predict {model} {new} -o {predicted}")
    run_predict(model, new, predicted, False, console)
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
