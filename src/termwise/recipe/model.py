"""The recipe: which dictionary, aimed at what, how many terms, at which penalty."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from termwise._arrays import as_columns, different_rows, evenly, rows_of
from termwise._checks import check_choice, check_number
from termwise.basis import Basis, SmoothBasis, TableEncoder, UnionBasis
from termwise.basis.base import InputStatistics, design_matrix, restrict
from termwise.basis.encoder import is_frame
from termwise.estimators.forward import ForwardModel
from termwise.linalg.least_squares import Problem, Rows, measure, solve_penalised
from termwise.linalg.two_stage import leave_one_out_scores
from termwise.recipe.cross_validation import (
    Folded,
    Trial,
    choose,
    contenders,
    folded,
    further,
    merged,
    out_of_fold,
    pooled,
    threads,
)
from termwise.recipe.dictionaries import DICTIONARIES, ScreenedPairs, dictionaries, most_candidates
from termwise.recipe.pooling import PooledStage, fit_pool
from termwise.recipe.smoothing import RidgeStage, followed_by
from termwise.selection.engine import Settings, grow

Floats = NDArray[np.float64]

FOLDS = 5
REPEATS, REPEAT_ROWS = 2, 1500  # few samples are folded several times, until so many have been predicted
BEATEN = 3.0  # standard errors of the difference after which a dictionary is not tried again
FIRST_LOOK = 40  # terms tried at first, or fewer of few samples
STILL = 0.9  # share of the terms tried from which on a size chosen asks for more
RIDGE_ROWS = 1200  # samples up to which the ridge fit to all candidates is an aim
SMALL = 0.5  # standard errors by which a smaller model may be worse
CHOICE_ROWS = 4000  # samples the dictionary and the size are chosen on
PATH_ROWS = 20_000  # samples the terms are chosen on
MOST_CENTERS = 1000  # Gaussians, for up to a few thousand samples; more samples add to them slowly
LISTED = 10  # inputs whose relevance `summary` tells
BEYOND = 10  # terms the path goes on after the size chosen, for `at`


class TermwiseModel(ForwardModel):
    """What the regressor and the classifier share."""

    # the recipe: ForwardModel reads these where its other children have parameters
    rule = "loo"
    criterion = None
    alpha = 1e-6
    refit_alpha = "loo"
    penalty = "weights"
    fit_intercept = True
    max_terms: int
    _aims: ClassVar[list[str]] = ["data", "ridge"]
    _automatic: Any
    _parts: dict[str, Basis]
    _wanted: int
    _stage: RidgeStage | PooledStage | None

    def __init__(
        self,
        size: str | int = "small",
        *,
        dictionary: str = "auto",
        target: str = "auto",
        max_terms: int = 150,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        self.size = size
        self.dictionary = dictionary
        self.target = target
        self.max_terms = max_terms
        self.random_state = random_state
        self.verbose = verbose

    def _remarks(self) -> list[str]:
        tried = "; ".join(f"{title} {curve.min():.3g}" for title, curve in self.trials_.items())
        parts = parts_of(self.basis_)
        aims = {"data": "", "ridge": ", aimed at the ridge fit to all its candidates", "pooled": self._mean()}
        aim = aims[self.target_]
        for terms in [part for part in parts if isinstance(part, ScreenedPairs)]:
            inputs = f"{len(terms.promising_)} inputs of {terms.n_features_in_:,}"
            aim = f" of the {inputs} that go best with the targets{aim}"
        lines = [f"dictionary: {self.dictionary_}{aim}", f"cross-validated error, a share of the variance: {tried}"]
        for terms in [part for part in parts_of(self._chosen_basis) if isinstance(part, SmoothBasis)]:
            if not terms.isotropic_ and (terms.columns_ < 0).any():
                told = self._relevance_in(terms)
                lines.append(f"relevance of inputs, one over the width of Gaussians in deviations: {told}")
        if self.categories_:
            known = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in self.categories_.items())
            lines.append(f"categories, a column of 0 and 1 each: {known}")
        return lines

    def _relevance_in(self, terms: SmoothBasis) -> str:
        """Say which inputs Gaussians are of, the most relevant first."""
        table = isinstance(self.basis_, Pipeline)
        names = self.basis_[:-1].get_feature_names_out() if table else terms.input_names()
        order = np.argsort(-terms.relevance_, kind="stable")[: np.count_nonzero(terms.relevance_)]
        told = ", ".join(f"{names[j]} {terms.relevance_[j]:.2g}" for j in order[:LISTED])
        return told if len(order) <= LISTED else f"{told} and {len(order) - LISTED} more"

    def _mean(self) -> str:
        """Say what the mean of several models is of."""
        aims = {"data": "", "ridge": " for the ridge fit"}
        members = (
            f"{one.weight:.2f} x " + (f"{one.size} terms of {one.name}{aims[one.target]}" if one.size else "the mean")
            for one in self.pool_
        )
        return f", aimed at the mean of several models: {' + '.join(members)}"

    # -- choosing ------------------------------------------------------------------------------------------------------

    def _check_params(self) -> None:
        check_number("max_terms", self.max_terms, low=1, integer=True, remedy="150 is plenty for a small model")
        if isinstance(self.size, str):
            check_choice("size", self.size, ["small", "accurate"], remedy="or give the number of terms")
        else:
            remedy = "'small', 'accurate', or a number up to max_terms"
            check_number("size", self.size, low=1, below=self.max_terms + 1, integer=True, remedy=remedy)
        check_choice("dictionary", self.dictionary, ["auto", *DICTIONARIES], remedy="'auto' tries them all")
        check_choice("target", self.target, ["auto", "data", "ridge", "pooled"], remedy="'auto' tries them all")
        check_number("verbose", self.verbose, low=0, integer=True, remedy="0 is silent, 1 reports what is tried")

    def _most_steps(self) -> None:
        return None

    def _settings(self) -> Settings:
        settings = self._limited(self._wanted + BEYOND)
        return settings if self.target_ == "data" else replace(settings, rule="cost")

    def _solve(self, G: Any, Y: NDArray, counts: Floats) -> None:
        if self.target_ == "ridge":
            self._stage = RidgeStage.of(G, Y, counts)
        super()._solve(G, Y if self._stage is None else self._stage.signal, counts)

    def _cut(self, k: int) -> None:
        if self._stage is None:
            super()._cut(k)
            return
        data, rows = self.path_.training(), Rows(self.path_.training().counts, True)
        problem = Problem(data.columns(k), data.Y, rows, data.G_mean[:k], data.Y_mean, owned=True)
        self.alpha_ = self.path_.steps[k].alpha
        second = solve_penalised(problem, np.arange(k), np.full(k, self.alpha_))
        scores = leave_one_out_scores(self._stage, rows, data.Z, data.Y, data.Y_mean)[k]
        solution = followed_by(self._stage, second, problem, scores)
        self._settle(problem, solution, self.path_.terms[:k], problem.G_mean, measure(rows, solution), "loo")

    def _limited(self, max_terms: int) -> Settings:
        return Settings(self.rule, self.alpha, max_terms=max(1, max_terms))

    def _size(self) -> int:
        return min(self._wanted, len(self.path_))

    def _prototype(self) -> Any:
        return getattr(self, "_automatic", TableEncoder())

    def _prepare(self, X: Any, y: NDArray, counts: Floats) -> None:
        """Read the table, then choose a dictionary, what to aim at, and a size."""
        used = np.flatnonzero(counts > 0)
        encoder = TableEncoder().fit(rows_of(X, used) if is_frame(X) else X)
        self.categories_ = encoder.categories_
        table = encoder.transform(X)[used].astype(np.float64)
        InputStatistics.from_samples(table).check_varying()  # all constant: say so now, of all samples
        n, tries = max(len(used), counts.sum()), self.target in ("auto", "pooled")
        targets = ["data"] if n > RIDGE_ROWS else self._aims if tries else [self.target]
        table, Y, counts = merged(table, as_columns(y)[used], counts[used])
        centers, rows = number_of_centers(len(table)), evenly(len(table), CHOICE_ROWS)
        table, Y, counts = table[rows], Y[rows], counts[rows]
        # repeats would vouch for each other: for the width, a sample counts once
        candidates = dictionaries(table, Y, np.minimum(1, counts), centers, self.dictionary)
        rng = check_random_state(self.random_state)
        data = [folded(table, Y, counts, FOLDS, rng) for _ in range(repeats(len(table)))]
        with threadpool_limits(1):  # the folds have a thread each
            look = first_look(len(table))
            tried = self._try(candidates, targets, look, data[:1])
            first = [trial for some in tried for trial in self._told(some)]
            trials = self._try_again(contenders(first, BEATEN), candidates, data)
            pools = self._told(self._pools(trials)) if tries and n <= CHOICE_ROWS else []
        best, self._wanted = self._choose(pools if pools and self.target == "pooled" else trials + pools)
        self.dictionary_, self.target_, self.pool_ = best.name, best.target, list(best.members)
        self.trials_ = {trial.title: trial.errors for trial in first + trials + pools}
        self._parts = {name: candidates[name] for name in best.names}
        basis = candidates[best.names[0]] if len(best.names) == 1 else UnionBasis(list(self._parts.values()))
        self._automatic = Pipeline([("table", TableEncoder()), ("terms", basis)]) if is_frame(X) else basis

    def _choose(self, trials: list[Trial]) -> tuple[Trial, int]:
        """Return the best of what was tried, and its number of terms."""
        return choose(trials, self.size, SMALL)

    def _reach(self, trials: list[Trial]) -> tuple[Trial, int]:
        """Return the best of what was tried, and how many of its terms make it better."""
        return choose(trials, "accurate" if isinstance(self.size, str) else self.size, SMALL)

    def _try(
        self, candidates: dict[str, Basis], targets: list[str], most: int, data: list[Folded]
    ) -> Iterator[list[Trial]]:
        """Cross-validate dictionaries at every size, for each target."""
        table, Y, counts, _ = data[0]
        most = self._most(most, counts)
        sizes = [most_candidates(basis, table.shape[1], "ridge" in targets) for basis in candidates.values()]
        tries = [(basis, one) for basis in candidates.values() for one in data]
        found = out_of_fold(tries, most, targets, threads(len(Y), max(sizes)))
        for name in candidates:
            foldings = zip(*islice(found, len(data)), strict=True)
            self._after_step()
            yield [Trial(name, target, list(some), Y, counts) for target, some in zip(targets, foldings, strict=True)]

    def _pools(self, trials: list[Trial]) -> list[Trial]:
        """Cross-validate the mean of several models, and of those that can be drawn if the model is to be small."""
        most = self._most(self.max_terms, trials[0].counts)
        pools = pooled(trials, most)
        if self.size != "small" or not any(pool.mixing for pool in pools):
            return pools
        return pools + pooled([trial for trial in trials if not trial.mixing], most)

    def _most(self, most: int, counts: Floats) -> int:
        """Terms that a model may have."""
        return max(1, min(most, self.max_terms, int(counts.sum()) // 3))

    def _told(self, trials: list[Trial]) -> list[Trial]:
        """Report trials, if that is wanted, and return them."""
        if self.verbose and trials:
            print(*trials, sep="\n")
        return trials

    def _try_again(self, trials: list[Trial], candidates: dict[str, Basis], data: list[Folded]) -> list[Trial]:
        """Fold few samples several times; give what is still improving with its last terms twice as many."""
        if len(data) > 1:
            trials = self._try_other_folds(trials, candidates, data[1:])
        while True:
            best, wanted = self._reach(trials)
            tried = len(best.squares) - 1
            if wanted < STILL * tried or tried >= self._most(self.max_terms, best.counts):
                return trials
            growing = [one for one in trials if one is best or (one.name == best.name and one.grows(STILL))]
            more = [self._try_further(trial, candidates[trial.name], 2 * tried, data) for trial in growing]
            trials = [*(trial for trial in trials if trial not in growing), *self._told(more)]

    def _try_further(self, trial: Trial, basis: Basis, most: int, data: list[Folded]) -> Trial:
        """Give the models of a trial more terms."""
        table, Y, counts, _ = data[0]
        most = self._most(most, counts)
        at_once = threads(len(Y), most_candidates(basis, table.shape[1], stored=False))
        foldings = [further(one, rows, most, at_once) for one, rows in zip(trial.foldings, data, strict=True)]
        self._after_step()
        return replace(trial, foldings=foldings)

    def _try_other_folds(self, trials: list[Trial], candidates: dict[str, Basis], data: list[Folded]) -> list[Trial]:
        """Repeat trials of one folding with others, and average."""
        averages = []
        for name in dict.fromkeys(trial.name for trial in trials):
            before = [trial for trial in trials if trial.name == name]
            targets, most = [trial.target for trial in before], len(before[0].squares) - 1
            (others,) = self._try({name: candidates[name]}, targets, most, data)
            averages += self._told([one.more(other) for one, other in zip(before, others, strict=True)])
        return averages

    def _fit_design(self, X: Any, y: NDArray, counts: Floats, min_samples: int = 2) -> NDArray:
        """Make the candidates; of many samples, some decide which candidates are worth evaluating on all."""
        rows, self._stage = np.flatnonzero(counts), None
        if self.target_ == "pooled":
            return self._fit_pool(X, y, counts, min_samples)
        if len(rows) <= PATH_ROWS:
            return super()._fit_design(X, y, counts, min_samples)
        some = rows[evenly(len(rows), PATH_ROWS)]
        part = rows_of(X, some)
        fitted = clone(self._prototype()).fit(part, y[some])
        path = grow(design_matrix(fitted, part), as_columns(y)[some], counts[some], self._settings(), one_output=False)
        self.basis_ = restrict(fitted, np.sort(path.terms))
        return self._check_design(self.basis_.transform(X), min_samples)

    def _fit_pool(self, X: Any, y: NDArray, counts: Floats, min_samples: int) -> NDArray:
        """Fit the models of a pool; their terms are the candidates, and their mean is what is aimed at."""
        used = np.flatnonzero(counts)
        part, Y = rows_of(X, used), as_columns(y)[used].astype(np.float64)
        encoder = TableEncoder().fit(part)
        table = encoder.transform(part) if is_frame(X) else part
        fitted = {name: clone(basis).fit(table, Y) for name, basis in self._parts.items()}
        candidates = {name: design_matrix(basis, table) for name, basis in fitted.items()}
        self._stage, terms = fit_pool(self.pool_, candidates, Y, Rows(counts[used], True), self.alpha)
        taken = [basis.take(terms[name]) for name, basis in fitted.items()]
        basis = taken[0] if len(taken) == 1 else UnionBasis.of(taken)
        basis = basis.take(different_rows(basis.transform(table).T))  # dictionaries have functions in common
        self.basis_ = Pipeline([("table", encoder), ("terms", basis)]) if is_frame(X) else basis
        return self._check_design(self.basis_.transform(X), min_samples)


def parts_of(basis: Any) -> list[Any]:
    """The bases that make terms of a table."""
    last = basis[-1] if isinstance(basis, Pipeline) else basis
    return list(last.bases_) if isinstance(last, UnionBasis) else [last]


def repeats(n: int) -> int:
    """How often n samples are folded."""
    return int(np.clip(REPEAT_ROWS // n, 1, REPEATS))


def first_look(n: int) -> int:
    """Terms tried at first of n samples."""
    return int(np.clip(n // 8, 10, FIRST_LOOK))


def number_of_centers(n: int) -> int:
    """Gaussians for n samples: all of them at first, then more only slowly."""
    return n if n <= MOST_CENTERS else int(MOST_CENTERS * (n / MOST_CENTERS) ** 0.2)
