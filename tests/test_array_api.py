"""Arrays of other libraries: the same choices and numbers as NumPy's, where the arrays live."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys

import array_api_strict
import numpy as np
import pytest
from conftest import refuse_large

import termwise.estimators.prefilter as classifier
import termwise.linalg.filtered_signal as signal
from termwise import (
    BasisRidge,
    EvidenceForwardRegressor,
    ForwardClassifier,
    ForwardRegressor,
    PrefilterClassifier,
    RadialBasis,
    SmoothBasis,
    forward_path,
)
from termwise._arrays import different_rows, to_host
from termwise.basis import KERNELS
from termwise.execution.local import local_blocks
from termwise.selection import RULES
from termwise.selection.engine import Settings, grow_path
from termwise.selection.leave_one_out import CascadeOptions, LooRule

HAS_TORCH = importlib.util.find_spec("torch") is not None


def from_torch(x):
    import torch

    return torch.asarray(np.array(x))


LIBRARIES = [
    pytest.param(array_api_strict.asarray, id="strict"),
    pytest.param(
        from_torch,
        id="torch",
        marks=pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed: pip install torch"),
    ),
]
anywhere = pytest.mark.parametrize("there", LIBRARIES)


def assert_close(foreign, expected, like, rtol=1e-7, atol=1e-9):
    """Same numbers, in the library of `like`."""
    assert type(foreign) is type(like)
    np.testing.assert_allclose(to_host(foreign), expected, rtol=rtol, atol=atol)


def make(seed, n=80, p=30, outputs=1):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(n, p)) + 0.3
    Y = np.column_stack([G[:, p // 2] - G[:, p - 1] + rng.normal(size=n), rng.normal(size=(n, outputs - 1))])
    return G, Y[:, 0] if outputs == 1 else Y


@anywhere
@pytest.mark.parametrize("alpha", [1e-6, "reestimate"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_takes_the_same_path(there, rule, outputs, weighted, alpha):
    G, y = make(0, outputs=outputs)
    y = np.sign(y) if rule == "loo_error" else y
    weights = np.random.default_rng(1).integers(0, 4, size=len(y)).astype(float) if weighted else None
    options = {"rule": rule, "alpha": alpha, "max_terms": 7, "beta": 0.1, "sample_weight": weights}
    expected, path = forward_path(G, y, **options), forward_path(there(G), there(y), **options)
    assert path.terms.tolist() == expected.terms.tolist()
    for name in ("sse", "cost", "dof", "loo", "loo_se", "gcv", "alpha"):
        np.testing.assert_allclose(path.column(name), expected.column(name), rtol=1e-8, atol=1e-9)
    for k in (0, 3, len(path)):
        assert_close(path.coef(k)[0], expected.coef(k)[0], there(G))
        np.testing.assert_allclose(to_host(path.coef(k)[1]), expected.coef(k)[1], rtol=1e-7, atol=1e-9)


@anywhere
@pytest.mark.parametrize("options", [
    {"penalty": "orthogonal", "alpha": 0.3}, {"fit_intercept": False}, {"precompute": True}, {"precompute": 4},
    {"block_rows": 17}, {"include": [5, 2]}, {"refine": "swap"}, {"criterion": "tcr", "patience": 3}, {"alpha": 0.0},
], ids=str)  # fmt: skip
def test_every_option_takes_the_same_path(there, options):
    G, y = make(2, outputs=2)
    options = {"max_terms": 8, **options}
    expected, path = forward_path(G, y, **options), forward_path(there(G), there(y), **options)
    assert path.terms.tolist() == expected.terms.tolist()
    assert path.stop_reason == expected.stop_reason
    np.testing.assert_allclose(path.column("loo"), expected.column("loo"), rtol=1e-8)


@anywhere
@pytest.mark.parametrize("cached", [False, True])
def test_the_leverage_bound_and_cached_directions(there, cached):
    """Stages of the cascade that only many candidates or many rows start."""
    options = CascadeOptions(many_survivors=0, squares_interval=3, tighten_above=2, cache_slots=(9, 9))
    rng = np.random.default_rng(0)
    G, y = rng.normal(size=(60, 80)), rng.normal(size=60)
    rows = local_blocks(there(G), there(y[:, None]), np.ones(60), None, 11)
    rows.device_block, rows.caches_directions, rows.min_work = None if cached else rows.blocks[0], cached, 1
    path = grow_path(rows, Settings(LooRule(options), 1e-6, max_terms=10, precompute=False), one_output=True)
    expected = forward_path(G, y, max_terms=10)
    assert path.terms.tolist() == expected.terms.tolist()
    np.testing.assert_allclose(path.column("loo"), expected.column("loo"), rtol=1e-8)


@anywhere
def test_float32_stays_float32(there):
    G, y = make(3)
    G, y = G.astype(np.float32), y.astype(np.float32)
    expected, path = forward_path(G, y, max_terms=6), forward_path(there(G), there(y), max_terms=6)
    assert path.terms.tolist() == expected.terms.tolist()
    np.testing.assert_allclose(path.column("loo"), expected.column("loo"), rtol=1e-5)
    for model in (ForwardRegressor(), BasisRidge(RadialBasis(width=6.0, centers=20)), BasisRidge()):
        ours, theirs = model.fit(there(G), there(y)).predict(there(G)), model.fit(G, y).predict(G)
        assert ours.dtype == there(G).dtype
        assert_close(ours, theirs, there(G), rtol=1e-3, atol=1e-3)


def assert_same_model(model, there, X, y, weights=None, rtol=1e-6):
    expected = model.fit(X, y, weights)
    expected = pickle.loads(pickle.dumps(expected))
    fitted, like = model.fit(there(X), there(y), None if weights is None else there(weights)), there(X)
    for name in ("weights_", "coef_", "support_", "loo_residuals_", "weights_cov_"):
        assert_close(getattr(fitted, name), getattr(expected, name), like, rtol=rtol, atol=1e-7)
    np.testing.assert_allclose(to_host(fitted.intercept_), expected.intercept_, rtol=rtol, atol=1e-8)
    np.testing.assert_allclose(fitted.noise_variance_, expected.noise_variance_, rtol=rtol)
    assert fitted.summary() == expected.summary()
    for ours, theirs in zip(fitted.predict(like, return_std=True), expected.predict(X, return_std=True), strict=True):
        assert_close(ours, theirs, like, rtol=rtol, atol=1e-7)
    ends = (one.predict_interval(inputs, method="jackknife+") for one, inputs in ((fitted, like), (expected, X)))
    for ours, theirs in zip(*ends, strict=True):
        assert_close(ours, theirs, like, rtol=rtol, atol=1e-6)
    assert_close(expected.predict(like), expected.predict(X), like)  # wherever it was fitted
    assert isinstance(fitted.predict(X), np.ndarray)
    return fitted, expected


@anywhere
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("parameters", [
    {}, {"criterion": "loo", "refit_alpha": "loo"}, {"rule": "cost", "penalty": "orthogonal", "alpha": 0.1},
    {"alpha": "reestimate"}, {"max_terms": 1, "basis": RadialBasis(width=8.0)},
], ids=str)  # fmt: skip
def test_forward_regressor(there, parameters, outputs, weighted):
    X, y = make(4, p=8, outputs=outputs)
    weights = np.random.default_rng(5).integers(0, 3, size=len(X)) if weighted else None
    fitted, expected = assert_same_model(ForwardRegressor(**parameters), there, X, y, weights)
    assert_close(fitted.transform(there(X)), expected.transform(X), there(X))
    np.testing.assert_array_equal(fitted.get_support(), expected.get_support())
    assert_close(fitted.at(0).predict(there(X)), expected.at(0).predict(X), there(X))


@anywhere
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", ["gcv", "loo", 0.1, 0.0, np.inf])
@pytest.mark.parametrize("basis", [None, RadialBasis(width=3.0, centers=20), RadialBasis(width=2.0)], ids=str)
def test_basis_ridge(there, basis, alpha, intercept):
    X, y = make(6, n=50, p=3, outputs=2)
    if alpha == 0.0 and basis is not None:
        alpha = 1e-3
    weights = np.arange(len(X)) % 3 if intercept else None
    fitted, expected = BasisRidge(basis, alpha, intercept), BasisRidge(basis, alpha, intercept)
    fitted.fit(there(X), there(y), weights)
    expected.fit(X, y, weights)
    assert fitted.alpha_ == pytest.approx(expected.alpha_, rel=1e-4)
    assert_close(fitted.predict(there(X)), expected.predict(X), there(X), rtol=1e-5, atol=1e-6)
    for name in ("coef_", "loo_residuals_"):
        assert_close(getattr(fitted, name), getattr(expected, name), there(X), rtol=1e-3, atol=1e-4)
    if basis is None:
        assert_same_model(BasisRidge(basis, alpha, intercept), there, X, y, weights)


@anywhere
@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers(there, classes):
    X, y = make(7, p=6)
    labels = np.digitize(y, np.quantile(y, [0.5] if classes == 2 else [0.3, 0.7]))
    for model in (ForwardClassifier(), ForwardClassifier(rule="loo_error", max_terms=3)):
        expected, scores = model.fit(X, labels).predict(X), model.decision_function(X)
        model.fit(there(X), there(labels))
        assert_close(model.predict(there(X)), expected, there(X))
        assert_close(model.decision_function(there(X)), scores, there(X), rtol=1e-6)
        assert type(model.weights_) is type(there(X))
    named = np.array(["few", "some", "many"])[labels]
    assert ForwardClassifier().fit(there(X), named).predict(there(X)).tolist() == list(
        ForwardClassifier().fit(X, named).predict(X)
    )


def make_labels(n=80, classes=2, seed=0):
    """Noisy labels of two inputs that say something of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.digitize(np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n), [0.0] if classes == 2 else [-1, 1])


