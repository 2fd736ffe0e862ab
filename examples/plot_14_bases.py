"""
Basis functions
===============

A basis provides the candidate functions of a model. Each panel shows some functions of one basis, of one input or two.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from termwise import AnovaBasis, FourierBasis, LogisticBasis, RadialBasis, SmoothBasis

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, size=(60, 1))
x = np.linspace(0, 10, 300)[:, None]
bases = {
    "RadialBasis(width=1.5)": RadialBasis(width=1.5, centers=[[1.0], [4.0], [7.0], [9.0]]),
    "RadialBasis('multiquadric')": RadialBasis("multiquadric", width=1.5, centers=[[1.0], [4.0], [7.0], [9.0]]),
    "SmoothBasis([0.5, 1])": SmoothBasis(width=("median", [0.5, 1]), centers=[[2.0], [7.0]]),
    "AnovaBasis()": AnovaBasis(),
    "FourierBasis(2)": FourierBasis(2),
    "LogisticBasis(6)": LogisticBasis(6, scale=4),
}
figure, axes = plt.subplots(2, 3, figsize=(10, 4.6), sharex=True, layout="constrained")
for panel, (title, basis) in zip(axes.ravel(), bases.items(), strict=True):
    panel.plot(x, basis.fit(X).transform(x), lw=1.4)
    panel.set_title(title, fontsize=9)
    panel.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Every function has a name, which summaries and plots use.
for title, basis in bases.items():
    print(f"{title:<28} {', '.join(basis.get_feature_names_out()[:4])}, ...")

# %%
# For two inputs ``AnovaBasis`` also has products, which model interactions.
pairs = AnovaBasis(width=("spacing", 1.2)).fit(rng.uniform(0, 10, size=(200, 2)))
names = list(pairs.get_feature_names_out(["a", "b"]))
grid = np.stack(np.meshgrid(np.linspace(0, 10, 60), np.linspace(0, 10, 60)), axis=-1)
products = [j for j, name in enumerate(names) if "*" in name]
chosen = [products[0], products[2], products[9], products[-5]]
values = pairs.take(chosen).transform(grid.reshape(-1, 2))
figure, axes = plt.subplots(1, 4, figsize=(10, 2.7), sharey=True, layout="constrained")
for panel, column, j in zip(axes, values.T, chosen, strict=True):
    limit = np.abs(column).max()
    panel.contourf(
        grid[..., 0], grid[..., 1], column.reshape(60, 60), cmap="PuOr_r", levels=np.linspace(-limit, limit, 17)
    )
    panel.set_title(names[j], fontsize=7)
    panel.set_xlabel("a")
axes[0].set_ylabel("b")
plt.show()
