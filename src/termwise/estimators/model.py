"""What every estimator does, however its weights are found: predict, give error bars, explain itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import reduce
from operator import matmul
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from termwise._arrays import (
    Array,
    as_columns,
    as_float64,
    as_type,
    at,
    densify,
    from_host,
    is_foreign,
    moved,
    put_at,
    row_blocks,
    row_products,
    to_host,
)
from termwise._checks import (
    check_counts,
    check_number,
    check_table,
    check_total,
)
from termwise.basis.base import restrict
from termwise.deploy.predictor import Predictor
from termwise.design.files import RowFile
from termwise.design.stored import Design
from termwise.estimators.reading import ReadingModel
from termwise.execution.collections import is_dask, lazily
from termwise.linalg.least_squares import Problem, Rows, Solution, jackknife_plus, noise_variance


@dataclass(frozen=True)
class Record:
    """What a fit leaves behind besides the weights."""

    rows: Rows
    solution: Solution
    G_mean: Array
    criteria: dict[str, float]
    criterion: str
    residuals: Array | None  # (n, q), leave-one-out, in the order of the data; None if the rows are far away

    def on_host(self) -> Record:
        """The same in this process."""
        if self.residuals is None or not is_foreign(self.residuals):
            return self
        solution = self.solution
        solution = replace(
            solution,
            weights=to_host(solution.weights),
            root=tuple(to_host(factor) for factor in solution.root),
            B=to_host(solution.B),
            loo=to_host(solution.loo),
        )
        rows = replace(self.rows, counts=to_host(self.rows.counts))
        return replace(
            self, rows=rows, solution=solution, G_mean=to_host(self.G_mean), residuals=to_host(self.residuals)
        )


class TermModel(ReadingModel, ABC):
    """A model linear in its terms: what all estimators share once they are fitted."""

    _chosen_basis: Any

    @abstractmethod
    def _record(self) -> Record:
        """What is known beside the weights."""

    def _become(self, fresh: Self) -> Self:
        """Take over what a fitted clone has learned, so that a fit that fails leaves everything as it was."""
        parameters = self.get_params(deep=False)
        for name in [name for name in vars(self) if name.endswith("_") and name not in vars(fresh)]:
            delattr(self, name)
        for name, value in vars(fresh).items():
            if name not in parameters:
                setattr(self, name, value)
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Predict the targets.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask array or Dask data frame of shape (m, d)
            Inputs.
        return_std : bool, default=False
            Also return the standard error of the fitted function, from the covariance of the weights. A new
            observation scatters around it with variance `std**2 + noise_variance_`.

        Returns
        -------
        y : ndarray of shape (m,) or (m, q)
            Predictions; a Dask array, to be computed later, for Dask inputs.
        std : ndarray of the same shape
            Standard errors; only with `return_std=True`.
        """
        if is_dask(X):
            y = lazily(TermModel.predict, self, X)
            return (y, lazily(TermModel.predict, self, X, 1, return_std=True)) if return_std else y
        G = self._terms(X)
        y = as_type(self._outputs(G), G.dtype)
        return (y, self._standard_error(G)) if return_std else y

    def _outputs(self, G: Array) -> Array:
        """Outputs of the model for rows of the chosen columns, in float64, where these are."""
        weights = moved(self.weights_, G)
        return as_float64(G) @ (weights if self._one_output else weights.T) + moved(self.intercept_, G)

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> tuple[NDArray, NDArray]:
        """Intervals for new observations by jackknife+, from the closed-form leave-one-out fits.

        Whatever the distribution of the data, samples that are exchangeable with those of the fit fall inside with
        probability at least `2 coverage - 1`, and in practice with about `coverage`, if terms and penalties were fixed
        beforehand: their choice is not repeated for each sample left out, and a choice among many makes the intervals
        somewhat narrow. Too few samples for the coverage asked (fewer than about `1 / (1 - coverage)`) make the
        interval infinite.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask array or Dask data frame of shape (m, d)
            Inputs.
        coverage : float, default=0.9
            Nominal coverage, between 0 and 1.

        Returns
        -------
        lower, upper : ndarrays of shape (m,) or (m, q)
            Ends of the intervals.
        """
        check_number("coverage", coverage, above=0, below=1, remedy="0.9 asks for 90 % intervals")
        record = self._with_residuals().on_host()
        if is_dask(X):
            lower, upper = (lazily(TermModel.predict_interval, self, X, end, coverage=coverage) for end in (0, 1))
            return lower, upper
        given = self._terms(X)
        center, G = to_host(as_columns(self._outputs(given))), to_host(given)  # orders and counts, which are for hosts
        rows, solution = record.rows, record.solution
        loo = solution.loo / np.sqrt(rows.counts)[:, None]
        b = solution.B * (rows.single / np.sqrt(rows.counts))[:, None]
        ends = np.empty((2, *center.shape))
        for block in row_blocks(len(G), len(b)):
            spread = solution.project(G[block] - record.G_mean) @ b.T + rows.intercept * rows.single / rows.n
            for j in range(center.shape[1]):
                ends[:, block, j] = jackknife_plus(center[block, j], spread, loo[:, j], rows.counts, coverage)
        lower, upper = (self._squeeze(end, axis=1).astype(G.dtype, copy=False) for end in ends)
        return moved(lower, given), moved(upper, given)

    @property
    def effective_dof_(self) -> float:
        """Effective number of parameters, intercept included."""
        return self._record().solution.dof

    @property
    def noise_variance_(self) -> Any:
        """Estimated noise variance of each output, `sse / (n - dof)`."""
        record = self._record()
        return self._squeeze(noise_variance(record.rows, record.solution), axis=0)

    @property
    def loo_residuals_(self) -> NDArray[np.float64]:
        """Leave-one-out residuals of all samples."""
        residuals = self._with_residuals().residuals
        assert residuals is not None
        return self._squeeze(residuals, axis=1)

    def _with_residuals(self) -> Record:
        """The record, with leave-one-out residuals."""
        record = self._record()
        if record.residuals is None:
            raise ValueError(
                "leave-one-out residuals and intervals need every row of the fit, got a model fitted on Dask data, "
                "whose rows stay on the cluster: fit on NumPy arrays, or use predict(X, return_std=True)."
            )
        return record

    @property
    def criteria_(self) -> dict[str, float]:
        """Values of all criteria, averaged over the outputs."""
        return dict(self._record().criteria)

    @property
    def criterion_value_(self) -> float:
        """Value of the criterion the model is judged by."""
        record = self._record()
        return record.criteria[record.criterion]

    @property
    def weights_cov_(self) -> NDArray[np.float64]:
        """Covariance of the weights (Orr A.5), of shape (k, k), or (q, k, k) for several outputs.

        The noise variance is `noise_variance_`; that penalties or terms were chosen by looking at the targets is not
        counted.
        """
        cov = self._record().solution.unit_cov()
        noise = from_host(np.atleast_1d(self.noise_variance_), cov)
        return self._squeeze(noise[:, None, None] * cov, axis=0)

    @property
    def predictor_(self) -> Predictor:
        """The model without its data, to be saved and exported: a `Predictor`."""
        return Predictor.from_estimator(self)

    def summary(self, max_terms: int = 20) -> str:
        """Describe the fit in words and numbers.

        Parameters
        ----------
        max_terms : int, default=20
            How many terms to list, the most significant first.
        """
        check_number("max_terms", max_terms, low=1, integer=True, remedy="list at least one term")
        noise = np.sqrt(np.mean(self.noise_variance_))
        criteria = "  ".join(f"{name} {value:.4g}" for name, value in self.criteria_.items())
        lines = [
            f"{type(self).__name__}: {self.n_terms_} of {self._n_candidates} terms, {self._record().rows.n:g} samples",
            *self._remarks(),
            f"effective parameters {self.effective_dof_:.4g}, noise {noise:.4g} (standard deviation)",
            f"error estimates: {criteria}",
        ]
        return "\n".join(lines + self._term_table(max_terms))

    def _remarks(self) -> list[str]:
        """What a subclass has to add to the summary, lines that follow the first."""
        return []

    def _term_table(self, max_terms: int) -> list[str]:
        if not self.n_terms_:
            return ["no terms: the model is the mean"]
        weights = np.atleast_2d(to_host(self.weights_))
        errors = np.sqrt(np.outer(self.noise_variance_, to_host(self._record().solution.unit_variances())))
        size = np.abs(weights) / np.maximum(errors, np.finfo(np.float64).tiny)
        order = np.argsort(-size.max(axis=0), kind="stable")[:max_terms]
        names = self._term_names()
        width = max(4, *(len(names[j]) for j in order))
        lines = [f"{'term':<{width}}  {'weight':>11}  {'std. error':>11}"]
        for j in order:
            for output, (weight, error) in enumerate(zip(weights[:, j], errors[:, j], strict=True)):
                which = "" if self._one_output else f"  output {output}"
                lines.append(f"{names[j]:<{width}}  {weight:>11.4g}  {error:>11.4g}{which}")
        if len(order) < self.n_terms_:
            lines.append(f"... and {self.n_terms_ - len(order)} more")
        return lines

    # -- the chosen terms ----------------------------------------------------------------------------------------------

    def _terms(self, X: Any) -> NDArray:
        """Columns of the chosen terms for new inputs."""
        check_is_fitted(self)
        X = self._where_it_can(X)
        if self.basis_ is None:
            X = self._check_columns(X, reset=False)
            if isinstance(X, RowFile):
                return X.columns(self._chosen)
            if is_foreign(X):
                return X if self._whole else at(X, self._chosen, axis=1)
            return densify(X if self._whole else X[:, self._chosen])
        X = check_table(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        G = self._chosen_basis.transform(X)  # without terms too: it checks X
        return densify(self._check_design(G)) if self.n_terms_ else densify(G)[:, :0]

    def _term_names(self) -> list[str]:
        if self.basis_ is None:
            names = getattr(self, "feature_names_in_", None)
            return [f"x{j}" if names is None else str(names[j]) for j in self._chosen]
        if hasattr(self._chosen_basis, "get_feature_names_out"):
            return [str(name) for name in self._chosen_basis.get_feature_names_out()]
        return [f"term{j}" for j in self._chosen]

    # -- keeping the solution ------------------------------------------------------------------------------------------

    def _set_weights(self, support: NDArray[np.intp], weights: NDArray, intercept: NDArray) -> None:
        self.n_terms_ = len(support)
        coef = np.zeros((weights.shape[1], self._n_candidates))
        coef[:, support] = to_host(weights).T
        self.support_, coef = from_host(support, weights), from_host(coef, weights)
        self.weights_, self.coef_ = self._squeeze(weights.T, axis=0), self._squeeze(coef, axis=0)
        self.intercept_ = self._squeeze(intercept, axis=0)
        self._whole = np.array_equal(support, np.arange(self._n_candidates))
        self._chosen_basis = self.basis_ if self._whole or self.basis_ is None else restrict(self.basis_, support)

    @property
    def _chosen(self) -> NDArray[np.intp]:
        """`support_` in this process."""
        return to_host(self.support_)

    def _squeeze(self, values: NDArray, axis: int) -> Any:
        """Drop the axis of outputs when y was a vector."""
        if not self._one_output:
            return values
        return values[:, 0] if axis else values[0, ...] if is_foreign(values) else values[0]

    def _standard_error(self, G: NDArray) -> NDArray:
        """`sigma sqrt(1/n + g~ K B'B K' g~')` for rows of the chosen columns."""
        record = self._record()
        rows, solution = record.rows, record.solution
        centred = as_float64(G) - moved(record.G_mean, G)
        projected = reduce(matmul, [moved(factor, G) for factor in solution.root], centred)
        unit = row_products(projected @ moved(solution.B.T @ solution.B, G), projected) + rows.intercept / rows.n
        noise = from_host(np.atleast_1d(self.noise_variance_), unit)
        return as_type(self._squeeze((unit[:, None] * noise) ** 0.5, axis=1), G.dtype)


class BatchModel(TermModel):
    """A model fitted to all samples at once.

    A subclass says in `_check_params` what its parameters may be; its `_solve` finds a solution and hands it to
    `_settle`.
    """

    _fitted: Record

    @abstractmethod
    def _check_params(self) -> None:
        """Raise on the first bad parameter, before the data are touched."""

    @abstractmethod
    def _solve(self, G: Any, Y: NDArray, counts: NDArray[np.float64]) -> None:
        """Find the weights for samples that all count; end with `_settle`."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs. With a `basis`, whatever that transformer takes.
        y : array-like of shape (n,) or (n, q)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            How often each sample counts. Weights mean repetitions: leave-one-out leaves out one repeat.
        """
        fresh = clone(self)
        fresh._fit(X, y, sample_weight)
        return self._become(fresh)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._check_params()
        X, y = self._validate(X, y, reset=True)
        counts = check_counts(sample_weight, len(y))
        used = counts > 0
        self._prepare(X, y, counts)
        G = self._fit_design(X, y, counts)
        check_total(counts)
        self._one_output, self._n_candidates = y.ndim == 1, G.shape[1]
        like = getattr(G, "like", G)
        Y = from_host(as_columns(y), like) if is_foreign(like) else as_columns(y)
        if used.all():
            self._solve(G, Y, counts)
        else:
            rows = np.flatnonzero(used)
            self._solve(at(G, rows) if is_foreign(G) else G[rows], at(Y, rows), counts[rows])
            # Leaving out a sample of weight zero changes nothing.
            weights, coef = (w[None, :] if self._one_output else w for w in (self.weights_, self.coef_))
            if isinstance(G, Design | RowFile):
                fitted = G.columns(self._chosen) @ weights.T
            else:
                fitted = (as_float64(G) if is_foreign(G) else G) @ coef.T
            residuals = Y - (fitted + self.intercept_)
            self._fitted = replace(self._fitted, residuals=put_at(residuals, rows, self._fitted.residuals))

    def _prepare(self, X: Any, y: NDArray, counts: NDArray[np.float64]) -> None:
        """Settle what a subclass has to see the data for before there is a design matrix."""

    def _record(self) -> Record:
        check_is_fitted(self)
        return self._fitted

    def _settle(
        self,
        problem: Problem,
        solution: Solution,
        support: NDArray[np.intp],
        G_mean: NDArray[np.float64],
        criteria: dict[str, float],
        criterion: str,
    ) -> None:
        """Keep a solution; `G_mean` holds the means of the chosen columns."""
        self._set_weights(support, solution.weights, problem.Y_mean - G_mean @ solution.weights)
        residuals = solution.loo / (problem.rows.counts**0.5)[:, None]
        self._fitted = Record(problem.rows, solution, G_mean, criteria, criterion, residuals)
