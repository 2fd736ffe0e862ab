"""Validation at the edge. Every message names the parameter, the requirement, the value got and the remedy."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from numbers import Integral, Real
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from termwise._arrays import all_finite, is_foreign, magnitude, namespace, precision, to_host
from termwise._numerics import FLOAT64, MAGNITUDE_RANGE, SAMPLE_WEIGHT_MAX, SAMPLE_WEIGHT_SHARE, NumericalWarning

NUMERIC_DTYPE = re.compile("u?int|float|double|bool", re.IGNORECASE)  # of a column of a data frame
NO_COLUMNS = np.empty(0, dtype=np.intp)
PASSED_THROUGH = {"termwise", "sklearn", "joblib", "contextlib", "functools", "importlib", "abc"}  # by `warn`
FIRST_ROWS = 100  # in which most columns have an entry that is not tiny, so that the others need not be searched
FEW_ENTRIES = 1 << 17  # for which the threads of BLAS may have to be waited for longer than one takes to add them up


def check_number(
    name: str,
    value: Any,
    *,
    low: float = -np.inf,
    above: float = -np.inf,
    below: float = np.inf,
    integer: bool = False,
    infinite: bool = False,
    remedy: str,
) -> Any:
    """Return `value` if it is a number with `low <= value`, `above < value < below`, else raise."""
    kind: type = Integral if integer else Real
    good = isinstance(value, kind) and not isinstance(value, bool)
    if good and value >= low and value > above and (value < below or (infinite and value == np.inf)):
        return value
    limits = [(">=", low), (">", above), ("<", below)]
    bounds = " and ".join(f"{sign} {limit:g}" for sign, limit in limits if np.isfinite(limit))
    what = "a whole number" if integer else "a number" if infinite else "a finite number"
    requirement = f"{what} {bounds}".strip()
    error = ValueError if isinstance(value, Real) else TypeError
    raise error(f"{name} must be {requirement}, got {value!r}: {remedy}.")


def is_plain_table(estimator: Any, X: Any) -> bool:
    """Whether inputs of a fitted estimator are an array that scikit-learn's validation would return as it is.

    Apart from infinite and missing values, which are not looked for. That validation takes longer than the prediction
    of a single row.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype not in (np.float64, np.float32) or not len(X):
        return False
    return X.shape[1] == getattr(estimator, "n_features_in_", None) and not hasattr(estimator, "feature_names_in_")


def check_choice(name: str, value: Any, choices: Iterable[Any], *, remedy: str = "pick one of these") -> Any:
    """Return `value` if it is one of `choices`, else raise."""
    choices = list(choices)
    if isinstance(value, str) and value in choices:
        return value
    raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}: {remedy}.")


def is_one_of(value: Any, *choices: str) -> bool:
    """Whether the value of a parameter is one of some strings; an array, which `==` would compare entrywise, is not."""
    return isinstance(value, str) and value in choices


def to_array(values: Any) -> NDArray[Any]:
    """Return values as an array; lists of different lengths as a single object, which no check takes for numbers."""
    try:
        return np.asarray(values)
    except ValueError:
        single = np.empty((), dtype=object)
        single[()] = values
        return single


def check_indices(name: str, indices: ArrayLike, size: int, *, what: str) -> NDArray[np.intp]:
    """Return distinct indices below `size` as an array; a boolean mask of that length is accepted, too."""
    array = np.atleast_1d(to_array(indices))
    if array.dtype == bool:
        if array.shape != (size,):
            raise ValueError(f"{name} as a mask must have length {size}, got {array.shape}: one entry per {what}.")
        return np.flatnonzero(array)
    if array.size == 0:
        return np.empty(0, dtype=np.intp)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} must be a list of whole numbers, got {indices!r}: give positions of {what}s.")
    if array.min() < 0 or array.max() >= size:
        worst = array[(array < 0) | (array >= size)][0]
        raise ValueError(f"{name} must lie between 0 and {size - 1}, got {worst}: there are {size} {what}s.")
    if len(np.unique(array)) < len(array):
        raise ValueError(f"{name} must not repeat a {what}, got {indices!r}: name each one once.")
    return array.astype(np.intp)


