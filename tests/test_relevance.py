"""How much each input matters: the probability of the targets by its definition, and what must not matter."""

from __future__ import annotations

import numpy as np
import oracles
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import Parallel, delayed
from scipy.optimize import approx_fprime
from sklearn.base import clone
from threadpoolctl import threadpool_info

from termwise import (
    AnovaBasis,
    ForwardClassifier,
    ForwardRegressor,
    ShapeDisplay,
    SmoothBasis,
    TermwiseRegressor,
    UnionBasis,
)
from termwise.basis import smooth
from termwise.basis.smooth import ard_relevance, negative_log_posterior


def waves(rng, n=120, d=5, noise=0.05):
    """A target of the first two of the inputs."""
    X = rng.uniform(-1, 1, size=(n, d))
    return X, np.sin(4 * X[:, 0]) * (1 + X[:, 1]) + noise * rng.normal(size=n)


# -- the probability ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [1, 3])
def test_surprise_equals_the_definition(outputs, rng):
    Z, Y = rng.normal(size=(12, 3)), rng.normal(size=(12, outputs))
    for _ in range(5):
        logs = rng.normal(size=6)
        expected = oracles.negative_log_posterior(logs, Z, Y, smooth.PRIOR_DEVIATION)
        assert negative_log_posterior(logs, Z, Y)[0] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("outputs", [1, 3])
def test_its_gradient_is_that_of_differences(outputs, rng):
    Z, Y = rng.normal(size=(15, 4)), rng.normal(size=(15, outputs))
    for _ in range(3):
        logs = rng.normal(size=7)
        expected = approx_fprime(logs, lambda at: negative_log_posterior(at, Z, Y)[0], 1e-7)
        np.testing.assert_allclose(negative_log_posterior(logs, Z, Y)[1], expected, rtol=1e-4, atol=1e-4)


def test_it_works_at_every_corner_of_what_is_searched(rng):
    Z, Y = rng.normal(size=(300, 2)), rng.normal(size=(300, 1))
    Z[100:200] = Z[:100]  # the smooth part is singular
    ends = [smooth.LOG_BOUNDS[name] for name in ("r^2", "r^2", "s", "a", "v")]
    for corner in np.ndindex(2, 2, 2, 2, 2):
        value, slope = negative_log_posterior(np.array([end[i] for end, i in zip(ends, corner, strict=True)]), Z, Y)
        assert np.isfinite(value)
        assert np.isfinite(slope).all()


# -- what is learned ---------------------------------------------------------------------------------------------------


def test_inputs_that_do_not_matter_are_left_out(rng):
    X, y = waves(rng)
    found = SmoothBasis(relevance="auto").fit(X, y).relevance_
    assert found[0] > 3 * found[1] > 0
    assert (found[2:] == 0).all()


def test_a_straight_line_leaves_wide_gaussians(rng):
    X = rng.normal(size=(60, 3))
    fitted = SmoothBasis(relevance="auto").fit(X, X[:, 0])
    assert np.isfinite(fitted.transform(X)).all()
    assert (fitted.relevance_ < 0.2).all()
    assert fitted.relevance_.any()


def test_the_better_dictionary_of_many_inputs(rng):
    X, y = waves(rng, n=300, d=12)
    plain, learned = (ForwardRegressor(SmoothBasis(relevance=r)).fit(X[:200], y[:200]) for r in (None, "auto"))
    assert 1 - learned.score(X[200:], y[200:]) < 0.3 * (1 - plain.score(X[200:], y[200:]))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 99), repeats=st.lists(st.integers(0, 29), max_size=20), outputs=st.integers(1, 2))
def test_order_and_repeats_do_not_matter(seed, repeats, outputs):
    rng = np.random.default_rng(seed)
    X, y = waves(rng, n=30, d=3)
    Y = np.column_stack([y, y**2])[:, :outputs]
    rows = rng.permutation(np.append(np.arange(30), np.array(repeats, dtype=int)))
    np.testing.assert_array_equal(ard_relevance(X[rows], Y[rows]), ard_relevance(X, Y))


