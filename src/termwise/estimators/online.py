"""Ridge regression that takes in and gives up samples and terms."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import as_columns, densify
from termwise._checks import check_bool, check_counts, check_indices, check_number
from termwise.estimators.model import Record, TermModel
from termwise.estimators.online_samples import Samples, sample_keys
from termwise.linalg.factor_updates import Factor
from termwise.linalg.least_squares import measure, pose, solve_penalised


class OnlineRidge(MultiOutputMixin, RegressorMixin, TermModel):
    """Ridge regression kept current: samples and terms come and go without refitting.

    Works on the triangular factor of the problem, never on an inverse. A sample costs O(k^2) for k terms, however many
    samples there are.

    Parameters
    ----------
    basis : transformer or None, default=None
        Yields the design matrix: one of `termwise.basis` or any scikit-learn transformer, fitted on the first batch.
        None: the columns of X.
    alpha : float, default=1e-6
        The penalty.
    terms : array-like of int or None, default=None
        The terms to start with; None: all that the basis yields.
    keep_samples : bool, default=True
        Keep the samples (one row of the design matrix each). Removing samples, adding terms, error bars and
        leave-one-out need them; without, memory does not grow.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.

    Attributes
    ----------
    support_, weights_, n_terms_ : ndarray, ndarray, int
        Terms in the model, in the order they were put in, their weights and number.
    coef_ : ndarray of shape (p,) or (q, p)
        Weights of all terms, zero for those not in the model.
    intercept_ : float or ndarray of shape (q,)
        The intercept.
    n_samples_ : int
        Number of samples in the model.
    basis_ : transformer or None
        The fitted basis.
    effective_dof_, noise_variance_, criterion_value_, criteria_, loo_residuals_, weights_cov_
        As in `BasisRidge` (the criterion is GCV, the residuals are in the order the samples came), computed from the
        samples when asked for.

    See Also
    --------
    BasisRidge : Chooses the penalty.

    Examples
    --------
    Orr's example 4.5: a line through three points, then a term more, then a point less.

    >>> import numpy as np
    >>> from termwise import OnlineRidge
    >>> x, y = np.array([1.0, 2.0, 3.0]), np.array([1.1, 1.8, 3.1])
    >>> X = np.column_stack([x, x**2])
    >>> model = OnlineRidge(alpha=0, terms=[0]).fit(X, y)
    >>> model.weights_.round(6).tolist(), bool(abs(model.intercept_) < 1e-12)
    ([1.0], True)
    >>> model.add_terms([1]).predict(X).round(6).tolist()
    [1.1, 1.8, 3.1]
    >>> model.remove_terms([1]).remove_samples(X[2:], y[2:]).weights_.round(6).tolist()
    [0.7]
    """

    _samples: Samples | None
    _known: Record | None

    def __init__(
        self,
        basis: Any = None,
        alpha: float = 1e-6,
        *,
        terms: ArrayLike | None = None,
        keep_samples: bool = True,
        fit_intercept: bool = True,
    ) -> None:
        self.basis = basis
        self.alpha = alpha
        self.terms = terms
        self.keep_samples = keep_samples
        self.fit_intercept = fit_intercept

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Forget everything and fit these samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs.
        y : array-like of shape (n,) or (n, q)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            How often each sample counts.
        """
        fresh = clone(self)
        fresh._take_in(X, y, sample_weight, first=True)
        return self._become(fresh)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs.
        y : array-like of shape (n,) or (n, q)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            How often each sample counts.
        """
        if not hasattr(self, "_factor"):
            return self.fit(X, y, sample_weight)
        self._take_in(X, y, sample_weight, first=False)
        return self

    def remove_samples(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Remove samples that were added before, each with the weight it came with.

        Where leaving a sample out would make the factor nearly singular, it is computed afresh from the samples left.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs of the samples.
        y : array-like of shape (n,) or (n, q)
            Their targets.
        """
        samples = self._need_samples("remove_samples")
        X, y = self._validate(X, y, reset=False)
        Y = self._check_outputs(y)
        try:
            slots = samples.find(sample_keys(densify(X), Y))
        except KeyError as missing:
            raise ValueError(
                f"X, y must be samples of the model, but row {missing.args[0]} was never added, or removed already: "
                "give the same inputs and target it was added with."
            ) from None
        if len(slots) == len(samples):
            raise ValueError(f"remove_samples must leave at least one sample, got all {len(slots)}: no data, no model.")
        rows = [samples.row(slot) for slot in slots]
        samples.discard(slots)
        self._n_samples -= len(slots)
        if not all(self._remove_row(*row) for row in rows):
            self._refactor()
        return self._update()

    def add_terms(self, terms: ArrayLike) -> Self:
        """Put terms of the basis into the model.

        Parameters
        ----------
        terms : array-like of int, or boolean mask of length p
            Which functions of the basis (columns of X without one).
        """
        samples = self._need_samples("add_terms")
        new = check_indices("terms", terms, self._n_candidates, what="term")
        if np.isin(new, self.support_).any():
            raise ValueError(
                f"terms must not be in the model yet, got {new[np.isin(new, self.support_)].tolist()}, which are: "
                "leave them out."
            )
        if self._factor.singular:
            self.support_ = np.append(self.support_, new)
            self._refactor()
        else:
            G, Y, counts = samples.all()
            root = np.sqrt(counts)[:, None]
            H, C = self._columns(G, self.support_) * root, G[:, new] * root
            self._factor.add_columns(H, Y * root, C, np.full(len(new), self._alpha))
            self.support_ = np.append(self.support_, new)
        return self._update()

    def remove_terms(self, terms: ArrayLike) -> Self:
        """Take terms out of the model.

        Parameters
        ----------
        terms : array-like of int, or boolean mask of length p
            Which of them, by their number in the basis, as in `support_`.
        """
        check_is_fitted(self)
        old = check_indices("terms", terms, self._n_candidates, what="term")
        if not np.isin(old, self.support_).all():
            raise ValueError(
                f"terms must be in the model, got {old[~np.isin(old, self.support_)].tolist()}, which are not: "
                "support_ lists those that are."
            )
        if len(old) == len(self.support_) and not self._intercept:
            raise ValueError(
                f"remove_terms must leave a term or the intercept, got all {len(old)} terms: leave one in."
            )
        at = np.flatnonzero(np.isin(self.support_, old))
        self._factor.remove_columns(at + self._intercept)
        self.support_ = np.delete(self.support_, at)
        return self._update()

    @property
    def n_samples_(self) -> int:
        """Number of samples in the model."""
        check_is_fitted(self)
        return self._n_samples

    def _record(self) -> Record:
        """Error bars and leave-one-out from the samples, kept until the model changes."""
        samples = self._need_samples("an error bar or leave-one-out residual")
        if self._known is None:
            G, Y, counts = samples.all()
            problem = pose(G[:, self.support_], Y, counts, bool(self._intercept))
            solution = solve_penalised(problem, np.arange(self.n_terms_), self._factor.penalties[self._intercept :])
            residuals = solution.loo / np.sqrt(counts)[:, None]
            criteria = measure(problem.rows, solution)
            self._known = Record(problem.rows, solution, problem.G_mean, criteria, "gcv", residuals)
        return self._known

    def _take_in(self, X: Any, y: Any, sample_weight: Any, first: bool) -> None:
        if first:
            check_number("alpha", self.alpha, low=0, remedy="a small penalty such as 1e-6 keeps the weights determined")
            check_bool("keep_samples", self.keep_samples, remedy="True allows removing samples and adding terms")
        X, y = self._validate(X, y, reset=first)
        counts = check_counts(sample_weight, len(y))
        if first:
            G = self._fit_design(X, y, counts, min_samples=1)
            self._begin(G.shape[1], y)
        else:
            G = self._check_design(X if self.basis_ is None else self.basis_.transform(X))
        Y, used = self._check_outputs(y), counts > 0
        G, Y, counts = G[used].astype(np.float64, copy=False), Y[used], counts[used]
        if self._samples is not None:
            keys = sample_keys(densify(X), as_columns(y))
            self._samples.add([key for key, kept in zip(keys, used, strict=True) if kept], G, Y, counts)
        root = np.sqrt(counts)[:, None]
        self._factor.add_rows(self._columns(G, self.support_) * root, Y * root)
        self._n_samples += len(Y)
        self._update()

    def _begin(self, p: int, y: NDArray) -> None:
        """Start from an empty model."""
        terms = np.arange(p) if self.terms is None else check_indices("terms", self.terms, p, what="term")
        if not len(terms) and not self.fit_intercept:
            raise ValueError("terms must name at least one term when there is no intercept, got none: give some.")
        self._n_candidates, self._one_output, self._n_samples = p, y.ndim == 1, 0
        self._alpha, self._intercept = float(self.alpha), int(self.fit_intercept)  # a model keeps those it began with
        q = as_columns(y).shape[1]
        self._samples = Samples(p, q) if self.keep_samples else None
        self.support_, self.n_terms_ = terms, len(terms)
        self._factor = Factor(self._penalties(len(terms)), q)

    def _update(self) -> Self:
        """Read the weights off the factor."""
        weights = self._factor.weights(free=self._intercept)
        intercept = weights[0] if self._intercept else np.zeros(weights.shape[1])
        self._set_weights(self.support_, weights[self._intercept :], intercept)
        self._known = None
        return self

    def _refactor(self) -> None:
        """Factor the samples afresh."""
        G, Y, counts = self._need_samples("factoring afresh").all()
        root = np.sqrt(counts)[:, None]
        self._factor = Factor(self._penalties(len(self.support_)), Y.shape[1])
        self._factor.add_rows(self._columns(G, self.support_) * root, Y * root)

    def _remove_row(self, g: NDArray, y: NDArray, count: float) -> bool:
        h = self._columns(g[None], self.support_)[0]
        return self._factor.remove_row(np.sqrt(count) * h, np.sqrt(count) * y)

    def _penalties(self, k: int) -> NDArray[np.float64]:
        return np.append(np.zeros(self._intercept), np.full(k, self._alpha))

    def _columns(self, G: NDArray, terms: NDArray[np.intp]) -> NDArray[np.float64]:
        """Columns of the model: the intercept's, if any, then the terms'."""
        ones = np.ones((len(G), self._intercept))
        return np.hstack([ones, G[:, terms]])

    def _check_outputs(self, y: NDArray) -> NDArray[np.float64]:
        Y, q = as_columns(y), np.atleast_1d(self._factor.z[:1]).shape[1]
        if Y.shape[1] != q:
            raise ValueError(f"y must have {q} output{'s' * (q > 1)}, got {Y.shape[1]}: the model was begun with {q}.")
        return Y

    def _need_samples(self, what: str) -> Samples:
        check_is_fitted(self)
        if self._samples is None:
            raise ValueError(f"{what} needs the samples, got keep_samples=False: fit with keep_samples=True.")
        return self._samples
