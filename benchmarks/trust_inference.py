"""Inference after selection and stability of the selection, on simulated data.

Inference: coverage of confidence intervals for the projection of the mean on the selected terms, mean length, and power
(the share of the relevant inputs that are selected with an interval that excludes zero), beside the same numbers of
intervals from the standard errors given the terms. Stability: how often relevant and irrelevant inputs are selected on
halves of the samples.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from termwise import ForwardRegressor, inference, stability

Floats = NDArray[np.float64]

N_RELEVANT = 5
SNR = 0.5  # variance of the signal over that of the noise
LEVEL = 0.95
CELLS = [(200, 100, "tcr"), (200, 100, "loo"), (100, 500, "tcr"), (100, 500, "loo")]
COUNTS = ("draws", "first_seed", "refused", "n_terms")  # that differ between records of one cell
OTHER_NOISE = ("t3", "exponential", "heteroscedastic")


def draw(n: int, p: int, noise: str, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return inputs, the mean of the targets and the targets; the first `N_RELEVANT` inputs are relevant."""
    X = rng.normal(size=(n, p))
    mean = X[:, :N_RELEVANT] @ (rng.choice([-1.0, 1.0], size=N_RELEVANT) * (SNR / N_RELEVANT) ** 0.5)
    errors = {
        "normal": lambda: rng.normal(size=n),
        "t3": lambda: rng.standard_t(3, size=n) / 3**0.5,
        "exponential": lambda: rng.exponential(size=n) - 1,
        "heteroscedastic": lambda: rng.normal(size=n) * np.abs(X[:, 0]),
    }[noise]()
    return X, mean, mean + errors


def projection(X: Floats, support: NDArray[np.intp], mean: Floats) -> Floats:
    """Coefficients of the projection of the mean on the selected columns and the constant."""
    A = np.column_stack([np.ones(len(X)), X[:, support]])
    return np.asarray(np.linalg.lstsq(A, mean, rcond=None)[0][1:], dtype=np.float64)


def mean_and_error(values: Any) -> list[float] | None:
    """Return the mean over the draws and its standard error."""
    array = np.asarray(values, dtype=np.float64)
    if not len(array):
        return None
    return [round(float(array.mean()), 4), round(float(array.std() / max(1, len(array) - 1) ** 0.5), 4)]


def coverage_of_draws(covered: list[NDArray[np.bool_]]) -> list[float]:
    """Return the share of covered parameters over all draws, and its standard error with draws as clusters."""
    sizes = np.array([len(one) for one in covered])
    hits = np.array([one.sum() for one in covered])
    share = hits.sum() / max(1, sizes.sum())
    error = np.sqrt(np.sum((hits - share * sizes) ** 2)) / max(1, sizes.sum())
    return [round(float(share), 4), round(float(error), 4)]


def measure_inference(n: int, p: int, criterion: str, noise: str, share: float, seeds: range) -> dict[str, Any]:
    """Measure coverage, length and power of one cell."""
    covered: list[NDArray[np.bool_]] = []
    naive: list[NDArray[np.bool_]] = []
    rows: list[tuple[float, ...]] = []
    refused = 0
    quantile = stats.norm.ppf((1 + LEVEL) / 2)
    for seed in seeds:
        X, mean, y = draw(n, p, noise, np.random.default_rng(seed))
        estimator = ForwardRegressor(criterion=criterion)
        model = estimator.fit(X, y)
        gap = np.abs(model.weights_ - projection(X, model.support_, mean))
        naive.append(gap <= quantile * np.sqrt(np.diag(model.weights_cov_)))
        try:
            result = inference(estimator, X, y, LEVEL, selection_share=share, random_state=seed)
        except ValueError:  # the selected model interpolates
            refused += 1
            continue
        truth = projection(X, result.support, mean)
        covered.append((result.lower <= truth) & (truth <= result.upper))
        found = (result.p_value < 1 - LEVEL) & (result.support < N_RELEVANT)
        length = float(np.median(result.upper - result.lower)) if len(truth) else np.nan
        rows.append((length, float(found.sum()) / N_RELEVANT, result.noise_variance, float(len(truth))))
    lengths, power, variance, size = np.array(rows).reshape(-1, 4).T
    return {
        "study": "inference",
        "n": n,
        "p": p,
        "snr": SNR,
        "criterion": criterion,
        "noise": noise,
        "selection_share": share,
        "draws": len(seeds),
        "first_seed": seeds[0],
        "nominal": LEVEL,
        "refused": refused,
        "n_terms": int(size.sum()),
        "coverage": coverage_of_draws(covered),
        "coverage_given_the_terms": coverage_of_draws(naive),
        "median_length": mean_and_error(lengths[~np.isnan(lengths)]),
        "power": mean_and_error(power),
        "noise_variance": mean_and_error(variance),
        "terms": mean_and_error(size),
    }


