"""
Twenty thousand columns
=======================

Which of 20,000 columns matter, for 500 samples? Ten of them do here, and many of the others are correlated with
those. :class:`~termwise.ForwardRegressor` orders them in half a second. How many to keep is the harder question:
asked about so many candidates, leave-one-out cannot be believed. A term must bring more than the best of so many would
by chance; and repeating the selection in each fold, which is cheap, tells whether that was right.
"""

# %%
# The data look like those of a gene chip: blocks of fifty columns go up and down together. Single precision halves
# the memory and changes nothing.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold

from termwise import ForwardRegressor

rng = np.random.default_rng(0)
p, block, most = 20_000, 50, 30
true = np.sort(rng.choice(p, size=10, replace=False))
weights = rng.choice([-1, 1], size=10) * rng.uniform(0.7, 1.5, size=10)


def draw(n):
    """Return n samples."""
    common = np.repeat(rng.normal(size=(n, p // block)), block, axis=1)
    X = (0.6 * common + 0.8 * rng.normal(size=(n, p))).astype(np.float32)
    return X, X[:, true] @ weights + rng.normal(size=n)


X, y = draw(500)

# %%
# One path of thirty terms. Each step takes the column with the smallest exact leave-one-out error.
model = ForwardRegressor(criterion=None, max_terms=most).fit(X, y)
print(f"{model.path_.steps[-1].seconds:.2f} s for {len(model.path_)} terms")
print("of the first ten,", len(set(model.support_[:10]) & set(true)), "are columns that matter")

# %%
# Leave-one-out along this path goes on falling: every step picks the best of 20,000 candidates *for these samples*,
# the one left out among them. An honest estimate leaves samples out of the selection, too. A path is grown once for
# each fold, and ``at(k)`` gives the model of every size.
honest = np.zeros(most + 1)
for train, test in KFold(5, shuffle=True, random_state=0).split(X):
    path = ForwardRegressor(criterion=None, max_terms=most).fit(X[train], y[train])
    honest += [np.sum((y[test] - path.at(k).predict(X[test])) ** 2) / len(y) for k in range(most + 1)]
kept = model.at(int(honest.argmin()))
print(kept.summary())

# %%
# Left: the three estimates of the error. Right: what each term brought, beside what the best of 20,000 columns of
# noise would have brought at the honest noise level. Where bars go below that line, terms are no better than chance.
X_new, y_new = draw(500)
sizes = np.arange(most + 1)
new = [np.mean((y_new - model.at(k).predict(X_new)) ** 2) for k in sizes]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(sizes, model.path_.column("loo"), color="#0072B2", label="leave-one-out")
left.plot(sizes, honest, color="#D55E00", label="selection repeated in 5 folds")
left.plot(sizes, new, color="0.5", ls="--", label="new samples")
left.axvline(kept.n_terms_, color="0.7", lw=0.8)
left.set(xlabel="terms", ylabel="squared error", yscale="log")
left.legend(frameon=False)
steps, drop = sizes[1:], model.path_.column("reduction")[1:]
found = np.isin(model.path_.terms, true)
right.bar(steps[found], drop[found], color="#0072B2", label="columns that matter")
right.bar(steps[~found], drop[~found], color="#56B4E9", label="others")
right.plot(steps, 2 * honest.min() * np.log(p - steps + 1), color="#D55E00", label="what noise can bring")
right.set(xlabel="term", ylabel="drop of the cost", yscale="log")
right.legend(frameon=False)
plt.show()

# %%
# The criteria read off a single path have no such second look. Most keep far too many of these thirty terms.
# ``"tcr_sequential"`` takes the noise level from the model before the terms in question, not from the end of the path.
# The default, ``"tcr"``, ends its own path where that would, and so is not led astray either.
sizes_read = {name: model.path_.choose(name) for name in ("tcr_sequential", "tcr", "one_se", "loo", "bic")}
print("honest:", kept.n_terms_, " read off thirty terms:", sizes_read)
default = ForwardRegressor().fit(X, y)
print("by default:", default.n_terms_, "of", len(default.path_), "-", default.stop_reason_)
