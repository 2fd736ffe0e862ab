"""Bounds of leave-one-out errors: valid, and tight enough that hardly any candidate is verified."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import termwise.selection.leave_one_out as cascade
from termwise import forward_path
from termwise.selection.leave_one_out import CascadeOptions, LooRule


def correlated(rng, n, p, share):
    """Columns in blocks of ten that have a share of their variance in common."""
    common = np.repeat(rng.normal(size=(n, -(-p // 10))), 10, axis=1)[:, :p]
    return np.sqrt(1 - share) * rng.normal(size=(n, p)) + np.sqrt(share) * common


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_few_are_verified_beyond_the_signal(share, dtype):
    """A term of noise changes the error by 1/n of it, which is less than the rounding of the error in float32."""
    rng = np.random.default_rng(3)
    G = correlated(rng, 60_000, 60, share).astype(dtype)
    y = G[:, ::20] @ np.array([1.0, -2.0, 0.5]) + rng.normal(size=len(G))
    path = forward_path(G, y, max_terms=25, precompute=False)
    assert path.terms.tolist() == forward_path(G.astype(float), y, max_terms=25).terms.tolist()
    assert path.column("verified")[1:].max() <= 5
    assert path.column("verified")[1:].mean() <= 2.5


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.sampled_from([0.0, 0.5, 0.95]), outputs=st.integers(1, 3))
def test_float32_chooses_as_float64(seed, share, outputs):
    rng = np.random.default_rng(seed)
    G = correlated(rng, 300, 40, share).astype(np.float32)
    Y = rng.normal(size=(300, outputs)) + G[:, :1]
    path, expected = (forward_path(X, Y, max_terms=12) for X in (G, G.astype(float)))
    assert path.terms.tolist() == expected.terms.tolist()
    np.testing.assert_allclose(path.column("loo"), expected.column("loo"), rtol=1e-5)


@pytest.mark.parametrize("kind", ["dense", "float32", "sparse", "blocks"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("alpha", "penalty"), [(0.0, "weights"), (1e-6, "weights"), (3.0, "weights"), (3.0, "orthogonal")]
)
def test_products_with_directions_bound_the_errors(kind, weighted, alpha, penalty, monkeypatch):
    rng = np.random.default_rng(5)
    G = correlated(rng, 200, 50, 0.6) * 10 ** rng.uniform(-1, 1, size=50)
    G[rng.random(size=G.shape) < 0.3] = 0
    Y, counts = rng.normal(size=(200, 2)), rng.integers(1, 4, size=200) if weighted else None
    losses = []
    original = cascade.LooBounds.screen

    def spy(self, best, cache, threshold):
        unverified = np.isfinite(self.values)
        original(self, np.inf, cache, 0)
        few = self.state.fetch_candidates(np.flatnonzero(unverified))[0]
        errors = cascade.verified_errors(self.state, few)
        bounds = self.floor + self.values[few.numbers]
        assert np.all(bounds <= errors)
        losses.append((errors - bounds) / errors)

    monkeypatch.setattr(cascade.LooBounds, "screen", spy)
    X = {"float32": G.astype(np.float32), "sparse": sp.csr_array(G)}.get(kind, G)
    options = {"alpha": alpha, "penalty": penalty, "sample_weight": counts, "max_terms": 10}
    forward_path(X, Y, rule="loo", block_rows=70 if kind == "blocks" else None, **options)
    assert np.median(np.concatenate(losses)) < 0.01


@pytest.mark.parametrize("slots", [2, 3, 7, 40])
@pytest.mark.parametrize("alpha", [1e-6, 0.5])
def test_choices_do_not_depend_on_the_number_of_cached_directions(slots, alpha):
    rng = np.random.default_rng(slots)
    for columns in (rng.normal(size=(60, 50)), correlated(rng, 60, 50, 0.8)):
        y = rng.normal(size=60)
        rule = LooRule(CascadeOptions(cache_slots=(slots, slots), screen_above=0))
        path = forward_path(columns, y, rule=rule, alpha=alpha, max_terms=15)
        assert path.terms.tolist() == oracles.forward(columns, y, "loo", alpha, 15)


@pytest.mark.parametrize("scale", [1e-60, 1e-15, 1e15, 1e60])
def test_choices_do_not_depend_on_units(scale, rng):
    G, y = rng.normal(size=(80, 40)), rng.normal(size=80)
    expected = forward_path(G, y, alpha=0.0, max_terms=12).terms.tolist()
    assert forward_path(G * scale, y, alpha=0.0, max_terms=12).terms.tolist() == expected
    assert forward_path(G, y * scale, alpha=0.0, max_terms=12).terms.tolist() == expected
    mixed = G * scale ** rng.uniform(-1, 1, size=40)
    assert forward_path(mixed, y, alpha=0.0, max_terms=12).terms.tolist() == expected


def test_a_gaussian_dictionary_chooses_as_brute_force():
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(-3, 3, size=120))
    G = np.exp(-((x[:, None] - x) ** 2))
    y = np.sin(2 * x) + 0.3 * rng.normal(size=120)
    assert forward_path(G, y, alpha=1e-6, max_terms=12).terms.tolist() == oracles.forward(G, y, "loo", 1e-6, 12)
