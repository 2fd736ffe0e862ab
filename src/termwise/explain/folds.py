"""Diagnostics from the models of the folds: reliability of probabilities, selection frequency of inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.calibration import calibration_curve

from termwise._arrays import as_columns
from termwise.estimators import class_scores
from termwise.estimators.data import code_known_labels
from termwise.explain.resolve import Metadata, ResolvedModel, round_significant

MAX_BINS, BIN_SAMPLES = 10, 20  # of a reliability curve; fewer bins than that for few samples
MAX_INPUTS = 500  # whose frequencies are listed


def frequency_metadata(resolved: ResolvedModel) -> Metadata:
    """Share of the folds in which each input was selected, by its name."""
    shares = getattr(resolved.model, "selection_frequency_", None)
    if shares is None:
        return {}
    names = getattr(resolved.model, "feature_names_in_", [f"x{j}" for j in range(len(shares))])
    order = np.argsort(-np.asarray(shares), kind="stable")[:MAX_INPUTS]
    return {"selection_frequency": {str(names[j]): round_significant(shares[j]) for j in order}}


def reliability_metadata(resolved: ResolvedModel, y: NDArray) -> Metadata:
    """Observed frequency against out-of-fold probability, of the second of two classes or of each of several.

    The residuals of the fold models give their scores: coded label minus residual.
    """
    terms = resolved.model.fitted_terms_
    folds, labels = terms.fold_models, terms.candidates.labels
    if folds is None or labels is None or labels.slope is None or len(folds.fold) != len(y):
        return {}
    scores = as_columns(code_known_labels(labels.classes, y)) - folds.residuals
    probabilities = softmax(labels.slope * class_scores(scores[:, 0] if scores.shape[1] == 1 else scores), axis=1)
    n_bins = int(np.clip(len(y) // BIN_SAMPLES, 2, MAX_BINS))
    curves = []
    for k, name in enumerate(labels.classes):
        if k or len(labels.classes) > 2:
            observed, predicted = calibration_curve(y == name, probabilities[:, k], n_bins=n_bins, strategy="quantile")
            numbers = {"predicted": round_significant(predicted), "observed": round_significant(observed)}
            curves.append({"class": str(name), **numbers})
    return {"reliability": curves}
