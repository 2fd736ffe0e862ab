"""Load: threads that fit and predict at once, a million single rows, a thousand fits, many columns and many classes.

    python tests/reliability/load.py [--rows 1000000 --fits 1000]

Prints one line per test; the exit status is one if results differ, memory grows or exceeds its limit. `--record` writes
the figures to the committed results. Peak memory is measured in processes of their own.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from results import write_record

from termwise import BasisRidge, ForwardRegressor, RadialBasis, TermwiseRegressor

GROWTH_MIB = 8.0  # of the resident memory of a loop, which an allocator may take for itself
WIDE_MIB, CLASSES_MIB = 1907.0, 1907.0  # limits of peak memory, 2 GB


def resident_mib() -> float:
    """Memory of this process."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def make_problem() -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets of a small problem."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    return X, X[:, 0] + 0.3 * rng.normal(size=100)


def run_threads(predicting: int = 16, fitting: int = 8, rounds: int = 5) -> dict[str, Any]:
    """Predict and fit in many threads at once, and compare with the results of one."""
    X, y = make_problem()
    fits: list[Callable[[], Any]] = [
        lambda: ForwardRegressor(RadialBasis()),
        lambda: BasisRidge(),
        lambda: TermwiseRegressor(dictionary="linear"),
    ]
    known = [make().fit(X, y) for make in fits]
    expected, different = [model.predict(X).tobytes() for model in known], []

    def predict(i: int) -> None:
        for _ in range(20 * rounds):
            if known[i % 3].predict(X).tobytes() != expected[i % 3]:
                different.append(f"prediction {i}")

    def fit(i: int) -> None:
        for _ in range(rounds):
            if fits[i % 3]().fit(X, y).predict(X).tobytes() != expected[i % 3]:
                different.append(f"fit {i}")

    threads = [threading.Thread(target=predict, args=(i,)) for i in range(predicting)]
    threads += [threading.Thread(target=fit, args=(i,)) for i in range(fitting)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    what = f"{predicting} threads predict while {fitting} fit, compared to the bit with one thread"
    return {"load": what, "result": f"{len(different)} results differ", "good": not different}


def run_rows(count: int) -> dict[str, Any]:
    """Predict single rows, and measure by how much memory grows after the first tenth."""
    X, y = make_problem()
    model = ForwardRegressor().fit(X, y).predictor_
    rows, start = X.tolist(), 0.0
    for i in range(count):
        model.predict_one(rows[i % len(rows)])
        if i == count // 10:
            start = resident_mib()
    growth = resident_mib() - start
    return {"load": f"{count:,} predictions of single rows", **growth_figures(growth)}


def run_fits(count: int) -> dict[str, Any]:
    """Fit in a loop, and measure by how much memory grows after the first tenth."""
    X, y = make_problem()
    start = 0.0
    for i in range(count):
        ForwardRegressor(RadialBasis(width=2.0)).fit(X, y).predict(X, return_std=True)
        if i == count // 10:
            start = resident_mib()
    growth = resident_mib() - start
    return {"load": f"{count:,} fits in a loop", **growth_figures(growth)}


def growth_figures(growth: float) -> dict[str, Any]:
    """Return what to record of the growth of memory."""
    return {"result": f"memory grows by {max(growth, 0.0):.1f} MiB", "good": growth < GROWTH_MIB}


LARGE = """
import json, resource, time, warnings
import numpy as np
from termwise import ForwardClassifier, ForwardRegressor, PrefilterClassifier, TermwiseClassifier
warnings.simplefilter("ignore")
n, d, q = {n}, {d}, {q}
rng = np.random.default_rng(0)
X = rng.normal(size=(n, d))
y = X[:, :3].sum(axis=1) + rng.normal(size=n)
if q:
    y = np.argmax(X @ rng.normal(size=(d, q)) + rng.normal(size=(n, q)), axis=1)
{model}.fit(X, y)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({{"peak_mib": round(peak), "seconds": round(time.process_time())}}))
"""


def run_large(model: str, n: int, d: int, q: int, limit_mib: float, seconds: float) -> dict[str, Any]:
    """Fit a large problem in a process of its own, and compare its peak memory with a limit."""
    code = LARGE.format(n=n, d=d, q=q, model=model)
    what = f"{model}, {n:,} x {d:,}" + (f", {q} classes" if q else "")
    try:
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"load": what, "result": f"not finished after {seconds:g} s", "good": False}
    if found.returncode:
        lines = found.stderr.strip().splitlines() or [f"exit status {found.returncode}"]
        return {"load": what, "result": lines[-1], "good": False}
    figures = json.loads(found.stdout)
    result = f"peak memory {figures['peak_mib']:,} MiB, {figures['seconds']} s of processor time"
    return {"load": what, "result": result, "good": figures["peak_mib"] < limit_mib}


def main() -> int:
    """Run the tests and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="single rows to predict")
    parser.add_argument("--fits", type=int, default=1000, help="fits in a loop")
    parser.add_argument("--seconds", type=float, default=3600.0, help="limit of each large fit")
    parser.add_argument("--tests", nargs="*", help="names of tests; default: all")
    parser.add_argument("--record", action="store_true", help="write the figures to the committed results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    large: list[tuple[str, int, int, int, float]] = [
        ("ForwardRegressor()", 5000, 20_000, 0, WIDE_MIB),
        ("ForwardClassifier()", 10_000, 20, 200, CLASSES_MIB),
        ("PrefilterClassifier()", 4000, 20, 200, CLASSES_MIB),
        ("PrefilterClassifier()", 10_000, 20, 200, CLASSES_MIB),
        ("TermwiseClassifier()", 4000, 20, 200, CLASSES_MIB),
        ("TermwiseClassifier()", 10_000, 20, 200, CLASSES_MIB),
    ]
    tests: dict[str, Callable[[], dict[str, Any]]] = {
        "threads": run_threads,
        "single rows": lambda: run_rows(options.rows),
        "fits": lambda: run_fits(options.fits),
    }
    for model, n, d, q, limit in large:
        name = f"memory of {model} {n} x {d}" + (f", {q} classes" if q else "")
        tests[name] = lambda case=(model, n, d, q, limit): run_large(*case, options.seconds)
    bad = 0
    for name in options.tests or tests:
        start = time.perf_counter()
        figures = tests[name]()
        bad += not figures["good"]
        print(f"{name}: {figures}, {time.perf_counter() - start:.0f} s", flush=True)
        if options.record:
            write_record(f"load: {name}", **figures)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
