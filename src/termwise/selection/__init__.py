"""Choosing between models: criteria."""

from termwise.selection.criteria import CRITERIA, bic, fpe, gcv, loo, uev

__all__ = ["CRITERIA", "bic", "fpe", "gcv", "loo", "uev"]
