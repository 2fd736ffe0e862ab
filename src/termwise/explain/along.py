"""What changes with the size of a model, and with its penalty."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import as_columns, densify, evenly, to_host
from termwise.estimators.labels import LabelModel, coded, misclassified
from termwise.estimators.model import TermModel
from termwise.estimators.ridge import BasisRidge
from termwise.estimators.stepped import PathModel
from termwise.explain.plain import rounded
from termwise.explain.resolve import leave_one_out, standard_errors
from termwise.linalg.criteria import CRITERIA
from termwise.linalg.least_squares import pose
from termwise.linalg.spectrum import Spectrum
from termwise.selection.path import SIZES, SelectionPath, tcr_thresholds

MOST_SIZES, FEW_SIZES = 60, 12  # models of other sizes that are looked at, of many samples and terms fewer
SIZES_WORK = 2e9  # operations they may take, about
PENALTIES = 121  # values of alpha a criterion is drawn at
DECADES = 2.0  # beyond the eigenvalues, on either side
WORDS = {
    "cv": "cross-validation",
    "loo": "leave-one-out",
    "gcv": "GCV",
    "uev": "UEV",
    "fpe": "FPE",
    "bic": "BIC",
    "one_se": "one standard error",
    "tcr": "TCR",
    "tcr_sequential": "TCR, sequential",
}


# -- sizes -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Along:
    """A path as people look at it: criteria of the model at each size, and what each criterion would keep."""

    rows: list[dict[str, Any]]
    sizes: list[dict[str, Any]]
    criteria: list[str]
    choices: dict[str, int]
    names: list[str]  # of all terms, in the order they were taken

    @classmethod
    def of(cls, model: Any, y: NDArray | None = None) -> Along:
        """Follow the path of a model; labels tell how many samples each size gets wrong."""
        path: SelectionPath = model.path_
        names = path_names(model)
        sizes = [describe(model.at(k), k, y) for k in looked_at(model)] if isinstance(model, PathModel) else []
        staged = getattr(model, "_stage", None) is not None
        refitted = staged or getattr(model, "refit_alpha", None) is not None
        rows = [row(path, names, k) for k in range(len(path) + 1)]
        if refitted:  # the criteria along the path are those of something else
            rows = [{**rows[size["size"]], **size["criteria"], "alpha": size["alpha"]} for size in sizes]
        if staged:  # what a term brought was counted in the first stage's signal
            rows = [{k: v for k, v in one.items() if k not in ("reduction", "threshold", "loo_se")} for one in rows]
        wrong = {size["size"]: size["criteria"].get("loo_error") for size in sizes}
        rows = [one if wrong.get(one["size"]) is None else {**one, "loo_error": wrong[one["size"]]} for one in rows]
        rows = with_trials(model, rows)
        criteria = [name for name in ("cv", *CRITERIA, "loo_error") if any(name in one for one in rows)]
        choices = least(rows, criteria, path.fit_intercept)
        if not refitted:
            choices |= {name: path.choose(name) for name in SIZES if len(path)}
        return cls(rows, sizes, criteria, choices, names)


def path_names(model: Any) -> list[str]:
    """Names of all terms of a path, in the order they were taken."""
    terms, everything = model.path_.terms, copy.copy(model)
    q = len(np.atleast_1d(to_host(model.intercept_)))
    everything._set_weights(terms, np.zeros((len(terms), q)), np.zeros(q))
    return everything._term_names()


def looked_at(model: Any) -> list[int]:
    """Sizes to look at: all of a short path, some of a long one."""
    longest = len(model.path_)
    affordable = int(SIZES_WORK / max(1.0, model.path_.n_samples * longest**2))
    some = evenly(longest + 1, max(FEW_SIZES, min(MOST_SIZES, affordable)))
    return sorted({*some.tolist(), model.n_terms_})


def describe(model: TermModel, k: int, y: NDArray | None) -> dict[str, Any]:
    """Weights, their error bars and the criteria of a model of k terms."""
    errors = standard_errors(model)
    criteria = {name: rounded(value) for name, value in model.criteria_.items()}
    rate = loo_error(model, y)
    return {
        "size": k,
        "weights": rounded(np.atleast_2d(to_host(model.weights_))),
        "std_errors": None if errors is None else rounded(errors),
        "intercept": rounded(np.atleast_1d(to_host(model.intercept_))),
        "dof": rounded(model.effective_dof_),
        "alpha": rounded(getattr(model, "alpha_", np.nan)),
        "criteria": criteria if rate is None else {**criteria, "loo_error": rounded(rate)},
    }


def loo_error(model: TermModel, y: NDArray | None) -> float | None:
    """Share of samples that are put into the wrong class by the model without them."""
    residuals = leave_one_out(model)
    if y is None or residuals is None or not isinstance(model, LabelModel):
        return None
    Y = as_columns(coded(model.classes_, y))
    counts = counts_of(model, len(y))
    return float(counts @ misclassified(Y - residuals, Y) / counts.sum())


def counts_of(model: TermModel, n: int) -> NDArray[np.float64]:
    """How often each of n samples counted in the fit; all the same where some did not count at all."""
    counts = model._record().on_host().rows.counts
    return counts if len(counts) == n else np.ones(n)


def row(path: SelectionPath, names: list[str], k: int) -> dict[str, Any]:
    """One size of a path."""
    step = path.steps[k]
    values = {name: rounded(getattr(step, name)) for name in (*CRITERIA, "loo_se", "dof", "alpha")}
    first = {"size": k, "term": names[k - 1] if k else None, **values}
    if not k:
        return first
    threshold = tcr_thresholds(path)[k - 1]
    return {**first, "reduction": rounded(step.reduction), "threshold": rounded(threshold)}


def with_trials(model: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the cross-validated error of a model that has one, in units of the other criteria."""
    trials = getattr(model, "trials_", None)
    if trials is None:
        return rows
    curve, variance = trials[trial_of(model)], rows[0]["uev"] * (1 - 1 / model.path_.n_samples)
    return [{**one, "cv": rounded(curve[one["size"]] * variance)} if one["size"] < len(curve) else one for one in rows]


