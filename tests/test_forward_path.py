"""The selection engine against trying every candidate at every step."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import OrthogonalMatchingPursuit

import termwise.selection.leave_one_out as cascade
from termwise import BasisRidge, RadialBasis, datasets, forward_path, reestimate_alpha
from termwise.selection import CRITERIA, RULES
from termwise.selection.leave_one_out import CascadeOptions, LooRule
from termwise.selection.path import SIZE_CRITERIA

KINDS = ["long", "wide", "gaussian", "duplicates"]


def make(kind, seed, outputs=1):
    """Problems on which selection is easy, underdetermined, ill-conditioned, and full of ties."""
    rng = np.random.default_rng(seed)
    n, p = {"long": (30, 12), "wide": (12, 25), "gaussian": (25, 25), "duplicates": (20, 12)}[kind]
    if kind == "gaussian":
        x = np.sort(rng.uniform(-2, 2, size=n))
        G = np.exp(-((x[:, None] - x) ** 2) / 0.7**2)
        y = np.sin(3 * x) + 0.1 * rng.normal(size=n)
    else:
        G = rng.normal(size=(n, p)) + rng.normal(size=p)
        y = G[:, 1] - G[:, 3] + 0.5 * rng.normal(size=n)
    if kind == "duplicates":
        G[:, 5], G[:, 9], G[:, 2] = G[:, 1], G[:, 3], 4.0
    Y = y if outputs == 1 else np.column_stack([y, rng.normal(size=n)])
    return G, Y


def classes(Y):
    """Targets -1 and +1: the sign of one output, or one column per class."""
    if Y.ndim == 1:
        return np.where(np.median(Y) <= Y, 1.0, -1.0)
    return np.where(Y.max(axis=1, keepdims=True) == Y, 1.0, -1.0)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("penalty", ["weights", "orthogonal"])
@pytest.mark.parametrize("alpha", [0.0, pytest.param(1e-6, marks=pytest.mark.slow), 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_rule_chooses_as_brute_force(rule, penalty, alpha, kind):
    steps = {"gaussian": 6}.get(kind, 5)
    for seed in range(4):
        for intercept in (True, False):
            for outputs in (1, 2):
                G, Y = make(kind, seed, outputs)
                Y = classes(Y) if rule == "loo_error" else Y
                gram = bool(seed % 2)
                path = forward_path(
                    G,
                    Y,
                    rule=rule,
                    alpha=alpha,
                    penalty=penalty,
                    max_terms=steps,
                    fit_intercept=intercept,
                    precompute=gram,
                )
                expected = oracles.forward(G, Y, rule, alpha, steps, intercept, penalty)
                assert path.terms.tolist() == expected, (seed, intercept, outputs)


@pytest.mark.parametrize("penalty", ["weights", "orthogonal"])
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 0.3])
@pytest.mark.parametrize("intercept", [True, False])
def test_every_row_of_the_path_is_the_model_it_says(penalty, alpha, intercept):
    G, y = make("long", 3)
    path = forward_path(G, y, rule="cost", alpha=alpha, penalty=penalty, fit_intercept=intercept, max_terms=6)
    assert len(path) == 6
    for k, step in enumerate(path.steps):
        S = path.terms[:k]
        P = oracles.smoother(G[:, S], alpha, intercept, penalty)
        loo = P @ y / np.diag(P)
        assert step.sse == pytest.approx(y @ P @ P @ y, rel=1e-9)
        assert step.cost == pytest.approx(y @ P @ y, rel=1e-9)
        assert step.dof == pytest.approx(len(G) - np.trace(P), rel=1e-9, abs=1e-12)
        assert step.loo == pytest.approx(np.mean(loo**2), rel=1e-9)
        assert step.loo_se == pytest.approx(np.std(loo**2) / np.sqrt(len(G)), rel=1e-8)
        for name in CRITERIA:
            expected = CRITERIA[name](step.sse, step.dof, len(G), np.sum(loo**2))
            assert getattr(step, name) == pytest.approx(float(expected), rel=1e-9)
        w, b = path.coef(k)
        np.testing.assert_allclose(G[:, S] @ w + b, y - P @ y, atol=1e-8)
        if k:
            assert step.reduction == pytest.approx(path.steps[k - 1].cost - step.cost, rel=1e-6, abs=1e-10)


def test_ols_is_regularised_selection_without_a_penalty(rng):
    """And on orthogonal columns both are orthogonal matching pursuit."""
    G, y = rng.normal(size=(50, 20)), rng.normal(size=50)
    paths = [
        forward_path(G, y, rule=rule, alpha=0.0, penalty=penalty, max_terms=8).terms.tolist()
        for rule in ("sse", "cost")
        for penalty in ("weights", "orthogonal")
    ]
    assert all(path == paths[0] for path in paths)
    Q = np.linalg.qr(G - G.mean(axis=0))[0]
    theirs = OrthogonalMatchingPursuit(n_nonzero_coefs=5).fit(Q, y)
    ours = forward_path(Q, y, rule="sse", alpha=0.0, max_terms=5)
    assert set(ours.terms) == set(np.flatnonzero(theirs.coef_))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("container", ["F", "strided", "csr", "csc", "float32", "blocks", "memmap", "gram"])
def test_containers_give_the_same_path(rule, container, tmp_path, rng):
    G, y = rng.normal(size=(60, 15)), rng.normal(size=60)
    G[rng.random(size=G.shape) < 0.5] = 0
    y += G[:, 2] - G[:, 6]
    y = classes(y) if rule == "loo_error" else y
    reference = forward_path(G, y, rule=rule, alpha=1e-3, max_terms=6)
    options = {"block_rows": 7} if container in ("blocks", "memmap") else {}
    options["precompute"] = container == "gram"
    if container == "memmap":
        stored = np.memmap(tmp_path / "G.npy", dtype=float, mode="w+", shape=G.shape)
        stored[:] = G
        stored.flush()
        other = np.memmap(tmp_path / "G.npy", dtype=float, mode="r", shape=G.shape)
    else:
        other = {
            "F": np.asfortranarray(G),
            "strided": np.repeat(np.repeat(G, 2, axis=0), 3, axis=1)[::2, ::3],
            "csr": sp.csr_matrix(G),
            "csc": sp.csc_array(G),
            "float32": G.astype(np.float32),
            "blocks": G,
            "gram": G,
        }[container]
    path = forward_path(other, y, rule=rule, alpha=1e-3, max_terms=6, **options)
    assert path.terms.tolist() == reference.terms.tolist()
    tol = 1e-5 if container == "float32" else 1e-9
    np.testing.assert_allclose(path.coef(6)[0], reference.coef(6)[0], rtol=tol, atol=tol)
    np.testing.assert_allclose(path.column("loo"), reference.column("loo"), rtol=tol)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "kfold"])  # folds of repeated rows are others
def test_sample_weights_are_repetitions(rule, rng):
    G, y = rng.normal(size=(25, 10)), rng.normal(size=25)
    y = classes(y) if rule == "loo_error" else y
    counts = rng.integers(0, 4, size=25)
    weighted = forward_path(G, y, rule=rule, alpha=0.1, max_terms=5, sample_weight=counts, precompute=True)
    sparse = forward_path(sp.csr_array(G), y, rule=rule, alpha=0.1, max_terms=5, sample_weight=counts, precompute=True)
    assert sparse.terms.tolist() == weighted.terms.tolist()
    repeated = forward_path(*oracles.repeat(counts, G, y), rule=rule, alpha=0.1, max_terms=5)
    assert weighted.terms.tolist() == repeated.terms.tolist()
    for name in ("sse", "cost", "dof", "loo", "loo_se", "gcv", "bic", "reduction"):
        np.testing.assert_allclose(weighted.column(name), repeated.column(name), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(weighted.coef(5)[0], repeated.coef(5)[0], rtol=1e-8)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(8, 40), p=st.integers(9, 60), seed=st.integers(0, 10_000), uneven=st.booleans(), noise=st.booleans()
)
def test_the_cascade_is_exact_and_verifies_few(n, p, seed, uneven, noise):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, p))
    if uneven:
        G *= 10 ** rng.uniform(-1, 1, size=(n, 1))
    y = rng.normal(size=n) + (0 if noise else 3 * G[:, 4])
    path = forward_path(G, y, rule="loo", max_terms=5)
    assert path.terms.tolist() == oracles.forward(G, y, "loo", 1e-6, 5)
    assert np.all(path.column("verified")[1:] >= 1)


def test_bounds_hold(rng, monkeypatch):
    """Nothing below its bound: every candidate verified, its error is at least what both bounds promised."""
    seen = []
    original = cascade.verified_errors

    def spy(state, few):
        errors = original(state, few)
        bounds = cascade.LooBounds(state)
        loose = bounds.values[few.numbers]
        bounds.tighten(np.inf, 0)
        seen.append(np.column_stack([loose, bounds.values[few.numbers], errors]))
        return errors

    monkeypatch.setattr(cascade, "verified_errors", spy)
    for alpha in (0.0, 1e-6, 2.0):
        for penalty in ("weights", "orthogonal"):
            G = rng.normal(size=(40, 30)) * 10 ** rng.uniform(-1, 1, size=(40, 1))
            forward_path(G, rng.normal(size=(40, 2)), alpha=alpha, penalty=penalty, max_terms=8)
    loose, tight, errors = np.vstack(seen).T
    assert len(errors) > 100
    assert np.all(loose <= tight * (1 + 1e-9))
    assert np.all(tight <= errors * (1 + 1e-9))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 2.0])
def test_the_leverage_bound_holds_and_keeps_the_choice(weighted, sparse, alpha, monkeypatch):
    """It is never more than what a candidate's own leverage adds, computed as early as possible."""
    rule = LooRule(CascadeOptions(many_survivors=0, squares_interval=3))
    rng = np.random.default_rng(2)
    G = rng.normal(size=(300, 60)) + 0.5
    G[rng.random(size=G.shape) < 0.3] = 0
    Y = rng.normal(size=(300, 2))
    counts = rng.integers(1, 4, size=300) if weighted else None
    positive = []
    original = cascade.LooRule._leverage_bounds

    def spy(self, state):
        extra = original(self, state)
        extra = np.zeros(len(state.s)) if extra is None else extra
        few, _ = state.fetch_candidates(np.flatnonzero(state.eligible)[:12])
        beta, den = few.c / (state.alpha + few.s), state.alpha + few.s
        blocks = [block.copy() for block in state.rows.blocks]
        errors = sum(cascade.verify(block, few.numbers, few.T, beta, den).values[0] for block in blocks)
        V = np.vstack([block.columns(few.numbers) - block.Z @ few.T for block in blocks])
        w = np.concatenate([block.gap**-2 for block in blocks])
        r = np.vstack([block.r for block in blocks])
        first = [np.sum(w[:, None] * (r - np.outer(V[:, i], beta[:, i])) ** 2) for i in range(12)]
        assert np.all(first + extra[few.numbers] <= errors * (1 + 1e-9))
        positive.append(extra[few.numbers].min() > 0)
        return extra

    options = {"rule": rule, "alpha": alpha, "max_terms": 10, "sample_weight": counts}
    plain = forward_path(G, Y, **options)
    monkeypatch.setattr(cascade.LooRule, "_leverage_bounds", spy)
    path = forward_path(sp.csr_array(G) if sparse else G, Y, **options, block_rows=None if sparse else 120)
    assert path.terms.tolist() == plain.terms.tolist()
    assert np.any(positive)


