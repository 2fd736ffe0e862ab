"""What the terms are fitted to: the data, a ridge fit to them, a reference model, or a stacked ensemble (distillation).

*Ridge fit.* Terms selected for noisy targets fit some of the noise, the more the larger the candidate set: among
thousands of products there is always one that fits the samples with the largest errors. Ridge regression on all
candidates shrinks instead of selecting, and averages the noise out; a few terms fitted to its predictions inherit the
low variance. Where few of very many candidates matter, ridge regression is poor and the data are the better target.

A *reference model* of the same samples, gradient boosting by default, is evaluated wherever its predictions are needed:
at the samples and at synthetic inputs between them. A rough function that is known at the samples alone would be
interpolated there, and missed in between.

*Stacked ensemble.* Models with different dictionaries and targets make different errors, so that a convex combination
has a smaller error than the best of them (stacking: Wolpert 1992, Breiman 1996). Its weights minimise the squared error
of out-of-fold predictions. The ensemble has the terms of all its members, but it is free of noise, and a few of these
terms reproduce it.

Cross-validation of the whole procedure decides between them. The ridge fit and ensembles are linear in the targets, so
that leave-one-out goes through both stages in closed form (see `termwise.linalg.two_stage`); for a reference model it
is that of least squares on the terms, an approximation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import softmax
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from termwise._arrays import column_order, column_ranks, comparable, has_missing, order_by_ranks
from termwise._numerics import EQUAL_RESIDUALS, STACKING_PENALTY_ROOT
from termwise.basis import AnovaBasis, Basis
from termwise.basis.base import design_matrix
from termwise.design import EVERY, Design
from termwise.linalg.least_squares import Problem, Solution, WeightedRows, least_squares_problem, leave_one_out
from termwise.linalg.losses import Gamma, Loss, Poisson
from termwise.linalg.spectrum import Spectrum, best_alpha
from termwise.linalg.two_stage import Change, leave_one_out_scores
from termwise.recipe.dictionaries import Samples, product_kernel
from termwise.recipe.settings import RecipeSettings
from termwise.selection.constraints import Constraints
from termwise.selection.nested import NestedModels, nested_path

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


# -- ridge regression on all candidates --------------------------------------------------------------------------------


@dataclass(frozen=True)
class RidgeTarget:
    """The ridge fit `signal = mean + V V' (y - mean)` as a first stage, linear in the targets."""

    targets: Floats  # (n, q)
    signal: Floats  # (n, q), fitted values
    residual: Floats  # (n, q), leave-one-out
    V: Floats  # (n, r), rows not scaled
    rows: WeightedRows
    alpha: float

    @classmethod
    def of_basis(cls, basis: Any, X: Floats, G: Floats | Design, Y: Floats, sample_weight: Floats) -> Self:
        """Fit ridge regression to the functions of a fitted basis, with the design matrix G at the samples.

        Where there are products the kernel of all is used, those with little support included: it costs far less than
        the products. On 24 tables the error of ridge regression was the same, in the geometric mean.
        """
        if isinstance(basis, AnovaBasis) and basis.order == 2:
            return cls.from_kernel(product_kernel(basis, X, sample_weight), Y, sample_weight)
        return cls.fit(G, Y, sample_weight)

    @classmethod
    def from_kernel(cls, K: Floats, Y: Floats, sample_weight: Floats) -> Self:
        """Fit ridge regression to columns of which the inner products of the samples, (n, n), are given."""
        share, root = sample_weight / sample_weight.sum(), np.sqrt(sample_weight)
        means = K @ share
        centred = (K - means - (means - share @ means)[:, None]) * root * root[:, None]
        problem = least_squares_problem(np.empty((len(Y), 0)), Y, sample_weight, intercept=True)
        return cls.from_spectrum(Spectrum(problem, kernel=centred))

    @classmethod
    def fit(cls, G: Floats | Design, Y: Floats, sample_weight: Floats) -> Self:
        """Fit ridge regression to all columns, standardised, at the penalty with the least leave-one-out error."""
        G = G.columns(EVERY) if isinstance(G, Design) else G
        share = sample_weight / sample_weight.sum()
        size = np.sqrt(share @ (G - share @ G) ** 2)
        return cls.from_columns(G / np.where(size > 0, size, 1.0), Y, sample_weight)

    @classmethod
    def from_columns(cls, G: Floats, Y: Floats, sample_weight: Floats) -> Self:
        """Fit ridge regression to columns as they are."""
        return cls.from_spectrum(Spectrum(least_squares_problem(G, Y, sample_weight, intercept=True), truncate=True))

    @classmethod
    def from_spectrum(cls, spectrum: Spectrum) -> Self:
        """Fit at the penalty with the least leave-one-out error."""
        problem, alpha = spectrum.problem, best_alpha(spectrum, "loo", zooms=1)
        ridge, root = spectrum.solution(alpha), np.sqrt(problem.rows.sample_weight)[:, None]
        targets = problem.Y_mean + problem.Y / root
        signal = problem.Y_mean + ridge.B @ (ridge.B.T @ problem.Y) / root
        return cls(targets, signal, ridge.loo / root, ridge.B / root, problem.rows, alpha)

    def change(self, j: int) -> Change:
        """What leaving out each sample subtracts from output j of the signal."""
        removed = self.rows.single * self.residual[:, j]
        return Change(removed / self.rows.n, self.V, self.V * removed[:, None])

    def transposed(self, B: Floats) -> Floats:
        """`S' B` with `S = V V'`, in scaled rows."""
        V = self.V * np.sqrt(self.rows.sample_weight)[:, None]
        return V @ (V.T @ B)


# -- the reference model -----------------------------------------------------------------------------------------------

MAX_LOG_ODDS = 8.0  # of a class that the reference model predicts: its probabilities below 3e-4 are hardly more certain
MAX_BINS = 255  # of each input, as in scikit-learn's gradient boosting
REFERENCES = ("boosting", "estimator")  # targets that are predictions of a reference model: the default, or a given one


def default_reference(labels: bool, loss: Loss | None, settings: RecipeSettings) -> Any:
    """Return gradient boosting with the parameters of the recipe, for targets or for labels; None for other losses."""
    own = {} if labels or loss is None else {"loss": loss.name}
    if own and loss not in (Poisson(), Gamma()):
        return None
    booster = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    trees = booster(
        **own,
        learning_rate=settings.boosting_rate,
        max_iter=settings.boosting_iterations,
        max_leaf_nodes=settings.boosting_leaves,
        min_samples_leaf=settings.boosting_leaf_rows,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )
    return make_pipeline(OrderedColumns(settings.boosting_leaf_rows), trees)


class OrderedColumns(TransformerMixin, BaseEstimator):
    """Sort the columns: of splits that are equally good, trees take the one of the first column.

    Columns of which fewer than `min_count` entries differ from the most frequent one are left out, unless all are: no
    leaf can have so few samples. Of weighted samples columns with many values are replaced by the numbers of their
    bins, about those of scikit-learn, whose gradient boosting spends most of its time on them.
    """

    def __init__(self, min_count: int = 1) -> None:
        self.min_count = min_count

    def fit(self, X: Floats, y: Any = None, sample_weight: Floats | None = None) -> Self:
        """Store an order that depends on the entries of the columns alone, and the ends of bins of weighted samples."""
        ranks = column_ranks(X)
        order, counts = order_by_ranks(ranks), np.array([len(X) - np.bincount(own).max() for own in ranks.T])
        self.order_ = order[counts[order] >= self.min_count] if counts.max() >= self.min_count else order
        self.ends_ = {}
        if sample_weight is not None:
            many = [place for place, j in enumerate(self.order_) if ranks[:, j].max() >= MAX_BINS]
            self.ends_ = {place: bin_ends(X[:, self.order_[place]], sample_weight) for place in many}
        return self

    def transform(self, X: Floats) -> Floats:
        """Return the columns in that order."""
        X = X[:, self.order_]
        for place, ends in self.ends_.items():
            X[:, place] = np.where(np.isnan(X[:, place]), np.nan, np.searchsorted(ends, X[:, place]))
        return X

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def bin_ends(x: Floats, sample_weight: Floats) -> Floats:
    """Return the quantiles that divide weighted values into `MAX_BINS` bins; the middle where two values qualify."""
    present = np.flatnonzero(~np.isnan(x) & (sample_weight > 0))
    order = present[np.argsort(x[present], kind="stable")]
    total = np.cumsum(sample_weight[order])
    wanted, rounding = np.arange(1, MAX_BINS) / MAX_BINS * total[-1], len(x) * np.finfo(np.float64).eps * total[-1]
    low, high = (np.searchsorted(total, wanted + change, side="right") for change in (-rounding, rounding))
    return np.unique((x[order[low]] + x[order[np.minimum(high, len(order) - 1)]]) / 2)


def with_more_trees(reference: Any, factor: int) -> Any:
    """Return the default reference, not fitted, with this multiple of its trees."""
    name, trees = reference.steps[-1]
    return clone(reference).set_params(**{f"{name}__max_iter": factor * trees.max_iter})


@dataclass(frozen=True)
class TrainedModel:
    """A fitted model of targets, or of labels coded -1 and +1."""

    estimator: Any
    Y: Floats  # (n, q), that it was fitted to
    labels: bool

    @classmethod
    def train(cls, estimator: Any, X: Floats, Y: Floats, sample_weight: Floats, labels: bool) -> Self:
        """Fit a copy of an estimator."""
        weighted: dict[str, Floats] = {}
        if np.ptp(sample_weight) > 0:  # equal weights would only cost time
            weighted = sample_weight_of(estimator, sample_weight)
        if labels:
            classes = np.argmax(Y, axis=1) if Y.shape[1] > 1 else (Y[:, 0] > 0).astype(int)
            if np.ptp(classes) == 0:
                return cls(DummyClassifier().fit(X, classes), Y, labels)
            return cls(clone(estimator).fit(X, classes, **weighted), Y, labels)
        if not np.ptp(Y, axis=0).any():  # gradient boosting refuses counts that are all zero
            return cls(DummyRegressor().fit(X, Y), Y, labels)
        if Y.shape[1] == 1:
            return cls(clone(estimator).fit(X, Y[:, 0], **weighted), Y, labels)
        return cls(MultiOutputRegressor(clone(estimator)).fit(X, Y, **weighted), Y, labels)

    def predict(self, X: Floats) -> Floats:
        """Predictions, (n, q); for labels, scores whose softmax, as of `linalg.calibration`, are the probabilities.

        Terms that reproduce probabilities near zero to the same error as others would lose most of the log loss.
        """
        return self._scores(self.estimator.predict_proba(X) if self.labels else self.estimator.predict(X))

    def predict_halfway(self, X: Floats) -> Floats | None:
        """Predictions with the first half of the trees of the default reference; None for other models."""
        if not (isinstance(self.estimator, Pipeline) and isinstance(self.estimator[0], OrderedColumns)):
            return None
        order, trees = self.estimator
        stages = trees.staged_predict_proba if self.labels else trees.staged_predict
        half = max(1, trees.max_iter // 2)
        return self._scores(next(islice(stages(order.transform(X)), half - 1, None)))

    def _scores(self, values: Floats) -> Floats:
        """Return predictions or probabilities of the estimator as `predict` does."""
        q = self.Y.shape[1]
        if not self.labels:
            return values.reshape(len(values), q)
        probabilities = np.zeros((len(values), max(2, q)))
        probabilities[:, self.estimator.classes_] = values
        logs = np.log(np.maximum(probabilities, np.exp(-MAX_LOG_ODDS)))
        scores = logs - logs.mean(axis=1, keepdims=True)
        return scores if q > 1 else scores[:, 1:]


@dataclass(frozen=True)
class Reference:
    """Predictions of a reference model for the samples it was trained on, and for synthetic inputs."""

    signal: Floats  # (n, q), at the samples
    X: Floats  # (m, d), synthetic inputs
    values: Floats  # (m, q), at these
    synthetic_weight: float  # of all synthetic inputs together, as a share of the weight of the samples
    held_out: Floats  # (t, q), at samples it was not trained on
    halfway: Floats | None  # (t, q), at these, of the first half of boosted trees

    @classmethod
    def fit(
        cls,
        estimator: Any,
        samples: Samples,
        groups: Indices,
        labels: bool,
        settings: RecipeSettings,
        test: Floats | None = None,
    ) -> Self:
        """Train the model on the samples and evaluate it at these, at synthetic inputs and at inputs held out.

        OpenMP has one thread, a limit that holds in the calling thread alone. With at most `path_rows` samples more of
        them save little, and wait for each other for seconds where other processes or folds use the processors.
        """
        X, Y, sample_weight, _ = samples
        synthetic, test = synthetic_inputs(X, groups, settings), X[:0] if test is None else test
        both, estimator = np.vstack([X, synthetic, test]), accepting_missing(estimator, np.vstack([X, test]))
        with threadpool_limits(1, user_api="openmp"):
            model = TrainedModel.train(estimator, X, Y, sample_weight, labels)
            values, halfway = model.predict(both), model.predict_halfway(test) if len(test) else None
        signal, values, held_out = np.split(values, [len(X), len(X) + len(synthetic)])
        return cls(signal, synthetic, values, settings.synthetic_weight, held_out, halfway)

    def models(
        self,
        basis: Basis,
        X: Floats,
        sample_weight: Floats,
        alpha: float,
        max_terms: int,
        constraints: Constraints | None = None,
        before: NestedModels | None = None,
    ) -> NestedModels:
        """Select terms of a fitted basis that reproduce the predictions for samples, and for synthetic inputs.

        Candidates are stored in float32, which halves the time; the predictions are no more accurate than that.
        """
        values, weights = self.rows(sample_weight)
        every = np.vstack([X, self.X]).astype(np.float32)
        return nested_path(design_matrix(basis, every), values, weights, alpha, max_terms, constraints, before)

    def rows(self, sample_weight: Floats) -> tuple[Floats, Floats]:
        """Return the predictions for samples of these weights and for synthetic inputs, (n + m, q), and the weights."""
        weight = self.synthetic_weight * sample_weight.sum() / max(len(self.X), 1)
        weights = np.append(sample_weight, np.full(len(self.X), weight))
        return np.vstack([self.signal, self.values]), weights


def accepting_missing(estimator: Any, X: Floats) -> Any:
    """Return an estimator for inputs with missing values: means take their place if it does not accept them."""
    if not has_missing(X) or get_tags(estimator).input_tags.allow_nan:
        return estimator
    return make_pipeline(SimpleImputer(keep_empty_features=True), estimator)


def sample_weight_of(estimator: Any, sample_weight: Floats) -> dict[str, Floats]:
    """Return the arguments of `fit` that pass weights to an estimator, or to the steps of a pipeline that take them."""
    if not isinstance(estimator, Pipeline):
        return {"sample_weight": sample_weight} if has_fit_parameter(estimator, "sample_weight") else {}
    weighted = [name for name, step in estimator.steps if has_fit_parameter(step, "sample_weight")]
    return {f"{name}__sample_weight": sample_weight for name in weighted}


def synthetic_inputs(X: Floats, groups: Indices, settings: RecipeSettings) -> Floats:
    """Return inputs between the samples: rows of which some inputs are those of another row.

    Columns of one group, the levels of a category for example, are replaced together. The order of the samples does not
    matter, nor does that of the columns.
    """
    columns = column_order(X)
    rows = X[np.unique(comparable(X)[:, columns], axis=0, return_index=True)[1]]
    m = min(settings.synthetic_rows_per_row * len(rows), settings.max_synthetic_rows)
    rng = np.random.RandomState(0)
    one, other = rng.randint(len(rows), size=(2, m))
    _, first, group = np.unique(groups[columns], return_index=True, return_inverse=True)
    group = np.argsort(np.argsort(first))[group][np.argsort(columns)]  # numbered in the order of their first columns
    replaced = rng.uniform(size=(m, group.max() + 1)) < settings.crossover_share
    return np.where(replaced[:, group], rows[other], rows[one])


@dataclass(frozen=True)
class ReferenceTarget:
    """A reference model as a first stage: its predictions, and the candidates, at the samples and synthetic inputs."""

    targets: Floats  # (n, q)
    labels: bool  # whether these are labels, of which the model has scores
    signal: Floats  # (n, q), at the samples that the weights are fitted to
    columns: Floats  # (m, p), candidates at samples of the selection, then at synthetic inputs
    values: Floats  # (m, q)
    weights: Floats  # (m,)

    def solution(self, second: Solution, problem: Problem, terms: Indices, alpha: float) -> tuple[Solution, Floats]:
        """Return the fit to all values with some terms as a solution for the targets, and its intercept, (q,).

        Leave-one-out is that of least squares for the targets on the terms: how the model itself changes is not known.
        """
        models = NestedModels.from_columns(self.columns[:, terms], self.values, self.weights, alpha)
        weights, intercept = models.weights(len(terms))
        rows, root = problem.rows, np.sqrt(problem.rows.sample_weight)[:, None]
        fitted = intercept + (problem.G / root + problem.G_mean) @ weights
        if self.labels:  # on the scale of the labels
            fitted = 2 * softmax(fitted, axis=1) - 1 if fitted.shape[1] > 1 else np.tanh(fitted)
        gap = rows.gap(np.einsum("ij,ij->i", second.B, second.B))
        loo = leave_one_out(self.targets - fitted, gap, self.targets - problem.Y_mean) * root
        sse = rows.sample_weight @ (self.targets - fitted) ** 2
        return replace(second, weights=weights, loo=loo, sse=sse), intercept


# -- stacked ensembles -------------------------------------------------------------------------------------------------


class Member(NamedTuple):
    """A model of a stacked ensemble; one of size 0 is the mean of the targets."""

    name: str  # of its dictionary
    target: str
    size: int
    weight: float


def stacking_weights(residuals: Floats, min_weight: float) -> Floats:
    """Return nonnegative weights with sum one that minimise `|R w|^2`, R the residuals, one column per model.

    The minimiser v of `|R v|^2 + (1 - sum v)^2` over `v >= 0` has `R'R v` equal for all positive entries and not less
    for the others, so that v is a multiple of w: nonnegative least squares. Of models with equal residuals the first
    is used, whatever the rounding. Weights below `min_weight` are set to zero.
    """
    residuals = residuals / max(float(np.abs(residuals).max()), np.finfo(np.float64).tiny)
    distance = np.abs(residuals[:, :, None] - residuals[:, None, :]).max(axis=0)
    distinct = np.flatnonzero(~np.any(np.triu(distance <= EQUAL_RESIDUALS, 1), axis=0))
    m = len(distinct)
    R: Floats = np.linalg.qr(residuals[:, distinct]).R
    v, _ = nnls(np.vstack([R, STACKING_PENALTY_ROOT * np.eye(m), np.ones(m)]), np.append(np.zeros(len(R) + m), 1.0))
    weights = np.zeros(residuals.shape[1])
    weights[distinct] = np.where(v >= min_weight * v.sum(), v, 0.0)
    return weights / weights.sum()


@dataclass(frozen=True)
class MemberFit:
    """A member of an ensemble, fitted to the samples; its terms were selected for the targets or their ridge fit."""

    Z: Floats  # (n, k), orthogonal columns, rows scaled
    signal: Floats  # (n, q), fitted values
    changes: list[Change]  # one for each output
    ridge: RidgeTarget | None

    @classmethod
    def from_least_squares(cls, Z: Floats, signal: Floats, targets: Floats, start: Floats, rows: WeightedRows) -> Self:
        """Leave samples out as by least squares for the targets, whose mean is `start`, on orthogonal columns Z."""
        U, gap = Z / np.sqrt(rows.sample_weight)[:, None], rows.gap(np.einsum("ij,ij->i", Z, Z))
        removed = rows.single * leave_one_out(targets - signal, gap, targets - start).T
        return cls(Z, signal, [Change(g / rows.n, U, U * g[:, None]) for g in removed], None)

    @classmethod
    def from_reference(cls, model: NestedModels, targets: Floats, rows: WeightedRows) -> Self:
        """Use all terms of a path that reproduces the reference model; left out as by least squares on its terms."""
        root, k = np.sqrt(rows.sample_weight)[:, None], len(model.terms)
        same = NestedModels.from_columns(model.columns(k, root), targets, rows.sample_weight, 0.0)
        return cls.from_least_squares(same.Z.T, model.fitted(k, root), targets, model.start, rows)

    @classmethod
    def from_path(cls, model: NestedModels, targets: Floats, rows: WeightedRows, ridge: RidgeTarget | None) -> Self:
        """Use all terms of a path.

        Leaving out sample i lowers the ridge fit by `d`. The member's fit without i is its fit to that signal with
        entry i replaced by its prediction `s_i`.
        """
        root, Z = np.sqrt(rows.sample_weight)[:, None], model.Z.T
        U, signal = Z / root, model.fitted(len(model.terms), root)
        if ridge is None:
            return cls.from_least_squares(Z, signal, targets, model.start, rows)
        scores = leave_one_out_scores(ridge, rows, Z, root * (ridge.signal - model.start), model.start)
        changes = []
        for j in range(targets.shape[1]):
            first = ridge.change(j)
            g = rows.single * (ridge.signal[:, j] - first.own - scores[:, j])
            A = first.A @ ((first.U * root).T @ Z) + U * g[:, None]
            changes.append(Change(first.shift + g / rows.n, U, A))
        return cls(Z, signal, changes, ridge)


@dataclass(frozen=True)
class EnsembleTarget:
    """A stacked ensemble as a first stage."""

    targets: Floats  # (n, q)
    members: Sequence[tuple[float, MemberFit]]  # with their weights
    signal: Floats  # (n, q), fitted values

    @classmethod
    def fit(
        cls,
        members: Sequence[Member],
        designs: Mapping[str, Any],
        X: Floats,
        Y: Floats,
        rows: WeightedRows,
        reference: Reference | None,
        alpha: float,
    ) -> tuple[Self, dict[str, Indices]]:
        """Fit every member to the candidates of its dictionary; return also the terms used of each dictionary."""
        ridges: dict[str, RidgeTarget] = {}
        terms = {name: np.empty(0, dtype=np.intp) for name in designs}
        fits = []
        for name, target, size, weight in members:
            if target in REFERENCES and reference is not None:
                models = reference.models(designs[name].basis, X, rows.sample_weight, alpha, size).first_rows(len(X))
                fits.append((weight, MemberFit.from_reference(models, Y, rows)))
                terms[name] = np.union1d(terms[name], models.terms)
                continue
            G = designs[name].G if size else np.empty((len(Y), 0))
            if target == "ridge" and name not in ridges:
                ridges[name] = designs[name].ridge(Y, rows.sample_weight)
            ridge = ridges[name] if target == "ridge" else None
            models = nested_path(G, Y if ridge is None else ridge.signal, rows.sample_weight, alpha, size)
            fits.append((weight, MemberFit.from_path(models, Y, rows, ridge)))
            if size:
                terms[name] = np.union1d(terms[name], models.terms)
        return cls(Y, fits, np.asarray(sum(weight * fit.signal for weight, fit in fits))), terms

    def change(self, j: int) -> Change:
        """What leaving out each sample subtracts from output j of the signal: the weighted sum over the members."""
        parts = [(weight, fit.changes[j]) for weight, fit in self.members]
        return Change(
            np.asarray(sum(weight * part.shift for weight, part in parts)),
            np.hstack([part.U for _, part in parts]),
            np.hstack([weight * part.A for weight, part in parts]),
        )

    def transposed(self, B: Floats) -> Floats:
        """`S' B`, with S the weighted sum of `Z Z'` of the members, times the ridge fit's S where there is one."""
        total = np.zeros_like(B)
        for weight, fit in self.members:
            projected = fit.Z @ (fit.Z.T @ B)
            total += weight * (projected if fit.ridge is None else fit.ridge.transposed(projected))
        return total


FirstStage = RidgeTarget | ReferenceTarget | EnsembleTarget

# -- the second stage --------------------------------------------------------------------------------------------------


def through_first_stage(
    stage: RidgeTarget | EnsembleTarget, second: Solution, problem: Problem, scores: Floats
) -> Solution:
    """Return a solution for the signal of a first stage as one for the targets; `scores` are leave-one-out predictions.

    With the signal `S y` the weights are `w = K B'S y`, linear in the targets: `S'B` takes the place of B.
    """
    rows, root = problem.rows, np.sqrt(problem.rows.sample_weight)[:, None]
    B = stage.transposed(second.B)
    fitted = problem.Y_mean + problem.G @ second.weights / root
    dof = 1 + float(np.sum(second.B * B))
    sse = rows.sample_weight @ (stage.targets - fitted) ** 2
    return replace(second, B=B, loo=(stage.targets - scores) * root, sse=sse, dof=dof, freedom=rows.n - dof)
