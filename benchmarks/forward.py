"""`forward_path` against bare passes over the same matrix, and against other libraries' greedy selection.

`passes` is the time per term over the time of one `G.T @ v`; `extra_memory` the peak of newly allocated memory over the
size of G. Peers run where they are installed: scikit-learn always, fastcan and abess if present.
"""

from __future__ import annotations

import argparse
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from _timing import best_of, emit, machine
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import Lars, LinearRegression, OrthogonalMatchingPursuit

from termwise import CriterionSearch, ForwardRegressor, RadialBasis, forward_path


def data(n: int, p: int, signal: int, density: float | None = None) -> tuple[Any, np.ndarray]:
    """Columns of noise; the target depends on `signal` of them, or on none."""
    rng = np.random.default_rng(0)
    if density is None:
        G = rng.normal(size=(n, p))
    else:
        G = sp.random_array((n, p), density=density, format="csr", rng=rng, data_sampler=rng.standard_normal)
    weights = np.zeros(p)
    weights[rng.permutation(p)[:signal]] = rng.uniform(0.5, 2, size=signal) * rng.choice([-1, 1], size=signal)
    y = np.asarray(G @ weights)
    return G, y + rng.normal(size=n) * (y.std() / 2 if signal else 1.0)


def bare_pass(G: Any, repeats: int) -> float:
    v = np.random.default_rng(1).normal(size=G.shape[0])
    return best_of(lambda: G.T @ v, 4 * repeats)["seconds"]


def peak(run: Callable[[], Any], G: Any) -> float:
    """Peak of newly allocated memory over the size of G."""
    tracemalloc.start()
    run()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = G.nbytes if isinstance(G, np.ndarray) else G.data.nbytes + G.indices.nbytes + G.indptr.nbytes
    return round(most / size, 3)


def ours(name: str, G: Any, y: np.ndarray, terms: int, repeats: int, rule: str, label: str) -> float:
    run = partial(forward_path, G, y, rule=rule, max_terms=terms)
    path = run()
    timing, one = best_of(run, repeats), bare_pass(G, repeats)
    emit(benchmark="forward", case=name, method=f"termwise {rule}", data=label, n=G.shape[0], p=G.shape[1], terms=terms,
         **timing, bare_pass=round(one, 6), passes=round(timing["seconds"] / one / terms, 2),
         extra_memory=peak(run, G), verified=round(float(path.column("verified")[1:].mean()), 1))  # fmt: skip
    return timing["seconds"]


def peers(G: np.ndarray, terms: int) -> dict[str, BaseEstimator]:
    found: dict[str, BaseEstimator] = {
        "scikit-learn OMP": OrthogonalMatchingPursuit(n_nonzero_coefs=terms, precompute=False),
        "scikit-learn OMP, Gram": OrthogonalMatchingPursuit(n_nonzero_coefs=terms, precompute=True),
        "scikit-learn LARS": Lars(n_nonzero_coefs=terms),
    }
    try:
        from fastcan import FastCan

        found["fastcan"] = FastCan(n_features_to_select=terms, verbose=0)
    except ImportError:
        pass
    try:
        from abess.linear import LinearRegression as BestSubset

        found["abess"] = BestSubset(support_size=[terms])
    except ImportError:
        pass
    return found


def compare(name: str, n: int, p: int, terms: int, repeats: int, rules: list[str], skip: tuple[str, ...] = ()) -> None:
    G, y = data(n, p, terms)
    best = {rule: ours(name, G, y, terms, repeats, rule, "signal") for rule in rules}
    for peer, estimator in peers(G, terms).items():
        if peer in skip:
            continue
        timing = best_of(partial(estimator.fit, G, y), max(1, repeats // 2))
        ratios = {f"times_{rule}": round(timing["seconds"] / seconds, 2) for rule, seconds in best.items()}
        emit(benchmark="forward", case=name, method=peer, n=n, p=p, terms=terms, **timing, **ratios)


def radial(n: int, terms: int, repeats: int) -> None:
    """Gaussians on all samples, five widths by `CriterionSearch`."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = np.sin(X[:, 0] * X[:, 1]) + X[:, 2] + 0.1 * rng.normal(size=n)
    model = ForwardRegressor(RadialBasis(), rule="cost", criterion="tcr", max_terms=terms, patience=None)
    search = CriterionSearch(model, {"basis__width": [0.5, 1.0, 2.0, 4.0, 8.0]})
    timing = best_of(lambda: search.fit(X, y), repeats)
    emit(benchmark="forward", case="radial", method="termwise cost", n=n, p=n, terms=terms, widths=5, **timing)


def growth(repeats: int, small: bool) -> None:
    """Time against n, p and k, one at a time, with the slope on logarithmic axes."""
    scale = 4 if small else 1
    base = {"n": 32_000 // scale, "p": 2_000 // scale, "k": 20}
    for which in ("n", "p", "k"):
        sizes, times = [], []
        for factor in (0.5, 1, 2, 4):
            size = {**base, which: int(base[which] * factor)}
            G, y = data(size["n"], size["p"], size["k"])
            timing = best_of(partial(forward_path, G, y, max_terms=size["k"]), repeats)
            sizes.append(size[which])
            times.append(timing["seconds"])
            emit(benchmark="forward", case="growth", along=which, **size, **timing)
        slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
        emit(benchmark="forward", case="growth", along=which, slope=round(slope, 3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="how often to run each; the best counts")
    parser.add_argument("--small", action="store_true", help="sizes for a quick look")
    options = parser.parse_args()
    scale, repeats = (20 if options.small else 1), options.repeats
    emit(benchmark="forward", **machine())
    for label, signal in (("signal", 50), ("noise", 0)):
        G, y = data(50_000 // scale, 1_000 // scale, min(signal, 1_000 // scale // 2))
        ours("tall", G, y, 50 // (2 if options.small else 1), repeats, "loo", label)
    compare("square", 5_000 // scale, 5_000 // scale, 20, repeats, ["loo", "cost"])
    compare("medium", 5_000 // scale, 1_000 // scale, 50 // (2 if options.small else 1), repeats, ["sse", "cost"])
    slow = ("fastcan", "abess")
    compare("tall", 50_000 // scale, 1_000 // scale, 50 // (2 if options.small else 1), repeats, ["sse", "cost"], slow)
    G, y = data(200_000 // scale, 20_000 // scale, 20, density=0.005)
    ours("sparse", G, y, 20, max(1, repeats // 2), "loo", "signal")
    radial(4_000 // scale, 200 // (4 if options.small else 1), 1)
    G, y = data(1_000, 100, 5)
    timing = best_of(lambda: ForwardRegressor().fit(G, y), 4 * repeats)
    emit(benchmark="forward", case="everyday", method="ForwardRegressor()", n=1_000, p=100, **timing)
    slow_peer = SequentialFeatureSelector(LinearRegression(), n_features_to_select=5, cv=5)
    theirs = best_of(partial(slow_peer.fit, G, y), 1)
    emit(benchmark="forward", case="everyday", method="scikit-learn SequentialFeatureSelector", n=1_000, p=100, terms=5,
         **theirs, times_everyday=round(theirs["seconds"] / timing["seconds"], 1))  # fmt: skip
    growth(max(1, repeats // 2), options.small)


if __name__ == "__main__":
    main()
