"""Missing values put into complete tables, for the benchmark `tables`: at random and not at random.

Tables without missing values and with at least 4,000 rows lose 30 % of their cells, in training and in test rows:
"at random" each cell with the same probability, "not at random" cells above the median of their column (categories by
the order of their names) with three times the probability of the others, so that what is missing says something about
its value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from tables_data import KIND, load

SETTINGS = ("at random", "not at random")
SHARE = 0.3
MORE_LIKELY = 3.0
FEWEST_ROWS = 4000


def complete_tables(names: Iterable[str]) -> list[str]:
    """Return which tables for regression and of two classes are complete and have enough rows."""
    kinds = [name for name in names if KIND[name] in ("regression", "twoclass")]
    return [name for name in kinds if len(load(name)[1]) >= FEWEST_ROWS and not load(name)[0].isna().any(axis=None)]


def remove_cells(X: Any, setting: str, seed: int) -> Any:
    """Return the table with cells missing."""
    rng = np.random.default_rng(seed)
    X = X.copy()
    for column in X.columns:
        values = X[column].cat.codes if X[column].dtype == "category" else X[column]
        odds = np.where(values > values.median(), MORE_LIKELY if setting == "not at random" else 1.0, 1.0)
        missing = rng.uniform(size=len(X)) < SHARE * odds / odds.mean()
        X[column] = X[column].mask(missing)
    return X
