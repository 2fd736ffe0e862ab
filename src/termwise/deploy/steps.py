"""What a fitted model does to a row of numbers, step by step: each step a record of arrays and one equation.

A step takes a matrix Z of shape (n, inputs) and yields one of shape (n, terms). `keep` restricts it to some of its
terms and says which of its inputs those need, so that nothing a model does not use is ever kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from termwise.basis import KERNELS
from termwise.basis.radial import kernel_design
from termwise.deploy.plain import Numbers, Record, Single, Sizes, WholeNumbers, read_choice, specs_of
from termwise.design import EVERY

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

SHIPPED = tuple(KERNELS)  # kernels that other languages know; people may add others


class Step(Record, ABC):
    """A function from rows of numbers to rows of numbers."""

    kind: ClassVar[str]

    @property
    def n_inputs(self) -> int:
        """Columns it takes: as many as its arrays have, or as its indices reach."""
        specs = specs_of(type(self)).items()
        reach = [getattr(self, name).max(initial=-1) + 1 for name, spec in specs if getattr(spec, "of", "") == "inputs"]
        return self.lengths().get("inputs") or int(max(reach, default=0))

    @property
    def n_terms(self) -> int:
        """Columns it yields."""
        lengths = self.lengths()
        return lengths["terms" if "terms" in lengths else "inputs"]

    @abstractmethod
    def evaluate(self, Z: Floats) -> Floats:
        """Return its terms on rows of its inputs."""

    @abstractmethod
    def keep(self, terms: Indices) -> tuple[Step | None, Indices]:
        """Return a step that yields only these terms, in this order, and the columns it is to be given.

        None for the step that does nothing.
        """

    def plain(self) -> dict[str, Any]:
        """Return plain data, the kind of step first."""
        return {"step": self.kind, **super().plain()}


# -- one column at a time ----------------------------------------------------------------------------------------------


class Elementwise(Step):
    """A step that changes each column by itself; all its fields run over the columns."""

    def keep(self, terms: Indices) -> tuple[Step, Indices]:
        """Restrict it to some columns."""
        return replace(self, **{name: values[terms] for name, values in vars(self).items()}), terms  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class Columns(Step):
    """Some columns as they are: a step of the way there, which no frozen model has left."""

    kind: ClassVar[str] = "columns"
    columns: Annotated[Indices, WholeNumbers(("terms",), of="inputs")]

    def evaluate(self, Z: Floats) -> Floats:
        """Take the columns."""
        return Z[:, self.columns]

    def keep(self, terms: Indices) -> tuple[None, Indices]:
        """Nothing is to be done once only the right columns come in."""
        return None, self.columns[terms]


@dataclass(frozen=True, eq=False)
class Standardise(Elementwise):
    """`(z - center) / scale`, of scikit-learn's StandardScaler, MaxAbsScaler and RobustScaler."""

    kind: ClassVar[str] = "standardise"
    center: Annotated[Floats, Numbers(("inputs",))]
    scale: Annotated[Floats, Numbers(("inputs",), nonzero=True)]

    def evaluate(self, Z: Floats) -> Floats:
        """Shift and scale."""
        return (Z - self.center) / self.scale


@dataclass(frozen=True, eq=False)
class Stretch(Elementwise):
    """`factor z + offset`, of scikit-learn's MinMaxScaler."""

    kind: ClassVar[str] = "stretch"
    factor: Annotated[Floats, Numbers(("inputs",))]
    offset: Annotated[Floats, Numbers(("inputs",))]

    def evaluate(self, Z: Floats) -> Floats:
        """Scale and shift."""
        return Z * self.factor + self.offset


@dataclass(frozen=True, eq=False)
class Clip(Elementwise):
    """`min(max(z, low), high)`."""

    kind: ClassVar[str] = "clip"
    low: Annotated[Floats, Numbers(("inputs",))]
    high: Annotated[Floats, Numbers(("inputs",))]

    def evaluate(self, Z: Floats) -> Floats:
        """Cut off both ends."""
        return np.clip(Z, self.low, self.high)


# -- terms -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rotate(Step):
    """`(z - center) matrix`: a metric becomes the identity."""

    kind: ClassVar[str] = "rotate"
    center: Annotated[Floats, Numbers(("inputs",))]
    matrix: Annotated[Floats, Numbers(("inputs", "terms"))]

    def evaluate(self, Z: Floats) -> Floats:
        """Multiply."""
        return (Z - self.center) @ self.matrix

    def keep(self, terms: Indices) -> tuple[Rotate, Indices]:
        """Restrict it to some columns of the matrix."""
        return replace(self, matrix=self.matrix[:, terms]), np.arange(self.n_inputs)


@dataclass(frozen=True, eq=False)
class Radial(Step):
    """`phi(sum_j ((z_j - c_j) / width_j)^2)` around centres c, phi one of the kernels of `RadialBasis`."""

    kind: ClassVar[str] = "radial"
    kernel: Annotated[str, Single(read_choice, (SHIPPED,))]
    widths: Annotated[Floats, Numbers(("inputs",), positive=True)]
    centers: Annotated[Floats, Numbers(("terms", "inputs"))]

    def evaluate(self, Z: Floats) -> Floats:
        """Evaluate as `RadialBasis` does."""
        return kernel_design(Z, self.centers, self.widths, self.kernel).columns(EVERY)

    def keep(self, terms: Indices) -> tuple[Radial, Indices]:
        """Restrict it to some centres."""
        return replace(self, centers=self.centers[terms]), np.arange(self.n_inputs)


