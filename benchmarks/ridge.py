"""`BasisRidge` against scikit-learn's `RidgeCV`, and adding a sample to `OnlineRidge` against refitting.

The columns mix 50 hidden factors with noise of their own, and the target depends on the factors. `RidgeCV` runs with
its default grid of three penalties and with a grid of 25; `worse` is by which share its leave-one-out error exceeds
ours.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from _timing import best_of, emit, machine
from sklearn.linear_model import Ridge, RidgeCV

from termwise import BasisRidge, OnlineRidge


def problem(n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n, 50))
    X = factors @ rng.normal(size=(50, p)) / 7 + rng.normal(size=(n, p))
    y = factors @ (1 / np.arange(1, 51))
    return X, y + y.std() * rng.normal(size=n)


def against_ridge_cv(n: int, p: int, repeats: int) -> None:
    X, y = problem(n, p)
    ours = BasisRidge(alpha="loo").fit(X, y)
    emit(benchmark="ridge", method="BasisRidge(alpha='loo')", n=n, p=p, alpha=ours.alpha_, loo=ours.criterion_value_,
         **best_of(lambda: BasisRidge(alpha="loo").fit(X, y), repeats))  # fmt: skip
    for name, grid in {"default": np.array([0.1, 1.0, 10.0]), "25 points": np.logspace(-3, 6, 25)}.items():
        theirs = RidgeCV(alphas=grid).fit(X, y)
        at_theirs = BasisRidge(alpha=theirs.alpha_).fit(X, y).criteria_["loo"]
        emit(benchmark="ridge", method=f"RidgeCV, {name}", n=n, p=p, alpha=float(theirs.alpha_), loo=at_theirs,
             worse=at_theirs / ours.criterion_value_ - 1,
             **best_of(partial(theirs.fit, X, y), repeats))  # fmt: skip


def online(n: int, k: int, repeats: int) -> None:
    X, y = problem(n + 1000, k)
    model = OnlineRidge(alpha=1e-3).fit(X[:n], y[:n])
    rows = iter(range(n, n + 1000))

    def add() -> None:
        row = next(rows)
        model.partial_fit(X[row : row + 1], y[row : row + 1])

    added = best_of(add, 500)
    taken = iter(range(n, n + 500))

    def remove() -> None:
        row = next(taken)
        model.remove_samples(X[row : row + 1], y[row : row + 1])

    emit(benchmark="ridge", method="OnlineRidge, add a sample", n=n, p=k, **added)
    emit(benchmark="ridge", method="OnlineRidge, remove a sample", n=n, p=k, **best_of(remove, 400))
    refits = {
        "OnlineRidge": OnlineRidge(alpha=1e-3),
        "BasisRidge": BasisRidge(alpha=1e-3),
        "scikit-learn's Ridge": Ridge(alpha=1e-3),
    }
    for name, estimator in refits.items():
        refit = best_of(partial(estimator.fit, X[:n], y[:n]), repeats)
        emit(benchmark="ridge", method=f"refit, {name}", n=n, p=k, **refit,
             times_adding=round(refit["seconds"] / added["seconds"], 1))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="how often to run each; the best counts")
    parser.add_argument("--small", action="store_true", help="sizes for a quick look")
    options = parser.parse_args()
    emit(benchmark="ridge", **machine())
    scale = 20 if options.small else 1
    against_ridge_cv(20_000 // scale, 500 // scale + 60 * (scale > 1), options.repeats)
    against_ridge_cv(500, 20_000 // scale, options.repeats)
    online(10_000 // scale, 200, options.repeats)


if __name__ == "__main__":
    main()