def check_bool(name: str, value: Any, *, remedy: str) -> None:
    """Raise unless `value` is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}: {remedy}.")


def is_dask(*objects: Any) -> bool:
    """Whether one of the objects is a Dask collection; Dask is not imported for that."""
    return any(hasattr(data, "__dask_graph__") for data in objects)


class UnavailableError(AttributeError, TypeError, ValueError):
    """A fitted attribute that a model does not have.

    An AttributeError, so that `hasattr`, `dir` and the diagrams of scikit-learn, which read all attributes, work.
    """


def is_frame(X: Any) -> bool:
    """Whether X has named columns that may differ in type."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def check_table(X: Any) -> Any:
    """Return a table of which rows can be taken: lists as an array, Arrow tables as a frame, sparse matrices as CSR."""
    if X is None:
        raise ValueError("X must be a table of shape (n, d), got None: give one row per sample.")
    X = check_container("X", np.asarray(X) if isinstance(X, list | tuple) else X)
    if sp.issparse(X) and X.format not in ("csr", "csc"):
        X = X.tocsr()
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if is_frame(X):
        check_names(X.columns)
    if getattr(X, "ndim", 2) == 1:
        raise ValueError(
            f"X must be a table of shape (n, d), got a vector of length {len(X)}. Reshape your data: X.reshape(-1, 1) "
            "if it has a single input, X.reshape(1, -1) if it is a single sample."
        )
    return X


def check_container(name: str, values: Any) -> Any:
    """Raise for a dict, a lazy frame and masked entries; return a masked array without any as an ordinary one."""
    if hasattr(values, "collect") and not hasattr(values, "shape"):
        raise TypeError(f"{name} must be an array or a frame, got a {type(values).__name__}: call its method collect.")
    if isinstance(values, Mapping) and not sp.issparse(values):  # those by keys are both
        raise TypeError(
            f"{name} must be an array or a frame, got a {type(values).__name__}: make it one with pandas.DataFrame."
        )
    if not isinstance(values, np.ma.MaskedArray):
        return values
    count = np.ma.getmaskarray(values).sum()
    if count:
        raise ValueError(
            f"{name} must not have masked entries, got {count}: drop their rows, or fill in other values with its "
            "method filled, such as NaN in X where missing values are accepted."
        )
    return np.asarray(values)


def check_splits(name: str, cv: Any) -> None:
    """Raise for a generator of splits."""
    if isinstance(cv, Iterator):
        raise TypeError(
            f"{name} must be a number, a splitter or a list of splits, got a {type(cv).__name__}, which a fit would "
            f"use up: give list({name})."
        )


def check_pair(name: str, cv: Any, pair: Any, n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the training and the test rows of one of the splits that `cv` makes of n rows."""
    if not (isinstance(pair, tuple | list) and len(pair) == 2):
        raise ValueError(
            f"{name} must hold pairs (train, test) of row numbers, got {type(cv).__name__} of something else: "
            "give list(splitter.split(X, y))."
        )
    train, test = (check_indices(name, part, n, what="row") for part in pair)
    return train, test


def place_of(key: Any, names: Sequence[str], size: int) -> int | None:
    """Return the place, of `size` ones, that a key of a dict refers to by its name or number; None if there is none.

    Truth values and floats equal whole numbers in Python, but are none.
    """
    if isinstance(key, str):
        return names.index(key) if key in names else None
    number = isinstance(key, Integral) and not isinstance(key, bool)
    return int(key) if number and 0 <= key < size else None


def check_directions(monotone: Any) -> Mapping[Any, Any]:
    """Return the directions of effects by their inputs, none for None; raise unless they are a mapping."""
    if monotone is not None and not isinstance(monotone, Mapping):
        raise TypeError(
            f"monotone must map inputs, by name or number, to 1 or -1, got {monotone!r}: give a dict with the inputs "
            "whose effects have a direction."
        )
    return monotone or {}


def check_names(names: Iterable[Any]) -> None:
    """Raise unless all names of columns differ."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            "X must have columns of different names, a category's being column=category, got "
            f"{', '.join(map(str, repeated))} more than once: rename all but one."
        )


