"""
Choosing a width without cross-validation
=========================================

:class:`~termwise.CriterionSearch` fits one model for every width of a radial basis and ranks them by their closed-form
leave-one-out error. The choice is compared with that of tenfold cross-validation.
"""

# %%
# Orr's example, a Hermite function with noise.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold

from termwise import BasisRidge, CriterionSearch, RadialBasis, datasets

X, y = datasets.make_hermite(n_samples=100, random_state=5)
X_new, truth = datasets.make_hermite(n_samples=2000, noise=0, random_state=4)
widths = np.geomspace(0.05, 8, 20)

# %%
# The optimal penalty is computed for every width.
started = time.perf_counter()
search = CriterionSearch(BasisRidge(RadialBasis(), alpha="loo"), {"basis__width": widths}).fit(X, y)
search_seconds = time.perf_counter() - started
started = time.perf_counter()
folds = KFold(10, shuffle=True, random_state=0)
scoring = "neg_mean_squared_error"
grid = GridSearchCV(BasisRidge(RadialBasis(), alpha="loo"), {"basis__width": widths}, cv=folds, scoring=scoring).fit(
    X, y
)
grid_seconds = time.perf_counter() - started
print(f"width {search.best_params_['basis__width']:.2f} in {search_seconds:.2f} s by leave-one-out")
print(f"width {grid.best_params_['basis__width']:.2f} in {grid_seconds:.2f} s by cross-validation")

# %%
# Both curves are flat over a wide range of widths, because the penalty compensates for the width. It cannot compensate
# for a width that is too small (dotted, right): the function returns to the mean between the samples.
error = [np.mean((truth - BasisRidge(RadialBasis(width=w), alpha="loo").fit(X, y).predict(X_new)) ** 2) for w in widths]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.loglog(widths, search.results_["criterion_value"], color="#0072B2", label="leave-one-out, closed form")
left.loglog(widths, -grid.cv_results_["mean_test_score"], color="#E69F00", label="tenfold cross-validation")
left.loglog(widths, np.array(error) + 0.2**2, color="0.5", ls="--", label="true error")
left.axvline(search.best_params_["basis__width"], color="#0072B2", lw=0.8)
left.set(xlabel="width", ylabel="squared error of new samples")
left.legend(frameon=False, fontsize=8)
x = np.linspace(-4, 4, 300)[:, None]
for width, style in ((widths[0], ":"), (search.best_params_["basis__width"], "-")):
    model = BasisRidge(RadialBasis(width=width), alpha="loo").fit(X, y)
    label = f"width {width:.2g}, {model.effective_dof_:.0f} parameters"
    right.plot(x, model.predict(x), style, color="#0072B2", label=label)
right.plot(X, y, "k.", ms=3)
right.set(xlabel="x", ylabel="y", ylim=(-1, 1.8))
right.legend(frameon=False, fontsize=8)
plt.show()
