"""Radial basis functions: `h(x) = phi((x - c)' M^-1 (x - c))`: Orr, section 3.1 and appendix A.3."""

from __future__ import annotations

from functools import cache, partial
from threading import Lock
from typing import Any

import numpy as np
import scipy.linalg as sla
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from termwise import _arrays as arrays
from termwise._arrays import Array, from_host, to_host
from termwise._checks import check_bool, check_choice, check_no_strings, check_number, to_array, warn
from termwise._memory import budget
from termwise.basis.base import Basis
from termwise.basis.expressions import Expression, evaluate, sum_squares, variable, z
from termwise.basis.inputs import BOUNDED_EXTRAPOLATIONS, check_positive, clip, input_ranges
from termwise.design import EVERY
from termwise.design.computed import KernelDesign

r2 = variable("r2")
SQUARED_DISTANCE = sum_squares((z - variable("centers")) / variable("widths"))  # r2, for a width per input

# Each kernel is one line, an expression in r2 = (x - c)' M^-1 (x - c).
KERNELS: dict[str, Any] = {
    "gaussian": np.exp(-r2),
    "multiquadric": np.sqrt(1 + r2),
    "inverse_multiquadric": 1 / np.sqrt(1 + r2),
    "cauchy": 1 / (1 + r2),
}

MEDIAN_ROWS = 1000  # half a million pairs determine a median to well under a percent

# Number of centres up to which each is the best of several draws. With 1,300 centres of 4,000 rows, 18 tables and two
# splits, the errors of models with one draw were 0.991 and 0.995 of these (isotropic Gaussians, and with relevances).
GREEDY_CENTERS = 500

# Held while rows are drawn, by thousands of short operations, between which threads that do so at the same time wait
# for the interpreter lock: four of them take 1.7 times as long as one after the other on two cores.
DRAWING = Lock()


