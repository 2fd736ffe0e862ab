"""The flagship's recipe on nine regression sets: beside what a user would pick today, and with ingredients exchanged.

1,000 training and 2,000 test samples, or two thirds and one third of small sets; test error as a share of the variance,
and terms. The recipe's few constants were set looking at these sets, on other splits. Needs the data sets: set
TERMWISE_DATA to their folder.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from _timing import emit, machine
from joblib import Parallel, delayed
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from termwise import AnovaBasis, ForwardRegressor, RadialBasis, SmoothBasis, TermwiseRegressor, datasets

SETS = tuple(datasets.REGRESSION)


def kernel_ridge(d: int) -> Any:
    """Kernel ridge regression, width and penalty by five-fold cross-validation."""
    grid = {
        "kernelridge__gamma": [g / d for g in (0.01, 0.03, 0.1, 0.3, 1.0)],
        "kernelridge__alpha": 10.0 ** np.arange(-3, 2),
    }
    return GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=5)


def contestants(d: int) -> dict[str, Any]:
    """What is compared: the flagship, its ingredients one by one, and the others."""
    pairs, smooth = AnovaBasis(), SmoothBasis()
    return {
        "small": TermwiseRegressor(),
        "accurate": TermwiseRegressor("accurate"),
        **{f"only {name}": TermwiseRegressor(dictionary=name) for name in ("linear", "additive", "pairs", "smooth")},
        "pairs, loo, tcr": ForwardRegressor(pairs, refit_alpha="loo"),
        "pairs, loo, tcr, no refit": ForwardRegressor(pairs),
        "pairs, cost, tcr": ForwardRegressor(pairs, rule="cost", refit_alpha="loo"),
        "pairs, gcv, tcr": ForwardRegressor(pairs, rule="gcv", refit_alpha="loo"),
        "pairs, loo, one_se": ForwardRegressor(pairs, criterion="one_se", refit_alpha="loo", max_terms=100),
        "pairs, loo, loo": ForwardRegressor(pairs, criterion="loo", refit_alpha="loo", max_terms=100),
        "smooth, loo, tcr": ForwardRegressor(smooth, refit_alpha="loo"),
        "smooth, no lines": ForwardRegressor(SmoothBasis(linear=False), refit_alpha="loo"),
        "smooth, three widths": ForwardRegressor(SmoothBasis(widths=[0.5, 1.0, 2.0]), refit_alpha="loo"),
        "lasso on Gaussians": make_pipeline(
            StandardScaler(),
            RadialBasis(width="median"),
            StandardScaler(),
            LassoCV(cv=5, alphas=30, max_iter=500, tol=1e-3),
        ),
        "kernel ridge": kernel_ridge(d),
        "gradient boosting": HistGradientBoostingRegressor(random_state=0),
        "linear": make_pipeline(StandardScaler(), RidgeCV(10.0 ** np.arange(-3, 4))),
    }


def split(name: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Training and test samples."""
    data = datasets.load(name)
    n = len(data.target)
    train, test = (1000, 2000) if n > 3500 else (2 * n // 3, n - 2 * n // 3)
    rows = np.random.default_rng(seed).permutation(n)
    a, b = rows[:train], rows[train : train + test]
    return data.data[a], data.target[a], data.data[b], data.target[b]


def one_fit(name: str, seed: int, who: str) -> tuple[float, float, float]:
    """Test error over the variance, terms, seconds."""
    X, y, X_test, y_test = split(name, seed)
    scale = y.std()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the lasso's about convergence
        start = time.perf_counter()
        model = contestants(X.shape[1])[who].fit(X, y / scale)
        seconds = time.perf_counter() - start
        error = float(np.mean((model.predict(X_test) - y_test / scale) ** 2) / np.var(y_test / scale))
    return error, count_terms(model, len(X)), seconds


def count_terms(model: Any, n: int) -> float:
    """Number of terms a prediction takes."""
    if hasattr(model, "n_terms_"):
        return model.n_terms_
    last = model[-1] if hasattr(model, "steps") else model
    return int(np.sum(last.coef_ != 0)) if hasattr(last, "coef_") else n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="number of random splits")
    parser.add_argument("--small", action="store_true", help="one split of a small set, the flagship only")
    parser.add_argument("--jobs", type=int, default=-1, help="fits at the same time; -1: one per core")
    options = parser.parse_args()
    emit(benchmark="recipe", **machine())
    names, seeds = (["auto_mpg"], 1) if options.small else (SETS, options.repeats)
    people = ["small", "accurate"] if options.small else list(contestants(1))
    jobs = Parallel(n_jobs=options.jobs)
    for name in names:
        for who in people:
            try:
                errors, terms, seconds = np.array(jobs(delayed(one_fit)(name, seed, who) for seed in range(seeds))).T
            except OSError as error:
                emit(benchmark="recipe", set=name, skipped=str(error))
                break
            emit(
                benchmark="recipe",
                set=name,
                who=who,
                splits=seeds,
                error=round(float(errors.mean()), 4),
                error_sd=round(float(errors.std()), 4),
                terms=round(float(terms.mean()), 1),
                seconds=round(float(seconds.mean()), 3),
            )


if __name__ == "__main__":
    main()
