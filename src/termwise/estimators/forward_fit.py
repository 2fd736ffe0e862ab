"""The fit of the forward estimators: settings, the path where the data are, its size, and the weights of its terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from termwise._arrays import as_columns, densify
from termwise._checks import (
    check_bool,
    check_choice,
    check_indices,
    check_labels,
    check_number,
    check_targets,
    is_dask,
    is_one_of,
    place_of,
    to_array,
)
from termwise.basis.base import inputs_of_columns, last_step
from termwise.estimators.base import step_callback
from termwise.estimators.data import check_classes, check_request, code_known_labels, read
from termwise.estimators.design import DesignData, fit_design, solve_path, warn_of_lost_digits
from termwise.estimators.forward_criteria import (
    check_cross_validation,
    check_knockoffs,
    select_by_folds,
    select_by_knockoffs,
)
from termwise.estimators.glm import (
    CLASSIFIER_LOSSES,
    GLM_ALPHA,
    REGRESSOR_LOSSES,
    SQUARED_ALPHA,
    check_exposure,
    resolve_loss,
    select_by_loss,
    truncate_glm_path,
)
from termwise.execution import select_terms, select_terms_on_cluster
from termwise.execution.cluster import Chunks, n_rows, sample_rows, split_chunks, without_rows
from termwise.execution.dask import ChunkReader
from termwise.fitted import Candidates, FitStatistics, FittedTerms, Labels
from termwise.linalg.criteria import CRITERIA
from termwise.linalg.least_squares import measure, solve_orthogonal
from termwise.selection.constraints import Constraints
from termwise.selection.engine import Settings
from termwise.selection.glm_path import GlmPath
from termwise.selection.kfold import keep_folds
from termwise.selection.path import CondensedRows, SelectionPath, check_criterion

BASIS_ROWS = 10_000  # rows of Dask data that a basis is fitted to
PROBE_ROWS = 32  # rows that show whether a basis transforms each by itself
WHOLE_SELECTION = ("fdr", "cv")  # criteria that repeat or change the selection, beside those of a path
UNCONSTRAINED: dict[str, tuple[Callable[[Any], bool], str, str]] = {
    "alpha": (lambda value: value == "reestimate", "a number", "a penalty that changes with every term moves weights"),
    "refit_alpha": (lambda value: value is not None, "None", "another penalty moves the weights beyond their bounds"),
    "refine": (lambda value: value is not None, "None", "an exchange may remove a term that others depend on"),
    "criterion": (
        lambda value: value == "fdr",
        "another than 'fdr'",
        "knockoffs compete without constraints",
    ),
}  # parameters: values that do not go with constraints, what they must be, and why


def fit_forward(
    estimator: Any, X: Any, y: Any, sample_weight: Any, classify: bool = False, exposure: Any = None
) -> tuple[FittedTerms, dict[str, Any]]:
    """Grow the path of a forward estimator where the data are, and truncate it at the size the criterion chooses.

    Returns the fitted terms and the other fitted attributes.
    """
    loss = resolve_loss(estimator, X, y, sample_weight, CLASSIFIER_LOSSES if classify else REGRESSOR_LOSSES)
    check_exposure(exposure, loss, np.shape(exposure)[0] if np.ndim(exposure) else 0)
    settings = path_settings(estimator, loss, X, y, sample_weight)
    max_steps = None if to_array(estimator.include).size else estimator.max_terms  # which included terms may exceed
    callback = path_callback(estimator.verbose, step_callback(estimator, max_steps))
    design: DesignData | None = None
    targets: NDArray[np.float64] | None = None  # of residuals, where these are not those of the data
    best: int | None = None  # size, where cross-validation has chosen it
    found: dict[str, Any] = {}  # attributes of a criterion that repeats or changes the selection
    if is_dask(X, y, sample_weight):
        candidates, path = select_on_cluster(estimator, X, y, sample_weight, settings, callback, classify)
    else:
        data = read(estimator, X, y, sample_weight, basis=estimator.basis, classify=classify)
        exposures = check_exposure(exposure, loss, len(data.weights))
        design = fit_design(estimator, estimator.basis, data)
        candidates = design.candidates
        settings = replace(settings, constraints=find_constraints(estimator, candidates))
        settings = keep_folds(settings, as_columns(data.y), data.used)
        if loss != "squared":
            path, candidates, targets = select_by_loss(estimator, design, loss, settings, callback, exposures)
        elif estimator.criterion == "fdr":
            path, found = select_by_knockoffs(estimator, design, settings, callback)
        elif estimator.criterion == "cv":
            path, best, found = select_by_folds(estimator, design, settings, callback)
        else:
            path = select_terms(design.G, design.Y, design.weights, settings, candidates.one_output, callback)
    warn_of_lost_digits(candidates, path.unresolved)
    included = check_indices("include", estimator.include, path.n_candidates, what="term")
    size = len(path)
    if not path.n_swaps:  # else the path ends at the size that was refined
        best = path.choose(settings.criterion) if best is None else best
        size = max(best, int(np.isin(path.terms, included).sum()))  # one that is constant does not enter
    terms, attributes = truncate_path(estimator, path, size, candidates)
    if design is not None:
        terms = design.complete(terms, targets, path.terms)
    attributes |= {"path_": path, "stop_reason_": path.stop_reason, "n_swaps_": path.n_swaps, **found}
    return terms, {"loss_": loss, **attributes}


def path_settings(estimator: Any, loss: str, X: Any, y: Any, sample_weight: Any) -> Settings:
    """Validate the parameters of a forward estimator; return how its path grows."""
    parameters = estimator.get_params(deep=False)
    settings = Settings(
        **{field.name: parameters[field.name] for field in fields(Settings) if field.name in parameters}
    )
    if is_one_of(settings.rule, "auto"):
        settings = replace(settings, rule="loo" if loss == "squared" else "cost")
    if is_one_of(settings.alpha, "auto"):
        settings = replace(settings, alpha=SQUARED_ALPHA if loss == "squared" else GLM_ALPHA)
    settings = replace(settings, criterion=check_criterion(settings.criterion, WHOLE_SELECTION))
    if estimator.criterion == "fdr":
        check_knockoffs(estimator, X, y, sample_weight)
    if estimator.refit_alpha is not None:
        check_choice("refit_alpha", estimator.refit_alpha, ["loo", "gcv", "cv"], remedy="None keeps alpha")
    check_cross_validation(estimator, X, y, sample_weight)
    if estimator.criterion in WHOLE_SELECTION:
        settings = replace(settings, criterion=None, patience=None)
    settings.check()
    check_number("verbose", estimator.verbose, low=0, integer=True, remedy="0 is silent, 1 reports every term")
    return settings


def path_callback(verbose: int, after_step: Callable[[], bool]) -> Callable[[SelectionPath], bool]:
    """Return the callback after each term: it prints, calls scikit-learn's callbacks, and returns True to stop."""

    def callback(path: SelectionPath) -> bool:
        if verbose:
            last = path.steps[-1]
            numbers = f"loo {last.loo:.6g}  gcv {last.gcv:.6g}  {last.seconds:.2f} s"
            print(f"{len(path):4d}  candidate {last.term:6d}  {numbers}")
        return after_step()

    return callback


