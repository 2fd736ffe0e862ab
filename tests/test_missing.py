"""Missing values: neutral in every basis that allows them, the same in every file and export."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from termwise import BasisRidge, ForwardRegressor, RadialBasis, SmoothBasis, UnionBasis
from termwise.basis.base import Basis, InputStatistics

NAN = np.nan


class Standardised(Basis):
    """Linear functions, the simplest basis that allows missing values."""

    _per_term = ("columns_",)
    allows_missing = True

    def _fit(self, X, y):
        self.columns_ = np.arange(X.shape[1])
        self.statistics_ = InputStatistics.from_samples(X)

    def evaluate(self, X):
        statistics, units = self.statistics_, np.where(self.statistics_.deviations > 0, self.statistics_.deviations, 1)
        return np.nan_to_num((X - statistics.means) / units)[:, self.columns_]

    def _names(self, inputs):
        return [inputs[j] for j in self.columns_]


def test_statistics_are_those_of_the_present_values():
    X = np.array([[1.0, NAN, 5.0, 1.0], [3.0, NAN, NAN, 2.0], [1.0, NAN, 5.0, 1.0], [NAN, NAN, 5.0, 2.0]])
    statistics = Standardised().fit(X).statistics_
    assert statistics.rows.tolist() == [0, 1, 3]  # the third sample repeats the first, missing values included
    np.testing.assert_allclose(statistics.means, [2.0, 0.0, 5.0, 5 / 3])
    np.testing.assert_allclose(statistics.deviations, [1.0, 0.0, 0.0, np.std([1, 2, 2])])
    np.testing.assert_array_equal(statistics.ranges, [[1, 0, 5, 1], [3, 0, 5, 2]])


def test_inputs_may_be_missing_where_they_were_in_the_fit():
    X = np.array([[1.0, 4.0], [NAN, 5.0], [2.0, 6.0]])
    basis = Standardised().fit(X)
    assert basis.missing_.tolist() == [True, False]
    assert basis.transform([[NAN, 5.0]]).tolist() == [[0.0, 0.0]]
    new = r"X must be complete in inputs that had no missing values in fit, got NaN in x1: fill them in, or fit with "
    with pytest.raises(ValueError, match=new):
        basis.transform([[1.0, NAN]])
    with pytest.raises(ValueError, match="infinity"):
        basis.transform([[np.inf, 5.0]])
    assert basis.expect_missing(np.array([False, True])).missing_.all()
    assert basis.transform([[NAN, NAN]]).tolist() == [[0.0, 0.0]]
    with pytest.raises(ValueError, match="contains NaN"):
        RadialBasis().fit(X)


def gaussian(row, center, widths):
    """A Gaussian by its definition: missing inputs are ignored, and it is zero where all are missing."""
    there = ~np.isnan(row)
    return float(there.any()) * np.exp(-np.sum(((row - center) / widths)[there] ** 2))


@pytest.mark.parametrize("relevance", [None, [1.0, 0.5, 0.0], "auto"])
def test_gaussians_ignore_missing_inputs(relevance):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) + [5.0, 0.0, 1.0]
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    X[rng.uniform(size=X.shape) < [0.3, 0.2, 0.0]] = NAN
    X[3, :2] = NAN
    basis = SmoothBasis(width=("median", [0.5, 1]), relevance=relevance, centers=9).fit(X, y)
    np.testing.assert_allclose(basis.means_, np.nanmean(X, axis=0))
    np.testing.assert_allclose(basis.deviations_, np.nanstd(X, axis=0))
    assert basis.missing_.tolist() == [True, True, False]
    G, inputs = basis.transform(X), np.flatnonzero(basis.relevance_)
    np.testing.assert_allclose(G[:, 1], np.nan_to_num((X[:, 1] - basis.means_[1]) / basis.deviations_[1]))
    for j in np.flatnonzero(basis.columns_ < 0):
        widths = basis.factors_[j] * basis.distance_ * basis.deviations_[inputs] / basis.relevance_[inputs]
        expected = [gaussian(row[inputs], basis.centers_[j, inputs], widths) for row in X]
        np.testing.assert_allclose(G[:, j], expected, atol=1e-12)
        filled = np.where(np.isnan(X), basis.means_, X)[basis.center_rows_[j]]
        np.testing.assert_array_equal(basis.centers_[j], filled)
    assert not G[3, :2].any()
    few = UnionBasis([basis, SmoothBasis(centers=4)]).fit(X, y).take([0, 4, 20, -2 % 27])
    np.testing.assert_allclose(few.transform(X)[:, :2], G[:, [0, 4]])
    assert few.missing_.tolist() == [True, True, False]
    assert not UnionBasis([basis, RadialBasis()]).allows_missing


def test_missing_values_do_not_matter_where_there_are_none():
    """Functions of samples that are complete are those of a basis without missing values."""
    X = np.random.default_rng(1).normal(size=(30, 2))
    plain, more = SmoothBasis(centers=X[:7]).fit(X), np.vstack([X, [[NAN, 0.1]]])
    basis = SmoothBasis(centers=X[:7], width=plain.distance_).fit(X)
    np.testing.assert_allclose(basis.transform(X), plain.transform(X))
    np.testing.assert_allclose(basis.evaluate(more)[:-1], plain.transform(X), rtol=1e-10)


def test_estimators_take_missing_values():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + 0.01 * rng.normal(size=120)
    X[:20, 1] = NAN
    model = ForwardRegressor(UnionBasis([SmoothBasis(centers=5)])).fit(X, y)
    assert model.score(X, y) > 0.99
    model = BasisRidge(make_pipeline(SmoothBasis(centers=5), StandardScaler())).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
