"""A device that takes terms ahead of the host: the choices, numbers and ends of the path that the host decides."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from termwise import forward_path
from termwise.execution.local import local_blocks
from termwise.selection import run_ahead
from termwise.selection.engine import Settings, grow_path
from termwise.selection.leave_one_out import LooRule
from termwise.selection.rules import ClosedForm, CostRule

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
COLUMNS = ("sse", "cost", "dof", "loo", "loo_se", "gcv", "reduction", "correlation")


def ahead(G, y, there=torch.asarray, steps=3, sample_weight=None, rule="loo", **options):
    """The path of `forward_path` where a device takes `steps` terms between two looks of the host."""
    Y, weights = y.reshape(len(y), -1), np.ones(len(y)) if sample_weight is None else sample_weight
    rows = local_blocks(there(np.array(G)), there(np.array(Y, dtype=float)), weights, None, 8)
    rows.steps_ahead = steps
    options = {"alpha": 1e-6, "precompute": False, **options}
    callback = options.pop("callback", None)
    return grow_path(rows, Settings(rule, **options), y.ndim == 1, callback)


def make(seed, n=200, p=60, outputs=1, signal=8, correlation=0.0):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, p)) * np.sqrt(1 - correlation) + np.sqrt(correlation) * rng.normal(size=(n, 1)) + 0.3
    Y = G[:, :signal] @ rng.normal(size=(signal, outputs)) + rng.normal(size=(n, outputs))
    return G, Y[:, 0] if outputs == 1 else Y


def assert_same(path, expected, rtol=1e-8):
    assert path.terms.tolist() == expected.terms.tolist()
    assert path.stop_reason == expected.stop_reason
    for name in COLUMNS:
        np.testing.assert_allclose(path.column(name), expected.column(name), rtol=rtol, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(
        np.asarray(path.coef(len(path))[0]), expected.coef(len(path))[0], rtol=10 * rtol, atol=10 * rtol
    )


@pytest.fixture(params=[1, 8], ids=["few verified", "more verified"])
def batch(request, monkeypatch):
    """How many candidates a round verifies at least."""
    monkeypatch.setattr(run_ahead, "BATCH", (request.param, 16))
    monkeypatch.setattr(run_ahead, "BATCH_ENTRIES", (1, 1 << 26))


@pytest.fixture
def host_steps(monkeypatch):
    """Steps that the host decided."""
    steps = []
    for rule in (LooRule, ClosedForm):

        def spy(self, state, choose=rule.choose):
            steps.append(state.k)
            return choose(self, state)

        monkeypatch.setattr(rule, "choose", spy)
    return steps


@pytest.mark.parametrize("options", [
    {}, {"precompute": True}, {"alpha": 1.0}, {"alpha": 0.0}, {"penalty": "orthogonal", "alpha": 0.3},
    {"fit_intercept": False}, {"include": [5, 2]}, {"criterion": "tcr", "patience": 3},
    {"criterion": "loo", "patience": 4}, {"sample_weight": np.arange(200) % 3 + 0.5},
], ids=lambda options: ",".join(options))  # fmt: skip
@pytest.mark.parametrize(("outputs", "signal"), [(1, 8), (2, 0)])
def test_a_device_ahead_takes_the_same_path(batch, host_steps, options, outputs, signal):
    G, y = make(0, outputs=outputs, signal=signal, correlation=0.5)
    path = ahead(G, y, max_terms=15, **options)
    assert not host_steps
    assert_same(path, forward_path(G, y, max_terms=15, **options))


@pytest.mark.parametrize("options", [
    {}, {"precompute": True}, {"alpha": 1.0}, {"penalty": "orthogonal", "alpha": 0.3}, {"fit_intercept": False},
    {"criterion": "tcr", "patience": 3}, {"sample_weight": np.arange(200) % 3 + 0.5},
], ids=lambda options: ",".join(options))  # fmt: skip
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("rule", ["cost", "sse", "norm"])
def test_so_it_does_by_rules_that_are_scores(host_steps, rule, outputs, options):
    G, y = make(0, outputs=outputs, correlation=0.5)
    path = ahead(G, y, rule=rule, max_terms=15, **options)
    assert not host_steps
    expected = forward_path(G, y, rule=rule, max_terms=15, **options)
    assert_same(path, expected)
    np.testing.assert_allclose(path.column("score"), expected.column("score"), rtol=1e-8)
    assert not path.column("verified").any()


def test_a_rule_with_a_minimum_is_left_to_the_host(host_steps):
    G, y = make(8)
    path = ahead(G, y, rule=CostRule(minimum=5.0))
    assert host_steps
    assert_same(path, forward_path(G, y, rule=CostRule(minimum=5.0)))


@pytest.mark.parametrize("rule", ["loo", "cost"])
@pytest.mark.parametrize("options", [{}, {"precompute": True, "penalty": "orthogonal", "alpha": 0.3}], ids=str)
def test_any_library_of_the_array_api(options, rule):
    G, y = make(1, n=80, p=30, outputs=2)
    path = ahead(G, y, array_api_strict.asarray, max_terms=9, rule=rule, **options)
    assert_same(path, forward_path(G, y, max_terms=9, rule=rule, **options))


@pytest.mark.parametrize("precompute", [False, True])
def test_float32_chooses_as_float64(batch, host_steps, precompute):
    """Beyond the signal, where the rounding of the statistics is widest beside what a term changes."""
    G, y = (x.astype(np.float32) for x in make(2, n=3000, p=80, signal=5))
    path = ahead(G, y, max_terms=20, precompute=precompute)
    assert not host_steps
    expected = forward_path(G.astype(float), y.astype(float), max_terms=20)
    assert path.terms.tolist() == expected.terms.tolist()
    np.testing.assert_allclose(path.column("loo"), expected.column("loo"), rtol=1e-12 if precompute else 1e-7)


@pytest.mark.parametrize("entries", [0, 1 << 22], ids=["when it is needed", "from the start"])
@pytest.mark.parametrize("rule", ["loo", "cost"])
@pytest.mark.parametrize("precompute", [False, True])
def test_nearly_dependent_columns_are_orthogonalised_twice(batch, monkeypatch, precompute, rule, entries):
    """Gaussians much wider than their distances, whose columns leave little of each other."""
    monkeypatch.setattr(run_ahead, "TWICE_ENTRIES", entries)
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(300, 2))
    G = np.exp(-((X[:, None, :] - X[:60]) ** 2).sum(axis=2))
    y = np.sin(5 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=300)
    path = ahead(G, y, max_terms=12, precompute=precompute, rule=rule)
    assert_same(path, forward_path(G, y, max_terms=12, rule=rule), rtol=1e-5)


@pytest.mark.parametrize("rule", ["loo", "cost"])
def test_the_host_decides_what_a_round_cannot(batch, host_steps, rule):
    """Copies of columns, a sample with leverage 1, and the end of the candidates."""
    G, y = make(4, n=60, p=10)
    single = np.zeros((60, 1))
    single[7] = 1
    G = np.hstack([G, G[:, ::-1], G[:, :3] + G[:, 3:6], single])
    path = ahead(G, y, rule=rule)
    assert host_steps
    assert_same(path, forward_path(G, y, rule=rule))


def test_more_terms_than_there_is_room_for_at_first(host_steps):
    G, y = make(5, n=200, p=90)
    path = ahead(G, y, max_terms=75)
    assert not host_steps
    assert_same(path, forward_path(G, y, max_terms=75))


@pytest.mark.parametrize("steps", [1, 2, 7, 50])
def test_the_path_does_not_depend_on_how_far_a_device_is_ahead(steps):
    """Nor does what a callback sees, nor where it stops the path."""
    G, y = make(6)
    seen = {"host": [], "device": []}

    def stop(name):
        def callback(path):
            seen[name].append((path.terms.tolist(), path.steps[-1].loo))
            return len(path) == 11

        return callback

    path = ahead(G, y, steps=steps, max_terms=30, callback=stop("device"))
    assert_same(path, forward_path(G, y, max_terms=30, callback=stop("host")))
    for ours, theirs in zip(seen["device"], seen["host"], strict=True):
        assert ours[0] == theirs[0]
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-9)
