"""`FitDisplay`: what a model makes of its inputs, drawn the way their number allows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, r2_score
from sklearn.pipeline import Pipeline

from termwise._arrays import as_columns, densify, to_host
from termwise._checks import check_number
from termwise.basis import LagBasis, RadialBasis, SmoothBasis, UnionBasis
from termwise.basis.encoder import is_frame
from termwise.explain.comparison import in_this_process
from termwise.explain.effects import SCALERS, check_output
from termwise.explain.plot_style import BLACK, BLUE, COLOURS, GREY, MARKERS, SKY, VERMILION, new_axes, plain, tidy
from termwise.explain.resolve import Unwrapped, first_step, unwrap

LEVELS = 16  # of a filled contour
MANY = 400  # samples from which on points are drawn small
ROOM = 0.05  # around the samples, as a share of their range


class FitDisplay:
    """The fit of a model beside the samples.

    What is drawn depends on the model: of one input the curve with an interval and the centres of its radial functions;
    of two inputs a map, with decisions and mistakes for classes; of a `LagBasis` the series with its one-step and
    free-run forecasts; of more inputs observed against predicted values, or classes. Make it with `from_estimator`.

    Parameters
    ----------
    kind : {"curve", "surface", "decisions", "series", "observed", "classes"}
        What is drawn.
    data : dict
        The numbers drawn; which ones depends on the kind.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure, Axes
        What was drawn in.

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
            Of the interval around a curve.
        output : int, default=None
            Which output, if there are several.
        grid : int, default=200
            Values of each input at which a curve or a map is evaluated.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        """
        check_number("grid", grid, low=2, integer=True, remedy="200 values make a smooth curve")
        check_number("coverage", coverage, above=0, below=1, remedy="0.9 draws 90 % intervals")
        parts = unwrap(estimator, "FitDisplay")
        y = in_this_process(y)
        names = [str(name) for name in X.columns] if is_frame(X) else [f"x{j}" for j in range(np.shape(X)[1])]
        if parts.task == "classification":
            found = decisions(parts, X, y, grid) if len(names) == 2 else classes(parts, X, y)
        else:
            j = check_output(output, parts.outputs)
            found = regression(parts, X, as_columns(y)[:, j], j, coverage, grid)
        kind, data = found
        return cls(kind, {"names": names, **data}).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the fit.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        """
        size = (8.0, 3.6) if self.kind == "series" else (6.4, 4.4) if self.kind == "curve" else (6.0, 4.8)
        self.ax_ = new_axes("FitDisplay", size=size)[0] if ax is None else ax
        self.figure_ = self.ax_.figure
        DRAWERS[self.kind](self.ax_, self.data)
        return self


# -- computing ---------------------------------------------------------------------------------------------------------

Found = tuple[str, dict[str, Any]]


def regression(parts: Unwrapped, X: Any, y: NDArray, j: int, coverage: float, grid: int) -> Found:
    """What to draw of a regression."""
    if isinstance(first_step(parts.model), LagBasis):
        return "series", series(parts, X, y)
    predicted = column(parts.given.predict(X), j)
    if np.shape(X)[1] > 2:
        return "observed", {"observed": y, "predicted": predicted, "r2": r2_score(y, predicted)}
    table = numbers(X)
    places = [spaced(values, grid) for values in table.T]
    shared = {"inputs": table, "observed": y, "centers": centers_of(parts)}
    if table.shape[1] == 1:
        rows = like(X, places[0][:, None])
        return "curve", {**shared, "x": places[0], "curve": column(parts.given.predict(rows), j),
                         "interval": interval(parts, rows, j, coverage), "coverage": coverage}  # fmt: skip
    mesh = np.column_stack([axis.ravel() for axis in np.meshgrid(*places)])
    heights = column(parts.given.predict(like(X, mesh)), j).reshape(len(places[1]), len(places[0]))
    return "surface", {**shared, "x": places[0], "y": places[1], "heights": heights}


def series(parts: Unwrapped, X: Any, y: NDArray) -> dict[str, Any]:
    """A series with what is predicted of it from measured and from predicted past values."""
    lags = first_step(parts.model)
    simulated = lags.free_run(parts.given, X)
    return {"observed": y, "one_step": column(parts.given.predict(X), 0), "free_run": simulated, "start": lags.max_lag_}


def decisions(parts: Unwrapped, X: Any, y: NDArray, grid: int) -> Found:
    """Classes over the plane, and the samples with theirs."""
    table = numbers(X)
    places = [spaced(values, grid) for values in table.T]
    mesh = np.column_stack([axis.ravel() for axis in np.meshgrid(*places)])
    known = list(parts.model.classes_)
    areas = np.searchsorted(parts.model.classes_, in_this_process(parts.given.predict(like(X, mesh))))
    return "decisions", {
        "inputs": table,
        "observed": np.searchsorted(parts.model.classes_, y),
        "predicted": np.searchsorted(parts.model.classes_, in_this_process(parts.given.predict(X))),
        "classes": [str(one) for one in known],
        "centers": centers_of(parts),
        "x": places[0],
        "y": places[1],
        "areas": areas.reshape(len(places[1]), len(places[0])),
    }


