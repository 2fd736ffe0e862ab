"""Basis functions: transformers from inputs to a design matrix."""

from termwise.basis.anova import AnovaBasis
from termwise.basis.base import Basis, can_stream, evaluate, take
from termwise.basis.encoder import TableEncoder
from termwise.basis.lag import LagBasis
from termwise.basis.radial import KERNELS, RadialBasis
from termwise.basis.smooth import SmoothBasis
from termwise.basis.union import UnionBasis
from termwise.basis.waves import FourierBasis, LogisticBasis

__all__ = [
    "KERNELS",
    "AnovaBasis",
    "Basis",
    "FourierBasis",
    "LagBasis",
    "LogisticBasis",
    "RadialBasis",
    "SmoothBasis",
    "TableEncoder",
    "UnionBasis",
    "can_stream",
    "evaluate",
    "take",
]
