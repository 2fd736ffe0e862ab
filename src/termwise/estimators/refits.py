"""Refits of an estimator on other targets or other rows, and the terms that each of them selected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length

from termwise._arrays import densify, to_host
from termwise._checks import check_counts, check_table, is_dask
from termwise.basis.base import inputs_of_columns
from termwise.design.files import RowFile
from termwise.estimators.base import TermModel
from termwise.estimators.prediction import design_of
from termwise.fitted import inputs_of


def find_model(estimator: Any) -> tuple[Pipeline | None, Any]:
    """Return the model at the end of an estimator, a search or a pipeline, and the steps in front of it."""
    model, preprocessing = getattr(estimator, "best_estimator_", estimator), None
    if isinstance(model, Pipeline):
        preprocessing, model = (model[:-1] if len(model) > 1 else None), model[-1]
        model = getattr(model, "best_estimator_", model)
    return preprocessing, model


@dataclass(frozen=True)
class SelectedTerms:
    """The terms that a fitted estimator selected: of termwise or a selector of scikit-learn, or their pipeline."""

    preprocessing: Pipeline | None
    model: Any

    @classmethod
    def from_estimator(cls, estimator: Any) -> SelectedTerms:
        """Find the model that selects in a fitted estimator, a search or a pipeline."""
        preprocessing, model = find_model(estimator)
        if not (isinstance(model, TermModel) or (hasattr(model, "get_support") and hasattr(model, "transform"))):
            raise TypeError(
                f"estimator must select terms, got {type(model).__name__}, which has no get_support: use an estimator "
                "of termwise, or wrap it in scikit-learn's SelectFromModel."
            )
        return cls(preprocessing, model)

    @property
    def support(self) -> NDArray[np.intp]:
        """Positions of the terms among the candidates, in order of selection where that is known."""
        if isinstance(self.model, TermModel):
            return self.model.fitted_terms_.chosen
        return self.model.get_support(indices=True)

    @property
    def names(self) -> list[str]:
        """Names of the terms."""
        if isinstance(self.model, TermModel):
            return self.model.fitted_terms_.names
        return [str(name) for name in self.model.get_feature_names_out()]

    @property
    def intercept(self) -> bool:
        """Whether the model has an intercept, as is assumed of selectors."""
        return bool(getattr(self.model, "fit_intercept", True))

    def columns(self, X: Any) -> NDArray[np.float64]:
        """Values of the terms, (n, k)."""
        X = X if self.preprocessing is None else self.preprocessing.transform(X)
        G = design_of(self.model, X) if isinstance(self.model, TermModel) else self.model.transform(X)
        return np.asarray(to_host(densify(G)), dtype=np.float64)

    def inputs(self) -> list[tuple[int, ...]]:
        """Columns of X that each term depends on."""
        if isinstance(self.model, TermModel):
            inputs = inputs_of(self.model.fitted_terms_)
        else:
            inputs = inputs_of_columns(self.model, np.arange(len(self.support)))
        needed = np.array(sorted(set().union(*inputs)), dtype=np.intp)
        original = dict(zip(needed.tolist(), inputs_of_columns(self.preprocessing, needed), strict=True))
        return [tuple(sorted(set().union(*(original[j] for j in one)))) for one in inputs]


def refit(estimator: Any, X: Any, y: Any, sample_weight: NDArray[np.float64] | None) -> SelectedTerms:
    """Fit a clone of an estimator; weights are those of the last step of a pipeline."""
    weights = {}
    if sample_weight is not None:
        inner = getattr(estimator, "estimator", estimator)  # of a search
        prefix = f"{inner.steps[-1][0]}__" if isinstance(inner, Pipeline) else ""
        weights = {f"{prefix}sample_weight": sample_weight}
    return SelectedTerms.from_estimator(clone(estimator).fit(X, y, **weights))


def check_rows(X: Any, y: Any, sample_weight: Any, caller: str) -> tuple[Any, NDArray[np.float64] | None]:
    """Validate that X and y are in memory and of one length; return X and valid weights."""
    if is_dask(X, y) or isinstance(X, RowFile):
        raise TypeError(
            f"{caller} must be given data in memory, got {type(X).__name__}: it refits on subsets of the rows; load a "
            "sample of them."
        )
    X = check_table(X)
    check_consistent_length(np.empty(X.shape[0]), y)
    return X, None if sample_weight is None else check_counts(sample_weight, X.shape[0])