def trial_of(model: Any) -> str:
    """Title of the trial that was chosen."""
    return model.dictionary_ if model.target_ == "data" else f"{model.dictionary_}, {model.target_}"


def least(rows: list[dict[str, Any]], criteria: list[str], fit_intercept: bool) -> dict[str, int]:
    """Size with the least value of each criterion."""
    choices = {}
    for name in criteria:
        known = [
            (one[name], one["size"]) for one in rows if one.get(name) is not None and (one["size"] or fit_intercept)
        ]
        if known:
            choices[name] = min(known)[1]
    return choices


# -- penalties ---------------------------------------------------------------------------------------------------------


def along_penalty(model: BasisRidge, X: Any, y: NDArray, points: int = PENALTIES) -> dict[str, list[float]]:
    """Every criterion of ridge regression at many penalties, from the samples of the fit."""
    G = densify(X if model.basis_ is None else model.basis_.transform(X))
    spectrum = Spectrum(
        pose(np.asarray(G, dtype=np.float64), as_columns(y), counts_of(model, len(y)), model.fit_intercept)
    )
    mu = spectrum.mu[spectrum.mu > 0]
    ends = np.log10([max(mu.min(), 1e-12 * mu.max()), mu.max()]) if len(mu) else np.array([-3.0, 3.0])
    low, high = ends[0] - DECADES, ends[1] + DECADES
    if 0 < model.alpha_ < np.inf:
        low, high = min(low, np.log10(model.alpha_) - DECADES), max(high, np.log10(model.alpha_) + DECADES)
    alphas = np.logspace(low, high, points)
    _, freedom = spectrum.moments(alphas)
    curves = {name: rounded(spectrum.score(name, alphas)) for name in CRITERIA}
    return {"alpha": rounded(alphas), "dof": rounded(spectrum.problem.rows.n - freedom), **curves}
