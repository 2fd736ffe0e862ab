"""What all pictures share: colours told apart with any kind of colour vision, names, axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._checks import import_optional

# Okabe and Ito's colours, strongest contrast on white first
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
COLOURS = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK]
DASHES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 1))]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
GREY, MAP = "0.6", "PuOr"  # orange for less, purple for more, as on the page about a model


def plain(name: str) -> str:
    """Return a name as matplotlib should print it: dollars are no formula."""
    return name.replace("$", r"\$")


def new_axes(who: str, high: int = 1, size: tuple[float, float] = (6.4, 4.0), **kwargs: Any) -> NDArray[np.object_]:
    """Axes of a new figure, one above the other."""
    pyplot = import_optional("matplotlib.pyplot", "plots", who)
    _, axes = pyplot.subplots(high, 1, figsize=size, layout="constrained", squeeze=False, **kwargs)
    return axes[:, 0]


def tidy(axes: Any) -> None:
    """Leave out the lines that bound nothing."""
    axes.spines[["top", "right"]].set_visible(False)
