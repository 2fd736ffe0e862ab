"""`TermwiseRegressor` and `TermwiseClassifier`: the recipe, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import MultiOutputMixin, RegressorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from termwise._arrays import as_columns, evenly, rows_of
from termwise._checks import check_choice, check_number
from termwise.basis import Basis, TableEncoder, evaluate, take
from termwise.basis._scale import Scale
from termwise.basis.table import is_frame
from termwise.design import EVERY, Design
from termwise.flagship.dictionaries import DICTIONARIES, dictionaries
from termwise.flagship.honest import (
    Folded,
    Trial,
    choose,
    choose_for_labels,
    contenders,
    folded,
    merged,
    out_of_fold,
)
from termwise.flagship.smoothing import RidgeStage
from termwise.forward import ForwardModel
from termwise.labels import LabelModel, misclassified
from termwise.selection.engine import Settings, grow
from termwise.solution import Problem, Rows, measure, solve_penalised
from termwise.two_stages import leave_one_out_scores

Floats = NDArray[np.float64]

FOLDS = 5
REPEATS, REPEAT_ROWS = 2, 1500  # few samples are folded several times, until so many have been predicted
BEATEN = 3.0  # standard errors of the difference after which a dictionary is not tried again
FIRST_LOOK = 40  # terms tried at first, or fewer of few samples
STILL = 0.9  # share of the terms tried from which on a size chosen asks for more
RIDGE_ROWS = 1200  # samples up to which the ridge fit to all candidates is an aim
SMALL = 0.5, 0.01  # a smaller model may be worse by so many standard errors, or by this share of the error
PLAUSIBLE = 2.0  # of labels, only models whose squared error is within so many standard errors of the least compete
FEWER = 0.1  # standard errors by which a smaller model's error rate may be above the smallest
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
    _aims: ClassVar[list[str]] = ["data", "ridge"]
    _automatic: Any
    _wanted: int
    _stage: RidgeStage | None

    def __init__(
        self,
        size: str | int = "small",
        *,
        dictionary: str = "auto",
        target: str = "auto",
        max_terms: int = 150,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        self.size = size
        self.dictionary = dictionary
        self.target = target
        self.max_terms = max_terms
        self.random_state = random_state
        self.verbose = verbose

    def _remarks(self) -> list[str]:
        tried = "; ".join(f"{title} {curve.min():.3g}" for title, curve in self.trials_.items())
        aim = "" if self.target_ == "data" else ", aimed at the ridge fit to all its candidates"
        lines = [f"dictionary: {self.dictionary_}{aim}", f"cross-validated error, a share of the variance: {tried}"]
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
        check_choice("target", self.target, ["auto", "data", "ridge"], remedy="'auto' tries both")
        check_number("verbose", self.verbose, low=0, integer=True, remedy="0 is silent, 1 reports what is tried")

    def _most_steps(self) -> None:
        return None

    def _settings(self) -> Settings:
        settings = self._limited(self._wanted + BEYOND)
        return settings if self.target_ == "data" else replace(settings, rule="cost")

    def _solve(self, G: Any, Y: NDArray, counts: Floats) -> None:
        if self.target_ == "ridge" and isinstance(G, Design):
            G = G.columns(EVERY)
        self._stage = RidgeStage.of(G, Y, counts) if self.target_ == "ridge" else None
        super()._solve(G, Y if self._stage is None else self._stage.signal, counts)

    def _cut(self, k: int) -> None:
        if self._stage is None:
            super()._cut(k)
            return
        data, rows = self.path_.training(), Rows(self.path_.training().counts, True)
        problem = Problem(data.columns(k), data.Y, rows, data.G_mean[:k], data.Y_mean, owned=True)
        self.alpha_ = self.path_.steps[k].alpha
        second = solve_penalised(problem, np.arange(k), np.full(k, self.alpha_))
        solution = self._stage.followed_by(second, problem, leave_one_out_scores(self._stage, data, rows)[k])
        self._settle(problem, solution, self.path_.terms[:k], problem.G_mean, measure(rows, solution), "loo")

    def _limited(self, max_terms: int) -> Settings:
        return Settings(self.rule, self.alpha, max_terms=max(1, max_terms))

    def _size(self) -> int:
        return min(self._wanted, len(self.path_))

    def _prototype(self) -> Any:
        return getattr(self, "_automatic", TableEncoder())

    def _prepare(self, X: Any, y: NDArray, counts: Floats) -> None:
        """Read the table, then choose a dictionary, what to aim at, and a size."""
        used = np.flatnonzero(counts > 0)
        encoder = TableEncoder().fit(rows_of(X, used) if is_frame(X) else X)
        self.categories_ = encoder.categories_
        table = encoder.transform(X)[used].astype(np.float64)
        Scale.of(table).check()  # all constant: say so now, of all samples
        targets = self._aims if self.target == "auto" else [self.target]
        if max(len(used), counts.sum()) > RIDGE_ROWS:
            targets = ["data"]
        table, Y, counts = merged(table, as_columns(y)[used], counts[used])
        centers, rows = number_of_centers(len(table)), evenly(len(table), CHOICE_ROWS)
        table, Y, counts = table[rows], Y[rows], counts[rows]
        # repeats would vouch for each other: for the width, a sample counts once
        candidates = dictionaries(table, Y, np.minimum(1, counts), centers, self.dictionary)
        rng = check_random_state(self.random_state)
        data = [folded(table, Y, counts, FOLDS, rng) for _ in range(repeats(len(table)))]
        with threadpool_limits(1):  # the folds have a thread each
            look = first_look(len(table))
            first = [
                trial
                for name, basis in candidates.items()
                for trial in self._told(self._try(basis, name, targets, look, data[:1]))
            ]
            trials = self._try_again(contenders(first, BEATEN), candidates, data)
        best, self._wanted = self._choose(trials)
        self.dictionary_, self.target_ = best.name, best.target
        self.trials_ = {trial.title: trial.errors for trial in first + trials}
        basis = candidates[self.dictionary_]
        self._automatic = Pipeline([("table", TableEncoder()), ("terms", basis)]) if is_frame(X) else basis

    def _choose(self, trials: list[Trial]) -> tuple[Trial, int]:
        """Return the best of what was tried, and its number of terms."""
        return choose(trials, self.size, SMALL)

    def _wrong(self, repeated: Sequence[Floats], Y: Floats) -> Floats | None:
        """Return how often every sample was put into the wrong class, where there are classes."""
        return None

    def _try(self, basis: Basis, name: str, targets: list[str], most: int, data: list[Folded]) -> list[Trial]:
        """Cross-validate a dictionary at every size, for each target."""
        _, Y, counts, _ = data[0]
        settings = replace(self._limited(min(most, self.max_terms, int(counts.sum()) // 3)), rule="cost")
        share = counts / counts.sum()
        variance = np.maximum(share @ (Y - share @ Y) ** 2, np.finfo(np.float64).tiny)
        scores = zip(*(out_of_fold(basis, one, settings, targets) for one in data), strict=True)
        trials = []
        for target, repeated in zip(targets, scores, strict=True):
            squares = np.mean([np.mean((Y - one) ** 2 / variance, axis=2) for one in repeated], axis=0)
            trials.append(Trial(name, target, squares, share, float(counts.sum()), self._wrong(repeated, Y)))
        self._after_step()
        return trials

    def _told(self, trials: list[Trial]) -> list[Trial]:
        """Report trials, if that is wanted, and return them."""
        if self.verbose:
            print(*trials, sep="\n")
        return trials

    def _try_again(self, trials: list[Trial], candidates: dict[str, Basis], data: list[Folded]) -> list[Trial]:
        """Fold few samples several times; give what is still improving with its last terms twice as many."""
        if len(data) > 1:
            trials = self._try_other_folds(trials, candidates, data[1:])
        while True:
            best, wanted = self._choose(trials)
            tried = len(best.squares) - 1
            if wanted < STILL * tried or tried >= min(self.max_terms, best.n // 3):
                return trials
            (more,) = self._told(self._try(candidates[best.name], best.name, [best.target], 2 * tried, data))
            trials = [more if trial is best else trial for trial in trials]

    def _try_other_folds(self, trials: list[Trial], candidates: dict[str, Basis], data: list[Folded]) -> list[Trial]:
        """Repeat trials of one folding with others, and average."""
        averages = []
        for name in dict.fromkeys(trial.name for trial in trials):
            before = [trial for trial in trials if trial.name == name]
            targets, most = [trial.target for trial in before], len(before[0].squares) - 1
            others = self._try(candidates[name], name, targets, most, data)
            averages += self._told([one.averaged(other, len(data)) for one, other in zip(before, others, strict=True)])
        return averages

    def _fit_design(self, X: Any, y: NDArray, counts: Floats, min_samples: int = 2) -> NDArray:
        """Make the candidates; of many samples, some decide which candidates are worth evaluating on all."""
        rows = np.flatnonzero(counts)
        if len(rows) <= PATH_ROWS:
            return super()._fit_design(X, y, counts, min_samples)
        some = rows[evenly(len(rows), PATH_ROWS)]
        part = rows_of(X, some)
        fitted = clone(self._prototype()).fit(part)
        path = grow(evaluate(fitted, part), as_columns(y)[some], counts[some], self._settings(), one_output=False)
        self.basis_ = take(fitted, np.sort(path.terms))
        return self._check_design(self.basis_.transform(X), min_samples)


def repeats(n: int) -> int:
    """How often n samples are folded."""
    return int(np.clip(REPEAT_ROWS // n, 1, REPEATS))


def first_look(n: int) -> int:
    """Terms tried at first of n samples."""
    return int(np.clip(n // 8, 10, FIRST_LOOK))


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
    target : {"auto", "data", "ridge"}, default="auto"
        What the terms are chosen for and fitted to: the targets themselves, or the ridge fit to all candidates, which
        averages noise out. "auto" tries both; beyond 1,200 samples it is always the data.
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
    target_ : {"data", "ridge"}
        What the terms were chosen for and fitted to: the targets themselves, or the ridge fit to all candidates of
        the dictionary, from which noise is averaged out.
    trials_ : dict
        For each dictionary tried, aimed at the targets or at their ridge fit ("pairs" and "pairs, ridge"), the
        cross-validated error with 0, 1, 2, ... terms, as a share of the variance.
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

    Terms chosen for noisy targets fit some of the noise, the more the richer the dictionary. Ridge regression on all
    candidates averages it out, and a few terms that reproduce its fit inherit that; where few candidates matter among
    very many, it is poor and the targets are the better guide. With `target_ == "ridge"` leave-one-out residuals,
    effective parameters and error bars go through both stages. Intervals take the leave-one-out residuals exactly and
    what leaving a sample out does elsewhere to first order. As always, error bars say how the weights scatter, not how
    far a penalty has shrunk them.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import TermwiseRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = TermwiseRegressor().fit(X, y)
    >>> model.n_terms_ < 20
    True
    >>> lower, upper = model.predict_interval(X, coverage=0.9)
    """