@settings(max_examples=15, deadline=None)
@given(
    units=st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=3),
    shift=st.floats(-100, 100),
    scale=st.floats(1e-6, 1e6),
    seed=st.integers(0, 9),
)
def test_units_do_not_matter(units, shift, scale, seed):
    X, y = waves(np.random.default_rng(seed), n=40, d=3)
    plain = SmoothBasis(relevance="auto").fit(X, y).relevance_
    changed = SmoothBasis(relevance="auto").fit((X + shift) * units, scale * (y - shift)).relevance_
    np.testing.assert_allclose(changed, plain, rtol=0.02)


def test_of_many_samples_some_are_enough(rng, monkeypatch):
    X, y = waves(rng, n=2000, d=3)
    sizes = []
    counted = lambda at, Z, *others: sizes.append(len(Z)) or negative_log_posterior(at, Z, *others)  # noqa: E731
    monkeypatch.setattr(smooth, "negative_log_posterior", counted)
    found = ard_relevance(X, y[:, None])
    assert set(sizes) == {smooth.ARD_ROWS}
    assert found[0] > found[1] > 0 == found[2]


@pytest.mark.parametrize("common", [0.0, 0.1, -1e6 / 3])
def test_an_input_that_varies_elsewhere_only(common, rng):
    X, y = waves(rng, n=2000, d=3)
    X[:, 2] = common
    order = np.lexsort(X.T[::-1])
    X[order[np.random.RandomState(0).permutation(2000)[-1]], 2] += 1e-9  # not among the samples looked at
    found = SmoothBasis(relevance="auto", centers=5).fit(X, y).relevance_
    assert 0.3 < found[0] < 3
    assert found[2] < 3


def test_designed_experiments_are_not_looked_at_by_halves(rng):
    A = np.array([(value, level) for value in rng.uniform(-1, 1, size=smooth.ARD_ROWS) for level in (0, 1)])
    y = np.where(A[:, 1] == 0, np.sin(4 * A[:, 0]), np.cos(6 * A[:, 0]))
    new = np.column_stack([rng.uniform(-1, 1, size=200), rng.integers(0, 2, size=200)])
    model = ForwardRegressor(SmoothBasis(relevance="auto", centers=150), refit_alpha="loo").fit(A, y)
    assert model.score(new, np.where(new[:, 1] == 0, np.sin(4 * new[:, 0]), np.cos(6 * new[:, 0]))) > 0.9


def test_threads_of_linear_algebra_are_given_back(rng):
    X, y = waves(rng, n=200, d=3)

    def learn(n):
        SmoothBasis(relevance="auto", centers=3).fit(X[:n], y[:n])

    before = [pool["num_threads"] for pool in threadpool_info()]
    Parallel(4, backend="threading")(delayed(learn)(n) for n in range(60, 200, 10))
    assert [pool["num_threads"] for pool in threadpool_info()] == before


@pytest.mark.parametrize(
    "y", [np.zeros(8), np.arange(8.0), np.array([1e9] + [0.0] * 7)], ids=["constant", "line", "one"]
)
@pytest.mark.parametrize("n", [2, 3, 8])
def test_few_samples_and_dull_targets(n, y, rng):
    X = rng.normal(size=(n, 2))
    fitted = SmoothBasis(relevance="auto").fit(X, y[:n])
    assert np.isfinite(fitted.transform(X)).all()


# -- what is made of it ------------------------------------------------------------------------------------------------


def test_gaussians_by_the_definition(rng):
    X, new = rng.normal(size=(20, 4)) * [1, 100, 1e-3, 0] + 1, rng.normal(size=(6, 4))
    fitted = SmoothBasis(width=[0.5, 2], relevance=[1.5, 0, 0.3, 7.0], extrapolation="continue").fit(X)
    assert fitted.relevance_.tolist() == [1.5, 0.0, 0.3, 0.0]
    deviations = X.std(axis=0)
    expected = [(new[:, j] - X[:, j].mean()) / deviations[j] for j in range(3)]
    for width in (0.5, 2):
        for center in X:
            squares = sum((r * (new[:, j] - center[j]) / deviations[j]) ** 2 for j, r in ((0, 1.5), (2, 0.3)))
            expected.append(np.exp(-squares / width**2))
    np.testing.assert_allclose(fitted.transform(new), np.column_stack(expected), rtol=1e-9, atol=1e-12)


