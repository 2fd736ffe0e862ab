"""Columns with large means, constant columns and inputs in small units: the models of centred data, or a warning.

An offset of 1e6 standard deviations in float64, or 1e4 in float32, must not change any choice. The reference is the
same data, as rounded by its dtype, with the means subtracted in extended precision.
"""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np
import oracles
import pandas as pd
import pytest
import scipy.sparse as sp

from termwise import (
    AnovaBasis,
    BasisRidge,
    EvidenceForwardRegressor,
    ForwardClassifier,
    ForwardRegressor,
    LocalRidge,
    NumericalWarning,
    OnlineRidge,
    OrthogonalThresholdRegressor,
    PrefilterClassifier,
    RadialBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    forward_path,
    open_rows,
)
from termwise.selection import RULES

OFFSETS = [(np.float32, 30.0), (np.float32, 3e3), (np.float32, 1e4), (np.float64, 1e3), (np.float64, 1e6)]
IDS = [f"{dtype.__name__}-{offset:g}" for dtype, offset in OFFSETS]
offsets = pytest.mark.parametrize(("dtype", "offset"), OFFSETS, ids=IDS)
TOLERANCE = {np.float32: 2e-4, np.float64: 1e-8}  # of leave-one-out errors along a path
PREDICTION_TOLERANCE = {np.float32: 1e-5, np.float64: 1e-8}

ESTIMATORS = {
    "ridge": BasisRidge(alpha="loo"),
    "ridge without penalty": BasisRidge(alpha=0.0),
    "local ridge": LocalRidge(),
    "online": OnlineRidge(alpha=1e-6),
    "forward": ForwardRegressor(),
    "forward, Gram": ForwardRegressor(precompute=True),
    "forward, no penalty": ForwardRegressor(alpha=0.0),
    "forward, exchanged": ForwardRegressor(refine="swap"),
    "eigen": OrthogonalThresholdRegressor(),
    "Gram-Schmidt": OrthogonalThresholdRegressor(method="gram_schmidt"),
    "evidence": EvidenceForwardRegressor(),
    "forward classifier": ForwardClassifier(),
    "prefilter": PrefilterClassifier(None, fit_intercept=True),
}
SHIFTED = {"all": slice(None), "some": slice(None, None, 3)}


def with_offset(rng, dtype, offset, where="all", n=120, p=14):
    """Columns with large means, the same centred, and targets; some columns have something in common."""
    Z = rng.normal(size=(n, p))
    Z[:, 5] = Z[:, 2] + 0.1 * rng.normal(size=n)
    y = Z[:, :4] @ [1.0, -1.0, 0.5, 0.3] + 0.3 * rng.normal(size=n)
    Z[:, SHIFTED[where]] += offset * rng.uniform(0.5, 1.0, size=Z[:, SHIFTED[where]].shape[1])
    X = Z.astype(dtype)
    return X, oracles.centred(X), y


