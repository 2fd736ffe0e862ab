"""What the driver knows of rows and candidates, and what a new term changes, on arrays that keep their place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, at, namespace, put_at
from termwise.design.stored import Design
from termwise.selection.blocks import NO_GAP, take_column

Floats = NDArray[np.float64]

# rows of the statistics besides those of the outputs: s, vv, and |g|^2 centred and not, and what must be left
FIXED = 5
TINY = float(np.finfo(np.float64).tiny)


class Sums(NamedTuple):
    """`Moments` of all rows, with the driver."""

    rr: Floats  # (q,) sum r^2
    wrr: Floats  # (q,) sum w r^2
    wwrr: Floats  # (q,) sum w^2 r^2
    spread: float
    gap: float  # largest leverage gap
    w0: float  # sum w r^2 / sum r^2
    undefined: bool  # whether some row decides its own fit

    @classmethod
    def of(cls, values: Floats) -> Sums:
        """Tell them apart."""
        spread, largest, smallest = values[-3:].tolist()
        rr, wrr, wwrr = values[:-3].reshape(3, -1)
        w0 = float(wrr.sum()) / max(float(rr.sum()), TINY)
        return cls(rr, wrr, wwrr, spread, max(largest, NO_GAP), w0, smallest < NO_GAP)


class Known(NamedTuple):
    """What is known of a few candidates, with the driver: one column each."""

    numbers: NDArray[np.intp]
    c: Floats  # (q, m)
    rv: Floats  # (q, m)
    s: Floats
    vv: Floats
    norms: Floats
    raw: Floats
    least: Floats
    T: Floats  # (k, m)

    def of(self, candidates: NDArray[np.intp]) -> Known:
        """Columns of some of them, by their places here."""
        return Known(*(part[..., candidates] for part in self))  # type: ignore[arg-type]


def step(
    G: Design,
    root: Array | None,
    share: Array,
    counts: Array,
    Zt: Array,
    r: Array,
    gap: Array,
    sums: Array,
    source: Array,
    usable: Array,
    rows: Array,
    *numbers: Array,
) -> None:
    """All that a new term changes, at one go: `take_column`, the pass over the data, `update`."""
    z, moments = take_column(G, root, share, counts, Zt, r, gap, *numbers[:5])
    if source.shape[0] == 1:
        source[0, :] = G.products(z if root is None else z * root)
    update(source, usable, rows, *numbers[5:])
    sums[...] = moments.values


def update(source: Array, usable: Array, rows: Array, places: Array, length: Array, mix: Array, change: Array) -> None:
    """Add a row of T and bring the statistics up to date; see `State._update`.

    The source is t itself, or `G'G`, whose row j then takes the place of `length t + T'column`.
    """
    first, q = mix.shape[1], change.shape[0] // 2 - 1
    T = rows[2 * q + FIXED : 2 * q + FIXED + first, :]
    place, j = places[:1], places[1:]
    t = source[0, :] if source.shape[0] == 1 else (at(source, j)[0, :] - mix[2, :] @ T) / length
    put_at(rows, place, t[None, :])
    linear = mix[:2, :] @ T
    rows[: 2 * q + 2, :] -= change @ namespace(t).concat([linear, linear * t])
    put_at(usable, j, False)
    usable &= rows[2 * q + 1, :] > rows[2 * q + 4, :]
