"""The committed figures of the reliability tests: one line per test, replaced by the next full run of it."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FILE = ROOT / "benchmarks" / "results" / "reliability.jsonl"

sys.path.append(str(ROOT / "benchmarks"))
from _timing import machine  # noqa: E402  (a script beside the tests)


def read_records() -> dict[str, dict[str, Any]]:
    """Return the records of the file by the names of their tests."""
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    return {record["test"]: record for record in map(json.loads, lines) if "test" in record}


def write_record(test: str, **figures: Any) -> None:
    """Put the figures of a test into the file, in the place of those it has."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    records = read_records() | {test: {"test": test, **figures, "date": today}}
    lines = [machine(), *(records[name] for name in sorted(records))]
    FILE.write_text("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines), encoding="utf-8")
