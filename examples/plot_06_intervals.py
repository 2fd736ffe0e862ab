"""
Coverage of prediction intervals
================================

:meth:`~termwise.BasisRidge.predict_interval` is the jackknife+: intervals from leave-one-out fits, without
distributional assumptions. This example measures their coverage.
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
# Coverage of 400 new samples in 200 repetitions. Both estimators are close to the nominal coverage, although terms and
# penalties were chosen on the same samples and the choice is not repeated for each left-out sample. With thousands of
# candidates the intervals would be too narrow.
models = {
    "ridge": BasisRidge(RadialBasis(width=0.2), alpha="loo"),
    "forward selection": ForwardRegressor(RadialBasis(width=0.2), criterion="loo", max_terms=15),
}
coverages = {name: [] for name in models}
for _ in range(200):
    X, y = draw(80, rng)
    X_new, y_new = draw(400, rng)
    for name, estimator in models.items():
        lower, upper = estimator.fit(X, y).predict_interval(X_new, coverage=0.9)
        coverages[name].append(np.mean((lower <= y_new) & (y_new <= upper)))
figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
for (name, values), colour in zip(coverages.items(), ("#0072B2", "#E69F00"), strict=True):
    print(f"{name:<17} mean coverage {np.mean(values):.1%}")
    axes.hist(values, bins=np.arange(0.7, 1.001, 0.0125), alpha=0.6, color=colour, label=name)
axes.axvline(0.9, color="k", lw=1)
axes.set(xlabel="coverage", ylabel="repetitions")
axes.legend(frameon=False)
plt.show()
