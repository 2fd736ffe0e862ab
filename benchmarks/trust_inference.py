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
    return np.linalg.lstsq(A, mean, rcond=None)[0][1:]


def mean_and_error(values: list[float], digits: int = 4) -> list[float]:
    """Return the mean over the draws and its standard error."""
    array = np.array(values, dtype=np.float64)
    return [round(float(array.mean()), digits), round(float(array.std() / max(1, len(array) - 1) ** 0.5), digits)]


def coverage_of_draws(covered: list[NDArray[np.bool_]]) -> list[float]:
    """Return the share of covered parameters over all draws, and its standard error with draws as clusters."""
    sizes = np.array([len(one) for one in covered])
    hits = np.array([one.sum() for one in covered])
    share = hits.sum() / max(1, sizes.sum())
    error = np.sqrt(np.sum((hits - share * sizes) ** 2)) / max(1, sizes.sum())
    return [round(float(share), 4), round(float(error), 4)]


def measure_inference(n: int, p: int, criterion: str, noise: str, share: float, seeds: range) -> dict[str, Any]:
    """Measure coverage, length and power of one cell."""
    covered, naive, lengths, power, variances, sizes = [], [], [], [], [], []
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
        lengths.extend(np.median(result.upper - result.lower, keepdims=True) if len(truth) else [])
        power.append(float(np.sum((result.p_value < 1 - LEVEL) & (result.support < N_RELEVANT))) / N_RELEVANT)
        variances.append(result.noise_variance)
        sizes.append(len(truth))
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
        "coverage": coverage_of_draws(covered),
        "coverage_given_the_terms": coverage_of_draws(naive),
        "median_length": mean_and_error(lengths) if lengths else None,
        "power": mean_and_error(power) if power else None,
        "noise_variance": mean_and_error(variances) if variances else None,
        "terms": mean_and_error([float(size) for size in sizes]) if sizes else None,
        "n_terms": int(sum(sizes)),
        "refused": refused,
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


def cases(small: bool) -> list[Callable[[], dict[str, Any]]]:
    """Return independent jobs, each of at most about a minute on one core."""
    blocks, draws = (1, 20) if small else (10, 100)
    jobs: list[Callable[[], dict[str, Any]]] = []
    for block in range(blocks):
        seeds = range(block * draws, (block + 1) * draws)
        jobs += [partial(measure_inference, *cell, "normal", 0.5, seeds) for cell in CELLS]
        for noise in OTHER_NOISE:
            jobs += [partial(measure_inference, *cell, noise, 0.5, seeds) for cell in CELLS if cell[2] == "tcr"]
        jobs += [partial(measure_inference, 200, 100, "tcr", "normal", share, seeds) for share in (0.3, 0.7)]
        few = range(seeds.start, seeds.start + max(2, draws // 10))
        jobs += [partial(measure_stability, *cell, 50, few) for cell in CELLS if cell[2] == "tcr"]
    return jobs
