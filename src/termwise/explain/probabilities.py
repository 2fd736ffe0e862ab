"""Probabilities of classes: those of samples outside the folds of a fit, their scores, and reliability curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.metrics import roc_auc_score

from termwise._arrays import as_columns, densify, evenly
from termwise._checks import is_frame
from termwise.basis import TableEncoder
from termwise.estimators.data import code_known_labels
from termwise.explain.resolve import Floats, Metadata, ResolvedModel, round_significant
from termwise.linalg.calibration import calibrate, class_scores

MAX_BINS, BIN_SAMPLES = 10, 20  # of a reliability curve; fewer bins than that for few samples


def fold_rows(resolved: ResolvedModel, X: Any, y: NDArray[Any]) -> NDArray[np.intp] | None:
    """Rows of the samples in the folds of a model, in their order; None where these cannot be found.

    Automatic estimators divide distinct samples into folds, of very many some, evenly spaced.
    """
    model = resolved.model
    folds, labels = model.fitted_terms_.fold_models, model.fitted_terms_.candidates.labels
    if folds is None or labels is None:
        return None
    if len(folds.fold) == len(y):
        return np.arange(len(y))
    if X is None or not hasattr(model, "recipe_settings"):
        return None
    table = TableEncoder().fit_transform(X) if is_frame(X) else densify(X)
    both = np.column_stack([table, code_known_labels(labels.classes, y)])
    distinct = np.sort(np.unique(both, axis=0, return_index=True)[1])
    rows = distinct[evenly(len(distinct), model.recipe_settings.choice_rows)]
    return rows if len(rows) == len(folds.fold) else None


def fold_probabilities(resolved: ResolvedModel, X: Any, y: NDArray[Any]) -> tuple[NDArray[Any], Floats] | None:
    """Labels of the samples in the folds, as often as they occur, and their out-of-fold probabilities; or None.

    The residuals of the fold models give their scores: coded label minus residual. Scores of a fold are calibrated on
    those of the other folds: no probability depends on the label of its sample.
    """
    folds, labels = resolved.model.fitted_terms_.fold_models, resolved.model.fitted_terms_.candidates.labels
    rows = fold_rows(resolved, X, y)
    if rows is None or labels.slope is None:
        return None
    coded = as_columns(code_known_labels(labels.classes, y[rows]))
    scores, found = coded - folds.residuals, np.empty((len(rows), len(labels.classes)))
    S, T = (values[:, 0] if values.shape[1] == 1 else values for values in (scores, coded))
    for k in np.unique(folds.fold):
        own, others = folds.fold == k, folds.fold != k
        slope, shift = calibrate(S[others], T[others], folds.sample_weight[others])
        found[own] = softmax(slope * class_scores(S[own] + shift), axis=1)
    repeated = np.repeat(np.arange(len(rows)), np.maximum(np.rint(folds.sample_weight), 1).astype(np.intp))
    return y[rows][repeated], found[repeated]


def probability_scores(y: NDArray[Any], classes: Sequence[Any] | NDArray[Any], probabilities: Floats) -> Metadata:
    """Log loss, AUC and calibration of probabilities of classes.

    The AUC of several classes is the mean of one against the others. The calibration slope is that of a logistic
    regression of the classes on the logarithms of the probabilities (Cox 1958), one where they are right and below one
    where they are too extreme; labels are smoothed as in Platt scaling, so that it is finite. The calibration error is
    the mean difference between observed frequency and probability over bins of equally many samples, averaged over the
    classes (expected calibration error, Naeini et al. 2015, with bins of equal counts).
    """
    hit = y[:, None] == np.asarray(classes)
    likelihood = np.where(hit, probabilities, 0.0).sum(axis=1)  # 0: a class that the fit did not see
    tiny = np.finfo(np.float64).eps
    found: Metadata = {"log_loss": float(-np.log(np.maximum(likelihood, tiny)).mean())}
    both = [k for k in range(len(classes)) if 0 < hit[:, k].sum() < len(y)]
    if both:
        found["auc"] = float(np.mean([roc_auc_score(hit[:, k], probabilities[:, k]) for k in both]))
        logs = np.log(np.maximum(probabilities, tiny))
        two = logs.shape[1] == 2  # one score, for the second class and against the first
        scores = (logs[:, 1] - logs[:, 0]) / 2 if two else logs
        coded = np.where(hit[:, 1] if two else hit, 1.0, -1.0)
        found["calibration_slope"] = calibrate(scores, coded, np.ones(len(y)))[0]
        curves = [reliability_curve(hit[:, k], probabilities[:, k]) for k in both]
        found["calibration_error"] = float(np.mean([share @ np.abs(o - p) for o, p, share in curves]))
    return found


def reliability_curve(hit: NDArray[np.bool_], probability: Floats) -> tuple[Floats, Floats, Floats]:
    """Observed frequency, mean probability and share of the samples in bins of equally many samples."""
    n_bins = int(np.clip(len(hit) // BIN_SAMPLES, 2, MAX_BINS))
    edges = np.unique(np.quantile(probability, np.linspace(0, 1, n_bins + 1)[1:-1]))
    bins = np.searchsorted(edges, probability)
    counts = np.bincount(bins, minlength=len(edges) + 1)
    used = counts > 0
    observed, predicted = (np.bincount(bins, values, len(counts))[used] for values in (hit, probability))
    return observed / counts[used], predicted / counts[used], counts[used] / len(hit)


def reliability_metadata(resolved: ResolvedModel, X: Any, y: NDArray[Any]) -> Metadata:
    """Observed frequency against out-of-fold probability, of the second of two classes or of each of several."""
    found, classes = fold_probabilities(resolved, X, y), resolved.classes
    if found is None or classes is None:
        return {}
    labels, probabilities = found
    curves = []
    for k, name in enumerate(classes):
        if k or len(classes) > 2:
            observed, predicted, _ = reliability_curve(labels == name, probabilities[:, k])
            numbers = {"predicted": round_significant(predicted), "observed": round_significant(observed)}
            curves.append({"class": str(name), **numbers})
    return {"reliability": curves}