def classes(parts: Unwrapped, X: Any, y: NDArray) -> Found:
    """How often each class is taken for each."""
    counts = confusion_matrix(y, in_this_process(parts.given.predict(X)), labels=parts.model.classes_)
    return "classes", {"counts": counts, "classes": [str(one) for one in parts.model.classes_]}


def interval(parts: Unwrapped, X: Any, j: int, coverage: float) -> tuple[NDArray, NDArray] | None:
    """Ends of the interval of new observations; None where the model has not kept what it takes."""
    try:
        lower, upper = parts.model.predict_interval(parts.inputs(X), coverage=coverage)
    except ValueError:
        return None
    return column(lower, j), column(upper, j)


def centers_of(parts: Unwrapped) -> NDArray[np.float64]:
    """Centres of the chosen radial functions in the units of the inputs, as far as these can be told."""
    basis = parts.model._chosen_basis if parts.model.basis_ is not None else None
    steps = [step for _, step in basis.steps] if isinstance(basis, Pipeline) else [basis]
    before = [step for _, step in parts.front.steps] if parts.front is not None else []
    *scalers, last = [step for step in [*before, *steps] if step is not None and step != "passthrough"] or [None]
    known = radial_parts(last) if all(isinstance(step, SCALERS) for step in scalers) else []
    none = np.empty((0, parts.model.n_features_in_))
    centers = np.vstack([none, *(np.asarray(to_host(part.centers_), dtype=np.float64) for part in known)])
    centers = centers[np.isfinite(centers).all(axis=1)]
    for scaler in reversed(scalers):
        centers = scaler.inverse_transform(centers) if len(centers) else centers
    return centers


def radial_parts(basis: Any) -> list[Any]:
    """What of a basis has functions around centres."""
    if isinstance(basis, UnionBasis):
        return [found for part in basis.bases_ for found in radial_parts(part)]
    return [basis] if isinstance(basis, RadialBasis | SmoothBasis) else []


def column(values: Any, j: int) -> NDArray:
    """One output of predictions."""
    return as_columns(in_this_process(values))[:, j]


def numbers(X: Any) -> NDArray[np.float64]:
    """Inputs as an array."""
    return np.asarray(densify(X.to_numpy() if is_frame(X) else in_this_process(X)), dtype=np.float64)


def spaced(values: NDArray, grid: int) -> NDArray[np.float64]:
    """Values over a range, and a little beyond."""
    low, high = values.min(), values.max()
    room = ROOM * (high - low) or 0.5
    return np.linspace(low - room, high + room, grid)


def like(X: Any, rows: NDArray) -> Any:
    """Rows as a frame with the columns of X where that is one."""
    if not is_frame(X):
        return rows
    return type(X)(rows, columns=X.columns) if hasattr(X, "iloc") else type(X)(rows, schema=list(X.columns))


# -- drawing -----------------------------------------------------------------------------------------------------------


def draw_curve(axes: Any, data: dict[str, Any]) -> None:
    """One input: the curve, the interval, the samples, the centres."""
    x = data["inputs"][:, 0]
    if data["interval"] is not None and np.isfinite(data["interval"]).all():
        label = f"{100 * data['coverage']:.0f} % of new samples"
        axes.fill_between(data["x"], *data["interval"], color=SKY, alpha=0.25, linewidth=0, label=label)
    axes.scatter(
        x, data["observed"], s=12 if len(x) > MANY else 22, color="0.35", alpha=0.6, linewidth=0, label="samples"
    )
    axes.plot(data["x"], data["curve"], color=BLUE, linewidth=2, label="fit")
    if len(data["centers"]):
        place = axes.get_xaxis_transform()
        axes.plot(data["centers"][:, 0], np.full(len(data["centers"]), 0.02), "^", color=VERMILION, transform=place,
                  markersize=8, clip_on=False, zorder=4, markeredgecolor="white", label="centres")  # fmt: skip
    axes.set_xlim(data["x"][0], data["x"][-1])
    axes.set_xlabel(plain(data["names"][0]))
    axes.set_ylabel("target")
    tidy(axes)
    axes.legend(frameon=False, fontsize="small")


