"""`TermwiseRegressor` and `TermwiseClassifier`: the recipe, nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import MultiOutputMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from termwise._arrays import as_columns, evenly
from termwise._checks import check_choice, check_number
from termwise.basis import Basis, TableEncoder, take
from termwise.basis._scale import Scale
from termwise.basis.table import is_frame
from termwise.flagship.dictionaries import DICTIONARIES, dictionaries
from termwise.flagship.honest import Trial, choose, folded, merged, out_of_fold
from termwise.forward import ForwardModel
from termwise.labels import LabelModel
from termwise.selection.engine import Settings, grow

Floats = NDArray[np.float64]

FOLDS = 5
FIRST_LOOK = 40  # terms tried at first; only a dictionary that is still improving there is tried further
SMALL = 0.5  # standard errors of the difference by which a smaller model may be worse
CHOICE_ROWS = 4000  # samples the dictionary and the size are chosen on
PATH_ROWS = 20_000  # samples the terms are chosen on
MOST_CENTERS = 1000  # Gaussians, for up to a few thousand samples; more samples add to them slowly
SHARPNESS = (-5.0, 5.0)  # range of the logarithm of what scores are scaled by to be odds
BEYOND = 10  # terms the path goes on after the size chosen, for `at`


class TermwiseModel(ForwardModel):
    """What the regressor and the classifier share."""

    # the recipe: ForwardModel reads these where its other children have parameters
    rule = "loo"
    criterion = None
    alpha = 1e-6
    refit_alpha = "loo"
    penalty = "weights"
    fit_intercept = True
    max_terms: int
    _automatic: Any
    _wanted: int

    def __init__(
        self,
        size: str | int = "small",
        *,
        dictionary: str = "auto",
        max_terms: int = 150,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        self.size = size
        self.dictionary = dictionary
        self.max_terms = max_terms
        self.random_state = random_state
        self.verbose = verbose

    def _remarks(self) -> list[str]:
        tried = ", ".join(f"{name} {curve.min():.3g}" for name, curve in self.trials_.items())
        lines = [f"dictionary: {self.dictionary_}; cross-validated error, a share of the variance: {tried}"]
        if self.categories_:
            known = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in self.categories_.items())
            lines.append(f"categories, a column of 0 and 1 each: {known}")
        return lines

    # -- choosing ------------------------------------------------------------------------------------------------------

    def _check_params(self) -> None:
        check_number("max_terms", self.max_terms, low=1, integer=True, remedy="150 is plenty for a small model")
        if isinstance(self.size, str):
            check_choice("size", self.size, ["small", "accurate"], remedy="or give the number of terms")
        else:
            remedy = "'small', 'accurate', or a number up to max_terms"
            check_number("size", self.size, low=1, below=self.max_terms + 1, integer=True, remedy=remedy)
        check_choice("dictionary", self.dictionary, ["auto", *DICTIONARIES], remedy="'auto' tries them all")
        check_number("verbose", self.verbose, low=0, integer=True, remedy="0 is silent, 1 reports what is tried")

    def _most_steps(self) -> None:
        return None

    def _settings(self) -> Settings:
        return self._limited(self._wanted + BEYOND)

    def _limited(self, max_terms: int) -> Settings:
        return Settings(self.rule, self.alpha, max_terms=max(1, max_terms))

    def _size(self) -> int:
        return min(self._wanted, len(self.path_))

    def _prototype(self) -> Any:
        return getattr(self, "_automatic", TableEncoder())

    def _prepare(self, X: Any, y: NDArray, counts: Floats) -> None:
        """Read the table, then choose a dictionary and a size."""
        used = np.flatnonzero(counts > 0)
        encoder = TableEncoder().fit(rows_of(X, used) if is_frame(X) else X)
        self.categories_ = encoder.categories_
        table = encoder.transform(X)[used].astype(np.float64)
        Scale.of(table).check()  # all constant: say so now, of all samples
        table, Y, counts = merged(table, as_columns(y)[used], counts[used])
        centers, rows = number_of_centers(len(table)), evenly(len(table), CHOICE_ROWS)
        table, Y, counts = table[rows], Y[rows], counts[rows]
        # repeats would vouch for each other: for the width, a sample counts once
        candidates = dictionaries(table, Y, np.minimum(1, counts), centers, self.dictionary)
        data = folded(table, Y, counts, FOLDS, check_random_state(self.random_state))
        trials = [self._try(name, basis, FIRST_LOOK, *data) for name, basis in candidates.items()]
        self.dictionary_, self._wanted = choose(trials, self.size, SMALL)
        trials = [self._try_further(trial, candidates, *data) for trial in trials]
        self.dictionary_, self._wanted = choose(trials, self.size, SMALL)
        self.trials_ = {trial.name: trial.errors for trial in trials}
        basis = candidates[self.dictionary_]
        self._automatic = Pipeline([("table", TableEncoder()), ("terms", basis)]) if is_frame(X) else basis

    def _try(
        self, name: str, basis: Basis, most: int, X: Floats, Y: Floats, counts: Floats, fold: NDArray[np.intp]
    ) -> Trial:
        """Cross-validate a dictionary at every size."""
        settings = self._limited(min(most, self.max_terms, int(counts.sum()) // 3))
        scores = out_of_fold(basis, X, Y, counts, fold, settings)
        share = counts / counts.sum()
        variance = np.maximum(share @ (Y - share @ Y) ** 2, np.finfo(np.float64).tiny)
        trial = Trial(name, np.mean((Y - scores) ** 2 / variance, axis=2), share, float(counts.sum()))
        if self.verbose:
            best = int(trial.errors.argmin())
            print(f"{name:<9} cross-validated error {trial.errors[best]:.4g} of the variance with {best} terms")
        self._after_step()
        return trial

    def _try_further(self, trial: Trial, candidates: dict[str, Basis], *data: Any) -> Trial:
        """Give the dictionary chosen more terms if it was still improving with the last ones."""
        settled = self._wanted < 0.8 * FIRST_LOOK or self.max_terms <= FIRST_LOOK
        if trial.name != self.dictionary_ or settled:
            return trial
        return self._try(trial.name, candidates[trial.name], self.max_terms, *data)

    def _fit_design(self, X: Any, y: NDArray, counts: Floats, min_samples: int = 2) -> NDArray:
        """Make the candidates; of many samples, some decide which candidates are worth evaluating on all."""
        rows = np.flatnonzero(counts)
        if len(rows) <= PATH_ROWS:
            return super()._fit_design(X, y, counts, min_samples)
        some = rows[evenly(len(rows), PATH_ROWS)]
        part = rows_of(X, some)
        fitted = clone(self._prototype()).fit(part)
        path = grow(fitted.transform(part), as_columns(y)[some], counts[some], self._settings(), one_output=False)
        self.basis_ = take(fitted, np.sort(path.terms))
        return self._check_design(self.basis_.transform(X), min_samples)


def rows_of(X: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of an array or a frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def number_of_centers(n: int) -> int:
    """Gaussians for n samples: all of them at first, then more only slowly."""
    return n if n <= MOST_CENTERS else int(MOST_CENTERS * (n / MOST_CENTERS) ** 0.2)


class TermwiseRegressor(MultiOutputMixin, RegressorMixin, TermwiseModel):
    """A small regression model from a table, with nothing to tune.

    Standardises the inputs, tries dictionaries of candidate terms from plain columns to products of two and Gaussians,
    chooses terms one by one by exact leave-one-out, and sets their penalty by leave-one-out. Which dictionary, and how
    many terms, is decided by cross-validation that repeats every choice, so that no choice is judged by the samples it
    was made on.

    Parameters
    ----------
    size : {"small", "accurate"} or int, default="small"
        How many terms: as few as are about as good as the best, as many as are best, or that many, if the
        dictionary has them.
    dictionary : {"auto", "linear", "additive", "pairs", "smooth"}, default="auto"
        Candidates: the inputs themselves; bumps of single inputs; products of two of those; Gaussians of all inputs
        and the inputs themselves. "auto" tries them all.
    max_terms : int, default=150
        Most terms; a `size` that is a number must not be larger.
    random_state : int, RandomState instance or None, default=0
        Draws the folds.
    verbose : int, default=0
        1 prints what is tried and a line per term.

    Attributes
    ----------
    dictionary_ : str
        The dictionary chosen.
    trials_ : dict
        For each dictionary tried, the cross-validated error with 0, 1, 2, ... terms, as a share of the variance.
    categories_ : dict
        The categories of each categorical column.
    support_, weights_, n_terms_, coef_, path_, alpha_, intercept_, basis_, effective_dof_, noise_variance_
        As in `ForwardRegressor`.
    criterion_value_, criteria_, loo_residuals_, weights_cov_
        As in `BasisRidge`; of the chosen terms, so that `trials_` is the honest estimate of the error.

    See Also
    --------
    ForwardRegressor : The same selection with a basis, a rule and a criterion of one's own.

    Notes
    -----
    Columns of a categorical type in pandas and polars frames become one column of 0 and 1 per category; missing values
    are an error that names the columns. With more than 4,000 samples the dictionary and the size are chosen on 4,000
    of them; with more than 20,000 the terms are chosen on 20,000. The weights always rest on all samples.

    Samples with equal inputs are left out together in cross-validation, so that repeats do not vouch for each other;
    only where there are fewer than 50 different inputs are they told apart by their targets as well.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import TermwiseRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = TermwiseRegressor().fit(X, y)
    >>> model.n_terms_ < 10
    True
    >>> lower, upper = model.predict_interval(X, coverage=0.9)
    """


class TermwiseClassifier(LabelModel, TermwiseModel):
    """A small classifier from a table, with nothing to tune.

    As `TermwiseRegressor`, on labels coded -1 and +1 (one column per class for more than two).

    Parameters
    ----------
    size : {"small", "accurate"} or int, default="small"
        How many terms: as few as are about as good as the best, as many as are best, or that many, if the
        dictionary has them.
    dictionary : {"auto", "linear", "additive", "pairs", "smooth"}, default="auto"
        Candidates; see `TermwiseRegressor`.
    max_terms : int, default=150
        Most terms; a `size` that is a number must not be larger.
    random_state : int, RandomState instance or None, default=0
        Draws the folds.
    verbose : int, default=0
        1 prints what is tried and a line per term.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    dictionary_, trials_, categories_
        As in `TermwiseRegressor`.
    support_, weights_, n_terms_, coef_, path_, alpha_, intercept_, basis_
        As in `ForwardClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from termwise import TermwiseClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = TermwiseClassifier(dictionary="additive").fit(X, y)
    >>> model.n_terms_ < 40
    True
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    _sharpness: float

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class.

        The scores, scaled by one number and put through a logistic curve (a softmax for more than two classes). The
        number is the one under which the leave-one-out scores, of samples the weights have not seen, say most about
        the labels. The most probable class is the one predicted.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Inputs.
        """
        scores = self.decision_function(X)
        return softmax(self._sharpness * two_sided(scores), axis=1)

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Inputs.
        """
        scores = self.decision_function(X)
        return log_softmax(self._sharpness * two_sided(scores), axis=1)

    def _cut(self, k: int) -> None:
        super()._cut(k)
        data = self.path_.training()
        labels = data.Y / np.sqrt(data.counts)[:, None] + data.Y_mean
        scores = two_sided((labels - as_columns(self.loo_residuals_)).squeeze())
        truth = two_sided(labels.squeeze()) > 0

        def surprise(log_sharpness: float) -> float:
            return -float(data.counts @ log_softmax(np.exp(log_sharpness) * scores, axis=1)[truth])

        self._sharpness = float(np.exp(minimize_scalar(surprise, bounds=SHARPNESS, method="bounded").x))


def two_sided(scores: NDArray) -> NDArray:
    """Scores of all classes, one column each; a single column is for the second class and against the first."""
    return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
