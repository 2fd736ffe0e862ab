"""Forward selection as estimators: terms are selected one by one, and a criterion chooses their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin

from termwise.estimators.base import CallbackSupportMixin, SelectorModel, with_callbacks
from termwise.estimators.folds import check_repeatable, with_fold_models
from termwise.estimators.forward_fit import describe_selection, fit_forward, truncate_path
from termwise.estimators.glm import class_weighted, score_regressor, squared_only
from termwise.execution.cluster import TIMEOUT
from termwise.selection.rules import Rule


class ForwardRegressor(CallbackSupportMixin, MultiOutputMixin, RegressorMixin, SelectorModel):
    """Regression on a few terms, chosen one by one.

    Grows a path by adding, each time, the best candidate by the rule, and keeps as many terms as the criterion chooses.

    Parameters
    ----------
    basis : transformer or None, default=None
        Yields the candidates: one of `termwise.basis` or any scikit-learn transformer. None: the columns of X.
    loss : {"squared", "poisson", "gamma", "huber", "quantile"}, default="squared"
        What the weights minimise: "poisson" is for counts and "gamma" for positive targets, both with a log link;
        "huber" is for outliers and heavy tails, "quantile" for quantiles. Losses other than "squared" have the rule
        "cost" and the criteria "tcr", "loo", "one_se", "bic" and None, for data in memory; see the notes.
    quantile : float or sequence of float, default=0.5
        With `loss="quantile"`, the level, or several ascending levels, which share their terms; `predict` then returns
        one column for each, sorted, so that quantiles do not cross.
    rule : str or Rule, default="auto"
        Selection rule of the next term: "auto", the name of a rule in `termwise.selection.RULES`, or a custom rule; see
        `forward_path`. "auto" is "loo" for the squared loss and "cost" for others.
    criterion : {"tcr", "tcr_paper", "tcr_sequential", "loo", "one_se", "gcv", "uev", "fpe", "bic", "fdr", "cv"} or \
            None, default="tcr"
        How many terms to keep; None: all. "tcr" keeps terms that reduce the cost by more than the best of as many noise
        columns usually would; "fdr" selects terms by knockoffs at the false discovery rate `fdr`; "cv" cross-validates
        the whole selection; see the notes.
    alpha : float, "auto" or "reestimate", default="auto"
        The penalty; "reestimate" updates it after each term. "auto" is 1e-6 for the squared loss. For other losses it
        penalises the weights of standardised columns, and "auto" is 1, as C = 1 of scikit-learn's `LogisticRegression`.
    penalty : {"weights", "orthogonal"}, default="weights"
        Whether the weights or the coefficients of the orthogonalised columns are penalised.
    max_terms : int or None, default=None
        Maximum number of terms on the path.
    patience : int or None, default=10
        Stop once the choice of the criterion has not changed for this many terms; None: never.
    max_seconds : float or None, default=None
        Stop after this time, with the terms selected so far.
    include : array-like of int, default=()
        Candidates that are always in the model.
    refine : {"swap"} or None, default=None
        "swap" exchanges chosen terms one for one, until no exchange makes the model better by the rule; see
        `forward_path`.
    refit_alpha : {"loo", "gcv", "cv"} or None, default=None
        Choose the penalty of the final weights again, on the chosen terms, as the global optimum of this criterion; of
        losses other than "squared", the best of a grid by "loo". "cv" chooses it together with the number of terms and
        requires `criterion="cv"`.
    beta : float, default=1e-6
        Weight of D-optimality in the rule "d_optimal", in the unit of the squared targets.
    cv : int, splitter or iterable, default=5
        Folds of the rule "kfold" and of `criterion="cv"`; they must partition the rows.
    precompute : bool, int or "auto", default="auto"
        Save passes over the data by columns of `G'G`: True computes all of them once, False none, a number those of as
        many candidates in each pass, "auto" what is expected to be fastest.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    fdr : float, default=0.1
        With `criterion="fdr"`, the false discovery rate: the expected share of false terms among the selected ones.
    random_state : int, RandomState instance or None, default=0
        Draws the knockoffs of `criterion="fdr"`; other criteria do not use it. A fixed seed makes fits repeatable.
    bounds : dict, pair of floats or None, default=None
        Lowest and highest weight, at most and at least zero, `(0, None)` for weights that are not negative: one pair
        for all candidates, or a dict of pairs by the name or number of a candidate. See the notes.
    hierarchy : bool, default=False
        Whether a term of several inputs requires terms of each of these inputs alone.
    verbose : int, default=0
        1 prints a line per term.
    selection_cv : int, splitter, iterable or None, default=None
        Folds in which `fit` repeats the whole fit, selection of terms included: for `predict_interval` by CV+ and
        `selection_frequency_`, at the cost of one more fit per fold. 10 is a good number; samples are then shuffled
        with a fixed seed, those with equal inputs in the same fold. A splitter or an iterable of (train, test) indices
        as in scikit-learn's `cv` must leave out each sample once at most.
    timeout : float or None, default=600
        For Dask data: raise `TimeoutError` when no task of the cluster has ended for this many seconds; None: wait.

    Attributes
    ----------
    support_ : ndarray of shape (k,)
        The chosen candidates, in order of selection.
    weights_, n_terms_ : ndarray, int
        Their weights and number.
    coef_ : ndarray of shape (p,) or (q, p)
        Weights of all candidates.
    path_ : SelectionPath
        The whole path, with every criterion along it.
    stop_reason_ : str
        Why the path ended.
    n_swaps_ : int
        Number of terms exchanged by `refine="swap"`. If there are any, the path ends at the size that was refined.
    alpha_ : float
        The penalty of the weights.
    loss_ : str
        The loss; "multinomial" for a classifier of more than two classes.
    deviance_explained_ : float
        Share of the deviance that the model explains on the samples of the fit; only for losses other than "squared".
    selection_frequency_ : ndarray of shape (d,)
        Share of the fold models that use each input; only with `selection_cv`.
    cv_errors_ : ndarray of shape (m + 1,)
        With `criterion="cv"`, the cross-validated mean squared error with 0, 1, ... terms, each with its best penalty.
        The least of them is somewhat too small, being the least of many.
    fdr_estimate_ : float
        With `criterion="fdr"`, the estimated share of false terms; nan if none is selected.
    knockoff_statistics_ : ndarray of shape (p,)
        With `criterion="fdr"`, one over the place at which a candidate or its knockoff entered, negative if the
        knockoff was first, zero if neither entered.
    intercept_, basis_, effective_dof_, noise_variance_, criterion_value_, criteria_, loo_residuals_, weights_cov_
        As in `BasisRidge`; the criterion is leave-one-out unless `criterion` is "gcv", "uev", "fpe" or "bic".

    See Also
    --------
    forward_path : The functional core.

    Notes
    -----
    With `criterion="tcr"` and `patience` the path ends soon after the last significant term. A longer path can choose
    another size in two cases only: a later term is significant after `patience` insignificant ones, or the corrected
    leave-one-out error falls so much further that its lower noise level makes earlier terms significant.
    `patience=None` covers both.

    If there are many candidates, the leave-one-out error decreases with every term, each being the best of very many,
    and a noise level estimated from its minimum, as in "tcr_paper" (Hagiwara 2014), admits terms that fit noise. "tcr"
    corrects the error of every model on the path for the search since the last significant term. On pure noise
    (200 samples) it keeps a term in about one fit of four with 20 candidates and of fourteen with 20,000, rarely more.
    "tcr_sequential" takes the noise level from the model before the terms in question, which is too large where many
    weak terms act together.

    Of several outputs these criteria compare the mean of the cost reductions with the threshold for one output, which
    also holds if all outputs have the same noise. With many outputs, a term that only one of them needs is therefore
    kept only if it is very strong: use "loo", or fit a model to each output.

    `criterion="fdr"` adds a knockoff of every candidate, a column with the same correlations but no relation to y, and
    grows a path by the reduction of the cost (`rule`, `patience` are not used) until no longer path could select more,
    at most to half as many terms as samples. A candidate that enters before its knockoff counts as a discovery, a
    knockoff that enters first as the estimate of a false one (knockoff+, Barber and Candes 2015). The model has the
    discoveries up to the last place where the estimated share of false ones, which counts one more, is at most `fdr`:
    at least `1 / fdr` terms, or none. `path_` and `at(k)` have the selected terms in their order of entry. With at
    least two samples per candidate, the rate holds for Gaussian noise of constant variance and any columns (fixed-X);
    otherwise, and for classifiers, for columns whose distribution is nearly Gaussian with the shrunk covariance of
    Ledoit and Wolf (second-order model-X). The knockoffs are random: another `random_state` selects somewhat other
    terms.

    `criterion="cv"` selects anew without each fold of `cv` (shuffled with a fixed seed if it is a number) and keeps as
    many terms as predict the folds best; with `refit_alpha="cv"` number of terms and penalty are chosen together. It
    takes one more path per fold and is for prediction where the signal is weak, terms are correlated, or candidates are
    many more than samples: weights that selection has made too large are shrunk, and a longer path can be used. It
    keeps more false terms than "tcr". `patience` is not used; without `max_terms` paths have at most half as many terms
    as there are samples. A basis is fitted once, to all samples.

    With a loss other than "squared" a bound on its curvature makes the choice of a term a least-squares step on the
    current gradient, so that a path still takes one pass over the candidates per term; after each term all weights are
    fitted by Newton's method. Counts and positive targets, whose curvature has no bound, have the expected one instead.
    Leave-one-out is one Newton step from the fit to all samples (ALO, Rad and Maleki 2020). `predict` returns means, or
    quantiles; `linear_predictor` what the link is applied to; `score` is D2, the share of the deviance explained. With
    `exposure` in `fit` the mean is `exposure` times the prediction. `predict_interval` by CV+ is for means and not for
    quantiles.

    Forward selection never removes a term. `refine="swap"` exchanges terms of the model of the chosen size for better
    ones; it is useful for strongly correlated candidates and small models.

    With `bounds`, or a basis with monotone inputs (`AnovaBasis(monotone=...)`), a candidate is eligible only if the
    least-squares weights of the model with it, also those of the terms before, lie within their bounds. No bound is
    then active: criteria, leave-one-out residuals and standard errors are those of least squares, given the terms.

    Standard errors and leave-one-out residuals are given the chosen terms; they do not account for the selection.
    Intervals by `selection_cv` and `inference` do.

    Dask arrays and data frames are processed by the workers of the current cluster (that of `dask.distributed.Client`),
    with the same terms; the rows stay there, and the fitted model has no `loo_residuals_` and no `predict_interval`. A
    basis is fitted to a subset of the rows and must transform each row independently.

    Arrays of PyTorch, CuPy or another library of the array API are fitted on their device if `basis` is None or
    supports the array API, as `RadialBasis` does; weights, coefficients and predictions are of the same library and
    device. Losses other than "squared" are fitted on the host.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import ForwardRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = ForwardRegressor().fit(X, y)
    >>> list(model.get_feature_names_out())
    ['sex', 'bmi', 'bp', 's1', 's2', 's5']
    >>> model.at(2).n_terms_
    2
    >>> model = ForwardRegressor(criterion="cv", refit_alpha="cv").fit(X, y)
    >>> int(model.cv_errors_.argmin()) == model.n_terms_
    True
    >>> model = ForwardRegressor(selection_cv=10).fit(X, y)
    >>> lower, upper = model.predict_interval(X, coverage=0.9)
    >>> dict(zip(X.columns, model.selection_frequency_.tolist()))["bmi"]
    1.0
    """

    selects_terms = True
    keeps_sparse = True
    streams = True
    any_library = True

    def __init__(
        self,
        basis: Any = None,
        *,
        loss: str = "squared",
        quantile: float | Sequence[float] = 0.5,
        rule: str | Rule = "auto",
        criterion: str | None = "tcr",
        alpha: float | str = "auto",
        penalty: str = "weights",
        max_terms: int | None = None,
        patience: int | None = 10,
        max_seconds: float | None = None,
        include: ArrayLike = (),
        refine: str | None = None,
        refit_alpha: str | None = None,
        beta: float = 1e-6,
        cv: Any = 5,
        precompute: bool | int | str = "auto",
        fit_intercept: bool = True,
        fdr: float = 0.1,
        random_state: Any = 0,
        bounds: Any = None,
        hierarchy: bool = False,
        verbose: int = 0,
        selection_cv: Any = None,
        timeout: float | None = TIMEOUT,
    ) -> None:
        self.basis = basis
        self.loss = loss
        self.quantile = quantile
        self.rule = rule
        self.criterion = criterion
        self.alpha = alpha
        self.penalty = penalty
        self.max_terms = max_terms
        self.patience = patience
        self.max_seconds = max_seconds
        self.include = include
        self.refine = refine
        self.refit_alpha = refit_alpha
        self.beta = beta
        self.cv = cv
        self.precompute = precompute
        self.fit_intercept = fit_intercept
        self.fdr = fdr
        self.random_state = random_state
        self.bounds = bounds
        self.hierarchy = hierarchy
        self.verbose = verbose
        self.selection_cv = selection_cv
        self.timeout = timeout

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss in ("poisson", "gamma")
        return tags

    @with_callbacks
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix, rows of a file, Dask array or Dask data frame of shape (n, d)
            Inputs. With a `basis`, whatever that transformer takes.
        y : array-like of shape (n,) or (n, q)
            Targets; several outputs share their terms.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights: a weight of 2 is the same as repeating the sample, and leave-one-out leaves out one
            repeat.
        exposure : array-like of shape (n,), default=None
            With `loss="poisson"` or "gamma", the time, area or population that each target was observed for: its mean
            is `exposure` times the prediction.
        """
        check_repeatable(self, X, y)
        terms, attributes = fit_forward(self, X, y, sample_weight, exposure=exposure)
        arguments = {} if exposure is None else {"exposure": exposure}
        return self._store(with_fold_models(self, terms, X, y, sample_weight, arguments), **attributes)

    score = score_regressor
    _truncate = truncate_path
    _summary_lines = describe_selection


