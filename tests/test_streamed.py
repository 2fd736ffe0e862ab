"""Dictionaries that are never stored give the choices of stored ones; everything asked of G has one meaning."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import termwise._arrays
import termwise._memory
import termwise.design.computed
from termwise import ForwardClassifier, ForwardRegressor, RadialBasis, forward_path, memory_budget, open_rows
from termwise.basis import KERNELS
from termwise.design import Dense, Sparse
from termwise.design.file_blocks import BlockReader, FileBlock
from termwise.selection import RULES

# -- the contract of a design ------------------------------------------------------------------------------------------


def radial(rng, **parameters):
    X = rng.normal(size=(31, 2))
    basis = RadialBasis(**parameters).fit(X)
    return basis.design(X), basis.transform(X)


def dense(rng, tmp_path):
    G = rng.normal(size=(31, 12)) + 0.5
    return Dense(G), G


def short(rng, tmp_path):
    G = rng.normal(size=(31, 12)).astype(np.float32)
    return Dense(G), G


def sparse(rng, tmp_path):
    G = rng.normal(size=(31, 12)) * (rng.random(size=(31, 12)) < 0.4)
    return Sparse(sp.csc_array(G)), G


def on_samples(rng, tmp_path):
    return radial(rng, width=1.3)


def on_points(rng, tmp_path):
    return radial(rng, kernel="multiquadric", width=[0.7, 2.0], centers=rng.normal(size=(9, 2)))


def far_away(rng, tmp_path):
    return radial(rng, width=1e-5)


def some_rows(rng, tmp_path):
    design, G = radial(rng, width=1.3)
    return design[4:20], G[4:20]


def masked_rows(rng, tmp_path):
    design, G = radial(rng, width=1.3)
    mask = rng.random(31) < 0.5
    return design[mask], G[mask]


def in_a_file(rng, tmp_path):
    G = rng.normal(size=(31, 12))
    np.save(tmp_path / "G.npy", G)
    return FileBlock(BlockReader(open_rows(tmp_path / "G.npy"), 4), 0), G


DESIGNS = [dense, short, sparse, on_samples, on_points, far_away, some_rows, masked_rows, in_a_file]


@pytest.fixture(params=[1, 3], ids=["one_thread", "three_threads"])
def tiles(request, monkeypatch):
    """Tiles so small that there are many of them."""
    monkeypatch.setattr(termwise.design.computed, "TILE_SIDE", 8)
    monkeypatch.setattr(termwise.design.computed, "blas_threads", lambda: request.param)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", DESIGNS)
def test_designs_equal_the_matrix(make, weighted, rng, tmp_path, tiles):
    design, G = make(rng, tmp_path)
    G, (n, p) = G.astype(np.float64), G.shape
    tol = {"rtol": 1e-10, "atol": 1e-10} if design.dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-4}
    given = rng.integers(1, 4, size=n).astype(float) if weighted else None
    w, means = np.ones(n) if given is None else given, rng.normal(size=p)
    u, several = rng.normal(size=n), rng.normal(size=(n, 3))
    assert design.shape == (n, p)
    assert design.nbytes > 0
    np.testing.assert_allclose(design.products(u), G.T @ u, **tol)
    np.testing.assert_allclose(design.products(several), G.T @ several, **tol)
    np.testing.assert_allclose(design.power_sums(2, given), w @ G**2, **tol)
    np.testing.assert_allclose(design.power_sums(2, given, means), w @ (G - means) ** 2, **tol)
    assert np.all(design.power_sums(4, given, means) >= w**2 @ (G - means) ** 4 * (1 - 1e-5))
    np.testing.assert_allclose(design.power_sums(4, given), w**2 @ G**4, **tol)
    np.testing.assert_allclose(design.gram(given), G.T @ (w[:, None] * G), **tol)
    for chosen in (np.array([5, 0, 3]), slice(2, 6), np.array([7])):
        for rows in (slice(None), slice(3, 9), np.array([8, 1, 4])):
            found = design.columns(chosen, rows)
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, G[rows][:, chosen], **tol)


@pytest.mark.parametrize("kernel", KERNELS)
def test_tiles_in_float32_are_as_good_as_the_stored_matrix(kernel, rng, tiles):
    X = rng.normal(size=(40, 3)).astype(np.float32)
    basis = RadialBasis(kernel, width=2.0).fit(X)
    exact = RadialBasis(kernel, width=2.0).fit(X.astype(float)).transform(X.astype(float))
    assert basis.transform(X).dtype == np.float32
    np.testing.assert_allclose(basis.design(X).products(np.eye(40)), exact, rtol=3e-7, atol=3e-8)


@pytest.mark.parametrize("width", [1.5, [0.5, 1.0, 2.0], np.eye(3) + 0.5])
@pytest.mark.parametrize("kernel", KERNELS)
def test_tiles_of_another_array_library(kernel, width, rng):
    torch = pytest.importorskip("torch")
    X = rng.normal(size=(20, 3))
    basis = RadialBasis(kernel, width=width, centers=X[:7]).fit(X)
    design, G, u, means = basis.design(torch.asarray(X)), basis.transform(X), rng.normal(size=20), rng.normal(size=7)
    np.testing.assert_allclose(design.products(torch.asarray(u)).numpy(), G.T @ u, rtol=1e-10)
    np.testing.assert_allclose(design.power_sums(2).numpy(), np.sum(G**2, axis=0), rtol=1e-10)
    np.testing.assert_allclose(
        design.power_sums(2, torch.asarray(u**2), torch.asarray(means)).numpy(), u**2 @ (G - means) ** 2, rtol=1e-10
    )
    np.testing.assert_allclose(design.columns(np.array([4, 1]), slice(2, 9)).numpy(), G[2:9][:, [4, 1]], rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rule", ["cost", "loo"])
def test_paths_on_another_array_library(rule, dtype, rng):
    torch = pytest.importorskip("torch")
    X, Y = problem(rng)
    X = X.astype(dtype)
    basis = RadialBasis(width=0.6, centers=X[:50]).fit(X)
    stored = forward_path(basis.transform(X), Y, rule=rule, max_terms=6)
    for y in (Y, torch.asarray(Y)):
        streamed = forward_path(basis.design(torch.asarray(X)), y, rule=rule, max_terms=6)
        assert streamed.terms.tolist() == stored.terms.tolist()


@pytest.mark.parametrize("weighted", [False, True])
def test_estimators_stream_on_another_array_library(weighted, rng):
    torch = pytest.importorskip("torch")
    X, Y = problem(rng)
    weights = rng.integers(0, 3, size=90) if weighted else None
    stored, streamed = (
        ForwardRegressor(RadialBasis(width=0.6, store=store), max_terms=6).fit(A, B, sample_weight=weights)
        for store, A, B in ((True, X, Y), (False, torch.asarray(X), torch.asarray(Y)))
    )
    assert streamed.support_.tolist() == stored.support_.tolist()
    np.testing.assert_allclose(streamed.predict(torch.asarray(X)).numpy(), stored.predict(X), rtol=1e-6)


def test_budget_is_that_of_the_device(monkeypatch):
    torch = pytest.importorskip("torch")
    assert termwise._arrays.free_on_device(torch.ones(2)) is None
    assert termwise._memory.budget(torch.ones(2)) > 0
    monkeypatch.setattr(termwise._memory, "free_on_device", lambda like: 1000)
    assert termwise._memory.budget(torch.ones(2)) == 500
    with memory_budget(77):
        assert termwise._memory.budget(torch.ones(2)) == 77


def test_threads_are_those_of_blas(rng):
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2, "blas"):
        assert termwise.design.computed.blas_threads() == 2
    with threadpool_limits(1, "blas"):
        assert termwise.design.computed.blas_threads() == 1


# -- choices -----------------------------------------------------------------------------------------------------------


def problem(rng, n=90):
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, np.column_stack([np.sin(3 * X[:, 0]) + X[:, 1] ** 2, X[:, 0] * X[:, 1]]) + 0.1 * rng.normal(size=(n, 2))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rule", RULES)
def test_streamed_choices_are_the_stored_ones(rule, dtype, weighted, rng, tiles):
    X, Y = problem(rng)
    X, Y = X.astype(dtype), np.sign(Y[:, :1]) if rule == "loo_error" else Y
    basis = RadialBasis(width=0.6).fit(X)
    options = {"rule": rule, "max_terms": 6, "sample_weight": rng.integers(0, 3, size=90) if weighted else None}
    stored, streamed = forward_path(basis.transform(X), Y, **options), forward_path(basis.design(X), Y, **options)
    assert streamed.terms.tolist() == stored.terms.tolist()
    tol = 1e-8 if dtype == np.float64 else 1e-3
    for name in ("sse", "loo", "dof"):
        np.testing.assert_allclose(streamed.column(name), stored.column(name), rtol=tol)


@pytest.mark.parametrize(
    "options", [{"precompute": True}, {"block_rows": 13}, {"alpha": "reestimate"}, {"refine": "swap"}]
)
def test_streamed_choices_whatever_the_way(options, rng, tiles):
    X, Y = problem(rng)
    basis = RadialBasis(width=0.6).fit(X)
    stored, streamed = (forward_path(G, Y, max_terms=6, **options) for G in (basis.transform(X), basis.design(X)))
    assert streamed.terms.tolist() == stored.terms.tolist()


def test_ill_conditioned_dictionaries(rng, tiles):
    """Functions so wide that the columns are nearly alike: as good a model, if not the very same columns."""
    X, Y = problem(rng)
    basis = RadialBasis(width=30.0).fit(X)
    stored, streamed = (
        forward_path(G, Y[:, 0], rule="cost", max_terms=8) for G in (basis.transform(X), basis.design(X))
    )
    assert streamed.terms[:3].tolist() == stored.terms[:3].tolist()
    np.testing.assert_allclose(streamed.column("cost"), stored.column("cost"), rtol=1e-4)


# -- estimators --------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_matrix(monkeypatch):
    """Fail where the whole matrix of training samples is computed."""
    evaluate = RadialBasis.evaluate

    def guarded(self, X):
        assert len(X) * len(self.centers_) < 90 * 90, "stored after all"
        return evaluate(self, X)

    monkeypatch.setattr(RadialBasis, "evaluate", guarded)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_estimators_stream_what_does_not_fit(scaled, weighted, rng, no_matrix):
    X, Y = problem(rng)
    weights = rng.integers(0, 3, size=90) if weighted else None
    basis = RadialBasis(width=0.8)
    model = ForwardRegressor(make_pipeline(StandardScaler(), basis) if scaled else basis, max_terms=8)
    with memory_budget(1000):
        streamed = copy.copy(model.fit(X, Y, sample_weight=weights))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RadialBasis, "evaluate", lambda self, X: self.design(X).columns(slice(None)))
        stored = model.fit(X, Y, sample_weight=weights)
    assert streamed.support_.tolist() == stored.support_.tolist()
    np.testing.assert_allclose(streamed.predict(X[:20]), stored.predict(X[:20]), rtol=1e-6)
    np.testing.assert_allclose(streamed.loo_residuals_, stored.loo_residuals_, atol=1e-7)
    assert streamed.summary().splitlines()[0] == stored.summary().splitlines()[0]


def test_streaming_can_be_forced(rng, no_matrix):
    X, Y = problem(rng)
    assert ForwardRegressor(RadialBasis(store=False), max_terms=3).fit(X, Y).n_terms_ > 0
    with memory_budget(1000), pytest.raises(AssertionError, match="stored after all"):
        ForwardRegressor(RadialBasis(store=True), max_terms=3).fit(X, Y)


def test_classifiers_stream(rng):
    X, Y = problem(rng)
    stored, streamed = (
        ForwardClassifier(RadialBasis(width=0.8, store=store), max_terms=6).fit(X, Y[:, 0] > 0.3)
        for store in (True, False)
    )
    assert streamed.support_.tolist() == stored.support_.tolist()


def test_a_fit_that_fails_leaves_the_model_as_it_was(rng):
    X, Y = problem(rng)
    model = ForwardRegressor(RadialBasis(store=False), max_terms=3).fit(X, Y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(np.where(X > 0.9, np.nan, X), Y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_one_sample_is_too_few_here_too(rng):
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        ForwardRegressor(RadialBasis(store=False)).fit(np.ones((1, 2)), [1.0])


# -- the budget --------------------------------------------------------------------------------------------------------


def test_budget_is_half_of_what_is_free(monkeypatch):
    files = {
        "/proc/meminfo": ["MemTotal: 100 kB", "MemAvailable: 80 kB"],
        "/sys/fs/cgroup/memory.max": ["70000"],
        "/sys/fs/cgroup/memory.current": ["50000"],
        "/sys/fs/cgroup/memory.stat": ["anon 20000", "file 30000", "file_mapped 5"],
        "/proc/self/statm": ["1000 10 10"],
    }
    monkeypatch.setattr(termwise._memory, "_lines", lambda path: files.get(path, []))
    assert termwise._memory.budget() == 25_000
    files["/sys/fs/cgroup/memory.max"] = ["max"]
    assert termwise._memory.budget() == 40 * 1024
    files["/proc/meminfo"] = []
    assert termwise._memory._machine() > 1e8  # of the whole machine
    with memory_budget(123), memory_budget(77):
        assert termwise._memory.budget() == 77


def test_budget_heeds_the_limit_of_the_process(monkeypatch):
    resource = pytest.importorskip("resource")
    used = int(termwise._memory._lines("/proc/self/statm")[0].split()[0]) * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (used + 1000, used + 1000))
    assert termwise._memory._process() <= 1000
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    assert termwise._memory._process() > 1e12
    assert termwise._memory._lines("/no/such/file") == []
