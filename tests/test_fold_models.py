"""Models that repeat the selection in folds: intervals, probabilities and selection frequencies."""

from __future__ import annotations

import json
import pickle

import numpy as np
import oracles
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import PredefinedSplit, StratifiedKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from termwise import (
    AnovaBasis,
    BasisRidge,
    EvidenceForwardRegressor,
    ForwardClassifier,
    ForwardRegressor,
    LagBasis,
    LocalRidge,
    OrthogonalThresholdRegressor,
    Predictor,
    PrefilterClassifier,
    RadialBasis,
    TermwiseClassifier,
    load_predictor,
)
from termwise.basis import TableEncoder
from termwise.deploy.document import checksum
from termwise.linalg.calibration import calibrate, calibrated_losses
from termwise.linalg.conformal import MAX_FOLD_RESIDUALS

REGRESSORS = [
    ForwardRegressor(),
    ForwardRegressor(RadialBasis(width=3.0), rule="cost", criterion="loo", max_terms=4, refit_alpha="loo"),
    OrthogonalThresholdRegressor(method="gram_schmidt"),
    EvidenceForwardRegressor(),
    LocalRidge(),
]


def sparse_linear(n, p, rng, noise=0.7):
    """Targets of five of p inputs."""
    X = rng.normal(size=(n, p))
    return X, X[:, :5] @ np.array([1.0, -1.0, 1.0, -1.0, 1.0])[:p] + noise * rng.normal(size=n)


# -- intervals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("side", ["two-sided", "lower", "upper"])
def test_intervals_equal_cv_plus_by_retraining(model, side, rng):
    X, y = sparse_linear(48, 8, rng)
    new, fold = rng.normal(size=(6, 8)), rng.permutation(48) % 4
    expected = oracles.cv_plus(model, X, y, fold, new, 0.8, side)
    model = pickle.loads(pickle.dumps(model)).set_params(selection_cv=PredefinedSplit(fold)).fit(X, y)
    for method in ("auto", "cv+"):
        found = model.predict_interval(new, coverage=0.8, method=method, side=side)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_as_many_folds_as_samples_are_jackknife_plus(rng):
    """With fixed terms, since otherwise jackknife+ does not repeat the selection."""
    X, y = sparse_linear(30, 5, rng)
    model = ForwardRegressor(criterion=None, alpha=0.5, selection_cv=30).fit(X, y)
    for side in ("two-sided", "lower", "upper"):
        expected = BasisRidge(alpha=0.5).fit(X, y).predict_interval(X, side=side)
        np.testing.assert_allclose(model.predict_interval(X, side=side), expected, rtol=1e-6)


def test_weights_are_repetitions(rng):
    X, y = sparse_linear(60, 6, rng)
    weights = 1.0 + (np.arange(60) % 3)
    weights[:4] = 0
    rows = np.repeat(np.arange(60), weights.astype(int))
    weighted = ForwardRegressor(selection_cv=5).fit(X, y, weights)
    repeated = ForwardRegressor(selection_cv=5).fit(X[rows], y[rows])
    for options in ({}, {"side": "lower"}, {"normalised": True}):
        ends = (model.predict_interval(X, **options) for model in (weighted, repeated))
        np.testing.assert_allclose(*ends, rtol=1e-8)
    np.testing.assert_array_equal(weighted.selection_frequency_, repeated.selection_frequency_)


def test_intervals_account_for_the_selection():
    """100 samples, 500 candidates: intervals given the terms are far too narrow."""
    rng, inside = np.random.default_rng(3), {"auto": [], "jackknife+": []}
    for _ in range(6):
        X, y = sparse_linear(300, 500, rng, noise=1.5)
        model = ForwardRegressor(rule="cost", selection_cv=5, criterion="loo", max_terms=25).fit(X[:100], y[:100])
        for method, found in inside.items():
            lower, upper = model.predict_interval(X[100:], method=method)
            found.append(np.mean((lower <= y[100:]) & (y[100:] <= upper)))
    assert np.mean(inside["jackknife+"]) < 0.75
    assert 0.86 < np.mean(inside["auto"]) < 0.98


