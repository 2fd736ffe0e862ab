"""
System identification with lagged inputs
========================================

The level of a tank depends nonlinearly on its past and on a valve. Terms are selected among products of lagged values,
and the model is evaluated by simulation.
"""

# %%
# The outflow is proportional to the square root of the level. The valve position is random; the level is observed with
# noise. For some minutes the sensor failed: lags do not reach across such a gap.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from termwise import NarxRegressor

rng = np.random.default_rng(0)
steps = 900
valve = np.repeat(rng.uniform(0.1, 0.9, size=steps // 15), 15)
level = np.empty(steps)
level[0] = 1.0
for t in range(1, steps):
    level[t] = max(level[t - 1] + 0.25 * valve[t - 1] - 0.15 * np.sqrt(level[t - 1]), 0)
table = pd.DataFrame({"level": level + 0.02 * rng.normal(size=steps), "valve": valve})
table.loc[250:256, "level"] = np.nan
train, test = table[:600], table[600:].reset_index(drop=True)

# %%
# Two models of three lags. The first is linear. The second selects among products up to degree three, and the number of
# terms by simulating the training data. The table of the summary has the error-reduction ratio of each term: the share
# of the sum of squares that it explained when it was chosen.
inputs, level_test = ["valve"], test["level"].to_numpy()
linear = NarxRegressor(lags=3, degree=1).fit(train[inputs], train["level"])
cubic = NarxRegressor(lags=3, degree=3, criterion="free_run").fit(train[inputs], train["level"])
print(cubic.summary())

# %%
# One-step predictions use measured values and hide differences between models. A free run starts from the first rows
# and then uses its own predictions as past values.
runs = {}
for name, model in (("linear", linear), ("products", cubic)):
    runs[name] = model.simulate(test[inputs], y_init=level_test[:3])
    predicted = model.predict(test[inputs], level_test)
    errors = [np.sqrt(np.mean((values - level[600:])[3:] ** 2)) for values in (predicted, runs[name])]
    print(f"{name:<9} {model.n_terms_:>2} terms   one step {errors[0]:.4f}   free run {errors[1]:.4f}")

figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 4.2), sharex=True, height_ratios=[3, 1], layout="constrained")
upper.plot(level_test, ".", color="0.6", ms=2, label="measured")
upper.plot(runs["linear"], color="#E69F00", label="free run, linear")
upper.plot(runs["products"], color="#0072B2", label="free run, selected products")
upper.set_ylabel("level")
upper.legend(frameon=False, ncols=3)
lower.plot(test["valve"], color="0.3", drawstyle="steps-post")
lower.set(xlabel="time", ylabel="valve")
plt.show()
