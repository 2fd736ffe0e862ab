"""The automatic estimators: cross-validation, the choice of dictionary and size, and the fitted estimators."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import oracles
import pandas as pd
import pytest
from joblib import cpu_count
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import cross_val_score

from termwise import (
    AnovaBasis,
    BasisRidge,
    ForwardRegressor,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    UnionBasis,
    forward_path,
    memory_budget,
)
from termwise._arrays import evenly
from termwise.basis.base import design_matrix
from termwise.design.computed import ProductDesign
from termwise.linalg.calibration import calibrate, left_out_losses
from termwise.linalg.criteria import misclassified
from termwise.linalg.least_squares import WeightedRows, least_squares_problem
from termwise.linalg.spectrum import Spectrum
from termwise.linalg.two_stage import scores_by_output
from termwise.recipe import cross_validation
from termwise.recipe.bootstrap import BootstrapChoices
from termwise.recipe.cross_validation import Fitting, extend, n_parallel_folds
from termwise.recipe.dictionaries import (
    DICTIONARIES,
    Inputs,
    Samples,
    ScreenedPairs,
    TunedSmoothBasis,
    build_dictionaries,
)
from termwise.recipe.folds import Folds, assign_folds, group_folds, merge_duplicates
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.size import RecipeOptions, choose_trial
from termwise.recipe.targets import RidgeTarget
from termwise.recipe.trials import Trial, eliminate

ALPHA = 1e-6
SETTINGS = RecipeSettings()
BOTH = ("data", "ridge")


def cross_validate(tries, max_terms, targets, alpha, n_threads=1):
    """Cross-validate dictionaries for the same targets in every fold."""
    every = [(basis, folds, dict.fromkeys(np.unique(folds.fold).tolist(), targets)) for basis, folds in tries]
    rows = [cross_validation.CrossValidationJob(basis, folds, max_terms, of_folds) for basis, folds, of_folds in every]
    return cross_validation.cross_validate(rows, Fitting(alpha), n_threads)


def pairwise(rng, n=240, d=5, noise=0.2):
    X = rng.uniform(-1, 1, size=(n, d))
    return X, 2 * X[:, 1] * X[:, 3] + noise * rng.normal(size=n)


def blobs(rng, n=240, classes=2):
    X = rng.normal(size=(n, 3))
    scores = np.column_stack([3 * X[:, 0], -3 * X[:, 0], 3 * X[:, 1]])[:, :classes]
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def state(seed=0):
    return np.random.RandomState(seed)


def with_settings(estimator, **constants):
    """Return a subclass of an estimator with other constants of `RecipeSettings`."""
    return type(estimator.__name__, (estimator,), {"recipe_settings": RecipeSettings(**constants)})


# -- cross-validation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "basis",
    [AnovaBasis(order=1), SmoothBasis(width=("median", 0.7)), AnovaBasis(n_centers=0), SmoothBasis(relevance="auto")],
    ids=repr,
)
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True], ids=["once", "repeated"])
def test_cross_validation_equals_its_definition(basis, outputs, weighted, rng):
    X = rng.normal(size=(45, 3))
    Y = np.sin(X @ rng.normal(size=(3, outputs))) + 0.1 * rng.normal(size=(45, outputs))
    counts = rng.integers(1, 4, size=45).astype(float) if weighted else np.ones(45)
    fold = (state().permutation(45) % 4)[X[:, 0].argsort().argsort()]
    most = 12  # plain columns end earlier: the last prediction is repeated
    (both,) = cross_validate([(basis, Folds(X, Y, counts, fold))], most, BOTH, ALPHA)
    for target, found in zip(BOTH, both, strict=True):
        expected = oracles.out_of_fold(basis, X, Y, counts, fold, "cost", 1e-6, most, target)
        assert found.predictions(Y).shape == (most + 1, 45, outputs)
        np.testing.assert_allclose(found.predictions(Y), expected, atol=1e-7)


def test_parallel_folds_give_the_same_predictions(rng):
    X, Y = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    folds = Folds(X, Y, np.ones(60), group_folds(X, 5, state()))
    tries = [(AnovaBasis(), folds), (SmoothBasis(), folds)]
    for some in zip(*(cross_validate(tries, 5, BOTH, ALPHA, threads) for threads in (1, 3)), strict=True):
        for alone, together in zip(*some, strict=True):
            np.testing.assert_array_equal(together.predictions(Y), alone.predictions(Y))


@pytest.mark.parametrize("basis", [AnovaBasis(), SmoothBasis(relevance="auto")], ids=repr)
def test_extended_paths_equal_long_ones(basis, rng):
    X = rng.normal(size=(60, 3))
    Y, counts = np.sin(2 * X[:, :2]), rng.integers(1, 4, size=60).astype(float)
    folds = Folds(X, Y, counts, group_folds(X, 5, state()))
    (short,), (long,) = (cross_validate([(basis, folds)], most, BOTH, ALPHA) for most in (4, 11))
    for before, expected in zip(short, long, strict=True):
        for threads in (1, 3):
            longer = extend(before, folds, 11, Fitting(ALPHA), threads)
            np.testing.assert_array_equal(longer.predictions(Y), expected.predictions(Y))
            for first, second in zip(before.paths, longer.paths, strict=True):
                assert second.target is first.target  # neither the ridge fit nor the relevance is computed again
                if isinstance(basis, SmoothBasis):
                    assert second.dictionary.basis is first.dictionary.basis


def test_paths_of_constant_inputs_stay_empty(rng):
    X, Y = np.repeat([[0.0], [1.0]], 10, axis=0), rng.normal(size=(20, 1))
    folds = Folds(X, Y, np.ones(20), X[:, 0].astype(int))
    (both,) = cross_validate([(AnovaBasis(), folds)], 1, BOTH, ALPHA)
    predictions = extend(both[0], folds, 5, Fitting(ALPHA)).predictions(Y)
    assert predictions.shape == (6, 20, 1)
    np.testing.assert_array_equal(predictions, np.broadcast_to(both[0].predictions(Y)[0], (6, 20, 1)))


def test_as_many_parallel_folds_as_fit_in_memory():
    assert n_parallel_folds(SETTINGS.parallel_rows, 10, SETTINGS) == 1
    with memory_budget(1):
        assert n_parallel_folds(1000, 100_000, SETTINGS) == 1
    with memory_budget(1e12):
        assert n_parallel_folds(1000, 10, SETTINGS) == cpu_count()


def test_constant_training_inputs_predict_the_mean(rng):
    X, Y = np.repeat([[0.0], [1.0]], 10, axis=0), rng.normal(size=(20, 1))
    folds = Folds(X, Y, np.ones(20), X[:, 0].astype(int))
    for found in next(cross_validate([(AnovaBasis(), folds)], 2, BOTH, ALPHA)):
        np.testing.assert_allclose(found.predictions(Y)[:, :10, 0], Y[10:].mean())
        np.testing.assert_allclose(found.predictions(Y)[:, 10:, 0], Y[:10].mean())


@pytest.mark.parametrize("as_frame", [False, True])
def test_intervals_where_inputs_are_constant_in_a_fold(as_frame, rng):
    X, y = np.zeros((40, 2)), rng.normal(size=40)
    X[:, 1] = np.nan if as_frame else 0.0
    X[3] = 1.0, 2.0
    inputs = pd.DataFrame(X, columns=["a", "b"]) if as_frame else X
    model = TermwiseRegressor(1, dictionary="linear").fit(inputs, y)
    for normalised in (False, True):
        ends = np.array(model.predict_interval(inputs, normalised=normalised))
        frozen = np.array(model.predictor_.predict_interval(inputs, normalised=normalised))
        np.testing.assert_allclose(frozen, ends, rtol=1e-12)
        np.testing.assert_allclose(ends[:, 10:], np.repeat(ends[:, 10:11], 30, axis=1))  # equal inputs
        assert ((ends[0] < y) & (y < ends[1])).mean() > 0.8


@pytest.mark.parametrize("stratified", [False, True])
def test_folds_depend_on_the_content_of_rows_alone(stratified, rng):
    X = rng.integers(0, 4, size=(60, 3)).astype(float)
    Y = np.where(X[:, :1] > 1, 1.0, -1.0)

    def assign(rows, seed=0):
        return group_folds(X[rows], 5, state(seed), Y[rows] if stratified else None)

    fold = assign(np.arange(60))
    np.testing.assert_array_equal(group_folds(3.0 * X[:, [2, 0, 1]], 5, state(), Y if stratified else None), fold)
    for row in np.unique(X, axis=0):
        assert len(set(fold[(row == X).all(axis=1)])) == 1
    order = rng.permutation(60)
    np.testing.assert_array_equal(assign(order), fold[order])
    twice = np.repeat(np.arange(60), rng.integers(1, 4, size=60))
    np.testing.assert_array_equal(assign(twice), fold[twice])
    assert set(fold) == set(range(5))
    kinds = np.unique(np.column_stack([X, fold]), axis=0)[:, -1]
    assert np.ptp(np.bincount(kinds.astype(int))) <= 1  # as many different rows in each
    assert not np.array_equal(assign(np.arange(60), seed=1), fold)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_folds_of_labels_are_stratified(n_classes, rng):
    X, label = rng.normal(size=(103, 2)), rng.choice(n_classes, p=[0.8, 0.2, 0.0][:n_classes], size=103)
    label[:11] = n_classes - 1
    Y = 2.0 * (label[:, None] == np.arange(3)) - 1 if n_classes > 2 else 2.0 * label[:, None] - 1
    fold = group_folds(X, 5, state(), Y)
    for one in range(n_classes):
        assert np.ptp(np.bincount(fold[label == one], minlength=5)) <= 1


def test_merged_writes_every_sample_once(rng):
    X, Y = rng.normal(size=(9, 2)), rng.normal(size=(9, 1))
    rows = np.append(np.arange(9), [3, 3, 7])
    counts = rng.uniform(0.5, 2, size=12)
    X1, Y1, total, _ = merge_duplicates(Samples(X[rows], Y[rows], counts))
    np.testing.assert_array_equal(X1, X)
    np.testing.assert_array_equal(Y1, Y)
    np.testing.assert_allclose(total, [counts[rows == i].sum() for i in range(9)])
    assert len(merge_duplicates(Samples(X[[0, 0]], Y[:2], np.ones(2)))[0]) == 2  # other targets, another sample


def test_few_distinct_inputs_are_grouped_by_inputs_and_targets(rng):
    X, Y, counts = np.repeat([[0.0], [1.0]], 40, axis=0), rng.normal(size=(80, 1)), np.ones(80)
    *same, fold = assign_folds(Samples(X, Y, counts), False, SETTINGS, state())
    for found, given in zip(same, (X, Y, counts), strict=True):
        np.testing.assert_array_equal(found, given)
    np.testing.assert_array_equal(fold, group_folds(np.column_stack([X, Y]), 5, state()))
    *_, fold = assign_folds(Samples(Y, X, counts), False, SETTINGS, state())  # enough different inputs
    np.testing.assert_array_equal(fold, group_folds(Y, 5, state()))
    few = Samples(Y[:20], X[:20], 3 * counts[:20])  # none of whose inputs is repeated
    *_, fold = assign_folds(few, False, SETTINGS, state())
    np.testing.assert_array_equal(fold, group_folds(Y[:20], 5, state()))


def test_samples_repeated_often_are_divided_between_the_folds():
    X, Y, counts = np.array([[0.0], [0.0], [1.0]]), np.array([[0.0], [1.0], [1.0]]), np.array([30.0, 10.0, 15.0])
    X5, Y5, parts, fold = assign_folds(Samples(X, Y, counts), False, SETTINGS, state())
    for number in range(5):
        np.testing.assert_array_equal(X5[fold == number], X)
        np.testing.assert_array_equal(Y5[fold == number], Y)
        np.testing.assert_allclose(parts[fold == number], counts / 5)


def test_samples_repeated_less_often_than_there_are_folds_are_in_one_fold():
    X, Y, counts = np.array([[0.0], [0.0], [1.0]]), np.array([[0.0], [1.0], [1.0]]), np.array([30.0, 2.0, 15.0])
    X5, Y5, parts, fold = assign_folds(Samples(X, Y, counts), False, SETTINGS, state())
    rare = (X5[:, 0] == 0) & (Y5[:, 0] == 1)
    assert parts[rare].tolist() == [2.0]
    assert parts.sum() == counts.sum()
    assert np.bincount(fold[~rare]).tolist() == [2] * 5


# -- choosing ----------------------------------------------------------------------------------------------------------


class FixedPredictions:
    """A cross-validated path with these predictions."""

    def __init__(self, predictions):
        self.fixed = predictions

    def predictions(self, Y):
        return self.fixed

    def prediction(self, k, Y):
        return self.predictions(Y)[k]


def shown(name, losses, counts):
    """A trial with these losses at every size."""
    some = Trial(name, "data", [], np.zeros((len(counts), 1)), np.asarray(counts, dtype=float))
    vars(some).update(losses=losses)  # a cached property, not to be computed
    return some


def choose(trials, size, settings=SETTINGS):
    """Return the chosen trial and its size."""
    i, k = choose_trial(trials, [one.errors for one in trials], trials[0].share, RecipeOptions(size), settings)
    return trials[i], k


def trial(name, *errors, n=8, seed=0):
    """A trial whose errors at every size scatter around the ones given, with these as their means."""
    noise = np.random.default_rng(seed).normal(size=(len(errors), n))
    return shown(name, np.array(errors)[:, None] + 0.1 * (noise - noise.mean(axis=1, keepdims=True)), np.ones(n))


def test_errors_and_their_excess_equal_the_definition(rng):
    losses, counts = rng.uniform(size=(6, 12)), rng.integers(1, 5, size=12)
    some = shown("some", losses, counts)
    np.testing.assert_allclose(some.errors, [np.repeat(row, counts).mean() for row in losses])
    mean, spread = some.compared_with(losses[3])
    expected = [oracles.paired_standard_error(row, losses[3], counts) for row in losses]
    np.testing.assert_allclose(mean, [e[0] for e in expected], atol=1e-14)
    np.testing.assert_allclose(spread, [e[1] for e in expected], atol=1e-9)
    assert (mean[3], spread[3]) == (0, 0)


def test_accurate_minimises_the_error_and_an_integer_sets_the_size():
    first, second = trial("first", 1.0, 0.5, 0.4, 0.45), trial("second", 1.0, 0.6, 0.2, 0.3, 0.35)
    assert choose([first, second], "accurate", SETTINGS) == (second, 2)
    assert choose([first, second], 1, SETTINGS) == (first, 1)
    assert choose([first, second], 3, SETTINGS) == (second, 3)
    assert choose([first, second], 9, SETTINGS) == (second, 9)  # judged by the largest tried


def test_ties_go_to_the_first_dictionary_and_the_fewest_terms():
    flat, other = (shown(name, np.full((k, 5), 0.3), np.ones(5)) for name, k in (("flat", 4), ("other", 2)))
    for size in ("small", "accurate"):
        assert choose([flat, other], size, SETTINGS) == (flat, 0)
    assert choose([other, flat], 1, SETTINGS) == (other, 1)


def test_small_is_the_first_size_within_the_tolerance(rng):
    counts = rng.integers(1, 4, size=50)
    noise = rng.normal(size=(5, 50))
    noise -= (noise @ counts / counts.sum())[:, None]
    some = shown("some", np.array([1.0, 0.30, 0.21, 0.2, 0.25])[:, None] + 0.1 * noise, counts)
    spread = np.repeat(some.losses[3], counts).std() / np.sqrt(counts.sum())
    for tolerance in (0.0, 0.5, 1.0, 2.0, 10.0, 1e3):
        within = [k for k in range(5) if some.errors[k] <= 0.2 + min(tolerance * spread, 0.1 * 0.8) + 1e-12]
        fewest_or_one_more = [k for k in (within[0], within[0] + 1) if k < 5]
        best = min(fewest_or_one_more, key=lambda k: some.errors[k])
        assert choose([some], "small", RecipeSettings(small_se=tolerance)) == (some, best)
    more = shown("more", np.array([1.0, 0.205, 0.204, 0.2])[:, None] + 0.1 * noise[:4], counts)
    settings = [RecipeSettings(small_se=distance / spread) for distance in (0.0, 0.0045, 1.0)]
    assert [choose([more], "small", one)[1] for one in settings] == [3, 3, 2]
    weak = trial("weak", 1.0, 0.97, 0.96, n=50)  # nine tenths of what little is explained must be kept
    assert choose([weak], "small", RecipeSettings(small_se=1e3)) == (weak, 2)
    nothing = trial("nothing", 1.0, 0.999, n=50)
    assert choose([shown("mean", nothing.losses[[0, 0]], nothing.sample_weight)], "small", SETTINGS)[1] == 0


def test_the_mean_is_small_enough_where_little_is_explained():
    noise = np.random.default_rng(0).normal(size=(2, 50))
    noise -= noise.mean(axis=1, keepdims=True)
    some = shown("some", np.array([1.0, 1.0 - 1e-13])[:, None] + noise, np.ones(50))
    assert choose([some], "small", SETTINGS) == (some, 0)


def test_small_has_the_fewest_terms_of_all_that_was_tried():
    good = trial("good", 1.0, 0.5, 0.4, 0.3, 0.2, n=50)
    other, better = trial("other", 1.0, 0.205, 0.205, n=50), trial("better", 1.0, 0.9, 0.203, n=50)
    error = good.losses[4].std() / np.sqrt(50)
    near, far = RecipeSettings(small_se=0.006 / error), RecipeSettings(small_se=0.002 / error)
    assert choose([good, other], "accurate", near) == (good, 4)
    assert choose([good, other], "small", near) == (other, 1)
    assert choose([good, other], "small", far) == (good, 4)
    assert choose([good, other, better], "small", near) == (better, 2)  # or one more, if that is better
    same = trial("same", 1.0, 0.201, n=50)
    assert choose([good, other, same], "small", near) == (same, 1)  # of equally many terms the better ones


@pytest.mark.parametrize("name", ["smooth", "relevant"])
def test_small_is_drawable_unless_that_is_less_accurate(name):
    good = trial("good", 1.0, 0.5, 0.3, 0.2, n=50)
    for better in (0.5, 0.99, 1.01, 2.0):
        mixed = trial(name, 1.0, 0.1, n=50, seed=1)
        spread = good.compared_with(mixed.losses[1])[1][3]
        mixed = shown(name, mixed.losses + 0.1 - better * spread, mixed.sample_weight)
        chosen = (good, 3) if better < 1 else (mixed, 1)
        assert choose([mixed, good], "small", SETTINGS) == choose([good, mixed], "small", SETTINGS) == chosen
        assert choose([mixed, good], "accurate", SETTINGS) == (mixed, 1)
        assert choose([mixed], "small", SETTINGS) == (mixed, 1)


@pytest.mark.slow
def test_models_that_are_all_but_exact_are_equally_good():
    X = np.array([(a, b, c) for a in range(4) for b in range(4) for c in range(4)], dtype=float)
    for y in ((X[:, 0] - 1.5) ** 2, X[:, 0] > 1.5):
        assert TermwiseRegressor().fit(X, y).dictionary_ not in ("smooth", "relevant")


def test_trials_much_worse_than_the_best_are_eliminated():
    good, close, poor = (trial(str(seed), 1.0, error, n=200, seed=seed) for seed, error in enumerate((0.2, 0.22, 0.5)))
    more, spread = close.compared_with(good.losses[1])
    at = more[1] / spread[1]
    assert 1 < at < 10
    assert eliminate([poor, close, good], 1.01 * at) == [close, good]  # in the order given
    assert eliminate([poor, close, good], 0.99 * at) == [good]
    assert eliminate([poor, close, good], 1e6) == [poor, close, good]
    assert eliminate([good, good], 0.0) == [good, good]  # the best one always stays


@pytest.mark.slow
def test_weighted_constant_targets_have_no_terms(rng):
    """Their mean differs from them by rounding, which is no error."""
    X, weights = rng.normal(size=(36, 6)), rng.uniform(0, 3, size=36)
    for value in (2.0, 0.1, 1e-9):
        model = TermwiseRegressor().fit(X, np.full(36, value), sample_weight=weights)
        assert model.n_terms_ == 0
        np.testing.assert_allclose(model.predict(X), value)


@pytest.mark.parametrize("labels", [False, True], ids=["targets", "labels"])
def test_trials_are_averaged_over_repeats_of_cross_validation(labels, rng):
    Y, counts = np.where(rng.normal(size=(9, 1)) > 0, 1.0, -1.0), rng.integers(1, 4, size=9).astype(float)
    scores = rng.normal(size=(3, 4, 9, 1))
    together = Trial("some", "data", [FixedPredictions(one) for one in scores], Y, counts, labels)
    if labels:
        expected = [oracles.log_losses(one[..., 0], Y[:, 0], counts) for one in scores]
        np.testing.assert_allclose(together.losses, np.mean(expected, axis=0), rtol=1e-3)
    else:
        variance = np.repeat(Y[:, 0], counts.astype(int)).var()
        np.testing.assert_allclose(together.losses, np.mean((scores[..., 0] - Y[:, 0]) ** 2, axis=0) / variance)
    np.testing.assert_array_equal(together.scores(2), scores[:, 2])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("counts", ["one", "many", "small"])
def test_calibration_without_each_sample(n_classes, counts, rng):
    """One step of Newton's method beside a calibration without one copy of the sample, or what there is of one."""
    n, kinds = 90, rng.integers(n_classes, size=90)
    counts = {"one": np.ones(n), "many": rng.integers(1, 4, size=n).astype(float), "small": np.full(n, 0.3)}[counts]
    labels = np.where(kinds == 1, 1.0, -1.0) if n_classes == 2 else np.where(kinds[:, None] == np.arange(3), 1.0, -1.0)
    models = [labels + rng.normal(scale=scale, size=labels.shape) for scale in (1.0, 3.0)]
    shares = rng.uniform(0.2, 0.8, size=n)
    parts = [(models[0], shares), (models[1], 1 - shares)]

    def calibrated(weights):
        pieces = np.concatenate(models), np.concatenate([labels, labels])
        return calibrate(*pieces, np.concatenate([weights * shares, weights * (1 - shares)]))

    found = left_out_losses(parts, labels, counts, *calibrated(counts))
    expected = np.zeros(n)
    for i in range(n):
        slope, shift = calibrated(counts - np.minimum(counts, np.arange(n) == i))
        for scores, share in parts:
            logits = slope * (scores[i] + shift)
            logits = np.array([-logits[0], logits[0]]) if n_classes == 2 else logits
            expected[i] -= share[i] * log_softmax(logits)[kinds[i]]
    np.testing.assert_allclose(found, expected, rtol=0.05)
    assert found @ counts == pytest.approx(expected @ counts, rel=1e-2)


