"""Fitted estimators as programs: the step of each transformer, and how its fitted attributes fill it.

A transformer has one entry here: a record of its parameters, with the expression it is evaluated by, if no other
transformer has such a step yet, and a function registered by its class that returns its steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, singledispatch
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.linalg as sla
from sklearn import preprocessing
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

from termwise import basis as bases
from termwise._arrays import to_host
from termwise._checks import check_choice
from termwise.basis import KERNELS, LagBasis, TableEncoder
from termwise.basis.base import STANDARDISED, ColumnSubset
from termwise.basis.expressions import Expression, dot, power_product, variable, z
from termwise.basis.radial import SQUARED_DISTANCE, kernel_design
from termwise.basis.waves import HIDDEN_UNIT, WAVE
from termwise.deploy.document import Integers, Reals, plain_scalar
from termwise.deploy.inputs import InputSchema
from termwise.deploy.program import (
    Branch,
    Concatenate,
    Floats,
    FormulaStep,
    Indices,
    Labels,
    Lags,
    Linear,
    PairProducts,
    Program,
    SelectColumns,
    Step,
    check_lags,
    prune,
)
from termwise.design import EVERY

FILE_KERNELS = tuple(KERNELS)  # a kernel added by a user is unknown where a file is loaded


def freeze(estimator: Any) -> Program:
    """Return a fitted estimator, or a pipeline that ends in one, as a program."""
    chain = list(flatten(estimator))
    model = chain.pop() if chain else estimator
    if not hasattr(type(model), "predictor_"):
        raise TypeError(
            f"estimator must be one of termwise's, or a pipeline that ends in one, got {type(model).__name__}: others "
            "are not linear in their terms."
        )
    check_is_fitted(model)
    names = _term_names(model, chain)
    chain += _transformers_of_terms(model)
    schema, chain = _input_schema(estimator, model, chain)
    steps = tuple(step for one in chain for step in steps_of(one))
    check_lags(steps, "estimator")
    series = _series(chain, schema)
    steps, columns = prune(steps, np.arange(len(names)))
    schema = replace(schema, columns=schema.columns[columns], categories=schema.categories[columns])
    return Program(schema, steps, linear_of(model, names), labels_of(model), series)


def flatten(transformer: Any) -> Iterator[Any]:
    """Yield the transformers of nested pipelines, without those that do nothing."""
    transformer = getattr(transformer, "best_estimator_", transformer)  # of a search
    if isinstance(transformer, Pipeline):
        for _, step in transformer.steps:
            yield from flatten(step)
    elif isinstance(transformer, ColumnSubset):
        yield from flatten(transformer.transformer)
        yield SelectColumns(transformer.indices)
    elif transformer is not None and not (isinstance(transformer, str) and transformer == "passthrough"):
        yield transformer


def _transformers_of_terms(model: Any) -> list[Any]:
    terms = model.fitted_terms_
    return [SelectColumns(terms.chosen)] if terms.basis is None else list(flatten(terms.basis))


def _input_schema(estimator: Any, model: Any, chain: list[Any]) -> tuple[InputSchema, list[Any]]:
    """Return the encoding of the table, and the rest of the chain: encoders and imputers come before all steps."""
    source = estimator if hasattr(estimator, "n_features_in_") else model
    names = getattr(source, "feature_names_in_", [f"x{j}" for j in range(source.n_features_in_)])
    fills: dict[int, Any] = {}
    categories: dict[str, Any] = {}
    while chain and isinstance(chain[0], TableEncoder | SimpleImputer):
        first, chain = chain[0], chain[1:]
        if isinstance(first, TableEncoder):
            blocks = zip(map(str, names), (kinds for _, kinds in first.blocks()), strict=True)
            categories |= {name: kinds for name, kinds in blocks if kinds is not None}
        else:
            chain = [*steps_of(first), *chain]
            fills |= {j: value for j, value in enumerate(first.statistics_) if not np.isnan(value)}
    return InputSchema.from_columns(names, categories, fills), chain


def _term_names(model: Any, before: list[Any]) -> tuple[str, ...]:
    """Name the terms by the inputs of a whole pipeline, where the transformers before the model transmit names."""
    names, terms = None, model.fitted_terms_
    for one in before:
        if not hasattr(one, "get_feature_names_out"):
            return tuple(terms.names)
        names = one.get_feature_names_out(names)
    own = terms.basis is not None and not hasattr(terms.basis, "get_feature_names_out")
    if names is None or own or hasattr(model, "feature_names_in_"):
        return tuple(terms.names)
    return tuple(map(str, names[terms.chosen] if terms.basis is None else terms.basis.get_feature_names_out(names)))


def linear_of(model: Any, names: tuple[str, ...] | None = None) -> Linear:
    """Return the weights of a model."""
    terms = model.fitted_terms_
    names = tuple(terms.names) if names is None else names
    return Linear(names, to_host(terms.weights).T, to_host(terms.intercept), terms.one_output)


def labels_of(model: Any) -> Labels | None:
    """Return the classes of a classifier."""
    labels = model.fitted_terms_.candidates.labels
    if labels is None:
        return None
    return Labels([plain_scalar(label, "classes") for label in labels.classes], labels.slope)


def _series(chain: list[Any], schema: InputSchema) -> str | None:
    """Return the input that a basis of lags uses as the output, if all steps before it act on single columns."""
    for i, one in enumerate(chain):
        if isinstance(one, LagBasis):
            before = [step for transformer in chain[:i] for step in steps_of(transformer)]
            if all(isinstance(step, FormulaStep) and step.axis == "inputs" for step in before):
                return schema.inputs[schema.columns[one.output_]].name
    return None


# -- transformers ------------------------------------------------------------------------------------------------------


class UnsupportedTransformer(TypeError):
    """A transformer that has no steps."""


def supported() -> list[type]:
    """Return the classes of transformers that have steps."""
    return [kind for kind in _steps.registry if kind is not object]


def _unsupported(transformer: Any) -> UnsupportedTransformer:
    names = sorted(kind.__name__ for kind in supported())
    return UnsupportedTransformer(
        f"a Predictor cannot be made of {type(transformer).__name__}: it supports {', '.join(names)}, selectors of "
        "columns, and pipelines of these. Other transformers can be converted together with the model by "
        "termwise.deploy.onnx.to_onnx, which uses skl2onnx."
    )


def steps_of(transformer: Any) -> list[Step]:
    """Return a fitted transformer as steps."""
    if isinstance(transformer, Step):
        return [transformer]
    cls = type(transformer)
    parent = next(kind for kind in cls.__mro__ if kind in _steps.registry)
    changed = any(getattr(cls, name, None) is not getattr(parent, name, None) for name in ("transform", "evaluate"))
    if changed and parent is not object:  # a subclass with another formula than its parent
        raise _unsupported(transformer)
    return _steps(transformer)


@singledispatch
def _steps(transformer: Any) -> list[Step]:
    """Return the steps of a transformer by its class: here, of one without an entry of its own."""
    if isinstance(transformer, SelectorMixin):
        return [SelectColumns(transformer.get_support(indices=True))]
    if hasattr(type(transformer), "predictor_"):  # one of ours as a selector: its terms in the order of the candidates
        steps = [step for one in _transformers_of_terms(transformer) for step in steps_of(one)]
        return [*steps, SelectColumns(np.argsort(transformer.fitted_terms_.chosen))]
    raise _unsupported(transformer)


@_steps.register
def _(encoder: TableEncoder) -> list[Step]:
    if encoder.categories_:
        raise TypeError("TableEncoder must be the first step of a pipeline if it has categories, got it later.")
    return []


@_steps.register
def _(imputer: SimpleImputer) -> list[Step]:
    """Missing values are filled by the schema: behind other steps there are none."""
    values = imputer.statistics_
    numeric = np.asarray(values).dtype.kind == "f" and isinstance(imputer.missing_values, float)
    if imputer.add_indicator or not numeric:
        raise TypeError(
            "SimpleImputer must fill NaN in columns of numbers and add no indicator, got other settings: a Predictor "
            "does that only."
        )
    kept = np.flatnonzero(~np.isnan(values))
    return [] if len(kept) == len(values) else [SelectColumns(kept)]


@_steps.register
def _(function: preprocessing.FunctionTransformer) -> list[Step]:
    if function.func is not None:
        raise _unsupported(function)
    return []


# -- scalers


@dataclass(frozen=True, eq=False)
class Standardise(FormulaStep):
    """Subtract and divide: scikit-learn's StandardScaler, RobustScaler and MaxAbsScaler."""

    kind: ClassVar[str] = "standardise"
    expression: ClassVar[Any] = STANDARDISED
    axis: ClassVar[str] = "inputs"
    center: Annotated[Floats, Reals(("inputs",))]
    scale: Annotated[Floats, Reals(("inputs",), nonzero=True)]


