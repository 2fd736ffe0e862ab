"""The summary of a fitted model: lines of text for `summary()`, and HTML with small drawings for notebooks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from termwise._arrays import evenly
from termwise.explain.decomposition import AdditiveDecomposition, Purification
from termwise.explain.groups import MIN_SHARE, EffectGroup, effect_groups, effect_name, term_groups, variance_shares
from termwise.explain.inputs import Input, make_inputs
from termwise.explain.resolve import Floats, Metadata, ResolvedModel, resolve, round_significant
from termwise.recipe.fit import describe_error

HTML_TERMS = 10  # terms in the table of a notebook
HTML_OUTPUTS = 4  # columns of weights in it
HTML_STYLE = "margin:0.6em 0;font-family:sans-serif;font-size:13px;color:inherit"
CELL_STYLE = "text-align:right;padding:1px 8px"
MAX_PANELS = 6  # drawings: the effects with the largest share of the variance
MAX_CATEGORIES = 12  # of an input, as bars; of numbered ones spread over their order
MAX_SIZES = 100  # of a path
PANEL_ROWS = 200  # samples over which effects are pure and centred
CURVE_GRID, SURFACE_GRID = 24, 10  # values of an input, alone and in a pair
WIDTH, HEIGHT, TOP, BOTTOM = 176.0, 96.0, 18.0, 82.0  # of a panel, and the ends of its vertical axis
LEFT, RIGHT = 6.0, 170.0  # ends of the horizontal axis
MAX_TITLE = 20  # characters
UP, DOWN = "#2a7fce", "#d9772b"  # legible on white and on black; lines and text have the colour of the page


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
    large = [group for group in groups if group.share is None or group.share >= MIN_SHARE]
    listed = (large or groups[:1])[:max_effects]
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
    """Describe a fitted model in HTML: size, error, drawings and terms; empty for one that is not fitted.

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
    panels, caption = draw_model(resolved)
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


# -- drawings ----------------------------------------------------------------------------------------------------------


def draw_model(resolved: ResolvedModel) -> tuple[list[str], str]:
    """Draw a model and return the panels with their caption: effects, or the path where effects cannot be drawn."""
    try:
        panels = effect_panels(resolved)
    except ValueError:  # terms of many inputs, or none
        panels = []
    if panels:
        return panels, "Effects on the prediction, on a common scale, with their share of the variance"
    model: Any = resolved.model
    if not hasattr(model, "path_"):
        return [], ""
    path = model.path_
    if hasattr(model, "trials_"):
        errors, kind = np.asarray(model.trials_[model.choice_.title]), "Cross-validated error"
    else:
        errors, kind = np.array([step.loo for step in path.steps], dtype=np.float64), f"Leave-one-out {path.error_name}"
    if model.n_terms_ >= len(errors) or not np.isfinite(errors[model.n_terms_]):
        return [], ""
    return [path_panel(errors, model.n_terms_)], f"{kind} against the number of terms; the model is marked"


def effect_panels(resolved: ResolvedModel) -> list[str]:
    """Pure effects of a model of one output, the largest share of the variance first.

    None for models whose terms cannot be separated (ValueError), that have not kept samples of their fit, or that read
    the rows before each, which may not be among those kept.
    """
    sample = resolved.model.fitted_terms_.sample
    if sample is None or resolved.reads_past or len(resolved.weights) > 1:
        return []
    model = AdditiveDecomposition.from_model(resolved)
    U = model.encode(sample, PANEL_ROWS)
    purify = Purification(U, make_inputs(model.blocks, U), CURVE_GRID, SURFACE_GRID)
    pure = purify(model)[0]
    shares = variance_shares([one.rows for one in pure.values()])[:, 0]
    drawn = [(share, key) for share, key in zip(shares, pure, strict=True) if len(pure[key].grid)]
    drawn = sorted(drawn, key=lambda one: -one[0])[:MAX_PANELS]
    reach = max(float(np.abs(pure[key].rows).max()) for _, key in drawn) or 1.0
    panels = []
    for share, key in drawn:
        members, heights = [purify.inputs[k] for k in key], np.clip(pure[key].grid[..., 0] / reach, -1, 1)
        draw = surface if len(key) == 2 else curve if members[0].categories is None else bars
        title = f"{shorten(effect_name([one.name for one in members]))} {100 * share:.0f} %"
        panels.append(panel(title, draw(members, heights)))
    return panels


