"""`ShapeDisplay` and `FitDisplay`: plots of the fitted function, by its effects and next to the samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import as_columns
from termwise._checks import check_number, import_optional
from termwise.basis.encoder import is_frame
from termwise.estimators import TermModel
from termwise.explain.decomposition import AdditiveDecomposition
from termwise.explain.effects import Effect, check_output, exact_effects, select_effects
from termwise.explain.plot_criteria import BLACK, BLUE, COLOURS, GREY, SKY, VERMILION, escape, hide_spines, new_axes
from termwise.explain.resolve import as_numpy, classification_fit, regression_fit, resolve

EFFECT_LEVELS, FIT_LEVELS = 20, 16  # of filled contours
DIVERGING = "PuOr"  # orange below zero, purple above, as in the HTML report
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
MANY_SAMPLES = 400  # above which points are small


class ShapeDisplay:
    """Main effects and interactions of a model: the effect of each input, and of each pair of inputs.

    A model whose terms are functions of one or two inputs is a sum of curves and surfaces, exactly and without
    averaging: `prediction = offset + sum of the effects`. Make it with `from_estimator`.

    Parameters
    ----------
    effects : list of Effect
        One `Effect` per panel, with `inputs`, `values`, `effect` and `strength`.
    offset : float
        Constant that the effects are added to.
    n_effects : int
        Number of effects of the model.
    label : str, default="effect"
        Label of the axis of effects.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of matplotlib Axes
        One per effect drawn.

    See Also
    --------
    sklearn.inspection.PartialDependenceDisplay : Averages over the other inputs, for any model.

    Notes
    -----
    Every effect is centred, over the samples of `X` if they are given, over the grid otherwise, and `offset` is the
    rest: with `X` it is the mean prediction over `X`. Curves share one scale, each surface has its own. Surfaces extend
    into corners where there may be no samples.

    Terms of a pair belong to the pair as a whole: the surface of `x0 * x1` includes what a functional ANOVA would
    attribute to `x0` or `x1` alone.

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

    def __init__(
        self,
        effects: Sequence[Effect],
        *,
        offset: float,
        n_effects: int,
        label: str = "effect",
        importance: Mapping[str, float] | None = None,
    ) -> None:
        self.effects = list(effects)
        self.offset = offset
        self.n_effects = n_effects
        self.label = label
        self.importance = dict(sorted((importance or {}).items(), key=lambda item: -item[1]))

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
            any transformers; the inputs are their outputs, in the units before a scaler of scikit-learn, and all
            columns that `TableEncoder` makes of a categorical variable are one input.
        X : data frame or array-like of shape (n, d), default=None
            Samples, such as those of the fit: inputs are drawn over their range, with ticks at their deciles, and
            effects are centred over them. By default inputs are drawn over the range they had in the fit, as stored
            by the basis, and effects are centred over that.
        inputs : list of str or int, or pairs of them, default=None
            Which effects to draw, by name or position of the inputs, in this order; a pair is a tuple. By default all.
        output : int, default=None
            Which output, or column of the decision function, if there are several.
        max_effects : int, default=9
            How many effects to draw if `inputs` is None.
        grid : int, default=60
            Number of values of each numeric input.
        ax : matplotlib Axes or array of them, default=None
            Axes, one per effect; by default those of a new figure.
        """
        check_number("grid", grid, low=2, integer=True, remedy="60 values make a smooth curve")
        model = getattr(estimator, "best_estimator_", estimator)
        if not isinstance(model, TermModel):
            raise TypeError(
                f"estimator must be a fitted estimator of termwise, got {model!r}: of a pipeline give the last step."
            )
        decomposition = AdditiveDecomposition.from_model(resolve(model, "ShapeDisplay"))
        which = check_output(output, len(decomposition.resolved.intercept))
        found = exact_effects(decomposition, X, grid, grid)
        effects = sorted(found.effects[which], key=lambda effect: -effect.strength)
        names = [name for name, _ in decomposition.blocks]
        drawn = effects if inputs is None else select_effects(effects, names, inputs)
        display = cls(
            drawn,
            offset=float(found.offset[which]),
            n_effects=len(effects),
            label="effect" if output is None else f"effect on output {output}",
            importance={name: float(total[which]) for name, total in found.totals.items()},
        )
        return display.plot(ax, max_effects=max_effects if inputs is None else len(drawn))

    def plot(self, ax: Any = None, *, max_effects: int = 9) -> Self:
        """Draw the first effects.

        Parameters
        ----------
        ax : matplotlib Axes or array of them, default=None
            Axes, one per effect; by default those of a new figure.
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
        curves = [effect.effect for effect in drawn if len(effect.inputs) == 1]
        limit = max((float(np.abs(curve).max()) or 1.0 for curve in curves), default=1.0)
        for axes, effect in zip(self.axes_, drawn, strict=True):
            if len(effect.inputs) == 1:
                draw_main_effect(axes, effect, limit, self.label)
            else:
                draw_interaction(axes, effect, self.label)
        return self

    def _new_axes(self, count: int) -> NDArray[np.object_]:
        """Axes of a new figure, as square as possible, at most three in a row."""
        pyplot = import_optional("matplotlib.pyplot", "plots", "ShapeDisplay")
        wide = min(3, int(np.ceil(np.sqrt(count))))
        high = -(-count // wide)
        figure = pyplot.figure(figsize=(1.2 + 3.2 * wide, 0.5 + 2.6 * high), layout="constrained")
        shown = "all effects" if count == self.n_effects else f"effects ({count} of {self.n_effects} shown)"
        figure.suptitle(f"prediction = {self.offset:.3g} + the sum of {shown}", fontsize="medium")
        return np.array([figure.add_subplot(high, wide, k + 1) for k in range(count)], dtype=object)


def draw_main_effect(axes: Any, effect: Effect, limit: float, label: str) -> None:
    """Draw the effect of one input, a curve over numbers, bars over categories, with the same limits as all others."""
    (values,), (deciles,) = effect.values, effect.deciles
    axes.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    if values.dtype == object:
        axes.bar(range(len(values)), effect.effect, color=BLUE, width=0.6)
        label_categories(axes.xaxis, values)
        if sum(len(str(value)) for value in values) > 25:  # long names would overlap
            axes.tick_params(axis="x", rotation=30)
    else:
        axes.plot(values, effect.effect, color=BLUE, linewidth=1.8)
        axes.vlines(deciles, 0, 0.04, transform=axes.get_xaxis_transform(), color="0.3", linewidth=0.8)
        axes.set_xlim(values[0], values[-1])
    axes.set(xlabel=escape(effect.inputs[0]), ylabel=label, ylim=(-1.08 * limit, 1.08 * limit))
    hide_spines(axes)


def draw_interaction(axes: Any, effect: Effect, label: str) -> None:
    """Draw the effect of two inputs, contours over numbers, stripes over categories, with a colour scale of its own."""
    (x, y), (x_name, y_name), heights = effect.values, effect.inputs, effect.effect.T
    limit = float(np.abs(heights).max()) or 1.0
    if x.dtype == object and y.dtype != object:
        x, y, x_name, y_name, heights = y, x, y_name, x_name, heights.T
    if y.dtype == object:
        places = [np.arange(len(v)) if v.dtype == object else v for v in (x, y)]
        colours = axes.pcolormesh(*places, heights, cmap=DIVERGING, vmin=-limit, vmax=limit, shading="nearest")
        for axis, values in ((axes.xaxis, x), (axes.yaxis, y)):
            if values.dtype == object:
                label_categories(axis, values)
    else:
        levels = np.linspace(-limit, limit, EFFECT_LEVELS + 1)
        colours = axes.contourf(x, y, heights, levels=levels, cmap=DIVERGING)
        axes.contour(x, y, heights, levels=levels[::4], colors="0.3", linewidths=0.4, linestyles="solid")
    axes.set(xlabel=escape(x_name), ylabel=escape(y_name))
    ticks = import_optional("matplotlib.ticker", "plots", "ShapeDisplay").MaxNLocator(5)
    axes.figure.colorbar(colours, ax=axes, label=label, ticks=ticks)


def label_categories(axis: Any, categories: NDArray) -> None:
    """Write the categories along an axis."""
    axis.set_ticks(range(len(categories)), [escape(str(category)) for category in categories])


# -- fits --------------------------------------------------------------------------------------------------------------


class FitDisplay:
    """The fit of a model and the samples.

    The kind of plot depends on the model: for one input the curve with prediction intervals and the centres of its
    radial functions; for two inputs a surface, or decision regions with the misclassified samples; for a `LagBasis` the
    series with its one-step and free-run predictions; for more inputs observed against predicted values, or the
    confusion matrix. Make it with `from_estimator`.

    Parameters
    ----------
    kind : {"curve", "surface", "decisions", "series", "observed", "classes"}
        Kind of plot.
    data : dict
        The numbers drawn; the keys depend on the kind.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure, Axes
        The figure and its axes.

    See Also
    --------
    ShapeDisplay : The effect of each input, for models whose terms are of one or two inputs each.

    Examples
    --------
    >>> from termwise import FitDisplay, ForwardRegressor, RadialBasis, datasets
    >>> X, y = datasets.make_hermite(random_state=1)
    >>> model = ForwardRegressor(RadialBasis(width=0.8)).fit(X, y)
    >>> display = FitDisplay.from_estimator(model, X, y)
    >>> display.kind, len(display.data["centers"]) == model.n_terms_
    ('curve', True)
    """

    figure_: Any
    ax_: Any

    def __init__(self, kind: str, data: dict[str, Any]) -> None:
        self.kind = kind
        self.data = data

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        coverage: float = 0.9,
        output: int | None = None,
        grid: int = 200,
        ax: Any = None,
    ) -> Self:
        """Compute the fit over the range of the samples and draw it.

        Parameters
        ----------
        estimator : fitted estimator of termwise, a search or a pipeline that ends in one
            The model.
        X, y : data frame or array-like of shape (n, d), array-like of shape (n,) or (n, q)
            Samples to draw, such as those of the fit.
        coverage : float, default=0.9
            Coverage of the interval around a curve.
        output : int, default=None
            Which output, if there are several.
        grid : int, default=200
            Number of values of each input at which a curve or a surface is evaluated.
        ax : matplotlib Axes, default=None
            Axes to draw in; by default those of a new figure.
        """
        check_number("grid", grid, low=2, integer=True, remedy="200 values make a smooth curve")
        check_number("coverage", coverage, above=0, below=1, remedy="0.9 draws 90 % intervals")
        resolved = resolve(estimator, "FitDisplay")
        names = [str(name) for name in X.columns] if is_frame(X) else [f"x{j}" for j in range(np.shape(X)[1])]
        if resolved.classes is not None:
            kind, data = classification_fit(resolved, X, as_numpy(y), grid)
        else:
            output = check_output(output, len(resolved.intercept))
            y = as_columns(as_numpy(y))[:, output]
            kind, data = regression_fit(resolved, X, y, output=output, coverage=coverage, grid=grid)
        return cls(kind, {"names": names, **data}).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the fit.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in; by default those of a new figure.
        """
        size = (8.0, 3.6) if self.kind == "series" else (6.4, 4.4) if self.kind == "curve" else (6.0, 4.8)
        self.ax_ = new_axes("FitDisplay", size=size)[0] if ax is None else ax
        self.figure_ = self.ax_.figure
        draw = {
            "curve": draw_curve,
            "surface": draw_surface,
            "decisions": draw_decisions,
            "series": draw_series,
            "observed": draw_observed,
            "classes": draw_classes,
        }
        draw[self.kind](self.ax_, self.data)
        return self


def draw_curve(axes: Any, data: dict[str, Any]) -> None:
    """One input: fitted curve, prediction intervals, samples, centres."""
    x, centers = data["inputs"][:, 0], data["centers"]
    if data["interval"] is not None and np.isfinite(data["interval"]).all():
        label = f"{100 * data['coverage']:.0f} % prediction interval"
        axes.fill_between(data["x"], *data["interval"], color=SKY, alpha=0.25, linewidth=0, label=label)
    size = 12 if len(x) > MANY_SAMPLES else 22
    axes.scatter(x, data["observed"], s=size, color="0.35", alpha=0.6, linewidth=0, label="samples")
    axes.plot(data["x"], data["curve"], color=BLUE, linewidth=2, label="fit")
    if len(centers):
        axes.plot(centers[:, 0], np.full(len(centers), 0.02), "^", color=VERMILION, markersize=8, clip_on=False,
                  transform=axes.get_xaxis_transform(), markeredgecolor="white", label="centres", zorder=4)  # fmt: skip
    axes.set(xlabel=escape(data["names"][0]), ylabel="target", xlim=data["x"][[0, -1]])
    hide_spines(axes)
    axes.legend(frameon=False, fontsize="small")


def draw_surface(axes: Any, data: dict[str, Any]) -> None:
    """Two inputs: filled contours of the fit, samples, centres."""
    colours = axes.contourf(data["x"], data["y"], data["heights"], levels=FIT_LEVELS, cmap="cividis")
    axes.contour(data["x"], data["y"], data["heights"], levels=colours.levels[::2], colors="white", linewidths=0.4)
    size = 5 if len(data["inputs"]) > MANY_SAMPLES else 12
    axes.scatter(*data["inputs"].T, s=size, color="white", edgecolor="0.2", linewidth=0.4, label="samples")
    axes.figure.colorbar(colours, ax=axes, label="fit")
    finish_plane(axes, data)


def draw_decisions(axes: Any, data: dict[str, Any]) -> None:
    """Two inputs and classes: decision regions, samples, centres, a circle around misclassified samples."""
    names, total = data["classes"], len(data["observed"])
    levels = np.arange(len(names) + 1) - 0.5
    shades = [COLOURS[k % len(COLOURS)] for k in range(len(names))]
    axes.contourf(data["x"], data["y"], data["areas"], levels=levels, colors=shades, alpha=0.18)
    axes.contour(data["x"], data["y"], data["areas"], levels=levels[1:-1], colors="0.25", linewidths=0.9)
    size = 9 if total > MANY_SAMPLES else 22
    for k, name in enumerate(names):
        own = data["inputs"][data["observed"] == k]
        axes.scatter(*own.T, s=size, marker=MARKERS[k % len(MARKERS)], color=shades[k], linewidth=0, alpha=0.85,
                     label=escape(name))  # fmt: skip
    wrong = data["observed"] != data["predicted"]
    axes.scatter(*data["inputs"][wrong].T, s=4 * size, facecolor="none", edgecolor=BLACK, linewidth=1.0,
                 label=f"misclassified: {wrong.sum()} of {total}")  # fmt: skip
    finish_plane(axes, data)


def finish_plane(axes: Any, data: dict[str, Any]) -> None:
    """Mark the centres in the plane of two inputs, label its axes, add the legend."""
    if len(data["centers"]):
        axes.scatter(*data["centers"].T, s=55, marker="X", color=VERMILION, edgecolor="white", linewidth=0.8,
                     label="centres")  # fmt: skip
    x_name, y_name = (escape(name) for name in data["names"])
    axes.set(xlabel=x_name, ylabel=y_name, xlim=data["x"][[0, -1]], ylim=data["y"][[0, -1]])
    axes.legend(fontsize="small", loc="best" if "areas" in data else "upper right", framealpha=0.85)


def draw_series(axes: Any, data: dict[str, Any]) -> None:
    """A time series, its one-step and its free-run predictions."""
    time, start = np.arange(len(data["observed"])), data["start"]
    axes.plot(time, data["observed"], color="0.35", linewidth=2.2, alpha=0.6, label="observed")
    axes.plot(time[start:], data["one_step"][start:], color=BLUE, linewidth=1.2, label="one step ahead")
    axes.plot(time[start:], data["free_run"][start:], color=VERMILION, linewidth=1.2, linestyle="--", label="free run")
    axes.set(xlabel="time", ylabel="series")
    hide_spines(axes)
    axes.legend(frameon=False, fontsize="small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def draw_observed(axes: Any, data: dict[str, Any]) -> None:
    """Observed against predicted values."""
    both = np.concatenate([data["observed"], data["predicted"]])
    axes.plot([both.min(), both.max()], [both.min(), both.max()], color=GREY, linewidth=1)
    size = 8 if len(data["observed"]) > MANY_SAMPLES else 18
    axes.scatter(data["predicted"], data["observed"], s=size, color=BLUE, alpha=0.5, linewidth=0)
    axes.set(xlabel="predicted", ylabel="observed")
    axes.set_title(f"$R^2$ = {data['r2']:.3f} on these samples", fontsize="medium")
    hide_spines(axes)


def draw_classes(axes: Any, data: dict[str, Any]) -> None:
    """Confusion matrix, shaded by the share of each row."""
    counts, names = data["counts"], [escape(name) for name in data["classes"]]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.2)
    for i, j in np.ndindex(counts.shape):
        wrong = i != j and counts[i, j] > 0
        colour = "white" if shares[i, j] > 0.7 else VERMILION if wrong else "0.2"
        axes.text(j, i, counts[i, j], ha="center", va="center", weight="bold" if wrong else "normal", color=colour)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(range(len(names)), names)
    axes.set(xlabel="predicted class", ylabel="observed class")
    axes.set_title(f"{np.trace(counts)} of {counts.sum()} correct", fontsize="medium")
