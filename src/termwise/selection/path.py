"""The path of a forward selection: one row per step with every criterion, and how many terms to keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray
from scipy.special import chdtri, erfcinv

from termwise._arrays import Array, from_host, is_foreign
from termwise._checks import check_choice, check_number, import_optional, is_one_of, warn
from termwise.linalg.criteria import CRITERIA

Floats = NDArray[np.float64]

LOOK_AHEAD = 10  # terms that `tcr_sequential` tests at a time


@dataclass(frozen=True)
class Step:
    """One row of the path: the model after a term was added. Row 0 is the model without terms."""

    term: int  # the candidate added, -1 in row 0
    score: float  # of the rule
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
    reduction: float  # of the regularised cost, Orr (7.7)
    correlation: float  # mean squared, of the term with other candidates given the model before; nan until computed
    verified: int  # candidates verified exactly
    seconds: float  # since the start


@dataclass(frozen=True)
class ModelRows:
    """The columns of the model and the targets on all rows, both scaled by the roots of the sample weights."""

    Z: Array  # (n, k)
    Y: Array
    sample_weight: Array
    ones: Array  # column of ones, scaled as well


@dataclass(frozen=True)
class CondensedRows(ModelRows):
    """Many rows on a cluster, rotated by an orthogonal matrix until all but a few are zero.

    All products of Z and Y are as they were, and so is everything that depends on the data through them. No row is a
    sample any more: leave-one-out cannot be computed from these, and of the weights only the sum has a meaning.
    """


@dataclass(frozen=True)
class Training:
    """The chosen columns, centred and with scaled rows, and their means: the least-squares problem of any size.

    Weights come from the factors alone; what is as long as the rows is None where only weights are needed.
    """

    R: Floats  # (k, k); the columns are Z R
    G_mean: Floats
    Y_mean: Floats
    zy: Floats  # (k, q), right-hand side of `R w = zy`
    rows: Any = None  # `ModelRows`, those of the intercept and the mean included
    Z: Array = None  # (n, k), columns of the model
    Y: Array = None  # (n, q), targets less their mean where there is an intercept
    sample_weight: Array = None
    by_size: Mapping[int, tuple[Floats, Floats]] = field(default_factory=dict)  # weights under former penalties

    def weights(self, k: int) -> tuple[Floats, Floats]:
        """Return the weights of the first k terms, (k, q), and the intercept, (q,)."""
        if k in self.by_size:
            return self.by_size[k]
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
        Number of samples: the sum of their weights.
    n_candidates : int
        Number of candidates.
    fit_intercept : bool
        Whether the models have an intercept.
    one_output : bool
        Whether the targets were one-dimensional, as weights then are.
    n_swaps : int
        Number of terms exchanged by `refine="swap"`. If there are any, the path ends at the size that was refined.
    unresolved : ndarray of int
        Candidates that vary by hardly more than the rounding of their entries, or by less; the latter are not used.
    refit_alphas : ndarray of shape (k + 1,) or None
        Penalties of the final weights at every size, where cross-validation has chosen them.
    training : Training
        The chosen columns and the targets: the least-squares problem of any size, once the path has ended.

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
    n_swaps: int = 0
    refit_alphas: Floats | None = None
    unresolved: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    training: Training = field(init=False, repr=False, compare=False)

    criteria: ClassVar[tuple[str, ...]] = tuple(CRITERIA)  # with a value at every size
    term_dof = 1  # degrees of freedom of a reduction
    error_name = "squared error"  # that "loo" estimates

    @property
    def size_criteria(self) -> tuple[str, ...]:
        """Names of the criteria for the size."""
        return tuple(SIZE_CRITERIA)

    def __len__(self) -> int:
        """Number of terms at the end of the path."""
        return len(self.steps) - 1

    @property
    def terms(self) -> NDArray[np.intp]:
        """The chosen candidates, in order."""
        return np.array([step.term for step in self.steps[1:]], dtype=np.intp)

    def column(self, name: str) -> Floats:
        """Return one quantity along the path, row 0 first.

        Parameters
        ----------
        name : str
            A field of `Step`, such as "loo".
        """
        return np.array([getattr(step, name) for step in self.steps])

    def coef(self, k: int) -> tuple[Floats, Any]:
        """Return the weights of the first k terms, in the order of the path, and the intercept.

        Parameters
        ----------
        k : int
            Number of terms, at most `len(path)`.
        """
        check_number("k", k, low=0, below=len(self) + 1, integer=True, remedy=f"the path has {len(self)} terms")
        w, intercept = self.training.weights(k)
        rows = self.training.rows
        if rows is not None and is_foreign(rows.Y):
            w, intercept = from_host(w, rows.Y), from_host(intercept, rows.Y)
        return (w[:, 0], float(intercept[0])) if self.one_output else (w.T, intercept)

    def choose(self, criterion: str | None) -> int:
        """Return how many terms a criterion keeps.

        Parameters
        ----------
        criterion : {"loo", "gcv", "uev", "fpe", "bic", "one_se", "tcr", "tcr_paper", "tcr_sequential"} or None
            None keeps all.
        """
        criterion = check_criterion(criterion)
        return len(self) if criterion is None else SIZE_CRITERIA[criterion](self)

    def noise_level(self, size: int) -> float:
        """Noise variance that the reductions of further terms are compared with: see `significant_terms`.

        Parameters
        ----------
        size : int
            Number of leading terms assumed correct.
        """
        return float(np.min(self.column("loo")[size:] * np.exp(search_effect(self, size))))

    def to_frame(self) -> Any:
        """Return the path as a pandas data frame, one row per step."""
        pandas = import_optional("pandas", "cli", "to_frame")
        return pandas.DataFrame([vars(step) for step in self.steps])


# -- how many terms to keep --------------------------------------------------------------------------------------------


def fewest_terms(path: SelectionPath) -> int:
    """Fewest terms that a criterion keeps: one without an intercept, unless the path has none."""
    return 0 if path.fit_intercept else min(1, len(path))


def smallest_value(name: str, path: SelectionPath) -> int:
    """Size with the smallest value of a criterion."""
    first = fewest_terms(path)
    return first + int(np.argmin(path.column(name)[first:]))


def one_se(path: SelectionPath) -> int:
    """Smallest size whose leave-one-out error is within one standard error of the minimum.

    It is OSER of Hagiwara 2014, section 4.1.
    """
    best, error, first = smallest_value("loo", path), path.column("loo"), fewest_terms(path)
    limit = error[best] + path.column("loo_se")[best]
    return first + int(np.argmax(error[first:] <= limit))


def null_reductions(path: SelectionPath) -> Floats:
    """Bound on the cost reduction that noise of variance one brings to terms 1, 2, ...: Hagiwara 2014 (28).

    Term k is the best of `p - k + 1` candidates: under pure noise `|c| / sqrt(den)` stays below
    `sigma sqrt(2 log(p - k + 1))`; the paper, whose functions are on the samples, counts n - k + 1. For terms with
    several weights the quantile of the chi-squared distribution exceeds that of one degree of freedom by as much.
    """
    k = np.arange(1, len(path) + 1)
    left = np.maximum(path.n_candidates - k + 1, 1)
    more = 0.0 if path.term_dof == 1 else chdtri(path.term_dof, 1 / (left + 1)) - chdtri(1, 1 / (left + 1))
    return 2 * np.log(left) + more


def search_effect(path: SelectionPath, size: int) -> Floats:
    """Optimism of the search: how much it lowers the log of the leave-one-out error after `size` terms of pure noise.

    One value per model from `size` terms on, the first zero. With `free = n - dof` residual degrees of freedom the
    r-th largest of m independent cost reductions is about `sigma^2 a`, where `P(chi^2_1 > a) = (r - 0.4) / (m + 0.2)`.
    Choosing it lowers the logarithm of the error by `a / free`, less `2 / free` for the leverages.

    The p candidates that are left count as `m = p / (1 + p (C - C0))` independent ones, C being the mean squared
    correlation of the chosen term with the others and C0 that of independent columns, `1 / free` and two standard
    errors `sqrt(2 / p) / free`. The first term is the largest, r = 1. Each further one would be the next largest if the
    candidates were orthogonal. As they are not, the reductions change with every term, by a variance of C a relative to
    `sigma^2`, so that others come near the largest: `r <- 1 + r / (1 + a^2 C)` agrees with the reductions on simulated
    noise within about a sixth (200 samples, 50 to 2,000 candidates, 30 terms).
    """
    dof, correlation = path.column("dof").tolist(), path.column("correlation").tolist()
    rank, optimism, along = 1.0, 0.0, [0.0]
    for k in range(size, len(path)):
        free, left = max(path.n_samples - dof[k], 1.0), path.n_candidates - k
        C = max(correlation[k + 1], 1 / free)
        excess = max(C - (1 + 2 * np.sqrt(2 / left)) / free, 0.0)
        independent = left / (1 + left * excess)
        a = 2 * float(erfcinv(min((rank - 0.4) / (independent + 0.2), 1.0))) ** 2
        optimism += (a - 2) / free
        along.append(optimism)
        rank = 1 + rank / (1 + a * a * C)
    return np.array(along)


def included_terms(path: SelectionPath) -> int:
    """Number of terms of `include` on the path: those it begins with, which have no score."""
    return sum(1 for _ in takewhile(lambda step: np.isnan(step.score), path.steps[1:]))


def significant_terms(path: SelectionPath) -> tuple[int, float]:
    """Number of terms that `tcr` keeps, and the noise level that the terms after them were tested with.

    The noise level of a model of `size` terms is the least leave-one-out error of the models from there on, each
    corrected for the search that led to it. Terms up to the leave-one-out minimum are tested, the model is extended to
    the last significant one, and so on until none is. Terms of `include`, which have no score, were not searched.
    """
    reduction, null = path.column("reduction"), np.append(0.0, null_reductions(path))
    best, size = smallest_value("loo", path), included_terms(path)
    while True:
        noise = path.noise_level(size)
        significant = np.flatnonzero(reduction[size + 1 : best + 1] >= noise * null[size + 1 : best + 1])
        if not len(significant):
            return size, noise
        size += int(significant[-1]) + 1


def tcr_thresholds(path: SelectionPath) -> Floats:
    """Cost reductions that terms 1, 2, ... must reach, with the noise level of the last test of `tcr`."""
    return significant_terms(path)[1] * null_reductions(path)


def tcr(path: SelectionPath) -> int:
    """Last significant term, as `tcr_paper`, with a noise level that does not fall with the search."""
    return max(significant_terms(path)[0], fewest_terms(path))


def tcr_paper(path: SelectionPath) -> int:
    """Last term, up to the leave-one-out minimum, whose cost reduction is significant (Hagiwara 2014, section 3.3).

    The noise variance is the least mean leave-one-out error, Hagiwara 2014 (30) divided by n: the paper prints the sum.
    It counts n - k + 1 candidates, `null_reductions` p - k + 1.
    """
    best = smallest_value("loo", path)
    thresholds = path.steps[best].loo * null_reductions(path)
    significant = np.flatnonzero(path.column("reduction")[1 : best + 1] >= thresholds[:best])
    return int(significant[-1]) + 1 if len(significant) else fewest_terms(path)


def tcr_sequential(path: SelectionPath) -> int:
    """As `tcr`, with `sigma^2` the leave-one-out error of the model before the terms in question.

    With many more candidates than samples the best one fits some of the noise every time: leave-one-out falls with
    every term, and its minimum along the path underestimates the noise. Here the next few terms are tested with the
    error of the model so far, which is extended to the last significant one of them, until none is. Terms of `include`
    are in every model and are not tested.
    """
    size, error, reduction = included_terms(path), path.column("loo"), path.column("reduction")
    null = np.append(0.0, null_reductions(path))
    while True:
        ahead = slice(size + 1, size + 1 + LOOK_AHEAD)
        significant = np.flatnonzero(reduction[ahead] >= error[size] * null[ahead])
        if not len(significant):
            return max(size, fewest_terms(path))
        size += int(significant[-1]) + 1


SIZE_CRITERIA: dict[str, Callable[[SelectionPath], int]] = {
    **{name: partial(smallest_value, name) for name in CRITERIA},
    "one_se": one_se,
    "tcr": tcr,
    "tcr_paper": tcr_paper,
    "tcr_sequential": tcr_sequential,
}


def check_criterion(criterion: Any, others: Sequence[str] = ()) -> str | None:
    """Return the name of a criterion for the size, or None; raise unless there is one, or it is one of the others."""
    if is_one_of(criterion, "tcr_effective"):
        warn(
            "criterion='tcr_effective' is deprecated and means 'tcr': use 'tcr', or 'loo' to keep more terms.",
            FutureWarning,
        )
        return "tcr"
    if criterion is None:
        return None
    return check_choice("criterion", criterion, [*SIZE_CRITERIA, *others], remedy="None keeps every term")
