"""Times of the engine and of the automatic estimators from commit to commit: `make asv`."""
