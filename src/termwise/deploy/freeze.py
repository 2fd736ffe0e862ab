"""Fitted estimators, and the transformers in front of them, as programs.

How a transformer becomes steps is one function each, found by its class.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import numpy as np
import scipy.linalg as sla
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import to_host
from termwise._checks import check_choice
from termwise.basis import (
    AnovaBasis,
    FourierBasis,
    LagBasis,
    LogisticBasis,
    RadialBasis,
    SmoothBasis,
    TableEncoder,
    UnionBasis,
)
from termwise.basis.base import TakenColumns
from termwise.deploy.chain import Beside, Part
from termwise.deploy.inputs import Reading, describe
from termwise.deploy.outputs import Labels, Linear
from termwise.deploy.plain import plain_scalar
from termwise.deploy.program import Program, check_lags
from termwise.deploy.steps import (
    SHIPPED,
    Anova,
    Clip,
    Columns,
    Elementwise,
    Indices,
    Lags,
    Logistic,
    Powers,
    Radial,
    Rotate,
    Standardise,
    Step,
    Stretch,
    Waves,
    positions,
)
from termwise.design import EVERY


def freeze(estimator: Any) -> Program:
    """Return a fitted estimator, or a pipeline that ends in one, as a program."""
    chain = list(flattened(estimator))
    model = chain.pop() if chain else estimator
    if not hasattr(type(model), "predictor_"):
        raise TypeError(
            f"estimator must be one of termwise's, or a pipeline that ends in one, got {type(model).__name__}: others "
            "are not linear in their terms."
        )
    check_is_fitted(model)
    names = name_terms(model, chain)
    chain += terms_of(model)
    reading, chain = front(estimator, model, chain)
    steps = tuple(step for one in chain for step in steps_of(one))
    check_lags(steps, "estimator")
    return Program(reading, steps, linear_of(model, names), labels_of(model), series_of(chain, reading)).pruned()


def terms_of(model: Any) -> list[Any]:
    """Return the transformers that make the terms of a model."""
    return [Columns(model._chosen)] if model.basis_ is None else list(flattened(model._chosen_basis))


def flattened(transformer: Any) -> Iterator[Any]:
    """Take pipelines apart, leaving out what does nothing."""
    transformer = getattr(transformer, "best_estimator_", transformer)  # of a search
    if isinstance(transformer, Pipeline):
        for _, step in transformer.steps:
            yield from flattened(step)
    elif isinstance(transformer, TakenColumns):
        yield from flattened(transformer.transformer)
        yield Columns(transformer.indices)
    elif transformer is not None and not (isinstance(transformer, str) and transformer == "passthrough"):
        yield transformer


def front(estimator: Any, model: Any, chain: list[Any]) -> tuple[Reading, list[Any]]:
    """Return how the table is read, and the rest of the chain: encoders and imputers come before all steps."""
    source = estimator if hasattr(estimator, "n_features_in_") else model
    names = getattr(source, "feature_names_in_", [f"x{j}" for j in range(source.n_features_in_)])
    fills: dict[int, Any] = {}
    categories: dict[str, Any] = {}
    while chain and isinstance(chain[0], TableEncoder | SimpleImputer):
        first, chain = chain[0], chain[1:]
        if isinstance(first, TableEncoder):
            categories |= dict(zip(map(str, names), (kinds for _, kinds in first.blocks()), strict=True))
        else:
            chain = [*steps_of(first), *chain]
            fills |= {j: value for j, value in enumerate(first.statistics_) if not np.isnan(value)}
    return Reading.of(describe(names, {k: v for k, v in categories.items() if v is not None}, fills)), chain


def name_terms(model: Any, before: list[Any]) -> tuple[str, ...]:
    """Name the terms of a model, by the names of the inputs in front of a pipeline where transformers pass them on."""
    names: Any = None
    for one in before:
        if not hasattr(one, "get_feature_names_out"):
            return tuple(model._term_names())
        names = one.get_feature_names_out(names)
    if names is None or hasattr(model, "feature_names_in_"):
        return tuple(model._term_names())
    if model.basis_ is None:
        return tuple(str(names[j]) for j in model._chosen)
    if not hasattr(model._chosen_basis, "get_feature_names_out"):
        return tuple(model._term_names())
    return tuple(map(str, model._chosen_basis.get_feature_names_out(names)))


def linear_of(model: Any, names: tuple[str, ...] | None = None) -> Linear:
    """Return the weights of a model."""
    weights, intercept = np.atleast_2d(to_host(model.weights_)), np.atleast_1d(to_host(model.intercept_))
    return Linear(tuple(model._term_names()) if names is None else names, weights, intercept, bool(model._one_output))


def labels_of(model: Any) -> Labels | None:
    """Return the classes of a classifier."""
    if not hasattr(model, "classes_"):
        return None
    classes = [plain_scalar(label, "classes") for label in model.classes_]
    return Labels(classes, getattr(model, "_sharpness", None))


def series_of(chain: list[Any], reading: Reading) -> str | None:
    """Return the input that a basis of lags takes for the output, if all before it leaves columns where they are."""
    for i, one in enumerate(chain):
        if isinstance(one, LagBasis) and all(isinstance(s, Elementwise) for t in chain[:i] for s in steps_of(t)):
            return reading.inputs[reading.sources[one.output_]].name
    return None


# -- transformers ------------------------------------------------------------------------------------------------------


class UnknownTransformer(TypeError):
    """A transformer for which there are no steps."""


def steps_of(transformer: Any) -> list[Step]:
    """Return what a fitted transformer does as steps."""
    cls = type(transformer)
    known = next(kind for kind in cls.__mro__ if kind in converted.registry)
    own = any(getattr(cls, name, None) is not getattr(known, name, None) for name in ("transform", "_evaluate"))
    if own and known is not object:  # a child that does something else than its parent
        raise unknown(transformer)
    return converted(transformer)


@singledispatch
def converted(transformer: Any) -> list[Step]:
    """Return the steps of a transformer by its class: here, of one that has no function of its own."""
    if isinstance(transformer, SelectorMixin):
        return [Columns(transformer.get_support(indices=True))]
    if hasattr(type(transformer), "predictor_"):  # one of ours as a selector: its terms in the order of the candidates
        steps = [step for one in terms_of(transformer) for step in steps_of(one)]
        return [*steps, Columns(np.argsort(transformer._chosen))]
    raise unknown(transformer)


def unknown(transformer: Any) -> UnknownTransformer:
    """Say what is known instead."""
    known = sorted({kind.__name__ for kind in converted.registry if kind not in (object, Step)})
    return UnknownTransformer(
        f"a Predictor cannot be made of {type(transformer).__name__}: it knows {', '.join(known)}, selectors of "
        "columns, and pipelines of these. Other transformers can be converted together with the model by "
        "termwise.deploy.onnx.to_onnx, which uses skl2onnx."
    )


@converted.register
def _(step: Step) -> list[Step]:
    return [step]


@converted.register
def _(encoder: TableEncoder) -> list[Step]:
    if encoder.categories_:
        raise TypeError("TableEncoder must be the first step of a pipeline if it has categories, got it later.")
    return []


@converted.register
def _(imputer: SimpleImputer) -> list[Step]:
    """Holes are filled as the table is read: behind other steps there are none."""
    values = imputer.statistics_
    numbers = np.asarray(values).dtype.kind == "f" and isinstance(imputer.missing_values, float)
    if imputer.add_indicator or not numbers:
        raise TypeError(
            "SimpleImputer must fill NaN in columns of numbers and add no indicator, got other settings: a Predictor "
            "does that only."
        )
    there = np.flatnonzero(~np.isnan(values))
    return [] if len(there) == len(values) else [Columns(there)]


@converted.register
def _(function: FunctionTransformer) -> list[Step]:
    if function.func is None:
        return []
    raise unknown(function)


@converted.register
def _(scaler: StandardScaler) -> list[Step]:
    return [standardise(scaler.mean_ if scaler.with_mean else None, scaler.scale_, scaler.n_features_in_)]


@converted.register
def _(scaler: RobustScaler) -> list[Step]:
    return [standardise(scaler.center_, scaler.scale_, scaler.n_features_in_)]


@converted.register
def _(scaler: MaxAbsScaler) -> list[Step]:
    d = scaler.n_features_in_
    clip: list[Step] = [Clip(np.full(d, -1.0), np.full(d, 1.0))] if getattr(scaler, "clip", False) else []
    return [standardise(None, scaler.scale_, d), *clip]


@converted.register
def _(scaler: MinMaxScaler) -> list[Step]:
    steps: list[Step] = [Stretch(scaler.scale_, scaler.min_)]
    low, high = (np.full(scaler.n_features_in_, float(end)) for end in scaler.feature_range)
    return [*steps, Clip(low, high)] if scaler.clip else steps


def standardise(center: Any, scale: Any, d: int) -> Step:
    """Subtract and divide, where there is something to."""
    center = np.zeros(d) if center is None else center
    return Standardise(np.asarray(center, dtype=np.float64), np.asarray(np.ones(d) if scale is None else scale, float))


@converted.register
def _(polynomials: PolynomialFeatures) -> list[Step]:
    return [Powers(polynomials.powers_)]


@converted.register
def _(union: FeatureUnion) -> list[Step]:
    sides = [list(flattened(one)) for _, one in union.transformer_list if not isinstance(one, str)]
    check_sides(union, sides)
    d = next(side[0].n_features_in_ for side in sides if side and hasattr(side[0], "n_features_in_"))
    return [beside([[step for one in side for step in steps_of(one)] for side in sides], d)]


def check_sides(union: FeatureUnion, sides: list[list[Any]]) -> None:
    """Raise unless columns side by side are neither weighted nor, each in a way of their own, filled."""
    weights = union.transformer_weights
    if weights is not None or any(isinstance(one, SimpleImputer) for side in sides for one in side):
        found = "a SimpleImputer" if weights is None else f"transformer_weights={weights!r}"
        raise UnknownTransformer(
            "FeatureUnion must have no transformer_weights and no SimpleImputer inside for a Predictor, got "
            f"{found}: scale columns behind it and fill them in front of it, or put it into a pipeline with the model, "
            "which termwise.deploy.onnx.to_onnx converts by skl2onnx."
        )


def beside(chains: list[list[Step]], d: int, order: Indices | slice = EVERY) -> Beside:
    """Put chains that all begin with the same d columns side by side; of what they yield, some or all in an order."""
    parts = tuple(Part(np.arange(d), tuple(chain)) for chain in chains)
    return Beside(parts, np.arange(sum(part.n_terms for part in parts))[order])


# -- bases -------------------------------------------------------------------------------------------------------------


@converted.register
def _(basis: RadialBasis) -> list[Step]:
    check_choice("kernel", basis.kernel, SHIPPED, remedy="a kernel of one's own cannot be kept in a file")
    centers = to_host(basis.centers_)
    width = np.asarray(basis.width_)
    if width.ndim < 2:
        return [Radial(basis.kernel, np.broadcast_to(width, centers.shape[1]), centers)]
    # (x - c)' M^-1 (x - c) = |L^-1 (x - c)|^2 with M = L L'
    root = np.linalg.cholesky(width)
    origin = centers.mean(axis=0) if len(centers) else np.zeros(len(width))
    rotate = Rotate(origin, sla.solve_triangular(root, np.eye(len(root)), lower=True).T)
    return [rotate, Radial(basis.kernel, np.ones(len(root)), rotate.evaluate(centers))]


@converted.register
def _(basis: SmoothBasis) -> list[Step]:
    inputs = np.flatnonzero(basis.relevance_)
    lines = np.flatnonzero(basis.columns_ >= 0)
    columns = basis.columns_[lines]
    parts = [Part(columns, (Standardise(basis.means_[columns], basis.deviations_[columns]),))]
    order = [lines]
    for factor in np.unique(basis.factors_[basis.columns_ < 0]):
        terms = np.flatnonzero(basis.factors_ == factor)
        centers = basis.centers_[terms][:, inputs]
        parts.append(Part(inputs, (Radial("gaussian", basis._widths_of(factor), centers),)))
        order.append(terms)
    return [Beside(tuple(parts), np.argsort(np.concatenate(order)))]


@converted.register
def _(basis: AnovaBasis) -> list[Step]:
    kinds = 1 + basis.centers_.shape[1]
    numbers = np.where(basis.inputs_ < 0, -1, basis.inputs_ * kinds + basis.bumps_)
    used = np.unique(numbers[numbers >= 0])
    columns, bumps = used // kinds, used % kinds
    places = np.column_stack([basis.means_, basis.centers_])[columns, bumps]
    units = np.where(bumps == 0, basis.deviations_[columns], basis.widths_[columns])
    first, second = positions(used, numbers).T
    return [Anova(columns, places, units, np.minimum(bumps, 1), first, second)]


@converted.register
def _(basis: FourierBasis) -> list[Step]:
    columns = basis.columns_
    return [Waves(columns, basis.origins_[columns], basis.periods_[columns], basis.harmonics_, basis.phases_)]


@converted.register
def _(basis: LogisticBasis) -> list[Step]:
    return [Logistic(basis.directions_, basis.offsets_)]


@converted.register
def _(basis: LagBasis) -> list[Step]:
    return [Lags(basis.columns_, basis.lags_)]


@converted.register
def _(basis: UnionBasis) -> list[Step]:
    return [beside([steps_of(one) for one in basis.bases_], basis.n_features_in_, basis.places_)]
