"""Exact K-fold selection without refits: block inverses of P.

Leaving a fold F out, the residuals on its rows are `P_FF^-1 r_F`, with `P = I - A A'` of the full fit: A is Z, its
columns times the roots of their shrinkage under the orthogonal penalty. With the thin `A_F = U diag(sigma) W'`

    P_FF^-1 = I + U diag(lift) U',    lift = sigma^2 / (1 - sigma^2)

which is Woodbury's formula in a basis where its system is diagonal, of size min(k, |F|). A candidate with `v = P g`
changes P_FF by `-v_F v_F' / den` and r_F by `-v_F c / den`. Let `a = P_FF^-1 r_F` and `w = P_FF^-1 v_F`; then Sherman
and Morrison's formula leaves the residuals

    a - gamma w,    gamma = (c - a'v_F) / (den - v_F'w)

Gamma is the candidate's weight in the fit without the fold, and `den - v_F'w` is `den` without the fold: when that is
nothing beside `w'w`, the other folds cannot tell the weight and the error is infinite. All that is needed of the rows
are `U'v_F`, `a'v_F` and `v_F'v_F`: two matrix products per tile of V for a batch of candidates, O(n p k) in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from termwise._arrays import row_blocks
from termwise._checks import check_indices, check_number
from termwise.selection.blocks import NO_GAP, RowBlock
from termwise.selection.rules import TIE, Choice, Rule
from termwise.selection.state import State

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

TILE_ROWS = 512  # rows of a tile; its columns are as many as the cache takes


class KFoldRule(Rule):
    """Smallest K-fold squared error after adding the candidate; `folds` holds the fold of every row over all blocks."""

    name = "kfold"
    end = "no candidate is left whose weight can be told without each of the folds"

    def __init__(self, folds: NDArray[np.integer]) -> None:
        order = np.argsort(folds, kind="stable")
        self.folds = np.split(order, np.flatnonzero(np.diff(folds[order])) + 1)

    @classmethod
    def build(cls, settings: Any, Y: Floats) -> Self:
        """Take the folds from the settings; splitters that look at the classes get them."""
        return cls(fold_labels(settings.cv, len(Y), Y[:, 0] if Y.shape[1] == 1 else Y.argmax(axis=1)))

    def choose(self, state: State) -> Choice | None:
        """Return the candidate with the smallest error, ties to the lower index."""
        if not state.usable.any():
            return None
        errors = np.where(state.usable, 0.0, np.inf)
        for rows in self.folds:
            fold = _LeftOut(state, rows)
            for batch in row_blocks(len(errors), min(len(rows), TILE_ROWS)):
                errors[batch] += fold.errors(state, batch)
        best = errors.min()
        if not np.isfinite(best):
            return None
        first = int(np.flatnonzero(errors <= best * (1 + TIE))[0])
        return Choice(first, float(errors[first]), int(state.usable.sum()))


class _LeftOut:
    """One fold: its rows in each block, and `P_FF^-1` and `a` of the model so far."""

    def __init__(self, state: State, rows: Rows) -> None:
        self.parts = _rows_of_blocks(state.blocks, rows)
        self.Z = np.vstack([block.Z[own] for block, own in self.parts])
        r = np.vstack([block.r[own] for block, own in self.parts])
        U, sigma, _ = np.linalg.svd(self.Z * np.sqrt(state.shrinkage), full_matrices=False)
        gap = 1 - sigma**2
        self.determined = bool(np.all(gap >= NO_GAP))
        self.lift = sigma**2 / np.maximum(gap, NO_GAP)
        a = r + U @ (self.lift[:, None] * (U.T @ r))
        self.aa, self.ua = np.einsum("ij,ij->j", a, a), U.T @ a
        self.along = np.hstack([U, a])

    def errors(self, state: State, batch: slice) -> Floats:
        """Squared error on this fold of the model with each candidate of a batch added; infinite if undetermined."""
        width = batch.stop - batch.start
        if not self.determined:
            return np.full(width, np.inf)
        along, vv = self._products(np.ascontiguousarray(state.T[:, batch]), batch)
        uv, av = np.split(along, [len(self.lift)])
        squares = uv * uv
        ww = vv + (self.lift * (2 + self.lift)) @ squares
        aw = av + (self.lift[:, None] * self.ua).T @ uv
        rest = state.den[batch] - (vv + self.lift @ squares)
        undetermined = rest < NO_GAP * ww
        gamma = (state.c[batch].T - av) / np.where(undetermined, 1.0, rest)
        total = self.aa.sum() + np.sum(gamma * (gamma * ww - 2 * aw), axis=0)
        return np.where(undetermined, np.inf, np.maximum(total, 0))

    def _products(self, T: Floats, batch: slice) -> tuple[Floats, Floats]:
        """`[U, a]'v_F` and `v_F'v_F` of a batch, one tile of `V = G - Z T` at a time."""
        along, vv = np.zeros((self.along.shape[1], T.shape[1])), np.zeros(T.shape[1])
        start = 0
        for block, own in self.parts:
            G = block.G[:, batch]
            for tile in row_blocks(len(own), T.shape[1]):
                rows = own[tile]
                here = slice(start, start + len(rows))
                V = _scaled_rows(block, G, rows)
                V -= self.Z[here] @ T
                along += self.along[here].T @ V
                vv += np.einsum("ij,ij->j", V, V)
                start += len(rows)
        return along, vv


def _rows_of_blocks(blocks: Sequence[RowBlock], rows: Rows) -> list[tuple[RowBlock, Rows]]:
    """Ascending rows over all blocks as rows of each block that has some of them."""
    starts = np.cumsum([0, *(len(block.Y) for block in blocks)])
    parts = np.split(rows, np.searchsorted(rows, starts[1:-1]))
    return [(block, own - start) for block, own, start in zip(blocks, parts, starts[:-1], strict=True) if len(own)]


def _scaled_rows(block: RowBlock, G: Any, rows: Rows) -> Floats:
    """Some rows, wherever they lie, of a block's columns G: scaled, in float64, as a new array."""
    G = G[rows]
    V = np.asarray(G.toarray() if sp.issparse(G) else G, dtype=np.float64)
    return V if block.root is None else V * block.root[rows, None]


