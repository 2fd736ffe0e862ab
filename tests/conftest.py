"""Shared problems."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from hypothesis import settings

from termwise import _arrays

settings.register_profile("patient", deadline=None)  # machines are shared: how long an example takes says nothing
settings.load_profile("patient")

needs_data = pytest.mark.skipif(
    not os.environ.get("TERMWISE_DATA"),
    reason="the papers' data are not distributed: set TERMWISE_DATA to their folder",
)


def refuse_large(monkeypatch, most):
    """Let no array of another library come to the host that has more entries than that."""

    def guarded(x, to_host=_arrays.to_host):
        assert isinstance(x, np.ndarray) or np.prod(np.shape(x)) <= most, f"{np.shape(x)} came to the host"
        return to_host(x)

    for name, module in list(sys.modules.items()):
        if name.startswith("termwise") and getattr(module, "to_host", None) is _arrays.to_host:
            monkeypatch.setattr(module, "to_host", guarded)


@pytest.fixture(autouse=True)
def _seed():
    """Draw the same numbers in every run where ``random_state`` is None, which means NumPy's global state."""
    np.random.seed(20)  # noqa: NPY002 -- the global state is what scikit-learn's convention refers to


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture(params=[(40, 7), (12, 30), (15, 15)], ids=["long", "wide", "square"])
def problem(request, rng):
    """A well-conditioned regression problem of each shape."""
    n, p = request.param
    G = rng.normal(size=(n, p)) + 0.5
    return G, G[:, :3] @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=n) + 1.0
