"""Data of known structure for `forward` and `gpu`: how many terms are true, and how the columns depend on each other.

The work of exact selection depends on the data: terms beyond the true ones change the error little, so that bounds
exclude fewer candidates, and so do correlated columns. Each regime is drawn in float32; float64 runs have the same
numbers, so that times and choices of both types are comparable.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from termwise import AnovaBasis, RadialBasis
from termwise.datasets import load

BLOCK = 50  # columns with a common factor
CORRELATIONS: dict[str, tuple[float, str, float]] = {  # share of true terms among those taken, structure, correlation
    "all-true": (1.0, "independent", 0.0),
    "half-true": (0.5, "independent", 0.0),
    "none-true": (0.0, "independent", 0.0),
    "blocks-0.5": (0.5, "blocks", 0.5),
    "blocks-0.9": (0.5, "blocks", 0.9),
    "ar-0.9": (0.5, "autoregressive", 0.9),
}
GAUSSIANS, PRODUCTS = "gaussians", "products"
REGIMES = [*CORRELATIONS, GAUSSIANS, PRODUCTS]
TABLE, TABLE_TERMS = "puma8NH", 40  # of PRODUCTS

Normal = Callable[..., Any]  # normal(seed, *shape): standard normal numbers of some array library, in float32


def arguments(description: str | None, cases: Iterable[str], sizes: list[str]) -> argparse.ArgumentParser:
    """Return the parser of a benchmark that has some cases of its own beside the regimes, which have these sizes."""
    parser, every = argparse.ArgumentParser(description=description), [*cases, "regimes"]
    parser.add_argument("--repeats", type=int, default=5, help="how often to run each; the best counts")
    parser.add_argument("--small", action="store_true", help="sizes for a quick look")
    parser.add_argument("--cases", nargs="+", choices=every, default=every, metavar="CASE")
    parser.add_argument("--regimes", nargs="+", choices=REGIMES, default=REGIMES, metavar="REGIME")
    parser.add_argument("--sizes", nargs="+", choices=sizes, default=sizes, metavar="SIZE", help="of the regimes")
    return parser


def host_normal(seed: int, *shape: int) -> np.ndarray:
    """Standard normal numbers of NumPy."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def draw(regime: str, n: int, p: int, terms: int, normal: Normal = host_normal, xp: Any = np) -> tuple[Any, Any]:
    """Return a design matrix (n, p) and a target in the library of `normal`, whose functions are in `xp`.

    Noise has half the standard deviation of the signal, or 1 without one.
    """
    if regime == GAUSSIANS:
        return _gaussians(n, p, normal, xp)
    true, structure, correlation = CORRELATIONS[regime]
    G, y = normal(0, n, p), normal(1, n)
    if structure == "blocks":
        for start in range(0, p, BLOCK):
            columns = G[:, start : start + BLOCK]
            columns *= (1 - correlation) ** 0.5
            columns += correlation**0.5 * normal(100 + start, n, 1)
    elif structure == "autoregressive":
        G[:, 1:] *= (1 - correlation**2) ** 0.5
        for j in range(1, p):
            G[:, j] += correlation * G[:, j - 1]
    rng = np.random.default_rng(0)
    signal = 0 * y
    for j in rng.permutation(p)[: int(true * terms)]:
        signal += float(rng.choice([-1, 1]) * rng.uniform(0.5, 2)) * G[:, int(j)]
    return G, signal + y * (float(signal.std()) / 2 if true else 1.0)


def _gaussians(n: int, p: int, normal: Normal, xp: Any) -> tuple[Any, Any]:
    """Return Gaussians of eight inputs on the first p samples, and a smooth target of three of the inputs."""
    X = normal(0, max(n, p), 8)
    G = RadialBasis(width=3.0, centers=X[:p]).fit(X).transform(X[:n])
    signal = xp.sin(X[:n, 0] * X[:n, 1]) + X[:n, 2]
    return G, signal + 0.5 * normal(1, n)


def products() -> tuple[np.ndarray, np.ndarray] | None:
    """Return pairwise products of bumps of a real table's inputs, or None if the folder of the data is not set."""
    if not os.environ.get("TERMWISE_DATA"):
        return None
    table = load(TABLE)
    X = StandardScaler().fit_transform(table.data)
    return AnovaBasis().fit(X).transform(X).astype(np.float32), table.target.astype(np.float32)
