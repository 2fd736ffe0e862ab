"""The flagship's recipe: with every ingredient exchanged, and beside what a user would pick today.

Three parts, one JSON object per line. `regression`: nine sets, 1,000 training and 2,000 test samples, or two thirds and
one third of small sets; test error as a share of the variance, and terms. `classification`: eight two-class sets with
the splits and the figures of Hong, Chen and Harris (2013); test error in percent, and terms, beside theirs and those of
`PrefilterClassifier`. `confirmation`: the same for sets that ship with scikit-learn.

The recipe's few constants were set looking at the nine regression sets, on other splits, and at the eight two-class
sets, on these; no constant was set by a set of the third part, nor by the tables of the benchmark `fresh`. The first
two parts need data: set TERMWISE_DATA to their folder.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
from _timing import emit, machine
from joblib import Parallel, delayed
from reproduce_hong import PAPER, PROPOSED
from sklearn import datasets as ready
from sklearn.base import BaseEstimator, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LassoCV, LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from termwise import (
    AnovaBasis,
    ForwardRegressor,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    datasets,
)

Split = tuple[Any, Any, Any, Any]  # inputs and targets to learn from and to test on
FLAGSHIP = ("small", "accurate")
DICTIONARIES = ("linear", "additive", "pairs", "smooth", "relevant")
FRIEDMAN = {  # with the noise of the original papers: a third of the signal for the last two
    "friedman1": lambda n, seed: ready.make_friedman1(n, noise=1.0, random_state=seed),
    "friedman2": lambda n, seed: ready.make_friedman2(n, noise=125.0, random_state=seed),
    "friedman3": lambda n, seed: ready.make_friedman3(n, noise=0.1, random_state=seed),
}
TABLES = {
    "diabetes": ready.load_diabetes,
    "breast_cancer": ready.load_breast_cancer,
    "wine": ready.load_wine,
    "iris": ready.load_iris,
    "digits": ready.load_digits,
}


# -- who is compared ---------------------------------------------------------------------------------------------------


class LassoOnGaussians(BaseEstimator):
    """The lasso on Gaussians of all samples, width and penalty by five-fold cross-validation."""

    def fit(self, X: Any, y: Any) -> Self:
        """Keep the width with the smallest error."""
        tried = []
        for width in (0.7, 1.4, 2.8):  # in median distances between samples
            basis = SmoothBasis(width=("median", width), linear=False).fit(X)
            lasso = LassoCV(cv=5, alphas=30, max_iter=500, tol=1e-3).fit(basis.transform(X), y)
            tried.append((float(lasso.mse_path_.mean(axis=1).min()), width, basis, lasso))
        _, _, self.basis_, self.lasso_ = min(tried)
        self.n_terms_ = int(np.sum(self.lasso_.coef_ != 0))
        return self

    def predict(self, X: Any) -> Any:
        """Predict."""
        return self.lasso_.predict(self.basis_.transform(X))


def kernel_ridge(d: int) -> Any:
    """Kernel ridge regression, width and penalty by five-fold cross-validation."""
    grid = {
        "kernelridge__gamma": [g / d for g in (0.01, 0.03, 0.1, 0.3, 1.0)],
        "kernelridge__alpha": 10.0 ** np.arange(-3, 2),
    }
    return GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=5)


def support_vectors(d: int) -> Any:
    """Support vector classification, width and penalty by five-fold cross-validation."""
    grid = {"svc__gamma": [g / d for g in (0.01, 0.03, 0.1, 0.3, 1.0)], "svc__C": 10.0 ** np.arange(-1, 4)}
    return GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=5)


def flagship() -> dict[str, Any]:
    """Both sizes, then its own ingredients one by one."""
    return {
        "small": TermwiseRegressor(),
        "accurate": TermwiseRegressor("accurate"),
        **{f"only {name}": TermwiseRegressor(dictionary=name) for name in DICTIONARIES},
        "target data": TermwiseRegressor(target="data"),
        "target ridge": TermwiseRegressor(target="ridge"),
        "accurate, target data": TermwiseRegressor("accurate", target="data"),
        "accurate, target ridge": TermwiseRegressor("accurate", target="ridge"),
    }


def ingredients() -> dict[str, Any]:
    """Forward selection with one thing exchanged at a time."""
    pairs, smooth = AnovaBasis(), SmoothBasis()
    both = FeatureUnion([("pairs", pairs), ("gaussians", SmoothBasis(linear=False))])
    return {
        "pairs, loo, tcr": ForwardRegressor(pairs, refit_alpha="loo"),
        "pairs, loo, tcr, no refit": ForwardRegressor(pairs),
        "pairs, loo, tcr, swaps": ForwardRegressor(pairs, refit_alpha="loo", refine="swap"),
        "pairs, cost, tcr": ForwardRegressor(pairs, rule="cost", refit_alpha="loo"),
        "pairs, gcv, tcr": ForwardRegressor(pairs, rule="gcv", refit_alpha="loo"),
        "pairs, loo, one_se": ForwardRegressor(pairs, criterion="one_se", refit_alpha="loo", max_terms=100),
        "pairs, loo, loo": ForwardRegressor(pairs, criterion="loo", refit_alpha="loo", max_terms=100),
        "smooth, loo, tcr": ForwardRegressor(smooth, refit_alpha="loo"),
        "smooth, loo, tcr, swaps": ForwardRegressor(smooth, refit_alpha="loo", refine="swap"),
        "smooth, no lines": ForwardRegressor(SmoothBasis(linear=False), refit_alpha="loo"),
        "smooth, relevance learned": ForwardRegressor(SmoothBasis(relevance="auto"), refit_alpha="loo"),
        "smooth, three widths": ForwardRegressor(SmoothBasis(width=("median", [0.5, 1.0, 2.0])), refit_alpha="loo"),
        "pairs and Gaussians": ForwardRegressor(both, refit_alpha="loo"),
    }


def peers(d: int) -> dict[str, Any]:
    """What a user would pick today for regression."""
    return {
        "lasso on Gaussians": LassoOnGaussians(),
        "kernel ridge": kernel_ridge(d),
        "gradient boosting": HistGradientBoostingRegressor(random_state=0),
        "linear": make_pipeline(StandardScaler(), RidgeCV(10.0 ** np.arange(-3, 4))),
    }


def regressors(d: int) -> dict[str, Any]:
    """Everybody of the first part."""
    return flagship() | ingredients() | peers(d)


def small_regressors(d: int) -> dict[str, Any]:
    """The flagship and its peers."""
    return {who: flagship()[who] for who in FLAGSHIP} | peers(d)


def two_sizes(d: int) -> dict[str, Any]:
    """The flagship alone, for classification."""
    return {"small": TermwiseClassifier(), "accurate": TermwiseClassifier("accurate")}


def classifiers(d: int) -> dict[str, Any]:
    """The flagship and its peers for classification."""
    return two_sizes(d) | {
        "support vectors": support_vectors(d),
        "gradient boosting": HistGradientBoostingClassifier(random_state=0),
        "logistic": make_pipeline(StandardScaler(), LogisticRegressionCV(max_iter=1000)),
    }


# -- what they are given -----------------------------------------------------------------------------------------------


def random_split(X: Any, y: Any, seed: int) -> Split:
    """Training and test samples: 1,000 and 2,000, or two thirds and one third of few."""
    n = len(y)
    train, test = (1000, 2000) if n > 3500 else (2 * n // 3, n - 2 * n // 3)
    rows = np.random.default_rng(seed).permutation(n)
    a, b = rows[:train], rows[train : train + test]
    return X[a], y[a], X[b], y[b]


def regression_split(name: str, seed: int) -> Split:
    """One of the nine sets."""
    data = datasets.load(name)
    return random_split(data.data, data.target, seed)


def classification_split(name: str, seed: int) -> Split:
    """One of the eight sets, with its own splits."""
    data = datasets.load(name)
    a, b = data.train[seed], data.test[seed]
    return data.data[a], data.target[a], data.data[b], data.target[b]


def confirmation_split(name: str, seed: int) -> Split:
    """A set that ships with scikit-learn, or 300 samples of an artificial one."""
    if name not in FRIEDMAN:
        table = TABLES[name]()
        return random_split(table.data, table.target, seed)
    X, y = FRIEDMAN[name](2300, seed)
    return X[:300], y[:300], X[300:], y[300:]


# -- comparing them ----------------------------------------------------------------------------------------------------


def one_fit(model: Any, data: Split) -> tuple[float, float, float]:
    """Test error over the variance, or in percent of wrong classes; terms; seconds."""
    X, y, X_test, y_test = data
    classes = is_classifier(model)
    if not classes:
        y, y_test = y / y.std(), y_test / y.std()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the lasso's about convergence
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        predicted = model.predict(X_test)
    error = 100 * np.mean(predicted != y_test) if classes else np.mean((predicted - y_test) ** 2) / np.var(y_test)
    return float(error), count_terms(model, len(X)), seconds


def count_terms(model: Any, n: int) -> float:
    """Number of terms a prediction takes."""
    if hasattr(model, "n_terms_"):
        return model.n_terms_
    last = model[-1] if hasattr(model, "steps") else model
    return int(np.sum(np.any(np.atleast_2d(last.coef_) != 0, axis=0))) if hasattr(last, "coef_") else n


def compare(
    name: str,
    people: Callable[[int], dict[str, Any]],
    split: Callable[[str, int], Split],
    options: Any,
    benchmark: str = "recipe",
    **more: Any,
) -> None:
    """Report everybody on one set."""
    if options.sets and name not in options.sets:
        return
    splits = more["splits"]
    jobs = Parallel(n_jobs=options.jobs)
    data = [split(name, seed) for seed in range(splits)]
    for who in people(1):
        if options.who and who not in options.who:
            continue
        models = [people(one[0].shape[1])[who] for one in data]
        fits = jobs(delayed(one_fit)(model, one) for model, one in zip(models, data, strict=True))
        errors, terms, seconds = np.array(fits).T
        digits = 2 if is_classifier(models[0]) else 4
        emit(
            benchmark=benchmark,
            set=name,
            who=who,
            error=round(float(errors.mean()), digits),
            error_sd=round(float(errors.std()), digits),
            terms=round(float(terms.mean()), 1),
            seconds=round(float(seconds.mean()), 3),
            **more,
        )


def prefilter(name: str) -> dict[str, Any] | None:
    """What `PrefilterClassifier` had, from the committed results of `termwise reproduce hong`."""
    path = Path(__file__).parent / "results" / "reproduce" / "hong.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["row"], row["column"]) == (name, PROPOSED)]
    found = {row["quantity"]: float(row["ours"]) for row in rows if row["ours"]}
    return {"error": found["error, percent"], "terms": found["terms"]} if "terms" in found else None


def read_options(about: str | None, parts: Iterable[str]) -> argparse.Namespace:
    """What is to be compared."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=[*parts, "all"], default="all", help="which part")
    parser.add_argument("--repeats", type=int, default=5, help="number of random splits")
    parser.add_argument(
        "--splits", type=int, default=100, help="number of splits of the papers' two-class sets, <= 100"
    )
    parser.add_argument("--who", nargs="+", help="only these contestants")
    parser.add_argument("--sets", nargs="+", help="only these sets")
    parser.add_argument("--small", action="store_true", help="one split of a small set each, the flagship only")
    parser.add_argument("--jobs", type=int, default=-1, help="fits at the same time; -1: one per core")
    options = parser.parse_args()
    if options.small:
        options.repeats, options.splits, options.who = 1, 1, options.who or FLAGSHIP
    return options


