"""Closed forms for a given design matrix: least squares, spectra, criteria, updates of factors."""
