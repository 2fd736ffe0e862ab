"""Every error message: what is wrong, what was got, what to do. A message in the sources without a case here fails."""

from __future__ import annotations

import ast
import datetime
import re
from pathlib import Path
from types import SimpleNamespace

import array_api_strict as strict
import dask.array as da
import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import ShuffleSplit

import termwise
from termwise import (
    AnovaBasis,
    BasisRidge,
    ForwardClassifier,
    ForwardRegressor,
    FourierBasis,
    LagBasis,
    LocalRidge,
    LogisticBasis,
    NarxRegressor,
    OnlineRidge,
    RadialBasis,
    RuleBasis,
    SmoothBasis,
    TermwiseRegressor,
    UnionBasis,
    datasets,
    forward_path,
    reestimate_alpha,
)
from termwise._checks import check_foreign, import_optional

X = np.random.default_rng(0).normal(size=(12, 3))
y = X[:, 0] + 1.0
Y2 = np.column_stack([y, y])


def online(**parameters):
    return OnlineRidge(**{"terms": [0, 1], **parameters}).fit(X, y)


def unreachable(**_):
    raise OSError("no route")


# (name, what to do, exception, pattern of the whole message)
CASES = [
    # arrays of other libraries
    ("foreign vector", lambda: forward_path(strict.ones(5), y), ValueError,
     r"G must be a table of shape \(n, d\), got shape \(5,\)\. Reshape your data: give it two axes, samples first\."),
    ("foreign and sparse", lambda: check_foreign("X", SimpleNamespace(ndim=2, layout="torch.sparse_coo")), TypeError,
     r"X must be dense or a SciPy sparse matrix, got torch\.sparse_coo: call its to_dense\(\)\."),
    ("foreign and empty", lambda: RadialBasis().fit(strict.ones((0, 3))), ValueError,
     r"Found array with 0 sample\(s\) and 3 feature\(s\) .* minimum of 1 and 1 is required in X: give more data\."),
    ("foreign and complex", lambda: BasisRidge().fit(strict.asarray(X + 1j), y), TypeError,
     r"X must hold real numbers, got array_api_strict\.complex128: convert it to float32 or float64\."),
    ("foreign and infinite", lambda: ForwardRegressor().fit(strict.asarray(X * np.inf), y), ValueError,
     r"X must be finite, got NaN or infinity: impute or drop the rows in question\."),
    # bases
    ("directions in a list", lambda: TermwiseRegressor(monotone=[1, 0, 0]).fit(X, y), TypeError,
     r"monotone must map inputs, by name or number, to 1 or -1, got \[1, 0, 0\]: give a dict with the inputs "
     r"whose effects have a direction\."),
    ("directions of a basis in a list", lambda: AnovaBasis(monotone=[1, 0, 0]).fit(X), TypeError,
     r"monotone must map inputs, by name or number, to 1 or -1, got \[1, 0, 0\]: give a dict"),
    ("no direction", lambda: AnovaBasis(monotone={1: 0}).fit(X), ValueError,
     r"monotone must map inputs, by name or number, to 1 or -1, got 1: 0 for 3 inputs: 1 is for effects that must not "
     r"decrease\."),
    *[(f"direction of input {key!r}", lambda key=key: AnovaBasis(monotone={key: 1}).fit(X), ValueError,
       rf"monotone must map inputs, by name or number, to 1 or -1, got {key!r}: 1 for 3 inputs: 1 is for .*")
      for key in (1.0, True, 3, -1)],
    ("no such input", lambda: AnovaBasis(monotone={"speed": 1}).fit(X), ValueError,
     r"monotone must map inputs, by name or number, to 1 or -1, got 'speed': 1 for 3 inputs: 1 is for .*"),
    ("no such function", lambda: AnovaBasis(functions=("line",)).fit(X), ValueError,
     r"functions must be one of 'linear', 'bump', 'hinge', 'step', 'ramp', got 'line': .*"),
    ("other bases are not monotone", lambda: ForwardRegressor(UnionBasis([AnovaBasis(monotone={0: 1}), AnovaBasis()]))
     .fit(X, y), ValueError, r"bases must have the same monotone inputs, got .*: functions of the other bases need not "
     r"be monotone\."),
    ("functions that are no sequence", lambda: AnovaBasis(functions=1).fit(X), TypeError,
     r"functions must be a sequence of names, got 1: \('linear', 'bump'\) is the default\."),
    ("one function", lambda: AnovaBasis(functions="linear").fit(X), TypeError,
     r"functions must be a sequence of names, got 'linear': "),
    ("relevance in a dict", lambda: SmoothBasis(relevance={"x0": 1}).fit(X), ValueError,
     r"relevance must be 3 numbers, one per input, none negative and not all of them zero, got \{'x0': 1\}: None"),
    ("relevance in words", lambda: SmoothBasis(relevance=["x0"]).fit(X), ValueError,
     r"relevance must be 3 numbers, .*, got \['x0'\]: None gives"),
    ("ragged centres", lambda: RadialBasis(centers=[[0], [1, 2]]).fit(X), TypeError,
     r"centers must be a whole number .*, got \[\[0\], \[1, 2\]\]: .* 'samples' or an array of points will do as well"),
    ("centres in words", lambda: RadialBasis(centers=[["a"] * 3]).fit(X), ValueError,
     r"centers must hold numbers, got 'a': give the coordinates of points\."),
    ("ragged lags", lambda: LagBasis([[1], [1, 2]]).fit(X), ValueError,
     r"lags must be a number >= 1 or a list of different whole numbers >= 1, got \[\[1\], \[1, 2\]\]: say how many"),
    # arrays and other objects in place of words
    *[(f"an array as {name} of {type(model).__name__}",
       lambda m=model, n=name: clone(m).set_params(**{n: y[:2]}).fit(X, y > 1), error,
       rf"{name} must be .*, got array\(\[")
      for model in (ForwardRegressor(), ForwardClassifier(), ForwardRegressor(loss="huber"), NarxRegressor())
      for name, error in [("criterion", ValueError), ("refit_alpha", ValueError), ("rule", ValueError),
                          ("alpha", TypeError), ("fit_intercept", ValueError)]],
    ("an array as precompute", lambda: forward_path(X, y, precompute=y[:2]), ValueError,
     r"precompute must be True or False, got array\(.*: 'auto' decides by the sizes\."),
    ("ragged terms to include", lambda: ForwardRegressor(include=[[0], [1, 2]]).fit(X, y), ValueError,
     r"include must be a list of whole numbers, got \[\[0\], \[1, 2\]\]: give positions of terms\."),
    ("ragged terms and knockoffs", lambda: ForwardRegressor(include=[[0], [1, 2]], criterion="fdr").fit(X, y),
     ValueError, r"include must be empty with criterion='fdr', got \[\[0\], \[1, 2\]\]"),
    ("no callback", lambda: forward_path(X, y, callback=3), TypeError,
     r"callback must be callable or None, got 3: give a function of the path that returns True to stop\."),
    ("no inputs for a basis", lambda: ForwardRegressor(RadialBasis()).fit(None, y), ValueError,
     r"X must be a table of shape \(n, d\), got None: give one row per sample\."),
    ("no inputs", lambda: BasisRidge().fit(None, y), ValueError, r"X must be a table of shape \(n, d\), got None"),
    *[(f"{lags!r} as lags", lambda lags=lags: NarxRegressor(lags=lags).fit(X, y), ValueError,
       r"lags must be a number >= 1 or a list of different whole numbers >= 1, got .*: say how many steps back to look")
      for lags in (None, np.nan, {"y": 1}, ["a"], [[1], [1, 2]])],
    ("a series of words", lambda: NarxRegressor().fit(frame().assign(a="u"), y), ValueError,
     r"X must hold numbers, got .* in column 'a' .*: encode it, with TableEncoder for example, or drop it\."),
    # constraints
    ("bounds of a changing penalty", lambda: ForwardRegressor(bounds=(0, None), alpha="reestimate").fit(X, y),
     ValueError, r"alpha must be a number with bounds, monotone or hierarchy, got 'reestimate': a penalty that changes "
     r"with every term moves weights\."),
    ("bounds and another penalty", lambda: ForwardRegressor(bounds=(0, None), refit_alpha="loo").fit(X, y),
     ValueError, r"refit_alpha must be None with bounds, .*"),
    ("hierarchy and exchanges", lambda: ForwardRegressor(hierarchy=True, refine="swap").fit(X, y),
     ValueError, r"refine must be None with bounds, monotone or hierarchy, got 'swap': an exchange may .*"),
    ("bounds and knockoffs", lambda: ForwardRegressor(bounds=(0, None), criterion="fdr").fit(X, y),
     ValueError, r"criterion must be another than 'fdr' with bounds, .*"),
    ("penalty by folds alone", lambda: ForwardRegressor(refit_alpha="cv").fit(X, y), ValueError,
     r"refit_alpha='cv' must be used with criterion='cv', got 'tcr': size and penalty are chosen together; set .*"),
    ("folds on a cluster", lambda: ForwardRegressor(criterion="cv").fit(da.from_array(X), da.from_array(y)),
     TypeError, r"X must be in memory with criterion='cv', got Array: every fold selects anew; use another .*"),
    ("exchanges in folds", lambda: ForwardRegressor(criterion="cv", refine="swap").fit(X, y), ValueError,
     r"refine must be None with criterion='cv', got 'swap': exchanged terms have no order by size; use another .*"),
    ("bounds of an included term", lambda: ForwardRegressor(bounds=(0, None), include=[1]).fit(X, y), ValueError,
     r"include must be empty with bounds or monotone, got \[1\]: the weight of a term that is always in the model "
     r"cannot be bounded\."),
    ("bounds of three classes", lambda: ForwardClassifier(bounds=(0, None)).fit(X, np.arange(12) % 3), ValueError,
     r"y must have two classes with bounds or monotone, got 3: the scores of more classes compete, and signs of their "
     r"weights have no meaning\."),
    ("bounds without zero", lambda: ForwardRegressor(bounds={"x1": (1, 2)}).fit(X, y), ValueError,
     r"bounds must be pairs \(low, high\) with low <= 0 <= high, got \(1, 2\): a term that is not selected has weight "
     r"0, and None is for no bound\."),
    ("bounds of no pair", lambda: ForwardRegressor(bounds=0).fit(X, y), ValueError, r"bounds must be pairs .*"),
    ("bounds of no candidate", lambda: ForwardRegressor(bounds={"x7": (0, 1)}).fit(X, y), ValueError,
     r"bounds must be for candidates, got 'x7': give names or numbers of the 3 candidates\."),
    *[(f"bounds of candidate {key!r}", lambda key=key: ForwardRegressor(bounds={key: (0, None)}).fit(X, y), ValueError,
       rf"bounds must be for candidates, got {key!r}: give names or numbers of the 3 candidates\.")
      for key in (1.0, True, 3, -1, np.nan)],
    *[(f"bounds of {pair!r}", lambda pair=pair: ForwardRegressor(bounds={1: pair}).fit(X, y), ValueError,
       r"bounds must be pairs \(low, high\) with low <= 0 <= high, got .*: a term that is not selected has weight 0, "
       r"and None is for no bound\.") for pair in ((np.nan, 1), (None, np.nan), (0,), "01", (False, True), None)],
    ("constraints on a cluster", lambda: ForwardRegressor(hierarchy=True).fit(da.from_array(X), da.from_array(y)),
     TypeError, r"X must be in memory with bounds, monotone or hierarchy, got Dask data: constraints need products of "
     r"all candidates with the model; load a sample of the rows\."),
    ("groups of other inputs", lambda: AnovaBasis(groups=[0, 0]).fit(X), ValueError,
     r"groups must be 3 whole numbers, one per input, got \[0, 0\]: inputs with the same number have no products, and "
     r"-1 is for inputs in no group\."),
    # numbers
    ("negative penalty", lambda: BasisRidge(alpha=-1).fit(X, y), ValueError,
     r"alpha must be a number >= 0, got -1: give a penalty, or 'gcv' to have it chosen\."),
    ("penalty of a wrong type", lambda: BasisRidge(alpha=[1.0]).fit(X, y), TypeError,
     r"alpha must be a number >= 0, got \[1\.0\]: give a penalty"),
    ("penalty not a number", lambda: BasisRidge(alpha=np.nan).fit(X, y), ValueError, r"alpha must be .*, got nan"),
    ("unknown criterion", lambda: BasisRidge(alpha="aic").fit(X, y), ValueError,
     r"alpha must be one of 'gcv', 'loo', 'uev', 'fpe', 'bic', got 'aic': give a number >= 0 or name a criterion\."),
    ("online penalty", lambda: OnlineRidge(alpha="gcv").fit(X, y), TypeError,
     r"alpha must be a finite number >= 0, got 'gcv': a small penalty such as 1e-6"),
    ("tolerance", lambda: LocalRidge(tol=-1).fit(X, y), ValueError, r"tol must be a finite number >= 0, got -1: 1e-4"),
    ("sweeps", lambda: LocalRidge(max_iter=0).fit(X, y), ValueError,
     r"max_iter must be a whole number >= 1, got 0: allow at least one sweep\."),
    ("sweeps not whole", lambda: LocalRidge(max_iter=1.5).fit(X, y),
     ValueError, r"max_iter must be a whole number"),
    ("standard errors of classes", lambda: ForwardClassifier().fit(X, y > 0).predict(X, return_std=True), ValueError,
     r"return_std must be False for a classifier, got True: use decision_function or predict_proba\."),
    ("coverage", lambda: BasisRidge().fit(X, y).predict_interval(X, coverage=1), ValueError,
     r"coverage must be a finite number > 0 and < 1, got 1: 0\.9 gives 90 % intervals\."),
    ("method of intervals", lambda: BasisRidge().fit(X, y).predict_interval(X, method="cv"), ValueError,
     r"method must be one of 'auto', 'cv\+', 'jackknife\+', got 'cv': 'auto' accounts for selected terms\."),
    ("side of intervals", lambda: BasisRidge().fit(X, y).predict_interval(X, side="both"), ValueError,
     r"side must be one of 'two-sided', 'lower', 'upper', got 'both': 'lower' and 'upper' are one-sided bounds\."),
    ("normalised jackknife+", lambda: BasisRidge().fit(X, y).predict_interval(X, normalised=True), ValueError,
     r"normalised=True requires intervals by 'cv\+', got 'jackknife\+': use a model that selects its terms, fitted"),
    ("intervals without folds", lambda: ForwardRegressor().fit(X, y).predict_interval(X), ValueError,
     r"method='auto' requires a model fitted with selection_cv, got ForwardRegressor with selection_cv=None: fit with "
     r"selection_cv=10, which repeats the selection in ten folds; method='jackknife\+' gives intervals for fixed"),
    ("folds of fixed terms", lambda: BasisRidge().fit(X, y).predict_interval(X, method="cv+"), ValueError,
     r"method='cv\+' requires a model that repeats its selection in folds, got BasisRidge, which has none: method="),
    ("frequencies without folds", lambda: ForwardRegressor().fit(X, y).selection_frequency_, AttributeError,
     r"selection_frequency_ requires a model fitted with selection_cv, got ForwardRegressor"),
    ("no folds", lambda: ForwardRegressor(selection_cv="ten").fit(X, y), TypeError,
     r"selection_cv must be None, a number of folds, a splitter or an iterable of splits, got 'ten': 10 is a good"),
    ("too many folds", lambda: ForwardRegressor(selection_cv=13).fit(X, y), ValueError,
     r"selection_cv must be a whole number >= 2 and < 13, got 13: 10 is a good number for 12 samples\."),
    ("folds that overlap", lambda: ForwardRegressor(selection_cv=ShuffleSplit(3, test_size=0.5)).fit(X, y), ValueError,
     r"selection_cv must leave out each sample once at most, got ShuffleSplit\(.*\), which repeats some: use KFold"),
    ("splits that are no pairs", lambda: ForwardRegressor(selection_cv=[1, 2]).fit(X, y), ValueError,
     r"selection_cv must hold pairs \(train, test\) of row numbers, got list of something else: give list\(splitter"),
    ("splits in words", lambda: ForwardRegressor(selection_cv=["x0"]).fit(X, y), ValueError,
     r"selection_cv must hold pairs \(train, test\) of row numbers, got list of something else"),
    ("splits of other rows", lambda: ForwardRegressor(selection_cv=[(range(6), range(6, 13))]).fit(X, y), ValueError,
     r"selection_cv must lie between 0 and 11, got 12: there are 12 rows\."),
    ("no splits", lambda: ForwardRegressor(selection_cv=[]).fit(X, y), ValueError,
     r"selection_cv must leave out some samples with positive weight, got \[\], which leaves out none: use KFold, "),
    ("a split without samples", lambda: LocalRidge(selection_cv=[(range(12), [])]).fit(X, y), ValueError,
     r"selection_cv must leave out some samples with positive weight, got .*, which leaves out none"),
    ("intercept", lambda: BasisRidge(fit_intercept="yes").fit(X, y), ValueError,
     r"fit_intercept must be True or False, got 'yes': True fits the mean too\."),
    # data
    ("no target", lambda: BasisRidge().fit(X, None),
     ValueError, r"BasisRidge requires y to be passed, but the target y"),
    ("target with three axes", lambda: BasisRidge().fit(X, np.zeros((12, 1, 1))), ValueError,
     r"y must have shape \(n,\) or \(n, q\), got \(12, 1, 1\): one column per output\."),
    ("NaN in X", lambda: BasisRidge().fit(np.where(X > 2, np.nan, np.nan), y), ValueError, r"Input X contains NaN"),
    ("infinity in y", lambda: BasisRidge().fit(X, np.where(y > 0, np.inf, y)),
     ValueError, r"Input y contains infinity"),
    ("NaN at prediction", lambda: BasisRidge().fit(X, y).predict(X * np.nan), ValueError, r"Input X contains NaN"),
    ("empty", lambda: BasisRidge().fit(np.empty((0, 3)), []), ValueError, r"Found array with 0 sample"),
    ("no columns", lambda: BasisRidge().fit(np.empty((12, 0)), y), ValueError, r"0 feature\(s\)"),
    ("one sample", lambda: BasisRidge().fit(X[:1], y[:1]), ValueError, r"1 sample\(s\).* minimum of 2 is required"),
    ("lengths", lambda: BasisRidge().fit(X, y[:5]), ValueError, r"inconsistent numbers of samples: \[12, 5\]"),
    ("strings", lambda: BasisRidge().fit([["a"]] * 12, y), ValueError,
     r"X must hold numbers, got 'a': give a data frame, whose categories TableEncoder encodes\."),
    ("strings as targets", lambda: BasisRidge().fit(X, ["a", "b"] * 6), ValueError,
     r"y must hold numbers, got 'a': use a classifier for classes, such as TermwiseClassifier\."),
    ("lazy frame", lambda: BasisRidge().fit(pl.DataFrame(X).lazy(), y), TypeError,
     r"X must be an array or a frame, got a LazyFrame: call its method collect\."),
    ("complex", lambda: BasisRidge().fit(X + 1j, y), ValueError, r"Complex data not supported"),
    ("columns at prediction", lambda: BasisRidge().fit(X, y).predict(X[:, :2]), ValueError,
     r"X has 2 features, but BasisRidge is expecting 3 features"),
    ("vector for a basis", lambda: BasisRidge(RadialBasis()).fit(y, y), ValueError,
     r"X must be a table of shape \(n, d\), got a vector of length 12\. Reshape your data: X\.reshape\(-1, 1\)"),
    ("not fitted", lambda: BasisRidge().predict(X), ValueError, r"This BasisRidge instance is not fitted yet"),
    ("not fitted, attribute", lambda: LocalRidge().weights_cov_,
     ValueError, r"This LocalRidge instance is not fitted yet"),
    ("basis gives NaN", lambda: BasisRidge(Broken()).fit(X, y), ValueError,
     r"The design matrix of Broken contains NaN"),
    # weights
    ("weights, length", lambda: BasisRidge().fit(X, y, sample_weight=[1, 2]), ValueError,
     r"sample_weight must have shape \(12,\), got \(2,\): give one weight per sample\."),
    ("weights, negative", lambda: BasisRidge().fit(X, y, sample_weight=-np.ones(12)), ValueError,
     r"sample_weight must be finite and >= 0, got -1\.0: a weight is the number of repetitions of a sample\."),
    ("weights, NaN", lambda: BasisRidge().fit(X, y, sample_weight=np.full(12, np.nan)), ValueError,
     r"sample_weight must be finite and >= 0, got nan"),
    ("weights, zero", lambda: BasisRidge().fit(X, y, sample_weight=np.zeros(12)), ValueError,
     r"sample_weight must not be zero for all samples: give some a positive weight\."),
    ("weights, too little", lambda: BasisRidge().fit(X, y, sample_weight=np.full(12, 1 / 12)), ValueError,
     r"sample_weight must add up to at least 2 samples, got 1: weights mean repetitions; scale relative weights"),
    ("weights, words", lambda: BasisRidge().fit(X, y, sample_weight=["a"] * 12), TypeError,
     r"sample_weight must be numbers, got \['a', .*: give one frequency weight per sample\."),
    ("weights, fewer than parameters", lambda: BasisRidge().fit(X, y, sample_weight=np.full(12, 0.3)), ValueError,
     r"sample_weight must add up to more than the 4 parameters of the model for alpha='loo', got 3\.6: weights mean"),
    # the basis
    ("basis in words", lambda: BasisRidge("rbf").fit(X, y), TypeError,
     r"basis must be a transformer or None, got 'rbf': use one of termwise\.basis, such as RadialBasis\(\), or any of"),
    ("a model for a basis", lambda: LocalRidge(BasisRidge()).fit(X, y), TypeError, r"basis must be a transformer or"),
    ("terms to list", lambda: BasisRidge().fit(X, y).summary(0), ValueError,
     r"max_terms must be a whole number >= 1, got 0: list at least one term\."),
    # local ridge
    ("subset too large", lambda: LocalRidge(subset=range(3)).fit(X[:4], y[:4]), ValueError,
     r"subset must leave degrees of freedom, got 3 terms for 4 samples: name fewer\."),
    ("subset outside", lambda: LocalRidge(subset=[3]).fit(X, y), ValueError,
     r"subset must lie between 0 and 2, got 3: there are 3 terms\."),
    ("subset twice", lambda: LocalRidge(subset=[1, 1]).fit(X, y), ValueError,
     r"subset must not repeat a term, got \[1, 1\]: name each one once\."),
    ("subset of words", lambda: LocalRidge(subset=["bmi"]).fit(X, y), ValueError,
     r"subset must be a list of whole numbers, got \['bmi'\]: give positions of terms\."),
    ("mask of a wrong length", lambda: RadialBasis().fit(X).take([True, False]), ValueError,
     r"indices as a mask must have length 12, got \(2,\): one entry per function\."),
    # re-estimation
    ("no formula", lambda: reestimate_alpha(X, y, criterion="loo"), ValueError,
     r"criterion must be one of 'gcv', 'uev', 'fpe', 'bic', got 'loo': .* use BasisRidge\(alpha='loo'\)\."),
    ("start", lambda: reestimate_alpha(X, y, 0), ValueError, r"alpha must be a finite number > 0, got 0: start from"),
    ("iterations", lambda: reestimate_alpha(X, y, max_iter=0), ValueError, r"max_iter must be a whole number >= 1"),
    ("re-estimation tolerance", lambda: reestimate_alpha(X, y, tol=-1),
     ValueError, r"tol must be a finite number >= 0"),
    ("re-estimation intercept", lambda: reestimate_alpha(X, y, fit_intercept="no"), ValueError,
     r"fit_intercept must be True or False, got 'no': True fits the mean too\."),
    ("design with NaN", lambda: reestimate_alpha(X * np.nan, y), ValueError, r"Input G contains NaN"),
    # bases
    ("kernel", lambda: RadialBasis("gauss").fit(X), ValueError,
     r"kernel must be one of '.*', got 'gauss': pick one of these\."),
    ("width in words", lambda: RadialBasis(width="mean").fit(X), ValueError,
     r"width must be one of 'median', got 'mean': give a number, an array, 'median' or \('median', factor\)\."),
    ("width zero", lambda: RadialBasis(width=0).fit(X), ValueError,
     r"width must be finite and > 0, got 0: give a number, an array, 'median' or"),
    ("width of a wrong shape", lambda: RadialBasis(width=[1, 2]).fit(X), ValueError,
     r"width must be a number or have shape \(3,\) or \(3, 3\), got shape \(2,\): the data have 3 inputs\."),
    ("metric not positive", lambda: RadialBasis(width=-np.eye(3)).fit(X), ValueError,
     r"width as a matrix must be symmetric and positive definite, got \[\[.*: it is the metric M in"),
    ("metric not symmetric", lambda: RadialBasis(width=np.eye(3) + np.eye(3, k=1)).fit(X), ValueError,
     r"width as a matrix must be symmetric and positive definite"),
    ("centres in words", lambda: RadialBasis(centers="all").fit(X), ValueError,
     r"centers must be one of 'samples', got 'all': give 'samples', a number or an array\."),
    ("too many centres", lambda: RadialBasis(centers=13).fit(X), ValueError,
     r"centers must be a whole number >= 1 and < 13, got 13: of 12 samples 12 differ; 'samples' or"),
    ("centres of a wrong width", lambda: RadialBasis(centers=[[1.0]]).fit(X), ValueError,
     r"centers must have shape \(p, 3\), got shape \(1, 1\): the data have 3 inputs\."),
    ("centres as a list", lambda: RadialBasis(centers=[1.0, 2.0, 3.0]).fit(X), ValueError,
     r"centers must have shape \(p, 3\), got shape \(3,\)"),
    ("centres neither nor", lambda: RadialBasis(centers=1.5).fit(X), ValueError,
     r"centers must be a whole number .*, got 1\.5: of 12 samples 12 differ; 'samples' or an array of points"),
    ("more centres than different samples", lambda: RadialBasis(centers=3).fit([[0.0], [1.0], [1.0]]), ValueError,
     r"centers must be a whole number >= 1 and < 3, got 3: of 3 samples 2 differ"),
    ("widths of words", lambda: RadialBasis(width=["a", "b", "c"]).fit(X), TypeError,
     r"width must be made of numbers, got \['a', 'b', 'c'\]: give a number, an array, 'median' or \('m"),
    ("centres with NaN", lambda: RadialBasis(centers=X * np.nan).fit(X), ValueError, r"Input centers contains NaN"),
    ("sparse for a basis", lambda: RadialBasis().fit(sp.csr_array(X)), TypeError, r"dense data is required"),
    ("harmonics", lambda: FourierBasis(0).fit(X), ValueError, r"n_harmonics must be a whole number >= 1, got 0: one"),
    ("period", lambda: FourierBasis(period=-1).fit(X), ValueError,
     r"period must be finite and > 0, got -1: leave it out to use the range of the data\."),
    ("period of words", lambda: FourierBasis(period="a").fit(X), TypeError,
     r"period must be made of numbers, got 'a': leave it out to use the range of the data\."),
    ("period of a wrong shape", lambda: FourierBasis(period=[1, 2]).fit(X), ValueError,
     r"period must be a number or have shape \(3,\), got shape \(2,\): the data have 3 inputs\."),
    ("trees", lambda: RuleBasis(0).fit(X, y), ValueError, r"n_trees must be a whole number >= 1, got 0: 100 suits"),
    ("conditions", lambda: RuleBasis(3, 5).fit(X, y), ValueError, r"max_conditions must be a whole number >= 1 and <"),
    ("support", lambda: RuleBasis(min_count=-1).fit(X, y), ValueError, r"min_count must be a finite number >= 0, got"),
    ("rules of no targets", lambda: RuleBasis().fit(X), ValueError,
     r"RuleBasis requires y to be passed, but the target y is None: call fit\(X, y\), or use AnovaBasis\(functions="),
    ("units", lambda: LogisticBasis(0).fit(X), ValueError, r"n_units must be a whole number >= 1, got 0: one is"),
    ("scale", lambda: LogisticBasis(scale=0).fit(X), ValueError, r"scale must be a finite number > 0, got 0: 1 suits"),
    ("names, number", lambda: RadialBasis().fit(X).get_feature_names_out(["a"]), ValueError,
     r"input_features should have length equal to number of features \(3\), got 1: give one name per input\."),
    ("names, different", lambda: RadialBasis().fit(frame()).get_feature_names_out(["a", "b", "d"]), ValueError,
     r"input_features is not equal to feature_names_in_: leave it out to use those seen in fit\."),
    ("take outside", lambda: RadialBasis().fit(X).take([12]), ValueError,
     r"indices must lie between 0 and 11, got 12: there are 12 functions\."),
    # identification of systems
    ("order by name", lambda: NarxRegressor("many").fit(X, y), ValueError,
     r"lags must be one of 'auto', got 'many': or give a number or a list of lags\."),
    ("short sequences", lambda: NarxRegressor(3).fit(X, y, groups=np.arange(12) // 3), ValueError,
     r"y must have at least two rows after 3 complete ones of the same sequence, got 0 of 12 samples: shorten the lags "
     r"or give longer sequences\."),
    ("no output", lambda: NarxRegressor().fit(X, None), ValueError,
     r"NarxRegressor requires y to be passed, but the target y is None: give the measured outputs\."),
    ("no inputs", lambda: NarxRegressor().fit(X, y).predict(None, y), ValueError,
     r"X must have the 3 inputs of the fit, got None: give their values\."),
    ("inputs of a model without", lambda: NarxRegressor().fit(None, y).predict(X, y), ValueError,
     r"X must be None for a model fitted without inputs, got ndarray: fit with inputs, or leave it out\."),
    ("short start", lambda: NarxRegressor().fit(X, y).simulate(X, y[:1]), ValueError,
     r"y_init must have at least 2 values, the longest lag, got 1: give the outputs of as many rows, or None\."),
    ("fewer inputs than initial values", lambda: NarxRegressor().fit(X, y).simulate(X[:3], y), ValueError,
     r"X must have a row for each of the 12 values of y_init and for every step after them, got 3 rows: give the "
     r"inputs from the first initial value on\."),
    ("steps of given inputs", lambda: NarxRegressor().fit(X, y).simulate(X, y[:2], n_steps=3), ValueError,
     r"n_steps must be None for a model with inputs, got 3: X has a row for every step\."),
    ("unknown number of steps", lambda: NarxRegressor().fit(None, y).simulate(None, y), TypeError,
     r"n_steps must be a whole number >= 1, got None: a model without inputs needs the number of values to simulate\."),
    ("nothing to score", lambda: NarxRegressor().fit(X, y).score(X[:3], y[:3]), ValueError,
     r"y must have at least two rows after 2 complete ones of the same sequence to score, got 1: give longer "
     r"sequences\."),
    ("simulation of a table", lambda: BasisRidge().fit(X, y).predictor_.export("m.c", simulation=True), ValueError,
     r"simulation must be False for a model without past values of its own output, got True: fit a NarxRegressor, or "
     r"an estimator on a LagBasis\."),
    ("limits of a simulation", lambda: NarxRegressor().fit(X, y).export("m.c", simulation=(2, 1)), ValueError,
     r"simulation must be a bool or the lowest and the highest output, got \(2, 1\): True sets no limits\."),
    # lags
    ("lags", lambda: LagBasis(lags=0).fit(X), ValueError,
     r"lags must be a number >= 1 or a list of different whole numbers >= 1, got 0: say how many steps back to look\."),
    ("lag of the present output", lambda: LagBasis(lags=[0, 1]).fit(X), ValueError, r"lags must be a number >= 1 or"),
    ("input lags", lambda: LagBasis(input_lags=[-1]).fit(X), ValueError, r"input_lags must be a number >= 1 or a list"),
    ("output name", lambda: LagBasis(output="z").fit(frame()), ValueError,
     r"output must name a column of X, got 'z': the columns are \['a', 'b', 'c'\]\."),
    ("output position", lambda: LagBasis(output=3).fit(X), ValueError,
     r"output must be a whole number >= 0 and < 3, got 3: X has 3 columns\."),
    ("short series", lambda: LagBasis(lags=12).fit(X), ValueError,
     r"X must have more than 12 rows, the longest lag, got 12 samples: shorten the lags or give a longer series\."),
    ("short table of windows", lambda: LagBasis().fit(X).windows(X[:3]), ValueError,
     r"X must have more than 3 rows, the longest lag, got 3 samples"),
    ("simulation of another table", lambda: LagBasis().fit(X).free_run(None, X[:, :1]), ValueError,
     r"X has 1 features, but LagBasis is expecting 3 features"),
    ("simulation start", lambda: LagBasis().fit(X).free_run(None, X, start=0), ValueError,
     r"start must be a whole number >= 1 and < 13, got 0: simulation begins inside the table of 12 rows"),
    ("gap in the inputs", lambda: LagBasis().fit(X).free_run(None, np.where(np.arange(12) == 4, np.nan, X.T).T),
     ValueError,
     r"X must be complete but for outputs from row 3 on, got NaN in row 4: fill it or choose a later start\."),
    # online
    ("a sample never added", lambda: online().remove_samples(X[:1] + 1, y[:1]), ValueError,
     r"X, y must be samples of the model, but row 0 was never added, or removed already: give the same inputs"),
    ("all samples", lambda: online().remove_samples(X, y), ValueError,
     r"remove_samples must leave at least one sample, got all 12: no data, no model\."),
    ("number of outputs", lambda: online().partial_fit(X, Y2), ValueError,
     r"y must have 1 output, got 2: the model was fitted with 1 at first\."),
    ("samples not kept", lambda: online(keep_samples=False).remove_samples(X[:1], y[:1]), ValueError,
     r"remove_samples needs the samples, got keep_samples=False: fit with keep_samples=True\."),
    ("samples not kept, error bars", lambda: online(keep_samples=False).noise_variance_, ValueError,
     r"an error bar or leave-one-out residual needs the samples, got keep_samples=False: fit with"),
    ("keep", lambda: online(keep_samples="no"), ValueError, r"keep_samples must be True or False, got 'no': True"),
    ("term already in", lambda: online().add_terms([1, 2]), ValueError,
     r"terms must not be in the model yet, got \[1\], which are: leave them out\."),
    ("term not in", lambda: online().remove_terms([2]), ValueError,
     r"terms must be in the model, got \[2\], which are not: support_ lists those that are\."),
    ("last term", lambda: online(fit_intercept=False).remove_terms([0, 1]), ValueError,
     r"remove_terms must leave a term or the intercept, got all 2 terms: leave one in\."),
    ("nothing to fit", lambda: online(fit_intercept=False, terms=[]), ValueError,
     r"terms must name at least one term when there is no intercept, got none: give some\."),
    # selection
    ("rule", lambda: forward_path(X, y, rule="aic"), ValueError, r"rule must be one of '.*', got 'aic': pick one"),
    ("penalty", lambda: forward_path(X, y, penalty="l1"), ValueError,
     r"penalty must be one of 'weights', 'orthogonal', got 'l1'"),
    ("criterion", lambda: ForwardRegressor(criterion="aic").fit(X, y), ValueError,
     r"criterion must be one of '.*', 'fdr', 'cv', got 'aic': None keeps every term\."),
    ("penalty in words", lambda: forward_path(X, y, alpha="gcv"), ValueError,
     r"alpha must be one of 'reestimate', got 'gcv': give a number >= 0 or 'reestimate'\."),
    ("penalty below zero", lambda: forward_path(X, y, alpha=-1), ValueError, r"alpha must be a finite number >= 0"),
    ("re-estimated orthogonal penalty", lambda: forward_path(X, y, alpha="reestimate", penalty="orthogonal"),
     ValueError,
     r"penalty must be 'weights' with alpha='reestimate', got 'orthogonal': the formula is for the weights themselves"),
    ("refinement", lambda: ForwardRegressor(refine="floating").fit(X, y), ValueError,
     r"refine must be one of 'swap', got 'floating': None keeps the terms as they were chosen\."),
    ("refined and re-estimated", lambda: forward_path(X, y, alpha="reestimate", refine="swap"), ValueError,
     r"alpha must be a number with refine='swap', got 'reestimate': models under different penalties cannot be "
     r"compared; give the alpha that comes out without refine, or use refit_alpha\."),
    ("refined orthogonal penalty", lambda: forward_path(X, y, penalty="orthogonal", refine="swap"), ValueError,
     r"penalty must be 'weights' with refine='swap', got 'orthogonal': only then is a model the same whatever"),
    ("refined D-optimality", lambda: forward_path(X, y, rule="d_optimal", alpha=0.1, refine="swap"), ValueError,
     r"alpha must be 0 with rule='d_optimal' and refine='swap', got 0\.1: only then do the scores of the terms add up"),
    ("size", lambda: forward_path(X, y).choose("aic"), ValueError,
     r"criterion must be one of '.*', got 'aic': None"),
    ("terms", lambda: forward_path(X, y, max_terms=0),
     ValueError, r"max_terms must be a whole number >= 1, got 0: None"),
    ("patience", lambda: forward_path(X, y, patience=0),
     ValueError, r"patience must be a whole number >= 1, got 0: None"),
    ("seconds", lambda: forward_path(X, y, max_seconds=0), ValueError, r"max_seconds must be a finite number > 0"),
    ("beta", lambda: forward_path(X, y, beta=-1), ValueError, r"beta must be a finite number >= 0, got -1: 1e-6 is"),
    ("include", lambda: forward_path(X, y, include=[3]),
     ValueError, r"include must lie between 0 and 2, got 3: there are"),
    ("error count of numbers", lambda: forward_path(X, y, rule="loo_error"), ValueError,
     r"rule must not be 'loo_error' for targets other than -1 and \+1, got .*: use ForwardClassifier"),
    ("precompute", lambda: forward_path(X, y, precompute="yes"), ValueError,
     r"precompute must be True or False, got 'yes': 'auto' decides by the sizes\."),
    ("precomputed columns", lambda: forward_path(X, y, precompute=0), ValueError,
     r"precompute must be a whole number >= 1, got 0: 'auto' decides by the sizes\."),
    ("folds", lambda: forward_path(X, y, rule="kfold", cv=1), ValueError, r"cv must be a whole number >= 2"),
    ("one row", lambda: forward_path(X[:1], y[:1]), ValueError, r"1 sample\(s\).* minimum of 2 is required"),
    ("candidates with NaN", lambda: forward_path(X * np.nan, y), ValueError, r"Input G contains NaN"),
    ("size of a path", lambda: forward_path(X, y).coef(4), ValueError,
     r"k must be a whole number >= 0 and < 4, got 4: the path has 3 terms\."),
    ("size of a model", lambda: ForwardRegressor().fit(X, y).at(9), ValueError,
     r"n_terms must be a whole number >= 0 and < \d, got 9: the path has \d terms\."),
    ("refit", lambda: ForwardRegressor(refit_alpha="bic").fit(X, y), ValueError,
     r"refit_alpha must be one of 'loo', 'gcv', 'cv', got 'bic': None keeps alpha\."),
    ("verbosity", lambda: ForwardRegressor(verbose=-1).fit(X, y), ValueError, r"verbose must be a whole number >= 0"),
    ("one class", lambda: ForwardClassifier().fit(X, np.ones(12)), ValueError,
     r"y must have at least two classes, got one class 1\.0: give samples of another\."),
    ("folds that are used up", lambda: TermwiseRegressor(cv=ShuffleSplit(2).split(X)).fit(X, y), TypeError,
     r"cv must be a number, a splitter or a list of splits, got a generator, which a fit would use up: "),
    ("repeated folds that are used up", lambda: ForwardRegressor(selection_cv=ShuffleSplit(2).split(X)).fit(X, y),
     TypeError, r"selection_cv must be a number, a splitter or a list of splits, got a generator, which a fit would "
     r"use up: give list\(selection_cv\)\."),
    ("dates", lambda: ForwardRegressor().fit(X, np.arange(12).astype("datetime64[D]")), TypeError,
     r"y must hold numbers, got dates or times, which have no scale of their own: give days or hours since a date"),
    ("a list of dates", lambda: BasisRidge().fit(X, [datetime.date(2026, 1, 1 + i) for i in range(12)]),
     TypeError, r"y must hold numbers, got dates or times"),
    # losses
    ("loss of a regressor", lambda: ForwardRegressor(loss="logistic").fit(X, y), ValueError,
     r"loss must be one of 'squared', 'poisson', 'gamma', 'huber', 'quantile', got 'logistic': pick one of these\."),
    ("loss of a classifier", lambda: ForwardClassifier(loss="hinge").fit(X, y > 1), ValueError,
     r"loss must be one of 'auto', 'logistic', 'squared', got 'hinge': pick one of these\."),
    ("rule of a loss", lambda: ForwardRegressor(loss="huber", rule="gcv").fit(X, y), ValueError,
     r"rule must be 'auto' or 'cost' with loss='huber', got 'gcv': change it, or use loss='squared'\."),
    ("criterion of a loss", lambda: ForwardRegressor(loss="huber", criterion="fdr").fit(X, y), ValueError,
     r"criterion must be None or one of 'tcr', 'loo', 'one_se', 'bic' with loss='huber', got 'fdr': change it"),
    ("loss of data on a cluster",
     lambda: ForwardRegressor(loss="huber").fit(X, SimpleNamespace(__dask_graph__=None)), ValueError,
     r"X must be an array, a sparse matrix or a data frame in memory with loss='huber', got 'ndarray': change it"),
    ("criterion of a path of a loss", lambda: ForwardClassifier().fit(X, y > 1).path_.choose("gcv"), ValueError,
     r"criterion must be one of 'tcr', 'loo', 'one_se', 'bic', got 'gcv': None keeps every term\."),
    ("negative counts", lambda: ForwardRegressor(loss="poisson").fit(X, -y), ValueError,
     r"y must be >= 0 with loss='poisson', got -.*: give counts, or use loss='squared' or 'huber'\."),
    ("targets that are not positive", lambda: ForwardRegressor(loss="gamma").fit(X, np.arange(12)), ValueError,
     r"y must be > 0 with loss='gamma', got 0: use loss='poisson', which accepts zeros, or 'squared'\."),
    ("level of a quantile", lambda: ForwardRegressor(loss="quantile", quantile=1.0).fit(X, y), ValueError,
     r"quantile must be a finite number > 0 and < 1, got 1\.0: 0\.5 is the median\."),
    ("equal quantiles", lambda: ForwardRegressor(loss="quantile", quantile=(0.2, 0.2)).fit(X, y), ValueError,
     r"quantile must be one level or several distinct ones, got \(0\.2, 0\.2\): 0\.5 is the median\."),
    ("quantiles of outputs", lambda: ForwardRegressor(loss="quantile", quantile=(0.2, 0.8)).fit(X, Y2), ValueError,
     r"y must be one target with several quantiles, got 2 columns: fit one model for each\."),
    ("interval around a quantile", lambda: ForwardRegressor(loss="quantile").fit(X, y).predict_interval(X), ValueError,
     r"predict_interval requires a model of the mean, got loss='quantile': fit quantile=\(0\.05, 0\.95\), whose "),
    ("jackknife+ of a loss", lambda: ForwardRegressor(loss="huber").fit(X, y).predict_interval(X, method="jackknife+"),
     ValueError, r"method must be 'cv\+' with loss='huber', got 'jackknife\+', the closed form of least squares: fit "),
    ("jackknife+ of a loss, automatic", lambda: TermwiseRegressor(loss="poisson", dictionary="linear").fit(X, y**2)
     .predict_interval(X, method="jackknife+"), ValueError,
     r"method must be 'cv\+' with loss='poisson', got 'jackknife\+', the closed form of least squares: 'auto' is "),
    ("exposure of the squared loss", lambda: ForwardRegressor().fit(X, y, exposure=np.ones(12)), ValueError,
     r"exposure must be None with loss='squared', got an array: it multiplies means, which loss='poisson' and "),
    ("exposure of other rows", lambda: ForwardRegressor(loss="poisson").fit(X, y**2, exposure=np.ones(5)), ValueError,
     r"exposure must be 12 finite numbers > 0, got \(5,\): give the time, area or population of each sample\."),
    ("no exposure", lambda: ForwardRegressor(loss="poisson").fit(X, y**2, exposure=np.zeros(12)), ValueError,
     r"exposure must be 12 finite numbers > 0, got 0\.0: give the time"),
    ("class weights", lambda: ForwardClassifier(class_weight="equal").fit(X, y > 1), ValueError,
     r"class_weight must be one of 'balanced', got 'equal': or give a dict of weights by class, or None\."),
    ("class weights on a cluster",
     lambda: ForwardClassifier(class_weight="balanced").fit(X, SimpleNamespace(__dask_graph__=None)), TypeError,
     r"class_weight must be None for Dask data, got 'balanced': multiply sample_weight by the weights of the classes "),
    # data sets
    ("unknown data set", lambda: datasets.load("iris"), ValueError,
     r"name must be one of 'ailerons', .*'waveform', got 'iris': these are the papers' data sets\."),
    ("data set without a folder", lambda: datasets.load("heart"), FileNotFoundError,
     r"heart must be in a local folder as twoclass/heart\.npz, but neither data_home nor TERMWISE_DATA is set: it is"),
    ("data set not in the folder", lambda: datasets.load("delta_ailerons", "nowhere"), FileNotFoundError,
     r"delta_ailerons must be in a local folder as .*, but nowhere.*does not exist: it is not on OpenML"),
    ("OpenML out of reach", lambda: datasets.load("kin8nm"), OSError,
     r"kin8nm is not in a local folder and OpenML could not be reached \(no route\): set TERMWISE_DATA"),
    ("number of samples", lambda: datasets.make_sine(0),
     ValueError, r"n_samples must be a whole number >= 1, got 0: use"),
    ("noise", lambda: datasets.make_sine(noise=-1), ValueError, r"noise must be a finite number >= 0, got -1: it is a"),
    # optional packages
    ("missing extra", lambda: import_optional("no_such_module", "plots", "Drawing"), ImportError,
     r"Drawing needs no_such_module, which is not installed: pip install 'termwise\[plots\]'"),
]  # fmt: skip


class Broken(RadialBasis):
    def evaluate(self, X):
        return X * np.nan


def frame():
    import pandas as pd

    return pd.DataFrame(X, columns=list("abc"))


@pytest.mark.parametrize(("action", "error", "pattern"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_message(action, error, pattern, monkeypatch):
    monkeypatch.delenv("TERMWISE_DATA", raising=False)
    monkeypatch.setattr(datasets, "fetch_openml", unreachable)
    with pytest.raises(error, match=pattern) as caught:
        action()
    assert "{" not in str(caught.value).replace("{'", "")  # nothing left unformatted


@pytest.mark.parametrize("content", [b"not gzip", b""], ids=["garbage", "empty"])
def test_unreadable_files(tmp_path, content):
    for folder, name in (("regression", "kin8nm.csv.gz"), ("twoclass", "heart.npz")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"kin8nm\.csv\.gz must be a gzipped CSV of numbers with a header, but could"):
        datasets.load("kin8nm", tmp_path)
    with pytest.raises(ValueError, match=r"heart\.npz must be a NumPy archive with X, y, train, test, realisation"):
        datasets.load("heart", tmp_path)


def test_files_with_holes(tmp_path):
    import gzip

    (tmp_path / "regression").mkdir()
    with gzip.open(tmp_path / "regression" / "kin8nm.csv.gz", "wt") as file:
        file.write("a,target\n1,2\n3,nan\n")
    with pytest.raises(ValueError, match="must hold rows of at least two finite numbers: check the file"):
        datasets.load("kin8nm", tmp_path)


def raised_messages():
    """The longest literal piece of every message raised in the sources."""
    for path in Path(termwise.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                parts = [
                    p.value for p in ast.walk(node.exc) if isinstance(p, ast.Constant) and isinstance(p.value, str)
                ]
                if parts:
                    yield f"{path.name}:{node.lineno}", max(parts, key=len)


@pytest.mark.parametrize(("where", "text"), list(raised_messages()), ids=lambda value: value.split(":")[0])
def test_every_message_in_the_sources_has_a_case(where, text):
    tests = " ".join(p.read_text(encoding="utf-8") for p in Path(__file__).parent.glob("test_*.py"))
    plain = re.sub(r"\\(.)", r"\1", tests)  # patterns, their escapes undone
    words = text.split()
    runs = [" ".join(words[i : i + 4]) for i in range(max(1, len(words) - 3))]
    assert any(run in plain for run in runs), f"{where}: {text!r} is not tested"
