"""
Noisy labels
============

Two classes overlap, and every tenth label is wrong on top. :class:`~termwise.PrefilterClassifier` first filters the
labels, then fits a few Gaussians to what is left.
"""

# %%
# Two moons, a few hundred samples, ten percent of the labels flipped.
import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from termwise import PrefilterClassifier, datasets

rng = np.random.default_rng(0)
X, clean = make_moons(400, noise=0.25, random_state=0)
y = np.where(rng.uniform(size=400) < 0.1, 1 - clean, clean)
X_test, y_test = make_moons(5000, noise=0.25, random_state=1)

# %%
# Width, penalty and size come out of leave-one-out, which is known in closed form for both stages.
model = PrefilterClassifier().fit(X, y)
print(model.summary())
rival = SVC().fit(X, y)
print(f"errors on clean new samples: {1 - model.score(X_test, y_test):.1%} with {model.n_terms_} Gaussians, ", end="")
print(f"{1 - rival.score(X_test, y_test):.1%} with {rival.n_support_.sum()} support vectors")

# %%
# Left: the samples as they are labelled, the boundary and the centres. Right: the filtered labels, which stage two
# reproduces; the colour of a wrong label is that of its neighbours by then.
grid = np.stack(np.meshgrid(np.linspace(-2, 3, 120), np.linspace(-1.7, 2.2, 100)), axis=-1)
scores = model.decision_function(grid.reshape(-1, 2)).reshape(grid.shape[:2])
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
left.scatter(*X.T, c=np.where(y == 1, "#0072B2", "#E69F00"), s=8)
left.plot(*X[model.support_].T, "k+", ms=11, mew=2)
shown = right.scatter(*X.T, c=model.prefiltered_, cmap="PuOr", s=8, vmin=-1, vmax=1)
figure.colorbar(shown, ax=right, label="filtered label")
for panel in (left, right):
    panel.contour(grid[..., 0], grid[..., 1], scores, levels=[0], colors="k", linewidths=1)
left.set_title(f"{model.n_terms_} Gaussians, boundary")
right.set_title("what is left of the labels")
plt.show()

# %%
# The penalty of the filter is found by one sweep over all values at which a sample changes sides. The particle swarm
# of the paper looks at a thousand values and can at best be as good.
swarm = PrefilterClassifier(search="pso", random_state=0).fit(X, y)
print(f"leave-one-out errors: exact {model.loo_error_rate_:.2%}, swarm {swarm.loo_error_rate_:.2%}")

# %%
# With the papers' data at hand (the folder named by ``TERMWISE_DATA``), the same on one of their problems.
if "TERMWISE_DATA" in os.environ:
    banana = datasets.load("banana")
    train, test = banana.train[0], banana.test[0]
    fitted = PrefilterClassifier().fit(banana.data[train], banana.target[train])
    error = 1 - fitted.score(banana.data[test], banana.target[test])
    print(f"banana: {error:.1%} errors with {fitted.n_terms_} Gaussians; the paper has 10.7 % with 28.7 on average")
else:
    print("TERMWISE_DATA is not set: the papers' data are left out")
