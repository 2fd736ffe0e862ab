"""Criteria: values, order, and what happens without degrees of freedom."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from oracles import best_of_noise, leave_one_out, projection, repeat
from oracles import criteria as oracle_criteria

from termwise import AnovaBasis, ForwardRegressor, RadialBasis, forward_path
from termwise.execution.local import local_blocks
from termwise.selection import CRITERIA, bic, fpe, gcv, loo, uev
from termwise.selection import effective_candidates as different
from termwise.selection.effective_candidates import unit_columns
from termwise.selection.engine import sparse_columns


@pytest.mark.parametrize("name", CRITERIA)
def test_criterion_equals_the_definition(name, rng):
    G, y = rng.normal(size=(25, 4)), rng.normal(size=25)
    P = projection(G, 0.7)
    sse, dof = y @ P @ P @ y, 25 - np.trace(P)
    loo_sse = np.sum(leave_one_out(G, y, 0.7) ** 2)
    assert CRITERIA[name](sse, dof, 25, loo_sse) == pytest.approx(oracle_criteria(G, y, 0.7)[name], rel=1e-10)


@given(n=st.integers(2, 10_000), share=st.floats(0, 0.999), sse=st.floats(1e-100, 1e100))
def test_order_of_the_criteria(n, share, sse):
    """UEV <= FPE <= GCV always; GCV <= BIC up to dof = n (log n - 2) / (log n - 1), which needs n >= 8."""
    dof = share * n
    slack = 1 + 1e-12
    assert uev(sse, dof, n) <= fpe(sse, dof, n) * slack
    assert fpe(sse, dof, n) <= gcv(sse, dof, n) * slack
    if n >= 8 and dof <= n * (np.log(n) - 2) / (np.log(n) - 1):
        assert gcv(sse, dof, n) <= bic(sse, dof, n) * slack


def test_criteria_work_on_arrays_and_never_divide_by_zero():
    dof = np.array([1.0, 9.0, 10.0, 11.0])
    for name in ("uev", "fpe", "gcv", "bic"):
        values = CRITERIA[name](2.0, dof, 10, None)
        assert np.isfinite(values).tolist() == [True, True, False, False], name
    assert loo(2.0, dof, 10, np.array([5.0, 6.0])).tolist() == [0.5, 0.6]


# -- effectively different candidates ----------------------------------------------------------------------------------


def number_of_different(G, counts, centred, block_rows=None):
    rows = local_blocks(sparse_columns(G), np.zeros((G.shape[0], 1)), counts, block_rows, 1)
    return different.number_of_different(rows, centred)


def orthonormal(rng, n, p):
    """Columns orthogonal to each other and to the ones."""
    return np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, p))]))[0][:, 1:]


@pytest.mark.parametrize("centred", [True, False])
def test_orthogonal_candidates_are_all_different_and_copies_are_one(centred, rng):
    ones = np.ones(60)
    G = orthonormal(rng, 60, 25) * rng.uniform(0.1, 9, size=25)
    assert number_of_different(G, ones, centred) == pytest.approx(25, rel=1e-9)
    copies = G[:, :1] * rng.choice([-2.0, 1.0, 5.0], size=25) + (3.0 if centred else 0.0)
    assert number_of_different(copies, ones, centred) == pytest.approx(1, abs=1e-4)
    groups = np.repeat(G[:, :5], 8, axis=1)
    assert number_of_different(groups, ones, centred) == pytest.approx(5, abs=1e-3)


def test_some_candidates_tell_about_all(rng, monkeypatch):
    """Orthogonal ones and copies exactly; Gaussians about."""
    x = rng.uniform(-1, 1, size=(300, 2))
    gaussians = RadialBasis(width=0.7).fit_transform(x)
    full = number_of_different(gaussians, np.ones(300), True)
    monkeypatch.setattr(different, "MOST_CANDIDATES", 60)
    assert number_of_different(orthonormal(rng, 300, 200), np.ones(300), True) == pytest.approx(200, rel=1e-9)
    assert number_of_different(np.repeat(x[:, :1], 200, axis=1), np.ones(300), True) == pytest.approx(1, abs=1e-3)
    assert number_of_different(gaussians, np.ones(300), True) == pytest.approx(full, rel=0.3)


@given(
    n=st.integers(2, 30), p=st.integers(1, 40), rank=st.integers(1, 8), most=st.integers(1, 40), seed=st.integers(0, 99)
)
def test_the_number_of_different_candidates_is_between_one_and_all(n, p, rank, most, seed):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + rng.integers(0, 2) * rng.normal(size=(n, p))
    G[:, rng.random(size=p) < 0.2] = 3.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(different, "MOST_CANDIDATES", most)
        assert 1 <= number_of_different(G, rng.integers(1, 4, size=n) * 1.0, bool(seed % 2)) <= p


def test_containers_and_weights_do_not_matter_to_it(rng, tmp_path):
    G = rng.normal(size=(80, 30)) * (rng.random(size=(80, 30)) < 0.4)
    G[:, 5:20] = G[:, :1] + 0.1 * G[:, 5:20]
    expected = number_of_different(G, np.ones(80), True)
    np.save(tmp_path / "G.npy", G)
    stored = np.load(tmp_path / "G.npy", mmap_mode="r")
    for other in (sp.csc_array(G), G.astype(np.float32), np.asfortranarray(G), stored):
        assert number_of_different(other, np.ones(80), True) == pytest.approx(expected, rel=1e-4)
    counts = rng.integers(1, 4, size=80)
    repeated = number_of_different(*repeat(counts, G), np.ones(counts.sum()), True)
    assert number_of_different(G, counts * 1.0, True) == pytest.approx(repeated, rel=1e-9)


@pytest.mark.parametrize("case", ["narrow", "wide", "two inputs", "five inputs", "products"])
def test_it_is_the_number_whose_best_brings_as_much_noise(case, rng):
    """Independent candidates, as many as it says, have their best at the same median; within a factor of two."""
    x = rng.normal(size=(300, {"five inputs": 5, "two inputs": 2, "products": 3}.get(case, 1)))
    width = {"narrow": 0.3, "wide": 1.0, "two inputs": 0.7, "five inputs": 3.0}
    G = AnovaBasis().fit_transform(x) if case == "products" else RadialBasis(width=width[case]).fit_transform(x)
    number = number_of_different(G, np.ones(300), True)
    assert number < G.shape[1] / 2
    assert 0.5 < number / best_of_noise(unit_columns(G, np.ones(300), True), 1000, rng) < 2


@pytest.mark.parametrize("seed", range(4))
def test_many_more_candidates_than_samples_do_not_mislead(seed):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(150, 3000))
    y = G[:, :6] @ [3.0, -3.0, 2.0, -2.0, 2.0, -2.0] + rng.normal(size=150)
    sequential = ForwardRegressor(criterion="tcr_sequential").fit(G, y)
    assert sorted(sequential.support_) == [0, 1, 2, 3, 4, 5]
    default = ForwardRegressor().fit(G, y)
    assert len(default.path_) <= 6 + 10 + 2
    assert set(range(6)) <= set(default.support_)
    assert (
        ForwardRegressor(patience=None, max_terms=40).fit(G, y).n_terms_ > 2 * default.n_terms_
    )  # leave-one-out falls


def test_the_sequential_criterion_finds_little_in_noise():
    """The threshold is the median of the best, or so: a first term passes now and then, more do not."""
    sizes = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        path = forward_path(rng.normal(size=(80, 800)), rng.normal(size=80), criterion="tcr_sequential", patience=10)
        sizes.append(path.choose("tcr_sequential"))
    assert np.count_nonzero(sizes) <= 5
    assert max(sizes) <= 3


def test_a_path_that_is_misled_says_why_it_ends(rng):
    G, y = rng.normal(size=(60, 600)), rng.normal(size=60)
    path = forward_path(G, y, criterion="tcr", patience=5)
    assert path.stop_reason == "none of the last 5 terms is significant by the error before them"
    forced = forward_path(G, y, criterion="tcr", patience=5, include=np.arange(12))
    assert len(forced) >= 17


def test_tcr_effective_is_tcr_for_orthogonal_candidates(rng):
    for _ in range(5):
        G = orthonormal(rng, 120, 40)
        y = 6 * G[:, 3] + 4 * G[:, 5] + 3 * G[:, 6] + rng.normal(size=120)
        path = forward_path(G, y, criterion="tcr_effective", max_terms=20)
        assert path.n_different == pytest.approx(40, rel=1e-9)
        assert path.choose("tcr_effective") == path.choose("tcr")


def test_tcr_effective_lets_in_more_of_a_smooth_function():
    sizes = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, size=(150, 1))
        y = 2 * np.sin(9 * x[:, 0]) + rng.normal(size=150)
        path = forward_path(RadialBasis(width=0.5).fit_transform(x), y, criterion="tcr_effective", patience=10)
        sizes.append([path.choose(name) for name in ("tcr", "tcr_effective", "loo")])
    assert np.all(np.diff(sizes, axis=1) >= 0)
    assert np.mean(sizes, axis=0)[1] > np.mean(sizes, axis=0)[0]


@pytest.mark.parametrize("inputs", [1, 2, 5])
def test_tcr_effective_lets_in_noise_about_as_often_as_tcr_does_of_as_many_orthogonal_candidates(inputs):
    gaussian, orthogonal = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(150, inputs)), rng.normal(size=150)
        G = RadialBasis(width=0.7 * inputs).fit_transform(x)
        path = forward_path(G, y, criterion="tcr_effective", patience=10)
        gaussian.append(path.choose("tcr_effective") > 0)
        independent = orthonormal(rng, 150, round(path.n_different))
        orthogonal.append(forward_path(independent, y).choose("tcr") > 0)
    assert np.mean(gaussian) < np.mean(orthogonal) + 0.2, (np.mean(gaussian), np.mean(orthogonal))


def test_a_model_keeps_the_number(rng):
    G = rng.normal(size=(80, 10))
    y = G[:, 2] + 0.1 * rng.normal(size=80)
    model = ForwardRegressor(criterion="tcr_effective").fit(G, y)
    path = pickle.loads(pickle.dumps(model)).path_
    assert model.n_terms_ == path.choose("tcr_effective") >= 1
    assert 1 < path.n_different <= 10
    assert ForwardRegressor().fit(G, y).path_.n_different is None
    assert forward_path(np.ones((9, 3)), np.arange(9.0), criterion="tcr_effective").choose("tcr_effective") == 0