def test_cached_directions_are_right_after_eviction(rng):
    G, y = rng.normal(size=(60, 80)), rng.normal(size=60)
    path = forward_path(G, y, max_terms=12, alpha=0.1, rule=LooRule(CascadeOptions(cache_slots=(9, 9))))
    assert path.terms.tolist() == oracles.forward(G, y, "loo", 0.1, 12)


def test_include_comes_first(rng):
    G, y = rng.normal(size=(30, 8)), rng.normal(size=30)
    path = forward_path(G, y, include=[5, 2], max_terms=4)
    assert path.terms[:2].tolist() == [5, 2]
    assert len(path) == 4
    short = forward_path(G, y, include=[5, 2], max_terms=1)
    assert (short.terms.tolist(), short.stop_reason) == ([5, 2], "max_terms=1 reached")
    stopped = forward_path(G, y, include=[5, 2], callback=lambda path: len(path) == 1)
    assert (stopped.terms.tolist(), stopped.stop_reason) == ([5, 2], "stopped by a callback")
    assert len(forward_path(G[:5], y[:5], include=range(8))) == 4


def test_precompute_of_numpy(rng):
    G, y = rng.normal(size=(30, 8)), rng.normal(size=30)
    expected = forward_path(G, y).terms.tolist()
    for precompute in (np.True_, np.False_, np.int64(2), np.str_("auto")):
        assert forward_path(G, y, precompute=precompute).terms.tolist() == expected


