"""Pahikkala et al. (2010), Figure 3: CPU seconds of greedy RLS, by the number of samples, with today's peers.

Two normal distributions, one per class, with 1,000 features of which 50 are selected, as in the paper. The paper's
baseline, low-rank updated LS-SVM, is in this file, for up to 2,000 samples. Peers that are not installed are left out.
The paper reports no accuracy and names no data set; the accuracy by number of features is of the two-class sets of
`termwise.datasets`, for greedy RLS and orthogonal matching pursuit on the same splits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from _reproduce import Record, cell, group
from numpy.typing import NDArray
from sklearn.linear_model import orthogonal_mp
from sklearn.preprocessing import StandardScaler

from termwise import datasets, forward_path

TITLE = "Pahikkala et al. (2010): greedy regularised least squares"
N_FEATURES, N_SELECTED, PENALTY = 1000, 50, 1.0
SAMPLES = {False: (500, 1000, 2000, 5000, 10_000, 20_000, 50_000), True: (500, 1000, 2000, 5000)}
MAX_BASELINE, MAX_QUICK_BASELINE = 2000, 1000
BASELINE, GREEDY_RLS = "low-rank updated LS-SVM", "greedy RLS (termwise)"
OPTIONAL = {"fastcan": "fastcan", "abess": "abess", "RLScore": "rlscore"}
TWELVE_MINUTES = 720.0
REASONS = {
    "exponent of the time in the number of samples": (
        "It grows from 1.78 between 500 and 1,000 samples to 1.89 between 1,000 and 2,000: for few samples "
        "operations of linear cost still count."
    )
}


def jobs(quick: bool, repeats: int | None) -> Iterator[Record]:
    """One job per method, number of samples and repeat; then one per two-class set and split."""
    methods = [
        GREEDY_RLS,
        BASELINE,
        "OMP (scikit-learn)",
        *(name for name, module in OPTIONAL.items() if find_spec(module)),
    ]
    for repeat in range(repeats or (1 if quick else 3)):
        for n in SAMPLES[quick]:
            for method in methods:
                if method != BASELINE or n <= (MAX_QUICK_BASELINE if quick else MAX_BASELINE):
                    yield {"part": "time", "method": method, "samples": n, "repeat": repeat}
    for split in range(repeats or (3 if quick else 20)):
        for name in ("german", "heart") if quick else ("breast-cancer", "diabetis", "german", "heart", "waveform"):
            yield {"part": "accuracy", "set": name, "split": split}


def run(job: Record) -> Record:
    """Return CPU seconds and the features selected, or error rates by the number of features."""
    if job["part"] == "accuracy":
        return error_curves(job["set"], job["split"])
    X, y = two_normals(job["samples"], job["repeat"])
    select = selectors()[job["method"]]
    start = time.process_time()
    chosen = select(X, y)
    return {"seconds": time.process_time() - start, "chosen": [int(j) for j in chosen]}


def two_normals(n: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return samples of two normal distributions whose means differ in every tenth feature, and labels -1 and +1."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], size=n)
    X = rng.normal(size=(n, N_FEATURES))
    X[:, ::10] += np.outer(y, rng.uniform(0.0, 0.3, size=N_FEATURES // 10))
    return X, y


def selectors() -> dict[str, Callable[[NDArray[Any], NDArray[Any]], Any]]:
    """Return a function for each method, from data to the features selected."""
    return {
        GREEDY_RLS: greedy_rls,
        BASELINE: low_rank_ls_svm,
        "OMP (scikit-learn)": matching_pursuit,
        "fastcan": fastcan,
        "abess": best_subset,
        "RLScore": rlscore,
    }


def greedy_rls(X: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Select by the exact leave-one-out error."""
    return forward_path(X, y, rule="loo", alpha=PENALTY, max_terms=N_SELECTED, fit_intercept=False).terms


