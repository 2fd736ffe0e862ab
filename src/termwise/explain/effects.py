"""Main effects and interactions: the exact additive decomposition of a model, or its partial dependence."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from termwise._arrays import densify, evenly, is_foreign, rows_of, to_host
from termwise._checks import check_number, check_table
from termwise.basis import AnovaBasis, LagBasis, SmoothBasis, TableEncoder, UnionBasis
from termwise.basis.base import inputs_of_columns
from termwise.basis.encoder import is_frame
from termwise.explain.resolve import SCALERS, Floats, Metadata, ResolvedModel, round_significant, to_plain

Blocks = list[tuple[str, list[Any] | None]]  # names of inputs, and their categories if they have some

DECILES = np.arange(0.1, 0.95, 0.1)
MAX_EFFECTS = 36  # in the metadata
CURVE_GRID, SURFACE_GRID = 60, 24  # values of an input, alone and in a pair
EFFECT_ROWS = 5000  # samples over which effects are centred
PARTIAL_INPUTS = 60  # partial dependence on more inputs than this takes too long
PARTIAL_ROWS = 150  # samples it is averaged over
PARTIAL_GRID = 24  # values of an input


@dataclass(frozen=True)
class Effect:
    """Main effect of an input, or joint effect of two, on the prediction.

    Attributes
    ----------
    inputs : tuple of str
        Names of the one or two inputs.
    values : tuple of ndarrays
        Grid of each input: ascending numbers, or categories.
    effect : ndarray of shape (m,) or (m1, m2)
        Contribution to the prediction on the grid.
    strength : float
        Standard deviation of the effect, over `X` if that was given, over the grid otherwise.
    deciles : tuple of ndarrays
        Deciles of each input in `X`; empty without `X` and for categories.
    """

    inputs: tuple[str, ...]
    values: tuple[NDArray, ...]
    effect: Floats
    strength: float
    deciles: tuple[Floats, ...]


class InputGrid(NamedTuple):
    """Grid of an input, and the encoded columns it consists of."""

    name: str
    columns: list[int]
    values: NDArray  # (m,)
    codes: Floats  # (m, number of columns), the values as encoded columns
    deciles: Floats


def input_grids(blocks: Blocks, ends: Floats, size: int, U: Floats | None) -> list[InputGrid]:
    """Grids of all inputs, between the lowest and highest values of the columns in the two rows of `ends`."""
    grids, start = [], 0
    for name, categories in blocks:
        columns = list(range(start, start + (1 if categories is None else len(categories))))
        start += len(columns)
        deciles = np.empty(0)
        if categories is None:
            values = np.linspace(ends[0, columns[0]], ends[1, columns[0]], size)
            codes = values[:, None]
            deciles = deciles if U is None else np.quantile(U[:, columns[0]], DECILES)
        else:
            values = np.fromiter(categories, dtype=object, count=len(categories))
            codes = np.eye(len(categories))
        grids.append(InputGrid(name, columns, values, codes, deciles))
    return grids


# -- exact effects -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AdditiveDecomposition:
    """A model as a sum of functions of one or two inputs: `prediction = offset + sum of the effects`.

    The first `n_encoders` steps of the model turn a table into the inputs; scalers and the basis follow.
    """

    resolved: ResolvedModel
    output: int
    n_encoders: int
    basis: AnovaBasis | SmoothBasis | UnionBasis | None  # of the chosen terms; None if they are columns
    columns: NDArray[np.intp]  # (k, 2), encoded columns that each term depends on; -1 for none
    blocks: Blocks

    @classmethod
    def from_model(cls, resolved: ResolvedModel, output: int | None) -> Self:
        """Decompose a model, or raise unless each of its terms is a function of one or two inputs."""
        if not len(resolved.chosen):
            raise ValueError("estimator must have terms to draw, got none: the model is the mean.")
        output = check_output(output, len(resolved.intercept))
        steps, basis = list(resolved.steps), None
        if steps and isinstance(steps[-1], AnovaBasis | SmoothBasis | UnionBasis):
            basis = steps.pop().take(resolved.chosen)
        n_encoders = len(steps)
        while n_encoders and isinstance(steps[n_encoders - 1], SCALERS):
            n_encoders -= 1
        opaque = basis is None and n_encoders and not isinstance(steps[n_encoders - 1], TableEncoder)
        columns = columns_of(steps[n_encoders - 1] if opaque else basis, resolved.chosen)
        return cls(resolved, output, n_encoders, basis, columns, name_inputs(resolved, n_encoders))

    def effects(self, X: Any, grid: int) -> tuple[list[Effect], float]:
        """All effects, the strongest first, and the offset they are added to."""
        U, weights = None, self.resolved.weights[self.output]
        if X is not None:  # as encoded columns, in the units they are drawn in
            U = check_table(to_host(X) if is_foreign(X) else X)
            validate_data(self.resolved.model, U, skip_check_array=True, reset=False)
            for step in self.resolved.steps[: self.n_encoders]:
                U = step.transform(U)
            U = check_array(densify(U), dtype=np.float64)
        grids = input_grids(self.blocks, self._ranges(U), grid, U)
        samples = None if U is None else self.resolved.evaluate(U, self.n_encoders)
        effects, offset = [], float(self.resolved.intercept[self.output])
        for key, terms in self._groups().items():
            pair = [grids[k] for k in key]
            heights = self.resolved.evaluate(mesh(key, grids), self.n_encoders, terms) @ weights[terms]
            reference = heights if samples is None else samples[:, terms] @ weights[terms]
            center = float(reference.mean())
            heights = (heights - center).reshape([len(one.values) for one in pair])
            names, values, deciles = zip(*((one.name, one.values, one.deciles) for one in pair), strict=True)
            effects.append(Effect(names, values, heights, float(reference.std()), deciles))
            offset += center
        return sorted(effects, key=lambda effect: -effect.strength), offset

    def select(self, effects: list[Effect], inputs: Iterable[Any]) -> list[Effect]:
        """Effects of the inputs and pairs named, in that order."""
        by_inputs = {frozenset(effect.inputs): effect for effect in effects}
        names: dict[Any, Any] = {k: name for k, (name, _) in enumerate(self.blocks)}
        selected = []
        for item in [inputs] if isinstance(inputs, str) else inputs:
            wanted = frozenset(names.get(i, i) for i in (item if isinstance(item, tuple | list) else [item]))
            if wanted not in by_inputs:
                available = ", ".join(" and ".join(effect.inputs) for effect in effects)
                raise ValueError(
                    f"inputs must be inputs, or pairs, that the terms of the model are of, got {item!r}: it has "
                    f"effects of {available}."
                )
            selected.append(by_inputs[wanted])
        return selected

    def _groups(self) -> dict[tuple[int, ...], NDArray[np.intp]]:
        """Positions of the terms of each input and each pair."""
        sizes = [1 if categories is None else len(categories) for _, categories in self.blocks]
        owner = np.append(np.repeat(np.arange(len(sizes)), sizes), -1)  # input of each column; the last for none
        groups: dict[tuple[int, ...], list[int]] = {}
        for term, pair in enumerate(self.columns):
            groups.setdefault(tuple(sorted(set(owner[pair].tolist()) - {-1})), []).append(term)
        return {key: np.array(terms) for key, terms in groups.items()}

    def _ranges(self, U: Floats | None) -> Floats:
        """Lowest and highest value of each column, of the samples U or of those that the basis was fitted to."""
        if U is not None:
            ends = np.array([U.min(axis=0), U.max(axis=0)])
        elif self.basis is not None:
            basis = self.basis
            while isinstance(basis, UnionBasis):  # its bases are fitted to the same inputs
                basis = basis.bases_[0]
            ends = basis.ranges_
            with warnings.catch_warnings():  # values without an inverse are NaN, checked below
                warnings.simplefilter("ignore")
                for scaler in reversed(self.resolved.steps[self.n_encoders : -1]):
                    ends = scaler.inverse_transform(ends)
        if (U is None and self.basis is None) or not np.isfinite(ends).all():
            raise ValueError(
                "X must be given for this model, got None: it does not know the ranges of its inputs. The samples it "
                "was fitted to will do."
            )
        ends = np.sort(ends, axis=0)
        return ends + np.where(ends[0] == ends[1], [[-0.5], [0.5]], 0.0)  # constant columns need an axis too


def mesh(key: tuple[int, ...], grids: list[InputGrid]) -> Floats:
    """Rows of encoded columns: all combinations of the values of some inputs, one arbitrary value of the others."""
    places = np.meshgrid(*(np.arange(len(grids[k].values)) for k in key), indexing="ij")
    rows = np.tile(np.concatenate([grid.codes[0] for grid in grids]), (places[0].size, 1))
    for k, place in zip(key, places, strict=True):
        rows[:, grids[k].columns] = grids[k].codes[place.ravel()]
    return rows


def check_output(output: int | None, n_outputs: int) -> int:
    """Validate the index of an output; None will do if there is only one."""
    if output is None and n_outputs == 1:
        return 0
    return int(check_number("output", output, low=0, below=n_outputs, integer=True, remedy="say which output to draw"))


def columns_of(basis: Any, columns: NDArray[np.intp]) -> NDArray[np.intp]:
    """Columns that each function depends on, (p, 2), -1 for none; without a basis the functions are columns."""
    if isinstance(basis, UnionBasis):
        return np.vstack([columns_of(part, columns) for part in basis.bases_])[basis.places_]
    separable = basis is None or isinstance(basis, AnovaBasis | SmoothBasis)
    sets = inputs_of_columns(basis, columns if basis is None else np.arange(basis.n_functions)) if separable else []
    if not separable or any(len(inputs) > 2 for inputs in sets):
        raise ValueError(
            "estimator must have terms of one or two inputs, such as those of AnovaBasis, got terms of "
            f"{type(basis).__name__}, whose inputs are not known term by term: the effects of single inputs cannot be "
            "separated. Use scikit-learn's PartialDependenceDisplay for averages over the other inputs."
        )
    return np.array([(*inputs, -1)[:2] for inputs in sets], dtype=np.intp)


def name_inputs(resolved: ResolvedModel, n_encoders: int) -> Blocks:
    """Names of the encoded inputs, and the categories of those that have some."""
    model, steps = resolved.model, resolved.steps
    names: ArrayLike = getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
    for k, step in enumerate(steps[:n_encoders]):
        if k == n_encoders - 1 and isinstance(step, TableEncoder):
            return step.blocks(names)
        nameless = not hasattr(step, "get_feature_names_out")
        names = [f"x{j}" for j in range(steps[k + 1].n_features_in_)] if nameless else step.get_feature_names_out(names)
    return [(str(name), None) for name in np.asarray(names, dtype=object)]


# -- partial dependence ------------------------------------------------------------------------------------------------


def partial_dependence(resolved: ResolvedModel, X: Any) -> list[list[Effect]]:
    """Centred partial dependence of every output on each input, for models whose terms cannot be separated.

    scikit-learn's function of that name takes neither polars frames nor inputs of several columns (one-hot codes).
    """
    first = resolved.steps[0] if resolved.steps else None
    if X is None or isinstance(first, LagBasis) or X.shape[1] > PARTIAL_INPUTS:
        return []
    X = X if is_frame(X) else densify(X)
    encoder = first if isinstance(first, TableEncoder) else TableEncoder().fit(X)
    U = encoder.transform(X)
    rows, effects = U[evenly(len(U), PARTIAL_ROWS)], []
    for grid in input_grids(encoder.blocks(), np.array([U.min(axis=0), U.max(axis=0)]), PARTIAL_GRID, U):
        means = []
        for code in grid.codes:
            moved = rows.copy()
            moved[:, grid.columns] = code
            G = resolved.evaluate(moved, int(encoder is first)).astype(np.float64)
            means.append((G @ resolved.weights.T + resolved.intercept).mean(axis=0))
        heights = np.array(means)
        effects.append(
            [Effect((grid.name,), (grid.values,), h - h.mean(), float(h.std()), (grid.deciles,)) for h in heights.T]
        )
    return effects


# -- metadata ----------------------------------------------------------------------------------------------------------


def effects_metadata(resolved: ResolvedModel, X: Any) -> tuple[list[Metadata], str]:
    """The strongest effects on every output as plain data; where there are no exact ones, averages, and the reason."""
    X = None if X is None else rows_of(X, evenly(X.shape[0], EFFECT_ROWS))
    kind, reason, by_inputs = "exact", "", []
    try:
        for output in range(len(resolved.intercept)):
            model = AdditiveDecomposition.from_model(resolved, output)
            curves = [effect for effect in model.effects(X, CURVE_GRID)[0] if len(effect.inputs) == 1]
            surfaces = [effect for effect in model.effects(X, SURFACE_GRID)[0] if len(effect.inputs) == 2]
            by_inputs.append({effect.inputs: effect for effect in curves + surfaces})
        effects = [[of_output[inputs] for of_output in by_inputs] for inputs in by_inputs[0]]
    except ValueError as error:
        kind, reason = "average", str(error)
        effects = partial_dependence(resolved, X) if len(resolved.chosen) else []
    effects.sort(key=lambda outputs: -max(effect.strength for effect in outputs))
    return [
        {
            "kind": kind,
            "inputs": list(outputs[0].inputs),
            "values": [to_plain(v) if v.dtype == object else round_significant(v) for v in outputs[0].values],
            "categories": [v.dtype == object for v in outputs[0].values],
            "effect": [round_significant(effect.effect, 4) for effect in outputs],
            "strength": [round_significant(effect.strength, 4) for effect in outputs],
            "deciles": [round_significant(v, 4) for v in outputs[0].deciles],
        }
        for outputs in effects[:MAX_EFFECTS]
    ], reason
