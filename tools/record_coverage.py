"""Write the coverage of the last `make coverage`, in all and by package: `benchmarks/results/coverage.jsonl`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")
sys.path.insert(0, str(ROOT / "benchmarks"))

from _timing import machine  # noqa: E402


def main() -> None:
    """Sum the counts of coverage's JSON report by package."""
    report = ROOT / "htmlcov" / "coverage.json"
    subprocess.run([sys.executable, "-m", "coverage", "json", "--quiet", "-o", report], check=True, cwd=ROOT)
    totals: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTS, 0))
    for name, file in json.loads(report.read_text(encoding="utf-8"))["files"].items():
        package = Path(name).parts[-2] if Path(name).parts[-2] != "termwise" else "modules of their own"
        for part in ("all", package):
            for count in COUNTS:
                totals[part][count] += file["summary"][count]
    head = {"benchmark": "coverage", **machine(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    records = [head, *({"benchmark": "coverage", "part": part, **record(totals[part])} for part in sorted(totals))]
    lines = "".join(json.dumps(one) + "\n" for one in records)
    (ROOT / "benchmarks" / "results" / "coverage.jsonl").write_text(lines, encoding="utf-8")


def record(counts: dict[str, int]) -> dict[str, float]:
    """Return the numbers of statements and branches, and the shares of them that are covered."""
    statements, lines, branches, covered = (counts[count] for count in COUNTS)
    return {
        "statements": statements,
        "branches": branches,
        "statements_covered": round(lines / max(statements, 1), 4),
        "branches_covered": round(covered / max(branches, 1), 4),
        "covered": round((lines + covered) / max(statements + branches, 1), 4),
    }


if __name__ == "__main__":
    main()
