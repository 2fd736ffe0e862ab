"""Sequences of an output and its inputs: breaks, windows of past values, free runs, and models of their lags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_consistent_length, validate_data

from termwise._checks import check_bool, check_choice, check_number, check_table, is_one_of
from termwise.basis import LagBasis, SmoothBasis
from termwise.basis.lag import lag_list
from termwise.estimators.forward import ForwardRegressor

Floats = NDArray[np.float64]

MAX_CENTERS = 500  # Gaussians of `basis="radial"`
MARGIN = 1.0  # by which simulated outputs may exceed the range of the training data, as a multiple of its width


@dataclass(frozen=True)
class Series:
    """A table in the order of time, the output first, with the rows at which a new sequence begins.

    A row with a missing value ends a sequence as well: the next one begins after it.
    """

    table: Floats  # (n, 1 + m)
    starts: NDArray[np.bool_]  # (n,)

    @property
    def output(self) -> Floats:
        """The output, (n,)."""
        return self.table[:, 0]

    @property
    def complete(self) -> NDArray[np.bool_]:
        """The rows without missing values, (n,)."""
        return np.all(np.isfinite(self.table), axis=1)

    def history(self) -> NDArray[np.intp]:
        """Return how many complete rows of the same sequence are directly before each row."""
        breaks = self.starts.copy()
        breaks[1:] |= ~self.complete[:-1]
        rows = np.arange(len(breaks))
        return rows - np.maximum.accumulate(np.where(breaks, rows, 0))

    def windows(self, lags: LagBasis, least: int = 0) -> tuple[Floats, NDArray[np.intp]]:
        """Return the past values of the rows that have all of them, and these rows.

        A larger history than that of the lags can be asked for, so that several sets of lags have the same rows.
        """
        values = lags.evaluate(self.table)
        enough = self.history() >= max(lags.max_lag_, least)
        rows = np.flatnonzero(enough & np.isfinite(values).all(axis=1))
        return values[rows], rows

    def sequences(self, past: int) -> Iterator[slice]:
        """Return the complete stretches of more than `past` rows."""
        ids = np.cumsum(self.history() == 0)
        for one in np.unique(ids):
            rows = np.flatnonzero((ids == one) & self.complete)
            if len(rows) > past:
                yield slice(rows[0], rows[-1] + 1)


def free_run(
    table: Floats, lags: LagBasis, step: Callable[[Floats], float], limits: Sequence[float], start: int
) -> tuple[Floats, int | None]:
    """Simulate the output of a complete sequence from row `start` on, each value within the limits.

    Parameters
    ----------
    table : (n, 1 + m), the output first; its values from `start` on are not read.
    lags : the past values that predictions take.
    step : returns the prediction for a row of past values.
    limits : lowest and highest output; a prediction beyond is replaced by the nearest of them.
    start : the first simulated row, at least the longest lag.

    Returns
    -------
    output : (n,), as given before `start`.
    reached : the first row whose prediction was beyond the limits; None if there is none.
    """
    table, reached = table.copy(), None
    low, high = limits
    for t in range(start, len(table)):
        value = step(table[t - lags.lags_, lags.columns_])
        if reached is None and not low <= value <= high:
            reached = t
        table[t, 0] = min(max(low, value), high)  # also for NaN
    return table[:, 0], reached


def one_step(model: Any) -> Callable[[Floats], float]:
    """Return the prediction of a model for one row, by its predictor where one can be made of its basis."""
    try:
        return model.predictor_.predict_one
    except TypeError:
        return lambda row: float(model.predict(row[None])[0])


def free_runs(
    series: Series, lags: LagBasis, step: Callable[[Floats], float], limits: Sequence[float]
) -> tuple[Floats, Floats, int | None]:
    """Simulate every sequence from its first values; return measured and simulated outputs after these, joined.

    The last result is the first row whose prediction was beyond the limits.
    """
    measured, simulated, first, past = [np.empty(0)], [np.empty(0)], None, lags.max_lag_
    for rows in series.sequences(past):
        values, reached = free_run(series.table[rows], lags, step, limits, past)
        measured.append(series.output[rows][past:])
        simulated.append(values[past:])
        first = rows.start + reached if first is None and reached is not None else first
    return np.concatenate(measured), np.concatenate(simulated), first


def smallest_by_free_run(series: Series, lags: LagBasis, model: Any) -> Any:
    """Return the smallest model of a path whose free run of the training data is nearly the best.

    Sizes up to that of the model are simulated. Nearly: its mean squared error is at most the least one plus its
    standard error.
    """
    limits, means, least = simulation_range(series), [], (np.inf, np.inf)
    for k in range(1, model.n_terms_ + 1):
        measured, simulated, _ = free_runs(series, lags, one_step(model.at(k)), limits)
        squares = (measured - simulated) ** 2
        means.append(squares.mean())
        least = min(least, (means[-1], squares.std() / np.sqrt(len(squares))))
    return model.at(1 + int(np.argmax(np.array(means) <= sum(least)))) if means else model


def simulation_range(series: Series) -> tuple[float, float]:
    """Return the range of the known outputs, extended by its width on both sides; that of a constant by its size."""
    low, high = float(np.nanmin(series.output)), float(np.nanmax(series.output))
    margin = MARGIN * (high - low) or abs(high) or 1.0
    return low - margin, high + margin


# -- fitting -----------------------------------------------------------------------------------------------------------


def fit_lags(estimator: Any, series: Series, lags: Any, least: int = 0) -> tuple[LagBasis, ForwardRegressor]:
    """Fit the model of a NARX estimator with some lags to the rows with at least so much history."""
    basis = lag_basis(estimator, series, lags)
    windows, rows = series.windows(basis, least)
    known = np.isfinite(series.output[rows])
    windows, rows = windows[known], rows[known]
    if len(rows) < 2:
        raise ValueError(
            f"y must have at least two rows after {max(basis.max_lag_, least)} complete ones of the same sequence, "
            f"got {len(rows)} of {len(series.table)} sample{'s' * (len(series.table) != 1)}: shorten the lags or "
            "give longer sequences."
        )
    return basis, forward_model(estimator, len(rows)).fit(windows, series.output[rows])


def lag_basis(estimator: Any, series: Series, lags: Any) -> LagBasis:
    """Return the basis of lagged values of the table, the output first."""
    longest = int(lag_list("lags", lags, smallest=1).max())
    inputs = range(longest + 1) if estimator.input_lags is None else estimator.input_lags
    n_inputs = series.table.shape[1] - 1
    return LagBasis(lags, input_lags=inputs if n_inputs else None).fit(np.nan_to_num(series.table))


def forward_model(estimator: Any, n: int) -> ForwardRegressor:
    """Return the model of the columns of lagged values of n rows."""
    basis, polynomial = estimator.basis, is_one_of(estimator.basis, "polynomial")
    intercept: Any = not polynomial if is_one_of(estimator.fit_intercept, "auto") else estimator.fit_intercept
    check_bool("fit_intercept", intercept, remedy="'auto' decides by the basis")
    alpha = 0.0 if is_one_of(estimator.alpha, "auto") and (basis is None or polynomial) else estimator.alpha
    if isinstance(basis, str):
        check_choice("basis", basis, ["polynomial", "radial"], remedy="or give a transformer")
        check_number("degree", estimator.degree, low=1, integer=True, remedy="1 gives a linear model")
        radial = SmoothBasis(centers=MAX_CENTERS if n > MAX_CENTERS else "samples")
        basis = PolynomialFeatures(estimator.degree, include_bias=not intercept) if polynomial else radial
    return ForwardRegressor(
        basis,
        rule=estimator.rule,
        criterion="tcr" if is_one_of(estimator.criterion, "free_run") else estimator.criterion,
        alpha=alpha,
        max_terms=estimator.max_terms,
        patience=estimator.patience,
        refit_alpha=estimator.refit_alpha,
        fit_intercept=intercept,
    )


# -- validation --------------------------------------------------------------------------------------------------------


def read_series(estimator: Any, X: Any, y: Any, groups: Any, reset: bool = False) -> Series:
    """Validate inputs, outputs and sequences."""
    if y is None:
        raise ValueError("NarxRegressor requires y to be passed, but the target y is None: give the measured outputs.")
    if reset and X is None:
        estimator.n_features_in_ = 0  # instead of the validation of inputs
    output = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y")
    output = column_or_1d(output, warn=True)
    if getattr(estimator, "n_features_in_", None) == 0:
        check_no_inputs(X)
        inputs = np.empty((len(output), 0))
    else:
        inputs = read_inputs(estimator, X, allow_nan=True, reset=reset)
    check_consistent_length(inputs, output)
    starts = np.zeros(len(output), dtype=bool)
    starts[:1] = True
    if groups is not None:
        labels = column_or_1d(groups)
        check_consistent_length(labels, output)
        starts[1:] = labels[1:] != labels[:-1]
    return Series(np.column_stack([output, inputs]), starts)


def read_inputs(estimator: Any, X: Any, *, allow_nan: bool, reset: bool = False) -> Floats:
    """Validate inputs, missing values as breaks if these are allowed."""
    if X is None:
        raise ValueError(f"X must have the {estimator.n_features_in_} inputs of the fit, got None: give their values.")
    finite: Any = "allow-nan" if allow_nan else True
    return validate_data(estimator, check_table(X), reset=reset, dtype=np.float64, ensure_all_finite=finite)


def simulation_inputs(estimator: Any, X: Any, n_first: int, n_steps: int | None, ahead: int) -> NDArray[np.float64]:
    """Return validated inputs of all rows of a simulation, the first one repeated `ahead` times before it."""
    if estimator.n_features_in_ == 0:
        check_no_inputs(X)
        remedy = "a model without inputs needs the number of values to simulate"
        return np.empty((n_first + check_number("n_steps", n_steps, low=1, integer=True, remedy=remedy), 0))
    if n_steps is not None:
        raise ValueError(f"n_steps must be None for a model with inputs, got {n_steps}: X has a row for every step.")
    inputs = read_inputs(estimator, X, allow_nan=False)
    inputs = np.vstack([np.repeat(inputs[:1], ahead, axis=0), inputs])
    if len(inputs) < n_first:
        raise ValueError(
            f"X must have a row for each of the {n_first} values of y_init and for every step after them, got "
            f"{len(inputs)} rows: give the inputs from the first initial value on."
        )
    return inputs


def check_no_inputs(X: Any) -> None:
    """Raise if inputs are given to a model without."""
    if X is not None:
        raise ValueError(
            f"X must be None for a model fitted without inputs, got {type(X).__name__}: fit with inputs, or leave it "
            "out."
        )


def series_names(estimator: Any, y: Any) -> list[str]:
    """Return the names of output and inputs; an output without a name, or with that of an input, gets another."""
    inputs = [str(name) for name in getattr(estimator, "feature_names_in_", [])]
    inputs = inputs or [f"x{j}" for j in range(estimator.n_features_in_)]
    name = getattr(y, "name", None)
    name = name if isinstance(name, str) and name else "y"
    while name in inputs:
        name += "_"
    return [name, *inputs]


def list_lags(lags: NDArray[np.intp]) -> str:
    """Return lags as text, consecutive ones as a range."""
    if len(lags) > 2 and np.all(np.diff(lags) == 1):
        return f"{lags[0]} to {lags[-1]}"
    return ", ".join(map(str, lags))
