"""
Calibration of a sensor, exported to C
======================================

The reading of a pressure sensor depends on pressure and temperature, both nonlinearly. A model with a few terms
corrects it; exported to C it runs on the instrument itself, without libraries and without memory allocation.
"""

# %%
# Calibration data: readings at 240 known pressures and temperatures.
import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from termwise import TermwiseRegressor

rng = np.random.default_rng(0)


def measure(pressure, temperature):
    """Return the counts of the bridge and of the thermometer."""
    drift = (temperature - 20) / 60
    gain = 4000 * (1 - 0.12 * drift + 0.05 * drift**2)
    bridge = 500 + 300 * drift + gain * (pressure / 10 - 0.06 * (pressure / 10) ** 2)
    return bridge + rng.normal(size=len(pressure)), 2000 + 25 * temperature + 2 * rng.normal(size=len(pressure))


pressure, temperature = rng.uniform(0, 10, size=240), rng.uniform(-20, 80, size=240)
counts = pd.DataFrame(dict(zip(["bridge", "thermometer"], measure(pressure, temperature), strict=True)))

# %%
# Fit the pressure as a function of the two counts.
model = TermwiseRegressor().fit(counts, pressure)
print(model.summary())

# %%
# Export to C. The function takes the two counts in the order of the columns.
folder = Path(tempfile.mkdtemp())
source = folder / "calibration.c"
model.predictor_.export(source, name="calibration")
text = source.read_text()
print(text[: text.index("#include")])
print(f"{len(text.splitlines())} lines")

# %%
# Compile it, if a compiler is installed, and compare with Python on new measurements.
new_pressure, new_temperature = rng.uniform(0, 10, size=500), rng.uniform(-20, 80, size=500)
new = pd.DataFrame(dict(zip(["bridge", "thermometer"], measure(new_pressure, new_temperature), strict=True)))
corrected = model.predict(new)
compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
if compiler is None:
    print("no C compiler installed: comparison skipped")
else:
    library = folder / "calibration.so"
    command = [compiler, "-std=c99", "-O2", "-Wall", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    function = ctypes.CDLL(str(library)).calibration_predict
    vector = ctypes.c_double * 2
    results = []
    for row in new.to_numpy():
        result = ctypes.c_double()
        assert function(vector(*row), ctypes.byref(result)) == 0
        results.append(result.value)
    print(f"largest difference between C and Python: {np.abs(np.array(results) - corrected).max():.1e}")

# %%
# Errors on new measurements, of a linear fit to the bridge count (left) and of the model (right). Colours show the
# temperature.
line = np.polynomial.Polynomial.fit(counts["bridge"], pressure, 1)(new["bridge"])
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for panel, values, title in zip(axes, (line, corrected), ("linear fit", f"{model.n_terms_} terms"), strict=True):
    error = values - new_pressure
    shown = panel.scatter(new_pressure, error, c=new_temperature, s=6, cmap="coolwarm")
    panel.axhline(0, color="0.5", lw=0.8)
    panel.set(title=f"{title}: error {np.sqrt(np.mean(error**2)):.4f}", xlabel="pressure", ylabel="error")
figure.colorbar(shown, ax=axes, label="temperature")
plt.show()
