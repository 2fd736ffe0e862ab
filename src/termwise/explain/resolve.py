"""A fitted estimator however it is wrapped: the model itself, and what comes before it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import to_host
from termwise.estimators.base import TermModel
from termwise.estimators.model import TermModel as OldModel
from termwise.fitted import FitStatistics as Record


class Unwrapped(NamedTuple):
    """A model, and the fitted steps in front of it where it is the end of a pipeline."""

    model: Any  # TermModel
    front: Any | None  # Pipeline
    given: Any  # the estimator as it was given

    def inputs(self, X: Any) -> Any:
        """What the model itself is given for the inputs X."""
        return X if self.front is None or X is None else self.front.transform(X)

    @property
    def task(self) -> str:
        """Regression or classification."""
        return "classification" if isinstance(self.model, ClassifierMixin) else "regression"

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return len(np.atleast_1d(to_host(self.model.intercept_)))


def unwrap(estimator: Any, caller: str) -> Unwrapped:
    """Find the fitted model in an estimator, a search or a pipeline."""
    given = estimator
    estimator = getattr(estimator, "best_estimator_", estimator)
    front = None
    if isinstance(estimator, Pipeline):
        front, estimator = (estimator[:-1] if len(estimator) > 1 else None), estimator[-1]
        estimator = getattr(estimator, "best_estimator_", estimator)
    if not isinstance(estimator, TermModel | OldModel):
        raise TypeError(
            f"estimator must be a fitted estimator of termwise, or a pipeline that ends in one, got {given!r}: "
            f"{caller} reads its terms and weights."
        )
    check_is_fitted(estimator)
    return Unwrapped(estimator, front, given)


def record_of(model: TermModel) -> Record | None:
    """What is known beside the weights; None if the model has not kept its samples."""
    try:
        return model._record().on_host()
    except ValueError:
        return None


def standard_errors(model: TermModel) -> NDArray[np.float64] | None:
    """Standard errors of the weights, (q, k), where they are known."""
    record = record_of(model)
    if record is None:
        return None
    return np.sqrt(np.outer(model.noise_variance_, to_host(record.solution.unit_variances())))


def leave_one_out(model: TermModel) -> NDArray[np.float64] | None:
    """Leave-one-out residuals, (n, q), where they are known."""
    record = record_of(model)
    return None if record is None or record.residuals is None else to_host(record.residuals)


def first_step(model: TermModel) -> Any:
    """Return the first transformer of the model's basis; None if there is none."""
    basis = model.basis_
    return basis.steps[0][1] if isinstance(basis, Pipeline) else basis
