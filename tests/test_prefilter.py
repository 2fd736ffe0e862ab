"""PrefilterClassifier: both stages against retraining, the exact sweep against brute force, and the estimator."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from conftest import needs_data
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from test_forward import StopAfter

import termwise.estimators.prefilter as prefilter_module
import termwise.linalg.filtered_signal as signal_module
from termwise import CriterionSearch, PrefilterClassifier, RadialBasis, datasets, forward_path
from termwise._numerics import ROOT_GAP_MIN
from termwise.estimators.prefilter import filter_labels, gaussians_of_all_widths, particle_swarm, steady_minimum
from termwise.linalg.criteria import misclassified
from termwise.linalg.filtered_signal import FilteredSignal, Prefilter, singular_vectors
from termwise.linalg.least_squares import WeightedRows, least_squares_problem
from termwise.linalg.two_stage import scores_by_output


def noisy(n=40, p=6, seed=0):
    """Plain columns and noisy labels."""
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, p)) + 0.3
    y = np.where(G[:, 0] - 0.6 * G[:, 1] + 0.8 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = -1.0, 1.0
    return G, y


def smooth(n=50, width=1.0, seed=0):
    """Gaussians on scattered points: nearly singular."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.6 * rng.normal(size=n) > 0, 1.0, -1.0)
    return RadialBasis(width=width).fit_transform(X), y


def factorial(repeats=2, seed=0):
    """A two-level design, where sizes tie and scores are zero exactly."""
    rng = np.random.default_rng(seed)
    G = np.repeat(np.array(list(itertools.product([-1.0, 1.0], repeat=3))), repeats, axis=0)
    G = np.column_stack([G, G[:, 0] * G[:, 1], np.ones(len(G))])
    y = rng.choice([-1.0, 1.0], size=len(G))
    y[:2] = -1.0, 1.0
    return G, y


def filtered(G, y, intercept=False, tol=0.01, counts=None):
    """The filter of one output."""
    problem = least_squares_problem(
        G, y[:, None], np.ones(len(y)) if counts is None else counts.astype(float), intercept
    )
    return Prefilter(singular_vectors(problem.G, tol), problem, 0)


def directions(one, m=None):
    """Rows of single samples, the intercept's direction first where there is one."""
    V = one.V[:, :m]
    return np.column_stack([np.full(len(V), 1 / np.sqrt(one.n)), V]) if one.h0 else V


def two_stage_scores(stage, path, rows):
    """Predictions without each sample by both stages, along a path."""
    data = path.training
    return np.stack(list(scores_by_output(stage, rows, data.Z, data.Y, data.Y_mean)), axis=2)


def moons(n=80, seed=0, noise=0.3):
    return make_moons(n, noise=noise, random_state=seed)


# -- stage one ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(40, 7), (7, 40), (15, 15), (10, 1)])
@pytest.mark.parametrize("tol", [0.0, 1e-9, 1e-3, 0.3])
def test_singular_vectors_are_those_of_the_svd(shape, tol, rng):
    G = rng.normal(size=shape) @ np.diag(np.geomspace(1, 1e-2, shape[1]))
    U, s, _ = np.linalg.svd(G, full_matrices=False)
    expected, found = U[:, s > tol * s[0]], singular_vectors(G, tol)
    assert found.shape == expected.shape
    np.testing.assert_allclose(np.abs(expected.T @ found), np.eye(found.shape[1]), atol=1e-8)
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-9)


def test_singular_vectors_of_rounding_do_not_count(rng):
    G = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 12))
    assert singular_vectors(G, 0.0).shape == (20, 3)
    centred = G[:5] - G[:5].mean(axis=0)
    U = singular_vectors(centred, 0.0)
    np.testing.assert_allclose(U.sum(axis=0), 0, atol=1e-12)
    assert singular_vectors(np.zeros((4, 2)), 0.01).shape == (4, 0)
    assert singular_vectors(np.zeros((2, 4)), 0.0).shape == (2, 0)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("lambda_2", [0.0, 0.7])
@pytest.mark.parametrize("weighted", [False, True], ids=["once", "repeated"])
def test_leave_one_out_equals_retraining(intercept, lambda_2, weighted, rng):
    G, y = noisy(24, 6, seed=3)
    counts = rng.integers(1, 4, size=24) if weighted else np.ones(24, dtype=int)
    one = filtered(G, y, intercept, counts=counts)
    H, repeated = oracles.repeat(counts, directions(one), y)
    agreed = 0
    for t in (one.size[0] + one.size[1]) / 2, (one.size[2] + one.size[3]) / 2, one.size[-1] / 2:
        penalties = np.append(np.zeros(int(intercept)), np.full(len(one.g), 2 * t))
        c = oracles.elastic_net(H, repeated, penalties, lambda_2)
        np.testing.assert_allclose(np.repeat(one.signal(t), counts) / (1 + lambda_2), H @ c, atol=1e-10)
        residuals, kept = oracles.leave_one_out_elastic_net(H, repeated, penalties, lambda_2)
        found = np.repeat(one.residual(t, lambda_2), counts)
        np.testing.assert_allclose(found[kept], residuals[kept], rtol=1e-8, atol=1e-9)
        assert one.violations(t, lambda_2) == pytest.approx(np.mean(~kept))
        agreed += kept.sum()
        if kept.all():
            assert one.rate(t) == pytest.approx(np.mean(repeated * (repeated - residuals) < 0))
    assert agreed > len(repeated)


