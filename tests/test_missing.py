"""Missing values: neutral in every basis that allows them, the same in every file and export."""

from __future__ import annotations

import numpy as np
import pytest

from termwise import RadialBasis
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
