"""Fitting where the data are: on the workers of a Dask cluster, with an ordinary model as the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from termwise._arrays import densify
from termwise._checks import check_targets, is_dask
from termwise.estimators.stepped import PathModel
from termwise.execution.dask import ChunkReader, Chunks, n_rows, sample_rows, split_chunks, without_rows
from termwise.execution.forward import select_terms_on_cluster
from termwise.selection.engine import Settings
from termwise.selection.path import SelectionPath

SEEN = 10_000  # rows that a basis is fitted on
PROBED = 32  # rows that show whether a basis looks at each by itself


class ClusterModel(PathModel):
    """Lets a model that is cut from a path grow it on a cluster if the data are there; goes before the model's base."""

    refit_alpha: str | None
    _settings: Callable[[], Settings]
    _follower: Callable[[], Callable[[SelectionPath], bool]]  # what is to be called after each term
    _keep: Callable[[SelectionPath], None]  # keeps a path and cuts it

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        if not is_dask(X, y, sample_weight):
            super()._fit(X, y, sample_weight)
            return
        self._check_params()
        self._check_request(y)
        if self.refit_alpha is not None:
            raise ValueError(
                f"refit_alpha must be None for Dask data, got {self.refit_alpha!r}: it would need the rows of the "
                "chosen terms; leave it out, or fit BasisRidge to transform(X).compute() afterwards."
            )
        chunks = split_chunks(X, y, sample_weight)
        validate_data(self, without_rows(X), skip_check_array=True, reset=True)
        targets = self._target_reader(chunks)
        self.basis_ = None if self.basis is None else self._fit_basis(chunks, targets)
        reader = ChunkReader("X", type(self).__name__, self.basis_, targets)
        path = select_terms_on_cluster(chunks, reader, self._settings(), self._follower())
        self._one_output, self._n_candidates = path.one_output, path.n_candidates
        self._keep(path)

    def _target_reader(self, chunks: Chunks) -> Callable[[Any], NDArray[np.float64]]:
        """Return a function that reads the targets of a chunk."""
        return check_targets

    def _fit_basis(self, chunks: Chunks, targets: Callable[[Any], NDArray[np.float64]]) -> Any:
        """Fit the basis to some rows of every chunk, and see whether it may be evaluated chunk by chunk."""
        X, y = sample_rows(chunks, SEEN)
        basis = clone(self.basis).fit(X, targets(y))
        some = X[: min(PROBED, n_rows(X))]
        forward, backward = densify(basis.transform(some)), densify(basis.transform(some[::-1]))
        if forward.shape != backward.shape or not np.allclose(forward, backward[::-1], equal_nan=True):
            raise ValueError(
                f"basis must transform each row by itself for Dask data, got {basis!r}, which looks at its "
                "neighbours: compute its columns beforehand and use basis=None."
            )
        return basis
