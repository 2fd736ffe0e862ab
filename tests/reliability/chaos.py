"""Signals at random moments of commands that write files, full disks, and folders that vanish or are read-only.

    python tests/reliability/chaos.py --kills 50

Each round starts a command that replaces files and sends it SIGINT, SIGTERM or SIGKILL after a random time. Every file
must then be the old one or a new one, whole, and no process of the command may be left. Prints one line per round that
went wrong, and the counts; `--record` writes them to the committed results.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from results import write_record

from termwise import load_predictor

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
COMMAND = [sys.executable, "-m", "termwise"]
FILE_LIMIT = 1000  # bytes of a file, as on a disk that is almost full
PATIENCE = 1800  # seconds for a command


def prepare(folder: Path) -> float:
    """Write a table and the files of a first fit; return how long a command takes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    pd.DataFrame(X, columns=list("abc")).assign(y=X[:, 0] + 0.3 * rng.normal(size=120)).to_csv(folder / "t.csv")
    every, started = commands(folder), time.perf_counter()
    for command in every.values():
        subprocess.run([*COMMAND, *command], check=True, capture_output=True, timeout=PATIENCE)
    return (time.perf_counter() - started) / len(every)


def commands(folder: Path) -> dict[str, list[str]]:
    """Return commands that write files, the first of which makes the model that the others read."""
    table, model = str(folder / "t.csv"), str(folder / "m.json")
    fit = ["fit", table, "-t", "y", "--method", "forward", "-f"]
    return {
        "fit": [*fit, "-o", model],
        "fit --report": [*fit, "-o", str(folder / "n.json"), "--report", str(folder / "n.html")],
        "report": ["report", model, "-o", str(folder / "r.html")],
        "export": ["export", model, "-o", str(folder / "m.c")],
        "predict": ["predict", model, table, "-o", str(folder / "p.csv")],
    }


def is_whole(path: Path) -> bool:
    """Whether a file is complete."""
    if path.suffix == ".json":
        load_predictor(path)
        return True
    text, ends = path.read_text(encoding="utf-8"), {".html": "</html>", ".c": "}", ".h": "#endif"}
    return len(text.splitlines()) > 100 if path.suffix == ".csv" else text.rstrip().endswith(ends[path.suffix])


def broken_files(folder: Path) -> list[str]:
    """Return the files that are not whole."""
    wrong = []
    for path in sorted(folder.glob("[!.]*.*")):
        try:
            whole = is_whole(path)
        except ValueError:
            whole = False
        wrong += [] if whole else [path.name]
    return wrong


def is_left(group: int) -> bool:
    """Whether a process of a group is still there, after a moment."""
    for _ in range(50):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True


def kill(command: Sequence[str], number: signal.Signals, delay: float) -> tuple[int, float, bool]:
    """Send a signal to a command after some seconds; return its exit status, how long it ran, and if some is left."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [*COMMAND, *command], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(delay)
    if process.poll() is None:
        process.send_signal(number)
    process.wait(PATIENCE)
    return process.returncode, time.perf_counter() - started, is_left(process.pid)


def kill_commands(
    folder: Path, kills: int, seconds: float, duration: float, rng: np.random.Generator
) -> collections.Counter[str]:
    """Interrupt commands at random moments, as often as asked for or until the time is over; print what went wrong."""
    counts: collections.Counter[str] = collections.Counter(kills=0, corrupt=0, orphans=0, finished=0)
    every, end = commands(folder), time.perf_counter() + seconds
    usual = dict.fromkeys(every, duration)
    while counts["kills"] < kills and time.perf_counter() < end:
        name, number = rng.choice(list(every)[:4], p=[0.2, 0.5, 0.15, 0.15]), SIGNALS[rng.integers(3)]
        delay = usual[name] * rng.uniform(0.3, 1.05)
        status, seconds, left = kill(every[name], number, delay)
        usual[name] = seconds if status == 0 else max(usual[name], seconds)  # the load of the machine changes
        wrong = broken_files(folder)
        counts.update(kills=int(status != 0), finished=int(status == 0), corrupt=len(wrong), orphans=int(left))
        if wrong or left:
            print(f"{name}, {number.name} after {delay:.2f} s: broken {wrong}, processes left: {left}", flush=True)
    return counts


# -- places where nothing can be written -------------------------------------------------------------------------------


def limit_files() -> None:
    """Let the process write small files only; more raises an error, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))


def fails_with_a_sentence(command: Sequence[str], before: Callable[[], None] | None = None) -> bool:
    """Whether a command ends with an error that names the file, and without a traceback."""
    found = subprocess.run([*COMMAND, *command], capture_output=True, text=True, preexec_fn=before, timeout=PATIENCE)
    said = " ".join(found.stderr.split())
    return found.returncode != 0 and Path(command[-1]).name in said and "Traceback" not in said


def refuse_places(folder: Path) -> dict[str, bool]:
    """Return, for places where no report can be written, whether the command says so and the old files are whole."""
    model, report = str(folder / "m.json"), folder / "r.html"
    into = ["report", model, "-o"]
    found = {
        "full disk": fails_with_a_sentence([*into, str(report)], limit_files),
        "vanished folder": fails_with_a_sentence([*into, str(folder / "none" / "r.html")]),
        "folder in place of a file": fails_with_a_sentence([*into, str(folder)]),
    }
    if Path("/sys").exists():  # the superuser may write to folders without permission, but not there
        found["read-only folder"] = fails_with_a_sentence([*into, "/sys/r.html"])
    return {place: good and not broken_files(folder) for place, good in found.items()}


def main() -> int:
    """Run all rounds and print their counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="commands to interrupt")
    parser.add_argument("--seconds", type=float, default=3600.0, help="interrupt no command after this time")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--record", action="store_true", help="write the counts to the committed results")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="termwise-chaos-"))
    try:
        duration = prepare(folder)
        places = refuse_places(folder)
        counts = kill_commands(folder, options.kills, options.seconds, duration, np.random.default_rng(options.seed))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{dict(counts)}; places: {places}")
    if options.record:
        refused = {"places": len(places), "places_refused": sum(places.values())}
        write_record("kills", **counts, **refused, seed=options.seed)
    return int(counts["corrupt"] + counts["orphans"] > 0 or not all(places.values()))


if __name__ == "__main__":
    sys.exit(main())
