"""`FittedTerms`: the chosen terms with their weights, the record of a fitted model.

Prediction, standard errors, intervals, summaries, exports, plots and prediction on a Dask cluster are functions of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import matmul
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    namespace,
    row_blocks,
    row_products,
    to_host,
)
from termwise.basis.base import clipped_rows, restrict
from termwise.design.files import RowFile
from termwise.linalg.least_squares import Solution, WeightedRows, jackknife_plus, noise_variance


@dataclass(frozen=True)
class FitStatistics:
    """The solution on the training rows and its criteria."""

    rows: WeightedRows
    solution: Solution
    G_mean: Array  # (k,), means of the chosen columns
    criteria: dict[str, float]
    criterion: str  # name of the criterion of the model
    residuals: Array | None  # (n, q), leave-one-out, in the order of the data; None if the rows are on a cluster

    def on_host(self) -> FitStatistics:
        """Return the same with NumPy arrays."""
        if self.residuals is None or not is_foreign(self.residuals):
            return self
        solution = self.solution
        weights, B, loo = (to_host(array) for array in (solution.weights, solution.B, solution.loo))
        root = tuple(to_host(factor) for factor in solution.root)
        return replace(
            self,
            rows=replace(self.rows, sample_weight=to_host(self.rows.sample_weight)),
            solution=replace(solution, weights=weights, root=root, B=B, loo=loo),
            G_mean=to_host(self.G_mean),
            residuals=to_host(self.residuals),
        )


@dataclass(frozen=True)
class Labels:
    """The classes of a classifier and, where probabilities are calibrated, the slope of the logistic curve."""

    classes: NDArray
    slope: float | None = None

    def decide(self, scores: Array) -> Array:
        """Return the class of each row of scores: the second for a score >= 0, or that of the largest score."""
        xp = namespace(scores)
        index = xp.astype(scores >= 0, xp.int64) if scores.ndim == 1 else xp.argmax(scores, axis=1)
        if is_foreign(scores) and self.classes.dtype.kind in "biuf":
            return at(from_host(self.classes, scores), index)
        return self.classes[to_host(index)]


@dataclass(frozen=True)
class Candidates:
    """The candidate terms: the functions of a fitted basis, or the columns of X if `basis` is None."""

    basis: Any
    n_candidates: int
    one_output: bool  # whether y was a vector
    n_features: int
    input_names: NDArray | None = None
    labels: Labels | None = None


@dataclass(frozen=True)
class FoldModels:
    """The models of a cross-validation that repeats the selection of terms in every fold."""

    models: tuple[FittedTerms, ...]  # one per fold, for prediction only
    fold: NDArray[np.intp]  # (m,), the model that was fitted without the sample
    residuals: NDArray[np.float64]  # (m, q), out of fold
    sample_weight: NDArray[np.float64]  # (m,)

    def outputs(self, X: Any) -> NDArray[np.float64]:
        """Outputs of every model for validated inputs, (K, n, q)."""
        return np.stack([as_columns(to_host(model.outputs(model.design(X)))) for model in self.models])


@dataclass(frozen=True)
class FittedTerms:
    """The chosen terms of a set of candidates with their weights; inputs are trusted to be validated."""

    candidates: Candidates
    chosen: NDArray[np.intp]  # (k,), in order of selection
    weights: Array  # (k, q)
    intercept: Array  # (q,)
    statistics_or_solve: FitStatistics | Callable[[], FitStatistics] | None = None  # None: for prediction only
    fold_models: FoldModels | None = None

    @classmethod
    def from_solution(
        cls, candidates: Candidates, chosen: NDArray[np.intp], Y_mean: Array, statistics: FitStatistics
    ) -> FittedTerms:
        """Return the terms of a solution for centred columns and targets; the intercept accounts for the means."""
        weights = statistics.solution.weights
        return cls(candidates, chosen, weights, Y_mean - statistics.G_mean @ weights, statistics)

    @cached_property
    def statistics(self) -> FitStatistics:
        """Solution on the training rows, computed on first access by an online model."""
        found = self.statistics_or_solve
        assert found is not None, "a copy for prediction has no statistics"
        return found() if callable(found) else found

    @cached_property
    def basis(self) -> Any:
        """The fitted basis restricted to the chosen functions; None for columns of X."""
        basis = self.candidates.basis
        return basis if basis is None or self.takes_all else restrict(basis, self.chosen)

    @cached_property
    def takes_all(self) -> bool:
        """Whether all candidates are in the model, in their order."""
        return np.array_equal(self.chosen, np.arange(self.candidates.n_candidates))

    @property
    def one_output(self) -> bool:
        """Whether y was a vector."""
        return self.candidates.one_output

    @property
    def names(self) -> list[str]:
        """Names of the chosen terms."""
        if self.candidates.basis is None:
            names = self.candidates.input_names
            return [f"x{j}" if names is None else str(names[j]) for j in self.chosen]
        if hasattr(self.basis, "get_feature_names_out"):
            return [str(name) for name in self.basis.get_feature_names_out()]
        return [f"term{j}" for j in self.chosen]

    # -- evaluation ----------------------------------------------------------------------------------------------------

    def design(self, X: Any) -> Array:
        """Columns of the chosen terms for validated inputs; of a basis, its transform of the inputs."""
        if self.candidates.basis is not None:
            return self.basis.transform(X)
        if isinstance(X, RowFile):
            return X.columns(self.chosen)
        if is_foreign(X):
            return X if self.takes_all else at(X, self.chosen, axis=1)
        return densify(X if self.takes_all else X[:, self.chosen])

    def clipped(self, X: Any) -> NDArray[np.bool_]:
        """Which rows of validated inputs the basis clips to its training range for one of the chosen terms."""
        if self.candidates.basis is None or not len(self.chosen):
            return np.zeros(X.shape[0], dtype=bool)
        return clipped_rows(self.basis, X)

    def outputs(self, G: Array) -> Array:
        """Outputs for rows of the chosen columns, in float64, on the device of the columns."""
        weights, intercept = moved(self.weights, G), moved(self.intercept, G)
        if self.one_output:
            return as_float64(G) @ weights[:, 0] + intercept[0]
        return as_float64(G) @ weights + intercept

    def squeeze(self, values: Array, axis: int) -> Any:
        """Drop the axis of outputs if y was a vector."""
        if not self.one_output:
            return values
        return values[:, 0] if axis else values[0, ...] if is_foreign(values) else values[0]

    @property
    def noise_variance(self) -> NDArray[np.float64]:
        """Estimated noise variance of each output, (q,)."""
        return noise_variance(self.statistics.rows, self.statistics.solution)

    def standard_error(self, G: Array) -> Array:
        """Standard error of the fit for rows g of the chosen columns: `sigma sqrt(1/n + g~ K B'B K' g~')`."""
        rows, solution = self.statistics.rows, self.statistics.solution
        centred = as_float64(G) - moved(self.statistics.G_mean, G)
        projected = reduce(matmul, [moved(factor, G) for factor in solution.root], centred)
        unit = row_products(projected @ moved(solution.B.T @ solution.B, G), projected) + rows.intercept / rows.n
        noise = from_host(self.noise_variance, unit)
        return as_type(self.squeeze((unit[:, None] * noise) ** 0.5, axis=1), G.dtype)

    def loo_residuals(self) -> Array:
        """Leave-one-out residuals of all samples, (n, q)."""
        if self.statistics.residuals is None:
            raise ValueError(
                "leave-one-out residuals and intervals need every row of the fit, got a model fitted on Dask data, "
                "whose rows stay on the cluster: fit on NumPy arrays, or use predict(X, return_std=True)."
            )
        return self.statistics.residuals

    def interval(self, G: Array, coverage: float) -> tuple[Array, Array]:
        """Jackknife+ intervals for rows of the chosen columns, from the closed-form leave-one-out fits."""
        self.loo_residuals()  # raises if they were not computed
        statistics = self.statistics.on_host()
        center, columns = to_host(as_columns(self.outputs(G))), to_host(G)  # order statistics are computed on the host
        rows, solution = statistics.rows, statistics.solution
        loo = solution.loo / np.sqrt(rows.sample_weight)[:, None]
        b = solution.B * (rows.single / np.sqrt(rows.sample_weight))[:, None]
        ends = np.empty((2, *center.shape))
        for block in row_blocks(len(columns), len(b)):
            spread = solution.project(columns[block] - statistics.G_mean) @ b.T + rows.intercept * rows.single / rows.n
            for j in range(center.shape[1]):
                ends[:, block, j] = jackknife_plus(center[block, j], spread, loo[:, j], rows.sample_weight, coverage)
        lower, upper = (self.squeeze(end, axis=1).astype(columns.dtype, copy=False) for end in ends)
        return moved(lower, G), moved(upper, G)

    # -- description ---------------------------------------------------------------------------------------------------

    def standard_errors(self) -> NDArray[np.float64]:
        """Standard errors of the weights given the terms, (q, k)."""
        return np.sqrt(np.outer(self.noise_variance, to_host(self.statistics.solution.unit_variances())))

    def table(self, max_terms: int) -> list[str]:
        """Lines of a table of the terms, the largest ratio of weight to standard error first."""
        if not len(self.chosen):
            return ["no terms: the model is the mean"]
        weights, errors = to_host(self.weights).T, self.standard_errors()
        ratio = np.abs(weights) / np.maximum(errors, np.finfo(np.float64).tiny)
        order = np.argsort(-ratio.max(axis=0), kind="stable")[:max_terms]
        names = self.names
        width = max(4, *(len(names[j]) for j in order))
        lines = [f"{'term':<{width}}  {'weight':>11}  {'std. error':>11}"]
        for j in order:
            for output, (weight, error) in enumerate(zip(weights[:, j], errors[:, j], strict=True)):
                suffix = "" if self.one_output else f"  output {output}"
                lines.append(f"{names[j]:<{width}}  {weight:>11.4g}  {error:>11.4g}{suffix}")
        if len(order) < len(self.chosen):
            lines.append(f"... and {len(self.chosen) - len(order)} more")
        return lines
