"""Forward selection with one penalty per orthogonalised term, set by Bayesian evidence: LROLS.

(Chen 2006, as used in Hagiwara 2011, sections 1, 4.2 and 5.) In the chosen order the columns become `G = W U`, W with
orthogonal columns. With penalties `alpha_k` on their weights g (a Gaussian prior of variance `sigma^2 / alpha_k`),

    s_k = w_k'w_k,    g_k = w_k'y / (s_k + alpha_k),    gamma_k = s_k / (s_k + alpha_k),    gamma = sum of gamma_k

and raising the evidence leads to MacKay's update `alpha_k <- gamma_k sigma^2 / g_k^2`, `sigma^2 = e'e / (n - gamma)`,
where n is less by one with an intercept. Along `w_k` the target has the coordinate `u_k = w_k'y / sqrt(s_k)`, of
variance `sigma^2 theta_k` with `theta_k = 1 + s_k / alpha_k`, and orthogonal terms share nothing but sigma^2. In these
letters

    e'e = rest + sum u_k^2 / theta_k^2,    y'P y = rest + sum u_k^2 / theta_k,    theta_k - 1 <- gamma_k u_k^2 / sigma^2

(`rest` is the squared error outside the terms): for a given sigma^2, theta_k goes straight to `u_k^2 / sigma^2` if that
is above one, and to one, which is an infinite penalty, if it is not. So a term survives if `u_k^2 > sigma^2`, and no
bound on the penalties is needed to tell. What a term can still gain of log evidence on its way is known as well,
`(rho_k - 1 - log rho_k) / 2` with `rho_k = u_k^2 / (sigma^2 theta_k)`: the updates end when that is little for all of
them together, which also makes sigma^2 agree with its own formula. With q outputs `u_k^2` and `e'e` are sums over all
of them and sigma^2 is per output: q drops out of the update, and a term survives if `u_k^2 > q sigma^2`.

The samples are needed for choosing the terms only: all later rounds take place on the triangular factor.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from termwise._checks import check_bool, check_number
from termwise._numerics import DEPENDENT_COLUMN, EVIDENCE_NOISE
from termwise.estimators.base import TermModel
from termwise.estimators.callbacks import CallbackSupportMixin, end_of_fit, step_callback, with_callbacks
from termwise.estimators.data import fit_design, read
from termwise.execution import select_terms
from termwise.linalg.least_squares import Problem, Rows, measure, solve_orthogonal
from termwise.selection.engine import STOPPED, Settings, grow
from termwise.selection.nested import fetch_in_memory
from termwise.selection.path import SelectionPath, Training
from termwise.selection.rules import CostRule

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Terms:
    """Terms in their order with their penalties, in coordinates in which their columns are triangular."""

    index: NDArray[np.intp]  # (k,) places on the path
    alphas: Floats  # (k,)
    R: Floats  # (k, k) upper triangular: the columns
    U: Floats  # (k, q): the targets
    rest: float  # squared error outside the terms, over all outputs
    n: float  # samples, less one with an intercept

    @property
    def s(self) -> Floats:
        """Squares of the orthogonalised columns."""
        return np.diagonal(self.R) ** 2

    @property
    def uu(self) -> Floats:
        """Squares of the targets' coordinates along them, over all outputs."""
        return np.einsum("ij,ij->i", self.U, self.U)

    @property
    def gamma(self) -> Floats:
        """Effective number of parameters of each term."""
        return self.s / (self.s + self.alphas)

    @property
    def noise(self) -> float:
        """`e'e / (n - gamma)` per output."""
        shrink = self.alphas / (self.s + self.alphas)  # 1 / theta; 1 - gamma would cancel
        return float((self.rest + self.uu @ shrink**2) / ((self.n - len(shrink) + shrink.sum()) * self.U.shape[1]))

    @property
    def evidence(self) -> float:
        """Log evidence with the noise at its best, `y'P y / n`, and the intercept integrated out."""
        cost, q = self.rest + self.uu @ (self.alphas / (self.s + self.alphas)), self.U.shape[1]
        noise = max(cost / (q * self.n), np.finfo(np.float64).tiny)
        return -0.5 * q * float(self.n * (1 + np.log(2 * np.pi * noise)) + np.sum(np.log1p(self.s / self.alphas)))

    def update(self, reselect: bool, min_norm: float) -> Terms:
        """One update: terms whose penalty would grow without end go, the others get new penalties."""
        s, uu, noise = self.s, self.uu, self.noise
        stay = np.flatnonzero(uu > self.U.shape[1] * noise)
        g2 = s[stay] * uu[stay] / (s[stay] + self.alphas[stay]) ** 2
        alphas = self.gamma[stay] * noise * self.U.shape[1] / g2
        order = greedy_order(self.R[:, stay], self.U, alphas, min_norm) if reselect else np.arange(len(stay))
        return self._take(stay[order], alphas[order])

    def _take(self, order: NDArray[np.intp], alphas: Floats) -> Terms:
        """Some of the terms in another order, orthogonalised anew."""
        if np.array_equal(order, np.arange(len(self.index))):
            return replace(self, alphas=alphas)
        Q, R = np.linalg.qr(self.R[:, order])
        U = Q.T @ self.U
        rest = self.rest + float(np.sum((self.U - Q @ U) ** 2))
        return Terms(self.index[order], alphas, R, U, rest, self.n)

    def converged(self, before: Terms, tol: float) -> bool:
        """Whether the terms are those of before, all survive, and their penalties have at most tol to gain."""
        q, noise = self.U.shape[1], self.noise
        if not np.array_equal(self.index, before.index) or np.any(self.uu <= q * noise):
            return False
        rho = self.uu / (q * noise * (1 + self.s / self.alphas))
        return bool(0.5 * q * np.sum(rho - 1 - np.log(rho)) <= tol)


