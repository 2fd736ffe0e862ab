"""Explanations of a fitted model: effects, diagnostics, plots and the HTML report."""
