"""
Coverage of prediction intervals
================================

:meth:`~termwise.BasisRidge.predict_interval` gives intervals without distributional assumptions: jackknife+ from
leave-one-out fits for fixed terms, CV+ from models of folds for selected terms. This example measures their coverage.
"""

# %%
# A sine wave with heavy-tailed noise.
import matplotlib.pyplot as plt
import numpy as np

from termwise import BasisRidge, ForwardRegressor, RadialBasis


def draw(n, rng):
    """Return samples of the sine wave with Student t noise."""
    x = rng.uniform(0, 1, size=n)
    return x[:, None], np.sin(10 * x) + 0.15 * rng.standard_t(3, size=n)


rng = np.random.default_rng(0)
X, y = draw(80, rng)
model = BasisRidge(RadialBasis(width=0.2), alpha="loo").fit(X, y)

# %%
# Three bands: two standard errors of the function, the 90 percent jackknife+ interval for new samples, and, dotted, the
# interval under normal noise.
grid = np.linspace(0, 1, 300)[:, None]
mean, std = model.predict(grid, return_std=True)
lower, upper = model.predict_interval(grid, coverage=0.9)
half_width = 1.645 * np.sqrt(std**2 + model.noise_variance_)
figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
axes.fill_between(grid[:, 0], lower, upper, color="#56B4E9", alpha=0.3, lw=0, label="90 % jackknife+")
axes.fill_between(
    grid[:, 0], mean - 2 * std, mean + 2 * std, color="#0072B2", alpha=0.5, lw=0, label="2 standard errors"
)
for sign in (-1, 1):
    axes.plot(grid, mean + sign * half_width, ":", color="0.4", lw=1, label="90 %, normal noise" if sign > 0 else None)
axes.plot(X, y, "k.", ms=4)
axes.set(xlabel="x", ylabel="y", ylim=(-2.2, 2.2))
axes.legend(frameon=False, ncols=3)
plt.show()

# %%
# Coverage of 400 new samples in 60 repetitions: ridge regression on fixed terms, and forward selection among 200
# columns, two of which matter. Jackknife+ does not repeat the selection for each left-out sample, and its
# intervals are too narrow; those of CV+ are not.
coverages = {"ridge, jackknife+": [], "selection, jackknife+": [], "selection, CV+": []}
ridge = BasisRidge(RadialBasis(width=0.2), alpha="loo")
selection = ForwardRegressor(rule="cost", criterion="loo", max_terms=15, selection_cv=5)
for _ in range(60):
    X, y = draw(80, rng)
    X_new, y_new = draw(400, rng)
    wide = rng.normal(size=(480, 200))
    targets = wide[:, 0] - wide[:, 1] + rng.standard_t(3, size=480)
    ridge.fit(X, y)
    selection.fit(wide[:80], targets[:80])
    ends = {
        "ridge, jackknife+": (y_new, ridge.predict_interval(X_new, coverage=0.9)),
        "selection, jackknife+": (targets[80:], selection.predict_interval(wide[80:], 0.9, method="jackknife+")),
        "selection, CV+": (targets[80:], selection.predict_interval(wide[80:], 0.9)),
    }
    for name, (truth, (lower, upper)) in ends.items():
        coverages[name].append(np.mean((lower <= truth) & (truth <= upper)))
figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
for (name, values), colour in zip(coverages.items(), ("#0072B2", "#E69F00", "#009E73"), strict=True):
    print(f"{name:<22} mean coverage {np.mean(values):.1%}")
    axes.hist(values, bins=np.arange(0.4, 1.001, 0.02), alpha=0.6, color=colour, label=name)
axes.axvline(0.9, color="k", lw=1)
axes.set(xlabel="coverage", ylabel="repetitions")
axes.legend(frameon=False)
plt.show()
