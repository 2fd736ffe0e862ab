"""The committed figures of the reliability tests: one line per test, replaced by the next full run of it."""

from __future__ import annotations

import datetime
import fcntl
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
    return parse(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def parse(text: str) -> dict[str, dict[str, Any]]:
    """Return the records of a text by the names of their tests."""
    return {record["test"]: record for record in map(json.loads, text.splitlines()) if "test" in record}


def write_record(test: str, **figures: Any) -> None:
    """Put the figures of a test into the file, in the place of those it has; several tests may run at once."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    with FILE.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        records = parse(file.read()) | {test: {"test": test, **figures, "date": today}}
        lines = [machine(), *(records[name] for name in sorted(records))]
        file.truncate(0)
        file.write("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))
