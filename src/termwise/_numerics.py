"""Every numerical tolerance in one table, each with its reason.

Relative tolerances are shares of the quantity named in the comment. float64 carries about sixteen digits; a tolerance of
1e-10 therefore leaves six digits for what rounding does to sums over many samples.
"""

# -- arrays and validation ---------------------------------------------------------------------------------------------

# -- design matrices ---------------------------------------------------------------------------------------------------

# -- bases -------------------------------------------------------------------------------------------------------------

# -- linear algebra ----------------------------------------------------------------------------------------------------

# -- selection ---------------------------------------------------------------------------------------------------------

# -- estimators --------------------------------------------------------------------------------------------------------

# -- recipe ------------------------------------------------------------------------------------------------------------
ERROR_DIGITS = 12  # digits of a cross-validated error (share of the variance) that two summation orders agree on
WIDTH_ERROR_DIGITS = 9  # the same for the ridge errors of widths, which come from eigenvectors
EXACT_FIT_ERROR = 1e-9  # share of the variance: models with less error than this are all exact but for rounding
EQUAL_RESIDUALS = 1e-6  # share of the largest residual by which the residuals of equal models may differ
STACKING_PENALTY_ROOT = 1e-3  # root of the ridge penalty on stacking weights: decides among near-duplicates only

# -- deployment --------------------------------------------------------------------------------------------------------

# -- explanation -------------------------------------------------------------------------------------------------------
