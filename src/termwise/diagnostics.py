"""Numbers for people: what a fitted model is and how good it is, as plain data."""

from termwise.explain.collect import facts
from termwise.explain.comparison import held_out_comparison

__all__ = ["facts", "held_out_comparison"]