def test_normalised_intervals_follow_the_size_of_the_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 4))
    size = np.exp(X[:, 0])
    y = X[:, 0] + X[:, 1] + size * rng.normal(size=2500)
    model = ForwardRegressor(selection_cv=5).fit(X[:500], y[:500])
    loud = size[500:] > np.median(size[500:])
    gaps = {}
    for normalised in (False, True):
        lower, upper = model.predict_interval(X[500:], normalised=normalised)
        inside = (lower <= y[500:]) & (y[500:] <= upper)
        assert inside.mean() == pytest.approx(0.9, abs=0.03)
        gaps[normalised] = inside[~loud].mean() - inside[loud].mean()
    assert gaps[False] > 0.12
    assert abs(gaps[True]) < 0.05


def test_constant_noise_and_exact_fits_have_a_scale(rng):
    X, y = sparse_linear(80, 6, rng, noise=0.0)
    for targets in (y, np.zeros(80), np.where(np.arange(80) == 7, 1.0, 0.0)):
        model = ForwardRegressor(selection_cv=4).fit(X, targets)
        lower, upper = model.predict_interval(X, normalised=True)
        assert np.all(np.isfinite(lower))
        assert np.all(lower <= upper)


def test_outputs_precision_and_kinds_of_inputs(rng):
    X, y = sparse_linear(90, 6, rng)
    Y = np.column_stack([y, 2 - 3 * y])
    both, single = (ForwardRegressor(selection_cv=5).fit(X, targets) for targets in (Y, y))
    lower, upper = both.predict_interval(X, normalised=True)
    assert lower.shape == upper.shape == (90, 2)
    np.testing.assert_allclose(both.predict_interval(X)[0][:, 0], single.predict_interval(X)[0], rtol=1e-6)
    np.testing.assert_allclose((2 - both.predict_interval(X)[0][:, 1]) / 3, single.predict_interval(X)[1], rtol=1e-6)
    short = X.astype(np.float32)
    assert single.predict_interval(short)[0].dtype == np.float32
    np.testing.assert_allclose(single.predict_interval(short), single.predict_interval(X), rtol=1e-4, atol=1e-4)
    names = [f"c{j}" for j in range(6)]
    for kind in (sp.csr_array, lambda X: pd.DataFrame(X, columns=names)):
        other = ForwardRegressor(selection_cv=5).fit(kind(X), y)
        np.testing.assert_allclose(other.predict_interval(kind(X)), single.predict_interval(X), rtol=1e-6)


def test_series_keep_their_order(rng):
    """Lags see the whole table; only the targets of a fold are left out."""
    X = rng.normal(size=(120, 2))
    for t in range(2, 120):
        X[t, 0] = 0.6 * X[t - 1, 0] + X[t - 2, 1] + 0.1 * rng.normal()
    model = ForwardRegressor(LagBasis([1, 2], input_lags=[0, 1, 2]), selection_cv=6).fit(X, X[:, 0])
    lower, upper = model.predict_interval(X)
    assert np.mean((lower <= X[:, 0]) & (X[:, 0] <= upper)) > 0.85
    assert np.median(upper - lower) < 1.0


def test_splitters_need_not_leave_out_every_sample(rng):
    X, y = sparse_linear(90, 6, rng)
    model = ForwardRegressor(selection_cv=TimeSeriesSplit(5)).fit(X, y)
    assert len(model.fitted_terms_.fold_models.fold) == 75
    listed = list(TimeSeriesSplit(5).split(X))
    again = ForwardRegressor(selection_cv=listed).fit(X, y)
    np.testing.assert_array_equal(model.predict_interval(X), again.predict_interval(X))


def test_equal_inputs_are_in_one_fold(rng):
    X, y = sparse_linear(60, 4, rng)
    rows = np.repeat(np.arange(60), 2)
    folds = (
        ForwardRegressor(selection_cv=4).fit(X[rows], y[rows] + 0.1 * rng.normal(size=120)).fitted_terms_.fold_models
    )
    np.testing.assert_array_equal(folds.fold[::2], folds.fold[1::2])
    assert np.bincount(folds.fold).tolist() == [30] * 4
    few = np.repeat([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], 20, axis=0)  # too few distinct inputs to leave some out
    assert ForwardRegressor(selection_cv=4).fit(few, y).predict_interval(few)[0].shape == (60,)


