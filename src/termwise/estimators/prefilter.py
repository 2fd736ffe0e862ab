"""Classification of prefiltered labels by few terms (Hong, Chen and Harris 2013)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_array, check_random_state

from termwise._arrays import Array, as_columns, as_float64, at, evenly, fetch, from_host, is_foreign, namespace, to_host
from termwise._checks import check_choice, check_foreign, check_magnitudes, check_number, check_numeric
from termwise._numerics import RATE_TIE
from termwise.basis.inputs import InputStatistics
from termwise.basis.radial import RadialBasis, median_distance
from termwise.estimators.base import CallbackSupportMixin, TermModel, step_callback, with_callbacks
from termwise.estimators.data import Data, read
from termwise.estimators.design import DesignData, fit_design, path_problem, warn_of_lost_digits
from termwise.estimators.folds import check_repeatable, with_fold_models
from termwise.execution import select_terms
from termwise.fitted import Candidates, FitStatistics, FittedTerms
from termwise.linalg.criteria import excess, squares_and_errors
from termwise.linalg.filtered_signal import MAX_STORED, FilteredSignal, Prefilter, singular_vectors
from termwise.linalg.least_squares import WeightedRows, least_squares_problem, measure, solve_penalised
from termwise.linalg.two_stage import leave_one_out_scores, scores_by_output
from termwise.selection.engine import Settings
from termwise.selection.path import SelectionPath

Floats = NDArray[np.float64]

WIDTH_FACTORS = 2.0 ** np.arange(-2, 2.6, 0.5)  # widths to try, relative to the median distance between samples
WIDTH_ROWS = 2000  # samples the width is chosen on
WIDTH_LABELS, WIDTH_ROWS_MIN = 20_000, 500  # of many classes fewer, to label at most so many, but not fewer than this
MAX_CENTERS = 1000  # of more samples, a subset spread over the data
MAX_LAMBDA_2 = 1.0  # upper end of the swarm's search; leave-one-out does not depend on it
MAX_VELOCITY = 0.5  # of a particle, as a share of the search space
RESTART_SHARE = 0.1  # maximum velocity of a particle at rest, relative to MAX_VELOCITY, nu in Hong (47)
REPRODUCED_SHARE = 1e-4  # of the signal's sum of squares: below, further terms only reproduce stage one


class PrefilterClassifier(CallbackSupportMixin, ClassifierMixin, TermModel):
    """A small classifier for noisy labels: filter the labels, then fit few terms to the filtered signal.

    Stage one is an elastic net on the singular vectors of the design matrix, in closed form: the coefficients of the
    labels are soft-thresholded. The penalty minimises the leave-one-out misclassification rate, exactly and without
    refitting. Stage two selects few terms that reproduce the filtered signal, by error reduction and D-optimality;
    their number is chosen by leave-one-out over both stages.

    Parameters
    ----------
    basis : "auto", transformer or None, default="auto"
        Yields the candidates. "auto": Gaussians centred on the samples (at most 1000, spread over the data), with
        widths proportional to the standard deviations of the inputs and a factor chosen by leave-one-out (on at most
        2000 samples). None: the columns of X, for which `fit_intercept=True` is recommended.
    search : {"exact", "pso"}, default="exact"
        Search for the penalty of stage one: exact, by one sweep over breakpoints, or the particle swarm of the paper,
        for comparison.
    beta : float, default=0.1
        Weight of D-optimality in stage two, in units of the variance of the labels: it favours terms that are nearly
        orthogonal to the others. For columns with residual squared norms below one, as of radial functions, larger
        values end the path earlier. The paper's 1e-6 has almost no effect.
    tol : float, default=0.01
        Singular vectors are used down to this share of the largest singular value.
    criterion : {"loo", None}, default="loo"
        Number of terms: the fewest allowed by leave-one-out over both stages, or all selected terms.
    max_terms : int or None, default=None
        Maximum number of terms.
    lambda_2 : float, default=0.0
        The second penalty of the elastic net, for `search="exact"`. It scales the signal, which does not change
        leave-one-out errors; its effect on stage two is that of `beta (1 + lambda_2)^2`.
    swarm_size : int, default=20
        Number of particles of the swarm.
    swarm_steps : int, default=50
        Number of steps of the swarm.
    fit_intercept : bool, default=False
        Whether to fit an intercept, which is not penalised by `lambda_1`. Radial functions rarely need one.
    random_state : int, RandomState instance or None, default=None
        Random numbers of the swarm.
    verbose : int, default=0
        1 prints a line per width and per term.
    selection_cv : int, splitter, iterable or None, default=None
        Folds in which `fit` repeats the whole fit, selection of terms included: for `predict_proba`,
        calibrated on the scores of samples left out, and `selection_frequency_`, at the cost of one more fit per fold.
        10 is a good number; samples are then shuffled with a fixed seed, stratified by class, those with equal inputs
        in the same fold. A splitter or an iterable of (train, test) indices
        as in scikit-learn's `cv` must leave out each sample once at most.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    lambda_1_, lambda_2_ : float, or ndarray of shape (q,)
        Penalties of stage one; with more than two classes, one per class against the rest.
    loo_error_rate_ : float
        Leave-one-out misclassification rate of stage one, the criterion of the width; also `criterion_value_`.
    final_error_rate_ : float
        Leave-one-out misclassification rate of the final model, given terms and penalties.
    sign_violations_ : float
        Share of samples whose omission would change the signs of stage one, violating condition Hong (34): for these
        the closed form is an approximation.
    prefiltered_ : ndarray of shape (n,) or (n, q)
        The filtered signal of the samples with positive weight.
    support_, weights_, n_terms_, coef_, intercept_, path_, stop_reason_
        As in `ForwardRegressor`; several classes share terms and have one row of weights each.
    basis_ : transformer or None
        The fitted basis.
    selection_frequency_ : ndarray of shape (d,)
        Share of the fold models that use each input; only with `selection_cv`.

    See Also
    --------
    ForwardClassifier : Terms chosen for the labels themselves.

    Notes
    -----
    The method as published leaves some cases open, in which the model is empty or overfits. Here:

    - Only thresholds with a nonempty active set are considered, and only active sets for which Hong (34) holds for two
      thirds of the samples: otherwise the closed form is far too optimistic. If there is none, all are considered.
    - Widths whose leave-one-out rates differ by less than one standard error are equivalent; the smallest squared
      leave-one-out error decides among them.
    - The size of stage two is the smallest that leave-one-out over both stages does not distinguish from the best: at
      most one standard error of the difference above the minimum squared error and, of these, at most half a standard
      error above the minimum error rate. `criterion=None` stops by `beta` alone.
    - With more than two classes each has its own filter; stage two selects terms for all signals jointly.

    Arrays of PyTorch, CuPy and other libraries of the array API are processed on their device by both stages; signal,
    weights and predictions are there, too. Only scalar decisions on as many numbers as there are singular vectors are
    made in NumPy and, with `basis="auto"` and more than 1000 distinct samples, the choice of centres.

    The choices of width and penalty are not repeated for each sample left out, so the rates are slightly optimistic.
    Standard errors and intervals treat the final weights as a least-squares fit to the labels, which is an
    approximation.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from termwise import PrefilterClassifier
    >>> X, y = make_moons(200, noise=0.3, random_state=0)
    >>> model = PrefilterClassifier().fit(X, y)
    >>> model.n_terms_ < 20
    True
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    selects_terms = True
    any_library = True
    default_basis = RadialBasis()
    first_stage_: FilteredSignal

    def __init__(
        self,
        basis: Any = "auto",
        *,
        search: str = "exact",
        beta: float = 0.1,
        tol: float = 0.01,
        criterion: str | None = "loo",
        max_terms: int | None = None,
        lambda_2: float = 0.0,
        swarm_size: int = 20,
        swarm_steps: int = 50,
        fit_intercept: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        selection_cv: Any = None,
    ) -> None:
        self.basis = basis
        self.search = search
        self.beta = beta
        self.tol = tol
        self.criterion = criterion
        self.max_terms = max_terms
        self.lambda_2 = lambda_2
        self.swarm_size = swarm_size
        self.swarm_steps = swarm_steps
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.verbose = verbose
        self.selection_cv = selection_cv

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs. With a `basis`, whatever that transformer takes.
        y : array-like of shape (n,)
            Classes.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights: a weight of 2 is the same as repeating the sample, and leave-one-out leaves out one
            repeat.
        """
        settings = check_prefilter(self)
        check_repeatable(self, X, y)
        after_step = step_callback(self, None)
        basis = self.default_basis if isinstance(self.basis, str) else self.basis
        data = read(self, X, y, sample_weight, basis=basis, classify=True)
        if isinstance(self.basis, str):
            basis = choose_width(self, data, after_step)
        design = fit_design(self, basis, data)
        stage = filter_labels(self, design.G, design.Y, design.weights)
        path = reproduce_signal(self, design, stage, settings, after_step)
        warn_of_lost_digits(design.candidates, path.unresolved)
        size = len(path) if self.criterion is None else equivalent_size(path, stage, self.fit_intercept)
        terms, attributes = truncate_second_stage(path, size, stage, design.candidates, self.fit_intercept)
        return self._store(
            with_fold_models(self, design.complete(terms, path_terms=path.terms), X, y, sample_weight),
            first_stage_=stage.active_only(),
            path_=path,
            stop_reason_=path.stop_reason,
            lambda_1_=terms.squeeze(2 * stage.t, axis=0),
            lambda_2_=terms.squeeze(stage.lambda_2, axis=0),
            loo_error_rate_=stage.error_rate,
            sign_violations_=stage.violations(),
            prefiltered_=terms.squeeze(stage.signal, axis=1),
            **attributes,
        )

    def _truncate(self, path: SelectionPath, k: int, candidates: Candidates) -> tuple[FittedTerms, dict[str, Any]]:
        return truncate_second_stage(path, k, self.first_stage_, candidates, self.fit_intercept)

    def _summary_lines(self) -> list[str]:
        rates = f"leave-one-out error rate {self.final_error_rate_:.2%}, of stage one {self.loo_error_rate_:.2%}"
        penalties = ", ".join(f"{value:.4g}" for value in np.atleast_1d(self.lambda_1_))
        condition = f"its signs depend on the sample left out for {self.sign_violations_:.0%} of the samples"
        return [rates, f"lambda_1 {penalties}; {condition}"]


def check_prefilter(model: PrefilterClassifier) -> Settings:
    """Validate the parameters; return how the path of stage two grows."""
    if isinstance(model.basis, str):
        check_choice("basis", model.basis, ["auto"], remedy="give 'auto', a transformer, or None for the columns")
    check_choice("search", model.search, ["exact", "pso"])
    if model.criterion is not None:
        check_choice("criterion", model.criterion, ["loo"], remedy="None keeps every term")
    check_number("tol", model.tol, low=0, below=1, remedy="a share of the largest singular value, such as 0.01")
    check_number("lambda_2", model.lambda_2, low=0, remedy="0 leaves the signal as it is")
    for name in ("swarm_size", "swarm_steps"):
        check_number(name, getattr(model, name), low=1, integer=True, remedy="20 particles and 50 steps do well")
    check_number("verbose", model.verbose, low=0, integer=True, remedy="0 is silent, 1 reports widths and terms")
    settings = Settings("d_optimal", 0.0, max_terms=model.max_terms, beta=model.beta, fit_intercept=model.fit_intercept)
    settings.check()
    return settings


# -- the width of the Gaussians ----------------------------------------------------------------------------------------


def choose_width(model: PrefilterClassifier, data: Data, after_step: Callable[[], bool]) -> RadialBasis:
    """Return the Gaussians whose width has the smallest leave-one-out error rate of stage one."""
    used, n_outputs = data.used, as_columns(data.y).shape[1]
    some = used[evenly(len(used), max(WIDTH_ROWS_MIN, min(WIDTH_ROWS, WIDTH_LABELS // n_outputs)))]
    if is_foreign(data.X):
        X = as_float64(check_foreign("X", data.X, min_samples=2))
    else:
        check_numeric(data.X)
        X = check_array(data.X, dtype=np.float64, ensure_min_samples=2, estimator=model, input_name="X")
        check_magnitudes("X", X, data.input_names)
    samples, X, weights = at(X, used), at(X, some), data.weights[some]
    Y = from_host(as_columns(data.y)[some], X)
    bases = gaussians_of_all_widths(samples)
    rates, squares = np.ones(len(bases)), np.full(len(bases), np.inf)
    for i, basis in enumerate(bases):
        stage = filter_labels(model, basis.fit(samples).transform(X), Y, weights)
        rates[i], squares[i] = stage.error_rate, stage.mean_squared_error
        if model.verbose:
            print(f"width {WIDTH_FACTORS[i]:.3g} median distances: leave-one-out error rate {rates[i]:.2%}")
        if after_step():
            break
    return bases[steady_minimum(rates, squares, float(weights.sum()))]


def steady_minimum(rates: Floats, squares: Floats, n: float) -> int:
    """Index of the smallest error rate, where rates that differ by less than a standard error count as equal.

    Among equal rates the smallest squared error decides, which is a finer measure.
    """
    best = rates.min()
    equal = rates <= best + np.sqrt(best * (1 - best) / n) + RATE_TIE
    return int(np.argmin(np.where(equal, squares, np.inf)))


def gaussians_of_all_widths(X: Array) -> list[RadialBasis]:
    """Return Gaussians of every width to try, from narrow to wide, one width per input from its standard deviation.

    Standard deviations, median distance and centres come from the distinct samples, so that repeating a sample and
    giving it the weight two are the same.
    """
    seen = InputStatistics.from_samples(X)
    centers, scale = at(X, seen.rows), np.where(seen.deviations > 0, seen.deviations, 1.0)
    scaled = centers / from_host(scale, X)
    distance = median_distance(scaled)
    if centers.shape[0] > MAX_CENTERS:
        centers = at(centers, RadialBasis(centers=MAX_CENTERS).fit(scaled).center_rows_)
    centers = to_host(centers)
    return [RadialBasis(width=factor * distance * scale, centers=centers) for factor in WIDTH_FACTORS]


# -- stage one: the filtered signal ------------------------------------------------------------------------------------


def filter_labels(model: PrefilterClassifier, G: Array, Y: Array, weights: Floats) -> FilteredSignal:
    """Stage one on a design matrix: threshold the labels' coefficients along its singular vectors."""
    problem = least_squares_problem(G, Y, weights, model.fit_intercept)
    U = singular_vectors(problem.G, model.tol)
    filters, found = [], np.empty((Y.shape[1], 2))
    for j in range(Y.shape[1]):
        prefilter = Prefilter(U, problem, j)
        found[j] = find_penalties(model, prefilter)
        if 8 * U.shape[0] * U.shape[1] * Y.shape[1] > MAX_STORED:
            prefilter.release()
        filters.append(prefilter)
    return FilteredSignal(filters, found[:, 0], found[:, 1], Y, problem.rows.sample_weight)