def test_endings(rng):
    G, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    assert forward_path(G, y, max_terms=2).stop_reason == "max_terms=2 reached"
    assert forward_path(G, y).stop_reason == "as many terms as the data can determine"
    G[:, 3] = G[:, 0] + G[:, 1]
    assert "combination of the chosen ones" in forward_path(G, y).stop_reason
    assert len(forward_path(G, y)) == 3
    assert forward_path(np.ones((10, 3)), np.arange(10.0)).terms.tolist() == []
    assert forward_path(G, y, callback=lambda path: len(path) == 1).stop_reason == "stopped by a callback"
    assert forward_path(G, y, max_seconds=1e-9).stop_reason == "max_seconds=1e-09 are over"
    assert forward_path(G, y, rule="d_optimal", beta=1e6).stop_reason != ""
    many = rng.normal(size=(100, 60))
    patient = forward_path(many, many[:, 3] + 0.1 * rng.normal(size=100), criterion="tcr", patience=4)
    assert patient.stop_reason == "the choice of 'tcr' has not changed for 4 terms"
    assert len(patient) < 20


def test_d_optimal_stops_by_itself():
    rng = np.random.default_rng(1)
    G = rng.normal(size=(50, 30)) / 50
    y = G[:, 0] + 0.01 * rng.normal(size=50)
    path = forward_path(G, y, rule="d_optimal", beta=1e-3, alpha=0)
    assert path.stop_reason == "no candidate has a positive score"
    assert 1 <= len(path) < 30


