"""The fit of the recipe: read the table, choose a model, select its terms on all samples, and solve."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d

from termwise._arrays import Array, as_columns, on_accelerator, rows_of
from termwise._checks import check_choice, check_directions, check_number, check_total, is_frame, place_of
from termwise._threads import one_thread
from termwise.basis import LogInputs, SmoothBasis, TableEncoder, UnionBasis, id_columns
from termwise.basis.base import ColumnSubset, expect_missing, last_step
from termwise.basis.encoder import LEVEL, VALUE
from termwise.basis.inputs import InputStatistics
from termwise.estimators.base import step_callback
from termwise.estimators.data import Data, read
from termwise.estimators.design import check_design, design_data, solve_path, warn_of_rounded_inputs
from termwise.estimators.forward_fit import path_callback
from termwise.estimators.glm import CLASSIFIER_LOSSES, REGRESSOR_LOSSES, check_exposure, make_loss, truncate_glm_path
from termwise.execution import select_terms
from termwise.fitted import Candidates, FitStatistics, FittedTerms, FoldModels
from termwise.linalg.least_squares import measure
from termwise.linalg.losses import LINKS, Quantile
from termwise.linalg.two_stage import leave_one_out_scores
from termwise.recipe.candidates import fit_candidates
from termwise.recipe.choice import RecipeChoice, choose_model
from termwise.recipe.cross_validation import constraints_of, prediction_limits, readable_size
from termwise.recipe.dictionaries import Samples, ScreenedPairs, logarithms_of
from termwise.recipe.folds import given_folds
from termwise.recipe.size import RecipeOptions
from termwise.recipe.targets import FirstStage, ReferenceTarget, through_first_stage
from termwise.selection.engine import Callback
from termwise.selection.glm import null_model
from termwise.selection.glm_path import GlmPath, select_glm_terms
from termwise.selection.path import SelectionPath

Floats = NDArray[np.float64]


def truncate_choice(
    path: SelectionPath, k: int, stage: FirstStage | None, candidates: Candidates, choice: RecipeChoice
) -> tuple[FittedTerms, dict[str, Any]]:
    """Return the first k terms of a path, fitted as in the folds, and their penalty.

    The probabilities of labels are calibrated as those of this size in cross-validation.
    """
    shift = choice.shifts[min(k, len(choice.shifts) - 1)] if choice.link == "log" else None
    if isinstance(path, GlmPath):
        terms, attributes = truncate_glm_path(path, k, candidates)
        terms = per_unit(terms, choice.exposure)
    else:
        terms, attributes = truncate_least_squares(path, k, stage, candidates, shift)
    if choice.limits is not None:
        terms = replace(terms, limits=choice.limits + (-np.log(choice.exposure) if shift is None else shift))
    if candidates.labels is not None:
        slope, shift = choice.calibration[min(k, len(choice.calibration) - 1)]
        labels = replace(candidates.labels, slope=slope, shift=shift)
        terms = replace(terms, candidates=replace(candidates, labels=labels), intercept=terms.intercept + shift)
    return terms, attributes


def truncate_recipe(
    estimator: Any, path: SelectionPath, k: int, candidates: Candidates
) -> tuple[FittedTerms, dict[str, Any]]:
    """Return the first k terms of the path of a fitted estimator with their weights."""
    return truncate_choice(path, k, estimator.first_stage_, candidates, estimator.choice_)


def per_unit(terms: FittedTerms, exposure: float) -> FittedTerms:
    """Return a model of targets per mean exposure as one of targets per unit of exposure, by its logarithmic link."""
    if exposure == 1:
        return terms
    statistics = terms.statistics
    residuals = None if statistics.residuals is None else statistics.residuals / exposure
    intercept = terms.intercept - np.log(exposure)
    return replace(terms, intercept=intercept, statistics_or_solve=replace(statistics, residuals=residuals))


def truncate_least_squares(
    path: SelectionPath, k: int, stage: FirstStage | None, candidates: Candidates, shift: Floats | None = None
) -> tuple[FittedTerms, dict[str, Any]]:
    """Return the first k terms of a path with the weights of both stages.

    With a `shift` of the intercept the terms add up to logarithms; the residuals are those of the targets themselves.
    """
    problem, solution, alpha = solve_path(path, k, intercept=True, refit=None)
    data, rows = path.training, problem.rows
    root = np.sqrt(rows.sample_weight)[:, None]
    intercept = None
    if isinstance(stage, ReferenceTarget):
        solution, intercept = stage.solution(solution, problem, path.terms[:k], alpha)
    elif stage is not None:
        scores = leave_one_out_scores(stage, rows, data.Z[:, :k], data.Y, data.Y_mean)
        solution = through_first_stage(stage, solution, problem, scores)
    residuals, link = solution.loo / root, "identity"
    if shift is not None:
        link, logarithms = "log", problem.Y_mean + problem.Y / root if stage is None else stage.targets
        residuals = np.exp(logarithms) - LINKS[link](logarithms - residuals + shift)
    statistics = FitStatistics(rows, solution, problem.G_mean, measure(rows, solution), "loo", residuals)
    terms = FittedTerms.from_solution(candidates, path.terms[:k], problem.Y_mean, statistics, link)
    intercept = terms.intercept if intercept is None else intercept
    return replace(terms, intercept=intercept if shift is None else intercept + shift), {"alpha_": alpha}


def with_encoder(
    folds: FoldModels, candidates: Candidates, encoder: TableEncoder | None, encoded: NDArray[Any]
) -> FoldModels:
    """Return fold models of encoded inputs as models of the table itself, some of whose rows the folds may lack."""
    models = []
    if encoder is not None:  # the model itself has warned
        encoder = copy.copy(encoder).set_params(new_missing="mean")
    for model in folds.models:
        basis = model.candidates.basis
        if basis is not None:
            expect_missing(basis, encoded)
        if encoder is not None:
            none = ColumnSubset(encoder, np.arange(0))
            basis = none if basis is None else Pipeline([("table", encoder), ("terms", basis)])
        n_candidates = candidates.n_features if basis is None else len(model.chosen)
        own = replace(candidates, basis=basis, n_candidates=n_candidates)
        models.append(replace(model, candidates=own))
    return replace(folds, models=tuple(models))


def filled(table: NDArray[Any]) -> NDArray[Any]:
    """Return a table with the mean of each column in place of missing values, zero where all are missing."""
    missing = np.isnan(table)
    if not missing.any():
        return table
    means = np.where(missing, 0.0, table).sum(axis=0) / np.maximum((~missing).sum(axis=0), 1)
    return np.where(missing, means, table).astype(table.dtype)


def bases_of(basis: Any) -> list[Any]:
    """Return the bases that make terms of a table."""
    last = last_step(basis)
    return list(last.bases_) if isinstance(last, UnionBasis) else [last]


def parts_of(basis: Any) -> list[Any]:
    """Return the same bases, as functions of logarithms where they take some."""
    return [part.basis_ if isinstance(part, LogInputs) else part for part in bases_of(basis)]


def table_inputs(basis: Any) -> list[str]:
    """Return the names of the inputs of the functions, after a table is encoded."""
    if isinstance(basis, Pipeline):
        return list(basis[:-1].get_feature_names_out())
    return list(basis.input_names())


def recipe_options(estimator: Any, y: NDArray[Any], encoder: TableEncoder) -> RecipeOptions:
    """Return the validated parameters of an estimator for coded targets."""
    labels = is_classifier(estimator)
    name = check_choice("loss", estimator.loss, CLASSIFIER_LOSSES if labels else REGRESSOR_LOSSES)
    name = "logistic" if name == "auto" else name
    loss = None if name == "squared" else make_loss(name, y.shape[1], getattr(estimator, "quantile", 0.5))
    options = RecipeOptions(
        size=estimator.size,
        dictionary=estimator.dictionary,
        target=estimator.target,
        max_terms=estimator.max_terms,
        random_state=estimator.random_state,
        labels=labels,
        loss=loss,
        cv=estimator.cv,
        monotone=encoded_directions(estimator.monotone, encoder),
        hierarchy=estimator.hierarchy,
        log_inputs=estimator.log_inputs,
        link=getattr(estimator, "link", "identity"),
    )
    options.check()
    if options.monotone and labels and y.shape[1] > 1:
        raise ValueError(
            f"y must have two classes with monotone, got {y.shape[1]}: the scores of more classes compete, and signs "
            "of their weights have no meaning."
        )
    return options


def encoded_directions(monotone: Mapping[Any, int] | None, encoder: TableEncoder) -> dict[int, int] | None:
    """Return the directions of effects, by the numbers of encoded columns; inputs are given by name or number."""
    if not monotone:
        return None
    groups, encodings = encoder.groups(), encoder.encodings_
    names, found = [one.name for one in encodings], {}
    for key, direction in check_directions(monotone).items():
        place = place_of(key, names, len(names))
        if place is None or encodings[place].kind != "number" or direction not in (-1, 1):
            raise ValueError(
                f"monotone must map numeric inputs, by name or number, to 1 or -1, got {direction!r} for {key!r}: 1 is "
                "for increasing effects."
            )
        found[int(np.flatnonzero(groups == place)[0])] = int(direction)
    return found


def read_recipe(
    estimator: Any, X: Any, y: Any, sample_weight: Any, exposure: Any
) -> tuple[Data, TableEncoder, NDArray[Any], float]:
    """Return the validated data, the fitted encoder of the table, the encoded table, and the mean exposure.

    Targets are those per mean exposure: counts have the likelihood of such rates with their exposures, as shares of the
    mean, as weights, whatever the unit.
    """
    labels, mean = is_classifier(estimator), 1.0
    data = read(estimator, X, y, sample_weight, basis=estimator.basis, classify=labels)
    if exposure is not None:
        exposures = check_exposure(exposure, estimator.loss, len(data.weights))
        assert exposures is not None
        mean = float(np.average(exposures, weights=data.weights))
        shares = exposures / mean
        weights = data.weights * (shares if estimator.loss == "poisson" else 1.0)
        data = replace(data, y=(as_columns(data.y) / shares[:, None]).reshape(data.y.shape), weights=weights)
    frame, used, settings = data.X, data.used, estimator.recipe_settings
    table, min_count = rows_of(frame, used) if is_frame(frame) else frame, settings.min_level_rows(len(used))
    encoder = TableEncoder(
        missing=estimator.missing, max_levels=settings.max_levels, min_count=min_count, new_missing="warn"
    ).fit(table)
    if is_frame(frame):
        encoder.exclude(id_columns(table))
    expect_missing(encoder, frame)  # in rows of weight zero
    encoded = encoder.transform(frame)
    warn_of_rounded_inputs(encoder.get_feature_names_out(), filled(encoded[used]), data)
    return data, encoder, encoded, mean


def fit_recipe(
    estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any = None, exposure: Any = None
) -> tuple[FittedTerms, dict[str, Any]]:
    """Choose a model by cross-validation, select its terms on all samples, and solve.

    Returns the fitted terms and the other fitted attributes.
    """
    settings, verbose = estimator.recipe_settings, estimator.verbose
    check_number("verbose", verbose, low=0, integer=True, remedy="0 is silent, 1 reports what is tried")
    after_step = step_callback(estimator, None)
    data, encoder, encoded, mean_exposure = read_recipe(estimator, X, y, sample_weight, exposure)
    if sample_weight is not None:
        check_total(data.weights)
    used, Y = data.used, as_columns(data.y)
    options = recipe_options(estimator, Y, encoder)._replace(exposure=mean_exposure)
    if isinstance(options.loss, Quantile):
        Y, options = quantile_targets(Y, options)
    if options.loss is not None:
        options.loss.check(Y)
    table = encoded[used].astype(np.float64)
    InputStatistics.from_samples(table).check_varying()  # constant inputs are allowed in a fold only
    blocks = None if groups is None else check_blocks(groups, len(Y))
    if options.splits_given:
        blocks = given_folds(options.cv, np.empty((len(Y), 1)), y_of_folds(data), blocks)
    blocks = None if blocks is None else blocks[used]
    samples, report = Samples(table, Y[used], data.weights[used], blocks), print if verbose else None
    groups_of, levels = encoder.groups(), encoder.level_columns()
    device_array = X if on_accelerator(X) else None
    choice = choose_model(samples, groups_of, levels, options, settings, after_step, report, device_array)
    threads = one_thread() if len(Y) <= settings.one_thread_rows else nullcontext()
    with threads:
        callback = path_callback(verbose, after_step)
        return fit_choice(estimator, choice, data, encoder, encoded, Y, callback, device_array)


def fit_choice(
    estimator: Any,
    choice: RecipeChoice,
    data: Data,
    encoder: TableEncoder,
    encoded: NDArray[Any],
    Y: Floats,
    callback: Callback,
    device_array: Array | None = None,
) -> tuple[FittedTerms, dict[str, Any]]:
    """Select the terms of the chosen model on all samples, and solve.

    Parameters
    ----------
    estimator : the estimator that is fitted.
    choice : the result of cross-validation.
    data : the validated data.
    encoder, encoded : the encoder of the table, fitted, and all its rows, encoded.
    Y : (n, q) targets.
    callback : called after each selected term.
    device_array : an array on the device that computes paths; None for the host.
    """
    settings, used, path_settings = estimator.recipe_settings, data.used, choice.path_settings
    targets = Y
    if choice.link == "log":  # samples of weight zero may have any target
        Y = np.log(np.where(Y > 0, Y, 1.0))
        data = replace(data, y=Y.reshape(data.y.shape))
    basis, G, stage = fit_candidates(choice, encoded, Y, data.weights, settings, device_array)
    encodes = is_frame(data.X) or encoded.shape[1] != data.n_features
    whole = Pipeline([("table", encoder), ("terms", basis)]) if encodes else basis
    G = check_design(estimator, whole, G, min_samples=2)
    design = design_data(G, whole, data)
    candidates = replace(design.candidates, one_output=design.candidates.one_output and Y.shape[1] == 1)
    if isinstance(stage, ReferenceTarget):  # the terms were selected before, in this order
        path_settings = replace(path_settings, include=np.arange(G.shape[1]))
    else:
        path_settings = replace(path_settings, constraints=constraints_of(basis, choice.hierarchy))
    if choice.loss is not None:
        null = null_model(Y[used], design.weights, choice.loss)
        path: SelectionPath = select_glm_terms(design.G, null, path_settings, candidates.one_output, callback)
    else:
        signal = design.Y if stage is None else stage.signal
        path = select_terms(design.G, signal, design.weights, path_settings, candidates.one_output, callback)
    size = min(choice.n_terms, len(path))
    if estimator.size == "readable":  # folds may have had fewer effects
        size = readable_size(basis.inputs_of(path.terms[:size]), settings.readable_effects)
    margin, logarithms = settings.margin(choice.labels), choice.link == "log"
    limits = prediction_limits(basis, Y[used], choice.loss, margin, logarithms)
    choice = replace(choice, limits=limits)
    terms, attributes = truncate_choice(path, size, stage, candidates, choice)
    assert choice.folds is not None
    folds = with_encoder(choice.folds, candidates, encoder if encodes else None, encoded)
    terms, procedure, choice = replace(terms, fold_models=folds), choice.procedure, replace(choice, folds=None)
    attributes |= {"cv_error_": procedure.error, "cv_error_std_": procedure.standard_error}
    if choice.labels:
        attributes |= {"cv_log_loss_": procedure.error * procedure.null_loss, "cv_error_rate_": procedure.error_rate}
    attributes |= {"path_": path, "stop_reason_": path.stop_reason, "n_swaps_": path.n_swaps, "first_stage_": stage}
    attributes |= {"dictionary_": choice.dictionary, "target_": choice.target, "pool_": list(choice.members)}
    attributes |= {"trials_": choice.trials, "rule_": path_settings.rule, "criterion_": "cv", "choice_": choice}
    attributes |= {"categories_": encoder.categories_, "n_candidates_": max(choice.n_candidates, G.shape[1])}
    attributes["loss_"] = "squared" if choice.loss is None else choice.loss.name
    attributes["link_"] = terms.link
    return design.complete(terms, targets / choice.exposure, path.terms), attributes


def quantile_targets(Y: Floats, options: RecipeOptions) -> tuple[Floats, RecipeOptions]:
    """Return one column of targets for every quantile of one target, or one quantile of every target."""
    levels = options.loss.levels  # type: ignore[union-attr]
    if len(levels) > 1 and Y.shape[1] > 1:
        raise ValueError(
            f"y must be one target with several quantiles, got {Y.shape[1]} columns: fit one model for each."
        )
    if len(levels) > 1:
        return np.tile(Y, len(levels)), options
    return Y, options._replace(loss=Quantile(levels * Y.shape[1]))


def y_of_folds(data: Data) -> NDArray[Any]:
    """Return one target per sample, to stratify folds by."""
    return data.y if data.y.ndim == 1 else np.argmax(data.y, axis=1)


def check_blocks(groups: Any, n: int) -> NDArray[np.intp]:
    """Return the number of the group of every sample."""
    values = column_or_1d(groups)
    if len(values) != n:
        raise ValueError(
            f"groups must have one value per sample, {n}, got {len(values)}: samples of one group share a fold."
        )
    try:
        numbers = np.unique(values, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError(
            f"groups must be values of one kind, which can be compared, got {values[:3].tolist()!r}, ...: number the "
            "groups, or name them by strings."
        ) from error
    if numbers.max() < 1:
        raise ValueError("groups must have at least two different values, got one: leave it out.")
    return numbers


def encodings_of(basis: Any) -> list[Any]:
    """Return how the columns of a table are encoded, where they are."""
    return basis[0].encodings_ if isinstance(basis, Pipeline) and isinstance(basis[0], TableEncoder) else []


def describe_error(estimator: Any) -> str:
    """Describe the cross-validated error of the whole procedure in words."""
    error = f"{estimator.cv_error_:.3g} +- {estimator.cv_error_std_:.2g}"
    if estimator.fitted_terms_.candidates.labels is None:
        loss = estimator.choice_.loss
        unit = "variance" if loss is None else f"{loss.name} loss of a constant"
        return f"cross-validated error, choice included: {error} of the {unit}"
    rate = f"{100 * estimator.cv_error_rate_:.3g} % misclassified, log loss {estimator.cv_log_loss_:.3g}"
    return f"cross-validated error, choice included: {rate}, {error} of that of the class frequencies"


def describe_choice(estimator: Any) -> list[str]:
    """Return the lines of a summary about the choice of a model and its terms."""
    choice, basis, listed_inputs = estimator.choice_, estimator.basis_, estimator.recipe_settings.listed_inputs
    tried = "; ".join(f"{title} {errors.min():.3g}" for title, errors in choice.trials.items())
    low, high = np.quantile(choice.procedure.sizes, [0.05, 0.95]).round().astype(int)
    ridge = " fitted to ridge regression on all candidates"
    target = f",{ridge}" if choice.target == "ridge" else ""
    if choice.target == "pooled":
        members = []
        for name, stage, size, weight in choice.members:
            model = f"{size} terms of {name}{ridge if stage == 'ridge' else ''}" if size else "the mean"
            members.append(f"{weight:.2f} x {model}")
        target = f", fitted to a stacked ensemble: {' + '.join(members)}"
    for part in [part for part in parts_of(basis) if isinstance(part, ScreenedPairs)]:
        inputs = f"{len(part.screened_)} inputs of {part.n_features_in_:,}"
        target = f" of the {inputs} that explain the targets best{target}"
    penalty = f"penalty {choice.alpha:g}"
    lines = [f"dictionary: {choice.dictionary}{target}" + f", {penalty}" * choice.title.endswith(penalty)]
    if choice.link == "log":
        lines.append("link: the terms add up to the logarithm of the target; noise and error estimates below are its")
    lines.append(describe_error(estimator))
    lines.append(f"number of terms chosen in bootstrap samples: {low} to {high} in nine of ten")
    lines.append(f"smallest cross-validated error of what was tried: {tried}")
    if skewed := {j for part in bases_of(estimator.fitted_terms_.basis) for j in logarithms_of(part)}:
        names = table_inputs(basis)
        lines.append(f"logarithms of skewed inputs: {', '.join(names[j] for j in sorted(skewed))}")
    for part in parts_of(estimator.fitted_terms_.basis):
        if isinstance(part, SmoothBasis) and part.relevance is not None and (part.columns_ < 0).any():
            names = table_inputs(basis)
            order = np.argsort(-part.relevance_, kind="stable")[: np.count_nonzero(part.relevance_)]
            listed = [f"{names[j]} {part.relevance_[j]:.2g}" for j in order[:listed_inputs]]
            more = f" and {len(order) - len(listed)} more" if len(order) > len(listed) else ""
            lines.append(f"ARD relevance (inverse length-scale) of standardised inputs: {', '.join(listed)}{more}")
    if left_out := [one.name for one in encodings_of(basis) if not one.codes]:
        lines.append(f"left out, since they number or name the rows: {', '.join(left_out)}")
    if estimator.categories_:
        codes = {one.name: one.codes for one in encodings_of(basis)}
        one_hot, ordered, means = list[str](), list[str](), list[str]()
        for name, levels in estimator.categories_.items():
            listed_levels = f"{name}: {', '.join(map(str, levels))}"
            if LEVEL in codes[name]:
                means.append(f"{name} ({len(levels)})")
            else:
                (ordered if VALUE in codes[name] else one_hot).append(listed_levels)
        lines += [f"one-hot encoded categories: {'; '.join(one_hot)}"] * bool(one_hot)
        lines += [f"ordered categories, encoded by their position: {'; '.join(ordered)}"] * bool(ordered)
        lines += [f"categories encoded by means of the targets (levels): {', '.join(means)}"] * bool(means)
    return lines
