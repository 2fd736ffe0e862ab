"""
On a GPU, if there is one
=========================

Arrays of PyTorch and CuPy go in as they are. The work is done where they live and the terms are those of the
processor. This example takes a GPU if there is one, PyTorch on the processor if not, and NumPy where PyTorch is
missing too.
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
    where, there = "NumPy: PyTorch is not installed", (G, y)
else:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.cuda.get_device_name() if device == "cuda" else "PyTorch on the processor: no GPU here"
    there = torch.asarray(G, device=device), torch.asarray(y, device=device)
print(where)

# %%
# The same call for both. Timing a GPU needs a first call, in which it gets ready.
forward_path(*there, max_terms=3)
seconds, paths = {}, {}
for name, data in (("NumPy", (G, y)), (where, there)):
    started = time.perf_counter()
    paths[name] = forward_path(*data, max_terms=30)
    seconds[name] = time.perf_counter() - started
    print(f"{name}: {seconds[name]:.2f} s, first terms {paths[name].terms[:5].tolist()}")
assert paths["NumPy"].terms.tolist() == paths[where].terms.tolist()

# %%
# The leave-one-out error along both paths, one on top of the other.
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for (name, path), style in zip(paths.items(), ("-", "o"), strict=True):
    axes.plot(path.column("loo"), style, color="#0072B2", ms=4, mfc="none", label=name)
axes.set(xlabel="terms", ylabel="leave-one-out error", ylim=(0, None))
axes.legend(frameon=False)
plt.show()

# %%
# A matrix this small is not what a GPU is for: see *Scaling* for what was measured with a million rows.
