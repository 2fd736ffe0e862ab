"""Random problems: models with random options, tables, targets, weights and containers."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
from sklearn.base import is_classifier

from termwise import (
    AnovaBasis,
    BasisRidge,
    CriterionSearch,
    EvidenceForwardRegressor,
    ForwardClassifier,
    ForwardRegressor,
    FourierBasis,
    LocalRidge,
    LogisticBasis,
    OnlineRidge,
    OrthogonalThresholdRegressor,
    PrefilterClassifier,
    RadialBasis,
    RuleBasis,
    SmoothBasis,
    TermwiseClassifier,
    TermwiseRegressor,
    UnionBasis,
)
from termwise.basis import KERNELS, LagBasis

FOLDER = Path(tempfile.mkdtemp(prefix="termwise-fuzz-"))
PLAIN_TARGETS = ("plain", "two outputs", "two", "strings")
NEGLIGIBLE = 1e-12  # share of the largest weight
SPARSE = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


@dataclass(frozen=True)
class Problem:
    """A model and its data; `table` is what `X` holds, without its container."""

    model: Any
    table: np.ndarray
    X: Any
    y: Any
    weights: np.ndarray | None
    tags: tuple[str, ...]  # what is awkward about the table
    container: str
    target: str
    weighting: str

    @property
    def numbers(self) -> np.ndarray:
        """The table as an array, in the precision of its container."""
        return self.table.astype(np.float32) if self.container == "float32" else self.table

    @property
    def tol(self) -> float:
        """Share of the largest score by which predictions may differ: rounding, enlarged by the condition."""
        return 2e-3 if "float32" in (self.container, self.target) else 1e-5

    @property
    def is_plain(self) -> bool:
        """Whether the data are such that no two candidates are equally good but for rounding."""
        n, d = self.table.shape
        if self.weights is not None:  # few samples leave most directions to others with weights next to nothing
            n = np.count_nonzero(self.weights > NEGLIGIBLE * self.weights.max())
        basis, alpha = getattr(self.model, "basis", None), getattr(self.model, "alpha", None)
        determined = basis is None or alpha not in (0, 0.0)  # else as many functions as samples interpolate
        if isinstance(basis, RuleBasis):
            return False  # beside the rule of a node, those of its two children are equally good
        if is_classifier(self.model) and "step" in getattr(basis, "functions", ()):
            return False  # several rules have the same numbers of samples of each class on either side
        return determined and not self.tags and self.target in PLAIN_TARGETS and n > 2 * d + 8

    def __str__(self) -> str:
        n, d = self.table.shape
        model = " ".join(repr(self.model).split())
        return f"{model} {n} x {d} {self.tags} {self.container}, y {self.target}, weights {self.weighting}"


def draw_problem(seed: int) -> Problem:
    """Return the problem of a seed."""
    rng = np.random.default_rng(seed)
    model = draw_model(rng)
    table, tags = draw_table(rng)
    y, target = draw_targets(rng, table, is_classifier(model), getattr(model, "loss", ""))
    weights, weighting = draw_weights(rng, len(table))
    X, container = contain(rng, table)
    return Problem(model, table, X, y, weights, tuple(tags), container, target, weighting)


def draw_table(rng: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    """Return inputs and the names of what is awkward about them."""
    n, d = int(rng.integers(2, 40)), int(rng.integers(1, 9))
    X, tags = rng.normal(size=(n, d)), []
    j, other = rng.integers(d, size=2)
    changes = {
        "constant": lambda: X.__setitem__((slice(None), j), rng.choice([0.0, 1.0, 5.3])),
        "duplicate": lambda: X.__setitem__((slice(None), j), rng.choice([1, -1, 2]) * X[:, other]),
        "leverage 1": lambda: X.__setitem__((slice(None), j), np.arange(n) == rng.integers(n)),
        "rounded": lambda: np.round(X, out=X),
        "outlier": lambda: X.__setitem__(rng.integers(n), 1e6),
        "scales": lambda: np.multiply(X, 10.0 ** rng.uniform(-6, 6, size=d), out=X),
        "offset": lambda: np.add(X, 10.0 ** rng.uniform(0, 10), out=X),
        "extreme": lambda: np.multiply(X, 10.0 ** rng.uniform(-150, 150), out=X),
        "missing": lambda: X.__setitem__((rng.integers(n), j), rng.choice([np.nan, np.inf])),
        "repeated rows": lambda: X.__setitem__(slice(n // 2, 2 * (n // 2)), X[: n // 2]),
    }
    for name, change in changes.items():
        if rng.random() < (0.03 if name in ("extreme", "missing") else 0.07):
            tags.append(name)
            change()
    return X, tags


def draw_targets(rng: np.random.Generator, X: np.ndarray, classify: bool, loss: str) -> tuple[Any, str]:
    """Return targets of a linear model with noise, or classes of their signs, mostly of a kind the loss allows."""
    scale = np.nanmax(np.abs(X), axis=0, where=np.isfinite(X), initial=1e-300)
    clean = np.nan_to_num(X / scale, posinf=0.0) @ rng.normal(size=X.shape[1])
    y = clean + rng.choice([0.3, 0.3, 0.3, 3, 1e-8, 0]) * rng.normal(size=len(X))
    if classify:
        kind = str(rng.choice(["two", "three", "strings", "bool", "None"], p=[0.4, 0.2, 0.25, 0.1, 0.05]))
        y = np.digitize(y, [-0.5, 0.5] if kind == "three" else [0.0])
        names = {"strings": ["no", "yes"], "None": ["no", None]}
        return np.array(names[kind], dtype=object)[y] if kind in names else y == 1 if kind == "bool" else y, kind
    if loss in ("poisson", "gamma") and rng.random() < 0.9:
        return (
            rng.poisson(np.exp(y)) if loss == "poisson" else np.exp(y)
        ), "counts" if loss == "poisson" else "above 0"
    kinds = {
        "plain": lambda: y,
        "constant": lambda: np.full(len(X), 2.0),
        "two outputs": lambda: np.column_stack([y, clean + rng.normal(size=len(X))]),
        "extreme": lambda: y * 10.0 ** rng.uniform(-150, 150),
        "masked": lambda: np.ma.array(y, mask=np.arange(len(X)) == 1),
        "offset": lambda: y + 10.0 ** rng.uniform(0, 10),
        "series": lambda: pd.Series(y),
        "float32": lambda: y.astype(np.float32),
        "integers": lambda: np.round(3 * y).astype(int),
        "strings": lambda: np.array(["a"] * len(X), dtype=object),
        "column": lambda: y[:, None],
    }
    kind = str(rng.choice(list(kinds), p=[0.5, 0.04, 0.15, 0.08, 0.02, 0.05, 0.04, 0.04, 0.04, 0.01, 0.03]))
    return kinds[kind](), kind


def draw_weights(rng: np.random.Generator, n: int) -> tuple[np.ndarray | None, str]:
    """Return frequency weights, among them zeros, fractions and extreme ones."""
    kinds = {
        "none": lambda: None,
        "repeats": lambda: rng.integers(0, 3, size=n) * 1.0,
        "fractions": lambda: 3 * rng.random(n),
        "kernel": lambda: np.exp(-700 * rng.random(n)),
        "extreme": lambda: 10.0 ** rng.uniform(0, 200) * np.ones(n),
        "negative": lambda: -np.ones(n),
    }
    kind = str(rng.choice(list(kinds), p=[0.5, 0.25, 0.15, 0.05, 0.04, 0.01]))
    return kinds[kind](), kind


def contain(rng: np.random.Generator, X: np.ndarray) -> tuple[Any, str]:
    """Return the inputs in some container and dtype."""
    names = [f"c{j}" for j in range(X.shape[1])]
    layout = str(rng.choice(SPARSE))
    kinds = {
        "array": lambda: X,
        "Fortran": lambda: np.asfortranarray(X),
        "strided": lambda: np.repeat(X, 2, axis=1)[:, ::2],
        "float32": lambda: X.astype(np.float32),
        "memory map": lambda: as_memory_map(X),
        "pandas": lambda: pd.DataFrame(X, columns=names),
        "polars": lambda: pl.DataFrame(X, schema=names),
        "pyarrow": lambda: pa.table(dict(zip(names, X.T, strict=True))),
        "repeated names": lambda: pd.DataFrame(X, columns=["c"] * X.shape[1]),
        f"{layout}_array": lambda: sp.csr_array(X).asformat(layout),
        f"{layout}_matrix": lambda: sp.csr_matrix(X).asformat(layout),
        "list": lambda: X.tolist(),
        "dict": lambda: {"c": X[:, 0]},
        "masked": lambda: np.ma.array(X, mask=X > 2),
        "vector": lambda: X[:, 0],
    }
    shares = [0.35, 0.06, 0.03, 0.08, 0.02, 0.12, 0.06, 0.06, 0.01, 0.08, 0.04, 0.05, 0.01, 0.02, 0.01]
    kind = str(rng.choice(list(kinds), p=shares))
    with np.errstate(over="ignore"):
        return kinds[kind](), kind


def as_memory_map(X: np.ndarray) -> np.ndarray:
    """Return a read-only memory map of an array."""
    np.save(FOLDER / "table.npy", X)
    return np.load(FOLDER / "table.npy", mmap_mode="r")


def draw_basis(rng: np.random.Generator) -> Any:
    """Return a basis with random options, for half of the models none."""
    kernel, width = str(rng.choice(list(KERNELS))), rng.choice(np.array([0.5, 2.0, "median"], dtype=object))
    outside = str(rng.choice(["clip", "bounded", "constant", "linear", "continue"]))
    kinds = [
        lambda: RadialBasis(kernel=kernel, width=width, centers=rng.choice(np.array(["samples", 2], dtype=object))),
        lambda: AnovaBasis(extrapolation=outside),
        lambda: AnovaBasis(functions=("linear", str(rng.choice(["hinge", "step", "ramp"]))), n_knots=3),
        lambda: SmoothBasis(extrapolation=outside),
        lambda: FourierBasis(n_harmonics=2),
        lambda: LogisticBasis(n_units=5),
        lambda: RuleBasis(n_trees=5),
        lambda: LagBasis(),
        lambda: UnionBasis([AnovaBasis(), RadialBasis()]),
    ]
    return None if rng.random() < 0.55 else kinds[rng.integers(len(kinds))]()


def draw_model(rng: np.random.Generator) -> Any:
    """Return an estimator with random options."""
    basis, alpha = draw_basis(rng), float(rng.choice([0.0, 1e-6, 1e-6, 1.0]))
    some = {"fit_intercept": bool(rng.random() < 0.9)}
    criterion = rng.choice(
        np.array(["tcr", "tcr_paper", "loo", "gcv", "uev", "fpe", "bic", "one_se", None], dtype=object)
    )
    path = some | {
        "criterion": criterion,
        "max_terms": rng.choice(np.array([None, 1, 4], dtype=object)),
        "penalty": str(rng.choice(["weights", "weights", "orthogonal"])),
        "precompute": rng.choice(np.array(["auto", True, False, 2], dtype=object)),
        "refine": rng.choice(np.array([None, None, None, "swap"], dtype=object)),
        "refit_alpha": rng.choice(np.array([None, None, "loo", "gcv"], dtype=object)),
    }
    rule = str(rng.choice(["loo", "loo", "cost", "sse", "gcv", "kfold", "norm", "d_optimal"]))
    chosen = str(rng.choice(["gcv", "loo", "uev", "fpe", "bic"]))
    kinds = [
        (0.27, lambda: ForwardRegressor(basis, alpha=alpha, rule=rule, cv=2, **path)),
        (0.03, lambda: ForwardRegressor(basis, alpha="reestimate", rule="cost")),
        (0.05, lambda: ForwardRegressor(basis, loss=str(rng.choice(["huber", "quantile", "poisson", "gamma"])))),
        (0.08, lambda: BasisRidge(basis, alpha=chosen, **some)),
        (0.08, lambda: BasisRidge(basis, alpha=alpha, **some)),
        (0.06, lambda: LocalRidge(basis, **some)),
        (
            0.08,
            lambda: OrthogonalThresholdRegressor(
                basis,
                method=str(rng.choice(["eigen", "gram_schmidt"])),
                keep=str(rng.choice(["leading", "significant"])),
                stable=str(rng.choice(["auto", "all"])),
            ),
        ),
        (0.06, lambda: EvidenceForwardRegressor(basis, reselect=bool(rng.random() < 0.3), **some)),
        (0.08, lambda: OnlineRidge(basis, alpha=alpha, **some)),
        (0.05, lambda: ForwardClassifier(basis)),
        (0.05, lambda: ForwardClassifier(basis, loss="squared", alpha=alpha, criterion=criterion)),
        (0.05, lambda: PrefilterClassifier(RadialBasis() if basis is None else basis)),
        (0.03, lambda: CriterionSearch(BasisRidge(RadialBasis()), {"basis__width": [0.5, 2.0]})),
        (0.0006, lambda: TermwiseRegressor()),
        (0.0006, lambda: TermwiseClassifier()),
    ]
    shares = np.array([share for share, _ in kinds])
    return kinds[rng.choice(len(kinds), p=shares / shares.sum())][1]()
