"""Knots at the thresholds of boosted regression trees, which are where the targets change."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import column_order, different_rows, evenly
from termwise.basis.shapes import find_knots

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# A short run of boosting with small trees, on few rows: it only has to find places, in less time than a path takes.
N_TREES, LEARNING_RATE, DEPTH, MAX_ROWS = 30, 0.3, 3, 4000
MAX_PLACES = 255  # possible thresholds of an input
MAX_OUTPUTS = 10  # of more outputs, the principal components
EQUAL_GAINS = 1 - 1e-10  # of the largest: splits that differ by the rounding of sums are equally good
MIN_DISTANCE = 0.02  # share of the samples between two knots of an input: closer thresholds are of one change


def tree_knots(X: Floats, Y: Floats, n_knots: int, min_count: float) -> list[Floats]:
    """Return knots of every input, ascending: the thresholds of boosted regression trees that reduce the error most.

    Thresholds are ranked by the squared error that all splits at them remove; of those of an input that less than
    `MIN_DISTANCE` of the samples separates, only the best is a knot.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs, perhaps with missing values.
    Y : ndarray of shape (n, q)
        Targets.
    n_knots : int
        Number of knots, of all inputs together.
    min_count : float
        Number of samples on either side of each split.
    """
    rows = different_rows(np.column_stack([X, Y]))  # weights are unknown here: duplicates must not matter
    rows = rows[evenly(len(rows), MAX_ROWS)]
    columns = column_order(X[rows])  # of splits that are equally good the first is taken
    X = X[:, columns]
    X, Y = X[rows], (Y[rows] - Y[rows].mean(axis=0)) / np.maximum(Y[rows].std(axis=0), np.finfo(np.float64).tiny)
    if Y.shape[1] > MAX_OUTPUTS:
        Y = Y @ np.linalg.svd(Y, full_matrices=False)[2][:MAX_OUTPUTS].T
    places = [find_knots(x[~np.isnan(x)], MAX_PLACES, min_count) for x in X.T]
    bins = np.column_stack([np.searchsorted(own, x) for own, x in zip(places, X.T, strict=True)])
    bins[np.isnan(X)] = MAX_PLACES + 1  # above every threshold
    gains = boosted_gains(bins, np.array(list(map(len, places))), Y, min_count)
    knots: list[list[float]] = [[] for _ in places]
    below: list[list[int]] = [[] for _ in places]  # samples below each knot
    for place in np.argsort(-gains, axis=None, kind="stable")[: np.count_nonzero(gains)]:
        j, k = divmod(int(place), MAX_PLACES)
        count = int(np.count_nonzero(bins[:, j] <= k))
        if all(abs(count - other) >= MIN_DISTANCE * len(X) for other in below[j]):
            knots[j].append(float(places[j][k]))
            below[j].append(count)
        if sum(map(len, knots)) == n_knots:
            break
    return [np.sort(np.array(knots[j], dtype=np.float64)) for j in np.argsort(columns)]


def boosted_gains(bins: Indices, n_places: Indices, Y: Floats, min_count: float) -> Floats:
    """Return the squared error that boosted trees remove at each possible threshold, (d, `MAX_PLACES`).

    Every tree of `DEPTH` levels is fitted to the residuals of those before it (Friedman 2001), from histograms of the
    inputs, in a few milliseconds: splitting a node with n samples and sums of residuals S into l and n - l samples
    removes `s^2 / l + (S - s)^2 / (n - l) - S^2 / n`.

    Parameters
    ----------
    bins : (n, d), how many of the possible thresholds of an input its value is above; `MAX_PLACES` + 1: missing.
    n_places : (d,), number of possible thresholds.
    Y : (n, q), targets with mean zero.
    min_count : number of samples on either side of each split.
    """
    (n, d), size = bins.shape, MAX_PLACES + 2
    gains, residuals, samples = np.zeros((d, MAX_PLACES)), Y.copy(), np.arange(n)
    allowed = np.arange(MAX_PLACES) < n_places[:, None]
    cells = bins + size * np.arange(d)
    for _ in range(N_TREES):
        node, repeated = np.zeros(n, dtype=np.intp), [np.repeat(r, d) for r in residuals.T]
        for level in range(DEPTH):
            shape, cell = (2**level, d, size), (cells + d * size * node[:, None]).ravel()
            counts = np.bincount(cell, minlength=2**level * d * size).reshape(shape).cumsum(axis=2)
            left, total = counts[..., :MAX_PLACES], counts[..., -1:]
            removed = np.zeros(left.shape)
            with np.errstate(divide="ignore", invalid="ignore"):  # empty nodes have no split
                for r in repeated:
                    sums = np.bincount(cell, r, minlength=counts.size).reshape(shape).cumsum(axis=2)
                    s, S = sums[..., :MAX_PLACES], sums[..., -1:]
                    removed += s**2 / left + (S - s) ** 2 / (total - left) - S**2 / total
            removed[~(allowed & (left >= max(1.0, min_count)) & (total - left >= max(1.0, min_count)))] = 0.0
            removed = removed.reshape(2**level, -1)
            best = (removed >= EQUAL_GAINS * removed.max(axis=1, keepdims=True)).argmax(axis=1)
            gain = removed[np.arange(2**level), best]
            np.add.at(gains.ravel(), best, gain)
            j, k = best // MAX_PLACES, np.where(gain > 0, best % MAX_PLACES, size)  # else the node stays whole
            node = 2 * node + (bins[samples, j[node]] > k[node])
        means = [np.bincount(node, r, minlength=2**DEPTH) for r in residuals.T] / np.maximum(
            np.bincount(node, minlength=2**DEPTH), 1
        )
        residuals -= LEARNING_RATE * means.T[node]
    return gains
