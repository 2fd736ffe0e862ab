"""Facts put into words, as the page shows them."""

from __future__ import annotations

from typing import Any

from termwise.explain.along import WORDS

Facts = dict[str, Any]

NAMES = WORDS | {"loo_error": "leave-one-out mistakes", "loo_error_rate": "leave-one-out mistakes"}
METRICS = {"R2": "R²", "accuracy": "accuracy"}
DICTIONARIES = {
    "linear": "the inputs themselves",
    "additive": "bumps and straight lines of single inputs",
    "pairs": "bumps and straight lines of single inputs, and their products",
    "smooth": "Gaussians of all inputs, and the inputs themselves",
    "relevant": "Gaussians of the inputs that matter, each to its degree, and the inputs themselves",
    "columns": "the columns themselves",
}
AIMS = {
    "ridge": "of a fit to the ridge fit, both counted",
    "pooled": "of a fit to the mean of several models, all counted",
}
LISTED = 20  # rows of what was tried
LARGE = 1e6  # from which on numbers are written with an exponent
KEPT = "weights without the sample, terms kept"
MINUS = "\u2212"


def view(facts: Facts, data: Facts | None) -> dict[str, Any]:
    """Everything on the page that is not drawn."""
    bars = bars_of(facts)
    tried = tried_of(facts)
    return {
        "sentence": sentence(facts["model"]),
        "cards": cards(facts),
        "bars": bars,
        "metric": metric_of(facts),
        "quality": quality(facts) if bars else "",
        "remark": remark(facts),
        "path": path_words(facts),
        "terms": terms_words(facts["model"]),
        "outputs": facts["model"]["outputs"] if len(facts["model"]["outputs"]) > 1 else [],
        "output_word": "Class" if facts["model"]["task"] == "classification" else "Output",
        "weights_note": weights_note(facts),
        "effects": effects_words(facts),
        "confusion": confusion_words(facts),
        "fit": fit_words(facts) if shows_fit(facts) else "",
        "on_data": on_data_words(data),
        "tried": tried,
        "tried_told": tried_words(facts),
        "notes": notes(facts),
        "versions": "Made with " + ", ".join(f"{name} {number}" for name, number in facts["versions"].items()) + ".",
        "sections": sections(facts, data, bars, tried),
    }


def sections(facts: Facts, data: Facts | None, bars: Any, tried: Any) -> list[tuple[str, str]]:
    """Anchors and names of the sections there are."""
    named = [
        ("quality", "How good it is", bars),
        ("data", "On these data", data),
        ("path", "How many terms", facts.get("path")),
        ("terms", "Terms and weights", True),
        ("effects", "What each input does", facts.get("effects")),
        ("fit", "Right and wrong" if facts.get("confusion") else "Observed and predicted", shows_fit(facts)),
        ("penalty", "The penalty", facts.get("penalty")),
        ("tried", "What was tried", tried),
        ("notes", "Notes", True),
    ]
    return [(anchor, name) for anchor, name, there in named if there]


def shows_fit(facts: Facts) -> bool:
    """Whether observed and predicted values are worth a look: those of a mean are not."""
    return bool(facts.get("confusion") or (facts.get("fit") and facts["model"]["n_terms"]))


def short(value: float | None, digits: int = 4) -> str:
    """Write a number with so many significant digits, without an exponent unless it is very large or very small."""
    if value is None:
        return "?"
    if not isinstance(value, int):
        value = float(f"{value:.{digits}g}")
        value = int(value) if value.is_integer() and abs(value) < LARGE else value
    return (f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}").replace("-", MINUS)


