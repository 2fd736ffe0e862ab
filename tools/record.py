"""Record of behaviour: fit several hundred small models, store what comes out, and compare two such records.

    python tools/record.py store FILE.json [--only PATTERN]
    python tools/record.py compare OLD.json NEW.json [--tol 1e-9]

A record is made before a change that must not alter results, and again after it. Only public names and the command
line are used, so that the same script runs on both sides. A case that raises is recorded with its exception. Whole
numbers and text are compared exactly, other numbers relatively to the largest of their array.
"""

# ruff: noqa: E402
import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # sums in one order; before NumPy is imported
os.environ.update(MPLBACKEND="Agg", COLUMNS="100", NO_COLOR="1", TERM="dumb")
os.environ.pop("TERMWISE_DATA", None)

import argparse
import atexit
import fnmatch
import hashlib
import io
import itertools
import json
import pickle
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_friedman1, make_moons
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

import termwise as tw
from termwise.basis import TableEncoder

# -- the registry ------------------------------------------------------------------------------------------------------

CASES: dict[str, Callable[[], Any]] = {}
Choices = Mapping[str, Any] | Iterable[Any]


def case(name: str, /, **choices: Choices) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under a name, once for every combination of its choices.

    A choice is a list, whose entries are put into the name as they are, or a dict from what is put into the name to
    the value itself.
    """
    options = [list(each.items() if isinstance(each, Mapping) else ((one, one) for one in each))
               for each in choices.values()]  # fmt: skip

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for picked in itertools.product(*options):
            full = name.format(**{key: label for key, (label, _) in zip(choices, picked, strict=True)})
            if full in CASES:
                raise ValueError(f"name of a case must be unique, got {full!r} twice: rename one.")
            values = {key: value for key, (_, value) in zip(choices, picked, strict=True)}
            CASES[full] = lambda values=values: function(**values)
        return function

    return register


@cache
def folder() -> Path:
    """Return a folder for files that cases write."""
    place = tempfile.TemporaryDirectory(prefix="record_")
    atexit.register(place.cleanup)
    return Path(place.name).resolve()


# -- what is stored ----------------------------------------------------------------------------------------------------

MOST = 300  # numbers of an array that are stored one by one
TIMES = re.compile(r"\b\d+(\.\d+)? ?(s|ms|seconds?)\b")
ADDRESSES = re.compile(r"\b0x[0-9a-f]{6,}\b")
FLEETING = {"seconds", "fit_seconds", "versions", "termwise", "elapsed"}  # keys of times and versions


def clean(text: str) -> str:
    """Take times, addresses and the name of the temporary folder out of a text."""
    return ADDRESSES.sub("ADDRESS", TIMES.sub("TIME", text.replace(str(folder()), "FOLDER")))


def on_host(array: Any) -> Any:
    """Return an array of any library as one of NumPy."""
    try:
        return np.asarray(array)
    except (TypeError, RuntimeError, ValueError):
        return np.from_dlpack(array)


def encode_array(array: Any) -> dict[str, Any]:
    """Store an array: its numbers, or a few of them and two sums where there are many."""
    flat, head = array.ravel(), {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.dtype.kind not in "fc" or flat.size <= MOST:
        return {**head, "values": [encode(one) for one in flat.tolist()]}
    flat = flat.astype(np.float64)
    sums = [float(np.linalg.norm(flat)), float(flat @ np.cos(np.arange(flat.size)))]
    return {**head, "sums": sums, "values": flat[:20].tolist() + flat[-20:].tolist()}


def encode(value: Any) -> Any:
    """Return a value as plain data for JSON."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return value.item()
    if isinstance(value, np.ma.MaskedArray):
        return [None if one is np.ma.masked else encode(one) for one in value]
    if isinstance(value, np.ndarray):
        return encode_array(value)
    if sp.issparse(value):
        return {"container": type(value).__name__, **encode_array(value.toarray())}
    if isinstance(value, Mapping):
        return {str(key): encode(one) for key, one in value.items() if key not in FLEETING}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return encode(value._asdict())
    if isinstance(value, list | tuple | set | range):
        return [encode(one) for one in value]
    if hasattr(value, "to_numpy"):  # frames and series of pandas and polars
        names = list(getattr(value, "columns", [getattr(value, "name", None)]))
        library = type(value).__module__.partition(".")[0]
        return {"library": library, "names": encode(names), **encode_array(np.asarray(value.to_numpy()))}
    if hasattr(value, "compute"):
        return {"library": "dask", "computed": encode(value.compute())}
    if hasattr(value, "__dlpack__"):
        return {"library": type(value).__module__.partition(".")[0], **encode_array(on_host(value))}
    return clean(repr(value))


