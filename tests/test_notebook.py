"""What notebooks show of a model: scikit-learn's diagram, and below it terms, error and a picture."""

from __future__ import annotations

import copy
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.decomposition import PCA

from termwise import (
    AnovaBasis,
    BasisRidge,
    CriterionSearch,
    ForwardClassifier,
    ForwardRegressor,
    LagBasis,
    LocalRidge,
    OnlineRidge,
    RadialBasis,
    TermwiseClassifier,
    TermwiseRegressor,
)

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, size=(80, 3))
y = np.sin(3 * X[:, 0]) + X[:, 0] * X[:, 1] + 0.1 * RNG.normal(size=80)
NAMES = ["<script>alert(1)</script>", "a & b", '"quoted"']
FRAME = pd.DataFrame(X, columns=NAMES).assign(kind=pd.Categorical(RNG.choice(["<u>", "v"], 80)))

MODELS = {  # estimator, number of pictures at least, text that is shown
    "columns": (ForwardRegressor(), 1, "leave-one-out squared error, given the terms"),
    "folds": (ForwardRegressor(selection_cv=3), 1, "cross-validated squared error, selection included"),
    "effects": (ForwardRegressor(AnovaBasis()), 2, "share of the variance"),
    "automatic": (TermwiseRegressor(4, dictionary="additive", target="data"), 2, "cross-validated error, choice"),
    "classes": (TermwiseClassifier(2, dictionary="linear"), 1, "% misclassified"),
    "three classes": (ForwardClassifier(), 1, "weight, output 2"),
    "outputs": (ForwardRegressor(AnovaBasis()), 1, "weight, output 1"),
    "gaussians": (ForwardRegressor(RadialBasis(centers=9)), 1, "against the number of terms"),
    "counts": (ForwardRegressor(loss="poisson"), 1, "leave-one-out"),
    "without a path": (LocalRidge(), 0, "std. error"),
    "without samples": (OnlineRidge(keep_samples=False), 0, "weight"),
    "components": (ForwardRegressor(PCA(2)), 1, "leave-one-out"),
    "series": (ForwardRegressor(LagBasis(2)), 0, "leave-one-out"),
    "search": (CriterionSearch(BasisRidge(RadialBasis(centers=5)), {"basis__width": [1.0, 2.0]}), 0, "of 5"),
}
TARGETS = {
    "automatic": y + (FRAME["kind"] == "v"),
    "classes": y > 0,
    "three classes": np.digitize(y, [-0.5, 0.5]),
    "outputs": np.column_stack([y, -y]),
    "counts": np.exp(y).round(),
}


@cache
def fitted(name):
    return clone(MODELS[name][0]).fit(FRAME if name == "automatic" else X, TARGETS.get(name, y))


def summary_of(model):
    """What is added to the diagram."""
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == repr(model)
    diagram, *summary = bundle["text/html"].split('<div class="termwise-summary"')
    assert "sk-top-container" in diagram
    assert model._repr_html_().split('<div class="termwise-summary"')[1:] == summary
    return "".join(f'<div class="termwise-summary"{part}' for part in summary)


@pytest.mark.parametrize("name", MODELS)
def test_a_fitted_model_shows_terms_error_and_a_picture(name):
    model, (_, n_pictures, text) = fitted(name), MODELS[name]
    html = summary_of(model)
    root = ElementTree.fromstring(html.replace("&quot;", "'"))  # well-formed
    shown = " ".join(root.itertext())
    assert type(getattr(model, "best_estimator_", model)).__name__ in shown
    assert text in shown
    pictures = [one for one in root.iter() if one.tag == "svg"]
    assert len(pictures) >= n_pictures
    rows = [one for one in root.iter() if one.tag == "tr"]
    assert len(rows) == (model.n_terms_ + 1 if model.n_terms_ else 0)


def test_truncated_models_show_their_own_error():
    automatic = TermwiseRegressor(3, dictionary="linear").fit(X, y)
    assert "cross-validated error, choice included" in summary_of(automatic)
    assert "leave-one-out squared error, given the terms" in summary_of(automatic.at(1))
    assert "no terms: the model is the mean" in summary_of(automatic.at(0))


def test_names_are_escaped():
    html = summary_of(ForwardRegressor(AnovaBasis(order=1), max_terms=4).fit(FRAME[NAMES], y))
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert summary_of(fitted("automatic")).count("<u>") == 0


def test_the_table_of_terms_is_short():
    model = BasisRidge(RadialBasis(width=1.0)).fit(X, y)
    html = summary_of(model)
    assert html.count("<tr>") == 11
    assert "... and 70 more" in html


def test_an_unfitted_model_shows_the_diagram_alone():
    for model in (TermwiseRegressor(), CriterionSearch(BasisRidge(), {"alpha": [1.0]})):
        assert summary_of(model) == ""


def test_text_display_has_no_html():
    with sklearn.config_context(display="text"):
        assert not hasattr(fitted("columns"), "_repr_html_")
        assert set(fitted("columns")._repr_mimebundle_()) == {"text/plain"}


def test_a_model_in_any_state_is_shown():
    model = copy.copy(fitted("effects"))
    model.weights_ = None  # as after an incomplete restoration
    assert summary_of(model) == ""


def test_attributes_that_a_model_lacks_are_absent():
    """scikit-learn's diagram and tab completion read all attributes."""
    online, components = fitted("without samples"), fitted("components")
    for model, absent in ((online, "loo_residuals_"), (components, "predictor_")):
        assert not hasattr(model, absent)
        assert "coef_" in dir(model)  # which reads all attributes
    with pytest.raises(TypeError, match="a Predictor cannot be made of PCA"):
        components.predictor_  # noqa: B018
    search = CriterionSearch(clone(components), {"max_terms": [1, 2]}).fit(X, y)
    assert not hasattr(search, "predictor_")
