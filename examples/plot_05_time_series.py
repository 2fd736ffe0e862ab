"""
System identification with lagged inputs
========================================

The level of a tank depends nonlinearly on its past and on a valve. Lagged values are the columns, terms are selected
among these and their products, and the model is evaluated by simulation.
"""

# %%
# The outflow is proportional to the square root of the level. The valve position is random; the level is observed with
# noise.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from termwise import BasisRidge, ForwardRegressor, LagBasis

rng = np.random.default_rng(0)
steps = 900
valve = np.repeat(rng.uniform(0.1, 0.9, size=steps // 15), 15)
level = np.empty(steps)
level[0] = 1.0
for t in range(1, steps):
    level[t] = max(level[t - 1] + 0.25 * valve[t - 1] - 0.15 * np.sqrt(level[t - 1]), 0)
table = pd.DataFrame({"level": level + 0.02 * rng.normal(size=steps), "valve": valve})
train, test = table[:600], table[600:].reset_index(drop=True)

# %%
# Two models. The first is linear in three lags of level and valve. The second selects among these and their products up
# to degree three, 83 candidates. The first rows have no complete history and get weight zero.
complete = np.arange(len(train)) >= 3
linear = BasisRidge(LagBasis(lags=3, output="level"), alpha="loo")
linear.fit(train, train["level"], sample_weight=complete)
basis = make_pipeline(LagBasis(lags=3, output="level"), PolynomialFeatures(3, include_bias=False))
sparse = ForwardRegressor(basis, refit_alpha="loo").fit(train, train["level"], sample_weight=complete)
print(sparse.summary())

# %%
# One-step predictions use measured values and hide differences between models. A free run starts from the first rows
# and then uses its own predictions as inputs, as a simulation does.
runs = {}
for name, model in (("linear", linear), ("selected products", sparse)):
    lags = model.basis_ if isinstance(model.basis_, LagBasis) else model.basis_[0]
    runs[name] = lags.free_run(model, test, start=3)
    one_step = model.predict(test)[3:]
    errors = [np.sqrt(np.mean((values[-297:] - level[603:]) ** 2)) for values in (one_step, runs[name])]
    print(f"{name:<17} {model.n_terms_:>2} terms   one step {errors[0]:.4f}   free run {errors[1]:.4f}")

figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 4.2), sharex=True, height_ratios=[3, 1], layout="constrained")
upper.plot(test["level"], ".", color="0.6", ms=2, label="measured")
upper.plot(runs["linear"], color="#E69F00", label="free run, linear")
upper.plot(runs["selected products"], color="#0072B2", label="free run, selected products")
upper.set_ylabel("level")
upper.legend(frameon=False, ncols=3)
lower.plot(test["valve"], color="0.3", drawstyle="steps-post")
lower.set(xlabel="time", ylabel="valve")
plt.show()
