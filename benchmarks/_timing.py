"""Timing for the benchmarks: best of several, with the spread, one JSON object per line."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any


def best_of(run: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Time a call several times; the best is the least disturbed, the spread says how much to trust it."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return {"seconds": round(min(times), 6), "spread": round((max(times) - min(times)) / min(times), 3)}


def machine() -> dict[str, Any]:
    """What the numbers were taken on."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": _processor(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "scikit_learn": version("scikit-learn"),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def emit(**record: Any) -> None:
    """Print one record."""
    print(json.dumps(record, allow_nan=False), flush=True)