def assert_same_prefilter(model, there, X, y, weights=None):
    expected = pickle.loads(pickle.dumps(model.fit(X, y, weights)))
    like = there(X)
    model.fit(like, there(y), None if weights is None else there(weights))
    assert model.path_.terms.tolist() == expected.path_.terms.tolist()
    assert (model.summary(), model.stop_reason_) == (expected.summary(), expected.stop_reason_)
    for name in ("lambda_1_", "lambda_2_", "loo_error_rate_", "final_error_rate_", "sign_violations_"):
        np.testing.assert_allclose(getattr(model, name), getattr(expected, name), rtol=1e-8, atol=1e-10)
    for name in ("support_", "weights_", "coef_", "prefiltered_", "loo_residuals_"):
        assert_close(getattr(model, name), getattr(expected, name), like, rtol=1e-6, atol=1e-7)
    for ours, theirs in ((model, expected), (model.at(1), expected.at(1))):
        assert_close(ours.decision_function(like), theirs.decision_function(X), like, rtol=1e-6, atol=1e-7)
        assert_close(ours.predict(like), theirs.predict(X), like)
    assert isinstance(model.predict(X), np.ndarray)
    return model


@anywhere
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("basis", ["auto", RadialBasis(width=1.5)], ids=str)
def test_prefilter_classifier(there, basis, classes, intercept, weighted):
    X, y = make_labels(classes=classes)
    weights = np.random.default_rng(1).integers(0, 4, size=len(X)) if weighted else None
    assert_same_prefilter(PrefilterClassifier(basis, fit_intercept=intercept), there, X, y, weights)


