"""The inputs of a model: how the columns of a table are encoded as numbers, and how missing values are filled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from termwise._arrays import is_foreign, to_host
from termwise._checks import check_table, is_frame
from termwise.basis.columns import DATE_PARTS, as_days, is_missing, is_numeric
from termwise.basis.encoder import LEVEL, MISSING, OTHER, VALUE, ColumnEncoding, encode, listing, name_encoded
from termwise.deploy.document import Integers, Record, Sizes, invalid, plain_scalar, read, read_dict, read_scalars

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Column = tuple[NDArray[Any], NDArray[np.bool_]]  # values, and which are missing

NUMBERS = (Real, Decimal, np.bool_)  # types of values of an input of numbers, in a column of objects
MAX_LISTED = 5  # unknown categories of a column that an error lists
MAX_NAMES = 20  # columns that an error lists


def is_missing_value(value: Any) -> bool:
    """Whether a single value is missing: None, NaN of any type, NaT or NA."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # neither NA nor a comparison of arrays has a truth value
        return not hasattr(value, "__len__")


def as_float(value: Any) -> float:
    """Return a number in float64, infinite beyond its range."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value > 0 or -1)


@dataclass(frozen=True)
class Input(Record):
    """An input of a model.

    Attributes
    ----------
    name : str
        Its name; `x0`, `x1`, ... where the data had none.
    kind : {"number", "category", "date"}
        Type of its values.
    categories : tuple or None
        The categories it was fitted with; None for numbers and dates.
    fill : float, str or None
        Replacement of missing values; None: a missing value stays missing, or is an error.
    missing : bool
        Whether it may be missing: it was, in some samples of the fit.
    unseen : float or None
        Position given to a category that the fit did not have; None: such a category is an error.
    others : tuple or None
        Rare categories that the fit had, but without an encoding of their own.
    """

    name: str
    kind: str = "number"
    categories: tuple[Any, ...] | None = None
    fill: Any = None
    missing: bool | None = None
    unseen: float | None = None
    others: tuple[Any, ...] | None = None
    optional: ClassVar[tuple[str, ...]] = ("categories", "missing", "unseen", "others")

    @classmethod
    def from_plain(cls, data: Any, place: str, sizes: Sizes) -> Input:
        """Return the input that plain data describe."""
        data = read_dict(data, place, ["name", "kind", "fill"], optional=cls.optional)
        name, fill = read(str, data["name"], f"{place}.name", sizes), data["fill"]
        kind = read(("number", "category", "date"), data["kind"], f"{place}.kind", sizes)
        missing = read(bool | None, data.get("missing"), f"{place}.missing", sizes)
        if kind != "category":
            number = None if kind == "date" else read(float | None, fill, f"{place}.fill", sizes)
            return cls(name, kind, None, number, missing)
        data = read_dict(data, place, ["name", "kind", "categories", "fill"], optional=cls.optional)
        categories = tuple(read_scalars(data["categories"], f"{place}.categories", sizes))
        if fill is not None and fill not in categories:
            raise invalid(f"{place}.fill", "one of the categories", fill)
        unseen = read(float | None, data.get("unseen"), f"{place}.unseen", sizes)
        others = tuple(read_scalars(data["others"], f"{place}.others", sizes)) if "others" in data else None
        return cls(name, kind, categories, fill, missing, unseen, others)

    def to_numbers(self, values: NDArray[Any], missing: NDArray[np.bool_], complete: bool) -> Floats:
        """Return a column as numbers, positions of categories or days, with missing values filled.

        Unless values may be missing, numbers must be finite if the column must be complete; categories always.
        """
        numbers = np.full(len(values), np.nan)
        if self.categories is not None:
            what, values = "missing values", np.where(missing, self.fill, values) if missing.any() else values
            there = ~missing if self.fill is None else np.ones(len(values), dtype=bool)
            numbers[there] = self._positions(values[there])
        elif self.kind == "date":
            what, numbers[~missing] = "missing values", as_days(values[~missing])
        else:
            for value in values[~missing] if values.dtype.kind not in "fiub" else ():
                if not isinstance(value, NUMBERS):
                    raise ValueError(
                        f"{self.name} must hold numbers, got {value!r}: convert the column, or fit with it as a "
                        "category."
                    )
            what, present = "NaN, null or infinity", values[~missing]
            try:
                numbers[~missing] = present.astype(np.float64)
            except OverflowError:
                numbers[~missing] = [as_float(value) for value in present]
            if self.fill is not None:
                numbers[np.isnan(numbers)] = self.fill
        invalid_rows = np.isinf(numbers) if self.missing else ~np.isfinite(numbers)
        if invalid_rows.any() and (complete or self.categories is not None):
            rows = np.flatnonzero(invalid_rows)
            raise ValueError(
                f"{self.name} must be complete, got {what} in {len(rows)} row{'s' * (len(rows) > 1)}, first in row "
                f"{rows[0]}: fill or drop those rows, or use with_fill({{{self.name!r}: value}})."
            )
        return numbers

    def encode(self, numbers: Floats, code: int) -> Floats:
        """Return an encoded column, given the input as numbers."""
        return encode(numbers, code, self.kind, len(self.categories or ()))

    def _positions(self, values: NDArray[Any]) -> Floats:
        """Return the positions of categories none of which is missing."""
        assert self.categories is not None
        position = {category: i for i, category in enumerate(self.categories)}
        default = np.nan if self.unseen is None else self.unseen
        try:
            numbers = np.array([position.get(value, default) for value in values], dtype=np.float64)
        except TypeError:  # a list or an array cannot be looked up
            several = next((value for value in values if not isinstance(value, Hashable)), values)
            raise ValueError(
                f"{self.name} must hold categories, got {several!r}: give a single string, number or boolean."
            ) from None
        if np.isnan(numbers).any():
            unknown = list(dict.fromkeys(repr(value) for value in values[np.isnan(numbers)].tolist()))
            more = f" and {len(unknown) - MAX_LISTED} more" * (len(unknown) > MAX_LISTED)
            raise ValueError(
                f"{self.name} must hold categories the model was fitted with, got {listing(unknown[:MAX_LISTED])}"
                f"{more}: those are {listing(map(repr, self.categories))}. Drop those rows, or fit again with them."
            )
        return numbers


@dataclass(frozen=True, eq=False)
class InputSchema(Record):
    """Encoding of a table, as by `TableEncoder`: each number of a row is an input itself, or an indicator."""

    inputs: tuple[Input, ...]
    columns: Indices  # (m,), the input of each number
    categories: Indices  # (m,), and the code of it: -1 for the input itself, or another of `TableEncoder`

    @classmethod
    def from_encodings(cls, encodings: Sequence[ColumnEncoding], fills: Mapping[int, Any]) -> InputSchema:
        """Encode all columns of a table as a `TableEncoder` does; fills are by position."""
        names = [one.name for one in encodings]
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise ValueError(f"inputs must have different names to be stored, got {listing(repeated)} more than once.")
        inputs = []
        for one in encodings:
            own: dict[str, Any] = {}
            if one.kind == "category":
                kinds = tuple(plain_scalar(kind, f"categories of {one.name}") for kind in one.categories)
                others = tuple(plain_scalar(kind, f"categories of {one.name}") for kind in one.others)
                own = {"categories": kinds, "unseen": one.unseen, "others": others or None}
            inputs.append(Input(one.name, one.kind, missing=one.missing or None, **own))
        codes = [(j, code) for j, one in enumerate(encodings) for code in one.codes]
        places, numbers = np.array(codes, dtype=np.intp).reshape(-1, 2).T
        schema = cls(tuple(inputs), places, numbers)
        return schema.with_fill({names[j]: value for j, value in fills.items()})

    @cached_property
    def names(self) -> list[str]:
        """Names of the inputs."""
        return [one.name for one in self.inputs]

    @cached_property
    def used(self) -> list[int]:
        """Inputs in use."""
        return np.unique(self.columns).tolist()

    @cached_property
    def is_plain(self) -> bool:
        """Whether all inputs in use are numbers, encoded as they are."""
        numbers = all(self.inputs[j].kind == "number" and self.inputs[j].fill is None for j in self.used)
        return numbers and bool((self.categories == VALUE).all())

    def takes_numbers(self, X: Any) -> bool:
        """Whether a table is an array of numbers, of which the encoding is a selection of columns."""
        return isinstance(X, np.ndarray) and X.dtype.kind in "fiub" and self.is_plain

    def with_fill(self, fill: Mapping[str, Any]) -> InputSchema:
        """Return the same schema with replacements of missing values of some inputs."""
        inputs = {one.name: one for one in self.inputs}
        for name, value in fill.items():
            if name not in inputs:
                raise ValueError(f"fill must name inputs of the model, got {name!r}: it has {listing(inputs)}.")
            value = value.item() if isinstance(value, np.generic) else value
            categories = inputs[name].categories
            if value is not None and inputs[name].kind == "date":
                raise ValueError(f"fill must name inputs of numbers or categories, got {name!r}, which holds dates.")
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
            n_codes = {"number": 0, "category": len(one.categories or ()), "date": len(DATE_PARTS)}[one.kind]
            special = [VALUE] * (one.kind == "number" or one.unseen is not None) + [MISSING] * bool(one.missing)
            special += [LEVEL, OTHER] if one.unseen is not None else []
            if type(code) is not int or not (0 <= code < n_codes or code in special):
                raise invalid(f"{place}.categories[{i}]", f"a category of {one.name}, -1 for a number", code)
        return cls(inputs, columns, np.array(codes, dtype=np.intp))

    # -- tables --------------------------------------------------------------------------------------------------------

    def encode(self, X: Any, complete: bool = True) -> Floats:
        """Return the numbers of a table, row by row; NaN for missing ones if it need not be complete."""
        X = self.as_table(X)
        if self.takes_numbers(X):
            Z = X.T[self.columns].T.astype(np.float64, copy=False)  # by columns, as steps evaluate it
            if np.isfinite(Z).all():
                return Z
        columns = self._frame_columns(X) if is_frame(X) else self._array_columns(X)
        Z = np.empty((X.shape[0], len(self.columns)))
        for j, (values, missing) in zip(self.used, columns, strict=True):
            one, numbers = self.inputs[j], self.inputs[j].to_numbers(values, missing, complete)
            for place in np.flatnonzero(self.columns == j):
                Z[:, place] = one.encode(numbers, int(self.categories[place]))
        return Z

    def count_unseen(self, X: Any) -> dict[str, int]:
        """Return how many rows have a category that the fit did not have, by the names of inputs with some."""
        X = self.as_table(X)
        counts: dict[str, int] = {}
        columns = self._frame_columns(X) if is_frame(X) else self._array_columns(X)
        for j, (values, missing) in zip(self.used, columns, strict=True):
            one = self.inputs[j]
            known = (*(one.categories or ()), *(one.others or ()))
            n_unseen = 0 if one.categories is None else sum(value not in known for value in values[~missing])
            counts |= {one.name: n_unseen} if n_unseen else {}
        return counts

    def numeric_dates(self) -> InputSchema:
        """Return the same encoding of a table that has the parts of dates as columns of numbers."""
        inputs: list[Input] = []
        columns, codes = self.columns.copy(), self.categories.copy()
        for j, one in enumerate(self.inputs):
            own = self.columns == j
            parts = sorted({max(int(code), 0) for code in self.categories[own]}) if one.kind == "date" else []
            for place in np.flatnonzero(own):
                number = parts.index(max(int(codes[place]), 0)) if parts else 0
                columns[place] = len(inputs) + number
                codes[place] = min(int(codes[place]), VALUE) if parts else codes[place]
            named = [name_encoded(one.name, part, "date", ()) for part in parts or [0]]
            inputs += [Input(name, missing=one.missing) for name in named] if one.kind == "date" else [one]
        return InputSchema(tuple(inputs), columns, codes)

    def as_table(self, X: Any) -> Any:
        """Return a frame as it is, and anything else as an array with a column for every input."""
        if is_frame(X):
            return X
        mixed = isinstance(X, list | tuple) and any(one.kind != "number" for one in self.inputs)
        X = check_table(to_host(X) if is_foreign(X) else np.array(X, dtype=object) if mixed else X)
        X = sp.csc_array(X) if sp.issparse(X) else np.asarray(X)
        if X.ndim != 2 or X.shape[1] != len(self.inputs):
            more = " ..." * (len(self.names) > MAX_NAMES)
            raise ValueError(
                f"X must have {len(self.names)} columns, got shape {X.shape}: give {listing(self.names[:MAX_NAMES])}"
                f"{more}, in this order."
            )
        return X

    def _array_columns(self, X: Any) -> Iterator[Column]:
        """Yield the columns of an array in use: their values, and which are missing."""
        table = X if isinstance(X, np.ndarray) else X[:, self.used].toarray()
        for i, j in enumerate(self.used):
            values = table[:, j if table is X else i]
            if values.dtype.kind == "O":
                yield values, np.array([is_missing_value(value) for value in values], dtype=bool)
            else:
                yield values, np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)

    def _frame_columns(self, X: Any) -> Iterator[Column]:
        """Yield the columns of a frame in use: by name, or by position in a model without names."""
        present = list(X.columns)
        absent = [self.names[j] for j in self.used if self.names[j] not in present]
        nameless = self.names == [f"x{j}" for j in range(len(self.inputs))]
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
            values = X[present[j] if by_position else self.names[j]]
            missing = is_missing(values)
            if self.inputs[j].kind == "date":
                yield as_days(values), missing
                continue
            numeric = not missing.any() and is_numeric(values) and self.inputs[j].categories is None
            yield np.asarray(values, dtype=np.float64 if numeric else object), missing
