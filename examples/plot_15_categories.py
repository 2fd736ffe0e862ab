"""
Categories and missing values
=============================

A table of flats as it comes: numbers, categories of few and of many levels, and missing values that say something
about the rent. Nothing is encoded or imputed by hand.
"""

# %%
# Simulated rents. Flats of the 1960s are the cheapest, older and newer ones cost more; forty districts have rents of
# their own. The year of construction is not known for every seventh flat, and these are cheaper.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from termwise import TermwiseRegressor, diagnostics

rng = np.random.default_rng(0)
n = 1200
district = rng.integers(40, size=n)
year = rng.choice([1905, 1930, 1955, 1968, 1980, 1995, 2012], size=n) + rng.integers(-8, 9, size=n)
flats = pd.DataFrame(
    {
        "area": rng.gamma(9.0, 8.0, size=n).round(),
        "year": year.astype(float),
        "heating": rng.choice(["central", "district", "stove"], size=n, p=[0.6, 0.3, 0.1]),
        "kitchen": rng.choice(["plain", "fitted"], size=n, p=[0.7, 0.3]),
        "district": [f"district {i:02d}" for i in district],
    }
)
rent = 150 + 9 * flats["area"] + 250 * ((flats["year"] - 1966) / 45) ** 2
rent += flats["heating"].map({"central": 0, "district": 20, "stove": -90})
rent += 70 * (flats["kitchen"] == "fitted") + rng.normal(0, 80, size=40)[district]
unknown = rng.uniform(size=n) < 1 / 7
rent += -60 * unknown + 60 * rng.normal(size=n)
flats.loc[unknown, "year"] = np.nan
flats.loc[rng.uniform(size=n) < 0.05, "heating"] = None
flats.head()

# %%
# The data frame is the input.
X_train, X_test, y_train, y_test = train_test_split(flats, rent, test_size=400, random_state=0)
model = TermwiseRegressor("readable", dictionary="additive").fit(X_train, y_train)
print(model.summary())

# %%
# ``missing(year)`` is the effect of a year that is not known: nothing was imputed. ``mean(district)`` is the mean rent
# of a district, shrunken towards the overall mean the more the fewer flats it has, and cross-fitted, so that no flat
# sees its own rent. The contribution of each effect to the rents of the flats set aside:
predictor = model.predictor_.with_facts(diagnostics.facts(model, X_train, y_train))
found = diagnostics.contributions(predictor, X_test)
effects = pd.DataFrame(found.values[:, :, 0], columns=found.effects, index=X_test.index)

figure, axes = plt.subplots(2, 2, figsize=(9, 4.6), layout="constrained")
for ax, name in zip(axes[0], ("area", "year"), strict=True):
    ax.plot(X_test[name], effects[name], ".", color="#0072B2", ms=5)
    ax.set_xlabel(name)
axes[0, 1].axhline(effects.loc[X_test["year"].isna(), "year"].iloc[0], color="#D55E00", label="not known")
axes[0, 1].legend(frameon=False)
for ax, name in zip(axes[1], ("heating", "district"), strict=True):
    levels = effects[name].groupby(X_test[name].fillna("missing")).mean().sort_values()
    ax.bar(range(len(levels)), levels, color="#0072B2")
    if name == "district":
        ax.set(xticks=[], xlabel=f"{len(levels)} districts")
    else:
        ax.set_xticks(range(len(levels)), levels.index)
figure.supylabel("contribution to the rent")
plt.show()

# %%
# Beside ridge regression on columns that were imputed, scaled and one-hot encoded by hand, and gradient boosting, which
# takes categories and missing values as they are: mean squared error as a share of the variance.
encode = make_column_transformer(
    (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["area", "year"]),
    (OneHotEncoder(handle_unknown="ignore"), ["heating", "kitchen", "district"]),
)
ridge = make_pipeline(encode, RidgeCV(np.logspace(-2, 2, 9)))
categories = dict.fromkeys(["heating", "kitchen", "district"], "category")
trees = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0)
predictions = {
    f"termwise, {model.n_terms_} terms": model.predict(X_test),
    "ridge, encoded by hand": ridge.fit(X_train, y_train).predict(X_test),
    "gradient boosting": trees.fit(X_train.astype(categories), y_train).predict(X_test.astype(categories)),
}
for name, predicted in predictions.items():
    print(f"{name:<23} {np.mean((y_test - predicted) ** 2) / np.var(y_test):.3f}")

# %%
# New flats may have categories that the fit did not have. They are predicted without an effect of the category, and
# counted.
new = pd.DataFrame(
    {
        "area": [70.0, 70.0, 70.0],
        "year": [1968.0, np.nan, 1968.0],
        "heating": ["central", "central", "heat pump"],
        "kitchen": ["fitted", "fitted", "plain"],
        "district": ["district 07", "district 07", "a new district"],
    }
)
print(model.predict(new).round(), model.predictor_.count_unseen(new))

# %%
# The model file and every export treat missing values and unknown categories in the same way: see
# :doc:`/howto/missing_values`.
