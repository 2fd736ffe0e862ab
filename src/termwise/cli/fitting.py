"""`termwise fit`: from a table to a model, with everything a person should know of it on the way."""

from __future__ import annotations

import shlex
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from termwise._checks import import_optional
from termwise.cli.recipes import Wish, check_wish, estimator_for
from termwise.cli.screen import Screen, warnings_to
from termwise.cli.tables import Task, counted, fill_values, filled, in_order, known_past, pose, read_table
from termwise.cli.tables.task import known_column
from termwise.deploy.document import write_atomically
from termwise.deploy.predictor import Predictor
from termwise.diagnostics import facts as facts_of
from termwise.diagnostics import held_out_comparison
from termwise.explain.report import render

FEWEST_TO_HOLD_OUT = 20  # rows below which none can be spared
SHOWN = 15  # terms
SHOWN_CLASSES = 4  # columns of weights


@dataclass(frozen=True)
class FitOptions:
    """What `termwise fit` was asked to do."""

    data: Path
    target: str
    task: str = "auto"
    wish: Wish = field(default_factory=Wish)
    drop: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    time: str | None = None
    impute: bool = False
    hold_out: float | None = 0.2
    report: Path | None = None
    out: Path | None = None
    force: bool = False


@dataclass(frozen=True)
class Samples:
    """Rows to learn from, missing values filled, and what they were filled with."""

    X: Any
    y: Any
    fill: dict[str, Any]

    @classmethod
    def of(cls, task: Task, rows: Any = slice(None)) -> Samples:
        """Take some rows of a task; what fills gaps is learned from them alone."""
        X = task.X.iloc[rows].reset_index(drop=True)
        fill = fill_values(X)
        return cls(filled(X, fill), task.y[rows], fill)


def run_fit(options: FitOptions, screen: Screen) -> dict[str, Any]:
    """Read, judge, fit, explain and save; return what a script may want to know."""
    started = time.perf_counter()
    check_outputs(options)
    with screen.progress(f"reading {options.data.name}"):
        table = read_table(options.data, as_text=options.category, expected=[options.target])
        for name in options.category:
            known_column(table, name)
        task = series_task(table, options) if options.wish.basis == "lag" else plain_task(table, options)
    check_wish(options.wish, task.kind)
    size = f"{counted(len(task.y), 'row')}, {counted(task.X.shape[1], 'input')}"
    screen.say(f"{options.data}: {size}, {task.kind} of {task.target}")
    notes = [*task.notes, *scaling_notes(task, options)]
    held_out, baselines = judge(task, options, screen, notes)
    samples = Samples.of(task)
    model = estimator_for(options.wish, task.kind, samples.X, task.target)
    counts = np.arange(len(task.y)) >= options.wish.lags if options.wish.basis == "lag" else None  # rows with a past
    fit_model(model, samples, screen, notes, f"fitting all {len(task.y)} rows", counts)
    y = import_optional("pandas", "cli", "Reading tables").Series(samples.y, name=task.target)
    with warnings_to(notes), screen.progress("collecting facts"):
        known = facts_of(model, samples.X, y, held_out=held_out, baselines=baselines, notes=list(dict.fromkeys(notes)),
                         reproduce=command_line(options))  # fmt: skip
    lags = options.wish.lags if options.wish.basis == "lag" else 0
    known["command"] = {"target": task.target, "time": options.time, "lags": lags}
    predictor = Predictor.from_estimator(model).with_facts(known)
    predictor = predictor.with_fill(samples.fill) if options.impute else predictor
    show(known, screen)
    save(predictor, options, screen)
    return record_of(known, options, task, time.perf_counter() - started)


def check_outputs(options: FitOptions) -> None:
    """Raise before the work if its results could not be written."""
    for path in (options.out, options.report):
        if path is not None:
            check_output(path, [options.data])
    if options.out is not None and options.out.exists() and not options.force:
        raise ValueError(f"{options.out} exists already: use --force to replace it, or give another name with -o.")


def check_output(path: Path, inputs: list[Path]) -> None:
    """Raise if a file cannot be written there, or would replace what is read."""
    if path.is_dir():
        raise ValueError(f"{path} must be a file to write, got a folder: add a name.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path} must be in a folder that exists, got {path.absolute().parent}: create it first.")
    if any(path.exists() and each.exists() and path.samefile(each) for each in inputs):
        raise ValueError(f"{path} is what is read: give another name with -o.")
    try:
        tempfile.TemporaryFile(dir=path.absolute().parent).close()
    except OSError as error:
        raise ValueError(f"{path} cannot be written there ({error.strerror}): choose another folder.") from None


