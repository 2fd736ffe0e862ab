"""Plots show what the terms add up to."""

from __future__ import annotations

import subprocess
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, PowerTransformer, StandardScaler

from termwise import (
    AnovaBasis,
    BasisRidge,
    CriterionDisplay,
    CriterionSearch,
    EvidenceForwardRegressor,
    FitDisplay,
    ForwardClassifier,
    ForwardRegressor,
    LagBasis,
    OnlineRidge,
    PrefilterClassifier,
    RadialBasis,
    SelectionPathDisplay,
    ShapeDisplay,
    SmoothBasis,
    TermwiseRegressor,
)
from termwise.basis import TableEncoder


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture
def sample(rng):
    X = rng.uniform(-1, 1, size=(150, 4))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=150)


@pytest.fixture
def table(rng):
    n = 200
    frame = pd.DataFrame(
        {
            "speed": rng.uniform(0, 30, n),
            "fuel": pd.Categorical(rng.choice(["gas", "oil", "wood"], n)),
            "load": rng.normal(500, 100, n),
            "gear": pd.Categorical(rng.choice([1, 2], n)),
        }
    )
    heat = np.sin(frame["speed"] / 6) + (frame["fuel"] == "oil") * (frame["load"] / 100 - 5)
    return frame, (heat + (frame["gear"] == 2) * (frame["fuel"] == "gas") + 0.1 * rng.normal(size=n)).to_numpy()


def at(display, *names):
    return next(effect for effect in display.effects if effect.inputs == names)


def by_hand(model, rows, members):
    """The sum of some terms, straight from the design matrix and the coefficients."""
    coef = np.zeros_like(model.coef_)
    coef[members] = model.coef_[members]
    return model.basis_.transform(rows) @ coef


# -- the numbers -------------------------------------------------------------------------------------------------------


def test_a_curve_is_the_sum_of_its_terms(sample):
    X, y = sample
    model = ForwardRegressor(AnovaBasis()).fit(X, y)
    display = ShapeDisplay.from_estimator(model, X, grid=17)
    effect = at(display, "x0")
    members = np.flatnonzero((model.basis_.inputs_ == [0, -1]).all(axis=1))
    np.testing.assert_allclose(effect.values[0], np.linspace(X[:, 0].min(), X[:, 0].max(), 17))
    rows = np.tile([0.0, 0.3, -2.0, 7.0], (17, 1))
    rows[:, 0] = effect.values[0]
    own = by_hand(model, X, members)
    np.testing.assert_allclose(effect.effect, by_hand(model, rows, members) - own.mean(), atol=1e-12)
    assert effect.strength == pytest.approx(own.std())
    line = display.axes_[display.effects.index(effect)].lines[-1]
    np.testing.assert_array_equal(line.get_xydata(), np.column_stack([effect.values[0], effect.effect]))


def test_a_surface_is_the_sum_of_its_terms(sample):
    """With the main effects of its two inputs, which take from it what single inputs explain."""
    X, y = sample
    model = ForwardRegressor(AnovaBasis(), max_terms=4).fit(X, y)
    display = ShapeDisplay.from_estimator(model, X, grid=5)
    effect, first_main, second_main = at(display, "x1", "x2"), at(display, "x1"), at(display, "x2")
    members = np.flatnonzero(np.isin(model.basis_.inputs_, [1, 2, -1]).all(axis=1))
    mean = by_hand(model, X, members).mean()
    assert effect.effect.shape == (5, 5)
    for a, first in enumerate(effect.values[0]):
        for b, second in enumerate(effect.values[1]):
            expected = by_hand(model, [[9.0, first, second, 9.0]], members) - mean
            total = effect.effect[a, b] + first_main.effect[a] + second_main.effect[b]
            assert total == pytest.approx(expected[0], abs=1e-12)


