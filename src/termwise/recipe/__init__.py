"""`TermwiseRegressor` and `TermwiseClassifier`: the recipe for targets and for labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin

from termwise.basis import TableEncoder
from termwise.estimators.base import CallbackSupportMixin, SelectorModel, with_callbacks
from termwise.estimators.glm import class_weighted, score_regressor
from termwise.recipe.fit import describe_choice, fit_recipe, truncate_recipe
from termwise.recipe.settings import RecipeSettings


class TermwiseRegressor(CallbackSupportMixin, MultiOutputMixin, RegressorMixin, SelectorModel):
    """Sparse regression on basis functions, with automatic model selection.

    The inputs are standardised and expanded into dictionaries of candidate functions, from plain columns to products of
    two inputs and Gaussians. Terms are selected one by one, either for the targets, for a ridge regression on all
    candidates, for gradient boosting or another estimator, or for a stacked ensemble of several models. The dictionary,
    the target of the selection and the number of terms are chosen by cross-validation; the folds run the code of the
    final fit, with everything that depends on the targets learned anew.

    Parameters
    ----------
    size : {"readable", "small", "accurate"} or int, default="small"
        Number of terms. "readable" is the small model of at most 20 terms in ten effects of one input or two, which
        fits on a page. "small" is the smallest model whose cross-validated error is within an eighth of a standard
        error of the minimum and that keeps nine tenths of the explained variance, or one with one more term if that is
        more accurate: the median of that size over bootstrap samples, which depends little on the folds. "accurate"
        minimises the cross-validated error. An integer sets the number of terms, if the dictionary has as many.
    dictionary : {"auto", "linear", "additive", "pairs", "hinges", "steps", "rules", "smooth", "relevant"}, \
