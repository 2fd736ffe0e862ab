"""Criteria: values, order, and what happens without degrees of freedom."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import criteria as oracle_criteria
from oracles import leave_one_out, projection

from termwise import ForwardRegressor, forward_path
from termwise.selection import CRITERIA, bic, fpe, gcv, loo, uev


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


@pytest.mark.parametrize("seed", range(4))
def test_many_more_candidates_than_samples(seed):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(150, 3000))
    y = G[:, :6] @ [3.0, -3.0, 2.0, -2.0, 2.0, -2.0] + rng.normal(size=150)
    sequential = ForwardRegressor(criterion="tcr_sequential").fit(G, y)
    assert sorted(sequential.support_) == [0, 1, 2, 3, 4, 5]
    default = ForwardRegressor().fit(G, y)
    assert len(default.path_) <= 30
    assert set(range(6)) <= set(default.support_)
    long = ForwardRegressor(patience=None, max_terms=40).fit(G, y)
    assert long.n_terms_ <= default.n_terms_ + 2  # the noise level does not fall with the search
    assert long.path_.choose("tcr_paper") > 2 * default.n_terms_  # leave-one-out falls


def test_the_sequential_criterion_finds_little_in_noise():
    """The threshold is the median of the best, or so: a first term passes now and then, more do not."""
    sizes = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        path = forward_path(rng.normal(size=(80, 800)), rng.normal(size=80), criterion="tcr_sequential", patience=10)
        sizes.append(path.choose("tcr_sequential"))
    assert np.count_nonzero(sizes) <= 5
    assert max(sizes) <= 3


def test_the_default_keeps_little_of_noise_in_wide_data():
    """All terms are false; leave-one-out falls to the end of the path, which misleads Hagiwara's noise level."""
    kept = {"tcr": [], "tcr_paper": []}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        path = forward_path(rng.normal(size=(80, 1500)), rng.normal(size=80), max_terms=25)
        for criterion, sizes in kept.items():
            sizes.append(path.choose(criterion))
    assert np.mean(kept["tcr"]) < 2
    assert np.mean(kept["tcr_paper"]) > 8


def test_included_terms_do_not_count_as_searched():
    """The noise level starts after them, so that a term weaker than all of them is found."""
    rng = np.random.default_rng(0)
    G = rng.normal(size=(150, 1000))
    y = G[:, :20].sum(axis=1) + 0.6 * G[:, 500] + 0.5 * rng.normal(size=150)
    path = forward_path(G, y, include=np.arange(20), criterion="tcr", patience=10)
    assert path.terms[20] == 500
    assert 21 <= path.choose("tcr") <= 23


def test_a_term_after_many_useless_included_ones_is_tested(rng):
    """More of them than `tcr_sequential` tests at a time: the first candidate with a score is tested all the same."""
    G = rng.normal(size=(100, 40))
    y = 3 * G[:, 35] + 2 * G[:, 30] + 0.3 * rng.normal(size=100)
    model = ForwardRegressor(include=range(15), criterion="tcr_sequential").fit(G, y)
    assert model.support_.tolist() == [*range(15), 35, 30]


def test_correlation_along_the_path_by_definition(rng):
    G = rng.normal(size=(40, 1)) + rng.normal(size=(40, 12))
    path = forward_path(G, rng.normal(size=40), alpha=0, max_terms=4)
    left = G - G.mean(axis=0)
    for k, term in enumerate(path.terms, start=1):
        chosen = left[:, term] / np.linalg.norm(left[:, term])
        others = np.setdiff1d(np.arange(12), path.terms[:k])
        shares = (chosen @ left[:, others]) ** 2 / np.sum(left[:, others] ** 2, axis=0)
        assert path.steps[k].correlation == pytest.approx(shares.mean(), rel=1e-8)
        left = left - np.outer(chosen, chosen @ left)


def test_stop_reason_where_leave_one_out_always_falls(rng):
    G, y = rng.normal(size=(60, 600)), rng.normal(size=60)
    path = forward_path(G, y, criterion="tcr", patience=5)
    assert path.stop_reason == "the choice of 'tcr' has not changed for 5 terms"
    forced = forward_path(G, y, criterion="tcr", patience=5, include=np.arange(12))
    assert len(forced) >= 17


def test_the_deprecated_tcr_effective_is_tcr(rng):
    G = rng.normal(size=(80, 10))
    y = G[:, :4] @ [1.0, 0.7, 0.5, 0.3] + 0.1 * rng.normal(size=80)  # tested after every term
    with pytest.warns(FutureWarning, match="criterion='tcr_effective' is deprecated and means 'tcr'"):
        path = forward_path(G, y, criterion="tcr_effective", patience=3)
    expected = forward_path(G, y, criterion="tcr", patience=3)
    assert path.terms.tolist() == expected.terms.tolist()
    with pytest.warns(FutureWarning, match="use 'tcr'"):
        assert path.choose("tcr_effective") == expected.choose("tcr")
    with pytest.warns(FutureWarning, match="use 'tcr'") as warned:
        model = ForwardRegressor(criterion="tcr_effective").fit(G, y)
    assert len(warned) == 1
    assert model.n_terms_ == ForwardRegressor().fit(G, y).n_terms_
