"""Identification of dynamical systems: forward selection among functions of past outputs and inputs."""

from __future__ import annotations

import copy
import os
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.metrics import r2_score
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_is_fitted

from termwise._checks import check_choice, check_number, check_numeric, check_table, is_one_of, warn
from termwise._numerics import NumericalWarning
from termwise.basis import LagBasis
from termwise.estimators.base import Predictor, freeze_model
from termwise.estimators.forward import ForwardRegressor
from termwise.estimators.series import (
    fit_lags,
    free_run,
    free_runs,
    lag_basis,
    list_lags,
    one_step,
    read_series,
    series_names,
    simulation_inputs,
    simulation_range,
    smallest_by_free_run,
)
from termwise.selection.rules import Rule


def root_mean_square(errors: NDArray[np.float64]) -> float:
    """Root mean square of errors, missing ones left out."""
    return float(np.sqrt(np.nanmean(errors**2)))


class NarxRegressor(RegressorMixin, BaseEstimator):
    r"""Nonlinear autoregressive model with exogenous inputs (NARX), its terms chosen one by one.

    The output at time t is predicted from past outputs and from inputs,

    .. math:: y_t = \sum_j w_j h_j(y_{t-1}, \ldots, y_{t-L}, x_t, x_{t-1}, \ldots, x_{t-L}) + e_t,

    where forward selection chooses the terms :math:`h_j` among polynomials or radial functions of the lagged values.
    The rows of the data are in the order of time, at equal steps.

    Parameters
    ----------
    lags : int, array-like of int or "auto", default=2
        Lags of the output: a number means 1, 2, ... up to it. "auto" tries 1 to `max_lag`, on the same rows, and takes
        the one with the smallest criterion (`criterion_value_` of the fit, by default the leave-one-out error).
    input_lags : int, array-like of int or None, default=None
        Lags of the inputs: a number means 1, 2, ... up to it; a list may contain 0, the present value. None: 0, 1, ...
        up to the longest lag of the output.
    basis : {"polynomial", "radial"}, transformer or None, default="polynomial"
        Candidates as functions of the lagged values: "polynomial", all monomials up to `degree`; "radial", the lagged
        values themselves and Gaussians centred at up to 500 samples (`SmoothBasis`); None, the lagged values alone; or
        a transformer.
    degree : int, default=2
        Highest degree of the polynomials.
    max_lag : int, default=5
        Largest number of lags that `lags="auto"` tries.
    rule : str or Rule, default="auto"
        Selection rule of the next term, as in `ForwardRegressor`: the least leave-one-out error by default.
    criterion : {"tcr", "free_run"}, another criterion of `ForwardRegressor` or None, default="tcr"
        How many terms to keep. "free_run" simulates the training data with every size up to that of "tcr" and takes
        the smallest whose mean squared error is within one standard error of the least, the errors taken as
        independent: for models whose purpose is simulation.
    alpha : float or "auto", default="auto"
        Ridge penalty. "auto" is 0 for polynomials and lagged values, whose selection then does not depend on their
        units, and that of `ForwardRegressor` for other bases.
    max_terms : int or None, default=None
        Maximum number of terms on the path.
    patience : int or None, default=10
        Stop once the choice of the criterion has not changed for this many terms; None: never.
    refit_alpha : {"loo", "gcv"} or None, default=None
        Choose the penalty of the final weights again, on the chosen terms, by this criterion.
    fit_intercept : bool or "auto", default="auto"
        Whether a constant is always in the model. "auto" is False for polynomials, among which the constant is a
        candidate like the others, and True for other bases.

    Attributes
    ----------
    lags_, input_lags_ : ndarray of int
        Lags of the output and of every input among the candidates.
    max_lag_ : int
        The longest lag: how many rows before a prediction are read.
    n_terms_, weights_, intercept_, path_, criterion_value_
        As in `ForwardRegressor`.
    term_names_ : list of str
        The chosen terms in the order of their selection.
    error_reduction_ratios_ : ndarray of shape (k,)
        Share of the sum of squares of the output that each term explained when it was chosen (Chen, Billings and Luo
        1989); the sum of squares is about the mean if an intercept is fitted.
    order_criteria_ : dict
        With `lags="auto"` the criterion for every number of lags.
    training_errors_ : dict
        Root mean squared errors on the training data: "one_step", that of leave-one-out predictions one step ahead;
        "free_run", of the simulation of every sequence from its first values; "persistence", of the last output as the
        prediction of the next.
    simulation_range_ : tuple of float
        Lowest and highest output of a simulation: the range of the training data, extended by its width on both sides.
    model_ : ForwardRegressor
        The fitted model of the columns of lagged values.
    n_features_in_, feature_names_in_
        Number and names of the inputs, without the output.

    See Also
    --------
    LagBasis : The lagged values as a basis of any estimator.

    Notes
    -----
    Lags do not reach across breaks. A new sequence begins where `groups` changes, and after every row with a missing
    value (NaN) in the output or an input.

    `score` is that of the free run: `predict` without outputs simulates. Selection minimises errors one step ahead.

    References
    ----------
    S. Chen, S. A. Billings and W. Luo, "Orthogonal least squares methods and their application to non-linear system
    identification", International Journal of Control 50 (1989).

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import NarxRegressor
    >>> rng = np.random.default_rng(0)
    >>> u, y = rng.uniform(-1, 1, size=400), np.zeros(400)
    >>> for t in range(2, 400):
    ...     y[t] = 0.5 * y[t - 1] + 0.2 * y[t - 1] * u[t - 1] + 0.8 * u[t - 2] + 0.01 * rng.normal()
    >>> model = NarxRegressor(lags=2).fit(u[:300, None], y[:300])
    >>> sorted(model.term_names_)
    ['x0[t-2]', 'y[t-1]', 'y[t-1] x0[t-1]']
    >>> one_step = model.predict(u[300:, None], y[300:])  # from measured outputs; NaN in the first two rows
    >>> simulated = model.simulate(u[300:, None], y_init=y[300:302])
    >>> bool(np.sqrt(np.mean((simulated - y[300:]) ** 2)) < 0.02)
    True
    """

    def __init__(
        self,
        lags: Any = 2,
        input_lags: Any = None,
        basis: Any = "polynomial",
        degree: int = 2,
        *,
        max_lag: int = 5,
        rule: str | Rule = "auto",
        criterion: str | None = "tcr",
        alpha: float | str = "auto",
        max_terms: int | None = None,
        patience: int | None = 10,
        refit_alpha: str | None = None,
        fit_intercept: bool | str = "auto",
    ) -> None:
        self.lags = lags
        self.input_lags = input_lags
        self.basis = basis
        self.degree = degree
        self.max_lag = max_lag
        self.rule = rule
        self.criterion = criterion
        self.alpha = alpha
        self.max_terms = max_terms
        self.patience = patience
        self.refit_alpha = refit_alpha
        self.fit_intercept = fit_intercept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # -- fitting -------------------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike | None, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n, m) or None
            Inputs in the order of time. None: the output depends on its own past alone.
        y : array-like of shape (n,)
            The output at the same times.
        groups : array-like of shape (n,), default=None
            Label of the sequence that each row belongs to; rows of a sequence are consecutive.
        """
        fresh = clone(self)
        if X is not None:
            check_numeric(check_table(X))
        series = read_series(fresh, X, y, groups, reset=True)
        names, lags = series_names(fresh, y), self.lags
        if isinstance(lags, str):
            check_choice("lags", lags, ["auto"], remedy="or give a number or a list of lags")
            check_number("max_lag", self.max_lag, low=1, integer=True, remedy="the largest number of lags to try")
            largest = lag_basis(self, series, self.max_lag).max_lag_  # all orders are fitted to the same rows
            fresh.order_criteria_ = {
                order: fit_lags(self, series, order, largest)[1].criterion_value_
                for order in range(1, self.max_lag + 1)
            }
            lags = min(fresh.order_criteria_, key=fresh.order_criteria_.__getitem__)
        basis, model = fit_lags(self, series, lags)
        if is_one_of(self.criterion, "free_run"):
            model = smallest_by_free_run(series, basis, model)
        basis.feature_names_in_ = np.array(names, dtype=object)
        fresh._set_terms(basis, model)
        fresh.simulation_range_, fresh.output_mean_ = simulation_range(series), float(np.nanmean(series.output))
        measured, simulated, _ = free_runs(series, basis, one_step(model), fresh.simulation_range_)
        rows = series.windows(basis)[1]
        persistence = series.output[rows] - series.output[rows - 1]
        errors = {"one_step": model.loo_residuals_, "free_run": measured - simulated, "persistence": persistence}
        fresh.training_errors_ = {name: root_mean_square(error) for name, error in errors.items()}
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        for name in [name for name in vars(fresh) if name.endswith("_")]:
            setattr(self, name, getattr(fresh, name))
        return self

    def _set_terms(self, lags: LagBasis, model: ForwardRegressor) -> None:
        """Set the attributes of the terms."""
        self.lag_basis_, self.model_, self.pipeline_ = lags, model, Pipeline([("lags", lags), ("model", model)])
        self.lags_, self.input_lags_ = lags.lags_[lags.columns_ == 0], lags.lags_[lags.columns_ == 1]
        self.max_lag_, self.path_, self.criterion_value_ = lags.max_lag_, model.path_, model.criterion_value_
        self.n_terms_, self.weights_, self.intercept_ = model.n_terms_, model.weights_, model.intercept_
        names, terms = lags.get_feature_names_out(), model.fitted_terms_
        if terms.basis is None:
            self.term_names_ = names[terms.chosen].tolist()
        elif hasattr(terms.basis, "get_feature_names_out"):
            self.term_names_ = terms.basis.get_feature_names_out(names).tolist()
        else:
            self.term_names_ = terms.names
        sse = np.array([step.sse for step in model.path_.steps[: model.n_terms_ + 1]])
        self.error_reduction_ratios_ = -np.diff(sse) / max(sse[0], np.finfo(np.float64).tiny)

    def at(self, n_terms: int) -> Self:
        """Return the same model truncated at another size of its path, without refitting.

        `training_errors_` then has no error of the free run, which needs the training data.

        Parameters
        ----------
        n_terms : int
            Number of terms, at most the length of the path.
        """
        check_is_fitted(self)
        other, model = copy.copy(self), self.model_.at(n_terms)
        if n_terms != self.n_terms_:
            other._set_terms(self.lag_basis_, model)
            known = {name: error for name, error in self.training_errors_.items() if name != "free_run"}
            other.training_errors_ = {**known, "one_step": root_mean_square(model.loo_residuals_)}
        return other

    # -- prediction ----------------------------------------------------------------------------------------------------

    def predict(
        self, X: ArrayLike | None, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Predict the output one step ahead from measured outputs, or simulate it without them.

        Parameters
        ----------
        X : array-like of shape (n, m) or None
            Inputs in the order of time; None for a model without.
        y : array-like of shape (n,), default=None
            Measured outputs at these times; the prediction of each row reads those before it. None: the same as
            `simulate(X)`.
        groups : array-like of shape (n,), default=None
            Label of the sequence that each row belongs to.

        Returns
        -------
        y : ndarray of shape (n,)
            Predictions; one step ahead, NaN in rows whose history is incomplete, the first `max_lag_` of a sequence.
        """
        check_is_fitted(self)
        if y is None:
            return self.simulate(X)
        series = read_series(self, X, y, groups)
        windows, rows = series.windows(self.lag_basis_)
        predicted = np.full(len(series.table), np.nan)
        predicted[rows] = self.model_.predict(windows) if len(rows) else 0.0
        return predicted

    def simulate(
        self, X: ArrayLike | None, y_init: ArrayLike | None = None, n_steps: int | None = None
    ) -> NDArray[np.float64]:
        """Simulate the output, feeding each prediction back as a past value.

        Simulated outputs stay in `simulation_range_`: a prediction beyond is replaced by the nearest value in it, with
        a `NumericalWarning` that says at which row this happens first.

        Parameters
        ----------
        X : array-like of shape (n, m) or None
            Inputs of one sequence, complete, those at the times of `y_init` included; None for a model without.
        y_init : array-like of shape (k,), default=None
            Outputs at the first rows, at least `max_lag_`. None: simulation begins in the first row, as if before it
            the inputs had been those of the first row and the output the mean of the training data.
        n_steps : int, default=None
            Of a model without inputs, how many values to simulate after the initial ones.

        Returns
        -------
        y : ndarray of shape (n,)
            The initial outputs, then the simulated ones.
        """
        check_is_fitted(self)
        past = self.max_lag_
        if y_init is None:
            first = np.full(past, self.output_mean_)
        else:
            first = column_or_1d(check_array(y_init, ensure_2d=False, dtype=np.float64, input_name="y_init"), warn=True)
            if len(first) < past:
                raise ValueError(
                    f"y_init must have at least {past} values, the longest lag, got {len(first)}: give the outputs of "
                    "as many rows, or None."
                )
        inputs = simulation_inputs(self, X, len(first), n_steps, ahead=past if y_init is None else 0)
        output = np.zeros(len(inputs))
        output[: len(first)] = first
        table = np.column_stack([output, inputs])
        values, reached = free_run(table, self.lag_basis_, one_step(self.model_), self.simulation_range_, len(first))
        skipped = past if y_init is None else 0
        if reached is not None:
            self._warn_of_limits(reached - skipped)
        return values[skipped:]

    def _warn_of_limits(self, row: int) -> None:
        low, high = self.simulation_range_
        warn(
            f"the simulation left the range [{low:.4g}, {high:.4g}] in row {row} and is held in it: later values are "
            "no predictions; use other lags, fewer terms, or inputs as in the training data.",
            NumericalWarning,
        )

    # -- scores --------------------------------------------------------------------------------------------------------

    def score(self, X: ArrayLike | None, y: ArrayLike, groups: ArrayLike | None = None) -> float:
        """Return R2 of the free run: the same as `free_run_score`.

        Parameters
        ----------
        X, y, groups
            As in `fit`.
        """
        return self.free_run_score(X, y, groups)

    def one_step_score(self, X: ArrayLike | None, y: ArrayLike, groups: ArrayLike | None = None) -> float:
        """Return R2 of the predictions one step ahead, in the rows with a complete history.

        Parameters
        ----------
        X, y, groups
            As in `fit`.
        """
        check_is_fitted(self)
        series = read_series(self, X, y, groups)
        windows, rows = series.windows(self.lag_basis_)
        known = np.isfinite(series.output[rows])
        self._check_some(known.sum())
        return float(r2_score(series.output[rows][known], self.model_.predict(windows[known])))

    def free_run_score(self, X: ArrayLike | None, y: ArrayLike, groups: ArrayLike | None = None) -> float:
        """Return R2 of simulations that begin with the first `max_lag_` outputs of every sequence.

        Parameters
        ----------
        X, y, groups
            As in `fit`.
        """
        check_is_fitted(self)
        series, step = read_series(self, X, y, groups), one_step(self.model_)
        measured, simulated, reached = free_runs(series, self.lag_basis_, step, self.simulation_range_)
        self._check_some(len(measured))
        if reached is not None:
            self._warn_of_limits(reached)
        return float(r2_score(measured, simulated))

    def _check_some(self, count: int) -> None:
        """Raise if there are fewer than two rows to score."""
        if count < 2:
            raise ValueError(
                f"y must have at least two rows after {self.max_lag_} complete ones of the same sequence to score, got "
                f"{count}: give longer sequences."
            )

    # -- description and export ----------------------------------------------------------------------------------------

    def summary(self, max_terms: int = 20) -> str:
        """Describe the fit: errors beside those of persistence, and the terms in the order of their selection.

        Parameters
        ----------
        max_terms : int, default=20
            How many terms to list.
        """
        check_is_fitted(self)
        check_number("max_terms", max_terms, low=1, integer=True, remedy="list at least one term")
        terms, errors = self.model_.fitted_terms_, self.training_errors_
        candidates = terms.candidates.n_candidates
        inputs = f", of the inputs {list_lags(self.input_lags_)}" if len(self.input_lags_) else ""
        lines = [
            f"NarxRegressor: {self.n_terms_} of {candidates} terms, {terms.statistics.rows.n:g} samples",
            f"lags of the output {list_lags(self.lags_)}{inputs}",
            f"root mean squared error: one step ahead {errors['one_step']:.4g} (leave-one-out), free run "
            f"{errors['free_run']:.4g}, persistence {errors['persistence']:.4g}",
        ]
        if self.intercept_ or self.model_.fit_intercept:
            lines.append(f"intercept {self.intercept_:.4g}")
        if not self.n_terms_:
            return "\n".join([*lines, "no terms: the model is constant"])
        width = max(4, *map(len, self.term_names_[:max_terms]))
        lines.append(f"{'term':<{width}}  {'weight':>11}  {'std. error':>11}  {'ERR':>9}")
        numbers = zip(
            self.term_names_, self.weights_, terms.standard_errors()[0], self.error_reduction_ratios_, strict=True
        )
        for name, weight, error, ratio in list(numbers)[:max_terms]:
            lines.append(f"{name:<{width}}  {weight:>11.4g}  {error:>11.4g}  {ratio:>9.4%}")
        if self.n_terms_ > max_terms:
            lines.append(f"... and {self.n_terms_ - max_terms} more")
        return "\n".join(lines)

    @property
    def predictor_(self) -> Predictor:
        """The model without its training data, to be saved and exported: a `Predictor` of one step."""
        check_is_fitted(self)
        return freeze_model(self)

    def export(self, path: str | os.PathLike[str], to: str | None = None, **options: Any) -> None:
        """Write the model in another language; in C and Python with functions that simulate.

        Parameters
        ----------
        path : str or path
            Where to.
        to : {"onnx", "c", "python", "sql", "sympy", "latex", "json"}, default=None
            The language, as in `Predictor.export`; None: by the suffix of the path. C and Python have, beside the
            prediction one step ahead, a state with past values: it is initialised with the last rows, and every step
            takes the inputs and returns the next output, within `simulation_range_`.
        **options : dict
            As in `Predictor.export`.
        """
        check_is_fitted(self)
        if to in ("c", "python") or (to is None and str(path).endswith((".c", ".py"))):
            options = {"simulation": self.simulation_range_, **options}
        self.predictor_.export(path, to, **options)
