"""
Nothing to tune, everything to see
==================================

:class:`~termwise.TermwiseRegressor` and :class:`~termwise.TermwiseClassifier` choose candidates, terms, their number
and their penalty. What comes out is a sum of curves and surfaces, and can be looked at.
"""

# %%
# Diabetes
# --------
# 442 patients, ten measurements, how far the disease has gone a year later.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import train_test_split

from termwise import ShapeDisplay, TermwiseClassifier, TermwiseRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = TermwiseRegressor().fit(X, y)
print(model.summary())

# %%
# Dictionaries were compared by cross-validation that repeats every choice. The curves say how the error depends on
# the number of terms. A linear model is nearly as good as any other one alone; the mean of several is better, and few
# terms reproduce it.
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for title, errors in model.trials_.items():
    pooled, ridge = title.endswith("pooled"), title.endswith("ridge")
    axes.plot(errors, label=title, ls="-" if ridge or pooled else ":", lw=2.2 if pooled else 1)
axes.axvline(model.n_terms_, color="0.6", lw=0.8)
axes.set(xlabel="terms", ylabel="cross-validated error", ylim=(0.48, 0.75), xlim=(0, 30))
axes.legend(frameon=False, ncols=2, fontsize=8)
plt.show()

# %%
# What each measurement adds. Ticks on the axis are deciles of the patients: where there are none, a curve rests on
# little.
ShapeDisplay.from_estimator(model, X, max_effects=6)
plt.show()

# %%
# Breast cancer
# -------------
# Labels work alike. Twelve terms of single measurements and pairs; probabilities are calibrated on leave-one-out
# scores.
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y)
classifier = TermwiseClassifier(12, dictionary="additive").fit(X_train, y_train)
print(f"{classifier.n_terms_} terms, {classifier.score(X_test, y_test):.1%} of {len(y_test)} new patients right")
ShapeDisplay.from_estimator(classifier, X_train, max_effects=6)
plt.show()

# %%
# Of the patients given a probability between 20 and 80 percent, few are certain; beyond, few are wrong.
probability = classifier.predict_proba(X_test)[:, 1]
for low, high in [(0, 0.2), (0.2, 0.8), (0.8, 1)]:
    inside = (probability >= low) & (probability <= high)
    print(f"predicted {low:.0%} to {high:.0%}: {np.mean(y_test[inside]):.0%} of {inside.sum()} are benign")

# %%
# A line separates these classes well, and logistic regression would be as good. See *Which method when*.
