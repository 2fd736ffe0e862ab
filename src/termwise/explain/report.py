"""The HTML report: one self-contained page about a fitted model, from a template, a style sheet and scripts."""

from __future__ import annotations

import json
import math
import os
from importlib.resources import files
from typing import Any

import numpy as np

from termwise._arrays import as_columns, evenly
from termwise._checks import import_optional
from termwise._files import write_file
from termwise.basis import LagBasis
from termwise.deploy.facts import check_facts
from termwise.deploy.predictor import Predictor
from termwise.explain.diagnostics import MAX_ROWS, fit_metadata, predictor_metadata
from termwise.explain.diagnostics import facts as collect_facts
from termwise.explain.groups import MIN_SHARE, effect_name
from termwise.explain.resolve import CRITERION_NAMES, Metadata, as_numpy, resolve, round_significant
from termwise.explain.scores import quoted_score, score_metadata
from termwise.explain.summary import size_lines
from termwise.recipe.dictionaries import DICTIONARIES

SCRIPTS = ["core.js", "path.js", "effects.js"]
REQUIRED = ["model", "scores", "baselines", "criteria", "terms", "effects", "notes", "reproduce", "versions"]
OPTIONAL = ["path", "fit", "confusion", "penalty", "trials", "search", "no_effects", "importance", "reliability",
            "groups"]  # fmt: skip
NAMES = CRITERION_NAMES | dict.fromkeys(["loo_error", "loo_error_rate"], "leave-one-out misclassification rate")
METRICS = {"R2": "R²", "accuracy": "accuracy"}
TARGETS = {
    "ridge": "distilled from a ridge fit, both stages",
    "pooled": "distilled from a stacked ensemble, all stages",
}
MAX_CANDIDATES = 20  # of a search, in the table of its results; inputs in the table of their total effects
EXPONENT_FROM = 1e6  # numbers from here on have an exponent
MINUS = "\u2212"


def render(
    model: Any, *, facts: dict[str, Any] | None = None, X: Any = None, y: Any = None, title: str | None = None
) -> str:
    """Render an HTML page about a fitted model: its scores, path, terms, effects and residuals.

    Parameters
    ----------
    model : fitted estimator of termwise, `CriterionSearch`, pipeline that ends in one, or `Predictor`
        The model.
    facts : dict, default=None
        Diagnostics from `termwise.diagnostics.facts`; by default they are collected, or those stored in the predictor
        are used.
    X, y : data frame or array-like of shape (n, d), array-like of shape (n,) or (n, q), default=None
        For an estimator without `facts`, the samples of its fit, for observed values and effects. Otherwise any
        samples: the score of the model on them is added.
    title : str, default=None
        Title of the page.

    Returns
    -------
    html : str
        The page. It is self-contained and loads nothing from the network.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import ForwardRegressor, report
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> page = report.render(ForwardRegressor().fit(X, y), X=X, y=y, title="Diabetes")
    >>> "<title>Diabetes</title>" in page
    True
    """
    jinja2 = import_optional("jinja2", "report", "A report")
    markup = import_optional("markupsafe", "report", "A report").Markup
    if facts is None and isinstance(model, Predictor):
        facts = predictor_metadata(model) if model.facts is None else model.facts
    data = None
    if facts is None:
        facts = collect_facts(model, X, y)
    elif missing := [key for key in REQUIRED if key not in facts]:
        raise ValueError(
            f"facts must be what termwise.diagnostics.facts collects, got a dict without {', '.join(missing)}: "
            "leave it out to have them collected."
        )
    else:
        check_facts(facts)
        data = scores_on_data(model, X, y) if X is not None and y is not None else None
    folder = files("termwise.explain") / "page"
    parts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "page.css", *SCRIPTS)}
    strict = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    strict.filters |= {"short": short, "counted": counted, "per_cent": per_cent, "score": score, "error": with_error}
    scripts = "".join(parts[name] for name in SCRIPTS)
    content = {
        **page_content(facts, data, title),
        "css": markup(parts["page.css"]),
        "js": markup(f'(() => {{\n"use strict";\n{scripts}}})();'),
        "facts_json": markup(safe_json({"facts": facts, "data": data, "names": NAMES})),
    }
    try:
        return strict.from_string(parts["page.html"]).render(content)
    except jinja2.UndefinedError as error:
        raise ValueError(
            f"facts must be what termwise.diagnostics.facts collects, got others ({error}): leave them out to have "
            "them collected."
        ) from None