@pytest.mark.slow
def test_labels_without_signal_have_the_loss_of_the_frequencies():
    """Cross-validated log losses of noise are not below those of the class frequencies but for chance."""
    losses = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        model = TermwiseClassifier(random_state=seed).fit(rng.normal(size=(80, 3)), rng.integers(0, 2, size=80))
        losses.append(model.cv_log_loss_)
    assert np.mean(losses) > 0.99 * np.log(2)


@pytest.mark.parametrize("size", ["small", "accurate", 2])
def test_the_corrected_error_repeats_the_choice_on_bootstrap_samples(size, rng):
    n, settings = 30, RecipeSettings(n_bootstrap=12)
    trials = [shown(name, rng.uniform(size=(4, n)), np.ones(n)) for name in ("pairs", "smooth")]
    order = rng.permutation(n)
    found = BootstrapChoices.draw(trials, order, RecipeOptions(size), settings).error()
    draws = np.random.RandomState(0).multinomial(n, np.full(n, 1 / n), size=12)[:, np.argsort(order)]
    left_out, sizes = [[] for _ in range(n)], []
    for draw in draws:
        rows = np.repeat(np.arange(n), draw)
        seen = [shown(one.name, one.losses[:, rows], np.ones(n)) for one in trials]
        best, k = choose(seen, size)
        sizes.append(k)
        for i in np.flatnonzero(draw == 0):
            left_out[i].append(next(one for one in trials if one.name == best.name).losses[k, i])
    expected = [np.mean(one) for one in left_out]
    assert found.error == pytest.approx(np.mean(expected))
    assert found.standard_error == pytest.approx(np.std(expected) / np.sqrt(n))
    assert found.sizes.tolist() == sizes


