"""Calibration of the scores of a classifier: probabilities from a softmax with one slope (Platt scaling)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from termwise._arrays import row_blocks

Floats = NDArray[np.float64]

SLOPES = (np.exp(-5.0), np.exp(5.0))  # from flat probabilities to a step
NEWTON_STEPS = 12  # the derivative is monotone: Newton's method inside a bracket converges in six to ten


def class_columns(scores: NDArray) -> NDArray:
    """Scores of all classes on the last axis; a single column is for the second class and against the first."""
    return scores if scores.shape[-1] > 1 else np.concatenate([-scores, scores], axis=-1)


def log_probabilities(scores: NDArray, slope: float | Floats) -> Floats:
    """Logarithms of the probabilities of all classes: `log softmax(slope * scores)`."""
    return log_softmax(slope * class_columns(scores), axis=-1)


def calibrated_slopes(scores: NDArray, labels: NDArray, sample_weight: Floats) -> Floats:
    """Return for each of K models the slope at which the probabilities of the classes have the largest likelihood.

    The labels are smoothed as Platt (1999) does: the class of a sample, with N samples, has the probability
    `(N + 1) / (N + q)` and each other class `1 / (N + q)`, so that perfectly separated classes have a finite slope.
    The negative log-likelihood is convex in the slope, with the derivative `sum of E_p[score] - E_t[score]` for
    probabilities p and smoothed labels t, and the second derivative `sum of Var_p[score]`.

    Parameters
    ----------
    scores : (K, n, q) scores of samples that did not take part in the fit; q is one for two classes.
    labels : (n, q) labels coded -1 and +1.
    sample_weight : (n,) weights.
    """
    truth = class_columns(labels) > 0
    counts = sample_weight @ truth
    others = truth @ (1.0 / (counts + truth.shape[1]))
    target = np.where(truth, 1.0 - (truth.shape[1] - 1) * others[:, None], others[:, None])
    slopes = np.ones(len(scores))
    for some in row_blocks(len(scores), truth.size):
        S = class_columns(scores[some])
        S = S - S.max(axis=-1, keepdims=True)  # exponentials of a positive slope times these cannot overflow
        expected = np.einsum("n,nq,knq->k", sample_weight, target, S)
        slope, (low, high) = np.ones(len(S)), (np.full(len(S), end) for end in SLOPES)
        for _ in range(NEWTON_STEPS):
            p = np.exp(slope[:, None, None] * S)
            p /= p.sum(axis=-1, keepdims=True)
            mean, square = np.einsum("knq,knq->kn", p, S), np.einsum("knq,knq,knq->kn", p, S, S)
            gradient, curvature = mean @ sample_weight - expected, (square - mean**2) @ sample_weight
            low, high = np.where(gradient < 0, slope, low), np.where(gradient < 0, high, slope)
            newton = slope - gradient / np.maximum(curvature, np.finfo(np.float64).tiny)
            slope = np.where((newton > low) & (newton < high), newton, np.sqrt(low * high))
        slopes[some] = slope
    return slopes
