"""Encode data frames as numbers: indicator columns for categories and missing values, parts of dates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from termwise._checks import check_choice, check_magnitudes, check_names, check_number, check_table, is_frame, warn
from termwise.basis.columns import DATE_PARTS, as_days, as_numbers, column_kind, date_part, is_missing

Floats = NDArray[np.float64]

# What an encoded column is, if not the indicator of a category or a part of a date, whose numbers are from 0 on: the
# number itself (of an ordered category its position), the indicator of missing values, the position of a category
# with missing values as the last one, and the indicator of all categories that are not listed.
VALUE, MISSING, LEVEL, OTHER = -1, -2, -3, -4
UNSEEN = -1.0  # position of a category that was not seen in fit


@dataclass(frozen=True)
class ColumnEncoding:
    """How a column of a table is encoded.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : {"number", "category", "date"}
        Type of its values.
    categories : tuple
        Categories of a categorical column that have an encoding of their own.
    others : tuple
        Its other categories, which are rare and share one indicator.
    missing : bool
        Whether it had missing values in `fit`, and may have some later.
    codes : tuple of int
        The encoded columns: `VALUE`, `MISSING`, `LEVEL`, `OTHER`, or the number of a category or of a part of a date.
    unseen : float
        Position of categories that were not seen in `fit`.
    fill : float or None
        Value in place of missing ones, if there were none in `fit`; None: a missing value is an error.
    """

    name: str
    kind: str
    categories: tuple[Any, ...] = ()
    missing: bool = False
    codes: tuple[int, ...] = (VALUE,)
    unseen: float = UNSEEN
    fill: float | None = None
    others: tuple[Any, ...] = ()

    def read(self, column: Any) -> Floats:
        """Return the values of a column as numbers, positions of categories, or days; NaN where they are missing."""
        if self.kind == "number":
            return as_numbers(column)
        return as_days(column) if self.kind == "date" else positions(column, self.categories, self.unseen)

    def with_fill(self, values: NDArray[Any]) -> ColumnEncoding:
        """Return the encoding that fills in the mean of these values, as read, or an unseen category."""
        if self.missing:
            return self
        return replace(self, fill=self.unseen if self.kind == "category" else float(values.mean(dtype=np.float64)))

    def names(self, name: str) -> list[str]:
        """Return the names of the encoded columns of a column of this name."""
        return [name_encoded(name, code, self.kind, self.categories) for code in self.codes]


def name_encoded(name: str, code: int, kind: str, categories: Iterable[Any]) -> str:
    """Return the name of an encoded column."""
    words = list(map(str, categories))
    if code >= 0:
        return f"{DATE_PARTS[code]}({name})" if kind == "date" else f"{name}={words[code]}"
    if code in (MISSING, OTHER):
        word = "missing" if code == MISSING else "other"
        return f"{name}={word}" if kind == "category" and word not in words else f"{word}({name})"
    return name


def encode(numbers: Floats, code: int, kind: str, n_categories: int) -> NDArray[Any]:
    """Return an encoded column of values as `ColumnEncoding.read` returns them."""
    if code >= 0:
        return date_part(numbers, code) if kind == "date" else numbers == code
    if code == VALUE:
        return numbers
    if code == LEVEL:
        return np.where(np.isnan(numbers), n_categories, numbers)
    return np.isnan(numbers) if code == MISSING else numbers == UNSEEN


class TableEncoder(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Encode a data frame as numbers: categories and missing values become indicator columns, dates their parts.

    - Numbers and booleans stay as they are.
    - Categories, that is columns of a categorical type or of strings, become one indicator column per category. A
      category with a declared order (an ordered Categorical of pandas) becomes its position in this order instead.
    - Dates and times become the elapsed time in years, the year, sine and cosine of the season, the weekday (0 on
      Mondays) and, where there are times, the hour.
    - Missing values (NaN, None, null) of numbers and dates stay missing, NaN, beside an indicator `missing(column)`;
      those of categories are a category of their own, `column=missing`.

    Plain arrays of numbers are encoded in the same way.

    Parameters
    ----------
    missing : {"indicator", "error"}, default="indicator"
        What to do with missing values: encode them, or raise an error that names the columns.
    max_levels : int or None, default=None
        Categories with more levels than this are encoded as one column: the number of the level, for `LevelMeans` to
        replace by means of the targets. None: all have indicators.
    min_count : int, default=1
        Categories of fewer samples than this share one indicator, `column=other`.
    new_missing : {"error", "warn", "mean"}, default="error"
        What to do with a missing value in a column that had none in `fit`, of which no effect is known: raise an error
        that names the column ("error"), or put it at the mean of the column in `fit`, and a category with those not
        seen, with a warning that names the column ("warn") or without ("mean"). The latter two are for
        cross-validation of tables in which few values are missing.

    Attributes
    ----------
    categories_ : dict
        The categories of each categorical column, by its name, in ascending or in their declared order.
    encodings_ : list of ColumnEncoding
        How each column is encoded.
    n_features_in_, feature_names_in_ : int, ndarray
        Number and names of the columns; names only if they are strings.

    Notes
    -----
    Use it as the first step of a basis, `make_pipeline(TableEncoder(), AnovaBasis())`, wherever a table has
    categories, dates or missing values. pandas and polars give the same columns for the same table. The result is
    float32 if all numeric columns are, float64 otherwise.

    A category not seen in `fit` has zero in all indicators; it is `column=other` if there is such a column, and at the
    mean position of the samples in an ordered category. `count_unseen` counts them.

    Strings that look like numbers are categories, too: convert such columns before. Columns of identifiers are found by
    `id_columns`.

    Examples
    --------
    >>> import pandas as pd
    >>> from termwise.basis import TableEncoder
    >>> table = pd.DataFrame({"size": [1.0, None, 3.0], "kind": ["a", "b", "a"]})
    >>> TableEncoder().fit_transform(table)
    array([[ 1.,  0.,  1.,  0.],
           [nan,  1.,  0.,  1.],
           [ 3.,  0.,  1.,  0.]])
    >>> list(TableEncoder().fit(table).get_feature_names_out())
    ['size', 'missing(size)', 'kind=a', 'kind=b']
    """

    categories_: dict[str, list[Any]]

    def __init__(
        self,
        missing: str = "indicator",
        max_levels: int | None = None,
        min_count: int = 1,
        new_missing: str = "error",
    ) -> None:
        self.missing = missing
        self.max_levels = max_levels
        self.min_count = min_count
        self.new_missing = new_missing

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = self.missing == "indicator"
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the categories, and which columns have missing values.

        Parameters
        ----------
        X : data frame or array-like of shape (n, d)
            The table.
        y : ignored
            Present for scikit-learn's conventions.
        """
        check_choice("missing", self.missing, ["indicator", "error"], remedy="'error' refuses missing values")
        if self.max_levels is not None:
            check_number("max_levels", self.max_levels, low=1, integer=True, remedy="20 suits most data")
        check_number("min_count", self.min_count, low=1, integer=True, remedy="1 groups nothing")
        check_choice(
            "new_missing", self.new_missing, ["error", "warn", "mean"], remedy="'mean' puts them at the mean in fit"
        )
        table = self._validate(X, reset=True)
        if isinstance(table, dict):
            kinds = {key: column_kind(column) for key, column in table.items()}
            if others := [key for key, kind in kinds.items() if kind is None]:
                raise ValueError(
                    f"X must hold numbers, categories, strings or dates, got something else in {listing(others)}: make "
                    "it a categorical column, with astype('category') in pandas or cast(pl.Categorical) in polars, or "
                    "drop it."
                )
            encodings = [self._encoding(key, column, str(kinds[key])) for key, column in table.items()]
        else:
            keys, missing = super().get_feature_names_out(), np.isnan(table).any(axis=0).tolist()
            pairs = zip(map(str, keys), missing, strict=True)
            encodings = [ColumnEncoding(key, "number", (), some, (VALUE,) + (MISSING,) * some) for key, some in pairs]
        values = self._read(table, encodings)
        check_magnitudes("X", values, [encoding.name for encoding in encodings])
        if self.new_missing != "error":
            encodings = [encoding.with_fill(column) for encoding, column in zip(encodings, values.T, strict=True)]
        check_names(name for encoding in encodings for name in encoding.names(encoding.name))
        self.encodings_ = encodings
        self.categories_ = {
            encoding.name: list(encoding.categories) for encoding in encodings if encoding.kind == "category"
        }
        return self

    def _encoding(self, key: str, column: Any, kind: str) -> ColumnEncoding:
        """Determine how to encode a column: of categories, which ones there are."""
        missing = bool((np.isnan(as_numbers(column)) if kind == "number" else is_missing(column)).any())
        last = (MISSING,) * missing
        if kind == "number":
            return ColumnEncoding(key, kind, (), missing, (VALUE, *last))
        if kind == "date":
            days = as_days(column)
            parts = range(len(DATE_PARTS) - bool(np.all(np.isnan(days) | (days == np.floor(days)))))
            return ColumnEncoding(key, kind, (), missing, (*parts, *last))
        counts = Counter(np.asarray(column, dtype=object)[~is_missing(column)])
        if kind == "ordered":
            declared = tuple(column.cat.categories)
            unseen = np.nanmean([*positions(column, declared, UNSEEN), np.nan if counts else 0.0])
            return ColumnEncoding(key, "category", declared, missing, (VALUE, *last), float(unseen))
        many = self.max_levels is not None and len(counts) > self.max_levels
        listed = [value for value in counts if many or counts[value] >= self.min_count]
        try:
            categories = tuple(sorted(listed))
        except TypeError:  # of several types
            categories = tuple(sorted(listed, key=str))
        if many:
            return ColumnEncoding(key, kind, categories, missing, (LEVEL,))
        others = tuple(value for value in counts if counts[value] < self.min_count)
        codes = (*range(len(categories)), *((OTHER,) if others else ()), *last)
        return ColumnEncoding(key, kind, categories, missing, codes, others=others)

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the table as numbers, NaN where numbers and dates are missing.

        Parameters
        ----------
        X : data frame or array-like of shape (n, d)
            The table.
        """
        check_is_fitted(self, "categories_")
        table = self._validate(X, reset=False)
        values = self._read(table, self.encodings_)
        if not isinstance(table, dict) and all(encoding.codes == (VALUE,) for encoding in self.encodings_):
            return values
        parts = [
            encode(numbers, code, encoding.kind, len(encoding.categories))
            for encoding, numbers in zip(self.encodings_, values.T, strict=True)
            for code in encoding.codes
        ]
        return np.column_stack(parts).astype(values.dtype, copy=False)

    def expect_missing(self, missing: NDArray[np.bool_]) -> Self:
        """Accept missing values in more columns than had some in `fit`, in place; these have no indicator.

        Parameters
        ----------
        missing : ndarray of bool of shape (d,)
            Columns that may have missing values.
        """
        pairs = zip(self.encodings_, missing, strict=True)
        self.encodings_ = [replace(encoding, missing=encoding.missing or bool(some)) for encoding, some in pairs]
        return self

    def exclude(self, names: Iterable[str]) -> Self:
        """Leave out columns, in place: they must be there, but have no encoded columns, and may hold anything.

        Parameters
        ----------
        names : iterable of str
            Names of columns, such as those that `id_columns` finds.
        """
        names = set(names)
        self.encodings_ = [
            replace(encoding, categories=(), codes=(), missing=True) if encoding.name in names else encoding
            for encoding in self.encodings_
        ]
        self.categories_ = {name: values for name, values in self.categories_.items() if name not in names}
        return self

    def count_unseen(self, X: Any) -> dict[str, int]:
        """Return how many rows have a category that was not seen in `fit`, by the names of columns that have some.

        Parameters
        ----------
        X : data frame or array-like of shape (n, d)
            The table.
        """
        check_is_fitted(self, "categories_")
        table = self._validate(X, reset=False)
        counts: dict[str, int] = {}
        for encoding in self.encodings_:
            if encoding.kind == "category" and encoding.codes:
                known = (*encoding.categories, *encoding.others)
                count = int(np.sum(positions(table[encoding.name], known, UNSEEN) == UNSEEN))
                counts |= {encoding.name: count} if count else {}
        return counts

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the encoded columns.

        Numbers keep theirs; indicators are `column=category` and `missing(column)`, parts of dates `year(column)`.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of the table; by default those seen in `fit`, or `x0`, `x1`, ...
        """
        check_is_fitted(self, "categories_")
        names = super().get_feature_names_out(input_features)
        pairs = zip(self.encodings_, names, strict=True)
        return np.array([each for encoding, name in pairs for each in encoding.names(str(name))], dtype=object)

    def groups(self) -> NDArray[np.intp]:
        """Return the number of the table's column that each encoded column comes from.

        Products of two encoded columns of one column have no meaning: `AnovaBasis(groups=encoder.groups())` makes none.
        """
        check_is_fitted(self, "categories_")
        sizes = [len(encoding.codes) for encoding in self.encodings_]
        return np.repeat(np.arange(len(sizes)), sizes)

    def level_columns(self) -> NDArray[np.intp]:
        """Return the encoded columns that are numbers of levels, see `max_levels`: those that `LevelMeans` replaces."""
        check_is_fitted(self, "categories_")
        return np.flatnonzero([code == LEVEL for encoding in self.encodings_ for code in encoding.codes])

    def inputs_of(self, indices: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the column of the table that each of some encoded columns comes from.

        Parameters
        ----------
        indices : ndarray of int
            Which encoded columns.
        """
        return [(int(j),) for j in self.groups()[indices]]

    def blocks(self, input_features: ArrayLike | None = None) -> list[tuple[str, list[Any] | None]]:
        """Return the name and the categories of each block of encoded columns, None for a single column of numbers.

        All indicators of a category are one block; `missing(column)` and each part of a date are blocks of their own. A
        category with more than `max_levels` is a block of one column, the position in its categories. Columns that are
        left out (`exclude`) have no block.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of the table; by default those seen in `fit`, or `x0`, `x1`, ...
        """
        check_is_fitted(self, "categories_")
        found: list[tuple[str, list[Any] | None]] = []
        for encoding, name in zip(self.encodings_, super().get_feature_names_out(input_features), strict=True):
            if encoding.codes[:1] == (LEVEL,):
                found.append((str(name), [*encoding.categories, *(("missing",) if encoding.missing else ())]))
            elif encoding.kind == "category" and encoding.codes and encoding.codes[0] != VALUE:
                words = {OTHER: "other", MISSING: "missing"}
                found.append((str(name), [words.get(code) or encoding.categories[code] for code in encoding.codes]))
            else:
                found += [(each, None) for each in encoding.names(str(name))]
        return found

    def _validate(self, X: Any, reset: bool) -> Any:
        """Return a valid array, or the columns of a valid frame by name, `x0`, `x1`, ... where names are no strings."""
        X = check_table(X)
        if is_frame(X):
            if 0 in X.shape:
                raise ValueError(f"X must have at least one row and one column, got shape {X.shape}: give some data.")
            validate_data(self, X, skip_check_array=True, reset=reset)
            return dict(zip(map(str, super().get_feature_names_out()), (X[name] for name in X.columns), strict=True))
        if not reset and (others := [encoding.name for encoding in self.encodings_ if encoding.kind != "number"]):
            raise ValueError(
                f"X must be a data frame as in fit, got {type(X).__name__}: an array of numbers does not hold the "
                f"categories or dates of {listing(others)}."
            )
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=reset, ensure_all_finite=False)

    def _read(self, table: Any, encodings: list[ColumnEncoding]) -> NDArray[Any]:
        """Return the values of a valid table as numbers, positions and days, (n, d); raise if some must not be."""
        values = table
        if isinstance(table, dict):
            _check_numbers(table, encodings)
            kinds = {str(table[encoding.name].dtype).lower() for encoding in encodings if encoding.kind == "number"}
            single = kinds == {"float32"} and all(encoding.kind != "date" for encoding in encodings)
            values = np.column_stack([encoding.read(table[encoding.name]) for encoding in encodings])
            values = values.astype(np.float32 if single else np.float64, copy=False)
        if np.isfinite(values).all():
            return values
        missing, infinite = np.isnan(values).any(axis=0), np.isinf(values).any(axis=0)
        names = np.array([encoding.name for encoding in encodings], dtype=object)
        if self.missing == "error":
            raise ValueError(
                f"X must not have missing values (NaN, inf or null), got some in {listing(names[missing | infinite])}: "
                "fill them, with scikit-learn's SimpleImputer for example, or drop those rows."
            )
        if infinite.any():
            raise ValueError(
                f"X must be finite or missing, got infinity in {listing(names[infinite])}: correct it, or make it NaN "
                "if it stands for a missing value."
            )
        new = missing & ~np.array([encoding.missing for encoding in encodings])
        if new.any() and self.new_missing == "warn":
            warn(
                f"X has missing values in {listing(names[new])}, which had none in fit: the mean in fit is taken for "
                "them, for a category one not seen. Fit with rows in which they are missing to learn their effect.",
                UserWarning,
            )
        if new.any() and self.new_missing != "error":
            fills = np.array(
                [np.nan if encoding.fill is None else encoding.fill for encoding in encodings], dtype=values.dtype
            )
            return np.where(np.isnan(values), fills, values)
        if new.any():
            raise ValueError(
                f"X must be complete in columns that had no missing values in fit, got some in {listing(names[new])}: "
                "fill them, or fit with rows in which they are missing."
            )
        return values


def positions(column: Any, categories: Iterable[Any], unseen: float) -> Floats:
    """Return the positions of the categories of a column, NaN where one is missing."""
    place = {category: float(i) for i, category in enumerate(categories)}
    found = np.array([place.get(value, unseen) for value in np.asarray(column, dtype=object)])
    return np.where(is_missing(column), np.nan, found)


def listing(names: Iterable[Any]) -> str:
    """Return names separated by commas."""
    return ", ".join(str(name) for name in names)


def _check_numbers(columns: dict[str, Any], encodings: list[ColumnEncoding]) -> None:
    """Raise unless columns of numbers hold numbers, and those of dates dates."""
    for kind, allowed in (("number", ["number"]), ("date", ["date", "category"])):
        names = [encoding.name for encoding in encodings if encoding.kind == kind]
        others = [name for name in names if column_kind(columns[name]) not in allowed]
        others = [name for name in others if not is_missing(columns[name]).all()]
        if others:
            raise ValueError(
                f"X must hold {kind}s where it did in fit, got something else in {listing(others)}: give {kind}s, or "
                "fit again."
            )
