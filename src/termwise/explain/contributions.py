"""Contributions of the effects to single predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from termwise.deploy.predictor import Predictor
from termwise.explain.groups import effect_name
from termwise.explain.resolve import Floats


@dataclass(frozen=True)
class Contributions:
    """Outputs of a model as sums over its effects: `base + values.sum(axis=1)`.

    Attributes
    ----------
    base : ndarray of shape (q,)
        Mean output over the samples of the fit, or the intercept where their means are not known.
    effects : list of str
        Names of the effects, such as "age" or "age and bmi", the one that contributes most to the rows first.
    values : ndarray of shape (m, number of effects, q)
        Contribution of each effect to each row and output: the sum of its terms, less its mean over the samples.
    """

    base: Floats
    effects: list[str]
    values: Floats


def contributions(predictor: Any, X: Any) -> Contributions:
    """Split predictions into contributions of the effects: why a row has the prediction it has.

    Terms are grouped by the inputs they depend on, as they are: a product of two inputs contributes to the joint effect
    of both.

    Parameters
    ----------
    predictor : Predictor
        The model, with its metadata (`with_facts`), which have the inputs of the terms and their means. Without, every
        term is an effect of its own, and the base is the intercept.
    X : data frame or array-like of shape (m, d)
        Inputs.

    Returns
    -------
    contributions : Contributions
        With `base`, `effects` and `values`. They add up to the output: the prediction of a regression, the score of
        each class (of the second of two) for a classifier.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import ForwardRegressor, diagnostics
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = ForwardRegressor().fit(X, y)
    >>> predictor = model.predictor_.with_facts(diagnostics.facts(model, X, y))
    >>> found = diagnostics.contributions(predictor, X)
    >>> found.effects[0]
    's5'
    >>> bool(abs(found.base + found.values.sum(axis=1) - model.predict(X)[:, None]).max() < 1e-3)
    True
    """
    if not isinstance(predictor, Predictor):
        raise TypeError(
            f"predictor must be a Predictor, got {predictor!r}: load a model file with load_predictor, or use "
            "model.predictor_.with_facts(diagnostics.facts(model, X, y))."
        )
    listed = (predictor.facts or {}).get("terms") or []
    known = len(listed) == predictor.n_terms and all("inputs" in term for term in listed)
    # effects are told apart by their inputs, not by their names: a column may be called "age and bmi"
    keys: list[Any] = [tuple(term["inputs"]) for term in listed] if known else list(range(predictor.n_terms))
    means = np.array([term.get("mean") or 0.0 for term in listed] if known else [0.0] * predictor.n_terms)
    effects = list(dict.fromkeys(keys))
    names = unique_names([effect_name(key) for key in effects] if known else predictor.term_names)
    parts = (predictor.terms(X) - means)[:, :, None] * predictor.weights.T
    values = np.zeros((len(parts), len(effects), len(predictor.intercept)))
    for j, key in enumerate(keys):
        values[:, effects.index(key)] += parts[:, j]
    order = np.argsort(-(values**2).sum(axis=(0, 2)), kind="stable")
    return Contributions(predictor.intercept + predictor.weights @ means, [names[k] for k in order], values[:, order])


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names of which those that were used before are numbered."""
    found: list[str] = []
    for base in names:
        name, number = base, 1
        while name in found:
            number += 1
            name = f"{base} ({number})"
        found.append(name)
    return found
