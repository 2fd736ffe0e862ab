"""Choosing between models: criteria, rules, and the path of a forward selection."""

from importlib import import_module
from typing import Any

from termwise._checks import warn
from termwise.linalg.criteria import CRITERIA, bic, fpe, gcv, loo, uev
from termwise.selection.engine import RULES
from termwise.selection.path import SelectionPath
from termwise.selection.rules import Choice, ClosedForm, Rule

__all__ = [
    "CRITERIA",
    "RULES",
    "Choice",
    "ClosedForm",
    "Rule",
    "SelectionPath",
    "bic",
    "fpe",
    "gcv",
    "loo",
    "uev",
]


def __getattr__(name: str) -> Any:
    """Return `forward_path`, which is `termwise.forward_path` now."""
    if name != "forward_path":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn("Import forward_path from termwise.", DeprecationWarning)
    return import_module("termwise.execution").forward_path
