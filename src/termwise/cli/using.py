"""`termwise predict`, `report` and `export`: what can be done with a saved model."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np

from termwise._checks import import_optional
from termwise.cli.fitting import check_output
from termwise.cli.screen import Screen, UsageError
from termwise.cli.tables import Column, Table, counted, in_order, inputs_for, known_past, read_table
from termwise.cli.tables.reading import plainly
from termwise.deploy.document import write_atomically
from termwise.deploy.predictor import Predictor, load_predictor
from termwise.explain.report import render

FORMATS = (".csv", ".parquet", ".npz")


def load_model(path: Path) -> Predictor:
    """Read a model, or say that there is none."""
    if path.is_dir() or not path.exists():
        raise ValueError(f"{path} is no model file: give the file that `termwise fit -o` wrote.")
    return load_predictor(path)


def read_for(predictor: Predictor, path: Path) -> Table:
    """Read a table, categories of the model as text, and classes if they are."""
    words = [each.name for each in predictor.inputs if each.kind == "category"]
    words += [target_of(predictor)] * (answer_kind(predictor) == "text")
    return read_table(path, as_text=words, expected=predictor.input_names)


# -- predict -----------------------------------------------------------------------------------------------------------


def run_predict(model: Path, data: Path, out: Path | None, proba: bool, screen: Screen) -> dict[str, Any]:
    """Predict all rows of a table, in their order; return what a script may want to know."""
    if out is not None:
        check_output(out, [model, data])
        if out.suffix not in FORMATS:
            raise UsageError(f"-o must end in one of {', '.join(FORMATS)}, got {out.name}.")
    predictor = load_model(model)
    if proba and not hasattr(predictor, "predict_proba"):
        raise UsageError("--proba needs a model that knows probabilities, as those of --method auto for classes do: "
                         "leave it out.")  # fmt: skip
    table = read_for(predictor, data)
    lags = bool(command_of(predictor).get("lags"))
    columns = predict_series(predictor, table) if lags else predict_rows(predictor, table, proba)
    if out is not None:
        write_atomically(out, serialised(columns, out.suffix))
    screen.notes(table.notes)
    where = "" if out is None else f" in {out}"
    quality = judged(predictor, table, columns["prediction"])
    screen.say(f"{counted(table.n_rows, 'prediction')}{where}{quality}")
    return {
        "command": "predict",
        "model": str(model),
        "data": str(data),
        "output": None if out is None else str(out),
        "rows": table.n_rows,
        **{name: values.tolist() for name, values in columns.items()},
    }


def command_of(predictor: Predictor) -> dict[str, Any]:
    """What the command line wrote down when it fitted the model."""
    return (predictor.facts or {}).get("command") or {}


def target_of(predictor: Predictor) -> str:
    """Name of the column a model predicts; nothing if it was fitted elsewhere and is not known."""
    return command_of(predictor).get("target") or (predictor.facts or {}).get("model", {}).get("target") or ""


def used_inputs(predictor: Predictor) -> list[Any]:
    """Inputs that the terms look at; a table need not have the others."""
    used = set(predictor.used_inputs)
    return [each for each in predictor.inputs if each.name in used]


def predict_rows(predictor: Predictor, table: Table, proba: bool) -> dict[str, Any]:
    """Predict each row by itself."""
    X = inputs_for(table, used_inputs(predictor))
    columns = {"prediction": predictor.predict(X)}
    if proba:
        chances = predictor.predict_proba(X)
        columns |= {f"probability of {kind}": chances[:, j] for j, kind in enumerate(predictor.classes or [])}
    return columns


def predict_series(predictor: Predictor, table: Table) -> dict[str, Any]:
    """Predict each row of a series from those before it; where the series ends, go on from what is predicted."""
    target = target_of(predictor)
    X, order = series_inputs(predictor, table)
    start = known_past(table, target, order) if target in X else len(X)
    if start == 0:
        raise ValueError(f"{table.path} must have {target} for some rows to go on from, got none: add its past.")
    predicted = np.empty(len(X))
    predicted[:start] = predictor.predict(X.iloc[:start])
    if start < len(X):
        predicted[start:] = predictor.free_run(X, start)[start:]
    return {"prediction": predicted[np.argsort(order, kind="stable")]}


def series_inputs(predictor: Predictor, table: Table) -> tuple[Any, Any]:
    """Return the inputs of a series in the order of time, its target known or not, and that order."""
    order = in_order(table, command_of(predictor)["time"])
    X = inputs_for(table, used_inputs(predictor), exempt=[target_of(predictor)])
    return X.iloc[order].reset_index(drop=True), order


def judged(predictor: Predictor, table: Table, predicted: Any) -> str:
    """Say how good predictions are, if the table has the answers."""
    from sklearn.metrics import r2_score

    column = table.columns.get(target_of(predictor))
    if column is None or column.kind != answer_kind(predictor):
        return ""
    there = ~column.missing
    command = command_of(predictor)
    if command.get("lags"):  # the first rows have no past
        there[in_order(table, command["time"])[: command["lags"]]] = False
    truth, predicted = column.values[there], predicted[there]
    if predictor.task == "classification":
        return f"; {np.mean(truth == predicted):.1%} agree with the table" if len(truth) else ""
    return f"; R2 {r2_score(truth, predicted):.3f} against the table" if len(truth) > 1 else ""


def answer_kind(predictor: Predictor) -> str:
    """What a column holds that can be compared with predictions."""
    return "text" if predictor.classes and isinstance(predictor.classes[0], str) else "number"


def serialised(columns: dict[str, Any], suffix: str) -> bytes:
    """Return predictions as the content of a file."""
    pd = import_optional("pandas", "cli", "Writing tables")
    buffer = io.BytesIO()
    if suffix == ".npz":
        np.savez(buffer, **columns)
    elif suffix == ".parquet":
        import_optional("pyarrow", "parquet", "Writing Parquet files")
        pd.DataFrame(columns).to_parquet(buffer)
    else:
        pd.DataFrame(columns).to_csv(buffer, index=False)
    return buffer.getvalue()


def print_rows(record: dict[str, Any]) -> None:
    """Print predictions as a table on stdout."""
    columns = {name: values for name, values in record.items() if isinstance(values, list)}
    sys.stdout.write(serialised(columns, ".csv").decode())


# -- report and export -------------------------------------------------------------------------------------------------


def run_report(model: Path, data: Path | None, out: Path, screen: Screen) -> dict[str, Any]:
    """Write the page about a model, with how it does on a table if there is one."""
    check_output(out, [model] if data is None else [model, data])
    predictor = load_model(model)
    X = y = None
    if data is not None:
        X, y = samples_for(predictor, data)
    with screen.progress("writing the page"):
        page = render(predictor, X=X, y=y)
    write_atomically(out, page)
    screen.say(f"report: {out}", style="bold")
    return {"command": "report", "model": str(model), "report": str(out), "rows": None if y is None else len(y)}


def samples_for(predictor: Predictor, data: Path) -> tuple[Any, Any]:
    """Return inputs and targets of a table, where the target is there; those of a series in the order of time."""
    pd = import_optional("pandas", "cli", "Reading tables")
    target = target_of(predictor)
    table = read_for(predictor, data)
    column = table.columns.get(target)
    if column is None or column.missing.all():
        raise ValueError(f"{data} must have the target {target or 'by its name'}, to compare predictions with: add it, "
                         "or leave the table out.")  # fmt: skip
    check_answers(predictor, table, column)
    if command_of(predictor).get("lags"):
        X, order = series_inputs(predictor, table)
        rows = order[: known_past(table, target, order)]
        X = X.iloc[: len(rows)]
    else:
        rows = np.flatnonzero(~column.missing)
        X = inputs_for(table, used_inputs(predictor)).iloc[rows].reset_index(drop=True)
    y = column.values[rows]
    if predictor.classes:
        y = y.astype(np.asarray(predictor.classes).dtype)
    return X, pd.Series(y, name=target)


def check_answers(predictor: Predictor, table: Table, column: Column) -> None:
    """Raise unless the target is such as the model predicts."""
    target, classes = target_of(predictor), predictor.classes
    if answer_kind(predictor) == "number" != column.kind:
        raise ValueError(f"{table.path} must hold numbers in the target {target}, as in the fit: correct it.")
    strange = ~column.missing & ~np.isin(column.values, list(classes)) if classes else np.zeros(1, dtype=bool)
    if strange.any():
        row = int(np.argmax(strange))
        raise ValueError(f"{table.path} must hold classes of the fit in the target {target}, got "
                         f"{plainly(column.values[row])!r} in {table.where(row)}: correct or remove it.")  # fmt: skip


def run_export(model: Path, language: str | None, out: Path, screen: Screen) -> dict[str, Any]:
    """Write a model in another language."""
    check_output(out, [model])
    predictor = load_model(model)
    predictor.export(out, to=language)
    size = out.stat().st_size
    screen.say(f"{out}: {size:,} bytes", style="bold")
    return {"command": "export", "model": str(model), "output": str(out), "to": language, "bytes": size}
