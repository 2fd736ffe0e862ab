"""Forward selection on a Dask cluster of this machine against the same in one process.

Single-threaded workers, as many as are asked for, share the cores there are, with the scheduler and the driver: more
workers than cores cannot be faster. `load` says how many processes wanted the cores at the end of a part: others may
have been at work. Rows are made on the workers. `overhead` is what a term costs beyond the local run on one thread;
`driver_mib` the peak memory of the driver's process, which holds the scheduler too, `local_mib` that of a local run.
`--chart FILE` draws the records of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from _timing import best_of, emit, machine
from threadpoolctl import threadpool_limits

from termwise import forward_path

RECORDS: list[dict[str, Any]] = []
SIGNAL = 10  # columns that the target depends on
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"  # told apart by everybody


def report(**record: Any) -> None:
    RECORDS.append(record)
    emit(benchmark="dask_scaling", **record)


def chunk(number: int, n: int, p: int) -> np.ndarray:
    """Some rows, the target in the last column."""
    rng = np.random.default_rng(number)
    G = rng.normal(size=(n, p + 1))
    G[:, p] += G[:, :SIGNAL] @ np.linspace(0.5, 2, SIGNAL)
    return G


def far(n: int, p: int, count: int) -> tuple[Any, Any]:
    """Rows on the workers."""
    import dask.array as da
    from dask.delayed import delayed
    from distributed import wait

    parts = [da.from_delayed(delayed(chunk)(i, n // count, p), (n // count, p + 1), float) for i in range(count)]
    whole = da.concatenate(parts).persist()
    G, y = whole[:, :p].persist(), whole[:, p].persist()
    wait([G, y])
    return G, y


def near(n: int, p: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The same rows here."""
    whole = np.concatenate([chunk(i, n // count, p) for i in range(count)])
    return np.ascontiguousarray(whole[:, :p]), whole[:, p].copy()


@contextmanager
def workers(count: int) -> Iterator[None]:
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
        yield


def compare(case: str, n: int, p: int, terms: int, rule: str, count: int, chunks: int, repeats: int) -> None:
    """One fit on the cluster in use, and the same here on one thread."""
    run = partial(forward_path, *far(n, p, chunks), rule=rule, max_terms=terms)
    path = run()
    timing = best_of(run, repeats)
    local_run = partial(forward_path, *near(n, p, chunks), rule=rule, max_terms=terms)
    with threadpool_limits(1):
        local, known = best_of(local_run, repeats), local_run()
    difference = np.abs(path.coef(terms)[0] - known.coef(terms)[0]).max()
    report(
        case=case, rule=rule, n=n, p=p, terms=terms, workers=count, chunks=chunks, **timing,
        local_seconds=local["seconds"], overhead=round((timing["seconds"] - local["seconds"]) / terms, 4),
        load=round(os.getloadavg()[0], 1),
        same_terms=path.terms.tolist() == known.terms.tolist(), coef_difference=float(f"{difference:.2g}"),
    )  # fmt: skip


def peak_memory(where: str, n: int, p: int) -> None:
    """Run in a process of its own: print its peak memory in MiB."""
    if where == "local":
        forward_path(*near(n, p, 8), rule="cost", max_terms=10)
    else:
        with workers(2):
            forward_path(*far(n, p, 8), rule="cost", max_terms=10)
    print(json.dumps(own_peak()))


def own_peak() -> float:
    """Peak memory of this process in MiB; Linux's own count, for that of `getrusage` is handed down by the parent."""
    try:
        with open("/proc/self/status", encoding="utf-8") as lines:
            return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def memory(sizes: list[int], p: int) -> None:
    for n in sizes:
        found = {}
        for where in ("driver", "local"):
            command = [sys.executable, __file__, "--peak", where, str(n), str(p)]
            found[where] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        report(case="memory", n=n, p=p, data_mib=round(8 * n * p / 2**20, 1),
               driver_mib=round(found["driver"], 1), local_mib=round(found["local"], 1))  # fmt: skip


def draw(file: str) -> None:
    """Draw what was measured."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for axis, along in ((axes[0], "workers"), (axes[1], "chunks")):
        for rule, colour, marker in (("cost", BLUE, "o"), ("loo", ORANGE, "s")):
            rows = [r for r in RECORDS if r["case"] == along and r["rule"] == rule]
            x = [r[along] for r in rows]
            axis.plot(x, [1e3 * r["seconds"] / r["terms"] for r in rows], marker + "-", color=colour, label=rule)
            local = min(r["local_seconds"] for r in RECORDS if r.get("rule") == rule and r["n"] == rows[0]["n"])
            axis.axhline(1e3 * local / rows[0]["terms"], linestyle=":", color=colour, label=f"{rule}, one process")
        axis.set(xlabel=f"number of {along}", ylabel="milliseconds per term", xscale="log", ylim=(0, None))
        axis.set_xticks(x, [str(v) for v in x])
        axis.minorticks_off()
    rows = [r for r in RECORDS if r["case"] == "memory"]
    for name, colour, marker, label in (
        ("driver_mib", BLUE, "o-", "driver of the cluster"),
        ("local_mib", ORANGE, "s-", "one process"),
        ("data_mib", GREEN, "^:", "the data"),
    ):
        axes[2].plot([r["n"] for r in rows], [r[name] for r in rows], marker, color=colour, label=label)
    axes[2].set(xlabel="rows", ylabel="peak memory, MiB", xscale="log", ylim=(0, None))
    axes[2].set_xticks([r["n"] for r in rows], [f"{r['n']:,}" for r in rows])
    axes[2].minorticks_off()
    axes[2].legend(frameon=False, fontsize=8)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=4, frameon=False, fontsize=8)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="how often to run each; the best counts")
    parser.add_argument("--small", action="store_true", help="sizes for a quick look")
    parser.add_argument("--chart", metavar="FILE", help="draw the records")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak_memory(options.peak[0], int(options.peak[1]), int(options.peak[2]))
        return
    if find_spec("distributed") is None:
        report(skipped="Dask is not installed: pip install 'termwise[dask]'")
        return
    scale = 20 if options.small else 1
    n, p, terms = 200_000 // scale, 200, 20
    emit(
        benchmark="dask_scaling",
        **machine(),
        dask=version("dask"),
        note="workers, scheduler and driver share the cores",
    )
    for count in (2, 4):
        with workers(count):
            for rule in ("cost", "loo"):
                compare("workers", n, p, terms, rule, count, 8, options.repeats)
    with workers(2):
        for rule in ("cost", "loo"):
            compare("trips", 2_000, 40, terms, rule, 2, 2, options.repeats)  # nothing to compute: what a term costs
            for chunks in (2, 8, 32):
                compare("chunks", n, p, terms, rule, 2, chunks, options.repeats)
    memory([size // scale for size in (50_000, 200_000, 800_000)], 100)
    if options.chart:
        draw(options.chart)


if __name__ == "__main__":
    main()
