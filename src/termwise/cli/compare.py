"""`termwise compare`: what two model files have in common, and in what they differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise.cli.commands import SavedModel, plain_list
from termwise.cli.console import Console, UsageError, listed, with_error
from termwise.cli.tables import Table
from termwise.explain.scores import quoted_score, score_metadata

MAX_TERMS_SHOWN = 20  # of each list
MAX_ROWS_LISTED = 10  # rows in which predictions differ most


def run_compare(first: Path, second: Path, data: Path | None, console: Console) -> dict[str, Any]:
    """Run `termwise compare` and return what `--json` prints."""
    models = [SavedModel(first), SavedModel(second)]
    record: dict[str, Any] = {
        "command": "compare",
        "models": [describe(path, model) for path, model in zip((first, second), models, strict=True)],
        "inputs": shared([model.predictor.used_inputs for model in models]),
        "terms": compare_terms(models),
        "predictions": None,
    }
    print_models(record, console)
    if data is not None:
        record["predictions"] = compare_predictions(models, data)
        print_predictions(record["predictions"], console)
    return record


def describe(path: Path, model: SavedModel) -> dict[str, Any]:
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
    if any(not model.predictor._program.linear.one_output for model in models if model.predictor.classes is None):
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


# -- output ------------------------------------------------------------------------------------------------------------


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
    shown = [(one["name"], numbers(one["first"]), numbers(one["second"])) for one in terms["both"][:MAX_TERMS_SHOWN]]
    shown += [(one["name"], numbers(one["weight"]), "") for one in terms["only_first"][:MAX_TERMS_SHOWN]]
    shown += [(one["name"], "", numbers(one["weight"])) for one in terms["only_second"][:MAX_TERMS_SHOWN]]
    counts = ", ".join(f"{len(terms[key])} {title}" for key, title in titles.items())
    console.print_table(f"weights of the terms: {counts}", ["term", "first", "second"], shown)


def numbers(weights: list[float]) -> str:
    """Return the weights of a term, one for each output."""
    return ", ".join(f"{weight:.4g}" for weight in weights)


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