default="auto"
        Candidate functions:

        - "linear": the inputs;
        - "additive": the inputs and Gaussian bumps of single inputs;
        - "pairs": these and the products of any two of them;
        - "hinges": the inputs and hinges `max(0, x - t)`, and the products of any two, for kinks;
        - "steps": the inputs and steps, and the products of any two, for thresholds;
        - "rules": the inputs, and conjunctions of up to three conditions that boosted trees find, see `RuleBasis`;
        - "smooth": the inputs and Gaussians of all inputs, isotropic after standardisation;
        - "relevant": the inputs and Gaussians with one length-scale per input (automatic relevance determination, ARD);
          irrelevant inputs are left out;
        - "auto": cross-validates all of them; see Notes for wide tables.
    target : {"auto", "data", "ridge", "boosting", "pooled"} or estimator, default="auto"
        What the terms are selected for and fitted to: the targets ("data"), the predictions of ridge regression on all
        candidates ("ridge"), those of gradient boosting ("boosting"), or those of a stacked ensemble of such models
        ("pooled"). "auto" cross-validates all of them; "pooled" uses the ensemble unless it lowers the error by less
        than 1 %. "ridge" is available for up to 1,200 samples and "pooled" for up to 4,000; beyond, the targets
        themselves are used. An estimator, any regressor with the conventions of scikit-learn, takes the place of
        gradient boosting in "auto".
    max_terms : int, default=150
        Maximum number of terms of the model; an integer `size` must not exceed it. The path goes on for ten more.
    loss : {"squared", "poisson", "gamma", "huber", "quantile"}, default="squared"
        What the models minimise, as in `ForwardRegressor`: "poisson" for counts and "gamma" for positive targets have a
        logarithmic link, "huber" is robust to outliers, and "quantile" models the `quantile` of the targets. With a
        loss other than the squared error terms are selected for the data themselves.
    link : {"identity", "log", "auto"}, default="identity"
        What the terms add up to, with the squared error: the prediction ("identity"), or its logarithm ("log"), so that
        effects are factors and predictions are positive, as suits prices and incomes. "auto" tries both for a single
        positive target of at least 200 samples that is skewed to the right, and takes the link with the smaller squared
        error of the targets themselves. With "log", the intercept is such that out-of-fold predictions have the mean of
        the targets, and all functions are constant outside the range of the training inputs.
    quantile : float or sequence of float, default=0.5
        Level of `loss="quantile"`; several share their terms and do not cross: predictions are in ascending order.
    missing : {"indicator", "error"}, default="indicator"
        Missing values (NaN, None, null) of an input: "indicator" adds the indicator of missing values to the
        candidates, and makes the other functions of the input zero where it is missing; nothing is imputed. "error"
        refuses them. Of an input that is complete in `fit` no effect of missing values is known: `predict` puts them at
        its mean, or among the categories not seen, and warns; models of arrays without any missing value refuse them,
        and so do frozen models and exports, unless `Predictor.with_fill` says what to fill in.
    monotone : dict, default=None
        Inputs, by name or number, whose effect must not decrease, +1, or not increase, -1. See `AnovaBasis`.
    hierarchy : bool, default=False
        Whether a product of two inputs requires terms of each of them alone.
    log_inputs : bool, default=False
        Whether to try logarithms of positive inputs that are skewed to the right, incomes or areas for example; see
        Notes.
    cv : int, splitter of scikit-learn or list of splits, default=None
        Folds of the cross-validation: their number, 5 by default, repeated for few samples, or a splitter with every
        sample in one test set, such as `GroupKFold`.
    random_state : int, RandomState instance or None, default=0
        Seed of further divisions of the samples into folds, which are made where the choice of the size is close. The
        first ones depend on the samples alone, not on their order: another seed changes only what these leave open.
    verbose : int, default=0
        Verbosity level: 1 prints a line for each cross-validated model and for each selected term.

    Attributes
    ----------
    dictionary_ : str
        The chosen dictionary; for an ensemble those of its members, such as "pairs and smooth", without dictionaries
        that are contained in another one.
    target_ : {"data", "ridge", "boosting", "estimator", "pooled"}
        The chosen target; "estimator" is that given as `target`.
    link_ : {"identity", "log", "sorted"}
        What the terms add up to: predictions, their logarithms, or several quantiles before they are sorted.
    pool_ : list of named tuples
        The members of the stacked ensemble: `name` of the dictionary, `target`, `size` and `weight`. Empty for other
        targets.
    trials_ : dict of str to ndarray
        Cross-validated mean squared error with 0, 1, 2, ... terms, as a share of the variance, for each dictionary and
        target: "pairs", "pairs, ridge", "pairs and smooth, pooled"; with ", log" those of logarithms of the target,
        with ", penalty 64" those of another penalty, see Notes.
    cv_error_ : float
        Error of the whole procedure for new samples, as a share of the variance: cross-validated, and corrected for the
        choice of the best of many models by bootstrapping the out-of-fold errors.
    cv_error_std_ : float
        Its standard error over samples.
    n_candidates_ : int
        Number of candidate functions of all dictionaries that were searched, those of a dictionary that is contained in
        another one not counted again, on the largest training set of the first cross-validation, or on all samples for
        the chosen dictionary if that is more.
    categories_ : dict
        The categories of each categorical column.
    choice_ : RecipeChoice
        The result of cross-validation, from which the attributes above are taken.
    first_stage_ : RidgeTarget, ReferenceTarget, EnsembleTarget or None
        What the terms were fitted to if `target_` is not "data".
    rule_ : "cost"
        The rule the terms were selected by, in the folds and in the final fit: the decrease of the regularised cost.
    criterion_ : str
        The criterion of the number of terms: always "cv", cross-validation. `criterion_value_` is the leave-one-out
        error.
    support_, weights_, n_terms_, coef_, path_, alpha_, intercept_, basis_, effective_dof_, noise_variance_
        As in `ForwardRegressor`.
    criterion_value_, criteria_, loo_residuals_, weights_cov_
        As in `BasisRidge`, for given terms. They do not account for the selection of the terms; `cv_error_` and
        `predict_interval` do.

    See Also
    --------
    ForwardRegressor : Forward selection with a basis, a rule and a criterion of one's own.

    Notes
    -----
    *Data frames.* Categories and strings in pandas and polars frames become indicators, or, with more than 20 levels,
    cross-fitted means of the targets (`LevelMeans`); ordered categories become the position of their level, and dates
    the elapsed time, year, season, weekday and hour. See `TableEncoder`.

    *Several outputs* share their terms, which are selected by the sum of the squared errors of all: scale outputs of
    different units to the same variance before the fit, unless the errors of some are to count more.

    *Many samples.* Beyond 4,000 samples dictionary, target and size are chosen on a subset of 4,000; beyond 20,000 the
    terms are selected on a subset of 20,000. The weights are always fitted to all samples.

    *Devices.* Above 1,200 samples, arrays on a GPU have the paths of all folds computed there, in float64; everything
    else is computed on the host.

    *Wide tables.* Time and memory grow with samples times columns, and tens of thousands of columns are feasible. With
    more than 100 inputs (a category counts as one) "pairs" screens the inputs: products are formed of 40 of them, 20
    with the largest main effect and 20 with the largest interaction with one of these, so that a pure interaction of
    two inputs without main effects may be missed. Screening is repeated on the training folds. "auto" leaves out
    "pairs" for 64 to 100 inputs, "smooth" for more than 3,000 and "relevant" for more than 100. If the only question is
    which columns matter, `dictionary="linear"` is fastest.

    *Skewed inputs.* With `log_inputs=True` all dictionaries but "linear", "steps" and "rules" take the logarithms of
    positive inputs that are skewed to the right, where these lower the cross-validated error of one of them: `log(x1)`.

    *Penalties.* Terms for the data have a penalty of 1e-6, or 1 with other losses. Linear models of many inputs, one
    for ten samples or more, are also tried with large penalties, which suit many weak columns, and models of other
    losses with larger or smaller ones. Nonlinear models must be better than linear ones by half a standard error, of
    classes by one; with many inputs this holds for classes only, and with at least as many inputs as samples the
    largest penalty within a standard error of the best is taken for them.

    *Duplicates.* Samples with equal inputs are in the same fold. Only if there are fewer than 50 distinct inputs are
    samples with different targets assigned to folds independently.

    *Targets.* Terms selected for noisy targets fit some of the noise, the more the larger the dictionary. Ridge
    regression on all candidates has a lower variance, and a few terms fitted to its predictions inherit it; if few of
    very many candidates matter, it is poor and the data are the better target. A stacked ensemble of models with
    different dictionaries is more accurate than the best of them, and few of its terms reproduce its predictions. Its
    weights minimise the error of out-of-fold predictions; in a fold, of those of the other folds.

    *Error.* `trials_` are cross-validated errors of single models, whose minimum is optimistic: it is the smallest of
    many. `cv_error_` repeats the choice on bootstrap samples of the rows of the table of out-of-fold errors and
    averages over the rows that were not drawn. Models of folds are fitted to four fifths of the samples, so that it is
    too large where the error still falls fast with the number of samples.

    *Stability.* If the sizes chosen in bootstrap samples differ by more than a factor of two, up to 2,000 samples are
    divided into other folds as well, up to six times, and errors are averaged. The first three divisions are the same
    for all seeds. "small" takes the median of these sizes, unless its error is larger by more than 3 %.

    *Interpretation.* "small" prefers terms of one or two inputs, which can be plotted, unless other models are better
    by more than one standard error; `dictionary="pairs"` has only such terms.

    *Extrapolation.* Inputs of nonlinear terms are clipped to the training range, and predictions to the range of the
    training targets, extended by half of its length on either side. Linear models have no limits.

    *Uncertainty.* Intervals are those of CV+, from the models of the folds. If `target_` is not "data", leave-one-out
    residuals, effective degrees of freedom and standard errors, all given the terms, account for both stages. Standard
    errors measure the variance of the weights, not the bias due to the penalty.

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

    recipe_settings: ClassVar[RecipeSettings] = RecipeSettings()
    basis, fit_intercept = TableEncoder(), True  # fixed here, parameters of `ForwardRegressor`
    selects_terms = any_library = True

    def __init__(
        self,
        size: str | int = "small",
        *,
        dictionary: str = "auto",
        target: Any = "auto",
        max_terms: int = 150,
        loss: str = "squared",
        link: str = "identity",
        quantile: float | Sequence[float] = 0.5,
        missing: str = "indicator",
        monotone: Mapping[Any, int] | None = None,
        hierarchy: bool = False,
        log_inputs: bool = False,
        cv: Any = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        self.size = size
        self.dictionary = dictionary
        self.target = target
        self.max_terms = max_terms
        self.loss = loss
        self.link = link
        self.quantile = quantile
        self.missing = missing
        self.monotone = monotone
        self.hierarchy = hierarchy
        self.log_inputs = log_inputs
        self.cv = cv
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Inputs.
        y : array-like of shape (n,) or (n, q)
            Targets; several outputs share their terms.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights: a weight of 2 is the same as repeating the sample, and leave-one-out leaves out one
            repeat.
        groups : array-like of shape (n,), default=None
            Samples of the same group, such as those of one patient, stay in one fold of the cross-validation.
        exposure : array-like of shape (n,), default=None
            With `loss="poisson"` or "gamma", the time, area or population that each target was observed for: its mean
            is `exposure` times the prediction.
        """
        terms, attributes = fit_recipe(self, X, y, sample_weight, groups, exposure)
        return self._store(terms, **attributes)

    score = score_regressor
    _truncate = truncate_recipe
    _summary_lines = describe_choice


class TermwiseClassifier(CallbackSupportMixin, ClassifierMixin, SelectorModel):
    """Sparse classification on basis functions, with automatic model selection.

    The method of `TermwiseRegressor` on labels coded -1 and +1, with one output per class for more than two classes.
    Probabilities are the softmax of the outputs times a slope, which maximises the likelihood of out-of-fold outputs.
    Dictionary, target and size are chosen by the cross-validated log loss.

    Parameters
    ----------
    size : {"readable", "small", "accurate"} or int, default="small"
        Number of terms. "readable" is as in `TermwiseRegressor`. "small" is the smallest model whose cross-validated
        log loss is within an eighth of a standard error of the minimum, as in `TermwiseRegressor`, "accurate" the one
        that minimises it. An integer sets the number of terms, if the dictionary has as many.
    dictionary : {"auto", "linear", "additive", "pairs", "hinges", "steps", "rules", "smooth", "relevant"}, \
default="auto"
        Candidate functions; see `TermwiseRegressor`.
    target : {"auto", "data", "ridge", "boosting", "pooled"} or estimator, default="auto"
        What the terms are selected for and fitted to; see `TermwiseRegressor`. "auto" tries "pooled" only if `size` is
        "accurate" or a number; for more than 1,200 samples there is no "ridge", and for more than 4,000 no ensemble. An
        estimator, any classifier with `predict_proba`, takes the place of gradient boosting in "auto".
    max_terms : int, default=150
        Maximum number of terms; an integer `size` must not exceed it.
    loss : {"auto", "logistic", "squared"}, default="auto"
        What models for the data themselves minimise: the negative log-likelihood, multinomial for more than two
        classes, or the squared error of labels coded -1 and +1. "auto" is "logistic".
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the weights of the samples.
    missing : {"indicator", "error"}, default="indicator"
        What to do with missing values; see `TermwiseRegressor`.
    monotone : dict, default=None
        Inputs, by name or number, that must not lower, +1, or not raise, -1, the probability of the second of two
        classes.
    hierarchy : bool, default=False
        Whether a product of two inputs requires terms of each of them alone.
    log_inputs : bool, default=False
        Whether to try logarithms of positive inputs that are skewed to the right, incomes or areas for example; see
        Notes.
    cv : int, splitter of scikit-learn or list of splits, default=None
        Folds of the cross-validation; see `TermwiseRegressor`.
    random_state : int, RandomState instance or None, default=0
        Seed of further divisions of the samples into folds, which are made where the choice of the size is close. The
        first ones depend on the samples alone, not on their order: another seed changes only what these leave open.
    verbose : int, default=0
        Verbosity level: 1 prints a line for each cross-validated model and for each selected term.

    Attributes
    ----------
    classes_ : ndarray
        The class labels.
    cv_log_loss_, cv_error_rate_ : float
        Log loss and share of misclassified samples of the whole procedure for new samples, cross-validated and
        corrected for the choice.
    cv_error_, cv_error_std_ : float
        The log loss as a share of that of the class frequencies, and its standard error.
    dictionary_, target_, pool_, trials_, n_candidates_, categories_, choice_, first_stage_, rule_, criterion_
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

    recipe_settings: ClassVar[RecipeSettings] = RecipeSettings()
    basis, fit_intercept = TableEncoder(), True  # fixed here, parameters of `ForwardRegressor`
    selects_terms = any_library = True

    def __init__(
        self,
        size: str | int = "small",
        *,
        dictionary: str = "auto",
        target: Any = "auto",
        max_terms: int = 150,
        loss: str = "auto",
        class_weight: Any = None,
        missing: str = "indicator",
        monotone: Mapping[Any, int] | None = None,
        hierarchy: bool = False,
        log_inputs: bool = False,
        cv: Any = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        self.size = size
        self.dictionary = dictionary
        self.target = target
        self.max_terms = max_terms
        self.loss = loss
        self.class_weight = class_weight
        self.missing = missing
        self.monotone = monotone
        self.hierarchy = hierarchy
        self.log_inputs = log_inputs
        self.cv = cv
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Inputs.
        y : array-like of shape (n,)
            Classes.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights: a weight of 2 is the same as repeating the sample, and leave-one-out leaves out one
            repeat.
        groups : array-like of shape (n,), default=None
            Samples of the same group, such as those of one patient, stay in one fold of the cross-validation.
        """
        weights = class_weighted(self.class_weight, y, sample_weight)
        terms, attributes = fit_recipe(self, X, y, weights, groups)
        return self._store(terms, **attributes)

    _truncate = truncate_recipe
    _summary_lines = describe_choice