@pytest.mark.parametrize("lambda_2", [0.0, 0.7])
def test_rows_that_count_for_less_than_one_are_left_out_as_a_whole(lambda_2, rng):
    G, y = noisy(30, 5, seed=3)
    counts = rng.uniform(0.3, 1.0, size=30)
    root = np.sqrt(counts)
    one = filtered(G, y, counts=counts)
    t = (one.size[1] + one.size[2]) / 2
    H, labels = one.V * root[:, None], one.y * root
    residuals, kept = oracles.leave_one_out_elastic_net(H, labels, np.full(len(one.g), 2 * t), lambda_2)
    assert kept.sum() > 20
    np.testing.assert_allclose(one.residual(t, lambda_2)[kept], (residuals / root)[kept], rtol=1e-8, atol=1e-9)
    assert one.violations(t, lambda_2) == pytest.approx(counts[~kept].sum() / counts.sum())
    stage = FilteredSignal([one], np.array([t]), np.array([lambda_2]), y[:, None], counts)
    path = forward_path(G, stage.signal, rule="sse", alpha=0, max_terms=2, fit_intercept=False, sample_weight=counts)
    scores = two_stage_scores(stage, path, WeightedRows(counts, False))
    m, terms = one.active(t), G[:, path.terms] * root[:, None]
    expected = oracles.two_stage_leave_one_out(terms, H[:, :m], labels, one.sign[:m], t, lambda_2, False)
    np.testing.assert_allclose(scores[2, :, 0], expected / root, rtol=1e-8, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    share=st.floats(0.01, 0.99),
    lambda_2=st.floats(0, 100),
    intercept=st.booleans(),
    width=st.sampled_from([0.3, 1.0, 3.0]),
)
def test_the_rate_does_not_depend_on_lambda_2(seed, share, lambda_2, intercept, width):
    G, y = smooth(25, width, seed)
    one = filtered(G, y, intercept)
    t = share * one.size[0]
    margins = y * one.signal(t) - one.leverage(t)
    assume(np.abs(margins).min() > 1e-9 and one.leverage(t).max() < 1 - 1e-9)
    scores = y - one.residual(t, lambda_2)
    assert one.rate(t) == pytest.approx(np.mean(y * scores < 0))
    np.testing.assert_allclose(y * scores, margins / (1 + lambda_2 - one.leverage(t)), rtol=1e-6, atol=1e-12)


# -- the sweep ---------------------------------------------------------------------------------------------------------

SWEPT = {
    "columns": lambda: noisy(40, 6),
    "smooth": lambda: smooth(50, 1.0),
    "narrow": lambda: smooth(30, 0.2, seed=1),
    "wide": lambda: smooth(40, 4.0, seed=2),
    "factorial": lambda: factorial(2, seed=4),
}


@pytest.fixture(params=itertools.product(SWEPT, [False, True], [False, True]), ids=lambda p: f"{p[0]}-{p[1]}-{p[2]}")
def one(request):
    """A filter for each kind of data, without and with an intercept, without and with weights."""
    name, intercept, weighted = request.param
    G, y = SWEPT[name]()
    return filtered(G, y, intercept, counts=np.random.default_rng(5).integers(1, 4, size=len(y)) if weighted else None)


def test_pieces_tile_the_range_and_hold_the_rate(one):
    rate, low, high, m = one.sweep()
    order = np.argsort(-high)
    gap = len(one.g) * len(one.y) * ROOT_GAP_MIN * one.size[0]
    assert high.max() <= one.size[0]
    np.testing.assert_allclose(high[order[0]], one.size[0], atol=gap)
    np.testing.assert_allclose(low[order[:-1]], high[order[1:]], atol=gap)
    np.testing.assert_allclose(low[order[-1]], 0, atol=gap)
    for i in range(len(rate)):
        for t in low[i] + np.array([0.001, 0.5, 0.999]) * (high[i] - low[i]):
            assert one.active(t) == m[i]
            assert one.rate(t) == pytest.approx(rate[i], abs=1e-12)


def test_the_minimum_is_that_of_brute_force(one):
    best = one.best()
    rate, low, high, m = one.sweep()
    grid = np.concatenate([np.linspace(0, one.size[0], 2000)[1:-1], (low + high) / 2])
    costs = np.array([one.cost(t) for t in grid])
    assert best.rate == pytest.approx(costs.min(), abs=1e-12)
    assert one.rate(best.t) == one.cost(best.t) == pytest.approx(best.rate, abs=1e-12)
    assert one.cost(0.0) == np.inf  # where margins can all be zero
    assert best.low < best.t < best.high
    assert one.active(best.t) == best.m >= 1
    equal = [h for r, h, k in zip(rate, high, m, strict=True) if abs(r - best.rate) < 1e-9 and one.is_eligible(k)]
    assert best.high == max(equal)


def test_only_trusted_intervals_count_unless_there_is_none(monkeypatch):
    one = filtered(*smooth(40, 0.5))
    trusted = {
        m
        for m in range(1, len(one.g) + 1)
        if one.violations((one.size[m - 1] + (one.size[m] if m < len(one.g) else 0)) / 2)
        <= signal_module.MAX_VIOLATIONS
    }
    assert 0 < len(trusted) < len(one.g)
    assert {m for m in range(1, len(one.g) + 1) if one.is_eligible(m)} == trusted
    rate, _, _, m = one.sweep()
    best = one.best()
    assert best.m in trusted
    assert best.rate == min(r for r, k in zip(rate, m, strict=True) if k in trusted)
    monkeypatch.setattr(signal_module, "MAX_VIOLATIONS", -1.0)
    free = filtered(*smooth(40, 0.5))
    assert free.best().rate == rate.min()
    assert all(free.is_eligible(k) for k in range(1, len(free.g) + 1))
    assert free.cost(free.best().t) == rate.min()


