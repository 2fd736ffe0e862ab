"""Ridge regression with updates: samples and terms are added and removed in O(k^2), Orr section 4.3."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import as_columns, densify
from termwise._checks import UnavailableError, check_bool, check_counts, check_indices, check_number, read_counts
from termwise._numerics import FLOAT64, ROUNDING_SHARE
from termwise.estimators.base import TermModel
from termwise.estimators.data import Data, read
from termwise.estimators.design import check_design, fit_design
from termwise.fitted import Candidates, FitStatistics, FittedTerms
from termwise.linalg.factor_updates import Factor
from termwise.linalg.least_squares import least_squares_problem, measure, solve_penalised


class OnlineRidge(MultiOutputMixin, RegressorMixin, TermModel):
    """Ridge regression with updates: samples and terms are added and removed without refitting.

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
        Keep the samples (one row of the design matrix each). Removing samples, adding terms, standard errors and
        leave-one-out require them; with False, memory does not grow.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.

    Attributes
    ----------
    support_, weights_, n_terms_ : ndarray, ndarray, int
        Terms in the model, in the order they were added, their weights and number.
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
        samples on first access.

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
        """Discard the former model and fit these samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs.
        y : array-like of shape (n,) or (n, q)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights.
        """
        check_number("alpha", self.alpha, low=0, remedy="a small penalty such as 1e-6 keeps the weights determined")
        check_bool("keep_samples", self.keep_samples, remedy="True allows removing samples and adding terms")
        data = read(self, X, y, sample_weight, basis=self.basis)
        design = fit_design(self, self.basis, data, min_samples=1)
        p, q = design.candidates.n_candidates, design.Y.shape[1]
        chosen = np.arange(p) if self.terms is None else check_indices("terms", self.terms, p, what="term")
        if not len(chosen) and not self.fit_intercept:
            raise ValueError("terms must name at least one term when there is no intercept, got none: give some.")
        samples = SampleStore(p, q) if self.keep_samples else None
        design.problem(self.fit_intercept)  # which warns of candidates that are rounding
        state = OnlineState(design.candidates, chosen, q, float(self.alpha), int(self.fit_intercept), samples)
        state.add(data.X, as_columns(data.y), design.whole, data.weights)
        return self._store(state.fitted_terms(), _state=state, n_samples_=state.n_samples)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs.
        y : array-like of shape (n,) or (n, q)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights.
        """
        if not hasattr(self, "fitted_terms_"):
            return self.fit(X, y, sample_weight)
        data, Y = self._read_samples(X, y)
        weights = read_counts(sample_weight, len(Y))
        weights = check_counts(weights, len(Y)) if weights.any() else weights
        basis = self._state.candidates.basis
        G = check_design(self, basis, data.X if basis is None else basis.transform(data.X))
        self._state.add(data.X, Y, G, weights)
        return self._update()

    def remove_samples(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Remove samples that were added before, each with the weight it was added with.

        Where removing a sample would make the factor nearly singular, it is computed afresh from the samples left.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs of the samples.
        y : array-like of shape (n,) or (n, q)
            Their targets.
        """
        check_is_fitted(self)
        samples = self._state.require_samples("remove_samples")
        data, Y = self._read_samples(X, y)
        try:
            slots = samples.find(sample_keys(densify(data.X), Y))
        except KeyError as missing:
            raise ValueError(
                f"X, y must be samples of the model, but row {missing.args[0]} was never added, or removed already: "
                "give the same inputs and target it was added with."
            ) from None
        count = samples.n_weighted(slots)
        if count == self._state.n_samples:
            raise ValueError(f"remove_samples must leave at least one sample, got all {count}: no data, no model.")
        self._state.remove(slots)
        return self._update()

    def add_terms(self, terms: ArrayLike) -> Self:
        """Add terms of the basis to the model.

        Parameters
        ----------
        terms : array-like of int, or boolean mask of length p
            Indices of functions of the basis (columns of X without one).
        """
        check_is_fitted(self)
        self._state.require_samples("add_terms")
        new = check_indices("terms", terms, self._state.candidates.n_candidates, what="term")
        present = np.isin(new, self._state.chosen)
        if present.any():
            raise ValueError(
                f"terms must not be in the model yet, got {new[present].tolist()}, which are: leave them out."
            )
        self._state.add_terms(new)
        return self._update()

    def remove_terms(self, terms: ArrayLike) -> Self:
        """Remove terms from the model.

        Parameters
        ----------
        terms : array-like of int, or boolean mask of length p
            Indices in the basis, as in `support_`.
        """
        check_is_fitted(self)
        state = self._state
        old = check_indices("terms", terms, state.candidates.n_candidates, what="term")
        absent = ~np.isin(old, state.chosen)
        if absent.any():
            raise ValueError(
                f"terms must be in the model, got {old[absent].tolist()}, which are not: support_ lists those that are."
            )
        if len(old) == len(state.chosen) and not state.intercept:
            raise ValueError(
                f"remove_terms must leave a term or the intercept, got all {len(old)} terms: leave one in."
            )
        places = np.flatnonzero(np.isin(state.chosen, old))
        state.factor.remove_columns(places + state.intercept)
        state.chosen = np.delete(state.chosen, places)
        return self._update()

    def _update(self) -> Self:
        return self._set_terms(self._state.fitted_terms(), n_samples_=self._state.n_samples)

    def _read_samples(self, X: Any, y: Any) -> tuple[Data, NDArray[np.float64]]:
        """Validate samples for a fitted model; return them, and their targets as columns."""
        data = read(self, X, y, basis=self.basis, reset=False)
        Y, q = as_columns(data.y), self._state.q
        if Y.shape[1] != q:
            raise ValueError(
                f"y must have {q} output{'s' * (q > 1)}, got {Y.shape[1]}: the model was fitted with {q} at first."
            )
        return data, Y


