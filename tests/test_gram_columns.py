"""Columns of G'G computed in passes for other terms: fewer passes, the same choices."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
import scipy.sparse as sp

import termwise.design.files
from termwise import RadialBasis, forward_path, memory_budget, open_rows
from termwise.design import Dense, as_design
from termwise.design.computed import ProductDesign
from termwise.execution.local import local_blocks
from termwise.selection import RULES
from termwise.selection.blocks import GramCost
from termwise.selection.engine import Settings, grow_path

CONTAINERS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "csc": sp.csc_array,
    "float32": lambda G: G.astype(np.float32),
    "blocks": np.asarray,
}


def correlated(n=150, p=40, seed=0):
    """Autoregressive columns with means, and two outputs."""
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, p))
    for j in range(1, p):
        G[:, j] += 0.8 * G[:, j - 1]
    G += rng.normal(size=p)
    return G, G[:, [3, 9]] @ [[1.0, 0.5], [-1.0, 0.5]] + rng.normal(size=(n, 2))


def gaussians(n, p, width):
    """A nearly singular dictionary."""
    x = np.linspace(-2, 2, n)
    return np.exp(-(((x[:, None] - np.linspace(-2, 2, p)) / width) ** 2)), np.sin(3 * x) + 0.1 * np.cos(40 * x)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("rule", RULES)
def test_choices_do_not_depend_on_the_columns(rule, container, weighted, rng):
    G, Y = correlated()
    Y = np.sign(Y[:, 0] - Y[:, 0].mean()) if rule == "loo_error" else Y
    options = {"rule": rule, "alpha": 1e-3, "max_terms": 10, "beta": 0.1}
    options["sample_weight"] = rng.integers(0, 3, size=len(G)).astype(float) if weighted else None
    options["block_rows"] = 40 if container == "blocks" else None
    G = CONTAINERS[container](G)
    plain = forward_path(G, Y, precompute=False, **options)
    for columns in (1, 7):
        path = forward_path(G, Y, precompute=columns, **options)
        assert path.terms.tolist() == plain.terms.tolist()
        tolerance = 1e-4 if container == "float32" else 1e-9
        np.testing.assert_allclose(path.column("cost"), plain.column("cost"), rtol=tolerance)


@pytest.mark.parametrize("penalty", ["weights", "orthogonal"])
@pytest.mark.parametrize("rule", sorted(set(RULES) - {"loo_error"}))
def test_ill_conditioned_choices_are_those_of_brute_force(rule, penalty):
    """Products from G'G lose digits of columns that nearly depend on the chosen ones: these take a pass."""
    for alpha in (0.0, 1e-6):
        G, y = gaussians(40, 25, 0.7)
        expected = oracles.forward(G, y, rule, alpha, 7, True, penalty)
        for columns in (3, 24):
            path = forward_path(
                G, y, rule=rule, alpha=alpha, penalty=penalty, max_terms=7, precompute=columns, beta=1e-6
            )
            assert path.terms.tolist() == expected


@pytest.mark.parametrize("options", [{"alpha": "reestimate"}, {"refine": "swap"}, {"include": [5, 30]}], ids=str)
def test_columns_serve_every_model(options):
    G, Y = correlated(seed=1)
    paths = [forward_path(G, Y, rule="cost", max_terms=9, precompute=m, **options) for m in (False, 6)]
    assert paths[0].terms.tolist() == paths[1].terms.tolist()
    np.testing.assert_allclose(paths[0].coef(5)[0], paths[1].coef(5)[0], rtol=1e-7)


def counted(G, y, rule, cost=None, **options):
    """Terms of a path and the passes it took."""
    rows = local_blocks(G, y[:, None], np.ones(len(y)), None, 40)
    if cost is not None:
        rows.gram_cost = cost
    path = grow_path(rows, Settings(rule, 1e-6, **options), one_output=True)
    return path.terms.tolist(), rows.passes


def test_independent_columns_take_few_passes(rng):
    """The limits are generous: it is five passes or six."""
    G = rng.normal(size=(2000, 300))
    for y in (rng.normal(size=2000), G[:, :15].sum(axis=1) + rng.normal(size=2000)):
        for rule in ("cost", "loo"):
            terms, passes = counted(G, y, rule, max_terms=30, precompute=False)
            assert passes == 30
            for precompute in ("auto", 15):
                found, fewer = counted(G, y, rule, GramCost(15, 3.0), max_terms=30, precompute=precompute)
                assert found == terms
                assert fewer <= 8


def of_several_inputs(n=1500, p=400, d=8):
    """Gaussians of eight inputs, where a term changes all preferences."""
    X = np.random.default_rng(0).normal(size=(n, d))
    distances = ((X[:, None, :] - X[:p]) ** 2).sum(axis=2)
    return np.exp(-distances / (2 * d)), np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.mark.parametrize("data", [gaussians(1500, 400, 0.05), of_several_inputs()], ids=["one input", "eight inputs"])
def test_columns_cost_hardly_more_than_they_save(data):
    """Whether or not the next terms can be predicted; all of G'G is computed where that is less work."""
    (G, y), passes = data, 4.0
    work = []

    class Counting(Dense):
        def joint_products(self, u, chosen, weights):
            work.append(passes if len(chosen) else 1.0)
            return super().joint_products(u, chosen, weights)

        def gram(self, weights):
            work.append(12.0)
            return super().gram(weights)

        def __getitem__(self, rows):
            return self

    expected = counted(G, y, "cost", max_terms=24, precompute=False)[0]
    for whole in (np.inf, 12.0):
        work.clear()
        terms, _ = counted(Counting(G), y, "cost", GramCost(15, passes, whole), max_terms=24, precompute="auto")
        assert terms == expected
        assert sum(work) <= 24 + 2 * passes