def truncate_path(
    estimator: Any, path: SelectionPath, k: int, candidates: Candidates
) -> tuple[FittedTerms, dict[str, Any]]:
    """Solve for the weights of the first k terms of a path."""
    if isinstance(path, GlmPath):
        return truncate_glm_path(path, k, candidates, estimator.refit_alpha, estimator.criterion)
    problem, solution, alpha = solve_path(path, k, estimator.fit_intercept, estimator.refit_alpha)
    if estimator.penalty == "orthogonal" and k and estimator.refit_alpha is None:
        solution = solve_orthogonal(problem, alpha)
    rows, residuals = problem.rows, None
    if isinstance(path.training.rows, CondensedRows):  # on a cluster: only the sum of squared residuals is computed
        loo = np.sqrt(path.steps[k].loo * rows.n)
        solution = replace(solution, loo=np.full((1, len(solution.sse)), loo))
    else:
        residuals = solution.loo / (rows.sample_weight**0.5)[:, None]
    criterion = estimator.criterion if estimator.criterion in CRITERIA else "loo"  # others have no value of their own
    statistics = FitStatistics(rows, solution, problem.G_mean, measure(rows, solution), criterion, residuals)
    return FittedTerms.from_solution(candidates, path.terms[:k], problem.Y_mean, statistics), {"alpha_": alpha}