def test_effects_of_categories(table):
    X, y = table
    model = ForwardRegressor(make_pipeline(TableEncoder(), AnovaBasis()), max_terms=12, criterion=None).fit(X, y)
    display = ShapeDisplay.from_estimator(model, X, grid=7, max_effects=20)
    encoder, _ = model.basis_.named_steps.values()
    effect = at(display, "fuel", "load")
    assert effect.values[0].tolist() == ["gas", "oil", "wood"]
    assert encoder.blocks()[1] == ("fuel", ["gas", "oil", "wood"])
    for k, fuel in enumerate(effect.values[0]):
        rows = pd.DataFrame({"speed": X["speed"].min(), "fuel": fuel, "load": effect.values[1], "gear": 1})
        total = display.offset
        for one in display.effects:
            places = {"speed": 0, "fuel": k, "load": np.arange(7), "gear": 0}
            total = total + one.effect[tuple(places[name] for name in one.inputs)]
        np.testing.assert_allclose(total, model.predict(rows), atol=1e-9)


ENCODED = make_pipeline(TableEncoder(), StandardScaler(), AnovaBasis())
WARPED = make_pipeline(PowerTransformer(), "passthrough", AnovaBasis())
BUILT = {
    "frame": lambda X, y: (ForwardRegressor(make_pipeline(TableEncoder(), AnovaBasis())).fit(X, y), X),
    "frame, scaled": lambda X, y: (BasisRidge(ENCODED).fit(X, y), X),
    "polars": lambda X, y: (ForwardRegressor(ENCODED).fit(in_polars(X), y), in_polars(X)),
    "numbers": lambda X, y: (ForwardRegressor(AnovaBasis()).fit(numbers(X), y), numbers(X)),
    "warped": lambda X, y: (ForwardRegressor(WARPED).fit(numbers(X), y), numbers(X)),
    "online": lambda X, y: (OnlineRidge(AnovaBasis(order=1)).fit(numbers(X), y), numbers(X)),
    "search": lambda X, y: (CriterionSearch(BasisRidge(AnovaBasis()), {"alpha": [1.0]}).fit(numbers(X), y), numbers(X)),
    "linear part": lambda X, y: (
        ForwardRegressor(SmoothBasis(centers=1), max_terms=1, criterion=None).fit(numbers(X), X["load"]),
        numbers(X),
    ),
    "columns": lambda X, y: (BasisRidge().fit(numbers(X), y), numbers(X)),
    "scaled columns": lambda X, y: (ForwardRegressor(StandardScaler(), criterion=None).fit(numbers(X), y), numbers(X)),
    "encoded columns": lambda X, y: (BasisRidge(TableEncoder()).fit(X, y), X),
}
with_a_basis = [name for name in BUILT if "columns" not in name]


def numbers(X):
    return X[["speed", "load"]]


def in_polars(X):
    words = {name: pl.Series([str(v) for v in X[name]], dtype=pl.Categorical) for name in ("fuel", "gear")}
    return pl.DataFrame({name: words.get(name, X[name].tolist()) for name in X})


