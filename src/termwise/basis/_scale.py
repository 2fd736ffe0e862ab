"""Inputs in units of their own spread, whatever those of the data are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import different_rows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of every input, over the different samples.

    A sample written twice counts once here, so that writing it twice and giving it the weight two, of which a basis
    learns nothing, are the same.
    """

    n: int  # samples, repeats counted
    rows: NDArray[np.intp]  # first row of each different sample, in the order of the data
    means: Floats  # (d,)
    deviations: Floats  # (d,), zero for a constant input
    ranges: Floats  # (2, d), the lowest and the highest values

    @classmethod
    def of(cls, X: NDArray) -> Self:
        """Look at the training inputs."""
        rows = different_rows(X)
        different = X[rows].astype(np.float64, copy=False)
        ranges = np.array([different.min(axis=0), different.max(axis=0)])
        constant = ranges[0] == ranges[1]  # a computed deviation need not be quite zero
        deviations = np.where(constant, 0.0, different.std(axis=0))
        return cls(len(X), rows, different.mean(axis=0), deviations, ranges)

    def check(self) -> Self:
        """Raise if all inputs are constant."""
        if not self.deviations.any():
            raise ValueError(
                f"X must have an input that is not constant, got {self.n} sample{'s' * (self.n != 1)} all alike: "
                "functions of constants are constant."
            )
        return self

    @property
    def varying(self) -> NDArray[np.intp]:
        """Inputs that are not constant."""
        return np.flatnonzero(self.deviations)

    def standardise(self, X: NDArray, columns: NDArray[np.intp]) -> Floats:
        """Return some columns of X, which must not be constant ones, with mean 0 and deviation 1."""
        return (X[:, columns] - self.means[columns]) / self.deviations[columns]
