"""
A file larger than memory
=========================

:func:`~termwise.open_rows` opens a table without reading it. Rows are read in blocks, once per term, and the selected
terms equal those of a fit in memory. The file has 64 MB here, and a memory budget of 8 MB simulates a small machine.
"""

# %%
# Write a table with 20,000 rows and 400 columns, and the target as the last column.
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
# Opening reads only the header. ``.parquet``, ``.arrow`` and ``.feather`` files are supported too, with column names.
data = open_rows(path, target=400)
print(data.shape, data.dtype)
with memory_budget(8e6):
    model = ForwardRegressor(rule="cost", criterion="bic", max_terms=12, precompute=False).fit(data, data.y)
print(f"selected {model.support_}, {data.passes} passes over the file")

# %%
# With ``precompute=True`` the Gram matrix is computed in the first pass, and few further passes are needed.
again = open_rows(path, target=400)
with memory_budget(8e6):
    quick = ForwardRegressor(rule="cost", criterion="bic", max_terms=12, precompute=True).fit(again, again.y)
local = ForwardRegressor(rule="cost", criterion="bic", max_terms=12).fit(G, y)
assert model.support_.tolist() == quick.support_.tolist() == local.support_.tolist()
print(f"{again.passes} passes with the Gram matrix")

# %%
# BIC along the path, and the number of passes.
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), width_ratios=[2, 1], layout="constrained")
left.plot(model.path_.column("bic"), "o-", color="#0072B2", ms=4)
left.axvline(model.n_terms_, color="#D55E00", ls="--")
left.set(xlabel="terms", ylabel="BIC")
bars = right.bar(["one per term", "Gram matrix"], [data.passes, again.passes], color=["#0072B2", "#56B4E9"])
right.bar_label(bars)
right.set_ylabel("passes over the file")
plt.show()
os.remove(path)
