"""Base classes of the estimators: the end of a fit, public methods of fitted models, callbacks, summaries."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import at, from_host, is_foreign, namespace, to_host
from termwise._checks import UnavailableError, check_choice, check_number, is_dask
from termwise.deploy.predictor import Predictor as Predictor
from termwise.estimators.data import check_inputs
from termwise.estimators.prediction import (
    clipped_inputs,
    design_of,
    fold_models_for_intervals,
    map_partitions,
    needs_fold_models,
    one_result,
    predict_outputs,
    worker_copy,
)
from termwise.fitted import Candidates, FittedTerms, Labels
from termwise.linalg.calibration import class_scores
from termwise.linalg.conformal import check_interval
from termwise.selection.path import SelectionPath

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Placeholder for versions without callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


LISTED_INPUTS = 10  # that a summary names


def step_callback(estimator: Any, max_steps: int | None) -> Callable[[], bool]:
    """Begin a fit of at most `max_steps` steps (None: unknown); return a function to call after each, True to stop.

    Calls scikit-learn's callbacks (from 1.9 on: progress bars, early stopping); `_store` ends the fit.
    """
    if not hasattr(estimator, "_init_callback_context"):
        return lambda: False
    context = estimator._init_callback_context(max_subtasks=max_steps)
    context.call_on_fit_task_begin(estimator=estimator)

    def after_step() -> bool:
        step = context.subcontext(task_name="term")
        step.call_on_fit_task_begin(estimator=estimator)
        return bool(step.call_on_fit_task_end(estimator=estimator))

    return after_step


def freeze_model(model: Any) -> Predictor:
    """Return the predictor of a fitted model; one that cannot be stored has no such attribute."""
    try:
        return Predictor.from_estimator(model)
    except (TypeError, ValueError) as error:
        raise UnavailableError(str(error)) from error


def diagram_with_summary(model: Any) -> Callable[[], str]:
    """Return the function that notebooks call; there is none with `sklearn.set_config(display="text")`."""
    from termwise.explain.summary import summary_html  # built from estimators

    diagram = BaseEstimator._repr_html_.fget(model)
    return lambda: diagram() + summary_html(model)


def mimebundle_with_summary(model: Any, **kwargs: Any) -> dict[str, str]:
    """Return the representations of a model by their media types."""
    from termwise.explain.summary import summary_html  # built from estimators

    bundle = BaseEstimator._repr_mimebundle_(model, **kwargs)
    if "text/html" in bundle:
        bundle["text/html"] += summary_html(model)
    return bundle


class TermModel(BaseEstimator):
    """A model linear in its terms, once fitted: a shell around `fitted_terms_`.

    A subclass has the parameters `basis` and `fit_intercept` and a `fit` that ends with `_store`. The class variables
    declare its capabilities.
    """

    basis: Any
    fit_intercept: bool
    fitted_terms_: FittedTerms
    path_: SelectionPath  # of models with a selection path
    n_terms_: int
    _truncate: Callable[[SelectionPath, int, Candidates], tuple[FittedTerms, dict[str, Any]]]  # truncate at a size
    default_basis: ClassVar[Any] = None  # the kind of basis that basis="auto" chooses
    keeps_sparse: ClassVar[bool] = False  # a sparse design matrix stays sparse
    streams: ClassVar[bool] = False  # the design matrix may be computed in tiles or read from a file
    any_library: ClassVar[bool] = False  # computes on the device of arrays of other libraries
    selects_terms: ClassVar[bool] = False  # the targets decide which terms are in the model
    selection_cv: Any = None  # a parameter of models that can repeat their selection of terms in folds
    _repr_html_ = property(diagram_with_summary)
    _repr_mimebundle_ = mimebundle_with_summary

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        basis = self.default_basis if isinstance(self.basis, str) else self.basis
        inputs = get_tags(basis).input_tags if hasattr(basis, "__sklearn_tags__") else None
        tags.input_tags.sparse = basis is None or (inputs is not None and inputs.sparse)
        refuses = getattr(self, "missing", "indicator") == "error"
        tags.input_tags.allow_nan = inputs is not None and inputs.allow_nan and not refuses
        tags.array_api_support = self.any_library and (basis is None or getattr(basis, "any_library", False))
        return tags

    def _store(self, terms: FittedTerms, **attributes: Any) -> Self:
        """End a fit: replace all fitted attributes at once, so that a fit that fails leaves the former model."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        candidates = terms.candidates
        self.n_features_in_ = candidates.n_features
        if candidates.input_names is not None:
            self.feature_names_in_ = candidates.input_names
        if candidates.labels is not None:
            self.classes_ = candidates.labels.classes
        self._set_terms(terms, **attributes)
        context = getattr(self, "_callback_fit_ctx", None)
        if context is not None:
            context.call_on_fit_task_end(estimator=self)
        return self

    def _set_terms(self, terms: FittedTerms, **attributes: Any) -> Self:
        """Set the fitted attributes that depend on the chosen terms."""
        weights = terms.weights
        coef = np.zeros((weights.shape[1], terms.candidates.n_candidates), dtype=terms.candidates.dtype)
        coef[:, terms.chosen] = to_host(weights).T
        self.fitted_terms_, self.basis_ = terms, terms.candidates.basis
        self.support_, self.n_terms_ = from_host(terms.chosen, weights), len(terms.chosen)
        self.weights_ = terms.squeeze(weights.T, axis=0)
        self.coef_ = terms.squeeze(from_host(coef, weights), axis=0)
        self.intercept_ = terms.squeeze(terms.intercept, axis=0)
        for name, value in attributes.items():
            setattr(self, name, value)
        return self

    # -- prediction ----------------------------------------------------------------------------------------------------

    def predict(self, X: ArrayLike, return_std: bool = False, return_clipped: bool = False) -> Any:
        """Predict the targets, or the classes of a classifier.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask array or Dask data frame of shape (m, d)
            Inputs.
        return_std : bool, default=False
            Of a regressor, also return the standard error of the fitted function given the terms, from the covariance
            of the weights. A new observation has variance `std**2 + noise_variance_` around the prediction.
        return_clipped : bool, default=False
            Also return, as the last result, which rows have an input outside the range of the training data, for which
            a term was evaluated at the boundary of that range (`extrapolation` of the basis).

        Returns
        -------
        y : ndarray of shape (m,) or (m, q)
            Predictions; a Dask array, to be computed later, for Dask inputs.
        std : ndarray of the same shape
            Standard errors; only with `return_std=True`.
        clipped : ndarray of bool of shape (m,)
            Rows with a clipped input; only with `return_clipped=True`.
        """
        if return_clipped:
            predicted = self.predict(X, return_std)
            return (*(predicted if return_std else [predicted]), clipped_inputs(self, X))
        labels = self._fitted().candidates.labels
        if labels is None:
            return predict_outputs(self, X, return_std, responses=True)
        if return_std:
            raise ValueError(
                "return_std must be False for a classifier, got True: use decision_function or predict_proba."
            )
        scores = predict_outputs(self, X)
        if is_dask(scores):
            dropped = list(range(1, scores.ndim))
            return scores.map_blocks(labels.decide, dtype=labels.classes.dtype, drop_axis=dropped)
        return labels.decide(scores)

    def linear_predictor(self, X: ArrayLike) -> NDArray[Any]:
        """Return the weighted sum of the terms and the intercept: what the link of a loss is applied to.

        The logarithm of predicted means with `loss="poisson"` and "gamma", and the scores of a classifier; otherwise
        the predictions.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask array or Dask data frame of shape (m, d)
            Inputs; the result is a Dask array for those of Dask.
        """
        self._fitted()
        return predict_outputs(self, X)

    @available_if(lambda model: isinstance(model, ClassifierMixin))
    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Return the score of a classifier: positive for the second class, or one column per class.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask array or Dask data frame of shape (m, d)
            Inputs; the result is a Dask array for those of Dask.
        """
        return self.linear_predictor(X)

    def _has_probabilities(self) -> bool:
        """Whether a classifier has, or will have, probabilities; raise with the remedy if it was fitted without."""
        if not isinstance(self, ClassifierMixin):
            return False
        terms = getattr(self, "fitted_terms_", None)
        if terms is None:
            folds = "selection_cv" not in self.get_params(deep=False) or self.selection_cv is not None
            return folds or self._has_likelihood()
        if terms.candidates.labels.slope is None:
            raise AttributeError(
                f"predict_proba requires scores of samples that {type(self).__name__} was fitted without, got a model "
                "without any: fit it with selection_cv=10, and do not truncate it with at(), or use loss='logistic'."
            )
        return True

    def _has_likelihood(self) -> bool:
        """Whether a classifier will have probabilities without calibration."""
        return False

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class.

        Those of the likelihood for the logistic loss. After a fit with `selection_cv`, the softmax of the scores times
        a slope; the slope and a shift of the intercept are those under which labels of samples that the model was not
        fitted to are most likely (Platt scaling). The class predicted is the most probable one. With the squared loss
        `ForwardClassifier`, and `PrefilterClassifier`, have probabilities only if fitted with `selection_cv`.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Inputs.
        """
        logarithms = self.predict_log_proba(X)
        return namespace(logarithms).exp(logarithms)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like of shape (m, d)
            Inputs.
        """
        labels = self._fitted().candidates.labels
        assert labels is not None
        scores = self.decision_function(X)
        logarithms = log_softmax(labels.slope * class_scores(to_host(scores)), axis=1)
        return from_host(logarithms, scores) if is_foreign(scores) else logarithms

    def predict_interval(
        self,
        X: ArrayLike,
        coverage: float = 0.9,
        method: str = "auto",
        side: str = "two-sided",
        normalised: bool = False,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Prediction intervals for new observations, by CV+ or jackknife+.

        "jackknife+" uses the closed-form leave-one-out fits (Barber, Candes, Ramdas and Tibshirani 2021). Whatever the
        distribution of the data, samples that are exchangeable with those of the fit fall inside with probability at
        least `2 coverage - 1`, and in practice with about `coverage`, if terms and penalties were fixed beforehand; if
        terms were selected from many candidates, its intervals are too narrow. "cv+" uses models that were fitted
        without a fold, selection of terms included, and their residuals on that fold; it has about the nominal
        coverage in either case. Too few samples for the coverage asked for (fewer than about `1 / (1 - coverage)`) make
        the interval infinite.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask array or Dask data frame of shape (m, d)
            Inputs.
        coverage : float, default=0.9
            Nominal coverage, between 0 and 1.
        method : {"auto", "cv+", "jackknife+"}, default="auto"
            "auto" is "cv+" if the targets decided which terms are in the model, and "jackknife+" otherwise. "cv+" needs
            a model fitted with `selection_cv`, or one with a cross-validation of its own.
        side : {"two-sided", "lower", "upper"}, default="two-sided"
            "lower" and "upper" give a bound with the coverage asked for; the other end is infinite.
        normalised : bool, default=False
            Whether the width varies with the size of the residuals, for heteroscedastic noise: the logarithm of their
            absolute values is regressed on the terms of the model, without the fold. Requires "cv+".

        Returns
        -------
        lower, upper : ndarrays of shape (m,) or (m, q)
            Ends of the intervals.
        """
        check_interval(coverage, side, normalised)
        check_choice("method", method, ["auto", "cv+", "jackknife+"], remedy="'auto' accounts for selected terms")
        terms = self._fitted()
        folds = fold_models_for_intervals(self, method)
        if folds is None and normalised:
            raise ValueError(
                "normalised=True requires intervals by 'cv+', got 'jackknife+': use a model that selects its terms, "
                "fitted with selection_cv=10."
            )
        if is_dask(X):
            model, method = (self, "jackknife+") if folds is None else (worker_copy(self, with_folds=True), "cv+")
            ends = partial(model.predict_interval, coverage=coverage, method=method, side=side, normalised=normalised)
            lower, upper = (map_partitions(self, partial(one_result, ends, i), X) for i in (0, 1))
            return lower, upper
        if folds is None:
            return terms.interval(design_of(self, X), coverage, side)
        inputs = check_inputs(self, X, terms.candidates.basis, reset=False)
        return terms.cv_interval(inputs, coverage, side, normalised)

    # -- fitted attributes ---------------------------------------------------------------------------------------------

    @property
    def effective_dof_(self) -> float:
        """Effective number of parameters given the terms, intercept included."""
        return self._fitted().statistics.solution.dof

    @property
    def noise_variance_(self) -> Any:
        """Estimated noise variance of each output, `sse / (n - dof)`; the dispersion for a loss other than squared."""
        terms = self._fitted()
        return terms.squeeze(terms.noise_variance, axis=0)

    @property
    def loo_residuals_(self) -> NDArray[np.float64]:
        """Leave-one-out residuals of all samples, given the terms."""
        terms = self._fitted()
        return terms.squeeze(terms.loo_residuals(), axis=1)

    @property
    def criteria_(self) -> dict[str, float]:
        """Values of all criteria, averaged over the outputs."""
        return dict(self._fitted().statistics.criteria)

    @property
    def criterion_value_(self) -> float:
        """Value of the criterion the model is judged by."""
        statistics = self._fitted().statistics
        return statistics.criteria[statistics.criterion]

    @property
    def weights_cov_(self) -> NDArray[np.float64]:
        """Covariance of the weights given the terms, of shape (k, k), or (q, k, k) for several outputs.

        See Orr, appendix A.5. The noise variance is `noise_variance_`; the choice of penalties and terms by the targets
        is not accounted for.
        """
        terms = self._fitted()
        cov = terms.statistics.solution.unit_cov()
        return terms.squeeze(from_host(terms.noise_variance, cov)[:, None, None] * cov, axis=0)

    @property
    def selection_frequency_(self) -> NDArray[np.float64]:
        """Share of the fold models that use each input, of shape (d,).

        Of models fitted with `selection_cv`, and of those with a cross-validation of their own. A term counts for all
        inputs it depends on.
        """
        folds = self._fitted().fold_models
        if folds is None:
            raise AttributeError(needs_fold_models(self, "selection_frequency_"))
        return folds.selection_frequency()

    @property
    def predictor_(self) -> Predictor:
        """The model without its training data, to be saved and exported: a `Predictor`."""
        self._fitted()
        return freeze_model(self)

    def _fitted(self) -> FittedTerms:
        if not hasattr(self, "fitted_terms_"):  # much cheaper than the check itself, for predictions of single rows
            check_is_fitted(self)
        return self.fitted_terms_

    @available_if(lambda model: hasattr(model, "_truncate"))
    def at(self, n_terms: int) -> Self:
        """Return the same model truncated at another size of its path, without refitting.

        At another size than its own a model fitted with `selection_cv` has no fold models: its `predict_interval` needs
        `method="jackknife+"`, and there are no `selection_frequency_` and no calibrated probabilities.

        Parameters
        ----------
        n_terms : int
            Number of terms, at most the length of the path.
        """
        check_is_fitted(self)
        length = len(self.path_)
        check_number("n_terms", n_terms, low=0, below=length + 1, integer=True, remedy=f"the path has {length} terms")
        if n_terms == self.n_terms_:
            return copy.copy(self)
        former = self.fitted_terms_
        candidates, labels = former.candidates, former.candidates.labels
        if labels is not None:
            candidates = replace(candidates, labels=Labels(labels.classes))
        terms, attributes = self._truncate(self.path_, n_terms, candidates)
        terms = terms if former.unused is None else former.unused.complete(terms)
        return copy.copy(self)._set_terms(replace(terms, sample=former.sample, unused=former.unused), **attributes)

    # -- description ---------------------------------------------------------------------------------------------------

    def summary(self, max_terms: int = 20) -> str:
        """Describe the fit in words and numbers; standard errors are given the terms.

        Terms are grouped into effects by the inputs they depend on; see `termwise.diagnostics.effects_table`. The
        effects are listed first, with the number of terms that contribute to each and its share of the variance, then
        the terms in the order of the effects. Where each input has one term, which is its effect, terms alone are
        listed.

        Parameters
        ----------
        max_terms : int, default=20
            How many terms to list, and how many effects: of an effect, terms with the largest ratio of weight to
            standard error first.
        """
        from termwise.explain.summary import larger_sizes, size_lines, summary_effects  # built from estimators

        check_number("max_terms", max_terms, low=1, integer=True, remedy="list at least one term")
        terms, criteria = self._fitted(), self.criteria_
        noise = np.sqrt(np.mean(terms.noise_variance))
        searched = getattr(self, "n_candidates_", terms.candidates.n_candidates)
        size = f"{self.n_terms_} of {searched} terms, {terms.statistics.rows.n:g} samples"
        squared = getattr(self, "loss_", "squared") == "squared"
        spread = f"noise {noise:.4g} (standard deviation)" if squared else f"dispersion {noise**2:.4g}"
        lines = [
            f"{type(self).__name__}: {size}",
            *self._summary_lines(),
            *(f"size {line}" for line in size_lines(larger_sizes(self))),
            f"effective parameters {self.effective_dof_:.4g}, {spread}",
            "error estimates: " + "  ".join(f"{name} {value:.4g}" for name, value in criteria.items()),
        ]
        effects, groups = summary_effects(self, max_terms)
        return "\n".join(lines + self._frequency_lines() + effects + terms.table(max_terms, groups))

    def _frequency_lines(self) -> list[str]:
        """The inputs that most fold models use."""
        folds = self.fitted_terms_.fold_models
        if folds is None:
            return []
        frequency = self.selection_frequency_
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        order = np.argsort(-frequency, kind="stable")[: np.count_nonzero(frequency)]
        listed = [f"{names[j]} {frequency[j]:.0%}" for j in order[:LISTED_INPUTS]] or ["none"]
        more = f" and {len(order) - LISTED_INPUTS} more" if len(order) > LISTED_INPUTS else ""
        return [f"inputs used by the models of {len(folds.models)} folds: {', '.join(listed)}{more}"]

    def _summary_lines(self) -> list[str]:
        """Lines an estimator adds to the summary after the first."""
        return []


class SelectorModel(TransformerMixin, TermModel):
    """A model that is also a transformer: it selects the columns of its terms."""

    def get_support(self, indices: bool = False) -> NDArray[Any]:
        """Return which candidates are in the model.

        Parameters
        ----------
        indices : bool, default=False
            Return their indices, in ascending order, instead of a mask.
        """
        terms = self._fitted()
        mask = np.zeros(terms.candidates.n_candidates, dtype=bool)
        mask[terms.chosen] = True
        return np.flatnonzero(mask) if indices else mask

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the columns of the chosen terms, in the order of the candidates.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask array or Dask data frame of shape (m, d)
            Inputs; the result is a Dask array for those of Dask.
        """
        terms = self._fitted()
        if is_dask(X):
            return map_partitions(self, worker_copy(self).transform, X, self.n_terms_)
        return at(design_of(self, X), np.argsort(terms.chosen), axis=1)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the chosen terms, in the order of the candidates.

        Parameters
        ----------
        input_features : ignored
            Present for scikit-learn's conventions.
        """
        terms = self._fitted()
        return np.array(terms.names, dtype=object)[np.argsort(terms.chosen)]
