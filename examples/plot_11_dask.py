"""
Dask arrays on a cluster
========================

Dask arrays are processed on the workers that hold their chunks; the result is an ordinary model. The cluster here is
one worker with two threads in this process; use the address of your own instead.
"""

# %%
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client, LocalCluster

from termwise import ForwardRegressor

cluster = LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None)
client = Client(cluster)

# %%
# 40,000 rows in eight chunks, generated on the worker. Persist them in the memory of the cluster, since every term
# needs a pass over all of them.
rng = da.random.default_rng(0)
X = rng.normal(size=(40_000, 60), chunks=(5_000, 60)).persist()
y = (3 * X[:, 10] - 2 * X[:, 20] + X[:, 30] + rng.normal(size=40_000, chunks=5_000)).persist()

# %%
# The call is the same as in memory. Each term needs a few reductions over the chunks.
model = ForwardRegressor(rule="cost", criterion="bic", patience=3).fit(X, y)
print(model.summary())

# %%
# Predictions of Dask arrays are lazy; the model itself does not need the cluster.
prediction = model.predict(X)
print(type(prediction).__module__, prediction.shape)
error = float(((y - prediction) ** 2).mean().compute())
local = ForwardRegressor(rule="cost", criterion="bic", patience=3).fit(X.compute(), y.compute())
print(
    f"squared error {error:.3f}; largest difference from a fit in memory {np.abs(model.coef_ - local.coef_).max():.1e}"
)

# %%
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.stem(model.coef_, basefmt=" ")
axes.set(xlabel="column", ylabel="weight")
plt.show()
client.close()
cluster.close()
