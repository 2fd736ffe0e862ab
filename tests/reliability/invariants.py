"""What must hold for a fitted model, whatever the problem: each check returns a sentence for every violation."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from problems import FOLDER, Problem
from sklearn.base import clone, is_classifier

from termwise import (
    AnovaBasis,
    BasisRidge,
    CriterionSearch,
    EvidenceForwardRegressor,
    ForwardRegressor,
    LocalRidge,
    LogisticBasis,
    OnlineRidge,
    OrthogonalThresholdRegressor,
    RadialBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    UnionBasis,
    load_predictor,
)

ATTRIBUTES = ("coef_", "intercept_", "noise_variance_", "loo_residuals_", "weights_cov_", "effective_dof_")
RECIPES = (TermwiseRegressor, TermwiseClassifier)
SCORE_DIGITS = 13  # after the decimal point
TERM_ROUNDING = 1e-11  # of terms between two ways to compute them, of inputs with an outlier for example
EXACT_SHARE = 0.9  # terms for each sample, from which the last terms are selected by what rounding has left


def scores(model: Any, X: Any) -> np.ndarray:
    """Return predictions, or the scores of a classifier, whose unit is one: those of equal classes are rounding."""
    if is_classifier(model):
        return np.asarray(model.decision_function(X), dtype=float).round(SCORE_DIGITS)
    return np.asarray(model.predict(X), dtype=float)


def differ(found: np.ndarray, expected: np.ndarray, tol: float) -> bool:
    """Whether predictions differ by more than rounding."""
    scale = np.abs(expected).max(initial=0.0) + np.ptp(expected) if expected.size else 1.0
    return found.shape != expected.shape or bool(np.abs(found - expected).max(initial=0.0) > tol * scale)


def order_tol(problem: Problem) -> float:
    """Share by which predictions may differ for another order of rows or columns.

    Narrow radial functions have nearly equal eigenvalues, between whose eigenvectors rounding decides; equal ones have
    no eigenvectors of their own.
    """
    model = problem.model
    if not (isinstance(model, OrthogonalThresholdRegressor) and isinstance(model.basis, RadialBasis)):
        return problem.tol
    G = np.asarray(clone(model.basis).fit_transform(problem.numbers.astype(float)))
    values = np.linalg.eigvalsh(np.cov(G, rowvar=False, bias=True))
    gaps = np.diff(values[values > 1e-10 * values[-1]])
    return np.inf if gaps.min(initial=np.inf) < 1e-13 * values[-1] else 1e-3


def fit(problem: Problem, X: Any = None, y: Any = None, weights: Any = "same", **params: Any) -> Any:
    """Fit a copy of the model, with other data or parameters where these are given."""
    X, y = problem.X if X is None else X, problem.y if y is None else y
    weights = problem.weights if isinstance(weights, str) else weights
    return clone(problem.model).set_params(**params).fit(X, y, sample_weight=weights)


# -- whatever the data -------------------------------------------------------------------------------------------------


def check_finite(problem: Problem, model: Any, expected: np.ndarray) -> Iterator[str]:
    found = {"predictions": expected} | {name: getattr(model, name) for name in ATTRIBUTES if hasattr(model, name)}
    yield from (f"{name} not finite" for name, value in found.items() if not np.isfinite(np.asarray(value)).all())


def check_copies(problem: Problem, model: Any, expected: np.ndarray) -> Iterator[str]:
    if differ(scores(pickle.loads(pickle.dumps(model)), problem.X), expected, 1e-9):
        yield "pickling changes predictions"
    if differ(scores(fit(problem), problem.X), expected, 0.0):
        yield "another fit differs"
    if differ(scores(model.fit(problem.X, problem.y, sample_weight=problem.weights), problem.X), expected, 0.0):
        yield "a second fit of the same estimator differs"


def check_failed_fit(problem: Problem, model: Any, expected: np.ndarray) -> Iterator[str]:
    try:
        model.fit(problem.X, np.full(len(problem.numbers), np.nan), sample_weight=problem.weights)
        yield "NaN in y is accepted"
    except ValueError:
        if differ(scores(model, problem.X), expected, 0.0):
            yield "a failed fit changes the model"


def check_file(problem: Problem, model: Any, expected: np.ndarray) -> Iterator[str]:
    if not hasattr(model, "predictor_") or "missing" in problem.tags:
        return
    try:
        model.predictor_.save(FOLDER / "model.json")
    except TypeError:  # a documented error: labels or bases that a file cannot hold
        return
    numbers = problem.numbers.astype(float)
    found = np.asarray(load_predictor(FOLDER / "model.json").predict(numbers))
    # Terms of float32 are rounded to it, which large weights of nearly dependent ones multiply.
    known = np.asarray(model.predict(numbers if problem.container == "float32" else problem.X))
    if is_classifier(model):
        different = found.tolist() != known.tolist()
    else:  # without a penalty, nearly dependent terms have large weights, which multiply the rounding of the terms
        own = getattr(model, "best_estimator_", model)  # of a search
        rounding = TERM_ROUNDING * np.abs(np.asarray(getattr(own, "weights_", 0.0))).max(initial=0.0)
        different = differ(found, known, problem.tol + rounding / max(np.abs(known).max(initial=0.0), rounding, 1e-300))
    if different:
        yield "a saved model predicts differently"


def check_sizes(problem: Problem, model: Any, expected: np.ndarray) -> Iterator[str]:
    if not hasattr(model, "at") or not hasattr(model, "path_"):
        return
    k = model.n_terms_
    if k <= len(model.path_) and differ(scores(model.at(k), problem.X), expected, 1e-7):
        yield "at(n_terms_) differs from the model"
    if k and not np.isfinite(scores(model.at(k // 2), problem.X)).all():
        yield "at(n_terms_ // 2) is not finite"


# -- of data without ties ----------------------------------------------------------------------------------------------


def check_row_order(problem: Problem, model: Any, expected: np.ndarray) -> Iterator[str]:
    if getattr(model, "n_terms_", 0) >= EXACT_SHARE * (len(problem.numbers) - 1) and hasattr(model, "path_"):
        return
    if isinstance(problem.model, (*RECIPES, CriterionSearch)) or depends_on_rows(problem.model):
        return
    basis = getattr(problem.model, "basis", None)
    if isinstance(basis, LogisticBasis) or (isinstance(problem.model, LocalRidge) and basis is not None):
        return  # random units, and local minima that depend on the order of the functions
    if getattr(problem.model, "refine", None) == "swap" and isinstance(basis, RadialBasis | UnionBasis):
        return  # exchanges among nearly equal functions, one on every sample, end after a number of rounds
    order = np.random.default_rng(0).permutation(len(problem.numbers))
    weights = None if problem.weights is None else problem.weights[order]
    found = fit(problem, problem.numbers[order], np.asarray(problem.y)[order], weights)
    if differ(scores(found, problem.numbers), expected, order_tol(problem)):
        yield "the order of the rows changes predictions"


def check_column_order(problem: Problem, model: Any, expected: np.ndarray) -> Iterator[str]:
    if not isinstance(getattr(problem.model, "basis", None), RadialBasis | AnovaBasis | None):
        return
    if isinstance(problem.model, (LocalRidge, TermwiseClassifier)):  # a local minimum; equally good step functions
        return
    length_decides = (
        getattr(problem.model, "method", "") == "gram_schmidt" or getattr(problem.model, "rule", "") == "norm"
    )
    if length_decides and isinstance(problem.model.basis, AnovaBasis):
        return  # linear terms are standardised: the first of columns of the same length is taken
    order = np.random.default_rng(0).permutation(problem.numbers.shape[1])
    if differ(scores(fit(problem, problem.numbers[:, order]), problem.numbers[:, order]), expected, order_tol(problem)):
        yield "the order of the columns changes predictions"


def check_offsets(problem: Problem, model: Any, expected: np.ndarray) -> Iterator[str]:
    basis = getattr(problem.model, "basis", None)
    if not getattr(problem.model, "fit_intercept", True) or not isinstance(basis, RadialBasis | None):
        return
    if isinstance(problem.model, LocalRidge) and basis is not None:
        return  # one of many minima that fit all samples exactly
    shift = 2.0 ** np.random.default_rng(1).integers(-3, 14, size=problem.numbers.shape[1]).astype(
        problem.numbers.dtype
    )
    shifted = problem.numbers + shift
    rounded = shifted - shift  # an offset hides digits of the columns, in float32 many: those of both fits are the same
    expected = expected if np.array_equal(rounded, problem.numbers) else scores(fit(problem, rounded), rounded)
    if differ(scores(fit(problem, shifted), shifted), expected, problem.tol):
        yield "an offset of the columns changes predictions"


def check_target_scale(problem: Problem, model: Any, expected: np.ndarray) -> Iterator[str]:
    if is_classifier(problem.model) or problem.target not in ("plain", "two outputs"):
        return
    if getattr(problem.model, "loss", "squared") != "squared" or isinstance(problem.model, EvidenceForwardRegressor):
        return
    if getattr(problem.model, "rule", "") == "d_optimal":  # beta has the unit of squared targets
        return
    factor = 2.0 ** np.random.default_rng(len(problem.numbers)).integers(-498, 499)
    yield from compare_scaled(problem, expected, {"y": np.asarray(problem.y) * factor}, factor)


def check_column_scale(problem: Problem, model: Any, expected: np.ndarray) -> Iterator[str]:
    alpha = getattr(problem.model, "alpha", None)
    if getattr(problem.model, "basis", None) is not None or isinstance(alpha, str) or alpha is None:
        return
    if not isinstance(problem.model, BasisRidge | OnlineRidge | ForwardRegressor) or problem.tol > 1e-4:
        return
    factor = 2.0 ** np.random.default_rng(len(problem.numbers)).integers(-498, 499)
    if getattr(problem.model, "rule", "") == "d_optimal" or not 1e-290 < factor**2 < 1e290:
        return
    yield from compare_scaled(problem, expected, {"X": problem.numbers * factor, "alpha": alpha * factor**2}, 1.0)


def compare_scaled(problem: Problem, expected: np.ndarray, changes: dict[str, Any], factor: float) -> Iterator[str]:
    """Compare a fit to scaled data; data outside the range of magnitudes must be refused."""
    X = changes.get("X", problem.numbers)
    try:
        found = scores(fit(problem, **({"X": X} | changes)), X) / factor
    except ValueError as error:
        if "magnitude" not in str(error):
            yield f"scaled data raise {error}"
        return
    if differ(found, expected, problem.tol):
        yield "the scale of the data changes predictions"


def check_repeats(problem: Problem, model: Any, expected: np.ndarray) -> Iterator[str]:
    if problem.weighting != "repeats" or depends_on_rows(problem.model):
        return
    if isinstance(problem.model, (*RECIPES, CriterionSearch)):  # folds split samples; the search has radial functions
        return
    if isinstance(getattr(problem.model, "basis", None), RadialBasis | UnionBasis):  # a centre for every repeat
        return
    counts = problem.weights.astype(int)
    found = fit(
        problem, np.repeat(problem.numbers, counts, axis=0), np.repeat(np.asarray(problem.y), counts, axis=0), None
    )
    if differ(scores(found, problem.numbers), expected, problem.tol):
        yield "weights and repeated rows differ"


def check_container(problem: Problem, model: Any, expected: np.ndarray) -> Iterator[str]:
    if differ(scores(fit(problem, problem.numbers), problem.numbers), expected, problem.tol):
        yield f"the container {problem.container} changes predictions"


def depends_on_rows(model: Any) -> bool:
    """Whether a model depends on the order of the rows by design: lags, folds of consecutive rows, few centres."""
    basis = getattr(model, "basis", None)
    few = isinstance(basis, RadialBasis) and basis.centers == 2
    return type(basis).__name__ == "LagBasis" or getattr(model, "rule", "") == "kfold" or few


Check = Callable[[Problem, Any, np.ndarray], Iterator[str]]
ALWAYS: list[Check] = [check_finite]
SOMETIMES: list[Check] = [check_copies, check_failed_fit, check_file, check_sizes]
OF_PLAIN_DATA: list[Check] = [
    check_row_order,
    check_column_order,
    check_offsets,
    check_target_scale,
    check_column_scale,
    check_repeats,
    check_container,
]
