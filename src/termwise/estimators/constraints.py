"""Constraints of the forward estimators: bounds of the weights, monotone inputs of the basis, and hierarchy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from termwise._checks import check_bool
from termwise.basis.base import inputs_of_columns
from termwise.fitted import Candidates, FittedTerms
from termwise.selection.constraints import Constraints

WHAT = "bounds, monotone or hierarchy"
UNCONSTRAINED: dict[str, tuple[Callable[[Any], bool], str, str]] = {
    "alpha": (lambda value: value == "reestimate", "a number", "a penalty that changes with every term moves weights"),
    "refit_alpha": (lambda value: value is not None, "None", "another penalty moves the weights beyond their bounds"),
    "refine": (lambda value: value is not None, "None", "an exchange may remove a term that others depend on"),
    "criterion": (lambda value: value == "fdr", "another", "knockoffs compete with terms that are not constrained"),
}  # parameters: values that do not go with constraints, what they must be, and why


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
            raise ValueError(f"{name} must be {requirement} with {WHAT}, got {value!r}: {reason}.")
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
    return getattr(basis.steps[-1][1] if isinstance(basis, Pipeline) else basis, "weight_signs_", None)


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
        if key not in (names if isinstance(key, str) else range(p)):
            raise ValueError(
                f"bounds must be for candidates, got {key!r}: give names or numbers of the {p} candidates."
            )
        found.append((names.index(key) if isinstance(key, str) else key, read_pair(pair)))
    return found


def read_pair(pair: Any) -> tuple[float, float]:
    """Return the bounds of a weight as numbers, None as infinity."""
    try:
        low, high = (np.nan if end is None else float(end) for end in pair)
    except (TypeError, ValueError):
        low, high = 1.0, -1.0
    if low > 0 or high < 0:
        raise ValueError(
            f"bounds must be pairs (low, high) with low <= 0 <= high, got {pair!r}: a term that is not selected has "
            "weight 0, and None is for no bound."
        )
    return -np.inf if np.isnan(low) else low, np.inf if np.isnan(high) else high