def low_rank_ls_svm(X: NDArray[Any], y: NDArray[Any]) -> list[int]:
    """Select by the same criterion with the inverse of the kernel matrix (Ojeda, Suykens and De Moor 2008).

    With `C = (K + alpha I)^-1` and `a = C y` the leave-one-out residuals are `a_i / C_ii`; a feature v adds `v v'` to
    K, which changes C by a matrix of rank one.
    """
    inverse = np.eye(len(y)) / PENALTY
    chosen: list[int] = []
    for _ in range(N_SELECTED):
        V = inverse @ X
        den = 1 + np.einsum("ij,ij->j", X, V)
        dual = (inverse @ y)[:, None] - V * (y @ V / den)
        errors = np.sum((dual / (np.diagonal(inverse)[:, None] - V**2 / den)) ** 2, axis=0)
        errors[chosen] = np.inf
        j = int(np.argmin(errors))
        chosen.append(j)
        inverse -= np.outer(V[:, j], V[:, j] / den[j])
    return chosen


def matching_pursuit(X: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Select by the correlation with the residual."""
    return np.flatnonzero(orthogonal_mp(X / np.linalg.norm(X, axis=0), y, n_nonzero_coefs=N_SELECTED, precompute=True))


def fastcan(X: NDArray[Any], y: NDArray[Any]) -> Any:
    """Select by canonical correlation."""
    from fastcan import FastCan

    return FastCan(n_features_to_select=N_SELECTED, verbose=0).fit(X, y).indices_


def best_subset(X: NDArray[Any], y: NDArray[Any]) -> Any:
    """Select by splicing, for this number of features."""
    from abess.linear import LinearRegression

    return np.flatnonzero(LinearRegression(support_size=[N_SELECTED]).fit(X, y).coef_)


def rlscore(X: NDArray[Any], y: NDArray[Any]) -> Any:
    """Select by the authors' own implementation."""
    learners = import_module("rlscore.learner")
    return learners.GreedyRLS(X, y, N_SELECTED, regparam=PENALTY).selected


def error_curves(name: str, split: int) -> Record:
    """Return the test error rate in percent by the number of features, of each way to select them."""
    data = datasets.load(name)
    train, test = data.train[split], data.test[split]
    scaler = StandardScaler().fit(data.data[train])
    X, X_new, y = (
        scaler.transform(data.data[train]),
        scaler.transform(data.data[test]),
        data.target[train].astype(float),
    )
    scores: dict[str, NDArray[Any]] = {}
    for title, rule in (("greedy RLS", "loo"), ("greedy RLS, error count", "loo_error")):
        path = forward_path(X, y, rule=rule, alpha=PENALTY)
        sizes = range(1, len(path.steps))
        fits = [(path.terms[:k], *path.coef(k)) for k in sizes]
        scores[title] = np.column_stack([X_new[:, terms] @ w + level for terms, w, level in fits])
    coefs = orthogonal_mp(X, y - y.mean(), n_nonzero_coefs=X.shape[1], return_path=True)
    scores["OMP"] = X_new @ coefs.reshape(X.shape[1], -1) + y.mean()
    wrong = {title: score * data.target[test][:, None] <= 0 for title, score in scores.items()}
    return {title: (100 * rates.mean(axis=0)).tolist() for title, rates in wrong.items()}


def cells(records: list[Record]) -> list[Record]:
    """Return the claims on Figure 3, CPU seconds, and error rates of a few features and of all."""
    times = group([one for one in records if one["part"] == "time"], lambda one: (one["method"], one["samples"]))
    methods = list(dict.fromkeys(method for method, _ in times))
    found = [
        claim("exponent of the time in the number of samples", GREEDY_RLS, exponents(times, GREEDY_RLS), 1.0),
        claim("exponent of the time in the number of samples", BASELINE, exponents(times, BASELINE), 2.0, None),
        claim("share of choices equal to the baseline's", GREEDY_RLS, equal_choices(times), 1.0, False),
        claim(
            "CPU seconds for 50,000 samples", GREEDY_RLS, seconds(times.get((GREEDY_RLS, 50_000), [])), TWELVE_MINUTES
        ),
    ]
    sizes = sorted({n for _, n in times})
    found += [
        cell(("Figure 3", f"{n:,} samples", method, "CPU seconds"), seconds(times[method, n]))
        for n in sizes
        for method in methods
        if (method, n) in times
    ]
    for name, runs in group([one for one in records if one["part"] == "accuracy"], lambda one: one["set"]).items():
        for method in ("greedy RLS", "greedy RLS, error count", "OMP"):
            for k in (1, 3, 5, len(runs[0][method])):
                place = ("Accuracy", f"{name}, {k} features", method, "test error, percent")
                found.append(cell(place, [one[method][k - 1] for one in runs if len(one[method]) >= k]))
    return found


def claim(text: str, method: str, values: list[float], paper: float, lower_is_better: bool | None = True) -> Record:
    """Return the cell of a claim in the text, for which the paper gives no standard deviation."""
    return cell(("Claims", text, method, "number"), values, (paper, None), lower_is_better, REASONS.get(text, ""))


def seconds(runs: list[Record]) -> list[float]:
    """Return the CPU seconds of some runs."""
    return [one["seconds"] for one in runs]


def exponents(times: dict[Any, list[Record]], method: str) -> list[float]:
    """Return, for each repeat, the slope of log time over log samples."""
    runs = [one for (name, _), ones in times.items() for one in ones if name == method]
    slopes = []
    for ones in group(runs, lambda one: one["repeat"]).values():
        if len(ones) > 1:
            n, elapsed = np.log([one["samples"] for one in ones]), np.log([one["seconds"] for one in ones])
            slopes.append(float(np.polyfit(n, elapsed, 1)[0]))
    return slopes


def equal_choices(times: dict[Any, list[Record]]) -> list[float]:
    """Return, for each data set that both methods were run on, the share of steps with the same choice."""
    runs = group([one for ones in times.values() for one in ones], lambda one: (one["samples"], one["repeat"]))
    shares = []
    for ones in runs.values():
        chosen = {one["method"]: one["chosen"] for one in ones}
        if {GREEDY_RLS, BASELINE} <= chosen.keys():
            shares.append(float(np.mean(np.equal(chosen[GREEDY_RLS], chosen[BASELINE]))))
    return shares


def figures(records: list[Record]) -> Iterator[tuple[str, Any]]:
    """Draw Figure 3 with today's peers, and test error by the number of features."""
    import matplotlib.pyplot as plt

    times = group([one for one in records if one["part"] == "time"], lambda one: one["method"])
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for method, runs in times.items():
        by_size = group(runs, lambda one: one["samples"])
        sizes = sorted(by_size)
        axes.loglog(sizes, [np.mean(seconds(by_size[n])) for n in sizes], marker="o", label=method)
    axes.plot(50_000, TWELVE_MINUTES, "k*", markersize=10, label="greedy RLS, paper")
    axes.set(xlabel="samples", ylabel="CPU seconds", title="Figure 3: 50 of 1,000 features")
    axes.legend(fontsize="small")
    yield "figure_3", figure
    curves = group([one for one in records if one["part"] == "accuracy"], lambda one: one["set"])
    if not curves:
        return
    figure, panels = plt.subplots(1, len(curves), figsize=(3 * len(curves), 2.8), layout="constrained", squeeze=False)
    for axes, (name, runs) in zip(panels.flat, curves.items(), strict=True):
        for method in ("greedy RLS", "greedy RLS, error count", "OMP"):
            length = min(len(one[method]) for one in runs)
            axes.plot(range(1, length + 1), np.mean([one[method][:length] for one in runs], axis=0), label=method)
        axes.set(title=name, xlabel="features")
    panels[0, 0].set_ylabel("test error, percent")
    panels[0, 0].legend(fontsize="small")
    yield "accuracy", figure