class ForwardClassifier(CallbackSupportMixin, ClassifierMixin, SelectorModel):
    """Classification on a few terms, chosen one by one.

    Logistic regression on the chosen terms, multinomial for more than two classes; or, with `loss="squared"`,
    `ForwardRegressor` on labels coded -1 and +1 (one column per class for more than two), where the class with the
    largest output is predicted.

    Parameters
    ----------
    basis : transformer or None, default=None
        Yields the candidates. None: the columns of X.
    loss : {"auto", "logistic", "squared"}, default="auto"
        What the weights minimise. "auto" is "logistic", except where least squares alone applies: for data in a file or
        on a Dask cluster, and with a rule, a criterion or another option that the logistic loss lacks. `loss_` is the
        loss of a fit. "squared" is the loss of the papers.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights; "balanced" makes those of all classes equal.
    rule : str or Rule, default="auto"
        Selection rule of the next term: "auto", the name of a rule in `termwise.selection.RULES`, or a custom rule; see
        `forward_path`. "auto" is "loo" for the squared loss and "cost" for the logistic one, which has no other.
    criterion : {"tcr", "tcr_paper", "tcr_sequential", "loo", "one_se", "gcv", "uev", "fpe", "bic", "fdr", "cv"} or \
            None, default="tcr"
        How many terms to keep; None: all. "tcr" keeps terms that reduce the cost by more than the best of as many noise
        columns usually would; "fdr" selects terms at the false discovery rate `fdr`, "cv" cross-validates the squared
        error of the whole selection, see `ForwardRegressor`. The logistic loss has "tcr", "loo", "one_se", "bic" and
        None.
    alpha : float, "auto" or "reestimate", default="auto"
        The penalty; "reestimate" updates it after each term. "auto" is 1e-6 for the squared loss. The logistic loss
        penalises the weights of standardised columns, and "auto" is 1, as C = 1 of scikit-learn's `LogisticRegression`.
    penalty : {"weights", "orthogonal"}, default="weights"
        Whether the weights or the coefficients of the orthogonalised columns are penalised.
    max_terms : int or None, default=None
        Maximum number of terms on the path.
    patience : int or None, default=10
        Stop once the choice of the criterion has not changed for this many terms; None: never.
    max_seconds : float or None, default=None
        Stop after this time, with the terms selected so far.
    include : array-like of int, default=()
        Candidates that are always in the model.
    refine : {"swap"} or None, default=None
        "swap" exchanges chosen terms one for one, until no exchange makes the model better by the rule; see
        `forward_path`.
    refit_alpha : {"loo", "gcv", "cv"} or None, default=None
        Choose the penalty of the final weights again, on the chosen terms, as the global optimum of this criterion;
        "cv" requires `criterion="cv"`.
    beta : float, default=1e-6
        Weight of D-optimality in the rule "d_optimal", in the unit of the squared targets.
    cv : int, splitter or iterable, default=5
        Folds of the rule "kfold" and of `criterion="cv"`; they must partition the rows.
    precompute : bool, int or "auto", default="auto"
        Save passes over the data by columns of `G'G`: True computes all of them once, False none, a number those of as
        many candidates in each pass, "auto" what is expected to be fastest.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    fdr : float, default=0.1
        With `criterion="fdr"`, the false discovery rate: the expected share of false terms among the selected ones.
    random_state : int, RandomState instance or None, default=0
        Draws the knockoffs of `criterion="fdr"`; other criteria do not use it. A fixed seed makes fits repeatable.
    bounds : dict, pair of floats or None, default=None
        Lowest and highest weight, at most and at least zero, `(0, None)` for weights that are not negative: one pair
        for all candidates, or a dict of pairs by the name or number of a candidate. See the
        notes of `ForwardRegressor`.
    hierarchy : bool, default=False
        Whether a term of several inputs requires terms of each of these inputs alone.
    verbose : int, default=0
        1 prints a line per term.
    selection_cv : int, splitter, iterable or None, default=None
        Folds in which `fit` repeats the whole fit, selection of terms included: for probabilities calibrated on the
        scores of samples left out, and `selection_frequency_`, at the cost of one more fit per fold. Without them the
        logistic loss has the probabilities of its likelihood, and the squared loss has none.
        10 is a good number; samples are then shuffled with a fixed seed, stratified by class, those with equal inputs
        in the same fold. A splitter or an iterable of (train, test) indices
        as in scikit-learn's `cv` must leave out each sample once at most.
    timeout : float or None, default=600
        For Dask data: raise `TimeoutError` when no task of the cluster has ended for this many seconds; None: wait.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    support_, weights_, n_terms_, coef_, intercept_, path_, stop_reason_, n_swaps_, alpha_, loss_, deviance_explained_
        As in `ForwardRegressor`; one row of weights per class for more than two classes. With `selection_cv` the
        intercept is shifted such that the class of the largest score is the most probable one.
    selection_frequency_ : ndarray of shape (d,)
        Share of the fold models that use each input; only with `selection_cv`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from termwise import ForwardClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ForwardClassifier().fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    >>> ForwardClassifier(selection_cv=10).fit(X, y).predict_proba(X[:2]).shape
    (2, 3)
    """

    selects_terms = True
    keeps_sparse = True
    streams = True
    any_library = True

    def __init__(
        self,
        basis: Any = None,
        *,
        loss: str = "auto",
        class_weight: Any = None,
        rule: str | Rule = "auto",
        criterion: str | None = "tcr",
        alpha: float | str = "auto",
        penalty: str = "weights",
        max_terms: int | None = None,
        patience: int | None = 10,
        max_seconds: float | None = None,
        include: ArrayLike = (),
        refine: str | None = None,
        refit_alpha: str | None = None,
        beta: float = 1e-6,
        cv: Any = 5,
        precompute: bool | int | str = "auto",
        fit_intercept: bool = True,
        fdr: float = 0.1,
        random_state: Any = 0,
        bounds: Any = None,
        hierarchy: bool = False,
        verbose: int = 0,
        selection_cv: Any = None,
        timeout: float | None = TIMEOUT,
    ) -> None:
        self.basis = basis
        self.loss = loss
        self.class_weight = class_weight
        self.rule = rule
        self.criterion = criterion
        self.alpha = alpha
        self.penalty = penalty
        self.max_terms = max_terms
        self.patience = patience
        self.max_seconds = max_seconds
        self.include = include
        self.refine = refine
        self.refit_alpha = refit_alpha
        self.beta = beta
        self.cv = cv
        self.precompute = precompute
        self.fit_intercept = fit_intercept
        self.fdr = fdr
        self.random_state = random_state
        self.bounds = bounds
        self.hierarchy = hierarchy
        self.verbose = verbose
        self.selection_cv = selection_cv
        self.timeout = timeout

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix, rows of a file, Dask array or Dask data frame of shape (n, d)
            Inputs. With a `basis`, whatever that transformer takes.
        y : array-like of shape (n,)
            Classes.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights: a weight of 2 is the same as repeating the sample, and leave-one-out leaves out one
            repeat.
        """
        check_repeatable(self, X, y)
        weights = class_weighted(self.class_weight, y, sample_weight)
        terms, attributes = fit_forward(self, X, y, weights, classify=True)
        return self._store(with_fold_models(self, terms, X, y, weights), **attributes)

    def _has_likelihood(self) -> bool:
        return self.loss == "logistic" or (self.loss == "auto" and squared_only(self, None, None, None) is None)

    _truncate = truncate_path
    _summary_lines = describe_selection
