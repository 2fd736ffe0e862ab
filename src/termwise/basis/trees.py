"""Boosted regression trees, whose splits are where the targets change: for knots and for rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import column_order, different_rows, evenly
from termwise.basis.shapes import find_knots

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

MAX_ROWS = 4000  # rows that trees are grown on: they only have to find places
MAX_OUTPUTS = 10  # of more outputs, the principal components
MIN_DISTANCE = 0.02  # share of the samples between two knots of an input: closer thresholds are of one change
EQUAL_GAINS = 1 - 1e-10  # of the largest: splits that differ by the rounding of sums are equally good
SPLIT_ROUNDING = 1e-12  # of the squared targets: a split that removes less of the squared error removes nothing


@dataclass(frozen=True)
class TreeSettings:
    """How trees are grown."""

    n_trees: int
    learning_rate: float
    depth: int
    max_places: int  # possible thresholds of an input
    min_count: float  # samples on either side of a split


def knot_trees(min_count: float) -> TreeSettings:
    """Return the settings of trees that find knots: a short run, in less time than a path takes."""
    return TreeSettings(30, 0.3, 3, 255, min_count)


class Split(NamedTuple):
    """How the nodes of one level of a tree are split: a sample is right of a split if its input is above the place."""

    inputs: Indices  # (nodes,)
    places: Indices  # (nodes,), numbers of thresholds
    gains: Floats  # (nodes,), squared error that the split removes; 0 for a node that stays whole


@dataclass(frozen=True)
class BinnedInputs:
    """Distinct samples with the inputs in bins between possible thresholds, and standardised targets.

    Of splits that are equally good the first is taken: the inputs are in an order that depends on their values alone.
    """

    columns: Indices  # (d,), numbers of the inputs in that order
    places: list[Floats]  # possible thresholds of each input
    bins: Indices  # (n, d), how many of the thresholds a value is above; one more than all of them: missing
    Y: Floats  # (n, q)
    settings: TreeSettings

    @classmethod
    def from_samples(cls, X: Floats, Y: Floats, settings: TreeSettings) -> BinnedInputs:
        """Choose the thresholds from the samples; weights are unknown here, so that duplicates must not matter."""
        rows = different_rows(np.column_stack([X, Y]))
        rows = rows[evenly(len(rows), MAX_ROWS)]
        columns = column_order(X[rows])
        X, Y = (
            X[np.ix_(rows, columns)],
            (Y[rows] - Y[rows].mean(axis=0)) / np.maximum(Y[rows].std(axis=0), np.finfo(np.float64).tiny),
        )
        if Y.shape[1] > MAX_OUTPUTS:
            Y = Y @ np.linalg.svd(Y, full_matrices=False)[2][:MAX_OUTPUTS].T
        places = [find_knots(x[~np.isnan(x)], settings.max_places, settings.min_count) for x in X.T]
        bins = np.column_stack([np.searchsorted(own, x) for own, x in zip(places, X.T, strict=True)])
        bins[np.isnan(X)] = settings.max_places + 1  # above every threshold
        return cls(columns, places, bins, Y, settings)

    def boost(self) -> Iterator[list[Split]]:
        """Yield trees, each a list of the splits of its levels.

        Every tree is fitted to the residuals of those before it (Friedman 2001), from histograms of the inputs, in a
        few milliseconds: splitting a node with n samples and sums of residuals S into l and n - l samples removes
        `s^2 / l + (S - s)^2 / (n - l) - S^2 / n`.
        """
        (n, d), settings, most = self.bins.shape, self.settings, self.settings.max_places
        size, least = most + 2, max(1.0, settings.min_count)
        residuals, samples = self.Y.copy(), np.arange(n)
        rounding = SPLIT_ROUNDING * float(np.sum(residuals**2))
        allowed = np.arange(most) < np.array(list(map(len, self.places)))[:, None]
        cells = self.bins + size * np.arange(d)
        for _ in range(settings.n_trees):
            node, repeated = np.zeros(n, dtype=np.intp), [np.repeat(r, d) for r in residuals.T]
            levels = []
            for level in range(settings.depth):
                shape, cell = (2**level, d, size), (cells + d * size * node[:, None]).ravel()
                counts = np.bincount(cell, minlength=2**level * d * size).reshape(shape).cumsum(axis=2)
                left, total = counts[..., :most], counts[..., -1:]
                removed = np.zeros(left.shape)
                with np.errstate(divide="ignore", invalid="ignore"):  # empty nodes have no split
                    for r in repeated:
                        sums = np.bincount(cell, r, minlength=counts.size).reshape(shape).cumsum(axis=2)
                        s, S = sums[..., :most], sums[..., -1:]
                        removed += s**2 / left + (S - s) ** 2 / (total - left) - S**2 / total
                removed[~(allowed & (left >= least) & (total - left >= least))] = 0.0
                each = removed.reshape(2**level, -1)
                best = (each >= EQUAL_GAINS * each.max(axis=1, keepdims=True)).argmax(axis=1)
                gains = each[np.arange(2**level), best]
                split = Split(best // most, best % most, np.where(gains > rounding, gains, 0.0))
                levels.append(split)
                threshold = np.where(split.gains > 0, split.places, size)  # else the node stays whole
                node = 2 * node + (self.bins[samples, split.inputs[node]] > threshold[node])
            leaves = 2**settings.depth
            totals = np.stack([np.bincount(node, r, minlength=leaves) for r in residuals.T])
            residuals -= settings.learning_rate * (totals / np.maximum(np.bincount(node, minlength=leaves), 1)).T[node]
            yield levels


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
    binned = BinnedInputs.from_samples(X, Y, knot_trees(min_count))
    most = binned.settings.max_places
    gains = np.zeros((X.shape[1], most))
    for levels in binned.boost():
        for split in levels:
            np.add.at(gains, (split.inputs, split.places), split.gains)
    n = len(binned.bins)
    knots: list[list[float]] = [[] for _ in binned.columns]
    below: list[list[int]] = [[] for _ in binned.columns]  # samples below each knot
    for place in np.argsort(-gains, axis=None, kind="stable")[: np.count_nonzero(gains)]:
        j, k = divmod(int(place), most)
        count = int(np.count_nonzero(binned.bins[:, j] <= k))
        if all(abs(count - other) >= MIN_DISTANCE * n for other in below[j]):
            knots[j].append(float(binned.places[j][k]))
            below[j].append(count)
        if sum(map(len, knots)) == n_knots:
            break
    return [np.sort(np.array(knots[j], dtype=np.float64)) for j in np.argsort(binned.columns)]
