"""What a fitted model does: effects, diagnostics, plots and the HTML report."""
