"""The peers of the benchmark `tables`, with their defaults or tuned by cross-validation.

Every peer takes a data frame of numbers and categories in which values may be missing, as `tables_data.load` returns
it. Boosting takes it as it is; linear models get a column of 0 and 1 per category, the median for missing numbers and
an indicator for them, and standardised columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    GammaRegressor,
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    OrthogonalMatchingPursuitCV,
    PoissonRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR

CLASSES = ("twoclass", "multiclass")
MISSING_LEVEL = "missing"
MAX_LIKELIHOODS = 300  # of a Gaussian process


def in_columns() -> Any:
    """Only numbers, of equal scale, nothing missing."""
    ones = make_pipeline(
        SimpleImputer(strategy="constant", fill_value=MISSING_LEVEL),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    numbers = SimpleImputer(strategy="median", add_indicator=True)
    columns = make_column_transformer(
        (ones, make_column_selector(dtype_include="category")),
        (numbers, make_column_selector(dtype_exclude="category")),
    )
    return make_pipeline(columns, StandardScaler())


class LevelsAsText:
    """A model that takes categories as text, with a category of their own for missing ones, as CatBoost and EBM do."""

    def __init__(self, model: Any, names_categories: bool = False):
        self.model, self.names_categories = model, names_categories

    def convert(self, X: Any) -> Any:
        """Return the table with text."""
        X = X.copy()
        for column in X.select_dtypes("category"):
            X[column] = X[column].astype(object).where(X[column].notna(), MISSING_LEVEL).astype(str)
        return X

    def fit(self, X: Any, y: Any) -> LevelsAsText:
        """Fit."""
        categories = {"cat_features": list(X.select_dtypes("category"))} if self.names_categories else {}
        self.model.fit(self.convert(X), y, **categories)
        self.classes_ = getattr(self.model, "classes_", None)
        return self

    def predict(self, X: Any) -> Any:
        """Predict."""
        return self.model.predict(self.convert(X))

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities."""
        return self.model.predict_proba(self.convert(X))


def catboost(kind: str) -> Any:
    """CatBoost with its defaults, on one thread; Tweedie's deviance next to gamma's, which it does not have."""
    try:
        from catboost import CatBoostClassifier, CatBoostRegressor
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the package catboost is not installed: pip install catboost") from error
    maker = CatBoostClassifier if kind in CLASSES else CatBoostRegressor
    loss = {"count": {"loss_function": "Poisson"}, "positive": {"loss_function": "Tweedie:variance_power=1.99"}}
    model = maker(verbose=0, thread_count=1, random_seed=0, allow_writing_files=False, **loss.get(kind, {}))
    return LevelsAsText(model, names_categories=True)


def ebm(kind: str) -> Any:
    """Explainable boosting machine (Nori et al. 2019) with its defaults, on one thread."""
    try:
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the package interpret is not installed: pip install interpret-core") from error
    maker = ExplainableBoostingClassifier if kind in CLASSES else ExplainableBoostingRegressor
    loss = {"count": {"objective": "poisson_deviance"}, "positive": {"objective": "gamma_deviance"}}
    return LevelsAsText(maker(n_jobs=1, random_state=0, **loss.get(kind, {})))


def histgb(kind: str) -> Any:
    """scikit-learn's gradient boosting with its defaults and its own handling of categories and missing values."""
    if kind in CLASSES:
        return HistGradientBoostingClassifier(random_state=0)
    loss = {"count": "poisson", "positive": "gamma"}.get(kind, "squared_error")
    return HistGradientBoostingRegressor(loss=loss, random_state=0)


def linear(kind: str) -> Any:
    """The tuned linear model: lasso, L1 logistic regression, Poisson or gamma regression with a ridge penalty."""
    if kind == "regression":
        return make_pipeline(in_columns(), LassoCV(cv=5, max_iter=5000))
    if kind in CLASSES:
        l1: dict[str, Any] = {"l1_ratio": 1.0} if LogisticRegression().penalty == "deprecated" else {"penalty": "l1"}
        if kind == "twoclass":
            model = LogisticRegression(solver="liblinear", intercept_scaling=10.0, max_iter=300, random_state=0, **l1)
            grid = {"logisticregression__C": np.logspace(-2.5, 1.5, 9)}
            return GridSearchCV(make_pipeline(in_columns(), model), grid, cv=5, scoring="neg_log_loss")
        more = {"l1_ratios": (1.0,)} if "l1_ratio" in l1 else l1
        model = LogisticRegressionCV(Cs=np.logspace(-2, 2, 7), cv=5, solver="saga", scoring="neg_log_loss",
                                     max_iter=200, tol=1e-3, random_state=0, **more)  # fmt: skip
        return make_pipeline(in_columns(), model)
    maker = {"count": PoissonRegressor, "positive": GammaRegressor}[kind]
    name, score = maker.__name__.lower(), f"neg_mean_{'poisson' if kind == 'count' else 'gamma'}_deviance"
    grid = {f"{name}__alpha": np.logspace(-4, 1, 8)}
    return GridSearchCV(make_pipeline(in_columns(), maker(max_iter=500)), grid, cv=5, scoring=score)


