"""Facts about a fitted model: everything a page, a command line or a file says of it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from termwise._arrays import is_foreign, to_host
from termwise.basis.encoder import is_frame
from termwise.estimators.ridge import BasisRidge
from termwise.explain.along import Along, along_penalty, trial_of
from termwise.explain.comparison import in_this_process, own_coding
from termwise.explain.plain import plain, rounded
from termwise.explain.resolve import Unwrapped, record_of, standard_errors, unwrap
from termwise.explain.shown import accuracy_without, confusion_of, effects_of, fit_of, r2_without

MOST_TERMS = 500  # listed with their weights
MOST_LISTED = 12  # columns named in a note
PENALTY_WORK = 1e9  # operations the criteria along the penalty may take
NOTED_NUMBERS = 20_000_000  # of a table that is searched for constant and repeated columns


def facts(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    held_out: dict[str, Any] | None = None,
    baselines: Sequence[dict[str, Any]] | None = None,
    notes: Sequence[str] = (),
    reproduce: str | None = None,
) -> dict[str, Any]:
    """Collect what there is to know about a fitted model as plain data, ready for JSON.

    Parameters
    ----------
    estimator : fitted estimator of termwise, `CriterionSearch`, or a pipeline that ends in one
        The model.
    X, y : data frame or array-like of shape (n, d), array-like of shape (n,) or (n, q), default=None
        Samples of the fit. Without them there are no observed values, and effects only where the basis knows the ranges
        of its inputs.
    held_out : dict, default=None
        Score on other samples: "metric", "value", "n", as `held_out_comparison` gives it.
    baselines : list of dict, default=None
        Scores of simple models on the same samples: "name", "value", "terms".
    notes : list of str, default=()
        What a reader should know about the data.
    reproduce : str, default=None
        How to fit the model again, a command line for example; by default a few lines of Python.

    Returns
    -------
    facts : dict
        "model" : what was fitted ("class", "task", "n", "d", "n_terms", "n_candidates", "dictionary", "alpha", "dof",
        "noise", "stop_reason", "target", "outputs", "classes", "criterion", "trial", "size", "intercept").
        "scores" : criteria, "loo_r2" or "loo_accuracy", "held_out".
        "baselines" : "name", "score" and "terms" of each.
        "criteria", "choices" : names of the criteria along the path, the size each would keep.
        "path", "path_terms" : a row for each size, names of the terms in the order they were taken.
        "sizes" : weights and standard errors at other sizes, (q, k) each; the terms are the first of "path_terms".
        "terms" : "name", "weight" and "std_error" (one per output) of the chosen terms.
        "effects", "no_effects" : see `ShapeDisplay`; averages over the other inputs ("kind" is "average") or nothing
        where the terms take several inputs together, and why.
        "fit", "confusion" : observed and predicted values of at most 1,000 samples (one list per output), mistakes.
        "penalty" : criteria along alpha, for `BasisRidge`. "search" : what a `CriterionSearch` has tried. "trials" :
        what `TermwiseRegressor` and `TermwiseClassifier` have tried.
        "notes", "reproduce", "versions".

    Notes
    -----
    Numbers are rounded to six digits. What is not known, because a model has not kept its samples for example, is None
    or left out.

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
    parts = unwrap(estimator, "facts")
    X = to_host(X) if is_foreign(X) else X
    target, labels, table = name_of(y), None if y is None else in_this_process(y), parts.inputs(X)
    check_samples(parts, labels)
    given = X is not None and y is not None
    effects, no_effects = effects_of(parts, table)
    found = {
        "model": model_facts(parts, target),
        "scores": {**criteria_of(parts), "held_out": plain(held_out)},
        "baselines": [plain({**one, "score": one["value"]}) for one in baselines or []],
        "terms": terms_of(parts),
        "effects": effects,
        "no_effects": no_effects,
        "notes": [*map(str, notes), *(data_notes(parts, X) if X is not None else [])],
        "reproduce": reproduce or python_lines(parts),
        "versions": {name: version(name) for name in ("termwise", "scikit-learn", "numpy")}
        | {"python": platform.python_version()},
        **path_facts(parts, labels),
        **tried(parts),
    }
    if given:
        found |= sample_facts(parts, table, labels)
        found["scores"] |= scores_without(parts, labels, found.get("confusion"))
    return found


