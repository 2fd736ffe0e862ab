"""Model files: one JSON document of plain data, validated when it is read.

A `Record` is a frozen dataclass of arrays and scalars whose fields declare, in the annotations of their types, their
form in the document. Errors name the place of an invalid value in the document.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import chain
from types import UnionType
from typing import Any, ClassVar, Self, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

Sizes = dict[str, int]  # lengths of axes by name

FORMAT = "termwise-model"
# 2 adds models of folds; 3 links, missing values, unseen categories and dates; 4 a checksum, and limits of predictions
VERSION = 4
CHECKED = 4  # the first version with a checksum
MAX_BYTES = 128 << 20  # a larger file is no small model
MAX_VALUES = 5_000_000  # nor is one of more values; in memory each takes up to 100 bytes
MAX_INTEGER = 2**31 - 1  # larger numbers are no index, lag or power of any model
MAX_FLOAT = float(np.finfo(np.float64).max)
MAX_SHOWN = 60  # characters of an invalid value in an error
SHORT = 4  # entries that fit a line


# -- values ------------------------------------------------------------------------------------------------------------


def invalid(place: str, requirement: str, value: Any) -> ValueError:
    """Return the error for an invalid value in a document."""
    shown = repr(value)
    shown = shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + "..."
    return ValueError(f"{place} must be {requirement}, got {shown}")


def read_dict(
    value: Any, place: str, required: Iterable[str], optional: Iterable[str] = (), others: bool = False
) -> dict[str, Any]:
    """Return a dict that has all required keys, perhaps optional ones, and no others unless these are allowed."""
    required, optional = list(required), list(optional)
    if not isinstance(value, dict):
        raise invalid(place, f"an object with {', '.join(required)}" if required else "an object", value)
    for key in required:
        if key not in value:
            raise ValueError(f"{place} must have an entry {key!r}, got only {', '.join(map(str, value)) or 'none'}")
    for key in () if others else value:
        if key not in required and key not in optional:
            raise ValueError(f"{place} must have no entry but {', '.join(required + optional)}, got {key!r}")
    return value


def read(spec: Any, value: Any, place: str, sizes: Sizes) -> Any:
    """Return a value of a document, validated, as the declaration of its field demands.

    A declaration is a type, perhaps `| None`, a tuple of allowed strings, or a function of the value, its place and the
    lengths of axes, which it may extend.
    """
    if isinstance(spec, UnionType):
        return None if value is None else read(get_args(spec)[0], value, place, sizes)
    if isinstance(spec, tuple):
        if not isinstance(value, str) or value not in spec:
            raise invalid(place, f"one of {', '.join(spec)}", value)
    elif not isinstance(spec, type):
        return spec(value, place, sizes)
    elif spec is float:
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        if not numeric or not -MAX_FLOAT <= value <= MAX_FLOAT:
            raise invalid(place, "a finite number", value)
        return float(value)
    elif not isinstance(value, spec):
        raise invalid(place, {list: "a list", str: "a string", bool: "true or false"}[spec], value)
    return value


def read_scalars(value: Any, place: str, sizes: Sizes) -> list[Any]:
    """Return a list of distinct strings, finite numbers or booleans."""
    values = read(list, value, place, sizes)
    for i, one in enumerate(values):
        if not isinstance(one, str | bool):
            read(float, one, f"{place}[{i}]", sizes)
    if len({(type(one), one) for one in values}) < len(values):
        raise invalid(place, "a list of distinct values", value)
    return values


def plain_scalar(value: Any, what: str) -> Any:
    """Return a label or a category as a string, a number or a boolean, which a file can hold."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise TypeError(
        f"{what} must be strings, finite numbers or booleans to be stored in a file, got {value!r} of type "
        f"{type(value).__name__}: convert them with astype(str) before the fit."
    )


