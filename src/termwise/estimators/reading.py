"""How every estimator reads its data: arrays of any library, frames, sparse matrices, files; and its design matrix."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import check_consistent_length, validate_data

from termwise._arrays import densify, is_foreign, rows_of, to_host
from termwise._checks import check_basis, check_bool, check_foreign, check_table, check_targets
from termwise.basis.base import design_matrix, is_streamable
from termwise.design.files import RowFile, beyond_memory
from termwise.design.stored import Design
from termwise.execution.collections import is_dask

FLOATS = [np.float64, np.float32]


class ReadingModel(BaseEstimator):
    """A model whose terms are the columns of X or the functions of a basis.

    A subclass has the parameters `basis` and `fit_intercept`.
    """

    basis: Any
    fit_intercept: bool
    keeps_sparse: ClassVar[bool] = False  # whether a sparse design matrix stays sparse
    streams: ClassVar[bool] = False  # whether the design matrix may be computed, or read from a file, again and again
    any_library: ClassVar[bool] = False  # whether it computes where arrays of other libraries live
    basis_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        basis = self._prototype()
        takes_sparse = hasattr(basis, "__sklearn_tags__") and get_tags(basis).input_tags.sparse
        tags.input_tags.sparse = basis is None or takes_sparse
        tags.array_api_support = self.any_library and (basis is None or getattr(basis, "any_library", False))
        return tags

    def _where_it_can(self, X: Any) -> Any:
        """Return inputs of another array library in this process, unless the model and its basis can do with them."""
        if not is_foreign(X):
            return X
        basis = self._prototype()
        able = basis is None or getattr(basis, "any_library", False) or get_config()["array_api_dispatch"]
        return X if self.any_library and able else to_host(X)

    def _prototype(self) -> Any:
        """The transformer a fit clones, None for the columns of X: the parameter, unless a subclass finds its own."""
        return self.basis

    def _validate(self, X: Any, y: Any, reset: bool) -> tuple[Any, NDArray[np.float64]]:
        """Return X (checked here unless a basis will check it) and y of shape (n,) or (n, q)."""
        self._check_request(y)
        if is_dask(X, y):
            raise TypeError(
                f"{type(self).__name__} must be given data in memory, got a Dask collection: use X.compute(), or "
                "ForwardRegressor and ForwardClassifier, which work on a cluster."
            )
        X = self._where_it_can(X)
        if self._prototype() is None:
            X = self._check_columns(X, reset)
        else:
            X = check_table(X)
            if isinstance(X, RowFile):
                raise TypeError(
                    f"X must be an array if there is a basis, got rows of {X.name}: use basis=None, or X.load() where "
                    "the inputs fit in memory."
                )
            validate_data(self, X, skip_check_array=True, reset=reset)
        y = check_targets(y)
        if not is_foreign(X) or X.shape[0] != len(y):
            check_consistent_length(np.empty(X.shape[0]) if is_foreign(X) else X, y)
        return X, y

    def _check_request(self, y: Any) -> None:
        """Check what can be checked without a look at X."""
        check_basis(self._prototype())
        check_bool("fit_intercept", self.fit_intercept, remedy="True fits the mean too")
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give one target per sample."
            )

    def _check_columns(self, X: Any, reset: bool) -> Any:
        """Check the columns of X as they are the terms; plain rows for a known model take the short way."""
        if isinstance(X, RowFile):
            return self._check_file(X, reset)
        if is_foreign(X):
            X = check_foreign("X", X)
            validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        plain = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and len(X)
        known = plain and not reset and X.shape[1] == self.n_features_in_ and not hasattr(self, "feature_names_in_")
        if known and np.isfinite(X).all():
            return X
        return validate_data(self, X, accept_sparse=["csr", "csc"], dtype=FLOATS, reset=reset)

    def _check_file(self, X: RowFile, reset: bool) -> RowFile:
        """Check names and number of the columns of a file; its numbers are checked when they are read."""
        if not self.streams:
            raise TypeError(
                f"X must be an array for {type(self).__name__}, got rows of {X.name}: ForwardRegressor and "
                "ForwardClassifier work from files; others take X.load()."
            )
        known = None if reset else getattr(self, "feature_names_in_", None)
        if X.names is None or known is None:
            validate_data(self, X, skip_check_array=True, reset=reset)
        elif X.names != list(known):
            raise ValueError(
                f"X must have the columns of the fit in their order, got rows of {X.name} with {len(X.names)} others: "
                "open them with columns=model.feature_names_in_."
            )
        if reset and X.names is not None:
            self.feature_names_in_ = np.array(X.names, dtype=object)
        return X

    def _fit_design(self, X: Any, y: NDArray, counts: NDArray[np.float64], min_samples: int = 2) -> NDArray:
        """Fit the basis on the samples that count and evaluate it on all."""
        basis, everything = self._prototype(), bool(counts.all())
        if basis is None:
            self.basis_, G = None, beyond_memory(X) if self.streams else X
        elif everything and not (self.streams and is_streamable(basis)):
            self.basis_ = clone(basis)
            G = self.basis_.fit_transform(X, y)
        else:
            rows = np.flatnonzero(counts)
            self.basis_ = clone(basis).fit(X if everything else rows_of(X, rows), y[rows])
            G = design_matrix(self.basis_, X) if self.streams else self.basis_.transform(X)
        return self._check_design(G, min_samples)

    def _check_design(self, G: Any, min_samples: int = 1) -> Any:
        if isinstance(G, Design | RowFile):  # of inputs that are checked, or checked as they are read
            if G.shape[0] >= min_samples:
                return G
            G = np.zeros(G.shape)  # too few: refused as any array would be
        G = G if self.keeps_sparse else densify(G)
        basis = self._prototype()
        if basis is None and G.shape[0] >= min_samples:  # checked as X already
            return G
        name = "X" if basis is None else f"The design matrix of {type(basis).__name__}"
        if is_foreign(G):
            return check_foreign(name, G, min_samples)
        return check_array(
            G,
            accept_sparse=["csr", "csc"],
            dtype=FLOATS,
            ensure_min_samples=min_samples,
            input_name=name,
            estimator=self,
        )
