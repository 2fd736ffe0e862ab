"""Any executor will do: blocks that are pure values, many of them, give the same paths."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import array_api_strict
import numpy as np
import pytest

from termwise import forward_path
from termwise.execution.cuda_graphs import CudaGraphs
from termwise.execution.local import LocalBlocks, local_blocks
from termwise.selection import RULES
from termwise.selection.blocks import Launcher, RowBlock
from termwise.selection.engine import Settings, grow_path
from termwise.selection.leave_one_out import CascadeOptions, LooRule
from termwise.selection.path import ModelRows


class ImmutableBlocks(LocalBlocks):
    """Blocks as values: what changes a block yields another one, twice over, as if the first had been lost."""

    def __init__(self, *args):
        super().__init__(*args)
        self.calls = 0

    def step(self, i, function, args):
        self.calls += i == 0
        before, after = self.blocks[i], self.blocks[i].copy()
        function(after, *args)
        again = before.copy()
        result = function(again, *args)
        if getattr(function, "mutates", False):
            self.blocks[i] = again
        return result

    def map(self, function, *args, parts=None):
        parts = [()] * len(self.blocks) if parts is None else [(part,) for part in parts]
        return [self.step(i, function, (*part, *args)) for i, part in enumerate(parts)]

    def reduce(self, function, *args, parts=None):
        return reduce(add, self.map(function, *args, parts=parts))

    def model_rows(self):
        return None


def immutable(G, Y, counts, rows=17):
    return ImmutableBlocks(list(local_blocks(G, Y, counts, rows, 3).blocks))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1e-6, "reestimate"])
@pytest.mark.parametrize("rule", RULES)
def test_blocks_as_values_give_the_same_path(rule, alpha, weighted, rng):
    G = rng.normal(size=(60, 25)) + 0.3
    Y = G[:, [3]] - G[:, [7]] + rng.normal(size=(60, 1))
    Y = np.sign(Y) if rule == "loo_error" else np.hstack([Y, rng.normal(size=(60, 1))])
    counts = rng.integers(1, 4, size=60).astype(float) if weighted else np.ones(60)
    settings = Settings(rule, alpha, max_terms=8, precompute=False, beta=0.1)
    expected = forward_path(G, Y, rule=rule, alpha=alpha, max_terms=8, beta=0.1, sample_weight=counts)
    path = grow_path(immutable(G, Y, counts), settings, one_output=False)
    assert path.terms.tolist() == expected.terms.tolist()
    assert path.stop_reason == expected.stop_reason
    for name in ("sse", "cost", "dof", "loo", "loo_se", "gcv"):
        np.testing.assert_allclose(path.column(name), expected.column(name), rtol=1e-9, atol=1e-10)
    for k in range(len(path) + 1):  # from the factors alone
        np.testing.assert_allclose(path.coef(k)[0], expected.coef(k)[0], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(path.coef(k)[1], expected.coef(k)[1], rtol=1e-8, atol=1e-10)


def test_a_term_takes_one_reduction_or_two(rng):
    """Append and verify: the statistics have all digits while columns have little in common."""
    G, y = rng.normal(size=(200, 20)), rng.normal(size=(200, 1))
    y += 3 * G[:, :10] @ np.arange(1, 11.0)[:, None]
    calls = []
    for rule in ("cost", "loo"):
        for terms in (4, 9):
            blocks = immutable(G, y, np.ones(200))
            grow_path(blocks, Settings(rule, 1e-6, max_terms=terms, precompute=False), one_output=True)
            calls.append(blocks.calls)
    assert calls[1] - calls[0] == 5
    assert calls[3] - calls[2] == 10


def test_the_leverage_bound_holds_when_the_penalty_changes(rng):
    """A pass over the squares serves several steps, and columns of the model may be replaced in the meantime."""
    G, y = rng.normal(size=(300, 60)), rng.normal(size=300)
    rules = [LooRule(CascadeOptions(many_survivors=count, squares_interval=4)) for count in (0, 10_000)]
    bounded, plain = (forward_path(G, y, rule=rule, alpha="reestimate", max_terms=12) for rule in rules)
    assert bounded.terms.tolist() == plain.terms.tolist()


def test_rows_of_the_model_are_those_of_all_blocks(rng):
    G, Y = rng.normal(size=(40, 6)), rng.normal(size=(40, 2))
    settings = Settings("cost", 0.1, max_terms=3, precompute=False)
    whole, cut = (grow_path(local_blocks(G, Y, np.ones(40), rows, 8), settings, False) for rows in (None, 11))
    a, b = whole.training, cut.training
    assert isinstance(b.rows, ModelRows)
    for name in ("Z", "Y", "sample_weight", "R", "zy", "G_mean", "Y_mean"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-12)
    np.testing.assert_allclose(b.columns(2), (G - G.mean(axis=0))[:, cut.terms[:2]], atol=1e-12)
    assert replace(b, rows=None).weights(2)[0] == pytest.approx(b.weights(2)[0])


class PaddingLauncher(CudaGraphs):
    """Shapes and addresses as CUDA graphs need them, but no capture."""

    launch = Launcher.launch


@pytest.mark.parametrize("options", [{}, {"alpha": "reestimate"}, {"precompute": True}, {"refine": "swap"}], ids=str)
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("rule", ["loo", "cost", "kfold"])
def test_the_padding_of_captured_launches_changes_nothing(rule, blocks, options, rng):
    if "refine" in options and rule == "kfold":
        pytest.skip("tested with the other rules")
    G, Y, weights = rng.normal(size=(90, 40)) + 0.3, rng.normal(size=(90, 2)), rng.integers(1, 4, size=90) * 1.0
    Y += G[:, :2]
    expected = forward_path(G, Y, rule=rule, max_terms=12, sample_weight=weights, **options)
    rows = [
        RowBlock(*(array_api_strict.asarray(A[part]) for A in (G, Y)), weights[part], 5, PaddingLauncher())
        for part in np.array_split(np.arange(90), blocks)
    ]
    settings = Settings(**{"rule": rule, "alpha": 1e-6, "max_terms": 12, "precompute": False} | options)
    path = grow_path(LocalBlocks(rows), settings, one_output=False)
    assert path.terms.tolist() == expected.terms.tolist()
    np.testing.assert_allclose(path.column("loo"), expected.column("loo"), rtol=1e-8)