def test_the_error_of_the_best_of_many_models_is_corrected(rng):
    """Trials that differ by chance only: the smallest error is optimistic, the corrected one is not."""
    smallest, corrected, options = [], [], RecipeOptions("accurate")
    for _ in range(20):
        trials = [shown(str(i), rng.exponential(size=(9, 60)), np.ones(60)) for i in range(6)]
        smallest.append(min(one.errors.min() for one in trials))
        corrected.append(BootstrapChoices.draw(trials, np.arange(60), options, SETTINGS).error().error)
    assert np.mean(smallest) < 0.8
    assert np.mean(corrected) == pytest.approx(1.0, abs=0.05)


@pytest.mark.exhaustive
def test_the_reported_error_is_that_of_new_samples():
    reported, fresh, smallest = [], [], []
    for seed in range(6):
        X, y, _ = weak(seed, n=60)
        X_new, y_new, _ = weak(seed + 100, n=1000)
        model = TermwiseRegressor().fit(X, y)
        reported.append(model.cv_error_)
        fresh.append(np.mean((model.predict(X_new) - y_new) ** 2) / y.var())
        smallest.append(min(curve.min() for curve in model.trials_.values()))
        assert 0.05 < model.cv_error_std_ < 0.3
    assert np.mean(np.divide(smallest, fresh)) < 0.88
    assert 0.88 < np.mean(np.divide(reported, fresh)) < 1.15
    assert np.mean(reported) > 1.05 * np.mean(smallest)


@pytest.mark.parametrize("target", ["data", "ridge", "pooled"])
def test_models_of_the_folds_repeat_the_fit(target, rng):
    """The final fit is that of a fold: fitted to the training samples of a fold it predicts the same."""
    X, y = pairwise(rng, n=120, noise=1.0)
    model = with_settings(TermwiseRegressor, n_repeats=1, max_repeats=1)(5, dictionary="pairs", target=target).fit(X, y)
    folds = model.fitted_terms_.fold_models
    assert len(folds.models) == 5
    predictions = folds.outputs(X)[..., 0]
    residuals = y - predictions[folds.fold, np.arange(120)]
    inflation = np.sqrt(max(1.0, model.cv_error_ / model.trials_[model.choice_.title][5]))
    np.testing.assert_allclose(folds.residuals[:, 0], inflation * residuals)
    if target == "pooled":  # weights of the folds are those of the other folds
        return
    assert inflation == pytest.approx(1)  # there is nothing to choose
    train = folds.fold != 0
    alone = TermwiseRegressor(5, dictionary="pairs", target=target).fit(X[train], y[train])
    np.testing.assert_allclose(alone.predict(X), predictions[0], atol=1e-6)


def test_misclassified_labels(rng):
    scores, Y = rng.normal(size=(4, 9, 1)), np.where(rng.normal(size=(9, 1)) > 0, 1.0, -1.0)
    expected = [[(1 if s >= 0 else -1) != y for s, y in zip(row[:, 0], Y[:, 0], strict=True)] for row in scores]
    np.testing.assert_array_equal(misclassified(scores, Y), expected)
    scores, Y = rng.normal(size=(4, 9, 3)), 2 * np.eye(3)[rng.integers(0, 3, size=9)] - 1
    expected = [[np.argmax(s) != np.argmax(y) for s, y in zip(row, Y, strict=True)] for row in scores]
    np.testing.assert_array_equal(misclassified(scores, Y), expected)


def test_the_best_width_equals_brute_force(rng):
    for frequency in (1.0, 4.0):
        X = rng.uniform(-1, 1, size=(40, 2))
        Y = np.sin(frequency * X[:, :1]) + 0.1 * rng.normal(size=(40, 1))

        def error(width, X=X, Y=Y):
            G = SmoothBasis(width=("median", width)).fit_transform(X)
            alpha = BasisRidge(alpha="loo").fit(G, Y).alpha_
            return np.mean(oracles.leave_one_out(G, Y, alpha) ** 2)

        best = min(SETTINGS.widths, key=error)
        expected = min((best, best / np.sqrt(2), best * np.sqrt(2)), key=error)
        basis = TunedSmoothBasis(factors=SETTINGS.widths, n_rows=80).fit(X, Y)
        assert basis.factor_ == pytest.approx(expected)
        again = basis.with_fitted_params().fit(X)
        np.testing.assert_array_equal(again.transform(X), basis.transform(X))
        twice = np.repeat(np.arange(40), 1 + np.arange(40) % 2)
        assert TunedSmoothBasis(factors=SETTINGS.widths, n_rows=80).fit(X[twice], Y[twice]).factor_ == basis.factor_