def test_numbers_learned_can_be_given(rng):
    X, y = waves(rng, n=50)
    X[:, 4] = 3.0
    learned = SmoothBasis(width=[0.7, 1.0], relevance="auto").fit(X, y)
    given = SmoothBasis(width=[0.7, 1.0], relevance=learned.relevance_).fit(X)
    np.testing.assert_array_equal(given.transform(X), learned.transform(X))
    settled = learned.with_fitted_params().fit(X)
    np.testing.assert_array_equal(settled.transform(X), learned.transform(X))
    assert (
        SmoothBasis(width=("median", 0.3), centers=4).fit(X).with_fitted_params().get_params()
        == SmoothBasis(width=("median", 0.3), centers=4).get_params()
    )


def test_samples_that_differ_in_nothing_that_matters_have_one_gaussian(rng):
    X = np.column_stack([np.repeat(np.arange(5.0), 4), rng.normal(size=20)])
    fitted = SmoothBasis(relevance=[1, 0], linear=False).fit(X)
    assert fitted.center_rows_.tolist() == [0, 4, 8, 12, 16]
    some = SmoothBasis(relevance=[1, 0], linear=False, centers=3).fit(X)
    assert len(set(X[some.center_rows_, 0])) == 3
    points = SmoothBasis(relevance=[1, 0], centers=[[0.5, 1.0], [0.5, 2.0]]).fit(X)
    assert list(points.get_feature_names_out()) == ["x0", "x1", "gauss(x0) near centre 0"]


def test_names_list_few_inputs(rng):
    X = pd.DataFrame(rng.normal(size=(9, 5)), columns=list("abcde"))
    names = [
        SmoothBasis(width=[0.5, 1], relevance=r).fit(X).get_feature_names_out() for r in ([1, 0, 0, 2, 0], np.ones(5))
    ]
    assert names[0][5] == "gauss(a, d; w=0.5) near row 0"
    assert names[0][-1] == "gauss(a, d) near row 8"
    assert names[1][-1] == "gauss(5 inputs) near row 8"
    fitted = SmoothBasis(relevance=np.ones(5)).fit(X).set_params(relevance=None)
    assert fitted.get_feature_names_out()[-1] == "gauss(5 inputs) near row 8"  # what it was fitted with


def test_gaussians_of_two_inputs_can_be_drawn(rng):
    X, y = waves(rng)
    model = ForwardRegressor(UnionBasis([AnovaBasis(n_centers=0), SmoothBasis(relevance="auto")])).fit(X, y)
    display = ShapeDisplay.from_estimator(model, X)
    assert ("x0", "x1") in {effect.inputs for effect in display.effects}
    wide = ForwardRegressor(SmoothBasis(relevance=np.ones(5))).fit(X, y)
    with pytest.raises(
        ValueError, match=r"estimator must have terms of one to three inputs, .* got terms of SmoothBasis"
    ):
        ShapeDisplay.from_estimator(wide, X)


def test_float32_and_frames(rng):
    X, y = waves(rng, n=60, d=3)
    low = X.astype(np.float32)
    fitted = SmoothBasis(relevance="auto").fit(low, y)
    assert fitted.transform(low).dtype == np.float32
    np.testing.assert_allclose(
        fitted.relevance_, SmoothBasis(relevance="auto").fit(low.astype(float), y).relevance_, rtol=1e-5
    )
    frame = pd.DataFrame(X, columns=list("abc"))
    np.testing.assert_array_equal(
        clone(fitted).fit(frame, pd.Series(y)).relevance_, SmoothBasis(relevance="auto").fit(X, y).relevance_
    )