@dataclass(frozen=True, eq=False)
class MinMaxScale(FormulaStep):
    """Multiply and add: scikit-learn's MinMaxScaler."""

    kind: ClassVar[str] = "stretch"
    expression: ClassVar[Any] = z * variable("factor") + variable("offset")
    axis: ClassVar[str] = "inputs"
    factor: Annotated[Floats, Reals(("inputs",))]
    offset: Annotated[Floats, Reals(("inputs",))]


@dataclass(frozen=True, eq=False)
class Clip(FormulaStep):
    """Restrict to an interval."""

    kind: ClassVar[str] = "clip"
    expression: ClassVar[Any] = np.minimum(np.maximum(z, variable("low")), variable("high"))
    axis: ClassVar[str] = "inputs"
    low: Annotated[Floats, Reals(("inputs",))]
    high: Annotated[Floats, Reals(("inputs",))]


@_steps.register(preprocessing.StandardScaler)
@_steps.register(preprocessing.RobustScaler)
@_steps.register(preprocessing.MaxAbsScaler)
def _(scaler: Any) -> list[Step]:
    d = scaler.n_features_in_
    center = getattr(scaler, "mean_" if isinstance(scaler, preprocessing.StandardScaler) else "center_", None)
    if isinstance(scaler, preprocessing.StandardScaler) and not scaler.with_mean:
        center = None
    center, scale = np.zeros(d) if center is None else center, np.ones(d) if scaler.scale_ is None else scaler.scale_
    steps: list[Step] = [Standardise(np.asarray(center, dtype=np.float64), np.asarray(scale, dtype=np.float64))]
    return [*steps, Clip(-np.ones(d), np.ones(d))] if getattr(scaler, "clip", False) else steps