def test_what_is_no_model_never_wins():
    """With every direction active and no penalty, or with none active, the formula counts no errors at all."""
    G, y = smooth(30, 0.4)
    one = filtered(G, y, tol=0.0)
    assert len(one.g) == 30
    best = one.best()
    assert 1 <= best.m < 30
    assert best.rate > 0
    assert one.cost(one.size[0]) == one.cost(2 * one.size[0]) == np.inf
    assert one.cost(0.0) == np.inf
    assert one.rate(0.5 * one.size[-1]) == 1.0  # only the sample itself says anything of it


def test_sizes_that_tie():
    """On samples that know nothing of each other every |g| is the same: one interval, and nothing to learn."""
    one = filtered(np.eye(12), np.tile([1.0, -1.0], 6))
    best = one.best()
    assert (best.m, best.low, best.high, best.rate) == (12, 0.0, 1.0, 1.0)
    X = np.arange(12.0)[:, None]
    for search in ("exact", "pso"):
        model = PrefilterClassifier(RadialBasis(width=1e-3), search=search, random_state=0).fit(X, [0, 1] * 6)
        assert model.loo_error_rate_ == 1.0
        assert np.isfinite(model.decision_function(X)).all()


def test_chunks_of_intervals_change_nothing(monkeypatch):
    one = filtered(*smooth(40, 0.6), intercept=True)
    whole = one.sweep()
    monkeypatch.setattr(signal_module, "CHUNK", 3 * 40)
    for a, b in zip(whole, one.sweep(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_zero_scores_are_the_second_class():
    scores, labels = np.array([[0.0], [0.0], [-1e-17], [-0.1], [0.1]]), np.array([[1.0], [-1.0], [1.0], [1.0], [-1.0]])
    np.testing.assert_array_equal(misclassified(scores, labels), [False, True, False, True, True])
    three = np.array([[0.2, 0.1, 0.0], [-3.0, -2.0, -2.5]])
    np.testing.assert_array_equal(misclassified(three, np.array([[1, -1, -1], [-1, -1, 1]])), [False, True])
    one = filtered(np.array([[1.0], [1.0], [1.0], [0.0], [0.0]]), np.array([1.0, 1.0, 1.0, 1.0, -1.0]))
    assert one.rate(one.size[0] / 2) == pytest.approx(0.2)  # the last two score zero
    assert one.best().rate == pytest.approx(0.2)


# -- the swarm ---------------------------------------------------------------------------------------------------------


def test_the_swarm_finds_the_bottom_of_a_bowl_in_its_box():
    upper, bottom, seen = np.array([2.0, 5.0]), np.array([0.4, 4.0]), []

    def bowl(x):
        seen.append(x.copy())
        return float(np.sum((x - bottom) ** 2))

    at, cost = particle_swarm(bowl, upper, 20, 60, np.random.RandomState(0))
    np.testing.assert_allclose(at, bottom, atol=1e-2)
    assert cost == min(np.sum((x - bottom) ** 2) for x in seen)
    assert len(seen) == 20 * 61
    assert np.all(np.array(seen) >= 0)
    assert np.all(np.array(seen) <= upper)
    again = particle_swarm(bowl, upper, 20, 60, np.random.RandomState(0))
    np.testing.assert_array_equal(again[0], at)
    corner, _ = particle_swarm(lambda x: float(np.sum(x)), upper, 20, 60, np.random.RandomState(1))
    np.testing.assert_allclose(corner, 0, atol=1e-3)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", SWEPT)
def test_exact_is_never_worse_than_the_swarm(name, intercept):
    G, y = SWEPT[name]()
    options = {"basis": None, "fit_intercept": intercept}
    exact = PrefilterClassifier(**options).fit(G, y)
    assert exact.lambda_2_ == 0.0
    for seed in range(3):
        swarm = PrefilterClassifier(**options, search="pso", random_state=seed, swarm_steps=10).fit(G, y)
        assert exact.loo_error_rate_ <= swarm.loo_error_rate_
        assert 0 <= swarm.lambda_2_ <= 1
        again = clone(swarm).fit(G, y)
        assert (again.lambda_1_, again.lambda_2_) == (swarm.lambda_1_, swarm.lambda_2_)
        assert again.support_.tolist() == swarm.support_.tolist()


def test_a_swarm_of_one_that_meets_nothing_trusted():
    G, y = smooth(30, 0.2, seed=1)
    exact = PrefilterClassifier(None).fit(G, y)
    for seed in range(10):
        lost = PrefilterClassifier(None, search="pso", swarm_size=1, swarm_steps=1, random_state=seed).fit(G, y)
        assert exact.loo_error_rate_ <= lost.loo_error_rate_
        assert filter_labels(lost, G, y[:, None], np.ones(len(y))).filters[0].cost(lost.lambda_1_ / 2) < np.inf


# -- both stages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("lambda_2", [0.0, 0.5])
@pytest.mark.parametrize("weighted", [False, True], ids=["once", "repeated"])
@pytest.mark.parametrize("classes", [2, 3])
def test_leave_one_out_over_both_stages_equals_refits(intercept, lambda_2, weighted, classes, rng):
    n = 30
    X = rng.normal(size=(n, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), [0.0] if classes == 2 else [-0.5, 0.5])
    counts = rng.integers(1, 4, size=n) if weighted else np.ones(n, dtype=int)
    model = PrefilterClassifier(RadialBasis(width=1.5), lambda_2=lambda_2, fit_intercept=intercept, max_terms=4)
    model.fit(X, y, sample_weight=counts)
    stage, G = model.first_stage_, RadialBasis(width=1.5).fit_transform(X)
    scores = two_stage_scores(stage, model.path_, WeightedRows(counts.astype(float), intercept))
    assert scores.shape == (len(model.path_) + 1, n, 1 if classes == 2 else classes)
    first = np.cumsum(counts) - counts  # the first repeat of each sample
    for j, (one, t) in enumerate(zip(stage.filters, stage.t, strict=True)):
        m = one.active(t)
        assert m > 0
        signs = np.append(np.zeros(int(intercept)), one.sign[:m])
        for k in range(0 if intercept else 1, len(model.path_) + 1):
            terms, H, labels = oracles.repeat(counts, G[:, model.path_.terms[:k]], directions(one, m), one.y)
            expected = oracles.two_stage_leave_one_out(terms, H, labels, signs, t, lambda_2, intercept)
            np.testing.assert_allclose(scores[k, :, j], expected[first], rtol=1e-7, atol=1e-9)
    cut = model.at(2)
    residuals = stage.labels - scores[2]
    np.testing.assert_allclose(np.atleast_2d(cut.loo_residuals_.T).T, residuals, rtol=1e-9)
    assert cut.final_error_rate_ == pytest.approx(np.average(misclassified(scores[2], stage.labels), weights=counts))
    assert cut.criteria_["loo"] == pytest.approx(np.average(np.mean(residuals**2, axis=1), weights=counts))
    if not intercept:
        np.testing.assert_array_equal(scores[0], 0)


def test_samples_that_a_term_sits_on_alone_are_predicted_by_the_mean():
    G, y = noisy(20, 3)
    G = np.column_stack([G, np.eye(20)[:, 7]])
    for intercept in (False, True):
        one = filtered(G, y, intercept)
        stage = FilteredSignal([one], np.array([one.size[-1] / 2]), np.zeros(1), y[:, None], np.ones(20))
        path = forward_path(G, stage.signal[:, 0], rule="sse", alpha=0, fit_intercept=intercept)
        scores = two_stage_scores(stage, path, WeightedRows(np.ones(20), intercept))
        taken = path.terms.tolist().index(3) + 1
        np.testing.assert_allclose(scores[taken:, 7, 0], stage.level[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("beta", [1e-6, 0.1, 2.0])
def test_stage_two_is_forward_selection_on_the_filtered_signal(intercept, beta):
    G, y = smooth(60, 1.2)
    counts = np.arange(60) % 3 + 1.0
    model = PrefilterClassifier(None, beta=beta, criterion=None, fit_intercept=intercept, max_terms=25)
    model.fit(G, y, sample_weight=counts)
    path = forward_path(
        G, model.prefiltered_, rule="d_optimal", beta=beta, alpha=0, max_terms=25, fit_intercept=intercept,
        sample_weight=counts,
    )  # fmt: skip
    assert model.support_.tolist() == path.terms.tolist()
    assert model.n_terms_ == len(path)
    assert model.stop_reason_ == path.stop_reason
    for k in {1, len(path) // 2, len(path)}:
        w, b = path.coef(k)
        np.testing.assert_allclose(model.at(k).decision_function(G), G[:, path.terms[:k]] @ w + b, rtol=1e-5, atol=1e-6)
    assert model.at(1).support_.tolist() == path.terms[:1].tolist()
    assert model.n_terms_ == len(path)  # cutting makes another model


def test_the_signal_is_that_of_the_elastic_net():
    G, y = smooth(40, 1.0)
    model = PrefilterClassifier(None, lambda_2=0.3).fit(G, y)
    U = singular_vectors(G, 0.01)
    c = oracles.elastic_net(U, y, np.full(U.shape[1], model.lambda_1_), 0.3)
    np.testing.assert_allclose(model.prefiltered_, U @ c, atol=1e-9)
    assert model.lambda_2_ == 0.3
    everything = filter_labels(model, G, y[:, None], np.ones(len(y)))
    assert model.sign_violations_ == everything.filters[0].violations(model.lambda_1_ / 2, 0.3)
    assert model.first_stage_.filters[0].V.shape[1] == everything.filters[0].active(model.lambda_1_ / 2) < U.shape[1]
    plain = PrefilterClassifier(None).fit(G, y)
    assert plain.lambda_1_ == model.lambda_1_
    assert plain.loo_error_rate_ == model.loo_error_rate_
    np.testing.assert_allclose(plain.prefiltered_, 1.3 * model.prefiltered_, rtol=1e-12)


def test_lambda_2_is_another_name_for_beta():
    G, y = smooth(60, 1.2)
    shrunk = PrefilterClassifier(None, lambda_2=1.5, beta=0.02).fit(G, y)
    plain = PrefilterClassifier(None, beta=0.02 * 2.5**2).fit(G, y)
    assert shrunk.path_.terms.tolist() == plain.path_.terms.tolist()
    np.testing.assert_allclose(2.5 * shrunk.at(2).decision_function(G), plain.at(2).decision_function(G), rtol=1e-8)


def test_the_size_follows_its_rule():
    X, y = moons(120)
    model = PrefilterClassifier(RadialBasis(width=0.7)).fit(X, y)
    cuts = [model.at(k) for k in range(1, len(model.path_) + 1)]
    squares = np.array([cut.loo_residuals_**2 for cut in cuts])
    more = squares - squares[squares.mean(axis=1).argmin()]
    near = more.mean(axis=1) <= more.std(axis=1) / np.sqrt(120) + 1e-12
    rates = np.array([cut.final_error_rate_ for cut in cuts])
    least = rates[near].min()
    fits = near & (rates <= least + np.sqrt(least * (1 - least) / 120) / 2 + 1e-12)
    assert model.n_terms_ == 1 + np.flatnonzero(fits)[0]
    assert model.n_terms_ < len(model.path_)
    assert PrefilterClassifier(RadialBasis(width=0.7), max_terms=2).fit(X, y).path_.terms.tolist() == (
        model.path_.terms[:2].tolist()
    )
    assert PrefilterClassifier(RadialBasis(width=0.7), max_terms=2).fit(X, y).n_terms_ <= 2


def test_a_path_that_has_nothing_left_to_reproduce_ends():
    G, y = smooth(60, 2.0)
    model = PrefilterClassifier(None, beta=0).fit(G, y)
    power = np.sum(model.prefiltered_**2)
    left = model.path_.column("sse") / power
    assert model.stop_reason_ == model.path_.stop_reason == "the signal is reproduced"
    assert left[-1] <= 1e-4 < left[-2]
    longer = PrefilterClassifier(None, beta=0, criterion=None).fit(G, y)
    assert longer.n_terms_ > len(model.path_)
    assert longer.stop_reason_ != model.stop_reason_


# -- the estimator -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [3, 7], [False, True], [-1.0, 1.0], ["a", "b", "c"], [0, 1, 2, 5]],
    ids=["words", "numbers", "truths", "floats", "three", "four"],
)
def test_labels_of_any_kind(labels, rng):
    X = rng.normal(size=(120, 2))
    edges = np.quantile(X[:, 0], np.linspace(0, 1, len(labels) + 1)[1:-1])
    y = np.array(labels)[np.digitize(X[:, 0] + 0.1 * rng.normal(size=120), edges)]
    model = PrefilterClassifier().fit(X, y)
    assert list(model.classes_) == sorted(labels)
    assert model.predict(X).dtype == y.dtype
    assert model.score(X, y) > 0.8
    scores = model.decision_function(X)
    q = len(labels)
    if q == 2:
        assert scores.shape == model.prefiltered_.shape == model.loo_residuals_.shape == (120,)
        assert model.weights_.shape == (model.n_terms_,)
        np.testing.assert_array_equal(model.predict(X) == sorted(labels)[1], scores >= 0)
    else:
        assert scores.shape == model.prefiltered_.shape == model.loo_residuals_.shape == (120, q)
        assert model.weights_.shape == (q, model.n_terms_)
        assert model.lambda_1_.shape == model.lambda_2_.shape == (q,)
        np.testing.assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    assert model.criterion_value_ == model.loo_error_rate_ == model.criteria_["loo_error_rate"]
    assert 0 <= model.sign_violations_ <= 1
    assert model.support_.shape == (model.n_terms_,)
    assert np.count_nonzero(np.any(np.atleast_2d(model.coef_), axis=0)) == model.n_terms_


def test_every_class_is_filtered_against_the_rest(rng):
    X = rng.normal(size=(60, 2))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=60), [-0.5, 0.5])
    model = PrefilterClassifier(RadialBasis(width=1.5)).fit(X, y)
    for label in range(3):
        alone = PrefilterClassifier(RadialBasis(width=1.5)).fit(X, y == label)
        assert model.lambda_1_[label] == pytest.approx(alone.lambda_1_)
        np.testing.assert_allclose(model.prefiltered_[:, label], alone.prefiltered_, atol=1e-10)
    wrong = (model.first_stage_.labels - model.first_stage_.residual).argmax(axis=1) != y
    assert model.loo_error_rate_ == pytest.approx(wrong.mean())


def test_unbalanced_classes(rng):
    X = rng.normal(size=(100, 2))
    y = X[:, 0] > 1.6
    assert 2 <= y.sum() < 12
    model = PrefilterClassifier().fit(X, y)
    assert model.score(X, y) >= 0.9
    one_against_many = PrefilterClassifier().fit(X, np.arange(100) == 3)
    assert one_against_many.score(X, np.arange(100) == 3) >= 0.9


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("search", ["exact", "pso"])
def test_weights_mean_repetitions(intercept, classes, search, rng):
    X = np.round(rng.normal(size=(40, 2)), 1)
    y = np.digitize(X[:, 0] + 0.4 * rng.normal(size=40), [0.0] if classes == 2 else [-0.4, 0.4])
    counts = rng.integers(0, 4, size=40)
    model = PrefilterClassifier(fit_intercept=intercept, search=search, random_state=0, swarm_steps=5)
    weighted = clone(model).fit(X, y, sample_weight=counts)
    repeated = clone(model).fit(*oracles.repeat(counts, X, y))
    np.testing.assert_allclose(weighted.basis_.width_, repeated.basis_.width_)
    assert weighted.path_.terms.tolist() == repeated.path_.terms.tolist()
    assert weighted.support_.tolist() == repeated.support_.tolist()
    assert weighted.stop_reason_ == repeated.stop_reason_
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-5, atol=1e-7)
    for name in ("lambda_1_", "loo_error_rate_", "final_error_rate_", "sign_violations_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-6)
    used = counts > 0
    np.testing.assert_allclose(
        np.repeat(weighted.loo_residuals_, counts, axis=0), repeated.loo_residuals_, rtol=1e-5, atol=1e-6
    )
    left_out = clone(model).fit(X[used], y[used], sample_weight=counts[used])
    np.testing.assert_array_equal(left_out.decision_function(X), weighted.decision_function(X))
    assert len(weighted.prefiltered_) == used.sum()
    assert len(weighted.loo_residuals_) == 40


def test_weights_and_what_is_left_to_reproduce(capsys):
    G, y = smooth(40, 1.0)
    counts = np.where(y > 0, 3, 1)
    model = PrefilterClassifier(None, fit_intercept=True, beta=0, verbose=1)
    weighted = clone(model).fit(G, y, sample_weight=counts)
    first = capsys.readouterr().out
    repeated = clone(model).fit(*oracles.repeat(counts, G, y))
    assert first == capsys.readouterr().out
    assert weighted.stop_reason_ == repeated.stop_reason_ == "the signal is reproduced"


def test_weights_that_make_a_class_vanish(rng):
    X = rng.normal(size=(40, 2))
    two, three = np.arange(40) % 2, np.arange(40) % 3
    model = PrefilterClassifier().fit(X, two, sample_weight=two)
    assert list(model.classes_) == [0, 1]
    assert np.mean(model.predict(X) == 1) > 0.9
    model = PrefilterClassifier().fit(X, three, sample_weight=three > 0)
    assert list(model.classes_) == [0, 1, 2]
    assert not np.any(model.predict(X[three > 0]) == 0)


def test_units_of_the_inputs_do_not_matter(rng, monkeypatch):
    X, y = moons(70)
    other = X * [1e3, 2.0**-10] + [5.0, -1.0]
    plain, scaled = PrefilterClassifier().fit(X, y), PrefilterClassifier().fit(other, y)
    assert plain.support_.tolist() == scaled.support_.tolist()
    assert plain.loo_error_rate_ == scaled.loo_error_rate_
    np.testing.assert_allclose(plain.decision_function(X), scaled.decision_function(other), rtol=1e-6, atol=1e-8)
    monkeypatch.setattr(prefilter_module, "MAX_CENTERS", 20)
    few, few_scaled = PrefilterClassifier().fit(X, y), PrefilterClassifier().fit(other, y)
    assert few.coef_.shape == (20,)
    np.testing.assert_allclose(few.basis_.centers_ * [1e3, 2.0**-10] + [5.0, -1.0], few_scaled.basis_.centers_)
    np.testing.assert_allclose(few.decision_function(X), few_scaled.decision_function(other), rtol=1e-6, atol=1e-8)


def test_widths_to_try(rng):
    X = np.column_stack([rng.normal(size=30), np.full(30, 0.1), 50 * rng.normal(size=30)])
    bases = list(gaussians_of_all_widths(np.vstack([X, X[:7]])))
    assert len(bases) == len(prefilter_module.WIDTH_FACTORS)
    assert np.all(np.diff([basis.width[0] for basis in bases]) > 0)
    for basis in bases:
        np.testing.assert_array_equal(basis.centers, X)
        np.testing.assert_allclose(basis.width / basis.width[1], [X[:, 0].std(), 1.0, X[:, 2].std()])
    rates, squares = np.array([0.30, 0.10, 0.11, 0.12, 0.5]), np.array([0.1, 0.5, 0.4, 0.3, 0.01])
    assert steady_minimum(rates, squares, 1e9) == 1
    assert steady_minimum(rates, squares, 100.0) == 3
    assert steady_minimum(rates, squares, 1000.0) == 1


def test_the_width_with_the_smallest_rate_is_chosen():
    X, y = moons(60)
    model = PrefilterClassifier().fit(X, y)
    fits = [PrefilterClassifier(basis).fit(X, y) for basis in gaussians_of_all_widths(X)]
    rates = np.array([fit.loo_error_rate_ for fit in fits])
    squares = np.array([np.mean(fit.first_stage_.residual**2) for fit in fits])
    chosen = steady_minimum(rates, squares, 60.0)
    assert model.loo_error_rate_ == rates[chosen]
    np.testing.assert_array_equal(model.basis_.width_, fits[chosen].basis_.width_)
    assert model.support_.tolist() == fits[chosen].support_.tolist()


def test_the_width_is_chosen_on_some_of_many_samples(monkeypatch):
    monkeypatch.setattr("termwise.estimators.prefilter.WIDTH_ROWS", 50)
    X, y = moons(150)
    model = PrefilterClassifier().fit(X, y)
    assert len(model.prefiltered_) == 150
    assert model.score(X, y) > 0.85


def test_criterion_search_picks_the_smallest_rate():
    X, y = moons(80)
    widths = [0.05, 0.6, 30.0]
    search = CriterionSearch(PrefilterClassifier(RadialBasis()), {"basis__width": widths}).fit(X, y)
    rates = [PrefilterClassifier(RadialBasis(width=width)).fit(X, y).loo_error_rate_ for width in widths]
    assert search.results_["criterion_value"].tolist() == rates
    assert search.best_params_ == {"basis__width": widths[int(np.argmin(rates))]}
    assert search.score(X, y) > 0.8


def test_functions_that_vanish_on_the_data_do_not_win_a_search():
    X, y = moons(60)
    far = PrefilterClassifier(RadialBasis(centers=[[50.0, 50.0]]))
    search = CriterionSearch(far, {"basis__width": [0.01, 60.0]}).fit(X, y)
    assert search.results_["criterion_value"][0] == 0.5
    assert search.results_["n_terms"][0] == 0


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("constant", [1.0, 0.1])
def test_labels_without_any_signal(intercept, constant, capsys):
    X, y = np.full((10, 2), constant), np.array([0, 1] * 5)
    for basis in ("auto", None, RadialBasis()):
        model = PrefilterClassifier(basis, fit_intercept=intercept, verbose=1, beta=5.0).fit(X, y)
        assert model.n_terms_ == len(model.path_) == 0
        assert model.stop_reason_ == "the labels are uncorrelated with the candidates"
        assert model.loo_error_rate_ == model.final_error_rate_ == (1.0 if intercept else 0.5)
        np.testing.assert_array_equal(model.prefiltered_, 0)
        np.testing.assert_array_equal(model.predict(X), 1)
        assert "no terms" in model.summary()
    swarm = PrefilterClassifier(None, search="pso", fit_intercept=intercept, random_state=0).fit(X, y)
    assert swarm.loo_error_rate_ == model.loo_error_rate_


@pytest.mark.slow
def test_very_few_samples():
    X = np.array([[0.0], [1.0]])
    for options in ({}, {"fit_intercept": True}, {"criterion": None}, {"search": "pso", "random_state": 0}):
        model = PrefilterClassifier(**options).fit(X, ["a", "b"])
        assert np.isfinite(model.decision_function(X)).all()
        assert model.summary().startswith("PrefilterClassifier")
    assert PrefilterClassifier().fit(X, ["a", "b"]).predict(X).tolist() == ["a", "b"]
    three = PrefilterClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    assert three.predict([[0.0], [2.0]]).shape == (2,)
    same = PrefilterClassifier().fit(np.ones((5, 2)), [0, 1, 1, 1, 1])
    assert same.predict(np.ones((1, 2))) == [1]


def test_duplicates_and_constant_columns(rng):
    X, y = moons(50)
    twice = PrefilterClassifier().fit(np.vstack([X, X]), np.append(y, y))
    assert len(twice.coef_) == 50  # one function per different sample
    constant = PrefilterClassifier().fit(np.column_stack([X, np.full(50, 0.1)]), y)
    plain = PrefilterClassifier().fit(X, y)
    np.testing.assert_allclose(
        constant.decision_function(np.column_stack([X, np.full(50, 0.1)])), plain.decision_function(X), rtol=1e-6
    )
    moved = constant.decision_function(np.column_stack([X, np.full(50, 0.1001)]))
    np.testing.assert_allclose(moved, plain.decision_function(X), rtol=1e-3, atol=1e-3)


def test_frames_lists_and_float32():
    X, y = moons(60)
    model = PrefilterClassifier().fit(X, y)
    for frame in (pd.DataFrame(X, columns=["a", "b"]), pl.DataFrame(X, schema=["a", "b"]), X.tolist()):
        other = PrefilterClassifier().fit(frame, y)
        np.testing.assert_allclose(other.decision_function(frame), model.decision_function(X), rtol=1e-9)
    counts = np.arange(60) % 3
    weighted = PrefilterClassifier().fit(X, y, sample_weight=counts)
    for frame in (pd.DataFrame(X, columns=["a", "b"]), pl.DataFrame(X, schema=["a", "b"])):
        other = PrefilterClassifier().fit(frame, y, sample_weight=counts)
        np.testing.assert_allclose(other.decision_function(frame), weighted.decision_function(X), rtol=1e-9)
        assert list(other.feature_names_in_) == ["a", "b"]
    single = PrefilterClassifier().fit(X.astype(np.float32), y)
    assert single.decision_function(X.astype(np.float32)).dtype == np.float32
    assert np.mean(single.predict(X.astype(np.float32)) == model.predict(X)) > 0.95


def test_other_bases(rng):
    X = rng.normal(size=(80, 5))
    y = X[:, 1] - X[:, 3] + 1.0 + 0.3 * rng.normal(size=80) > 0
    columns = PrefilterClassifier(None, fit_intercept=True).fit(X, y)
    assert {1, 3} <= set(columns.support_)
    assert columns.score(X, y) > 0.85
    assert columns.intercept_ > 0
    sparse = PrefilterClassifier(None, fit_intercept=True).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)), columns.decision_function(X))
    centers = X[:10]
    radial = PrefilterClassifier(RadialBasis(width=3.0, centers=centers)).fit(X, y)
    assert radial.coef_.shape == (10,)
    np.testing.assert_array_equal(radial.fitted_terms_.basis.centers_, centers[radial.support_])
    given = radial.get_params()["basis__width"]
    assert given == 3.0


