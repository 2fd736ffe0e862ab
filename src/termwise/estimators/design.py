"""The design matrix of a fit, least squares on the terms of a path, and warnings of columns that are rounding."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_array

from termwise._arrays import (
    Array,
    all_finite,
    as_columns,
    as_float64,
    at,
    densify,
    from_host,
    is_foreign,
    limited,
    precision,
    put_at,
    rows_of,
    zeros,
)
from termwise._checks import check_foreign, check_magnitudes, check_total, warn_unresolved
from termwise._numerics import RELATIVE_WEIGHT_MIN
from termwise.basis.base import cross_fits, design_matrix, expect_missing, fit_design_matrix, is_streamable
from termwise.design import Design
from termwise.design.files import RowFile, beyond_memory
from termwise.estimators.data import FLOATS, Data
from termwise.fitted import Candidates, FitStatistics, FittedTerms
from termwise.linalg.least_squares import Problem, Solution, WeightedRows, least_squares_problem, solve_penalised
from termwise.linalg.spectrum import Spectrum, best_alpha
from termwise.selection.path import SelectionPath

MAX_NAMES = 5  # of columns in a warning


@dataclass(frozen=True)
class DesignData:
    """Design matrix, targets and weights of the samples with positive weight, on the device of the design matrix."""

    candidates: Candidates
    G: Any
    Y: Array  # (n, q)
    weights: NDArray[np.float64]
    data: Data = field(repr=False)
    whole: Any = field(repr=False)  # the design matrix of all samples

    def problem(self, intercept: bool) -> Problem:
        """Return the least-squares problem of all candidates; warn of those that vary by hardly more than rounding."""
        problem = least_squares_problem(self.G, self.Y, self.weights, intercept)
        warn_of_lost_digits(self.candidates, problem.unresolved)
        return problem

    def fitted_terms(
        self,
        problem: Problem,
        solution: Solution,
        criteria: dict[str, float],
        criterion: str,
        chosen: NDArray[np.intp] | None = None,
    ) -> FittedTerms:
        """Return the terms of a solution; `problem` has the chosen columns only, by default all of them."""
        chosen = np.arange(self.candidates.n_candidates) if chosen is None else chosen
        residuals = solution.loo / (problem.rows.sample_weight**0.5)[:, None]
        statistics = FitStatistics(problem.rows, solution, problem.G_mean, criteria, criterion, residuals)
        return self.complete(FittedTerms.from_solution(self.candidates, chosen, problem.Y_mean, statistics))

    def complete(
        self,
        terms: FittedTerms,
        targets: NDArray[np.float64] | None = None,
        path_terms: NDArray[np.intp] | None = None,
    ) -> FittedTerms:
        """Add some inputs, and the residuals of samples of weight zero, which leaving them out does not change.

        The targets, (n, q), are those of the data unless others are given. With the terms of a path these samples are
        kept for its other sizes.
        """
        sample = None if self.candidates.basis is None else self.data.sample()  # columns are effects as they are
        terms = replace(terms, sample=sample)
        if terms.statistics.residuals is None or self.G.shape[0] == self.whole.shape[0]:
            return terms
        unused = self.unused_rows(terms.chosen if path_terms is None else path_terms, targets)
        return replace(unused.complete(terms), unused=None if path_terms is None else unused)

    def unused_rows(self, chosen: NDArray[np.intp], targets: NDArray[np.float64] | None) -> UnusedRows:
        """Return the samples of weight zero with some columns of the design matrix."""
        rows = np.flatnonzero(self.data.weights == 0)
        part = take_rows(self.whole, rows)
        if isinstance(part, Design | RowFile):
            columns = part.columns(chosen)
        else:
            columns = at(part, chosen, axis=1) if is_foreign(part) else densify(part[:, chosen])
        Y = as_columns(self.data.y) if targets is None else targets
        return UnusedRows(rows, self.data.used, as_float64(columns), Y[rows])


@dataclass(frozen=True)
class UnusedRows:
    """Samples of weight zero: the columns of the terms of a path, in its order, and the targets."""

    rows: NDArray[np.intp]
    used: NDArray[np.intp]  # the other samples
    columns: Array  # (m, k)
    targets: NDArray[np.float64]  # (m, q)

    def complete(self, terms: FittedTerms) -> FittedTerms:
        """Add the residuals of these samples to a model of the first terms of the path."""
        statistics = terms.statistics
        outputs = self.columns[:, : len(terms.chosen)] @ terms.weights + terms.fitted_intercept
        outputs = limited(outputs, terms.limits)
        own = from_host(self.targets, outputs) - terms.respond(outputs, outputs.dtype)
        residuals = zeros((len(self.rows) + len(self.used), own.shape[1]), own)
        residuals = put_at(put_at(residuals, self.rows, own), self.used, statistics.residuals)
        return replace(terms, statistics_or_solve=replace(statistics, residuals=residuals))


def fit_design(
    estimator: Any, basis: Any, data: Data, min_samples: int = 2, *, relative_weights: bool = False
) -> DesignData:
    """Fit the basis to the samples with positive weight and evaluate it on all of them.

    With `relative_weights`, where no criterion chooses anything, the weights may add up to less than two samples.
    """
    X, rows = data.X, data.used
    fitted = None if basis is None else clone(basis)
    if fitted is None:
        G = beyond_memory(X) if estimator.streams else X
    elif len(rows) == len(data.weights):
        stream = estimator.streams and is_streamable(basis)
        G = fit_design_matrix(fitted, X, data.y) if stream else fitted.fit_transform(X, data.y)
    elif cross_fits(basis):
        own = fitted.fit_transform(rows_of(X, rows), data.y[rows])
        expect_missing(fitted, X)
        G = put_at(fitted.transform(X), rows, own)
    else:
        fitted = fitted.fit(rows_of(X, rows), data.y[rows])
        expect_missing(fitted, X)
        G = design_matrix(fitted, X) if estimator.streams else fitted.transform(X)
    G = check_design(estimator, basis, G, min_samples)
    check_magnitudes("y", data.y, dtype=G.dtype)
    if min_samples > 1:
        check_total(data.weights, RELATIVE_WEIGHT_MIN if relative_weights else 2.0)
    return design_data(G, fitted, data)


def design_data(G: Any, basis: Any, data: Data) -> DesignData:
    """Return a checked design matrix of all samples with the targets and weights of those with positive weight."""
    like = getattr(G, "like", G)
    Y = as_columns(data.y)
    Y = from_host(Y, like) if is_foreign(like) else Y
    whole, weights, rows = G, data.weights, data.used
    if len(rows) < len(weights):
        G, Y, weights = take_rows(G, rows), at(Y, rows), weights[rows]
    candidates = Candidates(
        basis,
        n_candidates=G.shape[1],
        one_output=data.y.ndim == 1,
        n_features=data.n_features,
        input_names=data.input_names,
        labels=data.labels,
        dtype=precision(G.dtype),
    )
    return DesignData(candidates, G, Y, weights, data=data, whole=whole)


def take_rows(G: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of a design matrix of any kind."""
    return at(G, rows) if is_foreign(G) else G[rows]