def find_penalties(model: PrefilterClassifier, prefilter: Prefilter) -> tuple[float, float]:
    """Return the threshold t = lambda_1 / 2 and lambda_2 of one output."""
    largest = prefilter.size.max(initial=0.0)
    if largest <= RATE_TIE * np.sqrt(prefilter.n):  # labels and design matrix are uncorrelated
        return largest, model.lambda_2
    if model.search == "exact":
        return prefilter.best().t, model.lambda_2
    rng = check_random_state(model.random_state)
    upper = np.array([2 * prefilter.size[0], MAX_LAMBDA_2])
    best, cost = particle_swarm(
        lambda x: prefilter.cost(float(x[0]) / 2), upper, model.swarm_size, model.swarm_steps, rng
    )
    return best[0] / 2 if cost < np.inf else prefilter.best().t, best[1]


def particle_swarm(
    cost: Callable[[Floats], float], upper: Floats, particles: int, iterations: int, rng: np.random.RandomState
) -> tuple[Floats, float]:
    """Minimise a cost over the box from 0 to `upper`; return the best position and its cost.

    Particle swarm optimisation with time-varying acceleration, Hong (44) to (48): early on particles follow their own
    best position, later that of the swarm.
    """
    limit = MAX_VELOCITY * upper
    position = rng.uniform(size=(particles, len(upper))) * upper
    velocity = np.zeros_like(position)
    own, own_cost = position.copy(), np.array([cost(x) for x in position])
    for step in range(iterations):
        best = own[own_cost.argmin()]
        progress = step / iterations
        inertia, to_own, to_best = rng.uniform(), 2.5 - 2 * progress, 0.5 + 2 * progress
        pull = to_own * (own - position) * rng.uniform(size=position.shape)
        pull += to_best * (best - position) * rng.uniform(size=position.shape)
        velocity = np.clip(inertia * velocity + pull, -limit, limit)
        restart = RESTART_SHARE * limit * rng.uniform(-1, 1, size=position.shape)
        velocity = np.where(velocity == 0, restart, velocity)
        position = np.clip(position + velocity, 0, upper)
        costs = np.array([cost(x) for x in position])
        better = costs < own_cost
        own[better], own_cost[better] = position[better], costs[better]
    return own[own_cost.argmin()], float(own_cost.min())


