"""Input validation and construction of the design matrix, from arrays of any library, frames, sparse matrices
and files.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils import assert_all_finite, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, validate_data

from termwise._arrays import (
    Array,
    all_finite,
    as_columns,
    as_float64,
    at,
    densify,
    evenly,
    from_host,
    is_foreign,
    precision,
    put_at,
    rows_of,
    to_host,
    zeros,
)
from termwise._checks import (
    check_bool,
    check_counts,
    check_foreign,
    check_labels,
    check_magnitudes,
    check_numeric,
    check_splits,
    check_table,
    check_targets,
    check_total,
    is_dask,
    is_plain_table,
    warn_unresolved,
)
from termwise._numerics import RELATIVE_WEIGHT_MIN
from termwise.basis.base import cross_fits, design_matrix, expect_missing, fit_design_matrix, is_streamable
from termwise.design import Design
from termwise.design.files import RowFile, beyond_memory
from termwise.fitted import Candidates, FitStatistics, FittedTerms, Labels
from termwise.linalg.least_squares import Problem, Solution, WeightedRows, least_squares_problem, solve_penalised
from termwise.linalg.spectrum import Spectrum, best_alpha
from termwise.selection.path import SelectionPath

FLOATS = [np.float64, np.float32]
MAX_NAMES = 5  # of columns in a warning
SAMPLE_ROWS, SAMPLE_ENTRIES = 2000, 1_000_000  # limits of the inputs that a model keeps for its description,
MIN_SAMPLE_ROWS = 100  # of which fewer than so many say little


@dataclass(frozen=True)
class Data:
    """Validated inputs, targets and sample weights."""

    X: Any
    y: NDArray[np.float64]  # (n,) or (n, q); classes are coded -1 and +1
    weights: NDArray[np.float64]  # (n,), frequency weights
    n_features: int
    input_names: NDArray[Any] | None
    labels: Labels | None = None

    @property
    def used(self) -> NDArray[np.intp]:
        """Samples with positive weight."""
        return np.flatnonzero(self.weights)

    def sample(self) -> Any:
        """Inputs of some samples with positive weight, to describe a model; None for files and wide tables."""
        used, limit = self.used, min(SAMPLE_ROWS, SAMPLE_ENTRIES // max(1, self.n_features))
        if isinstance(self.X, RowFile) or limit < min(len(used), MIN_SAMPLE_ROWS):
            return None
        return rows_of(self.X, used[evenly(len(used), limit)])


@dataclass(frozen=True)
class DesignData:
    """Design matrix, targets and weights of the samples with positive weight, on the device of the design matrix."""

    candidates: Candidates
    G: Any
    Y: Array  # (n, q)
    weights: NDArray[np.float64]
    data: Data = field(repr=False)
    whole: Any = field(repr=False)  # the design matrix of all samples

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

    def complete(self, terms: FittedTerms, targets: NDArray[np.float64] | None = None) -> FittedTerms:
        """Add some inputs, and the residuals of samples of weight zero, which leaving them out does not change.

        The targets, (n, q), are those of the data unless others are given.
        """
        sample = None if self.candidates.basis is None else self.data.sample()  # columns are effects as they are
        terms = replace(terms, sample=sample)
        unused = None if terms.statistics.residuals is None else self.unused_rows(terms.chosen, targets)
        return terms if unused is None else unused.complete(terms)

    def unused_rows(self, chosen: NDArray[np.intp], targets: NDArray[np.float64] | None = None) -> UnusedRows | None:
        """Return samples of weight zero, for the residuals at other sizes of a path with these terms; None: no such."""
        if self.G.shape[0] == self.whole.shape[0]:
            return None
        G, rows = self.whole, np.flatnonzero(self.data.weights == 0)
        part = at(G, rows) if is_foreign(G) else G[rows]
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
        fitted = self.columns[:, : len(terms.chosen)] @ terms.weights
        own = from_host(self.targets, fitted) - terms.respond(fitted + terms.fitted_intercept, fitted.dtype)
        residuals = zeros((len(self.rows) + len(self.used), own.shape[1]), own)
        residuals = put_at(put_at(residuals, self.rows, own), self.used, statistics.residuals)
        return replace(terms, statistics_or_solve=replace(statistics, residuals=residuals))


def read(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    basis: Any = None,
    classify: bool = False,
    reset: bool = True,
) -> Data:
    """Validate the arguments of `fit`, or of a method of a fitted model with `reset=False`.

    Parameters
    ----------
    estimator : an estimator, which is not changed: attributes that validation sets are set on a clone.
    X, y, sample_weight : as given by the caller.
    basis : the transformer that makes the design matrix; None for the columns of X.
    classify : whether y holds classes, which are coded -1 and +1.
    reset : whether names and number of the columns are those of X, or must agree with those of the model.
    """
    check_request(estimator, basis, y)
    if is_dask(X, y):
        raise TypeError(
            f"{type(estimator).__name__} must be given data in memory, got a Dask collection: use X.compute(), or "
            "ForwardRegressor and ForwardClassifier, which work on a cluster."
        )
    labels = None
    if classify:
        y = check_labels(y)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        labels = Labels(np.unique(y))
        check_classes(labels.classes)
        y = code_known_labels(labels.classes, y)
    fresh = clone(estimator) if reset else estimator
    X = check_inputs(fresh, X, basis, reset=reset)
    y = check_targets(y)
    names = getattr(fresh, "feature_names_in_", None)
    if basis is None and not isinstance(X, RowFile):
        check_magnitudes("X", X, names, tiny=reset)
    if reset:
        check_magnitudes("y", y)
    if not is_foreign(X) or X.shape[0] != len(y):
        check_consistent_length(np.empty(X.shape[0]) if is_foreign(X) else X, y)
    weights = check_counts(sample_weight, len(y))
    return Data(X, y, weights, fresh.n_features_in_, names, labels)


def check_request(estimator: Any, basis: Any, y: Any) -> None:
    """Validate basis, intercept and folds, and that there are targets."""
    if basis is not None and not (hasattr(basis, "fit") and hasattr(basis, "transform")):
        raise TypeError(
            f"basis must be a transformer or None, got {basis!r}: use one of termwise.basis, such as RadialBasis(), or "
            "any of scikit-learn's."
        )
    check_bool("fit_intercept", estimator.fit_intercept, remedy="True fits the mean too")
    for name in ("cv", "selection_cv"):
        check_splits(name, getattr(estimator, name, None))
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None: give one target per sample."
        )


def code_known_labels(classes: NDArray[Any], y: Any) -> NDArray[np.float64]:
    """Return labels of the given classes coded -1 and +1, one column per class for more than two."""
    columns = np.where(column_or_1d(y)[:, None] == classes, 1.0, -1.0)
    return columns[:, 1] if len(classes) == 2 else columns


def check_classes(classes: NDArray[Any]) -> None:
    """Raise unless there are at least two classes."""
    if len(classes) < 2:
        got = f"one class {classes.tolist()[0]!r}" if len(classes) else "no samples"
        raise ValueError(f"y must have at least two classes, got {got}: give samples of another.")


def check_inputs(estimator: Any, X: Any, basis: Any, reset: bool) -> Any:
    """Return validated inputs, those of another array library on their device if estimator and basis can use them.

    With a basis its transformer validates the values; here names and number of the columns are checked. With `reset`
    they are stored on the estimator.
    """
    if is_foreign(X):
        capable = basis is None or getattr(basis, "any_library", False) or get_config()["array_api_dispatch"]
        X = X if estimator.any_library and capable else to_host(X)
    if basis is not None:
        if not reset and is_plain_table(estimator, X):
            return X
        X = X if isinstance(X, RowFile) else check_table(X)
        if reset and isinstance(X, RowFile):
            check_streams(estimator, X)
            raise TypeError(
                f"X must be an array if there is a basis, got rows of {X.name}: use basis=None, or X.load() where the "
                "inputs fit in memory."
            )
    elif isinstance(X, RowFile):
        return _check_file(estimator, X, reset)
    elif is_foreign(X):
        X = check_foreign("X", X)
    else:
        if not reset and is_plain_table(estimator, X) and all_finite(X):
            return X
        X = check_table(X)
        check_numeric(X)
        return validate_data(estimator, X, accept_sparse=["csr", "csc"], dtype=FLOATS, reset=reset)
    validate_data(estimator, X, skip_check_array=True, reset=reset)
    return X


def check_streams(estimator: Any, X: RowFile) -> None:
    """Raise if an estimator requires in memory what it is given as rows of a file."""
    if not estimator.streams:
        raise TypeError(
            f"X must be an array for {type(estimator).__name__}, got rows of {X.name}: ForwardRegressor and "
            "ForwardClassifier work from files; others take X.load()."
        )


def _check_file(estimator: Any, X: RowFile, reset: bool) -> RowFile:
    """Validate names and number of the columns of a file; its values are checked as they are read."""
    check_streams(estimator, X)
    names = None if reset else getattr(estimator, "feature_names_in_", None)
    if X.names is None or names is None:
        validate_data(estimator, X, skip_check_array=True, reset=reset)
    elif X.names != list(names):
        raise ValueError(
            f"X must have the columns of the fit in their order, got rows of {X.name} with {len(X.names)} others: open "
            "them with columns=model.feature_names_in_."
        )
    if reset and X.names is not None:
        estimator.feature_names_in_ = np.array(X.names, dtype=object)
    return X


def fit_design(
    estimator: Any, basis: Any, data: Data, min_samples: int = 2, *, relative_weights: bool = False
) -> DesignData:
    """Fit the basis to the samples with positive weight and evaluate it on all of them.

    With `relative_weights`, where no criterion chooses anything, the weights may add up to less than two samples.
    """
    X, rows = data.X, data.used
    everything = len(rows) == len(data.weights)
    fitted = None
    if basis is None:
        G = beyond_memory(X) if estimator.streams else X
    elif everything and not (estimator.streams and is_streamable(basis)):
        fitted = clone(basis)
        G = fitted.fit_transform(X, data.y)
    elif everything:
        fitted = clone(basis)
        G = fit_design_matrix(fitted, X, data.y)
    else:
        fitted, part = clone(basis), rows_of(X, rows)
        own = fitted.fit_transform(part, data.y[rows]) if cross_fits(basis) else None
        fitted = fitted.fit(part, data.y[rows]) if own is None else fitted
        expect_missing(fitted, X)
        G = design_matrix(fitted, X) if estimator.streams and own is None else fitted.transform(X)
        G = G if own is None else put_at(G, rows, own)
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
        G, Y, weights = at(G, rows) if is_foreign(G) else G[rows], at(Y, rows), weights[rows]
    names, one_output = data.input_names, data.y.ndim == 1
    dtype = precision(G.dtype)
    candidates = Candidates(basis, G.shape[1], one_output, data.n_features, names, data.labels, dtype)
    return DesignData(candidates, G, Y, weights, data, whole)


def path_problem(path: SelectionPath, k: int, intercept: bool) -> Problem:
    """Return the least-squares problem of the first k terms of a path."""
    training = path.training()
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
    warn_of_lost_digits(Candidates(None, p, True, p, names), unresolved)


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
        G = check_array(
            G,
            accept_sparse=["csr", "csc"],
            dtype=FLOATS,
            ensure_min_samples=min_samples,
            input_name=name,
            estimator=estimator,
        )
    check_magnitudes(name, G, tiny=False)
    return G
