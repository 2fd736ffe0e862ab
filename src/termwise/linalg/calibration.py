"""Probabilities of classes from scores: multinomial Platt scaling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax
from scipy.stats import entropy

from termwise._arrays import row_blocks
from termwise._numerics import CALIBRATION_GRADIENT, CONSTANT_TOLERANCE

Floats = NDArray[np.float64]

LOG_SLOPE = (-12.0, 8.0)  # range for scores with standard deviation one; at the lower end they do not matter
NEWTON_STEPS = 2  # from where L-BFGS ends, at about eight digits
TABLE_STEPS = 12  # of the approximate calibration of many models, each of which is at most by a factor of
TABLE_FACTOR = 3.0
# Largest step of the shift of logits there, beside what the step of the slope changes them by at most. On 600 simulated
# tables of scores, many of them separable, the log loss was within 0.001 of that of `calibrate` in all but three.
MAX_SHIFT_STEP = 2.0
# Samples of each class that count as wrongly labelled. Platt (2000) has one, which is too many where classes are well
# separated: on ten development tables of benchmarks/tables.py, two splits of up to 300 rows, the log loss with 1, 0.3,
# 0.1 and 0.03 of them was 1.017, 1.002, 1 and 1.002 in the geometric mean; on iris alone 1.23, 1.03, 1 and 1.01.
PSEUDO_COUNT = 0.1


def class_scores(scores: NDArray[Any]) -> NDArray[Any]:
    """Scores of all classes, one column each; a single score is for the second class and against the first."""
    return np.column_stack([-scores, scores]) if scores.ndim == 1 or scores.shape[1] == 1 else scores


def smoothed_labels(truth: NDArray[np.bool_], counts: Floats) -> tuple[Floats, Floats]:
    """Return the smoothed labels, (n, q), and class frequencies, (q,), as in Platt (2000) with a smaller count."""
    frequencies = (counts + PSEUDO_COUNT) / (counts + PSEUDO_COUNT).sum()
    own = truth @ ((counts + PSEUDO_COUNT) / (counts + 2 * PSEUDO_COUNT))
    others = np.where(truth, 0.0, frequencies)
    return truth * own[:, None] + others * ((1 - own) / others.sum(axis=1))[:, None], frequencies


def calibrate(scores: NDArray[Any], labels: NDArray[Any], sample_weight: Floats) -> tuple[float, Floats]:
    """Return slope and shift for which the softmax of `slope (scores + shift)` are probabilities of the classes.

    They minimise the cross-entropy with smoothed labels (Platt 2000): a sample of class c has the target
    `(n_c + e) / (n_c + 2 e)` for its class, e a tenth, and the others share the rest by their frequencies, so that
    scores which separate the classes have a finite slope. With a slope near zero the probabilities are the class
    frequencies; this is the result if the log loss of the labels would otherwise exceed theirs.

    Parameters
    ----------
    scores : (n,) or (n, q) scores of samples that the model was fitted without; a single one for two classes.
    labels : labels coded -1 and +1, of the same shape.
    sample_weight : (n,) frequency weights.

    Returns
    -------
    slope : float
        Positive.
    shift : (1,) or (q,) array
        What to add to the outputs of the model.
    """
    used = sample_weight > 0
    S, truth, share = class_scores(scores)[used], class_scores(labels)[used] > 0, sample_weight[used]
    counts, n = share @ truth, share.sum()
    share, (targets, frequencies) = share / n, smoothed_labels(truth, counts)
    mean = share @ S
    unit = float(np.sqrt(share @ np.mean((S - mean) ** 2, axis=1)))
    unit = unit if unit > CONSTANT_TOLERANCE * np.abs(S).max() else 1.0
    S = (S - mean) / unit

    def cross_entropy(parameters: Floats) -> tuple[float, Floats]:
        slope = np.exp(parameters[0])
        logits = slope * S + parameters[1:]
        excess = share[:, None] * (softmax(logits, axis=1) - targets)
        gradient = np.append(slope * np.sum(excess * S), excess.sum(axis=0))
        return -float(share @ np.sum(targets * log_softmax(logits, axis=1), axis=1)), gradient

    start, bounds = np.append(0.0, np.log(frequencies)), [LOG_SLOPE, *[(None, None)] * len(counts)]
    tolerances = {"ftol": 0.0, "gtol": CALIBRATION_GRADIENT}
    found = minimize(cross_entropy, start, jac=True, bounds=bounds, method="L-BFGS-B", options=tolerances).x
    if LOG_SLOPE[0] < found[0] < LOG_SLOPE[1]:
        for _ in range(NEWTON_STEPS):  # which goes on where the last digits of the cross-entropy end
            found = found - newton_step(found, S, targets, share)
    log_slope, *offsets = found
    log_loss = -float(share @ log_softmax(np.exp(log_slope) * S + offsets, axis=1)[truth])
    if log_loss > entropy(counts):
        log_slope, offsets = LOG_SLOPE[0], np.log(np.where(counts > 0, counts / n, frequencies))
    slope = float(np.exp(log_slope)) / unit
    shift = (np.asarray(offsets) - np.mean(offsets)) / slope - mean
    return slope, np.array([shift[1] - shift[0]]) / 2 if scores.size == len(scores) else shift


def newton_step(parameters: Floats, S: Floats, targets: Floats, share: Floats) -> Floats:
    """Newton step of the cross-entropy in the logarithm of the slope and the shifts of the logits, (1 + q,)."""
    slopes = np.exp(parameters[0]) * S
    P = softmax(slopes + parameters[1:], axis=1)
    excess = share[:, None] * (P - targets)
    gradient = np.append(np.sum(excess * slopes), excess.sum(axis=0))
    return np.linalg.lstsq(hessian(slopes, P, targets, share), gradient, rcond=CALIBRATION_GRADIENT)[0]


def hessian(slopes: Floats, P: Floats, targets: Floats, share: Floats) -> Floats:
    """Second derivatives of the cross-entropy in the logarithm of the slope and the shifts of the logits.

    `slopes` are scores times the slope, (n, q), P the probabilities.
    """
    q, weighted, mean = P.shape[1], share[:, None] * P, np.sum(P * slopes, axis=1)
    H = np.empty((1 + q, 1 + q))
    H[0, 0] = np.sum(weighted * slopes**2) - share @ mean**2 + np.sum(share[:, None] * (P - targets) * slopes)
    H[0, 1:] = H[1:, 0] = np.sum(weighted * (slopes - mean[:, None]), axis=0)
    H[1:, 1:] = np.diag(weighted.sum(axis=0)) - weighted.T @ P
    return H


def left_out_losses(
    parts: list[tuple[NDArray[Any], Floats]], labels: NDArray[Any], sample_weight: Floats, slope: float, shift: Floats
) -> Floats:
    """Negative log-likelihood of every sample, (n,), by slope and shift of a calibration without it.

    The calibration minimises the cross-entropy of its samples. That of new samples is larger, on average by the number
    of its parameters over that of the samples: here each sample is left out, by one step of Newton's method.

    Parameters
    ----------
    parts : scores of several models, as in `calibrate`, each with its share of every sample, (n,): the shares of a
        sample add up to one.
    labels : labels coded -1 and +1, of the shape of the scores.
    sample_weight : (n,) frequency weights.
    slope, shift : of `calibrate` for all parts.
    """
    truth = class_scores(labels) > 0
    targets, _ = smoothed_labels(truth, sample_weight @ truth)
    n, q = truth.shape
    offset = slope * class_scores(shift[None, :])
    gradient, H = np.zeros((n, 1 + q)), np.zeros((1 + q, 1 + q))
    for scores, share in parts:
        slopes = slope * class_scores(scores)
        P = softmax(slopes + offset, axis=1)
        excess = (share * np.minimum(1, sample_weight))[:, None] * (P - targets)  # of one copy, or what there is of one
        gradient += np.column_stack([np.sum(excess * slopes, axis=1), excess])
        H += hessian(slopes, P, targets, share * sample_weight)
    steps = np.linalg.lstsq(H, gradient.T, rcond=CALIBRATION_GRADIENT)[0].T
    losses = np.zeros(n)
    for scores, share in parts:
        slopes = slope * class_scores(scores)
        logits = slopes * (1 + steps[:, :1]) + offset + steps[:, 1:]
        losses -= share * log_softmax(logits, axis=1)[truth]
    return losses


def calibrated_losses(scores: NDArray[Any], labels: NDArray[Any], sample_weight: Floats) -> Floats:
    """Negative log-likelihood of every sample, (K, n), under each of K models after calibration, approximately.

    For tables of many models, for which `calibrate` would take too long: steps of Newton's method for the slope, and
    for the shift of each class by the logarithm of its frequency over its mean probability; of two classes for both.

    Parameters
    ----------
    scores : (K, n, q) scores of samples that the models were fitted without; q is one for two classes.
    labels : (n, q) labels coded -1 and +1.
    sample_weight : (n,) frequency weights.
    """
    if labels.shape[1] == 1:
        return calibrated_logistic_losses(scores[..., 0], labels[:, 0], sample_weight)
    truth, share = labels > 0, sample_weight / sample_weight.sum()
    targets, _ = smoothed_labels(truth, sample_weight @ truth)
    frequencies, expected_share = share @ targets, share * targets.T  # (q,) and (q, n)
    own, rows, losses = truth.argmax(axis=1), np.arange(len(truth)), np.empty(scores.shape[:2])
    for some in row_blocks(len(scores), truth.size):
        S = np.ascontiguousarray(np.moveaxis(scores[some], 2, 0))  # sums over classes are of contiguous planes
        largest = np.abs(S).max(axis=(0, 2))
        S = S - (S @ share)[:, :, None]
        unit = np.sqrt(np.mean(S**2, axis=0) @ share)
        S /= np.where(unit > CONSTANT_TOLERANCE * largest, unit, np.inf)[:, None]
        expected = np.einsum("qkn,qn->k", S, expected_share)
        slope, shift = np.ones(S.shape[1]), np.tile(np.log(frequencies)[:, None], S.shape[1])
        for _ in range(TABLE_STEPS):
            p = slope[:, None] * S + shift[:, :, None]
            p = np.exp(p - p.max(axis=0))
            p /= p.sum(axis=0)
            shift += np.log(frequencies)[:, None] - np.log(p @ share)
            p *= S
            mean = p.sum(axis=0)
            p *= S
            curvature = (p.sum(axis=0) - mean**2) @ share
            step = slope - (mean @ share - expected) / np.maximum(curvature, np.finfo(np.float64).tiny)
            slope = np.clip(step, slope / TABLE_FACTOR, slope * TABLE_FACTOR)
        slope = np.clip(slope, *np.exp(LOG_SLOPE))
        logits = slope[:, None] * S + shift[:, :, None]
        logits -= logits.max(axis=0)
        losses[some] = np.log(np.exp(logits).sum(axis=0)) - logits[own, :, rows].T
    return losses


def calibrated_logistic_losses(scores: NDArray[Any], labels: NDArray[Any], sample_weight: Floats) -> Floats:
    """`calibrated_losses` of two classes, whose scores, (K, n), are the same but for the sign: one logit is enough."""
    truth, share = class_scores(labels) > 0, sample_weight / sample_weight.sum()
    targets, _ = smoothed_labels(truth, sample_weight @ truth)
    other, own = share @ targets
    losses = np.empty(scores.shape)
    for some in row_blocks(*scores.shape):
        S = scores[some]
        largest = np.abs(S).max(axis=1)
        S = S - (S @ share)[:, None]
        unit = np.sqrt((S * S) @ share)
        S = S / np.where(unit > CONSTANT_TOLERANCE * largest, unit, np.inf)[:, None]
        reach = 2 * np.abs(S).max(axis=1)
        slope, shift = np.ones(len(S)), np.full(len(S), np.log(own / other))
        for _ in range(TABLE_STEPS):  # Newton's method in both, the equations solved by Cramer's rule
            p = expit(2 * slope[:, None] * S + shift[:, None])
            excess, w = share * p - share * targets[:, 1], share * p * (1 - p)
            gradient, offset = 2 * np.sum(excess * S, axis=1), excess.sum(axis=1)
            wS = w * S
            a, b, c = 4 * np.sum(wS * S, axis=1), 2 * wS.sum(axis=1), w.sum(axis=1)
            determinant = np.maximum(a * c - b * b, np.finfo(np.float64).tiny)
            step = slope - (c * gradient - b * offset) / determinant
            slope_before, slope = slope, np.clip(step, slope / TABLE_FACTOR, slope * TABLE_FACTOR)
            change = -(offset + b * (slope - slope_before)) / np.maximum(c, np.finfo(np.float64).tiny)
            # Where probabilities are nearly all 0 or 1 the curvature c vanishes, and the step is without bound.
            limit = MAX_SHIFT_STEP + np.abs(slope - slope_before) * reach
            shift = shift + np.clip(change, -limit, limit)
        logits = 2 * np.clip(slope, *np.exp(LOG_SLOPE))[:, None] * S + shift[:, None]
        losses[some] = np.logaddexp(0.0, -labels * logits)
    return losses
