"""BasisRidge and re-estimation against explicit matrices and real retraining."""

from __future__ import annotations

import pickle
import warnings
from contextlib import nullcontext

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures

from termwise import BasisRidge, LocalRidge, NumericalWarning, OnlineRidge, RadialBasis, datasets, reestimate_alpha
from termwise.linalg import spectrum as spectrum_module
from termwise.linalg.least_squares import least_squares_problem
from termwise.linalg.reestimate import FACTORS
from termwise.linalg.spectrum import Spectrum, decompose
from termwise.selection import CRITERIA

ALPHAS = [1e-3, 0.5, 20.0]


def gaussian_design(rng, n=60, width=1.0):
    """Gaussians on the samples: condition number above 1e15."""
    x = np.sort(rng.uniform(-3, 3, size=n))
    G = np.exp(-((x[:, None] - x) ** 2) / width**2)
    return G, np.sin(2 * x) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_weights_and_criteria_equal_brute_force(problem, alpha, intercept):
    G, y = problem
    model = BasisRidge(alpha=alpha, fit_intercept=intercept).fit(G, y)
    w = oracles.weights(G, y, alpha, intercept)[:, 0]
    np.testing.assert_allclose(model.coef_, w[int(intercept) :], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, w[0] if intercept else 0.0, rtol=1e-8)
    expected = oracles.criteria(G, y, alpha, intercept)
    for name, value in expected.items():
        assert model.criteria_[name] == pytest.approx(value, rel=1e-8), name
    assert model.criterion_value_ == model.criteria_["gcv"]
    np.testing.assert_allclose(model.loo_residuals_, oracles.leave_one_out(G, y, alpha, intercept)[:, 0], rtol=1e-8)
    P = oracles.projection(G, alpha, intercept)
    assert model.effective_dof_ == pytest.approx(len(G) - np.trace(P), rel=1e-8)
    assert model.noise_variance_ == pytest.approx(expected["uev"], rel=1e-8)


@pytest.mark.parametrize("ill", [False, True], ids=["gram", "svd"])
@pytest.mark.parametrize("shape", [(50, 8), (8, 50), (20, 20)])
def test_both_decompositions_agree(shape, ill, rng):
    G = rng.normal(size=shape)
    if ill:
        G[:, 1] = G[:, 0] + 1e-5 * G[:, 1]
    G -= G.mean(axis=0)
    rank = min(shape[1], shape[0] - 1)
    z0 = np.full(shape[0], shape[0] ** -0.5)
    U, s, V = decompose(G, z0)
    assert U.shape == (shape[0], rank)
    V = G.T @ U / s if V is None else V
    np.testing.assert_allclose(U.T @ U, np.eye(rank), atol=1e-9)
    np.testing.assert_allclose(U.T @ z0, 0, atol=1e-9)
    np.testing.assert_allclose(s, np.linalg.svd(G)[1][:rank], rtol=1e-8)
    np.testing.assert_allclose(U * s @ V.T, G, atol=1e-10)


def test_well_conditioned_designs_skip_the_svd(rng, monkeypatch):
    monkeypatch.setattr(np.linalg, "svd", None)
    for shape in [(50, 8), (8, 50)]:
        BasisRidge().fit(rng.normal(size=shape), rng.normal(size=shape[0]))


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 8))])
def test_automatic_alpha_is_the_global_minimum(criterion, seed):
    """Against a dense grid of real refits, on problems from easy to hopeless."""
    rng = np.random.default_rng(seed)
    n, p = rng.integers(10, 30), rng.integers(2, 9)
    G = rng.normal(size=(n, p)) * 10 ** rng.uniform(-2, 2, size=p)
    y = G @ rng.normal(size=p) * rng.integers(0, 2) + 10 ** rng.uniform(-2, 2) * rng.normal(size=n)
    model = BasisRidge(alpha=criterion).fit(G, y)
    grid = np.concatenate([[0, np.inf], np.logspace(-8, 10, 400)])
    values = [BasisRidge(alpha=a).fit(G, y).criteria_[criterion] for a in grid]
    assert model.criterion_value_ <= min(values) * (1 + 1e-9)
    assert model.criteria_[criterion] == model.criterion_value_
    assert model.criterion_value_ == pytest.approx(
        BasisRidge(alpha=model.alpha_).fit(G, y).criteria_[criterion], rel=1e-10
    )


