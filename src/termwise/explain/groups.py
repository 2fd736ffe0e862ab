"""Terms grouped into effects: the main effect of an input, the joint effect of two or more; shares, contributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from termwise.deploy.predictor import Predictor
from termwise.explain.decomposition import AdditiveDecomposition, Component, Key, Purification
from termwise.explain.inputs import make_inputs
from termwise.explain.resolve import Floats, Metadata, ResolvedModel, resolve, round_significant
from termwise.fitted import inputs_of

EFFECT_ROWS = 5000  # samples over which effects are pure and centred
MIN_SHARE = 0.01  # of the variance: smaller effects are counted together
MAX_NAMED = 4  # inputs of an effect that its name lists
MAX_GROUPS = 200  # in the metadata


@dataclass(frozen=True)
class EffectGroup:
    """An effect of a model: its inputs, the terms that belong to it, and its share of the variance.

    Attributes
    ----------
    inputs : tuple of str
        Names of the inputs; all levels of a category are one input.
    terms : tuple of int
        Positions of the terms that depend on these inputs and no others. A main effect that is part of products only
        has none.
    n_terms : int
        Number of terms that depend on these inputs, others among them or not: those that contribute to the effect.
    share : float or None
        Variance over the samples as a share of the sum over all effects, averaged over the outputs; None without
        samples.
    """

    inputs: tuple[str, ...]
    terms: tuple[int, ...]
    n_terms: int
    share: float | None

    @property
    def name(self) -> str:
        """The names of the inputs in one string."""
        return effect_name(self.inputs)


def effect_name(inputs: Sequence[str]) -> str:
    """Return the name of the effect of some inputs, such as "age and bmi", or "constant" for a term of none."""
    if not inputs:
        return "constant"
    *others, last = inputs if len(inputs) <= MAX_NAMED else (*inputs[:MAX_NAMED], f"{len(inputs) - MAX_NAMED} more")
    return f"{', '.join(others)} and {last}" if others else last


def variance_shares(effects: Sequence[Floats]) -> Floats:
    """Variance of each effect, (n, q), as a share of the sum over the effects, (number of effects, q)."""
    variances = np.array([effect.var(axis=0) for effect in effects])
    total = variances.sum(axis=0)
    return variances / np.where(total > 0, total, 1.0)


def list_groups(
    names: Mapping[Key, tuple[str, ...]], terms: Mapping[Key, Sequence[int]], shares: Floats | None
) -> list[EffectGroup]:
    """Return effects with their terms, the largest share first, or the most terms; names and shares are in one order.

    Keys are sets of inputs, by which the terms are grouped.
    """
    with_input: dict[Any, list[Key]] = {}  # the sets that an input is in: a wide table has too many to compare all
    for key in terms:
        for one in key:
            with_input.setdefault(one, []).append(key)
    found = []
    for j, (key, inputs) in enumerate(names.items()):
        own = tuple(terms.get(key, ()))
        others = min((with_input.get(one, []) for one in key), key=len, default=[])
        n_terms = sum(len(terms[other]) for other in others if set(key) <= set(other)) if key else len(own)
        found.append(EffectGroup(inputs, own, n_terms, None if shares is None else float(shares[j].mean())))
    return sorted(found, key=lambda group: (-(group.share or 0.0), -group.n_terms))


def term_groups(resolved: ResolvedModel, X: Any) -> list[EffectGroup]:
    """Return the terms grouped by their inputs, with the variance of the sum of each group as it is.

    For terms that cannot be separated into main effects and interactions.
    """
    groups: dict[Key, list[int]] = {}
    for term, inputs in enumerate(inputs_of(resolved.model.fitted_terms_)):
        groups.setdefault(inputs, []).append(term)
    names = {key: tuple(resolved.input_names[j] for j in key) for key in groups}
    if X is None or not groups:
        return list_groups(names, groups, None)
    G = resolved.evaluate(X, 0).astype(np.float64)
    parts = [G[:, some] @ resolved.weights[:, some].T for some in groups.values()]
    return list_groups(names, groups, variance_shares(parts))


def column_groups(model: AdditiveDecomposition, pure: Mapping[Key, Component]) -> list[EffectGroup]:
    """Return pure effects grouped by columns of the table: all inputs that a column is encoded by are one."""
    origins, labels = model.origins()
    rows: dict[Key, Floats] = {}
    terms: dict[Key, list[int]] = {}
    for key, component in pure.items():
        columns = tuple(sorted({origins[k] for k in key}))
        rows[columns] = rows.get(columns, 0.0) + component.rows
    for key, some in model.groups().items():
        terms.setdefault(tuple(sorted({origins[k] for k in key})), []).extend(some.tolist())
    names = {key: tuple(labels[j] for j in key) for key in rows}
    return list_groups(names, terms, variance_shares(list(rows.values())))


def effect_groups(resolved: ResolvedModel, X: Any) -> list[EffectGroup]:
    """Return the effects of a model: pure ones if its terms can be separated, else the terms grouped by inputs."""
    X = None if resolved.reads_past else resolved.thin(X, EFFECT_ROWS)
    if X is not None:
        with suppress(ValueError):  # terms of many inputs, or none
            model = AdditiveDecomposition.from_model(resolved)
            U = model.encode(X)
            purify = Purification(U, make_inputs(model.blocks, U), 2, 2)  # the grids are not drawn
            return column_groups(model, purify(model)[0])
    return term_groups(resolved, X)


def effects_table(estimator: Any, X: Any = None) -> list[dict[str, Any]]:
    """List the effects of a model: which inputs, how many terms, what share of the variance.

    Terms are grouped by the inputs they depend on: the main effect of an input, the joint effect of two, and so on; all
    levels of a category are one input. Where no term depends on more than three inputs, effects are pure over the
    samples, as in `ShapeDisplay`: what functions of single inputs explain of a product is part of their main effects.

    Parameters
    ----------
    estimator : fitted estimator of termwise, `CriterionSearch`, or a pipeline that ends in one
        The model.
    X : data frame or array-like of shape (n, d), default=None
        Samples, by default those that a model with a basis has kept of its fit: at most 2,000, and none of very wide
        tables and of data on a cluster.

    Returns
    -------
    table : list of dict
        One for each effect, the largest share first. "inputs" : names of the inputs. "terms" : names of the terms that
        depend on these inputs and no others. "n_terms" : number of terms that contribute, those of products among them.
        "share" : variance of the effect over the samples as a share of the sum over all effects, averaged over the
        outputs; None without samples.

    Notes
    -----
    Where effects are correlated, the sum of their variances is not the variance of the prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import AnovaBasis, ForwardRegressor, diagnostics
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(300, 5))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=300)
    >>> model = ForwardRegressor(AnovaBasis()).fit(X, y)
    >>> for effect in diagnostics.effects_table(model)[:2]:
    ...     print(" and ".join(effect["inputs"]), effect["n_terms"], f"{effect['share']:.0%}")
    x0 3 83%
    x1 and x2 1 16%
    """
    resolved = resolve(estimator, "effects_table")
    sample = resolved.model.fitted_terms_.sample
    table, names = sample if X is None else resolved.preprocess(X), resolved.term_names(resolved.chosen)
    return [
        {
            "inputs": list(group.inputs),
            "terms": [names[term] for term in group.terms],
            "n_terms": group.n_terms,
            "share": group.share,
        }
        for group in effect_groups(resolved, table)
    ]


def groups_metadata(groups: Sequence[EffectGroup]) -> list[Metadata]:
    """Effects with their terms and shares as plain data."""
    return [
        {
            "inputs": list(group.inputs),
            "terms": list(group.terms),
            "n_terms": group.n_terms,
            "share": None if group.share is None else round_significant(group.share, 4),
        }
        for group in groups[:MAX_GROUPS]
    ]


# -- contributions to single predictions -------------------------------------------------------------------------------


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
        each class (of the second of two) for a classifier. Outputs beyond the `limits` of the predictor are clipped
        after the sum.

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
    found: dict[str, None] = {}
    for base in names:
        name, number = base, 1
        while name in found:
            number += 1
            name = f"{base} ({number})"
        found[name] = None
    return list(found)