class ColumnsInMemory:
    """The state of a greedy selection from a few columns in memory, each with its own penalty, for `engine.grow`.

    The columns W are what the chosen ones leave of the candidates: modified Gram-Schmidt.
    """

    fetch_candidates = staticmethod(fetch_in_memory)

    def __init__(self, G: Floats, Y: Floats, alphas: Floats, min_norm: float) -> None:
        self.W, self.Y, self.alphas = G.copy(), Y, alphas
        self.least = np.maximum(min_norm, DEPENDENT_COLUMN * np.einsum("ij,ij->j", G, G))
        self.eligible = np.ones(len(alphas), dtype=bool)
        self.chosen: list[int] = []

    def refresh(self) -> None:
        """Statistics of the remaining columns."""
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
    grow(state, CostRule(), lambda: "all are chosen" if len(state.chosen) == len(alphas) else "")
    return np.array(state.chosen, dtype=np.intp)


def initial_terms(training: Training, intercept: bool, alpha: float, rounding: float) -> Terms:
    """Return all terms of a path, with a common penalty."""
    Z, R, Y = training.Z, training.R, training.Y
    U = Z.T @ Y
    rest = float(np.sum((Y - Z @ U) ** 2)) + rounding
    return Terms(np.arange(len(R)), np.full(len(R), alpha), R, U, rest, float(training.sample_weight.sum()) - intercept)


