"""Boosted regression trees, whose splits are where the targets change: for knots and for rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
    max_thresholds: int  # of an input
    min_count: float = 1.0  # samples on either side of a split


KNOT_TREES = TreeSettings(30, 0.3, 3, 255)  # a short run that finds knots, in less time than a path takes


class Split(NamedTuple):
    """How the nodes of one level of a tree are split: a sample is right of a split if its input is above a threshold.

    The threshold with the number k is the upper end of bin k.
    """

    inputs: Indices  # (nodes,)
    bins: Indices  # (nodes,), the last bin on the left
    gains: Floats  # (nodes,), squared error that the split removes; 0 for a node that stays whole


@dataclass(frozen=True)
class BinnedInputs:
    """Distinct samples with the inputs in bins between possible thresholds, and standardised targets.

    Of splits that are equally good the first is taken: the inputs are in an order that depends on their values alone.
    """

    columns: Indices  # (d,), numbers of the inputs in that order
    thresholds: list[Floats]  # possible ones of each input
    bins: Indices  # (n, d), how many of the thresholds a value is above; one more than all of them: missing
    Y: Floats  # (n, q)
    settings: TreeSettings

    @classmethod
    def from_samples(cls, X: Floats, Y: Floats, settings: TreeSettings) -> BinnedInputs:
        """Choose the thresholds from the samples; weights are unknown here, so that duplicates must not matter."""
        rows = different_rows(np.column_stack([X, Y]))
        rows = rows[evenly(len(rows), MAX_ROWS)]
        columns = column_order(X[rows])
        X, Y = X[np.ix_(rows, columns)], Y[rows]
        Y = (Y - Y.mean(axis=0)) / np.maximum(Y.std(axis=0), np.finfo(np.float64).tiny)
        if Y.shape[1] > MAX_OUTPUTS:
            Y = Y @ np.linalg.svd(Y, full_matrices=False)[2][:MAX_OUTPUTS].T
        thresholds = [find_knots(x[~np.isnan(x)], settings.max_thresholds, settings.min_count) for x in X.T]
        bins = np.column_stack([np.searchsorted(own, x) for own, x in zip(thresholds, X.T, strict=True)])
        bins[np.isnan(X)] = settings.max_thresholds + 1  # above every threshold
        return cls(columns, thresholds, bins, Y, settings)

    def boost(self) -> Iterator[list[Split]]:
        """Yield trees, each a list of the splits of its levels.

        Every tree is fitted to the residuals of those before it (Friedman 2001), from histograms of the inputs, in
        about a millisecond: splitting a node with n samples and sums of residuals S into l and n - l samples removes
        `s^2 / l + (S - s)^2 / (n - l) - S^2 / n`.
        """
        n, settings, histograms = len(self.bins), self.settings, Histograms.from_bins(self.bins, self.thresholds)
        least, whole, leaves = max(1.0, settings.min_count), settings.max_thresholds + 2, 2**settings.depth
        residuals, samples = self.Y.copy(), np.arange(n)
        rounding = SPLIT_ROUNDING * float(np.sum(residuals**2))
        if not len(histograms.inputs):
            return  # no input has a threshold
        for _ in range(settings.n_trees):
            node, levels = np.zeros(n, dtype=np.intp), []
            for level in range(settings.depth):
                cells = histograms.cells + histograms.n_cells * node[histograms.rows]
                left, total = histograms.sums_below(node, cells, 2**level)
                removed = np.zeros(left.shape)
                with np.errstate(divide="ignore", invalid="ignore"):  # empty nodes have no split
                    for r in residuals.T:
                        s, S = histograms.sums_below(node, cells, 2**level, r)
                        removed += s**2 / left + (S - s) ** 2 / (total - left) - S**2 / total
                removed[~((left >= least) & (total - left >= least))] = 0.0
                best = (removed >= EQUAL_GAINS * removed.max(axis=1, keepdims=True)).argmax(axis=1)
                gains = removed[np.arange(2**level), best]
                split = Split(histograms.inputs[best], histograms.bins[best], np.where(gains > rounding, gains, 0.0))
                levels.append(split)
                last = np.where(split.gains > 0, split.bins, whole)  # else the node stays whole
                node = 2 * node + (self.bins[samples, split.inputs[node]] > last[node])
            totals = np.stack([np.bincount(node, r, minlength=leaves) for r in residuals.T])
            residuals -= settings.learning_rate * (totals / np.maximum(np.bincount(node, minlength=leaves), 1)).T[node]
            yield levels


@dataclass(frozen=True)
class Histograms:
    """Histograms of all inputs side by side, a cell for every bin.

    The most frequent bin of an input is what the others leave of a node. Only samples in the other bins are counted, a
    small part of those of indicators.
    """

    rows: Indices  # (m,), samples that are not in the most frequent bin of an input
    cells: Indices  # (m,), their cells
    starts: Indices  # (d,), the first cell of each input
    frequent: Indices  # (d,), the cell of its most frequent bin
    n_cells: int
    inputs: Indices  # (p,), the input of every possible threshold
    bins: Indices  # (p,), the last of its bins below the threshold

    @classmethod
    def from_bins(cls, bins: Indices, thresholds: list[Floats]) -> Histograms:
        """Number the cells of bins, (n, d), between the thresholds of each input; missing values have the last cell."""
        counts = list(map(len, thresholds))
        sizes = np.array(counts) + 2
        starts = np.cumsum(sizes) - sizes
        cells = starts + np.minimum(bins, sizes - 1)
        frequent = np.array([np.bincount(column).argmax() for column in cells.T])
        rows, columns = np.nonzero(cells != frequent)
        inputs = np.repeat(np.arange(len(sizes)), counts)
        last = np.arange(len(inputs)) - np.repeat(np.cumsum(counts) - counts, counts)
        return cls(rows, cells[rows, columns], starts, frequent, int(sizes.sum()), inputs, last)

    def sums_below(
        self, node: Indices, cells: Indices, n_nodes: int, values: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Sum the values of the samples of each node below every threshold, (nodes, p), and of all, (nodes, 1).

        Without values, count the samples. `node`, (n,), is that of each sample; in `cells`, (m,), those of each node
        come after those of the last.
        """
        own = None if values is None else values[self.rows]
        sums = np.bincount(cells, own, minlength=n_nodes * self.n_cells).reshape(n_nodes, self.n_cells)
        sums = sums.astype(np.float64, copy=False)
        total = np.bincount(node, values, minlength=n_nodes).astype(np.float64)[:, None]
        sums[:, self.frequent] = total - np.add.reduceat(sums, self.starts, axis=1)
        below = np.cumsum(sums, axis=1)  # every input adds the total of the node
        return below[:, self.starts[self.inputs] + self.bins] - self.inputs * total, total


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
    binned = BinnedInputs.from_samples(X, Y, replace(KNOT_TREES, min_count=min_count))
    gains = np.zeros((X.shape[1], KNOT_TREES.max_thresholds))
    for levels in binned.boost():
        for split in levels:
            np.add.at(gains, (split.inputs, split.bins), split.gains)
    n = len(binned.bins)
    knots: list[list[float]] = [[] for _ in binned.columns]
    below: list[list[int]] = [[] for _ in binned.columns]  # samples below each knot
    for place in np.argsort(-gains, axis=None, kind="stable")[: np.count_nonzero(gains)]:
        j, k = divmod(int(place), KNOT_TREES.max_thresholds)
        count = int(np.count_nonzero(binned.bins[:, j] <= k))
        if all(abs(count - other) >= MIN_DISTANCE * n for other in below[j]):
            knots[j].append(float(binned.thresholds[j][k]))
            below[j].append(count)
        if sum(map(len, knots)) == n_knots:
            break
    return [np.sort(np.array(knots[j], dtype=np.float64)) for j in np.argsort(binned.columns)]
