"""Forward estimators with a loss other than the squared one: which loss applies, the path, and its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import as_columns, from_host, is_foreign, to_host
from termwise._checks import (
    check_choice,
    check_counts,
    check_labels,
    check_number,
    check_targets,
    is_dask,
    is_one_of,
)
from termwise.design import Design
from termwise.design.files import RowFile
from termwise.estimators.design import DesignData
from termwise.fitted import Candidates, FitStatistics, FittedTerms, Labels
from termwise.linalg.least_squares import WeightedRows
from termwise.linalg.losses import LINKS, LOSSES, Loss, Multinomial, Quantile
from termwise.selection.engine import Settings
from termwise.selection.glm import null_model
from termwise.selection.glm_path import GlmPath, select_glm_terms
from termwise.selection.path import SelectionPath

Floats = NDArray[np.float64]

REGRESSOR_LOSSES = ("squared", "poisson", "gamma", "huber", "quantile")  # values of `loss`
CLASSIFIER_LOSSES = ("auto", "logistic", "squared")
SQUARED_ALPHA = 1e-6  # alpha="auto" of the squared loss
GLM_ALPHA = 1.0  # alpha="auto" of other losses: C = 1 of scikit-learn's LogisticRegression, on standardised columns
SCORE_SLOPES = {"logistic": 0.5, "multinomial": 1.0}  # of the softmax of scores, those of two classes being -eta, eta


# -- which loss --------------------------------------------------------------------------------------------------------


def squared_only(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[str, str, Any] | None:
    """Return the first setting that only least squares has: its name, what other losses take, and its value."""
    criterion, rule = estimator.criterion, estimator.rule
    if not is_one_of(rule, "auto", "cost"):
        return "rule", "'auto' or 'cost'", rule
    if criterion is not None and not is_one_of(criterion, *GlmPath.size_criteria):
        return "criterion", f"None or one of {', '.join(map(repr, GlmPath.size_criteria))}", criterion
    if not is_one_of(estimator.penalty, "weights"):
        return "penalty", "'weights'", estimator.penalty
    if is_one_of(estimator.alpha, "reestimate"):
        return "alpha", "a number or 'auto'", estimator.alpha
    if estimator.refine is not None:
        return "refine", "None", estimator.refine
    if is_one_of(estimator.refit_alpha, "gcv", "cv"):
        return "refit_alpha", "None or 'loo'", estimator.refit_alpha
    if is_dask(X, y, sample_weight) or isinstance(X, RowFile):
        return "X", "an array, a sparse matrix or a data frame in memory", type(X).__name__
    return None


def resolve_loss(estimator: Any, X: Any, y: Any, sample_weight: Any, choices: tuple[str, ...]) -> str:
    """Return the name of the loss of a fit, and raise unless the other settings apply to it.

    "auto" is the logistic loss, or least squares where another setting, or the kind of data, has only that.
    """
    loss = check_choice("loss", estimator.loss, choices)
    if loss == "squared":
        return loss
    found = squared_only(estimator, X, y, sample_weight)
    if loss == "auto":
        return "logistic" if found is None else "squared"
    if found is not None:
        name, requirement, value = found
        raise ValueError(
            f"{name} must be {requirement} with loss={loss!r}, got {value!r}: change it, or use loss='squared'."
        )
    return loss


def make_loss(name: str, n_outputs: int, levels: Any = 0.5) -> Loss:
    """Return the loss of a name for as many columns of targets; the levels of quantiles in ascending order."""
    if name == "logistic" and n_outputs > 1:
        return Multinomial()
    if name != "quantile":
        return LOSSES[name]()
    several = [levels] if np.ndim(levels) == 0 else list(levels)
    for level in several:
        check_number("quantile", level, above=0, below=1, remedy="0.5 is the median")
    if not several or len(set(several)) < len(several):
        raise ValueError(f"quantile must be one level or several distinct ones, got {levels!r}: 0.5 is the median.")
    return Quantile(tuple(sorted(float(level) for level in several)))


def check_exposure(exposure: ArrayLike | None, loss: str, n: int) -> Floats | None:
    """Return positive exposures of n samples, or None."""
    if exposure is None:
        return None
    if LOSSES[loss].link != "log":
        raise ValueError(
            f"exposure must be None with loss={loss!r}, got an array: it multiplies means, which loss='poisson' and "
            "'gamma' model on a log scale."
        )
    values = np.asarray(exposure, dtype=np.float64)
    if values.shape != (n,) or not np.all(np.isfinite(values)) or values.min(initial=1.0) <= 0:
        worst = values.shape if values.shape != (n,) else float(values[~(np.isfinite(values) & (values > 0))][0])
        raise ValueError(
            f"exposure must be {n} finite numbers > 0, got {worst}: give the time, area or population of each sample."
        )
    return values


def class_weighted(class_weight: Any, y: Any, sample_weight: Any) -> Any:
    """Return the sample weights times the weights of the classes."""
    if class_weight is None or y is None:
        return sample_weight
    if not isinstance(class_weight, dict):
        check_choice("class_weight", class_weight, ["balanced"], remedy="or give a dict of weights by class, or None")
    if is_dask(y, sample_weight):
        raise TypeError(
            f"class_weight must be None for Dask data, got {class_weight!r}: multiply sample_weight by the weights of "
            "the classes instead."
        )
    y = check_labels(y)
    weights = check_counts(sample_weight, len(y))
    classes = np.unique(y)
    if class_weight == "balanced":
        totals = np.array([weights[y == one].sum() for one in classes])
        factors = weights.sum() / (np.count_nonzero(totals) * np.where(totals > 0, totals, np.inf))
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=y)
    return weights * factors[np.searchsorted(classes, y)]


# -- the fit -----------------------------------------------------------------------------------------------------------


def select_by_loss(
    estimator: Any,
    design: DesignData,
    name: str,
    settings: Settings,
    callback: Callable[[SelectionPath], bool],
    exposures: Floats | None,
) -> tuple[GlmPath, Candidates, Floats]:
    """Grow the path of a loss; return it, the candidates, and the targets of residuals, (n, q).

    These are per unit of exposure. Several quantiles of a target are several outputs.
    """
    data, candidates = design.data, design.candidates
    targets = as_columns(data.y)
    loss = make_loss(name, targets.shape[1], getattr(estimator, "quantile", 0.5))
    if isinstance(loss, Quantile) and len(loss.levels) > 1:
        if data.y.ndim > 1:
            raise ValueError(
                f"y must be one target with several quantiles, got {targets.shape[1]} columns: fit one model for each."
            )
        targets, candidates = np.tile(targets, len(loss.levels)), replace(candidates, one_output=False)
    elif isinstance(loss, Quantile):
        loss = Quantile(loss.levels * targets.shape[1])
    loss.check(targets)
    offset = None if exposures is None else np.log(exposures[data.used])
    G, like = design.G, getattr(design.G, "like", design.G)
    if is_foreign(like):  # the path grows on the host
        G = to_host(G.columns(slice(None)) if isinstance(G, Design) else G)
    G, Y = sp.csc_array(G) if sp.issparse(G) else G, targets[data.used]
    null = null_model(Y, design.weights, loss, offset, settings.fit_intercept)
    path = select_glm_terms(G, null, settings, candidates.one_output, callback)
    path.like = from_host(np.zeros(1), like) if is_foreign(like) else path.like
    return path, candidates, targets if exposures is None else targets / exposures[:, None]


def truncate_glm_path(
    path: GlmPath, k: int, candidates: Candidates, refit_alpha: str | None = None, criterion: str | None = None
) -> tuple[FittedTerms, dict[str, Any]]:
    """Fit the weights of the first k terms of a path; residuals are those of responses, or of scores of classes.

    With an exposure they are those of the target per unit of it. Returns the fitted terms and other fitted attributes.
    """
    training = path.training
    fit, samples = training.solve(k, refit_alpha), training.samples
    Y, left_out, link = samples.Y, fit.left_out - samples.offset, fit.loss.link
    if candidates.labels is None:
        Y, left_out = (Y * np.exp(-samples.offset) if link == "log" else Y), LINKS[link](left_out)
    else:
        labels = Labels(candidates.labels.classes, slope=SCORE_SLOPES[path.loss])
        candidates = replace(candidates, labels=labels)
    rows = WeightedRows(samples.sample_weight, path.fit_intercept)
    criterion, means = "bic" if criterion == "bic" else "loo", training.models.means[:k]
    residuals = Y - left_out if path.like is None else from_host(Y - left_out, path.like)
    statistics = FitStatistics(rows, fit.solution, means, fit.criteria, criterion, residuals)
    terms = FittedTerms.from_solution(candidates, path.terms[:k], fit.start, statistics, link)
    if path.like is not None:
        weights, intercept = (from_host(values, path.like) for values in (terms.weights, terms.intercept))
        terms = replace(terms, weights=weights, intercept=intercept)
    return terms, {"alpha_": fit.alpha, "loss_": path.loss, "deviance_explained_": fit.explained}


# A method, of all regressors that have a loss.
def score_regressor(self: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return R2, or D2, the share of the deviance explained, for a loss other than the squared one.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (m, d)
        Inputs.
    y : array-like of shape (m,) or (m, q)
        Targets.
    sample_weight : array-like of shape (m,), default=None
        Weights of the samples.

    Notes
    -----
    The deviance is that of a constant, the best one for these targets, less that of the model, over the former: as
    scikit-learn's `d2_tweedie_score` for "poisson" and "gamma" and `d2_pinball_score` for "quantile".
    """
    check_is_fitted(self)
    if not isinstance(self.path_, GlmPath):
        return RegressorMixin.score(self, X, y, sample_weight)
    terms = self.fitted_terms_
    eta = to_host(as_columns(self.linear_predictor(X)))
    eta = np.sort(eta, axis=1) if terms.link == "sorted" else eta
    Y = np.zeros_like(eta) + as_columns(check_targets(y))
    loss = self.path_.training.models.losses[self.n_terms_]
    weights, eta = check_counts(sample_weight, len(Y)), loss.within_range(eta)
    loss.check(Y)
    null = loss.null_eta(Y, weights, np.zeros((len(Y), 1))) + np.zeros_like(Y)
    total = float(weights @ loss.deviance(Y, null))
    return 1 - float(weights @ loss.deviance(Y, eta)) / total if total > 0 else float("nan")
