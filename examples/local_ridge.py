"""Fifty Gaussians on fifty noisy samples of a sine wave: one common penalty, and one penalty per term.

Draws the figure of docs/methods/ridge.md: python examples/local_ridge.py [FILE]
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from termwise import BasisRidge, LocalRidge, RadialBasis, datasets

X, y = datasets.make_sine(random_state=2)
grid = np.linspace(0, 1, 400)[:, None]
models = {
    "One common penalty": BasisRidge(RadialBasis(width=0.05), alpha="gcv"),
    "One penalty per term: most are pruned": LocalRidge(RadialBasis(width=0.05), selection_cv=10),
}

plt.rcParams.update({"svg.hashsalt": "termwise", "svg.fonttype": "none", "font.size": 10})
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
for axis, (title, model) in zip(axes, models.items(), strict=True):
    model.fit(X, y)
    lower, upper = model.predict_interval(grid, coverage=0.9)
    rmse = np.sqrt(np.mean((model.predict(grid) - np.sin(12 * grid[:, 0])) ** 2))
    axis.fill_between(grid[:, 0], lower, upper, color="#56B4E9", alpha=0.25, lw=0, label="90 % interval")
    axis.plot(grid, np.sin(12 * grid), color="0.6", ls="--", lw=1, label="true function")
    axis.plot(grid, model.predict(grid), color="#0072B2", label="model")
    axis.plot(X, y, ".", color="black", ms=4, label="samples")
    axis.plot(X[model.support_], np.full(model.n_terms_, -1.45), "|", color="#D55E00", ms=9, label="centres")
    axis.set_title(f"{title}\n{model.n_terms_} terms, error {rmse:.3f}", fontsize=10)
    axis.set_xlabel("x")
axes[0].set_ylabel("y")
axes[1].legend(fontsize=8, loc="lower left", bbox_to_anchor=(1.01, 0.2), frameon=False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "local_ridge.svg", metadata={"Date": None})
