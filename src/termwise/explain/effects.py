"""A model taken apart: what each input, and each pair of inputs, adds to the prediction."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from termwise._arrays import densify, is_foreign, to_host
from termwise._checks import check_number, check_table
from termwise.basis import AnovaBasis, SmoothBasis, TableEncoder, UnionBasis
from termwise.estimators.model import TermModel

Floats = NDArray[np.float64]
Terms = AnovaBasis | SmoothBasis | UnionBasis  # bases that may have functions of few inputs only
Blocks = list[tuple[str, list[Any] | None]]  # names of inputs, and their categories if they have some

# Steps that change the unit of each column on its own: effects are shown in the units before them.
SCALERS = (MaxAbsScaler, MinMaxScaler, PowerTransformer, QuantileTransformer, RobustScaler, StandardScaler)
DECILES = np.arange(0.1, 0.95, 0.1)


@dataclass(frozen=True)
class Effect:
    """What one input, or two together, add to the prediction.

    Attributes
    ----------
    inputs : tuple of str
        Names of the one or two inputs.
    values : tuple of ndarrays
        Where each input was evaluated: ascending numbers, or categories.
    effect : ndarray of shape (m,) or (m1, m2)
        What is added there.
    strength : float
        Standard deviation of the effect, over `X` if that was given, over the values otherwise.
    deciles : tuple of ndarrays
        Deciles of each input in `X`; empty without `X` and for categories.
    """

    inputs: tuple[str, ...]
    values: tuple[NDArray, ...]
    effect: Floats
    strength: float
    deciles: tuple[Floats, ...]


class Input(NamedTuple):
    """An input as it is drawn, and the columns it stands for."""

    name: str
    columns: list[int]
    values: NDArray  # (m,), where it is evaluated
    codes: Floats  # (m, number of columns), the columns there
    deciles: Floats


@dataclass(frozen=True)
class Parts:
    """A model taken apart: `head` makes columns of a table, `scalers` change their units, the terms are of few each."""

    model: TermModel
    head: list[Any]
    scalers: list[Any]
    basis: Terms | None  # of the chosen terms; None if they are columns
    weights: Floats
    intercept: float
    blocks: Blocks

    @classmethod
    def of(cls, model: Any, output: int | None) -> Self:
        """Find the parts of a fitted model."""
        if not isinstance(model, TermModel):
            raise TypeError(
                f"estimator must be a fitted estimator of termwise, got {model!r}: of a pipeline give the last step."
            )
        check_is_fitted(model)
        if not model.n_terms_:
            raise ValueError("estimator must have terms to draw, got none: the model is the mean.")
        k = check_output(output, len(np.atleast_1d(to_host(model.intercept_))))
        basis = model.basis_
        steps = [step for _, step in basis.steps] if isinstance(basis, Pipeline) else [basis]
        steps = [step for step in steps if step is not None and step != "passthrough"]
        terms = steps.pop().take(model._chosen) if steps and isinstance(steps[-1], Terms) else None
        cut = len(steps)
        while cut and isinstance(steps[cut - 1], SCALERS):
            cut -= 1
        head, scalers = steps[:cut], steps[cut:]
        check_separable(terms, head)
        weights, intercept = np.atleast_2d(to_host(model.weights_))[k], np.atleast_1d(to_host(model.intercept_))[k]
        return cls(model, head, scalers, terms, weights, float(intercept), name_inputs(model, head, [*scalers, terms]))

    def effects(self, X: Any, grid: int) -> tuple[list[Effect], float]:
        """Return all effects, the strongest first, and what they are added to."""
        U = None if X is None else self._columns(X)
        inputs = self._inputs(U, grid)
        samples = None if U is None else self._evaluate(U, np.arange(len(self.weights)))
        effects, offset = [], self.intercept
        for key, terms in self._groups().items():
            pair, weights = [inputs[k] for k in key], self.weights[terms]
            heights = self._evaluate(mesh(key, inputs), terms) @ weights
            reference = heights if samples is None else samples[:, terms] @ weights
            center = float(reference.mean())
            heights = (heights - center).reshape([len(i.values) for i in pair])
            names, values, deciles = zip(*((i.name, i.values, i.deciles) for i in pair), strict=True)
            effects.append(Effect(names, values, heights, float(reference.std()), deciles))
            offset += center
        return sorted(effects, key=lambda effect: -effect.strength), offset

    def pick(self, effects: list[Effect], inputs: Iterable[Any]) -> list[Effect]:
        """Return the effects asked for, in that order."""
        known = {frozenset(effect.inputs): effect for effect in effects}
        names: dict[Any, Any] = {k: name for k, (name, _) in enumerate(self.blocks)}
        chosen = []
        for item in [inputs] if isinstance(inputs, str) else inputs:
            wanted = frozenset(names.get(i, i) for i in (item if isinstance(item, tuple | list) else [item]))
            if wanted not in known:
                there = ", ".join(" and ".join(effect.inputs) for effect in effects)
                raise ValueError(
                    f"inputs must be inputs, or pairs, that the terms of the model are of, got {item!r}: it has "
                    f"effects of {there}."
                )
            chosen.append(known[wanted])
        return chosen

    def _groups(self) -> dict[tuple[int, ...], NDArray[np.intp]]:
        """Positions of the terms of each input and each pair."""
        widths = [1 if kinds is None else len(kinds) for _, kinds in self.blocks]
        owner = np.append(np.repeat(np.arange(len(widths)), widths), -1)  # of each column; the last for none
        groups: dict[tuple[int, ...], list[int]] = {}
        for term, columns in enumerate(self._term_columns()):
            groups.setdefault(tuple(sorted(set(owner[columns].tolist()) - {-1})), []).append(term)
        return {key: np.array(terms) for key, terms in groups.items()}

    def _term_columns(self) -> NDArray[np.intp]:
        """The column, or two, of each term; -1 for none."""
        return alone(self.model._chosen) if self.basis is None else inputs_of(self.basis)

    def _columns(self, X: Any) -> Floats:
        """Columns of a table, in the units they are drawn in."""
        X = check_table(to_host(X) if is_foreign(X) else X)
        validate_data(self.model, X, skip_check_array=True, reset=False)
        for step in self.head:
            X = step.transform(X)
        return check_array(densify(X), dtype=np.float64)

    def _evaluate(self, U: Floats, terms: NDArray[np.intp]) -> Floats:
        """Some terms as functions of the columns."""
        with warnings.catch_warnings():  # the columns are in order, even if the steps know them by name
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            for scaler in self.scalers:
                U = densify(scaler.transform(U))
            return U[:, self.model._chosen[terms]] if self.basis is None else self.basis.take(terms).transform(U)

    def _inputs(self, U: Floats | None, grid: int) -> list[Input]:
        """Find the values of each input to evaluate it at."""
        low, high = self._ranges(U)
        inputs, start = [], 0
        for name, kinds in self.blocks:
            columns = list(range(start, start + (1 if kinds is None else len(kinds))))
            start += len(columns)
            if kinds is None:
                j = columns[0]
                deciles = np.empty(0) if U is None else np.quantile(U[:, j], DECILES)
                values = np.linspace(low[j], high[j], grid)
                inputs.append(Input(name, columns, values, values[:, None], deciles))
            else:
                values = np.fromiter(kinds, dtype=object, count=len(kinds))
                inputs.append(Input(name, columns, values, np.eye(len(kinds)), np.empty(0)))
        return inputs

    def _ranges(self, U: Floats | None) -> Floats:
        """Lowest and highest value of each column, in two rows."""
        ends = self._known_ranges() if U is None else np.array([U.min(axis=0), U.max(axis=0)])
        return ends + np.where(ends[0] == ends[1], [[-0.5], [0.5]], 0.0)  # a picture needs some room

    def _known_ranges(self) -> Floats:
        """What the basis knows of the samples it was fitted to."""
        ends = np.empty((2, 0))
        if self.basis is not None:
            ends = ranges_of(self.basis)
            with warnings.catch_warnings():  # what a scaler cannot undo comes back as NaN, which is looked for below
                warnings.simplefilter("ignore")
                for scaler in reversed(self.scalers):
                    ends = scaler.inverse_transform(ends)
        if self.basis is None or not np.isfinite(ends).all():
            raise ValueError(
                "X must be given for this model, got None: it does not know the ranges of its inputs. The samples it "
                "was fitted to will do."
            )
        return np.sort(ends, axis=0)


def mesh(key: tuple[int, ...], inputs: list[Input]) -> Floats:
    """Rows of columns with all values of some inputs combined, and one value of the others, which does not matter."""
    places = np.meshgrid(*(np.arange(len(inputs[k].values)) for k in key), indexing="ij")
    rows = np.tile(np.concatenate([i.codes[0] for i in inputs]), (places[0].size, 1))
    for k, place in zip(key, places, strict=True):
        rows[:, inputs[k].columns] = inputs[k].codes[place.ravel()]
    return rows


def check_output(output: int | None, count: int) -> int:
    """Return which output is meant."""
    if output is None and count == 1:
        return 0
    return int(check_number("output", output, low=0, below=count, integer=True, remedy="say which output to draw"))


def check_separable(terms: Terms | None, head: list[Any]) -> None:
    """Raise unless every term is a function of one input or two."""
    opaque = terms is None and head and not isinstance(head[-1], TableEncoder)
    mixed = head[-1:] if opaque else mixed_in(terms)
    if mixed:
        raise ValueError(
            "estimator must have terms of one or two inputs, such as those of AnovaBasis, got terms of "
            f"{type(mixed[0]).__name__}, which take all inputs together: the effect of single inputs cannot be "
            "separated. See averages over the other inputs with scikit-learn's PartialDependenceDisplay."
        )


def mixed_in(basis: Any) -> list[Any]:
    """Return what of a basis has functions of more than two inputs."""
    if isinstance(basis, UnionBasis):
        return [mixed for part in basis.bases_ for mixed in mixed_in(part)]
    few = isinstance(basis, SmoothBasis) and ((basis.columns_ >= 0).all() or np.count_nonzero(basis.relevance_) <= 2)
    return [] if basis is None or few or isinstance(basis, AnovaBasis) else [basis]


def inputs_of(basis: Any) -> NDArray[np.intp]:
    """The input, or two, of each function of a basis, (p, 2); -1 for none."""
    if isinstance(basis, UnionBasis):
        return np.vstack([inputs_of(part) for part in basis.bases_])[basis.places_]
    if isinstance(basis, AnovaBasis):
        return basis.inputs_
    of_all = np.append(np.flatnonzero(basis.relevance_), [-1, -1])[:2]  # of all Gaussians, if there are any
    return np.where(basis.columns_[:, None] < 0, of_all, alone(basis.columns_))


def alone(columns: NDArray[np.intp]) -> NDArray[np.intp]:
    """Columns of which each is all that a function is of, (p, 2)."""
    return np.column_stack([columns, np.full(len(columns), -1)])


def ranges_of(basis: Any) -> Floats:
    """Lowest and highest value of each input of a basis, which the bases of a union share."""
    return ranges_of(basis.bases_[0]) if isinstance(basis, UnionBasis) else basis.ranges_


def name_inputs(model: TermModel, head: list[Any], tail: list[Any]) -> Blocks:
    """Name the inputs, which are what `head` yields, and the categories of those that have some."""
    names: ArrayLike = getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
    for step, following in zip(head, [*head[1:], *tail], strict=False):
        if step is head[-1] and isinstance(step, TableEncoder):
            return step.blocks(names)
        nameless = not hasattr(step, "get_feature_names_out")
        names = [f"x{j}" for j in range(following.n_features_in_)] if nameless else step.get_feature_names_out(names)
    return [(str(name), None) for name in np.asarray(names, dtype=object)]
