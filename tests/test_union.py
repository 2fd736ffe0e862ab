"""UnionBasis: against its bases side by side, and everywhere that a basis is looked into."""

from __future__ import annotations

import copy
import pickle

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from termwise.diagnostics import facts
from termwise.report import render

from termwise import (
    AnovaBasis,
    BasisRidge,
    CriterionSearch,
    FitDisplay,
    ForwardRegressor,
    FourierBasis,
    LagBasis,
    LogisticBasis,
    OnlineRidge,
    RadialBasis,
    ShapeDisplay,
    SmoothBasis,
    UnionBasis,
    write_report,
)
from termwise.basis import Basis, TableEncoder
from termwise.deploy.predictor import load_predictor

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, size=(90, 3))
y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * RNG.normal(size=90)
FRAME = pd.DataFrame(X, columns=["speed", "load", "heat"])
BASES = [
    AnovaBasis(n_centers=2, min_count=5),
    SmoothBasis(width=("median", [0.5, 2]), centers=7),
    RadialBasis(centers=6),
    FourierBasis(1),
    LogisticBasis(5),
]
LINES = UnionBasis([AnovaBasis(n_centers=2), SmoothBasis(centers=5)])


class Odd(Basis):
    """A basis of one's own, which nothing else knows."""

    _per_term = ("powers_",)

    def _fit(self, X, y):
        self.powers_ = np.array([1, 3])

    def evaluate(self, X):
        return X[:, :1] ** self.powers_

    def _names(self, inputs=None):
        return [f"{(inputs or self.input_names())[0]}^{power}" for power in self.powers_]


def columns(bases, table):
    """All functions of all bases."""
    return np.column_stack([clone(basis).fit(table).transform(table) for basis in bases])


def lines_and_bumps():
    """A model of functions of one input and of two, from two bases."""
    names = clone(LINES).fit(FRAME).get_feature_names_out()
    few = [j for j, name in enumerate(names) if not name.startswith("gauss")]
    return OnlineRidge(LINES, terms=few, alpha=0.01).fit(FRAME, y)


# -- the functions -----------------------------------------------------------------------------------------------------


def test_functions_are_those_of_the_bases():
    fitted = UnionBasis(BASES).fit(X)
    np.testing.assert_array_equal(fitted.transform(X), columns(BASES, X))
    names = [name for basis in BASES for name in clone(basis).fit(X).get_feature_names_out()]
    assert list(fitted.get_feature_names_out()) == names
    assert fitted.sizes == [clone(basis).fit_transform(X).shape[1] for basis in BASES]
    assert len(fitted.places_) == sum(fitted.sizes)


def test_bases_themselves_stay_unfitted():
    bases = [AnovaBasis(), SmoothBasis()]
    fitted = UnionBasis(bases).fit(X)
    assert not any(hasattr(basis, "n_features_in_") for basis in bases)
    again = clone(fitted)
    assert not hasattr(again, "bases_")
    np.testing.assert_array_equal(again.fit_transform(X), fitted.transform(X))


@pytest.mark.parametrize("seed", range(20))
def test_taking_some_in_any_order_again_and_again(seed):
    rng = np.random.default_rng(seed)
    fitted, G = UnionBasis(BASES).fit(X), columns(BASES, X)
    names = fitted.get_feature_names_out()
    while G.shape[1]:
        chosen = rng.permutation(G.shape[1])[: rng.integers(0, G.shape[1])]
        fitted, G, names = fitted.take(chosen), G[:, chosen], names[chosen]
        np.testing.assert_allclose(fitted.transform(X), G, rtol=1e-11, atol=1e-13)
        np.testing.assert_array_equal(fitted.get_feature_names_out(), names)
        assert all(fitted.sizes)
    assert fitted.transform(X).shape == (90, 0)
    assert fitted.bases_ == ()


def test_taking_by_a_mask_leaves_the_whole_as_it_was():
    fitted = UnionBasis(BASES).fit(X)
    G = fitted.transform(X)
    mask = RNG.random(G.shape[1]) < 0.3
    np.testing.assert_allclose(fitted.take(mask).transform(X), G[:, mask], rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(fitted.transform(X), G)


def test_nothing_left():
    empty = UnionBasis(BASES).fit(X).take([])
    assert empty.take([]).transform(X[:4]).shape == (4, 0)
    assert empty.get_feature_names_out().shape == (0,)
    assert empty.transform(X.astype(np.float32)).dtype == np.float32


def test_unions_of_unions():
    inner = UnionBasis(BASES[1:3])
    nested = UnionBasis([BASES[0], inner, UnionBasis([inner])]).fit(X)
    G = columns([*BASES[:3], *BASES[1:3]], X)
    np.testing.assert_array_equal(nested.transform(X), G)
    chosen = RNG.permutation(G.shape[1])[:20]
    np.testing.assert_allclose(nested.take(chosen).transform(X), G[:, chosen], rtol=1e-11, atol=1e-13)
    named = clone(nested).fit(FRAME)
    assert named.get_feature_names_out()[0] == "speed"


def test_single_precision_and_copies():
    low = X.astype(np.float32)
    fitted = UnionBasis(BASES).fit(low)
    G = fitted.transform(low)
    assert G.dtype == np.float32
    np.testing.assert_allclose(G, columns(BASES, low.astype(float)), atol=2e-5)
    for other in (
        pickle.loads(pickle.dumps(fitted)),
        copy.deepcopy(fitted),
        pickle.loads(pickle.dumps(fitted)).take([3]),
    ):
        assert other.transform(low).dtype == np.float32
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(low), G)


