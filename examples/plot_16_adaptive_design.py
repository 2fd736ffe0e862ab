"""
Where to run the simulation next
================================

A design of experiments need not be fixed in advance. `suggest` proposes points where the models of a cross-validation
disagree, away from those that are known. The error of the surrogate is compared with that on Latin hypercube designs of
the same size, and with kriging on these.
"""

# %%
# The function is the Rosenbrock function of three inputs, a curved valley with steep walls, evaluated with noise.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import qmc
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from termwise import TermwiseRegressor, suggest

bounds = [(-2, 2)] * 3
low, high = np.array(bounds).T
rng = np.random.default_rng(0)


def function(X):
    return np.sum(100 * (X[:, 1:] - X[:, :-1] ** 2) ** 2 + (1 - X[:, :-1]) ** 2, axis=1)


def simulate(X):
    return function(X) + 50 * rng.normal(size=len(X))


def latin(n):
    return qmc.scale(qmc.LatinHypercube(3, rng=n).random(n), low, high)


test = qmc.scale(qmc.Sobol(3, rng=1).random(1024), low, high)
truth = function(test)


def error(model):
    return np.sqrt(np.mean((model.predict(test) - truth) ** 2)) / truth.std()


# %%
# Three batches of 20 points are added to 20 of a Latin hypercube.
sizes = [20, 40, 60, 80]
X = latin(20)
y = simulate(X)
errors = {"suggested points": [], "Latin hypercube": [], "kriging on Latin hypercube": []}
for n in sizes:
    model = TermwiseRegressor("accurate", random_state=0).fit(X, y)
    errors["suggested points"].append(error(model))
    new = suggest(model, bounds, 20, X=X, random_state=0)
    if n < sizes[-1]:
        X, y = np.vstack([X, new]), np.append(y, simulate(new))
    design = latin(n)
    measured = simulate(design)
    errors["Latin hypercube"].append(error(TermwiseRegressor("accurate", random_state=0).fit(design, measured)))
    kernel = ConstantKernel() * RBF(np.ones(3)) + WhiteKernel(1e-2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of length-scales at the end of their range
        kriging = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(design, measured)
    errors["kriging on Latin hypercube"].append(error(kriging))

for name, values in errors.items():
    print(f"{name:<28}", np.round(values, 3))

# %%
# The left panel shows the errors, the right one the first two inputs of the points: the batches are spread over the box
# and denser at the walls, where the function is large and uncertain.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for name, values in errors.items():
    left.plot(sizes, values, "o-", label=name)
left.set(xlabel="evaluations", ylabel="error / standard deviation", ylim=(0, None))
left.legend()
for start, end in zip([0, *sizes], sizes, strict=False):
    right.plot(*X[start:end, :2].T, "o", ms=4, label=f"up to {end}")
right.set(xlabel="x0", ylabel="x1")
right.legend(loc="upper right")
plt.show()
