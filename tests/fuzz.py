"""Random problems for every estimator: a documented error, or finite results that satisfy the invariants.

    python tests/fuzz.py --seconds 60 --start 0

Case number s is drawn with the seed s, so that a run resumes with `--start` at the number after the last one printed,
and `--start s --cases 1` repeats a failure. Failures are printed with their seed, model and problem; the exit status is
one if there were any. Not part of the tests: `make fuzz`.
"""

from __future__ import annotations

import argparse
import collections
import pickle
import sys
import time
import traceback
import warnings
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from termwise import (
    AnovaBasis,
    BasisRidge,
    EvidenceForwardRegressor,
    ForwardClassifier,
    ForwardRegressor,
    FourierBasis,
    LocalRidge,
    OnlineRidge,
    OrthogonalThresholdRegressor,
    PrefilterClassifier,
    RadialBasis,
    SmoothBasis,
)

ATTRIBUTES = ("coef_", "intercept_", "noise_variance_", "loo_residuals_", "weights_cov_", "effective_dof_")
SLOWEST = 30.0  # seconds a case may take


def draw_table(rng: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    """Return inputs and the names of what is awkward about them."""
    n, d = int(rng.integers(2, 25)), int(rng.integers(1, 12))
    X, tags = rng.normal(size=(n, d)), [f"{n} x {d}"]
    j, other = rng.integers(d, size=2)
    changes = {
        "constant": lambda: X.__setitem__((slice(None), j), rng.choice([0.0, 1.0, 5.3])),
        "duplicate": lambda: X.__setitem__((slice(None), j), rng.choice([1, -1, 2]) * X[:, other]),
        "leverage 1": lambda: X.__setitem__((slice(None), j), np.arange(n) == rng.integers(n)),
        "rounded": lambda: np.round(X, out=X),
        "outlier": lambda: X.__setitem__(rng.integers(n), 1e6),
        "scales": lambda: np.multiply(X, 10.0 ** rng.uniform(-6, 6, size=d), out=X),
        "offset": lambda: np.add(X, 10.0 ** rng.uniform(0, 8), out=X),
        "extreme": lambda: np.multiply(X, 10.0 ** rng.uniform(-150, 150), out=X),
        "missing": lambda: X.__setitem__((rng.integers(n), j), rng.choice([np.nan, np.inf])),
    }
    for name, change in changes.items():
        if rng.random() < (0.03 if name in ("extreme", "missing") else 0.12):
            tags.append(name)
            change()
    return X, tags


def draw_targets(rng: np.random.Generator, X: np.ndarray, classify: bool) -> tuple[Any, str]:
    """Return targets of a linear model with noise, or classes of their signs."""
    scale = np.nanmax(np.abs(X), axis=0, where=np.isfinite(X), initial=1e-300)
    y = np.nan_to_num(X / scale, posinf=0.0) @ rng.normal(size=X.shape[1]) + rng.choice([0, 1e-8, 0.3, 3]) * rng.normal(
        size=len(X)
    )
    if classify:
        kind = str(rng.choice(["two", "three", "strings", "None"]))
        y = np.digitize(y, [-0.5, 0.5] if kind == "three" else [0.0])
        labels = {"strings": np.array(["no", "yes"], dtype=object), "None": np.array(["no", None], dtype=object)}
        return (labels[kind][y] if kind in labels else y), kind
    kind = str(rng.choice(["plain", "constant", "two outputs", "extreme", "masked"], p=[0.6, 0.1, 0.15, 0.1, 0.05]))
    if kind == "constant":
        y = np.full(len(X), 2.0)
    elif kind == "two outputs":
        y = np.column_stack([y, rng.normal(size=len(X))])
    elif kind == "extreme":
        y = y * 10.0 ** rng.uniform(-150, 150)
    elif kind == "masked":
        y = np.ma.array(y, mask=np.arange(len(X)) == 1)
    return y, kind


def draw_weights(rng: np.random.Generator, n: int) -> tuple[np.ndarray | None, str]:
    """Return frequency weights, among them zeros, fractions and extreme ones."""
    kinds = {
        "none": lambda: None,
        "repeats": lambda: rng.integers(0, 3, size=n) * 1.0,
        "fractions": lambda: 3 * rng.random(n),
        "kernel": lambda: np.exp(-700 * rng.random(n)),
        "extreme": lambda: 10.0 ** rng.uniform(0, 200) * np.ones(n),
    }
    kind = str(rng.choice(list(kinds), p=[0.5, 0.2, 0.2, 0.05, 0.05]))
    return kinds[kind](), kind


def contain(rng: np.random.Generator, X: np.ndarray) -> tuple[Any, str]:
    """Return the inputs in some container and dtype."""
    kinds = {
        "array": lambda: X,
        "float32": lambda: X.astype(np.float32),
        "frame": lambda: pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]),
        "repeated names": lambda: pd.DataFrame(X, columns=["c"] * X.shape[1]),
        "sparse": lambda: sp.csr_array(X).asformat(str(rng.choice(["csr", "csc", "coo", "lil", "dok", "bsr"]))),
        "list": lambda: X.tolist(),
        "dict": lambda: {"c": X[:, 0]},
        "masked": lambda: np.ma.array(X, mask=X > 2),
    }
    kind = str(rng.choice(list(kinds), p=[0.5, 0.1, 0.15, 0.02, 0.12, 0.06, 0.02, 0.03]))
    with np.errstate(over="ignore"):
        return kinds[kind](), kind


