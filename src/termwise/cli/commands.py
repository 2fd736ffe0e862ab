"""`termwise predict`, `explain`, `report`, `export` and `compare` for saved models, and `demo`, which runs others."""

from __future__ import annotations

import io
import math
import sys
import tempfile
import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_friedman1

import termwise as tw
from termwise._checks import import_optional
from termwise._files import write_file
from termwise.cli.console import Console, UsageError, check_output, counted, listed, with_error
from termwise.cli.fit import FitOptions, run_fit
from termwise.cli.saved_model import SavedModel
from termwise.cli.tables import Table
from termwise.cli.task import find_column
from termwise.deploy import format_of
from termwise.deploy.exports import header_of
from termwise.explain.scores import quoted_score, score_metadata

pd = import_optional("pandas", "cli", "The command line")

FORMATS = (".csv", ".parquet", ".npz")
RESULTS = ("prediction", "lower", "upper", "outside range", "unseen levels")  # columns of `termwise predict`
EXPLAINED = ("prediction", "base")  # columns of `termwise explain`, with those of the effects
COMPUTED = ("probability of ", "effect of ")  # beginnings of their names
RECORD = ("command", "model", "data", "output", "rows", "rows_clipped", "inputs_clipped", "rows_extrapolated",
          "inputs_extrapolated", "rows_limited", "rows_unseen")  # what --json prints beside the columns  # fmt: skip
MAX_TERMS_SHOWN = 20  # of each list of `termwise compare`
MAX_ROWS_LISTED = 10  # rows in which predictions differ most
BAR_LENGTH = 30  # characters
N_FIT, N_NEW = 400, 100  # rows of the demo
DEMO_TEXT = f"""Ten inputs, measured {N_FIT} times with noise; five of them matter:
y = 10 sin(pi x1 x2) + 20 (x3 - 0.5)^2 + 10 x4 + 5 x5. The formula is not used in the fit."""


def run_predict(
    model: Path,
    data: Path,
    out: Path | None,
    console: Console,
    *,
    keep: Sequence[str] = (),
    proba: bool = False,
    interval: float | None = None,
    details: bool = False,
) -> dict[str, Any]:
    """Run `termwise predict` and return what `--json` prints."""
    check_columns_output(out, [model, data])
    saved = SavedModel(model)
    check_predict(saved, proba, interval)
    with console.step(f"predicting {data.name}"):
        table = saved.read(data, keep)
        ends = {} if interval is None else saved.intervals(table, interval)
        columns = saved.predict(table, proba) | ends
        columns = kept_columns(table, keep, (*RESULTS, *columns, *(RECORD if console.as_json else ()))) | columns
        clipped, limited, unseen = saved.clipped(table), saved.limited(table), saved.unseen(table)
        outside = saved.extrapolated(table) | clipped
        if details:
            columns |= {"outside range": names_by_row(outside, table.n_rows),
                        "unseen levels": names_by_row(unseen, table.n_rows)}  # fmt: skip
    if out is not None:
        write_file(out, serialise(columns, out.suffix))
    console.print_notes(table.notes)
    where = "" if out is None else f" in {out}"
    score = saved.score(table, columns["prediction"]) if "prediction" in columns else ""  # of one output
    console.print(f"{counted(table.n_rows, 'prediction')}{where}{score}")
    if saved.lags and (empty := np.isnan(columns["prediction"])).any():
        console.print(f"{empty.sum()} of {counted(table.n_rows, 'row')} without a prediction: values of the "
                      f"{counted(saved.past, 'row')} before, which it reads, are missing")  # fmt: skip
    if not all(np.isfinite(values).all() for values in ends.values()):
        console.print(f"the fit had too few samples for intervals that cover {interval:.0%}: some of their "
                      "ends are infinite")  # fmt: skip
    linear = {name: rows for name, rows in outside.items() if name not in clipped}
    rows_clipped = print_outside(table, clipped, "terms were evaluated at the boundary", console)
    rows_extrapolated = print_outside(table, linear, "linear terms were extrapolated", console)
    print_limited(table, limited, console)
    print_unseen(table, unseen, console)
    if out is None and not console.as_json:
        sys.stdout.write(serialise(columns, ".csv").decode())
    predictions = {name: plain_list(values) for name, values in columns.items()}
    return {"command": "predict", "model": str(model), "data": str(data), "output": None if out is None else str(out),
            "rows": table.n_rows, "rows_clipped": rows_clipped, "inputs_clipped": list(clipped),
            "rows_extrapolated": rows_extrapolated, "inputs_extrapolated": list(linear),
            "rows_limited": int(limited.sum()),
            "rows_unseen": {name: int(rows.sum()) for name, rows in unseen.items()}, **predictions}  # fmt: skip