def test_automatic_alpha_sees_a_narrow_second_minimum():
    """Re-estimation stops in whichever minimum is near; the search compares them."""
    differ = 0
    for seed in range(30):
        X, y = datasets.make_sine(random_state=seed)
        G = RadialBasis(width=0.05).fit_transform(X)
        high, low = (reestimate_alpha(G, y, start, fit_intercept=False) for start in (1e-2, 1e-5))
        differ += abs(np.log(high / low)) > 1
        model = BasisRidge(alpha="gcv", fit_intercept=False).fit(G, y)
        for local in (high, low):
            assert model.criterion_value_ <= BasisRidge(alpha=local, fit_intercept=False).fit(G, y).criterion_value_ * (
                1 + 1e-9
            )
    assert differ >= 3


def test_limits_of_alpha(rng):
    G, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    least_squares = LinearRegression().fit(G, y)
    np.testing.assert_allclose(BasisRidge(alpha=0).fit(G, y).coef_, least_squares.coef_, rtol=1e-9)
    mean = BasisRidge(alpha=np.inf).fit(G, y)
    assert not mean.coef_.any()
    assert mean.effective_dof_ == 1
    np.testing.assert_allclose(mean.predict(G), y.mean())
    exact = BasisRidge().fit(G, G @ [1.0, 2.0, 3.0, 4.0])
    assert exact.alpha_ < 1e-10
    np.testing.assert_allclose(exact.coef_, [1, 2, 3, 4], rtol=1e-9)
    assert BasisRidge().fit(G, np.full(30, 3.0)).alpha_ == np.inf


@pytest.mark.parametrize("intercept", [True, False])
def test_interpolating_limit_is_finite_and_right(rng, intercept):
    """alpha -> 0 with more columns than rows: least norm, and finite limits of GCV and leave-one-out."""
    G, y = rng.normal(size=(12, 30)), rng.normal(size=12)
    at_zero, near = (BasisRidge(alpha=a, fit_intercept=intercept).fit(G, y) for a in (0.0, 1e-7))
    np.testing.assert_allclose(at_zero.predict(G), y, atol=1e-10)
    np.testing.assert_allclose(at_zero.loo_residuals_, near.loo_residuals_, rtol=1e-5)
    retrained = oracles.leave_one_out(G, y, 1e-10, intercept)[:, 0]
    np.testing.assert_allclose(at_zero.loo_residuals_, retrained, rtol=1e-8)
    assert at_zero.criteria_["gcv"] == pytest.approx(near.criteria_["gcv"], rel=1e-5)
    assert at_zero.criteria_["loo"] == pytest.approx(near.criteria_["loo"], rel=1e-5)
    assert at_zero.noise_variance_ == pytest.approx(at_zero.criteria_["loo"])
    assert np.all(np.isfinite(at_zero.predict(G, return_std=True)[1]))


@pytest.mark.parametrize("criterion", ["uev", "fpe", "bic"])
def test_vanishing_criteria_say_so(criterion, rng):
    G, y = rng.normal(size=(12, 30)), rng.normal(size=12)
    with pytest.warns(UserWarning, match=f"alpha='{criterion}' chose the penalty 0.*alpha='gcv' and alpha='loo'"):
        model = BasisRidge(alpha=criterion).fit(G, y)
    assert model.alpha_ == 0


