"""Forward selection as estimators: terms chosen one by one, as many as a criterion keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import at, from_host
from termwise._checks import check_choice, check_indices, check_number, is_dask
from termwise.estimators.cluster import ClusterModel
from termwise.estimators.labels import LabelModel, coded, labels_of
from termwise.estimators.stepped import PathModel
from termwise.execution.dask import Chunks, lazily
from termwise.execution.forward import select_terms
from termwise.linalg.least_squares import Problem, Rows, measure, solve_orthogonal, solve_penalised
from termwise.linalg.spectrum import Spectrum, best_alpha
from termwise.selection.engine import Settings
from termwise.selection.path import CondensedRows, SelectionPath
from termwise.selection.rules import Rule


class ForwardModel(TransformerMixin, PathModel):
    """What the regressor and the classifier share: the path, the choice of a size, and being a selector."""

    keeps_sparse = True
    streams = True
    any_library = True

    def __init__(
        self,
        basis: Any = None,
        *,
        rule: str | Rule = "loo",
        criterion: str | None = "tcr",
        alpha: float | str = 1e-6,
        penalty: str = "weights",
        max_terms: int | None = None,
        patience: int | None = 10,
        max_seconds: float | None = None,
        include: ArrayLike = (),
        refine: str | None = None,
        refit_alpha: str | None = None,
        beta: float = 1e-6,
        cv: Any = 5,
        precompute: bool | str = "auto",
        fit_intercept: bool = True,
        verbose: int = 0,
    ) -> None:
        self.basis = basis
        self.rule = rule
        self.criterion = criterion
        self.alpha = alpha
        self.penalty = penalty
        self.max_terms = max_terms
        self.patience = patience
        self.max_seconds = max_seconds
        self.include = include
        self.refine = refine
        self.refit_alpha = refit_alpha
        self.beta = beta
        self.cv = cv
        self.precompute = precompute
        self.fit_intercept = fit_intercept
        self.verbose = verbose

    def _most_steps(self) -> int | None:
        return self.max_terms

    def _settings(self) -> Settings:
        return Settings(
            self.rule,
            self.alpha,
            self.penalty,
            self.max_terms,
            self.criterion,
            self.patience,
            self.max_seconds,
            self.include,
            self.beta,
            self.cv,
            self.precompute,
            self.fit_intercept,
            refine=self.refine,
        )

    def _check_params(self) -> None:
        self._settings().check()
        check_number("verbose", self.verbose, low=0, integer=True, remedy="0 is silent, 1 reports every term")
        if self.refit_alpha is not None:
            check_choice("refit_alpha", self.refit_alpha, ["loo", "gcv"], remedy="None keeps alpha")

    def _solve(self, G: Any, Y: NDArray, counts: NDArray[np.float64]) -> None:
        self._keep(select_terms(G, Y, counts, self._settings(), self._one_output, self._follower()))

    def _follower(self) -> Callable[[SelectionPath], bool]:
        """What is to be called after each term."""
        after_step, verbose = self._after_step, self.verbose

        def callback(path: SelectionPath) -> bool:
            if verbose:
                _report(path)
            return after_step()

        return callback

    def _keep(self, path: SelectionPath) -> None:
        """Keep a path and cut it."""
        self.path_, self.stop_reason_, self.n_swaps_ = path, path.stop_reason, path.n_swaps
        self._cut(self._size())

    def _size(self) -> int:
        """Number of terms to keep: what the criterion says, and all that must be in; those that were refined."""
        if self.path_.n_swaps:
            return len(self.path_)
        forced = check_indices("include", self.include, self.path_.n_candidates, what="term")
        return max(self.path_.choose(self.criterion), min(len(forced), len(self.path_)))

    def _remarks(self) -> list[str]:
        return [] if self.refine is None else [f"terms exchanged for better ones: {self.n_swaps_}"]

    def _cut(self, k: int) -> None:
        """Settle on the first k terms of the path."""
        data, support = self.path_.training(), self.path_.terms[:k]
        rows = Rows(data.sample_weight, self.fit_intercept)
        G_mean, Y_mean = from_host(data.G_mean[:k], data.Y), from_host(data.Y_mean, data.Y)
        problem = Problem(data.columns(k), data.Y, rows, G_mean, Y_mean, owned=True)
        self.alpha_ = self.path_.steps[k].alpha
        if self.refit_alpha is not None and k:
            self.alpha_ = best_alpha(Spectrum(problem), self.refit_alpha)
        if np.isinf(self.alpha_):  # nothing generalises: the weights are zero
            solution = Spectrum(problem).solution(np.inf)
        elif self.penalty == "orthogonal" and k and self.refit_alpha is None:
            solution = solve_orthogonal(problem, self.alpha_)
        else:
            solution = solve_penalised(problem, np.arange(k), np.full(k, self.alpha_))
        far = isinstance(data.rows, CondensedRows)
        if far:  # the path knows the sum of the leave-one-out errors, which the rows are needed for
            loo = np.sqrt(self.path_.steps[k].loo * rows.n)
            solution = replace(solution, loo=np.full((1, len(solution.sse)), loo))
        criterion = self.criterion if self.criterion in ("gcv", "uev", "fpe", "bic") else "loo"
        self._settle(problem, solution, support, problem.G_mean, measure(rows, solution), criterion)
        if far:
            self._fitted = replace(self._fitted, residuals=None)

    def get_support(self, indices: bool = False) -> NDArray:
        """Return which candidates are in the model.

        Parameters
        ----------
        indices : bool, default=False
            Return their numbers, in ascending order, instead of a mask.
        """
        check_is_fitted(self)
        mask = np.zeros(self._n_candidates, dtype=bool)
        mask[self._chosen] = True
        return np.flatnonzero(mask) if indices else mask

    def transform(self, X: ArrayLike) -> NDArray:
        """Return the columns of the chosen terms, in the order of the candidates.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask array or Dask data frame of shape (m, d)
            Inputs; the answer is a Dask array for those of Dask.
        """
        if is_dask(X):
            return lazily(ForwardModel.transform, self, X)
        return at(self._terms(X), np.argsort(self._chosen), axis=1)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the chosen terms, in the order of the candidates.

        Parameters
        ----------
        input_features : ignored
            Present for scikit-learn's conventions.
        """
        check_is_fitted(self)
        return np.array(self._term_names(), dtype=object)[np.argsort(self._chosen)]


