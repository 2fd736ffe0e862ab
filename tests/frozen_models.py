"""Fitted models of all kinds, to be frozen: every estimator with every basis, one target and several, classes."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler

from termwise import (
    AnovaBasis,
    BasisRidge,
    CriterionSearch,
    EvidenceForwardRegressor,
    ForwardClassifier,
    ForwardRegressor,
    FourierBasis,
    LagBasis,
    LocalRidge,
    LogisticBasis,
    OnlineRidge,
    OrthogonalThresholdRegressor,
    PrefilterClassifier,
    RadialBasis,
    RuleBasis,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    UnionBasis,
)
from termwise.basis import LevelMeans, LogInputs, TableEncoder
from termwise.basis.encoder import VALUE, ColumnEncoding
from termwise.deploy.inputs import InputSchema
from termwise.deploy.predictor import Predictor
from termwise.deploy.steps import apply

RNG = np.random.default_rng(7)
N = 60
X = RNG.normal(size=(N, 4)) * [1.0, 2.0, 3.0, 0.5] + [0.0, 1.0, 50.0, 0.0]
y = np.sin(X[:, 0]) + X[:, 1] * X[:, 3] + 0.1 * RNG.normal(size=N)
Y = np.column_stack([y, X[:, 0] ** 2])
TWO = np.where(y > 0, "yes", "no")
THREE = np.digitize(y, [-0.7, 0.7]) + 5
FRAME = pd.DataFrame(X, columns=["speed", "load", "heat", "noise"])
FRAME["kind"] = pd.Categorical(RNG.choice(["u", "v", "w"], N))
FRAME["level"] = pd.Categorical(RNG.choice([10, 20], N))
Y_FRAME = y + 2.0 * (FRAME["kind"] == "v") - (FRAME["level"] == 10)
ROOT = RNG.normal(size=(4, 4))
MISSING = np.where(np.random.default_rng(1).uniform(size=X.shape) < [0.3, 0.0, 0.2, 0.1], np.nan, X)
LEVELS = np.column_stack([MISSING, np.arange(N) % 11])
Y_LEVELS = Y + 3.0 * (LEVELS[:, 4:] % 3)
# Two inputs that are nearly equal, and corners of their ranges, where their product is far from all targets.
EQUAL = np.random.default_rng(3).uniform(-2, 2, size=(80, 2)) * [1.0, 0.2] @ [[1.0, 1.0], [0.0, 1.0]]
LOWEST, HIGHEST = EQUAL.min(axis=0), EQUAL.max(axis=0)
CORNERS = np.vstack(
    [[[0.9 * a, 0.8 * b] for a in (LOWEST[0], HIGHEST[0]) for b in (LOWEST[1], HIGHEST[1])], EQUAL[:20]]
)
PRODUCT = EQUAL.prod(axis=1) + 0.05 * np.random.default_rng(4).normal(size=80)

BASES: dict[str, Any] = {
    "columns": None,
    "gaussian": RadialBasis(width=4.0, centers=20),
    "multiquadric matrix": RadialBasis("multiquadric", width=ROOT @ ROOT.T + 9 * np.eye(4), centers=15),
    "inverse multiquadric vector": RadialBasis("inverse_multiquadric", width=[1.0, 2.0, 3.0, 1.0], centers=15),
    "cauchy": RadialBasis("cauchy", width="median", centers=X[:10]),
    "smooth": SmoothBasis(width=("median", [0.5, 2.0]), centers=12),
    "relevant": SmoothBasis(width=[1.0, 2.0], centers=12, relevance="auto"),
    "anova": AnovaBasis(n_centers=3, min_count=5),
    "shapes": AnovaBasis(min_count=20, functions=("hinge", "step", "ramp"), n_knots=1),
    "logarithms": LogInputs(SmoothBasis(width=("median", [0.5, 2.0]), centers=12), columns=[2]),
    "shifted logarithms": make_pipeline(MinMaxScaler(clip=True), LogInputs(AnovaBasis(2, min_count=5), [0, 2])),
    "fourier": FourierBasis(n_harmonics=2),
    "logistic": LogisticBasis(n_units=15),
    "rules": UnionBasis([AnovaBasis(n_centers=0, order=1), RuleBasis(n_trees=10, max_conditions=4)]),
    "lag": LagBasis([1, 3], input_lags=[0, 2]),
    "polynomials": PolynomialFeatures(2),
    "union": UnionBasis(
        [AnovaBasis(n_centers=2, min_count=5), SmoothBasis(width=("median", [0.5, 2.0]), centers=8), FourierBasis(1)]
    ),
    "standard": make_pipeline(StandardScaler(), RadialBasis(width=2.0, centers=20)),
    "min-max": make_pipeline(MinMaxScaler(clip=True), AnovaBasis(n_centers=2, order=1)),
    "robust, max-abs": make_pipeline(RobustScaler(), "passthrough", MaxAbsScaler(), FourierBasis(n_harmonics=1)),
}
TABLE_OF_UNIONS = make_pipeline(
    TableEncoder(),
    UnionBasis(
        [
            UnionBasis([AnovaBasis(min_count=5), RadialBasis(width=6.0)]),
            SmoothBasis(width=("median", 0.7), linear=False),
        ]
    ),
)
FEATURE_UNION = FeatureUnion(
    [
        ("left out", "drop"),
        ("scaled", make_pipeline(StandardScaler(), SmoothBasis(centers=9), MinMaxScaler())),
        ("as they are", "passthrough"),
        ("others", FeatureUnion([("squares", PolynomialFeatures(2)), ("waves", FourierBasis(2))])),
    ]
)
REGRESSORS = [
    BasisRidge(),
    LocalRidge(),
    ForwardRegressor(max_terms=8),
    EvidenceForwardRegressor(max_terms=8),
    OrthogonalThresholdRegressor(),
    OrthogonalThresholdRegressor(method="gram_schmidt"),
    OnlineRidge(alpha=0.1),
]
CLASSIFIERS = [ForwardClassifier(max_terms=8), PrefilterClassifier(max_terms=8)]


def schema_of(names: Any, categories: Any = (), fills: Any = ()) -> InputSchema:
    """Encode columns by indicators of their categories, given by name; replacements of missing values by position."""
    categories, encodings = dict(categories), []
    for name in names:
        own = tuple(categories.get(name, ()))
        codes = tuple(range(len(own))) if name in categories else (VALUE,)
        encodings.append(ColumnEncoding(name, "category" if name in categories else "number", own, codes=codes))
    return InputSchema.from_encodings(encodings, dict(fills))


class Case(NamedTuple):
    name: str
    model: Any  # fitted
    X: Any

    @property
    def predictor(self) -> Predictor:
        return frozen(self.name)

    @property
    def rows(self) -> list[list[Any]]:
        """The samples as plain lists."""
        return self.X.to_numpy(dtype=object).tolist() if hasattr(self.X, "iloc") else np.asarray(self.X).tolist()

    def outputs(self, predictor: Any = None) -> Any:
        """What the model, or another one, puts out for the samples."""
        predictor = self.model if predictor is None else predictor
        classes = hasattr(self.model, "classes_")
        return predictor.decision_function(self.X) if classes else predictor.predict(self.X)

    def scale(self) -> Any:
        """Sizes of what is added up to the outputs: rounding is a share of these."""
        program = self.predictor._program
        G = apply(program.steps, program.schema.encode(self.X, complete=False))
        sizes = np.abs(G) @ np.abs(program.linear.weights.T) + np.abs(program.linear.intercept)
        if program.link == "log":  # an error of the exponent is a relative one of the result
            sizes = sizes * np.exp(program.outputs(self.X))
        return sizes[:, 0] if program.linear.one_output else sizes


def _unfitted() -> Any:
    for number, (name, basis) in enumerate(BASES.items()):
        for shift, model in enumerate(REGRESSORS):
            one = (number + shift) % 2
            title = f"{type(model).__name__}{shift} {name} {'one' if one else 'two'}"
            yield title, clone(model).set_params(basis=basis), X, y if one else Y
        for shift, model in enumerate(CLASSIFIERS):
            two = (number + shift) % 2
            title = f"{type(model).__name__} {name} {'two' if two else 'three'} classes"
            yield title, clone(model).set_params(basis=basis), X, TWO if two else THREE
    for dictionary in ("linear", "additive", "pairs", "smooth", "relevant"):
        yield f"TermwiseRegressor {dictionary}", TermwiseRegressor(6, dictionary=dictionary), X, y
        target = "ridge" if dictionary == "relevant" else "data"  # of two classes, below, any target
        yield f"TermwiseClassifier {dictionary}", TermwiseClassifier(6, dictionary=dictionary, target=target), X, THREE
    yield "TermwiseRegressor frame", TermwiseRegressor(12, dictionary="pairs"), FRAME, Y_FRAME
    yield "TermwiseRegressor outputs", TermwiseRegressor(4, dictionary="pairs"), X, Y
    yield "TermwiseClassifier frame", TermwiseClassifier(6, dictionary="additive"), FRAME, TWO
    yield "TermwiseClassifier two", TermwiseClassifier(6, dictionary="smooth"), X, TWO
    yield "PrefilterClassifier auto", PrefilterClassifier(), X, THREE
    widths = {"basis__width": [1.0, 4.0]}
    for model in (BasisRidge, ForwardRegressor, OnlineRidge, LocalRidge):
        yield f"search {model.__name__}", CriterionSearch(model(RadialBasis(centers=9)), widths), X, y
    yield "search classes", CriterionSearch(ForwardClassifier(RadialBasis(centers=9)), widths), X, TWO
    yield "one output of a table", BasisRidge(AnovaBasis(order=1)), X, Y[:, :1]
    numbers = FRAME.drop(columns=["kind", "level"])
    yield "pipeline scaled", make_pipeline(StandardScaler(), ForwardRegressor(AnovaBasis(n_centers=2))), numbers, y
    yield "pipeline encoded", make_pipeline(TableEncoder(), StandardScaler(), ForwardRegressor()), FRAME, Y_FRAME
    yield "pipeline imputed", make_pipeline(SimpleImputer(), BasisRidge(RadialBasis(width=3.0))), numbers, Y
    yield "pipeline selected", make_pipeline(ForwardRegressor(AnovaBasis(n_centers=2)), BasisRidge()), X, y
    yield "pipeline of bases", make_pipeline(FourierBasis(1), ForwardClassifier()), X, TWO
    yield "table of unions", ForwardRegressor(TABLE_OF_UNIONS, max_terms=12, criterion=None), FRAME, Y_FRAME
    yield "lags of unions", BasisRidge(make_pipeline(LagBasis(2), UnionBasis([AnovaBasis(2), LogisticBasis(5)]))), X, y
    constant = FeatureUnion([("one", PolynomialFeatures(0)), ("inputs", "passthrough")])
    yield "constant beside columns", BasisRidge(constant, alpha=0.1, fit_intercept=False), X, y
    yield "feature union", BasisRidge(FEATURE_UNION), X, Y
    few = AnovaBasis(n_centers=2)
    yield "folds of a table", make_pipeline(TableEncoder(), ForwardRegressor(few, selection_cv=3)), FRAME, Y_FRAME
    yield "folds of two classes", PrefilterClassifier(RadialBasis(width=4.0), max_terms=8, selection_cv=3), X, TWO
    yield "folds of three classes", make_pipeline(StandardScaler(), ForwardClassifier(few, selection_cv=3)), X, THREE
    counts, levels = np.floor(np.exp(np.abs(y))), (0.2, 0.5, 0.8)
    yield "counts", make_pipeline(StandardScaler(), ForwardRegressor(few, loss="poisson", selection_cv=3)), X, counts
    yield "quantiles", ForwardRegressor(loss="quantile", quantile=levels, criterion=None, max_terms=3), X, y
    yield "least-squares classes", ForwardClassifier(few, loss="squared", max_terms=6), X, THREE
    yield "one scaled column", make_pipeline(StandardScaler(), ForwardRegressor(max_terms=1)), X, y
    yield "one scaled input", make_pipeline(StandardScaler(), BasisRidge(LogisticBasis(n_units=3))), X[:, :1], Y

    levels = LevelMeans(SmoothBasis(width=[1.0, 2.0], centers=7), columns=[4])
    yield "missing values", ForwardRegressor(SmoothBasis(centers=9), max_terms=6, selection_cv=3), MISSING, y
    yield "missing values and levels", BasisRidge(UnionBasis([levels, SmoothBasis(centers=5)])), LEVELS, Y_LEVELS
    amounts = LevelMeans(LogInputs(AnovaBasis(n_centers=2, min_count=5), columns=[2]), columns=[4])
    yield "logarithms and levels", ForwardRegressor(amounts, max_terms=8, criterion=None), LEVELS, Y_LEVELS
    skewed = np.column_stack([np.exp(X[:, 1]), X[:, [0]], np.floor(np.exp(X[:, 0] + 3))])
    power = np.log(skewed[:, 0]) * X[:, 0] + np.log1p(skewed[:, 2])
    yield "TermwiseRegressor logarithms", TermwiseRegressor(8, dictionary="pairs", log_inputs=True), skewed, power
    yield (
        "missing values scaled",
        make_pipeline(StandardScaler(), ForwardClassifier(SmoothBasis(centers=9))),
        MISSING,
        THREE,
    )
    shapes = AnovaBasis(n_centers=2, min_count=5, functions=("linear", "bump", "hinge", "step"), n_knots=2)
    yield "missing values of shapes", ForwardRegressor(shapes, max_terms=6, criterion=None), MISSING, y
    yield "imputed behind an encoder", make_pipeline(TableEncoder(), SimpleImputer(), ForwardRegressor()), MISSING, y


def _limited() -> Any:
    products = TermwiseRegressor(2, dictionary="pairs", target="data")
    yield "limited", products, PRODUCT
    yield "limited outputs", products, np.column_stack([PRODUCT, -2 * PRODUCT])
    yield "limited logarithms", clone(products).set_params(link="log"), np.exp(PRODUCT)
    yield "limited counts", clone(products).set_params(loss="poisson"), np.floor(20 * np.exp(-PRODUCT))
    levels = {"loss": "quantile", "quantile": (0.2, 0.5, 0.8)}
    yield "limited quantiles", clone(products).set_params(**levels), PRODUCT


UNFITTED = {name: rest for name, *rest in _unfitted()}
LIMITED = {name: rest for name, *rest in _limited()}  # models some of whose predictions are at their limits
NAMES = [*UNFITTED, *LIMITED, "empty", "empty of a table", "empty of a union"]


@cache
def case_of(name: str) -> Case:
    """Fit a model, once."""
    if name == "empty":
        return Case(name, ForwardRegressor().fit(X, y).at(0), X)
    if name == "empty of a table":
        return Case(name, ForwardClassifier(TableEncoder()).fit(FRAME, THREE).at(0), FRAME)
    if name == "empty of a union":
        return Case(name, ForwardRegressor(BASES["union"]).fit(X, y).at(0), X)
    if name in LIMITED:
        model, targets = LIMITED[name]
        return Case(name, clone(model).fit(EQUAL, targets), CORNERS)
    model, table, targets = UNFITTED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: any weights will do
        return Case(name, clone(model).fit(table, targets), table)


@cache
def frozen(name: str) -> Predictor:
    """Freeze it, once."""
    return Predictor.from_estimator(case_of(name).model)


def all_cases() -> list[Case]:
    """All models, fitted."""
    return [case_of(name) for name in NAMES]
