"""Plain data, as a file holds it, and records of arrays: from one to the other, with every value checked.

A record says of each of its fields what it must be; what is wrong with a value is said with its place in the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Self, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

Sizes = dict[str, int]  # lengths of axes that are known so far

LARGEST = 2**31 - 1  # whole numbers beyond this are no index, lag or power of any model
LARGEST_FLOAT = float(np.finfo(np.float64).max)
LONG = 60  # characters of a wrong value that are worth showing


def wrong(place: str, requirement: str, value: Any) -> ValueError:
    """Say what a value in a document must be and what it is."""
    shown = repr(value)
    shown = shown if len(shown) <= LONG else shown[:LONG] + "..."
    return ValueError(f"{place} must be {requirement}, got {shown}")


def read_list(value: Any, place: str) -> list[Any]:
    """Return a list."""
    if not isinstance(value, list):
        raise wrong(place, "a list", value)
    return value


def read_dict(value: Any, place: str, known: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Any]:
    """Return a dict that has all known keys, perhaps optional ones, and no others."""
    known, optional = list(known), list(optional)
    if not isinstance(value, dict):
        raise wrong(place, f"an object with {', '.join(known)}", value)
    for key in known:
        if key not in value:
            raise ValueError(f"{place} must have an entry {key!r}, got only {', '.join(map(str, value)) or 'none'}")
    for key in value:
        if key not in known and key not in optional:
            raise ValueError(f"{place} must have no entry but {', '.join(known + optional)}, got {key!r}")
    return value


def read_text(value: Any, place: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise wrong(place, "a text", value)
    return value


def read_choice(value: Any, place: str, choices: Iterable[str]) -> str:
    """Return one of some texts."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise wrong(place, f"one of {', '.join(choices)}", value)
    return value


def read_number(value: Any, place: str) -> float:
    """Return a finite number."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not -LARGEST_FLOAT <= value <= LARGEST_FLOAT:
        raise wrong(place, "a finite number", value)
    return float(value)


def read_bool(value: Any, place: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise wrong(place, "true or false", value)
    return value


def read_scalars(value: Any, place: str) -> list[Any]:
    """Return a list of different texts, finite numbers or truth values."""
    values = read_list(value, place)
    for i, one in enumerate(values):
        if not isinstance(one, str | bool):
            read_number(one, f"{place}[{i}]")
    if len({(type(one), one) for one in values}) < len(values):
        raise wrong(place, "a list of different values", value)
    return values


def plain_scalar(value: Any, what: str) -> Any:
    """Return a label or a category as a text, a number or a truth value, which is what a file can hold."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"{what} must be texts, numbers or truth values to be kept in a file, got {value!r} of type "
        f"{type(value).__name__}: convert them with astype(str) before the fit."
    )


# -- records -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers:
    """Finite numbers in an array; axes of the same name have the same length throughout a record."""

    axes: tuple[str, ...]
    positive: bool = False
    nonzero: bool = False

    whole: ClassVar[bool] = False

    def read(self, value: Any, place: str, sizes: Sizes) -> NDArray:
        """Return nested lists of numbers as an array, checked."""
        array = np.array(self._flat(value, place, sizes), dtype=np.int64 if self.whole else np.float64)
        array = array.reshape([sizes[name] for name in self.axes])
        self.check(array, place, sizes)
        return array

    def check(self, array: NDArray, place: str, sizes: Sizes) -> None:
        """Raise unless all numbers are in range."""
        if self.positive and np.any(array <= 0):
            raise wrong(place, "greater than zero", array[array <= 0][0].item())
        if self.nonzero and np.any(array == 0):
            raise wrong(place, "other than zero", 0)

    def _flat(self, value: Any, place: str, sizes: Sizes) -> list[Any]:
        """Return the numbers one after the other; axes of unknown length get that of the first list there is."""
        level = [(value, place)]
        for name in self.axes:
            if level:
                sizes.setdefault(name, len(level[0][0]) if isinstance(level[0][0], list) else -1)
            sizes.setdefault(name, 0)
            for one, at in level:
                if not isinstance(one, list) or len(one) != sizes[name]:
                    count = f"{sizes[name]} {name}" if sizes[name] >= 0 else name
                    got = len(one) if isinstance(one, list) else one
                    raise wrong(at, f"a list of {count}", got)
            level = [(inner, f"{at}[{i}]") for one, at in level for i, inner in enumerate(one)]
        for one, at in level:
            read_number(one, at)
            if self.whole and not (isinstance(one, int) and abs(one) <= LARGEST):
                raise wrong(at, f"a whole number up to {LARGEST}", one)
        return [one for one, _ in level]


