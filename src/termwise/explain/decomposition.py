"""Functional ANOVA: a model as a sum of pure functions of one to three inputs, and the models of its folds likewise."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from termwise._arrays import densify, evenly, is_foreign, to_host
from termwise._checks import check_table
from termwise._numerics import GRAM_EIGENVALUE_MIN, PAIR_EIGENVALUE_MIN
from termwise.basis import AnovaBasis, LevelMeans, LogInputs, RuleBasis, SmoothBasis, TableEncoder, UnionBasis
from termwise.basis.base import inputs_of_columns
from termwise.explain.inputs import Block, Input, encoded_blocks, spread_rows
from termwise.explain.resolve import SCALERS, Floats, ResolvedModel, steps_of

# Bases whose functions have known inputs.
SEPARABLE = (AnovaBasis, LevelMeans, LogInputs, RuleBasis, SmoothBasis, UnionBasis)
MAX_JOINT = 3  # inputs of a term that can be split into main effects, pairs and a rest
MAX_PAIR_FUNCTIONS = 600  # products of splines that a function of three inputs is projected on

Key = tuple[int, ...]  # one to three inputs, by their positions


class Component(NamedTuple):
    """Contribution of one to three inputs to q outputs."""

    grid: Floats  # (m, q) or (m1, m2, q); (0, q) for three inputs, which are not drawn
    rows: Floats  # (n, q)


@dataclass(frozen=True)
class Purification:
    """Splits a sum of functions of one to three inputs into pure effects, over the joint distribution of the rows.

    A surface `f_ij` is projected by least squares over the rows onto sums `a(x_i) + b(x_j)` of splines of its two
    inputs, and these are moved into the main effects. What is left has mean zero given either input, as far as splines
    can tell: the interaction explains nothing that a single input could. This is the hierarchical orthogonality of the
    generalised functional ANOVA (Hooker 2007; for fitted models Lengerich et al. 2020, with bins in place of splines)
    for the empirical distribution. Inputs that are correlated are treated as such: `x0 * x1` of two equal inputs is all
    main effect. Averages over the product of the marginal distributions, which have closed forms, would call it all
    interaction (if the means are zero), and count combinations of values that no sample has. Splines are functions of
    any value, so the sum of all effects remains the prediction everywhere.

    A function of three inputs is first projected onto sums of functions of its pairs, products of their splines, which
    are moved into the pairs.
    """

    rows: Floats  # (n, number of encoded columns)
    inputs: list[Input]
    grid_size: int  # values of an input alone
    pair_size: int  # and in a pair

    def __call__(self, model: AdditiveDecomposition) -> tuple[dict[Key, Component], Floats]:
        """Pure effects, each with mean zero over the rows, and the constant that they are added to, (q,)."""
        pure = model.components(self)
        for n_inputs in (3, 2):
            for key in [key for key in pure if len(key) == n_inputs]:
                self._move(key, pure)
        centers = {key: one.rows.mean(axis=0) for key, one in pure.items()}
        centred = {key: Component(one.grid - centers[key], one.rows - centers[key]) for key, one in pure.items()}
        return centred, np.sum(list(centers.values()), axis=0)

    def _move(self, key: Key, components: dict[Key, Component]) -> None:
        """Move what functions of fewer inputs explain of an effect of two or three inputs into theirs."""
        grid, rows = components[key]
        lower = list(combinations(key, len(key) - 1))
        n_functions = {k: self.inputs[k].row_functions.shape[1] for k in key}
        if sum(np.prod([n_functions[k] for k in some]) for some in lower) > MAX_PAIR_FUNCTIONS:
            lower = [(k,) for k in key]
        bases = [self._on_rows(some) for some in lower]
        B = np.hstack(bases)
        least = GRAM_EIGENVALUE_MIN if len(lower[0]) == 1 else PAIR_EIGENVALUE_MIN
        coef = np.linalg.pinv(B.T @ B, rcond=least, hermitian=True) @ (B.T @ rows)
        ends = np.cumsum([basis.shape[1] for basis in bases])[:-1]
        for some, basis, weights in zip(lower, bases, np.split(coef, ends), strict=True):
            own, own_rows = components.get(some, Component(np.zeros(1), np.zeros(1)))
            size = self.grid_size if len(some) == 1 else self.pair_size
            components[some] = Component(own + self._on_grid(some, weights, size), own_rows + basis @ weights)
            rows = rows - basis @ weights
            if len(grid):
                grid = grid - np.expand_dims(self._on_grid(some, weights, self.pair_size), 1 - key.index(some[0]))
        components[key] = Component(grid, rows)

    def _on_rows(self, key: Key) -> Floats:
        """Functions of one input, or products of those of two, at the rows."""
        first, *second = (self.inputs[k].row_functions for k in key)
        return first if not second else (first[:, :, None] * second[0][:, None, :]).reshape(len(first), -1)

    def _on_grid(self, key: Key, weights: Floats, size: int) -> Floats:
        """Weighted sum of the functions of one or two inputs on their grid, (m, q) or (m1, m2, q)."""
        first, *second = (self.inputs[k].functions(self.inputs[k].grid(size)[1]) for k in key)
        if not second:
            return first @ weights
        tensor = weights.reshape(first.shape[1], second[0].shape[1], -1)
        return np.einsum("ai,bj,ijq->abq", first, second[0], tensor)


@dataclass(frozen=True)
class AdditiveDecomposition:
    """A model as a sum of functions of one to three inputs: `prediction = offset + sum of the effects`.

    Limits of the prediction apply to the sum.
    The first `n_encoders` steps of the model turn a table into the inputs; scalers and the basis follow.
    """

    resolved: ResolvedModel
    n_encoders: int
    basis: Any  # of `SEPARABLE`, of the chosen terms; None if they are columns
    columns: list[tuple[int, ...]]  # encoded columns that each term depends on
    blocks: list[Block]

    @classmethod
    def from_model(cls, resolved: ResolvedModel) -> Self:
        """Decompose a model, or raise unless each of its terms is a function of at most three inputs."""
        if not len(resolved.chosen):
            raise ValueError("estimator must have terms to draw, got none: the model is the mean.")
        steps, basis = list(resolved.steps), None
        if steps and isinstance(steps[-1], SEPARABLE):
            basis = steps.pop().take(resolved.chosen)
        n_encoders = len(steps)
        while n_encoders and isinstance(steps[n_encoders - 1], SCALERS):
            n_encoders -= 1
        opaque = basis is None and n_encoders and not isinstance(steps[n_encoders - 1], TableEncoder)
        columns = columns_of(steps[n_encoders - 1] if opaque else basis, resolved.chosen)
        model = cls(resolved, n_encoders, basis, columns, name_inputs(resolved, n_encoders))
        if max(map(len, model.groups())) > MAX_JOINT:
            raise ValueError(joint_inputs(basis))
        return model

    def components(self, purify: Purification) -> dict[Key, Component]:
        """Sum of the terms of each set of inputs, on its grid and at its rows; of three inputs at the rows only."""
        found, weights, U = {}, self.resolved.weights, purify.rows
        G = self.resolved.evaluate(U, self.n_encoders).astype(np.float64)
        for key, terms in self.groups().items():
            if len(key) == MAX_JOINT:
                found[key] = Component(np.empty((0, len(weights))), G[:, terms] @ weights[:, terms].T)
                continue
            members = [purify.inputs[k] for k in key]
            codes = [one.grid(purify.pair_size if len(key) == 2 else purify.grid_size)[1] for one in members]
            places = np.meshgrid(*(np.arange(len(code)) for code in codes), indexing="ij")
            rows = np.tile(U[0], (places[0].size, 1))
            for one, code, place in zip(members, codes, places, strict=True):
                rows[:, one.columns] = code[place.ravel()]
            on_grid = self.outputs(rows, terms).reshape(*places[0].shape, -1)
            found[key] = Component(on_grid, G[:, terms] @ weights[:, terms].T)
        return found

    def outputs(self, U: Floats, terms: NDArray[np.intp]) -> Floats:
        """Sum of some terms for rows of encoded columns, (m, q)."""
        G = self.resolved.evaluate(U, self.n_encoders, terms).astype(np.float64)
        return G @ self.resolved.weights[:, terms].T

    def encode(self, X: Any, max_rows: int | None = None) -> Floats:
        """Samples as encoded columns, in the units they are drawn in; at most so many rows, evenly spaced.

        Rows of a series are left out of its lags, not of the series.
        """
        if max_rows is not None:
            U = self.encode(self.resolved.thin(X, max_rows))
            return U[evenly(len(U), max_rows)]
        U = check_table(to_host(X) if is_foreign(X) else X)
        validate_data(self.resolved.model, U, skip_check_array=True, reset=False)
        for step in self.resolved.steps[: self.n_encoders]:
            U = step.transform(U)
        return check_array(densify(U), dtype=np.float64, ensure_all_finite="allow-nan")

    def groups(self) -> dict[Key, NDArray[np.intp]]:
        """Positions of the terms of each set of inputs; all columns of a category are one input."""
        sizes = [block.n_columns for block in self.blocks]
        owner = np.repeat(np.arange(len(sizes)), sizes)  # input of each column
        groups: dict[Key, list[int]] = {}
        for term, columns in enumerate(self.columns):
            groups.setdefault(tuple(sorted(set(owner[list(columns)].tolist()))), []).append(term)
        return {key: np.array(terms) for key, terms in groups.items()}

    def origins(self) -> tuple[list[int], list[str]]:
        """Column of the table that each input comes from, and the names of the columns.

        A column with missing values, a date and an ordered category may be several inputs.
        """
        encoder = self.resolved.steps[0] if self.n_encoders == 1 else None
        if not isinstance(encoder, TableEncoder):
            return list(range(len(self.blocks))), [block.name for block in self.blocks]
        sizes = [block.n_columns for block in self.blocks]
        firsts = np.cumsum([0, *sizes[:-1]])
        return [j for (j,) in encoder.inputs_of(firsts)], self.resolved.input_names

    def spread_rows(self) -> Floats:
        """Rows of encoded columns spread over the ranges of the inputs in the fit, in place of samples."""
        ends = np.full((2, 1), np.nan)
        if self.basis is not None:
            basis = self.basis
            while isinstance(basis, LevelMeans | UnionBasis):  # bases of a union are fitted to the same inputs
                basis = basis.basis_ if isinstance(basis, LevelMeans) else basis.bases_[0]
            ends = basis.ranges_[:, : self.basis.n_features_in_]
            with warnings.catch_warnings():  # values without an inverse are NaN, checked below
                warnings.simplefilter("ignore")
                for scaler in reversed(self.resolved.steps[self.n_encoders : -1]):
                    ends = scaler.inverse_transform(ends)
        if not np.isfinite(ends).all():
            raise ValueError(
                "X must be given for this model, got None: it does not know the ranges of its inputs. The samples it "
                "was fitted to will do."
            )
        return spread_rows(self.blocks, np.sort(ends, axis=0))


def columns_of(basis: Any, columns: NDArray[np.intp]) -> list[tuple[int, ...]]:
    """Columns that each function depends on; without a basis the functions are columns."""
    if basis is None:
        return inputs_of_columns(None, columns)
    if isinstance(basis, UnionBasis):
        every = [inputs for part in basis.bases_ for inputs in columns_of(part, columns)]
        return [every[place] for place in basis.places_]
    if not isinstance(basis, SEPARABLE):
        raise ValueError(joint_inputs(basis))
    return inputs_of_columns(basis, np.arange(basis.n_functions))


def joint_inputs(basis: Any) -> str:
    """Message for a model whose effects cannot be separated."""
    return (
        f"estimator must have terms of one to three inputs, such as those of AnovaBasis, got terms of "
        f"{type(basis).__name__}, of more inputs or of inputs that are not known term by term: the effects of single "
        "inputs cannot be separated. Use scikit-learn's PartialDependenceDisplay for averages over the other inputs."
    )


def name_inputs(resolved: ResolvedModel, n_encoders: int) -> list[Block]:
    """Names of the encoded inputs, and the categories of those that have some; without an encoder their numbers."""
    steps, names = resolved.steps, resolved.input_names
    for k, step in enumerate(steps[:n_encoders]):
        if k == n_encoders - 1 and isinstance(step, TableEncoder):
            return encoded_blocks(step, names)
        nameless = not hasattr(step, "get_feature_names_out")
        names = [f"x{j}" for j in range(steps[k + 1].n_features_in_)] if nameless else step.get_feature_names_out(names)
    blocks = [Block(str(name)) for name in np.asarray(names, dtype=object)]
    if steps and isinstance(steps[-1], LevelMeans):
        for j, effects in zip(steps[-1].columns_, steps[-1].effects_, strict=True):
            blocks[j] = Block(blocks[j].name, list(range(len(effects))), numbered=True)
    return blocks


def fold_models(resolved: ResolvedModel, start: int) -> list[ResolvedModel]:
    """Models of the folds; none unless their first `start` steps encode a table as those of the whole model do.

    Encoders may differ by categories that are missing in a fold: the model then reads the columns of the others.
    """
    record, found = resolved.model.fitted_terms_.fold_models, []
    for fold in [] if record is None else record.models:
        steps, read = steps_of(fold.candidates.basis), None
        encoders, own = steps[:start], resolved.steps[:start]
        if [type(step) for step in encoders + own] == [TableEncoder, TableEncoder]:
            places = {name: j for j, name in enumerate(own[0].get_feature_names_out())}
            read = np.array([places[name] for name in encoders[0].get_feature_names_out()])
        elif len(encoders) < start or any(one is not other for one, other in zip(own, encoders, strict=True)):
            return []
        weights, intercept = to_host(fold.weights).T, to_host(fold.intercept)
        chosen = to_host(fold.chosen)
        found.append(replace(resolved, steps=steps, chosen=chosen, weights=weights, intercept=intercept, read=read))
    return found
