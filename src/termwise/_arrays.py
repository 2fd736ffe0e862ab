"""Operations on arrays of any library: the only module that depends on the library of an array.

NumPy's arrays, and those of any library that follows the array API standard (PyTorch, CuPy, ...), on whatever device
they are. Mathematics elsewhere is written once, with the functions of `namespace(x)` and those below. Most of these
are one line of the standard; NumPy, and PyTorch where it saves a transfer or a kernel, have a faster implementation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = Any  # of any library
RowIndex = slice | Array

BLOCK_ENTRIES = 1 << 19  # 4 MiB of float64: a block and its temporaries stay in a core's cache
SQUARES_ROWS = 64  # of float32 whose squares are added up in float32
LONG_ROW = 512  # entries of a row, from which calls for a few rows pay
DEVICE_ENTRIES = 1 << 27  # 1 GiB: a device has no such cache, and every call costs microseconds
FAST_FLOAT64 = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}  # compute capabilities of GPUs for data centres
_NAMESPACES: dict[type, Any] = {np.ndarray: np, np.memmap: np}


def namespace(x: Array) -> Any:
    """Return the functions of the array API standard for the library of x."""
    xp = _NAMESPACES.get(type(x))
    if xp is None:
        xp = np if isinstance(x, np.ndarray) else array_api_compat.array_namespace(x)
        _NAMESPACES[type(x)] = xp
    return xp


def is_foreign(x: Any) -> bool:
    """Whether x is an array of a library other than NumPy that follows the standard; Dask arrays are not."""
    if isinstance(x, np.ndarray | np.generic) or array_api_compat.is_dask_array(x):
        return False
    return array_api_compat.is_array_api_obj(x)


def from_host(values: Any, like: Array) -> Array:
    """Return a NumPy array in the library and on the device of `like`; other arrays are returned as they are."""
    if isinstance(like, np.ndarray) or not isinstance(values, np.ndarray):
        return values
    if array_api_compat.is_torch_array(like):  # which warns of read-only arrays
        return namespace(like).as_tensor(values if values.flags.writeable else values.copy(), device=like.device)
    return namespace(like).asarray(values, device=array_api_compat.device(like))


def send(like: Array, *values: NDArray[Any]) -> list[Array]:
    """`from_host` for several small arrays, those of float64 in one transfer."""
    if isinstance(like, np.ndarray):
        return list(values)
    flat = [v.ravel() for v in values if v.dtype == np.float64]
    sent: Array = from_host(np.concatenate(flat), like) if flat else None
    parts, start = [], 0
    for value in values:
        if value.dtype == np.float64:
            parts.append(namespace(like).reshape(sent[start : start + value.size], value.shape))
            start += value.size
        else:
            parts.append(from_host(value, like))
    return parts


def to_host(x: Any) -> NDArray[Any]:
    """Return an array of any library as one of NumPy's."""
    if isinstance(x, np.ndarray):
        return x
    if array_api_compat.is_torch_array(x):
        return x.detach().cpu().numpy()
    if array_api_compat.is_cupy_array(x):
        return x.get()
    if is_foreign(x):
        x = array_api_compat.to_device(x, namespace(x).__array_namespace_info__().default_device())
    return np.asarray(x)


def fetch(*arrays: Array) -> list[NDArray[Any]]:
    """`to_host` for several small arrays of float64 in one transfer."""
    if isinstance(arrays[0], np.ndarray | np.generic):
        return [np.asarray(x) for x in arrays]
    xp = namespace(arrays[0])
    flat, parts, start = to_host(xp.concat([xp.reshape(x, (-1,)) for x in arrays])), [], 0
    for x in arrays:
        size = int(np.prod(x.shape))
        parts.append(flat[start : start + size].reshape(x.shape))
        start += size
    return parts


