"""OrthogonalThresholdRegressor against the definitions, and what the paper proves of it."""

from __future__ import annotations

import warnings

import numpy as np
import oracles
import pytest
import scipy.linalg as sla
import scipy.sparse as sp
from conftest import needs_data
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV

from termwise import BasisRidge, CriterionSearch, OrthogonalThresholdRegressor, RadialBasis, datasets
from termwise.linalg.spectrum import decompose

METHODS = ("eigen", "gram_schmidt")
KEEPS = ("leading", "significant")
four_methods = [pytest.mark.parametrize("method", METHODS), pytest.mark.parametrize("keep", KEEPS)]


def each_method(test):
    for mark in four_methods:
        test = mark(test)
    return test


def smooth(n, width, seed=0):
    """Gaussians on the samples of a line: nearly singular."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-3, 3, size=n))[:, None]
    return RadialBasis(width=width).fit_transform(x), np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=n)


def scattered(n, p, outputs=1, seed=0):
    """Independent columns, a few of them with signal."""
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, p)) * np.linspace(2, 0.5, p) + 0.3
    Y = G[:, :outputs] - 0.7 * G[:, 3:4] + 0.5 * rng.normal(size=(n, outputs)) + 2.0
    return G, Y[:, 0] if outputs == 1 else Y


def check_against_oracle(model, G, y, rtol=1e-8, tol=1e-10):
    weights, kept, noise, theta = oracles.orthogonal_threshold(
        G, y, model.method, model.keep, tol, model.threshold, model.fit_intercept
    )
    scale = np.abs(weights).max(initial=1e-300)
    np.testing.assert_allclose(np.atleast_2d(model.coef_).T, weights, rtol=0, atol=rtol * scale)
    np.testing.assert_allclose(np.atleast_1d(model.stable_noise_variance_), noise, rtol=rtol)
    np.testing.assert_allclose(np.atleast_2d(model.thresholds_).T, theta, rtol=rtol)
    assert model.n_components_ == len(kept)
    assert model.n_stable_ == len(theta) == len(model.gammas_)
    means = G.mean(axis=0) if model.fit_intercept else np.zeros(G.shape[1])
    level = np.mean(np.atleast_2d(y.T).T, axis=0) if model.fit_intercept else 0.0
    np.testing.assert_allclose(np.atleast_1d(model.intercept_), level - means @ weights, rtol=1e-6, atol=rtol)


# -- the definitions ---------------------------------------------------------------------------------------------------


@each_method
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("outputs", [1, 2])
def test_equals_the_definition_on_independent_columns(method, keep, intercept, outputs):
    G, y = scattered(80, 12, outputs)
    model = OrthogonalThresholdRegressor(method=method, keep=keep, fit_intercept=intercept).fit(G, y)
    check_against_oracle(model, G, y)
    assert 0 < model.n_components_ <= 12


@each_method
@pytest.mark.parametrize("intercept", [True, False])
def test_equals_the_definition_on_nearly_singular_columns(method, keep, intercept):
    G, y = smooth(50, 0.5)
    tol = 1e-5
    model = OrthogonalThresholdRegressor(method=method, keep=keep, tol=tol, stable="all", fit_intercept=intercept)
    model.fit(G, y)
    check_against_oracle(model, G, y, rtol=1e-6, tol=tol)
    assert 3 < model.n_components_ < model.n_stable_ < 40


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(12, 30),
    p=st.integers(4, 8),
    seed=st.integers(0, 10_000),
    method=st.sampled_from(METHODS),
    keep=st.sampled_from(KEEPS),
    threshold=st.sampled_from([0.0, 0.3, 1.0, 3.0]),
)
def test_equals_the_definition_on_any_small_problem(n, p, seed, method, keep, threshold):
    G, y = scattered(n, p, seed=seed)
    model = OrthogonalThresholdRegressor(method=method, keep=keep, threshold=threshold, stable="all").fit(G, y)
    check_against_oracle(model, G, y)


@each_method
def test_weights_mean_repetitions(method, keep):
    rng = np.random.default_rng(5)
    G, Y = scattered(60, 8, outputs=2)
    counts = rng.integers(0, 4, size=60)
    weighted = OrthogonalThresholdRegressor(method=method, keep=keep).fit(G, Y, sample_weight=counts)
    repeated = OrthogonalThresholdRegressor(method=method, keep=keep).fit(*oracles.repeat(counts, G, Y))
    np.testing.assert_array_equal(weighted.support_, repeated.support_)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(weighted.gammas_, repeated.gammas_, rtol=1e-9)
    np.testing.assert_allclose(weighted.thresholds_, repeated.thresholds_, rtol=1e-9)
    assert weighted.criteria_ == pytest.approx(repeated.criteria_, rel=1e-9)


@each_method
def test_sparse_and_single_precision_inputs(method, keep):
    G, y = scattered(60, 8)
    G[np.abs(G) < 0.5] = 0.0
    model = OrthogonalThresholdRegressor(method=method, keep=keep)
    dense = model.fit(G, y).coef_
    np.testing.assert_allclose(model.fit(sp.csr_matrix(G), y).coef_, dense, rtol=1e-10)
    single = model.fit(G.astype(np.float32), y)
    np.testing.assert_allclose(single.coef_, dense, rtol=1e-4, atol=1e-5)
    assert single.predict(G.astype(np.float32)).dtype == np.float32


# -- what follows from a solution --------------------------------------------------------------------------------------


def test_leading_gram_schmidt_is_least_squares_on_its_columns():
    G, y = scattered(60, 10)
    model = OrthogonalThresholdRegressor(method="gram_schmidt").fit(G, y)
    H = G[:, model.support_]
    w = oracles.weights(H, y, 0.0)[:, 0]
    np.testing.assert_allclose(model.weights_, w[1:], rtol=1e-9)
    for name, value in oracles.criteria(H, y, 0.0).items():
        assert model.criteria_[name] == pytest.approx(value, rel=1e-8), name
    np.testing.assert_allclose(model.loo_residuals_, oracles.leave_one_out(H, y, 0.0)[:, 0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.weights_cov_, oracles.covariance(H, y, 0.0)[1:, 1:], rtol=1e-8, atol=1e-12)
    ends = oracles.jackknife_plus(H, y, 0.0, H[:5], 0.8)
    np.testing.assert_allclose(model.predict_interval(G[:5], coverage=0.8, method="jackknife+"), ends, rtol=1e-8)
    assert model.criterion_value_ == model.criteria_["bic"]


@each_method
def test_leave_one_out_holds_the_components_fixed(method, keep):
    G, y = smooth(60, 0.6)
    model = OrthogonalThresholdRegressor(method=method, keep=keep).fit(G, y)
    fitted = model.predict(G)
    moved = np.empty(60)
    for i in range(60):  # the derivative of a linear fit by its own target is the leverage
        bumped = y.copy()
        bumped[i] += 1e-3
        other = OrthogonalThresholdRegressor(method=method, keep=keep).fit(G, bumped)
        assert other.n_components_ == model.n_components_
        moved[i] = (other.predict(G)[i] - fitted[i]) / 1e-3
    np.testing.assert_allclose(model.loo_residuals_, (y - fitted) / (1 - moved), rtol=1e-4, atol=1e-6)
    assert model.effective_dof_ == pytest.approx(model.n_components_ + 1)


def test_widths_by_criterion_search():
    rng = np.random.default_rng(3)
    X = rng.uniform(-3, 3, size=(120, 1))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=120)
    search = CriterionSearch(OrthogonalThresholdRegressor(RadialBasis()), {"basis__width": [0.05, 0.5, 1.0, 20.0]})
    assert search.fit(X, y).best_params_["basis__width"] in (0.5, 1.0)


# -- theorems ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("width", [0.2, 0.5, 1.0])
def test_eigen_weights_are_never_longer_than_those_of_the_stable_set(keep, width):
    for seed in range(5):
        G, y = smooth(80, width, seed)
        model = OrthogonalThresholdRegressor(keep=keep).fit(G, y)
        everything = OrthogonalThresholdRegressor(threshold=0.0).fit(G, y)
        assert everything.n_components_ == everything.n_stable_ == model.n_stable_
        assert np.linalg.norm(model.coef_) <= np.linalg.norm(everything.coef_)
        assert np.linalg.norm(everything.coef_) == pytest.approx(np.linalg.norm(everything.orthogonal_coef_), rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_orthonormal_columns_get_the_universal_threshold(method):
    rng = np.random.default_rng(0)
    n, p, sigma = 400, 90, 0.7
    G = np.linalg.qr(rng.normal(size=(n, p)))[0]
    w = np.where(np.arange(p) % 9 == 0, rng.normal(size=p) * 6, 0.0)
    residual = rng.normal(size=n)
    residual -= G @ (G.T @ residual)
    residual *= sigma * np.sqrt(n - p) / np.linalg.norm(residual)  # so that (21) gives sigma^2
    v = w + sigma * rng.normal(size=p)
    model = OrthogonalThresholdRegressor(method=method, keep="significant", fit_intercept=False).fit(
        G, G @ v + residual
    )
    assert model.stable_noise_variance_ == pytest.approx(sigma**2)
    np.testing.assert_allclose(model.thresholds_, 2 * sigma**2 * np.log(n), rtol=1e-9)
    if method == "gram_schmidt":  # the components are the columns themselves
        universal = np.where(np.abs(v) > sigma * np.sqrt(2 * np.log(n)), v, 0.0)
        np.testing.assert_allclose(model.coef_, universal, atol=1e-10)
        assert 0 < np.count_nonzero(universal) < 15


@pytest.mark.slow
def test_noise_is_taken_for_signal_ever_more_seldom():
    def share_of_false_alarms(n, repeats):
        alarms = 0
        for seed in range(repeats):
            rng = np.random.default_rng(seed)
            model = OrthogonalThresholdRegressor(keep="significant", fit_intercept=False)
            alarms += model.fit(rng.normal(size=(n, n // 5)), rng.normal(size=n)).n_components_ > 0
        return alarms / repeats

    few, many = share_of_false_alarms(20, 300), share_of_false_alarms(400, 300)
    assert many < few
    assert many < 0.08


def test_gram_schmidt_takes_columns_like_pivoted_qr():
    for seed, (G, _) in enumerate([scattered(60, 20), smooth(60, 0.4), smooth(60, 1.0)]):
        options = {"method": "gram_schmidt", "tol": 1e-6, "stable": "all", "threshold": 0.0, "fit_intercept": False}
        model = OrthogonalThresholdRegressor(**options).fit(G, np.random.default_rng(seed).normal(size=60))
        _, R, order = sla.qr(G, pivoting=True)
        size = np.count_nonzero(np.diagonal(R) ** 2 > 1e-6)
        assert len(model.gammas_) == size, seed
        np.testing.assert_array_equal(model.support_, order[:size])
        np.testing.assert_allclose(model.gammas_, np.diagonal(R)[:size] ** 2, rtol=1e-6)


@pytest.mark.parametrize("case", ["kernel", "indefinite", "singular"])
def test_symmetric_designs_are_decomposed_like_any_other(case):
    G = smooth(40, 0.5)[0]
    if case == "indefinite":
        G = G - 2 * np.outer(G[0], G[0])
    elif case == "singular":
        G = G[:, :5] @ G[:, :5].T
    G = (G + G.T) / 2
    U, s, V = decompose(G, None)
    expected = np.linalg.svd(G, compute_uv=False)
    np.testing.assert_allclose(s, expected[: len(s)], rtol=0, atol=1e-13 * s[0])
    assert expected[len(s) :].max(initial=0.0) < 1e-13 * s[0]
    np.testing.assert_allclose(U * s @ V.T, G, atol=1e-12)
    np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-12)
    np.testing.assert_allclose(V.T @ V, np.eye(len(s)), atol=1e-12)


# -- the stable set ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stable", ["auto", "all"])
def test_gram_schmidt_makes_as_many_steps_as_there_are_stable_components(monkeypatch, stable):
    from termwise.selection.state import State

    steps = []
    original = State.append
    monkeypatch.setattr(State, "append", lambda self, j: steps.append(j) or original(self, j))
    G, y = smooth(300, 1.0)
    model = OrthogonalThresholdRegressor(method="gram_schmidt", stable=stable).fit(G, y)
    assert model.n_stable_ <= len(steps) <= model.n_stable_ + 1 < 40
    assert model.n_terms_ == model.n_components_ <= model.n_stable_
    np.testing.assert_array_equal(model.support_, steps[: model.n_components_])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("intercept", [True, False])
def test_a_stable_set_of_everything_is_cut(method, intercept):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 10))
    y = X[:, 0] + np.sin(X[:, 1]) + 0.3 * rng.normal(size=200)
    G = RadialBasis(width=3.0).fit_transform(X)  # all 200 components are above 1e-10
    silent = OrthogonalThresholdRegressor(method=method, fit_intercept=intercept).fit(G, y)
    assert silent.n_stable_ <= 100
    message = (
        r"tol=1e-10 leaves 0 of (199|200) degrees of freedom to estimate the noise from, which is too few: only "
        r"the \d+ leading components were tested\. Raise tol, or use stable='auto' to have this done"
    )
    with pytest.warns(UserWarning, match=message):
        loud = OrthogonalThresholdRegressor(method=method, stable="all", fit_intercept=intercept).fit(G, y)
    assert loud.n_stable_ == silent.n_stable_
    np.testing.assert_allclose(loud.coef_, silent.coef_, rtol=1e-6, atol=1e-8)
    ridge = BasisRidge(alpha="loo", fit_intercept=intercept).fit(G, y)
    assert silent.criteria_["gcv"] < 1.25 * ridge.criteria_["gcv"]
    assert 0.05 < silent.stable_noise_variance_ < 0.4


@pytest.mark.parametrize("method", METHODS)
def test_the_size_of_a_crowded_stable_set_has_the_least_gcv(method):
    G, y = scattered(40, 30)
    centred = G - G.mean(axis=0)
    U = sla.svd(centred)[0] if method == "eigen" else sla.qr(centred, pivoting=True)[0]
    half = 39 // 2  # of the degrees of freedom
    y0 = y - y.mean()
    values = [40 * np.sum((y0 - U[:, :k] @ (U[:, :k].T @ y0)) ** 2) / (39 - k) ** 2 for k in range(half + 1)]
    assert OrthogonalThresholdRegressor(method=method).fit(G, y).n_stable_ == np.argmin(values)


def test_the_units_of_the_columns_do_not_matter():
    G, y = smooth(80, 0.5)
    for method in METHODS:
        model = OrthogonalThresholdRegressor(method=method).fit(G, y)
        scaled = OrthogonalThresholdRegressor(method=method).fit(1000 * G, y)
        assert (scaled.n_stable_, scaled.n_components_) == (model.n_stable_, model.n_components_)
        np.testing.assert_allclose(scaled.predict(1000 * G), model.predict(G), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("stable", ["auto", "all"])
def test_tol_leaves_components_out(method, stable):
    G, y = smooth(60, 0.5)
    for tol in (1e-2, 0.1, 1.0):
        model = OrthogonalThresholdRegressor(method=method, tol=tol, stable=stable).fit(G, y)
        assert model.gammas_.min() > tol
        assert np.all(np.diff(model.gammas_) <= 1e-9)
    assert OrthogonalThresholdRegressor(method=method, tol=1e9, stable=stable).fit(G, y).n_stable_ == 0


# -- edges -------------------------------------------------------------------------------------------------------------


@each_method
@pytest.mark.parametrize("intercept", [True, False])
def test_nothing_significant_leaves_the_mean(method, keep, intercept):
    G, _ = scattered(60, 6)
    y = np.random.default_rng(2).normal(size=60) + 5 * intercept
    model = OrthogonalThresholdRegressor(method=method, keep=keep, threshold=50.0, fit_intercept=intercept).fit(G, y)
    assert model.n_components_ == model.n_terms_ == len(model.support_) == 0
    assert model.n_stable_ == 6
    assert not model.coef_.any()
    np.testing.assert_allclose(model.predict(G), y.mean() if intercept else 0.0)
    assert "no terms" in model.summary()
    lower, upper = model.predict_interval(G, method="jackknife+")
    assert np.all(lower < upper)


@each_method
@pytest.mark.parametrize("case", ["constant y", "constant columns", "copies", "exact", "two samples", "wide"])
def test_degenerate_problems(method, keep, case):
    rng = np.random.default_rng(4)
    G, y = scattered(40, 6)
    if case == "constant y":
        y = np.full(40, 3.0)
    elif case == "constant columns":
        G = np.full((40, 3), 2.0)
    elif case == "copies":
        G = np.column_stack([G, G[:, :3]])
    elif case == "exact":
        y = 2 * G[:, 0] - G[:, 4] + 1
    elif case == "two samples":
        G, y = G[:2], y[:2]
    else:
        G = rng.normal(size=(20, 60))
        y = y[:20]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = OrthogonalThresholdRegressor(method=method, keep=keep).fit(G, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict(G)).all()
    assert model.n_stable_ <= 0.5 * (len(y) - 1) or model.n_stable_ <= 6
    if case in ("constant y", "constant columns", "two samples"):
        np.testing.assert_allclose(model.predict(G), y.mean())
    if case == "exact":
        np.testing.assert_allclose(model.predict(G), y, rtol=1e-8)


def test_one_output_that_is_significant_keeps_a_component_for_all():
    G, Y = scattered(80, 8, outputs=2)
    alone = [OrthogonalThresholdRegressor(keep="significant").fit(G, y) for y in Y.T]
    both = OrthogonalThresholdRegressor(keep="significant").fit(G, Y)
    assert max(m.n_components_ for m in alone) <= both.n_components_ <= sum(m.n_components_ for m in alone)
    assert both.thresholds_.shape == both.orthogonal_coef_.shape == (2, 8)
    np.testing.assert_allclose(both.thresholds_, [m.thresholds_ for m in alone], rtol=1e-9)
    np.testing.assert_allclose(both.stable_noise_variance_, [m.stable_noise_variance_ for m in alone], rtol=1e-9)


@pytest.mark.parametrize("keep", KEEPS)
def test_components_that_float32_does_not_resolve_are_not_used(keep):
    """Their coefficients would multiply the rounding of the columns by a million."""
    G, y = smooth(60, width=2.0)
    parameters = {"keep": keep, "stable": "all", "threshold": 0.0, "tol": 1e-14}
    exact = OrthogonalThresholdRegressor(**parameters).fit(G, y)
    short = OrthogonalThresholdRegressor(**parameters).fit(G.astype(np.float32), y)
    assert exact.gammas_.min() < 1e-10 * exact.gammas_.max() < short.gammas_.min()
    np.testing.assert_allclose(short.predict(G), short.predict(G.astype(np.float32)), atol=0.02)


def test_only_the_columns_taken_are_evaluated(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.uniform(-3, 3, size=(100, 1))
    model = OrthogonalThresholdRegressor(RadialBasis(width=0.7), method="gram_schmidt").fit(X, np.sin(2 * X[:, 0]))
    widths = []
    original = RadialBasis.transform
    monkeypatch.setattr(
        RadialBasis, "transform", lambda self, X: widths.append(len(self.centers_)) or original(self, X)
    )
    model.predict(X)
    assert widths == [model.n_terms_]
    assert model.n_terms_ < 30


@pytest.mark.parametrize(
    ("parameters", "error", "pattern"),
    [
        ({"method": "qr"}, ValueError,
         r"method must be one of 'eigen', 'gram_schmidt', got 'qr': 'eigen' is the more accurate, 'gram_schmidt' is"),
        ({"keep": "all"}, ValueError, r"keep must be one of 'leading', 'significant', got 'all': 'leading' has the"),
        ({"tol": -1}, ValueError, r"tol must be a finite number >= 0, got -1: 1e-10 leaves out what float64 cannot"),
        ({"tol": None}, TypeError, r"tol must be a finite number >= 0, got None"),
        ({"threshold": -1}, ValueError, r"threshold must be a finite number >= 0, got -1: 1 is the level noise stays"),
        ({"stable": 3}, ValueError, r"stable must be one of 'auto', 'all', got 3: 'auto' leaves enough to estimate"),
    ],
)  # fmt: skip
def test_bad_parameters(parameters, error, pattern):
    G, y = scattered(20, 4)
    with pytest.raises(error, match=pattern):
        OrthogonalThresholdRegressor(**parameters).fit(G, y)


@needs_data
@pytest.mark.parametrize("name", ["ailerons", "boston_housing", "delta_ailerons", "elevators", "kin8nm", "puma32H"])
def test_defaults_keep_up_with_ridge_on_data_that_invite_the_trap(name):
    data = datasets.load(name)
    table = np.column_stack([data.data, data.target])
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    table = table[np.random.default_rng(0).permutation(len(table))]
    train, test = table[:400], table[400:1400]
    errors = []
    for model in (OrthogonalThresholdRegressor(RadialBasis()), BasisRidge(RadialBasis(), alpha="loo")):
        search = GridSearchCV(model, {"basis__width": [2, 5, 8]}, cv=2, scoring="neg_mean_squared_error")
        search.fit(train[:, :-1], train[:, -1])
        errors.append(np.mean((test[:, -1] - search.predict(test[:, :-1])) ** 2))
    assert errors[0] < 1.25 * errors[1]
