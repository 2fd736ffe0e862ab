"""The automatic estimators, and prediction with what they fit."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, make_friedman1

from termwise import TermwiseClassifier, TermwiseRegressor


class Regression:
    """A table of patients, and Friedman's first test function."""

    params: ClassVar[list[str]] = ["diabetes", "friedman"]
    timeout = 300

    def setup(self, name: str) -> None:
        """Load the data, and fit once for the prediction."""
        if name == "diabetes":
            self.X, self.y = load_diabetes(return_X_y=True)
        else:
            self.X, self.y = make_friedman1(2_000, 10, noise=1.0, random_state=0)
        self.predictor = TermwiseRegressor(random_state=0).fit(self.X, self.y).predictor_
        self.many = np.tile(self.X, (100_000 // len(self.X), 1))

    def time_fit(self, name: str) -> None:
        """Time fit."""
        TermwiseRegressor(random_state=0).fit(self.X, self.y)

    def time_predict_many(self, name: str) -> None:
        """Time the prediction of a hundred thousand rows."""
        self.predictor.predict(self.many)

    def time_predict_one(self, name: str) -> None:
        """Time the prediction of one row."""
        self.predictor.predict_one(self.X[0])

    def track_terms(self, name: str) -> int:
        """Record the number of terms, which explains a change of the times."""
        return self.predictor.n_terms


class Classification:
    """Two classes of tumours."""

    timeout = 300

    def setup(self) -> None:
        """Load the data."""
        self.X, self.y = load_breast_cancer(return_X_y=True)

    def time_fit(self) -> None:
        """Time fit."""
        TermwiseClassifier(random_state=0).fit(self.X, self.y)
