"""Black-box regression sets of SRBench, for the benchmark `tables`: ranks among 21 published methods.

La Cava et al. (2021) publish for each set the median test R2 over ten splits of 75 % and 25 % of the rows, drawn with
the seeds below; training rows beyond 10,000 are left out at random. The data and the results are read from the folder
`srbench` below that in the environment variable TERMWISE_DATA. The rank of a method on a set is one plus the number of
methods with a larger median R2; published methods are ranked among themselves and the flagship of one size. More than
half of the sets are Friedman's synthetic functions (`fri_`): means are reported with and without them.

`--repeats` is the number of seeds; `--half development` a subset of half of the sets. The nodes of an expression are
those of the exported SymPy expression.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

SEEDS = (860, 5390, 6265, 11284, 11964, 15795, 21575, 22118, 23654, 29802)
MOST_ROWS = 10_000
SYNTHETIC = "fri_"
Record = dict[str, Any]


def folder() -> Path:
    """Return where the sets are."""
    return Path(os.environ.get("TERMWISE_DATA", ""), "srbench")


def srbench_sets() -> list[str]:
    """Return the names of the sets, none without the data."""
    return sorted(path.name.removesuffix(".csv.gz") for path in folder().glob("*.csv.gz"))


def srbench_rows(name: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return training inputs and targets, and those to test on."""
    import pandas as pd

    frame = pd.read_csv(folder() / f"{name}.csv.gz")
    X, y = frame.drop(columns="target").astype(float), frame["target"].to_numpy(float)
    X, X_test, y, y_test = train_test_split(X, y, train_size=0.75, test_size=0.25, random_state=seed)
    kept = np.random.default_rng(seed).permutation(len(y))[:MOST_ROWS] if len(y) > MOST_ROWS else np.arange(len(y))
    return X.iloc[kept], y[kept], X_test, y_test


@cache
def published(quantity: str = "r2_test") -> Any:
    """Return published medians, of the test R2 unless another column is named: a row per set, a column per method."""
    import pandas as pd

    table = pd.read_csv(folder() / "published.csv")
    return table.pivot_table(index="dataset", columns="algorithm", values=quantity)


def expression_nodes(model: Any) -> int:
    """Return the number of nodes of the exported SymPy expression, of all classes together."""
    import sympy

    expression = model.predictor_.to_sympy()
    several = expression if isinstance(expression, (list, tuple)) else [expression]
    return sum(1 for one in several for _ in sympy.preorder_traversal(one))


def bytes_of_c(model: Any) -> int:
    """Return the size of the exported C file."""
    with TemporaryDirectory() as place:
        file = Path(place, "model.c")
        model.predictor_.export(file)
        return file.stat().st_size


def ranks(rows: list[Record]) -> Iterator[Record]:
    """Return the mean ranks of each size, and of the published methods beside it."""
    for who in dict.fromkeys(row["who"] for row in rows):
        mine = {row["table"]: row for row in rows if row["who"] == who}
        for without in ("", SYNTHETIC):
            names = [name for name in mine if name in published().index and not (without and without in name)]
            if not names:
                continue
            scores = published().loc[names].copy()
            scores[who] = [1 - mine[name]["median_error"] for name in names]
            mean = scores.rank(axis=1, ascending=False, method="min").mean().sort_values()
            yield {
                "who": who, "sets": len(names), "without": without or None, "mean_rank": round(float(mean[who]), 3),
                "best_published": {name: round(float(mean[name]), 3) for name in mean.index if name != who and
                                   mean[name] <= max(mean[who] + 2, 7)},
                **{f"median_{key}": round(float(np.median([mine[name][key] for name in names])), 3)
                   for key in ("seconds", "terms", "nodes") if key in mine[names[0]]},
                "worst": dict(sorted(((name, int(1 + (scores.loc[name] > scores.loc[name, who]).sum()))
                                      for name in names), key=lambda one: -one[1])[:8]),
            }  # fmt: skip