def test_sizes_by_hand(rng):
    G, y = rng.normal(size=(60, 20)), rng.normal(size=60)
    y += 2 * G[:, 0] + 0.5 * G[:, 1]
    path = forward_path(G, y, max_terms=15, criterion="tcr")
    loo, se = path.column("loo"), path.column("loo_se")
    best = int(np.argmin(loo))
    assert path.choose("loo") == best
    assert path.choose("one_se") == int(np.flatnonzero(loo <= loo[best] + se[best])[0])
    sigma2 = loo[best]
    significant = [k for k in range(1, best + 1) if path.steps[k].reduction >= 2 * sigma2 * np.log(20 - k + 1)]
    assert path.choose("tcr_paper") == max(significant, default=0)
    size = 0
    while ahead := [
        k for k in range(size + 1, min(size + 10, 15) + 1) if path.steps[k].reduction >= 2 * loo[size] * np.log(21 - k)
    ]:
        size = max(ahead)
    assert path.choose("tcr_sequential") == size
    assert path.choose(None) == 15
    for name in SIZE_CRITERIA:
        assert 0 <= path.choose(name) <= 15
    assert path.choose("tcr") <= path.choose("loo")
    assert path.choose("tcr_paper") <= path.choose("loo")
    frame = path.to_frame()
    assert list(frame["term"][1:]) == path.terms.tolist()
    assert len(frame) == 16


def test_nothing_significant_leaves_the_mean_or_one_term(rng):
    kept = [forward_path(rng.normal(size=(80, 40)), rng.normal(size=80), max_terms=10).choose("tcr") for _ in range(20)]
    assert np.mean(np.array(kept) == 0) > 0.5
    G, y = rng.normal(size=(80, 40)), rng.normal(size=80)
    assert forward_path(G, y, max_terms=10, fit_intercept=False).choose("tcr") >= 1