def safe_json(value: Any) -> str:
    """JSON in which no string, such as the name of a column, can end the script element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def write_report(
    model: Any, path: str | os.PathLike[str], X: Any = None, y: Any = None, title: str | None = None
) -> None:
    """Write an HTML page about a fitted model to a file.

    Parameters
    ----------
    model : fitted estimator of termwise, `CriterionSearch`, pipeline that ends in one, or `Predictor`
        The model.
    path : str or path-like
        File to write. The page is written to a temporary file and renamed, so that no partial page is left behind.
    X, y : data frame or array-like of shape (n, d), array-like of shape (n,) or (n, q), default=None
        For an estimator, the samples of its fit; for a predictor any samples. See `termwise.report.render`.
    title : str, default=None
        Title of the page.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import TermwiseRegressor, write_report
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = TermwiseRegressor(size=5, dictionary="linear").fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(model, Path(folder) / "diabetes.html", X, y)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['diabetes.html']
    """
    write_file(path, render(model, X=X, y=y, title=title))


def scores_on_data(model: Any, X: Any, y: Any) -> Metadata:
    """Score of a model or predictor on any samples, with observed and predicted values."""
    past = 0  # rows that a prediction reads before its own: the first ones of a time series are not scored
    if isinstance(model, Predictor):
        past = model.n_past or 0
    elif isinstance(first := next(iter(resolve(model).steps), None), LagBasis):
        past = first.max_lag_
    y, predicted = as_numpy(y)[past:], as_numpy(model.predict(X))[past:]
    classes = getattr(model, "classes", getattr(model, "classes_", None))
    if classes is not None:
        probabilities = as_numpy(model.predict_proba(X))[past:] if hasattr(model, "predict_proba") else None
        return score_metadata(y, predicted, classes, probabilities)
    F, rows = as_columns(predicted).astype(np.float64), evenly(len(y), MAX_ROWS)
    Y = as_columns(y).astype(np.float64) + np.zeros((1, F.shape[1]))  # several quantiles are of one target
    scores = score_metadata(Y, F, None)
    scores |= {name: round_significant(scores[name]) for name in ("rmse", "mae")}
    return {**scores, "fit": fit_metadata(rows, Y, F[rows], None), "confusion": None}


# -- numbers as text ---------------------------------------------------------------------------------------------------


def short(value: float | None, digits: int = 4) -> str:
    """A number with some significant digits, without an exponent unless it is very large or very small."""
    if value is None:
        return "?"
    if not isinstance(value, int):
        value = float(f"{value:.{digits}g}")
        value = int(value) if value.is_integer() and abs(value) < EXPONENT_FROM else value
    return (f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}").replace("-", MINUS)


def counted(number: int, what: str) -> str:
    """A number and a noun, in the plural where needed."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def per_cent(share: float | None) -> str:
    """A share in per cent."""
    return "?" if share is None else f"{100 * share:.1f}\u00a0%".replace("-", MINUS)


def score(value: float, metric: str) -> str:
    """A score: accuracies in per cent, others with three decimals."""
    return per_cent(value) if metric == "accuracy" else f"{round(value, 3) + 0.0:.3f}".replace("-", MINUS)


def with_error(one: Metadata, metric: str) -> str:
    """A score with its standard error, where that is known."""
    error = one.get("std_error")
    return score(one["value"], metric) + ("" if error is None else f" ± {score(error, metric)}")


# -- content of the page -----------------------------------------------------------------------------------------------


def page_content(facts: Metadata, data: Metadata | None, title: str | None) -> dict[str, Any]:
    """What the template shows: its variables by name."""
    terms, all_keys = counted(facts["model"]["n_terms"], "term"), dict.fromkeys(OPTIONAL) | facts
    page_title = f"{facts['model']['target']} in {terms}" if facts["model"]["target"] else f"A model of {terms}"
    sets = [tuple(term["inputs"]) for term in facts["terms"] if "inputs" in term]
    return {
        "title": title or page_title,
        "facts": all_keys,
        "data": data,
        "sections": sections(all_keys, data),
        "headline": headline(facts["model"]),
        "cards": cards(facts),
        "bars": bars(facts),
        "importance": importance_table(facts),
        "shares": shares_table(facts),
        "triples": any(len(group["inputs"]) > 2 for group in facts.get("groups") or []),
        "grouped": 1 < len(set(sets)) < len(sets),  # a list of terms is read more easily by effect
        "larger": size_lines(facts["model"].get("larger_sizes") or []),
        "trials": trials_table(facts),
        "notes": notes(facts),
        "metrics": METRICS,
        "quoted": quoted_score(facts["scores"]),
    }