def test_names_of_frames():
    fitted = UnionBasis([AnovaBasis(n_centers=0), SmoothBasis(centers=2)]).fit(FRAME)
    names = fitted.get_feature_names_out()
    assert list(names[:4]) == ["speed", "load", "heat", "speed * load"]
    assert list(names[6:9]) == ["speed", "load", "heat"]
    np.testing.assert_array_equal(fitted.transform(FRAME), columns(fitted.bases, X))
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.transform(FRAME.rename(columns={"load": "other"}))
    plain = UnionBasis([FourierBasis(1), Odd()]).fit(X)
    assert list(plain.take([7, 0]).get_feature_names_out(["a", "b", "c"])) == ["a^3", "sin1(a)"]


def test_parameters_learned_from_the_targets_are_kept():
    smooth, knots = SmoothBasis(width=1.0, relevance="auto", centers=9), AnovaBasis(functions=["hinge"], knots="tree")
    basis = UnionBasis([FourierBasis(1), UnionBasis([smooth, RadialBasis(centers=4)]), knots])
    fitted = basis.fit(X, y)
    G = fitted.transform(X)
    lines = np.arange(FourierBasis(1).fit(X).n_functions)
    last = np.arange(G.shape[1])[-3:]
    restricted = [fitted.take(lines), fitted.take(last), fitted.take(np.append(last, lines)).take([0]), fitted.take([])]
    for some in [fitted, *restricted, fitted.take(lines).take([]), pickle.loads(pickle.dumps(restricted[0]))]:
        again = some.with_fitted_params()
        assert [type(part) for part in again.bases] == [FourierBasis, UnionBasis, AnovaBasis]
        np.testing.assert_array_equal(again.bases[1].bases[0].relevance, fitted.bases_[1].bases_[0].relevance_)
        assert not hasattr(again, "bases_")
        np.testing.assert_array_equal(again.fit(X).transform(X), G)  # which needs no targets any more
    assert smooth.relevance == "auto"
    assert knots.knots == "tree"
    once_more = restricted[0].fit(X, y)
    np.testing.assert_array_equal(once_more.with_fitted_params().fit(X).transform(X), G)
    of_fitted = UnionBasis.of(fitted.bases_)
    np.testing.assert_array_equal(of_fitted.with_fitted_params().fit(X).transform(X), G)


def test_targets_reach_the_bases():
    class Looks(Odd):
        def fit(self, X, y=None):
            self.seen_ = y
            return super().fit(X)

    fitted = UnionBasis([Looks(), UnionBasis([Looks()])]).fit(X, y)
    assert fitted.bases_[0].seen_ is y
    assert fitted.bases_[1].bases_[0].seen_ is y


@pytest.mark.parametrize(
    ("bases", "message"),
    [
        ([], r"bases must be a list of bases of termwise\.basis, got \[\]: scikit-learn's FeatureUnion takes other"),
        (AnovaBasis(), r"bases must be a list of bases of termwise\.basis, got AnovaBasis\(\)"),
        ("anova", r"bases must be a list of bases of termwise\.basis, got 'anova'"),
        ([AnovaBasis(), PolynomialFeatures()], r"bases must be a list of bases .*PolynomialFeatures\(\)\]: scikit"),
        ([AnovaBasis(), None], r"bases must be a list of bases"),
        ([AnovaBasis(), LagBasis()], r"bases must not have a LagBasis, which refers to earlier rows, among them, got "
         r"\[AnovaBasis\(\), LagBasis\(\)\]: put it in front, as in make_pipeline\(LagBasis\(\), UnionBasis"),
        ([UnionBasis([LagBasis()])], r"bases must not have a LagBasis"),
    ],
)  # fmt: skip
def test_what_is_no_basis_is_refused(bases, message):
    with pytest.raises(TypeError, match=message):
        UnionBasis(bases).fit(X)


def test_use_before_the_fit():
    union = UnionBasis([AnovaBasis()])
    for use in (lambda: union.transform(X), lambda: union.take([0]), union.get_feature_names_out):
        with pytest.raises(NotFittedError):
            use()


