"""`forward_path` on files larger than the memory it may use.

The rows are made here, written to a file and deleted afterwards. Every case runs in a process of its own whose address
space is limited; `ratio` is its time over that of reading as many bytes, at the speed that the same reader reached
right before, without doing anything with them.

The case `regimes` has independent and correlated columns (`_regimes`) and counts the passes over the file that a term
takes, with a memory budget of an eighth and of half of its size.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _regimes import CORRELATIONS, draw
from _timing import emit, machine

from termwise import forward_path, memory_budget, open_rows

SIGNAL = 20  # columns the target depends on
CASES = ("npy", "parquet", "regimes")
BUDGETS = (0.125, 0.5)  # of the size of the file


def blocks(rows: int, columns: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of noise and their targets."""
    rng = np.random.Generator(np.random.SFC64(0))
    places = rng.permutation(columns)[:SIGNAL]
    weights = rng.uniform(0.5, 2, size=len(places)) * rng.choice([-1, 1], size=len(places))
    step = 1 + (1 << 26) // (8 * columns)
    for start in range(0, rows, step):
        G = rng.standard_normal((min(step, rows - start), columns))
        yield G, G[:, places] @ weights + 3 * rng.standard_normal(len(G))


def write_npy(path: Path, rows: int, columns: int) -> None:
    header = {"descr": "<f8", "fortran_order": False, "shape": (rows, columns)}
    targets = []
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for G, y in blocks(rows, columns):
            G.tofile(file)
            targets.append(y)
    np.save(path.with_name("y.npy"), np.concatenate(targets))


def write_parquet(path: Path, rows: int, columns: int) -> None:
    import pyarrow
    import pyarrow.parquet

    names = [f"x{j}" for j in range(columns)]
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in names])
    targets = []
    with pyarrow.parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as file:
        for G, y in blocks(rows, columns):
            file.write_table(pyarrow.table(list(np.ascontiguousarray(G.T)), schema=schema))
            targets.append(y)
    np.save(path.with_name("y.npy"), np.concatenate(targets))


def child(path: Path, rule: str, terms: int, precompute: str) -> None:
    """Measure one case in this process."""
    data, y = open_rows(path), np.load(path.with_name("y.npy"))
    started = time.perf_counter()
    for _ in data.blocks():
        pass
    reading = time.perf_counter() - started
    data.passes = 0
    path_options: dict[str, Any] = {"rule": rule, "max_terms": terms, "precompute": precompute == "yes"}
    started = time.perf_counter()
    found = forward_path(data, y, **path_options)
    seconds = time.perf_counter() - started
    size = data.nbytes
    print(json.dumps({
        "seconds": round(seconds, 2), "passes": data.passes, "reading_gb_s": round(size / reading / 1e9, 3),
        "ratio": round(seconds / (data.passes * reading), 3),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3),
        "verified": round(float(found.column("verified")[1:].mean()), 1), "bic": found.choose("bic"),
        "loo": found.choose("loo"),
    }))  # fmt: skip


def limit(nbytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (nbytes, nbytes))


def measure(path: Path, shape: tuple[int, int], limit_gb: float, terms: int) -> None:
    for name, rule in (("bic", "cost"), ("loo", "loo")):
        for precompute in ("no", "yes"):
            command = [sys.executable, __file__, "--child", str(path), rule, str(terms), precompute]
            done = subprocess.run(
                command, preexec_fn=lambda: limit(int(limit_gb * 2**30)), stdout=subprocess.PIPE, text=True, check=True
            )
            emit(benchmark="out_of_core", case=path.suffix[1:], method=f"termwise {rule}", criterion=name, n=shape[0],
                 p=shape[1], terms=terms, gram=precompute == "yes", file_gb=round(path.stat().st_size / 1e9, 2),
                 limit_gb=limit_gb, **json.loads(done.stdout))  # fmt: skip


def count_passes(folder: Path, n: int, p: int, terms: int) -> None:
    """Count the passes over a file of columns of every structure."""
    path = folder / "rows.npy"
    for regime in CORRELATIONS:
        G, y = draw(regime, n, p, terms)
        np.save(path, G.astype(np.float64))
        for rule in ("loo", "cost"):
            for share in BUDGETS:
                data = open_rows(path)
                with memory_budget(share * 8 * n * p):
                    started = time.perf_counter()
                    found = forward_path(data, y.astype(np.float64), rule=rule, max_terms=terms)
                    seconds = time.perf_counter() - started
                emit(benchmark="out_of_core", case="regimes", regime=regime, method=f"termwise {rule}", n=n, p=p,
                     terms=len(found), budget=share, passes=data.passes, passes_per_term=data.passes / len(found),
                     seconds=round(seconds, 2))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1, help="has no effect: each case runs once")
    parser.add_argument("--small", action="store_true", help="sizes for a quick look")
    parser.add_argument("--gigabytes", type=float, default=30, help="size of the file")
    parser.add_argument("--limit", type=float, default=4, help="GiB of address space for every case")
    parser.add_argument("--folder", default=".", help="where the file is written, and deleted")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES, metavar="CASE")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        path, rule, terms, precompute = options.child
        child(Path(path), rule, int(terms), precompute)
        return
    emit(benchmark="out_of_core", **machine())
    free = shutil.disk_usage(options.folder).free / 1e9
    gigabytes = 0.02 if options.small else min(options.gigabytes, free / 2)
    columns = 50 if options.small else 1000
    for suffix, write, size in ((".npy", write_npy, gigabytes), (".parquet", write_parquet, min(2.0, gigabytes))):
        if suffix[1:] not in options.cases:
            continue
        rows = int(size * 1e9 / 8 / columns)
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            path = Path(folder) / f"rows{suffix}"
            write(path, rows, columns)
            measure(path, (rows, columns), options.limit, 20)
    if "regimes" in options.cases:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            count_passes(Path(folder), *((2_000, 500, 20) if options.small else (20_000, 5_000, 50)))


if __name__ == "__main__":
    main()
