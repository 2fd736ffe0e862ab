"""`termwise demo`: what the commands do, on data that ship with scikit-learn."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.datasets import make_friedman1

from termwise.cli.fitting import FitOptions, run_fit
from termwise.cli.screen import Screen
from termwise.cli.using import run_export, run_predict, run_report
from termwise.deploy.predictor import load_predictor

BAR = 30  # characters of the longest bar
KNOWN, NEW = 400, 100  # rows the model is fitted to, and rows it is asked about
QUESTION = f"""Ten inputs, measured {KNOWN} times with noise; five of them matter:
y = 10 sin(pi x1 x2) + 20 (x3 - 0.5)^2 + 10 x4 + 5 x5. The model is told nothing of that."""


def run_demo(folder: Path | None, screen: Screen) -> dict[str, Any]:
    """Write a table, fit a model to it, use it, explain it, export it; the way the commands do."""
    folder = Path(tempfile.mkdtemp(prefix="termwise-demo-")) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    known, new = folder / "measured.csv", folder / "new.csv"
    model, report, source = folder / "model.json", folder / "report.html", folder / "model.c"
    table = friedman()
    table.iloc[:KNOWN].to_csv(known, index=False)
    table.iloc[KNOWN:].to_csv(new, index=False)
    screen.say(QUESTION)

    announce(screen, f"termwise fit {known} --target y -o {model}")
    fit = run_fit(FitOptions(known, "y", out=model, force=True), screen)
    announce(screen, f"termwise predict {model} {new} -o {folder / 'predictions.csv'}")
    run_predict(model, new, folder / "predictions.csv", False, screen)
    announce(screen, f"termwise export {model} --to c -o {source}")
    exported = run_export(model, "c", source, screen)
    announce(screen, f"termwise report {model} -o {report}")
    run_report(model, None, report, screen)
    screen.say("")
    screen.table("What the model found to act, and how strongly", ["inputs", "deviation", ""], strengths(model, screen))
    screen.say(f"{fit['n_terms']} terms, {exported['bytes']:,} bytes of C, nothing tuned by hand. Open {report}")
    return {"command": "demo", "folder": str(folder), "report": str(report), "fit": fit}


def strengths(model: Path, screen: Screen) -> list[tuple[str, str, str]]:
    """Inputs and pairs of inputs of a saved model, with the deviation of what they add, as a number and as a bar."""
    effects = (load_predictor(model).facts or {})["effects"]
    full, empty = "█░" if screen.console.encoding.startswith("utf") else "#."
    most = max(effect["strength"][0] for effect in effects)
    return [
        (" and ".join(effect["inputs"]), f"{effect['strength'][0]:.2f}", (full * bar).ljust(BAR, empty))
        for effect in effects
        if (bar := round(BAR * effect["strength"][0] / most))
    ]


def friedman() -> pd.DataFrame:
    """Friedman's first test function, whose truth is known and which no linear model can follow."""
    X, y = make_friedman1(KNOWN + NEW, 10, noise=1.0, random_state=0)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(1, 11)]).round(4)
    return table.assign(y=y.round(3))


def announce(screen: Screen, command: str) -> None:
    """Show the command that would do what is done next."""
    screen.say(f"\n$ {command}", style="bold cyan")