@anywhere
@pytest.mark.parametrize("options", [
    {"tol": 1e-7}, {"search": "pso", "random_state": 0, "swarm_steps": 5}, {"criterion": None, "lambda_2": 0.5},
    {"basis": None, "fit_intercept": True}, {"basis": RadialBasis(width=1.0, centers=30), "max_terms": 3},
], ids=str)  # fmt: skip
def test_every_option_of_the_prefilter(there, options):
    X, y = make_labels(classes=3)
    weights = np.random.default_rng(1).uniform(0, 2, size=len(X))
    assert_same_prefilter(PrefilterClassifier(**{"basis": RadialBasis(width=1.5), **options}), there, X, y, weights)


@anywhere
def test_prefilter_of_more_than_it_takes_at_a_time(there, monkeypatch):
    """Spread-out centres, widths from some of the samples, a sweep in chunks, and no interval that can be trusted."""
    X, y = make_labels(100)
    X[60:70] = X[:10]
    monkeypatch.setattr(classifier, "MAX_CENTERS", 25)
    monkeypatch.setattr(classifier, "WIDTH_ROWS", 50)
    monkeypatch.setattr(signal, "DEVICE_CHUNK", 300)
    model = assert_same_prefilter(PrefilterClassifier(), there, X, y)
    assert model.coef_.shape == (25,)
    monkeypatch.setattr(signal, "MAX_VIOLATIONS", -1.0)
    assert_same_prefilter(PrefilterClassifier(), there, X, y)


