"""Skewness of positive numbers, which decides where logarithms are tried: of the targets, and of inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import evenly
from termwise.recipe.settings import RecipeSettings

Floats = NDArray[np.float64]


def suits_logarithm(values: Floats, sample_weight: Floats, min_skewness: float) -> bool:
    """Whether positive numbers are skewed to the right, by at least so much, and more than their logarithms are."""
    skewness, of_logarithm = (skewness_of(one, sample_weight) for one in (values, np.log(values)))
    return skewness >= min_skewness and abs(of_logarithm) < skewness


def skewness_of(values: Floats, sample_weight: Floats) -> float:
    """Return the skewness of a weighted sample, zero if all values are equal."""
    centred = values - np.average(values, weights=sample_weight)
    second, third = (float(np.average(centred**power, weights=sample_weight)) for power in (2, 3))
    return third / second**1.5 if second > 0 else 0.0


def skewed_inputs(X: Floats, levels: NDArray[np.intp], settings: RecipeSettings) -> tuple[int, ...]:
    """Return the positive inputs of many different values that suit logarithms; numbers of `levels` are none.

    All samples must be positive; the skewness is that of those that the dictionary is chosen on.
    """
    positive = np.setdiff1d(np.flatnonzero(np.fmin.reduce(X, axis=0) > 0), levels)
    some, found = X[evenly(len(X), settings.choice_rows)], list[int]()
    for j in positive.tolist():
        x = some[~np.isnan(some[:, j]), j]
        many = len(np.unique(x)) > settings.min_log_values
        if many and suits_logarithm(x, np.ones(len(x)), settings.min_input_skewness):
            found.append(j)
    return tuple(found)
