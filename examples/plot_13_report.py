"""
A page about a model
====================

:func:`~termwise.write_report` writes one HTML file that says everything about a model: how good it is, its terms, how
its size was chosen, what each input does. It needs no network and no server; the page at the end of this example is
one.
"""

# %%
# Fit a model, keeping some patients to judge it by. Facts are collected once; they travel with the saved model.
import html
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from termwise import SelectionPathDisplay, TermwiseRegressor, diagnostics, load_predictor, report

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
y = y.rename("progression")
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
model = TermwiseRegressor().fit(X_train, y_train)
held_out, baselines = diagnostics.held_out_comparison(model, X_train, y_train, X_test, y_test)
facts = diagnostics.facts(model, X_train, y_train, held_out=held_out, baselines=baselines)
print(f"{held_out['metric']} {held_out['value']:.3f} on {held_out['n']} patients it has not seen; beside it", end=" ")
print(", ".join(f"{one['name']} {one['value']:.3f}" for one in baselines))

# %%
# The same pictures are there one by one: this is how the error goes along the path.
SelectionPathDisplay.from_estimator(model)
plt.show()

# %%
# A saved model remembers the facts: the page can be written later, and elsewhere, without the data.
path = Path(tempfile.mkdtemp()) / "diabetes.json"
model.predictor_.with_facts(facts).save(path)
loaded = load_predictor(path)
page = report.render(loaded, title="Diabetes: progression within a year")
print(f"{path.stat().st_size / 1e3:.0f} kB of model and facts, {len(page) / 1e3:.0f} kB of page")


# %%
# ``write_report(model, "report.html", X, y)`` does all of this in one line. Here is the page.
class Shown:
    """The page in a frame of its own."""

    def _repr_html_(self):
        return (
            f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: 42em; border: 1px solid #ccc"></iframe>'
        )


Shown()
