"""How many false terms forward selection keeps: on pure noise by each criterion, and by knockoffs at a given rate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.signal import lfilter

from termwise import ForwardRegressor, forward_path

STUDY = "selection"
CANDIDATES = (20, 200, 2_000, 20_000)
CRITERIA = ("tcr", "tcr_paper", "tcr_sequential")
PATIENCE = 10  # that of ForwardRegressor
PAPER_TERMS = 30  # terms after which the path of "tcr_paper" is cut: with many candidates it would go on to the end
# samples, candidates, true terms: two fixed-X, two model-X designs
DESIGNS = ((500, 100, 20), (1_000, 400, 30), (200, 300, 20), (300, 1_000, 25))
SETTINGS = ("nominal", "rho")  # floats that are not measured
SIGNAL = 2.5  # weights of the true terms, in units of sqrt(log p / n)


def standard_error(values: Any) -> float:
    """Standard error of the mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def draw_columns(rng: np.random.Generator, n: int, p: int, rho: float) -> Any:
    """Gaussian columns with correlation `rho` between neighbours, decreasing with the distance."""
    return lfilter([np.sqrt(1 - rho**2)], [1, -rho], rng.normal(size=(n, p)), axis=1)


def noise_terms(criterion: str, p: int, seeds: range, n: int = 200) -> dict[str, Any]:
    """Terms that a criterion keeps on pure noise, all of them false."""
    sizes = []
    for seed in seeds:
        rng = np.random.default_rng([seed, p])
        G, y = rng.normal(size=(n, p)), rng.normal(size=n)
        limit = PAPER_TERMS if criterion == "tcr_paper" else None
        sizes.append(forward_path(G, y, criterion=criterion, patience=PATIENCE, max_terms=limit).choose(criterion))
    return {
        "study": STUDY, "quantity": "false terms", "criterion": criterion, "n": n, "p": p, "draws": len(sizes),
        "first_seed": seeds[0], "nominal": 1.0, "terms": float(np.mean(sizes)), "terms_se": standard_error(sizes),
        "share": float(np.mean(np.array(sizes) > 0)),
    }  # fmt: skip


def false_discoveries(n: int, p: int, true: int, rho: float, seeds: range, fdr: float = 0.1) -> dict[str, Any]:
    """False discovery proportion and power of `criterion="fdr"`."""
    false, power = [], []
    for seed in seeds:
        rng = np.random.default_rng([seed, n, p])
        G, w = draw_columns(rng, n, p, rho), np.zeros(p)
        w[rng.choice(p, true, replace=False)] = rng.choice([-1, 1], true) * SIGNAL * np.sqrt(np.log(p) / n)
        model = ForwardRegressor(criterion="fdr", fdr=fdr, random_state=seed).fit(G, G @ w + rng.normal(size=n))
        found = np.count_nonzero(w[model.support_])
        false.append((model.n_terms_ - found) / max(model.n_terms_, 1))
        power.append(found / true)
    return {
        "study": STUDY, "quantity": "false discovery rate", "n": n, "p": p, "true": true, "rho": rho,
        "draws": len(false), "first_seed": seeds[0], "nominal": fdr, "fdr": float(np.mean(false)),
        "fdr_se": standard_error(false), "power": float(np.mean(power)), "power_se": standard_error(power),
    }  # fmt: skip


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the jobs of each cell: means weighted by draws, with their standard errors."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in records:
        settings = tuple(one.get(name) for name in ("quantity", "criterion", "n", "p", "true", "rho"))
        cells.setdefault(settings, []).append(one)
    joined = []
    for parts in cells.values():
        draws = np.array([one["draws"] for one in parts], dtype=np.float64)
        cell = {key: value for key, value in parts[0].items() if key != "first_seed"} | {"draws": int(draws.sum())}
        for name in [key for key, value in parts[0].items() if isinstance(value, float) and key not in SETTINGS]:
            values = np.array([one[name] for one in parts])
            mean = np.linalg.norm(draws * values) if name.endswith("_se") else draws @ values
            cell[name] = round(float(mean / draws.sum()), 4)
        joined.append(cell)
    return joined


def cases(small: bool) -> list[Callable[[], dict[str, Any]]]:
    """Independent jobs, each of at most about a minute on one core."""
    jobs: list[Callable[[], dict[str, Any]]] = []
    draws = 6 if small else 100
    for p in CANDIDATES:
        for criterion in CRITERIA:
            jobs.append(partial(noise_terms, criterion, p, range(draws if p < 20_000 or small else 30)))
    for n, p, true in DESIGNS:
        for rho in (0.0, 0.5):
            draws, total = (4, 4) if small else (100, 300) if p < 400 else (25, 50)
            for start in range(0, total, draws):
                jobs.append(partial(false_discoveries, n, p, true, rho, range(start, start + draws)))
    return jobs
