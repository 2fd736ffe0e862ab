"""What can be shown of a model beside its weights: effects of the inputs, observed and predicted values, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

from termwise._arrays import as_columns, evenly, rows_of
from termwise.estimators.labels import coded, decide
from termwise.explain.along import counts_of
from termwise.explain.averages import average_effects
from termwise.explain.comparison import in_this_process
from termwise.explain.effects import Effect, Parts
from termwise.explain.plain import plain, rounded
from termwise.explain.resolve import Unwrapped, leave_one_out

MOST_EFFECTS = 36
CURVE, SURFACE = 60, 24  # values of an input, alone and in a pair
SHOWN = 1000  # samples of which observed and predicted values are listed
EFFECT_ROWS = 5000  # samples effects are centred over


# -- effects -----------------------------------------------------------------------------------------------------------


def effects_of(parts: Unwrapped, X: Any) -> tuple[list[dict[str, Any]], str]:
    """Each input's and pair's effect on every output, the strongest first; or averages or none, and why."""
    if X is not None:
        X = rows_of(X, evenly(X.shape[0], EFFECT_ROWS))
    try:
        outputs = range(parts.outputs)
        curves = [Parts.of(parts.model, j).effects(X, CURVE)[0] for j in outputs]
        surfaces = [Parts.of(parts.model, j).effects(X, SURFACE)[0] for j in outputs]
    except ValueError as reason:
        averages = average_effects(parts, X) if parts.model.n_terms_ else []
        return strongest(averages, "average"), str(reason)
    chosen = [
        [one for one in many if len(one.inputs) == 1] + [one for one in few if len(one.inputs) == 2]
        for many, few in zip(curves, surfaces, strict=True)
    ]
    by_inputs = [{effect.inputs: effect for effect in effects} for effects in chosen]
    together = [[one[inputs] for one in by_inputs] for inputs in by_inputs[0] if inputs]
    return strongest(together, "exact"), ""


def strongest(effects: list[list[Effect]], kind: str) -> list[dict[str, Any]]:
    """The strongest effects as plain data."""
    effects = sorted(effects, key=lambda one: -max(effect.strength for effect in one))
    return [as_data(one, kind) for one in effects[:MOST_EFFECTS]]


def as_data(effects: list[Effect], kind: str) -> dict[str, Any]:
    """One input's, or pair's, effect on every output."""
    first = effects[0]
    return {
        "kind": kind,
        "inputs": list(first.inputs),
        "values": [plain(v.tolist()) if v.dtype == object else rounded(v) for v in first.values],
        "categories": [v.dtype == object for v in first.values],
        "effect": [rounded(effect.effect, 4) for effect in effects],
        "strength": [rounded(effect.strength, 4) for effect in effects],
        "deciles": [rounded(v, 4) for v in first.deciles],
    }


# -- samples -----------------------------------------------------------------------------------------------------------


def fit_of(parts: Unwrapped, X: Any, y: NDArray) -> dict[str, Any]:
    """Observed and predicted values of some samples; predictions with and without each of them."""
    residuals = leave_one_out(parts.model)
    rows = evenly(len(y), SHOWN)
    if parts.task == "classification":
        fitted = in_this_process(parts.model.predict(rows_of(X, rows)))
        without = None if residuals is None else plain(predicted_without(parts, y, residuals)[rows])
        return {"rows": plain(rows), "observed": plain(y[rows]), "fitted": plain(fitted), "loo": without}
    Y, fitted = as_columns(y[rows]), as_columns(in_this_process(parts.model.predict(rows_of(X, rows))))
    left_out = None if residuals is None else rounded((as_columns(y) - residuals)[rows].T)
    return {"rows": plain(rows), "observed": rounded(Y.T), "fitted": rounded(fitted.T), "loo": left_out}


def predicted_without(parts: Unwrapped, y: NDArray, residuals: NDArray) -> NDArray:
    """Classes of the samples as the model predicts them without each."""
    scores = as_columns(coded(parts.model.classes_, y)) - residuals
    return decide(scores[:, 0] if scores.shape[1] == 1 else scores, parts.model.classes_)


def confusion_of(parts: Unwrapped, X: Any, y: NDArray) -> dict[str, Any]:
    """How many samples of each class were put into each, by the model without them where that is known."""
    residuals = leave_one_out(parts.model)
    predicted = in_this_process(parts.model.predict(X)) if residuals is None else predicted_without(parts, y, residuals)
    counts = confusion_matrix(y, predicted, labels=parts.model.classes_)
    how = "fit" if residuals is None else "leave-one-out"
    return {"classes": [str(one) for one in parts.model.classes_], "counts": plain(counts), "how": how}


def accuracy_without(confusion: dict[str, Any]) -> float:
    """Share of samples on the diagonal."""
    counts = np.array(confusion["counts"])
    return float(np.trace(counts) / counts.sum())


def r2_without(parts: Unwrapped, y: NDArray) -> float | None:
    """One less the leave-one-out error as a share of the variance, averaged over the outputs."""
    residuals = leave_one_out(parts.model)
    if residuals is None:
        return None
    counts, Y = counts_of(parts.model, len(y)), as_columns(y).astype(np.float64)
    variance = counts @ (Y - counts @ Y / counts.sum()) ** 2
    if not np.all(variance > 0):
        return None
    return float(np.mean(1 - counts @ residuals**2 / variance))
