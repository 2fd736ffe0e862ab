"""Paths of several problems at once, and the automatic regressor on a device."""

import numpy as np
import pytest

from termwise import TermwiseRegressor, memory_budget
from termwise._arrays import to_host
from termwise.recipe.device import batched_paths
from termwise.selection.nested import nested_path


def problems(rng, q):
    """Gaussian dictionaries of different sizes, with an equal and a constant column, weights and q targets."""
    for n, p in ((60, 25), (48, 30), (70, 12)):
        X = rng.uniform(size=(n, 3))
        G = np.exp(-2 * np.square(X[:, None] - X[None, :p]).sum(axis=2))
        G[:, 3], G[:, 5] = G[:, 7], 1.0
        Y = np.column_stack([np.sin(4 * X[:, 0]) * X[:, 1], X[:, 2] ** 2])[:, :q] + 0.1 * rng.normal(size=(n, q))
        yield G, Y, rng.integers(1, 4, size=n).astype(float)


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("q", [1, 2])
def test_paths_are_those_of_each_problem(rng, library, q):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    designs, targets, weights = zip(*problems(rng, q), strict=True)
    found = batched_paths([xp.asarray(G) for G in designs], targets, weights, 1e-6, 20)
    for models, G, Y, weight in zip(found, designs, targets, weights, strict=True):
        expected = nested_path(G, Y, weight, 1e-6, 20)
        np.testing.assert_array_equal(models.terms, expected.terms)
        for one, other in zip(models.weights(5), expected.weights(5), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-9)
        np.testing.assert_allclose(
            models.fitted(9, np.sqrt(weight)[:, None]), expected.fitted(9, np.sqrt(weight)[:, None])
        )


def test_paths_end_where_candidates_do(rng):
    """A problem of which nothing is left does not hold up, or change, the others."""
    G, y = rng.normal(size=(30, 4)), rng.normal(size=(30, 1))
    few, many = np.repeat(G[:, :1], 2, axis=1), np.hstack([G, rng.normal(size=(30, 4))])
    found = batched_paths([few, many, np.ones((30, 1))], [y] * 3, [np.ones(30)] * 3, 1e-6, 6)
    assert [len(models.terms) for models in found] == [1, 6, 0]
    expected = nested_path(many, y, np.ones(30), 1e-6, 6)
    np.testing.assert_array_equal(found[1].terms, expected.terms)


@pytest.mark.slow
@pytest.mark.parametrize("max_terms", [1, 2])
def test_shortest_paths_on_a_device(rng, max_terms):
    """There is nothing to continue where the first paths have all terms."""
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    X = rng.uniform(size=(1250, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=len(X))
    model = TermwiseRegressor(dictionary="additive", target="data", max_terms=max_terms)
    found = model.fit(*(xp.asarray(values, device=xp.Device("device1")) for values in (X, y))).n_terms_
    assert found == model.fit(X, y).n_terms_


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1e10, 1e4])  # on the device, and on the host where its memory is too small
@pytest.mark.parametrize("dictionary", ["linear", "additive", "pairs", "smooth", "relevant"])
def test_automatic_regressor_on_a_device(rng, dictionary, budget):
    """With more than 1,200 rows on a device the paths are computed there; the model is that of the host."""
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    X = rng.uniform(size=(1250, 3))
    y = np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=len(X))
    on_device = [xp.asarray(values, device=xp.Device("device1")) for values in (X, y)]
    with memory_budget(budget):
        model, expected = (
            TermwiseRegressor(dictionary=dictionary, target="data", max_terms=25).fit(*data)
            for data in (on_device, (X, y))
        )
    assert model.n_terms_ == expected.n_terms_
    assert model.cv_error_ == pytest.approx(expected.cv_error_)
    predicted = model.predict(on_device[0])
    assert predicted.device == on_device[0].device
    np.testing.assert_allclose(to_host(predicted), expected.predict(X), atol=1e-6)