class OnlineState:
    """The triangular factor of the chosen columns and the samples; None if these are not kept.

    The first column is that of the intercept, if there is one. Penalty and intercept are those of the first fit.
    """

    def __init__(
        self,
        candidates: Candidates,
        chosen: NDArray[np.intp],
        n_outputs: int,
        alpha: float,
        intercept: int,
        samples: SampleStore | None,
    ) -> None:
        self.candidates, self.chosen, self.q = candidates, chosen, n_outputs
        self.alpha, self.intercept, self.samples, self.n_samples = alpha, intercept, samples, 0
        self.reference = np.zeros(candidates.n_candidates)  # subtracted from the columns, to which it is close
        self.factorise()

    def factorise(self) -> None:
        """Factor all samples from scratch."""
        penalties = np.append(np.zeros(self.intercept), np.full(len(self.chosen), self.alpha))
        self.factor = Factor(penalties, self.q)
        if self.n_samples:
            self.factor.add_rows(*self.weighted_rows(*self.require_samples("a new factor").rows()))

    def weighted_rows(
        self, G: NDArray[Any], Y: NDArray[Any], weights: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Columns of the model, the intercept's first, and targets, with rows times the square roots of weights."""
        root = np.sqrt(weights)[:, None]
        return np.hstack([np.ones((len(G), self.intercept)), self.differences(G, self.chosen)]) * root, Y * root

    def differences(self, G: NDArray[Any], chosen: NDArray[np.intp]) -> NDArray[Any]:
        """Some columns less their reference values; differences within rounding of these are zero."""
        reference = self.reference[chosen]
        columns = G[:, chosen] - reference
        return np.where(np.abs(columns) <= ROUNDING_SHARE[FLOAT64] * np.abs(reference), 0.0, columns)

    def add(self, X: Any, Y: NDArray[np.float64], G: NDArray[Any], weights: NDArray[np.float64]) -> None:
        """Add samples; those of weight zero are stored only to be removed again.

        With an intercept the first sample is subtracted from all: then constant columns are zero, and columns with a
        large mean keep their digits.
        """
        used, G = weights > 0, G.astype(np.float64, copy=False)
        table = G[used], Y[used], weights[used]
        if self.intercept and not self.n_samples and used.any():
            self.reference = table[0][0].copy()
        if self.samples is not None:
            self.samples.add(sample_keys(densify(X), Y), G, Y, weights)
        if used.any():
            self.factor.add_rows(*self.weighted_rows(*table))
        self.n_samples += int(used.sum())

    def remove(self, slots: list[int]) -> None:
        """Remove samples by their slots; the factor is computed from scratch where a downdate would lose digits."""
        samples = self.require_samples("remove_samples")
        columns, targets = self.weighted_rows(*samples.rows(slots))
        self.n_samples -= samples.n_weighted(slots)
        samples.discard(slots)
        for row, target in zip(columns, targets, strict=True):
            if not self.factor.remove_row(row, target):
                self.factorise()
                return

    def add_terms(self, new: NDArray[np.intp]) -> None:
        """Add columns to the factor."""
        G, Y, weights = self.require_samples("add_terms").rows()
        singular = self.factor.singular
        if not singular:
            columns = self.differences(G, new) * np.sqrt(weights)[:, None]
            self.factor.add_columns(*self.weighted_rows(G, Y, weights), columns, np.full(len(new), self.alpha))
        self.chosen = np.append(self.chosen, new)
        if singular:
            self.factorise()

    def fitted_terms(self) -> FittedTerms:
        """Return the terms with the weights of the factor; statistics are computed from the samples on first access.

        They belong to the model at that time: a further update makes another record.
        """
        weights = self.factor.weights(free=self.intercept)
        first, weights = np.split(weights, [self.intercept])
        intercept = first.sum(axis=0) - self.reference[self.chosen] @ weights
        statistics = DeferredStatistics(self, self.chosen)
        return FittedTerms(self.candidates, self.chosen, weights, intercept, statistics)

    def statistics(self, chosen: NDArray[np.intp]) -> FitStatistics:
        """Solve for some terms on all samples, for standard errors and leave-one-out."""
        G, Y, weights = self.require_samples("an error bar or leave-one-out residual").rows()
        problem = least_squares_problem(G[:, chosen], Y, weights, bool(self.intercept))
        solution = solve_penalised(problem, np.arange(len(chosen)), np.full(len(chosen), self.alpha))
        residuals = solution.loo / np.sqrt(weights)[:, None]
        return FitStatistics(problem.rows, solution, problem.G_mean, measure(problem.rows, solution), "gcv", residuals)

    def require_samples(self, purpose: str) -> SampleStore:
        """Return the samples, or raise if they were not kept."""
        if self.samples is None:
            raise UnavailableError(f"{purpose} needs the samples, got keep_samples=False: fit with keep_samples=True.")
        return self.samples


@dataclass(frozen=True)
class DeferredStatistics:
    """The statistics of an online model, computed when called."""

    state: OnlineState
    chosen: NDArray[np.intp]

    def __call__(self) -> FitStatistics:
        """Solve on all samples."""
        return self.state.statistics(self.chosen)


class SampleStore:
    """A growing table of design rows, targets and weights, in order of arrival, with O(1) removal by value."""

    def __init__(self, p: int, q: int) -> None:
        self._table = np.empty((0, p + q + 1))
        self._p = p
        self._alive = np.empty(0, dtype=bool)
        self._keys: list[Hashable] = []
        self._slots: dict[Hashable, list[int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without the dictionary by keys, which formats that write JSON, such as skops, refuse."""
        return {name: value for name, value in self.__dict__.items() if name != "_slots"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._index_slots()

    def _index_slots(self) -> None:
        """Find the slots of the samples of each key."""
        self._slots = {}
        for slot, key in enumerate(self._keys):
            if self._alive[slot]:
                self._slots.setdefault(key, []).append(slot)

    def rows(self, slots: Sequence[int] | None = None) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return design rows, targets and weights of the samples in some slots, by default of all with a weight."""
        size = len(self._keys)
        if slots is None:
            table = self._table[:size][self._alive[:size] & (self._table[:size, -1] > 0)]
        else:
            table = self._table[list(slots)]
        return table[:, : self._p], table[:, self._p : -1], table[:, -1]

    def n_weighted(self, slots: Sequence[int]) -> int:
        """Number of the samples in some slots that have a positive weight."""
        return int(np.count_nonzero(self._table[list(slots), -1]))

    def add(self, keys: Sequence[Hashable], G: NDArray[Any], Y: NDArray[Any], weights: NDArray[Any]) -> None:
        """Append samples; a full table is compacted and its capacity doubled, amortised O(1) per sample."""
        if len(self._keys) + len(keys) > len(self._table):
            kept = np.flatnonzero(self._alive[: len(self._keys)])
            capacity = 2 * (len(kept) + len(keys))
            table, alive = np.empty((capacity, self._table.shape[1])), np.zeros(capacity, dtype=bool)
            table[: len(kept)], alive[: len(kept)] = self._table[kept], True
            self._table, self._alive = table, alive
            self._keys = [self._keys[slot] for slot in kept]
            self._index_slots()
        start = len(self._keys)
        end = start + len(keys)
        self._table[start:end] = np.hstack([G, Y, weights[:, None]])
        self._alive[start:end] = True
        self._keys.extend(keys)
        for slot, key in enumerate(keys, start):
            self._slots.setdefault(key, []).append(slot)

    def find(self, keys: Sequence[Hashable]) -> list[int]:
        """Return the slots of samples, the latest of equal ones first; KeyError has the position of one missing."""
        found: list[int] = []
        taken: dict[Hashable, int] = {}
        for position, key in enumerate(keys):
            slots = self._slots.get(key, [])
            taken[key] = taken.get(key, 0) + 1
            if taken[key] > len(slots):
                raise KeyError(position)
            found.append(slots[-taken[key]])
        return found

    def discard(self, slots: Sequence[int]) -> None:
        """Remove samples."""
        for slot in slots:
            key = self._keys[slot]
            self._slots[key].remove(slot)
            if not self._slots[key]:
                del self._slots[key]
        self._alive[list(slots)] = False


def sample_keys(X: Any, Y: NDArray[Any]) -> list[Hashable]:
    """One hashable value per sample: the bytes of numbers, the items of anything else."""
    table = np.asarray(X)
    if np.issubdtype(table.dtype, np.number) or table.dtype == bool:
        table = np.hstack([table.astype(np.float64), Y]) + 0.0  # -0 and 0 are the same value
        return [row.tobytes() for row in table]
    return [(tuple(row), target.tobytes()) for row, target in zip(table, Y + 0.0, strict=True)]
