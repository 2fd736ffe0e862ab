"""`TermwiseRegressor` and `TermwiseClassifier`: the recipe for targets and for labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin, is_classifier
from sklearn.pipeline import Pipeline

from termwise._arrays import as_columns, rows_of
from termwise._checks import check_number, check_total
from termwise.basis import SmoothBasis, TableEncoder, UnionBasis
from termwise.basis.base import ColumnSubset, InputStatistics
from termwise.basis.encoder import is_frame
from termwise.estimators import CallbackSupportMixin, SelectorModel, step_callback, with_callbacks
from termwise.estimators.data import check_design, design_data, read, solve_path, warn_of_rounded_inputs
from termwise.estimators.forward import path_callback
from termwise.execution import select_terms
from termwise.fitted import Candidates, FitStatistics, FittedTerms, FoldModels
from termwise.linalg.least_squares import measure
from termwise.linalg.two_stage import leave_one_out_scores
from termwise.recipe.choice import RecipeChoice, RecipeOptions, choose_model, fit_candidates
from termwise.recipe.dictionaries import Samples, ScreenedPairs
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.targets import FirstStage, ReferenceTarget, through_first_stage
from termwise.selection.path import SelectionPath

Floats = NDArray[np.float64]


def cut_recipe(
    path: SelectionPath, k: int, stage: FirstStage | None, candidates: Candidates, choice: RecipeChoice
) -> tuple[FittedTerms, dict[str, Any]]:
    """Return the first k terms of a path, fitted as in the folds, and their penalty.

    The probabilities of labels are calibrated as those of this size in cross-validation.
    """
    problem, solution, alpha = solve_path(path, k, intercept=True, refit=None)
    data, rows = path.training(), problem.rows
    root = np.sqrt(rows.sample_weight)[:, None]
    intercept = None
    if isinstance(stage, ReferenceTarget):
        solution, intercept = stage.solution(solution, problem, path.terms[:k], alpha)
    elif stage is not None:
        scores = leave_one_out_scores(stage, rows, data.Z, data.Y, data.Y_mean)[k]
        solution = through_first_stage(stage, solution, problem, scores)
    statistics = FitStatistics(rows, solution, problem.G_mean, measure(rows, solution), "loo", solution.loo / root)
    terms = FittedTerms.from_solution(candidates, path.terms[:k], problem.Y_mean, statistics)
    if intercept is not None:
        terms = replace(terms, intercept=intercept)
    if candidates.labels is not None:
        slope, shift = choice.calibration[min(k, len(choice.calibration) - 1)]
        labels = replace(candidates.labels, slope=slope, shift=shift)
        terms = replace(terms, candidates=replace(candidates, labels=labels), intercept=terms.intercept + shift)
    return terms, {"alpha_": alpha}


def with_encoder(folds: FoldModels, candidates: Candidates, encoder: TableEncoder | None) -> FoldModels:
    """Return fold models of encoded inputs as models of the table itself."""
    models = []
    for model in folds.models:
        basis = model.candidates.basis
        if encoder is not None:
            none = ColumnSubset(encoder, np.arange(0))
            basis = none if basis is None else Pipeline([("table", encoder), ("terms", basis)])
        own = replace(candidates, basis=basis, n_candidates=len(model.chosen))
        models.append(replace(model, candidates=own))
    return replace(folds, models=tuple(models))


def filled(table: NDArray) -> NDArray:
    """Return a table with the mean of each column in place of missing values, zero where all are missing."""
    missing = np.isnan(table)
    if not missing.any():
        return table
    means = np.where(missing, 0.0, table).sum(axis=0) / np.maximum((~missing).sum(axis=0), 1)
    return np.where(missing, means, table).astype(table.dtype)


def parts_of(basis: Any) -> list[Any]:
    """Return the bases that make terms of a table."""
    last = basis[-1] if isinstance(basis, Pipeline) else basis
    return list(last.bases_) if isinstance(last, UnionBasis) else [last]


def fit_recipe(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[FittedTerms, dict[str, Any]]:
    """Choose a model by cross-validation, select its terms on all samples, and solve.

    Returns the fitted terms and the other fitted attributes.
    """
    settings, verbose, labels = estimator.recipe_settings, estimator.verbose, is_classifier(estimator)
    options = RecipeOptions(
        estimator.size, estimator.dictionary, estimator.target, estimator.max_terms, estimator.random_state, labels
    )
    options.check()
    check_number("verbose", verbose, low=0, integer=True, remedy="0 is silent, 1 reports what is tried")
    after_step = step_callback(estimator, None)
    data = read(estimator, X, y, sample_weight, basis=estimator.basis, classify=labels)
    frame, used = data.X, data.used
    encoder = TableEncoder(missing=estimator.missing).fit(rows_of(frame, used) if is_frame(frame) else frame)
    encoded = encoder.transform(frame)
    names, table = encoder.get_feature_names_out(), encoded[used].astype(np.float64)
    warn_of_rounded_inputs(names, filled(encoded[used]), data)
    InputStatistics.from_samples(table).check_varying()  # constant inputs are allowed in a fold only
    samples = Samples(table, as_columns(data.y)[used], data.weights[used])
    report = print if verbose else None
    choice = choose_model(samples, encoder.groups(), options, settings, after_step, report)
    basis, G, stage = fit_candidates(choice, encoded, data.y, data.weights, settings)
    encodes = is_frame(frame) or encoded.shape[1] != frame.shape[1]
    basis = Pipeline([("table", encoder), ("terms", basis)]) if encodes else basis
    G = check_design(estimator, basis, G, min_samples=2)
    check_total(data.weights)
    design = design_data(G, basis, data)
    signal, candidates = design.Y if stage is None else stage.signal, design.candidates
    callback, path_settings = path_callback(verbose, after_step), choice.path_settings
    if isinstance(stage, ReferenceTarget):  # the terms were selected before, in this order
        path_settings = replace(path_settings, include=np.arange(G.shape[1]))
    path = select_terms(design.G, signal, design.weights, path_settings, candidates.one_output, callback)
    terms, attributes = cut_recipe(path, min(choice.n_terms, len(path)), stage, candidates, choice)
    assert choice.folds is not None
    folds = with_encoder(choice.folds, candidates, encoder if encodes else None)
    terms, procedure, choice = replace(terms, fold_models=folds), choice.procedure, replace(choice, folds=None)
    attributes |= {"cv_error_": procedure.error, "cv_error_std_": procedure.standard_error}
    if labels:
        attributes |= {"cv_log_loss_": procedure.error * procedure.null_loss, "cv_error_rate_": procedure.error_rate}
    attributes |= {"path_": path, "stop_reason_": path.stop_reason, "n_swaps_": path.n_swaps, "first_stage_": stage}
    attributes |= {"dictionary_": choice.dictionary, "target_": choice.target, "pool_": list(choice.members)}
    attributes |= {"trials_": choice.trials, "rule_": path_settings.rule, "criterion_": "cv", "choice_": choice}
    attributes |= {"categories_": encoder.categories_, "n_candidates_": max(choice.n_candidates, G.shape[1])}
    return design.complete(terms), attributes


def describe_choice(estimator: Any) -> list[str]:
    """Return the lines of a summary about the choice of a model and its terms."""
    choice, basis, listed_inputs = estimator.choice_, estimator.basis_, estimator.recipe_settings.listed_inputs
    tried = "; ".join(f"{title} {errors.min():.3g}" for title, errors in choice.trials.items())
    low, high = np.quantile(choice.procedure.sizes, [0.05, 0.95]).round().astype(int)
    ridge = " fitted to ridge regression on all candidates"
    target = f",{ridge}" if choice.target == "ridge" else ""
    if choice.target == "pooled":
        members = []
        for name, stage, size, weight in choice.members:
            model = f"{size} terms of {name}{ridge if stage == 'ridge' else ''}" if size else "the mean"
            members.append(f"{weight:.2f} x {model}")
        target = f", fitted to a stacked ensemble: {' + '.join(members)}"
    for part in [part for part in parts_of(basis) if isinstance(part, ScreenedPairs)]:
        inputs = f"{len(part.screened_)} inputs of {part.n_features_in_:,}"
        target = f" of the {inputs} that explain the targets best{target}"
    lines = [f"dictionary: {choice.dictionary}{target}"]
    error = f"{estimator.cv_error_:.3g} +- {estimator.cv_error_std_:.2g}"
    if estimator.fitted_terms_.candidates.labels is None:
        lines.append(f"cross-validated error, choice included: {error} of the variance")
    else:
        rate = f"{100 * estimator.cv_error_rate_:.3g} % misclassified, log loss {estimator.cv_log_loss_:.3g}"
        lines.append(f"cross-validated error, choice included: {rate}, {error} of that of the class frequencies")
    lines.append(f"number of terms chosen in bootstrap samples: {low} to {high} in nine of ten")
    lines.append(f"smallest cross-validated error of what was tried: {tried}")
    for part in parts_of(estimator.fitted_terms_.basis):
        if isinstance(part, SmoothBasis) and part.relevance is not None and (part.columns_ < 0).any():
            table = isinstance(basis, Pipeline)
            names = basis[:-1].get_feature_names_out() if table else [f"x{j}" for j in range(part.n_features_in_)]
            order = np.argsort(-part.relevance_, kind="stable")[: np.count_nonzero(part.relevance_)]
            listed = [f"{names[j]} {part.relevance_[j]:.2g}" for j in order[:listed_inputs]]
            more = f" and {len(order) - len(listed)} more" if len(order) > len(listed) else ""
            lines.append(f"ARD relevance (inverse length-scale) of standardised inputs: {', '.join(listed)}{more}")
    if estimator.categories_:
        listed = [f"{name}: {', '.join(map(str, values))}" for name, values in estimator.categories_.items()]
        lines.append(f"one-hot encoded categories: {'; '.join(listed)}")
    return lines


class TermwiseRegressor(CallbackSupportMixin, MultiOutputMixin, RegressorMixin, SelectorModel):
    """Sparse regression on basis functions, with automatic model selection.

    The inputs are standardised and expanded into dictionaries of candidate functions, from plain columns to products of
    two inputs and Gaussians. Terms are selected one by one, either for the targets, for a ridge regression on all
    candidates, or for a stacked ensemble of several models. The dictionary, the target of the selection and the number
    of terms are chosen by cross-validation; the folds run the code of the final fit, with everything that depends on
    the targets learned anew.

    Parameters
    ----------
    size : {"small", "accurate"} or int, default="small"
        Number of terms. "small" is the smallest model whose cross-validated error is within a quarter of a standard
        error of the minimum and that keeps nine tenths of the explained variance, or one with one more term if that is
        more accurate: the median of that size over bootstrap samples, which depends little on the folds. "accurate"
        minimises the cross-validated error. An integer sets the number of terms, if the dictionary has as many.
    dictionary : {"auto", "linear", "additive", "pairs", "smooth", "relevant"}, default="auto"
        Candidate functions:

        - "linear": the inputs;
        - "additive": the inputs and Gaussian bumps of single inputs;
        - "pairs": these and the products of any two of them;
        - "smooth": the inputs and Gaussians of all inputs, isotropic after standardisation;
        - "relevant": the inputs and Gaussians with one length-scale per input (automatic relevance determination, ARD);
          irrelevant inputs are left out;
        - "auto": cross-validates all of them; see Notes for wide tables.
    target : {"auto", "data", "ridge", "pooled"}, default="auto"
        What the terms are selected for and fitted to: the targets ("data"), the predictions of ridge regression on all
        candidates ("ridge"), or those of a stacked ensemble of such models ("pooled"). "auto" cross-validates all of
        them; "pooled" uses the ensemble unless it lowers the error by less than 1 %. "ridge" is available for up to
        1,200 samples and "pooled" for up to 4,000; beyond, the targets themselves are used.
    max_terms : int, default=150
        Maximum number of terms; an integer `size` must not exceed it.
    missing : {"indicator", "error"}, default="indicator"
        Missing values (NaN, None, null) of an input: "indicator" adds the indicator of missing values to the candidates,
        and makes the other functions of the input zero where it is missing; nothing is imputed. "error" refuses them.
    random_state : int, RandomState instance or None, default=0
        Controls the assignment of samples to folds.
    verbose : int, default=0
        Verbosity level: 1 prints a line for each cross-validated model and for each selected term.

    Attributes
    ----------
    dictionary_ : str
        The chosen dictionary; for an ensemble those of its members, such as "pairs and smooth", without dictionaries
        that are contained in another one.
    target_ : {"data", "ridge", "pooled"}
        The chosen target.
    pool_ : list of named tuples
        The members of the stacked ensemble: `name` of the dictionary, `target`, `size` and `weight`. Empty for other
        targets.
    trials_ : dict of str to ndarray
        Cross-validated mean squared error with 0, 1, 2, ... terms, as a share of the variance, for each dictionary and
        target: "pairs", "pairs, ridge", "pairs and smooth, pooled".
    cv_error_ : float
        Error of the whole procedure for new samples, as a share of the variance: cross-validated, and corrected for the
        choice of the best of many models by bootstrapping the out-of-fold errors.
    cv_error_std_ : float
        Its standard error over samples.
    n_candidates_ : int
        Number of distinct candidate functions of all dictionaries that were searched, counted on the largest training
        set of the first cross-validation, or on all samples for the chosen dictionary if that is more.
    categories_ : dict
        The categories of each categorical column.
    choice_ : RecipeChoice
        The result of cross-validation, from which the attributes above are taken.
    first_stage_ : RidgeTarget, EnsembleTarget or None
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
    *Data frames.* Columns of a categorical dtype in pandas and polars frames are one-hot encoded. Missing values raise
    an error that names the columns.

    *Many samples.* Beyond 4,000 samples dictionary, target and size are chosen on a subset of 4,000; beyond 20,000 the
    terms are selected on a subset of 20,000. The weights are always fitted to all samples.

    *Wide tables.* Time and memory grow with samples times columns, and tens of thousands of columns are feasible. With
    more than 100 inputs (a category counts as one) "pairs" screens the inputs: products are formed of 40 of them, 20
    with the largest main effect and 20 with the largest interaction with one of these, so that a pure interaction of
    two inputs without main effects may be missed. Screening is repeated on the training folds. "auto" leaves out
    "pairs" for 64 to 100 inputs, "smooth" for more than 3,000 and "relevant" for more than 100. If the only question is
    which columns matter, `dictionary="linear"` is fastest.

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

    *Stability.* If the sizes chosen in bootstrap samples differ by more than a factor of two, up to 1,000 samples are
    divided into other folds as well, up to four times, and errors are averaged.

    *Interpretation.* "small" prefers terms of one or two inputs, which can be plotted, unless other models are better
    by more than one standard error; `dictionary="pairs"` has only such terms.

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
    basis, fit_intercept, refit_alpha = TableEncoder(), True, "loo"  # fixed here, parameters of `ForwardRegressor`
    selects_terms = streams = any_library = True

    def __init__(
        self,
        size: str | int = "small",
        *,
        dictionary: str = "auto",
        target: Any = "auto",
        max_terms: int = 150,
        missing: str = "indicator",
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        self.size = size
        self.dictionary = dictionary
        self.target = target
        self.max_terms = max_terms
        self.missing = missing
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
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
        """
        terms, attributes = fit_recipe(self, X, y, sample_weight)
        return self._store(terms, **attributes)

    def _cut(self, path: SelectionPath, k: int, terms: FittedTerms) -> tuple[FittedTerms, dict[str, Any]]:
        return cut_recipe(path, k, self.first_stage_, terms.candidates, self.choice_)

    def _summary_lines(self) -> list[str]:
        return describe_choice(self)


class TermwiseClassifier(CallbackSupportMixin, ClassifierMixin, SelectorModel):
    """Sparse classification on basis functions, with automatic model selection.

    The method of `TermwiseRegressor` on labels coded -1 and +1, with one output per class for more than two classes.
    Probabilities are the softmax of the outputs times a slope, which maximises the likelihood of out-of-fold outputs.
    Dictionary, target and size are chosen by the cross-validated log loss.

    Parameters
    ----------
    size : {"small", "accurate"} or int, default="small"
        Number of terms. "small" is the smallest model whose cross-validated log loss is within a quarter of a standard
        error of the minimum, as in `TermwiseRegressor`, "accurate" the one that minimises it. An integer sets the
        number of terms, if the dictionary has as many.
    dictionary : {"auto", "linear", "additive", "pairs", "smooth", "relevant"}, default="auto"
        Candidate functions; see `TermwiseRegressor`.
    target : {"auto", "data", "ridge", "pooled"}, default="auto"
        What the terms are selected for and fitted to; see `TermwiseRegressor`. "auto" is "ridge", since labels are
        noisy, and "pooled" as well if `size` is not "small"; for more than 1,200 samples "data" takes the place of
        "ridge", and for more than 4,000 there is no ensemble.
    max_terms : int, default=150
        Maximum number of terms; an integer `size` must not exceed it.
    missing : {"indicator", "error"}, default="indicator"
        Missing values (NaN, None, null) of an input: "indicator" adds the indicator of missing values to the candidates,
        and makes the other functions of the input zero where it is missing; nothing is imputed. "error" refuses them.
    random_state : int, RandomState instance or None, default=0
        Controls the assignment of samples to folds.
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
    basis, fit_intercept, refit_alpha = TableEncoder(), True, "loo"  # fixed here, parameters of `ForwardRegressor`
    selects_terms = streams = any_library = True

    __init__ = TermwiseRegressor.__init__  # the same parameters

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
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
        """
        terms, attributes = fit_recipe(self, X, y, sample_weight)
        return self._store(terms, **attributes)

    _cut = TermwiseRegressor._cut
    _summary_lines = TermwiseRegressor._summary_lines
