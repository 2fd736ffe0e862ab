"""The bases that `termwise` itself offers, beside `termwise.basis`."""

from termwise.basis.anova import AnovaBasis
from termwise.basis.lag import LagBasis
from termwise.basis.radial import RadialBasis
from termwise.basis.rules import RuleBasis
from termwise.basis.smooth import SmoothBasis
from termwise.basis.union import UnionBasis
from termwise.basis.waves import FourierBasis, LogisticBasis

__all__ = [
    "AnovaBasis",
    "FourierBasis",
    "LagBasis",
    "LogisticBasis",
    "RadialBasis",
    "RuleBasis",
    "SmoothBasis",
    "UnionBasis",
]
