"""AnovaBasis: functions of one and two inputs, against loops over the definition."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import anova_basis
from sklearn.base import clone

import termwise._arrays
from termwise import AnovaBasis, BasisRidge, CriterionSearch, ForwardClassifier, ForwardRegressor, basis
from termwise.basis.shapes import distinct_labels


def quantiles(count):
    """Midpoints of as many equal shares of the samples."""
    return (np.arange(count) + 0.5) / max(1, count)


@pytest.fixture
def X(rng):
    """Inputs in different units: smooth, skewed, a few values, two values, constant, far from zero."""
    n = 60
    X = np.column_stack([
        rng.normal(size=n),
        np.exp(3 * rng.normal(size=n)),
        rng.integers(0, 4, size=n),
        rng.integers(0, 2, size=n),
        np.full(n, 0.1),
        1e6 + rng.uniform(size=n),
    ])  # fmt: skip
    X[[50, 55]] = X[[3, 3]]
    return X


@pytest.mark.parametrize("n_centers", [0, 1, 3, 4])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("min_count", "extrapolation"),
    [(0, "clip"), (6.5, "clip"), (15, "clip"), (5, "bounded"), (5, "constant"), (5, "linear"), (5, "continue")],
)
def test_equals_the_definition(X, n_centers, order, min_count, extrapolation, rng):
    new = X[rng.permutation(60)[:20]] + 0.1 * X.std(axis=0)
    fitted = AnovaBasis(
        n_centers, width=("spacing", 1.3), order=order, min_count=min_count, extrapolation=extrapolation
    ).fit(X)
    inputs, bumps, G = anova_basis(X, new, quantiles(n_centers), 1.3, order, min_count, extrapolation)
    np.testing.assert_array_equal(fitted.inputs_, inputs)
    np.testing.assert_array_equal(fitted.bumps_, bumps)
    np.testing.assert_allclose(fitted.transform(new), G, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("min_count", [0, 3, 10])
def test_values_that_are_rare_equal_the_definition(X, min_count, rng):
    rows = np.arange(60)
    X = np.column_stack([X[:, 0], rows < 8, 5.0 - 2 * (rows % 7 == 0), (rows < 4) | (rows > 54), rows < 12])
    fitted = AnovaBasis(2, width=("spacing", 1.3), min_count=min_count).fit(X)
    inputs, bumps, G = anova_basis(X, X, quantiles(2), 1.3, 2, min_count)
    np.testing.assert_array_equal(fitted.inputs_, inputs)
    np.testing.assert_array_equal(fitted.bumps_, bumps)
    np.testing.assert_allclose(fitted.transform(X), G, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(fitted.means_[1:4], [0, 5, 0])  # the common value
    np.testing.assert_allclose(fitted.deviations_[1:4], [1, 2, 1])
    assert fitted.means_[4] == pytest.approx(0.2)  # not rare


def test_products_of_rare_values_cannot_run_wild(rng):
    """Two categories that no sample has together, and a new one that does."""
    n = 400
    kinds = rng.permutation(n)
    X = np.column_stack([kinds < 12, (kinds >= 12) & (kinds < 24), rng.normal(size=n)]).astype(float)
    y = X[:, 0] - X[:, 1] + X[:, 2] + 0.1 * rng.normal(size=n)
    basis = AnovaBasis().fit(X)
    both = np.array([[1.0, 1.0, 0.0]])
    assert np.abs(basis.transform(both)).max() <= 2 * np.abs(basis.transform(X)).max()
    assert not np.any((basis.inputs_ == [0, 1]).all(axis=1))
    assert abs(ForwardRegressor(basis, max_terms=20, criterion=None).fit(X, y).predict(both)[0]) < 1


@pytest.mark.parametrize(("d", "n_centers"), [(1, 4), (3, 2), (6, 4), (5, 0)])
def test_how_many_there_are(d, n_centers, rng):
    X = rng.uniform(size=(300, d))
    singles, pairs = d * (1 + n_centers), d * (d - 1) // 2 * (1 + n_centers) ** 2
    assert AnovaBasis(n_centers, min_count=0).fit_transform(X).shape == (300, singles + pairs)
    assert AnovaBasis(n_centers, order=1, min_count=0).fit_transform(X).shape == (300, singles)


def test_thirty_two_inputs(rng):
    X = rng.uniform(size=(1000, 32))
    assert len(AnovaBasis(n_centers=4).fit(X).inputs_) == 12560


def test_attributes_are_enough_to_draw_a_function(X):
    fitted = AnovaBasis(min_count=0).fit(X)
    G = fitted.transform(X)
    for g, (i, j), (a, b) in zip(G.T, fitted.inputs_, fitted.bumps_, strict=True):
        value = np.ones(len(X))
        for column, bump in ((i, a), (j, b)):
            x = X[:, column]
            if bump == 0:
                value *= (x - fitted.means_[column]) / fitted.deviations_[column]
            elif bump > 0:
                value *= np.exp(-(((x - fitted.centers_[column, bump - 1]) / fitted.widths_[column]) ** 2))
        np.testing.assert_allclose(g, value, rtol=1e-12, atol=1e-14)
        assert (j == -1) == (b == -1)
        assert i != j


def test_inputs_with_few_values(X):
    fitted = AnovaBasis(min_count=0).fit(X)
    kinds = [set(fitted.bumps_[(fitted.inputs_ == [j, -1]).all(axis=1), 0]) for j in range(6)]
    assert kinds[3] == {0}  # two values: the input itself is all there is
    assert kinds[4] == set()  # constant
    assert kinds[5] == {0, 1, 2, 3, 4}
    assert len(kinds[2]) <= 1 + 4
    assert np.isnan(fitted.widths_[[3, 4]]).all()
    assert 4 not in fitted.inputs_


def test_names_say_what_and_where(X):
    names = list(AnovaBasis(n_centers=1, min_count=0).fit(X[:, [0, 3]]).get_feature_names_out())
    center = f"{AnovaBasis(n_centers=1).fit(X[:, :1]).centers_[0, 0]:.2g}"
    assert names == ["x0", f"bump(x0 near {center})", "x1", "x0 * x1", f"bump(x0 near {center}) * x1"]
    frame = pd.DataFrame(X, columns=["speed", "load", "heat", "on", "site", "height"])
    named = AnovaBasis(min_count=0).fit(frame).get_feature_names_out()
    assert len(set(named)) == len(named)  # also where centres differ in the seventh digit
    assert "speed * load" in named
    assert any(name.startswith("bump(height near 10000") for name in named)
    assert AnovaBasis().set_output(transform="pandas").fit_transform(frame).columns[0] == "speed"


def test_numbers_are_written_as_people_do():
    assert distinct_labels(np.array([1966.2, 1974.0, 1981.7])) == ["1966", "1974", "1982"]
    assert distinct_labels(np.array([123.4, 12_500.0, 98_765.4])) == ["123", "12500", "98770"]
    assert distinct_labels(np.array([-0.45, 0.0012, 0.00012345, 46.3])) == ["-0.45", "0.0012", "0.00012", "46"]
    assert distinct_labels(np.array([123_456.0, 123_457.0])) == ["123456", "123457"]
    assert distinct_labels(np.array([1.2345e-7, 2.34567e6])) == ["1.2e-07", "2.346e+06"]


def test_labels_have_as_few_digits_as_tell_them_apart():
    assert distinct_labels(np.array([-1.234, 0.0, -0.0 + 1 / 3, np.nan])) == ["-1.2", "0", "0.33"]
    assert distinct_labels(np.array([1000.1, 1000.2])) == ["1000.1", "1000.2"]
    assert distinct_labels(np.array([0.1, np.nextafter(0.1, 1)])) == ["0.10000000000000001", "0.10000000000000002"]
    assert distinct_labels(np.array([])) == []


@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99))
def test_take_is_the_same_functions(data, seed):
    X = np.random.default_rng(seed).normal(size=(40, 3))
    fitted = AnovaBasis(n_centers=2, min_count=5).fit(X)
    G, names = fitted.transform(X), fitted.get_feature_names_out()
    chosen = data.draw(st.lists(st.integers(0, len(names) - 1), unique=True, max_size=12))
    some = fitted.take(chosen)
    np.testing.assert_array_equal(some.transform(X), G[:, chosen])
    assert list(some.get_feature_names_out()) == list(names[chosen])
    assert some.take([]).transform(X).shape == (40, 0)


def test_take_evaluates_no_other_functions(rng, monkeypatch):
    X = rng.normal(size=(50, 8))
    fitted = AnovaBasis().fit(X)
    asked = []
    evaluate = AnovaBasis.evaluate_singles

    def watched(self, X, inputs, *others):
        asked.append(len(inputs))
        return evaluate(self, X, inputs, *others)

    monkeypatch.setattr(AnovaBasis, "evaluate_singles", watched)
    fitted.take([0, len(fitted.inputs_) - 1]).transform(X)
    assert asked == [3]


@settings(max_examples=40, deadline=None)
@given(repeats=st.lists(st.integers(0, 29), max_size=40), seed=st.integers(0, 99))
def test_writing_a_sample_again_changes_nothing(repeats, seed):
    X = np.random.default_rng(seed).normal(size=(30, 3))
    once, again = (AnovaBasis(min_count=5).fit(data) for data in (X, np.vstack([X, X[np.array(repeats, dtype=int)]])))
    np.testing.assert_array_equal(again.transform(X), once.transform(X))
    assert list(again.get_feature_names_out()) == list(once.get_feature_names_out())


@settings(max_examples=40, deadline=None)
@given(
    units=st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=3),
    shifts=st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3),
    seed=st.integers(0, 99),
)
def test_units_of_the_inputs_do_not_matter(units, shifts, seed):
    X = np.random.default_rng(seed).normal(size=(30, 3))
    plain, changed = (AnovaBasis(min_count=5).fit(data) for data in (X, (X + shifts) * units))
    np.testing.assert_array_equal(changed.inputs_, plain.inputs_)
    np.testing.assert_array_equal(changed.bumps_, plain.bumps_)
    np.testing.assert_allclose(changed.transform((X + shifts) * units), plain.transform(X), atol=1e-8)


def test_functions_on_few_samples_are_left_out(X):
    everything, some = AnovaBasis(min_count=0).fit(X), AnovaBasis(min_count=12).fit(X)
    G = AnovaBasis(min_count=12).fit_transform(np.unique(X, axis=0))
    counts = np.sum(G**2, axis=0) ** 2 / np.sum(G**4, axis=0)
    plain = (some.bumps_ == [0, -1]).all(axis=1)
    assert counts[~plain].min() >= 12
    assert plain.sum() == 5  # also the skewed one, which rests on few
    assert counts[plain].min() < 12
    assert len(some.inputs_) < len(everything.inputs_)
    assert len(AnovaBasis(min_count=1e9).fit(X).inputs_) == 5


def test_copies_make_no_candidates(rng):
    X = rng.normal(size=(80, 2))
    switch = rng.integers(0, 2, size=80)
    alone = AnovaBasis(n_centers=2, min_count=0).fit(np.column_stack([X, switch]))
    copied = AnovaBasis(n_centers=2, min_count=0).fit(np.column_stack([X, switch, 1 - switch]))  # one-hot: off is -on
    np.testing.assert_array_equal(copied.inputs_, alone.inputs_)  # nor is there a constant on * off
    twice = AnovaBasis(n_centers=2, min_count=0).fit(np.column_stack([X, X[:, 0] * 7 + 1]))
    assert not (twice.inputs_ == [2, -1]).all(axis=1).any()
    pairs = {tuple(pair) for pair in twice.inputs_.tolist()}
    assert pairs == {(0, -1), (1, -1), (0, 1), (0, 2)}  # an input and its copy still make squares


def test_aliases_in_a_designed_experiment_make_no_candidates():
    a, b, c = (factor.ravel() for factor in np.meshgrid([-1, 1], [-1, 1], [-1, 1], indexing="ij"))
    X = np.column_stack([a, b, c, a * b * c])
    names = list(AnovaBasis(min_count=0).fit(X).get_feature_names_out())
    assert names == ["x0", "x1", "x2", "x3", "x0 * x1", "x0 * x2", "x0 * x3"]  # x2 * x3 is x0 * x1, and so on


def test_bumps_are_bounded_wherever_the_inputs_are(X):
    fitted = AnovaBasis(order=1, min_count=0).fit(X)
    G = fitted.transform(X * 1e6)
    bumps = fitted.bumps_[:, 0] > 0
    assert np.all((G[:, bumps] >= 0) & (G[:, bumps] <= 1))
    far = AnovaBasis(min_count=0).fit_transform(X[:, [0, 1]] + 1e8)
    assert np.abs(far).max() < 60


def test_outliers_do_not_spoil_the_bumps(rng):
    x = np.append(rng.normal(size=500), 1e6)
    assert AnovaBasis().fit(x[:, None]).widths_[0] < 5


def test_a_single_center_is_as_wide_as_the_input():
    x = np.zeros(500)
    x[:3] = [1.0, 2.0, 3.0]
    X = np.column_stack([x, np.arange(500.0)])  # all samples differ
    fitted = AnovaBasis(width=("spacing", 2.0), min_count=0).fit(X)
    assert fitted.centers_[0, 0] == 0
    assert np.isnan(fitted.centers_[0, 1:]).all()
    assert fitted.widths_[0] == pytest.approx(2 * x.std())


@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame], ids=["array", "pandas"])
def test_float32_stays(X, container):
    low = X.astype(np.float32)
    fitted = AnovaBasis().fit(container(low))
    G = fitted.transform(container(low))
    assert G.dtype == np.float32
    np.testing.assert_allclose(G, AnovaBasis().fit_transform(low.astype(float)), rtol=1e-5, atol=1e-6)
    assert fitted.take([1, 5]).transform(container(low)).dtype == np.float32


def test_polars(X):
    frame = pl.DataFrame(X, schema=["speed", "load", "heat", "on", "site", "height"])
    fitted = AnovaBasis().fit(frame)
    np.testing.assert_array_equal(fitted.transform(frame), AnovaBasis().fit_transform(X))
    assert "speed * on" in fitted.get_feature_names_out()


def test_blocks_do_not_matter(X, monkeypatch):
    whole = AnovaBasis().fit_transform(X)
    monkeypatch.setattr(termwise._arrays, "BLOCK_ENTRIES", 700)
    np.testing.assert_array_equal(AnovaBasis().fit_transform(X), whole)


def test_no_large_temporary(rng):
    X = rng.normal(size=(3000, 25))
    fitted = AnovaBasis().fit(X)
    tracemalloc.start()
    G = fitted.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1 * G.nbytes


def test_a_wide_table_has_the_functions_of_its_parts_and_takes_little_memory(rng):
    X = rng.normal(size=(60, 1500)).round(1)
    tracemalloc.start()
    wide = AnovaBasis(order=1).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * X.nbytes * 5  # a few matrices of the single functions, none with all pairs of them
    parts = [AnovaBasis(order=2).fit(X[:, start : start + 20]) for start in range(0, 1500, 20)]  # by sums over pairs
    alone = [part.inputs_[:, 1] < 0 for part in parts]
    inputs = [part.inputs_[single, 0] + 20 * i for i, (part, single) in enumerate(zip(parts, alone, strict=True))]
    bumps = [part.bumps_[single, 0] for part, single in zip(parts, alone, strict=True)]
    np.testing.assert_array_equal(wide.inputs_[:, 0], np.concatenate(inputs))
    np.testing.assert_array_equal(wide.bumps_[:, 0], np.concatenate(bumps))
    np.testing.assert_array_equal(wide.widths_, np.concatenate([part.widths_ for part in parts]))


def test_width_in_standard_deviations_or_spacings(X):
    with pytest.warns(
        FutureWarning, match=r"use width=\('spacing', 1\.5\) for multiples of the distance between centres"
    ):
        number = AnovaBasis(width=1.5).fit(X)
    np.testing.assert_array_equal(number.widths_, AnovaBasis(width=("spacing", 1.5)).fit(X).widths_)
    plain = AnovaBasis(width=("std", 0.5)).fit(X)
    has_bumps = ~np.isnan(plain.centers_).all(axis=1)
    np.testing.assert_array_equal(np.isnan(plain.widths_), ~has_bumps)
    deviations = np.unique(X, axis=0).std(axis=0)
    np.testing.assert_allclose(plain.widths_[has_bumps], 0.5 * deviations[has_bumps], rtol=1e-9)


@pytest.mark.parametrize("data", [np.full((8, 2), 0.1), np.ones((2, 1))])
@pytest.mark.parametrize("model", [AnovaBasis(), BasisRidge(AnovaBasis()), ForwardRegressor(AnovaBasis())])
def test_constant_inputs_only(data, model):
    with pytest.raises(
        ValueError,
        match=rf"an input that is not constant, got {len(data)} samples all identical: functions of constants",
    ):
        clone(model).fit(data, np.arange(len(data)))


@pytest.mark.parametrize(
    ("parameters", "error", "pattern"),
    [
        ({"n_centers": -1}, ValueError, r"n_centers must be a whole number >= 0, got -1: 0 has no bumps"),
        ({"n_centers": "four"}, TypeError, r"n_centers must be a whole number >= 0, got 'four'"),
        (
            {"width": 0},
            ValueError,
            r"width must be a finite number > 0, got 0: give \('spacing', 2\.0\), twice the distance",
        ),
        ({"width": ("std", -1)}, ValueError, r"width must be a finite number > 0, got -1"),
        ({"width": ("median", 1)}, TypeError, r"width must be a finite number > 0, got \('median', 1\)"),
        ({"order": 3}, ValueError, r"order must be a whole number >= 1 and < 3, got 3: 2 has products of two inputs"),
        ({"min_count": -1}, ValueError, r"min_count must be a finite number >= 0, got -1: 0 excludes nothing"),
        (
            {"extrapolation": None},
            ValueError,
            r"extrapolation must be one of 'clip', 'bounded', 'constant', 'linear', 'continue', got None: 'clip' suits",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_errors(X, parameters, error, pattern):
    with pytest.raises(error, match=pattern):
        AnovaBasis(**parameters).fit(X)


@pytest.fixture
def interaction(rng):
    """Two of ten inputs act, together."""
    X = rng.normal(size=(300, 10)) * np.logspace(-3, 3, 10)
    Z = X / np.logspace(-3, 3, 10)
    return X, Z[:, 2] * np.tanh(2 * Z[:, 7]) + 0.1 * rng.normal(size=300)


def test_it_finds_who_acts_with_whom(interaction):
    X, y = interaction
    model = ForwardRegressor(AnovaBasis(), refit_alpha="loo").fit(X, y)
    assert model.basis_.take(model.support_).inputs_[0].tolist() == [2, 7]
    assert model.score(X, y) > 0.95
    assert model.n_terms_ < 15
    G = AnovaBasis().fit_transform(X)
    np.testing.assert_allclose(model.predict(X), G @ model.coef_ + model.intercept_, atol=1e-8)
    assert "x2 * " in model.summary()
    assert ForwardClassifier(AnovaBasis()).fit(X, y > 0).score(X, y > 0) > 0.9


def test_weights_are_repetitions(interaction):
    X, y = interaction
    weighted = ForwardRegressor(AnovaBasis(n_centers=2)).fit(X, y, sample_weight=np.repeat([0, 1, 2], 100))
    written = ForwardRegressor(AnovaBasis(n_centers=2)).fit(np.vstack([X[100:], X[200:]]), np.append(y[100:], y[200:]))
    np.testing.assert_allclose(weighted.predict(X), written.predict(X), atol=1e-8)


def test_its_order_is_searched(interaction):
    X, y = interaction
    grid = {"basis__order": [1, 2], "basis__n_centers": [0, 3]}
    search = CriterionSearch(ForwardRegressor(AnovaBasis()), grid).fit(X, y)
    assert search.best_params_ == {"basis__order": 2, "basis__n_centers": 3}


def test_it_is_exported():
    assert basis.AnovaBasis is AnovaBasis