class TermwiseClassifier(LabelModel, TermwiseModel):
    """A small classifier from a table, with nothing to tune.

    As `TermwiseRegressor`, on labels coded -1 and +1 (one column per class for more than two). The dictionary and the
    size are those with the smallest cross-validated rate of errors, among all whose squared error is not clearly above
    the least.

    Parameters
    ----------
    size : {"small", "accurate"} or int, default="small"
        How many terms: as few as are about as good as the best, as many as are best, or that many, if the
        dictionary has them.
    dictionary : {"auto", "linear", "additive", "pairs", "smooth"}, default="auto"
        Candidates; see `TermwiseRegressor`.
    target : {"auto", "data", "ridge"}, default="auto"
        What the terms are chosen for and fitted to: the targets themselves, or the ridge fit to all candidates, which
        averages noise out. "auto" is the ridge fit: labels are noisy; beyond 1,200 samples it is always the data.
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
    dictionary_, target_, trials_, categories_
        As in `TermwiseRegressor`.
    support_, weights_, n_terms_, coef_, path_, alpha_, intercept_, basis_
        As in `ForwardClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from termwise import TermwiseClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = TermwiseClassifier(10, dictionary="additive").fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    _aims: ClassVar[list[str]] = ["ridge"]
    _sharpness: float

    def _choose(self, trials: list[Trial]) -> tuple[Trial, int]:
        return choose_for_labels(trials, self.size, PLAUSIBLE, FEWER)

    def _wrong(self, repeated: Sequence[Floats], Y: Floats) -> Floats:
        return np.mean([misclassified(scores, Y) for scores in repeated], axis=0)

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
        labels = data.Y / np.sqrt(data.counts)[:, None] + data.Y_mean if self._stage is None else self._stage.targets
        scores = two_sided((labels - as_columns(self.loo_residuals_)).squeeze())
        truth = two_sided(labels.squeeze()) > 0

        def surprise(log_sharpness: float) -> float:
            return -float(data.counts @ log_softmax(np.exp(log_sharpness) * scores, axis=1)[truth])

        self._sharpness = float(np.exp(minimize_scalar(surprise, bounds=SHARPNESS, method="bounded").x))


def two_sided(scores: NDArray) -> NDArray:
    """Scores of all classes, one column each; a single column is for the second class and against the first."""
    return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
