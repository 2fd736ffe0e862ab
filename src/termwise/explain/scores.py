"""Scores of a model or of the procedure that fitted it, by held-out samples or cross-validation, beside baselines."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LassoCV, LogisticRegression, MultiTaskLassoCV, RidgeCV
from sklearn.metrics import accuracy_score, confusion_matrix, r2_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from termwise._arrays import as_columns, densify, evenly, rows_of
from termwise._checks import is_frame
from termwise.basis import LagBasis, TableEncoder
from termwise.basis.base import last_step
from termwise.explain.probabilities import fold_probabilities, probability_scores
from termwise.explain.resolve import Metadata, ResolvedModel, as_numpy, best_interval, resolve

TABLE_ENTRIES = 20_000_000  # above which a table is not searched for duplicates, and no baselines are fitted to it
BASELINE_ROWS = 5000  # samples a baseline is fitted to
INTERVAL_PAIRS = 20_000_000  # pairs of a training and a test sample that intervals are computed from
COVERAGE = 0.9  # nominal coverage of the intervals
N_FOLDS = 5  # of cross-validation, as in the automatic estimators
RIDGE_PENALTIES = np.logspace(-3, 5, 33)
INVERSE_PENALTIES = [0.003, 0.03, 0.3, 3.0, 30.0]  # C of logistic regression
PENALTY_FOLDS = 3  # that its penalty is chosen by, within the training samples

Rows = NDArray[np.intp]
Splits = list[tuple[Rows, Rows]]  # training and test rows of each fold


def quoted_score(scores: Metadata) -> Metadata | None:
    """Return the score to quote from "scores" of `facts`: on held-out samples if there are any, or cross-validated."""
    return scores.get("held_out") or scores.get("cross_validation")


def score_metadata(
    y: NDArray[Any],
    predicted: NDArray[Any],
    classes: Sequence[Any] | NDArray[Any] | None,
    probabilities: NDArray[Any] | None = None,
) -> Metadata:
    """Accuracy of classes, scores of their probabilities and confusion matrix, or R2 and errors of a regression.

    The standard error is that of a mean over samples; the variance of the targets is taken as known.
    """
    n = len(y)
    if classes is not None:
        accuracy = float(accuracy_score(y, predicted))
        found = {"metric": "accuracy", "value": accuracy, "n": n, "std_error": binomial_error(accuracy, n)}
        if probabilities is not None:
            found |= probability_scores(y, classes, probabilities)
        return {**found, "confusion": confusion_metadata(y, predicted, classes)}
    squares, variance = as_columns((y - predicted) ** 2), as_columns(y).var(axis=0)
    found = {"metric": "R2", "value": float(r2_score(y, predicted)), "n": n, "std_error": None}
    if n > 1 and np.all(variance > 0):
        found["std_error"] = float((squares / variance).mean(axis=1).std(ddof=1) / np.sqrt(n))
    return {**found, "rmse": float(np.sqrt(squares.mean())), "mae": float(np.abs(y - predicted).mean())}


def confusion_metadata(y: NDArray[Any], predicted: NDArray[Any], classes: Sequence[Any] | NDArray[Any]) -> Metadata:
    """Confusion matrix: a row for each observed class, a column for each predicted one."""
    labels = list(dict.fromkeys([*np.asarray(classes).tolist(), *np.unique(y).tolist()]))
    counts = confusion_matrix(y, predicted, labels=labels).tolist()
    return {"classes": [str(one) for one in labels], "counts": counts}


def binomial_error(share: float, n: float) -> float:
    """Return the standard error of a share of n samples."""
    return float(np.sqrt(share * (1 - share) / n))


# -- held-out samples --------------------------------------------------------------------------------------------------


def held_out_comparison(
    model: Any, X: Any, y: Any, X_test: Any, y_test: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Score a fitted model on held-out samples, next to baselines fitted to the same training samples.

    The baselines are the mean (the most frequent class), and linear models of all columns: ridge regression and the
    lasso with cross-validated penalties (for classes, logistic regression with ridge and with lasso penalty). Their
    columns are standardised, and categories are encoded as the model encodes them.

    Parameters
    ----------
    model : fitted estimator of termwise, or a pipeline that ends in one
        Fitted to X and y.
    X, y : data frame or array-like of shape (n, d), array-like of shape (n,) or (n, q)
        Training samples.
    X_test, y_test : data frame or array-like of shape (m, d), array-like of shape (m,) or (m, q)
        Held-out samples. Of a time series (`LagBasis`), the first rows are the past of the others and are not scored.

    Returns
    -------
    held_out : dict
        "metric" ("R2", or "accuracy" for classes), "value", "std_error", "n" (number of samples), "protocol" (a
        description); for regression "rmse", "mae", "unexplained" (share of the variance), "coverage" (share of the
        samples in their interval) and "nominal" (0.9); for classes "confusion" (confusion matrix) and, if the model has
        probabilities, "log_loss", "auc" (area under the ROC curve, of several classes the mean of one against the
        others), "calibration_slope" (one where probabilities are right, less where they are too extreme) and
        "calibration_error" (mean difference of observed frequency and probability).
    baselines : list of dict
        For each baseline "name", "value" of the same metric on the same samples, "terms" (number of nonzero weights),
        "title" (a longer name), and "rows" where it was fitted to a subset of the samples.

    See Also
    --------
    cross_validated_comparison : The score of the procedure, without samples held out of the model.

    Notes
    -----
    Of more than 5,000 samples, baselines are fitted to 5,000, evenly spaced.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import train_test_split
    >>> from termwise import ForwardRegressor, diagnostics
    >>> X, X_test, y, y_test = train_test_split(*load_diabetes(return_X_y=True), random_state=0)
    >>> model = ForwardRegressor().fit(X, y)
    >>> held_out, baselines = diagnostics.held_out_comparison(model, X, y, X_test, y_test)
    >>> held_out["metric"], [one["name"] for one in baselines]
    ('R2', ['mean', 'ridge', 'lasso'])
    """
    resolved = resolve(model, "held_out_comparison")
    y, y_test = as_numpy(y), as_numpy(y_test)
    encoder = own_encoder(resolved, X)
    past = encoder.max_lag_ if isinstance(encoder, LagBasis) else 0
    held_out = held_out_score(resolved, X_test, y_test, past)
    tables = [X, X_test] if encoder is None else [encoder.transform(X), encoder.transform(X_test)]
    G, G_test = (table if hasattr(table, "toarray") else as_numpy(table) for table in tables)
    train, test = np.arange(past, len(y)), np.arange(past, len(y_test))
    rows = train[evenly(len(train), BASELINE_ROWS)]
    if len(rows) * G.shape[1] > TABLE_ENTRIES:
        return held_out, []
    if y.ndim > 1:  # MultiTaskLassoCV takes no sparse matrices
        G, G_test = densify(G), densify(G_test)
    subset = {"rows": len(rows)} if len(rows) < len(train) else {}
    baselines = []
    for name, (title, linear) in baseline_models(resolved.classes is None, [y[rows]]).items():
        pipeline = fit_baseline(linear, rows_of(G, rows), y[rows])
        score = score_metadata(y_test[test], pipeline.predict(rows_of(G_test, test)), resolved.classes)
        baselines.append(baseline_metadata(name, title, score, count_terms(pipeline)) | subset)
    return held_out, baselines