def _report(path: SelectionPath) -> None:
    """Say what the last step did."""
    step = path.steps[-1]
    print(f"{len(path):4d}  candidate {step.term:6d}  loo {step.loo:.6g}  gcv {step.gcv:.6g}  {step.seconds:.2f} s")


class ForwardRegressor(MultiOutputMixin, RegressorMixin, ClusterModel, ForwardModel):
    """Regression on a few terms, chosen one by one.

    Grows a path by adding, each time, the candidate the rule likes best, and keeps as many terms as the criterion says.

    Parameters
    ----------
    basis : transformer or None, default=None
        Yields the candidates: one of `termwise.basis` or any scikit-learn transformer. None: the columns of X.
    rule : {"loo", "cost", "sse", "gcv", "kfold", "d_optimal", "norm"} or Rule, default="loo"
        What the next term is chosen by, or a rule of one's own; see `forward_path`.
    criterion : {"tcr", "tcr_sequential", "loo", "one_se", "gcv", "uev", "fpe", "bic"} or None, default="tcr"
        How many terms to keep; None: all. "tcr_sequential" is "tcr" for many more candidates than samples.
    alpha : float or "reestimate", default=1e-6
        The penalty, or have it re-estimated after each term.
    penalty : {"weights", "orthogonal"}, default="weights"
        What is penalised.
    max_terms : int or None, default=None
        Most terms on the path.
    patience : int or None, default=10
        End the path once the criterion's choice has not changed for that many terms; None: never.
    max_seconds : float or None, default=None
        End the path after that time, with the model there is.
    include : array-like of int, default=()
        Candidates that are always in.
    refine : {"swap"} or None, default=None
        "swap" exchanges chosen terms one for one, until no exchange makes the model better by the rule; see
        `forward_path`.
    refit_alpha : {"loo", "gcv"} or None, default=None
        Choose the penalty of the final weights anew on the chosen terms, as the global optimum of this criterion.
    beta : float, default=1e-6
        Weight of D-optimality in the rule "d_optimal".
    cv : int, splitter or iterable, default=5
        Folds of the rule "kfold"; they must partition the rows.
    precompute : bool or "auto", default="auto"
        Whether to compute `G'G` once instead of passing over the data for every term.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    verbose : int, default=0
        1 prints a line per term.

    Attributes
    ----------
    support_ : ndarray of shape (k,)
        The chosen candidates, in the order they were taken.
    weights_, n_terms_ : ndarray, int
        Their weights and number.
    coef_ : ndarray of shape (p,) or (q, p)
        Weights of all candidates.
    path_ : SelectionPath
        The whole path, with every criterion along it.
    stop_reason_ : str
        Why the path ended.
    n_swaps_ : int
        Number of terms exchanged by `refine="swap"`. If there are any, the path ends at the size that was refined.
    alpha_ : float
        The penalty of the weights.
    intercept_, basis_, effective_dof_, noise_variance_, criterion_value_, criteria_, loo_residuals_, weights_cov_
        As in `BasisRidge`; the criterion is leave-one-out for "tcr", "one_se" and None.

    See Also
    --------
    forward_path : The functional core.

    Notes
    -----
    With `criterion="tcr"` and `patience` the path ends by itself soon after the last significant term. A longer path
    can choose another size in two cases only: a later term turns out significant after `patience` insignificant ones,
    or the leave-one-out error falls so much further that its lower noise level makes earlier terms significant.
    `patience=None` waits for both.

    Where candidates far outnumber samples, leave-one-out falls with every term, since each is the best of so many, and
    a noise level taken from it lets in terms of noise. "tcr_sequential" judges a term by the error of the model before
    it and keeps just the significant ones; "tcr" then ends the path as soon as those are over, and keeps some more.

    Forward selection never takes a term back. `refine="swap"` goes over the model of the chosen size and exchanges
    terms for better ones; worth trying where terms are strongly correlated and the model is to be small.

    Error bars and leave-one-out residuals are those of the chosen terms; that they were chosen is not counted.

    Dask arrays and data frames are worked on where they are, by the workers of the cluster in use (that of
    `dask.distributed.Client`), with the same terms; the fitted model is an ordinary one without the rows, and therefore
    without `loo_residuals_` and `predict_interval`. A basis is fitted to some rows and must treat each by itself.

    Arrays of PyTorch, CuPy or another library of the array API are fitted where they live, if `basis` is None or can
    compute there, as `RadialBasis` can; weights, coefficients and predictions are of the same library and device.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import ForwardRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = ForwardRegressor().fit(X, y)
    >>> list(model.get_feature_names_out())
    ['sex', 'bmi', 'bp', 's1', 's2', 's5']
    >>> model.at(2).n_terms_
    2
    """


