"""Conflicts between the installed packages, and known vulnerabilities of them.

    python tests/reliability/audit.py [--record]

`pip check` needs no connection. `pip-audit` runs in an environment of its own, and asks the database of the Python
Packaging Authority; where that or the package index cannot be reached, a sentence says so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from results import write_record

SECONDS = 600  # for an installation or an audit


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command and return its output; one that takes too long has failed."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no answer after {SECONDS} s")


def audit() -> tuple[str, str]:
    """Return the outcome of the audit, "clean", "vulnerable" or "not run", and what it says."""
    installed = run(sys.executable, "-m", "pip", "freeze", "--exclude-editable").stdout
    with tempfile.TemporaryDirectory(prefix="termwise-audit-") as name:
        folder = Path(name)
        (folder / "installed.txt").write_text(installed, encoding="utf-8")
        venv.create(folder / "venv", with_pip=True)
        python = str(folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
        got = run(python, "-m", "pip", "install", "--quiet", "--retries", "1", "pip-audit")
        if got.returncode:
            return "not run", got.stderr
        listed = str(folder / "installed.txt")
        found = run(python, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner", "off", "-r", listed)
    if found.returncode == 0:
        return "clean", found.stderr
    return ("vulnerable" if "vulnerabilit" in found.stderr else "not run"), found.stdout + found.stderr


def main() -> int:
    """Check and audit the environment of this Python."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the outcome to the committed results")
    options = parser.parse_args()
    check = run(sys.executable, "-m", "pip", "check")
    print(check.stdout.strip() or check.stderr.strip())
    outcome, said = audit()
    if outcome == "not run":
        reason = said.strip().splitlines()[-1] if said.strip() else "no answer"
        print(f"Known vulnerabilities were not looked for: the database could not be reached ({reason}).")
    else:
        print(said.strip())
    if options.record:
        write_record("audit", pip_check="no conflicts" if check.returncode == 0 else "conflicts", outcome=outcome)
    return int(check.returncode != 0 or outcome == "vulnerable")


if __name__ == "__main__":
    sys.exit(main())
