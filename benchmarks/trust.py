"""Simulations behind the numbers that termwise reports about itself: error, intervals, probabilities, inference.

Each study is a module `trust_NAME.py` beside this one, with `cases(small)`: a list of independent jobs without
arguments, each at most about a minute of one core, which return a record or a list of records. A study may define
`summarise(records)`, which turns the records of all its jobs into those that are printed; without it, records of the
same settings are joined by `join`. Jobs run in parallel processes with one BLAS thread each; progress is printed to
stderr, results to stdout, one JSON object per line, as soon as a study is complete.

With `--raw FILE` the records of each job are appended to a file as it finishes, and jobs found there are not run again:
a run that was interrupted continues. A file of another version of a study must be removed first.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

FOLDER = Path(__file__).parent
sys.path[:0] = [] if str(FOLDER) in sys.path else [str(FOLDER)]  # for python -m benchmarks.trust

from _timing import emit, machine  # noqa: E402

Record = dict[str, Any]
SUMMED = ("draws", "hits", "count", "refused", "n_terms")  # numbers that add up over jobs
PER_JOB = ("seed", "first_seed", "seconds")  # numbers of a single job, which a joined record does not have
DIGITS = 5


def studies() -> list[str]:
    """Return the names of the studies."""
    return sorted(path.stem.removeprefix("trust_") for path in FOLDER.glob("trust_*.py"))


def join(records: Iterable[Record]) -> list[Record]:
    """Join records of the same settings, as from jobs with different seeds.

    A pair of numbers is a mean over draws with its standard error: pairs are averaged with the numbers of "draws" as
    weights. Fields named in `SUMMED` are added, those in `PER_JOB` left out. All other fields are settings.
    """
    cells: dict[str, list[Record]] = {}
    for record in records:
        settings = {key: value for key, value in record.items() if kind_of(key, value) == "setting"}
        cells.setdefault(json.dumps(settings), []).append(record)
    return [{key: join_field(key, cell) for key in cell[0] if key not in PER_JOB} for cell in cells.values()]


def kind_of(key: str, value: Any) -> str:
    """Return whether a field is a setting, summed, averaged or of a single job."""
    if key in SUMMED or key in PER_JOB:
        return "sum" if key in SUMMED else "job"
    pair = isinstance(value, list) and len(value) == 2 and all(isinstance(one, int | float) for one in value)
    return "pair" if pair or value is None else "setting"  # None: nothing to average in this job


def join_field(key: str, cell: list[Record]) -> Any:
    """Return the value of a field for all records of a cell."""
    kind = kind_of(key, cell[0][key])
    if kind == "setting":
        return cell[0][key]
    if kind == "sum":
        return sum(record[key] for record in cell)
    pairs = [(record.get("draws", 1), *record[key]) for record in cell if record[key] is not None]
    total = sum(draws for draws, _, _ in pairs)
    if not total:
        return None
    mean = sum(draws * mean for draws, mean, _ in pairs) / total
    error = math.sqrt(sum((draws * error) ** 2 for draws, _, error in pairs)) / total
    return [round(mean, DIGITS), round(error, DIGITS)]


def run_job(name: str, job: Callable[[], Record | list[Record]]) -> tuple[str, list[Record] | str, float]:
    """Run a job on one thread; return its name, its records or what went wrong, and its seconds."""
    start = time.perf_counter()
    try:
        with threadpool_limits(1):
            found = job()
    except Exception as error:  # the other jobs go on
        return name, f"{type(error).__name__}: {error}", time.perf_counter() - start
    return name, found if isinstance(found, list) else [found], time.perf_counter() - start


def read_raw(path: Path | None) -> dict[str, list[Record]]:
    """Return the records of jobs that have been run before."""
    if path is None or not path.is_file():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {line["job"]: line["records"] for line in lines}


def run_study(study: str, options: argparse.Namespace) -> int:
    """Run the jobs of a study and print its results; return the number of jobs that failed."""
    module = importlib.import_module(f"trust_{study}")
    small = "small " * options.small
    jobs = {f"{small}{study} {i}": job for i, job in enumerate(module.cases(options.small))}
    known = read_raw(options.raw)
    done = {name: known[name] for name in jobs if name in known}
    left, failed, start = [name for name in jobs if name not in done], 0, time.perf_counter()
    found = Parallel(options.jobs, return_as="generator_unordered")(delayed(run_job)(name, jobs[name]) for name in left)
    for i, (name, records, seconds) in enumerate(found, start=1):
        if isinstance(records, str):
            failed += 1
            print(f"{name} failed, {records}", file=sys.stderr)
            continue
        done[name] = records
        if options.raw is not None:
            with options.raw.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"job": name, "records": records}) + "\n")
        print(f"{study}: {i} of {len(left)} jobs, {time.perf_counter() - start:.0f} s; this one {seconds:.1f} s",
              file=sys.stderr)  # fmt: skip
    every = [record for name in jobs for record in done.get(name, [])]
    for record in getattr(module, "summarise", join)(every) if every else []:
        emit(benchmark="trust", **record)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=studies(), help="only these studies")
    parser.add_argument("--small", action="store_true", help="few draws of small problems")
    parser.add_argument("--jobs", type=int, default=-1, help="processes; -1: one per core")
    parser.add_argument("--raw", type=Path, metavar="FILE", help="keep the records of jobs here; do not run them again")
    parser.add_argument("--repeats", type=int, help="not used: the number of draws is part of each study")
    options = parser.parse_args()
    emit(benchmark="trust", **machine())
    failed = sum(run_study(study, options) for study in options.only or studies())
    if failed:
        sys.exit(f"{failed} jobs failed")


if __name__ == "__main__":
    main()
