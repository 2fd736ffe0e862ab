"""Inputs and targets that a basis is fitted to: their validation, statistics and ranges, and clipping to these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length

from termwise._arrays import (
    Array,
    as_columns,
    as_float64,
    as_type,
    at,
    different_rows,
    fetch,
    from_host,
    has_missing,
    is_foreign,
    namespace,
    to_host,
)
from termwise.basis.expressions import evaluate, variable, z

Floats = NDArray[np.float64]

STANDARDISED = (z - variable("center")) / variable("scale")  # an input in standard deviations from its mean
CLIPPED = np.minimum(np.maximum(z, variable("low")), variable("high"))  # an input within its training range
EXTRAPOLATIONS = ("clip", "bounded", "constant", "linear", "continue")
# Standard deviations beyond the training range up to which "bounded" functions are linear. Errors of the automatic
# estimators on heavy-tailed tables hardly depend on 0 to 1; where effects are linear, 1 costs least.
LINEAR_MARGIN = 1.0
BOUNDED_EXTRAPOLATIONS = ("continue", "clip")  # of functions that are bounded or grow no faster than linear ones


def required_targets(parameter: str, y: Any, X: NDArray[Any], remedy: str) -> Floats:
    """Return the targets that a basis depends on, one column for each output."""
    if y is None:
        raise ValueError(f"{parameter} requires y to be passed, but the target y is None: call fit(X, y), or {remedy}.")
    Y = check_array(to_host(y) if is_foreign(y) else y, ensure_2d=False, dtype=np.float64, input_name="y")
    check_consistent_length(X, Y)
    return as_columns(Y)


def check_positive(name: str, value: Any, d: int, max_ndim: int, remedy: str) -> Floats:
    """Return a length in the units of the inputs: a number, one for each of d inputs, or a (d, d) matrix if allowed."""
    try:
        array = np.array(to_host(value) if is_foreign(value) else value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be made of numbers, got {value!r}: {remedy}.") from None
    if array.ndim > max_ndim or array.shape != (d,) * array.ndim:
        shapes = " or ".join(str((d,) * ndim) for ndim in range(1, max_ndim + 1))
        raise ValueError(
            f"{name} must be a number or have shape {shapes}, got shape {array.shape}: the data have {d} inputs."
        )
    if not np.all(np.isfinite(array)) or (array.ndim < 2 and np.any(array <= 0)):
        raise ValueError(f"{name} must be finite and > 0, got {value!r}: {remedy}.")
    return array


@dataclass(frozen=True)
class InputStatistics:
    """Mean, standard deviation and range of every input, over the distinct samples in which it is not missing.

    A repeated sample enters once, so that repeating it and giving it the weight two, of which a basis is not informed,
    have the same effect. An input that is missing everywhere is constant, at zero.
    """

    n_samples: int  # repeated ones included
    rows: Array  # first row of each distinct sample, in the order of the data
    means: Floats  # (d,)
    deviations: Floats  # (d,), zero for a constant input
    ranges: Floats  # (2, d), the lowest and the highest values

    @classmethod
    def from_samples(cls, X: Array) -> Self:
        """Compute the statistics of training inputs."""
        xp, rows = namespace(X), different_rows(X)
        distinct = as_float64(at(X, rows))
        if isinstance(distinct, np.ndarray) and has_missing(distinct):
            xp, distinct = np.ma, np.ma.masked_invalid(distinct)
        found = [f(distinct, axis=0) for f in (xp.min, xp.max, xp.mean, xp.std)]
        low, high, means, deviations = (np.ma.filled(values, 0.0) for values in found) if xp is np.ma else fetch(*found)
        deviations = np.where(low == high, 0.0, deviations)  # a computed deviation need not be quite zero
        return cls(X.shape[0], rows, means, deviations, np.array([low, high]))

    def check_varying(self) -> Self:
        """Raise if all inputs are constant."""
        if not self.deviations.any():
            raise ValueError(
                f"X must have an input that is not constant, got {self.n_samples} sample{'s' * (self.n_samples != 1)} "
                "all identical: functions of constants are constant."
            )
        return self


def input_ranges(X: Array) -> Floats:
    """Return the lowest and the highest value of each input without missing values, (2, d)."""
    xp = namespace(X)
    return np.array(fetch(*(as_float64(f(X, axis=0)) for f in (xp.min, xp.max))))


def linear_ranges(extrapolation: str, ranges: Floats, deviations: Floats) -> Floats:
    """Return the range that linear functions of every input are clipped to, (2, d), infinite where they are not."""
    if extrapolation not in ("constant", "bounded"):
        return np.outer([-np.inf, np.inf], np.ones(len(deviations)))
    margin = LINEAR_MARGIN if extrapolation == "bounded" else 0.0
    return ranges + np.outer([-margin, margin], deviations)


def clip(X: Array, ranges: Floats, overwrite: bool = False) -> Array:
    """Return inputs (n, d) clipped to ranges (2, d), in their dtype and on their device, perhaps in place."""
    low, high = (from_host(end, X) for end in ranges)
    variables, own = {"z": X, "low": low, "high": high}, ("z",) if overwrite else ()
    return as_type(evaluate(CLIPPED, variables, namespace(X), own), X.dtype)
