"""Estimators: parameters, documentation and a short fit each."""
