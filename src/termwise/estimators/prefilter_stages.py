"""Stage one of all outputs: the filtered signals, and what leaving a sample out does to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, as_float64, from_host, namespace, total
from termwise.estimators.labels import misclassified
from termwise.linalg.filtered_signal import Prefilter
from termwise.linalg.two_stage import Change

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StageOne:
    """The prefiltered signals of all outputs with what leaving a sample out does to them.

    What is as long as the samples is where these are, what is as long as the outputs in this process.
    """

    filters: list[Prefilter]
    t: Floats  # (q,) thresholds, lambda_1 / 2
    lambda_2: Floats  # (q,)
    labels: Array  # (n, q), -1 and +1
    counts: Array

    @property
    def signal(self) -> Array:
        """`y_pre`, (n, q)."""
        return self._columns(lambda f, t, lambda_2: f.signal(t) / (1 + lambda_2))

    @property
    def power(self) -> float:
        """Sum of the squares of `y_pre`, less its mean where there is an intercept, averaged over the outputs."""
        less = self.signal - from_host(self.level, self.labels)
        return float(self.counts @ namespace(less).mean(less**2, axis=1))

    @property
    def level(self) -> Floats:
        """Mean of `y_pre`, (q,), where there is an intercept, else zero."""
        return np.array([f.mean for f in self.filters]) / (1 + self.lambda_2)

    @property
    def residual(self) -> Array:
        """Leave-one-out residuals, (n, q)."""
        return self._columns(lambda f, t, lambda_2: f.residual(t, lambda_2))

    def change(self, j: int) -> Change:
        """What leaving a sample out does to a signal, along its active singular vectors."""
        one, t, lambda_2 = self.filters[j], float(self.t[j]), float(self.lambda_2[j])
        V = one.V[:, : one.active(t)]
        less = one.single * one.residual(t, lambda_2) / (1 + lambda_2)
        return Change(less * one.h0, V, V * less[:, None])

    @property
    def violations(self) -> float:
        """Share of the samples for which (34) fails, averaged over the outputs."""
        return float(np.mean(self._each(lambda f, t, lambda_2: f.violations(t, lambda_2))))

    @property
    def error_rate(self) -> float:
        """Share of leave-one-out errors: J, or with several classes that of the largest output."""
        if len(self.filters) == 1:
            return self.filters[0].rate(float(self.t[0]))
        return float(self.rates(self.labels - self.residual))

    def rates(self, scores: Array) -> Array:
        """Share of samples that scores (..., n, q) put into the wrong class."""
        return as_float64(misclassified(scores, self.labels)) @ self.counts / total(self.counts)

    def square(self, scores: Array) -> float:
        """Mean squared error of scores."""
        squares = namespace(scores).mean((self.labels - scores) ** 2, axis=1)
        return float(self.counts @ squares) / total(self.counts)

    def active_only(self) -> StageOne:
        """The same without the directions that are not active, which only a search needs."""
        return replace(self, filters=self._each(lambda f, t, lambda_2: f.first(f.active(t))))

    def _columns(self, function: Callable[[Prefilter, float, float], Array]) -> Array:
        return namespace(self.labels).stack(self._each(function), axis=1)

    def _each(self, function: Callable[[Prefilter, float, float], Any]) -> list[Any]:
        """Answers for every output, its penalties given."""
        return list(map(function, self.filters, self.t.tolist(), self.lambda_2.tolist()))
