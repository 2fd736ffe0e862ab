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
from termwise.predictor import Predictor, load_predictor
from termwise.program.document import write_atomically
from termwise.report import render
from termwise.tables import Table, inputs_for, read_table
from termwise.tables.task import moments

FORMATS = (".csv", ".parquet", ".npz")


def load_model(path: Path) -> Predictor:
    """Read a model, or say that there is none."""
    if path.is_dir() or not path.exists():
        raise ValueError(f"{path} is no model file: give the file that `termwise fit -o` wrote.")
    return load_predictor(path)


def read_for(predictor: Predictor, path: Path) -> Table:
    """Read a table, categories of the model as text."""
    words = [each.name for each in predictor.inputs if each.kind == "category"]
    return read_table(path, as_text=words)


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
    screen.say(f"{table.n_rows} predictions{where}{judged(predictor, table, columns['prediction'])}")
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


def used_inputs(predictor: Predictor) -> list[Any]:
    """Inputs that the terms look at; a table need not have the others."""
    used = set(predictor.used_inputs)
    return [each for each in predictor.inputs if each.name in used]


def predict_rows(predictor: Predictor, table: Table, proba: bool) -> dict[str, Any]:
    """Predict each row by itself."""
    pd = import_optional("pandas", "cli", "Reading tables")
    X = inputs_for(table, used_inputs(predictor))
    X = X if X.shape[1] else pd.DataFrame(index=range(table.n_rows))
    columns = {"prediction": predictor.predict(X)}
    if proba:
        chances = predictor.predict_proba(X)
        columns |= {f"probability of {kind}": chances[:, j] for j, kind in enumerate(predictor.classes or [])}
    return columns


def predict_series(predictor: Predictor, table: Table) -> dict[str, Any]:
    """Predict each row of a series from those before it; where the series ends, go on from what is predicted."""
    command = command_of(predictor)
    target = command["target"]
    X = inputs_for(table, used_inputs(predictor), exempt=[target])
    order = np.argsort(moments(table, command["time"]), kind="stable") if command["time"] else np.arange(len(X))
    X = X.iloc[order].reset_index(drop=True)
    gaps = np.flatnonzero(X[target].isna()) if target in X else np.array([], dtype=int)
    start = int(gaps[0]) if len(gaps) else len(X)
    if len(gaps) != len(X) - start:
        after = int(np.flatnonzero(~X[target].isna())[-1])
        raise ValueError(f"{table.path} must have {target} up to some time and not after, got one in "
                         f"{table.where(int(order[after]))} after a gap: fill the gap in.")  # fmt: skip
    if start == 0:
        raise ValueError(f"{table.path} must have {target} for some rows to go on from, got none: add its past.")
    predicted = np.empty(len(X))
    predicted[:start] = predictor.predict(X.iloc[:start])
    if len(gaps):
        predicted[start:] = predictor.free_run(X, start)[start:]
    return {"prediction": predicted[np.argsort(order, kind="stable")]}


def judged(predictor: Predictor, table: Table, predicted: Any) -> str:
    """Say how good predictions are, if the table has the answers."""
    from sklearn.metrics import accuracy_score, r2_score

    column = table.columns.get(command_of(predictor).get("target", ""))
    wanted = "text" if predicted.dtype.kind not in "fiu" else "number"
    if column is None or column.kind != wanted or column.missing.all():
        return ""
    there = ~column.missing
    truth, predicted = column.values[there], predicted[there]
    if predictor.task == "classification":
        return f"; {accuracy_score(truth.astype(predicted.dtype), predicted):.1%} agree with the table"
    return f"; R2 {r2_score(truth, predicted):.3f} against the table" if len(truth) > 1 else ""


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
    """Return inputs and targets of a table, where the target is there."""
    pd = import_optional("pandas", "cli", "Reading tables")
    facts = predictor.facts or {}
    target = command_of(predictor).get("target") or facts.get("model", {}).get("target")
    table = read_for(predictor, data)
    column = table.columns.get(target) if target else None
    if column is None or column.missing.all():
        raise ValueError(f"{data} must have the target {target or 'by its name'}, to compare predictions with: add it, "
                         "or leave the table out.")  # fmt: skip
    rows = np.flatnonzero(~column.missing)
    X = inputs_for(table, used_inputs(predictor)).iloc[rows].reset_index(drop=True)
    y = column.values[rows]
    if predictor.task == "classification":
        y = np.asarray(y).astype(np.asarray(predictor.classes).dtype)
    elif column.kind != "number":
        raise ValueError(f"{data} must hold numbers in the target {target}, as in the fit: correct it.")
    return X, pd.Series(y, name=target)


def run_export(model: Path, language: str | None, out: Path, screen: Screen) -> dict[str, Any]:
    """Write a model in another language."""
    check_output(out, [model])
    predictor = load_model(model)
    predictor.export(out, to=language)
    size = out.stat().st_size
    screen.say(f"{out}: {size:,} bytes", style="bold")
    return {"command": "export", "model": str(model), "output": str(out), "to": language, "bytes": size}