def draw_surface(axes: Any, data: dict[str, Any]) -> None:
    """Two inputs: filled contours, the samples, the centres."""
    colours = axes.contourf(data["x"], data["y"], data["heights"], levels=LEVELS, cmap="cividis")
    axes.contour(data["x"], data["y"], data["heights"], levels=colours.levels[::2], colors="white", linewidths=0.4)
    small = 5 if len(data["inputs"]) > MANY else 12
    axes.scatter(*data["inputs"].T, s=small, color="white", edgecolor="0.2", linewidth=0.4, label="samples")
    draw_centers(axes, data["centers"])
    axes.figure.colorbar(colours, ax=axes, label="fit")
    name_axes(axes, data)
    axes.legend(fontsize="small", loc="upper right", framealpha=0.85)


def draw_decisions(axes: Any, data: dict[str, Any]) -> None:
    """Two inputs and classes: who gets which part of the plane, and which samples are on a side that is not theirs."""
    names, areas, total = data["classes"], data["areas"], len(data["observed"])
    levels = np.arange(len(names) + 1) - 0.5
    shades = [COLOURS[k % len(COLOURS)] for k in range(len(names))]
    axes.contourf(data["x"], data["y"], areas, levels=levels, colors=shades, alpha=0.18)
    axes.contour(data["x"], data["y"], areas, levels=levels[1:-1], colors="0.25", linewidths=0.9)
    wrong = data["observed"] != data["predicted"]
    small = 9 if total > MANY else 22
    for k, name in enumerate(names):
        own = data["observed"] == k
        axes.scatter(*data["inputs"][own].T, s=small, marker=MARKERS[k % len(MARKERS)], color=shades[k], linewidth=0,
                     alpha=0.85, label=plain(name))  # fmt: skip
    axes.scatter(*data["inputs"][wrong].T, s=4 * small, facecolor="none", edgecolor=BLACK, linewidth=1.0,
                 label=f"in a wrong class: {wrong.sum()} of {total}")  # fmt: skip
    draw_centers(axes, data["centers"])
    name_axes(axes, data)
    axes.legend(fontsize="small", framealpha=0.85)


def draw_centers(axes: Any, centers: NDArray) -> None:
    """Mark centres in the plane."""
    if len(centers):
        axes.scatter(*centers.T, s=55, marker="X", color=VERMILION, edgecolor="white", linewidth=0.8, label="centres")


def name_axes(axes: Any, data: dict[str, Any]) -> None:
    """Name the two inputs."""
    axes.set_xlim(data["x"][0], data["x"][-1])
    axes.set_ylim(data["y"][0], data["y"][-1])
    axes.set_xlabel(plain(data["names"][0]))
    axes.set_ylabel(plain(data["names"][1]))


def draw_series(axes: Any, data: dict[str, Any]) -> None:
    """Draw a series and its two forecasts."""
    time, start = np.arange(len(data["observed"])), data["start"]
    axes.plot(time, data["observed"], color="0.35", linewidth=2.2, alpha=0.6, label="measured")
    axes.plot(time[start:], data["one_step"][start:], color=BLUE, linewidth=1.2, label="one step ahead")
    axes.plot(time[start:], data["free_run"][start:], color=VERMILION, linewidth=1.2, linestyle="--", label="free run")
    axes.set_xlabel("time")
    axes.set_ylabel("series")
    tidy(axes)
    axes.legend(frameon=False, fontsize="small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def draw_observed(axes: Any, data: dict[str, Any]) -> None:
    """Observed against predicted values."""
    both = np.concatenate([data["observed"], data["predicted"]])
    axes.plot([both.min(), both.max()], [both.min(), both.max()], color=GREY, linewidth=1)
    small = 8 if len(data["observed"]) > MANY else 18
    axes.scatter(data["predicted"], data["observed"], s=small, color=BLUE, alpha=0.5, linewidth=0)
    axes.set_xlabel("predicted")
    axes.set_ylabel("observed")
    axes.set_title(f"$R^2$ = {data['r2']:.3f} on these samples", fontsize="medium")
    tidy(axes)


def draw_classes(axes: Any, data: dict[str, Any]) -> None:
    """How often each class was taken for each."""
    counts, names = data["counts"], [plain(name) for name in data["classes"]]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.2)
    for i, j in np.ndindex(counts.shape):
        wrong = i != j and counts[i, j] > 0
        dark = shares[i, j] > 0.7
        axes.text(j, i, counts[i, j], ha="center", va="center", weight="bold" if wrong else "normal",
                  color="white" if dark else VERMILION if wrong else "0.2")  # fmt: skip
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("observed class")
    axes.set_title(f"{np.trace(counts)} of {counts.sum()} right", fontsize="medium")


DRAWERS = {
    "curve": draw_curve,
    "surface": draw_surface,
    "decisions": draw_decisions,
    "series": draw_series,
    "observed": draw_observed,
    "classes": draw_classes,
}