@_steps.register
def _(scaler: preprocessing.MinMaxScaler) -> list[Step]:
    steps: list[Step] = [MinMaxScale(scaler.scale_, scaler.min_)]
    low, high = (np.full(scaler.n_features_in_, float(end)) for end in scaler.feature_range)
    return [*steps, Clip(low, high)] if scaler.clip else steps


# -- polynomials and unions of features


@dataclass(frozen=True, eq=False)
class Polynomial(FormulaStep):
    """Products of powers: scikit-learn's PolynomialFeatures."""

    kind: ClassVar[str] = "powers"
    expression: ClassVar[Any] = power_product(z, variable("powers"))
    powers: Annotated[Indices, Integers(("terms", "inputs"))]

    def restrict(self, terms: Indices) -> tuple[Step, Indices]:
        """Restrict it to some products and the columns in them."""
        powers = self.powers[terms]
        needed = np.flatnonzero(powers.any(axis=0))
        return Polynomial(powers[:, needed]), needed


_steps.register(preprocessing.PolynomialFeatures, lambda polynomials: [Polynomial(polynomials.powers_)])


@_steps.register
def _(union: FeatureUnion) -> list[Step]:
    branches = [list(flatten(one)) for _, one in union.transformer_list if not isinstance(one, str)]
    weights = union.transformer_weights
    if weights is not None or any(isinstance(one, SimpleImputer) for branch in branches for one in branch):
        found = "a SimpleImputer" if weights is None else f"transformer_weights={weights!r}"
        raise UnsupportedTransformer(
            "FeatureUnion must have no transformer_weights and no SimpleImputer inside for a Predictor, got "
            f"{found}: scale columns behind it and fill them in front of it, or put it into a pipeline with the model, "
            "which termwise.deploy.onnx.to_onnx converts by skl2onnx."
        )
    d = next(one[0].n_features_in_ for one in branches if one and hasattr(one[0], "n_features_in_"))
    return [_concatenate([[step for one in branch for step in steps_of(one)] for branch in branches], d)]


def _concatenate(chains: list[list[Step]], d: int, order: Indices | slice = EVERY) -> Concatenate:
    """Concatenate chains that are all applied to the same d columns; of their terms, some or all in an order."""
    parts = tuple(Branch(np.arange(d), tuple(chain)) for chain in chains)
    return Concatenate(parts, np.arange(sum(part.n_terms for part in parts))[order])


