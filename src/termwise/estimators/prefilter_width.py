"""Gaussians for data as they are: one width per input from its spread, times a factor that leave-one-out chooses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, at, from_host, to_host
from termwise.basis.base import InputStatistics
from termwise.basis.radial import RadialBasis, median_distance

Floats = NDArray[np.float64]

FACTORS = 2.0 ** np.arange(-2, 2.6, 0.5)  # widths to try, in median distances between samples
MOST_CENTERS = 1000  # beyond, centres are spread over the samples


def gaussians(X: Array) -> Iterator[RadialBasis]:
    """Yield Gaussians of every width to try, from narrow to wide.

    Inputs are scaled by their standard deviations. These, the median distance and the centres come from the different
    samples only, so that writing a sample twice and giving it the weight two are the same.
    """
    seen = InputStatistics.from_samples(X)
    centers, scale = at(X, seen.rows), np.where(seen.deviations > 0, seen.deviations, 1.0)
    scaled = centers / from_host(scale, X)
    distance = median_distance(scaled)
    if centers.shape[0] > MOST_CENTERS:
        centers = at(centers, RadialBasis(centers=MOST_CENTERS).fit(scaled).center_rows_)
    centers = to_host(centers)  # few, and a parameter
    for factor in FACTORS:
        yield RadialBasis(width=factor * distance * scale, centers=centers)


def steady_minimum(rates: Floats, squares: Floats, n: float) -> int:
    """Index of the smallest error rate, where rates that differ by less than a standard error count as equal.

    Among the equals the smallest squared error decides, which is a finer measure.
    """
    equals = rates <= rates.min() + standard_error(rates.min(), n) + 1e-12
    return int(np.argmin(np.where(equals, squares, np.inf)))


def standard_error(rate: float, n: float) -> float:
    """Standard error of a rate of errors counted in n samples."""
    return float(np.sqrt(rate * (1 - rate) / n))