def empty(shape: tuple[int, ...], like: Array) -> Array:
    """An uninitialised float64 array, in the library and on the device of `like`."""
    if isinstance(like, np.ndarray):
        return np.empty(shape)
    xp = namespace(like)
    return xp.empty(shape, dtype=xp.float64, device=array_api_compat.device(like))


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Zeros in float64, in the library and on the device of `like`."""
    if isinstance(like, np.ndarray):
        return np.zeros(shape)
    xp = namespace(like)
    return xp.zeros(shape, dtype=xp.float64, device=array_api_compat.device(like))


def as_float64(x: Array, copy: bool = False) -> Array:
    """Return x in float64: x itself if it is and `copy` is false."""
    if isinstance(x, np.ndarray):
        return x.astype(np.float64, copy=copy)
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=copy)


def copied(x: Array) -> Array:
    """Return x as a new array."""
    return x.copy() if isinstance(x, np.ndarray) else namespace(x).asarray(x, copy=True)


def as_type(x: Array, dtype: Any) -> Array:
    """Return x in a dtype of its library or of NumPy; x itself if it has this dtype."""
    if isinstance(x, np.ndarray):
        return x.astype(dtype, copy=False)
    xp = namespace(x)
    return xp.astype(x, getattr(xp, dtype.name) if isinstance(dtype, np.dtype) else dtype, copy=False)


def precision(dtype: Any) -> np.dtype:
    """NumPy's name for float32 or float64 of any library."""
    return np.dtype(np.float32 if "float32" in str(dtype) else np.float64)


def at_least(x: Array, low: float) -> Array:
    """`max(x, low)` of every entry."""
    return np.maximum(x, low) if isinstance(x, np.ndarray) else namespace(x).clip(x, low)


def limited(x: Array, limits: NDArray[np.float64] | None) -> Array:
    """Clip x, (..., q), to the lowest and the highest values, (2, q) on the host; None: there are none."""
    if limits is None:
        return x
    xp, (low, high) = namespace(x), (from_host(end, x) for end in limits)
    return xp.minimum(xp.maximum(x, low), high)


def zero_below(x: Array, low: float) -> Array:
    """Return x with zeros in place of entries of at most `low`."""
    if array_api_compat.is_torch_array(x):
        return namespace(x).threshold(x, low, 0.0)
    return put(x, x <= low, 0.0)


def at_most(x: Array, high: float) -> Array:
    """`min(x, high)` of every entry."""
    return np.minimum(x, high) if isinstance(x, np.ndarray) else namespace(x).clip(x, None, high)


def put(x: Array, where: Array, number: float) -> Array:
    """Return x with a number where a mask is true."""
    if isinstance(x, np.ndarray):
        return np.where(where, number, x)
    if array_api_compat.is_torch_array(x):
        return x.masked_fill(where, number)
    xp = namespace(x)
    return xp.where(where, xp.asarray(number, dtype=x.dtype, device=array_api_compat.device(x)), x)


def put_into(x: Array, where: Array, number: float) -> Array:
    """`put`, in place if possible: for an array that nothing else needs."""
    return x.masked_fill_(where, number) if array_api_compat.is_torch_array(x) else put(x, where, number)


def put_at(x: Array, places: Array, values: Array) -> Array:
    """Assign values at some positions of the first axis of x, in place if possible; return x."""
    if isinstance(x, np.ndarray):
        x[places] = values
    elif array_api_compat.is_torch_array(x) and not getattr(values, "ndim", 0):
        x.index_fill_(0, from_host(places, x), values)  # an assignment would transfer the number from the host
    elif array_api_compat.is_torch_array(x):
        x.index_copy_(0, from_host(places, x), values)
    elif array_api_compat.is_cupy_array(x):
        x[from_host(places, x)] = values
    else:  # the standard has no such assignment
        for i, place in enumerate(to_host(places).tolist()):
            x[place, ...] = values[i, ...] if getattr(values, "ndim", 0) else values
    return x


def extremes(x: Array) -> tuple[Array, Array]:
    """Minimum and maximum, as arrays of one element."""
    if isinstance(x, np.ndarray):
        return x.min(keepdims=True), x.max(keepdims=True)
    xp = namespace(x)
    found = xp.aminmax(x) if array_api_compat.is_torch_array(x) else (xp.min(x), xp.max(x))
    return found[0][None], found[1][None]


def less_product(x: Array, a: Array, b: Array) -> Array:
    """`x - a b`, as a new array."""
    if array_api_compat.is_torch_array(x):
        return namespace(x).addcmul(x, a, b, value=-1)
    product = a * b
    return np.subtract(x, product, out=product) if isinstance(x, np.ndarray) else x - product


def take_off_product(x: Array, a: Array, b: Array) -> None:
    """`x -= a b`, in place."""
    if array_api_compat.is_torch_array(x):
        x.addcmul_(a, b, value=-1)
    else:
        x -= a * b