def check_numeric(X: Any) -> None:
    """Raise if a table holds something else than numbers; strings of digits are numbers."""
    if isinstance(X, np.ndarray):
        check_no_strings("X", X, "give a data frame, whose categories TableEncoder encodes")
    for name in X.columns if is_frame(X) else ():
        column = X[name]
        if NUMERIC_DTYPE.match(str(column.dtype)):
            continue
        try:
            np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"X must hold numbers, got {column.dtype} in column {name!r} ({error}): encode it, with TableEncoder "
                "for example, or drop it."
            ) from None


def check_magnitudes(
    name: str, X: Any, names: Any = None, *, tiny: bool = True, dtype: Any = None, bounded: bool = False
) -> None:
    """Raise if the largest magnitude of a column is outside the range in which no fourth power over- or underflows.

    Columns of zeros are allowed and NaN is ignored. Without `tiny`, for chunks of the rows and for functions that
    vanish on the data, small magnitudes are allowed, too. The range is that of `dtype`, by default the dtype of X;
    `bounded` says that no entry is above it, see `is_bounded`.
    """
    if 0 in X.shape:
        return
    low, high = MAGNITUDE_RANGE[precision(X.dtype if dtype is None else dtype)]
    X = X if X.ndim == 2 else X[:, None]
    few = _extreme_columns(X, low if tiny else 0.0, np.inf if bounded else high)
    if not len(few):
        return
    if sp.issparse(X):
        magnitudes = np.asarray(abs(X).max(axis=0).todense()).ravel()[few]
    elif isinstance(X, np.ndarray):
        part = X if len(few) == X.shape[1] else X[:, few]
        magnitudes = np.maximum(np.fmax.reduce(part, axis=0), -np.fmin.reduce(part, axis=0))
    else:
        xp = namespace(X)
        magnitudes = np.maximum(to_host(xp.max(X, axis=0)), -to_host(xp.min(X, axis=0)))
    bad = (magnitudes > high) | (tiny & (magnitudes > 0) & (magnitudes < low))
    if bad.any():
        j = np.flatnonzero(bad)[0]
        column = f"column {few[j]}" if names is None else f"column {names[few[j]]!r}"
        raise ValueError(
            f"{name} must have columns of zeros or with a largest magnitude between {low:g} and "
            f"{high:g}, got {magnitudes[j]:g} in {column}: change its unit, or divide it by its standard "
            "deviation."
        )


def is_bounded(X: Any, high: float | None = None) -> bool:
    """Whether one pass of BLAS shows that all entries of an array are finite and none is too large.

    The limit is by default that of `check_magnitudes`.
    """
    if not isinstance(X, np.ndarray) or X.dtype not in (np.float32, np.float64):
        return False
    if not (X.flags.c_contiguous or X.flags.f_contiguous):
        return False
    high = MAGNITUDE_RANGE[X.dtype][1] if high is None else high
    return high == np.inf or _sum_of_squares(X.ravel(order="K")) <= high**2


def _extreme_columns(X: Any, low: float, high: float) -> NDArray[np.intp]:
    """Return columns that may have an extreme magnitude: none of most tables, after one pass of BLAS over them."""
    values = X.data if sp.issparse(X) else X
    if not is_bounded(values, high):
        return np.arange(X.shape[1])
    if not low:
        return NO_COLUMNS
    if sp.issparse(X):
        return np.arange(X.shape[1]) if (np.abs(values) < low).any() else NO_COLUMNS
    return np.flatnonzero(~(np.abs(X[:FIRST_ROWS]) >= low).any(axis=0))


