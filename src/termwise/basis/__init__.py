"""Basis functions: transformers from inputs to a design matrix."""

from typing import Any

from termwise._checks import warn
from termwise.basis import base
from termwise.basis.anova import AnovaBasis
from termwise.basis.base import Basis
from termwise.basis.columns import id_columns
from termwise.basis.encoder import TableEncoder
from termwise.basis.lag import LagBasis
from termwise.basis.levels import LevelMeans
from termwise.basis.radial import KERNELS, RadialBasis, r2
from termwise.basis.rules import RuleBasis
from termwise.basis.smooth import SmoothBasis
from termwise.basis.union import UnionBasis
from termwise.basis.waves import FourierBasis, LogisticBasis

# Those that `termwise` itself offers, too, are imported in `termwise._public`.
__all__ = [
    "KERNELS",
    "AnovaBasis",
    "Basis",
    "FourierBasis",
    "LagBasis",
    "LevelMeans",
    "LogisticBasis",
    "RadialBasis",
    "RuleBasis",
    "SmoothBasis",
    "TableEncoder",
    "UnionBasis",
    "id_columns",
    "r2",
]

RENAMED = {"can_stream": "is_streamable", "evaluate": "design_matrix", "take": "restrict"}  # functions of 0.1


def __getattr__(name: str) -> Any:
    if name not in RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = RENAMED[name]
    warn(f"termwise.basis.{name} is termwise.basis.base.{new} now.", DeprecationWarning)
    return getattr(base, new)
