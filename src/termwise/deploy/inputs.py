"""The inputs of a model: how the columns of a table are encoded as numbers, and how missing values are filled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from termwise._arrays import is_foreign, to_host
from termwise._checks import check_table
from termwise.basis.encoder import is_frame, is_missing, is_numeric, listing
from termwise.deploy.document import Integers, Record, Sizes, invalid, plain_scalar, read, read_dict, read_scalars

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Column = tuple[NDArray, NDArray[np.bool_]]  # values, and which are missing

MAX_LISTED = 5  # unknown categories of a column that an error lists
MAX_NAMES = 20  # columns that an error lists


@dataclass(frozen=True)
class Input(Record):
    """An input of a model.

    Attributes
    ----------
    name : str
        Its name; `x0`, `x1`, ... where the data had none.
    kind : {"number", "category"}
        Type of its values.
    categories : tuple or None
        The categories it was fitted with; None for numbers.
    fill : float, str or None
        Replacement of missing values; None: a missing value is an error.
    """

    name: str
    kind: str = "number"
    categories: tuple[Any, ...] | None = None
    fill: Any = None
    optional: ClassVar[tuple[str, ...]] = ("categories",)

    @classmethod
    def from_plain(cls, data: Any, place: str, sizes: Sizes) -> Input:
        """Return the input that plain data describe."""
        data = read_dict(data, place, ["name", "kind", "fill"], optional=["categories"])
        name, fill = read(str, data["name"], f"{place}.name", sizes), data["fill"]
        kind = read(("number", "category"), data["kind"], f"{place}.kind", sizes)
        if kind == "number":
            return cls(name, kind, None, read(float | None, fill, f"{place}.fill", sizes))
        data = read_dict(data, place, ["name", "kind", "categories", "fill"])
        categories = tuple(read_scalars(data["categories"], f"{place}.categories", sizes))
        if fill is not None and fill not in categories:
            raise invalid(f"{place}.fill", "one of the categories", fill)
        return cls(name, kind, categories, fill)

    def to_numbers(self, values: NDArray, missing: NDArray[np.bool_], complete: bool) -> Floats:
        """Return a column as numbers or as positions of categories, with missing values filled.

        Numbers must be finite if the column must be complete; categories must always be.
        """
        if self.categories is None:
            for value in values[~missing] if values.dtype.kind not in "fiub" else ():
                if not isinstance(value, Real | Decimal):
                    raise ValueError(
                        f"{self.name} must hold numbers, got {value!r}: convert the column, or fit with it as a "
                        "category."
                    )
            numbers = np.full(len(values), np.nan)
            numbers[~missing] = values[~missing].astype(np.float64)
            if self.fill is not None:
                numbers[np.isnan(numbers)] = self.fill
            what, invalid_rows = "NaN, null or infinity", ~np.isfinite(numbers) if complete else None
        else:
            what, invalid_rows = "missing values", missing if self.fill is None else None
            values = np.where(missing, self.fill, values) if missing.any() else values
            position = {category: i for i, category in enumerate(self.categories)}
            numbers = np.array([position.get(value, -1) for value in values], dtype=np.float64)
        if invalid_rows is not None and invalid_rows.any():
            rows = np.flatnonzero(invalid_rows)
            raise ValueError(
                f"{self.name} must be complete, got {what} in {len(rows)} row{'s' * (len(rows) > 1)}, first in row "
                f"{rows[0]}: fill or drop those rows, or use with_fill({{{self.name!r}: value}})."
            )
        if self.categories is not None and (numbers < 0).any():
            unknown = list(dict.fromkeys(repr(value) for value in values[numbers < 0].tolist()))
            more = f" and {len(unknown) - MAX_LISTED} more" * (len(unknown) > MAX_LISTED)
            raise ValueError(
                f"{self.name} must hold categories the model was fitted with, got {listing(unknown[:MAX_LISTED])}"
                f"{more}: those are {listing(map(repr, self.categories))}. Drop those rows, or fit again with them."
            )
        return numbers


@dataclass(frozen=True, eq=False)
class InputSchema(Record):
    """Encoding of a table: each number of a row is an input itself, or 1 where it is a certain category and else 0."""

    inputs: tuple[Input, ...]
    columns: Indices  # (m,), the input of each number
    categories: Indices  # (m,), and the category; -1 for the input itself

    @classmethod
    def from_columns(
        cls, names: Iterable[Any], categories: Mapping[str, Iterable[Any]], fills: Mapping[int, Any]
    ) -> InputSchema:
        """Encode all columns of a table, as `TableEncoder` does; categories are by name, fills by position."""
        names = [str(name) for name in names]
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise ValueError(f"inputs must have different names to be stored, got {listing(repeated)} more than once.")
        inputs, codes = [], []
        for j, name in enumerate(names):
            kinds = categories.get(name)
            if kinds is not None:
                kinds = tuple(plain_scalar(kind, f"categories of {name}") for kind in kinds)
            inputs.append(Input(name, "number" if kinds is None else "category", kinds))
            codes += [(j, -1)] if kinds is None else [(j, code) for code in range(len(kinds))]
        columns, numbers = np.array(codes, dtype=np.intp).reshape(-1, 2).T
        return cls(tuple(inputs), columns, numbers).with_fill({names[j]: value for j, value in fills.items()})

    @cached_property
    def used(self) -> list[int]:
        """Inputs in use."""
        return np.unique(self.columns).tolist()

    def with_fill(self, fill: Mapping[str, Any]) -> InputSchema:
        """Return the same schema with replacements of missing values of some inputs."""
        inputs = {one.name: one for one in self.inputs}
        for name, value in fill.items():
            if name not in inputs:
                raise ValueError(f"fill must name inputs of the model, got {name!r}: it has {listing(inputs)}.")
            value = value.item() if isinstance(value, np.generic) else value
            categories = inputs[name].categories
            if value is not None and categories is not None and value not in categories:
                raise ValueError(
                    f"fill of {name} must be one of its categories, got {value!r}: they are {listing(categories)}."
                )
            if value is not None and categories is None:
                if not isinstance(value, Real) or not np.isfinite(float(value)):
                    raise ValueError(
                        f"fill of {name} must be a finite number, got {value!r}: the column holds numbers; its mean or "
                        "median will do."
                    )
                value = float(value)
            inputs[name] = replace(inputs[name], fill=value)
        return replace(self, inputs=tuple(inputs.values()))

    @classmethod
    def from_plain(cls, data: dict[str, Any], place: str, sizes: Sizes) -> InputSchema:
        """Return the schema that plain data describe."""
        listed = enumerate(read(list, data["inputs"], f"{place}.inputs", sizes))
        inputs = tuple(Input.from_plain(one, f"{place}.inputs[{j}]", sizes) for j, one in listed)
        if len({one.name for one in inputs}) < len(inputs) or not inputs:
            raise invalid(f"{place}.inputs", "one or more inputs of different names", [one.name for one in inputs])
        indices = Integers(("indices",), of="inputs")
        columns = indices(data["columns"], f"{place}.columns", {"inputs": len(inputs)})
        codes = read(list, data["categories"], f"{place}.categories", sizes)
        if len(codes) != len(columns):
            raise invalid(f"{place}.categories", f"a list of {len(columns)} numbers", len(codes))
        for i, (one, code) in enumerate(zip([inputs[j] for j in columns], codes, strict=True)):
            if type(code) is not int or code not in ([-1] if one.categories is None else range(len(one.categories))):
                raise invalid(f"{place}.categories[{i}]", f"a category of {one.name}, -1 for a number", code)
        return cls(inputs, columns, np.array(codes, dtype=np.intp))

    # -- tables --------------------------------------------------------------------------------------------------------

    def encode(self, X: Any, complete: bool = True) -> Floats:
        """Return the numbers of a table, row by row; NaN for missing ones if it need not be complete."""
        if not is_frame(X):
            mixed = isinstance(X, list | tuple) and any(self.inputs[j].categories for j in self.used)
            X = check_table(to_host(X) if is_foreign(X) else np.array(X, dtype=object) if mixed else X)
            X = sp.csc_array(X) if sp.issparse(X) else np.asarray(X)
            if X.ndim != 2 or X.shape[1] != len(self.inputs):
                names = [one.name for one in self.inputs]
                more = " ..." * (len(names) > MAX_NAMES)
                raise ValueError(
                    f"X must have {len(names)} columns, got shape {X.shape}: give {listing(names[:MAX_NAMES])}{more}, "
                    "in this order."
                )
            plain = all(self.inputs[j].categories is None and self.inputs[j].fill is None for j in self.used)
            if plain and isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
                Z = X[:, self.columns].astype(np.float64, copy=False)
                if np.isfinite(Z).all():
                    return Z
        columns = self._frame_columns(X) if is_frame(X) else self._array_columns(X)
        Z = np.empty((X.shape[0], len(self.columns)))
        for j, (values, missing) in zip(self.used, columns, strict=True):
            numbers, places = (
                self.inputs[j].to_numbers(values, missing, complete)[:, None],
                np.flatnonzero(self.columns == j),
            )
            Z[:, places] = numbers if self.inputs[j].categories is None else numbers == self.categories[places]
        return Z

    def _array_columns(self, X: Any) -> Iterator[Column]:
        """Yield the columns of an array in use: their values, and which are missing."""
        table = X if isinstance(X, np.ndarray) else X[:, self.used].toarray()
        for i, j in enumerate(self.used):
            values = table[:, j if table is X else i]
            if values.dtype.kind == "O":
                missing = [value is None or (isinstance(value, float) and value != value) for value in values]
                yield values, np.array(missing)
            else:
                yield values, np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)

    def _frame_columns(self, X: Any) -> Iterator[Column]:
        """Yield the columns of a frame in use: by name, or by position in a model without names."""
        present = list(X.columns)
        absent = [self.inputs[j].name for j in self.used if self.inputs[j].name not in present]
        nameless = [one.name for one in self.inputs] == [f"x{j}" for j in range(len(self.inputs))]
        by_position = bool(absent) and nameless and len(present) == len(self.inputs)
        if absent and not by_position:
            raise ValueError(
                f"X must have the columns the model uses, got none called {listing(absent)}: its columns are "
                f"{listing(present[:MAX_NAMES])}. Rename or add them."
            )
        repeated = [name for name, count in Counter(present).items() if count > 1]
        if repeated:
            raise ValueError(f"X must have columns of different names, got {listing(repeated)} more than once.")
        for j in self.used:
            values = X[present[j] if by_position else self.inputs[j].name]
            missing = is_missing(values)
            numeric = not missing.any() and is_numeric(values) and self.inputs[j].categories is None
            yield np.asarray(values, dtype=np.float64 if numeric else object), missing