# -- bases -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Whiten(FormulaStep):
    """`(z - center) matrix`: transforms a metric into the identity."""

    kind: ClassVar[str] = "rotate"
    expression: ClassVar[Any] = dot(z - variable("center"), variable("matrix"))
    center: Annotated[Floats, Reals(("inputs",))]
    matrix: Annotated[Floats, Reals(("inputs", "terms"))]


@cache
def _radial_expression(kernel: str) -> Expression:
    return KERNELS[kernel].substitute(r2=SQUARED_DISTANCE)


@dataclass(frozen=True, eq=False)
class Radial(FormulaStep):
    """Radial functions around centres, with a kernel of `RadialBasis` and a width for each input."""

    kind: ClassVar[str] = "radial"
    kernel: Annotated[str, FILE_KERNELS]
    widths: Annotated[Floats, Reals(("inputs",), positive=True)]
    centers: Annotated[Floats, Reals(("terms", "inputs"))]

    @property
    def expression(self) -> Expression:
        """The kernel of the squared distance."""
        return _radial_expression(self.kernel)

    def evaluate(self, Z: Floats) -> Floats:
        """Evaluate by matrix products, as `RadialBasis` does: the expression would need n x terms x inputs numbers."""
        return kernel_design(Z, self.centers, self.widths, self.kernel).columns(EVERY)


@_steps.register
def _(basis: bases.RadialBasis) -> list[Step]:
    check_choice("kernel", basis.kernel, FILE_KERNELS, remedy="a kernel of one's own cannot be stored in a file")
    centers = to_host(basis.centers_)
    width = np.asarray(basis.width_)
    if width.ndim < 2:
        return [Radial(basis.kernel, np.broadcast_to(width, centers.shape[1]), centers)]
    # (x - c)' M^-1 (x - c) = |L^-1 (x - c)|^2 with M = L L'
    root = np.linalg.cholesky(width)
    origin = centers.mean(axis=0) if len(centers) else np.zeros(len(width))
    whiten = Whiten(origin, sla.solve_triangular(root, np.eye(len(root)), lower=True).T)
    return [whiten, Radial(basis.kernel, np.ones(len(root)), whiten.evaluate(centers))]


@_steps.register
def _(basis: bases.SmoothBasis) -> list[Step]:
    inputs, linear = np.flatnonzero(basis.relevance_), np.flatnonzero(basis.columns_ >= 0)
    columns = basis.columns_[linear]
    parts = [Branch(columns, (Standardise(basis.means_[columns], basis.deviations_[columns]),))]
    order = [linear]
    for terms, widths, centers in basis.gaussians():
        parts.append(Branch(inputs, (Radial("gaussian", widths, centers),)))
        order.append(terms)
    return [Concatenate(tuple(parts), np.argsort(np.concatenate(order)))]


_steps.register(bases.AnovaBasis, lambda basis: [PairProducts(**basis.frozen())])


@dataclass(frozen=True, eq=False)
class Fourier(FormulaStep):
    """Sines with a frequency and a phase, of `FourierBasis`."""

    kind: ClassVar[str] = "waves"
    expression: ClassVar[Any] = WAVE
    columns: Annotated[Indices, Integers(("terms",), of="inputs")]
    origins: Annotated[Floats, Reals(("terms",))]
    periods: Annotated[Floats, Reals(("terms",), positive=True)]
    harmonics: Annotated[Indices, Integers(("terms",), low=1)]
    phases: Annotated[Floats, Reals(("terms",))]


@_steps.register
def _(basis: bases.FourierBasis) -> list[Step]:
    columns = basis.columns_
    return [Fourier(columns, basis.origins_[columns], basis.periods_[columns], basis.harmonics_, basis.phases_)]


@dataclass(frozen=True, eq=False)
class Logistic(FormulaStep):
    """Logistic hidden units, of `LogisticBasis`."""

    kind: ClassVar[str] = "logistic"
    expression: ClassVar[Any] = HIDDEN_UNIT
    directions: Annotated[Floats, Reals(("terms", "inputs"))]
    offsets: Annotated[Floats, Reals(("terms",))]


_steps.register(bases.LogisticBasis, lambda basis: [Logistic(basis.directions_, basis.offsets_)])


_steps.register(bases.LagBasis, lambda basis: [Lags(basis.columns_, basis.lags_)])


_steps.register(
    bases.UnionBasis,
    lambda basis: [_concatenate([steps_of(one) for one in basis.bases_], basis.n_features_in_, basis.places_)],
)
