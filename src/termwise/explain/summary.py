"""What a model shows of itself: the lines of `summary()` that are computed from it, and HTML for notebooks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from termwise.explain.groups import EffectGroup, effect_groups, large_effects, term_groups
from termwise.explain.pictures import picture
from termwise.explain.resolve import Metadata, ResolvedModel, resolve, round_significant
from termwise.recipe.fit import describe_error

HTML_TERMS = 10  # terms in the table of a notebook
HTML_OUTPUTS = 4  # columns of weights in it
HTML_STYLE = "margin:0.6em 0;font-family:sans-serif;font-size:13px;color:inherit"
CELL_STYLE = "text-align:right;padding:1px 8px"


def summary_effects(model: Any, max_effects: int) -> tuple[list[str], list[tuple[int, ...]]]:
    """Return the lines of a summary about the effects of a model, and the order of its terms, in groups.

    There are none where the effects are the terms themselves, or all terms are of the same inputs. Terms of the inputs
    that explain most are first; their share is that of the sum of the terms as it is, main effects included.
    """
    resolved, sample = resolve(model), model.fitted_terms_.sample
    terms = term_groups(resolved, None)
    if len(terms) < 2 or all(len(group.inputs) == len(group.terms) == 1 for group in terms):
        return [], []
    effects = effect_groups(resolved, sample)
    if effects[0].share is not None:
        terms = term_groups(resolved, sample)
    return effect_lines(effects, max_effects), [group.terms for group in terms]


def effect_lines(groups: Sequence[EffectGroup], max_effects: int) -> list[str]:
    """Lines of a table of effects; those with a small share are one line."""
    listed = large_effects(groups)[:max_effects]
    width = max(6, *(len(group.name) for group in listed))
    known = listed[0].share is not None
    lines = [f"{'effect':<{width}}  terms{'  share of the variance' * known}"]
    for group in listed:
        share = "" if group.share is None else f"  {100 * group.share:>19.1f} %"
        lines.append(f"{group.name:<{width}}  {group.n_terms:>5}{share}")
    rest = len(groups) - len(listed)
    if rest:
        share = f", {100 * sum(group.share or 0.0 for group in groups[len(listed) :]):.1f} % together" if known else ""
        lines.append(f"... and {rest} more{share}")
    return lines


def larger_sizes(model: Any) -> list[Metadata]:
    """Return sizes of an automatic estimator with more terms and a smaller cross-validated error than its own.

    They are the `alternatives` of its `choice_`, of a named size those that follow it: "readable" has the limits of
    "small" and more. Errors are those of single models, not corrected for the choice, like those of `trials_`.

    Returns
    -------
    sizes : list of dict
        "size", "n_terms", "error" and "own_error", that of the model itself; the smallest first.
    """
    choice = getattr(model, "choice_", None)
    if choice is None or model.n_terms_ != choice.n_terms:  # truncated
        return []
    names = list(choice.alternatives)  # in ascending order
    later = names[names.index(model.size) + 1 :] if model.size in names else names
    own = choice.trials[choice.title]
    own_error = float(own[min(choice.n_terms, len(own) - 1)])
    return [
        {"size": name, "n_terms": int(n_terms), "error": round_significant(error, 4),
         "own_error": round_significant(own_error, 4)}
        for name, (n_terms, error) in sorted(choice.alternatives.items(), key=lambda item: item[1])
        if name in later and n_terms > model.n_terms_ and error < own_error
    ]  # fmt: skip


def size_lines(sizes: Sequence[Metadata]) -> list[str]:
    """Describe what larger sizes would gain, one line for each of `larger_sizes`."""
    return [
        f"{one['size']}: {one['n_terms']} terms, cross-validated error {one['error']:.3g} instead of "
        f"{one['own_error']:.3g}"
        for one in sizes
    ]


# -- HTML --------------------------------------------------------------------------------------------------------------


def summary_html(estimator: Any) -> str:
    """Describe a fitted model in HTML: size, error, a picture and its terms; empty for one that is not fitted.

    Text and lines have the colour of the page, so that it is legible on light and dark ones. Names are escaped.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return render_summary(resolve(estimator))
    except Exception:  # a notebook shows the estimator whatever state it is in
        return ""


def render_summary(resolved: ResolvedModel) -> str:
    """HTML of a fitted model."""
    samples = "" if resolved.n_samples is None else f", {resolved.n_samples:,g} samples"
    size = f"{len(resolved.chosen)} of {resolved.n_candidates:,} terms{samples}"
    name = escape(type(resolved.model).__name__)
    panels, caption = picture(resolved)
    drawn = f'<div style="display:flex;flex-wrap:wrap;gap:6px">{"".join(panels)}</div>'
    drawn += f'<div style="opacity:0.75;font-size:11px">{caption}</div>'
    return (
        f'<div class="termwise-summary" style="{HTML_STYLE}"><div><b>{name}</b>: {size}</div>'
        f"<div>{escape(error_line(resolved.model))}</div>{drawn if panels else ''}{terms_table(resolved)}</div>"
    )


def error_line(model: Any) -> str:
    """The cross-validated error of a model, of one without folds its leave-one-out error."""
    if hasattr(model, "choice_") and model.n_terms_ == model.choice_.n_terms:  # not truncated
        return describe_error(model)
    terms = model.fitted_terms_
    folds, kind = terms.fold_models, getattr(getattr(model, "path_", None), "error_name", "squared error")
    if folds is not None and terms.candidates.labels is None and kind == "squared error":
        error = np.average((folds.residuals**2).mean(axis=1), weights=folds.sample_weight)
        return f"cross-validated squared error, selection included: {error:.4g}"
    try:
        criteria = model.criteria_
    except ValueError:  # the samples were not kept
        return ""
    return f"leave-one-out {kind}, given the terms: {criteria['loo']:.4g}" if "loo" in criteria else ""


def terms_table(resolved: ResolvedModel) -> str:
    """Table of the terms with the largest ratio of weight to standard error, or the largest weight."""
    if not len(resolved.chosen):
        return "<div>no terms: the model is the mean</div>"
    terms, weights, errors = resolved.model.fitted_terms_, resolved.weights, resolved.std_errors
    shown = range(min(len(weights), HTML_OUTPUTS))
    order = terms.ranked(errors)[:HTML_TERMS]
    names = resolved.term_names(resolved.chosen[order])
    outputs = ["weight"] if len(weights) == 1 else [f"weight, output {k}" for k in shown]
    with_errors = errors is not None and len(weights) == 1
    head = "".join(f'<th style="{CELL_STYLE}">{one}</th>' for one in [*outputs, *["std. error"] * with_errors])
    rows = []
    for j, name in zip(order, names, strict=True):
        values = [weights[k, j] for k in shown]
        if errors is not None and with_errors:
            values.append(errors[0, j])
        cells = "".join(f'<td style="{CELL_STYLE}">{value:.4g}</td>' for value in values)
        rows.append(f'<tr><td style="text-align:left">{escape(name)}</td>{cells}</tr>')
    more = len(resolved.chosen) - len(order)
    rest = f'<div style="opacity:0.75">... and {more} more</div>' if more else ""
    return (
        f'<table style="border-collapse:collapse;color:inherit;font-size:12px;margin:0.4em 0">'
        f'<tr><th style="text-align:left">term</th>{head}</tr>{"".join(rows)}</table>{rest}'
    )
