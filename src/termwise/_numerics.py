"""Every numerical tolerance in one table, each with its reason.

Relative tolerances are shares of the quantity named in the comment. float64 carries about sixteen digits; a tolerance
of 1e-10 therefore leaves six digits for what rounding does to sums over many samples. Where a tolerance depends on the
precision of the data there is one for each dtype.
"""

import numpy as np


class NumericalWarning(UserWarning):
    """Digits of the data are lost: a column varies by hardly more, or by less, than the rounding of its entries.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from termwise import ForwardRegressor, NumericalWarning
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(50, 2))
    >>> X = (Z + [0, 1e7]).astype(np.float32)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", NumericalWarning)
    ...     ForwardRegressor().fit(X, Z.sum(axis=1)).support_.tolist()
    [0]
    """


FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

# -- arrays and validation ---------------------------------------------------------------------------------------------

# Range of the largest magnitude of a column and of the targets, by the precision of the data. Standard errors of mean
# squared errors are sums of fourth powers, of residuals divided by leverage gaps down to 1e-10 and times weights: up to
# 1e288 * 1e15, within float64. Residuals are multiplied by columns of float32, and predictions returned, in float32.
MAGNITUDE_RANGE: dict[np.dtype, tuple[float, float]] = {FLOAT64: (1e-62, 1e62), FLOAT32: (1e-30, 1e30)}
# Largest linear predictor of a log link, beyond which predictions would leave that range and, a little later, overflow.
LOG_RESPONSE_MAX = {dtype: float(np.log(largest)) for dtype, (_, largest) in MAGNITUDE_RANGE.items()}
SAMPLE_WEIGHT_MAX = 1e15  # times the fourth power above; beyond 2^53, repetitions are no whole numbers any more
SAMPLE_WEIGHT_SHARE = 1e-30  # of the largest weight: smaller ones change no digit and are zero, as squares may vanish
RELATIVE_WEIGHT_MIN = 1e-6  # sum of weights that need not be repetitions: with an intercept the mean is divided by it

# -- design matrices ---------------------------------------------------------------------------------------------------

# Share of a column's square that a difference of sums must leave: to keep twelve digits, of float32's seven five.
CANCELLATION_SHARE = {FLOAT64: 1e-4, FLOAT32: 1e-2}
# Share of a column's square, not centred, that must be left of a new column for its products to come from `G'G`, whose
# error is relative to the whole: float64 then keeps twelve digits, float32 six of seven.
GRAM_SHARE = {FLOAT64: 1e-4, FLOAT32: 0.1}
# Share of a column's square left after centring below which a copy less its mean is used: products with a column whose
# mean is 1,000 standard deviations lose three of sixteen digits; float32 has seven and can spare one.
OFFSET_SHARE = {FLOAT64: 1e-6, FLOAT32: 1e-2}
# Share of a column's length, not centred, that is rounding: four units in the last place of float32. Columns in float64
# are often computed, and off by thousands of units.
ROUNDING_SHARE = {FLOAT64: 1e-12, FLOAT32: 4 * float(np.finfo(np.float32).eps)}
FEW_DIGITS = 4.0  # times the rounding share: a column varying by less has one or two digits, and a warning is due
KERNEL_PRODUCT_RANGE = 1000.0  # widths from the origin beyond which distances by products lose ten digits
FLOAT32_SUM_ROWS = 1 << 13  # rows that BLAS adds up in float32: a million, one by one, lose a hundred ulp
SUM_ROUNDING_ULPS = 8  # units in the last place by which a difference of weighted sums may be off

# -- bases -------------------------------------------------------------------------------------------------------------

ARD_FTOL = 1e-4  # relative gain of the posterior at which L-BFGS stops: relevances are rounded to three digits anyway
ARD_MIN_EXTENT = 0.1  # range of an input in length-scales below which it changes no Gaussian by more than a hundredth
CONSTANT_TOLERANCE = 1e-12  # share of the sum of squares left after centring, below which a function is constant
DUPLICATE_DIGITS = 9  # decimals to which projections of normalised functions agree where these are multiples

