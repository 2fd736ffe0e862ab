"""Classification of noisy labels in two stages."""

from termwise.prefilter.classifier import PrefilterClassifier

__all__ = ["PrefilterClassifier"]