def sections(facts: Metadata, data: Metadata | None) -> dict[str, str]:
    """Headings of the sections of the page, by their anchors."""
    averages = facts["effects"] and facts["effects"][0].get("kind") == "average"
    interactions = any(len(effect["inputs"]) == 2 for effect in facts["effects"])
    effects = "Partial dependence" if averages else "Main effects and interactions" if interactions else "Main effects"
    fit = facts["fit"] and facts["fit"]["observed"] and all(isinstance(one, list) for one in facts["fit"]["observed"])
    residuals = fit and facts["model"]["n_terms"]  # those of a mean are of no interest
    quality = facts["scores"].get("held_out") and "Held-out performance and baselines"
    if not quality and facts["scores"].get("cross_validation") and facts["baselines"]:
        quality = "Cross-validated performance and baselines"
    headings = {
        "quality": quality,
        "data": data and "Performance on these data",
        "effects": facts["effects"] and effects,
        "path": facts["path"] and "Error along the path",
        "terms": "Terms and weights",
        "reliability": facts["reliability"] and "Reliability of the probabilities",
        "fit": (facts["confusion"] and "Confusion matrix") or (residuals and "Observed and predicted values"),
        "penalty": facts["penalty"] and "Error along the penalty",
        "tried": (facts["trials"] and "Dictionaries compared") or (facts["search"] and "Parameter search"),
        "notes": "Notes",
    }
    return {anchor: heading for anchor, heading in headings.items() if heading}


def headline(model: Metadata) -> str:
    """Description of the model in one sentence."""
    target = f"the classes of {model['target'] or 'y'}" if model["classes"] else model["target"] or "y"
    text = f"{model['class']}: {target} from {counted(model['d'], 'input')} by {counted(model['n_terms'], 'term')}"
    if model["n_candidates"] is None or model["dictionary"] is None:
        return f"{text}."
    names = {name: dictionary.description for name, dictionary in DICTIONARIES.items()}
    names["columns"] = "columns of the table"
    dictionary = "; ".join(names.get(name, name) for name in model["dictionary"].split(" and "))
    if model["n_terms"] < model["n_candidates"]:
        text += f", selected from {counted(model['n_candidates'], 'candidate')}"
    samples = "" if model["n"] is None else f", fitted to {short(model['n'])} samples"
    link = " The terms add up to the logarithm of the prediction." if model.get("link") == "log" else ""
    return f"{text} ({dictionary}){samples}.{link}"


def cards(facts: Metadata) -> list[tuple[str, str, str]]:
    """Name, value and explanation of the most important numbers."""
    model, scores, found = facts["model"], facts["scores"], []
    for key, name in (("held_out", "held-out"), ("cross_validation", "cross-validated")):
        if one := scores.get(key):
            metric = one["metric"]
            how = one.get("protocol") or f"on {one['n']:,} samples"
            found.append((f"{name} {METRICS.get(metric, metric)}", with_error(one, metric), how))
    for key, metric in (("loo_r2", "R2"), ("loo_accuracy", "accuracy")):
        if scores.get(key) is not None:
            found.append((f"leave-one-out {METRICS[metric]}", score(scores[key], metric), "given the terms"))
    if (quoted := quoted_score(scores)) and quoted.get("auc") is not None:
        found.append(("AUC", score(quoted["auc"], "auc"), f"log loss {short(quoted['log_loss'], 3)}"))
    candidates = "" if model["n_candidates"] is None else f"of {counted(model['n_candidates'], 'candidate')}"
    found.append(("terms", short(model["n_terms"]), candidates))
    shares = [group["share"] for group in facts.get("groups") or [] if group["share"] is not None]
    if len(shares) > 1:
        found.append(("effects", short(sum(share >= MIN_SHARE for share in shares)), "of at least 1 % of the variance"))
    if model["dof"] is not None:
        penalty = "one penalty per weight" if model["alpha"] is None else f"penalty {short(model['alpha'], 2)}"
        target = (model.get("trial") or "").removesuffix(", log").rpartition(", ")[-1]
        found.append(("effective parameters", short(model["dof"], 3), TARGETS.get(target, penalty)))
    if model["noise"] is not None and not model["classes"]:
        what = "standard deviation" + " of the logarithm" * (model.get("link") == "log")
        found.append(("noise", short(model["noise"], 3), what))
    return found


