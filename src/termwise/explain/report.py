"""The page: a template, a style sheet and a script, with the facts inside."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from typing import Any

from termwise._checks import import_optional
from termwise.deploy.document import write_atomically
from termwise.deploy.predictor import Predictor
from termwise.diagnostics import facts as collect_facts
from termwise.explain.frozen import on_data, predictor_facts
from termwise.explain.report_view import NAMES, view

SCRIPTS = ["core.js", "path.js", "shown.js"]
REQUIRED = ["model", "scores", "baselines", "criteria", "terms", "effects", "notes", "reproduce", "versions"]
OPTIONAL = ["path", "fit", "confusion", "penalty"]


def render(
    model: Any,
    *,
    facts: dict[str, Any] | None = None,
    X: Any = None,
    y: Any = None,
    title: str | None = None,
) -> str:
    """Write a page about a fitted model: how good it is, its terms, the path they were chosen on, what inputs do.

    Parameters
    ----------
    model : fitted estimator of termwise, `CriterionSearch`, pipeline that ends in one, or `Predictor`
        What the page is about.
    facts : dict, default=None
        What `termwise.diagnostics.facts` has collected; by default it is asked, or what the predictor carries is taken.
    X, y : data frame or array-like of shape (n, d), array-like of shape (n,) or (n, q), default=None
        For an estimator without `facts`, the samples of its fit, for observed values and effects. Otherwise any
        samples: how good the model is on them is added.
    title : str, default=None
        Title of the page.

    Returns
    -------
    html : str
        The page. It holds everything it needs and asks nothing of the network.

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
    told, data = what_to_tell(model, facts, X, y)
    folder, markup = files("termwise.explain") / "page", import_optional("markupsafe", "report", "A report").Markup
    parts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "page.css", *SCRIPTS)}
    script = '(() => {\n"use strict";\n' + "".join(parts[name] for name in SCRIPTS) + "})();"
    strict = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    return strict.from_string(parts["page.html"]).render(
        title=title or title_of(told["model"]),
        facts=dict.fromkeys(OPTIONAL) | told,
        data=data,
        view=view(told, data),
        css=markup(parts["page.css"]),
        js=markup(script),
        facts_json=markup(safe_json({"facts": told, "data": data, "names": NAMES})),
    )


def what_to_tell(model: Any, facts: dict[str, Any] | None, X: Any, y: Any) -> tuple[dict[str, Any], Any]:
    """Return the facts of a model, and how good it is on other data if such are given."""
    frozen = isinstance(model, Predictor)
    if facts is None and frozen:
        facts = predictor_facts(model) if model.facts is None else model.facts
    if facts is None:
        return collect_facts(model, X, y), None
    missing = [key for key in REQUIRED if key not in facts]
    if missing:
        raise ValueError(
            f"facts must be what termwise.diagnostics.facts collects, got a dict without {', '.join(missing)}: "
            "leave it out to have them collected."
        )
    return facts, None if X is None or y is None else on_data(model, X, y)


def title_of(model: dict[str, Any]) -> str:
    """Title of a page that has none."""
    terms = f"{model['n_terms']} term{'' if model['n_terms'] == 1 else 's'}"
    return f"{model['target']} in {terms}" if model["target"] else f"A model of {terms}"


def safe_json(value: Any) -> str:
    """JSON that nothing in it can end the script element of, whatever names people give their columns."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def write_report(
    model: Any, path: str | os.PathLike[str], X: Any = None, y: Any = None, title: str | None = None
) -> None:
    """Write a page about a fitted model to a file.

    Parameters
    ----------
    model : fitted estimator of termwise, `CriterionSearch`, pipeline that ends in one, or `Predictor`
        What the page is about.
    path : str or path-like
        Where to write it. The page is written beside it and renamed, so that there is never half of one.
    X, y : data frame or array-like of shape (n, d), array-like of shape (n,) or (n, q), default=None
        For an estimator, the samples of its fit; for a predictor any samples. See `termwise.explain.report.render`.
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
    write_atomically(path, render(model, X=X, y=y, title=title))
