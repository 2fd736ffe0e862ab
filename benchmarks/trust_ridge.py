"""Which criterion should choose the penalty of `BasisRidge`: generalised cross-validation or leave-one-out.

The excess risk is the mean squared distance of the prediction from the true function at 1,000 fresh inputs, as a share
of the variance of that function; the noise itself is not in it. The rule, stated before the study: leave-one-out is the
default if neither the mean nor the 95 % quantile of the excess risk, averaged over all cells of the grid, is worse than
with GCV. `exploded` is the share of the draws whose excess risk is above ten times the variance of the function, by a
penalty so small that the model nearly interpolates the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from termwise import BasisRidge, LogisticBasis, RadialBasis

Array = np.ndarray

N_FRESH = 1000
N_DRAWS = 20  # of each cell
SIZES = (20, 50, 100, 200)
NOISE = (0.1, 0.5, 1.0)  # standard deviation of the noise beside that of the function
CRITERIA = ("gcv", "loo")
EXPLODED = 10.0  # excess risk


def hermite(X: Array) -> Array:
    """Orr's function: a bump and a dip."""
    x = 4 * X[:, 0]
    return (1 + x - 2 * x**2) * np.exp(-(x**2))


def sine(X: Array) -> Array:
    """Two periods of a sine."""
    return np.sin(2 * np.pi * X[:, 0])


def step(X: Array) -> Array:
    """A step, which no smooth function fits."""
    return np.sign(X[:, 0])


def hills(X: Array) -> Array:
    """A product of two curves."""
    return np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1])


def plane(X: Array) -> Array:
    """A linear function of ten inputs, most of them with little effect."""
    return X @ (1 / np.arange(1, 11) ** 2)


def friedman(X: Array) -> Array:
    """Friedman's first function: five of ten inputs matter."""
    u = (X + 1) / 2
    return 10 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2 + 10 * u[:, 3] + 5 * u[:, 4]


FUNCTIONS = {"hermite": (hermite, 1), "sine": (sine, 1), "step": (step, 1), "hills": (hills, 2), "plane": (plane, 10),
             "friedman": (friedman, 10)}  # fmt: skip
BASES: dict[str, Callable[[int], Any]] = {
    "columns": lambda d: None,
    "wide Gaussians": lambda d: RadialBasis(width="median"),
    "narrow Gaussians": lambda d: RadialBasis(width=0.3 * np.sqrt(d)),
    "random units": lambda d: LogisticBasis(n_units=100, random_state=0),
}


def draw_cell(name: str, n: int, noise: float, basis: str, draws: int) -> list[dict[str, Any]]:
    """One cell of the grid: a record for each criterion, all on the same draws."""
    function, d = FUNCTIONS[name]
    excess = {criterion: np.empty(draws) for criterion in CRITERIA}
    fresh = np.random.default_rng(0).uniform(-1, 1, size=(N_FRESH, d))
    truth = function(fresh)
    for draw in range(draws):
        rng = np.random.default_rng([draw, n])
        X = rng.uniform(-1, 1, size=(n, d))
        y = function(X) + noise * truth.std() * rng.normal(size=n)
        for criterion in CRITERIA:
            model = BasisRidge(BASES[basis](d), alpha=criterion).fit(X, y)
            excess[criterion][draw] = np.mean((model.predict(fresh) - truth) ** 2) / truth.var()
    cell = {"study": "ridge", "function": name, "n": n, "noise": noise, "basis": basis, "draws": draws}
    difference = excess["loo"] - excess["gcv"]
    paired = {"loo_minus_gcv": float(difference.mean()), "loo_minus_gcv_se": float(difference.std() / np.sqrt(draws))}
    return [
        cell | {"criterion": criterion, "excess_risk": float(values.mean()),
                "excess_risk_se": float(values.std() / np.sqrt(draws)), "quantile_95": float(np.quantile(values, 0.95)),
                "largest": float(values.max()), "exploded": float(np.mean(values > EXPLODED))}
        | (paired if criterion == "loo" else {})
        for criterion, values in excess.items()
    ]  # fmt: skip


def cases(small: bool) -> list[Callable[[], list[dict[str, Any]]]]:
    """Return the independent jobs of the study, one for each cell."""
    sizes, noise, draws = (SIZES[:2], NOISE[1:2], 10) if small else (SIZES, NOISE, N_DRAWS)
    cells = product(FUNCTIONS, sizes, noise, BASES)
    return [partial(draw_cell, name, n, level, basis, draws) for name, n, level, basis in cells]


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Append what the rule decides: both measures averaged over the cells, and the cells in which each is larger."""
    found = {
        criterion: {name: np.array([record[name] for record in records if record["criterion"] == criterion])
                    for name in ("excess_risk", "quantile_95", "exploded")}
        for criterion in CRITERIA
    }  # fmt: skip
    decision: dict[str, Any] = {"study": "ridge", "cells": len(records) // len(CRITERIA)}
    for name in ("excess_risk", "quantile_95", "exploded"):
        gcv, loo = found["gcv"][name], found["loo"][name]
        decision |= {f"gcv_{name}": float(gcv.mean()), f"loo_{name}": float(loo.mean())}
        decision |= {f"gcv_{name}_larger": int(np.sum(gcv > loo)), f"loo_{name}_larger": int(np.sum(loo > gcv))}
    better = all(decision[f"loo_{name}"] <= decision[f"gcv_{name}"] for name in ("excess_risk", "quantile_95"))
    return [*records, decision | {"default": "loo" if better else "gcv"}]
