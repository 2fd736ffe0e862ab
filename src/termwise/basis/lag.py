"""Time series as regression: past outputs and inputs as columns, Orr section 2.2."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from termwise._checks import check_number, to_array
from termwise.basis.base import Basis


class LagBasis(Basis):
    """Past values of a series, and of the inputs that drive it, as columns.

    `X` is a table in the order of time: one column holds the output series, the others (if any) the inputs. The column
    of lag `l` at time `t` is the value at time `t - l`. Before the table's start its first row is repeated, so that
    every row of `X` has a row of lags; `windows` excludes those rows.

    A model of the series is fitted with the output column itself as the target. Its `predict` is then the one-step
    prediction, from measured past outputs; `free_run` feeds predictions back instead.

    Parameters
    ----------
    lags : int or array-like of int, default=3
        Lags of the output: a number means 1, 2, ... up to it.
    input_lags : int, array-like of int or None, default=None
        Lags of the inputs; 0, the present value, is allowed here. None: the same as `lags`.
    output : int or str, default=0
        Which column of `X` is the output: its position, or its name in a data frame.

    Attributes
    ----------
    columns_, lags_ : ndarray of shape (p,)
        Which column of `X` each term reads, and how far back.
    output_ : int
        Position of the output column.
    max_lag_ : int
        How many earlier rows a complete row of lags needs.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import BasisRidge, LagBasis
    >>> y = np.cos(0.3 * np.arange(60))
    >>> table = y[:, None]
    >>> model = BasisRidge(LagBasis(lags=2), alpha=0, fit_intercept=False)
    >>> model = model.fit(table, y, sample_weight=np.arange(60) >= 2)  # the first rows have no history
    >>> model.weights_.round(4)  # cos(t) = 2 cos(0.3) cos(t - 0.3) - cos(t - 0.6)
    array([ 1.9107, -1.    ])
    >>> path = model.basis_.free_run(model, table, start=10)
    >>> bool(np.abs(path - y).max() < 1e-8)
    True
    """

    _per_term = ("columns_", "lags_")

    def __init__(
        self, lags: int | ArrayLike = 3, input_lags: int | ArrayLike | None = None, output: int | str = 0
    ) -> None:
        self.lags = lags
        self.input_lags = input_lags
        self.output = output

    def _fit(self, X: NDArray[Any], y: Any) -> None:
        own = lag_list("lags", self.lags, smallest=1)
        other = own if self.input_lags is None else lag_list("input_lags", self.input_lags, smallest=0)
        names, output = self.input_names(), self.output
        if isinstance(output, str):
            if output not in names:
                raise ValueError(f"output must name a column of X, got {output!r}: the columns are {names}.")
            output = names.index(output)
        remedy = f"X has {len(names)} columns"
        self.output_ = int(check_number("output", output, low=0, below=len(names), integer=True, remedy=remedy))
        inputs = [j for j in range(X.shape[1]) if j != self.output_]
        self.columns_ = np.repeat([self.output_, *inputs], [len(own)] + [len(other)] * len(inputs))
        self.lags_ = np.concatenate([own] + [other] * len(inputs))
        self.max_lag_ = int(self.lags_.max())
        self._check_length(X)

    def _check_length(self, X: NDArray[Any]) -> None:
        if len(X) <= self.max_lag_:
            raise ValueError(
                f"X must have more than {self.max_lag_} rows, the longest lag, got {len(X)} "
                f"sample{'s' * (len(X) != 1)}: shorten the lags or give a longer series."
            )

    def evaluate(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the design matrix of valid inputs.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        return lagged(X, self.columns_, self.lags_)

    def inputs_of(self, indices: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the inputs that each of some functions depends on, in ascending order.

        Parameters
        ----------
        indices : ndarray of int
            Which functions.
        """
        return [(j,) for j in self.columns_[indices].tolist()]

    def _names(self, inputs: list[str]) -> list[str]:
        times = [f"[t-{lag}]" if lag else "[t]" for lag in self.lags_]
        return [inputs[j] + time for j, time in zip(self.columns_, times, strict=True)]

    def windows(self, X: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows with a complete history and their targets.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Table in the order of time.

        Returns
        -------
        G : ndarray of shape (n - longest lag, p)
            Lagged columns.
        y : ndarray of shape (n - longest lag,)
            The output at those times.
        """
        check_is_fitted(self)
        table = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        self._check_length(table)
        return self.evaluate(table)[self.max_lag_ :], table[self.max_lag_ :, self.output_]

    def free_run(self, model: Any, X: ArrayLike, start: int | None = None) -> NDArray[np.float64]:
        """Simulate the output, feeding each prediction back as a past value.

        Parameters
        ----------
        model : fitted estimator
            Its `predict` takes the table `X`: an estimator with `basis=LagBasis(...)`, or a pipeline that begins so.
        X : array-like of shape (n, d)
            Table in the order of time. Outputs from row `start` on are not read and may be missing (NaN), which is how
            to forecast; the inputs must be complete.
        start : int, default=None
            First simulated row; `max_lag_` by default.

        Returns
        -------
        y : ndarray of shape (n,)
            Measured outputs before `start`, simulated ones from there on.
        """
        check_is_fitted(self)
        table = validate_data(self, X, reset=False, dtype=np.float64, copy=True, ensure_all_finite="allow-nan")
        remedy = f"simulation begins inside the table of {len(table)} rows, after at least one measured output"
        start = self.max_lag_ if start is None else start
        check_number("start", start, low=1, below=len(table) + 1, integer=True, remedy=remedy)
        table[start:, self.output_] = 0.0  # a placeholder: lags of the output are at least one
        if np.isnan(table).any():
            raise ValueError(
                f"X must be complete but for outputs from row {start} on, got NaN in row "
                f"{np.flatnonzero(np.isnan(table).any(axis=1))[0]}: fill it or choose a later start."
            )
        as_table: Callable[[NDArray[Any]], Any] = np.asarray
        if hasattr(X, "columns"):  # the model needs the names it was fitted with
            columns = {"columns": X.columns} if hasattr(X, "iloc") else {"schema": list(X.columns)}
            as_table = partial(type(X), **columns)
        for t in range(start, len(table)):
            window = table[max(0, t - self.max_lag_) : t + 1]
            table[t, self.output_] = model.predict(as_table(window))[-1]
        return table[:, self.output_]


def lagged(X: NDArray[Any], columns: NDArray[np.intp], lags: NDArray[np.intp]) -> NDArray[Any]:
    """Return the values some rows back in some columns, those of the first row before it."""
    return X[np.maximum(np.arange(len(X))[:, None] - lags, 0), columns]


def lag_list(name: str, lags: Any, smallest: int) -> NDArray[np.intp]:
    """`L` means 1, ..., L; a list means itself."""
    array = to_array(lags)
    if array.ndim == 0 and np.issubdtype(array.dtype, np.integer) and array >= 1:
        return np.arange(1, int(array) + 1)
    good = array.ndim == 1 and array.size > 0 and np.issubdtype(array.dtype, np.integer)
    if not good or array.min() < smallest or len(np.unique(array)) < array.size:
        raise ValueError(
            f"{name} must be a number >= 1 or a list of different whole numbers >= {smallest}, got {lags!r}: "
            "say how many steps back to look."
        )
    return array.astype(np.intp)