def lightgbm(kind: str) -> Any:
    """LightGBM with its defaults and its own handling of categories and missing values, on one thread."""
    try:
        from lightgbm import LGBMClassifier, LGBMRegressor
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the package lightgbm is not installed: pip install lightgbm") from error
    maker = LGBMClassifier if kind in CLASSES else LGBMRegressor
    loss = {"count": {"objective": "poisson"}, "positive": {"objective": "gamma"}}
    return maker(verbose=-1, n_jobs=1, random_state=0, **loss.get(kind, {}))


def aplr(kind: str) -> Any:
    """Automatic piecewise linear regression (von Ottenbreit and De Bin 2024) with its defaults, on one thread."""
    try:
        from aplr import APLRRegressor
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the package aplr is not installed: pip install aplr") from error
    losses = {"count": "poisson", "positive": "gamma"}
    loss = {"loss_function": losses[kind], "link_function": "log"} if kind in losses else {}
    return LevelsAsText(APLRRegressor(n_jobs=1, **loss))


def omp(kind: str) -> Any:
    """Orthogonal matching pursuit on the columns, the number of terms by five-fold cross-validation."""
    return make_pipeline(in_columns(), OrthogonalMatchingPursuitCV(cv=5))


def kernel_ridge(kind: str) -> Any:
    """Kernel ridge regression with a Gaussian kernel, penalty and width by five-fold cross-validation."""
    grid = {"kernelridge__alpha": np.logspace(-4, 1, 6), "kernelridge__gamma": np.logspace(-3.5, 0, 8)}
    model = GridSearchCV(make_pipeline(in_columns(), KernelRidge(kernel="rbf")), grid, cv=5)
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def support_vectors(kind: str) -> Any:
    """Support vector regression or classification with a Gaussian kernel, tuned by five-fold cross-validation."""
    maker = SVC(probability=True, random_state=0) if kind in CLASSES else SVR()
    name = type(maker).__name__.lower()
    grid = {f"{name}__C": np.logspace(-1, 3, 5), f"{name}__gamma": np.logspace(-3.5, 0, 8)}
    model = GridSearchCV(make_pipeline(in_columns(), maker), grid, cv=5)
    return model if kind in CLASSES else TransformedTargetRegressor(model, transformer=StandardScaler())


class RelevanceProcess(RegressorMixin, BaseEstimator):
    """Gaussian process regression with one length-scale per column (ARD), by marginal likelihood.

    The search for the scales ends after `MAX_LIKELIHOODS`, which takes minutes with many columns.
    """

    def fit(self, X: Any, y: Any) -> RelevanceProcess:
        """Fit."""
        kernel = ConstantKernel() * RBF(np.full(X.shape[1], X.shape[1] ** 0.5), (1e-2, 1e4)) + WhiteKernel(0.1)
        process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0, optimizer=self._optimise)
        self.process_ = process.fit(X, y)
        return self

    @staticmethod
    def _optimise(loss: Callable[..., Any], start: Any, bounds: Any) -> tuple[Any, float]:
        """Minimise the negative log likelihood, a function that returns its gradient too."""
        options = {"maxfun": MAX_LIKELIHOODS}
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return found.x, found.fun

    def predict(self, X: Any) -> Any:
        """Predict."""
        return self.process_.predict(X)


def gaussian_process(kind: str) -> Any:
    """Gaussian process regression with automatic relevance determination."""
    return make_pipeline(in_columns(), RelevanceProcess())


def number_of_terms(model: Any) -> int | None:
    """Return the number of terms of a fitted model, None for models that are no sums of terms.

    Terms are the basis functions of the flagship, the nonzero coefficients of linear models and APLR, the functions of
    an explainable boosting machine.
    """
    if hasattr(model, "n_terms_"):
        return int(model.n_terms_)
    inner = getattr(model, "model", model)
    inner = inner.steps[-1][1] if hasattr(inner, "steps") else inner
    if hasattr(inner, "get_term_coefficients"):
        return int(np.count_nonzero(inner.get_term_coefficients()))
    if hasattr(inner, "term_names_"):
        return len(inner.term_names_)
    linear_model = isinstance(inner, (LassoCV, OrthogonalMatchingPursuitCV))
    return int(np.count_nonzero(inner.coef_)) if linear_model else getattr(model, "n_columns_", None)


PEERS: dict[str, Callable[[str], Any]] = {
    "catboost": catboost,
    "histgb": histgb,
    "linear": linear,
    "ebm": ebm,
    "lightgbm": lightgbm,
    "aplr": aplr,
    "omp": omp,
    "kernel ridge": kernel_ridge,
    "support vectors": support_vectors,
    "gaussian process": gaussian_process,
}
REGRESSION_ONLY = ("aplr", "omp", "kernel ridge", "gaussian process")