@dataclass(frozen=True, eq=False)
class Anova(Step):
    """Products of one or two single functions: `u`, or `exp(-u^2)` for a bump, with `u = (z - place) / unit`."""

    kind: ClassVar[str] = "anova"
    columns: Annotated[Indices, WholeNumbers(("singles",), of="inputs")]
    places: Annotated[Floats, Numbers(("singles",))]
    units: Annotated[Floats, Numbers(("singles",), positive=True)]
    bumps: Annotated[Indices, WholeNumbers(("singles",), of="two")]  # 1 for a bump
    first: Annotated[Indices, WholeNumbers(("terms",), of="singles")]
    second: Annotated[Indices, WholeNumbers(("terms",), of="singles", low=-1)]  # -1 for no second factor
    known_sizes: ClassVar[Sizes] = {"two": 2}

    def evaluate(self, Z: Floats) -> Floats:
        """Multiply single functions, with ones as the last of them."""
        U = (Z[:, self.columns] - self.places) / self.units
        singles = np.where(self.bumps == 1, np.exp(-(U * U)), U)
        singles = np.column_stack([singles, np.ones(len(Z))])
        return singles[:, self.first] * singles[:, self.second]

    def keep(self, terms: Indices) -> tuple[Anova, Indices]:
        """Restrict it to the single functions of some terms."""
        both = np.append(self.first[terms], self.second[terms])
        used = np.unique(both[both >= 0])
        needed, columns = np.unique(self.columns[used], return_inverse=True)
        kept = Anova(
            columns, self.places[used], self.units[used], self.bumps[used], *np.split(positions(used, both), 2)
        )
        return kept, needed


@dataclass(frozen=True, eq=False)
class Waves(Step):
    """`sin(2 pi k (z - origin) / period + phase)`."""

    kind: ClassVar[str] = "waves"
    columns: Annotated[Indices, WholeNumbers(("terms",), of="inputs")]
    origins: Annotated[Floats, Numbers(("terms",))]
    periods: Annotated[Floats, Numbers(("terms",), positive=True)]
    harmonics: Annotated[Indices, WholeNumbers(("terms",), low=1)]
    phases: Annotated[Floats, Numbers(("terms",))]

    @property
    def frequencies(self) -> Floats:
        """`2 pi k`."""
        return 2 * np.pi * self.harmonics.astype(np.float64)

    def evaluate(self, Z: Floats) -> Floats:
        """Evaluate as `FourierBasis` does."""
        return np.sin((Z[:, self.columns] - self.origins) / self.periods * self.frequencies + self.phases)

    def keep(self, terms: Indices) -> tuple[Waves, Indices]:
        """Restrict it to some waves."""
        needed, columns = np.unique(self.columns[terms], return_inverse=True)
        rest: Any = (values[terms] for values in (self.origins, self.periods, self.harmonics, self.phases))
        return Waves(columns, *rest), needed


@dataclass(frozen=True, eq=False)
class Logistic(Step):
    """`1 / (1 + exp(b'z - offset))` for directions b."""

    kind: ClassVar[str] = "logistic"
    directions: Annotated[Floats, Numbers(("terms", "inputs"))]
    offsets: Annotated[Floats, Numbers(("terms",))]

    def evaluate(self, Z: Floats) -> Floats:
        """Evaluate as `LogisticBasis` does."""
        return expit(self.offsets - Z @ self.directions.T)

    def keep(self, terms: Indices) -> tuple[Logistic, Indices]:
        """Restrict it to some units."""
        return Logistic(self.directions[terms], self.offsets[terms]), np.arange(self.n_inputs)


@dataclass(frozen=True, eq=False)
class Powers(Step):
    """`prod_j z_j^powers_j`, of scikit-learn's PolynomialFeatures."""

    kind: ClassVar[str] = "powers"
    powers: Annotated[Indices, WholeNumbers(("terms", "inputs"))]

    def evaluate(self, Z: Floats) -> Floats:
        """Multiply powers, one term at a time."""
        terms = [np.prod(Z[:, row > 0] ** row[row > 0], axis=1) for row in self.powers]
        return np.column_stack([*terms, np.empty((len(Z), 0))])

    def keep(self, terms: Indices) -> tuple[Powers, Indices]:
        """Restrict it to some products and the columns in them."""
        powers = self.powers[terms]
        needed = np.flatnonzero(powers.any(axis=0))
        return Powers(powers[:, needed]), needed


@dataclass(frozen=True, eq=False)
class Lags(Step):
    """Columns of earlier rows: row t holds `z[t - lag]`, the first row standing in for those before it."""

    kind: ClassVar[str] = "lags"
    columns: Annotated[Indices, WholeNumbers(("terms",), of="inputs")]
    lags: Annotated[Indices, WholeNumbers(("terms",))]

    @property
    def longest(self) -> int:
        """How many earlier rows it looks at."""
        return int(self.lags.max(initial=0))

    def evaluate(self, Z: Floats) -> Floats:
        """Evaluate as `LagBasis` does; only values that are looked at must be there."""
        past = Z[np.maximum(np.arange(len(Z))[:, None] - self.lags, 0), self.columns]
        holes = np.argwhere(~np.isfinite(past))
        if len(holes):
            raise ValueError(
                f"X must hold the past values that predictions rest on, got NaN or infinity {self.lags[holes[0][1]]} "
                f"rows before row {holes[0][0]}: fill it, or begin later."
            )
        return past

    def keep(self, terms: Indices) -> tuple[Lags, Indices]:
        """Restrict it to some lags."""
        needed, columns = np.unique(self.columns[terms], return_inverse=True)
        return Lags(columns, self.lags[terms]), needed


def positions(used: Indices, values: Indices) -> Indices:
    """Return where in `used` each value is; -1 stays."""
    return np.where(values < 0, -1, np.searchsorted(used, values))
