"""Fitted transformers as steps of a program.

A transformer has one entry here: a record of its parameters, with the expression it is evaluated by, if no other
transformer has such a step yet, and a function registered by its class that returns its steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Annotated, Any

import numpy as np
import scipy.linalg as sla
from sklearn import preprocessing
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline

from termwise import basis as bases
from termwise._arrays import to_host
from termwise._checks import check_choice
from termwise.basis import KERNELS, TableEncoder
from termwise.basis.base import ColumnSubset
from termwise.basis.encoder import ColumnEncoding
from termwise.basis.expressions import Expression, dot, power_product, variable, z
from termwise.basis.inputs import CLIPPED, STANDARDISED, linear_ranges
from termwise.basis.radial import SQUARED_DISTANCE, kernel_design
from termwise.basis.smooth import PRESENT_GAUSSIAN, present_gaussians
from termwise.basis.waves import HIDDEN_UNIT, WAVE
from termwise.deploy.document import Integers, Reals
from termwise.deploy.steps import (
    Branch,
    ClipToRange,
    Concatenate,
    FillMissing,
    Floats,
    Indices,
    Lags,
    LevelEffects,
    Logarithms,
    PairProducts,
    PresentPairProducts,
    ProgramStep,
    SelectColumns,
)
from termwise.design import EVERY
from termwise.fitted import FittedTerms

# of radial functions, by the kernels of files: one that a user adds is unknown where a file is loaded
RADIAL = {name: kernel.substitute(r2=SQUARED_DISTANCE) for name, kernel in KERNELS.items()}

FEW_DISTANCES = 1 << 12  # differences of an input, up to which the expression takes less time than preparing products


def flatten(transformer: Any) -> Iterator[Any]:
    """Yield the transformers of nested pipelines, or of the terms of a model, without those that do nothing."""
    transformer = getattr(transformer, "best_estimator_", transformer)  # of a search
    if isinstance(transformer, Pipeline):
        for _, step in transformer.steps:
            yield from flatten(step)
    elif isinstance(transformer, FittedTerms):
        yield from [SelectColumns(transformer.chosen)] if transformer.basis is None else flatten(transformer.basis)
    elif isinstance(transformer, ColumnSubset):
        yield from flatten(transformer.transformer)
        yield SelectColumns(transformer.indices)
    elif transformer is not None and not (isinstance(transformer, str) and transformer == "passthrough"):
        yield transformer


class UnsupportedTransformer(TypeError):
    """A transformer that has no steps."""


def _unsupported(transformer: Any) -> UnsupportedTransformer:
    names = sorted(kind.__name__ for kind in steps_by_class.registry if kind is not object)
    return UnsupportedTransformer(
        f"a Predictor cannot be made of {type(transformer).__name__}: it supports {', '.join(names)}, selectors of "
        "columns, and pipelines of these. Other transformers can be converted together with the model by "
        "termwise.deploy.onnx.to_onnx, which uses skl2onnx."
    )


def steps_of(transformer: Any) -> list[ProgramStep]:
    """Return a fitted transformer as steps."""
    if isinstance(transformer, ProgramStep):
        return [transformer]
    cls = type(transformer)
    parent = next(kind for kind in cls.__mro__ if kind in steps_by_class.registry)
    changed = any(getattr(cls, name, None) is not getattr(parent, name, None) for name in ("transform", "evaluate"))
    if changed and parent is not object:  # a subclass with another formula than its parent
        raise _unsupported(transformer)
    return steps_by_class(transformer)


@singledispatch
def steps_by_class(transformer: Any) -> list[ProgramStep]:
    """Return the steps of a transformer by its class: here, of one without an entry of its own."""
    if isinstance(transformer, SelectorMixin):
        return [SelectColumns(transformer.get_support(indices=True))]
    if hasattr(type(transformer), "predictor_"):  # one of ours as a selector: its terms in the order of the candidates
        steps = [step for one in flatten(transformer.fitted_terms_) for step in steps_of(one)]
        return [*steps, SelectColumns(np.argsort(transformer.fitted_terms_.chosen))]
    raise _unsupported(transformer)


# -- selectors, imputers and encoders


def is_plain(encoding: ColumnEncoding) -> bool:
    """Whether a column of a table is encoded as itself."""
    return encoding.kind == "number" and not encoding.missing


@steps_by_class.register
def _(encoder: TableEncoder) -> list[ProgramStep]:
    if not all(is_plain(one) for one in encoder.encodings_):
        raise TypeError(
            "TableEncoder must be the first step of a pipeline if it has categories, dates or missing values, got it "
            "later."
        )
    return []


@steps_by_class.register
def _(imputer: SimpleImputer) -> list[ProgramStep]:
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


@steps_by_class.register
def _(function: preprocessing.FunctionTransformer) -> list[ProgramStep]:
    if function.func is not None:
        raise _unsupported(function)
    return []


# -- scalers


class Standardise(ProgramStep, kind="standardise", axis="inputs", expression=STANDARDISED):
    """Subtract and divide: scikit-learn's StandardScaler, RobustScaler and MaxAbsScaler."""

    center: Annotated[Floats, Reals(("inputs",))]
    scale: Annotated[Floats, Reals(("inputs",), nonzero=True)]


