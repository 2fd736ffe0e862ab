"""Exact K-fold selection without refits: block inverses of P.

Leaving a fold F out, the residuals on its rows are `P_FF^-1 r_F`, with `P = I - A A'` of the full fit: A is Z, its
columns times the roots of their filter factors under the orthogonal penalty. With `A_F'A_F = W diag(sigma^2) W'`

    P_FF^-1 = I + A_F W diag(1/gap) W'A_F',    gap = 1 - sigma^2

which is Woodbury's formula in a basis where its system is diagonal. A candidate with `v = P g` changes P_FF by
`-v_F v_F' / den` and r_F by `-v_F c / den`. Let `a = P_FF^-1 r_F` and `w = P_FF^-1 v_F`; then Sherman and Morrison's
formula leaves the residuals

    a - gamma w,    gamma = (c - a'v_F) / (den - v_F'w)

Gamma is the candidate's weight in the fit without the fold, and `den - v_F'w` is `den` without the fold: when that is
negligible relative to `w'w`, the other folds do not determine the weight and the error is infinite. With
`f = W'A_F'r_F` and `e = W'A_F'v_F`, and since `P_FF^-2 = I + A_F W diag((1 + 1/gap) / gap) W'A_F'`,

    a'v = r'v + f'(e / gap)    v'w = v'v + e'(e / gap)    w'w = v'v + e'(e (1 + 1/gap) / gap), a'a and a'w alike:

the rows enter only through `A_F'A_F`, `A_F'r_F` and `r_F'r_F` for every fold, then `[A_F W, r_F]'v_F` and
`v_F'v_F`: two matrix products per tile of V for a batch of candidates, O(n p k) in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, at, column_squares, fetch, from_host, namespace, row_blocks, to_host, zeros
from termwise._checks import check_number, check_pair, is_one_of
from termwise._numerics import LEVERAGE_GAP_MIN, TIE_TOLERANCE
from termwise.selection.blocks import Executor, PartialSums, RowBlock, mutates
from termwise.selection.rules import Choice, Rule
from termwise.selection.state import State

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

TILE_ROWS = 512  # rows of a tile; its columns are as many as the cache takes
MAX_RESULT_ENTRIES = 1 << 20  # that a block returns at a time


class KFoldRule(Rule):
    """Smallest K-fold squared error after adding the candidate; `folds` holds the fold of every row over all blocks.

    Pahikkala et al. 2010, section V, leave this rule to future work.
    """

    name = "kfold"
    follows_cost = True
    end = "no candidate is left whose weight is identified when any fold is left out"

    def __init__(self, folds: NDArray[np.integer], tile_rows: int = TILE_ROWS) -> None:
        names, self.labels = np.unique(folds, return_inverse=True)
        self.count, self.tile_rows = len(names), tile_rows
        self.rows: Executor | None = None  # whose blocks have their folds

    @classmethod
    def build(cls, settings: Any, rows: Executor) -> Self:
        """Take the folds from the settings; splitters that use the classes get them."""

        def classes() -> NDArray[Any]:
            return classes_of(np.concatenate(list(rows.map(RowBlock.targets))))

        return cls(fold_labels(settings.cv, sum(rows.lengths), classes))

    def choose(self, state: State) -> Choice | None:
        """Return the candidate with the smallest error, ties to the lower index."""
        eligible = to_host(state.eligible)
        if not eligible.any():
            return None
        if self.rows is not state.rows:
            self.rows = state.rows
            parts = np.split(self.labels, np.cumsum(self.rows.lengths)[:-1])
            self.rows.reduce(set_folds, self.count, parts=parts)
        errors = np.where(eligible, 0.0, np.inf)
        batches = list(row_blocks(len(errors), min(len(self.labels) // self.count, self.tile_rows)))
        k = state.k + state.q
        at_a_time = max(1, MAX_RESULT_ENTRIES // (k * max(k, batches[0].stop)))
        for first in range(0, self.count, at_a_time):
            folds = range(first, min(first + at_a_time, self.count))
            for batch, found in zip(batches, left_out_errors(state, folds, batches), strict=True):
                errors[batch] += found
        best = errors.min()
        if not np.isfinite(best):
            return None
        first = int(np.flatnonzero(errors <= best * (1 + TIE_TOLERANCE))[0])
        return Choice(first, float(errors[first]), int(eligible.sum()))


def left_out_errors(state: State, folds: range, batches: list[slice]) -> Iterator[Floats]:
    """Squared errors on some folds of the model with each candidate of a batch added; infinite if undetermined.

    L is W with its rows shrunk; `once` and `twice` are the factors of `P_FF^-1` and `P_FF^-2`.
    """
    q, shrink = state.q, np.sqrt(state.filter_factors)
    zz, zr, rr = fetch(*state.rows.reduce(model_products, folds))
    sigma2, W = np.linalg.eigh(shrink[:, None] * zz * shrink)
    gap, L = 1 - sigma2, shrink[:, None] * W
    once = 1 / np.maximum(gap, LEVERAGE_GAP_MIN)
    twice, f = (1 + once) * once, L.mT @ zr
    aa = np.sum(rr, axis=1) + np.einsum("fiq,fiq,fi->f", f, f, twice)
    for batch in batches:
        if np.any(gap < LEVERAGE_GAP_MIN):
            yield np.full(batch.stop - batch.start, np.inf)
            continue
        along, vv = fetch(*state.rows.reduce(candidate_products, folds, L, state.T[:, batch], batch))
        e, rv, vv = along[:, :-q], along[:, -q:], vv[:, None]
        squares = e * e
        ww = vv + twice[:, None] @ squares
        av = rv + (once[:, :, None] * f).mT @ e
        aw = rv + (twice[:, :, None] * f).mT @ e
        rest = to_host(state.den[batch]) - (vv + once[:, None] @ squares)
        undetermined = rest < LEVERAGE_GAP_MIN * ww
        gamma = (to_host(state.c[batch, :]).T - av) / np.where(undetermined, 1.0, rest)
        total = aa[:, None] + np.sum(gamma * (gamma * ww - 2 * aw), axis=1)
        yield np.where(undetermined[:, 0], np.inf, np.maximum(total, 0)).sum(axis=0)


# -- on the rows of a block --------------------------------------------------------------------------------------------


@mutates
def set_folds(block: RowBlock, labels: Indices, count: int) -> int:
    """Store the rows of each fold in a block."""
    order = np.argsort(labels, kind="stable")
    block.folds = np.split(order, np.searchsorted(labels[order], np.arange(1, count)))
    return 0


def model_products(block: RowBlock, folds: range) -> PartialSums:
    """`Z'Z` (folds, k, k), `Z'r` (folds, k, q) and `r'r` (folds, q) on the rows of some folds."""
    stack, parts = namespace(block.Y).stack, [block.folds[f] for f in folds]
    Zs, rs = [at(block.Z, own) for own in parts], [at(block.r, own) for own in parts]
    zr = stack([Z.T @ r for Z, r in zip(Zs, rs, strict=True)])
    return PartialSums((stack([Z.T @ Z for Z in Zs]), zr, stack([column_squares(r) for r in rs])))


def candidate_products(block: RowBlock, folds: range, L: Floats, T: Array, batch: slice) -> PartialSums:
    """`[Z L, r]'v` (folds, k + q, batch) and `v'v` (folds, batch), one tile of `V = G - Z T` at a time."""
    k, width = T.shape
    L, T = from_host(L, block.Y), from_host(T, block.Y)
    along, vv = zeros((len(folds), k + block.Y.shape[1], width), T), zeros((len(folds), width), T)
    for i, f in enumerate(folds):
        own = block.folds[f]
        for tile in row_blocks(len(own), width, block.Y):
            rows = own[tile]
            Z = at(block.Z, rows)
            V = block.columns(batch, rows)
            V -= Z @ T
            along[i, :k, :] += (Z @ L[i, :, :]).T @ V
            along[i, k:, :] += at(block.r, rows).T @ V
            vv[i, :] += column_squares(V)
    return PartialSums((along, vv))


# -- folds -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowFolds:
    """A value of `cv` that is known already: the fold of every row."""

    labels: Indices


def uses_folds(settings: Any) -> bool:
    """Whether a path is grown by the rule "kfold" with folds of particular rows, not just a number of them."""
    return is_one_of(settings.rule, KFoldRule.name) and not isinstance(settings.cv, Integral)


def keep_folds(settings: Any, Y: Array, rows: Indices) -> Any:
    """Return the settings of a path on some of the rows with targets Y: with the rule "kfold" they keep their folds.

    A number means folds of the rows that are left.
    """
    if not uses_folds(settings):
        return settings
    labels = fold_labels(settings.cv, Y.shape[0], lambda: classes_of(to_host(Y)))
    return replace(settings, cv=RowFolds(folds_of_rows(labels, rows)))


def folds_of_rows(labels: Indices, rows: Indices) -> Indices:
    """Return the folds of some rows; raise unless there are at least two."""
    labels = labels[rows]
    if labels.min() == labels.max():
        raise ValueError(
            "cv must put the samples of every fit into at least two folds, got one fold: use more folds, or others; "
            "samples of weight zero, and those that selection_cv or criterion='cv' leaves out, are not in a fit."
        )
    return labels


def classes_of(Y: NDArray[Any]) -> NDArray[Any]:
    """Return the classes that targets stand for, which splitters may use."""
    return Y[:, 0] if Y.shape[1] == 1 else Y.argmax(axis=1)


def fold_labels(cv: Any, n: int, classes: Callable[[], Any]) -> Indices:
    """Return the fold of each of n rows, for `cv` a number of folds, a splitter or pairs (train, test).

    A number means contiguous folds, as in scikit-learn's `KFold(cv)`. The closed form leaves out a fold and keeps all
    other rows, so the test folds must partition the rows and each training set must be all the others.
    """
    if isinstance(cv, RowFolds):
        return cv.labels
    if isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        remedy = "give a number of folds, a splitter of scikit-learn's or pairs (train, test)"
        check_number("cv", cv, low=2, below=n + 1, integer=True, remedy=remedy)
        return np.repeat(np.arange(cv), (n + np.arange(cv)[::-1]) // cv)
    name, pairs = type(cv).__name__, cv
    if hasattr(cv, "split"):
        try:
            pairs = list(cv.split(np.zeros((n, 1)), classes()))
        except ValueError as error:
            raise ValueError(
                f"cv must split {n} rows by itself, got {cv!r}, which raised {str(error)!r}: give fewer folds, or the "
                "pairs list(cv.split(X, y, groups)) of a splitter that needs groups."
            ) from error
    labels, times, misplaced = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp), 0
    for number, pair in enumerate(pairs):
        train, test = check_pair("cv", cv, pair, n)
        labels[test] = number
        times[test] += 1
        misplaced += int(np.sum(np.bincount(np.append(train, test), minlength=n) != 1))
    if np.any(times != 1) or labels.max() == labels.min():
        raise ValueError(
            f"cv must put every row into exactly one of at least two test folds, got {name} with {np.sum(times == 0)} "
            f"of {n} rows in none and {np.sum(times > 1)} in several: use a splitter such as KFold or StratifiedKFold."
        )
    if misplaced:
        raise ValueError(
            f"cv must train on all rows outside the test fold, got {name} with {misplaced} rows in both or neither: "
            "use a splitter such as KFold or StratifiedKFold."
        )
    return labels
