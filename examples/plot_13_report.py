"""
HTML report of a model
======================

:func:`~termwise.write_report` writes a self-contained HTML file with the errors of a model, its terms, the selection
path and the effect of each input. An example is at the end of this page.
"""

# %%
# Fit a model and hold out a test set. The metadata for the report are collected once and stored with the model.
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
print(f"{held_out['metric']} {held_out['value']:.3f} on {held_out['n']} test samples; baselines:", end=" ")
print(", ".join(f"{baseline['name']} {baseline['value']:.3f}" for baseline in baselines))

# %%
# The plots of the report are available separately, for example the error along the path.
SelectionPathDisplay.from_estimator(model)
plt.show()

# %%
# The saved model contains the metadata, so that the report can be written later without the data.
path = Path(tempfile.mkdtemp()) / "diabetes.json"
model.predictor_.with_facts(facts).save(path)
loaded = load_predictor(path)
page = report.render(loaded, title="Diabetes: progression within a year")
print(f"{path.stat().st_size / 1e3:.0f} kB model file with metadata, {len(page) / 1e3:.0f} kB report")


# %%
# ``write_report(model, "report.html", X, y)`` does all of this in one call. The report:
class EmbeddedReport:
    """The report in an iframe."""

    def _repr_html_(self):
        return (
            f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: 42em; border: 1px solid #ccc"></iframe>'
        )


EmbeddedReport()
