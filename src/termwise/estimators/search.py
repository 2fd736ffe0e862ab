"""Grid search by the closed-form criterion of each fit, without cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from termwise._checks import check_number, warn
from termwise.estimators.base import (
    Predictor,
    TermModel,
    diagram_with_summary,
    freeze_model,
    mimebundle_with_summary,
)


class Outcome(NamedTuple):
    """The fit of one candidate."""

    estimator: Any  # fitted; None if that failed
    value: float
    n_terms: int | None
    seconds: float
    error: str
    criterion: str = ""  # name of the criterion, with the loss where it is not the squared one; "" if not known


def configure(estimator: Any, params: dict[str, Any]) -> Any:
    """Return an unfitted copy with these parameters."""
    candidate = clone(estimator)
    try:
        return candidate.set_params(**{name: clone(value, safe=False) for name, value in params.items()})
    except (AttributeError, TypeError, ValueError):  # unknown, of a part that is None, or not a string
        names = ", ".join(sorted(candidate.get_params()))
        raise ValueError(
            f"param_grid must name parameters of the estimator, got {', '.join(map(repr, params))} for {candidate!r}: "
            f"it has {names}."
        ) from None


def fit_candidate(estimator: Any, params: dict[str, Any], X: Any, y: Any, fit_params: dict[str, Any]) -> Outcome:
    """Fit one candidate; of a pipeline the last step has the criterion. A failed fit gives an outcome, too."""
    start = perf_counter()
    try:
        fitted = configure(estimator, params).fit(X, y, **fit_params)
    except ValueError as error:  # NumPy's LinAlgError is one
        return Outcome(None, np.inf, None, perf_counter() - start, str(error) or repr(error))
    model = fitted[-1] if isinstance(fitted, Pipeline) else fitted
    value = getattr(model, "criterion_value_", None)
    if value is None:
        raise TypeError(
            f"estimator must have a criterion_value_ once it is fitted, got {type(model).__name__}, which has none: "
            "use an estimator of termwise, or scikit-learn's GridSearchCV."
        )
    criterion = ""
    if isinstance(model, TermModel):
        loss = getattr(model, "loss_", "squared")
        criterion = model.fitted_terms_.statistics.criterion + (f" with loss={loss!r}" if loss != "squared" else "")
    return Outcome(fitted, float(value), getattr(model, "n_terms_", None), perf_counter() - start, "", criterion)


def check_outcomes(candidates: list[dict[str, Any]], outcomes: list[Outcome]) -> None:
    """Warn of failures, of several criteria and if none is finite; raise if no candidate could be fitted."""
    n, failed = len(outcomes), [i for i, outcome in enumerate(outcomes) if outcome.error]
    first = f"the first, {candidates[failed[0]]}, with: {outcomes[failed[0]].error}" if failed else ""
    if len(failed) == n:
        raise ValueError(f"param_grid must hold a candidate that can be fitted, but all {n} failed, {first}")
    if failed:
        message = f"{len(failed)} of {n} candidates could not be fitted and rank last, {first}"
        warn(message, FitFailedWarning)
    criteria = dict.fromkeys(outcome.criterion for outcome in outcomes if outcome.criterion)
    if len(criteria) > 1:
        warn(
            f"param_grid must give all candidates the same criterion, got {' and '.join(criteria)}: their values have "
            "no common scale, and the best of them means little; search for each criterion.",
            UserWarning,
        )
    if not any(np.isfinite(outcome.value) for outcome in outcomes):
        warn(
            f"no candidate has a finite criterion_value_, got {outcomes[0].value} for the first: the best model is "
            "merely the first that could be fitted; look for degenerate data or parameters.",
            RuntimeWarning,
        )


def tabulate(candidates: list[dict[str, Any]], outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the columns of `results_`."""
    table: dict[str, Any] = {"params": candidates}
    for name in sorted({name for params in candidates for name in params}):
        table[f"param_{name}"] = masked_column([params.get(name, np.ma.masked) for params in candidates])
    table["criterion_value"] = np.array([outcome.value for outcome in outcomes])
    table["n_terms"] = masked_column([np.ma.masked if o.n_terms is None else o.n_terms for o in outcomes])
    table["fit_seconds"] = np.array([outcome.seconds for outcome in outcomes])
    table["error"] = np.array([outcome.error for outcome in outcomes])
    return table