@pytest.mark.slow
def test_orr_7_4():
    """50 draws: forward selection by SSE keeps a median of 9 to 13 units by GCV; re-estimation runs to all 50."""
    grid = np.linspace(-10, 10, 300)[:, None]
    truth = np.tanh(grid[:, 0] / 2)
    sizes, plain, regularised = [], [], []
    for seed in range(50):
        X, y = datasets.make_logistic(random_state=seed)
        basis = RadialBasis(width=2.0).fit(X)
        G, new = basis.transform(X), basis.transform(grid)
        path = forward_path(G, y, rule="sse", alpha=0.0, fit_intercept=False)
        again = forward_path(G, y, rule="sse", alpha="reestimate", fit_intercept=False)
        sizes.append(path.choose("gcv"))
        for which, errors in ((path, plain), (again, regularised)):
            k = which.choose("gcv")
            errors.append(np.mean((new[:, which.terms[:k]] @ which.coef(k)[0] - truth) ** 2))
        assert len(again) == 50, again.stop_reason
        assert np.isfinite(again.column("gcv")).all()
    assert 9 <= np.median(sizes) <= 13
    assert np.mean(regularised) < np.mean(plain)


def test_reestimation_applies_orrs_formula_once_a_term(rng):
    G, y = rng.normal(size=(40, 10)), rng.normal(size=40)
    y += G[:, 0]
    path = forward_path(G, y, rule="cost", alpha="reestimate", max_terms=5)
    alphas = path.column("alpha")
    for k in range(1, 6):
        S = path.terms[:k]
        once = reestimate_alpha(G[:, S], y, alphas[k - 1], max_iter=1)
        assert alphas[k] == pytest.approx(once, rel=1e-6)
        ridge = BasisRidge(alpha=alphas[k]).fit(G[:, S], y)
        np.testing.assert_allclose(path.coef(k)[0], ridge.coef_, rtol=1e-7)
        assert path.coef(k)[1] == pytest.approx(ridge.intercept_, rel=1e-7)
        assert path.steps[k].gcv == pytest.approx(ridge.criteria_["gcv"], rel=1e-7)
        assert path.steps[k].loo == pytest.approx(ridge.criteria_["loo"], rel=1e-7)
        assert path.steps[k].dof == pytest.approx(ridge.effective_dof_, rel=1e-7)


