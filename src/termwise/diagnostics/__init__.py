"""Numbers for people: what a fitted model is and how good it is, as plain data."""

from termwise.diagnostics.collect import facts
from termwise.diagnostics.comparison import held_out_comparison

__all__ = ["facts", "held_out_comparison"]