class MinMaxScale(ProgramStep, kind="stretch", axis="inputs", expression=z * variable("factor") + variable("offset")):
    """Multiply and add: scikit-learn's MinMaxScaler."""

    factor: Annotated[Floats, Reals(("inputs",))]
    offset: Annotated[Floats, Reals(("inputs",))]


class Clip(ProgramStep, kind="clip", axis="inputs", expression=CLIPPED):
    """Restrict to an interval: `clip` of MinMaxScaler.

    The expression is that of `ClipToRange`, whose ends are the range of the training data: rows beyond it are reported.
    """

    low: Annotated[Floats, Reals(("inputs",))]
    high: Annotated[Floats, Reals(("inputs",))]


@steps_by_class.register(preprocessing.StandardScaler)
@steps_by_class.register(preprocessing.RobustScaler)
@steps_by_class.register(preprocessing.MaxAbsScaler)
@steps_by_class.register(preprocessing.MinMaxScaler)
def _(scaler: Any) -> list[ProgramStep]:
    d, bounds = scaler.n_features_in_, getattr(scaler, "feature_range", (-1, 1))
    steps: list[ProgramStep] = []
    if isinstance(scaler, preprocessing.MinMaxScaler):
        steps = [MinMaxScale(scaler.scale_, scaler.min_)]
    else:
        standard = isinstance(scaler, preprocessing.StandardScaler)
        center = getattr(scaler, "mean_" if standard else "center_", None)
        center = np.zeros(d) if center is None or (standard and not scaler.with_mean) else center
        scale = np.ones(d) if scaler.scale_ is None else scaler.scale_
        steps = [Standardise(np.asarray(center, dtype=np.float64), np.asarray(scale, dtype=np.float64))]
    if getattr(scaler, "clip", False):
        steps.append(Clip(*(np.full(d, float(end)) for end in bounds)))
    return steps


# -- polynomials and unions of features


class Polynomial(ProgramStep, kind="powers", expression=power_product(z, variable("powers"))):
    """Products of powers: scikit-learn's PolynomialFeatures."""

    powers: Annotated[Indices, Integers(("terms", "inputs"))]

    def restrict(self, terms: Indices) -> tuple[ProgramStep, Indices]:
        """Restrict it to some products and the columns in them."""
        powers = self.powers[terms]
        needed = np.flatnonzero(powers.any(axis=0))
        return Polynomial(powers[:, needed]), needed


steps_by_class.register(preprocessing.PolynomialFeatures, lambda polynomials: [Polynomial(polynomials.powers_)])


@steps_by_class.register
def _(union: FeatureUnion) -> list[ProgramStep]:
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


