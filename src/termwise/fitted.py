"""`FittedTerms`: the chosen terms with their weights, the record of a fitted model.

Prediction, standard errors, intervals, summaries, exports, plots and prediction on a Dask cluster are functions of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
    limited,
    moved,
    namespace,
    row_blocks,
    to_host,
)
from termwise._checks import UnavailableError
from termwise.basis.base import clipped_rows, inputs_of_columns, restrict
from termwise.basis.columns import StoredFrame
from termwise.design import combine_columns
from termwise.design.files import RowFile
from termwise.linalg.calibration import calibrate
from termwise.linalg.conformal import MAX_FOLD_RESIDUALS, ResidualScale, cv_plus, interval_ends, thin
from termwise.linalg.least_squares import Solution, WeightedRows, noise_variance
from termwise.linalg.losses import LINKS


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
        factors = tuple(to_host(factor) for factor in solution.factors)
        return replace(
            self,
            rows=replace(self.rows, sample_weight=to_host(self.rows.sample_weight)),
            solution=replace(solution, weights=weights, factors=factors, B=B, loo=loo),
            G_mean=to_host(self.G_mean),
            residuals=to_host(self.residuals),
        )


@dataclass(frozen=True)
class Labels:
    """The classes of a classifier and, where probabilities are calibrated, the slope of the logistic curve.

    Calibration also shifts the intercept of the scores, so that the class of the largest score is the most probable.
    """

    classes: NDArray[Any]
    slope: float | None = None
    shift: NDArray[np.float64] | None = None  # (q,), the part of the intercept that is due to the calibration

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
    input_names: NDArray[Any] | None = None
    labels: Labels | None = None
    dtype: Any = np.float64  # precision of the data, in which `coef_` is given


@dataclass(frozen=True)
class FoldModels:
    """The models of a cross-validation that repeats the selection of terms in every fold."""

    models: tuple[FittedTerms, ...]  # one per fold, for prediction only
    fold: NDArray[np.intp]  # (m,), the model that was fitted without the sample
    residuals: NDArray[np.float64]  # (m, q), out of fold
    sample_weight: NDArray[np.float64]  # (m,)
    scales: tuple[ResidualScale, ...] = ()  # one per fold, estimated without it
    scaled_residuals: NDArray[np.float64] | None = None  # (m, q), divided by the scale of their fold's model

    def designs(self, X: Any) -> list[Array]:
        """Columns of the terms of every model for validated inputs."""
        return [model.design(X) for model in self.models]

    def outputs(self, X: Any) -> NDArray[np.float64]:
        """Outputs of every model for validated inputs, (K, n, q)."""
        return self._outputs(self.designs(X))

    def _outputs(self, designs: list[Array]) -> NDArray[np.float64]:
        pairs = zip(self.models, designs, strict=True)
        return np.stack([as_columns(to_host(model.responses(G))) for model, G in pairs])

    def selection_frequency(self) -> NDArray[np.float64]:
        """Share of the models that use each input."""
        counts = np.zeros(self.models[0].candidates.n_features)
        for model in self.models:
            counts[sorted(set().union(*inputs_of(model)))] += 1
        return counts / len(self.models)

    def with_scales(self, X: Any) -> FoldModels:
        """Add the scale of the residuals as a function of the terms of each model.

        Parameters
        ----------
        X : validated inputs of the m samples, in their order.
        """
        scales, scaled = [], np.empty_like(self.residuals)
        for k, G in enumerate(self.designs(X)):
            columns, others, own = to_host(as_float64(G)), self.fold != k, self.fold == k
            scales.append(ResidualScale.fit(columns[others], self.residuals[others], self.sample_weight[others]))
            scaled[own] = self.residuals[own] / scales[k].evaluate(columns[own])
        return replace(self, scales=tuple(scales), scaled_residuals=scaled)

    @cached_property
    def thinned(self) -> FoldModels:
        """The same with at most `MAX_FOLD_RESIDUALS` residuals of each fold: their quantiles, with equal weights.

        Intervals, and model files, use these. The quantiles of several outputs belong to different samples.
        """
        if np.bincount(self.fold).max() <= MAX_FOLD_RESIDUALS:
            return self
        q, scaled = self.residuals.shape[1], self.scaled_residuals
        both = self.residuals if scaled is None else np.hstack([self.residuals, scaled])
        folds, kept, weights = [], [], []
        for k in range(len(self.models)):
            values, weight = both[self.fold == k], self.sample_weight[self.fold == k]
            if len(values) > MAX_FOLD_RESIDUALS:
                values = thin(values, weight, MAX_FOLD_RESIDUALS)
                weight = np.full(len(values), weight.sum() / len(values))
            folds.append(np.full(len(values), k, dtype=np.intp))
            kept.append(values)
            weights.append(weight)
        values = np.vstack(kept)
        return replace(
            self,
            fold=np.concatenate(folds),
            residuals=values[:, :q],
            sample_weight=np.concatenate(weights),
            scaled_residuals=None if scaled is None else values[:, q:],
        )

    def interval(
        self, X: Any, center: NDArray[np.float64], coverage: float, side: str, normalised: bool
    ) -> NDArray[np.float64]:
        """CV+ intervals for validated inputs, (2, n, q), around the (n, q) outputs of the model of all samples."""
        designs, thinned = self.designs(X), self.thinned
        residuals, scales = thinned.residuals, None
        if normalised:
            assert thinned.scaled_residuals is not None, "the scale is estimated together with the fold models"
            residuals, pairs = thinned.scaled_residuals, zip(self.scales, designs, strict=True)
            scales = np.stack([scale.evaluate(to_host(as_float64(G))) for scale, G in pairs])
        outputs, weights = self._outputs(designs), thinned.sample_weight
        return cv_plus(center, outputs, thinned.fold, residuals, weights, coverage, side, scales)


@dataclass(frozen=True)
class FittedTerms:
    """The chosen terms of a set of candidates with their weights; inputs are trusted to be validated."""

    candidates: Candidates
    chosen: NDArray[np.intp]  # (k,), in order of selection
    weights: Array  # (k, q)
    intercept: Array  # (q,)
    statistics_or_solve: FitStatistics | Callable[[], FitStatistics] | None = None  # None: for prediction only
    fold_models: FoldModels | None = None
    sample: Any = None  # some validated inputs of the fit, over which effects are described; None where there are none
    link: str = "identity"  # how linear predictors become responses: a key of `linalg.losses.LINKS`
    limits: NDArray[np.float64] | None = None  # (2, q), range that linear predictors are clipped to; None: unlimited
    unused: Any = None  # `UnusedRows` of a model with a path, for the residuals at its other sizes

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, with a pandas sample as plain arrays: skops, which loads no code, stores no frames."""
        sample = StoredFrame.from_frame(self.sample) if hasattr(self.sample, "iloc") else self.sample
        return {**self.__dict__, "sample": sample}

    def __setstate__(self, state: dict[str, Any]) -> None:
        sample = state["sample"]
        self.__dict__.update(state, sample=sample.to_frame() if isinstance(sample, StoredFrame) else sample)

    @classmethod
    def from_solution(
        cls,
        candidates: Candidates,
        chosen: NDArray[np.intp],
        Y_mean: Array,
        statistics: FitStatistics,
        link: str = "identity",
    ) -> FittedTerms:
        """Return the terms of a solution for centred columns and targets; the intercept accounts for the means."""
        weights = statistics.solution.weights
        return cls(candidates, chosen, weights, Y_mean - statistics.G_mean @ weights, statistics, link=link)

    def for_prediction(self) -> FittedTerms:
        """Return the terms with the weights of the least-squares fit only: no calibration, candidates or rows."""
        candidates, chosen, labels = self.candidates, self.chosen, self.candidates.labels
        if labels is not None:
            candidates = replace(candidates, labels=Labels(labels.classes))
        if candidates.basis is not None and not self.takes_all:
            chosen = np.arange(len(chosen))
            candidates = replace(candidates, basis=self.basis, n_candidates=len(chosen))
        return FittedTerms(candidates, chosen, self.weights, self.fitted_intercept, link=self.link, limits=self.limits)

    def with_fold_models(self, folds: FoldModels, X: Any, Y: NDArray[np.float64]) -> FittedTerms:
        """Add the models of a cross-validation; for classes, calibrate the probabilities on the out-of-fold scores.

        Parameters
        ----------
        folds : the models, with the residuals of m samples.
        X : validated inputs of these samples.
        Y : (m, q) their targets; classes are coded -1 and +1.
        """
        terms = replace(self, fold_models=folds.with_scales(X))
        if self.candidates.labels is None:
            return terms
        return terms.calibrated(Y - folds.residuals, Y, folds.sample_weight)

    def calibrated(self, scores: Array, labels: Array, sample_weight: Array) -> FittedTerms:
        """Return the terms with calibrated probabilities, given (m, q) scores of samples the model did not see."""
        known = self.candidates.labels
        assert known is not None
        scores, labels = (self.squeeze(to_host(values), axis=1) for values in (scores, labels))
        slope, shift = calibrate(scores, labels, to_host(sample_weight))
        intercept = self.fitted_intercept + from_host(shift, self.intercept)
        candidates = replace(self.candidates, labels=replace(known, slope=slope, shift=shift))
        return replace(self, candidates=candidates, intercept=intercept)

    @property
    def fitted_intercept(self) -> Array:
        """The intercept of the least-squares fit, without the shift of calibrated scores."""
        labels = self.candidates.labels
        if labels is None or labels.shift is None:
            return self.intercept
        return self.intercept - from_host(labels.shift, self.intercept)

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
            return limited(as_float64(G) @ weights[:, 0] + intercept[0], self.limits)
        return limited(as_float64(G) @ weights + intercept, self.limits)

    def outputs_of_columns(self, X: Any) -> Array:
        """Outputs for validated inputs, of terms that are columns of X."""
        outputs = combine_columns(X, self.chosen, self.weights, self.intercept)
        return self.outputs(self.design(X)) if outputs is None else limited(self.squeeze(outputs, axis=1), self.limits)

    def responses(self, G: Array) -> Array:
        """Predicted targets for rows of the chosen columns; of a classifier, the outputs, which are scores."""
        return self.respond(self.outputs(G), G.dtype)

    def respond(self, outputs: Array, dtype: Any) -> Array:
        """Apply the link to outputs, in the range of a dtype; those of a classifier stay scores."""
        return outputs if self.candidates.labels is not None else LINKS[self.link](outputs, dtype)

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
        """Standard error of the response for rows of the chosen columns: that of the fit is `sigma` times the root of
        `Solution.row_variances`.
        """
        rows, solution = self.statistics.rows, self.statistics.solution
        unit = solution.row_variances(as_float64(G) - moved(self.statistics.G_mean, G), rows)
        noise = from_host(self.noise_variance, unit)
        errors = ((unit[:, None] if unit.ndim == 1 else unit) * noise) ** 0.5
        if self.link == "log":  # to first order
            errors = errors * as_columns(self.responses(G))
        return as_type(self.squeeze(errors, axis=1), G.dtype)

    def loo_residuals(self) -> Array:
        """Leave-one-out residuals of all samples, (n, q)."""
        if self.statistics.residuals is None:
            raise UnavailableError(
                "leave-one-out residuals and intervals need every row of the fit, got a model fitted on Dask data, "
                "whose rows stay on the cluster: fit on NumPy arrays, or use predict(X, return_std=True)."
            )
        return self.statistics.residuals

    def interval(self, G: Array, coverage: float, side: str = "two-sided") -> tuple[Array, Array]:
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
                without = center[block, j, None] - spread * loo[:, j]  # predictions of the leave-one-out fits
                ends[:, block, j] = interval_ends(without, loo[:, j], rows.sample_weight, coverage, side)
        lower, upper = (self.squeeze(end, axis=1).astype(columns.dtype, copy=False) for end in ends)
        return moved(lower, G), moved(upper, G)

    def cv_interval(self, X: Any, coverage: float, side: str, normalised: bool) -> tuple[Array, Array]:
        """CV+ intervals for validated inputs, from the fold models."""
        assert self.fold_models is not None
        G = self.design(X)
        shift = to_host(self.intercept - self.fitted_intercept)  # fold models have the scores before calibration
        center = as_columns(to_host(self.responses(G))) - shift
        ends = self.fold_models.interval(X, center, coverage, side, normalised)
        ends = np.maximum(ends, 0.0) if self.link == "log" else ends  # means and targets are not negative
        lower, upper = (self.squeeze(end, axis=1).astype(to_host(G).dtype, copy=False) for end in ends)
        return moved(lower, G), moved(upper, G)

    # -- description ---------------------------------------------------------------------------------------------------

    def standard_errors(self) -> NDArray[np.float64]:
        """Standard errors of the weights given the terms, (q, k)."""
        return np.sqrt(self.noise_variance[:, None] * to_host(self.statistics.solution.unit_variances()))

    def table(self, max_terms: int, groups: Sequence[Sequence[int]] = ()) -> list[str]:
        """Lines of a table of the terms, group by group, the largest ratio of weight to standard error first."""
        if not len(self.chosen):
            return ["no terms: the model is the mean"]
        weights, errors = to_host(self.weights).T, self.standard_errors()
        order = self.ranked(errors, groups)[:max_terms]
        names = self.names
        width = max(4, *(len(names[j]) for j in order))
        lines = [f"{'term':<{width}}  {'weight':>11}  {'std. error':>11} given the terms"]
        for j in order:
            for output, (weight, error) in enumerate(zip(weights[:, j], errors[:, j], strict=True)):
                suffix = "" if self.one_output else f"  output {output}"
                lines.append(f"{names[j]:<{width}}  {weight:>11.4g}  {error:>11.4g}{suffix}")
        if len(order) < len(self.chosen):
            lines.append(f"... and {len(self.chosen) - len(order)} more")
        return lines

    def ranked(self, errors: NDArray[np.float64] | None, groups: Sequence[Sequence[int]] = ()) -> NDArray[np.intp]:
        """Return the order of the terms in tables: by groups, then by the ratio of weight to standard error, if known.

        The ratio is the largest over the outputs; `errors` is (q, k).
        """
        weights = np.abs(to_host(self.weights)).T
        ratio = weights
        if errors is not None:
            with np.errstate(over="ignore"):  # an exact fit has standard errors of zero
                ratio = weights / np.maximum(errors, np.finfo(np.float64).tiny)
        rank = np.zeros(len(self.chosen), dtype=np.intp)
        for j, group in enumerate(groups):
            rank[list(group)] = j
        return np.lexsort([-ratio.max(axis=0), rank])


def inputs_of(terms: FittedTerms) -> list[tuple[int, ...]]:
    """Return the inputs that each chosen term depends on, as ascending positions of columns of X.

    All columns of a category belong to one input. Terms of a transformer whose functions are not known one by one are
    taken to depend on all inputs.
    """
    return inputs_of_columns(terms.candidates.basis, terms.chosen)
