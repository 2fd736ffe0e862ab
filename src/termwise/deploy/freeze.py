"""Fitted estimators, and pipelines that end in one, as programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.impute import SimpleImputer
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import to_host
from termwise.basis import LagBasis, TableEncoder
from termwise.basis.base import Basis
from termwise.basis.encoder import ColumnEncoding
from termwise.deploy.document import plain_scalar
from termwise.deploy.inputs import InputSchema
from termwise.deploy.program import ClassLabels, FoldProgram, FoldResiduals, Linear, Program
from termwise.deploy.steps import FillMissing, ProgramStep, check_lags, prune
from termwise.deploy.transformers import flatten, is_plain, steps_of
from termwise.fitted import FittedTerms


def freeze(estimator: Any) -> Program:
    """Return a fitted estimator, or a pipeline that ends in one, as a program."""
    estimator = getattr(estimator, "pipeline_", estimator)  # lags and the model of a NarxRegressor
    chain = list(flatten(estimator))
    model = chain.pop() if chain else estimator
    if not hasattr(type(model), "predictor_"):
        raise TypeError(
            f"estimator must be one of termwise's, or a pipeline that ends in one, got {type(model).__name__}: others "
            "are not linear in their terms."
        )
    check_is_fitted(model)
    terms: FittedTerms = model.fitted_terms_
    program = _freeze_terms(estimator, model, chain, terms)
    if terms.fold_models is None:
        return program
    folds = terms.fold_models.thinned
    records = []
    for k, (one, scale) in enumerate(zip(folds.models, folds.scales, strict=True)):
        own = folds.fold == k
        assert folds.scaled_residuals is not None
        residuals = folds.residuals[own].T, folds.scaled_residuals[own].T, folds.sample_weight[own]
        numbers = FoldResiduals(*residuals, scale.weights.T, scale.intercept, scale.limits)
        records.append(FoldProgram(_freeze_terms(estimator, model, chain, one), numbers))
    return replace(program, folds=tuple(records))


def _freeze_terms(estimator: Any, model: Any, before: list[Any], terms: FittedTerms) -> Program:
    """Return terms of a model, behind the transformers of a pipeline, as a program."""
    names = _term_names(model, before, terms)
    schema, chain = _input_schema(estimator, model, [*before, *flatten(terms)])
    steps: tuple[ProgramStep, ...] = ()
    series = None
    for one in chain:
        if isinstance(one, LagBasis) and all(step.axis == "inputs" for step in steps):  # of single columns
            series = schema.inputs[schema.columns[one.output_]].name
        if isinstance(one, SimpleImputer):  # behind an encoder that leaves values missing
            steps += (FillMissing(np.nan_to_num(one.statistics_)),)
        steps += tuple(steps_of(one))
    check_lags(steps, "estimator")
    steps, columns = prune(steps, np.arange(len(names)))
    schema = replace(schema, columns=schema.columns[columns], categories=schema.categories[columns])
    link = terms.link if terms.candidates.labels is None else "identity"
    return Program(schema, steps, *outputs_of(terms, names), series, link=link)


def _input_schema(estimator: Any, model: Any, chain: list[Any]) -> tuple[InputSchema, list[Any]]:
    """Return the encoding of the table, and the rest of the chain: encoders and imputers come before all steps."""
    source = estimator if hasattr(estimator, "n_features_in_") else model
    names = getattr(source, "feature_names_in_", [f"x{j}" for j in range(source.n_features_in_)])
    fills: dict[int, Any] = {}
    encodings = [ColumnEncoding(str(name), "number") for name in names]
    while chain and isinstance(chain[0], TableEncoder | SimpleImputer) and all(is_plain(one) for one in encodings):
        first, chain = chain[0], chain[1:]
        if isinstance(first, TableEncoder):
            encodings = [replace(one, name=str(name)) for one, name in zip(first.encodings_, names, strict=True)]
        else:
            chain = [*steps_of(first), *chain]
            fills |= {j: value for j, value in enumerate(first.statistics_) if not np.isnan(value)}
    first = next((one for one in chain if not isinstance(one, OneToOneFeatureMixin)), None)
    if isinstance(first, Basis) and first.allows_missing and first.n_features_in_ == len(encodings):
        missing = first.missing_.tolist()  # without an encoder, the first basis knows what may be missing
        encodings = [replace(one, missing=one.missing or some) for one, some in zip(encodings, missing, strict=True)]
    return InputSchema.from_encodings(encodings, fills), chain


def _term_names(model: Any, before: list[Any], terms: FittedTerms) -> tuple[str, ...]:
    """Name the terms by the inputs of a whole pipeline, where the transformers before the model transmit names."""
    names = None
    for one in before:
        if not hasattr(one, "get_feature_names_out"):
            return tuple(terms.names)
        names = one.get_feature_names_out(names)
    own = terms.basis is not None and not hasattr(terms.basis, "get_feature_names_out")
    if names is None or own or hasattr(model, "feature_names_in_"):
        return tuple(terms.names)
    return tuple(map(str, names[terms.chosen] if terms.basis is None else terms.basis.get_feature_names_out(names)))


def outputs_of(terms: FittedTerms, names: Sequence[str]) -> tuple[Linear, ClassLabels | None]:
    """Return the weights of a model, its terms having these names, and the classes of a classifier."""
    linear = Linear(tuple(names), to_host(terms.weights).T, to_host(terms.intercept), terms.one_output, terms.limits)
    labels = terms.candidates.labels
    if labels is None:
        return linear, None
    return linear, ClassLabels([plain_scalar(label, "classes") for label in labels.classes], labels.slope)