def run_explain(
    model: Path, data: Path, out: Path | None, console: Console, keep: Sequence[str] = ()
) -> dict[str, Any]:
    """Run `termwise explain` and return what `--json` prints."""
    check_columns_output(out, [model, data])
    saved = SavedModel(model)
    if saved.lags:
        raise UsageError("termwise explain requires a model of independent rows, got one of a time series: its report "
                         "shows the terms.")  # fmt: skip
    if not (saved.predictor.classes or saved.predictor.one_output):
        raise ValueError(f"{model} must have one output to be explained, got {len(saved.predictor.intercept)}: "
                         "use termwise.diagnostics.contributions in Python.")  # fmt: skip
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
    n_limited = int(saved.limited(table).sum())
    clipped = f", clipped to limits in {counted(n_limited, 'row')}" if n_limited else ""
    console.print(f"{what} = base + the sum of the effects{clipped}, for {counted(table.n_rows, 'row')}"
                  + ("" if out is None else f", in {out}"))  # fmt: skip
    print_unseen(table, saved.unseen(table), console)
    if out is None and not console.as_json:
        sys.stdout.write(serialise(columns, ".csv").decode())
    return {"command": "explain", "model": str(model), "data": str(data), "output": None if out is None else str(out),
            "rows": table.n_rows, "rows_limited": n_limited,
            **{name: plain_list(values) for name, values in columns.items()}}  # fmt: skip


def plain_list(values: Any) -> list[Any]:
    """Return a column for JSON, with None for missing values and for numbers that are not finite."""
    return [None if isinstance(value, float) and not math.isfinite(value) else value for value in values.tolist()]


def check_columns_output(out: Path | None, inputs: list[Path]) -> None:
    """Raise before the work if columns cannot be written to a file."""
    if out is not None:
        check_output(out, inputs)
        if out.suffix not in FORMATS:
            raise UsageError(f"-o must end in one of {', '.join(FORMATS)}, got {out.name}.")


def check_predict(saved: SavedModel, proba: bool, interval: float | None) -> None:
    """Raise on options that the model does not allow."""
    if proba and not hasattr(saved.predictor, "predict_proba"):
        raise UsageError("--proba requires a classifier with probabilities, as of --method auto: leave it out.")
    if interval is None:
        return
    if not 0 < interval < 1:
        raise UsageError(f"--interval must be between 0 and 1, got {interval:g}: 0.9 gives 90 % intervals.")
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


def print_limited(table: Table, rows: NDArray[np.bool_], console: Console) -> None:
    """Print how many rows have a prediction at a limit."""
    if rows.any():
        console.print(f"{rows.sum()} of {counted(table.n_rows, 'row')} predicted at a limit, which the sum of the "
                      f"terms is beyond; first in {table.location(int(np.argmax(rows)))}")  # fmt: skip


def print_unseen(table: Table, unseen: dict[str, Any], console: Console) -> None:
    """Print how many rows have a category that the fit did not have, and what was done."""
    for name, rows in unseen.items():
        levels, first = listed(sorted(set(table.columns[name].values[rows]))), table.location(int(np.argmax(rows)))
        console.print(f"{rows.sum()} of {counted(table.n_rows, 'row')} with a category of {name} that the fit did not "
                      f"have: predicted without an effect of it ({levels}); first in {first}")  # fmt: skip


