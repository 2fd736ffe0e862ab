"""Terms grouped into effects: the main effect of an input, the joint effect of two or more, and their shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from termwise._arrays import evenly, rows_of
from termwise.basis import LagBasis
from termwise.explain.decomposition import AdditiveDecomposition, Key, Part, Purification
from termwise.explain.inputs import inputs_of as inputs_of_columns
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


def input_labels(model: Any) -> list[str]:
    """Return the names of the inputs of a fitted estimator."""
    return [str(name) for name in getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])]


def variance_shares(parts: Sequence[Floats]) -> Floats:
    """Variance of each part, (n, q), as a share of the sum over the parts, (number of parts, q)."""
    variances = np.array([part.var(axis=0) for part in parts])
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
    model = resolved.model
    groups: dict[Key, list[int]] = {}
    for term, inputs in enumerate(inputs_of(model.fitted_terms_)):
        groups.setdefault(inputs, []).append(term)
    labels = input_labels(model)
    names = {key: tuple(labels[j] for j in key) for key in groups}
    if X is None or not groups:
        return list_groups(names, groups, None)
    G = resolved.evaluate(X, 0).astype(np.float64)
    parts = [G[:, some] @ resolved.weights[:, some].T for some in groups.values()]
    return list_groups(names, groups, variance_shares(parts))


def column_groups(model: AdditiveDecomposition, parts: Mapping[Key, Part]) -> list[EffectGroup]:
    """Return pure effects grouped by columns of the table: all inputs that a column is encoded by are one."""
    origins, labels = model.origins()
    rows: dict[Key, Floats] = {}
    terms: dict[Key, list[int]] = {}
    for key, part in parts.items():
        columns = tuple(sorted({origins[k] for k in key}))
        rows[columns] = rows.get(columns, 0.0) + part.rows
    for key, some in model.groups().items():
        terms.setdefault(tuple(sorted({origins[k] for k in key})), []).extend(some.tolist())
    names = {key: tuple(labels[j] for j in key) for key in rows}
    return list_groups(names, terms, variance_shares(list(rows.values())))


def effect_groups(resolved: ResolvedModel, X: Any) -> list[EffectGroup]:
    """Return the effects of a model: pure ones if its terms can be separated, else the terms grouped by inputs."""
    lagged = any(isinstance(step, LagBasis) for step in resolved.steps)
    X = None if X is None or lagged else rows_of(X, evenly(X.shape[0], EFFECT_ROWS))
    if X is not None:
        with suppress(ValueError):  # terms of many inputs, or none
            model = AdditiveDecomposition.from_model(resolved)
            U = model.encode(X)
            purify = Purification(U, inputs_of_columns(model.blocks, U), 2, 2)  # the grids are not drawn
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
