"""Pictures of fitted models. matplotlib is imported when one is drawn, not before."""

from termwise.plots.criterion import CriterionDisplay
from termwise.plots.fit import FitDisplay
from termwise.plots.path import SelectionPathDisplay
from termwise.plots.shape import ShapeDisplay

__all__ = ["CriterionDisplay", "FitDisplay", "SelectionPathDisplay", "ShapeDisplay"]