def test_a_row_that_decides_its_own_fit(rng):
    """A column that is nonzero on one row only: leverage one, and leaving it out loses the column."""
    G, y = rng.normal(size=(20, 4)), rng.normal(size=20)
    G[:, 3] = 0
    G[7, 3] = 2.0
    for alpha in (0.0, 1e-14, 1e-3):
        model = BasisRidge(alpha=alpha).fit(G, y)
        expected = oracles.leave_one_out(G, y, alpha)[:, 0]
        np.testing.assert_allclose(model.loo_residuals_, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("alpha", ["gcv", "loo", "uev", "fpe", "bic", 0.0, 1e-20, 1e-8, 1.0])
def test_ill_conditioned_designs_give_finite_sensible_models(alpha, rng):
    G, y = gaussian_design(rng)
    assert np.linalg.cond(G) > 1e15
    too_small = (
        pytest.warns(NumericalWarning, match="alpha must be at least") if alpha in (0.0, 1e-20) else nullcontext()
    )
    with too_small:
        model = BasisRidge(alpha=alpha).fit(G, y)
    for values in (model.coef_, model.loo_residuals_, model.predict(G, return_std=True)[1], model.weights_cov_):
        assert np.all(np.isfinite(values))
    assert all(np.isfinite(v) for v in model.criteria_.values())
    lower, upper = model.predict_interval(G)
    assert np.all(lower <= upper)
    if alpha in ("gcv", "loo", 1e-8, 1.0):
        assert model.score(G, y) > 0.9
        np.testing.assert_allclose(
            model.predict(G), oracles.predict(G, oracles.weights(G, y, model.alpha_))[:, 0], atol=1e-5
        )


def test_sample_weights_are_repetitions(problem, rng):
    G, y = problem
    counts = rng.integers(0, 4, size=len(y))
    repeated_G, repeated_y = oracles.repeat(counts, G, y)
    for alpha in ("gcv", "loo", "bic", 0.3) if len(G) > G.shape[1] else ("gcv", "loo", 0.3):
        weighted = BasisRidge(alpha=alpha).fit(G, y, sample_weight=counts)
        repeated = BasisRidge(alpha=alpha).fit(repeated_G, repeated_y)
        assert weighted.alpha_ == pytest.approx(repeated.alpha_, rel=1e-6)
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-8)
        assert weighted.criterion_value_ == pytest.approx(repeated.criterion_value_, rel=1e-8, abs=1e-20)
        assert weighted.effective_dof_ == pytest.approx(repeated.effective_dof_, rel=1e-6)
        np.testing.assert_allclose(weighted.noise_variance_, repeated.noise_variance_, rtol=1e-6, atol=1e-20)
        used = counts > 0
        first = np.cumsum(counts)[used] - 1
        np.testing.assert_allclose(weighted.loo_residuals_[used], repeated.loo_residuals_[first], rtol=1e-5, atol=1e-8)
        np.testing.assert_allclose(weighted.loo_residuals_[~used], (y - weighted.predict(G))[~used], atol=1e-10)
        for ours, theirs in zip(weighted.predict_interval(G, 0.8), repeated.predict_interval(G, 0.8), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def test_leaving_out_a_row_that_counts_for_less_than_one_leaves_all_of_it_out(rng):
    G, y, counts = rng.normal(size=(25, 3)), rng.normal(size=25), rng.uniform(0.1, 0.9, size=25)
    model = BasisRidge(alpha=0.5).fit(G, y, sample_weight=counts)
    for i in range(25):
        others = np.arange(25) != i
        w = oracles.weights(G[others], y[others], 0.5, counts=counts[others])
        assert model.loo_residuals_[i] == pytest.approx(y[i] - oracles.predict(G[i : i + 1], w)[0, 0], rel=1e-8)


def test_multi_output_shares_the_penalty_and_nothing_else(problem, rng):
    G, y = problem
    Y = np.column_stack([y, rng.normal(size=len(y)), 2 * y])
    model = BasisRidge(alpha="loo").fit(G, Y)
    assert model.coef_.shape == (3, G.shape[1])
    assert model.intercept_.shape == (3,)
    assert model.loo_residuals_.shape == Y.shape
    singles = [BasisRidge(alpha=model.alpha_).fit(G, target) for target in Y.T]
    np.testing.assert_allclose(model.coef_, [s.coef_ for s in singles], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.noise_variance_, [s.noise_variance_ for s in singles], rtol=1e-9)
    np.testing.assert_allclose(model.weights_cov_, [s.weights_cov_ for s in singles], rtol=1e-8, atol=1e-14)
    assert model.criterion_value_ == pytest.approx(np.mean([s.criteria_["loo"] for s in singles]), rel=1e-9)
    std = model.predict(G, return_std=True)[1]
    lower, upper = model.predict_interval(G, coverage=0.5)
    for j, single in enumerate(singles):
        np.testing.assert_allclose(std[:, j], single.predict(G, return_std=True)[1], rtol=1e-8)
        np.testing.assert_allclose(lower[:, j], single.predict_interval(G, coverage=0.5)[0], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(upper[:, j], single.predict_interval(G, coverage=0.5)[1], rtol=1e-8, atol=1e-10)
    column = BasisRidge().fit(G, y[:, None])
    assert column.predict(G).shape == (len(y), 1)
    assert column.coef_.shape == (1, G.shape[1])


def test_agrees_with_scikit_learn(problem):
    G, y = problem
    theirs = Ridge(alpha=2.5, solver="svd").fit(G, y)
    ours = BasisRidge(alpha=2.5).fit(G, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.predict(G), theirs.predict(G))


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.csc_array, sp.coo_array])
def test_sparse_input(container, rng):
    G = rng.normal(size=(30, 6)) * (rng.random(size=(30, 6)) < 0.4)
    y = rng.normal(size=30)
    sparse = BasisRidge().fit(container(G), y)
    dense = BasisRidge().fit(G, y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_)
    np.testing.assert_allclose(sparse.predict(container(G)), dense.predict(G))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_names(frame, rng):
    G, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    data = frame({"speed": G[:, 0], "load": G[:, 1]})
    model = BasisRidge().fit(data, y)
    np.testing.assert_allclose(model.predict(data), BasisRidge().fit(G, y).predict(G))
    assert "speed" in model.summary()