def in_file(X, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    return open_rows(tmp_path / "rows.npy")


def in_torch(X, tmp_path):
    return pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch").asarray(X)


def in_strict(X, tmp_path):
    return pytest.importorskip("array_api_strict").asarray(X)


CONTAINERS = {
    "rows": lambda X, tmp_path: X,
    "columns": lambda X, tmp_path: np.asfortranarray(X),
    "sparse": lambda X, tmp_path: sp.csc_array(X),
    "file": in_file,
    "torch": in_torch,
    "strict": in_strict,
}


def outputs(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


# -- estimators --------------------------------------------------------------------------------------------------------


@offsets
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("where", SHIFTED)
def test_estimators_choose_as_on_centred_data(rng, name, dtype, offset, where):
    X, centred, y = with_offset(rng, dtype, offset, where)
    model = ESTIMATORS[name]
    y = (y > 0).astype(int) if hasattr(model, "decision_function") else y
    found, expected = (type(model)(**model.get_params(deep=False)).fit(M, y) for M in (X, centred))
    np.testing.assert_array_equal(found.support_, expected.support_)
    tolerance = PREDICTION_TOLERANCE[dtype]
    np.testing.assert_allclose(outputs(found, X), outputs(expected, centred), rtol=0, atol=10 * tolerance)
    loo = [np.mean(one.loo_residuals_**2) for one in (found, expected)]
    assert loo[0] == pytest.approx(loo[1], rel=TOLERANCE[dtype])


@pytest.mark.slow
@pytest.mark.parametrize("model", [TermwiseRegressor(random_state=0), TermwiseClassifier(random_state=0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_automatic_estimators_choose_as_on_centred_data(rng, model, dtype):
    X, centred, y = with_offset(rng, dtype, {np.float32: 1e4, np.float64: 1e6}[dtype], p=6)
    X = np.column_stack([X, np.full(len(X), 1 / 3, dtype=dtype)])
    centred = np.column_stack([centred, np.zeros(len(X))])
    y = (y > 0).astype(int) if hasattr(model, "decision_function") else y
    found, expected = (type(model)(random_state=0).fit(M, y) for M in (X, centred))
    assert found.summary().splitlines()[:2] == expected.summary().splitlines()[:2]
    np.testing.assert_allclose(outputs(found, X), outputs(expected, centred), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("dtype", "offset"), [OFFSETS[2], OFFSETS[4]], ids=[IDS[2], IDS[4]])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("where", SHIFTED)
def test_paths_on_any_container(rng, tmp_path, dtype, offset, container, weighted, where):
    X, centred, y = with_offset(rng, dtype, offset, where)
    weights = rng.uniform(0.5, 2, size=len(y)) if weighted else None
    for options in ({}, {"precompute": True}, {"rule": "cost", "alpha": "reestimate"}, {"alpha": 0.0, "rule": "gcv"}):
        G = CONTAINERS[container](X, tmp_path)
        found = forward_path(G, y, sample_weight=weights, max_terms=8, **options)
        expected = forward_path(centred, y, sample_weight=weights, max_terms=8, **options)
        np.testing.assert_array_equal(found.terms, expected.terms)
        np.testing.assert_allclose(found.column("loo"), expected.column("loo"), rtol=TOLERANCE[dtype])
        w, intercept = found.coef(8)
        fitted = X[:, found.terms].astype(float) @ np.asarray(w) + intercept
        v, _ = expected.coef(8)
        reference = centred[:, expected.terms] @ v
        gap = fitted - fitted.mean() - (reference - reference.mean())
        assert np.abs(gap).max() < 20 * PREDICTION_TOLERANCE[dtype]


@pytest.mark.parametrize("rule", sorted(set(RULES) - {"loo_error"}))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_rule(rng, rule, dtype):
    X, centred, y = with_offset(rng, dtype, {np.float32: 1e4, np.float64: 1e6}[dtype])
    for rows in (None, 37):
        found = forward_path(X, y, rule=rule, max_terms=6, block_rows=rows)
        np.testing.assert_array_equal(found.terms, forward_path(centred, y, rule=rule, max_terms=6).terms)


@offsets
def test_leave_one_out_of_the_path_is_that_of_retraining(rng, dtype, offset):
    X, centred, y = with_offset(rng, dtype, offset, n=40)
    model = ForwardRegressor(alpha=1e-3, criterion=None, max_terms=5).fit(X, y)
    for k in (1, 3, 5):
        retrained = oracles.leave_one_out(centred[:, model.path_.terms[:k]], y, 1e-3)
        assert model.path_.steps[k].loo == pytest.approx(np.mean(retrained**2), rel=TOLERANCE[dtype])
    np.testing.assert_allclose(model.loo_residuals_, retrained[:, 0], rtol=0, atol=20 * PREDICTION_TOLERANCE[dtype])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_on_a_cluster(rng, dtype):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'termwise[dask]'")
    da = pytest.importorskip("dask.array")
    X, centred, y = with_offset(rng, dtype, {np.float32: 1e4, np.float64: 1e6}[dtype])
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
        found = ForwardRegressor(refine="swap").fit(da.from_array(X, chunks=(50, 14)), da.from_array(y, chunks=50))
    expected = ForwardRegressor(refine="swap").fit(centred, y)
    np.testing.assert_array_equal(found.support_, expected.support_)
    np.testing.assert_allclose(found.predict(X), expected.predict(centred), rtol=0, atol=1e-4)


def test_only_columns_with_an_offset_are_copied(rng):
    from termwise.design import Dense, Shifted

    X = rng.normal(size=(50, 12))
    few, many = np.zeros(12), np.full(12, 5.0)
    few[3] = 5.0
    some, every = Dense(X).shifted(few), Dense(X).shifted(many)
    assert isinstance(some, Shifted)
    assert some.stored.shape == (50, 1)
    assert isinstance(every, Dense)
    for design, shift in ((some, few), (every, many)):
        u, w = rng.normal(size=50), rng.uniform(1, 2, size=50)
        np.testing.assert_allclose(design.products(u), (X - shift).T @ u, atol=1e-12)
        np.testing.assert_allclose(design.columns(np.array([3, 1])), (X - shift)[:, [3, 1]])
        np.testing.assert_allclose(design.columns(slice(2, 5), slice(0, 9)), (X - shift)[:9, 2:5])
        np.testing.assert_allclose(design.power_sums(4, w, shift), w**2 @ (X - 2 * shift) ** 4)
        np.testing.assert_allclose(design.gram(w), (X - shift).T @ (w[:, None] * (X - shift)), atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wide_radial_functions_that_are_not_stored(rng, dtype):
    """Gaussians much wider than the data vary little; tiles are centred as they are evaluated."""
    X = rng.normal(size=(150, 2))
    y = X[:, 0] - X[:, 1] ** 2 + 0.1 * rng.normal(size=150)
    basis = RadialBasis(width=100.0).fit(X.astype(dtype))
    G = 1 + np.expm1(-np.sum((X.astype(dtype)[:, None] - basis.centers_) ** 2, axis=2, dtype=np.float64) / 1e4)
    found = forward_path(basis.design(X.astype(dtype)), y, max_terms=4, alpha=0.0)
    expected = forward_path(oracles.centred(G), y, max_terms=4, alpha=0.0)
    np.testing.assert_array_equal(found.terms[:3], expected.terms[:3])
    np.testing.assert_allclose(found.column("loo")[:4], expected.column("loo")[:4], rtol=1e-4)


# -- constant columns --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("value", [1 / 3, 0.1, 1e7 / 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_inputs_leave_the_mean(name, value, dtype):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = np.full((26, 2), value, dtype=dtype), rng.normal(size=26)
        model = ESTIMATORS[name]
        if hasattr(model, "decision_function"):
            y = np.arange(26) % 2
        for weights in (None, rng.integers(1, 4, size=26), rng.uniform(0.5, 2, size=26)):
            for table in (X, sp.csr_array(X)):
                fitted = type(model)(**model.get_params(deep=False)).fit(table, y, sample_weight=weights)
                assert not np.any(fitted.coef_)
                if not hasattr(model, "decision_function"):
                    assert fitted.predict(X) == pytest.approx(np.average(y, weights=weights), rel=1e-6)


@pytest.mark.parametrize("model", [BasisRidge(alpha=0.0), LocalRidge(alpha=0.0), OnlineRidge(alpha=0.0), BasisRidge()])
def test_constant_columns_beside_others(rng, model):
    X = np.column_stack([np.full(30, 0.1), rng.normal(size=30), np.full(30, 1 / 3)])
    y = 2 * X[:, 1] + 0.1 * rng.normal(size=30)
    assert model.fit(X, y).coef_[[0, 2]].tolist() == [0.0, 0.0]
    assert model.coef_[1] == pytest.approx(2.0, abs=0.2)


# -- data that cannot carry it -----------------------------------------------------------------------------------------


WARNING_MODELS = [
    ForwardRegressor(),
    BasisRidge(),
    LocalRidge(),
    OnlineRidge(),
    OrthogonalThresholdRegressor(),
    EvidenceForwardRegressor(),
    TermwiseRegressor(dictionary="linear", target="data"),
]


@pytest.mark.parametrize("model", WARNING_MODELS, ids=lambda model: type(model).__name__)
def test_a_warning_names_columns_without_digits(rng, model):
    Z = rng.normal(size=(60, 3))
    y = Z @ [1.0, 2.0, 0.5] + 0.1 * rng.normal(size=60)
    frame = pd.DataFrame(Z.astype(np.float32), columns=["wind", "kelvin", "rain"])
    frame["kelvin"] = (Z[:, 1] + 1e7).astype(np.float32)
    with pytest.warns(
        NumericalWarning, match=r"'kelvin' must vary by more than the rounding .* give them in float64\."
    ):
        model.fit(frame, y)
    frame["kelvin"] = Z[:, 1] + 1e7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.all(type(model)(**model.get_params(deep=False)).fit(frame.astype(np.float64), y).coef_ != 0)


def test_a_warning_names_candidates_of_a_path(rng):
    G = (rng.normal(size=(60, 12)) + 3e6).astype(np.float32)
    with pytest.warns(NumericalWarning, match=r"column 0 of G, .* and 7 more must vary"):
        path = forward_path(G, rng.normal(size=60), max_terms=2)
    np.testing.assert_array_equal(path.unresolved, np.arange(12))


# -- inputs in small units ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ["gcv", "loo", 0.0])
@pytest.mark.parametrize("scale", [1e-2, 1e-4, 1e-5, 1e-6, 1e-7])
def test_inputs_in_small_units_never_fit_worse_than_the_mean(alpha, scale):
    """The functions vary by `scale^2` beside their mean: what rounding leaves of them is used, and no more."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, size=(40, 2))
        y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=40)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            model = BasisRidge(RadialBasis(), alpha=alpha).fit(X * scale, y)
        score = model.score(X * scale, y)
        assert score > -1e-9
        if alpha != 0.0:
            assert score > 1 - np.mean(model.loo_residuals_**2) / np.var(y) - 1e-3


def test_functions_without_digits_are_named(rng):
    X = rng.normal(size=(30, 2))
    with pytest.warns(NumericalWarning, match=r"scale the inputs, or choose functions that vary over their range\."):
        BasisRidge(RadialBasis()).fit(X * 1e-7, X[:, 0])


@pytest.mark.parametrize("factor", [2.0**-30, 2.0**30])
def test_columns_in_other_units(rng, factor):
    """Without a penalty the unit of the inputs does not matter, also beside columns in other units and with offsets."""
    X, _, y = with_offset(rng, np.float64, 1e6, "some")
    scaled = X.copy()
    scaled[:, ::2] *= factor
    for model in (BasisRidge(alpha=0.0), ForwardRegressor(alpha=0.0), OnlineRidge(alpha=0.0)):
        found, expected = (type(model)(**model.get_params(deep=False)).fit(M, y) for M in (scaled, X))
        np.testing.assert_array_equal(found.support_, expected.support_)
        np.testing.assert_allclose(found.predict(scaled), expected.predict(X), atol=1e-6)


def test_anova_on_offsets_in_float32(rng):
    X, centred, y = with_offset(rng, np.float32, 1e4, p=6)
    found, expected = (ForwardRegressor(AnovaBasis()).fit(M, y) for M in (X, centred))
    np.testing.assert_array_equal(found.support_, expected.support_)


HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed: pip install torch")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ridge_on_a_device(rng, dtype):
    import torch

    X, centred, y = with_offset(rng, dtype, {np.float32: 1e4, np.float64: 1e6}[dtype])
    X = np.column_stack([X, np.full(len(X), 1 / 3, dtype=dtype)])
    centred = np.column_stack([centred, np.zeros(len(X))])
    for alpha in ("loo", 0.0):
        found, expected = BasisRidge(alpha=alpha).fit(torch.asarray(X), y), BasisRidge(alpha=alpha).fit(centred, y)
        np.testing.assert_allclose(found.coef_.numpy(), expected.coef_, atol=1e-6)
        assert float(found.coef_[-1]) == 0.0
