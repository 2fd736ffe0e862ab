"""Forward selection and ridge regression for a given design matrix."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from termwise import BasisRidge, ForwardRegressor, RadialBasis, forward_path


def draw(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of noise, and a target that depends on twenty of them."""
    rng = np.random.default_rng(0)
    G = rng.normal(size=(n, p))
    return G, G[:, :20] @ rng.uniform(0.5, 2, size=20) + rng.normal(size=n)


class ForwardPath:
    """Forty terms of a tall, a square and a wide matrix, by each rule."""

    params: ClassVar[list[Any]] = [["loo", "cost", "gcv", "kfold"], [(20_000, 500), (2_000, 2_000), (500, 8_000)]]
    param_names: ClassVar[list[str]] = ["rule", "shape"]

    def setup(self, rule: str, shape: tuple[int, int]) -> None:
        """Draw the data."""
        self.G, self.y = draw(*shape)

    def time_path(self, rule: str, shape: tuple[int, int]) -> None:
        """Time the selection."""
        forward_path(self.G, self.y, rule=rule, max_terms=40)

    def peakmem_path(self, rule: str, shape: tuple[int, int]) -> None:
        """Record the peak memory, with the data."""
        forward_path(self.G, self.y, rule=rule, max_terms=40)


class Representations:
    """The same selection from other representations of the design matrix."""

    params: ClassVar[list[str]] = ["float32", "sparse", "gaussians"]

    def setup(self, kind: str) -> None:
        """Draw the data; a twentieth of the sparse matrix is not zero."""
        rng = np.random.default_rng(0)
        self.X, self.y = draw(10_000, 400)
        if kind == "float32":
            self.X = self.X.astype(np.float32)
        elif kind == "sparse":
            self.X = sp.csr_array(self.X * (rng.uniform(size=self.X.shape) < 0.05))
        else:
            self.X = self.X[:, :4]
        basis = RadialBasis(width=2.0, centers=1_000) if kind == "gaussians" else None
        self.model = ForwardRegressor(basis, max_terms=30, criterion=None)

    def time_fit(self, kind: str) -> None:
        """Time fit."""
        self.model.fit(self.X, self.y)


class Ridge:
    """The penalty of least leave-one-out error."""

    def setup(self) -> None:
        """Draw the data."""
        self.X, self.y = draw(5_000, 500)

    def time_fit(self) -> None:
        """Time fit."""
        BasisRidge(alpha="loo").fit(self.X, self.y)