def test_float32_predictions_and_float64_accuracy(rng):
    G, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    single = BasisRidge(alpha=0.1).fit(G.astype(np.float32), y.astype(np.float32))
    double = BasisRidge(alpha=0.1).fit(G, y)
    assert single.predict(G.astype(np.float32)).dtype == np.float32
    assert single.predict(G.astype(np.float32), return_std=True)[1].dtype == np.float32
    assert single.predict_interval(G.astype(np.float32))[0].dtype == np.float32
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=1e-5)


def test_data_are_never_changed(problem):
    G, y = problem
    for order in "CF":
        array = np.array(G, order=order)
        for intercept in (True, False):
            BasisRidge(fit_intercept=intercept).fit(array, y)
        np.testing.assert_array_equal(array, G)


def test_constant_and_duplicate_columns(rng):
    G, y = rng.normal(size=(30, 5)), rng.normal(size=30)
    G[:, 1] = 3.0
    G[:, 4] = G[:, 0]
    for alpha in (0.0, "gcv", "loo", 0.2):
        model = BasisRidge(alpha=alpha).fit(G, y)
        assert abs(model.coef_[1]) < 1e-10
        assert model.coef_[4] == pytest.approx(model.coef_[0], abs=1e-10)
    only_constant = BasisRidge().fit(np.ones((10, 2)), np.arange(10.0))
    assert only_constant.alpha_ == np.inf
    np.testing.assert_allclose(only_constant.predict(np.ones((2, 2))), 4.5)


@pytest.mark.parametrize("n", [19, 20, 21])
def test_columns_equal_up_to_rounding_are_one_direction(n, rng):
    """Also of a square matrix without an intercept, which is examined for symmetry first."""
    G = rng.normal(size=(n, 20))
    G[:, 1] = G[:, 0] * (1 + 1e-12 * rng.normal(size=n))
    model = BasisRidge(alpha=0.0, fit_intercept=False).fit(G, rng.normal(size=n))
    assert model.effective_dof_ == pytest.approx(19)
    assert np.abs(model.coef_).max() < 100


def test_columns_of_very_different_size_all_count(rng):
    """Scales twelve decades apart are no reason to drop a column."""
    G = rng.normal(size=(40, 3)) * [1e9, 1.0, 1e-3]
    y = G @ [1e-9, 1.0, 1e3]
    model = BasisRidge(alpha=0).fit(G, y)
    np.testing.assert_allclose(model.predict(G), y, atol=1e-3)
    np.testing.assert_allclose(model.coef_, [1e-9, 1.0, 1e3], rtol=1e-2)


@pytest.mark.parametrize("criterion", FACTORS)
def test_reestimation_ends_at_a_stationary_point(criterion, rng):
    G, y = rng.normal(size=(40, 6)), rng.normal(size=40)
    y += G[:, 0]
    alpha = reestimate_alpha(G, y, 1.0, criterion=criterion)
    assert 0 < alpha < np.inf
    spectrum = Spectrum(least_squares_problem(G, y[:, None], np.ones(40), True))
    below, above = spectrum.score(criterion, [alpha * 0.999, alpha * 1.001])
    here = spectrum.score(criterion, alpha)[0]
    assert here <= min(below, above) * (1 + 1e-9)
    assert alpha == pytest.approx(BasisRidge(alpha=criterion).fit(G, y).alpha_, rel=1e-5)


