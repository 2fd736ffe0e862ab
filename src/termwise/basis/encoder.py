"""Tables as people have them: numbers and categories in named columns."""

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

CATEGORICAL = ("category", "Categorical", "Enum")  # how pandas and polars call their types of categories
NUMERIC = re.compile(r"u?int\d|float\d|bool|decimal", re.IGNORECASE)  # and those of numbers


class TableEncoder(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Turn a data frame into numbers: columns of a categorical type become one column of 0 and 1 per category.

    Columns of any other type must be numbers. A category not seen in `fit` is none of the known ones. Missing values
    are an error that names the columns. Plain arrays pass through.

    Attributes
    ----------
    categories_ : dict
        The categories of each categorical column, by its name, in ascending order.
    n_features_in_, feature_names_in_ : int, ndarray
        Number and names of the columns; names only if they are text, `x0`, `x1`, ... stand for them elsewhere.

    Notes
    -----
    Use it as the first step of a basis, `make_pipeline(TableEncoder(), AnovaBasis())`, wherever a table has columns
    that are no numbers. pandas and polars give the same columns for the same table. The result is float32 if all
    columns of numbers are, float64 otherwise.

    Text is no category by itself: whether `"17"` names a kind or was a number once, only the owner of the table knows.

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
        """Learn the categories.

        Parameters
        ----------
        X : data frame or array-like of shape (n, d)
            The table.
        y : ignored
            Present for scikit-learn's conventions.
        """
        if not is_frame(X):
            self._check_array(X, reset=True)
            self.categories_ = {}
            return self
        columns = self._columns(X, reset=True)
        kinds = {name: column for name, column in columns.items() if is_categorical(column)}
        check_numbers({name: column for name, column in columns.items() if name not in kinds})
        check_complete(columns, kinds)
        self.categories_ = {name: ascending(column.unique()) for name, column in kinds.items()}
        check_different(self.get_feature_names_out())
        return self

    def transform(self, X: Any) -> NDArray:
        """Return the table as numbers.

        Parameters
        ----------
        X : data frame or array-like of shape (n, d)
            The table.
        """
        check_is_fitted(self, "categories_")
        if not is_frame(X):
            return self._check_array(X, reset=False)
        columns = self._columns(X, reset=False)
        numbers = {name: column for name, column in columns.items() if name not in self.categories_}
        check_numbers(numbers)
        check_complete(columns, self.categories_)
        single = numbers and all(str(column.dtype).lower() == "float32" for column in numbers.values())
        parts = [
            as_numbers(column) if name in numbers else memberships(column, self.categories_[name])
            for name, column in columns.items()
        ]
        return np.column_stack(parts).astype(np.float32 if single else np.float64, copy=False)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns: those of numbers as they are, of categories `column=category`.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of the table; by default those seen in `fit`, or `x0`, `x1`, ...
        """
        blocks = self.blocks(input_features)
        names = [[name] if kinds is None else [f"{name}={kind}" for kind in kinds] for name, kinds in blocks]
        return np.array([name for block in names for name in block], dtype=object)

    def blocks(self, input_features: ArrayLike | None = None) -> list[tuple[str, list[Any] | None]]:
        """Return what each column of the table becomes: its name and its categories, None for a column of numbers.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of the table; by default those seen in `fit`, or `x0`, `x1`, ...
        """
        check_is_fitted(self, "categories_")
        names = super().get_feature_names_out(input_features)
        return [(str(name), self.categories_.get(key)) for name, key in zip(names, self._keys(), strict=True)]

    def _keys(self) -> list[str]:
        """Names of the columns as `fit` saw them."""
        return [str(name) for name in super().get_feature_names_out()]

    def _check_array(self, X: Any, reset: bool) -> NDArray:
        if not reset and self.categories_:
            raise ValueError(
                f"X must be a data frame as in fit, got {type(X).__name__}: numbers alone do not tell the categories "
                f"of {listing(self.categories_)}."
            )
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=reset, ensure_all_finite=False)
        refuse_holes(self._keys()[j] for j in np.flatnonzero(~np.isfinite(X).all(axis=0)))
        return X

    def _columns(self, X: Any, reset: bool) -> dict[str, Any]:
        """Take a frame apart into its columns, by the names they go by here."""
        check_different(X.columns)
        if 0 in X.shape:
            raise ValueError(f"X must have at least one row and one column, got shape {X.shape}: give some data.")
        validate_data(self, X, skip_check_array=True, reset=reset)
        return {key: X[name] for key, name in zip(self._keys(), X.columns, strict=True)}


def is_frame(X: Any) -> bool:
    """Whether X has named columns that may differ in type."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def is_categorical(column: Any) -> bool:
    """Whether a column of a frame is of a categorical type."""
    return str(column.dtype).startswith(CATEGORICAL)


def is_missing(column: Any) -> NDArray[np.bool_]:
    """Which values of a column are not there: None, NaN, NA or null."""
    return np.asarray(column.isna() if hasattr(column, "isna") else column.is_null(), dtype=bool)


def is_numeric(column: Any) -> bool:
    """Whether a column holds numbers; text that looks like numbers does not count."""
    if NUMERIC.match(str(column.dtype)):
        return True
    there = np.asarray(column, dtype=object)[~is_missing(column)]
    return all(isinstance(value, Real | Decimal) for value in there)


def as_numbers(column: Any) -> NDArray[np.float64]:
    """Return a complete column of numbers in float64."""
    return np.asarray(column, dtype=np.float64)


def memberships(column: Any, categories: list[Any]) -> NDArray[np.float64]:
    """One column of 0 and 1 per category."""
    values = np.asarray(column, dtype=object)
    return np.column_stack([values == category for category in categories]).astype(np.float64)


def ascending(values: Any) -> list[Any]:
    """Return values in their own order, or that of how they are written if they have none."""
    values = list(np.asarray(values, dtype=object))
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=str)


def check_numbers(columns: dict[str, Any]) -> None:
    """Raise unless all these columns hold numbers."""
    words = [name for name, column in columns.items() if not is_numeric(column)]
    kinds = [name for name in words if is_categorical(columns[name])]
    if kinds:
        raise ValueError(
            f"X must hold numbers where it did in fit, got categories in {listing(kinds)}: give numbers, or fit again."
        )
    if words:
        raise ValueError(
            f"X must hold numbers or categories, got something else in {listing(words)}: make it a categorical "
            "column, with astype('category') in pandas or cast(pl.Categorical) in polars, or drop it."
        )


def check_complete(columns: dict[str, Any], kinds: Iterable[str]) -> None:
    """Raise unless every value is there, and every number finite."""
    refuse_holes(
        name
        for name, column in columns.items()
        if is_missing(column).any() or (name not in kinds and not np.isfinite(as_numbers(column)).all())
    )


def refuse_holes(names: Iterable[str]) -> None:
    """Raise if there are columns with missing values."""
    if names := list(names):
        raise ValueError(
            f"X must not have missing values (NaN, inf or null), got some in {listing(names)}: fill them, with "
            "scikit-learn's SimpleImputer for example, or drop those rows."
        )


def check_different(names: Iterable[Any]) -> None:
    """Raise unless all names of columns differ."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"X must have columns of different names, a category's being column=category, got {listing(repeated)} more "
            "than once: rename all but one."
        )


def listing(names: Iterable[Any]) -> str:
    """Write names one after the other."""
    return ", ".join(str(name) for name in names)
