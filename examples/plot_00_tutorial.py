"""
Tutorial: ten minutes
=====================

Fit a model to a table, read it, see how well it predicts, and take it elsewhere. The page is an executed Jupyter
notebook, too: download it at the end.
"""

# %%
# A table
# -------
# Ten measurements of 442 diabetes patients; the target is a measure of the progression of the disease one year later.
# The inputs are a data frame, so that the terms of the model have names. A quarter of the patients is set aside.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LassoCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from termwise import ShapeDisplay, TermwiseRegressor, diagnostics, load_predictor

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
X_train.head()

# %%
# Fit
# ---
# There is nothing to set. Columns, bumps of columns, their products, hinges, steps and Gaussians are tried as
# candidates; cross-validation of the whole procedure chooses among them, and the number of terms.
model = TermwiseRegressor().fit(X_train, y_train)
print(f"{model.n_terms_} terms, dictionary {model.dictionary_!r}")

# %%
# Read
# ----
# The summary has the error to expect on new patients, as a share of the variance of the target, then the effects with
# their shares of the variance of the predictions, then every term with its weight. This is the whole model:
# the prediction is the intercept and the sum of these terms.
print(model.summary())

# %%
# Look
# ----
# The terms of one input add up to a curve, and those of two inputs to a surface. Bands are pointwise 90 % confidence
# bands that account for the selection of the terms; grey bars show where the patients are.
ShapeDisplay.from_estimator(model, X_train, max_effects=6)
plt.show()

# %%
# Check
# -----
# The reported error is that of the whole procedure, estimated on the training patients alone. On the others:
error = np.mean((y_test - model.predict(X_test)) ** 2) / np.var(y_train)
print(
    f"reported {model.cv_error_:.2f} +- {model.cv_error_std_:.2f}, on the {len(y_test)} patients set aside {error:.2f}"
)

# %%
# Other estimators of scikit-learn on the same patients. The lasso uses plain columns only; the forest has thousands of
# leaves.
others = {
    "lasso": make_pipeline(StandardScaler(), LassoCV()),
    "random forest": RandomForestRegressor(random_state=0),
}
for name, other in others.items():
    predicted = other.fit(X_train, y_train).predict(X_test)
    print(f"{name:<14} {np.mean((y_test - predicted) ** 2) / np.var(y_train):.2f}")
print(f"{'termwise':<14} {error:.2f} with {model.n_terms_} terms")

# %%
# Intervals
# ---------
# Prediction intervals come from models of folds in which the selection is repeated. Nine of ten patients should lie
# within a 90 % interval.
lower, upper = model.predict_interval(X_test, coverage=0.9)
print(f"{np.mean((lower <= y_test) & (y_test <= upper)):.0%} within their intervals")

order = np.argsort(model.predict(X_test))
# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.fill_between(range(len(order)), lower[order], upper[order], color="#56B4E9", alpha=0.35, label="90 % interval")
axes.plot(model.predict(X_test)[order], color="#0072B2", label="prediction")
axes.plot(y_test.to_numpy()[order], ".", color="0.3", ms=4, label="observed")
axes.set(xlabel="patients set aside, in the order of the prediction", ylabel="progression")
axes.legend(frameon=False)
plt.show()

# %%
# Explain a prediction
# --------------------
# The contributions of the effects to the prediction of one patient, relative to the mean prediction. The five largest:
predictor = model.predictor_.with_facts(diagnostics.facts(model, X_train, y_train))
found = diagnostics.contributions(predictor, X_test[:1])
print(f"{'mean prediction':<16} {found.base[0]:6.1f}")
for effect, value in zip(found.effects[:5], found.values[0, :5, 0], strict=True):
    print(f"{effect:<16} {value:+6.1f}")
print(f"{'prediction':<16} {predictor.predict(X_test[:1])[0]:6.1f}")

# %%
# Larger or smaller
# -----------------
# ``TermwiseRegressor("readable")`` limits the model to a page, ``TermwiseRegressor("accurate")`` takes the number of
# terms with the smallest cross-validated error, and a number is taken literally.
five = TermwiseRegressor(5, dictionary="additive", target="data").fit(X_train, y_train)
print(list(five.get_feature_names_out()), f"error {five.cv_error_:.2f}")

# %%
# Take it elsewhere
# -----------------
# ``predictor_`` has all that is needed to predict, without training data or training code. It is saved as JSON and
# exported to C, Python, SQL, ONNX, SymPy or LaTeX, here the model of five terms.
folder = Path(tempfile.mkdtemp())
model.predictor_.save(folder / "model.json")
again = load_predictor(folder / "model.json")
print(again.predict_one(dict(X_test.iloc[0])), model.predict(X_test[:1])[0])

print(five.predictor_.to_latex(digits=3))

# %%
# The same from the command line
# ------------------------------
# ::
#
#     $ termwise fit patients.csv --target progression -o model.json --report report.html
#     $ termwise predict model.json new.csv --interval 0.9 -o predicted.csv
#     $ termwise export model.json -o model.c
#
# Where next: :doc:`missing values and categories </howto/missing_values>`, :doc:`other tasks </howto/index>`,
# :doc:`which method when </which>`, :doc:`the mathematics </methods/index>`.
