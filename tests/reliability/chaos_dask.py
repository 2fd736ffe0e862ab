"""Failures of a Dask cluster at random moments of a selection: the same path, or a clear error within the timeout.

    python tests/reliability/chaos_dask.py --rounds 20 --timeout 10

Each round is a selection on a cluster of two workers, during which the failure happens: workers killed,
stopped or slowed down, or the scheduler lost. Prints one line per round, and the counts; `--record` writes them to the
committed results.
"""

from __future__ import annotations

import argparse
import collections
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import dask.array as da
import distributed
import numpy as np
from results import write_record

from termwise import forward_path

MOST_TERMS = 12
CLEAR = ("same", "TimeoutError", "ConnectionError", "KilledWorker")
RECOVERY = 60.0  # seconds until a cluster is taken to be lost
GRACE = 60.0  # seconds beyond the timeout, in which tasks before the failure may have ended on a busy machine


def send(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to processes, some of which may be gone."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def slow_down(client: Any) -> None:
    """Occupy the worker threads with tasks of some seconds."""
    client.slow = client.map(time.sleep, [1.0] * 4, pure=False)


Failure = Callable[[Any, list[int]], None]
FAILURES: dict[str, Failure] = {
    "one worker killed": lambda client, pids: send(pids[:1], signal.SIGKILL),
    "all workers killed": lambda client, pids: send(pids, signal.SIGKILL),
    "one worker stopped": lambda client, pids: send(pids[:1], signal.SIGSTOP),
    "slow workers": lambda client, pids: slow_down(client),
    "lost scheduler": lambda client, pids: client.loop.add_callback(client.cluster.scheduler.close),
}


def start_cluster(kind: str) -> Any:
    """Start two workers; processes, unless it is the scheduler that is to fail."""
    processes = kind != "lost scheduler"
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "processes": processes}
    return distributed.Client(distributed.LocalCluster(**options))


def run_round(client: Any, fail: Failure, when: int, timeout: float) -> tuple[str, float]:
    """Return the outcome of a selection during which the cluster fails, and how long it took from there."""
    rng = np.random.default_rng(0)
    G = rng.normal(size=(400, 30))
    y = G[:, :6].sum(axis=1) + rng.normal(size=400)
    expected = forward_path(G, y, max_terms=MOST_TERMS).terms.tolist()
    pids, failed_at = list(client.run(os.getpid).values()), [time.perf_counter()]

    def callback(path: Any) -> None:
        if len(path) == when:
            failed_at[0] = time.perf_counter()
            fail(client, pids)

    far = da.from_array(G, chunks=(100, 30)), da.from_array(y, chunks=100)
    try:
        path = forward_path(*far, max_terms=MOST_TERMS, precompute=False, timeout=timeout, callback=callback)
        outcome = "same" if path.terms.tolist() == expected else "DIFFERENT"
    except (TimeoutError, ConnectionError, distributed.KilledWorker) as error:
        outcome = type(error).__name__
    except Exception as error:
        outcome = f"UNCLEAR {type(error).__name__}: {error}"
    seconds = time.perf_counter() - failed_at[0]
    send(pids, signal.SIGCONT)
    return outcome, seconds


def is_healthy(client: Any) -> bool:
    """Whether a cluster has both workers again, after a while."""
    try:
        client.wait_for_workers(2, timeout=RECOVERY)
        return client.submit(sum, [1, 2], pure=False).result(timeout=RECOVERY) == 3
    except Exception:
        return False


def run_kind(kind: str, rounds: int, timeout: float) -> dict[str, Any]:
    """Run the rounds of a kind of failure, and return the counts of their outcomes."""
    counts = collections.Counter(same=0, errors=0, bad=0)
    slowest, client = 0.0, start_cluster(kind)
    for i in range(rounds):
        if i and (kind == "lost scheduler" or not is_healthy(client)):
            close(client)
            client = start_cluster(kind)
        outcome, seconds = run_round(client, FAILURES[kind], 1 + i % (MOST_TERMS - 2), timeout)
        good = outcome in CLEAR and seconds < timeout + GRACE
        counts["same" if outcome == "same" and good else "errors" if good else "bad"] += 1
        slowest = max(slowest, seconds)
        print(f"{kind} {i}: {outcome}, {seconds:.1f} s", flush=True)
    close(client)
    return {"rounds": rounds, **counts, "timeout": timeout, "slowest": round(slowest, 1)}


def close(client: Any) -> None:
    """Close a cluster, of which little may be left."""
    for part in (client, client.cluster):
        try:
            part.close(timeout=10)
        except Exception as error:
            print(f"closing: {error}", flush=True)


def main() -> int:
    """Run all rounds and print their counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="of each kind of failure")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds without progress")
    parser.add_argument("--kinds", nargs="*", default=list(FAILURES), help="of failures")
    parser.add_argument("--record", action="store_true", help="write the counts to the committed results")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    bad = 0
    for kind in options.kinds:
        figures = run_kind(kind, options.rounds, options.timeout)
        bad += figures["bad"]
        print(f"{kind}: {figures}", flush=True)
        if options.record:
            write_record(f"Dask, {kind}", kind=kind, **figures)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