class RadialBasis(Basis):
    """Radial functions around centres.

    `h_j(x) = phi((x - c_j)' M^-1 (x - c_j))` with the metric `M = width^2 I`. Inputs on different scales should be
    standardised first, or given a width each. (A Gaussian written `exp(-|x-c|^2 / tau)` has width `sqrt(tau)`; one
    written `exp(-|x-c|^2 / (2 sigma^2))` has width `sigma sqrt(2)`.)

    Parameters
    ----------
    kernel : {"gaussian", "multiquadric", "inverse_multiquadric", "cauchy"}, default="gaussian"
        The function phi: `exp(-z)`, `(1+z)^(1/2)`, `(1+z)^(-1/2)` or `(1+z)^(-1)`.
    width : float, array-like of shape (d,) or (d, d), "median" or ("median", factor), default=1.0
        Radius of the functions, in the units of the inputs: one for all inputs, one per input, the metric `M` itself,
        or a multiple of the median distance between training samples.
    centers : "samples", int or array-like of shape (p, d), default="samples"
        Where the functions are centred: on every training sample, on that many samples spread over the data, or given.
    random_state : int, RandomState instance or None, default=0
        Draws the spread-out samples when `centers` is a number.
    store : bool or "auto", default="auto"
        Whether `ForwardRegressor` and `ForwardClassifier` store the design matrix, or compute tiles of it in every
        pass, which costs an exponential per entry but no memory. "auto" stores what fits the `memory_budget`. The
        selected terms are the same. `transform` always returns the whole matrix.
    extrapolation : {"continue", "clip"}, default="continue"
        Value of the functions outside the range of the training inputs, `ranges_`: that of the formula, by which all
        kernels vanish but the multiquadric, which grows as a linear function does; or with "clip" the value at the
        inputs clipped to that range.

    Attributes
    ----------
    centers_ : ndarray of shape (p, d)
        The centres.
    center_rows_ : ndarray of shape (p,)
        Row of the training sample (or of the given centre) each function is centred on.
    width_ : float or ndarray
        The width in use.
    ranges_ : ndarray of shape (2, d)
        Lowest and highest value of each input.

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
        extrapolation: str = "continue",
    ) -> None:
        self.kernel = kernel
        self.width = width
        self.centers = centers
        self.random_state = random_state
        self.store = store
        self.extrapolation = extrapolation

    def _fit(self, X: Array, y: Any) -> None:
        check_choice("kernel", self.kernel, KERNELS)
        check_choice("extrapolation", self.extrapolation, BOUNDED_EXTRAPOLATIONS)
        if self.store != "auto":
            check_bool("store", self.store, remedy="'auto' decides by the memory budget")
        remedy = "give a number, an array, 'median' or ('median', factor)"
        factor = median_factor("width", self.width, remedy)
        if factor is None:
            width = check_positive("width", self.width, X.shape[1], max_ndim=2, remedy=remedy)
            if width.ndim == 2:
                _metric_root(width)
            self.width_ = width if width.ndim else float(width)
        else:
            self.width_ = check_number("width", factor, above=0, remedy=remedy) * median_distance(X)
        self.centers_, rows = self._resolve_centers(X)
        self.center_rows_ = arrays.from_host(rows, X)
        self.ranges_ = from_host(input_ranges(X), X)

    def _resolve_centers(self, X: Array) -> tuple[Array, NDArray[np.intp]]:
        n, d = X.shape
        if isinstance(self.centers, str):
            check_choice("centers", self.centers, ["samples"], remedy="give 'samples', a number or an array")
            return arrays.copied(X), np.arange(n)
        given = arrays.to_host(self.centers) if arrays.is_foreign(self.centers) else to_array(self.centers)
        if given.ndim == 0:
            points = arrays.to_host(X)
            different = arrays.different_rows(points)
            remedy = f"of {n} samples {len(different)} differ; 'samples' or an array of points will do as well"
            count = check_number("centers", self.centers, low=1, below=len(different) + 1, integer=True, remedy=remedy)
            rng = check_random_state(self.random_state)
            rows = different[np.sort(kmeans_plusplus_rows(points[different], int(count), rng))]
            return arrays.at(X, rows), rows
        if given.ndim != 2 or given.shape[1] != d:
            raise ValueError(f"centers must have shape (p, {d}), got shape {given.shape}: the data have {d} inputs.")
        check_no_strings("centers", given, "give the coordinates of points")
        centers = check_array(given, dtype=arrays.precision(X.dtype), copy=True, input_name="centers")
        return arrays.moved(centers, X), np.arange(len(centers))

    def evaluate(self, X: Array) -> Array:
        """Return the whole matrix, computed as its tiles are.

        Parameters
        ----------
        X : array of shape (n, d)
            Inputs, in float32 or float64.
        """
        return arrays.as_type(self.design(X).columns(EVERY), X.dtype)

    def design(self, X: Array) -> KernelDesign:
        """Return the design matrix without storing it: tiles are computed in every pass over it.

        `forward_path` takes it in place of an array; estimators use it according to `store`.

        Parameters
        ----------
        X : array of shape (n, d)
            Inputs: of NumPy, or of another library that follows the array API standard, on the device of which the
            tiles are then computed.
        """
        check_is_fitted(self)
        X = clip(X, to_host(self.ranges_)) if self.extrapolation == "clip" else X
        return kernel_design(X, arrays.to_host(self.centers_), self.width_, self.kernel)

    def clip_ranges(self) -> NDArray[np.float64]:
        """Return the range of every input outside which a function is evaluated at the boundary, (2, d)."""
        clips = self.extrapolation == "clip" and self.n_functions
        return to_host(self.ranges_) if clips else super().clip_ranges()

    def _stores(self, X: Array) -> bool:
        """Whether estimators store the design matrix: by `store` and, if that is "auto", by the memory budget."""
        if self.store != "auto":
            return bool(self.store)
        return arrays.precision(X.dtype).itemsize * X.shape[0] * self.centers_.shape[0] <= budget(X)

    def _names(self, inputs: list[str]) -> list[str]:
        return [f"{self.kernel}_{row}" for row in arrays.to_host(self.center_rows_)]


def kernel_design(X: Array, centers: NDArray[Any], width: float | NDArray[Any], kernel: str) -> KernelDesign:
    """Return radial functions around centres on samples X, on their device, by tiles that are not stored.

    Distances are matrix products here, for speed, and not the sum in `SQUARED_DISTANCE`, which exports use.
    """
    # products cancel less around the centres
    origin = centers.mean(axis=0, dtype=np.float64) if len(centers) else np.zeros(X.shape[1])
    points = [arrays.as_float64(P) - arrays.from_host(origin, X) for P in (X, arrays.moved(centers, X))]
    if isinstance(width, np.ndarray) and width.ndim == 2:
        inverse = sla.solve_triangular(_metric_root(width), np.eye(X.shape[1]), lower=True)
        whitening = arrays.from_host(np.ascontiguousarray(inverse.T), X)
        A, C = (P @ whitening for P in points)
    else:
        A, C = (P / arrays.from_host(width, X) for P in points)
    same = isinstance(X, np.ndarray) and np.array_equal(X, centers)
    phi = KERNELS[kernel]
    if isinstance(phi, Expression):
        phi = partial(kernel_values, phi)
    else:
        warn(
            f"KERNELS[{kernel!r}] as a function of (xp, m) is deprecated: give an expression in termwise.basis.r2, "
            "such as numpy.exp(-r2), which can be exported too.",
            FutureWarning,
        )
    return KernelDesign(A, C, phi, arrays.precision(X.dtype), symmetric=same)


def kmeans_plusplus_rows(X: NDArray[Any], count: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Draw rows that are spread over the data, by greedy k-means++ (Arthur and Vassilvitskii 2007).

    Each is the best of a few rows, the one that leaves the least sum of squared distances of all rows to the nearest
    row drawn; these few are drawn with probabilities proportional to such distances. Draws are those of scikit-learn's
    `kmeans_plusplus`, which validates and allocates anew for every row. Distances are products as in `KernelDesign`.
    Many rows are spread well by drawing one at a time, plain k-means++, in a fraction of the time.
    """
    X = X - X.mean(axis=0, dtype=np.float64)  # products cancel less
    squares, ones = arrays.row_squares(X)[:, None], np.ones((len(X), 1))
    left, right = np.hstack([-2 * X, squares, ones]), np.ascontiguousarray(np.hstack([X, ones, squares]).T)
    rows, trials = np.empty(count, dtype=np.intp), 1 if count > GREEDY_CENTERS else 2 + int(np.log(count))
    rows[0] = rng.choice(len(X), p=np.full(len(X), 1 / len(X)))
    nearest = np.maximum(left[rows[0]] @ right, 0.0)
    workspace, total = np.empty((trials, len(X))), nearest.sum()
    with DRAWING:
        for i in range(1, count):
            drawn = np.searchsorted(np.cumsum(nearest), rng.uniform(size=trials) * total)
            drawn = np.minimum(drawn, len(X) - 1)  # the cumulative sum may end below the sum
            distances = np.matmul(left[drawn], right, out=workspace)
            totals = np.minimum(distances, nearest, out=distances).sum(axis=1)
            best = int(np.argmin(totals))
            rows[i], total, nearest = drawn[best], totals[best], np.maximum(distances[best], 0.0)
            nearest[rows[i]] = 0.0  # rounding is not a distance: no row is drawn twice
    return rows


