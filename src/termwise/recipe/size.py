"""The parameters of the recipe, and the choice of a trial and its number of terms by cross-validated errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from termwise._checks import check_bool, check_choice, check_number
from termwise._numerics import ERROR_DIGITS, EXACT_FIT_ERROR
from termwise.linalg.criteria import excess
from termwise.linalg.losses import Loss
from termwise.recipe.dictionaries import DICTIONARIES
from termwise.recipe.settings import RecipeSettings
from termwise.recipe.skewness import suits_logarithm
from termwise.recipe.trials import Trial, only_drawable

Floats = NDArray[np.float64]


SIZES = ("readable", "small", "accurate")
SMALL_SIZES = ("readable", "small")


def is_reference(target: Any, labels: bool) -> bool:
    """Whether a target is an estimator that terms can reproduce: a regressor, or a classifier with probabilities.

    An ensemble of other estimators may have its methods only after it is fitted.
    """
    if isinstance(target, str | type) or not hasattr(target, "fit"):
        return False
    kind = get_tags(target).estimator_type if hasattr(target, "__sklearn_tags__") else None
    if labels:
        return hasattr(target, "predict_proba") or (kind == "classifier" and not hasattr(target, "predict"))
    return kind == "regressor" or (kind != "classifier" and hasattr(target, "predict"))


class RecipeOptions(NamedTuple):
    """The parameters of the estimators that the choice depends on."""

    size: str | int = "small"
    dictionary: str = "auto"
    target: Any = "auto"  # or a reference model, not fitted
    max_terms: int = 150
    random_state: int | np.random.RandomState | None = 0
    labels: bool = False  # whether the targets are classes coded -1 and +1
    loss: Loss | None = None  # of models for the data themselves; None: the squared error
    cv: Any = None  # number of folds, a splitter of scikit-learn, or splits
    monotone: dict[int, int] | None = None  # encoded inputs, and the directions of their effects
    hierarchy: bool = False  # whether products require terms of each of their inputs
    log_inputs: bool = False  # whether logarithms of skewed inputs are tried
    exposure: float = 1.0  # mean exposure, per which the targets are given
    link: str = "identity"  # "log": terms add up to logarithms of the targets; "auto": cross-validation decides

    def check(self) -> None:
        """Raise on the first invalid parameter."""
        check_number("max_terms", self.max_terms, low=1, integer=True, remedy="150 is plenty for a small model")
        if isinstance(self.size, str):
            check_choice("size", self.size, SIZES, remedy="or give the number of terms")
        else:
            remedy = "'readable', 'small', 'accurate', or a number up to max_terms"
            check_number("size", self.size, low=1, below=self.max_terms + 1, integer=True, remedy=remedy)
        check_choice("dictionary", self.dictionary, ["auto", *DICTIONARIES], remedy="'auto' tries them all")
        if not is_reference(self.target, self.labels):
            what = "a classifier with predict_proba" if self.labels else "a regressor"
            remedy = f"'auto' tries them all, or give {what} of scikit-learn, not fitted"
            check_choice("target", self.target, ["auto", "data", "ridge", "boosting", "pooled"], remedy=remedy)
        if self.loss is not None and not self.labels and self.target not in ("auto", "data"):
            raise ValueError(
                f"target must be 'auto' or 'data' with loss={self.loss.name!r}, got {self.target!r}: other targets are "
                "fitted by least squares."
            )
        check_choice("link", self.link, ["identity", "log", "auto"], remedy="'auto' tries both")
        if self.link != "identity" and self.loss is not None and not self.labels:
            raise ValueError(
                f"link must be 'identity', the default, with loss={self.loss.name!r}, got {self.link!r}: that loss has "
                "a link of its own."
            )
        if self.cv is not None and not self.splits_given:
            check_number("cv", self.cv, low=2, integer=True, remedy="5 is usual; or give a splitter of scikit-learn")
        check_bool("log_inputs", self.log_inputs, remedy="True tries logarithms of skewed inputs")
        check_bool("hierarchy", self.hierarchy, remedy="True admits products only beside their main effects")

    @property
    def splits_given(self) -> bool:
        """Whether the folds are those of a splitter, or given."""
        return hasattr(self.cv, "split") or isinstance(self.cv, Iterable)

    @property
    def constrained(self) -> bool:
        """Whether terms or weights are constrained, which ensembles and Gaussians of all inputs do not respect."""
        return bool(self.monotone) or self.hierarchy

    def allows(self, name: str) -> bool:
        """Whether a dictionary is tried with these options."""
        dictionary = DICTIONARIES[name]
        suits_size = dictionary.drawable or self.size != "readable"
        return suits_size and (dictionary.constrainable or not self.constrained)

    @property
    def tries_all(self) -> bool:
        """Whether all targets are tried."""
        return not isinstance(self.target, str) or self.target in ("auto", "pooled")

    def tries_ensembles(self) -> bool:
        """Whether stacked ensembles are tried; of labels a single small model has far fewer terms."""
        if self.constrained or (self.loss is not None and not self.labels):
            return False
        return self.target == "pooled" or (self.tries_all and not (self.labels and self.size in SMALL_SIZES))

    def links(self, Y: Floats, sample_weight: Floats, settings: RecipeSettings) -> list[str]:
        """Return the links to try for targets Y: the logarithm if it makes positive targets more symmetric."""
        if self.link == "log":
            if Y.min() <= 0:
                raise ValueError(
                    f"y must be positive for link='log', got {Y.min():g}: use link='identity', or loss='poisson' for "
                    "counts."
                )
            return ["log"]
        plain, n = self.link == "identity" or self.loss is not None or self.labels, max(len(Y), sample_weight.sum())
        if plain or Y.shape[1] > 1 or n < settings.link_rows or Y.min() <= 0:
            return ["identity"]
        tried = suits_logarithm(Y[:, 0], sample_weight, settings.min_skewness)
        return ["identity", "log"] if tried else ["identity"]

    def targets(self, n: float, settings: RecipeSettings) -> list[str]:
        """Return the targets to try for n samples, ensembles aside."""
        if self.loss is not None and not self.labels:
            return ["data"]
        if not self.tries_all:
            found = [self.target]
        else:
            found = ["ridge"] if self.labels and self.loss is None else ["data", "ridge"]
            found.append("boosting" if isinstance(self.target, str) else "estimator")
        if n > settings.ridge_rows:
            found = list(dict.fromkeys("data" if target == "ridge" else target for target in found))
        return found


# -- trials ------------------------------------------------------------------------------------------------------------


def most_accurate(curves: Sequence[Floats], allowed: Sequence[int]) -> tuple[int, int]:
    """Return the curve with the smallest error, the first one of equals, and its number of terms."""
    best = allowed[int(np.argmin([curves[i].min() for i in allowed]))]
    return best, int(curves[best].argmin())


def choose_trial(
    trials: list[Trial], curves: list[Floats], share: Floats, options: RecipeOptions, settings: RecipeSettings
) -> tuple[int, int]:
    """Return the position of the best trial and its number of terms.

    "accurate" is the model with the smallest error. "small" is the model with the fewest terms whose error is within
    `small_se` standard errors of that minimum and loses at most the share `small_loss` of the explained variance, or
    one with `small_extra_terms` more if its error is smaller; drawable models are preferred unless the best model is
    better by more than `drawable_se` standard errors. "readable" is the same of sizes with at most `readable_terms`
    terms of `readable_effects` sets of inputs. With a number the error at that size decides.

    Parameters
    ----------
    trials : what is chosen from.
    curves : for each trial the mean loss at every size, of the samples weighted by `share`.
    share : (n,) weights of the samples, adding up to one.
    options, settings : parameters of the estimator and constants of the recipe.
    """
    size, n = options.size, float(trials[0].sample_weight.sum())
    curves, positions = [curve.round(ERROR_DIGITS) for curve in curves], list(range(len(trials)))
    if size == "readable":
        sizes = [min(trial.readable_size(settings.readable_effects), settings.readable_terms) for trial in trials]
        curves = [curve[: k + 1] for k, curve in zip(sizes, curves, strict=True)]
    if not isinstance(size, str):
        at_size = [curve[min(size, len(curve) - 1)] for curve in curves]
        return int(np.argmin(at_size)), size
    best, k = most_accurate(curves, positions)
    if size == "accurate":
        return best, k
    few_inputs = only_drawable(trials)
    if drawable := [i for i in positions if trials[i] in few_inputs]:
        other, other_k = most_accurate(curves, drawable)
        more, error = excess(trials[other].losses[other_k], trials[best].losses[k], share, n)
        if more <= settings.drawable_se * error + EXACT_FIT_ERROR:
            positions, best, k = drawable, other, other_k
    standard_error = excess(trials[best].losses[k], np.zeros_like(share), share, n)[1]
    errors = curves[best]
    tolerance = min(settings.small_se * standard_error, settings.small_loss * (errors[0] - errors[k]))
    limit = errors[k] + tolerance + 10.0**-ERROR_DIGITS
    fewest = min(int(np.flatnonzero(curves[i] <= limit)[0]) for i in positions if curves[i].min() <= limit)
    sizes = [fewest, fewest + settings.small_extra_terms] if fewest else [0]
    _, k, i = min((float(curves[i][k]), k, i) for i in positions for k in sizes if k < len(curves[i]))
    return i, k


def choose_among(trials: list[Trial], options: RecipeOptions, settings: RecipeSettings) -> tuple[int, int]:
    """Return the position of the best trial by the errors of all samples, and its number of terms."""
    return choose_trial(trials, [trial.errors for trial in trials], trials[0].share, options, settings)
