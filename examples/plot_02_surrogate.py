"""
A surrogate for an expensive function
=====================================

A simulation takes hours, so that only 150 runs are affordable. A few Gaussians fitted to these runs evaluate in
microseconds, come with standard errors, and are small enough to be exported as a formula.
"""

# %%
# The simulation is the Branin function, a standard test function with three equal minima. The design is a Sobol
# sequence; the runs have a small numerical noise.
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import qmc
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from termwise import CriterionSearch, ForwardRegressor, RadialBasis


def simulate(X):
    """Branin's function."""
    x, y = X[:, 0], X[:, 1]
    valley = y - 5.1 * x**2 / (4 * np.pi**2) + 5 * x / np.pi - 6
    return valley**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10


rng = np.random.default_rng(0)
X = qmc.scale(qmc.Sobol(2, rng=0).random(256)[:150], [-5, 0], [10, 15])
y = simulate(X) + 0.5 * rng.normal(size=150)

# %%
# The candidates are Gaussians centred on the runs. Terms are selected by exact leave-one-out; with so little noise
# leave-one-out can choose the number of terms and the width as well. Each width is fitted once, without
# cross-validation.
basis = make_pipeline(StandardScaler(), RadialBasis())
model = ForwardRegressor(basis, criterion="loo", refit_alpha="loo")
search = CriterionSearch(model, {"basis__radialbasis__width": [0.5, 0.7, 1.0, 1.4, 2.0]}).fit(X, y)
surrogate = search.best_estimator_
print(search.best_params_, surrogate.n_terms_, "Gaussians of", len(X))
print(f"leave-one-out error {np.sqrt(surrogate.criterion_value_):.2f}, range of the function {np.ptp(y):.0f}")

# %%
# Predictions and standard errors between the runs. The standard error is that of the function; it is larger at the
# corners, where there are few runs.
axis_x, axis_y = np.linspace(-5, 10, 80), np.linspace(0, 15, 80)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(axis_x, axis_y)])
mean, std = surrogate.predict(grid, return_std=True)
truth = simulate(grid)
print(f"root mean squared error on the grid: {np.sqrt(np.mean((mean - truth) ** 2)):.2f}")

figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
levels = [0, 2, 5, 10, 20, 35, 55, 80, 110, 150, 200, 300]
centers = X[surrogate.support_]
for panel, values, title in zip(axes, (truth, mean, std), ("simulation", "surrogate", "standard error"), strict=True):
    shape = values.reshape(80, 80)
    steps = np.linspace(0, 1, 11) if title == "standard error" else levels
    norm = plt.matplotlib.colors.BoundaryNorm(steps, 256, extend="both")
    colours = panel.contourf(axis_x, axis_y, shape, steps, cmap="viridis", norm=norm, extend="both")
    panel.set(title=title, xlabel="x")
    figure.colorbar(colours, ax=panel, shrink=0.8)
axes[0].plot(*X.T, "w.", ms=2)
axes[1].plot(*centers.T, "w+", ms=5)
axes[0].set_ylabel("y")
plt.show()

# %%
# Dots are the runs, crosses the selected centres. The minimum of the surrogate is close to one of the three true
# minima, where a further simulation would be informative.
best = grid[np.argmin(mean)]
print("smallest prediction at", best.round(2), "true value there", simulate(best[None]).round(2))
