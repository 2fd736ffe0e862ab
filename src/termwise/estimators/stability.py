"""Stability of the selection: how often inputs and terms are selected on subsamples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length

from termwise._arrays import is_foreign, rows_of, to_host
from termwise._checks import check_choice, check_number, import_optional
from termwise.basis.base import Basis, last_step
from termwise.estimators.refits import check_rows, refit

Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class StabilityResult:
    """Selection frequencies on subsamples, returned by `stability`.

    Attributes
    ----------
    inputs : ndarray of shape (d,)
        Names of all inputs, in the order of the columns.
    input_frequency : ndarray of shape (d,)
        Share of the refits in which a selected term depends on the input.
    terms : ndarray of shape (m,)
        Names of the terms that were selected at least once, the most frequent first; for the functions of a basis,
        which differ between subsamples, the inputs that they depend on jointly.
    term_frequency : ndarray of shape (m,)
        Share of the refits in which the term was selected.
    n_terms : ndarray of shape (n_repeats,)
        Number of terms of each refit.
    n_samples : int
        Number of samples of each refit; the mean if they differ.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import ForwardRegressor, stability
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> y = X[:, 3] + rng.normal(size=200)
    >>> result = stability(ForwardRegressor(), X, y, n_repeats=10, random_state=0)
    >>> float(result.input_frequency[3])
    1.0
    """

    inputs: NDArray[np.object_]
    input_frequency: Floats
    terms: NDArray[np.object_]
    term_frequency: Floats
    n_terms: NDArray[np.intp]
    n_samples: int

    def to_frame(self, of: str = "terms") -> Any:
        """Return the frequencies as a pandas data frame.

        Parameters
        ----------
        of : {"terms", "inputs"}, default="terms"
            Frequencies of the terms, or of the inputs.
        """
        check_choice("of", of, ["terms", "inputs"])
        names, frequency = (self.inputs, self.input_frequency) if of == "inputs" else (self.terms, self.term_frequency)
        return import_optional("pandas", "cli", "to_frame").DataFrame({of[:-1]: names, "frequency": frequency})

    def summary(self, max_rows: int = 20) -> str:
        """Describe the result; the most frequent inputs and terms come first.

        Parameters
        ----------
        max_rows : int, default=20
            How many inputs and how many terms to list.
        """
        check_number("max_rows", max_rows, low=1, integer=True, remedy="list at least one row")
        low, middle, high = np.quantile(self.n_terms, [0, 0.5, 1])
        lines = [
            f"stability: {len(self.n_terms)} refits on {self.n_samples} samples each, {low:g} to {high:g} terms "
            f"(median {middle:g})"
        ]
        order = np.argsort(-self.input_frequency, kind="stable")
        order = order[self.input_frequency[order] > 0]
        tables = [("input", self.inputs[order], self.input_frequency[order])]
        if set(tables[0][1]) != set(self.terms):  # terms that are the inputs themselves are listed once
            tables.append(("term", self.terms, self.term_frequency))
        for kind, names, frequency in tables:
            shown = list(zip(names, frequency, strict=True))[:max_rows]
            width = max([len(kind), *(len(name) for name, _ in shown)])
            lines.append(f"{kind:<{width}}  selected in")
            lines += [f"{name:<{width}}  {share:>11.0%}" for name, share in shown]
            if len(names) > max_rows:
                lines.append(f"... and {len(names) - max_rows} more")
        return "\n".join(lines)

    __str__ = __repr__ = summary


def stability(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    n_repeats: int = 50,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> StabilityResult:
    """Refit an estimator on random halves of the samples and count how often each input and each term is selected.

    The halves are complementary pairs (Shah and Samworth 2013): the samples are split at random into two halves, and
    the estimator is refitted on both.

    Parameters
    ----------
    estimator : estimator of termwise, selector of scikit-learn, or a pipeline or search that ends in one
        Selects the terms, in every refit anew.
    X : array-like, sparse matrix or data frame of shape (n, d)
        Inputs.
    y : array-like of shape (n,) or (n, q)
        Targets, or classes, which are split in equal proportions.
    n_repeats : int, default=50
        Number of refits, two for each split.
    sample_weight : array-like of shape (n,), default=None
        Frequency weights.
    groups : array-like of shape (n,), default=None
        Samples of the same group stay in the same half.
    n_jobs : int, default=None
        Number of refits in parallel, as in joblib.
    random_state : int, RandomState instance or None, default=None
        Draws the splits.

    Returns
    -------
    result : StabilityResult
        Arrays `inputs`, `input_frequency`, `terms`, `term_frequency` and `n_terms`; `summary()`, which `print` shows,
        and `to_frame()`.

    See Also
    --------
    inference : Confidence intervals and p-values of selected terms.

    Notes
    -----
    A frequency is a property of the procedure, not the probability that an input is relevant: halves have less power
    than all samples, and of several correlated inputs each may be selected in some of the refits only. Inputs selected
    in most of the refits are hardly ever noise: among those selected in more than the share `t > 1/2`, the expected
    number of irrelevant ones is at most `q^2 / ((2 t - 1) d)` for q selected inputs per refit out of d, if irrelevant
    inputs are exchangeable (Meinshausen and Buhlmann 2010, theorem 1).

    A term depends on the inputs that its function is of; all columns of a category are one input. Transformers whose
    columns are not known one by one, such as PCA, depend on all their inputs.

    References
    ----------
    Meinshausen and Buhlmann, Stability selection, JRSS B 72, 2010. Shah and Samworth, Variable selection with error
    control: another look at stability selection, JRSS B 75, 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import ForwardRegressor, stability
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> result = stability(ForwardRegressor(), X, y, n_repeats=20, random_state=0)
    >>> list(result.terms[:2])
    ['bmi', 's5']
    """
    check_number("n_repeats", n_repeats, low=2, integer=True, remedy="50 is usual")
    X, weights = check_rows(X, y, sample_weight, "stability")
    y = to_host(y) if is_foreign(y) else y
    halves = complementary_halves(X.shape[0], n_repeats, groups, y if is_classifier(estimator) else None, random_state)
    refits = Parallel(n_jobs=n_jobs)(
        delayed(refit_half)(estimator, rows_of(X, rows), rows_of(y, rows), None if weights is None else weights[rows])
        for rows in halves
    )
    inputs = np.array(
        [str(name) for name in X.columns] if hasattr(X, "columns") else [f"x{j}" for j in range(X.shape[1])],
        dtype=object,
    )
    used = np.zeros(len(inputs))
    terms: Counter[str] = Counter()
    for names, sets in refits:
        used[sorted(set().union(*sets))] += 1
        labels = [", ".join(inputs[list(one)]) for one in sets] if names is None else names
        terms.update(set(labels))
    ordered = sorted(terms.items(), key=lambda item: (-item[1], item[0]))
    return StabilityResult(
        inputs=inputs,
        input_frequency=used / n_repeats,
        terms=np.array([name for name, _ in ordered], dtype=object),
        term_frequency=np.array([count for _, count in ordered], dtype=np.float64) / n_repeats,
        n_terms=np.array([len(sets) for _, sets in refits]),
        n_samples=round(float(np.mean([len(rows) for rows in halves]))),
    )


def complementary_halves(
    n: int, n_repeats: int, groups: Any, classes: Any, random_state: Any
) -> list[NDArray[np.intp]]:
    """Return the rows of each half, in ascending order: two complementary ones for every split.

    Samples are ordered at random within each class and dealt out alternately, so that the halves have the classes in
    equal proportions; with groups, it is the groups that are dealt out.
    """
    rng = check_random_state(random_state)
    units = np.arange(n)
    if groups is not None:
        check_consistent_length(groups, units)
        units = np.unique(np.asarray(groups), return_inverse=True)[1]
        classes = None
    n_units = int(units.max()) + 1
    if n_units < 2:
        raise ValueError(f"groups must have at least two values to be split, got {n_units}: leave it out.")
    strata = np.zeros(n_units) if classes is None else np.unique(np.asarray(classes), return_inverse=True)[1]
    halves: list[NDArray[np.intp]] = []
    while len(halves) < n_repeats:
        order = rng.permutation(n_units)
        order = order[np.argsort(strata[order], kind="stable")]
        second = np.zeros(n_units, dtype=bool)
        second[order[1::2]] = True
        halves += [np.flatnonzero(~second[units]), np.flatnonzero(second[units])]
    return halves[:n_repeats]


def refit_half(
    estimator: Any, X: Any, y: Any, weights: Floats | None
) -> tuple[list[str] | None, list[tuple[int, ...]]]:
    """Return the names of the selected terms and their inputs.

    The functions of a basis of termwise, which are placed by the samples it is fitted to, have no names to be counted.
    """
    selected = refit(estimator, X, y, weights)
    basis = getattr(selected.model, "basis_", None)
    placed = isinstance(last_step(basis), Basis)
    return None if placed else selected.names, selected.inputs()