def test_what_a_fit_leaves_behind(capsys):
    X, y = moons(60)
    model = PrefilterClassifier(verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    widths = [line for line in lines if line.startswith("width ")]
    assert len(widths) == len(prefilter_module.WIDTH_FACTORS)
    assert len(lines) == len(widths) + len(model.path_)
    assert "leave-one-out error rate" in widths[0]
    assert "candidate" in lines[-1]
    assert "left" in lines[-1]
    summary = model.summary()
    assert summary.startswith(f"PrefilterClassifier: {model.n_terms_} of 60 terms, 60 samples")
    assert (
        f"leave-one-out error rate {model.final_error_rate_:.2%}, of stage one {model.loo_error_rate_:.2%}" in summary
    )
    assert f"lambda_1 {model.lambda_1_:.4g}" in summary
    assert len(model.summary(max_terms=1).splitlines()) < len(summary.splitlines())
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.decision_function(X), model.decision_function(X))
    assert restored.at(1).final_error_rate_ == model.at(1).final_error_rate_
    assert restored.summary() == summary
    assert not hasattr(clone(model), "lambda_1_")
    assert isinstance(model.first_stage_, FilteredSignal)
    assert model.basis == "auto"


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    X, y = moons(40)
    model = PrefilterClassifier().fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(np.where(X > 1, np.nan, X), y)
    np.testing.assert_array_equal(model.decision_function(X), before)
    model.set_params(basis=RadialBasis(width=0.5)).fit(X, y)
    assert model.basis_.width_ == 0.5