def take_off_matmul(x: Array, A: Array, B: Array) -> None:
    """`x -= A @ B`, in place."""
    if array_api_compat.is_torch_array(x):
        x.addmm_(A, B, alpha=-1)
    else:
        x -= A @ B


def contiguous(A: Array) -> Array:
    """A as a contiguous array, in row-major order if the library has memory layouts."""
    return np.ascontiguousarray(A) if isinstance(A, np.ndarray) else A


def at(x: Array, places: Any, axis: int = 0) -> Array:
    """Entries of x at some positions along an axis; a NumPy array, an array of the library of x, or a slice."""
    if isinstance(places, slice):
        return x[places, ...] if axis == 0 else x[:, places]
    if isinstance(x, np.ndarray):
        return x[places] if axis == 0 else x[:, places]
    if array_api_compat.is_torch_array(x):  # the standard's take would synchronise to check for negative indices
        places = from_host(places, x)
        return x.index_select(0, places) if axis == 0 else x[:, places]  # which is faster along rows
    return namespace(x).take(x, from_host(places, x), axis=axis)


def rows_of(X: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of an array, a nested list, a sparse matrix or a data frame."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if sp.issparse(X):
        return X.tocsr()[rows]  # other formats have no rows
    X = X if hasattr(X, "shape") else np.asarray(X)  # lists of lists
    return at(X, rows) if is_foreign(X) else X[rows]


def column_squares(A: Array) -> Array:
    """Sum of squares of every column, in float64."""
    if isinstance(A, np.ndarray) and A.dtype == np.float64:
        return np.einsum("ij,ij->j", A, A)
    xp, of_torch = namespace(A), array_api_compat.is_torch_array(A)
    quick = A.is_contiguous() if of_torch else isinstance(A, np.ndarray) and A.shape[1] >= LONG_ROW
    if quick and str(A.dtype).endswith("float32") and A.shape[0] >= SQUARES_ROWS:
        return _float32_squares(A)
    if of_torch:
        return xp.linalg.vector_norm(A, axis=0, dtype=xp.float64) ** 2  # without a copy in float64
    total = zeros((A.shape[1],), A)
    for rows in row_blocks(A.shape[0], A.shape[1], A):
        X = as_float64(A[rows, :])
        total += np.einsum("ij,ij->j", X, X) if isinstance(X, np.ndarray) else xp.sum(X * X, axis=0)
    return total


def _float32_squares(A: Array) -> Array:
    """Sums over a few rows at a time in float32, added up in float64: a fraction of the time of sums in float64."""
    if isinstance(A, np.ndarray):
        total = np.zeros(A.shape[1])
        for start in range(0, len(A), SQUARES_ROWS):
            X = A[start : start + SQUARES_ROWS]
            total += np.einsum("ij,ij->j", X, X)
        return total
    xp, (n, p) = namespace(A), A.shape
    blocks = n // SQUARES_ROWS
    whole = blocks * SQUARES_ROWS
    parts = xp.linalg.vector_norm(xp.reshape(A[:whole, :], (blocks, SQUARES_ROWS, p)), axis=1)
    rest = xp.linalg.vector_norm(A[whole:, :], axis=0, dtype=xp.float64) ** 2
    return rest + xp.linalg.vector_norm(parts, axis=0, dtype=xp.float64) ** 2


def row_squares(A: Array) -> Array:
    """Sum of squares of every row, in float64."""
    if isinstance(A, np.ndarray):
        if A.shape[1] == 1:
            return np.multiply(A[:, 0], A[:, 0], dtype=np.float64)
        return np.einsum("ij,ij->i", A, A, dtype=np.float64)
    A = as_float64(A)
    return namespace(A).sum(A * A, axis=1)


def row_products(A: Array, B: Array) -> Array:
    """Inner products of corresponding rows, in float64."""
    if isinstance(A, np.ndarray):
        return np.einsum("ij,ij->i", A, B)
    return namespace(A).sum(A * B, axis=1)


def row_lengths(*matrices: Array) -> Array:
    """Lengths of the rows of several matrices, one after the other in one array."""
    xp = namespace(matrices[0])
    return xp.linalg.vector_norm(xp.concat(matrices), axis=1)  # a device launches one kernel for all of them


def squared_row_lengths(*matrices: Array) -> Array:
    """Squares of `row_lengths`."""
    if isinstance(matrices[0], np.ndarray):
        return np.array([row @ row for matrix in matrices for row in matrix])
    return row_lengths(*matrices) ** 2


def triangle(A: Array) -> NDArray[np.float64]:
    """Triangular factor R of `A = Q R`, as a NumPy array."""
    if isinstance(A, np.ndarray):
        return np.asarray(np.linalg.qr(A, mode="r"))
    xp = namespace(A)
    return to_host(xp.linalg.qr(A, mode="r")[1] if array_api_compat.is_torch_array(A) else xp.linalg.qr(A)[1])


def moved(x: Any, like: Array) -> Array:
    """Return an array of any library in the library and on the device of `like`."""
    if isinstance(like, np.ndarray):
        return to_host(x)
    same = type(x) is type(like) and array_api_compat.device(x) == array_api_compat.device(like)
    return x if same else from_host(np.asarray(to_host(x)), like)


def detached(x: Array) -> Array:
    """X without the record of operations that PyTorch differentiates."""
    return x.detach() if array_api_compat.is_torch_array(x) else x


def current_device(x: Array) -> AbstractContextManager[Any]:
    """A context in which the GPU of a tensor of PyTorch is the current one, whose streams are used."""
    if array_api_compat.is_torch_array(x) and x.is_cuda:
        return namespace(x).cuda.device(x.device)
    return nullcontext()


def on_accelerator(x: Any) -> bool:
    """Whether x is an array on a device other than the processor, such as a GPU, that computes in float64.

    Arrays that cannot be written to, as those of JAX, do not count.
    """
    if not is_foreign(x) or "cpu" in str(array_api_compat.device(x)).lower():
        return False
    try:
        zeros((1,), x)
    except (RuntimeError, TypeError, ValueError):  # Apple's GPUs have no float64
        return False
    return bool(array_api_compat.is_writeable_array(x))


def free_on_device(x: Array) -> int | None:
    """Free bytes on the device of x; None for the main memory."""
    if array_api_compat.is_torch_array(x) and x.device.type == "cuda":
        return int(namespace(x).cuda.mem_get_info(x.device)[0])
    return int(x.device.mem_info[0]) if array_api_compat.is_cupy_array(x) else None


def has_fast_float64(x: Array) -> bool:
    """Whether x is on a GPU that computes in float64 at half the rate of float32, as those of data centres do."""
    if array_api_compat.is_torch_array(x) and x.is_cuda:
        return namespace(x).cuda.get_device_capability(x.device) in FAST_FLOAT64
    if array_api_compat.is_cupy_array(x):
        return tuple(map(int, (x.device.compute_capability[:-1], x.device.compute_capability[-1]))) in FAST_FLOAT64
    return False


def running_sums(x: Array, axis: int) -> Array:
    """Sums of the entries up to each one along an axis."""
    return np.cumsum(x, axis=axis) if isinstance(x, np.ndarray) else namespace(x).cumulative_sum(x, axis=axis)


def total(x: Array) -> float:
    """Sum of all entries."""
    return float(x.sum() if isinstance(x, np.ndarray) else namespace(x).sum(x))


def smallest(values: Array, count: int) -> tuple[Array, Array]:
    """Positions of the `count` smallest values, in ascending order, and these values."""
    count = min(count, values.shape[0])
    if array_api_compat.is_torch_array(values):
        found = values.topk(count, largest=False)
        return found.indices, found.values
    if isinstance(values, np.ndarray) and count < len(values):
        chosen = np.argpartition(values, count - 1)[:count]
        chosen = chosen[np.argsort(values[chosen], kind="stable")]
    else:
        chosen = namespace(values).argsort(values)[:count]
    return chosen, at(values, chosen)


def largest(x: Array) -> Array:
    """The largest entry."""
    return x.max() if isinstance(x, np.ndarray) else namespace(x).max(x)


def first_true(mask: Array) -> Array:
    """Position of the first true entry, as an array of one number."""
    if isinstance(mask, np.ndarray):
        return mask.argmax(axis=0, keepdims=True)
    xp = namespace(mask)
    return xp.argmax(xp.astype(mask, xp.int64))[None]


def densify(X: Any) -> Any:
    """Return `X` as a dense array, whether it is a sparse matrix, a sparse array or dense already."""
    if sp.issparse(X):
        return X.toarray()
    return X if is_foreign(X) else np.asarray(X)


def row_blocks(n: int, width: int, like: Array = None) -> Iterator[slice]:
    """Split `n` rows of `width` entries into slices of a size suited to the cache, or to the device of `like`."""
    entries = BLOCK_ENTRIES if like is None or isinstance(like, np.ndarray) else DEVICE_ENTRIES
    step = max(1, entries // max(1, width))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def tiles(A: Array) -> Iterator[tuple[Array, slice, dict[str, Array]]]:
    """Row tiles of A with their slices, and a reusable buffer for the `out` argument of NumPy functions."""
    room = None
    for rows in row_blocks(A.shape[0], A.shape[1], A):
        if isinstance(A, np.ndarray) and room is None:
            room = np.empty((rows.stop - rows.start, A.shape[1]))
        yield A[rows, :], rows, {} if room is None else {"out": room[: rows.stop - rows.start]}


def evenly(n: int, max_rows: int) -> NDArray[np.intp]:
    """At most `max_rows` evenly spaced row numbers below n."""
    if n <= max_rows:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, max_rows).astype(np.intp))


