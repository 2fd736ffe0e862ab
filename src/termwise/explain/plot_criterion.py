"""`CriterionDisplay`: criteria against the penalty, or against a parameter that was searched over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from termwise._checks import check_choice
from termwise.estimators.ridge import BasisRidge
from termwise.explain.along import WORDS, along_penalty
from termwise.explain.comparison import in_this_process
from termwise.explain.plot_style import COLOURS, DASHES, new_axes, plain, tidy
from termwise.explain.resolve import unwrap

HIGHEST, LOWEST = 8.0, 1.6  # shown, as multiples and fractions of the least leave-one-out error or GCV
FEW = 8  # values of a parameter that are written under the axis


class CriterionDisplay:
    """Criteria as functions of one parameter: the penalty of a ridge regression, or what a search has tried.

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
        The value chosen; None for none.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure, Axes
        What was drawn in.

    Notes
    -----
    UEV, FPE and BIC vanish where a model fits every sample exactly: they go down to the left for models with as many
    terms as samples, where GCV and leave-one-out remain meaningful.

    Of a search over several parameters, one is drawn; at each of its values the best over all others counts.

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
        self, parameter: str, values: ArrayLike, curves: Mapping[str, Sequence[Any] | NDArray], *, chosen: Any = None
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
            The samples of the fit, which a `BasisRidge` needs to compute other penalties' criteria.
        parameter : str, default=None
            Of a search, which parameter to draw; by default the first of numbers that has several.
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        """
        if hasattr(estimator, "results_"):
            return cls(*searched(estimator, parameter)).plot(ax)
        parts = unwrap(estimator, "CriterionDisplay")
        if not isinstance(parts.model, BasisRidge):
            raise TypeError(
                f"estimator must be a BasisRidge or a CriterionSearch, got {type(parts.model).__name__}: see "
                "SelectionPathDisplay for models that choose terms."
            )
        if X is None or y is None:
            raise ValueError("X, y must be given for a BasisRidge, got None: the samples of the fit.")
        curves = along_penalty(parts.model, parts.inputs(X), in_this_process(y))
        values, _ = curves.pop("alpha"), curves.pop("dof")
        return cls("alpha", values, curves, chosen=parts.model.alpha_).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the criteria.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.
        """
        self.ax_ = new_axes("CriterionDisplay")[0] if ax is None else ax
        self.figure_ = self.ax_.figure
        values = np.asarray(self.values, dtype=object)
        numbers = are_numbers(values)
        places = values.astype(float) if numbers else np.arange(len(values))
        for (name, heights), colour, dash in zip(self.curves.items(), COLOURS, DASHES, strict=False):
            heights = np.array([np.nan if one is None else one for one in heights], dtype=float)
            self._draw_curve(places, heights, name, colour, dash if numbers else "none")
        if numbers and places.min() > 0 and places.max() > 10 * places.min():
            self.ax_.set_xscale("log")
            self.ax_.tick_params(axis="x", which="minor", labelbottom=False)  # between powers of ten they overlap
            if len(values) <= FEW:
                self.ax_.set_xticks(places, [f"{value:.3g}" for value in values])
        if not numbers:
            self.ax_.set_xticks(places, [plain(str(value)) for value in values])
            self.ax_.margins(x=0.3)
        self._look()
        return self

    def _draw_curve(self, places: NDArray, heights: NDArray, name: str, colour: str, dash: Any) -> None:
        """Draw one criterion and mark its least value."""
        few = "o" if len(places) <= 40 else None
        label = WORDS.get(name, plain(name))
        self.ax_.plot(
            places, heights, color=colour, linestyle=dash, marker=few, markersize=4, linewidth=1.6, label=label
        )
        if np.isfinite(heights).any():
            best = np.nanargmin(np.where(np.isfinite(heights), heights, np.nan))
            self.ax_.plot(places[best], heights[best], "o", color=colour, markersize=7, markeredgecolor="white")

    def _look(self) -> None:
        """Scale, labels and the value chosen."""
        judged = [one for name in ("gcv", "loo") for one in self.curves.get(name, []) if one]
        if judged:  # where models interpolate, the others vanish and these grow without limit
            self.ax_.set_yscale("log")
            _, high = self.ax_.get_ylim()
            self.ax_.set_ylim(min(judged) / LOWEST, min(high, HIGHEST * min(judged)))
        if isinstance(self.chosen, float) and 0 < self.chosen < np.inf:
            self.ax_.axvline(self.chosen, color="0.2", linestyle=":", linewidth=1, zorder=0, label="chosen")
        self.ax_.set_xlabel(f"penalty {self.parameter}" if self.parameter == "alpha" else plain(self.parameter))
        self.ax_.set_ylabel("estimated squared error" if judged else "criterion")
        tidy(self.ax_)
        if len(self.curves) > 1:
            self.ax_.legend(frameon=False, fontsize="small")


def searched(search: Any, parameter: str | None) -> tuple[str, list[Any], dict[str, NDArray]]:
    """Return a parameter of a search, its values, and the best criterion at each over all other parameters."""
    grid: dict[str, list[Any]] = {}
    for params in search.results_["params"]:
        for name, value in params.items():
            if not any(same(value, known) for known in grid.setdefault(name, [])):
                grid[name].append(value)
    telling = sorted(grid, key=lambda name: (not are_numbers(grid[name]), len(grid[name]) == 1))
    name = telling[0] if parameter is None else check_choice("parameter", parameter, grid)
    values = sorted(grid[name]) if are_numbers(grid[name]) else grid[name]
    outcomes = list(zip(search.results_["params"], search.results_["criterion_value"], strict=True))
    best = [min(found for params, found in outcomes if name in params and same(params[name], v)) for v in values]
    return name, values, {"criterion": np.array(best, dtype=float)}


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether a parameter is one of numbers."""
    return all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)


def same(one: Any, other: Any) -> bool:
    """Whether two values of a parameter, which may be arrays or bases, are the same."""
    return one is other or str(one) == str(other)