def test_scikit_learns_callbacks():
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    X, y = moons(60)
    callback = StopAfter(2)
    model = PrefilterClassifier(RadialBasis(width=0.5), criterion=None).set_callbacks(callback).fit(X, y)
    assert model.n_terms_ == 2
    assert model.stop_reason_ == "stopped by a callback"
    assert callback.ended == 1
    early = StopAfter(1)  # in the middle of the widths
    model = PrefilterClassifier().set_callbacks(early).fit(X, y)
    np.testing.assert_allclose(model.basis_.width_, gaussians_of_all_widths(X)[0].width)
    assert len(model.path_) == 1
    assert np.isfinite(model.decision_function(X)).all()


# -- messages ----------------------------------------------------------------------------------------------------------

CASES = [
    ({"basis": "rbf"}, ValueError,
     r"basis must be one of 'auto', got 'rbf': give 'auto', a transformer, or None for the columns\."),
    ({"basis": 3}, TypeError, r"basis must be a transformer or None, got 3: use one of termwise\.basis"),
    ({"search": "grid"}, ValueError, r"search must be one of 'exact', 'pso', got 'grid': pick one of these\."),
    ({"beta": -1}, ValueError, r"beta must be a finite number >= 0, got -1"),
    ({"tol": 1.0}, ValueError,
     r"tol must be a finite number >= 0 and < 1, got 1\.0: a share of the largest singular value, such as 0\.01\."),
    ({"tol": -0.1}, ValueError, r"tol must be a finite number >= 0 and < 1, got -0\.1"),
    ({"criterion": "tcr"}, ValueError, r"criterion must be one of 'loo', got 'tcr': None keeps every term\."),
    ({"max_terms": 0}, ValueError, r"max_terms must be a whole number >= 1, got 0: None sets no limit\."),
    ({"lambda_2": -0.5}, ValueError,
     r"lambda_2 must be a finite number >= 0, got -0\.5: 0 leaves the signal as it is\."),
    ({"lambda_2": np.inf}, ValueError, r"lambda_2 must be a finite number >= 0, got inf"),
    ({"swarm_size": 0}, ValueError,
     r"swarm_size must be a whole number >= 1, got 0: 20 particles and 50 steps do well\."),
    ({"swarm_steps": 1.5}, ValueError, r"swarm_steps must be a whole number >= 1, got 1\.5: 20 particles and 50 steps"),
    ({"fit_intercept": "yes"}, ValueError, r"fit_intercept must be True or False, got 'yes': True fits the mean too\."),
    ({"random_state": "seed", "search": "pso"}, ValueError, r"'seed' cannot be used to seed"),
    ({"verbose": -1}, ValueError,
     r"verbose must be a whole number >= 0, got -1: 0 is silent, 1 reports widths and terms\."),
    ({"selection_cv": 1}, ValueError,
     r"selection_cv must be a whole number >= 2 and < 21, got 1: 10 is a good number for 20 samples\."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "error", "pattern"), CASES, ids=[f"{next(iter(c[0]))}-{i}" for i, c in enumerate(CASES)]
)
def test_messages_on_parameters(options, error, pattern):
    X, y = moons(20)
    with pytest.raises(error, match=pattern):
        PrefilterClassifier(**options).fit(X, y)


