"""Fourier series and logistic hidden units, Orr section 3."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from termwise._checks import check_choice, check_number
from termwise._numerics import ROUNDING_SHARE
from termwise.basis.base import Basis
from termwise.basis.expressions import dot, evaluate, logistic, variable, z
from termwise.basis.inputs import BOUNDED_EXTRAPOLATIONS, InputStatistics, check_positive, clip, input_ranges

TURNS = (z - variable("origins")) / variable("periods")
WAVE_OF_TURNS = np.sin(variable("turns") * (2 * np.pi * variable("harmonics")) + variable("phases"))
WAVE = WAVE_OF_TURNS.substitute(turns=TURNS)
HIDDEN_UNIT = logistic(variable("offsets") - dot(z, variable("directions")))  # 1 / (1 + exp(b'x - b0))


class FourierBasis(Basis):
    """Sines and cosines of every input.

    For each input and each harmonic `k = 1, ..., n_harmonics`: `sin(2 pi k (x - x0) / period)` and the cosine, with
    `x0` the smallest training value. A sine that is zero at all samples, as of an input with two values and the default
    period, is left out.

    Parameters
    ----------
    n_harmonics : int, default=5
        Number of harmonics per input.
    period : float, array-like of shape (d,) or None, default=None
        Longest period, one for all inputs or one each. None takes twice the range of the training data, so that a fit
        need not return at one end of the data to where it started at the other; give the period of what is periodic.
    extrapolation : {"continue", "clip"}, default="continue"
        Value of the functions outside the range of the training inputs, `ranges_`: that of the formula, which is
        periodic, or with "clip" the value at the inputs clipped to that range.

    Attributes
    ----------
    periods_ : ndarray of shape (d,)
        Longest period of each input.
    origins_ : ndarray of shape (d,)
        Smallest training value of each input.
    ranges_ : ndarray of shape (2, d)
        Lowest and highest value of each input.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import FourierBasis
    >>> X = np.array([[0.0], [0.25], [0.5]])
    >>> basis = FourierBasis(n_harmonics=1, period=1.0).fit(X)
    >>> list(basis.get_feature_names_out())
    ['sin1(x0)', 'cos1(x0)']
    >>> (basis.transform(X).round(2) + 0.0).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]]
    """

    _per_term = ("columns_", "harmonics_", "phases_")

    def __init__(
        self, n_harmonics: int = 5, period: float | ArrayLike | None = None, extrapolation: str = "continue"
    ) -> None:
        self.n_harmonics = n_harmonics
        self.period = period
        self.extrapolation = extrapolation

    def _fit(self, X: NDArray[Any], y: Any) -> None:
        check_number(
            "n_harmonics", self.n_harmonics, low=1, integer=True, remedy="one is the smallest number of waves per input"
        )
        check_choice("extrapolation", self.extrapolation, BOUNDED_EXTRAPOLATIONS)
        d, spread = X.shape[1], np.ptp(X, axis=0).astype(np.float64)
        period = np.where(spread > 0, 2 * spread, 1.0) if self.period is None else self.period
        period = check_positive("period", period, d, max_ndim=1, remedy="leave it out to use the range of the data")
        self.periods_ = np.broadcast_to(period, d).copy()
        self.origins_, self.ranges_ = X.min(axis=0).astype(np.float64), input_ranges(X)
        self.columns_ = np.repeat(np.arange(d), 2 * self.n_harmonics)
        self.harmonics_ = np.tile(np.repeat(np.arange(1, self.n_harmonics + 1), 2), d)
        self.phases_ = np.tile([0.0, np.pi / 2], d * self.n_harmonics)  # cos(a) = sin(a + pi/2)
        cosines = np.ones((d, self.n_harmonics), dtype=bool)
        self._restrict(np.flatnonzero(np.stack([~self._vanishing_sines(X), cosines], axis=-1)))

    def _vanishing_sines(self, X: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which sines are zero at all samples except for rounding, which large weights would turn into terms."""
        harmonics = np.arange(1, self.n_harmonics + 1)
        turns = evaluate(TURNS, {"z": X, "origins": self.origins_, "periods": self.periods_})
        largest = np.column_stack([np.abs(np.sin(2 * np.pi * k * turns)).max(axis=0) for k in harmonics])
        size = np.abs(self.ranges_ / self.periods_).max(axis=0)  # of the inputs, whose rounding counts, in turns
        return largest <= ROUNDING_SHARE[X.dtype] * 2 * np.pi * np.outer(size, harmonics)

    def evaluate(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the design matrix of valid inputs.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        X = clip(X, self.ranges_) if self.extrapolation == "clip" else X
        turns = evaluate(TURNS, {"z": X, "origins": self.origins_, "periods": self.periods_})
        waves = {"turns": turns[:, self.columns_], "harmonics": self.harmonics_, "phases": self.phases_}
        return evaluate(WAVE_OF_TURNS, waves, overwrite=("turns",)).astype(X.dtype, copy=False)

    def inputs_of(self, indices: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return the inputs that each of some functions depends on, in ascending order.

        Parameters
        ----------
        indices : ndarray of int
            Which functions.
        """
        return [(j,) for j in self.columns_[indices].tolist()]

    def clip_ranges(self) -> NDArray[np.float64]:
        """Return the range of every input outside which a function is evaluated at the boundary, (2, d)."""
        ends = super().clip_ranges()
        if self.extrapolation == "clip":
            ends[:, self.columns_] = self.ranges_[:, self.columns_]
        return ends

    def _names(self, inputs: list[str]) -> list[str]:
        waves = np.where(self.phases_ == 0, "sin", "cos")
        terms = zip(waves, self.harmonics_, self.columns_, strict=True)
        return [f"{wave}{k}({inputs[j]})" for wave, k, j in terms]


class LogisticBasis(Basis):
    """Logistic hidden units with random weights: `h(x) = 1 / (1 + exp(b'x - b0))`.

    The directions `b` are normal, scaled by the spread of each input; each unit's step passes through a random training
    sample, so that every unit is active somewhere in the data.

    Parameters
    ----------
    n_units : int, default=100
        Number of units.
    scale : float, default=1.0
        Steepness: larger units switch faster.
    random_state : int, RandomState instance or None, default=0
        Draws the units.
    extrapolation : {"continue", "clip"}, default="continue"
        Value of the functions outside the range of the training inputs, `ranges_`: that of the formula, which is
        between 0 and 1, or with "clip" the value at the inputs clipped to that range.

    Attributes
    ----------
    directions_ : ndarray of shape (n_units, d)
        Weights `b` of the units.
    offsets_ : ndarray of shape (n_units,)
        Offsets `b0`.
    ranges_ : ndarray of shape (2, d)
        Lowest and highest value of each input.

    Examples
    --------
    >>> import numpy as np
    >>> from termwise import BasisRidge, LogisticBasis
    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> model = BasisRidge(LogisticBasis(n_units=30)).fit(X, np.tanh(X.ravel()))
    >>> round(model.score(X, np.tanh(X.ravel())), 3)
    1.0
    """

    _per_term = ("directions_", "offsets_", "units_")

    def __init__(
        self,
        n_units: int = 100,
        scale: float = 1.0,
        random_state: int | np.random.RandomState | None = 0,
        extrapolation: str = "continue",
    ) -> None:
        self.n_units = n_units
        self.scale = scale
        self.random_state = random_state
        self.extrapolation = extrapolation

    def _fit(self, X: NDArray[Any], y: Any) -> None:
        check_number("n_units", self.n_units, low=1, integer=True, remedy="one is the smallest number of units")
        check_number("scale", self.scale, above=0, remedy="1 suits most data, larger is steeper")
        check_choice("extrapolation", self.extrapolation, BOUNDED_EXTRAPOLATIONS)
        rng = check_random_state(self.random_state)
        seen = InputStatistics.from_samples(X)
        spread = np.where(seen.deviations > 0, seen.deviations, 1.0)
        self.directions_ = self.scale * rng.normal(size=(self.n_units, X.shape[1])) / spread
        anchors = X[seen.rows[rng.randint(len(seen.rows), size=self.n_units)]]
        self.offsets_ = np.einsum("ij,ij->i", self.directions_, anchors)
        self.units_, self.ranges_ = np.arange(self.n_units), input_ranges(X)

    def evaluate(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the design matrix of valid inputs.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Inputs, in float32 or float64.
        """
        X = clip(X, self.ranges_) if self.extrapolation == "clip" else X
        units = {"directions": self.directions_, "offsets": self.offsets_}
        return evaluate(HIDDEN_UNIT, {"z": X[:, None], **units}).astype(X.dtype, copy=False)

    def clip_ranges(self) -> NDArray[np.float64]:
        """Return the range of every input outside which a function is evaluated at the boundary, (2, d)."""
        return self.ranges_ if self.extrapolation == "clip" and self.n_functions else super().clip_ranges()

    def _names(self, inputs: list[str]) -> list[str]:
        return [f"logistic_{unit}" for unit in self.units_]