def plain_task(table: Any, options: FitOptions, alone: bool = False) -> Task:
    """Rows that stand for themselves."""
    return pose(table, options.target, kind=options.task, drop=options.drop, time=options.time, impute=options.impute,
                alone=alone)  # fmt: skip


def series_task(table: Any, options: FitOptions) -> Task:
    """Rows in the order of time, with the target's own past among the inputs."""
    task = plain_task(table, options, alone=True)
    known_past(table, task.target, in_order(table, options.time))
    words = [name for name in task.X.columns if str(task.X[name].dtype) == "category"]
    if words:
        raise ValueError(f"--basis lag must have inputs of numbers, got text in {', '.join(words)}: leave it out with "
                         + " ".join(f"--drop {shlex.quote(name)}" for name in words) + ".")  # fmt: skip
    check_wish(options.wish, task.kind)
    longest = options.wish.lags
    if len(task.y) < 3 * longest:
        raise ValueError(f"--lags must be at most a third of the {len(task.y)} rows, got {longest}: use --lags "
                         f"{max(1, len(task.y) // 3)}.")  # fmt: skip
    X = task.X.assign(**{task.target: task.y})[[task.target, *task.X.columns]]
    how = "" if task.ordered else "; rows are taken to be in the order of time, --time orders them"
    notes = [*task.notes, f"a time series: predicted from its last {longest} values{how}"]
    return replace(task, X=X, notes=notes, ordered=True)


def lagged(task: Task, options: FitOptions) -> Task:
    """Write a series as rows that stand for themselves, its past as columns: any of them can be held out."""
    first, _ = split(task, options)
    X = filled(task.X, fill_values(task.X.iloc[first]))
    basis = estimator_for(options.wish, task.kind, X, task.target).basis.fit(X)
    G, y = basis.windows(X)
    names = basis.get_feature_names_out()
    return replace(task, X=import_optional("pandas", "cli", "Reading tables").DataFrame(G, columns=names), y=y)


def scaling_notes(task: Task, options: FitOptions) -> list[str]:
    """Say how columns become numbers of one scale."""
    notes = []
    gaps = task.X.isna().sum()
    for name in task.X.columns:
        if str(task.X[name].dtype) == "category":
            kinds = list(map(str, task.X[name].cat.categories))
            notes.append(f"{name} is a category, a column of 0 and 1 for each of {', '.join(kinds)}")
        if gaps[name]:
            value = shown(fill_values(task.X[[name]])[name])
            notes.append(f"{name} is missing in {counted(gaps[name], 'row')}: {value} is put there")
    plain = options.wish.method == "forward" and options.wish.basis in ("auto", "none")
    if not plain and options.wish.basis != "lag":
        notes.append("inputs are standardised inside the model: weights are for inputs of one scale")
    return notes


def shown(value: Any) -> str:
    """Write a number in few digits, a word as it is."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# -- fitting -----------------------------------------------------------------------------------------------------------


def fit_model(model: Any, samples: Samples, screen: Screen, notes: list[str], title: str, counts: Any = None) -> None:
    """Fit an estimator, showing how it gets on."""
    last = model[-1] if hasattr(model, "steps") else model
    more = {} if counts is None else {"sample_weight": counts.astype(float)}
    with warnings_to(notes), screen.progress(title, last):
        model.fit(samples.X, samples.y, **more)


def judge(
    task: Task, options: FitOptions, screen: Screen, notes: list[str]
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Fit to some rows and score on the others, beside simple models; nothing if that is not wanted."""
    if options.hold_out is None:
        return None, []
    if len(task.y) < FEWEST_TO_HOLD_OUT:
        notes.append(f"no rows are held out: fewer than {FEWEST_TO_HOLD_OUT}")
        return None, []
    series = options.wish.basis == "lag"
    task = lagged(task, options) if series else task
    rows, others = split(task, options)
    samples = Samples.of(task, rows)
    if task.kind == "classification" and len(np.unique(samples.y)) < 2:
        notes.append("no rows are held out: the others would have one class")
        return None, []
    model = estimator_for(options.wish, task.kind, samples.X, task.target)
    model = model.set_params(basis=None) if series else model
    fit_model(model, samples, screen, notes, f"fitting {len(rows)} rows, {len(others)} held out")
    X_test = filled(task.X.iloc[others].reset_index(drop=True), samples.fill)
    with warnings_to(notes), screen.progress("comparing with simple models"):
        held_out, baselines = held_out_comparison(model, samples.X, samples.y, X_test, task.y[others])
    terms = (model[-1] if hasattr(model, "steps") else model).n_terms_
    return {**held_out, "terms": int(terms)}, baselines