def test_every_parameter_has_a_message():
    assert {name for options, *_ in CASES for name in options} == set(PrefilterClassifier().get_params(deep=False))


def test_messages_on_data():
    X, y = moons(20)
    model = PrefilterClassifier(max_terms=3).fit(X, y)
    with pytest.raises(
        ValueError, match=r"n_terms must be a whole number >= 0 and < \d+, got 99: the path has \d terms"
    ):
        model.at(99)
    with pytest.raises(ValueError, match=r"max_terms must be a whole number >= 1, got 0: list at least one term"):
        model.summary(0)
    with pytest.raises(ValueError, match=r"y must have at least two classes, got one class"):
        PrefilterClassifier().fit(X, np.zeros(20))
    with pytest.raises(ValueError, match=r"X has 1 features, but PrefilterClassifier is expecting 2 features"):
        model.predict(X[:, :1])
    with pytest.raises(ValueError, match=r"sample_weight must add up to at least 2 samples, got 1"):
        PrefilterClassifier().fit(X, y, sample_weight=np.full(20, 0.05))
    with pytest.raises(TypeError, match=r"[Ss]parse data was passed"):
        PrefilterClassifier().fit(sp.csr_array(X), y)
    for call in (lambda m: m.summary(), lambda m: m.at(1), lambda m: m.predict(X), lambda m: m.criterion_value_):
        with pytest.raises(NotFittedError, match="PrefilterClassifier instance is not fitted yet"):
            call(PrefilterClassifier())


# -- the paper's data --------------------------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize(("name", "mean", "sd"), [("heart", 0.159, 0.030), ("titanic", 0.223, 0.010)])
def test_data_of_the_paper(name, mean, sd):
    data = datasets.load(name)
    train, test = data.train[0], data.test[0]
    X, y = data.data[train], data.target[train]
    model = PrefilterClassifier().fit(X, y)
    assert 1 - model.score(data.data[test], data.target[test]) <= mean + 3 * sd
    assert model.n_terms_ < 40
    given = PrefilterClassifier(clone(model.basis_)).fit(X, y)
    swarm = PrefilterClassifier(clone(model.basis_), search="pso", random_state=0).fit(X, y)
    assert given.loo_error_rate_ == model.loo_error_rate_ <= swarm.loo_error_rate_
    assert 1 - swarm.score(data.data[test], data.target[test]) <= mean + 4 * sd
