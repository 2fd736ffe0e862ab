"""Plain data: what a JSON document can hold, and no more digits than a reader has use for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from termwise._arrays import is_foreign, to_host

DIGITS = 6


def rounded(values: ArrayLike, digits: int = DIGITS) -> Any:
    """Return numbers as floats, or lists of them, with so many significant digits; None where one is not finite."""
    array = np.asarray(to_host(values) if is_foreign(values) else values, dtype=np.float64)
    flat = [float(f"{value:.{digits - 1}e}") if np.isfinite(value) else None for value in array.ravel()]
    return nested(flat, array.shape)


def nested(flat: list[Any], shape: tuple[int, ...]) -> Any:
    """Return a flat list as lists within lists."""
    if not shape:
        return flat[0]
    step = len(flat) // shape[0] if shape[0] else 0
    return flat if len(shape) == 1 else [nested(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def plain(value: Any) -> Any:
    """Return anything as plain data: numbers as they are, None for those that are not finite, text for the rest."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return str(value)
