"""Radial basis functions: `h(x) = phi((x - c)' M^-1 (x - c))`, Orr section 3.1 and appendix A.3."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg as sla
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist
from sklearn.cluster import kmeans_plusplus
from sklearn.utils import check_array, check_random_state

from termwise._arrays import (
    Array,
    as_float64,
    as_type,
    at,
    at_least,
    copied,
    different_rows,
    empty,
    evenly,
    from_host,
    is_foreign,
    moved,
    namespace,
    precision,
    row_blocks,
    row_squares,
    to_host,
    zeros,
)
from termwise._checks import check_choice, check_number
from termwise.basis._terms import Basis

# Each kernel is one line in z = (x - c)' M^-1 (x - c).
KERNELS: dict[str, Callable[[Array], Array]] = {
    "gaussian": lambda z: namespace(z).exp(-z),
    "multiquadric": lambda z: namespace(z).sqrt(1 + z),
    "inverse_multiquadric": lambda z: 1 / namespace(z).sqrt(1 + z),
    "cauchy": lambda z: 1 / (1 + z),
}

FAR = 1000.0  # widths from the middle of the centres: beyond, distances by products lose ten digits to cancellation
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
    ) -> None:
        self.kernel = kernel
        self.width = width
        self.centers = centers
        self.random_state = random_state

    def _learn(self, X: Array) -> None:
        check_choice("kernel", self.kernel, KERNELS)
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
        """Fill G block by block: distances by one BLAS product, then the kernel, in float64 whatever the input."""
        centers = moved(self.centers_, X)
        if not centers.shape[0]:
            return X[:, :0]
        xp, phi = namespace(X), KERNELS[self.kernel]
        origin = xp.mean(as_float64(centers), axis=0)  # keeps |x|^2 + |c|^2 - 2 x'c from cancelling
        A, C = (_whiten(as_float64(points) - origin, self.width_) for points in (X, centers))
        n, p = X.shape[0], centers.shape[0]
        G = as_type(empty((n, p), X), X.dtype)
        far = n and max(float(xp.max(xp.abs(A))), float(xp.max(xp.abs(C)))) > FAR
        for rows in row_blocks(n, p, X):
            G[rows, :] = as_type(phi((_direct if far else _by_products)(A[rows, :], C)), X.dtype)
        return G

    def _names(self, inputs: list[str] | None = None) -> list[str]:
        return [f"{self.kernel}_{row}" for row in to_host(self.center_rows_)]


def _by_products(A: Array, C: Array) -> Array:
    """Squared distances `|a|^2 + |c|^2 - 2 a'c`, the product by BLAS."""
    z = A @ (-2 * C.T)
    z += row_squares(A)[:, None]
    z += row_squares(C)
    return at_least(z, 0.0)


def _direct(A: Array, C: Array) -> Array:
    """Squared distances one input at a time, where the terms of the product form would cancel."""
    z = zeros((A.shape[0], C.shape[0]), A)
    for i in range(A.shape[1]):
        z += (A[:, i][:, None] - C[:, i]) ** 2
    return z


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