def fold_labels(cv: Any, n: int, Y: Any) -> Rows:
    """Return the fold of each of n rows, for `cv` a number of folds, a splitter or pairs (train, test).

    A number means contiguous folds, as scikit-learn's `KFold(cv)` makes them. The closed form leaves out a fold and
    keeps all other rows, so the test folds must partition the rows and each training set must be all the others.
    """
    if isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        remedy = "give a number of folds, a splitter of scikit-learn's or pairs (train, test)"
        check_number("cv", cv, low=2, below=n + 1, integer=True, remedy=remedy)
        return np.repeat(np.arange(cv), (n + np.arange(cv)[::-1]) // cv)
    return _labels(_splits(cv, n, Y), n, type(cv).__name__)


def _labels(splits: list[tuple[Any, Any]], n: int, name: str) -> Rows:
    """Number of the test fold of each row; raise unless the folds are a partition and the rest is trained on."""
    labels, times, astray = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp), 0
    for number, pair in enumerate(splits):
        train, test = (check_indices("cv", part, n, what="row") for part in pair)
        labels[test] = number
        times[test] += 1
        astray += int(np.sum(np.bincount(np.append(train, test), minlength=n) != 1))
    if np.any(times != 1) or labels.max() == labels.min():
        raise ValueError(
            f"cv must put every row into exactly one of at least two test folds, got {name} with {np.sum(times == 0)} "
            f"of {n} rows in none and {np.sum(times > 1)} in several: use a splitter such as KFold or StratifiedKFold."
        )
    if astray:
        raise ValueError(
            f"cv must train on all rows outside the test fold, got {name} with {astray} rows in both or neither: "
            "use a splitter such as KFold or StratifiedKFold."
        )
    return labels


def _splits(cv: Any, n: int, Y: Any) -> list[tuple[Any, Any]]:
    """The pairs (train, test) of a splitter, or those that were given."""
    if not hasattr(cv, "split"):
        pairs = list(cv)
        if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
            raise ValueError(
                f"cv must hold pairs (train, test) of row numbers, got {type(cv).__name__} of something else: "
                "give list(splitter.split(X, y))."
            )
        return pairs
    try:
        return list(cv.split(np.zeros((n, 1)), Y))
    except ValueError as error:
        raise ValueError(
            f"cv must split {n} rows by itself, got {cv!r}, which says {str(error)!r}: give fewer folds, or the pairs "
            "list(cv.split(X, y, groups)) of a splitter that needs groups."
        ) from error
