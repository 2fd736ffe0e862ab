"""Every constant of the recipe, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RecipeSettings:
    """The constants of `TermwiseRegressor` and `TermwiseClassifier`.

    Unless a comment says otherwise they were chosen on nine regression sets of the papers (ailerons, auto_mpg,
    boston_housing, delta_ailerons, delta_elevators, elevators, kin8nm, puma32H, puma8NH; 200 to 1,000 training samples)
    and on Hong, Chen and Harris's eight two-class sets, on other splits than those reported in the benchmarks. Limits
    on rows, inputs and candidates bound time and memory. Pure rounding tolerances are in `termwise._numerics`.
    """

    # -- how many rows each stage sees, bounding the time of a fit -----------------------------------------------------
    choice_rows: int = 4000  # cross-validation, which chooses dictionary, target and size
    path_rows: int = 20_000  # selection of the terms; the weights are always fitted to all rows
    ridge_rows: int = 1200  # ridge regression on all candidates as a target: cubic in the rows

    # -- cross-validation ----------------------------------------------------------------------------------------------
    n_folds: int = 5  # the usual compromise between bias, variance and time
    n_repeats: int = 2  # of cross-validation for few rows, whose folds are a matter of chance
    repeat_rows: int = 1500  # repeat while fewer rows than this have been predicted
    # With up to four repeats and 2,000 rows, sizes for ten seeds differed more than twofold on four of twelve tables,
    # in place of two; everyday fits take the same time.
    max_repeats: int = 6  # where the choice of the size is close
    # Divisions into folds that are the same for all seeds, half of the largest number: another seed changes only what
    # these leave open. For ten seeds the test error had a range below half of its standard deviation over splits on ten
    # of twelve tables, in place of five; if 1 % of the rows are left out it varies as before.
    shared_divisions: int = 3
    close_rows: int = 4000  # repeat a close choice while fewer rows than this have been predicted
    close_ratio: float = 2.0  # a choice is close if sizes chosen in bootstrap samples differ by more than this factor
    # Trials that are the choice of this share of bootstrap samples take part in these repeats: on 24 tables of 250 to
    # 1,000 training rows the error of "accurate" was the same as with all of them, in 13 % less time.
    contender_share: float = 0.9
    contender_resolution: float = 1e-3  # relative difference of errors below which they are equally good there
    min_fold_rows: int = 10  # distinct inputs per fold below which grouping by inputs would leave out whole levels
    parallel_rows: int = 500  # rows up to which folds are fitted one after the other: too short for threads
    serial_cores: int = 2  # cores up to which training boosting beside the first paths saves no time
    n_bootstrap: int = 100  # bootstrap samples of the out-of-fold losses, from which the error is corrected
    one_thread_rows: int = 20_000  # rows up to which BLAS has one thread: two are no faster, and wait for each other
    ridge_copies: int = 5  # copies of a fold's design matrix alive at once, in the ridge fit; bounds the threads

    # -- length of the paths -------------------------------------------------------------------------------------------
    alpha: float = 1e-6  # ridge penalty during selection: stabilises near-duplicate candidates, hardly shrinks
    first_terms: int = 40  # maximum length of the first paths, which eliminate dictionaries
    min_first_terms: int = 10  # their minimum length
    rows_per_first_term: int = 8  # rows for each of the first terms
    many_classes: int = 30  # with more classes these are rows of each class, which determine its weight of a term
    rows_per_term: int = 3  # rows for each term at any length, short of interpolation
    growth_share: float = 0.7  # a chosen size above this share of the path doubles the path: errors rise and fall
    close_error: float = 1.25  # errors up to this multiple of the smallest: paths that grow with that of the best model
    elimination_se: float = 3.0  # standard errors of the paired difference from which a trial is dropped
    race_folds: int = 2  # folds after which clearly worse trials are dropped, which saves most of their time
    race_rows: int = 300  # rows from which trials are dropped there: in smaller folds differences are random
    # Standard errors by which a dictionary may be worse there than one that it contains, and a nonlinear model than a
    # linear one with an error lower by `min_gain`. On 24 tables of 250 to 1,000 training rows, two splits, the errors
    # are those without the second limit (1.000 "small", 0.998 "accurate"); a linear table of 20,000 rows takes half the
    # time.
    simpler_se: float = 2.0
    extra_terms: int = 10  # terms of the final path beyond the chosen size, for `at(n_terms)`

    # -- penalties, and the preference for linear models ---------------------------------------------------------------
    # Penalty of losses other than the squared one, on standardised columns: C = 1 of scikit-learn.
    loss_alpha: float = 1.0
    # Factor by which that penalty is multiplied or divided, for the linear and the most accurate dictionary, while each
    # step saves `min_gain` of the error. On nine development tables of classes, 400 training rows, the log loss was
    # 1.3 % smaller.
    penalty_factor: float = 8.0
    max_penalty_steps: int = 3  # maximum number of these steps
    # Rows per input up to which linear models are tried with penalties of n / 8, n and 8 n; one for other losses.
    rows_per_penalised_input: float = 10.0
    # Standard errors by which a nonlinear model must be better than a linear one, with fewer inputs. On 22 development
    # tables of up to 1,000 training rows the error was 1.001 ("small") and 0.994 ("accurate") of that without this, in
    # 20 % and 14 % less time. With one standard error, curves among many inputs lost 20 % of the accuracy.
    linear_se: float = 0.5
    # The same for classes. On nine development tables, two splits of up to 400 rows, the log loss was the same in a
    # quarter less time, and the errors of german for ten seeds had a range of 0.9 instead of 3.6 points. With as many
    # inputs as rows, the largest penalty may be worse than the best by as much: on five simulated wide tables, four
    # draws each, the log loss was 0.98 of that with the best.
    label_se: float = 1.0

    # -- choice of the size --------------------------------------------------------------------------------------------
    # "small": standard errors above the minimum, between none and the one-standard-error rule. On 24 tables of 250 to
    # 1,000 training rows "small" lost 2.9 % to "accurate" with 19 terms; with a quarter, 4.4 % with 13 terms.
    small_se: float = 0.125
    # "small": the median of the sizes chosen in bootstrap samples, if its error is larger by at most this share. It
    # varies less with the folds: on six tables with ten seeds each, the largest size was 1.7 to 3.1 times the smallest,
    # and 2.3 to 5 times if an eighth of a standard error of the difference was the limit.
    median_loss: float = 0.03
    small_loss: float = 0.1  # "small": share of the explained variance that may be lost, if standard errors are large
    small_extra_terms: int = 1  # "small": terms beyond the fewest if they lower the error
    readable_terms: int = 20  # "readable": maximum number of terms, what fits on a page
    readable_effects: int = 10  # "readable": maximum number of effects, the sets of inputs of its terms
    drawable_se: float = 1.0  # "small": standard errors by which a model that cannot be drawn must be better

    # -- stacked ensemble ----------------------------------------------------------------------------------------------
    min_gain: float = 0.01  # share of the error an ensemble, or the logarithm of the target, must save to be worth it
    min_member_weight: float = 0.05  # members with smaller weights are dropped: each costs its terms

    # -- logarithm of the target ---------------------------------------------------------------------------------------
    # Not the default: on eleven development tables of benchmarks/tables.py ten errors were the same, one 6 % larger.
    link_rows: int = 200  # rows from which link="auto" tries the logarithm of positive targets
    min_skewness: float = 0.5  # skewness of the targets from which it does; that of the logarithm must be smaller

    # -- kinks and thresholds ------------------------------------------------------------------------------------------
    rough_rows: int = 200  # rows from which "auto" tries hinges, steps and boosting as the target
    max_boosted_outputs: int = 30  # classes or outputs up to which it does: boosting grows trees for each
    rough_error: float = 1.3  # error of boosting up to which it does, as a multiple of that of the best other model
    clearly_smooth: float = 2.0  # the same multiple in the first folds, beyond which the others are not needed

    # -- the reference model as the target -----------------------------------------------------------------------------
    # Gradient boosting with fewer and smaller trees than scikit-learn's defaults: on thirteen tables of 260 to 1,000
    # training rows its error was 6 % lower, in the same time. With three rows in a leaf in place of ten it was 3 %
    # lower again on 24 tables of 250 to 1,000 rows, and the log loss of eleven tables of classes 1 % lower.
    boosting_rate: float = 0.1
    boosting_iterations: int = 120
    boosting_leaves: int = 8
    boosting_leaf_rows: int = 3
    # Trees, also those for rules, are doubled if the second half of them lowers the error by this share: this concerns
    # three of 24 tables of up to 1,000 training rows. On tables of 4,000 rows with many thresholds the error of 150
    # terms was 11 % to 28 % smaller.
    boosting_gain: float = 0.05
    boosting_doublings: int = 2  # maximum number of doublings
    # Synthetic inputs at which the reference model is evaluated, for each row: on six tables of 260 to 600 rows the
    # error of 80 terms of steps was 0.226, 0.197, 0.192, 0.183 and 0.185 with 0, 1, 2, 3 and 5 of them. Time grows as
    # well.
    synthetic_rows_per_row: int = 2
    max_synthetic_rows: int = 2000
    synthetic_weight: float = 1.5  # their total weight, as a share of that of the rows
    crossover_share: float = 0.25  # share of the inputs of a synthetic row that come from another row

    # -- dictionaries --------------------------------------------------------------------------------------------------
    max_centers: int = 1000  # rows up to which every one is the centre of a Gaussian
    center_growth: float = 0.2  # power of the rows with which the number of centres grows beyond, to bound the time
    widths: tuple[float, ...] = (0.35, 0.7, 1.4, 2.8)  # Gaussian widths tried, in median distances between rows
    width_rows: int = 300  # rows the width is chosen on, by leave-one-out of ridge regression, in every fold
    max_pair_candidates: int = 50_000  # candidates up to which "auto" tries products: time and memory
    max_paired_inputs: int = 100  # inputs up to which all pairs have products; beyond, screened inputs only
    n_screened_inputs: int = 40  # inputs kept by screening: at most 20,000 candidates
    n_hinge_knots: int = 6  # knots of hinges for each input; on thirteen tables 6 did as well as more
    # Knots of steps for each input; on thirteen tables 8 to 18 did alike, and more are closer to a threshold. Half of
    # them are thresholds of trees, up to `max_paired_inputs` inputs: on 16 tables of 260 to 1,000 training rows, two
    # splits each, the error of steps was 0.95 of that with quantiles alone (0.53 to 1.03), and that of hinges, which
    # have quantiles, would have been the same.
    n_step_knots: int = 16
    min_knots: int = 3  # knots for each of many inputs, at least
    max_single_functions: int = 250  # functions of one input that limit the number of knots: products cost the square
    max_knotted_inputs: int = 40  # inputs with more than two values up to which all have knots
    n_knotted_inputs: int = 20  # screened inputs that have knots beyond that number
    max_rule_inputs: int = 400  # inputs up to which trees find rules: their time grows with the inputs
    max_levels: int = 20  # levels up to which every one has an indicator; beyond, means of the targets take their place
    min_support: float = 5  # Gaussians of fewer rows are on isolated rows, where large weights cancel and explode
    # Levels of less than this share of the rows, at least the first and at most the second number of rows, share one
    # indicator. On 212 development tables with rarer levels than 10 rows, up to 500 training rows, two splits, the
    # error was 0.94 of that with 10 rows, the log loss of classes 0.82; designed experiments have levels of few rows.
    level_share: float = 0.01
    level_rows: tuple[int, int] = (2, 10)
    # With `log_inputs`, positive inputs with more different values than the first number and a skewness above the
    # second one, which logarithms reduce, are replaced by these in nonlinear dictionaries, if products of pairs have a
    # lower error then. On 24 development tables of up to 1,000 training rows, two splits, the error of "accurate" was
    # 0.975 and that of "small" 0.973 of that without logarithms; on nineteen of classes and counts it was 0.988. Inputs
    # with zeros, to which their smallest positive value was added, made ames 7 % worse.
    min_log_values: int = 20
    min_input_skewness: float = 1.0
    max_gaussian_inputs: int = 3000  # distances concentrate in high dimensions, and every centre stores one row
    max_ard_inputs: int = 100  # inputs up to which "auto" learns ARD relevances, one parameter each
    # Nonlinear dictionaries outside the training range: a linear term beside bumps is part of a curve and must not go
    # on alone. Chosen on four simulated tables and on house_8L, bodyfat, auto_price, rmftsa_ladata, FacultySalaries.
    extrapolation: str = "bounded"

    # Share of the range of the training targets by which predictions of nonlinear dictionaries may exceed it. On 24
    # development tables of up to 1,000 training rows, two splits, it changed two tables: predictions of a few rows
    # between the training samples exploded in one split, whose error was 3.8 without limits and 0.15 with them, and one
    # error was 3 % larger. With 0.1 the exploding error was 0.12, and errors of the same models were never larger, but
    # models of functions without noise, whose extremes are sought, need more.
    prediction_margin: float = 0.5

    # -- probabilities and summary -------------------------------------------------------------------------------------
    listed_inputs: int = 10  # inputs whose ARD relevance `summary` lists: one line of text

    def margin(self, labels: bool) -> float | None:
        """Return the margin of predictions; None for the scores of classes, which have no limits."""
        return None if labels else self.prediction_margin

    def min_level_rows(self, n: int) -> int:
        """Return the number of rows, of n, from which a level of a category has an indicator of its own."""
        fewest, most = self.level_rows
        return min(max(fewest, int(self.level_share * n)), most)