@pytest.mark.parametrize("kind", BUILT)
def test_effects_add_up_to_the_prediction_minus_its_mean(kind, table, rng):
    model, X = BUILT[kind](*table)
    display = ShapeDisplay.from_estimator(model, X, max_effects=1)
    assert display.offset == pytest.approx(model.predict(X).mean())
    assert display.n_effects == len(display.effects)
    values = {name: v for e in display.effects for name, v in zip(e.inputs, e.values, strict=True)}
    places = {name: rng.integers(len(v), size=40) for name, v in values.items()}
    rows = {name: list(values[name][places[name]]) if name in values else [X[name][0]] * 40 for name in X.columns}
    total = sum(e.effect[tuple(places[name] for name in e.inputs)] for e in display.effects)
    rows = pl.DataFrame(rows) if kind == "polars" else pd.DataFrame(rows)
    np.testing.assert_allclose(total, model.predict(rows) - display.offset, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("n_levels", [30, 150])
def test_levels_encoded_by_means_of_the_targets_are_categories(n_levels, rng):
    n = 600
    levels = np.concatenate([np.arange(n_levels), rng.integers(n_levels, size=n - n_levels)])
    names = np.array([f"town {k:03d}" for k in range(n_levels)])
    X = pd.DataFrame({"town": names[levels], "x": rng.uniform(size=n), "kind": rng.choice(["a", "b"], size=n)})
    X.loc[levels == 3, "town"] = None
    y = rng.normal(size=n_levels)[levels] * (1 + X["x"]) + (X["kind"] == "a") + 0.1 * rng.normal(size=n)
    model = TermwiseRegressor(dictionary="pairs", target="data").fit(X, y)
    display = ShapeDisplay.from_estimator(model, X)
    towns = next(effect for effect in display.effects if effect.inputs == ("town",))
    assert len(towns.values[0]) == min(n_levels, 100)
    assert set(towns.values[0]) <= {*names, "missing"}
    assert (np.diff(towns.effect) >= 0).all()
    assert towns.band is not None
    drawn = np.isin(X["town"].fillna("missing"), list(towns.values[0]))
    assert towns.density.sum() == pytest.approx(drawn.mean())
    row = pd.DataFrame({"town": [names[5]], "x": [X["x"].max()], "kind": ["a"]})
    total = display.offset
    for effect in display.effects:
        here = [int(np.flatnonzero(v == row[name][0])[0]) for name, v in zip(effect.inputs, effect.values, strict=True)]
        total += effect.effect[tuple(here)]
    assert total == pytest.approx(model.predict(row)[0], rel=1e-6)
    labels = [tick.get_text() for tick in display.axes_[0].get_xticklabels()]
    assert len(labels) <= 20
    assert ShapeDisplay.from_estimator(model).effects  # without samples, spread over the levels


@pytest.mark.parametrize("kind", with_a_basis)
def test_without_samples_values_are_spread_evenly(kind, table):
    model, X = BUILT[kind](*table)
    display = ShapeDisplay.from_estimator(model, grid=400)
    for effect in display.effects:
        assert effect.effect.mean() == pytest.approx(0, abs=0.03 * np.abs(effect.effect).max())
        assert effect.strength == pytest.approx(effect.effect.std(), rel=0.06)
        assert all(deciles.size == 0 for deciles in effect.deciles)
        assert set(effect.inputs) <= set(X.columns)


@pytest.mark.parametrize("place", [1, 4])
def test_identifiers_have_no_effect(place, table):
    """Neither before a category nor as the last column, with samples or without."""
    X, y = table
    named = X.copy()
    named.insert(place, "name", [f"machine {i}" for i in range(len(X))])
    plain, model = (TermwiseRegressor(6, dictionary="additive", target="data").fit(rows, y) for rows in (X, named))
    for rows, samples in ((None, None), (X, named)):
        expected = ShapeDisplay.from_estimator(plain, rows).effects
        effects = ShapeDisplay.from_estimator(model, samples).effects
        assert [effect.inputs for effect in effects] == [effect.inputs for effect in expected]
        for effect, other in zip(effects, expected, strict=True):
            np.testing.assert_allclose(effect.effect, other.effect, atol=1e-9)
            assert effect.share == pytest.approx(other.share)


def test_sparse_columns(sample):
    X, y = sample
    model = ForwardRegressor().fit(sp.csr_array(X), y)
    sparse, dense = (ShapeDisplay.from_estimator(model, data).effects for data in (sp.csr_array(X), X))
    assert sparse[0].inputs == ("x0",)
    np.testing.assert_array_equal(sparse[0].effect, dense[0].effect)


def test_inputs_are_the_outputs_of_earlier_steps(sample):
    X, y = sample
    X = pd.DataFrame(np.exp(X), columns=list("abcd"))
    for names_out, expected in ((None, "x0"), ("one-to-one", "a")):
        log = FunctionTransformer(np.log, feature_names_out=names_out)
        model = ForwardRegressor(make_pipeline(log, AnovaBasis()), max_terms=4).fit(X, y)
        effect = at(ShapeDisplay.from_estimator(model, X), expected)
        np.testing.assert_allclose(effect.values[0][[0, -1]], np.log([X["a"].min(), X["a"].max()]))


@pytest.mark.parametrize("basis", [AnovaBasis(), SmoothBasis()], ids=repr)
@pytest.mark.parametrize("scaler", [None, StandardScaler(), PowerTransformer()], ids=repr)
def test_ranges_of_inputs_stored_by_the_basis(basis, scaler):
    X = np.random.default_rng(0).exponential(size=(200, 2)) * [1.0, 1e3]
    np.testing.assert_array_equal(basis.fit(X).ranges_, [X.min(axis=0), X.max(axis=0)])
    model = ForwardRegressor(make_pipeline(scaler, basis), criterion=None, include=[0, 1], max_terms=2)
    for effect in ShapeDisplay.from_estimator(model.fit(X, X @ [1.0, 1e-3])).effects:
        j = int(effect.inputs[0][1])
        np.testing.assert_allclose(effect.values[0][[0, -1]], [X[:, j].min(), X[:, j].max()], rtol=1e-9)


def test_one_output_of_several(sample):
    X, y = sample
    model = BasisRidge(AnovaBasis(order=1)).fit(X, np.column_stack([y, X[:, 3]]))
    display = ShapeDisplay.from_estimator(model, X, output=1)
    assert display.effects[0].inputs == ("x3",)
    assert display.axes_[0].get_ylabel() == "effect on output 1"
    assert display.offset == pytest.approx(model.predict(X)[:, 1].mean())


def test_classes(sample):
    X, y = sample
    model = ForwardClassifier(AnovaBasis()).fit(X, np.where(y > 0, "up", "down"))
    display = ShapeDisplay.from_estimator(model, X)
    assert display.offset == pytest.approx(model.decision_function(X).mean())


def test_one_sample(sample):
    X, y = sample
    display = ShapeDisplay.from_estimator(BasisRidge(AnovaBasis()).fit(X, y), X[:1], max_effects=2)
    assert np.ptp(display.effects[0].values[0]) == pytest.approx(1)


# -- the plot ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_strongest_effects_come_first(sample):
    X, y = sample
    display = ShapeDisplay.from_estimator(BasisRidge(AnovaBasis()).fit(X, y), X, max_effects=4)
    strengths = [effect.strength for effect in display.effects]
    assert strengths == sorted(strengths, reverse=True)
    assert len(display.axes_) == 4
    assert display.n_effects == len(strengths) == 10
    assert display.figure_.get_suptitle().endswith("+ the sum of effects (4 of 10 shown)")
    assert len(display.plot().axes_) == 9
    assert display.plot(max_effects=30).figure_.get_suptitle().endswith("+ the sum of all effects")


def test_inputs_are_named(table):
    X, y = table
    X = X.rename(columns={"speed": "a $ and a $"})
    model = ForwardRegressor(make_pipeline(TableEncoder(), AnovaBasis()), max_terms=12, criterion=None).fit(X, y)
    display = ShapeDisplay.from_estimator(model, X, inputs=["a $ and a $", ("load", "fuel"), (1, 3)])
    display.figure_.canvas.draw()
    assert [effect.inputs for effect in display.effects] == [("a $ and a $",), ("fuel", "load"), ("fuel", "gear")]
    labels = [(axes.get_xlabel(), axes.get_ylabel()) for axes in display.axes_]
    assert labels == [(r"a \$ and a \$", "effect"), ("load", "fuel"), ("fuel", "gear")]
    assert [tick.get_text() for tick in display.axes_[1].get_yticklabels()] == ["gas", "oil", "wood"]
    assert [tick.get_text() for tick in display.axes_[2].get_yticklabels()] == ["1", "2"]


def test_categories_are_bars(table):
    X, y = table
    long = X["fuel"].cat.rename_categories(lambda name: name + " of the finest kind")
    model = BasisRidge(TableEncoder()).fit(X.assign(fuel=long), y)
    display = ShapeDisplay.from_estimator(model, X.assign(fuel=long), inputs=["fuel", "gear"])
    heights = [bar.get_height() for bar in display.axes_[0].patches]
    np.testing.assert_array_equal(heights, display.effects[0].effect)
    assert [axes.get_xticklabels()[0].get_rotation() for axes in display.axes_] == [30, 0]


def test_axes_can_be_given(sample):
    X, y = sample
    model = ForwardRegressor(AnovaBasis(), max_terms=4).fit(X, y)
    figure, axes = plt.subplots(1, 2)
    display = ShapeDisplay.from_estimator(model, X, inputs=["x0", ("x1", "x2")], ax=axes)
    assert display.figure_ is figure
    assert list(display.axes_) == list(axes)
    assert figure.get_suptitle() == ""
    single = plt.figure().add_subplot()
    assert ShapeDisplay.from_estimator(model, X, inputs="x0", ax=single).axes_.tolist() == [single]


@pytest.mark.slow
def test_a_model_that_is_flat(sample):
    X, _ = sample
    display = ShapeDisplay.from_estimator(BasisRidge(AnovaBasis()).fit(X, np.ones(len(X))), X)
    display.figure_.canvas.draw()
    assert display.offset == pytest.approx(1)


def test_drawing_changes_nothing(sample):
    X, y = sample
    model = ForwardRegressor(AnovaBasis()).fit(X, y)
    before, copy = model.predict(X), X.copy()
    ShapeDisplay.from_estimator(model, X)
    np.testing.assert_array_equal(model.predict(X), before)
    np.testing.assert_array_equal(X, copy)


@pytest.mark.slow
def test_matplotlib_is_imported_only_to_draw():
    code = "import sys; from termwise import ShapeDisplay; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# -- the path ----------------------------------------------------------------------------------------------------------


def line_labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_every_criterion_is_drawn_along_the_path(sample):
    X, y = sample
    model = ForwardRegressor(AnovaBasis(), patience=None, max_terms=10).fit(X, y)
    display = SelectionPathDisplay.from_estimator(model)
    display.figure_.canvas.draw()
    upper, lower = display.axes_
    assert line_labels(upper)[:2] == [
        f"GCV: {model.path_.choose('gcv')}",
        f"leave-one-out: {model.path_.choose('loo')}",
    ]
    assert f"TCR: {model.n_terms_}" in line_labels(upper)
    curve = upper.lines[display.criteria.index("loo") * 2]
    np.testing.assert_allclose(curve.get_ydata(), model.path_.column("loo"), rtol=1e-5)
    np.testing.assert_allclose(lower.lines[0].get_ydata(), model.path_.column("reduction")[1:], rtol=1e-5)
    assert lower.get_xlabel() == "number of terms"


@pytest.mark.parametrize("model", [TermwiseRegressor(dictionary="additive"), PrefilterClassifier(),
                                   EvidenceForwardRegressor(), ForwardRegressor(fit_intercept=False)])  # fmt: skip
def test_paths_of_all_kinds(model, sample):
    X, y = sample
    model.fit(X, y > 0 if isinstance(model, PrefilterClassifier) else y)
    display = SelectionPathDisplay.from_estimator(model)
    display.figure_.canvas.draw()
    assert display.n_terms == model.n_terms_
    assert ("cv" in display.criteria) == isinstance(model, TermwiseRegressor)


def test_some_criteria_in_given_axes(sample):
    X, y = sample
    model = ForwardRegressor().fit(X, y)
    figure, axes = plt.subplots()
    display = SelectionPathDisplay.from_estimator(model, criteria=["bic"], ax=axes)
    assert display.axes_.tolist() == [axes]
    assert display.figure_ is figure
    assert line_labels(axes)[0].startswith("BIC")


def test_a_path_that_ends_at_once(sample):
    X, y = sample
    display = SelectionPathDisplay.from_estimator(ForwardRegressor().fit(X, 0 * y))
    display.figure_.canvas.draw()
    assert display.n_terms == 0


# -- criteria ----------------------------------------------------------------------------------------------------------


def test_criteria_against_the_penalty(sample):
    X, y = sample
    model = make_pipeline(StandardScaler(), BasisRidge(RadialBasis(), alpha="gcv")).fit(X, y)
    display = CriterionDisplay.from_estimator(model, X, y)
    display.figure_.canvas.draw()
    best = display.values[int(np.argmin(display.curves["gcv"]))]
    assert abs(np.log10(best / model[-1].alpha_)) < 0.3
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "log"
    assert line_labels(display.ax_) == ["GCV", "leave-one-out", "UEV", "FPE", "BIC", "chosen"]


def test_criteria_against_a_searched_parameter(sample):
    X, y = sample
    grid = {"basis__kernel": ["cauchy", "gaussian"], "basis__width": [2.0, 0.5, 1.0]}
    search = CriterionSearch(BasisRidge(RadialBasis()), grid).fit(X, y)
    display = CriterionDisplay.from_estimator(search)
    assert display.parameter == "basis__width"
    assert display.values == [0.5, 1.0, 2.0]
    tried = list(zip(search.results_["params"], search.results_["criterion_value"], strict=True))
    best = [min(v for params, v in tried if params["basis__width"] == w) for w in display.values]
    assert display.curves["criterion"].tolist() == best
    wide = CriterionDisplay.from_estimator(CriterionSearch(BasisRidge(), {"alpha": [0.03, 1.0, 40.0]}).fit(X, y))
    assert [tick.get_text() for tick in wide.ax_.get_xticklabels()] == ["0.03", "1", "40"]
    figure, axes = plt.subplots()
    kinds = CriterionDisplay.from_estimator(search, parameter="basis__kernel", ax=axes)
    assert kinds.figure_ is figure
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["cauchy", "gaussian"]


# -- fits --------------------------------------------------------------------------------------------------------------


def test_fit_of_one_input(rng):
    X = rng.uniform(-3, 3, size=(60, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
    model = make_pipeline(StandardScaler(), ForwardRegressor(RadialBasis(width=0.7))).fit(X, y)
    display = FitDisplay.from_estimator(model, X, y)
    display.figure_.canvas.draw()
    assert display.kind == "curve"
    np.testing.assert_allclose(display.data["curve"], model.predict(display.data["x"][:, None]))
    lower, upper = display.data["interval"]
    assert (lower < display.data["curve"]).all()
    assert (display.data["curve"] < upper).all()
    centers = display.data["centers"]  # in the units of X: each is a sample
    assert np.abs(X - centers.T).min(axis=0).max() < 1e-9
    assert line_labels(display.ax_) == ["90 % prediction interval", "samples", "fit", "centres"]
    few = FitDisplay.from_estimator(OnlineRidge(keep_samples=False).fit(X, y), X, y)
    assert few.data["interval"] is None
    assert len(few.data["centers"]) == 0


def test_fit_of_two_inputs(rng):
    X = pd.DataFrame(rng.uniform(-1, 1, size=(80, 2)), columns=["east", "north"])
    Y = np.column_stack([X["east"] * X["north"], X["east"]])
    model = BasisRidge(SmoothBasis(centers=9)).fit(X, Y)
    display = FitDisplay.from_estimator(model, X, Y, output=1, grid=20)
    display.figure_.canvas.draw()
    assert display.kind == "surface"
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("east", "north")
    x, y, heights = (display.data[key] for key in ("x", "y", "heights"))
    np.testing.assert_allclose(heights[3, 7], model.predict(pd.DataFrame([[x[7], y[3]]], columns=X.columns))[0, 1])
    assert len(np.unique(display.data["centers"], axis=0)) == 9


def test_decision_regions(rng):
    X = rng.normal(size=(90, 2))
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.5 * rng.normal(size=90), [-0.5, 0.5])]
    model = ForwardClassifier(RadialBasis(), max_terms=5).fit(X, labels)
    display = FitDisplay.from_estimator(model, X, labels, grid=30)
    display.figure_.canvas.draw()
    wrong = int(np.sum(model.predict(X) != labels))
    assert display.kind == "decisions"
    assert line_labels(display.ax_) == ["a", "b", "c", f"misclassified: {wrong} of 90", "centres"]
    frame = pl.DataFrame({"u": X[:, 0], "v": X[:, 1]})
    assert FitDisplay.from_estimator(ForwardClassifier().fit(frame, labels), frame, labels, grid=5).kind == "decisions"


def test_classes_of_many_inputs(rng):
    X = rng.normal(size=(90, 3))
    labels = np.where(X[:, 0] > 0, "$yes", "no")
    display = FitDisplay.from_estimator(ForwardClassifier().fit(X, labels), X, labels)
    display.figure_.canvas.draw()
    assert display.kind == "classes"
    assert display.data["counts"].sum() == 90


def test_predictions_of_a_series(rng):
    z = np.zeros(80)
    for t in range(2, 80):
        z[t] = 1.5 * z[t - 1] - 0.8 * z[t - 2] + 0.1 * rng.normal()
    table = pd.DataFrame({"level": z})
    model = BasisRidge(LagBasis(lags=2)).fit(table, z)
    display = FitDisplay.from_estimator(model, table, z)
    display.figure_.canvas.draw()
    assert display.kind == "series"
    np.testing.assert_allclose(display.data["one_step"], model.predict(table))
    np.testing.assert_allclose(display.data["free_run"], model.basis_.free_run(model, table))
    assert line_labels(display.ax_) == ["observed", "one step ahead", "free run"]


def test_observed_against_predicted(sample):
    X, y = sample
    axes = plt.figure().add_subplot()
    model = ForwardRegressor().fit(X, y)
    display = FitDisplay.from_estimator(model, X, y, ax=axes)
    assert display.kind == "observed"
    assert display.ax_ is axes
    assert axes.get_title() == f"$R^2$ = {model.score(X, y):.3f} on these samples"


def test_messages_of_the_other_displays(sample):
    X, y = sample
    ridge, forward = BasisRidge().fit(X, y), ForwardRegressor().fit(X, y)
    cases = [
        (lambda: SelectionPathDisplay.from_estimator(ridge), TypeError,
         "estimator must have a selection path, got BasisRidge, which chooses no terms one by one: use"),
        (lambda: SelectionPathDisplay.from_estimator(forward, criteria=["aic"]), ValueError,
         "criteria must be one of 'gcv', 'loo', 'uev', 'fpe', 'bic', got 'aic'"),
        (lambda: CriterionDisplay.from_estimator(forward, X, y), TypeError,
         "estimator must be a BasisRidge or a CriterionSearch, got ForwardRegressor: see SelectionPathDisplay"),
        (lambda: CriterionDisplay.from_estimator(ridge), ValueError,
         r"X, y must be given for a BasisRidge, got None: the samples of the fit\."),
        (lambda: FitDisplay.from_estimator(Ridge().fit(X, y), X, y), TypeError, "FitDisplay reads its terms"),
        (lambda: FitDisplay.from_estimator(forward, X, y, grid=1), ValueError, "grid must be .*: 200 values make"),
        (lambda: FitDisplay.from_estimator(forward, X, y, coverage=2), ValueError, "coverage must be .*: 0.9 draws"),
        (lambda: FitDisplay.from_estimator(forward, X[:, 0], y), ValueError,
         r"X must be a table of shape \(n, d\), got a vector of length 150. Reshape your data: X.reshape\(-1, 1\) if"),
        (lambda: FitDisplay.from_estimator(forward, None, y), ValueError, "X must be .*, got None: give one row"),
        (lambda: FitDisplay.from_estimator(BasisRidge().fit(X, np.column_stack([y, y])), X, np.column_stack([y, y])),
         TypeError, "output must be a whole number >= 0 and < 2, got None"),
    ]  # fmt: skip
    for action, error, message in cases:
        with pytest.raises(error, match=message):
            action()


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("basis", "culprit"),
    [
        (RadialBasis(centers=5), "RadialBasis"),
        (make_pipeline(StandardScaler(), SmoothBasis(centers=5)), "SmoothBasis"),
        (PolynomialFeatures(), "PolynomialFeatures"),
        (LagBasis(), "LagBasis"),
    ],
)
def test_terms_of_all_inputs(basis, culprit, sample):
    X, y = sample
    message = (
        f"terms of one to three inputs, .*, got terms of {culprit}, of more inputs or of inputs that are not known "
        ".*PartialDependenceDisplay"
    )
    with pytest.raises(ValueError, match=message):
        ShapeDisplay.from_estimator(BasisRidge(basis).fit(X, y), X)


