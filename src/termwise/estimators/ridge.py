"""Ridge regression with the penalty chosen by a criterion, Orr section 6."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin

from termwise._checks import check_choice, check_number, warn
from termwise._numerics import NumericalWarning
from termwise.estimators.base import TermModel
from termwise.estimators.data import read
from termwise.estimators.design import fit_design
from termwise.linalg.criteria import CRITERIA
from termwise.linalg.least_squares import measure
from termwise.linalg.spectrum import Spectrum, best_alpha, unpenalised_solution


def resolve_alpha(alpha: Any, spectrum: Spectrum) -> tuple[float, str]:
    """Return the penalty, given or found, and the criterion it is judged by."""
    if not isinstance(alpha, str):
        return float(alpha), "gcv"
    rows, used = spectrum.problem.rows, len(spectrum.s) + spectrum.problem.rows.intercept
    if rows.n <= used < rows.sample_weight.shape[0]:
        raise ValueError(
            f"sample_weight must add up to more than the {used} parameters of the model for alpha={alpha!r}, got "
            f"{rows.n:g}: weights mean repetitions; scale relative weights so that they average one."
        )
    found = best_alpha(spectrum, alpha)
    if found == 0 and spectrum.interpolates and alpha in ("uev", "fpe", "bic"):
        warn(
            f"alpha={alpha!r} chose the penalty 0: the model can fit every sample exactly, where this criterion "
            "vanishes whatever the data; alpha='gcv' and alpha='loo' remain meaningful there.",
            UserWarning,
        )
    return found, alpha


def check_alpha(alpha: Any) -> None:
    """Raise unless alpha is a number >= 0 or names a criterion."""
    if isinstance(alpha, str):
        check_choice("alpha", alpha, CRITERIA, remedy="give a number >= 0 or name a criterion")
    else:
        check_number("alpha", alpha, low=0, infinite=True, remedy="give a penalty, or 'gcv' to have it chosen")


class BasisRidge(MultiOutputMixin, RegressorMixin, TermModel):
    """Ridge regression on a basis, with the penalty chosen in closed form.

    Minimises `|y - G w|^2 + alpha |w|^2` for the design matrix G of a basis. The penalty is given, or the *global*
    minimiser of a criterion over all of [0, inf], limits included, from a single decomposition of G.

    Parameters
    ----------
    basis : transformer or None, default=None
        Yields the design matrix: one of `termwise.basis` or any scikit-learn transformer. None: the columns of X.
    alpha : float or {"loo", "gcv", "uev", "fpe", "bic"}, default="loo"
        The penalty, or the criterion that chooses it. UEV, FPE and BIC vanish for a model that can fit every sample
        exactly; use them when there are fewer terms than samples. GCV, as in Orr's report, occasionally chooses a
        penalty that nearly interpolates noisy targets; see Notes.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.

    Attributes
    ----------
    alpha_ : float
        The penalty; 0 means least squares (of least norm), infinity that the mean is the best model.
    coef_ : ndarray of shape (p,) or (q, p)
        Weights of all terms.
    weights_, support_, n_terms_ : ndarray, ndarray, int
        Weights and numbers of the terms in the model, which are all p.
    intercept_ : float or ndarray of shape (q,)
        The intercept.
    basis_ : transformer or None
        The fitted basis.
    effective_dof_ : float
        Effective number of parameters, intercept included.
    noise_variance_ : float or ndarray of shape (q,)
        Estimated noise variance, `sse / (n - dof)`.
    criterion_value_ : float
        Value of the criterion at `alpha_`; GCV when alpha was given.
    criteria_ : dict
        Values of all criteria at `alpha_`.
    loo_residuals_ : ndarray of shape (n,) or (n, q)
        Leave-one-out residuals.
    weights_cov_ : ndarray of shape (p, p) or (q, p, p)
        Covariance of the weights, computed when asked for.

    See Also
    --------
    LocalRidge : One penalty per term, which prunes.
    OnlineRidge : Ridge regression with incremental updates.
    reestimate_alpha : Orr's iteration for the penalty.

    Notes
    -----
    A decomposition of the smaller of `G'G` and `G G'` is used where the design is well conditioned, an SVD where it is
    not. Sparse input is made dense. Computations are in float64; predictions have the dtype of the input. Arrays of
    PyTorch, CuPy or another library of the array API are fitted on their device, where weights and predictions stay.

    GCV replaces the leverages in leave-one-out by their mean. With few samples and functions on every sample it can
    fall towards an exact fit, where its numerator and denominator both vanish, although the targets are noisy. In the
    simulations of `benchmarks/trust_ridge.py` leave-one-out has the smaller excess risk, on average and in bad draws.

    Directions of the centred design that rounding of its entries may account for are left out: columns that are
    constant but for rounding have weight zero, and a `NumericalWarning` names columns whose digits are lost. A given
    penalty that is too small for nearly dependent functions, whose weights then cancel each other, is a warning, too.

    Examples
    --------
    >>> from termwise import BasisRidge, RadialBasis, datasets
    >>> X, y = datasets.make_hermite(random_state=1)
    >>> model = BasisRidge(RadialBasis(width=0.5), alpha="loo").fit(X, y)
    >>> bool(model.effective_dof_ < 20)
    True
    >>> y_new, std = model.predict(X[:2], return_std=True)
    >>> lower, upper = model.predict_interval(X[:2], coverage=0.9)
    """

    any_library = True

    def __init__(self, basis: Any = None, alpha: float | str = "loo", fit_intercept: bool = True) -> None:
        self.basis = basis
        self.alpha = alpha
        self.fit_intercept = fit_intercept

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs. With a `basis`, whatever that transformer takes.
        y : array-like of shape (n,) or (n, q)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights: a weight of 2 is the same as repeating the sample, and leave-one-out leaves out one
            repeat.
        """
        check_alpha(self.alpha)
        data = read(self, X, y, sample_weight, basis=self.basis)
        design = fit_design(self, self.basis, data, relative_weights=not isinstance(self.alpha, str))
        problem = design.problem(self.fit_intercept)
        spectrum = Spectrum(problem)
        alpha, criterion = resolve_alpha(self.alpha, spectrum)
        if not isinstance(self.alpha, str) and alpha < spectrum.floor:
            warn(
                f"alpha must be at least {spectrum.floor:.1e} for functions that are as nearly dependent as these, got "
                f"{alpha:g}: their weights are large, cancel each other, and have few correct digits; alpha='loo' "
                "chooses a penalty.",
                NumericalWarning,
            )
        solution = (unpenalised_solution(problem) if alpha == 0 else None) or spectrum.solution(alpha)
        criteria = measure(problem.rows, solution)
        for name in set(CRITERIA) - {"loo"}:  # as limits, which a fit without residual degrees of freedom needs
            criteria[name] = float(spectrum.score(name, alpha)[0])
        return self._store(design.fitted_terms(problem, solution, criteria, criterion), alpha_=alpha)
