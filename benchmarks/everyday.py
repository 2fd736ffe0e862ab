"""Time of the automatic regressor at everyday sizes, beside gradient boosting with its defaults.

Three functions: smooth with an interaction (Friedman 1), linear, and thresholds with a kink. `error` is the squared
error on fresh samples as a share of the variance, noise included. CatBoost runs where it is installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _timing import best_of, emit, machine
from sklearn.ensemble import HistGradientBoostingRegressor

from termwise import TermwiseRegressor

SIZES = {"200x5": (200, 5), "1000x20": (1_000, 20), "20000x20": (20_000, 20), "1000000x20": (1_000_000, 20)}
FRESH = 4_000


def friedman(X: np.ndarray) -> np.ndarray:
    return 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def linear(X: np.ndarray) -> np.ndarray:
    return X[:, :5] @ np.arange(1.0, 6.0)


def thresholds(X: np.ndarray) -> np.ndarray:
    return 5.0 * (X[:, 0] > 0.4) * (X[:, 1] < 0.6) + 4 * np.maximum(X[:, 2] - 0.5, 0) + (X[:, 3] > 0.7)


FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    "friedman": (friedman, 1.0), "linear": (linear, 1.0), "thresholds": (thresholds, 0.5)
}  # fmt: skip


def peers() -> dict[str, Any]:
    found = {"HistGradientBoosting": HistGradientBoostingRegressor()}
    try:
        from catboost import CatBoostRegressor

        found["CatBoost"] = CatBoostRegressor(verbose=0, allow_writing_files=False)
    except ImportError:
        pass
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2, help="how often to run each; the best counts")
    parser.add_argument("--small", action="store_true", help="only the smallest size")
    parser.add_argument("--sizes", nargs="*", choices=SIZES, help="which sizes")
    options = parser.parse_args()
    emit(benchmark="everyday", **machine())
    for size in ["200x5"] if options.small else options.sizes or SIZES:
        n, d = SIZES[size]
        for name, (function, noise) in FUNCTIONS.items():
            if n > 100_000 and name != "friedman":
                continue
            rng = np.random.default_rng(0)
            X, fresh = rng.uniform(size=(n, d)), rng.uniform(size=(FRESH, d))
            y, truth = (function(Z) + noise * rng.normal(size=len(Z)) for Z in (X, fresh))
            for method, model in {"TermwiseRegressor": TermwiseRegressor(), **peers()}.items():
                timing = best_of(partial(model.fit, X, y), options.repeats if n < 10_000 else 1)
                error = float(np.mean((model.predict(fresh) - truth) ** 2) / truth.var())
                terms = {"terms": model.n_terms_} if method == "TermwiseRegressor" else {}
                emit(benchmark="everyday", size=size, n=n, d=d, function=name, method=method, **timing,
                     error=round(error, 4), **terms)  # fmt: skip


if __name__ == "__main__":
    main()