def counted(number: int, what: str) -> str:
    """Write how many things there are."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def per_cent(share: float | None) -> str:
    """Write a share."""
    return "?" if share is None else f"{100 * share:.1f}\u00a0%".replace("-", MINUS)


# -- the beginning -----------------------------------------------------------------------------------------------------


def sentence(model: Facts) -> str:
    """Say what was fitted."""
    what = f"the classes of {model['target'] or 'y'}" if model["classes"] else model["target"] or "y"
    made = f"{what} from {counted(model['d'], 'input')} by {counted(model['n_terms'], 'term')}"
    if model["n_candidates"] is None:
        return f"{model['class']}: {made}."
    kind = "; ".join(DICTIONARIES.get(name, name) for name in model["dictionary"].split(" and "))
    fewer = model["n_terms"] < model["n_candidates"]
    chosen = f", chosen from {counted(model['n_candidates'], 'candidate')}" if fewer else ""
    samples = "" if model["n"] is None else f", fitted to {short(model['n'])} samples"
    return f"{model['class']}: {made}{chosen} ({kind}){samples}."


def cards(facts: Facts) -> list[dict[str, str]]:
    """The numbers people look for first."""
    model, scores, found = facts["model"], facts["scores"], []
    held_out = scores.get("held_out")
    if held_out:
        name = METRICS.get(held_out["metric"], held_out["metric"])
        found.append(
            (f"held-out {name}", score(held_out["metric"], held_out["value"]), f"{held_out['n']:,} samples not seen")
        )
    if (repeated := cross_validated(facts)) is not None:
        found.append(("cross-validated R²", score("R2", repeated), "every choice repeated without the sample"))
    for key, metric in (("loo_r2", "R2"), ("loo_accuracy", "accuracy")):
        if scores.get(key) is not None:
            found.append((f"leave-one-out {METRICS[metric]}", score(metric, scores[key]), KEPT))
    some = "" if model["n_candidates"] is None else f"of {counted(model['n_candidates'], 'candidate')}"
    found.append(("terms", short(model["n_terms"]), some))
    if model["dof"] is not None:
        found.append(("effective parameters", short(model["dof"], 3), penalty_words(model)))
    if model["noise"] is not None and not model["classes"]:
        found.append(("noise", short(model["noise"], 3), "standard deviation"))
    return [{"name": name, "value": value, "note": note} for name, value, note in found]


def score(metric: str, value: float) -> str:
    """Write a score."""
    return per_cent(value) if metric == "accuracy" else f"{round(value, 3) + 0.0:.3f}".replace("-", MINUS)


def cross_validated(facts: Facts) -> float | None:
    """Share of the variance explained in cross-validation that repeats every choice, at the size of the model."""
    errors = {one["name"]: one["error"] for one in facts.get("trials", [])}.get(facts["model"].get("trial"), [])
    size = facts["model"]["n_terms"]
    known = not facts["model"]["classes"] and size < len(errors) and errors[size] is not None
    return 1 - errors[size] if known else None


def penalty_words(model: Facts) -> str:
    """Say what holds the weights back."""
    aim = (model.get("trial") or "").rpartition(", ")[-1]
    if aim in AIMS:
        return AIMS[aim]
    return "each weight has its own penalty" if model["alpha"] is None else f"penalty {short(model['alpha'], 2)}"


# -- quality -----------------------------------------------------------------------------------------------------------


def metric_of(facts: Facts) -> str:
    """Name of the held-out score."""
    held_out = facts["scores"].get("held_out")
    return METRICS.get(held_out["metric"], held_out["metric"]) if held_out else ""


def bars_of(facts: Facts) -> list[dict[str, Any]]:
    """The model and the simple ones beside it."""
    held_out = facts["scores"].get("held_out")
    if not held_out:
        return []
    own = {
        "title": facts["model"]["class"],
        "value": held_out["value"],
        "terms": facts["model"]["n_terms"],
        "own": True,
    }
    others = [
        {"title": one.get("title", one["name"]), "value": one["score"], "terms": one["terms"], "own": False}
        for one in facts["baselines"]
    ]
    most = max([1e-12, *(one["value"] for one in [own, *others])])
    most = max(most, 1.0) if held_out["metric"] in METRICS else most
    return [
        {
            **one,
            "width": f"{100 * max(one['value'], 0.0) / most:.2f}",
            "value": score(held_out["metric"], one["value"]),
            "terms": counted(one["terms"], "term"),
        }
        for one in [own, *others]
    ]


def quality(facts: Facts) -> str:
    """Say how good the model is on samples it has not seen."""
    held_out = facts["scores"]["held_out"]
    where = f"On {held_out['n']:,} samples kept aside"
    if held_out["metric"] == "accuracy":
        return f"{where}, {per_cent(held_out['value'])} of the classes are right."
    if held_out["metric"] != "R2":
        return f"{where}, the {held_out['metric']} is {short(held_out['value'])}."
    told = f"{where}, the model explains {per_cent(held_out['value'])} of the variance"
    if held_out["value"] <= 0:
        told = f"{where}, the model explains nothing: it is no better than their mean"
    told += "." if held_out.get("rmse") is None else f"; its root mean square error is {short(held_out['rmse'], 3)}."
    if held_out.get("coverage") is not None:
        told += (
            f" Intervals meant to hold {100 * held_out['nominal']:.0f} % of them hold {per_cent(held_out['coverage'])}."
        )
    return told


def remark(facts: Facts) -> str:
    """Say what the simple models are."""
    if not facts["baselines"]:
        return ""
    rows = {one["rows"] for one in facts["baselines"] if one.get("rows")}
    part = f" They were fitted to {max(rows):,} of the samples." if rows else ""
    return (
        "The simple models beside it are fitted to the same samples and scored on the same others, with standardised "
        f"columns and their penalties cross-validated.{part}"
    )


# -- sections ----------------------------------------------------------------------------------------------------------


def path_words(facts: Facts) -> str:
    """Explain the path."""
    told = (
        "Terms are taken one by one; the lines are estimates of the error as they come in, with a dot where each is "
        "least. The dashed line is the size of this model. Click into a chart, or move the slider, to see the model at "
        "another size."
    )
    if "cv" in facts["criteria"]:
        told += (
            " Cross-validation repeats every choice without the samples it predicts. The others take the terms as "
            f"given and are optimistic. {size_words(facts['model'].get('size', 'small'))}"
        )
    else:
        told += " All take the terms as given: of many candidates some fit by chance, and the true error is larger."
    return told


def size_words(size: str | int) -> str:
    """Say how the size of a cross-validated model came about."""
    told = {"small": "as few terms as are about as good as the best", "accurate": "as many terms as are best"}
    return f"This model has {told.get(str(size), 'as many terms as were asked for')}."


def terms_words(model: Facts) -> str:
    """Introduce the terms."""
    if not model["n_terms"]:
        return "No term: the model is the mean."
    return f"prediction = {short(model['intercept'][0])} + the sum of weight times term."


def weights_note(facts: Facts) -> str:
    """Say what the error bars are and what they are not."""
    if not facts["terms"]:
        return ""
    if all(term["std_error"] is None for term in facts["terms"]):
        return "Standard errors are not known: the model has not kept its samples."
    told = (
        "Standard errors say how the weights scatter with the noise; that the terms were chosen is not counted. Grey: "
        "less than two standard errors from zero."
    )
    more = facts["model"]["n_terms"] - len(facts["terms"])
    return told + (f" {more:,} terms with weights closer to zero are not listed." if more > 0 else "")


def effects_words(facts: Facts) -> str:
    """Explain the effects."""
    if not facts["effects"]:
        return ""
    scores = "the score of the class" if facts["model"]["classes"] else "the prediction"
    if facts["effects"][0].get("kind") == "average":
        return (
            f"How {scores} changes with each input, averaged over the others, the strongest first. Terms of this model "
            "take several inputs together, and an average can hide that they act together. Curves share one scale; "
            "ticks are the deciles of the samples."
        )
    pairs = any(len(effect["inputs"]) == 2 for effect in facts["effects"])
    maps = " In the maps purple adds and orange takes away, each to the scale written above it." if pairs else ""
    return (
        f"What each input, and each pair that acts together, adds to {scores}, the strongest first: the model is "
        f"exactly the sum of these. Curves share one scale; ticks are the deciles of the samples.{maps}"
    )


def confusion_words(facts: Facts) -> str:
    """Introduce the confusion table."""
    confusion = facts.get("confusion")
    if not confusion:
        return ""
    without = (
        "Each sample is predicted by the model without it, its terms kept. "
        if confusion["how"] == "leave-one-out"
        else ""
    )
    return f"{without}Rows are observed classes, columns predicted ones."


def fit_words(facts: Facts) -> str:
    """Introduce observed and predicted values."""
    fit = facts.get("fit")
    if not fit:
        return ""
    how = "by the model without it, its terms kept" if fit["loo"] else "by the model, which has seen it"
    some = (
        f" {len(fit['rows']):,} of {short(facts['model']['n'])} samples are shown."
        if len(fit["rows"]) < (facts["model"]["n"] or 0)
        else ""
    )
    return f"Each sample is predicted {how}.{some}"


def on_data_words(data: Facts | None) -> str:
    """Say how good the model is on data given to the report."""
    if not data:
        return ""
    name = METRICS.get(data["metric"], data["metric"])
    extra = f", root mean square error {short(data['rmse'], 3)}" if data.get("rmse") is not None else ""
    return f"{name} {score(data['metric'], data['value'])} on the {data['n']:,} samples given to this report{extra}."


def tried_of(facts: Facts) -> dict[str, Any] | None:
    """What was tried beside the model, as a table."""
    if facts.get("trials"):
        rows = [trial_row(one, one["name"] == facts["model"].get("trial")) for one in facts["trials"]]
        return {"head": ["dictionary", "least error", "terms there", ""], "rows": sorted(rows, key=lambda row: row[1])}
    if facts.get("search"):
        ranked = sorted(facts["search"]["rows"], key=lambda row: (row["value"] is None, row["value"]))[:LISTED]
        rows = [
            [
                ", ".join(f"{key} = {value}" for key, value in row["params"].items()),
                short(row["value"]),
                short(row["terms"]),
            ]
            for row in ranked
        ]
        return {"head": ["parameters", "criterion", "terms"], "rows": rows}
    return None


def trial_row(trial: Facts, chosen: bool) -> list[str]:
    """One dictionary: its least error and the size that has it."""
    error, size = min((error, size) for size, error in enumerate(trial["error"]) if error is not None)
    return [trial["name"], f"{error:.3f}", str(size), "chosen" if chosen else ""]


def tried_words(facts: Facts) -> str:
    """Introduce what was tried."""
    if facts.get("trials"):
        told = "Cross-validated error of each dictionary, as a share of the variance, at the size where it is least."
        return told + (" Mistakes decide for classes, this error among equals." if facts["model"]["classes"] else "")
    return "Parameters tried, ranked by the criterion of their fit."


def notes(facts: Facts) -> list[str]:
    """What a reader should know."""
    model, found = facts["model"], list(facts["notes"])
    if model["stop_reason"] and not model.get("trial"):  # such a path is cut not far beyond the size that was chosen
        found.append(f"The path ended: {model['stop_reason']}.")
    if facts.get("no_effects") and not facts["effects"] and model["n_terms"]:
        found.append("The effect of single inputs is not shown: the terms take several inputs together.")
    scores = {NAMES.get(name, name): value for name, value in facts["scores"].items() if isinstance(value, int | float)}
    told = ", ".join(f"{name} {short(value)}" for name, value in scores.items() if not name.startswith("loo_"))
    return [*found, f"Error estimates: {told}."] if told else found
