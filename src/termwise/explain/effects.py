"""Main effects and interactions: the exact additive decomposition of a model, or its partial dependence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.ndimage import binary_dilation

from termwise._arrays import densify, evenly
from termwise._checks import check_number, is_frame
from termwise.basis import TableEncoder
from termwise.explain.decomposition import AdditiveDecomposition, Purification, fold_models
from termwise.explain.groups import (
    EFFECT_ROWS,
    EffectGroup,
    column_groups,
    groups_metadata,
    term_groups,
    variance_shares,
)
from termwise.explain.inputs import TOTAL_ROWS, Input, density, encoded_blocks, make_inputs, total_effects
from termwise.explain.resolve import Floats, Metadata, ResolvedModel, round_significant, to_plain

BAND_COVERAGE = 0.9  # of the bands around main effects, pointwise
MAX_EFFECTS, MAX_INPUTS = 36, 200  # in the metadata
CURVE_GRID, SURFACE_GRID = 60, 24  # values of an input, alone and in a pair
PARTIAL_INPUTS = 60  # partial dependence on more inputs than this takes too long
PARTIAL_ROWS = 150  # samples it is averaged over
PARTIAL_GRID = 24  # values of an input
TAIL_SHARE = 0.01  # samples beyond a value, below which a curve is drawn lighter
REACH_SHARE = 0.1  # of the range of each input: a surface further than this from all samples is greyed


@dataclass(frozen=True)
class Effect:
    """Main effect of an input, or joint effect of two, on the prediction.

    Attributes
    ----------
    inputs : tuple of str
        Names of the one or two inputs.
    values : tuple of ndarrays
        Grid of each input: ascending numbers, or categories; of a category encoded by means of the targets the 100
        most frequent levels, in a main effect by ascending effect.
    effect : ndarray of shape (m,) or (m1, m2)
        Contribution to the prediction on the grid.
    strength : float
        Standard deviation of the effect over the samples of `X`, or over values spread evenly over the ranges of the
        inputs if there is no `X`. For partial dependence, the total effect of the input.
    deciles : tuple of ndarrays
        Deciles of each input in `X`; empty without `X` and for categories.
    density : ndarray of shape (m,) or (m1, m2), default=None
        Share of the samples nearest to each point of the grid; None without `X`.
    band : ndarray of shape (m,), default=None
        Half-width of a pointwise 90 % band around a main effect, from the models of the folds of a cross-validation
        that repeats the selection; None where there are none, and for pairs.
    share : float, default=None
        Variance of the effect as a share of the sum over all effects of the model; None for partial dependence.
    """

    inputs: tuple[str, ...]
    values: tuple[NDArray[Any], ...]
    effect: Floats
    strength: float
    deciles: tuple[Floats, ...]
    density: Floats | None = None
    band: Floats | None = None
    share: float | None = None

    @property
    def support(self) -> NDArray[np.bool_]:
        """Points of the grid near samples.

        Of one input those with at least 1 % of the samples on either side; of two, those with a sample within a tenth
        of the range of both, or of the same category.
        """
        if self.density is None:
            return np.ones(self.effect.shape, dtype=bool)
        if len(self.inputs) == 1:
            if self.values[0].dtype == object:
                return self.density > 0
            up_to = self.density.cumsum()
            return np.minimum(up_to, 1 - up_to + self.density) >= TAIL_SHARE
        window = [1 if v.dtype == object else 1 + 2 * round(REACH_SHARE * (len(v) - 1)) for v in self.values]
        return binary_dilation(self.density > 0, structure=np.ones(window, dtype=bool))

    @property
    def reach(self) -> float:
        """Largest absolute effect near samples, with its band: what the scale of a plot has to show."""
        return float(
            (np.abs(self.effect) + (0.0 if self.band is None else self.band)).max(where=self.support, initial=0.0)
        )


class Explanation(NamedTuple):
    """Effects of a model on its q outputs, in the same order for each of them."""

    effects: list[list[Effect]]  # of each output
    offset: Floats  # (q,)
    totals: dict[str, Floats]  # total effect of each input that is used, (q,)
    groups: list[EffectGroup]  # all effects, also those that are not drawn


def make_effects(
    members: list[Input], heights: Floats, strengths: Floats, band: Floats | None, observed: bool
) -> list[Effect]:
    """The effect of one input or two on each output; `observed` says whether the rows of the inputs are samples.

    Numbered categories are many: in a main effect they are in the order of the effect on the first output.
    """
    shape = heights.shape[:-1]
    values = tuple(one.grid(size)[0] for one, size in zip(members, shape, strict=True))
    deciles = tuple(one.deciles if observed else np.empty(0) for one in members)
    shares = density(members, shape) if observed else None
    if len(members) == 1 and members[0].numbered:
        order = np.argsort(heights[:, 0], kind="stable")
        values, heights = (values[0][order],), heights[order]
        shares, band = (None if one is None else one[order] for one in (shares, band))
    names = tuple(one.name for one in members)
    return [
        Effect(names, values, heights[..., j], float(strength), deciles, shares, None if band is None else band[:, j])
        for j, strength in enumerate(strengths)
    ]


# -- exact effects -----------------------------------------------------------------------------------------------------


def exact_effects(
    model: AdditiveDecomposition, X: Any, grid: int, pair_grid: int, max_rows: int | None = None
) -> Explanation:
    """Pure effects over the samples of X, or some of them, on grids of one size for an input and another for pairs."""
    resolved, U = model.resolved, model.spread_rows() if X is None else model.encode(X, max_rows)
    purify = Purification(U, make_inputs(model.blocks, U), grid, pair_grid)
    pure, constant = purify(model)
    shares = variance_shares([component.rows for component in pure.values()])
    mains = {key[0]: component.grid for key, component in pure.items() if len(key) == 1}  # of all inputs that are used
    folds = fold_models(resolved, model.n_encoders)
    bands = jackknife_bands([fold_effects(fold, model.n_encoders, mains, purify) for fold in folds], mains)
    effects = []
    for (key, component), share in zip(pure.items(), shares, strict=True):
        if len(component.grid):
            members, band = [purify.inputs[k] for k in key], bands.get(key[0]) if len(key) == 1 else None
            found = make_effects(members, component.grid, component.rows.std(axis=0), band, observed=X is not None)
            effects.append([replace(one, share=float(of)) for one, of in zip(found, share, strict=True)])
    totals = {purify.inputs[k].name: pure[k,].rows.std(axis=0) for k in mains}  # of inputs that act alone
    groups = model.groups()
    paired = [k for k in mains if any(k in key for key in pure if len(key) > 1)]
    terms = [np.concatenate([some for key, some in groups.items() if k in key]) for k in paired]
    totals |= total_effects(
        [purify.inputs[k] for k in paired],
        [partial(model.outputs, terms=some) for some in terms],
        U[evenly(len(U), TOTAL_ROWS)],
    )
    outputs = [list(on_output) for on_output in zip(*effects, strict=True)]
    return Explanation(outputs, resolved.intercept + constant, totals, column_groups(model, pure))


def check_output(output: int | None, n_outputs: int) -> int:
    """Validate the index of an output; None will do if there is only one."""
    if output is None and n_outputs == 1:
        return 0
    return int(check_number("output", output, low=0, below=n_outputs, integer=True, remedy="say which output to draw"))


def select_effects(effects: list[Effect], names: list[str], inputs: Iterable[Any]) -> list[Effect]:
    """Effects of the inputs and pairs given by name or position, in that order."""
    by_inputs = {frozenset(effect.inputs): effect for effect in effects}
    by_place: dict[Any, Any] = dict(enumerate(names))
    selected = []
    for item in [inputs] if isinstance(inputs, str) else inputs:
        wanted = frozenset(by_place.get(i, i) for i in (item if isinstance(item, tuple | list) else [item]))
        if wanted not in by_inputs:
            available = ", ".join(" and ".join(effect.inputs) for effect in effects)
            raise ValueError(
                f"inputs must be inputs, or pairs, that the terms of the model are of, got {item!r}: it has effects of "
                f"{available}."
            )
        selected.append(by_inputs[wanted])
    return selected


# -- partial dependence ------------------------------------------------------------------------------------------------


def partial_dependence(resolved: ResolvedModel, X: Any) -> Explanation | None:
    """Partial dependence on each input, for models whose terms cannot be separated; None if it takes too long.

    The strength is the total effect of the input: the spread of an average leaves out what the average hides.
    """
    first = resolved.steps[0] if resolved.steps else None
    if X is None or resolved.reads_past or X.shape[1] > PARTIAL_INPUTS:
        return None
    X = X if is_frame(X) else densify(X)
    encoder = first if isinstance(first, TableEncoder) else TableEncoder().fit(X)
    U, start = np.asarray(encoder.transform(X), dtype=np.float64), int(encoder is first)
    inputs = make_inputs(encoded_blocks(encoder), U)
    curves, *of_folds = (
        {k: partial_curve(one_model, start, one, U, PARTIAL_GRID) for k, one in enumerate(inputs)}
        for one_model in [resolved, *fold_models(resolved, start)]
    )
    bands = jackknife_bands(of_folds, curves)
    totals = total_effects(inputs, [partial(all_outputs, resolved, start)] * len(inputs), U[evenly(len(U), TOTAL_ROWS)])
    effects = [
        make_effects([one], curves[k], totals[one.name], bands.get(k), observed=True) for k, one in enumerate(inputs)
    ]
    offset = all_outputs(resolved, start, U).mean(axis=0) + resolved.intercept
    outputs = [list(on_output) for on_output in zip(*effects, strict=True)]
    return Explanation(outputs, offset, totals, term_groups(resolved, X))


def partial_curve(resolved: ResolvedModel, start: int, one: Input, U: Floats, size: int) -> Floats:
    """Partial dependence of all outputs on an input, (m, q), with mean zero over the samples.

    scikit-learn's function of that name takes neither polars frames nor inputs of several columns (one-hot codes).
    """
    rows, means = U[evenly(len(U), PARTIAL_ROWS)], []
    for code in one.grid(size)[1]:
        moved = rows.copy()
        moved[:, one.columns] = code
        means.append(all_outputs(resolved, start, moved).mean(axis=0))
    return np.array(means) - np.average(means, axis=0, weights=density([one], (len(means),)))


def all_outputs(resolved: ResolvedModel, start: int, U: Floats) -> Floats:
    """Sum of all terms for rows of encoded columns, (m, q)."""
    if not len(resolved.chosen):
        return np.zeros((len(U), len(resolved.weights)))
    return resolved.evaluate(U, start).astype(np.float64) @ resolved.weights.T


# -- bands -------------------------------------------------------------------------------------------------------------


def jackknife_bands(curves: list[dict[int, Floats]], mains: dict[int, Floats]) -> dict[int, Floats]:
    """Half-widths of the bands around main effects, (m, q), from the effects of K models that each leave out one fold.

    The delete-a-group jackknife: the standard error is `sqrt((K - 1) / K sum_k (f_k - mean f)^2)`, whose factor
    accounts for the overlap of the training folds (Shao and Wu 1989), times the quantile of Student's distribution with
    K - 1 degrees of freedom. Selection is repeated in every fold, so its variation is included; the bias is not. The
    effect of an input that the model of a fold does not use is zero.
    """
    K = len(curves)
    bands: dict[int, Floats] = {}
    if K < 2:
        return bands
    quantile = stats.t.ppf((1 + BAND_COVERAGE) / 2, K - 1)
    for k, main in mains.items():
        of_folds = np.array([found.get(k, np.zeros(main.shape)) for found in curves])
        squares = ((of_folds - np.mean(of_folds, axis=0)) ** 2).sum(axis=0)
        bands[k] = quantile * np.sqrt((K - 1) / K * squares)
    return bands


def fold_effects(fold: ResolvedModel, start: int, mains: Iterable[int], purify: Purification) -> dict[int, Floats]:
    """Main effects of the model of a fold, (m, q); its partial dependence if its terms cannot be separated."""
    if not len(fold.chosen):
        return {}
    try:
        model = AdditiveDecomposition.from_model(fold)
    except ValueError:
        return {k: partial_curve(fold, start, purify.inputs[k], purify.rows, purify.grid_size) for k in mains}
    return {key[0]: component.grid for key, component in purify(model)[0].items() if len(key) == 1}


# -- metadata ----------------------------------------------------------------------------------------------------------


def effects_metadata(resolved: ResolvedModel, X: Any) -> Metadata:
    """The strongest effects on every output and the total effects of the inputs, as plain data.

    Where there are no exact effects, "effects" are averages, and "no_effects" is the reason.
    """
    X = resolved.thin(X, EFFECT_ROWS)
    kind, reason, found = "exact", "", None
    try:
        found = exact_effects(AdditiveDecomposition.from_model(resolved), X, CURVE_GRID, SURFACE_GRID, EFFECT_ROWS)
    except ValueError as error:
        kind, reason = "average", str(error)
        found = partial_dependence(resolved, X) if len(resolved.chosen) else None
    if found is None:
        groups = groups_metadata(term_groups(resolved, X))
        return {"effects": [], "groups": groups, "importance": [], "no_effects": reason}
    effects = sorted(zip(*found.effects, strict=True), key=lambda outputs: -max(one.strength for one in outputs))
    totals = sorted(found.totals.items(), key=lambda item: -np.linalg.norm(item[1]))
    return {
        "effects": [{"kind": kind, **effect_metadata(outputs)} for outputs in effects[:MAX_EFFECTS]],
        "groups": groups_metadata(found.groups),
        "importance": [
            {"input": name, "total": round_significant(total, 4)} for name, total in totals[:MAX_INPUTS] if total.any()
        ],
        "no_effects": reason,
    }


def effect_metadata(outputs: tuple[Effect, ...]) -> Metadata:
    """An effect on every output as plain data."""
    one = outputs[0]
    found = {
        "inputs": list(one.inputs),
        "values": [to_plain(v) if v.dtype == object else round_significant(v) for v in one.values],
        "categories": [v.dtype == object for v in one.values],
        "effect": [round_significant(effect.effect, 4) for effect in outputs],
        "strength": [round_significant(effect.strength, 4) for effect in outputs],
        "deciles": [round_significant(v, 4) for v in one.deciles],
    }
    if one.share is not None:
        found["share"] = [round_significant(effect.share or 0.0, 4) for effect in outputs]
    if one.density is not None:
        found["support"] = to_plain(one.support.astype(np.int8))
        if len(one.inputs) == 1:
            found["density"] = round_significant(one.density, 3)
    if one.band is not None:
        found["band"] = [None if effect.band is None else round_significant(effect.band, 3) for effect in outputs]
    return found