def test_messages(sample):
    X, y = sample
    draw, model = ShapeDisplay.from_estimator, ForwardRegressor(AnovaBasis(), max_terms=4).fit(X, y)
    cases = [
        (lambda: draw(Ridge().fit(X, y)), TypeError,
         r"estimator must be a fitted estimator of termwise, got Ridge\(\):"),
        (lambda: draw(ForwardRegressor()), NotFittedError, "not fitted yet"),
        (lambda: draw(ForwardRegressor().fit(X, 0 * y)), ValueError,
         r"estimator must have terms to draw, got none: the model is the mean\."),
        (lambda: draw(BasisRidge().fit(X, y)), ValueError,
         r"X must be given for this model, got None: it does not know the ranges of its inputs\. The samples"),
        (lambda: draw(model, inputs=[("x0", "x3")]), ValueError,
         r"inputs must be inputs, or pairs, that the terms .* got \('x0', 'x3'\): it has effects of x0, x1 and x2"),
        (lambda: draw(model, inputs=["q"]), ValueError, "got 'q': it has effects of x0"),
        (lambda: draw(model, grid=1), ValueError, "grid must be a whole number >= 2, got 1: 60 values"),
        (lambda: draw(model, max_effects=0), ValueError, "max_effects must be a whole number >= 1, got 0: draw at"),
        (lambda: draw(model, output=1), ValueError, "output must be a whole number >= 0 and < 1, got 1: say which"),
        (lambda: draw(BasisRidge().fit(X, np.column_stack([y, y])), X), TypeError,
         "output must be a whole number >= 0 and < 2, got None: say which output to draw"),
        (lambda: draw(model, ax=plt.figure().add_subplot()), ValueError,
         r"ax must have one Axes per effect, \d in all, got 1: give as many, set max_effects, or leave it out"),
        (lambda: draw(model, X[:, :2]), ValueError, "X has 2 features, but ForwardRegressor is expecting 4"),
        (lambda: draw(model, X[0]), ValueError, "X must be a table of shape"),
    ]  # fmt: skip
    for action, error, message in cases:
        with pytest.raises(error, match=message):
            action()


def test_a_range_that_a_scaler_cannot_undo(monkeypatch):
    """A power that is bounded, for example, of values far out, whose difference to the bound has rounded to nothing."""
    x = np.random.default_rng(2).uniform(size=(200, 1))
    model = BasisRidge(make_pipeline(PowerTransformer(), AnovaBasis())).fit(x, x[:, 0])
    monkeypatch.setattr(PowerTransformer, "inverse_transform", lambda _, X: np.where(X > 0, np.inf, X))
    with pytest.raises(ValueError, match="X must be given for this model, got None"):
        ShapeDisplay.from_estimator(model)
    assert ShapeDisplay.from_estimator(model, x).effects[0].values[0][-1] == pytest.approx(x.max())


def test_without_matplotlib(sample, monkeypatch):
    X, y = sample
    model = ForwardRegressor(AnovaBasis()).fit(X, y)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"ShapeDisplay needs matplotlib\.pyplot, .* pip install 'termwise\[plots\]'"):
        ShapeDisplay.from_estimator(model, X)