def _sum_of_squares(x: NDArray[Any]) -> float:
    return float(np.einsum("i,i", x, x) if x.size <= FEW_ENTRIES else np.vdot(x, x))


def check_foreign(name: str, X: Any, min_samples: int = 1) -> Any:
    """Return a finite table of another array library in float32 or float64, where it is."""
    if X.ndim != 2:
        raise ValueError(
            f"{name} must be a table of shape (n, d), got shape {tuple(X.shape)}. Reshape your data: give it two axes, "
            "samples first."
        )
    if getattr(X, "is_sparse", False) or (getattr(X, "layout", None) is not None and "strided" not in str(X.layout)):
        raise TypeError(f"{name} must be dense or a SciPy sparse matrix, got {X.layout}: call its to_dense().")
    xp = namespace(X)
    if X.shape[0] < min_samples or not X.shape[1]:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) (shape={tuple(X.shape)}) while a "
            f"minimum of {min_samples} and 1 is required in {name}: give more data."
        )
    if not xp.isdtype(X.dtype, "real floating"):
        if not xp.isdtype(X.dtype, ("integral", "bool")):
            raise TypeError(f"{name} must hold real numbers, got {X.dtype}: convert it to float32 or float64.")
        X = xp.astype(X, xp.float64)
    elif X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float32)
    if not magnitude(X) <= MAGNITUDE_RANGE[precision(X.dtype)][1]:  # one pass in the common case
        if not all_finite(X):
            raise ValueError(f"{name} must be finite, got NaN or infinity: impute or drop the rows in question.")
        check_magnitudes(name, X, tiny=False)
    return X


def check_no_strings(name: str, values: NDArray[Any], remedy: str) -> None:
    """Raise for strings that are not numbers."""
    if values.dtype.kind not in "OSU":
        return
    for one in values.flat:
        if isinstance(one, str | bytes):
            try:
                float(one)
            except ValueError:
                raise ValueError(f"{name} must hold numbers, got {str(one)!r}: {remedy}.") from None


def check_targets(y: Any) -> NDArray[np.float64]:
    """Return finite targets of shape (n,) or (n, q) in float64, as a NumPy array whatever their library."""
    if is_foreign(y):
        y = to_host(y)
        y = y.astype(np.float64) if y.dtype == np.float32 else y
    else:
        y = check_container("y", y)
    plain = isinstance(y, np.ndarray) and y.dtype == np.float64 and y.ndim == 1 and y.size > 0
    if plain and _sum_of_squares(y) <= MAGNITUDE_RANGE[FLOAT64][1] ** 2:  # finite, and not too large
        return y  # a short path for online models, which validate one number at a time
    values = np.asarray(y)
    shape, dates = values.shape, (date, timedelta, np.datetime64, np.timedelta64)
    if values.dtype.kind in "mM" or (values.dtype == object and any(isinstance(one, dates) for one in values.flat)):
        raise TypeError(
            "y must hold numbers, got dates or times, which have no scale of their own: give days or hours since a "
            "date, such as (y - y.min()) / pandas.Timedelta(days=1)."
        )
    if len(shape) > 2:
        raise ValueError(f"y must have shape (n,) or (n, q), got {shape}: one column per output.")
    check_no_strings("y", values, "use a classifier for classes, such as TermwiseClassifier")
    y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    check_magnitudes("y", y, tiny=False)
    return y


def usual_targets(y: Any, dtype: Any) -> bool:
    """Whether y is a vector on a device that `check_targets` and `check_magnitudes` would accept as it is."""
    if not (is_foreign(y) and y.ndim == 1 and y.shape[0]):
        return False
    xp, (low, high) = namespace(y), MAGNITUDE_RANGE[precision(dtype)]
    return y.dtype in (xp.float32, xp.float64) and low <= magnitude(y) <= high