def path_problem(path: SelectionPath, k: int, intercept: bool) -> Problem:
    """Return the least-squares problem of the first k terms of a path."""
    training = path.training
    Y, rows = training.Y, WeightedRows(training.sample_weight, intercept)
    G_mean, Y_mean = from_host(training.G_mean[:k], Y), from_host(training.Y_mean, Y)
    return Problem(training.columns(k), Y, rows, G_mean, Y_mean, owned=True)


def solve_path(path: SelectionPath, k: int, intercept: bool, refit: str | None) -> tuple[Problem, Solution, float]:
    """Solve for the weights of the first k terms of a path; return the problem, its solution and the penalty.

    The penalty is that of the path, or the minimiser of the criterion `refit`.
    """
    problem, alpha = path_problem(path, k, intercept), path.steps[k].alpha
    if refit == "cv" and path.refit_alphas is not None:
        alpha = float(path.refit_alphas[k])
    elif refit is not None and k:
        alpha = best_alpha(Spectrum(problem), refit)
    if np.isinf(alpha):  # no penalty generalises: the weights are zero
        return problem, Spectrum(problem).solution(np.inf), alpha
    return problem, solve_penalised(problem, np.arange(k), np.full(k, alpha)), alpha


def warn_of_lost_digits(candidates: Candidates, unresolved: NDArray[np.intp]) -> None:
    """Warn of candidates that vary by hardly more than rounding, by their names."""
    if not len(unresolved):
        return
    try:
        names = FittedTerms(candidates, unresolved[:MAX_NAMES], np.empty((0, 0)), np.empty(0)).names
    except AttributeError:  # a pipeline with a step that has no names
        names = [f"term{j}" for j in unresolved[:MAX_NAMES]]
    remedy = "subtract the mean before they are rounded, or give them in float64"
    if candidates.basis is not None:
        remedy = "scale the inputs, or choose functions that vary over their range"
    warn_unresolved([repr(name) for name in names], len(unresolved), remedy)


def warn_of_rounded_inputs(names: NDArray[Any], table: NDArray[Any], data: Data) -> None:
    """Warn of inputs of a table, of the samples with positive weight, that vary by hardly more than rounding."""
    Y, p = as_columns(data.y)[data.used], table.shape[1]
    unresolved = least_squares_problem(table, Y, data.weights[data.used], intercept=True).unresolved
    candidates = Candidates(None, n_candidates=p, one_output=True, n_features=p, input_names=names)
    warn_of_lost_digits(candidates, unresolved)


def check_design(estimator: Any, basis: Any, G: Any, min_samples: int = 1) -> Any:
    """Validate a design matrix, the output of an arbitrary transformer."""
    if isinstance(G, Design | RowFile):  # validated before, or as the rows are read
        if G.shape[0] >= min_samples:
            return G
        G = np.zeros(G.shape)  # raises the error for too few samples below
    G = G if estimator.keeps_sparse else densify(G)
    if basis is None and G.shape[0] >= min_samples:  # checked as X already
        return G
    name = "X" if basis is None else f"The design matrix of {type(basis).__name__}"
    if is_foreign(G):
        return check_foreign(name, G, min_samples)
    valid = type(G) is np.ndarray and G.ndim == 2 and G.size and G.dtype in FLOATS and len(G) >= min_samples
    if not (valid and all_finite(G)):  # which takes longer than the prediction of a single row
        formats = ["csr", "csc"]
        G = check_array(
            G, accept_sparse=formats, dtype=FLOATS, ensure_min_samples=min_samples, input_name=name, estimator=estimator
        )
    check_magnitudes(name, G, tiny=False)
    return G
