"""Surrogates of four test functions: error against the number of evaluations, beside kriging.

Functions and ranges are those of the problems of the same names in SMT, the surrogate modeling toolbox (Saves et al.
2024): Branin, Rosenbrock of four inputs, the shear stress of a welded beam, and the flow through a borehole. `noise` is
the standard deviation of an error added to the evaluations, as a share of that of the function. Methods:

- `termwise, random`: `TermwiseRegressor("accurate")` on a Latin hypercube design of each size;
- `termwise, suggest`: the same on a design that begins with a Latin hypercube, to which `suggest` adds points;
- `kriging, random`: scikit-learn's Gaussian process with one length-scale for each input, and with a noise variance if
  there is noise, on the Latin hypercube designs.

`rmse` is the root mean squared error on points all over the box, as a share of the standard deviation of the function
there, averaged over the repeats; `terms` is the mean number of terms, for kriging the number of evaluations.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _timing import emit, machine
from numpy.typing import NDArray
from scipy.stats import qmc
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from termwise import TermwiseRegressor, suggest

Floats = NDArray[np.float64]

SIZES, SMALL_SIZES = (20, 40, 60, 80), (20, 30)
N_TEST = 1024
NOISES = (0.0, 0.1)


def branin(X: Floats) -> Floats:
    u, v = X.T
    valley = v - 5.1 * u**2 / (4 * np.pi**2) + 5 * u / np.pi - 6
    return valley**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(u) + 10


def rosenbrock(X: Floats) -> Floats:
    return np.sum(100 * (X[:, 1:] - X[:, :-1] ** 2) ** 2 + (1 - X[:, :-1]) ** 2, axis=1)


def welded_beam(X: Floats) -> Floats:
    t, h, length = X.T
    first = 6000 / (np.sqrt(2) * h * length)
    radius = np.sqrt(0.25 * (length**2 + (h + t) ** 2))
    inertia = 2 * 0.707 * h * length * (length / 12 + 0.25 * (h + t) ** 2)  # length / 12 as in SMT
    second = 6000 * (14 + 0.5 * length) * radius / inertia
    return np.sqrt(first**2 + second**2 + length * first * second / radius)


def water_flow(X: Floats) -> Floats:
    rw, r, Tu, Hu, Tl, Hl, length, Kw = X.T
    logs = np.log(r / rw)
    return 2 * np.pi * Tu * (Hu - Hl) / (logs * (1 + 2 * length * Tu / (logs * rw**2 * Kw) + Tu / Tl))


FUNCTIONS: dict[str, tuple[Callable[[Floats], Floats], list[tuple[float, float]]]] = {
    "Branin": (branin, [(-5, 10), (0, 15)]),
    "Rosenbrock": (rosenbrock, [(-2, 2)] * 4),
    "Welded beam": (welded_beam, [(5, 10), (0.125, 1), (5, 10)]),
    "Water flow": (
        water_flow,
        [(0.05, 0.15), (100, 5e4), (63070, 115600), (990, 1110), (63.1, 116), (700, 820), (1120, 1680), (9855, 12045)],
    ),
}


class Problem:
    """A function with evaluations that have errors."""

    def __init__(self, name: str, noise: float, seed: int) -> None:
        self.function, self.bounds = FUNCTIONS[name]
        self.low, self.high = np.array(self.bounds).T
        self.seed, self.rng = seed, np.random.default_rng(seed)
        self.X_test = qmc.scale(qmc.Sobol(len(self.low), rng=1000).random(N_TEST), self.low, self.high)
        self.y_test = self.function(self.X_test)
        self.noise = noise * self.y_test.std()

    def evaluate(self, X: Floats) -> Floats:
        """Return evaluations."""
        return self.function(X) + self.noise * self.rng.normal(size=len(X))

    def latin(self, n: int) -> Floats:
        """Return a Latin hypercube design."""
        return qmc.scale(qmc.LatinHypercube(len(self.low), rng=[self.seed, n]).random(n), self.low, self.high)

    def error(self, model: Any, X: Floats) -> float:
        """Return the error of a model, given the test points as it takes them."""
        return float(np.sqrt(np.mean((model.predict(X) - self.y_test) ** 2)) / self.y_test.std())


def termwise_random(problem: Problem, sizes: tuple[int, ...]) -> Iterator[tuple[float, int]]:
    for n in sizes:
        X = problem.latin(n)
        model = TermwiseRegressor("accurate", random_state=0).fit(X, problem.evaluate(X))
        yield problem.error(model, problem.X_test), model.n_terms_


def termwise_suggest(problem: Problem, sizes: tuple[int, ...]) -> Iterator[tuple[float, int]]:
    X = problem.latin(sizes[0])
    y = problem.evaluate(X)
    for n, following in zip(sizes, (*sizes[1:], 0), strict=True):
        model = TermwiseRegressor("accurate", random_state=0).fit(X, y)
        yield problem.error(model, problem.X_test), model.n_terms_
        if following:
            new = suggest(model, problem.bounds, following - n, X=X, random_state=problem.seed)
            X, y = np.vstack([X, new]), np.append(y, problem.evaluate(new))


def kriging_random(problem: Problem, sizes: tuple[int, ...]) -> Iterator[tuple[float, int]]:
    def scaled(X: Floats) -> Floats:
        return (X - problem.low) / (problem.high - problem.low)

    for n in sizes:
        X = problem.latin(n)
        kernel = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(np.ones(len(problem.low)), (1e-2, 1e3))
        kernel = kernel + WhiteKernel(1e-2, (1e-8, 1.0)) if problem.noise else kernel
        model = GaussianProcessRegressor(kernel, alpha=1e-8, normalize_y=True, n_restarts_optimizer=4, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # length-scales of inputs without effect reach the end of their range
            model.fit(scaled(X), problem.evaluate(X))
        yield problem.error(model, scaled(problem.X_test)), n


METHODS = {
    "termwise, random": termwise_random,
    "termwise, suggest": termwise_suggest,
    "kriging, random": kriging_random,
}


def run(name: str, noise: float, method: str, sizes: tuple[int, ...], repeats: int) -> Iterator[dict[str, Any]]:
    """Yield a record for each number of evaluations."""
    found = [list(METHODS[method](Problem(name, noise, seed), sizes)) for seed in range(repeats)]
    for n, results in zip(sizes, zip(*found, strict=True), strict=True):
        errors, terms = np.array(results).T
        record = {"function": name, "inputs": len(FUNCTIONS[name][1]), "noise": noise, "method": method}
        spread = round(float(errors.std(ddof=1)), 4) if repeats > 1 else None
        yield record | {"evaluations": n, "rmse": round(float(errors.mean()), 4), "spread": spread,
                        "terms": round(float(terms.mean()), 1), "repeats": repeats}  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="one function, two sizes, one repeat")
    options = parser.parse_args(arguments)
    emit(benchmark="surrogate", **machine())
    names = ["Branin"] if options.small else list(FUNCTIONS)
    sizes, repeats = (SMALL_SIZES, 1) if options.small else (SIZES, options.repeats)
    for name in names:
        for noise in NOISES[: 1 if options.small else None]:
            for method in METHODS:
                for record in run(name, noise, method, sizes, repeats):
                    emit(benchmark="surrogate", **record)


if __name__ == "__main__":
    main()
