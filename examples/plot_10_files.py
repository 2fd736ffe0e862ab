"""
A file larger than memory
=========================

:func:`~termwise.open_rows` opens a table without reading it. Rows pass by in blocks, once for each term, and the
choice is that of a fit in memory. The file here has 64 MB and a budget of 8 MB stands in for a small machine.
"""

# %%
# Write the table: 20,000 rows, 400 columns, the target in the last.
import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np

from termwise import ForwardRegressor, memory_budget, open_rows

rng = np.random.default_rng(0)
path = os.path.join(tempfile.mkdtemp(), "table.npy")
G = rng.normal(size=(20_000, 400))
y = G[:, [7, 100, 250]] @ [2.0, -1.0, 0.5] + rng.normal(size=20_000)
np.save(path, np.column_stack([G, y]))
print(f"{os.path.getsize(path) / 1e6:.0f} MB")

# %%
# Nothing but the header is read by opening. ``.parquet``, ``.arrow`` and ``.feather`` files work alike, with names.
data = open_rows(path, target=400)
print(data.shape, data.dtype)
with memory_budget(8e6):
    model = ForwardRegressor(rule="cost", criterion="bic", max_terms=12, precompute=False).fit(data, data.y)
print(f"chosen {model.support_}, {data.passes} passes over the file")

# %%
# With ``precompute=True`` the products of all pairs of columns are computed in the first pass, and few more are
# needed.
again = open_rows(path, target=400)
with memory_budget(8e6):
    quick = ForwardRegressor(rule="cost", criterion="bic", max_terms=12, precompute=True).fit(again, again.y)
local = ForwardRegressor(rule="cost", criterion="bic", max_terms=12).fit(G, y)
assert model.support_.tolist() == quick.support_.tolist() == local.support_.tolist()
print(f"{again.passes} passes with the products first")

# %%
# BIC along the path, and the passes that it took.
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), width_ratios=[2, 1], layout="constrained")
left.plot(model.path_.column("bic"), "o-", color="#0072B2", ms=4)
left.axvline(model.n_terms_, color="#D55E00", ls="--")
left.set(xlabel="terms", ylabel="BIC")
bars = right.bar(["one by one", "products first"], [data.passes, again.passes], color=["#0072B2", "#56B4E9"])
right.bar_label(bars)
right.set_ylabel("passes over the file")
plt.show()
os.remove(path)
