"""Numbers in half the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def shortened(values: Any) -> NDArray[np.float32]:
    """Return numbers in float32, or raise if some are too large for it."""
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
    if np.isinf(short).any():
        worst = float(np.ravel(values)[np.flatnonzero(np.isinf(short))[0]])
        raise ValueError(f"dtype must be 'float64' for this model, got 'float32', which cannot hold {worst!r}.")
    return short