def bars(facts: Metadata) -> list[dict[str, Any]]:
    """Scores of the model and the baselines, as lengths and as text."""
    model, quoted = facts["model"], quoted_score(facts["scores"])
    if not quoted:
        return []
    own = {"title": model["class"], **quoted, "score": quoted["value"], "terms": model["n_terms"]}
    rows = [own, *facts["baselines"]]
    longest = max(1.0 if quoted["metric"] in METRICS else 0.0, *(row["score"] for row in rows)) or 1.0
    return [
        {
            "title": row.get("title") or row["name"],
            "own": row is own,
            "width": f"{100 * max(row['score'], 0.0) / longest:.2f}",
            "value": with_error({**row, "value": row["score"]}, quoted["metric"]),
            "terms": counted(row["terms"], "term"),
        }
        for row in rows
    ]


def importance_table(facts: Metadata) -> list[dict[str, str]]:
    """Total effects of the inputs on all outputs, as lengths and as text, and how often folds selected the input."""
    totals = {row["input"]: math.hypot(*row["total"]) for row in facts.get("importance") or []}
    frequency = facts.get("selection_frequency") or {}
    return [
        {
            "input": name,
            "width": f"{100 * total / (max(totals.values()) or 1.0):.2f}",
            "value": short(total, 3),
            "frequency": per_cent(frequency[name]) if name in frequency else "",
        }
        for name, total in list(totals.items())[:MAX_CANDIDATES]
    ]


def shares_table(facts: Metadata) -> list[dict[str, Any]]:
    """Effects with their shares of the variance, as lengths and as text; small ones are one row."""
    groups = [group for group in facts.get("groups") or [] if group["share"] is not None]
    if len(groups) < 2:
        return []
    large = [group for group in groups if group["share"] >= MIN_SHARE][:MAX_CANDIDATES] or groups[:1]
    rows = [(effect_name(one["inputs"]), one["share"], counted(one["n_terms"], "term")) for one in large]
    if rest := groups[len(large) :]:
        rows.append((counted(len(rest), "smaller effect"), sum(one["share"] for one in rest), ""))
    longest = max(share for _, share, _ in rows) or 1.0
    return [
        {
            "name": name,
            "own": bool(terms),
            "width": f"{100 * share / longest:.2f}",
            "share": per_cent(share),
            "terms": terms,
        }
        for name, share, terms in rows
    ]


def trials_table(facts: Metadata) -> dict[str, Any] | None:
    """Dictionaries that were cross-validated, or candidates of a search, the best first."""
    if facts.get("trials"):
        least = []  # error, size and name of each
        for trial in facts["trials"]:
            errors = [(error, size) for size, error in enumerate(trial["error"]) if error is not None]
            least.append((*min(errors, default=(math.inf, 0)), trial["name"]))
        rows = [
            [name, f"{error:.3f}", str(size), "chosen" if name == facts["model"].get("trial") else ""]
            for error, size, name in sorted(least, key=lambda one: one[0])
        ]
        return {"head": ["dictionary", "least error", "terms", ""], "rows": rows}
    if facts.get("search"):
        ranked = sorted(facts["search"]["rows"], key=lambda row: (row["value"] is None, row["value"] or 0.0))
        rows = []
        for row in ranked[:MAX_CANDIDATES]:
            params = ", ".join(f"{key} = {value}" for key, value in row["params"].items())
            rows.append([params, short(row["value"]), short(row["terms"])])
        return {"head": ["parameters", "criterion", "terms"], "rows": rows}
    return None


def notes(facts: Metadata) -> list[str]:
    """Notes on the data and the fit."""
    model, found = facts["model"], list(facts["notes"])
    if model["stop_reason"] and not model.get("trial"):  # those end soon after the size found by cross-validation
        found.append(f"The path ended: {model['stop_reason']}.")
    if facts.get("no_effects") and not facts["effects"] and model["n_terms"]:
        found.append("Main effects are not shown: terms depend on several inputs jointly.")
    scores = {NAMES.get(name, name): value for name, value in facts["scores"].items() if isinstance(value, int | float)}
    estimates = [f"{name} {short(value)}" for name, value in scores.items() if not name.startswith("loo_")]
    return [*found, f"Error estimates: {', '.join(estimates)}."] if estimates else found
