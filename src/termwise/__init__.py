"""Sparse linear-in-the-parameters models with automatic model selection."""

from termwise import basis, datasets
from termwise._memory import memory_budget
from termwise.basis import AnovaBasis, FourierBasis, LagBasis, LogisticBasis, RadialBasis, SmoothBasis
from termwise.evidence import EvidenceForwardRegressor
from termwise.files import RowFile, open_rows
from termwise.flagship import TermwiseClassifier, TermwiseRegressor
from termwise.forward import ForwardClassifier, ForwardRegressor
from termwise.online import OnlineRidge
from termwise.plots import ShapeDisplay
from termwise.prefilter import PrefilterClassifier
from termwise.ridge import BasisRidge, LocalRidge, reestimate_alpha
from termwise.search import CriterionSearch
from termwise.selection import SelectionPath, forward_path
from termwise.thresholding import OrthogonalThresholdRegressor

__version__ = "0.1.0"

__all__ = [
    "AnovaBasis",
    "BasisRidge",
    "CriterionSearch",
    "EvidenceForwardRegressor",
    "ForwardClassifier",
    "ForwardRegressor",
    "FourierBasis",
    "LagBasis",
    "LocalRidge",
    "LogisticBasis",
    "OnlineRidge",
    "OrthogonalThresholdRegressor",
    "PrefilterClassifier",
    "RadialBasis",
    "RowFile",
    "SelectionPath",
    "ShapeDisplay",
    "SmoothBasis",
    "TermwiseClassifier",
    "TermwiseRegressor",
    "basis",
    "datasets",
    "forward_path",
    "memory_budget",
    "open_rows",
    "reestimate_alpha",
]
