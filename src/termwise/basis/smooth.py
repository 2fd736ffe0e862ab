"""Linear functions of the inputs and Gaussians of one or several widths, with ARD relevances of the inputs.

Automatic relevance determination models the targets as a linear function plus a Gaussian process plus noise (MacKay
1994, Neal 1996; Rasmussen and Williams 2006, section 5.4), with the covariance

    C = 1 + a Z Z' / d + s exp(-sum_j r_j^2 (z_j - z'_j)^2) + v I,

Z (n, d) being the standardised inputs. The relevances r (inverse length-scales) that maximise the posterior density are
near zero for irrelevant inputs. All parameters are positive and are optimised by their logarithms.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.utils import check_array, check_random_state

from termwise._arrays import Array, at, different_rows, from_host, has_missing, namespace, row_blocks
from termwise._checks import check_bool, check_choice, check_number, is_one_of, to_array, warn
from termwise._numerics import ARD_FTOL, ARD_MIN_EXTENT
from termwise._threads import one_thread
from termwise.basis.base import Basis
from termwise.basis.expressions import evaluate, sum_squares, variable, where, z
from termwise.basis.inputs import EXTRAPOLATIONS, STANDARDISED, InputStatistics, clip, linear_ranges, required_targets
from termwise.basis.radial import (
    KERNELS,
    RadialBasis,
    kernel_design,
    kmeans_plusplus_rows,
    median_distance,
    median_factor,
)
from termwise.design import EVERY

Floats = NDArray[np.float64]

# A Gaussian of several inputs, any of which may be missing: these are ignored in the distance to the centre. It is zero
# where all of them are missing; the second sum is the number of those that are not.
PRESENT_DISTANCE = sum_squares(where(np.isnan(z), 0.0, (z - variable("centers")) / variable("widths")))
N_PRESENT = sum_squares(where(np.isnan(z), 0.0, 1.0))
PRESENT_GAUSSIAN = KERNELS["gaussian"].substitute(r2=PRESENT_DISTANCE) * np.minimum(1.0, N_PRESENT)

NAMED_INPUTS = 3  # as many inputs are listed in the name of a Gaussian
ARD_ROWS = 350  # samples for ARD, whose time grows with their cube
ARD_MAX_ITER = 50
ARD_CORRECTIONS = 20  # stored by L-BFGS
TRIANGLE_SIDE = 24  # of triangles that are inverted as any matrix
ARD_DIGITS = 3  # relevances are rounded, so that they do not depend on rounding errors of the optimiser
PRIOR_DEVIATION = 10.0**0.5  # of log r^2 around their mean, a weak prior for equal relevances
LOG_BOUNDS = {"r^2": (-12.0, 3.0), "s": (-6.0, 6.0), "a": (-8.0, 6.0), "v": (-9.0, 2.0)}


class SmoothBasis(Basis):
    """The inputs themselves, and Gaussians centred on the samples at one or several widths.

    Inputs are standardised. The functions are `(x_j - mean_j) / deviation_j` for every input that is not constant, then
    for each width `w` and centre `c` the Gaussian `exp(-|z - z_c|^2 / w^2)` of the standardised inputs `z`.

    Parameters
    ----------
    widths : float or array-like of float
        Widths in median distances, as `width=("median", widths)` without `relevance`.

        .. deprecated:: 0.2
           Use `width`, which has the unit of the inputs of the Gaussians, as in `RadialBasis`.
    centers : "samples", int or array-like of shape (m, d), default="samples"
        Centres of the Gaussians: every distinct training sample, that many of them spread over the data (all where
        there are fewer), or given.
    linear : bool, default=True
        Whether the inputs themselves are among the functions.
    random_state : int, RandomState instance or None, default=0
        Draws the spread-out samples when `centers` is a number.
    relevance : "auto", array-like of shape (d,) or None, default=None
        ARD relevance (inverse length-scale) `r_j` of each standardised input, which it is multiplied by: Gaussians are
        `exp(-sum_j (r_j (x_j - c_j) / deviation_j)^2 / w^2)`, and zero excludes an input. "auto" estimates relevances
        from the targets given to `fit`; None: isotropic, all relevances are one.
    width : float, list of float, "median", ("median", factor) or "auto", default="auto"
        Widths of the Gaussians in the units of the inputs they are evaluated on, which are standardised and multiplied
        by `relevance`: one or several numbers, or multiples of the median distance between samples, `("median", 0.5)`
        or `("median", [0.5, 1, 2])`. "auto" is "median", and 1 if there is a `relevance`. With several widths, every
        centre has a Gaussian of each, and the estimator selects among them.
    extrapolation : {"clip", "bounded", "constant", "linear", "continue"}, default="clip"
        Value of the functions outside the range of the training inputs, `ranges_`. "clip", and "linear" just the same:
        Gaussians are evaluated at inputs clipped to that range, while the inputs themselves stay linear. "bounded":
        these are linear for one standard deviation beyond the range, and constant from there. "constant": these are
        clipped to the range, too. "continue": the formula holds everywhere, and Gaussians vanish far away.

    min_count : float, default=0
        Exclude Gaussians that are supported by fewer distinct samples than this, and than a tenth of all, counted as
        `(sum g^2)^2 / sum g^4` as in `AnovaBasis`: those on isolated samples, whose weights do not generalise.

    Attributes
    ----------
    columns_ : ndarray of shape (p,)
        The input of a linear function; -1 for a Gaussian.
    factors_ : ndarray of shape (p,)
        Width of each Gaussian as a multiple of `distance_`; NaN for a linear function.
    centers_ : ndarray of shape (p, d)
        Centre of each Gaussian; NaN for a linear function.
    center_rows_ : ndarray of shape (p,)
        First training sample at that centre, or row of the given centre; -1 for a linear function.
    distance_ : float
        The median distance between samples where `width` is a multiple of that, else 1.
    relevance_ : ndarray of shape (d,)
        Factors of the standardised inputs in the distances; 0 for excluded and for constant inputs.
    isotropic_ : bool
        Whether all inputs have the same relevance, as without `relevance`.
    means_, deviations_ : ndarrays of shape (d,)
        Means and standard deviations of the inputs; a deviation of 0 marks a constant input, which is excluded.
    ranges_ : ndarray of shape (2, d)
        Lowest and highest value of each input, to which inputs are clipped.
    missing_ : ndarray of bool of shape (d,)
        Inputs with missing values in `fit`, which may have some in `transform`, too.

    See Also
    --------
    RadialBasis : One width, other kernels and metrics, inputs that are not standardised.
    AnovaBasis : Functions of one and two inputs, the better choice for many inputs.

    Notes
    -----
    Means, deviations, the median and the centres are those of the distinct samples: repeating a sample changes nothing.
    Linear functions extrapolate where Gaussians are constant; together they are a safe default for a smooth function of
    up to about ten inputs.

    With many irrelevant inputs distances carry little information, and no common width is right. `relevance="auto"`
    maximises the posterior density of a Gaussian process (automatic relevance determination) on at most 350 samples
    drawn from the data, in a fraction of a second. Inputs that change no Gaussian of width 1 by more than a hundredth
    are excluded, and names list the remaining ones if they are few. Criteria and error bars of a model treat the
    relevances as given, as they do with all fitted attributes of a basis: for few samples and many inputs they are
    optimistic, and cross-validation is the better estimate.

    Missing values (NaN) are neutral: the linear function of a missing input is zero, and Gaussians ignore it in the
    distance to their centre; where all inputs are missing they are zero. Means and deviations are those of the values
    that are present. A centre on a sample with missing values is at the mean of these inputs, where they also are when
    relevances, the median distance and a number of centres are determined.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import BasisRidge, SmoothBasis
    >>> X = np.array([[0.0, 7.0], [1.0, 7.0], [3.0, 7.0]])
    >>> basis = SmoothBasis(width=("median", [0.5, 2])).fit(X)
    >>> list(basis.get_feature_names_out(["speed", "load"])[:3])
    ['speed', 'gauss(w=0.5) near row 0', 'gauss(w=0.5) near row 1']
    >>> basis.take([0, 5]).transform(X).round(2).tolist()
    [[-1.07, 0.94], [-0.27, 1.0], [1.34, 0.78]]

    Two of six inputs are relevant, the first one most.

    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(150, 6))
    >>> y = np.sin(4 * X[:, 0]) * (1 + X[:, 1])
    >>> basis = SmoothBasis(relevance="auto").fit(X, y)
    >>> basis.relevance_.round(1).tolist()
    [0.8, 0.1, 0.0, 0.0, 0.0, 0.0]
    >>> print(basis.get_feature_names_out()[-1])
    gauss(x0, x1) near row 149
    """

    _per_term = ("columns_", "factors_", "centers_", "center_rows_")
    allows_missing = True

    def __init__(
        self,
        widths: float | ArrayLike | str = "deprecated",
        centers: str | int | ArrayLike = "samples",
        linear: bool = True,
        random_state: int | np.random.RandomState | None = 0,
        relevance: str | ArrayLike | None = None,
        *,
        width: Any = "auto",
        extrapolation: str = "clip",
        min_count: float = 0,
    ) -> None:
        self.widths = widths
        self.centers = centers
        self.linear = linear
        self.random_state = random_state
        self.relevance = relevance
        self.width = width
        self.extrapolation = extrapolation
        self.min_count = min_count

    def _fit(self, X: NDArray[Any], y: Any) -> None:
        check_bool("linear", self.linear, remedy="True has the inputs themselves as functions too")
        check_choice("extrapolation", self.extrapolation, EXTRAPOLATIONS, remedy="'clip' suits most data")
        check_number("min_count", self.min_count, low=0, remedy="0 excludes nothing")
        factors, of_median = self._resolve_widths()
        statistics = InputStatistics.from_samples(X).check_varying()
        self.means_, self.deviations_, self.ranges_ = statistics.means, statistics.deviations, statistics.ranges
        X = np.where(np.isnan(X), self.means_.astype(X.dtype), X) if has_missing(X) else X
        self.relevance_, self.isotropic_ = self._resolve_relevance(X, y), self.relevance is None
        distinct, inputs, varying = statistics.rows, self._relevant_inputs, np.flatnonzero(self.deviations_)
        scaling = {"center": self.means_[inputs], "scale": self.deviations_[inputs]}
        Z = evaluate(STANDARDISED, {"z": X[distinct][:, inputs], **scaling}) * self.relevance_[inputs]
        if len(inputs) < len(varying) or self.missing_.any():  # samples may differ in other inputs only
            first = different_rows(Z)
            distinct, Z = distinct[first], Z[first]
        self.distance_ = median_distance(Z) if of_median else 1.0
        centers, rows = self._resolve_centers(X, distinct, Z)
        columns = varying if self.linear else varying[:0]
        n_linear, n_gaussians = len(columns), len(factors) * len(rows)
        self.columns_ = np.append(columns, np.full(n_gaussians, -1))
        self.factors_ = np.append(np.full(n_linear, np.nan), np.repeat(factors, len(rows)))
        self.centers_ = np.vstack([np.full((n_linear, X.shape[1]), np.nan), np.tile(centers, (len(factors), 1))])
        self.center_rows_ = np.append(np.full(n_linear, -1), np.tile(rows, len(factors)))
        if self.min_count:
            self._exclude_rare(X[statistics.rows])

    def _exclude_rare(self, X: NDArray[Any]) -> None:
        """Exclude Gaussians that are supported by too few of the distinct samples."""
        squares, fourth = np.zeros((2, len(self.columns_)))
        for rows in row_blocks(len(X), len(self.columns_)):
            G = self.evaluate(X[rows]).astype(np.float64, copy=False)
            squares += np.square(G, out=G).sum(axis=0)
            fourth += np.square(G, out=G).sum(axis=0)
        counts = squares**2 / np.maximum(fourth, np.finfo(np.float64).tiny)
        self._restrict(np.flatnonzero((self.columns_ >= 0) | (counts >= min(self.min_count, len(X) / 10))))

    def with_fitted_params(self) -> Self:
        """Return an unfitted copy with the fitted relevances."""
        return super().with_fitted_params().set_params(relevance=None if self.isotropic_ else self.relevance_)

    def _resolve_widths(self) -> tuple[Floats, bool]:
        """Return the distinct widths, and whether they are multiples of the median distance."""
        name, width = "width", self.width
        remedy = "give a number, several, 'median' or ('median', factors), such as ('median', [0.5, 1, 2])"
        if not is_one_of(self.widths, "deprecated"):
            name, width = "widths", ("median", self.widths) if self.relevance is None else self.widths
            warn(
                f"widths is deprecated, as its unit is the median distance: use width={width!r}.",
                FutureWarning,
            )
        if is_one_of(width, "auto"):
            width = "median" if self.relevance is None else 1.0
        factors = median_factor(name, width, remedy)
        values = width if factors is None else factors
        values = [values] if np.ndim(values) == 0 else np.asarray(values).tolist()
        if not values:
            raise ValueError(f"{name} must not be empty, got {getattr(self, name)!r}: {remedy}.")
        checked = [check_number(name, value, above=0, remedy=remedy) for value in values]
        return np.array(list(dict.fromkeys(checked)), dtype=np.float64), factors is not None

    @property
    def _relevant_inputs(self) -> NDArray[np.intp]:
        """Inputs of the Gaussians."""
        return np.flatnonzero(self.relevance_)

    def _resolve_relevance(self, X: NDArray[Any], y: Any) -> Floats:
        """Return the factor of each standardised input; 0 for a constant one."""
        varies = self.deviations_ > 0
        if self.relevance is None:
            return varies.astype(np.float64)
        relevance = np.zeros(len(varies))
        if isinstance(self.relevance, str):
            check_choice("relevance", self.relevance, ["auto"], remedy="give 'auto', None or a number for each input")
            Y = required_targets("relevance='auto'", y, X, remedy="give numbers")
            relevance[varies] = ard_relevance(X[:, varies].astype(np.float64), Y) * self.deviations_[varies]
            return relevance
        given = np.atleast_1d(to_array(self.relevance))
        if given.dtype.kind in "biuf":
            given = check_array(given, ensure_2d=False, dtype=np.float64, input_name="relevance")
            relevance = np.where(varies, given, 0.0) if given.shape == varies.shape else relevance
        if not relevance.any() or (given < 0).any():
            raise ValueError(
                f"relevance must be {len(varies)} numbers, one per input, none negative and not all of them zero, "
                f"got {self.relevance!r}: None gives all inputs the same relevance."
            )
        return relevance

    def _resolve_centers(
        self, X: NDArray[Any], distinct: NDArray[np.intp], Z: Floats
    ) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return distinct centres and their rows; Z holds the distinct samples, standardised."""
        if np.ndim(self.centers) == 0 and not isinstance(self.centers, str):
            remedy = "'samples' or an array of points will do as well"
            count = check_number("centers", self.centers, low=1, integer=True, remedy=remedy)
            if count < len(Z):
                rng = check_random_state(self.random_state)
                distinct = distinct[np.sort(kmeans_plusplus_rows(Z, int(count), rng))]
            return X[distinct], distinct
        if isinstance(self.centers, str):
            check_choice("centers", self.centers, ["samples"], remedy="give 'samples', a number or an array")
            return X[distinct], distinct
        given = RadialBasis(centers=self.centers).fit(X).centers_
        rows = different_rows(given[:, self._relevant_inputs])
        return given[rows], rows

    def evaluate(self, X: NDArray[Any]) -> NDArray[Any]:
        """Fill the design matrix block by block, the Gaussians of one width at a time.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        G, incomplete = np.empty((len(X), len(self.columns_)), dtype=X.dtype), has_missing(X)
        standardised, of_gaussians = self._standardised_and_clipped(X)
        G[:, self.columns_ >= 0] = np.nan_to_num(standardised) if incomplete else standardised
        for terms, widths, centers in self.gaussians():
            if incomplete:
                for rows in row_blocks(*G.shape):
                    G[rows, terms] = present_gaussians(of_gaussians[rows], centers, widths)
                continue
            design = kernel_design(of_gaussians, centers, widths, "gaussian")
            if len(terms) == terms[-1] + 1 - terms[0]:  # adjacent columns, which need no copy
                design.write(G[:, terms[0] : terms[-1] + 1])
            else:
                G[:, terms] = design.columns(EVERY)
        return G

    def evaluate_on(self, like: Array, X: NDArray[Any]) -> Array:
        """Return the design matrix in float64, computed in the library and on the device of `like`.

        Parameters
        ----------
        like : array
            Any array of that library on that device.
        X : ndarray of shape (n, d)
            Inputs, without missing values.
        """
        standardised, of_gaussians = self._standardised_and_clipped(X.astype(np.float64, copy=False))
        parts, places = [from_host(standardised, like)], [np.flatnonzero(self.columns_ >= 0)]
        inputs = from_host(of_gaussians, like)
        for terms, widths, centers in self.gaussians():
            parts.append(kernel_design(inputs, centers, widths, "gaussian").columns(EVERY))
            places.append(terms)
        return at(namespace(like).concat(parts, axis=1), np.argsort(np.concatenate(places)), axis=1)

    def _standardised_and_clipped(self, X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the linear functions, and the inputs of the Gaussians as they see them."""
        columns, inputs = self.columns_[self.columns_ >= 0], self._relevant_inputs
        of_linear, of_gaussians = X[:, columns], X[:, inputs]
        if self.extrapolation in ("bounded", "constant"):
            ends = linear_ranges(self.extrapolation, self.ranges_, self.deviations_)
            of_linear = clip(of_linear, ends[:, columns], overwrite=True)
        if self.extrapolation != "continue":
            of_gaussians = clip(of_gaussians, self.ranges_[:, inputs], overwrite=True)
        scaling = {"center": self.means_[columns], "scale": self.deviations_[columns]}
        return evaluate(STANDARDISED, {"z": of_linear, **scaling}), of_gaussians

    def clip_ranges(self) -> Floats:
        """Return the range of every input outside which a function is evaluated at the boundary, (2, d)."""
        ends, columns = super().clip_ranges(), self.columns_[self.columns_ >= 0]
        ends[:, columns] = linear_ranges(self.extrapolation, self.ranges_, self.deviations_)[:, columns]
        if self.extrapolation != "continue" and len(columns) < self.n_functions:
            ends[:, self._relevant_inputs] = self.ranges_[:, self._relevant_inputs]
        return ends

    def gaussians(self) -> list[tuple[NDArray[np.intp], Floats, NDArray[Any]]]:
        """Return, for each width, the functions of that width, and their widths and centres in the relevant inputs."""
        inputs, parts = self._relevant_inputs, []
        for factor in np.unique(self.factors_[self.columns_ < 0]):
            terms = np.flatnonzero(self.factors_ == factor)
            widths = factor * self.distance_ * self.deviations_[inputs] / self.relevance_[inputs]
            parts.append((terms, widths, self.centers_[terms][:, inputs]))
        return parts

    def inputs_of(self, indices: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the inputs that each of some functions depends on, in ascending order.

        Parameters
        ----------
        indices : ndarray of int
            Which functions.
        """
        relevant = tuple(self._relevant_inputs.tolist())
        return [relevant if j < 0 else (j,) for j in self.columns_[indices].tolist()]

    def _names(self, inputs: list[str]) -> list[str]:
        relevant = [inputs[j] for j in self._relevant_inputs]
        listed = ", ".join(relevant) if len(relevant) <= NAMED_INPUTS else f"{len(relevant)} inputs"
        names, place = [], "row" if np.ndim(self.centers) == 0 else "centre"
        for j, factor, row in zip(self.columns_, self.factors_, self.center_rows_, strict=True):
            parts = [] if self.isotropic_ else [listed]
            parts += [f"w={factor:g}"] if self.isotropic_ or factor != 1 else []
            names.append(inputs[j] if j >= 0 else f"gauss({'; '.join(parts)}) near {place} {row}")
        return names


def present_gaussians(X: NDArray[Any], centers: NDArray[Any], widths: Floats) -> Floats:
    """Evaluate `PRESENT_GAUSSIAN` on inputs (n, d) with missing values, by matrix products.

    With `m_j` 1 where input j is present and else 0, the squared distance in units of the widths is
    `sum_j m_j z_j^2 - 2 sum_j m_j z_j c_j + sum_j m_j c_j^2`.
    """
    origin = centers.mean(axis=0, dtype=np.float64)  # products cancel less around the centres
    C, present = (centers - origin) / widths, ~np.isnan(X)
    Z = np.where(present, (X - origin) / widths, 0.0)
    m = 2 * Z @ C.T
    m -= present.astype(np.float64) @ (C * C).T
    m -= np.einsum("ij,ij->i", Z, Z)[:, None]
    G = np.exp(np.minimum(m, 0.0, out=m), out=m)
    G[~present.any(axis=1)] = 0.0
    return G


# -- automatic relevance determination ---------------------------------------------------------------------------------


def ard_relevance(X: Floats, Y: Floats) -> Floats:
    """Return `r` per unit of each input, for inputs (n, d) none of which is constant and targets (n, q).

    Repeated samples enter once, and the order of the samples does not matter.
    """
    both, d = np.unique(np.column_stack([X, Y]), axis=0), X.shape[1]
    drawn = np.random.RandomState(0).permutation(len(both))[:ARD_ROWS]  # even steps could alias with a designed grid
    extent, both = np.ptp(X, axis=0), both[drawn]
    constant = both.min(axis=0) == both.max(axis=0)  # among the drawn samples
    scale = np.where(constant, np.append(extent, np.ones(Y.shape[1])), both.std(axis=0))
    Z, Y = np.split((both - both.mean(axis=0)) / scale, [d], axis=1)
    start = np.append(np.full(d, -np.log(2 * d)), [0.0, 0.0, np.log(0.5)])
    bounds = [LOG_BOUNDS["r^2"]] * d + [LOG_BOUNDS[name] for name in ("s", "a", "v")]
    options = {"maxiter": ARD_MAX_ITER, "ftol": ARD_FTOL, "maxcor": ARD_CORRECTIONS}
    with one_thread():  # with so few samples, threads would wait for each other
        data = Z, Y, np.zeros((3, len(Z), len(Z)))
        found = minimize(negative_log_posterior, start, data, "L-BFGS-B", jac=True, bounds=bounds, options=options)
    r = np.array([float(f"{value:.{ARD_DIGITS}g}") for value in np.exp(found.x[:d] / 2)]) / scale[:d]
    relevant = r * extent > ARD_MIN_EXTENT
    return np.where(relevant, r, 0.0) if relevant.any() else r


def negative_log_posterior(logs: Floats, Z: Floats, Y: Floats, workspace: Floats | None = None) -> tuple[float, Floats]:
    """Return the negative log-likelihood of Y, plus the prior of the relevances, and the gradient.

    With `2 W = q C^-1 - C^-1 Y Y' C^-1` the derivative by any parameter t is `sum(W * dC/dt)`. `workspace`, (3, n, n),
    is overwritten: to allocate that much memory anew costs as much as to fill it. Functions of NumPy release the
    interpreter lock, unlike SciPy's of LAPACK, so that the folds of a cross-validation can run in threads.
    """
    (n, d), q = Z.shape, Y.shape[1]
    r2, (a, v) = np.exp(logs[:d]), np.exp(logs[d + 1 :])
    smooth, C, root_inverse = np.zeros((3, n, n)) if workspace is None else workspace
    scaled = Z * np.sqrt(r2)
    squares, ones = np.einsum("ij,ij->i", scaled, scaled)[:, None], np.ones((n, 1))
    # the logarithm of the smooth part: minus the squared distances, plus log s
    np.matmul(np.hstack([2 * scaled, ones, -squares]), np.hstack([scaled, logs[d] - squares, ones]).T, out=smooth)
    np.exp(np.minimum(smooth, logs[d], out=smooth), out=smooth)
    np.matmul(np.hstack([a / d * Z, ones]), np.hstack([Z, ones]).T, out=C)
    C += smooth
    np.einsum("ii->i", C)[:] += v
    root = np.linalg.cholesky(C)
    invert_triangle(root, root_inverse)
    along = root_inverse @ Y
    value = q * np.log(np.einsum("ii->i", root)).sum() + np.sum(along * along) / 2
    T = root_inverse.T @ along
    W = np.matmul(root_inverse.T, root_inverse, out=C)
    W *= q / 2
    W -= T @ (T.T / 2)
    by_a, by_v = a / d * np.einsum("ij,ij->", Z, W @ Z), v * np.trace(W)
    W *= smooth
    sums = W.sum(axis=0)
    by_r2 = 2 * r2 * (np.einsum("ij,ij->j", Z, W @ Z) - sums @ (Z * Z))
    centred = logs[:d] - logs[:d].mean()
    value += centred @ centred / (2 * PRIOR_DEVIATION**2)
    return value, np.append(by_r2 + centred / PRIOR_DEVIATION**2, [sums.sum(), by_a, by_v])


def invert_triangle(L: Floats, out: Floats) -> None:
    """Write the inverse of a lower triangular matrix to an array of zeros, by halves."""
    n = len(L)
    if n <= TRIANGLE_SIDE:
        out[...] = np.linalg.inv(L)
        return
    first, rest = slice(n // 2), slice(n // 2, n)
    invert_triangle(L[first, first], out[first, first])
    invert_triangle(L[rest, rest], out[rest, rest])
    np.matmul(-out[rest, rest], L[rest, first] @ out[first, first], out=out[rest, first])
