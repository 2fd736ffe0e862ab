"""criterion="cv": size and penalty by cross-validation of the whole selection, against fits in a loop."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, PredefinedSplit

from termwise import ForwardClassifier, ForwardRegressor, RadialBasis, forward_path

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 12)) + 0.7 * RNG.normal(size=(60, 1))
Y = X[:, [1, 4, 7]] @ [1.0, -0.6, 0.3] + RNG.normal(size=60)
FOLDS = KFold(4, shuffle=True, random_state=3)


def errors_in_a_loop(shares: tuple[float, ...], max_terms: int) -> np.ndarray:
    """Mean squared errors by size and penalty: a path and ridge regressions for each fold."""
    errors = np.zeros((max_terms + 1, len(shares)))
    for train, test in FOLDS.split(X):
        terms = forward_path(X[train], Y[train], rule="loo", alpha=1e-6, criterion=None, max_terms=max_terms).terms
        errors[0] += np.sum((Y[test] - Y[train].mean()) ** 2)
        for k in range(1, max_terms + 1):
            columns = X[np.ix_(train, terms[:k])]
            norm = np.mean(np.sum((columns - columns.mean(axis=0)) ** 2, axis=0))
            for i, share in enumerate(shares):
                model = Ridge(1e-6 + share * norm).fit(columns, Y[train])
                errors[k, i] += np.sum((Y[test] - model.predict(X[np.ix_(test, terms[:k])])) ** 2)
    return errors / len(Y)


@pytest.mark.parametrize("refit", [None, "cv"])
def test_errors_are_those_of_fits_in_a_loop(refit: str | None) -> None:
    shares = (0.0,) if refit is None else (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    expected = errors_in_a_loop(shares, 6)
    model = ForwardRegressor(criterion="cv", refit_alpha=refit, cv=FOLDS, max_terms=6).fit(X, Y)
    np.testing.assert_allclose(model.cv_errors_, expected.min(axis=1), rtol=1e-9)
    assert model.n_terms_ == expected.min(axis=1).argmin() > 0
    columns = X[:, model.support_]
    norm = np.mean(np.sum((columns - columns.mean(axis=0)) ** 2, axis=0))
    alpha = 1e-6 + shares[int(expected[model.n_terms_].argmin())] * norm
    assert model.alpha_ == pytest.approx(alpha)
    np.testing.assert_allclose(model.weights_, Ridge(alpha).fit(columns, Y).coef_, rtol=1e-8)
    first = X[:, model.support_[0]]
    alpha = 1e-6 + shares[int(expected[1].argmin())] * np.sum((first - first.mean()) ** 2)
    assert model.at(1).alpha_ == pytest.approx(alpha)


def test_folds_of_a_number_do_not_depend_on_the_order_of_samples() -> None:
    order = np.random.default_rng(1).permutation(len(Y))
    first, second = (ForwardRegressor(criterion="cv").fit(X[rows], Y[rows]) for rows in (np.arange(len(Y)), order))
    np.testing.assert_allclose(first.cv_errors_, second.cv_errors_)
    assert np.all(first.support_ == second.support_)


@pytest.mark.slow
def test_weights_of_noise_are_shrunk_and_long_paths_are_extended() -> None:
    rng = np.random.default_rng(4)
    G = rng.normal(size=(150, 70))
    y = rng.normal(size=150)
    shrunk, loo = (ForwardRegressor(criterion=one, refit_alpha=one).fit(G, y) for one in ("cv", "loo"))
    assert np.linalg.norm(shrunk.weights_) < 0.5 * np.linalg.norm(loo.weights_)
    dense = ForwardRegressor(criterion="cv", refit_alpha="cv").fit(G, G @ rng.normal(size=70))
    assert dense.n_terms_ > 50


def test_other_kinds_of_data() -> None:
    options = {"criterion": "cv", "refit_alpha": "cv", "max_terms": 5}
    model = ForwardRegressor(**options).fit(X, Y)
    sparse = ForwardRegressor(**options).fit(sp.csr_array(X), Y)
    np.testing.assert_allclose(sparse.cv_errors_, model.cv_errors_)
    assert ForwardRegressor(RadialBasis(), **options).fit(X[:, :2], Y).cv_errors_.shape == (6,)
    assert ForwardRegressor(**options).fit(X, np.column_stack([Y, -2 * Y])).weights_.shape[0] == 2
    classes = np.where(Y > 0, "a", "b")
    assert ForwardClassifier(**options).fit(X, classes).loss_ == "squared"
    weights = np.random.default_rng(5).integers(0, 3, size=len(Y))
    weighted = ForwardRegressor(**options).fit(X, Y, weights)
    repeated = ForwardRegressor(**options).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    np.testing.assert_allclose(weighted.cv_errors_, repeated.cv_errors_)
    assert ForwardRegressor(**options, include=[0, 2]).fit(X, Y).n_terms_ >= 2


def test_one_fold_with_all_the_weight() -> None:
    halves = PredefinedSplit(np.repeat([0, 1], 30))
    with pytest.raises(
        ValueError, match=r"cv must put the samples of every fit into at least two folds, got one fold: "
    ):
        ForwardRegressor(criterion="cv", cv=halves).fit(X, Y, np.repeat([1, 0], 30))
    with pytest.raises(ValueError, match=r"and those that selection_cv or criterion='cv' leaves out, are not in a fit"):
        ForwardRegressor(criterion="cv", cv=halves, selection_cv=halves).fit(X, Y)