def serialise(columns: dict[str, Any], suffix: str) -> bytes:
    """Return columns as the content of a CSV, Parquet or NPZ file."""
    buffer = io.BytesIO()
    if suffix == ".npz":  # objects as strings, empty where a value is missing: they would be pickled
        objects = {name: values for name, values in columns.items() if values.dtype == object}
        strings = {name: np.array(["" if one is None else str(one) for one in objects[name]]) for name in objects}
        with zipfile.ZipFile(buffer, "w") as archive:  # as np.savez, which cannot write its own parameters: `file`
            for name, values in (columns | strings).items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, values, allow_pickle=False)
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
    run_predict(model, new, predicted, console)
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


# -- comparison of two models ------------------------------------------------------------------------------------------


def run_compare(first: Path, second: Path, data: Path | None, console: Console) -> dict[str, Any]:
    """Run `termwise compare` and return what `--json` prints."""
    models = [SavedModel(first), SavedModel(second)]
    record: dict[str, Any] = {
        "command": "compare",
        "models": [model_record(path, model) for path, model in zip((first, second), models, strict=True)],
        "inputs": shared([model.predictor.used_inputs for model in models]),
        "terms": compare_terms(models),
        "predictions": None,
    }
    print_models(record, console)
    if data is not None:
        record["predictions"] = compare_predictions(models, data)
        print_predictions(record["predictions"], console)
    return record


def model_record(path: Path, model: SavedModel) -> dict[str, Any]:
    """Return kind, size and estimated error of a model."""
    predictor, facts = model.predictor, model.predictor.facts or {}
    score = quoted_score(facts.get("scores") or {})
    known = (
        {} if score is None else {key: score.get(key) for key in ("metric", "value", "std_error", "rmse", "protocol")}
    )
    return {"file": str(path), "task": predictor.task, "target": model.target or None,
            "estimator": (facts.get("model") or {}).get("class"), "n_terms": predictor.n_terms,
            "n_inputs": len(predictor.used_inputs), "intercept": predictor.intercept.tolist(),
            "score": known or None}  # fmt: skip


def shared(names: list[list[str]]) -> dict[str, list[str]]:
    """Return the names that two lists have in common, and those of one of them alone."""
    first, second = names
    return {"both": [name for name in first if name in second],
            "only_first": [name for name in first if name not in second],
            "only_second": [name for name in second if name not in first]}  # fmt: skip


def compare_terms(models: list[SavedModel]) -> dict[str, list[dict[str, Any]]]:
    """Return the terms of both models with their weights, those in common first."""
    weights = [
        dict(zip(model.predictor.term_names, model.predictor.weights.T.tolist(), strict=True)) for model in models
    ]
    names = shared([list(one) for one in weights])
    return {
        "both": [{"name": name, "first": weights[0][name], "second": weights[1][name]} for name in names["both"]],
        "only_first": [{"name": name, "weight": weights[0][name]} for name in names["only_first"]],
        "only_second": [{"name": name, "weight": weights[1][name]} for name in names["only_second"]],
    }


