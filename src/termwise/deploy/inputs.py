"""From a table as people have it to rows of numbers: which columns, what their categories are, what fills a hole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from termwise._arrays import is_foreign, to_host
from termwise._checks import check_table
from termwise.basis.encoder import is_frame, is_missing, is_numeric, listing
from termwise.deploy.plain import (
    plain_scalar,
    read_choice,
    read_dict,
    read_list,
    read_number,
    read_scalars,
    read_text,
    wrong,
)
from termwise.deploy.steps import Columns, Indices

Floats = NDArray[np.float64]

SHOWN = 5  # unknown categories of a column that an error names


@dataclass(frozen=True)
class Input:
    """An input of a model.

    Attributes
    ----------
    name : str
        Its name; `x0`, `x1`, ... where the data had none.
    kind : {"number", "category"}
        What its values are.
    categories : tuple or None
        The categories it was fitted with; None for numbers.
    fill : float, str or None
        What stands in where a value is missing; None: a missing value is an error.
    """

    name: str
    kind: str = "number"
    categories: tuple[Any, ...] | None = None
    fill: Any = None

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        kinds = {} if self.categories is None else {"categories": list(self.categories)}
        return {"name": self.name, "kind": self.kind, **kinds, "fill": self.fill}

    @classmethod
    def read(cls, data: Any, place: str) -> Input:
        """Return the input that plain data describe."""
        data = read_dict(data, place, ["name", "kind", "fill"], optional=["categories"])
        name = read_text(data["name"], f"{place}.name")
        kind = read_choice(data["kind"], f"{place}.kind", ["number", "category"])
        if kind == "category":
            data = read_dict(data, place, ["name", "kind", "categories", "fill"])
            one = cls(name, kind, tuple(read_scalars(data["categories"], f"{place}.categories")))
            if data["fill"] is not None and data["fill"] not in one.categories:  # type: ignore[operator]
                raise wrong(f"{place}.fill", "one of the categories", data["fill"])
            return replace(one, fill=data["fill"])
        return cls(name, kind, None, None if data["fill"] is None else read_number(data["fill"], f"{place}.fill"))

    def filled_by(self, value: Any) -> Input:
        """Return the same input with something that stands in for missing values."""
        value = value.item() if isinstance(value, np.generic) else value
        if self.categories is not None:
            if value is not None and value not in self.categories:
                raise ValueError(
                    f"fill of {self.name} must be one of its categories, got {value!r}: they are "
                    f"{listing(self.categories)}."
                )
        elif value is not None and (not isinstance(value, Real) or not np.isfinite(float(value))):
            raise ValueError(
                f"fill of {self.name} must be a finite number, got {value!r}: the column holds numbers; its mean or "
                "median will do."
            )
        return replace(self, fill=float(value) if self.categories is None and value is not None else value)

    # -- values of one column ------------------------------------------------------------------------------------------

    def numbers(self, values: NDArray, missing: NDArray[np.bool_], complete: bool) -> Floats:
        """Return a column of numbers, what is missing filled; it need not all be there unless it must be complete."""
        numbers = np.full(len(values), np.nan)
        numbers[~missing] = values[~missing].astype(np.float64)
        holes = np.isnan(numbers)
        if self.fill is not None:
            numbers[holes] = self.fill
        if complete and not np.isfinite(numbers).all():
            self.refuse("NaN, null or infinity", np.flatnonzero(~np.isfinite(numbers)))
        return numbers

    def codes(self, values: NDArray, missing: NDArray[np.bool_]) -> Indices:
        """Return the number of the category each value is, what is missing filled."""
        assert self.categories is not None
        if missing.any() and self.fill is None:
            self.refuse("missing values", np.flatnonzero(missing))
        number = {category: i for i, category in enumerate(self.categories)}
        values = np.where(missing, self.fill, values) if missing.any() else values
        codes = np.array([number.get(value, -1) for value in values], dtype=np.intp)
        if (codes < 0).any():
            unknown = list(dict.fromkeys(repr(value) for value in values[codes < 0].tolist()))
            more = f" and {len(unknown) - SHOWN} more" * (len(unknown) > SHOWN)
            raise ValueError(
                f"{self.name} must hold categories the model was fitted with, got {listing(unknown[:SHOWN])}{more}: "
                f"it knows {listing(map(repr, self.categories))}. Leave those rows out, or fit again with them."
            )
        return codes

    def refuse(self, what: str, rows: Indices) -> None:
        """Raise because of holes."""
        raise ValueError(
            f"{self.name} must be complete, got {what} in {len(rows)} row{'s' * (len(rows) > 1)}, first in row "
            f"{rows[0]}: fill or drop those rows, or have it done by with_fill({{{self.name!r}: value}})."
        )


@dataclass(frozen=True, eq=False)
class Reading:
    """How a table becomes rows of numbers: each is an input itself, or 1 where it is a certain category and else 0."""

    inputs: tuple[Input, ...]
    sources: Indices  # (m,), which input each number is of
    categories: Indices  # (m,), and which category; -1 for the input itself

    @classmethod
    def of(cls, inputs: tuple[Input, ...]) -> Reading:
        """Read all inputs, as `TableEncoder` does."""
        blocks = [[-1] if one.categories is None else list(range(len(one.categories))) for one in inputs]
        sources = np.repeat(np.arange(len(inputs)), [len(block) for block in blocks])
        return cls(inputs, sources, np.array([code for block in blocks for code in block], dtype=np.intp))

    @cached_property
    def used(self) -> list[int]:
        """Inputs that are looked at."""
        return np.unique(self.sources).tolist()

    def keep(self, columns: Indices) -> Reading:
        """Read only some of the numbers."""
        return replace(self, sources=self.sources[columns], categories=self.categories[columns])

    def narrowed(self) -> Reading:
        """Leave out inputs that are not looked at, but for the first if none is: every table has a column."""
        used = self.used or [0]
        return replace(self, inputs=tuple(self.inputs[j] for j in used), sources=np.searchsorted(used, self.sources))

    def filled(self, fill: Mapping[str, Any]) -> Reading:
        """Return the same with something that stands in for missing values of some inputs."""
        names = [one.name for one in self.inputs]
        for name in fill:
            if name not in names:
                raise ValueError(f"fill must name inputs of the model, got {name!r}: it has {listing(names)}.")
        return replace(self, inputs=tuple(o.filled_by(fill[o.name]) if o.name in fill else o for o in self.inputs))

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "inputs": [one.plain() for one in self.inputs],
            "columns": self.sources.tolist(),
            "categories": self.categories.tolist(),
        }

    @classmethod
    def read(cls, data: dict[str, Any], place: str) -> Reading:
        """Return the reading that plain data describe."""
        listed = enumerate(read_list(data["inputs"], f"{place}.inputs"))
        inputs = tuple(Input.read(one, f"{place}.inputs[{j}]") for j, one in listed)
        if len({one.name for one in inputs}) < len(inputs) or not inputs:
            raise wrong(f"{place}.inputs", "one or more inputs of different names", [one.name for one in inputs])
        sizes = {"inputs": len(inputs)}
        sources = Columns.read({"columns": data["columns"]}, place, sizes).columns
        codes = read_list(data["categories"], f"{place}.categories")
        if len(codes) != len(sources):
            raise wrong(f"{place}.categories", f"a list of {len(sources)} numbers", len(codes))
        for i, (j, code) in enumerate(zip(sources, codes, strict=True)):
            there = [-1] if inputs[j].categories is None else range(len(inputs[j].categories or ()))
            if type(code) is not int or code not in there:
                raise wrong(f"{place}.categories[{i}]", f"a category of {inputs[j].name}, -1 for a number", code)
        return cls(inputs, sources, np.array(codes, dtype=np.intp))

    # -- tables --------------------------------------------------------------------------------------------------------

    def rows(self, X: Any, complete: bool = True) -> Floats:
        """Return the numbers of a table, row by row; NaN for missing ones if it need not be complete."""
        if is_frame(X):
            return self._assemble(self._frame_columns(X), X.shape[0], complete)
        mixed = isinstance(X, list | tuple) and any(self.inputs[j].categories for j in self.used)
        X = check_table(to_host(X) if is_foreign(X) else np.array(X, dtype=object) if mixed else X)
        X = X if sp.issparse(X) else np.asarray(X)
        if X.ndim != 2 or X.shape[1] != len(self.inputs):
            raise ValueError(
                f"X must have {len(self.inputs)} columns, got shape {X.shape}: give {self._listed()}, in this order."
            )
        if sp.issparse(X):
            dense = dict(zip(self.used, sp.csc_array(X)[:, self.used].toarray().T, strict=True))
            return self._assemble(lambda j: split_column(dense[j]), X.shape[0], complete)
        plain = X.dtype.kind in "fiub" and not any(self.inputs[j].categories for j in self.used)
        if plain and not any(self.inputs[j].fill is not None for j in self.used):
            Z = X[:, self.sources].astype(np.float64, copy=False)
            if np.isfinite(Z).all():
                return Z
        return self._assemble(lambda j: split_column(X[:, j]), X.shape[0], complete)

    def _assemble(self, column: Callable[[int], tuple[NDArray, NDArray[np.bool_]]], n: int, complete: bool) -> Floats:
        """Return all numbers, each column looked at once."""
        Z = np.empty((n, len(self.sources)))
        for j in self.used:
            one, wanted = self.inputs[j], np.flatnonzero(self.sources == j)
            if one.categories is None:
                Z[:, wanted] = one.numbers(*self._numeric(one, *column(j)), complete)[:, None]
            else:
                Z[:, wanted] = one.codes(*column(j))[:, None] == self.categories[wanted]
        return Z

    def _numeric(self, one: Input, values: NDArray, missing: NDArray[np.bool_]) -> tuple[NDArray, NDArray[np.bool_]]:
        """Return a column that holds numbers, or raise."""
        words = (
            [] if values.dtype.kind in "fiub" else [v for v in values[~missing] if not isinstance(v, Real | Decimal)]
        )
        if words:
            raise ValueError(
                f"{one.name} must hold numbers, got {words[0]!r}: convert the column, or fit with it as a category."
            )
        return values, missing

    def _frame_columns(self, X: Any) -> Callable[[int], tuple[NDArray, NDArray[np.bool_]]]:
        """Return how the columns of a frame are found: by name, or by position where the model knows no names."""
        there = list(X.columns)
        lacking = [self.inputs[j].name for j in self.used if self.inputs[j].name not in there]
        nameless = [one.name for one in self.inputs] == [f"x{j}" for j in range(len(self.inputs))]
        by_place = bool(lacking) and nameless and len(there) == len(self.inputs)
        if lacking and not by_place:
            raise ValueError(
                f"X must have the columns the model uses, got none called {listing(lacking)}: its columns are "
                f"{listing(there[:20])}. Rename or add them."
            )
        repeated = [name for name, count in Counter(there).items() if count > 1]
        if repeated:
            raise ValueError(f"X must have columns of different names, got {listing(repeated)} more than once.")

        def column(j: int) -> tuple[NDArray, NDArray[np.bool_]]:
            values = X[there[j] if by_place else self.inputs[j].name]
            missing = is_missing(values)
            plain = not missing.any() and is_numeric(values) and self.inputs[j].categories is None
            return np.asarray(values, dtype=np.float64 if plain else object), missing

        return column

    def _listed(self) -> str:
        names = [one.name for one in self.inputs]
        return listing(names) if len(names) <= 20 else f"{listing(names[:20])} ..."


def split_column(values: NDArray) -> tuple[NDArray, NDArray[np.bool_]]:
    """Return the values of a column of an array, and which are missing."""
    if values.dtype.kind != "O":
        return values, np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
    return values, np.array([value is None or (isinstance(value, float) and value != value) for value in values])


def describe(
    names: Iterable[Any], categories: Mapping[str, Iterable[Any]], fills: Mapping[int, Any]
) -> tuple[Input, ...]:
    """Return the inputs of a model: their names, their categories by name, and fills by position."""
    inputs = []
    names = [str(name) for name in names]
    if len(set(names)) < len(names):
        repeated = [name for name, count in Counter(names).items() if count > 1]
        raise ValueError(f"inputs must have different names to be kept, got {listing(repeated)} more than once.")
    for j, name in enumerate(names):
        kinds = categories.get(name)
        values = None if kinds is None else tuple(plain_scalar(kind, f"categories of {name}") for kind in kinds)
        inputs.append(Input(name, "number" if values is None else "category", values).filled_by(fills.get(j)))
    return tuple(inputs)