def _concatenate(chains: list[list[ProgramStep]], d: int, order: Indices | slice = EVERY) -> Concatenate:
    """Concatenate chains that are all applied to the same d columns; of their terms, some or all in an order."""
    parts = tuple(Branch(np.arange(d), tuple(chain)) for chain in chains)
    return Concatenate(parts, np.arange(sum(part.n_terms for part in parts))[order])


# -- bases -------------------------------------------------------------------------------------------------------------


class Whiten(ProgramStep, kind="rotate", expression=dot(z - variable("center"), variable("matrix"))):
    """`(z - center) matrix`: transforms a metric into the identity."""

    center: Annotated[Floats, Reals(("inputs",))]
    matrix: Annotated[Floats, Reals(("inputs", "terms"))]


class Radial(ProgramStep, kind="radial"):
    """Radial functions around centres, with a kernel of `RadialBasis` and a width for each input."""

    kernel: Annotated[str, tuple(RADIAL)]
    widths: Annotated[Floats, Reals(("inputs",), positive=True)]
    centers: Annotated[Floats, Reals(("terms", "inputs"))]

    @property
    def expression(self) -> Expression:
        """The kernel of the squared distance."""
        return RADIAL[self.kernel]

    def evaluate(self, Z: Floats) -> Floats:
        """Evaluate by matrix products, as `RadialBasis` does: the expression needs n x terms x inputs numbers."""
        if len(Z) * self.centers.size <= FEW_DISTANCES:
            return super().evaluate(Z)
        return kernel_design(Z, self.centers, self.widths, self.kernel).columns(EVERY)


class PresentGaussian(ProgramStep, kind="present_gaussian", expression=PRESENT_GAUSSIAN):
    """Gaussians around centres that ignore missing inputs, of `SmoothBasis`."""

    widths: Annotated[Floats, Reals(("inputs",), positive=True)]
    centers: Annotated[Floats, Reals(("terms", "inputs"))]

    def evaluate(self, Z: Floats) -> Floats:
        """Evaluate by matrix products, as `SmoothBasis` does."""
        return present_gaussians(Z, self.centers, self.widths)


def _clip_to(ranges: Floats) -> list[ProgramStep]:
    """Return the step that clips inputs to ranges (2, inputs), or none if these are infinite."""
    return [ClipToRange(*ranges)] if np.isfinite(ranges).all() else []


def _clip_all(basis: Any) -> list[ProgramStep]:
    """Return the step in front of a basis that clips all of its inputs or none."""
    return _clip_to(to_host(basis.ranges_)) if basis.extrapolation == "clip" else []


@steps_by_class.register
def _(basis: bases.RadialBasis) -> list[ProgramStep]:
    check_choice("kernel", basis.kernel, RADIAL, remedy="a kernel of one's own cannot be stored in a file")
    centers = to_host(basis.centers_)
    width = np.asarray(basis.width_)
    if width.ndim < 2:
        return [*_clip_all(basis), Radial(basis.kernel, np.broadcast_to(width, centers.shape[1]), centers)]
    # (x - c)' M^-1 (x - c) = |L^-1 (x - c)|^2 with M = L L'
    root = np.linalg.cholesky(width)
    origin = centers.mean(axis=0) if len(centers) else np.zeros(len(width))
    whiten = Whiten(origin, sla.solve_triangular(root, np.eye(len(root)), lower=True).T)
    return [*_clip_all(basis), whiten, Radial(basis.kernel, np.ones(len(root)), whiten.evaluate(centers))]


@steps_by_class.register
def _(basis: bases.SmoothBasis) -> list[ProgramStep]:
    inputs, linear = np.flatnonzero(basis.relevance_), np.flatnonzero(basis.columns_ >= 0)
    columns = basis.columns_[linear]
    clip = _clip_to(linear_ranges(basis.extrapolation, basis.ranges_, basis.deviations_)[:, columns])
    clip = [FillMissing(basis.means_[columns])] * bool(basis.missing_[columns].any()) + clip
    parts = [Branch(columns, (*clip, Standardise(basis.means_[columns], basis.deviations_[columns])))]
    order = [linear]
    for terms, widths, centers in basis.gaussians():
        clip = [] if basis.extrapolation == "continue" else _clip_to(basis.ranges_[:, inputs])
        some_missing = basis.missing_[inputs].any()
        last = PresentGaussian(widths, centers) if some_missing else Radial("gaussian", widths, centers)
        parts.append(Branch(inputs, (*clip, last)))
        order.append(terms)
    return [Concatenate(tuple(parts), np.argsort(np.concatenate(order)))]


