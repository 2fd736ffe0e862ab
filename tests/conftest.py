"""Shared problems."""

from __future__ import annotations

import os

import numpy as np
import pytest

needs_data = pytest.mark.skipif(
    not os.environ.get("TERMWISE_DATA"),
    reason="the papers' data are not distributed: set TERMWISE_DATA to their folder",
)


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture(params=[(40, 7), (12, 30), (15, 15)], ids=["long", "wide", "square"])
def problem(request, rng):
    """A well-conditioned regression problem of each shape."""
    n, p = request.param
    G = rng.normal(size=(n, p)) + 0.5
    return G, G[:, :3] @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=n) + 1.0