def kernel_values(kernel: Expression, xp: Any, m: Array, out: Array | None = None) -> Array:
    """Evaluate a kernel at m = -r2, the matrix product that tiles begin with; in place if m is `out`."""
    return evaluate(_in_negative_square(kernel), {"m": m}, xp, overwrite=() if out is None else ("m",))


@cache
def _in_negative_square(kernel: Expression) -> Expression:
    """Write a kernel in m = -r2: a Gaussian is then exp(m), a single pass."""
    return kernel.substitute(r2=-variable("m"))


def median_factor(name: str, width: Any, remedy: str) -> Any:
    """Return the factor of a width given as "median" or ("median", factor), None for any other width."""
    if isinstance(width, str):
        check_choice(name, width, ["median"], remedy=remedy)
        return 1.0
    pair = isinstance(width, tuple) and len(width) == 2 and isinstance(width[0], str)
    return width[1] if pair and check_choice(name, width[0], ["median"], remedy=remedy) else None


def median_distance(X: Array) -> float:
    """Return the median distance between distinct samples: a width that fits the scale of the data.

    Above `MEDIAN_ROWS` samples, that many evenly spaced ones are used. Identical samples only: 1.
    """
    distances = pdist(
        arrays.to_host(arrays.at(X, arrays.evenly(X.shape[0], MEDIAN_ROWS))).astype(np.float64, copy=False)
    )
    distances = distances[distances > 0]
    if not distances.size:
        return 1.0
    half = len(distances) // 2
    distances.partition(half)  # at one place, where `numpy.median` partitions at three
    low = distances[half] if len(distances) % 2 else distances[:half].max()
    return float((low + distances[half]) / 2)


def _metric_root(metric: NDArray[Any]) -> NDArray[Any]:
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
