"""Paths of generalised linear models for the estimators: criteria at every size, the size, and the final fit.

Errors of a size are those of its approximate leave-one-out fits (ALO, `linalg.newton.approximate_loo`), as
`Loss.error` measures them: the deviance for likelihoods, the absolute error for Huber's loss, the pinball loss for
quantiles. With the deviance D of a model and the dispersion phi

    phi = sum psi^2 / sum curvature,    psi the gradients at the leave-one-out fits, in the unit of the deviance,

which is one by definition for classes, the mean squared leave-one-out error for the squared loss and the overdispersion
of counts, the criteria are

    loo : mean error of the leave-one-out fits
    bic : (D + log(n) phi dof) / n
    tcr : the last term, up to the leave-one-out minimum, whose likelihood ratio, its reduction of twice the loss over
          phi, exceeds what the best of as many noise columns reaches: Hagiwara 2014 (28) with the chi-squared
          distribution of as many degrees of freedom as a term has weights.

Criteria have one dispersion for all outputs, standard errors that of each.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import from_host, to_host
from termwise._checks import check_choice
from termwise._numerics import NEWTON_DECREMENT_FINAL
from termwise.linalg.least_squares import Solution, WeightedRows
from termwise.linalg.losses import LOSSES, Loss
from termwise.linalg.newton import Fit, Samples, approximate_loo, covariances, minimise
from termwise.selection.engine import Callback, PathLimits, Settings, grow
from termwise.selection.glm import GlmModels, GlmState, NullModel
from termwise.selection.path import SelectionPath, Step, search_effect
from termwise.selection.rules import Choice, CostRule

Floats = NDArray[np.float64]

ALPHAS = np.logspace(-4, 4, 17)  # penalties that refit_alpha="loo" compares, in units of the curvature bound


@dataclass
class GlmPath(SelectionPath):
    """The path of a forward selection with a loss other than the squared one.

    Attributes of a `SelectionPath` mean the same; of a step, `sse` is the deviance, `cost` twice the penalised loss and
    `loo` the mean leave-one-out error (ALO), all summed over the outputs; `gcv`, `uev` and `fpe` are not defined.

    Attributes
    ----------
    loss : str
        Name of the loss.
    training : GlmTraining
        The coordinates of the terms and the targets: the problem of any size, once the path has ended.
    """

    training: GlmTraining = field(init=False, repr=False, compare=False)  # type: ignore[assignment]

    loss: str = ""
    dispersions: list[float] = field(default_factory=list, repr=False)
    term_dof: int = 1
    like: Any = field(default=None, repr=False)  # an array of the library and device of the candidates

    criteria: ClassVar[tuple[str, ...]] = ("loo", "bic")
    size_criteria: ClassVar[tuple[str, ...]] = ("tcr", "loo", "one_se", "bic")

    def choose(self, criterion: str | None) -> int:
        """Return how many terms a criterion keeps.

        Parameters
        ----------
        criterion : {"tcr", "loo", "one_se", "bic"} or None
            None keeps all.
        """
        if criterion is not None:
            check_choice("criterion", criterion, self.size_criteria, remedy="None keeps every term")
        return super().choose(criterion)

    @property
    def error_name(self) -> str:  # type: ignore[override]
        """The error that "loo" estimates."""
        return {"huber": "absolute error", "quantile": "pinball loss, twice"}.get(self.loss, "deviance")

    def noise_level(self, size: int) -> float:
        """The dispersion that likelihood ratios of terms after `size` ones are divided by; one for classes.

        That of quantiles is the one of the model of `size` terms: it depends on the density of the residuals at the
        quantile, which terms that fit noise raise. That of Huber's loss falls twice with terms that fit noise: the
        errors do, and so does the threshold that they are clipped at, a multiple of the scale of the residuals, which
        also falls with the degrees of freedom. The square of the correction keeps as many terms of pure noise as with
        the squared loss (60 draws of 100 samples and 20, 50 and 200 candidates).
        """
        if LOSSES[self.loss].fixed_dispersion:
            return 1.0
        if self.loss == "quantile":
            return self.dispersions[size]
        dispersions, optimism = np.array(self.dispersions[size:]), search_effect(self, size)
        if self.loss == "huber":
            free = np.maximum(self.n_samples - self.column("dof")[size:], 1.0)
            optimism = 2 * (optimism + np.log(free[0] / free))
        return float(np.min(dispersions * np.exp(optimism)))


@dataclass(frozen=True)
class GlmSolution(Solution):
    """Weights of a loss, with the covariance of intercept and weights for dispersion one, from the last Newton step."""

    covariance: Floats = field(default_factory=lambda: np.empty((0, 0, 0)))  # (q, 1 + k, 1 + k)

    def unit_cov(self) -> Floats:
        """Covariance of the weights of every output, (q, k, k)."""
        return self.covariance[:, 1:, 1:]

    def unit_variances(self) -> Floats:
        """Their variances, (q, k)."""
        return np.diagonal(self.unit_cov(), axis1=1, axis2=2)

    def row_variances(self, centred: Floats, rows: WeightedRows) -> Floats:
        """Variance of the linear predictors, (m, q), for centred rows of the chosen columns."""
        both = np.hstack([np.ones((centred.shape[0], 1)), to_host(centred)])
        return from_host(np.einsum("mi,qij,mj->mq", both, self.covariance, both), centred)


class GlmFit(NamedTuple):
    """The final fit of a size."""

    loss: Loss
    solution: GlmSolution
    start: Floats  # (q,), the intercept for centred columns
    left_out: Floats  # (n, q), leave-one-out linear predictors
    alpha: float
    criteria: dict[str, float]
    explained: float  # share of the null deviance


@dataclass(frozen=True)
class GlmTraining:
    """The terms of a path in the coordinates of its last metric: `g - mean = R'v` for every row v of V."""

    models: GlmModels
    V: Floats  # (first + k, n)
    R: Floats  # (k, k)
    first: int  # whether V has the intercept, in its first row
    means: Floats  # (k,), that the columns are centred by here
    variances: Floats  # (k,), of the columns
    samples: Samples
    null_eta: Floats  # (n, q)
    alpha: float

    rows = None

    def weights(self, k: int) -> tuple[Floats, Floats]:
        """Weights of the first k terms, (k, q), and the intercept, (q,)."""
        return self.models.weights(k)

    def problem(self, k: int) -> tuple[Floats, Floats, Floats, Fit]:
        """Coordinates, the map from coefficients to intercept and weights, the penalty for alpha one, and the fit."""
        m, first, R_inv = self.first + k, self.first, np.linalg.inv(self.R[:k, :k])
        shift = (self.models.means - self.means)[:k]
        to_weights = np.zeros((1 + k, m))
        to_weights[1:, first:] = R_inv
        Q = np.zeros((m, m))
        Q[first:, first:] = R_inv.T * self.variances[:k] @ R_inv
        a = np.zeros((m, self.samples.Y.shape[1]))
        a[first:] = self.R[:k, :k] @ self.models.coefs[k, :k]
        if first:
            to_weights[0, 0], to_weights[0, 1:] = self.V[0, 0], shift @ R_inv
            a[0] = (self.models.starts[k] - shift @ self.models.coefs[k, :k]) / self.V[0, 0]
        V = self.V[:m]
        return V, to_weights, Q, Fit(a, self.samples.offset + V.T @ a, None)

    def solve(self, k: int, refit: str | None) -> GlmFit:
        """Fit the first k terms, with the penalty of the path or, if `refit`, the one with the least ALO error."""
        loss, samples, alpha = self.models.losses[k], self.samples, self.alpha
        V, to_weights, Q, fit = self.problem(k)
        if refit is not None and k:
            alpha, fit = self.best_alpha(loss, V, Q, fit)
        fit = minimise(loss, V, alpha * Q, samples, fit, NEWTON_DECREMENT_FINAL)
        left_out, dof = approximate_loo(loss, V, alpha * Q, samples, fit, self.null_eta)
        numbers, joint = measure(loss, samples, fit.eta, left_out, dof), to_weights @ fit.a
        f, (n_rows, q) = samples.sample_weight, samples.Y.shape
        n, dispersions = float(f.sum()), np.ones(q)  # of outputs, which may have noise of different sizes
        if not loss.fixed_dispersion:
            gradients, curvature = squares_and_curvature(loss, samples, fit.eta, left_out)
            dispersions = gradients / curvature
        solution = GlmSolution(
            weights=joint[1:],
            factors=(),
            B=np.empty((n_rows, 0)),
            sse=dispersions * (n - dof),
            loo=np.sqrt(f[:, None] * dispersions),
            dof=dof,
            freedom=n - dof,
            covariance=to_weights @ covariances(loss, V, alpha * Q, samples, fit) @ to_weights.T,
        )
        null = float(f @ loss.deviance(samples.Y, self.null_eta))
        explained = 1 - numbers["deviance"] / null if null > 0 else 0.0
        criteria = {name: numbers[name] for name in GlmPath.criteria}
        return GlmFit(loss, solution, joint[0], left_out, alpha, criteria, explained)

    def best_alpha(self, loss: Loss, V: Floats, Q: Floats, start: Fit) -> tuple[float, Fit]:
        """Return the penalty with the least ALO error, of several and that of the path, and the fit."""
        best, samples = (np.inf, self.alpha, start), self.samples
        fit = start
        for alpha in sorted({*ALPHAS.tolist(), self.alpha}, reverse=True):
            fit = minimise(loss, V, alpha * Q, samples, Fit(fit.a, fit.eta, None))
            left_out, _ = approximate_loo(loss, V, alpha * Q, samples, fit, self.null_eta)
            error = float(samples.sample_weight @ loss.error(samples.Y, left_out))
            if error < best[0]:
                best = (error, alpha, fit)
        return best[1], best[2]


def measure(loss: Loss, samples: Samples, eta: Floats, left_out: Floats, dof: float) -> dict[str, float]:
    """Dispersion and criteria of a model; `dof` counts the parameters of each output."""
    Y, f = samples.Y, samples.sample_weight
    n, errors, deviance = float(f.sum()), loss.error(Y, left_out), float(f @ loss.deviance(Y, eta))
    dispersion = 1.0
    if not loss.fixed_dispersion:
        gradients, curvature = squares_and_curvature(loss, samples, eta, left_out)
        dispersion = float(gradients.sum() / curvature.sum()) / loss.deviance_unit
    loo = float(f @ errors) / n
    spread = max(float(f @ errors**2) / n - loo**2, 0.0)
    return {
        "deviance": deviance,
        "dispersion": dispersion,
        "loo": loo,
        "loo_se": float(np.sqrt(spread / n)),
        "bic": (deviance + np.log(n) * dispersion * dof * Y.shape[1]) / n,
    }


def squares_and_curvature(loss: Loss, samples: Samples, eta: Floats, left_out: Floats) -> tuple[Floats, Floats]:
    """Squared leave-one-out gradients and curvature of every output, (q,), summed: their quotient is the dispersion.

    Where no sample has a curvature, as where Huber's loss clips all errors, it is that of a single one.
    """
    f, gradients = samples.sample_weight, loss.gradient(samples.Y, left_out)
    curvature = f @ loss.curvature(samples.Y, eta)
    return f @ gradients**2, np.where(curvature > 0, curvature, f.min(where=f > 0, initial=np.inf))


class GlmPathBuilder(PathLimits):
    """Grows a path of a loss: the state of the model, its record, and when to stop."""

    def __init__(
        self, G: Any, null: NullModel, settings: Settings, one_output: bool, callback: Callback | None
    ) -> None:
        n, p = float(null.samples.sample_weight.sum()), G.shape[1]
        super().__init__(settings, callback, p)
        self.limit_terms(n, p)
        self.state = GlmState(G, null, float(settings.alpha), self.limit, settings.constraints)
        loss, q = null.loss, null.samples.Y.shape[1]
        # several quantiles of one target are not independent: their mean is compared with that of one
        dof = q - 1 if loss.coupled else 1 if loss.name == "quantile" else q
        self.outputs_per_dof = q / dof if loss.name == "quantile" else 1.0
        self.path = GlmPath(n, p, settings.fit_intercept, one_output, loss=loss.name, term_dof=dof)
        self.record(Choice(-1, np.nan), 0.0)

    def after_step(self, choice: Choice, forced_left: int) -> str:
        """Record the step and return why to stop, if so."""
        state = self.state
        Y, f, loss = state.samples.Y, state.samples.sample_weight, state.loss
        before = float(f @ loss.value(Y, self.eta))
        drop = before - float(f @ loss.value(Y, state.fit.eta))
        self.record(choice, 2 * drop / (loss.deviance_unit * self.outputs_per_dof))
        return self.reason_to_stop(choice, forced_left)

    def record(self, choice: Choice, reduction: float) -> None:
        """Append a row to the path."""
        state = self.state
        left_out, dof = state.left_out()
        numbers = measure(state.loss, state.samples, state.fit.eta, left_out, dof)
        a, value = state.fit.a, float(state.samples.sample_weight @ state.loss.value(state.samples.Y, state.fit.eta))
        self.path.dispersions.append(numbers["dispersion"])
        self.path.steps.append(
            Step(
                term=choice.index,
                score=choice.score,
                sse=numbers["deviance"],
                cost=2 * value + float(np.vdot(a, state.Q @ a)),
                dof=dof,
                alpha=float(self.settings.alpha),
                loo=numbers["loo"],
                loo_se=numbers["loo_se"],
                gcv=np.nan,
                uev=np.nan,
                fpe=np.nan,
                bic=numbers["bic"],
                reduction=reduction,
                correlation=0.0,
                verified=0,
                seconds=time.perf_counter() - self.started,
            )
        )
        self.eta = state.fit.eta


def select_glm_terms(
    G: Any, null: NullModel, settings: Settings, one_output: bool, callback: Callback | None = None
) -> GlmPath:
    """Grow a path from the model without terms, on validated data in memory, in an array or a `Design`.

    The penalty must be a number. The intercept is that of the model, whatever the settings say.
    """
    builder = GlmPathBuilder(G, null, settings, one_output, callback)
    state, path, rule = builder.state, builder.path, CostRule(builder.state.least_reduction)
    path.stop_reason = grow(state, rule, builder.limit_reached, builder.after_step, builder.forced)
    k, terms = len(state.chosen), state.chosen
    path.training = GlmTraining(
        models=state.models(),
        V=state.V[: state.first + k].copy(),
        R=state.R[:k, :k].copy(),
        first=state.first,
        means=(state.columns.means + state.shift)[terms],
        variances=state.given.norms[terms] / path.n_samples,
        samples=state.samples,
        null_eta=state.null_eta,
        alpha=float(settings.alpha),
    )
    return path
