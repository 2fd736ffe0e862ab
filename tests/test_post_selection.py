"""Inference after selection and stability: the definitions, and what they promise, on simulated data."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import ClassVar

import numpy as np
import oracles
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectFromModel, SelectKBest, f_regression
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from termwise import (
    AnovaBasis,
    CriterionSearch,
    EvidenceForwardRegressor,
    ForwardClassifier,
    ForwardRegressor,
    LocalRidge,
    OrthogonalThresholdRegressor,
    RadialBasis,
    TermwiseRegressor,
    inference,
    open_rows,
    stability,
)
from termwise.basis import TableEncoder


def sample(rng, n=80, d=6, noise=0.5):
    X = rng.normal(size=(n, d))
    return X, 1.0 + X[:, 0] - 0.7 * X[:, 2] + noise * rng.normal(size=n)


# -- inference against its definition ----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("weighted", [False, True])
def test_inference_equals_the_definition(share, weighted, rng):
    X, y = sample(rng)
    counts = rng.integers(1, 4, size=len(y)) if weighted else None

    def select(u):
        return ForwardRegressor().fit(X, u, sample_weight=counts).support_

    result = inference(
        ForwardRegressor(), X, y, 0.9, sample_weight=counts, noise_variance=0.3, selection_share=share, random_state=3
    )
    chosen, estimate, std_error = oracles.randomised_inference(X, y, select, 0.3, share, 3, counts)
    np.testing.assert_array_equal(result.support, chosen)
    np.testing.assert_allclose(result.estimate, estimate, rtol=1e-9)
    np.testing.assert_allclose(result.std_error, std_error, rtol=1e-9)
    quantile = stats.norm.ppf(0.95)
    np.testing.assert_allclose(result.lower, estimate - quantile * std_error, rtol=1e-9)
    np.testing.assert_allclose(result.upper, estimate + quantile * std_error, rtol=1e-9)
    np.testing.assert_allclose(result.p_value, 2 * stats.norm.sf(np.abs(estimate / std_error)), rtol=1e-9)
    assert result.noise_method == "given"
    assert list(result.terms) == [f"x{j}" for j in chosen]


def test_samples_of_weight_zero_do_not_matter(rng):
    X, y = sample(rng)
    padded = np.vstack([X, rng.normal(size=(5, 6))]), np.append(y, rng.normal(size=5))
    one = inference(ForwardRegressor(), X, y, random_state=0)
    other = inference(ForwardRegressor(), *padded, sample_weight=np.repeat([1.0, 0.0], [80, 5]), random_state=0)
    np.testing.assert_allclose(other.estimate, one.estimate, rtol=1e-9)
    assert other.noise_variance == pytest.approx(one.noise_variance)


def test_noise_variance_is_that_of_least_squares_on_all_candidates(rng):
    X, y = sample(rng)
    result = inference(ForwardRegressor(), X, y, random_state=0)
    H = np.column_stack([np.ones(80), X])
    residual = y - H @ np.linalg.lstsq(H, y, rcond=None)[0]
    assert result.noise_variance == pytest.approx(residual @ residual / 73)
    assert result.noise_freedom == pytest.approx(73)
    half = stats.t.ppf(0.975, 73) * result.std_error
    np.testing.assert_allclose(result.upper - result.lower, 2 * half)


def test_noise_variance_of_wide_data_is_not_reduced_by_the_selection(rng):
    naive, refitted = [], []
    for seed in range(5):
        X = rng.normal(size=(80, 200))
        y = X[:, 0] - X[:, 1] + rng.normal(size=80)
        estimator = ForwardRegressor(rule="cost", criterion="loo", max_terms=30)
        result = inference(estimator, X, y, random_state=seed)
        assert result.noise_method == "refitted cross-validation"
        refitted.append(result.noise_variance)
        naive.append(estimator.fit(X, y).noise_variance_)
    assert np.mean(naive) < 0.5
    assert 0.85 < np.mean(refitted) < 1.6


# -- what inference promises -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def null_draws():
    """z-statistics of the best of twenty irrelevant inputs, by inference and by the same data that selected it."""
    rng, z, naive, p_values = np.random.default_rng(0), [], [], []
    for seed in range(400):
        X, y = rng.normal(size=(40, 20)), rng.normal(size=40)
        result = inference(SelectKBest(f_regression, k=1), X, y, noise_variance=1.0, random_state=seed)
        w = np.random.RandomState(seed).normal(size=40)
        centred = X[:, result.support[0]] - X[:, result.support[0]].mean()
        sign = np.sign(centred @ (y + w))  # of the statistic that won the selection
        z.append(sign * result.estimate[0] / result.std_error[0])
        naive.append(sign * (centred @ (y + w)) / np.sqrt(2 * centred @ centred))
        p_values.append(result.p_value[0])
    return np.array(z), np.array(naive), np.array(p_values)


@pytest.mark.slow
def test_estimates_are_independent_of_the_selection(null_draws):
    z, naive, _ = null_draws
    assert abs(z.mean()) < 5 / 400**0.5
    assert naive.mean() > 1.5
    assert abs(z.std() - 1) < 0.15


def test_p_values_are_uniform_under_the_null_hypothesis(null_draws):
    _, naive, p_values = null_draws
    assert stats.kstest(p_values, "uniform").statistic < 2 / 400**0.5
    assert stats.kstest(2 * stats.norm.sf(np.abs(naive)), "uniform").statistic > 0.5


@pytest.mark.parametrize("shape", [(60, 30), (50, 100)])
def test_intervals_cover_after_selection_by_leave_one_out(shape, rng):
    covered, naive = [], []
    estimator = ForwardRegressor(rule="cost", criterion="loo", max_terms=10)
    for seed in range(20):
        X = rng.normal(size=shape)
        mean = 0.5 * X[:, 0] - 0.5 * X[:, 1]
        y = mean + rng.normal(size=shape[0])
        result = inference(estimator, X, y, random_state=seed)
        truth = oracles.weights(X[:, result.support], mean, 0.0)[1:, 0]
        covered.extend((result.lower <= truth) & (truth <= result.upper))
        model = estimator.fit(X, y)
        truth = oracles.weights(X[:, model.support_], mean, 0.0)[1:, 0]
        naive.extend(np.abs(model.weights_ - truth) <= 1.96 * np.sqrt(np.diag(model.weights_cov_)))
    assert np.mean(covered) > 0.9
    assert np.mean(naive) < 0.75


def test_intervals_cover_with_means_of_several_observations():
    """Samples that are means of up to nine observations have a smaller noise, which is estimated from as many rows."""
    rng, covered, ratios = np.random.default_rng(0), [], []
    for seed in range(150):
        X, counts = rng.normal(size=(60, 8)), rng.integers(1, 10, size=60).astype(float)
        mean = 2 * X[:, 0] + X[:, 1]
        y = mean + rng.normal(size=60) / np.sqrt(counts)
        result = inference(ForwardRegressor(), X, y, sample_weight=counts, random_state=seed)
        root = np.sqrt(counts)
        columns = root[:, None] * np.column_stack([np.ones(60), X[:, result.support]])
        projection = np.linalg.lstsq(columns, root * mean)[0][1:]
        covered += list((result.lower < projection) & (projection < result.upper))
        ratios.append(result.residual_ratio)
    assert 0.92 < np.mean(covered) < 0.98
    assert 0.9 < np.mean(ratios) < 1.1


@pytest.mark.parametrize("columns", [6, 60])
def test_a_common_factor_of_the_weights_is_that_of_the_noise_variance(columns, rng):
    """With noise estimated by least squares on all candidates, and by refitted cross-validation."""
    X, y = sample(rng, d=columns)
    one, other = (
        inference(ForwardRegressor(criterion=None, max_terms=3), X, y, sample_weight=np.full(80, w), random_state=0)
        for w in (1.0, 5.0)
    )
    assert other.noise_variance == pytest.approx(5 * one.noise_variance)
    for name in ("lower", "upper", "p_value", "noise_freedom", "residual_ratio"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-6)


def test_the_residual_ratio_shows_what_the_terms_miss(rng):
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + 2 * X[:, 1] ** 2 + 0.5 * rng.normal(size=300)
    result = inference(ForwardRegressor(), X, y, noise_variance=0.25, random_state=0)
    assert result.residual_ratio > 3
    y = X[:, 0] + 0.5 * rng.normal(size=300)
    assert 0.8 < inference(ForwardRegressor(), X, y, random_state=0).residual_ratio < 1.25


# -- estimators and data -----------------------------------------------------------------------------------------------

SELECTORS = [
    ForwardRegressor(),
    ForwardRegressor(AnovaBasis(n_centers=2)),
    ForwardRegressor(RadialBasis(width=3.0, centers=20)),
    OrthogonalThresholdRegressor(RadialBasis(width=3.0, centers=20)),
    EvidenceForwardRegressor(),
    LocalRidge(),
    TermwiseRegressor(3, dictionary="additive"),
    make_pipeline(StandardScaler(), ForwardRegressor()),
    CriterionSearch(ForwardRegressor(AnovaBasis(order=1)), {"basis__n_centers": [1, 2]}),
    CriterionSearch(make_pipeline(StandardScaler(), ForwardRegressor()), {"forwardregressor__alpha": [1e-6, 1.0]}),
    SelectKBest(f_regression, k=2),
    SelectFromModel(Lasso(0.1)),
]


@pytest.mark.parametrize("estimator", SELECTORS, ids=lambda estimator: type(estimator).__name__)
def test_every_estimator_that_selects(estimator, rng):
    X, y = sample(rng, n=120)
    result = inference(estimator, X, y, random_state=0)
    assert len(result.terms) > 0
    for name in ("support", "estimate", "std_error", "lower", "upper", "p_value"):
        assert getattr(result, name).shape == result.terms.shape
    assert np.all((result.lower < result.estimate) & (result.estimate < result.upper))
    assert np.all((result.p_value >= 0) & (result.p_value <= 1))
    assert 0.1 < result.noise_variance < 0.6
    found = stability(estimator, X, y, 4, random_state=0)
    assert found.input_frequency[0] == found.input_frequency[2] == 1.0
    assert found.n_terms.shape == (4,)


@pytest.mark.parametrize("container", [sp.csr_array, pd.DataFrame, np.ndarray.tolist, np.float32])
def test_containers_give_the_same_numbers(container, rng):
    X, y = sample(rng)
    X = np.round(X, 2).astype(np.float32).astype(np.float64)
    expected = inference(ForwardRegressor(), X, y, random_state=0)
    result = inference(ForwardRegressor(), container(X), list(y), random_state=0)
    np.testing.assert_array_equal(result.support, expected.support)
    np.testing.assert_allclose(result.estimate, expected.estimate, rtol=1e-5)
    frequency = stability(ForwardRegressor(), container(X), list(y), 6, random_state=0).input_frequency
    np.testing.assert_allclose(frequency, stability(ForwardRegressor(), X, y, 6, random_state=0).input_frequency)


def test_weights_reach_the_last_step_of_a_pipeline(rng):
    X, y = sample(rng)
    X[40:, 0] = rng.normal(size=40)  # irrelevant in the second half
    weights = np.repeat([1.0, 1e-3], 40)
    pipeline = make_pipeline(StandardScaler(), ForwardRegressor())
    for estimator in (pipeline, CriterionSearch(pipeline, {"forwardregressor__alpha": [1e-6]})):
        result = inference(estimator, X, y, sample_weight=weights, noise_variance=0.25, random_state=0)
        assert "x0" in result.terms
        assert stability(estimator, X, y, 4, sample_weight=weights, random_state=0).input_frequency[0] == 1.0


# -- results -----------------------------------------------------------------------------------------------------------


def test_result_of_inference_is_a_readable_record(rng):
    X, y = sample(rng)
    table = pd.DataFrame(X, columns=["speed", "load", "heat", "a", "b", "c"])
    result = inference(ForwardRegressor(criterion=None, max_terms=4), table, y, 0.9, random_state=1)
    assert set(result.terms) > {"speed", "heat"}
    text = str(result)
    for part in ("4 terms, 80 samples", "50% of the information", "90% interval", "p-value", "speed", "degrees of"):
        assert part in text
    assert "... and 2 more" in result.summary(2)
    frame = result.to_frame()
    assert list(frame.columns) == ["term", "support", "estimate", "std_error", "lower", "upper", "p_value"]
    np.testing.assert_array_equal(frame.estimate, result.estimate)
    with pytest.raises(FrozenInstanceError):
        result.level = 0.5


def test_no_terms_selected_is_a_result(rng):
    result = inference(ForwardRegressor(), rng.normal(size=(60, 1)), rng.normal(size=60), random_state=0)
    assert result.estimate.shape == result.p_value.shape == (0,)
    assert "no terms were selected" in str(result)


def test_the_draw_is_controlled_by_random_state(rng):
    X, y = sample(rng)
    first, second, other = (inference(ForwardRegressor(), X, y, random_state=seed).estimate[0] for seed in (0, 0, 1))
    assert first == second != other


# -- stability ---------------------------------------------------------------------------------------------------------


class RecordingSelector(SelectKBest):
    """Records the last column of X, which is the number of the row."""

    rows: ClassVar[list] = []

    def fit(self, X, y):
        self.rows.append(np.asarray(X)[:, -1].astype(int))
        return super().fit(X, y)


@pytest.fixture
def recorder():
    RecordingSelector.rows = []
    return RecordingSelector(f_regression, k=2)


def test_frequencies_are_counts_over_refits_on_complementary_halves(recorder, rng):
    X, y = sample(rng, n=31, noise=3.0)
    X[:, -1] = np.arange(31)
    result = stability(recorder, X, y, 7, random_state=0)
    halves = recorder.rows
    assert [len(rows) for rows in halves] == [16, 15, 16, 15, 16, 15, 16]
    for first, second in zip(halves[::2], halves[1::2], strict=False):
        assert sorted([*first, *second]) == list(range(31))
    expected = np.zeros(6)
    for rows in halves:
        expected[SelectKBest(f_regression, k=2).fit(X[rows], y[rows]).get_support()] += 1 / 7
    np.testing.assert_allclose(result.input_frequency, expected)
    by_name = dict(zip(result.terms, result.term_frequency, strict=True))
    assert by_name == pytest.approx({f"x{j}": share for j, share in enumerate(expected) if share})
    assert list(result.term_frequency) == sorted(result.term_frequency, reverse=True)
    assert result.n_terms.tolist() == [2] * 7


def test_groups_stay_together(recorder, rng):
    X, y = sample(rng, n=40)
    X[:, -1], groups = np.arange(40), np.repeat(np.arange(10), 4)
    stability(recorder, X, y, 6, groups=groups, random_state=0)
    for rows in recorder.rows:
        assert len(rows) == 20
        assert all(np.isin(np.flatnonzero(groups == group), rows).all() for group in set(groups[rows]))


def test_halves_have_the_classes_in_equal_proportions(rng):
    X = rng.normal(size=(60, 4))
    y = np.repeat(["rare", "frequent"], [6, 54])
    X[y == "rare", 0] += 4
    seen = []

    class Recorder(ForwardClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.append((np.asarray(y) == "rare").sum())
            return super().fit(X, y, sample_weight)

    assert stability(Recorder(), X, y, 10, random_state=0).input_frequency[0] == 1.0
    assert seen == [3] * 10


def test_terms_of_a_basis_are_counted_by_their_inputs(rng):
    table = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd")).assign(
        kind=pd.Categorical(np.array(["u", "v", "w"])[rng.integers(3, size=300)])
    )
    y = 2 * table.a * table.b + 3 * (table.kind == "v") + 0.2 * rng.normal(size=300)
    pairs = ForwardRegressor(make_pipeline(TableEncoder(), AnovaBasis(n_centers=1)))
    result = stability(pairs, table, y, 6, random_state=0)
    inputs = dict(zip(result.inputs, result.input_frequency, strict=True))
    assert inputs["a"] == inputs["b"] == inputs["kind"] == 1.0
    terms = dict(zip(result.terms, result.term_frequency, strict=True))
    assert terms["a, b"] == terms["kind"] == 1.0
    assert "term" in str(result)
    opaque = make_pipeline(PCA(2), ForwardRegressor(criterion=None, max_terms=1))
    components = stability(opaque, table[list("abcd")], y, 2)
    assert components.input_frequency.tolist() == [1.0] * 4  # not known one by one


def test_result_of_stability_is_a_readable_record(rng):
    X, y = sample(rng)
    result = stability(ForwardRegressor(), pd.DataFrame(X, columns=list("abcdef")), y, 6, random_state=0)
    text = str(result)
    assert "6 refits on 40 samples each" in text
    assert "term " not in text  # the terms are the inputs, which are listed already
    assert "more" in stability(ForwardRegressor(criterion="loo"), X, y, 6, random_state=0).summary(1)
    assert list(result.to_frame("inputs").columns) == ["input", "frequency"]
    assert list(result.to_frame().term) == list(result.terms)


# -- standard errors elsewhere -----------------------------------------------------------------------------------------


def test_standard_errors_are_labelled_as_given_the_terms(rng):
    X, y = sample(rng)
    assert "std. error given the terms" in ForwardRegressor().fit(X, y).summary()


# -- refusals ----------------------------------------------------------------------------------------------------------

X = np.random.default_rng(0).normal(size=(24, 3))
Y = X[:, 0] + np.random.default_rng(1).normal(size=24)
WIDE = np.random.default_rng(2).normal(size=(24, 60))


@pytest.mark.parametrize(
    ("action", "error", "pattern"),
    [
        (lambda: inference(ForwardClassifier(), X, Y > 0), ValueError,
         r"estimator must be a regressor, got ForwardClassifier: inference adds Gaussian noise to the targets"),
        (lambda: inference(make_pipeline(StandardScaler(), ForwardClassifier()), X, Y > 0), ValueError,
         "estimator must be a regressor, got Pipeline"),
        (lambda: inference(ForwardRegressor(loss="huber"), X, Y), ValueError,
         r"loss must be 'squared' for inference, got 'huber': it adds Gaussian noise to the targets of a least-"),
        (lambda: inference(LinearRegression(), X, Y), TypeError,
         r"estimator must select terms, got LinearRegression, which has no get_support: use an estimator of termwise"),
        (lambda: inference(ForwardRegressor(), X, Y, level=1.0), ValueError,
         r"level must be a finite number > 0 and < 1, got 1\.0: 0\.95 gives 95 % intervals"),
        (lambda: inference(ForwardRegressor(), X, Y, selection_share=0), ValueError, "selection_share must be"),
        (lambda: inference(ForwardRegressor(), X, Y, noise_variance=0), ValueError, "noise_variance must be .* got 0"),
        (lambda: inference(ForwardRegressor(), X, np.column_stack([Y, Y])), ValueError,
         r"y must have one output, got 2: call inference for each output"),
        (lambda: inference(ForwardRegressor(), X, X[:, 0]), ValueError,
         r"noise_variance must be given where it cannot be estimated, got a residual sum of squares of .* from 24"),
        (lambda: inference(ForwardRegressor(AnovaBasis(min_count=1)), X[:4], Y[:4]), ValueError,
         "noise_variance must be given"),
        (lambda: inference(ForwardRegressor(criterion=None, patience=None), WIDE, Y, random_state=0), ValueError,
         r"estimator must leave residual degrees of freedom, got \d+ terms selected for 24 samples, a model that "
         r"interpolates: limit max_terms"),
        (lambda: inference(SelectKBest(f_regression, k=2), np.column_stack([X[:, 0], 2 * X[:, 0], X[:, 1:]]), Y,
                           noise_variance=1.0, random_state=0), ValueError,
         r"estimator must select linearly independent terms, got 2 of rank 1: remove candidates"),
        (lambda: stability(ForwardRegressor(), X, Y, n_repeats=1), ValueError, "n_repeats must be a whole number >= 2"),
        (lambda: stability(ForwardRegressor(), X, Y, groups=np.zeros(24)), ValueError,
         r"groups must have at least two values to be split, got 1: leave it out"),
        (lambda: stability(ForwardRegressor(), X, Y, 2).to_frame("rows"), ValueError,
         "of must be one of 'terms', 'inputs'"),
        (lambda: stability(ForwardRegressor(), X, Y[:5]), ValueError, "inconsistent numbers of samples"),
    ],
)  # fmt: skip
def test_refusals(action, error, pattern):
    with pytest.raises(error, match=pattern):
        action()


def test_rows_of_a_file_are_refused(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    for function in (inference, stability):
        pattern = f"{function.__name__} must be given data in memory, got NpyRows: it refits on subsets of the rows"
        with pytest.raises(TypeError, match=pattern):
            function(ForwardRegressor(), open_rows(tmp_path / "rows.npy"), Y)