@pytest.mark.parametrize("table", [X, FRAME], ids=["array", "frame"])
def test_bases_that_are_fitted_already(table):
    fitted = [clone(basis).fit(table).take([3, 1]) for basis in BASES]
    union = UnionBasis.of(fitted)
    assert union.bases_ == tuple(fitted)
    np.testing.assert_array_equal(union.transform(table), np.column_stack([one.transform(table) for one in fitted]))
    assert list(union.get_feature_names_out()) == [name for one in fitted for name in one.get_feature_names_out()]
    assert list(union.take([4, 1]).get_feature_names_out()) == list(union.get_feature_names_out()[[4, 1]])
    np.testing.assert_array_equal(clone(union).fit_transform(table), columns(BASES, table))  # all functions again


def test_bases_said_to_be_fitted_already():
    with pytest.raises(NotFittedError):
        UnionBasis.of([AnovaBasis().fit(X), SmoothBasis()])
    with pytest.raises(TypeError, match="bases must be a list of bases"):
        UnionBasis.of([])
    with pytest.raises(ValueError, match=r"fitted must be bases of the same inputs, got \[3, 2\] inputs: fit them to"):
        UnionBasis.of([AnovaBasis().fit(X), SmoothBasis().fit(X[:, :2])])


def test_lags_in_front():
    series = np.cumsum(RNG.normal(size=(60, 1)), axis=0)
    lagged = LagBasis(2).fit_transform(series)
    model = BasisRidge(make_pipeline(LagBasis(2), UnionBasis(BASES[:2]))).fit(series, series[:, 0])
    np.testing.assert_array_equal(model.basis_.transform(series), columns(BASES[:2], lagged))


# -- models ------------------------------------------------------------------------------------------------------------


def test_models_are_those_of_the_columns():
    G = columns(BASES, X)
    model, plain = ForwardRegressor(UnionBasis(BASES)).fit(X, y), ForwardRegressor().fit(G, y)
    np.testing.assert_array_equal(model.path_.terms, plain.path_.terms)
    np.testing.assert_allclose(model.predict(X), plain.predict(G), rtol=1e-12)
    assert sum(model.fitted_terms_.basis.sizes) == model.n_terms_
    sets = [[BASES[0]], BASES[:2]]
    search = CriterionSearch(BasisRidge(UnionBasis(BASES)), {"basis__bases": sets}).fit(X, y)
    assert search.best_params_["basis__bases"] in sets


def test_only_what_the_model_needs_is_frozen(tmp_path):
    table = np.column_stack([X, RNG.normal(size=90)])
    model = ForwardRegressor(UnionBasis([AnovaBasis(), SmoothBasis(linear=False)]), max_terms=2, criterion=None)
    predictor = model.fit(table, 3 * table[:, 3]).at(1).predictor_
    (step,) = predictor._program.steps
    assert len(step.parts) == 1
    assert predictor._program.schema.columns.tolist() == [3]
    predictor.save(tmp_path / "model.json")
    np.testing.assert_array_equal(load_predictor(tmp_path / "model.json").predict(table), predictor.predict(table))


@pytest.mark.parametrize(
    ("sides", "found"),
    [
        (FeatureUnion([("a", AnovaBasis())], transformer_weights={"a": 2.0}), r"transformer_weights=\{'a': 2\.0\}"),
        (FeatureUnion([("a", make_pipeline(SimpleImputer(), AnovaBasis()))]), "a SimpleImputer"),
    ],
    ids=["weights", "imputer"],
)
def test_feature_unions_that_cannot_be_frozen(sides, found):
    message = r"FeatureUnion must have no transformer_weights and no SimpleImputer inside for a Predictor, got "
    with pytest.raises(TypeError, match=f"{message}{found}: scale columns behind it and fill them in front of it, or"):
        _ = BasisRidge(sides).fit(X, y).predictor_


def test_parts_that_cannot_be_frozen():
    with pytest.raises(TypeError, match="a Predictor cannot be made of Odd"):
        _ = BasisRidge(UnionBasis([Odd(), AnovaBasis()])).fit(X, y).predictor_
    coded = FRAME.assign(kind=pd.Categorical(np.where(X[:, 0] > 0, "u", "v")))
    with pytest.raises(TypeError, match="TableEncoder must be the first step"):
        _ = BasisRidge(FeatureUnion([("a", TableEncoder())])).fit(coded, y).predictor_
    lags = BasisRidge(FeatureUnion([("a", LagBasis(2)), ("b", make_pipeline(StandardScaler(), FourierBasis(1)))]))
    with pytest.raises(ValueError, match="estimator must have one step of lags at most, and none beside others"):
        _ = lags.fit(X, y).predictor_


