"""Ridge regression with automatic penalties."""

from termwise.ridge.global_ridge import BasisRidge
from termwise.ridge.local_ridge import LocalRidge
from termwise.ridge.reestimate import reestimate_alpha

__all__ = ["BasisRidge", "LocalRidge", "reestimate_alpha"]
