"""Prediction by fitted models for inputs of every kind: arrays, rows of a file, and tables on a Dask cluster."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import validate_data

from termwise._arrays import Array, as_type, densify, from_host, is_foreign
from termwise._checks import is_dask
from termwise.design.files import RowFile
from termwise.estimators.data import check_inputs
from termwise.estimators.design import check_design
from termwise.execution.cluster import map_rows, without_rows
from termwise.fitted import FoldModels

if TYPE_CHECKING:
    from termwise.estimators.base import TermModel


def design_of(model: TermModel, X: Any) -> Array:
    """Validate inputs and return the columns of the chosen terms."""
    terms = model.fitted_terms_
    basis = terms.candidates.basis
    G = terms.design(check_inputs(model, X, basis, reset=False))  # also without terms: a basis validates X
    if basis is None:
        return G
    return densify(check_design(model, basis, G)) if len(terms.chosen) else densify(G)[:, :0]


def predict_outputs(model: TermModel, X: Any, return_std: bool = False, responses: bool = False) -> Any:
    """Predict the outputs of the linear model, whether they are targets or scores of classes; or the responses.

    They are in the library and on the device of X, also where the basis is evaluated on the host.
    """
    if is_dask(X):
        y = map_partitions(model, partial(predict_outputs, worker_copy(model), responses=responses), X)
        both = partial(predict_outputs, model, return_std=True)
        return (y, map_partitions(model, partial(one_result, both, 1), X)) if return_std else y
    terms = model.fitted_terms_
    if terms.candidates.basis is None and not return_std and not isinstance(X, RowFile):
        X = check_inputs(model, X, None, reset=False)
        outputs = terms.outputs_of_columns(X)
        return as_type(terms.respond(outputs, X.dtype) if responses else outputs, X.dtype)
    G = design_of(model, X)
    y = as_type(terms.responses(G) if responses else terms.outputs(G), G.dtype)
    like = X if is_foreign(X) else G
    return (from_host(y, like), from_host(terms.standard_error(G), like)) if return_std else from_host(y, like)


def clipped_inputs(model: TermModel, X: Any) -> Any:
    """Which rows have an input that is clipped for a chosen term."""
    if is_dask(X):
        validate_data(model, without_rows(X), skip_check_array=True, reset=False)
        return map_rows(partial(clipped_inputs, worker_copy(model)), X, width=None, dtype=np.bool_)
    terms = model.fitted_terms_
    return terms.clipped(check_inputs(model, X, terms.candidates.basis, reset=False))


# -- tables on a cluster -----------------------------------------------------------------------------------------------


def map_partitions(model: TermModel, function: Callable[[Any], Any], X: Any, width: int | None = None) -> Any:
    """Evaluate a function of rows on a Dask cluster; its results have the shape of predictions by default."""
    terms = model.fitted_terms_
    validate_data(model, without_rows(X), skip_check_array=True, reset=False)
    width = None if width is None and terms.one_output else width or terms.weights.shape[1]
    return map_rows(function, X, width)


def worker_copy(model: TermModel, with_folds: bool = False) -> TermModel:
    """Return a copy that predicts on a worker, without arrays as long as the training rows."""
    light, folds = copy.copy(model), model.fitted_terms_.fold_models
    folds = folds.thinned if folds is not None and with_folds else None
    light.fitted_terms_ = replace(
        model.fitted_terms_, statistics_or_solve=None, fold_models=folds, sample=None, unused=None
    )
    light.__dict__.pop("path_", None)
    return light


def one_result(evaluate: Callable[[Any], Any], index: int, X: Any) -> Any:
    """Return one of the results of a function of rows, which a worker can be sent."""
    return evaluate(X)[index]


# -- intervals ---------------------------------------------------------------------------------------------------------


def fold_models_for_intervals(model: TermModel, method: str) -> FoldModels | None:
    """Return the fold models of CV+, or None for jackknife+; raise if the model lacks what the method needs."""
    terms = model.fitted_terms_
    loss = getattr(model, "loss_", "squared")
    if terms.candidates.labels is not None:
        raise ValueError(
            f"predict_interval requires a regressor, got {type(model).__name__}: predict_proba gives the "
            "probabilities of the classes."
        )
    if loss == "quantile":
        raise ValueError(
            "predict_interval requires a model of the mean, got loss='quantile': fit quantile=(0.05, 0.95), whose "
            "predictions are the ends of an interval."
        )
    if method == "jackknife+" and (loss != "squared" or terms.link != "identity"):
        what = f"link={terms.link!r}" if loss == "squared" else f"loss={loss!r}"
        selects = "selection_cv" in model.get_params(deep=False)
        remedy = "fit with selection_cv=10" if selects else "'auto' is 'cv+' here"
        raise ValueError(
            f"method must be 'cv+' with {what}, got 'jackknife+', the closed form of least squares: {remedy}."
        )
    if method == "jackknife+" or (method == "auto" and not model.selects_terms):
        terms.loo_residuals()  # raises before a Dask graph is built
        return None
    if terms.fold_models is None:
        terms.loo_residuals()  # raises another error for a model fitted on a cluster
        raise ValueError(needs_fold_models(model, f"method={method!r}"))
    return terms.fold_models


def needs_fold_models(model: TermModel, what: str) -> str:
    """Return the message for a model that lacks fold models."""
    name, remedy = type(model).__name__, "method='jackknife+' gives intervals for fixed terms"
    parameters = model.get_params(deep=False)
    if "selection_cv" in parameters and model.selection_cv is None:
        return (
            f"{what} requires a model fitted with selection_cv, got {name} with selection_cv=None: fit with "
            f"selection_cv=10, which repeats the selection in ten folds; {remedy}."
        )
    if "selection_cv" in parameters or hasattr(model, "at"):  # which has fold models as it was fitted
        settings = f"max_terms={model.n_terms_}, criterion=None"
        settings = f"size={model.n_terms_}" if "size" in parameters else settings
        return (
            f"{what} requires the size the model was fitted with, got {name} truncated by at(): fit with "
            f"{settings}; {remedy}."
        )
    return f"{what} requires a model that repeats its selection in folds, got {name}, which has none: {remedy}."