class EvidenceForwardRegressor(CallbackSupportMixin, MultiOutputMixin, RegressorMixin, TermModel):
    """Regression on terms chosen one by one, each with a penalty of its own set by Bayesian evidence (LROLS).

    Terms are taken by the largest drop of the regularised cost until no candidate has anything left beside them. The
    weights of the orthogonalised terms are penalised one by one; their penalties start from a common value and are
    updated until they no longer change. Terms the evidence speaks against are removed on the way.

    Parameters
    ----------
    basis : transformer or None, default=None
        Yields the candidates: one of `termwise.basis` or any scikit-learn transformer. None: the columns of X.
    alpha : float, default=1e-3
        Penalty all terms start from, above 0. Keep it small beside the squares of the columns: what it takes from the
        strong terms counts as noise in the first update, and weak terms must rise above that.
    max_iter : int, default=20
        Maximum number of updates of the penalties; 0 keeps all terms at `alpha`.
    min_norm : float, default=1e-6
        A candidate is taken only while its column, less what the chosen ones explain of it, has a square above this.
    tol : float, default=1e-3
        The updates stop when the terms stay the same and their penalties have no more than this to gain of log
        evidence.
    reselect : bool, default=False
        Whether to choose among the remaining terms again after each update, each candidate with its penalty, as Chen
        does. False keeps their order.
    max_terms : int or None, default=None
        Most terms to begin with; None: as many as the data can determine.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    verbose : int, default=0
        1 prints a line per update.
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
    evidence_path_ : ndarray of shape (1 + updates,)
        Log evidence of the data at the start and after each update, with the noise variance that suits them best.
    n_iter_, n_updates_ : int
        Number of updates made.
    stop_reason_ : str
        Why the updates ended.
    path_ : SelectionPath
        The path the terms were taken on, before any update.
    intercept_, basis_, effective_dof_, noise_variance_, criterion_value_, criteria_, loo_residuals_, weights_cov_
        As in `BasisRidge`; the criterion is leave-one-out.

    See Also
    --------
    ForwardRegressor : One penalty for all terms and as many terms as a criterion keeps.
    LocalRidge : One penalty per term, on the weights themselves, by generalised cross-validation.

    Notes
    -----
    A term survives while the squared error it takes away by itself, unpenalised, exceeds the noise variance. That is a
    mild test for terms that were chosen because they fit: expect more terms than with `ForwardRegressor`, all but the
    useful ones with small weights. Use this model where a smooth fit counts for more than the fewest terms.

    An update that removes no term and keeps the order raises the evidence (so in every trial; there is no proof). When
    terms go or change places, the remaining ones are orthogonalised anew, which is another prior, and it may fall.

    On the papers' regression data both values of `reselect` predict about equally well, most often False a little
    better; True leaves fewer terms, but its order may go round in circles until `max_iter` ends it.

    Penalties that have adapted to the samples make leave-one-out and the evidence far too optimistic when there are
    nearly as many terms as samples, as with narrow radial functions on every sample: then nothing is left to tell the
    noise by. Choose the width by cross-validation, not by `CriterionSearch`, and set `max_terms` to a fraction of the
    number of samples if the targets are noisy. `alpha` and `min_norm` are absolute: scale the columns to similar sizes.
    Several outputs share terms, penalties and the noise level: scale them, too.

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
        settings, max_iter = self._check_params()
        after_step = step_callback(self, None)
        data = read(self, X, y, sample_weight, basis=self.basis)
        design = fit_design(self, self.basis, data)
        Y, weights = design.Y, design.weights
        path = select_terms(design.G, Y, weights, settings, design.candidates.one_output, lambda path: after_step())
        training = path.training()
        rounding = EVIDENCE_NOISE * float(np.sum(weights @ Y**2))
        terms = initial_terms(training, self.fit_intercept, self.alpha, rounding)
        terms, evidence, reason = self._update(terms, path, max_iter, after_step)
        rows = Rows(training.sample_weight, self.fit_intercept)
        columns = training.Z @ training.R[:, terms.index]
        problem = Problem(columns, training.Y, rows, training.G_mean[terms.index], training.Y_mean, owned=True)
        solution = solve_orthogonal(problem, terms.alphas)
        chosen, iterations = path.terms[terms.index], len(evidence) - 1
        self._store(
            design.fitted_terms(problem, solution, measure(rows, solution), "loo", chosen),
            alphas_=terms.alphas,
            evidence_path_=np.array(evidence),
            n_iter_=iterations,
            n_updates_=iterations,
            stop_reason_=reason,
            path_=path,
        )
        end_of_fit(self)
        return self

    def _check_params(self) -> tuple[Settings, int]:
        """Validate the parameters; return how the path grows and the largest number of updates."""
        max_iter: Any = self.max_iter
        if self.max_updates != "deprecated":
            warnings.warn("max_updates is deprecated: use max_iter.", FutureWarning, stacklevel=3)
            max_iter = self.max_updates
        check_number("alpha", self.alpha, above=0, remedy="start from a small penalty such as 1e-3")
        check_number("max_iter", max_iter, low=0, integer=True, remedy="0 keeps all terms at alpha")
        check_number("tol", self.tol, low=0, remedy="1e-3 leaves a thousandth of log evidence to gain")
        check_bool("reselect", self.reselect, remedy="True chooses among the terms again after each update")
        check_number("verbose", self.verbose, low=0, integer=True, remedy="0 is silent, 1 reports every update")
        settings = Settings(
            rule="cost",
            alpha=self.alpha,
            penalty="orthogonal",
            max_terms=self.max_terms,
            fit_intercept=self.fit_intercept,
            min_norm=self.min_norm,
        )
        settings.check()
        return settings, max_iter

    def _update(
        self, terms: Terms, path: SelectionPath, max_iter: int, after_step: Callable[[], bool]
    ) -> tuple[Terms, list[float], str]:
        """Update the penalties to convergence; return the terms, the log evidence along the way and why it ended."""
        evidence, reason = [terms.evidence], ""
        if not len(terms.index) or path.stop_reason == STOPPED:
            reason = path.stop_reason
        elif not max_iter:
            reason = "max_iter=0 reached"
        while not reason:
            before, terms = terms, terms.update(self.reselect, self.min_norm)
            evidence.append(terms.evidence)
            if self.verbose:
                size, noise = len(terms.index), terms.noise
                print(f"{len(evidence) - 1:4d}  {size} terms  noise {noise:.6g}  log evidence {evidence[-1]:.6g}")
            if after_step():
                reason = STOPPED
            elif not len(terms.index):
                reason = "no term is left: none rises above the noise"
            elif terms.converged(before, self.tol):
                reason = "the penalties have converged"
            elif len(evidence) > max_iter:
                reason = f"max_iter={max_iter} reached"
        return terms, evidence, reason
