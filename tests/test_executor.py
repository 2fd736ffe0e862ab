"""Any executor will do: blocks that are pure values, many of them, give the same paths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from termwise import forward_path
from termwise.execution.local import LocalBlocks, local_blocks
from termwise.selection.engine import Settings, grow_on
from termwise.selection.path import ModelRows
from termwise.selection.settings import RULES


class ForkedBlocks(LocalBlocks):
    """Blocks as values: what changes a block yields another one, twice over, as if the first had been lost."""

    def __init__(self, blocks):
        super().__init__(blocks)
        self.questions = 0

    def step(self, i, function, args):
        self.questions += i == 0
        before, after = self.blocks[i], self.blocks[i].fork()
        function(after, *args)
        again = before.fork()
        answer = function(again, *args)
        if getattr(function, "changes", False):
            self.blocks[i] = again
        return answer

    def each(self, function, *args):
        return [self.step(i, function, args) for i in range(len(self.blocks))]

    def deal(self, function, parts, *args):
        answers = [self.step(i, function, (part, *args)) for i, part in enumerate(parts)]
        return sum(answers[1:], start=answers[0])

    def model_rows(self):
        return None


def forked(G, Y, counts, rows=17):
    return ForkedBlocks(list(local_blocks(G, Y, counts, rows, 3).blocks))


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
    path = grow_on(forked(G, Y, counts), settings, one_output=False)
    assert path.terms.tolist() == expected.terms.tolist()
    assert path.stop_reason == expected.stop_reason
    for name in ("sse", "cost", "dof", "loo", "loo_se", "gcv"):
        np.testing.assert_allclose(path.column(name), expected.column(name), rtol=1e-9, atol=1e-10)
    for k in range(len(path) + 1):  # from the factors alone
        np.testing.assert_allclose(path.coef(k)[0], expected.coef(k)[0], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(path.coef(k)[1], expected.coef(k)[1], rtol=1e-8, atol=1e-10)


def test_a_term_takes_one_question_or_two(rng):
    """Append and verify: the statistics have all digits while columns have little in common."""
    G, y = rng.normal(size=(200, 20)), rng.normal(size=(200, 1))
    y += 3 * G[:, :10] @ np.arange(1, 11.0)[:, None]
    asked = []
    for rule in ("cost", "loo"):
        for terms in (4, 9):
            blocks = forked(G, y, np.ones(200))
            grow_on(blocks, Settings(rule, 1e-6, max_terms=terms, precompute=False), one_output=True)
            asked.append(blocks.questions)
    assert asked[1] - asked[0] == 5
    assert asked[3] - asked[2] == 10


def test_penalties_that_change_do_not_mislead_the_curvature_bound(rng, monkeypatch):
    """A look at the squares serves several steps, and columns of the model may be replaced in the meantime."""
    from termwise.selection import leave_one_out

    monkeypatch.setattr(leave_one_out, "CROWD", 0)
    monkeypatch.setattr(leave_one_out, "FRESH", 4)
    G, y = rng.normal(size=(300, 60)), rng.normal(size=300)
    with_looks = forward_path(G, y, alpha="reestimate", max_terms=12)
    monkeypatch.setattr(leave_one_out, "CROWD", 10_000)
    assert with_looks.terms.tolist() == forward_path(G, y, alpha="reestimate", max_terms=12).terms.tolist()


def test_rows_of_the_model_are_those_of_all_blocks(rng):
    G, Y = rng.normal(size=(40, 6)), rng.normal(size=(40, 2))
    settings = Settings("cost", 0.1, max_terms=3, precompute=False)
    whole, cut = (grow_on(local_blocks(G, Y, np.ones(40), rows, 8), settings, False) for rows in (None, 11))
    a, b = whole.training(), cut.training()
    assert isinstance(b.rows, ModelRows)
    for name in ("Z", "Y", "counts", "R", "zy", "G_mean", "Y_mean"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-12)
    np.testing.assert_allclose(b.columns(2), (G - G.mean(axis=0))[:, cut.terms[:2]], atol=1e-12)
    assert replace(b, rows=None).weights(2)[0] == pytest.approx(b.weights(2)[0])