@pytest.mark.slow
def test_few_of_correlated_candidates_are_computed(rng):
    """Candidates in groups have equally good scores, but one of each group is taken: five passes or six."""
    G = rng.normal(size=(21_000, 400))  # large enough for predictions
    for group in range(0, 400, 40):
        G[:, group : group + 40] += 3 * rng.normal(size=(len(G), 1))
    y = G[:, ::40] @ rng.uniform(1, 2, size=10) + 3 * rng.normal(size=len(G))
    for rule in ("cost", "loo"):
        terms, passes = counted(G, y, rule, max_terms=20, precompute=False)
        assert passes == 20
        found, fewer = counted(G, y, rule, GramCost(15, 2.0), max_terms=20, precompute="auto")
        assert found == terms
        assert fewer <= 8


def test_the_oldest_columns_are_overwritten(rng):
    """With memory for eight columns, or for none."""
    G, y = rng.normal(size=(80, 60)), rng.normal(size=80)
    expected = forward_path(G, y, max_terms=30, precompute=False).terms.tolist()
    assert forward_path(G, y, max_terms=30, precompute=1).terms.tolist() == expected
    with memory_budget(1):
        assert forward_path(G, y, max_terms=30, precompute=20).terms.tolist() == expected


@pytest.mark.parametrize("rule", ["cost", "loo"])
def test_few_passes_over_a_file(rule, rng, tmp_path, monkeypatch):
    monkeypatch.setattr(termwise.design.files, "BLOCK_BYTES", 8 * 90 * 300)  # four blocks
    G = rng.normal(size=(1200, 90))
    y = G[:, :10].sum(axis=1) + rng.normal(size=1200)
    np.save(tmp_path / "rows.npy", G)
    passes = {}
    for precompute in (False, 8, "auto"):
        data = open_rows(tmp_path / "rows.npy")
        path = forward_path(data, y, rule=rule, max_terms=24, precompute=precompute)
        assert path.terms.tolist() == forward_path(G, y, rule=rule, max_terms=24, precompute=False).terms.tolist()
        passes[precompute] = data.passes
    assert passes[False] >= 25
    assert passes[8] <= 12
    assert passes["auto"] <= 6


@pytest.mark.parametrize("weighted", [False, True])
def test_designs_compute_columns_in_a_pass(weighted, rng):
    X, u = rng.normal(size=(60, 3)), rng.normal(size=60)
    weights = rng.uniform(1, 2, size=60) if weighted else None
    S = rng.normal(size=(60, 4))
    designs = [
        as_design(S),
        as_design(S.astype(np.float32)),
        as_design(sp.csc_array(S)),
        as_design(S).shifted(np.array([0.0, 2.0, 0.0, 0.0])),
        RadialBasis(width=2.0).fit(X).design(X),
        ProductDesign(S, np.array([0, 0, 1, 3]), np.array([1, 2, 3, 3])),
    ]
    for design in map(as_design, designs):
        G = design.columns(slice(None))
        chosen = np.array([3, 1])
        right = np.column_stack([u, G[:, chosen] * (1 if weights is None else weights[:, None])])
        tolerance = 1e-4 if design.dtype == np.float32 else 1e-10
        np.testing.assert_allclose(design.joint_products(u, chosen, weights), right.T @ G, rtol=0, atol=tolerance)
        np.testing.assert_allclose(design.joint_products(u, chosen[:0], weights)[0], G.T @ u, rtol=0, atol=tolerance)


def test_a_large_matrix_is_read_block_by_block(rng):
    """Sums over blocks, by threads and in float32, are those of the definition."""
    G = rng.normal(1.0, 1.0, size=(4200, 2000)).astype(np.float32)
    y = G[:, 7] - 2 * G[:, 1999] + rng.normal(size=len(G))
    u = np.column_stack([np.ones(len(G)), y])
    squares, products = as_design(G).squares_and_products(None, u)
    wide = G.astype(np.float64)
    np.testing.assert_allclose(squares, (wide**2).sum(axis=0), rtol=1e-6)
    np.testing.assert_allclose(products, wide.T @ u, atol=1e-6 * np.sqrt((wide**2).sum(axis=0).max() * (u**2).sum()))
    np.testing.assert_allclose(as_design(wide).squares_and_products(None, u)[0], (wide**2).sum(axis=0), rtol=1e-12)
    paths = [forward_path(one, y, max_terms=4) for one in (G, wide)]
    assert paths[0].terms.tolist() == paths[1].terms.tolist()
    np.testing.assert_allclose(paths[0].column("loo"), paths[1].column("loo"), rtol=1e-5)


@pytest.mark.slow
def test_copies_are_not_predicted(rng):
    """Exact copies of the columns, no penalty, and more columns than can be predicted."""
    few = rng.normal(size=(35_000, 20))
    G = np.repeat(few, 13, axis=1)
    y = few @ rng.uniform(1, 2, size=20) + rng.normal(size=len(few))
    path = forward_path(G, y, rule="cost", alpha=0, max_terms=30)
    assert len(path) == 20
    assert (
        path.terms.tolist() == forward_path(G, y, rule="cost", alpha=0, max_terms=30, precompute=False).terms.tolist()
    )
