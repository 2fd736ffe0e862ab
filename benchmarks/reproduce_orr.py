"""Orr (1996), examples 4.5, 5.3, 6.5 and 7.4 with figures 7 to 14: ridge, local ridge and forward selection.

Orr shows one draw of each example and gives few numbers. Ours are means over random draws; a number that he gives
without a standard deviation is compared in standard deviations between our draws. The figures show draw 0. Models have
no intercept, and Gaussians of the width of the example are centred on the samples. Errors are those of the fit against
the target without noise, on 250 test points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _reproduce import Record, cell
from numpy.typing import NDArray

from termwise import BasisRidge, LocalRidge, RadialBasis, datasets, forward_path, reestimate_alpha

TITLE = "Orr (1996): ridge regression, local ridge regression and forward selection of radial basis functions"
needs_data = False
CRITERIA = ("uev", "fpe", "gcv", "bic", "loo")
PENALTIES = np.logspace(-10, 5, 61)
FITS = (1e-10, 1e-5, 1.0, 1e5)  # penalties of Figure 9
SEED_OF_TESTS = 10_000
FLOPS = "Floating-point operations were counted by Orr's version of Matlab; ours are not counted."
# (matrix, way to compute it): floating-point operations
TABLE_2 = {("inverse", "from scratch"): 156, ("inverse", "incremental"): 71,
           ("projection", "from scratch"): 117, ("projection", "incremental"): 30}  # fmt: skip
# example, quantity, field of the result, the paper's number, whether lower is better
NUMBERS: tuple[tuple[str, str, str, float, bool | None], ...] = (
    ("4.5", "intercept of the line", "intercept", 0.0, None),
    ("4.5", "slope of the line", "slope", 1.0, None),
    ("4.5", "sum of squared errors", "sse", 0.06, None),
    ("5.3, Figure 8", "log10 penalty of least MSE", "best_mse", 0.0, None),
    *(("5.3, Figure 8", f"log10 penalty of least {name.upper()}", f"best_{name}", 0.0, None) for name in CRITERIA),
    ("6.5, Figure 10", "log10 penalty of least RMSE", "best_rmse", -1.0, None),
    ("6.5, Figure 11", "log10 penalty re-estimated from 1e-2", "from_1e-2", -1.0, None),
    ("6.5, Figure 11", "log10 penalty re-estimated from 1e-5", "from_1e-5", float(np.log10(2.1e-4)), None),
    ("6.5", "GCV of the best single penalty", "global_gcv", 0.016, True),
    ("6.5", "GCV of local ridge", "local_gcv", 0.009, True),
    ("6.5", "units pruned by local ridge", "pruned", 18, False),
    ("7.4, Figure 13", "terms at the least GCV", "terms", 13, True),
    ("7.4, Figure 13", "terms at which G'G is ill-conditioned", "conditioned", 19, None),
    ("7.4, Figure 14", "MSE of regularised relative to plain selection", "ratio", 1.0, True),
)
REASONS = {
    "conditioned": (
        "Orr does not define ill-conditioned: the condition number of G'G exceeds 1e10 after 18 and 1e12 after 20 "
        "terms on average, and the reciprocal of the machine precision, our definition, after 25."
    )
}


def jobs(quick: bool, repeats: int | None) -> Iterator[Record]:
    """One job per example and draw."""
    yield {"example": "4.5", "draw": 0}
    for draw in range(repeats or (20 if quick else 200)):
        for example in ("5.3", "6.5", "7.4"):
            yield {"example": example, "draw": draw}


def run(job: Record) -> Record:
    """Return the numbers of an example, and the curves of its figures for draw 0."""
    if job["example"] == "4.5":
        X, y = datasets.make_line()
        line = BasisRidge(alpha=0.0).fit(X, y)
        residuals = y - line.predict(X)
        return {"intercept": float(line.intercept_), "slope": float(line.coef_[0]), "sse": float(residuals @ residuals)}
    numbers, curves = {"5.3": hermite, "6.5": sine, "7.4": logistic}[job["example"]](job["draw"])
    return numbers | (curves if job["draw"] == 0 else {})


def example(make: Callable[..., Any], draw: int, width: float) -> dict[str, NDArray[Any]]:
    """Return samples and their design matrix, then 250 test points in order, the target there, and theirs."""
    X, y = make(random_state=draw)
    X_new, target = make(250, noise=0, random_state=SEED_OF_TESTS + draw)
    order = np.argsort(X_new[:, 0])
    basis = RadialBasis(width=width).fit(X)
    return {"X": X, "y": y, "grid": X_new[order], "target": target[order], "G": basis.transform(X),
            "new": basis.transform(X_new[order])}  # fmt: skip


def ridge_curves(data: dict[str, NDArray[Any]]) -> dict[str, list[float]]:
    """Return every criterion, the effective number of parameters and the MSE by penalty."""
    models = [BasisRidge(alpha=alpha, fit_intercept=False).fit(data["G"], data["y"]) for alpha in PENALTIES]
    curves = {name: [float(model.criteria_[name]) for model in models] for name in CRITERIA}
    curves["mse"] = [float(np.mean((model.predict(data["new"]) - data["target"]) ** 2)) for model in models]
    curves["dof"] = [float(model.effective_dof_) for model in models]
    return curves


def best_penalty(values: list[float]) -> float:
    """Return the decimal logarithm of the penalty with the least value."""
    return float(np.log10(PENALTIES[int(np.argmin(values))]))


def plotted(data: dict[str, NDArray[Any]]) -> dict[str, list[float]]:
    """Return the samples, the grid and the target."""
    return {"x": data["X"][:, 0].tolist(), "y": data["y"].tolist(), "grid": data["grid"][:, 0].tolist(),
            "target": data["target"].tolist()}  # fmt: skip


def hermite(draw: int) -> tuple[Record, Record]:
    """Example 5.3: criteria by penalty."""
    data = example(datasets.make_hermite, draw, 0.5)
    curves = ridge_curves(data)
    fit = BasisRidge(alpha="gcv", fit_intercept=False).fit(data["G"], data["y"]).predict(data["new"])
    numbers = {f"best_{name}": best_penalty(curves[name]) for name in (*CRITERIA, "mse")}
    return numbers, {"curves": curves, "fit": fit.tolist(), **plotted(data)}


def sine(draw: int) -> tuple[Record, Record]:
    """Example 6.5: GCV by penalty, re-estimation, local ridge."""
    data = example(datasets.make_sine, draw, 0.05)
    G, y, curves = data["G"], data["y"], ridge_curves(data)
    starts = {f"from_{start}": reestimate_alpha(G, y, float(start), fit_intercept=False) for start in ("1e-2", "1e-5")}
    single = BasisRidge(alpha="gcv", fit_intercept=False).fit(G, y)
    local = LocalRidge(alpha=single.alpha_, fit_intercept=False).fit(G, y)
    numbers = {
        "best_rmse": best_penalty(curves["mse"]),
        **{name: float(np.log10(np.clip(alpha, PENALTIES[0], PENALTIES[-1]))) for name, alpha in starts.items()},
        "global_gcv": float(local.gcv_path_[0]),
        "local_gcv": float(local.gcv_path_[-1]),
        "pruned": len(y) - int(local.n_terms_),
    }
    fits = [BasisRidge(alpha=alpha, fit_intercept=False).fit(G, y).predict(data["new"]).tolist() for alpha in FITS]
    return numbers, {"curves": curves, "fits": fits, **plotted(data)}


def logistic(draw: int) -> tuple[Record, Record]:
    """Example 7.4: plain and regularised forward selection."""
    data = example(datasets.make_logistic, draw, 2.0)
    curves, fits, sizes = {}, {}, {}
    for name, alpha in (("plain", 0.0), ("regularised", "reestimate")):
        path = forward_path(data["G"], data["y"], rule="sse", alpha=alpha, fit_intercept=False)
        predicted = [data["new"][:, path.terms[:k]] @ path.coef(k)[0] for k in range(1, len(path.steps))]
        curves[name] = {
            "sse": [float(step.sse) for step in path.steps[1:]],
            "gcv": [float(step.gcv) for step in path.steps[1:]],
            "mse": [float(np.mean((fit - data["target"]) ** 2)) for fit in predicted],
        }
        sizes[name] = max(int(path.choose("gcv")), 1)
        fits[name] = predicted[sizes[name] - 1].tolist()
        if name == "plain":
            roots = [np.linalg.cond(data["G"][:, path.terms[:k]]) for k in range(1, len(path.steps))]
    ill = np.flatnonzero(np.square(roots) > 1 / np.finfo(np.float64).eps)
    mse = {name: curves[name]["mse"][size - 1] for name, size in sizes.items()}
    numbers = {
        "terms": sizes["plain"],
        "conditioned": int(ill[0]) if len(ill) else len(roots),
        "ratio": mse["regularised"] / mse["plain"],
    }
    return numbers, {"selection": curves, "fit": fits["plain"], "sizes": sizes, **plotted(data)}


def cells(records: list[Record]) -> list[Record]:
    """Return the numbers in the text, and Table 2, which is not attempted."""
    found = []
    for where, quantity, field, paper, lower_is_better in NUMBERS:
        values = [one[field] for one in records if one["example"] == where[:3] and field in one]
        place = ("Examples", f"{where}: {quantity}", "mean over draws", "number")
        found.append(cell(place, values, (paper, None), lower_is_better, REASONS.get(field, "")))
    for (matrix, way), flops in TABLE_2.items():
        found.append(cell(("Table 2", matrix, way, "operations"), [], (flops, None), reason=FLOPS))
    return found


def figures(records: list[Record]) -> Iterator[tuple[str, Any]]:
    """Draw figures 7 to 14 for draw 0."""
    first = {one["example"]: one for one in records if one["draw"] == 0}
    drawings = {"5.3": [figures_7_and_8], "6.5": [figure_9, figures_10_and_11], "7.4": [figure_12, figures_13_and_14]}
    for name, draws in drawings.items():
        for draw in draws if name in first else []:
            yield draw.__name__, draw(first[name])


def panels(count: int, columns: int | None = None) -> tuple[Any, list[Any]]:
    """Return a figure and its axes."""
    import matplotlib.pyplot as plt

    columns = columns or count
    figure, axes = plt.subplots(-(-count // columns), columns, squeeze=False, layout="constrained",
                                figsize=(3.4 * columns, 2.8 * -(-count // columns)))  # fmt: skip
    return figure, list(axes.flat)


def draw_fit(axes: Any, one: Record, fit: list[float], title: str) -> None:
    """Draw samples, target and fit."""
    axes.plot(one["x"], one["y"], "x", color="C0", markersize=4, label="samples")
    axes.plot(one["grid"], one["target"], "--", color="C4", label="target")
    axes.plot(one["grid"], fit, color="C3", label="fit")
    low, high = min(one["y"]), max(one["y"])
    axes.set(title=title, ylim=(low - 0.5 * (high - low), high + 0.5 * (high - low)))


def figures_7_and_8(one: Record) -> Any:
    """Samples, target and fit; criteria and MSE by penalty."""
    figure, (left, right) = panels(2)
    draw_fit(left, one, one["fit"], "Figure 7")
    for name in (*CRITERIA, "mse"):
        right.loglog(PENALTIES, one["curves"][name], "--" if name == "mse" else "-", label=name.upper())
    right.set(xlabel="penalty", title="Figure 8", xlim=(1e-4, 1e3), ylim=(1e-3, 1))
    right.legend(fontsize="small", ncols=2)
    return figure


def figure_9(one: Record) -> Any:
    """Fits with four penalties."""
    figure, axes = panels(4, 2)
    for panel, alpha, fit in zip(axes, FITS, one["fits"], strict=True):
        draw_fit(panel, one, fit, f"Figure 9, penalty {alpha:g}")
    return figure


def figures_10_and_11(one: Record) -> Any:
    """Effective number of parameters, RMSE and GCV by penalty; the least RMSE and GCV are marked."""
    figure, axes = panels(3)
    curves = {"dof": one["curves"]["dof"], "RMSE": np.sqrt(one["curves"]["mse"]), "GCV": one["curves"]["gcv"]}
    for panel, (name, values), title in zip(axes, curves.items(), ("10 (a)", "10 (b)", "11"), strict=True):
        panel.plot(PENALTIES, values)
        panel.set(xscale="log", xlabel="penalty", ylabel=name, title=f"Figure {title}")
        if name != "dof":
            panel.set_yscale("log")
            panel.plot(PENALTIES[np.argmin(values)], np.min(values), "*", markersize=10)
    return figure


def figure_12(one: Record) -> Any:
    """Samples, target and fit of forward selection."""
    figure, (axes,) = panels(1)
    draw_fit(axes, one, one["fit"], f"Figure 12, {one['sizes']['plain']} terms")
    axes.legend(fontsize="small")
    return figure


def figures_13_and_14(one: Record) -> Any:
    """SSE, GCV and MSE along both paths; the least GCV is marked."""
    figure, axes = panels(2)
    for panel, (name, curves), number in zip(axes, one["selection"].items(), (13, 14), strict=True):
        for label, values in curves.items():
            panel.semilogy(range(1, len(values) + 1), values, label=label.upper())
        best = one["sizes"][name]
        panel.plot(best, curves["gcv"][best - 1], "*", markersize=10)
        panel.set(xlabel="terms", title=f"Figure {number}, {name}")
    axes[0].legend(fontsize="small")
    return figure
