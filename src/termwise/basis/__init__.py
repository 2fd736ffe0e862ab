"""Basis functions: transformers from inputs to a design matrix."""

from typing import Any

from termwise._checks import warn
from termwise.basis import base, public
from termwise.basis.base import Basis
from termwise.basis.columns import id_columns
from termwise.basis.derived import LogInputs
from termwise.basis.encoder import TableEncoder
from termwise.basis.levels import LevelMeans
from termwise.basis.public import *  # noqa: F403
from termwise.basis.radial import KERNELS, r2

__all__ = ["KERNELS", "Basis", "LevelMeans", "LogInputs", "TableEncoder", "id_columns", "r2"]
__all__ += public.__all__

RENAMED = {"can_stream": "is_streamable", "evaluate": "design_matrix", "take": "restrict"}  # functions of 0.1


def __getattr__(name: str) -> Any:
    if name not in RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = RENAMED[name]
    warn(f"termwise.basis.{name} is termwise.basis.base.{new} now.", DeprecationWarning)
    return getattr(base, new)
