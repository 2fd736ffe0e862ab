"""What can be said of a predictor, which has no samples, and of any model on other samples."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, confusion_matrix, r2_score

from termwise._arrays import as_columns, evenly
from termwise.deploy.predictor import Predictor
from termwise.explain.comparison import in_this_process
from termwise.explain.plain import plain, rounded
from termwise.explain.shown import SHOWN


def predictor_facts(predictor: Predictor) -> dict[str, Any]:
    """Facts of a predictor that carries none: its terms and weights."""
    classes, q = predictor.classes, len(predictor.intercept)
    names = [f"y{j}" for j in range(q)] if q > 1 else ["y"]
    if classes is not None:
        names = [str(one) for one in classes] if q > 1 else [str(classes[-1])]
    weights = predictor.weights
    return {
        "model": {
            "class": "Predictor",
            "task": predictor.task,
            "n": None,
            "d": len(predictor.inputs),
            "n_terms": predictor.n_terms,
            "n_candidates": None,
            "dictionary": None,
            "alpha": None,
            "dof": None,
            "noise": None,
            "stop_reason": None,
            "target": None,
            "outputs": names,
            "classes": None if classes is None else [str(one) for one in classes],
            "criterion": None,
            "intercept": rounded(predictor.intercept),
        },
        "scores": {"held_out": None},
        "baselines": [],
        "criteria": [],
        "terms": [
            {"name": name, "weight": rounded(weights[:, j]), "std_error": None}
            for j, name in enumerate(predictor.term_names)
        ],
        "effects": [],
        "no_effects": "",
        "notes": ["Nothing is known of the fit: the predictor was saved without facts."],
        "reproduce": 'import termwise\n\nmodel = termwise.load_predictor("model.json")\nmodel.predict(X)',
        "versions": {"termwise": version("termwise")},
    }


def on_data(model: Any, X: Any, y: Any) -> dict[str, Any]:
    """Score a model on samples, and list observed and predicted values."""
    y, predicted = in_this_process(y), in_this_process(model.predict(X))
    rows, n = evenly(len(y), SHOWN), len(y)
    classes = getattr(model, "classes", getattr(model, "classes_", None))
    if classes is not None:
        labels = list(dict.fromkeys([*classes, *np.unique(y).tolist()]))
        counts = confusion_matrix(y, predicted, labels=labels)
        table = {"classes": [str(one) for one in labels], "counts": plain(counts), "how": "data"}
        return {"metric": "accuracy", "value": float(accuracy_score(y, predicted)), "n": n, "confusion": table}
    Y, F = as_columns(y).astype(np.float64), as_columns(predicted).astype(np.float64)
    fit = {"rows": plain(rows), "observed": rounded(Y[rows].T), "fitted": rounded(F[rows].T), "loo": None}
    rmse = rounded(np.sqrt(np.mean((Y - F) ** 2)))
    return {"metric": "R2", "value": float(r2_score(Y, F)), "n": n, "rmse": rmse, "fit": fit, "confusion": None}