# -- records -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Values:
    """Declares an array of finite numbers or a tuple of strings; axes of a name have one length throughout a record.

    Whole numbers are at least `low` and, if they are indices, below the length of the axis `of`.
    """

    axes: tuple[str, ...]
    positive: bool = False
    nonzero: bool = False
    kind: type = float
    of: str | None = None
    low: int = 0

    def __call__(self, value: Any, place: str, sizes: Sizes) -> Any:
        """Return the values of nested lists; axes of unknown length get that of the first list."""
        level = [value]
        for depth, name in enumerate(self.axes):
            if level:
                sizes.setdefault(name, len(level[0]) if isinstance(level[0], list) else -1)
            sizes.setdefault(name, 0)
            for i, one in enumerate(level):
                if not isinstance(one, list) or len(one) != sizes[name]:
                    count = f"{sizes[name]} {name}" if sizes[name] >= 0 else name
                    at = self._place(i, place, depth, sizes)
                    raise invalid(at, f"a list of {count}", len(one) if isinstance(one, list) else one)
            level = list(chain.from_iterable(level))
        wrong = next((i for i, one in enumerate(level) if not self._is_valid(one)), None)
        if wrong is not None:  # the place of a value is written out only then: there may be millions
            at = self._place(wrong, place, len(self.axes), sizes)
            read(str if self.kind is str else float, level[wrong], at, sizes)
            raise invalid(at, f"a whole number up to {MAX_INTEGER}", level[wrong])
        if self.kind is str:
            return tuple(level)
        array: NDArray[Any] = np.array(level, dtype=np.intp if self.kind is int else np.float64)
        if self.positive and np.any(array <= 0):
            raise invalid(place, "greater than zero", array[array <= 0][0].item())
        if self.nonzero and np.any(array == 0):
            raise invalid(place, "other than zero", 0)
        high = sizes[self.of] if self.of else MAX_INTEGER
        outside = array[(array < self.low) | (array >= high)]
        if self.kind is int and outside.size:
            raise invalid(place, f"whole numbers from {self.low} to {high - 1}", outside[0].item())
        return array.reshape([sizes[name] for name in self.axes])

    def _is_valid(self, one: Any) -> bool:
        """Whether a single value is of the kind declared."""
        if self.kind is str:
            return isinstance(one, str)
        if type(one) not in (int, float) or not -MAX_FLOAT <= one <= MAX_FLOAT:
            return False
        return self.kind is float or (type(one) is int and abs(one) <= MAX_INTEGER)

    def _place(self, number: int, place: str, depth: int, sizes: Sizes) -> str:
        """Return the place of a value, given its number among all on a level of the nested lists."""
        indices = np.unravel_index(number, [sizes[name] for name in self.axes[:depth]])
        return place + "".join(f"[{i}]" for i in indices)


Reals, Integers, Strings = Values, partial(Values, kind=int), partial(Values, kind=str)