def magnitude(X: Array) -> float:
    """The largest magnitude of all entries; NaN if one of them is."""
    xp = namespace(X)
    if array_api_compat.is_torch_array(X):  # one pass
        return float(to_host(xp.linalg.vector_norm(X, ord=np.inf)))
    return max(float(xp.max(X)), -float(xp.min(X)))


def all_finite(X: Array) -> bool:
    """Whether all entries of an array of floating-point numbers are finite, by one pass in the common case."""
    xp = namespace(X)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(xp.isfinite(xp.sum(X))) or bool(xp.all(xp.isfinite(X)))  # a sum may overflow


def has_missing(X: NDArray[Any]) -> bool:
    """Whether a NumPy array of numbers without infinities has a NaN, by one pass in the common case."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(np.sum(X)) and np.isnan(X).any())  # a sum that overflows may be NaN, too


def comparable(X: NDArray[Any]) -> NDArray[Any]:
    """Return finite numbers and NaN with infinity in place of NaN, so that missing values are equal to each other."""
    return np.where(np.isnan(X), np.inf, X) if has_missing(X) else X


def column_ranks(X: NDArray[Any]) -> NDArray[np.intp]:
    """Return the rank of every entry among the distinct entries of its column."""
    X = comparable(X)
    low, high = X.min(axis=0), X.max(axis=0)
    ranks = ((high == X) & (high > low)).astype(np.intp)  # of indicators, which need not be sorted
    for j in np.flatnonzero(np.any((low != X) & (high != X), axis=0)):
        ranks[:, j] = np.unique(X[:, j], return_inverse=True)[1].ravel()
    return ranks


def column_order(X: NDArray[Any]) -> NDArray[np.intp]:
    """Return an order of different columns that depends neither on their order and units nor on that of the rows."""
    return order_by_ranks(column_ranks(X))


def order_by_ranks(ranks: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return that order, given the ranks of the entries of the columns.

    The keys are sums of products of ranks. Integers have no rounding; where a sum overflows, it does so in any order.
    """
    total = ranks.sum(axis=1, keepdims=True)
    return np.lexsort([(ranks**2 * total).sum(axis=0), (ranks * total).sum(axis=0)])


def different_rows(X: Array) -> Array:
    """First row of each distinct sample, in the order of the data; missing values are equal to each other."""
    if isinstance(X, np.ndarray):
        X = comparable(X)
        # Equal rows have equal sums; where all sums differ, as in most data, the rows need not be sorted.
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.sort((X * np.sqrt(np.arange(2, X.shape[1] + 2))).sum(axis=1))
        if np.all(sums[1:] > sums[:-1]):
            return np.arange(len(X))
        return np.sort(np.unique(X, axis=0, return_index=True)[1])
    xp = namespace(X)
    order = xp.argsort(X[:, -1], stable=True)
    for j in reversed(range(X.shape[1] - 1)):
        order = at(order, xp.argsort(at(X[:, j], order), stable=True))
    X = at(X, order)  # equal samples are adjacent now, in the order of the data
    new = xp.nonzero(xp.any(X[1:, :] != X[:-1, :], axis=1))[0] + 1
    return xp.sort(xp.concat([order[:1], at(order, new)]))


def as_columns(y: Array) -> Array:
    """Return targets of shape (n,) or (n, q) as (n, q)."""
    return y if y.ndim == 2 else namespace(y).reshape(y, (-1, 1))
