"""pandas data frames as plain arrays, for formats that store NumPy arrays but no frames, such as that of skops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class StoredColumn:
    """A column of a pandas frame.

    Attributes
    ----------
    dtype : str
        Name of the type in pandas.
    values : ndarray or list
        Values, of a categorical column the positions of its categories.
    categories : list or None
        The categories.
    ordered : bool
        Whether their order is declared.
    """

    dtype: str
    values: NDArray[Any] | list[Any]
    categories: list[Any] | None = None
    ordered: bool = False

    @classmethod
    def from_series(cls, series: Any) -> StoredColumn:
        """Read a column; missing values of strings and of nullable types become None."""
        dtype = str(series.dtype)
        if dtype == "category":
            categorical = series.cat
            return cls(dtype, categorical.codes.to_numpy(), categorical.categories.tolist(), categorical.ordered)
        if isinstance(series.dtype, np.dtype) and dtype != "object":
            return cls(dtype, series.to_numpy())
        if getattr(series.dtype, "tz", None) is not None:
            return cls(dtype, series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
        return cls(dtype, series.astype(object).where(series.notna(), None).tolist())

    def to_series(self, pandas: Any) -> Any:
        """Return the column."""
        if self.categories is not None:
            codes = pandas.Categorical.from_codes(self.values, self.categories, ordered=self.ordered)
            return pandas.Series(codes)
        if isinstance(self.values, np.ndarray) and str(self.values.dtype) != self.dtype:  # a time zone
            return pandas.Series(self.values).dt.tz_localize("UTC").astype(self.dtype)
        return pandas.Series(self.values, dtype=self.dtype)


@dataclass(frozen=True)
class StoredFrame:
    """The columns of a pandas frame and their names; the index is dropped."""

    names: list[Any]
    columns: list[StoredColumn]

    @classmethod
    def from_frame(cls, frame: Any) -> StoredFrame:
        """Read a frame."""
        columns = [StoredColumn.from_series(frame.iloc[:, j]) for j in range(frame.shape[1])]
        return cls(list(frame.columns), columns)

    def to_frame(self) -> Any:
        """Return the frame, or None where pandas is not installed."""
        try:
            import pandas
        except ImportError:
            return None
        frame = pandas.concat([column.to_series(pandas) for column in self.columns], axis=1)
        return frame.set_axis(self.names, axis=1)
