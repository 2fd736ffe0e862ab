"""`NarxRegressor` beside SysIdentPy: free-run error, error one step ahead and number of terms on held-out rows.

Both get the same lags and the same degree of polynomials. SysIdentPy selects by FROLS, with the information criterion,
the limit on terms and the estimator of its example of the data set; on the simulated systems, which are not its own,
by BIC among up to 40 terms. `NarxRegressor` chooses the number of terms by its default criterion, by the free run of
the training data, or has, in the same path, at most as many terms as SysIdentPy. The constant counts as a term of
either. Errors are root mean squared ones in units of the standard deviation of the held-out output; generated data are
repeated with ten seeds, and the means are reported.

The example data are in the source distribution of SysIdentPy on PyPI (version 0.4.1, `examples/datasets`): give the
folder with `--data`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from _timing import emit, machine

from termwise import NarxRegressor

Rows = tuple[np.ndarray | None, np.ndarray]  # inputs and output


@dataclass(frozen=True)
class System:
    """A data set with the settings of its example."""

    name: str
    source: str
    draw: Callable[[int], tuple[Rows, Rows]]  # training and held-out rows, by a seed
    lags: int
    input_lags: int
    degree: int
    seeds: int = 1
    options: dict[str, Any] = field(default_factory=dict)  # of SysIdentPy


# -- data sets ---------------------------------------------------------------------------------------------------------


def generated(function: str, **settings: Any) -> Callable[[int], tuple[Rows, Rows]]:
    def draw(seed: int) -> tuple[Rows, Rows]:
        np.random.seed(seed)  # noqa: NPY002 - the generators of SysIdentPy take no other
        make = getattr(import_module("sysidentpy.utils.generate_data"), function)
        u, u_test, y, y_test = make(n=1000, train_percentage=90, **settings)
        return (u, y[:, 0]), (u_test, y_test[:, 0])

    return draw


def split(u: np.ndarray | None, y: np.ndarray, n: int, past: int = 0) -> tuple[Rows, Rows]:
    """The first n rows, and the others with some of the past."""
    inputs = (None, None) if u is None else (u[:n], u[n - past :])
    return (inputs[0], y[:n]), (inputs[1], y[n - past :])


def examples(folder: Path) -> Iterator[System]:
    def read(name: str, **options: Any) -> np.ndarray:
        return np.loadtxt(folder / name, delimiter=",", ndmin=2, **options)

    def buck(seed: int) -> tuple[Rows, Rows]:
        rows = [read(name, skiprows=1) for name in ("buck_id.csv", "buck_valid.csv")]
        return (rows[0][:, 1:2], rows[0][:, 2]), (rows[1][:, 1:2], rows[1][:, 2])

    def motor(seed: int) -> tuple[Rows, Rows]:
        u, y = (read(name, skiprows=1)[::500] for name in ("x_cc.csv", "y_cc.csv"))
        return split(u, y[:, 0], len(y) // 2)

    def aircraft(seed: int) -> tuple[Rows, Rows]:
        table = read("f-16.txt")
        return split(table[:, :2], table[:, 2], 16384)

    def hourly(name: str) -> Callable[[int], tuple[Rows, Rows]]:
        def draw(seed: int) -> tuple[Rows, Rows]:
            y = read(name, skiprows=1)[:, 0]
            hour = np.arange(1.0, len(y) + 1)[:, None] % 24
            return split(hour, y, 7008, past=24)

        return draw

    def passengers(seed: int) -> tuple[Rows, Rows]:
        y = read("air_passengers.csv", skiprows=1, usecols=1)[:, 0]
        return split(None, y, len(y) - 23, past=13)

    source, recursive = "example of SysIdentPy", {"estimator": "RecursiveLeastSquares"}
    yield System("buck converter", source, buck, 2, 2, 2, options={"info_criteria": "aic", "n_info_values": 8})
    yield System("electric motor", source, motor, 5, 5, 2,
                 options={"info_criteria": "bic", "n_info_values": 60, **recursive})  # fmt: skip
    yield System("F-16 aircraft", source, aircraft, 20, 9, 1, options={"info_criteria": "bic", "n_info_values": 38})
    yield System("hospital load", source, hourly("SanFrancisco_Hospital.csv"), 2, 2, 1,
                 options={"info_criteria": "bic", "n_info_values": 5})  # fmt: skip
    yield System("solar power", source, hourly("SanFrancisco_PV_GHI.csv"), 24, 24, 1, options={"info_criteria": "bic"})
    yield System("air passengers", source, passengers, 13, 0, 1)


def generators() -> Iterator[System]:
    for name, function in (("one input", "get_siso_data"), ("two inputs", "get_miso_data")):
        for noise, sigma in ((False, 0.001), (False, 0.1), (True, 0.1)):
            title = f"{name}, {'coloured' if noise else 'white'} noise {sigma:g}"
            draw = generated(function, colored_noise=noise, sigma=sigma)
            yield System(title, "generator of SysIdentPy", draw, 2, 2, 2, seeds=10)


def simulated(step: Callable[..., tuple[Any, float]], state: tuple[float, ...], hold: int, scale: float) -> Any:
    """Draw a system, given its step from a state and an input to the next state and the output."""

    def draw(seed: int) -> tuple[Rows, Rows]:
        rng = np.random.default_rng(seed)
        u = np.repeat(rng.uniform(-1, 1, size=2000 // hold), hold) * scale
        now, y = state, np.empty(len(u))
        for t, value in enumerate(u):
            now, y[t] = step(now, value)
        return split(u[:, None], y + 0.005 * y.std() * rng.normal(size=len(y)), 1000)

    return draw


def duffing(state: tuple[float, float], u: float) -> tuple[Any, float]:
    x, v = state
    for _ in range(10):
        x, v = x + 0.01 * v, v + 0.01 * (u - 0.5 * v - x - 0.5 * x**3)
    return (x, v), x


def bouc_wen(state: tuple[float, float, float], u: float) -> tuple[Any, float]:
    x, v, z = state
    for _ in range(10):
        slip = v - 0.8 * abs(v) * z - 0.3 * v * abs(z)
        x, v, z = x + 0.02 * v, v + 0.02 * (u - 0.6 * v - x - z), z + 0.02 * slip
    return (x, v, z), x


def tanks(state: tuple[float, float], u: float) -> tuple[Any, float]:
    upper, lower = state
    flow = 0.3 * np.sqrt(upper)
    upper, lower = max(upper + 0.5 * (u + 1.2) - flow, 0.01), max(lower + flow - 0.25 * np.sqrt(lower), 0.01)
    return (upper, lower), lower


def systems() -> Iterator[System]:
    more: dict[str, Any] = {"seeds": 10, "options": {"info_criteria": "bic", "n_info_values": 40}}
    yield System("Duffing oscillator", "simulated", simulated(duffing, (0.0, 0.0), 4, 2.0), 3, 3, 3, **more)
    yield System("Bouc-Wen hysteresis", "simulated", simulated(bouc_wen, (0.0, 0.0, 0.0), 5, 2.0), 3, 3, 3, **more)
    yield System("two tanks", "simulated", simulated(tanks, (10.0, 10.0), 20, 0.5), 2, 2, 3, **more)


# -- methods -----------------------------------------------------------------------------------------------------------


def sysidentpy(system: System, train: Rows, test: Rows, terms: int) -> dict[str, Any]:
    """Fit and simulate by FROLS."""
    options = {"info_criteria": "aic", "n_info_values": 15, "estimator": "LeastSquares", **system.options}
    estimator = getattr(import_module("sysidentpy.parameter_estimation"), options.pop("estimator"))()
    n_inputs = 0 if train[0] is None else train[0].shape[1]
    inputs = [list(range(1, system.input_lags + 1))] * n_inputs
    model = import_module("sysidentpy.model_structure_selection").FROLS(
        order_selection=True,
        ylag=system.lags,
        xlag=inputs if n_inputs > 1 else system.input_lags or 1,
        estimator=estimator,
        basis_function=import_module("sysidentpy.basis_function").Polynomial(degree=system.degree),
        model_type="NARMAX" if n_inputs else "NAR",
        **options,
    )
    y, past = test[1][:, None], max(system.lags, system.input_lags)
    if n_inputs:
        model.fit(X=train[0], y=train[1][:, None])
        free = model.predict(X=test[0], y=y[: model.max_lag])
        one_step = model.predict(X=test[0], y=y, steps_ahead=1)
    else:
        model.fit(y=train[1][:, None])
        free = model.predict(y=y[: model.max_lag], forecast_horizon=len(y) - model.max_lag)
        one_step = model.predict(y=y, steps_ahead=1)
    return {"terms": int(model.n_terms), **errors(test[1], free[: len(y), 0], one_step[:, 0], past)}


def ours(system: System, train: Rows, test: Rows, terms: int, criterion: str, limited: bool = False) -> dict[str, Any]:
    """Fit and simulate by `NarxRegressor`, if `limited` with at most so many terms."""
    model = NarxRegressor(system.lags, system.input_lags or None, degree=system.degree, criterion=criterion)
    model.fit(*train)
    model = model.at(min(model.n_terms_, terms)) if limited else model
    past = model.max_lag_
    steps = len(test[1]) - past if test[0] is None else None
    free = model.simulate(test[0], test[1][:past], n_steps=steps)
    return {"terms": model.n_terms_, **errors(test[1], free, model.predict(*test), past)}


def errors(y: np.ndarray, free: np.ndarray, one_step: np.ndarray, past: int) -> dict[str, float]:
    """Root mean squared errors in units of the standard deviation, after the initial rows."""
    found = {"free_run": free, "one_step": one_step, "persistence": np.r_[y[:1], y[:-1]]}
    return {name: float(np.sqrt(np.mean((y - value)[past:] ** 2)) / y[past:].std()) for name, value in found.items()}


METHODS: dict[str, Callable[[System, Rows, Rows, int], dict[str, Any]]] = {
    "SysIdentPy": sysidentpy,
    "NarxRegressor, tcr": partial(ours, criterion="tcr"),
    "NarxRegressor, free_run": partial(ours, criterion="free_run"),
    "NarxRegressor, free_run, at most as many terms": partial(ours, criterion="free_run", limited=True),
}


def compare(system: System) -> None:
    theirs: dict[str, float] = {}
    sizes = [0] * system.seeds
    for method, run in METHODS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of diverging simulations, whose errors tell
            found = [run(system, *system.draw(seed), sizes[seed]) for seed in range(system.seeds)]
        sizes = [one["terms"] for one in found] if method == "SysIdentPy" else sizes
        means = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
        theirs = theirs or means
        flags = {
            "no_worse": means["free_run"] <= 1.0005 * theirs["free_run"],
            "no_larger": means["terms"] <= theirs["terms"],
        }
        flags["both"] = flags["no_worse"] and flags["no_larger"]
        shown = {name: float(f"{value:.6g}") for name, value in means.items() if np.isfinite(value)}
        emit(benchmark="narx", set=system.name, source=system.source, method=method, seeds=system.seeds,
             lags=system.lags, degree=system.degree, **shown, **flags if method != "SysIdentPy" else {})  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the example data of SysIdentPy")
    parser.add_argument("--sets", nargs="*", help="names of data sets; all by default")
    arguments = parser.parse_args()
    emit(benchmark="narx", **machine(), sysidentpy=version("sysidentpy"))
    own = [] if arguments.data is None else list(examples(arguments.data))
    for system in [*own, *generators(), *systems()]:
        if not arguments.sets or system.name in arguments.sets:
            compare(system)


if __name__ == "__main__":
    main()
