"""A fitted estimator resolved into numbers: its terms and weights, and its criteria along the path and the penalty."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import preprocessing as scaling
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import as_columns, densify, evenly, is_foreign, rows_of, to_host
from termwise._checks import is_frame
from termwise._numerics import SPECTRUM_PLOT_FLOOR
from termwise.basis import LagBasis
from termwise.basis.base import inputs_of_columns, restrict
from termwise.estimators.base import TermModel
from termwise.estimators.data import code_known_labels
from termwise.estimators.refits import find_model
from termwise.linalg.criteria import CRITERIA, misclassified
from termwise.linalg.least_squares import least_squares_problem
from termwise.linalg.spectrum import Spectrum
from termwise.selection.path import tcr_thresholds

Floats = NDArray[np.float64]
Metadata = dict[str, Any]

SIGNIFICANT_DIGITS = 6  # of the numbers in metadata
MAX_SIZES, MIN_SIZES = 60, 12  # sizes of the path whose weights are computed; fewer for many samples and terms
SIZES_FLOPS = 2e9  # budget for those weights, a second or two
PENALTIES = 121  # values of alpha at which criteria are computed
PENALTY_DECADES = 2.0  # by which they reach beyond the eigenvalues, on either side
# Scalers of single columns: effects and centres are shown in the units before them.
SCALERS = (scaling.MaxAbsScaler, scaling.MinMaxScaler, scaling.PowerTransformer, scaling.QuantileTransformer,
           scaling.RobustScaler, scaling.StandardScaler)  # fmt: skip
CRITERION_NAMES = {
    "cv": "cross-validation",
    "loo": "leave-one-out",
    "gcv": "GCV",
    "uev": "UEV",
    "fpe": "FPE",
    "bic": "BIC",
    "one_se": "one standard error",
    "tcr": "TCR",
    "tcr_paper": "TCR, Hagiwara 2014",
    "tcr_sequential": "TCR, sequential",
}


@dataclass(frozen=True)
class ResolvedModel:
    """A fitted model of termwise and what explanations read of it, as NumPy arrays.

    k is the number of chosen terms, q that of outputs. What depends on the samples of the fit is None if the model has
    not stored them.
    """

    given: Any  # the estimator as passed: the model, a search or a pipeline
    model: Any  # the estimator of termwise
    preprocessing: Pipeline | None  # fitted steps in front of the model
    classes: NDArray[Any] | None
    steps: list[Any]  # fitted transformers of the model's basis; the last one yields all candidates
    chosen: NDArray[np.intp]  # (k,)
    weights: Floats  # (q, k)
    intercept: Floats  # (q,)
    n_candidates: int
    two_stage: bool  # whether the terms were selected on a fitted signal instead of the targets
    n_samples: float | None  # sum of the weights of the samples
    sample_weight: Floats | None  # of the samples with positive weight
    std_errors: Floats | None  # (q, k)
    loo_residuals: Floats | None  # (n, q)
    weight_of_rows: Floats | None = None  # (n,), where it is known which samples have weight zero
    read: NDArray[np.intp] | None = None  # encoded columns that the terms take, where these are not all

    @cached_property
    def input_names(self) -> list[str]:
        """Names of the inputs of the model itself."""
        names = getattr(self.model, "feature_names_in_", [f"x{j}" for j in range(self.model.n_features_in_)])
        return [str(name) for name in names]

    @property
    def reads_past(self) -> bool:
        """Whether a prediction reads the rows before its own, so that rows cannot be left out."""
        return any(isinstance(step, LagBasis) for step in self.steps)

    def thin(self, X: Any, max_rows: int) -> Any:
        """At most so many evenly spaced samples, but all of them where a prediction reads the rows before its own."""
        return X if X is None or self.reads_past else rows_of(X, evenly(X.shape[0], max_rows))

    def preprocess(self, X: Any) -> Any:
        """Inputs of the model itself."""
        return X if self.preprocessing is None or X is None else self.preprocessing.transform(X)

    def evaluate(self, U: Any, start: int, terms: Any = slice(None)) -> Floats:
        """Some of the chosen terms, (m, k), from the output of the first `start` steps."""
        U = U if self.read is None else U[:, self.read]
        *steps, last = self.steps[start:] or [None]
        with warnings.catch_warnings():  # columns are in order, also for steps fitted to named ones
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            for step in steps:
                U = step.transform(U)
            if hasattr(last, "take"):
                return to_host(last.take(self.chosen[terms]).transform(U))
            if last is None:
                return to_host(densify(U.to_numpy() if is_frame(U) else U))[:, self.chosen[terms]]
            return to_host(densify(last.transform(U)))[:, self.chosen[terms]]

    def term_names(self, candidates: NDArray[np.intp]) -> list[str]:
        """Names of some candidate terms."""
        if self.model.basis_ is None:
            return [self.input_names[j] for j in candidates]
        basis = restrict(self.model.basis_, candidates)
        if hasattr(basis, "get_feature_names_out"):
            return [str(name) for name in basis.get_feature_names_out()]
        return [f"term{j}" for j in candidates]

    def weights_of_samples(self, n: int) -> Floats:
        """Weights of n samples; ones if it is not known which of them have weight zero."""
        assert self.sample_weight is not None
        if self.weight_of_rows is not None:
            return self.weight_of_rows
        return self.sample_weight if len(self.sample_weight) == n else np.ones(n)


def resolve(estimator: Any, caller: str = "resolve") -> ResolvedModel:
    """Find the fitted model in an estimator, a search or a pipeline, and read all that explanations use of it."""
    preprocessing, model = find_model(estimator)
    if not isinstance(model, TermModel):
        raise TypeError(
            f"estimator must be a fitted estimator of termwise, or a pipeline that ends in one, got {estimator!r}: "
            f"{caller} reads its terms and weights."
        )
    check_is_fitted(model)
    statistics = std_errors = None
    with suppress(ValueError):  # the samples were not stored
        statistics = model.fitted_terms_.statistics.on_host()
        std_errors = model.fitted_terms_.standard_errors()
    return ResolvedModel(
        given=estimator,
        model=model,
        preprocessing=preprocessing,
        classes=getattr(model, "classes_", None),
        steps=steps_of(model.basis_),
        chosen=to_host(model.support_),
        weights=np.atleast_2d(to_host(model.weights_)),
        intercept=np.atleast_1d(to_host(model.intercept_)),
        n_candidates=int(getattr(model, "n_candidates_", model.coef_.shape[-1])),
        two_stage=getattr(model, "first_stage_", None) is not None,
        n_samples=None if statistics is None else statistics.rows.n,
        sample_weight=None if statistics is None else statistics.rows.sample_weight,
        std_errors=std_errors,
        loo_residuals=None if statistics is None else statistics.residuals,
    )


def best_interval(model: Any, X: Any, coverage: float) -> tuple[Any, Any]:
    """Intervals that account for the selection of terms, or intervals given the terms if it was not repeated."""
    given = model.selects_terms and model.fitted_terms_.fold_models is None
    return model.predict_interval(X, coverage=coverage, method="jackknife+" if given else "auto")


def steps_of(transformer: Any) -> list[Any]:
    """The fitted transformers that a basis or a pipeline consists of."""
    steps = [step for _, step in transformer.steps] if isinstance(transformer, Pipeline) else [transformer]
    return [step for step in steps if step is not None and step != "passthrough"]


# -- criteria along the path -------------------------------------------------------------------------------------------


def path_metadata(resolved: ResolvedModel, y: NDArray[Any] | None = None) -> Metadata:
    """Criteria at every size of a path, the size each of them selects, and the weights at some sizes.

    With the labels y, the leave-one-out misclassification rate is among the criteria. Where the model of a size is not
    the one on the path (another penalty, another target), criteria are those of that model.
    """
    model, path, names = resolved.model, resolved.model.path_, resolved.term_names(resolved.model.path_.terms)
    sizes = []
    if hasattr(model, "at"):  # all sizes of a short path, some of a long one, always that of the model
        affordable = int(SIZES_FLOPS / max(1.0, path.n_samples * len(path) ** 2))
        some = evenly(len(path) + 1, int(np.clip(affordable, MIN_SIZES, MAX_SIZES))).tolist()
        sizes = [size_metadata(model.at(k), y, resolved.weight_of_rows) for k in sorted({*some, model.n_terms_})]
    rows = path_rows(path, names)
    refitted = resolved.two_stage or getattr(model, "refit_alpha", None) is not None
    if refitted:
        rows = [{**rows[size["size"]], **size["criteria"], "alpha": size["alpha"]} for size in sizes]
    if resolved.two_stage:  # cost reductions are those of the first stage's signal
        rows = [{k: v for k, v in row.items() if k not in ("reduction", "threshold", "loo_se")} for row in rows]
    error_rates = {size["size"]: size["criteria"].get("loo_error") for size in sizes}
    for row in rows:
        if error_rates.get(row["size"]) is not None:
            row["loo_error"] = error_rates[row["size"]]
    if hasattr(model, "trials_"):  # errors as a share of that of a constant, here in units of the other criteria
        errors, constant = model.trials_[model.choice_.title], error_of_a_constant(path, rows[0])
        for row in rows:
            if row["size"] < len(errors):
                row["cv"] = round_significant(errors[row["size"]] * constant)
    criteria = [name for name in ("cv", *path.criteria, "loo_error") if any(name in row for row in rows)]
    choices = {}
    for name in criteria:
        candidates = [row for row in rows if row.get(name) is not None and (row["size"] or path.fit_intercept)]
        if candidates:
            choices[name] = min((row[name], row["size"]) for row in candidates)[1]
    if len(path) and not refitted:
        choices |= {name: path.choose(name) for name in path.size_criteria}
    inputs = [[resolved.input_names[j] for j in some] for some in inputs_of_columns(model.basis_, path.terms)]
    named = {} if path.error_name == "squared error" else {"error_name": path.error_name}
    found = {"criteria": criteria, "choices": choices, "path": rows, "sizes": sizes}
    return {**found, "path_terms": names, "path_inputs": inputs, **named}


def error_of_a_constant(path: Any, first: Metadata) -> float:
    """Error of the model without terms in the unit of the criteria: of the targets, also where a signal was fitted."""
    if "uev" in first:
        return first["uev"] * (1 - 1 / path.n_samples)  # the variance
    training = path.training
    share = training.samples.sample_weight / training.samples.sample_weight.sum()
    return float(share @ training.models.losses[0].error(training.samples.Y, training.null_eta))


def path_rows(path: Any, names: list[str]) -> list[Metadata]:
    """Criteria of each size, the term added there, its cost reduction and that expected of noise (TCR)."""
    rows: list[Metadata] = []
    thresholds = tcr_thresholds(path) if len(path) else np.empty(0)
    for k, step in enumerate(path.steps):
        values = {name: round_significant(getattr(step, name)) for name in (*path.criteria, "loo_se", "dof", "alpha")}
        rows.append({"size": k, "term": names[k - 1] if k else None, **values})
        if k:
            reductions = {"reduction": step.reduction, "threshold": thresholds[k - 1]}
            rows[k] |= {name: round_significant(value) for name, value in reductions.items()}
    return rows


def size_metadata(model: Any, y: NDArray[Any] | None, weight_of_rows: Floats | None) -> Metadata:
    """Weights, standard errors and criteria of a model at one size of its path."""
    resolved = replace(resolve(model), weight_of_rows=weight_of_rows)
    criteria = {name: round_significant(value) for name, value in model.criteria_.items()}
    if y is not None and resolved.classes is not None and resolved.loo_residuals is not None:
        Y, weight = as_columns(code_known_labels(resolved.classes, y)), resolved.weights_of_samples(len(y))
        wrong = misclassified(Y - resolved.loo_residuals, Y)
        criteria["loo_error"] = round_significant(weight @ wrong / weight.sum())
    return {
        "size": model.n_terms_,
        "weights": round_significant(resolved.weights),
        "std_errors": None if resolved.std_errors is None else round_significant(resolved.std_errors),
        "intercept": round_significant(resolved.intercept),
        "dof": round_significant(model.effective_dof_),
        "alpha": round_significant(getattr(model, "alpha_", np.nan)),
        "criteria": criteria,
    }


# -- criteria along the penalty ----------------------------------------------------------------------------------------


def penalty_curves(resolved: ResolvedModel, X: Any, y: NDArray[Any]) -> dict[str, list[float]]:
    """Every criterion of a ridge regression at many penalties, from the samples of the fit."""
    model = resolved.model
    G = np.asarray(densify(X if model.basis_ is None else model.basis_.transform(X)), dtype=np.float64)
    weight = resolved.weights_of_samples(len(y))
    used = weight > 0
    spectrum = Spectrum(least_squares_problem(G[used], as_columns(y)[used], weight[used], model.fit_intercept))
    mu = spectrum.mu[spectrum.mu > 0]
    ends = np.log10([max(mu.min(), SPECTRUM_PLOT_FLOOR * mu.max()), mu.max()]) if len(mu) else np.array([-3.0, 3.0])
    if 0 < model.alpha_ < np.inf:
        ends = np.append(ends, np.log10(model.alpha_))
    alphas = np.logspace(ends.min() - PENALTY_DECADES, ends.max() + PENALTY_DECADES, PENALTIES)
    _, residual_dof = spectrum.moments(alphas)
    curves = {name: spectrum.score(name, alphas) for name in CRITERIA}
    numbers = {"alpha": alphas, "dof": spectrum.problem.rows.n - residual_dof, **curves}
    return {name: round_significant(values) for name, values in numbers.items()}


# -- plain data --------------------------------------------------------------------------------------------------------


def as_numpy(values: Any) -> NDArray[Any]:
    """Targets or predictions of any array library as a NumPy array."""
    return np.asarray(to_host(values) if is_foreign(values) else values)


def round_significant(values: ArrayLike, digits: int = SIGNIFICANT_DIGITS) -> Any:
    """Numbers as floats, or nested lists of them, with some significant digits; None where one is not finite."""
    round_one = np.vectorize(lambda value: float(f"{value:.{digits - 1}e}"), otypes=[np.float64])
    return to_plain(round_one(np.asarray(as_numpy(values), dtype=np.float64)))


def to_plain(value: Any) -> Any:
    """Any value as JSON can hold it: numbers as they are, None for those that are not finite, strings for the rest."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [to_plain(item) for item in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, str | bool | int) else str(value)