def draw_model(rng: np.random.Generator) -> Any:
    """Return an estimator with random options."""
    bases = [None, None, None, RadialBasis(), AnovaBasis(), SmoothBasis(), FourierBasis()]
    basis, alpha = bases[rng.integers(len(bases))], float(rng.choice([0.0, 1e-6, 1.0]))
    rule = str(rng.choice(["loo", "cost", "sse", "gcv", "kfold", "norm"]))
    criterion = rng.choice(np.array(["tcr", "loo", "gcv", "bic", "one_se", None], dtype=object))
    chosen = str(rng.choice(["gcv", "loo", "uev", "fpe", "bic"]))
    method, keep = str(rng.choice(["eigen", "gram_schmidt"])), str(rng.choice(["leading", "significant"]))
    models = [
        ForwardRegressor(basis, alpha=alpha, rule=rule, criterion=criterion, cv=2),
        ForwardRegressor(basis, alpha="reestimate", rule="cost"),
        ForwardRegressor(basis, loss=str(rng.choice(["huber", "quantile"]))),
        BasisRidge(basis, alpha=chosen),
        BasisRidge(basis, alpha=alpha),
        LocalRidge(basis),
        OrthogonalThresholdRegressor(basis, method=method, keep=keep),
        EvidenceForwardRegressor(basis),
        OnlineRidge(basis, alpha=alpha),
        ForwardClassifier(basis),
        ForwardClassifier(basis, loss="squared", alpha=alpha),
        PrefilterClassifier(RadialBasis() if basis is None else basis),
    ]
    return models[rng.integers(len(models))]


def scores(model: Any, X: Any) -> np.ndarray:
    """Return predictions, or the scores of a classifier."""
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def violations(model: Any, X: Any, y: Any, weights: np.ndarray | None) -> list[str]:
    """Fit a model and return what is wrong with it; documented errors are raised."""
    model.fit(X, y, sample_weight=weights)
    found = {"predictions": scores(model, X)}
    found |= {name: getattr(model, name) for name in ATTRIBUTES if hasattr(model, name)}
    wrong = [f"{name} not finite" for name, value in found.items() if not np.isfinite(np.asarray(value)).all()]
    copy = pickle.loads(pickle.dumps(model))
    if not np.allclose(scores(copy, X), found["predictions"], rtol=1e-9, equal_nan=True):  # layouts in memory differ
        wrong.append("pickling changes predictions")
    try:
        model.fit(X, np.full(len(y), np.nan), sample_weight=weights)
        wrong.append("NaN in y is accepted")
    except ValueError:
        if not np.array_equal(scores(model, X), found["predictions"], equal_nan=True):
            wrong.append("a failed fit changes the model")
    again = scores(model.fit(X, y, sample_weight=weights), X)
    if not np.array_equal(again, found["predictions"], equal_nan=True):
        wrong.append("a second fit differs")
    return wrong


def is_documented(error: Exception) -> bool:
    """Whether an error is a sentence raised by validation: here, or by scikit-learn's checks."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    own = "termwise" in last.filename and ("must" in str(error) or "requires" in str(error))
    return isinstance(error, ValueError | TypeError) and (own or "sklearn" in last.filename)


def run_case(seed: int) -> tuple[str, str, str]:
    """Return the outcome of a case ("fitted", "refused" or "failed"), what went wrong, and its description."""
    rng = np.random.default_rng(seed)
    model = draw_model(rng)
    table, tags = draw_table(rng)
    y, target = draw_targets(rng, table, hasattr(model, "decision_function"))
    weights, weighting = draw_weights(rng, len(table))
    X, container = contain(rng, table)
    case = f"{model!r} {tags} {container}, y {target}, weights {weighting}".replace("\n", " ")
    started = time.perf_counter()
    try:
        wrong = violations(model, X, y, weights)
    except Exception as error:
        if is_documented(error):
            return "refused", "", case
        last = traceback.extract_tb(error.__traceback__)[-1]
        wrong = [f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"]
    if time.perf_counter() - started > SLOWEST:
        wrong.append(f"took {time.perf_counter() - started:.0f} s")
    return ("failed" if wrong else "fitted"), "; ".join(wrong), case


def main() -> int:
    """Run cases until the time is over, and print failures and counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=0, help="seed of the first case")
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="how many at most")
    parser.add_argument("--seconds", type=float, default=60.0, help="start no case after this time")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: collections.Counter[str] = collections.Counter()
    end, seed = time.perf_counter() + options.seconds, options.start
    while time.perf_counter() < end and seed < options.start + options.cases:
        outcome, wrong, case = run_case(seed)
        counts[outcome] += 1
        if wrong:
            print(f"seed {seed}: {wrong}\n    {case}", flush=True)
        seed += 1
    print(f"{sum(counts.values())} cases, {dict(counts)}; the next is --start {seed}")
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