@pytest.mark.parametrize(
    ("relevance", "error", "pattern"),
    [
        (
            "ard",
            ValueError,
            r"relevance must be one of 'auto', got 'ard': give 'auto', None or a number for each input",
        ),
        (
            [1.0],
            ValueError,
            r"relevance must be 3 numbers, one per input, none negative and .*, got \[1\.0\]: None gives",
        ),
        ([1, -1, 1], ValueError, r"relevance must be 3 numbers, .* none negative .*, got \[1, -1, 1\]"),
        ([0, 0, 0], ValueError, r"relevance must be 3 numbers, .* not all of them zero, got \[0, 0, 0\]"),
        ([0, 0, 5], ValueError, r"relevance must be 3 numbers, .* not all of them zero, got \[0, 0, 5\]"),  # constant
        ([1, np.nan, 1], ValueError, r"Input relevance contains NaN"),
        (2.0, ValueError, r"relevance must be 3 numbers, .* got 2\.0"),
        ([[1.0, 2.0, 3.0]], ValueError, r"relevance must be 3 numbers, .* got \[\[1\.0"),
    ],
)
def test_errors(relevance, error, pattern, rng):
    X = rng.normal(size=(9, 3)) * [1, 1, 0]
    with pytest.raises(error, match=pattern):
        SmoothBasis(relevance=relevance).fit(X, X[:, 0])


def test_nothing_is_learned_without_targets(rng):
    with pytest.raises(
        ValueError,
        match=r"relevance='auto' requires y to be passed, but the target y is None: call fit\(X, y\), or give",
    ):
        SmoothBasis(relevance="auto").fit(rng.normal(size=(9, 3)))


@pytest.mark.parametrize(
    ("y", "pattern"),
    [
        (np.arange(8.0), r"Found input variables with inconsistent numbers of samples: \[9, 8\]"),
        (np.append(np.arange(8.0), np.nan), r"Input y contains NaN"),
        (list("abcdefghi"), r"could not convert string to float"),
    ],
)
def test_targets_that_nothing_can_be_learned_from(y, pattern, rng):
    with pytest.raises(ValueError, match=pattern):
        SmoothBasis(relevance="auto").fit(rng.normal(size=(9, 3)), y)


def test_labels_are_learned_from_by_classifiers(rng):
    X = rng.uniform(-1, 1, size=(150, 4))
    y = np.where(X[:, 0] ** 2 + X[:, 1] ** 2 < 0.6, "inside", "outside")
    model = ForwardClassifier(SmoothBasis(relevance="auto")).fit(X, y)
    assert model.score(X, y) > 0.9
    assert (model.basis_.relevance_[:2] > 0).all()
    with pytest.raises(ValueError, match="requires y to be passed"):
        SmoothBasis(relevance="auto").fit(X)


def test_weights_are_repetitions(rng):
    X, y = waves(rng, n=40, d=3)
    counts = rng.integers(0, 3, size=40)
    rows = rng.permutation(np.repeat(np.arange(40), counts))
    for model in (ForwardRegressor(SmoothBasis(relevance="auto")), TermwiseRegressor(dictionary="relevant")):
        weighted, written = clone(model).fit(X, y, sample_weight=counts), clone(model).fit(X[rows], y[rows])
        np.testing.assert_allclose(weighted.predict(X), written.predict(X), atol=1e-7)


@pytest.mark.slow
def test_an_automatic_estimator_tells_which_inputs_matter(rng):
    X, y = waves(rng)
    frame = pd.DataFrame(X, columns=["heat", "load", "a", "b", "c"])
    model = TermwiseRegressor(5, dictionary="relevant").fit(frame, y)
    heat, load = model.basis_[-1].relevance_[:2]
    line = f"ARD relevance (inverse length-scale) of standardised inputs: heat {heat:.2g}, load {load:.2g}\n"
    assert line in model.summary()
    line = TermwiseRegressor(1, dictionary="relevant").fit(frame, X[:, 2])
    assert line.get_feature_names_out() == ["a"]
    assert "relevance" not in line.summary()
    many = rng.normal(size=(120, 12))
    told = TermwiseRegressor(5, dictionary="relevant").fit(many, np.sin(many.sum(axis=1) / 2)).summary()
    assert told.split("standardised inputs: ")[1].split("\n")[0].endswith(" and 2 more")
