"""Forward selection of generalised linear models: paths of the losses of `linalg.losses` by the one greedy loop.

A bound h on the curvature of the loss makes the best step of a candidate g, all weights free to follow, a least-squares
step with constant weights `D = f h` (f the frequency weights) on the current gradient: with `u = -f gradient` it lowers
the bound on the loss by

    c^2 / (2 (alpha sd^2 + s)),    c = g'u,    s = g'P g in the metric D,

Orr (7.7). P depends on the terms alone, so that T and s stay valid while the weights of the terms are fitted again
after each choice; at the optimum u is orthogonal to the chosen terms (with the rows of the penalty below), and
`c = G'u` needs no projection. One pass over G per term, `G'[z, u]`. The weights are fitted by Newton's method
(`linalg.newton`) in the orthonormal coordinates of the terms, from the weights before.

Losses without a bound (Poisson, gamma) have the expected curvature as the metric. That of Poisson changes with the
model: it is renewed whenever the number of terms has doubled, which costs two passes over G and one product per term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from termwise._numerics import DEPENDENT_COLUMN, METRIC_SHARE_MIN, NEWTON_DECREMENT, NULL_DEVIANCE_MIN
from termwise.design import as_design
from termwise.linalg.losses import Loss
from termwise.linalg.newton import Fit, Samples, approximate_loo, minimise, minimise_rescaled
from termwise.selection.constraints import Constraints
from termwise.selection.engine import grow
from termwise.selection.nested import CentredColumns, NestedState, centred_columns
from termwise.selection.rules import CostRule

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class GlmModels:
    """Models with the first 0 to k terms of a path, each with its own weights."""

    terms: Indices  # (k,)
    means: Floats  # (k,), of their columns; zero without an intercept
    coefs: Floats  # (k + 1, k, q), weights of every size, zero for terms to come
    starts: Floats  # (k + 1, q), intercepts for centred columns
    losses: tuple[Loss, ...]  # (k + 1), the loss each was fitted by: the scale of the noise may change with the size

    rows = None  # as `selection.path.Training` has: here weights do not come from factors

    def weights(self, k: int) -> tuple[Floats, Floats]:
        """Weights of the first k terms, (k, q), and the intercept, (q,)."""
        weights = self.coefs[k, :k]
        return weights, self.starts[k] - self.means[:k] @ weights

    def along(self, G: Floats) -> Floats:
        """Linear predictors with the first 0 to k terms, (k + 1, m, q), for rows of the columns of all terms.

        An offset is not included.
        """
        sizes, k, q = self.coefs.shape
        changes = (G - self.means) @ self.coefs.transpose(1, 0, 2).reshape(k, sizes * q)
        return changes.reshape(len(G), sizes, q).transpose(1, 0, 2) + self.starts[:, None, :]


def glm_path(
    G: Any,
    Y: Floats,
    sample_weight: Floats,
    loss: Loss,
    alpha: float,
    max_terms: int,
    signs: NDArray[Any] | None = None,
    inputs: Sequence[tuple[int, ...]] | None = None,
) -> GlmModels:
    """Choose up to `max_terms` terms for targets Y, (n, q), from candidates in an array or a `Design`.

    The models have an intercept and no offset; others grow from their `null_model`, see `grow_models`.

    Parameters
    ----------
    G : (n, p) array, sparse matrix or `Design`.
    Y : (n, q) targets that pass `loss.check`.
    sample_weight : (n,) frequency weights, positive.
    loss : one of `linalg.losses`.
    alpha : penalty of the weights of standardised columns.
    max_terms : the most terms.
    signs, inputs : constraints, as in `nested.nested_paths`.
    """
    constraints = None if signs is None and inputs is None else Constraints.from_inputs(inputs, signs)
    return grow_models(G, null_model(Y, sample_weight, loss), alpha, max_terms, constraints)


def grow_models(
    G: Any, null: NullModel, alpha: float, max_terms: int, constraints: Constraints | None = None
) -> GlmModels:
    """Add up to `max_terms` terms to a model without any."""
    state = GlmState(G, null, alpha, max_terms, constraints)
    grow(state, CostRule(state.least_reduction), state.limit_reached)
    return state.models()


class NullModel(NamedTuple):
    """The model without terms; its coordinates V are the intercept's alone, (1, n), or none, (0, n)."""

    loss: Loss
    samples: Samples
    V: Floats
    fit: Fit


