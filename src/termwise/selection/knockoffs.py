"""Knockoffs: copies of the candidates that enter the same path and show how many chosen terms are false.

A knockoff has the same correlations as its candidate with all other columns, but no relation to the targets beyond
these. A candidate without a relation of its own to the targets is as likely to enter after its knockoff as before it,
so that the knockoffs that enter first count the false discoveries (Barber and Candes 2015; Candes, Fan, Janson and Lv
2018).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf

from termwise._numerics import CONSTANT_TOLERANCE, KNOCKOFF_RIDGE

Floats = NDArray[np.float64]

MAX_CANDIDATES = 5000  # beyond, the factors of the (p, p) covariance take minutes and gigabytes


def knockoff_columns(G: Floats, *, fixed: bool, intercept: bool, rng: np.random.Generator) -> Floats:
    """Return one knockoff for each column of G; those of constant columns are constant.

    Parameters
    ----------
    G : array of shape (n, p)
        Candidates.
    fixed : bool
        Fixed-X knockoffs, which need `n >= 2 p`, one more with an intercept; else second-order model-X ones.
    intercept : bool
        Whether the models have an intercept.
    rng : numpy.random.Generator
        Draws the directions of fixed-X knockoffs, and the values of model-X ones.
    """
    means = G.mean(axis=0) if intercept else np.zeros(G.shape[1])
    lengths = np.sqrt(np.sum((G - means) ** 2, axis=0))
    varying = lengths > np.sqrt(CONSTANT_TOLERANCE * np.sum(G**2, axis=0))
    if not varying.any():
        return G.copy()
    columns = (G[:, varying] - means[varying]) / lengths[varying]
    found = fixed_knockoffs(columns, intercept, rng) if fixed else gaussian_knockoffs(columns, rng)
    knockoffs = G.copy()
    knockoffs[:, varying] = means[varying] + lengths[varying] * found
    return knockoffs


def differences(covariance: Floats) -> tuple[Floats, Floats]:
    """Return s, by how much the covariance of a column and its knockoff is below its variance, and `covariance^-1 S`.

    All covariances between columns and knockoffs are possible if `2 covariance - diag(s)` is positive semidefinite. The
    largest multiple of the variances v of each column given all others is taken, `s = v 2 / lambda_max(V^1/2
    covariance^-1 V^1/2)`, but at most the variance. For equal v these are the equicorrelated knockoffs, Barber and
    Candes 2015 (2.4); unlike those, a few dependent columns do not bring all others close to their knockoffs.
    """
    inverse: Floats = sla.inv(covariance + KNOCKOFF_RIDGE * np.eye(len(covariance)))
    v = 1 / np.diagonal(inverse)
    largest = float(sla.eigh(np.sqrt(v)[:, None] * inverse * np.sqrt(v), eigvals_only=True)[-1])
    s = np.minimum(2 * v / largest, np.diagonal(covariance))
    return s, inverse * s


def root(matrix: Floats) -> Floats:
    """Return C with `C'C` the positive semidefinite part of a symmetric matrix."""
    values, vectors = sla.eigh((matrix + matrix.T) / 2)
    return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


def fixed_knockoffs(G: Floats, intercept: bool, rng: np.random.Generator) -> Floats:
    """Knockoffs K with `K'K = G'G` and `G'K = G'G - diag(s)`, Barber and Candes 2015 (2.2) and (2.3).

    `K = G (I - Sigma^-1 diag(s)) + U C` with `Sigma = G'G`, U orthonormal and orthogonal to G and to the intercept.
    """
    n, p = G.shape
    gram = G.T @ G
    mix = np.eye(p) - differences(gram)[1]
    ones = np.ones((n, int(intercept)))
    Q = np.linalg.qr(np.hstack([ones, G, rng.normal(size=(n, p))]))[0]
    return G @ mix + Q[:, -p:] @ root(gram - mix.T @ gram @ mix)


def gaussian_knockoffs(G: Floats, rng: np.random.Generator) -> Floats:
    """Draw knockoffs of Gaussian columns with the shrunk covariance of Ledoit and Wolf, Candes et al. 2018 (3.2).

    Given a row g they have mean `g (I - Sigma^-1 diag(s))` and covariance
    `2 diag(s) - diag(s) Sigma^-1 diag(s)`. Rows of length one stand for n times the covariance.
    """
    n, p = G.shape
    scaled = G * np.sqrt(n)
    covariance = ledoit_wolf(scaled, assume_centered=True)[0]
    s, mix = differences(covariance)
    noise = rng.normal(size=(n, p)) @ root(2 * np.diag(s) - s[:, None] * mix)
    return (scaled - scaled @ mix + noise) / np.sqrt(n)


# -- statistics --------------------------------------------------------------------------------------------------------


def entry_statistics(terms: NDArray[np.intp], p: int) -> Floats:
    """One number per candidate from the order in which `p` candidates and their knockoffs p, p + 1, ... entered.

    One over the place of the first of the pair on the path, negative if that was the knockoff; zero if none entered.
    Exchanging a candidate and its knockoff changes the sign and nothing else, Barber and Candes 2015, definition 2.
    """
    statistics = np.zeros(p)
    for place, term in enumerate(np.asarray(terms).tolist(), start=1):
        if not statistics[term % p]:
            statistics[term % p] = (1 if term < p else -1) / place
    return statistics


def discoveries(statistics: Floats, fdr: float) -> tuple[NDArray[np.intp], float]:
    """Return the candidates that knockoff+ selects, first entered first, and the estimated false discovery proportion.

    As many of the largest statistics as possible with `(1 + negative) / positive <= fdr` among those as large in
    absolute value, Barber and Candes 2015 (1.9). The estimate is nan if none is selected.
    """
    order = np.argsort(-np.abs(statistics), kind="stable")
    order = order[statistics[order] != 0]
    positive = np.cumsum(statistics[order] > 0)
    estimates = (1 + np.arange(1, len(order) + 1) - positive) / np.maximum(positive, 1)
    reached = np.flatnonzero(estimates <= fdr)
    if not len(reached):
        return np.empty(0, dtype=np.intp), np.nan
    selected = order[: reached[-1] + 1]
    return selected[statistics[selected] > 0], float(estimates[reached[-1]])


def out_of_reach(terms: NDArray[np.intp], p: int, fdr: float) -> bool:
    """Whether the estimate would exceed `fdr` on any longer path, even if no other knockoff entered first."""
    statistics = entry_statistics(terms, p)
    negative = np.count_nonzero(statistics < 0)
    return bool(1 + negative > fdr * (p - negative))
