"""Categories of many levels as one number: shrunken means of the targets, cross-fitted on the training samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from termwise._arrays import comparable
from termwise._checks import check_choice, check_indices, check_number
from termwise.basis.base import Basis, design_matrix
from termwise.basis.derived import DerivedInputs, with_groups
from termwise.basis.inputs import required_targets

Floats = NDArray[np.float64]

SMALLEST_RATIO = 1e-3  # of the mean of a level to that of all: without noise, levels of zeros alone are not shrunken


class EqualLevels(ValueError):
    """All inputs are constant once the levels of categories, which do not differ, are replaced by their means."""


class LevelMeans(DerivedInputs):
    """A basis of inputs some of which are numbers of levels, replaced by the effects of the levels on the targets.

    The effect of a level is the mean of the targets of its samples, as a difference from the mean of all, shrunken
    towards zero the more the fewer samples there are. It is learned in `fit`, so that cross-validation learns it anew
    in every fold. The design matrix of the training samples, `fit_transform`, is cross-fitted: the effects of a sample
    are learned from other folds, so that its own target is not among its inputs.

    Parameters
    ----------
    basis : basis of `termwise.basis`
        The functions of the inputs, among which the effects are ordinary numbers.
    columns : array-like of int
        Inputs that are numbers of levels: 0, 1, ..., and -1 for a level that is not known, whose effect is zero. These
        are the `level_columns` of a `TableEncoder` with `max_levels`.
    cv : int, default=5
        Number of folds of the cross-fitting.
    random_state : int, RandomState instance or None, default=0
        Assigns the training samples to folds.
    link : {"identity", "log"}, default="identity"
        Scale of the effects: differences of means, or logarithms of their ratios, as suits losses with a logarithmic
        link. "log" requires targets that are not negative, with a positive mean.

    Attributes
    ----------
    basis_ : fitted basis
        The functions, restricted by `take`.
    effects_ : list of ndarrays of shape (levels, q)
        Effects of the levels of each of the `columns` on q targets.
    columns_ : ndarray of int
        The columns.
    missing_ : ndarray of bool of shape (d,)
        Inputs with missing values in `fit`.

    See Also
    --------
    TableEncoder : Numbers the levels of categories that have many.
    sklearn.preprocessing.TargetEncoder : The same idea as a transformer of its own.

    Notes
    -----
    With targets `y = m + u_k + e` of level k, random effects u of variance t2 and noise of variance s2, the best linear
    predictor of the effect of a level with n_k samples is `n_k t2 / (n_k t2 + s2)` times the difference of its mean
    from m. The variances are estimated by the analysis of variance (Searle, Casella and McCulloch 1992, section 3.6):
    s2 is the mean square within levels, and t2 = (SSB - (K - 1) s2) / (n - sum_k n_k^2 / n), or zero if that is
    negative, with the sum of squares SSB between K levels. Where levels do not differ by more than noise, and where
    none has two samples, all effects are zero. Cross-fitted effects have the variances of all samples, so that their
    scale is that of the others.

    With `link="log"` an effect e becomes `log((m + e) / m)`.

    For q targets an effect has q columns; those from the second on follow all other inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import ForwardRegressor, SmoothBasis
    >>> from termwise.basis import LevelMeans
    >>> rng = np.random.default_rng(0)
    >>> city, size = rng.integers(50, size=400), rng.uniform(size=400)
    >>> y = rng.normal(size=50)[city] + size + 0.1 * rng.normal(size=400)
    >>> X = np.column_stack([city, size])
    >>> model = ForwardRegressor(LevelMeans(SmoothBasis(centers=20), columns=[0]), max_terms=2).fit(X, y)
    >>> list(model.get_feature_names_out())
    ['mean(x0)', 'x1']
    """

    def __init__(
        self,
        basis: Any,
        columns: ArrayLike,
        cv: int = 5,
        random_state: int | np.random.RandomState | None = 0,
        link: str = "identity",
    ) -> None:
        self.basis = basis
        self.columns = columns
        self.cv = cv
        self.random_state = random_state
        self.link = link

    @property
    def cross_fits(self) -> bool:  # type: ignore[override]
        """True: the design matrix of the training samples is that of `fit_transform`."""
        return True

    def _fit(self, X: NDArray[Any], y: Any) -> None:
        self._fit_table(X, y)

    def fit_transform(self, X: ArrayLike, y: Any = None, **fit_params: Any) -> NDArray[Any]:
        """Fix the functions, and evaluate them on the training samples with cross-fitted effects.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training inputs.
        y : array-like of shape (n,) or (n, q)
            Targets.
        **fit_params : dict
            None: present for scikit-learn's conventions.

        Returns
        -------
        G : ndarray of shape (n, p)
            Design matrix.
        """
        table = self.fit_table(X, y)
        return self.basis_.evaluate(table)

    def fit_design(self, X: ArrayLike, y: Any = None) -> Any:
        """Do as `fit_transform`, but return a design matrix that is not stored where the basis has one.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training inputs.
        y : array-like of shape (n,) or (n, q)
            Targets.
        """
        table = self.fit_table(X, y)
        return design_matrix(self.basis_, table)

    def fit_table(self, X: ArrayLike, y: Any = None, sample_weight: Floats | None = None) -> NDArray[Any]:
        """Fix the functions, and return the inputs of the basis for the training samples, with cross-fitted effects.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training inputs.
        y : array-like of shape (n,) or (n, q)
            Targets.
        sample_weight : ndarray of shape (n,), optional
            How often each sample counts in the means of the levels.
        """
        return self._fit_table(self._check(X, reset=True), y, sample_weight)

    def _fit_table(self, X: NDArray[Any], y: Any, sample_weight: Floats | None = None) -> NDArray[Any]:
        """Learn the effects, and the functions from the inputs with cross-fitted effects, which are returned."""
        self.check_basis()
        check_number("cv", self.cv, low=2, integer=True, remedy="5 folds suit most data")
        check_choice("link", self.link, ["identity", "log"], remedy="'log' suits the losses 'poisson' and 'gamma'")
        self.columns_ = check_indices("columns", self.columns, X.shape[1], what="input")
        Y = required_targets("LevelMeans", y, X, remedy="encode the categories by indicators")
        codes = X[:, self.columns_]
        if self.link == "log" and not (np.all(Y >= 0) and np.all(Y.mean(axis=0) > 0)):
            raise ValueError(
                f"y must not be negative, with a positive mean, for link='log', got {Y.min():g} to {Y.max():g}: use "
                "link='identity'."
            )
        if not np.all((codes == np.floor(codes)) & (codes >= -1)):
            raise ValueError(
                "columns must hold numbers of levels, whole and at least -1, got other numbers: number the levels with "
                "TableEncoder(max_levels=20), for example."
            )
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        sizes = [int(column.max(initial=-1)) + 1 for column in codes.T]
        components = [variance_components(column, Y, weight) for column in codes.T]
        levels = list(zip(codes.T, sizes, components, strict=True))
        self.effects_ = [level_effects(column, Y, weight, size, own, self.link) for column, size, own in levels]
        shares = fold_shares(weight, self.cv, check_random_state(self.random_state))
        values = np.zeros((len(X), len(sizes), Y.shape[1]))
        for i, (column, size, variances) in enumerate(levels):
            for share in shares.T:
                effects = level_effects(column, Y, weight * (1 - share), size, variances, self.link)
                values[:, i] += share[:, None] * look_up(effects, column)
        table = self._replace(X, values)
        if np.all(comparable(table[:1]) == comparable(table)) and len(table) > 1:
            raise EqualLevels(
                f"X must have an input on which the targets depend, got levels that differ by no more than noise in "
                f"columns {self.columns_.tolist()}, and no other input that varies: predict the mean, or add inputs."
            )
        self.basis_ = self._unfitted(self.basis, table.shape[1]).fit(table, y)
        return table

    def _unfitted(self, basis: Basis, d: int) -> Basis:
        """Return an unfitted copy of the basis for d inputs: the effects on further targets are in the same group."""
        groups, further = getattr(basis, "groups", None), d - self.n_features_in_
        if groups is None or not further:
            return clone(basis)
        groups = np.asarray(groups)
        more = np.repeat(groups[self.columns_], further // len(self.columns_))
        return with_groups(clone(basis), np.append(groups, more))

    def _replace(self, X: NDArray[Any], values: Floats) -> NDArray[Any]:
        """Return the inputs with effects (n, columns, q) in place of numbers of levels."""
        table = X.copy()
        table[:, self.columns_] = values[:, :, 0]
        further = values[:, :, 1:].reshape(len(X), -1).astype(X.dtype)
        return np.hstack([table, further]) if further.shape[1] else table

    def derived(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the inputs with the effects of the levels, learned from all training samples.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        q = self.effects_[0].shape[1] if self.effects_ else 1
        found = [look_up(effects, X[:, j]) for effects, j in zip(self.effects_, self.columns_, strict=True)]
        return self._replace(X, np.stack(found, axis=1) if found else np.empty((len(X), 0, q)))

    def sources(self) -> NDArray[np.intp]:
        """Return the input that each input of the basis comes from."""
        further = self.basis_.n_features_in_ - self.n_features_in_
        repeats = further // len(self.columns_) if len(self.columns_) else 0
        return np.append(np.arange(self.n_features_in_), np.repeat(self.columns_, repeats))

    def clip_ranges(self) -> Floats:
        """Return the range of every input outside which a function is evaluated at the boundary, (2, d)."""
        ends = self.basis_.clip_ranges()[:, : self.n_features_in_]
        ends[:, self.columns_] = np.array([[-np.inf], [np.inf]])
        return ends

    def _names(self, inputs: list[str]) -> list[str]:
        names = [f"mean({name})" if j in self.columns_ else name for j, name in enumerate(inputs)]
        sources = self.sources()[len(inputs) :]
        repeats = len(sources) // max(1, len(self.columns_))
        names += [f"mean({inputs[j]})[{1 + i % repeats}]" for i, j in enumerate(sources)]
        return list(self.basis_.get_feature_names_out(names))


def look_up(effects: Floats, codes: NDArray[Any]) -> Floats:
    """Return the effects of levels given by their numbers, (n, q); zero for levels that have none."""
    known = (codes >= 0) & (codes < len(effects))
    padded = np.vstack([effects, np.zeros((1, effects.shape[1]))])
    return padded[np.where(known, codes, len(effects)).astype(np.intp)]


def fold_shares(sample_weight: Floats, n_folds: int, rng: np.random.RandomState) -> Floats:
    """Return the share of every sample in each fold, (n, n_folds), rows adding up to one.

    A sample is in one fold, unless it has at least as many repetitions as there are folds. Those are assigned one by
    one, as samples that only happen to be equal: where all inputs are categories, most are.
    """
    fold = rng.permutation(len(sample_weight)) % n_folds
    shares = np.zeros((len(fold), n_folds))
    shares[np.arange(len(fold)), fold] = 1.0
    for i in np.flatnonzero(sample_weight >= n_folds):
        repetitions = int(sample_weight[i])
        shares[i] = rng.multinomial(repetitions, np.full(n_folds, 1 / n_folds)) / repetitions
    return shares


def variance_components(codes: NDArray[Any], Y: Floats, sample_weight: Floats) -> tuple[Floats, Floats]:
    """Return the variances of the noise and of the effects of levels, (q,) each, by the analysis of variance.

    Weights are numbers of repetitions.
    """
    known, zero = (codes >= 0) & (sample_weight > 0), np.zeros(Y.shape[1])
    levels, numbers = np.unique(codes[known], return_inverse=True)
    weight, Y = sample_weight[known], Y[known]
    n, counts = weight.sum(), np.bincount(numbers, weights=weight)
    if len(levels) < 2 or n <= len(levels):
        return zero, zero
    R = Y - weight @ Y / n
    sums = np.stack([np.bincount(numbers, weights=weight * r) for r in R.T], axis=1)
    between = np.sum(sums**2 / counts[:, None], axis=0)
    noise = np.maximum(0.0, weight @ R**2 - between) / (n - len(levels))
    return noise, np.maximum(0.0, between - (len(levels) - 1) * noise) / (n - counts @ counts / n)


def level_effects(
    codes: NDArray[Any],
    Y: Floats,
    sample_weight: Floats,
    n_levels: int,
    components: tuple[Floats, Floats],
    link: str,
) -> Floats:
    """Return the best linear predictor of the effect of every level on each target, (n_levels, q).

    With a logarithmic link an effect is that on the logarithm of the mean; where all targets are zero there is none.
    Weights are numbers of repetitions.
    """
    known, (noise, variance) = (codes >= 0) & (sample_weight > 0), components
    numbers, weight, Y = codes[known].astype(np.intp), sample_weight[known], Y[known]
    counts, effects = np.bincount(numbers, weights=weight, minlength=n_levels), np.zeros((n_levels, Y.shape[1]))
    means = weight @ Y / weight.sum() if len(numbers) else np.zeros(Y.shape[1])
    for k in np.flatnonzero(variance):
        sums = np.bincount(numbers, weights=weight * (Y[:, k] - means[k]), minlength=n_levels)
        effects[:, k] = variance[k] * sums / np.where(counts > 0, counts * variance[k] + noise[k], 1.0)
    if link == "identity":
        return effects
    ratios = effects / np.where(means > 0, means, 1.0)
    return np.log1p(np.maximum(ratios, SMALLEST_RATIO - 1))
