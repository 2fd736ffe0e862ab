"""`TermwiseRegressor` and `TermwiseClassifier`: the recipe for targets and for labels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import MultiOutputMixin, RegressorMixin

from termwise._arrays import as_columns
from termwise.estimators.labels import LabelModel
from termwise.recipe.cross_validation import Trial, choose_for_labels
from termwise.recipe.model import TermwiseModel

Floats = NDArray[np.float64]

PLAUSIBLE = 2.0  # of labels, only models whose squared error is within so many standard errors of the least compete
FEWER = 0.1  # standard errors by which a smaller model's error rate may be above the smallest
SHARPNESS = (-5.0, 5.0)  # range of the logarithm of what scores are scaled by to be odds


class TermwiseRegressor(MultiOutputMixin, RegressorMixin, TermwiseModel):
    """A small regression model from a table, with nothing to tune.

    Standardises the inputs, tries dictionaries of candidate terms from plain columns to products of two and Gaussians,
    chooses terms one by one, for the targets, for a smooth fit to them or for the mean of several models, and sets
    their penalty by leave-one-out. Which dictionary, aimed at what, and how many terms, is decided by cross-validation
    that repeats every choice, so that no choice is judged by the samples it was made on.

    Parameters
    ----------
    size : {"small", "accurate"} or int, default="small"
        How many terms: as few as are about as good as the best, within half a standard error of its error and nine
        tenths of what it explains, or one more if that is better; as many as are best; or that many, if the dictionary
        has them.
    dictionary : {"auto", "linear", "additive", "pairs", "smooth", "relevant"}, default="auto"
        Candidates: the inputs themselves; bumps of single inputs; products of two of those; Gaussians of all inputs
        and the inputs themselves; the same with Gaussians that are as narrow along each input as it is relevant, and
        not of those that are not. "auto" tries them all, but for what the notes on wide tables say.
    target : {"auto", "data", "ridge", "pooled"}, default="auto"
        What the terms are chosen for and fitted to: the targets themselves; the ridge fit to all candidates, which
        averages noise out; or the mean of several models that differ in dictionary and target, which takes the best of
        each. "auto" tries them all; "pooled" takes the mean unless it saves less than a hundredth of the error. The
        ridge fit is for up to 1,200 samples, the mean for up to 4,000; beyond it is the targets.
    max_terms : int, default=150
        Most terms; a `size` that is a number must not be larger.
    random_state : int, RandomState instance or None, default=0
        Draws the folds.
    verbose : int, default=0
        1 prints what is tried and a line per term.

    Attributes
    ----------
    dictionary_ : str
        The dictionary chosen; of a mean all that have terms in it, such as "pairs and smooth", but for those whose
        functions are in another one.
    target_ : {"data", "ridge", "pooled"}
        What the terms were chosen for and fitted to.
    pool_ : list of named tuples
        The models whose mean was aimed at: `name` of the dictionary, `target`, `size` and `weight`; empty if it was
        not a mean.
    trials_ : dict
        For each dictionary tried, aimed at the targets or at their ridge fit ("pairs" and "pairs, ridge"), and for the
        mean of several ("pairs and smooth, pooled"), the cross-validated error with 0, 1, 2, ... terms, as a share of
        the variance.
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

    Tables may have tens of thousands of columns: time and memory grow with samples times columns. Of more than 100
    inputs (each category is one) products are made of the 40 that go best with the targets: 20 that do so alone, and 20
    for their product with one of these; two inputs that act only together may be missed. They are chosen anew without
    the samples a choice is judged on, and `summary()` tells. "auto" does not try products of 64 to 100 inputs, which
    are many and must be asked for, nor Gaussians of more than 3,000 inputs, with relevances of more than 100. Where the
    question is only which of many columns matter, `dictionary="linear"` is quickest.

    Samples with equal inputs are left out together in cross-validation, so that repeats do not vouch for each other;
    only where there are fewer than 50 different inputs are they told apart by their targets as well.

    Terms chosen for noisy targets fit some of the noise, the more the richer the dictionary. Ridge regression on all
    candidates averages it out, and a few terms that reproduce its fit inherit that; where few candidates matter among
    very many, it is poor and the targets are the better guide. Models from different dictionaries err in different
    places: their mean, with the weights under which it predicts best what they have not seen, errs less than the best
    of them, and few of their terms reproduce it. "small" takes terms of one input or two, which can be drawn, unless
    others are better by more than a standard error; `dictionary="pairs"` always does. With a `target_` that is not the
    data, leave-one-out residuals, effective parameters and error bars go through both stages. Intervals take the
    leave-one-out residuals exactly and what leaving a sample out does elsewhere to first order. As always, error bars
    say how the weights scatter, not how far a penalty has shrunk them.

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
    dictionary : {"auto", "linear", "additive", "pairs", "smooth", "relevant"}, default="auto"
        Candidates; see `TermwiseRegressor`, also for which of them "auto" tries of wide tables.
    target : {"auto", "data", "ridge", "pooled"}, default="auto"
        What the terms are chosen for and fitted to; see `TermwiseRegressor`. "auto" is the ridge fit, since labels are
        noisy, or the mean of several of these unless the model is to be small; beyond 1,200 samples there is no ridge
        fit, beyond 4,000 no mean.
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
    dictionary_, target_, pool_, trials_, categories_
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
        alone = [trial for trial in trials if not trial.members]
        return choose_for_labels(alone if alone and self.size == "small" else trials, self.size, PLAUSIBLE, FEWER)

    def _reach(self, trials: list[Trial]) -> tuple[Trial, int]:
        return self._choose(trials)

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
        root = np.sqrt(data.sample_weight)[:, None]
        labels = data.Y / root + data.Y_mean if self._stage is None else self._stage.targets
        scores = two_sided((labels - as_columns(self.loo_residuals_)).squeeze())
        truth = two_sided(labels.squeeze()) > 0

        def surprise(log_sharpness: float) -> float:
            return -float(data.sample_weight @ log_softmax(np.exp(log_sharpness) * scores, axis=1)[truth])

        self._sharpness = float(np.exp(minimize_scalar(surprise, bounds=SHARPNESS, method="bounded").x))


def two_sided(scores: NDArray) -> NDArray:
    """Scores of all classes, one column each; a single column is for the second class and against the first."""
    return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