def describe_selection(estimator: Any) -> list[str]:
    """Return the lines of a summary about the loss and the selection."""
    if isinstance(estimator.path_, GlmPath):
        return [f"loss {estimator.loss_}: {estimator.deviance_explained_:.1%} of the deviance explained"]
    if estimator.criterion == "fdr":
        if not estimator.n_terms_:  # (1 + number of knockoffs) / number of terms must be at most fdr
            needed = int(np.ceil(1 / estimator.fdr))
            return [f"no terms selected by knockoffs, which need at least {needed} clear ones"]
        return [f"terms selected by knockoffs: estimated false discovery proportion {estimator.fdr_estimate_:.3g}"]
    return [] if estimator.refine is None else [f"terms exchanged for better ones: {estimator.n_swaps_}"]


# -- constraints -------------------------------------------------------------------------------------------------------


def is_constrained(estimator: Any, basis: Any) -> bool:
    """Whether the parameters of an estimator or its fitted basis constrain the weights or the terms."""
    return estimator.bounds is not None or bool(estimator.hierarchy) or bool(np.any(required_signs(basis)))


def find_constraints(estimator: Any, candidates: Candidates) -> Constraints | None:
    """Return the constraints of an estimator on its candidates, or None; raise if other parameters contradict them."""
    check_bool("hierarchy", estimator.hierarchy, remedy="True admits products only beside their main effects")
    basis, p = candidates.basis, candidates.n_candidates
    if not is_constrained(estimator, basis):
        return None
    for name, (contradicts, requirement, reason) in UNCONSTRAINED.items():
        if contradicts(value := getattr(estimator, name)):
            raise ValueError(
                f"{name} must be {requirement} with bounds, monotone or hierarchy, got {value!r}: {reason}."
            )
    inputs = inputs_of_columns(basis, np.arange(p)) if estimator.hierarchy else None
    found = Constraints.from_inputs(inputs, required_signs(basis), p)
    for place, (low, high) in read_bounds(estimator.bounds, candidates):
        found.low[place], found.high[place] = np.maximum(found.low[place], low), np.minimum(found.high[place], high)
    bounded = bool(np.isfinite(found.low).any() or np.isfinite(found.high).any())
    if bounded and len(np.atleast_1d(estimator.include)):
        raise ValueError(
            f"include must be empty with bounds or monotone, got {estimator.include!r}: the weight of a term that is "
            "always in the model cannot be bounded."
        )
    if bounded and candidates.labels is not None and len(candidates.labels.classes) > 2:
        raise ValueError(
            f"y must have two classes with bounds or monotone, got {len(candidates.labels.classes)}: the scores of "
            "more classes compete, and signs of their weights have no meaning."
        )
    return found


def required_signs(basis: Any) -> NDArray[np.intp] | None:
    """Return the signs that the weights of the functions of a fitted basis must have, if it has such."""
    return getattr(last_step(basis), "weight_signs_", None)


