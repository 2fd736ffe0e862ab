"""Radial basis functions: `h(x) = phi((x - c)' M^-1 (x - c))`, Orr section 3.1 and appendix A.3."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg as sla
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from termwise._arrays import (
    Array,
    as_float64,
    as_type,
    at,
    copied,
    different_rows,
    evenly,
    from_host,
    is_foreign,
    moved,
    precision,
    to_host,
)
from termwise._checks import check_bool, check_choice, check_number
from termwise._memory import budget
from termwise.basis.base import Basis
from termwise.design import EVERY
from termwise.design.kernel import KernelDesign

# Each kernel is one line in m = -(x - c)' M^-1 (x - c), with the functions xp of the array library in question and,
# for NumPy, a place to put the values.
KERNELS: dict[str, Callable[..., Array]] = {
    "gaussian": lambda xp, m, **out: xp.exp(m, **out),
    "multiquadric": lambda xp, m, **out: xp.sqrt(1 - m, **out),
    "inverse_multiquadric": lambda xp, m, **out: 1 / xp.sqrt(1 - m, **out),
    "cauchy": lambda xp, m, **out: 1 / (1 - m),
}

MEDIAN_ROWS = 1000  # half a million pairs settle a median to well under a percent


class RadialBasis(Basis):
    """Radial functions around centres.

    `h_j(x) = phi((x - c_j)' M^-1 (x - c_j))` with the metric `M = width^2 I`. Inputs on different scales should be
    standardised first, or given a width each. (A Gaussian written `exp(-|x-c|^2 / tau)` has width `sqrt(tau)`; one
    written `exp(-|x-c|^2 / (2 sigma^2))` has width `sigma sqrt(2)`.)

    Parameters
    ----------
    kernel : {"gaussian", "multiquadric", "inverse_multiquadric", "cauchy"}, default="gaussian"
        The function phi: `exp(-z)`, `(1+z)^(1/2)`, `(1+z)^(-1/2)` or `(1+z)^(-1)`.
    width : float, array-like of shape (d,) or (d, d), or "median", default=1.0
        Radius of the functions: one for all inputs, one per input, the metric `M` itself, or the median distance
        between training samples.
    centers : "samples", int or array-like of shape (p, d), default="samples"
        Where the functions sit: on every training sample, on that many samples spread over the data, or given.
    random_state : int, RandomState instance or None, default=0
        Draws the spread-out samples when `centers` is a number.
    store : bool or "auto", default="auto"
        Whether `ForwardRegressor` and `ForwardClassifier` store the design matrix, or compute tiles of it in every
        pass: as many numbers a second as there are exponentials, but memory for none. "auto" stores what fits the
        `memory_budget`. The choices are the same. `transform` always returns the whole matrix.

    Attributes
    ----------
    centers_ : ndarray of shape (p, d)
        The centres.
    center_rows_ : ndarray of shape (p,)
        Number of the training sample (or of the given centre) each function sits on.
    width_ : float or ndarray
        The width in use.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import RadialBasis
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> basis = RadialBasis(width=1.0).fit(X)
    >>> basis.transform(X).round(2)
    array([[1.  , 0.37, 0.02],
           [0.37, 1.  , 0.37],
           [0.02, 0.37, 1.  ]])
    >>> basis.take([2]).transform(X).round(2).ravel()
    array([0.02, 0.37, 1.  ])
    """

    _per_term = ("centers_", "center_rows_")
    any_library = True

    def __init__(
        self,
        kernel: str = "gaussian",
        width: float | ArrayLike | str = 1.0,
        centers: str | int | ArrayLike = "samples",
        random_state: int | np.random.RandomState | None = 0,
        store: bool | str = "auto",
    ) -> None:
        self.kernel = kernel
        self.width = width
        self.centers = centers
        self.random_state = random_state
        self.store = store

    def _learn(self, X: Array) -> None:
        check_choice("kernel", self.kernel, KERNELS)
        if self.store != "auto":
            check_bool("store", self.store, remedy="'auto' decides by the memory budget")
        self.width_ = self._resolve_width(X)
        self.centers_, rows = self._resolve_centers(X)
        self.center_rows_ = from_host(rows, X)

    def _resolve_width(self, X: Array) -> float | NDArray:
        if isinstance(self.width, str):
            check_choice("width", self.width, ["median"], remedy="give a number, an array or 'median'")
            return median_distance(X)
        try:
            width = np.array(to_host(self.width) if is_foreign(self.width) else self.width, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"width must be made of numbers, got {self.width!r}: give a number, an array or 'median'."
            ) from None
        d = X.shape[1]
        if width.shape not in ((), (d,), (d, d)):
            raise ValueError(
                f"width must be a number or have shape ({d},) or ({d}, {d}), got shape {width.shape}: "
                f"the data have {d} inputs."
            )
        if not np.all(np.isfinite(width)) or (width.ndim < 2 and np.any(width <= 0)):
            raise ValueError(f"width must be finite and > 0, got {self.width!r}: it is a distance between inputs.")
        if width.ndim == 2:
            _metric_root(width)
        return width if width.ndim else float(width)

    def _resolve_centers(self, X: Array) -> tuple[Array, NDArray[np.intp]]:
        n, d = X.shape
        if isinstance(self.centers, str):
            check_choice("centers", self.centers, ["samples"], remedy="give 'samples', a number or an array")
            return copied(X), np.arange(n)
        if np.ndim(self.centers) == 0:
            points = to_host(X)
            different = different_rows(points)
            remedy = f"of {n} samples {len(different)} differ; 'samples' or an array of points will do as well"
            count = check_number("centers", self.centers, low=1, below=len(different) + 1, integer=True, remedy=remedy)
            rng = check_random_state(self.random_state)
            rows = different[np.sort(kmeans_plusplus(points[different], int(count), random_state=rng)[1])]
            return at(X, rows), rows
        if np.ndim(self.centers) != 2 or np.shape(self.centers)[1] != d:
            raise ValueError(
                f"centers must have shape (p, {d}), got shape {np.shape(self.centers)}: the data have {d} inputs."
            )
        given = to_host(self.centers) if is_foreign(self.centers) else self.centers
        centers = check_array(given, dtype=precision(X.dtype), copy=True, input_name="centers")
        return moved(centers, X), np.arange(len(centers))

    def _evaluate(self, X: Array) -> Array:
        """Compute the whole matrix, as the tiles would be."""
        return as_type(self.design(X).columns(EVERY), X.dtype)

    def design(self, X: Array) -> KernelDesign:
        """Return the design matrix without storing it: tiles are computed whenever it is asked for something.

        `forward_path` takes it in place of an array. Estimators do so by themselves, see `store`.

        Parameters
        ----------
        X : array of shape (n, d)
            Inputs: of NumPy, or of another library that follows the array API standard, on the device of which the
            tiles are then computed.
        """
        check_is_fitted(self)
        return kernel_design(X, to_host(self.centers_), self.width_, self.kernel)

    def _stores(self, X: Array) -> bool:
        """Whether the design matrix is to be stored: by `store` and, if that is "auto", by the memory budget."""
        if self.store != "auto":
            return bool(self.store)
        return precision(X.dtype).itemsize * X.shape[0] * self.centers_.shape[0] <= budget(X)

    def _names(self, inputs: list[str] | None = None) -> list[str]:
        return [f"{self.kernel}_{row}" for row in to_host(self.center_rows_)]


def kernel_design(X: Array, centers: NDArray, width: float | NDArray, kernel: str) -> KernelDesign:
    """Radial functions around centres on samples X, where these are, by tiles that are not stored."""
    # products cancel less around the centres
    origin = centers.mean(axis=0, dtype=np.float64) if len(centers) else np.zeros(X.shape[1])
    A, C = (_whiten(as_float64(points) - from_host(origin, X), width) for points in (X, moved(centers, X)))
    alike = isinstance(X, np.ndarray) and np.array_equal(X, centers)
    return KernelDesign(A, C, KERNELS[kernel], precision(X.dtype), symmetric=alike)


def median_distance(X: Array) -> float:
    """Return the median distance between different samples: a width that fits the scale of the data.

    Above `MEDIAN_ROWS` samples, that many evenly spaced ones are used. Identical samples only: 1.
    """
    distances = pdist(to_host(at(X, evenly(X.shape[0], MEDIAN_ROWS))).astype(np.float64, copy=False))
    distances = distances[distances > 0]
    return float(np.median(distances)) if distances.size else 1.0


def _metric_root(metric: NDArray) -> NDArray:
    """Lower Cholesky factor of the metric M."""
    try:
        if not np.allclose(metric, metric.T):
            raise np.linalg.LinAlgError
        return np.linalg.cholesky(metric)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"width as a matrix must be symmetric and positive definite, got {metric.tolist()!r}: it is the metric M "
            "in (x-c)' M^-1 (x-c)."
        ) from None


def _whiten(X: Array, width: float | NDArray) -> Array:
    """Scale the inputs so that the metric becomes the identity."""
    if not isinstance(width, np.ndarray):
        return X / width
    if width.ndim < 2:
        return X / from_host(width, X)
    inverse = sla.solve_triangular(_metric_root(width), np.eye(len(width)), lower=True)
    return X @ from_host(np.ascontiguousarray(inverse.T), X)
