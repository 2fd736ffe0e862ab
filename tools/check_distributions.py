"""Install the wheel and the source distribution in `dist`, each in a fresh environment, and use them: `make wheel`."""

from __future__ import annotations

import os
import subprocess
import tempfile
import venv
import zipfile
from pathlib import Path

DIST = Path(__file__).parents[1] / "dist"
CORE = """
import sys
from time import perf_counter
start = perf_counter()
import termwise
print(f"termwise {termwise.__version__} on Python {sys.version.split()[0]}, imported in {perf_counter() - start:.3f} s")
assert "numpy" not in sys.modules, "import termwise must not load NumPy"
from importlib.metadata import distributions
print("installed:", *sorted(f"{one.name} {one.version}" for one in distributions()), sep="\\n  ")
from sklearn.datasets import load_diabetes
X, y = load_diabetes(return_X_y=True)
model = termwise.TermwiseRegressor(random_state=0).fit(X, y)
model.predictor_.save("model.json")
loaded = termwise.load_predictor("model.json")
assert abs(loaded.predict(X) - model.predict(X)).max() < 1e-9 * abs(y).max()
print(f"{model.n_terms_} terms, R2 {model.score(X, y):.3f}; the saved model predicts the same")
"""


def check(distribution: Path) -> None:
    """Install a file without and with the command line, and use both, in a folder of their own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

        def run(*command: str | Path) -> None:
            subprocess.run([str(part) for part in command], check=True, cwd=folder, env=environment)

        print(f"== {distribution.name}", flush=True)
        run(scripts / "python", "-m", "pip", "install", "--quiet", distribution)
        run(scripts / "python", "-W", "error", "-c", CORE)
        run(scripts / "python", "-m", "pip", "install", "--quiet", f"{distribution}[cli]")
        run(scripts / "python", "-m", "pip", "check")
        run(scripts / "termwise", "demo")


def main() -> None:
    """List the wheel and check both files."""
    wheel, source = (max(DIST.glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            print(f"{entry.file_size:>9,}  {entry.filename}")
    print(f"{wheel.stat().st_size:>9,}  {wheel.name}")
    check(wheel)
    check(source)


if __name__ == "__main__":
    main()
