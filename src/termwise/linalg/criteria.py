"""Model selection criteria: estimates of the prediction error, each one small function.

All take the same four numbers, which may be arrays (one entry per model):

sse : sum of squared training errors, `y' P^2 y`
dof : effective number of parameters, `n - trace P`
n : number of samples (the sum of their weights)
loo_sse : sum of squared leave-one-out errors, `sum (r / leverage_gap)^2`

A model that has used up its degrees of freedom (dof >= n) gets an infinite estimate, never a division by zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from termwise._arrays import Array, as_float64, at_least, is_foreign, namespace, put
from termwise._numerics import SCORE_ZERO

Numbers = Any  # floats or arrays that broadcast against each other


Criterion = Callable[[Numbers, Numbers, float, Numbers], Numbers]  # of sse, dof, n, loo_sse


def excess(squares: Array, best: Array, share: Array, n: float) -> tuple[Array, Array]:
    """Mean excess of the squared errors of models over those of the best one, and its standard error.

    Parameters
    ----------
    squares : (m, n) squared errors of m models on every sample.
    best : (n,) those of the best model.
    share : (n,) weights of the samples, adding up to one.
    n : number of samples (the sum of their weights).
    """
    differences = squares - best
    mean = differences @ share
    return mean, (at_least(differences**2 @ share - mean**2, 0.0) / n) ** 0.5


def misclassified(scores: Array, Y: Array) -> Array:
    """Whether scores (..., n, q) put samples with labels Y (n, q), coded -1 and +1, into the wrong class.

    The score has the wrong sign, or the largest score is that of another class. A single score counts as zero, class
    +1, within `SCORE_ZERO`; of several equal ones the first counts. `squares_and_errors` decides in the same way, one
    output at a time. `selection.rules.LooErrorRule` compares scores times leverage gaps, and allows for the rounding of
    these in the precision of the candidates.
    """
    if Y.shape[1] == 1:
        return ((scores >= -SCORE_ZERO) != (Y > 0))[..., 0]
    xp = namespace(scores)
    return xp.argmax(scores, axis=-1) != xp.argmax(Y, axis=-1)


def squares_and_errors(scores: Iterable[Array], labels: Array) -> tuple[Array, Array]:
    """Mean squared errors over the outputs, and whether the class is wrong, from scores (k, n) of one output each.

    One output at a time, to bound memory for many classes.
    """
    squares: Any = None
    largest: Any = None  # score so far, and its class
    found: Any = None
    for j, score in enumerate(scores):
        errors = labels[:, j] - score  # in place, since there may be as many as fit into memory a few times
        errors *= errors
        errors /= labels.shape[1]
        if squares is None:
            squares = errors
        else:
            squares += errors
        if labels.shape[1] == 1:
            return squares, misclassified(score[..., None], labels)
        found = score * 0 if largest is None else put(found, score > largest, j)  # of equal scores the first
        largest = score if largest is None else namespace(score).maximum(largest, score)
    return squares, found != as_float64(namespace(labels).argmax(labels, axis=1))


def uev(sse: Numbers, dof: Numbers, n: float, loo_sse: Numbers = None) -> Numbers:
    """Unbiased estimate of variance, Orr (5.3): `sse / (n - dof)`, infinite where no degree of freedom is left.

    Parameters
    ----------
    sse, dof, n, loo_sse : float or array
        Sum of squared errors, effective number of parameters, number of samples, and sum of squared leave-one-out
        errors, which is not used.
    """
    if isinstance(dof, float) and isinstance(sse, float):
        return sse / (n - dof) if n > dof else np.inf
    if is_foreign(dof):
        return put(sse / (n - dof), n - dof <= 0, np.inf)
    freedom = np.asarray(n - dof, dtype=np.float64)
    return np.where(freedom > 0, sse / np.where(freedom > 0, freedom, 1.0), np.inf)


def fpe(sse: Numbers, dof: Numbers, n: float, loo_sse: Numbers = None) -> Numbers:
    """Final prediction error, Orr (5.4): `(n + dof) / (n - dof) * sse / n`.

    Parameters
    ----------
    sse, dof, n, loo_sse : float or array
        Sum of squared errors, effective number of parameters, number of samples, and sum of squared leave-one-out
        errors, which is not used.
    """
    return uev((n + dof) / n * sse, dof, n)


def gcv(sse: Numbers, dof: Numbers, n: float, loo_sse: Numbers = None) -> Numbers:
    """Generalised cross-validation, Orr (5.6): `n * sse / (n - dof)^2`.

    Parameters
    ----------
    sse, dof, n, loo_sse : float or array
        Sum of squared errors, effective number of parameters, number of samples, and sum of squared leave-one-out
        errors, which is not used.
    """
    return n * uev(uev(sse, dof, n), dof, n)


def bic(sse: Numbers, dof: Numbers, n: float, loo_sse: Numbers = None) -> Numbers:
    """Bayesian information criterion, Orr (5.5): `(n + (log n - 1) dof) / (n - dof) * sse / n`.

    Parameters
    ----------
    sse, dof, n, loo_sse : float or array
        Sum of squared errors, effective number of parameters, number of samples, and sum of squared leave-one-out
        errors, which is not used.
    """
    return uev((n + (np.log(n) - 1) * dof) / n * sse, dof, n)


def loo(sse: Numbers, dof: Numbers, n: float, loo_sse: Numbers) -> Numbers:
    """Leave-one-out mean squared error, Orr (5.1): `loo_sse / n`.

    Parameters
    ----------
    sse, dof, n, loo_sse : float or array
        Sum of squared errors, effective number of parameters, number of samples, and sum of squared leave-one-out
        errors.
    """
    return np.asarray(loo_sse / n)


CRITERIA: dict[str, Criterion] = {f.__name__: f for f in (gcv, loo, uev, fpe, bic)}
