"""Every numerical tolerance in one table, each with its reason.

Relative tolerances are shares of the quantity named in the comment. float64 carries about sixteen digits; a tolerance
of 1e-10 therefore leaves six digits for what rounding does to sums over many samples.
"""

# -- arrays and validation ---------------------------------------------------------------------------------------------

# -- design matrices ---------------------------------------------------------------------------------------------------

CANCELLATION_SHARE = 1e-4  # share of a column's square that a difference of sums must leave to keep twelve digits
KERNEL_PRODUCT_RANGE = 1000.0  # widths from the origin beyond which distances by products lose ten digits
SUM_ROUNDING_ULPS = 8  # units in the last place by which a difference of weighted sums may be off

# -- bases -------------------------------------------------------------------------------------------------------------

# -- linear algebra ----------------------------------------------------------------------------------------------------

# -- selection ---------------------------------------------------------------------------------------------------------

LEVERAGE_GAP_MIN = 1e-10  # a leverage gap below this is rounding: the sample has leverage 1
TIE_TOLERANCE = 1e-10  # relative difference below which two scores are equal: ties go to the lower index
DEPENDENT_COLUMN = 1e-10  # a column keeping less of its square beside the others depends on them
DEPENDENT_COLUMN_FLOAT32 = 1e-5  # the same for float32, which carries about seven digits
CONSTANT_COLUMN = 1e-12  # a column varying by less than this share of its mean is constant but for rounding
REORTHOGONALISE_BELOW = 0.1  # keeping this share of its square, a column is orthogonal to ten ulp at the first pass
SMALLEST_NORMAL = 2.2250738585072014e-308  # smallest normal float64, instead of a zero that is divided by
LOO_BOUND_ULPS = 64  # of the leave-one-out error of the model so far, by which its bounds may be off
LOO_DEVIATION_ROUNDING = 1e-13  # share by which the sums that make up |(w - w0) r| may be off
LOO_WEIGHT_MAX = 1e25  # near the end of float32's range; capping a weight weakens a lower bound, but keeps it one
CLASS_OUTPUT_ULPS = 64  # outputs of size one that differ by less are equal, as binary columns often make them
REESTIMATED_ALPHA_START = 1e-3  # share of the median squared column that alpha="reestimate" starts from
REESTIMATED_ALPHA_RANGE = 1e15  # factor around the mean squared column that a re-estimated penalty is kept within

# -- estimators --------------------------------------------------------------------------------------------------------

# -- recipe ------------------------------------------------------------------------------------------------------------

# -- deployment --------------------------------------------------------------------------------------------------------

# -- explanation -------------------------------------------------------------------------------------------------------
