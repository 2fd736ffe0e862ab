"""Encode data frames as numbers: indicator columns for categories."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

CATEGORICAL = ("category", "Categorical", "Enum")  # names of the categorical types of pandas and polars
NUMERIC = re.compile(r"u?int\d|float\d|bool|decimal", re.IGNORECASE)  # and of numeric types


class TableEncoder(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Encode a data frame as numbers: a column of a categorical type becomes one indicator column per category.

    Columns of any other type must be numeric. All indicators are 0 for a category not seen in `fit`. Missing values are
    an error that names the columns. Plain arrays pass through.

    Attributes
    ----------
    categories_ : dict
        The categories of each categorical column, by its name, in ascending order.
    n_features_in_, feature_names_in_ : int, ndarray
        Number and names of the columns; names only if they are strings.

    Notes
    -----
    Use it as the first step of a basis, `make_pipeline(TableEncoder(), AnovaBasis())`, wherever a table has
    categorical columns. pandas and polars give the same columns for the same table. The result is float32 if all
    numeric columns are, float64 otherwise.

    Strings are no categories by default: `"17"` may be a category or a number.

    Examples
    --------
    >>> import pandas as pd
    >>> from termwise.basis import TableEncoder
    >>> table = pd.DataFrame({"size": [1.0, 2.0, 3.0], "kind": pd.Categorical(["a", "b", "a"])})
    >>> TableEncoder().fit_transform(table)
    array([[1., 1., 0.],
           [2., 0., 1.],
           [3., 1., 0.]])
    >>> list(TableEncoder().fit(table).get_feature_names_out())
    ['size', 'kind=a', 'kind=b']
    """

    categories_: dict[str, list[Any]]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the categories.

        Parameters
        ----------
        X : data frame or array-like of shape (n, d)
            The table.
        y : ignored
            Present for scikit-learn's conventions.
        """
        columns = self._validate(X, reset=True)
        categorical = _categorical_columns(columns) if is_frame(X) else {}
        self.categories_ = {}
        for key, column in categorical.items():
            values = list(np.asarray(column.unique(), dtype=object))
            try:
                self.categories_[key] = sorted(values)
            except TypeError:  # of several types
                self.categories_[key] = sorted(values, key=str)
        _check_names(self.get_feature_names_out())
        return self

    def transform(self, X: Any) -> NDArray:
        """Return the table as numbers.

        Parameters
        ----------
        X : data frame or array-like of shape (n, d)
            The table.
        """
        check_is_fitted(self, "categories_")
        columns = self._validate(X, reset=False)
        if not is_frame(X):
            return columns
        numeric = [str(column.dtype).lower() for key, column in columns.items() if key not in self.categories_]
        parts = []
        for key, column in columns.items():
            if key in self.categories_:
                values = np.asarray(column, dtype=object)
                parts += [values == category for category in self.categories_[key]]
            else:
                parts.append(np.asarray(column, dtype=np.float64))
        dtype = np.float32 if numeric and set(numeric) == {"float32"} else np.float64
        return np.column_stack(parts).astype(dtype, copy=False)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the encoded columns: numeric ones unchanged, indicators as `column=category`.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of the table; by default those seen in `fit`, or `x0`, `x1`, ...
        """
        blocks = self.blocks(input_features)
        names = [[name] if kinds is None else [f"{name}={kind}" for kind in kinds] for name, kinds in blocks]
        return np.array([name for block in names for name in block], dtype=object)

    def inputs_of(self, indices: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the column of the table that each of some encoded columns comes from.

        Parameters
        ----------
        indices : ndarray of int
            Which encoded columns.
        """
        sizes = [1 if categories is None else len(categories) for _, categories in self.blocks()]
        return [(int(j),) for j in np.repeat(np.arange(len(sizes)), sizes)[indices]]

    def blocks(self, input_features: ArrayLike | None = None) -> list[tuple[str, list[Any] | None]]:
        """Return the name and the categories of each column of the table, None for a numeric column.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of the table; by default those seen in `fit`, or `x0`, `x1`, ...
        """
        check_is_fitted(self, "categories_")
        names, keys = super().get_feature_names_out(input_features), super().get_feature_names_out()
        return [(str(name), self.categories_.get(str(key))) for name, key in zip(names, keys, strict=True)]

    def _validate(self, X: Any, reset: bool) -> Any:
        """Return a valid array, or the columns of a valid frame by name, `x0`, `x1`, ... where names are no strings."""
        if is_frame(X):
            _check_names(X.columns)
            if 0 in X.shape:
                raise ValueError(f"X must have at least one row and one column, got shape {X.shape}: give some data.")
            validate_data(self, X, skip_check_array=True, reset=reset)
            values = dict(zip(map(str, super().get_feature_names_out()), (X[name] for name in X.columns), strict=True))
            categorical = _categorical_columns(values) if reset else self.categories_
            numeric = {key: column for key, column in values.items() if key not in categorical}
            _check_numeric(numeric)
            missing = [
                key
                for key, column in values.items()
                if is_missing(column).any()
                or (key in numeric and not np.isfinite(np.asarray(column, dtype=np.float64)).all())
            ]
        else:
            if not reset and self.categories_:
                raise ValueError(
                    f"X must be a data frame as in fit, got {type(X).__name__}: an array of numbers does not hold the "
                    f"categories of {listing(self.categories_)}."
                )
            values = validate_data(self, X, dtype=[np.float64, np.float32], reset=reset, ensure_all_finite=False)
            missing = list(super().get_feature_names_out()[~np.isfinite(values).all(axis=0)])
        if missing:
            raise ValueError(
                f"X must not have missing values (NaN, inf or null), got some in {listing(missing)}: fill them, with "
                "scikit-learn's SimpleImputer for example, or drop those rows."
            )
        return values


def is_frame(X: Any) -> bool:
    """Whether X has named columns that may differ in type."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def is_missing(column: Any) -> NDArray[np.bool_]:
    """Which values of a column are missing: None, NaN, NA or null."""
    return np.asarray(column.isna() if hasattr(column, "isna") else column.is_null(), dtype=bool)


def is_numeric(column: Any) -> bool:
    """Whether a column holds numbers; strings that look like numbers are none."""
    if NUMERIC.match(str(column.dtype)):
        return True
    present = np.asarray(column, dtype=object)[~is_missing(column)]
    return all(isinstance(value, Real | Decimal) for value in present)


def listing(names: Iterable[Any]) -> str:
    """Return names separated by commas."""
    return ", ".join(str(name) for name in names)


def _categorical_columns(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a categorical type."""
    return {key: column for key, column in columns.items() if str(column.dtype).startswith(CATEGORICAL)}


def _check_numeric(columns: dict[str, Any]) -> None:
    """Raise unless all columns hold numbers."""
    others = {key: column for key, column in columns.items() if not is_numeric(column)}
    if categorical := _categorical_columns(others):
        raise ValueError(
            f"X must hold numbers where it did in fit, got categories in {listing(categorical)}: give numbers, or fit "
            "again."
        )
    if others:
        raise ValueError(
            f"X must hold numbers or categories, got something else in {listing(others)}: make it a categorical "
            "column, with astype('category') in pandas or cast(pl.Categorical) in polars, or drop it."
        )


def _check_names(names: Iterable[Any]) -> None:
    """Raise unless all names of columns differ."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"X must have columns of different names, a category's being column=category, got {listing(repeated)} more "
            "than once: rename all but one."
        )
