"""Random problems for every estimator: a documented error, or finite results that satisfy the invariants.

    python tests/reliability/fuzz.py --seconds 60 --start 0

Case number s is drawn with the seed s, so that a run resumes with `--start` at the number after the last one printed,
or with `--resume` after those that are recorded, and `--start s --cases 1` repeats a failure. Failures are printed with
their seed, model and problem; the exit status is one if there were any. Not part of the tests: `make fuzz`.
"""

from __future__ import annotations

import argparse
import collections
import shutil
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from invariants import ALWAYS, OF_PLAIN_DATA, SOMETIMES, scores
from problems import FOLDER, Problem, draw_problem
from results import read_records, write_record

import termwise

SLOWEST = 120  # seconds a case may take
OWN, SCIKIT_LEARN = (str(Path(package.__file__).parent) for package in (termwise, sklearn))
COUNTS = ("cases", "fitted", "refused", "failed", "checks")


def violations(problem: Problem, seed: int) -> tuple[list[str], int]:
    """Fit the model; return what is wrong with it, and the number of checks. Documented errors are raised."""
    model = problem.model.fit(problem.X, problem.y, sample_weight=problem.weights)
    expected, rng = scores(model, problem.X), np.random.default_rng([seed, 1])
    checks = [*ALWAYS, SOMETIMES[rng.integers(len(SOMETIMES))]]
    if problem.is_plain:
        checks.append(OF_PLAIN_DATA[rng.integers(len(OF_PLAIN_DATA))])
    return [wrong for check in checks for wrong in check(problem, model, expected)], len(checks)


def is_documented(error: Exception) -> bool:
    """Whether an error is a sentence raised by validation: here, or by scikit-learn's checks."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    own = last.filename.startswith(OWN) and any(word in str(error) for word in ("must", "requires"))
    return isinstance(error, ValueError | TypeError) and (own or last.filename.startswith(SCIKIT_LEARN))


def run_case(seed: int) -> tuple[str, str, str, int]:
    """Return the outcome of a case ("fitted", "refused" or "failed"), what went wrong, its description, its checks."""
    problem, checks = draw_problem(seed), 0
    case = str(problem)
    signal.alarm(SLOWEST)
    try:
        wrong, checks = violations(problem, seed)
    except Exception as error:
        if is_documented(error):
            return "refused", "", case, 0
        last = traceback.extract_tb(error.__traceback__)[-1]
        wrong = [f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"]
    finally:
        signal.alarm(0)
    return ("failed" if wrong else "fitted"), "; ".join(wrong), case, checks


def stop_slow_case(*_: Any) -> None:
    raise RuntimeError(f"took more than {SLOWEST} s")


def run_cases(start: int, count: int, seconds: float) -> collections.Counter[str]:
    """Run cases until the time is over, and print failures."""
    counts: collections.Counter[str] = collections.Counter(dict.fromkeys(COUNTS, 0))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and counts["cases"] < count:
        seed = start + counts["cases"]
        outcome, wrong, case, checks = run_case(seed)
        counts.update({"cases": 1, outcome: 1, "checks": checks})
        if wrong:
            print(f"seed {seed}: {wrong}\n    {case}", flush=True)
    return counts


def main() -> int:
    """Run cases and print their counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=0, help="seed of the first case")
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="how many at most")
    parser.add_argument("--seconds", type=float, default=60.0, help="start no case after this time")
    parser.add_argument("--record", action="store_true", help="write the counts to the committed results")
    parser.add_argument("--resume", action="store_true", help="start after the recorded cases, and add to their counts")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, stop_slow_case)
    before = read_records().get("fuzz", {}) if options.resume else {}
    start = before.get("next_seed", options.start)
    counts = run_cases(start, options.cases, options.seconds)
    shutil.rmtree(FOLDER, ignore_errors=True)
    summary = ", ".join(f"{counts[name]} {name}" for name in COUNTS)
    print(f"seeds {start} to {start + counts['cases'] - 1}: {summary}; the next is --start {start + counts['cases']}")
    if options.record or options.resume:
        totals = {name: counts[name] + before.get(name, 0) for name in COUNTS}
        write_record("fuzz", **totals, first_seed=before.get("first_seed", start), next_seed=start + counts["cases"])
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
