"""The scikit-learn estimators, except the automatic ones.

The steps of a fit are in `data` (validation), `design` (basis and design matrix), `termwise.execution` (selection) and
`termwise.linalg` (weights); `folds` repeats all of them without each fold, `base` stores the result, `FittedTerms`, and
`prediction` predicts from it. Every other module is one estimator, or what only a few of them need.
"""
