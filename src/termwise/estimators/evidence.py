"""Forward selection with one penalty per orthogonalised term, set by Bayesian evidence: LROLS.

(Chen 2006, as used in Hagiwara 2011, sections 1, 4.2 and 5.) In the chosen order the columns become `G = W U`, W with
orthogonal columns. With penalties `alpha_k` on their weights g (a Gaussian prior of variance `sigma^2 / alpha_k`),

    s_k = w_k'w_k,    g_k = w_k'y / (s_k + alpha_k),    gamma_k = s_k / (s_k + alpha_k),    gamma = sum of gamma_k

and maximising the evidence gives MacKay's update `alpha_k <- gamma_k sigma^2 / g_k^2`, `sigma^2 = e'e / (n - gamma)`,
where n is reduced by one with an intercept. Along `w_k` the target has the coordinate `u_k = w_k'y / sqrt(s_k)`, of
variance `sigma^2 theta_k` with `theta_k = 1 + s_k / alpha_k`, and orthogonal terms are coupled through sigma^2 only. In
this notation

    e'e = rest + sum u_k^2 / theta_k^2,    y'P y = rest + sum u_k^2 / theta_k,    theta_k - 1 <- gamma_k u_k^2 / sigma^2

(`rest` is the squared error outside the terms): for fixed sigma^2, theta_k converges to `u_k^2 / sigma^2` if that
exceeds one, and else to one, which is an infinite penalty. So a term is kept if `u_k^2 > sigma^2`, and no upper bound
on the penalties is needed. The log evidence that a term can still gain is `(rho_k - 1 - log rho_k) / 2` with
`rho_k = u_k^2 / (sigma^2 theta_k)`: the updates stop when the sum of these is small, which also makes sigma^2
consistent with its own formula. With q outputs `u_k^2` and `e'e` are sums over all outputs and sigma^2 is per output: q
cancels in the update, and a term is kept if `u_k^2 > q sigma^2`.

The samples are used for the selection of terms only: all updates are made on the triangular factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from termwise._checks import check_bool, check_number, warn
from termwise._numerics import DEPENDENT_COLUMN, EVIDENCE_NOISE, LARGEST_PENALTY
from termwise.estimators.base import CallbackSupportMixin, TermModel, step_callback, with_callbacks
from termwise.estimators.data import read
from termwise.estimators.design import fit_design, warn_of_lost_digits
from termwise.estimators.folds import check_repeatable, with_fold_models
from termwise.execution import select_terms
from termwise.linalg.least_squares import Problem, WeightedRows, measure, solve_orthogonal
from termwise.selection.engine import STOPPED, Settings, grow
from termwise.selection.nested import fetch_in_memory
from termwise.selection.rules import CostRule

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Terms:
    """Terms in their order with their penalties, in coordinates that make the matrix of columns triangular."""

    index: NDArray[np.intp]  # (k,) positions on the path
    alphas: Floats  # (k,)
    R: Floats  # (k, k) upper triangular: the columns
    U: Floats  # (k, q): the targets
    rest: float  # squared error outside the terms, over all outputs
    n: float  # number of samples, minus one with an intercept

    @cached_property
    def s(self) -> Floats:
        """Squared norms of the orthogonalised columns."""
        return np.diagonal(self.R) ** 2

    @cached_property
    def uu(self) -> Floats:
        """Squared coordinates of the targets along them, summed over the outputs."""
        return np.einsum("ij,ij->i", self.U, self.U)

    @property
    def noise(self) -> float:
        """`e'e / (n - gamma)` per output."""
        shrink = self.alphas / (self.s + self.alphas)  # 1 / theta; 1 - gamma would cancel
        return float((self.rest + self.uu @ shrink**2) / ((self.n - len(shrink) + shrink.sum()) * self.U.shape[1]))

    @property
    def evidence(self) -> float:
        """Log evidence at the optimal noise variance, `y'P y / n`, with the intercept integrated out."""
        cost, q = self.rest + self.uu @ (self.alphas / (self.s + self.alphas)), self.U.shape[1]
        noise = max(cost / (q * self.n), np.finfo(np.float64).tiny)
        return -0.5 * q * float(self.n * (1 + np.log(2 * np.pi * noise)) + np.sum(np.log1p(self.s / self.alphas)))

    def update(self, prune: bool, reselect: bool, min_norm: float) -> Terms:
        """Return the terms after one update: with `prune` those with diverging penalties are removed.

        If terms are removed or their order changes, the columns are orthogonalised again.
        """
        q, noise = self.U.shape[1], self.noise
        kept = np.flatnonzero(self.uu > q * noise) if prune else np.arange(len(self.index))
        s, total = self.s[kept], self.s[kept] + self.alphas[kept]
        uu = np.maximum(self.uu[kept], noise * q / LARGEST_PENALTY)  # of a term that is kept though it explains nothing
        alphas = np.full_like(s, np.inf)  # where all targets are zero, and there is no noise either
        np.divide((s / total) * noise * q, s * uu / total**2, out=alphas, where=uu > 0)
        alphas = np.minimum(alphas, LARGEST_PENALTY * s)
        if reselect:
            order = greedy_order(self.R[:, kept], self.U, alphas, min_norm)
            kept, alphas = kept[order], alphas[order]
        if np.array_equal(kept, np.arange(len(self.index))):
            return replace(self, alphas=alphas)
        Q, R = np.linalg.qr(self.R[:, kept])
        U = Q.T @ self.U
        rest = self.rest + float(np.sum((self.U - Q @ U) ** 2))
        return Terms(self.index[kept], alphas, R, U, rest, self.n)

    def converged(self, before: Terms, prune: bool, tol: float) -> bool:
        """Whether the terms are the same as before, none diverges, and at most tol of log evidence can be gained."""
        q, noise = self.U.shape[1], self.noise
        diverges = (self.uu <= q * noise) & (self.alphas < LARGEST_PENALTY / 2 * self.s)
        if not np.array_equal(self.index, before.index) or np.any(self.uu <= q * noise if prune else diverges):
            return False
        used = self.uu > q * noise
        rho = self.uu[used] / (q * noise * (1 + self.s[used] / self.alphas[used]))
        return bool(0.5 * q * np.sum(rho - 1 - np.log(rho)) <= tol)


class ColumnsInMemory:
    """The state of a greedy selection from a few columns in memory, each with its own penalty, for `engine.grow`.

    W holds the candidates orthogonalised against the chosen columns: modified Gram-Schmidt.
    """

    fetch_candidates = staticmethod(fetch_in_memory)

    def __init__(self, G: Floats, Y: Floats, alphas: Floats, min_norm: float) -> None:
        self.W, self.Y, self.alphas = G.copy(), Y, alphas
        self.least = np.maximum(min_norm, DEPENDENT_COLUMN * np.einsum("ij,ij->j", G, G))
        self.eligible = np.ones(len(alphas), dtype=bool)
        self.chosen: list[int] = []

    def refresh(self) -> None:
        """Compute the statistics of the remaining columns."""
        self.s, self.c = np.einsum("ij,ij->j", self.W, self.W), self.W.T @ self.Y
        self.eligible &= self.s > self.least
        self.den = np.where(self.eligible, self.s + self.alphas, 1.0)

    def append(self, j: int) -> bool:
        """Append column j."""
        z = self.W[:, j] / np.sqrt(self.s[j])
        self.W -= np.outer(z, z @ self.W)
        self.chosen.append(j)
        self.eligible[j] = False
        return True


def greedy_order(G: Floats, Y: Floats, alphas: Floats, min_norm: float) -> NDArray[np.intp]:
    """Choose columns one by one by `(w'y)^2 / (w'w + alpha)`, Orr (7.10), each with its own alpha."""
    state = ColumnsInMemory(G, Y, alphas, min_norm)
    grow(state, CostRule(), lambda: "all are selected" if len(state.chosen) == len(alphas) else "")
    return np.array(state.chosen, dtype=np.intp)


def update_to_convergence(
    model: EvidenceForwardRegressor, terms: Terms, max_iter: int, after_step: Callable[[], bool], reason: str
) -> tuple[Terms, list[float], str]:
    """Update the penalties to convergence, unless there is a reason not to begin.

    Returns the terms, the log evidence after each update and why it stopped.
    """
    evidence, reason = [terms.evidence], reason or ("" if max_iter else "max_iter=0 reached")
    while not reason:
        before, terms = terms, terms.update(model.prune, model.reselect, model.min_norm)
        evidence.append(terms.evidence)
        if model.verbose:
            size, noise = len(terms.index), terms.noise
            print(f"{len(evidence) - 1:4d}  {size} terms  noise {noise:.6g}  log evidence {evidence[-1]:.6g}")
        if after_step():
            reason = STOPPED
        elif not len(terms.index):
            reason = "no term is left: none rises above the noise"
        elif terms.converged(before, model.prune, model.tol):
            reason = "the penalties have converged"
        elif len(evidence) > max_iter:
            reason = f"max_iter={max_iter} reached"
    return terms, evidence, reason


class EvidenceForwardRegressor(CallbackSupportMixin, MultiOutputMixin, RegressorMixin, TermModel):
    """Regression on terms chosen one by one, each with a penalty of its own set by Bayesian evidence (LROLS).

    Terms are selected by the largest decrease of the regularised cost until all remaining candidates are linear
    combinations of them. Each weight of the orthogonalised terms has its own penalty; the penalties start from a common
    value and are updated to convergence. Terms whose penalty diverges are removed, unless `prune` is False.

    Parameters
    ----------
    basis : transformer or None, default=None
        Yields the candidates: one of `termwise.basis` or any scikit-learn transformer. None: the columns of X.
    alpha : float, default=1e-3
        Initial penalty of all terms, above 0. Choose it small relative to the squared norms of the columns: the bias it
        causes in strong terms is part of the noise variance in the first update, and weak terms must exceed that.
    max_iter : int, default=20
        Maximum number of updates of the penalties; 0 keeps all terms at `alpha`.
    min_norm : float, default=1e-6
        A candidate is eligible while the squared norm of its column, orthogonalised against the chosen ones, exceeds
        this.
    tol : float, default=1e-3
        The updates stop when the terms stay the same and at most this much log evidence can be gained.
    reselect : bool, default=False
        Whether to repeat the selection among the remaining terms after each update, each with its own penalty, as in
        Chen 2006. False keeps their order.
    prune : bool, default=True
        Whether terms whose penalty diverges are removed at once. False keeps them, with weights near zero, as
        Hagiwara 2011 does.
    max_terms : int or None, default=None
        Maximum number of terms to start from; None: as many as the data can determine.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    verbose : int, default=0
        1 prints a line per update.
    selection_cv : int, splitter, iterable or None, default=None
        Folds in which `fit` repeats the whole fit, selection of terms included: for `predict_interval` by CV+ and
        `selection_frequency_`, at the cost of one more fit per fold. 10 is a good number; samples are then shuffled
        with a fixed seed, those with equal inputs in the same fold. A splitter or an iterable of (train, test) indices
        as in scikit-learn's `cv` must leave out each sample once at most.
    max_updates : int, default="deprecated"
        Deprecated name of `max_iter`.

    Attributes
    ----------
    support_ : ndarray of shape (k,)
        The remaining terms, in the order of their orthogonalisation.
    alphas_ : ndarray of shape (k,)
        Their penalties, on the weights of the orthogonalised terms.
    weights_, n_terms_ : ndarray, int
        Their weights and number.
    coef_ : ndarray of shape (p,) or (q, p)
        Weights of all candidates.
    selection_frequency_ : ndarray of shape (d,)
        Share of the fold models that use each input; only with `selection_cv`.
    evidence_path_ : ndarray of shape (1 + updates,)
        Log evidence of the data at the start and after each update, at the optimal noise variance.
    n_iter_, n_updates_ : int
        Number of updates made.
    stop_reason_ : str
        Why the updates stopped.
    path_ : SelectionPath
        The selection path of the initial terms, before any update.
    intercept_, basis_, effective_dof_, noise_variance_, criterion_value_, criteria_, loo_residuals_, weights_cov_
        As in `BasisRidge`; the criterion is leave-one-out.

    See Also
    --------
    ForwardRegressor : One penalty for all terms and as many terms as a criterion keeps.
    LocalRidge : One penalty per term, on the weights themselves, by generalised cross-validation.

    Notes
    -----
    A term is kept while the decrease of the squared error due to it, without a penalty, exceeds the noise variance.
    This is a weak test for terms that were selected for their fit: expect more terms than with `ForwardRegressor`, most
    of them with small weights. Use this model if a smooth fit matters more than a small number of terms.

    An update that removes no term and keeps the order increases the evidence (in all experiments; there is no proof).
    If terms are removed or change their order, the remaining ones are orthogonalised again, which is a different prior,
    and the evidence may decrease.

    On the papers' regression data both values of `reselect` predict about equally well, False usually slightly better;
    True keeps fewer terms, but their order may cycle until `max_iter` is reached.

    Penalties adapted to the samples make leave-one-out and the evidence far too optimistic if there are nearly as many
    terms as samples, as with narrow radial functions on every sample: no residual degrees of freedom are left to
    estimate the noise variance. Choose the width by cross-validation, not by `CriterionSearch`, and set `max_terms` to
    a fraction of the number of samples if the targets are noisy. `alpha` and `min_norm` are absolute: scale the columns
    to similar norms. Several outputs share terms, penalties and the noise variance: scale them, too.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import EvidenceForwardRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 30))
    >>> y = 3 * X[:, 4] - X[:, 9] + 0.5 * rng.normal(size=200)
    >>> model = EvidenceForwardRegressor().fit(X, y)
    >>> model.support_[:2].tolist(), model.stop_reason_
    ([4, 9], 'the penalties have converged')
    >>> model.n_terms_ < 20
    True
    """

    selects_terms = True
    keeps_sparse = True

    def __init__(
        self,
        basis: Any = None,
        *,
        alpha: float = 1e-3,
        max_iter: int = 20,
        min_norm: float = 1e-6,
        tol: float = 1e-3,
        reselect: bool = False,
        max_terms: int | None = None,
        fit_intercept: bool = True,
        verbose: int = 0,
        selection_cv: Any = None,
        prune: bool = True,
        max_updates: int | str = "deprecated",
    ) -> None:
        self.basis = basis
        self.alpha = alpha
        self.max_iter = max_iter
        self.min_norm = min_norm
        self.tol = tol
        self.reselect = reselect
        self.max_terms = max_terms
        self.fit_intercept = fit_intercept
        self.verbose = verbose
        self.selection_cv = selection_cv
        self.prune = prune
        self.max_updates = max_updates

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs. With a `basis`, whatever that transformer takes.
        y : array-like of shape (n,) or (n, q)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights: a weight of 2 is the same as repeating the sample, and leave-one-out leaves out one
            repeat.
        """
        max_iter: Any = self.max_iter
        if self.max_updates != "deprecated":
            warn("max_updates is deprecated: use max_iter.", FutureWarning)
            max_iter = self.max_updates
        check_number("alpha", self.alpha, above=0, remedy="start from a small penalty such as 1e-3")
        check_number("max_iter", max_iter, low=0, integer=True, remedy="0 keeps all terms at alpha")
        check_number("tol", self.tol, low=0, remedy="1e-3 leaves a thousandth of log evidence to gain")
        check_bool("reselect", self.reselect, remedy="True chooses among the terms again after each update")
        check_bool("prune", self.prune, remedy="False keeps terms whose penalty diverges")
        check_number("verbose", self.verbose, low=0, integer=True, remedy="0 is silent, 1 reports every update")
        parameters = {name: getattr(self, name) for name in ("alpha", "max_terms", "fit_intercept", "min_norm")}
        settings = Settings(rule="cost", penalty="orthogonal", **parameters)
        settings.check()
        after_step = step_callback(self, None)
        check_repeatable(self, X, y)
        data = read(self, X, y, sample_weight, basis=self.basis)
        design = fit_design(self, self.basis, data)
        one_output = design.candidates.one_output
        path = select_terms(design.G, design.Y, design.weights, settings, one_output, lambda path: after_step())
        warn_of_lost_digits(design.candidates, path.unresolved)
        training = path.training
        Z, R, Y, k = training.Z, training.R, training.Y, len(path)
        rows = WeightedRows(training.sample_weight, self.fit_intercept)
        rest = float(np.sum((Y - Z @ (Z.T @ Y)) ** 2) + EVIDENCE_NOISE * np.sum(design.weights @ design.Y**2))
        terms = Terms(np.arange(k), np.full(k, self.alpha), R, Z.T @ Y, rest, rows.n - self.fit_intercept)
        stopped = path.stop_reason if not k or path.stop_reason == STOPPED else ""
        terms, evidence, reason = update_to_convergence(self, terms, max_iter, after_step, stopped)
        G_mean = training.G_mean[terms.index]
        problem = Problem(Z @ R[:, terms.index], Y, rows, G_mean, training.Y_mean, owned=True)
        solution, iterations = solve_orthogonal(problem, terms.alphas), len(evidence) - 1
        fitted = design.fitted_terms(problem, solution, measure(rows, solution), "loo", path.terms[terms.index])
        return self._store(
            with_fold_models(self, fitted, X, y, sample_weight),
            alphas_=terms.alphas,
            evidence_path_=np.array(evidence),
            n_iter_=iterations,
            n_updates_=iterations,
            stop_reason_=reason,
            path_=path,
        )
