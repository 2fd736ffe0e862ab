"""Choosing between models: criteria, rules, and the path of a forward selection."""

from termwise.linalg.criteria import CRITERIA, bic, fpe, gcv, loo, uev
from termwise.selection.engine import forward_path
from termwise.selection.path import SelectionPath
from termwise.selection.rules import Choice, ClosedForm, Rule
from termwise.selection.settings import RULES

__all__ = [
    "CRITERIA",
    "RULES",
    "Choice",
    "ClosedForm",
    "Rule",
    "SelectionPath",
    "bic",
    "forward_path",
    "fpe",
    "gcv",
    "loo",
    "uev",
]