def test_feature_unions_keep_their_order():
    sides = FeatureUnion([("a", "drop"), ("b", FourierBasis(1)), ("c", "passthrough"), ("d", SmoothBasis(centers=4))])
    model = ForwardRegressor(sides, max_terms=9, criterion=None).fit(X, y)
    np.testing.assert_allclose(model.predictor_.predict(X), model.predict(X), rtol=1e-12)
    everything = BasisRidge(sides).fit(X, y)
    np.testing.assert_allclose(everything.predictor_.predict(X), everything.predict(X), rtol=1e-12)


# -- pictures and reports ----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def _no_screen():
    matplotlib.use("Agg")


def test_effects_of_bumps_and_lines_add_up():
    model = lines_and_bumps()
    assert [type(basis) for basis in model.basis_.take(model.support_).bases_] == [AnovaBasis, SmoothBasis]
    display = ShapeDisplay.from_estimator(model, FRAME, grid=5)
    effects, offset = display.effects, display.offset
    assert {effect.inputs for effect in effects if len(effect.inputs) == 1} == {("speed",), ("load",), ("heat",)}
    ends = np.array([X.min(axis=0), X.max(axis=0)])
    total = offset
    for effect in effects:
        total += effect.effect[(0,) * len(effect.inputs)]
    lowest = pd.DataFrame(ends[:1], columns=FRAME.columns)
    np.testing.assert_allclose(total, model.predict(lowest)[0], rtol=1e-10)
    for effect in ShapeDisplay.from_estimator(model).effects:  # over the ranges stored by the bases
        for name, values in zip(effect.inputs, effect.values, strict=True):
            np.testing.assert_allclose(values[[0, -1]], ends[:, FRAME.columns.get_loc(name)])


def test_effects_of_a_table_of_a_union_within_a_union():
    coded = FRAME.assign(kind=pd.Categorical(np.where(X[:, 0] > 0, "u", "v")))
    basis = make_pipeline(TableEncoder(), UnionBasis([UnionBasis([AnovaBasis(order=1)]), AnovaBasis(n_centers=0)]))
    effects = ShapeDisplay.from_estimator(BasisRidge(basis).fit(coded, y), coded).effects
    assert ("kind",) in {effect.inputs for effect in effects}


@pytest.mark.parametrize(
    ("other", "culprit"),
    [(SmoothBasis(linear=False), "UnionBasis"), (RadialBasis(), "RadialBasis"), (UnionBasis([Odd()]), "Odd")],
)
def test_functions_of_all_inputs_are_named_and_averaged(other, culprit, tmp_path):
    """Functions of three inputs are separated exactly, of four they are not."""
    frame = FRAME.assign(wear=RNG.uniform(size=len(FRAME)))
    model = BasisRidge(UnionBasis([AnovaBasis(order=1), other])).fit(frame, y)
    with pytest.raises(ValueError, match=f"got terms of {culprit}, of more inputs or of inputs that are not known"):
        ShapeDisplay.from_estimator(model)
    found = facts(model, frame, y)
    assert {effect["kind"] for effect in found["effects"]} == {"average"}
    assert culprit in found["no_effects"]
    write_report(model, tmp_path / "page.html", frame, y)
    assert "averaged over the others" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_report_of_bumps_and_lines_is_exact():
    found = facts(lines_and_bumps(), FRAME, y)
    assert {effect["kind"] for effect in found["effects"]} == {"exact"}
    assert not found["no_effects"]


def test_descriptions_of_stacked_ensembles():
    found = facts(lines_and_bumps(), FRAME, y)
    found["model"] |= {"dictionary": "linear and smooth", "trial": "linear and smooth, pooled", "alpha": 0.5}
    page = render(None, facts=found)
    assert "(linear terms; Gaussians of all inputs, and linear terms)" in page
    assert "distilled from a stacked ensemble" in page
    found["model"]["trial"] = "linear"
    assert "penalty 0.5" in render(None, facts=found)


@pytest.mark.parametrize("d", [1, 2])
def test_centres_of_all_parts_are_drawn(d):
    table = 10 + 5 * X[:, :d]
    radial, smooth = RadialBasis(centers=4), SmoothBasis(centers=3)
    union = UnionBasis([AnovaBasis(), UnionBasis([radial]), smooth])
    model = BasisRidge(make_pipeline(StandardScaler(), union)).fit(table, y)
    drawn = FitDisplay.from_estimator(model, table, y, grid=20).data["centers"]
    assert drawn.shape == (7, d)
    assert np.all(np.isclose(drawn[:, None], table[None]).all(axis=2).any(axis=1))
    none = BasisRidge(UnionBasis([AnovaBasis()])).fit(table, y)
    assert FitDisplay.from_estimator(none, table, y, grid=20).data["centers"].shape == (0, d)
