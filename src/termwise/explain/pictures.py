"""Small SVG pictures of a model for notebooks: its effects on a common scale, or the error along its path."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from termwise._arrays import evenly, rows_of
from termwise.explain.decomposition import AdditiveDecomposition, Purification
from termwise.explain.groups import effect_name, variance_shares
from termwise.explain.inputs import Input, inputs_of
from termwise.explain.resolve import Floats, ResolvedModel

MAX_PANELS = 6  # the effects with the largest share of the variance
MAX_CATEGORIES = 12  # of an input, as bars; of numbered ones spread over their order
MAX_SIZES = 100  # of a path
PICTURE_ROWS = 200  # samples over which effects are pure and centred
CURVE_GRID, SURFACE_GRID = 24, 10  # values of an input, alone and in a pair
WIDTH, HEIGHT, TOP, BOTTOM = 176.0, 96.0, 18.0, 82.0  # of a panel, and the ends of its vertical axis
LEFT, RIGHT = 6.0, 170.0  # ends of the horizontal axis
MAX_TITLE = 20  # characters
UP, DOWN = "#2a7fce", "#d9772b"  # legible on white and on black; lines and text have the colour of the page


def effect_panels(resolved: ResolvedModel) -> list[str]:
    """Pure effects of a model of one output, the largest share of the variance first.

    None for models whose terms cannot be separated (ValueError) or that have not kept samples of their fit.
    """
    sample = resolved.model.fitted_terms_.sample
    if sample is None or len(resolved.weights) > 1:
        return []
    model = AdditiveDecomposition.from_model(resolved)
    U = model.encode(rows_of(sample, evenly(sample.shape[0], PICTURE_ROWS)))
    purify = Purification(U, inputs_of(model.blocks, U), CURVE_GRID, SURFACE_GRID)
    pure = purify(model)[0]
    shares = variance_shares([part.rows for part in pure.values()])[:, 0]
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
    line = polyline([place(size / last, heights[size]) for size in sizes])
    x, y = place(chosen / last, heights[chosen])
    mark = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{DOWN}"/>'
    return panel(f"{chosen} terms", line + mark + ends("0", str(len(errors) - 1)))


def curve(members: list[Input], heights: Floats) -> str:
    """Draw the main effect of a number."""
    points = [place(x, height) for x, height in zip(np.linspace(0, 1, len(heights)), heights, strict=True)]
    low, high = members[0].ends
    return zero_line() + polyline(points) + ends(f"{low:.3g}", f"{high:.3g}")


def bars(members: list[Input], heights: Floats) -> str:
    """Draw the main effect of the first categories of an input; of numbered ones some, by effect."""
    places = np.arange(len(heights))
    if members[0].numbered:
        places = np.argsort(heights, kind="stable")[evenly(len(heights), MAX_CATEGORIES)]
    places = places[:MAX_CATEGORIES]
    names, heights = [str(one) for one in members[0].grid(len(heights))[0][places]], heights[places]
    step, drawn = (RIGHT - LEFT) / len(names), []
    for j, height in enumerate(heights):
        (_, y), (_, zero) = place(0, height), place(0, 0)
        drawn.append(
            f'<rect x="{LEFT + (j + 0.15) * step:.1f}" y="{min(y, zero):.1f}" width="{0.7 * step:.1f}" '
            f'height="{max(1.0, abs(y - zero)):.1f}" fill="{UP if height > 0 else DOWN}"/>'
        )
    return zero_line() + "".join(drawn) + ends(shorten(names[0]), shorten(names[-1]))


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
    return cells + ends(shorten(members[0].name), f"\u2191 {shorten(members[1].name)}")


def place(x: float, height: float) -> tuple[float, float]:
    """Place of a share of the horizontal axis, 0 to 1, and of a height, -1 to 1, in a panel."""
    return LEFT + x * (RIGHT - LEFT), (TOP + BOTTOM) / 2 - height * (BOTTOM - TOP) / 2


def polyline(points: list[tuple[float, float]]) -> str:
    """Draw a curve."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{UP}" stroke-width="2"/>'


def zero_line() -> str:
    """Draw the mean of an effect."""
    _, y = place(0, 0)
    return f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}" stroke="currentColor" stroke-opacity="0.35"/>'


def ends(first: str, last: str) -> str:
    """Label the ends of the horizontal axis."""
    style = f'y="{HEIGHT - 2}" font-size="9" fill="currentColor" fill-opacity="0.75"'
    return (
        f'<text x="{LEFT}" {style}>{escape(first)}</text>'
        f'<text x="{RIGHT}" text-anchor="end" {style}>{escape(last)}</text>'
    )


def panel(title: str, content: str) -> str:
    """Return a picture with its title, which a screen reader reads."""
    label = escape(title, quote=True)
    return (
        f'<svg role="img" aria-label="{label}" width="{WIDTH:g}" height="{HEIGHT:g}" '
        f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}" font-family="sans-serif">'
        f'<text x="{LEFT}" y="11" font-size="11" fill="currentColor">{label}</text>{content}</svg>'
    )


def shorten(text: str) -> str:
    """Cut a long name."""
    return text if len(text) <= MAX_TITLE else f"{text[: MAX_TITLE - 1]}\u2026"


def picture(resolved: ResolvedModel) -> tuple[list[str], str]:
    """Return the panels of a model and their caption: effects, or the path where effects cannot be drawn."""
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
