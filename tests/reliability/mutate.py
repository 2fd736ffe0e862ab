"""Altered model files by the thousand: each must be refused in a sentence, or be the same model.

    python tests/reliability/mutate.py --files 20000

Four of five files have altered bytes, and must not load as another model. The others have another value and a checksum
that fits, as a forger would make: loading, predicting and the report must work, or be refused in a sentence. File
number s is drawn with the seed s; `--start s --files 1` repeats one. `--record` writes the counts to the results.
"""

from __future__ import annotations

import argparse
import collections
import json
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from results import write_record

from termwise import (
    AnovaBasis,
    BasisRidge,
    ForwardClassifier,
    ForwardRegressor,
    FourierBasis,
    LagBasis,
    RadialBasis,
    TermwiseRegressor,
    diagnostics,
    load_predictor,
    report,
)

sys.path.append(str(Path(__file__).parents[1]))
from mutations import BYTES, replace_value

SLOWEST = 60  # seconds for one file
OUTCOMES = ("refused", "same", "another", "hang", "raw", "silent")


def make_models() -> list[tuple[Any, pd.DataFrame]]:
    """Return frozen models of several kinds, with data to predict."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    y = X.a + 0.3 * rng.normal(size=40)
    bases = [None, RadialBasis(centers=5), AnovaBasis(n_centers=2), FourierBasis(2), LagBasis(2)]
    models = [BasisRidge(), *(ForwardRegressor(basis, max_terms=3, criterion=None) for basis in bases)]
    frozen = [(model.fit(X, y).predictor_, X) for model in models]
    classifier = ForwardClassifier(max_terms=2, criterion=None).fit(X, np.where(y > 0, "yes", "no"))
    table = X.assign(kind=rng.choice(["u", "v"], 40))
    recipe = TermwiseRegressor(dictionary="linear", random_state=0).fit(table, pd.Series(y, name="y"))
    facts = diagnostics.facts(recipe, table, pd.Series(y, name="y"))
    return [*frozen, (classifier.predictor_, X), (recipe.predictor_.with_facts(facts), table)]


def outcome_of_bytes(path: Path, original: Any) -> str:
    """Load a file with altered bytes."""
    return "same" if load_predictor(path) == original else "silent"


def outcome_of_values(path: Path, table: pd.DataFrame) -> str:
    """Use a file with other values and a checksum that fits them."""
    loaded = load_predictor(path)
    with np.errstate(all="ignore"):
        loaded.predict(table)
    if loaded.facts:
        report.render(loaded)
    return "another"


def alter(seed: int, models: list[tuple[Any, pd.DataFrame]], folder: Path) -> tuple[str, str]:
    """Write and read the altered file of a seed; return the outcome and, of an unexpected error, what it is."""
    rng, path = np.random.default_rng(seed), folder / "altered.json"
    i, forged = int(rng.integers(len(models))), seed % 5 == 0
    original, table = models[i]
    content = (folder / f"{i}.json").read_bytes()
    if forged:
        part = "facts" if original.facts and rng.random() < 0.5 else "predictor"
        path.write_text(json.dumps(replace_value(json.loads(content), rng, (part,))), encoding="utf-8")
    else:
        path.write_bytes(BYTES[rng.integers(len(BYTES))](content, rng))
    try:
        signal.alarm(SLOWEST)
        return (outcome_of_values(path, table) if forged else outcome_of_bytes(path, original)), ""
    except TimeoutError:
        return "hang", f"more than {SLOWEST} s"
    except ValueError as error:
        sentence = any(word in str(error) for word in ("must", "cannot", "newer"))
        return ("refused", "") if sentence else ("raw", f"ValueError: {error}")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return "raw", f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"
    finally:
        signal.alarm(0)


def stop(*_: Any) -> None:
    raise TimeoutError


def main() -> int:
    """Alter files and print the counts of what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000, help="how many")
    parser.add_argument("--start", type=int, default=0, help="seed of the first")
    parser.add_argument("--record", action="store_true", help="write the counts to the committed results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, stop)
    counts: collections.Counter[str] = collections.Counter(dict.fromkeys(OUTCOMES, 0))
    with tempfile.TemporaryDirectory(prefix="termwise-mutations-") as name:
        models, folder = make_models(), Path(name)
        for i, (original, _) in enumerate(models):
            original.save(folder / f"{i}.json")
        models = [(load_predictor(folder / f"{i}.json"), table) for i, (_, table) in enumerate(models)]
        for seed in range(options.start, options.start + options.files):
            outcome, what = alter(seed, models, folder)
            counts[outcome] += 1
            if outcome in ("hang", "raw", "silent"):
                print(f"seed {seed}: {outcome} {what}", flush=True)
    print(f"{options.files} files from seed {options.start}: {dict(counts)}")
    if options.record:
        write_record("mutations", files=options.files, first_seed=options.start, **counts)
    return int(counts["hang"] + counts["raw"] + counts["silent"] > 0)


if __name__ == "__main__":
    sys.exit(main())