# -- the model ---------------------------------------------------------------------------------------------------------


def model_facts(parts: Unwrapped, target: Any) -> dict[str, Any]:
    """What was fitted."""
    model, record = parts.model, record_of(parts.model)
    noise = None if record is None else rounded(np.sqrt(np.mean(model.noise_variance_)))
    return {
        "class": type(model).__name__,
        "task": parts.task,
        "n": plain(getattr(model, "n_samples_", None)) if record is None else number(record.rows.n),
        "d": int(getattr(parts.given, "n_features_in_", model.n_features_in_)),
        "n_terms": int(model.n_terms_),
        "n_candidates": int(getattr(model, "n_candidates_", model._n_candidates)),
        "dictionary": getattr(model, "dictionary_", None) or basis_words(model.basis_),
        "alpha": penalty_of(model),
        "dof": None if record is None else rounded(model.effective_dof_),
        "noise": noise,
        "stop_reason": getattr(model, "stop_reason_", None),
        "target": target if isinstance(target, str) else None,
        "outputs": output_names(parts, target),
        "classes": [str(one) for one in model.classes_] if parts.task == "classification" else None,
        "criterion": "cv" if hasattr(model, "trials_") else plain(getattr(model, "criterion", None)),
        "trial": trial_of(model) if hasattr(model, "trials_") else None,
        "size": plain(getattr(model, "size", None)),
        "intercept": rounded(np.atleast_1d(to_host(model.intercept_))),
    }


def number(n: float) -> float:
    """A number of samples, which is whole unless weights are not."""
    return int(n) if n == int(n) else rounded(n)


def penalty_of(model: Any) -> float | None:
    """The penalty, where there is one for all terms."""
    alpha = getattr(model, "alpha_", getattr(model, "alpha", None))
    return None if alpha is None or isinstance(alpha, str) or hasattr(model, "alphas_") else rounded(alpha)


def basis_words(basis: Any) -> str:
    """Name a basis in a few words."""
    if basis is None:
        return "columns"
    steps = [step for _, step in basis.steps] if isinstance(basis, Pipeline) else [basis]
    return " + ".join(type(step).__name__ for step in steps if step is not None and step != "passthrough") or "columns"


def name_of(y: Any) -> Any:
    """Name of the target, or names of several, where they have some."""
    if is_frame(y):
        return [str(name) for name in y.columns]
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else None


def output_names(parts: Unwrapped, target: Any) -> list[str]:
    """What each column of weights is for."""
    if parts.task == "classification":
        classes = [str(one) for one in parts.model.classes_]
        return classes if parts.outputs > 1 else [classes[-1]]
    if isinstance(target, list) and len(target) == parts.outputs:
        return target
    return (
        [target if isinstance(target, str) else "y"] if parts.outputs == 1 else [f"y{j}" for j in range(parts.outputs)]
    )


def terms_of(parts: Unwrapped) -> list[dict[str, Any]]:
    """Return the chosen terms in their order, of very many those with the largest weights beside their errors."""
    model = parts.model
    weights, errors = np.atleast_2d(to_host(model.weights_)), standard_errors(model)
    size = np.abs(weights) if errors is None else np.abs(weights) / np.maximum(errors, np.finfo(np.float64).tiny)
    shown = np.sort(np.argsort(-size.max(axis=0, initial=0.0), kind="stable")[:MOST_TERMS])
    names = model._term_names() if model.n_terms_ else []
    return [
        {
            "name": names[j],
            "weight": rounded(weights[:, j]),
            "std_error": None if errors is None else rounded(errors[:, j]),
        }
        for j in shown
    ]


def criteria_of(parts: Unwrapped) -> dict[str, Any]:
    """All criteria of the model."""
    known = record_of(parts.model) is not None
    return {name: rounded(value) for name, value in parts.model.criteria_.items()} if known else {}


def python_lines(parts: Unwrapped) -> str:
    """A few lines of Python that fit the model again."""
    name = type(parts.given).__name__
    where = "termwise" if type(parts.given).__module__.startswith("termwise") else "sklearn.pipeline"
    return f"from {where} import {name}\n\nmodel = {parts.given!r}\nmodel.fit(X, y)"