def outcome(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return what a function returns, or the exception it raises."""
    try:
        return encode(function(*arguments, **options))
    except Exception as error:
        return {"raises": type(error).__name__, "message": clean(str(error))}


def source(text: str) -> dict[str, str]:
    """Store a source text; numbers in it are compared as numbers."""
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "source": text}


def summed(values: Any) -> Any:
    """Store the norm of an array and its first numbers."""
    array = on_host(values)
    return {"shape": list(array.shape), "norm": float(np.linalg.norm(array)), "first": encode(array.ravel()[:5])}


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


ATTRIBUTES = words("""
    support_ weights_ coef_ intercept_ n_terms_ alpha_ alphas_ criterion_value_ criteria_ effective_dof_
    noise_variance_ stop_reason_ n_swaps_ n_sweeps_ gcv_path_ n_updates_ evidence_path_ n_components_ n_stable_ gammas_
    orthogonal_coef_ thresholds_ stable_noise_variance_ lambda_1_ lambda_2_ loo_error_rate_ final_error_rate_
    sign_violations_ prefiltered_ classes_ dictionary_ target_ pool_ trials_ categories_ n_samples_ n_features_in_
    feature_names_in_ best_params_ best_index_ best_criterion_ results_
""")
COLUMNS = words("score sse cost dof alpha loo loo_se gcv uev fpe bic reduction correlation verified")
CRITERIA = ["tcr", "tcr_paper", "tcr_effective", "tcr_sequential", "loo", "one_se", "gcv", "uev", "fpe", "bic"]


def path_record(path: Any) -> dict[str, Any]:
    """Store a selection path without its times."""
    record: dict[str, Any] = {"terms": encode(path.terms), "length": len(path), "stop_reason": encode(path.stop_reason)}
    record |= {name: outcome(path.column, name) for name in COLUMNS}
    record["choices"] = {name: outcome(path.choose, name) for name in CRITERIA}
    record["facts"] = [outcome(getattr, path, name) for name in ("n_samples", "n_candidates", "n_different", "n_swaps")]
    record["coef"] = {str(k): outcome(path.coef, k) for k in sorted({0, len(path) // 2, len(path)})}
    return record


def model_record(model: Any, new: Any = None, path: bool = True) -> dict[str, Any]:
    """Store what a fitted model has and says, and its predictions for new samples."""
    record: dict[str, Any] = {}
    for name in ATTRIBUTES:
        known = outcome(getattr, model, name)
        if not (isinstance(known, dict) and known.get("raises") == "AttributeError"):
            record[name] = known
    record["loo_residuals_"] = outcome(lambda: summed(model.loo_residuals_))
    record["weights_cov_"] = outcome(lambda: np.diagonal(on_host(model.weights_cov_), axis1=-2, axis2=-1))
    record["summary"] = outcome(lambda: model.summary())
    record["names"] = outcome(lambda: model.predictor_.term_names)
    for name in ("get_feature_names_out", "get_support"):
        if hasattr(model, name):
            record[name] = outcome(getattr(model, name))
    if path and hasattr(model, "path_"):
        record["path"] = path_record(model.path_)
    if new is not None:
        record |= predictions(model, new)
    return record


def predictions(model: Any, new: Any) -> dict[str, Any]:
    """Store all that a model says about new samples."""
    record = {"predict": outcome(model.predict, new)}
    for name in ("predict_interval", "decision_function", "predict_proba", "predict_log_proba", "transform"):
        if hasattr(model, name):
            record[name] = outcome(getattr(model, name), new)
    if not hasattr(model, "classes_"):
        record["std"] = outcome(lambda: model.predict(new, return_std=True)[1])
        record["interval of half"] = outcome(lambda: model.predict_interval(new, coverage=0.5))
    return record


# -- data --------------------------------------------------------------------------------------------------------------


class Data(NamedTuple):
    """Samples to fit and new ones to predict."""

    X: Any
    y: Any
    new: Any


@cache
def columns(outputs: int = 1) -> Data:
    """Return correlated columns, few of which matter."""
    rng = np.random.default_rng(0)
    G = rng.normal(size=(130, 30)) + 0.3
    G[:, 5] = G[:, 3] + 0.2 * rng.normal(size=130)
    noise = rng.normal(size=(130, 2))
    Y = np.column_stack([G[:, 3] - 2 * G[:, 7] + 0.5 * G[:, 20], G[:, 7] + G[:, 11]]) + noise
    return Data(G[:120], Y[:120, 0] if outputs == 1 else Y[:120], G[120:])


@cache
def wide() -> Data:
    """Return more columns than samples."""
    rng = np.random.default_rng(1)
    G = rng.normal(size=(70, 150))
    return Data(G[:60], G[:60, 3] - 2 * G[:60, 7] + 0.5 * rng.normal(size=60), G[60:])


@cache
def curve() -> Data:
    """Return a curve of one input."""
    X, y = tw.datasets.make_hermite(n_samples=60, random_state=1)
    return Data(X, y, np.linspace(-4, 4, 9)[:, None])


@cache
def friedman(outputs: int = 1) -> Data:
    """Return a smooth function of five inputs."""
    X, y = make_friedman1(130, n_features=5, noise=1.0, random_state=0)
    Y = np.column_stack([y, X[:, 0] ** 2 + X[:, 3] + 0.1 * np.cos(7 * y)])
    return Data(X[:120], Y[:120, 0] if outputs == 1 else Y[:120], X[120:])


@cache
def diabetes() -> Data:
    """Return a data frame of numbers."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    return Data(X[:200], y[:200], X[200:210])


@cache
def two_classes() -> Data:
    """Return two classes, with words for labels."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, labels = X.iloc[:, :10], np.where(y > 0, "benign", "malignant")
    return Data(X[:160], labels[:160], X[160:172])


@cache
def three_classes() -> Data:
    """Return three classes."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return Data(X[order[:135]], y[order[:135]], X[order[135:]])


@cache
def moons() -> Data:
    """Return two classes that overlap."""
    X, y = make_moons(140, noise=0.35, random_state=0)
    return Data(X[:130], y[:130], X[130:])


@cache
def table() -> Data:
    """Return a data frame with categories."""
    rng = np.random.default_rng(7)
    X = pd.DataFrame(rng.normal(size=(120, 3)) * [1.0, 2.0, 0.5] + [0, 1, 50], columns=["speed", "load", "heat"])
    X["kind"] = pd.Categorical(rng.choice(["u", "v", "w"], 120))
    X["level"] = pd.Categorical(rng.choice([10, 20], 120))
    y = np.sin(2 * X["speed"]) + X["load"] + 2.0 * (X["kind"] == "v") - (X["level"] == 10) * X["load"]
    y = (y + 0.2 * rng.normal(size=120)).to_numpy()
    return Data(X[:110], y[:110], X[110:])


@cache
def series() -> Data:
    """Return a series in the first column, driven by the second."""
    rng = np.random.default_rng(3)
    u, y = rng.normal(size=160), np.zeros(160)
    for t in range(2, 160):
        y[t] = 1.2 * y[t - 1] - 0.5 * y[t - 2] + 0.4 * u[t - 1] + 0.05 * rng.normal()
    X = np.column_stack([y, u])
    return Data(X[:120], y[:120], X[120:])


def weights_of(kind: str, n: int) -> Any:
    """Return sample weights."""
    rng = np.random.default_rng(11)
    return {
        "none": None,
        "whole": rng.integers(0, 4, size=n),
        "fractional": rng.uniform(0.3, 2.0, size=n),
    }[kind]


def fitted(model: Any, data: Data, sample_weight: Any = None) -> dict[str, Any]:
    """Fit a model and store it."""
    options = {} if sample_weight is None else {"sample_weight": sample_weight}
    return model_record(model.fit(data.X, data.y, **options), data.new)


ROOT = np.random.default_rng(5).normal(size=(5, 5))
BASES = {
    "columns": None,
    "gaussian": tw.RadialBasis(width=1.0),
    "gaussian median 25": tw.RadialBasis(width="median", centers=25),
    "gaussian vector": tw.RadialBasis(width=[0.5, 1.0, 1.5, 1.0, 2.0], centers=30),
    "gaussian streamed": tw.RadialBasis(width=1.0, store=False),
    "multiquadric": tw.RadialBasis("multiquadric", width=1.5, centers=25),
    "multiquadric metric": tw.RadialBasis("multiquadric", width=ROOT @ ROOT.T + np.eye(5), centers=25),
    "inverse multiquadric": tw.RadialBasis("inverse_multiquadric", width=1.5, centers=25, random_state=3),
    "cauchy": tw.RadialBasis("cauchy", width="median", centers=np.random.default_rng(2).uniform(size=(20, 5))),
    "smooth": tw.SmoothBasis(),
    "smooth widths": tw.SmoothBasis([0.5, 2.0], centers=20),
    "smooth not linear": tw.SmoothBasis(0.7, linear=False, centers=25, random_state=4),
    "smooth given centers": tw.SmoothBasis(centers=np.random.default_rng(2).uniform(size=(12, 5))),
    "smooth relevance": tw.SmoothBasis(relevance="auto", centers=30),
    "smooth given relevance": tw.SmoothBasis(relevance=[1.0, 1.0, 0.5, 0.0, 0.0], centers=30),
    "anova": tw.AnovaBasis(),
    "anova order 1": tw.AnovaBasis(order=1),
    "anova options": tw.AnovaBasis(n_centers=2, width=1.5, min_count=20),
    "anova products of inputs": tw.AnovaBasis(n_centers=0),
    "fourier": tw.FourierBasis(),
    "fourier period": tw.FourierBasis(n_harmonics=2, period=[1.0, 2.0, 1.0, 1.0, 3.0]),
    "logistic": tw.LogisticBasis(n_units=30),
    "logistic options": tw.LogisticBasis(n_units=20, scale=3.0, random_state=5),
    "union": tw.UnionBasis([tw.AnovaBasis(n_centers=2), tw.SmoothBasis(0.5, linear=False, centers=20)]),
    "union of unions": tw.UnionBasis([tw.UnionBasis([tw.FourierBasis(1), tw.LogisticBasis(5)]), tw.AnovaBasis(2)]),
    "pipeline": make_pipeline(StandardScaler(), tw.RadialBasis(width=2.0, centers=30)),
    "polynomials": PolynomialFeatures(2, include_bias=False),
    "splines": SplineTransformer(n_knots=4),
    "feature union": FeatureUnion([("squares", PolynomialFeatures(2)), ("waves", tw.FourierBasis(1))]),
}
BASIC = {name: BASES[name] for name in ("columns", "gaussian median 25", "anova options", "union", "polynomials")}

# -- bases -------------------------------------------------------------------------------------------------------------

LEARNED = words("""
    centers_ center_rows_ width_ widths_ columns_ lags_ factors_ distance_ relevance_ means_ deviations_ ranges_ inputs_
    bumps_ periods_ origins_ directions_ offsets_ places_ sizes output_ max_lag_ categories_ n_features_in_
""")


def basis_record(basis: Any, data: Data) -> dict[str, Any]:
    """Store a fitted basis."""
    record = {name: encode(getattr(basis, name)) for name in LEARNED if hasattr(basis, name)}
    G = basis.transform(data.new)
    some = np.arange(G.shape[1])[:: max(1, G.shape[1] // 7)][::-1]
    names = basis.get_feature_names_out()
    record |= {"design": encode(G), "names": encode(names), "shape": list(G.shape)}
    if hasattr(basis, "take"):
        taken = basis.take(some)
        record["take"] = [encode(taken.transform(data.new)), encode(taken.get_feature_names_out())]
    return record


@case("basis/{basis}", basis={name: basis for name, basis in BASES.items() if basis is not None})
def basis_alone(basis: Any) -> Any:
    """Fit a basis, evaluate it, take some of its functions."""
    data = friedman()
    return basis_record(clone(basis).fit(data.X, data.y), data)


@case("basis/float32/{basis}", basis={name: BASES[name] for name in ("gaussian", "smooth", "anova", "fourier")})
def basis_of_short_numbers(basis: Any) -> Any:
    """Design matrices keep the type of their inputs."""
    data = friedman()
    basis = clone(basis).fit(data.X.astype(np.float32))
    return {"design": encode(basis.transform(data.new.astype(np.float32)))}


@case("basis/named inputs/{basis}", basis={name: BASES[name] for name in ("smooth", "anova", "fourier", "logistic")})
def basis_of_named_inputs(basis: Any) -> Any:
    """Names of functions of a data frame's columns, pandas out."""
    data = diabetes()
    basis = clone(basis).set_output(transform="pandas").fit(data.X, data.y)
    return encode(basis.transform(data.new))


@case("basis/design/{kind}", kind={"radial": tw.RadialBasis(width=1.0), "anova": tw.AnovaBasis()})
def design_of_a_basis(kind: Any) -> Any:
    """A path over a design that is not stored."""
    data = friedman()
    basis = clone(kind).fit(data.X)
    return path_record(tw.forward_path(basis.design(data.X), data.y, max_terms=6))


@case("basis/table encoder/{frame}", frame=["pandas", "polars", "array"])
def table_encoder(frame: str) -> Any:
    """Categories become columns."""
    X, _, new = table()
    if frame == "polars":
        import polars

        X, new = polars.from_pandas(X.drop(columns="level")), polars.from_pandas(new.drop(columns="level"))
    elif frame == "array":
        X, new = X.iloc[:, :3].to_numpy(), new.iloc[:, :3].to_numpy()
    encoder = TableEncoder().fit(X)
    record = {"design": encode(encoder.transform(new)), "names": encode(encoder.get_feature_names_out())}
    return record | {"blocks": encode(encoder.blocks()), "categories": outcome(getattr, encoder, "categories_")}


LAGS = {
    "3": tw.LagBasis(3),
    "some": tw.LagBasis([1, 2, 5], input_lags=[0, 1]),
    "second column": tw.LagBasis(2, output=1),
    "scaled": make_pipeline(tw.LagBasis(2), StandardScaler(), tw.AnovaBasis(2)),
}


@case("lag/{basis}/{model}", basis=LAGS, model={"ridge": tw.BasisRidge(), "forward": tw.ForwardRegressor()})
def lags(basis: Any, model: Any) -> Any:
    """One-step predictions and free runs of a series."""
    data = series()
    one = clone(model).set_params(basis=basis)
    y = data.X[:, 1] if getattr(basis, "output", 0) == 1 else data.y
    one.fit(data.X, y, sample_weight=np.arange(len(y)) >= 5)
    record = model_record(one, data.new)
    lag = one.basis_[0] if hasattr(one.basis_, "steps") else one.basis_
    record["free run"] = outcome(lambda: lag.free_run(one, data.new, start=10))
    record["windows"] = outcome(lambda: lag.windows(data.new))
    record["frozen free run"] = outcome(lambda: one.predictor_.free_run(data.new, start=10))
    record["frozen"] = outcome(lambda: one.predictor_.predict(data.new))
    return record


# -- ridge -------------------------------------------------------------------------------------------------------------


@case("ridge/basis={basis}", basis=BASES)
def ridge_on_every_basis(basis: Any) -> Any:
    """One penalty by leave-one-out."""
    return fitted(tw.BasisRidge(basis, alpha="loo"), friedman())


@case("ridge/alpha={alpha}/intercept={intercept}", alpha=["gcv", "loo", "uev", "fpe", "bic", 0, 0.1, np.inf],
      intercept=[True, False])  # fmt: skip
def ridge_by_every_criterion(alpha: Any, intercept: bool) -> Any:
    """Every way to the penalty."""
    return fitted(tw.BasisRidge(alpha=alpha, fit_intercept=intercept), columns(2))


@case("ridge/interpolating/alpha={alpha}", alpha=["gcv", "loo", "bic"])
def ridge_of_many_terms(alpha: str) -> Any:
    """More terms than samples."""
    return fitted(tw.BasisRidge(alpha=alpha), wide())


@case("local/basis={basis}", basis=BASIC)
def local_ridge_on_bases(basis: Any) -> Any:
    """One penalty per term."""
    return fitted(tw.LocalRidge(basis), friedman())


LOCAL = {
    "alpha=0.1": {"alpha": 0.1},
    "alpha=loo": {"alpha": "loo"},
    "subset": {"subset": [3, 7, 11]},
    "one sweep": {"max_sweeps": 1},
    "tol": {"tol": 1e-8},
    "no intercept": {"fit_intercept": False},
}


@case("local/{options}", options=LOCAL)
def local_ridge(options: dict[str, Any]) -> Any:
    """Starts and ends of the sweeps."""
    return fitted(tw.LocalRidge(**options), columns(2))


@case("local/wide")
def local_ridge_wide() -> Any:
    """More terms than samples."""
    return fitted(tw.LocalRidge(), wide())


@case("reestimate/{criterion}/start={start}", criterion=["gcv", "uev", "fpe", "bic"], start=[0.01, 10.0])
def reestimated(criterion: str, start: float) -> Any:
    """Orr's iteration."""
    data = curve()
    G = tw.RadialBasis(width=0.5).fit_transform(data.X)
    weights = weights_of("whole", len(data.y))
    return {
        "plain": outcome(tw.reestimate_alpha, G, data.y, start, criterion=criterion),
        "weighted": outcome(tw.reestimate_alpha, G, data.y, start, criterion=criterion, sample_weight=weights),
        "no intercept": outcome(tw.reestimate_alpha, G, data.y, start, criterion=criterion, fit_intercept=False),
        "once": outcome(tw.reestimate_alpha, G, data.y, start, criterion=criterion, max_iter=1),
    }


# -- forward selection -------------------------------------------------------------------------------------------------

RULES = ["loo", "cost", "sse", "gcv", "kfold", "d_optimal", "norm"]


@case("forward/rule={rule}/criterion={criterion}/dense64", rule=RULES, criterion=["tcr", "bic", "one_se"])
def forward_rules(rule: str, criterion: str) -> Any:
    """Every rule with a few criteria."""
    return fitted(tw.ForwardRegressor(rule=rule, criterion=criterion), columns())


@case("forward/rule={rule}/two outputs, weighted", rule=RULES)
def forward_rules_of_two_outputs(rule: str) -> Any:
    """Every rule for several outputs and weights."""
    data = columns(2)
    return fitted(tw.ForwardRegressor(rule=rule, max_terms=8), data, weights_of("whole", len(data.y)))


@case("forward/criterion={criterion}/{data}", criterion=[*CRITERIA, None],
      data={"columns": columns, "wide": wide, "curve": curve})  # fmt: skip
def forward_criteria(criterion: str | None, data: Callable[[], Data]) -> Any:
    """Every criterion."""
    basis = tw.RadialBasis(width=0.8) if data is curve else None
    return fitted(tw.ForwardRegressor(basis, criterion=criterion, max_terms=25), data())


@case("forward/basis={basis}", basis=BASES)
def forward_on_every_basis(basis: Any) -> Any:
    """Terms of every basis."""
    return fitted(tw.ForwardRegressor(basis, max_terms=10), friedman())


FORWARD = {
    "alpha=0": {"alpha": 0},
    "alpha=1": {"alpha": 1.0},
    "alpha=reestimate": {"alpha": "reestimate"},
    "alpha=reestimate, rule=cost, criterion=gcv": {"alpha": "reestimate", "rule": "cost", "criterion": "gcv"},
    "orthogonal": {"penalty": "orthogonal", "alpha": 0.3},
    "orthogonal, rule=sse": {"penalty": "orthogonal", "alpha": 0.3, "rule": "sse"},
    "orthogonal, rule=cost": {"penalty": "orthogonal", "alpha": 0.3, "rule": "cost"},
    "refit_alpha=loo": {"refit_alpha": "loo"},
    "refit_alpha=gcv": {"refit_alpha": "gcv", "criterion": "loo"},
    "include": {"include": [5, 2]},
    "include, max_terms": {"include": [5, 2], "max_terms": 3, "criterion": None},
    "swap": {"refine": "swap"},
    "swap, rule=cost": {"refine": "swap", "rule": "cost", "criterion": "loo"},
    "swap, rule=sse, alpha=0": {"refine": "swap", "rule": "sse", "alpha": 0, "max_terms": 6, "criterion": None},
    "swap, rule=kfold": {"refine": "swap", "rule": "kfold", "max_terms": 5},
    "swap, rule=d_optimal": {"refine": "swap", "rule": "d_optimal", "alpha": 0, "max_terms": 5},
    "swap, include": {"refine": "swap", "include": [5], "criterion": "bic"},
    "precompute": {"precompute": True},
    "no precompute": {"precompute": False},
    "precompute, rule=cost": {"precompute": True, "rule": "cost"},
    "precompute, rule=kfold": {"precompute": True, "rule": "kfold", "max_terms": 5},
    "precompute, rule=gcv": {"precompute": True, "rule": "gcv"},
    "kfold 3": {"rule": "kfold", "cv": 3},
    "kfold shuffled": {"rule": "kfold", "cv": KFold(4, shuffle=True, random_state=0)},
    "kfold pairs": {"rule": "kfold", "cv": list(GroupKFold(3).split(np.zeros((120, 1)), None, np.arange(120) // 10))},
    "beta=0.5": {"rule": "d_optimal", "beta": 0.5},
    "no intercept": {"fit_intercept": False},
    "no intercept, rule=kfold": {"fit_intercept": False, "rule": "kfold"},
    "patience=2": {"patience": 2, "criterion": "loo"},
    "patience=None": {"patience": None},
    "max_terms=4": {"max_terms": 4, "criterion": None},
    "ols": {"rule": "sse", "alpha": 0, "criterion": "gcv"},
}


@case("forward/{options}", options=FORWARD)
def forward_options(options: dict[str, Any]) -> Any:
    """Every option, for one output and for two."""
    one = fitted(tw.ForwardRegressor(**options), columns())
    two = fitted(tw.ForwardRegressor(**options), columns(2))
    return {"one": one, "two": two}


@case("forward/weights={kind}/{options}", kind=["whole", "fractional"],
      options={name: FORWARD[name] for name in ("alpha=reestimate", "orthogonal", "swap", "precompute", "kfold 3",
                                                "refit_alpha=loo", "no intercept")})  # fmt: skip
def forward_weighted(kind: str, options: dict[str, Any]) -> Any:
    """Options together with sample weights."""
    data = columns()
    return fitted(tw.ForwardRegressor(**options), data, weights_of(kind, len(data.y)))


@case("forward/at/{k}", k=[0, 1, 3, 7])
def forward_at(k: int) -> Any:
    """Other sizes of the path."""
    data = columns(2)
    return model_record(tw.ForwardRegressor(refit_alpha="loo").fit(data.X, data.y).at(k), data.new, path=False)


@case("forward/selector/{output}", output=["default", "pandas", "polars"])
def forward_selects(output: str) -> Any:
    """The estimator as a selector of columns."""
    data = diabetes()
    model = tw.ForwardRegressor().set_output(transform=output).fit(data.X, data.y)
    return {
        "transform": encode(model.transform(data.new)),
        "support": [encode(model.get_support()), encode(model.get_support(indices=True))],
        "names": encode(model.get_feature_names_out()),
        "piped": outcome(make_pipeline(model, tw.BasisRidge()).fit(data.X, data.y).predict, data.new),
    }


@case("forward/verbose")
def forward_speaks() -> Any:
    """Lines that are printed on the way."""
    data, said = columns(), io.StringIO()
    with redirect_stdout(said):
        tw.ForwardRegressor(verbose=1, max_terms=4).fit(data.X, data.y)
    return encode(said.getvalue())


@case("forward/own rule")
def forward_by_a_rule_of_ones_own() -> Any:
    """A rule that does not come with the library."""
    from termwise.selection import Choice, ClosedForm, Rule

    class Priced(ClosedForm):
        def scores(self, state: Any) -> Any:
            return (state.c**2).sum(axis=1) / state.den / np.arange(1.0, 31.0)

    class InTurn(Rule):
        end = "all candidates had their turn"

        def __init__(self) -> None:
            self.next = 0

        def choose(self, state: Any) -> Any:
            self.next += 1
            return Choice(self.next - 1, 0.0) if self.next <= 3 else None

    data = columns()
    return {
        type(rule).__name__: path_record(tw.forward_path(data.X, data.y, rule=rule)) for rule in (Priced(), InTurn())
    }


@case("forward/criteria as functions")
def criteria_as_functions() -> Any:
    """The formulas themselves."""
    from termwise import selection

    sse, dof = np.linspace(9, 2, 5), np.arange(5.0)
    record = {name: outcome(getattr(selection, name), sse, dof, 40.0) for name in ("gcv", "uev", "fpe", "bic")}
    return record | {"loo": outcome(selection.loo, sse, dof, 40.0, 2 * sse)}


PATHS = {
    "defaults": {},
    "no terms limit, criterion": {"criterion": "tcr_effective", "patience": 3},
    "blocks": {"block_rows": 17, "max_terms": 8},
    "blocks, kfold": {"block_rows": 17, "max_terms": 5, "rule": "kfold"},
    "weighted": {"sample_weight": weights_of("fractional", 120), "max_terms": 8},
    "callback": {"callback": lambda path: len(path) == 3},
    "loo_error": {"rule": "loo_error", "max_terms": 6},
    "swap": {"refine": "swap", "max_terms": 6},
    "orthogonal, norm": {"penalty": "orthogonal", "alpha": 0.1, "rule": "norm", "max_terms": 6},
    "reestimate, no intercept": {"alpha": "reestimate", "fit_intercept": False, "max_terms": 6},
}


@case("path/{options}", options=PATHS)
def functional_path(options: dict[str, Any]) -> Any:
    """The functional core."""
    data = columns()
    y = np.sign(data.y) if options.get("rule") == "loo_error" else data.y
    path = tw.forward_path(data.X, y, **options)
    frame = path.to_frame()
    return path_record(path) | {"frame": encode(frame.drop(columns="seconds")), "repr": clean(repr(path))[:200]}


# -- containers --------------------------------------------------------------------------------------------------------


def sparse(X: Any) -> Any:
    """Return X with small numbers set to zero."""
    return np.where(np.abs(X) > 0.7, X, 0.0)


def mapped(X: Any) -> Any:
    """Return X as a memory map."""
    path = folder() / f"map_{len(X)}.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def polars_frame(X: Any) -> Any:
    """Return X as a frame of polars."""
    import polars

    return polars.DataFrame(X, schema=[f"c{j}" for j in range(X.shape[1])])


CONTAINERS = {
    "float32": lambda X: X.astype(np.float32),
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "list": lambda X: X.tolist(),
    "sparse as dense": sparse,
    "csr_matrix": lambda X: sp.csr_matrix(sparse(X)),
    "csc_matrix": lambda X: sp.csc_matrix(sparse(X)),
    "csr_array": lambda X: sp.csr_array(sparse(X)),
    "csc_array": lambda X: sp.csc_array(sparse(X)),
    "coo_array": lambda X: sp.coo_array(sparse(X)),
    "csr_array float32": lambda X: sp.csr_array(sparse(X).astype(np.float32)),
    "pandas": lambda X: pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]),
    "polars": polars_frame,
    "memmap": mapped,
}
MODELS = {
    "forward": tw.ForwardRegressor(),
    "forward cost": tw.ForwardRegressor(rule="cost", criterion="bic", max_terms=8),
    "ridge": tw.BasisRidge(),
}


@case("container/{container}/{model}", container=CONTAINERS, model=MODELS)
def containers(container: Callable[[Any], Any], model: Any) -> Any:
    """The same data in every container."""
    data = columns()
    return fitted(clone(model), Data(container(data.X), data.y, container(data.new)))


@case("container/{container}/{model}",
      container={name: CONTAINERS[name] for name in ("float32", "csr_array", "polars")},
      model={"local": tw.LocalRidge(), "threshold": tw.OrthogonalThresholdRegressor(), "online": tw.OnlineRidge(),
             "evidence": tw.EvidenceForwardRegressor(), "classifier": tw.ForwardClassifier(),
             "radial": tw.ForwardRegressor(tw.RadialBasis(width=8.0, centers=20))})  # fmt: skip
def containers_of_others(container: Callable[[Any], Any], model: Any) -> Any:
    """Other estimators with some of the containers."""
    data = columns()
    y = np.where(data.y > 0, "up", "down") if isinstance(model, tw.ForwardClassifier) else data.y
    return fitted(clone(model), Data(container(data.X), y, container(data.new)))


@case("container/sparse/rule={rule}", rule=RULES)
def sparse_rules(rule: str) -> Any:
    """Every rule on sparse columns."""
    data = columns(2)
    X, new = sp.csc_array(sparse(data.X)), sp.csc_array(sparse(data.new))
    return fitted(tw.ForwardRegressor(rule=rule, max_terms=6), Data(X, data.y, new), weights_of("whole", 120))


ESTIMATORS = {
    "ridge": tw.BasisRidge(),
    "local": tw.LocalRidge(),
    "threshold": tw.OrthogonalThresholdRegressor(),
    "evidence": tw.EvidenceForwardRegressor(),
    "online": tw.OnlineRidge(alpha=0.1),
    "forward": tw.ForwardRegressor(),
}


@case("weights/{kind}/outputs={outputs}/{model}", kind=["whole", "fractional"], outputs=[1, 2], model=ESTIMATORS)
def weighted(kind: str, outputs: int, model: Any) -> Any:
    """Every regressor with sample weights."""
    data = columns(outputs)
    return fitted(clone(model), data, weights_of(kind, len(data.y)))


@case("file/{suffix}/{rule}", suffix=[".npy", ".parquet", ".arrow", ".feather", ".csv"], rule=["loo", "cost"])
def rows_of_a_file(suffix: str, rule: str) -> Any:
    """Rows that stay in a file."""
    data = columns()
    path, target = folder() / f"rows{suffix}", 30 if suffix == ".npy" else "y"
    frame = pd.DataFrame(data.X, columns=[f"x{j}" for j in range(30)]).assign(y=data.y)
    if suffix == ".npy":
        np.save(path, np.ascontiguousarray(frame.to_numpy()))
    elif suffix == ".parquet":
        frame.to_parquet(path, row_group_size=33)
    elif suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_feather(path)
    rows = tw.open_rows(path, target=target)
    model = tw.ForwardRegressor(rule=rule).fit(rows, rows.y)
    record = model_record(model) | {"predict": encode(model.predict(rows)), "shape": encode(rows.shape)}
    some = tw.open_rows(path, columns=[3, 7, 9] if suffix == ".npy" else ["x3", "x7", "x9"], target=target)
    path_of_some = tw.forward_path(some, some.y, rule=rule, precompute=True)
    return record | {"some": path_record(path_of_some), "names": encode(rows.names), "block": encode(rows.load())}


@case("memory budget/{model}", model={"radial": tw.ForwardRegressor(tw.RadialBasis(width=1.0), max_terms=6),
                                      "radial kfold": tw.ForwardRegressor(tw.RadialBasis(), rule="kfold", max_terms=4),
                                      "anova": tw.ForwardRegressor(tw.AnovaBasis(), max_terms=6)})  # fmt: skip
def within_a_budget(model: Any) -> Any:
    """Designs that are not stored."""
    with tw.memory_budget(50e3):
        return fitted(clone(model), friedman())


@case("memory budget/map")
def map_beyond_the_budget() -> Any:
    """A memory map that is read block by block."""
    data = columns()
    with tw.memory_budget(10e3):
        return path_record(tw.forward_path(mapped(data.X), data.y, max_terms=5))


# -- Dask --------------------------------------------------------------------------------------------------------------


@cache
def client() -> Any:
    """Start a small cluster in this process, once."""
    import distributed

    one = distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0")
    atexit.register(one.close)
    return one


DASK = {
    "loo": {},
    "cost": {"rule": "cost", "criterion": "bic"},
    "gcv, precompute": {"rule": "gcv", "precompute": True},
    "reestimate": {"alpha": "reestimate"},
    "orthogonal": {"penalty": "orthogonal", "alpha": 0.5},
    "swap": {"refine": "swap", "rule": "cost"},
}


@case("dask/array/{options}", options=DASK)
def dask_arrays(options: dict[str, Any]) -> Any:
    """Chunks on a cluster."""
    import dask.array as da

    client()
    data = columns(2)
    X, Y = da.from_array(data.X, chunks=(40, 15)), da.from_array(data.y, chunks=(40, 2))
    model = tw.ForwardRegressor(max_terms=3, **options).fit(X, Y)
    record = model_record(model, data.new)
    return record | {"far": encode(model.predict(X)), "selected": encode(model.transform(X))}


@case("dask/{kind}", kind=["frame", "frame weighted", "classifier", "radial", "path"])
def dask_others(kind: str) -> Any:
    """Data frames, classes, a basis and the functional core."""
    import dask.array as da
    import dask.dataframe as dd

    client()
    data = columns()
    X, y = da.from_array(data.X, chunks=(40, 30)), da.from_array(data.y, chunks=40)
    if kind.startswith("frame"):
        frame = pd.DataFrame(data.X, columns=[f"c{j}" for j in range(30)]).assign(y=data.y)
        frame["w"] = weights_of("whole", 120)
        far = dd.from_pandas(frame, npartitions=3)
        inputs, weights = far.drop(columns=["y", "w"]), far.w if "weighted" in kind else None
        model = tw.ForwardRegressor(max_terms=3).fit(inputs, far.y, sample_weight=weights)
        return model_record(model) | {"far": encode(model.predict(inputs))}
    if kind == "classifier":
        return model_record(tw.ForwardClassifier(max_terms=2).fit(X, y > 0), data.new)
    if kind == "radial":
        basis = tw.RadialBasis(width=8.0, centers=data.X[:15])
        return model_record(tw.ForwardRegressor(basis, max_terms=3).fit(X, y), data.new)
    return path_record(tw.forward_path(X, y, max_terms=3, rule="kfold"))


# -- the array API -----------------------------------------------------------------------------------------------------


def strict(x: Any) -> Any:
    """Return an array of the strict library."""
    import array_api_strict

    return array_api_strict.asarray(np.asarray(x))


def torch(x: Any) -> Any:
    """Return a tensor of PyTorch."""
    import torch as library

    return library.asarray(np.array(x))


FOREIGN = {
    "forward": tw.ForwardRegressor(),
    "forward cost orthogonal": tw.ForwardRegressor(rule="cost", penalty="orthogonal", alpha=0.1),
    "forward refit": tw.ForwardRegressor(criterion="loo", refit_alpha="loo"),
    "forward reestimate": tw.ForwardRegressor(alpha="reestimate"),
    "forward swap": tw.ForwardRegressor(refine="swap"),
    "forward kfold": tw.ForwardRegressor(rule="kfold", max_terms=5),
    "forward radial": tw.ForwardRegressor(tw.RadialBasis(width=8.0), max_terms=4),
    "ridge": tw.BasisRidge(),
    "ridge radial": tw.BasisRidge(tw.RadialBasis(width=8.0, centers=20), alpha="loo"),
    "local": tw.LocalRidge(),
    "evidence": tw.EvidenceForwardRegressor(),
}


@case("array/{library}/{model}", library={"strict": strict, "torch": torch}, model=FOREIGN)
def foreign_arrays(library: Callable[[Any], Any], model: Any) -> Any:
    """Arrays of other libraries."""
    data = columns(2)
    weights = None if model.basis is not None else library(weights_of("fractional", 120))
    return fitted(clone(model), Data(*map(library, data)), weights)


@case("array/{library}/classes/{model}", library={"strict": strict, "torch": torch},
      model={"forward": tw.ForwardClassifier(), "loo_error": tw.ForwardClassifier(rule="loo_error", max_terms=3),
             "prefilter": tw.PrefilterClassifier()})  # fmt: skip
def foreign_labels(library: Callable[[Any], Any], model: Any) -> Any:
    """Classes of arrays of other libraries."""
    data = moons()
    return fitted(clone(model), Data(*map(library, data)))


@case("array/{library}/float32/{model}", library={"strict": strict, "torch": torch},
      model={name: FOREIGN[name] for name in ("forward", "ridge", "ridge radial")})  # fmt: skip
def foreign_short_numbers(library: Callable[[Any], Any], model: Any) -> Any:
    """Numbers in float32 of other libraries."""
    return fitted(clone(model), Data(*(library(one.astype(np.float32)) for one in columns())))


@case("array/{library}/path/{rule}", library={"strict": strict, "torch": torch}, rule=RULES)
def foreign_paths(library: Callable[[Any], Any], rule: str) -> Any:
    """Paths over arrays of other libraries."""
    data = columns()
    return path_record(tw.forward_path(library(data.X), library(data.y), rule=rule, max_terms=6))


# -- other estimators --------------------------------------------------------------------------------------------------

THRESHOLD = [("eigen", "leading"), ("eigen", "significant"), ("gram_schmidt", "leading"),
             ("gram_schmidt", "significant")]  # fmt: skip


@case("threshold/{setting}/{basis}", setting={f"{method} {keep}": (method, keep) for method, keep in THRESHOLD},
      basis=BASIC)  # fmt: skip
def thresholded(setting: tuple[str, str], basis: Any) -> Any:
    """All four methods."""
    return fitted(tw.OrthogonalThresholdRegressor(basis, *setting), friedman())


@case("threshold/{options}", options={"all": {"stable": "all"}, "threshold=0": {"threshold": 0.0}, "tol": {"tol": 1.0},
                                      "no intercept": {"fit_intercept": False},
                                      "all, gram_schmidt": {"stable": "all", "method": "gram_schmidt"}})  # fmt: skip
def threshold_options(options: dict[str, Any]) -> Any:
    """Other options, two outputs."""
    return fitted(tw.OrthogonalThresholdRegressor(**options), columns(2))


@case("threshold/curve/{method}", method=["eigen", "gram_schmidt"])
def thresholded_curve(method: str) -> Any:
    """Gaussians on every sample."""
    return fitted(tw.OrthogonalThresholdRegressor(tw.RadialBasis(width=0.5), method), curve())


@case("evidence/basis={basis}", basis=BASIC)
def by_evidence(basis: Any) -> Any:
    """A penalty per orthogonal term."""
    return fitted(tw.EvidenceForwardRegressor(basis, max_terms=30), friedman())


EVIDENCE = {
    "reselect": {"reselect": True},
    "no updates": {"max_updates": 0},
    "three updates": {"max_updates": 3, "alpha": 0.1},
    "max_terms=5": {"max_terms": 5},
    "min_norm": {"min_norm": 50.0},
    "tol": {"tol": 1e-8},
    "no intercept": {"fit_intercept": False},
}


@case("evidence/{options}", options=EVIDENCE)
def evidence_options(options: dict[str, Any]) -> Any:
    """Other options, two outputs."""
    return fitted(tw.EvidenceForwardRegressor(**options), columns(2))


CLASSIFY = {
    "defaults": {},
    "loo_error": {"rule": "loo_error", "max_terms": 5},
    "loo_error swap": {"rule": "loo_error", "refine": "swap", "max_terms": 4, "criterion": None},
    "cost bic": {"rule": "cost", "criterion": "bic"},
    "kfold": {"rule": "kfold", "cv": 4},
    "radial": {"basis": make_pipeline(StandardScaler(), tw.RadialBasis(width=3.0)), "max_terms": 8},
    "anova refit": {"basis": tw.AnovaBasis(n_centers=2), "refit_alpha": "loo", "max_terms": 8},
    "include": {"include": [1], "criterion": "loo"},
}
LABELS = {"two": two_classes, "three": three_classes}


@case("classifier/{options}/{data}", options=CLASSIFY, data=LABELS)
def classified(options: dict[str, Any], data: Callable[[], Data]) -> Any:
    """Terms for two classes and for three."""
    return fitted(tw.ForwardClassifier(**options), data())


@case("classifier/weights={kind}/{data}", kind=["whole", "fractional"], data=LABELS)
def classified_with_weights(kind: str, data: Callable[[], Data]) -> Any:
    """Weights, and another size."""
    X, y, new = data()
    model = tw.ForwardClassifier().fit(X, y, sample_weight=weights_of(kind, len(y)))
    return {"model": model_record(model, new), "at": model_record(model.at(1), new, path=False)}


PREFILTER = {
    "exact": {},
    "pso": {"search": "pso", "random_state": 0, "swarm_size": 8, "swarm_steps": 10},
    "beta": {"beta": 1e-6, "max_terms": 12},
    "all terms": {"criterion": None, "max_terms": 10},
    "lambda_2": {"lambda_2": 0.5},
    "radial": {"basis": tw.RadialBasis(width=1.5)},
    "columns": {"basis": None, "fit_intercept": True},
    "tol": {"tol": 0.1, "basis": tw.RadialBasis(width=1.0)},
}


@case("prefilter/{options}/{data}", options=PREFILTER, data={"two": moons, "three": three_classes})
def prefiltered(options: dict[str, Any], data: Callable[[], Data]) -> Any:
    """Noisy labels, two classes and three."""
    return fitted(tw.PrefilterClassifier(**options), data())


@case("prefilter/weights={kind}", kind=["whole", "fractional"])
def prefiltered_with_weights(kind: str) -> Any:
    """Weights, and another size."""
    X, y, new = moons()
    model = tw.PrefilterClassifier().fit(X, y, sample_weight=weights_of(kind, len(y)))
    return {"model": model_record(model, new), "at": model_record(model.at(1), new, path=False)}


@case("online/{basis}/outputs={outputs}", outputs=[1, 2],
      basis={name: BASES[name] for name in ("columns", "gaussian median 25", "anova")})  # fmt: skip
def online(basis: Any, outputs: int) -> Any:
    """Samples and terms come and go."""
    X, y, new = friedman(outputs)
    model = tw.OnlineRidge(basis, alpha=0.1, terms=[0, 1, 2])
    record = {}
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("begin", lambda: model.partial_fit(X[:40], y[:40])),
        ("weighted", lambda: model.partial_fit(X[40:60], y[40:60], sample_weight=weights_of("fractional", 20))),
        ("one", lambda: model.partial_fit(X[60:61], y[60:61])),
        ("terms", lambda: model.add_terms([3, 4])),
        ("more", lambda: model.partial_fit(X[61:], y[61:])),
        ("fewer", lambda: model.remove_samples(X[5:25], y[5:25])),
        ("fewer terms", lambda: model.remove_terms([1])),
        ("last", lambda: model.remove_samples(X[30:31], y[30:31])),
    ]
    for name, step in steps:
        step()
        record[name] = model_record(model, new)
    return record


@case("online/{options}", options={"not kept": {"keep_samples": False}, "no intercept": {"fit_intercept": False},
                                   "no penalty": {"alpha": 0}})  # fmt: skip
def online_options(options: dict[str, Any]) -> Any:
    """Other options."""
    X, y, new = columns()
    model = tw.OnlineRidge(**options).fit(X[:50], y[:50])
    return model_record(model.partial_fit(X[50:], y[50:]), new)


SEARCHES = {
    "ridge width": (tw.BasisRidge(tw.RadialBasis(), alpha="loo"), {"basis__width": [0.1, 0.5, 1.0, 4.0]}),
    "forward": (tw.ForwardRegressor(tw.RadialBasis()), {"basis__width": [0.5, 1.0], "rule": ["loo", "cost"]}),
    "list of grids": (tw.LocalRidge(tw.RadialBasis()), [{"basis__width": [0.5, 1.0]}, {"alpha": [0.1], "tol": [1e-3]}]),
    "threshold": (tw.OrthogonalThresholdRegressor(tw.RadialBasis()), {"basis__width": [0.3, 0.6, 1.2]}),
    "some fail": (tw.BasisRidge(tw.RadialBasis()), {"basis__width": [-1.0, 1.0]}),
    "online": (tw.OnlineRidge(tw.RadialBasis(centers=9), alpha=0.1), {"basis__width": [0.5, 1.0]}),
    "pipeline": (
        make_pipeline(StandardScaler(), tw.BasisRidge(tw.RadialBasis())),
        {"basisridge__basis__width": [0.5, 1]},
    ),
}


@case("search/{search}", search=SEARCHES)
def searched(search: tuple[Any, Any]) -> Any:
    """Candidates ranked by their own criterion."""
    data = curve()
    found = tw.CriterionSearch(clone(search[0]), search[1]).fit(data.X, data.y)
    return model_record(found, data.new) | {"best": model_record(found.best_estimator_, data.new)}


@case("search/classes")
def searched_classes() -> Any:
    """Classifiers, with weights."""
    X, y, new = moons()
    search = tw.CriterionSearch(tw.ForwardClassifier(tw.RadialBasis()), {"basis__width": [0.5, 1.0, 2.0]})
    return model_record(search.fit(X, y, sample_weight=weights_of("whole", len(y))), new)


# -- the flagship ------------------------------------------------------------------------------------------------------

DICTIONARIES = ["linear", "additive", "pairs", "smooth", "relevant"]


@cache
def small_friedman() -> Data:
    """Return fewer samples and inputs, for what fits many models."""
    X, y = make_friedman1(100, n_features=5, noise=1.0, random_state=2)
    return Data(X[:80, :4], y[:80], X[80:90, :4])


@case("flagship/{size}", size=["small", "accurate", 5])
def flagship(size: Any) -> Any:
    """As it comes."""
    return fitted(tw.TermwiseRegressor(size), small_friedman())


@case("flagship/{size}/dictionary={dictionary}/target={target}", size=["small", "accurate"], dictionary=DICTIONARIES,
      target=["data", "ridge"])  # fmt: skip
def flagship_settings(size: Any, dictionary: str, target: str) -> Any:
    """Every dictionary and target."""
    return fitted(tw.TermwiseRegressor(size, dictionary=dictionary, target=target), small_friedman())


@case("flagship/dictionary={dictionary}/target=pooled", dictionary=["linear", "pairs"])
def flagship_pooled(dictionary: str) -> Any:
    """Aimed at a mean of models."""
    return fitted(tw.TermwiseRegressor("accurate", dictionary=dictionary, target="pooled"), small_friedman())


FLAGSHIP = {
    "random_state=3": {"random_state": 3, "dictionary": "additive"},
    "max_terms=3": {"max_terms": 3, "dictionary": "pairs", "target": "data"},
    "size=4, pairs, ridge": {"size": 4, "dictionary": "pairs", "target": "ridge"},
    "size=7, smooth, data": {"size": 7, "dictionary": "smooth", "target": "data"},
}


@case("flagship/{options}", options=FLAGSHIP)
def flagship_options(options: dict[str, Any]) -> Any:
    """Other options, and another size of the path."""
    data = small_friedman()
    model = tw.TermwiseRegressor(**options).fit(data.X, data.y)
    return {"model": model_record(model, data.new), "at": model_record(model.at(2), data.new, path=False)}


@case("flagship/weights={kind}", kind=["whole", "fractional"])
def flagship_weighted(kind: str) -> Any:
    """Sample weights."""
    data = small_friedman()
    return fitted(tw.TermwiseRegressor(dictionary="additive"), data, weights_of(kind, len(data.y)))


@case("flagship/two outputs/target={target}", target=["data", "ridge"])
def flagship_of_two_outputs(target: str) -> Any:
    """Several outputs share their terms."""
    X, Y, new = friedman(2)
    return fitted(tw.TermwiseRegressor(6, dictionary="pairs", target=target), Data(X[:80], Y[:80], new))


@case("flagship/{frame}/{dictionary}", frame=["pandas", "polars"], dictionary=["linear", "pairs"])
def flagship_of_a_table(frame: str, dictionary: str) -> Any:
    """Categories through the encoder."""
    X, y, new = table()
    if frame == "polars":
        import polars

        X, new = polars.from_pandas(X.drop(columns="level")), polars.from_pandas(new.drop(columns="level"))
    return fitted(tw.TermwiseRegressor(dictionary=dictionary, target="data"), Data(X, y, new))


@case("flagship/wide")
def flagship_of_many_columns() -> Any:
    """More inputs than products are made of."""
    return fitted(tw.TermwiseRegressor(dictionary="pairs", target="data"), wide())


@case("flagship/verbose")
def flagship_speaks() -> Any:
    """Lines that are printed on the way."""
    data, said = small_friedman(), io.StringIO()
    with redirect_stdout(said):
        tw.TermwiseRegressor(3, dictionary="additive", target="data", verbose=1).fit(data.X, data.y)
    return encode(said.getvalue())


@case("flagship classifier/{data}/{size}/{dictionary}", data=LABELS, size=["small", "accurate", 4],
      dictionary=["linear", "additive"])  # fmt: skip
def flagship_classifier(data: Callable[[], Data], size: Any, dictionary: str) -> Any:
    """Two classes and three."""
    X, y, new = data()
    return fitted(tw.TermwiseClassifier(size, dictionary=dictionary), Data(X[:90], y[:90], new))


@case("flagship classifier/two inputs/{dictionary}", dictionary=["auto", "pairs", "smooth", "relevant"])
def flagship_classifier_of_moons(dictionary: str) -> Any:
    """Two inputs, every dictionary."""
    X, y, new = moons()
    return fitted(tw.TermwiseClassifier(dictionary=dictionary), Data(X[:80], y[:80], new))


@case("flagship classifier/table")
def flagship_classifier_of_a_table() -> Any:
    """Categories, and words for labels."""
    X, y, new = table()
    return fitted(tw.TermwiseClassifier(5, dictionary="pairs"), Data(X, np.where(y > 1, "high", "low"), new))


@case("flagship classifier/auto/{data}/{size}", data=LABELS, size=["small", "accurate"])
def flagship_classifier_as_it_comes(data: Callable[[], Data], size: str) -> Any:
    """Every dictionary tried, the mean of several too where the model may be large."""
    X, y, new = data()
    X, new = (one.iloc[:, :4] if hasattr(one, "iloc") else one for one in (X, new))
    return fitted(tw.TermwiseClassifier(size), Data(X[:70], y[:70], new))


@case("flagship/diabetes/{size}", size=["small", "accurate"])
def flagship_of_a_frame(size: str) -> Any:
    """A data frame, as it comes."""
    X, y, new = diabetes()
    return fitted(tw.TermwiseRegressor(size), Data(X[:120], y[:120], new))


# -- what only many samples or candidates set off ----------------------------------------------------------------------


@cache
def many(n: int, d: int) -> Data:
    """Return many samples of many inputs, few of which matter."""
    rng = np.random.default_rng(n + d)
    X = rng.uniform(-1, 1, size=(n + 10, d))
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3] + 0.3 * rng.normal(size=n + 10)
    return Data(X[:n], y[:n], X[n:])


MANY = {
    "forward 1500 x 400": lambda: (tw.ForwardRegressor(), many(1500, 400)),
    "forward cost 1500 x 400": lambda: (
        tw.ForwardRegressor(rule="cost", criterion="loo", max_terms=40), many(1500, 400)),
    "forward loo 300 x 3000": lambda: (tw.ForwardRegressor(criterion="loo", max_terms=25), many(300, 3000)),
    "forward kfold 300 x 1200": lambda: (tw.ForwardRegressor(rule="kfold", max_terms=6), many(300, 1200)),
    "forward swap 300 x 1200": lambda: (tw.ForwardRegressor(refine="swap", max_terms=10), many(300, 1200)),
    "forward sequential 100 x 2000": lambda: (tw.ForwardRegressor(criterion="tcr_sequential"), many(100, 2000)),
    "forward gaussians 1200": lambda: (
        tw.ForwardRegressor(tw.RadialBasis(width="median"), max_terms=15), many(1200, 4)),
    "forward streamed 1200": lambda: (tw.ForwardRegressor(tw.RadialBasis(store=False), max_terms=6), many(1200, 4)),
    "forward spread 1500": lambda: (tw.ForwardRegressor(tw.SmoothBasis(centers=60), max_terms=15), many(1500, 6)),
    "forward relevance 600": lambda: (
        tw.ForwardRegressor(tw.SmoothBasis(centers=60, relevance="auto"), max_terms=15), many(600, 8)),
    "forward products 400 x 30": lambda: (tw.ForwardRegressor(tw.AnovaBasis(), max_terms=10), many(400, 30)),
    "ridge 1500 x 60": lambda: (tw.BasisRidge(alpha="loo"), many(1500, 60)),
    "ridge 200 x 1500": lambda: (tw.BasisRidge(), many(200, 1500)),
    "local 1500 x 40": lambda: (tw.LocalRidge(), many(1500, 40)),
    "evidence 600 x 100": lambda: (tw.EvidenceForwardRegressor(), many(600, 100)),
    "flagship pairs 1300": lambda: (tw.TermwiseRegressor(dictionary="pairs"), many(1300, 5)),
    "flagship additive 4200": lambda: (tw.TermwiseRegressor(dictionary="additive"), many(4200, 4)),
    "flagship 60 x 150": lambda: (tw.TermwiseRegressor(), many(60, 150)),
}  # fmt: skip


@case("many/{name}", name=MANY)
def of_many(name: Callable[[], tuple[Any, Data]]) -> Any:
    """Other ways that larger problems take."""
    return fitted(*name())


@case("many/prefilter 1200")
def prefiltered_of_many() -> Any:
    """Centres spread over more than a thousand samples."""
    X, y = make_moons(1210, noise=0.35, random_state=1)
    return fitted(tw.PrefilterClassifier(), Data(X[:1200], y[:1200], X[1200:]))


@case("many/path of a file")
def path_of_many_rows() -> Any:
    """A file of several blocks."""
    data = many(1500, 400)
    np.save(folder() / "many.npy", data.X)
    with tw.memory_budget(1e6):
        return path_record(tw.forward_path(tw.open_rows(folder() / "many.npy"), data.y, max_terms=8))


# -- callbacks ---------------------------------------------------------------------------------------------------------


class StopAfter:
    """A callback of scikit-learn's kind that ends a fit after some tasks, and counts them."""

    def __init__(self, tasks: int) -> None:
        self.tasks, self.begun, self.ended = tasks, 0, 0
        self.names: set[str] = set()

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """End."""

    def on_fit_task_begin(self, estimator: Any, context: Any, **_: Any) -> None:
        """Count."""
        self.begun += 1
        self.names.add(context.task_name)

    def on_fit_task_end(self, estimator: Any, context: Any, **_: Any) -> bool:
        """Count, and say whether it is enough."""
        self.ended += 1
        return self.ended >= self.tasks


@case("callback/{model}/{tasks}", tasks=[3, 1000],
      model={"forward": tw.ForwardRegressor(), "evidence": tw.EvidenceForwardRegressor(tol=0),
             "classifier": tw.ForwardClassifier(), "prefilter": tw.PrefilterClassifier(tw.RadialBasis(width=1.0)),
             "flagship": tw.TermwiseRegressor(5, dictionary="linear", target="data")})  # fmt: skip
def called_back(model: Any, tasks: int) -> Any:
    """How often a callback hears of a fit, and how it ends one."""
    data = moons() if hasattr(model, "decision_function") else small_friedman()
    callback = StopAfter(tasks)
    one = clone(model).set_callbacks(callback).fit(data.X, data.y)
    return model_record(one, data.new) | {
        "begun": callback.begun,
        "ended": callback.ended,
        "tasks": sorted(callback.names),
    }


# -- models to keep and to send ----------------------------------------------------------------------------------------


@cache
def frozen_models() -> dict[str, tuple[Callable[[], Any], Callable[[], Data]]]:
    """Return models of all kinds that can be exported, and their data."""
    plain = tw.ForwardRegressor(max_terms=6)
    union = make_pipeline(TableEncoder(), tw.UnionBasis([tw.AnovaBasis(2), tw.RadialBasis(width=6.0)]))
    return {
        "columns": (plain, diabetes),
        "two outputs": (plain, lambda: columns(2)),
        "gaussian": (clone(plain).set_params(basis=BASES["gaussian"]), friedman),
        "multiquadric": (tw.BasisRidge(BASES["multiquadric metric"]), friedman),
        "inverse multiquadric": (tw.LocalRidge(BASES["inverse multiquadric"]), friedman),
        "cauchy": (tw.BasisRidge(BASES["cauchy"]), friedman),
        "smooth": (clone(plain).set_params(basis=BASES["smooth widths"]), friedman),
        "relevance": (clone(plain).set_params(basis=BASES["smooth relevance"]), friedman),
        "anova": (clone(plain).set_params(basis=BASES["anova"]), diabetes),
        "fourier": (tw.BasisRidge(tw.FourierBasis(2)), friedman),
        "logistic": (tw.BasisRidge(tw.LogisticBasis(9)), friedman),
        "union": (clone(plain).set_params(basis=BASES["union"]), friedman),
        "lag": (tw.BasisRidge(tw.LagBasis([1, 2], input_lags=[0, 1])), series),
        "pipeline": (make_pipeline(StandardScaler(), clone(plain)), diabetes),
        "polynomials": (clone(plain).set_params(basis=PolynomialFeatures(2)), friedman),
        "feature union": (tw.BasisRidge(BASES["feature union"]), friedman),
        "encoded": (tw.ForwardRegressor(union, max_terms=8, criterion=None), table),
        "flagship": (tw.TermwiseRegressor(6, dictionary="pairs", target="data"), table),
        "flagship ridge": (tw.TermwiseRegressor(6, dictionary="additive", target="ridge"), friedman),
        "flagship classifier": (tw.TermwiseClassifier(5, dictionary="additive"), three_classes),
        "classifier": (tw.ForwardClassifier(max_terms=4), two_classes),
        "prefilter": (tw.PrefilterClassifier(), moons),
        "threshold": (tw.OrthogonalThresholdRegressor(method="gram_schmidt"), columns),
        "evidence": (tw.EvidenceForwardRegressor(max_terms=6), columns),
        "online": (tw.OnlineRidge(alpha=0.1), friedman),
        "search": (tw.CriterionSearch(tw.BasisRidge(tw.RadialBasis(centers=9)), {"basis__width": [0.5, 2]}), friedman),
    }


def run_onnx(path: Path, data: Any) -> dict[str, Any]:
    """Run a graph, one input per column where it asks for those."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    asked, kinds = session.get_inputs(), {"tensor(string)": object, "tensor(int64)": np.int64, "tensor(bool)": bool}
    short = {"tensor(float)": np.float32}
    if len(asked) == 1:
        feed = {asked[0].name: np.asarray(data, dtype=short.get(asked[0].type, np.float64))}
    else:
        dtypes = {**kinds, **short}
        feed = {one.name: np.asarray(data[[one.name]]).astype(dtypes.get(one.type, np.float64)) for one in asked}
    names = [one.name for one in session.get_outputs()]
    return {name: encode(values) for name, values in zip(names, session.run(None, feed), strict=True)}


def graph_of(path: Path) -> Any:
    """Return the operations of a graph, and the names of what goes in and comes out."""
    import onnx

    graph = onnx.load(str(path)).graph
    return {"operations": [node.op_type for node in graph.node], "inputs": [one.name for one in graph.input],
            "outputs": [one.name for one in graph.output]}  # fmt: skip


@case("export/{name}", name=list(frozen_models()))
def exported(name: str) -> Any:
    """A model as a file, as Python, C and ONNX."""
    model, data = frozen_models()[name]
    X, y, new = data()
    predictor = tw.Predictor.from_estimator(clone(model).fit(X, y))
    path = folder() / f"model_{name.replace(' ', '_')}"
    record: dict[str, Any] = {key: outcome(getattr, predictor, key) for key in (
        "task", "input_names", "used_inputs", "term_names", "n_terms", "weights", "intercept", "classes",
    )}  # fmt: skip
    predictor.save(path.with_suffix(".json"))
    loaded = tw.load_predictor(path.with_suffix(".json"))
    record["file"] = encode(json.loads(path.with_suffix(".json").read_text()))
    record["to_dict"] = record["file"] == encode(predictor.to_dict())
    record |= {"repr": repr(loaded), "inputs": encode(loaded.inputs), "predict": outcome(loaded.predict, new)}
    for method in ("decision_function", "predict_proba"):
        if hasattr(loaded, method):
            record[method] = outcome(getattr(loaded, method), new)
    record["narrow"] = outcome(lambda: [predictor.narrow().input_names, predictor.narrow().n_terms])
    variants: list[tuple[str, str, dict[str, Any]]] = [
        ("python", ".py", {}), ("c", ".c", {}), ("c float32", ".c", {"dtype": "float32", "name": "plant"}),
    ]  # fmt: skip
    for title, suffix, options in variants:
        written = outcome(predictor.export, path.with_suffix(suffix), **options)
        record[title] = written or source(path.with_suffix(suffix).read_text())
    for title, options in (("onnx", {}), ("onnx float32", {"dtype": "float32"})):
        written = outcome(predictor.export, path.with_suffix(".onnx"), **options)
        record[title] = written or outcome(graph_of, path.with_suffix(".onnx"))
        record[f"{title} runs"] = written or outcome(run_onnx, path.with_suffix(".onnx"), new)
    return record


@case("export/fill and facts")
def filled() -> Any:
    """What stands in for missing values, and facts that a file carries."""
    X, y, new = table()
    predictor = tw.TermwiseRegressor(6, dictionary="linear", target="data").fit(X, y).predictor_
    predictor = predictor.with_fill({"speed": 0.25, "kind": "u"}).with_facts({"note": ["measured", 3, None]})
    gaps = new.copy()
    gaps.iloc[::2, 0] = np.nan
    predictor.export(folder() / "filled.py")
    return {
        "predict": outcome(predictor.predict, gaps),
        "document": encode(predictor.to_dict()),
        "python": source((folder() / "filled.py").read_text()),
    }


@case(
    "pickle/{model}",
    model={
        **ESTIMATORS,
        "classifier": tw.ForwardClassifier(),
        "flagship": tw.TermwiseRegressor(3, dictionary="additive"),
    },
)
def pickled(model: Any) -> Any:
    """A model that has been pickled."""
    X, y, new = friedman()
    y = y > y.mean() if isinstance(model, tw.ForwardClassifier) else y
    return predictions(pickle.loads(pickle.dumps(clone(model).fit(X[:80], y[:80]))), new)


# -- facts, reports and displays ---------------------------------------------------------------------------------------

TOLD = {
    "forward": lambda: (tw.ForwardRegressor(), diabetes()),
    "forward two outputs": lambda: (tw.ForwardRegressor(), columns(2)),
    "ridge": lambda: (tw.BasisRidge(), columns()),
    "ridge curve": lambda: (tw.BasisRidge(tw.RadialBasis(width=0.5), alpha="loo"), curve()),
    "local curve": lambda: (tw.LocalRidge(tw.RadialBasis(width=0.5)), curve()),
    "anova": lambda: (tw.ForwardRegressor(tw.AnovaBasis(), max_terms=6), friedman()),
    "search": lambda: (tw.CriterionSearch(tw.BasisRidge(tw.RadialBasis()), {"basis__width": [0.3, 0.6, 1.2]}), curve()),
    "lag": lambda: (tw.BasisRidge(tw.LagBasis(2)), series()),
    "classifier": lambda: (tw.ForwardClassifier(), three_classes()),
    "moons": lambda: (tw.ForwardClassifier(tw.RadialBasis(width=1.0), max_terms=6), moons()),
    "flagship": lambda: (tw.TermwiseRegressor(6, dictionary="pairs"), table()),
    "flagship classifier": lambda: (tw.TermwiseClassifier(5, dictionary="additive"), three_classes()),
    "evidence": lambda: (tw.EvidenceForwardRegressor(max_terms=6), columns()),
    "prefilter": lambda: (tw.PrefilterClassifier(), moons()),
    "threshold": lambda: (tw.OrthogonalThresholdRegressor(), columns()),
}


def page_record(page: str) -> dict[str, Any]:
    """Store a page: what it says, its length, and a digest without times and versions."""
    told = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    bare = re.sub(r"\b\d+\.\d+\.\d+\S*", "VERSION", clean(page))
    return {
        "facts": encode(json.loads(told.group(1))) if told else None,
        "sha256": hashlib.sha256(bare.encode()).hexdigest(),
        "length": len(bare),
    }


@case("facts/{name}", name=TOLD)
def told(name: Callable[[], tuple[Any, Data]]) -> Any:
    """What is known of a model, the page about it, and how it compares."""
    model, data = name()
    model = clone(model).fit(data.X, data.y)
    truth = model.predict(data.new)
    truth = (
        np.roll(truth, 1, axis=0)
        if hasattr(model, "classes_")
        else truth + np.cos(np.arange(truth.size)).reshape(truth.shape)
    )
    return {
        "facts": outcome(tw.diagnostics.facts, model, data.X, data.y),
        "facts without samples": outcome(tw.diagnostics.facts, model),
        "held out": outcome(tw.diagnostics.held_out_comparison, model, data.X, data.y, data.new, truth),
        "page": outcome(lambda: page_record(tw.report.render(model, X=data.X, y=data.y, title="A model"))),
    }


def display_data(display: Any) -> Any:
    """Return the public data of a display, not what was drawn."""
    values = {name: value for name, value in vars(display).items() if not name.startswith("_") and name[-1] != "_"}
    values["effects"] = [vars(one) for one in values.get("effects", [])]
    return values


@case("display/{name}", name=TOLD)
def displayed(name: Callable[[], tuple[Any, Data]]) -> Any:
    """The numbers that are drawn."""
    import matplotlib.pyplot as plt

    model, (X, y, _) = name()
    model = clone(model).fit(X, y)
    output = 0 if np.ndim(model.predict(X)) == 2 or len(getattr(model, "classes_", ())) > 2 else None
    record = {
        "path": outcome(lambda: display_data(tw.SelectionPathDisplay.from_estimator(model))),
        "criterion": outcome(lambda: display_data(tw.CriterionDisplay.from_estimator(model, X, y))),
        "fit": outcome(lambda: display_data(tw.FitDisplay.from_estimator(model, X, y, grid=15, output=output))),
        "shape": outcome(lambda: display_data(tw.ShapeDisplay.from_estimator(model, X, grid=12, output=output))),
        "shape without samples": outcome(lambda: display_data(tw.ShapeDisplay.from_estimator(model, grid=12))),
    }
    plt.close("all")
    return record


@case("datasets/{name}", name=["make_hermite", "make_sine", "make_logistic"])
def generated(name: str) -> Any:
    """Synthetic problems."""
    return encode(getattr(tw.datasets, name)(n_samples=12, random_state=4))


@case("public names")
def public_names() -> Any:
    """What there is, and with which parameters."""
    record: dict[str, Any] = {"names": sorted(tw.__all__), "basis": sorted(tw.basis.__all__)}
    for name in tw.__all__:
        one = getattr(tw, name)
        if hasattr(one, "get_params") and name not in ("CriterionSearch", "UnionBasis"):
            record[name] = encode(one().get_params()) | {"repr": clean(repr(one()))}
    return record


# -- errors ------------------------------------------------------------------------------------------------------------

FEW = np.random.default_rng(0).normal(size=(12, 3))
TARGET = FEW[:, 0] + 1.0
HOLE = np.where(FEW > 1.0, np.nan, FEW)


def few_frame() -> Any:
    """Return a small data frame."""
    return pd.DataFrame(FEW, columns=list("abc"))


def few_online(**options: Any) -> Any:
    """Return a small online model."""
    return tw.OnlineRidge(**{"terms": [0, 1], **options}).fit(FEW, TARGET)


ERRORS: dict[str, Callable[[], Any]] = {
    "alpha negative": lambda: tw.BasisRidge(alpha=-1).fit(FEW, TARGET),
    "alpha list": lambda: tw.BasisRidge(alpha=[1.0]).fit(FEW, TARGET),
    "alpha word": lambda: tw.BasisRidge(alpha="aic").fit(FEW, TARGET),
    "alpha online": lambda: tw.OnlineRidge(alpha="gcv").fit(FEW, TARGET),
    "alpha forward": lambda: tw.ForwardRegressor(alpha="gcv").fit(FEW, TARGET),
    "alpha evidence": lambda: tw.EvidenceForwardRegressor(alpha=0).fit(FEW, TARGET),
    "alpha reestimate": lambda: tw.reestimate_alpha(FEW, TARGET, 0),
    "reestimate loo": lambda: tw.reestimate_alpha(FEW, TARGET, criterion="loo"),
    "sweeps": lambda: tw.LocalRidge(max_sweeps=0).fit(FEW, TARGET),
    "subset outside": lambda: tw.LocalRidge(subset=[3]).fit(FEW, TARGET),
    "subset twice": lambda: tw.LocalRidge(subset=[1, 1]).fit(FEW, TARGET),
    "coverage": lambda: tw.BasisRidge().fit(FEW, TARGET).predict_interval(FEW, coverage=1),
    "intercept": lambda: tw.BasisRidge(fit_intercept="yes").fit(FEW, TARGET),
    "no target": lambda: tw.BasisRidge().fit(FEW, None),
    "target of three axes": lambda: tw.BasisRidge().fit(FEW, np.zeros((12, 1, 1))),
    "missing values": lambda: tw.ForwardRegressor().fit(HOLE, TARGET),
    "missing values, flagship": lambda: tw.TermwiseRegressor().fit(pd.DataFrame(HOLE, columns=list("abc")), TARGET),
    "missing values, new": lambda: tw.ForwardRegressor().fit(FEW, TARGET).predict(HOLE),
    "infinite target": lambda: tw.ForwardRegressor().fit(FEW, TARGET * np.inf),
    "empty": lambda: tw.BasisRidge().fit(np.empty((0, 3)), []),
    "one sample": lambda: tw.ForwardRegressor().fit(FEW[:1], TARGET[:1]),
    "lengths": lambda: tw.ForwardRegressor().fit(FEW, TARGET[:5]),
    "words": lambda: tw.BasisRidge().fit([["a"]] * 12, TARGET),
    "complex": lambda: tw.BasisRidge().fit(FEW + 1j, TARGET),
    "columns of new": lambda: tw.ForwardRegressor().fit(FEW, TARGET).predict(FEW[:, :2]),
    "names of new": lambda: tw.ForwardRegressor().fit(few_frame(), TARGET).predict(few_frame()[["b", "a", "c"]]),
    "vector": lambda: tw.BasisRidge(tw.RadialBasis()).fit(TARGET, TARGET),
    "not fitted": lambda: tw.ForwardRegressor().predict(FEW),
    "not fitted, flagship": lambda: tw.TermwiseRegressor().predict(FEW),
    "not fitted, attribute": lambda: tw.LocalRidge().weights_cov_,
    "weights length": lambda: tw.BasisRidge().fit(FEW, TARGET, sample_weight=[1, 2]),
    "weights negative": lambda: tw.ForwardRegressor().fit(FEW, TARGET, sample_weight=-np.ones(12)),
    "weights zero": lambda: tw.ForwardClassifier().fit(FEW, TARGET > 1, sample_weight=np.zeros(12)),
    "weights too small": lambda: tw.BasisRidge().fit(FEW, TARGET, sample_weight=np.full(12, 0.3)),
    "basis word": lambda: tw.BasisRidge("rbf").fit(FEW, TARGET),
    "basis model": lambda: tw.LocalRidge(tw.BasisRidge()).fit(FEW, TARGET),
    "summary": lambda: tw.BasisRidge().fit(FEW, TARGET).summary(0),
    "mask": lambda: tw.RadialBasis().fit(FEW).take([True, False]),
    "take outside": lambda: tw.RadialBasis().fit(FEW).take([12]),
    "kernel": lambda: tw.RadialBasis("gauss").fit(FEW),
    "width": lambda: tw.RadialBasis(width=0).fit(FEW),
    "width shape": lambda: tw.RadialBasis(width=[1, 2]).fit(FEW),
    "centers": lambda: tw.RadialBasis(centers=13).fit(FEW),
    "store": lambda: tw.RadialBasis(store="no").fit(FEW),
    "sparse for a basis": lambda: tw.RadialBasis().fit(sp.csr_array(FEW)),
    "smooth widths": lambda: tw.SmoothBasis([-1.0]).fit(FEW),
    "smooth relevance": lambda: tw.SmoothBasis(relevance="auto").fit(FEW),
    "anova order": lambda: tw.AnovaBasis(order=3).fit(FEW),
    "constant inputs": lambda: tw.AnovaBasis().fit(np.ones((12, 2))),
    "harmonics": lambda: tw.FourierBasis(0).fit(FEW),
    "units": lambda: tw.LogisticBasis(0).fit(FEW),
    "lags": lambda: tw.LagBasis(0).fit(FEW),
    "lag output": lambda: tw.LagBasis(output="z").fit(few_frame()),
    "short series": lambda: tw.LagBasis(12).fit(FEW),
    "union of lags": lambda: tw.UnionBasis([tw.LagBasis()]).fit(FEW),
    "union of words": lambda: tw.UnionBasis("anova").fit(FEW),
    "encoder text": lambda: TableEncoder().fit(pd.DataFrame({"a": ["u", "v"]})),
    "names number": lambda: tw.RadialBasis().fit(FEW).get_feature_names_out(["a"]),
    "unknown sample": lambda: few_online().remove_samples(FEW[:1] + 1, TARGET[:1]),
    "all samples": lambda: few_online().remove_samples(FEW, TARGET),
    "outputs": lambda: few_online().partial_fit(FEW, np.column_stack([TARGET, TARGET])),
    "samples not kept": lambda: few_online(keep_samples=False).remove_samples(FEW[:1], TARGET[:1]),
    "term in": lambda: few_online().add_terms([1, 2]),
    "term not in": lambda: few_online().remove_terms([2]),
    "rule": lambda: tw.forward_path(FEW, TARGET, rule="aic"),
    "rule of labels": lambda: tw.ForwardRegressor(rule="loo_error").fit(FEW, TARGET),
    "criterion": lambda: tw.ForwardRegressor(criterion="aic").fit(FEW, TARGET),
    "penalty": lambda: tw.ForwardRegressor(penalty="l1").fit(FEW, TARGET),
    "penalty reestimated": lambda: tw.forward_path(FEW, TARGET, alpha="reestimate", penalty="orthogonal"),
    "refine": lambda: tw.ForwardRegressor(refine="floating").fit(FEW, TARGET),
    "refine reestimated": lambda: tw.ForwardRegressor(refine="swap", alpha="reestimate").fit(FEW, TARGET),
    "refit_alpha": lambda: tw.ForwardRegressor(refit_alpha="bic").fit(FEW, TARGET),
    "max_terms": lambda: tw.ForwardRegressor(max_terms=0).fit(FEW, TARGET),
    "patience": lambda: tw.ForwardRegressor(patience=0).fit(FEW, TARGET),
    "include": lambda: tw.ForwardRegressor(include=[3]).fit(FEW, TARGET),
    "precompute": lambda: tw.ForwardRegressor(precompute="yes").fit(FEW, TARGET),
    "folds": lambda: tw.ForwardRegressor(rule="kfold", cv=1).fit(FEW, TARGET),
    "folds overlap": lambda: tw.forward_path(FEW, TARGET, rule="kfold", cv=[(range(6), range(6))]),
    "verbose": lambda: tw.ForwardRegressor(verbose=-1).fit(FEW, TARGET),
    "at": lambda: tw.ForwardRegressor().fit(FEW, TARGET).at(9),
    "coef of a path": lambda: tw.forward_path(FEW, TARGET).coef(4),
    "tcr_effective": lambda: tw.forward_path(FEW, TARGET).choose("tcr_effective"),
    "one class": lambda: tw.ForwardClassifier().fit(FEW, np.ones(12)),
    "one class, flagship": lambda: tw.TermwiseClassifier().fit(FEW, np.ones(12)),
    "size": lambda: tw.TermwiseRegressor("tiny").fit(FEW, TARGET),
    "size beyond max_terms": lambda: tw.TermwiseRegressor(9, max_terms=5).fit(FEW, TARGET),
    "dictionary": lambda: tw.TermwiseRegressor(dictionary="splines").fit(FEW, TARGET),
    "target": lambda: tw.TermwiseRegressor(target="mean").fit(FEW, TARGET),
    "method": lambda: tw.OrthogonalThresholdRegressor(method="qr").fit(FEW, TARGET),
    "keep": lambda: tw.OrthogonalThresholdRegressor(keep="some").fit(FEW, TARGET),
    "evidence updates": lambda: tw.EvidenceForwardRegressor(max_updates=-1).fit(FEW, TARGET),
    "search": lambda: tw.PrefilterClassifier(search="grid").fit(FEW, TARGET > 1),
    "swarm": lambda: tw.PrefilterClassifier(search="pso", swarm_size=0).fit(FEW, TARGET > 1),
    "grid empty": lambda: tw.CriterionSearch(tw.BasisRidge(), {}).fit(FEW, TARGET),
    "grid name": lambda: tw.CriterionSearch(tw.BasisRidge(), {"gamma": [1]}).fit(FEW, TARGET),
    "grid fails": lambda: tw.CriterionSearch(tw.BasisRidge(), {"alpha": [-1, -2]}).fit(FEW, TARGET),
    "search of a class": lambda: tw.CriterionSearch(tw.BasisRidge, {"alpha": [1]}).fit(FEW, TARGET),
    "data set": lambda: tw.datasets.load("iris"),
    "data set folder": lambda: tw.datasets.load("heart"),
    "n_samples": lambda: tw.datasets.make_sine(0),
    "budget": lambda: tw.memory_budget(-1).__enter__(),
    "file ending": lambda: tw.open_rows(folder() / "rows.txt"),
    "file not there": lambda: tw.open_rows(folder() / "nowhere.npy"),
    "model not there": lambda: tw.load_predictor(folder() / "nowhere.json"),
    "model of words": lambda: tw.load_predictor(written("words.json", '{"format": "other"}')),
    "model not JSON": lambda: tw.load_predictor(written("broken.json", "{")),
    "language": lambda: tw.BasisRidge().fit(FEW, TARGET).predictor_.export(folder() / "model.f90"),
    "language option": lambda: tw.BasisRidge().fit(FEW, TARGET).predictor_.export(folder() / "m.py", dtype="float32"),
    "no series": lambda: tw.BasisRidge().fit(FEW, TARGET).predictor_.free_run(FEW),
    "frozen columns": lambda: tw.BasisRidge().fit(few_frame(), TARGET).predictor_.predict(few_frame()[["a"]]),
    "frozen fill": lambda: tw.BasisRidge().fit(few_frame(), TARGET).predictor_.with_fill({"z": 1.0}),
    "not frozen": lambda: tw.Predictor.from_estimator(StandardScaler()),
    "facts": lambda: tw.diagnostics.facts(StandardScaler().fit(FEW)),
    "facts of other samples": lambda: tw.diagnostics.facts(tw.BasisRidge().fit(FEW, TARGET), FEW[:5], TARGET[:5]),
    "shape of gaussians": lambda: tw.ShapeDisplay.from_estimator(tw.BasisRidge(tw.RadialBasis()).fit(FEW, TARGET), FEW),
    "path of ridge": lambda: tw.SelectionPathDisplay.from_estimator(tw.BasisRidge().fit(FEW, TARGET)),
    "name": lambda: tw.nothing,
}  # fmt: skip


def written(name: str, text: str) -> Path:
    """Write a text to a file."""
    path = folder() / name
    path.write_text(text)
    return path


@case("error/{bad}", bad=ERRORS)
def errors(bad: Callable[[], Any]) -> Any:
    """Type and message of what bad inputs raise."""
    return outcome(bad)


# -- the command line --------------------------------------------------------------------------------------------------


def termwise(*arguments: str, stdin: str | None = None) -> dict[str, Any]:
    """Run a command in the temporary folder and store what it says."""
    done = subprocess.run([sys.executable, "-m", "termwise", *arguments], cwd=folder(), input=stdin,
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    record: dict[str, Any] = {"exit code": done.returncode, "stderr": clean(done.stderr)}
    if "--json" in arguments and done.stdout.strip():
        return record | {"json": encode(json.loads(done.stdout))}
    return record | {"stdout": clean(done.stdout)}


@cache
def tables() -> None:
    """Write the tables that commands read: numbers, a category, classes, gaps, and a series."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=120), "b": rng.normal(size=120)})
    frame["kind"] = rng.choice(["red", "blue"], 120)
    frame["y"] = 2 * frame.a - frame.b * (frame.kind == "red") + 0.1 * rng.normal(size=120)
    frame["label"] = np.where(frame.y > 0, "high", "low")
    frame.round(4).to_csv(folder() / "table.csv", index=False)
    frame.round(4).drop(columns=["y", "label"]).head(15).to_csv(folder() / "new.csv", index=False)
    gaps = frame.round(4).drop(columns="label")
    gaps.loc[::9, "a"] = np.nan
    gaps.loc[::11, "kind"] = None
    gaps.to_csv(folder() / "gaps.csv", index=False)
    t = np.arange(120)
    level = np.sin(0.3 * t) + 0.01 * rng.normal(size=120)
    pd.DataFrame({"day": t, "level": level}).round(5).to_csv(folder() / "series.csv", index=False)


def model_file(name: str) -> Any:
    """Return the content of a model file."""
    return encode(json.loads((folder() / name).read_text()))


@case("cli/help/{command}", command=["", "fit", "predict", "report", "export", "demo", "bench", "reproduce"])
def cli_help(command: str) -> Any:
    """What there is to know of a command."""
    return termwise(*command.split(), "--help")


FITS = {
    "numbers": "table.csv -t y --drop label --method forward",
    "classes": "table.csv -t label --drop y --basis none",
    "gaps": "gaps.csv -t y --method forward --impute",
    "series": "series.csv -t level --time day --basis lag --lags 3 --method ridge",
    "auto": "table.csv -t y --drop label --basis anova --size 3",
    "local": "table.csv -t y --drop label --method local-ridge --basis rbf --no-hold-out",
    "threshold": "table.csv -t y --drop label --method threshold --basis fourier --no-hold-out",
    "evidence": "table.csv -t y --drop label --method evidence --basis smooth --size 4 --no-hold-out",
    "prefilter": "table.csv -t label --drop y --method prefilter --seed 3",
}


@case("cli/fit/{name}", name=list(FITS))
def cli_fit(name: str) -> Any:
    """A model, its file, its page, its predictions and its exports."""
    tables()
    model, page = f"cli_{name}.json", f"cli_{name}.html"
    record: dict[str, Any] = {"fit": termwise("fit", *FITS[name].split(), "-o", model, "--json", "--force")}
    record["model"] = outcome(model_file, model)
    new = {"gaps": "gaps.csv", "series": "series.csv"}.get(name, "new.csv")
    record["predict"] = termwise("predict", model, new, "--json")
    if name in ("numbers", "classes", "series"):
        record["predict as text"] = termwise("predict", model, new)
        record["report"] = termwise("report", model, "-o", page, "--json")
        record["page"] = outcome(lambda: page_record((folder() / page).read_text()))
        for suffix in (".py", ".c"):
            record[f"export {suffix}"] = termwise("export", model, "-o", f"cli_{name}{suffix}", "--json")
            record[f"exported {suffix}"] = source((folder() / f"cli_{name}{suffix}").read_text())
    return record


@case("cli/fit as text/{name}", name=["numbers", "classes"])
def cli_speaks(name: str) -> Any:
    """What a person sees."""
    tables()
    return termwise("fit", *FITS[name].split(), "--report", f"said_{name}.html") | {
        "page": outcome(lambda: page_record((folder() / f"said_{name}.html").read_text()))
    }


@case("cli/predict/{options}", options=["cli_p.json new.csv -o p.csv", "cli_p.json table.csv --json",
                                        "cli_p.json new.csv --proba", "cli_p.json -"])  # fmt: skip
def cli_predict(options: str) -> Any:
    """Ways to predict."""
    tables()
    if not (folder() / "cli_p.json").exists():
        target = "-t label --drop y --basis none --size 2"
        termwise("fit", "table.csv", *target.split(), "-o", "cli_p.json", "--quiet", "--no-hold-out")
    stdin = (folder() / "new.csv").read_text() if options.endswith("-") else None
    record = termwise("predict", *options.split(), stdin=stdin)
    return record | {"file": outcome(lambda: (folder() / "p.csv").read_text())} if "p.csv" in options else record


@case("cli/error/{options}", options=[
    "", "unknown", "fit", "fit nowhere.csv -t y", "fit table.csv -t z", "fit gaps.csv -t y --method forward",
    "fit table.csv -t y --method magic", "fit table.csv -t y --drop label --hold-out 1.5",
    "fit table.csv -t label --drop y --method ridge", "fit table.csv -t y --drop label --size many",
    "predict nowhere.json new.csv", "predict table.csv new.csv", "report nowhere.json", "export nowhere.json -o m.c",
    "export nowhere.json -o m.f90", "bench nothing", "reproduce nothing", "--version",
])  # fmt: skip
def cli_errors(options: str) -> Any:
    """Exit codes and messages."""
    tables()
    return termwise(*options.split())


# -- storing and comparing ---------------------------------------------------------------------------------------------


def run_case(function: Callable[[], Any]) -> dict[str, Any]:
    """Run one case; an exception is a result, too, and so are warnings."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        result = outcome(function)
    said = sorted({f"{one.category.__name__}: {clean(str(one.message))}" for one in heard
                   if not issubclass(one.category, DeprecationWarning | FutureWarning | ResourceWarning)})  # fmt: skip
    return {"result": result, "warnings": said}


def store(path: Path, pattern: str) -> None:
    """Run all cases whose name matches, and write down what came out."""
    chosen = {name: function for name, function in CASES.items() if fnmatch.fnmatch(name, f"*{pattern}*")}
    record, slow, start = {}, [], time.perf_counter()
    print(f"{len(chosen)} cases of {tw.__file__}", file=sys.stderr)
    for number, (name, function) in enumerate(chosen.items(), 1):
        began = time.perf_counter()
        record[name] = run_case(function)
        slow.append((time.perf_counter() - began, name))
        if number % 20 == 0 or number == len(chosen):
            spent = time.perf_counter() - start
            print(f"{number} of {len(chosen)} cases, {spent:.0f} s, last {name}", file=sys.stderr, flush=True)
    path.write_text(json.dumps(record, indent=0))
    raised = [name for name, one in record.items() if isinstance(one["result"], dict) and "raises" in one["result"]]
    print(f"{len(record)} cases in {path}, {len(raised)} of them exceptions", file=sys.stderr)
    for seconds, name in sorted(slow, reverse=True)[:5]:
        print(f"slowest: {seconds:.1f} s {name}", file=sys.stderr)


NOTHING = 1e-13  # differences below this are rounding, whatever the numbers are
SHORT = 1e-6  # tolerance for numbers in float32
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?")


class Difference(NamedTuple):
    """One thing that is not as it was."""

    place: str
    old: Any
    new: Any
    relative: float = np.nan

    def __str__(self) -> str:
        old, new = excerpts(self.old, self.new)
        return f"{self.place}: {old} -> {new}" + (
            "" if np.isnan(self.relative) else f" (relative difference {self.relative:.3g})"
        )


def excerpts(old: Any, new: Any) -> tuple[str, str]:
    """Return two values as short texts, long ones from a little before the place where they begin to differ."""
    texts = repr(old), repr(new)
    if max(map(len, texts)) <= 90:
        return texts
    same = next((i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    first = max(0, same - 20)
    a, b = (f"{'...' * (first > 0)}{text[first : first + 84]}{'...' * (len(text) > first + 84)}" for text in texts)
    return a, b


def apart(old: list[Any], new: list[Any], tol: float) -> tuple[int, float] | None:
    """Return where numbers differ most and by how much, relative to the largest, if that is too much."""
    a, b = np.array(old, dtype=float), np.array(new, dtype=float)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    unlike = odd & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if unlike.any():
        return int(np.flatnonzero(unlike)[0]), np.inf
    gap = np.where(odd, 0.0, np.abs(np.where(odd, 0, a) - np.where(odd, 0, b)))
    scale = max(np.abs(a[~odd]).max(initial=0.0), np.abs(b[~odd]).max(initial=0.0))
    most = int(np.argmax(gap)) if gap.size else 0
    if not gap.size or gap[most] <= tol * scale + NOTHING:
        return None
    return most, float(gap[most] / scale)


def all_numbers(values: Any) -> bool:
    """Whether a list holds numbers and at least one that is not whole."""
    return isinstance(values, list) and all(type(one) in (int, float) for one in values) and any(
        type(one) is float for one in values
    )  # fmt: skip


def differences(old: Any, new: Any, tol: float, place: str = "") -> Iterator[Difference]:
    """Yield all that is not the same in two records."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from dict_differences(old, new, tol, place)
    elif all_numbers(old) and all_numbers(new) and len(old) == len(new):
        worst = apart(old, new, tol)
        if worst is not None:
            at, much = worst
            yield Difference(f"{place}[{at}]", old[at], new[at], much)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield Difference(f"{place}, length", len(old), len(new))
        for i, (a, b) in enumerate(zip(old, new, strict=False)):
            yield from differences(a, b, tol, f"{place}[{i}]")
    elif type(old) is float and type(new) is float:
        worst = apart([old], [new], tol)
        if worst is not None:
            yield Difference(place, old, new, worst[1])
    elif type(old) is not type(new) or old != new:
        yield Difference(place, old, new)


def dict_differences(old: dict[str, Any], new: dict[str, Any], tol: float, place: str) -> Iterator[Difference]:
    """Yield what differs in two dicts: arrays with a tolerance for their type, sources with numbers as numbers."""
    if "source" in old and "source" in new:
        if old["sha256"] != new["sha256"]:
            yield from source_differences(old["source"], new["source"], tol, place)
        return
    tol = max(tol, SHORT) if "float32" in str(old.get("dtype")) else tol
    for key in dict.fromkeys([*old, *new]):
        where = f"{place}, {key}" if place else key
        if key not in new or key not in old:
            yield Difference(where, old.get(key, "not there"), new.get(key, "not there"))
        else:
            yield from differences(old[key], new[key], tol, where)


def source_differences(old: str, new: str, tol: float, place: str) -> Iterator[Difference]:
    """Yield lines of two sources that differ by more than the rounding of their numbers."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) != len(after):
        yield Difference(f"{place}, lines", len(before), len(after))
    for i, (a, b) in enumerate(zip(before, after, strict=False), 1):
        if a != b and NUMBER.split(a) != NUMBER.split(b):
            yield Difference(f"{place}, line {i}", a, b)
        elif a != b:
            worst = apart([float(x) for x in NUMBER.findall(a)], [float(x) for x in NUMBER.findall(b)], tol)
            if worst is not None:
                yield Difference(f"{place}, line {i}", a, b, worst[1])


def compare(before: Path, after: Path, tol: float) -> int:
    """Print one line per difference between two records; return 1 if there is any."""
    old, new = json.loads(before.read_text()), json.loads(after.read_text())
    count = touched = 0
    for name in dict.fromkeys([*old, *new]):
        if name not in old or name not in new:
            found = [Difference("the case", *("stored" if name in one else "missing" for one in (old, new)))]
        else:
            found = list(differences(old[name], new[name], tol))
        for one in found:
            print(f"{name}: {one}")
        count, touched = count + len(found), touched + bool(found)
    print(f"{count} differences in {touched} of {len({*old, *new})} cases (tolerance {tol:g})")
    return int(count > 0)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    storing = commands.add_parser("store", help="run all cases and store what comes out")
    storing.add_argument("file", type=Path)
    storing.add_argument(
        "--only", default="", metavar="PATTERN", help="cases whose name contains it; * and ? may be used"
    )
    comparing = commands.add_parser("compare", help="compare two records; the exit code is 1 if anything differs")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--tol", type=float, default=1e-9, help="relative difference of numbers that is accepted")
    options = parser.parse_args()
    if options.command == "compare":
        return compare(options.old, options.new, options.tol)
    store(options.file, options.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