# -- stage two: few terms that reproduce it ----------------------------------------------------------------------------


def reproduce_signal(
    model: PrefilterClassifier,
    design: DesignData,
    stage: FilteredSignal,
    settings: Settings,
    after_step: Callable[[], bool],
) -> SelectionPath:
    """Select terms for the filtered signal by error reduction and D-optimality."""
    power = stage.power
    settings = settings if power else replace(settings, max_terms=0)
    limit = -np.inf if model.criterion is None else REPRODUCED_SHARE * power

    def callback(path: SelectionPath) -> bool:
        last = path.steps[-1]
        if model.verbose:
            print(f"{len(path):4d}  candidate {last.term:6d}  left {last.sse / power:.3g}")
        return after_step() or last.sse <= limit

    path = select_terms(design.G, stage.signal, design.weights, settings, design.candidates.one_output, callback)
    if not power:
        path.stop_reason = "the labels are uncorrelated with the candidates"
    elif path.steps[-1].sse <= limit:
        path.stop_reason = "the signal is reproduced"
    return path


def equivalent_size(path: SelectionPath, stage: FilteredSignal, intercept: bool) -> int:
    """Smallest size that leave-one-out over both stages does not distinguish from the best.

    Its squared error is at most a standard error of the difference above the minimum, and its error rate at most half
    a standard error above the smallest rate of such sizes.
    """
    if not len(path):
        return 0
    rows = WeightedRows(stage.sample_weight, intercept)
    n, share = rows.n, rows.sample_weight / rows.n
    training = path.training
    every = scores_by_output(stage, rows, training.Z, training.Y, training.Y_mean)
    squares, wrong = squares_and_errors((scores[1:, :] for scores in every), stage.labels)
    best = squares[int(namespace(squares).argmin(squares @ share)), :]
    difference, spread, rates = fetch(*excess(squares, best, share, n), as_float64(wrong) @ rows.sample_weight / n)
    rates = np.where(difference > spread + RATE_TIE, np.inf, rates)
    lowest = rates.min()
    limit = lowest + np.sqrt(lowest * (1 - lowest) / n) / 2
    return 1 + int(np.argmax(rates <= limit + RATE_TIE))


def truncate_second_stage(
    path: SelectionPath, k: int, stage: FilteredSignal, candidates: Candidates, intercept: bool
) -> tuple[FittedTerms, dict[str, Any]]:
    """Solve for the weights of the first k terms; residuals are those of the labels."""
    problem, training = path_problem(path, k, intercept), path.training
    rows, Y_mean = problem.rows, problem.Y_mean
    solution = solve_penalised(problem, np.arange(k), np.zeros(k))
    root = (rows.sample_weight**0.5)[:, None]
    scores = leave_one_out_scores(stage, rows, training.Z[:, :k], training.Y, training.Y_mean)
    fitted = Y_mean + problem.G @ solution.weights / root
    sse = to_host(rows.sample_weight @ (stage.labels - fitted) ** 2)
    solution = replace(solution, loo=(stage.labels - scores) * root, sse=sse)
    criteria = {"loo_error_rate": stage.error_rate} | measure(rows, solution)
    statistics = FitStatistics(rows, solution, problem.G_mean, criteria, "loo_error_rate", solution.loo / root)
    terms = FittedTerms.from_solution(candidates, path.terms[:k], Y_mean, statistics)
    return terms, {"final_error_rate_": float(stage.rates(scores))}
