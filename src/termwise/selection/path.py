"""The record of a selection: one row per step, every criterion along it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from termwise._arrays import Array, from_host, is_foreign
from termwise._checks import check_number, import_optional
from termwise.linalg.criteria import CRITERIA

STRETCH = 10  # terms that `tcr_sequential` looks ahead


@dataclass(frozen=True)
class Step:
    """One row of the path: the model after a term was added. Row 0 is the model without terms."""

    term: int  # the candidate added, -1 in row 0
    score: float  # what the rule gave it
    sse: float
    cost: float
    dof: float
    alpha: float
    loo: float
    loo_se: float  # standard error of loo
    gcv: float
    uev: float
    fpe: float
    bic: float
    reduction: float  # drop of the cost the term brought
    verified: int  # candidates verified exactly
    seconds: float  # since the start


@dataclass(frozen=True)
class ModelRows:
    """What is as long as the rows: the columns of the model, and the targets, both scaled."""

    Z: Array  # (n, k)
    Y: Array
    counts: Array

    @property
    def root(self) -> Array:
        """Scaled column of ones."""
        return self.counts**0.5


@dataclass(frozen=True)
class CondensedRows(ModelRows):
    """Rows that are far away and many, turned by an orthogonal matrix until all but a few are zero.

    All products of Z and Y are as they were, and so is everything that depends on the data through them. No row is a
    sample any more: leave-one-out cannot be had from these, and of the counts only their sum means something.
    """

    @property
    def root(self) -> NDArray[np.float64]:
        """Turned column of ones, where there is an intercept: the first of Z, longer."""
        return np.sqrt(self.counts.sum()) * self.Z[:, 0]


@dataclass(frozen=True)
class Training:
    """The chosen columns, centred and with scaled rows, and what was taken off: enough to pose any size again.

    Weights come from the factors alone; Z, Y and the counts are asked of `rows`, which may be far away.
    """

    R: NDArray[np.float64]  # (k, k); the columns are Z R
    G_mean: NDArray[np.float64]
    Y_mean: NDArray[np.float64]
    zy: NDArray[np.float64]  # (k, q), right-hand side of `R w = zy`
    rows: Any  # `ModelRows`, or what stands in for them
    intercept: int  # columns of the rows' Z that are not terms

    @property
    def Z(self) -> Array:
        """Columns of the model, (n, k), the intercept's left out."""
        return self.rows.Z[:, self.intercept :]

    @cached_property
    def Y(self) -> Array:
        """Targets, (n, q), less their mean where there is an intercept."""
        Y = self.rows.Y
        return Y - self.rows.root[:, None] * from_host(self.Y_mean, Y) if self.intercept else Y

    @property
    def counts(self) -> Array:
        """How often each sample counts."""
        return self.rows.counts

    def weights(self, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weights of the first k terms, (k, q), and the intercept, (q,)."""
        w = sla.solve_triangular(self.R[:k, :k], self.zy[:k])
        return w, self.Y_mean - self.G_mean[:k] @ w

    def columns(self, k: int) -> Array:
        """Return the first k columns."""
        return self.Z[:, :k] @ from_host(self.R[:k, :k], self.rows.Z)


@dataclass
class SelectionPath:
    """The path of a forward selection.

    Attributes
    ----------
    steps : list of Step
        One per size, row 0 the model without terms (the mean, with an intercept). Squared errors and criteria are
        averaged over the outputs.
    stop_reason : str
        Why the path ended.
    n_samples : float
        Number of samples, repetitions counted.
    n_candidates : int
        Number of candidates.
    fit_intercept : bool
        Whether the models have an intercept.
    n_different : float or None
        Number of effectively different candidates, if the path was grown for the criterion "tcr_effective".
    n_swaps : int
        Number of terms exchanged by `refine="swap"`. If there are any, the path ends at the size that was refined.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import forward_path
    >>> rng = np.random.default_rng(0)
    >>> G = rng.normal(size=(100, 20))
    >>> path = forward_path(G, G[:, 3] - 2 * G[:, 7] + 0.1 * rng.normal(size=100), max_terms=4)
    >>> path.terms[:2].tolist()
    [7, 3]
    >>> path.choose("tcr")
    2
    >>> w, intercept = path.coef(2)
    >>> w.round(1).tolist()
    [-2.0, 1.0]
    """

    n_samples: float
    n_candidates: int
    fit_intercept: bool
    one_output: bool
    steps: list[Step] = field(default_factory=list)
    stop_reason: str = ""
    n_different: float | None = None
    n_swaps: int = 0
    _weights: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=dict, repr=False)
    _training: Training | None = field(default=None, repr=False)

    def __len__(self) -> int:
        """Number of terms at the end of the path."""
        return len(self.steps) - 1

    @property
    def terms(self) -> NDArray[np.intp]:
        """The candidates in the order they were taken."""
        return np.array([step.term for step in self.steps[1:]], dtype=np.intp)

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one quantity along the path, row 0 first.

        Parameters
        ----------
        name : str
            A field of `Step`, such as "loo".
        """
        return np.array([getattr(step, name) for step in self.steps])

    def coef(self, k: int) -> tuple[NDArray[np.float64], Any]:
        """Return the weights of the first k terms, in the order they were taken, and the intercept.

        Parameters
        ----------
        k : int
            Number of terms, at most `len(path)`.
        """
        check_number("k", k, low=0, below=len(self) + 1, integer=True, remedy=f"the path has {len(self)} terms")
        w, intercept = self._weights[k] if k in self._weights else self.training().weights(k)
        rows = self.training().rows
        if rows is not None and is_foreign(rows.Y):
            w, intercept = from_host(w, rows.Y), from_host(intercept, rows.Y)
        return (w[:, 0], float(intercept[0])) if self.one_output else (w.T, intercept)

    def choose(self, criterion: str | None) -> int:
        """Return how many terms a criterion keeps.

        Parameters
        ----------
        criterion : {"loo", "gcv", "uev", "fpe", "bic", "one_se", "tcr", "tcr_effective", "tcr_sequential"} or None
            None keeps all. "tcr_effective" needs a path that was grown for it, which looks at the candidates.
        """
        return choose_size(self, criterion)

    def training(self) -> Training:
        """Return the chosen columns and the targets as the path has seen them, for posing any of its sizes again."""
        assert self._training is not None, "set when the path has ended"
        return self._training

    def to_frame(self) -> Any:
        """Return the path as a pandas data frame, one row per step."""
        pandas = import_optional("pandas", "cli", "to_frame")
        return pandas.DataFrame([vars(step) for step in self.steps])


def choose_size(path: SelectionPath, criterion: str | None) -> int:
    """Apply a criterion to a path: how many terms to keep."""
    if criterion is None:
        return len(path)
    return SIZES[criterion](path)


def _minimum(name: str) -> Any:
    def size(path: SelectionPath) -> int:
        first = 0 if path.fit_intercept else 1
        values = path.column(name)[first:]
        return first + int(np.argmin(values)) if len(values) else 0

    return size


def one_se(path: SelectionPath) -> int:
    """Smallest size whose leave-one-out error is within one standard error of the minimum."""
    best = _minimum("loo")(path)
    error, first = path.column("loo"), 0 if path.fit_intercept else 1
    limit = error[best] + path.column("loo_se")[best]
    return first + int(np.argmax(error[first:] <= limit)) if len(path) >= first else 0


def tcr(path: SelectionPath) -> int:
    """Last term, up to the leave-one-out minimum, whose cost reduction is significant (Hagiwara 2014, section 3.3).

    Term k was the best of `p - k + 1` candidates: pure noise would bring `|c| / sqrt(den)` below
    `sigma sqrt(2 log(p - k + 1))`, with `sigma^2` the leave-one-out error.
    """
    return _last_significant(path, path.n_candidates)


def tcr_effective(path: SelectionPath) -> int:
    """As `tcr`, for the number of candidates that are effectively different.

    The bound of `tcr` is for independent candidates. Neighbouring Gaussians are nearly the same candidate: the best of
    many brings noise hardly more than the best of few. Of the `p - k + 1` candidates term k was chosen from, the share
    `n_different / p` counts (see `different`).
    """
    if path.n_different is None:
        raise ValueError(
            "n_different must be known for the criterion 'tcr_effective', got None: grow the path with "
            "criterion='tcr_effective', which looks at the candidates."
        )
    return _last_significant(path, path.n_different)


def tcr_sequential(path: SelectionPath) -> int:
    """As `tcr`, with `sigma^2` the leave-one-out error of the model before the terms in question.

    Of many more candidates than samples the best one takes some of the noise with it every time: leave-one-out falls
    with every term, and its least value along the path says little of the noise. Here the next few terms are judged by
    the error of the model kept so far, which grows up to the last significant one of them, until none is.
    """
    size, error, reduction = 0, path.column("loo"), path.column("reduction")
    chances = np.append(0.0, luck(path, path.n_candidates))
    while True:
        ahead = slice(size + 1, size + 1 + STRETCH)
        significant = np.flatnonzero(reduction[ahead] >= error[size] * chances[ahead])
        if not len(significant):
            return max(size, _least(path))
        size += int(significant[-1]) + 1


def luck(path: SelectionPath, different: float) -> NDArray[np.float64]:
    """Cost reduction that noise of variance one brings to terms 1, 2, ... of a path: `2 log(p - k + 1)`.

    Term k is the best of `p - k + 1` candidates, of which as many count as are different.
    """
    k = np.arange(1, len(path) + 1)
    left = (path.n_candidates - k + 1) * (different / max(path.n_candidates, 1))
    return 2 * np.log(np.maximum(left, 1))


def noise_reductions(path: SelectionPath, different: float) -> NDArray[np.float64]:
    """Cost reduction that noise brings to terms 1, 2, ... of a path; its variance is the least leave-one-out error."""
    return path.steps[_minimum("loo")(path)].loo * luck(path, different)


def _last_significant(path: SelectionPath, different: float) -> int:
    """Size up to the last term that brings more than the best of the different candidates left brings by noise."""
    best = _minimum("loo")(path)
    noise = noise_reductions(path, different)[:best]
    significant = np.flatnonzero(path.column("reduction")[1 : best + 1] >= noise)
    return int(significant[-1]) + 1 if len(significant) else _least(path)


def _least(path: SelectionPath) -> int:
    """Fewest terms a model can have."""
    return 0 if path.fit_intercept else min(1, len(path))


SIZES = {name: _minimum(name) for name in CRITERIA} | {
    "one_se": one_se,
    "tcr": tcr,
    "tcr_effective": tcr_effective,
    "tcr_sequential": tcr_sequential,
}
