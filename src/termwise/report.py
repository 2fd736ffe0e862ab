"""One page about a fitted model: self-contained HTML, nothing loaded from anywhere."""

from termwise.explain.report import render, write_report

__all__ = ["render", "write_report"]
