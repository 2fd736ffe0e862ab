"""`SelectionPathDisplay`: every criterion along a path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._checks import check_choice, import_optional
from termwise.explain.along import WORDS, Along
from termwise.explain.plot_style import COLOURS, DASHES, GREEN, GREY, new_axes, tidy
from termwise.explain.resolve import unwrap

STEEP = 6.0  # largest ratio of errors that is drawn to a linear scale


RULE_MARKS = {"one_se": 5, "tcr": 8, "tcr_sequential": 10}  # sizes of the marks, which may coincide


class SelectionPathDisplay:
    """The path of a selection: every criterion against the number of terms, and what each term brought.

    Above, the estimates of the error along the path, with a mark where each criterion would end it and a line at the
    size of the model. Below, how far each term has brought the cost down, beside what noise would bring: the terms
    above that line are what "tcr" keeps. Make it with `from_estimator`.

    Parameters
    ----------
    rows : list of dict
        One per size: "size" and the value of every criterion, as in `termwise.diagnostics.facts`.
    criteria : list of str
        Criteria to draw.
    choices : dict
        How many terms each criterion would keep.
    n_terms : int
        Size of the model.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure drawn in.
    axes_ : ndarray of matplotlib Axes
        One for the criteria; a second for the terms' reductions of the cost, where they are known.

    See Also
    --------
    SelectionPath : The numbers themselves.

    Notes
    -----
    `TermwiseRegressor` and `TermwiseClassifier` have a cross-validated error in addition, which decided their size.
    Where terms were fitted to something other than the targets themselves, criteria are those of the model at each
    size and reductions are not drawn.

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
        self, rows: Sequence[dict[str, Any]], *, criteria: Sequence[str], choices: dict[str, int], n_terms: int
    ) -> None:
        self.rows = list(rows)
        self.criteria = list(criteria)
        self.choices = dict(choices)
        self.n_terms = n_terms

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
            Where to draw the criteria, and the reductions; by default in a new figure.
        """
        model = unwrap(estimator, "SelectionPathDisplay").model
        if not hasattr(model, "path_"):
            raise TypeError(
                f"estimator must have a selection path, got {type(model).__name__}, which chooses no terms one by "
                "one: use CriterionDisplay for its penalty."
            )
        along = Along.of(model)
        known = [name for name in along.criteria if name in WORDS]
        chosen = known if criteria is None else [check_choice("criteria", name, known) for name in criteria]
        return cls(along.rows, criteria=chosen, choices=along.choices, n_terms=model.n_terms_).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the path.

        Parameters
        ----------
        ax : matplotlib Axes or two of them, default=None
            Where to draw the criteria, and the reductions; by default in a new figure.
        """
        known = any("reduction" in row for row in self.rows)
        if ax is None:
            ratios = {"sharex": True, "height_ratios": [2, 1]} if known else {}
            self.axes_ = new_axes("SelectionPathDisplay", 1 + known, (7.0, 5.4 if known else 4.0), **ratios)
        else:
            self.axes_ = np.ravel(np.asarray(ax, dtype=object))[: 1 + known]
        self.figure_ = self.axes_[0].figure
        self._draw_criteria(self.axes_[0])
        if len(self.axes_) > 1:
            self._draw_reductions(self.axes_[1])
        for axes in self.axes_:
            axes.axvline(self.n_terms, color="0.2", linewidth=0.8, linestyle=":", zorder=0)
            axes.xaxis.set_major_locator(
                import_optional("matplotlib.ticker", "plots", "A plot").MaxNLocator(integer=True)
            )
            tidy(axes)
        self.axes_[-1].set_xlabel("number of terms")
        return self

    def _draw_criteria(self, axes: Any) -> None:
        """Draw a line per criterion and a mark at its choice."""
        drawn = []
        for name, colour, dash in zip(self.criteria, COLOURS, DASHES, strict=False):
            sizes, values = self._column(name)
            label = f"{WORDS[name]}: {self.choices[name]}" if name in self.choices else WORDS[name]
            axes.plot(sizes, values, color=colour, linestyle=dash, linewidth=1.6, label=label)
            if name in self.choices:
                best = sizes == self.choices[name]
                axes.plot(sizes[best], values[best], "o", color=colour, markersize=6, markeredgecolor="white")
            drawn.append(values)
        self._draw_band(axes)
        values = np.concatenate(drawn)
        if values.min() > 0 and values.max() > STEEP * values.min():
            axes.set_yscale("log")
        axes.set_ylabel("estimated squared error")
        self._draw_rules(axes)
        axes.legend(frameon=False, fontsize="small", title="terms each would keep", title_fontsize="small")

    def _draw_band(self, axes: Any) -> None:
        """Shade one standard error of leave-one-out."""
        if "loo" in self.criteria and any("loo_se" in row for row in self.rows):
            sizes, values = self._column("loo")
            errors = np.array([row["loo_se"] for row in self.rows if row.get("loo") is not None], dtype=float)
            colour = COLOURS[self.criteria.index("loo")]
            low = np.maximum(values - errors, 0.5 * values.min())  # of a few samples far out it may be below zero
            axes.fill_between(sizes, low, values + errors, color=colour, alpha=0.12, linewidth=0)

    def _draw_rules(self, axes: Any) -> None:
        """Mark what rules keep that are no minimum of a curve: one standard error, TCR."""
        place = axes.get_xaxis_transform()
        for name, size in RULE_MARKS.items():
            if name in self.choices:
                axes.plot(
                    [self.choices[name]], [0.0], "v", color="0.25", transform=place, clip_on=False, fillstyle="none",
                    label=f"{WORDS[name]}: {self.choices[name]}", markersize=size,
                )  # fmt: skip

    def _draw_reductions(self, axes: Any) -> None:
        """Draw what each term brought, and what noise would bring."""
        sizes, brought = self._column("reduction")
        axes.plot(sizes, brought, color=GREEN, marker=".", linewidth=1.2, label="brought by the term")
        sizes, noise = self._column("threshold")
        axes.plot(
            sizes, np.where(noise > 0, noise, np.nan), color=GREY, linestyle="--", label="noise would bring (TCR)"
        )
        if brought.min(initial=np.inf) > 0:
            axes.set_yscale("log")
        axes.set_ylabel("drop of the cost")
        axes.legend(frameon=False, fontsize="small")

    def _column(self, name: str) -> tuple[NDArray, NDArray[np.float64]]:
        """Sizes at which a quantity is known, and its values."""
        known = [(row["size"], row[name]) for row in self.rows if row.get(name) is not None]
        sizes, values = zip(*known, strict=True) if known else ((), ())
        return np.array(sizes, dtype=int), np.array(values, dtype=float)
