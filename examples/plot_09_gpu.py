"""
GPU arrays
==========

Arrays of PyTorch and CuPy are accepted directly. Computations run on their device, and the selected terms equal those
on the CPU. This example uses a GPU if one is available, otherwise PyTorch on the CPU, and NumPy if PyTorch is not
installed.
"""

# %%
import time
from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np

from termwise import forward_path

rng = np.random.default_rng(0)
G = rng.normal(size=(20_000, 400))
y = G[:, :20] @ rng.uniform(0.5, 2, size=20) + 3 * rng.normal(size=20_000)

if find_spec("torch") is None:
    name, data = "NumPy (PyTorch is not installed)", (G, y)
else:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "PyTorch on the CPU (no GPU available)"
    data = torch.asarray(G, device=device), torch.asarray(y, device=device)
print(name)

# %%
# The same call for both. A first call initialises the device before the timing.
forward_path(*data, max_terms=3)
seconds, paths = {}, {}
for label, arrays in (("NumPy", (G, y)), (name, data)):
    started = time.perf_counter()
    paths[label] = forward_path(*arrays, max_terms=30)
    seconds[label] = time.perf_counter() - started
    print(f"{label}: {seconds[label]:.2f} s, first terms {paths[label].terms[:5].tolist()}")
assert paths["NumPy"].terms.tolist() == paths[name].terms.tolist()

# %%
# The leave-one-out error along both paths; the curves coincide.
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for (label, path), style in zip(paths.items(), ("-", "o"), strict=True):
    axes.plot(path.column("loo"), style, color="#0072B2", ms=4, mfc="none", label=label)
axes.set(xlabel="terms", ylabel="leave-one-out error", ylim=(0, None))
axes.legend(frameon=False)
plt.show()

# %%
# This matrix is too small for a GPU to be useful: see *Scaling* for times with a million rows.
