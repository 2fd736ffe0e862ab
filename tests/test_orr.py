"""Orr's worked examples, 4.5, 5.3 and 6.5."""

from __future__ import annotations

import numpy as np
import pytest

from termwise import BasisRidge, LocalRidge, OnlineRidge, RadialBasis, datasets, reestimate_alpha
from termwise.selection import CRITERIA


def test_example_4_5_to_the_digit():
    """A line through three points: H'H, its inverse, w = (0, 1), P, SSE 0.06."""
    X, y = datasets.make_line()
    H = np.column_stack([np.ones(3), X])
    np.testing.assert_array_equal(H.T @ H, [[3, 6], [6, 14]])
    model = BasisRidge(alpha=0, fit_intercept=False).fit(H, y)
    unit = model.weights_cov_ / model.noise_variance_  # A^-1, without a penalty
    np.testing.assert_allclose(unit, [[7 / 3, -1], [-1, 1 / 2]], rtol=1e-12)
    np.testing.assert_allclose(model.weights_, [0, 1], atol=1e-13)
    P = np.eye(3) - H @ unit @ H.T
    np.testing.assert_allclose(P, np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]]) / 6, atol=1e-12)
    assert y @ P @ P @ y == pytest.approx(0.06, rel=1e-12)
    assert model.noise_variance_ * (3 - model.effective_dof_) == pytest.approx(0.06, rel=1e-12)
    with_intercept = BasisRidge(alpha=0).fit(X, y)
    assert with_intercept.intercept_ == pytest.approx(0, abs=1e-13)
    assert with_intercept.weights_[0] == pytest.approx(1, rel=1e-13)


def test_example_4_5_adding_a_term_equals_refitting():
    X, y = datasets.make_line()
    H = np.column_stack([np.ones(3), X, X**2])
    grown = OnlineRidge(alpha=0, terms=[0, 1], fit_intercept=False).fit(H, y).add_terms([2])
    refitted = OnlineRidge(alpha=0, fit_intercept=False).fit(H, y)
    np.testing.assert_allclose(grown.weights_, refitted.weights_, rtol=1e-10)
    np.testing.assert_allclose(grown.predict(H), y, rtol=1e-12)
    back = grown.remove_terms([2])
    np.testing.assert_allclose(back.weights_, [0, 1], atol=1e-12)


@pytest.mark.slow
def test_example_5_3_criteria_choose_near_the_best_penalty():
    """The criteria's minima are close to that of the error on new data, UEV's the least (as the paper warns)."""
    grid = np.linspace(-4, 4, 400)[:, None]
    truth = (1 + grid[:, 0] - 2 * grid[:, 0] ** 2) * np.exp(-(grid[:, 0] ** 2))
    excess = {name: [] for name in CRITERIA}
    for seed in range(20):
        X, y = datasets.make_hermite(random_state=seed)
        basis = RadialBasis(width=0.5, centers=np.linspace(-4, 4, 25)[:, None])  # fewer centres than samples
        alphas = np.logspace(-4, 3, 30)
        best = min(np.mean((BasisRidge(basis, alpha=a).fit(X, y).predict(grid) - truth) ** 2) for a in alphas)
        for name, ratios in excess.items():
            model = BasisRidge(basis, alpha=name).fit(X, y)
            ratios.append(np.mean((model.predict(grid) - truth) ** 2) / best)
    median = {name: np.median(ratios) for name, ratios in excess.items()}
    assert max(median, key=median.get) == "uev"
    assert all(value < 1.5 for name, value in median.items() if name != "uev")


@pytest.mark.exhaustive
def test_example_6_5():
    """50 noisy samples of sin(12 x), 50 Gaussians of radius 0.05, 100 draws."""
    alphas, starts, ends, pruned, differ = [], [], [], [], 0
    for seed in range(100):
        X, y = datasets.make_sine(random_state=seed)
        basis = RadialBasis(width=0.05)
        ridge = BasisRidge(basis, alpha="gcv", fit_intercept=False).fit(X, y)
        local = LocalRidge(basis, fit_intercept=False).fit(X, y)
        assert local.gcv_path_[0] == pytest.approx(ridge.criterion_value_, rel=1e-3)
        assert local.criterion_value_ < ridge.criterion_value_
        alphas.append(ridge.alpha_)
        starts.append(ridge.criterion_value_)
        ends.append(local.criterion_value_)
        pruned.append(50 - local.n_terms_)
        G = basis.fit_transform(X)
        minima = [reestimate_alpha(G, y, start, fit_intercept=False) for start in (1e-2, 1e-5)]
        differ += abs(np.log(minima[0] / minima[1])) > 1
        values = [BasisRidge(alpha=a, fit_intercept=False).fit(G, y).criterion_value_ for a in minima]
        assert ridge.criterion_value_ <= min(values) * (1 + 1e-9)
    assert 0.05 < np.median(alphas) < 0.2
    assert 0.013 < np.median(starts) < 0.017
    assert 0.009 < np.median(ends) < 0.012
    assert 25 <= np.median(pruned) <= 36
    assert np.mean([25 <= count <= 36 for count in pruned]) > 0.85
    assert differ >= 10
