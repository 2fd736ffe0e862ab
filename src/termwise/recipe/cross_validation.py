"""Cross-validation of dictionaries and targets: whatever is learned from targets is learned anew in every fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, cpu_count, delayed
from numpy.typing import NDArray
from sklearn.base import clone

from termwise._arrays import Array, comparable, limited
from termwise._memory import budget
from termwise._numerics import FLOAT32, FLOAT64, LOG_RESPONSE_MAX
from termwise.basis import AnovaBasis, Basis, LevelMeans, LogInputs, SmoothBasis, UnionBasis
from termwise.basis.base import design_matrix
from termwise.basis.levels import EqualLevels
from termwise.design.computed import ProductDesign
from termwise.linalg.losses import Loss
from termwise.recipe.device import PathData, fits_in_device_memory, select_on_device
from termwise.recipe.folds import Folds, symmetric_order
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.targets import Reference, RidgeTarget
from termwise.selection.constraints import Constraints
from termwise.selection.glm import GlmModels, glm_path, null_model
from termwise.selection.nested import NestedModels, nested_path

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

CACHED_BYTES = 1 << 22  # of a design matrix, up to which passes over it are fast
KEPT_BYTES = 1 << 26  # of a design matrix of Gaussians or rules that may be kept for a fold
KEPT_ENTRIES = 1 << 17  # of the centres of Gaussians, a megabyte, or rules that may be kept for a fold

# -- paths without a fold ----------------------------------------------------------------------------------------------


def n_parallel_folds(n: int, p: int, settings: RecipeSettings) -> int:
    """Return how many folds with n samples and p candidates to fit in parallel threads, as memory permits.

    With few samples the time is spent in Python, which threads cannot share.
    """
    if n <= settings.parallel_rows:
        return 1
    return int(np.clip(budget() // (settings.ridge_copies * 8 * n * p), 1, cpu_count()))


class Penalised(NamedTuple):
    """The data themselves: the loss that models of them minimise, and its penalty."""

    loss: Loss | None  # None: the squared error
    alpha: float  # of the weights of standardised columns


Values = str | Floats | Reference | Penalised  # "data", "ridge", or what was computed before
Target = Values | Callable[[], Reference]  # a reference model may be trained when its fold is fitted


@dataclass(frozen=True)
class FoldPath:
    """Models of every size, trained without one fold."""

    models: Any  # NestedModels, or GlmModels of a loss
    train: Mask  # (n,), the training samples
    columns: Floats  # (m, k), the terms on the samples of the fold
    terms: Basis | None  # the terms, fitted; None if all inputs are constant in the fold
    dictionary: Basis | TrainingDesign | None = None  # to continue from, see `TrainingDesign.to_continue`
    target: Values | None = None  # what the terms were selected for: values, (n_train, q), data or the reference model
    n_candidates: int = 0
    longer: NestedModels | None = None  # the models to continue from, which may have more rows
    limits: Floats | None = None  # (2, q), range that predictions are clipped to

    def weights(self, k: int) -> tuple[Floats, Floats]:
        """Weights of the first k terms, or of all if the path has fewer, and the intercept."""
        weights, intercept = self.models.weights(min(k, len(self.models.terms)))
        return weights, intercept


@dataclass(frozen=True)
class CrossValidatedPath:
    """One path for every fold, or for some; predictions are computed on demand: many classes would fill the memory."""

    paths: list[FoldPath]
    max_terms: int

    def predictions(self, Y: Floats) -> Floats:
        """Return out-of-fold predictions with the first 0 to k terms, (k + 1, n, q).

        A path that has ended repeats its last prediction. Samples of folds without a path have predictions of zero.
        """
        found = np.zeros((self.max_terms + 1, *Y.shape))
        for path in self.paths:
            along = limited(path.models.along(path.columns)[: self.max_terms + 1], path.limits)
            found[: len(along), ~path.train], found[len(along) :, ~path.train] = along, along[-1]
        return found

    def prediction(self, k: int, Y: Floats) -> Floats:
        """Return the out-of-fold predictions of one size, (n, q)."""
        found = np.zeros_like(Y, dtype=np.float64)
        for path in self.paths:
            weights, intercept = path.weights(k)
            found[~path.train] = limited(path.columns[:, : len(weights)] @ weights + intercept, path.limits)
        return found


class Fitting(NamedTuple):
    """How the models of a path are fitted."""

    alpha: float  # penalty of least squares
    hierarchy: bool = False  # whether products require terms of each of their inputs
    device_array: Array | None = None  # on the device that computes paths of least squares; None: the host does
    margin: float | None = None  # share of the range of the targets by which predictions may exceed it; None: any
    logarithms: bool = False  # whether the targets of the folds are logarithms


class CrossValidationJob(NamedTuple):
    """A dictionary to cross-validate."""

    basis: Basis  # not fitted
    folds: Folds
    max_terms: int
    targets: Mapping[int, Sequence[Target]]  # of some of the folds, by their numbers
    before: Sequence[FoldPath] = ()  # paths of the basis in these folds, if it was fitted there

    @property
    def bases(self) -> list[Basis | TrainingDesign | None]:
        """The basis for each of these folds, as it was fitted before."""
        return [path.dictionary for path in self.before] or [self.basis] * len(self.targets)


def cross_validate(
    tries: Sequence[CrossValidationJob], fitting: Fitting, n_threads: int = 1
) -> Iterator[list[CrossValidatedPath]]:
    """Yield for each dictionary one cross-validated path per target."""
    jobs = [
        (basis, one.folds, one.folds.fold != number, targets)
        for one in tries
        for basis, (number, targets) in zip(one.bases, one.targets.items(), strict=True)
    ]
    lengths = [one.max_terms for one in tries for _ in one.targets]
    # With an explicit backend: joblib would otherwise use that of an enclosing `parallel_config`, and close it with the
    # calls inside before all results are there.
    parallel = Parallel(n_threads, backend="threading", return_as="generator")
    if fitting.device_array is None:
        found = parallel(delayed(fit_fold)(job, k, fitting) for job, k in zip(jobs, lengths, strict=True))
    else:
        found = parallel(delayed(PreparedFold.prepare)(*job) for job in jobs)
    for one in tries:
        parts = list(islice(found, len(one.targets)))
        paths = parts if fitting.device_array is None else fit_together(parts, one.max_terms, fitting, n_threads)
        yield [CrossValidatedPath(list(path), one.max_terms) for path in zip(*paths, strict=True)]


def extend(
    before: CrossValidatedPath, folds: Folds, max_terms: int, fitting: Fitting, n_threads: int = 1
) -> CrossValidatedPath:
    """Continue paths to more terms, of the candidates and for the target values that were learned before.

    Those of a repeat may be as long already, if another target of the same dictionary has longer paths. On a device
    paths are selected again from the first term.
    """
    short = [path for path in before.paths if len(path.models.terms) < max_terms]
    if not short:
        return CrossValidatedPath(before.paths, max_terms)
    parallel = Parallel(n_threads, backend="threading")
    jobs = [(path.dictionary, folds, path.train, [path.target]) for path in short]  # of ensembles, none is continued
    if fitting.device_array is None:
        pairs = zip(jobs, short, strict=True)
        found = parallel(delayed(fit_fold)(job, max_terms, fitting, path.longer) for job, path in pairs)
    else:
        parts = parallel(delayed(PreparedFold.prepare)(*job) for job in jobs)
        found = fit_together(parts, max_terms, fitting, n_threads)
    longer = {id(path): paths[0] for path, paths in zip(short, found, strict=True)}
    return CrossValidatedPath([longer.get(id(path), path) for path in before.paths], max_terms)


class PreparedFold(NamedTuple):
    """A basis fitted to the training samples of a fold, and what its terms are selected for."""

    training: TrainingDesign | None  # None: all inputs are constant, and only the mean can be fitted
    folds: Folds
    train: Mask
    values: list[Values]

    @classmethod
    def prepare(
        cls, basis: Basis | TrainingDesign | None, folds: Folds, train: Mask, targets: Sequence[Target]
    ) -> Self:
        """Fit the basis, unless it was before: what depends on targets is learned on the training samples."""
        values: list[Values] = [target() if callable(target) else target for target in targets]
        X, Y, sample_weight = folds.X[train], folds.Y[train], folds.sample_weight[train]
        if basis is None or bool(np.all(comparable(X[0]) == comparable(X))):
            return cls(None, folds, train, values)
        if not isinstance(basis, TrainingDesign):
            try:
                basis = TrainingDesign.fit(basis, X, Y, sample_weight)
            except EqualLevels:
                return cls(None, folds, train, values)
        return cls(basis, folds, train, values)

    @property
    def samples(self) -> tuple[Floats, Floats, Floats]:
        """Inputs, targets and weights of the training samples."""
        return self.folds.X[self.train], self.folds.Y[self.train], self.folds.sample_weight[self.train]

    def path(
        self,
        models: NestedModels | GlmModels,
        target: Values,
        dictionary: Basis | TrainingDesign,
        longer: NestedModels | None,
        fitting: Fitting,
    ) -> FoldPath:
        """Return the models of a target, selected on the training samples, with their terms on the others."""
        assert self.training is not None
        basis, test = self.training.basis, self.folds.X[~self.train]
        terms, n_candidates = basis.take(models.terms), self.training.functions.n_functions
        loss = target.loss if isinstance(target, Penalised) else None
        limits = prediction_limits(basis, self.folds.Y[self.train], loss, fitting.margin, fitting.logarithms)
        columns = terms.evaluate(test)
        return FoldPath(models, self.train, columns, terms, dictionary, target, n_candidates, longer, limits)

    def mean_paths(self, alpha: float) -> list[FoldPath]:
        """Return a path without terms for each target."""
        X, Y, sample_weight = self.samples
        none, columns, found = np.empty((len(X), 0)), np.empty((int(np.sum(~self.train)), 0)), []
        mean = nested_path(none, Y, sample_weight, alpha, 0)
        for target in self.values:
            if isinstance(target, Penalised) and target.loss is not None:
                null = glm_path(none, null_model(Y, sample_weight, target.loss), target.alpha, 0)
                found.append(FoldPath(null, self.train, columns, None, None, target))
            else:
                found.append(FoldPath(mean, self.train, columns, None, None, Y))
        return found

    def expect_missing(self) -> None:
        """Accept missing values where other folds have them: rare ones may all be in one."""
        assert self.training is not None
        if self.training.basis.allows_missing:
            self.training.basis.expect_missing(np.isnan(self.folds.X).any(axis=0))


def fit_fold(
    job: tuple[Any, ...], max_terms: int, fitting: Fitting, before: NestedModels | None = None
) -> list[FoldPath]:
    """Prepare a fold, given the arguments, and select terms on its training samples for each target.

    Models `before`, of one target, are continued.
    """
    return fit_on_host(PreparedFold.prepare(*job), max_terms, fitting, before)


def fit_on_host(
    fold: PreparedFold, max_terms: int, fitting: Fitting, before: NestedModels | None = None
) -> list[FoldPath]:
    """Select terms for each target of a fold."""
    alpha, training = fitting.alpha, fold.training
    if training is None:
        return fold.mean_paths(alpha)
    X, Y, sample_weight = fold.samples
    if not all(isinstance(target, Reference) for target in fold.values):
        training = training.evaluated(X)  # a reference model has values at more inputs, where candidates are evaluated
    fold.expect_missing()
    found, dictionary = [], training.to_continue()
    fitted, constraints = training.basis, constraints_of(training.basis, fitting.hierarchy)
    quick = training.in_float32()
    for target in fold.values:
        longer: NestedModels | None = None
        models: NestedModels | GlmModels
        if isinstance(target, Penalised) and target.loss is not None:
            null = null_model(Y, sample_weight, target.loss)
            models = glm_path(training.G, null, target.alpha, max_terms, constraints)
        else:
            if isinstance(target, str):
                target = Y if target == "data" else training.ridge(Y, sample_weight).signal
            if isinstance(target, Reference):
                longer = target.models(fitted, X, sample_weight, alpha, max_terms, constraints, before)
            else:
                signal, own = (Y, target.alpha) if isinstance(target, Penalised) else (target, alpha)
                longer = nested_path(quick, signal, sample_weight, own, max_terms, constraints, before)
            models = longer.first_rows(len(X))
        found.append(fold.path(models, target, dictionary, longer, fitting))
    return found


def fit_together(
    parts: Sequence[PreparedFold], max_terms: int, fitting: Fitting, n_threads: int
) -> list[list[FoldPath]]:
    """Select terms for each target of each fold, those of all folds together on the device.

    What the device does not do is done on the host: losses other than the squared one, ridge fits, which only small
    tables have, and constraints.
    """
    problems = [[path_data(fold, target) for target in fold.values] for fold in parts]
    if not suits_device(problems, fitting):
        parallel = Parallel(n_threads, backend="threading")
        return list(parallel(delayed(fit_on_host)(fold, max_terms, fitting) for fold in parts))
    found: list[list[FoldPath]] = [[] for _ in parts]
    for k, target in enumerate(parts[0].values):
        alpha = target.alpha if isinstance(target, Penalised) else fitting.alpha
        of_target = [one for some in problems if (one := some[k]) is not None]
        selected = select_on_device(fitting.device_array, of_target, alpha, max_terms)
        for fold, paths, every in zip(parts, found, selected, strict=True):
            assert fold.training is not None
            fold.expect_missing()
            models = every.first_rows(int(fold.train.sum()))
            paths.append(fold.path(models, fold.values[k], fold.training.to_continue(), models, fitting))
    return found


def suits_device(problems: Sequence[Sequence[PathData | None]], fitting: Fitting) -> bool:
    """Whether the device computes paths of these problems, one for each fold and target, and has the memory."""
    known = [one for some in problems for one in some if one is not None]
    constrained = any(constraints_of(one.functions, fitting.hierarchy) is not None for one in known)
    if constrained or len(known) < sum(map(len, problems)):
        return False
    return fits_in_device_memory(fitting.device_array, known)


def path_data(fold: PreparedFold, target: Values) -> PathData | None:
    """Return the least-squares problem of a target in a fold; None for ridge fits, other losses and constant inputs."""
    training, is_ridge = fold.training, isinstance(target, str) and target == "ridge"
    if training is None or is_ridge or (isinstance(target, Penalised) and target.loss is not None):
        return None
    X, Y, sample_weight = fold.samples
    if isinstance(target, Reference):
        every = np.vstack([X, target.X]).astype(np.float32)  # as `Reference.models` does
        return PathData(training.basis, every.astype(np.float64), *target.rows(sample_weight), FLOAT32)
    signal = Y if isinstance(target, str | Penalised) else target
    return PathData(training.functions, X if training.table is None else training.table, signal, sample_weight)


class TrainingDesign(NamedTuple):
    """A basis, fitted, and its design matrix at the training samples, cross-fitted if it contains targets."""

    basis: Any
    G: Any  # None: not evaluated
    functions: Any  # the basis of functions of `table`, which is the basis itself unless it replaces inputs
    table: Any  # None: the training samples

    @classmethod
    def fit(cls, basis: Any, X: NDArray[Any], Y: Floats, sample_weight: Floats) -> Self:
        """Fit a basis to training samples.

        Means of levels are cross-fitted on distinct samples, in an order that depends on their entries alone: copies of
        a sample in other folds would reveal its target, and the order of the data must not matter.
        """
        fitted = clone(basis)
        if isinstance(fitted, LevelMeans):
            both = comparable(np.column_stack([X, Y]))
            distinct, first, group = np.unique(both, axis=0, return_index=True, return_inverse=True)
            order = symmetric_order(distinct)
            rows, total = first[order], np.bincount(group.ravel(), weights=sample_weight).astype(np.float64)
            table = fitted.fit_table(X[rows], Y[rows], total[order])[np.argsort(order)[group.ravel()]]
            functions = fitted.basis_
        else:
            functions, table = fitted.fit(X, Y), None
        if isinstance(functions, LogInputs):
            functions, table = functions.basis_, functions.derived(X if table is None else table)
        return cls(fitted, None, functions, table)

    def evaluated(self, X: NDArray[Any]) -> Self:
        """Return it with the design matrix of the training samples X."""
        if self.G is not None:
            return self
        table = X if self.table is None else self.table
        return self._replace(G=design_matrix(self.functions, table), table=table)

    def in_float32(self) -> Any:
        """Return the design matrix, many products of single functions in float32.

        Passes over these take most of the time, and half of it in float32. Terms are selected in that precision; their
        weights are computed in float64. Gaussians, which are nearly dependent, need all digits.
        """
        functions, G = self.functions, self.G
        if G is None or not (isinstance(functions, AnovaBasis) and functions.order == 2):
            return G
        cached = not isinstance(G, ProductDesign) and G.nbytes <= CACHED_BYTES
        return G if cached else G.astype(np.float32)

    def to_continue(self) -> Basis | Self:
        """Return what a longer path needs: Gaussians and rules, which take time to fit.

        Their design matrix is kept if it is not large. Other functions, and Gaussians of many inputs, would take too
        much memory: they are fitted again, with the parameters that were learned from the targets.
        """
        functions = self.functions
        entries = functions.n_functions * (functions.n_features_in_ if isinstance(functions, SmoothBasis) else 1)
        if not isinstance(functions, SmoothBasis | UnionBasis) or entries > KEPT_ENTRIES:
            return self.basis.with_fitted_params()
        if self.G is not None and self.G.nbytes <= KEPT_BYTES:
            return self
        return self._replace(G=None, table=None if self.functions is self.basis else self.table)

    def ridge(self, Y: Floats, sample_weight: Floats) -> RidgeTarget:
        """Fit ridge regression to all candidates."""
        return RidgeTarget.of_basis(self.functions, self.table, self.G, Y, sample_weight)


def readable_size(inputs: Sequence[tuple[int, ...]], max_effects: int) -> int:
    """Return how many of the first terms, with these inputs, have at most so many effects: distinct sets of inputs."""
    counts = [len(set(inputs[:k])) for k in range(len(inputs) + 1)]
    return int(np.searchsorted(counts, max_effects, side="right")) - 1


def prediction_limits(
    basis: Basis, Y: Floats, loss: Loss | None, margin: float | None, logarithms: bool = False
) -> Floats | None:
    """Return the range that predictions by functions of a fitted basis are clipped to, (2, q); None for any.

    It is that of the training targets, extended on either side by the share `margin` of its length: weights of nearly
    dependent functions cancel where there are training samples, and may add up to any number elsewhere. With a
    logarithmic link it is one of logarithms, and from below there is no limit but that of the logarithms of floats.
    Where Y are `logarithms` of the targets, the upper limit is that of the targets, and the lower one of Y.
    Functions that go on outside the range of the training inputs, as linear ones do, have no limits.
    """
    if margin is None or not basis.is_bounded:
        return None
    low, high = Y.min(axis=0), Y.max(axis=0)
    if logarithms:
        return np.array([low - margin * (high - low), high + np.log1p(-margin * np.expm1(low - high))])
    low, high = low - margin * (high - low), high + margin * (high - low)
    if loss is None or loss.link != "log":
        return np.array([low, high])
    largest = LOG_RESPONSE_MAX[FLOAT64]
    return np.array([np.full_like(low, -largest), np.where(high > 0, np.log(np.where(high > 0, high, 1.0)), largest)])


def constraints_of(basis: Basis, hierarchy: bool) -> Constraints | None:
    """Return the constraints on the terms of a fitted basis, if there are any."""
    signs = getattr(basis, "weight_signs_", None)
    signs = None if signs is None or not np.any(signs) else signs
    inputs = basis.inputs_of(np.arange(basis.n_functions)) if hierarchy else None
    return None if signs is None and inputs is None else Constraints.from_inputs(inputs, signs)


def ensemble_paths(
    members: Sequence[tuple[list[CrossValidatedPath], int]], weights: Floats, sample_weight: Floats, alpha: float
) -> list[CrossValidatedPath]:
    """Cross-validate a stacked ensemble that a few of its terms reproduce, for each repeat of its members' paths.

    Parameters
    ----------
    members : for each member its paths, one per repeat, and the number of terms it has of these.
    weights : (repeats, folds, members), fitted without the samples of the fold.
    sample_weight : (n,) weights.
    alpha : penalty of the selection.
    """
    repeats, sizes = zip(*members, strict=True)
    max_terms = sum(sizes)

    def distil(fold: Sequence[FoldPath], fold_weights: Floats) -> FoldPath:
        train = fold[0].train
        root = np.sqrt(sample_weight[train])[:, None]
        parts = list(zip(fold, sizes, strict=True))
        G = np.hstack([path.models.columns(k, root) for path, k in parts])
        test = np.hstack([path.columns[:, :k] for path, k in parts])
        signal = sum(w * path.models.fitted(k, root) for w, (path, k) in zip(fold_weights, parts, strict=True))
        models = nested_path(G, signal, sample_weight[train], alpha, max_terms)
        bases = [path.terms.take(np.arange(min(k, len(path.models.terms)))) for path, k in parts if path.terms and k]
        terms = UnionBasis.of(bases).take(models.terms) if bases else None
        limits = next((path.limits for path in fold if path.limits is not None), None)
        return FoldPath(models, train, test[:, models.terms], terms, limits=limits)

    found = []
    for one, repeat_weights in zip(zip(*repeats, strict=True), weights, strict=True):
        folds = zip(*(member.paths for member in one), strict=True)
        paths = [distil(fold, w) for fold, w in zip(folds, repeat_weights, strict=True)]
        found.append(CrossValidatedPath(paths, max_terms))
    return found
