"""Tables as people have them: numbers and categories in named columns."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

CATEGORICAL = ("category", "Categorical", "Enum")  # how pandas and polars call their types of categories
NUMERIC = ("int", "uint", "float", "bool", "decimal")  # and those of numbers, in lower case


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn a data frame into numbers: columns of a categorical type become one column of 0 and 1 per category.

    Columns of any other type must be numbers. A category not seen in `fit` is none of the known ones. Missing values
    are an error that names the columns. Plain arrays pass through.

    Attributes
    ----------
    categories_ : dict
        The categories of each categorical column, by its name.

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

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the categories.

        Parameters
        ----------
        X : data frame or array-like of shape (n, d)
            The table.
        y : ignored
            Present for scikit-learn's conventions.
        """
        X = self._check(X, reset=True)
        self.categories_: dict[str, list[Any]] = {}
        for name in categorical_columns(X):
            values = np.asarray(X[name], dtype=object)
            self.categories_[name] = sorted({value for value in values if not _missing(value)}, key=str)
        return self

    def transform(self, X: Any) -> NDArray:
        """Return the table as numbers.

        Parameters
        ----------
        X : data frame or array-like of shape (n, d)
            The table.
        """
        check_is_fitted(self)
        X = self._check(X, reset=False)
        if not is_frame(X):
            return X
        columns = []
        for name in X.columns:
            if name in self.categories_:
                values = np.asarray(X[name], dtype=object)
                columns += [(values == category).astype(np.float64) for category in self.categories_[name]]
            else:
                columns.append(_numbers(X[name]))
        return np.column_stack(columns)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns: those of numbers as they are, of categories `column=category`.

        Parameters
        ----------
        input_features : ignored
            Present for scikit-learn's conventions.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        expanded = [
            [f"{name}={category}" for category in self.categories_[name]] if name in self.categories_ else [str(name)]
            for name in names
        ]
        return np.array([name for part in expanded for name in part], dtype=object)

    def _check(self, X: Any, reset: bool) -> Any:
        """Check the columns one by one, so that an error can say which."""
        if not is_frame(X):
            X = validate_data(self, X, dtype=[np.float64, np.float32], reset=reset, ensure_all_finite=False)
            self._refuse_holes([f"x{j}" for j in np.flatnonzero(~np.isfinite(X).all(axis=0))])
            return X
        validate_data(self, X, skip_check_array=True, reset=reset)
        known = categorical_columns(X) if reset else self.categories_
        words = [str(name) for name in X.columns if name not in known and not _numeric(X[name])]
        if words:
            raise ValueError(
                f"X must hold numbers or categories, got something else in {', '.join(words)}: make it a categorical "
                "column, with astype('category') in pandas or cast(pl.Categorical) in polars, or drop it."
            )
        self._refuse_holes([str(name) for name in X.columns if _has_holes(X[name], name in known)])
        return X

    def _refuse_holes(self, columns: list[str]) -> None:
        if columns:
            raise ValueError(
                f"X must not have missing values (NaN, inf or null), got some in {', '.join(columns)}: fill them, with "
                "scikit-learn's SimpleImputer for example, or drop those rows."
            )


def is_frame(X: Any) -> bool:
    """Whether X has named columns that may differ in type."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def categorical_columns(X: Any) -> list[Any]:
    """Names of the columns of a categorical type."""
    if not is_frame(X):
        return []
    return [name for name in X.columns if str(X[name].dtype).startswith(CATEGORICAL)]


def _numeric(column: Any) -> bool:
    """Whether a column holds numbers; text that looks like numbers does not count."""
    if str(column.dtype).lower().startswith(NUMERIC):
        return True
    return all(isinstance(value, Real) or value is None for value in np.asarray(column, dtype=object))


def _numbers(column: Any) -> NDArray[np.float64]:
    """The column in float64, missing values as NaN."""
    return np.asarray(column.astype("float64") if hasattr(column, "astype") else column, dtype=np.float64)


def _missing(value: Any) -> bool:
    return value is None or value != value


def _has_holes(column: Any, categorical: bool) -> bool:
    if categorical:
        return any(_missing(value) for value in np.asarray(column, dtype=object))
    return not np.isfinite(_numbers(column)).all()
