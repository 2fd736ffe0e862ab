"""The HTML report of a fitted model, self-contained."""

from termwise.explain.report import render, write_report

__all__ = ["render", "write_report"]
