"""Selection by K-fold error and by leave-one-out misclassifications, against real retraining."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

from termwise import ForwardRegressor, forward_path
from termwise.execution.local import LocalBlocks
from termwise.selection.blocks import RowBlock
from termwise.selection.engine import Settings
from termwise.selection.kfold import KFoldRule, fold_labels
from termwise.selection.leave_one_out import LooRule
from termwise.selection.rules import LooErrorRule
from termwise.selection.state import State

KINDS = {"long": (40, 12), "wide": (18, 30), "gaussian": (30, 30)}


def make(kind, seed, outputs=1):
    rng = np.random.default_rng(seed)
    n, p = KINDS[kind]
    if kind == "gaussian":
        x = rng.uniform(-1.5, 1.5, size=n)
        G, y = np.exp(-((x[:, None] - x) ** 2) / 0.7**2), np.sin(3 * x) + 0.1 * rng.normal(size=n)
    else:
        G = rng.normal(size=(n, p)) + rng.normal(size=p)
        y = G[:, 1] - G[:, 3] + 0.5 * rng.normal(size=n)
    return G, np.column_stack([y, rng.normal(size=(n, outputs - 1))])


def start(G, Y, alpha=1e-3, *, penalty="weights", intercept=True, counts=None, cuts=()):
    """A fresh state, the rows cut into blocks."""
    counts = np.ones(len(Y)) if counts is None else counts
    bounds = [0, *cuts, len(Y)]
    blocks = [RowBlock(G[a:b], Y[a:b], counts[a:b]) for a, b in pairwise(bounds)]
    settings = Settings("cost", alpha, penalty=penalty, fit_intercept=intercept, precompute=False)
    return State(LocalBlocks(blocks), settings)


def select(rule, state, steps):
    """The choices of some steps."""
    choices = []
    for _ in range(steps):
        choices.append(rule.choose(state))
        assert state.append(choices[-1].index)
    return choices


def terms(choices):
    return [choice.index for choice in choices]


def scores(choices):
    return [choice.score for choice in choices]


def refitted(G, Y, folds, alpha, intercept):
    """K-fold error by training without each fold."""
    total = 0.0
    for fold in np.unique(folds):
        out = folds == fold
        w = oracles.weights(G[~out], Y[~out], alpha, intercept)
        total += np.sum((Y[out] - oracles.predict(G[out], w, intercept)) ** 2)
    return total


def from_projection(G, Y, folds, alpha, intercept):
    """K-fold error of a fixed smoother: its penalty depends on the data, so that no refit has the same."""
    P = oracles.smoother(G, alpha, intercept, "orthogonal")
    parts = [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
    return sum(np.sum(np.linalg.solve(P[np.ix_(rows, rows)], (P @ Y)[rows]) ** 2) for rows in parts)


def assert_chooses_as(error, rule, state, p, steps, rtol=1e-6):
    """At every step the choice is the first of the smallest errors, and its score is that error."""
    for choice in select(rule, state, steps):
        before = state.chosen[: state.chosen.index(choice.index)]
        errors = np.array([error([*before, j]) if j not in before else np.inf for j in range(p)])
        assert choice.index == np.flatnonzero(errors <= errors.min() * (1 + 1e-9))[0]
        assert choice.score == pytest.approx(errors.min(), rel=rtol)
        assert choice.verified == p - len(before)


@pytest.mark.parametrize("alpha", [0.0, 1e-6, 0.3])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_kfold_is_refitting_without_each_fold(kind, outputs, intercept, alpha):
    for seed in range(2):
        G, Y = make(kind, seed, outputs)
        folds = np.random.default_rng(seed).integers(0, 5, size=len(G))
        state = start(G, Y, alpha, intercept=intercept, cuts=(7, 8))
        assert_chooses_as(
            lambda S, G=G, Y=Y, folds=folds: refitted(G[:, S], Y, folds, alpha, intercept),
            KFoldRule(folds),
            state,
            G.shape[1],
            5,
        )


@pytest.mark.parametrize("alpha", [0.0, 1e-6, 0.3])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_kfold_with_the_orthogonal_penalty(kind, intercept, alpha):
    G, Y = make(kind, 3, 2)
    folds = fold_labels(4, len(G), lambda: Y)
    state = start(G, Y, alpha, penalty="orthogonal", intercept=intercept)
    assert_chooses_as(
        lambda S: from_projection(G[:, S], Y, folds, alpha, intercept), KFoldRule(folds), state, G.shape[1], 5
    )


@pytest.mark.parametrize("penalty", ["weights", "orthogonal"])
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_as_many_folds_as_rows_is_leave_one_out(kind, alpha, penalty):
    G, Y = make(kind, 4, 2)
    folds = select(KFoldRule(fold_labels(len(G), len(G), lambda: Y)), start(G, Y, alpha, penalty=penalty), 6)
    loo = select(LooRule(), start(G, Y, alpha, penalty=penalty), 6)
    assert terms(folds) == terms(loo)
    np.testing.assert_allclose(scores(folds), scores(loo), rtol=1e-7)


@pytest.mark.parametrize("rule", ["kfold", "loo_error"])
@pytest.mark.parametrize("container", ["F", "csc", "float32", "blocks", "sparse blocks"])
def test_containers_give_the_same_choices(container, rule, rng):
    G = rng.normal(size=(60, 15)) * (rng.random(size=(60, 15)) < 0.5)
    Y = np.sign(G[:, [2]] - G[:, [6]] + rng.normal(size=(60, 1)))
    chooser = KFoldRule(rng.integers(0, 6, size=60)) if rule == "kfold" else LooErrorRule()
    other = {
        "F": np.asfortranarray(G),
        "csc": sp.csc_array(G),
        "float32": G.astype(np.float32),
        "blocks": G,
        "sparse blocks": sp.csc_matrix(G),
    }[container]
    cuts = (5, 17, 40) if "blocks" in container else ()
    expected, choices = select(chooser, start(G, Y), 6), select(chooser, start(other, Y, cuts=cuts), 6)
    assert terms(choices) == terms(expected)
    np.testing.assert_allclose(scores(choices), scores(expected), rtol=1e-5 if container == "float32" else 1e-9)


def test_tiles_and_batches_change_nothing(rng, monkeypatch):
    G, Y = rng.normal(size=(90, 40)), rng.normal(size=(90, 2))
    labels = np.sign(Y[:, :1] + G[:, :1])
    folds = np.arange(90) % 3
    plain = [select(KFoldRule(folds), start(G, Y), 4), select(LooErrorRule(), start(G, labels), 4)]
    monkeypatch.setattr("termwise._arrays.BLOCK_ENTRIES", 64)
    monkeypatch.setattr("termwise.selection.rules.MIN_BATCH", 7)
    tiled = [select(KFoldRule(folds, tile_rows=8), start(G, Y), 4), select(LooErrorRule(), start(G, labels), 4)]
    for one, other in zip(plain, tiled, strict=True):
        assert terms(one) == terms(other)
        np.testing.assert_allclose(scores(one), scores(other), rtol=1e-10)


@pytest.mark.parametrize("penalty", ["weights", "orthogonal"])
@pytest.mark.parametrize("rule", ["kfold", "loo_error"])
def test_sample_weights_are_repetitions(rule, penalty, rng):
    """All repeats of a row are in its fold; leave-one-out leaves out one repeat."""
    G, Y, folds = rng.normal(size=(25, 10)), np.sign(rng.normal(size=(25, 1))), rng.integers(0, 4, size=25)
    counts = rng.integers(1, 4, size=25)
    more_G, more_Y, more_folds = oracles.repeat(counts, G, Y, folds)
    weighted, repeated = (
        select(KFoldRule(f) if rule == "kfold" else LooErrorRule(), state, 5)
        for f, state in (
            (folds, start(G, Y, 0.1, penalty=penalty, counts=counts.astype(float), cuts=(9,))),
            (more_folds, start(more_G, more_Y, 0.1, penalty=penalty)),
        )
    )
    assert terms(weighted) == terms(repeated)
    np.testing.assert_allclose(scores(weighted), scores(repeated), rtol=1e-9)


@pytest.mark.parametrize("rule", ["kfold", "loo_error"])
def test_ties_go_to_the_lower_index(rule, rng):
    G = rng.normal(size=(30, 4))
    Y = np.sign(G[:, [2]])
    chooser = KFoldRule(np.arange(30) % 3) if rule == "kfold" else LooErrorRule()
    twice = np.hstack([G, -G, 3 * G])[:, [7, 4, 2, 1, 5, 6, 3, 0, 9, 8, 10]]
    assert chooser.choose(start(twice, Y, 0.0)).index == 2


@pytest.mark.parametrize("penalty", ["weights", "orthogonal"])
def test_a_candidate_the_other_folds_do_not_see_is_never_taken_without_a_penalty(penalty, rng):
    G, Y, folds = rng.normal(size=(20, 3)), rng.normal(size=(20, 1)), np.arange(20) // 5
    G[:, 1] = np.where(folds == 2, Y[:, 0], 0)
    state = start(G, Y, 0.0, penalty=penalty)
    rule = KFoldRule(folds)
    assert sorted(terms(select(rule, state, 2))) == [0, 2]
    assert rule.choose(state) is None
    assert "when any fold is left out" in rule.end


def test_a_model_a_fold_cannot_be_left_out_of_ends_the_path(rng):
    """Forced terms may leave the others undetermined: no candidate can make up for that."""
    G, Y, folds = rng.normal(size=(20, 3)), rng.normal(size=(20, 1)), np.arange(20) // 5
    G[:, 1] = np.where(folds == 2, 1.0, 0)
    state = start(G, Y, 0.0)
    state.append(1)
    assert KFoldRule(folds).choose(state) is None
    assert KFoldRule(np.zeros(20, dtype=int)).choose(start(G, Y, 0.0)) is None


@pytest.mark.parametrize("alpha", [0.0, 1e-6])
@pytest.mark.parametrize("rule", ["kfold", "loo_error"])
def test_paths_to_the_end_are_finite(rule, alpha, rng):
    """Duplicates, constants, more candidates than samples, exact fits: scores are numbers up to the end."""
    G = rng.normal(size=(12, 30))
    G[:, 3], G[:, 4], G[:, 5] = G[:, 2], 0.0, 1.0
    Y = np.sign(G[:, [2]])
    chooser = KFoldRule(np.arange(12) % 3) if rule == "kfold" else LooErrorRule()
    state, seen = start(G, Y, alpha), []
    while (choice := chooser.choose(state)) is not None:
        seen.append(choice.score)
        state.append(choice.index)
    assert len(seen) >= 6
    assert np.isfinite(seen).all()
    assert min(seen) >= 0


def test_an_exact_fit_is_found(rng):
    G = rng.normal(size=(50, 20))
    choice = KFoldRule(fold_labels(5, 50, None)).choose(start(G, 2 + 3 * G[:, [7]], 0.0))
    assert choice.index == 7
    assert 0 <= choice.score < 1e-9


def test_fold_labels_are_those_of_scikit_learn(rng):
    y = rng.integers(0, 2, size=23)
    groups = rng.integers(0, 7, size=23)
    X = np.zeros((23, 1))
    for cv, splits in [
        (2, KFold(2).split(X)),
        (np.int64(5), KFold(5).split(X)),
        (23, LeaveOneOut().split(X)),
        (KFold(4, shuffle=True, random_state=0), KFold(4, shuffle=True, random_state=0).split(X)),
        (StratifiedKFold(3), StratifiedKFold(3).split(X, y)),
        (GroupKFold(3).split(X, y, groups), GroupKFold(3).split(X, y, groups)),
        ([(np.arange(23) > 4, np.arange(23) <= 4), (range(5), range(5, 23))], KFold(2).split(X)),
    ]:
        labels = fold_labels(cv, 23, lambda: y)
        assert labels.shape == (23,)
        if not isinstance(cv, list):
            for number, (_, test) in enumerate(splits):
                np.testing.assert_array_equal(np.flatnonzero(labels == number), test)
    np.testing.assert_array_equal(labels, np.arange(23) > 4)


@pytest.mark.parametrize(
    ("cv", "error", "message"),
    [
        (1, ValueError, r"cv must be a whole number >= 2 and < 13, got 1: give a number of folds, a splitter of .*"),
        (13, ValueError, r"cv must be a whole number >= 2 and < 13, got 13: "),
        (2.5, ValueError, r"cv must be a whole number .*, got 2\.5: "),
        ("five", TypeError, r"cv must be a whole number .*, got 'five': .* or pairs \(train, test\)\."),
        (None, TypeError, r"cv must be a whole number .*, got None: "),
        (ShuffleSplit(3, test_size=0.5, random_state=0), ValueError,
         r"cv must put every row into exactly one of at least two test folds, got ShuffleSplit with \d+ of 12 rows in "
         r"none and \d+ in several: use a splitter such as KFold or StratifiedKFold\."),
        (TimeSeriesSplit(3), ValueError, r"got TimeSeriesSplit with 3 of 12 rows in none and 0 in several"),
        ([([], range(12))], ValueError, r"at least two test folds, got list with 0 of 12 rows in none"),
        ([([0, 1], range(6)), (range(6), range(6, 12))], ValueError,
         r"cv must train on all rows outside the test fold, got list with 8 rows in both or neither: use a splitter"),
        (np.arange(12), ValueError,
         r"cv must hold pairs \(train, test\) of row numbers, got ndarray of something else: give list\(splitter"),
        ([(range(6), range(6, 13))], ValueError, r"cv must lie between 0 and 11, got 12: there are 12 rows\."),
        (GroupKFold(3), ValueError,
         r"cv must split 12 rows by itself, got GroupKFold\(.*\), which raised .*'groups'.*: give fewer folds, or the "
         r"pairs list\(cv\.split\(X, y, groups\)\) of a splitter that needs groups\."),
        (KFold(20), ValueError, r"cv must split 12 rows by itself, got KFold\(.*which raised .*n_splits=20.*: give"),
    ],
)  # fmt: skip
def test_folds_that_are_no_partition(cv, error, message):
    with pytest.raises(error, match=message):
        fold_labels(cv, 12, lambda: np.zeros(12))


@pytest.mark.parametrize("given", ["pairs", "splitter"])
def test_rows_of_weight_zero_leave_the_folds_of_the_others(given, rng):
    G, y = rng.normal(size=(40, 6)), rng.normal(size=40)
    labels, weights = rng.permutation(40) % 4, np.ones(40)
    weights[[3, 8, 20]] = 0
    used = np.flatnonzero(weights)
    cv, left = PredefinedSplit(labels), PredefinedSplit(labels[used])
    cv = list(cv.split()) if given == "pairs" else cv
    expected = forward_path(G[used], y[used], rule="kfold", cv=left).column("score")[1:]
    path = forward_path(G, y, rule="kfold", cv=cv, sample_weight=weights)
    np.testing.assert_allclose(path.column("score")[1:], expected)
    model = ForwardRegressor(rule="kfold", cv=cv, alpha=1e-6, criterion=None).fit(G, y, weights)
    np.testing.assert_allclose(model.path_.column("score")[1:], expected)


def test_folds_within_folds(rng):
    G = rng.normal(size=(40, 6))
    y = 3 * G[:, 2] + rng.normal(size=40)
    cv = list(KFold(4).split(G))
    model = ForwardRegressor(rule="kfold", cv=cv, selection_cv=KFold(3)).fit(G, y)
    assert model.selection_frequency_[2] == 1
    model = ForwardRegressor(rule="kfold", cv=cv, criterion="cv", max_terms=3).fit(G, y)
    errors = np.zeros(4)
    for train, test in cv:
        inner = PredefinedSplit(np.arange(40)[train] // 10)
        path = forward_path(G[train], y[train], rule="kfold", cv=inner, max_terms=3)
        for k in range(4):
            w, intercept = path.coef(k)
            errors[k] += np.sum((y[test] - G[np.ix_(test, path.terms[:k])] @ w - intercept) ** 2) / 40
    np.testing.assert_allclose(model.cv_errors_, errors)
    with pytest.raises(ValueError, match=r"cv must put the samples of every fit into at least two folds, got one fold"):
        ForwardRegressor(rule="kfold", cv=KFold(2), selection_cv=KFold(2)).fit(G, y)
    with pytest.raises(ValueError, match=r"samples of weight zero, and those that selection_cv or criterion='cv' leav"):
        forward_path(G, y, rule="kfold", cv=cv, sample_weight=np.arange(40) < 10)


def misclassified(G, Y, alpha, intercept):
    """Leave-one-out misclassifications by retraining."""
    predictions = Y - oracles.leave_one_out(G, Y, alpha, intercept)
    if Y.shape[1] == 1:
        return np.sum(np.where(predictions >= 0, 1, -1) != Y)
    return np.sum(predictions.argmax(axis=1) != Y.argmax(axis=1))


@pytest.mark.parametrize("alpha", [0.0, 1e-6, 0.3])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_loo_error_is_retraining_without_each_sample(kind, classes, intercept, alpha):
    for seed in range(2):
        G, Y = make(kind, seed)
        labels = np.digitize(Y[:, 0], np.quantile(Y, np.arange(1, classes) / classes))
        coded = np.where(labels[:, None] == np.arange(classes), 1.0, -1.0)
        coded = coded[:, 1:] if classes == 2 else coded
        assert_chooses_as(
            lambda S, G=G, coded=coded: misclassified(G[:, S], coded, alpha, intercept),
            LooErrorRule(),
            start(G, coded, alpha, intercept=intercept, cuts=(7,)),
            G.shape[1],
            3,
        )


def test_loo_error_with_the_orthogonal_penalty(rng):
    G, Y = rng.normal(size=(30, 6)), np.sign(rng.normal(size=(30, 1)))
    choice = LooErrorRule().choose(start(G, Y, 5.0, penalty="orthogonal"))
    errors = []
    for j in range(6):
        P = oracles.smoother(G[:, [j]], 5.0, True, "orthogonal")
        errors.append(np.sum(np.sign(Y - P @ Y / np.diag(P)[:, None]) != Y))
    assert (choice.index, choice.score) == (int(np.argmin(errors)), min(errors))


def test_a_prediction_of_zero_is_plus_one_and_equal_outputs_go_to_the_first():
    """Without an intercept a sample whose columns are all zero is predicted to be zero in every output."""
    g = np.array([[1.0], [1.0], [-1.0], [-1.0], [0.0], [0.0], [0.0]])
    y = np.array([[1.0], [1.0], [-1.0], [-1.0], [1.0], [-1.0], [-1.0]])
    assert LooErrorRule().choose(start(g, y, intercept=False)).score == 2
    outputs = np.hstack([y, -y])
    assert LooErrorRule().choose(start(g, outputs, intercept=False)).score == 2
    assert LooErrorRule().choose(start(g, -outputs, intercept=False)).score == 1
