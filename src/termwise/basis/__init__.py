"""Basis functions: transformers from inputs to a design matrix."""

from termwise.basis._terms import Basis, take
from termwise.basis.lag import LagBasis
from termwise.basis.radial import KERNELS, RadialBasis
from termwise.basis.waves import FourierBasis, LogisticBasis

__all__ = ["KERNELS", "Basis", "FourierBasis", "LagBasis", "LogisticBasis", "RadialBasis", "take"]
