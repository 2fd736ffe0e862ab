"""Small models from a table, with nothing to tune."""

from termwise.flagship.estimators import TermwiseClassifier, TermwiseRegressor

__all__ = ["TermwiseClassifier", "TermwiseRegressor"]
