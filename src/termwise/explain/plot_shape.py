"""`ShapeDisplay`: the effect of each input and of each pair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._checks import check_number, import_optional
from termwise.explain.effects import Effect, Parts
from termwise.explain.plot_style import BLUE, GREY, MAP, plain, tidy

LEVELS = 20  # of a filled contour


class ShapeDisplay:
    """The shape of a model: the effect of each input, and of each pair of inputs that act together.

    A model whose terms are functions of one or two inputs is a sum of curves and surfaces that can be looked at one by
    one, with nothing hidden and nothing averaged out: `prediction = offset + sum of the effects`. Make it with
    `from_estimator`.

    Parameters
    ----------
    effects : list of Effect
        The numbers drawn, one `Effect` per picture, with `inputs`, `values`, `effect` and `strength`.
    offset : float
        What the effects are added to.
    n_effects : int
        How many effects the model has.
    label : str, default="effect"
        Name of the axis of effects.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure drawn in.
    axes_ : ndarray of matplotlib Axes
        One per effect drawn.

    See Also
    --------
    sklearn.inspection.PartialDependenceDisplay : Averages over the other inputs, for any model.

    Notes
    -----
    The constant part of a term can be counted to it or to the intercept. Here every effect has mean zero, over the
    samples of `X` if they are given, over the values drawn otherwise, and `offset` is the rest: with `X` it is the mean
    prediction over `X`. Curves share one scale, each surface has its own. Surfaces reach into corners where there may
    be no samples.

    The terms of a pair stay with the pair as a whole: where the model has `x0 * x1`, part of what one would call the
    effect of `x0` alone may be in there.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import AnovaBasis, ForwardRegressor, ShapeDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(300, 5))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=300)
    >>> model = ForwardRegressor(AnovaBasis(), max_terms=4).fit(X, y)
    >>> display = ShapeDisplay.from_estimator(model, X)
    >>> [effect.inputs for effect in display.effects]
    [('x0',), ('x1', 'x2')]
    >>> display.axes_[1].get_xlabel(), display.axes_[1].get_ylabel()
    ('x1', 'x2')
    """

    figure_: Any
    axes_: NDArray[np.object_]

    def __init__(self, effects: Sequence[Effect], *, offset: float, n_effects: int, label: str = "effect") -> None:
        self.effects = list(effects)
        self.offset = offset
        self.n_effects = n_effects
        self.label = label

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        inputs: Iterable[Any] | None = None,
        output: int | None = None,
        max_effects: int = 9,
        grid: int = 60,
        ax: Any = None,
    ) -> Self:
        """Compute the effects of a fitted model and draw them, the strongest first.

        Parameters
        ----------
        estimator : fitted estimator of termwise, or `CriterionSearch` of one
            Its terms must be functions of one or two inputs: those of an `AnovaBasis`, or columns. Before them may come
            any transformers; the inputs are what these yield, in the units before a scaler of scikit-learn and with all
            columns of a category that `TableEncoder` made counted as one input.
        X : data frame or array-like of shape (n, d), default=None
            Samples, such as those of the fit: inputs are drawn over their range, with ticks at their deciles, and
            effects are centred over them. By default inputs are drawn over the range they had in the fit, as the
            basis knows it, and effects are centred over that.
        inputs : list of str or int, or pairs of them, default=None
            Which effects to draw, by name or position of the inputs, in this order; a pair is a tuple. By default all.
        output : int, default=None
            Which output, or column of the decision function, if there are several.
        max_effects : int, default=9
            How many effects to draw when `inputs` does not say.
        grid : int, default=60
            Values of each input that is no category.
        ax : matplotlib Axes or array of them, default=None
            Where to draw, one per effect; by default in a new figure.
        """
        check_number("grid", grid, low=2, integer=True, remedy="60 values make a smooth curve")
        parts = Parts.of(getattr(estimator, "best_estimator_", estimator), output)
        effects, offset = parts.effects(X, grid)
        chosen = effects if inputs is None else parts.pick(effects, inputs)
        label = "effect" if output is None else f"effect on output {output}"
        display = cls(chosen, offset=offset, n_effects=len(effects), label=label)
        return display.plot(ax, max_effects=max_effects if inputs is None else len(chosen))

    def plot(self, ax: Any = None, *, max_effects: int = 9) -> Self:
        """Draw the first effects.

        Parameters
        ----------
        ax : matplotlib Axes or array of them, default=None
            Where to draw, one per effect; by default in a new figure.
        max_effects : int, default=9
            How many effects to draw.
        """
        check_number("max_effects", max_effects, low=1, integer=True, remedy="draw at least one effect")
        drawn = self.effects[:max_effects]
        self.axes_ = self._new_axes(len(drawn)) if ax is None else np.ravel(np.asarray(ax, dtype=object))
        if len(self.axes_) != len(drawn):
            raise ValueError(
                f"ax must have one Axes per effect, {len(drawn)} in all, got {len(self.axes_)}: give as many, set "
                "max_effects, or leave it out for a new figure."
            )
        self.figure_ = self.axes_[0].figure
        limit = max([extent(effect) for effect in drawn if len(effect.inputs) == 1], default=1.0)
        for axes, effect in zip(self.axes_, drawn, strict=True):
            if len(effect.inputs) == 1:
                draw_curve(axes, effect, limit, self.label)
            else:
                draw_surface(axes, effect, self.label)
        return self

    def _new_axes(self, count: int) -> NDArray[np.object_]:
        """Lay out a figure as square as can be, three pictures wide at most."""
        pyplot = import_optional("matplotlib.pyplot", "plots", "ShapeDisplay")
        wide = min(3, int(np.ceil(np.sqrt(count))))
        high = -(-count // wide)
        figure = pyplot.figure(figsize=(1.2 + 3.2 * wide, 0.5 + 2.6 * high), layout="constrained")
        shown = "all effects" if count == self.n_effects else f"effects ({count} of {self.n_effects} shown)"
        figure.suptitle(f"prediction = {self.offset:.3g} + the sum of {shown}", fontsize="medium")
        return np.array([figure.add_subplot(high, wide, k + 1) for k in range(count)], dtype=object)


# -- drawing -----------------------------------------------------------------------------------------------------------


def extent(effect: Effect) -> float:
    """Largest effect in either direction; 1 if there is none at all."""
    return float(np.abs(effect.effect).max()) or 1.0


def draw_curve(axes: Any, effect: Effect, limit: float, label: str) -> None:
    """Draw the effect of one input, a curve over numbers, bars over categories, to the same scale as all others."""
    ((values,), (deciles,)) = effect.values, effect.deciles
    axes.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    if is_category(values):
        axes.bar(range(len(values)), effect.effect, color=BLUE, width=0.6)
        name_ticks(axes.xaxis, values)
        if sum(len(str(value)) for value in values) > 25:  # names that would run into each other
            axes.tick_params(axis="x", rotation=30)
    else:
        axes.plot(values, effect.effect, color=BLUE, linewidth=1.8)
        axes.vlines(deciles, 0, 0.04, transform=axes.get_xaxis_transform(), color="0.3", linewidth=0.8)
        axes.set_xlim(values[0], values[-1])
    axes.set_ylim(-1.08 * limit, 1.08 * limit)
    tidy(axes)
    axes.set_xlabel(plain(effect.inputs[0]))
    axes.set_ylabel(label)


def draw_surface(axes: Any, effect: Effect, label: str) -> None:
    """Draw the effect of two inputs in colours of their own scale, contours over numbers, stripes over categories."""
    (x, y), (across, up), heights, limit = effect.values, effect.inputs, effect.effect.T, extent(effect)
    if is_category(x) and not is_category(y):
        x, y, across, up, heights = y, x, up, across, heights.T
    if is_category(y):
        places = [np.arange(len(v)) if is_category(v) else v for v in (x, y)]
        colours = axes.pcolormesh(*places, heights, cmap=MAP, vmin=-limit, vmax=limit, shading="nearest")
        for axis, values in ((axes.xaxis, x), (axes.yaxis, y)):
            if is_category(values):
                name_ticks(axis, values)
    else:
        levels = np.linspace(-limit, limit, LEVELS + 1)
        colours = axes.contourf(x, y, heights, levels=levels, cmap=MAP)
        axes.contour(x, y, heights, levels=levels[::4], colors="0.3", linewidths=0.4, linestyles="solid")
    axes.set_xlabel(plain(across))
    axes.set_ylabel(plain(up))
    ticks = import_optional("matplotlib.ticker", "plots", "ShapeDisplay").MaxNLocator(5)
    axes.figure.colorbar(colours, ax=axes, label=label, ticks=ticks)


def name_ticks(axis: Any, categories: NDArray) -> None:
    """Write the categories along an axis."""
    axis.set_ticks(range(len(categories)), [plain(str(category)) for category in categories])


def is_category(values: NDArray) -> bool:
    """Whether the values of an input are categories."""
    return values.dtype == object