def split(task: Task, options: FitOptions) -> tuple[Any, Any]:
    """Return rows to learn from and rows to be tested on: the last ones in time, or some of every class."""
    rows = np.arange(len(task.y))
    assert options.hold_out is not None
    test = min(max(2, round(options.hold_out * len(rows))), len(rows) - 5)
    if task.ordered:
        return rows[:-test], rows[-test:]
    classes, counts = np.unique(task.y, return_counts=True)
    sensible = task.kind == "classification" and counts.min() >= 2 and min(test, len(rows) - test) >= len(classes)
    return train_test_split(rows, test_size=test, random_state=options.wish.seed, stratify=task.y if sensible else None)


# -- telling and saving ------------------------------------------------------------------------------------------------


def show(known: dict[str, Any], screen: Screen) -> None:
    """Print what came out."""
    model, scores = known["model"], known["scores"]
    screen.notes(known["notes"])
    show_terms(known, screen)
    held_out = scores.get("held_out")
    if held_out:
        title = f"on {held_out['n']} rows held out, the model fitted to the others"
        rows = [("this model", f"{held_out['value']:.3f}", str(held_out["terms"]))]
        rows += [(str(one.get("title", one["name"])), f"{one['value']:.3f}", str(one["terms"]))
                 for one in known["baselines"]]  # fmt: skip
        screen.table(title, ["", str(held_out["metric"]), "terms"], rows)
        if "coverage" in held_out:
            screen.say(f"{held_out['coverage']:.0%} of them inside their {held_out['nominal']:.0%} interval, typical "
                       f"error {held_out['rmse']:.4g}")  # fmt: skip
        screen.say(f"The model itself is fitted to all {model['n']} rows.")


def show_terms(known: dict[str, Any], screen: Screen) -> None:
    """Print the chosen terms with weights and error bars."""
    model, terms = known["model"], known["terms"]
    title = f"{model['class']}: {model['n_terms']} of {model['n_candidates']} terms ({model['dictionary']})"
    outputs = model["outputs"][:SHOWN_CLASSES]
    several = len(model["outputs"]) > 1
    head = ["term", *(f"for {name}" if several else "weight" for name in outputs), "std. error"]
    rows = []
    for term in terms[:SHOWN]:
        errors = term["std_error"]
        error = "" if errors is None else f"{max(errors):.4g}"
        rows.append((term["name"], *(f"{weight:.4g}" for weight in term["weight"][: len(outputs)]), error))
    if len(terms) > SHOWN:
        rows.append((f"... and {model['n_terms'] - SHOWN} more", *[""] * (len(outputs) + 1)))
    if not terms:
        rows.append(("none: the model is the mean", *[""] * (len(outputs) + 1)))
    screen.table(title, head, rows)


def save(predictor: Predictor, options: FitOptions, screen: Screen) -> None:
    """Write the files that were asked for."""
    if options.out is None:
        screen.say("Nothing is saved: -o MODEL.json keeps the model.")
    else:
        predictor.save(options.out)
        screen.say(f"model: {options.out}", style="bold")
    if options.report is not None:
        title = f"{options.target} from {options.data.name}"
        write_atomically(options.report, render(predictor, title=title))
        screen.say(f"report: {options.report}", style="bold")


def record_of(known: dict[str, Any], options: FitOptions, task: Task, seconds: float) -> dict[str, Any]:
    """What `--json` prints."""
    model = known["model"]
    return {
        "command": "fit",
        "model": None if options.out is None else str(options.out),
        "report": None if options.report is None else str(options.report),
        "task": task.kind,
        "target": task.target,
        "rows": len(task.y),
        "inputs": list(map(str, task.X.columns)),
        "estimator": model["class"],
        "n_terms": model["n_terms"],
        "n_candidates": model["n_candidates"],
        "terms": known["terms"],
        "scores": known["scores"],
        "baselines": known["baselines"],
        "notes": known["notes"],
        "seconds": round(seconds, 3),
    }


def command_line(options: FitOptions) -> str:
    """Return the command that does the same again."""
    wish, default = options.wish, Wish()
    words = ["termwise", "fit", str(options.data), "--target", options.target]
    words += [] if options.task == "auto" else ["--task", options.task]
    for name in ("method", "basis", "size", "seed", "lags"):
        if getattr(wish, name) != getattr(default, name):
            words += [f"--{name}", str(getattr(wish, name))]
    words += [word for name in options.drop for word in ("--drop", name)]
    words += [word for name in options.category for word in ("--category", name)]
    words += [] if options.time is None else ["--time", options.time]
    words += ["--impute"] * options.impute
    words += ["--no-hold-out"] if options.hold_out is None else ["--hold-out", f"{options.hold_out:g}"]
    words += [] if options.out is None else ["-o", str(options.out)]
    return shlex.join(words)
