"""The flagship estimators: a dictionary, a target and a size chosen by cross-validation."""

from termwise.recipe.estimators import TermwiseClassifier, TermwiseRegressor

__all__ = ["TermwiseClassifier", "TermwiseRegressor"]