def read_bounds(bounds: Any, candidates: Candidates) -> list[tuple[Any, tuple[float, float]]]:
    """Return places of candidates and bounds of their weights: one pair for all, or a dict of pairs."""
    if bounds is None:
        return []
    if not isinstance(bounds, Mapping):
        return [(slice(None), read_pair(bounds))]
    p, names, found = candidates.n_candidates, list[str](), []
    if any(isinstance(key, str) for key in bounds):
        names = FittedTerms(candidates, np.arange(p), np.empty((0, 0)), np.empty(0)).names
    for key, pair in bounds.items():
        if (place := place_of(key, names, p)) is None:
            raise ValueError(
                f"bounds must be for candidates, got {key!r}: give names or numbers of the {p} candidates."
            )
        found.append((place, read_pair(pair)))
    return found


def read_pair(pair: Any) -> tuple[float, float]:
    """Return the bounds of a weight as numbers, None as infinity."""
    try:
        low, high = pair
    except (TypeError, ValueError):
        low = high = np.nan
    low, high = -np.inf if low is None else low, np.inf if high is None else high
    numbers = all(isinstance(end, Real) and not isinstance(end, bool) for end in (low, high))
    if not (numbers and low <= 0 <= high):  # which no NaN is
        raise ValueError(
            f"bounds must be pairs (low, high) with low <= 0 <= high, got {pair!r}: a term that is not selected has "
            "weight 0, and None is for no bound."
        )
    return float(low), float(high)


# -- data on a Dask cluster --------------------------------------------------------------------------------------------


def select_on_cluster(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    settings: Settings,
    callback: Callable[[SelectionPath], bool],
    classify: bool,
) -> tuple[Candidates, SelectionPath]:
    """Grow the path on the workers that hold the data; the rows stay there."""
    check_request(estimator, estimator.basis, y)
    if estimator.refit_alpha is not None:
        raise ValueError(
            f"refit_alpha must be None for Dask data, got {estimator.refit_alpha!r}: it would need the rows of the "
            "chosen terms; leave it out, or fit BasisRidge to transform(X).compute() afterwards."
        )
    chunks, fresh = split_chunks(X, y, sample_weight, settings.timeout), clone(estimator)
    validate_data(fresh, without_rows(X), skip_check_array=True, reset=True)
    labels, read_targets = None, check_targets
    if classify:
        labels = Labels(np.unique(np.concatenate(chunks.gather("y", distinct_labels))))
        check_classes(labels.classes)
        read_targets = partial(code_known_labels, labels.classes)
    basis = None if estimator.basis is None else fit_basis_to_chunks(estimator.basis, chunks, read_targets)
    if is_constrained(estimator, basis):
        raise TypeError(
            "X must be in memory with bounds, monotone or hierarchy, got Dask data: constraints need products of all "
            "candidates with the model; load a sample of the rows."
        )
    reader = ChunkReader("X", type(estimator).__name__, basis, read_targets)
    path = select_terms_on_cluster(chunks, reader, settings, callback)
    candidates = Candidates(
        basis,
        n_candidates=path.n_candidates,
        one_output=path.one_output,
        n_features=fresh.n_features_in_,
        input_names=getattr(fresh, "feature_names_in_", None),
        labels=labels,
    )
    return candidates, path


def fit_basis_to_chunks(basis: Any, chunks: Chunks, read_targets: Callable[[Any], NDArray[np.float64]]) -> Any:
    """Fit a basis to some rows of every chunk, and check that it can be evaluated chunk by chunk."""
    X, y = sample_rows(chunks, BASIS_ROWS)
    basis = clone(basis).fit(X, read_targets(y))
    some = X[: min(PROBE_ROWS, n_rows(X))]
    forward, backward = densify(basis.transform(some)), densify(basis.transform(some[::-1]))
    if forward.shape != backward.shape or not np.allclose(forward, backward[::-1], equal_nan=True):
        raise ValueError(
            f"basis must transform each row independently for Dask data, got {basis!r}, which depends on other rows: "
            "compute its columns beforehand and use basis=None."
        )
    return basis


def distinct_labels(y: Any) -> NDArray[Any]:
    """Return the distinct labels of a chunk."""
    return np.unique(check_labels(y))