@steps_by_class.register
def _(basis: bases.AnovaBasis) -> list[ProgramStep]:
    """Single functions are of two copies of the inputs: those of linear functions alone, and those of all others."""
    parameters = basis.frozen()
    clipped, d = parameters.pop("clipped"), basis.n_features_in_
    step = PresentPairProducts if basis.missing_[parameters["columns"]].any() else PairProducts
    linear, within = _clip_to(basis.linear_ranges()), _clip_to(basis.ranges_)
    if len(set(clipped.tolist())) < 2:
        return [*(within if clipped.any() else linear), step(**parameters)]
    parameters["columns"] = parameters["columns"] + d * clipped
    return [_concatenate([linear, within], d), step(**parameters)]


@steps_by_class.register
def _(basis: bases.RuleBasis) -> list[ProgramStep]:
    """Products of two conditions, then products of two of these."""
    conditions, products = basis.frozen()
    step = PresentPairProducts if basis.missing_[conditions["columns"]].any() else PairProducts
    return [step(**conditions), PairProducts(**products)]


class Fourier(ProgramStep, kind="waves", expression=WAVE):
    """Sines with a frequency and a phase, of `FourierBasis`."""

    columns: Annotated[Indices, Integers(("terms",), of="inputs")]
    origins: Annotated[Floats, Reals(("terms",))]
    periods: Annotated[Floats, Reals(("terms",), positive=True)]
    harmonics: Annotated[Indices, Integers(("terms",), low=1)]
    phases: Annotated[Floats, Reals(("terms",))]


@steps_by_class.register
def _(basis: bases.FourierBasis) -> list[ProgramStep]:
    columns = basis.columns_
    waves = Fourier(columns, basis.origins_[columns], basis.periods_[columns], basis.harmonics_, basis.phases_)
    return [*_clip_all(basis), waves]


class Logistic(ProgramStep, kind="logistic", expression=HIDDEN_UNIT):
    """Logistic hidden units, of `LogisticBasis`."""

    directions: Annotated[Floats, Reals(("terms", "inputs"))]
    offsets: Annotated[Floats, Reals(("terms",))]


steps_by_class.register(
    bases.LogisticBasis, lambda basis: [*_clip_all(basis), Logistic(basis.directions_, basis.offsets_)]
)


steps_by_class.register(bases.LagBasis, lambda basis: [Lags(basis.columns_, basis.lags_)])


steps_by_class.register(
    bases.UnionBasis,
    lambda basis: [_concatenate([steps_of(one) for one in basis.bases_], basis.n_features_in_, basis.places_)],
)


@steps_by_class.register
def _(basis: bases.LevelMeans) -> list[ProgramStep]:
    """Effects on the first target replace the numbers of levels, those on others follow all inputs."""
    columns = basis.sources()
    sizes = np.zeros_like(columns)
    effects: dict[int, Floats] = {}
    further = (len(columns) - basis.n_features_in_) // max(1, len(basis.columns_))
    for i, (j, own) in enumerate(zip(basis.columns_, basis.effects_, strict=True)):
        effects |= {j: own[:, 0]}
        effects |= {basis.n_features_in_ + i * further + k: own[:, 1 + k] for k in range(further)}
    for place, own in effects.items():
        sizes[place] = len(own)
    flat = np.concatenate([np.empty(0), *(effects[place] for place in sorted(effects))])
    return [LevelEffects(columns, sizes, flat), *steps_of(basis.basis_)]


steps_by_class.register(bases.LogInputs, lambda basis: [Logarithms(**basis.parameters()), *steps_of(basis.basis_)])