# -- linear algebra ----------------------------------------------------------------------------------------------------

LEVERAGE_GAP_MIN = 1e-10  # of 1: a smaller leverage gap is rounding, and the sample has leverage 1
FREEDOM_MIN = 1e-8  # of n: with fewer residual degrees of freedom the residual is no estimate of the noise
EXACT_ROW = 1e-13  # of the largest target: a row whose gap and residual are both smaller is fitted exactly
RESOLVED_RATIO = 1e-10  # of the largest singular value: below, singular values are rounding of G
COLUMN_SPREAD_MAX = 1e6  # of column lengths: beyond, columns are scaled to length one, or small ones lose their digits
GRAM_EIGENVALUE_MIN = 1e-6  # of the largest: down to this ratio forming G'G keeps ten digits
PAIR_EIGENVALUE_MIN = 1e-3  # of the largest: products of splines in directions with fewer samples extrapolate wildly
TRUNCATED_EIGENVALUE_MIN = 1e-10  # of the largest: directions below are dropped where any penalty suppresses them
GRAM_SINGULAR_MIN = 1e-5  # of the largest singular value: above, squaring keeps six digits
DOWNDATE_GAP_MIN = 1e-4  # removing a sample from a factor loses about eps / gap; below, it is computed afresh
FACTOR_COLUMN_MIN = 1e-12  # of a column's length: with less left beside the columns before it, it depends on them
# Of the largest singular value, where some weights are undetermined: weights along smaller directions would cancel to
# less than half of the digits.
UNDETERMINED_RATIO = 1e-8
ROOT_GAP_MIN = 1e-9  # of |g_1|: narrower intervals lie between roots that differ by rounding, Hong (37)
RANK_TOLERANCE = 1e-9  # rounding of the rank of an order statistic: sums of frequency weights
RATE_TIE = 1e-12  # error rates that differ by less are equal but for rounding
CALIBRATION_GRADIENT = 1e-10  # of the log loss: weighted and repeated samples then agree to eight digits
METRIC_SHARE_MIN = 1e-8  # of the mean weight of a sample in the metric of a loss: means of counts may vanish
NEWTON_DECREMENT = 1e-8  # of the number of samples, in units of the log-likelihood: the last step squares it
NEWTON_DECREMENT_FINAL = 1e-12  # the same for the weights of a fitted model: repeated and weighted samples then agree
NEWTON_RIDGE = 1e-10  # of the largest entry of a Hessian, for directions that neither data nor penalty determine
NULL_DEVIANCE_MIN = 1e-6  # of the number of samples: less is a constant target, such as a single class
OBJECTIVE_ROUNDING = 1e-12  # share of an objective that a step may increase it by, which is rounding of its sum
RESIDUAL_SCALE_MIN = 1e-4  # of the scale of the targets: smaller residuals are an exact fit, not noise
SCORE_ZERO = 1e-12  # scores of classes down to minus this are zero but for rounding, which predicts +1

# -- selection ---------------------------------------------------------------------------------------------------------

