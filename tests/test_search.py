"""CriterionSearch: every candidate fitted once, the smallest criterion wins."""

from __future__ import annotations

import gc
import pickle
import re
import weakref

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from joblib import cpu_count
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.metadata_routing import process_routing
from threadpoolctl import threadpool_info

from termwise import BasisRidge, CriterionSearch, ForwardRegressor, LocalRidge, RadialBasis

WIDTHS = {"basis__width": [0.1, 0.5, 1.0, 3.0, 30.0]}


class Judged(RegressorMixin, BaseEstimator):
    """Has the criterion it is told to have."""

    def __init__(self, value=0.0, error=None, tag=None):
        self.value = value
        self.error = error
        self.tag = tag

    def fit(self, X, y, **fit_params):
        if self.error is not None:
            raise self.error
        self.criterion_value_ = self.value
        self.seen_ = X, y, fit_params
        self.threads_ = pool_sizes()
        return self

    def predict(self, X):
        return np.zeros(len(X))


class Labels(ClassifierMixin, Judged):
    """A two-class classifier that is sure of one class."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return super().fit(X, y)

    def predict_proba(self, X):
        return np.tile([1.0, 0.0], (len(X), 1))

    def decision_function(self, X):
        return np.full(len(X), self.value)


class Halves(Judged):
    """A transformer with a criterion."""

    def transform(self, X):
        return X / 2

    def inverse_transform(self, X):
        return X * 2

    def get_feature_names_out(self, input_features=None):
        return np.array(["half"])


def pool_sizes():
    return [pool["num_threads"] for pool in threadpool_info()]


@pytest.fixture
def data(rng):
    X = rng.uniform(-2, 2, size=(40, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=40)


@pytest.fixture
def widths():
    return CriterionSearch(BasisRidge(RadialBasis(), alpha="loo"), WIDTHS)


def of_values(*values, **settings):
    return CriterionSearch(Judged(), {"value": list(values)}, **settings).fit([[0.0]], [0.0])


# -- what is chosen ----------------------------------------------------------------------------------------------------


def test_equals_fitting_by_hand(data, widths):
    X, y = data
    models = [BasisRidge(RadialBasis(width=width), alpha="loo").fit(X, y) for width in WIDTHS["basis__width"]]
    values = [model.criterion_value_ for model in models]
    best = int(np.argmin(values))
    search = widths.fit(X, y)
    assert 0 < best < 4
    assert search.best_index_ == best
    assert search.best_params_ == {"basis__width": WIDTHS["basis__width"][best]}
    assert search.best_criterion_ == search.criterion_value_ == search.best_estimator_.criterion_value_ == values[best]
    np.testing.assert_array_equal(search.predict(X), models[best].predict(X))
    np.testing.assert_array_equal(search.results_["criterion_value"], values)
    np.testing.assert_array_equal(search.results_["n_terms"], 40)
    np.testing.assert_array_equal(search.results_["param_basis__width"], WIDTHS["basis__width"])
    np.testing.assert_array_equal(search.results_["error"], "")
    assert (search.results_["fit_seconds"] > 0).all()


def test_list_of_grids(data):
    grids = [{"alpha": [1e6]}, {}, {"basis": [RadialBasis()], "basis__width": [0.01, 1.0]}]
    search = CriterionSearch(BasisRidge(alpha="gcv"), grids).fit(*data)
    assert search.results_["params"][:2] == [{"alpha": 1e6}, {}]
    assert search.best_index_ == 3
    assert search.best_estimator_.basis.width == 1.0
    assert search.results_["param_alpha"].tolist() == [1e6, None, None, None]
    assert search.results_["param_basis__width"].tolist() == [None, None, 0.01, 1.0]
    assert search.results_["param_basis__width"].dtype == np.float64
    assert len(pd.DataFrame(search.results_)) == 4


def test_the_grid_and_the_estimator_stay_as_they_are(data):
    basis, model = RadialBasis(), BasisRidge()
    search = CriterionSearch(model, {"basis__width": [0.5], "basis": [basis]}).fit(*data)
    assert not hasattr(model, "coef_")
    assert model.basis is None
    assert basis.width == 1.0
    assert search.best_estimator_.basis is not basis


def test_values_of_any_kind(data):
    widths = [np.array([0.5, 2.0]), [1.0, 1.0], "median", 2.0]
    column = (
        CriterionSearch(BasisRidge(RadialBasis()), {"basis__width": widths}).fit(*data).results_["param_basis__width"]
    )
    assert column.dtype == object
    assert all(got is given for got, given in zip(column, widths, strict=True))
    switch = CriterionSearch(BasisRidge(), {"fit_intercept": [True, False]}).fit(*data)
    assert switch.results_["param_fit_intercept"].dtype == bool


def test_nested_searches_and_parameters(data, widths):
    outer = CriterionSearch(widths, {"estimator__basis__kernel": ["gaussian", "cauchy"]}).fit(*data)
    kernels = [clone(widths).set_params(**params).fit(*data) for params in outer.results_["params"]]
    assert outer.best_criterion_ == min(search.best_criterion_ for search in kernels)
    assert outer.n_terms_ == 40
    assert clone(outer).set_params(estimator__estimator__basis__width=7.0).estimator.estimator.basis.width == 7.0


def test_pipelines_are_judged_by_their_last_step(data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), BasisRidge(RadialBasis(), alpha="loo"))
    search = CriterionSearch(pipeline, {"basisridge__basis__width": [0.5, 1.0]}).fit(X, y)
    inside = make_pipeline(StandardScaler(), RadialBasis(width=search.best_params_["basisridge__basis__width"]))
    assert search.criterion_value_ == pytest.approx(BasisRidge(inside, alpha="loo").fit(X, y).criterion_value_)
    np.testing.assert_array_equal(search.results_["n_terms"], 40)


def test_ties_go_to_the_first():
    search = CriterionSearch(Judged(value=1.0), {"tag": ["a", "b", "c"]}).fit([[0.0]], [0.0])
    assert search.best_params_ == {"tag": "a"}


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_criteria_that_are_not_finite_rank_last(odd):
    search = of_values(odd, 2.0, odd, 1.0)
    assert search.best_index_ == 3
    np.testing.assert_array_equal(search.results_["criterion_value"], [odd, 2.0, odd, 1.0])
    assert search.results_["n_terms"].mask.all()


def test_no_finite_criterion():
    with pytest.warns(RuntimeWarning, match=r"no candidate has a finite criterion_value_, got nan for the first: the"):
        search = of_values(np.nan, np.inf)
    assert search.best_index_ == 0
    assert np.isnan(search.best_criterion_)


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "grid", "criteria"),
    [
        (BasisRidge(), {"alpha": [1.0, "gcv", "uev"]}, "gcv and uev"),
        (ForwardRegressor(), {"criterion": ["tcr", "bic"]}, "loo and bic"),
        (ForwardRegressor(), {"loss": ["squared", "huber"]}, "loo and loo with loss='huber'"),
    ],
)
def test_different_criteria_are_not_compared_silently(estimator, grid, criteria, data):
    with pytest.warns(UserWarning, match=f"must give all candidates the same criterion, got {re.escape(criteria)}: "):
        CriterionSearch(estimator, grid).fit(*data)


def test_failing_candidates_are_recorded(data, widths):
    widths.set_params(param_grid={"basis__width": [-1, 1.0, 0]})
    pattern = (
        r"2 of 3 candidates could not be fitted and rank last, the first, \{'basis__width': -1\}, with: width must"
    )
    with pytest.warns(FitFailedWarning, match=pattern) as caught:
        search = widths.fit(*data)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert search.best_index_ == 1
    np.testing.assert_array_equal(np.isinf(search.results_["criterion_value"]), [True, False, True])
    assert search.results_["n_terms"].tolist() == [None, 40, None]
    assert search.results_["error"][1] == ""
    assert search.results_["error"][2].startswith("width must be finite and > 0, got 0")


def test_a_fit_without_a_criterion_beats_a_failure():
    search = CriterionSearch(Judged(), [{"error": [np.linalg.LinAlgError()]}, {"value": [np.nan]}])
    with (
        pytest.warns(FitFailedWarning, match=r"with: LinAlgError\(\)"),
        pytest.warns(RuntimeWarning, match="no candidate has a finite"),
    ):
        search.fit([[0.0]], [0.0])
    assert search.best_index_ == 1


def test_a_search_that_fails_leaves_everything_as_it_was(data, widths):
    X, y = data
    before = widths.fit(X, y).predict(X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        widths.fit(X * np.nan, y)
    np.testing.assert_array_equal(widths.predict(X), before)


class Wrong(LinearRegression):
    """No criterion."""


def fit(estimator=None, param_grid=None, **settings):
    X = np.arange(24.0).reshape(12, 2) ** 1.5
    grid = {"alpha": [1.0]} if param_grid is None else param_grid
    return CriterionSearch(BasisRidge() if estimator is None else estimator, grid, **settings).fit(X, X[:, 0])


CASES = [
    ("estimator in words", lambda: fit("ridge"), TypeError,
     r"estimator must be an instance of a scikit-learn estimator, got 'ridge': give one such as BasisRidge"),
    ("a class", lambda: fit(BasisRidge), TypeError, r"estimator must be an instance of a scikit-learn est"),
    ("no criterion", lambda: fit(Wrong(), {"positive": [True]}), TypeError,
     r"estimator must have a criterion_value_ once it is fitted, got Wrong, which has none: use an estimator of"),
    ("no criterion, in a worker", lambda: fit(Wrong(), {"positive": [True, False]}, n_jobs=2), TypeError,
     r"estimator must have a criterion_value_ once it is fitted, got Wrong"),
    ("no criterion at the end", lambda: fit(make_pipeline(Wrong()), {"wrong__positive": [True]}), TypeError,
     r"estimator must have a criterion_value_ once it is fitted, got Wrong"),
    ("no grids", lambda: fit(param_grid=[]), ValueError,
     r"param_grid must be a dict of lists or a list of such dicts, got \[\], which is empty: name a parameter and the"),
    ("empty grid", lambda: fit(param_grid={}), ValueError, r"got {}, which is empty: name a parameter and the values"),
    ("no values", lambda: fit(param_grid={"alpha": []}), ValueError,
     r"param_grid must be a dict of lists or a list of such dicts, got {'alpha': \[\]}: .*non-empty"),
    ("one value", lambda: fit(param_grid={"alpha": 1.0}), TypeError,
     r"param_grid must be a dict of lists .*, got {'alpha': 1\.0}: .* needs to be a list"),
    ("a number for a grid", lambda: fit(param_grid=3), TypeError, r"param_grid must be a dict of lists .*, got 3: "),
    ("unknown parameter", lambda: fit(param_grid={"beta": [1]}), ValueError,
     r"param_grid must name parameters of the estimator, got 'beta' for BasisRidge\(\): it has alpha, basis, fit_int"),
    ("parameter of nothing", lambda: fit(param_grid={"basis__width": [1]}), ValueError,
     r"param_grid must name parameters of the estimator, got 'basis__width' for BasisRidge\(\): it has alpha, basis"),
    ("not a name", lambda: fit(param_grid={1: [1]}), ValueError, r"param_grid must name .*, got 1 for BasisRidge\(\)"),
    ("no jobs", lambda: fit(n_jobs=0), ValueError,
     r"n_jobs must be a whole number other than 0, or None, got 0: -1 uses all cores, None leaves it to joblib\."),
    ("jobs in words", lambda: fit(n_jobs="all"), TypeError, r"n_jobs must be a whole number, got 'all': -1 uses all"),
    ("verbose", lambda: fit(verbose=-1), ValueError, r"verbose must be a whole number >= 0, got -1: 0 is silent, 1 pr"),
    ("all fail", lambda: fit(param_grid={"alpha": [-1, "x"]}), ValueError,
     r"param_grid must hold a candidate that can be fitted, but all 2 failed, the first, {'alpha': -1}, with: alpha"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "error", "pattern"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_message(action, error, pattern):
    with pytest.raises(error, match=pattern):
        action()


def test_unknown_parameters_are_found_before_anything_is_fitted():
    unfittable = Judged(error=AssertionError("fitted"))
    with pytest.raises(ValueError, match="param_grid must name parameters"):
        CriterionSearch(unfittable, [{"value": [1.0]}, {"valeu": [1.0]}]).fit([[0.0]], [0.0])


# -- in parallel -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_parallel_equals_sequential(data, widths):
    X, y = data
    one, two = widths.fit(X, y), clone(widths).set_params(n_jobs=2).fit(X, y)
    assert one.best_params_ == two.best_params_
    np.testing.assert_allclose(one.results_["criterion_value"], two.results_["criterion_value"])
    np.testing.assert_allclose(one.predict(X), two.predict(X))


@pytest.mark.slow
def test_processes_get_their_share_of_the_cores():
    search = of_values(2.0, 1.0, n_jobs=2)
    assert max(search.best_estimator_.threads_, default=1) <= max(1, cpu_count() // 2)


@pytest.mark.slow
def test_losers_are_let_go():
    alive = weakref.WeakSet()
    most = []

    class Counted(Judged):
        def fit(self, X, y):
            gc.collect()
            most.append(len(alive))
            alive.add(self)
            return super().fit(X, y)

    CriterionSearch(Counted(), {"value": [3, 4, 5, 2, 6, 7]}).fit([[0.0]], [0.0])
    assert most == [0, 1, 1, 1, 1, 1]


# -- as an estimator ---------------------------------------------------------------------------------------------------


def test_delegation_to_a_regressor(data, widths):
    X, y = data
    search = widths.fit(X, y)
    best = search.best_estimator_
    assert search.score(X, y) == best.score(X, y)
    assert search.score(X, y, sample_weight=np.arange(40)) == best.score(X, y, sample_weight=np.arange(40))
    np.testing.assert_array_equal(search.predict(X, return_std=True), best.predict(X, return_std=True))
    np.testing.assert_array_equal(search.predict_interval(X, coverage=0.5), best.predict_interval(X, coverage=0.5))
    assert search.summary(3) == best.summary(3)
    assert (search.n_terms_, search.n_features_in_) == (40, 2)
    assert is_regressor(search)
    assert not is_classifier(search)


@pytest.mark.parametrize(
    "name", ["predict_proba", "decision_function", "transform", "get_feature_names_out", "classes_"]
)
def test_what_the_estimator_has_not_the_search_has_not(data, widths, name):
    assert not hasattr(widths, name)
    search = widths.fit(*data)
    with pytest.raises(AttributeError, match=name):
        getattr(search, name)


def test_delegation_to_a_classifier():
    X = np.array([[0.0], [1.0]])
    search = CriterionSearch(Labels(), {"value": [2.0, 1.0]}).fit(X, ["no", "yes"])
    assert is_classifier(search)
    assert search.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(search.predict_proba(X), [[1, 0], [1, 0]])
    np.testing.assert_array_equal(search.decision_function(X), [1, 1])
    assert not hasattr(search, "predict_interval")


def test_delegation_to_a_transformer():
    search = CriterionSearch(Halves(), {"value": [2.0, 1.0]}).fit([[4.0]], [0.0])
    np.testing.assert_array_equal(search.inverse_transform(search.transform(np.array([[4.0]]))), [[4.0]])
    assert search.get_feature_names_out().tolist() == ["half"]


def test_not_fitted(widths):
    assert not hasattr(widths, "n_features_in_")
    for action in (lambda: widths.predict([[0.0]]), lambda: widths.score([[0.0]], [0.0]), lambda: widths.predictor_):
        with pytest.raises(NotFittedError, match="This CriterionSearch instance is not fitted yet"):
            action()


def test_data_pass_through_untouched():
    X, y, weight = object(), object(), object()
    search = CriterionSearch(Judged(), {"value": [1.0]}).fit(X, y, sample_weight=weight)
    assert search.best_estimator_.seen_ == (X, y, {"sample_weight": weight})


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames(data, frame):
    X, y = data
    table = frame({"a": X[:, 0], "b": X[:, 1]})
    search = CriterionSearch(BasisRidge(), {"alpha": [0.1, 1.0]}).fit(table, y)
    assert search.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_allclose(search.predict(table), clone(search).fit(X, y).predict(X))


def test_sparse_input(data):
    X, y = data
    dense = CriterionSearch(BasisRidge(), {"alpha": [0.1, 1.0]}).fit(X, y)
    np.testing.assert_allclose(clone(dense).fit(sp.csr_array(X), y).predict(sp.csr_array(X)), dense.predict(X))


def test_sample_weight_means_repetition(data, widths, rng):
    X, y = data
    widths.set_params(estimator__basis__centers=X[:9])
    counts = rng.integers(1, 4, size=40)
    weighted = clone(widths).fit(X, y, sample_weight=counts)
    repeated = widths.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert weighted.best_params_ == repeated.best_params_
    np.testing.assert_allclose(weighted.results_["criterion_value"], repeated.results_["criterion_value"])


def test_weights_are_routed(data):
    X, y = data
    weight = np.arange(1.0, 41.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = BasisRidge().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        search = CriterionSearch(model, {"alpha": [0.1]})
        routed = cross_validate(search, X, y, params={"sample_weight": weight}, cv=[(range(30), range(30, 40))])
        model.set_score_request(sample_weight=True)
        assert process_routing(search, "score", sample_weight=weight)["estimator"]["score"] == {"sample_weight": weight}
    assert routed["test_score"][0] == search.fit(X[:30], y[:30], sample_weight=weight[:30]).score(X[30:], y[30:])


def test_pickle_and_clone(data, widths):
    X, y = data
    search = widths.fit(X, y)
    restored = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(restored.predict(X), search.predict(X))
    assert restored.best_params_ == search.best_params_
    copy = clone(search)
    assert not hasattr(copy, "best_estimator_")
    assert copy.get_params()["estimator__alpha"] == "loo"
    assert copy.set_params(estimator__basis__width=5.0).get_params()["estimator__basis__width"] == 5.0


def test_inside_a_grid_search(data):
    search = CriterionSearch(LocalRidge(RadialBasis(centers=10)), {"basis__width": [0.5, 2.0]})
    outer = GridSearchCV(search, {"estimator__basis__kernel": ["gaussian", "cauchy"]}, cv=2).fit(*data)
    assert outer.best_estimator_.best_params_["basis__width"] in (0.5, 2.0)


@pytest.mark.filterwarnings("default::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix")  # scikit-learn's own, of what its checks pass in
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(instance, check, id=f"{position}-{check.func.__name__}")
        for position, (instance, check) in enumerate(
            estimator_checks_generator(CriterionSearch(BasisRidge(), {"alpha": [0.1, 1.0]}))
        )
    ],
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# -- progress ----------------------------------------------------------------------------------------------------------


def test_silent(capfd):
    of_values(1.0, 2.0)
    assert capfd.readouterr() == ("", "")


def test_a_line_per_candidate(capfd):
    search = CriterionSearch(Judged(), [{"value": [1.5]}, {"error": [ValueError("bad")]}], verbose=1)
    with pytest.warns(FitFailedWarning, match="1 of 2 candidates could not be fitted"):
        search.fit([[0.0]], [0.0])
    first, second = capfd.readouterr().out.splitlines()
    assert re.fullmatch(r"\{'value': 1.5\}  \d\.\d\d s  criterion 1.5", first)
    assert re.fullmatch(r"\{'error': ValueError\('bad'\)\}  \d\.\d\d s  failed: bad", second)