def test_another_size_has_no_fold_models(rng):
    X, y = sparse_linear(90, 6, rng)
    model = ForwardRegressor(selection_cv=5).fit(X, y)
    np.testing.assert_array_equal(model.at(model.n_terms_).predict_interval(X), model.predict_interval(X))
    cut = model.at(2)
    with pytest.raises(
        ValueError, match=r"requires the size the model was fitted with, got ForwardRegressor truncated"
    ):
        cut.predict_interval(X)
    assert np.all(np.isfinite(cut.predict_interval(X, method="jackknife+")))
    for loss in ("squared", "logistic"):
        classifier = ForwardClassifier(loss=loss, selection_cv=5).fit(X, y > 0.5)
        assert hasattr(classifier, "predict_proba")
        assert hasattr(classifier.at(1), "predict_proba") == (loss == "logistic")
        plain = ForwardClassifier(loss=loss).fit(X, y > 0.5).at(1)
        np.testing.assert_allclose(classifier.at(1).intercept_, plain.intercept_)


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("basis", [None, AnovaBasis(n_centers=3, min_count=5), RadialBasis(width=3.0, centers=20)])
@pytest.mark.parametrize("outputs", [1, 2])
def test_files_hold_intervals(basis, outputs, tmp_path, rng):
    X, y = sparse_linear(80, 6, rng)
    Z, y = StandardScaler().fit_transform(X), y if outputs == 1 else np.column_stack([y, X[:, 0] ** 2])
    model = make_pipeline(StandardScaler(), ForwardRegressor(basis, selection_cv=4)).fit(X, y)
    Predictor.from_estimator(model).save(tmp_path / "model.json")
    loaded = load_predictor(tmp_path / "model.json")
    assert loaded == Predictor.from_estimator(model)
    for options in ({}, {"side": "lower"}, {"side": "upper", "normalised": True}, {"coverage": 0.5}):
        np.testing.assert_allclose(
            loaded.predict_interval(X, **options), model[-1].predict_interval(Z, **options), rtol=1e-9, atol=1e-9
        )
    holes = np.where(np.arange(6) == 0, np.nan, X[:3])
    filled = np.where(np.arange(6) == 0, 1.5, X[:3])
    expected = loaded.predict_interval(filled)
    np.testing.assert_allclose(loaded.with_fill({"x0": 1.5}).predict_interval(holes), expected)
    with pytest.raises(AttributeError) as caught:
        loaded.narrow().predict_interval(X)
    assert "predict_interval requires a regression with fold models, got one without" in str(caught.value.__cause__)


def test_many_residuals_are_stored_as_quantiles(tmp_path, rng):
    X, y = sparse_linear(3000, 5, rng)
    weights, new = rng.integers(1, 4, size=3000), X[:50]
    for sample_weight in (None, weights):
        model = ForwardRegressor(selection_cv=3).fit(X, y, sample_weight)
        folds = model.fitted_terms_.fold_models
        assert len(folds.fold) == 3000
        assert len(folds.thinned.fold) == 3 * MAX_FOLD_RESIDUALS
        assert folds.thinned.sample_weight.sum() == pytest.approx(folds.sample_weight.sum())
        model.predictor_.save(tmp_path / "model.json")
        loaded = load_predictor(tmp_path / "model.json")
        np.testing.assert_allclose(loaded.predict_interval(new), model.predict_interval(new), rtol=1e-9)
        limit = np.quantile(np.abs(folds.residuals[:, 0]), [0.89, 0.91])
        lower, upper = model.predict_interval(new)
        assert np.all((limit[0] < (upper - lower) / 2) & ((upper - lower) / 2 < limit[1] + 0.05))


