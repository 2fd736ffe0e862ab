"""The candidates of the chosen model, fitted to all samples, and what its terms are selected for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from termwise._arrays import Array, as_columns, different_rows, evenly
from termwise.basis import Basis, UnionBasis
from termwise.basis.base import design_matrix, expect_missing
from termwise.design import EVERY, Design, as_design
from termwise.linalg.least_squares import WeightedRows
from termwise.recipe.choice import RecipeChoice
from termwise.recipe.cross_validation import TrainingDesign, constraints_of
from termwise.recipe.device import PathData, fits_in_device_memory, select_on_device
from termwise.recipe.dictionaries import Samples
from termwise.recipe.folds import merge_duplicates
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.targets import REFERENCES, EnsembleTarget, FirstStage, Reference, ReferenceTarget
from termwise.selection.glm import GlmModels, glm_path, null_model
from termwise.selection.nested import NestedModels, nested_path

Floats = NDArray[np.float64]


def fit_candidates(
    choice: RecipeChoice,
    X: NDArray[Any],
    y: NDArray[Any],
    sample_weight: Floats,
    settings: RecipeSettings,
    device_array: Array | None = None,
) -> tuple[Basis, Any, FirstStage | None]:
    """Return the fitted basis, its design matrix, and the first stage if the target is not the data.

    Inputs are encoded. The design matrix has all rows of X, the first stage those of positive weight. With more than
    `path_rows` rows a path on some of them decides which candidates are evaluated on all, and so does a path on the
    device of `device_array`.
    """
    used = np.flatnonzero(sample_weight)
    every = len(used) == len(sample_weight)
    part, Y, sample_weight = X if every else X[used], as_columns(y)[used], sample_weight[used]
    if choice.target == "pooled":
        basis, G, stage = fit_ensemble(choice, Samples(part, Y.astype(np.float64), sample_weight), settings)
        expect_missing(basis, X)
        return basis, G if every else all_rows(basis, X, used, G), stage
    (basis,) = choice.bases.values()
    some = evenly(len(used), settings.path_rows)
    rows = part if len(some) == len(used) else part[some]
    training = TrainingDesign.fit(basis, rows, Y[some].astype(np.float64), sample_weight[some])
    expect_missing(training.basis, X)  # in rows of weight zero, and those that the terms are not selected on
    if choice.target in REFERENCES:
        samples = Samples(part, Y.astype(np.float64), sample_weight)
        return fit_to_reference(choice, training.basis, X, samples, some, settings)
    fitted, weight, constraints = training.basis, sample_weight[some], constraints_of(training.basis, choice.hierarchy)
    max_terms, alpha = choice.path_settings.max_terms or len(some), choice.alpha
    of_data = choice.target == "data" and choice.loss is None and constraints is None and not fitted.cross_fits
    problems = [PathData(fitted, rows, Y[some], weight)]
    if device_array is not None and of_data and fits_in_device_memory(device_array, problems):
        (found,) = select_on_device(device_array, problems, alpha, max_terms)
        fitted = fitted.take(np.sort(found.terms))
        return fitted, fitted.transform(X), None
    training = training.evaluated(rows)
    design = training.G
    if len(some) == len(used):
        G = design if every else all_rows(fitted, X, used, design)
    else:
        models: NestedModels | GlmModels
        if choice.loss is None:
            models = nested_path(design, Y[some], weight, alpha, max_terms, constraints)
        else:
            models = glm_path(design, null_model(Y[some], weight, choice.loss), alpha, max_terms, constraints)
        fitted = fitted.take(np.sort(models.terms))
        G = fitted.transform(X)
    if choice.target == "data":
        return fitted, G, None
    return fitted, G, training.ridge(Y, sample_weight)


def all_rows(basis: Basis, X: NDArray[Any], used: NDArray[np.intp], G: Any) -> Any:
    """Return the design matrix of all inputs, given that of those in use, which may be cross-fitted."""
    if not basis.cross_fits:
        return design_matrix(basis, X)
    whole = basis.transform(X)
    whole[used] = G.columns(EVERY) if isinstance(G, Design) else G
    return whole


def fit_to_reference(
    choice: RecipeChoice,
    basis: Basis,
    X: NDArray[Any],
    samples: Samples,
    some: NDArray[np.intp],
    settings: RecipeSettings,
) -> tuple[Basis, Floats, ReferenceTarget]:
    """Select terms that reproduce the reference model; return their basis, its design matrix, and the model's fit.

    Parameters
    ----------
    choice : the chosen dictionary and target.
    basis : the fitted dictionary.
    X : all inputs, encoded.
    samples : those of positive weight.
    some : rows of the samples to select the terms on.
    settings : constants of the recipe.
    """
    alpha, rows = settings.alpha, samples.rows(some)
    reference = fit_reference(choice, rows, settings)
    max_terms = choice.path_settings.max_terms or len(rows.X)
    constraints = constraints_of(basis, choice.hierarchy)
    models = reference.models(basis, rows.X, rows.sample_weight, alpha, max_terms, constraints)
    fitted = basis.take(models.terms)
    columns = np.vstack([fitted.transform(rows.X), fitted.transform(reference.X)]).astype(np.float64)
    values, weights = reference.rows(rows.sample_weight)
    signal = reference.signal
    if len(some) < len(samples.X):
        fit, intercept = NestedModels.from_columns(columns, values, weights, alpha).weights(len(models.terms))
        signal = fitted.transform(samples.X) @ fit + intercept
    return fitted, fitted.transform(X), ReferenceTarget(samples.Y, choice.labels, signal, columns, values, weights)


def fit_reference(choice: RecipeChoice, samples: Samples, settings: RecipeSettings) -> Reference:
    """Train the reference model on distinct samples, as in cross-validation; its signal is that of all samples."""
    distinct = merge_duplicates(samples)
    if len(distinct.X) == len(samples.X):
        return Reference.fit(choice.reference, samples, choice.groups, choice.labels, settings)
    reference = Reference.fit(choice.reference, distinct, choice.groups, choice.labels, settings, samples.X)
    return replace(reference, signal=reference.held_out)


def fit_ensemble(
    choice: RecipeChoice, samples: Samples, settings: RecipeSettings
) -> tuple[Basis, Floats, EnsembleTarget]:
    """Fit the members of the stacked ensemble; return a basis of their distinct terms, these, and the ensemble."""
    X, Y, sample_weight, _ = samples
    bases = choice.bases.items()
    designs = {name: TrainingDesign.fit(basis, X, Y, sample_weight).evaluated(X) for name, basis in bases}
    reference = None
    if any(member.target in REFERENCES for member in choice.members):
        reference = fit_reference(choice, samples, settings)
    rows = WeightedRows(sample_weight, True)
    stage, terms = EnsembleTarget.fit(choice.members, designs, X, Y, rows, reference, settings.alpha)
    taken = [design.basis.take(terms[name]) for name, design in designs.items()]
    basis = taken[0] if len(taken) == 1 else UnionBasis.of(taken)
    G = np.hstack([as_design(design.G).columns(terms[name]) for name, design in designs.items()])
    distinct = different_rows(G.T)  # dictionaries have functions in common
    return basis.take(distinct), G[:, distinct], stage
