"""On a GPU, with PyTorch and CuPy: the CPU's choices and numbers, and everything stays on the device."""

from __future__ import annotations

import gc
import importlib

import numpy as np
import pytest
from conftest import refuse_large
from test_fusion import arguments, formula

from termwise import (
    BasisRidge,
    ForwardClassifier,
    ForwardRegressor,
    PrefilterClassifier,
    RadialBasis,
    TermwiseRegressor,
    forward_path,
)
from termwise._arrays import to_host
from termwise._fusion import columns_at
from termwise.selection import RULES


@pytest.fixture(params=["torch", "cupy"])
def there(request):
    """Move an array to the GPU."""
    try:
        xp = importlib.import_module(request.param)
    except ImportError:
        pytest.skip(f"{request.param} is not installed")
    if request.param == "torch":
        if not xp.cuda.is_available():
            pytest.skip("PyTorch sees no GPU")
        return lambda x: xp.asarray(np.array(x), device="cuda")
    if not xp.cuda.is_available():
        pytest.skip("CuPy sees no GPU")
    return xp.asarray


def make(seed, n=400, p=60, outputs=1, signal=10):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, p)) + 0.3
    Y = G[:, :signal] @ rng.normal(size=(signal, outputs)) + rng.normal(size=(n, outputs))
    return G, Y[:, 0] if outputs == 1 else Y


