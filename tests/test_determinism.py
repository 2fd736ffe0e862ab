"""Same input, same bits from run to run; same choices for any threads, block sizes, memory orders, array libraries."""

from __future__ import annotations

import os
import subprocess
import sys

import array_api_strict
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from termwise import (
    AnovaBasis,
    BasisRidge,
    EvidenceForwardRegressor,
    ForwardClassifier,
    ForwardRegressor,
    OrthogonalThresholdRegressor,
    PrefilterClassifier,
    RadialBasis,
    TermwiseRegressor,
    forward_path,
)

MODELS = [
    ForwardRegressor(),
    ForwardRegressor(RadialBasis(width=2.0), rule="cost"),
    ForwardRegressor(AnovaBasis(), rule="gcv", criterion="bic"),
    BasisRidge(RadialBasis()),
    OrthogonalThresholdRegressor(RadialBasis(), method="gram_schmidt"),
    EvidenceForwardRegressor(),
    ForwardClassifier(),
    PrefilterClassifier(RadialBasis(width=2.0)),
    TermwiseRegressor(dictionary="linear"),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
PROGRAM = """
import hashlib
import numpy as np
from termwise import ForwardRegressor, RadialBasis, TermwiseClassifier, TermwiseRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4))
y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=120)
models = [m.fit(X, t) for m, t in ((ForwardRegressor(RadialBasis()), y), (TermwiseRegressor(), y),
                                   (TermwiseClassifier(dictionary="linear"), y > 0))]
bits = b"".join(np.asarray(m.coef_).tobytes() + np.asarray(m.predict(X)).tobytes() for m in models)
print(hashlib.sha256(bits).hexdigest(), [m.support_.tolist() for m in models])
"""


@pytest.fixture
def data(rng):
    X = rng.normal(size=(80, 4))
    return X, X[:, 0] - X[:, 3] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=80)


def targets(model, y):
    return y > 0 if isinstance(model, ForwardClassifier | PrefilterClassifier) else y


def bits(model, X):
    return [np.asarray(values).tobytes() for values in (model.support_, model.coef_, model.predict(X))]


@every_model
def test_a_fit_repeats_to_the_bit(model, data):
    X, y = data
    first = bits(model.fit(X, targets(model, y)), X)
    assert bits(model.fit(X.copy(), targets(model, y)), X) == first


@every_model
def test_memory_orders_and_threads_do_not_change_the_terms(model, data):
    X, y = data
    read_only = X.copy()
    read_only.setflags(write=False)
    expected = model.fit(X, targets(model, y)).support_.tolist()
    for other in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1].copy()[::-1], read_only):
        assert model.fit(other, targets(model, y)).support_.tolist() == expected
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            assert model.fit(X, targets(model, y)).support_.tolist() == expected


@pytest.mark.parametrize("rule", ["loo", "cost", "sse", "gcv", "kfold", "norm"])
def test_block_sizes_and_libraries_do_not_change_the_terms(rule, data):
    X, y = data
    G = np.hstack([X, X**2, X[:, :1] * X])
    expected = forward_path(G, y, rule=rule, max_terms=8).terms.tolist()
    for rows in (7, 64, 1000):
        assert forward_path(G, y, rule=rule, max_terms=8, block_rows=rows).terms.tolist() == expected
    for precompute in (True, False, 3):
        assert forward_path(G, y, rule=rule, max_terms=8, precompute=precompute).terms.tolist() == expected
    strict = array_api_strict.asarray(G)
    assert forward_path(strict, y, rule=rule, max_terms=8).terms.tolist() == expected


@pytest.mark.exhaustive
def test_another_process_has_the_same_bits():
    """Whatever the seed of Python's hashes; with two threads of BLAS the same terms."""
    found = []
    for seed, threads in (("1", "1"), ("2", "1"), ("1", "2")):
        setting = {"PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        run = [sys.executable, "-c", PROGRAM]
        found.append(subprocess.run(run, env=os.environ | setting, capture_output=True, text=True, check=True).stdout)
    assert found[0] == found[1]
    assert found[0].split(" ", 1)[1] == found[2].split(" ", 1)[1]