def test_reestimation_formula_is_orrs(rng):
    """One step of (6.5) from explicit matrices."""
    G, y, alpha = rng.normal(size=(20, 4)), rng.normal(size=20), 0.7
    A_inv = np.linalg.inv(G.T @ G + alpha * np.eye(4))
    P = np.eye(20) - G @ A_inv @ G.T
    w = A_inv @ G.T @ y
    common = y @ P @ P @ y * np.trace(A_inv - alpha * A_inv @ A_inv) / (w @ A_inv @ w)
    n, dof = 20, 20 - np.trace(P)
    factors = {
        "gcv": 1 / (n - dof),
        "uev": 1 / (2 * (n - dof)),
        "fpe": n / ((n - dof) * (n + dof)),
        "bic": n * np.log(n) / (2 * (n - dof) * (n + (np.log(n) - 1) * dof)),
    }
    assert set(factors) == set(FACTORS)
    for criterion, factor in factors.items():
        once = reestimate_alpha(G, y, alpha, criterion=criterion, fit_intercept=False, max_iter=1)
        assert once == pytest.approx(common * factor, rel=1e-10), criterion


def test_reestimation_says_when_it_has_not_converged(rng):
    G, y = rng.normal(size=(40, 6)), rng.normal(size=40)
    with pytest.warns(ConvergenceWarning, match="stopped after max_iter=2 iterations at alpha=.*: allow more"):
        reestimate_alpha(G, y, 1e-3, max_iter=2, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reestimate_alpha(G, y, 1e-3, max_iter=1)
    assert reestimate_alpha(G, np.zeros(40), 1.0) == np.inf
    weighted = reestimate_alpha(G, y + G[:, 0], sample_weight=np.full(40, 2))
    assert weighted == pytest.approx(reestimate_alpha(np.vstack([G, G]), np.tile(y + G[:, 0], 2)), rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(3, 25),
    p=st.integers(1, 25),
    seed=st.integers(0, 10_000),
    scale=st.floats(1e-6, 1e6),
    intercept=st.booleans(),
)
def test_scaling_the_target_scales_the_model(n, p, seed, scale, intercept):
    rng = np.random.default_rng(seed)
    G, y = rng.normal(size=(n, p)), rng.normal(size=n)
    one, other = (BasisRidge(alpha="loo", fit_intercept=intercept).fit(G, k * y) for k in (1.0, scale))
    assert other.criterion_value_ == pytest.approx(scale**2 * one.criterion_value_, rel=1e-6, abs=scale**2 * 1e-15)
    np.testing.assert_allclose(other.predict(G), scale * one.predict(G), rtol=1e-4, atol=scale * 1e-4)


def test_leave_one_out_by_blocks(rng, monkeypatch):
    G, y = rng.normal(size=(200, 7)), rng.normal(size=(200, 2))
    whole = BasisRidge(alpha="loo").fit(G, y)
    monkeypatch.setattr(spectrum_module, "row_blocks", lambda n, *_: [slice(0, 90), slice(90, n)])
    np.testing.assert_allclose(BasisRidge(alpha="loo").fit(G, y).coef_, whole.coef_, rtol=1e-8)


@pytest.mark.parametrize("alpha", [1e-8, 1e-6, 1e-3, 0.1])
def test_leave_one_out_of_rows_with_tiny_gaps(alpha):
    """Isolated Gaussians: rows that almost decide their own fit keep their digits for any penalty."""
    for seed in range(6):
        X, y = datasets.make_sine(40, random_state=seed)
        G = RadialBasis(width=0.05).fit_transform(X)
        model = BasisRidge(alpha=alpha).fit(G, y)
        retrained = oracles.leave_one_out(G, y, alpha)[:, 0]
        np.testing.assert_allclose(model.loo_residuals_, retrained, rtol=1e-5, atol=1e-7 * np.abs(retrained).max())


def test_units_of_the_columns_do_not_stop_the_search(rng):
    """A design that is singular only because of its units is no reason to stay away from alpha = 0."""
    Z = rng.normal(size=(200, 2))
    y = Z.sum(axis=1) + 0.1 * rng.normal(size=200)
    for X in (Z * [1e-5, 1e5], Z * [1e-6, 1e6]):
        assert BasisRidge().fit(X, y).score(X, y) > 0.99


def test_wide_smooth_kernels_are_followed_far_down(rng):
    X, y = datasets.make_sine(56, 1e-3, random_state=0)
    model = BasisRidge(RadialBasis(width=1.0)).fit(X, y)
    assert model.alpha_ < 1e-15
    grid = np.linspace(0.02, 0.98, 100)[:, None]
    assert np.abs(model.predict(grid) - np.sin(12 * grid[:, 0])).max() < 0.2


def test_fits_share_no_memory_with_the_data(rng):
    G, y, new = rng.normal(size=(10, 30)), rng.normal(size=10), rng.normal(size=(3, 30))
    model = BasisRidge(alpha=1.0, fit_intercept=False).fit(G, y)
    before = model.predict(new, return_std=True)[1]
    G[:] = 0
    np.testing.assert_array_equal(model.predict(new, return_std=True)[1], before)
    centers, widths = rng.normal(size=(4, 2)), np.array([1.0, 2.0])
    basis = RadialBasis(width=widths, centers=centers).fit(centers)
    before = basis.transform(new[:, :2])
    centers[:], widths[:] = 0, 9
    np.testing.assert_array_equal(basis.transform(new[:, :2]), before)


@pytest.mark.parametrize("basis", [RadialBasis(), PolynomialFeatures(2)], ids=["own", "any"])
def test_a_model_without_terms_predicts_the_mean(basis, rng):
    X = rng.normal(size=(30, 2))
    model = LocalRidge(basis).fit(X, np.full(30, 2.5))
    assert model.n_terms_ == 0
    np.testing.assert_allclose(model.predict(X), 2.5)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], 0, atol=1e-12)


