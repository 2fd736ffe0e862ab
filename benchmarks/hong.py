"""Hong, Chen and Harris (2013), Tables I to VIII: test error and size of `PrefilterClassifier()`, nothing tuned.

100 splits of eight two-class sets, as many of them the published ones as could be had; each split on one thread. Then
the exact search of stage one against the particle swarm on the basis that the fit has chosen: the rates they reach and
the time they take. Needs the data sets: set TERMWISE_DATA to their folder.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import numpy as np
from _timing import emit, machine
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from termwise import PrefilterClassifier, datasets

# error in percent with its standard deviation, and number of terms, of the paper's proposed algorithm
PAPER = {
    "banana": (10.7, 0.5, 28.7),
    "breast-cancer": (25.0, 4.2, 26.4),
    "diabetis": (23.3, 1.7, 7.7),
    "german": (24.3, 2.2, 12.8),
    "heart": (15.9, 3.0, 8.8),
    "flare-solar": (33.26, 1.7, 6.7),
    "titanic": (22.3, 1.0, 11.1),
    "waveform": (9.8, 0.4, 34.1),
}
HALF_POINT = 0.5


def one_split(name: str, split: int) -> dict[str, float]:
    """Fit the defaults; test error in percent, terms, leave-one-out rates and seconds."""
    data = datasets.load(name)
    train, test = data.train[split], data.test[split]
    with threadpool_limits(1):
        start = time.perf_counter()
        model = PrefilterClassifier().fit(data.data[train], data.target[train])
        seconds = time.perf_counter() - start
        error = 100 * float(np.mean(model.predict(data.data[test]) != data.target[test]))
    return {
        "error": error,
        "terms": model.n_terms_,
        "loo_rate": 100 * model.loo_error_rate_,
        "final_rate": 100 * model.final_error_rate_,
        "violations": 100 * model.sign_violations_,
        "published": data.realisation[split] >= 0,
        "seconds": seconds,
    }


def one_race(name: str, split: int) -> tuple[float, float, float, float]:
    """Leave-one-out rate and seconds of the exact search, then of the swarm, on the basis the defaults choose."""
    data = datasets.load(name)
    X, y = data.data[data.train[split]], data.target[data.train[split]]
    with threadpool_limits(1):
        model = PrefilterClassifier().fit(X, y)
        (stage,) = model._filter(model.basis_.transform(X), y[:, None], np.ones(len(y))).filters
        outcome = []
        for search in (stage.best, partial(model.set_params(search="pso", random_state=split)._penalties, stage)):
            stage._trust.clear()
            start = time.perf_counter()
            found = search()
            seconds = time.perf_counter() - start
            outcome += [stage.rate(found[0] if isinstance(found, tuple) else found.t), seconds]
    return tuple(outcome)


def table(name: str, splits: int, jobs: Parallel) -> float:
    """Report one of the paper's tables; return how long it took."""
    start = time.perf_counter()
    results = jobs(delayed(one_split)(name, split) for split in range(splits))
    wall = time.perf_counter() - start
    mean = {key: round(float(np.mean([r[key] for r in results])), 2) for key in results[0]}
    sd = {key: round(float(np.std([r[key] for r in results])), 2) for key in ("error", "terms")}
    published = [r["error"] for r in results if r["published"]]
    error, spread, size = PAPER[name]
    emit(
        benchmark="hong",
        set=name,
        splits=splits,
        published=len(published),
        error=mean["error"],
        error_sd=sd["error"],
        error_published=round(float(np.mean(published)), 2) if published else None,
        terms=mean["terms"],
        terms_sd=sd["terms"],
        paper={"error": [error, spread], "terms": size},
        within_sd=bool(mean["error"] <= error + spread),
        within_half_point=bool(mean["error"] <= error + HALF_POINT),
        not_larger=bool(mean["terms"] <= size),
        loo_rate=mean["loo_rate"],
        final_rate=mean["final_rate"],
        violations=mean["violations"],
        seconds_per_fit=round(mean["seconds"], 3),
        seconds=round(wall, 1),
    )
    return wall


def race(name: str, splits: int, jobs: Parallel) -> None:
    """Report the exact search against the swarm."""
    exact, fast, swarm, slow = np.array(jobs(delayed(one_race)(name, split) for split in range(splits))).T
    emit(
        benchmark="hong",
        set=name,
        part="search",
        splits=splits,
        exact_rate=round(100 * float(exact.mean()), 2),
        swarm_rate=round(100 * float(swarm.mean()), 2),
        exact_worse=int(np.sum(exact > swarm + 1e-12)),
        exact_better=int(np.sum(exact < swarm - 1e-12)),
        exact_seconds=round(float(np.median(fast)), 5),
        swarm_seconds=round(float(np.median(slow)), 5),
        ratio=round(float(np.median(slow / fast)), 1),
        ratio_least=round(float(np.min(slow / fast)), 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=100, help="number of splits, at most 100")
    parser.add_argument("--small", action="store_true", help="two splits of the small sets")
    parser.add_argument("--jobs", type=int, default=-1, help="splits at the same time; -1: one per core")
    options = parser.parse_args()
    emit(benchmark="hong", **machine())
    names, splits = (["heart", "titanic"], 2) if options.small else (list(PAPER), min(options.repeats, 100))
    jobs, seconds = Parallel(n_jobs=options.jobs), 0.0
    try:
        for name in names:
            seconds += table(name, splits, jobs)
        emit(benchmark="hong", part="total", fits=len(names) * splits, seconds=round(seconds, 1))
        for name in names:
            race(name, splits, jobs)
    except OSError as error:
        emit(benchmark="hong", skipped=str(error))


if __name__ == "__main__":
    main()