def held_out_score(resolved: ResolvedModel, X: Any, y: NDArray[Any], past: int) -> Metadata:
    """Score of the model on held-out samples after the first `past`, and the coverage of its intervals."""
    given, classes = resolved.given, resolved.classes
    probabilities = as_numpy(given.predict_proba(X)) if hasattr(given, "predict_proba") else None
    result = score_metadata(y[past:], as_numpy(given.predict(X))[past:], classes, probabilities)
    result["protocol"] = f"on {result['n']:,} held-out samples"
    if classes is not None:
        return result
    result["unexplained"] = 1 - result["value"]
    model = resolved.model  # whose intervals need the models of folds if it is not linear in its terms
    squared = getattr(model, "loss_", "squared") == "squared" and model.fitted_terms_.link == "identity"
    if resolved.loo_residuals is not None and squared:
        limit = max(100, INTERVAL_PAIRS // len(resolved.loo_residuals))
        rows = np.arange(min(len(y), limit)) if past else evenly(len(y), limit)  # a series needs the rows before
        table = resolved.preprocess(rows_of(X, rows))
        lower, upper = (as_numpy(end) for end in best_interval(resolved.model, table, COVERAGE))
        inside = (lower <= y[rows]) & (y[rows] <= upper)
        result["coverage"] = float(np.mean(inside[past:]))
        result["nominal"] = COVERAGE
    return result


# -- cross-validation --------------------------------------------------------------------------------------------------


def cross_validated_comparison(
    estimator: Any, X: Any, y: Any, *, cv: Any = None, random_state: int = 0
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Score the procedure that fits a model by cross-validation, next to baselines on the same folds.

    The whole fit, with the selection of its terms, is repeated without each fold. The score is that of the procedure on
    training sets of this size, not of one model: it is the one to quote for a model fitted to all samples.

    Parameters
    ----------
    estimator : estimator of termwise, or a pipeline that ends in one
        The procedure. A fitted `TermwiseRegressor` or `TermwiseClassifier` has cross-validated itself: without `cv`,
        its `cv_error_` is used and nothing is fitted again.
    X, y : data frame or array-like of shape (n, d), array-like of shape (n,) or (n, q)
        All samples.
    cv : cross-validation splitter of scikit-learn, default=None
        By default the folds of a fitted automatic estimator, or five random ones, stratified for classes. For samples
        in the order of time use `TimeSeriesSplit`.
    random_state : int, default=0
        Seed of random folds.

    Returns
    -------
    score : dict
        "metric" ("R2", or "accuracy" for classes), "value", "std_error", "n" (number of samples scored), "n_folds",
        "protocol" (a description) and the other scores of `held_out_comparison` but for coverage. Of an automatic
        classifier, accuracy and "log_loss" are corrected for the choice of the model, the others are those of the
        models of its folds.
    baselines : list of dict
        As in `held_out_comparison`; the values are cross-validated, "terms" counts those of a fit to all samples.

    Notes
    -----
    R2 is one minus the mean squared out-of-fold error over the variance of the samples scored.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from termwise import ForwardRegressor, diagnostics
    >>> X, y = load_diabetes(return_X_y=True)
    >>> score, baselines = diagnostics.cross_validated_comparison(ForwardRegressor(), X, y)
    >>> score["protocol"], score["n"]
    ('5-fold cross-validation, selection repeated', 442)
    """
    y = as_numpy(y)
    classes = np.unique(y) if is_classifier(estimator) else None
    score = own_score(estimator, y, X) if cv is None else None
    if score is None:
        splits = make_splits(y, classes is not None, cv, random_state)
        score = score_metadata(*out_of_fold(estimator, X, y, classes, splits))
        protocol = f"{len(splits)}-fold cross-validation"
        if all(train.max() < test.min() for train, test in splits):
            n_test = sum(len(test) for _, test in splits)
            protocol = f"time series cross-validation, {len(splits)} folds of the last {n_test:,} samples"
        score |= {"n_folds": len(splits), "protocol": f"{protocol}, selection repeated"}
    else:
        splits = own_splits(estimator, y, score["n"], classes is not None, random_state)
    table = TableEncoder().fit_transform(X) if is_frame(X) else X
    G = table if hasattr(table, "toarray") else as_numpy(table)
    if min(len(y), BASELINE_ROWS) * G.shape[1] > TABLE_ENTRIES:
        return score, []
    G = densify(G) if y.ndim > 1 else G
    some = [(train[evenly(len(train), BASELINE_ROWS)], test) for train, test in splits]
    rows = evenly(len(y), BASELINE_ROWS)
    subset = {"rows": len(some[-1][0])} if len(some[-1][0]) < len(splits[-1][0]) else {}
    baselines = []
    for name, (title, linear) in baseline_models(classes is None, [y[train] for train, _ in some]).items():
        pipeline = fit_baseline(linear, rows_of(G, rows), y[rows])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as in `fit_baseline`
            found = score_metadata(*out_of_fold(pipeline, G, y, classes, some))
        baselines.append(baseline_metadata(name, title, found, count_terms(pipeline)) | subset)
    return score, baselines


def own_score(estimator: Any, y: NDArray[Any] | None = None, X: Any = None) -> Metadata | None:
    """Score of an automatic estimator by its own cross-validation; None for other estimators, and before a fit."""
    model = last_step(estimator)
    if not hasattr(model, "cv_error_"):
        return None
    n_folds, folds = model.recipe_settings.n_folds, model.fitted_terms_.fold_models
    resolved = resolve(estimator)
    out_of_fold = {} if y is None else fold_metadata(resolved, resolved.preprocess(X), y)
    total = n = float(model.fitted_terms_.statistics.rows.n)
    if folds is not None:
        n = min(total, float(folds.sample_weight.sum()))
    if hasattr(model, "classes_"):
        rate = float(model.cv_error_rate_)
        score = {"metric": "accuracy", "value": 1 - rate, "std_error": binomial_error(rate, n),
                 **out_of_fold, "log_loss": float(model.cv_log_loss_)}  # fmt: skip
    else:
        score = {"metric": "R2", "value": 1 - float(model.cv_error_), "std_error": float(model.cv_error_std_)}
        if y is not None:
            variance = as_columns(y).astype(np.float64).var(axis=0)
            score["rmse"] = float(np.sqrt(float(model.cv_error_) * variance.mean()))
            score |= out_of_fold
    some = f", on {round(n):,} of {round(total):,} samples" if round(n) < round(total) else ""
    protocol = f"{n_folds}-fold cross-validation, selection repeated{some}"
    return {**score, "n": round(n), "n_folds": n_folds, "protocol": protocol}


def fold_metadata(resolved: ResolvedModel, X: Any, y: NDArray[Any]) -> Metadata:
    """Mean absolute error, or scores of probabilities and confusion matrix, of the models of the folds."""
    folds, classes = resolved.model.fitted_terms_.fold_models, resolved.classes
    if folds is None:
        return {}
    if classes is None:
        return {"mae": float(np.average(np.abs(folds.residuals).mean(axis=1), weights=folds.sample_weight))}
    found = fold_probabilities(resolved, X, y)
    if found is None:
        return {}
    labels, probabilities = found
    confusion = confusion_metadata(labels, classes[probabilities.argmax(axis=1)], classes)
    return {**probability_scores(labels, classes, probabilities), "confusion": confusion}


def own_splits(estimator: Any, y: NDArray[Any], n: int, stratify: bool, random_state: int) -> Splits:
    """Training and test rows of an automatic estimator's folds; others like them where these are not known by row.

    Duplicate samples are merged before folds are assigned, and of very many samples some are used.
    """
    model = last_step(estimator)
    folds = model.fitted_terms_.fold_models
    if folds is not None and len(folds.fold) == len(y):
        return [(np.flatnonzero(folds.fold != k), np.flatnonzero(folds.fold == k)) for k in np.unique(folds.fold)]
    rows = evenly(len(y), n)
    return [(rows[train], rows[test]) for train, test in make_splits(y[rows], stratify, None, random_state)]


def make_splits(y: NDArray[Any], stratify: bool, cv: Any, random_state: int) -> Splits:
    """Training and test rows of each fold."""
    if cv is None:
        stratify = stratify and np.unique(y, return_counts=True)[1].max() >= N_FOLDS
        folds = StratifiedKFold if stratify else KFold
        cv = folds(N_FOLDS, shuffle=True, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some folds lack a class of fewer samples than there are folds
        return list(cv.split(np.zeros(len(y)), y))


def out_of_fold(
    estimator: Any, X: Any, y: NDArray[Any], classes: NDArray[Any] | None, splits: Splits
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None, NDArray[Any] | None]:
    """Return targets, out-of-fold predictions, classes, and probabilities of the classes where there are any.

    A training set of one class leaves nothing to fit: this class is predicted.
    """
    predicted, likely = np.empty_like(y if classes is not None else y.astype(np.float64)), None
    if classes is not None and hasattr(estimator, "predict_proba"):
        likely = np.zeros((len(y), len(classes)))
    for train, test in splits:
        if classes is not None and np.all(y[train] == y[train[0]]):
            model = DummyClassifier().fit(rows_of(X, train), y[train])
        else:
            model = clone(estimator).fit(rows_of(X, train), y[train])
        predicted[test] = as_numpy(model.predict(rows_of(X, test)))
        if likely is not None and classes is not None:
            likely[np.ix_(test, np.searchsorted(classes, model.classes_))] = model.predict_proba(rows_of(X, test))
    rows = np.sort(np.concatenate([test for _, test in splits]))
    return y[rows], predicted[rows], classes, None if likely is None else likely[rows]


# -- baselines ---------------------------------------------------------------------------------------------------------


def own_encoder(resolved: ResolvedModel, X: Any) -> Any:
    """The fitted transformer that encodes a table in front of the model's terms; None for numbers."""
    first = resolved.steps[0] if resolved.steps else None
    if resolved.preprocessing is not None:
        return resolved.preprocessing
    if isinstance(first, TableEncoder | LagBasis):
        return first
    return TableEncoder().fit(X) if is_frame(X) else None


def fit_baseline(linear: Any, G: Any, y: NDArray[Any]) -> Any:
    """Fit a baseline to standardised columns, with missing values, which have indicators, at their means."""
    sparse = hasattr(G, "toarray")
    fill = [] if sparse or not np.isnan(G).any() else [SimpleImputer(keep_empty_features=True)]
    pipeline = make_pipeline(*fill, StandardScaler(with_mean=not sparse), linear)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # penalties too small for the solver to converge are not selected
        return pipeline.fit(G, y)


def baseline_metadata(name: str, title: str, score: Metadata, n_terms: int) -> Metadata:
    """Score of a baseline on the same samples as the model."""
    return {"name": name, "title": title, "value": score["value"], "std_error": score["std_error"], "terms": n_terms}


def count_terms(pipeline: Any) -> int:
    """Return the number of columns with a nonzero weight."""
    coef = np.atleast_2d(getattr(getattr(pipeline[-1], "best_estimator_", pipeline[-1]), "coef_", 0.0))
    return int(np.any(coef != 0, axis=0).sum())


def baseline_models(regression: bool, targets: Sequence[NDArray[Any]]) -> dict[str, tuple[str, Any]]:
    """Title and estimator of each baseline for these targets of training sets.

    Where no class has as many samples as there are folds, the penalty of a linear model cannot be chosen: there is the
    most frequent class only.
    """
    if regression:
        lasso = MultiTaskLassoCV(max_iter=2000) if targets[0].ndim > 1 else LassoCV(max_iter=2000)
        ridge = RidgeCV(RIDGE_PENALTIES)
        return {"mean": ("mean", DummyRegressor()), "ridge": ("ridge", ridge), "lasso": ("lasso", lasso)}
    frequent = {"mean": ("most frequent class", DummyClassifier())}
    if min(np.unique(y, return_counts=True)[1].max() for y in targets) < PENALTY_FOLDS:
        return frequent
    l1 = {"l1_ratio": 1.0, "solver": "saga", "tol": 1e-2, "max_iter": 200, "random_state": 0}
    if LogisticRegression().penalty != "deprecated":  # before scikit-learn 1.8 l1_ratio requires this penalty
        l1["penalty"] = "elasticnet"
    models = LogisticRegression(max_iter=200), LogisticRegression(**l1)
    ridge, lasso = (GridSearchCV(model, {"C": INVERSE_PENALTIES}, cv=PENALTY_FOLDS) for model in models)
    return {
        **frequent,
        "ridge": ("logistic regression, ridge penalty", ridge),
        "lasso": ("logistic regression, lasso penalty", lasso),
    }