@dataclass(frozen=True)
class WholeNumbers(Numbers):
    """Whole numbers from `low` on and, if they are indices, below the length of the axis they are indices of."""

    of: str | None = None
    low: int = 0

    whole: ClassVar[bool] = True

    def read(self, value: Any, place: str, sizes: Sizes) -> NDArray:
        """Return nested lists of whole numbers as an array of indices, checked."""
        return super().read(value, place, sizes).astype(np.intp)

    def check(self, array: NDArray, place: str, sizes: Sizes) -> None:
        """Raise unless all numbers are in range."""
        high = sizes[self.of] if self.of else LARGEST
        bad = array[(array < self.low) | (array >= high)]
        if bad.size:
            raise wrong(place, f"whole numbers from {self.low} to {high - 1}", bad[0].item())


@dataclass(frozen=True)
class Texts:
    """Texts along an axis."""

    axis: str

    def read(self, value: Any, place: str, sizes: Sizes) -> tuple[str, ...]:
        """Return a list of texts, checked."""
        texts = tuple(read_text(one, f"{place}[{i}]") for i, one in enumerate(read_list(value, place)))
        if len(texts) != sizes.setdefault(self.axis, len(texts)):
            raise wrong(place, f"a list of {sizes[self.axis]} {self.axis}", len(texts))
        return texts


@dataclass(frozen=True)
class Single:
    """One value, which a function reads."""

    reader: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def read(self, value: Any, place: str, sizes: Sizes) -> Any:
        """Return the value, checked."""
        return self.reader(value, place, *self.arguments)


def to_plain(value: Any) -> Any:
    """Return an array, a record or a tuple of those as plain data."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Record):
        return value.plain()
    return [to_plain(one) for one in value] if isinstance(value, tuple | list) else value


def _specs_of(cls: Any) -> dict[str, Any]:
    """Return what the fields of a record must be: the annotations of their types."""
    hints = get_type_hints(cls, include_extras=True)
    return {
        one.name: hints[one.name].__metadata__[0] for one in fields(cls) if get_origin(hints[one.name]) is Annotated
    }


specs_of: Callable[[Any], dict[str, Any]] = cache(_specs_of)


class Record:
    """A frozen dataclass whose fields say, in the annotations of their types, how they are read from plain data."""

    known_sizes: ClassVar[Sizes] = {}  # of axes whose lengths do not depend on the data

    def __post_init__(self) -> None:
        """Own all arrays, in one layout: products are then the same to the bit, wherever the numbers came from."""
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                value = np.array(value, dtype=np.float64 if value.dtype.kind == "f" else np.intp, order="C")
                value.setflags(write=False)
                object.__setattr__(self, one.name, value)

    def plain(self) -> dict[str, Any]:
        """Return plain data: a dict of texts, numbers and lists."""
        return {one.name: to_plain(getattr(self, one.name)) for one in fields(self)}  # type: ignore[arg-type]

    def lengths(self) -> Sizes:
        """Return the length of each axis."""
        found: Sizes = {}
        for name, spec in specs_of(type(self)).items():
            if isinstance(spec, Numbers):
                found |= dict(zip(spec.axes, getattr(self, name).shape, strict=True))
        return found

    @classmethod
    def read(cls, data: Any, place: str, sizes: Sizes) -> Self:
        """Return the record that plain data describe; `sizes` are known lengths of axes."""
        specs = specs_of(cls)
        data = read_dict(data, place, specs)
        known = {**cls.known_sizes, **sizes}
        return cls(**{name: spec.read(data[name], f"{place}.{name}", known) for name, spec in specs.items()})
