"""Models that are fitted step by step, and those cut from a path."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from typing import Self

from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from termwise._checks import check_number
from termwise.estimators.callbacks import CallbackSupportMixin, end_of_fit, step_callback, with_callbacks
from termwise.estimators.model import BatchModel
from termwise.selection.path import SelectionPath


class SteppedModel(CallbackSupportMixin, BatchModel):
    """A batch model fitted step by step, which scikit-learn's callbacks can follow and end."""

    _after_step: Callable[[], bool]

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs. With a `basis`, whatever that transformer takes.
        y : array-like of shape (n,) or (n, q)
            Targets, or classes.
        sample_weight : array-like of shape (n,), default=None
            How often each sample counts. Weights mean repetitions: leave-one-out leaves out one repeat.
        """
        fresh = clone(self)
        fresh._after_step = step_callback(self, self._most_steps())
        fresh._fit(X, y, sample_weight)
        del fresh._after_step
        self._become(fresh)
        end_of_fit(self)
        return self

    def _most_steps(self) -> int | None:
        """Number of steps to expect, if it is known."""
        return None


class PathModel(SteppedModel):
    """A model cut from a path of growing models."""

    path_: SelectionPath

    @abstractmethod
    def _cut(self, k: int) -> None:
        """Settle on the first k terms of the path."""

    def at(self, n_terms: int) -> Self:
        """Return the same model cut at another size of its path, without refitting.

        Parameters
        ----------
        n_terms : int
            Number of terms, at most the length of the path.
        """
        check_is_fitted(self)
        most = len(self.path_)
        check_number("n_terms", n_terms, low=0, below=most + 1, integer=True, remedy=f"the path has {most} terms")
        other = copy.copy(self)
        other._cut(n_terms)
        return other
