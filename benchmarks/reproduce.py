"""Run studies of `termwise reproduce`: the tables and figures of the papers, and comparisons with other methods.

A study is a module `reproduce_NAME.py` with `TITLE`, `jobs(quick, repeats)`, `run(job)`, `cells(records)` and
`figures(records)`. Finished jobs are appended to `OUT/NAME.jsonl`, so that a run that was stopped continues where it
was; jobs that failed are run again next time, after those that have not been tried. Written afterwards, and when the
run is interrupted: `OUT/NAME.csv`, one row per cell of a table, `OUT/NAME_FIGURE.svg`, `OUT/NAME.json` with machine,
versions and date, and `OUT/index.html`.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import time
import traceback
import warnings
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from _reproduce import FIELDS, Record
from _reproduce_page import write_page
from _timing import machine
from tqdm import tqdm  # type: ignore[import-untyped]

import termwise

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def study_names() -> list[str]:
    """Return the names of all studies."""
    return sorted(path.stem.removeprefix("reproduce_") for path in Path(__file__).parent.glob("reproduce_*.py"))


def job_key(job: Record) -> str:
    """Return what identifies a job in the file of its study."""
    return json.dumps(job, sort_keys=True)


def read_records(path: Path) -> dict[str, Record]:
    """Return the last record of each job; a line that was not written to its end is ignored."""
    records = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
            records[job_key(record["job"])] = record
        except (ValueError, KeyError, TypeError):
            continue
    return records


def perform(name: str, job: Record) -> Record:
    """Run a job; return its record, with the message of an error instead of a result."""
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = {"result": importlib.import_module(f"reproduce_{name}").run(job)}
            json.dumps(outcome, allow_nan=False)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        outcome = {"failed": f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"}
    return {"job": job, **outcome, "seconds": round(time.perf_counter() - start, 3)}


def run_jobs(name: str, jobs: list[Record], path: Path, workers: int) -> None:
    """Run the jobs that are not finished and append each record when it is there."""
    known = read_records(path)
    pending = [job for job in jobs if "result" not in known.get(job_key(job), {})]
    pending.sort(key=lambda job: job_key(job) in known)
    with (
        path.open("a", encoding="utf-8") as file,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
        tqdm(total=len(jobs), initial=len(jobs) - len(pending), desc=name, unit="job") as bar,
    ):
        if path.stat().st_size and not path.read_bytes().endswith(b"\n"):
            file.write("\n")
        futures = {pool.submit(perform, name, job): job for job in pending}
        try:
            for future in as_completed(futures):
                file.write(json.dumps(record_of(future, futures[future])) + "\n")
                file.flush()
                bar.update()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # where it was interrupted


def record_of(future: Future[Record], job: Record) -> Record:
    """Return the record of a job that has ended, also where its process was killed, for lack of memory perhaps."""
    try:
        return future.result()
    except Exception as error:
        return {"job": job, "failed": f"{type(error).__name__}: {error}"}


def finished(jobs: list[Record], path: Path) -> tuple[list[Record], list[Record]]:
    """Return job and result of the finished ones among the jobs, and the records of those that failed."""
    known = read_records(path)
    records = [known[key] for key in map(job_key, jobs) if key in known]
    done = [record["job"] | record["result"] for record in records if "result" in record]
    return done, [record for record in records if "failed" in record]


def write_cells(path: Path, cells: Iterable[Record]) -> None:
    """Write the CSV file; floats with six significant digits, None as an empty field."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for cell in cells:
            writer.writerow({key: f"{x:.6g}" if isinstance(x, float) else x for key, x in cell.items()})


def write_figures(name: str, study: Any, records: list[Record], out: Path) -> None:
    """Write the figures as SVG files, the same bytes for the same records."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    for old in out.glob(f"{name}_*.svg"):
        old.unlink()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        for title, figure in study.figures(records):
            figure.savefig(out / f"{name}_{title}.svg", metadata={"Date": None}, bbox_inches="tight")
            plt.close(figure)


def reproduce(name: str, quick: bool, repeats: int | None, out: Path, workers: int) -> list[Record]:
    """Run a study and write its files, also where it is interrupted; return the records of jobs that failed."""
    study = importlib.import_module(f"reproduce_{name}")
    jobs = list(study.jobs(quick, repeats))
    try:
        run_jobs(name, jobs, out / f"{name}.jsonl", workers)
    finally:
        records, failures = finished(jobs, out / f"{name}.jsonl")
        write_cells(out / f"{name}.csv", study.cells(records))
        write_figures(name, study, records, out)
        about = {
            "title": study.TITLE,
            **machine(),
            "termwise": termwise.__version__,
            "date": date.today().isoformat(),
            "quick": quick,
            "jobs": len(jobs),
            "finished": len(records),
            "failed": len(failures),
        }
        (out / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        write_page(out)
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*study_names(), "all"], help="which study")
    parser.add_argument("--quick", action="store_true", help="fewer repeats of the smaller problems")
    parser.add_argument("--repeats", type=int, help="random repeats; default: the study's own")
    parser.add_argument("--out", type=Path, default=Path("reproduced"), help="folder of the results")
    parser.add_argument("--jobs", type=int, default=1, help="processes; -1: one per core")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    workers = options.jobs if options.jobs > 0 else os.cpu_count() or 1
    os.environ.update(dict.fromkeys(THREADS, "1"))  # of the worker processes
    failures = []
    try:
        for name in study_names() if options.name == "all" else [options.name]:
            failures += reproduce(name, options.quick, options.repeats, options.out, workers)
    except KeyboardInterrupt:
        print("interrupted; the same command continues where it was")
        raise SystemExit(130) from None
    for failure in failures:
        print(f"failed: {json.dumps(failure['job'])}: {failure['failed']}")
    print(f"{options.out / 'index.html'} written; {len(failures)} jobs failed.")
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