def path_panel(errors: Floats, chosen: int) -> str:
    """Draw an error against the number of terms, with the size of the model marked."""
    finite = errors[np.isfinite(errors)]
    low, span = float(finite.min()), float(np.ptp(finite)) or 1.0
    heights, last = 2 * (errors - low) / span - 1, max(1, len(errors) - 1)
    sizes = [size for size in evenly(len(errors), MAX_SIZES) if np.isfinite(errors[size])]
    line = polyline([to_panel(size / last, heights[size]) for size in sizes])
    x, y = to_panel(chosen / last, heights[chosen])
    mark = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{DOWN}"/>'
    return panel(f"{chosen} terms", line + mark + label_ends("0", str(len(errors) - 1)))


def curve(members: list[Input], heights: Floats) -> str:
    """Draw the main effect of a number."""
    points = [to_panel(x, height) for x, height in zip(np.linspace(0, 1, len(heights)), heights, strict=True)]
    low, high = members[0].ends
    return zero_line() + polyline(points) + label_ends(f"{low:.3g}", f"{high:.3g}")


def bars(members: list[Input], heights: Floats) -> str:
    """Draw the main effect of the first categories of an input; of numbered ones some, by effect."""
    places = np.arange(len(heights))
    if members[0].numbered:
        places = np.argsort(heights, kind="stable")[evenly(len(heights), MAX_CATEGORIES)]
    places = places[:MAX_CATEGORIES]
    names, heights = [str(one) for one in members[0].grid(len(heights))[0][places]], heights[places]
    step, drawn = (RIGHT - LEFT) / len(names), []
    for j, height in enumerate(heights):
        (_, y), (_, zero) = to_panel(0, height), to_panel(0, 0)
        drawn.append(
            f'<rect x="{LEFT + (j + 0.15) * step:.1f}" y="{min(y, zero):.1f}" width="{0.7 * step:.1f}" '
            f'height="{max(1.0, abs(y - zero)):.1f}" fill="{UP if height > 0 else DOWN}"/>'
        )
    return zero_line() + "".join(drawn) + label_ends(shorten(names[0]), shorten(names[-1]))


def surface(members: list[Input], heights: Floats) -> str:
    """Draw the joint effect of two inputs: its sign as colour, its size as opacity."""
    (rows, columns), drawn = heights.shape, []
    width, height = (RIGHT - LEFT) / rows, (BOTTOM - TOP) / columns
    for (i, j), value in np.ndenumerate(heights):
        drawn.append(
            f'<rect x="{LEFT + i * width:.1f}" y="{BOTTOM - (j + 1) * height:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" fill="{UP if value > 0 else DOWN}" fill-opacity="{min(1.0, abs(value)):.2f}"/>'
        )
    cells = f'<g shape-rendering="crispEdges">{"".join(drawn)}</g>'
    return cells + label_ends(shorten(members[0].name), f"\u2191 {shorten(members[1].name)}")


def to_panel(x: float, height: float) -> tuple[float, float]:
    """Coordinates in a panel of a share of the horizontal axis, 0 to 1, and of a height, -1 to 1."""
    return LEFT + x * (RIGHT - LEFT), (TOP + BOTTOM) / 2 - height * (BOTTOM - TOP) / 2


def polyline(points: list[tuple[float, float]]) -> str:
    """Draw a curve."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{UP}" stroke-width="2"/>'


def zero_line() -> str:
    """Draw the mean of an effect."""
    _, y = to_panel(0, 0)
    return f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}" stroke="currentColor" stroke-opacity="0.35"/>'


def label_ends(first: str, last: str) -> str:
    """Label the ends of the horizontal axis."""
    style = f'y="{HEIGHT - 2}" font-size="9" fill="currentColor" fill-opacity="0.75"'
    return (
        f'<text x="{LEFT}" {style}>{escape(first)}</text>'
        f'<text x="{RIGHT}" text-anchor="end" {style}>{escape(last)}</text>'
    )


def panel(title: str, content: str) -> str:
    """Return a drawing with its title, which a screen reader reads."""
    label = escape(title, quote=True)
    return (
        f'<svg role="img" aria-label="{label}" width="{WIDTH:g}" height="{HEIGHT:g}" '
        f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}" font-family="sans-serif">'
        f'<text x="{LEFT}" y="11" font-size="11" fill="currentColor">{label}</text>{content}</svg>'
    )


def shorten(text: str) -> str:
    """Cut a long name."""
    return text if len(text) <= MAX_TITLE else f"{text[: MAX_TITLE - 1]}\u2026"
