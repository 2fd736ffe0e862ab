"""Diagnostics of a fitted model as plain data: metadata of the fit, its samples, scores and baselines."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length

from termwise._arrays import as_columns, evenly, is_foreign, rows_of, to_host
from termwise._checks import is_frame
from termwise.basis.public import __all__ as public_bases
from termwise.deploy.predictor import Predictor
from termwise.estimators.data import code_known_labels
from termwise.estimators.ridge import BasisRidge
from termwise.explain.effects import effects_metadata
from termwise.explain.groups import contributions, effects_table
from termwise.explain.probabilities import reliability_metadata
from termwise.explain.resolve import (
    Metadata,
    ResolvedModel,
    as_numpy,
    path_metadata,
    penalty_curves,
    resolve,
    round_significant,
    to_plain,
)
from termwise.explain.scores import (
    TABLE_ENTRIES,
    confusion_metadata,
    cross_validated_comparison,
    held_out_comparison,
    own_encoder,
    own_score,
    quoted_score,
)
from termwise.explain.summary import larger_sizes
from termwise.fitted import Labels, inputs_of

__all__ = ["contributions", "cross_validated_comparison", "effects_table", "facts", "held_out_comparison"]

MAX_TERMS = 500  # listed with their weights
MAX_ROWS = 1000  # samples whose observed and predicted values are listed
MAX_STORED = 300  # of these in a file
MAX_INPUTS = 500  # whose selection frequencies are listed
MAX_COLUMNS = 12  # named in a note
MEAN_ROWS, MEAN_DIGITS = 5000, 9  # samples over which terms are averaged, and digits of the means
PENALTY_FLOPS = 1e9  # above which criteria along the penalty are left out


def facts(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    held_out: dict[str, Any] | None = None,
    cross_validation: dict[str, Any] | None = None,
    baselines: Sequence[dict[str, Any]] | None = None,
    notes: Sequence[str] = (),
    reproduce: str | None = None,
) -> dict[str, Any]:
    """Collect the diagnostics of a fitted model as plain data, ready for JSON.

    Parameters
    ----------
    estimator : fitted estimator of termwise, `CriterionSearch`, or a pipeline that ends in one
        The model.
    X, y : data frame or array-like of shape (n, d), array-like of shape (n,) or (n, q), default=None
        Samples of the fit. Without them there are no observed values, and effects only where the basis has stored the
        ranges of its inputs.
    sample_weight : array-like of shape (n,), default=None
        Weights of the samples in the fit. They are needed only if some are zero: these samples are not scored.
    held_out : dict, default=None
        Score on held-out samples: "metric", "value", "n", as returned by `held_out_comparison`.
    cross_validation : dict, default=None
        Cross-validated score of the procedure, as returned by `cross_validated_comparison`; by default that of
        `TermwiseRegressor` and `TermwiseClassifier` on their own folds, and None for other estimators. An empty dict:
        none, if random folds are not suitable.
    baselines : list of dict, default=None
        Scores of baselines on the same samples: "name", "value", "terms".
    notes : list of str, default=()
        Remarks about the data.
    reproduce : str, default=None
        How to fit the model again, a command line for example; by default a few lines of Python.

    Returns
    -------
    facts : dict
        "model" : description of the fit ("class", "task", "n", "d", "n_terms", "n_candidates", "dictionary", "alpha",
        "dof", "noise", "stop_reason", "target", "outputs", "classes", "criterion", "trial", "link", "size",
        "larger_sizes", "intercept").
        "scores" : criteria, "loo_r2" or "loo_accuracy" (given the terms), "held_out", "cross_validation".
        "baselines" : "name", "score" and "terms" of each.
        "criteria", "choices" : names of the criteria along the path, the size each of them selects.
        "path", "path_terms", "path_inputs" : a row for each size, names of the terms in the order of their selection,
        and of the inputs of each.
        "sizes" : weights and standard errors at other sizes, (q, k) each; the terms are the first of "path_terms".
        "terms" : "name", "inputs", "weight" and "std_error" (one per output) and "mean" over the samples of the chosen
        terms.
        "effects", "no_effects" : main effects and interactions, see `ShapeDisplay`; where terms are functions of more
        than three inputs, partial dependence ("kind" is "average") or nothing, and the reason. "density" and "support"
        say where the samples are, "band" is the half-width of the band around a main effect, "share" its share of the
        variance.
        "groups" : all effects as in `effects_table`, with the positions of their "terms".
        "importance" : total effect of each input on each output, the largest first.
        "selection_frequency" : share of the folds in which each input was selected, where the model has it.
        "reliability" : observed frequencies and out-of-fold probabilities of classes, where the model has fold models.
        "fit", "confusion" : observed and predicted values of at most 1,000 samples (one list per output), confusion
        matrix, where possible of held-out or out-of-fold predictions ("how").
        "penalty" : criteria along alpha, for `BasisRidge`. "search" : candidates of a `CriterionSearch`. "trials" :
        cross-validated errors of all dictionaries, for `TermwiseRegressor` and `TermwiseClassifier`.
        "notes", "reproduce", "versions".

    Notes
    -----
    Numbers are rounded to six significant digits. What is not available, because a model has not stored its samples
    for example, is None or left out.

    Examples
    --------
    >>> import json
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import ForwardRegressor, diagnostics
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> facts = diagnostics.facts(ForwardRegressor().fit(X, y), X, y)
    >>> facts["model"]["n_terms"], facts["terms"][0]["name"]
    (6, 'bmi')
    >>> facts["path"][2]["term"], facts["choices"]["tcr"]
    ('s5', 6)
    >>> text = json.dumps(facts, allow_nan=False)
    """
    resolved = resolve(estimator, "facts")
    if sample_weight is not None:
        check_consistent_length(y, sample_weight)
        resolved = replace(resolved, weight_of_rows=as_numpy(sample_weight).astype(np.float64))
    model, residuals = resolved.model, resolved.loo_residuals
    X, target, labels = to_host(X) if is_foreign(X) else X, y, None if y is None else as_numpy(y)
    if labels is not None and residuals is not None and len(residuals) != len(labels):
        raise ValueError(
            f"X, y must be the {len(residuals)} samples of the fit, got {len(labels)}: leave-one-out residuals belong "
            "to those. Give scores on other samples as held_out."
        )
    table = resolved.preprocess(X)
    criteria = {} if resolved.n_samples is None else model.criteria_
    cross_validation = own_score(estimator, labels, X) if cross_validation is None else cross_validation
    scores = {name: round_significant(value) for name, value in criteria.items()}
    scores |= {"held_out": to_plain(held_out), "cross_validation": to_plain(cross_validation or None)}
    versions = {name: version(name) for name in ("termwise", "scikit-learn", "numpy")}
    found = {
        "model": model_metadata(resolved, target),
        "scores": scores,
        "baselines": [to_plain({**one, "score": one["value"]}) for one in baselines or []],
        "terms": terms_metadata(resolved, table),
        **effects_metadata(resolved, table),
        "notes": [*map(str, notes), *(data_notes(resolved, X) if X is not None else [])],
        "reproduce": reproduce or fit_script(estimator, resolved),
        "versions": {**versions, "python": platform.python_version()},
        **(path_metadata(resolved, labels) if hasattr(model, "path_") else {"criteria": list(criteria)}),
        **selection_metadata(resolved),
    }
    if X is not None and labels is not None:
        samples = samples_metadata(resolved, table, labels)
        found["scores"] |= samples.pop("scores", {})
        found |= samples
    quoted = quoted_score(found["scores"])
    if quoted and quoted.get("confusion"):
        how = "held-out" if found["scores"]["held_out"] else "out-of-fold"
        found["confusion"] = {**quoted["confusion"], "how": how}
    return found


def fit_script(estimator: Any, resolved: ResolvedModel) -> str:
    """Return lines of Python that fit an estimator again; `sample_weight` stands for the weights, if there were any."""
    names: dict[str, set[str]] = {}
    for kind in {type(part) for part in parts_of(estimator)}:
        public = list(takewhile(lambda name: not name.startswith("_"), kind.__module__.split(".")))
        if public[:1] == ["termwise"]:
            public = public[: 2 if public[1:2] == ["basis"] and kind.__name__ not in public_bases else 1]
        if public:
            names.setdefault(".".join(public), set()).add(kind.__name__)
    if "array(" in repr(estimator):
        names["numpy"] = {"array"}
    imports = "\n".join(f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names))
    stored, given = resolved.sample_weight, resolved.weight_of_rows is not None
    by_class = getattr(resolved.model, "class_weight", None) is not None  # then the weights stored may be these
    weighted = given or (stored is not None and not by_class and bool(np.any(stored != 1)))
    step = f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""
    weights = f", {step}sample_weight=sample_weight" if weighted else ""
    return f"{imports}\n\nmodel = {estimator!r}\nmodel.fit(X, y{weights})"


def parts_of(value: Any) -> Iterator[Any]:
    """Yield an estimator and all that its parameters hold, in lists and dicts as well."""
    inner: Iterable[Any] = ()
    if hasattr(value, "get_params") and not isinstance(value, type):
        yield value
        inner = value.get_params(deep=False).values()
    elif isinstance(value, list | tuple):
        inner = value
    elif isinstance(value, dict):
        inner = value.values()
    for one in inner:
        yield from parts_of(one)


def stored_facts(facts: dict[str, Any], samples: bool = True) -> dict[str, Any]:
    """Return diagnostics for a file that is given away: with few observed values, or none, and no row numbers.

    Observed values of a regression are drawn in reports; they are in the order of the predictions, from which no row
    can be told. Those of classes are in the confusion matrix.
    """
    fit, rest = facts.get("fit"), {key: value for key, value in facts.items() if key != "fit"}
    if not samples or not fit or facts["model"]["classes"] is not None:
        return rest
    order = np.argsort(fit["fitted"][0], kind="stable")
    order = order[evenly(len(order), MAX_STORED)].tolist()
    lists = {key: fit[key] for key in ("observed", "fitted", "loo")}
    thin = {key: None if one is None else [[row[i] for i in order] for row in one] for key, one in lists.items()}
    return rest | {"fit": thin}


# -- the model ---------------------------------------------------------------------------------------------------------


def model_metadata(resolved: ResolvedModel, y: Any) -> Metadata:
    """Description of the fit."""
    model, n, task = resolved.model, resolved.n_samples, "regression" if resolved.classes is None else "classification"
    if n is not None:
        n = int(n) if n == int(n) else round_significant(n)
    alpha = getattr(model, "alpha_", getattr(model, "alpha", None))
    if isinstance(alpha, str) or hasattr(model, "alphas_"):  # no single penalty
        alpha = None
    target = None if is_frame(y) else getattr(y, "name", None)
    target = target if isinstance(target, str) and target else None
    transformers, q = " + ".join(type(step).__name__ for step in resolved.steps), len(resolved.intercept)
    outputs = [str(name) for name in y.columns] if is_frame(y) else [target or "y"]
    if resolved.classes is not None or len(outputs) != q:
        outputs = output_names(resolved.classes, q)
    return {
        "class": type(model).__name__,
        "task": task,
        "n": to_plain(getattr(model, "n_samples_", None)) if n is None else n,
        "d": int(getattr(resolved.given, "n_features_in_", model.n_features_in_)),
        "n_terms": int(model.n_terms_),
        "n_candidates": resolved.n_candidates,
        "dictionary": getattr(model, "dictionary_", transformers or "columns"),
        "alpha": None if alpha is None else round_significant(alpha),
        "dof": None if n is None else round_significant(model.effective_dof_),
        "noise": None if n is None else round_significant(np.sqrt(np.mean(model.noise_variance_))),
        "stop_reason": getattr(model, "stop_reason_", None),
        "target": target,
        "outputs": outputs,
        "classes": None if resolved.classes is None else [str(one) for one in resolved.classes],
        "criterion": "cv" if hasattr(model, "trials_") else to_plain(getattr(model, "criterion", None)),
        "trial": model.choice_.title if hasattr(model, "choice_") else None,
        "link": model.fitted_terms_.link,
        "size": to_plain(getattr(model, "size", None)),
        "larger_sizes": larger_sizes(model),
        "intercept": round_significant(resolved.intercept),
    }


def predictor_metadata(predictor: Predictor) -> Metadata:
    """Metadata of a predictor saved without that of its fit: its terms and weights."""
    classes = predictor.classes
    unknown = ["n", "n_candidates", "dictionary", "alpha", "dof", "noise", "stop_reason", "target", "criterion"]
    return {
        "model": {
            **dict.fromkeys(unknown),
            "class": "Predictor",
            "task": predictor.task,
            "d": len(predictor.inputs),
            "n_terms": predictor.n_terms,
            "outputs": output_names(classes, len(predictor.intercept)),
            "classes": None if classes is None else [str(one) for one in classes],
            "intercept": round_significant(predictor.intercept),
        },
        "scores": {"held_out": None, "cross_validation": None},
        "baselines": [],
        "criteria": [],
        "terms": [
            {"name": name, "weight": round_significant(weight), "std_error": None}
            for name, weight in zip(predictor.term_names, predictor.weights.T, strict=True)
        ],
        "effects": [],
        "no_effects": "",
        "notes": ["The predictor was saved without metadata of its fit."],
        "reproduce": 'import termwise\n\nmodel = termwise.load_predictor("model.json")\nmodel.predict(X)',
        "versions": {"termwise": version("termwise")},
    }


def output_names(classes: Sequence[Any] | NDArray[Any] | None, q: int) -> list[str]:
    """Names of q outputs: the classes, of two the second, or numbers."""
    if classes is not None:
        return [str(one) for one in (classes if q > 1 else classes[-1:])]
    return [f"y{j}" for j in range(q)] if q > 1 else ["y"]


def terms_metadata(resolved: ResolvedModel, X: Any) -> list[Metadata]:
    """Names, inputs, weights, standard errors and means of the terms, of very many those with the largest t-ratios."""
    weights, errors = resolved.weights, resolved.std_errors
    size = np.abs(weights) if errors is None else np.abs(weights) / np.maximum(errors, np.finfo(np.float64).tiny)
    listed = np.sort(np.argsort(-size.max(axis=0, initial=0.0), kind="stable")[:MAX_TERMS])
    names = resolved.term_names(resolved.chosen[listed]) if len(listed) else []
    sets, labels, terms = inputs_of(resolved.model.fitted_terms_), resolved.input_names, []
    some = None if resolved.reads_past else resolved.thin(X, MEAN_ROWS)
    means = None if some is None else resolved.evaluate(some, 0).mean(axis=0)
    for name, j in zip(names, listed, strict=True):
        std_error = None if errors is None else round_significant(errors[:, j])
        mean = None if means is None else round_significant(means[j], MEAN_DIGITS)
        found = {"name": name, "inputs": [labels[i] for i in sets[j]], "mean": mean}
        terms.append({**found, "weight": round_significant(weights[:, j]), "std_error": std_error})
    return terms


def selection_metadata(resolved: ResolvedModel) -> Metadata:
    """Dictionaries that were cross-validated, candidates of a search, and in how many folds an input was selected."""
    found: Metadata = {}
    if hasattr(resolved.model, "trials_"):
        errors = resolved.model.trials_.items()
        found["trials"] = [{"name": name, "error": round_significant(curve)} for name, curve in errors]
    results = getattr(resolved.given, "results_", None)
    if results is not None:
        rows = []
        for params, value, k in zip(results["params"], results["criterion_value"], results["n_terms"], strict=True):
            n_terms = None if k is np.ma.masked else int(k)
            rows.append({"params": to_plain(params), "value": round_significant(value), "terms": n_terms})
        found["search"] = {"best": int(resolved.given.best_index_), "rows": rows}
    shares = getattr(resolved.model, "selection_frequency_", None)
    if shares is not None:
        order = np.argsort(-np.asarray(shares), kind="stable")[:MAX_INPUTS]
        found["selection_frequency"] = {resolved.input_names[j]: round_significant(shares[j]) for j in order}
    return found


# -- the samples -------------------------------------------------------------------------------------------------------


def samples_metadata(resolved: ResolvedModel, X: Any, y: NDArray[Any]) -> Metadata:
    """Observed and predicted values of some samples, confusion matrix, leave-one-out scores."""
    model, residuals, classes = resolved.model, resolved.loo_residuals, resolved.classes
    known = np.arange(len(y)) if resolved.weight_of_rows is None else np.flatnonzero(resolved.weight_of_rows)
    rows, loo = known[evenly(len(known), MAX_ROWS)], None
    fitted = as_numpy(model.predict(X))[rows] if resolved.reads_past else as_numpy(model.predict(rows_of(X, rows)))
    if classes is None:
        Y = as_columns(y).astype(np.float64)
        left_out = None if residuals is None else Y - residuals
        found: Metadata = {"fit": fit_metadata(rows, Y, as_columns(fitted), left_out)}
        if residuals is not None:
            weight = resolved.weights_of_samples(len(y))
            variance = weight @ (Y - weight @ Y / weight.sum()) ** 2
            if np.all(variance > 0):
                found["scores"] = {"loo_r2": round_significant(np.mean(1 - weight @ residuals**2 / variance))}
    else:
        if residuals is not None:
            scores = as_columns(code_known_labels(classes, y)) - residuals
            loo = Labels(classes).decide(scores[:, 0] if scores.shape[1] == 1 else scores)
        observed = {"rows": rows, "observed": y[rows], "fitted": fitted, "loo": None if loo is None else loo[rows]}
        predicted, how = (as_numpy(model.predict(X)), "fit") if loo is None else (loo, "leave-one-out")
        found = {"fit": to_plain(observed), "confusion": {**confusion_metadata(y, predicted, classes), "how": how}}
        if loo is not None:
            weight = resolved.weights_of_samples(len(y))
            found["scores"] = {"loo_accuracy": round_significant(accuracy_score(y, loo, sample_weight=weight))}
        found |= reliability_metadata(resolved, X, y)
    n, p = len(y), resolved.n_candidates
    if isinstance(model, BasisRidge) and n * p * min(n, p) <= PENALTY_FLOPS:
        found["penalty"] = penalty_curves(resolved, X, y)
    return found


def fit_metadata(rows: NDArray[np.intp], Y: NDArray[Any], fitted: NDArray[Any], loo: NDArray[Any] | None) -> Metadata:
    """Observed, fitted and leave-one-out values of some rows, one list per output."""
    cross_validated = None if loo is None else round_significant(loo[rows].T)
    observed, predicted = round_significant(Y[rows].T), round_significant(fitted.T)
    return {"rows": to_plain(rows), "observed": observed, "fitted": predicted, "loo": cross_validated}


def data_notes(resolved: ResolvedModel, X: Any) -> list[str]:
    """Notes on constant and duplicate columns."""
    encoder = own_encoder(resolved, X)
    if resolved.preprocessing is not None or hasattr(X, "toarray") or np.prod(np.shape(X), dtype=float) > TABLE_ENTRIES:
        return []
    G = np.asarray(to_host(X) if encoder is None else encoder.transform(X))
    names = [f"x{j}" for j in range(G.shape[1])] if encoder is None else list(encoder.get_feature_names_out())
    constant = np.all(G[:1] == G, axis=0)
    first: dict[bytes, int] = {}
    duplicates = [f"{names[j]} = {names[first[key]]}" for j, key in enumerate(map(bytes, np.ascontiguousarray(G.T)))
                  if first.setdefault(key, j) != j and not constant[j]]  # fmt: skip
    notes = []
    for what, columns in (
        ("Constant columns, which carry no information", [names[j] for j in np.flatnonzero(constant)]),
        ("Duplicate columns, of which any can replace the others", duplicates),
    ):
        if columns:
            rest = f" and {len(columns) - MAX_COLUMNS} more" if len(columns) > MAX_COLUMNS else ""
            notes.append(f"{what}: {', '.join(columns[:MAX_COLUMNS])}{rest}.")
    return notes
