"""scikit-learn's tools around our estimators: meta-estimators, selectors, routing, inspection, copies."""

from __future__ import annotations

import io
import subprocess
import sys

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingRegressor, StackingClassifier, StackingRegressor, VotingRegressor
from sklearn.feature_selection import RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.inspection import DecisionBoundaryDisplay, PartialDependenceDisplay, permutation_importance
from sklearn.linear_model import LinearRegression
from sklearn.metrics import make_scorer, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from termwise import (
    AnovaBasis,
    BasisRidge,
    CriterionSearch,
    ForwardClassifier,
    ForwardRegressor,
    LocalRidge,
    OnlineRidge,
    RadialBasis,
    TermwiseClassifier,
    TermwiseRegressor,
)

RNG = np.random.default_rng(11)
N = 120
X = pd.DataFrame(RNG.uniform(-1, 1, size=(N, 4)), columns=["a", "b", "c", "d"])
y = np.sin(2 * X["a"]) + 2 * X["b"] + 0.1 * RNG.normal(size=N)
LABELS = np.where(y > 0, "yes", "no")
CURVES = ForwardRegressor(AnovaBasis(n_centers=3, order=1), max_terms=6)

REGRESSORS = {
    "target": TransformedTargetRegressor(CURVES, func=np.arcsinh, inverse_func=np.sinh),
    "stack": StackingRegressor([("curves", CURVES), ("line", ForwardRegressor())], BasisRidge(), cv=3),
    "vote": VotingRegressor([("curves", CURVES), ("line", LocalRidge())]),
    "bagging": BaggingRegressor(CURVES, n_estimators=3, random_state=0),
    "columns": make_pipeline(make_column_transformer((StandardScaler(), ["a", "b"])), CURVES),
    "grid": GridSearchCV(ForwardRegressor(RadialBasis(centers=9)), {"basis__width": [0.5, 2.0]}, cv=3),
    "recursive elimination": RFECV(BasisRidge(), cv=3, min_features_to_select=2),
    "search in a pipeline": make_pipeline(StandardScaler(), CriterionSearch(CURVES, {"max_terms": [3, 6]})),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_in_metaestimators(name):
    model = clone(REGRESSORS[name]).fit(X, y)
    assert model.score(X, y) > 0.9
    assert list(model.feature_names_in_) == list(X.columns)


@pytest.mark.parametrize(
    "model",
    [
        CalibratedClassifierCV(ForwardClassifier(loss="squared"), cv=3),
        CalibratedClassifierCV(ForwardClassifier(AnovaBasis(n_centers=2, order=1)), method="isotonic", cv=3),
        TunedThresholdClassifierCV(ForwardClassifier(), cv=3),
        StackingClassifier([("first", ForwardClassifier())], ForwardClassifier(loss="squared"), cv=3),
        OneVsRestClassifier(ForwardClassifier()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_classifiers_in_metaestimators(model):
    fitted = model.fit(X, LABELS)
    assert fitted.score(X, LABELS) > 0.85
    assert set(fitted.classes_) == {"no", "yes"}


def test_several_outputs():
    Y = np.column_stack([y, -y])
    for model in (MultiOutputRegressor(CURVES), RegressorChain(CURVES)):
        np.testing.assert_allclose(model.fit(X, Y).predict(X)[:, 0], clone(CURVES).fit(X, y).predict(X))


def test_curves_of_model_selection():
    ridge = BasisRidge(alpha=0.1)
    _, _, scores = learning_curve(ridge, X, y, cv=3, train_sizes=[0.5, 1.0])
    assert scores.shape == (2, 3)
    _, scores = validation_curve(ridge, X, y, param_name="alpha", param_range=[0.1, 1e4], cv=3)
    assert scores[0].mean() > scores[1].mean()
    score, _, p_value = permutation_test_score(ridge, X, y, cv=3, n_permutations=19, random_state=0)
    assert score > 0.8
    assert p_value == pytest.approx(0.05)
    assert cross_val_predict(ForwardClassifier(), X, LABELS, cv=3, method="predict_proba").shape == (N, 2)


# -- selection of columns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_selectors_in_pipelines_with_frames(container):
    table = X if container == "pandas" else pytest.importorskip("polars").DataFrame(X.to_dict("list"))
    pipeline = make_pipeline(StandardScaler(), ForwardRegressor(), LinearRegression()).set_output(transform=container)
    pipeline.fit(table, y)
    selected = pipeline[:-1].transform(table)
    assert type(selected).__module__.startswith(container)
    assert list(selected.columns) == list(pipeline[:-1].get_feature_names_out()) == ["a", "b"]
    assert pipeline.score(table, y) > 0.9


def test_selectors_of_scikit_learn_read_weights_and_frequencies():
    by_weight = SelectFromModel(ForwardRegressor(), threshold=1e-10).set_output(transform="pandas").fit(X, y)
    assert list(by_weight.transform(X).columns) == ["a", "b"]
    model = ForwardRegressor(AnovaBasis(n_centers=3), max_terms=4, selection_cv=3)
    by_frequency = SelectFromModel(model, importance_getter="selection_frequency_", threshold=0.9).fit(X, y)
    assert {"a", "b"} <= set(by_frequency.get_feature_names_out()) < set(X.columns)
    assert RFECV(BasisRidge(), cv=3).fit(X, y).support_[:2].all()
    sequential = SequentialFeatureSelector(BasisRidge(), n_features_to_select=2, cv=3)
    assert sequential.fit(X, y).get_support().tolist() == [True, True, False, False]


# -- metadata routing --------------------------------------------------------------------------------------------------


def test_routing_through_pipelines_and_searches():
    weight, groups = RNG.uniform(0.5, 2.0, N), np.arange(N) % 10
    with sklearn.config_context(enable_metadata_routing=True):
        model = TermwiseRegressor(dictionary="linear", target="data").set_fit_request(sample_weight=True, groups=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        scorer = make_scorer(r2_score).set_score_request(sample_weight=True)
        grid = GridSearchCV(pipeline, {"termwiseregressor__size": [1, 2]}, scoring=scorer, cv=GroupKFold(3))
        grid.fit(X, y, sample_weight=weight, groups=groups)
        direct = clone(pipeline).set_params(termwiseregressor__size=2)
        direct.fit(X, y, sample_weight=weight, groups=groups)
    assert grid.best_params_ == {"termwiseregressor__size": 2}
    np.testing.assert_array_equal(grid.predict(X), direct.predict(X))
    again = TermwiseRegressor(2, dictionary="linear", target="data")
    again.fit(StandardScaler().fit_transform(X), y, sample_weight=weight, groups=groups)
    np.testing.assert_allclose(direct.predict(X), again.predict(StandardScaler().fit_transform(X)))


def test_routing_of_exposure():
    exposure = RNG.uniform(0.5, 5.0, N)
    counts = RNG.poisson(exposure * np.exp(X["b"]))
    with sklearn.config_context(enable_metadata_routing=True):
        model = ForwardRegressor(loss="poisson").set_fit_request(exposure=True)
        found = cross_validate(
            make_pipeline(StandardScaler(), model),
            X,
            counts,
            params={"exposure": exposure},
            cv=3,
            return_estimator=True,
        )
    without = cross_validate(make_pipeline(StandardScaler(), clone(model)), X, counts, cv=3, return_estimator=True)
    for one, other in zip(found["estimator"], without["estimator"], strict=True):
        assert one.predict(X).mean() < other.predict(X).mean() / 1.5  # rates, not counts


def test_metadata_must_be_requested():
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(PCA(2), TermwiseClassifier(1, dictionary="linear"))
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="groups"):
            pipeline.fit(X, LABELS, groups=np.arange(N))


# -- tags, inspection, copies ------------------------------------------------------------------------------------------


def test_tags():
    ours, scikit_learns = get_tags(ForwardRegressor()), get_tags(LinearRegression())
    assert ours.estimator_type == "regressor"
    assert ours.target_tags.multi_output
    assert ours.input_tags.sparse
    assert ours.transformer_tags is not None
    assert scikit_learns.transformer_tags is None
    assert get_tags(TermwiseClassifier()).estimator_type == "classifier"
    assert get_tags(TermwiseRegressor()).input_tags.allow_nan
    assert not get_tags(TermwiseRegressor(missing="error")).input_tags.allow_nan
    assert get_tags(CriterionSearch(ForwardClassifier(), {})).classifier_tags is not None


def test_inspection():
    matplotlib = pytest.importorskip("matplotlib", reason="displays need matplotlib")
    matplotlib.use("agg")
    model = clone(CURVES).fit(X, y)
    importance = permutation_importance(model, X, y, n_repeats=3, random_state=0).importances_mean
    assert importance[:2].min() > importance[2:].max()
    display = PartialDependenceDisplay.from_estimator(model, X, ["a", ("a", "b")], grid_resolution=5)
    assert display.pd_results[0]["average"].shape == (1, 5)
    classifier = ForwardClassifier(RadialBasis(centers=9)).fit(X[["a", "b"]], np.digitize(y, [-1, 1]))
    for method in ("predict", "predict_proba"):
        display = DecisionBoundaryDisplay.from_estimator(
            classifier, X[["a", "b"]], grid_resolution=5, response_method=method
        )
        assert display.response.shape[:2] == (5, 5)
    matplotlib.pyplot.close("all")


TABLE = X.assign(
    kind=pd.Categorical(RNG.choice(["u", "v"], N), categories=["v", "u"], ordered=True),
    city=RNG.choice(["north", "south", None], N),
    day=pd.date_range("2024-01-01", periods=N).tz_localize("Europe/Rome"),
    count=pd.array([None, *range(N - 1)], dtype="Int64"),
)


@pytest.mark.parametrize(
    "model",
    [
        TermwiseRegressor(3, dictionary="additive", target="data"),
        make_pipeline(make_column_transformer((StandardScaler(), ["a", "b"])), clone(CURVES)),
        ForwardRegressor(make_column_transformer((AnovaBasis(n_centers=2), ["a", "b"]))),
    ],
    ids=["table", "pipeline", "basis of named columns"],
)
def test_copies_by_joblib_and_cloudpickle(model):
    fitted, stream = clone(model).fit(TABLE, y), io.BytesIO()
    joblib.dump(fitted, stream)
    stream.seek(0)
    for restored in (joblib.load(stream), cloudpickle.loads(cloudpickle.dumps(fitted))):
        np.testing.assert_array_equal(restored.predict(TABLE), fitted.predict(TABLE))
        if hasattr(fitted, "summary"):
            assert restored.summary() == fitted.summary()
            pd.testing.assert_frame_equal(
                restored.fitted_terms_.sample, fitted.fitted_terms_.sample.reset_index(drop=True)
            )


def test_online_models_can_be_updated_after_a_copy():
    model = OnlineRidge().fit(X, y).remove_samples(X[:3], y[:3])
    restored = cloudpickle.loads(cloudpickle.dumps(model))
    for one in (model, restored):
        one.partial_fit(X[:3], y[:3]).remove_samples(X[5:9], y[5:9])
    np.testing.assert_array_equal(restored.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="row 0 was never added, or removed already"):
        restored.remove_samples(X[5:6], y[5:6])


PARALLEL = """
import joblib
import numpy as np
from sklearn.model_selection import cross_val_score
from termwise import TermwiseRegressor

rng = np.random.default_rng(0)
X = rng.uniform(size=(620, 4))
y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=620)
alone = TermwiseRegressor().fit(X, y).predict(X)
with joblib.parallel_config(backend="threading", n_jobs=2):
    assert np.array_equal(TermwiseRegressor().fit(X, y).predict(X), alone)
print(cross_val_score(TermwiseRegressor(), np.tile(X, (2, 1)), np.tile(y, 2), cv=2, n_jobs=2).min())
"""


@pytest.mark.slow
def test_automatic_regressor_runs_inside_other_parallel_calls():
    """Folds in threads share no pool with a backend of the caller: with one pool for both, each waited for the other.

    There are more than 500 rows in each of two processes, so that folds are fitted in parallel in both.
    """
    done = subprocess.run([sys.executable, "-c", PARALLEL], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0.9
