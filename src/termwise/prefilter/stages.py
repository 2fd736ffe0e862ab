"""Stage one of all outputs: the filtered signals, and what leaving a sample out does to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise.labels import misclassified
from termwise.prefilter.signal import Prefilter

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StageOne:
    """The prefiltered signals of all outputs with what leaving a sample out does to them."""

    filters: list[Prefilter]
    t: Floats  # (q,) thresholds, lambda_1 / 2
    lambda_2: Floats  # (q,)
    labels: Floats  # (n, q), -1 and +1
    counts: Floats

    @property
    def signal(self) -> Floats:
        """`y_pre`, (n, q)."""
        return self._columns(lambda f, t: f.signal(t)) / (1 + self.lambda_2)

    @property
    def level(self) -> Floats:
        """Mean of `y_pre`, (q,), where there is an intercept, else zero."""
        return np.array([f.mean for f in self.filters]) / (1 + self.lambda_2)

    @property
    def residual(self) -> Floats:
        """Leave-one-out residuals, (n, q)."""
        return np.column_stack(
            [f.residual(t, l2) for f, t, l2 in zip(self.filters, self.t, self.lambda_2, strict=True)]
        )

    @property
    def leverage(self) -> Floats:
        """Leverage of a single repeat, (n, q)."""
        return self._columns(lambda f, t: f.leverage(t)) / (1 + self.lambda_2)

    @property
    def shrinkage(self) -> Floats:
        """What the second penalty scales the signal by, (q,)."""
        return 1 / (1 + self.lambda_2)

    def directions(self, j: int) -> Floats:
        """Active singular vectors of an output, their rows not scaled."""
        return self.filters[j].V[:, : self.filters[j].active(self.t[j])]

    @property
    def violations(self) -> float:
        """Share of the samples for which (34) fails, averaged over the outputs."""
        shares = [f.violations(t, l2) for f, t, l2 in zip(self.filters, self.t, self.lambda_2, strict=True)]
        return float(np.mean(shares))

    @property
    def error_rate(self) -> float:
        """Share of leave-one-out errors: J, or with several classes that of the largest output."""
        if len(self.filters) == 1:
            return self.filters[0].rate(self.t[0])
        return self.rate(self.labels - self.residual)

    def rate(self, scores: Floats) -> float:
        """Share of samples that scores put into the wrong class."""
        return float(self.counts[misclassified(scores, self.labels)].sum() / self.counts.sum())

    def square(self, scores: Floats) -> float:
        """Mean squared error of scores."""
        return float(self.counts @ np.mean((self.labels - scores) ** 2, axis=1) / self.counts.sum())

    def active_only(self) -> StageOne:
        """The same without the directions that are not active, which only a search needs."""
        return replace(self, filters=[f.first(f.active(t)) for f, t in zip(self.filters, self.t, strict=True)])

    def _columns(self, f: Any) -> Floats:
        return np.column_stack([f(one, t) for one, t in zip(self.filters, self.t, strict=True)])
