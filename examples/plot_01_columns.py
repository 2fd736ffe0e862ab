"""
Selecting among 20,000 columns
==============================

Of 20,000 columns ten are relevant here, and many of the others are correlated with these; there are 500 samples.
:class:`~termwise.ForwardRegressor` selects a path of terms. The harder question is how many to keep: with so many
candidates the leave-one-out error along the path is too optimistic. The TCR criteria require that a term reduce the
cost by more than the best of as many noise columns would. Cross-validation of the whole selection, which is cheap here,
confirms their choice.
"""

# %%
# The data resemble gene expression data: columns are correlated in blocks of fifty. Single precision halves the memory.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold

from termwise import ForwardRegressor

rng = np.random.default_rng(0)
p, block, max_terms = 20_000, 50, 30
true = np.sort(rng.choice(p, size=10, replace=False))
weights = rng.choice([-1, 1], size=10) * rng.uniform(0.7, 1.5, size=10)


def draw(n):
    """Return n samples."""
    common = np.repeat(rng.normal(size=(n, p // block)), block, axis=1)
    X = (0.6 * common + 0.8 * rng.normal(size=(n, p))).astype(np.float32)
    return X, X[:, true] @ weights + rng.normal(size=n)


X, y = draw(500)

# %%
# One path of thirty terms. Each step selects the column with the smallest exact leave-one-out error.
model = ForwardRegressor(criterion=None, max_terms=max_terms).fit(X, y)
print(f"{model.path_.steps[-1].seconds:.2f} s for {len(model.path_)} terms")
print("relevant columns among the first ten:", len(set(model.support_[:10]) & set(true)))

# %%
# The leave-one-out error along this path keeps decreasing, because every step selects the best of 20,000 candidates on
# all samples, including the one left out. Cross-validation of the whole procedure repeats the selection without the
# test samples. One path per fold suffices, since ``at(k)`` gives the model with k terms.
cross_validated = np.zeros(max_terms + 1)
for train, test in KFold(5, shuffle=True, random_state=0).split(X):
    path = ForwardRegressor(criterion=None, max_terms=max_terms).fit(X[train], y[train])
    cross_validated += [np.sum((y[test] - path.at(k).predict(X[test])) ** 2) / len(y) for k in range(max_terms + 1)]
kept = model.at(int(cross_validated.argmin()))
print(kept.summary())

# %%
# Left: two estimates of the error, and the error on new samples. Right: the cost reduction of each term, and the
# largest reduction expected from 20,000 noise columns at the cross-validated noise level. Terms below that line are not
# significant.
X_new, y_new = draw(500)
sizes = np.arange(max_terms + 1)
new = [np.mean((y_new - model.at(k).predict(X_new)) ** 2) for k in sizes]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(sizes, model.path_.column("loo"), color="#0072B2", label="leave-one-out")
left.plot(sizes, cross_validated, color="#D55E00", label="5-fold cross-validation")
left.plot(sizes, new, color="0.5", ls="--", label="new samples")
left.axvline(kept.n_terms_, color="0.7", lw=0.8)
left.set(xlabel="terms", ylabel="squared error", yscale="log")
left.legend(frameon=False)
steps, reduction = sizes[1:], model.path_.column("reduction")[1:]
found = np.isin(model.path_.terms, true)
right.bar(steps[found], reduction[found], color="#0072B2", label="relevant columns")
right.bar(steps[~found], reduction[~found], color="#56B4E9", label="other columns")
right.plot(steps, 2 * cross_validated.min() * np.log(p - steps + 1), color="#D55E00", label="threshold")
right.set(xlabel="term", ylabel="cost reduction", yscale="log")
right.legend(frameon=False)
plt.show()

# %%
# Criteria computed along a single path have no test samples, and most keep far too many of these thirty terms.
# The default, ``"tcr"``, corrects its noise level for the search, and ``"tcr_sequential"`` estimates it from the model
# before the terms in question; ``"tcr_paper"`` takes the leave-one-out error from the end of the path.
criteria = ("tcr", "tcr_sequential", "tcr_paper", "one_se", "loo", "bic")
selected_sizes = {name: model.path_.choose(name) for name in criteria}
print("cross-validation:", kept.n_terms_, " criteria along thirty terms:", selected_sizes)
default = ForwardRegressor().fit(X, y)
print("default:", default.n_terms_, "of", len(default.path_), "-", default.stop_reason_)
