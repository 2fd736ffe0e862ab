"""Penalised Newton method for the losses of `losses`, and leave-one-out by one step of it.

Coordinates V, (m, n), have one row for each weight and one column for each sample, so that the linear predictors are
`eta = offset + V'a`. With frequency weights f and a penalty matrix Q the coefficients a, (m, q), minimise

    J(a) = sum_i f_i value(y_i, eta_i) + trace(a'Q a) / 2,

by Newton steps `H^-1 (V f gradient + Q a)` with `H = V diag(f curvature) V' + Q`, halved until J does not increase.
The outputs of most losses have one H each. Those of the multinomial loss are coupled: their steps are found by
preconditioned conjugate gradients, which need only products with H.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from termwise._numerics import LEVERAGE_GAP_MIN, NEWTON_DECREMENT, NEWTON_RIDGE, OBJECTIVE_ROUNDING, SMALLEST_NORMAL
from termwise.linalg.losses import Loss, softmax

Floats = NDArray[np.float64]

MAX_STEPS = 50  # of Newton's method; three are usual along a path
MAX_HALVINGS = 30
MAX_RESCALINGS = 10
CG_TOLERANCE = 0.1  # of the gradient that conjugate gradients leave, at most; less near the optimum
MAX_CG_STEPS = 100
# Outputs whose coupling leave-one-out and covariances take into account, in time and memory that grow as the square of
# their number. With more classes most probabilities are small, and the products of two of them negligible.
MAX_COUPLED = 30


@dataclass(frozen=True)
class Samples:
    """What a loss is evaluated on."""

    Y: Floats  # (n, q)
    sample_weight: Floats  # (n,), positive
    offset: Floats  # (n, q) or (n, 1)


@dataclass(frozen=True)
class Fit:
    """Coefficients that minimise J, with the linear predictors; H of each output where they are not coupled."""

    a: Floats  # (m, q)
    eta: Floats  # (n, q)
    H: Floats | None  # (q, m, m), at eta


def hessians(loss: Loss, V: Floats, Q: Floats, samples: Samples, eta: Floats) -> Floats:
    """H of every output, (q, m, m)."""
    D = samples.sample_weight[:, None] * loss.curvature(samples.Y, eta)
    return np.stack([(V * d) @ V.T + Q for d in D.T])


def solve_steps(H: Floats, gradient: Floats) -> Floats:
    """Newton steps of outputs that are not coupled, (m, q)."""
    steps = np.empty_like(gradient)
    for j, h in enumerate(H):
        _, step, failed = sla.lapack.dposv(h + NEWTON_RIDGE * h.max() * np.eye(len(h)), gradient[:, j])
        steps[:, j] = gradient[:, j] if failed else step
    return steps


class Preconditioner(NamedTuple):
    """Inverses of the diagonal blocks of a coupled H, one for each output: `V diag(f curvature) V' + Q`.

    They are computed once, at the start of a minimisation: along a path it is close to the minimum.
    """

    inverses: Floats  # (q, m, m)

    @classmethod
    def at(cls, loss: Loss, V: Floats, Q: Floats, samples: Samples, eta: Floats) -> Preconditioner:
        """Invert the blocks at the linear predictors eta."""
        H = hessians(loss, V, Q, samples, eta)
        ridge = NEWTON_RIDGE * H.max(initial=SMALLEST_NORMAL) * np.eye(len(V))
        return cls(np.linalg.inv(H + ridge))

    def solve(self, residual: Floats) -> Floats:
        """Solve for every column of the residual, (m, q), and remove what all have in common."""
        found = np.matmul(self.inverses, residual.T[:, :, None])[:, :, 0].T
        return found - found.mean(axis=1, keepdims=True)


def multinomial_step(
    V: Floats, Q: Floats, samples: Samples, eta: Floats, gradient: Floats, preconditioner: Preconditioner
) -> Floats:
    """Newton step of coupled outputs by conjugate gradients, (m, q).

    A direction s changes eta by `u = V's` and the gradient of a sample by `p (u - p'u)`, p its probabilities. The
    preconditioner leaves out how the outputs are coupled.
    """
    P, f, ones = softmax(eta), samples.sample_weight[:, None], np.ones((eta.shape[1], 1))
    weighted, U, rest_of_U = f * P, np.empty_like(P), np.empty_like(P)
    gradient = gradient - gradient.mean(axis=1, keepdims=True)  # a common change of all classes changes nothing
    size = float(np.vdot(gradient, gradient))
    limit = size * min(CG_TOLERANCE**2, size / float(f.sum()))
    step, residual = np.zeros_like(gradient), gradient.copy()
    direction = preconditioner.solve(residual)
    rest = float(np.vdot(residual, direction))
    for _ in range(min(MAX_CG_STEPS, gradient.size)):
        np.multiply(np.matmul(V.T, direction, out=U), weighted, out=U)
        U -= np.multiply(P, U @ ones, out=rest_of_U)
        product = V @ U + Q @ direction
        length = float(np.vdot(direction, product))
        if length <= 0 or rest <= 0:  # nothing is left but rounding
            break
        step += rest / length * direction
        residual -= rest / length * product
        if float(np.vdot(residual, residual)) <= limit:
            break
        scaled = preconditioner.solve(residual)
        before, rest = rest, float(np.vdot(residual, scaled))
        direction = scaled + rest / before * direction
    return step


def minimise(
    loss: Loss, V: Floats, Q: Floats, samples: Samples, start: Fit, tolerance: float = NEWTON_DECREMENT
) -> Fit:
    """Minimise J from a start, whose H, if it has one, is that of its eta."""
    Y, f, a, eta, H = samples.Y, samples.sample_weight, start.a, start.eta, start.H
    least = tolerance * float(f.sum()) * loss.scale**2

    def objective(a: Floats, eta: Floats) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(f @ loss.value(Y, eta)) + float(np.vdot(a, Q @ a)) / 2

    value = objective(a, eta)
    preconditioner = Preconditioner.at(loss, V, Q, samples, eta) if loss.coupled else None
    for _ in range(MAX_STEPS):
        gradient = V @ (f[:, None] * loss.gradient(Y, eta)) + Q @ a
        if preconditioner is not None:
            step = multinomial_step(V, Q, samples, eta, gradient, preconditioner)
        else:
            step = solve_steps(hessians(loss, V, Q, samples, eta) if H is None else H, gradient)
        H, change, decrement, share = None, V.T @ step, float(np.vdot(gradient, step)), 1.0
        if not decrement > 0:
            break
        for _ in range(MAX_HALVINGS):
            moved, moved_eta = a - share * step, eta - share * change
            moved_value = objective(moved, moved_eta)
            if moved_value <= value + OBJECTIVE_ROUNDING * abs(value):
                a, eta, value = moved, moved_eta, moved_value
                break
            share /= 2
        else:
            break
        if decrement <= least:
            break
    return Fit(a, eta, None if loss.coupled else hessians(loss, V, Q, samples, eta))


def minimise_rescaled(loss: Loss, V: Floats, Q: Floats, samples: Samples, start: Fit) -> tuple[Loss, Fit]:
    """Minimise J, estimate the scale of the noise from the residuals, and minimise J of the loss with that scale.

    Both are repeated while the scale falls by half or more, as with the first exact fit of a path.
    """
    fit = minimise(loss, V, Q, samples, start)
    for _ in range(MAX_RESCALINGS):
        before, loss = loss, loss.rescaled(samples.Y, fit.eta, samples.sample_weight)
        if loss is before:
            break
        fit = minimise(loss, V, Q, samples, Fit(fit.a, fit.eta, None))
        if loss.scale > before.scale / 2:
            break
    return loss, fit


# -- leave-one-out -----------------------------------------------------------------------------------------------------


def approximate_loo(loss: Loss, V: Floats, Q: Floats, samples: Samples, fit: Fit, null: Floats) -> tuple[Floats, float]:
    """Leave-one-out linear predictors, (n, q), and the effective number of parameters of each output.

    One Newton step from the optimum without sample i (ALO; Rad and Maleki 2020): with `l = v_i'H^-1 v_i` the sample has

        eta_i + l gradient_i / (1 - l curvature_i),

    exactly Orr (5.1) for the squared loss. Leave-one-out leaves out one repeat, as everywhere. Samples with leverage 1
    are predicted by `null`, the model without terms. With leverage near 1 the step may leave the range of a loss, whose
    ends then take its place.
    """
    if loss.coupled and fit.eta.shape[1] <= MAX_COUPLED:
        return multinomial_loo(loss, V, Q, samples, fit, null)
    every = hessians(loss, V, Q, samples, fit.eta) if fit.H is None else fit.H
    single = np.minimum(samples.sample_weight, 1.0)
    curvature, gradient = loss.curvature(samples.Y, fit.eta), loss.gradient(samples.Y, fit.eta)
    left_out, dof = np.empty_like(fit.eta), 0.0
    for j, H in enumerate(every):
        leverage = np.einsum("mn,mn->n", regularised_inverse(H) @ V, V)
        gap = 1 - single * curvature[:, j] * leverage
        saturated = gap <= LEVERAGE_GAP_MIN
        change = single * leverage * gradient[:, j] / np.where(saturated, 1.0, gap)
        left_out[:, j] = np.where(saturated, null[:, j], fit.eta[:, j] + change)
        dof += float(samples.sample_weight @ (curvature[:, j] * leverage))
    return loss.within_range(left_out), dof / len(every)


def covariances(loss: Loss, V: Floats, Q: Floats, samples: Samples, fit: Fit) -> Floats:
    """Covariance of the coefficients of each output for dispersion one, `H^-1 (H - Q) H^-1`, (q, m, m)."""
    if loss.coupled and fit.eta.shape[1] <= MAX_COUPLED:
        H = multinomial_hessian(V, Q, samples, fit.eta)
        q, m = H.shape[:2]
        inverse = regularised_inverse(H.reshape(q * m, q * m))
        whole = (inverse - inverse @ np.kron(np.eye(q), Q) @ inverse).reshape(q, m, q, m)
        return np.stack([whole[j, :, j, :] for j in range(q)])
    every = hessians(loss, V, Q, samples, fit.eta) if fit.H is None else fit.H
    inverses = np.stack([regularised_inverse(h) for h in every])
    return inverses - inverses @ Q @ inverses


def regularised_inverse(H: Floats) -> Floats:
    """Inverse of a Hessian with a tiny ridge; zero where a loss has no curvature, as if all samples are outliers."""
    if not H.any():
        return H
    return np.linalg.inv(H + max(NEWTON_RIDGE * H.max(initial=0.0), SMALLEST_NORMAL) * np.eye(len(H)))


def multinomial_hessian(V: Floats, Q: Floats, samples: Samples, eta: Floats) -> Floats:
    """H of coupled outputs, (q, m, q, m)."""
    P, f, m, q = softmax(eta), samples.sample_weight, len(V), eta.shape[1]
    H = np.empty((q, m, q, m))
    for j in range(q):
        for k in range(j + 1):
            D = P[:, j] * ((j == k) - P[:, k])
            H[j, :, k, :] = (V * (f * D)) @ V.T + (j == k) * Q
            H[k, :, j, :] = H[j, :, k, :].T
    return H


def multinomial_loo(loss: Loss, V: Floats, Q: Floats, samples: Samples, fit: Fit, null: Floats) -> tuple[Floats, float]:
    """`approximate_loo` for coupled outputs: with the curvature D, (q, q), of a sample and `A = v_i'H^-1 v_i`, (q, q),

    eta_i + A (I - D A)^-1 gradient_i.
    """
    (m, n), q = V.shape, fit.eta.shape[1]
    P, f = softmax(fit.eta), samples.sample_weight
    H = multinomial_hessian(V, Q, samples, fit.eta)
    inverse = regularised_inverse(H.reshape(q * m, q * m)).reshape(q, m, q, m)
    A = np.empty((n, q, q))
    for j in range(q):
        for k in range(j + 1):
            A[:, j, k] = A[:, k, j] = np.einsum("mn,mn->n", inverse[j, :, k, :] @ V, V)
    D = P[:, :, None] * (np.eye(q) - P[:, None, :])
    DA = D @ A
    single, gradient = np.minimum(f, 1.0)[:, None], loss.gradient(samples.Y, fit.eta)
    system = np.eye(q) - single[:, :, None] * DA
    saturated = np.linalg.det(system) <= LEVERAGE_GAP_MIN
    system[saturated] = np.eye(q)
    change = (A @ np.linalg.solve(system, (single * gradient)[:, :, None]))[:, :, 0]
    left_out = np.where(saturated[:, None], null, fit.eta + change)
    return left_out, float(f @ np.trace(DA, axis1=1, axis2=2)) / q