def assert_close(foreign, expected, like, rtol=1e-7, atol=1e-9):
    assert type(foreign) is type(like)
    assert str(foreign.device) == str(like.device)
    np.testing.assert_allclose(to_host(foreign), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("every", [1, 4])  # all columns, or some
@pytest.mark.parametrize("options", [{}, {"rule": "cost"}, {"precompute": True}, {"block_rows": 150}], ids=str)
def test_columns_with_large_means(there, dtype, every, options):
    G, y = make(1)
    G[:, ::every] += 1e4 if dtype == np.float32 else 1e6
    G = G.astype(dtype)
    centred = G - G.mean(axis=0, dtype=np.float64)
    expected, path = (forward_path(M, t, max_terms=12, **options) for M, t in ((centred, y), (there(G), there(y))))
    assert path.terms.tolist() == expected.terms.tolist()
    np.testing.assert_allclose(path.column("loo"), expected.column("loo"), rtol=1e-8 if dtype == np.float64 else 1e-3)


@pytest.mark.parametrize("options", [
    {}, {"alpha": "reestimate"}, {"precompute": False}, {"precompute": True}, {"block_rows": 150}, {"refine": "swap"},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("rule", RULES)
def test_paths(there, rule, outputs, options):
    if rule in ("d_optimal", "loo_error", "kfold") and "refine" in options:
        pytest.skip("tested with the other rules")
    G, y = make(0, outputs=outputs)
    y = np.sign(y) if rule == "loo_error" else y
    options = {"rule": rule, "max_terms": 12, "beta": 0.1, **options}
    expected, path = forward_path(G, y, **options), forward_path(there(G), there(y), **options)
    assert path.terms.tolist() == expected.terms.tolist()
    np.testing.assert_allclose(path.column("loo"), expected.column("loo"), rtol=1e-8)
    assert_close(path.coef(len(path))[0], expected.coef(len(path))[0], there(G))


@pytest.mark.parametrize("signal", [10, 1])
def test_long_paths_and_more_than_one_call(there, signal):
    """More terms than there is room for at first, and noise, of which many candidates must be verified."""
    G, y = make(1, n=2000, p=300, signal=signal)
    expected = forward_path(G, y, max_terms=100)
    for _ in range(2):
        path = forward_path(there(G), there(y), max_terms=100)
        assert path.terms.tolist() == expected.terms.tolist()
        np.testing.assert_allclose(path.column("loo"), expected.column("loo"), rtol=1e-8)


@pytest.mark.parametrize("rule", ["loo", "cost"])
def test_graphs_are_freed_with_the_path(rule):
    """At once: a reference cycle would keep them, and gigabytes, until garbage is collected."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    G, y = (torch.asarray(x, device="cuda") for x in make(6))
    gc.collect()
    gc.disable()
    try:
        taken = []
        for _ in range(3):
            forward_path(G, y, rule=rule, max_terms=12)
            taken.append(torch.cuda.memory_allocated())
    finally:
        gc.enable()
    assert taken[1] == taken[2]


def test_float32(there):
    G, y = (x.astype(np.float32) for x in make(2))
    expected, path = forward_path(G, y, max_terms=10), forward_path(there(G), there(y), max_terms=10)
    assert path.terms.tolist() == expected.terms.tolist()
    np.testing.assert_allclose(path.column("loo"), expected.column("loo"), rtol=1e-4)
    assert ForwardRegressor().fit(there(G), there(y)).predict(there(G)).dtype == there(G).dtype


@pytest.mark.parametrize("model", [
    ForwardRegressor(), ForwardRegressor(refit_alpha="loo"), ForwardRegressor(RadialBasis(width=9.0), max_terms=5),
    BasisRidge(), BasisRidge(RadialBasis(width=9.0), alpha=0.1),
], ids=str)  # fmt: skip
def test_regressors(there, model):
    X, y = make(3, n=150, p=6, outputs=2, signal=6)
    weights = np.arange(len(X)) % 3
    expected, std = model.fit(X, y, weights).predict(X, return_std=True)
    ends, summary = model.predict_interval(X, method="jackknife+"), model.summary()
    model.fit(there(X), there(y), there(weights))
    ours = model.predict(there(X), return_std=True)
    ours += model.predict_interval(there(X), method="jackknife+")
    for found, wanted in zip(ours, (expected, std, *ends), strict=True):
        assert_close(found, wanted, there(X), rtol=1e-5, atol=1e-6)
    assert model.summary() == summary
    assert type(model.coef_) is type(there(X))
    assert isinstance(model.predict(X), np.ndarray)


def test_classifiers(there):
    X, y = make(4, n=150, p=6, signal=6)
    labels = (y > 0).astype(np.int64)
    for model in (ForwardClassifier(), PrefilterClassifier()):
        expected = model.fit(X, labels).predict(X)
        assert_close(model.fit(there(X), there(labels)).predict(there(X)), expected, there(X))


def make_labels(n, classes):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 2))
    return X, np.digitize(np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n), [0.0] if classes == 2 else [-1, 1])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", [
    {}, {"fit_intercept": True}, {"basis": RadialBasis(width=1.5)}, {"basis": RadialBasis(width=1.5), "tol": 5e-6},
    {"basis": RadialBasis(width=1.5, centers=50), "search": "pso", "random_state": 0},
    {"basis": None, "fit_intercept": True},
], ids=str)  # fmt: skip
def test_prefilter_classifier(there, options, classes, weighted):
    X, y = make_labels(300, classes)
    weights = np.arange(len(X)) % 3 if weighted else None
    expected, model = PrefilterClassifier(**options).fit(X, y, weights), PrefilterClassifier(**options)
    model.fit(there(X), there(y), None if weights is None else there(weights))
    assert model.path_.terms.tolist() == expected.path_.terms.tolist()
    assert model.n_terms_ == expected.n_terms_
    for name in ("lambda_1_", "lambda_2_", "loo_error_rate_", "final_error_rate_", "sign_violations_"):
        np.testing.assert_allclose(getattr(model, name), getattr(expected, name), rtol=1e-6, atol=1e-9)
    for name in ("weights_", "prefiltered_", "loo_residuals_"):
        assert_close(getattr(model, name), getattr(expected, name), there(X), rtol=1e-5, atol=1e-6)
    assert_close(model.decision_function(there(X)), expected.decision_function(X), there(X), rtol=1e-5, atol=1e-6)
    assert_close(model.at(1).predict(there(X)), expected.at(1).predict(X), there(X))


@pytest.mark.parametrize("options", [
    {}, {"basis": RadialBasis(width=1.5), "tol": 0.0}, {"basis": RadialBasis(width=1.5), "search": "pso"},
], ids=str)  # fmt: skip
def test_nothing_of_the_prefilter_longer_than_the_inputs_comes_to_the_host(there, options, monkeypatch):
    """Beyond 1000 samples, of which the centres are spread and the widths chosen on 2000."""
    X, y = make_labels(2500, 3)
    refuse_large(monkeypatch, X.size)
    model = PrefilterClassifier(**options, max_terms=20, swarm_steps=5, random_state=0).fit(there(X), there(y))
    assert model.n_terms_ > 1
    assert model.at(1).predict(there(X)).shape == y.shape


@pytest.mark.parametrize("with_shift", [False, True])
@pytest.mark.parametrize("shape", [(5, 7), (1, 300), (3000, 2)])
def test_formulas_are_compiled_into_one_kernel(shape, with_shift):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    given = arguments(shape) if with_shift else (*arguments(shape)[:-1], None)
    expected = formula(*given)
    moved = [None if x is None else torch.asarray(x, device="cuda") for x in given]
    kept = torch.zeros(shape, dtype=torch.bool, device="cuda")
    found = formula(*moved, out=[None, None, None, None, kept])
    assert found[-1] is kept
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(to_host(value), wanted, rtol=1e-13)
    if hasattr(torch.cuda, "_compile_kernel"):
        assert all(kernel is not None for kernel in formula.kernels.values())
        strided = torch.asarray(np.repeat(given[0], 2, axis=1), device="cuda")[:, ::2]
        np.testing.assert_allclose(to_host(formula(strided, *moved[1:])[0]), expected[0], rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_are_gathered_by_one_kernel(dtype):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    x, places = np.random.default_rng(0).normal(size=(300, 40)).astype(dtype), np.array([7, 0, 39, 7])
    for moved in (torch.asarray(x, device="cuda"), torch.asarray(x.T.copy(), device="cuda").T):
        found = columns_at(moved, torch.asarray(places, device="cuda"))
        assert found.dtype == torch.float64
        np.testing.assert_array_equal(to_host(found), x[:, places])
        np.testing.assert_array_equal(to_host(columns_at(moved[3:5], places[:1])), x[3:5, 7:8])


@pytest.mark.parametrize("rule", ["loo", "cost"])
def test_a_gpu_that_is_not_the_current_one(rule):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU or none: two are needed")
    G, y = make(8)
    path = forward_path(torch.asarray(G, device="cuda:1"), torch.asarray(y, device="cuda:1"), rule=rule, max_terms=10)
    assert path.terms.tolist() == forward_path(G, y, rule=rule, max_terms=10).terms.tolist()
    assert torch.cuda.current_device() == 0


@pytest.mark.parametrize("dictionary", ["linear", "pairs", "smooth", "steps"])
def test_automatic_regressor(there, dictionary):
    """Paths of all folds at once: the model is that of the host."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(1300, 4))
    y = np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2] + (X[:, 3] > 0.4) + 0.2 * rng.normal(size=len(X))
    model, expected = (
        TermwiseRegressor(dictionary=dictionary, target="data").fit(*data) for data in ((there(X), there(y)), (X, y))
    )
    assert model.n_terms_ == expected.n_terms_
    assert model.cv_error_ == pytest.approx(expected.cv_error_)
    assert_close(model.predict(there(X)), expected.predict(X), there(X), atol=1e-6)
