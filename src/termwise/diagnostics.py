"""Diagnostics of a fitted model as plain data."""

from termwise.explain.diagnostics import facts, held_out_comparison

__all__ = ["facts", "held_out_comparison"]