def test_equal_widths_are_not_distinguished_by_rounding():
    """Where the best penalty is infinite every width has the error of the mean."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    Y = (np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=30))[:, None]
    orders = [rng.permutation(30) for _ in range(8)]
    found = {TunedSmoothBasis(factors=SETTINGS.widths, n_rows=60).fit(X[i], Y[i]).factor_ for i in orders}
    assert found == {SETTINGS.widths[0]}


def test_rows_evenly_spaced():
    assert evenly(5, 9).tolist() == [0, 1, 2, 3, 4]
    assert evenly(101, 3).tolist() == [0, 50, 100]
    assert len(evenly(12345, 600)) == 600
    assert evenly(1, 4).tolist() == [0]


def built(X, which="auto", settings=SETTINGS, n_centers=12):
    return build_dictionaries(Inputs.from_samples(X, np.arange(X.shape[1]), n_centers), which, settings)


def test_products_are_tried_where_they_can_be_afforded(rng):
    names = {d: list(built(rng.normal(size=(12, d)))) for d in (1, 2, 70)}
    assert names[2] == ["linear", "additive", "pairs", "hinges", "steps", "rules", "smooth", "relevant"]
    assert names[1] == ["linear", "additive", "hinges", "steps", "smooth"]
    assert names[70] == ["linear", "additive", "hinges", "steps", "rules", "smooth", "relevant"]


@pytest.mark.parametrize(("n", "repeats", "length"), [(60, 2, 10), (160, 2, 20), (800, 1, 20)])
def test_few_samples_are_cross_validated_repeatedly_and_with_short_paths(n, repeats, length, rng, capsys):
    X = rng.normal(size=(n, 10))
    model = TermwiseRegressor(1, dictionary="additive", target="data", verbose=1).fit(X, X[:, 0])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("additive: ")]
    assert (len(lines), len(model.trials_["additive"])) == (repeats, length + 1)


@pytest.mark.parametrize(("n", "expected"), [(8, 8), (320, 20)])
def test_the_number_of_gaussians_grows_slowly(n, expected, rng):
    X = rng.normal(size=(n, 1))
    model = with_settings(TermwiseRegressor, max_centers=10)(1, dictionary="smooth", target="data").fit(X, X[:, 0])
    assert model.basis_.centers == expected


# -- wide tables -------------------------------------------------------------------------------------------------------


def partners(rng, n=150, d=120, noise=0.2):
    """Two inputs act alone, and one of them together with another that does not."""
    X = rng.normal(size=(n, d))
    return X, 2 * X[:, 3] - X[:, 50] + 2 * X[:, 3] * X[:, 110] + noise * rng.normal(size=n)


def test_of_many_inputs_the_screened_ones_make_products(rng):
    X, y = partners(rng)
    fitted = ScreenedPairs().fit(X, y)
    assert len(fitted.screened_) == 40
    assert {3, 50, 110} <= set(fitted.screened_)
    assert set(np.unique(fitted.inputs_)) == {-1, *fitted.screened_}
    narrow = AnovaBasis().fit(X[:, fitted.screened_])
    np.testing.assert_array_equal(fitted.transform(X), narrow.transform(X[:, fitted.screened_]))
    assert not hasattr(fitted, "_screening_data")


def test_screening_equals_its_definition(rng):
    X = rng.normal(size=(60, 12))
    X[:, 5], X[:, 7] = 1.0, rng.integers(0, 2, size=60)
    Y = np.column_stack([np.exp(X[:, 3]) + 2 * X[:, 3] * X[:, 11], X[:, 9] * X[:, 1] + X[:, 9]])
    Y += rng.normal(size=Y.shape)
    alone, columns = AnovaBasis(order=1, min_count=0).fit(X), np.delete(np.arange(12), 5)

    def share(g):
        return sum(np.corrcoef(g, target)[0, 1] ** 2 for target in Y.T)

    own = [max(share(g) for g in alone.transform(X).T[alone.inputs_[:, 0] == j]) for j in columns]
    leaders = columns[np.argsort(-np.array(own))[:2]]
    others = np.setdiff1d(columns, leaders)
    Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    together = [max(share(Z[:, i] * Z[:, j]) for i in leaders) for j in others]
    expected = sorted([*leaders, *others[np.argsort(-np.array(together))[:2]]])
    assert ScreenedPairs(min_count=0, n_inputs=4).fit(X, Y).screened_.tolist() == expected
    again = np.repeat(np.arange(60), rng.integers(1, 4, size=60))  # duplicates change nothing
    assert ScreenedPairs(min_count=0, n_inputs=4).fit(X[again], Y[again]).screened_.tolist() == expected


def test_screening_is_repeated_on_the_training_folds(rng):
    X, y = rng.normal(size=(80, 400)), rng.normal(size=80)
    model = TermwiseRegressor(dictionary="pairs").fit(X, y)
    assert all(
        curve[1:].min() > 0.9 for curve in model.trials_.values()
    )  # inputs chosen once by all would explain half


@pytest.mark.exhaustive
def test_a_wide_table_is_fitted_in_little_memory(rng):
    X = rng.normal(size=(60, 800))
    y = 2 * X[:, 3] - X[:, 50] + 0.1 * rng.normal(size=60)
    tracemalloc.start()
    model = TermwiseRegressor(target="data").fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 5 * X.nbytes  # some copies of all functions of single inputs; their pairs would be 128 MB
    assert list(model.get_feature_names_out()) == ["x3", "x50"]
    dictionaries = [title for title in model.trials_ if "penalty" not in title]
    assert dictionaries == ["linear", "additive", "pairs", "smooth"]


def test_products_are_found_in_a_wide_table(rng):
    X, y = partners(rng)
    model = TermwiseRegressor(3).fit(X, y)
    assert model.dictionary_ == "pairs"
    assert any("x3 " in name and "x110" in name for name in model.get_feature_names_out())
    assert "dictionary: pairs of the 40 inputs of 120 that explain the targets best" in model.summary()


@pytest.mark.slow
def test_classes_of_a_wide_table(rng):
    X, y = partners(rng, noise=0.5)
    frame = pytest.importorskip("pandas").DataFrame(X, columns=[f"gene {j}" for j in range(120)])
    model = TermwiseClassifier(6, dictionary="pairs").fit(frame, np.digitize(y, [-1, 1]))
    assert model.score(frame, np.digitize(y, [-1, 1])) > 0.7
    assert any("gene 3 " in name and "gene 110 " in name for name in model.get_feature_names_out())
    assert "of the 40 inputs of 120 that explain the targets best" in model.summary()


def test_weights_are_repetitions_in_a_wide_table(rng):
    X, y = partners(rng, n=60)
    counts = rng.integers(0, 3, size=60)
    weighted = TermwiseRegressor(3, dictionary="pairs").fit(X, y, sample_weight=counts)
    rows = np.repeat(np.arange(60), counts)
    written = TermwiseRegressor(3, dictionary="pairs").fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.predict(X), written.predict(X), atol=1e-8)


def test_which_dictionaries_are_tried_for_how_many_inputs(rng):
    def tried(d, which="auto", settings=SETTINGS):
        found = built(rng.normal(size=(12, d)), which, settings)
        return {name: type(basis) for name, basis in found.items() if not DICTIONARIES[name].rough}

    everything = {"linear": AnovaBasis, "additive": AnovaBasis, "pairs": AnovaBasis, "smooth": TunedSmoothBasis}
    assert tried(63) == {**everything, "relevant": SmoothBasis}
    assert list(tried(64)) == list(tried(100)) == ["linear", "additive", "smooth", "relevant"]
    assert tried(101, "relevant") == {"relevant": SmoothBasis}
    assert tried(100, "pairs") == {"pairs": AnovaBasis}
    assert tried(101) == {**everything, "pairs": ScreenedPairs}
    assert tried(101, "pairs") == {"pairs": ScreenedPairs}
    few = RecipeSettings(max_gaussian_inputs=150)
    assert list(tried(151, settings=few)) == ["linear", "additive", "pairs"]
    assert list(tried(151, "smooth", few)) == ["smooth"]


def test_dictionaries_have_no_more_candidates_than_their_bound(rng):
    X = rng.normal(size=(40, 7))
    for name, basis in (*built(X, n_centers=30).items(), ("pairs", ScreenedPairs())):
        assert basis.fit(X, X[:, :1]).transform(X).shape[1] <= DICTIONARIES[name].max_candidates(basis, 7, True)
    assert DICTIONARIES["pairs"].max_candidates(AnovaBasis(), 7, False) == 35


def test_memory_of_folds_is_that_of_stored_columns(rng):
    X = rng.normal(size=(300, 40))
    for name, basis in built(X, n_centers=30).items():
        G = design_matrix(basis.fit(X, X[:, :1]), X)
        stored = G.S.shape[1] if isinstance(G, ProductDesign) else G.shape[1]
        assert stored <= DICTIONARIES[name].stored_columns(basis, 40, 300), name
    assert DICTIONARIES["pairs"].stored_columns(AnovaBasis(), 63, 1000) < 3000  # of 49,612 products


@pytest.mark.parametrize("d", [3, 110])
def test_all_candidates_searched_are_counted_once(d, rng):
    X = rng.normal(size=(60, d))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=60)
    model = TermwiseRegressor(2, target="data").fit(X, y)
    fold = group_folds(X, 5, state())
    counts = []
    for k in range(5):
        names = set()
        smooth = {name: basis for name, basis in built(X, n_centers=60).items() if not DICTIONARIES[name].rough}
        for name, basis in smooth.items():
            fitted = basis.fit(X[fold != k], y[fold != k])
            names |= {(name if "gauss" in one else "", one) for one in fitted.get_feature_names_out()}
        counts.append(len(names))
    assert model.n_candidates_ == max(*counts, len(model.coef_))
    assert f"TermwiseRegressor: 2 of {model.n_candidates_} terms, 60 samples\n" in model.summary()
    assert TermwiseRegressor(2, dictionary="linear").fit(X, y).n_candidates_ == d


# -- the ridge fit as the target ---------------------------------------------------------------------------------------


def weak(seed, n=100, d=8):
    """Many inputs that each do a little, and much noise: every product of two tempts."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.tanh(X).sum(axis=1) + 3 * rng.normal(size=n), np.tanh(X).sum(axis=1)


@pytest.mark.parametrize("basis", [AnovaBasis(), SmoothBasis(width=("median", 0.7)), None], ids=repr)
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_signal_is_ridge_on_columns_of_one_size(basis, outputs, rng):
    X = rng.normal(size=(50, 3)) * [1.0, 1e3, 1e-3]
    Y = np.sin(X[:, [0]] * np.arange(1, outputs + 1)) + 0.3 * rng.normal(size=(50, outputs))
    counts = rng.integers(1, 4, size=50).astype(float)
    G = X if basis is None else basis.fit_transform(X)
    stage, H = RidgeTarget.fit(G, Y, counts), oracles.standardised(G, counts)
    ridge = BasisRidge(alpha="loo").fit(H, Y, sample_weight=counts)
    assert stage.alpha == pytest.approx(ridge.alpha_, rel=1e-3)
    np.testing.assert_allclose(stage.signal, ridge.predict(H), atol=1e-5)
    np.testing.assert_allclose(stage.residual, ridge.loo_residuals_, atol=1e-5)
    fixed = BasisRidge(alpha=stage.alpha).fit(H, Y, sample_weight=counts)
    np.testing.assert_allclose(stage.signal, fixed.predict(H), atol=1e-8)
    smoother = stage.V @ (stage.V * counts[:, None]).T + counts / counts.sum()
    np.testing.assert_allclose(smoother @ Y, stage.signal, atol=1e-8)
    less = np.minimum(counts, 1.0) * stage.residual[:, -1]  # what leaving a repeat of a sample out takes away
    change = stage.change(outputs - 1)
    np.testing.assert_allclose(change.shift + change.U @ change.A.T, smoother / counts * less, atol=1e-10)
    np.testing.assert_allclose(change.own, np.diagonal(smoother) / counts * less, atol=1e-10)


@pytest.mark.parametrize("shape", [(40, 6), (40, 100)])
def test_a_truncated_spectrum_is_the_exact_one_where_the_design_is_well_conditioned(shape, rng):
    G, Y = rng.normal(size=shape), rng.normal(size=(40, 2))
    problem = least_squares_problem(G, Y, rng.integers(1, 4, size=40).astype(float), intercept=True)
    truncated, exact = Spectrum(problem, truncate=True), Spectrum(problem)
    alphas = np.append(0.0, 10.0 ** np.arange(-3, 6))
    for criterion in ("loo", "gcv"):
        np.testing.assert_allclose(truncated.score(criterion, alphas), exact.score(criterion, alphas), rtol=1e-8)
    for alpha in alphas[1:]:
        np.testing.assert_allclose(truncated.solution(alpha).weights, exact.solution(alpha).weights, atol=1e-10)
        np.testing.assert_allclose(truncated.solution(alpha).loo, exact.solution(alpha).loo, atol=1e-8)


def test_a_truncated_spectrum_leaves_out_directions_of_tiny_singular_values(rng):
    G = rng.normal(size=(40, 5)) * [1.0, 1.0, 1.0, 1e-3, 1e-7]
    problem = least_squares_problem(G, G[:, :1] + 0.1 * rng.normal(size=(40, 1)), np.ones(40), intercept=True)
    truncated, exact = Spectrum(problem, truncate=True), Spectrum(problem)
    assert (len(truncated.s), len(exact.s)) == (4, 5)
    np.testing.assert_allclose(
        truncated.solution(1e-3).B @ truncated.solution(1e-3).B.T @ problem.Y,
        exact.solution(1e-3).B @ exact.solution(1e-3).B.T @ problem.Y,
        atol=1e-7,
    )


def test_constant_candidates_do_not_change_the_ridge_fit(rng):
    G, Y = rng.normal(size=(30, 4)), rng.normal(size=(30, 1))
    wide = np.column_stack([G, np.zeros(30), np.full(30, 5.0)])
    np.testing.assert_allclose(RidgeTarget.fit(wide, Y, np.ones(30)).signal, RidgeTarget.fit(G, Y, np.ones(30)).signal)


