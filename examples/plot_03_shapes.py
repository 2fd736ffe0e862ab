"""
Automatic models and their effects
==================================

:class:`~termwise.TermwiseRegressor` and :class:`~termwise.TermwiseClassifier` choose the dictionary, the terms, their
number and the penalty. The result is a sum of curves and surfaces, which can be plotted.
"""

# %%
# Diabetes
# --------
# Ten measurements of 442 patients; the target is the progression of the disease after one year.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import train_test_split

from termwise import ShapeDisplay, TermwiseClassifier, TermwiseRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = TermwiseRegressor().fit(X, y)
print(model.summary())

# %%
# Dictionaries are compared by cross-validation of the whole procedure. The curves show the error against the number of
# terms. A linear model is nearly as good as any other single dictionary; the stacked ensemble is better, and a few
# terms approximate it.
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for title, errors in model.trials_.items():
    pooled, ridge = title.endswith("pooled"), title.endswith("ridge")
    axes.plot(errors, label=title, ls="-" if ridge or pooled else ":", lw=2.2 if pooled else 1)
axes.axvline(model.n_terms_, color="0.6", lw=0.8)
axes.set(xlabel="terms", ylabel="cross-validated error", ylim=(0.48, 0.75), xlim=(0, 30))
axes.legend(frameon=False, ncols=2, fontsize=8)
plt.show()

# %%
# The effect of each measurement, the strongest first, and the total effect of each: by how much predictions change when
# the measurement is permuted among the patients. Grey bars are the distribution of the data, ticks its deciles; curves
# are lighter beyond the outer 1 %, surfaces grey where there are no data.
# sphinx_gallery_thumbnail_number = 2
display = ShapeDisplay.from_estimator(model, X, max_effects=6)
plt.show()
print({name: round(total, 1) for name, total in display.importance.items()})

# %%
# Breast cancer
# -------------
# A classifier with twelve terms of single measurements. Probabilities are calibrated on leave-one-out scores.
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y)
classifier = TermwiseClassifier(12, dictionary="additive").fit(X_train, y_train)
print(f"{classifier.n_terms_} terms, test accuracy {classifier.score(X_test, y_test):.1%} on {len(y_test)} patients")
ShapeDisplay.from_estimator(classifier, X_train, max_effects=6)
plt.show()

# %%
# Reliability of the probabilities on the test set.
probability = classifier.predict_proba(X_test)[:, 1]
for low, high in [(0, 0.2), (0.2, 0.8), (0.8, 1)]:
    inside = (probability >= low) & (probability <= high)
    print(f"predicted {low:.0%} to {high:.0%}: {np.mean(y_test[inside]):.0%} of {inside.sum()} are benign")

# %%
# These classes are nearly linearly separable, and logistic regression is at least as accurate. See *Which method when*.
