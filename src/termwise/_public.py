"""Everything that `import termwise` offers: the public names and where they are from."""

import termwise.basis as basis
import termwise.datasets as datasets
import termwise.explain.diagnostics as diagnostics
import termwise.explain.report as report
from termwise._memory import memory_budget
from termwise._numerics import NumericalWarning
from termwise.basis import public as public_bases
from termwise.basis.public import *  # noqa: F403
from termwise.deploy.predictor import Predictor, load_predictor
from termwise.deploy.suggest import suggest
from termwise.design.files import RowFile, open_rows
from termwise.estimators.evidence import EvidenceForwardRegressor
from termwise.estimators.forward import ForwardClassifier, ForwardRegressor
from termwise.estimators.inference import InferenceResult, inference
from termwise.estimators.local_ridge import LocalRidge
from termwise.estimators.narx import NarxRegressor
from termwise.estimators.online import OnlineRidge
from termwise.estimators.prefilter import PrefilterClassifier
from termwise.estimators.ridge import BasisRidge
from termwise.estimators.search import CriterionSearch
from termwise.estimators.stability import StabilityResult, stability
from termwise.estimators.thresholding import OrthogonalThresholdRegressor
from termwise.execution import forward_path
from termwise.explain.plot_criteria import CriterionDisplay, SelectionPathDisplay
from termwise.explain.plot_effects import ShapeDisplay
from termwise.explain.plot_fit import FitDisplay
from termwise.explain.report import write_report
from termwise.linalg.reestimate import reestimate_alpha
from termwise.recipe import TermwiseClassifier, TermwiseRegressor
from termwise.selection import SelectionPath

__all__ = [
    "BasisRidge",
    "CriterionDisplay",
    "CriterionSearch",
    "EvidenceForwardRegressor",
    "FitDisplay",
    "ForwardClassifier",
    "ForwardRegressor",
    "InferenceResult",
    "LocalRidge",
    "NarxRegressor",
    "NumericalWarning",
    "OnlineRidge",
    "OrthogonalThresholdRegressor",
    "Predictor",
    "PrefilterClassifier",
    "RowFile",
    "SelectionPath",
    "SelectionPathDisplay",
    "ShapeDisplay",
    "StabilityResult",
    "TermwiseClassifier",
    "TermwiseRegressor",
    "basis",
    "datasets",
    "diagnostics",
    "forward_path",
    "inference",
    "load_predictor",
    "memory_budget",
    "open_rows",
    "reestimate_alpha",
    "report",
    "stability",
    "suggest",
    "write_report",
]
__all__ += public_bases.__all__
