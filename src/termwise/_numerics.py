"""Every numerical tolerance in one table, each with its reason.

Relative tolerances are shares of the quantity named in the comment. float64 carries about sixteen digits; a tolerance
of 1e-10 therefore leaves six digits for what rounding does to sums over many samples.
"""

# -- arrays and validation ---------------------------------------------------------------------------------------------

# -- design matrices ---------------------------------------------------------------------------------------------------

# -- bases -------------------------------------------------------------------------------------------------------------

ARD_FTOL = 1e-4  # relative gain of the posterior at which L-BFGS stops: relevances are rounded to three digits anyway
ARD_MIN_EXTENT = 0.1  # range of an input in length-scales below which it changes no Gaussian by more than a hundredth
CONSTANT_TOLERANCE = 1e-12  # share of the sum of squares left after centring, below which a function is constant
DUPLICATE_DIGITS = 9  # decimals to which projections of normalised functions agree where these are multiples

# -- linear algebra ----------------------------------------------------------------------------------------------------

# -- selection ---------------------------------------------------------------------------------------------------------

# -- estimators --------------------------------------------------------------------------------------------------------

# -- recipe ------------------------------------------------------------------------------------------------------------

# -- deployment --------------------------------------------------------------------------------------------------------

# -- explanation -------------------------------------------------------------------------------------------------------