def check_labels(y: Any) -> NDArray[Any]:
    """Return labels of classes, strings or numbers, as an array of shape (n,)."""
    y = to_host(y) if is_foreign(y) else check_container("y", y)
    if isinstance(y, list | tuple) and any(isinstance(one, str) for one in y):
        y = np.array(y, dtype=object)  # instead of strings of its numbers
    y = column_or_1d(y, warn=True)
    if y.dtype == object and not all(isinstance(one, str) for one in y):
        types = sorted({type(one).__name__ for one in y})
        raise ValueError(
            "Unknown label type: y must hold labels that are all strings or all numbers, got "
            f"{', '.join(types)} as objects: drop samples without a label, and convert the others with astype(str) or "
            "astype(int)."
        )
    assert_all_finite(y, input_name="y")
    if len(y):  # a chunk of the rows may have none
        check_classification_targets(y)
    return y


def check_counts(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Return frequency weights of `n` rows, ones if None; at least one is positive, and negligible ones are zero."""
    counts = read_counts(sample_weight, n)
    check_some(counts)
    least = SAMPLE_WEIGHT_SHARE * counts.max()
    return counts if counts.min() >= least else np.where(counts < least, 0.0, counts)


def read_counts(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Return frequency weights of `n` rows, which may be a chunk of the data, ones if None."""
    if sample_weight is None:
        return np.ones(n)
    sample_weight = check_container("sample_weight", sample_weight)
    try:
        counts = np.asarray(to_host(sample_weight), dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"sample_weight must be numbers, got {sample_weight!r}: give one frequency weight per sample."
        ) from None
    if counts.ndim == 0:
        counts = np.full(n, counts)
    if counts.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {counts.shape}: give one weight per sample.")
    if not np.all(np.isfinite(counts)) or counts.min(initial=0) < 0:
        worst = counts[~(np.isfinite(counts) & (counts >= 0))][0]
        raise ValueError(
            f"sample_weight must be finite and >= 0, got {worst}: a weight is the number of repetitions of a sample."
        )
    if counts.max(initial=0) > SAMPLE_WEIGHT_MAX:
        raise ValueError(
            f"sample_weight must be at most {SAMPLE_WEIGHT_MAX:g}, got {counts.max():g}: scale the weights so that "
            "they average one."
        )
    return counts


def check_some(counts: NDArray[np.float64]) -> None:
    """Raise unless some weight is positive."""
    if not counts.any():
        raise ValueError("sample_weight must not be zero for all samples: give some a positive weight.")


def check_total(counts: NDArray[np.float64], least: float = 2.0) -> None:
    """Raise unless the weights sum to `least` and represent two samples or repetitions."""
    total, positive = counts.sum(), np.count_nonzero(counts)
    if total < least * (1 - 1e-9):
        raise ValueError(
            f"sample_weight must add up to at least {least:g} samples, got {total:g}: weights mean repetitions; "
            "scale relative weights so that they average one."
        )
    if positive < 2 and total < 2 * (1 - 1e-9):
        raise ValueError(
            f"sample_weight must be positive, and not negligible, for at least two samples, got {positive}: give "
            "others a weight, too."
        )


def import_optional(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or raise with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs {module}, which is not installed: pip install 'termwise[{extra}]'"
        ) from error


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line that called the library, whatever lies between.

    It is that of the innermost frame outside `PASSED_THROUGH`. How many frames there are depends on the estimator and
    on the version of scikit-learn, whose wrappers, pipelines and searches call `fit` for the user; `warnings.warn` can
    skip modules by their files from Python 3.12 on.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in PASSED_THROUGH:
        frame = frame.f_back
    warnings.warn_explicit(
        message,
        category,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def warn_unresolved(names: list[str], count: int, remedy: str) -> None:
    """Warn of columns that vary by hardly more than the rounding of their entries, given the names of some."""
    if count:
        shown = ", ".join(names) + (f" and {count - len(names)} more" if count > len(names) else "")
        warn(
            f"Beside their mean, {shown} must vary by more than the rounding of their entries, which hides most or all "
            f"of their digits; those that vary by less are treated as constant: {remedy}.",
            NumericalWarning,
        )