@pytest.mark.parametrize("weighted", [False, True], ids=["once", "repeated"])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("dictionary", ["linear", "pairs", "smooth"])
def test_leave_one_out_through_ridge_and_few_terms_equals_refits(weighted, outputs, dictionary, rng):
    X = rng.normal(size=(32, 3))
    Y = X[:, [0]] * X[:, [1]] + X[:, 1 : 1 + outputs] + 0.5 * rng.normal(size=(32, outputs))
    counts = rng.integers(1, 4, size=32) if weighted else np.ones(32, dtype=int)
    model = TermwiseRegressor(3, dictionary=dictionary, target="ridge").fit(X, Y, sample_weight=counts)
    assert model.target_ == "ridge"
    stage, G = model.first_stage_, model.basis_.transform(X)
    H = oracles.ridge_columns(model.basis_, X, counts)
    data = model.path_.training
    rows = WeightedRows(counts.astype(float), True)
    scores = np.stack(list(scores_by_output(stage, rows, data.Z, data.Y, data.Y_mean)), axis=2)
    first = np.cumsum(counts) - counts  # the first repeat of each sample
    for k in range(4):
        few, all_, targets = oracles.repeat(counts, G[:, model.path_.terms[:k]], H, Y)
        expected = oracles.ridge_then_few(few, all_, targets, stage.alpha, 1e-6)[first]
        np.testing.assert_allclose(scores[k], expected, rtol=1e-6, atol=1e-6)
        cut = model.at(k)
        np.testing.assert_allclose(cut.loo_residuals_, Y - expected, rtol=1e-6, atol=1e-6)
        hat = oracles.ridge_then_few_hat(few, all_, stage.alpha, 1e-6)
        assert cut.effective_dof_ == pytest.approx(np.trace(hat), rel=1e-6)
        np.testing.assert_allclose(cut.predict(X), (hat @ targets)[first], atol=1e-6)
        sse = np.sum((targets - hat @ targets) ** 2, axis=0)
        np.testing.assert_allclose(cut.noise_variance_, sse / (len(targets) - np.trace(hat)), rtol=1e-6)
        assert cut.criteria_["loo"] == pytest.approx(np.average(np.mean((Y - expected) ** 2, axis=1), weights=counts))
        if k:
            to_weights = np.linalg.lstsq(few - few.mean(axis=0), hat - hat.mean(axis=0), rcond=None)[0]
            cov = np.multiply.outer(cut.noise_variance_, to_weights @ to_weights.T)
            np.testing.assert_allclose(cut.weights_cov_, cov, rtol=1e-4, atol=1e-7)
            band = np.sqrt(np.outer(np.sum(hat**2, axis=1)[first], cut.noise_variance_))
            np.testing.assert_allclose(cut.predict(X, return_std=True)[1], band, rtol=1e-5)


def test_standard_errors_measure_the_variance_of_the_weights():
    """With the terms and the penalties as they are, over many draws of the noise."""
    X, y, truth = weak(0, n=80, d=4)
    model = TermwiseRegressor(4, dictionary="additive", target="ridge").fit(X, y)
    G, H = model.transform(X), oracles.standardised(model.basis_.transform(X), np.ones(80))
    hat = oracles.ridge_then_few_hat(G, H, model.first_stage_.alpha, model.alpha_)
    draws = hat @ (truth[:, None] + 3 * np.random.default_rng(1).normal(size=(80, 4000)))
    stated = model.predict(X, return_std=True)[1] * 3 / np.sqrt(model.noise_variance_)
    np.testing.assert_allclose(draws.std(axis=1), stated, rtol=0.08)


@pytest.mark.slow
def test_the_ridge_fit_is_the_better_target_where_many_candidates_each_matter_a_little():
    ratios = []
    for seed in range(6):
        X, y, _ = weak(seed)
        X_new, _, truth = weak(seed + 100, n=1000)
        models = {target: TermwiseRegressor(dictionary="pairs", target=target).fit(X, y) for target in BOTH}
        errors = {target: np.mean((model.predict(X_new) - truth) ** 2) for target, model in models.items()}
        ratios.append(errors["ridge"] / errors["data"])
    assert np.exp(np.mean(np.log(ratios))) < 0.7
    assert max(ratios) < 1


def test_the_data_are_the_better_target_where_few_of_many_candidates_matter(rng):
    X = rng.uniform(-1, 1, size=(80, 24))
    y = X[:, 3] * X[:, 11] + X[:, 5] * X[:, 7] - X[:, 1] * X[:, 9] + 0.1 * rng.normal(size=80)
    model = TermwiseRegressor(dictionary="pairs").fit(X, y)
    assert model.target_ == "data"
    assert model.n_terms_ <= 6
    assert model.trials_["pairs"].min() < 0.5 * model.trials_["pairs, ridge"].min()


def test_beyond_a_thousand_samples_the_targets_themselves_are_fitted(rng):
    Regressor = with_settings(TermwiseRegressor, ridge_rows=60)
    X, y = pairwise(rng, n=60)
    assert Regressor(dictionary="linear", target="ridge").fit(X, y).target_ == "ridge"
    for counts in (np.where(np.arange(60), 1, 2), np.full(60, 1.1)):
        model = Regressor(dictionary="linear").fit(X, y, sample_weight=counts)
        assert (model.target_, list(model.trials_)) == ("data", ["linear"])
    rows = np.append(np.arange(60), 0)
    assert list(Regressor(dictionary="linear").fit(X[rows], y[rows]).trials_) == ["linear"]


def test_a_ridge_fit_that_is_the_mean(rng):
    """Where no penalty is too large there is nothing to reproduce."""
    X, noise = rng.normal(size=(40, 2)), rng.normal(size=40)
    H = np.column_stack([np.ones(40), X])
    y = noise - H @ np.linalg.lstsq(H, noise, rcond=None)[0]  # no column has anything to say
    model = TermwiseRegressor(2, dictionary="linear", target="ridge").fit(X, y)
    assert np.isinf(model.first_stage_.alpha)
    np.testing.assert_allclose(model.predict(X), model.intercept_, atol=1e-9)
    assert model.effective_dof_ == pytest.approx(1)
    assert np.isfinite(model.loo_residuals_).all()


# -- what is found -----------------------------------------------------------------------------------------------------


def test_a_pairwise_truth(rng):
    X, y = pairwise(rng)
    model = TermwiseRegressor().fit(X, y)
    assert model.dictionary_ == "pairs"
    assert "x1 * x3" in model.get_feature_names_out()
    assert model.n_terms_ <= 3
    X_new, y_new = pairwise(rng, noise=0.0)
    assert model.score(X_new, y_new) > 0.97
    names = [name for name in DICTIONARIES if not DICTIONARIES[name].rough]  # boosting is far behind
    assert set(model.trials_) == {*names, *(f"{name}, ridge" for name in names)}
    assert model.target_ == "data"  # few candidates matter
    assert (model.rule_, model.criterion_) == ("cost", "cv")
    assert model.trials_["pairs"].min() == min(curve.min() for curve in model.trials_.values())
    assert model.trials_["pairs"].min() == pytest.approx(0.2**2 / y.var(), rel=0.3)
    tried = "; ".join(f"{title} {curve.min():.3g}" for title, curve in model.trials_.items())
    error = f"{model.cv_error_:.3g} +- {model.cv_error_std_:.2g} of the variance"
    assert f"dictionary: pairs\ncross-validated error, choice included: {error}\n" in model.summary()
    assert f"smallest cross-validated error of what was tried: {tried}\n" in model.summary()
    other = TermwiseRegressor(2, dictionary="pairs", target="ridge").fit(X, y)
    assert other.rule_ == "cost"
    assert "dictionary: pairs, fitted to ridge regression on all candidates\n" in other.summary()


def test_a_linear_truth(rng):
    X = rng.normal(size=(100, 6))
    y = 3 * X[:, 2] - 2 * X[:, 4] + 0.5 * rng.normal(size=100)
    model = TermwiseRegressor().fit(X, y)
    assert {"x2", "x4"} <= set(model.get_feature_names_out())
    assert model.n_terms_ <= 4
    assert TermwiseRegressor(2).fit(X, y).get_feature_names_out().tolist() == ["x2", "x4"]


def test_an_additive_truth(rng):
    X = rng.uniform(-1, 1, size=(250, 4))
    y = np.exp(-8 * X[:, 0] ** 2) + X[:, 2] + 0.1 * rng.normal(size=250)
    model = TermwiseRegressor().fit(X, y)
    assert model.dictionary_ == "relevant"
    moved = X.copy()
    moved[:, [1, 3]] = rng.permutation(X[:, [1, 3]])
    assert np.std(model.predict(moved) - model.predict(X)) < 0.1 * np.std(y)  # two inputs hardly matter
    assert model.trials_["additive"].min() < 0.5 * model.trials_["linear"].min()
    X_new = rng.uniform(-1, 1, size=(200, 4))
    assert model.score(X_new, np.exp(-8 * X_new[:, 0] ** 2) + X_new[:, 2]) > 0.93


@pytest.mark.slow
def test_a_radial_truth(rng):
    X = rng.uniform(-1, 1, size=(300, 3))
    y = np.cos(4 * np.sqrt((X**2).sum(axis=1))) + 0.05 * rng.normal(size=300)
    model = TermwiseRegressor().fit(X, y)
    assert model.dictionary_ in ("smooth", "relevant")
    assert model.trials_["smooth"].min() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 11])
