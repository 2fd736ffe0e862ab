"""Folds of the recipe: distinct samples, assigned so that no sample is predicted by its own repetition."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from termwise._arrays import column_ranks, comparable, different_rows, order_by_ranks
from termwise.recipe.dictionaries import Samples
from termwise.recipe.settings import RecipeSettings

Floats = NDArray[np.float64]


class Folds(NamedTuple):
    """Distinct samples, each with the number of its fold."""

    X: Floats  # (n, d)
    Y: Floats  # (n, q)
    sample_weight: Floats  # (n,)
    fold: NDArray[np.intp]  # (n,)


def merge_duplicates(samples: Samples) -> Samples:
    """Return every distinct sample once, with the total weight of its duplicates, in the order of the data."""
    X, Y, sample_weight, blocks = samples
    both = np.column_stack([comparable(X), Y, *([] if blocks is None else [blocks])])
    if len(different_rows(both)) == len(both):
        return samples._replace(sample_weight=sample_weight.astype(np.float64))
    _, first, group = np.unique(both, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    total = np.bincount(group.ravel(), weights=sample_weight).astype(np.float64)
    return samples.rows(first[order])._replace(sample_weight=total[order])


def group_folds(X: Floats, n_folds: int, rng: np.random.RandomState, classes: Floats | None = None) -> NDArray[np.intp]:
    """Assign folds to distinct rows: equal rows share a fold, and duplicates do not change the assignment.

    With `classes`, (n, q), the folds are stratified: sorted by class, each run of `n_folds` rows has one in every fold.
    Equal rows of several classes are sorted by the mean, whatever their order.
    Numeric targets are not stratified: folds with the mean of their training samples would have too small an error.
    """
    distinct, first, group = np.unique(comparable(X), axis=0, return_index=True, return_inverse=True)
    order = symmetric_order(distinct)[rng.permutation(len(first))]
    if classes is not None:
        sums = np.stack([np.bincount(group.ravel(), weights=column) for column in classes.T])
        order = order[np.lexsort((sums / np.bincount(group.ravel()))[:, order])]
    folds = np.empty(len(first), dtype=np.intp)
    folds[order] = np.arange(len(first)) % n_folds
    return folds[group.ravel()]


def symmetric_order(X: Floats) -> NDArray[np.intp]:
    """Return an order of distinct rows that depends neither on the order of the columns nor on their units.

    Rows are sorted by the ranks of their entries among those of their columns, the smallest rank of a row first. Rows
    with the same ranks in different columns are sorted by these columns, in an order that depends on their entries.
    """
    ranks = column_ranks(X)
    return np.lexsort([*ranks[:, order_by_ranks(ranks)].T, *np.sort(ranks, axis=1).T[::-1]])


def given_folds(cv: Any, X: Any, y: NDArray[Any], groups: Any) -> NDArray[np.intp]:
    """Return the fold of every sample by a splitter of scikit-learn, or by splits.

    Test sets hold every sample once, and each training set all samples of the other test sets.
    """
    fold = np.full(len(y), -1)
    splits = list(check_cv(cv).split(X, y, groups))
    for k, (_, test) in enumerate(splits):
        fold[test] = k
    if np.any(fold < 0) or sum(len(test) for _, test in splits) > len(y):
        raise ValueError(
            f"cv must have every sample in one test set, got {cv!r}: use KFold, GroupKFold or StratifiedKFold, or a "
            "number of folds."
        )
    for k, (train, _) in enumerate(splits):
        if not np.array_equal(np.sort(train), np.flatnonzero(fold != k)):
            raise ValueError(
                f"cv must train on all samples outside the test set, got {len(train)} of {np.count_nonzero(fold != k)} "
                f"in split {k}: give related samples one value of groups, so that they share a fold."
            )
    return fold


def assign_folds(samples: Samples, labels: bool, settings: RecipeSettings, rng: np.random.RandomState) -> Folds:
    """Return the samples in folds grouped by their inputs, so that no test sample has its inputs in the training set.

    Samples of one block, where there are blocks, are in one fold instead.

    Where there are only a few distinct inputs, a treatment and a control for example, leaving one of them out leaves
    nothing to learn from: there samples are grouped by inputs and targets, and those with at least one repetition for
    each fold, as classes have, are divided between all folds.
    """
    X, Y, sample_weight, blocks = samples
    if blocks is not None:
        return Folds(X, Y, sample_weight, group_folds(blocks[:, None].astype(np.float64), settings.n_folds, rng))
    both, n_folds, few = np.column_stack([X, Y]), settings.n_folds, settings.min_fold_rows
    n_inputs, classes = len(np.unique(comparable(X), axis=0)), Y if labels else None
    repeated = n_inputs < len(both) or sample_weight.sum() >= few * n_inputs
    if n_inputs >= few * n_folds or not repeated:
        return Folds(X, Y, sample_weight, group_folds(X, n_folds, rng, classes))
    often = sample_weight >= n_folds
    rows = np.concatenate([np.flatnonzero(~often), np.repeat(np.flatnonzero(often), n_folds)])
    fold = np.concatenate(
        [group_folds(both, n_folds, rng, classes)[~often], np.tile(np.arange(n_folds), int(often.sum()))]
    )
    return Folds(X[rows], Y[rows], np.where(often, sample_weight / n_folds, sample_weight)[rows], fold)