class ForwardClassifier(LabelModel, ClusterModel, ForwardModel):
    """Classification on a few terms, chosen one by one.

    `ForwardRegressor` on labels coded -1 and +1 (one column per class for more than two); the class with the largest
    output is predicted.

    Parameters
    ----------
    basis : transformer or None, default=None
        Yields the candidates. None: the columns of X.
    rule : {"loo", "cost", "sse", "gcv", "kfold", "loo_error", "d_optimal", "norm"} or Rule, default="loo"
        What the next term is chosen by, or a rule of one's own; see `forward_path`.
    criterion : {"tcr", "tcr_sequential", "loo", "one_se", "gcv", "uev", "fpe", "bic"} or None, default="tcr"
        How many terms to keep; None: all. "tcr_sequential" is "tcr" for many more candidates than samples.
    alpha : float or "reestimate", default=1e-6
        The penalty, or have it re-estimated after each term.
    penalty : {"weights", "orthogonal"}, default="weights"
        What is penalised.
    max_terms : int or None, default=None
        Most terms on the path.
    patience : int or None, default=10
        End the path once the criterion's choice has not changed for that many terms; None: never.
    max_seconds : float or None, default=None
        End the path after that time, with the model there is.
    include : array-like of int, default=()
        Candidates that are always in.
    refine : {"swap"} or None, default=None
        "swap" exchanges chosen terms one for one, until no exchange makes the model better by the rule; see
        `forward_path`.
    refit_alpha : {"loo", "gcv"} or None, default=None
        Choose the penalty of the final weights anew on the chosen terms.
    beta : float, default=1e-6
        Weight of D-optimality in the rule "d_optimal".
    cv : int, splitter or iterable, default=5
        Folds of the rule "kfold"; they must partition the rows.
    precompute : bool or "auto", default="auto"
        Whether to compute `G'G` once instead of passing over the data for every term.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    verbose : int, default=0
        1 prints a line per term.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    support_, weights_, n_terms_, coef_, intercept_, path_, stop_reason_, n_swaps_, alpha_
        As in `ForwardRegressor`; one row of weights per class for more than two classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from termwise import ForwardClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ForwardClassifier().fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    def _target_reader(self, chunks: Chunks) -> Callable[[Any], NDArray[np.float64]]:
        """Learn the classes from all chunks; their labels are coded where they are."""
        self.classes_ = np.unique(np.concatenate(chunks.gather("y", labels_of)))
        self._check_classes()
        return partial(coded, self.classes_)