def test_errors_of_a_model_without_terms_are_those_of_the_mean(seed):
    """The error of the other choices, which are not taken, was given as that of the model."""
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(120, 8)), rng.uniform(size=120) < 0.42
    X[:3, 0] *= 30
    model = TermwiseClassifier("accurate", dictionary="linear" if seed % 2 else "pairs").fit(X, labels)
    p = labels.mean()
    loss = -np.where(labels, np.log(p), np.log1p(-p))
    assert model.n_terms_ == 0
    assert model.cv_error_rate_ == pytest.approx(min(p, 1 - p))
    assert model.cv_log_loss_ == pytest.approx(loss.mean(), rel=0.02)
    assert model.cv_error_std_ == pytest.approx(loss.std() / loss.mean() / np.sqrt(120), rel=0.02, abs=3e-3)
    y = rng.normal(size=120)
    model = TermwiseRegressor("accurate", dictionary="linear").fit(X, y)
    assert model.n_terms_ == 0
    squares = (y - y.mean()) ** 2 / y.var()
    assert model.cv_error_std_ == pytest.approx(squares.std() / np.sqrt(120), rel=0.05)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_errors_of_a_log_link_are_finite_beside_a_far_row(loss):
    """In the fold without the row, the logarithm of its mean is that of no float."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    X[7, 2] = 1e9
    mean = np.exp(0.8 * X[:, 0])
    y = rng.poisson(mean) if loss == "poisson" else rng.gamma(3, mean / 3)
    model = TermwiseRegressor(loss=loss, dictionary="linear").fit(X, y)
    assert np.isfinite([model.cv_error_, model.cv_error_std_, *np.concatenate(list(model.trials_.values()))]).all()
    assert np.isfinite(model.predict_interval(X)).all()


@pytest.mark.exhaustive
def test_noise_gives_next_to_no_terms():
    sizes = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        model = TermwiseRegressor().fit(rng.normal(size=(60, 3)), rng.normal(size=60))
        sizes.append(model.n_terms_)
        assert min(curve.min() for curve in model.trials_.values()) > 0.8
    assert np.median(sizes) == 0
    assert max(sizes) <= 5
    empty = model if not model.n_terms_ else model.at(0)
    np.testing.assert_allclose(empty.predict(np.zeros((2, 3))), empty.intercept_)
    assert "no terms: the model is the mean" in empty.summary()


def test_an_indicator_alone(rng):
    X = np.repeat([[0.0], [1.0]], 40, axis=0)
    model = TermwiseRegressor().fit(X, X[:, 0] + 0.1 * rng.normal(size=80))
    assert model.n_terms_ == 1
    np.testing.assert_allclose(model.predict([[0.0], [1.0]]), [0, 1], atol=0.1)


# -- the parameters ----------------------------------------------------------------------------------------------------


def test_sizes(rng):
    X, y = pairwise(rng, n=108, noise=0.4)
    accurate = TermwiseRegressor("accurate", dictionary="smooth").fit(X, y)
    small = TermwiseRegressor("small", dictionary="smooth").fit(X, y)
    best = min(accurate.trials_, key=lambda title: accurate.trials_[title].min())
    assert accurate.n_terms_ == accurate.trials_[best].argmin()
    assert accurate.target_ == ("ridge" if "ridge" in best else "data")
    assert small.n_terms_ <= accurate.n_terms_
    for size in (1, 7, np.int64(35)):
        assert TermwiseRegressor(size, dictionary="smooth").fit(X, y).n_terms_ == size
    assert TermwiseRegressor(7, dictionary="linear").fit(X, y).n_terms_ == 5  # there are no more


@pytest.mark.parametrize("name", DICTIONARIES)
def test_the_dictionary_can_be_forced(name, rng):
    X, y = pairwise(rng, n=60)
    model = TermwiseRegressor(dictionary=name).fit(X, y)
    assert model.dictionary_ == name
    assert list(model.trials_)[:2] == [name, f"{name}, ridge"]
    kinds = {"smooth": SmoothBasis, "relevant": SmoothBasis, "rules": UnionBasis}
    assert isinstance(model.basis_, kinds.get(name, AnovaBasis))


def test_at_most_that_many_terms(rng):
    X = rng.uniform(-1, 1, size=(150, 2))
    y = np.sin(2 * X[:, 0]) * np.cos(2 * X[:, 1])
    model = TermwiseRegressor("accurate", max_terms=4, dictionary="smooth").fit(X, y)
    assert model.n_terms_ == 4
    assert len(model.trials_["smooth"]) == 5


def test_paths_that_still_improve_are_extended(rng):
    X = rng.uniform(-1, 1, size=(200, 2))
    y = np.sin(6 * X[:, 0]) * np.cos(6 * X[:, 1])
    model = TermwiseRegressor("accurate", dictionary="smooth", target="data", max_terms=60).fit(X, y)
    assert len(model.trials_["smooth"]) == 61  # 25, 50, then all
    assert model.n_terms_ > 40


def curve_of_seed(X, y, seed):
    return TermwiseRegressor(dictionary="linear", random_state=seed).fit(X, y).trials_["linear"]


def test_the_random_state_draws_further_folds_where_the_choice_is_close():
    X, y, _ = weak(0, n=60, d=12)
    first, again, other, given = (curve_of_seed(X, y, seed) for seed in (0, 0, 1, state(1)))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(given, other)
    assert not np.array_equal(first, other)
    assert not np.array_equal(curve_of_seed(X, y, None), first)


def test_a_clear_choice_does_not_depend_on_the_random_state(rng):
    X = rng.normal(size=(80, 4))
    y = 3 * X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=80)
    curves = [curve_of_seed(X, y, seed) for seed in (0, 1, state(2), None)]
    assert all(np.array_equal(curve, curves[0]) for curve in curves[1:])


@pytest.mark.slow
def test_verbose_reports_trials_and_terms(rng, capsys):
    X, y = pairwise(rng, n=60)
    TermwiseRegressor().fit(X, y)
    assert capsys.readouterr().out == ""
    model = TermwiseRegressor(verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0].strip(",:") for line in lines[:8:2]] == ["linear", "additive", "pairs", "smooth"]
    assert [line.split()[1] for line in lines[1:8:2]] == ["ridge:"] * 4
    pattern = r"pairs, ridge: cross-validated error 0\.\d+ of the variance with \d+ terms"
    assert re.fullmatch(pattern, lines[5])
    last = [line for line in lines if line.startswith("pairs: ")][-1]
    curve = model.trials_["pairs"]
    assert last == f"pairs: cross-validated error {curve.min():.4g} of the variance with {curve.argmin()} terms"
    assert len(lines) >= 8 + len(model.path_)
    assert lines[-1].split()[:2] == [str(len(model.path_)), "candidate"]


def test_callbacks_follow_and_end_the_fit(rng):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    from test_forward import StopAfter

    X, y = pairwise(rng, n=60)
    steps = 1 + 1  # a first look for both targets, then both folded again
    model = TermwiseRegressor(5, dictionary="linear").set_callbacks(StopAfter(steps + 2)).fit(X, y)
    assert model.stop_reason_ == "stopped by a callback"
    assert model.n_terms_ == 2


BAD = [
    ({"size": 0}, ValueError, r"size must be a whole number >= 1 and < 151, got 0: 'readable', 'small', 'accu"),
    ({"size": 9, "max_terms": 5}, ValueError, r"size must be .* < 6, got 9: .* or a number up to max_terms\."),
    ({"size": 2.5}, ValueError, r"size must be a whole number .*, got 2\.5"),
    ({"size": True}, ValueError, r"size must be a whole number .*, got True"),
    ({"size": None}, TypeError, r"size must be a whole number .*, got None"),
    ({"size": "big"}, ValueError, r"size must be one of 'readable', 'small', 'accurate', got 'big': or give the"),
    ({"dictionary": "deep"}, ValueError,
     r"dictionary must be one of 'auto', .*, got 'deep': 'auto' tries them all\."),
    ({"dictionary": AnovaBasis()}, ValueError, r"dictionary must be one of .*, got AnovaBasis\(\)"),
    ({"target": "noise"}, ValueError,
     r"target must be one of 'auto', 'data', 'ridge', 'boosting', 'pooled', got 'noise': 'auto' tries them all, or"),
    ({"target": None}, ValueError, r"target must be one of .*, got None"),
    ({"max_terms": 0}, ValueError, r"max_terms must be a whole number >= 1, got 0: 150 is plenty for a small model\."),
    ({"max_terms": None}, TypeError, r"max_terms must be a whole number >= 1, got None"),
    ({"verbose": -1}, ValueError, r"verbose must be a whole number >= 0, got -1: 0 is silent, 1 reports what is tried"),
    ({"verbose": "yes"}, TypeError, r"verbose must be a whole number >= 0, got 'yes'"),
    ({"random_state": "seed"}, ValueError, r"'seed' cannot be used to seed"),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "error", "pattern"), BAD, ids=[str(case[0]) for case in BAD])
@pytest.mark.parametrize("kind", [TermwiseRegressor, TermwiseClassifier])
def test_bad_parameters(kind, parameters, error, pattern, rng):
    X = rng.normal(size=(20, 2))
    with pytest.raises(error, match=pattern):
        kind(**parameters).fit(X, X[:, 0] > 0)


# -- the data ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("n", "seed"), [(30, 0), (30, 1), (90, 0), (90, 2)])
def test_weights_are_repetitions(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=n)
    counts = np.full(n, 2) if seed else rng.integers(1, 4, size=n)
    weighted = TermwiseRegressor().fit(X, y, sample_weight=counts)
    rows = rng.permutation(np.repeat(np.arange(n), counts))
    repeated = TermwiseRegressor().fit(X[rows], y[rows])
    assert (weighted.dictionary_, weighted.n_terms_) == (repeated.dictionary_, repeated.n_terms_)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)
    assert weighted.target_ == repeated.target_
    assert all(len(curve) > max(10, n // 8) for title, curve in weighted.trials_.items() if "pooled" not in title)
    assert set(weighted.trials_) == set(repeated.trials_)
    for title, curve in weighted.trials_.items():
        np.testing.assert_allclose(curve, repeated.trials_[title], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TermwiseRegressor, TermwiseClassifier])
@pytest.mark.parametrize("name", ["pairs", "smooth"])
def test_weights_are_repetitions_for_the_ridge_fit_too(kind, name, rng):
    X = rng.normal(size=(50, 3))
    y = X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=50)
    y = y if kind is TermwiseRegressor else np.digitize(y, [0, 2])
    counts = rng.integers(1, 4, size=50)
    weighted = kind(dictionary=name, target="ridge").fit(X, y, sample_weight=counts)
    rows = rng.permutation(np.repeat(np.arange(50), counts))
    repeated = kind(dictionary=name, target="ridge").fit(X[rows], y[rows])
    assert weighted.n_terms_ == repeated.n_terms_ > 0
    assert weighted.effective_dof_ == pytest.approx(repeated.effective_dof_, rel=1e-6)
    if kind is TermwiseRegressor:
        np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)
        np.testing.assert_allclose(weighted.loo_residuals_[rows], repeated.loo_residuals_, atol=1e-6)
        np.testing.assert_allclose(weighted.predict_interval(X), repeated.predict_interval(X), atol=1e-5)
    else:
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


@pytest.mark.slow
def test_duplicates_share_a_fold(rng):
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    model = TermwiseRegressor().fit(np.tile(X, (4, 1)), np.tile(y, 4))
    assert min(curve.min() for curve in model.trials_.values()) > 0.8
    y += 5 * (X**2).sum(axis=1)
    widths = [
        TermwiseRegressor(dictionary="smooth").fit(X, y, sample_weight=counts).basis_.factor_
        for counts in (None, np.full(60, 4.0))
    ]
    assert widths[0] == widths[1] > SETTINGS.widths[0]


@pytest.mark.slow
def test_samples_of_weight_zero_are_not_there(rng):
    X, y = pairwise(rng, n=120)
    counts = np.where(np.arange(120) % 3, 1.0, 0.0)
    y[counts == 0] = 1e6
    model = TermwiseRegressor().fit(X, y, sample_weight=counts)
    alone = TermwiseRegressor().fit(X[counts > 0], y[counts > 0])
    assert model.dictionary_ == alone.dictionary_
    np.testing.assert_allclose(model.predict(X), alone.predict(X))
    assert len(model.loo_residuals_) == 120
    X, labels = blobs(rng, n=90)
    counts = np.where(np.arange(90) % 3, 1.0, 0.0)
    model = TermwiseClassifier().fit(X, labels, sample_weight=counts)
    alone = TermwiseClassifier().fit(X[counts > 0], labels[counts > 0])
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X))


def test_several_outputs(rng):
    X, y = pairwise(rng, n=150)
    Y = np.column_stack([y, X[:, 0] + 0.1 * rng.normal(size=150)])
    model = TermwiseRegressor().fit(X, Y)
    assert model.predict(X).shape == (150, 2)
    assert model.score(X, Y) > 0.9
    lower, upper = model.predict_interval(X)
    assert lower.shape == upper.shape == (150, 2)
    matrix, vector = (TermwiseRegressor(dictionary="pairs").fit(X, target) for target in (Y[:, :1], y))
    np.testing.assert_allclose(matrix.predict(X)[:, 0], vector.predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auto", "smooth"])
def test_units_of_the_inputs_do_not_matter(name, rng):
    X, y = pairwise(rng, n=60)
    other = X * [1e-3, 1e3, 2.0, 0.7, 1e6] + [0, 10, -4, 1e-2, 1e6]
    first, second = TermwiseRegressor(dictionary=name).fit(X, y), TermwiseRegressor(dictionary=name).fit(other, y)
    assert (first.dictionary_, first.n_terms_) == (second.dictionary_, second.n_terms_)
    np.testing.assert_allclose(first.predict(X), second.predict(other), atol=1e-6)
    third = TermwiseRegressor(dictionary=name).fit(X, 1e4 * y - 7)
    np.testing.assert_allclose(1e4 * first.predict(X) - 7, third.predict(X), atol=1e-3)


@pytest.mark.slow
def test_order_and_units_of_the_columns_do_not_matter(rng):
    X = rng.normal(size=(120, 4))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=120)
    order = [2, 0, 3, 1]
    model = TermwiseRegressor().fit(X, y)
    other = TermwiseRegressor().fit(X[:, order] * [1e3, 0.1, 7.0, 1.0] + 5.0, y)
    assert other.choice_.title == model.choice_.title
    np.testing.assert_allclose(other.predict(X[:, order] * [1e3, 0.1, 7.0, 1.0] + 5.0), model.predict(X), rtol=1e-6)


def steps_of_integers(rng):
    X = rng.integers(0, 6, size=(200, 6)).astype(float)
    return X, 2.0 * (X[:, 0] > 2) + 3.0 * (X[:, 1] > 3) * (X[:, 2] < 2) + rng.normal(size=200)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_order_of_columns_with_few_values_does_not_matter(seed):
    """Such columns have rows of equal ranks and splits of trees that are equally good."""
    X, y = steps_of_integers(np.random.default_rng(seed))
    order = np.random.default_rng(seed).permutation(6)
    first, second = TermwiseRegressor().fit(X, y), TermwiseRegressor().fit(X[:, order], y)
    np.testing.assert_allclose(first.predict(X), second.predict(X[:, order]), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_the_order_of_columns_does_not_matter_to_classifiers(load):
    X, y = load(return_X_y=True)
    first, second = TermwiseClassifier().fit(X, y), TermwiseClassifier().fit(X[:, ::-1], y)
    np.testing.assert_allclose(first.predict_proba(X), second.predict_proba(X[:, ::-1]), atol=1e-6)


@pytest.mark.slow
def test_the_order_of_the_rows_does_not_matter(rng):
    X, y = pairwise(rng, n=100)
    order = rng.permutation(100)
    first, second = TermwiseRegressor().fit(X, y), TermwiseRegressor().fit(X[order], y[order])
    np.testing.assert_allclose(first.predict(X), second.predict(X), atol=1e-8)


def test_single_precision(rng):
    X, y = pairwise(rng, n=100)
    model = TermwiseRegressor().fit(X.astype(np.float32), y)
    assert model.predict(X.astype(np.float32)).dtype == np.float32
    assert model.score(X, y) > 0.8


@pytest.mark.slow
def test_constant_columns_are_ignored(rng):
    X, y = pairwise(rng, n=100)
    wide = np.column_stack([X[:, :2], np.full(100, 0.1), X[:, 2:]])
    np.testing.assert_allclose(TermwiseRegressor().fit(wide, y).predict(wide), TermwiseRegressor().fit(X, y).predict(X))


@pytest.mark.parametrize("name", ["auto", "linear", "pairs", "smooth"])
@pytest.mark.parametrize("n", [1, 2, 30])
def test_nothing_but_constants(name, n):
    with pytest.raises(ValueError, match=rf"X must have an input that is not constant, got {n} samples? all identical"):
        TermwiseRegressor(dictionary=name).fit(np.ones((n, 2)), np.arange(float(n)))


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 10])
def test_very_few_samples(n, rng):
    X = rng.normal(size=(n, 3))
    for name in ("auto", "linear", "additive", "pairs", "smooth"):
        model = TermwiseRegressor("accurate", dictionary=name).fit(X, X[:, 0])
        assert np.isfinite(model.predict(X)).all()
        assert model.n_terms_ < n
    proba = TermwiseClassifier().fit(X, np.arange(n) % 2).predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert np.isfinite(TermwiseRegressor(5).fit(X, X[:, 0]).predict(X)).all()


def test_too_little_weight(rng):
    X = rng.normal(size=(20, 2))
    with pytest.raises(ValueError, match="sample_weight must add up to at least 2 samples"):
        TermwiseRegressor().fit(X, X[:, 0], sample_weight=np.full(20, 0.01))
    message = "sample_weight must add up to at least 2 samples"  # before anything is fitted
    with pytest.raises(ValueError, match=message):
        TermwiseRegressor().fit(X, X[:, 0], sample_weight=np.exp(-700 * rng.uniform(size=20)))


def test_one_column_and_constant_targets(rng):
    x = rng.uniform(-3, 3, size=(80, 1))
    model = TermwiseRegressor().fit(x, np.sin(2 * x[:, 0]))
    assert model.score(x, np.sin(2 * x[:, 0])) > 0.95
    constant = TermwiseRegressor().fit(x, np.full(80, 0.1))
    assert constant.n_terms_ == 0
    np.testing.assert_allclose(constant.predict(x), 0.1)


@pytest.mark.slow
def test_more_columns_than_samples(rng):
    X = rng.normal(size=(40, 60))
    model = TermwiseRegressor().fit(X, 5 * X[:, 17] + 0.1 * rng.normal(size=40))
    assert "x17" in model.get_feature_names_out()
    assert model.n_terms_ < 13


@pytest.mark.slow
def test_inputs_that_take_few_values(rng):
    X = rng.integers(0, 2, size=(200, 4)).astype(float)
    model = TermwiseRegressor().fit(X, X[:, 0] * X[:, 2] + 0.1 * rng.normal(size=200))
    assert model.score(X, X[:, 0] * X[:, 2]) > 0.95
    rare = np.zeros((60, 2))
    rare[7, 0] = 1
    assert TermwiseRegressor().fit(rare, rng.normal(size=60)).n_terms_ <= 1


def test_an_input_that_varies_only_in_rows_left_out(rng):
    rare = np.zeros((1000, 1))
    rare[[1, 2]] = 1.0
    basis = TunedSmoothBasis(factors=SETTINGS.widths).fit(rare, rng.normal(size=1000))
    assert basis.factor_ == SETTINGS.widths[0]
    assert with_settings(TermwiseRegressor, choice_rows=100)().fit(rare, rng.normal(size=1000)).n_terms_ == 0


# -- tables ------------------------------------------------------------------------------------------------------------


def table(module, rng, n=100):
    """A table with numbers and categories, as pandas or polars has it, and the targets."""
    size, other = rng.normal(size=(2, n))
    kind = rng.choice(["red", "green", "blue"], size=n)
    y = size + 2 * (kind == "red") + 0.2 * rng.normal(size=n)
    frame = module.DataFrame({"size": size, "kind": kind, "other": other})
    return as_categories(frame), y


def as_categories(frame):
    if hasattr(frame, "astype"):
        return frame.astype({"kind": "category"})
    import polars as pl

    return frame.with_columns(frame["kind"].cast(pl.Categorical))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_with_categories(library, rng):
    module = pytest.importorskip(library)
    X, y = table(module, rng)
    model = TermwiseRegressor().fit(X, y)
    assert model.categories_ == {"kind": ["blue", "green", "red"]}
    assert "one-hot encoded categories: kind: blue, green, red" in model.summary()
    assert {"size", "kind=red"} <= set(TermwiseRegressor(dictionary="linear").fit(X, y).get_feature_names_out())
    assert model.score(X, y) > 0.9
    new = as_categories(module.DataFrame({"size": [0.0, 0.0], "kind": ["red", "purple"], "other": [0.0, 0.0]}))
    red, unseen = model.predict(new)
    assert red == pytest.approx(2, abs=0.5)
    assert abs(unseen) < 1.5
    assert model.feature_names_in_.tolist() == ["size", "kind", "other"]
    assert cross_val_score(TermwiseRegressor(dictionary="linear"), X, y, cv=3).mean() > 0.8
    labels = np.where(y > 1, "high", "low")
    assert TermwiseClassifier(dictionary="linear").fit(X, labels).score(X, labels) > 0.85


def test_both_kinds_of_frames_give_the_same_model():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    predictions = []
    for module in (pandas, polars):
        X, y = table(module, np.random.default_rng(3), n=80)
        counts = np.where(np.arange(80) % 4, 1.0, 0.0)
        model = TermwiseRegressor(dictionary="pairs").fit(X, y, sample_weight=counts)
        predictions.append(model.predict(X))
        assert len(model.loo_residuals_) == 80
    np.testing.assert_allclose(*predictions)


def test_a_category_of_weight_zero_is_unknown(rng):
    pandas = pytest.importorskip("pandas")
    X, y = table(pandas, rng)
    counts = (X["kind"] != "blue").to_numpy(dtype=float)
    model = TermwiseRegressor(dictionary="linear").fit(X, y, sample_weight=counts)
    assert model.categories_ == {"kind": ["green", "red"]}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # scikit-learn's, before the error
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_bad_columns_are_named(library, rng):
    module = pytest.importorskip(library)
    frame = module.DataFrame({"good": [1.0, 2.0, 3.0], "hole": [1.0, None, 2.0]})
    with pytest.raises(ValueError, match=r"X must not have missing values .* got some in hole: fill them"):
        TermwiseRegressor(missing="error").fit(frame, [1.0, 2.0, 3.0])
    X, y = table(module, rng, n=40)
    model = TermwiseRegressor(dictionary="linear").fit(X, y)
    with pytest.raises(ValueError, match="X must be a data frame as in fit, got ndarray"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["kind", "size", "other"]])
    with pytest.raises(ValueError, match="got some in x1"):
        TermwiseRegressor(missing="error").fit([[1.0, np.nan], [2.0, 3.0], [3.0, 4.0]], [1.0, 2.0, 3.0])


# -- what the fitted models can do -------------------------------------------------------------------------------------


def test_the_weights_are_ridge_on_the_chosen_terms(rng):
    X, y = pairwise(rng, n=120)
    model = TermwiseRegressor(target="data").fit(X, y)
    G = model.basis_.transform(X)
    ridge = BasisRidge(alpha=model.alpha_).fit(G[:, model.support_], y)
    np.testing.assert_allclose(model.predict(X), ridge.predict(G[:, model.support_]), atol=1e-6)
    path = forward_path(G, y, rule="cost", max_terms=model.n_terms_ + SETTINGS.extra_terms)
    assert model.path_.terms.tolist() == path.terms.tolist()
    same = ForwardRegressor(
        clone(model.basis_), rule="cost", criterion=None, max_terms=model.n_terms_, patience=None
    ).fit(X, y)
    np.testing.assert_allclose(model.predict(X), same.predict(X), atol=1e-8)


def test_other_sizes_of_the_path(rng):
    X, y = pairwise(rng, n=120)
    model = TermwiseRegressor(target="data").fit(X, y)
    assert len(model.path_) == model.n_terms_ + SETTINGS.extra_terms
    larger = model.at(model.n_terms_ + 5)
    assert larger.n_terms_ == model.n_terms_ + 5
    message = rf"got TermwiseRegressor truncated by at\(\): fit with size={larger.n_terms_}; method='jackknife\+' gives"
    with pytest.raises(ValueError, match=message):
        larger.predict_interval(X)
    assert larger.trials_ is model.trials_
    assert model.at(0).predict(X) == pytest.approx(y.mean())
    other = TermwiseRegressor(3, dictionary="pairs", target="ridge").fit(X, y)
    assert other.at(0).predict(X) == pytest.approx(y.mean())
    assert other.at(0).effective_dof_ == pytest.approx(1)
    assert [len(other.at(k).weights_) for k in (1, 5)] == [1, 5]
    assert other.at(3).predict(X) == pytest.approx(other.predict(X))
    names = model.get_feature_names_out()
    columns = model.transform(X)
    assert columns.shape == (120, len(names)) == (120, model.n_terms_)
    np.testing.assert_allclose(
        columns @ model.weights_[np.argsort(model.support_)] + model.intercept_, model.predict(X)
    )
    X, labels = blobs(rng, n=100)
    classifier = TermwiseClassifier(dictionary="linear").fit(X, labels)
    before = classifier.predict_proba(X)
    np.testing.assert_allclose(classifier.at(0).predict_proba(X)[:, 1], labels.mean(), atol=0.06)
    np.testing.assert_array_equal(classifier.predict_proba(X), before)


@pytest.mark.parametrize("kind", [TermwiseRegressor, TermwiseClassifier])
@pytest.mark.parametrize("target", BOTH)
def test_pickles_and_clones(kind, target, rng):
    X, y = pairwise(rng, n=60)
    model = kind(3, dictionary="pairs", target=target).fit(X, y if kind is TermwiseRegressor else y > 0)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.predict(X), model.predict(X))
    np.testing.assert_array_equal(restored.at(2).loo_residuals_, model.at(2).loo_residuals_)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "dictionary_")
    again = model.set_params(dictionary="linear").fit(X, y if kind is TermwiseRegressor else y > 0)
    assert again.dictionary_ == "linear"


def test_a_fit_that_fails_leaves_the_model_as_it_was(rng):
    X, y = pairwise(rng, n=60)
    model = TermwiseRegressor(dictionary="linear").fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="not constant"):
        model.fit(np.ones((60, 5)), y)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.slow
def test_intervals_cover(rng):
    X, y = pairwise(rng, n=200, noise=0.5)
    X_new, y_new = pairwise(rng, n=2000, noise=0.5)
    lower, upper = TermwiseRegressor().fit(X, y).predict_interval(X_new, coverage=0.9)
    assert 0.85 < np.mean((lower <= y_new) & (y_new <= upper)) < 0.95


# -- classes -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("size", ["small", "accurate"])
def test_probabilities(classes, size, rng):
    X, labels = blobs(rng, classes=classes)
    X_new, truth = blobs(rng, n=2000, classes=classes)
    names = np.array(["no", "yes", "maybe"])
    model = TermwiseClassifier(size).fit(X, names[labels])
    assert model.classes_.tolist() == sorted(names[:classes])
    proba = model.predict_proba(X_new)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert proba.min() >= 0
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X_new))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X_new)), proba)
    hits = names[truth][:, None] == model.classes_
    brier, base = np.mean((proba - hits) ** 2), np.mean((hits.mean(axis=0) - hits) ** 2)
    assert brier < 0.6 * base
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (proba >= low) & (proba < low + 0.25)
        assert proba[inside].mean() == pytest.approx(hits[inside].mean(), abs=0.12)


def test_a_rare_class_that_one_input_nearly_determines():
    X, y = np.random.default_rng(0).normal(size=(300, 3)), np.arange(300) < 11
    X[:, 0] = np.arange(300) < 12
    model = TermwiseClassifier(random_state=0).fit(X, y)
    assert model.n_terms_ >= 1
    assert model.cv_log_loss_ < 0.03


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_calibrated_on_out_of_fold_scores(classes, rng):
    X, labels = blobs(rng, n=80, classes=classes)
    counts = rng.integers(1, 4, size=80)
    Classifier = with_settings(TermwiseClassifier, n_repeats=1, max_repeats=1)
    model = Classifier(2, dictionary="linear", target="ridge").fit(X, labels, counts)  # no choice to correct for
    folds = model.fitted_terms_.fold_models
    signs = 2.0 * (labels[:, None] == np.arange(classes)) - 1
    signs = signs if classes > 2 else signs[:, 1:]
    scores = signs - folds.residuals
    for k in range(len(folds.models)):  # the residuals are those of the fold models
        np.testing.assert_allclose(scores[folds.fold == k], folds.outputs(X)[k][folds.fold == k], atol=1e-10)
    scores = scores if classes > 2 else np.column_stack([-scores, scores])
    size = counts @ (labels[:, None] == np.arange(classes))
    wrong = oracles.WRONG_LABELS / (size + 2 * oracles.WRONG_LABELS)
    others = np.where(labels[:, None] == np.arange(classes), 0.0, size + oracles.WRONG_LABELS)
    others *= (wrong[labels] / others.sum(axis=1))[:, None]
    smoothed = others + (labels[:, None] == np.arange(classes)) * (1 - wrong)

    def negative_log_likelihood(slope, shift):
        logits = slope * (scores + (shift if classes > 2 else np.append(-shift, shift)))
        return -counts @ np.sum(smoothed * (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))), axis=1)

    slope, shift = model.fitted_terms_.candidates.labels.slope, model.fitted_terms_.candidates.labels.shift
    least = negative_log_likelihood(slope, shift)
    assert all(least <= negative_log_likelihood(slope * factor, shift) for factor in (0.99, 1.01))
    first = np.eye(len(shift))[0]
    assert all(least <= negative_log_likelihood(slope, shift + step * first) for step in (-0.01, 0.01))


def test_separable_classes_have_a_finite_slope(rng):
    X = rng.normal(size=(40, 1))
    X += np.sign(X)
    model = TermwiseClassifier(dictionary="linear").fit(X, X[:, 0] > 0)
    proba = model.predict_proba(X).max(axis=1)
    assert proba.min() > 0.8
    assert proba.max() < 1 - 1e-6


def test_classes_that_do_not_depend_on_the_inputs(rng):
    X, labels = rng.normal(size=(100, 3)), rng.random(100) < 0.2
    model = TermwiseClassifier().fit(X, labels)
    assert model.n_terms_ <= 3
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(labels.mean(), abs=0.1)


@pytest.mark.slow
def test_first_paths_of_many_classes_are_short(rng):
    """A term has a weight for each class: as many rows of each class as of all for a term of few classes."""
    X = rng.normal(size=(240, 12))
    y = np.argmax(np.column_stack([X[:, 0], -X[:, 0], X[:, 1], -X[:, 1]]) + rng.normal(size=(240, 4)), axis=1)
    lengths = []
    for many in (4, 3):
        estimator = with_settings(TermwiseClassifier, many_classes=many, min_first_terms=2)
        model = estimator(dictionary="linear", target="data").fit(X, y)
        lengths.append(len(model.trials_["linear"]) - 1)
    assert lengths[1] <= 7 < lengths[0]


@pytest.mark.slow
def test_classes_that_depend_on_an_indicator_or_two(rng):
    X = rng.integers(0, 2, size=(400, 2))
    for n_inputs, likely in ((1, X[:, 0] == 1), (2, X[:, 0] != X[:, 1])):
        labels = rng.random(400) < np.where(likely, 0.9, 0.1)
        model = TermwiseClassifier().fit(X[:, :n_inputs], labels)
        np.testing.assert_array_equal(model.predict(X[:, :n_inputs]), likely)
        proba = model.predict_proba(X[:, :n_inputs])[:, 1]
        np.testing.assert_allclose(proba, np.where(likely, 0.9, 0.1), atol=0.07)
    counts = np.unique(np.column_stack([X, labels]), axis=0, return_counts=True)
    weighted = TermwiseClassifier().fit(counts[0][:, :2], counts[0][:, 2] == 1, sample_weight=counts[1])
    np.testing.assert_allclose(weighted.predict_proba(X), model.predict_proba(X), atol=1e-6)


def test_one_class_is_too_few(rng):
    with pytest.raises(ValueError, match="y must have at least two classes, got one class"):
        TermwiseClassifier().fit(rng.normal(size=(20, 2)), np.zeros(20))


@pytest.mark.exhaustive
def test_the_benchmark_prints_json_lines():
    script = Path(__file__).parents[1] / "benchmarks" / "recipe.py"
    command = [sys.executable, str(script), "--small", "--part", "confirmation", "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, *records = map(json.loads, done.stdout.splitlines())
    assert first["benchmark"] == "recipe"
    assert [(one["set"], one["who"]) for one in records] == [
        (name, who) for name in ("diabetes", "iris") for who in ("small", "accurate")
    ]
    assert all(0 < one["error"] < 10 and one["terms"] > 0 for one in records)


# -- many samples ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
def test_many_samples_choose_on_a_subset_and_fit_to_all(library, rng):
    X, y = pairwise(rng, n=1000)
    if library != "numpy":
        X = pytest.importorskip(library).DataFrame({name: X[:, j] for j, name in enumerate("abcde")})
    model = with_settings(TermwiseRegressor, choice_rows=150, path_rows=200)().fit(X, y)
    assert model.dictionary_ == "pairs"
    assert model.fitted_terms_.statistics.rows.n == 1000
    G = model.transform(X)
    ridge = BasisRidge(alpha=model.alpha_).fit(G, y)
    np.testing.assert_allclose(model.predict(X), ridge.predict(G), atol=1e-8)
    part = X.iloc[evenly(1000, 200)] if library == "pandas" else X[evenly(1000, 200)]
    candidates = clone(model.basis_).fit_transform(part, y[evenly(1000, 200)])
    path = forward_path(candidates, y[evenly(1000, 200)], max_terms=len(model.path_))
    assert model.coef_.shape == (len(path),)  # the candidates that were worth evaluating on all
    assert len(model.predict(X[:3])) == 3


@pytest.mark.slow
def test_weights_matter_where_terms_are_selected_on_a_subset(rng):
    Regressor = with_settings(TermwiseRegressor, path_rows=300)
    X = rng.normal(size=(900, 60))
    heavy = np.arange(900) < 60
    y = np.where(heavy, 0.3 * X[:, 4], X[:, 9])
    model = Regressor(1, dictionary="linear").fit(X, y, sample_weight=np.where(heavy, 10.0, 0.001))
    assert model.get_feature_names_out().tolist() == ["x4"]
    light = Regressor(1, dictionary="linear").fit(X, y)
    assert "x4" not in light.basis_.get_feature_names_out()


def test_many_samples_of_weight_zero(rng):
    Regressor = with_settings(TermwiseRegressor, path_rows=100)
    X, y = pairwise(rng, n=400)
    counts = np.where(np.arange(400) % 2, 1.0, 0.0)
    model = Regressor(dictionary="pairs").fit(X, y, sample_weight=counts)
    alone = Regressor(dictionary="pairs").fit(X[counts > 0], y[counts > 0])
    np.testing.assert_allclose(model.predict(X), alone.predict(X))


@pytest.mark.slow
def test_boosting_trained_beside_the_first_paths(rng):
    """With many cores boosting is trained while dictionaries are fitted: the model is the same."""
    X = rng.uniform(size=(320, 3))
    y = (X[:, 0] > 0.4) * (X[:, 1] < 0.6) + 0.1 * rng.normal(size=len(X))
    beside, after = (with_settings(TermwiseRegressor, serial_cores=cores)().fit(X, y) for cores in (0, 10**6))
    assert beside.trials_.keys() == after.trials_.keys()
    np.testing.assert_array_equal(beside.predict(X), after.predict(X))
