"""`ShapeDisplay`: plots of main effects and interactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._checks import check_number, import_optional
from termwise.estimators.base import TermModel
from termwise.explain.decomposition import AdditiveDecomposition
from termwise.explain.effects import Effect, check_output, exact_effects, select_effects
from termwise.explain.plot_criteria import BLUE, GREY, SKY, escape, hide_spines
from termwise.explain.resolve import resolve

EFFECT_LEVELS = 20  # of filled contours
DIVERGING = "PuOr"  # orange below zero, purple above, as in the HTML report
LIGHT = "0.85"  # grey of what no sample supports
MAX_LABELS = 20  # names of categories along an axis
DENSITY_HEIGHT = 0.12  # of the highest bar of the histogram below a curve, as a share of the axes


class ShapeDisplay:
    """Main effects and interactions of a model: the effect of each input, and of each pair of inputs.

    A model whose terms are functions of one or two inputs is a sum of curves and surfaces, exactly and without
    averaging: `prediction = offset + sum of the effects`, clipped to the limits of the model where it has such. Main
    effects hold all that single inputs explain, interactions what is left (functional ANOVA). For terms of three
    inputs, what pairs explain is drawn as well; the rest counts as an effect and is not drawn. Make it with
    `from_estimator`.

    Parameters
    ----------
    effects : list of Effect
        One `Effect` per panel, with `inputs`, `values`, `effect`, `strength`, `share`, `density` and `band`.
    offset : float
        Constant that the effects are added to.
    n_effects : int
        Number of effects of the model.
    label : str, default="effect"
        Label of the axis of effects.
    importance : dict of str to float, default=None
        Total effect of each input that the model uses, by its name; as an attribute, the largest first. It is the root
        of half the mean squared change of the prediction when the input is permuted among the samples: permutation
        importance, the rise of the mean squared error, is twice its square, as far as residuals are not correlated with
        the change.

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
    Effects are pure over the joint distribution of the samples of `X`, or, without `X`, over values spread evenly and
    independently over the ranges of the inputs. Each surface is projected by least squares on sums of splines of its
    two inputs, and these are moved into the main effects (Hooker 2007; Lengerich et al. 2020). The interaction that is
    left is uncorrelated with functions of either input. Every effect has mean zero, and `offset` is the mean
    prediction. Effects are ordered by their strength, the standard deviation over the samples: an effect that is large
    for a single sample only is weak. The share above each panel is that of the variance of the effect in the sum over
    all effects.

    Below each curve are a histogram and the deciles of the samples. Curves are lighter beyond the outer 1 % of the
    samples, surfaces are grey further than a tenth of the range of either input from all samples. If the model has kept
    the models of its cross-validation (`fitted_terms_.fold_models`), bands are drawn around the curves: pointwise 90 %
    confidence bands by the delete-a-group jackknife over the folds, which repeat the selection of terms. Without these
    there are no bands. Curves share one scale, each surface has its own.

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
    [('x0',), ('x1', 'x2'), ('x1',), ('x2',)]
    >>> display.axes_[1].get_xlabel(), display.axes_[1].get_ylabel()
    ('x1', 'x2')
    >>> list(display.importance)
    ['x0', 'x1', 'x2']
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
            Its terms must be functions of one to three inputs: those of an `AnovaBasis`, of a `SmoothBasis` of three
            inputs, or columns. Before them may come
            any transformers; the inputs are their outputs, in the units before a scaler of scikit-learn, and all
            columns that `TableEncoder` makes of a categorical variable are one input.
        X : data frame or array-like of shape (n, d), default=None
            Samples, such as those of the fit: effects are pure and have mean zero over them, and are drawn where they
            are. By default inputs are drawn over the range they had in the fit, as stored by the basis, as if values
            were spread evenly over it.
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
        names = [block.name for block in decomposition.blocks]
        drawn = effects if inputs is None else select_effects(effects, names, inputs)
        display = cls(
            drawn,
            offset=float(found.offset[which]),
            n_effects=max(len(effects), len(found.groups)),
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
        reaches = [effect.reach for effect in drawn if len(effect.inputs) == 1]
        limit = max(reaches, default=0.0) or 1.0
        for axes, effect in zip(self.axes_, drawn, strict=True):
            if len(effect.inputs) == 1:
                draw_main_effect(axes, effect, limit, self.label)
            else:
                draw_interaction(axes, effect, self.label)
            if effect.share is not None:
                axes.set_title(f"{effect.share:.1%} of the variance", fontsize="small", loc="right")
        return self

    def _new_axes(self, count: int) -> NDArray[np.object_]:
        """Axes of a new figure, as square as possible, at most three in a row."""
        pyplot = import_optional("matplotlib.pyplot", "plots", "ShapeDisplay")
        n_columns = min(3, int(np.ceil(np.sqrt(count))))
        n_rows = -(-count // n_columns)
        figure = pyplot.figure(figsize=(1.2 + 3.2 * n_columns, 0.5 + 2.6 * n_rows), layout="constrained")
        shown = "all effects" if count == self.n_effects else f"effects ({count} of {self.n_effects} shown)"
        figure.suptitle(f"prediction = {self.offset:.3g} + the sum of {shown}", fontsize="medium")
        return np.array([figure.add_subplot(n_rows, n_columns, k + 1) for k in range(count)], dtype=object)


def draw_main_effect(axes: Any, effect: Effect, limit: float, label: str) -> None:
    """Draw the effect of one input, a curve over numbers, bars over categories, with the same limits as all others."""
    (values,), (deciles,), heights, near = effect.values, effect.deciles, effect.effect, effect.support
    axes.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    if values.dtype == object:
        colours = [BLUE if seen else LIGHT for seen in near]
        axes.bar(range(len(values)), heights, yerr=effect.band, color=colours, width=0.6, error_kw={"ecolor": "0.3"})
        label_categories(axes.xaxis, values)
        if sum(len(str(value)) for value in values) > 25:  # long names would overlap
            axes.tick_params(axis="x", rotation=30 if len(values) <= MAX_LABELS else 90)
    else:
        if effect.band is not None:
            axes.fill_between(values, heights - effect.band, heights + effect.band, color=SKY, alpha=0.25, linewidth=0)
        if effect.density is not None:
            share = DENSITY_HEIGHT * effect.density / effect.density.max()
            wide = values[1] - values[0]
            axes.bar(values, share, wide, transform=axes.get_xaxis_transform(), color="0.8", zorder=0)
        axes.plot(values, np.where(near, heights, np.nan), color=BLUE, linewidth=1.8)
        axes.plot(values, heights, color=BLUE, linewidth=1.2, alpha=0.4)  # lighter where there are few samples
        axes.vlines(deciles, 0, 0.04, transform=axes.get_xaxis_transform(), color="0.3", linewidth=0.8)
        axes.set_xlim(values[0], values[-1])
    axes.set(xlabel=escape(effect.inputs[0]), ylabel=label, ylim=(-1.08 * limit, 1.08 * limit))
    hide_spines(axes)


def draw_interaction(axes: Any, effect: Effect, label: str) -> None:
    """Draw the effect of two inputs, contours over numbers, stripes over categories, grey where there are no samples.

    The colour scale is that of the values near samples.
    """
    (x, y), (x_name, y_name) = effect.values, effect.inputs
    heights = np.ma.masked_array(effect.effect, ~effect.support).T
    limit = effect.reach or 1.0
    if x.dtype == object and y.dtype != object:
        x, y, x_name, y_name, heights = y, x, y_name, x_name, heights.T
    axes.set_facecolor(LIGHT)
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
    if y.dtype != object:
        axes.set(xlim=x[[0, -1]], ylim=y[[0, -1]])  # also where the corners are masked
    axes.set(xlabel=escape(x_name), ylabel=escape(y_name))
    ticks = import_optional("matplotlib.ticker", "plots", "ShapeDisplay").MaxNLocator(5)
    axes.figure.colorbar(colours, ax=axes, label=label, ticks=ticks)


def label_categories(axis: Any, categories: NDArray[Any]) -> None:
    """Write the categories along an axis; of many, every second, third, ..."""
    places = range(0, len(categories), -(-len(categories) // MAX_LABELS))
    axis.set_ticks(places, [escape(str(categories[k])) for k in places])
