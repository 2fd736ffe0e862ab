"""Everything that `import termwise` offers: the public names and where they are from."""

import termwise.basis as basis
import termwise.datasets as datasets
import termwise.diagnostics as diagnostics
import termwise.report as report
from termwise._memory import memory_budget
from termwise.basis import AnovaBasis, FourierBasis, LagBasis, LogisticBasis, RadialBasis, SmoothBasis, UnionBasis
from termwise.evidence import EvidenceForwardRegressor
from termwise.files import RowFile, open_rows
from termwise.flagship import TermwiseClassifier, TermwiseRegressor
from termwise.forward import ForwardClassifier, ForwardRegressor
from termwise.online import OnlineRidge
from termwise.plots import CriterionDisplay, FitDisplay, SelectionPathDisplay, ShapeDisplay
from termwise.predictor import Predictor, load_predictor
from termwise.prefilter import PrefilterClassifier
from termwise.report import write_report
from termwise.ridge import BasisRidge, LocalRidge, reestimate_alpha
from termwise.search import CriterionSearch
from termwise.selection import SelectionPath, forward_path
from termwise.thresholding import OrthogonalThresholdRegressor

__all__ = [
    "AnovaBasis",
    "BasisRidge",
    "CriterionDisplay",
    "CriterionSearch",
    "EvidenceForwardRegressor",
    "FitDisplay",
    "ForwardClassifier",
    "ForwardRegressor",
    "FourierBasis",
    "LagBasis",
    "LocalRidge",
    "LogisticBasis",
    "OnlineRidge",
    "OrthogonalThresholdRegressor",
    "Predictor",
    "PrefilterClassifier",
    "RadialBasis",
    "RowFile",
    "SelectionPath",
    "SelectionPathDisplay",
    "ShapeDisplay",
    "SmoothBasis",
    "TermwiseClassifier",
    "TermwiseRegressor",
    "UnionBasis",
    "basis",
    "datasets",
    "diagnostics",
    "forward_path",
    "load_predictor",
    "memory_budget",
    "open_rows",
    "reestimate_alpha",
    "report",
    "write_report",
]
