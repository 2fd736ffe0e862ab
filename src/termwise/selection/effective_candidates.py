"""How many candidates are effectively different.

Let the candidates be centred and scaled to unit length, and `sigma_i^2` the eigenvalues of their correlation matrix,
which add up to p: shares `q_i = sigma_i^2 / p` of the variance. A number of equivalent directions is Renyi's

    m = (sum q_i^a)^(1 / (1 - a)),    0 < a < 1

by Jensen's inequality between 1, for copies of one column, and p, for orthogonal ones. What is wanted is the number of
independent candidates the best of which brings as much of pure noise. The best of many lies along weak directions too,
so a must be small: Galwey's number (2009), a = 1/2, is two or three times too small. With a = 1/4 it agrees with the
median of the best, found by simulation, within a factor of two for Gaussians of one to eight inputs, narrow or wide,
and for products of bumps; where it errs it is mostly by less than a third.

The singular values of a few hundred candidates on some rows are enough, for only the logarithm of m matters. Among p'
of p candidates there are m' different ones, among half of those m'': the number grows like a power of the number drawn,
`gamma = log2(m' / m'')` between 0 for copies and 1 for orthogonal candidates, and `m = m' (p / p')^gamma`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import at, to_host
from termwise.execution.local import Executor
from termwise.selection.blocks import Answer, RowBlock

Floats = NDArray[np.float64]

ORDER = 0.25  # a
MOST_ROWS, MOST_CANDIDATES = 1000, 400


def number_of_different(rows: Executor, centred: bool) -> float:
    """Effective number of different candidates, between 1 and p."""
    n, p = sum(rows.lengths), rows.n_candidates
    draw = np.random.default_rng(0)  # evenly spaced ones would beat with the order of products
    picked, some = np.sort(draw.permutation(n)[:MOST_ROWS]), draw.permutation(p)[:MOST_CANDIDATES]
    starts = np.cumsum([0, *rows.lengths])
    bounds = np.searchsorted(picked, starts)
    parts = [(picked[a:b] - start, a) for a, b, start in zip(bounds[:-1], bounds[1:], starts[:-1], strict=True)]
    found = rows.deal(sample, parts, some, len(picked))
    A = unit_columns(found.A, found.counts, centred)
    if not A.shape[1]:
        return float(max(p, 1))
    m = equivalent(A)
    if len(some) == p:
        return m
    gamma = np.clip(np.log2(m / equivalent(A[:, : (A.shape[1] + 1) // 2])), 0, 1)
    return float(min(m * (p / A.shape[1]) ** gamma, p))


@dataclass(frozen=True)
class Sample(Answer):
    """Some rows of some candidates, zeros for rows of other blocks, and how often they count."""

    A: Floats
    counts: Floats


def sample(block: RowBlock, part: tuple[NDArray[np.intp], int], some: NDArray[np.intp], total: int) -> Sample:
    """Put some rows of a block where they belong among all that were picked."""
    own, first = part
    A, counts = np.zeros((total, len(some))), np.zeros(total)
    here = slice(first, first + len(own))
    A[here], counts[here] = to_host(block.G.columns(some, own)), to_host(at(block.counts, own))
    return Sample(A, counts)


def unit_columns(A: Floats, counts: Floats, centred: bool) -> Floats:
    """Columns of unit length, those that vary; rows scaled by the square roots of their weights."""
    size = np.einsum("ij,ij,i->j", A, A, counts)
    if centred:
        A = A - counts @ A / counts.sum()
    A *= np.sqrt(counts)[:, None]
    squares = np.einsum("ij,ij->j", A, A)
    varying = squares > np.finfo(np.float64).eps * size
    return A[:, varying] / np.sqrt(squares[varying])


def equivalent(A: Floats) -> float:
    """Number of equivalent directions of unit columns: `(sum q^a)^(1 / (1 - a))`."""
    q = np.linalg.svd(A, compute_uv=False) ** 2 / A.shape[1]
    return float(np.clip(np.sum(q**ORDER) ** (1 / (1 - ORDER)), 1, A.shape[1]))
