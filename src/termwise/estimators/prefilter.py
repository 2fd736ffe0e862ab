"""Stage two: few terms that reproduce the prefiltered signal (Hong, Chen and Harris 2013, section II-C)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_random_state

from termwise._arrays import (
    Array,
    as_columns,
    as_float64,
    at,
    evenly,
    fetch,
    from_host,
    is_foreign,
    namespace,
    to_host,
)
from termwise._checks import check_choice, check_foreign, check_number
from termwise.basis.radial import RadialBasis
from termwise.estimators.labels import LabelModel
from termwise.estimators.prefilter_stages import StageOne
from termwise.estimators.prefilter_swarm import minimise
from termwise.estimators.prefilter_width import FACTORS, gaussians, standard_error, steady_minimum
from termwise.estimators.stepped import PathModel
from termwise.execution.forward import select_terms
from termwise.linalg.criteria import excess
from termwise.linalg.filtered_signal import Prefilter, singular_vectors
from termwise.linalg.least_squares import Problem, Rows, measure, pose, solve_penalised
from termwise.linalg.two_stage import leave_one_out_scores
from termwise.selection.engine import Settings
from termwise.selection.path import SelectionPath

Floats = NDArray[np.float64]

REPRODUCED = 1e-4  # share of the signal's square beyond which further terms only repeat stage one
LARGEST_LAMBDA_2 = 1.0  # upper end of the swarm's search; leave-one-out does not depend on it
WIDTH_ROWS = 2000  # samples the width is chosen on
ROUNDING = 1e-12


class PrefilterClassifier(LabelModel, PathModel):
    """A small classifier for noisy labels: first filter the noise out of the labels, then fit few terms to the rest.

    Stage one sees the labels through the singular vectors of the design matrix and thresholds their coefficients there,
    an elastic net with a closed form. Its penalty has the smallest rate of leave-one-out errors, which is known without
    refitting and minimised exactly. Stage two selects few terms that reproduce the filtered signal, by error reduction
    and D-optimality, and keeps as many as leave-one-out over both stages asks for.

    Parameters
    ----------
    basis : "auto", transformer or None, default="auto"
        Yields the candidates. "auto": Gaussians on the samples (on 1000 of them, spread out, if there are more), scaled
        to the inputs, of a width chosen by leave-one-out (over 2000 samples, if there are more). None: the columns of
        X, which wants `fit_intercept=True`.
    search : {"exact", "pso"}, default="exact"
        How stage one finds its penalty: exactly, by one sweep, or by the particle swarm of the paper, for comparison.
    beta : float, default=0.1
        Weight of D-optimality in stage two, in units of the labels' variance: it prefers terms unlike the others, and
        once the squares of what columns have left are below one, as with radial functions, larger values end the path
        earlier. The paper's 1e-6 all but leaves it out.
    tol : float, default=0.01
        Singular vectors count up to this share of the largest singular value.
    criterion : {"loo", None}, default="loo"
        How many terms to keep: as few as leave-one-out over both stages allows, or all that the rule takes.
    max_terms : int or None, default=None
        Most terms.
    lambda_2 : float, default=0.0
        The elastic net's second penalty, for `search="exact"`. It scales the signal, which no leave-one-out error
        depends on; `beta` sees it as `beta (1 + lambda_2)^2`.
    swarm_size : int, default=20
        Particles of the swarm.
    swarm_steps : int, default=50
        Steps they make.
    fit_intercept : bool, default=False
        Whether to fit an intercept, which is not penalised by `lambda_1`. Radial functions do well without.
    random_state : int, RandomState instance or None, default=None
        Drives the swarm.
    verbose : int, default=0
        1 prints a line per width and per term.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    lambda_1_, lambda_2_ : float, or ndarray of shape (q,)
        Penalties of stage one; with more than two classes, one per class against the rest.
    loo_error_rate_ : float
        Share of leave-one-out errors of stage one, which the width is chosen by; also `criterion_value_`.
    final_error_rate_ : float
        Share of leave-one-out errors of the final model, terms and penalties fixed.
    sign_violations_ : float
        Share of samples whose leaving out would change the signs of stage one, condition (34), so that the closed form
        is an approximation for them.
    prefiltered_ : ndarray of shape (n,) or (n, q)
        The filtered signal for the samples that count.
    support_, weights_, n_terms_, coef_, intercept_, path_, stop_reason_
        As in `ForwardRegressor`; several classes share terms and have one row of weights each.
    basis_ : transformer or None
        The fitted basis.

    See Also
    --------
    ForwardClassifier : Terms chosen for the labels themselves.

    Notes
    -----
    Where the paper leaves gaps, followed to the letter, the model is empty or overfits. Here:

    - Only thresholds that leave something active count, and only active sets for which (34) holds for two samples of
      three: elsewhere the closed form is far too optimistic. If it holds nowhere, all count.
    - Widths whose leave-one-out rates differ by less than a standard error count as equal; the least squared
      leave-one-out error decides among them.
    - The size of stage two is the smallest that leave-one-out over both stages cannot tell from the best: at most a
      standard error of the difference above the least squared error and, of these, at most half a standard error above
      the smallest error rate. A fixed `beta` alone gives whatever it gives; `criterion=None` asks for that.
    - Of several classes each has a filter of its own; stage two chooses terms for all signals together.

    Arrays of PyTorch, CuPy and other libraries of the array API stay on their device, and so does the work of both
    stages; signal, weights and predictions are there too. Only decisions are made in NumPy, on as many numbers as there
    are singular vectors, and, with `basis="auto"` and more than 1000 different samples, the spreading of the centres.

    The width's and the penalty's choice is not repeated for each sample left out, so the rates are a little optimistic.
    Error bars and intervals take the final weights for a least-squares fit to the labels, which is only nearly so.

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

    any_library = True
    _automatic: RadialBasis
    _stage: StageOne

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

    def _remarks(self) -> list[str]:
        rates = f"leave-one-out error rate {self.final_error_rate_:.2%}, of stage one {self.loo_error_rate_:.2%}"
        penalties = ", ".join(f"{value:.4g}" for value in np.atleast_1d(self.lambda_1_))
        condition = f"its signs depend on the sample left out for {self.sign_violations_:.0%} of the samples"
        return [rates, f"lambda_1 {penalties}; {condition}"]

    # -- fitting -------------------------------------------------------------------------------------------------------

    def _check_params(self) -> None:
        if isinstance(self.basis, str):
            check_choice("basis", self.basis, ["auto"], remedy="give 'auto', a transformer, or None for the columns")
        check_choice("search", self.search, ["exact", "pso"])
        if self.criterion is not None:
            check_choice("criterion", self.criterion, ["loo"], remedy="None keeps every term")
        check_number("tol", self.tol, low=0, below=1, remedy="a share of the largest singular value, such as 0.01")
        check_number("lambda_2", self.lambda_2, low=0, remedy="0 leaves the signal as it is")
        for name in ("swarm_size", "swarm_steps"):
            check_number(name, getattr(self, name), low=1, integer=True, remedy="20 particles and 50 steps do well")
        check_number("verbose", self.verbose, low=0, integer=True, remedy="0 is silent, 1 reports widths and terms")
        self._settings().check()

    def _settings(self) -> Settings:
        return Settings("d_optimal", 0.0, max_terms=self.max_terms, beta=self.beta, fit_intercept=self.fit_intercept)

    def _prototype(self) -> Any:
        return getattr(self, "_automatic", RadialBasis()) if isinstance(self.basis, str) else self.basis

    def _prepare(self, X: Any, y: NDArray, counts: Floats) -> None:
        """Choose the width of the Gaussians."""
        if not isinstance(self.basis, str):
            return
        used = np.flatnonzero(counts > 0)
        some = used[evenly(len(used), WIDTH_ROWS)]
        if is_foreign(X):
            X = as_float64(check_foreign("X", X, min_samples=2))
        else:
            X = check_array(X, dtype=np.float64, ensure_min_samples=2, estimator=self, input_name="X")
        samples, X, Y = at(X, used), at(X, some), from_host(as_columns(y)[some], X)
        bases = list(gaussians(samples))
        rates, squares = np.ones(len(bases)), np.full(len(bases), np.inf)
        for i, basis in enumerate(bases):
            stage = self._filter(basis.fit(samples).transform(X), Y, counts[some])
            rates[i], squares[i] = stage.error_rate, stage.square(Y - stage.residual)
            if self.verbose:
                print(f"width {FACTORS[i]:.3g} median distances: leave-one-out error rate {rates[i]:.2%}")
            if self._after_step():
                break
        self._automatic = bases[steady_minimum(rates, squares, float(counts[some].sum()))]

    def _filter(self, G: Array, Y: Array, counts: Floats) -> StageOne:
        """Stage one on a design matrix."""
        problem = pose(G, Y, counts, self.fit_intercept)
        U = singular_vectors(problem.G, self.tol)
        filters = [Prefilter(U, problem, j) for j in range(Y.shape[1])]
        found = np.array([self._penalties(one) for one in filters])
        return StageOne(filters, found[:, 0], found[:, 1], Y, problem.rows.counts)

    def _penalties(self, one: Prefilter) -> tuple[float, float]:
        """Return t and lambda_2."""
        largest = one.size.max(initial=0.0)
        if largest <= ROUNDING * np.sqrt(one.n):  # the labels have nothing to do with the design matrix
            return largest, self.lambda_2
        if self.search == "exact":
            return one.best().t, self.lambda_2
        rng = check_random_state(self.random_state)
        upper = np.array([2 * one.size[0], LARGEST_LAMBDA_2])
        best, cost = minimise(lambda x: one.cost(float(x[0]) / 2), upper, self.swarm_size, self.swarm_steps, rng)
        found = cost < np.inf  # else the swarm has met no threshold that can be trusted
        return best[0] / 2 if found else one.best().t, best[1]

    def _solve(self, G: Array, Y: Array, counts: Floats) -> None:
        self._stage = stage = self._filter(G, Y, counts)
        signal, power, after_step, verbose = stage.signal, stage.power, self._after_step, self.verbose
        settings = self._settings() if power else replace(self._settings(), max_terms=0)

        def callback(path: SelectionPath) -> bool:
            if verbose:
                print(f"{len(path):4d}  candidate {path.steps[-1].term:6d}  left {path.steps[-1].sse / power:.3g}")
            return after_step() or reproduced(path)

        def reproduced(path: SelectionPath) -> bool:
            return self.criterion is not None and path.steps[-1].sse <= REPRODUCED * power

        self.path_ = select_terms(G, signal, counts, settings, self._one_output, callback)
        if reproduced(self.path_) or not power:
            self.path_.stop_reason = "the signal is reproduced" if power else "the candidates say nothing of the labels"
        self.stop_reason_ = self.path_.stop_reason
        self.lambda_1_ = self._squeeze(2 * stage.t, axis=0)
        self.lambda_2_ = self._squeeze(stage.lambda_2, axis=0)
        self.loo_error_rate_ = stage.error_rate
        self.sign_violations_ = stage.violations
        self.prefiltered_ = self._squeeze(signal, axis=1)
        self._cut(self._size())
        self._stage = stage.active_only()

    def _size(self) -> int:
        """Smallest size that leave-one-out over both stages cannot tell from the best.

        Its squared error is at most a standard error of the difference above the least, and its error rate at most half
        a standard error above the smallest rate of such sizes.
        """
        if self.criterion is None or not len(self.path_):
            return len(self.path_)
        stage, rows = self._stage, Rows(self._stage.counts, self.fit_intercept)
        n, share = rows.n, rows.counts / rows.n
        data = self.path_.training()
        scores = leave_one_out_scores(stage, rows, data.Z, data.Y, data.Y_mean)[1:, ...]
        xp = namespace(scores)
        squares = xp.mean((stage.labels - scores) ** 2, axis=2)
        least = squares[int(xp.argmin(squares @ share)), :]
        more, spread, rates = fetch(*excess(squares, least, share, n), stage.rates(scores))
        rates = np.where(more > spread + ROUNDING, np.inf, rates)
        limit = rates.min() + standard_error(rates.min(), n) / 2
        return 1 + int(np.argmax(rates <= limit + ROUNDING))

    def _cut(self, k: int) -> None:
        """Settle on the first k terms of the path; residuals are those of the labels."""
        data, stage = self.path_.training(), self._stage
        rows = Rows(data.sample_weight, self.fit_intercept)
        G_mean, Y_mean = from_host(data.G_mean[:k], data.Y), from_host(data.Y_mean, data.Y)
        problem = Problem(data.columns(k), data.Y, rows, G_mean, Y_mean, owned=True)
        solution = solve_penalised(problem, np.arange(k), np.zeros(k))
        root = (rows.counts**0.5)[:, None]
        scores = leave_one_out_scores(stage, rows, data.Z, data.Y, data.Y_mean)[k, ...]
        fitted = Y_mean + problem.G @ solution.weights / root
        sse = to_host(rows.counts @ (stage.labels - fitted) ** 2)
        solution = replace(solution, loo=(stage.labels - scores) * root, sse=sse)
        self.final_error_rate_ = float(stage.rates(scores))
        criteria = {"loo_error_rate": self.loo_error_rate_} | measure(rows, solution)
        self._settle(problem, solution, self.path_.terms[:k], problem.G_mean, criteria, "loo_error_rate")