def test_statistics_after_a_change_of_penalty_are_those_of_a_fresh_start(rng):
    from termwise.execution.local import LocalBlocks
    from termwise.selection.blocks import RowBlock
    from termwise.selection.engine import Settings
    from termwise.selection.state import State

    G, Y = rng.normal(size=(30, 9)), rng.normal(size=(30, 2))
    states = []
    for alpha in (0.5, 2.0):
        blocks = [RowBlock(G[:11], Y[:11], np.ones(11)), RowBlock(G[11:], Y[11:], np.ones(19))]
        state = State(LocalBlocks(blocks), Settings("cost", alpha, precompute=False))
        for j in (3, 1, 7):
            state.append(j)
        states.append(state)
    changed, fresh = states
    changed.set_alpha(2.0)
    for name in ("c", "s", "vv", "rv", "dof", "cost"):
        np.testing.assert_allclose(getattr(changed, name), getattr(fresh, name), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(np.abs(changed.T), np.abs(fresh.T), atol=1e-9)
    for j in (0, 5):
        changed.append(j)
        fresh.append(j)
    for name in ("c", "s", "vv", "rv", "dof", "cost"):
        np.testing.assert_allclose(getattr(changed, name), getattr(fresh, name), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(changed.training().weights(5)[0], fresh.training().weights(5)[0], rtol=1e-9)


def test_gcv_ends_when_no_degree_of_freedom_is_left():
    """Then it is infinite for every candidate, and none of them is the best."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 7))
        path = forward_path(rng.normal(size=(n, 50)), rng.normal(size=n), alpha=0.0, rule="gcv", fit_intercept=False)
        assert n - 1 <= len(path) <= n


@pytest.mark.parametrize("shape", [(5, 50), (2, 3), (3, 3), (15, 100)])
@pytest.mark.parametrize("penalty", ["weights", "orthogonal"])
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in ("kfold", "loo_error")])
def test_paths_without_a_penalty_end(shape, penalty, rule, rng):
    """The last terms that fit make every leave-one-out error infinite: that is an end, not a search without one."""
    path = forward_path(rng.normal(size=shape), rng.normal(size=shape[0]), alpha=0.0, penalty=penalty, rule=rule)
    assert path.stop_reason
    assert np.isfinite(path.coef(len(path))[0]).all()


def test_reestimation_does_not_mind_the_units(rng):
    G = rng.normal(size=(100, 5))
    y = G[:, 0] + 0.1 * rng.normal(size=100)
    reference = forward_path(G, y, alpha="reestimate")
    for scale in (1e-8, 1e8):
        path = forward_path(G * scale, y, alpha="reestimate")
        assert path.terms.tolist() == reference.terms.tolist()
        np.testing.assert_allclose(path.column("loo"), reference.column("loo"), rtol=1e-6)


def smooth_dictionary(seed):
    """Forty wide Gaussians of one input: ten of them span all others but for 1e-12 of their lengths."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-1, 1, size=40))
    y = np.sin(5 * x) * np.exp(x) + 0.05 * rng.normal(size=40)
    return np.exp(-((x[:, None] - x) ** 2) / 2.3**2), y


@pytest.mark.slow
@pytest.mark.parametrize("block_rows", [None, 9])
@pytest.mark.parametrize("seed", range(3))
def test_smooth_dictionaries_beside_50_digits(seed, block_rows):
    """Without a penalty as far as the terms have residuals that float64 resolves, with one as far as asked."""
    pytest.importorskip("mpmath")
    G, y = smooth_dictionary(seed)
    chosen, shares, errors = oracles.forward_with_50_digits(G, y, 0.0, 9)
    resolved = int(np.argmax(shares < 1e-18))
    assert resolved >= 6
    path = forward_path(G, y, rule="cost", alpha=0.0, block_rows=block_rows)
    assert path.terms[:resolved].tolist() == chosen[:resolved]
    np.testing.assert_allclose(path.column("loo")[: resolved + 1], errors[: resolved + 1], rtol=1e-4)

    chosen, _, errors = oracles.forward_with_50_digits(G, y, 1e-12, 12)
    path = forward_path(G, y, rule="cost", alpha=1e-12, max_terms=12, block_rows=block_rows)
    assert path.terms.tolist() == chosen
    np.testing.assert_allclose(path.column("loo"), errors, rtol=1e-3)


@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1e-9, 1e-6])
@pytest.mark.parametrize("penalty", ["weights", "orthogonal"])
def test_predictions_of_smooth_dictionaries_are_those_of_the_fit(alpha, penalty):
    """Weights of nearly dependent columns are large, but not so large that float64 cannot add up their products."""
    G, y = smooth_dictionary(5)
    path = forward_path(G, y, rule="cost", alpha=alpha, penalty=penalty, max_terms=12)
    k = len(path)
    weights, intercept = path.coef(k)
    residual = y - intercept - G[:, path.terms] @ weights
    assert residual @ residual == pytest.approx(path.column("sse")[k], rel=1e-3)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1e-9, 1e-6])
def test_a_penalty_does_not_admit_copies(alpha, scale, rng):
    """Nor combinations of chosen columns, with whatever is left of them by a small penalty."""
    G = scale * rng.normal(size=(200, 4))
    G = np.hstack([G, G[:, :2], (G[:, 0] + G[:, 1])[:, None], (G[:, 2] - 3 * G[:, 3])[:, None]])
    assert len(forward_path(G, G[:, :4].sum(axis=1) + rng.normal(size=200), alpha=alpha)) == 4


@pytest.mark.parametrize("rule", ["loo", "cost", "gcv"])
def test_exchanges_of_a_smooth_dictionary_end(rule):
    """Scores of candidates with tiny residuals have few digits: differences that rounding makes are no improvement."""
    for seed in range(2):
        G, y = smooth_dictionary(seed)
        path = forward_path(G, y, rule=rule, alpha=0.0, max_terms=8, criterion="loo", refine="swap")
        assert "no other is better" in path.stop_reason