# -- along the path, the penalty, the parameters -----------------------------------------------------------------------


def path_facts(parts: Unwrapped, labels: NDArray | None) -> dict[str, Any]:
    """Criteria and weights along the path of a model that has one."""
    path = getattr(parts.model, "path_", None)
    if path is None:
        return {"criteria": list(criteria_of(parts))}
    along = Along.of(parts.model, labels)
    return {
        "criteria": along.criteria,
        "choices": along.choices,
        "path": along.rows,
        "path_terms": along.names,
        "sizes": along.sizes,
    }


def tried(parts: Unwrapped) -> dict[str, Any]:
    """What was tried beside the model."""
    found: dict[str, Any] = {}
    if hasattr(parts.model, "trials_"):
        found["trials"] = [{"name": name, "error": rounded(curve)} for name, curve in parts.model.trials_.items()]
    results = getattr(parts.given, "results_", None)
    if results is not None:
        rows = zip(results["params"], results["criterion_value"], results["n_terms"], strict=True)
        found["search"] = {
            "best": int(parts.given.best_index_),
            "rows": [
                {
                    "params": plain(params),
                    "value": rounded(value),
                    "terms": None if terms is np.ma.masked else int(terms),
                }
                for params, value, terms in rows
            ],
        }
    return found


# -- the samples -------------------------------------------------------------------------------------------------------


def check_samples(parts: Unwrapped, y: NDArray | None) -> None:
    """Raise unless these can be the samples of the fit."""
    record = record_of(parts.model)
    if y is None or record is None or record.residuals is None or len(record.residuals) == len(y):
        return
    raise ValueError(
        f"X, y must be the {len(record.residuals)} samples of the fit, got {len(y)}: leave-one-out residuals belong to "
        "those. Give scores on other samples as held_out."
    )


def sample_facts(parts: Unwrapped, X: Any, y: Any) -> dict[str, Any]:
    """What the samples of the fit tell."""
    found: dict[str, Any] = {"fit": fit_of(parts, X, y)}
    if parts.task == "classification":
        found["confusion"] = confusion_of(parts, X, y)
    n, p = len(y), parts.model._n_candidates
    if isinstance(parts.model, BasisRidge) and n * p * min(n, p) <= PENALTY_WORK:
        found["penalty"] = along_penalty(parts.model, X, y)
    return found


def scores_without(parts: Unwrapped, y: Any, confusion: dict[str, Any] | None) -> dict[str, Any]:
    """Leave-one-out scores in the units of the held-out ones."""
    if confusion is None:
        value = r2_without(parts, y)
        return {} if value is None else {"loo_r2": rounded(value)}
    return {"loo_accuracy": rounded(accuracy_without(confusion))} if confusion["how"] == "leave-one-out" else {}


def data_notes(parts: Unwrapped, X: Any) -> list[str]:
    """Columns that cannot tell anything, or nothing new."""
    coding = own_coding(parts, X)
    if parts.front is not None or hasattr(X, "toarray") or np.prod(np.shape(X), dtype=float) > NOTED_NUMBERS:
        return []
    G = np.asarray(to_host(X)) if coding is None else np.asarray(coding.transform(X))
    names = [f"x{j}" for j in range(G.shape[1])]
    if coding is not None:
        names = [str(name) for name in coding.get_feature_names_out()]
    constant = np.all(G[:1] == G, axis=0)
    first: dict[bytes, int] = {}
    repeated = [f"{names[j]} = {names[first[key]]}" for j, key in enumerate(map(bytes, np.ascontiguousarray(G.T)))
                if first.setdefault(key, j) != j and not constant[j]]  # fmt: skip
    same = [names[j] for j in np.flatnonzero(constant)]
    told = [f"Constant columns, which tell nothing: {listing(same)}."] if same else []
    return [*told, f"Repeated columns, of which any may stand for all: {listing(repeated)}."] if repeated else told


def listing(names: list[str]) -> str:
    """Write names one after the other, the first few of many."""
    rest = len(names) - MOST_LISTED
    return ", ".join(names[:MOST_LISTED]) + (f" and {rest} more" if rest > 0 else "")