def null_model(
    Y: Floats, sample_weight: Floats, loss: Loss, offset: Floats | None = None, intercept: bool = True
) -> NullModel:
    """Fit the intercept, which is not penalised.

    Parameters
    ----------
    Y : (n, q) targets that pass `loss.check`.
    sample_weight : (n,) frequency weights, positive.
    loss : one of `linalg.losses`.
    offset : (n,) or (n, q) added to the linear predictors, such as the logarithm of the exposure; None: zero.
    intercept : whether the models have an intercept.
    """
    (n, q), total, first = Y.shape, sample_weight.sum(), int(intercept)
    offset = np.zeros((n, 1)) if offset is None else np.reshape(offset, (n, -1))
    start = loss.null_eta(Y, sample_weight, offset) if intercept else np.zeros(q)
    eta = np.zeros_like(Y) + offset + start
    loss = loss.rescaled(Y, eta, sample_weight)
    samples = Samples(Y, sample_weight, offset)
    V, fit = np.full((first, n), 1 / np.sqrt(total)), Fit(np.full((first, q), np.sqrt(total)) * start, eta, None)
    if intercept:
        fit = minimise(loss, V, np.zeros((1, 1)), samples, fit)
    return NullModel(loss, samples, V, fit)


class GlmState(NestedState):
    """A growing model with a loss: beside Z, R, c and s in the metric, the fitted weights of every size.

    The rows of V are the intercept and the terms in orthonormal coordinates, not scaled by roots of weights.
    """

    def __init__(
        self, G: Any, null: NullModel, alpha: float, max_terms: int, constraints: Constraints | None = None
    ) -> None:
        self.loss, self.samples, V, self.fit = null
        (first, n), f, q = V.shape, self.samples.sample_weight, self.samples.Y.shape[1]
        self.given, self.shift = centred_columns(as_design(G), f, intercept=bool(first))
        self.first, self.null_eta, self.losses = first, self.fit.eta, list[Loss]()
        self.V, self.Q = np.empty((first + max_terms, n)), np.zeros((first, first))
        self.V[:first] = V
        self.coefs, self.starts = np.zeros((max_terms + 1, max_terms, q)), np.zeros((max_terms + 1, q))
        deviance = self.loss.deviance_unit * float(f @ self.loss.deviance(self.samples.Y, self.fit.eta))
        self.least_reduction = NEWTON_DECREMENT * max(deviance, NULL_DEVIANCE_MIN * float(f.sum()) * self.loss.scale**2)
        columns = self._in_metric()
        super().__init__(columns, self._descent() / self.root[:, None], 0.0, max_terms, constraints)
        self.rejected: list[int] = []  # candidates with which fitted weights leave their bounds, at this size
        self.alpha = alpha * self.given.norms / f.sum()
        self._store()

    def _in_metric(self) -> CentredColumns:
        """The candidates, centred and scaled by the metric of the loss at the current model."""
        metric, design, means = self.loss.metric(self.samples.Y, self.fit.eta), self.given.design, self.given.means
        D = self.samples.sample_weight * np.maximum(metric, METRIC_SHARE_MIN * metric.mean())
        self.root = np.sqrt(D)
        if self.loss.constant_metric:
            return self.given._replace(root=self.root, norms=metric[0] * self.given.norms)
        means = design.products(D) / D.sum() if self.first else means
        norms = np.where(self.given.norms > 0, design.power_sums(2, D, means), 0.0)
        return CentredColumns(design, self.root, means, norms)

    def _descent(self) -> Floats:
        """`u = -f gradient`, (n, q)."""
        return -self.samples.sample_weight[:, None] * self.loss.gradient(self.samples.Y, self.fit.eta)

    def refresh(self) -> None:
        """Renew c, and s with the newest term: the pass over G, `G'[z, u]`."""
        k, known = len(self.chosen), self.refreshed
        if known < k:
            if not self.loss.constant_metric and k & (k - 1) == 0:
                self._renew_metric()
                known = 0
            design, _, means, _ = self.columns
            Z, u = self.Z[known:k, : len(self.Y)], self._descent()
            products = design.products(np.vstack([Z * self.root, u.T]).T)
            self.s -= np.sum(products[:, : k - known] ** 2, axis=1)
            self.s[self.chosen] = 0.0
            self._c[:] = (products[:, k - known :] - np.outer(means, u.sum(axis=0))).T
            self.T[known:k] = products[:, : k - known].T[: len(self.T)]
            self.refreshed = k
        self.eligible = self.s > self.least
        self.den = np.where(self.eligible, self.alpha + self.s, 1.0)
        if self.constraints is not None:
            model = self.R[:k, :k], self.fit.a[self.first :], self.T[:k]
            self.eligible &= self.constraints.eligible(self.chosen, self.c, self.den, *model)
            self.eligible[self.rejected] = False

    def _renew_metric(self) -> None:
        """Orthogonalise the chosen terms in the metric of the current model; s is that of a model without terms."""
        chosen, n, k = self.chosen, len(self.Y), len(self.chosen)
        before, self.columns = self.columns, self._in_metric()
        design, _, means, norms = self.columns
        A = np.zeros((self.Z.shape[1], k))
        A[:n] = (design.columns(np.array(chosen)) - means[chosen]) * self.root[:, None]
        A[n + np.arange(k), np.arange(k)] = np.sqrt(self.alpha[chosen])
        Z, R = np.linalg.qr(A)
        signs = np.copysign(1.0, np.diagonal(R))
        self.Z[:k], self.R[:k, :k] = (Z * signs).T, R * signs[:, None]
        self.s, self.least = norms.copy(), DEPENDENT_COLUMN * norms
        weights = self.coefs[k, :k]
        intercept = self.fit.a[: self.first] + (means - before.means)[chosen] @ weights / self.V[: self.first, :1]
        self.V[self.first : self.first + k] = self.Z[:k, :n] / self.root
        self.fit = Fit(np.vstack([intercept, self.R[:k, :k] @ weights]), self.fit.eta, None)

    def append(self, j: int) -> bool:
        """Append candidate j and fit the weights, from those before.

        It is excluded if it depends on the others, and at this size if the weights leave their bounds.
        """
        if not super().append(j):
            return False
        before = self.loss, self.fit, self.Q
        k, n, Y, f = len(self.chosen), len(self.Y), self.samples.Y, self.samples.sample_weight
        m, fit, loss = self.first + k, self.fit, self.loss
        self.V[m - 1] = self.Z[k - 1, :n] / self.root
        below = self.Z[:k, n : n + k]
        self.Q = np.zeros((m, m))
        self.Q[self.first :, self.first :] = below @ below.T
        H = None
        if fit.H is not None:  # only the row of the new coordinate is not known
            D = f[:, None] * loss.curvature(Y, fit.eta)
            rows = (self.V[:m] @ (D * self.V[m - 1][:, None])).T + self.Q[m - 1]
            H = np.zeros((Y.shape[1], m, m))
            H[:, :-1, :-1], H[:, -1], H[:, :, -1] = fit.H, rows, rows
        start = Fit(np.vstack([fit.a, np.zeros((1, Y.shape[1]))]), fit.eta, H)
        self.loss, self.fit = minimise_rescaled(loss, self.V[:m], self.Q, self.samples, start)
        if self.constraints is not None:
            weights = sla.solve_triangular(self.R[:k, :k], self.fit.a[self.first :], check_finite=False)
            if not self.constraints.admit(self.chosen, self.coefs[k - 1, : k - 1], weights):
                self.loss, self.fit, self.Q = before
                self.rejected.append(self.chosen.pop())
                return False
            self.rejected = []
        self._store()
        return True

    def _store(self) -> None:
        """Store the weights of this size, and the intercept for columns centred by the frequency weights."""
        k, chosen, a = len(self.chosen), self.chosen, self.fit.a
        weights = sla.solve_triangular(self.R[:k, :k], a[self.first :], check_finite=False) if k else a[:0]
        self.coefs[k, :k] = weights
        if self.first:
            shift = (self.given.means - self.columns.means)[chosen]
            self.starts[k] = a[0] * self.V[0, 0] + shift @ weights
        self.losses.append(self.loss)

    def left_out(self) -> tuple[Floats, float]:
        """Leave-one-out linear predictors, (n, q), and effective parameters of each output, by `approximate_loo`."""
        V = self.V[: self.first + len(self.chosen)]
        return approximate_loo(self.loss, V, self.Q, self.samples, self.fit, self.null_eta)

    def models(self) -> GlmModels:
        """The models of all sizes so far."""
        k, terms = len(self.chosen), np.array(self.chosen, dtype=np.intp)
        means = (self.given.means + self.shift)[terms]
        return GlmModels(terms, means, self.coefs[: k + 1, :k], self.starts[: k + 1], tuple(self.losses))