def to_plain(value: Any) -> Any:
    """Return an array, a record or a tuple of those as plain data."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Record):
        entries = {name: to_plain(getattr(value, name)) for name in specs(type(value))}
        absent = [name for name in value.optional if entries[name] is None]
        return {**value.header, **{name: entries[name] for name in entries if name not in absent}}
    return [to_plain(one) for one in value] if isinstance(value, tuple | list) else value


def _specs(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {one.name: getattr(hints[one.name], "__metadata__", [hints[one.name]])[0] for one in fields(cls)}


# Declarations of the fields of a record, by name; as a decorator, mypy takes classes for unhashable arguments.
specs: Callable[[Any], dict[str, Any]] = cache(_specs)


class Record:
    """A frozen dataclass whose fields declare, in the annotations of their types, how they are read from plain data."""

    header: ClassVar[dict[str, str]] = {}  # entries of the document in front of the fields
    optional: ClassVar[tuple[str, ...]] = ()  # fields without an entry if they are None
    known_sizes: ClassVar[Sizes] = {}  # of axes whose lengths do not depend on the data

    def __post_init__(self) -> None:
        """Copy all arrays into one layout: products then have the same bits, wherever the numbers come from."""
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                value = np.array(value, dtype=np.float64 if value.dtype.kind == "f" else np.intp, order="C")
                value.setflags(write=False)
                object.__setattr__(self, one.name, value)

    def axis_lengths(self) -> Sizes:
        """Return the length of each axis."""
        found: Sizes = {}
        for name, spec in specs(type(self)).items():
            if isinstance(spec, Values) and spec.kind is not str and getattr(self, name) is not None:
                found |= dict(zip(spec.axes, getattr(self, name).shape, strict=True))
        return found

    @classmethod
    def from_plain(cls, data: Any, place: str, sizes: Sizes) -> Self:
        """Return the record that plain data describe; `sizes` are known lengths of axes."""
        required = [name for name in specs(cls) if name not in cls.optional]
        data, known = read_dict(data, place, required, cls.optional), {**cls.known_sizes, **sizes}
        return cls(**{name: read(specs(cls)[name], value, f"{place}.{name}", known) for name, value in data.items()})


# -- files -------------------------------------------------------------------------------------------------------------


def to_json(value: Any, indent: str = "") -> str:
    """Write plain data as JSON: lists of numbers on one line each, and other short flat values."""
    inner = indent + "  "
    if isinstance(value, dict):
        lists = [one for one in value.values() if isinstance(one, list)]
        entries = [*(one for one in value.values() if not isinstance(one, list)), *chain.from_iterable(lists)]
        short = max(len(value), *map(len, lists), 0) <= SHORT  # a few scalars and short lists of scalars fit a line
        if not short or any(isinstance(one, list | dict) for one in entries):
            keys = [inner + json.dumps(key, ensure_ascii=False) for key in value]
            lines = [f"{key}: {to_json(one, inner)}" for key, one in zip(keys, value.values(), strict=True)]
            return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(one, list | dict) for one in value):
        return "[\n" + ",\n".join(inner + to_json(one, inner) for one in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def checksum(document: dict[str, Any]) -> str:
    """Return the SHA-256 of a document without its checksum, in the one form that does not depend on its layout."""
    rest = {key: value for key, value in document.items() if key != "checksum"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(canonical.encode('ascii')).hexdigest()}"


def to_bytes(document: dict[str, Any]) -> bytes:
    """Return the content of a file, or raise if it could not be read again."""
    content = (to_json(document) + "\n").encode(errors="backslashreplace")  # of lone surrogates JSON has such escapes
    if len(content) > MAX_BYTES or count_values(content) > MAX_VALUES:
        raise ValueError(
            f"a model must have at most {MAX_VALUES:,} values and {MAX_BYTES >> 20} MiB to be saved, got "
            f"{count_values(content):,} and {len(content) >> 20}: fit one of fewer terms, or use pickle."
        )
    return content


def count_values(content: bytes) -> int:
    """Return an upper bound of the number of values in a JSON document, without reading it."""
    return 1 + sum(content.count(mark) for mark in (b",", b"[", b"{"))


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a JSON document that declares itself a model of a supported version; errors name the file and a remedy."""
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES or count_values(content) > MAX_VALUES:
        raise ValueError(
            f"{path} must be a model file of at most {MAX_BYTES >> 20} MiB and {MAX_VALUES:,} values, got more: this "
            "is some other file, or a model that is not small."
        )
    try:
        document = json.loads(content.decode(), object_pairs_hook=_distinct_keys, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} must be a JSON document written by Predictor.save, but could not be read ({error}): it is another "
            "kind of file, or truncated or damaged; save the model again."
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(
            f'{path} must be a model file, with "format": "{FORMAT}", got another JSON document: give the path of a '
            "file written by Predictor.save."
        )
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ValueError(f"{path} is no valid model: version must be a whole number >= 1, got {version!r}.")
    if version > VERSION:
        raise ValueError(
            f"{path} was written by a newer termwise ({document.get('termwise')}), in version {version} of the format; "
            f"this one reads version {VERSION}: upgrade with pip install --upgrade termwise."
        )
    return document


def check_document(document: dict[str, Any]) -> None:
    """Raise unless a document has the entries of its version and, from the fourth on, the content of its checksum."""
    checked = ["checksum"] * (document["version"] >= CHECKED)
    read_dict(document, "the document", ["format", "version", "termwise", *checked, "predictor", "facts"])
    read(str, document["termwise"], "termwise", {})
    if checked and document["checksum"] != checksum(document):
        raise invalid("checksum", "that of the rest of the document", document["checksum"])


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"an entry occurs twice among {', '.join(key for key, _ in pairs)}")
    return found


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