TIE_TOLERANCE = 1e-10  # relative difference below which two scores are equal: ties go to the lower index
SCORE_ULPS = 500  # times a candidate's length over that of its residual: by which its score may be off
DEPENDENT_COLUMN = 1e-10  # of its squared norm: a column with a smaller residual beside the others depends on them
# The same of a candidate of forward selection: of 1e-12, the rounding of sums leaves three digits, enough to rank it,
# and what is chosen is made orthogonal anew. Smooth dictionaries need several such functions beside each other.
DEPENDENT_CANDIDATE = 1e-12
# The same where the residual vector of a candidate is computed, which is done when 1e-10 of its square is left and when
# 1e-5 of that is: at 1e-10 of its length it has six digits. Beyond, weights of 1e10 times the targets would leave
# predictions in float64 even fewer: with 1e-22 they were measured to differ from the fit by a tenth of the residuals.
DEPENDENT_RESIDUAL, RESIDUAL_SHARE = 1e-20, 1e-5
# Penalty, of a squared norm, below which residual vectors are computed. Of a combination of chosen columns a penalty
# leaves its square, in this unit, times 1e6 or less: that much counts as dependent, 1e-12 at this penalty.
NEGLIGIBLE_PENALTY = 1e-9
DEPENDENT_COLUMN_FLOAT32 = 1e-5  # the same for float32, which carries about seven digits
EQUAL_ENTRIES_ULPS = 1000  # of equal entries, by which a computed standard deviation may differ from zero
REORTHOGONALISE_BELOW = 0.1  # keeping this share of its square, a column is orthogonal to ten ulp at the first pass
SMALLEST_NORMAL = 2.2250738585072014e-308  # smallest normal float64, instead of a zero that is divided by
# Of the lengths of two vectors by which their product may be off, after tens of updates: measured, ten in float32. In
# float64 also of the leave-one-out error of the model so far, by which its bounds may be off.
LOO_BOUND_ULPS = 64
LOO_DEVIATION_ROUNDING = 1e-13  # share by which the sums that make up |(omega - omega0) r| may be off
LOO_WEIGHT_MAX = 1e25  # near the end of float32's range; capping a weight weakens a lower bound, but keeps it one
CLASS_OUTPUT_ULPS = 64  # outputs of size one that differ by less are equal, as binary columns often make them
REESTIMATED_ALPHA_START = 1e-3  # share of the median squared column that alpha="reestimate" starts from
BOUND_MARGIN = 1e-8  # of a weight and its change: closer to a bound, other ways to solve for it may end beyond
FITTED_BOUND_MARGIN = 1e-3  # the same for weights by Newton's method, which ends some digits before rounding
KNOCKOFF_RIDGE = 1e-8  # of variance one: dependent columns have a covariance that can be inverted to eight digits
REESTIMATED_ALPHA_RANGE = 1e15  # factor around the mean squared column that a re-estimated penalty is kept within

# -- estimators --------------------------------------------------------------------------------------------------------

EXACT_FIT_NOISE = 1e-14  # of |y|^2, added to the error of local ridge so that an exact fit still prunes terms
EVIDENCE_NOISE = 1e-29  # of |y|^2, likewise for LROLS, whose updates divide by the noise variance
LARGEST_PENALTY = 1e15  # of the squared norm of a term: with a larger one its weight is zero but for rounding
PENALTY_RATIO_MIN = 1e-4  # of the largest eigenvalue: with smaller penalties the dual form loses digits
GAMMA_RATIO_MIN = 1e-10  # of the largest gamma, Hagiwara 2011: smaller components oscillate between the samples
NOISE_SHARE_MIN = 1e-18  # of the variance of y: a smaller residual variance is rounding of a target without noise
QUADRATIC_SLOPE_MIN = 1e-14  # of a v'v in Orr, appendix A.11: a smaller slope is rounding, and GCV has no minimum

# -- automatic estimators ----------------------------------------------------------------------------------------------

ERROR_DIGITS = 12  # digits of a cross-validated error (share of the variance) that two summation orders agree on
WIDTH_ALPHA_MIN = 1e-6  # of the ridge fits that choose a width: near interpolation their errors are rounding
WIDTH_ERROR_DIGITS = 7  # the same for the ridge errors of widths, which come from eigenvectors
EXACT_FIT_ERROR = 1e-9  # share of the variance: models with less error than this are all exact but for rounding
EQUAL_RESIDUALS = 1e-6  # share of the largest residual by which the residuals of equal models may differ
STACKING_PENALTY_ROOT = 1e-3  # root of the ridge penalty on stacking weights: decides among near-duplicates only

# -- explanation -------------------------------------------------------------------------------------------------------

# Eigenvalues below this share of the largest are rounding errors, and would only stretch the axis of penalties.
SPECTRUM_PLOT_FLOOR = 1e-12