def test_a_failed_fit_leaves_the_model_as_it_was(rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    for model in (BasisRidge(RadialBasis(centers=5)), OnlineRidge(RadialBasis(centers=5))):
        with pytest.raises(ValueError, match="contains NaN"):
            model.fit(X * np.nan, y)
        with pytest.raises(NotFittedError):
            model.predict(X)
        model.fit(pd.DataFrame(X, columns=["a", "b"]), y)
        before = pickle.dumps(model)
        with pytest.raises(ValueError, match="contains NaN"):
            model.fit(X * np.nan, y)
        assert pickle.dumps(model) == before
        model.fit(X, y)
        assert not hasattr(model, "feature_names_in_")


def test_lists_with_weights_and_a_basis(rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    counts = np.arange(20) > 2
    from_lists = BasisRidge(RadialBasis()).fit(X.tolist(), y.tolist(), sample_weight=counts.tolist())
    np.testing.assert_allclose(from_lists.predict(X.tolist()), BasisRidge(RadialBasis()).fit(X[3:], y[3:]).predict(X))


def test_terms_without_names_can_be_listed(rng):
    X = rng.normal(size=(30, 3))
    nameless = FunctionTransformer(lambda X: X**2)
    assert "term0" in LocalRidge(nameless).fit(X, X[:, 0] ** 2 + 0.1 * rng.normal(size=30)).summary()


def test_summary_of_a_wide_model_does_not_form_the_covariance(rng):
    import tracemalloc

    G, y = rng.normal(size=(20, 3000)), rng.normal(size=20)
    model = BasisRidge().fit(G, y)
    tracemalloc.start()
    model.summary()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3000 * 3000


def test_a_sample_that_determines_the_intercept_alone_is_left_out_by_the_mean():
    """The weights of a kernel fall so fast that one sample has all of it, but for rounding."""
    X, y = np.array([[0.3], [1.2], [-0.4]]), np.array([1.0, 3.0, 2.0])
    with pytest.warns(NumericalWarning, match="Beside their mean, 'x0' must vary by more than the rounding"):
        model = BasisRidge(alpha=0.0).fit(X, y, sample_weight=[1e-2, 1e-28, 1e-30])
    np.testing.assert_allclose(model.predict(X), 1.0)
    np.testing.assert_allclose(model.loo_residuals_, y - 1.0, atol=1e-12)
    assert np.isfinite(model.noise_variance_)


def test_a_penalty_that_is_too_small_for_nearly_dependent_functions_is_a_warning(rng):
    X = rng.normal(size=(40, 3))
    X = np.column_stack([X, X[:, 0] + 1e-11 * rng.normal(size=40)])
    y = X[:, 0] + rng.normal(size=40)
    with pytest.warns(NumericalWarning, match=r"alpha must be at least \S+ for functions that are as nearly dependent"):
        model = BasisRidge(alpha=0).fit(X, y)
    assert np.abs(model.coef_).max() > 1e6
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.abs(BasisRidge().fit(X, y).coef_).max() < 10
        assert np.abs(BasisRidge(alpha=1e-6).fit(X, y).coef_).max() < 1e3
        BasisRidge(alpha=0).fit(np.column_stack([X[:, :3], X[:, 0]]), y)  # the same function twice shares its weight