def measure_stability(n: int, p: int, criterion: str, n_repeats: int, seeds: range) -> dict[str, Any]:
    """Measure how often relevant and irrelevant inputs are selected, on average and at most."""
    relevant, irrelevant, most = [], [], []
    for seed in seeds:
        X, _, y = draw(n, p, "normal", np.random.default_rng(seed))
        result = stability(ForwardRegressor(criterion=criterion), X, y, n_repeats, random_state=seed)
        relevant.append(float(result.input_frequency[:N_RELEVANT].mean()))
        irrelevant.append(float(result.input_frequency[N_RELEVANT:].mean()))
        most.append(float(result.input_frequency[N_RELEVANT:].max()))
    return {
        "study": "stability",
        "n": n,
        "p": p,
        "snr": SNR,
        "criterion": criterion,
        "n_repeats": n_repeats,
        "draws": len(seeds),
        "first_seed": seeds[0],
        "relevant": mean_and_error(relevant),
        "irrelevant": mean_and_error(irrelevant),
        "most_frequent_irrelevant": mean_and_error(most),
    }


def pooled(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the records of one cell with different seeds: measured values are averaged, weighted by terms or draws."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        settings = {k: v for k, v in record.items() if not isinstance(v, list | None) and k not in COUNTS}
        cells.setdefault(tuple(settings.items()), []).append(record)
    joined = []
    for settings_of_cell, blocks in cells.items():
        counts = {name: sum(block[name] for block in blocks) for name in COUNTS if name in blocks[0]}
        counts["first_seed"] = min(block["first_seed"] for block in blocks)
        result = {**dict(settings_of_cell), **counts}
        for name in (key for key, value in blocks[0].items() if isinstance(value, list)):
            measured = [block for block in blocks if block[name] is not None]
            weights = np.array([block["n_terms" if name == "coverage" else "draws"] for block in measured], dtype=float)
            values, errors = np.array([block[name] for block in measured]).T
            weights /= weights.sum()
            result[name] = [round(float(weights @ values), 4), round(float(np.linalg.norm(weights * errors)), 4)]
        joined.append(result)
    return joined


def cases(small: bool) -> list[Callable[[], dict[str, Any]]]:
    """Return independent jobs, each of at most about a minute on one core."""
    blocks, draws = (1, 20) if small else (4, 25)
    jobs: list[Callable[[], dict[str, Any]]] = []
    for block in range(blocks):
        seeds = range(block * draws, (block + 1) * draws)
        jobs += [partial(measure_inference, *cell, "normal", 0.5, seeds) for cell in CELLS]
        for noise in OTHER_NOISE:
            jobs += [partial(measure_inference, *cell, noise, 0.5, seeds) for cell in CELLS if cell[2] == "tcr"]
        jobs += [partial(measure_inference, 200, 100, "tcr", "normal", share, seeds) for share in (0.3, 0.7)]
        if not small:  # these cells are fast
            more = range(1000 + 3 * seeds.start, 1000 + 3 * seeds.stop)
            jobs += [partial(measure_inference, *cell, "normal", 0.5, more) for cell in CELLS if cell[2] == "tcr"]
        few = range(seeds.start, seeds.start + max(2, draws // 10))
        jobs += [partial(measure_stability, *cell, 50, few) for cell in CELLS if cell[2] == "tcr"]
    return jobs