@anywhere
def test_prefilter_of_labels_without_any_signal(there):
    X, y = np.ones((10, 2)), np.array([0, 1] * 5)
    for basis in ("auto", None):
        model = PrefilterClassifier(basis).fit(there(X), there(y))
        assert model.n_terms_ == 0
        assert_close(model.prefiltered_, np.zeros(10), there(X))
        assert_close(model.predict(there(X)), np.ones(10), there(X))


@anywhere
def test_prefilter_in_float32(there):
    X, y = make_labels()
    X = X.astype(np.float32)
    model = PrefilterClassifier()
    expected = model.fit(X, y).decision_function(X)
    assert_close(model.fit(there(X), there(y)).decision_function(there(X)), expected, there(X), rtol=1e-3, atol=1e-3)
    assert model.decision_function(there(X)).dtype == there(X).dtype


@anywhere
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", [
    {}, {"basis": RadialBasis(width=1.5), "tol": 0.0}, {"basis": RadialBasis(width=1.5), "search": "pso"},
], ids=str)  # fmt: skip
def test_nothing_of_the_prefilter_longer_than_the_inputs_comes_to_the_host(there, options, classes, monkeypatch):
    X, y = make_labels(150, classes)
    refuse_large(monkeypatch, X.size)
    model = PrefilterClassifier(**options, max_terms=10, swarm_steps=5, random_state=0).fit(there(X), there(y))
    assert model.n_terms_ > 1
    assert model.at(1).predict(there(X)).shape == y.shape


@anywhere
def test_different_rows(there):
    X = np.random.default_rng(0).integers(0, 3, size=(40, 3)) - 1.0
    X[::5] *= -1.0  # zeros of either sign are the same
    for table in (X, X[:1], X[:, :1], np.arange(12.0).reshape(6, 2)[::-1].copy()):
        assert to_host(different_rows(there(table))).tolist() == different_rows(table).tolist()


@anywhere
@pytest.mark.parametrize("width", [1.5, "median", [1.0, 2.0, 3.0], (np.eye(3) + 0.2).tolist()], ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_radial_basis(there, kernel, width, rng):
    X = rng.normal(size=(30, 3))
    for shift in (0.0, 1e5):
        for centers in ("samples", 6, (X[:4] + shift).tolist()):
            ours, theirs = (RadialBasis(kernel, width, centers).fit(rows) for rows in (there(X + shift), X + shift))
            assert_close(ours.transform(there(X + shift)), theirs.transform(X + shift), there(X), rtol=1e-9)
            assert_close(ours.take([1]).transform(there(X)), theirs.take([1]).transform(X), there(X), rtol=1e-9)
            assert_close(theirs.transform(there(X)), theirs.transform(X), there(X), rtol=1e-9)


@anywhere
def test_what_cannot_compute_elsewhere_comes_to_numpy(there):
    X, y = make(8, p=4)
    for model in (EvidenceForwardRegressor(), ForwardRegressor(SmoothBasis(centers=5))):
        expected = model.fit(X, y).predict(X)
        np.testing.assert_allclose(model.fit(there(X), there(y)).predict(there(X)), expected, rtol=1e-6, atol=1e-8)
        assert isinstance(model.coef_, np.ndarray)


def test_whole_numbers_become_float64():
    X = np.arange(24).reshape(8, 3) % 5
    model = BasisRidge().fit(array_api_strict.asarray(X), X[:, 0])
    assert model.predict(array_api_strict.asarray(X)).dtype == array_api_strict.float64


CHECKS = """
import sklearn
from unittest import SkipTest
from sklearn.base import is_classifier
from sklearn.utils.estimator_checks import estimator_checks_generator
from termwise import BasisRidge, ForwardClassifier, ForwardRegressor, PrefilterClassifier, RadialBasis
done = []
ridges = BasisRidge(), BasisRidge(RadialBasis()), RadialBasis()
for estimator in (ForwardRegressor(), ForwardClassifier(), PrefilterClassifier(), *ridges):
    version = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
    for instance, check in estimator_checks_generator(estimator):
        name = check.func.__name__
        older = is_classifier(instance) and version < (1, 9)  # wanted classes to be where X is, whatever the labels are
        if name.startswith("check_array_api") and name != "check_array_api_same_namespace" and not older:
            try:
                check(instance)
            except SkipTest:  # a library that is not here
                continue
            done.append(name)
print(len(done))
"""


@pytest.mark.exhaustive
def test_scikit_learns_array_api_checks():
    """They want SciPy to be told beforehand; what happens to a model fitted elsewhere is ours to say."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", CHECKS], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) >= 5