def main() -> None:
    parts = ("regression", "classification", "confirmation")
    options = read_options(__doc__, parts)
    emit(benchmark="recipe", **machine())
    for part in parts if options.part == "all" else [options.part]:
        try:
            {"regression": regression, "classification": classification, "confirmation": confirmation}[part](options)
        except OSError as error:
            emit(benchmark="recipe", part=part, skipped=str(error))


def regression(options: Any) -> None:
    """Nine sets."""
    for name in ["auto_mpg"] if options.small else datasets.REGRESSION:
        compare(name, regressors, regression_split, options, part="regression", splits=options.repeats)


def classification(options: Any) -> None:
    """Eight sets; the peers have been compared there by others."""
    for name in ["heart"] if options.small else datasets.TWO_CLASS:
        (error, sd), (terms, _), _ = PAPER[name]
        more: dict[str, Any] = {"paper": {"error": [error, sd], "terms": terms}, "prefilter": prefilter(name)}
        compare(name, two_sizes, classification_split, options, part="classification", splits=options.splits, **more)


def confirmation(options: Any) -> None:
    """Sets that nobody looked at to set a constant."""
    sets = dict.fromkeys(("diabetes", *FRIEDMAN), small_regressors)
    sets |= {name: classifiers for name in TABLES if name != "diabetes"}
    for name in ["diabetes", "iris"] if options.small else sets:
        compare(name, sets[name], confirmation_split, options, part="confirmation", splits=options.repeats)


if __name__ == "__main__":
    main()
