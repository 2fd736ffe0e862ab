"""`FitDisplay`: plots of the fitted function next to the samples."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, r2_score

from termwise._arrays import as_columns, densify, to_host
from termwise._checks import check_number, check_table, is_frame
from termwise.basis import LagBasis, RadialBasis, SmoothBasis, UnionBasis
from termwise.explain.effects import check_output
from termwise.explain.plot_criteria import BLACK, BLUE, COLOURS, GREY, SKY, VERMILION, escape, hide_spines, new_axes
from termwise.explain.resolve import SCALERS, Metadata, ResolvedModel, as_numpy, best_interval, resolve, steps_of

FIT_LEVELS = 16  # of filled contours
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
MARGIN = 0.05  # around the samples, as a share of their range
MANY_SAMPLES = 400  # above which points are small


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
        resolved, X = resolve(estimator, "FitDisplay"), check_table(X)
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


# -- numbers -----------------------------------------------------------------------------------------------------------


def regression_fit(
    resolved: ResolvedModel, X: Any, y: NDArray[Any], *, output: int, coverage: float, grid: int
) -> tuple[str, Metadata]:
    """Kind of plot and its numbers for one output of a regression."""
    predict = resolved.given.predict
    predicted = as_columns(as_numpy(predict(X)))[:, output]
    lags = resolved.steps[0] if resolved.steps else None
    if isinstance(lags, LagBasis):
        free_run = lags.free_run(resolved.given, X)
        return "series", {"observed": y, "one_step": predicted, "free_run": free_run, "start": lags.max_lag_}
    if np.shape(X)[1] > 2:
        return "observed", {"observed": y, "predicted": predicted, "r2": r2_score(y, predicted)}
    table, places, mesh = grid_over(X, grid)
    heights = as_columns(as_numpy(predict(frame_like(X, mesh))))[:, output]
    data: Metadata = {"inputs": table, "observed": y, "centers": centers_of(resolved), "x": places[0]}
    if len(places) == 1:
        data |= {"curve": heights, "coverage": coverage, "interval": None}
        with suppress(ValueError):  # the model has not stored its samples
            ends = best_interval(resolved.model, resolved.preprocess(frame_like(X, mesh)), coverage)
            data["interval"] = tuple(as_columns(as_numpy(end))[:, output] for end in ends)
        return "curve", data
    return "surface", {**data, "y": places[1], "heights": heights.reshape(len(places[1]), len(places[0]))}


def classification_fit(resolved: ResolvedModel, X: Any, y: NDArray[Any], grid: int) -> tuple[str, Metadata]:
    """Kind of plot and its numbers for a classifier."""
    classes, predicted = resolved.classes, as_numpy(resolved.given.predict(X))
    assert classes is not None
    names = [str(one) for one in classes]
    if np.shape(X)[1] != 2:
        return "classes", {"counts": confusion_matrix(y, predicted, labels=classes), "classes": names}
    table, places, mesh = grid_over(X, grid)
    regions = np.searchsorted(classes, as_numpy(resolved.given.predict(frame_like(X, mesh))))
    return "decisions", {
        "inputs": table,
        "observed": np.searchsorted(classes, y),
        "predicted": np.searchsorted(classes, predicted),
        "classes": names,
        "centers": centers_of(resolved),
        "x": places[0],
        "y": places[1],
        "areas": regions.reshape(len(places[1]), len(places[0])),
    }


def grid_over(X: Any, size: int) -> tuple[NDArray[np.float64], list[NDArray[Any]], NDArray[Any]]:
    """One or two inputs as an array, a grid of each over its range and a margin, and all combinations as rows."""
    table = np.asarray(densify(X.to_numpy() if is_frame(X) else as_numpy(X)), dtype=np.float64)
    places = []
    for values in table.T:
        margin = MARGIN * np.ptp(values) or 0.5
        places.append(np.linspace(values.min() - margin, values.max() + margin, size))
    return table, places, np.column_stack([axis.ravel() for axis in np.meshgrid(*places)])


def frame_like(X: Any, rows: NDArray[Any]) -> Any:
    """Rows as a frame with the columns of X, if that is one."""
    if not is_frame(X):
        return rows
    return type(X)(rows, columns=X.columns) if hasattr(X, "iloc") else type(X)(rows, schema=list(X.columns))


def centers_of(resolved: ResolvedModel) -> NDArray[np.float64]:
    """Centres of the chosen radial functions in the units of the inputs; none where these cannot be recovered."""
    *scalers, last = steps_of(resolved.preprocessing) + (resolved.steps or [None])
    bases = [last.take(resolved.chosen)] if isinstance(last, RadialBasis | SmoothBasis | UnionBasis) else []
    while any(isinstance(basis, UnionBasis) for basis in bases):
        bases = [part for basis in bases for part in (basis.bases_ if isinstance(basis, UnionBasis) else [basis])]
    radial = [to_host(basis.centers_) for basis in bases if isinstance(basis, RadialBasis | SmoothBasis)]
    centers = np.vstack([np.empty((0, resolved.model.n_features_in_)), *radial])
    centers = centers[np.isfinite(centers).all(axis=1)]
    if not len(centers) or not all(isinstance(step, SCALERS) for step in scalers):
        return centers[:0]
    for scaler in reversed(scalers):
        centers = scaler.inverse_transform(centers)
    return centers


# -- drawing -----------------------------------------------------------------------------------------------------------


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