def test_files_with_other_outputs_in_a_fold_are_refused(tmp_path, rng):
    X, y = sparse_linear(60, 3, rng)
    one, two = (
        ForwardRegressor(selection_cv=3).fit(X, targets).predictor_.to_dict()
        for targets in (y, np.column_stack([y, y]))
    )
    one["predictor"]["folds"][1] = two["predictor"]["folds"][1]
    (tmp_path / "model.json").write_text(json.dumps(one | {"checksum": checksum(one)}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"folds\[1\]\.linear\.intercept must be a list of 1 outputs, got 2"):
        load_predictor(tmp_path / "model.json")


# -- probabilities -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    "model",
    [
        ForwardClassifier(selection_cv=5),
        ForwardClassifier(loss="squared", selection_cv=5),
        PrefilterClassifier(selection_cv=5),
    ],
)
def test_the_class_predicted_is_the_most_probable(model, classes):
    X, y = make_classification(
        400, 8, n_informative=5, n_classes=classes, n_clusters_per_class=1, flip_y=0.2, random_state=1
    )
    model.fit(X[:250], y[:250])
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(np.log(proba), model.predict_log_proba(X))
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
    frequencies = np.tile(np.bincount(y[:250]) / 250, (150, 1))
    assert log_loss(y[250:], proba[250:]) < 0.9 * log_loss(y[250:], frequencies)
    frozen = model.predictor_
    np.testing.assert_allclose(frozen.predict_proba(X), proba, atol=1e-9)
    np.testing.assert_array_equal(frozen.predict(X), model.predict(X))


def test_probabilities_of_noise_are_the_frequencies():
    """The scores of the training samples claim otherwise."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 400)), rng.random(100) < 0.3
    model = ForwardClassifier(criterion="loo", max_terms=20, selection_cv=10).fit(X, y)
    proba = model.predict_proba(rng.normal(size=(500, 400)))[:, 1]
    assert proba.mean() == pytest.approx(y.mean(), abs=0.1)
    assert proba.std() < 0.15


def test_probabilities_need_folds():
    X, y = load_iris(return_X_y=True)
    for model in (ForwardClassifier(loss="squared"), PrefilterClassifier()):
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError) as caught:
            model.fit(X, y).predict_proba(X)
        assert "was fitted without, got a model without any: fit it with selection_cv=10" in str(caught.value.__cause__)
    for model in (ForwardClassifier(), ForwardClassifier(loss="squared", selection_cv=3)):
        assert hasattr(model, "predict_proba")
    assert hasattr(TermwiseClassifier(), "predict_proba")
    by_splitter = ForwardClassifier(selection_cv=StratifiedKFold(5)).fit(X, y)
    assert by_splitter.predict_proba(X).shape == (150, 3)


def probabilities(scores, slope, shift):
    """The softmax of calibrated scores; a single score is for the second class and against the first."""
    scores = scores + shift
    both = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    odds = np.exp(slope * (both - both.max(axis=1, keepdims=True)))
    return odds / odds.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", ["informative", "noise", "reversed", "separable", "constant", "shifted"])
@pytest.mark.parametrize("classes", [2, 3])
def test_calibration_is_never_worse_than_the_frequencies(kind, classes):
    rng = np.random.default_rng(4)
    y = rng.choice(classes, size=300, p=np.array([0.7, 0.2, 0.1])[:classes] / sum([0.7, 0.2, 0.1][:classes]))
    labels = np.where(y[:, None] == np.arange(classes), 1.0, -1.0)
    labels = labels[:, 1] if classes == 2 else labels
    noise = rng.normal(size=labels.shape)
    scores = {
        "informative": 0.5 * labels + noise,
        "noise": noise,
        "reversed": -labels + 0.5 * noise,
        "separable": labels,
        "constant": np.full(labels.shape, 0.3),
        "shifted": labels + noise + 40.0 * np.arange(1, labels.shape[1] + 1 if labels.ndim > 1 else 2),
    }[kind]
    slope, shift = calibrate(scores, labels, np.ones(300))
    assert 0 < slope < 100
    found = log_loss(y, probabilities(scores, slope, shift))
    bound = log_loss(y, np.tile(np.bincount(y) / 300, (300, 1)))
    assert found <= bound + 1e-4
    if kind in ("informative", "separable", "shifted"):
        assert found < 0.95 * bound
    weights = rng.integers(0, 3, size=300)
    rows = np.repeat(np.arange(300), weights)
    repeated = calibrate(scores[rows], labels[rows], np.ones(len(rows)))
    weighted = calibrate(scores, labels, weights.astype(float))
    np.testing.assert_allclose(probabilities(scores, *weighted), probabilities(scores, *repeated), atol=1e-6)


@pytest.mark.parametrize("odd", [0.0, 0.3, 0.6])
def test_calibrated_tables_of_nearly_separable_scores(odd):
    """Scores with two values and one sample between: undamped steps of Newton's method diverge."""
    labels = np.where(np.arange(400) < 12, 1.0, -1.0)
    scores, weight = np.where(labels > 0, 1.0, -0.03), np.ones(400)
    scores[0] = odd
    slope, shift = calibrate(scores, labels, weight)
    expected = np.logaddexp(0, -2 * labels * slope * (scores + shift)).mean()
    found = calibrated_losses(scores[None, :, None], labels[:, None], weight)
    assert found.mean() == pytest.approx(expected, abs=1e-3)


