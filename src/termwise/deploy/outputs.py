"""The end of a model: what is linear in its terms, and the classes that outputs stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from termwise.deploy.plain import (
    Numbers,
    Record,
    Single,
    Sizes,
    Texts,
    read_bool,
    read_dict,
    read_number,
    read_scalars,
    wrong,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Linear(Record):
    """`W g + intercept`: what is linear in the terms."""

    names: Annotated[tuple[str, ...], Texts("terms")]
    weights: Annotated[Floats, Numbers(("outputs", "terms"))]
    intercept: Annotated[Floats, Numbers(("outputs",))]
    one_output: Annotated[bool, Single(read_bool)]  # whether the targets were a vector

    def evaluate(self, G: Floats) -> Floats:
        """Return the outputs, one column each."""
        return G @ self.weights.T + self.intercept


@dataclass(frozen=True, eq=False)
class Labels(Record):
    """Classes in place of outputs: the second where one output is not negative, else that of the largest output."""

    classes: list[Any]
    sharpness: float | None  # what outputs are scaled by to be odds; None: no probabilities

    def decide(self, scores: Floats) -> NDArray:
        """Return the class of each row of outputs."""
        number = (scores[:, 0] >= 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes)[number]

    def probabilities(self, scores: Floats) -> Floats:
        """Return the probability of each class; a single output is for the second and against the first."""
        assert self.sharpness is not None
        both = np.column_stack([-scores, scores]) if scores.shape[1] == 1 else scores
        return softmax(self.sharpness * both, axis=1)

    @classmethod
    def read(cls, data: Any, place: str, sizes: Sizes) -> Self:
        """Return the labels that plain data describe."""
        data = read_dict(data, place, ["classes", "sharpness"])
        classes = read_scalars(data["classes"], f"{place}.classes")
        outputs = sizes["outputs"]
        if len(classes) < 2 or outputs != (1 if len(classes) == 2 else len(classes)):
            raise wrong(f"{place}.classes", f"classes for {outputs} output{'s' * (outputs > 1)}", classes)
        sharpness = None if data["sharpness"] is None else read_number(data["sharpness"], f"{place}.sharpness")
        if sharpness is not None and sharpness <= 0:
            raise wrong(f"{place}.sharpness", "greater than zero", sharpness)
        return cls(classes, sharpness)
