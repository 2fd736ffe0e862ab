"""The data sets of the papers, for the benchmark `tables`: nine for regression and eight with two classes.

Regression: 1,000 training rows, or two thirds of the small sets, and at most 4,000 others to test on, drawn at random.
Two classes: the partitions of Raetsch, Onoda and Mueller (2001) that come with the data, number `seed`. The data are
read from the folder in the environment variable TERMWISE_DATA.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from termwise import datasets

TRAINING_ROWS, TEST_ROWS = 1000, 4000
PAPERS_KIND = dict.fromkeys(datasets.REGRESSION, "regression") | dict.fromkeys(datasets.TWO_CLASS, "twoclass")


def papers_rows(name: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return training inputs and targets, and those to test on."""
    data = datasets.load(name)
    X = pd.DataFrame(data.data, columns=data.feature_names)
    if PAPERS_KIND[name] == "twoclass":
        train, test = data.train[seed], data.test[seed]
        return X.iloc[train], data.target[train].astype(str), X.iloc[test], data.target[test].astype(str)
    rows = np.random.default_rng(seed).permutation(len(data.target))
    n = min(TRAINING_ROWS, 2 * len(rows) // 3)
    train, test = rows[:n], rows[n : n + TEST_ROWS]
    return X.iloc[train], data.target[train], X.iloc[test], data.target[test]
