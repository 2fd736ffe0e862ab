"""
Online updating for a drifting sensor
=====================================

:class:`~termwise.OnlineRidge` adds each new sample and removes the oldest, at a cost that does not depend on the number
of samples.
"""

# %%
# The weight of the first of four inputs drifts; the noise variance is constant.
import time

import matplotlib.pyplot as plt
import numpy as np

from termwise import BasisRidge, OnlineRidge

rng = np.random.default_rng(0)
n, window = 1500, 150
X = rng.normal(size=(n, 4))
drift = np.sin(np.linspace(0, 7, n)) + np.where(np.arange(n) > 1000, 1.5, 0)
y = drift * X[:, 0] - X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=n)

# %%
# One model uses all samples, the other a window of the last 150. Every sample is predicted before it is added.
everything, sliding = OnlineRidge(alpha=1e-3, keep_samples=False), OnlineRidge(alpha=1e-3)
predictions, weights = np.full((2, n), np.nan), np.full((n, 4), np.nan)
started = time.perf_counter()
for t in range(n):
    now = slice(t, t + 1)
    if t >= 10:
        predictions[:, t] = [model.predict(X[now])[0] for model in (everything, sliding)]
    everything.partial_fit(X[now], y[now])
    sliding.partial_fit(X[now], y[now])
    if t >= window:
        sliding.remove_samples(X[t - window : t - window + 1], y[t - window : t - window + 1])
    weights[t] = sliding.coef_
print(f"{1e3 * (time.perf_counter() - started) / n:.2f} ms per sample, both models and predictions included")
again = BasisRidge(alpha=1e-3).fit(X[-window:], y[-window:])
print(f"difference from a fit to the last {window} samples: {np.abs(sliding.coef_ - again.coef_).max():.1e}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(weights[:, 0], color="#0072B2", label="weight of x0, sliding window")
left.plot(drift, "k--", lw=0.8, label="truth")
left.set(xlabel="sample", ylabel="weight")
left.legend(frameon=False)
smooth = np.ones(100) / 100
for values, name, colour in zip(predictions, ("all samples", "sliding window"), ("#E69F00", "#0072B2"), strict=True):
    squares = np.convolve((values[10:] - y[10:]) ** 2, smooth, mode="valid")
    right.plot(np.arange(len(squares)) + 110, np.sqrt(squares), color=colour, label=name)
right.axhline(0.3, color="k", ls="--", lw=0.8, label="noise")
right.set(xlabel="sample", ylabel="error of the last 100 predictions", ylim=(0, None))
right.legend(frameon=False)
plt.show()

# %%
# Terms can be removed and added as well; standard errors are available at any time.
sliding.remove_terms([3])
print("without x3:", sliding.weights_.round(2), "+-", np.sqrt(np.diag(sliding.weights_cov_)).round(2))
sliding.add_terms([3])
print("with x3:   ", sliding.weights_.round(2), "+-", np.sqrt(np.diag(sliding.weights_cov_)).round(2))
