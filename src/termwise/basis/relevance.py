"""How much each input matters to distances between samples, learned from the targets.

Targets are taken for a straight line plus a smooth function plus noise: a Gaussian process with the covariance

    C = 1 + a Z Z' / d + s exp(-sum_j r_j^2 (z_j - z'_j)^2) + v I,

Z (n, d) being the standardised inputs. The relevances r that make the targets most probable are near zero for inputs
that do not matter ("automatic relevance determination": MacKay 1994, Neal 1996; the formulas are in Rasmussen and
Williams 2006, section 5.4). All numbers are positive and are looked for by their logarithms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.optimize import minimize

from termwise.design.kernel import one_thread

Floats = NDArray[np.float64]

ROWS = 350  # samples that are looked at: the time grows with their cube
STEPS, LITTLE = 50, 1e-4  # most steps of the search, and the gain, relative to the value, after which it ends
MEMORY = 20  # steps it remembers
SPREAD = 10.0**0.5  # of log r^2 around their mean, before any target is seen: inputs are alike, if not very much so
LIMITS = {"r^2": (-12.0, 3.0), "s": (-6.0, 6.0), "a": (-8.0, 6.0), "v": (-9.0, 2.0)}  # of the logarithms
FADED = 0.1  # an input that moves no sample by more, in widths, changes no Gaussian by more than a hundredth
DIGITS = 3  # of a relevance: what rounding does to a search must not be seen


def relevances(X: Floats, Y: Floats) -> Floats:
    """Return `r` per unit of each input, for inputs (n, d) none of which is constant and targets (n, q).

    Equal samples count once, and their order does not matter.
    """
    both, d = np.unique(np.column_stack([X, Y]), axis=0), X.shape[1]
    some = np.random.RandomState(0).permutation(len(both))[:ROWS]  # even steps might be those of a designed experiment
    extent, both = np.ptp(X, axis=0), both[some]
    flat = both.min(axis=0) == both.max(axis=0)  # what varies, varies elsewhere
    spread = np.where(flat, np.append(extent, np.ones(Y.shape[1])), both.std(axis=0))
    Z, Y = np.split((both - both.mean(axis=0)) / spread, [d], axis=1)
    start = np.append(np.full(d, -np.log(2 * d)), [0.0, 0.0, np.log(0.5)])
    limits = [LIMITS["r^2"]] * d + [LIMITS[name] for name in ("s", "a", "v")]
    options = {"maxiter": STEPS, "ftol": LITTLE, "maxcor": MEMORY}
    with one_thread():  # of so few samples, threads would wait for each other
        found = minimize(surprise, start, (Z, Y), "L-BFGS-B", jac=True, bounds=limits, options=options)
    r = np.array([float(f"{value:.{DIGITS}g}") for value in np.exp(found.x[:d] / 2)]) / spread[:d]
    matters = r * extent > FADED
    return np.where(matters, r, 0.0) if matters.any() else r


def surprise(logs: Floats, Z: Floats, Y: Floats) -> tuple[float, Floats]:
    """Minus the logarithm of the probability of Y and of the relevances, and its gradient.

    With `2 W = q C^-1 - C^-1 Y Y' C^-1` the derivative by any parameter t is `sum(W * dC/dt)`. All are symmetric: W has
    only the part above the diagonal here, and half of the diagonal, twice.
    """
    (n, d), q = Z.shape, Y.shape[1]
    r2, (s, a, v) = np.exp(logs[:d]), np.exp(logs[d:])
    diagonal = np.diag_indices(n)
    smooth = s * np.exp(-squared_distances(Z * np.sqrt(r2)))
    C = smooth + (a / d * Z) @ Z.T
    C += 1.0
    C[diagonal] += v
    root, _ = dpotrf(C.T, lower=1, overwrite_a=1)
    T = dpotrs(root, Y, lower=1)[0]
    value = np.sum(Y * T) / 2 + q * np.log(np.diag(root)).sum()
    W = q * dpotri(root, lower=1, overwrite_c=1)[0].T - np.triu(T @ T.T)
    W[diagonal] /= 2
    by_a, by_v = a / d * np.einsum("ij,ij->", Z, W @ Z), v * np.trace(W)
    W *= smooth
    by_s = W.sum()
    W[diagonal] = 0.0
    by_r2 = r2 * (2 * np.einsum("ij,ij->j", Z, W @ Z) - (W.sum(axis=0) + W.sum(axis=1)) @ (Z * Z))
    away = logs[:d] - logs[:d].mean()
    value += away @ away / (2 * SPREAD**2)
    return value, np.append(by_r2 + away / SPREAD**2, [by_s, by_a, by_v])


def squared_distances(Z: Floats) -> Floats:
    """Between all rows, (n, n)."""
    squares = np.einsum("ij,ij->i", Z, Z)
    D = -2 * Z @ Z.T
    D += squares
    D += squares[:, None]
    return np.maximum(D, 0.0, out=D)
