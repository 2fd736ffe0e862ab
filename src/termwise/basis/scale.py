"""Inputs in units of their own spread, whatever those of the data are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, as_float64, at, different_rows, fetch, namespace

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of every input, over the different samples.

    A sample written twice counts once here, so that writing it twice and giving it the weight two, of which a basis
    learns nothing, are the same.
    """

    n: int  # samples, repeats counted
    rows: Array  # first row of each different sample, in the order of the data
    means: Floats  # (d,)
    deviations: Floats  # (d,), zero for a constant input
    ranges: Floats  # (2, d), the lowest and the highest values

    @classmethod
    def of(cls, X: Array) -> Self:
        """Look at the training inputs."""
        xp, rows = namespace(X), different_rows(X)
        different = as_float64(at(X, rows))
        low, high, means, deviations = fetch(*(f(different, axis=0) for f in (xp.min, xp.max, xp.mean, xp.std)))
        deviations = np.where(low == high, 0.0, deviations)  # a computed deviation need not be quite zero
        return cls(X.shape[0], rows, means, deviations, np.array([low, high]))

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
