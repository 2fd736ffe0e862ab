"""`SelectionPathDisplay` and `CriterionDisplay`: criteria along a path and a parameter; and the style of all plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from termwise._checks import check_choice, import_optional
from termwise.estimators.ridge import BasisRidge
from termwise.explain.resolve import CRITERION_NAMES, as_numpy, path_metadata, penalty_curves, resolve

# Okabe and Ito's colours, which are distinct with any colour vision, strongest contrast on white first
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
BLUE, VERMILION, GREEN, _, _, SKY, BLACK = COLOURS
DASHES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 1))]
GREY = "0.6"
LOG_RATIO = 6.0  # ratio of errors above which their axis is logarithmic
SIZE_MARKERS = {"one_se": 5, "tcr": 8, "tcr_paper": 9, "tcr_sequential": 10}  # sizes differ: marks may coincide
MAX_RATIO, MIN_RATIO = 8.0, 1.6  # range of criteria shown, relative to the least leave-one-out error or GCV
MAX_TICKS = 8  # number of values of a parameter up to which all are written under the axis


def escape(name: str) -> str:
    """Escape dollars, which matplotlib would read as mathematics."""
    return name.replace("$", r"\$")


def new_axes(
    caller: str, n_rows: int = 1, size: tuple[float, float] = (6.4, 4.0), **kwargs: Any
) -> NDArray[np.object_]:
    """Axes of a new figure, one above the other."""
    pyplot = import_optional("matplotlib.pyplot", "plots", caller)
    _, axes = pyplot.subplots(n_rows, 1, figsize=size, layout="constrained", squeeze=False, **kwargs)
    return axes[:, 0]


def hide_spines(axes: Any) -> None:
    """Hide the frame at the top and on the right."""
    axes.spines[["top", "right"]].set_visible(False)


class SelectionPathDisplay:
    """Criteria along a selection path: each against the number of terms, and the cost reduction of each term.

    The upper panel has the estimates of the error along the path, with a mark at the size each criterion selects and a
    line at the size of the model. The lower one has the reduction of the cost by each term next to the reduction
    expected of noise: "tcr" keeps the terms above that line. Make it with `from_estimator`.

    Parameters
    ----------
    rows : list of dict
        One per size: "size" and the value of every criterion, as "path" in `termwise.diagnostics.facts`.
    criteria : list of str
        Criteria to draw.
    choices : dict
        Number of terms that each criterion selects.
    n_terms : int
        Size of the model.
    error_name : str, default="squared error"
        The error that the criteria estimate.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of matplotlib Axes
        One for the criteria; a second for the cost reductions, where there are any.

    See Also
    --------
    SelectionPath : The numbers themselves.

    Notes
    -----
    `TermwiseRegressor` and `TermwiseClassifier` have a cross-validated error in addition, which decided their size.
    Where terms were selected on a fitted signal instead of the targets, criteria are those of the model at each size
    and cost reductions are not drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import ForwardRegressor, SelectionPathDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> display = SelectionPathDisplay.from_estimator(ForwardRegressor().fit(X, y), criteria=["loo", "bic"])
    >>> display.n_terms, display.choices["bic"]
    (6, 6)
    >>> len(display.axes_)
    2
    """

    figure_: Any
    axes_: NDArray[np.object_]

    def __init__(
        self,
        rows: Sequence[dict[str, Any]],
        *,
        criteria: Sequence[str],
        choices: dict[str, int],
        n_terms: int,
        error_name: str = "squared error",
    ) -> None:
        self.rows = list(rows)
        self.criteria = list(criteria)
        self.choices = dict(choices)
        self.n_terms = n_terms
        self.error_name = error_name

    @classmethod
    def from_estimator(cls, estimator: Any, *, criteria: Iterable[str] | None = None, ax: Any = None) -> Self:
        """Draw the path of a fitted model.

        Parameters
        ----------
        estimator : fitted estimator of termwise with a path, a search or a pipeline that ends in one
            `ForwardRegressor`, `ForwardClassifier`, `TermwiseRegressor`, `TermwiseClassifier`, `PrefilterClassifier` or
            `EvidenceForwardRegressor`.
        criteria : list of str, default=None
            Criteria to draw; by default all there are.
        ax : matplotlib Axes or two of them, default=None
            Axes for the criteria, and for the cost reductions; by default those of a new figure.
        """
        resolved = resolve(estimator, "SelectionPathDisplay")
        model = resolved.model
        if not hasattr(model, "path_"):
            raise TypeError(
                f"estimator must have a selection path, got {type(model).__name__}, which chooses no terms one by "
                "one: use CriterionDisplay for its penalty."
            )
        found = path_metadata(resolved)
        known = [name for name in found["criteria"] if name in CRITERION_NAMES]
        drawn = known if criteria is None else [check_choice("criteria", name, known) for name in criteria]
        shown = {"criteria": drawn, "choices": found["choices"], "n_terms": model.n_terms_}
        return cls(found["path"], **shown, error_name=model.path_.error_name).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the path.

        Parameters
        ----------
        ax : matplotlib Axes or two of them, default=None
            Axes for the criteria, and for the cost reductions; by default those of a new figure.
        """
        two = any("reduction" in row for row in self.rows)
        if ax is None:
            layout = {"sharex": True, "height_ratios": [2, 1]} if two else {}
            self.axes_ = new_axes("SelectionPathDisplay", 1 + two, (7.0, 5.4 if two else 4.0), **layout)
        else:
            self.axes_ = np.ravel(np.asarray(ax, dtype=object))[: 1 + two]
        self.figure_ = self.axes_[0].figure
        self._draw_criteria(self.axes_[0])
        if len(self.axes_) > 1:
            self._draw_reductions(self.axes_[1])
        ticker = import_optional("matplotlib.ticker", "plots", "A plot")
        for axes in self.axes_:
            axes.axvline(self.n_terms, color="0.2", linewidth=0.8, linestyle=":", zorder=0)
            axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
            hide_spines(axes)
        self.axes_[-1].set_xlabel("number of terms")
        return self

    def _draw_criteria(self, axes: Any) -> None:
        """Draw every criterion, one standard error of leave-one-out, and a mark at each size selected."""
        drawn = []
        for name, colour, dash in zip(self.criteria, COLOURS, DASHES, strict=False):
            sizes, values = self._column(name)
            selected = self.choices.get(name)
            label = CRITERION_NAMES[name] if selected is None else f"{CRITERION_NAMES[name]}: {selected}"
            axes.plot(sizes, values, color=colour, linestyle=dash, linewidth=1.6, label=label)
            if selected is not None:
                best = sizes == selected
                axes.plot(sizes[best], values[best], "o", color=colour, markersize=6, markeredgecolor="white")
            if name == "loo" and any("loo_se" in row for row in self.rows):
                errors = np.array([row["loo_se"] for row in self.rows if row.get("loo") is not None], dtype=float)
                low = np.maximum(values - errors, 0.5 * values.min())  # with outliers it may be negative
                axes.fill_between(sizes, low, values + errors, color=colour, alpha=0.12, linewidth=0)
            drawn.append(values)
        everything = np.concatenate(drawn)
        if everything.min() > 0 and everything.max() > LOG_RATIO * everything.min():
            axes.set_yscale("log")
        for name, size in SIZE_MARKERS.items():  # sizes that are no minimum of a curve
            if name in self.choices:
                label = f"{CRITERION_NAMES[name]}: {self.choices[name]}"
                axes.plot([self.choices[name]], [0.0], "v", color="0.25", transform=axes.get_xaxis_transform(),
                          clip_on=False, fillstyle="none", label=label, markersize=size)  # fmt: skip
        axes.set_ylabel(f"estimated {self.error_name}")
        axes.legend(frameon=False, fontsize="small", title="terms selected", title_fontsize="small")

    def _draw_reductions(self, axes: Any) -> None:
        """Draw the cost reduction of each term, and that expected of noise."""
        sizes, reduction = self._column("reduction")
        axes.plot(sizes, reduction, color=GREEN, marker=".", linewidth=1.2, label="by the term")
        sizes, noise = self._column("threshold")
        noise = np.where(noise > 0, noise, np.nan)
        axes.plot(sizes, noise, color=GREY, linestyle="--", label="expected of noise (TCR)")
        if reduction.min(initial=np.inf) > 0:
            axes.set_yscale("log")
        axes.set_ylabel("cost reduction")
        axes.legend(frameon=False, fontsize="small")

    def _column(self, name: str) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Sizes at which a quantity is available, and its values."""
        rows = [row for row in self.rows if row.get(name) is not None]
        sizes, values = [row["size"] for row in rows], [row[name] for row in rows]
        return np.array(sizes, dtype=int), np.array(values, dtype=float)


class CriterionDisplay:
    """Criteria as functions of one parameter: the penalty of a ridge regression, or a parameter of a search.

    Make it with `from_estimator`.

    Parameters
    ----------
    parameter : str
        Name of the parameter.
    values : array-like of shape (m,)
        Its values.
    curves : dict
        Value of each criterion there, by its name.
    chosen : object
        The chosen value, if any.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure, Axes
        The figure and its axes.

    Notes
    -----
    UEV, FPE and BIC vanish where a model interpolates the samples: with as many terms as samples they decrease towards
    small penalties, where GCV and leave-one-out remain meaningful.

    Of a search over several parameters, one is drawn, with the minimum over all others.

    Examples
    --------
    >>> from termwise import BasisRidge, CriterionDisplay, CriterionSearch, RadialBasis, datasets
    >>> X, y = datasets.make_hermite(random_state=1)
    >>> model = BasisRidge(RadialBasis(width=0.5), alpha="loo").fit(X, y)
    >>> display = CriterionDisplay.from_estimator(model, X, y)
    >>> display.parameter, sorted(display.curves)
    ('alpha', ['bic', 'fpe', 'gcv', 'loo', 'uev'])
    >>> search = CriterionSearch(BasisRidge(RadialBasis()), {"basis__width": [0.2, 0.5, 1.0, 2.0]}).fit(X, y)
    >>> CriterionDisplay.from_estimator(search).parameter
    'basis__width'
    """

    figure_: Any
    ax_: Any

    def __init__(
        self,
        parameter: str,
        values: ArrayLike,
        curves: Mapping[str, Sequence[Any] | NDArray[Any]],
        *,
        chosen: Any = None,
    ) -> None:
        self.parameter = parameter
        self.values = values
        self.curves = dict(curves)
        self.chosen = chosen

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, parameter: str | None = None, ax: Any = None
    ) -> Self:
        """Compute the criteria and draw them.

        Parameters
        ----------
        estimator : fitted BasisRidge, a pipeline that ends in one, or fitted CriterionSearch
            The model, or the search.
        X, y : array-like of shape (n, d), array-like of shape (n,) or (n, q), default=None
            The samples of the fit, from which the criteria of a `BasisRidge` at other penalties are computed.
        parameter : str, default=None
            Which parameter of a search to draw; by default the first numeric one with several values.
        ax : matplotlib Axes, default=None
            Axes to draw in; by default those of a new figure.
        """
        if hasattr(estimator, "results_"):
            return cls(*search_curve(estimator, parameter)).plot(ax)
        resolved = resolve(estimator, "CriterionDisplay")
        if not isinstance(resolved.model, BasisRidge):
            raise TypeError(
                f"estimator must be a BasisRidge or a CriterionSearch, got {type(resolved.model).__name__}: see "
                "SelectionPathDisplay for models that choose terms."
            )
        if X is None or y is None:
            raise ValueError("X, y must be given for a BasisRidge, got None: the samples of the fit.")
        curves = penalty_curves(resolved, resolved.preprocess(X), as_numpy(y))
        values, _ = curves.pop("alpha"), curves.pop("dof")
        return cls("alpha", values, curves, chosen=resolved.model.alpha_).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the criteria.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw in; by default those of a new figure.
        """
        self.ax_ = new_axes("CriterionDisplay")[0] if ax is None else ax
        self.figure_ = self.ax_.figure
        values = np.asarray(self.values, dtype=object)
        numeric = are_numbers(values)
        places = values.astype(float) if numeric else np.arange(len(values))
        for (name, criterion), colour, dash in zip(self.curves.items(), COLOURS, DASHES, strict=False):
            heights = np.array([np.nan if one is None else one for one in criterion], dtype=float)
            label, marker = CRITERION_NAMES.get(name, escape(name)), "o" if len(places) <= 40 else None
            self.ax_.plot(places, heights, color=colour, linestyle=dash if numeric else "none", marker=marker,
                          markersize=4, linewidth=1.6, label=label)  # fmt: skip
            if np.isfinite(heights).any():
                best = np.nanargmin(np.where(np.isfinite(heights), heights, np.nan))
                self.ax_.plot(places[best], heights[best], "o", color=colour, markersize=7, markeredgecolor="white")
        if not numeric:
            self.ax_.set_xticks(places, [escape(str(value)) for value in values])
            self.ax_.margins(x=0.3)
        elif places.min() > 0 and places.max() > 10 * places.min():
            self.ax_.set_xscale("log")
            self.ax_.tick_params(axis="x", which="minor", labelbottom=False)  # between powers of ten they overlap
            if len(values) <= MAX_TICKS:
                self.ax_.set_xticks(places, [f"{value:.3g}" for value in values])
        errors = [one for name in ("gcv", "loo") for one in self.curves.get(name, []) if one]
        if errors:  # where models interpolate, the others vanish and these grow without limit
            self.ax_.set_yscale("log")
            _, high = self.ax_.get_ylim()
            self.ax_.set_ylim(min(errors) / MIN_RATIO, min(high, MAX_RATIO * min(errors)))
        if isinstance(self.chosen, float) and 0 < self.chosen < np.inf:
            self.ax_.axvline(self.chosen, color="0.2", linestyle=":", linewidth=1, zorder=0, label="chosen")
        parameter = "penalty alpha" if self.parameter == "alpha" else escape(self.parameter)
        self.ax_.set(xlabel=parameter, ylabel="estimated squared error" if errors else "criterion")
        hide_spines(self.ax_)
        if len(self.curves) > 1:
            self.ax_.legend(frameon=False, fontsize="small")
        return self


def search_curve(search: Any, parameter: str | None) -> tuple[str, list[Any], dict[str, NDArray[Any]]]:
    """A parameter of a search, its values, and at each the least criterion over all other parameters."""
    results = search.results_
    values: dict[str, dict[str, Any]] = {}  # by name, and as text: arrays and estimators have no other equality
    for params in results["params"]:
        for name, value in params.items():
            values.setdefault(name, {}).setdefault(str(value), value)
    numeric = {name: are_numbers(some.values()) for name, some in values.items()}
    preferred = sorted(values, key=lambda name: (not numeric[name], len(values[name]) == 1))
    name = preferred[0] if parameter is None else check_choice("parameter", parameter, values)
    grid = sorted(values[name].values()) if numeric[name] else list(values[name].values())
    outcomes = [
        (str(params[name]), criterion)
        for params, criterion in zip(results["params"], results["criterion_value"], strict=True)
        if name in params
    ]
    best = [min(criterion for text, criterion in outcomes if text == str(value)) for value in grid]
    return name, grid, {"criterion": np.array(best, dtype=float)}


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether all values of a parameter are numbers."""
    return all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)
