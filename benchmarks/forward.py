"""`forward_path` against bare passes over the same matrix, and against other libraries' greedy selection.

`passes` is the time per term over the time of one `G.T @ v` of the same type; `verified` the number of candidates whose
score was computed exactly, per term; `extra_memory` the peak of newly allocated memory over the size of G. Peers run
where they are installed: scikit-learn always, fastcan and abess if present.

`--cases`, `--regimes` and `--sizes` run a part: the case `regimes` is every size with every structure of the data in
`_regimes`.
"""

from __future__ import annotations

import gc
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from _regimes import PRODUCTS, TABLE, TABLE_TERMS, arguments, draw, products
from _timing import best_of, emit, machine
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import Lars, LinearRegression, OrthogonalMatchingPursuit

from termwise import CriterionSearch, ForwardRegressor, RadialBasis, forward_path

SIZES = ["tall", "square", "medium"]  # of the regimes
SLOW = ("fastcan", "abess")  # peers that take several seconds for tall matrices


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
    v = np.random.default_rng(1).normal(size=G.shape[0]).astype(G.dtype)
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


def radial(repeats: int, small: bool) -> None:
    """Gaussians on all samples, five widths by `CriterionSearch`."""
    n, terms = (200, 50) if small else (4_000, 200)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = np.sin(X[:, 0] * X[:, 1]) + X[:, 2] + 0.1 * rng.normal(size=n)
    model = ForwardRegressor(RadialBasis(), rule="cost", criterion="tcr", max_terms=terms, patience=None)
    search = CriterionSearch(model, {"basis__width": [0.5, 1.0, 2.0, 4.0, 8.0]})
    timing = best_of(lambda: search.fit(X, y), 1)
    emit(benchmark="forward", case="radial", method="termwise cost", n=n, p=n, terms=terms, widths=5, **timing)


def growth(repeats: int, small: bool) -> None:
    """Time against n, p and k, one at a time, with the slope on logarithmic axes."""
    scale, repeats = (4 if small else 1), max(1, repeats // 2)
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


def regime_sizes(small: bool) -> dict[str, tuple[int, int, int]]:
    """Return samples, candidates and terms of each size of the regimes."""
    if small:
        return {"tall": (2_500, 100, 10), "square": (500, 500, 10), "medium": (500, 100, 10)}
    return {"tall": (50_000, 1_000, 50), "square": (5_000, 5_000, 20), "medium": (5_000, 1_000, 50)}


def regimes(names: list[str], sizes: list[str], repeats: int, small: bool) -> None:
    """Run every size in every regime, both types and rules, and the peers in float64."""
    for size, (n, p, terms) in regime_sizes(small).items():
        for regime in names if size in sizes else []:
            if regime != PRODUCTS:
                one_regime(size, regime, *draw(regime, n, p, terms), terms, repeats if size == "tall" else 2 * repeats)
    if PRODUCTS in names:
        table = products()
        if table is None:
            emit(benchmark="forward", case="regimes", regime=PRODUCTS, skipped="the folder of the data is not set")
        else:
            one_regime(TABLE, PRODUCTS, *table, TABLE_TERMS, 2 * repeats)


def one_regime(size: str, regime: str, G: np.ndarray, y: np.ndarray, terms: int, repeats: int) -> None:
    n, p = G.shape
    common = {"benchmark": "forward", "case": "regimes", "size": size, "regime": regime, "n": n, "p": p, "terms": terms}
    best: dict[str, float] = {}
    choices: dict[str, list[int]] = {}
    for dtype in ("float32", "float64"):
        G, y = G.astype(dtype, copy=False), y.astype(dtype, copy=False)
        for rule in ("loo", "cost"):
            run = partial(forward_path, G, y, rule=rule, max_terms=terms)
            path = run()
            timing, one = best_of(run, repeats), bare_pass(G, repeats)
            best[rule] = timing["seconds"]
            same = {"same_as_float32": choices[rule] == path.terms.tolist()} if rule in choices else {}
            choices[rule] = path.terms.tolist()
            emit(**common, dtype=dtype, method=f"termwise {rule}", **timing, taken=len(path.terms),
                 bare_pass=round(one, 6), passes=round(timing["seconds"] / one / len(path.terms), 2),
                 verified=round(float(path.column("verified")[1:].mean()), 1), **same)  # fmt: skip
    for peer, estimator in peers(G, terms).items():
        run_peer = partial(estimator.fit, G, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of dependent columns, after which some end early
            timing = best_of(run_peer, 1 if size == "tall" and peer in SLOW else max(1, repeats // 2))
        ratios = {f"times_{rule}": round(timing["seconds"] / seconds, 2) for rule, seconds in best.items()}
        emit(**common, dtype="float64", method=peer, **timing, taken=number_taken(estimator), **ratios)
    gc.collect()


def number_taken(estimator: Any) -> int:
    """Return the number of terms a fitted peer has selected."""
    return len(estimator.indices_) if hasattr(estimator, "indices_") else int(np.count_nonzero(estimator.coef_))


def tall(repeats: int, small: bool) -> None:
    scale, terms = (20, 25) if small else (1, 50)
    for label, signal in (("signal", 50), ("noise", 0)):
        G, y = data(50_000 // scale, 1_000 // scale, min(signal, 1_000 // scale // 2))
        ours("tall", G, y, terms, repeats, "loo", label)
    compare("tall", 50_000 // scale, 1_000 // scale, terms, repeats, ["sse", "cost"], SLOW)


def square(repeats: int, small: bool) -> None:
    size = 250 if small else 5_000
    compare("square", size, size, 20, repeats, ["loo", "cost"])


def medium(repeats: int, small: bool) -> None:
    n, p, terms = (250, 50, 25) if small else (5_000, 1_000, 50)
    compare("medium", n, p, terms, repeats, ["sse", "cost"])


def sparse(repeats: int, small: bool) -> None:
    n, p = (10_000, 1_000) if small else (200_000, 20_000)
    G, y = data(n, p, 20, density=0.005)
    ours("sparse", G, y, 20, max(1, repeats // 2), "loo", "signal")


def everyday(repeats: int, small: bool) -> None:
    """A fit that also selects the number of terms, beside refits in every fold for every candidate."""
    G, y = data(1_000, 100, 5)
    timing = best_of(lambda: ForwardRegressor().fit(G, y), 4 * repeats)
    emit(benchmark="forward", case="everyday", method="ForwardRegressor()", n=1_000, p=100, **timing)
    slow_peer = SequentialFeatureSelector(LinearRegression(), n_features_to_select=5, cv=5)
    theirs = best_of(partial(slow_peer.fit, G, y), 1)
    emit(benchmark="forward", case="everyday", method="scikit-learn SequentialFeatureSelector", n=1_000, p=100, terms=5,
         **theirs, times_everyday=round(theirs["seconds"] / timing["seconds"], 1))  # fmt: skip


CASES: dict[str, Callable[[int, bool], None]] = {
    "tall": tall,
    "square": square,
    "medium": medium,
    "sparse": sparse,
    "radial": radial,
    "everyday": everyday,
    "growth": growth,
}


def main() -> None:
    options = arguments(__doc__, CASES, SIZES).parse_args()
    emit(benchmark="forward", **machine())
    for name in options.cases:
        if name == "regimes":
            regimes(options.regimes, options.sizes, max(1, options.repeats // 2), options.small)
        else:
            CASES[name](options.repeats, options.small)


if __name__ == "__main__":
    main()