def masked_column(values: list[Any]) -> np.ma.MaskedArray:
    """Return a masked array of numbers if all values are numbers, else of objects."""
    mask = [value is np.ma.masked for value in values]
    given = [value for value in values if value is not np.ma.masked]
    numbers = all(isinstance(value, Real) for value in given) and len({isinstance(value, bool) for value in given}) == 1
    data = np.zeros(len(values), dtype=np.array(given).dtype if numbers else object)
    for i in np.flatnonzero(~np.array(mask)):
        data[i] = values[i]
    return np.ma.MaskedArray(data, mask)


def _model_has(name: str) -> Callable[[Any], bool]:
    def check(search: CriterionSearch) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)  # raises its own error
        return True

    return check


def _delegated(name: str, purpose: str) -> Any:
    def method(self: CriterionSearch, *args: Any, **kwargs: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.best_estimator_, name)(*args, **kwargs)

    method.__name__, method.__qualname__ = name, f"CriterionSearch.{name}"
    method.__doc__ = f"{purpose}\n\n        Calls `{name}` of `best_estimator_` with the same `args` and `kwargs`."
    return available_if(_model_has(name))(method)


class CriterionSearch(MetaEstimatorMixin, BaseEstimator):
    """Search over a grid of parameters, ranking each fit by its own closed-form criterion.

    Like scikit-learn's `GridSearchCV`, but each candidate is fitted once, to all the data, and ranked by its
    `criterion_value_`, the smaller the better. There is no cross-validation and no refit. Its main use is the width of
    radial basis functions.

    Parameters
    ----------
    estimator : estimator
        Has a `criterion_value_` once it is fitted, as those of termwise do, or is a pipeline that ends in one. All
        candidates should have the same criterion: a grid over `alpha="gcv"` and `alpha="loo"` has no common scale,
        of which a warning reminds.
    param_grid : dict of lists, or list of such dicts
        Values to try for each parameter, nested ones as `basis__width`; of a list, each grid in turn.
    n_jobs : int or None, default=None
        How many candidates to fit in parallel, -1 for one per core; None means 1 unless in joblib's `parallel_config`.
    verbose : int, default=0
        1 prints one line per candidate.

    Attributes
    ----------
    best_estimator_ : estimator
        The best of the fitted candidates; ties go to the first.
    best_params_ : dict
        Its parameters.
    best_index_ : int
        Its place in `results_`.
    best_criterion_, criterion_value_ : float
        Its criterion.
    results_ : dict
        One entry per candidate: `params` (a list of dicts), `param_NAME` for each parameter (masked where it is not
        in the candidate's grid), `criterion_value` (infinite for a fit that failed), `n_terms`, `fit_seconds` and
        `error` (empty, or why the fit failed). Ready for `pandas.DataFrame(search.results_)`.
    n_terms_, classes_, n_features_in_, feature_names_in_
        Those of `best_estimator_`, where it has them.

    See Also
    --------
    BasisRidge : Chooses the penalty itself, exactly.

    Notes
    -----
    A candidate whose fit raises ValueError ranks last, after those whose criterion is not finite, and a warning is
    raised at the end. Only the best model so far is kept: memory does not grow with the grid.

    Examples
    --------
    >>> from termwise import BasisRidge, RadialBasis, datasets
    >>> from termwise import CriterionSearch
    >>> X, y = datasets.make_hermite(random_state=1)
    >>> search = CriterionSearch(BasisRidge(RadialBasis(), alpha="loo"), {"basis__width": [0.1, 1.0, 10.0]}).fit(X, y)
    >>> search.best_params_
    {'basis__width': 1.0}
    >>> search.predict(X[:2]).shape
    (2,)
    """

    _repr_html_ = property(diagram_with_summary)
    _repr_mimebundle_ = mimebundle_with_summary

    def __init__(self, estimator: Any, param_grid: Any, n_jobs: int | None = None, verbose: int = 0) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def get_metadata_routing(self) -> MetadataRouter:
        """Route metadata such as sample weights straight to the estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit").add(caller="score", callee="score")
        return MetadataRouter(owner=type(self).__name__).add(estimator=self.estimator, method_mapping=mapping)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Fit every candidate and keep the best.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs, whatever the estimator takes.
        y : array-like of shape (n,) or (n, q)
            Targets.
        **fit_params : dict
            Passed to the estimator's `fit`, `sample_weight` for example.
        """
        candidates = self._check()
        if effective_n_jobs(self.n_jobs) == 1:  # joblib would keep a model longer than it is needed
            fits = (fit_candidate(self.estimator, params, X, y, fit_params) for params in candidates)
        else:
            tasks = (delayed(fit_candidate)(self.estimator, params, X, y, fit_params) for params in candidates)
            fits = Parallel(n_jobs=self.n_jobs, return_as="generator")(tasks)
        outcomes: list[Outcome] = []
        best_rank, index = (True, True, 0.0), 0
        best: Any = None
        for outcome in fits:  # finite criteria rank first, then fits without one, then failures
            finite = bool(np.isfinite(outcome.value))
            rank = outcome.estimator is None, not finite, outcome.value if finite else 0.0
            if rank < best_rank:
                best, best_rank, index = outcome.estimator, rank, len(outcomes)
            outcomes.append(outcome._replace(estimator=None))
            if self.verbose:
                result = f"failed: {outcome.error}" if outcome.error else f"criterion {outcome.value:.6g}"
                print(f"{candidates[len(outcomes) - 1]}  {outcome.seconds:.2f} s  {result}")
            del outcome  # or the last model would stay in memory while the next one is fitted
        check_outcomes(candidates, outcomes)
        self.results_ = tabulate(candidates, outcomes)
        self.best_estimator_, self.best_index_, self.best_params_ = best, index, candidates[index]
        self.best_criterion_ = self.criterion_value_ = outcomes[index].value
        for name in ("n_terms_", "classes_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(best, name):
                setattr(self, name, getattr(best, name))
        return self

    @available_if(_model_has("score"))
    def score(self, X: ArrayLike, y: ArrayLike | None = None, **kwargs: Any) -> float:
        """Score the best model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, d)
            Inputs.
        y : array-like of shape (m,) or (m, q)
            Targets.
        **kwargs : dict
            Passed to the estimator's `score`, `sample_weight` for example.
        """
        check_is_fitted(self)
        return self.best_estimator_.score(X, y, **kwargs)

    predict = _delegated("predict", "Predict with the best model.")
    predict_interval = _delegated("predict_interval", "Intervals for new observations from the best model.")
    predict_proba = _delegated("predict_proba", "Probabilities of the classes from the best model.")
    predict_log_proba = _delegated("predict_log_proba", "Logarithms of the probabilities from the best model.")
    decision_function = _delegated("decision_function", "Scores of the classes from the best model.")
    transform = _delegated("transform", "Transform inputs with the best model.")
    inverse_transform = _delegated("inverse_transform", "Undo a transformation by the best model.")
    get_support = _delegated("get_support", "Columns that the best model selects.")
    get_feature_names_out = _delegated("get_feature_names_out", "Names of the columns the best model transforms to.")
    summary = _delegated("summary", "Describe the best model in words and numbers.")

    @property
    def predictor_(self) -> Predictor:
        """The best model without its training data, to be saved and exported: a `Predictor`."""
        check_is_fitted(self)
        return freeze_model(self.best_estimator_)

    def _check(self) -> list[dict[str, Any]]:
        """Return the candidates, or raise on the first bad parameter before anything is fitted."""
        estimator = self.estimator
        if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "set_params")):
            raise TypeError(
                f"estimator must be an instance of a scikit-learn estimator, got {estimator!r}: give one such as "
                "BasisRidge(RadialBasis())."
            )
        remedy = "-1 uses all cores, None leaves it to joblib"
        if self.n_jobs is not None and check_number("n_jobs", self.n_jobs, integer=True, remedy=remedy) == 0:
            raise ValueError(f"n_jobs must be a whole number other than 0, or None, got 0: {remedy}.")
        check_number("verbose", self.verbose, low=0, integer=True, remedy="0 is silent, 1 prints a line per candidate")
        requirement = f"param_grid must be a dict of lists or a list of such dicts, got {self.param_grid!r}"
        try:
            candidates = list(ParameterGrid(self.param_grid))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{requirement}: {error}") from None
        if not any(candidates):
            raise ValueError(f"{requirement}, which is empty: name a parameter and the values to try.")
        for params in candidates:
            configure(estimator, params)
        return candidates