# -- selection frequencies ---------------------------------------------------------------------------------------------


def test_selection_frequencies_are_those_of_refits(rng):
    X, y = sparse_linear(70, 12, rng, noise=2.0)
    fold = np.arange(70) % 5
    model = ForwardRegressor(selection_cv=PredefinedSplit(fold)).fit(X, y)
    counts = np.zeros(12)
    for k in range(5):
        counts[ForwardRegressor().fit(X[fold != k], y[fold != k]).support_] += 1
    np.testing.assert_allclose(model.selection_frequency_, counts / 5)
    best = np.argmax(counts)
    assert f"inputs used by the models of 5 folds: x{best} 100%" in model.summary()


def test_selection_frequencies_of_tables_and_bases(rng):
    n = 120
    frame = pd.DataFrame(
        {"a": rng.normal(size=n), "kind": pd.Categorical(rng.choice(list("uvw"), n)), "b": rng.normal(size=n)}
    )
    y = frame["a"] + 2.0 * (frame["kind"] == "v") + 0.1 * rng.normal(size=n)
    table = make_pipeline(TableEncoder(), AnovaBasis(n_centers=3, min_count=5))
    model = ForwardRegressor(table, selection_cv=4).fit(frame, y)
    assert model.selection_frequency_.shape == (3,)
    assert model.selection_frequency_[:2].tolist() == [1.0, 1.0]
    numbers = frame[["a", "b"]].to_numpy()
    radial = ForwardRegressor(RadialBasis(width=1.0), selection_cv=4).fit(numbers, y)
    assert radial.selection_frequency_.tolist() == [1.0, 1.0]
    empty = ForwardRegressor(selection_cv=4).fit(numbers, np.ones(n))
    assert empty.selection_frequency_.tolist() == [0.0, 0.0]
    assert "inputs used by the models of 4 folds: none" in empty.summary()
    assert not hasattr(ForwardRegressor().fit(numbers, y), "selection_frequency_")


@pytest.mark.parametrize("model", [TermwiseClassifier(1, dictionary="linear"), ForwardClassifier(selection_cv=3)])
def test_classifiers_have_no_intervals(model, rng):
    X = rng.normal(size=(60, 2))
    with pytest.raises(ValueError, match=r"predict_interval requires a regressor, got .*: predict_proba gives the"):
        model.fit(X, X[:, 0] > 0).predict_interval(X)


@pytest.mark.parametrize("model", [ForwardRegressor(RadialBasis(centers=10)), ForwardRegressor(loss="poisson"),
                                   ForwardClassifier(loss="squared"), PrefilterClassifier()])  # fmt: skip
def test_residuals_of_samples_without_weight_at_every_size(rng, model):
    """They are those of predictions for new samples, whatever the size that the model was truncated at before."""
    X = rng.normal(size=(80, 3))
    y = np.round(np.exp(X[:, 0] + 0.3 * X[:, 1])) if isinstance(model, ForwardRegressor) else X[:, 0] + X[:, 1] > 0
    weights = np.where(np.arange(80) % 4 == 0, 0.0, 1.0)
    outside, fitted = np.flatnonzero(weights == 0), model.fit(X, y, weights)
    targets = y if isinstance(model, ForwardRegressor) else np.where(y, 1.0, -1.0)
    for cut in (fitted, fitted.at(1), fitted.at(1).at(2), fitted.at(len(fitted.path_))):
        predicted = cut.predict(X) if isinstance(model, ForwardRegressor) else cut.decision_function(X)
        np.testing.assert_allclose(cut.loo_residuals_[outside], (targets - predicted)[outside], atol=1e-10)
