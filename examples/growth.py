"""Time of exact leave-one-out selection against the number of samples, candidates and terms.

Plots the results of the benchmark: python examples/growth.py benchmarks/results/forward.jsonl [FILE]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

records = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
records = [record for record in records if record.get("case") == "growth"]
names = {"n": "samples", "p": "candidates", "k": "terms"}

plt.rcParams.update({"svg.hashsalt": "termwise", "svg.fonttype": "none", "font.size": 10})
figure, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
for axis, (key, name) in zip(axes, names.items(), strict=True):
    selected = [record for record in records if record["along"] == key]
    size = np.array([record[key] for record in selected if "seconds" in record])
    seconds = np.array([record["seconds"] for record in selected if "seconds" in record])
    slope = next(record["slope"] for record in selected if "slope" in record)
    axis.loglog(size, seconds, "o-", color="#0072B2", label=f"measured, slope {slope:.2f}")
    axis.loglog(size, seconds[0] * size / size[0], "--", color="0.6", label="slope 1")
    axis.set_xticks(size, [f"{value:,}" for value in size])
    axis.set_xticks([], minor=True)
    axis.set_xlabel(name)
    axis.legend(fontsize=8, frameon=False)
axes[0].set_ylabel("seconds")
axes[0].set_yticks([0.3, 0.5, 1, 2], ["0.3", "0.5", "1", "2"])
axes[0].set_yticks([], minor=True)
figure.savefig(sys.argv[2] if len(sys.argv) > 2 else "growth.svg", metadata={"Date": None})
