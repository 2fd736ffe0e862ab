"""The samples an online model holds: in the order they came, found again by their values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Samples:
    """A growing table of design rows, targets and weights with O(1) removal."""

    def __init__(self, p: int, q: int) -> None:
        self._table = np.empty((0, p + q + 1))
        self._p = p
        self._alive = np.empty(0, dtype=bool)
        self._keys: list[Hashable] = []
        self._slots: dict[Hashable, list[int]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def all(self) -> tuple[NDArray, NDArray, NDArray]:
        """Return design rows, targets and weights."""
        table = self._table[: len(self._keys)][self._alive[: len(self._keys)]]
        return table[:, : self._p], table[:, self._p : -1], table[:, -1]

    def add(self, keys: Sequence[Hashable], G: NDArray, Y: NDArray, counts: NDArray) -> None:
        """Append samples."""
        start = len(self._keys)
        if start + len(keys) > len(self._table):
            self._make_room(len(keys))
            start = len(self._keys)
        end = start + len(keys)
        self._table[start:end] = np.hstack([G, Y, counts[:, None]])
        self._alive[start:end] = True
        self._keys.extend(keys)
        for slot, key in enumerate(keys, start):
            self._slots.setdefault(key, []).append(slot)
        self._size += len(keys)

    def find(self, keys: Sequence[Hashable]) -> list[int]:
        """Return the slots of samples, the latest of equals first; raise KeyError with the position of one not here."""
        found: list[int] = []
        taken: dict[Hashable, int] = {}
        for position, key in enumerate(keys):
            slots = self._slots.get(key, [])
            taken[key] = taken.get(key, 0) + 1
            if taken[key] > len(slots):
                raise KeyError(position)
            found.append(slots[-taken[key]])
        return found

    def row(self, slot: int) -> tuple[NDArray, NDArray, float]:
        """Return design row, target and weight of one sample."""
        row = self._table[slot]
        return row[: self._p], row[self._p : -1], float(row[-1])

    def discard(self, slots: Sequence[int]) -> None:
        """Remove samples."""
        for slot in slots:
            key = self._keys[slot]
            self._slots[key].remove(slot)
            if not self._slots[key]:
                del self._slots[key]
        self._alive[list(slots)] = False
        self._size -= len(slots)

    def _make_room(self, count: int) -> None:
        """Close the gaps, then double what is needed: amortised O(1) a sample."""
        here = np.flatnonzero(self._alive[: len(self._keys)])
        capacity = 2 * (len(here) + count)
        table, alive = np.empty((capacity, self._table.shape[1])), np.zeros(capacity, dtype=bool)
        table[: len(here)], alive[: len(here)] = self._table[here], True
        self._table, self._alive = table, alive
        self._keys = [self._keys[slot] for slot in here]
        self._slots = {}
        for slot, key in enumerate(self._keys):
            self._slots.setdefault(key, []).append(slot)


def sample_keys(X: Any, Y: NDArray) -> list[Hashable]:
    """One hashable value per sample: the bytes of numbers, the items of anything else."""
    table = np.asarray(X)
    if np.issubdtype(table.dtype, np.number) or table.dtype == bool:
        table = np.hstack([table.astype(np.float64), Y]) + 0.0  # -0 and 0 are the same value
        return [row.tobytes() for row in table]
    return [(tuple(row), target.tobytes()) for row, target in zip(table, Y + 0.0, strict=True)]