def compare_predictions(models: list[SavedModel], data: Path) -> dict[str, Any]:
    """Return how the predictions of two models for the rows of a table differ, and their scores if it has targets."""
    tasks = [model.predictor.task for model in models]
    if str(data) == "-":
        raise UsageError("DATA must be a file, got the standard input, which can be read once only: save it first.")
    if tasks[0] != tasks[1]:
        raise ValueError(f"models must be of the same kind to compare predictions, got {tasks[0]} and {tasks[1]}: "
                         "leave the table out.")  # fmt: skip
    if any(not model.predictor.one_output for model in models if model.predictor.classes is None):
        raise ValueError("models must have one output to compare predictions, got several: leave the table out.")
    tables = [model.read(data) for model in models]
    first, second = (
        model.predict(table, proba=False)["prediction"] for model, table in zip(models, tables, strict=True)
    )
    numeric = tasks[0] == "regression"
    rows = np.flatnonzero(np.isfinite(first) & np.isfinite(second)) if numeric else np.arange(len(first))
    if not len(rows):
        raise ValueError(f"{data} must have rows that both models predict, got none, since all miss values of the rows "
                         "before: add these.")  # fmt: skip
    found: dict[str, Any] = {"data": str(data), "rows": len(first), "rows_compared": len(rows),
                             "first": plain_list(first), "second": plain_list(second)}  # fmt: skip
    scores = [scores_of(model, table, y, rows) for model, table, y in zip(models, tables, (first, second), strict=True)]
    found["scores"] = scores if any(scores) else None
    if not numeric:
        different = np.flatnonzero(first != second)
        return found | {"agreement": float(np.mean(first == second)), "different_rows": different.tolist()}
    first, second = first[rows], second[rows]
    difference = second - first
    largest = rows[np.argsort(-np.abs(difference), kind="stable")[:MAX_ROWS_LISTED]]
    varied = len(first) > 1 and min(np.std(first), np.std(second)) > 0
    return found | {
        "correlation": float(np.corrcoef(first, second)[0, 1]) if varied else None,
        "mean_difference": float(difference.mean()),
        "rms_difference": float(np.sqrt(np.mean(difference**2))),
        "largest_difference": float(np.abs(difference).max()),
        "most_different_rows": largest.tolist(),
    }


def scores_of(model: SavedModel, table: Table, predicted: Any, rows: NDArray[np.intp]) -> dict[str, Any] | None:
    """Return the scores of the predictions of some rows, if the table has the target."""
    column = table.columns.get(model.target)
    if column is None or column.kind != model.target_kind:
        return None
    rows = rows[model.scored(table, predicted)[rows]]
    if not len(rows):
        return None
    found = score_metadata(column.values[rows], predicted[rows], model.predictor.classes)
    return {key: value for key, value in found.items() if key != "confusion"}


def print_models(record: dict[str, Any], console: Console) -> None:
    """Print sizes, errors, inputs and terms."""
    first, second = record["models"]
    scores = [with_error(one["score"]) if one["score"] else "not known" for one in (first, second)]
    metrics = {one["score"]["metric"] for one in (first, second) if one["score"]}
    rows = [(name, str(first[key]), str(second[key])) for name, key in
            (("kind", "task"), ("target", "target"), ("estimator", "estimator"), ("terms", "n_terms"),
             ("inputs in use", "n_inputs"))]  # fmt: skip
    rows.append((f"estimated {' or '.join(sorted(metrics)) or 'score'}", scores[0], scores[1]))
    console.print_table("models", ["", Path(first["file"]).name, Path(second["file"]).name], rows)
    titles = {"both": "in both", "only_first": "only in the first", "only_second": "only in the second"}
    for key, title in titles.items():
        if record["inputs"][key]:
            console.print(f"inputs {title}: {listed(record['inputs'][key])}")
    terms = record["terms"]
    shown = []
    for key, sides in (("both", ("first", "second")), ("only_first", ("weight", "")), ("only_second", ("", "weight"))):
        for term in terms[key][:MAX_TERMS_SHOWN]:
            weights = [", ".join(f"{weight:.4g}" for weight in term.get(side, ())) for side in sides]
            shown.append((term["name"], *weights))
    counts = ", ".join(f"{len(terms[key])} {title}" for key, title in titles.items())
    console.print_table(f"weights of the terms: {counts}", ["term", "first", "second"], shown)


def print_predictions(found: dict[str, Any], console: Console) -> None:
    """Print how the predictions differ."""
    if "agreement" in found:
        console.print(f"{found['agreement']:.1%} of {found['rows']} rows have the same prediction")
    else:
        correlation = "" if found["correlation"] is None else f", correlation {found['correlation']:.4f}"
        rms, largest = found["rms_difference"], found["largest_difference"]
        console.print(f"predictions of {found['rows_compared']} rows differ by {rms:.4g} (root mean square), at most "
                      f"{largest:.4g}{correlation}")  # fmt: skip
    for title, score in zip(("first", "second"), found["scores"] or (), strict=bool(found["scores"])):
        if score is not None:
            console.print(f"{title}: {score['metric']} {with_error(score)} against the table")
